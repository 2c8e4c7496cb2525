//! Warnings: rows of small policies, and the exactness of "never decides" against every kind of packet there is.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod random;

use policy::ends::misfit;
use policy::interpret::{Decider, Packet, decide, decide_listed, mismatch};
use policy::lists::OnLists;
use policy::model::Rule;
use policy::ranges::{Point, RangeSet};
use policy::{Policy, Warning, WarningKind};
use proptest::prelude::*;
use random::{Choices, bytes, contents, listed_policy_text, packet, policy_text};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

/// Rules in short: name, from and to, source, destination, service, schedule, action.
fn warnings(rules: &[[&str; 7]]) -> Vec<(String, WarningKind, Vec<String>)> {
    let mut text = String::from(
        "[zones]\nin = { interfaces = \"e1\" }\nout = { interfaces = \"e0\" }\n\
         [schedules]\nday = { times = \"daily 08:00-18:00\", time_zone = \"UTC\" }\n\
         noon = { times = \"daily 12:00-13:00\", time_zone = \"UTC\" }\n\
         night = { times = \"daily 18:00-08:00\", time_zone = \"UTC\" }\n\
         sundays-of-a-monday = { times = \"sun\", time_zone = \"UTC\", from = 2026-11-23, until = 2026-11-23 }\n",
    );
    for [name, zones, source, destination, service, schedule, action] in rules {
        let (from, to) = zones.split_once('>').unwrap();
        text += &format!(
            "[[rules]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nsource = [{source}]\ndestination = [{destination}]\n\
             service = [{service}]\nschedule = \"{schedule}\"\naction = \"{action}\"\n"
        )
        .replace('\'', "\"");
    }
    let policy = Policy::parse("w.toml", &text).unwrap_or_else(|problems| panic!("{problems}"));
    let of_rules = policy.warnings().into_iter().filter_map(|w| Some((w.rule?, w.kind, w.by)));
    of_rules.collect()
}

const ANY: &str = "'any'";

