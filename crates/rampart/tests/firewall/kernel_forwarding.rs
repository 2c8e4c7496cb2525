//! `forwarding = "kernel"` between real stacks: the kernel routes and translates by nftables, and the firewall says what may pass.
//! IPv4 and IPv6. Where it is asked about one packet at a time: crates/dataplane/tests/netfilter.rs.

use crate::bed::{
    Bed, Firewall, Outcome, answer, expect_echo, expect_from, expect_no_echo, serve, socket_for, until,
};
use nix::errno::Errno;
use nix::sys::signal::Signal;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Instant;
use testkit::namespace::Namespace;

const FAMILIES: [Addresses; 2] = [
    Addresses {
        inside: "10.81.1.2",
        own_inside: "10.81.1.1",
        outside: "10.81.2.2",
        own: "10.81.2.1",
        container: "172.30.0.2",
    },
    Addresses {
        inside: "[fd81:1::2]",
        own_inside: "[fd81:1::1]",
        outside: "[fd81:2::2]",
        own: "[fd81:2::1]",
        container: "[fd30::2]",
    },
];

/// As they stand before a port.
struct Addresses {
    inside: &'static str,
    own_inside: &'static str,
    outside: &'static str,
    own: &'static str,
    container: &'static str,
}

/// As container runtimes write it: what containers send goes out under our address, and ports of ours lead to theirs. The same for
/// the network inside.
const TRANSLATION: &str = "
    table inet nat {
        chain prerouting {
            type nat hook prerouting priority dstnat;
            fib daddr type local meta nfproto ipv4 tcp dport 8080 dnat ip to 172.30.0.2:80
            fib daddr type local meta nfproto ipv4 tcp dport 8081 dnat ip to 172.30.0.2:81
            fib daddr type local meta nfproto ipv6 tcp dport 8080 dnat ip6 to [fd30::2]:80
            fib daddr type local meta nfproto ipv6 tcp dport 8081 dnat ip6 to [fd30::2]:81
        }
        chain output {
            type nat hook output priority -100;
            fib daddr type local meta nfproto ipv4 tcp dport 8080 dnat ip to 172.30.0.2:80
            fib daddr type local meta nfproto ipv6 tcp dport 8080 dnat ip6 to [fd30::2]:80
        }
        chain postrouting {
            type nat hook postrouting priority srcnat;
            ip saddr { 10.81.1.0/24, 172.30.0.0/24 } oifname e0 masquerade
            ip6 saddr { fd81:1::/64, fd30::/64 } oifname e0 masquerade
        }
    }";

