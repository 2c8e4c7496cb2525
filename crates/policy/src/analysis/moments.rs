//! The fifth field of a rule: moments. Two moments at which the same schedules hold are of one kind.

use crate::ranges::RangeSet;
use crate::schedule::{DAY, Schedule};
use std::collections::BTreeSet;

/// The most kinds of moments. With more, a schedule is only compared with itself.
const MAX_KINDS: usize = 4096;
const WEEK: u16 = 7 * DAY;

/// The kinds of moments, and for each schedule the kinds at which it holds.
pub(super) struct Moments {
    kinds: u32,
    schedules: Vec<RangeSet<u32>>,
}

/// Which schedules hold at once: their places.
type Pattern = Vec<usize>;

impl Moments {
    /// Schedules of one time zone without dates are compared minute by minute of the week. Others are taken to be independent. Some
    /// kinds of moments then never come, which can hide a warning and never makes a false one.
    pub(super) fn of(schedules: &[Schedule]) -> Self {
        let groups = groups(schedules);
        let count = groups
            .iter()
            .try_fold(1usize, |n, patterns| n.checked_mul(patterns.len()).filter(|n| *n <= MAX_KINDS));
        let kinds: Vec<Pattern> = match count {
            Some(_) => product(&groups),
            None => std::iter::once(Vec::new()).chain((0..schedules.len()).map(|s| vec![s])).collect(),
        };
        let holding =
            |s: usize| (0u32..).zip(&kinds).filter(move |(_, kind)| kind.contains(&s)).map(|(k, _)| (k, k));
        let never = |schedule: &Schedule| schedule.is_dated() && never_holds(schedule);
        let sets = schedules.iter().enumerate();
        let sets = sets.map(
            |(s, schedule)| if never(schedule) { RangeSet::default() } else { RangeSet::of(holding(s)) },
        );
        Self { kinds: kinds.len() as u32, schedules: sets.collect() }
    }

    /// The moments at which a rule takes part, with a schedule or without one.
    pub(super) fn of_rule(&self, schedule: Option<usize>) -> RangeSet<u32> {
        match schedule {
            Some(s) => self.schedules[s].clone(),
            None => RangeSet::of([(0, self.kinds - 1)]),
        }
    }
}

/// For each independent group of schedules, the patterns of them that occur.
fn groups(schedules: &[Schedule]) -> Vec<BTreeSet<Pattern>> {
    let mut groups: Vec<BTreeSet<Pattern>> = Vec::new();
    let mut done = vec![false; schedules.len()];
    for (s, schedule) in schedules.iter().enumerate() {
        if std::mem::replace(&mut done[s], true) {
            continue;
        }
        if schedule.is_dated() {
            groups.push(BTreeSet::from([vec![], vec![s]]));
            continue;
        }
        let alike: Pattern = (s..schedules.len())
            .filter(|i| !schedules[*i].is_dated() && schedules[*i].time_zone == schedule.time_zone)
            .collect();
        alike.iter().for_each(|i| done[*i] = true);
        let at = |minute| {
            alike.iter().copied().filter(|i| schedules[*i].holds_in_week(minute)).collect::<Pattern>()
        };
        groups.push((0..WEEK).map(at).collect());
    }
    groups
}

fn product(groups: &[BTreeSet<Pattern>]) -> Vec<Pattern> {
    groups.iter().fold(vec![Vec::new()], |kinds, patterns| {
        let with =
            |kind: &Pattern| patterns.iter().map(|p| [kind.as_slice(), p].concat()).collect::<Vec<_>>();
        kinds.iter().flat_map(with).collect()
    })
}

/// Whether no window begins on any day that counts. Each day of the week has one that counts within as many weeks as there are
/// excepted days, and one week more.
fn never_holds(schedule: &Schedule) -> bool {
    let (Some(from), Some(until)) = (schedule.from, schedule.until) else { return false };
    let days = from.series(jiff::Span::new().days(1)).take_while(|day| *day <= until);
    let mut enough = days.take(7 * (schedule.except.len() + 1));
    !enough.any(|day| schedule.begins_on(day))
}
