//! `rampart up`: takes the namespace's lock, starts the daemon, and runs until it is down.

use crate::before::Before;
use crate::boot::{self, Chosen, Named};
use crate::cli::UpArgs;
use crate::daemon::instance::{Instance, InstanceError, Lock};
use crate::daemon::log::{Kind, Log};
use crate::daemon::recorder::Recorder;
use crate::daemon::run::{Wake, Waker, until_down};
use crate::daemon::scrapes::Scrapes;
use crate::daemon::{About, Daemon, Moment, Refused, domains, refresh, scrapes, server};
use crate::domains::Kept;
use crate::export::Exporter;
use crate::failure::Failure;
use crate::fetch::{Fetch, Fetcher};
use crate::forwarding::{self, SettingError};
use crate::gateways::Gateways;
use crate::kernel::{self, Kernel};
use crate::list_copies::Copies;
use crate::own_session;
use crate::plane::{DataPlane, Hook, PlaneError};
use crate::privileges;
use crate::state::{FIRST, State};
use crate::supervisor;
use dataplane::Earlier;
use policy::Policy;
use policy::settings::Forwarding;
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// How often `--wait` looks whether interfaces have come.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

pub(crate) fn run(args: &UpArgs, json: bool) -> Result<(), Failure> {
    // Requests are answered by threads of their own, one after the other mostly.
    dataplane::system_calls::share_memory_among_threads();
    // What is wrong with the file is shown to anybody, and whoever has kept no policy learns it before all else.
    let instance = Instance::here(args.socket.as_deref())
        .map_err(|error| Failure::Machine(format!("cannot find out the network namespace: {error}")))?;
    let state = args.state.as_deref().map_or_else(|| State::usual(&instance.namespace), State::at);
    let machine = |error: PlaneError| Failure::Machine(error.to_string());
    let is_root = nix::unistd::geteuid().is_root();
    // Looked at before anything is changed: a mistyped name must not stop a router.
    let is_missing = Cell::new(false);
    let usable = |policy: &Policy| {
        kernel::can_forward(policy).map_err(machine)?;
        let all_there = if is_root { kernel::all_there(policy).map_err(machine) } else { Ok(()) };
        is_missing.set(is_missing.get() || all_there.is_err());
        all_there
    };
    let named = args.policy.as_deref().map(|file| Named { file, gives_way: args.boot });
    let found = state.find();
    let deadline = Instant::now() + Duration::from_secs(args.wait);
    let chosen = loop {
        is_missing.set(false);
        let chosen = boot::choose(named, &found, Path::new(FIRST), usable);
        // While a machine starts, its interfaces come one by one and get their names late.
        if !is_missing.get() || Instant::now() >= deadline {
            break chosen?;
        }
        std::thread::sleep(LOOK_AGAIN);
    };
    let previous = match args.confirm {
        Some(_) => boot::previous(&chosen.policy, &found, usable)?,
        None => None,
    };
    if !is_root {
        let what = "only root can take packets: run it with sudo, or as a service of root";
        return Err(Failure::Machine(what.to_owned()));
    }
    let log = Log::behind(json, Box::new(std::io::stdout()));
    let lock = instance.lock()?;
    // While this process may still start another.
    let fetcher = Fetcher::start().map(|fetcher| Arc::new(fetcher) as Arc<dyn Fetch>);
    let exporter = Exporter::start(&instance.namespace).map_err(|error| error.to_string());
    let gateways = Gateways::start().map_err(|error| error.to_string());
    let Chosen { policy, file, mut notes } = chosen;
    check_hook(&policy, args.hook)?;
    if !args.force {
        own_session::refuse_to_cut(&policy)?;
    }
    if policy.settings.forwarding == Forwarding::Fast && !args.force {
        refuse_others(&policy)?;
    }
    // A firewall that is interrupted while it starts goes down once it is up: half of one would stay on its interfaces.
    let waking = waker()?;
    waking.0.of_links().map_err(|error| Failure::Machine(error.to_string()))?;
    let settings = Path::new(forwarding::SETTINGS);
    let setting = |error: SettingError| Failure::Machine(error.to_string());
    let earlier = Earlier::find().map_err(|error| Failure::Machine(error.to_string()))?;
    // While this process may still have a socket of the network.
    let scrapes = args.metrics.map(|address| scrapes::listen(address, &args.metrics_name, &policy));
    let scrapes = scrapes.transpose()?;
    // From now on what the firewall does not forward is not forwarded.
    let before = Before::of(&instance);
    before.forget_others();
    if earlier.is_none() {
        before.begin().map_err(setting)?;
    }
    let were_on = match policy.settings.forwarding {
        Forwarding::Fast => {
            let named = policy.zones.iter().flat_map(policy::model::Zone::named_interfaces);
            forwarding::close(settings, named, &before).map_err(setting)?
        }
        Forwarding::Kernel => Vec::new(),
    };
    match &earlier {
        None => before.note_loopback(settings).map_err(setting)?,
        Some(_) => before.suppose_loopback_off().map_err(setting)?,
    }
    notes.extend(kernel_stands(&policy, settings).map_err(setting)?);
    notes.extend(fragments_lost(&policy));
    if let Err(error) = &fetcher {
        notes.push(format!("commands of lists cannot be run: {error}"));
    }
    let fetcher = fetcher.ok();
    let plane = Kernel::load(&policy, args.hook, earlier, before).map_err(machine);
    let started = plane.and_then(|(plane, note)| {
        notes.extend(note);
        // Where somebody stands before the machine and names the policy, the files must be right.
        let stand_in = args.boot || args.policy.is_none();
        let lists = Copies { folder: &state.lists(), stand_in, fetcher: fetcher.as_deref(), keep: true };
        start(&instance, policy, Box::new(plane), args.hook, log, Some(lists), state.domains())
    });
    let daemon = match started {
        Ok(daemon) => daemon,
        Err(failure) => {
            // A router that was not taken over after all.
            forwarding::reopen(settings, &were_on).map_err(setting)?;
            return Err(failure);
        }
    };
    let recorder = Recorder::start(&state.log(), privileges::keep_nothing);
    let daemon = match args.confirm {
        Some(seconds) => daemon.confirm_within(seconds, previous, Moment::now()),
        None => daemon,
    };
    let by = server::process(nix::unistd::getuid().as_raw(), std::process::id() as i32);
    let daemon = daemon.keep_in(state, &by).record_by(recorder).fetch_by(fetcher).export_by(exporter);
    let daemon = daemon.gateways_by(gateways, Moment::now().wall);
    for note in notes {
        daemon.report(Moment::now().wall, Kind::Up, note);
    }
    for switch in were_on {
        let name = forwarding::dotted(switch);
        let message = format!(
            "{name} was on and is off now, and stays so: the firewall forwards, and the kernel does not"
        );
        daemon.report(Moment::now().wall, Kind::Up, message);
    }
    stay(&instance, lock, daemon, &file, (waking, scrapes))
}

