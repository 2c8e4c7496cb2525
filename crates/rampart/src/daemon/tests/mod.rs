//! The daemon over the data plane in memory: through its socket, by the clock, and as a process with signals.

mod asked;
mod blocks;
mod by_itself;
mod domains;
mod fetched;
mod listed;
mod metrics;
mod past;
mod patterns;
mod process;
mod recorded;

use super::alerts::tests::reading;
use super::events::tests::{closed, details, refused};
use super::instance::Instance;
use super::log::Log;
use super::recorder::Recorder;
use super::run::Waker;
use super::{About, Daemon, Moment, server};
use crate::api::{Counter, Drop as Dropped, EventDetails, EventName, Flow, NewPolicy, Station, description};
use crate::cli::{Cli, Command};
use crate::http::{read_response, write_request};
use crate::memory::Memory;
use crate::plane::{Hook, Recorded};
use clap::Parser as _;
use jiff::{SignedDuration, Timestamp};
use policy::Policy;
use rampart_client::socket::Namespace;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

const ZONES: &str = "[zones]\nin = { interfaces = 'e1' }\nout = { interfaces = ['e0', 'e2'] }\n\
    [schedules.day]\ntime_zone = 'UTC'\ntimes = 'daily 08:00-18:00'\n";

fn rule(name: &str, rest: &str) -> String {
    format!("[[rules]]\nname = '{name}'\nfrom = 'in'\nto = 'out'\naction = 'allow'\n{rest}\n")
}

/// Two rules, one of which holds by day.
fn usual() -> String {
    format!("{ZONES}{}{}", rule("web", "service = ['http', 'https']"), rule("lessons", "schedule = 'day'"))
}

/// What is written is kept.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn instance_in(folder: &Path) -> Instance {
    let namespace = Namespace { name: "test".to_owned(), inode: 1 };
    Instance::of(folder, &namespace, folder.join("test.sock"))
}

/// A daemon on a socket in a folder of its own.
struct Running {
    folder: TempDir,
    instance: Instance,
    daemon: Arc<Daemon>,
    plane: Memory,
    log: Kept,
    start: Moment,
}

impl Running {
    fn new() -> Self {
        Self::with(&usual(), "2026-11-20T10:00:00Z")
    }

    fn with(policy: &str, at: &str) -> Self {
        Self::prepared(policy, at, |daemon| daemon)
    }

