//! The daemon over the data plane in memory: through its socket, by the clock, and as a process with signals.

use super::log::Log;
use super::place::Place;
use super::run::Happenings;
use super::{About, Daemon, Moment, server};
use crate::api::{Counter, Drop as Dropped, NewPolicy, Session, description};
use crate::cli::{Cli, Command};
use crate::http::{read_response, write_request};
use crate::memory::Memory;
use crate::plane::Hook;
use clap::Parser as _;
use jiff::{SignedDuration, Timestamp};
use policy::Policy;
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

/// A daemon on a socket in a folder of its own.
struct Running {
    folder: TempDir,
    place: Place,
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
        let folder = tempfile::tempdir().unwrap();
        let place = Place::of(folder.path(), "test", 1, None);
        let (plane, log) = (Memory::default(), Kept::default());
        let start = Moment { wall: at.parse().unwrap(), ..Moment::now() };
        let about = About { pid: 4711, namespace: "test".to_owned(), since: start.wall };
        let policy = Policy::parse("first.toml", policy).unwrap();
        let events = Log::new(false, Box::new(log.clone()));
        let daemon = Daemon::start(about, events, policy, Box::new(plane.clone()), Hook::Auto).unwrap();
        let daemon = Arc::new(daemon);
        // Nobody listens: the process of a test does not end when its daemon goes down.
        server::serve(place.listen().unwrap(), Arc::clone(&daemon), Happenings::new().0);
        Self { folder, place, daemon, plane, log, start }
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
        let mut stream = UnixStream::connect(&self.place.socket).unwrap();
        write_request(&mut stream, method, target, body.as_bytes()).unwrap();
        let response = read_response(&mut stream).unwrap();
        (response.status, serde_json::from_slice(&response.body).unwrap())
    }

    /// A command as a user types it: its exit status, and what it prints.
    fn command(&self, words: &str) -> (u8, String) {
        let socket = self.place.socket.display().to_string();
        let words = std::iter::once("rampart").chain(words.split_whitespace()).chain(["--socket", &socket]);
        let cli = Cli::try_parse_from(words).unwrap();
        let mut out = Vec::new();
        let done = match &cli.command {
            Command::Top(args) => crate::ask::top::top(args, cli.json, &mut out).map(|()| String::new()),
            Command::Apply(args) => crate::ask::apply(args, cli.json),
            Command::Confirm(args) => crate::ask::confirm(args, cli.json),
            Command::Status(args) => crate::ask::status(args, cli.json),
            Command::Rules(args) => crate::ask::rules(args, cli.json),
            Command::Sessions(args) => crate::ask::sessions(args, cli.json),
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
        let new = NewPolicy { file: "second.toml".to_owned(), text: text.to_owned(), confirm_seconds };
        let done = self.daemon.apply(&new, self.at(at), "a test");
        done.map(|applied| applied.generation).map_err(|refused| refused.to_string())
    }

    fn rows(&self) -> Vec<String> {
        self.plane.inside().rows.clone()
    }
}

