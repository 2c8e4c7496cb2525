//! Clients and servers on one machine, and servers that do not do what they should.

use super::client::{Order, Stop, transact};
use super::content::FileSet;
use super::load::{Tally, VirtualClient, World};
use super::nstl::{CLIENT_MACHINES, SERVERS};
use super::seal::{REQUEST, Requests, SEAL, Secret};
use super::{Load, Outcome, Side, run};
use crate::TrafficError;
use measure::application::{Arrivals, Failure, FtpMode, FtpTransfer, FtpVerb, Protocol, ProtocolMix};
use measure::held_open::{HeldOpen, HeldOutcome};
use measure::open_loop::OpenLoop;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::Linger;
use std::cell::{OnceCell, RefCell};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// Addresses of loopback, of which each test has its own, so that tests do not meet.
pub(super) fn side(test: u8, first: u8, count: usize) -> Side {
    let address = |host: usize| IpAddr::V4(Ipv4Addr::new(127, 77, test, first + host as u8));
    Side { namespace: None, addresses: (0..count).map(address).collect() }
}

pub(super) fn load(clients: u32, protocol: ProtocolMix) -> Load {
    let [http_port, https_port, ftp_port] = free_ports();
    Load {
        clients,
        protocol,
        transactions: 1,
        arrivals: Arrivals::ClosedLoop,
        seconds: 0.1,
        transaction_limit: MINUTE,
        http_port,
        https_port,
        ftp_port,
        cores: vec![0],
        seed: 1,
    }
}

fn free_ports() -> [u16; 3] {
    let held = [(); 3].map(|()| TcpListener::bind("127.77.0.1:0").unwrap());
    held.each_ref().map(|listener| listener.local_addr().unwrap().port())
}

const HTTP: ProtocolMix = ProtocolMix::Only(Protocol::Http10);
const HTTP11: ProtocolMix = ProtocolMix::Only(Protocol::Http11);
const HTTPS: ProtocolMix = ProtocolMix::Only(Protocol::Https);
const HTTP2: ProtocolMix = ProtocolMix::Only(Protocol::Http2);
const ACTIVE_GET: FtpTransfer = FtpTransfer { mode: FtpMode::Active, verb: FtpVerb::Get };
const ACTIVE_PUT: FtpTransfer = FtpTransfer { mode: FtpMode::Active, verb: FtpVerb::Put };
const GET: FtpTransfer = FtpTransfer { mode: FtpMode::Passive, verb: FtpVerb::Get };
const PUT: FtpTransfer = FtpTransfer { mode: FtpMode::Passive, verb: FtpVerb::Put };

const fn ftp(transfer: FtpTransfer) -> ProtocolMix {
    ProtocolMix::Only(Protocol::Ftp(transfer))
}

fn run_here(test: u8, load: &Load, interrupted: bool) -> Result<Outcome, TrafficError> {
    let (clients, servers) = (side(test, 1, CLIENT_MACHINES), side(test, 101, SERVERS));
    run(&clients, &servers, load, &Arc::new(FileSet::nstl(7)), &|| interrupted)
}

#[test]
fn every_transaction_and_every_byte_has_its_place() {
    for (test, clients, protocol, transactions) in [
        (1, 1, HTTP, 1),
        (2, 12, HTTP11, 1),
        (3, 1000, HTTP, 1),
        (10, 4, ftp(GET), 1),
        (11, 4, ftp(PUT), 1),
        (12, 4, ftp(ACTIVE_GET), 1),
        (13, 4, ftp(ACTIVE_PUT), 1),
        (14, 144, ProtocolMix::Nstl, 1),
        (15, 4, HTTPS, 1),
        (16, 4, HTTPS, 3),
        (17, 12, HTTP11, 7),
        (24, 4, HTTP2, 1),
        (25, 4, HTTP2, 5),
    ] {
        let load = Load { transactions, ..load(clients, protocol) };
        let outcome = run_here(test, &load, false).unwrap();
        check(&load, &outcome);
    }
    let loopback = Side { namespace: None, addresses: vec![Ipv6Addr::LOCALHOST.into()] };
    for transfer in [GET, PUT, ACTIVE_GET, ACTIVE_PUT] {
        let load = load(4, ftp(transfer));
        let files = Arc::new(FileSet::nstl(7));
        let outcome = run(&loopback, &loopback, &load, &files, &|| false).unwrap();
        check(&load, &outcome);
    }
}

