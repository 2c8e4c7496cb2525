//! Numbers for people: Mpps, Gbit/s, µs. Three significant digits, because no figure of the bench holds more.

use measure::level::grouped;
use measure::results::Point;

/// Steps of 1000, largest first, with their prefix.
const PREFIXES: [(f64, &str); 4] = [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];

/// A number with `digits` significant digits and no exponent.
pub(crate) fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".into() } else { format!("{value}") };
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = (digits - 1 - magnitude).max(0) as usize;
    let text = format!("{value:.decimals$}");
    // 9.996 rounds up to 10.00, which would show a digit too many.
    if decimals > 0 && rounds_up(&text, magnitude) { format!("{value:.*}", decimals - 1) } else { text }
}

fn rounds_up(text: &str, magnitude: i32) -> bool {
    text.parse::<f64>().is_ok_and(|v| v != 0.0 && v.abs().log10().floor() as i32 > magnitude)
}

/// The scale that suits a value of a unit: what to divide by, and what to write behind the number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    /// Divisor.
    pub(crate) by: f64,
    /// Prefix and unit, as printed.
    pub(crate) unit: (&'static str, &'static str),
}

impl Scale {
    /// The scale for `value` in the schema's `unit`.
    pub(crate) fn of(unit: &str, value: f64) -> Self {
        match unit {
            "frames/s" => prefixed(value, "pps"),
            "bit/s" => prefixed(value, "bit/s"),
            "ns" => time(value),
            "s" => Scale { by: time(value * 1e9).by / 1e9, unit: time(value * 1e9).unit },
            "ratio" => Scale { by: 0.01, unit: ("", "%") },
            "times" => Scale { by: 1.0, unit: ("", "times") },
            "ns/frame" => Scale { by: 1.0, unit: ("", "ns") },
            "frames" => prefixed(value, "frames"),
            "connections/s" | "transactions/s" | "teardowns/s" => prefixed(value, "/s"),
            "transactions/min" => prefixed(value, "/min"),
            "connections" => connections(value),
            "bytes" => bytes(value),
            "bytes/s" => prefixed(value, "B/s"),
            _ => Scale { by: 1.0, unit: ("", "") },
        }
    }

    /// The unit as printed.
    pub(crate) fn label(&self) -> String {
        format!("{}{}", self.unit.0, self.unit.1)
    }

    /// The number alone.
    pub(crate) fn number(&self, value: f64) -> String {
        let counted = self.by == 1.0 && matches!(self.unit.1, "frames" | "connections");
        if counted && value.fract() == 0.0 { format!("{value:.0}") } else { significant(value / self.by, 3) }
    }

    /// Number and unit.
    pub(crate) fn text(&self, value: f64) -> String {
        format!("{} {}", self.number(value), self.label()).trim_end().to_string()
    }
}

fn prefixed(value: f64, unit: &'static str) -> Scale {
    let &(by, prefix) = PREFIXES.iter().find(|(by, _)| value.abs() >= *by).unwrap_or(&PREFIXES[3]);
    Scale { by, unit: (prefix, unit) }
}

fn time(nanoseconds: f64) -> Scale {
    let (by, unit) = match nanoseconds.abs() {
        t if t >= 1e9 => (1e9, "s"),
        t if t >= 1e6 => (1e6, "ms"),
        t if t >= 1e3 => (1e3, "µs"),
        _ => (1.0, "ns"),
    };
    Scale { by, unit: ("", unit) }
}

/// Connections are counted to the last one as long as a reader can take the number in: a report prints 1607 of 4096.
fn connections(value: f64) -> Scale {
    let (by, unit) = match value.abs() {
        v if v >= 1e6 => (1e6, "M connections"),
        v if v >= 1e5 => (1e3, "k connections"),
        _ => (1.0, "connections"),
    };
    Scale { by, unit: ("", unit) }
}

