//! Two runs side by side: every point of one with the same point of the other, the ratio new / old, and whether the
//! machine was the same. Runs are apart in time, so their rounds are not paired. Pure.

use crate::expr::Subject;
use crate::ratio::{self, Ratio, Standing};
use crate::table::{Cell, Head, Row, Table};
use crate::{tables, terminal, units, view};
use measure::level;
use measure::results::{MarkKind, Metric, Reading, Results};
use std::collections::{BTreeMap, BTreeSet};

/// The same test, firewall, factors, cores, placement and metric in both runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Matched<'a> {
    /// Before.
    pub old: Reading<'a>,
    /// After.
    pub new: Reading<'a>,
}

impl Matched<'_> {
    /// New / old with its interval, which is not paired; `None` when a point is invalid or the ratio not finite.
    pub fn ratio(&self) -> Option<Ratio> {
        ratio::of_runs(&self.new, &self.old)
    }

    /// What the comparison says of the new value; `None` when a point is invalid, or when other programs ran beside one of
    /// the runs: a difference may be theirs.
    pub fn standing(&self) -> Option<Standing> {
        if self.disturbed().is_some() { None } else { ratio::standing_of_runs(&self.new, &self.old) }
    }

    /// Which run other programs disturbed.
    fn disturbed(&self) -> Option<&'static str> {
        let runs = [("old", &self.old), ("new", &self.new)];
        runs.into_iter().find(|(_, point)| view::has(point, MarkKind::ForeignLoad)).map(|(name, _)| name)
    }

    /// Whether the runs cannot be distinguished; `None` when a point is invalid.
    pub fn overlap(&self) -> Option<bool> {
        self.standing().map(|s| matches!(s, Standing::Level | Standing::Open))
    }
}

/// Two runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison<'a> {
    /// Points that both runs have, in the order of the new one.
    pub matched: Vec<Matched<'a>>,
    /// Points that only the old run has.
    pub only_old: Vec<Reading<'a>>,
    /// Points that only the new run has.
    pub only_new: Vec<Reading<'a>>,
    /// Why a difference may be the machine's and not the firewall's, and what else makes the runs hard to compare.
    pub warnings: Vec<String>,
}

impl<'a> Comparison<'a> {
    /// What `--fail-if` looks at.
    pub fn subjects(&self) -> Vec<Subject<'a>> {
        self.matched.iter().map(|m| Subject::Pair { old: m.old, new: m.new }).collect()
    }
}

/// Several runs, each against the same one.
#[derive(Debug, Clone, PartialEq)]
pub struct Several<'a> {
    /// What the reader calls the run that the others are compared with.
    pub reference: String,
    /// What the reader calls each of the others, and what it is to the reference.
    pub others: Vec<(String, Comparison<'a>)>,
}

impl Several<'_> {
    /// All comparisons in one table for a terminal, a column a run, with their warnings before and what only some runs have
    /// behind it. Two runs have the table of [`Comparison::text`].
    pub fn text(&self, options: &terminal::Options) -> String {
        if let [(_, only)] = self.others.as_slice() {
            return only.text(options);
        }
        let mut out = String::new();
        for (name, comparison) in &self.others {
            for warning in &comparison.warnings {
                out += &format!("warning: {} against {name}: {warning}\n", self.reference);
            }
        }
        if !out.is_empty() {
            out.push('\n');
        }
        let all: Vec<_> = self.others.iter().flat_map(|(_, c)| c.points()).map(|p| p.levels()).collect();
        let varying = view::differing(all.iter());
        out += &terminal::plain(&self.table(&varying), options);
        for (name, comparison) in &self.others {
            for (points, which) in [(&comparison.only_old, &self.reference), (&comparison.only_new, name)] {
                for point in points {
                    out += &format!(
                        "only in {which}, of {} and {name}: {}\n",
                        self.reference,
                        phrase(point, &varying)
                    );
                }
            }
        }
        out
    }

    fn table(&self, varying: &[String]) -> Table {
        let mut rows: BTreeMap<Key<'_>, Row> = BTreeMap::new();
        for (column, (_, comparison)) in self.others.iter().enumerate() {
            for matched in &comparison.matched {
                let row = rows.entry(key(&matched.old)).or_insert_with(|| {
                    let heads = vec![
                        matched.old.test().to_owned(),
                        matched.old.dut.clone(),
                        setting(&matched.old, varying),
                    ];
                    let mut cells = vec![value(&matched.old)];
                    cells.resize(1 + self.others.len(), Cell::none());
                    Row { heads, cells }
                });
                row.cells[1 + column] = match matched.ratio() {
                    Some(ratio) => {
                        let text = format!("{}: {}", tables::ratio_text(&ratio), verdict(matched));
                        Cell::number(text, ratio.value)
                    }
                    None => Cell::text(verdict(matched)),
                };
            }
        }
        let head = self.others.iter().map(|(name, _)| format!("{name} / {}", self.reference));
        Table {
            caption: format!(
                "Each run against {}: ratio of the medians, with its 95 % interval",
                self.reference
            ),
            corner: vec!["test".into(), "firewall".into(), "metric and setting".into()],
            head: std::iter::once(self.reference.clone()).chain(head).map(Head::one).collect(),
            rows: rows.into_values().collect(),
            ..Table::default()
        }
    }
}

