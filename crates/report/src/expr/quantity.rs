//! Numbers that know their noise. Points of one cell were measured in turns, so their rounds are put together one by one and
//! the interval is that of the result; whatever else is put together gets the widest interval that both sides allow. Pure.

use super::Arithmetic;
use measure::stats::{Estimate, Scale, median};

/// What a term comes to.
#[derive(Debug, Clone)]
pub(super) struct Quantity {
    /// The median over the rounds.
    pub(super) value: f64,
    /// Lower end of the interval; without bound when a value behind it was measured in one round only.
    pub(super) low: f64,
    /// Upper end of it.
    pub(super) high: f64,
    /// The interval misses the truth in this share of all cases.
    error: f64,
    rounds: Rounds,
}

#[derive(Debug, Clone)]
enum Rounds {
    /// The same in every round.
    Number,
    /// The values of the rounds, the identifier of the cell that they are of, and the scale of their noise.
    Of(u32, Vec<f64>, Scale),
    /// Not known round by round.
    Apart,
}

impl Quantity {
    /// A number that somebody wrote.
    pub(super) const fn number(value: f64) -> Self {
        Self { value, low: value, high: value, error: 1.0, rounds: Rounds::Number }
    }

    /// A figure without rounds, which is taken as it stands: a count, or an end of an interval.
    pub(super) const fn figure(value: f64) -> Self {
        Self { value, low: value, high: value, error: 1.0, rounds: Rounds::Apart }
    }

    /// A figure of which only the ends of an interval are known.
    pub(super) const fn between(value: f64, low: f64, high: f64) -> Self {
        Self { value, low, high, error: 1.0, rounds: Rounds::Apart }
    }

    /// A figure of a point that was measured in rounds. `value` stands when no round has a value.
    pub(super) fn measured(cell: u32, value: f64, rounds: Vec<f64>, scale: Scale, error: f64) -> Self {
        let usable: Vec<f64> = rounds.iter().copied().filter(|r| r.is_finite()).collect();
        let open = (f64::NEG_INFINITY, f64::INFINITY);
        let estimate = Estimate::of(&usable, scale, error);
        let (low, high) = estimate.map_or((value, value), |e| e.interval().unwrap_or(open));
        Self { value, low, high, error, rounds: Rounds::Of(cell, rounds, scale) }
    }

    /// One number of many: `of` is asked for the values, for the lower ends and for the upper ones.
    pub(super) fn aggregated(many: &[Self], of: impl Fn(&[f64]) -> f64) -> Self {
        let all = |side: fn(&Self) -> f64| of(&many.iter().map(side).collect::<Vec<_>>());
        Self {
            value: all(|q| q.value),
            low: all(|q| q.low),
            high: all(|q| q.high),
            error: 1.0,
            rounds: Rounds::Apart,
        }
    }

    /// Whether nothing is known of its noise.
    pub(super) fn is_open(&self) -> bool {
        self.low == f64::NEG_INFINITY && self.high == f64::INFINITY
    }

    /// Whether it is above 0 in every round, and its noise a share of it: then it is compared by its ratio to another such one.
    pub(super) fn has_ratio(&self) -> bool {
        match &self.rounds {
            Rounds::Number => self.value > 0.0,
            Rounds::Of(_, rounds, scale) => *scale == Scale::Ratio && rounds.iter().all(|r| *r > 0.0),
            Rounds::Apart => false,
        }
    }

    /// Its negative.
    pub(super) fn negative(self) -> Self {
        Self::number(0.0).with(Arithmetic::Minus, self)
    }

    /// Both put together; none when the result is no number.
    pub(super) fn with(self, operator: Arithmetic, other: Self) -> Self {
        let calculate = |a: f64, b: f64| arithmetic(a, operator, b);
        let value = calculate(self.value, other.value);
        let (error, rounds) = (self.error.min(other.error), (&self.rounds, &other.rounds));
        let in_rounds = match rounds {
            (Rounds::Of(cell, a, _), Rounds::Of(same, b, _)) if cell == same => {
                Some((*cell, a.iter().zip(b).map(|(a, b)| calculate(*a, *b)).collect()))
            }
            (Rounds::Of(cell, a, _), Rounds::Number) => {
                Some((*cell, a.iter().map(|a| calculate(*a, other.value)).collect()))
            }
            (Rounds::Number, Rounds::Of(cell, b, _)) => {
                Some((*cell, b.iter().map(|b| calculate(self.value, *b)).collect::<Vec<f64>>()))
            }
            (Rounds::Number, Rounds::Number) => return Self::number(value),
            _ => None,
        };
        if let Some((cell, rounds)) = in_rounds {
            // The median of the ratios, not the ratio of the medians: what disturbed a whole round cancels out.
            let usable: Vec<f64> = rounds.iter().copied().filter(|r| r.is_finite()).collect();
            let value = median(&usable).unwrap_or(value);
            let product = matches!(operator, Arithmetic::Times | Arithmetic::Over);
            let ratio = product && self.has_ratio() && other.has_ratio();
            let scale = if ratio { Scale::Ratio } else { Scale::Difference };
            return Self::measured(cell, value, rounds, scale, error);
        }
        let corners = [
            calculate(self.low, other.low),
            calculate(self.low, other.high),
            calculate(self.high, other.low),
            calculate(self.high, other.high),
        ];
        // Nothing is known of what an unbounded end makes.
        let known = corners.iter().all(|c| !c.is_nan());
        let (low, high) = if known {
            let end = |pick: fn(f64, f64) -> f64| corners.into_iter().reduce(pick).unwrap_or(value);
            (end(f64::min), end(f64::max))
        } else {
            (f64::NEG_INFINITY, f64::INFINITY)
        };
        Self { value, low, high, error, rounds: Rounds::Apart }
    }

    /// Whether it is this number in every round.
    pub(super) fn is_always(&self, number: f64) -> bool {
        match &self.rounds {
            Rounds::Of(_, rounds, _) if !rounds.is_empty() => rounds.iter().all(|r| *r == number),
            _ => self.low == number && self.high == number && self.value == number,
        }
    }

    /// Whether it is this number in no round.
    pub(super) fn is_never(&self, number: f64) -> bool {
        match &self.rounds {
            Rounds::Of(_, rounds, _) if !rounds.is_empty() => rounds.iter().all(|r| *r != number),
            _ => self.value != number,
        }
    }
}

fn arithmetic(a: f64, operator: Arithmetic, b: f64) -> f64 {
    match operator {
        Arithmetic::Plus => a + b,
        Arithmetic::Minus => a - b,
        Arithmetic::Times => a * b,
        Arithmetic::Over => a / b,
    }
}
