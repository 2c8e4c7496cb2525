//! Frames and what becomes of them: `rows/rows.txt`. Each row gets the same verdict and the same frame from the reference
//! (`rows/reference.rs`, with the policy's interpreter in it), and from the BPF programs of both hooks; what the reference
//! asked of the rules is asked of the policy's tables too, by both methods, and of those in the kernel. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "rows/answers.rs"]
mod answers;
mod bed;
#[path = "rows/reference.rs"]
mod reference;
#[path = "rows/seen.rs"]
mod seen;

use bed::{Bed, Fate, Side};
use dataplane::{Filter, Hook, Settings};
use policy::Policy;
use policy::interpret::Decider;
use policy::tables::{Limits, Tables};
use reference::{Outcome, Reference};
use seen::{Icmp, Seen};
use std::collections::BTreeSet;
use std::time::Duration;
use testkit::random::Random;

const POLICY: &str = include_str!("rows/rows.toml");
const ROWS: &str = include_str!("rows/rows.txt");
/// What every segment offers, so that data may come.
const WINDOW: &str = "window=1000";
/// Drops that these rows must show; the others want a full table, a connection, several cores or a rule's limits.
const REASONS: [&str; 33] = [
    "truncated",
    "length",
    "header",
    "checksum",
    "extensions",
    "tcp-flags",
    "land",
    "source",
    "zone-source",
    "reverse-path",
    "not-ip",
    "no-zone",
    "not-ours",
    "vlan",
    "options",
    "icmp-redirect",
    "fragment-unknown",
    "fragment-overlap",
    "fragment-duplicate",
    "destination",
    "rule-deny",
    "rule-reject",
    "default-deny",
    "default-reject",
    "list",
    "flow-zone",
    "tcp-no-flow",
    "icmp-unrelated",
    "icmp-unasked",
    "ttl",
    "too-big",
    "no-route",
    "not-a-port",
];

