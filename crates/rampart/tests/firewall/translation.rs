//! Translated connections between real stacks, on both hooks: out by masquerade, in by port forwarding, from inside back to inside.

use crate::bed::{
    Bed, INSIDE, OUTSIDE, Outcome, answer, echo_within, expect_echo, expect_from, serve, socket_for, until,
};
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;
use testkit::namespace::Namespace;
use testkit::slowness;

/// Only the firewall's own link is reachable outside: the host outside has no route back to the one inside.
const POLICY: &str = "
[[nat]]
name = 'web'
from = 'any'
destination = '10.81.2.1'
service = 'tcp/80'
destination_to = '10.81.1.2:8080'

[[nat]]
name = 'own'
from = 'outside'
destination = '10.81.2.1'
service = 'tcp/2222'
destination_to = '10.81.1.1:22'

[[nat]]
name = 'lan'
from = 'inside'
to = 'any'
masquerade = true

[[rules]]
name = 'out'
from = 'inside'
to = 'any'
action = 'allow'

[[rules]]
name = 'web'
from = 'outside'
to = 'inside'
service = 'tcp/8080'
action = 'allow'

[[rules]]
name = 'own'
from = 'outside'
to = 'self'
service = 'tcp/22'
action = 'allow'
";

fn bed() -> Bed {
    let bed = Bed::new();
    bed.ip("out", &["route", "del", "default"]);
    bed
}

