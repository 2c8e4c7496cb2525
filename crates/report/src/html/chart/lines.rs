//! Lines over the levels of one factor: throughput by frame size or by flows, loss by load.

use super::scale::{self, Axis, Span};
use super::{Anchor, LINE, Svg, spread, text_width};

/// One value with its interval.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Dot {
    /// Index of the level, or the position on a numeric axis.
    pub(crate) x: f64,
    /// Value.
    pub(crate) value: f64,
    /// Interval.
    pub(crate) low: f64,
    /// Interval.
    pub(crate) high: f64,
    /// The value is a lower bound: drawn hollow.
    pub(crate) hollow: bool,
    /// Shown on hover.
    pub(crate) tip: String,
}

/// One firewall's values. A missing level interrupts the line: nothing is drawn for an invalid point.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    /// Direct label.
    pub(crate) name: String,
    /// Colour, marker and dash.
    pub(crate) index: usize,
    /// In order of x; `None` interrupts the line.
    pub(crate) dots: Vec<Option<Dot>>,
}

/// What to draw.
pub(crate) struct Lines<'a> {
    /// Unique in the page.
    pub(crate) id: String,
    /// For the reader of the SVG.
    pub(crate) title: String,
    /// What it shows, in a sentence or two.
    pub(crate) description: String,
    /// Name of the values' axis.
    pub(crate) what: &'a str,
    /// Unit of the values, as in the schema.
    pub(crate) unit: &'a str,
    /// Name of the horizontal axis.
    pub(crate) x_name: String,
    /// Labels of the levels, or none for a numeric axis.
    pub(crate) x_labels: Vec<String>,
    /// Unit of a numeric horizontal axis.
    pub(crate) x_unit: &'a str,
    /// Values that the axis must suit besides those of the lines, so that charts side by side share one.
    pub(crate) reach: &'a [Span],
    /// A marker and an interval at every value; without, the line alone, for many values that have no interval.
    pub(crate) marked: bool,
    /// The axis starts at zero even when the values span orders of magnitude: for a rate that begins with a ramp.
    pub(crate) from_zero: bool,
    /// A stretch of a numeric axis to be shaded: from, to, and what happened there.
    pub(crate) shaded: Option<(f64, f64, &'a str)>,
    /// The lines.
    pub(crate) series: Vec<Series>,
}

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 330.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 50.0;
const LEFT: f64 = 86.0;

struct Frame {
    x: Box<dyn Fn(f64) -> f64>,
    y: Axis,
    right: f64,
}

