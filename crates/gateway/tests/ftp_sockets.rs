//! A gateway of FTP with its sockets, between clients and servers of this test, which do what they should not: a transfer that breaks off on one side never
//! ends well on the other, data connections have the peers that were agreed about, and every wait has an end.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod plain;

use gateway::config::{Addresses, Ftp, Gateway, Limits, Protocol, Rule};
use gateway::event::Event;
use gateway::serve::{Server, listen};
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::time::Duration;
use testkit::origin::reset;

/// How long anything may take that must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server whose file names say what it does. It reports how data that it was sent has ended.
fn server(is_plain: bool) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let (reports, heard) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let reports = reports.clone();
            std::thread::spawn(move || control(&stream, is_plain, &reports));
        }
    });
    (at, heard)
}

fn control(mut stream: &TcpStream, is_plain: bool, reports: &Sender<String>) -> Option<()> {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"220-hello\r\n220 hello\r\n").ok()?;
    let mut lines = BufReader::new(stream).lines();
    let mut waiting: Option<TcpListener> = None;
    let mut restart = 0;
    while let Some(Ok(line)) = lines.next() {
        let (verb, path) = line.split_once(' ').unwrap_or((&line, ""));
        // It holds for the very next command.
        let begin = std::mem::take(&mut restart);
        let reply = match verb {
            "REST" => {
                restart = path.parse().unwrap();
                "350 go on"
            }
            "USER" => "331 password",
            "PASS" => "230 welcome",
            "EPSV" if is_plain => "500 what?",
            "EPSV" | "PASV" => {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let port = listener.local_addr().unwrap().port();
                waiting = Some(listener);
                // Somebody else's address.
                let plain = format!("227 here (10,9,9,9,{},{})\r\n", port >> 8, port & 255);
                let extended = format!("229 here (|||{port}|)\r\n");
                stream.write_all(if is_plain { plain } else { extended }.as_bytes()).ok()?;
                continue;
            }
            "RETR" | "STOR" => {
                transfer(stream, path, begin, &waiting.take()?, reports)?;
                continue;
            }
            "PWD" => "257 \"/\"\r\n257 \"/again\"",
            "QUIT" => return None,
            _ => "200 fine",
        };
        stream.write_all(format!("{reply}\r\n").as_bytes()).ok()?;
    }
    None
}

/// One transfer; `None` if the control connection ends with it.
fn transfer(
    mut stream: &TcpStream,
    path: &str,
    begin: usize,
    waiting: &TcpListener,
    reports: &Sender<String>,
) -> Option<()> {
    let mut say = |reply: &str| stream.write_all(format!("{reply}\r\n").as_bytes()).ok();
    match path {
        "missing" => return say("550 no such file"),
        "at-once" => return say("226 done"),
        "never" => {
            let _ = reports.send("never".to_owned());
            return Some(());
        }
        "hello-is-no-reply" => return say("hello"),
        _ => {}
    }
    let (mut data, _) = waiting.accept().unwrap();
    data.set_read_timeout(Some(PATIENCE)).unwrap();
    say("150 here it comes")?;
    let (bytes, end): (&[u8], &str) = match path {
        "short" | "short-well" | "gone" | "reset" | "held" | "silent" => (b"hel", path),
        "six" => (b"hello!", path),
        _ => (b"hello", path),
    };
    if !path.starts_with("put") {
        let _ = data.write_all(&bytes[begin..]);
    }
    match end {
        "short" => {
            drop(data);
            say("426 broken off")
        }
        "reset" => {
            reset(data);
            say("426 broken off")
        }
        "short-well" => {
            reset(data);
            say("226 done")
        }
        "gone" => None,
        "held" | "silent" => {
            let _ = reports.send("begun".to_owned());
            let ended =
                data.read(&mut [0]).map_or_else(|error| error.kind().to_string(), |count| count.to_string());
            let _ = reports.send(ended);
            say("426 broken off")
        }
        "put-full" => {
            data.read_exact(&mut [0; 3]).unwrap();
            say("552 full")?;
            let _ = data.read_to_end(&mut Vec::new());
            Some(())
        }
        "put" => {
            let mut content = Vec::new();
            let ended = data.read_to_end(&mut content);
            let ended = ended.map_or_else(|error| error.kind().to_string(), |count| count.to_string());
            let _ = reports.send(ended);
            say("226 done")
        }
        "two-replies" => {
            drop(data);
            say("226 done\r\n226 done")
        }
        _ => {
            drop(data);
            say("226 done")
        }
    }
}

