//! What policies for connections add: nothing but SYN opens one, attackers are admitted, lists and country tables are in
//! force from the first to the last element, and a policy is replaced while connections go on.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests stop at the first thing that is wrong, and one tells what it measured"
)]

mod common;

use common::{Prober, SEGMENT_BYTES, TcpHeader, must_be_root, plain, spec, with_firewall, with_policy};
use measure::shape::{IpVersion, Lane, PolicyShape, TestProtocol, Zone, ZoneForm};
use std::net::{IpAddr, SocketAddr};
use testbed::bed::Bed;
use testbed::dut::{self, Running};
use testbed::layout::WORLD_V4;
use testbed::policy::{Expect, PolicySpec, Probe, Segment};

/// Those of the kernel, which share its connection tracking and the names of our counters.
const OF_THE_KERNEL: [&str; 4] = ["nftables", "nftables-map", "iptables", "ipset"];
const FIREWALLS: [&str; 7] =
    ["nftables", "nftables-map", "iptables", "ipset", "ovs", "rampart", "rampart-tc"];
/// What nftables' sets take is what the whole kernel allocates while they are loaded, and other tests give back tens of megabytes
/// meanwhile.
const TRIES_OF_A_FIGURE: usize = 5;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PUSH: u8 = 0x08;
const ACK: u8 = 0x10;

fn tcp() -> PolicyShape {
    PolicyShape { rules: 10, match_position: 4, stateful: true, protocol: TestProtocol::Tcp, ..plain() }
}

fn named<'a>(probes: &'a [Probe], name: &str) -> &'a Probe {
    probes.iter().find(|probe| probe.name.starts_with(name)).unwrap()
}

/// The same probe from another source.
fn from_source(probe: &Probe, address: impl Into<IpAddr>, port: u16) -> Probe {
    let source = SocketAddr::new(address.into(), port);
    Probe { source, source_on_arrival: source, ..probe.clone() }
}

fn counter(running: &dyn Running, name: &str) -> u64 {
    running.counters().unwrap()[name]
}

/// Frames dropped because they belong to no connection, or to none in this way. Rampart has a counter for each reason, and the
/// tests here meet no other reasons.
fn invalid(name: &str, running: &dyn Running) -> u64 {
    let counters = running.counters().unwrap();
    if OF_THE_KERNEL.contains(&name) { counters["invalid_drop"] } else { counters.values().sum() }
}

/// Opens a connection of its own and returns its two ends: what the client sends next has sequence and acknowledgement
/// number [`NEXT`], and so has what the server sends next.
fn open_connection(prober: &mut Prober, probes: &[Probe], port: u16) -> (Probe, Probe) {
    let client = from_source(named(probes, "allowed"), named(probes, "allowed").source.ip(), port);
    let lane = Lane { from: client.lane.to, to: client.lane.from };
    let server = Probe {
        lane,
        segment: Some(Segment::SynAck),
        source: client.destination,
        destination: client.source,
        source_on_arrival: client.destination,
        destination_on_arrival: client.source,
        ..client.clone()
    };
    let header = |flags, sequence, acknowledgement| TcpHeader { sequence, acknowledgement, flags };
    prober.wait_for(&client).expect("the SYN arrives");
    let answered = prober.try_segment(probes, &server, header(SYN | ACK, 1, NEXT));
    assert!(answered.is_some(), "the SYN-ACK arrives");
    let established = prober.try_segment(probes, &client, header(ACK, NEXT, NEXT));
    assert!(established.is_some(), "the acknowledgement arrives");
    (client, server)
}

/// After SYN with data.
const NEXT: u32 = 1 + 1 + SEGMENT_BYTES;
/// After the acknowledgement, which has data in these tests, too.
const AFTER: u32 = NEXT + SEGMENT_BYTES;

#[test]
fn only_syn_opens_and_only_the_window_passes() {
    let far = AFTER.wrapping_add(1 << 30);
    // What, flags, sequence and acknowledgement number, on an open connection or none, and whether it passes.
    let rows = [
        ("SYN", SYN, 1, 0, false, true),
        ("ACK", ACK, 1, 2, false, false),
        ("data", PUSH | ACK, 1, 2, false, false),
        ("RST", RST, 1, 0, false, false),
        ("RST with ACK", RST | ACK, 1, 2, false, false),
        ("FIN", FIN | ACK, 1, 2, false, false),
        ("FIN without ACK", FIN, 1, 0, false, false),
        ("SYN-ACK", SYN | ACK, 1, 2, false, false),
        ("nothing set", 0, 1, 0, false, false),
        ("SYN with FIN", SYN | FIN, 1, 0, false, false),
        ("data in the window", PUSH | ACK, AFTER, NEXT, true, true),
        ("data outside the window", PUSH | ACK, far, NEXT, true, false),
        ("an acknowledgement of what was never sent", ACK, AFTER, far, true, false),
        ("RST outside the window", RST, far, 0, true, false),
    ];
    for name in FIREWALLS {
        with_firewall(name, ZoneForm::Two, &tcp(), |_, running, policy, prober| {
            let probes = policy.probes();
            for (number, (what, flags, sequence, acknowledgement, open, passes)) in
                rows.into_iter().enumerate()
            {
                let port = 20_000 + number as u16;
                let allowed = named(&probes, "allowed");
                let client = if open {
                    open_connection(prober, &probes, port).0
                } else {
                    from_source(allowed, allowed.source.ip(), port)
                };
                let before = invalid(name, running.as_ref());
                let header = TcpHeader { sequence, acknowledgement, flags };
                let arrived = prober.try_segment(&probes, &client, header).is_some();
                assert_eq!(arrived, passes, "{name}: {what}");
                let dropped = invalid(name, running.as_ref()) - before;
                assert_eq!(dropped, u64::from(!passes), "{name}: {what}: invalid");
            }
        });
    }
}