/// However slow the machine is, a thread of clients begins one transaction.
fn check(load: &Load, outcome: &Outcome) {
    let (ledger, application) = (&outcome.ledger, &outcome.application);
    assert_eq!(outcome.fault, None);
    assert!(ledger.offered > 0, "{load:?}: {ledger:?}");
    assert_eq!((ledger.received, ledger.residual()), (ledger.offered, 0), "{ledger:?}");
    assert_eq!((application.requests, application.answers), (ledger.received, ledger.received));
    assert_eq!(application.client_bytes, application.server_bytes);
    assert!(application.client_bytes >= ledger.received * 512);
    assert_eq!(application.disagreements(ledger), [""; 0]);
    assert_eq!(application.times_ns.unwrap().count, ledger.received);
    let seen =
        [application.first_byte_ns, application.last_byte_ns].map(|times| times.map_or(0, |t| t.count));
    let by_http = if load.protocol.is_http() { ledger.received } else { 0 };
    assert!(seen == [by_http; 2] || load.protocol == ProtocolMix::Nstl, "{seen:?} of {ledger:?}");
    let seconds = outcome.per_second.iter().fold((0, 0), |(b, e), s| (b + s.sent, e + s.received));
    assert_eq!(seconds, (ledger.offered, application.in_time));
    assert!(application.in_time <= ledger.received);
}

#[test]
fn a_run_ends_when_the_user_asks_and_when_it_cannot_begin() {
    let mut endless = load(12, HTTP);
    endless.seconds = 3600.0;
    assert!(matches!(run_here(4, &endless, true), Err(TrafficError::Interrupted)));
    let taken = TcpListener::bind(("127.77.5.101", 0)).unwrap();
    endless.http_port = taken.local_addr().unwrap().port();
    let error = run_here(5, &endless, false).unwrap_err().to_string();
    assert!(error.starts_with("the servers could not begin: ") && error.contains("in use"), "{error}");
}

/// What a server of one connection does once the request was read.
type Deed = fn(&mut TcpStream, &[u8]);

fn head(length: usize) -> String {
    format!("HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n")
}

fn answer(stream: &mut TcpStream, head: &str, body: &[u8]) {
    // The client may have gone away by then, which is what it is to do.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

/// What a client makes of a server that does this; with no deed, of a port where nobody listens.
fn met(deed: Option<Deed>, limit: Duration) -> Result<(), Stop> {
    met_by(Protocol::Http10, true, deed, limit)
}

fn met_by(protocol: Protocol, is_last: bool, deed: Option<Deed>, limit: Duration) -> Result<(), Stop> {
    let set = FileSet::nstl(7);
    let file = set.named("/html/20480.html").unwrap().clone();
    let listener = TcpListener::bind("127.77.6.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let content = file.bytes.clone();
    let serving = match deed {
        Some(deed) => Some(std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).unwrap() > 0);
            deed(&mut stream, &content);
        })),
        None => {
            drop(listener);
            None
        }
    };
    let order = Order {
        from: "127.77.6.2".parse().unwrap(),
        to,
        host: "server01",
        file: &file,
        protocol,
        limit,
        tls: None,
        requests: None,
        is_last,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let result = runtime.block_on(transact(&mut None, &order, &mut [0; 1000])).map(drop);
    if let Some(serving) = serving {
        serving.join().unwrap();
    }
    result
}

#[test]
fn every_failure_is_told_by_what_the_client_saw() {
    let honest: Deed = |stream, body| answer(stream, &head(body.len()), body);
    assert!(met(Some(honest), MINUTE).is_ok());
    let without_length: Deed = |stream, body| answer(stream, "HTTP/1.1 200 OK\r\n\r\n", body);
    assert!(met(Some(without_length), MINUTE).is_ok());
    let rows: [(Option<Deed>, Failure); 13] = [
        (None, Failure::Refused),
        (
            Some(|stream, _| {
                let now = nix::libc::linger { l_onoff: 1, l_linger: 0 };
                setsockopt(stream, Linger, &now).unwrap();
            }),
            Failure::Reset,
        ),
        (Some(|_, _| ()), Failure::Short),
        (Some(|stream, body| answer(stream, &head(body.len()), &body[..body.len() - 1])), Failure::Short),
        (Some(|stream, _| answer(stream, "HTTP/1.0 200 OK\r\nContent-Le", b"")), Failure::Short),
        (
            Some(|stream, body| {
                let mut changed = body.to_vec();
                *changed.last_mut().unwrap() ^= 1;
                answer(stream, &head(changed.len()), &changed);
            }),
            Failure::Content,
        ),
        (Some(|stream, body| answer(stream, &head(body.len()), &[body, b"\n"].concat())), Failure::Content),
        (Some(|stream, _| answer(stream, &head(3), b"<p>")), Failure::Content),
        (Some(|stream, _| answer(stream, "HTTP/1.0 403 Forbidden\r\n\r\n", b"no")), Failure::Status),
        (Some(|stream, _| answer(stream, "220 welcome\r\n", b"")), Failure::Protocol),
        (
            Some(|stream, _| {
                let field = format!("X-Filler: {}\r\n", "x".repeat(1_000_000));
                answer(stream, &format!("HTTP/1.0 200 OK\r\n{field}\r\n"), b"");
            }),
            Failure::Protocol,
        ),
        (
            Some(|stream, body| {
                let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
                answer(stream, chunked, body);
            }),
            Failure::Protocol,
        ),
        // As long as the client waits, nothing comes; the read ends when the client closes.
        (Some(|stream, _| assert_eq!(stream.read(&mut [0; 10]).unwrap_or(0), 0)), Failure::Timeout),
    ];
    for (number, (deed, expected)) in rows.into_iter().enumerate() {
        let limit = if expected == Failure::Timeout { Duration::from_millis(500) } else { MINUTE };
        match met(deed, limit) {
            Err(Stop::Failed(failure)) => assert_eq!(failure, expected, "row {number}"),
            other => panic!("row {number}: {other:?}"),
        }
    }
}

