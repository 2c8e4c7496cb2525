//! Frames beside the load that a policy forbids: they go along with every form of the load, are like it in all that the policy does not
//! speak of, and each that arrives is counted as what it is. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use fixture::{BACK, Bed, FORWARD, Middle, PRIVATE_MAC, fixed, shape};
use measure::shape::{IpVersion, Lane, Placement, TrafficShape};
use measure::trial::{Load, Phase};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use traffic::{Engine, Forbidden, Ports, TrialPlan, TrialReading};

const SOURCES: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 250), Ipv4Addr::new(45, 1, 2, 3)];

fn all_kinds() -> Forbidden {
    Forbidden { ports: Some(49_152..=59_999), sources: SOURCES.to_vec(), answers: true }
}

fn trial(
    engine: &mut Engine,
    ports: &Ports,
    lanes: &[(Lane, f64)],
    load: Load,
    forbidden: &Forbidden,
) -> TrialReading {
    let phases = [Phase { load, seconds: 0.3 }];
    let plan = TrialPlan {
        phases: &phases,
        lanes,
        placement: Placement::Inline,
        cores: &fixture::cores(1),
        times_matter: false,
        settle: fixture::PATIENCE,
        translated: None,
        forbidden: Some(forbidden),
    };
    engine.run(ports, &plan, &mut ()).unwrap()
}

/// A trial in which so many forbidden frames were sent. They are few, and a generator that was kept from its core leaves out what is overdue.
fn trial_with(enough: u64, trial: impl FnMut() -> TrialReading) -> TrialReading {
    let mut trials = std::iter::repeat_with(trial).take(20);
    trials.find(|seen| seen.reading.forbidden_sent >= enough).expect("20 trials with less")
}

#[test]
fn each_that_arrives_is_counted_and_is_nothing_else_needs_root() {
    let _turn = testkit::turn();
    let bed = Bed::new(Middle::Wire, 9000);
    let (mut engine, ports) = bed.engine(100);
    let all = all_kinds();
    let none = Forbidden::default();
    let listed = Forbidden { ports: None, answers: false, ..all.clone() };
    let answers = Forbidden { ports: None, sources: Vec::new(), ..all.clone() };
    let two_way = [(FORWARD, 0.5), (BACK, 0.5)];
    for ip in [IpVersion::V4, IpVersion::V6] {
        for (bytes, fragments) in [(128, 1), (256, 2), (9014, 1)] {
            for (forbidden, goes_along) in [
                (&all, true),
                // Lists are of IPv4.
                (&listed, ip == IpVersion::V4),
                (&answers, true),
                (&none, false),
            ] {
                for lanes in [&two_way[..1], &two_way[..]] {
                    let name =
                        format!("{ip:?}, {bytes} bytes in {fragments}, {forbidden:?}, {} lanes", lanes.len());
                    let load = Load::PerSecond(20_000.0);
                    let lanes: Vec<(Lane, f64)> =
                        lanes.iter().map(|(lane, _)| (*lane, 1.0 / lanes.len() as f64)).collect();
                    engine.set_traffic(&TrafficShape { ip, fragments, ..shape(fixed(bytes), 100) }).unwrap();
                    let seen = trial_with(u64::from(goes_along), || {
                        trial(&mut engine, &ports, &lanes, load, forbidden)
                    });
                    let (sent, arrived) = (seen.reading.forbidden_sent, seen.reading.forbidden_arrived);
                    assert_eq!(sent > 0, goes_along, "{name}: {sent} sent");
                    // Of two fragments the first alone says what it is.
                    assert_eq!(arrived, sent / u64::from(fragments), "{name}");
                    assert_eq!((seen.reading.forged, seen.reading.foreign), (0, 0), "{name}");
                    let received: u64 = seen.reading.streams.iter().map(|s| s.received).sum();
                    assert_eq!(received, seen.sent(), "{name}: {:?}", seen.reading.streams);
                }
            }
        }
    }
}

/// What a firewall in the middle sees.
#[test]
fn none_can_be_known_by_anything_but_the_policy_needs_root() {
    let _turn = testkit::turn();
    let bed = Bed::new(Middle::Silent, 1500);
    let (mut engine, ports) = bed.engine(100);
    engine.set_traffic(&shape(fixed(128), 100)).unwrap();
    let forbidden = all_kinds();
    let mut listener = None;
    let seen = trial_with(9, || {
        listener = Some(bed.listen());
        trial(&mut engine, &ports, &[(FORWARD, 1.0)], Load::PerSecond(50_000.0), &forbidden)
    });
    let answers = seen.reading.forbidden_sent / 3;
    let frames = listener.unwrap().at_least((seen.sent() + seen.reading.forbidden_sent) as usize);
    let from_private: Vec<&[u8]> = frames
        .iter()
        .filter(|(source, _, _)| *source == PRIVATE_MAC)
        .map(|(_, _, frame)| &frame[..])
        .collect();
    let from_hostile = frames.len() - from_private.len();
    assert!(from_hostile as u64 >= answers, "{from_hostile} answers of {}", seen.reading.forbidden_sent);
    let server_port = |frame: &[u8]| u16::from_be_bytes([frame[36], frame[37]]);
    let is_listed = |frame: &[u8]| SOURCES.iter().any(|source| frame[26..30] == source.octets());
    let (odd, load): (Vec<&[u8]>, Vec<&[u8]>) =
        from_private.into_iter().partition(|frame| server_port(frame) > 49_151 || is_listed(frame));
    assert_eq!(odd.len() + from_hostile, seen.reading.forbidden_sent as usize);
    // Length, and the IP header but for addresses and the checksum: as those of the load.
    let shape = |frame: &[u8]| (frame.len(), frame[12..24].to_vec());
    assert!(odd.iter().all(|frame| shape(frame) == shape(load[0])));
    let distinct: BTreeSet<u16> =
        odd.iter().map(|frame| server_port(frame)).filter(|p| *p > 49_151).collect();
    assert!(distinct.len() > 2, "{distinct:?}");
    // Send times, of which nothing shows which frames are timed: two that follow each other have nothing in common.
    let time = |frame: &[u8]| u32::from_ne_bytes([frame[54], frame[55], frame[56], frame[57]]);
    let near = load.windows(2).filter(|pair| time(pair[1]).abs_diff(time(pair[0])) < 1_000_000).count();
    assert!(near < load.len() / 100, "{near} of {}", load.len());
}
