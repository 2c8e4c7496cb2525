//! Lies about frames (`bpf/test/lies.bpf.c`), on the generator, the sinks, the ledger and the judgement of real trials.

#[path = "../../crates/traffic/tests/fixture/mod.rs"]
mod fixture;

use fixture::{
    BACK, Bed, FORWARD, HOSTILE_MAC, MIDDLE_HOSTILE_MAC, MIDDLE_PRIVATE_MAC, Middle, PRIVATE_MAC, fixed,
    shape,
};
use measure::procedure::judge;
use measure::results::{CpuUse, Mark, MarkKind};
use measure::shape::{IpVersion, Lane, Placement, TrafficShape, UdpChecksum, Zone};
use measure::trial::{FrameOutcome, FrameRequest, Load, TrialOutcome, TrialRequest, WorkloadOutcome};
use std::net::Ipv4Addr;
use testkit::filter::{Filter, LIES, Only};
use testkit::namespace::Namespace;
use traffic::{Engine, Forbidden, Port, Ports, SETTLE, TrialPlan};

/// What a firewall does instead of forwarding; `enum lie` of the program, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lie {
    Honest,
    SendsBack,
    Echoes,
    SendsOld,
    SendsOtherCores,
    Replays,
    Flips,
    LeavesTtl,
    TakesTwoTtl,
    ChangesTos,
    ChangesSource,
    ChangesDestination,
    ChangesSourcePort,
    ChangesDestinationPort,
    ChangesId,
    ClearsFlags,
    ChangesUdpCheck,
    Cuts,
    Extends,
    ForgesSequence,
    ForgesTime,
    SwapsStamps,
    Duplicates,
    HidesDrops,
    AllowsOneIn,
    AllowsWhenBusy,
    Drops,
    BreaksIpCheck,
    Invents,
    SendsToDmz,
    MakesUpForTos,
    MakesUpForTtl,
    SendsBackUnturned,
    IgnoresListsWhenBusy,
    ForgetsFlowsWhenBusy,
    FiltersOnePort,
    AllowsAtFirst,
    AllowsToSome,
    CopiesToDmz,
    ZeroesUdpCheck,
    Translates,
    TranslatesHalf,
    AddsOptions,
    AddsVlan,
    AddsVlanTwice,
    AddsPriority,
    AllowsOnceSeen,
}

/// When frames are lied about; `enum when`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    AfterFrames,
    AfterTime,
    Busy,
    NewFlows,
}

/// Which frames are lied about; `enum which`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    SecondFragments,
    ToDmz,
}

#[derive(Clone)]
struct Row {
    name: &'static str,
    lie: Lie,
    which: Which,
    when: When,
    /// One frame in so many is lied about.
    every: u32,
    /// Byte of the frame, or frames ago.
    at: u32,
    /// Frames of 64 bytes unless said.
    bytes: u16,
    /// IPv4 unless said.
    ip: IpVersion,
    /// Of a datagram; 1 unless said.
    fragments: u32,
    lanes: &'static [(Lane, f64)],
    cores: usize,
    load: Load,
    /// Whether datagrams have a UDP checksum.
    checked: bool,
    /// Whether the firewall keeps state.
    stateful: bool,
    /// The mark that it gets, and what that says.
    found: Option<(MarkKind, &'static str)>,
}

const ONE_WAY: &[(Lane, f64)] = &[(FORWARD, 1.0)];
const TWO_WAY: &[(Lane, f64)] = &[(FORWARD, 0.5), (BACK, 0.5)];
/// As a bed of three zones has them.
const THREE_ZONES: &[(Lane, f64)] = &[
    (FORWARD, 0.4),
    (Lane { from: Zone::Private, to: Zone::Dmz }, 0.3),
    (Lane { from: Zone::Hostile, to: Zone::Dmz }, 0.3),
];
/// What the firewall's policy lists, and what it translates to: as in the program.
const LISTED: [u32; 2] = [0xc612_00fa, 0x2d01_0203];
const TRANSLATED_V4: u32 = 0x6440_0000;
/// Flows of a trial, and of one before it that proves a part of them.
const FLOWS: u32 = 100;
const PROVED_FLOWS: u32 = 50;
/// More frames than the sinks remembered once.
const FRAMES: u64 = 20_000;

fn row(name: &'static str, lie: Lie, every: u32, found: (MarkKind, &'static str)) -> Row {
    let load = Load::Burst(FRAMES);
    Row {
        name,
        lie,
        which: Which::All,
        when: When::Always,
        every,
        at: 0,
        bytes: 64,
        ip: IpVersion::V4,
        fragments: 1,
        lanes: ONE_WAY,
        cores: 1,
        load,
        checked: false,
        stateful: false,
        found: Some(found),
    }
}

