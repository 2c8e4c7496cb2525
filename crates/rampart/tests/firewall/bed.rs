//! Two hosts and a firewall between them, in namespaces that go away with the value; programs in them, and connections.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use testkit::namespace::{Background, Namespace};
use testkit::slowness;

/// The host inside.
pub(crate) const INSIDE: &str = "10.81.1.2";
/// The host outside.
pub(crate) const OUTSIDE: &str = "10.81.2.2";

/// What a daemon prints when it is up.
pub(crate) const ANSWERS: &str = "answers on";

/// How long what must come may take on a busy machine: the kernel alone takes some seconds to look a firewall through.
fn patience() -> Duration {
    Duration::from_secs(120) * slowness()
}

/// How long an answer may take on a busy machine: the kernel and the server need it, the firewall does not.
pub(crate) fn answer() -> Duration {
    Duration::from_secs(10) * slowness()
}

/// How long nothing has to come to be called nothing.
fn silence() -> Duration {
    Duration::from_secs(2) * slowness()
}

/// `in` - `e1` firewall `e0` - `out`.
pub(crate) struct Bed {
    /// `in`, `fw` and `out`.
    hosts: [Namespace; 3],
    pub(crate) folder: tempfile::TempDir,
    /// Of the namespace `fw`.
    left: Left,
}

/// What a firewall that nobody took down leaves of a namespace, by its number. It goes with the value.
struct Left(Option<u64>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.map(dataplane::release_namespace);
    }
}

const HOSTS: [&str; 3] = ["in", "fw", "out"];