/// The bed with IPv6, a kernel that forwards, translation, and a container behind a bridge. Hosts outside know no way back inside.
fn bed() -> (Bed, Namespace) {
    let bed = Bed::new();
    let container = Namespace::create("container");
    let peer = container.name();
    bed.host_of("fw").ip(&format!(
        "link add br0 type bridge
         link add veth0 type veth peer name eth0 netns {peer}
         link set veth0 master br0
         link set veth0 up
         link set br0 up
         address add 172.30.0.1/24 dev br0
         address add fd30::1/64 dev br0 nodad
         address add fd81:1::1/64 dev e1 nodad
         address add fd81:2::1/64 dev e0 nodad"
    ));
    container.ip("address add 172.30.0.2/24 dev eth0
         address add fd30::2/64 dev eth0 nodad
         link set eth0 up
         route add default via 172.30.0.1
         -6 route add default via fd30::1");
    bed.host_of("in").ip("address add fd81:1::2/64 dev x nodad\n-6 route add default via fd81:1::1");
    bed.host_of("out").ip("address add fd81:2::2/64 dev x nodad\nroute del default");
    bed.host_of("fw").run("nft", &[TRANSLATION]);
    bed.sysctl("net/ipv4/ip_forward", "1");
    bed.sysctl("net/ipv6/conf/all/forwarding", "1");
    for addresses in FAMILIES {
        for (host, address, ports) in [
            (bed.host_of("out"), addresses.outside, [9000, 9001]),
            (bed.host_of("in"), addresses.inside, [9000, 9001]),
            (&container, addresses.container, [80, 81]),
            (bed.host_of("fw"), addresses.own, [22, 23]),
        ] {
            for port in ports {
                serve(host.enter(|| TcpListener::bind(format!("{address}:{port}")).unwrap()));
            }
        }
    }
    (bed, container)
}

const RULES: &str = "
    [settings]
    forwarding = 'kernel'
    [zones]
    inside = { interfaces = 'e1', networks = ['10.81.1.0/24', 'fd81:1::/64'] }
    outside = { interfaces = 'e0' }
    containers = { interfaces = 'br0', networks = ['172.30.0.0/24', 'fd30::/64'] }
    [[rules]]
    name = 'out'
    from = ['inside', 'containers']
    to = 'outside'
    service = 'tcp/9000'
    action = 'allow'
    [[rules]]
    name = 'published'
    from = ['outside', 'self']
    to = 'containers'
    service = 'tcp/80'
    action = 'allow'
    [[rules]]
    name = 'ssh'
    from = 'outside'
    to = 'self'
    service = 'tcp/22'
    action = 'allow'
    [[rules]]
    name = 'own'
    from = 'self'
    to = 'outside'
    action = 'allow'
";

/// A firewall that is taken down with the value: what outlives its daemon holds the network namespace.
struct Up<'b> {
    bed: &'b Bed,
    daemon: Firewall,
}

fn up<'b>(bed: &'b Bed, policy: &str) -> Up<'b> {
    Up { bed, daemon: bed.up(policy, "auto") }
}

impl Drop for Up<'_> {
    fn drop(&mut self) {
        let (status, said) = self.bed.rampart(&["down"]);
        assert!(std::thread::panicking() || status == 0, "{said}");
    }
}

fn write(bed: &Bed, name: &str, text: &str) -> String {
    let path = bed.folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn expect_all(bed: &Bed, container: &Namespace, what: &str) {
    use Outcome::{Answered, Silence};
    let (inside, outside, own) = (bed.host_of("in"), bed.host_of("out"), bed.host_of("fw"));
    for Addresses { inside: in_, own_inside, outside: out, own: fw, container: box_ } in FAMILIES {
        for (from, to, wanted, why) in [
            (inside, format!("{out}:9000"), Answered, "masqueraded"),
            (inside, format!("{out}:9001"), Silence, "denied before it is masqueraded"),
            (container, format!("{out}:9000"), Answered, "a container goes out"),
            (container, format!("{out}:9001"), Silence, "a container's other port"),
            (container, format!("{in_}:9000"), Silence, "a container to the inside"),
            (inside, format!("{box_}:80"), Silence, "the inside to a container"),
            (outside, format!("{fw}:8080"), Answered, "a published port"),
            (outside, format!("{fw}:8081"), Silence, "translated, and denied where it leads"),
            (outside, format!("{fw}:22"), Answered, "the machine's own port"),
            (outside, format!("{fw}:23"), Silence, "the machine's other port"),
            (inside, format!("{own_inside}:22"), Silence, "the machine from the inside"),
            (own, format!("{out}:9001"), Answered, "the machine goes out"),
            (own, format!("{fw}:22"), Answered, "the machine to itself"),
            (own, format!("{fw}:8080"), Answered, "its own published port, translated on its way out"),
            (own, format!("{in_}:9000"), Silence, "the machine to the inside"),
        ] {
            expect_from(from, &to, wanted, &format!("{what}, {why}"));
        }
    }
}

/// Sends so many bytes to whoever asks.
fn serve_download(listener: TcpListener, bytes: usize) {
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || stream.write_all(&content(bytes)));
        }
    });
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Behind the kernel's masquerade, who sends to a neighbour that does not answer hears it.
fn expect_dead_next_hops(bed: &Bed, what: &str) {
    for dead in ["10.81.2.99:9000", "[fd81:2::99]:9000"] {
        let dead: SocketAddr = dead.parse().unwrap();
        let error = bed.inside("in", || TcpStream::connect_timeout(&dead, answer()).unwrap_err());
        assert_eq!(error.raw_os_error(), Some(Errno::EHOSTUNREACH as i32), "{what}, {dead}");
    }
}