/// A row of IPv6, whose smallest frame with a stamp is longer.
fn v6(row: Row) -> Row {
    Row { ip: IpVersion::V6, bytes: 128, ..row }
}

/// A row that lies about second fragments.
fn second_fragments(ip: IpVersion, row: Row) -> Row {
    Row { ip, bytes: 256, fragments: 2, which: Which::SecondFragments, ..row }
}

/// A row whose lie is one bit at a byte of an IPv6 frame.
fn flip_v6(name: &'static str, at: u32, found: (MarkKind, &'static str)) -> Row {
    v6(Row { at, ..row(name, Lie::Flips, 1000, found) })
}

fn rows() -> Vec<Row> {
    use MarkKind::{Altered, Damaged, Foreign, Forged, IllegalGotThrough, Repeated, WrongPort};
    // At 50,000 frames/s, of which one in a thousand is forbidden.
    let busy = Load::PerSecond(50_000.0);
    let mut rows = vec![
        row("sent back", Lie::SendsBack, 1, (WrongPort, "20000 of 20000 frames came out of the wrong port")),
        row("sent back now and then", Lie::SendsBack, 1000, (WrongPort, "20 of 20000 frames came out")),
        Row {
            lanes: TWO_WAY,
            ..row("sent back, two ways", Lie::SendsBack, 100, (WrongPort, "200 of 20000 frames came out"))
        },
        row(
            "answered by itself",
            Lie::Echoes,
            10,
            (WrongPort, "2000 of 20000 frames came out of the wrong port"),
        ),
        Row { at: 100, ..row("old copies, near", Lie::SendsOld, 10, (Repeated, "arrived again")) },
        Row { at: 10_000, ..row("old copies, far", Lie::SendsOld, 10, (Repeated, "arrived again")) },
        Row {
            cores: 2,
            ..row("another core's copies", Lie::SendsOtherCores, 10, (Repeated, "arrived again"))
        },
        row("frames of an earlier trial", Lie::Replays, 10, (Foreign, "of an earlier one")),
        Row {
            at: 58,
            bytes: 128,
            ..row("bits turned, rarely", Lie::Flips, 1000, (Forged, "20 frames arrived with a stamp"))
        },
        Row {
            at: 100,
            bytes: 128,
            ..row(
                "filling damaged, rarely",
                Lie::Flips,
                1000,
                (Damaged, "20 of 20000 frames arrived damaged"),
            )
        },
        Row {
            at: 100,
            bytes: 128,
            ..row("filling damaged, often", Lie::Flips, 2, (Damaged, "10000 of 20000 frames arrived damaged"))
        },
        Row {
            at: 1000,
            bytes: 1518,
            ..row("filling of large frames damaged", Lie::Flips, 2, (Damaged, "content was compared in"))
        },
        row("TTL left", Lie::LeavesTtl, 1, (Altered, "TTL 20000")),
        row("TTL less by two", Lie::TakesTwoTtl, 100, (Altered, "TTL 200")),
        row("TOS", Lie::ChangesTos, 1000, (Altered, "TOS or traffic class 20")),
        row("source address", Lie::ChangesSource, 1000, (Altered, "source address 20")),
        row("destination address", Lie::ChangesDestination, 1000, (Altered, "destination address 20")),
        row("source port", Lie::ChangesSourcePort, 1000, (Altered, "source port 20")),
        row("destination port", Lie::ChangesDestinationPort, 1000, (Altered, "destination port 20")),
        row("IP id", Lie::ChangesId, 1000, (Altered, "IP id 20")),
        row("don't fragment", Lie::ClearsFlags, 1000, (Altered, "fragment offset or flags 20")),
        row("UDP checksum", Lie::ChangesUdpCheck, 1000, (Altered, "UDP checksum 20")),
        row("IP checksum", Lie::BreaksIpCheck, 1000, (Altered, "IP checksum 20")),
        row(
            "TOS, with an id that makes up for it",
            Lie::MakesUpForTos,
            1000,
            (Altered, "TOS or traffic class 20"),
        ),
        row("TTL, with flags that make up for it", Lie::MakesUpForTtl, 1000, (Altered, "TTL 20")),
        row("Ethernet destination", Lie::Flips, 1000, (Altered, "Ethernet destination or type 20")),
        row(
            "sent back to the right address",
            Lie::SendsBackUnturned,
            1000,
            (WrongPort, "20 of 20000 frames came out"),
        ),
        Row {
            bytes: 128,
            ..row("cut short", Lie::Cuts, 1000, (Damaged, "20 of 20000 frames arrived damaged"))
        },
        Row {
            bytes: 128,
            ..row("made longer", Lie::Extends, 1000, (Damaged, "20 of 20000 frames arrived damaged"))
        },
        row(
            "invented sequence numbers",
            Lie::ForgesSequence,
            1000,
            (Forged, "20 frames arrived with a stamp"),
        ),
        row(
            "invented frames beside the others",
            Lie::Invents,
            1000,
            (Forged, "20 frames arrived with a stamp"),
        ),
        row(
            "times that make latency small",
            Lie::ForgesTime,
            1000,
            (Forged, "20 frames arrived with a stamp"),
        ),
        row("stamps of another flow", Lie::SwapsStamps, 10, (Altered, "source")),
        row("sent twice", Lie::Duplicates, 100, (Repeated, "200 of 20000 frames arrived again")),
        row("drops hidden by copies", Lie::HidesDrops, 100, (Repeated, "of 20000 frames arrived again")),
        Row {
            load: busy,
            ..row(
                "everything is allowed above a rate",
                Lie::AllowsWhenBusy,
                0,
                (IllegalGotThrough, "the policy did not hold under load"),
            )
        },
        Row {
            load: busy,
            ..row(
                "one forbidden frame in five is allowed",
                Lie::AllowsOneIn,
                5,
                (IllegalGotThrough, "forbidden frames arrived"),
            )
        },
    ];
    rows.extend([
        v6(row("IPv6, sent back", Lie::SendsBack, 1000, (WrongPort, "20 of 20000 frames came out"))),
        v6(row("IPv6, hop limit left", Lie::LeavesTtl, 1, (Altered, "TTL 20000"))),
        v6(row("IPv6, hop limit less by two", Lie::TakesTwoTtl, 100, (Altered, "TTL 200"))),
        v6(row("IPv6, sent twice", Lie::Duplicates, 100, (Repeated, "200 of 20000 frames arrived again"))),
        v6(row("IPv6, cut short", Lie::Cuts, 1000, (Damaged, "20 of 20000 frames arrived damaged"))),
        flip_v6("IPv6, flow label", 16, (Altered, "TOS or traffic class 20")),
        flip_v6("IPv6, length", 19, (Altered, "length 20")),
        flip_v6("IPv6, source address", 37, (Altered, "source address 20")),
        flip_v6("IPv6, destination address", 53, (Altered, "destination address 20")),
        flip_v6("IPv6, source port", 55, (Altered, "source port 20")),
        flip_v6("IPv6, destination port", 57, (Altered, "destination port 20")),
        flip_v6("IPv6, UDP checksum", 61, (Altered, "UDP checksum 20")),
        flip_v6("IPv6, stamp", 70, (Forged, "20 frames arrived with a stamp")),
        flip_v6("IPv6, filling", 110, (Damaged, "20 of 20000 frames arrived damaged")),
        v6(Row {
            load: busy,
            ..row(
                "IPv6, everything is allowed above a rate",
                Lie::AllowsWhenBusy,
                0,
                (IllegalGotThrough, "the policy did not hold under load"),
            )
        }),
    ]);
    for ip in [IpVersion::V4, IpVersion::V6] {
        rows.extend(
            [
                row(
                    "second fragments, sent back",
                    Lie::SendsBack,
                    100,
                    (WrongPort, "came out of the wrong port"),
                ),
                row("second fragments, sent twice", Lie::Duplicates, 100, (Repeated, "arrived again")),
                row("second fragments, hop limit", Lie::LeavesTtl, 100, (Altered, "TTL")),
                row("second fragments, cut short", Lie::Cuts, 100, (Damaged, "arrived damaged")),
                Row {
                    at: 100,
                    ..row("second fragments, filling", Lie::Flips, 100, (Damaged, "arrived damaged"))
                },
            ]
            .map(|row| second_fragments(ip, row)),
        );
    }
    rows.push(second_fragments(
        IpVersion::V4,
        row("second fragments, IP id", Lie::ChangesId, 100, (Altered, "IP id")),
    ));
    for ip in [IpVersion::V4, IpVersion::V6] {
        rows.extend(
            [
                row("to the DMZ instead", Lie::SendsToDmz, 100, (WrongPort, "came out of the wrong port")),
                row("three zones, sent back", Lie::SendsBack, 100, (WrongPort, "came out of the wrong port")),
                Row {
                    which: Which::ToDmz,
                    ..row("DMZ, sent twice", Lie::Duplicates, 100, (Repeated, "arrived again"))
                },
                Row { which: Which::ToDmz, ..row("DMZ, hop limit", Lie::TakesTwoTtl, 100, (Altered, "TTL")) },
                Row {
                    which: Which::ToDmz,
                    load: busy,
                    ..row(
                        "what is forbidden is allowed to the DMZ",
                        Lie::AllowsOneIn,
                        5,
                        (IllegalGotThrough, "forbidden frames arrived"),
                    )
                },
            ]
            .map(|row| Row { lanes: THREE_ZONES, ip, bytes: 128, ..row }),
        );
    }
    let through = (IllegalGotThrough, "the policy did not hold under load");
    // Of so many frames one in a thousand is forbidden, of two kinds or three.
    let busier = Load::PerSecond(150_000.0);
    rows.extend(
        [
            row("lists are ignored above a rate", Lie::IgnoresListsWhenBusy, 0, through),
            Row {
                stateful: true,
                ..row(
                    "answers that nobody asked for pass above a rate",
                    Lie::ForgetsFlowsWhenBusy,
                    0,
                    through,
                )
            },
            row("one port alone is filtered", Lie::FiltersOnePort, 0, through),
            row("everything is allowed in the first 10 ms", Lie::AllowsAtFirst, 0, through),
            row("everything is allowed to some addresses", Lie::AllowsToSome, 0, through),
            row("large frames: everything is allowed", Lie::AllowsOneIn, 1, through),
        ]
        .map(|row| Row { load: busier, bytes: if row.every == 1 { 1518 } else { 64 }, ..row }),
    );
    for ip in [IpVersion::V4, IpVersion::V6] {
        let lax = row("fragments: everything is allowed above a rate", Lie::AllowsWhenBusy, 0, through);
        rows.push(Row { ip, fragments: 2, bytes: 256, load: busy, ..lax });
    }
    rows.extend([
        v6(Row {
            load: busy,
            stateful: true,
            ..row("IPv6, answers that nobody asked for", Lie::ForgetsFlowsWhenBusy, 0, through)
        }),
        Row {
            lanes: THREE_ZONES,
            ..row("copies to another port", Lie::CopiesToDmz, 100, (Repeated, "arrived again"))
        },
        Row {
            checked: true,
            ..row("UDP checksum zeroed", Lie::ZeroesUdpCheck, 1000, (Altered, "UDP checksum 20"))
        },
        Row {
            checked: true,
            ..row(
                "translated, but for the UDP checksum",
                Lie::TranslatesHalf,
                1000,
                (Altered, "UDP checksum 20"),
            )
        },
        row("IP options added", Lie::AddsOptions, 100, (Foreign, "200 frames arrived that are of no trial")),
        row("VLAN tag added", Lie::AddsVlan, 100, (Foreign, "200 frames arrived that are of no trial")),
        row(
            "two VLAN tags added",
            Lie::AddsVlanTwice,
            100,
            (Foreign, "200 frames arrived that are of no trial"),
        ),
        row(
            "priority tag added",
            Lie::AddsPriority,
            100,
            (Foreign, "200 frames arrived that are of no trial"),
        ),
        v6(row(
            "IPv6, VLAN tag added",
            Lie::AddsVlan,
            100,
            (Foreign, "200 frames arrived that are of no trial"),
        )),
        Row {
            load: busier,
            ..row("policies hold for as many frames as a proof has", Lie::AllowsOnceSeen, 0, through)
        },
    ]);
    rows.extend(delayed());
    // What is no lie gets no such mark: it stays valid, or is a loss and nothing else.
    for (name, lanes, ip, fragments) in [
        ("honest, three zones", THREE_ZONES, IpVersion::V4, 1),
        ("honest, three zones, IPv6", THREE_ZONES, IpVersion::V6, 1),
        ("honest, fragments", TWO_WAY, IpVersion::V4, 2),
        ("honest, fragments, IPv6", TWO_WAY, IpVersion::V6, 2),
    ] {
        let honest = row(name, Lie::Honest, 0, (MarkKind::Note, ""));
        rows.push(Row { lanes, ip, fragments, bytes: 256, found: None, ..honest });
    }
    for (name, lie, stateful, checked, fragments) in [
        ("honest, with state and lists", Lie::Honest, true, false, 1),
        ("honest, fragments with a policy", Lie::Honest, true, false, 2),
        ("honest, translates", Lie::Translates, false, true, 1),
        ("honest, translates without a checksum", Lie::Translates, false, false, 1),
    ] {
        let honest = row(name, lie, 0, (MarkKind::Note, ""));
        let bytes = if fragments == 2 { 256 } else { 64 };
        rows.push(Row { stateful, checked, fragments, bytes, load: busy, found: None, ..honest });
    }
    for (name, lie, every, load, bytes) in [
        ("honest", Lie::Honest, 0, Load::Burst(FRAMES), 64),
        ("honest, with a policy", Lie::Honest, 0, busy, 64),
        ("honest, large frames", Lie::Honest, 0, Load::Burst(FRAMES), 1518),
        ("drops", Lie::Drops, 100, Load::Burst(FRAMES), 64),
    ] {
        let honest = row(name, lie, every, (MarkKind::Note, ""));
        rows.push(Row {
            load,
            bytes,
            found: None,
            lanes: if bytes == 64 { TWO_WAY } else { ONE_WAY },
            ..honest
        });
    }
    rows
}