    fn prepared(policy: &str, at: &str, prepare: impl FnOnce(Daemon) -> Daemon) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let instance = instance_in(folder.path());
        let (plane, log) = (Memory::default(), Kept::default());
        let start = Moment { wall: at.parse().unwrap(), ..Moment::now() };
        let about = About { pid: 4711, namespace: "test".to_owned(), since: start.wall };
        let policy = Policy::parse("first.toml", policy).unwrap();
        let events = Log::new(false, Box::new(log.clone()));
        let daemon =
            Daemon::start(about, events, policy, Box::new(plane.clone()), Hook::Auto, None, None).unwrap();
        let recorder = Recorder::start(&folder.path().join("log"), || ());
        let daemon = Arc::new(prepare(daemon.record_by(recorder)));
        // Nobody listens: the process of a test does not end when its daemon goes down.
        server::serve(instance.listen().unwrap(), &daemon, &Waker::new().0);
        Self { folder, instance, daemon, plane, log, start }
    }

    fn at(&self, seconds: u32) -> Moment {
        Moment {
            wall: self.start.wall + SignedDuration::from_secs(seconds.into()),
            steady: self.start.steady + Duration::from_secs(seconds.into()),
        }
    }

    fn log(&self) -> String {
        String::from_utf8(self.log.0.lock().unwrap().clone()).unwrap()
    }

    /// A request over the socket: the status and the body.
    fn ask(&self, method: &str, target: &str, body: &str) -> (u16, Value) {
        let mut stream = UnixStream::connect(&self.instance.socket).unwrap();
        write_request(&mut stream, method, target, body.as_bytes()).unwrap();
        let response = read_response(&mut stream).unwrap();
        (response.status, serde_json::from_slice(&response.body).unwrap())
    }

    /// A command as a user types it: its exit status, and what it prints.
    fn command(&self, words: &str) -> (u8, String) {
        let socket = self.instance.socket.display().to_string();
        // Who reads the disk asks no daemon.
        let asked: &[&str] = if words.contains("--kept") { &[] } else { &["--socket", &socket] };
        let words = std::iter::once("rampart").chain(words.split_whitespace()).chain(asked.iter().copied());
        let cli = Cli::try_parse_from(words).unwrap();
        let mut out = Vec::new();
        let done = match &cli.command {
            Command::Top(args) => crate::ask::top::top(args, cli.json, &mut out).map(|()| String::new()),
            Command::Log(args) => crate::ask::log::log(args, cli.json, &mut out).map(|()| String::new()),
            Command::Apply(args) => crate::ask::apply(args, cli.json),
            Command::Confirm(args) => crate::ask::confirm(args, cli.json),
            Command::History(args) => crate::ask::history::history(args, cli.json),
            Command::Diff(args) => crate::ask::history::diff(args, cli.json),
            Command::Export(args) => crate::ask::history::export(args, cli.json),
            Command::Rollback(args) => crate::ask::apply::rollback(args, cli.json),
            Command::FactoryReset(args) => crate::ask::apply::factory_reset(args, cli.json),
            Command::Backup(args) => crate::ask::backup::backup(args, cli.json),
            Command::Restore(args) => crate::ask::backup::restore(args, cli.json),
            Command::Status(args) => crate::ask::status(args, cli.json),
            Command::Rules(args) => crate::ask::rules(args, cli.json),
            Command::Flows(args) => crate::ask::flows(args, cli.json),
            Command::Metrics(args) => crate::ask::metrics(args, cli.json),
            Command::Lists(args) => crate::ask::lists(args, cli.json),
            Command::Blocks(args) => crate::ask::blocks(args, cli.json),
            Command::Stations(args) => crate::ask::stations(args, cli.json),
            Command::Drops(args) => crate::ask::drops(args, cli.json),
            other => panic!("{other:?} asks no daemon"),
        };
        match done {
            Ok(text) => (0, String::from_utf8(out).unwrap() + &text),
            Err(failure) => (failure.status(), failure.to_string()),
        }
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn apply(&self, text: &str, confirm_seconds: Option<u32>, at: u32) -> Result<u64, String> {
        let (file, folder) = ("second.toml".to_owned(), Some(self.folder.path().to_owned()));
        let new = NewPolicy { file, folder, text: text.to_owned(), confirm_seconds };
        let done = self.daemon.apply(&new, self.at(at), &"a test".into());
        done.map(|applied| applied.generation).map_err(|refused| refused.to_string())
    }

    fn rows(&self) -> Vec<String> {
        self.plane.inside().rows.clone()
    }
}

fn flow(source: &str, destination_port: u16, rule: &str) -> Flow {
    Flow {
        protocol: "tcp".to_owned(),
        source: source.parse().unwrap(),
        source_port: 40_000,
        destination: "192.0.2.7".parse().unwrap(),
        destination_port,
        source_alias: None,
        destination_alias: None,
        from: "in".to_owned(),
        to: "out".to_owned(),
        rule: Some(rule.to_owned()),
        state: "established".to_owned(),
        idle_seconds: 3,
        expires_seconds: 7_437,
        packets_out: 5,
        bytes_out: 1_234,
        packets_back: 4,
        bytes_back: 56_789,
    }
}

fn filled(running: &Running) {
    let mut inside = running.plane.inside();
    inside.hits = [("web".to_owned(), 1_234_567)].into();
    inside.limited = [("web".to_owned(), 4_321)].into();
    inside.flows = [
        (1, flow("10.0.0.1", 443, "web")),
        (2, flow("10.0.0.2", 80, "web")),
        (3, flow("10.1.0.1", 22, "lessons")),
    ]
    .into();
    let drop = |number, reason: &str, packets| Dropped {
        number,
        reason: reason.to_owned(),
        explanation: "what it means".to_owned(),
        packets,
        alarming: number == 9,
    };
    let count =
        |name: &str, count| Counter { name: name.to_owned(), explanation: "what it is".to_owned(), count };
    inside.suppressed = 7;
    inside.recorded = [details("web"), refused(), closed()]
        .map(|details| (Duration::from_secs(5), Recorded::Event(details)))
        .into();
    let station = |vlan, home: &str, claimed, seen_seconds| Station {
        bridge: "office".to_owned(),
        vlan,
        address: format!("02:00:5e:10:00:{seen_seconds:02x}"),
        interface: "e1".to_owned(),
        home: home.to_owned(),
        claimed,
        moved_seconds: 125,
        seen_seconds,
    };
    inside.stations =
        vec![station(None, "e1", false, 1), station(None, "e2", false, 2), station(Some(20), "e1", true, 3)];
    inside.counters = vec![count("forwarded", 1_000), count("nothing", 0)];
    inside.drops = vec![drop(3, "land", 0), drop(7, "rule", 2), drop(9, "out-of-window", 40)];
}
