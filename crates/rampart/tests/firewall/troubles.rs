//! What goes wrong around a running firewall: a driver without XDP, a full table, a route that vanishes, a neighbour that is not
//! there. Each is reported to whoever runs it or to the sender, and what can go on goes on.

use crate::bed::{Bed, INSIDE, OUTSIDE, Outcome, expect_echo, until};
use std::io::ErrorKind;
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

const OUT: &str = "[[rules]]\nname = 'out'\nfrom = 'inside'\nto = 'outside'\naction = 'allow'\n";
/// Flows of the smallest table.
const SMALLEST: u16 = 1024;
/// How long the kernel asks for a neighbour, and then some.
const ASKED: Duration = Duration::from_secs(30);

#[test]
fn needs_root_a_driver_without_xdp_is_named_and_tc_is_used() {
    let bed = Bed::new();
    bed.serve(8080);
    bed.ip("fw", &["link", "add", "br0", "type", "bridge"]);
    bed.ip("fw", &["link", "set", "br0", "up"]);
    let policy = bed.policy("p.toml", &format!("[zones.beyond]\ninterfaces = 'br0'\n{OUT}"));
    let firewall = bed.up(&policy, "xdp");
    let message =
        firewall.start.lines().find(|line| line.contains("br0: zone beyond, tc")).unwrap_or_default();
    assert!(
        message.contains("`br0` takes no XDP program in its driver")
            && message.contains("TC is used instead"),
        "{}",
        firewall.start
    );
    let status = bed.json(&["status"]);
    for interface in status["interfaces"].as_array().unwrap() {
        let is_bridge = interface["name"] == "br0" || interface["interface"] == "br0";
        assert_eq!(interface["hook"], if is_bridge { "tc" } else { "xdp" }, "{status}");
        assert_eq!(interface["note"].is_string(), is_bridge, "{status}");
    }
    assert!(bed.rampart(&["status"]).1.contains("TC is used instead"));
    bed.until_call(8080, Outcome::Answered);
}

#[test]
fn needs_root_a_flood_is_reported_and_connections_go_on() {
    let bed = Bed::new();
    bed.serve(8080);
    let policy = bed.policy("p.toml", &format!("[settings]\nflows = {SMALLEST}\n{OUT}"));
    let mut firewall = bed.up(&policy, "auto");
    let mut open = bed.connect(8080).unwrap();
    expect_echo(&mut open, "before the flood");
    let socket = bed.inside("in", || UdpSocket::bind((INSIDE, 0)).unwrap());
    for port in 1..=SMALLEST + 100 {
        // The host may answer about a closed port that was asked before.
        let _ = socket.send_to(b"x", (OUTSIDE, port));
    }
    let message = firewall.until("trouble: packets are dropped, unanswered-full");
    assert!(message.contains("`unanswered` in `[settings]`"), "{message}");
    bed.expect(8080, Outcome::Answered, "handshakes have a budget of their own");
    expect_echo(&mut open, "what is open stays");
    let drops = bed.json(&["drops"]);
    let full = drops["drops"].as_array().unwrap().iter().find(|drop| drop["reason"] == "unanswered-full");
    assert!(full.unwrap()["packets"].as_u64().unwrap() >= 1, "{drops}");
    assert!(bed.json(&["status"])["troubles"].to_string().contains("unanswered-full"));
    // By itself the budget is half of a small table.
    let open_flows = bed.json(&["status"])["flows"]["open"].as_u64().unwrap();
    assert!(open_flows <= u64::from(SMALLEST) / 2 + 10, "{open_flows}");
    assert!(bed.json(&["flows", "proto=udp", "--kill"])["killed"].as_u64().unwrap() > 0);
    bed.until_call(8080, Outcome::Answered);
}

