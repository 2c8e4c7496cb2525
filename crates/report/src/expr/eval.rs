//! Judges an expression on points. A comparison is judged once for every *case*: every way to give each of its
//! selectors a point such that the points agree on all labels that no selector pins.

use super::quantity::Quantity;
use super::{Aggregate, Arithmetic, ExprError, Expression, Field, Label, Node, Operator, Selector, Term};
use crate::units;
use crate::view;
use measure::connections::ConnectionOutcome;
use measure::results::{MarkKind, Metric, Reading};
use measure::stats::{self, ERROR};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Which cases decide, and by what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A comparison is kept when one case keeps it, by the medians: `--fail-if`.
    Any,
    /// A comparison is kept when every case keeps it, by the intervals, and a case with an invalid point does not:
    /// expectations.
    All,
}

/// What became of an expression. The order is that of `and`, which takes the least, and of `or`, which takes the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// False: the interval lies wholly beyond what was compared with.
    Broken,
    /// The points that it is about were not measured.
    NotJudged,
    /// The interval reaches over what was compared with.
    Undecided,
    /// True.
    Kept,
}

impl Verdict {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Broken => "broken",
            Verdict::NotJudged => "not judged",
            Verdict::Undecided => "undecided",
            Verdict::Kept => "kept",
        }
    }

    const fn of(kept: bool, broken: bool) -> Self {
        match (kept, broken) {
            (true, _) => Verdict::Kept,
            (false, true) => Verdict::Broken,
            (false, false) => Verdict::Undecided,
        }
    }
}

/// What an expression looks at.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    /// A point of one run: its figures.
    Point(Reading<'a>),
    /// The same point in an old and a new run: the ratios new / old of its figures.
    Pair {
        /// Before.
        old: Reading<'a>,
        /// After.
        new: Reading<'a>,
    },
}

impl<'a> Subject<'a> {
    fn point(self) -> Reading<'a> {
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

    /// A figure with the interval that misses the truth in the share `error` of all cases.
    fn quantity(self, field: Field, error: f64) -> Option<Quantity> {
        match self {
            _ if !self.valid() => None,
            Subject::Point(point) => {
                let value = figure(&point, field)?;
                Some(match field {
                    // What is not known of two clocks is the same in every round.
                    Field::Value if point.clock_error > 0.0 => {
                        let open = (f64::NEG_INFINITY, f64::INFINITY);
                        let (low, high) = point.interval().unwrap_or(open);
                        Quantity::between(value, low, high)
                    }
                    Field::Value => {
                        let scale = point.metric.scale();
                        Quantity::measured(point.cell.id, value, point.rounds.clone(), scale, error)
                    }
                    _ => Quantity::figure(value),
                })
            }
            Subject::Pair { old, new } => {
                let (old, new) = (figure(&old, field)?, figure(&new, field)?);
                Some(Quantity::figure(if old == new { 1.0 } else { new / old }))
            }
        }
    }

    /// Whether the firewall cannot do what the test asks, so that there was nothing to measure.
    fn refused(self) -> bool {
        view::has(&self.point(), MarkKind::NotSupported)
    }

    /// Every label with its level; `cores` as text like the rest.
    fn label(self, name: &str) -> Option<String> {
        let point = self.point();
        match name {
            "test" => Some(point.test().to_owned()),
            "dut" => Some(point.dut.clone()),
            "placement" => Some(point.cell.placement.name().into()),
            "cores" => Some(point.cell.cores.to_string()),
            "metric" => Some(point.metric.row().key.into()),
            factor => point.level(factor).map(ToString::to_string),
        }
    }

