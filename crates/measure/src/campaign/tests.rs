//! Campaigns on simulated rigs.

use super::*;
use crate::level::Level;
use crate::procedure::simulated::Simulated;
use crate::procedure::{LatencyLoad, LatencySpec, LossCurveSpec, Preset, SearchSpec, ThroughputSpec};
use crate::results::{CpuUse, Metric, Reading};
use std::sync::{Arc, Mutex};

pub(crate) fn cell(rounds: u32) -> Cell {
    let search = SearchSpec {
        preset: Preset::Mlr,
        trial_seconds: 0.25,
        loss_ratio: None,
        width: None,
        max_load: None,
    };
    Cell {
        id: 0,
        workload: Sent::Frames,
        test: "throughput".into(),
        factors: BTreeMap::from([("frame".into(), Level::read("frame", "64"))]),
        cores: 1,
        placement: Placement::Inline,
        procedure: ProcedureSpec::from(ThroughputSpec { search }),
        rounds,
        repeats: 2,
    }
}

fn rig(name: &str, capacity: f64) -> Simulated {
    Simulated::new(name, Placement::Inline, capacity)
}

fn broken<T>(why: &str) -> Result<T, RigError> {
    Err(RigError::Broken(why.into()))
}

fn run_boxed(cell: &Cell, rigs: Vec<Simulated>) -> Outcome {
    let mut rigs: Vec<Box<dyn Rig>> = rigs.into_iter().map(Simulated::boxed).collect();
    run(cell, &mut rigs, &mut ())
}

fn point<'a>(outcome: &'a Outcome, dut: &str, metric: Metric) -> Reading<'a> {
    outcome.readings().into_iter().find(|p| p.dut == dut && p.metric == metric).unwrap()
}

fn kinds(point: &Point) -> Vec<MarkKind> {
    point.marks.iter().map(|m| m.kind).collect()
}

fn near(value: f64, expected: f64) -> bool {
    (value - expected).abs() <= expected.abs() * 0.01
}

#[test]
fn three_firewalls_side_by_side() {
    let outcome =
        run_boxed(&cell(3), vec![rig("wire", 4e6), rig("xdp-redirect", 3.8e6), rig("nftables", 1e6)]);
    assert!(!outcome.interrupted);
    let names: Vec<(&str, Metric)> = outcome.points.iter().map(|p| (p.dut.as_str(), p.metric)).collect();
    let (throughput, goodput, cost) = (Metric::Throughput, Metric::Goodput, Metric::Cost);
    let expected = [
        ("wire", throughput),
        ("wire", goodput),
        ("xdp-redirect", throughput),
        ("xdp-redirect", goodput),
        ("nftables", throughput),
        ("nftables", goodput),
        ("xdp-redirect", cost),
        ("nftables", cost),
    ];
    assert_eq!(names, expected);
    for (name, rate, marks) in [
        ("wire", 4e6, vec![]),
        ("xdp-redirect", 3.8e6, vec![MarkKind::GeneratorLimited]),
        ("nftables", 1e6, vec![]),
    ] {
        let found = point(&outcome, name, throughput);
        assert!(found.valid && near(found.value, rate), "{name}: {}", found.value);
        assert!(found.low <= found.value && found.value <= found.high && found.rounds.len() == 3);
        assert_eq!(kinds(&found), marks, "{name}");
        assert_eq!(found.unit, "frames/s");
        assert_eq!(found.level("frame").unwrap().text, "64");
        assert_eq!(found.ledger().residual(), 0);
        assert!(
            found.ledger().received > 0 && found.latency_ns().is_some() && found.flow_entries() == Some(1000)
        );
        assert!((found.cpu().cores[0].interrupt - 0.5).abs() < 1e-9);
        let rounds: Vec<u32> = found.trials().iter().map(|t| t.round).collect();
        assert!(rounds.is_sorted() && rounds.len() >= 15 && rounds.ends_with(&[2]), "{rounds:?}");
    }
    let cost = point(&outcome, "nftables", cost);
    assert!(cost.valid && (cost.value - 750.0).abs() < 15.0, "{}", cost.value);
    assert_eq!(cost.rounds.len(), 3);
}

#[test]
fn a_cost_that_is_lost_in_the_noise_says_so() {
    let outcome = run_boxed(&cell(3), vec![rig("wire", 4e6), rig("free", 4e6), rig("dear", 1e6)]);
    let noise = |dut| {
        let cost = point(&outcome, dut, Metric::Cost);
        assert!(cost.valid);
        cost.marks.iter().any(|m| m.text.contains("lost in the noise"))
    };
    assert_eq!(["free", "dear"].map(noise), [true, false]);
}