/// A firewall that is set up for UDP in the bed of one for TCP does not inherit its strictness.
#[test]
fn strictness_ends_with_the_firewall() {
    must_be_root();
    let bed = Bed::build(&spec(ZoneForm::Two, dut::driver("nftables").unwrap().wiring())).unwrap();
    let setting = || bed.firewall().unwrap().setting("netfilter/nf_conntrack_tcp_loose").unwrap();
    let before = setting();
    let policy = PolicySpec::generate(&tcp(), ZoneForm::Two).unwrap();
    for name in OF_THE_KERNEL {
        let running = dut::driver(name).unwrap().set_up(&bed, &policy).unwrap();
        assert_eq!(setting(), "0", "{name}");
        drop(running);
        assert_eq!(setting(), before, "{name}");
    }
}

#[test]
fn attackers_pass_where_they_are_admitted() {
    for name in FIREWALLS {
        let stateless = dut::driver(name).unwrap().capabilities().stateless;
        let rows = [(true, true), (true, false), (false, true)];
        for (admits_attackers, stateful) in rows.into_iter().filter(|row| row.1 || stateless) {
            let shape = PolicyShape { admits_attackers, stateful, ..tcp() };
            with_firewall(name, ZoneForm::Two, &shape, |_, _, policy, prober| {
                let probes = policy.probes();
                assert_eq!(prober.failures(&probes), Vec::<String>::new(), "{name}");
                for attacker in ["10.0.0.0", "10.255.255.255", "2001:2:1::", "2001:2:1::ff:ffff"] {
                    let attacker: IpAddr = attacker.parse().unwrap();
                    let is_v4 = attacker.is_ipv4();
                    let of = |what| {
                        probes
                            .iter()
                            .find(|p| p.name.starts_with(what) && p.source.is_ipv4() == is_v4)
                            .unwrap()
                    };
                    let (allowed, reply) = (of("allowed"), of("reply,"));
                    let syn = from_source(allowed, attacker, 5000);
                    let arrived = prober.try_with_fence(&probes, &syn).is_some();
                    assert_eq!(arrived, admits_attackers, "{name}: SYN from {attacker}");
                    let to = SocketAddr::new(attacker, 5000);
                    let answer = Probe { destination: to, destination_on_arrival: to, ..reply.clone() };
                    let answered = prober.try_with_fence(&probes, &answer).is_some();
                    assert_eq!(answered, admits_attackers, "{name}: answer to {attacker}");
                }
            });
        }
    }
}

#[test]
fn forwarders_know_the_way_to_attackers() {
    for name in ["linux", "xdp-redirect"] {
        for zones in [ZoneForm::Two, ZoneForm::Three] {
            with_firewall(name, zones, &plain(), |_, running, policy, prober| {
                for reset in [false, true] {
                    if reset {
                        running.reset().unwrap();
                    }
                    for (attacker, reply) in [("10.255.0.1", "IPv4"), ("2001:2:1::ff:1", "IPv6")] {
                        let to = SocketAddr::new(attacker.parse().unwrap(), 5000);
                        let probes = policy.probes();
                        let reply =
                            probes.iter().find(|p| p.name.starts_with("reply,") && p.name.ends_with(reply));
                        let answer =
                            Probe { destination: to, destination_on_arrival: to, ..reply.unwrap().clone() };
                        assert!(prober.try_with_fence(&probes, &answer).is_some(), "{name} {zones:?}: {to}");
                    }
                }
            });
        }
    }
}

