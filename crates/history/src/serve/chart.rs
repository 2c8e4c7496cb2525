//! Lines over runs or settings as SVG: shapes carry classes and no colours, and a title and a description for screen readers. The
//! values stand in a table beside it.

use std::fmt::Write as _;

/// One line: a name, and for each place its value with the ends of its interval, where it has one.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) values: Vec<Option<(f64, f64, f64)>>,
}

/// A chart.
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) description: String,
    /// What stands below each place.
    pub(super) places: Vec<String>,
    pub(super) lines: Vec<Line>,
    /// Places where a change begins.
    pub(super) changes: Vec<usize>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 64.0;
const BOTTOM: f64 = 28.0;
const TOP: f64 = 12.0;
const RIGHT: f64 = 12.0;

impl Chart {
    /// The chart, with `label` for the values at its axis.
    pub(super) fn svg(&self, label: impl Fn(f64) -> String) -> String {
        let ends = self
            .lines
            .iter()
            .flat_map(|line| &line.values)
            .flatten()
            .flat_map(|(v, low, high)| [*v, *low, *high]);
        let ends: Vec<f64> = ends.filter(|end| end.is_finite()).collect();
        let (least, most) = (
            ends.iter().copied().fold(f64::INFINITY, f64::min),
            ends.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        );
        if !least.is_finite() {
            return String::new();
        }
        let room = ((most - least) * 0.1).max(most.abs() * 0.02).max(f64::MIN_POSITIVE);
        // The axis begins at zero unless that would press everything against the top.
        let low = if least >= 0.0 && least < 0.5 * most { 0.0 } else { least - room };
        let high = most + room;
        let x = |place: usize| {
            let steps = (self.places.len().max(2) - 1) as f64;
            LEFT + (WIDTH - LEFT - RIGHT) * place as f64 / steps
        };
        let y = |value: f64| TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low);
        let mut svg = format!(
            "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\"><title>{}</title><desc>{}</desc>",
            escaped(&self.title),
            escaped(&self.description)
        );
        for value in [low, f64::midpoint(low, high), high] {
            let (at, text) = (y(value), escaped(&label(value)));
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text class=\"tick end\" x=\"{}\" y=\"{:.1}\">{text}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0
            );
        }
        for place in &self.changes {
            let at = x(*place) - (x(1) - x(0)) / 2.0;
            let _ = write!(
                svg,
                "<line class=\"change\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>",
                HEIGHT - BOTTOM
            );
        }
        for (number, line) in self.lines.iter().enumerate() {
            self.draw(&mut svg, number, line, x, y);
        }
        for (place, class) in [(0, "tick"), (self.places.len() - 1, "tick end")] {
            let text = escaped(&self.places[place]);
            let _ = write!(
                svg,
                "<text class=\"{class}\" x=\"{:.1}\" y=\"{}\">{text}</text>",
                x(place),
                HEIGHT - 8.0
            );
        }
        svg + "</svg>"
    }

    fn draw(
        &self,
        svg: &mut String,
        number: usize,
        line: &Line,
        x: impl Fn(usize) -> f64,
        y: impl Fn(f64) -> f64,
    ) {
        let colour = number % 6;
        let mut path = String::new();
        for (place, value) in line.values.iter().enumerate() {
            let Some((value, low, high)) = value else { continue };
            let _ =
                write!(path, "{}{:.1} {:.1}", if path.is_empty() { "M" } else { " L" }, x(place), y(*value));
            let _ = write!(
                svg,
                "<line class=\"span s{colour}\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1:.1}\" y2=\"{2:.1}\"/>",
                x(place),
                y(if low.is_finite() { *low } else { *value }),
                y(if high.is_finite() { *high } else { *value })
            );
            let text = escaped(&format!("{}: {}", line.name, self.places[place]));
            let _ = write!(
                svg,
                "<circle class=\"dot s{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{text}</title></circle>",
                x(place),
                y(*value)
            );
        }
        let _ = write!(svg, "<path class=\"line s{colour}\" d=\"{path}\"/>");
    }
}

/// Text as it may stand between tags and in quoted attributes.
fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c if c.is_control() => out.push('·'),
            c => out.push(c),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_escapes_its_texts_and_draws_what_there_is() {
        let chart = Chart {
            title: "<b>".into(),
            description: "a & \"b\"".into(),
            places: vec!["1".into(), "2'".into()],
            lines: vec![Line { name: "x<".into(), values: vec![Some((1.0, 0.9, 1.1)), None] }],
            changes: vec![1],
        };
        let svg = chart.svg(|value| format!("{value:.1}<"));
        assert!(svg.contains("<title>&lt;b&gt;</title><desc>a &amp; &quot;b&quot;</desc>"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(svg.contains("class=\"change\"") && !svg.contains("NaN") && !svg.contains("x<"), "{svg}");
        let none = Chart { lines: vec![], ..chart };
        assert_eq!(none.svg(|_| String::new()), "");
    }
}