fn bytes(value: f64) -> Scale {
    let (by, unit) = match value {
        v if v >= 1_073_741_824.0 => (1_073_741_824.0, "GiB"),
        v if v >= 1_048_576.0 => (1_048_576.0, "MiB"),
        v if v >= 1024.0 => (1024.0, "KiB"),
        _ => (1.0, "bytes"),
    };
    Scale { by, unit: ("", unit) }
}

/// A value of a unit, as printed: `8.52 Mpps`, `1.24 Gbit/s`, `12.3 µs`, `0.5 %`.
pub fn value(unit: &str, value: f64) -> String {
    let scale = Scale::of(unit, value);
    if scale.label().is_empty() {
        return format!("{} {unit}", significant(value, 3)).trim_end().to_string();
    }
    scale.text(value)
}

/// The value of a point, with what is not known of it where two hosts with two clocks measured it: `23.1 µs ± 62 µs`.
pub fn measured(point: &Point) -> String {
    format!("{}{}", value(&point.unit, point.value), clock_error(&point.unit, point.clock_error))
}

/// Behind a time that two hosts measured: how far it may be off either way because they have two clocks. Nothing of one host.
pub(crate) fn clock_error(unit: &str, error: f64) -> String {
    if error > 0.0 { format!(" ± {}", value(unit, error)) } else { String::new() }
}

/// An interval in the unit of its middle: `1.21–1.27`.
pub fn interval(unit: &str, middle: f64, low: f64, high: f64) -> String {
    let scale = Scale::of(unit, middle);
    format!("{}–{}", scale.number(low), scale.number(high))
}

/// A ratio: `2.05×`.
pub(crate) fn ratio(value: f64) -> String {
    format!("{}×", significant(value, 3))
}

