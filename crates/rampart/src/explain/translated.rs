//! What translation does with a packet that is explained.

use policy::Policy;
use policy::interpret::Packet;
use policy::translation::Disguise;
use serde_json::{Value, json};

/// What translation does with a packet.
pub(super) struct Translated {
    /// The entry that redirected it, if one did, and where it was sent to.
    redirected: Option<(usize, Packet)>,
    /// The entry that decides about its source, and what becomes of it.
    disguise: Option<(usize, Option<Disguise>)>,
}

impl Translated {
    pub(super) fn of(policy: &Policy, packet: &Packet, asked: Option<(usize, Packet)>) -> Self {
        Self { redirected: asked, disguise: policy.disguise(packet) }
    }

    fn words(disguise: Option<Disguise>) -> String {
        match disguise {
            None => "keeps its source".to_owned(),
            Some(Disguise::Interface) => {
                "leaves with the address of the interface that it leaves by".to_owned()
            }
            Some(Disguise::Address(address)) => format!("leaves with the address {address}"),
            Some(Disguise::OneOf(first, last)) if first == last => format!("leaves with the address {first}"),
            Some(Disguise::OneOf(first, last)) => format!("leaves with an address of {first}-{last}"),
        }
    }

    pub(super) fn lines(&self, policy: &Policy) -> Vec<String> {
        let name = |place: usize| &policy.translations[place].name;
        let redirected = self.redirected.iter().map(|(place, asked)| {
            format!(
                "it was for {}, {}: redirected by the translation `{}`",
                asked.destination,
                asked.service_words(),
                name(*place)
            )
        });
        let disguised = self.disguise.iter().map(|(place, disguise)| {
            format!("if it passes, it {}: by the translation `{}`", Self::words(*disguise), name(*place))
        });
        redirected.chain(disguised).collect()
    }

    pub(super) fn to_json(&self, policy: &Policy) -> Value {
        let name = |place: usize| &policy.translations[place].name;
        let redirected = self.redirected.as_ref().map(|(place, asked)| {
            json!({ "translation": name(*place), "destination": asked.destination, "service": asked.service_words() })
        });
        let source = self
            .disguise
            .map(|(place, disguise)| json!({ "translation": name(place), "words": Self::words(disguise) }));
        json!({ "redirected_from": redirected, "source": source })
    }
}
