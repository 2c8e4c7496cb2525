//! What is known of the lists in force, for whoever asks. What is on them is in the kernel alone.

use super::Moment;
use crate::api::{ListCount, Lists};
use crate::list_copies::{Source, source};
use crate::list_files::{BETWEEN_ENDS, Facts, Fetched, Loaded, Mark};
use jiff::Timestamp;
use policy::Policy;
use policy::lists::List;
use policy::model::Rule;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often the copy of a list that is fetched is looked at, if it could not be read when it was new.
const LOOK_AT_COPY: Duration = Duration::from_secs(10);
/// How long after a failure a list is fetched again, at most.
const FETCH_AGAIN: Duration = Duration::from_secs(300);

/// The lists in force.
#[derive(Debug, Default)]
pub(super) struct ListsInForce {
    kernel_bytes: u64,
    /// In the order of the policy.
    facts: Vec<Facts>,
    /// When each list's file is looked at next; empty until the first look at the clock.
    next_looks: Vec<Option<Instant>>,
    /// In the order of the policy; empty until the first look at the clock, and `None` for what is not fetched.
    fetches: Vec<Option<Fetches>>,
    /// Why the lists could not be read again.
    pub(super) not_read: Option<String>,
}

/// When a list is fetched, and how it went.
#[derive(Debug)]
struct Fetches {
    next: Instant,
    /// When it was fetched last, and how many of its lines could not be read then.
    last: Option<(Timestamp, u64)>,
    failed: Option<String>,
    failures: u64,
}

impl Fetches {
    /// A copy from before is as good as its age.
    fn of(list: &List, facts: &Facts, now: Moment) -> Option<Self> {
        let time = list.refresh.filter(|_| list.origin.command().is_some())?;
        let age = facts.mark.and_then(|mark| mark.written_at()).map(|at| now.wall.duration_since(at));
        // A clock that was put back makes no list young.
        let age = age.and_then(|age| Duration::try_from(age).ok()).unwrap_or(time);
        let next = now.steady.checked_add(time.saturating_sub(age))?;
        Some(Self { next, last: None, failed: None, failures: 0 })
    }
}

/// A file that is to be looked at, and how it was when it was read.
pub(super) struct Look {
    /// The list's, in the order of the policy.
    pub(super) place: usize,
    path: PathBuf,
    before: Option<Mark>,
}

impl Look {
    /// Whether the file has changed, or is not to be seen.
    pub(super) fn finds_change(&self) -> bool {
        let now = Mark::of(&self.path);
        now.is_none() || now != self.before
    }
}

impl ListsInForce {
    pub(super) fn of(loaded: Option<Loaded>) -> Self {
        loaded.map_or_else(Self::default, |it| Self {
            kernel_bytes: it.table.bytes() as u64,
            facts: it.lists,
            ..Self::default()
        })
    }

    /// The files that are to be looked at by now; `copies` is the folder of the copies.
    pub(super) fn due(&mut self, policy: &Policy, now: Instant, copies: Option<&Path>) -> Vec<Look> {
        let is_fetched = |list: &List| list.origin.command().is_some();
        let time = |list: &List| list.refresh.map(|time| if is_fetched(list) { LOOK_AT_COPY } else { time });
        let next = |list: &List| time(list).and_then(|time| now.checked_add(time));
        if self.next_looks.len() != policy.lists.len() {
            self.next_looks = policy.lists.iter().map(next).collect();
        }
        let mut looks = Vec::new();
        let lists = policy.lists.iter().zip(&self.facts).zip(&mut self.next_looks);
        for (place, ((list, facts), look_at)) in lists.enumerate() {
            if look_at.is_some_and(|at| at <= now) && !list.has_expired(facts.read_at) {
                *look_at = next(list);
                let source = source(list, policy.folder.as_deref()).ok();
                let path = source.and_then(|source| source.watched(list, copies));
                looks.extend(path.map(|path| Look { place, path, before: facts.mark }));
            }
        }
        looks
    }

    /// Whether an entry has ended since the lists were read. If they cannot be read again, that is tried after some seconds.
    pub(super) fn has_ended(&mut self, now: Timestamp) -> bool {
        let mut any = false;
        for end in
            self.facts.iter_mut().filter_map(|facts| facts.next_end.as_mut()).filter(|end| **end <= now)
        {
            *end = now.saturating_add(BETWEEN_ENDS).unwrap_or(now);
            any = true;
        }
        any
    }

