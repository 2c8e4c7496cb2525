//! `rampart explain`: which rule decides about a packet, and why not those above it.

mod batch;
mod domains;
mod scanned;
mod translated;

use crate::cli::ExplainArgs;
use crate::daemon::instance::Instance;
use crate::failure::Failure;
use crate::list_copies::Copies;
use crate::moment::moment;
use crate::output::outln;
use crate::state::State;
use domains::Unknown;
use jiff::Timestamp;
use policy::Policy;
use policy::address::AddressSet;
use policy::ends::{Misfit, misfit};
use policy::interpret::{Decider, Explanation, Packet, decide_listed, explain};
use policy::lists::{OnLists, Refusing, refusing};
use policy::model::{Action, SELF, ZoneId};
use policy::service::{ICMP, ICMPV6, SCTP, ServiceSet, TCP, UDP};
use policy::settings::SynProxy;
use scanned::Scanned;
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;
use translated::{Translated, untranslatable};

pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// The source port of a packet that says none: the first that a host draws by itself (RFC 6335, section 6).
const DRAWN_PORT: u16 = 49_152;

/// A packet as a user describes it: by options, or as a line of JSON with the same names.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    from: String,
    to: Option<String>,
    src: IpAddr,
    dst: IpAddr,
    proto: String,
    dport: Option<u16>,
    sport: Option<u16>,
    #[serde(rename = "type")]
    icmp: Option<String>,
}

impl Question {
    /// `None` when the options describe no packet, because a file does.
    fn of(args: &ExplainArgs) -> Option<Self> {
        Some(Self {
            from: args.from.clone()?,
            to: args.to.clone(),
            src: args.src?,
            dst: args.dst?,
            proto: args.proto.clone()?,
            dport: args.dport,
            sport: args.sport,
            icmp: args.icmp.clone(),
        })
    }
}

/// Why answers to ICMP queries are dropped that belong to no flow.
const UNASKED: &str = "icmp-unasked";

pub(crate) fn run(args: &ExplainArgs, json: bool) -> Result<ExitCode, Failure> {
    let stdin = Path::new(crate::STDIN);
    if args.policy == stdin && args.packets.as_deref() == Some(stdin) {
        let why =
            "standard input is the policy or the packets, and cannot be both: name a file for one of them";
        return Err(Failure::Wrong(why.to_owned()));
    }
    let policy = crate::parsed(&args.policy, crate::read_text_or_stdin(&args.policy)?)?;
    let at = args.at.as_deref().map_or_else(
        || Ok(now()),
        |text| moment(text).map_err(|why| Failure::Wrong(format!("--at {text}: {why}"))),
    )?;
    match (&args.packets, Question::of(args)) {
        (Some(file), _) => batch::run(file, &policy, at, json),
        (None, Some(question)) => {
            let (packet, before) = packet(&question, &policy).map_err(Failure::Wrong)?;
            if let Some(why) = misfit_of(&policy, &packet, before) {
                if args.brief {
                    outln!("{}", batch::brief_of_reason(why.name(), None, json));
                } else {
                    show_misfit(&question, &policy, &packet, at, why, json);
                }
                return Ok(ExitCode::SUCCESS);
            }
            let (lists, unknown) = known_contents(&policy, at)?;
            let listed = refusing(&policy.lists, &lists, packet.source, packet.destination);
            if let Some(by) = listed {
                if args.brief {
                    outln!("{}", batch::brief_of_list(&policy, by.list, None, json));
                } else {
                    show_list(&question, &policy, &packet, at, by, json);
                }
                return Ok(ExitCode::SUCCESS);
            }
            let on = OnLists::of(&lists, packet.source, packet.destination);
            let asked = before.map(|(_, asked)| asked);
            if args.brief {
                let verdict = decide_listed(&policy, &packet, on, at);
                outln!("{}", batch::brief(&policy, &packet, asked.as_ref(), &verdict, None, json));
                return Ok(ExitCode::SUCCESS);
            }
            let explanation = explain(&policy, &packet, on, at);
            let translated = Translated::of(&policy, &packet, before, explanation.verdict.action);
            let scanned = Scanned::of(&policy, &packet, explanation.verdict.action);
            let is_dropped = packet.answers_query()
                || untranslatable(&policy, &packet, asked.as_ref(), explanation.verdict.action).is_some();
            if json {
                let mut answer = to_json(&policy, &packet, on, at, &explanation);
                if is_dropped {
                    answer["action"] = Action::Deny.name().into();
                }
                if packet.answers_query() {
                    answer["reason"] = UNASKED.into();
                }
                answer["translation"] = translated.to_json(&policy);
                answer["scans"] = scanned.map(Scanned::to_json).into();
                answer["unknown_domains"] = unknown.names().into();
                answer["syn_proxy"] = proxied(&policy, &packet, &explanation).into();
                outln!("{answer:#}");
            } else {
                print(&question, &policy, &packet, on, at, &explanation, is_dropped);
                if packet.answers_query() {
                    outln!(
                        "it answers a query of ICMP: it passes with the flow of its question, and otherwise it is dropped as {UNASKED}"
                    );
                } else {
                    translated.lines(&policy).iter().for_each(|line| outln!("{line}"));
                }
                scanned.iter().flat_map(|it| it.lines()).for_each(|line| outln!("{line}"));
                proxied(&policy, &packet, &explanation).iter().for_each(|line| outln!("{line}"));
                unknown.line().iter().for_each(|line| outln!("{line}"));
            }
            Ok(ExitCode::SUCCESS)
        }
        // The command line asks for one or the other.
        (None, None) => Err(Failure::Wrong("name a packet, or a file of packets with --packets".to_owned())),
    }
}

