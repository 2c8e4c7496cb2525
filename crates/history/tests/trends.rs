//! Trends: a planted change is found where it is, none is found where there is none, and machines are kept apart.
#![allow(clippy::unwrap_used, reason = "a test")]

mod runs;

use history::trend::{self, Options, Trends};
use history::{HistoryError, Place, Query, Store, overlay, text};
use measure::results::{Metric, Results};
use runs::{noise, run_at};
use std::path::Path;

fn kept(runs: impl IntoIterator<Item = Results>) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::write(&Place::file(&dir.path().join("history.sqlite"))).unwrap();
    for (number, run) in runs.into_iter().enumerate() {
        store.record(Path::new(&format!("/runs/{number}")), &run, None).unwrap();
    }
    (dir, store)
}

fn throughput() -> Options {
    let query = Query { metrics: vec![Metric::Throughput], duts: vec!["linux".into()], ..Query::default() };
    Options { query, ..Options::default() }
}

fn commit(mut run: Results, commit: &str) -> Results {
    run.environment.versions.insert("commit".into(), commit.into());
    run
}

#[test]
fn a_planted_change_is_found_where_it_is_with_what_else_changed() {
    let (_dir, store) = kept((0..16).map(|n| {
        let (times, name) = if n < 9 { (1.0, "old") } else { (1.1, "new") };
        commit(run_at(n, times * noise(n)), name)
    }));
    let found = trend::trends(&store, &throughput()).unwrap();
    let [series] = found.series.as_slice() else { panic!("{found:?}") };
    assert_eq!((series.reference.as_deref(), series.values.len()), (Some("nftables"), 16));
    let [change] = series.changes.as_slice() else { panic!("{:?}", series.changes) };
    assert_eq!((change.after_run, change.at_run), (9, 10));
    assert!((change.after / change.before - 1.1).abs() < 0.03, "{change:?}");
    assert_eq!(change.differs, ["commit: old before, new after"]);
    let text = text::trends(&found);
    for words in [
        "changed between run 9 and run 10",
        "1.10 times as much",
        "commit: old before, new after",
        "at most 5 %",
        "← changed here",
        "▁",
        "ratios to nftables",
    ] {
        assert!(text.contains(words), "«{words}» is not in:\n{text}");
    }
}

/// Of two hosts, whose clocks are known to within so many ns.
fn between_hosts(mut run: Results, error: f64) -> Results {
    for point in run.points.iter_mut().filter(|point| point.metric == Metric::Throughput) {
        point.clock_error = error;
    }
    run
}

#[test]
fn a_change_that_clocks_could_have_made_is_not_named() {
    let found = |error: f64, absolute: bool| {
        let (_dir, store) = kept((0..16).map(|n| {
            let run = run_at(n, if n < 9 { 1.0 } else { 1.1 } * noise(n));
            let value = run.points.iter().find(|p| p.metric == Metric::Throughput).unwrap().value;
            between_hosts(run, error * value)
        }));
        let found = trend::trends(&store, &Options { absolute, ..throughput() }).unwrap();
        (found.series[0].changes.len(), found.series[0].within_clocks, text::trends(&found))
    };
    for absolute in [false, true] {
        // Both firewalls' values have the error, and so a ratio has it twice.
        let (named, within, _) = found(0.01, absolute);
        assert_eq!((named, within), (1, 0), "absolute: {absolute}");
        let (named, within, text) = found(0.10, absolute);
        assert_eq!((named, within), (0, 1), "absolute: {absolute}");
        assert!(text.contains("1 change is not named: it is no larger than what is not known"), "{text}");
    }
}

#[test]
fn no_change_is_found_where_there_is_none() {
    let (_dir, store) = kept((0..20).map(|n| run_at(n, noise(n))));
    let found = trend::trends(&store, &Options::default()).unwrap();
    assert!(found.series.len() >= 2 && found.series.iter().all(|s| s.changes.is_empty()), "{found:?}");
    let text = text::trends(&found);
    assert!(text.contains("No change was found") && text.contains("at most 5 %"), "{text}");
}

