//! Bars over time, as numbers for a template. Pure; the template draws and escapes.

use crate::view::time;
use jiff::Timestamp;
use serde::Serialize;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 140.0;
/// Room for figures at the left, and for times below.
const LEFT: f64 = 56.0;
const BELOW: f64 = 20.0;

/// A chart.
#[derive(Debug, Serialize)]
pub(crate) struct Chart {
    width: f64,
    height: f64,
    left: f64,
    base: f64,
    bars: Vec<Bar>,
    /// Times below: place, text, and how it is aligned.
    times: Vec<(f64, String, &'static str)>,
    /// The greatest count.
    most: u64,
    /// All counts together.
    sum: u64,
    /// What it shows, for those who do not see it.
    words: String,
}

#[derive(Debug, Serialize)]
struct Bar {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    /// What a pointer that rests on it shows.
    title: String,
}

impl Chart {
    /// Counts from moments on, the oldest first, each of the same number of seconds; `None` where nothing is known.
    pub(crate) fn of(counts: &[(Timestamp, Option<u64>)], seconds: i64, what: &str) -> Self {
        let most = counts.iter().filter_map(|(_, count)| *count).max().unwrap_or(0);
        let sum: u64 = counts.iter().filter_map(|(_, count)| *count).sum();
        let step = (WIDTH - LEFT) / counts.len().max(1) as f64;
        let base = HEIGHT - BELOW;
        let tenth = |value: f64| (value * 10.0).round() / 10.0;
        let bar = |(place, (at, count)): (usize, &(Timestamp, Option<u64>))| {
            let count = (*count)?;
            let height = if most == 0 { 0.0 } else { (base - 8.0) * count as f64 / most as f64 };
            // What is there is seen.
            let height = if count > 0 { height.max(1.0) } else { 0.0 };
            Some(Bar {
                x: tenth(LEFT + step * place as f64),
                y: tenth(base - height),
                width: tenth((step - 1.0).max(1.0)),
                height: tenth(height),
                title: format!("{}: {count} {what}", clock(*at)),
            })
        };
        let bars: Vec<Bar> = counts.iter().enumerate().filter_map(bar).collect();
        let peak = counts.iter().filter(|(_, count)| *count == Some(most)).map(|(at, _)| time(*at)).next();
        let known = counts.iter().filter(|(_, count)| count.is_some()).count() as i64 * seconds;
        let words = match peak {
            Some(peak) if most > 0 => format!(
                "{sum} {what} within {}; the most, {most}, in the {} from {peak} UTC on",
                crate::view::span(known.max(0).cast_unsigned()),
                crate::view::span(seconds.max(0).cast_unsigned())
            ),
            _ => format!("no {what}"),
        };
        let middle = counts.get(counts.len() / 2);
        let places = [
            (counts.first(), LEFT, "start"),
            (middle, f64::midpoint(LEFT, WIDTH), "middle"),
            (counts.last(), WIDTH, "end"),
        ];
        let times =
            places.into_iter().filter_map(|(at, x, anchor)| at.map(|(at, _)| (x, clock(*at), anchor)));
        Self {
            width: WIDTH,
            height: HEIGHT,
            left: LEFT,
            base,
            bars,
            times: times.collect(),
            most,
            sum,
            words,
        }
    }
}

/// The time of day.
fn clock(at: Timestamp) -> String {
    at.strftime("%H:%M").to_string()
}

/// Counts of moments in equal parts of the time from the first to the last, `parts` of them; with the seconds of a part.
pub(crate) fn histogram(moments: &[Timestamp], parts: usize) -> (Vec<(Timestamp, Option<u64>)>, i64) {
    let (Some(first), Some(last)) = (moments.iter().min(), moments.iter().max()) else {
        return (Vec::new(), 1);
    };
    let span = last.as_second() - first.as_second() + 1;
    let seconds = (span + parts as i64 - 1).div_euclid(parts as i64).max(1);
    let mut counts = vec![0; ((span + seconds - 1) / seconds).max(0) as usize];
    for at in moments {
        let place = ((at.as_second() - first.as_second()) / seconds) as usize;
        if let Some(count) = counts.get_mut(place) {
            *count += 1;
        }
    }
    let start =
        |place: usize| Timestamp::from_second(first.as_second() + place as i64 * seconds).unwrap_or(*first);
    (counts.into_iter().enumerate().map(|(place, count)| (start(place), Some(count))).collect(), seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_counted_in_equal_parts() {
        let at = |seconds: i64| Timestamp::from_second(1_000 + seconds).unwrap();
        for (moments, expected, seconds) in [
            (vec![], vec![], 1),
            (vec![5], vec![1], 1),
            (vec![0, 0, 3], vec![2, 0, 0, 1], 1),
            (vec![0, 9, 10, 39], vec![2, 1, 0, 1], 10),
            (vec![39, 0], vec![1, 0, 0, 1], 10),
        ] {
            let moments: Vec<Timestamp> = moments.into_iter().map(at).collect();
            let (counts, of) = histogram(&moments, 4);
            let counts: Vec<u64> = counts.into_iter().filter_map(|(_, count)| count).collect();
            assert_eq!((counts, of), (expected, seconds), "{moments:?}");
        }
    }

    #[test]
    fn the_greatest_bar_has_the_whole_height() {
        let at = |n: i64| Timestamp::from_second(60 * n).unwrap();
        let counts = [(at(0), Some(10)), (at(1), None), (at(2), Some(1000)), (at(3), Some(0))];
        let chart = Chart::of(&counts, 60, "packets");
        let heights: Vec<f64> = chart.bars.iter().map(|bar| bar.height).collect();
        assert_eq!(heights, [1.1, 112.0, 0.0]);
        assert_eq!(
            chart.words,
            "1010 packets within 3 min; the most, 1000, in the 1 min from 1970-01-01 00:02:00 UTC on"
        );
        assert_eq!(Chart::of(&[], 60, "packets").words, "no packets");
    }
}
