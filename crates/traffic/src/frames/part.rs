//! A trial under way: all of it, or the part of it whose ports are at this host while another host has the others. What the parts showed is put
//! together here as well, by plain functions; how hosts speak with each other is unknown here.

use super::engine::{Engine, Ports, TrialPlan};
use super::frame;
use super::held_back::{self, HeldBack, Sighting};
use super::reading::{Reading, StreamCounts};
use crate::TrafficError;
use crate::harness::{Run, Watch, wait_until};
use measure::trial::{Load, Phase};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::time::Duration;

/// A look that took longer was interrupted.
const LONGEST_LOOK: Duration = Duration::from_millis(1);
/// Looks at a trial whose load is constant, and the shortest and longest time between two of them.
const LOOKS: f64 = 100.0;
const LOOK_EVERY: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(20));
/// How long after the last was sent frames may arrive: so much, and so much of the trial's time, beyond the shortest latency.
const HELD_BACK_AFTER: (Duration, f64) = (Duration::from_millis(100), 0.1);

/// What both parts of a trial must agree about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Of the trial's secrets: who knows it can forge frames.
    pub seed: u64,
    /// The mark of the trial's frames, another one than that of the trial before.
    pub mark: u16,
    /// By how much the clock of the host that sends is ahead of this one's, in ns, as far as is known; the sinks add it to each latency. Those
    /// that then are less than 0 count as 0.
    pub clock_ns: i64,
}

/// The side that has the other part of a trial.
pub trait Partner {
    /// Both parts are ready: returns when the load begins, in ns of this host's clock ([`crate::Clock::now_ns`]), or `None` where no other host has to
    /// begin at the same moment.
    ///
    /// # Errors
    /// The other part is not ready, or the user asked to stop.
    fn start(&mut self) -> Result<Option<u64>, TrafficError>;

    /// Nothing more is sent from here, after so many frames. Returns how many frames arrive here at most, once the other part has sent all
    /// of its own.
    fn expected(&mut self, sent: u64) -> Option<u64>;
}

/// No other part.
struct Nobody;

impl Partner for Nobody {
    fn start(&mut self) -> Result<Option<u64>, TrafficError> {
        Ok(None)
    }

    fn expected(&mut self, sent: u64) -> Option<u64> {
        Some(sent)
    }
}

/// What one host saw of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartReading {
    /// Seconds of sending; 0 of a host that only receives.
    pub seconds: f64,
    /// When it was seen that nothing more is sent, in ns since the start; 0 of a host that only receives.
    pub ended_ns: u64,
    /// Frames that the schedule asked for.
    pub offered: u64,
    /// The counters and times.
    pub reading: Reading,
    /// What had been sent and received at moments of the trial, rising; the last saw everything.
    pub sightings: Vec<Sighting>,
    /// Whether content was compared in some frames only.
    pub samples_content: bool,
}

/// What a trial showed.
#[derive(Debug)]
pub struct TrialReading {
    /// Seconds of sending.
    pub seconds: f64,
    /// Frames that the schedule asked for.
    pub offered: u64,
    /// Frames that arrived so long after the last was sent that they are not received.
    pub held_back: u64,
    /// There may be many more: nobody looked often enough at what had arrived.
    pub is_doubtful: bool,
    /// The counters and times.
    pub reading: Reading,
    /// Whether content was compared in some frames only.
    pub samples_content: bool,
}

impl TrialPlan<'_> {
    pub(super) fn seconds(&self) -> f64 {
        seconds(self.phases)
    }
}

fn seconds(phases: &[Phase]) -> f64 {
    phases.iter().map(|phase| phase.seconds).sum()
}

/// Whether a load is the same from its beginning to its end.
fn is_constant(phases: &[Phase]) -> bool {
    matches!(phases, [phase] if !matches!(phase.load, Load::Burst(_)))
}

