//! Horizontal bars, one a firewall: the ranking of a setting, the cost of a frame.

use super::scale::Axis;
use super::{Anchor, DISTINCT_SERIES, Svg, text_width};

/// One firewall's bar.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    /// Its name.
    pub(crate) name: String,
    /// What it is, in small print below the name.
    pub(crate) note: String,
    /// Colour and pattern.
    pub(crate) index: usize,
    /// Value and interval; none for an invalid point, which gets its reason instead of a bar.
    pub(crate) value: Option<(f64, f64, f64)>,
    /// Printed at the end of the bar.
    pub(crate) text: String,
    /// Printed in small print below it.
    pub(crate) detail: String,
}

/// What to draw.
pub(crate) struct Bars<'a> {
    /// Unique in the page.
    pub(crate) id: String,
    /// For the reader of the SVG.
    pub(crate) title: String,
    /// What it shows.
    pub(crate) description: String,
    /// Name of the axis.
    pub(crate) what: &'a str,
    /// Unit, as in the schema.
    pub(crate) unit: &'a str,
    /// From top to bottom.
    pub(crate) bars: Vec<Bar>,
}

const WIDTH: f64 = 640.0;
const ROW: f64 = 42.0;
const TOP: f64 = 6.0;
const BOTTOM: f64 = 44.0;

impl Bars<'_> {
    /// The chart as SVG; none when no bar has a value.
    pub(crate) fn draw(&self) -> Option<String> {
        let highest = self.bars.iter().filter_map(|b| b.value.map(|v| v.2.max(v.0))).fold(f64::NAN, f64::max);
        if highest.is_nan() {
            return None;
        }
        let widest = |f: fn(&Bar) -> f64| self.bars.iter().map(f).fold(0.0, f64::max);
        let left = widest(|b| text_width(&b.name).max(text_width(&b.note) * 0.92)) + 14.0;
        let axis = self.widest_axis(highest, left);
        let right = axis.end();
        let mut svg = Svg::new(WIDTH, TOP + ROW * self.bars.len() as f64 + BOTTOM);
        self.draw_axis(&mut svg, &axis, left, right);
        for (row, bar) in self.bars.iter().enumerate() {
            draw_bar(&mut svg, &axis, bar, left, TOP + ROW * row as f64);
        }
        Some(svg.finish(&self.id, &self.title, &self.description))
    }

    /// The longest axis that leaves every bar the room for its own text; a long bar rarely has the longest text.
    fn widest_axis(&self, highest: f64, left: f64) -> Axis {
        let mut right = WIDTH - 24.0;
        loop {
            let axis = Axis::linear(highest, (left, right));
            let fits = self.bars.iter().all(|bar| {
                let end = bar.value.map_or(left, |(value, _, high)| axis.at(high.max(value)) + 9.0);
                bar.value.is_none() || end + text_of(bar) <= WIDTH
            });
            if fits || right < left + 100.0 {
                return axis;
            }
            right -= 8.0;
        }
    }

    fn draw_axis(&self, svg: &mut Svg, axis: &Axis, left: f64, right: f64) {
        let base = TOP + ROW * self.bars.len() as f64;
        for tick in axis.ticks(64.0) {
            let x = axis.at(tick);
            svg.line("grid", (x, TOP), (x, base));
            svg.text("tick", (x, base + 17.0), Anchor::Middle, &axis.label(self.unit, tick));
        }
        svg.line("axis", (left, TOP), (left, base));
        svg.text(
            "name",
            (f64::midpoint(left, right), base + 36.0),
            Anchor::Middle,
            &axis.name(self.what, self.unit),
        );
    }
}

fn text_of(bar: &Bar) -> f64 {
    (text_width(&bar.text) * 1.08).max(text_width(&bar.detail) * 0.92)
}

fn draw_bar(svg: &mut Svg, axis: &Axis, bar: &Bar, left: f64, top: f64) {
    let middle = top + ROW / 2.0;
    let (name_y, note_y) =
        if bar.note.is_empty() { (middle + 4.0, 0.0) } else { (middle - 3.0, middle + 12.0) };
    svg.text("label strong", (left - 10.0, name_y), Anchor::End, &bar.name);
    if !bar.note.is_empty() {
        svg.text("small", (left - 10.0, note_y), Anchor::End, &bar.note);
    }
    let Some((value, low, high)) = bar.value else {
        svg.text("small", (left + 8.0, middle + 4.0), Anchor::Start, &bar.text);
        return;
    };
    let series = bar.index % DISTINCT_SERIES;
    svg.patterned(
        &format!("b s{series}"),
        series,
        (left, top + 9.0),
        (axis.at(value) - left, ROW - 18.0),
        &bar.text,
    );
    svg.line("err ink", (axis.at(low), middle), (axis.at(high), middle));
    for end in [low, high] {
        svg.line("err ink", (axis.at(end), middle - 4.0), (axis.at(end), middle + 4.0));
    }
    let x = axis.at(high.max(value)) + 9.0;
    let text_y = if bar.detail.is_empty() { middle + 4.0 } else { middle - 3.0 };
    svg.text("label strong", (x, text_y), Anchor::Start, &bar.text);
    if !bar.detail.is_empty() {
        svg.text("small", (x, middle + 12.0), Anchor::Start, &bar.detail);
    }
}