/// Lies of firewalls that wait until nobody looks, as they think: every check is of every frame, so when does not matter.
fn delayed() -> Vec<Row> {
    use MarkKind::{Altered, Damaged, IllegalGotThrough, Repeated, WrongPort};
    let lies = [
        row("sent back", Lie::SendsBack, 100, (WrongPort, "came out of the wrong port")),
        row("TOS", Lie::ChangesTos, 100, (Altered, "TOS or traffic class")),
        row("sent twice", Lie::Duplicates, 100, (Repeated, "arrived again")),
        Row { at: 100, bytes: 128, ..row("filling damaged", Lie::Flips, 100, (Damaged, "arrived damaged")) },
        row(
            "what is forbidden is allowed",
            Lie::AllowsOneIn,
            1,
            (IllegalGotThrough, "forbidden frames arrived"),
        ),
    ];
    let moments = [When::AfterFrames, When::AfterTime, When::Busy, When::NewFlows];
    let pairs = moments.into_iter().flat_map(|when| lies.iter().map(move |lie| (when, lie)));
    // Which flow a forbidden frame is of, nobody can have proved.
    pairs
        .filter(|(when, lie)| *when != When::NewFlows || lie.lie != Lie::AllowsOneIn)
        .map(|(when, lie)| Row { when, load: Load::PerSecond(150_000.0), ..lie.clone() })
        .collect()
}

