//! Results of campaigns on simulated firewalls, as a run writes them, and then changed by hand. That unchanged ones are taken, whatever is
//! measured, every campaign of every test shows: `campaign::run` asks it of each.

use crate::campaign::tests::cell;
use crate::campaign::{self, Cell};
use crate::level::Level;
use crate::procedure::simulated::Simulated;
use crate::procedure::{LatencyLoad, LatencySpec, LossCurveSpec, Preset, ProcedureSpec, SearchSpec};
use crate::results::{CpuUse, Mark, MarkKind, Metric, Point, Results, Trial};
use crate::shape::Placement;
use crate::trial::Rig;

/// Three firewalls over three rounds: the fast one is as fast as `wire`, and the last is slow in one round.
fn measured(procedure: Option<ProcedureSpec>) -> Results {
    let mut cell: Cell = cell(3);
    if let Some(procedure) = procedure {
        cell.procedure = procedure;
    }
    let rig = |name: &str, capacity: f64| {
        let mut rig = Simulated::new(name, Placement::Inline, capacity);
        rig.trial_script = Box::new(|n, _, mut outcome| {
            // Times that differ, so that medians are of something.
            if let crate::trial::WorkloadOutcome::Frames(frames) = &mut outcome.workload {
                frames.latency_ns.iter_mut().for_each(|times| times.p50 += n as f64);
            }
            Ok(outcome)
        });
        rig.boxed()
    };
    let mut rigs: Vec<Box<dyn Rig>> = vec![rig("wire", 4e6), rig("fast", 3.9e6), rig("slow", 1e6)];
    let outcome = campaign::run(&cell, &mut rigs, &mut ());
    let (cells, runs, points) = (vec![outcome.cell], outcome.runs, outcome.points);
    Results { complete: true, cells, runs, points, ..Results::default() }
}

fn search() -> SearchSpec {
    SearchSpec { preset: Preset::Mlr, trial_seconds: 0.25, loss_ratio: None, width: None, max_load: None }
}

fn at<'a>(results: &'a mut Results, dut: &str, metric: Metric) -> &'a mut Point {
    results.points.iter_mut().find(|p| p.dut == dut && p.metric == metric).unwrap()
}

/// All of a value, as somebody changes it who knows how it is computed.
fn set(point: &mut Point, value: f64) {
    (point.value, point.low, point.high) = (value, value, value);
    point.rounds.iter_mut().for_each(|round| *round = value);
}

type Change = fn(&mut Results);

fn refused(results: &Results, rows: &[(&str, Change, &str)]) {
    assert_eq!(results.misfits(), []);
    for (what, change, said) in rows {
        let mut changed = results.clone();
        change(&mut changed);
        assert_ne!(&changed, results, "{what}: nothing was changed");
        let found: Vec<String> = changed.misfits().iter().map(ToString::to_string).collect();
        assert!(found.iter().any(|misfit| misfit.contains(said)), "{what}: {found:?} does not say: {said}");
    }
}

#[test]
fn a_throughput_that_was_changed_does_not_follow() {
    refused(
        &measured(None),
        &[
            (
                "a value",
                |r| at(r, "slow", Metric::Throughput).value *= 2.0,
                "throughput of slow in cell 0): its value is",
            ),
            ("an end", |r| at(r, "slow", Metric::Throughput).high *= 2.0, "its high end is"),
            ("a round", |r| at(r, "slow", Metric::Throughput).rounds[1] *= 1.01, "its"),
            (
                "all of it",
                |r| set(at(r, "slow", Metric::Throughput), 5e6),
                "round 1 is 5000000, and of its trials",
            ),
            (
                "all of the bits",
                |r| set(at(r, "slow", Metric::Goodput), 5e9),
                "goodput of slow in cell 0): round 1 is",
            ),
            (
                "all of the cost",
                |r| set(at(r, "slow", Metric::Cost), 100.0),
                "cost of slow in cell 0): round 1 is 100",
            ),
            (
                "wire as well, and the cost not",
                |r| {
                    let faster = at(r, "wire", Metric::Throughput).value * 2.0;
                    set(at(r, "wire", Metric::Throughput), faster);
                },
                "cost of slow in cell 0): round 1 is",
            ),
            ("a rate of a trial", |r| decided(r).received *= 1.1, "its received is"),
            ("a loss of a trial", |r| decided(r).loss = 0.5, "its loss is 0.5"),
            (
                "rate and ledger of a trial",
                |r| {
                    let trial = decided(r);
                    trial.received *= 1.1;
                    let ledger = &mut trial.detail.as_mut().unwrap().ledger;
                    ledger.received = (ledger.received as f64 * 1.1) as u64;
                },
                "its ledger does not come out",
            ),
            (
                "a whole trial, so that its ledger comes out",
                |r| {
                    let trial = decided(r);
                    (trial.received, trial.offered) = (trial.received * 2.0, trial.offered * 2.0);
                    let ledger = &mut trial.detail.as_mut().unwrap().ledger;
                    (ledger.received, ledger.offered) =
                        (ledger.received * 2, ledger.offered + ledger.received);
                },
                "of its trials",
            ),
        ],
    );
}