/// The bed with routes that do not forward, a narrow one, and an interface of no zone.
fn bed(hook: Hook) -> Bed {
    let bed = Bed::with(hook, &Settings { flows: 4096, rules: 1024 }, POLICY);
    bed.namespace().ip("link add side0 type veth peer name far2
         link set far2 up
         link set side0 up
         address add 198.19.1.1/24 dev side0
         route add 198.18.3.0/24 via 198.18.1.2
         route add 2001:2:0:3::/64 via 2001:2:0:1::2
         route add 169.254.0.0/16 via 198.18.2.2
         route add 192.0.2.0/24 via 198.18.2.2 mtu lock 1400
         route add 2001:2:0:5::/64 via 2001:2:0:2::2 mtu lock 1400
         route add unreachable 203.0.113.0/26
         route add prohibit 203.0.113.64/26
         route add blackhole 203.0.113.128/26
         -6 route add unreachable 2001:db8:1::/48
         -6 route add prohibit 2001:db8:2::/48
         -6 route add blackhole 2001:db8:3::/48");
    bed.firewall().add_local_address("169.254.1.1".parse().unwrap()).unwrap();
    bed.firewall().forget_routes().unwrap();
    bed
}

/// A row holds, or why not.
fn compare(bed: &Bed, expected: &Outcome, fate: Fate, frame: Vec<u8>) -> Result<(), String> {
    let (reason, answer) =
        expected.words.split_once(' ').map_or((&*expected.words, None), |(r, a)| (r, Some(a)));
    let wanted = if answer.is_some() { format!("{reason}!") } else { reason.to_owned() };
    if fate.words() != wanted {
        return Err(format!("{:?}: {}, not {}", bed.hook(), fate.words(), expected.words));
    }
    match &expected.frame {
        Some(wanted) if *wanted != frame => {
            Err(format!("{:?}: another frame\n  is {frame:02x?}\n not {wanted:02x?}", bed.hook()))
        }
        _ => Ok(()),
    }
}

/// What the rules said, by the tables of both methods and by those in the kernel.
fn check_tables(reference: &mut Reference, beds: &[Bed], tables: &[Tables; 2]) -> Result<(), String> {
    for (packet, verdict) in reference.asked.drain(..) {
        if tables.iter().any(|tables| tables.look_up(&packet).0 != verdict) {
            return Err(format!("the tables do not say {verdict:?}"));
        }
        for bed in beds {
            let judgement = bed.firewall().judge(&packet).unwrap().unwrap();
            let decider = judgement
                .row
                .map_or(Decider::Default, |row| Decider::Rule(tables[0].rules[row as usize] as usize));
            if (decider, judgement.action) != (verdict.decider, verdict.action) {
                return Err(format!("the tables in the kernel say {judgement:?}, not {verdict:?}"));
            }
        }
    }
    Ok(())
}

/// The policy's tables by both methods.
fn tables_of(reference: &Reference) -> [Tables; 2] {
    let vectors = Tables::build_within(&reference.policy, reference.at, Limits::VECTORS).unwrap();
    [Tables::build(&reference.policy, reference.at).unwrap(), vectors]
}

fn forget_flows(bed: &Bed) {
    for flow in bed.flows(&Filter::default()) {
        bed.firewall().flows.end(flow.id).unwrap();
    }
}

#[test]
fn needs_root_every_row_gets_its_verdict_and_its_frame_from_reference_tables_and_programs() {
    let mut beds = [bed(Hook::Xdp), bed(Hook::Tc)];
    let policy = Policy::parse("rows.toml", POLICY).unwrap_or_else(|problems| panic!("{problems}"));
    let mut reference = Reference::new(policy, jiff::Timestamp::UNIX_EPOCH);
    let mut tables = None;
    let (mut count, mut met, mut wrong) = (0, BTreeSet::new(), Vec::new());
    for line in ROWS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line.starts_with("==") {
            beds.iter().for_each(forget_flows);
            reference.forget_flows();
            continue;
        }
        if let Some(text) = reference.change_policy(POLICY, line) {
            beds.iter_mut().for_each(|bed| bed.apply_at(&text, reference.at));
            tables = Some(tables_of(&reference));
            continue;
        }
        if let Some(time) = line.strip_prefix("clock ") {
            reference.at = time.parse().unwrap();
            beds.iter_mut().for_each(|bed| bed.apply_at(POLICY, reference.at));
            tables = Some(tables_of(&reference));
            continue;
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, from, frame, expected] = cells[..] else { panic!("four cells: {line}") };
        let (zone, side) = match from.split(' ').next() {
            Some("in") => (Some("inside"), Some(Side::In)),
            Some("out") => (Some("outside"), Some(Side::Out)),
            _ => (None, None),
        };
        let frame = testkit::packet::frame(&format!("{WINDOW} {frame}"));
        let frame = side.map_or_else(|| frame.clone(), |side| side.addressed(&frame));
        let outcome = reference.cross(zone, &frame);
        let mut faults = Vec::new();
        if outcome.words != expected {
            faults.push(format!("reference: {}", outcome.words));
        }
        for bed in beds.iter_mut().filter(|bed| !from.ends_with("xdp") || bed.hook() == Hook::Xdp) {
            let (fate, left) = bed.send_from(side, &frame);
            faults.extend(compare(bed, &outcome, fate, left).err());
        }
        faults.extend(check_tables(&mut reference, &beds, tables.as_ref().unwrap()).err());
        if !faults.is_empty() {
            wrong.push(format!("{line}\n  {}", faults.join("\n  ")));
        }
        met.insert(expected.split(' ').next().unwrap());
        count += 1;
    }
    assert!(wrong.is_empty(), "{} of {count} rows:\n{}", wrong.len(), wrong.join("\n"));
    let missing: Vec<_> = REASONS.iter().filter(|reason| !met.contains(*reason)).collect();
    assert!(missing.is_empty() && count >= 200, "{count} rows; none of {missing:?}");
}

/// Bytes that ends of ranges are made of, and the numbers of IPv6's extension headers.
const EDGES: [u8; 16] = [0, 1, 2, 4, 7, 8, 0x0f, 0x20, 40, 43, 44, 58, 60, 0x7f, 0x80, 0xff];
/// Longer than any datagram waits for the rest of it.
const DATAGRAMS_WAIT: Duration = Duration::from_secs(90);
/// Frames that are made of each row's.
const DAMAGED: usize = 24;

