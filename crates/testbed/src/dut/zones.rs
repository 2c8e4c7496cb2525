//! The zones' own ends of a bed's links, beside a driver outside the tree. Nobody but the bench has any business there: a filter in front of
//! the firewall, or a queue that shapes what comes to it, would do its work for nothing. Only reads.

use crate::bed::Bed;
use crate::error::TestbedError;
use crate::netns::Namespace;
use crate::program;
use std::fs;

/// What the zones' namespaces have besides addresses and routes, at one moment.
pub(super) struct Zones {
    namespaces: Vec<Namespace>,
    before: Vec<String>,
}

/// What is looked at, with the words for it.
const LOOKS: [(&str, &str, &[&str]); 3] = [
    ("rules of netfilter", "nft", &["--stateless", "list", "ruleset"]),
    ("queueing disciplines and filters", "tc", &["qdisc", "show"]),
    ("rules of routing", "ip", &["rule"]),
];

impl Zones {
    /// Notes what they have now.
    pub(super) fn note(bed: &Bed) -> Result<Self, TestbedError> {
        let namespaces: Vec<Namespace> =
            bed.layout().ports.iter().map(|port| port.end.namespace.clone()).collect();
        let before = look(&namespaces)?;
        Ok(Self { namespaces, before })
    }

    /// Fails if somebody has changed something since.
    pub(super) fn check(&self) -> Result<(), TestbedError> {
        let now = look(&self.namespaces)?;
        let places = LOOKS.iter().map(|(what, ..)| *what).chain(["tables of iptables"]);
        let what: Vec<&str> = places.collect();
        let Some(at) = self.before.iter().zip(&now).position(|(before, now)| before != now) else {
            return Ok(());
        };
        Err(TestbedError::Impossible(format!(
            "somebody changed the {} of {}, a zone beside the firewall, where only the bench has business",
            what[at % what.len()],
            self.namespaces[at / what.len()].name()
        )))
    }
}

fn look(namespaces: &[Namespace]) -> Result<Vec<String>, TestbedError> {
    let mut found = Vec::new();
    for namespace in namespaces {
        for (_, name, words) in LOOKS {
            let text = if program::is_installed(name) { namespace.run(name, words)? } else { String::new() };
            found.push(text);
        }
        found.push(namespace.enter(|| {
            let names = ["ip_tables_names", "ip6_tables_names", "arp_tables_names"];
            let read = |name| fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
            names.map(read).concat()
        })?);
    }
    Ok(found)
}
