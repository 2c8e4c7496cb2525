//! A run: generators on their cores begin a schedule together, are followed to its end, and are ended.

use super::live::{LiveSender, sleep_and_come_first};
use super::memory::Memory;
use super::to_seconds;
use crate::{Clock, TrafficError};
use std::time::{Duration, Instant};

/// From the moment when all generators turn to the start of the schedule.
const START_DELAY: Duration = Duration::from_millis(1);
/// Longest wait for the generators' first turn: setting up live frames takes some 10 ms, and clearing ten million
/// connections a fraction of this.
const SETUP_LIMIT: Duration = Duration::from_secs(20);
/// Seconds beyond a run's own patience after which its generators are ended without having finished.
const PATIENCE_SECONDS: f64 = 2.0;
/// The first instants go into filling the page pool.
const WARM_UP: Duration = Duration::from_millis(20);
/// Between two looks of who waits for another host.
const SHORTEST_PAUSE: Duration = Duration::from_micros(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// A start that never comes: the generators turn and wait.
pub(crate) const NOT_YET: u64 = u64::MAX;

/// Global state of an object that has a generator on each core.
pub(crate) trait Generators: Sized {
    /// Says when the schedule begins, in ns of the clock.
    fn set_start(&mut self, start_ns: u64);

    /// Turns that a core's generator has taken: none before it is ready.
    fn turns(memory: Memory<Self>, core: usize) -> u64;

    /// Schedule time when a core had nothing more to send; 0 before.
    fn finished(memory: Memory<Self>, core: usize) -> u64;

    /// Whether a core has done all that it was asked for.
    fn is_done(memory: Memory<Self>, core: usize) -> bool {
        Self::finished(memory, core) != 0
    }
}

/// Whoever follows a run that is read as `R`.
pub trait Watch<R = crate::Reading> {
    /// Whether the user asked to stop.
    fn interrupted(&self) -> bool {
        false
    }

    /// Longest time between two ticks. Looking costs the generator a little, so look no oftener than needed.
    fn tick_every(&self) -> Duration {
        Duration::from_millis(100)
    }

    /// Time between two samples.
    fn sample_every(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// Called now and then, in a run of frames, with the seconds since the start and the frames sent and received so far.
    fn tick(&mut self, _at_seconds: f64, _sent: u64, _received: u64) {}

    /// Called at each sample and at the end, with everything since the start.
    fn sample(&mut self, _at_seconds: f64, _reading: &R) {}
}

/// Nobody looks.
impl<R> Watch<R> for () {}

/// Generators that follow a schedule. They are ended when dropped.
pub(crate) struct Run<S> {
    memory: Memory<S>,
    cores: Vec<usize>,
    senders: Vec<LiveSender>,
    start: Instant,
}

impl<S: Generators> Run<S> {
    /// Waits until all of `senders`, one on each of `cores`, take turns, so that all start on time, and begins the schedule.
    ///
    /// # Errors
    /// A generator takes no turn.
    pub(crate) fn begin(
        memory: &mut Memory<S>,
        cores: &[usize],
        senders: Vec<LiveSender>,
    ) -> Result<Self, TrafficError> {
        Self::begin_when(memory, cores, senders, || Ok(None))
    }

    /// The same at a moment of the clock, in ns, that `when` says once all generators take turns; `None` is soon. Without senders and cores,
    /// nothing is sent: the schedule is another host's.
    ///
    /// # Errors
    /// A generator takes no turn, nobody says when, or the moment is past.
    pub(crate) fn begin_when(
        memory: &mut Memory<S>,
        cores: &[usize],
        senders: Vec<LiveSender>,
        when: impl FnOnce() -> Result<Option<u64>, TrafficError>,
    ) -> Result<Self, TrafficError> {
        let mut run = Self { memory: *memory, cores: cores.to_vec(), senders, start: Instant::now() };
        run.wait_for_turns()?;
        let start_ns = when()?;
        // Both clocks at one moment. However long the machine takes from here, what is soon is not past.
        let (here, now_ns) = (Instant::now(), Clock::now_ns());
        let start_ns = start_ns.unwrap_or(now_ns + START_DELAY.as_nanos() as u64);
        let Some(left) = start_ns.checked_sub(now_ns) else {
            return Err(TrafficError::Impossible(format!(
                "the moment at which a trial was to start was past by {:.3} ms when it was said",
                (now_ns - start_ns) as f64 / 1e6
            )));
        };
        run.start = here + Duration::from_nanos(left);
        memory.change(|state| state.set_start(start_ns));
        Ok(run)
    }

    fn wait_for_turns(&self) -> Result<(), TrafficError> {
        while self.start.elapsed() < SETUP_LIMIT {
            // One that has ended says why when the run ends.
            if self.is_broken() || self.cores.iter().all(|&core| S::turns(self.memory, core) > 0) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(TrafficError::Impossible(format!(
            "the generators of cores {:?} took no turn within {} s",
            self.cores,
            SETUP_LIMIT.as_secs()
        )))
    }

    /// Whether a generator ended before it had to.
    pub(crate) fn is_broken(&self) -> bool {
        self.senders.iter().any(LiveSender::is_finished)
    }

    /// Waits for the schedule of `seconds` to end, `patience` seconds longer at the most and a little. At each tick, and
    /// where the last argument says so for a sample, `look` shows the watcher what there is.
    ///
    /// # Errors
    /// The watcher interrupts.
    pub(crate) fn follow<R>(
        &self,
        seconds: f64,
        patience: f64,
        watch: &mut dyn Watch<R>,
        mut look: impl FnMut(&mut dyn Watch<R>, f64, bool),
    ) -> Result<(), TrafficError> {
        let elapsed = || self.elapsed().as_secs_f64();
        let every = watch.sample_every().as_secs_f64().max(0.001);
        let mut next_sample = every;
        loop {
            let now = elapsed();
            let wanted = if now < seconds { seconds.min(next_sample) - now } else { 0.002 };
            let pause = wanted.clamp(0.0005, watch.tick_every().as_secs_f64().max(0.0005));
            sleep_and_come_first(Duration::from_secs_f64(pause));
            if watch.interrupted() {
                return Err(TrafficError::Interrupted);
            }
            let now = elapsed();
            let samples = now >= next_sample && now < seconds;
            look(watch, now, samples);
            if samples {
                next_sample = ((now / every).floor() + 1.0) * every;
            }
            if self.cores.iter().all(|&core| S::is_done(self.memory, core))
                || now > seconds + patience + PATIENCE_SECONDS
                || self.is_broken()
            {
                return Ok(());
            }
        }
    }

    /// Goes on looking, as [`Run::follow`] does, until `known` says something.
    ///
    /// # Errors
    /// The watcher interrupts.
    pub(crate) fn attend<R, K>(
        &self,
        watch: &mut dyn Watch<R>,
        mut look: impl FnMut(&mut dyn Watch<R>, f64, bool),
        mut known: impl FnMut() -> Option<K>,
    ) -> Result<K, TrafficError> {
        let every = watch.sample_every().as_secs_f64().max(0.001);
        let mut next_sample = ((self.elapsed().as_secs_f64() / every).floor() + 1.0) * every;
        loop {
            if let Some(known) = known() {
                return Ok(known);
            }
            if watch.interrupted() {
                return Err(TrafficError::Interrupted);
            }
            sleep_and_come_first(watch.tick_every().clamp(SHORTEST_PAUSE, LONGEST_PAUSE));
            let now = self.elapsed().as_secs_f64();
            let samples = now >= next_sample;
            look(watch, now, samples);
            if samples {
                next_sample += every;
            }
        }
    }

    /// Seconds after the start when the last generator had nothing more to send.
    pub(crate) fn seconds(&self) -> f64 {
        self.cores.iter().map(|&core| to_seconds(S::finished(self.memory, core))).fold(0.0, f64::max)
    }

    /// Time since the start of the schedule.
    pub(crate) fn elapsed(&self) -> Duration {
        Instant::now().saturating_duration_since(self.start)
    }

    /// Ends the generators.
    ///
    /// # Errors
    /// One of them ended by itself.
    pub(crate) fn end(self) -> Result<(), TrafficError> {
        LiveSender::stop_all(self.senders)
    }
}

/// Reads until what was read is `done`, at most `longest` after the last time that it changed. Returns the last reading.
///
/// # Errors
/// The user asks to stop.
pub(crate) fn wait_until<P: PartialEq>(
    longest: Duration,
    interrupted: impl Fn() -> bool,
    mut read: impl FnMut() -> P,
    done: impl Fn(&P) -> bool,
) -> Result<P, TrafficError> {
    let mut last = (Instant::now(), read());
    loop {
        if done(&last.1) || last.0.elapsed() >= longest {
            return Ok(last.1);
        }
        if interrupted() {
            return Err(TrafficError::Interrupted);
        }
        sleep_and_come_first(Duration::from_millis(1));
        let seen = read();
        // Whatever changed while this thread was kept from its core was progress, too.
        if seen != last.1 {
            last = (Instant::now(), seen);
        }
    }
}

/// Frames or connections a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// By the clock on the wall.
    pub a_second: f64,
    /// By the time that cores worked for this process.
    pub a_busy_second: f64,
}

/// Counts for as long what `count` reads, while generators run at full speed.
pub(crate) fn pace(duration: Duration, count: impl Fn() -> u64) -> Pace {
    std::thread::sleep(WARM_UP);
    let (start, busy, before) = (Clock::now_ns(), Clock::busy_ns(), count());
    std::thread::sleep(duration);
    let (end, busy_end, after) = (Clock::now_ns(), Clock::busy_ns(), count());
    let rate = |ns: u64| (after - before) as f64 * 1e9 / ns.max(1) as f64;
    Pace { a_second: rate(end - start), a_busy_second: rate(busy_end - busy) }
}
