//! The small language of `compare --fail-if` and of suites' expectations: `throughput{dut=rampart,frame=64} < 0.95`.
//! Its grammar is in `docs/guide/expressions.md`. Pure: judges points that it is given.

mod eval;
mod lexer;
mod parser;
mod quantity;
#[cfg(test)]
mod shipped;

pub use eval::{Mode, Outcome, Subject, Verdict, evaluate};
pub use parser::{parse, parse_values};

use measure::results::{Metric, Reading};
use std::fmt;
use std::ops::Range;

/// A parsed expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    text: String,
    root: Node,
}

impl Expression {
    /// The text that it was parsed from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What is true where this is not.
    pub(crate) fn negated(&self) -> Self {
        Self { text: self.text.clone(), root: Node::Not(Box::new(self.root.clone())) }
    }

    /// Whether a selector names a label.
    pub(crate) fn names(&self, label: &str) -> bool {
        self.selectors().iter().any(|s| s.labels.iter().any(|l| l.name == label))
    }

    /// Whether a selector takes a point.
    pub(crate) fn takes(&self, point: &Reading<'_>) -> bool {
        let is = |s: &&Selector| {
            s.metric.is_none_or(|m| m == point.metric)
                && s.labels.iter().all(|label| eval::has(Subject::Point(*point), label))
        };
        self.selectors().iter().any(is)
    }

    fn selectors(&self) -> Vec<&Selector> {
        let mut selectors = Vec::new();
        self.root.selectors(&mut selectors);
        selectors
    }

    /// Asks about every label, by its name and level, whether it can be one.
    ///
    /// # Errors
    /// [`ExprError`] at the first that `check` refuses, with its reason as help.
    pub fn check_labels(&self, check: &dyn Fn(&str, &str) -> Result<(), String>) -> Result<(), ExprError> {
        for label in self.selectors().into_iter().flat_map(|s| &s.labels) {
            check(&label.name, &label.value).map_err(|help| {
                let message = format!("`{}` cannot be a label", &self.text[label.span.clone()]);
                ExprError::at(&self.text, label.span.start, message, help)
            })?;
        }
        Ok(())
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Something true or false.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    Or(Box<Node>, Box<Node>),
    And(Box<Node>, Box<Node>),
    Not(Box<Node>),
    Compare { left: Term, operator: Operator, right: Term, span: Range<usize> },
    Valid(Selector),
}

impl Node {
    fn selectors<'n>(&'n self, into: &mut Vec<&'n Selector>) {
        match self {
            Node::Or(a, b) | Node::And(a, b) => {
                a.selectors(into);
                b.selectors(into);
            }
            Node::Not(inner) => inner.selectors(into),
            Node::Valid(selector) => into.push(selector),
            Node::Compare { left, right, .. } => {
                for term in [left, right] {
                    term.selectors(&|_| true, into);
                }
            }
        }
    }
}

/// A number, or what stands for one.
#[derive(Debug, Clone, PartialEq)]
enum Term {
    Number(f64),
    Points(Selector),
    Aggregate(Aggregate, Selector),
    Binary(Arithmetic, Box<Term>, Box<Term>),
    Negative(Box<Term>),
}

impl Term {
    /// The selectors of the terms that `wanted` takes, in the order of the text.
    fn selectors<'t>(&'t self, wanted: &dyn Fn(&Term) -> bool, into: &mut Vec<&'t Selector>) {
        match self {
            Term::Number(_) => {}
            Term::Points(selector) | Term::Aggregate(_, selector) => {
                into.extend(wanted(self).then_some(selector));
            }
            Term::Negative(inner) => inner.selectors(wanted, into),
            Term::Binary(_, a, b) => {
                a.selectors(wanted, into);
                b.selectors(wanted, into);
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

impl Operator {
    const fn negated(self) -> Self {
        match self {
            Operator::Less => Operator::GreaterOrEqual,
            Operator::LessOrEqual => Operator::Greater,
            Operator::Greater => Operator::LessOrEqual,
            Operator::GreaterOrEqual => Operator::Less,
            Operator::Equal => Operator::NotEqual,
            Operator::NotEqual => Operator::Equal,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arithmetic {
    Plus,
    Minus,
    Times,
    Over,
}

/// Makes one number of all points that a selector matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aggregate {
    Median,
    Mean,
    Least,
    Most,
}

/// Which points, and which of their figures.
#[derive(Debug, Clone, PartialEq)]
struct Selector {
    /// None in `valid{…}`, which takes points of any metric.
    metric: Option<Metric>,
    field: Field,
    labels: Vec<Label>,
    span: Range<usize>,
}

/// `name = value` or `name != value`.
#[derive(Debug, Clone, PartialEq)]
struct Label {
    name: String,
    value: String,
    wanted: bool,
    span: Range<usize>,
}

/// A figure of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Value,
    Low,
    High,
    Min,
    Mean,
    P50,
    P90,
    P99,
    P999,
    Max,
    Attempted,
    Established,
    Completed,
    Failed,
    Retransmitted,
    ByNeither,
}

const FIELDS: [(&str, Field); 16] = [
    ("value", Field::Value),
    ("low", Field::Low),
    ("high", Field::High),
    ("min", Field::Min),
    ("mean", Field::Mean),
    ("p50", Field::P50),
    ("p90", Field::P90),
    ("p99", Field::P99),
    ("p999", Field::P999),
    ("max", Field::Max),
    ("attempted", Field::Attempted),
    ("established", Field::Established),
    ("completed", Field::Completed),
    ("failed", Field::Failed),
    ("retransmitted", Field::Retransmitted),
    ("by_neither", Field::ByNeither),
];

/// What is wrong with an expression: where, and what would be right. Always exit status 2, never a silent pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {message}\n  {text}\n  {:>column$}\n  {help}", "^")]
pub struct ExprError {
    /// The expression.
    pub text: String,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: String,
}

impl ExprError {
    fn at(text: &str, byte: usize, message: impl Into<String>, help: impl Into<String>) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        Self {
            text: text.into(),
            column: before.chars().count() + 1,
            message: message.into(),
            help: help.into(),
        }
    }
}
