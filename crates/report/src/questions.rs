//! The questions that a suite asks, each answered in one sentence from what was measured, with the figure beneath it. One that
//! cannot be answered says why. Pure.

use crate::contrast::{self, Pair};
use crate::differ::Difference;
use crate::expr::{self, ExprError, Expression, Mode, Outcome, Subject, Verdict};
use crate::ratio::{self, Ratio};
use crate::table::{Cell, Head, Row, Table};
use crate::view::{self, Setting, View};
use crate::{expectations, tables, units, verdict};
use measure::results::{MarkKind, Point, Reading, Role};
use measure::suite::{Asks, Factor, Suite};

/// A question of a suite, its expressions read.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// As the suite asks it.
    pub ask: String,
    of: Of,
}

#[derive(Debug, Clone, PartialEq)]
enum Of {
    /// Yes for the firewalls for which this is true anywhere.
    Yes(Expression),
    /// Which firewall has the best of these values.
    Best(Expression),
    /// Whether values at the first level of a factor are worse than at its last.
    By(Expression, String),
}

impl Question {
    /// What it is answered from.
    pub const fn expression(&self) -> &Expression {
        match &self.of {
            Of::Yes(expression) | Of::Best(expression) | Of::By(expression, _) => expression,
        }
    }
}

/// The questions of a suite, each expression read and its labels checked, in the order of the suite's own.
///
/// # Errors
/// The number of the first question that is wrong, from 0, and what is wrong with it.
pub fn of_suite(suite: &Suite) -> Result<Vec<Question>, (usize, ExprError)> {
    let read = |asked: &measure::suite::Question| {
        let of = match &asked.asks {
            Asks::Yes(text) => Of::Yes(expectations::read(suite, &text.value, expr::parse)?),
            Asks::Of(text, None) => Of::Best(expectations::read(suite, &text.value, expr::parse_values)?),
            Asks::Of(text, Some(by)) => {
                Of::By(expectations::read(suite, &text.value, expr::parse_values)?, by.clone())
            }
        };
        Ok(Question { ask: asked.ask.clone(), of })
    };
    suite.questions.iter().enumerate().map(|(n, asked)| read(asked).map_err(|e| (n, e))).collect()
}

/// A question with its answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer<'v, 'a> {
    /// The question.
    pub(crate) ask: &'v str,
    /// The answer, in one sentence.
    pub(crate) sentence: String,
    /// The figures behind it; none where nothing was measured.
    pub(crate) table: Option<Table>,
    /// The setting whose chart shows it.
    pub(crate) setting: Option<&'v Setting<'a>>,
}

/// Answers all of them.
pub(crate) fn answers<'v, 'a>(questions: &'v [Question], view: &'v View<'a>) -> Vec<Answer<'v, 'a>> {
    questions
        .iter()
        .map(|question| {
            let (sentence, table, setting) = match &question.of {
                Of::Yes(when) => yes(when, view),
                Of::Best(of) => best(of, view),
                Of::By(of, factor) => by(of, factor, view),
            };
            Answer { ask: &question.ask, sentence, table, setting }
        })
        .collect()
}

/// A sentence, the table behind it, and the setting whose chart shows it.
type Found<'v, 'a> = (String, Option<Table>, Option<&'v Setting<'a>>);

fn unanswered<'v, 'a>(why: impl std::fmt::Display) -> Found<'v, 'a> {
    (format!("Not answered: {why}."), None, None)
}

/// The settings that have points of an expression, each with those points.
fn asked<'v, 'a>(of: &Expression, view: &'v View<'a>) -> Vec<(&'v Setting<'a>, Vec<Reading<'a>>)> {
    let settings = view.tests.iter().flat_map(|t| &t.blocks).flat_map(|b| &b.settings);
    let matching =
        |s: &'v Setting<'a>| (s, s.points.iter().copied().filter(|p| of.takes(p)).collect::<Vec<_>>());
    settings.map(matching).filter(|(_, points)| !points.is_empty()).collect()
}

/// What an answer says of a firewall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Says {
    Yes,
    No,
    Open,
    NoValue,
}

/// One firewall's part in an answer: what is said of it, and its worst case in words.
struct Part<'a> {
    dut: &'a str,
    says: Says,
    words: String,
    row: Row,
}

