//! Reads a password: at a terminal, which does not show it, or from standard input.

use nix::sys::termios::{LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr};
use std::io::{self, IsTerminal as _, Read as _, Stdin, Write as _};
use zeroize::Zeroizing;

/// Bytes that are read; a password is shorter.
const MOST: u64 = 4096;

const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const CTRL_U: u8 = 21;
const BACKSPACE: u8 = 8;
const DELETE: u8 = 127;

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
    let ask = |what: &str| -> Result<Zeroizing<String>, String> {
        let mut screen = io::stderr();
        write!(screen, "{what}: ").and_then(|()| screen.flush()).map_err(cannot)?;
        let line = typed(stdin.lock().bytes());
        let _ = writeln!(screen);
        line.map_err(cannot)?.ok_or_else(|| "interrupted: nothing is changed".to_owned())
    };
    let first = ask(&format!("Password of {name}"))?;
    if ask("The same again")? != first {
        return Err("the password was not typed the same twice: nothing is changed".to_owned());
    }
    Ok(first)
}

/// What somebody types up to Enter; `None` if he breaks off by Ctrl-C or Ctrl-D. The keys are read one by one, so that whoever breaks off finds his
/// terminal as it was: a signal would leave it silent.
fn typed(keys: impl Iterator<Item = io::Result<u8>>) -> io::Result<Option<Zeroizing<String>>> {
    // Of its full size from the beginning: one that grew would leave copies behind.
    let mut line = Zeroizing::new(Vec::with_capacity(MOST as usize));
    for key in keys.take(MOST as usize) {
        match key? {
            b'\n' | b'\r' => {
                let text = std::str::from_utf8(&line).map_err(io::Error::other)?;
                return Ok(Some(Zeroizing::new(text.to_owned())));
            }
            CTRL_C => return Ok(None),
            CTRL_D if line.is_empty() => return Ok(None),
            CTRL_D => {}
            CTRL_U => line.clear(),
            BACKSPACE | DELETE => while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {},
            byte => line.push(byte),
        }
    }
    Ok(None)
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
        silent
            .local_flags
            .remove(LocalFlags::ECHO | LocalFlags::ICANON | LocalFlags::ISIG | LocalFlags::IEXTEN);
        silent.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
        silent.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        tcsetattr(stdin, SetArg::TCSAFLUSH, &silent)?;
        Ok(Self(stdin, before))
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.0, SetArg::TCSAFLUSH, &self.1);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    #[test]
    fn keys_are_what_they_are_at_any_prompt() {
        for (keys, expected) in [
            ("correct horse\n", Some("correct horse")),
            ("correct horse\r", Some("correct horse")),
            ("corrr\u{7f}ect\u{8}t\n", Some("correct")),
            ("z\u{fc}\u{7f}\u{7f}\u{7f}Z\u{fc}rich\n", Some("Z\u{fc}rich")),
            ("wrong\u{15}right\n", Some("right")),
            ("co\u{4}rrect\n", Some("correct")),
            ("\n", Some("")),
            ("corr\u{3}ect\n", None),
            ("\u{4}", None),
            ("correct", None),
        ] {
            let typed = super::typed(keys.bytes().map(Ok)).unwrap();
            assert_eq!(typed.as_ref().map(|line| line.as_str()), expected, "{keys:?}");
        }
        assert!(super::typed([0xff, b'\n'].map(Ok).into_iter()).is_err(), "no UTF-8");
    }
}
