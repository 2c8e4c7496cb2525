//! Each direction of a test by itself: what was sent and what arrived, and how evenly. Pure.

use crate::table::{Cell, Head, Row, Table};
use crate::units;
use crate::view::{Block, Test, View};
use measure::results::{LatencySummary, Reading};
use measure::shape::Lane;
use measure::trial::LaneOutcome;

/// The directions of every valid point of a block whose latency was measured, a table a firewall, because their times may be of
/// different loads. What an earlier block showed of the same trials is not shown again.
pub(crate) fn tables(view: &View<'_>, test: &Test<'_>, block: &Block<'_>) -> Vec<Table> {
    view.duts.iter().filter_map(|dut| table(test, block, dut)).collect()
}

fn table(test: &Test<'_>, block: &Block<'_>, dut: &str) -> Option<Table> {
    let factors = block.factors();
    let mut rows = Vec::new();
    for setting in &block.settings {
        let shown_before = |p: &Reading<'_>| test.shown_before(block, setting, p);
        for point in
            setting.points.iter().filter(|p| p.dut == dut && p.valid && is_timed(p) && !shown_before(p))
        {
            let heads = crate::tables::heads(&point.dut, setting, &factors);
            rows.extend(point.lanes().iter().map(|lane| row(&heads, lane)));
        }
    }
    (!rows.is_empty()).then(|| around(dut, &factors, rows))
}

fn is_timed(point: &Reading<'_>) -> bool {
    point.lanes().iter().any(|lane| lane.latency_ns.is_some())
}

fn row(heads: &[String], outcome: &LaneOutcome) -> Row {
    let mut heads = heads.to_vec();
    heads.push(name(outcome.lane));
    // A frame that arrived twice was received once, so more received than sent would be a defect; the ledger tells it.
    let lost = outcome.sent.saturating_sub(outcome.received);
    let counts =
        [outcome.sent, outcome.received, lost, outcome.duplicated, outcome.reordered, outcome.corrupted];
    let mut cells: Vec<Cell> = counts.iter().map(|n| Cell::number(units::count(*n), *n as f64)).collect();
    cells.extend([outcome.latency_ns, outcome.pdv_ns, outcome.ipdv_ns].map(times));
    Row { heads, cells }
}

/// Two percentiles in one cell: with a column each, the table would not fit on paper.
fn times(times: Option<LatencySummary>) -> Cell {
    times.map_or_else(Cell::none, |t| {
        let error = units::clock_error("ns", t.clock_error);
        let time = |ns: f64| format!("{}{error}", units::value("ns", ns));
        Cell::number(time(t.p50), t.p50).with_detail(format!("p99 {}", time(t.p99)))
    })
}

/// `private → hostile`.
fn name(lane: Lane) -> String {
    format!("{} → {}", lane.from.name(), lane.to.name())
}

fn around(dut: &str, factors: &[String], rows: Vec<Row>) -> Table {
    let mut corner = crate::tables::corner(factors);
    corner.push("Direction".into());
    let frames = ["sent", "received", "lost", "duplicated", "reordered", "corrupted"];
    let times = ["latency p50", "PDV p50", "IPDV p50"];
    Table {
        caption: format!("{dut}: each direction in one deciding trial, the one whose latency stands above; in small print the 99th percentile"),
        corner,
        groups: Vec::new(),
        head: frames.iter().chain(&times).map(|h| Head::one(*h)).collect(),
        rows,
        notes: vec![
            "lost = sent less received intact; corrupted frames are among them".into(),
            "PDV = packet delay variation: latency less the smallest (RFC 5481 section 4.2)".into(),
            "IPDV = inter-packet delay variation: difference to the frame before, without its sign (RFC 5481 section 4.1)".into(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use measure::results::Metric;

    #[test]
    fn every_direction_of_a_valid_point_is_a_row_whose_frames_add_up() {
        let mut run = sample::eantc(3);
        let latencies = || run.readings().filter(|p| p.metric == Metric::Latency);
        let expected: usize = latencies().map(|p| p.lanes().len()).sum();
        assert!(latencies().any(|p| p.lanes().len() == 2) && latencies().any(|p| p.lanes().len() == 1));
        let rows = |run: &measure::results::Results| {
            let view = View::new(run, None);
            let blocks = view.tests.iter().flat_map(|t| t.blocks.iter().map(move |b| (t, b)));
            let latencies = blocks.filter(|(_, b)| b.metric == Metric::Latency);
            latencies.flat_map(|(t, b)| tables(&view, t, b)).flat_map(|t| t.rows).collect::<Vec<_>>()
        };
        let found = rows(&run);
        assert_eq!(found.len(), expected);
        for row in &found {
            let of = |i: usize| row.cells[i].sort.unwrap();
            assert_eq!(of(0), of(1) + of(2), "sent = received + lost");
            assert_eq!(row.cells.len(), 9);
        }
        assert!(found.iter().any(|r| r.heads.last().is_some_and(|h| h == "hostile → private")));
        run.points.iter_mut().for_each(|p| p.valid = false);
        assert!(rows(&run).is_empty(), "an invalid point has no figures");
    }
}
