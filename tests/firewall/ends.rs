//! TCP ends as they really behave: real stacks that forget connections, refuse, restart and lose segments, across the firewall and,
//! as the control, across nftables. What each case is stands in `ends.py`.

use crate::crossing::{Crossing, SERVER};
use dataplane::{Hook, State};
use testkit::namespace::{attempt, said};

/// A case, how its client fares, and the state in which the firewall has the connection then, if that does not depend on the order in
/// which the case's end closes its sockets.
const CASES: [(&str, &str, Option<State>); 8] = [
    ("refused", "ConnectionRefusedError", Some(State::Established)),
    ("forgotten", "done", None),
    ("restarted", "done", None),
    ("lost", "ConnectionResetError", Some(State::Reset)),
    ("unanswered", "done", None),
    ("cookies", "done", None),
    ("closed", "done", Some(State::TimeWait)),
    ("aborted", "ConnectionResetError", Some(State::Reset)),
];
const CLIENT_PORT: u16 = 4000;

fn run(crossing: &Crossing, case: &str, server: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/firewall/ends.py");
    let [client_path, server_path] =
        [&crossing.client, &crossing.server].map(|n| n.path().to_str().unwrap().to_owned());
    // Not in a namespace: it enters them.
    let output = attempt("python3", &[script, case, &client_path, &server_path, server]);
    assert!(output.status.success(), "{case}: {}", said(&output));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn check(hook: Hook) {
    for (case, fares, state) in CASES {
        // One for each: what one left must not help the next.
        let mut crossing = Crossing::build(hook);
        for server in SERVER {
            assert_eq!(run(&crossing, case, server), fares, "{hook:?} {server} {case}");
            if let Some(state) = state {
                assert_eq!(crossing.states(CLIENT_PORT), [state], "{hook:?} {server} {case}");
            }
            crossing.forget_flows();
        }
    }
}

#[test]
fn real_ends_are_understood_by_xdp() {
    check(Hook::Xdp);
}

/// Here senders leave checksums to be filled in, those of FINs and resets too.
#[test]
fn real_ends_are_understood_by_tc() {
    check(Hook::Tc);
}

#[test]
fn real_ends_are_understood_by_nftables() {
    for (case, fares, _) in CASES {
        let crossing = Crossing::build_with_nftables();
        for server in SERVER {
            assert_eq!(run(&crossing, case, server), fares, "{server} {case}");
        }
    }
}
