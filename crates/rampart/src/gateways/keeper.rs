//! The process that keeps gateways, until the daemon is gone. It binds their sockets and starts a process for each, again and again if that ends.
//! It is another user than root, and its rights are to bind ports below 1024 and to mark sockets as transparent gateways'. A listening socket stays open while its process is
//! started again, so clients that come meanwhile wait and are not refused.

use super::{Happened, MOST_REPORTED, MOST_WANTED, Order, Report, State, Wanted};
use crate::failure::Failure;
use crate::privileges;
use crate::worker_stream::{command, connect, daemon_at_standard_input, read_frame, write_frame};
use gateway::config::{Gateway, Mode, Protocol};
use gateway::event::{Counts, Event, Learned};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{User, setsid};
use std::io;
use std::net::{Shutdown, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Who gateways run as: the first of these that the machine knows.
const USERS: [&str; 2] = ["rampart-gateway", "nobody"];
/// Descriptors of a gateway's process: a connection of a client has another to a server.
const DESCRIPTORS: u64 = 262_144;
/// How long a gateway rests that ends as soon as it is started, at first and at most.
const FIRST_REST: Duration = Duration::from_millis(100);
const LONGEST_REST: Duration = Duration::from_secs(30);
/// A process that has lived so long has not ended as soon as it was started.
const LIVED: Duration = Duration::from_secs(60);
/// How often it is tried to listen.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// Messages that wait for the daemon, which reads at once. Who waits then is a gateway that is asked too much.
const WAITING: usize = 64;

/// Keeps gateways until the daemon at standard input ends.
///
/// # Errors
/// No daemon has started it.
pub(crate) fn run() -> Result<(), Failure> {
    let stream = daemon_at_standard_input()?;
    if stream.peer_addr().is_err() {
        let what = "gateways are kept by a process that `rampart up` starts, and by no other";
        return Err(Failure::Wrong(what.to_owned()));
    }
    match prepare() {
        Ok(()) => serve(&stream),
        Err(why) => {
            let report = serde_json::to_vec(&Report::Failed(why)).unwrap_or_default();
            let _ = write_frame(&stream, &report);
        }
    }
    Ok(())
}

/// Gives up what it does not need.
fn prepare() -> Result<(), String> {
    let wrong = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    prctl::set_no_new_privs().map_err(|error| wrong("no new privileges", &error))?;
    setsid().map_err(|error| wrong("a session of its own", &error))?;
    dataplane::system_calls::keep_files_from_programs()
        .map_err(|error| wrong("files that the daemon was started with", &error))?;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(|error| wrong("limits", &error))?;
    // What the machine does not allow is fewer connections at once, which a gateway can live with.
    if setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS, DESCRIPTORS).is_err() {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(|error| wrong("limits", &error))?;
    }
    setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(|error| wrong("limits", &error))?;
    let user = USERS.iter().find_map(|name| User::from_name(name).ok().flatten());
    let user = user.filter(|user| !user.uid.is_root() && user.gid.as_raw() != 0);
    let user = user.ok_or_else(|| format!("no user `{}` that is not root's", USERS.join("` or `")))?;
    privileges::become_who_binds(user.uid, user.gid).map_err(|kept| kept.to_string())?;
    privileges::keep_from_raw_sockets().map_err(|kept| kept.to_string())
}

/// A gateway that is kept, by a thread of its own.
#[derive(Default)]
struct Kept {
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Default)]
struct Now {
    /// `None`: it is to end.
    wanted: Option<Gateway>,
    /// To its process, while there is one.
    stream: Option<UnixStream>,
}

