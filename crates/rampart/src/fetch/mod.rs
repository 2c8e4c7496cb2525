//! Fetches lists by commands. The daemon executes nothing once the firewall runs (`docs/decisions/0033-a-daemon-that-gives-its-rights-away.md`),
//! so another process does, which starts before the daemon gives its rights away (`docs/decisions/0044-commands-of-lists.md`). Here are
//! the daemon's side and what the two say to each other; [`worker`] is the other side.

pub(crate) mod worker;

use crate::worker_stream::{command, connect, one_line, read_frame, write_frame};
use nix::sched::{CloneFlags, unshare};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

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

/// The process that runs the commands; it ends when this is dropped, or when the daemon dies. What it answers is checked like what a stranger
/// says: it has talked with commands.
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
        let (fetcher, mut process) = Self::start_as(command(WORKER), USUAL)?;
        std::thread::spawn(move || {
            crate::privileges::keep_nothing();
            // A process that nobody waits for stays in the list of processes.
            let _ = process.wait();
        });
        Ok(fetcher)
    }

    fn start_as(mut command: Command, limits: Limits) -> io::Result<(Self, Child)> {
        let ours = connect(&mut command)?;
        ours.set_write_timeout(Some(GRACE))?;
        let child = spawn_apart(command)?;
        Ok((Self { stream: Mutex::new(Some(ours)), limits }, child))
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
        // A worker that the disk of this process has kept waiting may take its time once more.
        let mut answer = Timed { stream, until: Instant::now() + 2 * time + GRACE };
        // What cannot be kept is read to its end all the same: the next answer begins behind it.
        let mut kept = Ok(());
        let mut left = bytes;
        loop {
            let piece = read_frame(&mut answer, MOST_OF_A_FRAME)?;
            if piece.is_empty() {
                break;
            }
            left = left.checked_sub(piece.len() as u64).ok_or(io::ErrorKind::InvalidData)?;
            kept = kept.and_then(|()| into.write_all(&piece));
        }
        let complaint = read_frame(&mut answer, MOST_OF_A_FRAME)?;
        if !complaint.is_empty() {
            return Ok(Err(one_line(&String::from_utf8_lossy(&complaint))));
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

/// Starts a program as the first process of a PID namespace, with mounts of its own. The kernel ends all processes of the namespace with it.
fn spawn_apart(mut command: Command) -> io::Result<Child> {
    // Namespaces belong to threads. One that has such a namespace for its children can start no other threads, so it is one that ends.
    let thread = std::thread::Builder::new().spawn(move || {
        unshare(CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS)?;
        command.spawn()
    })?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that starts it has failed")))
}

/// A stream from which everything must have been read at a moment, however many small pieces it comes in.
struct Timed<'s> {
    stream: &'s UnixStream,
    until: Instant,
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        (&mut &*self.stream).read(bytes)
    }
}

#[cfg(test)]
mod tests;
