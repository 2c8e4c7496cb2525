//! The generator and the sink, and the TCP client and server, against themselves: what the bench itself can do, and how
//! exact its times are.
//!
//! Everything is measured in turns within one run, so that the ratios do not depend on the machine's mood.

mod tcp;
mod truths;

use crate::cli::CalibrateArgs;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use crate::rig::{FrameRig, Shared};
use measure::frame::{FrameMix, FrameSize};
use measure::results::Calibration;
use measure::shape::{
    Directions, IpVersion, Placement, PolicyShape, Setup, TrafficShape, UdpChecksum, Workload, ZoneForm,
};
use measure::stats::{self, ERROR, Estimate, Scale};
use measure::trial::{FrameRequest, Load, RigError, TrialOutcome};
use std::time::Duration;
use testbed::priority::SessionPriority;
use traffic::{BareLoop, Clock, Engine};

/// Promises of SPEC.md.
const WIRE_SHARE: f64 = 0.70;
const REDIRECT_SHARE: f64 = 0.60;
const RATE_ERROR: f64 = 0.001;
const ON_TIME_SHARE: f64 = 0.99;
const MEMORY_BYTES: f64 = 200e6;
const FLOWS: u32 = 1_000_000;
/// Flows of the paced measurement; an engine that calibrates has room for them.
pub(crate) const PACED_FLOWS: u32 = 1_000;
const PACED_FRAMES_PER_SECOND: f64 = 100_000.0;

/// `calibrate`.
pub(crate) fn calibrate(args: &CalibrateArgs, json: bool, interrupt: &Interrupt) -> Result<(), Failure> {
    if !(0.05..=60.0).contains(&args.seconds) || args.rounds == 0 {
        return Err(Failure::Wrong(format!(
            "--seconds {} --rounds {}: 0.05 to 60 seconds, and at least one round",
            args.seconds, args.rounds
        )));
    }
    crate::run::check_root()?;
    testbed::quota::check_for(1)?;
    for change in testbed::leftovers::remove()? {
        crate::say(&format!("removed what a killed run left: {}", crate::run::change_words(&change)));
    }
    let priority = SessionPriority::raise();
    if priority.refused() {
        crate::say(&format!("other sessions may delay the bench: {}", priority.description()));
    }
    let _alone = crate::machine::alone(interrupt)?;
    if args.truths {
        return truths::compare(args, json, interrupt);
    }
    let engine = Engine::load(traffic::MAX_FLOWS)?;
    let shared = Shared::new(engine, interrupt);
    let mut figures = measure_all(&shared, FLOWS, args.seconds, args.rounds)?;
    trial(&shared, "wire", traffic::MAX_FLOWS, Load::Maximum, args.seconds)?;
    figures.push(peak_memory());
    figures.extend(tcp::measure(args.seconds, args.rounds, interrupt)?);
    if json {
        output::out_json(&figures)?;
    } else {
        figures.iter().for_each(|figure| output::out(&line(figure)));
    }
    let broken: Vec<&str> =
        figures.iter().filter(|f| f.met == Some(false)).map(|f| f.name.as_str()).collect();
    // One round tells nothing of the noise, so it breaks no promise.
    if broken.is_empty() || args.rounds < 2 {
        return Ok(());
    }
    Err(Failure::Expectation(format!("the bench misses what it promises: {}", broken.join("; "))))
}

/// The short form that opens every run. Its trials of a run that is short are shorter still.
pub(crate) fn brief(shared: &Shared, flows: u32, run_seconds: f64) -> Result<Vec<Calibration>, Failure> {
    measure_all(shared, flows, (run_seconds / 10.0).clamp(0.05, 0.2), 1)
}

fn line(figure: &Calibration) -> String {
    let word = match figure.met {
        Some(true) => "kept",
        Some(false) => "MISSED",
        None => "undecided: its rounds reach over it",
    };
    let promise =
        figure.target.map_or_else(String::new, |t| format!("  (promised: {t} {}; {word})", figure.unit));
    format!("{:<66} {:>12} {}{promise}\n", figure.name, number(figure.value), figure.unit)
}

fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1e6 => format!("{:.3} M", value / 1e6),
        v if v >= 100.0 => format!("{value:.0}"),
        _ => format!("{value:.4}"),
    }
}