impl Lines<'_> {
    /// The chart as SVG; none when there is nothing valid to draw.
    pub(crate) fn draw(&self) -> Option<String> {
        let mut spans: Vec<Span> = self.dots().map(|d| (d.value, d.low, d.high)).collect();
        if spans.is_empty() {
            return None;
        }
        spans.extend(self.reach);
        let values = scale::reach(&spans);
        let labels = self.series.iter().map(|s| text_width(&s.name)).fold(0.0, f64::max);
        let right = WIDTH - labels - 36.0;
        let y = match self.from_zero {
            true => Axis::linear(values.iter().copied().fold(0.0, f64::max), (HEIGHT - BOTTOM, TOP)),
            false => Axis::for_values(&values, 8.0, (HEIGHT - BOTTOM, TOP)),
        };
        let frame = Frame { x: self.x_positions(right), y, right };
        let mut svg = Svg::new(WIDTH, HEIGHT);
        self.draw_axes(&mut svg, &frame);
        for series in &self.series {
            self.draw_series(&mut svg, &frame, series);
        }
        self.draw_labels(&mut svg, &frame);
        Some(svg.finish(&self.id, &self.title, &self.description))
    }

    fn dots(&self) -> impl Iterator<Item = &Dot> {
        self.series.iter().flat_map(|s| s.dots.iter().flatten())
    }

    fn x_positions(&self, right: f64) -> Box<dyn Fn(f64) -> f64> {
        if self.x_labels.is_empty() {
            let axis = Axis::linear(
                self.dots().map(|d| d.x).fold(0.0, f64::max) / 1.02,
                (LEFT + 10.0, right - 10.0),
            );
            return Box::new(move |x| axis.at(x));
        }
        let step = (right - LEFT) / self.x_labels.len() as f64;
        Box::new(move |x| LEFT + step * (x + 0.5))
    }

    /// Error bars of different firewalls stand side by side, not on top of each other.
    fn shift(&self, series: &Series) -> f64 {
        if self.x_labels.is_empty() {
            return 0.0;
        }
        let at = self.series.iter().position(|s| s.index == series.index).unwrap_or(0) as f64;
        (at - (self.series.len() - 1) as f64 / 2.0) * 2.6
    }

    fn draw_axes(&self, svg: &mut Svg, frame: &Frame) {
        if let Some((from, to, what)) = self.shaded {
            let (left, right) = ((frame.x)(from), (frame.x)(to));
            svg.rect("shaded", (left, TOP), (right - left, HEIGHT - BOTTOM - TOP), what);
            // Above the highest line of the grid, and below the lines of the firewalls.
            svg.text("label strong", (left + 2.0, TOP - 3.0), Anchor::Start, what);
        }
        for tick in frame.y.ticks(30.0) {
            let y = frame.y.at(tick);
            svg.line("grid", (LEFT, y), (frame.right, y));
            svg.text("tick", (LEFT - 8.0, y + 4.0), Anchor::End, &frame.y.label(self.unit, tick));
        }
        let base = HEIGHT - BOTTOM;
        svg.line("axis", (LEFT, base), (frame.right, base));
        for (x, label) in self.x_ticks(frame) {
            svg.line("axis", (x, base), (x, base + 4.0));
            svg.text("tick", (x, base + 18.0), Anchor::Middle, &label);
        }
        svg.text("name", (f64::midpoint(LEFT, frame.right), HEIGHT - 10.0), Anchor::Middle, &self.x_name);
        svg.upward_text("name", (14.0, f64::midpoint(TOP, base)), &frame.y.name(self.what, self.unit));
    }

    fn x_ticks(&self, frame: &Frame) -> Vec<(f64, String)> {
        if !self.x_labels.is_empty() {
            return self.x_labels.iter().enumerate().map(|(i, l)| ((frame.x)(i as f64), l.clone())).collect();
        }
        let axis = Axis::linear(
            self.dots().map(|d| d.x).fold(0.0, f64::max) / 1.02,
            (LEFT + 10.0, frame.right - 10.0),
        );
        axis.ticks(64.0).into_iter().map(|t| (axis.at(t), axis.label(self.x_unit, t))).collect()
    }

    fn draw_series(&self, svg: &mut Svg, frame: &Frame, series: &Series) {
        let colour = series.index % super::DISTINCT_SERIES;
        let shift = self.shift(series);
        let at = |d: &Dot| ((frame.x)(d.x) + shift, frame.y.at(d.value));
        for run in series.dots.split(Option::is_none) {
            let points: Vec<(f64, f64)> = run.iter().flatten().map(at).collect();
            if points.len() > 1 {
                svg.path(&format!("l s{colour} d{colour}"), &points);
            }
        }
        for dot in series.dots.iter().flatten().filter(|_| self.marked) {
            let (x, y) = at(dot);
            let upwards = |along: f64, across: f64| (x + across, along);
            svg.interval(&format!("s{colour}"), &frame.y, (dot.low, dot.high), 0.0, upwards);
            svg.marker(series.index, (x, y), dot.hollow, &dot.tip);
        }
    }

    /// Names at the ends of the lines, moved apart, each joined to its line.
    fn draw_labels(&self, svg: &mut Svg, frame: &Frame) {
        let ends: Vec<(&Series, (f64, f64))> = self
            .series
            .iter()
            .filter_map(|s| {
                let last = s.dots.iter().flatten().last()?;
                Some((s, ((frame.x)(last.x) + self.shift(s), frame.y.at(last.value))))
            })
            .collect();
        let last_x = ends.iter().map(|(_, (x, _))| *x).fold(0.0, f64::max);
        let wanted: Vec<f64> = ends.iter().map(|(_, (_, y))| *y).collect();
        let placed = spread(&wanted, LINE, (TOP + 4.0, HEIGHT - BOTTOM));
        for ((series, end), y) in ends.iter().zip(placed) {
            let x = frame.right + 8.0;
            // A line that ended early is joined to its name by dots, so that the joint is not taken for data.
            let far = if end.0 < last_x - 20.0 { " far" } else { "" };
            svg.path(
                &format!("leader{far} s{}", series.index % super::DISTINCT_SERIES),
                &[(end.0 + 7.0, end.1), (x, y), (x + 5.0, y)],
            );
            svg.marker(series.index, (x + 11.0, y), false, "");
            svg.text("label", (x + 20.0, y + 4.0), Anchor::Start, &series.name);
        }
    }
}
