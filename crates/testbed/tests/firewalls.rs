//! Every driver with every kind of policy, on real beds, proved by probes; and the proof itself: when the firewall
//! is interfered with, probes must notice.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests stop at the first thing that is wrong, and one says what it skips"
)]

mod common;

use common::{must_be_root, plain, spec, with_firewall};
use measure::shape::{PolicyShape, TestProtocol, Zone, ZoneForm};
use rule_sets::Family;
use testbed::TestbedError;
use testbed::bed::Bed;
use testbed::dut::{self, Behaviour, PlainForwarder, Running};
use testbed::policy::{Expect, PolicySpec, Segment};

fn prove(name: &str, zones: ZoneForm, shape: &PolicyShape) {
    with_firewall(name, zones, shape, |_, running, policy, prober| {
        let failures = prober.failures(&[policy.probes(), policy.rule_probes(true, 3)].concat());
        assert!(failures.is_empty(), "{name} {zones:?} {shape:?}: {failures:#?}");
        running.check_alive().unwrap();
        running.counters().unwrap();
    });
}

#[test]
fn forwarders_forward_everything() {
    for (name, zones) in [
        ("wire", ZoneForm::Two),
        ("xdp-redirect", ZoneForm::Two),
        ("xdp-redirect", ZoneForm::Three),
        ("linux", ZoneForm::Two),
        ("linux", ZoneForm::Three),
        ("linux-bridge", ZoneForm::Two),
        ("nftables", ZoneForm::Two),
        ("iptables", ZoneForm::Two),
    ] {
        prove(name, zones, &plain());
    }
}

/// Every filter with these rules, in all the forms that matter.
fn prove_filter(name: &str) {
    prove_filter_with(name, &[(1, 1), (10, 4), (1000, 1000)]);
}

fn prove_filter_with(name: &str, rows: &[(u32, u32)]) {
    for &(rules, match_position) in rows {
        for stateful in [true, false] {
            for zones in [ZoneForm::Two, ZoneForm::Three] {
                for protocol in [TestProtocol::Udp, TestProtocol::Tcp] {
                    let shape = PolicyShape { rules, match_position, stateful, protocol, ..plain() };
                    prove(name, zones, &shape);
                }
            }
        }
    }
}

#[test]
fn nftables_enforces_its_rules() {
    prove_filter("nftables");
}

#[test]
fn nftables_map_enforces_its_rules() {
    prove_filter("nftables-map");
}

#[test]
fn ovs_enforces_its_rules() {
    prove_filter_with("ovs", &[(10, 4)]);
    prove(
        "ovs",
        ZoneForm::Two,
        &PolicyShape { rules: 1000, match_position: 1000, stateful: true, ..plain() },
    );
    prove("ovs", ZoneForm::Three, &plain());
}

/// What the switch has from its sockets, the kernel's stack does not have a second time, and so does not drop.
#[test]
fn frames_for_ovs_do_not_reach_the_kernels_stack() {
    let shape = PolicyShape { rules: 10, match_position: 4, stateful: true, ..plain() };
    with_firewall("ovs", ZoneForm::Two, &shape, |bed, _, policy, prober| {
        assert!(prober.failures(&policy.probes()).is_empty());
        let counters = bed.firewall().unwrap().run("cat", &["/proc/net/snmp"]).unwrap();
        let values = counters.lines().filter(|line| line.starts_with("Ip: ")).nth(1).unwrap();
        // Forwarding, DefaultTTL, InReceives.
        assert_eq!(values.split_whitespace().nth(3), Some("0"), "{counters}");
    });
}

