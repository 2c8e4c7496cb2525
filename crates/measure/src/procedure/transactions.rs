//! Transactions of applications (NSTL): virtual clients fetch files for some time, each as fast as it is served; how many
//! transactions a minute they complete, how many fail, and how long they take. One trial a round.

use super::once::{Once, OneTrial};
use super::parameters::Key;
use super::{Guarded, Measured, Procedure, ProcedureRow, Sends, Spec, all_lost, mark};
use crate::application::{ApplicationRequest, Arrivals};
use crate::results::{LatencySummary, Mark, MarkKind, Metric};
use crate::shape::{Placement, Workload};
use crate::suite::Factor;
use crate::trial::{TrialOutcome, TrialRequest, trials};

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
}

const METRICS: [Metric; 5] = [
    Metric::TransactionsPerMinute,
    Metric::FailedTransactions,
    Metric::TransactionTime,
    Metric::TransactionTimeP99,
    Metric::Goodput,
];
const OF_HTTP: [Metric; 2] = [Metric::TimeToFirstByte, Metric::TimeToLastByte];

impl Spec for TransactionsSpec {
    fn start(&self, placement: Placement) -> Box<dyn Procedure> {
        Guarded::boxed(Once::new(self.clone()), placement)
    }

    fn lost(&self, marks: &[Mark]) -> Vec<Measured> {
        let mut all = all_lost(&METRICS, marks);
        all.extend(if self.has_http { all_lost(&OF_HTTP, marks) } else { Vec::new() });
        all
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
        let found = |metric, value| Measured::found(metric, value, vec![outcome.clone()], Vec::new());
        let per_second = |count: u64| count as f64 / outcome.seconds;
        let timed = |metric, ns: Option<f64>| match ns {
            Some(ns) => found(metric, ns),
            None => Measured::lost(metric, vec![mark(MarkKind::Note, "no transaction completed")]),
        };
        let times = application.times_ns;
        let mut all = vec![
            found(Metric::TransactionsPerMinute, per_second(application.in_time) * MINUTE),
            found(Metric::FailedTransactions, outcome.loss_ratio()),
            timed(Metric::TransactionTime, times.map(|times| times.p50)),
            timed(Metric::TransactionTimeP99, times.map(|times| times.p99)),
            found(Metric::Goodput, per_second(application.bytes_in_time) * 8.0),
        ];
        if self.has_http {
            let answers = [application.first_byte_ns, application.last_byte_ns];
            let answered = |(metric, times): (Metric, Option<LatencySummary>)| {
                timed(metric, times.map(|times| times.p50))
            };
            all.extend(OF_HTTP.into_iter().zip(answers).map(answered));
        }
        all
    }
}
