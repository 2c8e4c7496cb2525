//! Procedures on simulated firewalls.

use super::simulated::{FRAME_BITS, Simulated};
use super::*;
use crate::stats::SplitMix;
use crate::trial::{FrameOutcome, FrameRequest, Load, Phase, Rig, WorkloadOutcome};
use Placement::{Inline, Isolated};

fn search() -> SearchSpec {
    SearchSpec { preset: Preset::Mlr, trial_seconds: 0.25, loss_ratio: None, width: None, max_load: None }
}

fn throughput() -> ProcedureSpec {
    ProcedureSpec::from(ThroughputSpec { search: search() })
}

/// Runs a procedure to its end; gives what it measured and the requests it made.
fn run(spec: &ProcedureSpec, rig: &mut Simulated) -> (Vec<Measured>, Vec<FrameRequest>) {
    let mut procedure = spec.start(rig.placement);
    let mut requests = Vec::new();
    loop {
        let step = procedure.next();
        assert_eq!(step, procedure.next(), "asking twice changes nothing");
        match step {
            Step::Done(measured) => return (measured, requests),
            Step::Trial(request) => {
                assert!(requests.len() < 500, "no end");
                let outcome = rig.trial(&request).unwrap();
                procedure.record(&request, &outcome);
                let TrialRequest::Frames(request) = request else { panic!("{request:?}") };
                requests.push(request);
            }
        }
    }
}

fn kinds(measured: &Measured) -> Vec<MarkKind> {
    measured.marks.iter().map(|m| m.kind).collect()
}

fn near(value: f64, expected: f64, share: f64) -> bool {
    (value - expected).abs() <= expected * share
}

#[test]
fn throughputs() {
    let inline = |capacity| Simulated::new("dut", Inline, capacity);
    let isolated = |capacity| Simulated::new("dut", Isolated, capacity);
    let limited = |max_load| SearchSpec { max_load: Some(max_load), ..search() };
    let strict = SearchSpec { preset: Preset::Rfc2544, ..search() };
    // What; where; the search; the throughput; the kinds of marks; the most trials.
    let rows = [
        ("inline", inline(1.2e6), search(), 1.2e6, vec![], 7),
        ("isolated", isolated(1.2e6), search(), 1.2e6, vec![], 7),
        ("inline, strict", inline(1.2e6), strict, 1.2e6, vec![], 4),
        ("inline, line rate above", inline(1.2e6), limited(1.488e6), 1.2e6, vec![], 7),
        (
            "inline, line rate below",
            inline(1.2e6),
            limited(148_810.0),
            148_810.0,
            vec![MarkKind::NoUpperBound],
            2,
        ),
        (
            "isolated, line rate below",
            isolated(1.2e6),
            limited(148_810.0),
            148_810.0,
            vec![MarkKind::NoUpperBound],
            2,
        ),
        (
            "isolated, faster than the generator",
            isolated(20e6),
            search(),
            10e6,
            vec![MarkKind::NoUpperBound],
            2,
        ),
        (
            "isolated, generator slower than the line",
            isolated(20e6),
            limited(14.88e6),
            9.9e6,
            vec![MarkKind::Note, MarkKind::NoUpperBound],
            5,
        ),
        (
            "isolated, firewall slower than generator slower than line",
            isolated(1.2e6),
            limited(14.88e6),
            1.2e6,
            vec![MarkKind::Note],
            10,
        ),
    ];
    for (name, mut rig, search, expected, marks, most_trials) in rows {
        let (measured, requests) = run(&ProcedureSpec::from(ThroughputSpec { search }), &mut rig);
        let [rate, goodput] = &measured[..] else { panic!("{name}: {measured:?}") };
        assert_eq!([rate.metric, goodput.metric], [Metric::Throughput, Metric::Goodput], "{name}");
        assert!(rate.valid && goodput.valid, "{name}");
        assert!(rate.value <= expected && near(rate.value, expected, 0.01), "{name}: {}", rate.value);
        assert!(near(goodput.value, rate.value * FRAME_BITS as f64, 0.001), "{name}: {}", goodput.value);
        assert_eq!(kinds(rate), marks, "{name}: {:?}", rate.marks);
        assert!(requests.len() <= most_trials, "{name}: {} trials", requests.len());
        assert!(rate.deciding.iter().all(|o| counted_loss(o) == 0.0), "{name}");
    }
}

