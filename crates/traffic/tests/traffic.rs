//! The generator and the sink over one veth pair: what was asked for is sent, what was sent arrives, and the counters
//! say so. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use fixture::{BACK, Bed, FORWARD, Middle, cores, fixed, imix, shape};
use measure::frame::FrameMix;
use measure::shape::{IpVersion, Lane, Placement, UdpChecksum};
use measure::trial::{Load, Phase};
use traffic::{Engine, Ports, TrialPlan, TrialReading};

/// Only a trial that the machine leaves alone sends its whole schedule, so a row has some attempts at that.
const ATTEMPTS: usize = 5;

struct Row {
    name: &'static str,
    frame: FrameMix,
    ip: IpVersion,
    udp: UdpChecksum,
    flows: u32,
    lanes: &'static [(Lane, f64)],
    cores: usize,
    phases: Vec<Phase>,
}

const ONE_WAY: &[(Lane, f64)] = &[(FORWARD, 1.0)];
const TWO_WAY: &[(Lane, f64)] = &[(FORWARD, 0.7), (BACK, 0.3)];

fn row(name: &'static str, frame: FrameMix, load: Load) -> Row {
    Row {
        name,
        frame,
        ip: IpVersion::V4,
        udp: UdpChecksum::Zero,
        flows: 1000,
        lanes: ONE_WAY,
        cores: 1,
        phases: vec![fixture::phase(load)],
    }
}

/// Runs every row on one bed with one engine, as a suite does.
fn check(rows: Vec<Row>) {
    let _turn = testkit::turn();
    let bed = Bed::new(Middle::Wire, 3600);
    let most = rows.iter().map(|row| row.flows).max().unwrap();
    let (mut engine, ports) = bed.engine(most);
    for row in &rows {
        check_row(&mut engine, &ports, row);
    }
    engine.detach(ports);
}

fn check_row(engine: &mut Engine, ports: &Ports, row: &Row) {
    let name = row.name;
    let mut traffic = shape(row.frame.clone(), row.flows);
    (traffic.ip, traffic.udp_checksum) = (row.ip, row.udp);
    engine.set_traffic(&traffic).unwrap();
    let mut sent = 0;
    for _ in 0..ATTEMPTS {
        let trial = run(engine, ports, row);
        sent += trial.sent();
        // The sender may have been kept from its core for all of the trial.
        if trial.sent() == 0 {
            continue;
        }
        check_streams(row, &trial);
        check_shares(row, &trial);
        check_offered(row, trial.offered);
        fixture::check_sent(name, &row.phases, &trial);
        if trial.sent() == trial.offered {
            break;
        }
    }
    assert!(sent > 0, "{name}: nothing was sent");
}

fn run(engine: &mut Engine, ports: &Ports, row: &Row) -> TrialReading {
    let cores = cores(row.cores);
    let plan = TrialPlan {
        translated: None,
        forbidden: None,
        phases: &row.phases,
        lanes: row.lanes,
        placement: Placement::Inline,
        cores: &cores,
        times_matter: false,
        settle: fixture::PATIENCE,
    };
    engine.run(ports, &plan, &mut ()).unwrap()
}

/// Everything sent arrived, once, in order, unchanged, and as many bytes of it.
fn check_streams(row: &Row, trial: &TrialReading) {
    let name = row.name;
    assert_eq!(trial.reading.streams.len(), row.lanes.len());
    for (lane, stream) in trial.reading.streams.iter().enumerate() {
        assert_eq!(stream.received, stream.sent, "{name}, lane {lane}: received of sent");
        assert_eq!(stream.received_bytes, stream.sent_bytes, "{name}, lane {lane}: bytes");
        assert_eq!((stream.duplicated, stream.reordered, stream.corrupted), (0, 0, 0), "{name}, lane {lane}");
        if row.cores == 1 || row.frame.sizes().len() == 1 {
            assert_eq!(
                stream.received_bytes,
                bytes_of(&row.frame, stream.sent),
                "{name}, lane {lane}: bytes"
            );
        }
    }
    assert_eq!((trial.reading.foreign, trial.reading.stale), (0, 0), "{name}: foreign and stale");
}

