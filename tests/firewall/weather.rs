//! Bad weather between two hosts: dead neighbours, routes that vanish, narrow links, devices without XDP. The sender gets an error,
//! and what comes back works again.

use crate::crossing::{Crossing, GATEWAY, HOST_DEVICE, SERVER};
use dataplane::Hook;
use std::time::{Duration, Instant};
use testkit::namespace::attempt;

const HOOKS: [Hook; 2] = [Hook::Xdp, Hook::Tc];

/// What `ping` says of one echo request.
fn ping(crossing: &Crossing, to: &str, more: &[&str]) -> String {
    let arguments = [&["-n", "-c", "1", "-W", "5"], more, &[to]].concat();
    let output = crossing.client.enter(|| attempt("ping", &arguments));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn ping_until(crossing: &Crossing, to: &str, wanted: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let said = ping(crossing, to, &[]);
        if said.contains(wanted) {
            return said;
        }
        assert!(Instant::now() < deadline, "never said `{wanted}`: {said}");
    }
}

/// The kernel's own answer about packets that waited for the neighbour in vain; the firewall never sees the sender's end of it.
#[test]
fn a_neighbour_that_was_never_there_is_answered_with_an_error() {
    for hook in HOOKS {
        let crossing = Crossing::build(hook);
        for ip in ["ipv4", "ipv6"] {
            ask_neighbours_quickly(&crossing, ip);
        }
        for (nobody, gateway) in ["198.19.0.77", "2001:2:0:2::77"].into_iter().zip(GATEWAY) {
            let said = ping_until(&crossing, nobody, "nreachable");
            assert!(said.contains(gateway), "{hook:?}: {said}");
        }
    }
}

/// By the kernel's own times, and as often as other tests let it ask, the tests of dead neighbours would take a minute.
fn ask_neighbours_quickly(crossing: &Crossing, ip: &str) {
    let setting = |name: &str| format!("{ip}/neigh/toserver/{name}");
    crossing.firewall.set(&[
        (&setting("base_reachable_time_ms"), "1000"),
        (&setting("delay_first_probe_time"), "1"),
        (&setting("retrans_time_ms"), "200"),
        (&setting("mcast_solicit"), "5"),
    ]);
}

/// The kernel does not see what XDP sends to a neighbour and would believe in it for ever: [`dataplane::routes`] makes it ask.
#[test]
fn a_neighbour_that_dies_is_noticed_and_found_again() {
    for hook in HOOKS {
        let crossing = Crossing::build(hook);
        for ((ip, server), gateway) in ["ipv4", "ipv6"].into_iter().zip(SERVER).zip(GATEWAY) {
            ask_neighbours_quickly(&crossing, ip);
            ping_until(&crossing, server, "1 received");
            let length = if ip == "ipv4" { 24 } else { 64 };
            crossing.server.ip(&format!("address del {server}/{length} dev {HOST_DEVICE}"));
            let said = ping_until(&crossing, server, "nreachable");
            assert!(said.contains(gateway), "{hook:?}: {said}");
            crossing.server.ip(&format!("address add {server}/{length} dev {HOST_DEVICE} nodad"));
            // The routes went with the address.
            let own_gateway = format!("{}1", &server[..server.len() - 1]);
            crossing.server.ip(&format!("route replace default via {own_gateway} dev {HOST_DEVICE}"));
            ping_until(&crossing, server, "1 received");
        }
    }
}

#[test]
fn a_route_that_vanishes_is_answered_with_an_error_and_comes_back() {
    for hook in HOOKS {
        let crossing = Crossing::build(hook);
        for ((server, gateway), net) in
            SERVER.into_iter().zip(GATEWAY).zip(["198.19.0.0/24", "2001:2:0:2::/64"])
        {
            ping_until(&crossing, server, "1 received");
            crossing.firewall.ip(&format!("route del {net} dev toserver"));
            // Whoever follows the kernel's routes may need a moment to hear of it.
            let said = ping_until(&crossing, server, "nreachable");
            assert!(said.contains(gateway), "{hook:?}: {said}");
            crossing.firewall.ip(&format!("route add {net} dev toserver"));
            ping_until(&crossing, server, "1 received");
        }
    }
}

/// Path MTU discovery: the sender learns the MTU of the narrow link, and what fits goes through.
#[test]
fn a_narrow_link_is_answered_with_an_error() {
    for hook in HOOKS {
        let crossing = Crossing::build(hook);
        crossing.firewall.ip("link set toserver mtu 1400");
        crossing.server.ip(&format!("link set {HOST_DEVICE} mtu 1400"));
        for ((server, headers), asked) in SERVER.into_iter().zip([28, 48]).zip(["mtu = 1400", "mtu=1400"]) {
            let size = (1500 - headers).to_string();
            let said = ping(&crossing, server, &["-M", "do", "-s", &size]);
            assert!(said.contains(asked), "{hook:?} {server}: {said}");
            let size = (1400 - headers).to_string();
            let said = ping(&crossing, server, &["-M", "do", "-s", &size]);
            assert!(said.contains("1 received"), "{hook:?} {server}: {said}");
        }
    }
}

/// TC takes the place of XDP on the device that has none; packets from XDP to that device take the way of the kernel.
#[test]
fn a_device_without_xdp_works_beside_one_with_it() {
    let crossing = Crossing::build_with_bridge();
    let [client, server] = crossing.attached();
    assert_eq!((client.hook, server.hook), (Hook::Tc, Hook::Xdp));
    let note = client.note.as_deref().unwrap_or_default();
    assert!(note.contains("`bridge`") && note.contains("TC is used instead"), "{note}");
    for server in SERVER {
        // One by one, as in `programs::ping_loses_nothing`.
        for _ in 0..5 {
            let said = crossing.client.run("ping", &["-n", "-c", "1", "-W", "10", server]);
            assert!(said.contains("1 received"), "{said}");
        }
    }
}