/// To a program a redirect succeeds before the driver is asked. Another firewall's interfaces have the same numbers, and the same tracepoints.
#[test]
fn needs_root_what_a_driver_does_not_send_is_dropped_and_not_forwarded() {
    const SENT: u64 = 40;
    let beds = [Bed::new(), Bed::new()];
    let _firewalls = beds.each_ref().map(|bed| bed.up(&bed.policy("p.toml", OUT), "xdp"));
    let forwarded = |bed: &Bed| bed.counted("forwarded");
    let [bed, other] = &beds;
    let socket = bed.inside("in", || UdpSocket::bind((INSIDE, 0)).unwrap());
    let receiver = bed.inside("out", || UdpSocket::bind((OUTSIDE, 9)).unwrap());
    receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let send = || socket.send_to(b"x", (OUTSIDE, 9)).unwrap();
    // A veth takes frames from XDP if the other end puts several together.
    for gro in ["on", "off", "on"] {
        bed.host_of("out").run("ethtool", &["-K", "x", "gro", gro]);
        let (before, dropped) = (forwarded(bed), bed.dropped("redirect"));
        for _ in 0..SENT {
            send();
        }
        if gro == "on" {
            (0..SENT).for_each(|_| _ = receiver.recv_from(&mut [0]).unwrap());
            assert_eq!((forwarded(bed) - before, bed.dropped("redirect") - dropped), (SENT, 0));
        } else {
            until("frames that were not sent", || bed.dropped("redirect") - dropped >= SENT);
            assert_eq!((forwarded(bed) - before, bed.dropped("redirect") - dropped), (0, SENT));
        }
    }
    assert_eq!((forwarded(other), other.dropped("redirect")), (0, 0), "they are another's");
}

#[test]
fn needs_root_a_route_that_vanishes_is_answered_with_an_error_and_comes_back() {
    for hook in ["tc", "xdp"] {
        let bed = Bed::new();
        bed.serve(8080);
        let _firewall = bed.up(&bed.policy("p.toml", OUT), hook);
        bed.until_call(8080, Outcome::Answered);
        bed.ip("fw", &["route", "del", "10.81.2.0/24", "dev", "e0"]);
        bed.until_call(8080, Outcome::Refused);
        let drops = bed.json(&["drops"]);
        let lost = drops["drops"].as_array().unwrap().iter().find(|drop| drop["reason"] == "no-route");
        assert!(lost.is_some_and(|drop| drop["packets"].as_u64() > Some(0)), "{hook}: {drops}");
        bed.ip("fw", &["route", "add", "10.81.2.0/24", "dev", "e0"]);
        bed.until_call(8080, Outcome::Answered);
    }
}

#[test]
fn needs_root_a_neighbour_that_is_not_there_is_answered_with_an_error() {
    for hook in ["tc", "xdp"] {
        let bed = Bed::new();
        let _firewall = bed.up(&bed.policy("p.toml", OUT), hook);
        let nobody = "10.81.2.77:8080".parse().unwrap();
        let error = bed.inside("in", || TcpStream::connect_timeout(&nobody, ASKED)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{hook}: {error}");
    }
}

/// The kernel's own errors reach an initiator that sends by one zone and is reached by another, if the policy allows its flow there as well.
#[test]
fn needs_root_the_kernels_errors_go_where_the_packets_of_their_flow_may() {
    const ASKS: &str =
        "[[rules]]\nname = 'asks'\nfrom = 'outside'\nto = 'inside'\nservice = 'udp/53'\naction = 'allow'\n";
    const BACK: &str =
        "[[rules]]\nname = 'back'\nfrom = 'inside'\nto = 'inside'\nservice = 'udp/53'\naction = 'allow'\n";
    let bed = Bed::new();
    bed.sysctl("net/ipv4/neigh/e1/retrans_time_ms", "100");
    bed.ip("out", &["address", "add", "203.0.113.9/32", "dev", "lo"]);
    bed.ip("fw", &["route", "add", "203.0.113.9", "via", INSIDE]);
    let _firewall = bed.up(&bed.policy("one.toml", ASKS), "tc");
    let counted = || [bed.dropped("flow-zone"), bed.counted("related")];
    for (name, rules, expected) in
        [("one.toml", ASKS, [1, 0]), ("both.toml", &format!("{ASKS}{BACK}"), [1, 1])]
    {
        assert_eq!(bed.rampart(&["apply", &bed.policy(name, rules)]).0, 0, "{name}");
        let before = counted();
        let asking = bed.inside("out", || UdpSocket::bind("203.0.113.9:0").unwrap());
        bed.inside("out", || asking.send_to(b"x", "10.81.1.99:53").unwrap());
        until("the kernel has given the neighbour up", || counted() != before);
        assert_eq!(counted(), expected, "{name}");
    }
}
