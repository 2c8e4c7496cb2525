//! The columns of a point of connections. Pure.

use measure::bulk::BulkOutcome;
use measure::connections::{ConnectionOutcome, ConnectionTimes};
use measure::results::{LatencySummary, Reading};
use std::collections::BTreeMap;

/// Their names, in the order of [`columns`].
pub(super) const COLUMNS: [&str; 30] = [
    "attempted",
    "established",
    "completed",
    "failed",
    "failed_by",
    "retransmitted",
    "session_frames",
    "session_bits",
    "established_mean_ns",
    "established_p50_ns",
    "established_p99_ns",
    "last_byte_mean_ns",
    "last_byte_p50_ns",
    "last_byte_p99_ns",
    "establishment_mean_ns",
    "establishment_p50_ns",
    "establishment_p99_ns",
    "teardown_mean_ns",
    "teardown_p50_ns",
    "teardown_p99_ns",
    "illegal_attempted",
    "illegal_got_through",
    "attack_sent",
    "attack_forwarded",
    "attack_answered",
    "resets_sent",
    "resets_open",
    "resets_alive",
    "replacement_holds_after_seconds",
    "replacement_by_neither",
];

/// A point's cells; empty in a test of frames, and but for the retransmissions in one of bulk transfers.
pub(super) fn columns(point: &Reading<'_>) -> Vec<String> {
    let Some(s) = &point.connections() else { return of_bulk(point.bulk().as_ref()) };
    let mut cells: Vec<String> = [s.attempted, s.established, s.completed].map(|n| n.to_string()).into();
    cells.extend([sum(&s.failed), by_name(&s.failed)]);
    cells.extend([s.retransmitted, s.frames, s.bits].map(|n| n.to_string()));
    cells.extend(times(&s.times));
    cells.extend(beside(s));
    cells
}

fn of_bulk(bulk: Option<&BulkOutcome>) -> Vec<String> {
    let cell = |name: &str| match bulk {
        Some(bulk) if name == "retransmitted" => bulk.retransmitted.to_string(),
        _ => String::new(),
    };
    COLUMNS.map(cell).into()
}

fn sum(counts: &BTreeMap<String, u64>) -> String {
    counts.values().sum::<u64>().to_string()
}

/// `refused 3; timeout-connect 12`.
fn by_name(counts: &BTreeMap<String, u64>) -> String {
    counts.iter().map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join("; ")
}

fn times(times: &ConnectionTimes) -> Vec<String> {
    let three = |t: Option<LatencySummary>| match t {
        Some(t) => [t.mean, t.p50, t.p99].map(|ns| ns.to_string()),
        None => Default::default(),
    };
    [times.established_ns, times.last_byte_ns, times.establishment_ns, times.teardown_ns]
        .into_iter()
        .flat_map(three)
        .collect()
}

/// What went on beside the connections.
fn beside(s: &ConnectionOutcome) -> Vec<String> {
    let some = |n: Option<u64>| n.map_or_else(String::new, |n| n.to_string());
    let (illegal, attack, resets) = (s.illegal.as_ref(), s.attack, s.resets);
    let held = s.replacement.as_ref().and_then(|r| r.holds_after_seconds);
    vec![
        illegal.map_or_else(String::new, |i| sum(&i.attempted)),
        illegal.map_or_else(String::new, |i| i.total_got_through().to_string()),
        some(attack.map(|a| a.sent)),
        some(attack.map(|a| a.forwarded)),
        some(attack.map(|a| a.answered)),
        some(resets.map(|r| r.sent)),
        some(resets.map(|r| r.open)),
        some(resets.map(|r| r.alive)),
        held.map_or_else(String::new, |seconds| seconds.to_string()),
        some(s.replacement.as_ref().map(|r| r.by_neither)),
    ]
}
