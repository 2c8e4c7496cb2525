//! Back-to-back frames and the buffer time they imply (RFC 9004, which replaces RFC 2544 section 26.4).

use super::guard::{counted_loss, sent_rate};
use super::load_search::{Found, LoadSearch, Poll};
use super::parameters::{Key, LOSS_RATIO, SEARCH, WIDTH};
use super::{
    Guarded, Measured, Method, Preset, Procedure, ProcedureRow, SearchSpec, Sends, Spec, Step, all_lost, mark,
};
use crate::results::{Mark, MarkKind, Metric};
use crate::shape::Placement;
use crate::stats::median;
use crate::trial::{FrameRequest, Load, TrialOutcome, TrialRequest, trials};

/// The first burst, in frames: well below the 256 frames of a virtual link's ring.
const FIRST_BURST: u64 = 64;
/// A search ends when the longest good and the shortest bad burst differ by this share, or by one frame.
const PRECISION: f64 = 0.01;

const METRICS: [Metric; 2] = [Metric::BackToBack, Metric::BufferTime];

const MAX_BURST: Key = Key::integer("max_burst", 2, 1_000_000_000);
const BURST_SECONDS: Key = Key::seconds("burst_seconds");
const BURST_REPEATS: Key = Key::integer("burst_repeats", 1, 1000);

pub(super) const ROW: ProcedureRow = ProcedureRow {
    name: "back-to-back",
    older_name: None,
    sends: Sends::Frames,
    factors: &[],
    keys: &[&SEARCH, &LOSS_RATIO, &WIDTH, &MAX_BURST, &BURST_SECONDS, &BURST_REPEATS],
    make: |asked| {
        let given = asked.given;
        BackToBackSpec {
            max_burst_frames: given.integer(&MAX_BURST).unwrap_or(1_000_000),
            trial_seconds: given.number(&BURST_SECONDS).unwrap_or(2.0),
            repeats: given.count(&BURST_REPEATS),
            line_rate: asked.link_rate(),
            search: given.search(Preset::Mlr, asked.link_rate()),
        }
        .into()
    },
};

/// Back-to-back frames (RFC 9004). Yields `BackToBack` and `BufferTime`.
#[derive(Debug, Clone, PartialEq)]
pub struct BackToBackSpec {
    /// The longest burst to try, in frames, at least 2.
    pub max_burst_frames: u64,
    /// The longest time a burst may take, in seconds, > 0.
    pub trial_seconds: f64,
    /// Searches whose results are averaged, at least 1; the RFC asks for 50 or more.
    pub repeats: u32,
    /// The link's rate for these frames in frames/s, the RFC's "maximum theoretical frame rate"; `None` on links
    /// without a rate, where the rate at which the bursts really left stands in for it.
    pub line_rate: Option<f64>,
    /// The search for the throughput that corrects the buffer time (section 6.4).
    pub search: SearchSpec,
}

impl Spec for BackToBackSpec {
    fn start(&self, placement: Placement) -> Box<dyn Procedure> {
        Guarded::boxed(BackToBack::new(self.clone(), placement), placement)
    }

    fn lost(&self, marks: &[Mark]) -> Vec<Measured> {
        all_lost(&METRICS, marks)
    }

    /// Most of a burst's trial is its setting up.
    fn typical_seconds(&self) -> f64 {
        self.search.typical_seconds() + trials(15.0 * f64::from(self.repeats), 0.0)
    }
}

struct BackToBack {
    spec: BackToBackSpec,
    search: LoadSearch,
    bursts: BurstSearch,
    /// The longest burst of each finished repeat.
    longest: Vec<u64>,
    /// The last good trial of each finished repeat.
    deciding: Vec<TrialOutcome>,
    last_good: Option<TrialOutcome>,
    given_up: Option<Vec<Mark>>,
}

/// A search for the longest burst without loss: doubling until one is lost, then halving the interval. A burst is lost if it is lost twice,
/// because what the machine does for a moment would else decide all the rest (RFC 9004 section 6.3, ETSI GS NFV-TST 009 clause 12.3.3:
/// loss verification).
#[derive(Debug, Clone, Copy)]
struct BurstSearch {
    first: u64,
    max: u64,
    good: u64,
    /// It was lost once, and is tried again.
    doubted: Option<u64>,
    bad: Option<u64>,
}

impl BurstSearch {
    fn new(first: u64, max: u64) -> Self {
        Self { first: first.clamp(1, max), max, good: 0, doubted: None, bad: None }
    }

    fn next(&self) -> Option<u64> {
        match self.bad {
            _ if self.doubted.is_some() => self.doubted,
            None if self.good == self.max => None,
            None if self.good == 0 => Some(self.first),
            None => Some(self.good.saturating_mul(2).min(self.max)),
            Some(bad) => {
                let closest = ((self.good as f64 * PRECISION) as u64).max(1);
                (bad - self.good > closest).then(|| self.good + (bad - self.good) / 2)
            }
        }
    }

