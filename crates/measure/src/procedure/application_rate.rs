//! The highest rate at which applications' connections are opened, used and closed (RFC 9411 sections 7.1, 7.2, 7.3, 7.6 and 7.7), and the
//! times to the first and to the last byte of answers at a share of it (sections 7.4 and 7.8). Every trial but the first is an open
//! loop: connections begin at their times, in the phases of section 4.3.4, and values are of the sustained load alone.

use super::axis::Axis;
use super::load_search::{Found, LoadSearch, Poll};
use super::parameters::{Key, LOSS_RATIO, SEARCH, WIDTH};
use super::spec::percent;
use super::steady::{RAMP_DOWN_SECONDS, RAMP_UP_SECONDS};
use super::transactions::{DEFAULT_LIMIT_SECONDS, TRANSACTION_LIMIT};
use super::{
    Guarded, Measured, Method, Preset, Procedure, ProcedureRow, SearchSpec, Sends, Spec, Step, all_lost,
    mark, parts,
};
use crate::mix::Mix;
use crate::open_loop::Sustained;
use crate::results::{LatencySummary, Mark, MarkKind, Metric};
use crate::shape::{Placement, Workload};
use crate::stats::median;
use crate::suite::Factor;
use crate::trial::{TrialOutcome, TrialRequest, trials};
use std::sync::Arc;

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
                Workload::Application(shape) => shape.transactions_a_connection(),
                _ => 1.0,
            },
            mix: match &asked.setup.workload {
                Workload::Application(shape) => shape.protocol.stated().cloned(),
                _ => None,
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
    /// Transactions of a connection on the average, at least 1.
    pub transactions: f64,
    /// The mix that they are, if it is one that the suite states: then every part has values of its own (extra factor `part`), its share, and
    /// at the share of the rate the median time of its transactions too.
    pub mix: Option<Arc<Mix>>,
}

const RATES: [Metric; 3] = [Metric::ConnectionRate, Metric::TransactionRate, Metric::Goodput];
const TIMES: [Metric; 2] = [Metric::TimeToFirstByte, Metric::TimeToLastByte];
/// Of a part at the load found.
const OF_PART: [Metric; 3] = [Metric::TransactionRate, Metric::Goodput, Metric::TrafficShare];

impl ApplicationRateSpec {
    /// At the level of the factor `load` at which times are taken.
    fn at_half(&self, values: Vec<Measured>) -> Vec<Measured> {
        values.into_iter().map(|value| value.at_load(percent(self.latency_share))).collect()
    }

    fn times_lost(&self, marks: &[Mark]) -> Vec<Measured> {
        let whole = all_lost(&TIMES, marks);
        let Some(mix) = &self.mix else { return self.at_half(whole) };
        let whole = if mix.parts.iter().any(|part| part.protocol.is_http()) { whole } else { Vec::new() };
        let mut all = parts::at(whole, &parts::whole());
        for (place, part) in mix.parts.iter().enumerate() {
            let mut values = all_lost(&[Metric::TransactionTime], marks);
            values.extend(if part.protocol.is_http() { all_lost(&TIMES, marks) } else { Vec::new() });
            all.extend(parts::at(values, &parts::of_place(place, &part.name)));
        }
        self.at_half(all)
    }

    fn rates_lost(&self, marks: &[Mark]) -> Vec<Measured> {
        let whole = all_lost(&RATES, marks);
        let Some(mix) = &self.mix else { return whole };
        let of_parts = mix.parts.iter().enumerate().flat_map(|(place, part)| {
            parts::at(all_lost(&OF_PART, marks), &parts::of_place(place, &part.name))
        });
        parts::at(whole, &parts::whole()).into_iter().chain(of_parts).collect()
    }

    /// The values at the load found.
    fn rates(&self, found: &Found) -> Vec<Measured> {
        let whole = rates(found);
        let Some(mix) = &self.mix else { return whole };
        let mut all = parts::at(whole, &parts::whole());
        for (place, part) in mix.parts.iter().enumerate() {
            let values = rates_of_part(&part.name, found);
            all.extend(parts::at(values, &parts::of_place(place, &part.name)));
        }
        parts::judged(all)
    }