    fn names(self) -> impl Iterator<Item = &'a str> {
        ["test", "dut", "placement", "cores"]
            .into_iter()
            .chain(self.point().factors().map(|(factor, _)| factor).collect::<Vec<_>>())
    }

    /// The point in words, for lists of what failed: its test, its firewall, and what distinguishes it from the others.
    fn phrase(self, varying: &Varying) -> String {
        format!("{}{{{}}}", self.point().metric.row().key, self.labels(varying).join(","))
    }

    fn labels(self, varying: &Varying) -> Vec<String> {
        let point = self.point();
        let varying = &varying[&point.metric];
        let mut labels = vec![format!("test={}", point.test()), format!("dut={}", point.dut)];
        let own = self.names().filter(|name| varying.contains(*name) && !matches!(*name, "test" | "dut"));
        labels.extend(own.filter_map(|name| Some(format!("{name}={}", self.label(name)?))));
        labels
    }

    fn why_unusable(self, varying: &Varying) -> String {
        let (which, point) = match self {
            Subject::Pair { old, .. } if !old.valid => ("the old point is invalid: ", old),
            Subject::Pair { new, .. } if !new.valid => ("the new point is invalid: ", new),
            _ if self.valid() => return format!("{} has no such figure", self.phrase(varying)),
            _ => ("invalid: ", self.point()),
        };
        format!("{}: {which}{}", self.phrase(varying), view::reason(&point))
    }
}

fn figure(point: &Reading<'_>, field: Field) -> Option<f64> {
    let latency = view::times(point);
    let count = |of: fn(&ConnectionOutcome) -> u64| point.connections().map(|s| of(s) as f64);
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
        Field::ByNeither => point.connections()?.replacement.as_ref().map(|r| r.by_neither as f64),
    }
}

/// What came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What became of the expression; in [`Mode::Any`] it is kept or broken.
    pub verdict: Verdict,
    /// The cases that made it so, each with its figures: in [`Mode::Any`] those that keep a comparison, in [`Mode::All`]
    /// those with the verdict of the whole.
    pub because: Vec<String>,
    /// Cases that could not be judged, because a point was not measured, is invalid or lacks the figure. Show them: they
    /// are not passes.
    pub unusable: Vec<String>,
}

impl Outcome {
    /// Whether the expression is true.
    pub fn holds(&self) -> bool {
        self.verdict == Verdict::Kept
    }
}

/// Judges an expression.
///
/// # Errors
/// [`ExprError`] when no two points of a comparison belong together, and in [`Mode::Any`] when a selector matches no point
/// or every point that matches is unusable: none of these may pass for an answer.
pub fn evaluate(expression: &Expression, subjects: &[Subject<'_>], mode: Mode) -> Result<Outcome, ExprError> {
    let judge = Judge { text: &expression.text, subjects, mode, varying: varying(subjects) };
    let mut outcome = judge.node(&expression.root, false)?;
    for texts in [&mut outcome.because, &mut outcome.unusable] {
        texts.sort();
        texts.dedup();
    }
    Ok(outcome)
}

/// For each metric the labels that differ among its points.
type Varying = BTreeMap<Metric, BTreeSet<String>>;

fn varying(subjects: &[Subject<'_>]) -> Varying {
    let mut by_metric: BTreeMap<Metric, Vec<Subject<'_>>> = BTreeMap::new();
    for subject in subjects {
        by_metric.entry(subject.point().metric).or_default().push(*subject);
    }
    let differing = |(metric, subjects): (Metric, Vec<Subject<'_>>)| {
        let names: BTreeSet<&str> = subjects.iter().flat_map(|s| s.names()).collect();
        let levels = |name: &str| subjects.iter().map(|s| s.label(name)).collect::<BTreeSet<_>>();
        (metric, names.into_iter().filter(|name| levels(name).len() > 1).map(str::to_owned).collect())
    };
    by_metric.into_iter().map(differing).collect()
}

struct Judge<'a> {
    text: &'a str,
    subjects: &'a [Subject<'a>],
    mode: Mode,
    varying: Varying,
}

/// One way to give each selector a point.
type Case<'a> = Vec<Subject<'a>>;

