//! What tells the firewalls of a run apart, and by how much: what differs stands first in a report, and what is the same for all
//! is one sentence. The rule looks at the data alone: at the end of each ratio's interval that is nearest to 1. Pure.

use crate::ratio;
use crate::units;
use crate::view::{Block, Setting, Test};
use measure::results::{Metric, Reading, Role, Sent};
use std::cmp::Ordering;

/// Shares that differ by no more than this are the same, for the reader: half a per cent of all frames or connections.
const SAME_SHARE: f64 = 0.005;
/// Where one firewall does something and another nothing, the ratio has no end. No other difference is as large.
const MOST: f64 = 100.0;

/// How the firewalls of a setting differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Difference {
    /// They do not, whatever two of them are compared.
    Same,
    /// Nobody knows: there are no two values to compare, or too few rounds for the noise.
    Unknown,
    /// One of them has no value.
    NoValue,
    /// Two of them differ by this much at least: the logarithm of their ratio.
    By(f64),
}

impl Difference {
    /// Of two settings, or of two pairs of firewalls, what a reader should see first.
    fn or(self, other: Self) -> Self {
        if self.compare(other) == Ordering::Less { other } else { self }
    }

    pub(crate) fn compare(self, other: Self) -> Ordering {
        let key = |d: Self| match d {
            Difference::Same => (0, 0.0),
            Difference::Unknown => (1, 0.0),
            Difference::NoValue => (2, 0.0),
            Difference::By(effect) => (3, effect),
        };
        let ((a, x), (b, y)) = (key(self), key(other));
        a.cmp(&b).then(x.total_cmp(&y))
    }

    fn among(all: impl Iterator<Item = Self>) -> Self {
        all.reduce(Self::or).unwrap_or(Difference::Unknown)
    }
}

/// Those that are compared: the firewalls, or, where there are fewer than two, everything but the calibration.
fn compared<'s, 'a>(setting: &'s Setting<'a>) -> Vec<&'s Reading<'a>> {
    let of = |keep: fn(Role) -> bool| setting.points.iter().filter(|p| keep(p.role)).collect::<Vec<_>>();
    let firewalls = of(|role| role == Role::Firewall);
    if firewalls.len() < 2 { of(|role| role != Role::Calibration) } else { firewalls }
}

/// How the firewalls of a setting differ. Times at loads of their own are not compared.
pub(crate) fn of_setting(setting: &Setting<'_>) -> Difference {
    let points = compared(setting);
    if points.len() < 2 || setting.is_apart() {
        return Difference::Unknown;
    }
    let pairs = points.iter().enumerate().flat_map(|(n, a)| points[n + 1..].iter().map(move |b| pair(a, b)));
    Difference::among(pairs)
}

fn pair(a: &Reading<'_>, b: &Reading<'_>) -> Difference {
    if !a.valid || !b.valid {
        return Difference::NoValue;
    }
    let all = |p: &Reading<'_>| p.rounds.iter().chain([&p.value]).all(|round| *round == a.value);
    if all(a) && all(b) {
        return Difference::Same;
    }
    if let Some(ratio) = ratio::of_points(a, b) {
        let nearest = if ratio.value < 1.0 { ratio.high } else { ratio.low };
        return match (ratio.differs(), ratio.holds()) {
            (true, _) => Difference::By(nearest.ln().abs().min(MOST)),
            (false, true) => Difference::Same,
            (false, false) => Difference::Unknown,
        };
    }
    if a.interval().is_none() || b.interval().is_none() {
        return Difference::Unknown;
    }
    let (less, more) = if a.value < b.value { (a, b) } else { (b, a) };
    let reach = more.high.max(less.high) - less.low.min(more.low);
    match (more.low > less.high, a.metric.unit() == "ratio") {
        // Of two losses, the ratio of what was not lost.
        (true, true) if more.low - less.high > SAME_SHARE => {
            Difference::By(((1.0 - less.high) / (1.0 - more.low)).ln().abs().min(MOST))
        }
        (true, false) => Difference::By(((1.0 + more.low) / (1.0 + less.high)).ln().abs().min(MOST)),
        (_, true) if reach <= SAME_SHARE => Difference::Same,
        _ => Difference::Unknown,
    }
}