#[test]
fn rules_that_never_decide() {
    let r = |name, zones, source, destination, service, schedule, action| {
        [name, zones, source, destination, service, schedule, action]
    };
    let a = |name, source, action| r(name, "in>out", source, ANY, ANY, "always", action);
    let t = |name, schedule, action| r(name, "in>out", ANY, ANY, ANY, schedule, action);
    let s = |name, service, action| r(name, "in>out", ANY, ANY, service, "always", action);
    type Expected<'e> = Option<(&'e str, WarningKind, &'e [&'e str])>;
    let rows: Vec<(&str, Vec<[&str; 7]>, Expected<'_>)> = vec![
        ("apart", vec![a("x", "'10.0.0.1'", "allow"), a("y", "'10.0.0.2'", "deny")], None),
        ("an exception first", vec![a("x", "'10.0.0.1'", "deny"), a("y", "'10.0.0.0/8'", "allow")], None),
        (
            "the exception too late",
            vec![a("y", "'10.0.0.0/8'", "allow"), a("x", "'10.0.0.1'", "deny")],
            Some(("x", WarningKind::Shadowed, &["y"])),
        ),
        (
            "an address that no host has, where every one is meant",
            vec![r("x", "in>out", ANY, "'0.0.0.0'", ANY, "always", "allow")],
            Some(("x", WarningKind::Unreachable, &[])),
        ),
        (
            "a source that no host has, with a destination of either family",
            vec![a("x", "'127.0.0.0/8', '224.0.0.0/4', '::/96', 'ff00::/8'", "deny")],
            Some(("x", WarningKind::Unreachable, &[])),
        ),
        ("some hosts among them", vec![a("x", "'127.0.0.0/8', '10.0.0.1'", "deny")], None),
        (
            "a link's addresses across the firewall",
            vec![a("x", "'169.254.0.0/16'", "allow")],
            Some(("x", WarningKind::Unreachable, &[])),
        ),
        (
            "a link's addresses to the firewall itself",
            vec![r("x", "in>self", "'169.254.0.0/16', 'fe80::/10'", ANY, ANY, "always", "allow")],
            None,
        ),
        ("who asks for an address", vec![a("x", "'0.0.0.0'", "allow")], None),
        (
            "everybody on a link",
            vec![r("x", "in>self", ANY, "'255.255.255.255', '224.0.0.1'", ANY, "always", "allow")],
            None,
        ),
        (
            "an exception before the rule that has all",
            vec![
                a("d", "'10.0.0.1'", "deny"),
                a("y", "'10.0.0.0/8'", "allow"),
                a("x", "'10.0.0.0/16'", "allow"),
            ],
            Some(("x", WarningKind::Shadowed, &["d", "y"])),
        ),
        (
            "the same action before",
            vec![a("y", "'10.0.0.0/8'", "allow"), a("x", "'10.0.0.1'", "allow")],
            Some(("x", WarningKind::Redundant, &["y"])),
        ),
        (
            "the same action after",
            vec![a("x", "'10.0.0.1'", "allow"), a("y", "'10.0.0.0/8'", "allow")],
            Some(("x", WarningKind::Redundant, &["y"])),
        ),
        (
            "another action between",
            vec![
                a("x", "'10.0.0.1'", "allow"),
                a("z", "'10.0.0.0/24'", "deny"),
                a("y", "'10.0.0.0/8'", "allow"),
            ],
            None,
        ),
        (
            "two halves",
            vec![
                a("l", "'0.0.0.0/1'", "deny"),
                a("h", "'128.0.0.0/1'", "deny"),
                a("x", "'0.0.0.0/0'", "allow"),
            ],
            Some(("x", WarningKind::Shadowed, &["l", "h"])),
        ),
        (
            "two halves but one address",
            vec![
                a("l", "'0.0.0.0/1'", "deny"),
                a("h", "'128.0.0.0-255.255.255.254'", "deny"),
                a("x", "'0.0.0.0/0'", "allow"),
            ],
            None,
        ),
        (
            "every IPv4 address is not every address",
            vec![a("l", "'0.0.0.0/0'", "deny"), a("x", ANY, "allow")],
            None,
        ),
        (
            "both families",
            vec![a("l", "'0.0.0.0/0'", "deny"), a("m", "'::/0'", "deny"), a("x", ANY, "allow")],
            Some(("x", WarningKind::Shadowed, &["l", "m"])),
        ),
        (
            "services in parts",
            vec![
                s("t", "'tcp/0-1023'", "deny"),
                s("u", "'tcp/1024-65535'", "deny"),
                s("x", "'tcp'", "allow"),
            ],
            Some(("x", WarningKind::Shadowed, &["t", "u"])),
        ),
        ("another service left", vec![s("t", "'tcp'", "deny"), s("x", "'tcp', 'udp'", "allow")], None),
        (
            "day and night are always",
            vec![t("d", "day", "deny"), t("n", "night", "deny"), t("x", "always", "allow")],
            Some(("x", WarningKind::Shadowed, &["d", "n"])),
        ),
        (
            "noon is by day",
            vec![t("d", "day", "deny"), t("x", "noon", "allow")],
            Some(("x", WarningKind::Shadowed, &["d"])),
        ),
        ("noon is not at night", vec![t("n", "night", "deny"), t("x", "noon", "allow")], None),
        ("never", vec![t("x", "sundays-of-a-monday", "allow")], Some(("x", WarningKind::Unreachable, &[]))),
        (
            "two families",
            vec![r("x", "in>out", "'10.0.0.1'", "'2001:db8::1'", ANY, "always", "allow")],
            Some(("x", WarningKind::Unreachable, &[])),
        ),
        (
            "zones in parts",
            vec![
                r("f", "in>any", ANY, ANY, ANY, "always", "deny"),
                r("g", "out>any", ANY, ANY, ANY, "always", "allow"),
                r("x", "any>any", ANY, ANY, ANY, "always", "allow"),
            ],
            Some(("x", WarningKind::Shadowed, &["f", "g"])),
        ),
        (
            "self is not any",
            vec![
                r("f", "any>any", ANY, ANY, ANY, "always", "deny"),
                r("x", "in>self", ANY, ANY, ANY, "always", "allow"),
            ],
            None,
        ),
        (
            "two fields together",
            vec![
                r("p", "in>out", "'10.0.0.0/9'", ANY, "'tcp'", "always", "deny"),
                r("q", "in>out", "'10.128.0.0/9'", "'0.0.0.0/1'", "'tcp'", "always", "deny"),
                r("r", "in>out", ANY, "'128.0.0.0/1'", "'tcp'", "always", "reject"),
                r("x", "in>out", "'10.0.0.0/8'", "'0.0.0.0/0'", "'tcp/80'", "always", "allow"),
            ],
            Some(("x", WarningKind::Shadowed, &["p", "q", "r"])),
        ),
    ];
    for (what, rules, expected) in rows {
        let found = warnings(&rules);
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(rule, kind, by)| {
                (rule.to_owned(), kind, by.iter().map(|b| (*b).to_owned()).collect::<Vec<_>>())
            })
            .collect();
        assert_eq!(found, expected, "{what}");
    }
}