/// A trial that decided a value of the slow one.
fn decided(results: &mut Results) -> &mut crate::results::Trial {
    let id = at(results, "slow", Metric::Throughput).deciding[0];
    let run = results.runs.iter_mut().find(|run| run.dut == "slow").unwrap();
    &mut run.trials[id as usize]
}

fn each_use_of_cores(results: &mut Results, change: fn(&mut CpuUse)) {
    let details = results.runs[2].trials.iter_mut().filter_map(|trial| trial.detail.as_mut());
    details.for_each(|detail| change(&mut detail.cpu));
}

#[test]
fn what_was_taken_out_is_missed() {
    refused(
        &measured(None),
        &[
            ("a trial that only showed the way", |r| drop(r.runs[2].trials.remove(0)), "trial 0 is missing"),
            (
                "the trials of a round, and their names",
                |r| {
                    let trials = &mut r.runs[2].trials;
                    trials.retain(|trial| trial.round < 2);
                    let left = trials.len() as u32;
                    r.points
                        .iter_mut()
                        .filter(|p| p.dut == "slow")
                        .for_each(|p| p.deciding.retain(|id| *id < left));
                },
                "round 3 has a value and no trial",
            ),
            ("all trials", |r| drop(r.runs.pop()), "the trials that it rests on are not there"),
            (
                "the names of trials",
                |r| at(r, "slow", Metric::Throughput).deciding.clear(),
                "it is valid and rests on no trial",
            ),
            (
                "the rounds",
                |r| at(r, "slow", Metric::Throughput).rounds.clear(),
                "it is valid and has no round",
            ),
            ("points", |r| r.points.retain(|p| p.dut != "slow"), "decided a point that is not there"),
            (
                "what a cost is computed from",
                |r| r.points.retain(|p| p.dut != "wire"),
                "the throughput that it is computed from is not there",
            ),
            (
                "a mark",
                |r| at(r, "fast", Metric::Throughput).marks.clear(),
                "of what passes without a firewall",
            ),
            ("a ledger", |r| decided(r).detail = None, "a trial that it rests on has no ledger"),
            (
                "the fault of a trial",
                |r| decided(r).faults.push("the firewall died".into()),
                "which must not count: the firewall died",
            ),
            (
                "a round that does not please",
                |r| {
                    let point = at(r, "slow", Metric::Throughput);
                    point.rounds[2] = 0.0;
                    let mark = Mark::new(MarkKind::NotMeasured, "round 3: not measured");
                    point.marks.push(Mark { round: Some(2), ..mark });
                },
                "round 3 is marked as not measured and was",
            ),
            (
                "the same with all of its trials",
                |r| {
                    r.runs[2]
                        .trials
                        .iter_mut()
                        .filter(|trial| trial.round == 2)
                        .for_each(|t| t.detail = None);
                    let of_round: Vec<u32> =
                        r.runs[2].trials.iter().filter(|t| t.round == 2).map(|t| t.id).collect();
                    for point in r.points.iter_mut().filter(|p| p.dut == "slow") {
                        point.deciding.retain(|id| !of_round.contains(id));
                        point.rounds[2] = 0.0;
                        let mark = Mark::new(MarkKind::NotMeasured, "round 3: not measured");
                        point.marks.push(Mark { round: Some(2), ..mark });
                        let of_two = super::estimated(&point.rounds[..2], point.metric).unwrap();
                        (point.value, point.low, point.high) = of_two;
                    }
                },
                "round 3 is marked as not measured and was",
            ),
            (
                "a round with all that is of it",
                |r| {
                    let run = &mut r.runs[2];
                    run.trials.retain(|trial| trial.round < 2);
                    run.searches.retain(|search| search.round < 2);
                    let left = run.trials.len() as u32;
                    for point in r.points.iter_mut().filter(|p| p.dut == "slow") {
                        point.deciding.retain(|id| *id < left);
                        point.rounds.truncate(2);
                        let of_two = super::estimated(&point.rounds, point.metric).unwrap();
                        (point.value, point.low, point.high) = of_two;
                    }
                },
                "it has 2 rounds, and its cell 3",
            ),
            (
                "the reason of a lost value",
                |r| {
                    let point = at(r, "slow", Metric::Throughput);
                    (point.valid, point.value, point.low, point.high) = (false, 0.0, 0.0, 0.0);
                },
                "it is invalid and does not say why",
            ),
            (
                "that a mark costs the value",
                |r| at(r, "slow", Metric::Throughput).marks.push(Mark::new(MarkKind::Forged, "forged")),
                "it is valid beside a mark that says otherwise: forged",
            ),
            (
                "what a trial's ledger shows, and the mark",
                |r| {
                    let ledger = &mut decided(r).detail.as_mut().unwrap().ledger;
                    ledger.frames_mut().unwrap().beside.forbidden_arrived = 1;
                },
                "whose ledger shows what costs a value",
            ),
            (
                "the mark of busy processors",
                |r| each_use_of_cores(r, |cpu| cpu.foreign = 0.5),
                "the mark is missing that other programs used 0.50 of a core",
            ),
            (
                "the mark of work elsewhere",
                |r| each_use_of_cores(r, |cpu| cpu.elsewhere = 0.5),
                "the mark is missing that work on other cores took 0.50",
            ),
        ],
    );
}