struct Bed {
    server: Server,
    gateway: Gateway,
    at: SocketAddr,
    origin: SocketAddr,
    heard: Receiver<String>,
    events: Receiver<Event>,
}

fn bed(is_plain: bool, limits: Limits) -> Bed {
    let (origin, heard) = server(is_plain);
    let rule =
        Rule { largest_request: Some(1000), largest_answer: Some(5), log: true, ..plain::rule("all", true) };
    let listener = listen("127.0.0.1:0".parse().unwrap(), None).unwrap();
    let at = listener.local_addr().unwrap();
    let gateway = Gateway {
        name: "files".to_owned(),
        protocol: Protocol::Ftp(Ftp { data_ports: (61_000, 61_999), is_active: false }),
        listen: at,
        rules: vec![rule],
        reach: Addresses(vec![("127.0.0.0".parse().unwrap(), "127.255.255.255".parse().unwrap())]),
        ports: vec![origin.port()],
        look_up: false,
        limits,
        ..plain::gateway()
    };
    let (sender, events) = sync_channel(4096);
    let server = Server::start(gateway.clone(), listener, Vec::new(), sender).unwrap();
    Bed { server, gateway, at, origin, heard, events }
}

impl Bed {
    /// The next event with a reason, which must be this.
    fn expect_event(&self, reason: &str) {
        loop {
            let event = self.events.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no event {reason}"));
            if let Some(found) = event.reason {
                assert_eq!(found, reason);
                return;
            }
        }
    }
}

/// A client.
struct Client {
    stream: TcpStream,
    lines: BufReader<TcpStream>,
}

