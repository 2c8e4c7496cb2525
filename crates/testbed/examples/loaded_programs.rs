//! `loaded_programs NAME[:MOST]...`: watches which BPF programs the kernel takes until standard input ends, then lists those with
//! these names: how many instructions the verifier looked at (the kernel's own limit is a million), and how often one was
//! loaded. Fails when one never was, or when the verifier looked at more than MOST instructions. `scripts/test-kernels` runs it
//! beside the tests, so that each object is seen to load under each kernel, with room to grow.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints")]

use libbpf_rs::query::ProgInfoIter;
use std::collections::BTreeMap;
use std::io::{Read as _, stdin};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A program that is loaded for less may be missed; tests hold theirs far longer under an emulator.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// What the kernel keeps of a program's name (`BPF_OBJ_NAME_LEN` less its end).
const NAME_BYTES: usize = 15;

/// Of one name.
#[derive(Default)]
struct Program {
    /// The most that it may be.
    most: Option<u32>,
    /// The most that the verifier looked at.
    verified: u32,
    loaded: u32,
}

fn main() -> ExitCode {
    let mut programs = BTreeMap::new();
    for argument in std::env::args().skip(1) {
        let (name, most) = match argument.split_once(':').map(|(name, most)| (name, most.parse())) {
            None => (&*argument, None),
            Some((name, Ok(most))) => (name, Some(most)),
            Some((_, Err(error))) => {
                eprintln!("{argument}: {error}");
                return ExitCode::FAILURE;
            }
        };
        programs.insert(name.chars().take(NAME_BYTES).collect(), Program { most, ..Program::default() });
    }
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // An error is an end as well.
            let _ = stdin().read_to_end(&mut Vec::new());
            ended.store(true, Ordering::Relaxed);
        });
        watch(&mut programs, &ended);
    });
    println!("{:<NAME_BYTES$} {:>10} {:>8} {:>7}", "program", "verified", "at most", "loaded");
    for (name, program) in &programs {
        let most = program.most.map(|most| most.to_string()).unwrap_or_default();
        println!("{name:<NAME_BYTES$} {:>10} {most:>8} {:>7}", program.verified, program.loaded);
    }
    let named = |is: fn(&Program) -> bool| -> Vec<&str> {
        programs.iter().filter(|(_, program)| is(program)).map(|(name, _)| name.as_str()).collect()
    };
    let missing = named(|program| program.loaded == 0);
    let too_large = named(|program| program.most.is_some_and(|most| program.verified > most));
    if !missing.is_empty() {
        eprintln!("never loaded: {}", missing.join(", "));
    }
    if !too_large.is_empty() {
        eprintln!("the verifier looks at more than it may: {}", too_large.join(", "));
    }
    if missing.is_empty() && too_large.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn watch(programs: &mut BTreeMap<String, Program>, ended: &AtomicBool) {
    let mut newest = 0;
    loop {
        // Asked first, so that there is a look after the end.
        let is_last = ended.load(Ordering::Relaxed);
        for info in ProgInfoIter::default() {
            // Numbers only rise.
            if info.id <= newest {
                continue;
            }
            newest = info.id;
            if let Some(program) = programs.get_mut(&*info.name.to_string_lossy()) {
                program.verified = program.verified.max(info.verified_insns);
                program.loaded += 1;
            }
        }
        if is_last {
            return;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}