#[test]
fn firewalls_take_turns_and_another_one_starts_each_round() {
    let journal = Arc::new(Mutex::new(Vec::new()));
    let rigs = [("a", 1e6), ("b", 2e6)].map(|(name, capacity)| {
        let mut rig = rig(name, capacity);
        rig.journal = journal.clone();
        rig
    });
    run_boxed(&cell(2), rigs.into());
    let journal = journal.lock().unwrap().join(" ");
    // Both are as simple to search, so the trials alternate strictly.
    let round = |x: &str, y: &str| format!("{x}? {y}? {}{x}? {y}?", format!("{x} {y} ").repeat(6));
    assert_eq!(journal, format!("{} {}", round("a", "b"), round("b", "a")));
}

#[test]
fn a_firewall_that_breaks_loses_its_points_and_the_others_go_on() {
    struct Row {
        name: &'static str,
        spoil: fn(&mut Simulated),
        kind: MarkKind,
        text: &'static str,
        trials: bool,
    }
    let rows = [
        Row {
            name: "dies in the middle of a trial",
            spoil: |rig| {
                rig.trial_script =
                    Box::new(
                        |n, _, outcome| if n == 8 { broken("the daemon was killed") } else { Ok(outcome) },
                    );
            },
            kind: MarkKind::FirewallFailed,
            text: "the daemon was killed",
            trials: true,
        },
        Row {
            name: "fails its proof",
            spoil: |rig| rig.proof_script = Box::new(|_| broken("probe hostile to private arrived")),
            kind: MarkKind::PolicyNotProved,
            text: "probe hostile to private arrived",
            trials: false,
        },
        Row {
            name: "fails its proof after the first round",
            spoil: |rig| {
                rig.proof_script =
                    Box::new(|n| if n == 1 { broken("it forwards everything") } else { Ok(()) });
            },
            kind: MarkKind::FirewallFailed,
            text: "it forwards everything",
            trials: true,
        },
        Row {
            name: "fails its proof before the second round",
            spoil: |rig| rig.proof_script = Box::new(|n| if n == 2 { broken("gone") } else { Ok(()) }),
            kind: MarkKind::PolicyNotProved,
            text: "gone",
            trials: true,
        },
        Row {
            name: "cannot account for its frames",
            spoil: |rig| {
                rig.trial_script = Box::new(|_, _, mut outcome| {
                    outcome.ledger.frames_mut().unwrap().ring_full.insert("veth0".into(), 7);
                    Ok(outcome)
                });
            },
            kind: MarkKind::LedgerUnbalanced,
            text: "-7 of",
            trials: true,
        },
    ];
    for row in rows {
        let mut bad = rig("bad", 2e6);
        (row.spoil)(&mut bad);
        let outcome = run_boxed(&cell(3), vec![rig("wire", 4e6), bad, rig("good", 1e6)]);
        assert!(!outcome.interrupted, "{}", row.name);
        for metric in [Metric::Throughput, Metric::Goodput, Metric::Cost] {
            let bad = point(&outcome, "bad", metric);
            assert!(!bad.valid && bad.value == 0.0, "{}", row.name);
            assert_eq!(bad.marks[0].kind, row.kind, "{}: {:?}", row.name, bad.marks);
            assert!(bad.marks[0].text.contains(row.text), "{}: {:?}", row.name, bad.marks);
            let good = point(&outcome, "good", metric);
            assert!(good.valid && good.rounds.len() == 3, "{}", row.name);
        }
        assert_eq!(
            !point(&outcome, "bad", Metric::Throughput).trials().is_empty(),
            row.trials,
            "{}",
            row.name
        );
    }
}

#[test]
fn a_trial_that_must_not_count_is_kept_with_its_fault() {
    let mut rig = rig("dut", 1e6);
    rig.trial_script = Box::new(|n, _, mut outcome| {
        if n == 2 {
            outcome.faults.push("the clock stepped".into());
        }
        Ok(outcome)
    });
    let outcome = run_boxed(&cell(1), vec![rig]);
    let point = point(&outcome, "dut", Metric::Throughput);
    assert!(point.valid);
    let faulty: Vec<usize> =
        (0..point.trials().len()).filter(|&i| !point.trials()[i].faults.is_empty()).collect();
    assert_eq!(faulty, [2]);
    assert!(point.trials()[2].faults[0].contains("the clock stepped"));
}

