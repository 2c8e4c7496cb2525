//! The life of a daemon: signals, what happens by itself each second, and the end.

use super::log::Kind;
use super::{Daemon, Moment, Refused};
use crate::api::NewPolicy;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// How often the daemon looks after itself.
const TICK: Duration = Duration::from_secs(1);

/// How often it takes in what rules tell.
const HEARING: Duration = Duration::from_millis(200);

/// What a daemon is woken by.
#[derive(Debug)]
pub(crate) enum Event {
    /// It has been taken down by a request, and somebody waits at the other end of this until all is done.
    Ended(UnixStream),
    /// It is to go down; by what.
    End(&'static str),
    /// The policy's file is to be read again.
    Reload,
}

/// Tells a daemon what happens.
#[derive(Debug, Clone)]
pub(crate) struct Happenings(Sender<Event>);

impl Happenings {
    /// Somewhere to tell, and where it arrives.
    pub(crate) fn new() -> (Self, Receiver<Event>) {
        let (sender, receiver) = std::sync::mpsc::channel();
        (Self(sender), receiver)
    }

    pub(crate) fn tell(&self, event: Event) {
        // Whoever listened has ended: so has everything that could be told.
        let _ = self.0.send(event);
    }

    /// Takes over SIGTERM, SIGINT and SIGHUP.
    ///
    /// # Errors
    /// When the system does not let us.
    pub(crate) fn of_signals(&self) -> io::Result<()> {
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
        let happenings = self.clone();
        std::thread::spawn(move || {
            for signal in signals.forever() {
                happenings.tell(match signal {
                    SIGHUP => Event::Reload,
                    SIGINT => Event::End("SIGINT"),
                    _ => Event::End("SIGTERM"),
                });
            }
        });
        Ok(())
    }
}

/// Runs until the daemon is down. `file` is what SIGHUP reads. Whoever took it down by a request is told that all is done
/// when what this gives goes away.
///
/// # Errors
/// When it could not be taken down.
pub(crate) fn until_down(
    daemon: &Daemon,
    happenings: &Receiver<Event>,
    file: &Path,
) -> Result<Option<UnixStream>, Refused> {
    let mut next = Instant::now() + TICK;
    loop {
        match happenings.recv_timeout(next.saturating_duration_since(Instant::now()).min(HEARING)) {
            Ok(Event::Ended(waiting)) => return Ok(Some(waiting)),
            Ok(Event::End(signal)) => return daemon.down(Moment::now().wall, signal).map(|_| None),
            Ok(Event::Reload) => reload(daemon, file),
            Err(RecvTimeoutError::Timeout) => {
                daemon.hear(Moment::now());
                if Instant::now() >= next {
                    daemon.tick(Moment::now());
                    next = Instant::now() + TICK;
                }
            }
            // Nobody is left who could say anything: not even a signal.
            Err(RecvTimeoutError::Disconnected) => {
                return daemon.down(Moment::now().wall, "itself").map(|_| None);
            }
        }
    }
}

/// Reads the policy's file again. What is wrong with it is told in the log, and the policy in force stays.
pub(crate) fn reload(daemon: &Daemon, file: &Path) {
    let now = Moment::now();
    match std::fs::read_to_string(file) {
        Ok(text) => {
            let new = NewPolicy { file: file.display().to_string(), text, confirm_seconds: None };
            // Both outcomes are in the log.
            let _ = daemon.apply(&new, now, "SIGHUP");
        }
        Err(error) => {
            let message = format!("cannot read {}: {error}; the policy in force stays", file.display());
            daemon.tell(now.wall, Kind::Refused, message);
        }
    }
}
