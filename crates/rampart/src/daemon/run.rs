//! The life of a daemon: signals, what happens by itself each second, and the end.

use super::log::Kind;
use super::{Daemon, Moment, Refused};
use crate::api::NewPolicy;
use crate::privileges;
use crate::supervisor;
use dataplane::routes::{LinkWatch, RoutesError};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How often the daemon looks after itself.
const TICK: Duration = Duration::from_secs(1);

/// How often it reads the event log, and looks whether its programs are where they were.
const READING: Duration = Duration::from_millis(200);

/// What wakes a daemon.
#[derive(Debug)]
pub(crate) enum Wake {
    /// It has been taken down by a request, and somebody waits at the other end of this until all is done.
    Ended(UnixStream),
    /// It is to go down; by what.
    End(&'static str),
    /// It is to end and leave the firewall to the next daemon; by what.
    Leave(&'static str),
    /// The policy's file is to be read again.
    Reload,
    /// Interfaces came, went or changed; those with these numbers went.
    Links(Vec<u32>),
}

/// Wakes a daemon.
#[derive(Debug, Clone)]
pub(crate) struct Waker(Sender<Wake>);

impl Waker {
    pub(crate) fn new() -> (Self, Receiver<Wake>) {
        let (sender, receiver) = std::sync::mpsc::channel();
        (Self(sender), receiver)
    }

    pub(crate) fn wake(&self, wake: Wake) {
        // A daemon that does not listen has ended.
        let _ = self.0.send(wake);
    }

    /// Takes over SIGTERM, SIGINT and SIGHUP. SIGTERM is how a supervisor restarts a service, so it opens nothing: the firewall goes
    /// on. Ctrl-C is how a person ends what runs in the foreground.
    ///
    /// # Errors
    /// When the system does not let us.
    pub(crate) fn of_signals(&self) -> io::Result<()> {
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
        let waker = self.clone();
        std::thread::spawn(move || {
            privileges::keep_nothing();
            for signal in signals.forever() {
                waker.wake(match signal {
                    SIGHUP => Wake::Reload,
                    SIGINT => Wake::End("SIGINT"),
                    _ => Wake::Leave("SIGTERM"),
                });
            }
        });
        Ok(())
    }
}

/// How long the announcements of interfaces are left alone when they cannot be read.
const REST: Duration = Duration::from_secs(1);

impl Waker {
    /// Wakes at the kernel's announcements of interfaces: one that comes back is closed at once, and not when the daemon next looks.
    ///
    /// # Errors
    /// No descriptors left.
    pub(crate) fn of_links(&self) -> Result<(), RoutesError> {
        let mut watch = LinkWatch::open()?;
        let waker = self.clone();
        std::thread::spawn(move || {
            privileges::keep_nothing();
            loop {
                let gone = watch.wait().unwrap_or_else(|_| {
                    // The daemon looks once a second besides.
                    std::thread::park_timeout(REST);
                    Vec::new()
                });
                waker.wake(Wake::Links(gone));
            }
        });
        Ok(())
    }
}

/// Runs until the daemon is down. `file` is what SIGHUP reads. The client whose request took it down
/// learns that all is done when the returned stream is dropped.
///
/// # Errors
/// When it could not be taken down.
pub(crate) fn until_down(
    daemon: &Arc<Daemon>,
    arriving: &Receiver<Wake>,
    file: &Path,
) -> Result<Option<UnixStream>, Refused> {
    let mut tick = Instant::now() + TICK;
    let mut reading = Instant::now() + READING;
    let mut held = None;
    let reload = reloads(daemon, file);
    loop {
        let until = tick.min(reading).saturating_duration_since(Instant::now());
        match held.take().map_or_else(|| arriving.recv_timeout(until), Ok) {
            Ok(Wake::Ended(waiting)) => return Ok(Some(waiting)),
            Ok(Wake::End(signal)) => return daemon.down(Moment::now().wall, &signal.into()).map(|_| None),
            Ok(Wake::Leave(signal)) => {
                daemon.leave(Moment::now(), &signal.into());
                return Ok(None);
            }
            Ok(Wake::Links(mut gone)) => {
                // A thousand announcements are looked at together.
                held = arriving.try_iter().find_map(|wake| match wake {
                    Wake::Links(more) => {
                        gone.extend(more);
                        None
                    }
                    other => Some(other),
                });
                daemon.links_changed(&gone, Moment::now());
            }
            // If one waits already, that one reads what the file says by then.
            Ok(Wake::Reload) => drop(reload.try_send(())),
            Err(RecvTimeoutError::Timeout) => {}
            // Nobody is left who could say anything: not even a signal.
            Err(RecvTimeoutError::Disconnected) => {
                return daemon.down(Moment::now().wall, &"itself".into()).map(|_| None);
            }
        }
        // However often it is woken, what is due is done.
        if Instant::now() >= reading {
            daemon.take_events(Moment::now());
            daemon.check_programs(Moment::now());
            reading = Instant::now() + READING;
        }
        if Instant::now() >= tick {
            if daemon.tick(Moment::now()) {
                return daemon.down(Moment::now().wall, &"itself".into()).map(|_| None);
            }
            supervisor::alive();
            tick = Instant::now() + TICK;
        }
    }
}

/// Reads the policy's file again whenever it is told to, on a thread of its own: lists that are new there may take minutes to fetch.
fn reloads(daemon: &Arc<Daemon>, file: &Path) -> SyncSender<()> {
    let (sender, wanted) = sync_channel(1);
    let (daemon, file) = (Arc::clone(daemon), file.to_owned());
    std::thread::spawn(move || wanted.iter().for_each(|()| reload(&daemon, &file)));
    sender
}

/// Reads the policy's file again. What is wrong with it is reported, and the policy in force stays.
fn reload(daemon: &Daemon, file: &Path) {
    let now = Moment::now();
    let read = crate::whole_file::read(file).map_err(|error| error.to_string());
    match read.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is no UTF-8".to_owned())) {
        Ok(text) => {
            let folder = crate::folder_of(file);
            let new = NewPolicy { file: file.display().to_string(), folder, text, confirm_seconds: None };
            // Both outcomes are in the log.
            let _ = daemon.reload(&new, now, &"SIGHUP".into());
        }
        Err(error) => {
            let message = format!("cannot read {}: {error}; the policy in force stays", file.display());
            daemon.report_by(now.wall, Kind::Refused, &"SIGHUP".into(), message);
        }
    }
}