/// A firewall whose lie can be chosen.
struct Liar {
    settings: Only,
    memories: Only,
}

const DMZ_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x0c];
const MIDDLE_DMZ_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xfc];
/// The way to the DMZ, whatever a frame came in on: `DMZ_WAY` of the program.
const DMZ_WAY: u32 = 0;

/// A third zone behind the middle of a bed.
fn add_dmz(bed: &mut Bed) -> Namespace {
    let zone = Namespace::create("d");
    zone.set(&[("ipv6/conf/all/disable_ipv6", "1")]);
    let (middle, queues) = (bed.middle().name(), "numtxqueues 2 numrxqueues 2");
    zone.ip(&format!(
        "link add z index 30 address 02:00:00:00:00:0c {queues} type veth peer name md index 31 netns {middle} \
         address 02:00:00:00:00:fc {queues}"
    ));
    for (end, link) in [(&zone, "z"), (bed.middle(), "md")] {
        end.ip(&format!("link set {link} addrgenmode none\nlink set {link} up"));
        end.take_redirected(link);
    }
    let port = Port {
        zone: Zone::Dmz,
        namespace: Some(zone.path()),
        ifindex: zone.ifindex("z"),
        mac: DMZ_MAC,
        next_hop_mac: MIDDLE_DMZ_MAC,
        v4_prefix: 0xc613_8000,
        v6_prefix: [0x20, 0x01, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0],
    };
    bed.ports.insert(1, port);
    zone
}

