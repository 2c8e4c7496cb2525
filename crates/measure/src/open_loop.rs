//! Connections that begin at times that were fixed before, whatever becomes of the others: an open loop. A client that waited for a slow
//! firewall would ask it less often, and count few slow answers (coordinated omission); here every connection has its intended start, and
//! its times begin there. The phases are those of RFC 9411 section 4.3.4: the rate rises, stays, and falls. Pure.

use crate::pace::{InTime, Look};
use crate::results::LatencySummary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Stretches of the sustained load whose rates are compared; longer ones are cut into more, so that none is longer than
/// [`LONGEST_STRETCH_SECONDS`].
const STRETCHES: f64 = 5.0;
/// RFC 9411 section 4.3.4 reads its figures at least every 2 s.
const LONGEST_STRETCH_SECONDS: f64 = 2.0;
/// Milliseconds of a second, the grain of [`Moments`].
const MS: f64 = 1e3;

/// A rate of connections, and how long it rises, stays and falls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpenLoop {
    /// Connections a second while the load is sustained, > 0.
    pub connection_rate: f64,
    /// Seconds in which the rate rises from 0, 0 or more.
    pub ramp_up_seconds: f64,
    /// Seconds of the rate, > 0.
    pub sustain_seconds: f64,
    /// Seconds in which it falls to 0, 0 or more.
    pub ramp_down_seconds: f64,
}

impl OpenLoop {
    /// All phases together.
    pub fn seconds(&self) -> f64 {
        self.ramp_up_seconds + self.sustain_seconds + self.ramp_down_seconds
    }

    /// Connections of all phases, at least 1.
    pub fn connections(&self) -> u64 {
        let ramps = (self.ramp_up_seconds + self.ramp_down_seconds) / 2.0;
        ((self.connection_rate * (self.sustain_seconds + ramps)).round() as u64).max(1)
    }

    /// When a connection is due, in seconds from the start. Connections count from 0 and are due one after the other.
    pub fn due_seconds(&self, number: u64) -> f64 {
        let Self {
            connection_rate: rate,
            ramp_up_seconds: up,
            sustain_seconds: sustain,
            ramp_down_seconds: down,
        } = *self;
        let number = number as f64;
        let risen = rate * up / 2.0;
        if number < risen {
            return (2.0 * number * up / rate).sqrt();
        }
        let falls = risen + rate * sustain;
        if number < falls || down == 0.0 {
            return up + (number - risen) / rate;
        }
        let left = 1.0 - 2.0 * (number - falls) / (rate * down);
        up + sustain + down * (1.0 - left.max(0.0).sqrt())
    }

    /// Whether a moment lies in the sustained load.
    pub fn is_sustained(&self, at_seconds: f64) -> bool {
        (self.ramp_up_seconds..self.ramp_up_seconds + self.sustain_seconds).contains(&at_seconds)
    }
}

/// What happened in each millisecond of a trial.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moments {
    moments: Vec<Moment>,
}

/// What happened in a millisecond.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Moment {
    begun: u32,
    ended: u32,
    completed: u32,
    transactions: u32,
    bytes: u64,
}

impl Moments {
    /// A connection began.
    pub fn begin(&mut self, at_seconds: f64) {
        self.at(at_seconds).begun += 1;
    }

    /// A connection ended; it had done all that was asked of it, or not.
    pub fn end(&mut self, at_seconds: f64, is_complete: bool) {
        let moment = self.at(at_seconds);
        moment.ended += 1;
        moment.completed += u32::from(is_complete);
    }

    /// A transaction completed that brought a file of so many bytes.
    pub fn transact(&mut self, at_seconds: f64, bytes: u64) {
        let moment = self.at(at_seconds);
        moment.transactions += 1;
        moment.bytes += bytes;
    }

    /// Adds another core's.
    pub fn add(&mut self, other: &Self) {
        if self.moments.len() < other.moments.len() {
            self.moments.resize(other.moments.len(), Moment::default());
        }
        for (here, there) in self.moments.iter_mut().zip(&other.moments) {
            here.begun += there.begun;
            here.ended += there.ended;
            here.completed += there.completed;
            here.transactions += there.transactions;
            here.bytes += there.bytes;
        }
    }

    fn at(&mut self, at_seconds: f64) -> &mut Moment {
        let number = (at_seconds.max(0.0) * MS) as usize;
        if self.moments.len() <= number {
            self.moments.resize(number + 1, Moment::default());
        }
        &mut self.moments[number]
    }

