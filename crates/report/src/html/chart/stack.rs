//! Stacked shares, one row a firewall: where the frames went, what the processor did.

use super::{Anchor, LINE, Svg, text_width};

/// One part of a row.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    /// Index into the legend.
    pub(crate) kind: usize,
    /// Share of the row, 0 to 1.
    pub(crate) share: f64,
    /// Shown on hover.
    pub(crate) tip: String,
}

/// What to draw.
pub(crate) struct Stack<'a> {
    /// Unique in the page.
    pub(crate) id: String,
    /// For the reader of the SVG.
    pub(crate) title: String,
    /// What it shows.
    pub(crate) description: String,
    /// Names of the parts; the index is the pattern.
    pub(crate) legend: &'a [&'a str],
    /// Name and parts of every row.
    pub(crate) rows: Vec<(String, Vec<Part>)>,
}

const WIDTH: f64 = 760.0;
const ROW: f64 = 30.0;
const RIGHT: f64 = 20.0;

impl Stack<'_> {
    /// The chart as SVG; none when there are no rows.
    pub(crate) fn draw(&self) -> Option<String> {
        if self.rows.is_empty() {
            return None;
        }
        let left = self.rows.iter().map(|(name, _)| text_width(name)).fold(0.0, f64::max) + 14.0;
        let legend = self.legend_places();
        let top = legend.last().map_or(0.0, |(_, y)| y + 16.0);
        let base = top + ROW * self.rows.len() as f64;
        let mut svg = Svg::new(WIDTH, base + 26.0);
        for ((x, y), (kind, name)) in legend.into_iter().zip(self.used()) {
            svg.patterned(&format!("part q{kind}"), pattern(kind), (x, y - 10.0), (16.0, 12.0), "");
            svg.text("label", (x + 22.0, y), Anchor::Start, name);
        }
        for percent in [0, 25, 50, 75, 100] {
            let x = left + (WIDTH - RIGHT - left) * f64::from(percent) / 100.0;
            svg.line("grid", (x, top), (x, base));
            svg.text("tick", (x, base + 17.0), Anchor::Middle, &format!("{percent} %"));
        }
        for (row, (name, parts)) in self.rows.iter().enumerate() {
            draw_row(&mut svg, left, top + ROW * row as f64, name, parts);
        }
        Some(svg.finish(&self.id, &self.title, &self.description))
    }

    /// Kinds that occur, so that the legend names nothing that is not there.
    fn used(&self) -> Vec<(usize, &str)> {
        let drawn =
            |kind: usize| self.rows.iter().any(|(_, p)| p.iter().any(|p| p.kind == kind && p.share > 0.0));
        self.legend.iter().copied().enumerate().filter(|(kind, _)| drawn(*kind)).collect()
    }

    fn legend_places(&self) -> Vec<(f64, f64)> {
        let (mut x, mut y) = (4.0, 14.0);
        self.used()
            .iter()
            .map(|(_, name)| {
                let width = text_width(name) + 40.0;
                if x + width > WIDTH && x > 4.0 {
                    (x, y) = (4.0, y + LINE + 4.0);
                }
                let place = (x, y);
                x += width;
                place
            })
            .collect()
    }
}

/// Kinds from 10 on are another set of parts with the same patterns.
const fn pattern(kind: usize) -> usize {
    kind % 10
}

fn draw_row(svg: &mut Svg, left: f64, top: f64, name: &str, parts: &[Part]) {
    let full = WIDTH - RIGHT - left;
    svg.text("label", (left - 10.0, top + ROW / 2.0 + 4.0), Anchor::End, name);
    let mut x = left;
    for part in parts {
        let width = full * part.share;
        if part.share <= 0.0 {
            continue;
        }
        svg.patterned(
            &format!("part q{}", part.kind),
            pattern(part.kind),
            (x, top + 5.0),
            (width, ROW - 10.0),
            &part.tip,
        );
        x += width;
    }
}