#[test]
fn needs_root_containers_masquerade_and_published_ports_go_through_the_kernel() {
    let (bed, container) = bed();
    for family in ["ipv4", "ipv6"] {
        bed.sysctl(&format!("net/{family}/neigh/e0/retrans_time_ms"), "300");
    }
    expect_dead_next_hops(&bed, "before the firewall");
    let policy = write(&bed, "kernel.toml", RULES);
    let firewall = up(&bed, &policy);
    expect_dead_next_hops(&bed, "with the firewall");
    let status = bed.json(&["status"]);
    assert!(status["interfaces"].as_array().unwrap().iter().all(|at| at["hook"] == "netfilter"), "{status}");
    expect_all(&bed, &container, "at first");
    assert!(bed.dropped("default-deny") > 0);
    // One flow for both directions of a translated connection, by its true ends.
    let flows = bed.json(&["flows", "dport=80", "from=outside"]);
    let flows = flows["flows"].as_array().unwrap().clone();
    assert!(
        !flows.is_empty() && flows.iter().all(|flow| flow["packets_back"].as_u64() > Some(0)),
        "{flows:?}"
    );
    drop(firewall);
    // Down: the kernel goes on by itself.
    expect_from(bed.host_of("in"), "10.81.2.2:9001", Outcome::Answered, "down");
}

#[test]
fn needs_root_downloads_under_masquerade_are_whole() {
    const BYTES: usize = 4_000_000;
    let (bed, _container) = bed();
    let _firewall = up(&bed, &write(&bed, "kernel.toml", &RULES.replace("tcp/9000", "tcp/9100")));
    for Addresses { outside, .. } in FAMILIES {
        let listener = bed.inside("out", || TcpListener::bind(format!("{outside}:9100")).unwrap());
        serve_download(listener, BYTES);
        let downloads: Vec<_> = (0..10)
            .map(|_| {
                let mut stream = bed.inside("in", || TcpStream::connect(format!("{outside}:9100")).unwrap());
                std::thread::spawn(move || {
                    let mut all = Vec::new();
                    stream.read_to_end(&mut all).map(|_| all)
                })
            })
            .collect();
        for download in downloads {
            assert!(download.join().unwrap().unwrap() == content(BYTES), "{outside}");
        }
    }
}

#[test]
fn needs_root_a_killed_daemon_leaves_its_policy_and_the_next_takes_its_place() {
    let (bed, container) = bed();
    let policy = write(&bed, "kernel.toml", RULES);
    let mut firewall = up(&bed, &policy);
    let mut open = bed.inside("in", || TcpStream::connect("10.81.2.2:9000").unwrap());
    expect_echo(&mut open, "before");
    firewall.daemon.signal(Signal::SIGKILL);
    firewall.daemon.end();
    expect_echo(&mut open, "after the daemon's death");
    expect_all(&bed, &container, "the daemon is dead");
    firewall.daemon = bed.up(&policy, "auto");
    expect_echo(&mut open, "under the next daemon");
    let other = write(&bed, "other.toml", &RULES.replace("tcp/9000", "tcp/9001"));
    assert_eq!(bed.rampart(&["apply", &other]).0, 0);
    expect_no_echo(&mut open, "under a policy that denies it");
    expect_from(bed.host_of("in"), "10.81.2.2:9001", Outcome::Answered, "the next policy");
    expect_from(bed.host_of("in"), "10.81.2.2:9000", Outcome::Silence, "the next policy");
    let fast = write(&bed, "fast.toml", &RULES.replace("'kernel'", "'fast'"));
    let (status, said) = bed.rampart(&["apply", &fast]);
    assert!(status == 2 && said.contains("`forwarding` of [settings] is fast"), "{status}: {said}");
    drop(firewall);
    for port in [9000, 9001] {
        expect_from(bed.host_of("in"), &format!("10.81.2.2:{port}"), Outcome::Answered, "nothing is left");
    }
}