/// Where the kernel has flow tables. Where it has none, the driver says so.
#[test]
fn nftables_flowtable_takes_over_connections() {
    must_be_root();
    let driver = dut::driver("nftables-flowtable").unwrap();
    if !driver.requirements().iter().all(dut::Requirement::is_met) {
        eprintln!("skipped: this kernel has no flow tables; only what is said about that is tested");
        let bed = Bed::build(&spec(ZoneForm::Two, driver.wiring())).unwrap();
        let shape = PolicyShape { rules: 1, match_position: 1, stateful: true, ..plain() };
        let policy = PolicySpec::generate(&shape, ZoneForm::Two).unwrap();
        let error = driver.set_up(&bed, &policy).err().unwrap();
        assert!(error.is_machine() && error.to_string().contains("flow tables"), "{error}");
        return;
    }
    for zones in [ZoneForm::Two, ZoneForm::Three] {
        for protocol in [TestProtocol::Udp, TestProtocol::Tcp] {
            let shape = PolicyShape { rules: 10, match_position: 4, stateful: true, protocol, ..plain() };
            prove("nftables-flowtable", zones, &shape);
        }
    }
    let shape = PolicyShape { rules: 10, match_position: 10, stateful: true, ..plain() };
    with_firewall("nftables-flowtable", ZoneForm::Two, &shape, |bed, _, policy, prober| {
        let probes = policy.probes();
        assert!(prober.failures(&probes).is_empty());
        // The reply made the connection an established one: with the next frame it is the fast path's.
        let allowed = probes.iter().find(|p| p.name.starts_with("allowed")).unwrap();
        assert!(prober.wait_for(allowed).is_some());
        let entries = bed.firewall().unwrap().run("conntrack", &["-L"]).unwrap();
        assert!(entries.contains("[OFFLOAD]"), "{entries}");
        assert!(prober.wait_for(allowed).is_some());
    });
}

#[test]
fn iptables_enforces_its_rules() {
    prove_filter("iptables");
}

#[test]
fn ipset_enforces_its_rules() {
    prove("ipset", ZoneForm::Two, &PolicyShape { rules: 10, match_position: 10, stateful: true, ..plain() });
}

/// They have rules of any protocol, from anywhere, and with source ports, which every driver writes in its own way.
#[test]
fn rules_of_families_are_enforced() {
    for (name, family) in [
        ("nftables", "fw1"),
        ("nftables-map", "acl1"),
        ("iptables", "fw1"),
        ("ovs", "ipc1"),
        ("rampart", "fw1"),
        ("rampart-kernel", "ipc2"),
    ] {
        for (zones, protocol) in [(ZoneForm::Two, TestProtocol::Udp), (ZoneForm::Three, TestProtocol::Tcp)] {
            let rule_family = Family::named(family);
            let asked = PolicyShape {
                rules: 100,
                match_position: 60,
                stateful: true,
                rule_family,
                protocol,
                ..plain()
            };
            prove(name, zones, &asked);
        }
    }
}

/// It keeps state with any policy; without rules it lets everything open. Loading it takes longest of all, so each number of rules, form of
/// the bed and protocol meets each of the others once at least, and not all three together.
#[test]
fn rampart_enforces_its_rules_and_keeps_state_without_them() {
    use TestProtocol::{Tcp, Udp};
    use ZoneForm::{Three, Two};
    for name in ["rampart", "rampart-tc", "rampart-kernel"] {
        for (rules, zones, protocol) in [
            (0, Two, Udp),
            (0, Three, Tcp),
            (1, Two, Tcp),
            (1, Three, Udp),
            (1000, Two, Udp),
            (1000, Three, Tcp),
        ] {
            let asked = PolicyShape { rules, match_position: rules, protocol, ..plain() };
            prove(name, zones, &dut::driver(name).unwrap().capabilities().as_enforced(&asked));
        }
    }
}

/// The same rules on a bridge, whose ends have no addresses.
#[test]
fn rampart_enforces_its_rules_as_a_bridge() {
    for name in ["rampart-bridge", "rampart-tc-bridge"] {
        let driver = dut::driver(name).unwrap();
        for (rules, protocol) in [(0, TestProtocol::Udp), (10, TestProtocol::Tcp), (1000, TestProtocol::Udp)]
        {
            let asked = PolicyShape { rules, match_position: rules, protocol, ..plain() };
            prove(name, ZoneForm::Two, &driver.capabilities().as_enforced(&asked));
        }
        assert!(driver.capabilities().lacks(&plain(), ZoneForm::Three).is_some(), "{name}");
    }
}

