//! Floods and illegal attempts beside TCP connections, on a bare wire and through Linux: each is counted for what it is, and
//! the connections do not notice. Needs root, iproute2, ethtool, nftables.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot run")]

#[path = "tcp/bed.rs"]
mod bed;

use bed::{Bed, PATIENCE};
use measure::connections::{Attack, AttackKind, AttackSources, IllegalKind};
use measure::shape::IpVersion;
use std::time::Duration;
use traffic::tcp::{Ends, Engine, FORBIDDEN_PORT, IllegalPlan, Opening, TcpPhase, TcpPlan, TcpReading};
use traffic::{TrafficError, Watch};

const LISTED: [u32; 3] = [0xc000_0201, 0xc000_0237, 0xc000_02fe];

/// 400 starts in 0.2 s.
fn plan(ip: IpVersion) -> TcpPlan {
    let mut plan = TcpPlan::new(Opening::Scheduled(vec![TcpPhase::constant(2000.0, 0.2)]));
    (plan.ip, plan.grace, plan.settle) = (ip, PATIENCE, PATIENCE);
    plan
}

/// 500 frames in the middle of it.
fn flood(kind: AttackKind) -> Attack {
    Attack {
        kind,
        frames_per_second: 5000.0,
        sources: AttackSources::Random,
        after_seconds: 0.05,
        seconds: 0.1,
    }
}

/// Every legal connection went as the plan says, and nothing else was taken for one.
fn assert_undisturbed(name: &str, reading: &TcpReading, connections: u64) {
    let c = &reading.counts;
    let ends = (c.attempted, c.established, c.completed, c.closed, c.server_syn, c.server_request);
    let n = connections;
    assert_eq!(ends, (n, n, n, n, n, n), "{name}: {c:?}");
    let odd = c.syn_again + c.request_again + c.duplicate + c.stray + c.strange_reset + c.server_stray;
    assert_eq!((odd, c.open(), reading.attempts()), (0, 0, reading.offered), "{name}: {c:?}");
    assert_eq!((c.frames_out, c.frames_in), (c.server_frames_in, c.server_frames_out), "{name}: {c:?}");
    // Kernels say hello over IPv6 where a link comes up; all of ours was recognised.
    assert!(reading.foreign < 20, "{name}: {}", reading.foreign);
}

#[test]
fn a_flood_beside_connections_is_counted_apart() {
    let _turn = testkit::turn();
    let bed = Bed::wire();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    for ip in [IpVersion::V4, IpVersion::V6] {
        for (cores, kind) in AttackKind::ALL
            .map(|kind| (vec![0], kind))
            .into_iter()
            .chain([(vec![0, 1], AttackKind::Syn), (vec![0, 1], AttackKind::Udp)])
        {
            let name = format!("{kind:?}, {ip:?}, {cores:?}");
            let plan = TcpPlan { attack: Some(flood(kind)), cores, ..plan(ip) };
            let reading = engine.run(&ports, &plan, &mut ()).unwrap();
            assert_undisturbed(&name, &reading, 400);
            let attack = reading.attack().unwrap();
            let answered = if kind == AttackKind::Syn { 500 } else { 0 };
            assert_eq!(
                (attack.offered, attack.sent, attack.forwarded, attack.answered),
                (500, 500, 500, answered),
                "{name}"
            );
            assert_eq!(reading.outcome().attack, Some(attack));
        }
    }
}