/// How the firewalls differ anywhere in a block.
pub(crate) fn of_block(block: &Block<'_>) -> Difference {
    Difference::among(block.settings.iter().map(|s| s.difference))
}

/// Puts first what differs most; what is computed from other values stands behind those.
pub(crate) fn sort(tests: &mut [Test<'_>]) {
    let first = |a: (Difference, bool), b: (Difference, bool)| a.1.cmp(&b.1).then(b.0.compare(a.0));
    for test in tests.iter_mut() {
        let key = |b: &Block<'_>| {
            let difference = of_block(b);
            (difference, matches!(difference, Difference::By(_)) && stands_behind(b))
        };
        test.blocks.sort_by(|a, b| match (key(a), key(b)) {
            // Of what differs, first what was measured.
            ((Difference::By(_), _), (Difference::By(_), _)) => first(key(a), key(b)),
            ((a, _), (b, _)) => b.compare(a),
        });
    }
    let of_test = |t: &Test<'_>| Difference::among(t.blocks.iter().map(of_block));
    tests.sort_by(|a, b| of_test(b).compare(of_test(a)));
}

/// Whether a metric says again, in another unit, what other values of the same trials say, or describes what they rest on. Virtual
/// clients that wait for each answer complete fewer transactions the longer each takes.
fn stands_behind(block: &Block<'_>) -> bool {
    use Metric::{
        BufferDelay, BufferTime, Cost, FrameRate, Goodput, TcpEfficiency, TransactionTime,
        TransactionTimeP99, TransferTimeRatio,
    };
    match block.metric {
        // What bulk transfers are measured for.
        Goodput => !block.settings.iter().flat_map(|s| &s.points).any(|point| point.sent() == Sent::Bulk),
        Cost | BufferTime | FrameRate | TransactionTime | TransactionTimeP99 => true,
        TransferTimeRatio | TcpEfficiency | BufferDelay => true,
        _ => false,
    }
}

/// What is the same for all firewalls of these settings, in one sentence; none where anything differs or is not known.
pub(crate) fn same(block: &Block<'_>) -> Option<String> {
    if block.settings.is_empty() || of_block(block) != Difference::Same {
        return None;
    }
    let values = || block.settings.iter().flat_map(compared).map(|p| p.value);
    let (least, most) = values().fold((f64::INFINITY, 0.0_f64), |(l, m), v| (l.min(v), m.max(v)));
    let (least, most) = (units::words(block.metric.unit(), least), units::words(block.metric.unit(), most));
    let values = if least == most { least } else { format!("{least} to {most}") };
    let settings = match block.settings.len() {
        1 => String::new(),
        n => format!(" in all {n} settings"),
    };
    let title = block.metric.row().title;
    Some(format!("{title}: level for all firewalls{settings}, {values}."))
}

