//! The TCP client and server against the stateless loop, with nothing between and through the kernel's own firewalls; how
//! evenly they start connections; and how many they hold.

use super::{Calibration, Promise, plain, promised};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::rig;
use measure::frame::FrameSize;
use measure::shape::{Placement, PolicyShape, TestProtocol, ZoneForm};
use measure::stats;
use std::time::Instant;
use testbed::bed::{Bed, BedSpec, CoreSplit};
use testbed::dut::{self, Running};
use testbed::policy::PolicySpec;
use traffic::tcp::{
    Close, Comparison, Ends, Engine, Opening, Order, Ports, Side, TcpPhase, TcpPlan, TcpReading,
};
use traffic::{Port, Watch};

/// Promises of SPEC.md: shares of the stateless loop.
const WIRE_SHARE: f64 = 0.60;
const LINUX_SHARE: f64 = 0.90;
const NFTABLES_SHARE: f64 = 0.95;
/// Evenness.
const EVEN_RATE: f64 = 10_000.0;
const EVEN_SECONDS: f64 = 60.0;
const EVEN_DEVIATION: f64 = 0.001;
/// Capacity.
const HELD: u32 = 10_000_000;
const HELD_RATE: f64 = 400_000.0;
const HELD_MEMORY_BYTES: f64 = 1e9;
const HELD_OPEN_SECONDS: f64 = 60.0;
/// Free memory below which the tables of ten million connections are not tried.
const HELD_NEEDS_BYTES: f64 = 1.2e9;
/// Shorter calibrations leave it out: it takes most of a minute.
const HELD_FROM_SECONDS: f64 = 1.0;
const CAPACITY: u32 = 65_536;

/// All figures of TCP. `seconds` is the length of a measurement; evenness takes sixty times as long, up to a minute.
pub(super) fn measure(seconds: f64, rounds: u32, interrupt: &Interrupt) -> Result<Vec<Calibration>, Failure> {
    let mut engine = Engine::load(CAPACITY)?;
    let plan = Engine::calibration_plan();
    let random = TcpPlan { order: Order::Random, ..plan.clone() };
    let mut seen: [Vec<Comparison>; 4] = Default::default();
    for _ in 0..rounds {
        let wire = Site::build("wire")?;
        seen[0].push(wire.compare(&mut engine, &plan, seconds)?);
        seen[1].push(wire.compare(&mut engine, &random, seconds)?);
        drop(wire);
        seen[2].push(Site::build("linux")?.compare(&mut engine, &plan, seconds)?);
        seen[3].push(Site::build("nftables")?.compare(&mut engine, &plan, seconds)?);
        if interrupt.asked() {
            return Err(Failure::Interrupted);
        }
    }
    let mut figures = Vec::new();
    for (rounds, (name, promise)) in seen.iter().zip([
        ("nothing between", WIRE_SHARE),
        ("nothing between, random order", WIRE_SHARE),
        ("through linux", LINUX_SHARE),
        ("through nftables", NFTABLES_SHARE),
    ]) {
        figures.extend(rates(rounds, name, promise));
    }
    figures.push(evenness(&mut engine, seconds, interrupt)?);
    drop(engine);
    figures.extend(held(seconds, interrupt)?);
    Ok(figures)
}

