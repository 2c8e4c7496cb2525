//! Attacks on `rampart-bench agent` and on who leads it, on real hosts and over a real server: earlier messages that somebody plays again, a second
//! leader, an agent with another key, and an agent with the key that says more than its host saw.

use super::agents::{Hosts, SERVER, until};
use super::{shown, suite, turn};
use agents::{Address, Agent, Answer, Course, Host, Key, Leader, Order, Outcome, Progress, Session, Trial};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;
use testkit::namespace::Namespace;
use traffic::Partner as _;

/// A subject of the server with a message.
type Message = (String, Vec<u8>);

/// Somebody at the server who has no key, and speaks with it as its protocol says (<https://docs.nats.io/reference/reference-protocols/nats-protocol>).
struct Stranger(BufReader<TcpStream>);

impl Stranger {
    fn connect(at: &Namespace) -> Self {
        let stream = at.enter(|| TcpStream::connect(SERVER).unwrap());
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut stranger = Self(BufReader::new(stream));
        stranger.send(b"CONNECT {\"verbose\":false}\r\n");
        stranger
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    /// The next line, if there is one yet.
    fn line(&mut self, line: &mut String) -> bool {
        match self.0.read_line(line) {
            Ok(count) => count > 0 && line.ends_with('\n'),
            Err(_) => false,
        }
    }

    /// All messages between leader and agents until it is enough.
    fn listen(mut self, enough: &AtomicBool) -> Vec<Message> {
        self.send(b"SUB rampart-bench.> 1\r\n");
        let (mut heard, mut line) = (Vec::new(), String::new());
        while !enough.load(Ordering::Relaxed) {
            if !self.line(&mut line) {
                continue;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.first() == Some(&"MSG") {
                let length: usize = words.last().unwrap().parse().unwrap();
                let mut bytes = vec![0; length + 2];
                let mut read = 0;
                while read < bytes.len() {
                    read += self.0.read(&mut bytes[read..]).unwrap_or(0);
                }
                bytes.truncate(length);
                heard.push((words[1].to_owned(), bytes));
            } else if words.first() == Some(&"PING") {
                self.send(b"PONG\r\n");
            }
            line.clear();
        }
        heard
    }

    /// Sends messages, and returns when the server has them.
    fn play(&mut self, messages: &[Message]) {
        for (subject, bytes) in messages {
            self.send(format!("PUB {subject} _INBOX.nobody {}\r\n", bytes.len()).as_bytes());
            self.send(bytes);
            self.send(b"\r\n");
        }
        self.send(b"PING\r\n");
        let mut line = String::new();
        while !line.contains("PONG") {
            line.clear();
            self.line(&mut line);
        }
    }
}

#[test]
fn earlier_messages_and_other_leaders_change_nothing() {
    let _turn = turn();
    let hosts = Hosts::new();
    let agents = [hosts.agent(0), hosts.agent(1)];
    let quick = suite(hosts.folder.path(), &["linux"], 0.2, "procedure = \"latency\"\nloads = [2000]");

    // A whole run, heard by somebody at the server.
    let enough = AtomicBool::new(false);
    let stranger = Stranger::connect(&hosts.hub);
    let heard = std::thread::scope(|scope| {
        let listening = scope.spawn(|| stranger.listen(&enough));
        let run = {
            let _ending = Ending(&enough);
            hosts.run(&quick, "heard", "bench.key", &[])
        };
        assert!(matches!(run.status.code(), Some(0 | 3)), "{}", shown(&run));
        listening.join().unwrap()
    });
    let to = |name: &str| heard.iter().filter(|(subject, _)| subject.ends_with(name)).count();
    assert!(to("agent.left") > 10 && to("agent.right") > 10 && to("clock.left") > 10, "{}", heard.len());
    let at_rest = || (0..2).all(|place| hosts.is_at_rest(place));
    until("the agents are at rest", at_rest);
    let sessions = || agents.each_ref().map(|agent| agent.count("works for"));
    let before = sessions();
    assert_eq!(before, [1, 1]);

    // Played again while nobody leads: nobody works for it, and nothing is taken.
    let mut player = Stranger::connect(&hosts.hub);
    player.play(&heard);
    until("the agents say that they ignore it", || agents.iter().all(|agent| agent.says("ignored")));
    assert_eq!(sessions(), before);
    assert!(at_rest());

    // Played again in the middle of a trial, beside a leader who may lead: both change nothing of the run that goes on.
    let long = suite(hosts.folder.path(), &["linux"], 6.0, "procedure = \"latency\"\nloads = [2000]");
    let leader = hosts.lead(&long, "long", "bench.key", &[]).spawn().unwrap();
    let forwarded = hosts.forwarded();
    until("the trial is under way", || hosts.forwarded() > forwarded + 200);
    player.play(&heard);
    let second = hosts.run(&quick, "second", "bench.key", &[]);
    assert_eq!(second.status.code(), Some(3), "{}", shown(&second));
    assert!(shown(&second).contains("works for") && shown(&second).contains("already"), "{}", shown(&second));
    let other_key = hosts.run(&quick, "other", "other.key", &[]);
    assert_eq!(other_key.status.code(), Some(3), "{}", shown(&other_key));
    let output = leader.wait_with_output().unwrap();
    assert_eq!(sessions(), [2, 2]);
    let results = report::load(&hosts.folder.path().join("long"))
        .unwrap_or_else(|why| panic!("{why} {}", shown(&output)));
    // What a busy machine does to a value is not asked here.
    let said: Vec<&str> =
        results.readings().flat_map(|point| &point.point.marks).map(|mark| mark.text.as_str()).collect();
    assert!(!results.points.is_empty() && said.iter().all(|text| !text.contains("agent")), "{said:?}");
    until("the agents are at rest again", at_rest);
}

/// What the false agent does to what its host saw.
type Lie = fn(&mut Outcome);

static LIE: Mutex<Option<Lie>> = Mutex::new(None);
/// The server and the key, for sessions of the false agent.
static REACHED_BY: OnceLock<(Address, PathBuf)> = OnceLock::new();

/// An agent with the key that has a true one work for it, and lies about what came of it.
struct FalseHost {
    leader: Leader,
    session: Option<Session>,
}

impl FalseHost {
    fn boxed() -> Box<dyn Host> {
        let (address, key) = REACHED_BY.get().unwrap();
        let leader = Leader::connect(address, Key::read(key).unwrap(), "the false agent").unwrap();
        Box::new(Self { leader, session: None })
    }

    fn order(&self, order: &Order) -> Result<Answer, String> {
        self.leader.order(self.session.as_ref().unwrap(), order).map_err(|why| why.to_string())
    }

    /// Looks at the true agent until something is so.
    fn until(&self, done: impl Fn(&Progress) -> bool) -> Result<Progress, String> {
        loop {
            match self.order(&Order::Look)? {
                Answer::UnderWay(progress) if done(&progress) => return Ok(progress),
                Answer::UnderWay(_) => std::thread::sleep(Duration::from_millis(5)),
                other => return Err(format!("the true agent says {other:?}")),
            }
        }
    }
}

impl Host for FalseHost {
    fn obey(&mut self, order: Order) -> Result<Answer, String> {
        if matches!(order, Order::Take { .. }) {
            self.session = Some(self.leader.greet("true").map_err(|why| why.to_string())?);
        }
        self.order(&order)
    }

    fn run(&mut self, trial: &Trial, _seed: u64, mut course: &Course) -> Result<Outcome, String> {
        self.order(&Order::Prepare(Box::new(trial.clone())))?;
        self.until(|progress| progress.ready)?;
        let start_ns = course.start().map_err(|why| why.to_string())?;
        self.order(&Order::Begin(start_ns.unwrap()))?;
        let sent = self.until(|progress| progress.sent.is_some())?.sent.unwrap();
        let expected = loop {
            match course.expected(sent) {
                Some(expected) => break expected,
                None if course.is_stopped() => return Err("stopped".to_owned()),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        self.order(&Order::Expect(expected))?;
        loop {
            match self.order(&Order::Look)? {
                Answer::Ended(mut outcome) => {
                    if let Some(lie) = *LIE.lock().unwrap() {
                        lie(&mut outcome);
                    }
                    return Ok(*outcome);
                }
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

impl Drop for FalseHost {
    fn drop(&mut self) {
        if self.session.is_some() {
            let _ = self.order(&Order::Leave);
        }
    }
}

/// More than arrived, in the sums and in the course of the trial.
fn received_more(outcome: &mut Outcome) {
    outcome.part.reading.streams[0].received += 1_000;
    outcome.part.sightings.last_mut().unwrap().received += 1_000;
}

/// Ends the false agent, also when the test fails.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn an_agent_that_says_more_than_it_saw_has_no_value() {
    let _turn = turn();
    let hosts = Hosts::new();
    let _left = hosts.agent(0);
    let _true = hosts.agent_named(1, "true");
    let address = Address { url: format!("nats://{SERVER}"), ca_file: None, user: None };
    REACHED_BY.set((address.clone(), hosts.folder.path().join("bench.key"))).unwrap();
    let ends = AtomicBool::new(false);
    let quick = suite(hosts.folder.path(), &["linux"], 0.2, "procedure = \"latency\"\nloads = [2000]");
    std::thread::scope(|scope| {
        let false_agent = || {
            hosts.hosts[1].within(|| {
                let agent = Agent {
                    name: "right",
                    key: Key::read(&hosts.folder.path().join("bench.key")).unwrap(),
                    host: FalseHost::boxed,
                    say: &|_| (),
                    ends: &|| ends.load(Ordering::Relaxed),
                };
                agent.run(&address).unwrap();
            });
        };
        scope.spawn(false_agent);
        let _ending = Ending(&ends);
        let rows: [(&str, Option<Lie>, &str); 5] = [
            ("the truth", None, ""),
            ("more than were sent", Some(received_more), "unaccounted for"),
            (
                "more than it looked at",
                Some(|outcome| outcome.part.reading.streams[0].received += 1_000),
                "agent right cannot be believed: what it saw in the course of the trial",
            ),
            (
                "frames that begin at the other host",
                Some(|outcome| outcome.part.reading.streams[0].sent = 7),
                "agent right cannot be believed: it sent 7 frames that begin at the other host",
            ),
            (
                "a time that was not",
                Some(|outcome| outcome.part.seconds = 1e9),
                "agent right cannot be believed: it sent for",
            ),
        ];
        for (name, lie, said) in rows {
            *LIE.lock().unwrap() = lie;
            let run = || hosts.run(&quick, name, "bench.key", &[]);
            let mut output = run();
            // The false agent may not be at the server yet.
            while shown(&output).contains("no agent of this name") {
                output = run();
            }
            let results = report::load(&hosts.folder.path().join(name));
            let results = results.unwrap_or_else(|why| panic!("{name}: {why} {}", shown(&output)));
            let marks: Vec<&str> = results
                .readings()
                .flat_map(|point| &point.point.marks)
                .map(|mark| mark.text.as_str())
                .collect();
            if said.is_empty() {
                assert!(marks.iter().all(|text| !text.contains("believed")), "{name}: {marks:?}");
            } else {
                assert!(results.points.iter().all(|point| !point.valid), "{name}: {marks:?}");
                assert!(marks.iter().any(|text| text.contains(said)), "{name}: {marks:?}");
            }
        }
    });
}