#[test]
fn translation_maps_the_private_prefix_both_ways() {
    for name in ["nftables", "nftables-map", "iptables", "ipset"] {
        for rules in [0, 10] {
            for zones in [ZoneForm::Two, ZoneForm::Three] {
                for protocol in [TestProtocol::Udp, TestProtocol::Tcp] {
                    let shape = PolicyShape {
                        rules,
                        match_position: rules,
                        stateful: true,
                        nat: true,
                        protocol,
                        ..plain()
                    };
                    prove(name, zones, &shape);
                }
            }
        }
    }
}

#[test]
fn drops_and_connections_are_counted() {
    for name in ["nftables", "nftables-map", "iptables", "ovs"] {
        for protocol in [TestProtocol::Udp, TestProtocol::Tcp] {
            let shape = PolicyShape { rules: 10, match_position: 3, stateful: true, protocol, ..plain() };
            with_firewall(name, ZoneForm::Two, &shape, |_, running, policy, prober| {
                let drops = |r: &dyn Running| {
                    let counters = r.counters().unwrap();
                    ["default_drop", "invalid_drop"].map(|name| counters.get(name).copied().unwrap_or(0))
                };
                let before = drops(running.as_ref());
                assert_eq!(running.flow_entries().unwrap(), Some(0), "{name}");
                let probes = policy.probes();
                assert!(prober.failures(&probes).is_empty());
                let dropped = probes.iter().filter(|p| p.expect == Expect::Dropped);
                let (strays, others): (Vec<_>, Vec<_>) =
                    dropped.partition(|p| matches!(p.segment, Some(Segment::SynAck | Segment::Ack)));
                let after = drops(running.as_ref());
                assert_eq!(after[0] - before[0], others.len() as u64, "{name} {protocol:?}");
                assert_eq!(after[1] - before[1], strays.len() as u64, "{name} {protocol:?}");
                // One a family: every reply belongs to the connection of the allowed probe.
                assert_eq!(running.flow_entries().unwrap(), Some(2), "{name}");
                assert!(running.memory_bytes().is_none_or(|bytes| bytes > 0), "{name}");
                assert!(running.policy_load_seconds().is_some_and(|seconds| seconds > 0.0), "{name}");
            });
        }
    }
}

#[test]
fn a_reset_forgets_connections_and_keeps_the_policy() {
    for (name, shape) in [
        ("nftables", PolicyShape { rules: 10, match_position: 3, stateful: true, ..plain() }),
        ("nftables-map", PolicyShape { rules: 10, match_position: 3, stateful: true, ..plain() }),
        ("iptables", PolicyShape { rules: 10, match_position: 3, stateful: true, ..plain() }),
        ("ovs", PolicyShape { rules: 10, match_position: 3, stateful: true, ..plain() }),
        ("linux", plain()),
        ("linux-bridge", plain()),
        ("rampart-bridge", PolicyShape { rules: 10, match_position: 3, stateful: true, ..plain() }),
        ("xdp-redirect", plain()),
    ] {
        with_firewall(name, ZoneForm::Two, &shape, |_, running, policy, prober| {
            assert!(prober.failures(&policy.probes()).is_empty());
            running.reset().unwrap();
            running.check_alive().unwrap();
            assert!(matches!(running.flow_entries().unwrap(), None | Some(0)), "{name}");
            let failures = prober.failures(&policy.probes());
            assert!(failures.is_empty(), "{name}: {failures:#?}");
        });
    }
}

#[test]
fn forwarders_count_one_hop() {
    static KNOWN: PlainForwarder = PlainForwarder::known("known", Behaviour::OnlyForwards);
    dut::add(&KNOWN).unwrap();
    for (name, ttl) in [("wire", 64), ("xdp-redirect", 63), ("known", 63), ("linux", 63)] {
        arrives_with(name, ttl);
    }
}

#[test]
fn bridges_count_no_hop() {
    for name in ["linux-bridge", "rampart-bridge", "rampart-tc-bridge"] {
        arrives_with(name, 64);
    }
}

/// Every probe comes through with that hop limit.
fn arrives_with(name: &str, ttl: u8) {
    with_firewall(name, ZoneForm::Two, &plain(), |_, _, policy, prober| {
        for probe in policy.probes() {
            assert_eq!(prober.wait_for(&probe).map(|a| a.ttl), Some(ttl), "{name} {}", probe.name);
        }
    });
}

