//! Axes: from values to pixels, with ticks at round numbers. Pure.

use crate::units::{self, Scale};

/// A straight or logarithmic axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Axis {
    low: f64,
    high: f64,
    log: bool,
    start_px: f64,
    end_px: f64,
}

impl Axis {
    /// An axis for values that starts at zero or, when they span more than a factor of `log_from`, a logarithmic one.
    pub(crate) fn for_values(values: &[f64], log_from: f64, px: (f64, f64)) -> Self {
        let high = values.iter().copied().fold(0.0, f64::max);
        let low = values.iter().copied().filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
        let zero = values.iter().any(|v| *v <= 0.0);
        if !zero && low.is_finite() && high / low > log_from {
            return Self::log(low, high, px);
        }
        Self::linear(high, px)
    }

    /// From zero to a round number above `high`; up to 1 where that suffices, because nothing is more than all of it.
    pub(crate) fn linear(high: f64, (start_px, end_px): (f64, f64)) -> Self {
        let high = if high > 0.0 { high } else { 1.0 };
        let step = nice_step(high * 1.02 / 5.0);
        let end = (high * 1.02 / step).ceil() * step;
        let high = if high <= 1.0 { end.min(1.0) } else { end };
        Self { low: 0.0, high, log: false, start_px, end_px }
    }

    /// From a round number below `low` to one above `high`, both above zero.
    pub(crate) fn log(low: f64, high: f64, (start_px, end_px): (f64, f64)) -> Self {
        let (low, high) = (round_down(low * 0.97), round_up(high * 1.03));
        Self { low, high, log: true, start_px, end_px }
    }

    /// Whether a value lies beyond an end of the axis, where [`Axis::at`] can only show that end.
    pub(crate) fn is_beyond(&self, value: f64) -> bool {
        value < self.low * 0.999 || value > self.high * 1.001
    }

    /// The direction in px, 1 or -1, in which a value beyond the axis lies.
    pub(crate) fn outward(&self, value: f64) -> f64 {
        let forward = (self.end_px - self.start_px).signum();
        if value > self.high { forward } else { -forward }
    }

    /// Where it ends.
    pub(crate) const fn end(&self) -> f64 {
        self.end_px
    }

    /// The pixel of a value; values beyond the axis stay at its end.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.start_px + share.clamp(0.0, 1.0) * (self.end_px - self.start_px)
    }

    /// Values of the ticks: few enough that labels `room` px apart do not touch.
    pub(crate) fn ticks(&self, room: f64) -> Vec<f64> {
        let fits = ((self.end_px - self.start_px).abs() / room).floor().max(1.0) as usize;
        if self.log { self.log_ticks(fits) } else { self.linear_ticks(fits) }
    }

    fn linear_ticks(&self, fits: usize) -> Vec<f64> {
        let step = nice_step(self.high / fits as f64);
        let count = (self.high / step + 1e-9).floor() as usize;
        (0..=count).map(|i| i as f64 * step).collect()
    }

    fn log_ticks(&self, fits: usize) -> Vec<f64> {
        for digits in [&[1.0, 2.0, 5.0][..], &[1.0, 3.0][..], &[1.0][..]] {
            let ticks = self.log_ticks_at(digits);
            if ticks.len() <= fits + 1 && ticks.len() > 1 {
                return ticks;
            }
        }
        let decades = self.log_ticks_at(&[1.0]);
        if decades.len() < 2 {
            return vec![self.low, self.high];
        }
        let stride = decades.len().div_ceil(fits.max(1));
        decades.into_iter().step_by(stride).collect()
    }

    fn log_ticks_at(&self, digits: &[f64]) -> Vec<f64> {
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        (first..=last)
            .flat_map(|power| digits.iter().map(move |d| d * 10f64.powi(power)))
            .filter(|t| *t >= self.low * 0.999 && *t <= self.high * 1.001)
            .collect()
    }

    /// A tick's label. On a straight axis all labels share a unit, which stands in the axis' name.
    pub(crate) fn label(&self, unit: &str, tick: f64) -> String {
        if self.log {
            trim(units::value(unit, tick).trim_end_matches(" connections"))
        } else {
            trim(&self.scale(unit).number(tick))
        }
    }

    /// The axis' name with its unit.
    pub(crate) fn name(&self, what: &str, unit: &str) -> String {
        if self.log {
            format!("{what}, logarithmic")
        } else {
            match self.scale(unit).label().as_str() {
                // The axis' name says already what is counted.
                "connections" => what.to_string(),
                "k connections" => format!("{what}, thousands"),
                "M connections" => format!("{what}, millions"),
                label => format!("{what}, {label}"),
            }
        }
    }

    fn scale(&self, unit: &str) -> Scale {
        Scale::of(unit, self.high * 0.999)
    }
}

/// A value with its interval: value, low, high.
pub(crate) type Span = (f64, f64, f64);