/// What came of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was opened, and what was sent came back.
    Answered,
    /// A reset, or an ICMP error.
    Refused,
    /// Nothing.
    Silence,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let bed = Self::unjoined();
        bed.join("in", "e1", "10.81.1", "1");
        bed.join("out", "e0", "10.81.2", "2");
        bed
    }

    /// Before anything is joined.
    pub(crate) fn unjoined() -> Self {
        let hosts = HOSTS.map(Namespace::create);
        let number = std::fs::metadata(hosts[1].path()).unwrap().ino();
        Self { hosts, folder: tempfile::tempdir().unwrap(), left: Left(Some(number)) }
    }

    /// Deletes the namespaces as people do, whatever firewall is there.
    pub(crate) fn leave(mut self) {
        self.left.0 = None;
    }

    /// Joins a host with the firewall by a pair of virtual links. Checksums are finished by the hosts: XDP would not.
    pub(crate) fn join(&self, host: &str, interface: &str, net: &str, number: &str) {
        let of_host = self.namespace(host);
        let (own, far) = (format!("02:00:00:00:0{number}:01"), format!("02:00:00:00:0{number}:02"));
        let peer = ["address", &own, "type", "veth", "peer", "name", "x", "address", &far, "netns", &of_host];
        self.ip("fw", &[&["link", "add", interface][..], &peer].concat());
        self.address(host, interface, net, [&own, &far]);
        for (at, dev) in [("fw", interface), (host, "x")] {
            self.host(at).run("ethtool", &["-K", dev, "gro", "on", "tx", "off"]);
        }
    }

    /// Gives both ends of a link their addresses; neighbours are static. The Ethernet addresses are the firewall's and the host's.
    pub(crate) fn address(&self, host: &str, interface: &str, net: &str, [own, far]: [&str; 2]) {
        for (at, dev, end, other, mac) in [("fw", interface, "1", "2", far), (host, "x", "2", "1", own)] {
            self.ip(at, &["address", "add", &format!("{net}.{end}/24"), "dev", dev]);
            self.ip(at, &["link", "set", dev, "up"]);
            self.ip(at, &["neighbour", "replace", &format!("{net}.{other}"), "lladdr", mac, "dev", dev]);
        }
        self.ip(host, &["route", "add", "default", "via", &format!("{net}.1")]);
    }

    pub(crate) fn host(&self, name: &str) -> &Namespace {
        &self.hosts[HOSTS.iter().position(|host| *host == name).unwrap()]
    }

    pub(crate) fn namespace(&self, host: &str) -> String {
        self.host(host).name().to_owned()
    }

    /// `ip` inside.
    pub(crate) fn ip(&self, host: &str, arguments: &[&str]) {
        self.host(host).run("ip", arguments);
    }

    /// Does something inside, on a thread of its own.
    pub(crate) fn inside<T: Send>(&self, host: &str, work: impl FnOnce() -> T + Send) -> T {
        self.host(host).enter(work)
    }

    /// A name server outside that knows nothing below `test` but what is said.
    pub(crate) fn serve_names(&self, words: &[&str]) -> Background {
        let fixed =
            ["--keep-in-foreground", "--conf-file=/dev/null", "--pid-file=", "--user=root", "--no-hosts"];
        let words = [&fixed[..], &["--no-resolv", "--local=/test/"], words].concat();
        Background::start(self.host("out"), "dnsmasq", &words)
    }

    /// A server outside that sends back what it gets, for as long as the test runs.
    pub(crate) fn serve(&self, port: u16) {
        self.serve_at(OUTSIDE, port);
    }

    /// The same at another address of the host outside.
    pub(crate) fn serve_at(&self, address: &str, port: u16) {
        serve(self.inside("out", || TcpListener::bind((address, port)).unwrap()));
    }

    /// A server on the firewall itself: its port.
    pub(crate) fn listen_on_the_firewall(&self) -> u16 {
        let listener = self.inside("fw", || TcpListener::bind("10.81.1.1:0").unwrap());
        let port = listener.local_addr().unwrap().port();
        serve(listener);
        port
    }

    /// Calls it from inside, and asserts what comes of it.
    pub(crate) fn expect_of_the_firewall(&self, port: u16, wanted: Outcome, what: &str) {
        self.expect_at("10.81.1.1", port, wanted, what);
    }

    /// Sets a switch of the firewall's kernel.
    pub(crate) fn sysctl(&self, switch: &str, value: &str) {
        self.inside("fw", || std::fs::write(format!("/proc/sys/{switch}"), value).unwrap());
    }

    /// A connection from inside.
    pub(crate) fn connect(&self, port: u16) -> Result<TcpStream, Outcome> {
        self.connect_to(OUTSIDE, port, answer())
    }

    /// A host's own namespace.
    pub(crate) fn host_of(&self, name: &str) -> &Namespace {
        self.host(name)
    }

    fn connect_to(&self, address: &str, port: u16, within: Duration) -> Result<TcpStream, Outcome> {
        let to: SocketAddr = format!("{address}:{port}").parse().unwrap();
        let stream = self.inside("in", || TcpStream::connect_timeout(&to, within));
        stream.map_err(
            |error| if error.kind() == ErrorKind::TimedOut { Outcome::Silence } else { Outcome::Refused },
        )
    }

    /// Opens a connection, sends, and waits for the answer.
    pub(crate) fn call(&self, port: u16) -> Outcome {
        self.call_within(OUTSIDE, port, silence())
    }

    fn call_within(&self, address: &str, port: u16, within: Duration) -> Outcome {
        let stream = self.connect_to(address, port, within);
        stream.map_or_else(|outcome| outcome, |mut stream| echo_within(&mut stream, within))
    }

    /// Calls once and asserts what comes of it. Nothing is nothing after a while; what must come has time.
    pub(crate) fn expect(&self, port: u16, wanted: Outcome, what: &str) {
        self.expect_at(OUTSIDE, port, wanted, what);
    }

    /// The same at any address.
    pub(crate) fn expect_at(&self, address: &str, port: u16, wanted: Outcome, what: &str) {
        let within = if wanted == Outcome::Silence { silence() } else { answer() };
        assert_eq!(self.call_within(address, port, within), wanted, "{what}: {address}:{port}");
    }

    /// Calls until this comes of it.
    pub(crate) fn until_call(&self, port: u16, wanted: Outcome) {
        let deadline = Instant::now() + patience();
        loop {
            let outcome = self.call(port);
            if outcome == wanted {
                return;
            }
            assert!(Instant::now() < deadline, "port {port}: {outcome:?} and never {wanted:?}");
        }
    }

    /// Writes a policy.
    pub(crate) fn policy(&self, name: &str, rules: &str) -> String {
        let path = self.folder.path().join(name);
        let zones = "[zones]\ninside = { interfaces = 'e1' }\noutside = { interfaces = 'e0' }\n";
        std::fs::write(&path, format!("{zones}{rules}")).unwrap();
        path.display().to_string()
    }

    /// `rampart` in the firewall's namespace: its status, and what it printed.
    pub(crate) fn rampart(&self, arguments: &[&str]) -> (i32, String) {
        self.rampart_given("/dev/null", arguments)
    }

    /// The same, with a file as standard input.
    pub(crate) fn rampart_given(&self, file: &str, arguments: &[&str]) -> (i32, String) {
        let namespace = self.namespace("fw");
        let program = env!("CARGO_BIN_EXE_rampart");
        let all = [&["netns", "exec", &namespace, program], arguments].concat();
        let input = std::fs::File::open(file).unwrap();
        let done = Command::new("ip").args(all).stdin(input).output().unwrap();
        let text = [done.stdout, done.stderr].concat();
        (done.status.code().unwrap(), String::from_utf8(text).unwrap())
    }

    /// Where the bed's firewalls keep their policies.
    pub(crate) fn state(&self) -> std::path::PathBuf {
        self.folder.path().join("state")
    }

    /// A command that must end well, as JSON.
    pub(crate) fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let (status, text) = self.rampart(&[arguments, &["--json"]].concat());
        assert_eq!(status, 0, "{arguments:?}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Packets that were dropped for a reason.
    pub(crate) fn dropped(&self, reason: &str) -> u64 {
        let drops = self.json(&["drops"]);
        let of =
            |drop: &serde_json::Value| (drop["reason"] == reason).then(|| drop["packets"].as_u64().unwrap());
        drops["drops"].as_array().unwrap().iter().find_map(of).unwrap_or(0)
    }

    /// What the data plane has counted under a name, as `status` says.
    pub(crate) fn counted(&self, name: &str) -> u64 {
        let status = self.json(&["status"]);
        let of = |it: &serde_json::Value| (it["name"] == name).then(|| it["count"].as_u64().unwrap());
        status["counters"].as_array().unwrap().iter().find_map(of).unwrap()
    }

    /// `rampart up`, once it answers.
    pub(crate) fn up(&self, policy: &str, hook: &str) -> Firewall {
        self.up_with(&[policy, "--hook", hook])
    }

    /// The same with other arguments. Policies are kept in the bed's folder.
    pub(crate) fn up_with(&self, arguments: &[&str]) -> Firewall {
        let mut firewall = self.start_up(arguments);
        firewall.start = firewall.until(ANSWERS);
        firewall
    }

    /// The same, before it answers.
    pub(crate) fn start_up(&self, arguments: &[&str]) -> Firewall {
        let state = self.state().display().to_string();
        self.start(&[&[env!("CARGO_BIN_EXE_rampart"), "up", "--state", &state], arguments].concat())
    }

    /// The same with a disk for the policies that holds so many bytes, and that goes with the daemon.
    pub(crate) fn up_on_a_disk_of(&self, bytes: u32, policy: &str) -> Firewall {
        let (state, program) = (self.state(), env!("CARGO_BIN_EXE_rampart"));
        std::fs::create_dir(&state).unwrap();
        let state = state.display();
        // `ip netns exec` has made a mount namespace of its own.
        let script = format!(
            "mount -t tmpfs -o size={bytes},mode=700 none {state} && exec {program} up --state {state} {policy}"
        );
        let mut firewall = self.start(&["sh", "-c", &script]);
        firewall.start = firewall.until(ANSWERS);
        firewall
    }

    /// A program in the firewall's namespace that is a daemon sooner or later.
    pub(crate) fn start(&self, command: &[&str]) -> Firewall {
        let namespace = self.namespace("fw");
        let mut child = Command::new("ip")
            // The heap grows by what it needs. By itself the C library takes 132 KiB at a time, and whoever looks for leaks would see steps.
            .env("GLIBC_TUNABLES", "glibc.malloc.top_pad=0")
            .args(["netns", "exec", &namespace])
            .args(command)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let out = child.stdout.take().unwrap();
        Firewall { child, output: lines(out), start: String::new() }
    }
}

