//! Percentiles of latency, one row a firewall, on a logarithmic axis: p50, p90, p99, p99.9 and the largest.

use super::scale::Axis;
use super::{Anchor, DISTINCT_SERIES, LINE, Svg, text_width};
use measure::results::LatencySummary;

/// The rungs, each with a marker of its own.
pub(crate) const RUNGS: [&str; 5] = ["p50", "p90", "p99", "p99.9", "max"];

/// A firewall's percentiles in ns.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// Its name.
    pub(crate) name: String,
    /// Colour.
    pub(crate) index: usize,
    /// The distribution.
    pub(crate) latency: LatencySummary,
}

/// What to draw.
pub(crate) struct Ladder {
    /// Unique in the page.
    pub(crate) id: String,
    /// For the reader of the SVG.
    pub(crate) title: String,
    /// What it shows.
    pub(crate) description: String,
    /// The time that the percentiles are of.
    pub(crate) time: &'static str,
    /// From top to bottom.
    pub(crate) rows: Vec<Row>,
}

const WIDTH: f64 = 600.0;
const ROW: f64 = 28.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 46.0;

/// The distribution's values in the order of [`RUNGS`].
pub(crate) const fn rungs(l: &LatencySummary) -> [f64; 5] {
    [l.p50, l.p90, l.p99, l.p999, l.max]
}

impl Ladder {
    /// The chart as SVG; none when there are no rows with times above zero.
    pub(crate) fn draw(&self) -> Option<String> {
        let values: Vec<f64> =
            self.rows.iter().flat_map(|r| rungs(&r.latency)).filter(|v| *v > 0.0).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        if values.is_empty() {
            return None;
        }
        let left = self.rows.iter().map(|r| text_width(&r.name)).fold(0.0, f64::max) + 18.0;
        let axis = Axis::log(low, high, (left, WIDTH - 34.0));
        let mut svg = Svg::new(WIDTH, TOP + ROW * self.rows.len() as f64 + BOTTOM);
        self.draw_axis(&mut svg, &axis, left);
        draw_legend(&mut svg, left);
        for (row, latency) in self.rows.iter().enumerate() {
            draw_row(&mut svg, &axis, left, TOP + ROW * (row as f64 + 0.5), latency);
        }
        Some(svg.finish(&self.id, &self.title, &self.description))
    }

    fn draw_axis(&self, svg: &mut Svg, axis: &Axis, left: f64) {
        let base = TOP + ROW * self.rows.len() as f64;
        for tick in axis.ticks(58.0) {
            let x = axis.at(tick);
            svg.line("grid", (x, TOP), (x, base));
            svg.text("tick", (x, base + 17.0), Anchor::Middle, &axis.label("ns", tick));
        }
        svg.line("axis", (left, base), (WIDTH - 34.0, base));
        let name = format!("{}, logarithmic", self.time);
        svg.text("name", (f64::midpoint(left, WIDTH - 34.0), base + 37.0), Anchor::Middle, &name);
    }
}

fn draw_legend(svg: &mut Svg, left: f64) {
    let mut x = left + 6.0;
    for (rung, name) in RUNGS.iter().enumerate() {
        svg.marker_of_rung(rung, (x, LINE - 4.0), "", None);
        svg.text("label", (x + 9.0, LINE), Anchor::Start, name);
        x += text_width(name) + 34.0;
    }
}

fn draw_row(svg: &mut Svg, axis: &Axis, left: f64, y: f64, row: &Row) {
    svg.text("label", (left - 12.0, y + 4.0), Anchor::End, &row.name);
    let values = rungs(&row.latency);
    let class = format!("l s{}", row.index % DISTINCT_SERIES);
    svg.path(&class, &[(axis.at(values[0]), y), (axis.at(values[4]), y)]);
    for (rung, value) in values.iter().enumerate() {
        let tip = format!("{} {}: {}", row.name, RUNGS[rung], crate::units::value("ns", *value));
        svg.marker_of_rung(rung, (axis.at(*value), y), &tip, Some(row.index));
    }
}

impl Svg {
    /// Markers of rungs use the shapes of series, but the colour of their firewall.
    fn marker_of_rung(&mut self, rung: usize, at: (f64, f64), tip: &str, series: Option<usize>) {
        const SHAPES: [usize; 5] = [0, 3, 1, 2, 5];
        let class = series.map_or_else(|| "m ink".to_string(), |s| format!("m s{}", s % DISTINCT_SERIES));
        self.shape(&class, SHAPES[rung], at, tip);
    }
}
