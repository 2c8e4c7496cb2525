//! The kernel's drops of test frames are counted for the loss ledger, and of nobody else's. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use fixture::{Bed, FORWARD, Middle, fixed, shape};
use measure::shape::{IpVersion, Placement, TrafficShape, UdpChecksum};
use measure::trial::Load;
use std::net::UdpSocket;
use std::time::Instant;
use traffic::{SETTLE, TrialPlan};

const FRAMES: u64 = 500;

/// A router that throws away what goes to the hostile zone.
fn black_hole() -> Bed {
    let bed = Bed::new(Middle::Routing, 1500);
    let middle = bed.middle();
    middle.ip("route replace blackhole 198.19.0.0/16");
    middle.ip("-6 route del 2001:2:0:2::/64");
    middle.ip("-6 route add blackhole 2001:2:0:2::/64");
    middle.ip("link set lo up");
    bed
}

/// Datagrams that the kernel frees because nobody listens.
fn send_strangers(bed: &Bed) {
    bed.middle().enter(|| {
        for ip in ["127.0.0.1", "::1"] {
            let socket = UdpSocket::bind((ip, 0)).unwrap();
            for _ in 0..100 {
                socket.send_to(&[0; 64], (ip, 9)).unwrap();
            }
        }
    });
}

#[test]
fn drops_of_test_frames_are_counted_and_no_others_needs_root() {
    let _turn = testkit::turn();
    let bed = black_hole();
    let (mut engine, ports) = bed.engine(100);
    for (ip, fragments, bytes) in [
        (IpVersion::V4, 1, 64),
        (IpVersion::V4, 1, 1518),
        (IpVersion::V4, 2, 571),
        (IpVersion::V6, 1, 128),
        (IpVersion::V6, 2, 571),
    ] {
        let name = format!("{ip:?}, {fragments} fragments, {bytes} bytes");
        let udp_checksum = UdpChecksum::Valid;
        engine
            .set_traffic(&TrafficShape { ip, fragments, udp_checksum, ..shape(fixed(bytes), 100) })
            .unwrap();
        let plan = TrialPlan {
            translated: None,
            forbidden: None,
            phases: &[fixture::phase(Load::Burst(FRAMES))],
            lanes: &[(FORWARD, 1.0)],
            placement: Placement::Inline,
            cores: &fixture::cores(1),
            times_matter: false,
            settle: SETTLE,
        };
        let count = engine.count_drops().unwrap();
        let trial = engine.run(&ports, &plan, &mut ()).unwrap();
        // All are on their way to be dropped, and nothing tells when but the count.
        let (dropped, begun) = (|| engine.drops(&count).unwrap(), Instant::now());
        while dropped().values().sum::<u64>() < FRAMES && begun.elapsed() < 5 * fixture::PATIENCE {}
        send_strangers(&bed);
        let drops = dropped();
        assert_eq!((trial.sent(), trial.reading.received()), (FRAMES, 0), "{name}");
        assert_eq!(drops.values().sum::<u64>(), FRAMES, "{name}: {drops:?}");
    }
    engine.detach(ports);
}