/// A hook is chosen for the firewall's own forwarding alone.
fn check_hook(policy: &Policy, hook: Hook) -> Result<(), Failure> {
    if policy.settings.forwarding == Forwarding::Kernel && hook != Hook::Auto {
        let what = "--hook says where the firewall forwards, and with `forwarding = \"kernel\"` the kernel does: leave it out";
        return Err(Failure::Wrong(format!("{}: {what}", policy.file)));
    }
    Ok(())
}

/// Refuses to go past what others have set up in this network namespace.
fn refuse_others(policy: &Policy) -> Result<(), Failure> {
    let found = dataplane::others::found()
        .map_err(|error| Failure::Machine(format!("cannot find out who else forwards here: {error}")))?;
    if found.is_empty() {
        return Ok(());
    }
    Err(Failure::Machine(format!(
        "{}: the firewall would forward past what is set up here:\n  {}\nwrite `forwarding = \"kernel\"` below [settings], and \
         the kernel goes on doing it while the firewall judges; or, if all of that may be gone past, `rampart up --force`",
        policy.file,
        found.join("\n  ")
    )))
}

/// A kernel that is to forward and does not is worth a report, where there is something to forward to.
fn kernel_stands(policy: &Policy, settings: &Path) -> Result<Vec<String>, SettingError> {
    if policy.settings.forwarding == Forwarding::Fast || policy.zones.len() <= 2 {
        return Ok(Vec::new());
    }
    let off = forwarding::closed(settings)?.into_iter().map(forwarding::dotted);
    Ok(off
        .map(|name| format!("{name} is off, so the kernel forwards nothing of it: `sysctl -w {name}=1`"))
        .collect())
}

/// What else in this network namespace makes the kernel put fragments together, which costs some where the firewall forwards.
fn fragments_lost(policy: &Policy) -> Option<String> {
    if policy.settings.forwarding == Forwarding::Kernel {
        return None;
    }
    match dataplane::others::tracking() {
        Ok(found) => found.map(|what| format!("{what}: {}", kernel::FRAGMENTS_LOST)),
        Err(error) => Some(format!("cannot find out who tracks connections here: {error}")),
    }
}

