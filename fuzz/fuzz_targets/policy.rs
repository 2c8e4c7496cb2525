//! Any text as a policy: errors that lie within the text, or a policy whose warnings and tables can be made, and whose tables
//! judge packets as the interpreter does, by both methods. `scripts/fuzz-policy` builds and runs it.
#![no_main]

#[path = "../../crates/policy/tests/random/mod.rs"]
mod random;

use libfuzzer_sys::fuzz_target;
use policy::interpret::decide;
use policy::tables::{Limits, Tables};
use policy::{Policy, Problems};
use random::{Choices, MOMENTS, bytes, packet};

/// Packets for each policy: few, because the texts are what is new.
const PACKETS: usize = 16;

fuzz_target!(|text: &str| {
    match Policy::parse("fuzz", text) {
        Ok(policy) => use_it(&policy, text.len() as u64),
        Err(problems) => are_of(&problems, text),
    }
});

fn use_it(policy: &Policy, seed: u64) {
    // Shown as they would be to a user.
    for warning in policy.warnings() {
        let _ = warning.problem.to_string();
    }
    let at = MOMENTS[seed as usize % MOMENTS.len()].parse().expect("written above");
    policy.next_change(at);
    let (Ok(chosen), Ok(vectors)) =
        (Tables::build(policy, at), Tables::build_within(policy, at, Limits::NONE))
    else {
        return;
    };
    for chunk in bytes(seed, PACKETS * 16).chunks(16) {
        let packet = packet(&mut Choices(chunk), policy);
        let expected = decide(policy, &packet, at);
        assert_eq!(chosen.look_up(&packet).0, expected, "tables, {packet:?}");
        assert_eq!(vectors.look_up(&packet).0, expected, "vectors, {packet:?}");
    }
}

fn are_of(problems: &Problems, text: &str) {
    assert!(!problems.list().is_empty());
    for problem in problems.list() {
        let start = problem.span.offset();
        assert!(text.get(start..start + problem.span.len()).is_some(), "not a part of the text: {problem:?}");
        assert!(!problem.message.is_empty());
    }
    let _ = problems.to_string();
}
