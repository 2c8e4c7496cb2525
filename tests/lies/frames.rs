//! Lies about frames (`bpf/test/lies.bpf.c`), on the generator, the sinks, the ledger and the judgement of real trials.

#[path = "../../crates/traffic/tests/fixture/mod.rs"]
mod fixture;
#[path = "rows.rs"]
mod rows;

use fixture::{Bed, HOSTILE_MAC, MIDDLE_HOSTILE_MAC, MIDDLE_PRIVATE_MAC, Middle, PRIVATE_MAC, fixed, shape};
use measure::procedure::judge;
use measure::results::{CpuUse, Mark, MarkKind};
use measure::shape::{Placement, TrafficShape, UdpChecksum, Zone};
use measure::trial::{FrameOutcome, FrameRequest, Load, TrialOutcome, TrialRequest, WorkloadOutcome};
use rows::{Lie, Row, When, row, rows};
use std::net::Ipv4Addr;
use testkit::filter::{Filter, LIES, Only};
use testkit::namespace::Namespace;
use traffic::{Engine, Forbidden, Port, Ports, SETTLE, TrialPlan};

/// What the firewall's policy lists, and what it translates to: as in the program.
const LISTED: [u32; 2] = [0xc612_00fa, 0x2d01_0203];
const TRANSLATED_V4: u32 = 0x6440_0000;
/// Flows of a trial, and of one before it that proves a part of them.
const FLOWS: u32 = 100;
const PROVED_FLOWS: u32 = 50;
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
        faults: reading.is_doubtful.then(|| "doubtful".to_owned()).into_iter().collect(),
        remarks: Vec::new(),
        policy_broken: None,
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

/// How often a trial of which too little was seen is made.
const ATTEMPTS: u32 = 10;

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
    // What the link carries in the time of the load, and not what its queue hands on afterwards. A generator kept from its core sends for longer.
    let most_of = |outcome: &TrialOutcome| (20_500.0 * outcome.seconds * 1.03) as u64 + 100;
    // At 24,000 all has arrived within a tenth of a second.
    for rate in [10_000.0, 24_000.0, 50_000.0] {
        let slow = row("holds back", Lie::Honest, 0, (MarkKind::Note, ""));
        let slow = Row { load: Load::PerSecond(rate), bytes: 512, ..slow };
        liar.lies(slow.lie, &slow);
        // Who looks at what has arrived may be kept from its core beside other tests; that trial says so, and is made again.
        let mut attempts = 0;
        let (outcome, marks) = loop {
            let (outcome, marks) = trial(&mut engine, &ports, &slow, FLOWS);
            attempts += 1;
            if attempts == ATTEMPTS || outcome.faults.is_empty() {
                break (outcome, marks);
            }
        };
        let most = most_of(&outcome);
        let (sent, received) = (outcome.ledger.sent(), outcome.ledger.received);
        assert!(received <= most, "{rate}: {} s, {:?}", outcome.seconds, outcome.ledger);
        assert!(received * 4 > sent.min(most) * 3, "{rate}: {} s, {:?}", outcome.seconds, outcome.ledger);
        assert!(marks.is_empty() && outcome.faults.is_empty(), "{marks:?} {:?}", outcome.faults);
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