/// How long after the last was sent frames of a trial may arrive. A firewall that forwards slower than it receives, and what it could not
/// forward in the trial's time afterwards, would look as fast as its memory is large. Bursts are to be held back.
fn may_take(phases: &[Phase], seen: &Reading) -> Duration {
    if phases.iter().any(|phase| matches!(phase.load, Load::Burst(_))) {
        return Duration::MAX;
    }
    let (least, share) = HELD_BACK_AFTER;
    let [shortest, _] = seen.shortest_and_median();
    least.max(Duration::from_secs_f64(seconds(phases) * share)) + Duration::from_secs_f64(shortest)
}

fn look_every(plan: &TrialPlan<'_>) -> Duration {
    match is_constant(plan.phases) {
        true => Duration::from_secs_f64(plan.seconds() / LOOKS).clamp(LOOK_EVERY.0, LOOK_EVERY.1),
        false => Duration::MAX,
    }
}

/// A watch of a trial, while the engine itself looks at it more often.
struct Looking<'a> {
    watch: &'a mut dyn Watch,
    every: Duration,
}

impl Watch for Looking<'_> {
    fn interrupted(&self) -> bool {
        self.watch.interrupted()
    }

    fn tick_every(&self) -> Duration {
        self.watch.tick_every().min(self.every)
    }

    fn sample_every(&self) -> Duration {
        self.watch.sample_every()
    }

    fn tick(&mut self, at_seconds: f64, sent: u64, received: u64) {
        self.watch.tick(at_seconds, sent, received);
    }

    fn sample(&mut self, at_seconds: f64, reading: &Reading) {
        self.watch.sample(at_seconds, reading);
    }
}

fn sent(counts: &[StreamCounts]) -> u64 {
    counts.iter().map(|stream| stream.sent).sum()
}

fn received(counts: &[StreamCounts]) -> u64 {
    counts.iter().map(|stream| stream.received).sum()
}

impl Engine {
    /// Runs one trial, telling `watch` how it goes.
    ///
    /// # Errors
    /// The kernel refuses, the plan is impossible, or the watcher interrupts.
    pub fn run(
        &mut self,
        ports: &Ports,
        plan: &TrialPlan<'_>,
        watch: &mut dyn Watch,
    ) -> Result<TrialReading, TrafficError> {
        let whole = self.run_part(ports, plan, None, &mut Nobody, watch)?;
        Ok(TrialReading::of(plan.phases, std::slice::from_ref(&whole)))
    }

    /// Runs the part of a trial whose ports are at this host: sends on the lanes that begin at them, and counts what arrives at them.
    ///
    /// # Errors
    /// As of [`Engine::run`], or the partner has gone away.
    pub fn run_part(
        &mut self,
        ports: &Ports,
        plan: &TrialPlan<'_>,
        part: Option<&Part>,
        partner: &mut dyn Partner,
        watch: &mut dyn Watch,
    ) -> Result<PartReading, TrafficError> {
        let schedules = self.prepare(ports, plan, part)?;
        let (memory, lanes) = (self.memory, plan.lanes.len());
        let before = Reading::take(memory, plan.cores, lanes);
        let counts = || Reading::take_counts(memory, plan.cores, lanes);
        let reading = || Reading::take(memory, plan.cores, lanes).since(&before);
        let sends = ports.begin_here(plan.lanes);
        let cores = if sends { plan.cores } else { &[] };
        let senders = if sends { self.start_senders(ports, plan)? } else { Vec::new() };
        let run = Run::begin_when(&mut self.memory, cores, senders, || partner.start())?;
        let total = plan.seconds();
        let sightings = RefCell::new(Vec::new());
        let see = |counts: &[StreamCounts], at: Duration| {
            let seen =
                Sighting { at_ns: at.as_nanos() as u64, sent: sent(counts), received: received(counts) };
            note(&mut sightings.borrow_mut(), seen);
        };
        let mut watch = Looking { watch, every: look_every(plan) };
        let look = |watch: &mut dyn Watch, at: f64, samples: bool| {
            let (began, counts) = (run.elapsed(), counts());
            // One that took longer was interrupted: nobody knows of which moment it is.
            if run.elapsed() - began < LONGEST_LOOK {
                see(&counts, began);
            }
            watch.tick(at, sent(&counts), received(&counts));
            if samples {
                watch.sample(at, &reading());
            }
        };
        if sends {
            run.follow(total, total * 0.2, &mut watch, look)?;
        }
        let ended_ns = if sends { run.elapsed().as_nanos() as u64 } else { 0 };
        let (seconds, all_sent) = (run.seconds(), sent(&counts()));
        let expected = run.attend(&mut watch, look, || partner.expected(all_sent))?;
        // Until every frame sent has arrived, or nothing more arrives.
        wait_until(
            plan.settle,
            || watch.interrupted(),
            counts,
            |counts| {
                see(counts, run.elapsed());
                received(counts) >= expected
            },
        )?;
        let ended_at = run.elapsed();
        run.end()?;
        let after = reading();
        watch.sample(if sends { seconds } else { total.min(ended_at.as_secs_f64()) }, &after);
        see(&after.streams, ended_at);
        Ok(PartReading {
            seconds,
            ended_ns,
            offered: self.offered(plan, &schedules),
            reading: after,
            sightings: sightings.into_inner(),
            samples_content: self.traffic.as_ref().is_some_and(frame::samples_content),
        })
    }
}