#[test]
fn an_answer_that_leaves_the_connection_open_says_its_length_and_holds_no_more() {
    let kept = |deed| met_by(Protocol::Http11, false, Some(deed), MINUTE);
    assert!(kept(|stream, body| answer(stream, &head(body.len()), body)).is_ok());
    let rows: [(Deed, Failure); 4] = [
        (|stream, body| answer(stream, "HTTP/1.1 200 OK\r\n\r\n", body), Failure::Protocol),
        (|stream, body| answer(stream, &head(body.len()), &body[1..]), Failure::Content),
        (|stream, body| answer(stream, &head(body.len()), &body[..9]), Failure::Short),
        (|stream, body| answer(stream, &head(body.len() + 1), body), Failure::Content),
    ];
    for (number, (deed, expected)) in rows.into_iter().enumerate() {
        match kept(deed) {
            Err(Stop::Failed(failure)) => assert_eq!(failure, expected, "row {number}"),
            other => panic!("row {number}: {other:?}"),
        }
    }
}

/// The path and the number of a request.
fn asked(request: &str) -> (&str, &str) {
    let number = request.lines().find_map(|line| line.strip_prefix(REQUEST)?.strip_prefix(": "));
    (request.split(' ').nth(1).unwrap(), number.unwrap())
}

fn sealed_head(length: usize, seal: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{SEAL}: {seal}\r\n\r\n")
}

#[test]
fn an_answer_that_was_made_for_another_request_is_not_taken() {
    type Seals = fn(&Secret, &str, &str) -> String;
    let rows: [(&str, Seals, bool); 6] = [
        ("the server's", |secret, path, number| secret.seal(number.as_bytes(), path), true),
        ("of an earlier request", |secret, path, _| Requests::new(secret.clone()).ask(path).seal, false),
        ("of another file", |secret, _, number| secret.seal(number.as_bytes(), "/html/1024.html"), false),
        ("of another run", |_, path, number| Secret::default().seal(number.as_bytes(), path), false),
        ("cut", |secret, path, number| secret.seal(number.as_bytes(), path)[1..].to_owned(), false),
        ("none", |_, _, _| String::new(), false),
    ];
    let set = FileSet::nstl(7);
    let file = set.named("/html/20480.html").unwrap().clone();
    for (whose, seal, is_taken) in rows {
        let secret = Secret::default();
        let requests = Requests::new(secret.clone());
        let listener = TcpListener::bind("127.77.22.1:0").unwrap();
        let order = Order {
            from: "127.77.22.2".parse().unwrap(),
            to: listener.local_addr().unwrap(),
            host: "server01",
            file: &file,
            protocol: Protocol::Http11,
            limit: MINUTE,
            tls: None,
            requests: Some(&requests),
            is_last: true,
        };
        let body = file.bytes.clone();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let count = stream.read(&mut request).unwrap();
            let request = String::from_utf8_lossy(&request[..count]);
            let (path, number) = asked(&request);
            answer(&mut stream, &sealed_head(body.len(), &seal(&secret, path, number)), &body);
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let result = runtime.block_on(transact(&mut None, &order, &mut [0; 1000])).map(drop);
        serving.join().unwrap();
        match result {
            Ok(()) => assert!(is_taken, "{whose}"),
            Err(Stop::Failed(Failure::Seal)) => assert!(!is_taken, "{whose}"),
            other => panic!("{whose}: {other:?}"),
        }
    }
}