#[test]
fn an_interruption_returns_the_rounds_that_were_finished() {
    // After how many trials of the second firewall; the throughputs' rounds for the first and the second.
    for (trials, finished) in [(2, 0), (8, 1)] {
        let mut second = rig("second", 1e6);
        second.trial_script =
            Box::new(move |n, _, outcome| if n == trials { Err(RigError::Interrupted) } else { Ok(outcome) });
        let outcome = run_boxed(&cell(3), vec![rig("first", 2e6), second]);
        assert!(outcome.interrupted);
        assert_eq!(outcome.points.len(), 4 * finished, "{trials}");
        for point in &outcome.points {
            assert!(point.valid && point.rounds.len() == finished);
            assert!(
                point.marks.iter().any(|m| m.text == "interrupted after 1 of 3 rounds"),
                "{:?}",
                point.marks
            );
        }
    }
    let mut rigs: Vec<Simulated> = vec![rig("first", 2e6)];
    rigs[0].proof_script = Box::new(|_| Err(RigError::Interrupted));
    let outcome = run_boxed(&cell(1), rigs);
    assert!(outcome.points.is_empty() && outcome.interrupted, "{outcome:?}");
}

#[test]
fn rounds_that_differ_are_marked() {
    // Every round has two proofs, so their number tells the round.
    let changing = |name: &str, capacities: [f64; 3]| {
        let proofs = Arc::new(Mutex::new(0));
        let seen = proofs.clone();
        let mut rig = rig(name, 1e6);
        rig.proof_script = Box::new(move |n| {
            *seen.lock().unwrap() = n;
            Ok(())
        });
        rig.trial_script = Box::new(move |_, request, _| {
            let capacity = capacities[*proofs.lock().unwrap() / 2];
            Simulated::new("dut", Placement::Inline, capacity).trial(&request.clone().into())
        });
        rig
    };
    let unstable = |capacities: [f64; 3], others: &[[f64; 3]]| {
        let others =
            others.iter().zip(["wire", "linux"]).map(|(capacities, name)| changing(name, *capacities));
        let outcome = run_boxed(&cell(3), others.chain([changing("dut", capacities)]).collect());
        let point = point(&outcome, "dut", Metric::Throughput);
        assert!(point.valid && near(point.value, capacities[1]), "{point:?}");
        assert!(
            point.low < capacities[0] && capacities[2] < point.high,
            "three rounds say little: {point:?}"
        );
        let derived = outcome.points.iter().filter(|p| p.metric == Metric::Cost);
        assert!(derived.flat_map(|p| &p.marks).all(|m| m.kind != MarkKind::Unstable), "{outcome:?}");
        point.marks.iter().find(|m| m.kind == MarkKind::Unstable).map(|m| m.text.clone())
    };
    let (calm, rough) = ([0.98e6, 1e6, 1.02e6], [0.8e6, 1e6, 1.3e6]);
    let busy = rough.map(|rate| 4.0 * rate);
    let quiet = calm.map(|rate| 4.0 * rate);
    assert!(unstable(rough, &[]).is_some(), "nothing is known of the noise");
    let text = unstable(rough, &[quiet, quiet]).unwrap();
    assert!(text.ends_with("; round 3 lies farther out than the other firewalls' rounds explain"), "{text}");
    assert_eq!(unstable(rough, &[busy, quiet]), None, "the machine was busy, and it hit all of them");
    assert_eq!(unstable(calm, &[]), None);
    assert_eq!(unstable(calm, &[[4e6; 3]]), None, "4 % are no instability however quiet the others are");
}

#[test]
fn one_round_has_no_interval() {
    let outcome = run_boxed(&cell(1), vec![rig("dut", 1e6)]);
    let point = point(&outcome, "dut", Metric::Throughput);
    assert_eq!((point.low, point.high, point.interval()), (point.value, point.value, None));
    assert_eq!(point.marks[0].text, "one round: no interval");
}

