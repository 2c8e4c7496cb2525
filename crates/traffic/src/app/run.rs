//! A run of application traffic: threads enter the namespaces, the servers listen, the clients begin together, and what both
//! counted is put together.

use super::content::FileSet;
use super::held::{self, Together};
use super::load::{OpenTally, Tally, VirtualClient, World};
use super::open::{self, MOST_OPEN};
use super::seal::{Requests, Secret};
use super::server::{self, Kept, OpenCount, Served, Service};
use super::tls::Identities;
use crate::TrafficError;
use crate::harness::pin;
use crate::namespace::inside;
use measure::application::{
    ApplicationOutcome, ApplicationPlaces, Arrivals, Failure, ProtocolMix, SERVER_NAMES,
};
use measure::held_open::HeldOutcome;
use measure::ledger::{Ledger, Named, Places};
use measure::mix::{Mix, MixOutcome, PartOutcome, Turns};
use measure::open_loop::{OpenLoop, Sustained};
use measure::trial::SecondSample;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::Instant;

/// How long threads may take until they are ready.
const SETUP_LIMIT: Duration = Duration::from_secs(20);
/// How often the user is asked whether to go on.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// Beside the time of the load and of a last transaction, after which threads that did not end are given up.
const PATIENCE: Duration = Duration::from_secs(20);
/// How much longer than its client's transaction a server keeps a connection, so that the client is who gives up.
const SERVER_LONGER: Duration = Duration::from_secs(5);
/// Of FTP: a control and a data connection, and a listener, at each end.
const FILES_OF_CLIENT: u64 = 6;
/// File descriptors beside those.
const OTHER_FILES: u64 = 256;

/// Where the applications of one side are.
#[derive(Debug, Clone)]
pub struct Side {
    /// Path of its network namespace; `None` is this thread's own.
    pub namespace: Option<PathBuf>,
    /// Addresses that sockets there can be bound to, at least one: of machines or of servers.
    pub addresses: Vec<IpAddr>,
}

/// What a run is to be.
#[derive(Debug, Clone)]
pub struct Load {
    /// Virtual clients, at least 1; of a closed loop alone.
    pub clients: u32,
    /// When connections begin.
    pub arrivals: Arrivals,
    /// How they fetch files.
    pub protocol: ProtocolMix,
    /// Transactions of a connection, at least 1; more than 1 of HTTP/1.1, HTTPS and HTTP/2 alone. Connections that are held have as many as their
    /// think time allows, and those of a mix that a suite states as many as their part says.
    pub transactions: u32,
    /// Seconds in which transactions begin: where connections have their times, all phases.
    pub seconds: f64,
    /// How long a transaction may take.
    pub transaction_limit: Duration,
    /// The servers' port for HTTP.
    pub http_port: u16,
    /// The servers' port for HTTPS and HTTP/2.
    pub https_port: u16,
    /// The servers' port for FTP's control connections.
    pub ftp_port: u16,
    /// Cores on which clients and servers work, at least one.
    pub cores: Vec<usize>,
    /// Seed of what clients ask for.
    pub seed: u64,
}

impl Load {
    /// The most transactions that a connection has.
    fn most_transactions(&self) -> u32 {
        let parts = self.protocol.stated().map(|mix| mix.parts.iter().map(|part| part.transactions));
        parts.and_then(Iterator::max).unwrap_or(self.transactions)
    }
}

/// What became of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Where every transaction went.
    pub ledger: Ledger,
    /// What else is known of them.
    pub application: ApplicationOutcome,
    /// Second by second.
    pub per_second: Vec<SecondSample>,
    /// What kept this machine from doing what was asked, where something did: the run must not count.
    pub fault: Option<String>,
}

