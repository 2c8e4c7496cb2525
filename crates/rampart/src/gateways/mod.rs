//! Application gateways beside the daemon. The daemon has no socket of the network and starts no program once the firewall runs
//! (`docs/decisions/0033-a-daemon-that-gives-its-rights-away.md`), so `rampart up` starts a *keeper* before that, which binds the sockets of
//! gateways, has a process without any right for each of them, and starts those again that end (`docs/decisions/0062-gateways-as-processes.md`).
//! Here are the daemon's side and what the three send each other; [`keeper`] and [`worker`] are the other sides. The firewall judges packets
//! whatever becomes of them.

mod files;
mod host_lists;
pub(crate) mod keeper;
mod names;
mod settings;
mod users;
pub(crate) mod worker;

use crate::api::GatewayStatus;
use crate::privileges;
use crate::worker_stream::{command, connect, one_line, read_frame, write_frame};
use files::{Content, Files};
use gateway::event::{Counts, Event, Learned};
use gateway::users::Users;
use host_lists::HostList;
use jiff::Timestamp;
use names::Names;
use policy::Policy;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The subcommands that are the other processes.
pub(crate) const KEEPER: &str = "keep-gateways";
pub(crate) const WORKER: &str = "run-gateway";
/// Bytes of a frame between two of them, at most: of what gateways are to be, and of what they report.
const MOST_WANTED: usize = 64 << 20;
const MOST_REPORTED: usize = 16 << 20;
/// Events that wait for the daemon's event log.
const WAITING: usize = 16_384;
/// Words of a request that are kept in an event, in bytes.
const LONGEST_WORD: usize = 512;
/// Names with their addresses that wait for the packet filter. Who finds no place is not answered, and asks again.
const LEARNED_WAITING: usize = 1024;

/// What the daemon sends the keeper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Wanted {
    /// All gateways that are to run, as they are to be from now on.
    Run(Vec<gateway::config::Gateway>),
    /// The packet filter has what a gateway's process has announced by these numbers.
    Acknowledged(String, Vec<u64>),
}

/// What the keeper sends a gateway's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Order {
    Be(Box<gateway::config::Gateway>),
    /// As [`Wanted::Acknowledged`].
    Acknowledged(Vec<u64>),
}

/// What a gateway's process sends: what has happened since the message before, and its counts.
#[derive(Debug, Serialize, Deserialize)]
struct Happened {
    events: Vec<Event>,
    counts: Counts,
    /// Addresses of domains, for which somebody waits until the packet filter has them.
    learned: Vec<Learned>,
}

/// What the keeper sends the daemon. Its processes have talked with strangers, so all of it is shown and nothing more, but for
/// what is learned of domains, which `crate::domains` bounds.
#[derive(Debug, Serialize, Deserialize)]
enum Report {
    /// The state of a gateway, with what has happened there.
    Gateway { name: String, state: State, events: Vec<Event>, learned: Vec<Learned> },
    /// It cannot do anything: why.
    Failed(String),
}

/// How a gateway is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    is_up: bool,
    /// Over all its processes.
    counts: Counts,
    /// How often its process has ended by itself.
    restarts: u64,
    /// Connections of clients that ended with a process.
    broken: u64,
    /// Why it does not serve anybody.
    trouble: Option<String>,
}

/// The daemon's side. The other processes end when this is dropped, or when the daemon dies.
pub(crate) struct Gateways {
    wanted: SyncSender<()>,
    shared: Arc<Shared>,
    /// Addresses of domains that gateways announce, until somebody takes it.
    learned: Mutex<Option<Receiver<(String, Learned)>>>,
}

#[derive(Default)]
struct Shared {
    files: Mutex<AllFiles>,
    /// Held while files are read.
    reading: Mutex<()>,
    /// What the keeper is to be sent next: [`Wanted`].
    next: Mutex<Option<Vec<u8>>>,
    /// Numbers by which gateways are to hear that the packet filter has something.
    acknowledged: Mutex<Vec<(String, Vec<u64>)>>,
    state: Mutex<All>,
}

