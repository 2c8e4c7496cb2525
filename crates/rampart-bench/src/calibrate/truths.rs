//! The bench against boxes of which the truth is known ([`PlainForwarder`]): what it reports of their rate, delay, losses, buffer, table,
//! resets and queue, by the same procedures, searches and statistics as of any firewall.

use crate::cli::CalibrateArgs;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use crate::rig::{self, Shared};
use measure::campaign::{self, Outcome};
use measure::plan::{Options, Plan, PlannedCell};
use measure::results::Metric;
use measure::stats;
use measure::suite::Suite;
use measure::trial::RigError;
use serde::Serialize;
use testbed::dut::{self, Behaviour, PlainForwarder};
use traffic::Engine;

/// Room for the connections of every test.
const CONNECTIONS: u32 = 10_000;
/// Room for the flows of every test of frames.
const FLOWS: u32 = 1000;

/// One thing that is known of a box.
struct Truth {
    /// The test of `truths.toml` that measures it.
    test: &'static str,
    name: &'static str,
    behaviour: Behaviour,
    /// Whether it is what the behaviour adds to a box that only forwards.
    beside_none: bool,
    metric: Metric,
    /// The true value in the metric's unit, for trials of so many seconds.
    truth: fn(f64) -> f64,
    /// The relative error that is promised in SPEC.md.
    allowed: f64,
}

const BUCKET_DEPTH: u64 = 100;

const TRUTHS: [Truth; 9] = [
    Truth {
        test: "rate",
        name: "throughput of a bucket of 200,000 frames/s that is 100 deep",
        behaviour: Behaviour::Bucket { interval_ns: 5_000, depth: BUCKET_DEPTH },
        beside_none: false,
        metric: Metric::Throughput,
        // What a full bucket holds passes as well.
        truth: |seconds| 200_000.0 + BUCKET_DEPTH as f64 / seconds,
        allowed: 0.001,
    },
    Truth {
        test: "delay",
        name: "latency that a delay of 50 µs adds",
        behaviour: Behaviour::Delay { ns: 50_000 },
        beside_none: true,
        metric: Metric::Latency,
        truth: |_| 50_000.0,
        allowed: 0.01,
    },
    Truth {
        test: "loss",
        name: "loss of one frame in a thousand",
        behaviour: Behaviour::LosesOneIn(1000),
        beside_none: false,
        metric: Metric::Loss,
        truth: |_| 0.001,
        allowed: 0.01,
    },
    Truth {
        test: "burst",
        name: "burst that a buffer of 100 frames takes, emptied 2,000 times a second",
        behaviour: Behaviour::Bucket { interval_ns: 500_000, depth: BUCKET_DEPTH },
        beside_none: false,
        metric: Metric::BackToBack,
        truth: |_| BUCKET_DEPTH as f64,
        allowed: 0.01,
    },
    Truth {
        test: "table",
        name: "connections that a table of 1,000 entries holds",
        behaviour: Behaviour::Table { entries: 1000 },
        beside_none: false,
        metric: Metric::ConcurrentConnections,
        truth: |_| 1000.0,
        allowed: 0.0,
    },
    Truth {
        test: "http-table",
        name: "HTTP connections that a table of 1,000 entries holds",
        behaviour: Behaviour::Table { entries: 1000 },
        beside_none: false,
        metric: Metric::ConcurrentConnections,
        truth: |_| 1000.0,
        allowed: 0.0,
    },
    Truth {
        test: "https-table",
        name: "HTTPS connections that a table of 100 entries holds",
        behaviour: Behaviour::Table { entries: 100 },
        beside_none: false,
        metric: Metric::ConcurrentConnections,
        truth: |_| 100.0,
        allowed: 0.0,
    },
    Truth {
        test: "resets",
        name: "failures where one connection in a hundred is reset",
        behaviour: Behaviour::ResetsOneIn(100),
        beside_none: false,
        metric: Metric::Failures,
        truth: |_| 0.01,
        allowed: 0.001,
    },
    Truth {
        test: "openings",
        name: "connections/s of a box that opens 1,000, in front of which 256 wait",
        behaviour: Behaviour::OpensOneEach { ns: 1_000_000 },
        beside_none: false,
        metric: Metric::ConnectionRate,
        truth: |_| 1000.0,
        // It hands on what one poll of its link took in, 64 frames, at once: 0.128 of a trial of half a second. Its queue would add 0.51.
        allowed: 0.15,
    },
];

/// What was reported of a box, beside the truth.
#[derive(Debug, Serialize)]
struct Compared {
    name: &'static str,
    unit: &'static str,
    truth: f64,
    /// The median of the rounds; absent where a round has no valid value.
    reported: Option<f64>,
    rounds: Vec<f64>,
    /// By how much the report differs from the truth, as a share of it.
    error: Option<f64>,
    /// How much is promised at most.
    allowed: f64,
    kept: bool,
    /// How many of its trials other programs or the hypervisor disturbed.
    trials_disturbed: usize,
    /// Why there is no value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<String>,
}

/// `calibrate --truths`.
pub(super) fn compare(args: &CalibrateArgs, json: bool, interrupt: &Interrupt) -> Result<(), Failure> {
    let plan = plan(args)?;
    let shared = Shared::new(Engine::load(FLOWS)?, interrupt).with_connections(CONNECTIONS)?;
    let mut compared = Vec::new();
    for (truth, planned) in TRUTHS.iter().zip(&plan.cells) {
        compared.push(measure(truth, planned, args.seconds, &shared)?);
        if !json && let Some(last) = compared.last() {
            output::out(&line(last));
        }
    }
    if json {
        output::out_json(&compared)?;
    }
    let wrong: Vec<&str> = compared.iter().filter(|c| !c.kept).map(|c| c.name).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failure::Expectation(format!("the bench misses the truth: {}", wrong.join("; "))))
}