/// Puts two runs side by side.
pub fn compare<'a>(old: &'a Results, new: &'a Results) -> Comparison<'a> {
    let mut before: BTreeMap<Key<'a>, Reading<'a>> = old.readings().map(|p| (key(&p), p)).collect();
    let mut comparison = Comparison {
        matched: Vec::new(),
        only_old: Vec::new(),
        only_new: Vec::new(),
        warnings: warnings(old, new),
    };
    for point in new.readings() {
        match before.remove(&key(&point)) {
            Some(old) => comparison.matched.push(Matched { old, new: point }),
            None => comparison.only_new.push(point),
        }
    }
    comparison.only_old = old.readings().filter(|p| before.contains_key(&key(p))).collect();
    comparison
}

type Key<'a> = (&'a str, &'a str, BTreeMap<&'a str, &'a str>, u32, &'static str, Metric);

fn key<'a>(point: &Reading<'a>) -> Key<'a> {
    let factors = point.factors().map(|(factor, level)| (factor, level.text.as_str())).collect();
    let Reading { point, cell, .. } = point;
    (&cell.test, &point.dut, factors, cell.cores, cell.placement.name(), point.metric)
}

fn warnings(old: &Results, new: &Results) -> Vec<String> {
    let (a, b) = (&old.environment, &new.environment);
    let mut warnings = Vec::new();
    if old.started == new.started && old == new {
        warnings.push(
            "this is one run twice, so every value is the same and no condition can tell anything".to_owned(),
        );
    }
    let mut differs = |what: &str, old: &str, new: &str| {
        if old != new {
            let shown = |s: &str| if s.is_empty() { "not known".to_string() } else { s.to_string() };
            warnings.push(format!("{what} differs: {} before, {} after", shown(old), shown(new)));
        }
    };
    differs("suite", &old.suite, &new.suite);
    differs("profile", &old.profile, &new.profile);
    differs("seed", &old.seed.to_string(), &new.seed.to_string());
    differs("processor", &a.cpu, &b.cpu);
    differs("number of cores", &a.cores.to_string(), &b.cores.to_string());
    differs("kernel", &a.kernel, &b.kernel);
    differs("clock source", &a.clock, &b.clock);
    differs("virtualization", &a.virtualization, &b.virtualization);
    for (what, old, new) in [
        ("version of", &a.versions, &b.versions),
        ("mitigation of", &a.mitigations, &b.mitigations),
        ("setting", &a.settings, &b.settings),
    ] {
        let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for name in names {
            let level = |m: &BTreeMap<String, String>| m.get(name).cloned().unwrap_or_default();
            differs(&format!("{what} {name}"), &level(old), &level(new));
        }
    }
    warnings.extend(busy("the old run", old).into_iter().chain(busy("the new run", new)));
    for (name, run) in [("old", old), ("new", new)] {
        if !run.complete {
            warnings.push(format!("the {name} run did not finish: points may be missing"));
        }
    }
    warnings
}

/// A machine that was busy before the run began, or whose time was taken, measures that too.
fn busy(name: &str, run: &Results) -> Vec<String> {
    let env = &run.environment;
    let mut warnings = Vec::new();
    if env.load_before > 0.25 * f64::from(env.cores.max(1)) {
        warnings.push(format!(
            "{name} began on a busy machine: load {:.2} on {} cores",
            env.load_before, env.cores
        ));
    }
    if env.stolen >= 0.01 {
        warnings.push(format!("{name} lost {} of its time to the hypervisor", units::percent(env.stolen)));
    }
    warnings
}