impl Liar {
    /// Between the three zones of a bed.
    fn over(bed: &Bed) -> Self {
        let filter = Filter::load(LIES);
        let [private, dmz, hostile] = ["mp", "md", "mh"].map(|link| bed.ifindex(2, link));
        filter.way(private, hostile, HOSTILE_MAC, MIDDLE_HOSTILE_MAC);
        filter.way(hostile, private, PRIVATE_MAC, MIDDLE_PRIVATE_MAC);
        filter.way(DMZ_WAY, dmz, DMZ_MAC, MIDDLE_DMZ_MAC);
        filter.attach("forward", bed.middle(), &[private, dmz, hostile]);
        Self { settings: filter.only("settings"), memories: filter.only("memories") }
    }

    fn lies(&self, lie: Lie, row: &Row) {
        let words = [lie as u32, row.every, row.at, row.which as u32, row.stateful.into(), row.when as u32];
        self.settings.set(&words);
        self.memories.set(&[]);
    }
}

/// Runs a row's trial as a rig does whose firewall is a box that nobody can look into.
fn trial(engine: &mut Engine, ports: &Ports, row: &Row, flows: u32) -> (TrialOutcome, Vec<Mark>) {
    let udp_checksum = if row.checked { UdpChecksum::Valid } else { UdpChecksum::Zero };
    let traffic =
        TrafficShape { ip: row.ip, fragments: row.fragments, udp_checksum, ..shape(fixed(row.bytes), flows) };
    engine.set_traffic(&traffic).unwrap();
    let phases = [measure::trial::Phase {
        load: row.load,
        seconds: if matches!(row.load, Load::Burst(_)) { 60.0 } else { 0.4 },
    }];
    let forbidden = Forbidden {
        ports: Some(49_152..=59_999),
        sources: LISTED.map(Ipv4Addr::from).to_vec(),
        answers: row.stateful,
    };
    let plan = TrialPlan {
        phases: &phases,
        lanes: row.lanes,
        placement: Placement::Inline,
        cores: &fixture::cores(row.cores),
        times_matter: false,
        settle: 3 * SETTLE,
        translated: matches!(row.lie, Lie::Translates | Lie::TranslatesHalf)
            .then_some((TRANSLATED_V4, [0; 16])),
        forbidden: Some(&forbidden),
    };
    let reading = engine.run(ports, &plan, &mut ()).unwrap();
    let mut ledger = reading.ledger();
    let lost = ledger.residual().max(0) as u64;
    ledger.frames_mut().unwrap().not_received += lost;
    let outcome = TrialOutcome {
        id: 0,
        seconds: reading.seconds,
        ledger,
        per_second: Vec::new(),
        cpu: CpuUse::default(),
        flow_entries: None,
        memory_bytes: None,
        policy_load_seconds: None,
        faults: Vec::new(),
        remarks: Vec::new(),
        workload: WorkloadOutcome::Frames(FrameOutcome::default()),
    };
    let request = TrialRequest::from(FrameRequest::of(phases.to_vec()));
    let marks = judge(&request, &outcome, plan.placement);
    (outcome, marks)
}

