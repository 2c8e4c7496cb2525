//! `loaded_programs NAME...`: watches which BPF programs the kernel takes until standard input ends, then lists those with these
//! names: how many instructions the verifier looked at (a million at most), and how often one was loaded. Fails when one
//! never was. `scripts/test-kernels` runs it beside the tests, so that each object is seen to load under each kernel.
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
    /// The most that the verifier looked at.
    verified: u32,
    loaded: u32,
}

fn main() -> ExitCode {
    let names = std::env::args().skip(1);
    let mut programs: BTreeMap<String, Program> =
        names.map(|name| (name.chars().take(NAME_BYTES).collect(), Program::default())).collect();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // An error is an end as well.
            let _ = stdin().read_to_end(&mut Vec::new());
            ended.store(true, Ordering::Relaxed);
        });
        watch(&mut programs, &ended);
    });
    println!("{:<NAME_BYTES$} {:>10} {:>7}", "program", "verified", "loaded");
    for (name, program) in &programs {
        println!("{name:<NAME_BYTES$} {:>10} {:>7}", program.verified, program.loaded);
    }
    let missing: Vec<_> = programs.iter().filter(|(_, program)| program.loaded == 0).collect();
    if missing.is_empty() {
        return ExitCode::SUCCESS;
    }
    let names: Vec<&str> = missing.into_iter().map(|(name, _)| name.as_str()).collect();
    eprintln!("never loaded: {}", names.join(", "));
    ExitCode::FAILURE
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
