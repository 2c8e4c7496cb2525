//! Tests of the expectations that ship: each can be kept, and each can be broken. A result of the suite's own plan is made
//! in which the points of every selector have a value each; values are tried until both have happened.

use super::{Mode, Selector, Subject, Verdict, eval::has, evaluate};
use crate::sample;
use crate::view::View;
use crate::{expectations, questions};
use measure::connections::{ConnectionOutcome, ReplacementOutcome};
use measure::plan::{Options, Plan};
use measure::results::{Cell, Detail, LatencySummary, Mark, MarkKind, Point, Reading, Results, Run, Trial};
use measure::suite::{Suite, builtin, builtin_names};

/// Values that a selector's points may have.
const VALUES: [f64; 6] = [0.0, 0.4, 1.0, 2.0, 10.0, 100.0];

/// Every point of a suite's quick profile, for its own firewalls and for Rampart.
fn planned(suite: &Suite) -> Results {
    let mut duts = suite.duts.iter().map(|dut| dut.value.clone()).collect::<Vec<_>>();
    duts.extend(["nftables".to_owned(), "rampart".to_owned()]);
    duts.sort();
    duts.dedup();
    let options = Options { duts: Some(duts), ..Options::default() };
    let plan = Plan::new(suite, &options).unwrap();
    let mut run = sample::demo();
    let pattern = run.points.swap_remove(0);
    (run.cells, run.runs, run.points) = (Vec::new(), Vec::new(), Vec::new());
    for planned in &plan.cells {
        let cell = &planned.cell;
        run.cells.push(Cell {
            id: cell.id,
            test: cell.test.clone(),
            placement: cell.placement,
            cores: cell.cores,
            workload: cell.workload,
            factors: cell.factors.clone(),
        });
        for dut in &planned.duts {
            let mut trials = Vec::new();
            for measured in cell.procedure.lost(&[]) {
                // A trial each, so that each can have figures of its own.
                let id = trials.len() as u32;
                trials.push(Trial { id, ..Trial::default() });
                run.points.push(Point {
                    cell: cell.id,
                    dut: dut.clone(),
                    at: measured.at,
                    metric: measured.metric,
                    marks: Vec::new(),
                    deciding: vec![id],
                    typical: Some(id),
                    ..pattern.clone()
                });
            }
            run.runs.push(Run {
                cell: cell.id,
                dut: dut.clone(),
                policy_load_seconds: None,
                trials,
                searches: Vec::new(),
            });
        }
    }
    (0..run.points.len()).for_each(|place| set(&mut run, place, 1.0));
    run
}

/// Gives every figure of a point this value, in every round.
fn set(run: &mut Results, place: usize, value: f64) {
    let point = &mut run.points[place];
    (point.value, point.low, point.high, point.valid) = (value, value, value, true);
    point.rounds = vec![value; 3];
    let trial = sample::typical(run, place);
    trial.latency_ns = Some(LatencySummary { p50: value, p99: value, ..LatencySummary::default() });
    let replacement = ReplacementOutcome { by_neither: value as u64, ..ReplacementOutcome::default() };
    let connections = ConnectionOutcome {
        attempted: value as u64,
        failed: [("refused".to_owned(), value as u64)].into(),
        replacement: Some(replacement),
        ..ConnectionOutcome::default()
    };
    trial.detail = Some(Box::new(Detail { connections: Some(connections), ..Detail::default() }));
}

/// Gives the points of each selector a value of its own; 0 makes those of `valid` invalid.
fn world(run: &mut Results, selectors: &[&Selector], values: &[f64]) {
    for (selector, value) in selectors.iter().zip(values) {
        let is = |p: &Reading<'_>| {
            let of = selector.metric.is_none_or(|m| m == p.metric);
            of && selector.labels.iter().all(|label| has(Subject::Point(*p), label))
        };
        for place in sample::places(run, is) {
            match selector.metric {
                Some(_) => set(run, place, *value),
                None if *value == 0.0 => {
                    run.points[place].valid = false;
                    run.points[place].marks = vec![Mark::new(MarkKind::PolicyNotProved, "of a test")];
                }
                None => run.points[place].valid = true,
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
            let selectors = expectation.that.selectors();
            for values in assignments(selectors.len()) {
                world(&mut run, &selectors, &values);
                let subjects: Vec<Subject<'_>> = run.readings().map(Subject::Point).collect();
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
            (0..run.points.len()).for_each(|place| set(&mut run, place, 1.0));
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
    let cores = sample::places(&run, |p| p.test() == "cores");
    cores.into_iter().for_each(|place| set(&mut run, place, 2.0));
    let judged = expectations::judge(&expectations, &run);
    for one in &judged {
        assert_eq!(one.outcome.verdict, Verdict::NotJudged, "{one:?}");
        assert!(
            one.outcome.because[0].contains("`dut` here is one of: nftables, nftables-map, xdp-redirect"),
            "{one:?}"
        );
    }
    assert!(
        expectations::text(&judged).starts_with("Expectations of the suite: 9 not judged.\n  not judged: ")
    );
}

#[test]
fn every_question_that_ships_can_be_answered_and_the_answer_depends_on_the_values() {
    for name in builtin_names() {
        let suite = Suite::parse(name, builtin(name).unwrap()).unwrap_or_else(|e| panic!("{e}"));
        let questions = questions::of_suite(&suite).unwrap_or_else(|(_, e)| panic!("{name}: {e}"));
        assert!(!questions.is_empty(), "{name} asks nothing");
        let mut run = planned(&suite);
        let sentences = |run: &Results| {
            let view = View::new(run, None);
            let answers = questions::answers(&questions, &view);
            answers.into_iter().map(|a| (a.ask.to_owned(), a.sentence)).collect::<Vec<_>>()
        };
        let mut seen = vec![Vec::new(); questions.len()];
        // Everything the same, then the later points of every firewall less, then more.
        for step in [0.0_f64, -0.01, 0.01] {
            for place in 0..run.points.len() {
                set(&mut run, place, f64::powi(1.0 + step, place as i32));
            }
            for (n, (ask, sentence)) in sentences(&run).into_iter().enumerate() {
                assert!(!sentence.starts_with("Not answered"), "{name}: {ask} {sentence}");
                seen[n].push(sentence);
            }
        }
        for (n, seen) in seen.iter().enumerate() {
            assert!(seen.iter().any(|s| *s != seen[0]), "{name}: question {n} has one answer: {seen:?}");
        }
        run.points.iter_mut().for_each(|p| {
            p.valid = false;
            p.marks = vec![Mark::new(MarkKind::PolicyNotProved, "of a test")];
        });
        for (ask, sentence) in sentences(&run) {
            assert!(
                sentence.contains("no valid value") && sentence.contains("of a test"),
                "{ask} {sentence}"
            );
        }
        run.points.clear();
        for (ask, sentence) in sentences(&run) {
            assert!(sentence.starts_with("Not answered: no value of `"), "{ask} {sentence}");
        }
    }
}
