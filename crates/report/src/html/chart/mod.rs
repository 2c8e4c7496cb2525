//! Charts as inline SVG, drawn here so that a report needs no script, font or network. Every chart has a title and a
//! description, is distinguished by shape and direct labels as well as by colour, and never draws an invalid point.
//! Colours come from the page's style sheet (classes `s0` … `s7`), so that light, dark and print each have their own.

pub(crate) mod bars;
pub(crate) mod ladder;
pub(crate) mod lines;
pub(crate) mod scale;
pub(crate) mod stack;

use std::fmt::Write as _;

/// Series that a chart can tell apart by colour, marker and dash.
pub(crate) const DISTINCT_SERIES: usize = 8;
/// Height of a line of chart text in px.
pub(crate) const LINE: f64 = 15.0;

/// Class of the arrows at intervals that are cut off.
const ARROW: &str = "arrow";

/// Whether a chart cut an interval off.
pub(crate) fn cuts_off(svg: &str) -> bool {
    svg.contains(&format!("class=\"{ARROW} "))
}

/// An SVG under construction.
pub(crate) struct Svg {
    width: f64,
    height: f64,
    body: String,
}

/// Where a text is anchored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    pub(crate) fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let _ = write!(
            self.body,
            r#"<line class="{class}" x1="{}" y1="{}" x2="{}" y2="{}"/>"#,
            px(from.0),
            px(from.1),
            px(to.0),
            px(to.1)
        );
    }

    pub(crate) fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), tip: &str) {
        let _ = write!(
            self.body,
            r#"<rect class="{class}" x="{}" y="{}" width="{}" height="{}">{}</rect>"#,
            px(at.0),
            px(at.1),
            px(size.0.max(0.0)),
            px(size.1.max(0.0)),
            tooltip(tip)
        );
    }

    /// A rectangle with a pattern over its colour, so that it can be distinguished without colour. Pattern 0 is plain.
    pub(crate) fn patterned(
        &mut self,
        class: &str,
        pattern: usize,
        at: (f64, f64),
        size: (f64, f64),
        tip: &str,
    ) {
        self.rect(class, at, size, tip);
        if pattern > 0 {
            self.rect(&format!("over o{pattern}"), at, size, tip);
        }
    }

    pub(crate) fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut d = String::new();
        for (i, (x, y)) in points.iter().enumerate() {
            let _ = write!(d, "{}{} {}", if i == 0 { 'M' } else { 'L' }, px(*x), px(*y));
        }
        let _ = write!(self.body, r#"<path class="{class}" d="{d}"/>"#);
    }

    pub(crate) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = write!(
            self.body,
            r#"<text class="{class}" x="{}" y="{}" text-anchor="{anchor}">{}</text>"#,
            px(at.0),
            px(at.1),
            escape(text)
        );
    }

    /// A text that reads upwards, for the name of a vertical axis.
    pub(crate) fn upward_text(&mut self, class: &str, at: (f64, f64), text: &str) {
        let (x, y) = (px(at.0), px(at.1));
        let _ = write!(
            self.body,
            r#"<text class="{class}" transform="translate({x} {y}) rotate(-90)" text-anchor="middle">{}</text>"#,
            escape(text)
        );
    }

    /// An interval along an axis: a line with a cap at each end, or an arrow where it reaches beyond the axis.
    /// `class` colours it; `place` makes a point of a position along the axis and one across it.
    pub(crate) fn interval(
        &mut self,
        class: &str,
        axis: &scale::Axis,
        (low, high): (f64, f64),
        cap: f64,
        place: impl Fn(f64, f64) -> (f64, f64),
    ) {
        let (from, to) = (axis.at(low), axis.at(high));
        self.line(&format!("err {class}"), place(from, 0.0), place(to, 0.0));
        for (value, end) in [(low, from), (high, to)] {
            if axis.is_beyond(value) {
                let corners = [(0.0, -4.0), (0.0, 4.0), (6.0 * axis.outward(value), 0.0)];
                let at: Vec<(f64, f64)> = corners.iter().map(|(a, b)| place(end + a, *b)).collect();
                self.path(&format!("{ARROW} {class}"), &at);
            } else if cap > 0.0 {
                self.line(&format!("err {class}"), place(end, -cap), place(end, cap));
            }
        }
    }

    /// The marker of a series, by shape as well as by colour; hollow for a value that is a lower bound.
    pub(crate) fn marker(&mut self, series: usize, at: (f64, f64), hollow: bool, tip: &str) {
        let class = format!("m s{}{}", series % DISTINCT_SERIES, if hollow { " hollow" } else { "" });
        self.shape(&class, series % DISTINCT_SERIES, at, tip);
    }

    /// A marker's shape in any class.
    fn shape(&mut self, class: &str, shape: usize, at: (f64, f64), tip: &str) {
        let outline = marker_path(shape, at);
        let _ = write!(self.body, r#"<path class="{class}" d="{outline}">{}</path>"#, tooltip(tip));
    }

    /// Closes the drawing. `id` must be unique in the page.
    pub(crate) fn finish(self, id: &str, title: &str, description: &str) -> String {
        format!(
            concat!(
                r#"<svg class="chart" role="img" aria-labelledby="{id}-t {id}-d" viewBox="0 0 {w} {h}" "#,
                r#"width="{w}" height="{h}"><title id="{id}-t">{title}</title><desc id="{id}-d">{desc}</desc>{body}</svg>"#
            ),
            id = id,
            w = px(self.width),
            h = px(self.height),
            title = escape(title),
            desc = escape(description),
            body = self.body
        )
    }
}

