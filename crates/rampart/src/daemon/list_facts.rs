//! What is known of the lists in force, for whoever asks. What is on them is in the kernel alone.

use crate::api::{ListCount, Lists};
use crate::list_files::{Facts, Loaded, path};
use policy::Policy;
use policy::model::Rule;
use std::collections::HashMap;

/// The lists in force.
#[derive(Debug, Default)]
pub(super) struct ListsInForce {
    kernel_bytes: u64,
    /// In the order of the policy.
    facts: Vec<Facts>,
}

impl ListsInForce {
    pub(super) fn of(loaded: Option<Loaded>) -> Self {
        loaded
            .map_or_else(Self::default, |it| Self { kernel_bytes: it.table.bytes() as u64, facts: it.lists })
    }

    /// What is wrong with them, each as a sentence.
    pub(super) fn troubles<'a>(&'a self, policy: &'a Policy) -> impl Iterator<Item = String> + 'a {
        let lists = policy.lists.iter().zip(&self.facts);
        lists.filter_map(|(list, facts)| {
            Some(format!("the list `{}`: {}", list.name, facts.trouble.as_ref()?))
        })
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