    /// The times of a trial, of the whole and of each part.
    fn times_of(&self, outcome: &TrialOutcome) -> Vec<Measured> {
        let application = outcome.application();
        let sustained = application.and_then(|application| application.sustained.as_deref());
        let whole = times(outcome, sustained, &criteria(outcome));
        let Some(mix) = &self.mix else { return self.at_half(whole) };
        let has_http = mix.parts.iter().any(|part| part.protocol.is_http());
        let mut all = if has_http { parts::at(whole, &parts::whole()) } else { Vec::new() };
        for (place, part) in mix.parts.iter().enumerate() {
            let carried = parts::part_of(outcome, &part.name);
            let took = carried.and_then(|part| part.times_ns);
            let mut values = vec![timed(Metric::TransactionTime, took, outcome, &[])];
            if part.protocol.is_http() {
                values.extend(times(outcome, carried.and_then(|part| part.sustained.as_deref()), &[]));
            }
            all.extend(parts::at(values, &parts::of_place(place, &part.name)));
        }
        self.at_half(parts::judged(all))
    }
}

impl Spec for ApplicationRateSpec {
    fn start(&self, placement: Placement) -> Box<dyn Procedure> {
        let axis = Axis::of_applications(self);
        let search = LoadSearch::along(axis.clone(), &self.search, placement);
        Guarded::boxed(ApplicationRate { spec: self.clone(), axis, search, times: None }, placement)
    }

    fn lost(&self, marks: &[Mark]) -> Vec<Measured> {
        self.rates_lost(marks).into_iter().chain(self.times_lost(marks)).collect()
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
        Step::Done(self.spec.rates(&found).into_iter().chain(times.clone()).collect())
    }

    fn record(&mut self, _request: &TrialRequest, outcome: &TrialOutcome) {
        if !self.search.takes(outcome) {
            self.times = Some(self.spec.times_of(outcome));
        }
    }

    fn lower_maximum(&mut self, rate: f64) -> bool {
        self.search.lower_maximum(rate / self.spec.transactions)
    }

    fn give_up(&mut self, marks: Vec<Mark>) {
        if !self.search.give_up(marks.clone()) {
            self.times = Some(self.spec.times_lost(&marks));
        }
    }
}

/// The times to the first and to the last byte of a sustained load.
fn times(outcome: &TrialOutcome, sustained: Option<&Sustained>, marks: &[Mark]) -> Vec<Measured> {
    let taken = sustained.map_or([None, None], |sustained| [sustained.first_byte_ns, sustained.last_byte_ns]);
    // One without the other says nothing of the answers.
    let taken = if taken.iter().all(Option::is_some) { taken } else { [None, None] };
    let timed = |(metric, times)| timed(metric, times, outcome, marks);
    TIMES.into_iter().zip(taken).map(timed).collect()
}

fn timed(metric: Metric, times: Option<LatencySummary>, outcome: &TrialOutcome, marks: &[Mark]) -> Measured {
    match times {
        Some(times) => Measured::found(metric, times.p50, vec![outcome.clone()], marks.to_vec()),
        None => Measured::lost(metric, vec![mark(MarkKind::Note, "no transaction completed")]),
    }
}

fn sustained_of(outcome: &TrialOutcome) -> Option<&Sustained> {
    outcome.application()?.sustained.as_deref()
}

/// What a count of the sustained load is a second at the rate that is held.
fn held_of(sustained: &Sustained, count: fn(&Sustained) -> u64) -> f64 {
    count(sustained) as f64 * sustained.held_rate() / sustained.connections.max(1) as f64
}

fn rates(found: &Found) -> Vec<Measured> {
    let counted = |count: fn(&Sustained) -> u64| {
        let held = found.deciding.iter().filter_map(sustained_of).map(|sustained| held_of(sustained, count));
        median(&held.collect::<Vec<f64>>())
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

/// The transactions and bits a second of a part at the load found, and its share.
fn rates_of_part(name: &str, found: &Found) -> Vec<Measured> {
    let middle = |of: &dyn Fn(&TrialOutcome) -> Option<f64>| {
        median(&found.deciding.iter().filter_map(of).collect::<Vec<f64>>())
    };
    let held = |outcome: &TrialOutcome, count: fn(&Sustained) -> u64| {
        let sustained = parts::part_of(outcome, name)?.sustained.as_deref()?;
        Some(held_of(sustained, count))
    };
    let share = |outcome: &TrialOutcome| {
        let mix = parts::mix_of(outcome)?;
        mix.came_out(mix.part(name)?, mix.shares)
    };
    let values = [
        middle(&|outcome| held(outcome, |s| s.transactions)),
        middle(&|outcome| Some(held(outcome, |s| s.bytes)? * 8.0)),
        middle(&share),
    ];
    let measured = |(metric, value): (Metric, Option<f64>)| match value {
        Some(value) => Measured::found(metric, value, found.deciding.clone(), Vec::new()),
        None => Measured::lost(metric, vec![mark(MarkKind::Note, "no transaction completed")]),
    };
    OF_PART.into_iter().zip(values).map(measured).collect()
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
