//! ARP and neighbour discovery: the box between the ports finds the test's hosts, and the engine finds the box.
//! Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use fixture::{Bed, FORWARD, HOSTILE_MAC, MIDDLE_HOSTILE_MAC, MIDDLE_PRIVATE_MAC, Middle, fixed, shape};
use measure::shape::{IpVersion, Placement, Zone};
use measure::trial::Load;
use traffic::{Engine, Ports, TrialPlan};

/// Sends 500 frames; how many arrived.
fn arrived(engine: &mut Engine, ports: &Ports, ip: IpVersion) -> u64 {
    let mut traffic = shape(fixed(128), 100);
    traffic.ip = ip;
    engine.set_traffic(&traffic).unwrap();
    let plan = TrialPlan {
        translated: None,
        forbidden: None,
        phases: &[fixture::phase(Load::Burst(500))],
        lanes: &[(FORWARD, 1.0)],
        placement: Placement::Inline,
        cores: &[0],
        times_matter: true,
        settle: fixture::PATIENCE,
    };
    let trial = engine.run(ports, &plan, &mut ()).unwrap();
    assert_eq!(trial.sent(), 500);
    trial.reading.streams[0].received
}

#[test]
fn a_router_without_neighbours_finds_the_hosts_by_asking() {
    let _turn = testkit::turn();
    for ip in [IpVersion::V4, IpVersion::V6] {
        let bed = Bed::new(Middle::AskingRouting, 1500);
        let (mut engine, ports) = bed.engine(100);
        assert_eq!(arrived(&mut engine, &ports, ip), 0, "{ip:?}: nobody answers unless asked to");
        engine.set_answer_neighbours(true);
        // What the router learnt from the silence must not count.
        bed.middle().ip("neigh flush all nud failed");
        bed.middle().ip("neigh flush all nud incomplete");
        assert_eq!(arrived(&mut engine, &ports, ip), 500, "{ip:?}: with answers");
        engine.detach(ports);
    }
}

#[test]
fn the_engine_finds_a_router() {
    let _turn = testkit::turn();
    let bed = Bed::new(Middle::Routing, 1500);
    let (mut engine, ports) = bed.engine(1);
    for (zone, target, mac) in [
        (Zone::Private, "198.18.0.1", MIDDLE_PRIVATE_MAC),
        (Zone::Hostile, "198.19.0.1", MIDDLE_HOSTILE_MAC),
        (Zone::Private, "2001:2:0:1::1", MIDDLE_PRIVATE_MAC),
        (Zone::Hostile, "2001:2:0:2::1", MIDDLE_HOSTILE_MAC),
    ] {
        assert_eq!(engine.resolve(&ports, zone, target.parse().unwrap()).unwrap(), mac, "{target}");
    }
    engine.detach(ports);
}

/// A wire joins the two ports: the hostile one answers what the private one asks.
#[test]
fn a_port_answers_for_its_hosts_and_for_nobody_else() {
    let _turn = testkit::turn();
    let bed = Bed::new(Middle::Wire, 1500);
    let (mut engine, ports) = bed.engine(1);
    engine.set_answer_neighbours(true);
    for (target, answer) in [
        ("198.19.1.0", true),
        ("198.19.0.2", true),
        ("198.19.127.255", true),
        ("2001:2:0:2::100", true),
        ("2001:2:0:2::2", true),
        ("2001:2:0:2::7fff", true),
        // Gateways, and what is no host of this zone.
        ("198.19.0.255", false),
        ("198.18.1.0", false),
        ("2001:2:0:2::ff", false),
        ("2001:2:0:3::100", false),
    ] {
        let found = engine.resolve(&ports, Zone::Private, target.parse().unwrap());
        assert_eq!(found.ok(), answer.then_some(HOSTILE_MAC), "{target}");
    }
    engine.set_answer_neighbours(false);
    let ifindex = bed.ports[0].ifindex;
    assert_eq!(
        engine.resolve(&ports, Zone::Private, "198.19.1.0".parse().unwrap()).unwrap_err().to_string(),
        format!(
            "nobody answers for 198.19.1.0 on port {ifindex} of zone private (3 questions, 500 ms each): check the cable \
             and that the box between the ports has this address there"
        )
    );
    engine.detach(ports);
}

/// Starting with no next hop at all: found, set, and used.
#[test]
fn a_next_hop_that_was_asked_for_takes_the_traffic() {
    let _turn = testkit::turn();
    let bed = Bed::new(Middle::Routing, 1500);
    let mut unknown = bed.ports.clone();
    for port in &mut unknown {
        port.next_hop_mac = [0; 6];
    }
    let mut engine = Engine::load(100).unwrap();
    let mut ports = engine.attach(&unknown).unwrap();
    assert_eq!(arrived(&mut engine, &ports, IpVersion::V4), 0);
    let mac = engine.resolve(&ports, Zone::Private, "198.18.0.1".parse().unwrap()).unwrap();
    ports.set_next_hop(Zone::Private, mac).unwrap();
    assert_eq!(arrived(&mut engine, &ports, IpVersion::V4), 500);
    engine.detach(ports);
}

/// A port that cannot be taken into use gives everything back, again and again.
#[test]
fn a_refused_bed_leaves_no_trace() {
    let _turn = testkit::turn();
    let bed = Bed::new(Middle::Wire, 1500);
    let mut engine = Engine::load(1).unwrap();
    let mut broken = bed.ports.clone();
    broken[1].ifindex = 4711;
    // The loader repeats every refusal on the terminal otherwise.
    libbpf_rs::set_print(None);
    for _ in 0..300 {
        assert!(
            engine
                .attach(&broken)
                .unwrap_err()
                .to_string()
                .contains("taking port 4711 of zone hostile into use")
        );
    }
    let ports = engine.attach(&bed.ports).unwrap();
    engine.detach(ports);
}
