//! Bad servers, clients that go away and gateways that are killed, by an explicit and by a transparent gateway of a running firewall at both hooks.

use crate::bed::{Bed, Firewall, OUTSIDE, expect_echo, until};
use crate::gateway_clients::{counted, is_up, policy};
use crate::http_gateway::{children, kill};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use testkit::origin::{CALMS, LEAVING, Origin, WEATHER, Weather, connect_from, read_to_end, request, status};

/// Short times, and heads so short that a request shows whether a gateway has them already.
const LIMITS: &str = "idle = '1s'\nanswer_time = '1s'\nhead_bytes = 1024\n";
const ECHO: &str =
    "[[rules]]\nname = 'echo'\nfrom = 'inside'\nto = 'outside'\nservice = 'tcp/2525'\naction = 'allow'\n";

/// A gateway, and a server that clients ask through it.
struct Way<'a> {
    bed: &'a Bed,
    /// Its name is its mode.
    mode: &'static str,
    origin: Origin,
}

impl<'a> Way<'a> {
    fn new(bed: &'a Bed, mode: &'static str, port: u16) -> Self {
        let listener = bed.inside("out", || TcpListener::bind((OUTSIDE, port)).unwrap());
        Self { bed, mode, origin: Origin::start(listener) }
    }

    fn is_explicit(&self) -> bool {
        self.mode == "explicit"
    }

    /// Where a client connects to.
    fn at(&self) -> SocketAddr {
        if self.is_explicit() { "10.81.1.1:3128".parse().unwrap() } else { self.origin.at }
    }

    fn connect(&self) -> TcpStream {
        self.bed.inside("in", || TcpStream::connect(self.at()).unwrap())
    }

    fn ask(&self, mut stream: TcpStream, path: &str, lines: &str) -> TcpStream {
        let bytes = request(self.is_explicit(), "GET", self.origin.at, path, &format!("{lines}\r\n"));
        stream.write_all(bytes.as_bytes()).unwrap();
        stream
    }

    fn refuses_long_heads(&self) -> bool {
        let lines = format!("Connection: close\r\nX-Long: {}\r\n", "x".repeat(2000));
        status(&read_to_end(&mut self.ask(self.connect(), "/length", &lines)).0) == 431
    }

    fn counted(&self, what: &str) -> u64 {
        counted(self.bed, self.mode, what)
    }

    /// Before anything else: a connection to the server that is kept open would be used again.
    fn expect_clients_to_leave(&self) {
        let read = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        for (place, leaving) in (1..).zip(&LEAVING) {
            let what = format!("{}: it {}", self.mode, leaving.what);
            leaving.go(self.connect(), self.is_explicit(), self.origin.at, || {
                until(&what, || read(&self.origin.connections) == place);
            });
            until(&what, || read(&self.origin.ended) == place);
        }
        until("no client is left", || self.counted("open") == 0);
        assert_eq!(self.counted("failed"), LEAVING.len() as u64, "{}", self.mode);
        until("each is in the event log", || {
            let log = self.bed.json(&["log"]);
            ["/echo", "/endless"].map(|path| reasons(&log, self, path)).concat()
                == ["http-client-ended"; LEAVING.len()]
        });
    }

    /// Opens a connection with the same four ends again while the kernel still remembers the one before.
    fn expect_a_port_again(&self) {
        for time in 0..3 {
            let stream = self.bed.inside("in", || connect_from(40_000, self.at())).unwrap();
            let mut stream = self.ask(stream, "/length", "Connection: close\r\n");
            WEATHER[0].expect(&mut stream, &format!("{} the same port, time {time}", self.mode));
            drop(stream);
            until_remembered(self.bed, 40_000, self.at());
        }
    }
}

