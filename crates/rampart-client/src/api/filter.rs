//! Which flows a request means: `src=10.0.0.0/8 dport=443 rule=web`. All parts must hold. Pure: text in, a checked filter out.

use super::Flow;
use ipnet::IpNet;
use std::net::IpAddr;

/// Which flows a request means; without parts, all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Source(IpNet),
    Destination(IpNet),
    /// Either end.
    Host(IpNet),
    Protocol(String),
    SourcePort(Ports),
    DestinationPort(Ports),
    Rule(String),
    From(String),
    To(String),
    /// Either end.
    Zone(String),
    State(String),
}

/// Ports from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ports(u16, u16);

/// Why a word is no part of a filter; complete, with what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FilterError(pub String);

/// Every key with what it takes, for messages and for the description of the socket.
pub(super) const KEYS: [(&str, &str); 11] = [
    ("src", "the address or network of the initiator, for example 10.0.0.0/8"),
    ("dst", "the address or network of the responder, for example 192.0.2.10"),
    ("host", "the address or network of either side"),
    ("proto", "tcp, udp, sctp, icmp, icmpv6, or a protocol's number"),
    ("sport", "a source port, or a range of them, for example 1024-2047"),
    ("dport", "a destination port, or a range of them, for example 80-443"),
    ("rule", "the name of the rule that allowed the flow"),
    ("from", "the zone of the initiator"),
    ("to", "the zone of the responder"),
    ("zone", "the zone of either side"),
    ("state", "the state as `rampart flows` shows it, for example established"),
];

impl Filter {
    /// Reads words such as `src=10.0.0.0/8`.
    ///
    /// # Errors
    /// The first word that is no part of a filter.
    pub fn parse<'w>(words: impl IntoIterator<Item = &'w str>) -> Result<Self, FilterError> {
        let pairs = words.into_iter().map(|word| {
            word.split_once('=').ok_or_else(|| {
                FilterError(format!("`{word}` is no filter: write KEY=VALUE, such as dport=443 ({})", keys()))
            })
        });
        pairs
            .map(|pair| pair.and_then(|(key, value)| Part::of(key, value)))
            .collect::<Result<_, _>>()
            .map(|parts| Self { parts })
    }

    /// Reads keys and values that are apart already, as in a query.
    ///
    /// # Errors
    /// The first pair that is no part of a filter.
    pub fn of_pairs<'w>(pairs: impl IntoIterator<Item = (&'w str, &'w str)>) -> Result<Self, FilterError> {
        let parts = pairs.into_iter().map(|(key, value)| Part::of(key, value));
        parts.collect::<Result<_, _>>().map(|parts| Self { parts })
    }

    /// Whether the filter has no parts, and so passes every flow.
    pub fn is_all(&self) -> bool {
        self.parts.is_empty()
    }

    /// The zones that the filter asks for.
    pub fn zones(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::From(zone) | Part::To(zone) | Part::Zone(zone) => Some(zone.as_str()),
            _ => None,
        })
    }

    /// The states that the filter asks for.
    pub fn states(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::State(state) => Some(state.as_str()),
            _ => None,
        })
    }

    /// Whether a flow passes the filter.
    pub fn accepts(&self, flow: &Flow) -> bool {
        self.parts.iter().all(|part| part.accepts(flow))
    }
}

fn keys() -> String {
    let keys: Vec<&str> = KEYS.iter().map(|(key, _)| *key).collect();
    keys.join(", ")
}

impl Part {
    fn of(key: &str, value: &str) -> Result<Self, FilterError> {
        let takes = KEYS.iter().find(|(name, _)| *name == key).map(|(_, takes)| *takes);
        let Some(takes) = takes else {
            return Err(FilterError(format!("there is no filter `{key}`; there are: {}", keys())));
        };
        let wrong = || FilterError(format!("{key}={value}: {key} takes {takes}"));
        let word = || if value.is_empty() { Err(wrong()) } else { Ok(value.to_owned()) };
        Ok(match key {
            "src" => Part::Source(network(value).ok_or_else(wrong)?),
            "dst" => Part::Destination(network(value).ok_or_else(wrong)?),
            "host" => Part::Host(network(value).ok_or_else(wrong)?),
            "proto" => Part::Protocol(protocol(value).ok_or_else(wrong)?),
            "sport" => Part::SourcePort(ports(value).ok_or_else(wrong)?),
            "dport" => Part::DestinationPort(ports(value).ok_or_else(wrong)?),
            "rule" => Part::Rule(word()?),
            "from" => Part::From(word()?),
            "to" => Part::To(word()?),
            "zone" => Part::Zone(word()?),
            _ => Part::State(word()?),
        })
    }