#[test]
fn the_generators_maximum_is_asked_for_unpaced_only_where_it_is_not_known() {
    let first = |search: SearchSpec, placement| {
        let spec = ProcedureSpec::from(ThroughputSpec { search });
        run(&spec, &mut Simulated::new("dut", placement, 1.2e6)).1[0].phases[0].load
    };
    let limited = SearchSpec { max_load: Some(2e6), ..search() };
    assert_eq!(first(search(), Inline), Load::Maximum);
    assert_eq!(first(search(), Isolated), Load::Maximum);
    assert_eq!(first(limited, Isolated), Load::PerSecond(2e6));
}

#[test]
fn a_first_trial_that_the_machine_stalled_does_not_cap_the_search() {
    let mut rig = Simulated::new("dut", Inline, 1.2e6);
    rig.trial_script = Box::new(|n, _, mut outcome| {
        if n == 0 {
            outcome.ledger.offered /= 2;
            outcome.ledger.received /= 2;
        }
        Ok(outcome)
    });
    let (measured, _) = run(&throughput(), &mut rig);
    assert!(near(measured[0].value, 1.2e6, 0.01), "{}", measured[0].value);
}

#[test]
fn a_firewall_that_always_loses_has_no_throughput() {
    let mut rig = Simulated::new("dut", Isolated, 1.2e6);
    rig.trial_script = Box::new(|_, _, mut outcome| {
        let lost = outcome.ledger.received / 1000 + 1;
        outcome.ledger.received -= lost;
        outcome.ledger.frames_mut().unwrap().not_received += lost;
        Ok(outcome)
    });
    let (measured, _) = run(&throughput(), &mut rig);
    for value in &measured {
        assert!(!value.valid && value.value == 0.0);
        assert_eq!(kinds(value), [MarkKind::NoLowerBound]);
    }
    assert!(
        measured[0].marks[0].text.contains("no load met the goal of 0 % loss"),
        "{:?}",
        measured[0].marks
    );
}