/// A frame with up to three bytes of its headers changed, cut, or filled up.
fn damaged(frame: &[u8], random: &mut Random) -> Vec<u8> {
    let mut frame = frame.to_vec();
    for _ in 0..=random.below(3) {
        let headers = frame.len().min(90);
        match random.below(10) {
            0 => frame.truncate(14 + random.below(headers)),
            1 => frame.extend(std::iter::repeat_n(EDGES[random.below(16)], random.below(40))),
            // The length that an IP header says.
            2 if headers > 20 => {
                let at = if frame[12] == 8 { 16 } else { 18 };
                frame[at..at + 2].copy_from_slice(&[0, EDGES[random.below(16)]]);
            }
            _ if headers > 12 => frame[12 + random.below(headers - 12)] = EDGES[random.below(16)],
            _ => {}
        }
        mend_sum(&mut frame);
    }
    frame
}

/// Which of two faults is found first, and who gets an answer, are the rows' business.
fn is_dropped(words: &str) -> bool {
    !["pass", "up", "cut"].contains(&words)
}

/// Whether what becomes of a damaged frame can be compared. A test run takes no short frame, the bed knows few
/// neighbours and has places for few datagrams of a source, connections are `tcp.txt`'s, and of what an ICMP error quotes nobody checks the
/// sums and lengths.
fn is_comparable(frame: &[u8], whole: &[u8]) -> bool {
    let ends = if frame.get(12..14) == Some(&[8, 0]) { 26..34 } else { 22..54 };
    if frame.len() < ends.end || frame.get(ends.clone()) != whole.get(ends) {
        return false;
    }
    let Ok(seen) = Seen::read(frame) else { return true };
    let own = Seen::read(whole).ok();
    let is_same_part = seen.part.is_none_or(|part| {
        own.is_some_and(|own| own.protocol == seen.protocol && own.part.is_some_and(|own| own.id == part.id))
    });
    is_same_part && seen.protocol != 6 && seen.icmp != Some(Icmp::Error)
}

/// Most damage is to be found behind the checksum of an IPv4 header.
fn mend_sum(frame: &mut [u8]) {
    let header = frame.get(14).map_or(0, |first| usize::from(first & 15) * 4);
    if frame.get(12..14) == Some(&[8, 0]) && header >= 20 && frame.len() >= 14 + header {
        frame[24..26].fill(0);
        let check = testkit::packet::checksum(&frame[14..14 + header]);
        frame[24..26].copy_from_slice(&check.to_be_bytes());
    }
}

/// What one who writes headers wrong on purpose gets: the same from the programs and from who reads slowly. Connections are `tcp.txt`'s.
#[test]
fn needs_root_damaged_frames_are_read_as_the_reference_reads_them() {
    let mut beds = [bed(Hook::Xdp), bed(Hook::Tc)];
    let policy = Policy::parse("rows.toml", POLICY).unwrap_or_else(|problems| panic!("{problems}"));
    let mut reference = Reference::new(policy, "2026-11-25T12:00:00+01:00".parse().unwrap());
    beds.iter_mut().for_each(|bed| bed.apply_at(POLICY, reference.at));
    let mut random = Random::new(0x5261_6d70_6172_7431);
    let (mut count, mut met, mut wrong) = (0, BTreeSet::new(), Vec::new());
    for line in ROWS.lines().filter(|line| line.starts_with("==") || line.contains(" | ")) {
        if line.starts_with("==") {
            beds.iter().for_each(forget_flows);
            beds.iter_mut().for_each(|bed| bed.pass(DATAGRAMS_WAIT));
            reference.forget();
            continue;
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (zone, side) = match cells[1] {
            "in" => ("inside", Side::In),
            "out" => ("outside", Side::Out),
            _ => continue,
        };
        let whole = side.addressed(&testkit::packet::frame(&format!("{WINDOW} {}", cells[2])));
        // What the damaged ones may belong to comes first.
        for n in 0..=DAMAGED {
            let frame = if n == 0 { whole.clone() } else { damaged(&whole, &mut random) };
            if !is_comparable(&frame, &whole) {
                continue;
            }
            let outcome = reference.cross(Some(zone), &frame);
            for bed in &mut beds {
                let (fate, left) = bed.send_from(Some(side), &frame);
                let is_same = is_dropped(&outcome.words) && is_dropped(&fate.words());
                if let Err(why) = compare(bed, &outcome, fate, left)
                    && !is_same
                {
                    wrong.push(format!("{line}\n  {frame:02x?}\n  {why}"));
                }
            }
            reference.asked.clear();
            met.insert(outcome.words.split(' ').next().unwrap().to_owned());
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 5000 && met.len() > 25, "{count} frames, {met:?}");
}
