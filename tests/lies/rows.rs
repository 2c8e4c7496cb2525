//! The lies about frames, a row each, and what is said of each.

use super::fixture::{BACK, FORWARD};
use measure::results::MarkKind;
use measure::shape::{IpVersion, Lane, Zone};
use measure::trial::Load;

/// What a firewall does instead of forwarding; `enum lie` of the program, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
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
pub(crate) enum When {
    Always,
    AfterFrames,
    AfterTime,
    Busy,
    NewFlows,
}

/// Which frames are lied about; `enum which`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    All,
    SecondFragments,
    ToDmz,
}

#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) lie: Lie,
    pub(crate) which: Which,
    pub(crate) when: When,
    /// One frame in so many is lied about.
    pub(crate) every: u32,
    /// Byte of the frame, or frames ago.
    pub(crate) at: u32,
    /// Frames of 64 bytes unless said.
    pub(crate) bytes: u16,
    /// IPv4 unless said.
    pub(crate) ip: IpVersion,
    /// Of a datagram; 1 unless said.
    pub(crate) fragments: u32,
    pub(crate) lanes: &'static [(Lane, f64)],
    pub(crate) cores: usize,
    pub(crate) load: Load,
    /// Whether datagrams have a UDP checksum.
    pub(crate) checked: bool,
    /// Whether the firewall keeps state.
    pub(crate) stateful: bool,
    /// The mark that it gets, and what that says.
    pub(crate) found: Option<(MarkKind, &'static str)>,
}

const ONE_WAY: &[(Lane, f64)] = &[(FORWARD, 1.0)];
const TWO_WAY: &[(Lane, f64)] = &[(FORWARD, 0.5), (BACK, 0.5)];
/// As a bed of three zones has them.
const THREE_ZONES: &[(Lane, f64)] = &[
    (FORWARD, 0.4),
    (Lane { from: Zone::Private, to: Zone::Dmz }, 0.3),
    (Lane { from: Zone::Hostile, to: Zone::Dmz }, 0.3),
];
/// More frames than the sinks remembered once.
const FRAMES: u64 = 20_000;

pub(crate) fn row(name: &'static str, lie: Lie, every: u32, found: (MarkKind, &'static str)) -> Row {
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

pub(crate) fn rows() -> Vec<Row> {
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
                        // Of twenty forbidden frames chance may give the DMZ but four.
                        2,
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