fn measure_all(shared: &Shared, flows: u32, seconds: f64, rounds: u32) -> Result<Vec<Calibration>, Failure> {
    let mut wire = Rates::default();
    let mut redirect = Rates::default();
    let mut paced = Vec::new();
    for _ in 0..rounds {
        wire.round(shared, "wire", flows, seconds)?;
        redirect.round(shared, "xdp-redirect", flows, seconds)?;
        paced.push(trial(shared, "wire", PACED_FLOWS, Load::PerSecond(PACED_FRAMES_PER_SECOND), seconds)?);
    }
    let mut figures = vec![clock_reading()];
    figures.extend(wire.figures("nothing between", flows, WIRE_SHARE));
    figures.extend(redirect.figures("through xdp-redirect", flows, REDIRECT_SHARE));
    figures.extend(paced_figures(&paced));
    Ok(figures)
}

/// Rates of the full generator and of the bare loop over the same beds, in turns.
#[derive(Default)]
struct Rates {
    full: Vec<f64>,
    bare: Vec<f64>,
}

impl Rates {
    fn round(&mut self, shared: &Shared, dut: &str, flows: u32, seconds: f64) -> Result<(), Failure> {
        let mut rig = FrameRig::build(dut, &setup(flows), shared).map_err(failed)?;
        self.full.push(trial_on(&mut rig, Load::Maximum, seconds)?.forwarding_rate());
        self.bare.push(bare(rig, dut, seconds)?);
        Ok(())
    }

    fn figures(&self, between: &str, flows: u32, promise: f64) -> Vec<Calibration> {
        let rate = |values: &[f64]| stats::median(values).unwrap_or(0.0);
        let shares: Vec<f64> =
            self.full.iter().zip(&self.bare).map(|(full, bare)| full / bare.max(1.0)).collect();
        vec![
            plain(format!("bare live-frame loop, 64 bytes, 1 core, {between}"), rate(&self.bare), "frames/s"),
            plain(
                format!("generator and sink, 64 bytes, {flows} flows, 1 core, {between}"),
                rate(&self.full),
                "frames/s",
            ),
            promised(
                format!("share of the bare loop, {between}"),
                &shares,
                "ratio",
                Promise::AtLeast(promise),
            ),
        ]
    }
}

/// The least or the most that a figure should be.
#[derive(Clone, Copy)]
enum Promise {
    AtLeast(f64),
    AtMost(f64),
}

/// A figure with its promise, from the values of its rounds. It is kept or missed when the whole interval is on one side of
/// the promise, and nothing is said when the interval reaches over it. What was counted once, such as memory, has no interval and is
/// judged as it is.
fn promised(name: String, rounds: &[f64], unit: &str, promise: Promise) -> Calibration {
    let known = Estimate::of(rounds, Scale::Ratio, ERROR);
    let (value, low, high) = match known {
        Some(e) if rounds.len() > 1 => (e.value, e.low, e.high),
        Some(e) => (e.value, e.value, e.value),
        None => (0.0, 0.0, 0.0),
    };
    let (target, kept, missed) = match promise {
        Promise::AtLeast(least) => (least, low >= least, high < least),
        Promise::AtMost(most) => (most, high <= most, low > most),
    };
    let met = if kept || missed { Some(kept) } else { None };
    Calibration { name, value, unit: unit.to_owned(), target: Some(target), met }
}

fn plain(name: String, value: f64, unit: &str) -> Calibration {
    Calibration { name, value, unit: unit.to_owned(), target: None, met: None }
}

fn setup(flows: u32) -> Setup {
    let smallest = FrameSize::new(FrameSize::MIN_BYTES);
    Setup {
        zones: ZoneForm::Two,
        traffic: TrafficShape {
            frame: FrameMix::fixed(smallest.unwrap_or_else(|| unreachable!("64 bytes is a frame"))),
            ip: IpVersion::V4,
            flows,
            clients: 20.min(flows),
            servers: 10.min(flows),
            directions: Directions::OneWay,
            udp_checksum: UdpChecksum::Zero,
            fragments: 1,
            cores: 1,
            seed: 1,
        },
        policy: PolicyShape::forward_everything(1),
        workload: Workload::Frames,
        placement: Placement::Inline,
        link_bits_per_second: None,
        offloads: true,
    }
}

fn failed(error: RigError) -> Failure {
    match error {
        RigError::Interrupted => Failure::Interrupted,
        RigError::Broken(why) | RigError::Unsupported(why) | RigError::NotSetUp(why) => {
            Failure::Machine(format!("the bench cannot calibrate itself: {why}"))
        }
    }
}

fn trial(shared: &Shared, dut: &str, flows: u32, load: Load, seconds: f64) -> Result<TrialOutcome, Failure> {
    trial_on(&mut FrameRig::build(dut, &setup(flows), shared).map_err(failed)?, load, seconds)
}

