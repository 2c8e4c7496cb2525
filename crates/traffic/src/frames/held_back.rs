//! Frames that a firewall took in and forwarded only later than it should: what a queue holds when the load ends was not forwarded at the load's
//! rate, and in a short trial a queue holds much of all that is sent. As for connections ([`measure::pace`]), what counts is the slope of the
//! line through what had arrived at each moment, here against the line through what had been sent. Pure.

use measure::pace::{Bounds, InTime, Look};
use serde::{Deserialize, Serialize};

/// So much slower may the line of what arrived be: a firewall or a sink that waits for its core for a moment is none with a queue.
const TOLERANCE: f64 = 0.03;
/// A stretch in the middle of a trial has so much more weight in the slope than the average, and so has what is lost there.
const MOST_WEIGHT: f64 = 1.5;
/// Of fewer frames the single one weighs too much.
const FEWEST: u64 = 200;

/// A look at a trial of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    /// Since the start of the load, in ns.
    pub at_ns: u64,
    /// Frames sent until then.
    pub sent: u64,
    /// Frames received until then.
    pub received: u64,
}

/// What is known of the queue of a firewall.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct HeldBack {
    /// Received frames that it had taken in when the load ended, at least.
    pub(super) frames: u64,
    /// There may be many more: nobody looked often enough.
    pub(super) is_doubtful: bool,
}