/// A cell a truth, in their order.
fn plan(args: &CalibrateArgs) -> Result<Plan, Failure> {
    let text = include_str!("truths.toml")
        .replace("ROUNDS", &args.rounds.to_string())
        .replace("LONG_SECONDS", &args.seconds.max(0.5).to_string())
        .replace("SECONDS", &args.seconds.to_string());
    let suite = Suite::parse("truths.toml", &text).map_err(Failure::wrong_text)?;
    Ok(Plan::new(&suite, &Options::default())?)
}

fn measure(truth: &Truth, planned: &PlannedCell, seconds: f64, shared: &Shared) -> Result<Compared, Failure> {
    let outcome = campaign(truth, planned, shared)?;
    // Of a test with several loads the first is the heaviest.
    let of = |dut: &str| outcome.points.iter().find(|p| p.dut == dut && p.metric == truth.metric);
    let (with, without) = (of(truth.test), of(PLAIN));
    let points = || with.into_iter().chain(without);
    let reasons: Vec<String> =
        points().filter(|p| !p.valid).flat_map(|p| &p.marks).map(|mark| mark.text.clone()).collect();
    let values = with.filter(|_| points().all(|p| p.valid)).map(|p| p.rounds.clone()).unwrap_or_default();
    let rounds = match without {
        Some(without) => values.iter().zip(&without.rounds).map(|(with, without)| with - without).collect(),
        None => values,
    };
    let trials = outcome.runs.iter().flat_map(|run| &run.trials).filter_map(|trial| trial.detail.as_ref());
    let trials_disturbed = trials.filter(|detail| detail.cpu.is_disturbed()).count();
    Ok(Compared { trials_disturbed, ..judged(truth, seconds, rounds, reasons) })
}

/// The box that adds nothing.
const PLAIN: &str = "only-forwards";

/// The test's own trials on its box, and on one that only forwards where that is what counts.
fn campaign(truth: &Truth, planned: &PlannedCell, shared: &Shared) -> Result<Outcome, Failure> {
    let boxes = [(truth.test, truth.behaviour), (PLAIN, Behaviour::OnlyForwards)];
    let mut rigs = Vec::new();
    for (name, behaviour) in &boxes[..1 + usize::from(truth.beside_none)] {
        // Names of firewalls live as long as the program.
        dut::add(Box::leak(Box::new(PlainForwarder::known(name, *behaviour))))?;
        rigs.push(rig::build(name, planned, shared).map_err(super::failed)?);
    }
    let outcome = campaign::run(&planned.cell, &mut rigs, &mut ());
    if outcome.interrupted { Err(super::failed(RigError::Interrupted)) } else { Ok(outcome) }
}

fn judged(truth: &Truth, seconds: f64, rounds: Vec<f64>, reasons: Vec<String>) -> Compared {
    let value = (truth.truth)(seconds);
    let reported = stats::median(&rounds);
    let error = reported.map(|reported| (reported / value - 1.0).abs());
    Compared {
        name: truth.name,
        unit: truth.metric.unit(),
        truth: value,
        reported,
        rounds,
        error,
        allowed: truth.allowed,
        kept: error.is_some_and(|error| error <= truth.allowed),
        trials_disturbed: 0,
        reasons,
    }
}

fn line(compared: &Compared) -> String {
    let Compared { name, unit, truth, .. } = compared;
    let (Some(reported), Some(error)) = (compared.reported, compared.error) else {
        return format!("{name}: no valid value: {}\n", compared.reasons.join("; "));
    };
    let word = match (compared.kept, compared.trials_disturbed) {
        (true, _) => "kept".to_owned(),
        (false, 0) => "MISSED".to_owned(),
        (false, disturbed) => {
            format!("MISSED, with {disturbed} trials disturbed by other programs or the hypervisor")
        }
    };
    format!(
        "{name:<72} true {truth:>10} {unit}, reported {:>10}, off by {:.4} % (promised: {} %; {word})\n",
        super::number(reported),
        error * 100.0,
        compared.allowed * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_truth_has_its_test() {
        let args = CalibrateArgs { truths: true, seconds: 0.25, rounds: 3 };
        let plan = plan(&args).unwrap_or_else(|e| panic!("{}", e.message()));
        let tests: Vec<&str> = plan.cells.iter().map(|planned| planned.cell.test.as_str()).collect();
        assert_eq!(tests, TRUTHS.map(|truth| truth.test));
        assert!(plan.cells.iter().all(|planned| planned.cell.rounds == 3));
    }

    #[test]
    fn a_report_that_is_off_or_missing_is_not_kept() {
        let resets = TRUTHS.iter().find(|truth| truth.test == "resets").unwrap();
        for (rounds, kept) in
            [(&[0.00999, 0.01, 0.0102][..], true), (&[0.0102], false), (&[0.0098], false), (&[], false)]
        {
            let compared = judged(resets, 1.0, rounds.to_vec(), Vec::new());
            assert_eq!(compared.kept, kept, "{}", line(&compared));
            assert_eq!(line(&compared).contains("kept"), kept, "{}", line(&compared));
        }
    }
}
