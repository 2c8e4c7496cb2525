//! The small language of `compare --fail-if` and of suites' expectations: `throughput{dut=rampart,frame=64} < 0.95`.
//! Its grammar is in `docs/guide/expressions.md`. Pure: judges points that it is given.

mod eval;
mod lexer;
mod parser;
mod quantity;

pub use eval::{Mode, Outcome, Subject, Verdict, evaluate};
pub use parser::parse;

use measure::results::Metric;
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

/// A number, or what stands for one.
#[derive(Debug, Clone, PartialEq)]
enum Term {
    Number(f64),
    Points(Selector),
    Aggregate(Aggregate, Selector),
    Binary(Arithmetic, Box<Term>, Box<Term>),
    Negative(Box<Term>),
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
}

const FIELDS: [(&str, Field); 15] = [
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