impl<'a> Judge<'a> {
    /// `not` turns the comparisons below it round instead of the answer, so that any and every keep their meaning.
    fn node(&self, node: &Node, negated: bool) -> Result<Outcome, ExprError> {
        match node {
            Node::Not(inner) => self.node(inner, !negated),
            Node::Or(a, b) | Node::And(a, b) => {
                let all = matches!(node, Node::And(..)) != negated;
                let (a, b) = (self.node(a, negated)?, self.node(b, negated)?);
                let verdict = if all { a.verdict.min(b.verdict) } else { a.verdict.max(b.verdict) };
                Ok(join(verdict, self.mode, a, b))
            }
            Node::Valid(selector) => self.valid(selector, negated),
            Node::Compare { left, operator, right, span } => {
                let operator = if negated { operator.negated() } else { *operator };
                self.compare(left, operator, right, span)
            }
        }
    }

    fn valid(&self, selector: &Selector, negated: bool) -> Result<Outcome, ExprError> {
        let matching = match self.matching(selector) {
            Err(nothing) if self.mode == Mode::All => return Ok(not_judged(&nothing)),
            matching => matching?,
        };
        let (refused, asked): (Vec<_>, Vec<_>) = matching.into_iter().partition(|s| self.passes_over(*s));
        let judged = asked.into_iter().map(|s| {
            let why = if s.valid() {
                format!("{}: valid", s.phrase(&self.varying))
            } else {
                s.why_unusable(&self.varying)
            };
            (Verdict::of(s.valid() != negated, true), why)
        });
        let unusable = refused.into_iter().map(|s| s.why_unusable(&self.varying)).collect();
        Ok(self.decide(judged.collect(), unusable))
    }

    /// An expectation looks at what was measured. A firewall that cannot do what a test asks was not.
    fn passes_over(&self, subject: Subject<'_>) -> bool {
        self.mode == Mode::All && subject.refused()
    }

    fn compare(
        &self,
        left: &Term,
        operator: Operator,
        right: &Term,
        span: &Range<usize>,
    ) -> Result<Outcome, ExprError> {
        // Points take part in a case, in the order in which `term` reads them; aggregates do not.
        let is_aggregate = |term: &Term| matches!(term, Term::Aggregate(..));
        let (mut selectors, mut aggregated) = (Vec::new(), Vec::new());
        for side in [left, right] {
            side.selectors(&|term| !is_aggregate(term), &mut selectors);
            side.selectors(&is_aggregate, &mut aggregated);
        }
        let all = || selectors.iter().chain(&aggregated);
        if self.mode == Mode::All
            && let Some(nothing) = all().find_map(|s| self.matching(s).err())
        {
            return Ok(not_judged(&nothing));
        }
        let (mut judged, mut unusable) = (Vec::new(), Vec::new());
        let cases = self.cases(&selectors, span)?;
        for case in &cases {
            let values = |error| -> Result<_, ExprError> {
                let mut points = case.iter().copied();
                Ok(self.term(left, &mut points, error)?.zip(self.term(right, &mut points, error)?))
            };
            if let Some((mut a, mut b)) = values(ERROR)? {
                let mut verdict = self.verdict(&a, operator, &b);
                // One broken case breaks the whole, so with many of them each must be the more certain.
                if let (Verdict::Broken, Some(surely)) = (verdict, values(ERROR / cases.len() as f64)?) {
                    (a, b) = surely;
                    verdict = self.verdict(&a, operator, &b);
                }
                judged.push((verdict, self.describe(case, &a, &b)));
                continue;
            }
            let mut blamed: Vec<Subject<'a>> =
                case.iter().copied().filter(|s| !usable(*s, &selectors)).collect();
            if blamed.is_empty() {
                blamed = self.matching_any(&aggregated)?;
            }
            let why = blamed.iter().map(|s| s.why_unusable(&self.varying));
            // A firewall that was asked and has no value has not kept what was promised of it.
            if self.mode == Mode::All && !blamed.iter().any(|s| s.refused()) {
                judged.extend(why.map(|why| (Verdict::Broken, why)));
            } else {
                unusable.extend(why);
            }
        }
        if judged.is_empty() && self.mode == Mode::Any {
            return Err(self.nothing_usable(span, &unusable));
        }
        Ok(self.decide(judged, unusable))
    }

