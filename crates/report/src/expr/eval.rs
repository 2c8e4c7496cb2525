//! Judges an expression on points. A comparison is judged once for every *case*: every way to give each of its
//! selectors a point such that the points agree on all labels that no selector pins.

use super::{Aggregate, Arithmetic, ExprError, Expression, Field, Label, Node, Operator, Selector, Term};
use crate::units;
use crate::view;
use measure::results::Point;
use measure::sessions::SessionOutcome;
use measure::stats;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Which cases decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A comparison is true when one case makes it true: `--fail-if`.
    Any,
    /// A comparison is true when every case makes it true, and a case with an invalid point does not: expectations.
    All,
}

/// What an expression looks at.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    /// A point of one run: its figures.
    Point(&'a Point),
    /// The same point in an old and a new run: the ratios new / old of its figures.
    Pair {
        /// Before.
        old: &'a Point,
        /// After.
        new: &'a Point,
    },
}

impl<'a> Subject<'a> {
    fn point(self) -> &'a Point {
        match self {
            Subject::Point(point) | Subject::Pair { new: point, .. } => point,
        }
    }

    fn valid(self) -> bool {
        match self {
            Subject::Point(point) => point.valid,
            Subject::Pair { old, new } => old.valid && new.valid,
        }
    }

    fn value(self, field: Field) -> Option<f64> {
        match self {
            _ if !self.valid() => None,
            Subject::Point(point) => figure(point, field),
            Subject::Pair { old, new } => {
                let (old, new) = (figure(old, field)?, figure(new, field)?);
                Some(if old == new { 1.0 } else { new / old })
            }
        }
    }

    /// Every label with its level; `cores` as text like the rest.
    fn label(self, name: &str) -> Option<String> {
        let point = self.point();
        match name {
            "test" => Some(point.test.clone()),
            "dut" => Some(point.dut.clone()),
            "placement" => Some(view::placement_name(point.placement).into()),
            "cores" => Some(point.cores.to_string()),
            "metric" => Some(point.metric.row().key.into()),
            factor => point.factors.get(factor).cloned(),
        }
    }

    fn names(self) -> impl Iterator<Item = &'a str> {
        ["test", "dut", "placement", "cores"]
            .into_iter()
            .chain(self.point().factors.keys().map(String::as_str))
    }

    /// The point in words, for lists of what failed: its test, its firewall, and what tells it from the others.
    fn phrase(self, varying: &BTreeSet<String>) -> String {
        let point = self.point();
        let mut labels = vec![format!("test={}", point.test), format!("dut={}", point.dut)];
        let telling = self.names().filter(|name| varying.contains(*name) && !matches!(*name, "test" | "dut"));
        labels.extend(telling.filter_map(|name| Some(format!("{name}={}", self.label(name)?))));
        format!("{}{{{}}}", point.metric.row().key, labels.join(","))
    }

    fn why_unusable(self, varying: &BTreeSet<String>) -> String {
        let (which, point) = match self {
            Subject::Pair { old, .. } if !old.valid => ("the old point is invalid: ", old),
            Subject::Pair { new, .. } if !new.valid => ("the new point is invalid: ", new),
            _ if self.valid() => return format!("{} has no such figure", self.phrase(varying)),
            _ => ("invalid: ", self.point()),
        };
        format!("{}: {which}{}", self.phrase(varying), view::reason(point))
    }
}

fn figure(point: &Point, field: Field) -> Option<f64> {
    let latency = view::times(point);
    let count = |of: fn(&SessionOutcome) -> u64| point.sessions.as_ref().map(|s| of(s) as f64);
    match field {
        Field::Value => Some(point.value),
        Field::Low => Some(point.low),
        Field::High => Some(point.high),
        Field::Min => latency.map(|l| l.min),
        Field::Mean => latency.map(|l| l.mean),
        Field::P50 => latency.map(|l| l.p50),
        Field::P90 => latency.map(|l| l.p90),
        Field::P99 => latency.map(|l| l.p99),
        Field::P999 => latency.map(|l| l.p999),
        Field::Max => latency.map(|l| l.max),
        Field::Attempted => count(|s| s.attempted),
        Field::Established => count(|s| s.established),
        Field::Completed => count(|s| s.completed),
        Field::Failed => count(|s| s.failed.values().sum()),
        Field::Retransmitted => count(|s| s.retransmitted),
    }
}

