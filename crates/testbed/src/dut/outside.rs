//! A driver that is a program outside the tree, in any language: `--dut program:/path/to/driver`. The bench asks it line by line, in
//! JSON, over its standard input, and it answers over its standard output; docs/guide/your-own-firewall.md has every message. Each
//! question has a time limit, and a program that passes one, or answers something else, is ended with all that it started.

use super::external::{checked_name, look_alike};
use super::kernel::{BOTH, check_links};
use super::zones::Zones;
use super::{Capabilities, Driver, Replaced, Requirement, Running, admit, check_replacement};
use crate::bed::{Bed, FirewallSide};
use crate::error::TestbedError;
use crate::guest::start_recorded;
use crate::journal::Journal;
use crate::layout::{ATTACKERS_V4, ATTACKERS_V6, WORLD_V4, WORLD_V6};
use crate::netns::{Namespace, end_processes};
use crate::origin::Origin;
use crate::policy::{Action, PolicySpec, Protocol};
use measure::shape::IpVersion;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use toml_reader::printable;

/// The protocol that this bench speaks.
const PROTOCOL: u64 = 1;
/// No answer is longer; a program that writes more without a line's end speaks something else.
const LONGEST_ANSWER: u64 = 1 << 20;
/// Longest wait for what a program that has ended wrote to its standard error.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// What of its standard error is kept.
const KEPT_ERRORS: usize = 4096;
/// Bytes of a version.
const LONGEST_VERSION: usize = 200;
/// Counters of one firewall; those in the tree have four.
const MOST_COUNTERS: usize = 100;
/// A firewall that drops a thousand million frames a second counts no more in eleven days.
const MOST_COUNTED: u64 = 1_000_000_000_000_000;
/// How long a program may take to end after it was asked to.
const TO_END: Duration = Duration::from_secs(5);

/// How long each question may take, in seconds.
const fn seconds_for(question: &str) -> u64 {
    match question.as_bytes() {
        b"set-up" | b"reset" => 30,
        b"load" => 120,
        _ => 5,
    }
}

/// A driver outside the tree that has said who it is.
pub struct Program {
    path: PathBuf,
    name: &'static str,
    summary: &'static str,
    hello: Hello,
    capabilities: Capabilities,
}

/// What a program answers to `hello`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Hello {
    protocol: u64,
    name: String,
    version: String,
    can: Vec<String>,
}

impl Hello {
    fn check(&self) -> Result<(), String> {
        if self.protocol != PROTOCOL {
            return Err(format!(
                "it speaks version {} of the protocol, and this bench speaks {PROTOCOL}",
                self.protocol
            ));
        }
        let version = &self.version;
        if version.trim().is_empty() || version.len() > LONGEST_VERSION || printable(version) != *version {
            return Err(format!(
                "its version has not 1 to {LONGEST_VERSION} bytes in one line, so no report could show it: {:?}",
                version.chars().take(80).collect::<String>()
            ));
        }
        Ok(())
    }
}

/// What a program answers to `counters`.
#[derive(Debug, Deserialize)]
struct Counters {
    drops: BTreeMap<String, u64>,
    flows: Option<u64>,
}

impl Counters {
    /// Why this cannot be what a firewall counted, after it said `before`: no link brings so many frames, and counters only grow.
    fn wrong(&self, before: &BTreeMap<String, u64>) -> Option<String> {
        if self.drops.len() > MOST_COUNTERS {
            return Some(format!(
                "it has {} counters, and at most {MOST_COUNTERS} can be shown",
                self.drops.len()
            ));
        }
        if let Some(why) = self.drops.keys().find_map(|name| checked_name(name).err()) {
            return Some(format!("of a counter, {why}"));
        }
        let impossible = self.drops.iter().find(|(_, count)| **count > MOST_COUNTED);
        if let Some((name, count)) = impossible {
            return Some(format!(
                "its counter {name} is {count}, and no firewall has dropped so many frames"
            ));
        }
        before.iter().find_map(|(name, then)| match self.drops.get(name) {
            Some(now) if now >= then => None,
            Some(now) => Some(format!(
                "its counter {name} went back from {then} to {now}: counters of drops only grow"
            )),
            None => {
                Some(format!("its counter {name}, which was {then}, is gone: counters of drops only grow"))
            }
        })
    }
}

