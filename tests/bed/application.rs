//! Application traffic through each firewall: every transaction and every byte has its place, and nothing of a run stays.

use super::{bench, left_behind, of, results, shown, suite, turn};
use measure::results::{Metric, Results};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Longer than anything here should take.
const PATIENCE: Duration = Duration::from_secs(60);

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
            match point.metric {
                Metric::FailedTransactions => assert_eq!(point.value, 0.0, "{what}"),
                _ => assert!(point.value > 0.0, "{what}"),
            }
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
            &["wire", "xdp-redirect", "linux", "iptables", "rampart-tc"][..],
            "factors.clients = 144\nfactors.rules = 4",
        ),
        (
            "v6",
            &["nftables", "rampart"],
            "factors.clients = 1\nfactors.ip = 6\nfactors.rules = 4\nfactors.protocol = \"http/1.1\"",
        ),
        ("nat", &["nftables"], "factors.clients = 12\nfactors.rules = 4\nfactors.nat = true"),
        ("link", &["rampart"], "factors.clients = 12\nfactors.rules = 4\nfactors.link = \"100M\""),
    ] {
        let suite = suite(dir.path(), duts, 0.2, &format!("procedure = \"transactions\"\n{test}"));
        check(&results(&suite, &dir.path().join(name), &[]), duts);
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

/// A run of one firewall in whose middle something happens.
fn run_with(dir: &Path, seconds: f64, happens: impl FnOnce(u32)) -> (Option<i32>, String) {
    let suite = suite(dir, &["linux"], seconds, "procedure = \"transactions\"");
    let out = dir.join("out");
    let run = bench(&["run", suite.to_str().unwrap(), "--out", out.to_str().unwrap()]).spawn().unwrap();
    let pid = run.id();
    until("clients are connected", || connections(pid) > 0);
    happens(pid);
    let output = run.wait_with_output().unwrap();
    (output.status.code(), shown(&output))
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn namespace(pid: u32, role: &str) -> Option<String> {
    left_behind(pid).into_iter().find(|name| name.ends_with(role))
}

/// Connections that the clients have opened, and that the other end has answered.
fn connections(pid: u32) -> usize {
    let Some(name) = namespace(pid, "private") else { return 0 };
    let shown = Command::new("ip")
        .args(["netns", "exec", &name, "ss", "-Htn", "state", "established"])
        .output()
        .unwrap();
    String::from_utf8_lossy(&shown.stdout).lines().count()
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let mut bench_pid = 0;
    let (status, said) = run_with(dir.path(), 600.0, |pid| {
        bench_pid = pid;
        Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap();
    });
    assert_eq!(status, Some(130), "{said}");
    assert_eq!(left_behind(bench_pid), Vec::<String>::new());
}
