use super::filler::filler;
use super::lists::may_be_listed;
use super::*;
use crate::layout::{LISTED_CANARIES, OUTSIDE_COUNTRIES, WORLD_V4, WORLD_V6};
use measure::shape::IpVersion;
use proptest::prelude::*;
use rule_sets::{Family, Random};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

fn shape(rules: u32, match_position: u32) -> PolicyShape {
    PolicyShape { rules, match_position, stateful: true, ..PolicyShape::forward_everything(1) }
}

#[test]
fn the_matching_rules_stand_at_their_position() {
    let rows = [
        (ZoneForm::Two, true, 1),
        (ZoneForm::Two, false, 2),
        (ZoneForm::Three, true, 3),
        (ZoneForm::Three, false, 6),
    ];
    for (zones, stateful, count) in rows {
        for (rules, position) in [(1, 1), (10, 1), (10, 4), (10, 10)] {
            let policy =
                PolicySpec::generate(&PolicyShape { stateful, ..shape(rules, position) }, zones).unwrap();
            assert_eq!(policy.rules.len(), rules as usize - 1 + count);
            let matching: Vec<usize> = (0..policy.rules.len())
                .filter(|&i| policy.rules[i].may_match_tests(TestProtocol::Udp))
                .collect();
            let first = position as usize - 1;
            assert_eq!(matching, (first..first + count).collect::<Vec<_>>(), "{zones:?} {rules} {position}");
        }
    }
}

#[test]
fn impossible_positions_are_refused() {
    for (rules, position) in [(0, 1), (10, 0), (10, 11)] {
        let error = PolicySpec::generate(&shape(rules, position), ZoneForm::Two).unwrap_err();
        assert!(error.to_string().contains("position"), "{error}");
    }
}

#[test]
fn fillers_have_the_spread_of_real_rule_sets() {
    let policy = PolicySpec::generate(&shape(2000, 2000), ZoneForm::Two).unwrap();
    let fillers = &policy.rules[..1999];
    let lengths: HashSet<u8> =
        fillers.iter().flat_map(|r| [r.source.v4.prefix_len(), r.destination.v4.prefix_len()]).collect();
    assert!((8..=32).all(|length| lengths.contains(&length)), "{lengths:?}");
    let share = |p: fn(&Rule) -> bool| fillers.iter().filter(|r| p(r)).count() as f64 / 1999.0;
    assert!((0.05..0.2).contains(&share(|r| r.protocol == Protocol::Icmp)));
    assert!((0.15..0.4).contains(&share(|r| r.protocol == Protocol::Udp)));
    assert!(share(|r| r.destination_ports.is_some_and(|(low, high)| low < high)) > 0.1);
    assert!(share(|r| r.source.touches_tests() && r.destination.touches_tests()) > 0.1);
    let distinct: HashSet<&Rule> = fillers.iter().collect();
    assert!(distinct.len() > 1950, "{}", distinct.len());
}

#[test]
fn lists_share_the_addresses_and_repeat() {
    let rows: [(u32, u32, &[u32]); 5] = [
        (100_000, 1, &[100_000]),
        (9, 2, &[3, 6]),
        (60_000, 3, &[10_000, 20_000, 30_000]),
        (7, 3, &[1, 2, 4]),
        (0, 3, &[]),
    ];
    for (addresses, lists, sizes) in rows {
        let of_seed = |seed| PolicyShape { listed_addresses: addresses, lists, seed, ..shape(1, 1) };
        let policy = PolicySpec::generate(&of_seed(9), ZoneForm::Two).unwrap();
        assert_eq!(policy.listed.iter().map(AddressList::len).collect::<Vec<_>>(), sizes);
        let mut all = HashSet::new();
        for (list, canary) in policy.listed.iter().zip(LISTED_CANARIES) {
            let own: Vec<Ipv4Addr> = list.addresses().collect();
            assert_eq!((own.len(), own[0]), (list.len() as usize, canary));
            assert!(own[1..].iter().all(may_be_listed));
            all.extend(own);
        }
        assert_eq!(all.len(), addresses as usize, "an address comes twice");
        let again = PolicySpec::generate(&of_seed(9), ZoneForm::Two).unwrap();
        assert_eq!(policy.listed, again.listed);
        let other = PolicySpec::generate(&of_seed(10), ZoneForm::Two).unwrap();
        assert_eq!(policy.listed_sample(5, 0) == other.listed_sample(5, 0), addresses == 0);
    }
}

