//! Transactions of applications (NSTL): virtual clients fetch files for some time, each as fast as it is served; how many
//! transactions a minute they complete, how many fail, and how long they take. One trial a round.

use super::once::{Once, OneTrial};
use super::parameters::Key;
use super::{Guarded, Measured, Procedure, ProcedureRow, Sends, Spec, all_lost, mark, parts};
use crate::application::{ApplicationOutcome, ApplicationRequest, Arrivals};
use crate::mix::{Mix, PartOutcome};
use crate::results::{LatencySummary, Mark, MarkKind, Metric};
use crate::shape::{Placement, Workload};
use crate::suite::Factor;
use crate::trial::{TrialOutcome, TrialRequest, trials};
use std::sync::Arc;

pub(super) const TRANSACTION_LIMIT: Key = Key::number("transaction_limit", 0.05, 600.0);
/// What a user waits.
pub(super) const DEFAULT_LIMIT_SECONDS: f64 = 10.0;
/// Seconds of a minute.
const MINUTE: f64 = 60.0;

pub(super) const ROW: ProcedureRow = ProcedureRow {
    name: "transactions",
    older_name: None,
    sends: Sends::Application,
    factors: &[Factor::Protocol, Factor::Object, Factor::Transactions, Factor::Offloads],
    keys: &[&TRANSACTION_LIMIT],
    make: |asked| {
        TransactionsSpec {
            trial_seconds: asked.given.trial_seconds(),
            limit_seconds: asked.given.number(&TRANSACTION_LIMIT).unwrap_or(DEFAULT_LIMIT_SECONDS),
            has_http: match &asked.setup.workload {
                Workload::Application(shape) => shape.protocol.has_http(),
                _ => false,
            },
            mix: match &asked.setup.workload {
                Workload::Application(shape) => shape.protocol.stated().cloned(),
                _ => None,
            },
        }
        .into()
    },
};

/// Transactions of applications. Yields `TransactionsPerMinute`, `FailedTransactions`, `TransactionTime`, `TransactionTimeP99`,
/// `Goodput`, of the files' bytes, and, of HTTP, `TimeToFirstByte` and `TimeToLastByte`.
#[derive(Debug, Clone, PartialEq)]
pub struct TransactionsSpec {
    /// Seconds of each trial in which transactions begin.
    pub trial_seconds: f64,
    /// Seconds after which a transaction has failed, > 0.
    pub limit_seconds: f64,
    /// Whether some transactions are HTTP's; of FTP's answers nobody takes the times.
    pub has_http: bool,
    /// The mix that they are, if it is one that the suite states: then every part has values of its own (extra factor `part`), and a share.
    pub mix: Option<Arc<Mix>>,
}

const METRICS: [Metric; 5] = [
    Metric::TransactionsPerMinute,
    Metric::FailedTransactions,
    Metric::TransactionTime,
    Metric::TransactionTimeP99,
    Metric::Goodput,
];
const OF_HTTP: [Metric; 2] = [Metric::TimeToFirstByte, Metric::TimeToLastByte];

/// What counts of a trial, as a whole or in a part of its mix.
struct Counted {
    in_time: u64,
    bytes_in_time: u64,
    failed_ratio: f64,
    times: Option<LatencySummary>,
    /// To the first and to the last byte.
    answers: [Option<LatencySummary>; 2],
}

impl Counted {
    fn of_whole(application: &ApplicationOutcome, failed_ratio: f64) -> Self {
        Self {
            in_time: application.in_time,
            bytes_in_time: application.bytes_in_time,
            failed_ratio,
            times: application.times_ns,
            answers: [application.first_byte_ns, application.last_byte_ns],
        }
    }

    fn of_part(part: &PartOutcome) -> Self {
        Self {
            in_time: part.in_time,
            bytes_in_time: part.bytes_in_time,
            failed_ratio: part.loss_ratio(),
            times: part.times_ns,
            answers: [part.first_byte_ns, part.last_byte_ns],
        }
    }

    fn values(&self, outcome: &TrialOutcome, has_http: bool) -> Vec<Measured> {
        let found = |metric, value| Measured::found(metric, value, vec![outcome.clone()], Vec::new());
        let per_second = |count: u64| count as f64 / outcome.seconds;
        let timed = |metric, ns: Option<f64>| match ns {
            Some(ns) => found(metric, ns),
            None => Measured::lost(metric, vec![mark(MarkKind::Note, "no transaction completed")]),
        };
        let mut all = vec![
            found(Metric::TransactionsPerMinute, per_second(self.in_time) * MINUTE),
            found(Metric::FailedTransactions, self.failed_ratio),
            timed(Metric::TransactionTime, self.times.map(|times| times.p50)),
            timed(Metric::TransactionTimeP99, self.times.map(|times| times.p99)),
            found(Metric::Goodput, per_second(self.bytes_in_time) * 8.0),
        ];
        if has_http {
            let answered = |(metric, times): (Metric, Option<LatencySummary>)| {
                timed(metric, times.map(|times| times.p50))
            };
            all.extend(OF_HTTP.into_iter().zip(self.answers).map(answered));
        }
        all
    }
}

impl TransactionsSpec {
    /// The values that stand, invalid, where nothing was measured.
    fn lost_values(has_http: bool, marks: &[Mark]) -> Vec<Measured> {
        let mut all = all_lost(&METRICS, marks);
        all.extend(if has_http { all_lost(&OF_HTTP, marks) } else { Vec::new() });
        all
    }

    fn part_values(mix: &Mix, outcome: &TrialOutcome) -> Vec<Measured> {
        let stated = mix.parts.iter().enumerate();
        let values = stated.filter_map(|(place, part)| {
            let carried = parts::part_of(outcome, &part.name)?;
            let mut values = Counted::of_part(carried).values(outcome, part.protocol.is_http());
            values.push(parts::share(outcome, carried));
            Some(parts::at(values, &parts::of_place(place, &part.name)))
        });
        values.flatten().collect()
    }
}

impl Spec for TransactionsSpec {
    fn start(&self, placement: Placement) -> Box<dyn Procedure> {
        Guarded::boxed(Once::new(self.clone()), placement)
    }

    fn lost(&self, marks: &[Mark]) -> Vec<Measured> {
        let whole = Self::lost_values(self.has_http, marks);
        let Some(mix) = &self.mix else { return whole };
        let of_parts = mix.parts.iter().enumerate().flat_map(|(place, part)| {
            let mut values = Self::lost_values(part.protocol.is_http(), marks);
            values.extend(all_lost(&[Metric::TrafficShare], marks));
            parts::at(values, &parts::of_place(place, &part.name))
        });
        parts::at(whole, &parts::whole()).into_iter().chain(of_parts).collect()
    }

    fn typical_seconds(&self) -> f64 {
        trials(1.0, self.trial_seconds)
    }
}

impl OneTrial for TransactionsSpec {
    fn request(&self) -> TrialRequest {
        ApplicationRequest {
            seconds: self.trial_seconds,
            limit_seconds: self.limit_seconds,
            arrivals: Arrivals::ClosedLoop,
        }
        .into()
    }

    fn values(&self, outcome: &TrialOutcome) -> Vec<Measured> {
        let Some(application) = outcome.application() else { return self.lost(&[]) };
        let whole = Counted::of_whole(application, outcome.loss_ratio()).values(outcome, self.has_http);
        let Some(mix) = &self.mix else { return whole };
        let of_parts = Self::part_values(mix, outcome);
        parts::judged(parts::at(whole, &parts::whole()).into_iter().chain(of_parts).collect())
    }
}