/// A trial of a row. On a busy machine the generator leaves frames of a schedule unsent, which the bench marks: the load is then not what
/// the lie waits for, or hardly any forbidden frame was due, so the trial is done again.
fn whole_trial(engine: &mut Engine, ports: &Ports, liar: &Liar, row: &Row) -> (TrialOutcome, Vec<Mark>) {
    const TRIES: usize = 50;
    for _ in 1..TRIES {
        if row.lie == Lie::Replays || row.when == When::NewFlows {
            // An honest trial before it, whose frames or flows the liar keeps.
            liar.lies(Lie::Honest, row);
            let flows = if row.when == When::NewFlows { PROVED_FLOWS } else { FLOWS };
            trial(engine, ports, row, flows);
        }
        liar.lies(row.lie, row);
        let found = trial(engine, ports, row, FLOWS);
        if matches!(row.load, Load::Burst(_)) || found.0.ledger.not_sent * 100 <= found.0.ledger.offered {
            return found;
        }
    }
    panic!("{}: no trial of {TRIES} was sent whole", row.name);
}

/// Whether a mark says what a row asks for. A stamp's check has 16 bits: of 20 frames whose stamp or addresses were changed, one fits by
/// accident in one trial of 3,000, and there are a dozen such rows.
fn says(kind: MarkKind, text: &str, words: &str) -> bool {
    if text.contains(words) {
        return true;
    }
    let one_less: Vec<&str> = words.split(' ').map(|word| if word == "20" { "19" } else { word }).collect();
    matches!(kind, MarkKind::Altered | MarkKind::Forged) && text.contains(&one_less.join(" "))
}

