//! Hosts of rules that come from files: up to a million of them, so they are kept as one text and searched by halves.

use crate::dns::name;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Hosts, each for itself and, if it is a name, for all names below it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostSet(
    /// A line each, in the order of bytes.
    String,
);

impl std::fmt::Debug for HostSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} hosts", self.len())
    }
}

impl FromIterator<String> for HostSet {
    /// Names are in small letters and have no last dot; nothing has a line break in it.
    fn from_iter<I: IntoIterator<Item = String>>(hosts: I) -> Self {
        let mut hosts: Vec<String> = hosts.into_iter().collect();
        hosts.sort_unstable();
        hosts.dedup();
        Self(hosts.join("\n"))
    }
}

impl HostSet {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.lines().count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a name is one of them or below one.
    pub fn has_name(&self, host: &str) -> bool {
        let above = std::iter::successors(Some(host), |it| name::parent(it));
        above.take_while(|it| *it != ".").any(|it| self.has(it))
    }

    /// Whether one of them is this very text, as it is with addresses.
    pub fn has(&self, host: &str) -> bool {
        let text = self.0.as_bytes();
        let is_end = |byte: &u8| *byte == b'\n';
        // Lines from `first` on and before `end` may be it; a line begins at both, or the text ends.
        let (mut first, mut end) = (0, text.len());
        while first < end {
            let middle = first + (end - first) / 2;
            let begins =
                text[first..middle].iter().rposition(is_end).map_or(first, |place| first + place + 1);
            let ends = text[middle..].iter().position(is_end).map_or(text.len(), |place| middle + place);
            match text[begins..ends].cmp(host.as_bytes()) {
                Ordering::Equal => return true,
                Ordering::Less => first = (ends + 1).min(end),
                Ordering::Greater => end = begins,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_stand_for_those_below_them() {
        let set: HostSet =
            ["b.example", "a.b.example", "192.0.2.7", "x"].into_iter().map(str::to_owned).collect();
        assert_eq!(set.len(), 4);
        for (host, expected) in [
            ("b.example", true),
            ("a.b.example", true),
            ("z.a.b.example", true),
            ("z.b.example", true),
            ("ab.example", false),
            ("example", false),
            ("b.example.org", false),
            ("x", true),
            ("y.x", true),
            ("192.0.2.7", true),
            // A dot within a label of DNS ends none.
            ("a\\.b.example", false),
            ("a\\.x", false),
            ("a\\.z.x", true),
            ("", false),
            (".", false),
        ] {
            assert_eq!(set.has_name(host), expected, "{host}");
            assert!(!HostSet::default().has_name(host), "{host}");
        }
        assert!(set.has("192.0.2.7") && !set.has("9.192.0.2.7"));
    }

    proptest::proptest! {
        #[test]
        fn it_has_what_it_was_made_of(hosts in proptest::collection::btree_set("[a-c]{1,3}", 0..40), other in "[a-c]{0,4}") {
            let set: HostSet = hosts.iter().cloned().collect();
            for host in &hosts {
                proptest::prop_assert!(set.has(host), "{host}");
            }
            let hosts: BTreeSet<String> = hosts;
            proptest::prop_assert_eq!(set.has(&other), hosts.contains(&other));
            proptest::prop_assert_eq!(set.len(), hosts.len());
        }
    }
}
