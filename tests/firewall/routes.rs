//! What changes in the kernel reaches the data plane: routes, neighbours, addresses, links.

use crate::rows_program::{Deed, Outcome, Rows, ZONE_OUT, ZONE_SELF};
use dataplane::Hook;
use dataplane::routes::{Changes, LinkWatch, Routes};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use testkit::packet::frame;

const NO_ROUTE: u32 = 42;

/// Longer than the kernel takes to announce a change; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Follows until the kernel has announced what `done` waits for.
fn follow_until(routes: &mut Routes, mut done: impl FnMut(Changes) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut fds = [PollFd::new(routes.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::from(1_000u16)).unwrap();
        if done(routes.follow().unwrap()) {
            return;
        }
        assert!(Instant::now() < deadline, "the kernel announced nothing of the kind");
    }
}

fn outcome(rows: &Rows, packet: &str) -> Outcome {
    rows.run(Hook::Xdp, Deed::Forward, &frame(packet))
}

const TO_FAR_NET: &str = "198.18.0.9 > 198.51.100.7 ttl=64 udp 5>6";
const TO_FAR_NET_V6: &str = "2001:2:0:1::9 > 2001:2:0:5::7 ttl=64 udp 5>6";

#[test]
fn a_route_that_vanishes_and_comes_back() {
    let rows = Rows::load_bare();
    let mut routes = rows.start_routes();
    for (packet, vanish, come) in [
        (TO_FAR_NET, "route del 198.51.100.0/24", "route add 198.51.100.0/24 via 198.19.0.2"),
        (TO_FAR_NET_V6, "-6 route del 2001:2:0:5::/64", "-6 route add 2001:2:0:5::/64 via 2001:2:0:2::2"),
    ] {
        assert_eq!(outcome(&rows, packet).way, "onward", "{packet}");
        rows.namespace.ip(vanish);
        follow_until(&mut routes, |changes| changes.routes);
        assert_eq!(outcome(&rows, packet).reason, NO_ROUTE, "{packet}");
        rows.namespace.ip(come);
        follow_until(&mut routes, |changes| changes.routes);
        assert_eq!(outcome(&rows, packet).way, "onward", "{packet}");
    }
}

/// What the kernel is to forward in fragments comes in by the loopback interface, where a strict reverse-path filter would drop it.
#[test]
fn a_strict_reverse_path_filter_is_a_loose_one_for_the_loopback_interface() {
    let of = |rows: &Rows, name: &str| {
        rows.namespace.run("cat", &[&format!("/proc/sys/net/ipv4/conf/{name}/rp_filter")]).trim().to_owned()
    };
    for (all, before, meanwhile) in
        [("0", "0", "0"), ("1", "0", "2"), ("0", "1", "2"), ("2", "0", "0"), ("1", "1", "2")]
    {
        let rows = Rows::load_bare();
        rows.namespace.set(&[("ipv4/conf/all/rp_filter", all), ("ipv4/conf/lo/rp_filter", before)]);
        let routes = rows.start_routes();
        assert_eq!((of(&rows, "all"), of(&rows, "lo")), (all.to_owned(), meanwhile.to_owned()));
        drop(routes);
        assert_eq!((of(&rows, "all"), of(&rows, "lo")), (all.to_owned(), before.to_owned()));
    }
}

#[test]
fn a_neighbour_that_moves_to_another_card_or_dies() {
    let rows = Rows::load_bare();
    let mut routes = rows.start_routes();
    let way = || outcome(&rows, TO_FAR_NET).way;
    assert_eq!(way(), "onward");
    rows.namespace.ip("neighbour replace 198.19.0.2 lladdr 02:00:00:00:02:77 dev out0");
    follow_until(&mut routes, |changes| changes.routes);
    assert_eq!(outcome(&rows, TO_FAR_NET).frame[..6], [2, 0, 0, 0, 2, 0x77]);
    rows.namespace.ip("neighbour replace 198.19.0.2 nud failed dev out0");
    follow_until(&mut routes, |changes| changes.routes);
    assert_eq!(
        outcome(&rows, TO_FAR_NET).action,
        "pass",
        "it goes to the program that asks for the neighbour"
    );
    rows.namespace.ip("neighbour replace 198.19.0.2 lladdr 02:00:00:00:02:02 dev out0");
    assert_eq!(way(), "onward", "a neighbour that was not known is never remembered as such");
}

#[test]
fn a_link_that_goes_down_and_one_that_becomes_narrower() {
    let rows = Rows::load_bare();
    let mut routes = rows.start_routes();
    let large = "198.18.0.9 > 198.19.0.2 ttl=64 df udp 5>6 data=1300";
    assert_eq!(outcome(&rows, large).way, "onward");
    rows.namespace.ip("link set out0 mtu 1280");
    follow_until(&mut routes, |_| outcome(&rows, large).reason == 41);
    rows.namespace.ip("link set out0 down");
    follow_until(&mut routes, |_| outcome(&rows, large).reason == NO_ROUTE);
}