#[test]
fn needs_root_an_interface_of_no_zone_is_closed() {
    let (bed, container) = bed();
    let without = RULES.replace("containers = {", "# ").replace("['inside', 'containers']", "'inside'");
    let without = without.replace("to = 'containers'", "to = 'inside'");
    let _firewall = up(&bed, &write(&bed, "without.toml", &without));
    for Addresses { inside, outside, own, .. } in FAMILIES {
        let before = [bed.dropped("no-zone"), bed.dropped("not-a-port")];
        // Over IPv6 they do not even find the machine: neighbour discovery is closed too, and says so.
        let closed = if outside.starts_with('[') { Outcome::Refused } else { Outcome::Silence };
        expect_from(&container, &format!("{outside}:9000"), closed, "from no zone");
        expect_from(&container, &format!("{own}:22"), closed, "from no zone to the machine");
        expect_from(&container, &format!("{inside}:9000"), closed, "from no zone to the inside");
        expect_from(bed.host_of("out"), &format!("{own}:8080"), Outcome::Silence, "to no zone");
        assert!(bed.dropped("no-zone") >= before[0] + 3 && bed.dropped("not-a-port") > before[1]);
        expect_from(bed.host_of("in"), &format!("{outside}:9000"), Outcome::Answered, "between zones");
    }
}

#[test]
fn needs_root_a_server_guards_itself() {
    let (bed, _container) = bed();
    bed.sysctl("net/ipv4/ip_forward", "0");
    let policy = "
        [settings]
        forwarding = 'kernel'
        [zones]
        net = { interfaces = 'e0' }
        [[rules]]
        name = 'ssh'
        from = 'net'
        to = 'self'
        service = ['tcp/22', 'ping', 'icmpv6/echo-request']
        action = 'allow'
        [[rules]]
        name = 'out'
        from = 'self'
        to = 'net'
        service = 'tcp/9000'
        action = 'allow'
        [[rules]]
        name = 'ident'
        from = 'net'
        to = 'self'
        service = 'tcp/113'
        action = 'reject'
    ";
    let _firewall = up(&bed, &write(&bed, "server.toml", policy));
    for Addresses { outside, own, .. } in FAMILIES {
        let (out, fw) = (bed.host_of("out"), bed.host_of("fw"));
        expect_from(out, &format!("{own}:22"), Outcome::Answered, "allowed in");
        expect_from(out, &format!("{own}:23"), Outcome::Silence, "not allowed in");
        expect_from(out, &format!("{own}:113"), Outcome::Refused, "rejected");
        expect_from(fw, &format!("{outside}:9000"), Outcome::Answered, "allowed out");
        expect_from(fw, &format!("{outside}:9001"), Outcome::Silence, "not allowed out");
        expect_from(fw, &format!("{own}:23"), Outcome::Answered, "to itself");
    }
}

/// What refuses ports of all three kinds of destination, with an answer.
const REFUSING: &str = "
    [[rules]]
    name = 'refused'
    from = ['inside', 'outside']
    to = ['self', 'outside', 'containers']
    service = ['tcp/23', 'udp/23', 'tcp/81', 'udp/81', 'tcp/9001', 'udp/9001']
    action = 'reject'
    [[rules]]
    name = 'refused-to-itself'
    from = 'self'
    to = 'containers'
    service = ['tcp/81', 'udp/81']
    action = 'reject'
";

