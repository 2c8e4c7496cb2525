//! Fetches lists by commands. The daemon executes nothing once the firewall runs (`docs/decisions/0033-a-daemon-that-gives-its-rights-away.md`),
//! so another process does, which starts before the daemon gives its rights away (`docs/decisions/0044-commands-of-lists.md`). Here are
//! the daemon's side and what the two say to each other; [`worker`] is the other side.

pub(crate) mod worker;

use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The subcommand that is the other process.
pub(crate) const WORKER: &str = "fetch-lists";
/// How long a command may run, and bytes that it may print: 60 million addresses as text.
const USUAL: Limits = Limits { time: Duration::from_secs(300), bytes: 1 << 30 };
/// How long the worker may take besides to end a command.
const GRACE: Duration = Duration::from_secs(30);
/// Bytes of a frame between the two, at most.
const MOST_OF_A_FRAME: usize = 64 << 10;

/// Runs commands of lists.
pub(crate) trait Fetch: Send + Sync + Debug {
    /// Runs a program with arguments, of which there is at least one word, and writes what it prints. What was written counts only if
    /// this returns `Ok`.
    ///
    /// # Errors
    /// Why what was written is not all, for behind the name of the list.
    fn fetch(&self, words: &[String], into: &mut dyn Write) -> Result<(), String>;
}

/// What a command may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    time: Duration,
    bytes: u64,
}

/// What the daemon asks for.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    words: Vec<String>,
    milliseconds: u64,
    bytes: u64,
}

/// The process that runs the commands; it ends when this is dropped, or when the daemon dies.
#[derive(Debug)]
pub(crate) struct Fetcher {
    /// `None` once the process has ended or does not answer.
    stream: Mutex<Option<UnixStream>>,
    limits: Limits,
}

impl Fetcher {
    /// # Errors
    /// The process cannot be started.
    pub(crate) fn start() -> io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.arg(WORKER);
        Self::start_as(command, USUAL)
    }

    fn start_as(mut command: Command, limits: Limits) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(limits.time + GRACE))?;
        ours.set_write_timeout(Some(GRACE))?;
        // A group of its own: Ctrl-C is for the daemon, which ends the worker.
        command
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { stream: Mutex::new(Some(ours)), limits })
    }

    fn ask(
        &self,
        stream: &UnixStream,
        words: &[String],
        into: &mut dyn Write,
    ) -> io::Result<Result<(), String>> {
        let Limits { time, bytes } = self.limits;
        let request = Request { words: words.to_vec(), milliseconds: time.as_millis() as u64, bytes };
        write_frame(stream, &serde_json::to_vec(&request)?)?;
        // What cannot be kept is read to its end all the same: the next answer begins behind it.
        let mut kept = Ok(());
        let mut left = bytes;
        loop {
            let piece = read_frame(stream)?;
            if piece.is_empty() {
                break;
            }
            left = left.checked_sub(piece.len() as u64).ok_or(io::ErrorKind::InvalidData)?;
            kept = kept.and_then(|()| into.write_all(&piece));
        }
        let complaint = String::from_utf8_lossy(&read_frame(stream)?).into_owned();
        if !complaint.is_empty() {
            return Ok(Err(complaint));
        }
        Ok(kept
            .and_then(|()| into.flush())
            .map_err(|error| format!("what was fetched cannot be kept: {error}")))
    }
}

impl Fetch for Fetcher {
    fn fetch(&self, words: &[String], into: &mut dyn Write) -> Result<(), String> {
        const ENDED: &str = "the process that runs commands of lists has ended: start the daemon again (the firewall goes on meanwhile)";
        let mut slot = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = slot.as_ref().ok_or(ENDED)?;
        self.ask(stream, words, into).unwrap_or_else(|error| {
            // Nobody knows what the next bytes would be about.
            *slot = None;
            Err(format!("{ENDED} ({error})"))
        })
    }
}

fn write_frame(mut to: impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(&(bytes.len() as u32).to_le_bytes())?;
    to.write_all(bytes)
}

fn read_frame(mut from: impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MOST_OF_A_FRAME {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