#[test]
fn samples_are_listed_and_come_from_every_part() {
    let shape = PolicyShape { listed_addresses: 6000, lists: 3, ..shape(1, 1) };
    let policy = PolicySpec::generate(&shape, ZoneForm::Two).unwrap();
    for n in [0, 1, 100, 5997, 10_000] {
        let sample = policy.listed_sample(n, 77);
        assert_eq!(sample.len(), n.min(5997));
        assert!(sample.iter().all(may_be_listed), "a canary is in it");
        let distinct: HashSet<&Ipv4Addr> = sample.iter().collect();
        assert_eq!(distinct.len(), sample.len());
        for list in policy.listed.iter().filter(|_| n >= 100) {
            let addresses: Vec<Ipv4Addr> = list.addresses().collect();
            for part in addresses.chunks(addresses.len() / 4) {
                assert!(part.iter().any(|address| distinct.contains(address)), "list {}", list.number());
            }
        }
    }
}

/// Whoever loads only what is asked for would have to know it.
#[test]
fn any_address_of_a_list_may_be_asked_for() {
    let shape = PolicyShape { listed_addresses: 600, lists: 3, ..shape(1, 1) };
    let policy = PolicySpec::generate(&shape, ZoneForm::Two).unwrap();
    let asked: HashSet<Ipv4Addr> = (0..20).flat_map(|draw| policy.listed_sample(50, draw)).collect();
    let all = policy.listed.iter().flat_map(|list| list.addresses().skip(1));
    // What is left over where the step does not fit.
    assert!(all.filter(|address| !asked.contains(address)).count() < 50);
}

#[test]
fn country_tables_have_the_tests_and_no_overlap() {
    for count in [FEWEST_SUBNETS, 14_999, MOST_SUBNETS] {
        let shape = PolicyShape { allowed_subnets: count, ..shape(1, 1) };
        let table = PolicySpec::generate(&shape, ZoneForm::Two).unwrap().countries;
        let subnets = table.subnets();
        assert_eq!(subnets.len(), count as usize);
        for pair in subnets.windows(2) {
            assert!(pair[0].broadcast() < pair[1].network(), "{pair:?}");
        }
        let has = |address: Ipv4Addr| subnets.iter().any(|net| net.contains(&address));
        for zone in [Zone::Private, Zone::Dmz, Zone::Hostile] {
            let zone = ZoneAddresses::of(zone);
            assert!((0..zone.host_count()).step_by(97).all(|host| has(zone.host_v4(host))), "{zone:?}");
        }
        assert!(LISTED_CANARIES.into_iter().all(has) && has(ATTACKERS_V4.broadcast()));
        let outside = [table.canary(), OUTSIDE_COUNTRIES.broadcast(), STRANGERS_V4.network()];
        assert!(!outside.into_iter().any(has));
        assert!(subnets.iter().all(|net| (8..=26).contains(&net.prefix_len())));
        assert!(count < 1000 || (12..=24).all(|length| subnets.iter().any(|net| net.prefix_len() == length)));
    }
}