/// The files of a policy.
#[derive(Debug, Clone, Default)]
struct AllFiles {
    names: Files<Names>,
    hosts: Files<HostList>,
    users: Files<Users>,
}

impl AllFiles {
    /// Reads those that have changed or were not read yet. Returns what is another one now, for people.
    fn read(&mut self, policy: &Policy) -> Vec<&'static str> {
        let read = [
            (self.names.read(policy), Names::WHAT),
            (self.hosts.read(policy), HostList::WHAT),
            (self.users.read(policy), Users::WHAT),
        ];
        read.into_iter().filter_map(|(has_changed, what)| has_changed.then_some(what)).collect()
    }
}

/// All that is known of the gateways of the policy in force.
#[derive(Debug, Default)]
struct All {
    gateways: Vec<Known>,
    events: VecDeque<(String, Event)>,
    /// Why the gateways are as an earlier policy says.
    too_much: Option<String>,
    /// Events that found no place.
    lost: u64,
    ended: Option<String>,
}

#[derive(Debug)]
struct Known {
    name: String,
    listen: String,
    state: State,
    /// Restarts that have been reported.
    reported: u64,
}

impl Gateways {
    /// Starts the keeper.
    ///
    /// # Errors
    /// The process cannot be started.
    pub(crate) fn start() -> io::Result<Self> {
        let mut command = command(KEEPER);
        command.env_clear().current_dir("/");
        let ours = connect(&mut command)?;
        let process = command.spawn()?;
        Self::over(ours, process)
    }