/// More classes than are looked at one by one.
#[test]
fn many_rules_together_take_a_network() {
    let hosts: Vec<(String, String)> = (0..256).map(|i| (format!("h{i}"), format!("'10.0.0.{i}'"))).collect();
    let mut rules: Vec<[&str; 7]> = hosts
        .iter()
        .map(|(name, host)| [name.as_str(), "in>out", host.as_str(), ANY, ANY, "always", "deny"])
        .collect();
    rules.push(["x", "in>out", "'10.0.0.0/24'", "'0.0.0.0/0'", "'tcp'", "always", "allow"]);
    let [(rule, kind, by)] = &warnings(&rules)[..] else { panic!("one warning") };
    assert_eq!((rule.as_str(), *kind, by.len()), ("x", WarningKind::Shadowed, 256));
    rules.remove(77);
    assert_eq!(warnings(&rules), []);
}

#[test]
fn what_nothing_uses_is_reported() {
    let text = "[zones]\na = { interfaces = \"e0\" }\n[objects]\nx = \"10.0.0.1\"\ny = [\"x\"]\n\
                [services]\nw = \"tcp/1\"\n[schedules]\ns = { times = \"daily\", time_zone = \"UTC\" }\n\
                [countries]\nfile = \"c\"\n\
                [gateways.g]\nprotocol = \"http\"\nlisten = \"10.0.0.1:3128\"\nusers_file = \"u\"\n\
                rules = [{ name = \"r\", action = \"allow\" }]\n";
    let policy = Policy::parse("u.toml", text).unwrap();
    let messages: Vec<String> = policy.warnings().iter().map(|w| w.problem.to_string()).collect();
    assert_eq!(
        messages,
        [
            "u.toml:5:1: nothing uses the object `y`",
            "u.toml:7:1: nothing uses the service `w`",
            "u.toml:9:1: nothing uses the schedule `s`",
            "u.toml:10:1: nothing uses `[countries]`: no rule names a country, such as \"country:CH\"",
            "u.toml:15:1: nothing uses `users_file` of the gateway `g`: none of its rules has `users`, so nobody has to log in"
        ]
    );
}

/// Moments with every combination of the schedules of random policies.
const ALL_MOMENTS: [&str; 6] = [
    "2026-06-17T10:00:00Z",
    "2026-06-17T22:00:00Z",
    "2026-12-16T10:00:00Z",
    "2026-12-16T22:00:00Z",
    "2026-06-20T10:00:00Z",
    "2026-12-19T10:00:00Z",
];

/// A value of each region that the boundaries of some sets make.
fn representatives<'s, T: Point + 's>(sets: impl Iterator<Item = &'s RangeSet<T>>) -> BTreeSet<T> {
    let ranges = sets.flat_map(|set| set.ranges());
    ranges.flat_map(|(first, last)| [Some(*first), last.next()]).flatten().chain([T::MIN]).collect()
}

