//! Hash weakness (EANTC 2001, RFC 4814): a firewall that sorts its connections badly is slower with one address than with
//! many, or with sequential ports than with random ones. The ratio of the two rates, round by round. Pure.

use crate::differ::Difference;
use crate::ratio::{self, Standing};
use crate::table::{Cell, Head, Row, Table};
use crate::view::{Block, Setting};
use crate::{tables, units, view};
use measure::level::Level;
use measure::results::{Better, Counts, Reading};
use std::collections::BTreeMap;

/// Two levels of a factor that a hash may tell apart.
struct Contrast {
    factor: &'static str,
    /// Factors that may differ with it: what is shared out among more addresses need not divide evenly.
    along: &'static [&'static str],
    caption: &'static str,
    /// Names of the two columns.
    head: [&'static str; 2],
    /// What is said of a ratio below 1 and above it.
    reading: [&'static str; 2],
}

const CONTRASTS: [Contrast; 2] = [
    Contrast {
        factor: "clients",
        along: &["flows", "servers"],
        caption: "Few addresses against many: the value with the fewest client addresses divided by the value with the most",
        head: ["fewest addresses", "most addresses"],
        reading: ["worse with few addresses", "better with few addresses"],
    },
    Contrast {
        factor: "order",
        along: &[],
        caption: "Sequential against random: the value with addresses and ports in order divided by the value with the same in random order",
        head: ["sequential", "random"],
        reading: ["worse in order", "better in order"],
    },
];

/// The tables of a block of connections: one a factor that has two such levels.
pub(crate) fn tables(block: &Block<'_>) -> Vec<Table> {
    let row = block.metric.row();
    let rate = row.counts == Counts::Connections
        && row.better == Better::More
        && (row.rate || row.unit == "connections");
    if !rate { Vec::new() } else { CONTRASTS.iter().filter_map(|c| table(block, c)).collect() }
}

/// The levels to compare: the weak one first.
fn ends(block: &Block<'_>, factor: &str) -> Option<(Level, Level)> {
    let (_, levels) = block.varying().into_iter().find(|(name, _)| name == factor)?;
    let levels: Vec<Level> = levels.into_iter().flatten().collect();
    match factor {
        "clients" => Some((levels.first()?.clone(), levels.last()?.clone())),
        "order" => {
            let has = |l: &str| levels.iter().find(|x| x.text == l).cloned();
            Some((has("sequential")?, has("random")?))
        }
        // The most of anything else is the harder.
        _ => Some((levels.last()?.clone(), levels.first()?.clone())),
    }
}

/// Two settings of a block that differ in a factor alone, each with its level in words: the one that is thought to be the
/// harder, and the other.
pub(crate) struct Pair<'s, 'a> {
    pub(crate) weak: (&'s Setting<'a>, String),
    pub(crate) strong: (&'s Setting<'a>, String),
    levels: BTreeMap<String, Level>,
}

impl Pair<'_, '_> {
    /// Whether a firewall's two values are times at different loads.
    pub(crate) fn is_apart(&self, dut: &str) -> bool {
        let difference = Difference::Unknown;
        let points = [&self.weak, &self.strong].into_iter().filter_map(|(s, _)| s.point(dut)).collect();
        Setting { metric: self.weak.0.metric, levels: BTreeMap::new(), points, difference }.is_apart()
    }
}

/// The pairs of a block.
pub(crate) fn pairs<'s, 'a>(block: &'s Block<'a>, factor: &str) -> Vec<Pair<'s, 'a>> {
    let Some((weak, strong)) = ends(block, factor) else { return Vec::new() };
    let along = CONTRASTS.iter().find(|c| c.factor == factor).map_or(&[][..], |c| c.along);
    let at = |level: &Level| {
        let level = level.clone();
        block.settings.iter().filter(move |s| s.levels.get(factor) == Some(&level))
    };
    // A factor that this one decides has nothing to say: among no rules, no rule has a place.
    let own = [&weak, &strong].map(|level| view::differing(at(level).map(|s| &s.levels)));
    let rest = |s: &Setting<'_>| {
        let mut levels = s.levels.clone();
        levels.retain(|name, _| {
            !along.contains(&name.as_str()) && own.iter().any(|names| names.contains(name))
        });
        levels
    };
    let pair = |a: &'s Setting<'a>| {
        let b = at(&strong).find(|b| rest(b) == rest(a))?;
        Some(Pair { weak: (a, weak.phrase.clone()), strong: (b, strong.phrase.clone()), levels: rest(a) })
    };
    at(&weak).filter_map(pair).collect()
}

