//! Sends what happens to collectors outside: events and reports to syslog and journald, records of flows by IPFIX. The daemon has no socket of
//! the network (`docs/decisions/0033-a-daemon-that-gives-its-rights-away.md`), so another process has them, which has no rights at all
//! (`docs/decisions/0052-a-process-that-exports.md`). Here are the daemon's side and what the two send each other; [`worker`] is the other
//! side. Nobody waits for a collector: what finds no place is lost, and counted.

mod ipfix;
mod journald;
mod line;
mod notice;
mod outlet;
mod syslog;
mod tls;
pub(crate) mod worker;

use crate::api::{Event, Export};
use crate::privileges;
use crate::worker_stream::{command, connect, one_line, read_frame, write_frame};
use jiff::Timestamp;
use policy::Policy;
use policy::exports::{Collector, Transport};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tls::Credentials;
pub(crate) use tls::check_files;

/// The subcommand that is the other process.
pub(crate) const WORKER: &str = "export-events";
/// Items, and flows in them, that may wait for the other process, which reads at once.
const WAITING: usize = 16_384;
const FLOWS_WAITING: u64 = 131_072;
/// Bytes of a frame between the two, at most: a second's flows at the greatest rate come in several.
const MOST_OF_A_FRAME: usize = 4 << 20;
/// Bytes of a report's text at most: it may have what a request or a policy names, and many may wait. No collector takes more.
const LONGEST_TEXT: usize = 8_000;
/// Records of flows in a frame.
const FLOWS_AT_ONCE: usize = 1_000;
/// How long the end of a daemon waits until all items are on their way.
const LAST: Duration = Duration::from_secs(2);

/// What the daemon sends to the process that exports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Item {
    /// From now on these are the targets. The number is that of the set, from 1: an earlier set that comes later is over.
    Targets { number: u64, targets: Vec<Target> },
    /// A rule recorded something.
    Event(Box<Event>),
    /// Something else happened.
    Report(Report),
    /// Flows have ended.
    Flows(Vec<FlowRecord>),
    /// So many flows have ended without a record since the data plane was loaded.
    FlowsNotRecorded(u64),
    /// That was all.
    End,
}

/// What that process answers. It has talked with strangers, so its answers are shown and nothing more.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    /// The states of a set of targets, in their order.
    Targets { number: u64, states: Vec<Export> },
    /// It cannot do anything: why.
    Failed(String),
}

/// Something that is no event of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) at: Timestamp,
    /// Short identifier of its kind, for example `applied`.
    pub(crate) event: String,
    /// Who did it; `None` if nobody did.
    pub(crate) by: Option<String>,
    pub(crate) message: String,
}

/// A flow that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FlowRecord {
    /// When its first packet came, and its last.
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
    pub(crate) protocol: u8,
    /// Of its initiator and of its responder; ports are 0 where there are none.
    pub(crate) ends: [(IpAddr, u16); 2],
    /// How the other end knows them, where a translation changed that.
    pub(crate) aliases: [Option<(IpAddr, u16)>; 2],
    /// Type and code of the question, of ICMP.
    pub(crate) icmp: u16,
    /// From the initiator and from the responder.
    pub(crate) packets: [u64; 2],
    pub(crate) bytes: [u64; 2],
    /// flowEndReason of IPFIX.
    pub(crate) end: u8,
    /// Names of its rule, if one allowed it and is known, and of the zones of its ends.
    pub(crate) rule: Option<String>,
    pub(crate) zones: [String; 2],
}

/// Where something is sent, and in which form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Target {
    form: Form,
    to: To,
    from: Origin,
    enterprise: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Form {
    Syslog { facility: u8 },
    Journald { facility: u8 },
    Ipfix { domain: u32, templates: Duration },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum To {
    Udp(SocketAddr),
    Tcp(SocketAddr),
    Tls(SocketAddr, Arc<Credentials>),
    /// By TLS, and its files cannot be used: why.
    Unusable(SocketAddr, String),
    Socket(PathBuf),
}

/// Where all this happens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Origin {
    host: String,
    namespace: String,
    pid: u32,
}

