//! `rampart up`: takes the namespace's lock, starts the daemon, and stays until it is down.

use crate::cli::UpArgs;
use crate::daemon::log::{Kind, Log};
use crate::daemon::place::{Lock, Place, PlaceError};
use crate::daemon::run::{Happenings, until_down};
use crate::daemon::{About, Daemon, Moment, Refused, server};
use crate::failure::Failure;
use crate::forwarding;
use crate::kernel::{self, Kernel};
use crate::plane::{DataPlane, Hook, PlaneError};
use policy::Policy;
use std::path::Path;
use std::sync::Arc;

pub(crate) fn run(args: &UpArgs, json: bool) -> Result<(), Failure> {
    let policy = crate::read_policy(&args.policy)?;
    if !nix::unistd::geteuid().is_root() {
        let what = "only root can take packets: run it with sudo, or as a service of root";
        return Err(Failure::Machine(what.to_owned()));
    }
    let place = Place::here(args.socket.as_deref())
        .map_err(|error| Failure::Machine(format!("cannot tell the network namespace: {error}")))?;
    let log = Log::new(json, Box::new(std::io::stdout()));
    let lock = place.lock()?;
    let machine = |error: PlaneError| Failure::Machine(error.to_string());
    // Looked at before anything is changed: a mistyped name must not stop a router.
    kernel::all_there(&policy).map_err(machine)?;
    stop_the_kernel(&policy, &log)?;
    let plane = Kernel::load(&policy, &place.held).map_err(machine)?;
    stay(&place, lock, policy, &args.policy, Box::new(plane), args.hook, log)
}

/// Before anything else: from now on what the firewall does not forward is not forwarded.
fn stop_the_kernel(policy: &Policy, log: &Log) -> Result<(), Failure> {
    let interfaces = policy.zones.iter().flat_map(|zone| &zone.interfaces).map(String::as_str);
    let were_on = forwarding::close(Path::new(forwarding::SETTINGS), interfaces)
        .map_err(|error| Failure::Machine(error.to_string()))?;
    for switch in were_on {
        let name = forwarding::dotted(switch);
        let message = format!(
            "{name} was 1 and is 0 now, and stays so: the firewall forwards, and the kernel does not"
        );
        log.event(Moment::now().wall, Kind::Up, message);
    }
    Ok(())
}

/// Runs a firewall in a place until it is down.
///
/// # Errors
/// When the socket cannot be had, or the policy cannot be put in force.
pub(crate) fn stay(
    place: &Place,
    lock: Lock,
    policy: Policy,
    file: &Path,
    plane: Box<dyn DataPlane>,
    hook: Hook,
    log: Log,
) -> Result<(), Failure> {
    // Signals that come while it starts take it down once it is up.
    let (happenings, arriving) = Happenings::new();
    happenings.of_signals().map_err(|e| Failure::Machine(format!("cannot take over signals: {e}")))?;
    let now = Moment::now();
    let about = About { pid: std::process::id(), namespace: place.namespace.clone(), since: now.wall };
    let listener = place.listen()?;
    let socket = SocketFile(place);
    let daemon = Daemon::start(about, log, policy, plane, hook)?;
    tell_up(&daemon, place)?;
    let daemon = Arc::new(daemon);
    server::serve(listener, Arc::clone(&daemon), happenings);
    let waiting = until_down(&daemon, &arriving, file)?;
    // Only then may whoever waits start another.
    drop((socket, lock, waiting));
    Ok(())
}

/// The socket's file, which goes on every way out but `kill -9`.
struct SocketFile<'p>(&'p Place);

impl Drop for SocketFile<'_> {
    fn drop(&mut self) {
        self.0.remove_socket();
    }
}

fn tell_up(daemon: &Daemon, place: &Place) -> Result<(), Failure> {
    let status = daemon.status()?;
    let at = status.since;
    for interface in &status.interfaces {
        let note = interface.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
        let (name, zone, hook) = (&interface.name, &interface.zone, interface.hook.name());
        daemon.tell(at, Kind::Up, format_args!("{name}: zone {zone}, {hook}{note}"));
    }
    let (rules, file, socket) = (status.policy.rules, &status.policy.file, place.socket.display());
    let namespace = &place.namespace;
    daemon.tell(
        at,
        Kind::Up,
        format_args!("{file}: {rules} rules, in namespace {namespace}, answers on {socket}"),
    );
    Ok(())
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Failure::Refused { machine: refused.status >= 500, refusal: Box::new(refused.refusal) }
    }
}

impl From<PlaceError> for Failure {
    fn from(error: PlaceError) -> Self {
        match error {
            PlaceError::Taken(text) | PlaceError::Machine(text) => Failure::Machine(text),
        }
    }
}