#[test]
fn one_bad_round_makes_the_point_invalid() {
    let mut rig = rig("dut", 1e6);
    let proofs = Arc::new(Mutex::new(0));
    let seen = proofs.clone();
    rig.proof_script = Box::new(move |n| {
        *seen.lock().unwrap() = n;
        Ok(())
    });
    rig.trial_script = Box::new(move |_, _, mut outcome| {
        if *proofs.lock().unwrap() == 2 {
            outcome.ledger.frames_mut().unwrap().corrupted += 1;
        }
        Ok(outcome)
    });
    let outcome = run_boxed(&cell(3), vec![rig]);
    let point = point(&outcome, "dut", Metric::Throughput);
    assert!(!point.valid && [point.value, point.low, point.high] == [0.0; 3]);
    assert!(point.rounds[0] > 0.0 && point.rounds[1] == 0.0 && point.rounds[2] > 0.0, "{:?}", point.rounds);
    assert_eq!(point.marks[0].kind, MarkKind::LedgerUnbalanced);
    assert!(point.marks[0].text.starts_with("round 2: -1 of"), "{:?}", point.marks);
}

#[test]
fn latencies_have_no_cost_and_are_not_limited_by_the_generator() {
    let mut cell = cell(2);
    let Some(ThroughputSpec { search }) = cell.procedure.of().cloned() else { panic!() };
    cell.procedure = ProcedureSpec::from(LatencySpec {
        loads: vec![LatencyLoad::FramesPerSecond(1e5)],
        trial_seconds: 1.0,
        repeats: 1,
        search,
    });
    let outcome = run_boxed(&cell, vec![rig("wire", 4e6), rig("dut", 1e6)]);
    assert_eq!(outcome.points.len(), 2);
    assert!(outcome.points.iter().all(|p| p.valid && p.value == 2000.0 && p.marks.is_empty()));
}

#[test]
fn time_taken_by_the_hypervisor_is_marked() {
    let mut rig = rig("dut", 1e6);
    rig.trial_script = Box::new(|_, _, mut outcome| {
        outcome.cpu.cores[0].stolen = 0.05;
        Ok(outcome)
    });
    let outcome = run_boxed(&cell(2), vec![rig]);
    let point = point(&outcome, "dut", Metric::Throughput);
    assert!(point.valid);
    assert_eq!(kinds(&point), [MarkKind::StolenTime]);
}

#[test]
fn trials_that_are_disturbed_are_run_again_and_then_marked() {
    let others: fn(&mut CpuUse) = |cpu| cpu.foreign = 0.8;
    let hypervisor: fn(&mut CpuUse) = |cpu| cpu.cores[0].stolen = 0.3;
    let by = [(others, MarkKind::ForeignLoad), (hypervisor, MarkKind::StolenTime)];
    // Repeats, from which trial on the machine is quiet, how often the first trial of a round is made again, and whether a mark stays.
    let rows = [
        (2, 0, 0, false),
        (2, 1, 1, false),
        (2, 2, 2, false),
        (2, usize::MAX, 2, true),
        (1, 1, 1, false),
        (0, usize::MAX, 0, true),
    ];
    for ((disturb, mark), (repeats, quiet_from, again, marked)) in
        by.iter().flat_map(|by| rows.map(|row| (*by, row)))
    {
        let what = format!("{mark:?}, {repeats} repeats, quiet from {quiet_from}");
        let trials = Arc::new(Mutex::new(Vec::new()));
        let seen = trials.clone();
        let mut rig = rig("dut", 1e6);
        rig.trial_script = Box::new(move |n, _, mut outcome| {
            seen.lock().unwrap().push(n);
            if n < quiet_from {
                disturb(&mut outcome.cpu);
            }
            Ok(outcome)
        });
        let outcome = run_boxed(&Cell { repeats, ..cell(1) }, vec![rig]);
        let recorded = outcome.runs[0].trials.len();
        assert_eq!(trials.lock().unwrap().len(), recorded + again, "{what}");
        let point = point(&outcome, "dut", Metric::Throughput);
        assert!(point.valid);
        assert_eq!(kinds(&point).contains(&mark), marked, "{what}");
    }
}

/// A firewall that is caught while others use the machine is not let off by the trial that takes the place of that one.
#[test]
fn what_no_firewall_may_do_costs_the_value_of_a_disturbed_trial_too() {
    let mut rig = rig("dut", 1e6);
    rig.trial_script = Box::new(|n, _, mut outcome| {
        if n == 1 {
            outcome.cpu.foreign = 0.8;
            outcome.ledger.frames_mut().unwrap().beside.forbidden_arrived = 1;
        }
        Ok(outcome)
    });
    let outcome = run_boxed(&cell(1), vec![rig]);
    let point = point(&outcome, "dut", Metric::Throughput);
    assert!(!point.valid && kinds(&point).contains(&MarkKind::IllegalGotThrough), "{:?}", point.marks);
}

