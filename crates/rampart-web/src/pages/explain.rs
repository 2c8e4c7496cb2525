//! A packet's fate by the policy in force: which rule decides, and why not those above it.

use crate::app::{Context, Fault, lock};
use crate::http::{Answer, Fields};
use crate::pages::policy::in_force;
use rampart_client::policy::Policy;
use rampart_client::policy::ends::misfit;
use rampart_client::policy::interpret::{Decider, Packet, explain};
use rampart_client::policy::lists::OnLists;
use rampart_client::policy::model::{Action, SELF, ZoneId};
use rampart_client::policy::service::{SCTP, ServiceSet, TCP, UDP};
use rampart_client::policy::translation::SourceTranslation;
use serde_json::{Value, json};
use std::net::IpAddr;

/// Rules that stand above and are shown.
const SHOWN: usize = 200;
/// The source port of a packet that says none: the first that a host draws by itself (RFC 6335, section 6).
const DRAWN: u16 = 49_152;

const FIELDS: [&str; 6] = ["from", "to", "source", "destination", "service", "source_port"];

pub(crate) fn show(context: &Context<'_>) -> Result<Answer, Fault> {
    let (_, policy) = in_force(context)?;
    let fields = context.query();
    let zones: Vec<_> = policy.zones.iter().map(|zone| &zone.name).collect();
    let mut values = json!({ "title": "Explain a packet", "help": "explain", "zones": zones, "lists": policy.lists.len() });
    for key in FIELDS {
        values["asked"][key] = fields.get(key).into();
    }
    if fields.get("source").is_empty() && fields.get("destination").is_empty() {
        return context.page("explain.html", values);
    }
    match answer(context, &policy, fields) {
        Err(why) => {
            values["why"] = why.into();
            Ok(context.page_of(422, "explain.html", values))
        }
        Ok(answer) => {
            values["answer"] = answer;
            context.page("explain.html", values)
        }
    }
}

fn answer(context: &Context<'_>, policy: &Policy, fields: &Fields) -> Result<Value, String> {
    let (packet, before) = packet(policy, fields)?;
    let _turn = lock(&context.app.reading);
    let explanation = explain(policy, &packet, OnLists::default(), context.now.wall);
    let line = |span: &std::ops::Range<usize>| policy.text[..span.start].matches('\n').count() + 1;
    let zone = |id: ZoneId| &policy.zones[usize::from(id)].name;
    let row = |(place, why): &(usize, _)| {
        let rule = &policy.rules[*place];
        let why: &rampart_client::policy::interpret::Mismatch = why;
        json!({ "name": rule.name, "why": why.words(policy, rule, &packet) })
    };
    let action = explanation.verdict.action;
    let dropped = dropped(policy, &packet, before.as_ref().map(|(_, asked)| asked), action);
    // Where rules have no say, none stands above another.
    let passed_over: &[_] = if dropped.is_some() { &[] } else { &explanation.passed_over };
    let above: Vec<_> = passed_over.iter().rev().take(SHOWN).rev().map(row).collect();
    let decided = match explanation.verdict.decider {
        _ if dropped.is_some() => Value::Null,
        Decider::Rule(place) => {
            let rule = &policy.rules[place];
            json!({ "rule": rule.name, "line": line(&rule.span) })
        }
        Decider::Default => Value::Null,
    };
    let translated = before.map(|(entry, _)| {
        json!({ "name": policy.translations[entry].name, "to": packet.destination.to_string(), "service": packet.service_words() })
    });
    Ok(json!({
        "action": if dropped.is_some() { Action::Deny } else { action }.name(), "decided": decided, "above": above,
        "dropped": dropped.map(|(reason, why)| json!({ "reason": reason, "why": why })),
        "hidden": passed_over.len().saturating_sub(SHOWN), "translated": translated,
        "packet": format!(
            "{} from {} to {}, in zone {} to zone {}",
            packet.service_words(), packet.source, packet.destination, zone(packet.from), zone(packet.to)
        ),
    }))
}

/// The reason for which the data plane drops a packet though a rule may allow it, as `rampart drops` names it, and the same in words. `asked` is the packet
/// before its destination was translated.
fn dropped(
    policy: &Policy,
    packet: &Packet,
    asked: Option<&Packet>,
    action: Action,
) -> Option<(&'static str, String)> {
    let destination = asked.map_or(packet.destination, |asked| asked.destination);
    if let Some(misfit) = misfit(policy, &Packet { destination, ..*packet }) {
        return Some((misfit.name(), misfit.words(packet)));
    }
    if packet.answers_query() {
        let why = "it answers a query of ICMP, which passes with the flow of its question alone";
        return Some(("icmp-unasked", why.to_owned()));
    }
    match policy.translate_source(packet, asked) {
        Some((place, Some(SourceTranslation::Untranslatable))) if action == Action::Allow => {
            let entry = &policy.translations[place].name;
            let why = format!("its source must be translated by the entry {entry}, and cannot be");
            Some(("untranslatable", why))
        }
        _ => None,
    }
}