/// What is on the lists of a policy at a moment.
pub(crate) fn contents(policy: &Policy, at: Timestamp) -> Result<Vec<AddressSet>, Failure> {
    known_contents(policy, at).map(|(contents, _)| contents)
}

/// The same, and the domains of which nothing is known.
fn known_contents(policy: &Policy, at: Timestamp) -> Result<(Vec<AddressSet>, Unknown), Failure> {
    // Of lists that are fetched, the running firewall has copies, which root can read.
    let state = Instance::here(None).map(|instance| State::usual(&instance.namespace).lists());
    let folder =
        state.map_err(|error| Failure::Machine(format!("cannot find out the network namespace: {error}")))?;
    let copies = Copies { folder: &folder, stand_in: false, fetcher: None, keep: false };
    let read = crate::list_files::read_all(policy, copies, at);
    let read = read.map_err(Failure::Wrong)?;
    let mut contents: Vec<AddressSet> = read.into_iter().map(|(set, _)| set).collect();
    let unknown = domains::add(policy, &mut contents);
    Ok((contents, unknown))
}

/// The packet as the rules see it, and if its destination is translated, by which entry and what it was before.
fn packet(question: &Question, policy: &Policy) -> Result<(Packet, Option<(usize, Packet)>), String> {
    if question.src.is_ipv4() != question.dst.is_ipv4() {
        return Err(format!("--src {} and --dst {} are of different families", question.src, question.dst));
    }
    let from = zone(policy, "--from", &question.from)?;
    let (protocol, selector) = service(question)?;
    let has_ports = has_ports(protocol);
    if question.sport.is_some() && !has_ports {
        return Err(format!("--proto {} has no ports: leave --sport out", question.proto));
    }
    let source_port = question.sport.unwrap_or(if has_ports { DRAWN_PORT } else { 0 });
    let (source, destination) = (question.src, question.dst);
    let asked = Packet { from, to: SELF, source, destination, source_port, protocol, selector };
    let (mut packet, mut before) = (asked, None);
    if let Some((place, Some(translated))) = policy.translate_destination(&asked) {
        packet.destination = translated.address;
        packet.selector = translated.port.unwrap_or(selector);
        before = Some((place, asked));
    }
    packet.to = match &question.to {
        Some(name) => zone(policy, "--to", name)?,
        None => {
            let zone = policy.zone_of_destination(packet.destination);
            zone.map_err(|why| format!("{why}: name the zone that it goes to with --to"))?
        }
    };
    if (from, packet.to) == (SELF, SELF) {
        return Err("what the firewall sends to itself never passes it: name another zone".to_owned());
    }
    Ok((packet, before))
}

/// Why a packet is dropped for its addresses, whatever the rules say.
fn misfit_of(policy: &Policy, packet: &Packet, before: Option<(usize, Packet)>) -> Option<Misfit> {
    let destination = before.map_or(packet.destination, |(_, asked)| asked.destination);
    misfit(policy, &Packet { destination, ..*packet })
}

/// What `syn_proxy` does to the SYN of a connection that is allowed; `None` if it passes as it is.
fn proxied(policy: &Policy, packet: &Packet, explanation: &Explanation) -> Option<&'static str> {
    let is_forwarded = packet.protocol == TCP && packet.from != SELF && packet.to != SELF;
    // The kernel answers for a gateway.
    if matches!(explanation.verdict.decider, Decider::Rule(i) if gateway_of(policy, i).is_some()) {
        return None;
    }
    if !is_forwarded || policy.is_bridged(packet.from) || explanation.verdict.action != Action::Allow {
        return None;
    }
    let of_rule = match explanation.verdict.decider {
        Decider::Rule(rule) => policy.rules[rule].effect.syn_proxy,
        Decider::Default => None,
    };
    match of_rule.unwrap_or(policy.settings.syn_proxy) {
        SynProxy::Off => None,
        SynProxy::On => Some(
            "its SYN is answered with a cookie, and the server is asked once that is acknowledged (syn_proxy)",
        ),
        SynProxy::WhenFull => Some(
            "while half-open connections fill half of half_open, its SYN is answered with a cookie, and the server is asked once that is acknowledged (syn_proxy)",
        ),
    }
}

