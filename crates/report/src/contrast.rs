//! Hash weakness (EANTC 2001, RFC 4814): a firewall that sorts its connections badly is slower with one address than with
//! many, or with sequential ports than with random ones. The ratio of the two rates, round by round. Pure.

use crate::ratio;
use crate::table::{Cell, Head, Row, Table};
use crate::view::{Block, Setting};
use crate::{tables, units, view};
use measure::level::{self, Level};
use measure::results::{Better, Counts, Reading};
use std::collections::{BTreeMap, BTreeSet};

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
        _ => {
            let has = |l: &str| levels.iter().find(|x| x.text == l).cloned();
            Some((has("sequential")?, has("random")?))
        }
    }
}

fn table(block: &Block<'_>, contrast: &Contrast) -> Option<Table> {
    let (weak, strong) = ends(block, contrast.factor)?;
    let rest = |s: &Setting<'_>| {
        let mut levels = s.levels.clone();
        levels.retain(|name, _| name != contrast.factor && !contrast.along.contains(&name.as_str()));
        levels
    };
    let at = |level: &Level| {
        let level = level.clone();
        block.settings.iter().filter(move |s| s.levels.get(contrast.factor) == Some(&level))
    };
    let pairs: Vec<(BTreeMap<String, Level>, &Setting<'_>, &Setting<'_>)> =
        at(&weak).filter_map(|a| Some((rest(a), a, at(&strong).find(|b| rest(b) == rest(a))?))).collect();
    let factors = varying(pairs.iter().map(|(levels, ..)| levels));
    let mut rows = Vec::new();
    for (levels, weak, strong) in &pairs {
        for point in &weak.points {
            let Some(other) = strong.point(&point.dut) else { continue };
            let mut heads = vec![point.dut.clone()];
            heads.extend(factors.iter().map(|f| view::short(levels.get(f))));
            rows.push(Row { heads, cells: cells(contrast, (weak, point), (strong, &other)) });
        }
    }
    let mut corner = vec!["Firewall".to_string()];
    corner.extend(factors.iter().map(|f| level::title(f)));
    let [few, many] = contrast.head;
    let head = match contrast.factor {
        "clients" => [format!("{few}: {}", weak.phrase), format!("{many}: {}", strong.phrase)],
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

fn varying<'a>(levels: impl Iterator<Item = &'a BTreeMap<String, Level>> + Clone) -> Vec<String> {
    let names: BTreeSet<&String> = levels.clone().flat_map(|l| l.keys()).collect();
    let differs = |name: &&String| {
        let distinct: BTreeSet<Option<&Level>> = levels.clone().map(|l| l.get(*name)).collect();
        distinct.len() > 1
    };
    let mut names: Vec<String> = names.into_iter().filter(differs).cloned().collect();
    names.sort_by_key(|f| level::column(f));
    names
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
    cells.push(Cell::text(match (ratio.differs(), ratio.value < 1.0) {
        (false, _) => "level",
        (true, true) => contrast.reading[0],
        (true, false) => contrast.reading[1],
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