/// The outline of a series' marker, about 9 px wide.
fn marker_path(series: usize, (x, y): (f64, f64)) -> String {
    let p = |dx: f64, dy: f64| format!("{} {}", px(x + dx), px(y + dy));
    let polygon = |points: &[(f64, f64)]| {
        let corners: Vec<String> = points.iter().map(|&(dx, dy)| p(dx, dy)).collect();
        format!("M{}Z", corners.join("L"))
    };
    match series {
        0 => format!("M{}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z", p(-4.0, 0.0)),
        1 => polygon(&[(-3.6, -3.6), (3.6, -3.6), (3.6, 3.6), (-3.6, 3.6)]),
        2 => polygon(&[(0.0, -4.8), (4.6, 3.4), (-4.6, 3.4)]),
        3 => polygon(&[(0.0, -5.2), (5.2, 0.0), (0.0, 5.2), (-5.2, 0.0)]),
        4 => polygon(&[(0.0, 4.8), (4.6, -3.4), (-4.6, -3.4)]),
        5 => polygon(&[
            (-1.6, -4.8),
            (1.6, -4.8),
            (1.6, -1.6),
            (4.8, -1.6),
            (4.8, 1.6),
            (1.6, 1.6),
            (1.6, 4.8),
            (-1.6, 4.8),
            (-1.6, 1.6),
            (-4.8, 1.6),
            (-4.8, -1.6),
            (-1.6, -1.6),
        ]),
        6 => polygon(&[(0.0, -5.0), (4.8, -1.4), (3.0, 4.2), (-3.0, 4.2), (-4.8, -1.4)]),
        _ => polygon(&[(-4.8, -4.4), (4.8, -4.4), (1.4, 0.0), (4.8, 4.4), (-4.8, 4.4), (-1.4, 0.0)]),
    }
}

fn tooltip(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("<title>{}</title>", escape(text)) }
}

/// Coordinates with one decimal are exact enough and keep the page small.
pub(crate) fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_string()
}

/// Text made safe for XML and HTML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Width in px that a text needs at most, at 12 px in any of the page's system fonts. Generous, so nothing is clipped.
pub(crate) fn text_width(text: &str) -> f64 {
    text.chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '|' | '\'' | ' ' => 4.2,
            'm' | 'w' | 'M' | 'W' | '%' => 11.0,
            'A'..='Z' => 8.6,
            _ => 7.2,
        })
        .sum()
}

/// Moves labels apart so that none overlaps another, each as near as possible to where it wants to be.
/// `wanted` are centres; the answer keeps their order and stays within `range` as far as the labels fit in there.
pub(crate) fn spread(wanted: &[f64], gap: f64, range: (f64, f64)) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    // Labels that would touch form a cluster around their mean; clusters merge until none touch.
    let mut clusters: Vec<(f64, Vec<usize>)> = Vec::new();
    for index in order {
        clusters.push((wanted[index], vec![index]));
        while clusters.len() > 1 && touches(&clusters, gap) {
            let (_, last) = clusters.pop().unwrap_or_default();
            let (_, mut members) = clusters.pop().unwrap_or_default();
            members.extend(last);
            let mean = members.iter().map(|&i| wanted[i]).sum::<f64>() / members.len() as f64;
            clusters.push((clamp_cluster(mean, members.len(), gap, range), members));
        }
    }
    let mut placed = vec![0.0; wanted.len()];
    for (centre, members) in clusters {
        let first = clamp_cluster(centre, members.len(), gap, range) - gap * (members.len() - 1) as f64 / 2.0;
        for (i, index) in members.into_iter().enumerate() {
            placed[index] = first + gap * i as f64;
        }
    }
    placed
}

fn touches(clusters: &[(f64, Vec<usize>)], gap: f64) -> bool {
    let [.., (a, left), (b, right)] = clusters else { return false };
    b - a < gap * (left.len() + right.len()) as f64 / 2.0
}

fn clamp_cluster(centre: f64, members: usize, gap: f64, (low, high): (f64, f64)) -> f64 {
    let half = gap * (members - 1) as f64 / 2.0;
    if high - low < 2.0 * half { f64::midpoint(low, high) } else { centre.clamp(low + half, high - half) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn spread_labels_never_overlap_and_keep_their_order(
            wanted in prop::collection::vec(0.0f64..300.0, 1..9),
        ) {
            let placed = spread(&wanted, 15.0, (0.0, 300.0));
            for i in 0..wanted.len() {
                prop_assert!((-0.001..=300.001).contains(&placed[i]));
                for j in 0..i {
                    prop_assert!((placed[i] - placed[j]).abs() >= 14.999);
                    if wanted[i] < wanted[j] {
                        prop_assert!(placed[i] < placed[j]);
                    }
                }
            }
        }
    }

    #[test]
    fn text_is_escaped_everywhere() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.text("c", (0.0, 0.0), Anchor::Start, "<a&\"b\">");
        let out = svg.finish("x", "<t>", "&d");
        assert!(
            out.contains("&lt;a&amp;&quot;b&quot;&gt;")
                && out.contains("&lt;t&gt;")
                && out.contains("&amp;d")
        );
    }
}