    fn over(stream: UnixStream, mut process: Child) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        // One that waits is enough: it takes along what is wanted by then.
        let (wanted, waiting) = sync_channel(1);
        let (reading, of_reader, of_writer) = (stream.try_clone()?, Arc::clone(&shared), Arc::clone(&shared));
        std::thread::spawn(move || {
            privileges::keep_nothing();
            send_wanted(&stream, &waiting, &of_writer);
        });
        let (learn, learned) = sync_channel(LEARNED_WAITING);
        std::thread::spawn(move || {
            privileges::keep_nothing();
            let why = loop {
                let report = read_frame(&reading, MOST_REPORTED)
                    .and_then(|frame| serde_json::from_slice(&frame).map_err(io::Error::from));
                match report {
                    Ok(Report::Gateway { name, state, events, learned }) => {
                        for one in learned {
                            let _ = learn.try_send((name.clone(), one));
                        }
                        of_reader.all().take(&name, state, events);
                    }
                    Ok(Report::Failed(why)) => break one_line(&why),
                    Err(error) => break error.to_string(),
                }
            };
            of_reader.all().ended.get_or_insert(why);
            // A process that nobody waits for stays in the list of processes.
            let _ = process.wait();
        });
        Ok(Self { wanted, shared, learned: Mutex::new(Some(learned)) })
    }

    /// From now on the gateways of this policy run, with the rules that hold at a moment.
    pub(crate) fn set(&self, policy: &Policy, at: Timestamp) {
        let gateways = settings::of(policy, at, &self.files());
        let wanted = frame(&gateways, MOST_WANTED);
        let mut all = self.shared.all();
        all.too_much = wanted.as_ref().err().cloned();
        let Ok(wanted) = wanted else { return };
        let before = std::mem::take(&mut all.gateways);
        let mut before: Vec<_> = before.into_iter().collect();
        for gateway in &gateways {
            let listen = gateway.listen.to_string();
            let place = before.iter().position(|known| known.name == gateway.name && known.listen == listen);
            let known = place.map(|place| before.swap_remove(place));
            let fresh = || Known { name: gateway.name.clone(), listen, state: State::default(), reported: 0 };
            all.gateways.push(known.unwrap_or_else(fresh));
        }
        // Under the lock, so that the last policy is the last that is sent.
        *self.shared.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(wanted);
        let _ = self.wanted.try_send(());
    }

    /// Addresses of domains that gateways announce; once.
    pub(crate) fn learned(&self) -> Option<Receiver<(String, Learned)>> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The packet filter has what gateways have announced by these numbers.
    pub(crate) fn acknowledge(&self, acknowledged: Vec<(String, Vec<u64>)>) {
        self.shared.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).extend(acknowledged);
        let _ = self.wanted.try_send(());
    }

    /// Reads the files of a policy's gateways that have changed, or are not known yet. Returns what is another one now, for people: then the gateways
    /// are to be set once more.
    pub(crate) fn read_files(&self, policy: &Policy) -> Vec<&'static str> {
        let _turn = self.shared.reading.lock().unwrap_or_else(PoisonError::into_inner);
        // A disk may be slow, and nobody waits for it.
        let mut files = self.files().clone();
        let changed = files.read(policy);
        *self.files() = files;
        changed
    }

    fn files(&self) -> MutexGuard<'_, AllFiles> {
        self.shared.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has happened since this was asked last: events with their gateways, how many more there were, and sentences to report.
    pub(crate) fn take(&self) -> (Vec<(String, Event)>, u64, Vec<String>) {
        let mut all = self.shared.all();
        let events = all.events.drain(..).collect();
        let lost = std::mem::take(&mut all.lost);
        let reports = all.gateways.iter_mut().filter_map(|known| {
            let (before, now) = (known.reported, known.state.restarts);
            known.reported = now;
            (now > before).then(|| {
                format!(
                    "the gateway `{}` has ended and is started again ({} times so far, {} connections of clients ended with it)",
                    known.name, now, known.state.broken
                )
            })
        });
        let reports = reports.collect();
        (events, lost, reports)
    }

    pub(crate) fn states(&self) -> Vec<GatewayStatus> {
        self.shared.all().gateways.iter().map(Known::status).collect()
    }

    /// What is wrong, and what to do.
    pub(crate) fn troubles(&self) -> Vec<String> {
        let all = self.shared.all();
        if all.gateways.is_empty() {
            return Vec::new();
        }
        if let Some(why) = &all.ended {
            return vec![format!(
                "no gateway runs, because the process that keeps them has ended ({why}): start the daemon again (the firewall goes on \
                 meanwhile)"
            )];
        }
        let of_one = |known: &Known| {
            let why = known.state.trouble.as_ref()?;
            Some(format!("the gateway `{}` serves nobody: {}", known.name, one_line(why)))
        };
        let files = self.files();
        let of_files = files.names.troubles().chain(files.hosts.troubles()).chain(files.users.troubles());
        all.gateways.iter().filter_map(of_one).chain(of_files).chain(all.too_much.clone()).collect()
    }
}

/// What the keeper is sent.
///
/// # Errors
/// It would be more than a frame: what to do.
fn frame(gateways: &[gateway::config::Gateway], most: usize) -> Result<Vec<u8>, String> {
    let bytes = serde_json::to_vec(&Wanted::Run(gateways.to_vec())).map_err(|error| error.to_string())?;
    if bytes.len() > most {
        return Err(format!(
            "the rules, names and hosts of all gateways together take {} MiB, and may take {}: shorten them, or their files",
            bytes.len() >> 20,
            most >> 20
        ));
    }
    Ok(bytes)
}

/// Whether the gateways of a policy can be what it says, with the files that it names.
///
/// # Errors
/// A file cannot be used, or there is more than gateways take: what to do.
pub(crate) fn check_files(policy: &Policy, at: Timestamp) -> Result<(), String> {
    check_files_within(policy, at, MOST_WANTED)
}

fn check_files_within(policy: &Policy, at: Timestamp, most: usize) -> Result<(), String> {
    files::check::<Names>(policy)?;
    files::check::<HostList>(policy)?;
    // Only root may read that of users, and anybody may check a policy.
    if nix::unistd::geteuid().is_root() {
        files::check::<Users>(policy)?;
    }
    let mut files = AllFiles::default();
    files.read(policy);
    let frame = frame(&settings::of(policy, at, &files), most);
    frame.map(drop).map_err(|why| format!("{}: {why}", policy.file))
}