/// The same of nftables; and a datagram's port that leads to the container.
const REFUSING_NFTABLES: &str = "
    table inet refusing {
        chain forward {
            type filter hook forward priority 0;
            tcp dport { 81, 9001 } reject with tcp reset
            udp dport { 81, 9001 } reject with icmpx admin-prohibited
        }
        chain input {
            type filter hook input priority 0;
            tcp dport 23 reject with tcp reset
            udp dport 23 reject with icmpx admin-prohibited
        }
        chain output {
            type filter hook output priority 0;
            tcp dport 81 reject with tcp reset
            udp dport 81 reject with icmpx admin-prohibited
        }
    }";
const PUBLISHED_DATAGRAMS: &str = "
    table inet nat {
        chain prerouting {
            fib daddr type local meta nfproto ipv4 udp dport 8081 dnat ip to 172.30.0.2:81
            fib daddr type local meta nfproto ipv6 udp dport 8081 dnat ip6 to [fd30::2]:81
        }
    }";

/// The numbers of the errors that a connection and a datagram from a host meet; none if nothing comes back.
pub(crate) fn errors_of(host: &Namespace, to: &str) -> [Option<i32>; 2] {
    let to: SocketAddr = to.parse().unwrap();
    let connected = host.enter(|| TcpStream::connect_timeout(&to, answer())).map(drop);
    let socket = socket_for(host, to);
    socket.set_read_timeout(Some(answer())).unwrap();
    let heard = socket.connect(to).and_then(|()| socket.send(b"x")).and_then(|_| socket.recv(&mut [0]));
    // A time that is over is no error of the network.
    let of = |error: std::io::Error| error.raw_os_error().filter(|number| *number != Errno::EAGAIN as i32);
    [connected.err().and_then(of), heard.err().and_then(of)]
}

#[test]
fn needs_root_what_is_refused_is_answered_as_nftables_does() {
    let (bed, _container) = bed();
    bed.host_of("fw").nft(PUBLISHED_DATAGRAMS);
    let policy = write(&bed, "refusing.toml", &format!("{RULES}{REFUSING}"));
    let asked = |by: &str| {
        for Addresses { inside, own_inside, outside, own, container } in FAMILIES {
            let prohibited = if inside.starts_with('[') { Errno::EACCES } else { Errno::EHOSTUNREACH };
            for (host, to, what) in [
                ("in", format!("{outside}:9001"), "forwarded, and masqueraded if it were allowed"),
                ("in", format!("{own_inside}:23"), "to the machine"),
                ("out", format!("{own}:8081"), "to a published port, by the name that was asked"),
                ("out", format!("{own}:23"), "to the machine from outside"),
            ] {
                let wanted = [Errno::ECONNREFUSED, prohibited].map(|error| Some(error as i32));
                assert_eq!(errors_of(bed.host_of(host), &to), wanted, "{by}: {what}, {to}");
            }
            // A program on the machine hears of its datagram before any answer comes.
            let wanted = [Errno::ECONNREFUSED, Errno::EPERM].map(|error| Some(error as i32));
            let to = format!("{container}:81");
            assert_eq!(errors_of(bed.host_of("fw"), &to), wanted, "{by}: from the machine itself, {to}");
        }
    };
    bed.host_of("fw").nft(REFUSING_NFTABLES);
    asked("nftables");
    bed.host_of("fw").run("nft", &["delete table inet refusing"]);
    let mut firewall = up(&bed, &policy);
    asked("rampart");
    until("all are answered", || bed.counted("answered") == 20);
    assert_eq!(bed.dropped("rule-reject"), 20, "a packet that is answered is dropped once");
    firewall.daemon.signal(Signal::SIGKILL);
    firewall.daemon.end();
    firewall.daemon = bed.up(&policy, "auto");
    asked("the next daemon");
}

