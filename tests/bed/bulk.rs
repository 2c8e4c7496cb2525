//! Bulk transfers by iperf3: what is counted, and that nothing of it stays.

use super::{bench, bench_program, left_behind, of, results, shown, suite, turn, undisturbed};
use measure::results::{Metric, Reading};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Processes whose first word is iperf3 and that a bench process started.
fn transfers_of(parent: u32) -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_one = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains("(iperf3)")
            && stat.rsplit(") ").next().and_then(|s| s.split(' ').nth(1)) == Some(&parent.to_string())
    };
    numbers.filter_map(|n| n.file_name().to_str()?.parse().ok()).filter(is_one).collect()
}

#[test]
fn every_byte_of_a_transfer_has_its_place() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let duts = ["wire", "linux", "nftables", "iptables"];
    // Programs at XDP forward whole checksums only.
    let at_xdp = ["wire", "xdp-redirect"];
    for (name, duts, points, test) in [
        ("two", &duts[..], 30, "procedure = \"bulk\"\nfactors.connections = [1, 10]\nfactors.rules = 1"),
        (
            "v6",
            &["wire", "nftables"],
            7,
            "procedure = \"bulk\"\nfactors.connections = 2\nfactors.rules = 1\nfactors.ip = 6",
        ),
        ("apart", &at_xdp[..], 7, "procedure = \"bulk\"\nfactors.connections = 2\nfactors.offloads = false"),
    ] {
        let suite = suite(dir.path(), duts, 1.0, test);
        let results = results(&suite, &dir.path().join(name), &[]);
        assert_eq!(results.points.len(), points);
        super::all_good(&results);
        assert!(results.environment.versions["iperf3"].starts_with("iperf 3"));
        let by_trials = |point: &Reading<'_>| point.metric != Metric::TransferTimeRatio;
        for point in results.readings().filter(by_trials) {
            let bulk = point.bulk().unwrap();
            assert_eq!(bulk.connections.to_string(), point.level("connections").unwrap().text);
            let ledger = point.ledger();
            assert_eq!((ledger.offered, ledger.received), (bulk.sent_bytes, bulk.received_bytes));
            assert_eq!((ledger.residual(), ledger.not_sent), (0, 0));
            assert!(!bulk.congestion_control.is_empty());
            assert!((1200..1461).contains(&bulk.segment_bytes), "{bulk:?}");
        }
    }
}

/// A proxy that throws away what clients send, and writes anew what the server says of it: only the server's own report tells.
#[test]
fn a_report_that_a_firewall_writes_anew_costs_the_value_and_an_honest_relay_has_one() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let drivers = ["forger", "honest"].map(|name| {
        let path = dir.path().join(name);
        std::fs::write(&path, include_str!("bulk_driver.py")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        format!("program:{}", path.display())
    });
    let suite = suite(dir.path(), &["linux"], 1.0, "procedure = \"bulk\"\nfactors.connections = 2");
    let out = dir.path().join("out");
    let duts = drivers.join(",");
    let arguments = ["run", suite.to_str().unwrap(), "--dut", &duts, "--out", out.to_str().unwrap()];
    let (output, results) = undisturbed(&out, || bench(&arguments).output().unwrap());
    let results = results.unwrap_or_else(|error| panic!("{error}: {}", shown(&output)));
    for (dut, is_honest) in [("forger", false), ("honest-relay", true)] {
        let points = of(&results, dut);
        assert!(!points.is_empty(), "{dut}");
        for point in points {
            let forged = point.marks.iter().any(|mark| mark.text.contains("somebody between them wrote"));
            let what = format!("{dut} {:?} {:?} {:?}", point.metric, point.marks, point.ledger());
            assert_eq!((point.valid, forged), (is_honest, !is_honest), "{what}");
        }
    }
}

#[test]
fn what_cannot_be_had_is_refused_before_anything_is_built() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let suite = suite(dir.path(), &["wire"], 1.0, "procedure = \"bulk\"");
    let path = suite.to_str().unwrap();
    let out = dir.path().join("out");
    let ports = bench(&["run", path, "--ports", "a0,b0", "--out", out.to_str().unwrap()]).output().unwrap();
    assert_eq!(ports.status.code(), Some(2), "{}", shown(&ports));
    assert!(shown(&ports).contains("a network stack at each end"), "{}", shown(&ports));
    assert!(!out.exists());
    // A mount namespace of its own in which nobody finds iperf3; nothing outside it changes.
    let hidden = "mount -t tmpfs none /usr/bin && exec \"$@\"";
    let without = Command::new("unshare")
        .args(["--mount", "sh", "-c", hidden, "sh", bench_program(), "run", path])
        .args(["--out", out.to_str().unwrap()])
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap();
    assert_eq!(without.status.code(), Some(3), "{}", shown(&without));
    assert!(shown(&without).contains("install the package iperf3"), "{}", shown(&without));
}

#[test]
fn an_interrupted_or_killed_run_leaves_no_transfer() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let suite = suite(dir.path(), &["linux"], 600.0, "procedure = \"bulk\"");
    for (signal, status) in [("-INT", Some(130)), ("-KILL", None)] {
        let out = dir.path().join(signal);
        let mut run = bench(&["run", suite.to_str().unwrap(), "--out", out.to_str().unwrap()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let transfers = wait_for_both_ends(run.id());
        let pid = run.id();
        Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
        assert_eq!(run.wait().unwrap().code(), status, "{signal}");
        if status.is_none() {
            // The next run removes what this one left.
            let short = tempfile::tempdir().unwrap();
            let next = super::suite(short.path(), &["wire"], 1.0, "procedure = \"bulk\"");
            super::all_good(&results(&next, &short.path().join("out"), &[]));
        }
        assert!(left_behind(pid).is_empty(), "{signal}");
        wait_for_the_end_of(&transfers, signal);
    }
}

/// A program that was killed takes a moment to go.
fn wait_for_the_end_of(transfers: &[u32], what: &str) {
    let begun = Instant::now();
    let alive = |pid: &u32| Path::new(&format!("/proc/{pid}/exe")).read_link().is_ok();
    while transfers.iter().any(alive) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: {transfers:?} are still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The two programs of a transfer, once both run.
fn wait_for_both_ends(parent: u32) -> Vec<u32> {
    let begun = Instant::now();
    loop {
        let found = transfers_of(parent);
        if found.len() == 2 {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no transfer began");
        std::thread::sleep(Duration::from_millis(5));
    }
}
