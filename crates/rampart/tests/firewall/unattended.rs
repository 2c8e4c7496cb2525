//! A firewall whose daemon is dead: it judges by its last policy, and packets still find their way when the network changes.

use crate::bed::{Bed, Outcome, expect_echo};
use crate::{REJECT, WEB};
use nix::sys::signal::Signal;

/// The address that the host outside has from now on; nobody announces it.
fn change_address(bed: &Bed, address: &str) {
    bed.ip("out", &["link", "set", "x", "down"]);
    bed.ip("out", &["link", "set", "x", "address", address]);
    bed.ip("out", &["link", "set", "x", "up"]);
    bed.ip("out", &["route", "replace", "default", "via", "10.81.2.1"]);
    bed.ip("out", &["neighbour", "replace", "10.81.2.1", "lladdr", "02:00:00:00:02:01", "dev", "x"]);
}

#[test]
fn needs_root_without_a_daemon_packets_follow_routes_and_neighbours() {
    for hook in ["tc", "xdp"] {
        let bed = Bed::new();
        // What hosts without static neighbours do: the kernel asks, and forgets.
        bed.ip("fw", &["neighbour", "del", "10.81.2.2", "dev", "e0"]);
        bed.serve(8080);
        let mut firewall = bed.up(&bed.policy("p.toml", &format!("{WEB}{REJECT}")), hook);
        bed.until_call(8080, Outcome::Answered);
        let mut open = bed.connect(8080).unwrap();
        expect_echo(&mut open, hook);
        firewall.signal(Signal::SIGKILL);
        firewall.end();
        // The neighbour's address changes, known to the kernel, and not known to anybody.
        change_address(&bed, "02:00:00:00:02:77");
        bed.ip(
            "fw",
            &[
                "neighbour",
                "replace",
                "10.81.2.2",
                "lladdr",
                "02:00:00:00:02:77",
                "nud",
                "reachable",
                "dev",
                "e0",
            ],
        );
        bed.until_call(8080, Outcome::Answered);
        change_address(&bed, "02:00:00:00:02:78");
        bed.until_call(8080, Outcome::Answered);
        // A route goes, and comes back by another interface.
        bed.ip("fw", &["route", "del", "10.81.2.0/24", "dev", "e0"]);
        bed.until_call(8080, Outcome::Refused);
        bed.ip("fw", &["route", "add", "10.81.2.0/24", "dev", "e0"]);
        bed.until_call(8080, Outcome::Answered);
        expect_echo(&mut open, &format!("{hook}: what was open goes on"));
        // The next daemon takes over what is there.
        let _next = bed.up_with(&[]);
        bed.until_call(8080, Outcome::Answered);
        expect_echo(&mut open, &format!("{hook}: and with the next daemon"));
    }
}