    fn record(&mut self, burst: u64, lost: bool) {
        let was_lost_before = self.doubted.take().is_some();
        match lost {
            false => self.good = burst,
            true if was_lost_before => self.bad = Some(burst),
            true => self.doubted = Some(burst),
        }
    }
}

impl BackToBack {
    fn new(spec: BackToBackSpec, placement: Placement) -> Self {
        let search = LoadSearch::new(&spec.search, placement);
        let bursts = BurstSearch::new(FIRST_BURST, spec.max_burst_frames);
        Self {
            spec,
            search,
            bursts,
            longest: Vec::new(),
            deciding: Vec::new(),
            last_good: None,
            given_up: None,
        }
    }

    /// Keeps a finished repeat; the next one starts from its result.
    fn finish_repeat(&mut self) {
        self.longest.push(self.bursts.good);
        self.deciding.extend(self.last_good.take());
        self.bursts = BurstSearch::new(self.bursts.good, self.spec.max_burst_frames);
    }

    fn is_finished(&self) -> bool {
        self.longest.len() >= self.spec.repeats.max(1) as usize
    }

    fn result(&self, found: &Found) -> Vec<Measured> {
        let frames = self.longest.iter().sum::<u64>() as f64 / self.longest.len() as f64;
        let mut marks = Vec::new();
        if frames == 0.0 {
            let marks = vec![mark(MarkKind::NoLowerBound, "even a single frame was lost")];
            return self.spec.lost(&marks);
        }
        if self.longest.contains(&self.spec.max_burst_frames) {
            let detail =
                format!("no frame of the longest burst, {} frames, was lost", self.spec.max_burst_frames);
            marks.push(mark(MarkKind::NoUpperBound, detail));
        }
        let bursts = Measured::found(Metric::BackToBack, frames, self.deciding.clone(), marks.clone());
        vec![bursts, self.buffer_time(frames, found, marks)]
    }

    /// RFC 9004 section 6.4: the time that the burst takes at the full rate, less what was forwarded meanwhile.
    fn buffer_time(&self, frames: f64, found: &Found, mut marks: Vec<Mark>) -> Measured {
        let rates: Vec<f64> = self.deciding.iter().map(sent_rate).collect();
        let Some(rate) = self.spec.line_rate.or_else(|| median(&rates)).filter(|&rate| rate > 0.0) else {
            return Measured::lost(Metric::BufferTime, vec![mark(MarkKind::Note, "the bursts have no rate")]);
        };
        if found.throughput >= rate {
            let detail = format!(
                "the throughput of {:.0} frames/s reaches the bursts' {rate:.0}: the buffer never filled",
                found.throughput
            );
            marks.push(mark(MarkKind::Note, detail));
        }
        let corrected = frames / rate * (1.0 - found.throughput / rate).max(0.0);
        Measured::found(Metric::BufferTime, corrected, self.deciding.clone(), marks)
    }
}

/// What a buffer for this burst needs to drain of whatever was sent before. Twice that, because the throughput of a short trial holds what its
/// buffer took.
fn idle_seconds(burst: u64, found: &Found) -> f64 {
    2.0 * burst as f64 / found.throughput
}

impl Method for BackToBack {
    fn next(&mut self) -> Step {
        if let Some(marks) = &self.given_up {
            return Step::Done(self.spec.lost(marks));
        }
        let found = match self.search.poll() {
            Poll::Trial(request) => return Step::Trial(request),
            Poll::Lost(marks) => return Step::Done(self.spec.lost(&marks)),
            Poll::Found(found) => found,
        };
        match self.bursts.next() {
            Some(burst) if !self.is_finished() => {
                let trial = FrameRequest::constant(Load::Burst(burst), self.spec.trial_seconds);
                Step::Trial(trial.after_idle(idle_seconds(burst, &found)).into())
            }
            _ => Step::Done(self.result(&found)),
        }
    }

    fn record(&mut self, _request: &TrialRequest, outcome: &TrialOutcome) {
        if self.search.takes(outcome) {
            return;
        }
        let Some(burst) = self.bursts.next() else { return };
        let lost = counted_loss(outcome) > 0.0;
        self.bursts.record(burst, lost);
        if !lost {
            self.last_good = Some(outcome.clone());
        }
        if self.bursts.next().is_none() {
            self.finish_repeat();
        }
    }

    fn lower_maximum(&mut self, rate: f64) -> bool {
        self.search.lower_maximum(rate)
    }

    fn give_up(&mut self, marks: Vec<Mark>) {
        if !self.search.give_up(marks.clone()) {
            self.given_up = Some(marks);
        }
    }
}
