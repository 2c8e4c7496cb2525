//! How two firewalls differ about a packet, in words that group alike differences.

use crate::bed::Fate;
use crate::router::Seen;
use std::collections::BTreeMap;

/// How often something happened, and the first time.
pub(crate) type Kinds = BTreeMap<String, (u32, String)>;

#[expect(clippy::print_stdout, reason = "a program for developers")]
pub(crate) fn print(kinds: &Kinds) {
    for (kind, (count, first)) in kinds {
        println!("{count:4}  {kind}\n          {first}");
    }
}

/// A frame from its last type on, as if it had no tags: who listens on the other side gets it without, too.
fn untagged(mut frame: &[u8]) -> &[u8] {
    while matches!(frame.get(12..14), Some([0x81, 0] | [0x88, 0xa8])) {
        frame = &frame[4..];
    }
    frame
}

/// An IP packet without what fills its frame up.
fn packet_of(frame: &[u8]) -> &[u8] {
    let frame = untagged(frame);
    let field =
        |at: usize| frame.get(at..at + 2).map_or(0, |b| usize::from(u16::from_be_bytes([b[0], b[1]])));
    let bytes = if frame.get(14).is_some_and(|first| first >> 4 == 4) { field(16) } else { 40 + field(18) };
    frame.get(14..14 + bytes).unwrap_or_default()
}

/// What a router did, in the words of a fate.
pub(crate) fn theirs(seen: &Seen) -> String {
    match (&seen.far[..], &seen.near[..]) {
        ([], []) => "drop".to_owned(),
        ([], answers) => format!("drop, {}", answer(&answers[0])),
        ([_], _) => "pass".to_owned(),
        _ => "cut".to_owned(),
    }
}

/// What kind of packet came back.
fn answer(frame: &[u8]) -> String {
    let frame = untagged(frame);
    match (frame.get(14).map(|first| first >> 4), frame.get(23), frame.get(20)) {
        (Some(4), Some(1), _) => format!("icmp {}/{}", frame[34], frame[35]),
        (Some(6), _, Some(58)) => format!("icmp {}/{}", frame[54], frame[55]),
        (Some(4), Some(6), _) | (Some(6), _, Some(6)) => "reset".to_owned(),
        _ => "something".to_owned(),
    }
}

pub(crate) fn ours(fate: Fate, frame: &[u8]) -> String {
    match fate {
        Fate::Answered(reason) => format!("{}, {}", reason.name(), answer(frame)),
        fate => fate.words(),
    }
}

/// How two outcomes differ, if they do.
pub(crate) fn difference(ours: &str, theirs: &str, left: &[u8], seen: &Seen) -> Option<String> {
    let passes = |words: &str| words == "pass" || words == "cut";
    if passes(ours) != passes(theirs) {
        return Some(format!("Rampart {ours}, nftables {theirs}"));
    }
    if ours == "pass" && theirs == "pass" {
        let (a, b) = (packet_of(left), packet_of(&seen.far[0]));
        if a.len() != b.len() {
            return Some(format!("Rampart leaves {} bytes, nftables {}", a.len(), b.len()));
        }
        let places: Vec<_> = (0..a.len()).filter(|at| a[*at] != b[*at]).collect();
        return (!places.is_empty()).then(|| format!("other bytes: {:?}", &places[..places.len().min(6)]));
    }
    let answered = |words: &str| words.split_once(", ").map(|(_, answer)| answer.to_owned());
    (answered(ours) != answered(theirs)).then(|| format!("Rampart {ours}, nftables {theirs}"))
}
