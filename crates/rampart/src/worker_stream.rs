//! A process beside the daemon, which is this program by another subcommand: how the daemon starts it, and the frames that the two exchange over
//! the stream at its standard input. What they exchange is theirs: `fetch` and `export`.

use crate::failure::Failure;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

/// Characters of what a worker complains about that are shown.
const SHOWN: usize = 300;

/// This program by a subcommand.
pub(crate) fn command(subcommand: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(subcommand);
    command
}

/// Has a command read from one end of a stream, and returns the other end.
pub(crate) fn connect(command: &mut Command) -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(ours)
}

/// The worker's end.
///
/// # Errors
/// Standard input is closed.
pub(crate) fn daemon_at_standard_input() -> Result<UnixStream, Failure> {
    let input = io::stdin().as_fd().try_clone_to_owned();
    let input =
        input.map_err(|error| Failure::Machine(format!("no daemon is at standard input: {error}")))?;
    Ok(UnixStream::from(input))
}

pub(crate) fn write_frame(mut to: impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(&(bytes.len() as u32).to_le_bytes())?;
    to.write_all(bytes)
}

/// A frame of so many bytes at most.
pub(crate) fn read_frame(mut from: impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > most {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// What a worker wrote, for the log: it makes no line of its own there.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(SHOWN).collect()
}