/// What came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Whether the expression is true.
    pub holds: bool,
    /// The cases that made it so: in [`Mode::Any`] those that made a comparison true, in [`Mode::All`] those that did
    /// not; each with its figures.
    pub because: Vec<String>,
    /// Cases that could not be judged, because a point is invalid or lacks the figure. Show them: they are not passes.
    pub unusable: Vec<String>,
}

/// Judges an expression.
///
/// # Errors
/// [`ExprError`] when a selector matches no point, when no two points of a comparison belong together, or when every
/// point that matches is unusable and the mode is [`Mode::Any`]: none of these may pass for an answer.
pub fn evaluate(expression: &Expression, subjects: &[Subject<'_>], mode: Mode) -> Result<Outcome, ExprError> {
    let judge = Judge { text: &expression.text, subjects, mode, varying: varying(subjects) };
    let mut outcome = judge.node(&expression.root, false)?;
    outcome.because.sort();
    outcome.because.dedup();
    outcome.unusable.sort();
    outcome.unusable.dedup();
    Ok(outcome)
}

fn varying(subjects: &[Subject<'_>]) -> BTreeSet<String> {
    let mut levels: BTreeMap<&str, BTreeSet<Option<String>>> = BTreeMap::new();
    for name in subjects.iter().flat_map(|s| s.names()).collect::<BTreeSet<_>>() {
        levels.insert(name, subjects.iter().map(|s| s.label(name)).collect());
    }
    levels.into_iter().filter(|(_, l)| l.len() > 1).map(|(name, _)| name.to_string()).collect()
}

struct Judge<'a> {
    text: &'a str,
    subjects: &'a [Subject<'a>],
    mode: Mode,
    /// Labels that differ among the points.
    varying: BTreeSet<String>,
}

/// One way to give each selector a point.
type Case<'a> = Vec<Subject<'a>>;

impl<'a> Judge<'a> {
    /// `not` turns the comparisons below it round instead of the answer, so that any and every keep their meaning.
    fn node(&self, node: &Node, negated: bool) -> Result<Outcome, ExprError> {
        match node {
            Node::Not(inner) => self.node(inner, !negated),
            Node::Or(a, b) if negated => self.both(a, b, negated),
            Node::And(a, b) if !negated => self.both(a, b, negated),
            Node::Or(a, b) | Node::And(a, b) => self.either(a, b, negated),
            Node::Valid(selector) => self.valid(selector, negated),
            Node::Compare { left, operator, right, span } => {
                self.compare(left, *operator, right, span, negated)
            }
        }
    }

    fn both(&self, a: &Node, b: &Node, negated: bool) -> Result<Outcome, ExprError> {
        let (a, b) = (self.node(a, negated)?, self.node(b, negated)?);
        Ok(join(a.holds && b.holds, self.mode, a, b))
    }

    fn either(&self, a: &Node, b: &Node, negated: bool) -> Result<Outcome, ExprError> {
        let (a, b) = (self.node(a, negated)?, self.node(b, negated)?);
        Ok(join(a.holds || b.holds, self.mode, a, b))
    }

    fn valid(&self, selector: &Selector, negated: bool) -> Result<Outcome, ExprError> {
        let judged = self.matching(selector)?.into_iter().map(|s| {
            let why = if s.valid() {
                format!("{}: valid", s.phrase(&self.varying))
            } else {
                s.why_unusable(&self.varying)
            };
            (s.valid() != negated, why)
        });
        Ok(self.decide(judged.collect(), Vec::new()))
    }

    fn compare(
        &self,
        left: &Term,
        operator: Operator,
        right: &Term,
        span: &Range<usize>,
        negated: bool,
    ) -> Result<Outcome, ExprError> {
        let mut selectors = Vec::new();
        collect(left, &mut selectors);
        collect(right, &mut selectors);
        let (mut judged, mut unusable) = (Vec::new(), Vec::new());
        for case in self.cases(&selectors, span)? {
            let mut points = case.iter().copied();
            let values = (self.term(left, &mut points)?, self.term(right, &mut points)?);
            match values {
                (Some(a), Some(b)) => {
                    let true_here = compares(a, operator, b) != negated;
                    judged.push((true_here, self.describe(&case, a, b)));
                }
                _ => unusable.extend(
                    case.iter().filter(|s| !usable(**s, &selectors)).map(|s| s.why_unusable(&self.varying)),
                ),
            }
        }
        if judged.is_empty() && self.mode == Mode::Any {
            return Err(self.nothing_usable(span, &unusable));
        }
        Ok(self.decide(judged, unusable))
    }