impl Program {
    /// Starts a program and asks who it is.
    ///
    /// # Errors
    /// [`TestbedError::Impossible`] names the program: it cannot be started, does not answer in time, or speaks another protocol.
    pub fn ask(path: &Path) -> Result<Self, TestbedError> {
        let path = executable(path)?;
        let mut talk = Talk::start(&path, &Namespace::current()?)?;
        let hello: Hello = talk.read("hello", json!({ "protocol": PROTOCOL }))?;
        hello.check().map_err(|why| talk.wrong(&why))?;
        let capabilities = capabilities(&hello.can).map_err(|why| talk.wrong(&why))?;
        let name = checked_name(&hello.name).map_err(|why| talk.wrong(&why))?;
        if look_alike(name, super::external::NAME) {
            return Err(talk.wrong(&format!("its name is {name}, which is that of a box between --ports")));
        }
        talk.end();
        let summary = format!("{name} {}, driven by {}", hello.version, path.display());
        // Names of firewalls live as long as this program.
        let (name, summary) = (name.to_owned().leak(), summary.leak());
        Ok(Self { path, name, summary, hello, capabilities })
    }
}

/// The whole path of a program that can be started.
fn executable(path: &Path) -> Result<PathBuf, TestbedError> {
    let wrong = |why: &str| TestbedError::Impossible(format!("the driver {}: {why}", path.display()));
    if path.as_os_str().is_empty() {
        return Err(TestbedError::Impossible(
            "program: names no file: write program:PATH, as in program:./driver.py".to_owned(),
        ));
    }
    let whole = std::fs::canonicalize(path).map_err(|error| wrong(&error.to_string()))?;
    let facts = std::fs::metadata(&whole).map_err(|error| wrong(&error.to_string()))?;
    if !facts.is_file() {
        return Err(wrong("this is no file: name the program itself"));
    }
    if facts.permissions().mode() & 0o111 == 0 {
        return Err(wrong(&format!("it is not executable: chmod +x {}", path.display())));
    }
    Ok(whole)
}

/// What the words of `can` mean. Lists, country tables and translation are not part of the protocol.
fn capabilities(words: &[String]) -> Result<Capabilities, String> {
    let mut can = Capabilities { ipv6: true, three_zones: false, ..Capabilities::FORWARDING };
    for word in words {
        match word.as_str() {
            "rules" => can.rules = true,
            "stateful" => can.stateful = true,
            "stateless" => can.stateless = true,
            "replace" => can.replacement = true,
            "three-zones" => can.three_zones = true,
            "any-protocol" => can.any_protocol = true,
            other => {
                return Err(format!(
                    "it can «{other}», which this bench does not know: known are rules, stateful, stateless, replace, three-zones, \
                     any-protocol"
                ));
            }
        }
    }
    Ok(can)
}

impl Driver for Program {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn requirements(&self) -> &'static [Requirement] {
        &[]
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn versions(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(self.name.to_owned(), self.hello.version.clone())])
    }

    fn hands_on_later(&self) -> bool {
        true
    }

    fn set_up(&self, bed: &Bed, policy: &PolicySpec) -> Result<Box<dyn Running>, TestbedError> {
        admit(self, policy)?;
        let side = bed.firewall_side(self.name)?;
        let zones = Zones::note(bed)?;
        let mut talk = Talk::start(&self.path, &side.namespace)?;
        talk.bed = Some(side.namespace.name().to_owned());
        talk.origin.stands_in(side.namespace.name());
        let hello: Hello = talk.read("hello", json!({ "protocol": PROTOCOL }))?;
        if hello != self.hello {
            return Err(talk.wrong(&format!(
                "it is not what it said before the run: {} {} that can {:?}, and then {} {} that can {:?}",
                self.hello.name, self.hello.version, self.hello.can, hello.name, hello.version, hello.can
            )));
        }
        talk.ask("set-up", place(&side, &bed.spec().cores.firewall))?;
        let load_seconds = load(&mut talk, policy)?;
        side.place()?;
        let counted = Mutex::default();
        Ok(Box::new(Driven {
            talk: Mutex::new(talk),
            side,
            zones,
            policy: policy.clone(),
            load_seconds,
            counted,
        }))
    }
}

struct Driven {
    talk: Mutex<Talk>,
    side: FirewallSide,
    zones: Zones,
    policy: PolicySpec,
    load_seconds: f64,
    /// What its counters were last.
    counted: Mutex<BTreeMap<String, u64>>,
}

impl Driven {
    fn read_counters(&self) -> Result<Counters, TestbedError> {
        let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
        let counters: Counters = talk.read("counters", json!({}))?;
        let mut before = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = counters.wrong(&before) {
            return Err(talk.wrong(&why));
        }
        before.clone_from(&counters.drops);
        Ok(counters)
    }

    fn ask<T: for<'a> Deserialize<'a>>(&self, question: &'static str) -> Result<T, TestbedError> {
        self.talk.lock().unwrap_or_else(PoisonError::into_inner).read(question, json!({}))
    }
}