/// The settings in which something differs or is not known, and those that are the same for all firewalls. Settings that a
/// chart shows together, which `groups` lists, stay together.
pub(crate) fn split<'a>(groups: Vec<Vec<&Setting<'a>>>, metric: Metric) -> (Block<'a>, Block<'a>) {
    let (mut differs, mut same) =
        (Block { metric, settings: Vec::new() }, Block { metric, settings: Vec::new() });
    for group in groups {
        let difference = Difference::among(group.iter().map(|s| s.difference));
        let into = if difference == Difference::Same { &mut same } else { &mut differs };
        into.settings.extend(group.into_iter().cloned());
    }
    (differs, same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::view::View;
    use measure::results::Results;

    /// EANTC's run, in which the firewalls establish the same connections.
    fn run(edit: impl Fn(&mut Results)) -> Results {
        let mut run = sample::eantc_tcp(&["linux", "nftables", "iptables"]);
        for point in &mut run.points {
            (point.valid, point.marks) = (true, Vec::new());
            // One value for all of them, with noise of one in a thousand.
            point.value = 1000.0;
            point.rounds = vec![1000.0, 999.0, 1001.0, 1000.0, 1000.0];
            (point.low, point.high) = (999.0, 1001.0);
        }
        edit(&mut run);
        run
    }

    fn times(run: &mut Results, metric: Metric, dut: &str, factor: f64) {
        for place in sample::places(run, |p| p.metric == metric && p.dut == dut) {
            let point = &mut run.points[place];
            for value in point.rounds.iter_mut().chain([&mut point.value, &mut point.low, &mut point.high]) {
                *value *= factor;
            }
        }
    }

    #[test]
    fn what_differs_most_stands_first_and_what_is_the_same_is_a_sentence() {
        let run = run(|run| {
            times(run, Metric::Surviving, "iptables", 0.5);
            times(run, Metric::ConnectionRate, "iptables", 0.9);
        });
        let view = View::new(&run, None);
        let metrics: Vec<Metric> = view.tests.iter().map(|t| t.blocks[0].metric).collect();
        assert_eq!(metrics[..2], [Metric::Surviving, Metric::ConnectionRate], "the largest first");
        let blocks = || view.tests.iter().flat_map(|t| &t.blocks);
        let established = blocks().find(|b| b.metric == Metric::Established).unwrap();
        let said = same(established).unwrap();
        assert!(said.starts_with("Established connections: level for all firewalls in all"), "{said}");
        assert!(said.ends_with("1,000 connections."), "{said}");
        let surviving = blocks().find(|b| b.metric == Metric::Surviving).unwrap();
        assert_eq!(same(surviving), None);
    }

    #[test]
    fn what_only_forwards_does_not_make_firewalls_differ_and_noise_is_not_the_same() {
        let linux = run(|run| times(run, Metric::Established, "linux", 0.5));
        let of = |run: &Results| {
            let view = View::new(run, None);
            let mut blocks = view.tests.iter().flat_map(|t| &t.blocks);
            of_block(blocks.find(|b| b.metric == Metric::Established).unwrap())
        };
        assert_eq!(of(&linux), Difference::Same);
        let noisy = run(|run| {
            for point in run.points.iter_mut().filter(|p| p.dut == "iptables") {
                point.rounds = vec![400.0, 2500.0, 900.0, 1800.0, 500.0];
            }
        });
        assert_eq!(of(&noisy), Difference::Unknown);
        let broken =
            run(|run| run.points.iter_mut().filter(|p| p.dut == "iptables").for_each(|p| p.valid = false));
        assert_eq!(of(&broken), Difference::NoValue);
        let halved = run(|run| {
            times(run, Metric::Established, "iptables", 0.5);
            run.points.iter_mut().filter(|p| p.dut == "iptables").for_each(|p| p.rounds.rotate_left(1));
        });
        let Difference::By(effect) = of(&halved) else { panic!("{:?}", of(&halved)) };
        assert!(effect > 0.68 && effect < 2.0_f64.ln(), "the end of the interval nearest to 1: {effect}");
    }

    #[test]
    fn losses_are_the_same_only_where_their_intervals_are_narrow() {
        let mut run = sample::demo();
        let [mut a, mut b] = [run.points.remove(0), run.points.remove(0)];
        let mut check = |low: (f64, f64), high: (f64, f64)| {
            for (point, (l, h)) in [(&mut a, low), (&mut b, high)] {
                (point.metric, point.unit, point.valid) = (Metric::Loss, "ratio".into(), true);
                (point.value, point.low, point.high) = (f64::midpoint(l, h), l, h);
                point.rounds = vec![l, h];
            }
            let cell = run.cells[0].clone();
            let reading = |point| Reading { point, cell: &cell, role: Role::Firewall, run: None };
            pair(&reading(&a), &reading(&b))
        };
        assert_eq!(check((0.0, 0.0), (0.0, 0.0)), Difference::Same);
        assert_eq!(check((0.0, 0.001), (0.0, 0.004)), Difference::Same);
        assert_eq!(check((0.0, 0.2), (0.1, 0.4)), Difference::Unknown);
        assert_eq!(check((0.0, 0.0), (0.5, 0.5)), Difference::By(2.0_f64.ln()));
        assert_eq!(check((0.0, 0.0), (1.0, 1.0)), Difference::By(MOST));
    }
}