/// Waits for what must come to be.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < patience(), "{what}: never");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Sends back what comes, for as long as the test runs.
pub(crate) fn serve(listener: TcpListener) {
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut byte = [0];
                while stream.read(&mut byte).is_ok_and(|n| n == 1) && stream.write_all(&byte).is_ok() {}
            });
        }
    });
}

/// Sends a byte, which must come back.
pub(crate) fn expect_echo(stream: &mut TcpStream, what: &str) {
    assert_eq!(echo_within(stream, answer()), Outcome::Answered, "{what}");
}

/// Sends a byte, which must not come back.
pub(crate) fn expect_no_echo(stream: &mut TcpStream, what: &str) {
    assert_ne!(echo_within(stream, silence()), Outcome::Answered, "{what}");
}

/// A connection from a host, at any address; what comes of it.
pub(crate) fn expect_from(from: &Namespace, to: &str, wanted: Outcome, what: &str) {
    let within = if wanted == Outcome::Silence { silence() } else { answer() };
    let to: SocketAddr = to.parse().unwrap();
    let outcome = match from.enter(|| TcpStream::connect_timeout(&to, within)) {
        Ok(mut stream) => echo_within(&mut stream, within),
        Err(error) if error.kind() == ErrorKind::TimedOut => Outcome::Silence,
        Err(_) => Outcome::Refused,
    };
    assert_eq!(outcome, wanted, "{what}: {to}");
}

