//! Datagrams in two IP fragments: all arrive, also through a firewall that puts them together and cuts them again, and the
//! kernel finds whole datagrams in them. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use fixture::weather::{Sky, Weather};
use fixture::{BACK, Bed, FORWARD, Middle, PRIVATE_MAC, fixed, shape};
use measure::frame::{FrameMix, FrameSize, smallest_fragmented_frame};
use measure::shape::{IpVersion, Lane, Placement, TrafficShape, UdpChecksum};
use measure::trial::Load;
use std::net::UdpSocket;
use std::time::Duration;
use traffic::{Engine, Ports, SETTLE, TrialPlan, TrialReading};

/// What a socket's default buffer holds.
const DATAGRAMS: usize = 20;

fn in_fragments(frame: FrameMix, ip: IpVersion, flows: u32) -> TrafficShape {
    TrafficShape { fragments: 2, ip, udp_checksum: UdpChecksum::Valid, ..shape(frame, flows) }
}

fn trial(
    engine: &mut Engine,
    ports: &Ports,
    lanes: &[(Lane, f64)],
    load: Load,
    cores: usize,
) -> TrialReading {
    trial_that_settles(fixture::PATIENCE, engine, ports, lanes, load, cores)
}

/// A burst of which nothing comes back, so that nothing is waited for: whoever takes it in the middle waits for it.
fn burst(engine: &mut Engine, ports: &Ports, frames: usize) {
    let load = Load::Burst(frames as u64);
    let seen = trial_that_settles(SETTLE, engine, ports, &[(FORWARD, 1.0)], load, 1);
    assert_eq!(seen.sent(), frames as u64);
}

fn trial_that_settles(
    settle: Duration,
    engine: &mut Engine,
    ports: &Ports,
    lanes: &[(Lane, f64)],
    load: Load,
    cores: usize,
) -> TrialReading {
    let phases = [fixture::phase(load)];
    let plan = TrialPlan {
        translated: None,
        forbidden: None,
        phases: &phases,
        lanes,
        placement: Placement::Inline,
        cores: &fixture::cores(cores),
        times_matter: false,
        settle,
    };
    engine.run(ports, &plan, &mut ()).unwrap()
}

fn track_connections(bed: &Bed) {
    let rules = "table inet t {\nchain f {\ntype filter hook forward priority 0\npolicy drop\n\
                 ct state established accept\nip daddr 198.19.0.0/16 accept\nip6 daddr 2001:2:0:2::/64 accept\n}\n}\n";
    bed.middle().nft(rules);
}

fn mixed() -> FrameMix {
    FrameMix::sequence("mixed", [128, 1518, 571].map(|b| FrameSize::new(b).unwrap()).to_vec()).unwrap()
}

fn lost_at_links(bed: &Bed, middle: Middle) -> u64 {
    if middle == Middle::Wire { 0 } else { bed.lost_at_links() }
}

#[test]
fn every_fragment_arrives_needs_root() {
    let _turn = testkit::turn();
    for (middle, tracked) in [(Middle::Wire, false), (Middle::Routing, false), (Middle::Routing, true)] {
        let bed = Bed::new(middle, 1500);
        let (mut engine, ports) = bed.engine(1000);
        if tracked {
            track_connections(&bed);
        }
        for ip in [IpVersion::V4, IpVersion::V6] {
            for frame in [fixed(smallest_fragmented_frame(ip)), fixed(1024), mixed()] {
                let name = format!("{middle:?} tracked {tracked} {ip:?} {frame}");
                engine.set_traffic(&in_fragments(frame, ip, 300)).unwrap();
                let both = [(FORWARD, 0.5), (BACK, 0.5)];
                for (lanes, load, cores, frames) in [
                    (&[(FORWARD, 1.0)][..], Load::Burst(1200), 1, 1200),
                    (&both[..], Load::Burst(2000), 2, 2000),
                    (&[(FORWARD, 1.0)][..], Load::PerSecond(20_000.0), 1, 2000),
                ] {
                    let lost_before = lost_at_links(&bed, middle);
                    let seen = trial(&mut engine, &ports, lanes, load, cores);
                    let lost = lost_at_links(&bed, middle) - lost_before;
                    let sum = |of: fn(&traffic::StreamCounts) -> u64| {
                        seen.reading.streams.iter().map(of).sum::<u64>()
                    };
                    // A paced sender without its core leaves datagrams out, but never half a datagram.
                    assert_eq!(seen.offered, frames, "{name} {load:?}");
                    assert!(seen.sent().is_multiple_of(2) && seen.sent() > 0, "{name} {load:?}: {seen:?}");
                    if matches!(load, Load::Burst(_)) {
                        assert_eq!(seen.sent(), frames, "{name} {load:?}");
                    }
                    assert_eq!(
                        sum(|s| s.received) + lost,
                        seen.sent(),
                        "{name} {load:?}, {lost} lost at links: {:?}",
                        seen.reading.streams
                    );
                    // What a kernel put together and cut again may leave by another core than it came in at.
                    assert!(lost == 0 || (tracked && cores > 1), "{name} {load:?}: {lost} lost at links");
                    assert!(
                        lost > 0 || sum(|s| s.received_bytes) == sum(|s| s.sent_bytes),
                        "{name} {load:?}: {:?}",
                        seen.reading.streams
                    );
                    assert_eq!(
                        sum(|s| s.corrupted + s.duplicated + s.reordered + s.reassembled),
                        0,
                        "{name} {load:?}: {:?}",
                        seen.reading.streams
                    );
                }
            }
        }
    }
}