#[test]
fn lists_and_tables_forbid_what_rules_would_allow() {
    use TestProtocol::{Tcp, Udp};
    for name in ["nftables", "nftables-map", "ipset", "rampart", "rampart-tc", "rampart-kernel"] {
        let capabilities = dut::driver(name).unwrap().capabilities();
        for (rules, lists, allowed_subnets, protocol) in
            [(0, 1, 0, Tcp), (0, 2, 100, Udp), (3, 3, 0, Tcp), (3, 3, 2000, Udp)]
        {
            let shape = PolicyShape {
                rules,
                match_position: rules,
                listed_addresses: 20_000,
                lists,
                allowed_subnets,
                protocol,
                stateful: rules > 0,
                ..plain()
            };
            let shape = capabilities.as_enforced(&shape);
            with_firewall(name, ZoneForm::Two, &shape, |_, running, policy, prober| {
                sets_are_in_force(name, running.as_ref(), policy, prober);
            });
        }
    }
}

fn sets_are_in_force(name: &str, running: &dyn Running, policy: &PolicySpec, prober: &mut Prober) {
    let probes = policy.probes();
    assert_eq!(prober.failures(&probes), Vec::<String>::new(), "{name}");
    assert_eq!(counter(running, "listed_drop"), policy.listed.len() as u64, "{name}: one probe a list");
    let allowed = named(&probes, "allowed, private");
    let sample = policy.listed_sample(60, 0);
    for address in &sample {
        let probe = from_source(allowed, *address, 4000);
        assert_eq!(prober.try_with_fence(&probes, &probe), None, "{name}: from {address}");
    }
    // Where the kernel forwards, Rampart looks for a way back before anything else, and there is one to a part of the world alone.
    let is_counted = name != "rampart-kernel";
    let counted = sample.iter().filter(|address| is_counted || WORLD_V4.contains(*address)).count();
    let all = policy.listed.len() + counted;
    assert_eq!(counter(running, "listed_drop"), all as u64, "{name}: {:?}", policy.shape);
    if policy.countries.is_empty() {
        return;
    }
    let before = counter(running, "country_drop");
    assert!(before > 0, "{name}: the table's probe is counted");
    let stranger = from_source(allowed, [203, 0, 113, 9], 4000);
    assert_eq!(prober.try_with_fence(&probes, &stranger), None, "{name}");
    assert_eq!(counter(running, "country_drop"), before + u64::from(is_counted), "{name}");
}

/// Loaded by several runs of nft, with the figure of what they took.
#[test]
fn long_lists_are_loaded_whole() {
    for (name, least_bytes) in [("nftables", 20_000_000), ("ipset", 20_000_000), ("rampart", 1_300_000 * 4)] {
        let shape = PolicyShape { listed_addresses: 1_300_000, lists: 1, ..tcp() };
        let mut figures = Vec::new();
        while figures.iter().all(|bytes| *bytes <= least_bytes) {
            assert!(
                figures.len() < TRIES_OF_A_FIGURE,
                "{name}: {figures:?} bytes are too few for 1.3 M addresses"
            );
            with_firewall(name, ZoneForm::Two, &shape, |_, running, policy, prober| {
                let seconds = running.policy_load_seconds().unwrap();
                let bytes = running.memory_bytes().unwrap_or(0);
                eprintln!("{name}: 1.3 M addresses in {seconds:.1} s, {} MB", bytes / 1_000_000);
                figures.push(bytes);
                sets_are_in_force(name, running.as_ref(), policy, prober);
            });
        }
    }
}

#[test]
fn policies_are_replaced_and_connections_go_on() {
    for name in FIREWALLS {
        let capabilities = dut::driver(name).unwrap().capabilities();
        for stateful in [true, false].into_iter().filter(|stateful| *stateful || capabilities.stateless) {
            let lists = capabilities.lists;
            let shape = PolicyShape {
                listed_addresses: if lists { 5000 } else { 0 },
                allowed_subnets: if lists { 100 } else { 0 },
                lists: 3,
                stateful,
                ..tcp()
            };
            let old = PolicySpec::generate_replaceable(&shape, ZoneForm::Two).unwrap();
            with_policy(name, &old, |_, running, old, prober| {
                let mut fresh = 0;
                let open = open_connection(prober, &old.probes(), 30_000);
                holds(name, old, &mut fresh, prober);
                let before = running.counters().unwrap();
                let new = old.successor().unwrap();
                for policy in [&new, old, &new] {
                    assert!(running.replace(policy).unwrap().command_seconds > 0.0);
                    running.check_alive().unwrap();
                    holds(name, policy, &mut fresh, prober);
                    let header = TcpHeader { sequence: AFTER, acknowledgement: NEXT, flags: PUSH | ACK };
                    let goes_on = prober.try_segment(&policy.probes(), &open.0, header).is_some();
                    assert!(goes_on, "{name}: the connection is lost");
                }
                for (counter, count) in running.counters().unwrap() {
                    assert!(count >= before[&counter], "{name}: {counter} fell");
                }
                running.reset().unwrap();
                holds(name, &new, &mut fresh, prober);
            });
        }
    }
}

