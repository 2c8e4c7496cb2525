//! Whole runs of `rampart-bench` on real beds: what comes out, and what bad weather does. Needs root.
//!
//! Runs take turns, because two at the same time would measure each other. Nothing here depends on speed: tests look at
//! validity, ledgers and what is left behind, not at rates.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod agents;
mod application;
mod bulk;
mod connections;
mod external;
mod false_agents;
mod kept;
mod liars;
mod lies;
mod otg;
mod proxies;
mod tutorials;
mod weather;

use measure::results::{MarkKind, Reading, Results};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use testkit::turn;

/// A suite with one test; `test` is added to it, `trial_seconds` decides how long everything takes.
fn suite(dir: &Path, duts: &[&str], trial_seconds: f64, test: &str) -> PathBuf {
    let duts: Vec<String> = duts.iter().map(|d| format!("{d:?}")).collect();
    let text = format!(
        "name = \"test\"\ntitle = \"Test\"\nsummary = \"A test's suite.\"\nduts = [{}]\n\n[profiles.quick]\nrounds = 1\nrepeats = 0\n\
         trial_seconds = {trial_seconds}\n\n[[test]]\nname = \"one\"\ntitle = \"One\"\n{test}\n",
        duts.join(", ")
    );
    let path = dir.join("suite.toml");
    std::fs::write(&path, text).unwrap();
    path
}

fn bench_program() -> &'static str {
    env!("CARGO_BIN_EXE_rampart-bench")
}

/// The bench, without calibration.
fn bench(arguments: &[&str]) -> Command {
    whole_bench(&uncalibrated(arguments))
}

/// The same arguments; those of a run leave out the calibration, which would take longer than most of these runs.
fn uncalibrated<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let more: &[&str] = if arguments.first() == Some(&"run") { &["--no-calibration"] } else { &[] };
    [arguments, more].concat()
}

fn whole_bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(bench_program());
    command
        .args(arguments)
        .env("NO_COLOR", "1")
        .env("RAMPART_BENCH_HISTORY", "off")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Whether a point has no value through what else the machine did: the generator lost its core, or the machine's own work, such as writing
/// to its disk, was taken for the firewall's.
fn is_disturbed(point: &Reading<'_>) -> bool {
    let by_machine = [MarkKind::GeneratorBehind, MarkKind::WorkElsewhere];
    !point.valid && point.marks.iter().any(|mark| by_machine.contains(&mark.kind))
}

/// How often a run is made that the machine disturbs: lints are made beside the tests, and other tests send traffic, for minutes.
const ATTEMPTS: usize = 5;

/// Runs the bench to its end and reads its results. A run that the machine disturbed is made again, a few times.
fn undisturbed(out: &Path, run: impl Fn() -> Output) -> (Output, Result<Results, report::ReportError>) {
    again_while(is_disturbed, out, run)
}