/// A flood has as many answers as one core may send, and the rest is counted.
#[test]
fn needs_root_answers_to_a_flood_are_limited() {
    const DATAGRAMS: u64 = 20_000;
    /// `answer_interval` and `answer_burst` of ICMP errors, in answers and answers a second.
    const BURST: u64 = 100;
    const A_SECOND: f64 = 1_000.0;
    let (bed, _container) = bed();
    let _firewall = up(&bed, &write(&bed, "refusing.toml", &format!("{RULES}{REFUSING}")));
    let begun = Instant::now();
    bed.inside("in", || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        for _ in 0..DATAGRAMS {
            // An error that came back is heard here, and the datagram is not sent: once more.
            while socket.send_to(b"x", "10.81.2.2:9001").is_err() {}
        }
    });
    until("all are dropped", || bed.dropped("rule-reject") >= DATAGRAMS);
    let most = BURST + (begun.elapsed().as_secs_f64() * A_SECOND) as u64 + 1;
    let (answered, suppressed) = (bed.counted("answered"), bed.counted("answers-suppressed"));
    assert!(answered > 0 && answered <= most, "{answered} answers, and {most} at most");
    assert!(suppressed >= DATAGRAMS - most, "{suppressed} suppressed, {answered} answered");
}

/// What its kernel does to a packet on its way, the firewall does not take for a fault: it writes over what is behind the end of IPv4's options, and
/// changes the checksum later.
#[test]
fn needs_root_bytes_behind_the_end_of_options_are_no_wrong_checksum() {
    const SEND: &str = r#"
import socket, struct
options = bytes.fromhex("00830704")
header = struct.pack("!BBHHHBBH4s4s", 0x46, 0, 36, 1, 0, 64, 17, 0, socket.inet_aton("10.81.1.2"), socket.inet_aton("10.81.2.2")) + options
total = sum(struct.unpack("!12H", header))
while total >> 16: total = (total & 0xffff) + (total >> 16)
packet = header[:10] + struct.pack("!H", ~total & 0xffff) + header[12:] + struct.pack("!HHHH4s", 5, 9000, 12, 0, b"here")
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(("x", 0))
out.send(bytes.fromhex("020000000101" "020000000102" "0800") + packet)
"#;
    let (bed, _container) = bed();
    let _firewall = up(&bed, &write(&bed, "kernel.toml", &RULES.replace("'tcp/9000'", "'udp/9000'")));
    let socket = bed.inside("out", || UdpSocket::bind("10.81.2.2:9000").unwrap());
    socket.set_read_timeout(Some(answer())).unwrap();
    bed.host_of("in").run("python3", &["-c", SEND]);
    let mut heard = [0; 8];
    let length =
        socket.recv(&mut heard).unwrap_or_else(|error| panic!("{error}: {:?}", bed.json(&["drops"])));
    assert_eq!(&heard[..length], b"here");
}

/// Sends a frame by an interface.
const SEND_FRAME: &str = r#"
import socket, sys
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(("x", 0))
out.send(bytes.fromhex(sys.argv[1]))
"#;

/// What connection tracking calls invalid the kernel does not translate: it would leave with the address that it has inside. Where the kernel does not
/// translate, the policy alone says what passes.
#[test]
fn needs_root_what_the_kernel_does_not_track_does_not_leave_untranslated() {
    let (bed, container) = bed();
    let rules = RULES
        .replace("'tcp/9000'", "'udp/9000'")
        .replace("to = 'outside'\n    service = 'udp", "to = ['outside', 'containers']\n    service = 'udp");
    let _firewall = up(&bed, &write(&bed, "kernel.toml", &rules));
    for Addresses { inside, outside, own, container: within, .. } in FAMILIES {
        for (host, server, seen_from) in [(bed.host_of("out"), outside, own), (&container, within, inside)] {
            let listening = host.enter(|| UdpSocket::bind(format!("{server}:9000")).unwrap());
            let asking = bed.inside("in", || UdpSocket::bind(format!("{inside}:5")).unwrap());
            for socket in [&listening, &asking] {
                socket.set_read_timeout(Some(answer())).unwrap();
            }
            let mut heard = [0; 8];
            asking.send_to(b"asked", format!("{server}:9000")).unwrap();
            let (_, from) = listening.recv_from(&mut heard).unwrap();
            let name = seen_from.trim_matches(['[', ']']);
            assert_eq!(from.ip().to_string(), name, "{server}");
            listening.send_to(b"said", from).unwrap();
            assert_eq!(asking.recv(&mut heard).unwrap(), 4, "{server}");
            let [source, to] = [inside, server].map(|end| end.trim_matches(['[', ']']));
            let stray = testkit::packet::frame(&format!(
                "{source} > {to} to=02:00:00:00:01:01 udp 5>9000 data=3 bad-sum"
            ));
            let hex: String = stray.iter().map(|byte| format!("{byte:02x}")).collect();
            let counted = || [bed.dropped("untranslatable"), bed.counted("forwarded")];
            let before = counted();
            bed.host_of("in").run("python3", &["-c", SEND_FRAME, &hex]);
            until("the stray packet is seen", || counted() != before);
            let is_translated = u64::from(seen_from == own);
            assert_eq!(counted(), [before[0] + is_translated, before[1] + 1 - is_translated], "{server}");
        }
    }
}