impl Comparison<'_> {
    /// The comparison for a terminal: table, points that only one run has, warnings.
    pub fn text(&self, options: &terminal::Options) -> String {
        let mut out = String::new();
        for warning in &self.warnings {
            out += &format!("warning: {warning}\n");
        }
        if !self.warnings.is_empty() {
            out.push('\n');
        }
        out += &terminal::plain(&self.table(), options);
        let varying = self.varying();
        for (points, which) in [(&self.only_old, "old"), (&self.only_new, "new")] {
            for point in points {
                out += &format!("only in the {which} run: {}\n", phrase(point, &varying));
            }
        }
        out
    }

    /// The comparison as Markdown.
    pub fn markdown(&self) -> String {
        let mut out = self.table().markdown();
        for warning in &self.warnings {
            out += &format!("\n- Warning: {}", crate::table::md(warning));
        }
        let varying = self.varying();
        for (points, which) in [(&self.only_old, "old"), (&self.only_new, "new")] {
            for point in points {
                out +=
                    &format!("\n- Only in the {which} run: {}", crate::table::md(&phrase(point, &varying)));
            }
        }
        out + "\n"
    }

    fn table(&self) -> Table {
        let varying = self.varying();
        Table {
            caption: "New against old: ratio of the medians, with its 95 % interval".into(),
            corner: vec!["test".into(), "firewall".into(), "metric and setting".into()],
            head: ["old", "new", "new / old", "verdict"].map(Head::one).into(),
            rows: self.matched.iter().map(|m| row(m, &varying)).collect(),
            ..Table::default()
        }
    }

    /// Labels that differ among the points: the others would only repeat themselves in every line.
    fn varying(&self) -> Vec<String> {
        let levels: Vec<_> = self.points().map(|p| p.levels()).collect();
        view::differing(levels.iter())
    }

    fn points(&self) -> impl Iterator<Item = Reading<'_>> {
        let matched = self.matched.iter().map(|m| m.new);
        matched.chain(self.only_old.iter().copied()).chain(self.only_new.iter().copied())
    }
}

fn phrase(point: &Reading<'_>, varying: &[String]) -> String {
    format!("{}, {}, {}", point.test(), point.dut, setting(point, varying))
}

fn setting(point: &Reading<'_>, varying: &[String]) -> String {
    let levels = point.levels();
    let telling = levels.iter().filter(|(name, _)| varying.contains(*name));
    let words = level::phrases(telling.map(|(name, level)| (name.as_str(), level)));
    let metric = point.metric.row().key;
    if words.is_empty() { metric.into() } else { format!("{metric}: {words}") }
}

fn row(matched: &Matched<'_>, varying: &[String]) -> Row {
    let ratio = matched.ratio();
    let cells = vec![
        value(&matched.old),
        value(&matched.new),
        ratio.map_or_else(Cell::none, |r| Cell::number(tables::ratio_text(&r), r.value)),
        Cell::text(verdict(matched)),
    ];
    Row {
        heads: vec![matched.new.test().to_owned(), matched.new.dut.clone(), setting(&matched.new, varying)],
        cells,
    }
}

fn value(point: &Reading<'_>) -> Cell {
    if !point.valid {
        return Cell {
            text: "invalid".into(),
            marks: tables::letters(point),
            class: "invalid",
            ..Cell::default()
        };
    }
    Cell::number(units::measured(point), point.value)
}

fn verdict(matched: &Matched<'_>) -> String {
    let more_is_better = matched.new.metric.more_is_better();
    match (matched.standing(), matched.disturbed()) {
        (None, Some(run)) => format!("not comparable: other programs ran beside the {run} run"),
        (None, None) => "not comparable".into(),
        (Some(Standing::Level), _) => "level".into(),
        (Some(Standing::Open), _) => ratio::too_few(matched.old.rounds.len().min(matched.new.rounds.len())),
        (Some(standing), _) if (standing == Standing::More) == more_is_better => "better".into(),
        (Some(_), _) => "worse".into(),
    }
}