/// What an axis must reach: every value, and the ends of the intervals that are moderate. An interval that reaches to
/// more than twice the largest value, or to less than half the smallest, tells of noise: scaled by it, a chart would
/// show nothing else. It is cut off at the edge, with some room to be seen.
pub(crate) fn reach(spans: &[Span]) -> Vec<f64> {
    let largest = spans.iter().map(|s| s.0).fold(0.0, f64::max);
    let smallest = spans.iter().map(|s| s.0).filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
    let mut reached: Vec<f64> = spans.iter().map(|s| s.0.max(0.0)).collect();
    for &(value, low, high) in spans {
        let too_high = largest > 0.0 && high > largest * 2.0;
        reached.push(if too_high { largest * 1.25 } else { high.max(value).max(0.0) });
        if low <= 0.0 || low >= smallest / 2.0 {
            reached.push(low.min(value).max(0.0));
        }
    }
    reached
}

/// `1.00 Mpps` reads `1 Mpps` at a tick.
fn trim(text: &str) -> String {
    let (number, rest) = text.split_once(' ').map_or((text, ""), |(n, r)| (n, r));
    let number =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number} {rest}").trim_end().to_string()
}

fn nice_step(at_least: f64) -> f64 {
    let power = 10f64.powf(at_least.log10().floor());
    let digit =
        [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|d| d * power >= at_least * 0.999).unwrap_or(10.0);
    digit * power
}

fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|d| d * power).find(|v| *v >= value * 0.999).unwrap_or(power * 10.0)
}

fn round_down(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|d| d * power).find(|v| *v <= value * 1.001).unwrap_or(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_fit_and_reach_from_end_to_end() {
        let axis = Axis::linear(8.5e6, (0.0, 300.0));
        let labels: Vec<String> = axis.ticks(50.0).iter().map(|t| axis.label("frames/s", *t)).collect();
        assert_eq!(labels, ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(axis.name("Throughput", "frames/s"), "Throughput, Mpps");
        let axis = Axis::for_values(&[5.3e5, 1.5e7], 8.0, (0.0, 300.0));
        assert!(axis.log);
        let labels: Vec<String> = axis.ticks(50.0).iter().map(|t| axis.label("frames/s", *t)).collect();
        assert_eq!(labels, ["500 kpps", "1 Mpps", "2 Mpps", "5 Mpps", "10 Mpps", "20 Mpps"]);
    }

    #[test]
    fn shares_end_at_all_of_it() {
        for (high, last) in [(0.0, "100"), (1.0, "100"), (0.99, "100"), (0.5, "60"), (1.1, "125")] {
            let axis = Axis::linear(high, (0.0, 300.0));
            let label = axis.ticks(50.0).last().map(|tick| axis.label("ratio", *tick));
            assert_eq!(label.as_deref(), Some(last), "{high}");
        }
    }

    #[test]
    fn an_axis_starts_at_zero_unless_the_values_span_orders_of_magnitude() {
        assert!(!Axis::for_values(&[1.0, 5.0], 8.0, (0.0, 1.0)).log);
        assert!(!Axis::for_values(&[0.0, 5.0, 500.0], 8.0, (0.0, 1.0)).log);
        assert!(!Axis::for_values(&[0.0], 8.0, (0.0, 1.0)).log, "all zero is drawn, not divided by");
        assert_eq!(Axis::linear(10.0, (100.0, 0.0)).at(0.0), 100.0);
    }

    #[test]
    fn an_axis_is_scaled_by_values_and_moderate_intervals_not_by_noise() {
        let highest = |spans: &[Span]| reach(spans).into_iter().fold(0.0, f64::max);
        assert_eq!(highest(&[(100.0, 90.0, 150.0), (50.0, 40.0, 60.0)]), 150.0, "moderate: in full");
        assert_eq!(highest(&[(100.0, 90.0, 110.0), (50.0, 40.0, 9e9)]), 125.0, "cut off, with room");
        assert_eq!(
            highest(&[(0.0, 0.0, 3.0)]),
            3.0,
            "without a value above 0 there is no scale but the interval"
        );
        assert_eq!(highest(&[(-30.0, -90.0, 36.0)]), 36.0);
        let lowest = |spans: &[Span]| reach(spans).into_iter().fold(f64::INFINITY, f64::min);
        assert_eq!(lowest(&[(100.0, 0.01, 110.0)]), 100.0);
        assert_eq!(lowest(&[(100.0, -5.0, 110.0)]), 0.0);
        let axis = Axis::linear(125.0, (0.0, 100.0));
        assert!(
            axis.is_beyond(9e9) && axis.is_beyond(-1.0) && !axis.is_beyond(0.0) && !axis.is_beyond(125.0)
        );
    }

    #[test]
    fn every_value_lands_on_the_axis() {
        for high in [1e-9, 0.3, 1.0, 999.0, 1e12] {
            let axis = Axis::for_values(&[high / 1e4, high], 8.0, (0.0, 100.0));
            for value in [0.0, high / 1e4, high / 2.0, high, high * 10.0] {
                assert!((0.0..=100.0).contains(&axis.at(value)), "{value} of {high}");
            }
            assert!(axis.ticks(20.0).len() >= 2, "{high}");
        }
    }
}
