//! Tests of the expectations that ship: each can be kept, and each can be broken. A result of the suite's own plan is made
//! in which the points of every selector have a value each; values are tried until both have happened.

use super::{Mode, Node, Selector, Subject, Verdict, eval::has, evaluate};
use crate::expectations;
use crate::sample;
use measure::connections::{ConnectionOutcome, ReplacementOutcome};
use measure::plan::{Options, Plan};
use measure::results::{LatencySummary, Mark, MarkKind, Point, Results};
use measure::suite::{Suite, builtin, builtin_names};

/// Values that a selector's points may have.
const VALUES: [f64; 6] = [0.0, 0.4, 1.0, 2.0, 10.0, 100.0];

/// Every point of a suite's quick profile, for its own firewalls and for Rampart.
fn planned(suite: &Suite) -> Results {
    let mut duts = suite.duts.clone();
    duts.extend(["nftables".to_owned(), "rampart".to_owned()]);
    duts.sort();
    duts.dedup();
    let options = Options { duts: Some(duts), ..Options::default() };
    let plan = Plan::new(suite, &options).unwrap();
    let mut run = sample::demo();
    let pattern = run.points.swap_remove(0);
    run.points.clear();
    for planned in &plan.cells {
        let cell = &planned.cell;
        for dut in &planned.duts {
            for measured in cell.procedure.lost(&[]) {
                let mut point = pattern.clone();
                (point.test, point.dut) = (cell.test.clone(), dut.clone());
                (point.placement, point.cores) = (cell.placement, cell.cores);
                point.factors =
                    cell.factors.iter().map(|(k, level)| (k.clone(), level.text.clone())).collect();
                point.factors.extend(measured.factors);
                point.metric = measured.metric;
                point.marks = Vec::new();
                set(&mut point, 1.0);
                run.points.push(point);
            }
        }
    }
    run
}

/// Gives every figure of a point this value, in every round.
fn set(point: &mut Point, value: f64) {
    (point.value, point.low, point.high, point.valid) = (value, value, value, true);
    point.rounds = vec![value; 3];
    let every = LatencySummary { p50: value, p99: value, ..LatencySummary::default() };
    point.latency_ns = Some(every);
    let replacement = ReplacementOutcome { by_neither: value as u64, ..ReplacementOutcome::default() };
    point.connections = Some(ConnectionOutcome {
        attempted: value as u64,
        failed: [("refused".to_owned(), value as u64)].into(),
        replacement: Some(replacement),
        ..ConnectionOutcome::default()
    });
}

fn selectors(node: &Node) -> Vec<&Selector> {
    let mut found = Vec::new();
    node.selectors(&mut found);
    found
}

/// Gives the points of each selector a value of its own; 0 makes those of `valid` invalid.
fn world(run: &mut Results, selectors: &[&Selector], values: &[f64]) {
    for (selector, value) in selectors.iter().zip(values) {
        for point in &mut run.points {
            let subject = Subject::Point(point);
            let is = selector.metric.is_none_or(|m| m == point.metric);
            if !is || !selector.labels.iter().all(|label| has(subject, label)) {
                continue;
            }
            match selector.metric {
                Some(_) => set(point, *value),
                None if *value == 0.0 => {
                    point.valid = false;
                    point.marks = vec![Mark { kind: MarkKind::PolicyNotProved, detail: "of a test".into() }];
                }
                None => point.valid = true,
            }
        }
    }
}

/// All ways to give so many selectors a value each.
fn assignments(count: usize) -> Vec<Vec<f64>> {
    let mut all = vec![Vec::new()];
    for _ in 0..count {
        all = all.iter().flat_map(|some| VALUES.map(|v| [some.as_slice(), &[v]].concat())).collect();
    }
    all
}

#[test]
fn every_expectation_that_ships_can_be_kept_and_can_be_broken() {
    for name in builtin_names() {
        let suite = Suite::parse(name, builtin(name).unwrap()).unwrap_or_else(|e| panic!("{e}"));
        let expectations = expectations::of_suite(&suite).unwrap_or_else(|(_, e)| panic!("{name}: {e}"));
        assert!(!expectations.is_empty(), "{name} expects nothing");
        let mut run = planned(&suite);
        for expectation in &expectations {
            let mut seen = Vec::new();
            let selectors = selectors(&expectation.that.root);
            for values in assignments(selectors.len()) {
                world(&mut run, &selectors, &values);
                let subjects: Vec<Subject<'_>> = run.points.iter().map(Subject::Point).collect();
                let outcome = evaluate(&expectation.that, &subjects, Mode::All)
                    .unwrap_or_else(|e| panic!("{name}: {e}"));
                assert_ne!(outcome.verdict, Verdict::NotJudged, "{name}: {expectation:?}: {outcome:?}");
                if !seen.contains(&outcome.verdict) {
                    seen.push(outcome.verdict);
                }
                if seen.contains(&Verdict::Kept) && seen.contains(&Verdict::Broken) {
                    break;
                }
            }
            let text = expectation.that.text();
            assert!(seen.contains(&Verdict::Kept), "{name}: nothing keeps {text}: {seen:?}");
            assert!(seen.contains(&Verdict::Broken), "{name}: nothing breaks {text}: {seen:?}");
            run.points.iter_mut().for_each(|point| set(point, 1.0));
        }
    }
}

#[test]
fn a_run_without_rampart_is_not_judged_by_what_is_expected_of_it() {
    let suite = Suite::parse("core", builtin("core").unwrap()).unwrap();
    let expectations = expectations::of_suite(&suite).unwrap();
    let mut run = planned(&suite);
    run.points.retain(|p| p.dut != "rampart");
    // Where two cores help XDP redirect as much as that, something is expected of Rampart.
    run.points.iter_mut().filter(|p| p.test == "cores").for_each(|p| set(p, 2.0));
    let judged = expectations::judge(&expectations, &run);
    for one in &judged {
        assert_eq!(one.outcome.verdict, Verdict::NotJudged, "{one:?}");
        assert!(one.outcome.because[0].contains("`dut` here is one of: nftables, xdp-redirect"), "{one:?}");
    }
    assert!(
        expectations::text(&judged).starts_with("Expectations of the suite: 9 not judged.\n  not judged: ")
    );
}