impl Running for Driven {
    fn counters(&self) -> Result<BTreeMap<String, u64>, TestbedError> {
        Ok(self.read_counters()?.drops)
    }

    fn flow_entries(&self) -> Result<Option<u64>, TestbedError> {
        Ok(self.read_counters()?.flows)
    }

    fn policy_load_seconds(&self) -> Option<f64> {
        Some(self.load_seconds)
    }

    fn replace(&mut self, policy: &PolicySpec) -> Result<Replaced, TestbedError> {
        check_replacement(&self.policy, policy)?;
        let talk = self.talk.get_mut().unwrap_or_else(PoisonError::into_inner);
        let command_seconds = load(talk, policy)?;
        self.counted.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        self.policy = policy.clone();
        Ok(Replaced { command_seconds })
    }

    fn forget_flows(&mut self) -> Result<(), TestbedError> {
        // Its counters may begin anew.
        self.counted.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        self.ask::<Value>("reset").map(drop)
    }

    fn firewall_threads(&self) -> Vec<i32> {
        self.side.threads()
    }

    fn check_alive(&self) -> Result<(), TestbedError> {
        check_links(&self.side, "")?;
        self.zones.check()?;
        self.counters().map(drop)
    }

    /// The program forgets its connections while the links are down.
    fn reset(&mut self) -> Result<(), TestbedError> {
        self.side.links_down()?;
        self.forget_flows()?;
        self.side.links_up()
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        let talk = self.talk.get_mut().unwrap_or_else(PoisonError::into_inner);
        // One that has failed before does not answer any more; it is ended all the same.
        let _ = talk.ask("take-down", json!({}));
        talk.end();
    }
}

fn load(talk: &mut Talk, policy: &PolicySpec) -> Result<f64, TestbedError> {
    let begun = Instant::now();
    talk.ask("load", json!({ "policy": neutral(policy) }))?;
    let seconds = begun.elapsed().as_secs_f64();
    talk.origin.stand_beside();
    Ok(seconds)
}

/// Where the firewall stands: its interfaces, whose addresses, routes and neighbours are set already.
fn place(side: &FirewallSide, cores: &[u32]) -> Value {
    let ports = side.ports.iter().filter_map(|port| {
        let (end, zone) = (port.firewall.as_ref()?, &port.addresses);
        Some(json!({
            "zone": port.zone.name(), "device": end.device, "mac": end.mac.to_string(),
            "address": { "v4": zone.gateway_v4(), "v6": zone.gateway_v6() },
            "network": { "v4": zone.v4.to_string(), "v6": zone.v6.to_string() },
            "next_hop": { "v4": zone.own_v4(), "v6": zone.own_v6(), "mac": port.end.mac.to_string() },
        }))
    });
    json!({
        "namespace": side.namespace.name(), "cores": cores, "ports": ports.collect::<Vec<_>>(),
        "attackers": { "v4": ATTACKERS_V4.to_string(), "v6": ATTACKERS_V6.to_string() },
        "world": { "v4": WORLD_V4.to_string(), "v6": WORLD_V6.to_string() },
    })
}

/// A policy in a form that no firewall speaks.
fn neutral(policy: &PolicySpec) -> Value {
    let rules = policy.rules.iter().map(|rule| {
        let [[s4, d4], [s6, d6]] = BOTH.map(|ip| rule.networks(ip).map(|network| network.to_string()));
        let protocol = match rule.protocol {
            Protocol::Icmp => "icmp",
            Protocol::Any => "any",
            other => other.name(IpVersion::V4),
        };
        json!({
            "action": match rule.action { Action::Accept => "accept", Action::Drop => "drop" },
            "protocol": protocol,
            "source": { "v4": s4, "v6": s6 }, "destination": { "v4": d4, "v6": d6 },
            "source_ports": rule.source_ports, "destination_ports": rule.destination_ports,
        })
    });
    json!({
        "default": if policy.has_rules() { "drop" } else { "accept" },
        "stateful": policy.tracks_connections(), "strict": policy.is_strict(),
        "connections": policy.connections, "rules": rules.collect::<Vec<_>>(),
    })
}

/// A conversation with a program. Dropping it ends the program and what it started.
struct Talk {
    path: PathBuf,
    child: Child,
    questions: Option<Sender<String>>,
    answers: Receiver<std::io::Result<String>>,
    errors: Arc<Mutex<Vec<u8>>>,
    /// Hung up when its standard error has been read to the end.
    errors_end: Receiver<()>,
    asked: u64,
    /// The namespace of a bed, in which only this program and what it started is.
    bed: Option<String>,
    /// Why it was ended before its time.
    ended_because: Option<String>,
    /// What it started is known by this, wherever it is.
    origin: Origin,
    _journal: Journal,
}