/// Runs the bench to its end and reads its results, again while there are such points, a few times.
fn again_while(
    is_hidden: impl Fn(&Reading<'_>) -> bool,
    out: &Path,
    run: impl Fn() -> Output,
) -> (Output, Result<Results, report::ReportError>) {
    for _ in 1..ATTEMPTS {
        let output = run();
        match report::load(out) {
            Ok(results) if results.readings().any(|point| is_hidden(&point)) => {
                std::fs::remove_dir_all(out).unwrap();
            }
            results => return (output, results),
        }
    }
    (run(), report::load(out))
}

/// Runs a suite to its end and reads its results.
fn results(suite: &Path, out: &Path, more: &[&str]) -> Results {
    let mut arguments = vec!["run", suite.to_str().unwrap(), "--out", out.to_str().unwrap()];
    arguments.extend(more);
    let (output, results) = undisturbed(out, || bench(&arguments).output().unwrap());
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    follows_the_schema(out);
    results.unwrap()
}

/// Whether the file that was written is what the published schema says.
fn follows_the_schema(out: &Path) {
    let schema = include_str!("../../docs/schema/rampart-bench-2.json");
    let validator = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let written = std::fs::read_to_string(out.join("results.json")).unwrap();
    let wrong: Vec<String> =
        validator.iter_errors(&serde_json::from_str(&written).unwrap()).map(|e| e.to_string()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

fn of<'a>(results: &'a Results, dut: &str) -> Vec<Reading<'a>> {
    results.readings().filter(|p| p.dut == dut).collect()
}

/// Every point is valid, its ledger sums to zero, and its value is above zero.
fn all_good(results: &Results) {
    assert!(!results.points.is_empty());
    for point in results.readings() {
        let what = format!("{} {:?} {:?}: {:?}", point.dut, point.metric, point.levels(), point.marks);
        assert!(point.valid, "{what}");
        assert_eq!(point.ledger().residual(), 0, "{what}");
        assert!(point.value > 0.0, "{what}");
    }
}

/// Namespaces of a bench process that are still there.
fn left_behind(pid: u32) -> Vec<String> {
    let names = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let own = format!("rb-{pid}-");
    names.map(|n| n.file_name().to_string_lossy().into_owned()).filter(|n| n.starts_with(&own)).collect()
}

#[test]
fn every_firewall_gives_valid_points() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    // What each firewall makes of each policy, the tests of the testbed ask by single frames.
    for (name, duts, test) in [
        (
            "stateful",
            &["wire", "xdp-redirect", "linux", "nftables", "iptables", "ipset"][..],
            "procedure = \"throughput\"\nwidth = 0.1\nfactors.rules = [10]\nfactors.match = [\"last\"]",
        ),
        (
            "two-way",
            &["xdp-redirect", "nftables", "ipset"],
            "procedure = \"latency\"\nloads = [20000]\nfactors.rules = [3]\nfactors.directions = [\"two-way\"]",
        ),
        (
            "v6",
            &["linux", "nftables", "iptables"],
            "procedure = \"latency\"\nloads = [20000]\nfactors.rules = [3]\nfactors.ip = [6]\nfactors.frame = [128]",
        ),
        (
            "none",
            &["wire", "linux", "ipset"],
            "procedure = \"latency\"\nloads = [20000]\nfactors.rules = [0]\nfactors.frame = [\"imix:tolly\"]",
        ),
    ] {
        let suite = suite(dir.path(), duts, 0.05, test);
        let results = results(&suite, &dir.path().join(name), &[]);
        for dut in duts {
            assert!(!of(&results, dut).is_empty(), "{name}: {dut} has no point");
        }
        for point in results.readings().filter(|p| p.metric != measure::results::Metric::Cost) {
            assert!(point.valid, "{name}: {} {:?}", point.dut, point.marks);
            assert_eq!(point.ledger().residual(), 0, "{name}: {}", point.dut);
            assert!(point.value > 0.0, "{name}: {}", point.dut);
        }
    }
}

/// Families of rule sets are measured like other rules: the policy is proved before, and a firewall that cannot have it says so. Of
/// 300 rules `fw1` has too many that cross each other for a map; of 50 it does not.
#[test]
fn families_of_rules_are_measured_or_refused() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let test = "procedure = \"latency\"\nloads = [2000]\nfactors.rules = [300]\n\
                factors.rule_family = [\"acl1\", \"fw1\"]";
    let suite = suite(dir.path(), &["nftables", "nftables-map"], 0.05, test);
    let results = results(&suite, &dir.path().join("out"), &[]);
    for (dut, family, can) in [
        ("nftables", "acl1", true),
        ("nftables", "fw1", true),
        ("nftables-map", "acl1", true),
        ("nftables-map", "fw1", false),
    ] {
        let of_family = |p: &Reading<'_>| p.cell.factors["rule_family"].text == family;
        let points: Vec<Reading<'_>> = of(&results, dut).into_iter().filter(of_family).collect();
        assert!(!points.is_empty(), "{dut} {family}");
        for point in points {
            let marks: Vec<MarkKind> = point.marks.iter().map(|mark| mark.kind).collect();
            let what = format!("{dut} {family} {:?}: {marks:?}", point.metric);
            assert_eq!(marks.contains(&MarkKind::NotSupported), !can, "{what}");
            assert!(point.valid == can && (point.value > 0.0) == can, "{what}");
            assert_eq!(point.ledger().residual(), 0, "{what}");
        }
    }
}

/// A firewall in a program loses frames where the kernel names no reason, in its sockets, and takes them from the kernel's stack, which
/// would name one for each.
#[test]
fn what_ovs_loses_has_its_place() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    for (name, test) in [
        ("overload", "procedure = \"loss-curve\"\nstep = 0.5\nfactors.rules = [4]"),
        (
            "v6",
            "procedure = \"loss-curve\"\nstep = 0.5\nfactors.rules = [4]\nfactors.ip = [6]\nfactors.frame = [128]",
        ),
    ] {
        let suite = suite(dir.path(), &["ovs"], 0.2, test);
        let results = results(&suite, &dir.path().join(name), &[]);
        let points = of(&results, "ovs");
        assert!(!points.is_empty(), "{name}");
        for point in &points {
            assert!(point.valid, "{name}: {:?}", point.marks);
            assert_eq!(point.ledger().residual(), 0, "{name}: {:?}", point.ledger());
        }
        let lost = |point: &&Reading<'_>| {
            let ledger = point.ledger();
            ledger.frames().is_some_and(|places| places.dropped_by_firewall.contains_key("socket_full"))
        };
        assert!(points.iter().any(|point| lost(&point)), "{name}: {points:?}");
    }
}

