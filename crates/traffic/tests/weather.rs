//! The sink in bad weather: whatever a firewall does to frames, the counters say exactly that. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use fixture::weather::{Sky, Weather};
use fixture::{BACK, Bed, FORWARD, Middle, fixed, shape};
use measure::shape::{IpVersion, Lane, Placement, UdpChecksum};
use measure::trial::Load;
use traffic::{SETTLE, TrialPlan};

/// What the sink must say, summed over lanes; everything else must be zero.
#[derive(Debug, Default, PartialEq, Eq)]
struct Expected {
    hits: u64,
    lost: u64,
    duplicated: u64,
    reordered: u64,
    corrupted: u64,
    stale: u64,
}

struct Row {
    weather: Weather,
    size: u16,
    ip: IpVersion,
    udp: UdpChecksum,
    flows: u32,
    lanes: &'static [(Lane, f64)],
    frames: u64,
    expected: Expected,
}

const ONE_WAY: &[(Lane, f64)] = &[(FORWARD, 1.0)];
const TWO_WAY: &[(Lane, f64)] = &[(FORWARD, 0.5), (BACK, 0.5)];

/// 12,800 frames of four flows one way.
fn row(weather: Weather, expected: Expected) -> Row {
    Row {
        weather,
        size: 128,
        ip: IpVersion::V4,
        udp: UdpChecksum::Zero,
        flows: 4,
        lanes: ONE_WAY,
        frames: 12_800,
        expected,
    }
}

/// So many frames were damaged, and each was found to be.
fn damaged(frames: u64) -> Expected {
    Expected { hits: frames, lost: frames, corrupted: frames, ..Expected::default() }
}

fn check(rows: &[Row]) {
    for (row, (seen, _)) in rows.iter().zip(run(rows)) {
        assert_eq!(seen, row.expected, "{:?}, {} bytes, {:?}", row.weather, row.size, row.ip);
    }
}

/// What the sink said of each row, and in how many frames it compared the content.
fn run(rows: &[Row]) -> Vec<(Expected, u64)> {
    let mut all = Vec::new();
    let _turn = testkit::turn();
    let bed = Bed::new(Middle::Silent, 9000);
    let sky = Sky::over(&bed);
    let (mut engine, ports) = bed.engine(1000);
    for row in rows {
        sky.set(row.weather);
        let mut traffic = shape(fixed(row.size), row.flows);
        (traffic.ip, traffic.udp_checksum) = (row.ip, row.udp);
        engine.set_traffic(&traffic).unwrap();
        let plan = TrialPlan {
            translated: None,
            forbidden: None,
            phases: &[fixture::phase(Load::Burst(row.frames))],
            lanes: row.lanes,
            placement: Placement::Inline,
            cores: &[0],
            times_matter: false,
            // Most rows lose frames, so each waits this long.
            settle: 3 * SETTLE,
        };
        let trial = engine.run(&ports, &plan, &mut ()).unwrap();
        let streams = &trial.reading.streams;
        let sum = |of: fn(&traffic::StreamCounts) -> u64| streams.iter().map(of).sum::<u64>();
        assert_eq!(trial.sent(), row.frames, "{:?}", row.weather);
        let seen = Expected {
            hits: sky.hits(),
            lost: row.frames - sum(|s| s.received),
            duplicated: sum(|s| s.duplicated),
            reordered: sum(|s| s.reordered),
            corrupted: sum(|s| s.corrupted) + trial.reading.forged,
            stale: trial.reading.stale,
        };
        all.push((seen, sum(|s| s.compared)));
    }
    engine.detach(ports);
    all
}

#[test]
fn fair_weather_changes_nothing() {
    check(&[
        row(Weather::Fair, Expected::default()),
        Row { lanes: TWO_WAY, ..row(Weather::Fair, Expected::default()) },
        Row { size: 9014, frames: 500, ..row(Weather::Fair, Expected::default()) },
    ]);
}

#[test]
fn drops_are_losses_and_nothing_else() {
    let lost = |frames| Expected { hits: frames, lost: frames, ..Expected::default() };
    check(&[
        row(Weather::Drop { every: 1 }, lost(12_800)),
        row(Weather::Drop { every: 2 }, lost(6_400)),
        row(Weather::Drop { every: 1000 }, lost(12)),
        row(Weather::Drop { every: 12_800 }, lost(1)),
        Row { lanes: TWO_WAY, ..row(Weather::Drop { every: 1000 }, lost(12)) },
        Row { ip: IpVersion::V6, ..row(Weather::Drop { every: 100 }, lost(128)) },
        Row { size: 9014, frames: 500, ..row(Weather::Drop { every: 100 }, lost(5)) },
    ]);
}

#[test]
fn copies_are_duplicates_and_no_gain() {
    let copies = |frames| Expected { hits: frames, duplicated: frames, ..Expected::default() };
    check(&[
        row(Weather::Duplicate { every: 1 }, copies(12_800)),
        row(Weather::Duplicate { every: 7 }, copies(1_828)),
        Row { lanes: TWO_WAY, ..row(Weather::Duplicate { every: 64 }, copies(200)) },
        Row { ip: IpVersion::V6, ..row(Weather::Duplicate { every: 64 }, copies(200)) },
        Row { size: 9014, frames: 500, ..row(Weather::Duplicate { every: 100 }, copies(5)) },
    ]);
}