/// Asks for all of these by all ways at once, because some take their time; what clients get, and what the event log has of it.
fn expect_weather(bed: &Bed, ways: &[Way<'_>], rows: &[Weather]) {
    let all = || ways.iter().flat_map(|way| rows.iter().map(move |weather| (way, weather)));
    let ask =
        |(way, weather): (&Way<'_>, &Weather)| way.ask(way.connect(), weather.path, "Connection: close\r\n");
    let asked: Vec<TcpStream> = all().map(ask).collect();
    for ((way, weather), mut stream) in all().zip(asked) {
        weather.expect(&mut stream, way.mode);
    }
    until("each is in the event log", || {
        let log = bed.json(&["log"]);
        all().all(|(way, weather)| reasons(&log, way, weather.path) == [format!("http-{}", weather.reason)])
    });
}

/// Why requests for a path failed, as the event log has it.
fn reasons(log: &Value, way: &Way<'_>, path: &str) -> Vec<String> {
    let is_of = |event: &&Value| event["request"]["gateway"] == way.mode && event["request"]["path"] == path;
    let reason = |event: &Value| event["reason"].as_str().unwrap_or("http-carried").to_owned();
    log["events"].as_array().unwrap().iter().filter(is_of).map(reason).collect()
}

/// Waits until a connection from a port of the client has ended at both ends and the firewall's kernel remembers it (TIME_WAIT).
pub(crate) fn until_remembered(bed: &Bed, port: u16, at: SocketAddr) {
    until("the kernel remembers it", || {
        let waiting = bed.host("fw").run("ss", &["-Hnt", "state", "time-wait", &format!("dport = :{port}")]);
        waiting.contains(&at.ip().to_string())
    });
}

/// Kills the processes of the gateways while they have clients. No answer looks whole that is not, and whoever has nothing to do with them notices nothing.
fn expect_death_and_others(bed: &Bed, ways: &[Way<'_>], firewall: &Firewall) {
    let mut filtered = bed.connect(2525).unwrap();
    let held: Vec<Vec<TcpStream>> = ways.iter().map(Way::hold).collect();
    until("they have clients", || {
        ways.iter().zip(&held).all(|(way, held)| way.counted("open") == held.len() as u64)
    });
    let generation = bed.json(&["status"])["policy"]["generation"].clone();
    let keeper = children(firewall.child.id(), "keep-gateways")[0];
    let before = children(keeper, "run-gateway");
    assert_eq!(before.len(), ways.len());
    before.iter().for_each(|pid| kill(*pid));
    for (way, mut held) in ways.iter().zip(held) {
        until("it is counted", || [way.counted("restarts"), way.counted("broken")] == [1, held.len() as u64]);
        assert!(matches!(held[0].read(&mut [0]), Ok(0) | Err(_)), "{}: the request gets no answer", way.mode);
        for answer in &mut held[1..] {
            assert!(!read_to_end(answer).1, "{}: it does not end as if it were whole", way.mode);
        }
        until("it is up again", || is_up(bed, way.mode));
        let mut stream = way.ask(way.connect(), "/length", "Connection: close\r\n");
        WEATHER[0].expect(&mut stream, way.mode);
    }
    expect_echo(&mut filtered, "a flow of the packet filter goes on");
    assert_eq!(bed.json(&["status"])["policy"]["generation"], generation);
}

impl Way<'_> {
    /// Connections that are in the middle of something: first a request, then answers of which only the end of the connection says where they end,
    /// and which nobody reads.
    fn hold(&self) -> Vec<TcpStream> {
        let server = self.origin.at;
        let old =
            request(self.is_explicit(), "GET", server, "/endless", "\r\n").replace("HTTP/1.1", "HTTP/1.0");
        let mut all = vec![("GET /".to_owned(), 0), (old, 1)];
        if self.is_explicit() {
            let inside = request(false, "GET", server, "/endless", "\r\n");
            all.push((format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n\r\n{inside}"), 2));
        }
        let hold = |(bytes, heads): (String, usize)| {
            let mut stream = self.connect();
            stream.write_all(bytes.as_bytes()).unwrap();
            let mut begin = String::new();
            while begin.matches("\r\n\r\n").count() < heads {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                begin.push(char::from(byte[0]));
            }
            assert_eq!(begin.matches("HTTP/1.1 200 OK\r\n").count(), heads, "{}: {begin}", self.mode);
            stream
        };
        all.into_iter().map(hold).collect()
    }
}

#[test]
fn needs_root_bad_weather_ends_as_it_must_through_gateways_of_every_mode_at_both_hooks() {
    for hook in ["tc", "xdp"] {
        let bed = Bed::new();
        bed.serve(2525);
        let ways = [Way::new(&bed, "explicit", 8080), Way::new(&bed, "transparent", 8081)];
        let firewall = bed.up(&policy(&bed, "", ECHO), hook);
        for way in &ways {
            until("the gateway is up", || is_up(&bed, way.mode));
            way.expect_clients_to_leave();
        }
        expect_weather(&bed, &ways, &WEATHER);
        ways.iter().for_each(Way::expect_a_port_again);
        expect_death_and_others(&bed, &ways, &firewall);
        bed.json(&["apply", &policy(&bed, LIMITS, ECHO)]);
        ways.iter().for_each(|way| until("it has the other limits", || way.refuses_long_heads()));
        expect_weather(&bed, &ways, &CALMS);
    }
}