/// A kernel in the middle that takes what goes to the hostile zone for its own.
fn with_a_stack() -> Bed {
    let bed = Bed::new(Middle::Silent, 1500);
    bed.middle().set(&[("ipv4/conf/all/rp_filter", "0")]);
    bed.middle().ip("link set lo up");
    bed.middle().ip("addr add 192.0.2.1/32 dev mp");
    bed.middle().ip("route add 198.18.0.0/16 dev mp");
    bed.middle().ip("route add local 198.19.0.0/16 dev lo");
    bed.middle().ip("-6 route add 2001:2:0:1::/64 dev mp");
    bed.middle().ip("-6 route add local 2001:2:0:2::/64 dev lo");
    bed
}

/// The server port of the only flow.
fn learn_port(bed: &Bed, engine: &mut Engine, ports: &Ports, ip: IpVersion) -> u16 {
    let listener = bed.listen();
    burst(engine, ports, 2);
    let frames = listener.at_least_from(PRIVATE_MAC, 2);
    assert_eq!(frames.len(), 2);
    let at = if ip == IpVersion::V4 { 36 } else { 64 };
    u16::from_be_bytes([frames[0][at], frames[0][at + 1]])
}

#[test]
fn the_kernel_reassembles_whole_datagrams_needs_root() {
    let _turn = testkit::turn();
    let bed = with_a_stack();
    let (mut engine, ports) = bed.engine(1);
    for (ip, headers, any) in [(IpVersion::V4, 46, "0.0.0.0"), (IpVersion::V6, 66, "::")] {
        for bytes in [smallest_fragmented_frame(ip), 571, 1518] {
            engine.set_traffic(&in_fragments(fixed(bytes), ip, 1)).unwrap();
            let port = learn_port(&bed, &mut engine, &ports, ip);
            let socket = bed.middle().enter(|| UdpSocket::bind((any, port)).unwrap());
            burst(&mut engine, &ports, 2 * DATAGRAMS);
            check_datagrams(&socket, usize::from(bytes) - headers);
        }
    }
}

/// Datagrams of `bytes` with the stamps of both fragments and filling that is the same in all; the kernel has checked
/// the UDP checksum of each.
fn check_datagrams(socket: &UdpSocket, bytes: usize) {
    let mut buffer = vec![0; 65_536];
    let mut seen: Vec<Vec<u8>> = Vec::new();
    socket.set_read_timeout(Some(5 * fixture::PATIENCE)).unwrap();
    while let Ok(length) = socket.recv(&mut buffer) {
        seen.push(buffer[..length].to_vec());
        // Whether there is one too many is asked without waiting.
        socket.set_nonblocking(seen.len() >= DATAGRAMS).unwrap();
    }
    assert_eq!(seen.len(), DATAGRAMS);
    // As many bytes of the datagram as a multiple of 8, the UDP header included, are in the first fragment.
    let first = ((bytes + 8) / 2 / 8 * 8).max(32) - 8;
    let sequence = |stamp: &[u8]| u32::from_ne_bytes([stamp[8], stamp[9], stamp[10], stamp[11]]);
    for (number, datagram) in seen.iter().enumerate() {
        assert_eq!(datagram.len(), bytes);
        assert_eq!(sequence(datagram), 2 * number as u32);
        assert_eq!(sequence(&datagram[first..]), 2 * number as u32 + 1);
        assert_eq!(datagram[18..first], seen[0][18..first]);
        assert_eq!(datagram[first + 20..first + 26], [0; 6]);
        assert_eq!(datagram[first + 26..], seen[0][first + 26..]);
        // Both fragments carry the beginning of the same filling.
        let common = (first - 18).min(bytes - first - 26);
        assert_eq!(datagram[18..18 + common], datagram[first + 26..first + 26 + common]);
    }
}

/// A firewall that reassembles and forwards datagrams whole.
#[test]
fn a_datagram_that_arrives_whole_is_both_fragments_needs_root() {
    let _turn = testkit::turn();
    let bed = Bed::new(Middle::Silent, 1500);
    let sky = Sky::over(&bed);
    sky.set(Weather::Join);
    let (mut engine, ports) = bed.engine(1);
    engine.set_traffic(&in_fragments(fixed(571), IpVersion::V4, 1)).unwrap();
    let seen = trial(&mut engine, &ports, &[(FORWARD, 1.0)], Load::Burst(2 * DATAGRAMS as u64), 1);
    let stream = &seen.reading.streams[0];
    let datagrams = DATAGRAMS as u64;
    assert_eq!(sky.hits(), datagrams);
    assert_eq!((stream.received, stream.reassembled), (2 * datagrams, datagrams), "{stream:?}");
    assert_eq!((stream.received_bytes, stream.corrupted), (datagrams * 567, 0), "{stream:?}");
}

#[test]
fn what_cannot_be_cut_is_refused_needs_root() {
    let _turn = testkit::turn();
    let bed = Bed::new(Middle::Wire, 1500);
    let (mut engine, ports) = bed.engine(10);
    for (fragments, frame, said) in [
        (3, fixed(1024), "datagrams in 3 fragments: the generator sends them in 1 or 2"),
        (0, fixed(1024), "datagrams in 0 fragments: the generator sends them in 1 or 2"),
        (2, fixed(9018), "frames of 9018 bytes in fragments: those of up to 3412 are cut"),
        (
            2,
            fixed(64),
            "a frame of 64 bytes in two fragments: with this IP version it takes 96, so that each fragment has room for \
             a stamp",
        ),
    ] {
        let refused = engine.set_traffic(&TrafficShape { fragments, ..shape(frame, 10) });
        assert_eq!(refused.unwrap_err().to_string(), said);
    }
    drop(ports);
}