/// Notes a sighting. Of those in a row that saw the same, the first and the last tell everything.
fn note(sightings: &mut Vec<Sighting>, seen: Sighting) {
    let same = |it: &Sighting| (it.sent, it.received) == (seen.sent, seen.received);
    if let [.., before, last] = sightings.as_mut_slice()
        && same(before)
        && same(last)
    {
        *last = seen;
    } else {
        sightings.push(seen);
    }
}

impl TrialReading {
    /// What the parts of a trial of these phases showed together.
    ///
    /// # Panics
    /// Without a part.
    pub fn of(phases: &[Phase], parts: &[PartReading]) -> Self {
        let [first, others @ ..] = parts else { panic!("a trial has a part") };
        let mut reading = first.reading.clone();
        others.iter().for_each(|part| reading.add(&part.reading));
        let seconds = parts.iter().map(|part| part.seconds).fold(0.0, f64::max);
        let ended_ns = parts.iter().map(|part| part.ended_ns).max().unwrap_or(0);
        let sightings = together(parts);
        let limit = Duration::from_nanos(ended_ns).saturating_add(may_take(phases, &reading));
        let in_time =
            sightings.iter().find(|it| Duration::from_nanos(it.at_ns) > limit).map(|it| it.received);
        let late = in_time.map_or(0, |in_time| reading.received().saturating_sub(in_time));
        let queued = match is_constant(phases) {
            true => held_back::held_back(seconds, reading.shortest_and_median(), &sightings),
            false => HeldBack::default(),
        };
        Self {
            seconds,
            offered: parts.iter().map(|part| part.offered).sum(),
            held_back: late.max(queued.frames),
            is_doubtful: queued.is_doubtful,
            reading,
            samples_content: parts.iter().any(|part| part.samples_content),
        }
    }

    /// Frames handed to the links.
    pub fn sent(&self) -> u64 {
        self.reading.sent()
    }
}

/// What all parts together had sent and received at the moments at which any of them looked. Between two looks of a host its counts are taken
/// to rise evenly.
pub fn together(parts: &[PartReading]) -> Vec<Sighting> {
    if let [part] = parts {
        return part.sightings.clone();
    }
    let mut moments: Vec<u64> = parts.iter().flat_map(|part| &part.sightings).map(|it| it.at_ns).collect();
    moments.sort_unstable();
    moments.dedup();
    let at = |at_ns: &u64| {
        let seen = parts.iter().map(|part| at_moment(&part.sightings, *at_ns));
        seen.fold(Sighting { at_ns: *at_ns, sent: 0, received: 0 }, |sum, it| Sighting {
            sent: sum.sent + it.sent,
            received: sum.received + it.received,
            ..sum
        })
    };
    moments.iter().map(at).collect()
}

