//! The process that exports, until the daemon is gone: it reads what the daemon says, and hands it to a thread for each target. It is another
//! user than root, has no capability, and can open no file and execute nothing: what a collector makes of it stays in it.

use super::ipfix::Ipfix;
use super::journald::Journald;
use super::outlet::{Outlet, Voice};
use super::syslog::Syslog;
use super::{Form, Heard, Saying, Target, To, read_frame, write_frame};
use crate::api::Export;
use crate::failure::Failure;
use crate::privileges;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{User, setgroups, setresgid, setresuid, setsid};
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Who this process is: the first of these that the machine knows.
const USERS: [&str; 2] = ["rampart-export", "nobody"];
/// How often the daemon is told what came of it.
const TELLING: Duration = Duration::from_millis(500);

/// Exports what the daemon at standard input says, until it ends.
///
/// # Errors
/// No daemon has started it.
pub(crate) fn run() -> Result<(), Failure> {
    let input = io::stdin().as_fd().try_clone_to_owned();
    let input =
        input.map_err(|error| Failure::Machine(format!("no daemon is at standard input: {error}")))?;
    let stream = UnixStream::from(input);
    if stream.peer_addr().is_err() {
        let what = "events are exported by a process that `rampart up` starts, and by no other";
        return Err(Failure::Wrong(what.to_owned()));
    }
    match prepare() {
        Ok(()) => serve(&stream),
        Err(why) => {
            let heard = serde_json::to_vec(&Heard::Failed(why)).unwrap_or_default();
            let _ = write_frame(&stream, &heard);
        }
    }
    Ok(())
}

/// Gives up what it does not need, and that is nearly all.
fn prepare() -> Result<(), String> {
    let wrong = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    // Whoever stops a service signals all its processes at once, and the daemon's last words are yet to come.
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
type Outlets = Arc<Mutex<Vec<Outlet>>>;

/// Does what the daemon at the other end says until it has said all.
pub(super) fn serve(stream: &UnixStream) {
    let outlets = Outlets::default();
    let of_teller = Arc::downgrade(&outlets);
    if let Ok(telling) = stream.try_clone() {
        std::thread::spawn(move || tell(&telling, &of_teller));
    }
    while let Ok(frame) = read_frame(stream) {
        match serde_json::from_slice(&frame) {
            Ok(Saying::Targets(targets)) => set(&mut lock(&outlets), targets),
            Ok(Saying::End) => break,
            Ok(saying) => {
                let saying = Arc::new(saying);
                lock(&outlets).iter().for_each(|outlet| outlet.push(&saying));
            }
            // Of another build, which is not there long.
            Err(_) => {}
        }
    }
    let ending: Vec<_> = lock(&outlets).drain(..).collect();
    ending.iter().for_each(Outlet::end);
    ending.into_iter().for_each(Outlet::join);
    let _ = stream.shutdown(Shutdown::Both);
}

fn lock(outlets: &Mutex<Vec<Outlet>>) -> MutexGuard<'_, Vec<Outlet>> {
    outlets.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to send to new targets, and ends with those that are gone. The others go on as they are.
fn set(outlets: &mut Vec<Outlet>, targets: Vec<Target>) {
    let mut before = std::mem::take(outlets);
    for target in targets {
        let place = before.iter().position(|outlet| outlet.target == target);
        outlets.push(match place {
            Some(place) => before.swap_remove(place),
            None => {
                let voice = voice(&target);
                Outlet::start(target, voice)
            }
        });
    }
}

fn voice(target: &Target) -> Box<dyn Voice> {
    let Target { form, to, from, enterprise } = target;
    let is_stream = matches!(to, To::Tcp(_));
    match form {
        Form::Syslog { facility } => Box::new(Syslog::new(*facility, from, *enterprise, is_stream)),
        Form::Journald { facility } => Box::new(Journald::new(*facility, from)),
        Form::Ipfix { domain, templates } => {
            Box::new(Ipfix::new(*domain, *enterprise, (!is_stream).then_some(*templates)))
        }
    }
}

/// Tells the daemon of the targets whenever something has changed, until they are gone.
fn tell(stream: &UnixStream, outlets: &Weak<Mutex<Vec<Outlet>>>) {
    let mut before: Option<Vec<Export>> = None;
    while let Some(outlets) = outlets.upgrade() {
        let now: Vec<Export> = lock(&outlets).iter().map(Outlet::state).collect();
        drop(outlets);
        if before.as_ref() != Some(&now) {
            let heard = Heard::Targets(now);
            if write_frame(stream, &serde_json::to_vec(&heard).unwrap_or_default()).is_err() {
                return;
            }
            let Heard::Targets(now) = heard else { return };
            before = Some(now);
        }
        std::thread::sleep(TELLING);
    }
}