#[test]
fn a_mark_that_the_rounds_ask_for_is_missed() {
    // A firewall whose rounds differ, and others whose do not.
    let mut results = measured(None);
    let slow = at(&mut results, "slow", Metric::Throughput);
    slow.rounds[2] *= 0.5;
    let found: Vec<String> = results.misfits().iter().map(ToString::to_string).collect();
    assert!(found.iter().any(|misfit| misfit.contains("throughput of slow")), "{found:?}");
    let estimate =
        super::estimated(&at(&mut results, "slow", Metric::Throughput).rounds.clone(), Metric::Throughput);
    let slow = at(&mut results, "slow", Metric::Throughput);
    (slow.value, slow.low, slow.high) = estimate.unwrap();
    let reading = results.readings().find(|p| p.dut == "slow" && p.metric == Metric::Throughput).unwrap();
    let missing = super::marks::missing(&results, &reading, &super::trials_of(&reading)).unwrap();
    assert!(missing.contains("the rounds differ by 50.0 % of their median"), "{missing}");
}

#[test]
fn times_and_losses_that_were_changed_do_not_follow() {
    let load = LatencyLoad::FramesPerSecond(1e5);
    let latency = LatencySpec { loads: vec![load], trial_seconds: 0.1, repeats: 3, search: search() };
    refused(
        &measured(Some(latency.into())),
        &[
            ("a latency", |r| set(at(r, "slow", Metric::Latency), 1.0), "round 1 is 1, and of its trials"),
            ("a clock error", |r| at(r, "slow", Metric::Latency).clock_error = 5.0, "its clock error is 5"),
            (
                "a time of a trial",
                |r| {
                    let id = at(r, "slow", Metric::Latency).deciding[1] as usize;
                    r.runs[2].trials[id].latency_ns.as_mut().unwrap().p50 = 1.0;
                },
                "of its trials",
            ),
        ],
    );
    let curve = LossCurveSpec { trial_seconds: 0.1, max_load: Some(8e6), step: 0.25 };
    refused(
        &measured(Some(curve.into())),
        &[(
            "a loss",
            |r| set(at(r, "slow", Metric::Loss), 0.25),
            "load=100%): round 1 is 0.25, and of its trials 0.875",
        )],
    );
}

/// Values, intervals and marks all follow from trials that were measured, only not when and of whom the file says.
#[test]
fn a_trial_that_stands_in_the_place_of_others_is_known() {
    let mut results = measured(None);
    // As many times as real trials have, which no two of them take alike.
    let trials = results.runs.iter_mut().flat_map(|run| &mut run.trials).filter(|t| t.detail.is_some());
    for (trial, number) in trials.zip(0..) {
        let times = trial.latency_ns.as_mut().unwrap();
        (times.count, times.max) = (5_000, 9e5 + f64::from(number));
    }
    fn put(results: &mut Results, of: usize, dut: usize, is_of: fn(&Trial) -> bool) {
        let decided = |t: &&Trial| t.detail.is_some();
        let original = results.runs[of].trials.iter().find(decided).unwrap().clone();
        for trial in results.runs[dut].trials.iter_mut().filter(|t| t.detail.is_some() && is_of(t)) {
            *trial = Trial { id: trial.id, round: trial.round, ..original.clone() };
        }
    }
    refused(
        &results,
        &[
            ("one for all rounds", |r| put(r, 2, 2, |_| true), "of slow again"),
            ("one for another round", |r| put(r, 2, 2, |t| t.round == 2), "of slow again"),
            ("another firewall's", |r| put(r, 1, 2, |_| true), "of fast again"),
        ],
    );
}

#[test]
fn results_of_an_older_schema_are_not_computed_again() {
    let mut results = measured(None);
    at(&mut results, "slow", Metric::Throughput).value = 1.0;
    assert_eq!(results.misfits().len(), 1);
    results.converted_from = Some("rampart-bench/1".into());
    assert_eq!(results.misfits(), []);
}

#[test]
fn a_cell_is_named_with_what_the_procedure_varied() {
    let mut results = measured(None);
    let point = at(&mut results, "slow", Metric::Throughput);
    point.at = [("load".to_owned(), Level::read("load", "40%"))].into();
    point.value = 1.0;
    let said = results.misfits()[0].to_string();
    assert!(
        said.starts_with(
            "points[4] (throughput of slow in cell 0, load=40%): its value is 1, and of its rounds"
        ),
        "{said}"
    );
}