/// Firewalls of which the same is said are named together: `each of linux, nftables and iptables closes 0 % of the connections`.
fn joined(parts: &[&Part<'_>]) -> String {
    let mut said: Vec<(&str, Vec<&str>)> = Vec::new();
    for part in parts {
        let name = verdict::name(part.dut);
        // Words that do not begin with the firewall's name stand for themselves.
        let (rest, name) =
            part.words.strip_prefix(name).map_or((part.words.as_str(), None), |rest| (rest, Some(name)));
        match said.iter_mut().find(|(known, names)| *known == rest && !names.is_empty()) {
            Some((_, names)) => names.extend(name),
            None => said.push((rest, name.into_iter().collect())),
        }
    }
    let words = |(rest, names): &(&str, Vec<&str>)| match names[..] {
        [] => (*rest).to_owned(),
        [name] => format!("{name}{rest}"),
        _ => format!("each of {}{rest}", verdict::listed(names)),
    };
    said.iter().map(words).collect::<Vec<_>>().join("; ")
}

/// `Yes: iptables lets 3.2 % of the connections fail; not for nftables.`
fn together(parts: &[Part<'_>]) -> String {
    let of = |says: Says| parts.iter().filter(move |p| p.says == says);
    let names = |says: Says| listed(of(says).map(|p| verdict::name(p.dut)));
    let worst = joined(&of(Says::Yes).collect::<Vec<_>>());
    let mut said = match (of(Says::Yes).count(), of(Says::No).count()) {
        (0, 0) => match of(Says::Open).next() {
            Some(open) => format!("Open: {}", open.words),
            None => format!("Not answered: {}", parts.first().map_or("nothing was measured", |p| &p.words)),
        },
        (0, 1) => format!("No: {}", of(Says::No).next().map_or("", |p| &p.words)),
        (0, n) => format!("No, for none of {n} firewalls"),
        (_, 0) => format!("Yes: {worst}"),
        _ => format!("Yes: {worst}; not for {}", names(Says::No)),
    };
    let decided = of(Says::Yes).count() + of(Says::No).count() > 0;
    if decided && of(Says::Open).count() > 0 {
        said += &format!("; open for {}, whose intervals are too wide", names(Says::Open));
    }
    if decided && of(Says::NoValue).count() > 0 {
        said += &format!("; not known for {}, without a valid value", names(Says::NoValue));
    }
    said + "."
}

/// `nftables, iptables and ipset`.
fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    verdict::listed(&names.collect::<Vec<_>>())
}

/// Each firewall is asked for itself, unless the expression names firewalls.
fn yes<'v, 'a>(when: &Expression, view: &'v View<'a>) -> Found<'v, 'a> {
    let asked = asked(when, view);
    let all: Vec<Reading<'a>> = asked.iter().flat_map(|(_, points)| points.iter().copied()).collect();
    if when.names("dut") {
        return one(when, &all);
    }
    let parts: Vec<Part<'_>> = view
        .duts
        .iter()
        .filter(|dut| view.role(dut) != Role::Calibration)
        .filter_map(|dut| part(when, dut, &all))
        .collect();
    if parts.is_empty() {
        return unanswered(missing(when, &all));
    }
    // The chart is of the setting in which the firewalls differ most.
    let valid = asked.iter().map(|(setting, _)| *setting).filter(|s| s.points.iter().any(|p| p.valid));
    let shown = valid.max_by(|a, b| a.difference.compare(b.difference));
    let caption = format!("{}: the worst case of each firewall", when.text());
    let shown = shown.filter(|s| s.difference != Difference::Same);
    (together(&parts), Some(table(caption, &["answer", "worst case"], parts)), shown)
}

/// The cases that keep an expression: their negation is judged, which one clear case breaks.
fn judge(when: &Expression, points: &[Reading<'_>]) -> Result<Outcome, ExprError> {
    let subjects: Vec<Subject<'_>> = points.iter().copied().filter(|p| p.valid).map(Subject::Point).collect();
    expr::evaluate(&when.negated(), &subjects, Mode::All)
}

const fn says(verdict: Verdict) -> Says {
    match verdict {
        Verdict::Broken => Says::Yes,
        Verdict::Kept => Says::No,
        Verdict::Undecided => Says::Open,
        Verdict::NotJudged => Says::NoValue,
    }
}

fn one<'v, 'a>(when: &Expression, points: &[Reading<'_>]) -> Found<'v, 'a> {
    let outcome = match judge(when, points) {
        Ok(outcome) => outcome,
        Err(why) => return unanswered(why.message),
    };
    let found = outcome.because.join("; ");
    let sentence = match says(outcome.verdict) {
        Says::Yes => format!("Yes: {found}."),
        Says::No => format!("No: {found}."),
        Says::Open => format!("Open, because the interval is too wide: {found}."),
        Says::NoValue => return unanswered(missing(when, points)),
    };
    (sentence, None, None)
}

/// Why there is no answer.
fn missing(when: &Expression, points: &[Reading<'_>]) -> String {
    match points.iter().find(|p| !p.valid) {
        Some(point) => format!("{} has no valid value ({})", verdict::name(&point.dut), view::reason(point)),
        None if points.is_empty() => format!("no value of `{}` was measured", when.text()),
        None => "the values have no ratio, or are of different loads".into(),
    }
}

fn part<'d>(when: &Expression, dut: &'d str, all: &[Reading<'_>]) -> Option<Part<'d>> {
    let of_dut: Vec<Reading<'_>> = all.iter().copied().filter(|p| p.dut == dut).collect();
    let refused = of_dut.iter().all(|p| view::has(p, MarkKind::NotSupported));
    let first = of_dut.iter().find(|p| !refused && !p.valid).or(of_dut.first().filter(|_| !refused))?;
    let outcome = judge(when, &of_dut);
    let mut said = outcome.as_ref().map_or(Says::NoValue, |o| says(o.verdict));
    // A clear case is enough for a yes; for a no, every point must be known.
    if said == Says::No && of_dut.iter().any(|p| !p.valid && !view::has(p, MarkKind::NotSupported)) {
        said = Says::NoValue;
    }
    let worst = of_dut.iter().filter(|p| p.valid).reduce(|a, b| if worse(b, a) { b } else { a });
    let words = match (said, worst) {
        (Says::NoValue, _) | (_, None) => missing(when, std::slice::from_ref(first)),
        (Says::Open, Some(worst)) => {
            format!("{}, in an interval too wide to tell", verdict::does(worst, None))
        }
        (_, Some(worst)) => verdict::does(worst, None),
    };
    let cell = worst.map_or_else(Cell::none, |w| Cell::number(units::value(&w.unit, w.value), w.value));
    let row = Row { heads: vec![dut.to_owned()], cells: vec![answer_cell(said), cell] };
    Some(Part { dut, says: said, words, row })
}

fn worse(a: &Point, b: &Point) -> bool {
    if a.metric.more_is_better() { a.value < b.value } else { a.value > b.value }
}

fn answer_cell(says: Says) -> Cell {
    Cell::text(match says {
        Says::Yes => "yes",
        Says::No => "no",
        Says::Open => "open",
        Says::NoValue => "not known",
    })
}

fn table(caption: String, head: &[&str], parts: Vec<Part<'_>>) -> Table {
    Table {
        caption,
        corner: vec!["Firewall".into()],
        head: head.iter().map(|h| Head::one(*h)).collect(),
        rows: parts.into_iter().map(|part| part.row).collect(),
        ..Table::default()
    }
}

/// The first of the settings asked about in which the firewalls differ; the first of all where they are level.
fn best<'v, 'a>(of: &Expression, view: &'v View<'a>) -> Found<'v, 'a> {
    let asked = asked(of, view);
    let settings = || asked.iter().map(|(setting, _)| *setting).filter(|s| s.points.iter().any(|p| p.valid));
    let tells = |s: &&Setting<'_>| matches!(s.difference, Difference::By(_));
    let Some(setting) = settings().find(tells).or_else(|| settings().next()) else {
        let points: Vec<Reading<'a>> = asked.iter().flat_map(|(_, points)| points.iter().copied()).collect();
        return unanswered(missing(of, &points));
    };
    if setting.is_apart() {
        return unanswered("the times were measured at loads of each firewall's own");
    }
    // What all settings that were asked about share stands in their tables.
    let varying = view::differing(asked.iter().map(|(setting, _)| &setting.levels));
    let place = verdict::place_among(setting, &varying);
    let place = if place.is_empty() { String::new() } else { format!(" ({place})") };
    let headline = verdict::headline(setting, view.reference);
    let sentence = format!("{}{place}.", headline.trim_end_matches('.'));
    let table = tables::main(view, &[(setting.points.first().map_or("", |p| p.test()), setting)]);
    (sentence, Some(table), Some(setting))
}

/// Whether the first level of a factor is worse than its last, firewall by firewall.
fn by<'v, 'a>(of: &Expression, factor: &str, view: &'v View<'a>) -> Found<'v, 'a> {
    let blocks = view.tests.iter().flat_map(|t| &t.blocks);
    let pairs: Vec<Pair<'_, '_>> = blocks.flat_map(|b| contrast::pairs(b, factor)).collect();
    let is_of_policy = Factor::named(factor).is_some_and(|factor| factor.row().of_policy);
    let has_it = |dut: &&&str| match view.role(dut) {
        Role::Calibration => false,
        Role::Forwarder => !is_of_policy,
        Role::Firewall => true,
    };
    let parts: Vec<Part<'_>> =
        view.duts.iter().filter(has_it).filter_map(|dut| contrasted(of, dut, &pairs)).collect();
    if parts.is_empty() {
        let all: Vec<Reading<'a>> = asked(of, view).into_iter().flat_map(|(_, points)| points).collect();
        return unanswered(match all.is_empty() {
            true => missing(of, &all),
            false => format!("only one level of {factor} was measured"),
        });
    }
    let caption = match pairs.first() {
        Some(pair) => format!(
            "{}: {} divided by {}, the worst case of each firewall",
            of.text(),
            pair.weak.1,
            pair.strong.1
        ),
        None => of.text().to_owned(),
    };
    (together(&parts), Some(table(caption, &["answer", "ratio"], parts)), None)
}

fn contrasted<'d>(of: &Expression, dut: &'d str, pairs: &[Pair<'_, '_>]) -> Option<Part<'d>> {
    let of_dut = pairs.iter().filter_map(|pair| {
        let (a, b) = (pair.weak.0.point(dut)?, pair.strong.0.point(dut)?);
        (of.takes(&a) && of.takes(&b)).then_some((pair, a, b))
    });
    let of_dut: Vec<_> = of_dut.filter(|(_, a, _)| !view::has(a, MarkKind::NotSupported)).collect();
    let (first, ..) = of_dut.first()?;
    let more = first.weak.0.metric.more_is_better();
    let judged = |(pair, a, b): &(&Pair<'_, '_>, Reading<'_>, Reading<'_>)| {
        let ratio = ratio::of_points(a, b).filter(|_| !pair.is_apart(dut));
        let says = match ratio {
            None => Says::NoValue,
            Some(r) if r.differs() => {
                if (r.value < 1.0) == more {
                    Says::Yes
                } else {
                    Says::No
                }
            }
            Some(r) if r.holds() => Says::No,
            Some(_) => Says::Open,
        };
        let words = ratio.map_or_else(|| missing(of, &[*a, *b]), |ratio| words(dut, pair, &ratio));
        (says, ratio, words)
    };
    let cases: Vec<(Says, Option<Ratio>, String)> = of_dut.iter().map(judged).collect();
    let found = [Says::Yes, Says::NoValue, Says::Open, Says::No]
        .into_iter()
        .find(|s| cases.iter().any(|c| c.0 == *s))?;
    // Of several settings the one that is farthest from 1 in the way that was asked for.
    let far =
        |c: &&&(Says, Option<Ratio>, String)| c.1.map_or(0.0, |r| if more { -r.value } else { r.value });
    let cases: Vec<&(Says, Option<Ratio>, String)> = cases.iter().filter(|c| c.0 == found).collect();
    let (_, ratio, words) = cases.iter().max_by(|a, b| far(a).total_cmp(&far(b)))?;
    let cell = ratio.map_or_else(Cell::none, |r| Cell::number(tables::ratio_text(&r), r.value));
    let row = Row { heads: vec![dut.to_owned()], cells: vec![answer_cell(found), cell] };
    Some(Part { dut, says: found, words: words.clone(), row })
}

/// `iptables has 0.41 times the connection rate with 1 client that it has with 200 clients`.
fn words(dut: &str, pair: &Pair<'_, '_>, ratio: &Ratio) -> String {
    let name = verdict::name(dut);
    let noun = pair.weak.0.metric.row().title.to_lowercase();
    let times = units::times(ratio.value);
    format!("{name} has {times} times the {noun} with {} that it has with {}", pair.weak.1, pair.strong.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_several_firewalls_is_said_once() {
        use Says::{No, NoValue, Open, Yes};
        type Said = (&'static str, Says, &'static str);
        let rows: [(&[Said], &str); 5] = [
            (
                &[
                    ("linux", Yes, "linux closes 0 % upon a reset"),
                    ("nftables", Yes, "nftables closes 0 % upon a reset"),
                    ("iptables", Yes, "iptables closes 2 % upon a reset"),
                    ("rampart", No, "Rampart closes 100 % upon a reset"),
                ],
                "Yes: each of linux and nftables closes 0 % upon a reset; iptables closes 2 % upon a reset; not for Rampart.",
            ),
            (
                &[("rampart", Yes, "Rampart loses 1 %"), ("rampart-tc", Yes, "Rampart at TC loses 1 %")],
                "Yes: each of Rampart and Rampart at TC loses 1 %.",
            ),
            (&[("linux", No, "linux loses 0 %")], "No: linux loses 0 %."),
            (&[("linux", No, ""), ("nftables", No, "")], "No, for none of 2 firewalls."),
            (
                &[("linux", Yes, "linux loses 1 %"), ("ipset", Open, ""), ("iptables", NoValue, "")],
                "Yes: linux loses 1 %; open for ipset, whose intervals are too wide; not known for iptables, without a valid value.",
            ),
        ];
        for (parts, said) in rows {
            let part = |&(dut, says, words): &Said| Part {
                dut,
                says,
                words: words.to_owned(),
                row: Row { heads: Vec::new(), cells: Vec::new() },
            };
            assert_eq!(together(&parts.iter().map(part).collect::<Vec<_>>()), said);
        }
    }
}