/// Signals, from now on.
///
/// # Errors
/// When the system does not let us have them.
pub(crate) fn waker() -> Result<(Waker, Receiver<Wake>), Failure> {
    let (waker, arriving) = Waker::new();
    waker.of_signals().map_err(|e| Failure::Machine(format!("cannot take over signals: {e}")))?;
    Ok((waker, arriving))
}

/// Puts a policy in force.
///
/// # Errors
/// When it cannot be; nothing is left of it.
pub(crate) fn start(
    instance: &Instance,
    policy: Policy,
    plane: Box<dyn DataPlane>,
    hook: Hook,
    log: Log,
    lists: Option<Copies<'_>>,
    domains: Option<Kept>,
) -> Result<Daemon, Failure> {
    let now = Moment::now();
    let about = About { pid: std::process::id(), namespace: instance.namespace.clone(), since: now.wall };
    let domains = domains.map(|kept| (kept, now));
    Ok(Daemon::start(about, log, policy, plane, hook, lists, domains)?)
}

/// Who wakes the daemon.
type Waking = (Waker, Receiver<Wake>);

/// Answers requests until the firewall is down. `file` is what SIGHUP reads; readers of metrics come by the listener.
///
/// # Errors
/// When the socket cannot be had; then the firewall is taken down.
pub(crate) fn stay(
    instance: &Instance,
    lock: Lock,
    daemon: Daemon,
    file: &Path,
    (waking, scrapes): (Waking, Option<Scrapes>),
) -> Result<(), Failure> {
    let (waker, arriving) = waking;
    let listeners = match instance.listen().map_err(Failure::from) {
        Ok(listeners) => listeners,
        Err(failure) => {
            daemon.down(Moment::now().wall, &"itself".into())?;
            return Err(failure);
        }
    };
    let sockets = SocketFiles(instance);
    // From here on nothing is loaded and nobody's files are changed hands.
    for kept in [privileges::keep_the_daemons(), privileges::filter_system_calls()]
        .into_iter()
        .filter_map(Result::err)
    {
        daemon.report(Moment::now().wall, Kind::Trouble, kept);
    }
    report_up(&daemon, instance)?;
    if let Err(error) = supervisor::ready() {
        daemon.report(
            Moment::now().wall,
            Kind::Trouble,
            format_args!("the supervisor cannot be notified: {error}"),
        );
    }
    let daemon = Arc::new(daemon);
    server::serve(listeners, &daemon, &waker);
    if let Some(scrapes) = scrapes {
        scrapes::serve(scrapes, &daemon);
    }
    refresh::watch(&daemon);
    domains::watch(&daemon);
    let waiting = until_down(&daemon, &arriving, file);
    daemon.finish_reports();
    let waiting = waiting?;
    // Only then may whoever waits start another.
    drop((sockets, lock, waiting));
    Ok(())
}

/// The sockets' files, which go on every way out but `kill -9`.
struct SocketFiles<'i>(&'i Instance);

impl Drop for SocketFiles<'_> {
    fn drop(&mut self) {
        self.0.remove_sockets();
    }
}

fn report_up(daemon: &Daemon, instance: &Instance) -> Result<(), Failure> {
    let status = daemon.status()?;
    let at = status.since;
    for interface in &status.interfaces {
        let note = interface.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
        let (name, zone, hook) = (&interface.name, &interface.zone, interface.hook.name());
        daemon.report(at, Kind::Up, format_args!("{name}: zone {zone}, {hook}{note}"));
    }
    let (rules, file, socket) =
        (crate::table::rules(status.policy.rules as u64), &status.policy.file, instance.socket.display());
    let namespace = &instance.namespace;
    let until = status.policy.rolls_back_at.map(|t| format!(", to be confirmed until {t}"));
    let until = until.unwrap_or_default();
    daemon.report_by(
        at,
        Kind::Up,
        &server::process(nix::unistd::getuid().as_raw(), std::process::id() as i32),
        format_args!("{file}: {rules}, in namespace {namespace}{until}, answers on {socket}"),
    );
    Ok(())
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Failure::Refused { machine: refused.status >= 500, refusal: Box::new(refused.refusal) }
    }
}

impl From<InstanceError> for Failure {
    fn from(error: InstanceError) -> Self {
        match error {
            InstanceError::Taken(text) | InstanceError::Machine(text) => Failure::Machine(text),
        }
    }
}