/// What a queue had taken in of a constant load of so many seconds. `times_seconds` are the shortest and the median latency; the sightings
/// rise, and the last one saw everything.
pub(super) fn held_back(seconds: f64, times_seconds: [f64; 2], sightings: &[Sighting]) -> HeldBack {
    let nothing = HeldBack::default();
    let Some(&Sighting { sent, received, .. }) = sightings.last() else { return nothing };
    if sent < FEWEST || received > sent {
        return nothing;
    }
    let rate = sent as f64 / seconds;
    let looks = |delay: f64, count: fn(&Sighting) -> u64| -> Vec<Look> {
        let delay_ns = (delay * 1e9) as u64;
        sightings.iter().map(|s| Look { at_ns: s.at_ns + delay_ns, ended: count(s) }).collect()
    };
    // What was sent is moved as far as the load is.
    let (sending, receiving) = (looks(times_seconds[0], |s| s.sent), looks(0.0, |s| s.received));
    let lines = (
        InTime::of(rate, seconds, times_seconds, &sending),
        Bounds::of(rate, seconds, times_seconds, &receiving),
    );
    let (Some(InTime { ended: of_sent, .. }), Some(of_received)) = lines else { return nothing };
    if of_sent <= 0.0 {
        return nothing;
    }
    let (best, least) = (of_received.best.ended / of_sent, of_received.least.ended / of_sent);
    let share = received as f64 / sent as f64;
    let by_losses = (MOST_WEIGHT - 1.0) * (1.0 - share);
    let keeps_pace = |pace: f64| pace >= share - by_losses - TOLERANCE;
    HeldBack {
        frames: if keeps_pace(best) { 0 } else { (received as f64 - best * sent as f64).round() as u64 },
        is_doubtful: !keeps_pace(least) && of_received.are_far_apart(of_sent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECONDS: f64 = 0.4;

    /// What is seen every 4 ms of frames whose arrivals are at these times, or never, as they are sent.
    fn seen(rate: f64, arrivals: &[Option<f64>]) -> (Vec<Sighting>, [f64; 2]) {
        let due = |number: usize| number as f64 / rate;
        let pairs =
            arrivals.iter().enumerate().filter_map(|(number, at)| Some(((*at)? - due(number), (*at)?)));
        let (mut times, mut ends): (Vec<f64>, Vec<f64>) = pairs.unzip();
        times.sort_by(f64::total_cmp);
        ends.sort_by(f64::total_cmp);
        let sight = |tick: u64| {
            let at = tick as f64 * 0.004;
            Sighting {
                at_ns: tick * 4_000_000,
                sent: ((at * rate) as u64).min(arrivals.len() as u64),
                received: ends.partition_point(|end| *end <= at) as u64,
            }
        };
        let last = (ends[ends.len() - 1] / 0.004) as u64 + 20;
        ((1..=last).map(sight).collect(), [times[0], times[times.len() / 2]])
    }

    /// Behind a queue of so many frames that hands on `capacity` a second, `delay` later.
    fn queue(rate: f64, capacity: f64, room: f64, delay: impl Fn(usize) -> f64) -> Vec<Option<f64>> {
        let mut free_at = 0.0f64;
        let frames = 0..(rate * SECONDS) as usize;
        frames
            .map(|number| {
                let due = number as f64 / rate;
                if (free_at - due) * capacity >= room {
                    return None;
                }
                free_at = free_at.max(due) + 1.0 / capacity;
                Some(free_at + delay(number))
            })
            .collect()
    }

    /// The load, what arrives of it when, and the share of all that is held back, and how exactly.
    type Row<'a> = (&'a str, f64, Vec<Option<f64>>, f64, f64);

    #[test]
    fn what_a_queue_takes_in_is_held_back_and_a_long_or_uneven_way_is_none() {
        let none = |_: usize| 0.0;
        let far = |_: usize| 0.05;
        let uneven = |number: usize| (number * 7919 % 101) as f64 / 101.0 * 0.04;
        let stalled = |from: f64, to: f64| -> Vec<Option<f64>> {
            let late = |at: f64| if (from..to).contains(&at) { to } else { at };
            queue(20_000.0, 1e7, 1e9, none).into_iter().map(|at| at.map(late)).collect()
        };
        let without = |from: f64, to: f64| -> Vec<Option<f64>> {
            let kept = |at: &f64| !(from..to).contains(at);
            queue(20_000.0, 1e7, 1e9, none).into_iter().map(|at| at.filter(kept)).collect()
        };
        let rows: [Row; 14] = [
            ("fast", 20_000.0, queue(20_000.0, 1e7, 1e9, none), 0.0, 0.0),
            ("as fast as it can", 20_000.0, queue(20_000.0, 20_100.0, 1e9, none), 0.0, 0.0),
            ("far away", 20_000.0, queue(20_000.0, 1e7, 1e9, far), 0.0, 0.0),
            ("uneven", 20_000.0, queue(20_000.0, 1e7, 1e9, uneven), 0.0, 0.0),
            ("a stall at the end", 20_000.0, stalled(0.38, 0.41), 0.0, 0.0),
            ("a stall in the middle", 20_000.0, stalled(0.18, 0.22), 0.0, 0.0),
            ("an outage in the middle", 20_000.0, without(0.1, 0.3), 0.0, 0.0),
            ("an outage at the end", 20_000.0, without(0.3, 0.4), 0.0, 0.0),
            ("a small queue that loses the rest", 20_000.0, queue(20_000.0, 10_000.0, 100.0, none), 0.0, 0.0),
            ("a fifth too fast", 24_000.0, queue(24_000.0, 20_000.0, 1e9, none), 1.0 / 6.0, 0.01),
            ("a fifth too fast, far away", 24_000.0, queue(24_000.0, 20_000.0, 1e9, far), 1.0 / 6.0, 0.01),
            ("a twelfth too fast", 24_000.0, queue(24_000.0, 22_000.0, 1e9, none), 1.0 / 12.0, 0.01),
            ("slow, with room for 256", 1_000.0, queue(1_000.0, 500.0, 256.0, none), 0.5, 0.02),
            ("few frames", 100.0, queue(100.0, 50.0, 256.0, none), 0.0, 0.0),
        ];
        for (name, rate, arrivals, share, exactness) in rows {
            let (sightings, times) = seen(rate, &arrivals);
            let found = held_back(SECONDS, times, &sightings);
            let of_all = found.frames as f64 / arrivals.len() as f64;
            assert!((of_all - share).abs() <= exactness && !found.is_doubtful, "{name}: {of_all} {found:?}");
        }
        assert_eq!(held_back(SECONDS, [0.0; 2], &[]), HeldBack::default());
    }

    #[test]
    fn what_nobody_saw_is_doubtful_where_it_decides() {
        let none = |_: usize| 0.0;
        let (slow, fast) = (queue(24_000.0, 20_000.0, 1e9, none), queue(24_000.0, 1e7, 1e9, none));
        let dropping = queue(24_000.0, 20_000.0, 100.0, none);
        // Arrivals, how many ms are between two looks, and between which seconds nobody looks.
        type Row<'a> = (&'a str, &'a [Option<f64>], u64, (f64, f64), bool);
        let rows: [Row; 9] = [
            ("a look every 4 ms", &slow, 4, (0.0, 0.0), false),
            ("every 40 ms", &slow, 40, (0.0, 0.0), false),
            ("every 120 ms", &slow, 120, (0.0, 0.0), true),
            ("none in the last quarter", &slow, 4, (0.3, 0.47), true),
            ("none in the first third", &slow, 4, (0.0, 0.13), false),
            ("none for a moment", &slow, 4, (0.3, 0.32), false),
            ("every 120 ms, and it keeps pace", &fast, 120, (0.0, 0.0), false),
            ("none at all, and it keeps pace", &fast, 4, (0.0, 0.4), false),
            ("every 120 ms, and it drops what is too much", &dropping, 120, (0.0, 0.0), false),
        ];
        for (name, arrivals, every_ms, blind, is_doubtful) in rows {
            let (mut sightings, times) = seen(24_000.0, arrivals);
            let is_blind = |at: f64| (blind.0..blind.1).contains(&at);
            let last = sightings.pop();
            sightings.retain(|it| it.at_ns / 1_000_000 % every_ms == 0 && !is_blind(it.at_ns as f64 / 1e9));
            sightings.extend(last);
            let found = held_back(SECONDS, times, &sightings);
            assert_eq!(found.is_doubtful, is_doubtful, "{name}: {found:?}");
        }
    }
}