impl Talk {
    fn start(path: &Path, namespace: &Namespace) -> Result<Self, TestbedError> {
        let mut journal = Journal::start()?;
        let (mut command, value) = Origin::command(path);
        let mut child = start_recorded(namespace, &mut journal, || {
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.env("LC_ALL", "C").spawn().map_err(|error| {
                TestbedError::Impossible(format!("the driver {} cannot be started: {error}", path.display()))
            })
        })?;
        let origin = Origin::of(&child, value);
        // One answer at a time: a program that talks without being asked waits.
        let (sender, answers) = sync_channel(1);
        if let Some(output) = child.stdout.take() {
            let mut output = BufReader::new(output);
            std::thread::spawn(move || {
                loop {
                    let mut line = String::new();
                    let read = output.by_ref().take(LONGEST_ANSWER).read_line(&mut line);
                    let last = !matches!(read, Ok(bytes) if bytes > 0);
                    if sender.send(read.map(|_| line)).is_err() || last {
                        break;
                    }
                }
            });
        }
        let errors = Arc::new(Mutex::new(Vec::new()));
        let (reading, errors_end) = sync_channel(0);
        if let Some(mut pipe) = child.stderr.take() {
            let kept = Arc::clone(&errors);
            std::thread::spawn(move || {
                let _reading = reading;
                let mut chunk = [0; 1024];
                while let Ok(bytes @ 1..) = pipe.read(&mut chunk) {
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.extend_from_slice(&chunk[..bytes]);
                    let more = kept.len().saturating_sub(KEPT_ERRORS);
                    kept.drain(..more);
                }
            });
        }
        let questions = child.stdin.take().map(written_by_a_thread);
        Ok(Self {
            path: path.to_owned(),
            child,
            questions,
            answers,
            errors,
            errors_end,
            asked: 0,
            bed: None,
            ended_because: None,
            origin,
            _journal: journal,
        })
    }

    /// Asks, and reads the answer as what it must be.
    fn read<T: for<'a> Deserialize<'a>>(
        &mut self,
        question: &'static str,
        with: Value,
    ) -> Result<T, TestbedError> {
        let answer = self.ask(question, with)?;
        serde_json::from_value(answer.clone()).map_err(|error| {
            self.wrong(&format!("its answer to {question} cannot be read: {error}: {answer}"))
        })
    }

    fn ask(&mut self, question: &'static str, mut with: Value) -> Result<Value, TestbedError> {
        self.asked += 1;
        with["do"] = json!(question);
        with["id"] = json!(self.asked);
        let Some(questions) = &self.questions else {
            let why = self.ended_because.clone().unwrap_or_else(|| "it was asked to end".to_owned());
            return Err(self.wrong(&format!("{why} (it was ended then, before it was asked for {question})")));
        };
        // Where nobody writes any more, it has ended, and no answer comes.
        let _ = questions.send(format!("{with}\n"));
        let limit = seconds_for(question);
        // One that has ended may have answered before; if not, the end of its answers says so.
        let answer = match self.answers.recv_timeout(Duration::from_secs(limit)) {
            Ok(Ok(line)) if !line.is_empty() => line,
            Err(RecvTimeoutError::Timeout) => {
                return Err(self.wrong(&format!("it did not answer to {question} within {limit} s")));
            }
            Ok(Err(error)) => {
                return Err(self.wrong(&format!("its answer to {question} cannot be read: {error}")));
            }
            Ok(Ok(_)) | Err(RecvTimeoutError::Disconnected) => {
                return Err(self.wrong(&format!("it ended instead of answering to {question}")));
            }
        };
        let shown: String = answer.trim_end().chars().take(200).collect();
        let Ok(value) = serde_json::from_str::<Value>(&answer) else {
            return Err(self.wrong(&format!(
                "it answered to {question} with something that is not a line of JSON: {shown}"
            )));
        };
        if value["id"] != with["id"] {
            return Err(self.wrong(&format!("it answered to {question} without the question's id: {shown}")));
        }
        match value.get("error") {
            None | Some(Value::Null) => Ok(value),
            Some(error) => Err(self.wrong(&format!("it could not do {question}: {error}"))),
        }
    }