    /// From a second to another one.
    fn between(&self, from: f64, to: f64) -> &[Moment] {
        let place = |seconds: f64| ((seconds * MS).round() as usize).min(self.moments.len());
        &self.moments[place(from)..place(to)]
    }
}

/// What became of the sustained load of an open loop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sustained {
    /// Its length.
    pub seconds: f64,
    /// Connections that were due in it.
    pub due: u64,
    /// Connections that ended in it and had done all that was asked of them.
    pub connections: u64,
    /// Transactions that completed in it.
    pub transactions: u64,
    /// Bytes of the files that these brought.
    pub bytes: u64,
    /// Whether connections ended as fast as they were opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_time: Option<InTime>,
    /// Connections open at once, on the average.
    pub open: f64,
    /// By how much the rate of bytes was off its mean in the worst stretch, as a share (RFC 9411 allows 5 %), beside a whole transaction.
    pub rate_deviation: f64,
    /// By how much the connections open at once were off their mean in the worst stretch, as a share (RFC 9411 allows 10 %).
    pub open_deviation: f64,
    /// To the first byte of an answer, of connections that were due in it: from the intended start, of later transactions of a
    /// connection from their request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_ns: Option<LatencySummary>,
    /// To the last byte, in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_byte_ns: Option<LatencySummary>,
}

impl Sustained {
    /// `connection_ns` are the times of connections from their intended start to their end.
    pub fn of(load: &OpenLoop, moments: &Moments, connection_ns: Option<LatencySummary>) -> Self {
        let (from, to) = (load.ramp_up_seconds, load.ramp_up_seconds + load.sustain_seconds);
        let within = moments.between(from, to);
        let sum = |count: fn(&Moment) -> u64| within.iter().map(count).sum::<u64>();
        let (rate_deviation, open_deviation, open) = deviations(load, moments);
        Self {
            seconds: load.sustain_seconds,
            due: sum(|moment| moment.begun.into()),
            connections: sum(|moment| moment.completed.into()),
            transactions: sum(|moment| moment.transactions.into()),
            bytes: sum(|moment| moment.bytes),
            in_time: connection_ns.and_then(|times| {
                let times = [times.min / 1e9, times.p50 / 1e9];
                InTime::of(load.connection_rate, load.sustain_seconds, times, &looks(moments, from))
            }),
            open,
            rate_deviation,
            open_deviation,
            first_byte_ns: None,
            last_byte_ns: None,
        }
    }

    /// Connections a second that the firewall holds: that ended in it, or, where a queue took some in, as the line through them says.
    pub fn held_rate(&self) -> f64 {
        let ended = self.connections as f64 / self.seconds;
        self.in_time
            .map_or(ended, |in_time| in_time.rate().min(self.due.max(self.connections) as f64 / self.seconds))
    }
}

/// What had ended at each moment, as seen from the start of the sustained load.
fn looks(moments: &Moments, from: f64) -> Vec<Look> {
    let first = ((from * MS).round() as usize).min(moments.moments.len());
    let mut ended = 0;
    let look = |(number, moment): (usize, &Moment)| {
        ended += u64::from(moment.completed);
        Look { at_ns: (number as u64 + 1) * 1_000_000, ended }
    };
    moments.moments[first..].iter().enumerate().map(look).collect()
}