    /// By the medians, or by the intervals. An equality is about counts, which have no noise: it holds in every round.
    fn verdict(&self, a: &Quantity, operator: Operator, b: &Quantity) -> Verdict {
        if self.mode == Mode::Any {
            return Verdict::of(compares(a.value, operator, b.value), true);
        }
        let put = |together| a.clone().with(together, b.clone());
        match operator {
            Operator::Equal => Verdict::of(put(Arithmetic::Minus).is_always(0.0), true),
            Operator::NotEqual => Verdict::of(put(Arithmetic::Minus).is_never(0.0), true),
            _ => {
                // By the interval that a report shows of the ratio, where there is one.
                let ratio = a.has_ratio() && b.has_ratio();
                let (found, bound) =
                    if ratio { (put(Arithmetic::Over), 1.0) } else { (put(Arithmetic::Minus), 0.0) };
                let holds = |end| compares(end, operator, bound);
                Verdict::of(holds(found.low) && holds(found.high), !holds(found.low) && !holds(found.high))
            }
        }
    }

    fn describe(&self, case: &[Subject<'_>], a: &Quantity, b: &Quantity) -> String {
        let what = if case.is_empty() { self.text.to_string() } else { self.phrases(case) };
        format!("{what}: {} against {}", shown(a), shown(b))
    }

    /// The points of a case. What those of one metric have in common is said once: `throughput{test=udp,rules=100} of dut=rampart and
    /// dut=nftables`.
    fn phrases(&self, case: &[Subject<'_>]) -> String {
        let labels: Vec<Vec<String>> = case.iter().map(|s| s.labels(&self.varying)).collect();
        let (common, _): (Vec<_>, Vec<_>) =
            labels[0].iter().cloned().partition(|label| labels.iter().all(|other| other.contains(label)));
        let own =
            |labels: &Vec<String>| labels.iter().filter(|l| !common.contains(l)).cloned().collect::<Vec<_>>();
        let own: Vec<String> = labels.iter().map(|labels| own(labels).join(",")).collect();
        let metric = case[0].point().metric;
        if case.iter().any(|s| s.point().metric != metric) || own.iter().any(String::is_empty) {
            return case.iter().map(|s| s.phrase(&self.varying)).collect::<Vec<_>>().join(" and ");
        }
        format!("{}{{{}}} of {}", metric.row().key, common.join(","), own.join(" and "))
    }

    fn decide(&self, judged: Vec<(Verdict, String)>, unusable: Vec<String>) -> Outcome {
        let verdicts = judged.iter().map(|(verdict, _)| *verdict);
        let verdict = match self.mode {
            Mode::Any => verdicts.max().unwrap_or(Verdict::Broken),
            Mode::All => verdicts.min().unwrap_or(Verdict::NotJudged),
        };
        let telling = if self.mode == Mode::Any { Verdict::Kept } else { verdict };
        let because = judged.into_iter().filter(|(v, _)| *v == telling).map(|(_, text)| text).collect();
        Outcome { verdict, because, unusable }
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

    fn matching_any(&self, selectors: &[&Selector]) -> Result<Vec<Subject<'a>>, ExprError> {
        let found: Result<Vec<_>, ExprError> = selectors.iter().map(|s| self.matching(s)).collect();
        Ok(found?.concat())
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
        error: f64,
    ) -> Result<Option<Quantity>, ExprError> {
        Ok(match term {
            Term::Number(number) => Some(Quantity::number(*number)),
            Term::Points(selector) => points.next().and_then(|s| s.quantity(selector.field, error)),
            Term::Aggregate(aggregate, selector) => self.aggregate(*aggregate, selector, error)?,
            Term::Negative(inner) => self.term(inner, points, error)?.map(Quantity::negative),
            Term::Binary(operator, a, b) => {
                // Both sides are always read, because each takes its points from the case in turn.
                let (a, b) = (self.term(a, points, error)?, self.term(b, points, error)?);
                a.zip(b).map(|(a, b)| a.with(*operator, b))
            }
        })
    }

    /// None when an expectation has no usable point: then its comparison is not kept. One end among many that is too far off
    /// decides a maximum, so with many points the interval of each must be the more certain.
    fn aggregate(
        &self,
        aggregate: Aggregate,
        selector: &Selector,
        error: f64,
    ) -> Result<Option<Quantity>, ExprError> {
        let matching = self.matching(selector)?;
        let each = error / matching.len() as f64;
        let quantities: Vec<Quantity> =
            matching.iter().filter_map(|s| s.quantity(selector.field, each)).collect();
        if quantities.is_empty() && self.mode == Mode::Any {
            let reasons: Vec<String> = matching.iter().map(|s| s.why_unusable(&self.varying)).collect();
            return Err(self.nothing_usable(&selector.span, &reasons));
        }
        let of = |values: &[f64]| match aggregate {
            Aggregate::Median => stats::median(values).unwrap_or(f64::NAN),
            Aggregate::Mean => values.iter().sum::<f64>() / values.len() as f64,
            Aggregate::Least => values.iter().copied().fold(f64::INFINITY, f64::min),
            Aggregate::Most => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        };
        Ok((!quantities.is_empty()).then(|| Quantity::aggregated(&quantities, of)))
    }
}

/// `5.31 (4.50 to 5.70)`; without the interval where it is no wider than the number.
fn shown(quantity: &Quantity) -> String {
    let digits = |v| units::significant(v, 3);
    if quantity.is_open() {
        return format!("{} (one round: no interval)", digits(quantity.value));
    }
    if quantity.low == quantity.high {
        return digits(quantity.value);
    }
    format!("{} ({} to {})", digits(quantity.value), digits(quantity.low), digits(quantity.high))
}

fn not_judged(nothing: &ExprError) -> Outcome {
    let why = format!("{}; {}", nothing.message, nothing.help);
    Outcome { verdict: Verdict::NotJudged, because: vec![why], unusable: Vec::new() }
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

fn join(verdict: Verdict, mode: Mode, a: Outcome, b: Outcome) -> Outcome {
    // Only a side that agrees with the answer explains it.
    let explains = |o: &Outcome| o.verdict == verdict;
    let mut because = Vec::new();
    let mut unusable = Vec::new();
    for side in [a, b] {
        if explains(&side) || (mode == Mode::Any && verdict == Verdict::Kept) {
            because.extend(side.because);
        }
        unusable.extend(side.unusable);
    }
    Outcome { verdict, because, unusable }
}

fn usable(subject: Subject<'_>, selectors: &[&Selector]) -> bool {
    let metric = subject.point().metric;
    selectors.iter().filter(|s| s.metric == Some(metric)).all(|s| subject.quantity(s.field, ERROR).is_some())
}

pub(super) fn has(subject: Subject<'_>, label: &Label) -> bool {
    let level = subject.label(&label.name);
    // A point without that factor is neither equal nor different: it has nothing to compare.
    level.is_some_and(|l| (l == label.value) == label.wanted)
}

/// Whether two points agree on every label that neither of their selectors pins.
fn agree(a: Subject<'_>, a_selector: &Selector, b: Subject<'_>, b_selector: &Selector) -> bool {
    let pinned = |name: &str| a_selector.labels.iter().chain(&b_selector.labels).any(|l| l.name == name);
    a.names().chain(b.names()).all(|name| pinned(name) || a.label(name) == b.label(name))
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