const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | SCTP)
}

fn zone(policy: &Policy, option: &str, name: &str) -> Result<ZoneId, String> {
    policy.zone(name).ok_or_else(|| {
        let names: Vec<&str> = policy.zones.iter().map(|zone| zone.name.as_str()).collect();
        format!("{option}: there is no zone `{name}`; there are: {}", names.join(", "))
    })
}

fn service(question: &Question) -> Result<(u8, u16), String> {
    let protocol = match question.proto.as_str() {
        "tcp" => TCP,
        "udp" => UDP,
        "sctp" => SCTP,
        "icmp" => ICMP,
        "icmpv6" => ICMPV6,
        other => other.parse().map_err(|_| {
            format!("--proto {other}: write tcp, udp, sctp, icmp, icmpv6, or a protocol's number (0 to 255)")
        })?,
    };
    let has_ports = has_ports(protocol);
    let is_icmp = matches!(protocol, ICMP | ICMPV6);
    if question.dport.is_some() && !has_ports {
        return Err(format!("--proto {} has no ports: leave --dport out", question.proto));
    }
    if question.icmp.is_some() && !is_icmp {
        return Err(format!("--proto {} has no ICMP type: leave --type out", question.proto));
    }
    match (&question.icmp, question.dport) {
        (Some(written), _) => icmp_selector(protocol, written).map(|selector| (protocol, selector)),
        (None, Some(port)) => Ok((protocol, port)),
        (None, None) if has_ports => Err(format!("--proto {} needs --dport", question.proto)),
        (None, None) if is_icmp => {
            Err(format!("--proto {} needs --type, such as --type echo-request", question.proto))
        }
        (None, None) => Ok((protocol, 0)),
    }
}

/// The type and code as the language writes them; a type without a code is taken with code 0.
fn icmp_selector(protocol: u8, written: &str) -> Result<u16, String> {
    let name = if protocol == ICMP { "icmp" } else { "icmpv6" };
    let set = ServiceSet::parse(&format!("{name}/{written}"))
        .map_err(|(message, help)| format!("--type {written}: {message}; {}", help.unwrap_or_default()))?;
    let keys = set.parts().first().and_then(|part| part.keys.ranges().first()).copied();
    match keys.unwrap_or_default() {
        (first, last) if last - first > 0xff => {
            Err(format!("--type {written}: a packet has one type, and not several"))
        }
        (first, _) => Ok(first as u16),
    }
}

/// A list decides before any rule is asked.
fn show_list(question: &Question, policy: &Policy, packet: &Packet, at: Timestamp, by: Refusing, json: bool) {
    let list = &policy.lists[by.list];
    let line = policy.text[..list.span.start].matches('\n').count() + 1;
    let scanned = Scanned::of(policy, packet, Action::Deny);
    if json {
        let list = json!({ "name": list.name, "line": line, "address": by.address, "is_on_it": by.is_on_it });
        let packet = packet_json(policy, packet);
        let answer = json!({
            "action": "deny", "rule": null, "list": list, "packet": packet, "at": at.to_string(), "passed_over": [],
            "scans": scanned.map(Scanned::to_json),
        });
        outln!("{answer:#}");
        return;
    }
    print_packet(question, policy, packet, at);
    let why = if by.is_on_it { "is on" } else { "is not on" };
    outln!(
        "deny: {} {why} the list `{}` ({}:{line}), before any rule is asked",
        by.address,
        list.name,
        policy.file
    );
    scanned.iter().flat_map(|it| it.lines()).for_each(|line| outln!("{line}"));
}

/// The addresses decide before any rule is asked.
fn show_misfit(
    question: &Question,
    policy: &Policy,
    packet: &Packet,
    at: Timestamp,
    why: Misfit,
    json: bool,
) {
    let words = why.words(packet);
    if json {
        let answer = json!({
            "action": "deny", "rule": null, "reason": why.name(), "why": words, "packet": packet_json(policy, packet),
            "at": at.to_string(), "passed_over": [],
        });
        outln!("{answer:#}");
        return;
    }
    print_packet(question, policy, packet, at);
    outln!("deny: {words}: it is dropped as {}, before any rule is asked", why.name());
}

