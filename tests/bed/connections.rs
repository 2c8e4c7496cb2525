//! Whole runs whose trials are of TCP connections: what every procedure brings on real firewalls, and what is refused.

use super::{bench, of, results, shown, suite, turn};
use measure::results::{MarkKind, Metric, Reading, Results};

fn point<'a>(results: &'a Results, dut: &str, metric: Metric) -> Reading<'a> {
    of(results, dut)
        .into_iter()
        .find(|p| p.metric == metric)
        .unwrap_or_else(|| panic!("{dut}: no {metric:?}"))
}

fn valid(results: &Results) {
    assert!(!results.points.is_empty());
    for point in results.readings() {
        let what = format!("{} {:?} {:?}: {:?}", point.dut, point.metric, point.levels(), point.marks);
        assert!(point.valid, "{what}");
        assert_eq!(point.ledger().residual(), 0, "{what}");
    }
}

#[test]
fn rates_and_capacity_are_found_on_every_firewall() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let all = &["wire", "linux", "nftables", "iptables", "ipset"][..];
    let two = &["wire", "nftables"][..];
    let rows = [
        (
            "rate",
            all,
            "procedure = \"connection-rate\"\nwidth = 0.3\nfactors.rules = 3",
            Metric::ConnectionRate,
        ),
        (
            "transactions",
            two,
            "procedure = \"transaction-rate\"\nwidth = 0.3\nfactors.rules = 3\nfactors.transactions = 3",
            Metric::TransactionRate,
        ),
        (
            "v6",
            two,
            "procedure = \"teardown-rate\"\nwidth = 0.3\nfactors.rules = 3\nfactors.ip = 6",
            Metric::TeardownRate,
        ),
        (
            "capacity",
            two,
            "procedure = \"connection-capacity\"\nopening_rate = 5000\nmax_connections = 500\nfactors.rules = 3",
            Metric::ConcurrentConnections,
        ),
        // Rules that no connection meets allow ports that are forbidden to the servers, and are asked beside the trials.
        (
            "families",
            &["nftables", "rampart-tc"],
            "procedure = \"connection-rate\"\nwidth = 0.3\nfactors.rule_family = [\"acl1\", \"ipc1\"]\nfactors.rules = 1000",
            Metric::ConnectionRate,
        ),
    ];
    for (name, duts, test, metric) in rows {
        let suite = suite(dir.path(), duts, 0.05, test);
        let results = results(&suite, &dir.path().join(name), &[]);
        valid(&results);
        for dut in duts {
            let point = point(&results, dut, metric);
            assert!(point.value > 0.0, "{name}: {dut}");
            assert!(point.connections().is_some_and(|s| s.established > 0), "{name}: {dut}");
        }
    }
}

#[test]
fn illegal_attempts_are_stopped_and_counted_apart() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let test = "procedure = \"session-rate\"\nsession_rate = 2000\nfactors.connections = 100\nfactors.rules = 3\n\
                factors.illegal = \"50%:address,port,protocol,ack,rst,fin\"";
    let suite = suite(dir.path(), &["linux", "nftables", "iptables"], 0.05, test);
    let results = results(&suite, &dir.path().join("out"), &[]);
    valid(&results);
    for dut in ["linux", "nftables", "iptables"] {
        let point = point(&results, dut, Metric::Established);
        let sessions = point.connections().unwrap();
        let illegal = sessions.illegal.as_ref().unwrap();
        let attempted = illegal.attempted.values().sum::<u64>();
        // A busy machine may be late for some, of both in turns.
        assert!(attempted > 0 && attempted.abs_diff(sessions.attempted) <= 2, "{dut}: {sessions:?}");
        assert_eq!(point.value, sessions.attempted as f64, "{dut}: legal connections");
        // What only forwards lets everything through, and that is no fault of it.
        assert_eq!(illegal.forbidden, dut != "linux");
        let through = if dut == "linux" { attempted } else { 0 };
        assert_eq!(illegal.total_got_through(), through, "{dut}: {illegal:?}");
    }
}

