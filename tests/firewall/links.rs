//! Whose frames the firewall takes, on real links: those for its interface's own Ethernet address, also after it has changed.

use crate::crossing::{CLIENT, Crossing, GATEWAY, HOST_DEVICE, SERVER};
use dataplane::{Hook, Reason};
use std::time::{Duration, Instant};

/// Longer than the kernel takes to announce a change; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(60);
const OTHER: &str = "02:00:00:00:77:77";

/// How many of the server's addresses the client reaches, if it waits so many seconds for each.
fn reached(crossing: &Crossing, seconds: &str) -> usize {
    let reaches = |server: &str| {
        let ping = ["-n", "-c", "1", "-W", seconds, server];
        crossing.client.enter(|| testkit::namespace::attempt("ping", &ping)).status.success()
    };
    SERVER.iter().filter(|server| reaches(server)).count()
}

/// The client takes another machine for its gateway, as on a segment that floods; then the firewall's interface becomes that
/// machine.
#[test]
fn frames_for_another_machine_are_left_alone_until_the_interface_has_its_address() {
    for hook in [Hook::Xdp, Hook::Tc] {
        let mut crossing = Crossing::build(hook);
        // A question for a neighbour that is lost is asked again after a second.
        assert_eq!(reached(&crossing, "30"), 2, "{hook:?}");
        for gateway in GATEWAY {
            crossing.client.ip(&format!("neighbour replace {gateway} lladdr {OTHER} dev {HOST_DEVICE}"));
        }
        // On a wire everybody sees everything.
        crossing.firewall.ip("link set toclient promisc on");
        assert_eq!(reached(&crossing, "1"), 0, "{hook:?}");
        let left_alone = crossing.dropped(Reason::NotOurs);
        assert!(left_alone >= 2, "{hook:?}: {left_alone}");
        crossing.firewall.ip(&format!("link set toclient address {OTHER}"));
        for client in CLIENT {
            // The client must not ask where it is answered to; the firewall finds it anew.
            crossing.firewall.ip(&format!("neighbour flush to {client} dev toclient"));
        }
        let deadline = Instant::now() + PATIENCE;
        while reached(&crossing, "5") < 2 {
            assert!(Instant::now() < deadline, "{hook:?}: its new address is not known");
        }
    }
}