#[test]
fn impossible_sets_are_refused() {
    let plain = shape(1, 1);
    let rows = [
        (PolicyShape { listed_addresses: MOST_LISTED + 1, ..plain.clone() }, "more than the public"),
        (PolicyShape { listed_addresses: 9, lists: 4, ..plain.clone() }, "on 4 lists"),
        (PolicyShape { listed_addresses: 9, lists: 0, ..plain.clone() }, "on 0 lists"),
        (PolicyShape { listed_addresses: 5, lists: 3, ..plain.clone() }, "too few"),
        (PolicyShape { allowed_subnets: FEWEST_SUBNETS - 1, ..plain.clone() }, "11 subnets"),
        (PolicyShape { allowed_subnets: MOST_SUBNETS + 1, ..plain }, "65537 subnets"),
    ];
    for (shape, message) in rows {
        let error = PolicySpec::generate(&shape, ZoneForm::Two).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn attackers_are_admitted_at_the_matching_position() {
    for (zones, stateful, count) in
        [(ZoneForm::Two, true, 2), (ZoneForm::Two, false, 4), (ZoneForm::Three, true, 5)]
    {
        let shape =
            PolicyShape { admits_attackers: true, protocol: TestProtocol::Tcp, stateful, ..shape(10, 4) };
        let policy = PolicySpec::generate(&shape, zones).unwrap();
        let matching = &policy.rules[3..3 + count];
        assert_eq!(policy.rules.len(), 9 + count);
        assert!(
            matching
                .iter()
                .all(|rule| rule.protocol == Protocol::Tcp && rule.may_match_tests(TestProtocol::Tcp))
        );
        assert!(matching.iter().any(|rule| rule.source == Network::ATTACKERS));
    }
}

#[test]
fn successors_differ_in_fillers_and_one_probe_service() {
    for (stateful, protocol) in [(true, TestProtocol::Tcp), (false, TestProtocol::Udp)] {
        let shape = PolicyShape { stateful, protocol, listed_addresses: 50, ..shape(20, 7) };
        let old = PolicySpec::generate_replaceable(&shape, ZoneForm::Two).unwrap();
        let new = old.successor().unwrap();
        assert_eq!((&old.listed, old.countries), (&new.listed, new.countries));
        assert_eq!(old.rules.len(), new.rules.len());
        let same = old.rules.iter().zip(&new.rules).filter(|(a, b)| a == b).count();
        assert!(same < 10, "{same} rules are the same");
        assert_eq!(new.successor().unwrap().generation, old.generation);
        for (policy, old_arrives) in [(&old, true), (&new, false)] {
            let probes = policy.replacement_probes(IpVersion::V4).unwrap();
            let arrives = [&probes.old_only, &probes.new_only, &probes.both, &probes.neither].map(|probe| {
                let allowed = policy.rules.iter().any(|rule| matches_datagram(rule, probe));
                assert_eq!(allowed, probe.expect == Expect::Arrives, "{}", probe.name);
                allowed
            });
            assert_eq!(arrives, [old_arrives, !old_arrives, true, false]);
        }
        assert_eq!(PolicySpec::generate(&shape, ZoneForm::Two).unwrap().successor(), None);
    }
    let error = PolicySpec::generate_replaceable(&shape(0, 0), ZoneForm::Two).unwrap_err();
    assert!(error.to_string().contains("without rules"), "{error}");
}

fn matches_datagram(rule: &Rule, probe: &Probe) -> bool {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (probe.source.ip(), probe.destination.ip()) else {
        panic!("IPv4 was asked for")
    };
    rule.protocol == Protocol::Udp
        && probe.protocol == Protocol::Udp
        && rule.source.v4.contains(&source)
        && rule.destination.v4.contains(&destination)
        && rule.destination_ports.is_none_or(|(low, high)| (low..=high).contains(&probe.destination.port()))
}

#[test]
fn fresh_probes_have_sources_of_their_own() {
    let shape = PolicyShape { nat: true, ..shape(5, 5) };
    let policy = PolicySpec::generate_replaceable(&shape, ZoneForm::Two).unwrap();
    let probe = policy.replacement_probes(IpVersion::V4).unwrap().both;
    let numbers = [0, 1, 64_511, 64_512, 3_999_999];
    let fresh: HashSet<_> = numbers.iter().map(|n| probe.fresh(*n).source).collect();
    assert_eq!(fresh.len(), numbers.len());
    for n in numbers {
        let one = probe.fresh(n);
        let arrival = (crate::layout::translated(one.source.ip()), one.source.port());
        assert_eq!((one.source_on_arrival.ip(), one.source_on_arrival.port()), arrival);
        assert_eq!(one.destination, probe.destination);
    }
}

#[test]
fn probes_cover_every_direction_and_both_answers() {
    for zones in [ZoneForm::Two, ZoneForm::Three] {
        let policy = PolicySpec::generate(&shape(10, 5), zones).unwrap();
        let probes = policy.probes();
        for &(from, to) in forward_lanes_of(zones) {
            for (from, to) in [(from, to), (to, from)] {
                for v4 in [true, false] {
                    for expect in [Expect::Arrives, Expect::Dropped] {
                        let found = probes.iter().any(|p| {
                            p.lane.from == from
                                && p.lane.to == to
                                && p.source.is_ipv4() == v4
                                && p.expect == expect
                        });
                        assert!(found, "{from:?} {to:?} IPv4 {v4} {expect:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn without_rules_everything_arrives() {
    let policy = PolicySpec::forward_everything(ZoneForm::Three);
    assert!(policy.probes().iter().all(|probe| probe.expect == Expect::Arrives));
}

#[test]
fn what_is_forbidden_under_load_is_what_the_policy_forbids() {
    let plain = PolicyShape::forward_everything(1);
    let listed = PolicyShape { listed_addresses: 6000, lists: 3, ..plain.clone() };
    let tabled = PolicyShape { allowed_subnets: 100, ..plain.clone() };
    let both = PolicyShape { allowed_subnets: 100, ..listed.clone() };
    for (shape, ports, sources, answers) in [
        (plain.clone(), false, 0, false),
        (shape(5, 2), true, 0, true),
        (PolicyShape { stateful: false, ..shape(5, 2) }, true, 0, false),
        (PolicyShape { nat: true, ..shape(5, 2) }, true, 0, false),
        (listed, false, 3 + 512, false),
        (tabled, false, 62, false),
        (both, false, 3 + 62 + 512, false),
    ] {
        let policy = PolicySpec::generate(&shape, ZoneForm::Two).unwrap();
        let found = policy.forbidden_sources(5);
        assert_eq!(
            (policy.forbidden_ports().is_some(), found.len(), policy.forbids_strange_answers()),
            (ports, sources, answers),
            "{shape:?}"
        );
        let on_a_list: HashSet<Ipv4Addr> = policy.listed.iter().flat_map(AddressList::addresses).collect();
        let table = policy.countries.subnets();
        let is_outside = |a: &Ipv4Addr| !table.is_empty() && !table.iter().any(|net| net.contains(a));
        assert!(found.iter().all(|a| on_a_list.contains(a) || is_outside(a)), "{shape:?}");
        let hosts = ZoneAddresses::of(Zone::Private);
        assert!(!found.iter().any(|a| hosts.v4.contains(a) && *a >= hosts.host_v4(0)), "{shape:?}");
    }
    assert!(
        !FORBIDDEN_PORTS.contains(&FORBIDDEN_PORT) && !FORBIDDEN_PORTS.contains(TEST_DESTINATION_PORTS.end())
    );
}

#[test]
fn translated_probes_say_how_they_arrive() {
    let policy = PolicySpec::generate(&PolicyShape { nat: true, ..shape(3, 2) }, ZoneForm::Three).unwrap();
    for probe in policy.probes() {
        let lane = (probe.lane.from, probe.lane.to);
        assert_eq!(
            probe.source != probe.source_on_arrival,
            lane == (Zone::Private, Zone::Hostile),
            "{}",
            probe.name
        );
        let back = lane == (Zone::Hostile, Zone::Private);
        assert_eq!(probe.destination != probe.destination_on_arrival, back, "{}", probe.name);
    }
}

/// Whether a rule asks for this packet: protocol, source, destination and their ports.
fn asks_for(
    rule: &Rule,
    (protocol, source, destination, ports): (Protocol, IpAddr, IpAddr, (u16, u16)),
) -> bool {
    let ip = if source.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
    let [from, to] = rule.networks(ip);
    let inside =
        |range: Option<(u16, u16)>, port| range.is_none_or(|(low, high)| (low..=high).contains(&port));
    (rule.protocol == protocol || rule.protocol == Protocol::Any)
        && from.contains(&source)
        && to.contains(&destination)
        && inside(rule.source_ports, ports.0)
        && inside(rule.destination_ports, ports.1)
}

/// What tests send, legal or not: between zones, from attackers and strangers, to any port of the test's protocol, and probes of the
/// other one.
fn sent_by_tests(tested: TestProtocol) -> Vec<(Protocol, IpAddr, IpAddr, (u16, u16))> {
    let mut random = Random(9);
    let mut sent = Vec::new();
    let [private, hostile, dmz] = [Zone::Private, Zone::Hostile, Zone::Dmz].map(ZoneAddresses::of);
    let other = if tested == TestProtocol::Udp { Protocol::Tcp } else { Protocol::Udp };
    for number in 0..12 {
        let host = |zone: ZoneAddresses, ip| zone.host(ip, number * 2711);
        let outside = |ip| match (ip, number % 3) {
            (IpVersion::V4, 0) => ATTACKERS_V4.addr().into(),
            (IpVersion::V6, 0) => ATTACKERS_V6.addr().into(),
            (IpVersion::V4, 1) => STRANGERS_V4.broadcast().into(),
            (IpVersion::V6, 1) => STRANGERS_V6.broadcast().into(),
            (_, _) => crate::layout::translated(host(private, ip)),
        };
        for ip in [IpVersion::V4, IpVersion::V6] {
            let (client, server) = (host(private, ip), host(if number % 2 == 0 { hostile } else { dmz }, ip));
            for (source, destination) in [(client, server), (server, client), (outside(ip), server)] {
                let ports = (1024 + random.below(64_512) as u16, 1 + random.below(60_004) as u16);
                sent.push((tested.into(), source, destination, ports));
                sent.push((other, source, destination, (ports.0, FORBIDDEN_PORT + number as u16 % 5)));
            }
        }
    }
    sent
}

/// A firewall that has only the rules that tests meet must not stand a proof, nor one that leaves out what is about one protocol, or about the
/// world.
#[test]
fn rules_that_no_test_meets_are_probed() {
    let rows = [
        (PolicyShape { protocol: TestProtocol::Tcp, ..shape(100, 100) }, ZoneForm::Two),
        (shape(100, 1), ZoneForm::Two),
        (PolicyShape { stateful: false, ..shape(100, 50) }, ZoneForm::Three),
        (PolicyShape { nat: true, ..shape(1000, 1000) }, ZoneForm::Two),
        (PolicyShape { rule_family: Family::named("acl1"), ..shape(1000, 1000) }, ZoneForm::Two),
    ];
    for ((shape, zones), with_icmp) in rows.into_iter().flat_map(|row| [(row.clone(), false), (row, true)]) {
        let policy = PolicySpec::generate(&shape, zones).unwrap();
        let mut names = HashSet::new();
        let (mut protocols, mut far) = (HashSet::new(), 0);
        for draw in 0..50 {
            let probes = policy.rule_probes(with_icmp, draw);
            assert_eq!(probes, policy.rule_probes(with_icmp, draw));
            assert_eq!(probes.len(), 16, "{shape:?}");
            for probe in &probes {
                let ports = (probe.source.port(), probe.destination.port());
                let packet = (probe.protocol, probe.source.ip(), probe.destination.ip(), ports);
                let first = policy.rules.iter().find(|rule| asks_for(rule, packet));
                let accepted = probe.expect == Expect::Arrives;
                assert_eq!(
                    first.is_some_and(|rule| rule.action == Action::Accept),
                    accepted,
                    "{}",
                    probe.name
                );
                assert!(first.is_some() || probe.name.starts_with("echo request"), "{}", probe.name);
                let mut is_near = true;
                for (zone, address) in
                    [(probe.lane.from, probe.source.ip()), (probe.lane.to, probe.destination_on_arrival.ip())]
                {
                    let is_host = ZoneAddresses::of(zone).has_test_host(address);
                    let is_of_world = match address {
                        IpAddr::V4(a) => WORLD_V4.contains(&a),
                        IpAddr::V6(a) => WORLD_V6.contains(&a),
                    };
                    let fits = is_host || is_of_world && zone == Zone::Hostile;
                    assert!(fits, "{}: {address}", probe.name);
                    is_near &= is_host;
                }
                assert!(!(is_near && probe.protocol == shape.protocol.into()), "{}: the load's", probe.name);
                far += usize::from(!is_near);
                protocols.insert(probe.protocol);
                names.insert(probe.name.clone());
            }
            let accepted = probes.iter().filter(|probe| probe.expect == Expect::Arrives).count();
            assert!(accepted > 0, "{shape:?}: a firewall without these rules does the same");
            let turns = probes.chunk_by(|a, b| a.lane == b.lane).count();
            let most = forward_lanes_of(zones).len() * if with_icmp { 2 } else { 1 };
            assert!(turns <= most, "probes of one direction are together");
        }
        assert!(names.len() > 2, "{shape:?}: {names:?}");
        assert_eq!(protocols.contains(&Protocol::Icmp), with_icmp, "{shape:?}: {protocols:?}");
        assert_eq!(far > 0, !shape.nat, "{shape:?}");
        assert_eq!(protocols.contains(&shape.protocol.into()), !shape.nat, "{shape:?}: {protocols:?}");
    }
    for policy in [
        PolicySpec::forward_everything(ZoneForm::Two),
        PolicySpec::generate(&shape(1, 1), ZoneForm::Two).unwrap(),
    ] {
        assert_eq!(policy.rule_probes(false, 1), []);
        assert_eq!(policy.rule_probes(true, 1).len(), if policy.has_rules() { 2 } else { 0 });
    }
}

#[test]
fn rules_of_families_match_nothing_that_tests_send() {
    for family in Family::all() {
        for tested in [TestProtocol::Udp, TestProtocol::Tcp] {
            let shape = PolicyShape { rule_family: Some(family), protocol: tested, ..shape(400, 400) };
            let policy = PolicySpec::generate(&shape, ZoneForm::Two).unwrap();
            let (matching, fillers) = policy.rules.split_last().unwrap();
            assert_eq!(fillers.len(), 399, "{family:?}");
            for packet in sent_by_tests(tested) {
                let wrong = fillers.iter().find(|rule| asks_for(rule, packet));
                assert_eq!(wrong, None, "{family:?} {packet:?}");
            }
            let allows = |port| {
                let ends =
                    [Zone::Private, Zone::Hostile].map(|zone| ZoneAddresses::of(zone).host(IpVersion::V4, 3));
                asks_for(matching, (tested.into(), ends[0], ends[1], (5000, port)))
            };
            assert!(allows(*TEST_DESTINATION_PORTS.end()) && !allows(FORBIDDEN_PORT), "{family:?}");
        }
    }
}

#[test]
fn rules_of_families_have_what_rule_sets_have() {
    let policy = |name: &str, seed| {
        let family = Family::named(name);
        let shape = PolicyShape { rule_family: family, seed, ..shape(2000, 1) };
        PolicySpec::generate(&shape, ZoneForm::Two).unwrap().rules
    };
    for family in Family::all() {
        let rules = &policy(family.name(), 1)[1..];
        assert_ne!(rules, &policy(family.name(), 2)[1..], "{family:?}: another seed");
        assert_ne!(rules, &policy("fillers of the bench", 1)[1..], "{family:?}: the bench's own");
        let share =
            |has: &dyn Fn(&Rule) -> bool| rules.iter().filter(|rule| has(rule)).count() as f64 / 1999.0;
        for (end, zone) in [Zone::Private, Zone::Hostile].map(ZoneAddresses::of).iter().enumerate() {
            // A /16 holds the zone, what is narrower lies in it.
            let near = |zone: IpNet, end: IpNet| {
                end.prefix_len() > 0 && (zone.contains(&end) || end.contains(&zone))
            };
            let v4 = share(&|rule| near(zone.v4.into(), rule.networks(IpVersion::V4)[end]));
            let v6 = share(&|rule| near(zone.v6.into(), rule.networks(IpVersion::V6)[end]));
            assert!(v4 > 0.005 && v6 >= v4, "{family:?}: {v4} and {v6} are about hosts of {zone:?}");
        }
        let dropped = share(&|rule| rule.action == Action::Drop);
        assert!((0.45..0.55).contains(&dropped), "{family:?}: {dropped} are dropped");
        let has_ports = |rule: &Rule| matches!(rule.protocol, Protocol::Tcp | Protocol::Udp);
        assert!(
            rules
                .iter()
                .all(|rule| has_ports(rule) || rule.source_ports.or(rule.destination_ports).is_none())
        );
        let with_source_ports = share(&|rule| rule.source_ports.is_some()) / share(&has_ports);
        let expected = family.percent_with_source_ports() as f64 / 100.0;
        assert!(
            (with_source_ports - expected).abs() < 0.05,
            "{family:?}: {with_source_ports} have source ports"
        );
    }
    // All rules of this family have any ports, and most any protocol.
    let ipc2 = policy("ipc2", 1);
    assert!(ipc2.iter().filter(|rule| rule.protocol == Protocol::Any).count() > 1000);
}

proptest! {
    #[test]
    fn fillers_never_touch_test_traffic(seed: u64) {
        let mut random = Random(seed);
        for _ in 0..200 {
            let tested = if seed % 2 == 0 { TestProtocol::Udp } else { TestProtocol::Tcp };
            let rule = filler(&mut random, tested);
            prop_assert!(!rule.may_match_tests(tested), "{rule:?}");
            prop_assert!(rule.protocol != Protocol::Icmp || rule.destination_ports.is_none());
            if let Some((low, high)) = rule.destination_ports {
                prop_assert!(0 < low && low <= high && high < FORBIDDEN_PORT);
            }
        }
    }

    #[test]
    fn permutations_do_not_repeat(seed: u64, start: u32) {
        let permutation = random::Permutation::new(seed);
        let values: HashSet<u32> = (0..1000u32).map(|i| permutation.at(start.wrapping_add(i))).collect();
        prop_assert_eq!(values.len(), 1000);
    }
}

/// A policy says the same of every test host of a zone, of every listed address, and of every port that no rule allows.
#[test]
fn probes_between_other_ends_are_of_the_same_zones_and_kinds() {
    let sets = PolicyShape { listed_addresses: 60, lists: 3, allowed_subnets: 20, ..shape(3, 2) };
    let of_load = Hosts::AnyAndOfLoad([vec![300, 301], vec![40]]);
    for (shape, hosts) in [
        (PolicyShape { nat: true, ..shape(3, 2) }, Hosts::Any),
        (shape(3, 2), Hosts::One),
        (PolicyShape { protocol: TestProtocol::Tcp, ..shape(3, 2) }, of_load.clone()),
        (sets, of_load),
    ] {
        let policy = PolicySpec::generate(&shape, ZoneForm::Three).unwrap();
        let probes: Vec<Probe> =
            policy.probes().into_iter().filter(|probe| probe.expect == Expect::Dropped).collect();
        let others = policy.between_other_ends(&probes, 8, &hosts, 7);
        assert_eq!(others.len(), 8 * probes.len());
        let (mut between_load, mut listed) = (0, HashSet::new());
        for (other, probe) in others.iter().zip(probes.iter().cycle()) {
            assert_eq!((other.lane, other.expect, other.segment), (probe.lane, probe.expect, probe.segment));
            let [from, to] = other.ports_of_its_kind(shape.protocol);
            assert!(from.contains(&probe.source.port()) && to.contains(&probe.destination.port()));
            if other.name != probe.name {
                assert!(other.name.starts_with("from a listed address"), "{}", other.name);
                listed.insert(other.source.ip());
            }
            let numbers =
                [(other.lane.from, other.source.ip()), (other.lane.to, other.destination_on_arrival.ip())]
                    .map(|(zone, address)| ZoneAddresses::of(zone).test_host(address));
            let is_of_load = |number: Option<u32>| number.is_some_and(|number| number < HOSTS_OF_LOADS);
            if numbers.into_iter().any(is_of_load) {
                between_load += 1;
                assert_eq!(probe.destination.port(), FORBIDDEN_PORT, "{}", probe.name);
            }
            let is_translated =
                |a: &Probe| (a.source.port(), a.destination.ip() != a.destination_on_arrival.ip());
            assert_eq!(is_translated(other), is_translated(probe), "{}", probe.name);
        }
        assert_eq!(between_load > 0, matches!(hosts, Hosts::AnyAndOfLoad(_)), "{hosts:?}");
        assert_eq!(listed.len() > 3, shape.lists == 3, "{listed:?}");
        let to: HashSet<SocketAddr> =
            others.iter().filter(|p| p.lane.to == Zone::Dmz).map(|p| p.destination).collect();
        assert_eq!(
            to.iter().filter(|to| to.is_ipv6()).map(SocketAddr::ip).collect::<HashSet<_>>().len() == 1,
            hosts == Hosts::One
        );
    }
}

/// Whatever ports a frame of a patrol is given, no rule lets it pass, with state or without.
#[test]
fn forbidden_frames_are_forbidden_from_and_to_all_ports_of_their_kind() {
    for (tested, stateful, zones) in [
        (TestProtocol::Udp, true, ZoneForm::Three),
        (TestProtocol::Udp, false, ZoneForm::Three),
        (TestProtocol::Tcp, false, ZoneForm::Two),
        (TestProtocol::Tcp, true, ZoneForm::Two),
    ] {
        let shape = PolicyShape { protocol: tested, stateful, ..shape(1000, 500) };
        let policy = PolicySpec::generate(&shape, zones).unwrap();
        let random = &mut Random(3);
        let dropped = policy.probes().into_iter().filter(|probe| probe.expect == Expect::Dropped);
        for probe in dropped.filter(|probe| probe.destination.port() == FORBIDDEN_PORT) {
            let [from, to] = probe.ports_of_its_kind(tested);
            for _ in 0..200 {
                let mut drawn = |ports: &std::ops::RangeInclusive<u16>| {
                    ports.start() + random.below(u64::from(ports.end() - ports.start()) + 1) as u16
                };
                let ports = (drawn(&from), drawn(&to));
                let packet = (probe.protocol, probe.source.ip(), probe.destination.ip(), ports);
                let allows = policy.rules.iter().find(|rule| asks_for(rule, packet));
                assert!(allows.is_none_or(|rule| rule.action == Action::Drop), "{}: {ports:?}", probe.name);
            }
        }
    }
}
