//! The highest rate at which applications' connections are opened, used and closed (RFC 9411 sections 7.2, 7.3, 7.6 and 7.7), and the
//! times to the first and to the last byte of answers at a share of it (sections 7.4 and 7.8). Every trial but the first is an open
//! loop: connections begin at their times, in the phases of section 4.3.4, and values are of the sustained load alone.

use super::axis::Axis;
use super::load_search::{Found, LoadSearch, Poll};
use super::parameters::{Key, LOSS_RATIO, SEARCH, WIDTH};
use super::spec::percent;
use super::steady::{RAMP_DOWN_SECONDS, RAMP_UP_SECONDS};
use super::transactions::{DEFAULT_LIMIT_SECONDS, TRANSACTION_LIMIT};
use super::{
    Guarded, Measured, Method, Preset, Procedure, ProcedureRow, SearchSpec, Sends, Spec, Step, mark,
};
use crate::open_loop::Sustained;
use crate::results::{Mark, MarkKind, Metric};
use crate::shape::{Placement, Workload};
use crate::stats::median;
use crate::suite::Factor;
use crate::trial::{TrialOutcome, TrialRequest, trials};

/// Failed transactions that RFC 9411 still takes for none: 1 of 100,000 (criterion a of section 7.2.3.3).
const MOST_FAILED: f64 = 1e-5;
/// The traffic of a stretch of the sustained load should be no further off its mean (criterion c).
const MOST_RATE_DEVIATION: f64 = 0.05;
/// Connections open at once should be no further off their mean (criterion d). What it is for, that connections are closed as fast as
/// they are opened, the search itself demands of every trial.
const MOST_OPEN_DEVIATION: f64 = 0.10;
/// Fewer connections open at once are too few for a share of them to say anything.
const FEW_OPEN: f64 = 20.0;
/// Of the rate found: RFC 9411 sections 7.4.3.2 and 7.8.3.2.
const DEFAULT_LATENCY_SHARE: f64 = 0.5;

const LATENCY_SHARE: Key = Key::number("latency_share", 0.01, 1.0);

pub(super) const ROW: ProcedureRow = ProcedureRow {
    name: "application-rate",
    older_name: None,
    sends: Sends::Application,
    factors: &[Factor::Protocol, Factor::Object, Factor::Transactions, Factor::Offloads],
    keys: &[
        &SEARCH,
        &LOSS_RATIO,
        &WIDTH,
        &TRANSACTION_LIMIT,
        &RAMP_UP_SECONDS,
        &RAMP_DOWN_SECONDS,
        &LATENCY_SHARE,
    ],
    make: |asked| {
        let given = asked.given;
        let mut search = given.search(Preset::Mlr, None);
        search.loss_ratio = search.loss_ratio.or(Some(MOST_FAILED));
        ApplicationRateSpec {
            search,
            ramp_up_seconds: given.number(&RAMP_UP_SECONDS).unwrap_or(0.0),
            ramp_down_seconds: given.number(&RAMP_DOWN_SECONDS).unwrap_or(0.0),
            limit_seconds: given.number(&TRANSACTION_LIMIT).unwrap_or(DEFAULT_LIMIT_SECONDS),
            latency_share: given.number(&LATENCY_SHARE).unwrap_or(DEFAULT_LATENCY_SHARE),
            transactions: match &asked.setup.workload {
                Workload::Application(shape) => shape.transactions,
                _ => 1,
            },
        }
        .into()
    },
};

/// The highest rate of applications' connections that meets the goal. Yields `ConnectionRate`, `TransactionRate` and `Goodput`, and, with
/// the extra factor `load`, `TimeToFirstByte` and `TimeToLastByte` at a share of that rate.
#[derive(Debug, Clone, PartialEq)]
pub struct ApplicationRateSpec {
    /// The search; its loss ratio is a share of failed transactions, its seconds are those of the sustained load, its `max_load` is not
    /// used.
    pub search: SearchSpec,
    /// Seconds in which the rate rises, 0 or more.
    pub ramp_up_seconds: f64,
    /// Seconds in which it falls, 0 or more.
    pub ramp_down_seconds: f64,
    /// Seconds after which a transaction has failed, > 0.
    pub limit_seconds: f64,
    /// The share of the rate found at which times are measured, above 0 to 1.
    pub latency_share: f64,
    /// Transactions of a connection, at least 1.
    pub transactions: u32,
}

const RATES: [Metric; 3] = [Metric::ConnectionRate, Metric::TransactionRate, Metric::Goodput];
const TIMES: [Metric; 2] = [Metric::TimeToFirstByte, Metric::TimeToLastByte];

impl ApplicationRateSpec {
    fn times_lost(&self, marks: &[Mark]) -> Vec<Measured> {
        let lost = |metric| Measured::lost(metric, marks.to_vec()).at_load(percent(self.latency_share));
        TIMES.map(lost).into()
    }
}