#[test]
fn forged_resets_close_nothing() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let test = "procedure = \"resets\"\nfactors.connections = 50\nfactors.rules = 3";
    let suite = suite(dir.path(), &["nftables"], 0.05, test);
    let results = results(&suite, &dir.path().join("out"), &[]);
    valid(&results);
    let surviving: Vec<Reading<'_>> = results.readings().filter(|p| p.metric == Metric::Surviving).collect();
    assert_eq!(surviving.len(), 2);
    for point in surviving {
        assert_eq!(point.value, 1.0, "{:?}", point.at);
    }
}

#[test]
fn a_flood_has_a_before_a_during_and_an_after() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    // Two samples in each stretch: on a busy machine one may reach over its end.
    let test = "procedure = \"steady\"\nconnection_rate = 500\nsustain_seconds = 6\nattack_after_seconds = 2\n\
                attack_seconds = 2\nfactors.attack = \"syn:1000\"\nfactors.rules = 3\nfactors.lists = 60\n\
                factors.list_sets = 3\nfactors.countries = 20";
    let suite = suite(dir.path(), &["nftables"], 0.05, test);
    let results = results(&suite, &dir.path().join("out"), &[]);
    valid(&results);
    let phases: Vec<&str> = results
        .points
        .iter()
        .filter(|p| p.metric == Metric::ConnectionRate)
        .filter_map(|p| p.at.get("phase").map(|level| level.text.as_str()))
        .collect();
    assert_eq!(phases, ["before", "during", "after"]);
    let first = results.readings().next().unwrap();
    let attack = first.connections().unwrap().attack.unwrap();
    // A busy machine may be late for some; what was sent must all arrive, because the policy admits attackers.
    assert_eq!(attack.offered, 2000, "{attack:?}");
    assert!(attack.sent > 0 && attack.forwarded == attack.sent, "{attack:?}");
    assert!(first.policy_load_seconds().is_some_and(|s| s > 0.0));
    let seconds = &first.trials()[0].per_second;
    assert_eq!(
        seconds.iter().filter_map(|s| s.connections.as_ref()).map(|s| s.attack_sent).sum::<u64>(),
        attack.sent
    );
}

#[test]
fn a_policy_is_replaced_under_load_and_nothing_sees_a_mixture() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let test = "procedure = \"replacement\"\nconnection_rate = 500\ntrial_seconds = 2\nreplace_after_seconds = 0.5\n\
                factors.rules = 20";
    let suite = suite(dir.path(), &["nftables", "linux"], 0.05, test);
    let results = results(&suite, &dir.path().join("out"), &[]);
    let time = point(&results, "nftables", Metric::ReplacementTime);
    assert!(time.valid, "{:?}", time.marks);
    let replacement = time.connections().unwrap().replacement.as_ref().unwrap();
    assert!(replacement.probes > 100 && replacement.holds_after_seconds.is_some(), "{replacement:?}");
    assert_eq!(replacement.by_neither, 0, "{replacement:?}");
    let refused = point(&results, "linux", Metric::ReplacementTime);
    assert!(
        !refused.valid && refused.marks.iter().any(|m| m.kind == MarkKind::FirewallFailed),
        "{:?}",
        refused.marks
    );
}

#[test]
fn what_ports_cannot_hold_is_refused_before_the_run() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let test = "procedure = \"steady\"\nconnection_rate = 20000\nfactors.reuse = 60\nfactors.flows = 1000";
    let suite = suite(dir.path(), &["wire"], 1.0, test);
    let output = bench(&["run", suite.to_str().unwrap(), "--out", dir.path().join("out").to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", shown(&output));
    assert!(shown(&output).contains("20000") && shown(&output).contains("1000"), "{}", shown(&output));
}