    fn accepts(&self, flow: &Flow) -> bool {
        let within = |network: &IpNet, address: IpAddr| network.contains(&address);
        match self {
            Part::Source(network) => within(network, flow.source),
            Part::Destination(network) => within(network, flow.destination),
            Part::Host(network) => within(network, flow.source) || within(network, flow.destination),
            Part::Protocol(name) => flow.protocol == *name,
            Part::SourcePort(ports) => ports.hold(flow.source_port),
            Part::DestinationPort(ports) => ports.hold(flow.destination_port),
            Part::Rule(name) => flow.rule.as_ref() == Some(name),
            Part::From(zone) => flow.from == *zone,
            Part::To(zone) => flow.to == *zone,
            Part::Zone(zone) => flow.from == *zone || flow.to == *zone,
            Part::State(state) => flow.state == *state,
        }
    }
}

impl Ports {
    fn hold(self, port: u16) -> bool {
        (self.0..=self.1).contains(&port)
    }
}

/// A network, also one with host bits, which a person pastes from `ip addr`; or one address.
fn network(text: &str) -> Option<IpNet> {
    let host = |address: IpAddr| IpNet::from(address);
    policy::address::network(text).map(|n| n.trunc()).or_else(|| text.parse().ok().map(host))
}

fn ports(text: &str) -> Option<Ports> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let ports = Ports(first.parse().ok()?, last.parse().ok()?);
    (ports.0 <= ports.1).then_some(ports)
}

const PROTOCOLS: [(u8, &str); 5] = [
    (policy::service::TCP, "tcp"),
    (policy::service::UDP, "udp"),
    (policy::service::SCTP, "sctp"),
    (policy::service::ICMP, "icmp"),
    (policy::service::ICMPV6, "icmpv6"),
];

/// A protocol as the API names it, for example `tcp` for 6.
pub fn protocol_name(number: u8) -> String {
    let named = PROTOCOLS.iter().find(|(known, _)| *known == number);
    named.map_or_else(|| number.to_string(), |(_, name)| (*name).to_owned())
}

fn protocol(text: &str) -> Option<String> {
    let named = PROTOCOLS.iter().any(|(_, name)| *name == text);
    if named { Some(text.to_owned()) } else { text.parse().ok().map(protocol_name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> Flow {
        Flow {
            protocol: "tcp".to_owned(),
            source: "10.0.0.5".parse().unwrap(),
            source_port: 40_000,
            destination: "2001:db8::1".parse().unwrap(),
            destination_port: 443,
            source_alias: None,
            destination_alias: None,
            from: "inside".to_owned(),
            to: "outside".to_owned(),
            rule: Some("web".to_owned()),
            state: "established".to_owned(),
            idle_seconds: 1,
            expires_seconds: 9,
            packets_out: 1,
            bytes_out: 60,
            packets_back: 1,
            bytes_back: 60,
        }
    }

    #[test]
    fn a_flow_passes_when_every_part_holds() {
        for (words, expected) in [
            ("", true),
            ("src=10.0.0.0/8", true),
            ("src=10.0.0.5/8", true),
            ("src=10.0.0.6", false),
            ("dst=2001:db8::/32 proto=tcp", true),
            ("dst=10.0.0.0/8", false),
            ("host=10.0.0.5", true),
            ("host=2001:db8::1", true),
            ("host=192.0.2.1", false),
            ("proto=6", true),
            ("proto=udp", false),
            ("dport=443", true),
            ("dport=80-443 sport=40000", true),
            ("dport=444-500", false),
            ("sport=443", false),
            ("rule=web zone=outside", true),
            ("rule=mail", false),
            ("from=inside to=outside", true),
            ("from=outside", false),
            ("zone=dmz", false),
            ("state=established", true),
            ("state=closing", false),
            ("proto=tcp dport=80", false),
        ] {
            let filter = Filter::parse(words.split_whitespace()).unwrap();
            assert_eq!(filter.accepts(&flow()), expected, "{words}");
        }
    }

    #[test]
    fn a_word_that_is_none_is_refused_with_what_would_be_right() {
        for (word, expected) in [
            ("443", "write KEY=VALUE"),
            ("port=443", "there is no filter `port`; there are: src, dst"),
            ("src=10.0.0", "src takes the address or network of the initiator"),
            ("src=010.0.0.0/8", "src takes the address or network of the initiator"),
            ("dport=443-80", "dport takes a destination port"),
            ("dport=70000", "dport takes"),
            ("proto=htpp", "proto takes tcp, udp"),
            ("proto=256", "proto takes"),
            ("rule=", "rule takes the name"),
        ] {
            let error = Filter::parse([word]).unwrap_err();
            assert!(error.0.contains(expected), "{word}: {error}");
        }
    }
}