    fn describe(&self, case: &[Subject<'_>], a: f64, b: f64) -> String {
        let phrases: Vec<String> = case.iter().map(|s| s.phrase(&self.varying)).collect();
        let what = if phrases.is_empty() { self.text.to_string() } else { phrases.join(" and ") };
        format!("{what}: {} against {}", units::significant(a, 4), units::significant(b, 4))
    }

    fn decide(&self, judged: Vec<(bool, String)>, unusable: Vec<String>) -> Outcome {
        let holds = match self.mode {
            Mode::Any => judged.iter().any(|(t, _)| *t),
            Mode::All => judged.iter().all(|(t, _)| *t) && unusable.is_empty(),
        };
        let telling = self.mode == Mode::Any;
        let because = judged.into_iter().filter(|(t, _)| *t == telling).map(|(_, text)| text).collect();
        Outcome { holds, because, unusable }
    }

    /// All cases of the selectors; a comparison of aggregates alone has one, without points.
    fn cases(&self, selectors: &[&Selector], span: &Range<usize>) -> Result<Vec<Case<'a>>, ExprError> {
        let mut cases: Vec<Case<'a>> = vec![Vec::new()];
        for (index, selector) in selectors.iter().enumerate() {
            let matching = self.matching(selector)?;
            cases = cases
                .iter()
                .flat_map(|case| {
                    let fits = |s: &&Subject<'a>| {
                        case.iter().zip(&selectors[..index]).all(|(other, o)| agree(**s, selector, *other, o))
                    };
                    matching
                        .iter()
                        .filter(fits)
                        .map(|s| [case.as_slice(), &[*s]].concat())
                        .collect::<Vec<_>>()
                })
                .collect();
        }
        if cases.is_empty() {
            let help = "two points of a comparison must agree on every label that no selector names: name the labels that differ, such as test=… or metric-independent factors, in the braces";
            let message = "no two points of this comparison belong together";
            return Err(ExprError::at(self.text, span.start, message, help));
        }
        Ok(cases)
    }

    fn matching(&self, selector: &Selector) -> Result<Vec<Subject<'a>>, ExprError> {
        let of_metric: Vec<Subject<'a>> = self
            .subjects
            .iter()
            .copied()
            .filter(|s| selector.metric.is_none_or(|m| s.point().metric == m))
            .collect();
        let found: Vec<Subject<'a>> =
            of_metric.iter().copied().filter(|s| selector.labels.iter().all(|l| has(*s, l))).collect();
        if found.is_empty() { Err(self.no_match(selector, &of_metric)) } else { Ok(found) }
    }

    /// Says which label is the one that nothing has.
    fn no_match(&self, selector: &Selector, of_metric: &[Subject<'_>]) -> ExprError {
        let text = &self.text[selector.span.clone()];
        let message = format!("`{text}` matches no point");
        if of_metric.is_empty() {
            let metrics: BTreeSet<&str> = self.subjects.iter().map(|s| s.point().metric.row().key).collect();
            let help = format!("the metrics here are: {}", list(metrics));
            return ExprError::at(self.text, selector.span.start, message, help);
        }
        for label in &selector.labels {
            if !of_metric.iter().any(|s| has(*s, label)) {
                return ExprError::at(self.text, label.span.start, message, label_help(label, of_metric));
            }
        }
        let help = "each label matches some point, but no point has all of them";
        ExprError::at(self.text, selector.span.start, message, help)
    }

    fn nothing_usable(&self, span: &Range<usize>, unusable: &[String]) -> ExprError {
        let message = "every point that this compares is unusable, so there is no answer";
        ExprError::at(self.text, span.start, message, unusable.join("\n  "))
    }

    fn term(
        &self,
        term: &Term,
        points: &mut impl Iterator<Item = Subject<'a>>,
    ) -> Result<Option<f64>, ExprError> {
        Ok(match term {
            Term::Number(number) => Some(*number),
            Term::Points(selector) => points.next().and_then(|s| s.value(selector.field)),
            Term::Aggregate(aggregate, selector) => Some(self.aggregate(*aggregate, selector)?),
            Term::Negative(inner) => self.term(inner, points)?.map(|v| -v),
            Term::Binary(operator, a, b) => {
                // Both sides are always read, because each takes its points from the case in turn.
                let (a, b) = (self.term(a, points)?, self.term(b, points)?);
                a.zip(b).map(|(a, b)| arithmetic(a, *operator, b))
            }
        })
    }

    fn aggregate(&self, aggregate: Aggregate, selector: &Selector) -> Result<f64, ExprError> {
        let matching = self.matching(selector)?;
        let values: Vec<f64> = matching.iter().filter_map(|s| s.value(selector.field)).collect();
        let unusable = || {
            let reasons: Vec<String> = matching.iter().map(|s| s.why_unusable(&self.varying)).collect();
            self.nothing_usable(&selector.span, &reasons)
        };
        let median = stats::median(&values).ok_or_else(unusable)?;
        Ok(match aggregate {
            Aggregate::Median => median,
            Aggregate::Mean => values.iter().sum::<f64>() / values.len() as f64,
            Aggregate::Least => values.iter().copied().fold(f64::INFINITY, f64::min),
            Aggregate::Most => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

fn label_help(label: &Label, of_metric: &[Subject<'_>]) -> String {
    let levels: BTreeSet<String> = of_metric.iter().filter_map(|s| s.label(&label.name)).collect();
    if levels.is_empty() {
        let names: BTreeSet<&str> = of_metric.iter().flat_map(|s| s.names()).collect();
        return format!("there is no label `{}`; labels here are: {}", label.name, list(names));
    }
    format!("`{}` here is one of: {}", label.name, levels.into_iter().collect::<Vec<_>>().join(", "))
}

fn list(names: BTreeSet<&str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

fn join(holds: bool, mode: Mode, a: Outcome, b: Outcome) -> Outcome {
    // Only a side that agrees with the answer explains it.
    let explains = |o: &Outcome| o.holds == holds;
    let mut because = Vec::new();
    let mut unusable = Vec::new();
    for side in [a, b] {
        if explains(&side) || (mode == Mode::Any && holds) {
            because.extend(side.because);
        }
        unusable.extend(side.unusable);
    }
    Outcome { holds, because, unusable }
}

/// Selectors of a term in the order in which [`Judge::term`] reads their points. Aggregates take no part in a case.
fn collect<'t>(term: &'t Term, into: &mut Vec<&'t Selector>) {
    match term {
        Term::Number(_) | Term::Aggregate(..) => {}
        Term::Points(selector) => into.push(selector),
        Term::Negative(inner) => collect(inner, into),
        Term::Binary(_, a, b) => {
            collect(a, into);
            collect(b, into);
        }
    }
}

fn usable(subject: Subject<'_>, selectors: &[&Selector]) -> bool {
    let metric = subject.point().metric;
    selectors.iter().filter(|s| s.metric == Some(metric)).all(|s| subject.value(s.field).is_some())
}

fn has(subject: Subject<'_>, label: &Label) -> bool {
    let level = subject.label(&label.name);
    // A point without that factor is neither equal nor different: it has nothing to compare.
    level.is_some_and(|l| (l == label.value) == label.wanted)
}

/// Whether two points agree on every label that neither of their selectors pins.
fn agree(a: Subject<'_>, a_selector: &Selector, b: Subject<'_>, b_selector: &Selector) -> bool {
    let pinned = |name: &str| a_selector.labels.iter().chain(&b_selector.labels).any(|l| l.name == name);
    a.names().chain(b.names()).all(|name| pinned(name) || a.label(name) == b.label(name))
}

fn arithmetic(a: f64, operator: Arithmetic, b: f64) -> f64 {
    match operator {
        Arithmetic::Plus => a + b,
        Arithmetic::Minus => a - b,
        Arithmetic::Times => a * b,
        Arithmetic::Over => a / b,
    }
}

fn compares(a: f64, operator: Operator, b: f64) -> bool {
    match operator {
        Operator::Less => a < b,
        Operator::LessOrEqual => a <= b,
        Operator::Greater => a > b,
        Operator::GreaterOrEqual => a >= b,
        Operator::Equal => a == b,
        Operator::NotEqual => a != b,
    }
}
