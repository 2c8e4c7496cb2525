//! The machine as a run has it to itself.

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use std::time::Duration;
use testbed::machine_lock::MachineLock;

/// How often one that waits looks whether the other run has ended.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Waits until no other run measures on this machine, and keeps others away until the lock is dropped.
///
/// # Errors
/// The lock cannot be made, or the user asked to stop while another run went on.
pub(crate) fn alone(interrupt: &Interrupt) -> Result<MachineLock, Failure> {
    let mut said = false;
    loop {
        match MachineLock::take(&command_line())? {
            Ok(lock) => return Ok(lock),
            Err(_) if interrupt.asked() => return Err(Failure::Interrupted),
            Err(holder) if !said => {
                crate::say(&format!(
                    "another run measures on this machine ({holder}); two at once would slow each other down, so this one waits \
                     until it has ended: Ctrl-C to give up"
                ));
                said = true;
            }
            Err(_) => std::thread::sleep(LOOK_EVERY),
        }
    }
}

/// What the user typed, quoted where a shell needs it.
pub(crate) fn command_line() -> String {
    let quote = |word: String| {
        let plain = !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_./=,:@%+".contains(c));
        if plain { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
    };
    // A name of a folder need not be UTF-8.
    let words = std::env::args_os().skip(1).map(|word| quote(word.to_string_lossy().into_owned()));
    let words: Vec<String> = words.collect();
    format!("rampart-bench {}", words.join(" "))
}