impl To {
    /// Whether messages follow each other without bounds of their own.
    fn is_stream(&self) -> bool {
        matches!(self, To::Tcp(_) | To::Tls(..) | To::Unusable(..))
    }
}

impl Form {
    /// How many messages or records an item is in this form; 0 if the form has none for it.
    fn units(&self, item: &Item) -> u64 {
        match (self, item) {
            (Form::Ipfix { .. }, Item::Flows(flows)) => flows.len() as u64,
            (Form::Ipfix { .. }, Item::FlowsNotRecorded(_)) => 1,
            (Form::Syslog { .. } | Form::Journald { .. }, Item::Event(_) | Item::Report(_)) => 1,
            _ => 0,
        }
    }
}

impl Target {
    /// How the API calls its form.
    fn form(&self) -> &'static str {
        match self.form {
            Form::Syslog { .. } => "syslog",
            Form::Journald { .. } => "journald",
            Form::Ipfix { .. } => "ipfix",
        }
    }

    /// Its state before anything was sent.
    fn not_begun(&self) -> Export {
        Export { form: self.form().to_owned(), to: self.to.to_string(), sent: 0, lost: 0, trouble: None }
    }
}

impl fmt::Display for To {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            To::Udp(address) => write!(f, "udp://{address}"),
            To::Tcp(address) => write!(f, "tcp://{address}"),
            To::Tls(address, _) | To::Unusable(address, _) => write!(f, "tls://{address}"),
            To::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

/// What a policy asks for, as targets.
fn targets(policy: &Policy, from: &Origin) -> Vec<Target> {
    let exports = &policy.settings.exports;
    let target = |form, to| Target { form, to, from: from.clone(), enterprise: exports.enterprise };
    let credentials = exports.tls.as_ref().ok_or_else(|| "the policy has no [log.tls]".to_owned());
    let credentials = credentials.and_then(|tls| Credentials::read(tls, policy)).map(Arc::new);
    let to = |collector: &Collector| match collector.transport {
        Transport::Udp => To::Udp(collector.address),
        Transport::Tcp => To::Tcp(collector.address),
        Transport::Tls => match &credentials {
            Ok(by) => To::Tls(collector.address, Arc::clone(by)),
            Err(why) => To::Unusable(collector.address, why.clone()),
        },
    };
    let journald = exports
        .journald
        .iter()
        .map(|path| target(Form::Journald { facility: exports.facility }, To::Socket(path.clone())));
    let syslog =
        exports.syslog.iter().map(|to_whom| target(Form::Syslog { facility: exports.facility }, to(to_whom)));
    let ipfix = exports.ipfix.iter().flat_map(|ipfix| {
        let form = Form::Ipfix { domain: ipfix.domain, templates: ipfix.templates };
        ipfix.collectors.iter().map(move |to_whom| target(form.clone(), to(to_whom)))
    });
    journald.chain(syslog).chain(ipfix).collect()
}

/// The daemon's side. The process ends when this is dropped, or when the daemon dies.
pub(crate) struct Exporter {
    items: SyncSender<Queued>,
    shared: Arc<Shared>,
    from: Origin,
    flows_not_recorded: AtomicU64,
}

/// What the writing thread is given.
enum Queued {
    Item(Box<Item>),
    /// Everything before this is on its way: answer that.
    Flush(SyncSender<()>),
}

#[derive(Default)]
struct Shared {
    /// Events, reports and flows are sent somewhere.
    has_targets: AtomicBool,
    /// The last set of targets, with its number, if it found no place among the items.
    wanted: Mutex<Option<Item>>,
    /// Flows that wait for the process.
    flows: AtomicU64,
    /// Events, reports and flows that found no place on their way to the process.
    lost: AtomicU64,
    /// How many of these a trouble has shown.
    lost_before: AtomicU64,
    /// The targets with their states; or that the process has ended.
    state: Mutex<State>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct State {
    /// Of the set of targets; 0 before the first.
    number: u64,
    targets: Vec<(Target, Export)>,
    ended: Option<String>,
}

impl State {
    /// There is another set of targets. Those that stay keep their states.
    fn set(&mut self, targets: &[Target]) {
        self.number += 1;
        let before = std::mem::take(&mut self.targets);
        let kept =
            |target: &Target| before.iter().find(|(old, _)| old == target).map(|(_, state)| state.clone());
        let with_state =
            |target: &Target| (target.clone(), kept(target).unwrap_or_else(|| target.not_begun()));
        self.targets = targets.iter().map(with_state).collect();
    }

