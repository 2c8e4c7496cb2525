//! The SYN proxy between the kernels of two hosts: what they say is the test.

use crate::crossing::{Crossing, SERVER};
use dataplane::{Hook, Tally};
use std::process::Command;

const PROXY: &str = "[settings]\nsyn_proxy = \"on\"\n";

/// What a case of `proxied.py` prints.
fn fares(crossing: &Crossing, case: &str, server: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/firewall/proxied.py");
    let [client, other] = [&crossing.client, &crossing.server].map(|n| n.path().to_str().unwrap().to_owned());
    // Not in a namespace: it enters them.
    let arguments = ["120", "python3", script, case, &client, &other, server];
    let output = Command::new("timeout").args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() { said } else { format!("{said}{}", String::from_utf8_lossy(&output.stderr)) }
}

/// Each with how the client fares.
const CASES: [(&str, &str); 11] = [
    ("client-first", "done"),
    ("server-first", "done"),
    ("losing", "done"),
    ("server-losing", "done"),
    ("no-timestamps", "done"),
    ("no-sack", "done"),
    ("no-scaling", "done"),
    ("plain-server", "done"),
    ("refused", "ConnectionResetError"),
    ("ecn", "done"),
    ("fast-open", "done"),
];

fn check(hook: Hook) {
    let mut crossing = Crossing::build(hook);
    crossing.set(PROXY);
    for server in SERVER {
        for (case, wanted) in CASES {
            let before = [Tally::Cookies, Tally::CookiesTaken].map(|tally| crossing.tally(tally));
            assert_eq!(fares(&crossing, case, server), wanted, "{hook:?} {server} {case}");
            let after = [Tally::Cookies, Tally::CookiesTaken].map(|tally| crossing.tally(tally));
            assert!(after[0] > before[0] && after[1] > before[1], "{hook:?} {server} {case}: {after:?}");
        }
    }
}

#[test]
fn connections_go_through_the_syn_proxy_of_xdp() {
    check(Hook::Xdp);
}

#[test]
fn connections_go_through_the_syn_proxy_of_tc() {
    check(Hook::Tc);
}