#[test]
fn needs_root_sources_without_a_way_back_are_dropped() {
    let (bed, _container) = bed();
    let _firewall = up(&bed, &write(&bed, "kernel.toml", RULES));
    bed.host_of("out").ip("address add 203.0.113.7/32 dev lo\naddress add 2001:db8::7/128 dev lo nodad");
    for (from, to) in [("203.0.113.7:0", "10.81.2.1:22"), ("[2001:db8::7]:0", "[fd81:2::1]:22")] {
        let before = bed.dropped("reverse-path");
        let socket = bed.inside("out", || std::net::UdpSocket::bind(from).unwrap());
        bed.inside("out", || socket.send_to(b"x", to).unwrap());
        // The link is the sender's own work: what it has sent has arrived.
        assert!(bed.dropped("reverse-path") > before, "{from}");
    }
}

/// Who has no address has no routes: the answer of a DHCP server reaches this machine whatever the way back, and no other one.
#[test]
fn needs_root_answers_of_dhcp_servers_need_no_way_back() {
    let (bed, _container) = bed();
    let dhcp =
        "[[rules]]\nname = 'addresses'\nfrom = 'outside'\nto = 'self'\nservice = 'dhcp'\naction = 'allow'\n";
    let _firewall = up(&bed, &write(&bed, "kernel.toml", &format!("{RULES}{dhcp}")));
    // A frame to an address that nobody has goes to the firewall, as an offer does.
    bed.host_of("out").ip("address add 203.0.113.7/32 dev x
         route add 10.81.1.0/24 via 10.81.2.1
         neighbour replace 10.81.2.99 lladdr 02:00:00:00:02:01 dev x");
    for (port, to, is_dropped) in [
        (67, "10.81.2.1:68", false),
        (67, "255.255.255.255:68", false),
        (67, "10.81.2.99:68", false),
        (67, "10.81.1.2:68", true),
        (66, "10.81.2.1:68", true),
        (67, "10.81.2.1:69", true),
    ] {
        let before = bed.dropped("reverse-path");
        let socket = bed.inside("out", || std::net::UdpSocket::bind(("203.0.113.7", port)).unwrap());
        socket.set_broadcast(true).unwrap();
        bed.inside("out", || socket.send_to(b"x", to).unwrap());
        assert_eq!(bed.dropped("reverse-path") > before, is_dropped, "{port}, {to}");
    }
}

#[test]
fn needs_root_the_fast_path_does_not_go_past_translation_unless_forced() {
    let (bed, _container) = bed();
    let fast = write(&bed, "fast.toml", &RULES.replace("forwarding = 'kernel'", ""));
    let (status, said) = bed.rampart(&["up", &fast]);
    assert_eq!(status, 3, "{said}");
    for words in
        ["chain `postrouting` of the table `nat`", "masquerades", "forwarding = \"kernel\"", "--force"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    let (status, said) = bed.rampart(&["up", &write(&bed, "kernel.toml", RULES), "--hook", "xdp"]);
    assert!(status == 2 && said.contains("--hook"), "{status}: {said}");
}
