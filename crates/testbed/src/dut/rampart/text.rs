//! A policy of a test in the firewall's own language, as its users write it.

use super::super::sets::{Set, sets_of};
use super::gateway;
use crate::layout::ZonePort;
use crate::policy::{Action, PolicySpec, Protocol, Rule};
use crate::tables::with_room;
use measure::shape::EventLog;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

/// Flows that the table holds by itself: the firewall's own default.
const FLOWS: u64 = 1_048_576;
/// Of these, one in so many may be half-open.
const PER_HALF_OPEN: u64 = 4;

/// Requests are recorded as they come, not as many as a policy usually wants.
const EVERY_EVENT: &str = "log_rate = 1000000\n";

/// By what packets come from one zone to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Means {
    /// Rampart routes them.
    Routes,
    /// Rampart's bridge carries them.
    Bridge,
    /// The kernel routes them.
    Kernel,
    /// Rampart routes them, and its gateways take HTTP and FTP.
    Gateway,
}

/// The whole policy, and who forwards. Zones are those of `ports`; every rule is for all of them, as in the other firewalls.
pub(super) fn render(policy: &PolicySpec, ports: &[ZonePort], means: Means) -> String {
    let forwarding = if means == Means::Kernel { "kernel" } else { "fast" };
    let flows = FLOWS.max(with_room(policy.connections.into()));
    let half_open = flows / PER_HALF_OPEN;
    let mut text =
        // Most of the bench's flows of UDP have one direction only.
        format!("[settings]\nforwarding = \"{forwarding}\"\nflows = {flows}\nhalf_open = {half_open}\nunanswered = {flows}\n");
    if policy.shape.gateway.event_log != EventLog::None {
        text += EVERY_EVENT;
    }
    text.push('\n');
    let device =
        |port: &ZonePort| port.firewall.as_ref().map_or(String::new(), |end| format!("\"{}\"", end.device));
    for port in ports {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "[zones.{}]\ninterfaces = [{}]\n", port.zone.name(), device(port));
    }
    if means == Means::Bridge {
        let devices: Vec<String> = ports.iter().map(device).collect();
        let _ = writeln!(text, "[bridges.zones]\ninterfaces = [{}]\n", devices.join(", "));
    }
    for set in sets_of(policy) {
        add_list(&mut text, &set);
    }
    if !policy.has_rules() {
        if means == Means::Gateway {
            gateway::hand_over(&mut text, "all", "", |_| true);
        }
        text += "[[defaults]]\nfrom = \"any\"\nto = \"any\"\naction = \"allow\"\n";
    }
    for (number, rule) in policy.rules.iter().enumerate() {
        if means == Means::Gateway && may_be_handed_over(rule) {
            gateway::hand_over(&mut text, &format!("r{}", number + 1), &ends(rule), |port| {
                passes(rule, port)
            });
        }
        add_rule(&mut text, number + 1, rule);
    }
    if means == Means::Gateway {
        gateway::add(&mut text, policy);
    }
    text
}

/// The bench's sets are of IPv4 and say nothing about IPv6.
fn add_list(text: &mut String, set: &Set) {
    let binding = match set {
        Set::List(_) => "block = \"both\"",
        Set::Countries(_) => "entries = \"::/0\"\nrequire = \"both\"",
    };
    let _ = writeln!(text, "[lists.{}]\nfile = \"{}\"\n{binding}\n", set.name(), set_file(set));
}

/// The file of a set, beside that of the policy.
pub(super) fn set_file(set: &Set) -> String {
    format!("{}.txt", set.name())
}

/// Writes an element a line.
pub(super) fn write_set(set: &Set, file: &Path) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    set.elements().try_for_each(|element| writeln!(out, "{element}"))?;
    out.flush()
}

fn add_rule(text: &mut String, number: usize, rule: &Rule) {
    let action = word(rule.action);
    let _ = writeln!(
        text,
        "[[rules]]\nname = \"r{number}\"\nfrom = \"any\"\nto = \"any\"\n{}service = {}\n{}action = \"{action}\"\n",
        ends(rule),
        service(rule),
        rule.source_ports.map_or_else(String::new, |ports| format!("source_port = \"{}\"\n", range(ports)))
    );
}

pub(super) const fn word(action: Action) -> &'static str {
    match action {
        Action::Accept => "allow",
        Action::Drop => "deny",
    }
}

fn ends(rule: &Rule) -> String {
    let (source, destination) = (&rule.source, &rule.destination);
    format!(
        "source = [\"{}\", \"{}\"]\ndestination = [\"{}\", \"{}\"]\n",
        source.v4, source.v6, destination.v4, destination.v6
    )
}

/// Whether a rule lets connections pass.
fn may_be_handed_over(rule: &Rule) -> bool {
    rule.action == Action::Accept && matches!(rule.protocol, Protocol::Tcp | Protocol::Any)
}

fn passes(rule: &Rule, port: u16) -> bool {
    rule.destination_ports.is_none_or(|(low, high)| (low..=high).contains(&port))
}