/// At every moment of a replacement one of the two policies holds: what both allow arrives, what both forbid does not.
#[test]
fn no_packet_is_judged_by_neither_policy() {
    for name in FIREWALLS {
        let listed_addresses = if dut::driver(name).unwrap().capabilities().lists { 20_000 } else { 0 };
        let shape = PolicyShape { rules: 500, match_position: 500, listed_addresses, lists: 3, ..tcp() };
        let old = PolicySpec::generate_replaceable(&shape, ZoneForm::Two).unwrap();
        with_policy(name, &old, |_, running, old, prober| {
            let probes = old.probes();
            let open = open_connection(prober, &probes, 30_000);
            let header = TcpHeader { sequence: AFTER, acknowledgement: NEXT, flags: PUSH | ACK };
            let services = old.replacement_probes(IpVersion::V4).unwrap();
            let successor = old.successor().unwrap();
            let with_other_lists = successor.with_other_lists();
            std::thread::scope(|scope| {
                let replacing = scope.spawn(|| {
                    for policy in [&successor, old, &with_other_lists, old, &successor] {
                        running.replace(policy).unwrap();
                    }
                });
                let mut fresh = 0;
                while fresh < 2 || !replacing.is_finished() {
                    fresh += 2;
                    assert!(
                        prober.wait_for(&services.both.fresh(fresh)).is_some(),
                        "{name}: probe {fresh} is lost"
                    );
                    let neither = services.neither.fresh(fresh + 1);
                    assert_eq!(
                        prober.try_with_fence(&probes, &neither),
                        None,
                        "{name}: probe {fresh} got through"
                    );
                    let goes_on = prober.try_segment(&probes, &open.0, header).is_some();
                    assert!(goes_on, "{name}: the connection is lost");
                    for listed in probes.iter().filter(|probe| probe.name.contains("on list")) {
                        let arrived = prober.try_with_fence(&probes, listed);
                        assert_eq!(arrived, None, "{name}: {}, while lists were replaced", listed.name);
                    }
                }
                replacing.join().unwrap();
            });
        });
    }
}

/// The probes of a policy and of its replacement do as it says.
fn holds(name: &str, policy: &PolicySpec, fresh: &mut u32, prober: &mut Prober) {
    let probes = policy.probes();
    assert_eq!(prober.failures(&probes), Vec::<String>::new(), "{name}");
    for ip in [IpVersion::V4, IpVersion::V6] {
        let four = policy.replacement_probes(ip).unwrap();
        for probe in [four.old_only, four.new_only, four.both, four.neither] {
            *fresh += 1;
            let arrived = prober.try_with_fence(&probes, &probe.fresh(*fresh)).is_some();
            assert_eq!(arrived, probe.expect == Expect::Arrives, "{name}: {}", probe.name);
        }
    }
}

#[test]
fn lists_are_replaced() {
    for name in ["nftables", "ipset"] {
        let shape = PolicyShape { listed_addresses: 6000, lists: 3, ..tcp() };
        with_firewall(name, ZoneForm::Two, &shape, |_, running, old, prober| {
            let new = old.with_other_lists();
            let old_addresses = old.listed_sample(20, 0);
            for policy in [&new, old, &new] {
                running.replace(policy).unwrap();
                let before = counter(running.as_ref(), "listed_drop");
                let (probes, sample) = (policy.probes(), policy.listed_sample(20, 0));
                for address in old_addresses.iter().chain(&sample) {
                    let probe = from_source(named(&probes, "allowed"), *address, 4000);
                    assert_eq!(prober.try_with_fence(&probes, &probe), None, "{name}");
                }
                let dropped = counter(running.as_ref(), "listed_drop") - before;
                let wanted = if sample == old_addresses { 40 } else { 20 };
                assert_eq!(dropped, wanted, "{name}");
            }
        });
    }
}

#[test]
fn other_forms_and_other_firewalls_do_not_replace() {
    let policy = PolicySpec::generate_replaceable(&tcp(), ZoneForm::Two).unwrap();
    with_policy("nftables", &policy, |_, running, policy, prober| {
        for other in [
            PolicyShape { stateful: false, ..tcp() },
            PolicyShape { listed_addresses: 5, ..tcp() },
            PolicyShape { protocol: TestProtocol::Udp, ..tcp() },
        ] {
            let other = PolicySpec::generate(&other, ZoneForm::Two).unwrap();
            let error = running.replace(&other).unwrap_err().to_string();
            assert!(error.contains("same form"), "{error}");
        }
        assert_eq!(prober.failures(&policy.probes()), Vec::<String>::new());
    });
    with_firewall("linux", ZoneForm::Two, &plain(), |bed, running, _, _| {
        assert!(running.replace(&policy).unwrap_err().to_string().contains("cannot do"));
        assert!(bed.layout().port(Zone::Private).is_some());
    });
}