fn trial_on(rig: &mut FrameRig, load: Load, seconds: f64) -> Result<TrialOutcome, Failure> {
    use measure::trial::Rig as _;
    let request = FrameRequest::constant(load, seconds);
    let request = if request.is_paced() { request.for_times() } else { request };
    rig.trial(&request.into()).map_err(failed)
}

fn bare(rig: FrameRig, dut: &str, seconds: f64) -> Result<f64, Failure> {
    let rate = rig.bare(|engine, from, to| {
        engine.run_bare(&BareLoop {
            from,
            to,
            writes_header: dut != "wire",
            bytes_without_fcs: FrameSize::MIN_BYTES - measure::frame::FCS_BYTES,
            cores: &[0],
            duration: Duration::from_secs_f64(seconds),
        })
    })?;
    Ok(rate)
}

/// How well a paced rate is kept, and the error bar of all latencies: what is measured with nothing between.
fn paced_figures(trials: &[TrialOutcome]) -> Vec<Calibration> {
    let of = |value: fn(&TrialOutcome) -> f64| trials.iter().map(value).collect::<Vec<_>>();
    let errors = of(|t| (t.ledger.sent() as f64 / t.seconds / PACED_FRAMES_PER_SECOND - 1.0).abs());
    let on_time = of(|t| t.frames().and_then(|frames| frames.on_time_share).unwrap_or(0.0));
    let latency = |value: fn(&measure::results::LatencySummary) -> f64| {
        stats::median(&trials.iter().filter_map(|t| t.latency_ns().as_ref().map(value)).collect::<Vec<_>>())
            .unwrap_or(0.0)
    };
    vec![
        promised(
            "error of the mean rate, paced at 100 k frames/s".to_owned(),
            &errors,
            "ratio",
            Promise::AtMost(RATE_ERROR),
        ),
        promised(
            "frames sent within 5 µs of the schedule, paced at 100 k frames/s".to_owned(),
            &on_time,
            "ratio",
            Promise::AtLeast(ON_TIME_SHARE),
        ),
        plain(
            "latency with nothing between, smallest (contained in every latency)".to_owned(),
            latency(|l| l.min),
            "ns",
        ),
        plain("latency with nothing between, median".to_owned(), latency(|l| l.p50), "ns"),
        plain(
            "latency with nothing between, 99th percentile (error bar of every latency)".to_owned(),
            latency(|l| l.p99),
            "ns",
        ),
    ]
}

/// The most memory that this process had in use so far, the mapped state of the BPF programs included.
fn peak_memory() -> Calibration {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: f64 = line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(f64::INFINITY);
    let name = format!("memory of the bench with {} flows, at most", traffic::MAX_FLOWS);
    promised(name, &[kib * 1024.0], "bytes", Promise::AtMost(MEMORY_BYTES))
}

/// What one reading of the clock costs: no two events can be distinguished more finely.
fn clock_reading() -> Calibration {
    const READINGS: u32 = 100_000;
    let start = Clock::now_ns();
    for _ in 0..READINGS {
        std::hint::black_box(Clock::now_ns());
    }
    plain("one reading of the clock".to_owned(), (Clock::now_ns() - start) as f64 / f64::from(READINGS), "ns")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_kept_missed_or_undecided() {
        let rows: [(&[f64], Promise, Option<bool>); 9] = [
            (&[0.8, 0.7, 0.75], Promise::AtLeast(0.7), None),
            (&[0.8, 0.79, 0.81], Promise::AtLeast(0.7), Some(true)),
            (&[0.8, 0.6, 0.75], Promise::AtLeast(0.7), None),
            (&[0.6, 0.61, 0.59], Promise::AtLeast(0.7), Some(false)),
            (&[0.6], Promise::AtLeast(0.7), Some(false)),
            (&[0.0005, 0.00049], Promise::AtMost(0.001), Some(true)),
            (&[0.002, 0.0005], Promise::AtMost(0.001), None),
            (&[0.002, 0.00201], Promise::AtMost(0.001), Some(false)),
            (&[], Promise::AtLeast(0.7), Some(false)),
        ];
        for (rounds, promise, met) in rows {
            let figure = promised("a figure".to_owned(), rounds, "ratio", promise);
            assert_eq!(figure.met, met, "{rounds:?}");
            assert_eq!(line(&figure).contains("undecided"), met.is_none(), "{}", line(&figure));
        }
    }
}