/// Runs clients and servers and waits for their end, which comes at the latest the limit of a transaction and some seconds after
/// that of the load. `interrupted` is asked now and then.
///
/// # Errors
/// A namespace cannot be entered, a server cannot listen, a thread does not end; or the user interrupts.
pub fn run(
    clients: &Side,
    servers: &Side,
    load: &Load,
    files: &Arc<FileSet>,
    interrupted: &dyn Fn() -> bool,
) -> Result<Outcome, TrafficError> {
    let (load, limited_by) = &held::as_many_as_can_be(load)?;
    allow_files(match load.arrivals {
        Arrivals::ClosedLoop => u64::from(load.clients) * FILES_OF_CLIENT + OTHER_FILES,
        // One at each end.
        Arrivals::OpenLoop(_) => 2 * MOST_OPEN as u64 + OTHER_FILES,
        Arrivals::Held(held) => files_of_held(held.connections),
    })?;
    let together = match load.arrivals {
        Arrivals::Held(held) => Some(Together::new(held, load.transaction_limit)),
        _ => None,
    };
    let connection_limit = match &together {
        Some(together) => together.longest(),
        None => load.transaction_limit * load.most_transactions(),
    };
    let open_at_servers = Arc::new(OpenCount::default());
    let identities = Identities::new(&SERVER_NAMES, &load.protocol.over_tls())
        .map_err(TrafficError::system("making a certificate"))?;
    let turns = load.protocol.stated().map_or_else(Turns::default, |mix| Turns::of(mix));
    let turns = Arc::new(Mutex::new(turns));
    let secret = Secret::default();
    let serving = Threads::start("server", &load.cores, |core, ready| {
        let (side, files, secret) = (servers.clone(), files.clone(), secret.clone());
        let mut ports = vec![(load.http_port, Service::Http), (load.ftp_port, Service::Ftp)];
        let https = identities.as_ref().and_then(Identities::service);
        ports.extend(https.map(|service| (load.https_port, service)));
        let longest = connection_limit + SERVER_LONGER;
        let open = open_at_servers.clone();
        move |phase| serve(&side, core, ports, Kept { files, secret, longest, open }, phase, &ready)
    })?;
    let mut asking = Threads::start("client", &load.cores, |core, ready| {
        let world = World {
            machines: clients.addresses.clone(),
            servers: servers.addresses.clone(),
            files: files.clone(),
            load: load.clone(),
            identities: identities.clone(),
            turns: turns.clone(),
            requests: Requests::new(secret.clone()),
            start: OnceCell::new(),
            buffers: RefCell::default(),
        };
        let (side, together) = (clients.clone(), together.clone());
        move |phase| ask(&side, core, (world, together), phase, &ready)
    })?;
    asking.go();
    let longest = Duration::from_secs_f64(load.seconds) + connection_limit + PATIENCE;
    let asked = asking.wait(longest, interrupted)?;
    let served = serving.end(interrupted)?;
    let mut outcome = outcome(load, asked, served);
    if let (Some(held), Some(together)) = (&mut outcome.application.held, together) {
        held.open_at_servers = open_at_servers.most();
        held.limited_by.clone_from(limited_by);
        outcome.fault = outcome.fault.or(together.why_late());
    }
    Ok(outcome)
}

/// Open files of a run that holds so many connections: one at each end, and others.
pub(super) fn files_of_held(connections: u64) -> u64 {
    2 * connections + OTHER_FILES
}

pub(super) fn allow_files(needed: u64) -> Result<(), TrafficError> {
    let refused = |errno: nix::Error| TrafficError::System {
        doing: format!("allowing {needed} open files"),
        source: errno.into(),
    };
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(refused)?;
    if soft >= needed {
        return Ok(());
    }
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed)).map_err(refused)
}

/// Whether to go on: first wait, then work, then end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Wait,
    Work,
    End,
}

/// One thread a core, which say when they are ready and answer when they end.
struct Threads<T> {
    phase: watch::Sender<Phase>,
    answers: Receiver<io::Result<T>>,
    threads: Vec<JoinHandle<()>>,
}

/// A thread that is ready says so.
type Ready = Sender<()>;

/// Waits until one more thread is ready, or says why none will be. A thread that cannot begin answers a moment after the others could
/// have seen it end.
fn await_one<T>(readiness: &Receiver<()>, answers: &Receiver<io::Result<T>>) -> Result<(), String> {
    let begun = Instant::now();
    while readiness.recv_timeout(ASK_EVERY).is_err() {
        if let Ok(Err(error)) = answers.recv_timeout(ASK_EVERY) {
            return Err(error.to_string());
        }
        if begun.elapsed() > SETUP_LIMIT {
            return Err(format!("not ready within {} s", SETUP_LIMIT.as_secs()));
        }
    }
    Ok(())
}

/// A core that one of the threads works on.
#[derive(Debug, Clone, Copy)]
struct Core {
    number: usize,
    /// Its place among those of the run, from 0.
    place: usize,
    of: usize,
}

