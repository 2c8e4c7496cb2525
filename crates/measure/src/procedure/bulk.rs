//! Bulk TCP (Check Point 2021): connections send as fast as they can for some time; how many bits a second the receiving
//! applications got. One trial a round: the rounds are the report's sequences.

use super::once::{Once, OneTrial};
use super::{Guarded, Measured, Procedure, ProcedureRow, Sends, Spec, all_lost, mark};
use crate::bulk::BulkRequest;
use crate::results::{Mark, MarkKind, Metric};
use crate::shape::{Placement, Setup};
use crate::suite::{Factor, SetupProblem};
use crate::trial::{TrialOutcome, TrialRequest, trials};

pub(super) const ROW: ProcedureRow = ProcedureRow {
    name: "bulk",
    older_name: None,
    sends: Sends::Bulk,
    factors: &[Factor::Connections, Factor::Offloads],
    keys: &[],
    make: |asked| BulkSpec { trial_seconds: asked.given.trial_seconds() }.into(),
};

/// Bulk TCP (Check Point 2021). Yields `Goodput`, of what applications received, `TcpEfficiency` and `BufferDelay` (RFC 6349); the
/// transfer time ratio follows from the goodput of `wire`.
#[derive(Debug, Clone, PartialEq)]
pub struct BulkSpec {
    /// Seconds of each trial, a whole number of at least 1.
    pub trial_seconds: f64,
}

const METRICS: [Metric; 3] = [Metric::Goodput, Metric::TcpEfficiency, Metric::BufferDelay];

impl Spec for BulkSpec {
    fn start(&self, placement: Placement) -> Box<dyn Procedure> {
        Guarded::boxed(Once::new(self.clone()), placement)
    }

    fn lost(&self, marks: &[Mark]) -> Vec<Measured> {
        all_lost(&METRICS, marks)
    }

    fn typical_seconds(&self) -> f64 {
        trials(1.0, self.trial_seconds)
    }

    fn check(&self, _setup: &Setup) -> Result<(), SetupProblem> {
        if self.trial_seconds < 1.0 || self.trial_seconds.fract() != 0.0 {
            return Err(SetupProblem::PartOfSecond(self.trial_seconds));
        }
        Ok(())
    }
}

impl OneTrial for BulkSpec {
    fn request(&self) -> TrialRequest {
        BulkRequest { seconds: self.trial_seconds }.into()
    }

    fn values(&self, outcome: &TrialOutcome) -> Vec<Measured> {
        let Some(bulk) = outcome.bulk() else { return self.lost(&[]) };
        let found = |metric, value: Option<f64>, unknown: &str| match value {
            Some(value) => Measured::found(metric, value, vec![outcome.clone()], Vec::new()),
            None => Measured::lost(metric, vec![mark(MarkKind::Note, unknown)]),
        };
        let bits = outcome.received_bits() as f64 / outcome.seconds;
        vec![
            found(Metric::Goodput, Some(bits), ""),
            found(Metric::TcpEfficiency, bulk.efficiency(), "iperf3 did not say how large segments are"),
            found(Metric::BufferDelay, bulk.buffer_delay(), "a round trip is not known"),
        ]
    }
}
