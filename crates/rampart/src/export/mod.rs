//! Sends what happens to collectors outside: events and reports to syslog and journald, records of flows by IPFIX. The daemon has no socket of
//! the network (`docs/decisions/0033-a-daemon-that-gives-its-rights-away.md`), so another process has them, which has no rights at all
//! (`docs/decisions/0052-a-process-that-exports.md`). Here are the daemon's side and what the two say to each other; [`worker`] is the other
//! side. Nobody waits for a collector: what finds no place is lost, and counted.

mod ipfix;
mod journald;
mod line;
mod notice;
mod outlet;
mod syslog;
pub(crate) mod worker;

use crate::api::{Event, Export};
use crate::privileges;
use jiff::Timestamp;
use policy::exports::{Collector, Exports, Transport};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The subcommand that is the other process.
pub(crate) const WORKER: &str = "export-events";
/// Sayings, and flows in them, that may wait for the other process, which reads at once.
const WAITING: usize = 16_384;
const FLOWS_WAITING: u64 = 131_072;
/// Bytes of a frame between the two, at most: a second's flows at the greatest rate come in several.
const MOST_OF_A_FRAME: usize = 4 << 20;
/// Records of flows in a frame.
const FLOWS_AT_ONCE: usize = 1_000;
/// How long the end of a daemon waits until what was said is on its way.
const LAST: Duration = Duration::from_secs(2);

/// What the daemon says to the process that exports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Saying {
    /// From now on these are the targets.
    Targets(Vec<Target>),
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

/// What that process says. It has talked with strangers, so nothing is done by it but shown.
#[derive(Debug, Serialize, Deserialize)]
enum Heard {
    /// Where it sends to, and what came of it.
    Targets(Vec<Export>),
    /// It cannot do anything: why.
    Failed(String),
}

/// Something that is no event of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) at: Timestamp,
    /// Short identifier of its kind, for example `applied`.
    pub(crate) event: String,
    /// Who did it, if somebody did.
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
    Socket(PathBuf),
}

/// Who says all this.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Origin {
    host: String,
    namespace: String,
    pid: u32,
}

