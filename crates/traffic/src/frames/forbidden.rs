//! What the policy forbids: a little of it goes along with a trial, of the same shape as the load and at no regular distance, so that a
//! firewall which enforces its policy only while it has time is found out. Nothing else than a firewall that enforces its policy can
//! distinguish it from the load.

use super::schedule::fastest_per_core;
use super::skeleton::{MAX_FORBIDDEN_SOURCES, types};
use crate::harness::to_schedule;
use crate::random::SplitMix64;
use measure::shape::{IpVersion, Lane};
use measure::trial::Phase;
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

/// Source addresses of [`Forbidden`] that are used; a longer list is a mistake of ours.
pub const MOST_FORBIDDEN_SOURCES: usize = MAX_FORBIDDEN_SOURCES;

/// Kinds of forbidden frames, which take turns: each of these that is there is one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forbidden {
    /// Destination ports that no rule allows, nor answers from them.
    pub ports: Option<RangeInclusive<u16>>,
    /// Source addresses from which nothing may come, at most [`MOST_FORBIDDEN_SOURCES`]. With IPv6 they are left out.
    pub sources: Vec<Ipv4Addr>,
    /// Whether answers are forbidden that nobody asked for.
    pub answers: bool,
}

/// `enum forbidden_kind` in `bpf/abi/frames.h`.
pub(super) const PORT: u32 = 0;
pub(super) const SOURCE: u32 = 1;
pub(super) const ANSWER: u32 = 2;

impl Forbidden {
    /// Kinds that frames of this IP version can be of.
    fn kinds(&self, ip: IpVersion) -> Vec<u32> {
        let of = [
            (PORT, self.ports.is_some()),
            (SOURCE, ip == IpVersion::V4 && !self.sources.is_empty()),
            (ANSWER, self.answers),
        ];
        of.into_iter().filter_map(|(kind, is_one)| is_one.then_some(kind)).collect()
    }

    /// The control block's part of a trial, and whether anything is sent from here. Answers go on this lane, if it begins here.
    pub(super) fn control(
        &self,
        ip: IpVersion,
        (answer_lane, answers_here): (usize, bool),
        interval: u64,
        random: &mut SplitMix64,
    ) -> (types::forbidden, bool) {
        let all = self.kinds(ip);
        let sent: Vec<u32> = all.iter().copied().filter(|kind| *kind != ANSWER || answers_here).collect();
        // A host that sends none still has to know those of the other.
        let kinds = if sent.is_empty() { all } else { sent.clone() };
        let (first, last) = self.ports.clone().map_or((0, 0), RangeInclusive::into_inner);
        let mut made = types::forbidden {
            interval,
            secret: super::frame::secret(random),
            kind_count: kinds.len() as u32,
            first_port: first.into(),
            ports: u32::from(last - first) + 1,
            sources: self.sources.len().min(MOST_FORBIDDEN_SOURCES) as u32,
            answer_lane: answer_lane as u32,
            ..Default::default()
        };
        made.kinds[..kinds.len()].copy_from_slice(&kinds);
        (made, !sent.is_empty())
    }
}

/// The lane of answers to the first lane that asks, or `None` if none of them does.
pub(super) fn answers_to(lanes: &[(Lane, f64)]) -> Option<Lane> {
    let asks = lanes.iter().map(|(lane, _)| lane).find(|lane| !lane.is_reverse())?;
    Some(Lane { from: asks.to, to: asks.from })
}

/// The share of the load, and the fewest and the most frames a second that go along, over all cores.
const SHARE: f64 = 0.001;
const PER_SECOND: (f64, f64) = (5.0, 1_000.0);
/// The fewest of a trial, as long as they are no larger part of the load than the second number.
const FEWEST_OF_A_TRIAL: (f64, f64) = (8.0, 0.05);

/// Forbidden frames a second beside a load: so few that they do not disturb it.
fn rate(phases: &[Phase]) -> f64 {
    let (fewest, most) = PER_SECOND;
    let seconds: f64 = phases.iter().map(|phase| phase.seconds).sum();
    let load = fastest_per_core(phases, 1);
    (load * SHARE)
        .clamp(fewest, most)
        .max(FEWEST_OF_A_TRIAL.0 / seconds)
        .min(most)
        .min(load * FEWEST_OF_A_TRIAL.1)
}

/// Schedule time between two forbidden datagrams of one of `cores`.
pub(super) fn interval(phases: &[Phase], cores: usize, fragments: u32) -> u64 {
    to_schedule(cores as f64 * f64::from(fragments) / rate(phases))
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::trial::Load;

    #[test]
    fn a_few_go_along_with_every_load() {
        for (load, seconds, expected) in [
            (Load::Maximum, 1.0, 1000.0),
            (Load::PerSecond(5e6), 1.0, 1000.0),
            (Load::PerSecond(50_000.0), 1.0, 50.0),
            (Load::PerSecond(50_000.0), 0.1, 80.0),
            (Load::PerSecond(1_000.0), 10.0, 5.0),
            (Load::PerSecond(1_000.0), 0.1, 50.0),
            (Load::PerSecond(100.0), 10.0, 5.0),
            (Load::Burst(64), 1e-3, 1000.0),
        ] {
            assert_eq!(rate(&[Phase { load, seconds }]), expected, "{load:?} for {seconds} s");
        }
    }

    #[test]
    fn kinds_are_those_that_the_ip_version_has() {
        let all = Forbidden {
            ports: Some(60_000..=60_000),
            sources: vec![Ipv4Addr::new(198, 18, 0, 250)],
            answers: true,
        };
        for (forbidden, ip, kinds) in [
            (&all, IpVersion::V4, vec![PORT, SOURCE, ANSWER]),
            (&all, IpVersion::V6, vec![PORT, ANSWER]),
            (&Forbidden { ports: None, answers: false, ..all.clone() }, IpVersion::V4, vec![SOURCE]),
            (&Forbidden { ports: None, answers: false, ..all.clone() }, IpVersion::V6, vec![]),
            (&Forbidden::default(), IpVersion::V4, vec![]),
        ] {
            assert_eq!(forbidden.kinds(ip), kinds, "{forbidden:?} {ip:?}");
        }
    }
}