/// Sends the keeper what is wanted, whenever that has changed.
fn send_wanted(stream: &UnixStream, waiting: &Receiver<()>, shared: &Shared) {
    for () in waiting {
        let acknowledged =
            std::mem::take(&mut *shared.acknowledged.lock().unwrap_or_else(PoisonError::into_inner));
        let acknowledged =
            acknowledged.into_iter().map(|(name, numbers)| Wanted::Acknowledged(name, numbers));
        let acknowledged = acknowledged.filter_map(|message| serde_json::to_vec(&message).ok());
        let next = shared.next.lock().unwrap_or_else(PoisonError::into_inner).take();
        for bytes in acknowledged.chain(next) {
            if let Err(error) = write_frame(stream, &bytes) {
                shared.all().ended.get_or_insert_with(|| error.to_string());
                return;
            }
        }
    }
}

impl Shared {
    fn all(&self) -> MutexGuard<'_, All> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl All {
    fn take(&mut self, name: &str, state: State, events: Vec<Event>) {
        // One that the policy in force does not have any more.
        let Some(known) = self.gateways.iter_mut().find(|known| known.name == name) else { return };
        // Where the gateway itself had no room for them.
        self.lost += state.counts.suppressed.saturating_sub(known.state.counts.suppressed);
        known.state = state;
        for event in events {
            if self.events.len() < WAITING {
                self.events.push_back((name.to_owned(), bounded(event)));
            } else {
                self.lost += 1;
            }
        }
    }
}

/// An event whose words have bounds, whoever made them.
fn bounded(event: Event) -> Event {
    let cut = |word: Option<String>| word.map(|word| word.chars().take(LONGEST_WORD).collect());
    Event {
        rule: cut(event.rule),
        reason: cut(event.reason),
        client_name: cut(event.client_name),
        user: cut(event.user),
        method: cut(event.method),
        host: cut(event.host),
        path: cut(event.path),
        ..event
    }
}

impl Known {
    fn status(&self) -> GatewayStatus {
        let State { is_up, counts, restarts, broken, trouble } = &self.state;
        GatewayStatus {
            name: self.name.clone(),
            listen: self.listen.clone(),
            is_up: *is_up,
            open: counts.open,
            connections: counts.connections,
            turned_away: counts.turned_away,
            carried: counts.carried,
            refused: counts.refused,
            failed: counts.failed,
            to_servers: counts.to_servers,
            reused: counts.reused,
            restarts: *restarts,
            broken: *broken,
            trouble: trouble.as_deref().map(one_line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_more_than_a_frame_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[zones]\ninside = { interfaces = 'eth1' }\n[gateways.names]\nprotocol = 'dns'\nlisten = '10.0.0.1:53'\n\
            local = 'a'\nviews = [{ file = 'hosts' }]\n[[gateways.names.rules]]\nname = 'all'\naction = 'allow'\n";
        let policy = Policy::parse("p", text).unwrap().in_folder(Some(folder.path().to_owned()));
        // Each has more than a hundred names above it, which no other has.
        let name = |number: u32| format!("10.0.0.5 {}{number}.a\n", "x.".repeat(115));
        for (names, is_good) in [(10, true), (200, false)] {
            let lines: String = (0..names).map(name).collect();
            std::fs::write(folder.path().join("hosts"), lines).unwrap();
            let checked = check_files_within(&policy, Timestamp::UNIX_EPOCH, 1 << 20);
            assert_eq!(checked.is_ok(), is_good, "{names}: {checked:?}");
        }
    }

    #[test]
    fn events_that_a_gateway_had_no_room_for_are_counted_once() {
        let known =
            Known { name: "web".to_owned(), listen: String::new(), state: State::default(), reported: 0 };
        let mut all = All { gateways: vec![known], ..All::default() };
        for (suppressed, lost) in [(0, 0), (3, 3), (3, 3), (5, 5)] {
            let counts = Counts { suppressed, ..Counts::default() };
            all.take("web", State { counts, ..State::default() }, Vec::new());
            assert_eq!(all.lost, lost, "{suppressed}");
        }
    }
}