#[test]
fn what_a_connection_of_an_open_loop_waited_for_its_turn_counts() {
    let files = Arc::new(FileSet::nstl(7));
    let listener = TcpListener::bind("127.77.21.1:0").unwrap();
    let load = Load { http_port: listener.local_addr().unwrap().port(), ..load(1, HTTP) };
    let (served, secret) = (files.clone(), Secret::default());
    let requests = Requests::new(secret.clone());
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let count = stream.read(&mut request).unwrap();
        let request = String::from_utf8_lossy(&request[..count]);
        let (path, number) = asked(&request);
        let file = served.named(path).unwrap();
        let seal = secret.seal(number.as_bytes(), path);
        answer(&mut stream, &sealed_head(file.bytes.len(), &seal), &file.bytes);
    });
    let world = World {
        machines: vec!["127.77.21.2".parse().unwrap()],
        servers: vec!["127.77.21.1".parse().unwrap()],
        files,
        load,
        identities: None,
        turns: Arc::default(),
        requests,
        start: OnceCell::new(),
        buffers: RefCell::default(),
    };
    let tally = Rc::new(RefCell::new(Tally::default()));
    let client = VirtualClient { number: 0, world: Rc::new(world), tally: tally.clone() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let late = Duration::from_secs(5);
    runtime.block_on(async {
        let due = tokio::time::Instant::now() - late;
        client.connect_at(due, None, due, true).await.unwrap();
    });
    serving.join().unwrap();
    let open = &tally.borrow().open;
    for times in [&open.connections, &open.first_byte, &open.last_byte] {
        let times = times.summary().unwrap();
        assert!(times.count == 1 && times.min >= late.as_nanos() as f64 * 0.999, "{times:?}");
    }
}

#[test]
fn an_open_loop_makes_every_connection_that_is_due() {
    for (test, protocol, transactions, ramps) in
        [(18, HTTP11, 3, [0.1, 0.05]), (19, HTTPS, 1, [0.0; 2]), (26, HTTP2, 3, [0.0; 2])]
    {
        let open = OpenLoop {
            connection_rate: 100.0,
            ramp_up_seconds: ramps[0],
            sustain_seconds: 0.3,
            ramp_down_seconds: ramps[1],
        };
        let load = Load {
            arrivals: Arrivals::OpenLoop(open),
            transactions,
            seconds: open.seconds(),
            ..load(1, protocol)
        };
        let outcome = run_here(test, &load, false).unwrap();
        check(&load, &outcome);
        assert_eq!(outcome.ledger.offered, open.connections() * u64::from(transactions));
        let sustained = outcome.application.sustained.unwrap();
        assert_eq!(sustained.due, 30, "{sustained:?}");
        let times = sustained.first_byte_ns.unwrap();
        assert_eq!(times.count, 30 * u64::from(transactions));
        assert!(times.min <= sustained.last_byte_ns.unwrap().min);
    }
}

/// Connections that are held: what the plan is, with so little time to think that each has several transactions.
fn held(connections: u64, opening_rate: f64) -> HeldOpen {
    HeldOpen { connections, opening_rate, hold_seconds: 0.05, think_seconds: Some(0.05) }
}

fn load_of_held(held: HeldOpen, protocol: ProtocolMix, cores: Vec<usize>) -> Load {
    Load { arrivals: Arrivals::Held(held), seconds: held.seconds(), cores, ..load(1, protocol) }
}

#[test]
fn connections_that_are_held_are_open_together_and_each_is_used_after_that() {
    for (test, protocol, plan, cores) in [
        (31, HTTP11, held(1, 1000.0), vec![0]),
        (32, HTTP11, held(2000, 4000.0), vec![0]),
        (33, HTTP11, HeldOpen { hold_seconds: 0.0, ..held(101, 500.0) }, vec![0, 0]),
        (34, HTTPS, held(100, 500.0), vec![0]),
        (27, HTTP2, held(100, 500.0), vec![0]),
    ] {
        let load = load_of_held(plan, protocol, cores);
        let outcome = run_here(test, &load, false).unwrap();
        check(&load, &outcome);
        let held = outcome.application.held.unwrap();
        let all = plan.connections;
        let expected = HeldOutcome {
            asked: all,
            opened: all,
            alive: all,
            accepted: all,
            open_at_servers: all,
            relayed: false,
            limited_by: None,
        };
        assert_eq!(*held, expected, "{plan:?}");
        assert!(outcome.ledger.received >= 2 * all, "{plan:?}: {:?}", outcome.ledger);
    }
}

#[test]
fn a_machine_that_opens_connections_too_late_says_so() {
    // They may take no time at all.
    let late = Load { transaction_limit: Duration::ZERO, ..load_of_held(held(100, 1e15), HTTP11, vec![0]) };
    let outcome = run_here(36, &late, false).unwrap();
    let fault = outcome.fault.unwrap();
    assert!(fault.starts_with("the bench opened 0 of 100 connections in 0.0 s: "), "{fault}");
    assert!(fault.ends_with("lower opening_rate"), "{fault}");
    assert_eq!((outcome.ledger.not_sent, outcome.ledger.residual()), (100, 0), "{:?}", outcome.ledger);
}
