//! A transparent bridge between two hosts of one network, as a user sets it up.

use crate::bed::{Bed, Outcome, answer, expect_denied, expect_echo, expect_from, serve, until};
use nix::sys::signal::Signal;
use std::io::BufRead as _;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use testkit::namespace::Namespace;

const INSIDE: &str = "10.82.0.2";
const OUTSIDE: &str = "10.82.0.3";
const OUTSIDE_V6: &str = "fd82::3";
/// Whose members are inside.
const GROUP: &str = "239.82.0.1";
const GROUP_V6: &str = "ff15::82";

const RULES: &str = "[bridges.wire]\ninterfaces = ['e1', 'e0']\n\
    [[rules]]\nname = 'web'\nfrom = 'inside'\nto = 'outside'\nservice = ['tcp/8080', 'ping']\naction = 'allow'\n\
    [[rules]]\nname = 'refused'\nfrom = 'inside'\nto = 'outside'\nservice = 'tcp/9'\naction = 'reject'\n";

/// Two hosts whose addresses are of one network, and that find each other by themselves.
fn one_network() -> Bed {
    let bed = Bed::unjoined();
    for (host, interface, number) in [("in", "e1", "2"), ("out", "e0", "3")] {
        let far = bed.namespace(host);
        bed.ip("fw", &["link", "add", interface, "type", "veth", "peer", "name", "x", "netns", &far]);
        bed.ip("fw", &["link", "set", interface, "up"]);
        bed.ip(host, &["address", "add", &format!("10.82.0.{number}/24"), "dev", "x"]);
        bed.ip(host, &["address", "add", &format!("fd82::{number}/64"), "nodad", "dev", "x"]);
        bed.ip(host, &["link", "set", "x", "up"]);
        for (at, dev) in [("fw", interface), (host, "x")] {
            bed.host(at).run("ethtool", &["-K", dev, "gro", "on", "tx", "off"]);
        }
    }
    bed
}

/// Whether an interface of the firewall receives frames for other machines.
fn receives_all(bed: &Bed, interface: &str) -> bool {
    bed.host("fw").run("ip", &["-o", "link", "show", "dev", interface]).contains(",PROMISC,")
}

fn attempt(bed: &Bed, host: &str, arguments: &[&str]) -> bool {
    bed.host(host).enter(|| testkit::namespace::attempt("ping", arguments)).status.success()
}

#[test]
fn needs_root_hosts_of_one_network_meet_through_a_bridge_and_its_policy() {
    for hook in ["tc", "xdp"] {
        let bed = one_network();
        for address in [OUTSIDE, OUTSIDE_V6] {
            for port in [8080, 23] {
                serve(bed.inside("out", || TcpListener::bind((address, port)).unwrap()));
            }
        }
        let policy = bed.policy("bridge.toml", RULES);
        let mut firewall = bed.up(&policy, hook);
        for interface in ["e1", "e0"] {
            assert!(receives_all(&bed, interface), "{hook}: {interface}");
        }
        // The hosts ask for each other's Ethernet address across the bridge.
        for address in [OUTSIDE, OUTSIDE_V6] {
            assert!(attempt(&bed, "in", &["-n", "-c", "1", "-W", "60", address]), "{hook}: {address}");
            let at = |port: u16| std::net::SocketAddr::new(address.parse().unwrap(), port).to_string();
            expect_from(bed.host("in"), &at(8080), Outcome::Answered, hook);
            expect_from(bed.host("in"), &at(23), Outcome::Silence, hook);
            expect_from(bed.host("in"), &at(9), Outcome::Refused, hook);
        }
        assert!(!attempt(&bed, "out", &["-n", "-c", "1", "-W", "2", INSIDE]), "{hook}: from outside");
        let mut open = bed.host("in").enter(|| std::net::TcpStream::connect((OUTSIDE, 8080)).unwrap());
        expect_echo(&mut open, hook);
        // The daemon dies, and another takes its place.
        firewall.signal(Signal::SIGKILL);
        firewall.end();
        expect_echo(&mut open, hook);
        expect_from(bed.host("in"), &format!("{OUTSIDE}:23"), Outcome::Silence, hook);
        let firewall = bed.up(&policy, hook);
        expect_echo(&mut open, hook);
        // A link that goes and comes back is an end of the bridge again.
        let far = bed.namespace("out");
        bed.ip("fw", &["link", "del", "e0"]);
        bed.ip("fw", &["link", "add", "e0", "type", "veth", "peer", "name", "x", "netns", &far]);
        bed.ip("fw", &["link", "set", "e0", "up"]);
        bed.ip("out", &["address", "add", &format!("{OUTSIDE}/24"), "dev", "x"]);
        bed.ip("out", &["link", "set", "x", "up"]);
        // Without GRO a veth takes no frames that XDP redirects, and one that is down does not begin to by it.
        for (at, dev) in [("fw", "e0"), ("out", "x")] {
            bed.host(at).run("ethtool", &["-K", dev, "gro", "on", "tx", "off"]);
        }
        // The new end has another Ethernet address, and the host would believe in the old one for up to 45 seconds.
        bed.ip("in", &["neigh", "flush", "dev", "x"]);
        until("the bridge has its other end again", || {
            attempt(&bed, "in", &["-n", "-c", "1", "-W", "1", OUTSIDE])
        });
        expect_from(bed.host("in"), &format!("{OUTSIDE}:23"), Outcome::Silence, hook);
        assert_eq!(bed.rampart(&["down"]).0, 0, "{hook}");
        drop(firewall);
        for interface in ["e1", "e0"] {
            assert!(!receives_all(&bed, interface), "{hook}: {interface}");
        }
    }
}