#[test]
fn every_lie_about_frames_costs_the_value_and_is_named() {
    let _turn = testkit::turn();
    let mut bed = Bed::new(Middle::Silent, 1500);
    let _dmz = add_dmz(&mut bed);
    let liar = Liar::over(&bed);
    let (mut engine, ports) = bed.engine(100);
    let mut wrong = Vec::new();
    for row in rows() {
        let (outcome, marks) = whole_trial(&mut engine, &ports, &liar, &row);
        let said: Vec<(MarkKind, &str)> = marks.iter().map(|mark| (mark.kind, mark.text.as_str())).collect();
        let right = match row.found {
            Some((kind, words)) => said
                .iter()
                .any(|(found, text)| *found == kind && says(kind, text, words) && kind.invalidates()),
            None => said.is_empty(),
        };
        let beside = &outcome.ledger.frames().unwrap().beside;
        // Beside a burst, or fragments, none may have been due; a busy machine sends few.
        let asked = matches!(row.load, Load::Burst(_)) || beside.forbidden_sent > 0;
        let honest = row.lie != Lie::Honest || outcome.ledger.received == outcome.ledger.sent();
        if !right || !honest || !asked {
            wrong.push(format!("{}, {:?}: {said:?}, {:?}", row.name, row.when, outcome.ledger));
        }
    }
    engine.detach(ports);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A box with much memory behind a link that is slower than the load: what it forwards when the trial is over is no throughput.
#[test]
fn what_is_held_back_until_the_trial_is_over_is_lost() {
    let _turn = testkit::turn();
    let mut bed = Bed::new(Middle::Silent, 1500);
    let _dmz = add_dmz(&mut bed);
    let liar = Liar::over(&bed);
    // About 20,000 frames of 512 bytes a second, and room for several seconds of them.
    bed.middle().run(
        "tc",
        &["qdisc", "add", "dev", "mh", "root", "tbf", "rate", "80mbit", "burst", "20kb", "limit", "50mb"],
    );
    let (mut engine, ports) = bed.engine(100);
    for rate in [10_000.0, 50_000.0] {
        let slow = row("holds back", Lie::Honest, 0, (MarkKind::Note, ""));
        let slow = Row { load: Load::PerSecond(rate), bytes: 512, ..slow };
        liar.lies(slow.lie, &slow);
        let (outcome, marks) = trial(&mut engine, &ports, &slow, FLOWS);
        // What the link carries until a tenth of a second after the load. A generator kept from its core sends for longer.
        let most = (20_500.0 * (outcome.seconds + 0.15)) as u64 + 100;
        let (sent, received) = (outcome.ledger.sent(), outcome.ledger.received);
        assert!(received <= most, "{rate}: {} s, {:?}", outcome.seconds, outcome.ledger);
        assert!(received * 4 > sent.min(most) * 3, "{rate}: {} s, {:?}", outcome.seconds, outcome.ledger);
        assert!(marks.is_empty(), "{marks:?}");
    }
    engine.detach(ports);
}

#[test]
fn the_promises_count_the_lies_that_there_are() {
    let rows = rows();
    let honest = rows.iter().filter(|row| row.found.is_none()).count();
    // And frames held back, which have a test of their own.
    let caught = rows.len() - honest + 1;
    let said = format!(
        "{caught} of {caught}, and {honest} honest ones stay valid | any | `cargo test -p rampart-bench --test lies`"
    );
    assert!(include_str!("../../SPEC.md").contains(&said), "SPEC.md does not say: {said}");
}
