//! Runs one cell of a plan on the firewalls compared, in rounds, so that a noisy machine hurts them alike.

use crate::procedure::ProcedureSpec;
use crate::shape::Placement;
use std::collections::BTreeMap;

/// One cell of a plan: the same test under the same levels of all factors, for every firewall compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Test of the suite.
    pub test: String,
    /// Every factor but placement and cores, and its level, as the suite writes it.
    pub factors: BTreeMap<String, String>,
    /// Cores used.
    pub cores: u32,
    /// Where the work is done. A firewall between two real cards is [`Placement::Isolated`]: it has a machine of its own.
    pub placement: Placement,
    /// What is measured.
    pub procedure: ProcedureSpec,
    /// How often everything is measured, at least 1.
    pub rounds: u32,
    /// Seed of the bootstrap intervals.
    pub seed: u64,
}
