//! What translation does with a packet that is explained.

use policy::Policy;
use policy::interpret::Packet;
use policy::model::{Action, SELF};
use policy::service::{TCP, UDP};
use policy::translation::{SourceTranslation, Translation};
use serde_json::{Value, json};

/// The entry for which a packet is dropped that the rules allow: its source must be translated, and cannot be.
pub(super) fn untranslatable(
    policy: &Policy,
    packet: &Packet,
    asked: Option<&Packet>,
    action: Action,
) -> Option<usize> {
    match policy.translate_source(packet, asked) {
        Some((place, Some(SourceTranslation::Untranslatable))) if action == Action::Allow => Some(place),
        _ => None,
    }
}

/// The first entry by whose mappings a packet from outside may begin a flow.
fn may_come_by_mapping(policy: &Policy, packet: &Packet) -> Option<usize> {
    let is_of = |entry: &Translation| entry.to.is_some_and(|to| to >> packet.from & 1 != 0);
    let has_ports = matches!(packet.protocol, TCP | UDP) && packet.source.is_ipv4() && packet.from != SELF;
    let mut entries = policy.translations.iter();
    entries.position(|entry| has_ports && entry.lets_others_begin() && is_of(entry))
}

/// What translation does with a packet.
pub(super) struct Translated {
    /// The entry that translated its destination, if one did, and the packet before that.
    destination: Option<(usize, Packet)>,
    /// If the packet is allowed: the entry that decides about its source, and what becomes of it.
    source: Option<(usize, Option<SourceTranslation>)>,
    /// The entry by whose mappings the packet may come in, if there is one. Which mappings there are, the policy does not know.
    by_mapping: Option<usize>,
}

impl Translated {
    pub(super) fn of(
        policy: &Policy,
        packet: &Packet,
        destination: Option<(usize, Packet)>,
        action: Action,
    ) -> Self {
        let source = (action == Action::Allow)
            .then(|| policy.translate_source(packet, destination.as_ref().map(|(_, asked)| asked)));
        let by_mapping = if destination.is_none() { may_come_by_mapping(policy, packet) } else { None };
        Self { destination, source: source.flatten(), by_mapping }
    }

    fn words(source: Option<SourceTranslation>) -> String {
        match source {
            None => "keeps its source".to_owned(),
            Some(SourceTranslation::Interface) => {
                "leaves with the address of the interface that it leaves by".to_owned()
            }
            Some(SourceTranslation::Address(address)) => format!("leaves with the address {address}"),
            Some(SourceTranslation::OneOf(first, last)) if first == last => {
                format!("leaves with the address {first}")
            }
            Some(SourceTranslation::OneOf(first, last)) => {
                format!("leaves with an address of {first}-{last}")
            }
            Some(SourceTranslation::Untranslatable) => {
                "is dropped as untranslatable: it is ICMP that is no query, or its address has none outside (RFC 6296)".to_owned()
            }
        }
    }

    pub(super) fn lines(&self, policy: &Policy) -> Vec<String> {
        let name = |place: usize| &policy.translations[place].name;
        let destination = self.destination.iter().map(|(place, asked)| {
            format!(
                "it was for {}, {}: its destination is translated by `{}`",
                asked.destination,
                asked.service_words(),
                name(*place)
            )
        });
        let source = self.source.iter().map(|(place, source)| {
            format!("it {}: by the translation `{}`", Self::words(*source), name(*place))
        });
        let mapping = self.source.iter().filter_map(|(place, _)| {
            let filtering = policy.translations[*place].mapping?;
            Some(format!(
                "its port outside is one for all whom it talks to (mapping = \"endpoint-independent\", filtering = \"{}\")",
                filtering.name()
            ))
        });
        let by_mapping = self.by_mapping.iter().map(|place| {
            format!(
                "if a host has this port outside by the translation `{}`, the packet goes to that host, and the rules judge it by that",
                name(*place)
            )
        });
        destination.chain(source).chain(mapping).chain(by_mapping).collect()
    }

    pub(super) fn to_json(&self, policy: &Policy) -> Value {
        let name = |place: usize| &policy.translations[place].name;
        let destination = self.destination.as_ref().map(|(place, asked)| {
            json!({ "translation": name(*place), "destination": asked.destination, "service": asked.service_words() })
        });
        let source = self
            .source
            .map(|(place, source)| json!({ "translation": name(place), "words": Self::words(source) }));
        let mapping = self.source.and_then(|(place, _)| policy.translations[place].mapping);
        json!({
            "destination_before": destination,
            "source": source,
            "filtering": mapping.map(policy::translation::Filtering::name),
            "by_mapping": self.by_mapping.map(name),
        })
    }
}