#[test]
fn own_addresses_are_known_as_they_come_and_go() {
    let rows = Rows::load_bare();
    let mut routes = rows.start_routes();
    for (address, packet) in [
        ("198.19.0.77/24", "198.18.0.9 > 198.19.0.77 ttl=64 udp 5>6"),
        ("2001:2:0:2::77/64", "2001:2:0:1::9 > 2001:2:0:2::77 ttl=64 udp 5>6"),
    ] {
        assert_eq!(outcome(&rows, packet).to, ZONE_OUT, "{address}");
        rows.namespace.ip(&format!("address add {address} dev out0"));
        follow_until(&mut routes, |_| outcome(&rows, packet).to == ZONE_SELF);
        rows.namespace.ip(&format!("address del {address} dev out0"));
        follow_until(&mut routes, |_| outcome(&rows, packet).to == ZONE_OUT);
    }
    let broadcast = outcome(&rows, "198.18.0.9 > 198.19.0.255 ttl=64 udp 5>6");
    assert_eq!(broadcast.to, ZONE_SELF, "what is for everybody on a link goes no further");
}

/// The kernel doubts a neighbour that its own traffic has not used for a while; asked again, it probes it. That one was in
/// doubt before anybody listened makes no difference.
#[test]
fn a_doubted_neighbour_is_asked_for_again() {
    let rows = Rows::load_bare();
    let doubt = |host| format!("neighbour replace {host} lladdr 02:00:00:00:02:02 nud stale dev out0");
    rows.namespace.ip(&doubt("198.19.0.2"));
    let mut routes = rows.start_routes();
    rows.namespace.ip(&doubt("2001:2:0:2::2"));
    let mut asked = 0;
    follow_until(&mut routes, |changes| {
        asked += changes.asked_again;
        asked > 0
    });
    for host in ["198.19.0.2", "2001:2:0:2::2"] {
        let shown = rows.namespace.run("ip", &["neighbour", "show", host, "dev", "out0"]);
        assert!(!shown.contains("STALE"), "nobody asks: {shown}");
    }
    assert_eq!(outcome(&rows, TO_FAR_NET).way, "onward", "in doubt it is still used");
}

/// Without the setting the kernel answers no question; it is taken back, so that a machine is left as it was found.
#[test]
fn the_loopback_interface_forwards_only_while_routes_are_followed() {
    let rows = Rows::load_bare();
    let setting = || {
        let read = |path| rows.namespace.enter(move || std::fs::read_to_string(path).unwrap());
        ["/proc/sys/net/ipv4/conf/lo/forwarding", "/proc/sys/net/ipv6/conf/lo/forwarding"].map(read)
    };
    assert_eq!(setting(), ["0\n", "0\n"]);
    let routes = rows.start_routes();
    assert_eq!(setting(), ["1\n", "1\n"]);
    let forwarding =
        rows.namespace.run("sysctl", &["-n", "net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"]);
    assert_eq!(forwarding, "0\n0\n", "the kernel itself must not forward");
    drop(routes);
    assert_eq!(setting(), ["0\n", "0\n"]);
}

/// The thread brings a change to the data plane, and is gone when it is dropped.
#[test]
fn routes_are_followed_in_the_background() {
    let rows = Rows::load_bare();
    let follower = rows.start_routes().follow_in_background().unwrap();
    assert_eq!(outcome(&rows, TO_FAR_NET).way, "onward");
    rows.namespace.ip("route del 198.51.100.0/24");
    let deadline = Instant::now() + PATIENCE;
    while outcome(&rows, TO_FAR_NET).reason != NO_ROUTE {
        assert!(Instant::now() < deadline, "the route is still remembered");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(follower.trouble(), None);
    drop(follower);
    let setting = rows.namespace.run("sysctl", &["-n", "net.ipv4.conf.lo.forwarding"]);
    assert_eq!(setting, "0\n", "what was changed is put back");
}

/// Whoever waits for interfaces is woken by the kernel when one comes and when one goes, and not without end. How often is up to the
/// kernel, which also announces, up to a second later, that links of the bed have come up.
#[test]
fn interfaces_that_come_and_go_are_announced() {
    const MOST: usize = 100;
    let rows = Rows::load_bare();
    let mut watch = rows.namespace.within(|| LinkWatch::open().unwrap());
    let (changed, changes) = std::sync::mpsc::channel();
    std::thread::spawn(move || while watch.wait().is_ok() && changed.send(()).is_ok() {});
    for change in ["link add come0 type veth peer name come1", "link del come0"] {
        rows.namespace.ip(change);
        changes.recv_timeout(PATIENCE).unwrap();
        let more = changes.try_iter().take(MOST).count();
        assert!(more < MOST, "{change}: it is woken without a reason");
    }
}