/// Bytes without FCS of the first `frames` frames of a mix.
fn bytes_of(mix: &FrameMix, frames: u64) -> u64 {
    let sizes: Vec<u64> = mix.sizes().iter().map(|size| u64::from(size.bytes_without_fcs())).collect();
    let (turns, rest) = (frames / sizes.len() as u64, (frames % sizes.len() as u64) as usize);
    turns * sizes.iter().sum::<u64>() + sizes[..rest].iter().sum::<u64>()
}

/// Lanes get their shares, whatever the speed: at most two frames a core off.
fn check_shares(row: &Row, trial: &TrialReading) {
    if row.phases.iter().any(|phase| matches!(phase.load, Load::PerSecond(_)))
        && trial.sent() != trial.offered
    {
        return;
    }
    for ((_, share), stream) in row.lanes.iter().zip(&trial.reading.streams) {
        let off = stream.sent as f64 - share * trial.sent() as f64;
        assert!(
            off.abs() <= 2.0 * row.cores as f64 + 1.0,
            "{}: share {share} is off by {off} frames",
            row.name
        );
    }
}

/// A schedule asks for what its load says.
fn check_offered(row: &Row, offered: u64) {
    let wanted: f64 = row
        .phases
        .iter()
        .map(|phase| match phase.load {
            Load::PerSecond(rate) => rate * phase.seconds,
            Load::Burst(frames) => frames as f64,
            _ => offered as f64,
        })
        .sum();
    let tolerance = if matches!(row.phases[0].load, Load::Burst(_)) { 0.0 } else { 1.0 };
    let streams = (row.cores * row.lanes.len() * row.phases.len()) as f64;
    assert!(
        (offered as f64 - wanted).abs() <= tolerance * streams,
        "{}: {offered} offered, not {wanted}",
        row.name
    );
}

#[test]
fn every_size_arrives_whole() {
    let mut rows = Vec::new();
    for (name, size) in
        [("64", 64), ("65", 65), ("128", 128), ("570", 570), ("1518", 1518), ("3412", 3412), ("3504", 3504)]
    {
        rows.push(row(name, fixed(size), Load::Burst(1003)));
        rows.push(Row { udp: UdpChecksum::Valid, ..row(name, fixed(size), Load::PerSecond(10_000.0)) });
        if size >= 84 {
            rows.push(Row { ip: IpVersion::V6, ..row(name, fixed(size), Load::Burst(1003)) });
        }
    }
    check(rows);
}

#[test]
fn mixes_arrive_with_the_right_bytes() {
    let sizes = [84, 594, 1518].map(|bytes| measure::frame::FrameSize::new(bytes).unwrap()).to_vec();
    let v6 = FrameMix::sequence("imix6", sizes).unwrap();
    check(vec![
        row("imix burst", imix(), Load::Burst(10_001)),
        row("imix paced", imix(), Load::PerSecond(10_000.0)),
        Row { lanes: TWO_WAY, ..row("imix both ways", imix(), Load::Burst(5_000)) },
        Row { cores: 2, ..row("imix on two cores", imix(), Load::Burst(5_001)) },
        Row { ip: IpVersion::V6, ..row("imix IPv6", v6, Load::Burst(5_001)) },
    ]);
}

#[test]
fn any_number_of_flows_is_sent() {
    let mut rows = Vec::new();
    for flows in [1, 2, 1000, 100_000] {
        for cores in [1, 2] {
            rows.push(Row { flows, cores, ..row("flows", fixed(64), Load::Burst(200_003)) });
        }
    }
    check(rows);
}

#[test]
fn rates_are_kept_on_one_core_and_two_and_both_ways() {
    let mut rows = Vec::new();
    for (name, rate, seconds) in
        [("100/s", 100.0, 0.3), ("10 k/s", 10_000.0, 0.1), ("100 k/s", 100_000.0, 0.1)]
    {
        for cores in [1, 2] {
            for lanes in [ONE_WAY, TWO_WAY] {
                let phases = vec![Phase { load: Load::PerSecond(rate), seconds }];
                rows.push(Row { cores, lanes, phases, ..row(name, fixed(64), Load::Maximum) });
            }
        }
    }
    check(rows);
}

