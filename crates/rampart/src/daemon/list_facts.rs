//! What is known of the lists in force, for whoever asks. What is on them is in the kernel alone.

use crate::api::{ListCount, Lists};
use crate::list_files::{Facts, Loaded, Mark, path};
use policy::Policy;
use policy::lists::List;
use policy::model::Rule;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;

/// The lists in force.
#[derive(Debug, Default)]
pub(super) struct ListsInForce {
    kernel_bytes: u64,
    /// In the order of the policy.
    facts: Vec<Facts>,
    /// When each list's file is looked at next; empty until the first look at the clock.
    next_looks: Vec<Option<Instant>>,
    /// Why the lists could not be read again.
    pub(super) not_read: Option<String>,
}

/// A file that is to be looked at, and how it was when it was read.
pub(super) struct Look {
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

    /// The files that are to be looked at by now.
    pub(super) fn due(&mut self, policy: &Policy, now: Instant) -> Vec<Look> {
        let next = |list: &List| list.refresh.and_then(|time| now.checked_add(time));
        if self.next_looks.len() != policy.lists.len() {
            self.next_looks = policy.lists.iter().map(next).collect();
        }
        let mut looks = Vec::new();
        for ((list, facts), look_at) in policy.lists.iter().zip(&self.facts).zip(&mut self.next_looks) {
            if look_at.is_some_and(|at| at <= now) {
                *look_at = next(list);
                let path = path(list, policy.folder.as_deref()).ok().flatten();
                looks.extend(path.map(|path| Look { path, before: facts.mark }));
            }
        }
        looks
    }

    /// What was read takes the place of what was known, and looks are due when they were.
    pub(super) fn take(&mut self, loaded: Option<Loaded>) {
        let next_looks = std::mem::take(&mut self.next_looks);
        *self = Self { next_looks, ..Self::of(loaded) };
    }

    /// What is wrong with them, each as a sentence.
    pub(super) fn troubles<'a>(&'a self, policy: &'a Policy) -> impl Iterator<Item = String> + 'a {
        let lists = policy.lists.iter().zip(&self.facts);
        let of_lists = lists.filter_map(|(list, facts)| {
            Some(format!("the list `{}`: {}", list.name, facts.trouble.as_ref()?))
        });
        of_lists.chain(self.not_read.clone())
    }

    /// As the API has them; `hits` are by the names of counters.
    pub(super) fn shown(&self, policy: &Policy, hits: &HashMap<String, u64>) -> Lists {
        let rules = |place: usize| {
            let names = |rule: &&Rule| (rule.source_lists | rule.destination_lists) >> place & 1 != 0;
            policy.rules.iter().filter(names).map(|rule| rule.name.clone()).collect()
        };
        let lists =
            policy.lists.iter().zip(&self.facts).enumerate().map(|(place, (list, facts))| ListCount {
                name: list.name.clone(),
                file: path(list, policy.folder.as_deref()).ok().flatten(),
                block: list.block.name().map(str::to_owned),
                require: list.require.name().map(str::to_owned),
                rules: rules(place),
                ipv4_addresses: facts.ipv4_addresses,
                ipv6_ranges: facts.ipv6_ranges,
                broken_lines: facts.broken_lines,
                read_at: facts.read_at,
                trouble: facts.trouble.clone(),
                hits: hits.get(&list.counter()).copied().unwrap_or(0),
            });
        Lists { kernel_bytes: self.kernel_bytes, lists: lists.collect() }
    }
}
