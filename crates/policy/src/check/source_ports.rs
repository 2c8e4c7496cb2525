//! Source ports, of rules and of services.

use crate::ranges::RangeSet;
use crate::service::{ServiceSet, any_port, parse_ports};
use toml_reader::{Collector, Located};

/// What of a set of services is from the source ports that some words name, or `None` after reporting what is wrong with them.
pub(super) fn narrow(
    services: &ServiceSet,
    words: &[Located<&str>],
    c: &mut Collector<'_>,
) -> Option<ServiceSet> {
    let ports = read(words, c)?;
    let place = words.first()?.span.start..words.last()?.span.end;
    match services.narrowed_to(&ports) {
        Ok(narrowed) if narrowed.is_empty() => {
            let help =
                "the services that are named ask for other source ports: name those, or leave the key out";
            c.report(place, "no packet has these source ports", Some(help.to_owned()));
            None
        }
        Ok(narrowed) => Some(narrowed),
        Err(protocol) => {
            let help = "name services of TCP, UDP or SCTP alone: [\"tcp\", \"udp\"] are all of two of them";
            let message =
                format!("`source_port` goes with services that have no ports, such as protocol/{protocol}");
            c.report(place, message, Some(help.to_owned()));
            None
        }
    }
}

fn read(words: &[Located<&str>], c: &mut Collector<'_>) -> Option<RangeSet<u32>> {
    let mut ports = Vec::new();
    for word in words {
        if word.value == "any" {
            ports.extend_from_slice(any_port().ranges());
            continue;
        }
        match parse_ports(word.value) {
            Ok(range) => ports.extend_from_slice(range.ranges()),
            Err((message, help)) => {
                c.report(word.span.clone(), toml_reader::shortened(&message), help);
                return None;
            }
        }
    }
    Some(RangeSet::of(ports))
}
