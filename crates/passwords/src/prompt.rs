//! Reads a password: at a terminal, which does not show it, or from standard input.
#![expect(clippy::print_stderr, reason = "it asks a person")]

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Stdin, Write as _};
use zeroize::Zeroizing;

/// Bytes that are read; a password is shorter.
const MOST: u64 = 4096;

/// The password of a user, typed twice at a terminal, or once from somewhere else.
///
/// # Errors
/// It cannot be read, or was not typed the same twice; what to say.
pub fn read(name: &str) -> Result<Zeroizing<String>, String> {
    let stdin = io::stdin();
    let cannot = |error: io::Error| format!("cannot read the password: {error}");
    if !stdin.is_terminal() {
        let mut text = Zeroizing::new(String::new());
        stdin.take(MOST).read_to_string(&mut text).map_err(cannot)?;
        return Ok(without_end(text));
    }
    let _silence = Silence::begin(&stdin).map_err(cannot)?;
    let ask = |what: &str| -> io::Result<Zeroizing<String>> {
        eprint!("{what}: ");
        io::stderr().flush()?;
        let mut line = Zeroizing::new(String::new());
        stdin.lock().take(MOST).read_line(&mut line)?;
        eprintln!();
        Ok(without_end(line))
    };
    let first = ask(&format!("Password of {name}")).map_err(cannot)?;
    if ask("The same again").map_err(cannot)? != first {
        return Err("the password was not typed the same twice: nothing is changed".to_owned());
    }
    Ok(first)
}

fn without_end(mut text: Zeroizing<String>) -> Zeroizing<String> {
    for end in ['\n', '\r'] {
        if text.ends_with(end) {
            text.pop();
        }
    }
    text
}

/// A terminal that shows nothing of what is typed, until this goes.
struct Silence<'s>(&'s Stdin, Termios);

impl<'s> Silence<'s> {
    fn begin(stdin: &'s Stdin) -> io::Result<Self> {
        let before = tcgetattr(stdin)?;
        let mut silent = before.clone();
        silent.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(stdin, SetArg::TCSAFLUSH, &silent)?;
        Ok(Self(stdin, before))
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.0, SetArg::TCSAFLUSH, &self.1);
    }
}
