//! A transparent bridge between two hosts of one network, as a user sets it up.

use crate::bed::{Bed, Outcome, expect_echo, expect_from, serve, until};
use nix::sys::signal::Signal;
use std::net::TcpListener;

const INSIDE: &str = "10.82.0.2";
const OUTSIDE: &str = "10.82.0.3";
const OUTSIDE_V6: &str = "fd82::3";

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

/// Whether an interface of the firewall hears frames for other machines.
fn hears_all(bed: &Bed, interface: &str) -> bool {
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
            assert!(hears_all(&bed, interface), "{hook}: {interface}");
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
        until("the bridge has its other end again", || {
            attempt(&bed, "in", &["-n", "-c", "1", "-W", "1", OUTSIDE])
        });
        expect_from(bed.host("in"), &format!("{OUTSIDE}:23"), Outcome::Silence, hook);
        assert_eq!(bed.rampart(&["down"]).0, 0, "{hook}");
        drop(firewall);
        for interface in ["e1", "e0"] {
            assert!(!hears_all(&bed, interface), "{hook}: {interface}");
        }
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