    /// The process has answered. An answer about an earlier set is too late.
    fn update(&mut self, number: u64, states: Vec<Export>) {
        if number != self.number {
            return;
        }
        for ((_, state), new) in self.targets.iter_mut().zip(states) {
            // Where it sends to is known here.
            (state.sent, state.lost, state.trouble) =
                (new.sent, new.lost, new.trouble.as_deref().map(one_line));
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wanted(&self) -> MutexGuard<'_, Option<Item>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the process what was queued, and before that other targets if they found no place.
    fn pass_on(&self, stream: &UnixStream, queued: Queued) -> io::Result<()> {
        let wanted = self.wanted().take();
        let is_sent = wanted.map_or(Ok(()), |targets| send(stream, &targets));
        match queued {
            Queued::Item(item) => {
                self.flows.fetch_sub(flows_of(&item), Ordering::AcqRel);
                is_sent.and_then(|()| send(stream, &item))
            }
            Queued::Flush(done) => {
                let _ = done.send(());
                is_sent
            }
        }
    }

    fn has_ended(&self, why: &str) {
        self.state().ended.get_or_insert_with(|| why.to_owned());
    }
}

impl Exporter {
    /// Starts the process. `namespace` is how the firewall's network namespace is called.
    ///
    /// # Errors
    /// The process cannot be started.
    pub(crate) fn start(namespace: &str) -> io::Result<Self> {
        let mut command = command(WORKER);
        command.env_clear().current_dir("/");
        let ours = connect(&mut command)?;
        let process = command.spawn()?;
        Self::over(ours, namespace, Some(process))
    }

    /// Over a stream at whose other end the process is, unless it is a thread of a test.
    fn over(stream: UnixStream, namespace: &str, process: Option<Child>) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (items, waiting) = sync_channel(WAITING);
        let (reading, of_reader, of_writer) = (stream.try_clone()?, Arc::clone(&shared), Arc::clone(&shared));
        std::thread::spawn(move || {
            privileges::keep_nothing();
            for queued in waiting {
                if let Err(error) = of_writer.pass_on(&stream, queued) {
                    of_writer.has_ended(&error.to_string());
                }
            }
        });
        std::thread::spawn(move || {
            privileges::keep_nothing();
            let why = loop {
                let answer = read_frame(&reading, MOST_OF_A_FRAME)
                    .and_then(|frame| serde_json::from_slice(&frame).map_err(io::Error::from));
                match answer {
                    Ok(Answer::Targets { number, states }) => of_reader.state().update(number, states),
                    Ok(Answer::Failed(why)) => break one_line(&why),
                    Err(error) => break error.to_string(),
                }
            };
            of_reader.has_ended(&why);
            // A process that nobody waits for stays in the list of processes.
            let _ = process.map(|mut process| process.wait());
        });
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let from =
            Origin { host: host.trim().to_owned(), namespace: namespace.to_owned(), pid: std::process::id() };
        Ok(Self { items, shared, from, flows_not_recorded: AtomicU64::new(0) })
    }

    /// Sends what happens from now on where a policy says. Targets that stay keep their connections and counters.
    pub(crate) fn set(&self, policy: &Policy) {
        let targets = targets(policy, &self.from);
        self.shared.has_targets.store(!targets.is_empty(), Ordering::Release);
        // Under this lock, so that the last set has the greatest number. Items that wait go to the targets of their time.
        let mut state = self.shared.state();
        state.set(&targets);
        let item = Item::Targets { number: state.number, targets };
        if let Err(TrySendError::Full(Queued::Item(item))) = self.items.try_send(Queued::Item(Box::new(item)))
        {
            // Something waits that takes this along.
            *self.shared.wanted() = Some(*item);
        }
    }

    pub(crate) fn event(&self, event: &Event) {
        self.send(|| Item::Event(Box::new(event.clone())));
    }

    pub(crate) fn report(&self, report: impl FnOnce() -> Report) {
        self.send(|| {
            let Report { at, event, by, message } = report();
            let by = by.map(|by| cut(&by, LONGEST_TEXT).into_owned());
            Item::Report(Report { at, event, by, message: cut(&message, LONGEST_TEXT).into_owned() })
        });
    }

    /// Flows that have ended; `not_recorded` is how many have without a record, since the data plane was loaded.
    pub(crate) fn flows(&self, flows: &[FlowRecord], not_recorded: u64) {
        for flows in flows.chunks(FLOWS_AT_ONCE) {
            self.send(|| Item::Flows(flows.to_vec()));
        }
        if self.flows_not_recorded.swap(not_recorded, Ordering::AcqRel) != not_recorded {
            self.send(|| Item::FlowsNotRecorded(not_recorded));
        }
    }

    fn send(&self, item: impl FnOnce() -> Item) {
        if !self.shared.has_targets.load(Ordering::Acquire) {
            return;
        }
        let item = item();
        let flows = flows_of(&item);
        let waiting = self.shared.flows.fetch_add(flows, Ordering::AcqRel);
        let has_room = flows == 0 || waiting + flows <= FLOWS_WAITING;
        let is_queued = has_room && self.items.try_send(Queued::Item(Box::new(item))).is_ok();
        if !is_queued {
            self.shared.flows.fetch_sub(flows, Ordering::AcqRel);
            self.shared.lost.fetch_add(flows.max(1), Ordering::AcqRel);
        }
    }

    /// Where items are sent, and what came of that within the last second.
    pub(crate) fn targets(&self) -> Vec<Export> {
        if !self.shared.has_targets.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.shared.state().targets.iter().map(|(_, state)| state.clone()).collect()
    }

    /// What could not even be handed to the process.
    pub(crate) fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Acquire)
    }