/// The packet as the rules see it, and if its destination is translated, by which entry and what it was before.
fn packet(policy: &Policy, fields: &Fields) -> Result<(Packet, Option<(usize, Packet)>), String> {
    let address = |key: &str| {
        let written = fields.get(key);
        written
            .parse::<IpAddr>()
            .map_err(|_| format!("the {key} {written:?} is no address: write 192.0.2.1 or 2001:db8::1"))
    };
    let zone = |name: &str| policy.zone(name).ok_or_else(|| format!("there is no zone {name:?}"));
    let (source, destination) = (address("source")?, address("destination")?);
    if source.is_ipv4() != destination.is_ipv4() {
        return Err("source and destination are of different families".to_owned());
    }
    let (protocol, selector) = service(fields.get("service"))?;
    let has_ports = matches!(protocol, TCP | UDP | SCTP);
    let source_port = match fields.get("source_port") {
        "" => {
            if has_ports {
                DRAWN
            } else {
                0
            }
        }
        _ if !has_ports => return Err("such a packet has no ports: leave the source port empty".to_owned()),
        port => port.parse().map_err(|_| format!("the source port {port:?} is none: write 0 to 65535"))?,
    };
    let from = zone(fields.get("from"))?;
    let asked = Packet { from, to: SELF, source, destination, source_port, protocol, selector };
    let (mut packet, mut before) = (asked, None);
    if let Some((place, Some(to))) = policy.translate_destination(&asked) {
        packet.destination = to.address;
        packet.selector = to.port.unwrap_or(selector);
        before = Some((place, asked));
    }
    packet.to = match fields.get("to") {
        "" => policy
            .zone_of_destination(packet.destination)
            .map_err(|why| format!("{why}: name the zone that it goes to"))?,
        name => zone(name)?,
    };
    if (packet.from, packet.to) == (SELF, SELF) {
        return Err("what the firewall sends to itself never passes it: name another zone".to_owned());
    }
    Ok((packet, before))
}

/// One service, as policies write it: `tcp/443`, `icmp/echo-request`, `http`.
fn service(text: &str) -> Result<(u8, u16), String> {
    let set = match ServiceSet::built_in(text) {
        Some(set) => set,
        None => ServiceSet::parse(text).map_err(|(message, help)| {
            help.map_or_else(|| message.clone(), |help| format!("{message}; {help}"))
        })?,
    };
    let one = || {
        format!(
            "{text:?} is more than one service: a packet has one, for example tcp/443 or icmp/echo-request"
        )
    };
    let [part] = set.parts() else { return Err(one()) };
    let [(first, last)] = part.keys.ranges() else { return Err(one()) };
    // A type of ICMP without a code is all its codes; a protocol without ports all of them.
    if last - first > 0xff && last - first != 0xffff {
        return Err(one());
    }
    if last - first == 0xffff && matches!((first >> 16) as u8, TCP | UDP | SCTP) {
        return Err(format!("{text:?} names no port: write for example tcp/443"));
    }
    Ok(((first >> 16) as u8, (first & 0xffff) as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the data plane drops whatever a rule says is no allowed packet here either: each row is allowed by the one rule.
    #[test]
    fn what_is_dropped_whatever_rules_say_is_named() {
        const POLICY: &str = "[zones]\n\
            inside = { interfaces = 'e1', networks = ['10.0.0.0/8', '2001:db8:1::/64'] }\n\
            outside = { interfaces = 'e0' }\n\
            [[rules]]\nname = 'all'\nfrom = 'any'\nto = 'any'\naction = 'allow'\n\
            [[nat]]\nname = 'out'\nfrom = 'inside'\nto = 'outside'\nmasquerade = true\n\
            [[nat]]\nname = 'in'\nfrom = 'outside'\ndestination = '203.0.113.1'\nservice = 'tcp/80'\ndestination_to = '10.0.0.7'\n";
        let policy = Policy::parse("p", POLICY).unwrap_or_else(|problems| panic!("{problems}"));
        for (from, to, source, destination, service, expected) in [
            ("inside", "", "10.0.0.5", "192.0.2.1", "tcp/443", None),
            ("inside", "", "10.0.0.5", "192.0.2.1", "icmp/echo-request", None),
            ("outside", "", "192.0.2.1", "203.0.113.1", "tcp/80", None),
            ("inside", "outside", "10.0.0.5", "10.0.0.5", "tcp/443", Some("land")),
            ("inside", "", "127.0.0.1", "192.0.2.1", "tcp/443", Some("source")),
            ("inside", "", "10.0.0.5", "240.0.0.1", "tcp/443", Some("destination")),
            ("outside", "inside", "10.0.0.5", "10.0.0.7", "tcp/443", Some("zone-source")),
            ("outside", "", "10.0.0.5", "203.0.113.1", "tcp/80", Some("zone-source")),
            ("inside", "outside", "fe80::1", "2001:db8:2::1", "tcp/443", Some("source")),
            ("outside", "inside", "192.0.2.1", "10.0.0.5", "icmp/echo-reply", Some("icmp-unasked")),
            ("inside", "", "10.0.0.5", "192.0.2.1", "icmp/time-exceeded", Some("untranslatable")),
        ] {
            let asked = format!("{from}>{to} {source} > {destination} {service}");
            let pairs = [("from", from), ("to", to), ("source", source), ("destination", destination)];
            let query = form_urlencoded::Serializer::new(String::new())
                .extend_pairs(pairs)
                .append_pair("service", service)
                .finish();
            let (packet, before) = packet(&policy, &Fields::parse(query.as_bytes())).unwrap();
            let found = dropped(&policy, &packet, before.as_ref().map(|(_, asked)| asked), Action::Allow);
            assert_eq!(found.map(|(reason, _)| reason), expected, "{asked}");
        }
    }

    #[test]
    fn a_packet_has_one_service() {
        for (text, expected) in [
            ("tcp/443", Ok((6, 443))),
            ("https", Ok((6, 443))),
            ("udp/53", Ok((17, 53))),
            ("icmp/echo-request", Ok((1, 0x800))),
            ("protocol/47", Ok((47, 0))),
            ("tcp/80-90000", Err("")),
            ("dns", Err("more than one service")),
            ("tcp", Err("")),
            ("<script>", Err("")),
            ("", Err("")),
        ] {
            match (service(text), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{text}: {why}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }
}