/// Each pair that changes places is two frames hit and one that came too late.
#[test]
fn only_order_within_a_flow_counts() {
    let late = |pairs: u64, reordered| Expected { hits: 2 * pairs, reordered, ..Expected::default() };
    check(&[
        // Four flows take turns, so frames four apart are neighbours in their flow: 1,600 blocks of four and four.
        row(Weather::Reorder { every: 1, apart: 4 }, late(6_400, 6_400)),
        row(Weather::Reorder { every: 8, apart: 4 }, late(800, 800)),
        Row { flows: 1, ..row(Weather::Reorder { every: 1, apart: 1 }, late(6_400, 6_400)) },
        Row { flows: 1, ..row(Weather::Reorder { every: 100, apart: 1 }, late(64, 64)) },
        Row { ip: IpVersion::V6, ..row(Weather::Reorder { every: 8, apart: 4 }, late(800, 800)) },
        Row { udp: UdpChecksum::Valid, ..row(Weather::Reorder { every: 8, apart: 4 }, late(800, 800)) },
        Row {
            flows: 1,
            size: 9014,
            frames: 500,
            ..row(Weather::Reorder { every: 5, apart: 1 }, late(50, 50))
        },
        // Flows that pass each other are no reordering.
        row(Weather::Reorder { every: 1, apart: 1 }, late(6_400, 0)),
        row(Weather::Reorder { every: 1, apart: 2 }, late(6_400, 0)),
        Row { flows: 1000, ..row(Weather::Reorder { every: 1, apart: 64 }, late(6_400, 0)) },
    ]);
}

/// A stamp is checked with 16 bits, which fit a damaged one by accident once in 65,536 times. What is then made of the frame depends on
/// the bit, so this counts the frames that were not found to be damaged, over all rows: of 3,072, more than three once in four million runs.
#[test]
fn damaged_stamps_are_found_and_counted_once() {
    const ACCIDENTS: u64 = 3;
    let mut rows = Vec::new();
    // Every field of the stamp but the mark: core, lane, mix, sampled, time, sequence, time, check.
    for byte in [2, 3, 4, 5, 6, 7, 8, 11, 12, 15, 16, 17] {
        for bit in [0, 7] {
            rows.push(row(Weather::Flip { every: 100, byte, bit }, damaged(128)));
        }
    }
    rows.push(Row { ip: IpVersion::V6, ..row(Weather::Flip { every: 100, byte: 8, bit: 3 }, damaged(128)) });
    rows.push(Row { lanes: TWO_WAY, ..row(Weather::Flip { every: 100, byte: 8, bit: 3 }, damaged(128)) });
    let mut accidents = 0;
    for (row, (seen, _)) in rows.iter().zip(run(&rows)) {
        assert_eq!(seen.hits, row.expected.hits, "{:?}", row.weather);
        let unnoticed = seen.hits - seen.corrupted.min(seen.hits);
        // What fits by accident may be taken for a frame of the trial, and then be late, a repetition or none of them.
        let elsewhere = seen.corrupted.saturating_sub(seen.hits)
            + seen.lost.abs_diff(seen.hits)
            + seen.duplicated
            + seen.reordered
            + seen.stale;
        assert!(elsewhere <= 3 * unnoticed, "{:?}, {:?}: {seen:?}", row.weather, row.ip);
        accidents += unnoticed;
    }
    assert!(accidents <= ACCIDENTS, "{accidents} damaged stamps were not noticed");
}

#[test]
fn other_damage_is_found_and_counted_once() {
    // A frame without our mark is nobody's of this trial.
    let stale = Expected { hits: 128, lost: 128, stale: 128, ..Expected::default() };
    let mut rows = vec![row(Weather::Flip { every: 100, byte: 0, bit: 3 }, stale)];
    // Filling of 64 bytes or less is compared in every frame. A live frame's page comes back with the damage, which must be found
    // once and not make up for itself.
    for (size, byte) in [(128, 18), (128, 50), (68, 18)] {
        rows.push(Row { size, frames: 640, ..row(Weather::Flip { every: 1, byte, bit: 5 }, damaged(640)) });
        rows.push(Row { size, frames: 640, ..row(Weather::Flip { every: 2, byte, bit: 5 }, damaged(320)) });
    }
    check(&rows);
}

/// Of more filling, one frame in 64 is compared, and nobody can know which.
#[test]
fn damage_of_large_frames_is_found_in_those_that_are_compared() {
    for (size, byte, frames) in
        [(1518, 18, 6400), (1518, 700, 6400), (1518, 1450, 6400), (9018, 18, 1600), (9018, 8950, 1600)]
    {
        let flipped =
            |every| Row { size, frames, ..row(Weather::Flip { every, byte, bit: 5 }, Expected::default()) };
        let found = run(&[flipped(1), flipped(2)]);
        for (seen, compared) in &found {
            assert_eq!(
                (seen.lost, seen.duplicated, seen.stale),
                (seen.corrupted, 0, 0),
                "{size} {byte}: {seen:?}"
            );
            assert!(
                (frames / 256..frames / 16).contains(compared),
                "{size} {byte}: {compared} of {frames} compared"
            );
        }
        assert_eq!(found[0].0.corrupted, found[0].1, "{size} {byte}: all were damaged");
        let (seen, compared) = &found[1];
        assert!(
            seen.corrupted > 0 && seen.corrupted < *compared,
            "{size} {byte}: {seen:?}, {compared} compared"
        );
    }
}

#[test]
fn frames_cut_short_are_damaged() {
    check(&[
        row(Weather::Cut { every: 1 }, damaged(12_800)),
        row(Weather::Cut { every: 1000 }, damaged(12)),
        Row { size: 65, ..row(Weather::Cut { every: 100 }, damaged(128)) },
        Row { ip: IpVersion::V6, ..row(Weather::Cut { every: 100 }, damaged(128)) },
        Row { size: 9014, frames: 500, ..row(Weather::Cut { every: 100 }, damaged(5)) },
    ]);
}
