//! Application traffic through each firewall: every transaction and every byte has its place, and nothing of a run stays.

use super::{bench, left_behind, of, results, shown, suite, turn};
use measure::results::{MarkKind, Metric, Reading, Results};
use std::process::Command;
use std::time::{Duration, Instant};

/// Longer than anything here should take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Of each trial.
const SECONDS: f64 = 0.2;

fn check(results: &Results, duts: &[&str]) {
    for dut in duts {
        let points = of(results, dut);
        assert!(!points.is_empty(), "{dut}");
        for point in points {
            let what = format!("{dut} {:?} {:?}: {:?}", point.metric, point.levels(), point.marks);
            assert!(point.valid, "{what}");
            let (ledger, application) = (point.ledger(), point.application().unwrap());
            assert_eq!((ledger.residual(), ledger.received), (0, ledger.offered), "{what}");
            assert_eq!(application.clients.to_string(), point.level("clients").unwrap().text);
            assert_eq!((application.requests, application.answers), (ledger.received, ledger.received));
            assert_eq!(application.client_bytes, application.server_bytes, "{what}");
            let near = |expected: f64| (point.value - expected).abs() <= expected * 1e-3;
            let right = match point.metric {
                Metric::TransactionsPerMinute => near(application.in_time as f64 / SECONDS * 60.0),
                Metric::Goodput => near(application.bytes_in_time as f64 / SECONDS * 8.0),
                Metric::FailedTransactions => point.value == 0.0,
                _ => point.value > 0.0,
            };
            assert!(right, "{what}: {} of {application:?}", point.value);
        }
    }
}

#[test]
fn every_firewall_gives_valid_points() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    for (name, duts, test) in [
        (
            "many",
            &["wire", "xdp-redirect", "linux", "iptables", "haproxy", "rampart-tc"][..],
            "factors.clients = 144\nfactors.rules = 4\nfactors.protocol = \"http/1.1\"",
        ),
        (
            "mix",
            &["nftables", "rampart"],
            "factors.clients = 12\nfactors.ip = 6\nfactors.rules = 4\nfactors.protocol = \"nstl\"",
        ),
        (
            "active",
            &["linux"],
            "factors.clients = 4\nfactors.rules = 0\nfactors.protocol = \"ftp:active-put\"",
        ),
        (
            "nat",
            &["nftables"],
            "factors.clients = 1\nfactors.rules = 4\nfactors.nat = true\nfactors.protocol = \"ftp:get\"",
        ),
        (
            "https",
            &["wire", "nftables", "haproxy", "rampart-tc"],
            "factors.clients = 4\nfactors.rules = 4\nfactors.protocol = \"https\"\nfactors.object = 16\nfactors.transactions = 3",
        ),
        (
            "http2",
            &["wire", "nftables", "haproxy", "rampart-tc"],
            "factors.clients = 4\nfactors.rules = 4\nfactors.protocol = \"http/2\"\nfactors.object = 256\nfactors.transactions = 12",
        ),
        (
            "proxies",
            &["haproxy", "squid", "rampart-gateway"],
            "factors.clients = 12\nfactors.ip = 6\nfactors.rules = [0, 4]\nfactors.protocol = \"http/1.1\"\nfactors.transactions = 3",
        ),
        (
            "proxies of 1.0",
            &["haproxy", "squid"],
            "factors.clients = 12\nfactors.rules = 4\nfactors.protocol = \"http/1.0\"",
        ),
        (
            "settings of gateways",
            &["squid", "rampart-gateway"],
            "factors.clients = 12\nfactors.rules = 40\nfactors.protocol = \"http/1.0\"\nfactors.look_ups = true\nfactors.event_log = \"disk\"\n\
             factors.receive_buffer = 64\nfactors.memory_limit = 256",
        ),
        (
            "gateways of both",
            &["rampart-gateway"],
            "factors.clients = 12\nfactors.ip = 6\nfactors.rules = 4\nfactors.protocol = \"nstl\"\nfactors.decision_cache = false",
        ),
        ("link", &["rampart"], "factors.clients = 12\nfactors.rules = 4\nfactors.link = \"100M\""),
    ] {
        let suite = suite(dir.path(), duts, SECONDS, &format!("procedure = \"transactions\"\n{test}"));
        check(&results(&suite, &dir.path().join(name), &[]), duts);
    }
}

/// A mix in which every kind of protocol has its part; the suite's text goes on behind the test.
const MIX: &str = r#"
[[mix]]
name = "all-of-it"
title = "every protocol at once"
shares = "transactions"
part = [
  { name = "pages", protocol = "http/1.1", object = [1, 16], transactions = 4, share = 40 },
  { name = "sealed", protocol = "https", object = 4, share = 15 },
  { name = "streams", protocol = "http/2", object = "mixed", transactions = 3, share = 15 },
  { name = "files", protocol = "ftp:get", object = 32, share = 30 },
]
"#;

