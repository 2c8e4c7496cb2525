//! A policy replaced under load: while connections go on, a stream of probes tells by which policy packets are judged.

use measure::connections::ReplacementOutcome;
use testbed::policy::{Expect, Probe, ReplacementProbes};
use traffic::StreamedProbe;

/// The probes of a round, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Allowed by the old policy alone.
    Old,
    /// Allowed by the new policy alone.
    New,
    /// Allowed by both.
    Both,
    /// Allowed by neither.
    Neither,
}

impl Role {
    const ORDER: [Role; 4] = [Role::Old, Role::New, Role::Both, Role::Neither];
}

/// The probes in the order of a round. A successor is replaced by a policy like the first: which of the two is the old one
/// changes each time.
pub(super) fn in_order(probes: &ReplacementProbes) -> [&Probe; 4] {
    let (old, new) = match probes.old_only.expect {
        Expect::Arrives => (&probes.old_only, &probes.new_only),
        Expect::Dropped => (&probes.new_only, &probes.old_only),
    };
    [old, new, &probes.both, &probes.neither]
}

/// What the stream saw of a replacement that was ordered at `ordered_ns` and took the firewall's tools `command_seconds`.
///
/// The new policy holds when no later probe was judged by the old one. By neither was judged what both policies allow
/// and did not arrive, what both forbid and did arrive, and a round in which the first probe met the new policy and the
/// second, sent after it, the old.
pub(super) fn judge(probes: &[StreamedProbe], ordered_ns: u64, command_seconds: f64) -> ReplacementOutcome {
    let mut outcome = ReplacementOutcome {
        command_seconds,
        holds_after_seconds: Some(0.0),
        by_neither: 0,
        probes: probes.len() as u64,
    };
    let mut last_judged_by_old = None;
    for round in probes.chunks(Role::ORDER.len()) {
        let arrived =
            |role: Role| round.iter().find(|p| Role::ORDER.get(p.which) == Some(&role)).map(|p| p.arrived);
        let by_old = [arrived(Role::Old), arrived(Role::New).map(|it| !it)];
        if by_old.contains(&Some(true)) {
            last_judged_by_old = round.first().map(|probe| probe.sent_ns);
        }
        let wrong = [
            arrived(Role::Both) == Some(false),
            arrived(Role::Neither) == Some(true),
            by_old == [Some(false), Some(true)],
        ];
        outcome.by_neither += wrong.iter().filter(|it| **it).count() as u64;
    }
    let last_sent = probes.last().map(|probe| probe.sent_ns);
    outcome.holds_after_seconds = match last_judged_by_old {
        Some(when) if Some(when) == last_sent => None,
        Some(when) => Some(when.saturating_sub(ordered_ns) as f64 / 1e9),
        None => Some(0.0),
    };
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of four probes a millisecond apart, each as the letters of those that arrived: o, n, b, x.
    fn stream(rounds: &str) -> Vec<StreamedProbe> {
        let rounds = rounds.split(' ').enumerate();
        rounds
            .flat_map(|(number, round)| {
                "onbx".chars().enumerate().map(move |(which, letter)| StreamedProbe {
                    which,
                    sent_ns: number as u64 * 1_000_000,
                    arrived: round.contains(letter),
                })
            })
            .collect()
    }

    #[test]
    fn replacements_are_judged_by_what_arrived() {
        // The order is given with the second round.
        for (rounds, holds_after_ms, by_neither) in [
            ("ob ob ob nb nb", Some(1.0), 0),
            ("ob nb nb nb nb", Some(0.0), 0),
            ("ob ob ob ob ob", None, 0),
            // Nothing passes for a round: what both allow was lost.
            ("ob ob - nb nb", Some(1.0), 2),
            // Open for a round.
            ("ob onbx nb nb nb", Some(0.0), 1),
            // The change falls between the two probes of a round: either is right.
            ("ob onb nb nb nb", Some(0.0), 0),
            // New, and then old again.
            ("ob nb b nb nb", Some(1.0), 1),
        ] {
            let outcome = judge(&stream(rounds), 1_000_000, 0.5);
            assert_eq!(outcome.holds_after_seconds.map(|s| s * 1e3), holds_after_ms, "{rounds}");
            assert_eq!(outcome.by_neither, by_neither, "{rounds}");
        }
    }
}
