//! Links without Ethernet headers where the firewall forwards: real stacks on both sides of tun, and of the tunnels that an emulated
//! machine's kernel has (`scripts/test-kernels`).
//! A policy that allows udp/53 delivers udp/53 and nothing else: read as Ethernet, it would deliver udp/8209.

use crate::bed::{Bed, INSIDE, Outcome, expect_denied, expect_from, serve, socket_for};
use crate::tunnels::{BEYOND, Carrier, kinds, lay, write};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;
use testkit::namespace::Namespace;
use testkit::slowness;

const INSIDE_V6: &str = "fd81:1::2";
const BEYOND_V6: &str = "fd98::1";

/// The tunnel comes when the firewall is there already. Its own packets go through `outside`.
const RULES: &str = "
    [zones]
    inside = { interfaces = 'e1' }
    outside = { interfaces = 'e0' }
    vpn = { interfaces = 't0*' }
    [[rules]]
    name = 'through'
    from = ['inside', 'vpn']
    to = ['inside', 'vpn']
    service = ['tcp/9000', 'udp/53']
    action = 'allow'
    [[rules]]
    name = 'refused'
    from = ['inside', 'vpn']
    to = ['inside', 'vpn']
    service = ['tcp/9001', 'udp/9002']
    action = 'reject'
    [[rules]]
    name = 'self'
    from = ['self', 'vpn']
    to = ['self', 'vpn']
    service = 'tcp/9000'
    action = 'allow'
    [[rules]]
    name = 'tunnel'
    from = ['self', 'outside']
    to = ['self', 'outside']
    action = 'allow'
";

/// Sends a datagram to a port in two fragments, the second one first, and waits for its echo: where to is the argument.
const REVERSED: &str = "
import socket, struct, sys
to = socket.inet_aton(sys.argv[1])
answers = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
answers.bind(('10.99.0.2', 0))
answers.settimeout(float(sys.argv[2]))
data = bytes(range(200)) * 6
udp = struct.pack('!HHHH', answers.getsockname()[1], 53, 8 + len(data), 0) + data
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
for flags, part in [(80, udp[640:]), (0x2000, udp[:640])]:
    head = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(part), 77, flags, 64, 17, 0, socket.inet_aton('10.99.0.2'), to)
    raw.sendto(head + part, (sys.argv[1], 0))
assert answers.recv(65535) == data
";

fn patience() -> Duration {
    Duration::from_secs(10) * slowness()
}

/// Sends back what comes to these ports of UDP, for as long as the test runs.
fn echo_datagrams(host: &Namespace, address: &str) {
    for port in [53, 8209, 9002] {
        let socket = host.enter(|| UdpSocket::bind((address, port)).unwrap());
        std::thread::spawn(move || {
            let mut bytes = [0; 65_535];
            while let Ok((count, from)) = socket.recv_from(&mut bytes) {
                let _ = socket.send_to(&bytes[..count], from);
            }
        });
    }
}

/// Sends a datagram until something comes back: it may be lost while the path's MTU is found.
fn ask(from: &Namespace, to: SocketAddr, bytes: usize, wanted: Outcome, what: &str) {
    let socket = socket_for(from, to);
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(patience() / 10)).unwrap();
    let mut answer = vec![0; 65_535];
    for _ in 0..10 {
        let outcome = match socket.send(&vec![7; bytes]).and_then(|_| socket.recv(&mut answer)) {
            Ok(count) if count == bytes => Outcome::Answered,
            Ok(count) => panic!("{what}: {to}: {count} of {bytes} bytes came back"),
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => continue,
            // What is larger than the path is refused once, by the sender's own stack.
            Err(error) if error.raw_os_error() == Some(nix::libc::EMSGSIZE) => continue,
            Err(_) => Outcome::Refused,
        };
        assert_eq!(outcome, wanted, "{what}: {to}");
        return;
    }
    panic!("{what}: {to}: nothing came back and not {wanted:?}");
}

