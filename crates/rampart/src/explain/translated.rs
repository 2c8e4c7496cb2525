//! What translation does with a packet that is explained.

use policy::Policy;
use policy::interpret::Packet;
use policy::model::Action;
use policy::translation::SourceTranslation;
use serde_json::{Value, json};

/// The entry for which a packet is dropped that the rules allow: its source must be translated, and cannot be.
pub(super) fn untranslatable(policy: &Policy, packet: &Packet, action: Action) -> Option<usize> {
    match policy.translate_source(packet) {
        Some((place, Some(SourceTranslation::Untranslatable))) if action == Action::Allow => Some(place),
        _ => None,
    }
}

/// What translation does with a packet.
pub(super) struct Translated {
    /// The entry that translated its destination, if one did, and the packet before that.
    destination: Option<(usize, Packet)>,
    /// If the packet is allowed: the entry that decides about its source, and what becomes of it.
    source: Option<(usize, Option<SourceTranslation>)>,
}

impl Translated {
    pub(super) fn of(
        policy: &Policy,
        packet: &Packet,
        destination: Option<(usize, Packet)>,
        action: Action,
    ) -> Self {
        let source = (action == Action::Allow).then(|| policy.translate_source(packet));
        Self { destination, source: source.flatten() }
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
                "is dropped as untranslatable, because it is ICMP that is no query".to_owned()
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
        destination.chain(source).collect()
    }

    pub(super) fn to_json(&self, policy: &Policy) -> Value {
        let name = |place: usize| &policy.translations[place].name;
        let destination = self.destination.as_ref().map(|(place, asked)| {
            json!({ "translation": name(*place), "destination": asked.destination, "service": asked.service_words() })
        });
        let source = self
            .source
            .map(|(place, source)| json!({ "translation": name(place), "words": Self::words(source) }));
        json!({ "destination_before": destination, "source": source })
    }
}