    /// The places of the lists that are to be fetched by now.
    pub(super) fn due_fetches(&mut self, policy: &Policy, now: Moment) -> Vec<usize> {
        if self.fetches.len() != policy.lists.len() {
            let lists = policy.lists.iter().zip(&self.facts);
            self.fetches = lists.map(|(list, facts)| Fetches::of(list, facts, now)).collect();
        }
        let is_due = |fetches: &Option<Fetches>| fetches.as_ref().is_some_and(|it| it.next <= now.steady);
        let is_due =
            |place: &usize| is_due(&self.fetches[*place]) && !policy.lists[*place].has_expired(now.wall);
        // Who has waited longest comes first, so that one that hangs each time keeps no other from its turn.
        let mut due: Vec<usize> = (0..self.fetches.len()).filter(is_due).collect();
        due.sort_by_key(|place| self.fetches[*place].as_ref().map(|fetches| fetches.next));
        due
    }

    /// A list is to be fetched by now, unless it was tried and failed: then that is tried again in its time.
    pub(super) fn fetch_soon(&mut self, place: usize, now: Moment) {
        if let Some(Some(fetches)) = self.fetches.get_mut(place)
            && fetches.failed.is_none()
        {
            fetches.next = fetches.next.min(now.steady);
        }
    }

    /// Notes what came of fetching a list; its copy is looked at next if it is another.
    pub(super) fn note_fetch(
        &mut self,
        place: usize,
        list: &List,
        done: Result<Fetched, String>,
        now: Moment,
    ) {
        let (Some(Some(fetches)), Some(time)) = (self.fetches.get_mut(place), list.refresh) else { return };
        match done {
            Ok(fetched) => {
                fetches.next = now.steady + time;
                fetches.last = Some((now.wall, fetched.broken_lines));
                fetches.failed = None;
                if let Some(look_at) = self.next_looks.get_mut(place).filter(|_| fetched.is_other) {
                    *look_at = Some(now.steady);
                }
            }
            Err(why) => {
                fetches.next = now.steady + time.min(FETCH_AGAIN);
                fetches.failures += 1;
                fetches.failed = Some(format!("could not be fetched, and stays as it was: {why}"));
            }
        }
    }

    /// What was read takes the place of what was known, and looks are due when they were.
    pub(super) fn take(&mut self, loaded: Option<Loaded>) {
        let (next_looks, fetches) = (std::mem::take(&mut self.next_looks), std::mem::take(&mut self.fetches));
        *self = Self { next_looks, fetches, ..Self::of(loaded) };
    }

    /// What is wrong with them, each as a sentence.
    pub(super) fn troubles<'a>(&'a self, policy: &'a Policy) -> impl Iterator<Item = String> + 'a {
        let lists = policy.lists.iter().zip(&self.facts);
        let of_lists = lists.filter_map(|(list, facts)| {
            Some(format!("the list `{}`: {}", list.name, facts.trouble.as_ref()?))
        });
        let fetches = policy.lists.iter().zip(&self.fetches);
        let of_fetches = fetches.filter_map(|(list, fetches)| {
            Some(format!("the list `{}` {}", list.name, fetches.as_ref()?.failed.as_ref()?))
        });
        of_lists.chain(of_fetches).chain(self.not_read.clone())
    }

    /// As the API has them; `hits` are by the names of counters.
    pub(super) fn shown(&self, policy: &Policy, hits: &HashMap<String, u64>) -> Lists {
        let rules = |place: usize| {
            let names = |rule: &&Rule| (rule.source_lists | rule.destination_lists) >> place & 1 != 0;
            policy.rules.iter().filter(names).map(|rule| rule.name.clone()).collect()
        };
        let fetches = |place: usize| self.fetches.get(place).and_then(Option::as_ref);
        let last = |place: usize| fetches(place).and_then(|fetches| fetches.last);
        // What was fetched before is as old as its copy.
        let at_first = |list: &List, facts: &Facts| {
            let written_at =
                facts.mark.filter(|_| list.origin.command().is_some()).and_then(|mark| mark.written_at());
            written_at.unwrap_or(facts.read_at)
        };
        let lists =
            policy.lists.iter().zip(&self.facts).enumerate().map(|(place, (list, facts))| ListCount {
                name: list.name.clone(),
                file: match source(list, policy.folder.as_deref()) {
                    Ok(Source::File(path)) => Some(path),
                    _ => None,
                },
                command: list.origin.command().and_then(|words| words.into_iter().next()),
                block: list.block.name().map(str::to_owned),
                require: list.require.name().map(str::to_owned),
                rules: rules(place),
                ipv4_addresses: facts.ipv4_addresses,
                ipv6_ranges: facts.ipv6_ranges,
                broken_lines: facts.broken_lines + last(place).map_or(0, |(_, broken)| broken),
                read_at: last(place).map_or_else(|| at_first(list, facts), |(at, _)| at),
                next_end: facts.next_end,
                expires: list.expires,
                trouble: facts.trouble.clone().or_else(|| fetches(place)?.failed.clone()),
                failures: fetches(place).map_or(0, |fetches| fetches.failures),
                hits: hits.get(&list.counter()).copied().unwrap_or(0),
                domain: Vec::new(),
                not_taken: 0,
            });
        Lists { kernel_bytes: self.kernel_bytes, lists: lists.collect() }
    }
}