fn rates(rounds: &[Comparison], between: &str, promise: f64) -> [Calibration; 3] {
    let of = |value: fn(&Comparison) -> f64| {
        stats::median(&rounds.iter().map(value).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    let shares: Vec<f64> = rounds.iter().map(Comparison::ratio).collect();
    let rate = "connections/s";
    [
        plain(format!("stateless TCP loop, 1 core, {between}"), of(|c| c.bare.a_second), rate),
        plain(
            format!("TCP client and server, 1-byte answer, reset, 1 core, {between}"),
            of(|c| c.engine.a_second),
            rate,
        ),
        promised(
            format!("share of the stateless TCP loop, {between}"),
            &shares,
            "ratio",
            Promise::AtLeast(promise),
        ),
    ]
}

fn evenness(engine: &mut Engine, seconds: f64, interrupt: &Interrupt) -> Result<Calibration, Failure> {
    let site = Site::build("wire")?;
    let ports = site.attach(engine)?;
    let length = (seconds * EVEN_SECONDS).round().clamp(1.0, EVEN_SECONDS) as u32;
    let even = engine.evenness(&ports, EVEN_RATE, length, &mut Asked(interrupt))?;
    let deviation = even.largest_deviation();
    Ok(promised(
        format!("largest deviation of a second, 10 k connections/s for {length} s"),
        &[deviation],
        "ratio",
        Promise::AtMost(EVEN_DEVIATION),
    ))
}

/// Ten million connections held and verified, where there is time and memory for them.
fn held(seconds: f64, interrupt: &Interrupt) -> Result<Vec<Calibration>, Failure> {
    if seconds < HELD_FROM_SECONDS {
        crate::say(&format!(
            "10 M connections are held only with --seconds {HELD_FROM_SECONDS} or more: left out"
        ));
        return Ok(Vec::new());
    }
    let free = free_bytes();
    if free < HELD_NEEDS_BYTES {
        crate::say(&format!(
            "10 M connections held: left out, {:.1} GB of memory are free and {:.1} GB are needed",
            free / 1e9,
            HELD_NEEDS_BYTES / 1e9
        ));
        return Ok(Vec::new());
    }
    let site = Site::build("wire")?;
    let mut engine = Engine::load(HELD)?;
    let memory = engine.memory_bytes() as f64;
    let ports = site.attach(&mut engine)?;
    let begun = Instant::now();
    let mut opened = AllOpen { interrupt, begun, seconds: None };
    let (all, end) = engine.open_all_and_verify(&ports, &holding(), &mut opened)?;
    let verified = end.counts.verified.min(all.counts.open()) as f64;
    Ok(vec![
        promised(
            "connections held open and verified, 1 core".to_owned(),
            &[verified],
            "connections",
            Promise::AtLeast(f64::from(HELD)),
        ),
        promised(
            "memory of the tables for 10 M connections".to_owned(),
            &[memory],
            "bytes",
            Promise::AtMost(HELD_MEMORY_BYTES),
        ),
        promised(
            "time to open 10 M connections, 400 k/s asked for".to_owned(),
            &[opened.seconds.unwrap_or(f64::INFINITY)],
            "s",
            Promise::AtMost(HELD_OPEN_SECONDS),
        ),
    ])
}

fn holding() -> TcpPlan {
    let length = f64::from(HELD) / HELD_RATE;
    let opening = Opening::Scheduled(vec![TcpPhase::constant(HELD_RATE, length)]);
    TcpPlan {
        clients: Side { first_host: 256, hosts: 256, first_port: 1024, ports: 40_000 },
        tuples: HELD,
        close: Close::Never,
        transactions: 0,
        settle: std::time::Duration::from_secs(20),
        grace: std::time::Duration::from_secs(60),
        ..TcpPlan::new(opening)
    }
}

fn free_bytes() -> f64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(0.0) * 1024.0
}

/// Only asks whether to stop.
struct Asked<'a>(&'a Interrupt);

impl Watch<TcpReading> for Asked<'_> {
    fn interrupted(&self) -> bool {
        self.0.asked()
    }
}

/// Notes when all were open: within a tenth of a second.
struct AllOpen<'a> {
    interrupt: &'a Interrupt,
    begun: Instant,
    seconds: Option<f64>,
}

impl Watch<TcpReading> for AllOpen<'_> {
    fn interrupted(&self) -> bool {
        self.interrupt.asked()
    }

    fn sample_every(&self) -> std::time::Duration {
        std::time::Duration::from_millis(100)
    }

    fn sample(&mut self, _at_seconds: f64, reading: &TcpReading) {
        if self.seconds.is_none() && reading.counts.established >= u64::from(HELD) {
            self.seconds = Some(self.begun.elapsed().as_secs_f64());
        }
    }
}

/// A bed with a firewall that lets TCP through. The firewall goes before its bed.
struct Site {
    _running: Box<dyn Running>,
    client: Port,
    server: Port,
    _bed: Bed,
}

impl Site {
    fn build(dut: &str) -> Result<Self, Failure> {
        let driver = dut::driver(dut)?;
        let bed = Bed::build(&BedSpec {
            zones: ZoneForm::Two,
            wiring: driver.wiring(),
            largest_frame: FrameSize::new(1518).unwrap_or_else(|| unreachable!("1518 bytes is a frame")),
            placement: Placement::Inline,
            cores: CoreSplit::of(Placement::Inline, 1)?,
            link_bits_per_second: None,
        })?;
        let running = driver.set_up(&bed, &policy(dut)?)?;
        let ports: Vec<Port> = bed.layout().ports.iter().map(rig::port).collect();
        match ports.as_slice() {
            [client, .., server] => {
                Ok(Self { _running: running, client: client.clone(), server: server.clone(), _bed: bed })
            }
            _ => Err(Failure::Machine("a bed of one zone".to_owned())),
        }
    }

    fn compare(&self, engine: &mut Engine, plan: &TcpPlan, seconds: f64) -> Result<Comparison, Failure> {
        Ok(engine.compare_with_bare(&self.client, &self.server, plan, seconds)?)
    }

    fn attach(&self, engine: &mut Engine) -> Result<Ports, Failure> {
        Ok(engine.attach(&self.client, &self.server, Ends::Both)?)
    }
}

/// One rule and state, for TCP; what only forwards has none.
fn policy(dut: &str) -> Result<PolicySpec, Failure> {
    if dut::driver(dut)?.capabilities().only_forwards() {
        return Ok(PolicySpec::forward_everything(ZoneForm::Two));
    }
    let shape = PolicyShape {
        rules: 1,
        match_position: 1,
        stateful: true,
        protocol: TestProtocol::Tcp,
        ..PolicyShape::forward_everything(1)
    };
    Ok(PolicySpec::generate(&shape, ZoneForm::Two)?)
}