/// The largest shares by which the rate of bytes and the number of open connections are off their means in a stretch, and the mean of
/// the latter.
fn deviations(load: &OpenLoop, moments: &Moments) -> (f64, f64, f64) {
    let count = STRETCHES.max((load.sustain_seconds / LONGEST_STRETCH_SECONDS).ceil());
    let length = load.sustain_seconds / count;
    let from = |number: usize| load.ramp_up_seconds + number as f64 * length;
    let balance = |moments: &[Moment]| -> f64 {
        moments.iter().map(|moment| f64::from(moment.begun) - f64::from(moment.ended)).sum()
    };
    let within = moments.between(load.ramp_up_seconds, load.ramp_up_seconds + load.sustain_seconds);
    let sum = |count: fn(&Moment) -> f64| within.iter().map(count).sum::<f64>();
    let of_transaction =
        sum(|moment| moment.bytes as f64) / sum(|moment| moment.transactions.into()).max(1.0);
    let mut open = balance(moments.between(0.0, load.ramp_up_seconds));
    let (mut bytes, mut opens) = (Vec::new(), Vec::new());
    for number in 0..count as usize {
        let stretch = moments.between(from(number), from(number + 1));
        bytes.push(stretch.iter().map(|moment| moment.bytes as f64).sum::<f64>());
        let mut sum = 0.0;
        for moment in stretch {
            open += f64::from(moment.begun) - f64::from(moment.ended);
            sum += open;
        }
        opens.push(sum / (length * MS));
    }
    (deviation(&bytes, of_transaction), deviation(&opens, 0.0), mean(&opens))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Beyond a grain, of which one more or less says nothing.
fn deviation(values: &[f64], grain: f64) -> f64 {
    let mean = mean(values);
    if mean == 0.0 {
        return 0.0;
    }
    values.iter().map(|value| ((value - mean).abs() - grain).max(0.0) / mean).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOAD: OpenLoop = OpenLoop {
        connection_rate: 1000.0,
        ramp_up_seconds: 0.5,
        sustain_seconds: 2.0,
        ramp_down_seconds: 0.25,
    };

    #[test]
    fn connections_are_due_as_the_phases_say() {
        assert_eq!((LOAD.seconds(), LOAD.connections()), (2.75, 2375));
        for (number, due) in [
            (0, 0.0),
            // A quarter of the ramp's connections are due in its first half.
            (62, 0.249),
            (250, 0.5),
            (1250, 1.5),
            (2250, 2.5),
            (2374, 2.728),
        ] {
            let found = LOAD.due_seconds(number);
            assert!((found - due).abs() < 1e-3, "{number}: {found}");
        }
        let flat = OpenLoop { ramp_up_seconds: 0.0, ramp_down_seconds: 0.0, ..LOAD };
        assert_eq!((flat.connections(), flat.due_seconds(1999)), (2000, 1.999));
        let scarce = OpenLoop { connection_rate: 1.0, sustain_seconds: 0.1, ..flat };
        assert_eq!((scarce.connections(), scarce.due_seconds(0)), (1, 0.0));
    }

    /// A trial whose connections take so many seconds and bring 100 bytes in two transactions.
    fn trial(took: impl Fn(u64) -> f64) -> Sustained {
        let mut moments = Moments::default();
        let mut times = crate::latency::Distribution::new();
        for number in 0..LOAD.connections() {
            let due = LOAD.due_seconds(number);
            let ended = due + took(number);
            moments.begin(due);
            moments.transact(ended, 50);
            moments.transact(ended, 50);
            moments.end(ended, true);
            times.add((took(number) * 1e9) as u64, 1);
        }
        let mut both = Moments::default();
        both.add(&moments);
        both.add(&Moments::default());
        Sustained::of(&LOAD, &both, times.summary())
    }

    #[test]
    fn what_ends_as_fast_as_it_begins_is_held() {
        let even = trial(|_| 0.02);
        assert!((1990..=2010).contains(&even.connections), "{even:?}");
        assert_eq!((even.transactions, even.bytes), (even.connections * 2, even.connections * 100));
        assert!((even.held_rate() - 1000.0).abs() < 10.0, "{even:?}");
        assert!((even.open - 20.0).abs() < 1.0 && even.open_deviation < 0.05, "{even:?}");
        assert!(even.rate_deviation < 0.05, "{even:?}");
    }

    #[test]
    fn a_queue_that_grows_is_seen() {
        // Served at 500 a second: each connection waits longer than the one before.
        let queue = trial(|number| (number as f64 / 500.0 - LOAD.due_seconds(number)).max(0.0) + 0.001);
        assert!((queue.held_rate() - 500.0).abs() < 25.0, "{queue:?}");
        assert!(queue.open_deviation > 0.5, "{queue:?}");
        // All but a few bytes come in the second half.
        let late = trial(|number| if LOAD.due_seconds(number) < 1.5 { 1.0 } else { 0.01 });
        assert!(late.rate_deviation > 0.5, "{late:?}");
        assert_eq!(Sustained::of(&LOAD, &Moments::default(), None).held_rate(), 0.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn connections_follow_one_another_within_the_load(
            rate in 1.0..100_000.0f64,
            up in prop_oneof![Just(0.0), 0.01..10.0f64],
            sustain in 0.05..10.0f64,
            down in prop_oneof![Just(0.0), 0.01..10.0f64],
        ) {
            let load = OpenLoop {
                connection_rate: rate, ramp_up_seconds: up, sustain_seconds: sustain, ramp_down_seconds: down,
            };
            let count = load.connections();
            let step = (count / 1000).max(1);
            let mut before = -1.0;
            for number in (0..count).step_by(step as usize) {
                let due = load.due_seconds(number);
                prop_assert!(due >= before && due <= load.seconds() + 1e-9, "{number} at {due}");
                before = due;
            }
        }
    }
}