/// A host's socket of the family of an address.
pub(crate) fn socket_for(host: &Namespace, to: SocketAddr) -> UdpSocket {
    let any: SocketAddr = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().unwrap();
    host.enter(|| UdpSocket::bind(any).unwrap())
}

/// A datagram that no rule allows: it is dropped, and nothing comes back.
pub(crate) fn expect_denied(bed: &Bed, from: &Namespace, to: SocketAddr, what: &str) {
    let before = bed.dropped("default-deny");
    let socket = socket_for(from, to);
    // The firewall's own is refused in its own stack.
    let _ = socket.send_to(b"x", to);
    until(&format!("{what}: {to} is dropped"), || bed.dropped("default-deny") > before);
    socket.set_nonblocking(true).unwrap();
    assert_eq!(socket.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "{what}: {to}");
}

pub(crate) fn echo_within(stream: &mut TcpStream, within: Duration) -> Outcome {
    stream.set_read_timeout(Some(within)).unwrap();
    let mut byte = [0];
    match stream.write_all(b"x").and_then(|()| stream.read_exact(&mut byte)) {
        Ok(()) => Outcome::Answered,
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Outcome::Silence,
        Err(_) => Outcome::Refused,
    }
}

/// A running daemon, ended with the value.
pub(crate) struct Firewall {
    pub(crate) child: Child,
    output: mpsc::Receiver<String>,
    /// What it printed until it answered.
    pub(crate) start: String,
}

impl Firewall {
    /// Waits for a line with these words; everything printed up to it.
    pub(crate) fn until(&mut self, words: &str) -> String {
        let mut output = String::new();
        while !output.contains(words) {
            let line = self.output.recv_timeout(patience());
            output += &line.unwrap_or_else(|_| panic!("{words:?} was not printed: {output}"));
            output.push('\n');
        }
        output
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn end(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Firewall {
    fn drop(&mut self) {
        if self.child.try_wait().ok().flatten().is_none() {
            self.signal(nix::sys::signal::Signal::SIGTERM);
            let _ = self.child.wait();
        }
    }
}

fn lines(out: ChildStdout) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        BufReader::new(out).lines().map_while(Result::ok).all(|line| sender.send(line).is_ok());
    });
    receiver
}