#[test]
fn full_speed_and_bursts_lose_nothing_on_a_wire() {
    let mut rows = Vec::new();
    for (name, load) in
        [("maximum", Load::Maximum), ("burst of 1", Load::Burst(1)), ("burst", Load::Burst(99_991))]
    {
        for cores in [1, 2] {
            for lanes in [ONE_WAY, TWO_WAY] {
                rows.push(Row { cores, lanes, ..row(name, fixed(64), load) });
            }
        }
    }
    check(rows);
}

#[test]
fn phases_follow_one_another() {
    let phase = |rate, seconds| Phase { load: Load::PerSecond(rate), seconds };
    check(vec![
        Row {
            phases: vec![phase(20_000.0, 0.05), phase(5_000.0, 0.1)],
            ..row("down", fixed(64), Load::Maximum)
        },
        Row {
            phases: vec![phase(1_000.0, 0.05), phase(20_000.0, 0.05), phase(2_000.0, 0.05)],
            cores: 2,
            lanes: TWO_WAY,
            ..row("up and down", fixed(64), Load::Maximum)
        },
    ]);
}

/// Isolated, a sender that cannot keep up leaves frames out, on each lane in step with that lane's own schedule.
#[test]
fn frames_left_out_are_counted_on_their_lane() {
    let _turn = testkit::turn();
    for (size, cores) in [(64, 1), (64, 2), (9018, 1)] {
        let bed = Bed::new(Middle::Wire, 9000);
        let (mut engine, ports) = bed.engine(1000);
        engine.set_traffic(&shape(fixed(size), 1000)).unwrap();
        let plan = TrialPlan {
            translated: None,
            forbidden: None,
            // Nothing sends so many. At ten times the rate the grain of a lane's interval, 2^-20 ns, adds up to some frames.
            phases: &[Phase { load: Load::PerSecond(1e8), seconds: 0.05 }],
            lanes: TWO_WAY,
            placement: Placement::Isolated,
            cores: &fixture::cores(cores),
            times_matter: false,
            settle: fixture::PATIENCE,
        };
        let trial = engine.run(&ports, &plan, &mut ()).unwrap();
        let gone = |lane: usize| trial.reading.streams[lane].sent + trial.reading.streams[lane].skipped;
        assert!(trial.reading.streams.iter().all(|stream| stream.skipped > 0), "{trial:?}");
        assert!(gone(0) + gone(1) <= trial.offered);
        let off = gone(0) as f64 - 0.7 * (gone(0) + gone(1)) as f64;
        assert!(off.abs() <= 2.0 * cores as f64, "{size} bytes: lane 0 is off by {off} frames");
        engine.detach(ports);
    }
}

#[test]
fn what_the_engine_cannot_do_is_refused() {
    let _turn = testkit::turn();
    let bed = Bed::new(Middle::Wire, 1500);
    let (mut engine, ports) = bed.engine(1000);
    let mut six = shape(fixed(64), 10);
    six.ip = IpVersion::V6;
    for (traffic, said) in [
        (shape(fixed(64), 2000), "2000 flows: this run was prepared for 1024"),
        (
            six,
            "a frame of 64 bytes: test frames of this IP version need 84 (headers, 18 bytes of stamp and the FCS)",
        ),
    ] {
        assert_eq!(engine.set_traffic(&traffic).unwrap_err().to_string(), said);
    }
    engine.set_traffic(&shape(fixed(64), 10)).unwrap();
    let phases = [Phase { load: Load::Burst(1), seconds: 0.1 }];
    let dmz = Lane { from: measure::shape::Zone::Dmz, to: measure::shape::Zone::Hostile };
    for (lanes, cores, said) in [
        (vec![(dmz, 1.0)], vec![0], "this bed has no dmz zone"),
        (vec![], vec![0], "0 lanes: 1 to 7"),
        (vec![(FORWARD, 1.0)], vec![64], "cores [64]: the bench uses 0 to 63"),
    ] {
        let plan = TrialPlan {
            translated: None,
            forbidden: None,
            phases: &phases,
            lanes: &lanes,
            placement: Placement::Inline,
            cores: &cores,
            times_matter: false,
            settle: fixture::PATIENCE,
        };
        assert_eq!(engine.run(&ports, &plan, &mut ()).unwrap_err().to_string(), said);
    }
    engine.detach(ports);
}