impl Client {
    fn new(bed: &Bed) -> Self {
        let stream = TcpStream::connect(bed.at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut client = Self { lines: BufReader::new(stream.try_clone().unwrap()), stream };
        assert_eq!(client.reply(), Some(220));
        client
    }

    fn logged_in(bed: &Bed) -> Self {
        let mut client = Self::new(bed);
        assert_eq!(client.ask(&format!("USER me@{}", bed.origin)), Some(331));
        assert_eq!(client.ask("PASS secret"), Some(230));
        client
    }

    fn send(&mut self, line: &str) {
        let _ = self.stream.write_all(format!("{line}\r\n").as_bytes());
    }

    /// The code of the next reply; `None` if the connection ends.
    fn reply(&mut self) -> Option<u16> {
        let mut line = String::new();
        self.lines.read_line(&mut line).ok().filter(|count| *count > 0)?;
        if line.as_bytes()[3] == b'-' { self.reply() } else { line[..3].parse().ok() }
    }

    fn ask(&mut self, line: &str) -> Option<u16> {
        self.send(line);
        self.reply()
    }

    /// Where the gateway waits.
    fn passive(&mut self, bed: &Bed) -> SocketAddr {
        self.send("EPSV");
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        let port = line.split("|||").nth(1).unwrap().split('|').next().unwrap();
        SocketAddr::new(bed.at.ip(), port.parse().unwrap())
    }

    /// A data connection.
    fn data(&mut self, bed: &Bed) -> TcpStream {
        let data = TcpStream::connect(self.passive(bed)).unwrap();
        data.set_read_timeout(Some(PATIENCE)).unwrap();
        data
    }
}

/// What a data connection has, and whether it ends well.
fn whole(mut data: TcpStream) -> String {
    let mut content = Vec::new();
    let is_whole = data.read_to_end(&mut content).is_ok();
    String::from_utf8(content).unwrap() + if is_whole { "" } else { " reset" }
}

#[test]
fn what_a_server_breaks_off_is_never_a_whole_file() {
    for is_plain in [false, true] {
        let bed = bed(is_plain, Limits::default());
        for (path, is_whole, replies) in [
            ("file", true, &[Some(150), Some(226)][..]),
            ("missing", false, &[Some(550)]),
            ("at-once", false, &[Some(421)]),
            ("hello-is-no-reply", false, &[Some(421)]),
            ("short", false, &[Some(150), Some(426)]),
            ("reset", false, &[Some(150), Some(426)]),
            ("short-well", false, &[Some(150), Some(426)]),
            ("gone", false, &[Some(150), Some(421), None]),
            ("two-replies", true, &[Some(150), Some(226), Some(421), None]),
        ] {
            let mut client = Client::logged_in(&bed);
            let data = client.data(&bed);
            client.send(&format!("RETR {path}"));
            let found = whole(data);
            // A reset may overtake bytes.
            assert!(if is_whole { found == "hello" } else { found.ends_with(" reset") }, "{path}: {found}");
            for reply in replies {
                assert_eq!(client.reply(), *reply, "{path}");
            }
        }
    }
}

#[test]
fn what_is_sent_arrives_whole_or_the_client_learns_it() {
    let bed = bed(false, Limits::default());
    let mut client = Client::logged_in(&bed);
    let mut data = client.data(&bed);
    assert_eq!(client.ask("STOR put"), Some(150));
    data.write_all(&[7; 500]).unwrap();
    drop(data);
    assert_eq!(client.reply(), Some(226));
    assert_eq!(bed.heard.recv_timeout(PATIENCE).unwrap(), "500");
    // The client breaks off: the server must not take it for the end.
    let mut data = client.data(&bed);
    assert_eq!(client.ask("STOR put"), Some(150));
    data.write_all(&[7; 500]).unwrap();
    reset(data);
    assert_eq!(client.reply(), Some(426));
    assert_eq!(bed.heard.recv_timeout(PATIENCE).unwrap(), ErrorKind::ConnectionReset.to_string());
    // More than the rule lets.
    let mut data = client.data(&bed);
    assert_eq!(client.ask("STOR put"), Some(150));
    let _ = data.write_all(&[7; 1001]);
    assert_eq!(client.reply(), Some(552));
    assert_eq!(bed.heard.recv_timeout(PATIENCE).unwrap(), ErrorKind::ConnectionReset.to_string());
    let data = client.data(&bed);
    assert_eq!((client.ask("RETR six"), client.reply()), (Some(150), Some(552)));
    assert!(whole(data).ends_with(" reset"));
    // The server wants no more.
    let mut data = client.data(&bed);
    assert_eq!(client.ask("STOR put-full"), Some(150));
    data.write_all(&[7; 3]).unwrap();
    assert_eq!(client.reply(), Some(552));
    assert_eq!(whole(data), " reset");
    assert_eq!(client.ask("NOOP"), Some(200), "the session goes on");
}

#[test]
fn a_file_is_fetched_from_where_the_client_says() {
    let bed = bed(false, Limits::default());
    let mut client = Client::logged_in(&bed);
    for (lines, expected) in [
        (&["EPSV", "REST 2"][..], "llo"),
        (&["REST 3", "EPSV"], "lo"),
        (&["EPSV"], "hello"),
        // As of a server that nobody is before.
        (&["REST 3", "NOOP", "EPSV"], "hello"),
        (&["REST 3", "REST 1", "EPSV"], "ello"),
    ] {
        let mut data = None;
        for line in lines {
            match *line {
                "EPSV" => data = Some(client.data(&bed)),
                line => assert!(client.ask(line).is_some(), "{line}"),
            }
        }
        assert_eq!((client.ask("RETR file"), client.reply()), (Some(150), Some(226)), "{lines:?}");
        assert_eq!(whole(data.unwrap()), expected, "{lines:?}");
    }
}

#[test]
fn transfers_end_by_the_client_and_by_the_policy() {
    let bed = bed(false, Limits::default());
    let begin = |client: &mut Client| {
        let mut data = client.data(&bed);
        assert_eq!(client.ask("RETR held"), Some(150));
        assert_eq!(bed.heard.recv_timeout(PATIENCE).unwrap(), "begun");
        data.read_exact(&mut [0; 3]).unwrap();
        data
    };
    let ended = || bed.heard.recv_timeout(PATIENCE).unwrap();
    let is_reset = ErrorKind::ConnectionReset.to_string();
    let mut client = Client::logged_in(&bed);
    // As Telnet has it (RFC 854): in the stream, and with the mark as urgent data, which kernels take out of it.
    for is_urgent in [false, true] {
        let data = begin(&mut client);
        client.stream.write_all(b"\xff\xf4").unwrap();
        if is_urgent {
            socket2::SockRef::from(&client.stream).send_out_of_band(b"\xff").unwrap();
        } else {
            client.stream.write_all(b"\xff").unwrap();
        }
        client.stream.write_all(b"\xf2ABOR\r\nNOOP\r\n").unwrap();
        assert_eq!((whole(data), ended()), (" reset".to_owned(), is_reset.clone()), "{is_urgent}");
        for expected in [426, 226, 200] {
            assert_eq!(client.reply(), Some(expected), "ABOR, and what has come with it: {is_urgent}");
        }
        bed.expect_event("aborted");
    }
    let data = begin(&mut client);
    drop(client);
    assert_eq!((whole(data), ended()), (" reset".to_owned(), is_reset.clone()), "the client has gone");
    bed.expect_event("client-ended");
    let mut client = Client::logged_in(&bed);
    let data = begin(&mut client);
    bed.server.set(Gateway { rules: Vec::new(), ..bed.gateway.clone() });
    assert_eq!((whole(data), ended()), (" reset".to_owned(), is_reset));
    assert_eq!(client.reply(), Some(426));
    bed.expect_event("not-allowed-any-more");
    assert_eq!((client.ask("PWD"), client.reply()), (Some(421), None));
}

/// Connections of somebody else to a data port: more than wait at a socket that few are expected at.
const STRANGERS: usize = 4;

/// A connection of somebody else. Where nobody takes it, it is left waiting.
fn stranger(at: SocketAddr) -> socket2::Socket {
    let stranger = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    stranger.bind(&"127.0.0.2:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    let _ = stranger.connect_timeout(&at.into(), Duration::from_millis(200));
    stranger.set_read_timeout(Some(PATIENCE)).unwrap();
    stranger
}

#[test]
fn data_connections_have_the_peer_that_was_agreed_about_and_no_second_one() {
    let bed = bed(false, Limits::default());
    let mut client = Client::logged_in(&bed);
    let (first, at) = (client.passive(&bed), client.passive(&bed));
    assert!(TcpStream::connect(first).is_err(), "one at a time");
    let strangers: Vec<socket2::Socket> = (0..STRANGERS).map(|_| stranger(at)).collect();
    // Whatever has come before, and nobody has asked for a file yet.
    let data = TcpStream::connect_timeout(&at, PATIENCE).unwrap();
    client.send("RETR file");
    assert_eq!(whole(data), "hello");
    for stranger in strangers {
        assert_eq!(whole(stranger.into()).trim_end_matches(" reset"), "", "a stranger gets nothing");
        bed.expect_event("other-address");
    }
    assert_eq!((client.reply(), client.reply()), (Some(150), Some(226)));
    assert!(TcpStream::connect(at).is_err(), "the socket is closed");
    assert_eq!(client.ask("RETR file"), Some(425), "a data connection is for one transfer");
    bed.expect_event("no-data-connection");
    // The client waits, and its address is the only one that is called.
    let waiting = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = waiting.local_addr().unwrap().port();
    assert_eq!(client.ask(&format!("EPRT |1|127.0.0.2|{port}|")), Some(501));
    bed.expect_event("other-address");
    assert_eq!(client.ask("RETR file"), Some(425), "nobody is called");
    bed.expect_event("no-data-connection");
    assert_eq!(client.ask(&format!("EPRT |1|127.0.0.1|{port}|")), Some(200));
    client.send("RETR file");
    assert_eq!(whole(waiting.accept().unwrap().0), "hello");
    assert_eq!((client.reply(), client.reply()), (Some(150), Some(226)));
    drop(waiting);
    assert_eq!(client.ask(&format!("EPRT |1|127.0.0.1|{port}|")), Some(200));
    client.send("RETR file");
    assert_eq!((client.reply(), client.reply()), (Some(150), Some(425)), "nobody is there");
}

/// A client that takes every data port has them, keeps nobody from asking, and gives them back with its sessions.
#[test]
fn data_ports_that_are_all_taken_are_said_and_come_back() {
    let mut bed = bed(false, Limits::default());
    // One port that nobody has, and no other.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    bed.gateway.protocol = Protocol::Ftp(Ftp { data_ports: (port, port), is_active: false });
    bed.server.set(bed.gateway.clone());
    let (mut one, mut other) = (Client::logged_in(&bed), Client::logged_in(&bed));
    // The port that a session has asked for before is its own again.
    for _ in 0..3 {
        assert_eq!(one.passive(&bed).port(), port);
    }
    assert_eq!(other.ask("EPSV"), Some(425));
    bed.expect_event("no-data-port");
    assert_eq!(other.ask("PASV"), Some(425));
    bed.expect_event("no-data-port");
    assert_eq!(other.ask("NOOP"), Some(200), "the session goes on");
    assert_eq!(one.ask("QUIT"), Some(221));
    assert_eq!(one.reply(), None);
    // Its socket is closed when its session is, which is a moment after the connection.
    while other.ask("EPSV") != Some(229) {
        bed.expect_event("no-data-port");
    }
}

#[test]
fn lines_without_end_end_the_session() {
    let bed = bed(false, Limits::default());
    for (bytes, reason) in [
        (vec![b'a'; 1 << 20], "line-too-long"),
        ([b"RETR ", &[b'a'; 3000][..], b"\r\n"].concat(), "line-too-long"),
        (b"NOOP\nNOOP\r\n".to_vec(), "bare-lf"),
    ] {
        let mut client = Client::new(&bed);
        let _ = client.stream.write_all(&bytes);
        assert_eq!(client.reply(), Some(500), "{reason}");
        assert_eq!(client.reply(), None, "{reason}");
        bed.expect_event(reason);
    }
    let mut client = Client::logged_in(&bed);
    assert_eq!(client.ask("RETR a\rDELE b"), Some(501));
    assert_eq!(client.ask("NOOP"), Some(200), "the session goes on");
    bed.expect_event("control-character");
    assert_eq!((client.ask("PWD"), client.reply()), (Some(257), Some(421)), "a server that answers twice");
    bed.expect_event("server-out-of-turn");
}

#[test]
fn every_wait_has_an_end() {
    let second = Duration::from_secs(1);
    let limits = Limits { idle: second * 2, answer_time: second, connect_time: second, ..Limits::default() };
    let bed = bed(false, limits);
    // A server that does not answer.
    let mut client = Client::logged_in(&bed);
    let data = client.data(&bed);
    assert_eq!((client.ask("RETR never"), client.reply()), (Some(421), None));
    assert_eq!(whole(data).trim_end_matches(" reset"), "");
    bed.expect_event("answer-time");
    // A client that does not connect.
    let mut client = Client::logged_in(&bed);
    client.passive(&bed);
    assert_eq!((client.ask("RETR file"), client.reply()), (Some(150), Some(425)));
    bed.expect_event("client-data-time");
    // Data that does not come.
    let data = client.data(&bed);
    assert_eq!(client.ask("RETR silent"), Some(150));
    assert_eq!(whole(data), "hel reset");
    assert_eq!(client.reply(), Some(426));
    bed.expect_event("slow-data");
    // Nothing at all.
    assert_eq!((client.reply(), client.reply()), (Some(421), None));
    bed.expect_event("idle");
    let mut client = Client::new(&bed);
    assert_eq!((client.reply(), client.reply()), (Some(421), None));
    bed.expect_event("idle");
}