/// A server outside that says who calls.
fn serve_callers(bed: &Bed, port: u16) -> std::sync::mpsc::Receiver<std::net::SocketAddr> {
    let listener = bed.inside("out", || TcpListener::bind((OUTSIDE, port)).unwrap());
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if sender.send(stream.peer_addr().unwrap()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The hosts and the firewall leave checksums to the other end of a link. XDP could not translate such packets, and TC can.
fn leave_checksums_unfinished(bed: &Bed) {
    for (host, device) in [("in", "x"), ("out", "x"), ("fw", "e0"), ("fw", "e1")] {
        bed.host_of(host).run("ethtool", &["-K", device, "tx", "on"]);
    }
}

fn patience() -> Duration {
    Duration::from_secs(30) * slowness()
}

#[test]
fn needs_root_translated_connections_of_real_stacks_on_both_hooks() {
    for hook in ["tc", "xdp"] {
        let bed = bed();
        if hook == "tc" {
            leave_checksums_unfinished(&bed);
        }
        bed.serve(9000);
        serve(bed.inside("in", || TcpListener::bind((INSIDE, 8080)).unwrap()));
        serve(bed.inside("fw", || TcpListener::bind("10.81.1.1:22").unwrap()));
        let policy = bed.policy("p.toml", POLICY);
        let _firewall = bed.up(&policy, hook);
        bed.expect(9000, Outcome::Answered, "out by masquerade");
        let callers = serve_callers(&bed, 9001);
        let caller = bed.connect(9001).unwrap();
        let seen = callers.recv_timeout(patience()).unwrap();
        assert_eq!(seen.ip().to_string(), "10.81.2.1", "{hook}: outside sees the firewall alone");
        assert_eq!(seen.port(), caller.local_addr().unwrap().port(), "{hook}: a free port is kept");
        let flows = bed.json(&["flows", "dport=9001"]);
        assert_eq!(flows["flows"][0]["source"], INSIDE, "{flows}");
        assert_eq!(flows["flows"][0]["source_alias"]["address"], "10.81.2.1", "{flows}");
        expect_from(bed.host_of("out"), "10.81.2.1:80", Outcome::Answered, "in by port forwarding");
        expect_from(bed.host_of("in"), "10.81.2.1:80", Outcome::Answered, "from inside by the name outside");
        expect_from(
            bed.host_of("out"),
            "10.81.2.1:8080",
            Outcome::Silence,
            "the inside port has no name outside",
        );
        expect_from(bed.host_of("out"), "10.81.2.1:2222", Outcome::Answered, "in to the firewall itself");
        datagrams(&bed, hook);
        bed.host_of("in").run("ping", &["-c", "2", "-W", "10", OUTSIDE]);
        large_datagrams(&bed, hook);
    }
}

/// A client that sends to a neighbour which does not answer hears it, behind a masquerade too (RFC 1812 section 5.2.7.1); and the first packets to one that does
/// are not lost, and not seen untranslated.
#[test]
fn needs_root_behind_a_masquerade_a_dead_next_hop_is_heard_of_and_the_first_packet_arrives() {
    for hook in ["tc", "xdp"] {
        let bed = bed();
        // The kernel asks three times, and here not for long.
        let retry = |milliseconds| bed.sysctl("net/ipv4/neigh/e0/retrans_time_ms", milliseconds);
        retry("100");
        let _firewall = bed.up(&bed.policy("p.toml", POLICY), hook);
        expect_unreachable(bed.host_of("in"), "10.81.2.99:9000", hook);
        retry("1000");
        let forget = || bed.ip("fw", &["neighbour", "del", OUTSIDE, "dev", "e0"]);
        let callers = serve_callers(&bed, 9001);
        forget();
        let _caller = bed.connect(9001).unwrap();
        let seen = callers.recv_timeout(patience()).unwrap();
        assert_eq!(seen.ip().to_string(), "10.81.2.1", "{hook}");
        forget();
        datagrams(&bed, hook);
        assert_eq!(bed.dropped("untranslatable"), 0, "{hook}");
    }
}

/// A connection and a datagram of a host hear that there is no way to an address.
fn expect_unreachable(host: &Namespace, to: &str, what: &str) {
    let to: SocketAddr = to.parse().unwrap();
    let connected = host.enter(|| TcpStream::connect_timeout(&to, patience()).unwrap_err());
    // Without this option a socket of UDP does not say so.
    let socket = socket_for(host, to);
    setsockopt(&socket, sockopt::Ipv4RecvErr, &true).unwrap();
    socket.set_read_timeout(Some(patience())).unwrap();
    socket.connect(to).unwrap();
    socket.send(b"x").unwrap();
    let heard = socket.recv(&mut [0]).unwrap_err();
    for error in [connected, heard] {
        assert_eq!(error.raw_os_error(), Some(Errno::EHOSTUNREACH as i32), "{what}, {to}");
    }
}

/// A datagram and its answer, and the error about a closed port.
fn datagrams(bed: &Bed, hook: &str) {
    let server = bed.inside("out", || UdpSocket::bind((OUTSIDE, 5353)).unwrap());
    let client = bed.inside("in", || UdpSocket::bind((INSIDE, 0)).unwrap());
    client.set_read_timeout(Some(patience())).unwrap();
    server.set_read_timeout(Some(patience())).unwrap();
    client.connect((OUTSIDE, 5353)).unwrap();
    client.send(b"question").unwrap();
    let mut bytes = [0; 100];
    let (count, from) = server.recv_from(&mut bytes).unwrap();
    assert_eq!((&bytes[..count], from.ip().to_string().as_str()), (&b"question"[..], "10.81.2.1"), "{hook}");
    server.send_to(b"answer", from).unwrap();
    let count = client.recv(&mut bytes).unwrap();
    assert_eq!(&bytes[..count], b"answer", "{hook}");
    let refused = bed.inside("in", || UdpSocket::bind((INSIDE, 0)).unwrap());
    refused.set_read_timeout(Some(patience())).unwrap();
    refused.connect((OUTSIDE, 5354)).unwrap();
    refused.send(b"x").unwrap();
    let error = refused.recv(&mut bytes).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused, "{hook}: the error finds its sender");
}

/// Datagrams that come in fragments, both ways.
fn large_datagrams(bed: &Bed, hook: &str) {
    let server = bed.inside("out", || UdpSocket::bind((OUTSIDE, 5355)).unwrap());
    let client = bed.inside("in", || UdpSocket::bind((INSIDE, 0)).unwrap());
    client.set_read_timeout(Some(patience())).unwrap();
    server.set_read_timeout(Some(patience())).unwrap();
    client.connect((OUTSIDE, 5355)).unwrap();
    let sent: Vec<u8> = (0..5000u32).map(|i| (i % 251) as u8).collect();
    client.send(&sent).unwrap();
    let mut bytes = vec![0; 6000];
    let (count, from) = server.recv_from(&mut bytes).unwrap();
    assert_eq!(bytes[..count], sent, "{hook}: there");
    server.send_to(&sent, from).unwrap();
    let count = client.recv(&mut bytes).unwrap();
    assert_eq!(bytes[..count], sent, "{hook}: and back");
}

/// A daemon that is killed and started again loses no translated connection; the address that a connection has outside may go, and then
/// it ends.
#[test]
fn needs_root_translated_connections_live_as_long_as_their_address() {
    let bed = bed();
    bed.serve(9000);
    let policy = bed.policy("p.toml", POLICY);
    let mut firewall = bed.up(&policy, "tc");
    let mut stream = bed.connect(9000).unwrap();
    expect_echo(&mut stream, "open");
    firewall.signal(nix::sys::signal::Signal::SIGKILL);
    firewall.end();
    expect_echo(&mut stream, "without a daemon");
    let _firewall = bed.up(&policy, "tc");
    expect_echo(&mut stream, "under the next daemon");
    bed.ip("fw", &["address", "add", "10.81.2.3/24", "dev", "e0"]);
    bed.ip("fw", &["address", "del", "10.81.2.1/24", "dev", "e0"]);
    // Some kernels take what came after the first address away with it.
    bed.ip("fw", &["address", "replace", "10.81.2.3/24", "dev", "e0"]);
    bed.ip("out", &["neighbour", "add", "10.81.2.3", "lladdr", "02:00:00:00:02:01", "dev", "x"]);
    until("the flow is gone with its address", || bed.json(&["flows", "dport=9000"])["matched"] == 0);
    assert_eq!(
        echo_within(&mut stream, answer()),
        Outcome::Refused,
        "who goes on with it learns that it is over"
    );
    expect_from(bed.host_of("in"), "10.81.2.2:9000", Outcome::Answered, "by the new address");
}

#[test]
fn needs_root_another_build_takes_translated_connections_over() {
    let bed = bed();
    bed.serve(9000);
    serve(bed.inside("in", || TcpListener::bind((INSIDE, 8080)).unwrap()));
    let policy = bed.policy("p.toml", POLICY);
    let wider = bed.policy("wider.toml", &format!("[settings]\nflows = 2048\n{POLICY}"));
    let mut firewall = bed.up(&policy, "tc");
    let mut out = bed.connect(9000).unwrap();
    let mut hairpin = bed.inside("in", || TcpStream::connect("10.81.2.1:80").unwrap());
    expect_echo(&mut out, "open");
    expect_echo(&mut hairpin, "open");
    firewall.signal(nix::sys::signal::Signal::SIGTERM);
    firewall.end();
    // A table of another size is another table: flows are carried over one by one.
    let _firewall = bed.up(&wider, "tc");
    expect_echo(&mut out, "in the next table");
    expect_echo(&mut hairpin, "in the next table, translated at both ends");
    assert_eq!(bed.json(&["flows", "dport=9000"])["matched"], 1);
}

/// Sends from one socket to an address until another one has it, and returns whom that one has it from. The first of a new neighbour may be lost.
fn reach(from: &UdpSocket, to: SocketAddr, receiver: &UdpSocket, what: &str) -> SocketAddr {
    receiver.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut bytes = [0; 64];
    for _ in 0..100 {
        from.send_to(what.as_bytes(), to).unwrap();
        while let Ok((count, sender)) = receiver.recv_from(&mut bytes) {
            if &bytes[..count] == what.as_bytes() {
                return sender;
            }
        }
    }
    panic!("{what}: {to} has nothing");
}

/// Who has sent nothing before begins by a mapping, also while no daemon is there, and by the same one under the next daemon in a table of another size.
#[test]
fn needs_root_others_begin_by_a_mapping_with_and_without_a_daemon() {
    let bed = bed();
    let mapping = "masquerade = true\nports = '20000-29999'\nmapping = 'endpoint-independent'\nfiltering = 'endpoint-independent'";
    let rule = "[[rules]]\nname = 'begin'\nfrom = 'outside'\nto = 'inside'\nservice = 'udp/20000-29999'\naction = 'allow'\n";
    let text = format!("{}{rule}", POLICY.replace("masquerade = true", mapping));
    let policy = bed.policy("p.toml", &text);
    let wider = bed.policy("wider.toml", &format!("[settings]\nflows = 2048\n{text}"));
    let inside = bed.inside("in", || UdpSocket::bind((INSIDE, 20_000)).unwrap());
    let outside = |port: u16| bed.inside("out", || UdpSocket::bind((OUTSIDE, port)).unwrap());
    let mut firewall = bed.up(&policy, "tc");
    let first = outside(9_100);
    let name = reach(&inside, first.local_addr().unwrap(), &first, "out");
    assert_eq!(name.to_string(), "10.81.2.1:20000");
    let begin = |port: u16, what: &str| {
        let stranger = outside(port);
        assert_eq!(reach(&stranger, name, &inside, what), stranger.local_addr().unwrap(), "{what}");
        assert_eq!(reach(&inside, stranger.local_addr().unwrap(), &stranger, "answer"), name, "{what}");
    };
    begin(9_101, "with its daemon");
    assert_eq!(bed.json(&["flows", "state=mapping"])["matched"], 1);
    firewall.signal(nix::sys::signal::Signal::SIGKILL);
    firewall.end();
    begin(9_102, "without a daemon");
    let mut firewall = bed.up(&policy, "tc");
    begin(9_103, "under the next one");
    firewall.signal(nix::sys::signal::Signal::SIGTERM);
    firewall.end();
    let _firewall = bed.up(&wider, "tc");
    begin(9_104, "in another table");
}

/// Addresses on the outer network that no interface has.
const POOLS: &str = "
[[nat]]
name = 'web'
from = 'outside'
destination = '10.81.2.60'
service = 'tcp/80'
destination_to = '10.81.1.2:8080'

[[nat]]
name = 'pool'
from = 'inside'
to = 'outside'
source_to = '10.81.2.50-10.81.2.51'

[[rules]]
name = 'out'
from = 'inside'
to = 'outside'
action = 'allow'

[[rules]]
name = 'web'
from = 'outside'
to = 'inside'
service = 'tcp/8080'
action = 'allow'
";

/// The host outside asks for them by ARP, also while no daemon is there.
#[test]
fn needs_root_addresses_of_pools_are_found_on_both_hooks() {
    for hook in ["tc", "xdp"] {
        let bed = bed();
        bed.serve(9000);
        serve(bed.inside("in", || TcpListener::bind((INSIDE, 8080)).unwrap()));
        let policy = bed.policy("p.toml", POOLS);
        let (_, checked) = bed.rampart(&["check", &policy]);
        assert!(
            checked.contains("`pool`: ARP from outside is answered for 10.81.2.50-10.81.2.51"),
            "{checked}"
        );
        let mut firewall = bed.up(&policy, hook);
        bed.expect(9000, Outcome::Answered, "out by a pool");
        expect_from(bed.host_of("out"), "10.81.2.60:80", Outcome::Answered, "in by an address of nobody");
        assert!(bed.counted("arp-answered") >= 2, "{hook}");
        firewall.signal(nix::sys::signal::Signal::SIGKILL);
        firewall.end();
        bed.ip(
            "out",
            &["neighbour", "flush", "dev", "x", "nud", "reachable", "nud", "stale", "nud", "delay"],
        );
        expect_from(bed.host_of("out"), "10.81.2.60:80", Outcome::Answered, "without a daemon");
    }
}

/// Forwardings to a server that is off, to a port where nobody listens, and to where no route leads.
const DEAD: &str = "
[[nat]]
name = 'off'
from = ['outside', 'inside']
destination = '10.81.2.1'
service = 'tcp/81'
destination_to = '10.81.1.77:8080'

[[nat]]
name = 'closed'
from = ['outside', 'inside']
destination = '10.81.2.1'
service = 'tcp/82'
destination_to = '10.81.1.2:8082'

[[nat]]
name = 'far'
from = ['outside', 'inside']
destination = '10.81.2.1'
service = 'tcp/83'
destination_to = '10.99.0.1:8080'

[[nat]]
name = 'hairpin'
from = 'inside'
to = 'inside'
masquerade = true

[[rules]]
name = 'in'
from = ['outside', 'inside']
to = 'inside'
service = 'tcp/8080-8082'
action = 'allow'
log = true
";

/// A client hears at once what is known about the server, under the name that it has asked for; and no flow of it is left as open.
#[test]
fn needs_root_forwardings_to_servers_that_are_not_there_are_answered_on_both_hooks() {
    for hook in ["tc", "xdp"] {
        let bed = bed();
        let policy = bed.policy("p.toml", DEAD);
        let _firewall = bed.up(&policy, hook);
        // Not from inside to the server that is off: the kernel's error about a neighbour goes to the address that a masquerade gave (decision 40).
        for (host, port, why) in [
            ("out", 81, "EHOSTUNREACH"),
            ("out", 82, "ECONNREFUSED"),
            ("out", 83, "ENETUNREACH"),
            ("in", 82, "ECONNREFUSED"),
            ("in", 83, "ENETUNREACH"),
        ] {
            let to: SocketAddr = format!("10.81.2.1:{port}").parse().unwrap();
            let failed = bed.inside(host, || TcpStream::connect_timeout(&to, patience())).unwrap_err();
            let errno = failed.raw_os_error().map(nix::errno::Errno::from_raw);
            assert_eq!(
                errno.map(|it| format!("{it:?}")).as_deref(),
                Some(why),
                "{hook} {host}: {failed} at {to}"
            );
        }
        let log = bed.rampart(&["log"]).1;
        assert!(log.contains("> 10.81.2.1:81 "), "as it was asked for: {log}");
        let flows = bed.json(&["flows"]);
        let flows = flows["flows"].as_array().unwrap();
        assert!(flows.iter().all(|flow| flow["state"] != "established"), "{flows:?}");
        assert!(flows.iter().any(|flow| flow["destination"] == "10.81.1.77"), "{flows:?}");
        assert!(bed.dropped("no-route") >= 2, "{hook}: where no route leads no flow opens");
    }
}

/// Addresses of pools and forwardings may be put at an interface and taken away again: flows go on, and new ones open.
#[test]
fn needs_root_addresses_of_pools_come_and_go_under_flows_on_both_hooks() {
    for hook in ["tc", "xdp"] {
        let bed = bed();
        bed.serve(9000);
        serve(bed.inside("in", || TcpListener::bind((INSIDE, 8080)).unwrap()));
        let policy = bed.policy("p.toml", POOLS);
        let _firewall = bed.up(&policy, hook);
        let mut out = bed.connect(9000).unwrap();
        let to: SocketAddr = "10.81.2.60:80".parse().unwrap();
        let mut inwards = bed.inside("out", || TcpStream::connect_timeout(&to, patience())).unwrap();
        for turn in ["add", "del", "add", "del"] {
            for address in ["10.81.2.50/24", "10.81.2.51/24", "10.81.2.60/24"] {
                bed.ip("fw", &["address", turn, address, "dev", "e0"]);
            }
            let what = format!("{hook}, {turn}");
            bed.ip(
                "out",
                &["neighbour", "flush", "dev", "x", "nud", "reachable", "nud", "stale", "nud", "delay"],
            );
            expect_echo(&mut out, &what);
            expect_echo(&mut inwards, &what);
            bed.expect(9000, Outcome::Answered, &what);
            expect_from(bed.host_of("out"), "10.81.2.60:80", Outcome::Answered, &what);
        }
    }
}