/// Many segments there and back, in which nothing may be lost or changed.
fn expect_bulk(from: &Namespace, to: SocketAddr, what: &str) {
    let sent: Vec<u8> = (0..50_000u32).map(|n| n.wrapping_mul(n).to_le_bytes()[1]).collect();
    let mut stream = from.enter(|| TcpStream::connect_timeout(&to, patience()).unwrap());
    stream.set_read_timeout(Some(patience())).unwrap();
    let mut back = vec![0; sent.len()];
    stream.write_all(&sent).unwrap();
    stream.read_exact(&mut back).unwrap_or_else(|error| panic!("{what}: {to}: {error}"));
    assert!(back == sent, "{what}: {to}: other bytes came back");
}

/// The tunnel with its addresses, shorter than the link to the host inside.
fn lay_all(bed: &Bed, kind: &str) -> Option<Carrier> {
    let carrier = lay(bed, kind);
    for (host, end) in [("fw", 1), ("out", 2)] {
        bed.host_of(host).ip(&format!("link set t0 mtu 1400\naddress add fd99::{end}/64 dev t0 nodad"));
    }
    bed.host_of("out").ip("route add fd81:1::/64 via fd99::1");
    bed.host_of("fw").ip("route add fd98::/64 via fd99::2");
    carrier
}

fn take_away(bed: &Bed, carrier: Option<Carrier>) {
    if carrier.is_none() {
        ["fw", "out"].into_iter().for_each(|host| bed.host_of(host).ip("link del t0"));
    }
    drop(carrier);
}

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse::<IpAddr>().unwrap(), port)
}

fn address_v6(bed: &Bed) {
    for (host, lines) in [
        ("fw", "address add fd81:1::1/64 dev e1 nodad"),
        ("in", "address add fd81:1::2/64 dev x nodad\nroute add default via fd81:1::1"),
        ("out", "address add fd98::1/128 dev lo nodad"),
    ] {
        bed.host_of(host).ip(lines);
    }
}

/// Servers of both hosts and of the firewall.
fn serve_all(bed: &Bed) {
    for (host, address) in [("in", INSIDE), ("out", BEYOND), ("in", INSIDE_V6), ("out", BEYOND_V6)] {
        let host = bed.host_of(host);
        serve(host.enter(|| TcpListener::bind((address, 9000)).unwrap()));
        serve(host.enter(|| TcpListener::bind((address, 9001)).unwrap()));
        echo_datagrams(host, address);
    }
    serve(bed.host_of("fw").enter(|| TcpListener::bind("[::]:9000").unwrap()));
}

/// A fragment that comes through the tunnel before its first is kept, and sent in once more.
fn expect_reversed(bed: &Bed, what: &str) {
    let seconds = patience().as_secs().to_string();
    let status = bed
        .host_of("out")
        .enter(|| Command::new("python3").args(["-c", REVERSED, INSIDE, &seconds]).status().unwrap());
    assert!(status.success(), "{what}: a fragment before its first");
}

fn judge(bed: &Bed, what: &str, [inside_address, beyond_address, own]: [&str; 3]) {
    let (inside, beyond, firewall) = (bed.host_of("in"), bed.host_of("out"), bed.host_of("fw"));
    for (from, to) in [(inside, beyond_address), (beyond, inside_address)] {
        expect_from(from, &at(to, 9000).to_string(), Outcome::Answered, what);
        expect_from(from, &at(to, 9001).to_string(), Outcome::Refused, what);
        expect_bulk(from, at(to, 9000), what);
        ask(from, at(to, 53), 1, Outcome::Answered, what);
        ask(from, at(to, 53), 3_000, Outcome::Answered, what);
        ask(from, at(to, 9002), 1, Outcome::Refused, what);
        expect_denied(bed, from, at(to, 8209), what);
    }
    expect_from(firewall, &at(beyond_address, 9000).to_string(), Outcome::Answered, what);
    expect_from(beyond, &at(own, 9000).to_string(), Outcome::Answered, what);
    expect_denied(bed, firewall, at(beyond_address, 53), what);
    expect_denied(bed, beyond, at(own, 53), what);
}