impl Kept {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has it do something else, or end.
    fn set(&self, wanted: Option<Gateway>) {
        let mut now = self.now();
        if let Some(stream) = &now.stream {
            let order = wanted.clone().map(|gateway| Order::Be(Box::new(gateway)));
            let is_sent = order.is_some_and(|order| send(stream, &order).is_ok());
            if !is_sent {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        now.wanted = wanted;
        self.changed.notify_all();
    }

    /// Passes an acknowledgement on. A process that has ended waits for nothing.
    fn acknowledge(&self, numbers: Vec<u64>) {
        if let Some(stream) = &self.now().stream {
            let _ = send(stream, &Order::Acknowledged(numbers));
        }
    }

    /// Waits as long as it is wanted; what is wanted then.
    fn wait(&self, time: Duration) -> Option<Gateway> {
        let now = self.now();
        let (now, _) = self
            .changed
            .wait_timeout_while(now, time, |now| now.wanted.is_some())
            .unwrap_or_else(PoisonError::into_inner);
        now.wanted.clone()
    }
}

/// Keeps what the daemon wants, until it has gone.
fn serve(stream: &UnixStream) {
    let (reports, waiting) = sync_channel::<Report>(WAITING);
    let Ok(to_daemon) = stream.try_clone() else { return };
    std::thread::spawn(move || {
        for report in waiting {
            let bytes = serde_json::to_vec(&report).unwrap_or_default();
            if write_frame(&to_daemon, &bytes).is_err() {
                return;
            }
        }
    });
    let mut all: Vec<(Gateway, Arc<Kept>)> = Vec::new();
    while let Ok(frame) = read_frame(stream, MOST_WANTED) {
        let gateways = match serde_json::from_slice(&frame) {
            Ok(Wanted::Run(gateways)) => gateways,
            Ok(Wanted::Acknowledged(name, numbers)) => {
                let kept = all.iter().find(|(gateway, _)| gateway.name == name);
                kept.into_iter().for_each(|(_, kept)| kept.acknowledge(numbers.clone()));
                continue;
            }
            Err(_) => continue,
        };
        let is_same = |one: &Gateway, other: &Gateway| {
            let sockets =
                |it: &Gateway| (it.mode == Mode::Transparent, matches!(it.protocol, Protocol::Dns(_)));
            one.name == other.name && one.listen == other.listen && sockets(one) == sockets(other)
        };
        let (stays, goes): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(known, _)| gateways.iter().any(|gateway| is_same(gateway, known)));
        goes.iter().for_each(|(_, kept)| kept.set(None));
        all = gateways
            .into_iter()
            .map(|gateway| {
                let known = stays.iter().find(|(known, _)| is_same(known, &gateway));
                let kept = known.map_or_else(|| begin(&gateway, &reports), |(_, kept)| Arc::clone(kept));
                kept.set(Some(gateway.clone()));
                (gateway, kept)
            })
            .collect();
    }
}

fn begin(gateway: &Gateway, reports: &SyncSender<Report>) -> Arc<Kept> {
    let kept = Arc::new(Kept::default());
    kept.now().wanted = Some(gateway.clone());
    let (of_thread, reports, name) = (Arc::clone(&kept), reports.clone(), gateway.name.clone());
    std::thread::spawn(move || keep(&of_thread, &Reporter { name, reports }));
    kept
}

/// Reports to the daemon what one gateway does.
struct Reporter {
    name: String,
    reports: SyncSender<Report>,
}

impl Reporter {
    fn report(&self, state: &State, events: Vec<Event>) {
        self.report_with(state, events, Vec::new());
    }

