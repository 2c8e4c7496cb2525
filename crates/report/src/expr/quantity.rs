//! Numbers that know their noise. Points of one cell were measured in turns, so their rounds are put together one by one and
//! the interval is that of the result; whatever else is put together gets the widest interval that both sides allow. Pure.

use super::Arithmetic;
use measure::stats;

/// Equal runs give equal intervals, so the resampling has one seed.
const SEED: u64 = 1;

/// What a term comes to.
#[derive(Debug, Clone)]
pub(super) struct Quantity {
    /// The median over the rounds.
    pub(super) value: f64,
    /// Lower end of the 95 % interval.
    pub(super) low: f64,
    /// Upper end of it.
    pub(super) high: f64,
    /// Whether a value behind it was measured in one round only, so that nothing is known of its noise.
    pub(super) once: bool,
    rounds: Rounds,
}

#[derive(Debug, Clone)]
enum Rounds {
    /// The same in every round.
    Number,
    /// The values of the rounds, and the identifier of the cell that they are of.
    Of(u32, Vec<f64>),
    /// Not known round by round.
    Apart,
}

impl Quantity {
    /// A number that somebody wrote.
    pub(super) const fn number(value: f64) -> Self {
        Self { value, low: value, high: value, once: false, rounds: Rounds::Number }
    }

    /// A figure without rounds, which is taken as it stands: a count, or an end of an interval.
    pub(super) const fn figure(value: f64) -> Self {
        Self { value, low: value, high: value, once: false, rounds: Rounds::Apart }
    }

    /// A figure of a point that was measured in rounds. `value` stands when no round has a value.
    pub(super) fn measured(cell: u32, value: f64, rounds: Vec<f64>) -> Self {
        let estimated = Self::estimated(&rounds);
        let (low, high, once) = estimated.map_or((value, value, false), |q| (q.low, q.high, q.once));
        Self { value, low, high, once, rounds: Rounds::Of(cell, rounds) }
    }

    fn estimated(rounds: &[f64]) -> Option<Self> {
        let usable: Vec<f64> = rounds.iter().copied().filter(|r| r.is_finite()).collect();
        let e = stats::estimate(&usable, SEED)?;
        Some(Self { value: e.value, low: e.low, high: e.high, once: e.count == 1, rounds: Rounds::Apart })
    }

    /// One number of many: `of` is asked for the values, for the lower ends and for the upper ones.
    pub(super) fn aggregated(many: &[Self], of: impl Fn(&[f64]) -> f64) -> Self {
        let all = |side: fn(&Self) -> f64| of(&many.iter().map(side).collect::<Vec<_>>());
        Self {
            value: all(|q| q.value),
            low: all(|q| q.low),
            high: all(|q| q.high),
            once: many.iter().any(|q| q.once),
            rounds: Rounds::Apart,
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
        let rounds = match (&self.rounds, &other.rounds) {
            (Rounds::Of(cell, a), Rounds::Of(same, b)) if cell == same => {
                Some((*cell, a.iter().zip(b).map(|(a, b)| calculate(*a, *b)).collect()))
            }
            (Rounds::Of(cell, a), Rounds::Number) => {
                Some((*cell, a.iter().map(|a| calculate(*a, other.value)).collect()))
            }
            (Rounds::Number, Rounds::Of(cell, b)) => {
                Some((*cell, b.iter().map(|b| calculate(self.value, *b)).collect::<Vec<f64>>()))
            }
            (Rounds::Number, Rounds::Number) => return Self::number(value),
            _ => None,
        };
        if let Some((cell, rounds)) = rounds {
            // The median of the ratios, not the ratio of the medians: what disturbed a whole round cancels out.
            let value = Self::estimated(&rounds).map_or(value, |q| q.value);
            return Self::measured(cell, value, rounds);
        }
        let corners = [
            calculate(self.low, other.low),
            calculate(self.low, other.high),
            calculate(self.high, other.low),
            calculate(self.high, other.high),
        ];
        Self {
            value,
            low: corners.into_iter().fold(f64::INFINITY, f64::min),
            high: corners.into_iter().fold(f64::NEG_INFINITY, f64::max),
            once: self.once || other.once,
            rounds: Rounds::Apart,
        }
    }

    /// Whether it is this number in every round.
    pub(super) fn is_always(&self, number: f64) -> bool {
        match &self.rounds {
            Rounds::Of(_, rounds) if !rounds.is_empty() => rounds.iter().all(|r| *r == number),
            _ => self.low == number && self.high == number && self.value == number,
        }
    }

    /// Whether it is this number in no round.
    pub(super) fn is_never(&self, number: f64) -> bool {
        match &self.rounds {
            Rounds::Of(_, rounds) if !rounds.is_empty() => rounds.iter().all(|r| *r != number),
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