/// What of a flood arrives through rules, and what comes back.
#[test]
fn what_a_firewall_does_to_a_flood_is_seen_at_both_ports() {
    let _turn = testkit::turn();
    use AttackKind::{Ack, Fragment, Rst, Syn, SynAck, Udp};
    let bed = Bed::routed();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    let (routing, stateful) = ("accept", "ct state invalid drop");
    let mut seed = 0;
    let refusing = "meta l4proto tcp tcp flags syn / syn,ack @ATTACKERS reject with tcp reset";
    // Name, rule, and of each kind how many arrive and how many are answered.
    type Row = (&'static str, &'static str, Vec<(AttackKind, u64, u64)>);
    let rows: Vec<Row> = vec![
        (
            "routing",
            routing,
            AttackKind::ALL.iter().map(|&k| (k, 500, if k == Syn { 500 } else { 0 })).collect(),
        ),
        // Connection tracking also proves the checksums, and collects fragments.
        (
            "stateful",
            stateful,
            vec![(Syn, 500, 500), (SynAck, 0, 0), (Ack, 0, 0), (Rst, 0, 0), (Udp, 500, 0), (Fragment, 0, 0)],
        ),
        ("dropped", "@ATTACKERS drop", AttackKind::ALL.iter().map(|&k| (k, 0, 0)).collect()),
        ("refused", refusing, vec![(Syn, 0, 500), (Udp, 500, 0)]),
    ];
    for (ip, family, attackers) in
        [(IpVersion::V4, "ip", "ip saddr 10.0.0.0/8"), (IpVersion::V6, "ip6", "ip6 saddr 2001:2:1::/104")]
    {
        for (name, rule, kinds) in &rows {
            let rule = rule.replace("@ATTACKERS", attackers);
            for &(kind, forwarded, answered) in kinds {
                bed.set_rules_of(
                    family,
                    &format!("chain f {{ type filter hook forward priority 0 ; {rule} ; }}"),
                );
                let name = format!("{name}, {kind:?}, {ip:?}");
                // Another seed, so that connection tracking knows none of the addresses and ports from the flood before.
                seed += 1;
                let plan = TcpPlan { attack: Some(flood(kind)), seed, ..plan(ip) };
                let reading = engine.run(&ports, &plan, &mut ()).unwrap();
                assert_eq!(reading.counts.closed, 400, "{name}: {:?}", reading.counts);
                let attack = reading.attack().unwrap();
                assert_eq!(
                    (attack.sent, attack.forwarded, attack.answered),
                    (500, forwarded, answered),
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn a_flood_comes_from_as_many_addresses_as_asked() {
    let _turn = testkit::turn();
    let bed = Bed::routed();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    for (sources, least, most) in [
        (AttackSources::Distinct(1), 1, 1),
        (AttackSources::Distinct(5), 5, 5),
        (AttackSources::Random, 490, 500),
    ] {
        bed.set_rules(
            "set s { type ipv4_addr ; flags dynamic ; size 65535 ; } \
             chain f { type filter hook forward priority 0 ; ip saddr 10.0.0.0/8 add @s { ip saddr }drop ; }",
        );
        let plan =
            TcpPlan { attack: Some(Attack { sources, ..flood(AttackKind::Udp) }), ..plan(IpVersion::V4) };
        engine.run(&ports, &plan, &mut ()).unwrap();
        let listed = bed.router().run("nft", &["list", "set", "ip", "t", "s"]);
        let seen = listed.split([' ', '\t']).filter(|word| word.starts_with("10.")).count();
        assert!((least..=most).contains(&seen), "{sources:?}: {seen} in {listed}");
    }
}

/// Adds up its samples' seconds.
#[derive(Default)]
struct Seconds(Option<TcpReading>, Vec<measure::connections::ConnectionSecond>);

impl Watch<TcpReading> for Seconds {
    fn sample_every(&self) -> Duration {
        Duration::from_millis(20)
    }

    fn sample(&mut self, _at_seconds: f64, reading: &TcpReading) {
        if let Some(last) = &self.0 {
            self.1.push(reading.second(last));
        }
        self.0 = Some(reading.clone());
    }
}

#[test]
fn samples_tell_what_happened_between_them() {
    let _turn = testkit::turn();
    let bed = Bed::wire();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    let plan = TcpPlan { attack: Some(flood(AttackKind::Syn)), ..plan(IpVersion::V4) };
    let mut seconds = Seconds::default();
    let first = TcpReading::default();
    seconds.sample(0.0, &first);
    let outcome = engine.run(&ports, &plan, &mut seconds).unwrap().outcome();
    let sum = |of: fn(&measure::connections::ConnectionSecond) -> u64| seconds.1.iter().map(of).sum::<u64>();
    assert_eq!((sum(|s| s.established), outcome.established), (400, 400));
    assert_eq!((sum(|s| s.attack_sent), sum(|s| s.attack_forwarded)), (500, 500));
    assert_eq!((sum(|s| s.frames), sum(|s| s.bits)), (outcome.frames, outcome.bits));
    assert_eq!(sum(|s| s.established_ns.map_or(0, |t| t.count)), 400);
    let longest = seconds.1.iter().filter_map(|s| s.established_ns).map(|t| t.max).fold(0.0, f64::max);
    assert_eq!(longest, outcome.times.established_ns.unwrap().max);
    // SYN, SYN-ACK, request, answer, RST.
    assert_eq!((outcome.frames, outcome.failed.len()), (5 * 400, 0));
}

/// Rules that let everything through and count what was promised to be sent.
fn counting(ip: IpVersion) -> String {
    let forbidden = match ip {
        IpVersion::V4 => "ip saddr 203.0.113.0/24",
        IpVersion::V6 => "ip6 saddr 2001:db8::cb00:7100/120",
    };
    format!(
        "counter address {{ \n}} counter port {{ \n}} counter protocol {{ \n}} \
         chain f {{ type filter hook forward priority 0 ; {forbidden} tcp flags == syn counter name address ; \
         tcp dport 60000 tcp flags == syn counter name port ; meta l4proto 253 counter name protocol ; }}"
    )
}

#[test]
fn illegal_attempts_are_distinguished_and_stopped() {
    let _turn = testkit::turn();
    let bed = Bed::routed();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    let policy = "set listed { type ipv4_addr ; elements = { 192.0.2.1, 192.0.2.55, 192.0.2.254 }\n } \
        chain f { type filter hook forward priority 0 ; policy drop ; ct state established accept ; \
        ct state invalid drop ; FORBID SOURCE tcp dport 80 tcp flags & (fin|syn|rst|ack) == syn ct state new accept ; }";
    let rules = |ip, forbid: &str| match ip {
        IpVersion::V4 => policy.replace("FORBID", forbid).replace("SOURCE", "ip saddr 198.18.0.0/16"),
        IpVersion::V6 => policy.replace("FORBID", "").replace("SOURCE", "ip6 saddr fd00:1::/32"),
    };
    for ip in [IpVersion::V4, IpVersion::V6] {
        let family = if ip == IpVersion::V4 { "ip" } else { "ip6" };
        let kinds: Vec<_> = IllegalKind::ALL
            .into_iter()
            .filter(|k| ip == IpVersion::V4 || *k != IllegalKind::Listed)
            .collect();
        for (through, rules) in [(true, counting(ip)), (false, rules(ip, ""))] {
            bed.set_rules_of(family, &rules);
            let name = format!("{ip:?}, through: {through}");
            let mut plan = plan(ip);
            // Some connection is open at every moment, however long the generator is kept from its core.
            plan.hold = Duration::from_secs(1);
            plan.cores = if ip == IpVersion::V4 { vec![0] } else { vec![0, 1] };
            let listed = if ip == IpVersion::V4 { LISTED.to_vec() } else { Vec::new() };
            plan.illegal = Some(IllegalPlan {
                share: 0.25,
                kinds: kinds.clone(),
                ports: FORBIDDEN_PORT..=FORBIDDEN_PORT,
                listed,
                watches: false,
            });
            plan.clients.ports = 50_000;
            plan.tuples = 50_000;
            let reading = engine.run(&ports, &plan, &mut ()).unwrap();
            let outcome = reading.illegal().unwrap();
            assert_eq!(reading.counts.closed, 300, "{name}: {:?}", reading.counts);
            assert_eq!(outcome.attempted.values().sum::<u64>(), 100, "{name}: {outcome:?}");
            assert_eq!(outcome.attempted.len(), kinds.len(), "{name}: {outcome:?}");
            let even = 100 / kinds.len() as u64;
            assert!(outcome.attempted.values().all(|n| n.abs_diff(even) <= 2), "{name}: {outcome:?}");
            if through {
                assert_undisturbed(&name, &reading, 300);
                assert_eq!(outcome.got_through, outcome.attempted, "{name}");
                for kind in ["address", "port", "protocol"] {
                    let counter = bed.router().run("nft", &["list", "counter", family, "t", kind]);
                    let packets = counter.split("packets ").nth(1).unwrap().split(' ').next().unwrap();
                    assert_eq!(packets.parse(), Ok(outcome.attempted[kind]), "{name}: {counter}");
                }
            } else {
                assert_eq!(outcome.total_got_through(), 0, "{name}: {outcome:?}");
            }
        }
    }
}

#[test]
fn the_share_of_illegal_attempts_comes_out_even() {
    let _turn = testkit::turn();
    let bed = Bed::wire();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    for (share, legal, cores) in [(0.8, 1000, vec![0]), (0.8, 1001, vec![0, 1]), (0.3, 500, vec![0, 1])] {
        let attempts = IllegalPlan::attempts(legal, share);
        let illegal = IllegalPlan {
            share,
            kinds: vec![IllegalKind::Port],
            ports: FORBIDDEN_PORT..=FORBIDDEN_PORT,
            listed: Vec::new(),
            watches: false,
        };
        let plan = TcpPlan {
            opening: Opening::Scheduled(vec![TcpPhase::counted(attempts, 20_000.0)]),
            cores,
            illegal: Some(illegal),
            ..plan(IpVersion::V4)
        };
        let reading = engine.run(&ports, &plan, &mut ()).unwrap();
        assert_eq!(reading.counts.attempted, legal, "{share}");
        assert_eq!(reading.illegal().unwrap().attempted["port"], attempts - legal, "{share}");
    }
}

#[test]
fn a_firewall_that_answers_forbidden_addresses_lets_them_through() {
    let _turn = testkit::turn();
    let bed = Bed::routed();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    bed.set_rules(
        "chain p { type filter hook prerouting priority -300 ; iifname left tcp flags syn / syn,ack notrack ; } \
         chain f { type filter hook forward priority 0 ; \
         ct state invalid,untracked synproxy mss 1460 wscale 7 timestamp sack-perm ; ct state invalid drop ; }",
    );
    let mut plan = plan(IpVersion::V4);
    let kinds = vec![IllegalKind::Address, IllegalKind::Listed, IllegalKind::Port, IllegalKind::Rst];
    plan.illegal = Some(IllegalPlan {
        share: 0.25,
        kinds,
        ports: FORBIDDEN_PORT..=FORBIDDEN_PORT,
        listed: LISTED.to_vec(),
        watches: false,
    });
    let reading = engine.run(&ports, &plan, &mut ()).unwrap();
    let outcome = reading.illegal().unwrap();
    assert_eq!(reading.counts.closed, 300, "{:?}", reading.counts);
    let through: Vec<_> = outcome.got_through.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(through, [("address", 25), ("listed", 25), ("port", 25)], "{outcome:?}");
}

#[test]
fn without_an_open_connection_another_kind_has_its_turn() {
    let _turn = testkit::turn();
    let bed = Bed::wire();
    let mut engine = Engine::load(70_000).unwrap();
    // Nobody answers, so that no connection is ever open.
    let ports = engine.attach(&bed.client, &bed.server, Ends::Client).unwrap();
    for (kinds, legal) in
        [(vec![IllegalKind::OutOfWindow, IllegalKind::Port], 300), (vec![IllegalKind::OutOfWindow], 400)]
    {
        let mut plan = plan(IpVersion::V4);
        (plan.retry, plan.retries) = (Duration::from_millis(40), 0);
        plan.illegal = Some(IllegalPlan {
            share: 0.25,
            kinds,
            ports: FORBIDDEN_PORT..=FORBIDDEN_PORT,
            listed: Vec::new(),
            watches: false,
        });
        let reading = engine.run(&ports, &plan, &mut ()).unwrap();
        let c = &reading.counts;
        assert_eq!((c.attempted, c.timeout_connect, c.open()), (legal, legal, 0), "{c:?}");
        let attempted = reading.illegal().unwrap().attempted;
        assert_eq!(attempted["out-of-window"], 0);
        assert_eq!(attempted.values().sum::<u64>(), 400 - legal);
    }
}

#[test]
fn a_flood_from_the_clients_own_network_is_refused() {
    let _turn = testkit::turn();
    let bed = Bed::wire();
    let mut engine = Engine::load(70_000).unwrap();
    let inside = traffic::Port { v4_prefix: 0x0a01_0000, ..bed.client.clone() };
    let ports = engine.attach(&inside, &bed.server, Ends::Both).unwrap();
    let plan = TcpPlan { attack: Some(flood(AttackKind::Syn)), ..plan(IpVersion::V4) };
    assert!(matches!(engine.run(&ports, &plan, &mut ()), Err(TrafficError::Impossible(_))));
}
