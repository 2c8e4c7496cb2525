//! Flows by the thousand through the programs, from two cores at once. `cargo run --release -p dataplane --example short_flows`
//! does the same by the million. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;
mod many;

#[test]
fn needs_root_short_flows_that_use_ports_again_lose_none() {
    let _turn = testkit::turn();
    let run = many::short::run(60_000);
    let account = run.account;
    assert_eq!(account.closed + account.expired + account.left, run.flows + 16);
    assert!(
        account.expired > run.flows / 100 && account.closed > run.flows / 4,
        "both ends of flows: {account:?}"
    );
}

#[test]
fn needs_root_two_cores_that_race_for_the_same_flows_lose_none() {
    let _turn = testkit::turn();
    let run = many::races::run(10_000);
    assert!(run.account.expired > 0 && run.account.killed > 0, "{:?}", run.account);
}

#[test]
fn needs_root_a_million_wrong_resets_close_nothing() {
    let _turn = testkit::turn();
    let run = many::resets::run(1_000_000);
    assert!(run.inexact >= 250_000 && run.dropped >= 750_000, "{run:?}");
}

/// RFC 4787, RFC 5382: two flows that had one name outside would each get the other's answers.
#[test]
fn needs_root_two_cores_never_give_one_port_to_two_flows() {
    let _turn = testkit::turn();
    let run = many::aliases::run(20);
    assert!((3_000..=4_000).contains(&run.flows) && run.moved > 1_000, "{run:?}");
}

/// RFC 4787 REQ-1 and REQ-3, where two cores open a mapping at the same moment.
#[test]
fn needs_root_two_cores_give_an_end_one_mapping_and_no_mapping_to_two_ends() {
    let _turn = testkit::turn();
    let mappings = many::aliases::run_mapped(20);
    assert!((2_000..=3_000).contains(&mappings), "{mappings}");
}