#[test]
fn machines_are_kept_apart() {
    let (_dir, store) = kept((0..20).map(|n| {
        // Machines whose ratios differ take turns; of both together one would say that nothing can be known.
        let mut run = run_at(n, if n % 2 == 0 { 1.0 } else { 3.0 } * noise(n));
        if n % 2 == 1 {
            run.environment.cpu = "another processor".into();
        }
        run
    }));
    let found = trend::trends(&store, &throughput()).unwrap();
    let lengths: Vec<(usize, usize)> =
        found.series.iter().map(|s| (s.values.len(), s.changes.len())).collect();
    assert_eq!(lengths, [(10, 0), (10, 0)], "{}", text::trends(&found));
    assert_ne!(found.series[0].machine, found.series[1].machine);
    let machine = found.series[1].machine.clone();
    let mut options = throughput();
    options.query.machines = vec![machine.clone()];
    let one = trend::trends(&store, &options).unwrap();
    assert!(one.series.len() == 1 && one.series[0].machine == machine);
}

#[test]
fn a_machine_that_is_faster_for_all_is_no_change_of_a_ratio() {
    let (_dir, store) = kept((0..16).map(|n| {
        let mut run = run_at(n, noise(n));
        if n >= 8 {
            for point in run.points.iter_mut().filter(|p| p.metric == Metric::Throughput) {
                point.value *= 2.0;
                point.rounds.iter_mut().for_each(|r| *r *= 2.0);
            }
        }
        run
    }));
    assert_eq!(trend::trends(&store, &throughput()).unwrap().series[0].changes, []);
    let absolute = trend::trends(&store, &Options { absolute: true, ..throughput() }).unwrap();
    assert_eq!(absolute.series[0].changes.len(), 1, "{}", text::trends(&absolute));
    assert_eq!(absolute.series[0].reference, None);
}

#[test]
fn filters_choose_and_say_when_nothing_is_left() {
    let (_dir, store) = kept((0..3).map(|n| run_at(n, 1.0)));
    let of = |query: Query| trend::trends(&store, &Options { query, absolute: true, ..Options::default() });
    let count = |found: Result<Trends, HistoryError>| found.map(|f| f.series.len()).unwrap_or(0);
    let all = count(of(Query::default()));
    let mut frame = Query::default();
    frame.with_levels("frame=64").unwrap();
    let mut other = Query::default();
    other.with_levels("frame=1518").unwrap();
    let rows = [
        (Query { tests: vec!["latency".into()], ..Query::default() }, Some(3)),
        (
            Query { duts: vec!["linux".into()], metrics: vec![Metric::Throughput], ..Query::default() },
            Some(1),
        ),
        (Query { suites: vec!["demo".into()], ..Query::default() }, Some(all)),
        (frame, Some(all)),
        (other, None),
        (Query { suites: vec!["rfc2544".into()], ..Query::default() }, None),
        (Query { profiles: vec!["full".into()], ..Query::default() }, None),
        (Query { duts: vec!["ipset".into()], ..Query::default() }, None),
    ];
    for (query, expected) in rows {
        let found = of(query.clone());
        match expected {
            Some(series) => assert_eq!(count(found), series, "{query:?}"),
            None => assert!(matches!(found, Err(HistoryError::Nothing(_))), "{query:?}: {found:?}"),
        }
    }
}

#[test]
fn runs_are_laid_over_each_other() {
    let (_dir, store) = kept([run_at(1, 1.0), run_at(2, 2.0)]);
    let found = overlay::overlay(&store, &[2, 1], &throughput()).unwrap();
    let [row] = found.rows.as_slice() else { panic!("{found:?}") };
    let ratios: Vec<f64> = row.values.iter().map(|v| v.as_ref().unwrap().ratio.unwrap().value).collect();
    assert!((ratios[0] / ratios[1] - 2.0).abs() < 1e-9, "{ratios:?}");
    let text = text::overlay(&found);
    assert!(text.contains("run 2") && text.contains("linux / nftables"), "{text}");
    assert!(matches!(overlay::overlay(&store, &[1, 7], &throughput()), Err(HistoryError::NoRun(7))));
}