/// Three hosts of one network, each of a zone of its own.
#[test]
fn needs_root_three_hosts_of_one_network_meet_through_a_bridge_and_its_policy() {
    let rules = RULES.replace("['e1', 'e0']", "['e1', 'e0', 'e2']")
        + "[[rules]]\nname = 'third'\nfrom = 'third'\nto = 'outside'\nservice = 'tcp/8080'\naction = 'allow'\n\
            [zones.third]\ninterfaces = 'e2'\n";
    for hook in ["tc", "xdp"] {
        let bed = one_network();
        let third = Namespace::create("third");
        bed.ip("fw", &["link", "add", "e2", "type", "veth", "peer", "name", "x", "netns", third.name()]);
        bed.ip("fw", &["link", "set", "e2", "up"]);
        third.ip("address add 10.82.0.4/24 dev x\naddress add fd82::4/64 nodad dev x\nlink set x up");
        for (at, dev) in [(bed.host("fw"), "e2"), (&third, "x")] {
            at.run("ethtool", &["-K", dev, "gro", "on", "tx", "off"]);
        }
        for address in [OUTSIDE, OUTSIDE_V6] {
            serve(bed.inside("out", || TcpListener::bind((address, 8080)).unwrap()));
        }
        let policy = bed.policy("bridge.toml", &rules);
        let mut firewall = bed.up(&policy, hook);
        let check = |from: &Namespace, to: &str, expected: Outcome| expect_from(from, to, expected, hook);
        for to in ["10.82.0.3:8080", "[fd82::3]:8080"] {
            check(bed.host("in"), to, Outcome::Answered);
            check(&third, to, Outcome::Answered);
        }
        check(bed.host("in"), "10.82.0.3:9", Outcome::Refused);
        for to in ["10.82.0.4:8080", "[fd82::4]:8080"] {
            expect_denied(&bed, bed.host("in"), to.parse().unwrap(), hook);
            expect_denied(&bed, bed.host("out"), to.parse().unwrap(), hook);
        }
        let mut open = third.enter(|| std::net::TcpStream::connect((OUTSIDE, 8080)).unwrap());
        expect_echo(&mut open, hook);
        firewall.signal(Signal::SIGKILL);
        firewall.end();
        expect_echo(&mut open, hook);
        let _firewall = bed.up(&policy, hook);
        expect_echo(&mut open, hook);
        // The third goes out of the bridge, and what is left is a wire; then it comes back.
        for (name, rules) in [("wire.toml", rules.replace(", 'e2']", "]")), ("bridge.toml", rules.clone())] {
            let (status, text) = bed.rampart(&["apply", &bed.policy(name, &rules)]);
            assert_eq!(status, 0, "{hook}: {text}");
            check(bed.host("in"), "10.82.0.3:8080", Outcome::Answered);
        }
        check(&third, "10.82.0.3:8080", Outcome::Answered);
        let found = bed.json(&["stations"]);
        let found = found["stations"].as_array().unwrap();
        for (host, interface) in [(bed.host("in"), "e1"), (bed.host("out"), "e0"), (&third, "e2")] {
            let link = host.run("ip", &["-o", "link", "show", "dev", "x"]);
            let is_its = |it: &&serde_json::Value| {
                link.contains(&format!("link/ether {} ", it["address"].as_str().unwrap()))
            };
            let stations: Vec<_> = found.iter().filter(is_its).collect();
            let [station] = stations[..] else { panic!("{hook}: {stations:?} of {link}") };
            assert_eq!(
                (&station["interface"], &station["bridge"]),
                (&interface.into(), &"wire".into()),
                "{hook}"
            );
        }
    }
}