    /// What went wrong, with the program's name and its last words; the program is ended.
    fn wrong(&mut self, why: &str) -> TestbedError {
        self.kill();
        self.ended_because.get_or_insert_with(|| why.to_owned());
        // Its last words may still be in the pipe. Somebody outside its group may hold that open for ever.
        let _ = self.errors_end.recv_timeout(LAST_WORDS);
        let bytes = self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = lines[lines.len().saturating_sub(4)..].join("; ");
        let said = if last.is_empty() { "nothing".to_owned() } else { last };
        let text =
            format!("the driver {}: {why}. On its standard error it said: {said}", self.path.display());
        TestbedError::Impossible(printable(&text))
    }

    /// Lets it end by itself: no more questions come.
    fn end(&mut self) {
        self.questions = None;
        let asked = Instant::now();
        while asked.elapsed() < TO_END && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.kill();
    }

    /// Ends it and all that it started.
    fn kill(&mut self) {
        self.questions = None;
        // The group may be gone.
        let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
        let _ = self.child.wait();
        // What has left the group may still be in the namespace, and is known by where it comes from.
        if let Some(bed) = &self.bed {
            end_processes(bed);
        }
        self.origin.end();
    }
}

/// Where questions are handed in. A thread writes them, until nobody hands in any more or nobody can read them: whoever writes a long
/// one to a program that reads nothing waits for ever, and no time limit would hold.
fn written_by_a_thread(mut pipe: impl Write + Send + 'static) -> Sender<String> {
    let (questions, handed_in) = channel::<String>();
    std::thread::spawn(move || {
        handed_in.iter().try_for_each(|line| pipe.write_all(line.as_bytes()).and_then(|()| pipe.flush()))
    });
    questions
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::shape::{PolicyShape, TestProtocol, ZoneForm};

    #[test]
    fn a_policy_is_written_as_the_guide_says() {
        let shape = PolicyShape {
            rules: 1,
            match_position: 1,
            stateful: true,
            protocol: TestProtocol::Tcp,
            ..PolicyShape::forward_everything(1)
        };
        let policy = neutral(&PolicySpec::generate(&shape, ZoneForm::Two).unwrap());
        let guide = include_str!("../../../../docs/guide/your-own-firewall.md");
        let example = guide.lines().find_map(|line| line.trim().strip_prefix("{\"do\": \"load\"")).unwrap();
        let example: Value = serde_json::from_str(&format!("{{\"do\": \"load\"{example}")).unwrap();
        assert_eq!(example["policy"], policy);
    }

    #[test]
    fn a_long_question_to_a_program_that_reads_nothing_makes_nobody_wait() {
        let (reads_nothing, pipe) = std::io::pipe().unwrap();
        let questions = written_by_a_thread(pipe);
        questions.send("x".repeat(1 << 20)).unwrap();
        drop(reads_nothing);
    }

    /// A driver could otherwise write over the table of results.
    #[test]
    fn what_a_program_says_moves_no_cursor() {
        for (said, shown) in [
            ("nftables v1.0.6, Lester Gooch #5", "nftables v1.0.6, Lester Gooch #5"),
            ("größer «x»", "größer «x»"),
            ("\x1b[2J\x1b[1;1H9 Mpps", "\\u{1b}[2J\\u{1b}[1;1H9 Mpps"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("a\rb\nc", "a\\u{d}b\\u{a}c"),
            ("\u{202e}spm 9", "\\u{202e}spm 9"),
        ] {
            assert_eq!(printable(said), shown);
            let hello =
                Hello { protocol: PROTOCOL, name: "x".to_owned(), version: said.to_owned(), can: Vec::new() };
            assert_eq!(hello.check().is_ok(), said == shown, "{said:?}");
        }
    }

    #[test]
    fn counters_that_no_report_can_show_are_refused() {
        let names =
            |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), 1)).collect::<BTreeMap<_, _>>();
        let many: Vec<String> = (0..101).map(|number| format!("c{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for (drops, said) in [
            (names(&["default_drop", "invalid-drop 2"]), ""),
            (names(&["a\x1b[2K"]), "of a counter, the name"),
            (names(&["| 9 Mpps |"]), "of a counter, the name"),
            (names(&[&"x".repeat(1000)]), "of a counter, the name"),
            (names(&many), "it has 101 counters"),
        ] {
            let found = Counters { drops, flows: None }.wrong(&BTreeMap::new());
            let found = found.unwrap_or_default();
            assert!(if said.is_empty() { found.is_empty() } else { found.starts_with(said) }, "{found}");
        }
    }

    #[test]
    fn what_a_program_can_is_read() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let can = capabilities(&words("rules stateful replace")).unwrap();
        assert!(can.rules && can.stateful && can.replacement && !can.stateless && !can.nat && !can.lists);
        assert!(capabilities(&words("rules fly")).unwrap_err().contains("«fly»"));
    }
}
