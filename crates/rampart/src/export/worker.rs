//! The process that exports, until the daemon is gone: it reads what the daemon sends, and hands it to a thread for each target. It is another
//! user than root, has no capability, and can open no file and execute nothing: what a collector makes of it stays in it.

use super::ipfix::Ipfix;
use super::journald::Journald;
use super::outlet::{Encoder, Outlet};
use super::syslog::Syslog;
use super::{Answer, Form, Item, MOST_OF_A_FRAME, Target};
use crate::api::Export;
use crate::failure::Failure;
use crate::privileges;
use crate::worker_stream::{daemon_at_standard_input, read_frame, write_frame};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{User, setgroups, setresgid, setresuid, setsid};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Who this process is: the first of these that the machine knows.
const USERS: [&str; 2] = ["rampart-export", "nobody"];
/// How often the daemon gets the states of the targets, if they have changed.
const STATES: Duration = Duration::from_millis(500);

/// Exports what the daemon at standard input sends, until it ends.
///
/// # Errors
/// No daemon has started it.
pub(crate) fn run() -> Result<(), Failure> {
    let stream = daemon_at_standard_input()?;
    if stream.peer_addr().is_err() {
        let what = "events are exported by a process that `rampart up` starts, and by no other";
        return Err(Failure::Wrong(what.to_owned()));
    }
    match prepare() {
        Ok(()) => serve(&stream),
        Err(why) => {
            let answer = serde_json::to_vec(&Answer::Failed(why)).unwrap_or_default();
            let _ = write_frame(&stream, &answer);
        }
    }
    Ok(())
}

/// Gives up what it does not need, and that is nearly all.
fn prepare() -> Result<(), String> {
    let wrong = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    // A service is stopped by a signal to all its processes at once, and the daemon's last messages are yet to come.
    let mut signals = SigSet::empty();
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().for_each(|signal| signals.add(signal));
    signals.thread_block().map_err(|error| wrong("signals", &error))?;
    prctl::set_no_new_privs().map_err(|error| wrong("no new privileges", &error))?;
    setsid().map_err(|error| wrong("a session of its own", &error))?;
    let user = USERS.iter().find_map(|name| User::from_name(name).ok().flatten());
    let user = user.filter(|user| !user.uid.is_root() && user.gid.as_raw() != 0);
    let user = user.ok_or_else(|| format!("no user `{}` that is not root's", USERS.join("` or `")))?;
    setgroups(&[]).map_err(|error| wrong("no groups", &error))?;
    setresgid(user.gid, user.gid, user.gid).map_err(|error| wrong("another group", &error))?;
    setresuid(user.uid, user.uid, user.uid).map_err(|error| wrong("another user", &error))?;
    privileges::keep_nothing();
    privileges::filter_system_calls_of_the_exporter().map_err(|kept| kept.to_string())
}

/// The targets, each with its thread.
#[derive(Default)]
struct Outlets {
    /// Which of the daemon's sets of targets they are; 0 before the first.
    number: u64,
    all: Vec<Outlet>,
}

/// Exports until the daemon at the other end has sent its last, or is gone.
pub(super) fn serve(stream: &UnixStream) {
    let outlets = Arc::new(Mutex::new(Outlets::default()));
    let shown = Arc::downgrade(&outlets);
    if let Ok(answers) = stream.try_clone() {
        std::thread::spawn(move || show_states(&answers, &shown));
    }
    while let Ok(frame) = read_frame(stream, MOST_OF_A_FRAME) {
        match serde_json::from_slice(&frame) {
            Ok(Item::Targets { number, targets }) => lock(&outlets).set(number, targets),
            Ok(Item::End) => break,
            Ok(item) => {
                let item = Arc::new(item);
                lock(&outlets).all.iter().for_each(|outlet| outlet.push(&item));
            }
            // Of another build, which is not there long.
            Err(_) => {}
        }
    }
    let ending: Vec<_> = lock(&outlets).all.drain(..).collect();
    ending.iter().for_each(Outlet::end);
    ending.into_iter().for_each(Outlet::join);
    let _ = stream.shutdown(Shutdown::Both);
}

fn lock(outlets: &Mutex<Outlets>) -> MutexGuard<'_, Outlets> {
    outlets.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outlets {
    /// Begins to send to new targets, and ends with those that are gone. The others go on as they are.
    fn set(&mut self, number: u64, targets: Vec<Target>) {
        if number <= self.number {
            return;
        }
        self.number = number;
        let mut before = std::mem::take(&mut self.all);
        for target in targets {
            let place = before.iter().position(|outlet| outlet.target == target);
            self.all.push(match place {
                Some(place) => before.swap_remove(place),
                None => {
                    let encoder = encoder(&target);
                    Outlet::start(target, encoder)
                }
            });
        }
    }
}

fn encoder(target: &Target) -> Box<dyn Encoder> {
    let Target { form, to, from, enterprise } = target;
    let is_stream = to.is_stream();
    match form {
        Form::Syslog { facility } => Box::new(Syslog::new(*facility, from, *enterprise, is_stream)),
        Form::Journald { facility } => Box::new(Journald::new(*facility, from)),
        Form::Ipfix { domain, templates } => {
            Box::new(Ipfix::new(*domain, *enterprise, (!is_stream).then_some(*templates)))
        }
    }
}

/// Sends the daemon the states of the targets whenever something has changed, until they are gone.
fn show_states(stream: &UnixStream, outlets: &Weak<Mutex<Outlets>>) {
    let mut before: (u64, Vec<Export>) = Default::default();
    while let Some(outlets) = outlets.upgrade() {
        let now = {
            let outlets = lock(&outlets);
            (outlets.number, outlets.all.iter().map(Outlet::state).collect())
        };
        drop(outlets);
        if before != now {
            let answer = Answer::Targets { number: now.0, states: now.1.clone() };
            if write_frame(stream, &serde_json::to_vec(&answer).unwrap_or_default()).is_err() {
                return;
            }
            before = now;
        }
        std::thread::sleep(STATES);
    }
}
