//! `rampart explain`: which rule decides about a packet, and why not those above it.

use crate::cli::ExplainArgs;
use crate::failure::Failure;
use jiff::{Timestamp, Zoned};
use policy::Policy;
use policy::interpret::{Decider, Explanation, Packet, explain};
use policy::model::{SELF, ZoneId};
use policy::service::{ICMP, ICMPV6, SCTP, ServiceSet, TCP, UDP};
use serde_json::{Value, json};
use std::process::ExitCode;

pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

pub(crate) fn run(args: &ExplainArgs, json: bool) -> Result<ExitCode, Failure> {
    let policy = crate::read_policy(&args.policy)?;
    let packet = packet(args, &policy).map_err(Failure::Wrong)?;
    let at = args.at.as_deref().map_or_else(|| Ok(now()), moment).map_err(Failure::Wrong)?;
    let explanation = explain(&policy, &packet, at);
    if json {
        println!("{:#}", to_json(&policy, &packet, at, &explanation));
    } else {
        print(args, &policy, &packet, at, &explanation);
    }
    Ok(ExitCode::SUCCESS)
}

fn packet(args: &ExplainArgs, policy: &Policy) -> Result<Packet, String> {
    if args.src.is_ipv4() != args.dst.is_ipv4() {
        return Err(format!("--src {} and --dst {} are of different families", args.src, args.dst));
    }
    let from = zone(policy, "--from", &args.from)?;
    let to = match &args.to {
        Some(name) => zone(policy, "--to", name)?,
        None => zone_of_destination(args, policy)?,
    };
    if (from, to) == (SELF, SELF) {
        return Err("what the firewall sends to itself never passes it: name another zone".to_owned());
    }
    let (protocol, selector) = service(args)?;
    Ok(Packet { from, to, source: args.src, destination: args.dst, protocol, selector })
}

fn zone(policy: &Policy, option: &str, name: &str) -> Result<ZoneId, String> {
    policy.zone(name).ok_or_else(|| {
        let names: Vec<&str> = policy.zones.iter().map(|zone| zone.name.as_str()).collect();
        format!("{option}: there is no zone `{name}`; there are: {}", names.join(", "))
    })
}

/// The zone whose networks hold the destination; or, when none does, the only zone of which the policy names no networks.
fn zone_of_destination(args: &ExplainArgs, policy: &Policy) -> Result<ZoneId, String> {
    let pick = |holds: &dyn Fn(&policy::model::Zone) -> bool| -> Vec<ZoneId> {
        (0..).zip(&policy.zones).skip(1).filter(|(_, zone)| holds(zone)).map(|(id, _)| id).collect()
    };
    let holding = pick(&|zone| zone.networks.contains(args.dst));
    let open = pick(&|zone| zone.networks.is_empty());
    match (holding.as_slice(), open.as_slice()) {
        ([one], _) | ([], [one]) => Ok(*one),
        ([], _) => {
            Err(format!("no zone's networks hold {}: name the zone that it goes to with --to", args.dst))
        }
        _ => {
            Err(format!("several zones' networks hold {}: name the zone that it goes to with --to", args.dst))
        }
    }
}

fn service(args: &ExplainArgs) -> Result<(u8, u16), String> {
    let protocol = match args.proto.as_str() {
        "tcp" => TCP,
        "udp" => UDP,
        "sctp" => SCTP,
        "icmp" => ICMP,
        "icmpv6" => ICMPV6,
        other => other.parse().map_err(|_| {
            format!("--proto {other}: write tcp, udp, sctp, icmp, icmpv6, or a protocol's number (0 to 255)")
        })?,
    };
    let has_ports = matches!(protocol, TCP | UDP | SCTP);
    let is_icmp = matches!(protocol, ICMP | ICMPV6);
    if args.dport.is_some() && !has_ports {
        return Err(format!("--proto {} has no ports: leave --dport out", args.proto));
    }
    if args.icmp.is_some() && !is_icmp {
        return Err(format!("--proto {} has no ICMP type: leave --type out", args.proto));
    }
    match (&args.icmp, args.dport) {
        (Some(written), _) => icmp_selector(protocol, written).map(|selector| (protocol, selector)),
        (None, Some(port)) => Ok((protocol, port)),
        (None, None) if has_ports => Err(format!("--proto {} needs --dport", args.proto)),
        (None, None) if is_icmp => {
            Err(format!("--proto {} needs --type, such as --type echo-request", args.proto))
        }
        (None, None) => Ok((protocol, 0)),
    }
}