/// What a firewall cannot do is said before a trial, and not found as its loss.
#[test]
fn ovs_is_asked_to_forward_fragments_and_not_to_judge_them() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let test = "procedure = \"loss-curve\"\nstep = 0.5\nfactors.frame = [512]\nfactors.fragments = [2]\nfactors.rules = [0, 4]";
    let results = results(&suite(dir.path(), &["ovs"], 0.2, test), &dir.path().join("out"), &[]);
    for point in of(&results, "ovs") {
        let judges = point.cell.factors["rules"].text == "4";
        let refused = point
            .marks
            .iter()
            .any(|m| m.kind == MarkKind::NotSupported && m.text.contains("rules about ports for fragments"));
        assert_eq!((point.valid, refused), (!judges, judges), "{:?}", point.marks);
    }
}

#[test]
fn three_zones_and_latency_and_lists() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let test = "procedure = \"latency\"\nloads = [20000]\nfactors.zones = [\"three\"]\nfactors.rules = [5]\n\
                factors.directions = [\"two-way\"]\nfactors.lists = [100]";
    let suite = suite(dir.path(), &["linux", "nftables", "ipset"], 0.25, test);
    let results = results(&suite, &dir.path().join("out"), &[]);
    all_good(&results);
    for point in results.readings() {
        let latency = point.latency_ns().unwrap();
        assert!(
            latency.min > 0.0
                && latency.min <= latency.p50
                && latency.p50 <= latency.p99
                && latency.p99 <= latency.max
        );
    }
}

#[test]
fn what_a_firewall_cannot_do_is_said_and_the_others_go_on() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let test = "procedure = \"throughput\"\nwidth = 0.1\nfactors.rules = [2]\nfactors.lists = [50]";
    let suite = suite(dir.path(), &["nftables", "iptables"], 0.05, test);
    let results = results(&suite, &dir.path().join("out"), &[]);
    for (dut, valid) in [("nftables", true), ("iptables", false)] {
        for point in of(&results, dut) {
            assert_eq!(point.valid, valid, "{dut}: {:?}", point.marks);
            let said = point.marks.iter().any(|m| m.text.contains("cannot do lists of addresses"));
            assert_eq!(said, !valid, "{dut}: {:?}", point.marks);
        }
    }
}

#[test]
fn the_same_seed_sends_the_same_and_reports_can_be_written_again() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let suite = suite(dir.path(), &["wire"], 0.25, "procedure = \"latency\"\nloads = [2000]");
    let out = dir.path().join("out");
    let first = results(&suite, &out, &["--seed", "7"]);
    assert_eq!(first.seed, 7);
    assert!(first.calibration.is_empty(), "unless it is asked not to be");
    all_good(&first);
    assert_eq!(first.readings().next().unwrap().ledger().offered, 500);
    for file in ["results.json", "results.csv", "report.md", "report.html", "points.jsonl"] {
        assert!(out.join(file).exists(), "{file}");
    }
    std::fs::remove_file(out.join("report.html")).unwrap();
    let again = bench(&["report", out.to_str().unwrap()]).output().unwrap();
    assert_eq!(again.status.code(), Some(0), "{}", shown(&again));
    assert!(out.join("report.html").exists());
    let twice = bench(&["run", suite.to_str().unwrap(), "--out", out.to_str().unwrap()]).output().unwrap();
    assert_eq!(twice.status.code(), Some(2));
    assert!(shown(&twice).contains("holds a run already"), "{}", shown(&twice));
}

#[test]
fn comparisons_and_expectations_decide_the_exit_status() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let test = "procedure = \"latency\"\nrounds = 2\nloads = [10000]\n\n[[expect]]\nthat = \"latency < 1\"\nbecause = \"of a test\"";
    let suite = suite(dir.path(), &["wire"], 0.05, test);
    let out = dir.path().join("out");
    let path = out.to_str().unwrap();
    let failed = whole_bench(&["run", suite.to_str().unwrap(), "--out", path]).output().unwrap();
    assert_eq!(failed.status.code(), Some(1), "{}", shown(&failed));
    assert!(!report::load(&out).unwrap().calibration.is_empty(), "a run is calibrated");
    assert!(shown(&failed).contains("because") || shown(&failed).contains("of a test"), "{}", shown(&failed));
    for (condition, status) in [("latency > 2", 0), ("latency < 2", 1), ("goodput < 1", 2)] {
        let output = bench(&["compare", path, path, "--fail-if", condition]).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{condition}: {}", shown(&output));
    }
}

#[test]
fn calibration_prints_its_promises() {
    let _turn = turn();
    let output = bench(&["calibrate", "--seconds", "0.05", "--rounds", "1", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("share of the bare loop, nothing between"), "{text}");
}