impl<T: Send + 'static> Threads<T> {
    fn start<W>(what: &str, cores: &[usize], make: impl Fn(Core, Ready) -> W) -> Result<Self, TrafficError>
    where
        W: FnOnce(watch::Receiver<Phase>) -> io::Result<T> + Send + 'static,
    {
        let (phase, watched) = watch::channel(Phase::Wait);
        let (ready, readiness) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let mut threads = Vec::new();
        for (place, &number) in cores.iter().enumerate() {
            let core = Core { number, place, of: cores.len() };
            let (work, watched, answer) = (make(core, ready.clone()), watched.clone(), answer.clone());
            let start = std::thread::Builder::new().name(format!("{what}-{place}"));
            let thread = start.spawn(move || {
                // Nobody waits any more after an interruption.
                let _ = answer.send(work(watched));
            });
            threads.push(thread.map_err(TrafficError::system(format!("starting a {what} thread")))?);
        }
        drop(ready);
        for _ in cores {
            await_one(&readiness, &answers)
                .map_err(|why| TrafficError::Impossible(format!("the {what}s could not begin: {why}")))?;
        }
        Ok(Self { phase, answers, threads })
    }

    fn go(&mut self) {
        self.phase.send_replace(Phase::Work);
    }

    /// Ends the threads and returns their answers.
    fn end(mut self, interrupted: &dyn Fn() -> bool) -> Result<Vec<T>, TrafficError> {
        self.phase.send_replace(Phase::End);
        self.wait(PATIENCE, interrupted)
    }

    /// The threads' answers, once they have ended by themselves.
    fn wait(&mut self, longest: Duration, interrupted: &dyn Fn() -> bool) -> Result<Vec<T>, TrafficError> {
        let begun = Instant::now();
        let mut answers = Vec::new();
        while answers.len() < self.threads.len() {
            match self.answers.recv_timeout(ASK_EVERY) {
                Ok(answer) => answers.push(answer.map_err(TrafficError::system("application traffic"))?),
                Err(RecvTimeoutError::Timeout) if interrupted() => return Err(TrafficError::Interrupted),
                Err(RecvTimeoutError::Timeout) if begun.elapsed() < longest => (),
                Err(RecvTimeoutError::Timeout) => {
                    let why = format!("application traffic did not end within {longest:?}");
                    return Err(TrafficError::Impossible(why));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(TrafficError::Impossible("a thread of application traffic broke".into()));
                }
            }
        }
        Ok(answers)
    }
}

impl<T> Drop for Threads<T> {
    /// On every way out the threads end; their runtimes close all sockets.
    fn drop(&mut self) {
        self.phase.send_replace(Phase::End);
        for thread in self.threads.drain(..) {
            // A panic was seen as a missing answer.
            let _ = thread.join();
        }
    }
}

/// Runs a future on this thread, inside a side's namespace and on one core. What it left open is closed then.
fn on_core<T>(side: &Side, core: Core, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    pin(core.number)?;
    let here = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        LocalSet::new().block_on(&runtime, work)
    };
    inside(side.namespace.as_deref(), here).map_err(io::Error::other)?
}

fn serve(
    side: &Side,
    core: Core,
    ports: Vec<(u16, Service)>,
    kept: Kept,
    mut phase: watch::Receiver<Phase>,
    ready: &Ready,
) -> io::Result<Served> {
    on_core(side, core, async {
        let mut listeners = Vec::new();
        for (address, (port, service)) in
            side.addresses.iter().flat_map(|a| ports.iter().map(move |p| (a, p)))
        {
            listeners.push((server::listen(SocketAddr::new(*address, *port))?, service.clone()));
        }
        // Nobody waits any more after an interruption.
        let _ = ready.send(());
        Ok(server::serve(listeners, kept, phase.wait_for(|phase| *phase == Phase::End)).await)
    })
}

/// What the virtual clients of a thread did, and what kept this machine from doing more.
struct Asked {
    tally: Tally,
    fault: Option<io::Error>,
}

fn ask(
    side: &Side,
    core: Core,
    (world, together): (World, Option<Arc<Together>>),
    phase: watch::Receiver<Phase>,
    ready: &Ready,
) -> io::Result<Asked> {
    let (world, tally) = (Rc::new(world), Rc::new(RefCell::new(Tally::default())));
    let fault = match world.load.arrivals {
        Arrivals::ClosedLoop => {
            let numbers = (core.place as u64..world.load.clients.into()).step_by(core.of);
            let client = |number| VirtualClient { number, world: world.clone(), tally: tally.clone() };
            let clients: Vec<VirtualClient> = numbers.map(client).collect();
            on_core(side, core, until_the_end(work(clients), phase, ready))?
        }
        Arrivals::OpenLoop(open) => {
            let work = open::keep_time(world.clone(), tally.clone(), open, core.place, core.of);
            on_core(side, core, until_the_end(async { work.await.err() }, phase, ready))?
        }
        Arrivals::Held(_) => {
            let together =
                together.ok_or_else(|| io::Error::other("connections to hold without their plan"))?;
            let work = held::keep_open(world.clone(), tally.clone(), together, core.place, core.of);
            on_core(side, core, until_the_end(async { work.await.err() }, phase, ready))?
        }
    };
    Ok(Asked { tally: tally.take(), fault })
}

