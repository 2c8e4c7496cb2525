//! Received frames a second over the time of a trial: whether a rate was held, or was the mean of better and worse.

use super::chart::lines::{Dot, Lines, Series};
use super::figures::{Figure, Ids};
use crate::table::{Cell, Head, Row, Table};
use crate::view::{self, Block, Setting, View};
use crate::{units, verdict};
use measure::results::{Metric, Point, Trial};
use measure::trial::SecondSample;
use serde::Serialize;

/// A setting's chart with its table.
#[derive(Debug, Serialize)]
pub(super) struct Seconds {
    figure: Figure,
    table: Table,
}

/// The rate of a shorter part is that of a handful of frames at the end of a trial.
const SHORTEST_PART_SECONDS: f64 = 0.5;

/// Every setting of a block with points whose deciding trial has seconds.
pub(super) fn of_block(view: &View<'_>, block: &Block<'_>, ids: &mut Ids) -> Vec<Seconds> {
    if !view::has_own_trials(block.metric) {
        return Vec::new();
    }
    let varying: Vec<String> = block.varying().into_iter().map(|(name, _)| name).collect();
    let place = |s| verdict::place_among(s, &varying);
    block.settings.iter().filter_map(|s| of_setting(view, s, &place(s), ids)).collect()
}

/// One firewall's rates: second from the start, frames/s.
struct Course<'a> {
    dut: &'a str,
    rates: Vec<(f64, f64)>,
}

fn of_setting(view: &View<'_>, setting: &Setting<'_>, place: &str, ids: &mut Ids) -> Option<Seconds> {
    let courses: Vec<Course<'_>> = setting
        .points
        .iter()
        .filter(|p| p.valid)
        .filter_map(|p| Some(Course { dut: &p.dut, rates: rates(&deciding(p)?.per_second) }))
        .filter(|c| c.rates.len() > 1)
        .collect();
    let title = match place {
        "" => "Received frames a second".to_string(),
        place => format!("Received frames a second: {place}"),
    };
    let svg = Lines {
        id: ids.next(),
        title: title.clone(),
        description: "One line a firewall over the seconds of one deciding trial. Level is steady. The table below has all values.".into(),
        what: "Received",
        unit: "frames/s",
        x_name: "Time from the start of the trial, s".into(),
        x_labels: Vec::new(),
        x_unit: "s",
        reach: &[],
        marked: false,
        series: courses.iter().map(|c| line(view, c)).collect(),
    }
    .draw()?;
    let figure = Figure { caption: title.clone(), svg, notes: Vec::new(), wide: false };
    Some(Seconds { figure, table: table(title, &courses) })
}

/// The trial that a point's latency was taken from. Where none was sampled, of a throughput: the trial of the median
/// round that offered the round's value. Other points do not tell which of their trials decided.
fn deciding(point: &Point) -> Option<&Trial> {
    let mut lasting = point.trials.iter().filter(|t| !t.per_second.is_empty() && t.faults.is_empty());
    if point.latency_ns.is_some() {
        return lasting.find(|t| t.latency_ns == point.latency_ns);
    }
    if point.metric != Metric::Throughput {
        return None;
    }
    let nearer = |a: f64, b: f64| (a - point.value).abs().total_cmp(&(b - point.value).abs());
    let (round, rate) = point.rounds.iter().copied().enumerate().min_by(|(_, a), (_, b)| nearer(*a, *b))?;
    lasting
        .filter(|t| t.round as usize == round)
        .min_by(|a, b| (a.offered - rate).abs().total_cmp(&(b.offered - rate).abs()))
}

fn rates(samples: &[SecondSample]) -> Vec<(f64, f64)> {
    let starts = std::iter::once(0.0).chain(samples.iter().map(|s| s.at_seconds));
    samples
        .iter()
        .zip(starts)
        .map(|(s, start)| (s.at_seconds, s.at_seconds - start, s.received))
        .filter(|(_, length, _)| *length >= SHORTEST_PART_SECONDS)
        .map(|(at, length, received)| (at, received as f64 / length))
        .collect()
}

fn line(view: &View<'_>, course: &Course<'_>) -> Series {
    let dot = |&(x, value): &(f64, f64)| {
        Some(Dot { x, value, low: value, high: value, hollow: false, tip: String::new() })
    };
    Series {
        name: course.dut.into(),
        index: view.index(course.dut),
        dots: course.rates.iter().map(dot).collect(),
    }
}

fn table(caption: String, courses: &[Course<'_>]) -> Table {
    let longest = courses.iter().map(|c| c.rates.len()).max().unwrap_or(0);
    let cell = |course: &Course<'_>, second: usize| {
        course.rates.get(second).map_or_else(Cell::none, |(_, rate)| Cell {
            // Rows are in the order of time; a key to sort by would make a long table half as large again.
            sort: None,
            ..Cell::number(units::value("frames/s", *rate), *rate)
        })
    };
    let rows = (0..longest).map(|second| Row {
        heads: vec![(second + 1).to_string()],
        cells: courses.iter().map(|c| cell(c, second)).collect(),
    });
    Table {
        caption,
        corner: vec!["Second".into()],
        head: courses.iter().map(|c| Head::one(c.dut)).collect(),
        rows: rows.collect(),
        notes: vec!["A last part shorter than half a second is left out.".into()],
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn point() -> Point {
        let run = sample::demo();
        let mut points = run.points.into_iter().filter(|p| p.metric == Metric::Throughput && p.valid);
        points.find(|p| p.trials.iter().any(|t| !t.per_second.is_empty())).unwrap()
    }

    #[test]
    fn the_deciding_trial_is_that_of_the_latency_or_of_the_median_round() {
        let mut point = point();
        let round = point.rounds.iter().position(|r| *r == point.value).unwrap();
        point.latency_ns = None;
        let found = deciding(&point).unwrap();
        assert_eq!((found.round as usize, found.offered, found.loss), (round, point.value, 0.0));
        let mut other = point.trials.iter().find(|t| t.round as usize != round).unwrap().clone();
        other.per_second.clone_from(&point.trials[1].per_second);
        other.latency_ns = Some(measure::results::LatencySummary { p50: 7.0, ..Default::default() });
        point.latency_ns = other.latency_ns;
        point.trials.push(other.clone());
        assert_eq!(deciding(&point), Some(&other));
        point.latency_ns = None;
        point.metric = Metric::Loss;
        assert_eq!(deciding(&point), None, "no guess");
    }

    #[test]
    fn rates_are_of_the_time_that_they_were_counted_in() {
        let sample = |at_seconds: f64, received: u64| SecondSample {
            at_seconds,
            sent: 0,
            received,
            latency_ns: None,
            sessions: None,
        };
        let samples = [sample(1.0, 100), sample(3.0, 100), sample(3.5, 100), sample(3.6, 100)];
        assert_eq!(rates(&samples), [(1.0, 100.0), (3.0, 50.0), (3.5, 200.0)]);
    }
}