/// A capture that runs while the firewall starts makes the interface receive everything for as long as it runs, without the interface's flag.
#[test]
fn needs_root_a_bridge_goes_on_when_a_capture_has_ended() {
    let bed = one_network();
    let looks_on = ["link", "add", "link", "e1", "name", "look", "type", "macvlan", "mode", "passthru"];
    bed.ip("fw", &looks_on);
    bed.ip("fw", &["link", "set", "look", "up"]);
    let policy = bed.policy("bridge.toml", RULES);
    let firewall = bed.up(&policy, "tc");
    bed.ip("fw", &["link", "del", "look"]);
    assert!(receives_all(&bed, "e1"), "its own flag is set");
    assert!(attempt(&bed, "in", &["-n", "-c", "1", "-W", "60", OUTSIDE]));
    // What another program had set stays.
    assert_eq!(bed.rampart(&["down"]).0, 0);
    drop(firewall);
    bed.ip("fw", &["link", "set", "e0", "promisc", "on"]);
    let firewall = bed.up(&policy, "tc");
    assert_eq!(bed.rampart(&["down"]).0, 0);
    drop(firewall);
    assert_eq!((receives_all(&bed, "e1"), receives_all(&bed, "e0")), (false, true));
}

/// Says which groups' members are reported: a line for each version.
const REPORTS: &str = r#"
import socket
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
link.bind(("x", 3))
link.settimeout(120)
print("ready", flush=True)
missing = {"239.82.0.1": socket.inet_aton("239.82.0.1"), "ff15::82": socket.inet_pton(socket.AF_INET6, "ff15::82")}
while missing:
    frame, where = link.recvfrom(2048)
    if where[2] == 4:
        continue
    # Behind the option for routers: IGMP of version 3 (RFC 3376), or MLD of version 2 (RFC 3810).
    is_report = frame[12:14] == b"\x08\x00" and frame[23] == 2 and frame[38] == 0x22 or frame[12:14] == b"\x86\xdd" and frame[20] == 0 and frame[62] == 143
    for name in [name for name, group in missing.items() if is_report and group in frame]:
        del missing[name]
        print(name, flush=True)
"#;

/// What a link needs besides: who joins a group is heard on the other side, what is sent to the group comes, and an address that somebody has on the
/// other side is not taken twice.
#[test]
fn needs_root_groups_and_addresses_are_announced_across_a_bridge() {
    for hook in ["tc", "xdp"] {
        let bed = one_network();
        let rules = format!(
            "{RULES}[[rules]]\nname = 'groups'\nfrom = 'inside'\nto = 'outside'\nservice = 'igmp'\naction = 'allow'\n\
             [[rules]]\nname = 'stream'\nfrom = 'outside'\nto = 'inside'\nservice = 'udp/8282-8283'\naction = 'allow'\n"
        );
        let _firewall = bed.up(&bed.policy("bridge.toml", &rules), hook);
        let namespace = bed.namespace("out");
        let mut command = std::process::Command::new("ip");
        command
            .args(["netns", "exec", &namespace, "python3", "-c", REPORTS])
            .stdout(std::process::Stdio::piped());
        let mut listening = command.spawn().unwrap();
        let mut lines = std::io::BufReader::new(listening.stdout.take().unwrap()).lines();
        let mut next = || lines.next().unwrap().unwrap();
        assert_eq!(next(), "ready");
        let members = bed.inside("in", || {
            let index = nix::net::if_::if_nametoindex("x").unwrap();
            let v4 = UdpSocket::bind("0.0.0.0:8282").unwrap();
            v4.join_multicast_v4(&GROUP.parse().unwrap(), &INSIDE.parse().unwrap()).unwrap();
            let v6 = UdpSocket::bind("[::]:8283").unwrap();
            v6.join_multicast_v6(&GROUP_V6.parse().unwrap(), index).unwrap();
            [v4, v6]
        });
        let mut reported = [next(), next()];
        reported.sort();
        assert_eq!(reported, [GROUP, GROUP_V6], "{hook}");
        let _ = listening.wait();
        for (member, (source, group)) in members.iter().zip([(OUTSIDE, GROUP), (OUTSIDE_V6, GROUP_V6)]) {
            let port = member.local_addr().unwrap().port();
            member.set_read_timeout(Some(answer())).unwrap();
            let to = SocketAddr::new(group.parse().unwrap(), port);
            let sent =
                bed.inside("out", || UdpSocket::bind((source, 0)).and_then(|s| s.send_to(b"stream", to)));
            assert_eq!((sent.ok(), member.recv(&mut [0; 16]).ok()), (Some(6), Some(6)), "{hook}: {to}");
        }
        bed.inside("in", || std::fs::write("/proc/sys/net/ipv6/conf/x/accept_dad", "1").unwrap());
        bed.ip("in", &["address", "add", &format!("{OUTSIDE_V6}/64"), "dev", "x"]);
        until("the address is found to be somebody's", || {
            bed.host("in").run("ip", &["-6", "address", "show", "dev", "x", "dadfailed"]).contains(OUTSIDE_V6)
        });
    }
}