fn table(block: &Block<'_>, contrast: &Contrast) -> Option<Table> {
    let pairs = pairs(block, contrast.factor);
    let factors = view::differing(pairs.iter().map(|pair| &pair.levels));
    let mut rows = Vec::new();
    for Pair { levels, weak: (weak, _), strong: (strong, _) } in &pairs {
        for point in &weak.points {
            let Some(other) = strong.point(&point.dut) else { continue };
            let mut heads = vec![point.dut.clone()];
            heads.extend(factors.iter().map(|f| view::short(levels.get(f))));
            rows.push(Row { heads, cells: cells(contrast, (weak, point), (strong, &other)) });
        }
    }
    let corner = tables::corner(&factors);
    let [few, many] = contrast.head;
    let head = match contrast.factor {
        "clients" => {
            let first = pairs.first()?;
            [format!("{few}: {}", first.weak.1), format!("{many}: {}", first.strong.1)]
        }
        _ => [few.into(), many.into()],
    };
    (!rows.is_empty()).then(|| Table {
        caption: contrast.caption.into(),
        corner,
        head: head.into_iter().chain(["ratio".into(), "in each round".into(), "reading".into()]).map(Head::one).collect(),
        rows,
        notes: vec![
            "The ratio is the median over the rounds with its 95 % interval; well below 1, the firewall's table of connections depends on what is hashed (RFC 4814)".into(),
        ],
        ..Table::default()
    })
}

type Side<'s, 'a> = (&'s Setting<'a>, &'s Reading<'a>);

fn cells(contrast: &Contrast, (weak, point): Side<'_, '_>, (strong, other): Side<'_, '_>) -> Vec<Cell> {
    let mut cells =
        vec![tables::value_cell(weak, Some(*point), None), tables::value_cell(strong, Some(*other), None)];
    let Some(ratio) = ratio::of_points(point, other) else {
        cells.extend([Cell::none(), Cell::none(), Cell::text("no ratio: a point has no usable value")]);
        return cells;
    };
    let rounds: Vec<String> = ratio::per_round(point, other).map(|r| units::significant(r, 3)).collect();
    cells.push(Cell::number(tables::ratio_text(&ratio), ratio.value));
    cells.push(Cell::text(rounds.join(", ")));
    cells.push(Cell::text(match ratio.standing() {
        Standing::Level => "level".into(),
        Standing::Open => ratio.too_few(),
        Standing::Less => contrast.reading[0].into(),
        Standing::More => contrast.reading[1].into(),
    }));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::view::View;

    #[test]
    fn a_weak_hash_is_found_and_a_strong_one_is_not_blamed() {
        let run = sample::eantc_tcp(&["nftables", "iptables"]);
        let view = View::new(&run, None);
        let rate = view.tests.iter().find(|t| t.name == "hash").unwrap();
        let tables: Vec<Table> = rate.blocks.iter().flat_map(tables).collect();
        assert_eq!(tables.len(), 2, "addresses and order");
        let row = |table: &Table, dut: &str| table.rows.iter().find(|r| r.heads[0] == dut).unwrap().clone();
        let weak = row(&tables[0], "iptables");
        assert_eq!(weak.cells[4].text, "worse with few addresses", "{weak:?}");
        assert!(weak.cells[2].sort.unwrap() < 0.6, "{weak:?}");
        assert_eq!(weak.cells[3].text.split(", ").count(), 5, "a ratio a round");
        assert_eq!(row(&tables[0], "nftables").cells[4].text, "level");
    }
}
