//! Network namespaces with unique names, removed when dropped, and programs in them.

use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A network namespace. It is removed when this is dropped, also while a test panics.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: File,
}

/// Settings below `/proc/sys/net` in which nobody waits for addresses to be looked at, asks for routers, or forwards.
const QUIET: [(&str, &str); 7] = [
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/router_solicitations", "0"),
    ("ipv6/conf/all/accept_ra", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/ip_forward", "0"),
];

impl Namespace {
    /// A new namespace, `rt-PID-NUMBER-ROLE`, with its loopback interface up and IPv6 that is ready at once.
    pub fn create(role: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        crate::must_be_root();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("rt-{}-{number}-{role}", std::process::id());
        run("ip", &["netns", "add", &name]);
        let file = File::open(format!("/run/netns/{name}")).unwrap();
        let namespace = Self { name, file };
        namespace.set(&QUIET);
        namespace.ip("link set lo up");
        namespace
    }

    /// The name that `ip netns` shows.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its file, which `ip link add … netns` takes.
    pub fn path(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.name)
    }

    /// Runs `work` on a thread inside; a panic goes on in the caller.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                setns(&self.file, CloneFlags::CLONE_NEWNET).unwrap();
                work()
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Does `work` inside on this thread, for what cannot be sent to another one, and comes back.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Back(File);
        impl Drop for Back {
            fn drop(&mut self) {
                // Whoever goes on in the wrong namespace would break the machine's own network.
                setns(&self.0, CloneFlags::CLONE_NEWNET).expect("the namespace that we came from");
            }
        }
        let _back = Back(File::open("/proc/thread-self/ns/net").unwrap());
        setns(&self.file, CloneFlags::CLONE_NEWNET).unwrap();
        work()
    }

    /// Lines for `ip`, one command each.
    pub fn ip(&self, lines: &str) {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            self.run("ip", &words);
        }
    }

    /// Runs a program inside and gives what it printed.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        self.enter(|| run(program, arguments))
    }

    /// Settings below `/proc/sys/net`.
    pub fn set(&self, settings: &[(&str, &str)]) {
        self.enter(|| {
            for (name, value) in settings {
                std::fs::write(format!("/proc/sys/net/{name}"), value)
                    .unwrap_or_else(|e| panic!("{name}: {e}"));
            }
        });
    }

    /// The number of an interface.
    pub fn ifindex(&self, device: &str) -> u32 {
        let text = self.run("ip", &["-o", "link", "show", "dev", device]);
        text.split(':').next().unwrap().parse().unwrap()
    }

    /// Rules for `nft`, as in a file.
    pub fn nft(&self, rules: &str) {
        let mut command = Command::new("nft");
        command.args(["-f", "-"]).stdin(Stdio::piped());
        let mut nft = self.enter(|| command.spawn()).unwrap();
        nft.stdin.take().unwrap().write_all(rules.as_bytes()).unwrap();
        assert!(nft.wait().unwrap().success(), "nft refused\n{rules}");
    }

    /// Lets the ends of veth pairs take redirected frames although they run no XDP program: they must poll.
    pub fn take_redirected(&self, device: &str) {
        self.run("ethtool", &["-K", device, "gro", "on"]);
    }

    /// Has a device put VLAN tags into the frame. Beside it no XDP program would see them.
    pub fn put_tags_into_frames(&self, device: &str) {
        self.run("ethtool", &["-K", device, "txvlan", "off", "tx-vlan-stag-hw-insert", "off"]);
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Nothing to be done about a failure while a panic unwinds.
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

/// Runs a program and gives its output.
///
/// # Panics
/// If it cannot be started or fails, with what it said.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = attempt(program, arguments);
    assert!(output.status.success(), "{program} {}: {}", arguments.join(" "), said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Copies a program that is to be started. Not by this process: whatever another test starts at that moment has the copy open for writing, and
/// a file that somebody writes cannot be started.
///
/// # Panics
/// If it cannot be copied.
pub fn copy_program(from: &str, to: &Path) {
    run("cp", &[from, to.to_str().unwrap()]);
}

/// Runs a program that may fail.
///
/// # Panics
/// If it cannot be started.
pub fn attempt(program: &str, arguments: &[&str]) -> Output {
    let command = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    command.unwrap_or_else(|e| panic!("{program}: {e}; `make prepare` installs what the tests need"))
}

/// What a program printed, errors last.
pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A program in the background, killed when this is dropped.
#[derive(Debug)]
pub struct Background(Child);

impl Background {
    /// Starts a program inside, with its output thrown away.
    pub fn start(namespace: &Namespace, program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = namespace.enter(|| command.spawn());
        Self(child.unwrap_or_else(|e| panic!("{program}: {e}; `make prepare` installs what the tests need")))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