/// Links that the firewall meets one after the other, and the hook of those beside them.
const HERE: &[(&[&str], &str)] = &[(&["tun"], "tc"), (&["tun"], "xdp")];
/// An emulated machine has other kinds, and its kernel looks a firewall through for a minute.
const EMULATED: &[(&[&str], &str)] = &[(&["gre", "ipip", "sit", "ip6tnl", "ip6gre", "wireguard"], "xdp")];

#[test]
fn needs_root_links_without_ethernet_headers_are_judged_and_forwarded() {
    for &(kinds, hook) in if kinds().contains("tun") { HERE } else { EMULATED } {
        let bed = Bed::new();
        address_v6(&bed);
        let mut firewall = bed.up(&write(&bed, RULES), hook);
        // It comes, goes and comes again.
        take_away(&bed, lay_all(&bed, kinds[0]));
        firewall.until("t0: it is gone from zone vpn");
        for (number, kind) in kinds.iter().enumerate() {
            let what = format!("{kind} beside {hook}");
            let carrier = lay_all(&bed, kind);
            firewall.until("t0: zone vpn, tc");
            if number == 0 {
                serve_all(&bed);
            }
            judge(&bed, &what, [INSIDE, BEYOND, "10.99.0.1"]);
            // The kernel has IPv6 within IPv4 carried by a link of another kind, sit.
            if *kind != "ipip" {
                judge(&bed, &what, [INSIDE_V6, BEYOND_V6, "fd99::1"]);
            }
            // The emulated machine, which has other kinds, has no Python.
            if *kind == "tun" {
                expect_reversed(&bed, &what);
            }
            take_away(&bed, carrier);
            firewall.until("t0: it is gone from zone vpn");
        }
        drop(firewall);
        let (status, said) = bed.rampart(&["down"]);
        assert_eq!(status, 0, "{hook}: {said}");
    }
}

/// A tun can say that it is any kind of link.
const RAW_IP: &str = "
import fcntl, os, struct
fd = os.open('/dev/net/tun', os.O_RDWR)
fcntl.ioctl(fd, 0x400454ca, struct.pack('16sH22x', b't0', 0x1001))
fcntl.ioctl(fd, 0x400454cd, 519)
fcntl.ioctl(fd, 0x400454cb, 1)
";

#[test]
fn needs_root_a_link_that_cannot_be_read_is_refused_wherever_it_is_named() {
    let bed = Bed::new();
    bed.host_of("fw").run("python3", &["-c", RAW_IP]);
    for (name, mode) in [("t1", "tap"), ("t2", "tun")] {
        bed.ip("fw", &["tuntap", "add", "dev", name, "mode", mode]);
    }
    ["t0", "t1", "t2"].into_iter().for_each(|name| bed.ip("fw", &["link", "set", name, "up"]));
    let policy = |name: &str| {
        bed.policy(
            name,
            &format!(
                "[zones.vpn]\ninterfaces = '{name}'\n[[rules]]\nname = 'web'\nfrom = 'inside'\nto = 'outside'\n\
                 service = 'tcp/9000'\naction = 'allow'\n"
            ),
        )
    };
    let why = "`t0` is a link of a kind that the firewall does not read (type 519, Rawip)";
    for (command, status) in [("check", 2), ("up", 3)] {
        let (found, text) = bed.rampart(&[command, &policy("t0")]);
        assert!(found == status && text.contains(why), "{command}: {found}: {text}");
        assert_eq!(text.contains("zone `vpn`"), command == "up", "{text}");
    }
    for (name, hook, said) in [
        ("t1", "xdp", ""),
        ("t2", "xdp", "`t2` has no Ethernet headers, which XDP needs; TC is used instead"),
    ] {
        let firewall = bed.up(&policy(name), hook);
        assert!(firewall.start.contains(said), "{name}: {}", firewall.start);
        let (status, text) = bed.rampart(&["apply", &policy("t0")]);
        assert!(status == 3 && text.contains("zone `vpn`: ") && text.contains(why), "{status}: {text}");
        assert_eq!(bed.json(&["status"])["policy"]["generation"], 1, "nothing changed");
        drop(firewall);
        assert_eq!(bed.rampart(&["down"]).0, 0);
    }
}
