//! Results of schema `rampart-bench/1`, as the bench that wrote it left them: a run of `demo` on a small machine, cut to
//! seven of its points and to two trials of each round of a search, and a shorter journal that ends within a line.
#![allow(clippy::unwrap_used, reason = "a test")]

use measure::results::{MarkKind, Metric, Reading, Results, Role};
use report::compare::compare;
use report::{Extras, Format, json, load, render};
use std::fs;
use std::path::{Path, PathBuf};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/schema-1").join(name)
}

fn run() -> Results {
    load(&data("whole")).unwrap()
}

fn reading<'a>(run: &'a Results, dut: &str, metric: Metric) -> Reading<'a> {
    run.readings().find(|p| p.dut == dut && p.metric == metric).unwrap()
}

#[test]
fn a_run_loads_with_what_its_points_shared_said_once() {
    let run = run();
    assert!(run.complete && run.suite == "demo" && run.calibration.len() == 12);
    let firewalls: Vec<(&str, Role)> = run.firewalls.iter().map(|f| (f.name.as_str(), f.role)).collect();
    assert_eq!(firewalls, [("linux", Role::Forwarder), ("nftables", Role::Firewall)]);
    let cells: Vec<&str> = run.cells.iter().map(|cell| cell.test.as_str()).collect();
    assert_eq!(cells, ["forwarding", "latency"], "loads of one test are not cells of their own");
    assert_eq!(run.runs.iter().map(|r| r.trials.len()).collect::<Vec<_>>(), [6, 6, 6, 6]);
    assert_eq!(run.points.len(), 7);
    let restated = run.points.iter().flat_map(|p| &p.marks).filter(|m| m.kind == MarkKind::Baseline);
    assert_eq!(restated.count(), 3, "linux only forwards");
}

#[test]
fn what_decided_a_point_of_a_run_is_found_again() {
    let run = run();
    let throughput = reading(&run, "nftables", Metric::Throughput);
    assert_eq!((throughput.value, throughput.rounds.len()), (288_767.533, 3));
    let trial = throughput.typical().unwrap();
    assert_eq!((trial.round, trial.offered, trial.loss), (2, 294_824.4, 0.0));
    assert_eq!(throughput.ledger().residual(), 0);
    assert!(throughput.latency_ns().is_some() && !throughput.lanes().is_empty());
    assert!(reading(&run, "nftables", Metric::Goodput).shares_trials(&throughput));
    let latencies: Vec<_> = run.readings().filter(|p| p.metric == Metric::Latency).collect();
    for point in &latencies {
        let typical = point.typical().unwrap();
        assert_eq!(point.latency_ns().unwrap().p50, point.value);
        assert!(point.level("load").unwrap().to_string().starts_with(&format!("{}", typical.offered)));
    }
    assert_eq!(latencies.len(), 3);
}

#[test]
fn a_run_is_reported_in_every_format() {
    let run = run();
    for format in Format::ALL {
        let text = render(&run, format, &Extras::default()).unwrap();
        assert!(text.contains("nftables") && text.to_lowercase().contains("goodput"), "{format:?}");
    }
    let markdown = render(&run, Format::Markdown, &Extras::default()).unwrap();
    for shown in ["489 kpps", "289 kpps", "3.51 µs", "4.79 µs", "46.2 µs", "the rounds differ by"] {
        assert!(markdown.contains(shown), "{shown} in {markdown}");
    }
}

#[test]
fn a_run_compares_with_one_of_today() {
    let old = run();
    let new = json::from_str(&json::to_string(&old).unwrap(), Path::new("new")).unwrap();
    assert_eq!(new, old);
    let comparison = compare(&old, &new);
    assert_eq!(comparison.matched.len(), 7);
    for pair in &comparison.matched {
        assert_eq!((pair.ratio().unwrap().value, pair.overlap()), (1.0, Some(true)));
    }
}

#[test]
fn a_journal_loads_reports_and_compares() {
    let (whole, cut) = (run(), load(&data("journal")).unwrap());
    assert!(!cut.complete, "its last line was cut off");
    assert_eq!(cut.points.len(), 2);
    for point in cut.readings() {
        let same = reading(&whole, "nftables", point.metric);
        assert_eq!((point.value, point.ledger(), point.cpu()), (same.value, same.ledger(), same.cpu()));
        assert_eq!(point.trials(), same.trials());
    }
    let page = render(&cut, Format::Html, &Extras::default()).unwrap();
    assert!(page.contains("289 kpps"), "the throughput of nftables");
    let comparison = compare(&cut, &whole);
    assert_eq!((comparison.matched.len(), comparison.only_new.len()), (2, 5));
}

#[test]
fn a_run_takes_a_third_of_the_room_when_it_is_written_again() {
    let before = fs::metadata(data("whole/results.json")).unwrap().len() as f64;
    let after = json::to_string(&run()).unwrap().len() as f64;
    assert!(before / after >= 3.0, "{before} bytes, now {after}");
}
