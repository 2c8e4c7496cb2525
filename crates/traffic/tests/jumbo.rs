//! Frames that no live frame holds: the same promises as for all others, over a wire and through Linux routing.
//! Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use fixture::{BACK, Bed, FORWARD, Middle, cores, fixed, shape};
use measure::frame::{FrameMix, FrameSize};
use measure::shape::{IpVersion, Lane, Placement, UdpChecksum};
use measure::trial::{Load, Phase};
use traffic::{TrialPlan, TrialReading};

/// As in traffic.rs.
const ATTEMPTS: usize = 5;

struct Row {
    name: &'static str,
    frame: FrameMix,
    ip: IpVersion,
    udp: UdpChecksum,
    cores: usize,
    lanes: &'static [(Lane, f64)],
    load: Load,
}

const ONE_WAY: &[(Lane, f64)] = &[(FORWARD, 1.0)];
const TWO_WAY: &[(Lane, f64)] = &[(FORWARD, 0.7), (BACK, 0.3)];

fn row(name: &'static str, size: u16, load: Load) -> Row {
    let (ip, udp) = (IpVersion::V4, UdpChecksum::Zero);
    Row { name, frame: fixed(size), ip, udp, cores: 1, lanes: ONE_WAY, load }
}

fn check(middle: Middle, rows: &[Row]) {
    let _turn = testkit::turn();
    let bed = Bed::new(middle, 9202);
    let (mut engine, ports) = bed.engine(1000);
    for row in rows {
        let name = row.name;
        let mut traffic = shape(row.frame.clone(), 1000);
        (traffic.ip, traffic.udp_checksum) = (row.ip, row.udp);
        engine.set_traffic(&traffic).unwrap();
        let mut sent = 0;
        for _ in 0..ATTEMPTS {
            let cores = cores(row.cores);
            let plan = TrialPlan {
                translated: None,
                forbidden: None,
                phases: &[fixture::phase(row.load)],
                lanes: row.lanes,
                placement: Placement::Inline,
                cores: &cores,
                times_matter: false,
                settle: fixture::PATIENCE,
            };
            let trial = engine.run(&ports, &plan, &mut ()).unwrap();
            sent += trial.sent();
            if trial.sent() == 0 {
                continue;
            }
            check_streams(name, row, &trial);
            fixture::check_sent(name, &[fixture::phase(row.load)], &trial);
            if trial.sent() == trial.offered {
                break;
            }
        }
        assert!(sent > 0, "{name}: nothing was sent");
    }
    engine.detach(ports);
}

fn check_streams(name: &str, row: &Row, trial: &TrialReading) {
    for stream in &trial.reading.streams {
        assert_eq!(stream.received, stream.sent, "{name}: received of sent");
        assert_eq!(stream.received_bytes, stream.sent_bytes, "{name}: bytes");
        assert_eq!((stream.duplicated, stream.reordered, stream.corrupted), (0, 0, 0), "{name}");
        if let [size] = row.frame.sizes() {
            assert_eq!(
                stream.received_bytes,
                stream.received * u64::from(size.bytes_without_fcs()),
                "{name}"
            );
        }
    }
    if trial.sent() < trial.offered {
        return;
    }
    for ((_, share), stream) in row.lanes.iter().zip(&trial.reading.streams) {
        let off = stream.sent as f64 - share * trial.sent() as f64;
        assert!(off.abs() <= 2.0 * row.cores as f64 + 1.0, "{name}: share {share} is off by {off} frames");
    }
    let timed: u64 = trial.reading.times.iter().map(|times| times.latency.count()).sum();
    assert!(timed > 0 && trial.reading.times[0].latency.min_ns > 0, "{name}: no latency");
}

fn rows() -> Vec<Row> {
    let modest = Load::PerSecond(2_000.0);
    let sizes = [64, 9018, 1518, 4096].map(|bytes| FrameSize::new(bytes).unwrap()).to_vec();
    vec![
        row("9000 paced", 9000, modest),
        row("9018 paced", 9018, modest),
        row("9216 paced", 9216, modest),
        row("the smallest that is no live frame", 3413, modest),
        row("burst", 9018, Load::Burst(501)),
        Row { udp: UdpChecksum::Valid, ..row("checksum", 9018, modest) },
        Row { ip: IpVersion::V6, ..row("IPv6", 9018, modest) },
        Row { frame: FrameMix::sequence("mix", sizes).unwrap(), ..row("a mix", 9018, Load::Burst(402)) },
        Row { lanes: TWO_WAY, ..row("both ways", 9018, modest) },
        Row { cores: 2, lanes: TWO_WAY, ..row("both ways on two cores", 9018, modest) },
        Row { cores: 2, ..row("burst on two cores", 9018, Load::Burst(301)) },
    ]
}

#[test]
fn nothing_is_lost_on_a_wire() {
    check(Middle::Wire, &rows());
}

#[test]
fn nothing_is_lost_through_linux() {
    check(Middle::Routing, &rows());
}

/// At full speed a ring may overflow; what arrives is right all the same, and all that is missing is counted.
#[test]
fn full_speed_is_counted() {
    let _turn = testkit::turn();
    for (middle, count) in [(Middle::Wire, 2), (Middle::Routing, 1), (Middle::Routing, 2)] {
        let bed = Bed::new(middle, 9000);
        let (mut engine, ports) = bed.engine(1000);
        engine.set_traffic(&shape(fixed(9018), 1000)).unwrap();
        let cores = cores(count);
        let plan = TrialPlan {
            translated: None,
            forbidden: None,
            phases: &[Phase { load: Load::Maximum, seconds: 0.3 }],
            lanes: ONE_WAY,
            placement: Placement::Inline,
            cores: &cores,
            times_matter: false,
            settle: fixture::PATIENCE,
        };
        let trial = engine.run(&ports, &plan, &mut ()).unwrap();
        let stream = &trial.reading.streams[0];
        assert!(stream.received > 0 && stream.received <= stream.sent);
        assert_eq!(stream.received_bytes, stream.received * 9014);
        assert_eq!((stream.duplicated, stream.reordered, stream.corrupted), (0, 0, 0));
        engine.detach(ports);
    }
}

#[test]
fn a_link_that_is_too_small_is_named() {
    let _turn = testkit::turn();
    let bed = Bed::new(Middle::Wire, 9000);
    let (mut engine, ports) = bed.engine(10);
    engine.set_traffic(&shape(fixed(9019), 10)).unwrap();
    let plan = TrialPlan {
        translated: None,
        forbidden: None,
        phases: &[Phase { load: Load::Burst(1), seconds: 0.1 }],
        lanes: ONE_WAY,
        placement: Placement::Inline,
        cores: &[0],
        times_matter: true,
        settle: fixture::PATIENCE,
    };
    assert_eq!(
        engine.run(&ports, &plan, &mut ()).unwrap_err().to_string(),
        "sending jumbo frames through a packet socket (every link needs an MTU of 9001 or more) failed: \
         Message too long (os error 90)"
    );
    engine.detach(ports);
}