/// One trial carries all parts through one policy, and a firewall that cannot carry one of them is refused by the part's name.
#[test]
fn a_mix_of_applications_goes_through_a_firewall_and_every_part_has_its_values() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let test = format!(
        "procedure = \"transactions\"\nfactors.clients = 8\nfactors.rules = 4\nfactors.protocol = \"mix:all-of-it\"\n{MIX}"
    );
    // On a busy machine a trial of that length may have less than a turn for each part.
    let seconds = [SECONDS, 10.0 * SECONDS, 50.0 * SECONDS];
    let suite_of = |seconds: f64| suite(dir.path(), &["nftables", "haproxy"], seconds, &test);
    let suite = suite_of(SECONDS);
    let dry = bench(&["run", suite.to_str().unwrap(), "--dry-run"]).output().unwrap();
    let said = "haproxy cannot do part files (ftp:get) of the mix all-of-it: FTP: HAProxy speaks none";
    assert!(shown(&dry).contains(said), "{}", shown(&dry));
    let mut attempts = seconds.iter().map(|&seconds| {
        let out = dir.path().join(format!("out-{seconds}"));
        results(&suite_of(seconds), &out, &[])
    });
    let is_off = |results: &Results| {
        let points = of(results, "nftables");
        points.iter().any(|point| point.marks.iter().any(|mark| mark.kind == MarkKind::SharesOff))
    };
    let results =
        attempts.by_ref().find(|results| !is_off(results)).expect("no trial had turns for each part");
    assert_eq!(results.mixes.len(), 1);
    for point in of(&results, "haproxy") {
        let refused = point.marks.iter().find(|mark| mark.kind == MarkKind::NotSupported);
        let refused = refused.is_some_and(|mark| mark.text.contains("part files (ftp:get)"));
        assert!(!point.valid && refused, "{:?} {:?}: {:?}", point.metric, point.at, point.marks);
    }
    let points = of(&results, "nftables");
    assert!(
        points.iter().all(|point| point.valid),
        "{:?}",
        points.iter().map(|p| &p.marks).collect::<Vec<_>>()
    );
    let of_part = |part: &str| {
        let is = |point: &&Reading<'_>| {
            point.metric == Metric::TransactionsPerMinute && point.at["part"].text == part
        };
        *points.iter().find(is).unwrap_or_else(|| panic!("{part}"))
    };
    let parts = ["pages", "sealed", "streams", "files"].map(|part| of_part(part).value);
    let whole = of_part("all").value;
    assert!(parts.iter().all(|value| *value > 0.0), "{parts:?} of {whole}");
    assert!((parts.iter().sum::<f64>() - whole).abs() < whole * 1e-6, "{parts:?} of {whole}");
    let carried = of_part("all").mix().unwrap();
    assert_eq!((carried.off(), carried.parts.len()), (Vec::new(), 4), "{carried:?}");
}

#[test]
fn every_firewall_holds_connections_of_applications() {
    const MOST: u64 = 200;
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    for (name, duts, test) in [
        (
            "http",
            &["wire", "xdp-redirect", "nftables", "haproxy", "squid", "rampart", "rampart-gateway"][..],
            "\"http/1.1\"",
        ),
        ("https", &["wire", "nftables", "haproxy", "rampart-tc"], "\"https\"\nfactors.ip = 6"),
    ] {
        let test = format!(
            "procedure = \"application-capacity\"\nmax_connections = {MOST}\nfactors.rules = 4\nfactors.object = 1\nfactors.protocol = {test}"
        );
        let results = results(&suite(dir.path(), duts, SECONDS, &test), &dir.path().join(name), &[]);
        for dut in duts {
            let points = of(&results, dut);
            assert_eq!(points.len(), 1, "{dut}");
            let (point, held) = (&points[0], points[0].application().unwrap().held.clone().unwrap());
            let what = format!("{name} {dut}: {} {held:?} {:?}", point.value, point.marks);
            assert!(point.valid && point.metric == Metric::ConcurrentConnections, "{what}");
            assert_eq!((point.value, held.alive), (MOST as f64, MOST), "{what}");
            // A proxy of HTTP may share its connections to servers; one that hands connections on may not.
            let relays = name == "http" && ["haproxy", "squid", "rampart-gateway"].contains(dut);
            assert_eq!(held.relayed, relays, "{what}");
            assert!(relays || held.open_at_servers == MOST, "{what}");
            let said = "200 connections: the suite asks for no more (`max_connections`)";
            assert!(point.marks.iter().any(|mark| mark.text.contains(said)), "{what}");
            assert_eq!(
                (point.ledger().residual(), point.ledger().received),
                (0, point.ledger().offered),
                "{what}"
            );
        }
    }
}

#[test]
fn a_machine_of_others_between_two_cards_is_refused_before_anything_is_built() {
    let dir = tempfile::tempdir().unwrap();
    let suite = suite(dir.path(), &["wire"], 1.0, "procedure = \"transactions\"");
    let out = dir.path().join("out");
    let refused =
        bench(&["run", suite.to_str().unwrap(), "--ports", "a0,b0", "--out", out.to_str().unwrap()])
            .output()
            .unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", shown(&refused));
    assert!(shown(&refused).contains("is of application traffic, which needs"), "{}", shown(&refused));
    assert!(!out.exists());
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let suite = suite(dir.path(), &["linux"], 600.0, "procedure = \"transactions\"");
    let out = dir.path().join("out");
    let run = bench(&["run", suite.to_str().unwrap(), "--out", out.to_str().unwrap()]).spawn().unwrap();
    let pid = run.id();
    let begun = Instant::now();
    while !servers_listen(pid) {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until servers listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", shown(&output));
    assert_eq!(left_behind(pid), Vec::<String>::new());
}

/// Whether a trial is under way: its servers listen from its start to its end.
fn servers_listen(pid: u32) -> bool {
    let Some(name) = left_behind(pid).into_iter().find(|name| name.ends_with("hostile")) else {
        return false;
    };
    let shown = Command::new("ip").args(["netns", "exec", &name, "ss", "-Htln"]).output().unwrap();
    !shown.stdout.is_empty()
}
