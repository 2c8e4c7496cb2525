//! Streams through a router: each with sizes, ends, rate and number of frames of its own. What is counted is exact. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use fixture::{Bed, HOSTILE_MAC, MIDDLE_HOSTILE_MAC, MIDDLE_PRIVATE_MAC, Middle, PATIENCE, PRIVATE_MAC};
use measure::frame::FrameSize;
use measure::shape::{IpVersion, Zone};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use traffic::{Ends, Engine, Header, Stream, StreamState};

const LONGEST: Duration = Duration::from_secs(60);

fn ends(source: &str, destination: &str, ports: (u16, u16)) -> Ends {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    Ends {
        source: address(source),
        destination: address(destination),
        source_port: ports.0,
        destination_port: ports.1,
    }
}

fn stream(forward: bool, sizes: &[u16], ends: Vec<Ends>, frames: Option<u64>) -> Stream {
    let (source_mac, destination_mac, arrival_mac) = if forward {
        (PRIVATE_MAC, MIDDLE_PRIVATE_MAC, HOSTILE_MAC)
    } else {
        (HOSTILE_MAC, MIDDLE_HOSTILE_MAC, PRIVATE_MAC)
    };
    let (from, to) = if forward { (Zone::Private, Zone::Hostile) } else { (Zone::Hostile, Zone::Private) };
    Stream {
        from,
        to: Some(to),
        sizes: sizes.iter().map(|&bytes| FrameSize::new(bytes).unwrap()).collect(),
        header: Header {
            source_mac,
            destination_mac,
            arrival_mac,
            traffic_class: 0x20,
            flow_label: 0,
            ttl: 64,
            arrival_ttl: 63,
            dont_fragment: false,
        },
        ends,
        rate: 20_000.0,
        frames,
    }
}

/// Three streams: two that end, of which the second has turns of sizes and of ends, and one that does not end.
fn streams(ip: IpVersion) -> Vec<Stream> {
    let (one, two, other) = match ip {
        IpVersion::V4 => ("198.18.1.7", "198.19.2.9", "198.19.3.9"),
        IpVersion::V6 => ("2001:2:0:1::1:7", "2001:2:0:2::1:9", "2001:2:0:2::1:a"),
    };
    vec![
        stream(true, &[128], vec![ends(one, two, (5000, 6000))], Some(1000)),
        stream(false, &[100, 256, 1500], vec![ends(two, one, (1, 2)), ends(other, one, (0, 0))], Some(701)),
        stream(true, &[90], vec![ends(one, other, (9, 65_535))], None),
    ]
}

/// Reads until it is as wanted, or nothing has changed for long.
fn wait(engine: &mut Engine, is_wanted: impl Fn(&[StreamState]) -> bool) -> Vec<StreamState> {
    let mut last = (Instant::now(), engine.stream_states());
    while !is_wanted(&last.1) && last.0.elapsed() < PATIENCE * 5 {
        std::thread::sleep(Duration::from_millis(2));
        engine.tend_streams().unwrap();
        let seen = engine.stream_states();
        if seen != last.1 {
            last = (Instant::now(), seen);
        }
    }
    last.1
}

#[test]
fn streams_are_counted_exactly_and_stop_when_they_are_told() {
    let _turn = testkit::turn();
    let bed = Bed::new(Middle::Routing, 1500);
    let (mut engine, ports) = bed.engine(traffic::MOST_COMBINATIONS);
    for ip in [IpVersion::V4, IpVersion::V6] {
        let mut wanted = streams(ip);
        engine.start_streams(&ports, ip, &wanted, 0, LONGEST).unwrap();
        let again = engine.start_streams(&ports, ip, &wanted, 0, LONGEST).unwrap_err();
        assert_eq!(again.to_string(), "streams are being sent already");
        let seen = wait(&mut engine, |states| {
            !states[0].sending && !states[1].sending && states[2].counts.sent > 1000
        });
        assert_eq!(seen.iter().map(|state| state.sending).collect::<Vec<_>>(), [false, false, true]);
        engine.stop_streams();
        let arrived = |state: &StreamState| !state.sending && state.counts.received == state.counts.sent;
        let seen = wait(&mut engine, |states| states.iter().all(arrived));
        for (state, stream) in seen.iter().zip(&wanted) {
            let sent = stream.frames.unwrap_or(state.counts.sent);
            assert_eq!((state.counts.sent, state.counts.received), (sent, sent), "{ip:?}: {state:?}");
            assert_eq!(state.counts.reordered + state.counts.duplicated + state.counts.wrong_port, 0);
        }
        // 234 turns of all three sizes less one frame, FCS not counted.
        assert_eq!(seen[1].counts.sent_bytes, 234 * (96 + 252 + 1496) - 1496, "{ip:?}");
        assert!(!engine.tend_streams().unwrap());

        // What arrives otherwise than it should is not received, and what comes out elsewhere neither.
        wanted.truncate(2);
        wanted[0].header.arrival_ttl = 64;
        wanted[1].to = Some(Zone::Hostile);
        engine.start_streams(&ports, ip, &wanted, 0, LONGEST).unwrap();
        let altered = |state: &StreamState| state.counts.altered.iter().sum::<u64>();
        let seen =
            wait(&mut engine, |states| altered(&states[0]) == 1000 && states[1].counts.wrong_port == 701);
        let counts: Vec<_> =
            seen.iter().map(|s| (altered(s), s.counts.wrong_port, s.counts.received)).collect();
        assert_eq!(counts, [(1000, 0, 0), (0, 701, 0)], "{ip:?}");
    }
    engine.detach(ports);
}

#[test]
fn streams_that_cannot_be_sent_are_refused() {
    let _turn = testkit::turn();
    let bed = Bed::new(Middle::Wire, 1500);
    let (mut engine, ports) = bed.engine(1);
    let refused = |engine: &mut Engine, change: &dyn Fn(&mut Vec<Stream>)| {
        let mut wanted = streams(IpVersion::V4);
        change(&mut wanted);
        engine.start_streams(&ports, IpVersion::V4, &wanted, 0, LONGEST).unwrap_err().to_string()
    };
    let far = ends("198.18.1.7", "198.20.2.9", (1, 1));
    let six = ends("2001:2::1", "2001:2::2", (1, 1));
    type Change<'a> = &'a dyn Fn(&mut Vec<Stream>);
    let rows: [(Change<'_>, &str); 8] = [
        (&|all| all.clear(), "0 streams: 1 to 7"),
        (
            &|all| {
                all.extend([all[0].clone(), all[0].clone(), all[1].clone(), all[1].clone(), all[1].clone()])
            },
            "8 streams",
        ),
        (&|all| all[0].ends.push(far), "differ in their last two bytes only"),
        (&|all| all[0].ends = vec![six], "of the run's IP version"),
        (&|all| all[0].frames = Some(0), "a stream without frames"),
        (&|all| all[0].rate = 0.0, "a stream of 0 frames/s"),
        (&|all| all[0].sizes = vec![FrameSize::new(3413).unwrap()], "frames of 3413 bytes: it may be 3412"),
        (&|all| all[0].sizes.clear(), "a stream without sizes"),
    ];
    for (change, said) in rows {
        let found = refused(&mut engine, change);
        assert!(found.contains(said), "{found}");
    }
    engine.detach(ports);
}