fn print_packet(question: &Question, policy: &Policy, packet: &Packet, at: Timestamp) {
    let zone = |id: ZoneId| &policy.zones[usize::from(id)].name;
    outln!(
        "{} from {} to {}, {}, in zone {} to zone {}, at {at}",
        packet.service_words(),
        packet.source,
        packet.destination,
        if packet.source.is_ipv4() { "IPv4" } else { "IPv6" },
        zone(packet.from),
        zone(packet.to),
    );
    let asks_for_ports = policy.rules.iter().any(|rule| rule.service.asks_for_source_ports());
    if question.sport.is_none() && has_ports(packet.protocol) && asks_for_ports {
        outln!("(from port {DRAWN_PORT}, because --sport names none and some rules ask for source ports)");
    }
}

/// The lists on which a rule finds an end that it does not name otherwise; for the source and for the destination.
fn found_on<'p>(policy: &'p Policy, rule: usize, packet: &Packet, on: OnLists) -> [Option<&'p str>; 2] {
    let rule = &policy.rules[rule];
    let ends = [
        (rule.source.contains(packet.source), rule.source_lists & on.source),
        (rule.destination.contains(packet.destination), rule.destination_lists & on.destination),
    ];
    ends.map(|(is_named, lists)| {
        let first = (!is_named && lists != 0).then(|| lists.trailing_zeros() as usize)?;
        Some(policy.lists[first].name.as_str())
    })
}

/// `is_dropped`: whatever the rules say; why stands below.
fn print(
    question: &Question,
    policy: &Policy,
    packet: &Packet,
    on: OnLists,
    at: Timestamp,
    explanation: &Explanation,
    is_dropped: bool,
) {
    let zone = |id: ZoneId| &policy.zones[usize::from(id)].name;
    print_packet(question, policy, packet, at);
    for (i, why) in &explanation.passed_over {
        let rule = &policy.rules[*i];
        outln!("  not `{}`: {}", rule.name, why.words(policy, rule, packet));
    }
    let action = explanation.verdict.action.name();
    let overruled = is_dropped && explanation.verdict.action == Action::Allow;
    match explanation.verdict.decider {
        Decider::Rule(i) => {
            let (line, name) = (line(policy, i), &policy.rules[i].name);
            if overruled {
                outln!("deny: although the rule `{name}` ({}:{line}) allows it", policy.file);
                return;
            }
            outln!("{action}: by the rule `{name}` ({}:{line})", policy.file);
            let ends = [packet.source, packet.destination];
            for (list, address) in found_on(policy, i, packet, on).into_iter().zip(ends) {
                if let Some(list) = list {
                    outln!("  {address} is on the list `{list}`");
                }
            }
            if let Some(gateway) = gateway_of(policy, i) {
                outln!("  the gateway `{gateway}` takes it, and asks the server itself");
            }
        }
        Decider::Default if overruled => {
            outln!(
                "deny: although no rule matches, and the default from {} to {} allows it",
                zone(packet.from),
                zone(packet.to)
            );
        }
        Decider::Default => {
            outln!(
                "{action}: no rule matches, and that is the default from {} to {}",
                zone(packet.from),
                zone(packet.to)
            );
        }
    }
}

/// The transparent gateway that a rule hands its flows to.
fn gateway_of(policy: &Policy, rule: usize) -> Option<&str> {
    policy.rules[rule].effect.gateway.map(|place| policy.gateways[place].name.as_str())
}

/// The line that names a rule.
fn line(policy: &Policy, rule: usize) -> usize {
    policy.text[..policy.rules[rule].span.start].matches('\n').count() + 1
}

fn packet_json(policy: &Policy, packet: &Packet) -> Value {
    let zone = |id: ZoneId| &policy.zones[usize::from(id)].name;
    json!({
        "from": zone(packet.from), "to": zone(packet.to), "source": packet.source, "destination": packet.destination,
        "service": packet.service_words(),
        "source_port": has_ports(packet.protocol).then_some(packet.source_port),
    })
}

fn to_json(policy: &Policy, packet: &Packet, on: OnLists, at: Timestamp, explanation: &Explanation) -> Value {
    let rule = match explanation.verdict.decider {
        Decider::Rule(i) => {
            let [source, destination] = found_on(policy, i, packet, on);
            json!({
                "name": policy.rules[i].name, "line": line(policy, i), "source_list": source, "destination_list": destination,
                "gateway": gateway_of(policy, i),
            })
        }
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
        "packet": packet_json(policy, packet),
        "at": at.to_string(),
        "passed_over": passed_over,
    })
}