#[test]
fn work_on_other_cores_than_the_trials_costs_an_inline_value() {
    let rows = [
        // Placement, cores used elsewhere by wire and by the firewall, and by other programs, valid.
        (Placement::Inline, Some(0.0), 0.9, 0.0, false),
        (Placement::Inline, Some(0.0), 0.9, 0.8, false),
        (Placement::Inline, None, 0.9, 0.0, false),
        (Placement::Inline, Some(0.8), 0.9, 0.0, true),
        (Placement::Inline, Some(0.0), 0.2, 0.8, true),
        (Placement::Isolated, Some(0.0), 0.9, 0.0, true),
    ];
    for (placement, of_wire, of_dut, foreign, valid) in rows {
        let using = |name: &str, capacity: f64, elsewhere: f64| {
            let mut rig = Simulated::new(name, placement, capacity);
            rig.trial_script = Box::new(move |_, _, mut outcome| {
                outcome.cpu.elsewhere = elsewhere;
                outcome.cpu.foreign = foreign;
                Ok(outcome)
            });
            rig
        };
        let mut rigs = vec![using("dut", 1e6, of_dut)];
        rigs.extend(of_wire.map(|elsewhere| using("wire", 4e6, elsewhere)));
        let outcome = run_boxed(&Cell { placement, ..cell(2) }, rigs);
        let point = point(&outcome, "dut", Metric::Throughput);
        assert_eq!(point.valid, valid, "{placement:?} {of_wire:?} {of_dut}: {:?}", point.marks);
        let mark = point.marks.iter().find(|mark| mark.kind == MarkKind::WorkElsewhere);
        assert_eq!(
            mark.map(|mark| mark.text.contains("run it again without them")),
            (!valid).then_some(foreign > 0.0)
        );
    }
}

#[test]
fn loss_curves_that_end_at_different_loads() {
    let mut cell = cell(2);
    cell.placement = Placement::Isolated;
    cell.procedure =
        ProcedureSpec::from(LossCurveSpec { trial_seconds: 1.0, max_load: Some(1e6), step: 0.25 });
    let mut rig = Simulated::new("dut", Placement::Isolated, 1e6);
    // In the first round a frame is lost at 75 %, so that this round goes on to 25 %; the second ends at 75 %.
    rig.trial_script = Box::new(|n, _, mut outcome| {
        if n == 1 {
            outcome.ledger.received -= 1;
            outcome.ledger.frames_mut().unwrap().not_received += 1;
        }
        Ok(outcome)
    });
    let outcome = run_boxed(&cell, vec![rig]);
    let found: Vec<(&str, usize)> =
        outcome.points.iter().map(|p| (p.at["load"].text.as_str(), p.rounds.len())).collect();
    assert_eq!(found, [("100%", 2), ("75%", 2), ("50%", 2), ("25%", 2)]);
    assert!(outcome.readings().iter().all(|p| p.valid && p.level("frame").unwrap().text == "64"));
    let last = &outcome.points[3];
    assert!(last.marks.iter().any(|m| m.text.starts_with("round 2: not measured")), "{:?}", last.marks);
}

#[test]
fn progress_rises_to_nearly_one() {
    #[derive(Default)]
    struct Seen {
        shares: Vec<f64>,
        lost: Vec<String>,
        before: usize,
        after: usize,
    }
    impl Observer for Seen {
        fn trial(&mut self, progress: &Progress<'_>) {
            self.shares.push(progress.share_done);
            assert!(
                progress.round < progress.rounds && progress.trial >= 1 && progress.request.seconds() > 0.0
            );
            *(if progress.loss.is_some() { &mut self.after } else { &mut self.before }) += 1;
        }

        fn lost(&mut self, dut: &str, why: &Mark) {
            self.lost.push(format!("{dut}: {}", why.text));
        }
    }
    let mut bad = rig("bad", 1e6);
    bad.proof_script = Box::new(|_| broken("no reply"));
    let mut rigs = vec![rig("good", 1e6).boxed(), bad.boxed(), rig("fair", 2e6).boxed()];
    let mut seen = Seen::default();
    run(&cell(2), &mut rigs, &mut seen);
    assert!(seen.shares.is_sorted(), "{:?}", seen.shares);
    let last = seen.shares[seen.shares.len() - 1];
    assert!((0.8..=1.0).contains(&last), "{last}");
    assert_eq!(seen.lost, ["bad: no reply"]);
    assert_eq!(seen.before, seen.after);
}