    /// What is wrong, each with what to do.
    pub(crate) fn troubles(&self) -> Vec<String> {
        if !self.shared.has_targets.load(Ordering::Acquire) {
            return Vec::new();
        }
        let state = self.shared.state();
        let ended = state.ended.as_ref().map(|why| {
            format!(
                "nothing is sent to collectors, because the process that does it has ended ({why}): start the daemon again (the firewall \
                 goes on meanwhile)"
            )
        });
        let targets = state.targets.iter().filter(|_| state.ended.is_none());
        let of_targets = targets.filter_map(|(_, state)| {
            let why = state.trouble.as_ref()?;
            Some(one_line(&format!("{} {}: {why}", state.form, state.to)))
        });
        let of_targets: Vec<String> = of_targets.collect();
        let lost = self.lost();
        let more = lost - self.shared.lost_before.swap(lost, Ordering::AcqRel).min(lost);
        let stuck = (more > 0 && state.ended.is_none()).then(|| {
            "the process that sends to collectors does not keep up: what happens is not sent to them"
                .to_owned()
        });
        ended.into_iter().chain(stuck).chain(of_targets).collect()
    }

    /// Waits a moment until everything is on its way, because the process is about to end.
    pub(crate) fn finish(&self) {
        let (done, is_done) = sync_channel(1);
        let _ = self.items.try_send(Queued::Item(Box::new(Item::End)));
        if self.items.try_send(Queued::Flush(done)).is_ok() {
            let _ = is_done.recv_timeout(LAST);
        }
    }
}

/// The flows that an item is about.
fn flows_of(item: &Item) -> u64 {
    match item {
        Item::Flows(flows) => flows.len() as u64,
        _ => 0,
    }
}

fn send(stream: &UnixStream, item: &Item) -> io::Result<()> {
    write_frame(stream, &serde_json::to_vec(item)?)
}

/// Text that is no longer than so many bytes, with a sign where something is missing.
fn cut(text: &str, most: usize) -> std::borrow::Cow<'_, str> {
    const SIGN: &str = "...";
    if text.len() <= most {
        return text.into();
    }
    let mut end = most.saturating_sub(SIGN.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{SIGN}", &text[..end]).into()
}

#[cfg(test)]
mod tests;