/// Waits for the start, and does the work, which answers with what this machine could not do.
async fn until_the_end(
    work: impl Future<Output = Option<io::Error>>,
    mut phase: watch::Receiver<Phase>,
    ready: &Ready,
) -> io::Result<Option<io::Error>> {
    let _ = ready.send(());
    let begun = phase.wait_for(|phase| *phase != Phase::Wait).await.map(|phase| *phase);
    let Ok(Phase::Work) = begun else { return Ok(None) };
    tokio::select! {
        fault = work => Ok(fault),
        _ = phase.wait_for(|phase| *phase == Phase::End) => Ok(None),
    }
}

/// Lets virtual clients work to their end.
async fn work(clients: Vec<VirtualClient>) -> Option<io::Error> {
    let mut working = JoinSet::new();
    for client in clients {
        working.spawn_local(client.work());
    }
    while let Some(ended) = working.join_next().await {
        // A client that panicked is an answer that cannot be had.
        if let Err(error) = ended.unwrap_or_else(|broken| Err(io::Error::other(broken))) {
            return Some(error);
        }
    }
    None
}

/// Puts together what both sides counted.
fn outcome(load: &Load, asked: Vec<Asked>, served: Vec<Served>) -> Outcome {
    let mut tally = Tally::default();
    asked.iter().for_each(|asked| tally.add(&asked.tally));
    let served = served.into_iter().fold(Served::default(), Served::plus);
    let failed = by_name(&tally.failed);
    let held = match load.arrivals {
        Arrivals::Held(asked) => Some(Box::new(HeldOutcome {
            asked: asked.connections,
            opened: tally.held.opened,
            alive: tally.held.alive,
            accepted: served.accepted,
            ..HeldOutcome::default()
        })),
        _ => None,
    };
    let open = load.arrivals.open_loop();
    let mut faults = asked.into_iter().filter_map(|asked| asked.fault).chain(served.fault);
    Outcome {
        ledger: Ledger {
            offered: tally.begun + tally.open.left_out,
            not_sent: tally.open.left_out,
            received: tally.completed,
            places: Places::Application(ApplicationPlaces { failed }),
        },
        application: ApplicationOutcome {
            clients: if load.arrivals == Arrivals::ClosedLoop { load.clients } else { 0 },
            in_time: tally.in_time,
            bytes_in_time: tally.bytes_in_time,
            requests: served.requests,
            answers: served.answers,
            client_bytes: tally.bytes,
            server_bytes: served.bytes,
            times_ns: tally.times.summary(),
            first_byte_ns: tally.first_byte.summary(),
            last_byte_ns: tally.last_byte.summary(),
            sustained: open.map(|open| Box::new(sustained(&open, &tally.open))),
            held,
            mix: load.protocol.stated().map(|mix| Box::new(mix_outcome(mix, open.as_ref(), &tally))),
        },
        per_second: tally.samples(load.seconds),
        fault: faults.next().map(|error| format!("the bench could not make another connection: {error}")),
    }
}

fn by_name(failed: &BTreeMap<Failure, u64>) -> Named {
    failed.iter().map(|(failure, count)| (failure.name().to_owned(), *count)).collect()
}

/// What became of each part of a mix. One that had no turn has nothing.
fn mix_outcome(mix: &Mix, open: Option<&OpenLoop>, tally: &Tally) -> MixOutcome {
    let nothing = Tally::default();
    let (expected, connections) = (mix.transaction_shares(), mix.connection_shares());
    let part = |(place, part): (usize, &measure::mix::Part)| {
        let tally = tally.parts.get(place).unwrap_or(&nothing);
        // The part's own share of the load.
        let load =
            open.map(|open| OpenLoop { connection_rate: open.connection_rate * connections[place], ..*open });
        PartOutcome {
            name: part.name.clone(),
            asked: part.share,
            expected: expected[place],
            each: part.transactions,
            begun: tally.begun + tally.open.left_out,
            completed: tally.completed,
            failed: by_name(&tally.failed),
            bytes: tally.bytes,
            in_time: tally.in_time,
            bytes_in_time: tally.bytes_in_time,
            times_ns: tally.times.summary(),
            first_byte_ns: tally.first_byte.summary(),
            last_byte_ns: tally.last_byte.summary(),
            sustained: load.map(|load| Box::new(sustained(&load, &tally.open))),
        }
    };
    let parts = mix.parts.iter().enumerate().map(part).collect();
    MixOutcome { name: mix.name.clone(), shares: mix.shares, parts }
}

fn sustained(load: &OpenLoop, tally: &OpenTally) -> Sustained {
    Sustained {
        first_byte_ns: tally.first_byte.summary(),
        last_byte_ns: tally.last_byte.summary(),
        ..Sustained::of(load, &tally.moments, tally.connections.summary())
    }
}
