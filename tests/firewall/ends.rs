//! TCP ends as they really behave: real stacks that forget connections, refuse, restart and lose segments, across the firewall and,
//! as the control, across nftables. What each case is stands in `ends.py`.

use crate::crossing::{Crossing, SERVER};
use dataplane::{Hook, State};
use testkit::namespace::{attempt, said};

/// A case, how its client fares, and the state in which the firewall has the connection then, if that does not depend on the order in
/// which the case's end closes its sockets.
type Case = (&'static str, &'static str, Option<State>);

const CASES: [Case; 8] = [
    ("refused", "ConnectionRefusedError", Some(State::Established)),
    ("forgotten", "done", None),
    ("restarted", "done", None),
    ("lost", "ConnectionResetError", Some(State::Reset)),
    ("unanswered", "done", None),
    ("cookies", "done", None),
    ("closed", "done", Some(State::TimeWait)),
    ("aborted", "ConnectionResetError", Some(State::Reset)),
];
/// Those that leave nothing to the next.
const TIDY_CASES: [&str; 8] =
    ["reopened", "reopened_after_reset", "fast", "urgent", "shut", "half_closed", "crossed", "traced"];
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

/// By crossings that are all alike.
fn check(build: impl Fn() -> Crossing) {
    for (case, fares, state) in CASES {
        // One for each: what one left must not help the next.
        let mut crossing = build();
        for server in SERVER {
            assert_eq!(run(&crossing, case, server), fares, "{server} {case}");
            if let Some(state) = state {
                assert_eq!(crossing.states(CLIENT_PORT), [state], "{server} {case}");
            }
            crossing.forget_flows();
        }
    }
    check_tidy(build());
}

fn check_tidy(mut crossing: Crossing) {
    for (case, server) in TIDY_CASES.into_iter().flat_map(|case| SERVER.map(|server| (case, server))) {
        assert_eq!(run(&crossing, case, server), "done", "{server} {case}");
        crossing.forget_flows();
    }
}

#[test]
fn real_ends_are_understood_by_xdp() {
    check(|| Crossing::build(Hook::Xdp));
}

/// Here senders leave checksums to be filled in, those of FINs and resets too.
#[test]
fn real_ends_are_understood_by_tc() {
    check(|| Crossing::build(Hook::Tc));
}

/// Only those that leave nothing: each kind of crossing takes its time, and the others are asked at two hooks.
#[test]
fn real_ends_are_understood_where_the_kernel_forwards() {
    check_tidy(Crossing::build_with_kernel());
}

/// The same where the server knows the client by the firewall's address, but for a SYN of the server, which has no port there to go to.
fn check_translated(hook: Hook) {
    let tidy = TIDY_CASES.into_iter().filter(|case| *case != "crossed").map(|case| (case, "done", None));
    let mut crossing = Crossing::build(hook);
    crossing.masquerade();
    // What `cookies` and `lost` set stays.
    let (first, last): (Vec<Case>, Vec<Case>) =
        tidy.chain(CASES).partition(|(case, ..)| !["cookies", "lost"].contains(case));
    for (case, fares, state) in first.into_iter().chain(last) {
        assert_eq!(run(&crossing, case, SERVER[0]), fares, "{hook:?} {case}");
        if let Some(state) = state {
            assert_eq!(crossing.states(CLIENT_PORT), [state], "{hook:?} {case}");
        }
        crossing.forget_flows();
    }
}

#[test]
fn real_ends_are_understood_through_a_masquerade() {
    for hook in [Hook::Xdp, Hook::Tc] {
        check_translated(hook);
    }
}

/// Who begins anew by the same port, or with data in its SYN, has its handshake with the firewall, and its server another. A server's own SYN
/// and answers that end on the way are of no such handshake. At XDP a client that does not speak first waits a second, so only half is asked.
#[test]
fn real_ends_are_understood_by_a_syn_proxy() {
    for (hook, servers) in [(Hook::Xdp, &SERVER[..1]), (Hook::Tc, &SERVER)] {
        let mut crossing = Crossing::build(hook);
        crossing.set("[settings]\nsyn_proxy = \"on\"\n");
        let cases = TIDY_CASES.into_iter().filter(|case| !["crossed", "traced"].contains(case));
        for (case, server) in cases.flat_map(|case| servers.iter().map(move |server| (case, server))) {
            assert_eq!(run(&crossing, case, server), "done", "{hook:?} {server} {case}");
            crossing.forget_flows();
        }
    }
}

#[test]
fn real_ends_are_understood_by_nftables() {
    for (case, fares, _) in CASES {
        let crossing = Crossing::build_with_nftables();
        for server in SERVER {
            assert_eq!(run(&crossing, case, server), fares, "{server} {case}");
        }
    }
    check_tidy(Crossing::build_with_nftables());
}