impl Form {
    /// How many messages or records a saying is in this form; 0 if it is none of its business.
    fn units(&self, saying: &Saying) -> u64 {
        match (self, saying) {
            (Form::Ipfix { .. }, Saying::Flows(flows)) => flows.len() as u64,
            (Form::Ipfix { .. }, Saying::FlowsNotRecorded(_)) => 1,
            (Form::Syslog { .. } | Form::Journald { .. }, Saying::Event(_) | Saying::Report(_)) => 1,
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
}

impl fmt::Display for To {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            To::Udp(address) => write!(f, "udp://{address}"),
            To::Tcp(address) => write!(f, "tcp://{address}"),
            To::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

/// What a policy asks for, as targets.
fn targets(exports: &Exports, from: &Origin) -> Vec<Target> {
    let target = |form, to| Target { form, to, from: from.clone(), enterprise: exports.enterprise };
    let to = |collector: &Collector| match collector.transport {
        Transport::Udp => To::Udp(collector.address),
        Transport::Tcp => To::Tcp(collector.address),
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
    sayings: SyncSender<Said>,
    shared: Arc<Shared>,
    from: Origin,
    flows_not_recorded: AtomicU64,
    /// The process, unless it is a thread of a test.
    _process: Option<Child>,
}

/// What the writing thread is given.
enum Said {
    Saying(Box<Saying>),
    /// There are other targets.
    Set,
    /// Everything before this is on its way: say so.
    Written(SyncSender<()>),
}

#[derive(Default)]
struct Shared {
    /// What is said now goes somewhere.
    has_targets: AtomicBool,
    /// Targets that the process has not been told of yet.
    wanted: Mutex<Option<Vec<Target>>>,
    /// Flows that wait for the process.
    flows: AtomicU64,
    /// Events, reports and flows that found no place on their way to the process.
    lost: AtomicU64,
    /// How many of these somebody was told of.
    lost_before: AtomicU64,
    /// What the process said last of its targets; or that it has ended.
    state: Mutex<State>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct State {
    targets: Vec<Export>,
    ended: Option<String>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wanted(&self) -> MutexGuard<'_, Option<Vec<Target>>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the process something, and before that of other targets.
    fn pass_on(&self, stream: &UnixStream, said: Said) -> io::Result<()> {
        let wanted = self.wanted().take();
        let told = wanted.map_or(Ok(()), |targets| say(stream, &Saying::Targets(targets)));
        match said {
            Said::Saying(saying) => {
                self.flows.fetch_sub(flows_of(&saying), Ordering::AcqRel);
                told.and_then(|()| say(stream, &saying))
            }
            Said::Set => told,
            Said::Written(done) => {
                let _ = done.send(());
                told
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
        let mut command = Command::new("/proc/self/exe");
        command.arg(WORKER).env_clear().current_dir("/");
        let (ours, theirs) = UnixStream::pair()?;
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn()?;
        Ok(Self { _process: Some(process), ..Self::over(ours, namespace)? })
    }

    /// Over a stream at whose other end the process is.
    fn over(stream: UnixStream, namespace: &str) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (sayings, waiting) = sync_channel(WAITING);
        let (reading, of_reader, of_writer) = (stream.try_clone()?, Arc::clone(&shared), Arc::clone(&shared));
        std::thread::spawn(move || {
            privileges::keep_nothing();
            for said in waiting {
                if let Err(error) = of_writer.pass_on(&stream, said) {
                    of_writer.has_ended(&error.to_string());
                }
            }
        });
        std::thread::spawn(move || {
            privileges::keep_nothing();
            loop {
                let heard = read_frame(&reading)
                    .and_then(|frame| serde_json::from_slice(&frame).map_err(io::Error::from));
                match heard {
                    Ok(Heard::Targets(targets)) => of_reader.state().targets = targets,
                    Ok(Heard::Failed(why)) => return of_reader.has_ended(&one_line(&why)),
                    Err(error) => return of_reader.has_ended(&error.to_string()),
                }
            }
        });
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let from =
            Origin { host: host.trim().to_owned(), namespace: namespace.to_owned(), pid: std::process::id() };
        Ok(Self { sayings, shared, from, flows_not_recorded: AtomicU64::new(0), _process: None })
    }

    /// Sends what happens from now on where a policy says. Targets that stay keep their connections and counters.
    pub(crate) fn set(&self, exports: &Exports) {
        let targets = targets(exports, &self.from);
        self.shared.has_targets.store(!targets.is_empty(), Ordering::Release);
        *self.shared.wanted() = Some(targets);
        // Where there is no place, something waits that takes this along.
        let _ = self.sayings.try_send(Said::Set);
    }

    pub(crate) fn event(&self, event: &Event) {
        self.say(|| Saying::Event(Box::new(event.clone())));
    }

    pub(crate) fn report(&self, report: impl FnOnce() -> Report) {
        self.say(|| Saying::Report(report()));
    }

    /// Flows that have ended; `not_recorded` is how many have without a record, since the data plane was loaded.
    pub(crate) fn flows(&self, flows: &[FlowRecord], not_recorded: u64) {
        for flows in flows.chunks(FLOWS_AT_ONCE) {
            self.say(|| Saying::Flows(flows.to_vec()));
        }
        if self.flows_not_recorded.swap(not_recorded, Ordering::AcqRel) != not_recorded {
            self.say(|| Saying::FlowsNotRecorded(not_recorded));
        }
    }

    fn say(&self, saying: impl FnOnce() -> Saying) {
        if !self.shared.has_targets.load(Ordering::Acquire) {
            return;
        }
        let saying = saying();
        let flows = flows_of(&saying);
        let waiting = self.shared.flows.fetch_add(flows, Ordering::AcqRel);
        let has_room = flows == 0 || waiting + flows <= FLOWS_WAITING;
        let is_said = has_room && self.sayings.try_send(Said::Saying(Box::new(saying))).is_ok();
        if !is_said {
            self.shared.flows.fetch_sub(flows, Ordering::AcqRel);
            self.shared.lost.fetch_add(flows.max(1), Ordering::AcqRel);
        }
    }

    /// Where things are sent, and what came of it; the process said so within the last second.
    pub(crate) fn targets(&self) -> Vec<Export> {
        if !self.shared.has_targets.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.shared.state().targets.clone()
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
        let of_targets = targets.filter_map(|target| {
            let why = target.trouble.as_ref()?;
            Some(one_line(&format!("{} {}: {why}", target.form, target.to)))
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
        let _ = self.sayings.try_send(Said::Saying(Box::new(Saying::End)));
        if self.sayings.try_send(Said::Written(done)).is_ok() {
            let _ = is_done.recv_timeout(LAST);
        }
    }
}

/// What the other process wrote, for the log: it makes no line of its own there.
fn one_line(text: &str) -> String {
    const SHOWN: usize = 300;
    text.chars().filter(|c| !c.is_control()).take(SHOWN).collect()
}

/// The flows that a saying is about.
fn flows_of(saying: &Saying) -> u64 {
    match saying {
        Saying::Flows(flows) => flows.len() as u64,
        _ => 0,
    }
}

fn say(stream: &UnixStream, saying: &Saying) -> io::Result<()> {
    write_frame(stream, &serde_json::to_vec(saying)?)
}

fn write_frame(mut to: impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(&(bytes.len() as u32).to_le_bytes())?;
    to.write_all(bytes)
}

fn read_frame(mut from: impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MOST_OF_A_FRAME {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
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