/// One packet of each kind that any rule tells apart.
fn every_kind(policy: &Policy) -> Vec<Packet> {
    let rules = &policy.rules;
    let mut addresses: Vec<(Vec<IpAddr>, Vec<IpAddr>)> = Vec::new();
    let v4 = |set: BTreeSet<u32>| set.into_iter().map(|a| IpAddr::V4(a.into())).collect();
    let v6 = |set: BTreeSet<u128>| set.into_iter().map(|a| IpAddr::V6(a.into())).collect();
    addresses.push((
        v4(representatives(rules.iter().map(|r| &r.source.v4))),
        v4(representatives(rules.iter().map(|r| &r.destination.v4))),
    ));
    addresses.push((
        v6(representatives(rules.iter().map(|r| &r.source.v6))),
        v6(representatives(rules.iter().map(|r| &r.destination.v6))),
    ));
    let parts = || rules.iter().flat_map(|r| r.service.parts());
    let services = representatives(parts().map(|part| &*part.keys));
    let ports = representatives(parts().map(|part| &*part.source_ports));
    let ports: Vec<u16> = ports.into_iter().filter_map(|port| u16::try_from(port).ok()).collect();
    let zones = policy.zones.len() as u8;
    let mut packets = Vec::new();
    for (sources, destinations) in &addresses {
        for source in sources {
            for destination in destinations {
                for key in services.iter().filter(|key| **key <= policy::service::LAST_KEY) {
                    for pair in 1..zones * zones {
                        let (protocol, selector) = ((key >> 16) as u8, *key as u16);
                        let (from, to) = (pair / zones, pair % zones);
                        packets.extend(ports.iter().map(|&source_port| Packet {
                            from,
                            to,
                            source: *source,
                            destination: *destination,
                            source_port,
                            protocol,
                            selector,
                        }));
                    }
                }
            }
        }
    }
    packets
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn never_decides_means_exactly_that(choices in proptest::collection::vec(any::<u8>(), 0..200), rules in 0usize..7) {
        let text = policy_text(&mut Choices(&choices), rules);
        let policy = Policy::parse("random", &text).unwrap();
        let warnings = policy.warnings();
        let packets = every_kind(&policy);
        prop_assume!(packets.len() < 60_000);
        let mut decides = vec![false; policy.rules.len()];
        let mut contradicted = vec![false; policy.rules.len()];
        for moment in ALL_MOMENTS {
            let at = moment.parse().unwrap();
            for packet in &packets {
                if let Decider::Rule(i) = decide(&policy, packet, at).decider {
                    decides[i] = true;
                    let action = policy.rules[i].effect.action;
                    let later = policy.rules.iter().enumerate().skip(i + 1);
                    let other = later.filter(|(_, rule)| rule.effect.action != action);
                    other
                        .filter(|(_, rule)| mismatch(&policy, rule, packet, OnLists::default(), at).is_none())
                        .for_each(|(place, _)| contradicted[place] = true);
                }
            }
        }
        for (i, rule) in policy.rules.iter().enumerate().filter(|(_, rule)| rule.enabled) {
            let place = |name: &str| policy.rules.iter().position(|r| r.name == name).unwrap();
            let warning = warnings.iter().find(|w| w.rule.as_ref() == Some(&rule.name));
            // Rules would match its packets; they are not asked.
            let is_dropped_anyway = is_unreachable(warning) && decides[i];
            prop_assert!(!is_dropped_anyway || is_nowhere(&policy, rule), "{} {:?}\n{}", rule.name, warning, text);
            let dead = !is_dropped_anyway && warning.is_some_and(|w| w.by.iter().all(|by| place(by) < i));
            prop_assert_eq!(dead, !decides[i], "{} {:?}\n{}", rule.name, warning, text);
            // As the guide defines it: earlier rules do something else with some of its packets.
            let shadowed = warning.is_some_and(|w| w.kind == WarningKind::Shadowed);
            prop_assert_eq!(shadowed, dead && contradicted[i] && !is_unreachable(warning), "{} {:?}\n{}", rule.name, warning, text);
            if warning.is_some_and(|w| w.kind == WarningKind::Redundant) {
                unchanged_without(&policy, &[i], &packets)?;
            }
        }
        let named: Vec<usize> = (0..policy.rules.len())
            .filter(|i| warnings.iter().any(|w| w.rule.as_ref() == Some(&policy.rules[*i].name)))
            .collect();
        unchanged_without(&policy, &named, &packets)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// What is on a list is not known, so a rule that names one never stands in for another.
    #[test]
    fn without_rules_that_never_decide_nothing_changes_whatever_is_on_the_lists(
        choices in proptest::collection::vec(any::<u8>(), 0..200), rules in 0usize..8, seed: u64
    ) {
        let text = listed_policy_text(&mut Choices(&choices), rules);
        let policy = Policy::parse("random", &text).unwrap();
        let warnings = policy.warnings();
        let named = |name: &str| warnings.iter().any(|w| w.rule.as_deref() == Some(name));
        let mut without = policy.clone();
        without.rules.retain(|rule| !named(&rule.name));
        let sets = contents(&policy);
        for chunk in bytes(seed, 300 * 16).chunks(16) {
            let packet = packet(&mut Choices(chunk), &policy);
            if misfit(&policy, &packet).is_some() {
                continue;
            }
            let on = OnLists::of(&sets, packet.source, packet.destination);
            for on in [on, OnLists::default(), OnLists { source: !0, destination: !0 }, OnLists { source: 2, destination: 5 }] {
                for moment in ALL_MOMENTS {
                    let at = moment.parse().unwrap();
                    let (before, after) = (decide_listed(&policy, &packet, on, at), decide_listed(&without, &packet, on, at));
                    prop_assert_eq!(before.action, after.action, "{:?} {:?} without {:?}\n{}", packet, on, warnings, text);
                }
            }
        }
    }
}

fn is_unreachable(warning: Option<&Warning>) -> bool {
    warning.is_some_and(|w| w.kind == WarningKind::Unreachable)
}

/// Whether all addresses of a rule's source, or of its destination, are those of packets that are dropped: asked of the ends of their ranges.
fn is_nowhere(policy: &Policy, rule: &Rule) -> bool {
    let mut alone = policy.clone();
    alone.rules = vec![rule.clone()];
    let packets = every_kind(&alone);
    let matching = packets.iter().filter(|packet| {
        ALL_MOMENTS
            .iter()
            .any(|at| mismatch(policy, rule, packet, OnLists::default(), at.parse().unwrap()).is_none())
    });
    matching.into_iter().all(|packet| misfit(policy, packet).is_some())
}

/// Taking out what a warning says can be taken out, one rule or all of them, changes no verdict.
fn unchanged_without(policy: &Policy, rules: &[usize], packets: &[Packet]) -> Result<(), TestCaseError> {
    let mut without = policy.clone();
    rules.iter().rev().for_each(|rule| drop(without.rules.remove(*rule)));
    for moment in ALL_MOMENTS {
        let at = moment.parse().unwrap();
        for packet in packets.iter().filter(|packet| misfit(policy, packet).is_none()) {
            let (before, after) = (decide(policy, packet, at).action, decide(&without, packet, at).action);
            prop_assert_eq!(before, after, "{:?} without {:?}", packet, rules);
        }
    }
    Ok(())
}

/// Its addresses alone are of another family than its destination; what is on the list may not be.
#[test]
fn a_rule_with_a_list_beside_addresses_that_cannot_be_is_no_rule_that_cannot_be() {
    let text = "[zones]\na = { interfaces = 'e0' }\n[lists.l]\nfile = 'x'\n[[rules]]\nname = 'r'\nfrom = 'a'\nto = 'self'\n\
         source = ['10.0.0.0/8', 'list:l']\ndestination = '2001:db8::1'\naction = 'allow'\n";
    assert_eq!(Policy::parse("p.toml", text).unwrap().warnings(), []);
    let without = Policy::parse(
        "p.toml",
        &text.replace(", 'list:l'", "").replace("file = 'x'", "file = 'x'\nblock = 'both'"),
    )
    .unwrap();
    assert_eq!(without.warnings().len(), 1, "without the list it is");
}

#[test]
fn translations_that_never_decide() {
    let entry = |name: &str, rest: &str| format!("[[nat]]\nname = '{name}'\nfrom = 'in'\n{rest}\n");
    let lan = |name: &str, source: &str| {
        entry(name, &format!("to = 'out'\nsource = '{source}'\nmasquerade = true"))
    };
    let port = |name: &str, service: &str| {
        entry(
            name,
            &format!("destination = '192.0.2.1'\nservice = '{service}'\ndestination_to = '10.0.0.1:80'"),
        )
    };
    let kept = entry("kept", "exempt = true");
    for (entries, expected) in [
        (vec![lan("a", "10.0.0.0/8"), lan("b", "10.1.0.0/16")], &[("b", "a")][..]),
        (vec![lan("a", "10.1.0.0/16"), lan("b", "10.0.0.0/8")], &[]),
        (vec![port("a", "tcp/1-9"), port("b", "tcp/9")], &[("b", "a")]),
        (vec![port("a", "tcp/1-9"), port("b", "tcp/10")], &[]),
        // The one is about destinations and the other about sources.
        (vec![port("a", "tcp/1-9"), lan("b", "10.0.0.0/8")], &[]),
        (vec![kept.clone(), lan("b", "10.0.0.0/8"), port("c", "udp/5")], &[("b", "kept"), ("c", "kept")]),
        (vec![lan("a", "10.0.0.0/8"), kept], &[]),
    ] {
        let zones = "[zones]\nin = { interfaces = 'e1' }\nout = { interfaces = 'e0' }\n";
        let policy = Policy::parse("w.toml", &format!("{zones}{}", entries.concat())).unwrap();
        let found: Vec<(String, String)> = (policy.warnings().into_iter())
            .filter(|warning| warning.kind == WarningKind::Shadowed)
            .map(|warning| {
                let name = warning.problem.message.split('`').nth(1).unwrap().to_owned();
                (name, warning.by.join(","))
            })
            .collect();
        let expected: Vec<(String, String)> =
            expected.iter().map(|(name, by)| ((*name).to_owned(), (*by).to_owned())).collect();
        assert_eq!(found, expected, "{entries:?}");
    }
}

/// A collector that the firewall's own packets cannot reach.
#[test]
fn collectors_that_no_rule_lets_out() {
    let rule = |rest: &str| {
        format!(
            "[[rules]]\nname = 'r'\nfrom = 'self'\nto = 'in'\nservice = 'udp/514'\naction = 'allow'\n{rest}"
        )
    };
    let allowed = "[[defaults]]\nfrom = 'self'\nto = 'in'\naction = 'allow'\n";
    let udp = "[log]\nsyslog = 'udp://192.0.2.1:514'\n";
    for (what, log, rules, expected) in [
        ("nothing", udp, String::new(), Some("5:11")),
        ("a rule", udp, rule(""), None),
        ("to that address", udp, rule("destination = '192.0.2.0/24'"), None),
        ("to another", udp, rule("destination = '192.0.3.0/24'"), Some("5:11")),
        ("disabled", udp, rule("enabled = false"), Some("5:11")),
        ("refused", udp, rule("").replace("allow", "deny"), Some("5:11")),
        ("for others", udp, rule("").replace("'self'", "'in'"), Some("5:11")),
        ("by another protocol", "[log]\nsyslog = 'tcp://192.0.2.1:514'\n", rule(""), Some("5:11")),
        ("at another port", "[log.ipfix]\nto = 'udp://192.0.2.1:4739'\n", rule(""), Some("5:7")),
        ("by the default", "[log.ipfix]\nto = 'udp://192.0.2.1:4739'\n", allowed.to_owned(), None),
        ("on this machine", "[log]\nsyslog = 'udp://[::1]:514'\n", String::new(), None),
        (
            "once, however often it is named",
            "[log]\nsyslog = 'udp://192.0.2.1:9'\n[log.ipfix]\nto = 'udp://192.0.2.1:9'\n",
            String::new(),
            Some("5:11"),
        ),
    ] {
        let text =
            format!("[zones]\nin = {{ interfaces = 'e1' }}\nout = {{ interfaces = 'e0' }}\n{log}{rules}");
        let policy = Policy::parse("w.toml", &text).unwrap_or_else(|problems| panic!("{problems}"));
        let found: Vec<_> = policy.warnings().into_iter().filter(|w| w.kind == WarningKind::Cut).collect();
        let places: Vec<_> =
            found.iter().map(|w| format!("{}:{}", w.problem.line, w.problem.column)).collect();
        assert_eq!(places, expected.into_iter().collect::<Vec<_>>(), "{what}");
    }
}

/// What refuses a domain refuses only what is known of it.
#[test]
fn a_rule_that_refuses_a_domain_fails_open() {
    for (action, enabled, destination, expected) in [
        ("deny", true, "'domain:www.test'", true),
        ("reject", true, "['192.0.2.1', 'domain:*.test']", true),
        ("deny", true, "'ads'", true),
        ("deny", false, "'domain:www.test'", false),
        ("allow", true, "'domain:www.test'", false),
        ("deny", true, "'list:bad'", false),
    ] {
        let text = format!(
            "[zones]\nin = {{ interfaces = 'e1' }}\nout = {{ interfaces = 'e0' }}\n[objects]\nads = 'domain:ads.test'\n\
             [lists.bad]\nfile = 'x'\nblock = 'source'\n[gateways.names]\nprotocol = 'dns'\nlisten = '127.0.0.1:53'\n\
             [[gateways.names.rules]]\nname = 'all'\naction = 'allow'\n\
             [[rules]]\nname = 'r'\nfrom = 'in'\nto = 'out'\ndestination = {destination}\naction = '{action}'\nenabled = {enabled}\n"
        );
        let policy = Policy::parse("w.toml", &text).unwrap_or_else(|problems| panic!("{problems}"));
        let found = policy.warnings().into_iter().any(|it| it.kind == WarningKind::FailsOpen);
        assert_eq!(found, expected, "{action} {enabled} {destination}");
    }
    let text = "[zones]\nin = { interfaces = 'e1' }\n[domains]\ngrace = '10s'\n";
    let found = Policy::parse("w.toml", text).unwrap().warnings();
    let words: Vec<_> =
        found.iter().map(|it| (it.kind, it.problem.line, it.problem.message.as_str())).collect();
    let nothing = "nothing uses `[domains]`: no rule names a domain, such as \"domain:updates.example.net\"";
    assert_eq!(words, [(WarningKind::Unused, 3, nothing)]);
}

/// A zone's source may be anywhere but in networks that others alone have.
#[test]
fn rules_about_sources_of_other_zones_never_decide() {
    let rule = |from: &str, source: &str| {
        format!(
            "[[rules]]\nname = \"r\"\nfrom = {from}\nto = \"out\"\nsource = [{source}]\naction = \"allow\"\n"
        )
    };
    let zones = "[zones]\nlan = { interfaces = \"e1\", networks = [\"10.0.0.0/8\", \"2001:db8:1::/48\"] }\n\
                 guests = { interfaces = \"e2\", networks = \"10.9.0.0/16\" }\nout = { interfaces = \"e0\" }\n";
    let unchecked = "[settings.integrity]\nzones = false\n";
    for (what, before, from, source, expected) in [
        ("its own", "", "\"lan\"", "\"10.1.0.0/16\"", false),
        ("somebody else's", "", "\"guests\"", "\"10.1.0.0/16\"", true),
        ("somebody else's of either family", "", "\"out\"", "\"10.1.2.3\", \"2001:db8:1::7\"", true),
        ("in part", "", "\"guests\"", "\"10.1.0.0/16\", \"192.0.2.0/24\"", false),
        ("of both", "", "\"guests\"", "\"10.9.1.0/24\"", false),
        ("of one of two zones", "", "[\"guests\", \"lan\"]", "\"10.1.0.0/16\"", false),
        ("nobody's", "", "\"guests\"", "\"192.0.2.0/24\"", false),
        ("any", "", "\"out\"", "\"any\"", false),
        ("the machine's", "", "\"self\"", "\"10.1.2.3\"", false),
        ("not looked at", unchecked, "\"guests\"", "\"10.1.0.0/16\"", false),
    ] {
        let policy = Policy::parse("w.toml", &format!("{before}{zones}{}", rule(from, source))).unwrap();
        let found: Vec<_> = policy.warnings().into_iter().filter(|warning| warning.rule.is_some()).collect();
        let is_found =
            found.iter().any(|warning| warning.problem.message.contains("another zone than `from` says"));
        assert_eq!((is_found, found.len()), (expected, usize::from(expected)), "{what}: {found:?}");
    }
}

/// Thousands of rules that match the same: the work has a bound, and what was not looked at is said. Without one this would take hours.
#[test]
fn rules_that_all_match_the_same_are_looked_at_within_bounds() {
    const RULES: usize = 30_000;
    let mut text = String::from("[zones]\na = { interfaces = 'e0' }\nb = { interfaces = 'e1' }\n");
    for i in 0..RULES {
        let action = ["allow", "deny"][i % 2];
        text += &format!("[[rules]]\nname = 'r{i}'\nfrom = 'a'\nto = 'b'\naction = '{action}'\n");
    }
    let policy = Policy::parse("same", &text).unwrap();
    let warnings = policy.warnings();
    let count = |kind| warnings.iter().filter(|warning| warning.kind == kind).count();
    let (undecided, known) =
        (count(WarningKind::Undecided), count(WarningKind::Redundant) + count(WarningKind::Shadowed));
    assert_eq!(undecided, 1, "{} warnings", warnings.len());
    assert!((100..RULES).contains(&known), "{known}");
    assert!(
        warnings[0].problem.message.contains("rules above it ever decide is not known"),
        "{:?}",
        warnings[0]
    );
}

/// Objects of many addresses, of which rules name some: which rules take all packets of others is found as with single addresses.
#[test]
fn objects_of_many_addresses_are_compared_exactly() {
    let hosts = |first: u32| {
        let hosts = (0..500).map(|at| format!("'{}'", Ipv4Addr::from(first + 2 * at)));
        format!("[{}, '2001:db8::{:x}']", hosts.collect::<Vec<_>>().join(", "), first >> 16)
    };
    let objects = format!(
        "[zones]\na = {{ interfaces = 'e0' }}\nb = {{ interfaces = 'e1' }}\n[objects]\nlow = {}\nhigh = {}\n\
         rest = {{ members = 'any', except = ['low', 'high'] }}\n",
        hosts(0x0a00_0000),
        hosts(0xdfff_0000)
    );
    for (sources, expected) in [
        (&["'low'", "'high'", "'low', 'high'"][..], Some((2, "r0,r1"))),
        (&["'low'", "'low', 'high'"], None),
        (&["'low'", "'high'", "'rest'", "'any'"], Some((3, "r0,r1,r2"))),
        (&["'low'", "'rest'", "'any'"], None),
        (&["'high'", "'223.255.0.2'"], Some((1, "r0"))),
        (&["'high'", "'223.255.0.3'"], None),
        (&["'high'", "'2001:db8::dfff'"], Some((1, "r0"))),
        (&["'rest'", "'low', 'high'", "'255.255.255.254', '10.0.0.4'"], Some((2, "r0,r1"))),
    ] {
        let rules = sources.iter().enumerate().map(|(i, source)| {
            let action = if i + 1 == sources.len() { "deny" } else { "allow" };
            format!(
                "[[rules]]\nname = 'r{i}'\nfrom = 'a'\nto = 'b'\nsource = [{source}]\naction = '{action}'\n"
            )
        });
        let policy = Policy::parse("many", &(objects.clone() + &rules.collect::<String>())).unwrap();
        let warnings = policy.warnings().into_iter().filter_map(|w| Some((w.rule?, w.kind, w.by.join(","))));
        let expected = expected.map(|(rule, by)| (format!("r{rule}"), WarningKind::Shadowed, by.to_owned()));
        assert_eq!(warnings.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>(), "{sources:?}");
    }
}

/// Rules that share large objects at both ends: each address of each rule would be 1.2 million ranges, which thousands of rules are compared in.
#[test]
fn rules_that_share_large_objects_are_all_looked_at() {
    const OBJECTS: u64 = 60;
    let mut random = rule_sets::Random(1);
    let mut text = String::from("[zones]\na = { interfaces = 'e0' }\nb = { interfaces = 'e1' }\n[objects]\n");
    for object in 0..OBJECTS {
        let hosts = (0..200).map(|_| format!("'{}'", Ipv4Addr::from(random.next() as u32)));
        text += &format!("o{object} = [{}]\n", hosts.collect::<Vec<_>>().join(", "));
    }
    for i in 0..1500 {
        let mut two = || format!("['o{}', 'o{}']", random.below(OBJECTS), random.below(OBJECTS));
        let (source, destination) = (two(), two());
        let action = ["allow", "deny"][i % 2];
        text += &format!(
            "[[rules]]\nname = 'r{i}'\nfrom = 'a'\nto = 'b'\nsource = {source}\ndestination = {destination}\naction = '{action}'\n"
        );
    }
    let warnings = Policy::parse("shared", &text).unwrap().warnings();
    let undecided: Vec<_> = warnings.iter().filter(|it| it.kind == WarningKind::Undecided).collect();
    assert!(undecided.is_empty(), "{undecided:?}");
}