/// The proof can fail: each way of breaking a firewall is noticed by its probes and by its driver.
#[test]
fn interference_is_noticed() {
    let rows: [(&str, &str, &[&str]); 4] = [
        ("nftables", "nft", &["flush", "ruleset"]),
        ("nftables-map", "nft", &["flush", "ruleset"]),
        ("iptables", "iptables", &["-P", "FORWARD", "ACCEPT"]),
        ("ipset", "iptables", &["-P", "FORWARD", "ACCEPT"]),
    ];
    let shape = PolicyShape { rules: 10, match_position: 3, stateful: true, ..plain() };
    for (name, program, arguments) in rows {
        with_firewall(name, ZoneForm::Two, &shape, |bed, running, policy, prober| {
            let probes = policy.probes();
            assert!(prober.failures(&probes).is_empty());
            let firewall = bed.firewall().unwrap();
            firewall.run(program, arguments).unwrap();
            if program == "iptables" {
                firewall.run(program, &["-F"]).unwrap();
            }
            let forbidden = probes.iter().find(|p| p.expect == Expect::Dropped).unwrap();
            assert!(prober.wait_for(forbidden).is_some(), "{name}: {} must arrive now", forbidden.name);
            assert!(running.check_alive().is_err(), "{name}");
        });
    }
}

#[test]
fn a_firewall_that_stops_forwarding_is_noticed() {
    for (name, setting) in [("linux", "ipv4/ip_forward"), ("linux", "ipv6/conf/all/forwarding")] {
        with_firewall(name, ZoneForm::Two, &plain(), |bed, running, _, _| {
            running.check_alive().unwrap();
            bed.firewall().unwrap().set(&[(setting, "0")]).unwrap();
            let error = running.check_alive().unwrap_err().to_string();
            assert!(error.contains("forwarding was turned off"), "{error}");
        });
    }
    for (name, change) in [
        ("linux", &["link", "set", "dev", "DEVICE", "down"][..]),
        ("xdp-redirect", &["link", "set", "dev", "DEVICE", "down"]),
        ("linux", &["link", "del", "dev", "DEVICE"]),
    ] {
        with_firewall(name, ZoneForm::Two, &plain(), |bed, running, _, _| {
            running.check_alive().unwrap();
            let end = bed.layout().port(Zone::Private).unwrap().firewall.clone().unwrap();
            let words: Vec<&str> =
                change.iter().map(|w| if *w == "DEVICE" { end.device.as_str() } else { *w }).collect();
            end.namespace.run("ip", &words).unwrap();
            let error = running.check_alive().unwrap_err().to_string();
            assert!(error.contains("gone or down"), "{error}");
        });
    }
}

#[test]
fn what_a_firewall_cannot_do_is_refused() {
    must_be_root();
    let rules = PolicyShape { rules: 1, match_position: 1, ..plain() };
    let rules_again = rules.clone();
    let rows = [
        ("linux", rules.clone(), "linux cannot do rules"),
        ("xdp-redirect", PolicyShape { nat: true, ..plain() }, "xdp-redirect cannot do address translation"),
        ("iptables", PolicyShape { listed_addresses: 5, ..rules }, "iptables cannot do lists"),
        (
            "iptables",
            PolicyShape { allowed_subnets: 50, ..rules_again },
            "iptables cannot do a country table",
        ),
        (
            "rampart",
            PolicyShape { protocol: TestProtocol::Tcp, ..plain() },
            "rampart cannot do forwarding TCP",
        ),
        ("external", plain(), "--ports"),
    ];
    for (name, shape, message) in rows {
        let driver = dut::driver(name).unwrap();
        let bed = Bed::build(&spec(ZoneForm::Two, driver.wiring())).unwrap();
        let policy = PolicySpec::generate(&shape, ZoneForm::Two).unwrap();
        let error: TestbedError = driver.set_up(&bed, &policy).err().unwrap();
        assert!(error.to_string().contains(message), "{error}");
    }
}