    fn report_with(&self, state: &State, events: Vec<Event>, learned: Vec<Learned>) {
        let report = Report::Gateway { name: self.name.clone(), state: state.clone(), events, learned };
        let _ = self.reports.send(report);
    }
}

/// Keeps a gateway as long as it is wanted.
fn keep(kept: &Kept, reporter: &Reporter) {
    let mut state = State::default();
    let mut rest = FIRST_REST;
    let Some(sockets) = listen(kept, reporter, &mut state) else { return };
    loop {
        let began = Instant::now();
        let ended = match start(kept, &sockets) {
            Ok(Some((child, stream))) => {
                state.is_up = true;
                state.trouble = None;
                reporter.report(&state, Vec::new());
                follow(&stream, reporter, &mut state);
                end_of(child)
            }
            Ok(None) => return,
            Err(error) => error.to_string(),
        };
        kept.now().stream = None;
        if kept.now().wanted.is_none() {
            return;
        }
        state.is_up = false;
        state.restarts += 1;
        state.broken += state.counts.open;
        state.counts.open = 0;
        rest = if began.elapsed() >= LIVED { FIRST_REST } else { rest };
        state.trouble = Some(format!("its process has ended ({ended}), and is started again"));
        reporter.report(&state, Vec::new());
        if kept.wait(rest).is_none() {
            return;
        }
        rest = (rest * 2).min(LONGEST_REST);
    }
}

/// Where clients of a gateway come to: a listening socket, and of DNS one for datagrams at the same address.
type Sockets = (TcpListener, Option<UdpSocket>);

/// The sockets, as soon as they can be had; `None` if the gateway is not wanted any more.
fn listen(kept: &Kept, reporter: &Reporter, state: &mut State) -> Option<Sockets> {
    loop {
        let (address, is_transparent, has_datagrams) = {
            let now = kept.now();
            let wanted = now.wanted.as_ref()?;
            let is_transparent = wanted.mode == Mode::Transparent;
            (wanted.listen, is_transparent, matches!(wanted.protocol, Protocol::Dns(_)))
        };
        let listener = gateway::serve::listen(address, is_transparent.then_some(dataplane::GATEWAY_LISTENS));
        let datagrams = || has_datagrams.then(|| gateway::serve::listen_datagrams(address)).transpose();
        match listener.and_then(|listener| Ok((listener, datagrams()?))) {
            Ok(sockets) => return Some(sockets),
            Err(error) => {
                let trouble = format!("it cannot listen at {address}: {error}");
                if state.trouble.as_ref() != Some(&trouble) {
                    state.trouble = Some(trouble);
                    reporter.report(state, Vec::new());
                }
            }
        }
        kept.wait(TRY_AGAIN)?;
    }
}

/// Starts a gateway's process and tells it what it is to do; `None` if it is not wanted any more.
fn start(kept: &Kept, (listener, datagrams): &Sockets) -> io::Result<Option<(Child, UnixStream)>> {
    let mut command = command(super::WORKER);
    command.env_clear().current_dir("/");
    let stream = connect(&mut command)?;
    // In the place of its standard output, where programs find what they write to without being told its number.
    command.stdout(Stdio::from(OwnedFd::from(listener.try_clone()?)));
    if let Some(datagrams) = datagrams {
        // In that of its standard error. What a process writes there by mistake has no receiver and goes nowhere.
        command.stderr(Stdio::from(OwnedFd::from(datagrams.try_clone()?)));
    }
    let child = command.spawn()?;
    let mut now = kept.now();
    let Some(gateway) = &now.wanted else {
        drop(stream);
        let _ = end_of(child);
        return Ok(None);
    };
    send(&stream, &Order::Be(Box::new(gateway.clone())))?;
    now.stream = Some(stream.try_clone()?);
    Ok(Some((child, stream)))
}

fn send(stream: &UnixStream, order: &Order) -> io::Result<()> {
    write_frame(stream, &serde_json::to_vec(order)?)
}

/// Passes on what a process tells, until it has ended.
fn follow(stream: &UnixStream, reporter: &Reporter, state: &mut State) {
    let before = state.counts;
    while let Ok(frame) = read_frame(stream, MOST_REPORTED) {
        let Ok(Happened { events, counts, learned }) = serde_json::from_slice(&frame) else { return };
        state.counts = sum(before, counts);
        reporter.report_with(state, events, learned);
    }
}

/// What earlier processes and this one have counted.
fn sum(before: Counts, now: Counts) -> Counts {
    Counts {
        open: now.open,
        connections: before.connections.saturating_add(now.connections),
        turned_away: before.turned_away.saturating_add(now.turned_away),
        carried: before.carried.saturating_add(now.carried),
        refused: before.refused.saturating_add(now.refused),
        failed: before.failed.saturating_add(now.failed),
        to_servers: before.to_servers.saturating_add(now.to_servers),
        reused: before.reused.saturating_add(now.reused),
        suppressed: before.suppressed.saturating_add(now.suppressed),
    }
}

/// How a process has ended. One that has closed its stream and goes on is of no use.
fn end_of(mut child: Child) -> String {
    let _ = child.kill();
    child.wait().map_or_else(|error| error.to_string(), |status| status.to_string())
}