/// Sends the second fragment of a datagram of VLAN 10 before the first one.
const FRAGMENTS: &str = r#"
import socket, struct
link = bytes.fromhex("020000000099" "020000000098" "8100000a" "0800")
source, destination = socket.inet_aton("10.82.0.2"), socket.inet_aton("10.82.0.3")
def fragment(offset, more, part):
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(part), 0x1234, offset // 8 | more << 13, 64, 17, 0) + source + destination
    total = sum(struct.unpack("!10H", header))
    while total >> 16: total = (total & 0xffff) + (total >> 16)
    return link + header[:10] + struct.pack("!H", ~total & 0xffff) + header[12:] + part
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(("x", 0))
out.send(fragment(64, 0, bytes(64)))
out.send(fragment(0, 1, struct.pack("!HHHH", 7, 8080, 128, 0) + bytes(56)))
"#;

/// Says of which VLANs the two fragments are that arrive, by what the kernel says beside them (packet(7), PACKET_AUXDATA).
const TAGS: &str = r#"
import socket, struct
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
link.bind(("x", 3))
link.setsockopt(263, 8, 1)
print("ready", flush=True)
seen = 0
while seen < 2:
    frame, beside, _, where = link.recvmsg(2048, 256)
    if where[2] == 4 or frame[12:14] != b"\x08\x00" or frame[18:20] != b"\x12\x34":
        continue
    tags = [struct.unpack("=IIIHHHH", data)[5] & 0xfff for _, _, data in beside]
    print(*tags, flush=True)
    seen += 1
"#;

/// The kernel takes tags out of frames before TC sees them: one that waits for its first fragment gets its own back.
#[test]
fn needs_root_fragments_that_come_early_stay_in_their_vlan() {
    for hook in ["tc", "xdp"] {
        let bed = one_network();
        let rules =
            RULES.replace("['e1', 'e0']\n", "['e1', 'e0']\nvlans = [10]\n").replace("'ping'", "'udp/8080'");
        let _firewall = bed.up(&bed.policy("bridge.toml", &rules), hook);
        let namespace = bed.namespace("out");
        let mut command = std::process::Command::new("ip");
        command
            .args(["netns", "exec", &namespace, "python3", "-c", TAGS])
            .stdout(std::process::Stdio::piped());
        let mut listening = command.spawn().unwrap();
        let mut lines = std::io::BufReader::new(listening.stdout.take().unwrap()).lines();
        let mut next = || lines.next().unwrap().unwrap();
        assert_eq!(next(), "ready");
        bed.host("in").run("python3", &["-c", FRAGMENTS]);
        until("the fragments cross", || bed.counted("forwarded") >= 2);
        let tags = [next(), next()];
        let _ = listening.wait();
        assert_eq!(tags, ["10", "10"], "{hook}");
    }
}

#[test]
fn needs_root_a_bridge_of_unlike_interfaces_is_refused() {
    let bed = one_network();
    bed.ip("fw", &["link", "set", "e0", "mtu", "1400"]);
    let policy = bed.policy("bridge.toml", RULES);
    let state = bed.state().display().to_string();
    let (status, text) = bed.rampart(&["up", &policy, "--state", &state]);
    assert_eq!(status, 3, "{text}");
    assert!(text.contains("bridge `wire`: `e1` has an MTU of 1500 and `e0` one of 1400"), "{text}");
    bed.ip("fw", &["tuntap", "add", "t0", "mode", "tun"]);
    let tunnel =
        RULES.replace("'e0']", "'t0']").replace("[bridges", "[zones.tunnel]\ninterfaces = 't0'\n[bridges");
    let policy = bed.policy("tunnel.toml", &tunnel);
    let (status, text) = bed.rampart(&["up", &policy, "--state", &state]);
    assert_eq!(status, 3, "{text}");
    assert!(text.contains("bridge `wire`: `t0` has no Ethernet headers"), "{text}");
}