fn session(source: &str, destination_port: u16, rule: &str) -> Session {
    Session {
        protocol: "tcp".to_owned(),
        source: source.parse().unwrap(),
        source_port: 40_000,
        destination: "192.0.2.7".parse().unwrap(),
        destination_port,
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
    inside.sessions = [
        (1, session("10.0.0.1", 443, "web")),
        (2, session("10.0.0.2", 80, "web")),
        (3, session("10.1.0.1", 22, "lessons")),
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
    inside.counters = vec![count("forwarded", 1_000), count("nothing", 0)];
    inside.drops = vec![drop(3, "land", 0), drop(7, "rule", 2), drop(9, "out-of-window", 40)];
}

/// A body for `PUT /v1/policy`.
fn body(text: &str) -> String {
    json!({ "file": "second.toml", "text": text }).to_string()
}

#[test]
fn requests_over_the_socket_get_the_status_and_the_body_they_should() {
    let running = Running::new();
    filled(&running);
    let changed = format!("{ZONES}{}", rule("web", "service = 'https'"));
    let logging = format!("{ZONES}{}", rule("web", "log = true"));
    let other_zones = usual().replace("'e1'", "'e7'");
    let other_size = format!("[settings]\nflows = 2048\n{}", usual());
    let misspelt = usual().replace("'http'", "'htpp'");
    let rows: Vec<(&str, &str, String, u16, &str, Value)> = vec![
        ("GET", "/v1/status", String::new(), 200, "/interfaces/2/zone", json!("out")),
        ("GET", "/v1/status", String::new(), 200, "/sessions/open", json!(3)),
        ("GET", "/v1/status", String::new(), 200, "/policy/next_change", json!("2026-11-20T18:00:00Z")),
        ("GET", "/v1/rules", String::new(), 200, "/rules/0/hits", json!(1_234_567)),
        ("GET", "/v1/rules", String::new(), 200, "/rules/1/schedule", json!("day")),
        ("GET", "/v1/drops", String::new(), 200, "/drops/0/reason", json!("out-of-window")),
        ("GET", "/v1/drops", String::new(), 200, "/drops/2", Value::Null),
        ("GET", "/v1/sessions", String::new(), 200, "/matched", json!(3)),
        ("GET", "/v1/sessions?limit=1", String::new(), 200, "/sessions/1", Value::Null),
        ("GET", "/v1/sessions?src=10.0.0.0%2F24&dport=443", String::new(), 200, "/matched", json!(1)),
        (
            "GET",
            "/v1/sessions?port=443",
            String::new(),
            400,
            "/error",
            json!(
                "there is no filter `port`; there are: src, dst, host, proto, sport, dport, rule, from, to, zone, state"
            ),
        ),
        (
            "GET",
            "/v1/sessions?limit=many",
            String::new(),
            400,
            "/error",
            json!("limit=many: limit takes a number of sessions"),
        ),
        (
            "DELETE",
            "/v1/sessions",
            String::new(),
            400,
            "/error",
            json!("this would end every session: name a filter, or all=true if that is meant"),
        ),
        (
            "DELETE",
            "/v1/sessions?limit=1",
            String::new(),
            400,
            "/error",
            json!(
                "there is no filter `limit`; there are: src, dst, host, proto, sport, dport, rule, from, to, zone, state"
            ),
        ),
        ("GET", "/v1/status?src=::1", String::new(), 400, "/error", json!("/v1/status takes no `src`")),
        ("DELETE", "/v1/sessions?rule=lessons", String::new(), 200, "/killed", json!(1)),
        ("DELETE", "/v1/sessions?rule=lessons", String::new(), 200, "/killed", json!(0)),
        (
            "POST",
            "/v1/sessions",
            String::new(),
            405,
            "/error",
            json!("/v1/sessions takes GET, DELETE, not POST"),
        ),
        (
            "GET",
            "/v1/nothing",
            String::new(),
            404,
            "/error",
            json!("there is no /v1/nothing: docs/schema/rampart-api.json tells what there is"),
        ),
        (
            "PUT",
            "/v1/policy",
            "{".to_owned(),
            400,
            "/error",
            json!("the body is no policy to apply: EOF while parsing an object at line 1 column 1"),
        ),
        (
            "PUT",
            "/v1/policy",
            json!({ "file": "x", "text": "", "confirm_seconds": 0 }).to_string(),
            400,
            "/error",
            json!("confirm_seconds: 1 to 86400, or leave it out"),
        ),
        ("PUT", "/v1/policy", body(&misspelt), 422, "/problems/0/line", json!(12)),
        (
            "PUT",
            "/v1/policy",
            body(&logging),
            422,
            "/problems/0/message",
            json!("the rule `web`: this data plane cannot log"),
        ),
        ("PUT", "/v1/policy", body(&logging), 422, "/problems/0/line", json!(8)),
        ("PUT", "/v1/policy", body(&logging), 422, "/problems/0/column", json!(8)),
        (
            "PUT",
            "/v1/policy",
            body(&other_zones),
            409,
            "/error",
            json!(
                "second.toml: the zones, their order or their interfaces are different, which a running firewall cannot take over: `rampart down`, then `rampart up second.toml` (sessions are lost)"
            ),
        ),
        (
            "PUT",
            "/v1/policy",
            body(&other_size),
            409,
            "/error",
            json!(
                "second.toml: `flows` or `half_open` of [settings] is different, which a running firewall cannot take over: `rampart down`, then `rampart up second.toml` (sessions are lost)"
            ),
        ),
        ("GET", "/v1/status", String::new(), 200, "/policy/generation", json!(1)),
        (
            "PUT",
            "/v1/policy",
            body(&changed),
            200,
            "/changes",
            json!({
                "added": [], "removed": ["lessons"], "changed": [{ "name": "web", "keys": ["service"] }],
                "reordered": false, "defaults": false, "settings": false,
            }),
        ),
        ("GET", "/v1/status", String::new(), 200, "/policy/file", json!("second.toml")),
        (
            "POST",
            "/v1/policy/confirm",
            String::new(),
            409,
            "/error",
            json!(
                "no policy waits to be confirmed: it was applied without --confirm, or has gone back already"
            ),
        ),
        ("POST", "/v1/down", String::new(), 200, "/detached", json!(["e1", "e0", "e2"])),
        ("POST", "/v1/down", String::new(), 503, "/error", json!("the firewall is being taken down")),
        ("GET", "/v1/status", String::new(), 503, "/error", json!("the firewall is being taken down")),
    ];
    let document = description();
    for (method, target, body, status, pointer, expected) in rows {
        let (found, answer) = running.ask(method, target, &body);
        assert_eq!(found, status, "{method} {target}: {answer}");
        assert_eq!(answer.pointer(pointer).unwrap_or(&Value::Null), &expected, "{method} {target}: {answer}");
        holds_to(&document, method, target, status, &answer);
    }
    assert!(running.plane.inside().attached.is_empty());
}

/// An answer is what the OpenAPI description says.
fn holds_to(document: &Value, method: &str, target: &str, status: u16, answer: &Value) {
    let path = target.split('?').next().unwrap_or_default().replace('/', "~1");
    let pointer = format!(
        "/paths/{path}/{}/responses/{status}/content/application~1json/schema",
        method.to_lowercase()
    );
    let Some(schema) = document.pointer(&pointer) else {
        assert!(matches!(status, 404 | 405), "{method} {target} {status} is not described");
        return;
    };
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let faults: Vec<String> = validator.iter_errors(answer).map(|e| e.to_string()).collect();
    assert!(faults.is_empty(), "{method} {target}: {faults:?}");
}

#[test]
fn commands_say_what_they_should_and_end_as_they_should() {
    let running = Running::new();
    filled(&running);
    let wider = running.file("wider.toml", &format!("{}{}", usual(), rule("mail", "service = 'smtp'")));
    let wrong = running.file("wrong.toml", &usual().replace("'http'", "'htpp'"));
    let logging = running.file("logging.toml", &format!("{ZONES}{}", rule("web", "log = true")));
    let rows: Vec<(String, u8, Vec<String>)> = vec![
        (
            "status".into(),
            0,
            vec![
                "process 4711, namespace test, up since 2026-11-20T10:00:00Z".into(),
                "policy     first.toml: 2 rules, generation 1, applied at 2026-11-20T10:00:00Z".into(),
                "a schedule begins or ends at 2026-11-20T18:00:00Z".into(),
                "interface  e1: zone in, tc\n".into(),
                "sessions   3 of 1,048,576, 0 of them half-open\n".into(),
                "counted    1,000  forwarded  what it is\n".into(),
            ],
        ),
        (
            "rules".into(),
            0,
            vec!["     hits  rule     action  from  to   source  destination  service\n1,234,567  web      allow   in    out  any     any          http, https\n".into()],
        ),
        (
            "sessions dport=443".into(),
            0,
            vec!["tcp       10.0.0.1:40000  192.0.2.7:443  in > out  web   established    3s   2h3min        5  1,234     4  56,789\n1 sessions\n".into()],
        ),
        ("sessions dport=9".into(), 0, vec!["0 sessions\n".into()]),
        ("sessions --limit 1".into(), 0, vec!["3 sessions, 2 of them not shown: --all".into()]),
        ("sessions --all".into(), 0, vec!["\n3 sessions\n".into()]),
        ("sessions 443".into(), 2, vec!["rampart: `443` is no filter: write KEY=VALUE".into()]),
        ("sessions --kill".into(), 2, vec!["ends every session: name a filter, or add --all".into()]),
        ("sessions --kill src=10.1.0.0/16".into(), 0, vec!["1 sessions ended\n".into()]),
        ("sessions --kill --all --json".into(), 0, vec!["{\n  \"killed\": 2\n}\n".into()]),
        (
            "drops".into(),
            0,
            vec!["packets  no.  reason\n     40    9  out-of-window  what it means\n      2    7  rule           what it means\n".into()],
        ),
        ("drops --json".into(), 0, vec!["\"number\": 9".into()]),
        ("top --once --interval 0.1".into(), 0, vec!["generation 1: 0 sessions (+0/s)".into(), "0 half-open, 1,048,576 fit\n".into(), "nothing happened".into()]),
        ("top --once --interval 0.1 --json".into(), 0, vec!["\"rules\": []".into()]),
        (format!("apply {wrong}"), 2, vec![format!("{wrong}:12:12: there is no service `htpp`"), "did you mean `http`".into(), "\n1 error".into()]),
        (format!("apply {logging}"), 2, vec![format!("{logging}:8:8: the rule `web`: this data plane cannot log\n  take `log` out\n1 error")]),
        ("apply /nonexistent.toml".into(), 2, vec!["rampart: cannot read /nonexistent.toml".into()]),
        (format!("apply {wider}"), 0, vec![format!("{wider} is in force as generation 2, 3 rules\n+ mail\n")]),
        (format!("apply {wider}"), 0, vec!["nothing is different\n".into()]),
        ("confirm".into(), 2, vec!["rampart: no policy waits to be confirmed".into()]),
        (format!("apply {wider} --confirm 60"), 0, vec!["unless `rampart confirm` comes\n".into()]),
        ("status".into(), 0, vec!["goes back to the policy before it at ".into()]),
        ("confirm --json".into(), 0, vec!["\"generation\": 4".into()]),
    ];
    for (words, status, expected) in rows {
        let (found, text) = running.command(&words);
        assert_eq!(found, status, "{words}: {text}");
        for expected in expected {
            assert!(text.contains(&expected), "{words}: {expected:?} in\n{text}");
        }
    }
}

#[test]
fn a_machine_that_fails_is_told_as_such() {
    let running = Running::new();
    running.plane.inside().broken = Some("the kernel is tired: let it rest".to_owned());
    for words in ["status", "rules", "sessions", "drops", "top --once"] {
        let expected = (3, "rampart: the kernel is tired: let it rest".to_owned());
        assert_eq!(running.command(words), expected, "{words}");
    }
    running.daemon.tick(running.at(1));
    running.daemon.tick(running.at(2));
    assert_eq!(
        running.log().matches("trouble: the kernel is tired: let it rest").count(),
        1,
        "{}",
        running.log()
    );
    running.plane.inside().broken = None;
    assert!(running.ask("GET", "/v1/status", "").1["troubles"][0].is_string());
    running.daemon.tick(running.at(3));
    assert_eq!(running.ask("GET", "/v1/status", "").1["troubles"], json!([]));
}

#[test]
fn what_is_alarming_is_told_once_and_shown_as_long_as_it_stands() {
    let running = Running::new();
    filled(&running);
    running.plane.inside().faults = vec!["the interface `e1` is gone".to_owned()];
    running.daemon.tick(running.at(1));
    running.daemon.tick(running.at(2));
    let expected = ["the interface `e1` is gone", "packets are dropped, out-of-window: what it means"];
    for trouble in expected {
        assert_eq!(running.log().matches(&format!("trouble: {trouble}")).count(), 1, "{}", running.log());
    }
    assert_eq!(running.ask("GET", "/v1/status", "").1["troubles"], json!(expected));
    assert!(running.command("status").1.contains("trouble    the interface `e1` is gone\n"));
    running.plane.inside().faults.clear();
    running.daemon.tick(running.at(62));
    assert_eq!(running.ask("GET", "/v1/status", "").1["troubles"], json!([]));
}

#[test]
fn whatever_a_client_sends_it_goes_on_answering() {
    let running = Running::new();
    for bytes in [
        "",
        "\0\0\0\0",
        "GET\r\n\r\n",
        "PUT /v1/policy HTTP/1.1\r\nContent-Length: 5\r\n\r\n{",
        "GET /v1/sta",
    ] {
        let mut stream = UnixStream::connect(&running.place.socket).unwrap();
        stream.write_all(bytes.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let expected = if bytes.is_empty() { None } else { Some(400) };
        assert_eq!(read_response(&mut stream).ok().map(|response| response.status), expected, "{bytes}");
    }
    // One that says nothing keeps nobody else waiting.
    let _idle: Vec<UnixStream> =
        (0..10).map(|_| UnixStream::connect(&running.place.socket).unwrap()).collect();
    assert_eq!(running.ask("GET", "/v1/status", "").0, 200);
}

#[test]
fn nobody_at_the_socket_is_told_with_what_to_do() {
    let running = Running::new();
    running.place.remove_socket();
    let (status, text) = running.command("status");
    assert!(status == 3 && text.contains("no firewall runs here (there is no /"), "{text}");
    drop(std::os::unix::net::UnixListener::bind(&running.place.socket).unwrap());
    let (status, text) = running.command("rules");
    assert!(status == 3 && text.contains("nobody answers on /"), "{text}");
}

#[test]
fn a_policy_that_nobody_confirms_goes_and_one_that_is_confirmed_stays() {
    let running = Running::new();
    let only = |name: &str| format!("{ZONES}{}", rule(name, ""));
    assert_eq!(running.apply(&only("a"), Some(60), 0), Ok(2));
    running.daemon.tick(running.at(59));
    assert_eq!(running.rows(), ["a"]);
    running.daemon.tick(running.at(60));
    assert_eq!(running.rows(), ["web", "lessons"]);
    assert!(
        running
            .log()
            .contains("second.toml was not confirmed: first.toml is in force again, as generation 3")
    );
    // What was not confirmed is not what a later one goes back to.
    assert_eq!(running.apply(&only("a"), Some(60), 61), Ok(4));
    assert_eq!(running.apply(&only("b"), Some(60), 62), Ok(5));
    running.daemon.tick(running.at(121));
    assert_eq!(running.rows(), ["b"]);
    running.daemon.tick(running.at(122));
    assert_eq!(running.rows(), ["web", "lessons"]);
    assert_eq!(running.apply(&only("c"), Some(60), 130), Ok(7));
    running.daemon.confirm(running.at(131).wall, "a test").unwrap();
    running.daemon.tick(running.at(300));
    assert_eq!(running.rows(), ["c"]);
    assert!(running.daemon.confirm(running.at(301).wall, "a test").is_err());
}

#[test]
fn a_policy_that_cannot_go_back_is_tried_again_and_told() {
    let running = Running::new();
    running.apply(&format!("{ZONES}{}", rule("a", "")), Some(60), 0).unwrap();
    running.plane.inside().broken = Some("no memory".to_owned());
    running.daemon.tick(running.at(60));
    running.plane.inside().broken = None;
    running.daemon.tick(running.at(61));
    assert_eq!(running.rows(), ["a"], "not before its time");
    assert!(running.log().contains(
        "trouble: the policy before could not be put in force, and is tried again in 60 s: no memory"
    ));
    running.daemon.tick(running.at(120));
    assert_eq!(running.rows(), ["web", "lessons"]);
    assert_eq!(running.ask("GET", "/v1/status", "").1["troubles"], json!([]));
}

#[test]
fn schedules_begin_and_end_by_the_clock_even_when_it_is_set_back() {
    let running = Running::with(&usual(), "2026-11-20T17:59:00Z");
    running.daemon.tick(running.at(59));
    assert_eq!(running.rows(), ["web", "lessons"]);
    running.daemon.tick(running.at(60));
    assert_eq!(running.rows(), ["web"]);
    assert!(running.log().contains("scheduled: generation 2: `day` ended"), "{}", running.log());
    let early = Moment { wall: "2026-11-20T09:00:00Z".parse::<Timestamp>().unwrap(), ..running.at(61) };
    running.daemon.tick(early);
    assert_eq!(running.rows(), ["web", "lessons"]);
    assert!(running.log().contains("generation 3: `day` began"), "{}", running.log());
    running.daemon.tick(Moment { wall: early.wall + SignedDuration::from_secs(1), ..running.at(62) });
    assert_eq!(running.plane.inside().generation, 3);
    assert_eq!(running.plane.inside().swept, 4);
}

#[test]
fn what_cannot_be_taken_leaves_nothing_attached() {
    let (plane, log) = (Memory::default(), Kept::default());
    plane.inside().missing = vec!["e0".to_owned()];
    let about = About { pid: 1, namespace: "test".to_owned(), since: Moment::now().wall };
    let policy = Policy::parse("p.toml", &usual()).unwrap();
    let events = Log::new(false, Box::new(log));
    let refused = Daemon::start(about, events, policy, Box::new(plane.clone()), Hook::Xdp).err().unwrap();
    assert_eq!(
        (refused.status, refused.to_string().as_str()),
        (500, "zone `out`: there is no interface `e0`")
    );
    assert!(plane.inside().attached.is_empty());
}

/// The process of the tests below: a daemon over the plane in memory, in the folder that they name. As a test of its own it
/// has nothing to do.
#[test]
fn process_of_other_tests() {
    let Some(folder) = std::env::var_os("RAMPART_TEST_FOLDER").map(PathBuf::from) else { return };
    let file = folder.join("policy.toml");
    let place = Place::of(&folder, "test", 1, None);
    let policy = Policy::parse("policy.toml", &fs::read_to_string(&file).unwrap()).unwrap();
    let log = Log::new(false, Box::new(std::io::stdout()));
    let plane = Box::new(Memory::default());
    if let Err(failure) = crate::up::stay(&place, policy, &file, plane, Hook::Tc, log) {
        panic!("{failure}");
    }
}

/// A daemon in a process of its own, ended with the value.
struct Process {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Process {
    fn start(folder: &Path) -> Self {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "daemon::tests::process_of_other_tests", "--nocapture"])
            .env("RAMPART_TEST_FOLDER", folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// Reads what it tells until a line has these words.
    fn until(&mut self, words: &str) -> String {
        let mut told = String::new();
        while !told.contains(words) {
            let before = told.len();
            self.out.read_line(&mut told).unwrap();
            assert!(told.len() > before, "it ended without {words:?}: {told}");
        }
        told
    }

    fn signal(&self, signal: i32) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::try_from(signal).unwrap()).unwrap();
    }

    fn end(mut self) -> (bool, String) {
        use std::io::Read as _;
        let ended = self.child.wait().unwrap().success();
        let mut told = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        (ended, told)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_second_daemon_in_a_namespace_is_refused_with_the_process_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("policy.toml"), usual()).unwrap();
    let mut first = Process::start(folder.path());
    first.until("answers on");
    let (well, told) = Process::start(folder.path()).end();
    let expected =
        format!("a firewall runs in this network namespace already (process {})", first.child.id());
    assert!(!well && told.contains(&expected), "{told}");
    // It has not taken the socket of the first away.
    UnixStream::connect(folder.path().join("test.sock")).unwrap();
}

#[test]
fn signals_end_it_in_order_and_read_the_policy_again() {
    let folder = tempfile::tempdir().unwrap();
    let (file, socket) = (folder.path().join("policy.toml"), folder.path().join("test.sock"));
    for signal in [nix::libc::SIGTERM, nix::libc::SIGINT] {
        fs::write(&file, usual()).unwrap();
        let mut process = Process::start(folder.path());
        process.until("answers on");
        fs::write(&file, format!("{}{}", usual(), rule("mail", ""))).unwrap();
        process.signal(nix::libc::SIGHUP);
        process.until("policy.toml as generation 2, by SIGHUP: rules: 1 added (mail)");
        fs::write(&file, "[zones").unwrap();
        process.signal(nix::libc::SIGHUP);
        process.until("refused: ");
        fs::remove_file(&file).unwrap();
        process.signal(nix::libc::SIGHUP);
        process.until("the policy in force stays");
        process.signal(signal);
        process.until("down: by SIG");
        assert!(process.end().0);
        assert!(!socket.exists());
    }
}

#[test]
fn what_a_killed_daemon_left_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("policy.toml"), usual()).unwrap();
    let mut first = Process::start(folder.path());
    first.until("answers on");
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    assert!(folder.path().join("test.sock").exists());
    let mut second = Process::start(folder.path());
    second.until("answers on");
    UnixStream::connect(folder.path().join("test.sock")).unwrap();
}

#[test]
fn whoever_takes_it_down_may_start_another_at_once() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("policy.toml"), usual()).unwrap();
    for _ in 0..3 {
        let mut process = Process::start(folder.path());
        process.until("answers on");
        let down =
            crate::client::Client::new(Some(&folder.path().join("test.sock"))).unwrap().down().unwrap();
        assert_eq!((down.pid, down.detached.len()), (process.child.id(), 3));
        let place = Place::of(folder.path(), "test", 1, None);
        assert!(!place.lock.exists() && !place.socket.exists());
        assert!(place.lock().is_ok());
        assert!(process.end().0);
    }
}

#[test]
fn what_is_no_socket_is_not_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::of(folder.path(), "test", 1, Some(&folder.path().join("precious")));
    fs::write(&place.socket, "text").unwrap();
    let told = crate::failure::Failure::from(place.listen().unwrap_err()).to_string();
    assert!(told.contains("is there and is no socket: name another with --socket"), "{told}");
    assert_eq!(fs::read_to_string(&place.socket).unwrap(), "text");
}
