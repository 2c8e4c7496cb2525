//! Standard output, through which every command prints but `up`, whose lines have a queue of their own. A reader that went away (`| head`) is no
//! fault of ours. Output that found no room is one: a policy that was cut in its middle must not pass for a whole one. Nothing here panics, as
//! `println!` does.

use crate::failure::Failure;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

/// Why output was lost, the first time.
static LOST: OnceLock<String> = OnceLock::new();

/// Standard output, which remembers that something was lost.
pub(crate) struct Output;

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        noted(io::stdout().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        noted(io::stdout().flush())
    }
}

fn noted<T>(result: io::Result<T>) -> io::Result<T> {
    if let Err(error) = &result
        && !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted)
    {
        let _ = LOST.set(error.to_string());
    }
    result
}

/// Prints a text as it is. Whether all of it found its place, [`finish`] says.
pub(crate) fn print(text: &str) {
    let _ = Output.write_all(text.as_bytes());
}

/// Prints a line.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    let _ = writeln!(Output, "{text}");
}

/// `println!` without its panic.
macro_rules! outln {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}
pub(crate) use outln;

/// Says a line to whoever sits at the terminal, on standard error. If nobody reads it any more (`2>&1 | head`), or it finds no room, the command goes on:
/// `eprintln!` would end it in a panic, and with it what it still has to print or to do.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Hands on what still waits.
///
/// # Errors
/// Something was lost that somebody still reads.
pub(crate) fn finish() -> Result<(), Failure> {
    let _ = Output.flush();
    match LOST.get() {
        None => Ok(()),
        Some(why) => Err(Failure::Machine(format!("what was printed is not whole: {why}"))),
    }
}