/// The type and code as the language writes them; a type without a code is taken with code 0.
fn icmp_selector(protocol: u8, written: &str) -> Result<u16, String> {
    let name = if protocol == ICMP { "icmp" } else { "icmpv6" };
    let set = ServiceSet::parse(&format!("{name}/{written}"))
        .map_err(|(message, help)| format!("--type {written}: {message}; {}", help.unwrap_or_default()))?;
    Ok(set.0.ranges().first().map_or(0, |(first, _)| *first as u16))
}

/// A moment with a time zone, with an offset, or on this machine's clock.
fn moment(text: &str) -> Result<Timestamp, String> {
    let zoned = || text.parse::<Zoned>().map(|zoned| zoned.timestamp());
    let local = || {
        let local: jiff::civil::DateTime = text.parse()?;
        local.to_zoned(jiff::tz::TimeZone::system()).map(|zoned| zoned.timestamp())
    };
    let found = zoned().or_else(|_| text.parse::<Timestamp>()).or_else(|_| local());
    found.map_err(|_: jiff::Error| {
        format!("--at {text}: write 2026-11-20T22:30[Europe/Berlin], 2026-11-20T21:30Z or 2026-11-20T22:30")
    })
}

fn print(args: &ExplainArgs, policy: &Policy, packet: &Packet, at: Timestamp, explanation: &Explanation) {
    let zone = |id: ZoneId| &policy.zones[usize::from(id)].name;
    println!(
        "{} from {} to {}, {}, in zone {} to zone {}, at {at}",
        packet.service_words(),
        packet.source,
        packet.destination,
        if packet.source.is_ipv4() { "IPv4" } else { "IPv6" },
        zone(packet.from),
        zone(packet.to),
    );
    if let Some(port) = args.sport {
        println!("(the source port {port} plays no part: no rule can ask for one)");
    }
    for (i, why) in &explanation.passed_over {
        let rule = &policy.rules[*i];
        println!("  not `{}`: {}", rule.name, why.words(policy, rule, packet));
    }
    let action = explanation.verdict.action.name();
    match explanation.verdict.decider {
        Decider::Rule(i) => {
            let (line, name) = (line(policy, i), &policy.rules[i].name);
            println!("{action}: by the rule `{name}` ({}:{line})", policy.file);
        }
        Decider::Default => {
            println!(
                "{action}: no rule matches, and that is the default from {} to {}",
                zone(packet.from),
                zone(packet.to)
            );
        }
    }
}

/// The line that names a rule.
fn line(policy: &Policy, rule: usize) -> usize {
    policy.text[..policy.rules[rule].span.start].matches('\n').count() + 1
}

fn to_json(policy: &Policy, packet: &Packet, at: Timestamp, explanation: &Explanation) -> Value {
    let zone = |id: ZoneId| &policy.zones[usize::from(id)].name;
    let rule = match explanation.verdict.decider {
        Decider::Rule(i) => json!({ "name": policy.rules[i].name, "line": line(policy, i) }),
        Decider::Default => Value::Null,
    };
    let passed_over: Vec<Value> = explanation
        .passed_over
        .iter()
        .map(|(i, why)| {
            let rule = &policy.rules[*i];
            json!({ "name": rule.name, "field": why.field(), "why": why.words(policy, rule, packet) })
        })
        .collect();
    json!({
        "action": explanation.verdict.action.name(),
        "rule": rule,
        "packet": {
            "from": zone(packet.from), "to": zone(packet.to), "source": packet.source, "destination": packet.destination,
            "service": packet.service_words(),
        },
        "at": at.to_string(),
        "passed_over": passed_over,
    })
}