/// A fault, and the mark that a value gets which it spoiled.
type Fault = (&'static str, fn(&mut TrialOutcome), MarkKind);

const FAULTS: [Fault; 4] = [
    ("unbalanced", |o| o.ledger.frames_mut().unwrap().not_received += 1, MarkKind::LedgerUnbalanced),
    (
        "behind",
        |o| {
            o.ledger.offered += o.ledger.offered / 100 + 1;
            o.ledger.not_sent += o.ledger.residual() as u64;
        },
        MarkKind::GeneratorBehind,
    ),
    ("fault of the rig", |o| o.faults.push("the clock stepped by 3 s".into()), MarkKind::Note),
    ("nothing offered", |o| o.ledger = Default::default(), MarkKind::Note),
];

#[test]
fn trials_that_must_not_count_are_repeated() {
    let spec = ProcedureSpec::from(ThroughputSpec { search: SearchSpec { max_load: Some(2e6), ..search() } });
    let undisturbed = run(&spec, &mut Simulated::new("dut", Isolated, 1.2e6));
    for (name, spoil, _) in FAULTS {
        let mut rig = Simulated::new("dut", Isolated, 1.2e6);
        rig.trial_script = Box::new(move |n, _, mut outcome| {
            // The second and third trial fail, then their third attempt counts.
            if n == 1 || n == 2 {
                spoil(&mut outcome);
            }
            Ok(outcome)
        });
        let (measured, requests) = run(&spec, &mut rig);
        assert_eq!(measured, undisturbed.0, "{name}");
        assert_eq!(requests.len(), undisturbed.1.len() + 2, "{name}");
        assert_eq!(requests[1], requests[3], "{name}");
    }
}

#[test]
fn failures_between_trials_that_count_do_not_add_up() {
    let mut rig = Simulated::new("dut", Isolated, 1.2e6);
    rig.trial_script = Box::new(|n, _, mut outcome| {
        if n % 2 == 0 {
            outcome.faults.push("disturbed".into());
        }
        Ok(outcome)
    });
    let (measured, _) = run(&throughput(), &mut rig);
    assert_eq!(measured, run(&throughput(), &mut Simulated::new("dut", Isolated, 1.2e6)).0);
}

#[test]
fn a_generator_that_paces_slower_than_it_can_send_lowers_the_maximum() {
    let mut rig = Simulated::new("dut", Isolated, 9.5e6);
    rig.trial_script = Box::new(|_, request, mut outcome| {
        let ledger = &mut outcome.ledger;
        let paced = (9e6 * outcome.seconds) as u64;
        if request.phases[0].load != Load::Maximum && ledger.sent() > paced {
            (ledger.not_sent, ledger.received) = (ledger.offered - paced, paced);
            ledger.frames_mut().unwrap().not_received = 0;
        }
        Ok(outcome)
    });
    let (measured, requests) = run(&throughput(), &mut rig);
    assert_eq!(kinds(&measured[0]), [MarkKind::Note, MarkKind::NoUpperBound], "{:?}", measured[0].marks);
    assert!(measured[0].valid && near(measured[0].value, 8.91e6, 1e-5), "{}", measured[0].value);
    assert!(measured[0].deciding.iter().all(|o| near(o.forwarding_rate(), 8.91e6, 1e-5)));
    assert!(requests.len() <= 8, "{} trials", requests.len());
}

#[test]
fn a_throughput_is_what_was_received_even_where_a_little_was_not_sent() {
    let mut rig = Simulated::new("dut", Inline, 1.2e6);
    rig.trial_script = Box::new(|_, _, mut outcome| {
        let grain = outcome.ledger.received / 2000;
        outcome.ledger.received -= grain;
        outcome.ledger.not_sent += grain;
        Ok(outcome)
    });
    let (measured, requests) = run(&throughput(), &mut rig);
    let deciding = &measured[0].deciding[0];
    assert!(deciding.ledger.not_sent > 0 && requests.len() <= 7);
    assert_eq!(measured[0].value, deciding.forwarding_rate());
}

#[test]
fn a_value_whose_trials_keep_failing_is_given_up() {
    let latency = ProcedureSpec::from(LatencySpec {
        loads: vec![LatencyLoad::FramesPerSecond(1e5), LatencyLoad::FramesPerSecond(2e5)],
        trial_seconds: 1.0,
        repeats: 2,
        search: search(),
    });
    for (name, spoil, kind) in FAULTS {
        let mut rig = Simulated::new("dut", Isolated, 1.2e6);
        rig.trial_script = Box::new(move |n, _, mut outcome| {
            if n < 3 {
                spoil(&mut outcome);
            }
            Ok(outcome)
        });
        let (measured, requests) = run(&latency, &mut rig);
        assert_eq!(requests.len(), 5, "{name}: three attempts, then two repeats of the next load");
        assert!(!measured[0].valid && measured[1].valid, "{name}");
        assert_eq!(kinds(&measured[0]), [kind], "{name}: {:?}", measured[0].marks);
        assert_eq!((measured[0].value, measured[1].value), (0.0, 2000.0), "{name}");
    }
    for (name, spoil, kind) in FAULTS {
        let mut rig = Simulated::new("dut", Isolated, 1.2e6);
        rig.trial_script = Box::new(move |_, _, mut outcome| {
            spoil(&mut outcome);
            Ok(outcome)
        });
        let limited = SearchSpec { max_load: Some(2e6), ..search() };
        let (measured, requests) = run(&ProcedureSpec::from(ThroughputSpec { search: limited }), &mut rig);
        assert!(measured.iter().all(|m| !m.valid && kinds(m) == [kind]), "{name}: {measured:?}");
        assert!(requests.len() <= 12, "{name}: {} trials", requests.len());
    }
}

#[test]
fn frames_not_sent_count_by_placement() {
    // Placement; offered, not sent, not received; whether the trial counts; the loss counted.
    let rows = [
        (Inline, [100_000, 0, 0], true, 0.0),
        (Inline, [100_000, 100, 0], true, 0.0),
        (Inline, [100_000, 101, 0], true, 0.00101),
        (Inline, [100_000, 50_000, 10_000], true, 0.6),
        (Isolated, [100_000, 100, 0], true, 0.0),
        (Isolated, [100_000, 100, 999], true, 0.01),
        (Isolated, [100_000, 101, 0], false, 0.00101),
    ];
    let request = TrialRequest::from(FrameRequest::constant(Load::PerSecond(1e5), 1.0));
    for (placement, [offered, not_sent, not_received], counts, loss) in rows {
        let mut outcome = Simulated::new("dut", placement, 1e6).trial(&request).unwrap();
        let ledger = &mut outcome.ledger;
        (ledger.offered, ledger.not_sent) = (offered, not_sent);
        ledger.frames_mut().unwrap().not_received = not_received;
        ledger.received = offered - not_sent - not_received;
        let name = format!("{placement:?} {not_sent} {not_received}");
        assert_eq!(judge(&request, &outcome, placement).is_empty(), counts, "{name}");
        assert!((counted_loss(&outcome) - loss).abs() < 1e-9, "{name}: {}", counted_loss(&outcome));
    }
}

#[test]
fn loss_curves() {
    let curve = |max_load, step| ProcedureSpec::from(LossCurveSpec { trial_seconds: 1.0, max_load, step });
    // Placement; capacity; the spec; each load with its loss.
    let rows = [
        (
            Isolated,
            0.75e6,
            curve(Some(1e6), 0.1),
            vec![("100%", 0.25), ("90%", 1.0 / 6.0), ("80%", 0.0625), ("70%", 0.0), ("60%", 0.0)],
        ),
        (Isolated, 2e6, curve(Some(1e6), 0.1), vec![("100%", 0.0), ("90%", 0.0)]),
        (
            Isolated,
            5e6,
            curve(None, 0.25),
            vec![("100%", 0.5), ("75%", 1.0 / 3.0), ("50%", 0.0), ("25%", 0.0)],
        ),
        (Inline, 0.6e6, curve(Some(1e6), 0.5), vec![("100%", 0.4), ("50%", 0.0)]),
        (Inline, 0.6e6, curve(None, 0.1), vec![("100%", 0.0), ("90%", 0.0)]),
    ];
    for (placement, capacity, spec, expected) in rows {
        let (measured, _) = run(&spec, &mut Simulated::new("dut", placement, capacity));
        let name = format!("{placement:?} {spec:?}");
        let found: Vec<(&str, f64)> =
            measured.iter().map(|m| (m.at["load"].text.as_str(), m.value)).collect();
        assert_eq!(found.len(), expected.len(), "{name}: {found:?}");
        for ((load, loss), (expected_load, expected_loss)) in found.into_iter().zip(expected) {
            assert_eq!(load, expected_load, "{name}");
            assert!((loss - expected_loss).abs() < 1e-5, "{name}: {loss} at {load}");
        }
        assert!(measured.iter().all(|m| m.valid && m.metric == Metric::Loss));
    }
}

#[test]
fn latency_at_shares_of_the_throughput() {
    let shares = [0.1, 0.4, 0.9];
    let spec = ProcedureSpec::from(LatencySpec {
        loads: shares.map(LatencyLoad::ShareOfThroughput).into(),
        trial_seconds: 2.0,
        repeats: 3,
        search: search(),
    });
    let (measured, requests) = run(&spec, &mut Simulated::new("dut", Isolated, 1.2e6));
    let levels: Vec<&str> = measured.iter().map(|m| m.at["load"].text.as_str()).collect();
    assert_eq!(levels, ["10%", "40%", "90%"]);
    assert!(measured.iter().all(|m| m.valid && m.metric == Metric::Latency && m.value == 2000.0));
    assert!(measured.iter().all(|m| m.deciding.len() == 3 && m.marks.is_empty()));
    let last = &requests[requests.len() - 9..];
    for (request, share) in last.iter().zip(shares.iter().flat_map(|s| [s; 3])) {
        let Load::PerSecond(rate) = request.phases[0].load else { panic!("{request:?}") };
        assert!(near(rate, share * 1.2e6, 0.01) && request.phases[0].seconds == 2.0, "{request:?}");
    }
}

#[test]
fn latency_says_when_frames_were_lost_or_not_sampled() {
    let at = |rate| {
        ProcedureSpec::from(LatencySpec {
            loads: vec![LatencyLoad::FramesPerSecond(rate)],
            trial_seconds: 1.0,
            repeats: 1,
            search: search(),
        })
    };
    let (lossy, _) = run(&at(2e6), &mut Simulated::new("dut", Isolated, 1e6));
    assert!(lossy[0].valid && lossy[0].marks[0].text.contains("50.0000 %"), "{:?}", lossy[0].marks);
    assert_eq!(lossy[0].at["load"].text, "2000000/s");
    let mut rig = Simulated::new("dut", Isolated, 1e6);
    rig.trial_script = Box::new(|_, _, outcome| {
        Ok(TrialOutcome { workload: WorkloadOutcome::Frames(FrameOutcome::default()), ..outcome })
    });
    let (unsampled, requests) = run(&at(1e5), &mut rig);
    assert!(!unsampled[0].valid && requests.len() == 1, "{unsampled:?}");
}

#[test]
fn bursts() {
    let spec = |max_burst_frames, line_rate| {
        ProcedureSpec::from(BackToBackSpec {
            max_burst_frames,
            trial_seconds: 1.0,
            repeats: 3,
            line_rate,
            search: search(),
        })
    };
    // At 10 M frames/s in and 1 M out, 256 frames of buffer last for 256 / 0.9 frames, and are 256 / 10 M seconds of it.
    let rows = [
        ("buffer", Isolated, 1e6, spec(100_000, None), 284.4, Some(25.6e-6), vec![]),
        ("line rate", Isolated, 1e6, spec(100_000, Some(10e6)), 284.4, Some(25.6e-6), vec![]),
        ("short bursts", Isolated, 1e6, spec(200, None), 200.0, None, vec![MarkKind::NoUpperBound]),
        ("inline", Inline, 1e6, spec(100_000, None), 1e5, None, vec![MarkKind::NoUpperBound]),
    ];
    for (name, placement, capacity, spec, frames, buffer, marks) in rows {
        let (measured, requests) = run(&spec, &mut Simulated::new("dut", placement, capacity));
        assert_eq!([measured[0].metric, measured[1].metric], [Metric::BackToBack, Metric::BufferTime]);
        assert!(near(measured[0].value, frames, 0.02), "{name}: {}", measured[0].value);
        assert!(buffer.is_none_or(|b| near(measured[1].value, b, 0.03)), "{name}: {}", measured[1].value);
        assert_eq!(kinds(&measured[0]), marks, "{name}");
        assert!(measured.iter().all(|m| m.valid && m.deciding.len() == 3), "{name}");
        assert!(requests.len() < 70, "{name}: {} trials", requests.len());
        // At its throughput the firewall has sent on twice as much as the burst before it comes; it is known within some per cent.
        let bursts = requests.iter().filter_map(|request| match request.phases[..] {
            [Phase { load: Load::Burst(frames), .. }] => Some((frames, request.idle_before_seconds)),
            _ => None,
        });
        let late = bursts.filter(|&(frames, idle)| !near(idle, 2.0 * frames as f64 / capacity, 0.05)).count();
        assert_eq!(late, 0, "{name}: {requests:?}");
    }
}

/// Something that the machine does for a moment costs the burst that it meets, and not all the rest.
#[test]
fn a_burst_that_is_lost_once_is_tried_again() {
    for met in 0..12 {
        let spec = ProcedureSpec::from(BackToBackSpec {
            max_burst_frames: 100_000,
            trial_seconds: 1.0,
            repeats: 1,
            line_rate: None,
            search: search(),
        });
        let mut rig = Simulated::new("dut", Isolated, 1e6);
        let mut bursts = 0;
        rig.trial_script = Box::new(move |_, request, mut outcome| {
            if let Load::Burst(_) = request.phases[0].load {
                if bursts == met {
                    outcome.ledger.received = outcome.ledger.offered - 1;
                    outcome.ledger.frames_mut().unwrap().not_received = 1;
                }
                bursts += 1;
            }
            Ok(outcome)
        });
        let (measured, _) = run(&spec, &mut rig);
        assert!(near(measured[0].value, 284.4, 0.02), "the burst {met}: {}", measured[0].value);
    }
}

#[test]
fn a_firewall_that_loses_every_burst() {
    let spec = ProcedureSpec::from(BackToBackSpec {
        max_burst_frames: 1000,
        trial_seconds: 1.0,
        repeats: 2,
        line_rate: None,
        search: search(),
    });
    let mut rig = Simulated::new("dut", Isolated, 1e6);
    rig.trial_script = Box::new(|_, request, mut outcome| {
        if let Load::Burst(_) = request.phases[0].load {
            outcome.ledger.received = 0;
            outcome.ledger.frames_mut().unwrap().not_received = outcome.ledger.offered;
        }
        Ok(outcome)
    });
    let (measured, _) = run(&spec, &mut rig);
    assert!(measured.iter().all(|m| !m.valid && kinds(m) == [MarkKind::NoLowerBound]), "{measured:?}");
}

#[test]
fn recovery_after_overload() {
    let spec = |recovery_seconds| {
        ProcedureSpec::from(OverloadRecoverySpec {
            overload_seconds: 3.0,
            recovery_seconds,
            search: search(),
        })
    };
    // What; placement; capacity; the spec; seconds; load of the overload; marks.
    let rows = [
        ("isolated", Isolated, 1e6, spec(2.0), 0.3, 1.1e6, vec![]),
        ("inline", Inline, 1e6, spec(2.0), 0.3, 1.1e6, vec![]),
        ("longer than could be seen", Isolated, 1e6, spec(0.3), 0.3, 1.1e6, vec![MarkKind::NoUpperBound]),
        ("generator too slow to overload", Isolated, 20e6, spec(2.0), 0.0, 10e6, vec![MarkKind::Note]),
    ];
    for (name, placement, capacity, spec, seconds, overload, marks) in rows {
        let (measured, requests) = run(&spec, &mut Simulated::new("dut", placement, capacity));
        assert!(measured[0].valid && measured[0].metric == Metric::Recovery, "{name}");
        assert_eq!((measured[0].value, kinds(&measured[0])), (seconds, marks), "{name}");
        let phases = &requests[requests.len() - 1].phases;
        let rate = |i: usize| match phases[i].load {
            Load::PerSecond(rate) => rate,
            _ => panic!("{name}: {phases:?}"),
        };
        assert!(near(rate(0), overload, 0.02) && rate(1) == rate(0) * 0.5, "{name}: {phases:?}");
    }
}

#[test]
fn recovery_after_a_reset() {
    let spec = |trial_seconds| {
        ProcedureSpec::from(ResetRecoverySpec { reset_after_seconds: 1.0, trial_seconds, search: search() })
    };
    let (measured, requests) = run(&spec(5.0), &mut Simulated::new("dut", Isolated, 1e6));
    assert_eq!((measured[0].value, measured[0].valid), (0.7, true));
    assert_eq!(requests[requests.len() - 1].reset_after_seconds, Some(1.0));
    let (measured, _) = run(&spec(1.7), &mut Simulated::new("dut", Isolated, 1e6));
    assert_eq!(kinds(&measured[0]), [MarkKind::FirewallFailed], "silent to the end");
}

#[test]
fn what_a_lost_firewall_leaves_is_what_a_measured_one_yields() {
    let specs = [
        throughput(),
        ProcedureSpec::from(LatencySpec {
            loads: vec![LatencyLoad::ShareOfThroughput(0.5), LatencyLoad::FramesPerSecond(1e4)],
            trial_seconds: 1.0,
            repeats: 1,
            search: search(),
        }),
        ProcedureSpec::from(BackToBackSpec {
            max_burst_frames: 1000,
            trial_seconds: 1.0,
            repeats: 1,
            line_rate: None,
            search: search(),
        }),
        ProcedureSpec::from(ResetRecoverySpec {
            reset_after_seconds: 1.0,
            trial_seconds: 5.0,
            search: search(),
        }),
    ];
    for spec in specs {
        let keys =
            |measured: &[Measured]| -> Vec<_> { measured.iter().map(|m| (m.metric, m.at.clone())).collect() };
        let (measured, requests) = run(&spec, &mut Simulated::new("dut", Isolated, 1e6));
        assert_eq!(keys(&spec.lost(&[])), keys(&measured));
        let seconds: f64 = requests.into_iter().map(|r| TrialRequest::from(r).typical_seconds()).sum();
        let typical = spec.typical_seconds();
        assert!((0.5..2.5).contains(&(typical / seconds)), "{typical} s, ran {seconds} s");
    }
}

/// Each frame is lost with this probability, whatever the load: what came of `frames` of them.
fn lost_by_chance(frames: u64, probability: f64, random: &mut SplitMix) -> u64 {
    // The gaps between losses are exponential.
    let mut lost = 0;
    let mut at = 0.0;
    loop {
        at -= (1.0 - random.unit()).ln() / probability;
        if at > frames as f64 {
            return lost;
        }
        lost += 1;
    }
}

/// A goal of no loss on a firewall that loses a frame in a million (in a hundred thousand) finds the same throughput in nearly
/// every repetition, and says how many frames were lost, or how many there may be.
#[test]
fn a_frame_in_a_million_is_not_left_to_luck() {
    for (preset, seconds, probability) in [
        (Preset::Mlr, 0.25, 1e-6),
        (Preset::Mlr, 10.0, 1e-6),
        (Preset::Rfc2544, 0.25, 1e-6),
        (Preset::Rfc2544, 60.0, 1e-6),
        (Preset::Tst009, 1.0, 1e-6),
        (Preset::Mlr, 1.0, 1e-5),
    ] {
        let spec = ThroughputSpec { search: SearchSpec { preset, trial_seconds: seconds, ..search() } };
        let (mut same, mut seen, runs) = (0, 0, 100);
        for seed in 0..runs {
            let mut random = SplitMix::new(seed);
            let mut rig = Simulated::new("dut", Isolated, 1.2e6);
            rig.trial_script = Box::new(move |_, _, mut outcome| {
                let lost = lost_by_chance(outcome.ledger.received, probability, &mut random);
                outcome.ledger.received -= lost;
                outcome.ledger.frames_mut().unwrap().not_received += lost;
                Ok(outcome)
            });
            let (measured, _) = run(&spec.clone().into(), &mut rig);
            let [throughput, _] = &measured[..] else { panic!("{measured:?}") };
            same += usize::from(throughput.valid && near(throughput.value, 1.2e6, 0.01));
            let found = throughput.search.unwrap();
            let lost: u64 = throughput.deciding.iter().map(|t| t.ledger.frames().unwrap().not_received).sum();
            let mark = throughput.marks.iter().find(|m| m.kind == MarkKind::RareLoss);
            assert_eq!(mark.is_some(), lost > 0, "{throughput:?}");
            assert!(lost == 0 || found.goal.loss_ratio == 1e-5, "{found:?}");
            seen += usize::from(lost > 0);
        }
        assert!(same >= 99, "{preset:?} {seconds} s, {probability}: {same} of {runs}");
        assert!(seen > 0, "{preset:?} {seconds} s: nothing was lost, so nothing is shown");
    }
}

#[test]
fn losses_that_are_not_rare_stay_losses() {
    // One frame in ten thousand at any load meets no goal of no loss.
    let mut rig = Simulated::new("dut", Isolated, 1.2e6);
    rig.trial_script = Box::new(|_, _, mut outcome| {
        let lost = outcome.ledger.received / 10_000 + 1;
        outcome.ledger.received -= lost;
        outcome.ledger.frames_mut().unwrap().not_received += lost;
        Ok(outcome)
    });
    let spec = ThroughputSpec { search: SearchSpec { trial_seconds: 10.0, ..search() } };
    let (measured, _) = run(&spec.into(), &mut rig);
    assert!(measured[0].value < 0.1 * 1.2e6, "{:?}", measured[0]);
}

#[test]
fn a_search_reports_its_goal_and_both_bounds() {
    let (measured, _) = run(&throughput(), &mut Simulated::new("dut", Inline, 1e6));
    let found = measured[0].search.unwrap();
    assert_eq!(found.goal, search().goal());
    let upper = found.upper.unwrap();
    assert!(
        found.regular && found.lower <= 1e6 && 1e6 < upper && (upper - found.lower) / upper <= 0.01 + 1e-9
    );
    assert!(near(found.conditional_throughput, found.lower, 1e-6), "{found:?}");
    let limited = SearchSpec { max_load: Some(5e5), ..search() };
    let spec = ThroughputSpec { search: limited }.into();
    let (measured, _) = run(&spec, &mut Simulated::new("dut", Isolated, 1e6));
    let found = measured[0].search.unwrap();
    assert_eq!((found.lower, found.upper, found.regular), (5e5, None, false), "an irregular result says so");
}