impl Spec for ApplicationRateSpec {
    fn start(&self, placement: Placement) -> Box<dyn Procedure> {
        let axis = Axis::of_applications(self);
        let search = LoadSearch::along(axis.clone(), &self.search, placement);
        Guarded::boxed(ApplicationRate { spec: self.clone(), axis, search, times: None }, placement)
    }

    fn lost(&self, marks: &[Mark]) -> Vec<Measured> {
        let mut all: Vec<Measured> = RATES.map(|metric| Measured::lost(metric, marks.to_vec())).into();
        all.extend(self.times_lost(marks));
        all
    }

    fn typical_seconds(&self) -> f64 {
        let longer = SearchSpec {
            trial_seconds: self.search.trial_seconds + self.ramp_up_seconds + self.ramp_down_seconds,
            ..self.search.clone()
        };
        longer.typical_seconds() + trials(1.0, longer.trial_seconds)
    }
}

struct ApplicationRate {
    spec: ApplicationRateSpec,
    axis: Axis,
    search: LoadSearch,
    /// The values of the trial at a share of the rate found.
    times: Option<Vec<Measured>>,
}

impl Method for ApplicationRate {
    fn next(&mut self) -> Step {
        let found = match self.search.poll() {
            Poll::Trial(request) => return Step::Trial(request),
            Poll::Lost(marks) => return Step::Done(self.spec.lost(&marks)),
            Poll::Found(found) => found,
        };
        let Some(times) = &self.times else {
            let rate = found.throughput * self.spec.latency_share;
            return Step::Trial(self.axis.request(rate, self.spec.search.trial_seconds));
        };
        Step::Done(rates(&found).into_iter().chain(times.clone()).collect())
    }

    fn record(&mut self, _request: &TrialRequest, outcome: &TrialOutcome) {
        if !self.search.takes(outcome) {
            self.times = Some(self.times_of(outcome));
        }
    }

    fn lower_maximum(&mut self, rate: f64) -> bool {
        self.search.lower_maximum(rate / f64::from(self.spec.transactions))
    }

    fn give_up(&mut self, marks: Vec<Mark>) {
        if !self.search.give_up(marks.clone()) {
            self.times = Some(self.spec.times_lost(&marks));
        }
    }
}

impl ApplicationRate {
    fn times_of(&self, outcome: &TrialOutcome) -> Vec<Measured> {
        let sustained = outcome.application().and_then(|application| application.sustained.as_deref());
        let Some(Sustained { first_byte_ns: Some(first), last_byte_ns: Some(last), .. }) = sustained else {
            return self.spec.times_lost(&[mark(MarkKind::Note, "no transaction completed")]);
        };
        let marks = criteria(outcome);
        let found = |(metric, value)| {
            let measured = Measured::found(metric, value, vec![outcome.clone()], marks.clone());
            measured.at_load(percent(self.spec.latency_share))
        };
        TIMES.into_iter().zip([first.p50, last.p50]).map(found).collect()
    }
}

fn rates(found: &Found) -> Vec<Measured> {
    let sustained = |outcome: &TrialOutcome| outcome.application()?.sustained.as_deref().cloned();
    let counted = |count: fn(&Sustained) -> u64| {
        let held = |s: Sustained| count(&s) as f64 * s.held_rate() / s.connections.max(1) as f64;
        median(&found.deciding.iter().filter_map(sustained).map(held).collect::<Vec<f64>>())
    };
    let mut marks = found.marks.clone();
    marks.extend(found.deciding.iter().flat_map(criteria).take(1));
    let values =
        [Some(found.throughput), counted(|s| s.transactions), counted(|s| s.bytes).map(|bytes| bytes * 8.0)];
    let measured = |(metric, value): (Metric, Option<f64>)| match value {
        Some(value) => Measured::found(metric, value, found.deciding.clone(), marks.clone()).by(found.search),
        None => Measured::lost(metric, vec![mark(MarkKind::Note, "no trial was an open loop")]),
    };
    RATES.into_iter().zip(values).map(measured).collect()
}

/// What of RFC 9411's criteria c and d a trial did not meet. A machine that others use stirs both; neither is held against the firewall.
fn criteria(outcome: &TrialOutcome) -> Vec<Mark> {
    let Some(sustained) = outcome.application().and_then(|application| application.sustained.as_deref())
    else {
        return Vec::new();
    };
    let mut beyond = Vec::new();
    if sustained.rate_deviation > MOST_RATE_DEVIATION {
        beyond.push(format!(
            "traffic was up to {:.0} % off its mean (at most 5 %)",
            sustained.rate_deviation * 100.0
        ));
    }
    if sustained.open_deviation > MOST_OPEN_DEVIATION && sustained.open >= FEW_OPEN {
        let percent = sustained.open_deviation * 100.0;
        beyond.push(format!("open connections were up to {percent:.0} % off their mean (at most 10 %)"));
    }
    if beyond.is_empty() {
        return Vec::new();
    }
    vec![mark(MarkKind::Note, format!("RFC 9411 section 7.2.3.3: {}", beyond.join("; ")))]
}