fn service(rule: &Rule) -> String {
    let protocol = match rule.protocol {
        Protocol::Udp => "udp",
        Protocol::Tcp => "tcp",
        Protocol::Icmp => return "[\"icmp\", \"icmpv6\"]".to_owned(),
        Protocol::Any => return "\"any\"".to_owned(),
    };
    match rule.destination_ports {
        None => format!("\"{protocol}\""),
        Some(ports) => format!("\"{protocol}/{}\"", range(ports)),
    }
}

pub(super) fn range((low, high): (u16, u16)) -> String {
    if low == high { low.to_string() } else { format!("{low}-{high}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::shape::{GatewayShape, PolicyShape, ZoneForm};

    #[test]
    fn a_small_policy_reads_as_a_practitioner_writes_it() {
        let shape =
            PolicyShape { rules: 2, match_position: 2, stateful: true, ..PolicyShape::forward_everything(1) };
        let policy = PolicySpec::generate(&shape, ZoneForm::Two).unwrap();
        let text = render(&policy, &[], Means::Routes);
        let rule = "name = \"r2\"\nfrom = \"any\"\nto = \"any\"\nsource = [\"198.18.0.0/16\", \"2001:2:0:1::/64\"]\n\
                    destination = [\"198.19.0.0/17\", \"2001:2:0:2::/64\"]\nservice = \"udp/1-49151\"\n\
                    action = \"allow\"";
        assert!(text.contains(rule), "{text}");
        assert!(text.find("r1") < text.find("r2") && !text.contains("[[defaults]]"), "{text}");
        let many = render(&PolicySpec { connections: 4_000_000, ..policy }, &[], Means::Routes);
        assert!(text.contains("flows = 1048576\n") && many.contains("flows = 4400000\n"), "{many}");
        let sets = PolicyShape { listed_addresses: 6, lists: 2, allowed_subnets: 12, ..shape.clone() };
        let listed = render(&PolicySpec::generate(&sets, ZoneForm::Two).unwrap(), &[], Means::Routes);
        for list in [
            "[lists.listed_2]\nfile = \"listed_2.txt\"\nblock = \"both\"\n",
            "[lists.countries]\nfile = \"countries.txt\"\nentries = \"::/0\"\nrequire = \"both\"\n",
        ] {
            assert!(listed.contains(list), "{listed}");
        }
        let family = rule_sets::Family::named("fw1");
        let family = PolicyShape { rules: 300, match_position: 300, rule_family: family, ..shape };
        let family = render(&PolicySpec::generate(&family, ZoneForm::Two).unwrap(), &[], Means::Routes);
        for part in [
            "service = \"any\"\naction",
            "source_port = \"1024-65535\"\naction",
            "source = [\"0.0.0.0/0\", \"::/0\"]\n",
        ] {
            assert!(family.contains(part), "{part} is not in\n{family}");
        }
        let open = render(&PolicySpec::forward_everything(ZoneForm::Two), &[], Means::Routes);
        assert!(open.contains("[[defaults]]") && !open.contains("[[rules]]"), "{open}");
    }

    #[test]
    fn gateways_have_the_rules_of_the_policy_and_what_the_test_asks_of_them() {
        let all = GatewayShape {
            look_ups: true,
            keeps_decisions: false,
            event_log: EventLog::Memory,
            ..GatewayShape::USUAL
        };
        let of = |rules, gateway| {
            let shape = PolicyShape {
                rules,
                match_position: rules,
                stateful: rules > 0,
                protocol: measure::shape::TestProtocol::Tcp,
                gateway,
                ..PolicyShape::forward_everything(1)
            };
            render(&PolicySpec::generate(&shape, ZoneForm::Two).unwrap(), &[], Means::Gateway)
        };
        let (usual, asked, open) = (of(40, GatewayShape::USUAL), of(40, all), of(0, GatewayShape::USUAL));
        let of_40 = ("[[gateways.web.rules]]", 40);
        let passes =
            "name = \"r40\"\naction = \"allow\"\nsource = [\"198.18.0.0/16\", \"2001:2:0:1::/64\"]\n";
        let rows = [
            (&usual, of_40),
            (&usual, ("[[gateways.files.rules]]", 40)),
            (&usual, ("hosts = \"host-39.example.net\"", 1)),
            (&usual, (passes, 2)),
            (&usual, ("look_up = false\ndecisions = \"1min\"\n", 1)),
            (&usual, ("log", 0)),
            (&usual, ("name = \"r40-http\"\n", 1)),
            (&usual, ("service = [\"tcp/80\"]\naction = \"allow\"\ngateway = \"web\"", 2)),
            (
                &usual,
                ("service = [\"tcp/21\", \"tcp/36000-36999\"]\naction = \"allow\"\ngateway = \"files\"", 1),
            ),
            (&asked, of_40),
            (&asked, ("resolvers = [\"198.19.0.2\"]\ndecisions = \"off\"\n", 1)),
            (&asked, ("look_up", 0)),
            (&asked, ("log = true\n", 80)),
            (&asked, ("log_rate = 1000000\n", 1)),
            (&open, ("[[gateways.web.rules]]\nname = \"all\"\naction = \"allow\"\n", 1)),
            (&open, ("gateway = \"files\"", 1)),
        ];
        for (text, (part, times)) in rows {
            assert_eq!(text.matches(part).count(), times, "{part} in\n{text}");
        }
    }
}