fn at_moment(sightings: &[Sighting], at_ns: u64) -> Sighting {
    let next = sightings.partition_point(|it| it.at_ns < at_ns);
    let none = Sighting { at_ns: 0, sent: 0, received: 0 };
    let before = next.checked_sub(1).map_or(none, |place| sightings[place]);
    let Some(after) = sightings.get(next) else { return Sighting { at_ns, ..before } };
    let share = (at_ns - before.at_ns) as f64 / (after.at_ns - before.at_ns).max(1) as f64;
    let between = |from: u64, to: u64| from + (to.saturating_sub(from) as f64 * share) as u64;
    Sighting {
        at_ns,
        sent: between(before.sent, after.sent),
        received: between(before.received, after.received),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(seconds: f64, sightings: &[(u64, u64, u64)]) -> PartReading {
        let sighting =
            |&(ms, sent, received): &(u64, u64, u64)| Sighting { at_ns: ms * 1_000_000, sent, received };
        let last = sightings.last().copied().unwrap_or_default();
        let stream = StreamCounts { sent: last.1, received: last.2, ..StreamCounts::default() };
        PartReading {
            seconds,
            ended_ns: (seconds * 1e9) as u64,
            offered: last.1,
            reading: Reading {
                streams: vec![stream],
                times: vec![super::super::LaneTimes::default()],
                ..Reading::default()
            },
            sightings: sightings.iter().map(sighting).collect(),
            samples_content: false,
        }
    }

    #[test]
    fn parts_are_seen_together_at_every_look() {
        let sender = part(0.1, &[(10, 100, 0), (50, 500, 0), (100, 1000, 0)]);
        let receiver = part(0.0, &[(20, 0, 190), (100, 0, 990), (110, 0, 1000)]);
        let both = together(&[sender, receiver]);
        let seen: Vec<_> = both.iter().map(|it| (it.at_ns / 1_000_000, it.sent, it.received)).collect();
        assert_eq!(
            seen,
            [(10, 100, 95), (20, 200, 190), (50, 500, 490), (100, 1000, 990), (110, 1000, 1000)]
        );
    }

    /// What a host sees every 2 ms for 300 ms.
    fn looks(count: impl Fn(u64) -> (u64, u64)) -> Vec<(u64, u64, u64)> {
        (1..=150).map(|look| 2 * look).map(|ms| (ms, count(ms).0, count(ms).1)).collect()
    }

    #[test]
    fn a_trial_of_two_parts_is_one_trial() {
        let load = [Phase { load: Load::PerSecond(10_000.0), seconds: 0.1 }];
        // What had arrived after so many ms, how much arrives in all, and what of it counts as held back.
        type Row = (&'static str, fn(u64) -> u64, u64, std::ops::RangeInclusive<u64>);
        let rows: [Row; 4] = [
            ("at once", |ms| (10 * ms).min(1000), 1000, 0..=0),
            ("with losses", |ms| (9 * ms).min(900), 900, 0..=0),
            ("half as fast", |ms| (5 * ms).min(1000), 1000, 450..=550),
            // More than 100 ms after the last was sent.
            ("some much later", |ms| if ms <= 250 { (9 * ms).min(900) } else { 1000 }, 1000, 100..=150),
        ];
        for (name, arrived, received, held_back) in rows {
            let sender = part(0.1, &looks(|ms| ((10 * ms).min(1000), 0)));
            let receiver = part(0.0, &looks(|ms| (0, arrived(ms))));
            let trial = TrialReading::of(&load, &[sender, receiver]);
            let whole = (trial.sent(), trial.offered, trial.reading.received(), trial.seconds);
            assert_eq!(whole, (1000, 1000, received, 0.1), "{name}");
            assert!(held_back.contains(&trial.held_back), "{name}: {}", trial.held_back);
        }
    }

    #[test]
    fn looks_that_saw_the_same_are_two() {
        let mut sightings = Vec::new();
        for (at_ns, received) in [(1, 0), (2, 0), (3, 0), (4, 0), (5, 1), (6, 1), (7, 1), (8, 2)] {
            note(&mut sightings, Sighting { at_ns, sent: 2, received });
        }
        let seen: Vec<_> = sightings.iter().map(|it| (it.at_ns, it.received)).collect();
        assert_eq!(seen, [(1, 0), (4, 0), (5, 1), (7, 1), (8, 2)]);
    }
}
