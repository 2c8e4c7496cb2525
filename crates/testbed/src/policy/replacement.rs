//! Two policies, one of which replaces the other under load, and the probes that tell which of them holds. Pure.
//!
//! Both have the same shape, lists and tables, and other filler rules. Beside the rules that all policies have, they allow
//! two of four probe services each: UDP to a port above those of test traffic.

use super::probe::{Expect, Probe, replacement_probe};
use super::{Action, Network, PolicySpec, Protocol, Rule, rules_of};
use crate::error::TestbedError;
use crate::layout::forward_lanes_of;
use measure::shape::{IpVersion, PolicyShape, ZoneForm};

const OLD_ONLY_PORT: u16 = 60_001;
const NEW_ONLY_PORT: u16 = 60_002;
const BOTH_PORT: u16 = 60_003;
const NEITHER_PORT: u16 = 60_004;
/// The last port that probes of any kind use.
pub(super) const LAST_PORT: u16 = NEITHER_PORT;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// The policy before.
    Old,
    /// The policy after.
    New,
}

impl Generation {
    /// The rules for the probe services, which stand at the matching position.
    pub(super) fn rules(self, zones: ZoneForm) -> impl Iterator<Item = Rule> {
        let (from, to) = forward_lanes_of(zones)[0];
        let own = match self {
            Self::Old => OLD_ONLY_PORT,
            Self::New => NEW_ONLY_PORT,
        };
        [own, BOTH_PORT].into_iter().map(move |port| Rule {
            protocol: Protocol::Udp,
            source: Network::of_zone(from),
            destination: Network::of_zone(to),
            source_ports: None,
            destination_ports: Some((port, port)),
            action: Action::Accept,
        })
    }
}

/// Probes of the first forward lane: `expect` is what holds as long as the policy that they were asked of is in force.
///
/// A stateful firewall remembers a probe that it let through, and lets the next one through whatever its rules say by then:
/// send each from a source of its own ([`Probe::fresh`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplacementProbes {
    /// Arrives under the old policy alone.
    pub old_only: Probe,
    /// Arrives under the new policy alone.
    pub new_only: Probe,
    /// Arrives under either: one that does not was judged by neither.
    pub both: Probe,
    /// Arrives under neither: one that does was judged by neither.
    pub neither: Probe,
}

impl PolicySpec {
    /// Generates the first of two policies, for a test that replaces it by its [successor](Self::successor) under load.
    ///
    /// # Errors
    /// As [`generate`](Self::generate), and for a shape without rules, of which there is nothing to replace.
    pub fn generate_replaceable(shape: &PolicyShape, zones: ZoneForm) -> Result<Self, TestbedError> {
        let plain = Self::generate(shape, zones)?;
        if !plain.has_rules() {
            return Err(TestbedError::Impossible(
                "a policy without rules cannot be replaced by one with other rules: give it rules".to_owned(),
            ));
        }
        let generation = Generation::Old;
        Ok(Self { rules: rules_of(shape, zones, Some(generation)), generation: Some(generation), ..plain })
    }

    /// The policy that replaces this one: other filler rules, the same lists and tables, and the other probe services. `None`
    /// unless it was made by [`generate_replaceable`](Self::generate_replaceable). The successor's successor has the probe
    /// services of the first again.
    pub fn successor(&self) -> Option<Self> {
        let generation = match self.generation? {
            Generation::Old => Generation::New,
            Generation::New => Generation::Old,
        };
        let shape = PolicyShape { seed: self.shape.seed.wrapping_add(1), ..self.shape.clone() };
        let rules = rules_of(&shape, self.zones, Some(generation));
        Some(Self { shape, rules, generation: Some(generation), ..self.clone() })
    }

    /// This policy with other lists, of the same lengths, for a test that replaces the lists. Its rules stay.
    pub fn with_other_lists(&self) -> Self {
        let other = PolicyShape { seed: self.shape.seed.wrapping_add(1), ..self.shape.clone() };
        Self { listed: super::AddressList::of(&other), ..self.clone() }
    }

    /// The probes that tell the old policy from the new one; `None` unless one of them was made for that.
    pub fn replacement_probes(&self, ip: IpVersion) -> Option<ReplacementProbes> {
        let generation = self.generation?;
        let when = |arrives| if arrives { Expect::Arrives } else { Expect::Dropped };
        let probe = |name, port, arrives| replacement_probe(self, name, port, ip, when(arrives));
        Some(ReplacementProbes {
            old_only: probe("the old policy's", OLD_ONLY_PORT, generation == Generation::Old),
            new_only: probe("the new policy's", NEW_ONLY_PORT, generation == Generation::New),
            both: probe("both policies'", BOTH_PORT, true),
            neither: probe("neither policy's", NEITHER_PORT, false),
        })
    }
}