/// How many times as much, in a sentence: two decimals near 1, where they matter, and fewer above.
pub fn times(value: f64) -> String {
    match value.abs() {
        v if !(0.1..100.0).contains(&v) => significant(value, if v < 0.1 { 2 } else { 3 }),
        v if v >= 10.0 => format!("{value:.0}"),
        v if v >= 2.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A value as a person says it: `2.55 million frames a second`, `386,000 connections a second`, `1.1 µs`.
pub(crate) fn words(unit: &str, value: f64) -> String {
    let noun = match unit {
        "frames/s" => "frames a second",
        "connections/s" | "teardowns/s" => "connections a second",
        "transactions/s" => "requests a second",
        "transactions/min" => "transactions a minute",
        "frames" => "frames",
        "connections" => "connections",
        "ns/frame" => return words("ns", value),
        _ => {
            let text = self::value(unit, value);
            let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
            return format!("{} {unit}", trimmed(number)).trim_end().to_owned();
        }
    };
    let counted = unit == noun && value.fract() == 0.0 && value.abs() < 1e5;
    let rounded = if counted { format!("{value:.0}") } else { significant(value, 3) };
    let number = match value.abs() {
        v if v >= 1e9 => format!("{} billion", trimmed(&significant(value / 1e9, 3))),
        v if v >= 1e6 => format!("{} million", trimmed(&significant(value / 1e6, 3))),
        v if v >= 1e3 && !counted => grouped(whole(&hundreds(value))),
        v if v >= 1e3 => grouped(whole(&rounded)),
        _ => trimmed(&rounded).to_owned(),
    };
    format!("{number} {noun}")
}

/// Three significant digits of a number from a thousand to a million: 97,031 becomes 97000.
fn hundreds(value: f64) -> String {
    let step = if value.abs() >= 1e5 {
        1000.0
    } else if value.abs() >= 1e4 {
        100.0
    } else {
        10.0
    };
    format!("{:.0}", (value / step).round() * step)
}

/// Without zeros behind the last digit that says something.
fn trimmed(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// The number that digits write.
fn whole(digits: &str) -> u64 {
    digits.parse().unwrap_or(0)
}

/// A share of 1 as per cent.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", significant(share * 100.0, 3))
}

/// A share that may be very small: `0.75 in a million`; per cent from a thousandth upwards.
pub(crate) fn rare(share: f64) -> String {
    if share > 0.0 && share < 1e-3 {
        format!("{} in a million", significant(share * 1e6, 2))
    } else {
        percent(share)
    }
}

/// A whole number with thin spaces between groups of three.
pub(crate) fn count(value: u64) -> String {
    grouped(value).replace(',', "\u{202f}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_printed_with_three_digits_and_a_fitting_unit() {
        let rows = [
            ("frames/s", 8_523_456.0, "8.52 Mpps"),
            ("frames/s", 999.6, "1000 pps"),
            ("frames/s", 120_000.0, "120 kpps"),
            ("bit/s", 1.2e9, "1.20 Gbit/s"),
            ("ns", 850.0, "850 ns"),
            ("ns", 12_345.0, "12.3 µs"),
            ("ns", 1.5e9, "1.50 s"),
            ("s", 0.0015, "1.50 ms"),
            ("s", 2.0, "2.00 s"),
            ("ratio", 0.005, "0.500 %"),
            ("ratio", 0.0, "0 %"),
            ("ns/frame", 812.4, "812 ns"),
            ("frames", 256.0, "256 frames"),
            ("bytes/s", 1.25e9, "1.25 GB/s"),
            ("furlongs", 3.0, "3.00 furlongs"),
            ("bytes", 8.0 * 1_073_741_824.0, "8.00 GiB"),
            ("frames", 12.0, "12 frames"),
            ("connections/s", 1_210_000.0, "1.21 M/s"),
            ("connections/s", 97_031.0, "97.0 k/s"),
            ("teardowns/s", 532.0, "532 /s"),
            ("connections", 1607.0, "1607 connections"),
            ("connections", 66_000.0, "66000 connections"),
            ("connections", 4096.5, "4096 connections"),
            ("connections", 1_048_576.0, "1.05 M connections"),
            ("ratio", 0.3923, "39.2 %"),
        ];
        for (unit, number, expected) in rows {
            assert_eq!(value(unit, number), expected, "{number} {unit}");
        }
    }

    #[test]
    fn rounding_up_to_the_next_power_keeps_the_number_of_digits() {
        let rows = [(9.996, "10.0"), (0.09996, "0.100"), (99.96, "100"), (1.0, "1.00"), (-9.996, "-10.0")];
        for (number, expected) in rows {
            assert_eq!(significant(number, 3), expected);
        }
    }

    #[test]
    fn values_are_said_as_people_say_them() {
        let rows = [
            ("frames/s", 2_551_234.0, "2.55 million frames a second"),
            ("frames/s", 2_500_000.0, "2.5 million frames a second"),
            ("frames/s", 597_312.0, "597,000 frames a second"),
            ("frames/s", 999_900.0, "1,000,000 frames a second"),
            ("connections/s", 97_031.0, "97,000 connections a second"),
            ("connections/s", 5_312.0, "5,310 connections a second"),
            ("transactions/s", 532.4, "532 requests a second"),
            ("connections", 4_096.0, "4,096 connections"),
            ("connections", 1_048_576.0, "1.05 million connections"),
            ("connections", 0.0, "0 connections"),
            ("bit/s", 1.2e9, "1.2 Gbit/s"),
            ("ns", 1_100.0, "1.1 µs"),
            ("ns/frame", 181.4, "181 ns"),
            ("ratio", 0.005, "0.5 %"),
            ("ratio", 1.0, "100 %"),
            ("s", 0.017, "17 ms"),
            ("bytes", 181.0 * 1_048_576.0, "181 MiB"),
        ];
        for (unit, value, expected) in rows {
            assert_eq!(words(unit, value), expected, "{value} {unit}");
        }
    }

    #[test]
    fn ratios_have_the_digits_that_matter() {
        let rows = [
            (5.47, "5.5"),
            (1.214, "1.21"),
            (0.926, "0.93"),
            (14.2, "14"),
            (129.4, "129"),
            (0.0312, "0.031"),
            (1.0, "1.00"),
        ];
        for (value, expected) in rows {
            assert_eq!(times(value), expected);
        }
    }

    #[test]
    fn counts_are_grouped_from_the_right() {
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(count(12), "12");
    }
}
