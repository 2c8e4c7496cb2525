//! A gateway with its sockets, between clients and servers of this test: what ends early on one side never ends well on the other, connections to
//! servers are used again only if that is safe, and every wait has an end.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod plain;

use gateway::config::{Addresses, Gateway, Rule};
use gateway::event::{Counts, Event};
use gateway::serve::{Server, listen};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};
use testkit::origin::{CALMS, LEAVING, Origin, WEATHER, Weather, patience, read_to_end, request, status};

struct Bed {
    origin: Origin,
    server: Server,
    at: SocketAddr,
    events: Receiver<Event>,
}

fn bed(change: impl FnOnce(&mut Gateway)) -> Bed {
    let origin = Origin::start(TcpListener::bind("127.0.0.1:0").unwrap());
    let listener = listen("127.0.0.1:0".parse().unwrap(), None).unwrap();
    let at = listener.local_addr().unwrap();
    let here: IpAddr = "127.0.0.1".parse().unwrap();
    let hosts = vec!["127.0.0.1".to_owned()];
    let rule = Rule { hosts, largest_request: Some(1 << 20), log: true, ..plain::rule("all", true) };
    let mut gateway = Gateway {
        listen: at,
        rules: vec![rule],
        reach: Addresses(vec![(here, here)]),
        ports: vec![origin.at.port()],
        connect_ports: vec![origin.at.port()],
        decisions: Duration::from_secs(60),
        ..plain::gateway()
    };
    change(&mut gateway);
    let (sender, events) = sync_channel(10_000);
    let server = Server::start(gateway, listener, Vec::new(), sender).unwrap();
    Bed { origin, server, at, events }
}

impl Bed {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(patience())).unwrap();
        stream
    }

    fn get(&self, path: &str, lines: &str) -> String {
        request(true, "GET", self.origin.at, path, &format!("{lines}\r\n"))
    }

    /// Sends bytes, and returns what comes back until the end, and whether that was a good one.
    fn ask(&self, bytes: &str) -> (String, bool) {
        let mut stream = self.connect();
        stream.write_all(bytes.as_bytes()).unwrap();
        read_to_end(&mut stream)
    }

    /// Waits until the counts are so.
    fn until(&self, what: &str, is_so: impl Fn(Counts) -> bool) {
        let deadline = Instant::now() + patience();
        while !is_so(self.server.counts()) {
            assert!(Instant::now() < deadline, "{what}: {:?}", self.server.counts());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asks in this weather, and looks at what comes and at the event.
    fn expect(&self, weather: &Weather) {
        let mut stream = self.connect();
        stream.write_all(self.get(weather.path, "Connection: close\r\n").as_bytes()).unwrap();
        weather.expect(&mut stream, "explicit");
        assert_eq!(self.event(), (weather.reason.to_owned(), weather.status), "{}", weather.path);
    }

    /// The next event's reason and status.
    fn event(&self) -> (String, u16) {
        let event = self.events.recv_timeout(patience()).unwrap();
        (event.reason.unwrap_or_else(|| "carried".to_owned()), event.status)
    }
}

#[test]
fn an_answer_that_ends_early_is_never_a_whole_one() {
    let bed = bed(|_| {});
    for weather in &WEATHER {
        bed.expect(weather);
    }
    let old = format!("GET http://{}/close HTTP/1.0\r\n\r\n", bed.origin.at);
    assert!(bed.ask(&old).0.ends_with("Connection: close\r\n\r\nhello"));
    let (_, is_good) = bed.ask(&old.replace("/close", "/cut-chunk"));
    assert!(!is_good, "a client of 1.0 learns it by the reset");
}

#[test]
fn a_server_that_stops_is_left() {
    let bed = bed(|gateway| {
        gateway.limits.idle = Duration::from_secs(1);
        gateway.limits.answer_time = Duration::from_secs(1);
    });
    for weather in &CALMS {
        bed.expect(weather);
    }
}

#[test]
fn a_client_that_goes_away_is_left() {
    let bed = bed(|_| {});
    let read = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
    for (place, leaving) in (1..).zip(&LEAVING) {
        leaving.go(bed.connect(), true, bed.origin.at, || {
            bed.until(leaving.what, |_| read(&bed.origin.connections) == place);
        });
        assert_eq!(bed.event().0, "client-ended", "{}", leaving.what);
        bed.until(leaving.what, |counts| counts.open == 0 && read(&bed.origin.ended) == place);
    }
}

#[test]
fn connections_that_a_login_has_proved_are_not_used_again() {
    for (credentials, is_reused) in [
        ("Basic eDp5", true),
        ("bearer x", true),
        ("Digest username=\"x\"", true),
        ("NTLM TlRMTVNTUAAB", false),
        ("negotiate YII=", false),
        ("Kerberos x", false),
        ("", false),
    ] {
        let bed = bed(|_| {});
        let mut stream = bed.connect();
        let first = bed.get("/length", &format!("Authorization: {credentials}\r\n"));
        let second = bed.get("/length", "Connection: close\r\n");
        stream.write_all(format!("{first}{second}").as_bytes()).unwrap();
        assert!(read_to_end(&mut stream).0.ends_with("hello"), "{credentials}");
        assert_eq!(bed.server.counts().reused, u64::from(is_reused), "{credentials}");
    }
}

#[test]
fn connections_to_servers_are_used_again_only_after_a_whole_answer() {
    for (first, is_reused) in [
        ("/length", true),
        ("/chunked", true),
        ("/echo", true),
        ("/close", false),
        ("/leave", false),
        ("/more", false),
        ("/short", false),
        ("/two-lengths", false),
    ] {
        let bed = bed(|_| {});
        // One client after the other, so that the thread may be another: the same connection of a client stays with one.
        let mut stream = bed.connect();
        stream.write_all(bed.get(first, "").as_bytes()).unwrap();
        bed.event();
        let same = stream.write_all(bed.get("/length", "Connection: close\r\n").as_bytes());
        let answer = same.map(|()| read_to_end(&mut stream).0).unwrap_or_default();
        if first == "/short" {
            assert_eq!(bed.server.counts().reused, 0, "{first}");
            continue;
        }
        assert!(answer.ends_with("hello"), "{first}: {answer}");
        assert_eq!(bed.server.counts().reused, u64::from(is_reused), "{first}");
        assert_eq!(bed.origin.connections.load(Ordering::SeqCst), 2 - u64::from(is_reused), "{first}");
    }
}

#[test]
fn a_connection_on_which_a_body_was_sent_is_not_used_again() {
    // A server that reads no body where it expects none answers it as a request: the next client would get that answer (CL.0, TE.0).
    for (lines, body, is_reused) in [
        ("Content-Length: 0\r\n", "", true),
        ("Content-Length: 3\r\n", "abc", false),
        ("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n", false),
    ] {
        let bed = bed(|_| {});
        let host = bed.origin.at;
        let mut stream = bed.connect();
        let post = format!("POST http://{host}/length HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n{body}");
        stream.write_all(post.as_bytes()).unwrap();
        bed.event();
        stream.write_all(bed.get("/length", "Connection: close\r\n").as_bytes()).unwrap();
        assert!(read_to_end(&mut stream).0.ends_with("hello"), "{lines}");
        assert_eq!(bed.server.counts().reused, u64::from(is_reused), "{lines}");
    }
}

#[test]
fn a_server_that_left_between_two_requests_is_asked_again_only_what_may_be_repeated() {
    let bed = bed(|_| {});
    let mut stream = bed.connect();
    let host = bed.origin.at;
    let post = format!("POST http://{host}/echo HTTP/1.1\r\nHost: {host}\r\nContent-Length: 2\r\n\r\nab");
    for (bytes, connections) in [(bed.get("/length", ""), 1), (post, 2), (bed.get("/length", ""), 2)] {
        stream.write_all(bytes.as_bytes()).unwrap();
        assert_eq!(bed.event(), ("carried".to_owned(), 200));
        assert_eq!(bed.origin.connections.load(Ordering::SeqCst), connections, "{bytes}");
    }
}

/// Requests that come at once are judged one by one and answered in their order; behind one that is none, or the last one, nothing is a request. The
/// server breaks down if it is asked for what is denied.
#[test]
fn requests_that_come_at_once_are_judged_one_by_one() {
    let bed = bed(|gateway| {
        let private = Rule { paths: vec!["/private".to_owned()], ..plain::rule("private", false) };
        gateway.rules.insert(0, private);
    });
    let host = bed.origin.at;
    let (get, last) = (bed.get("/length", ""), bed.get("/length", "Connection: close\r\n"));
    let private = bed.get("/private", "");
    let post = |path: &str, lines: &str, body: &str| {
        format!("POST http://{host}{path} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n{body}")
    };
    let length = format!("Content-Length: {}\r\n", private.len());
    let chunk = format!("{:x}\r\n{private}\r\n0\r\n\r\n", private.len());
    let chunked = "Transfer-Encoding: chunked\r\n";
    let old = |lines: &str| format!("GET http://{host}/length HTTP/1.0\r\n{lines}\r\n");
    for (what, bytes, expected) in [
        (
            "one that is denied among others",
            [get.clone(), private.clone(), last.clone()].concat(),
            "200 403 200",
        ),
        ("many", [get.repeat(50), last.clone()].concat(), &["200"; 51].join(" ")),
        ("one inside a body", [post("/echo", &length, &private), last.clone()].concat(), "200 200"),
        ("one inside a chunk", [post("/echo", chunked, &chunk), last.clone()].concat(), "200 200"),
        (
            "a body with two lengths, and one inside",
            [get.clone(), post("/echo", &(length.clone() + chunked), &chunk), last.clone()].concat(),
            "200 400",
        ),
        (
            "a line that ends by LF alone",
            [get.clone(), get.replace("HTTP/1.1\r\n", "HTTP/1.1\n"), last.clone()].concat(),
            "200 400",
        ),
        (
            "a body that is denied is read by nobody",
            [post("/private", &length, &private), last.clone()].concat(),
            "403",
        ),
        (
            "HTTP/1.0 that goes on, and that does not",
            [old("Connection: keep-alive\r\n"), old(""), last.clone()].concat(),
            "200 200",
        ),
        (
            "HTTP/1.0 between others",
            [get.clone(), old("Connection: keep-alive\r\n"), last.clone()].concat(),
            "200 200 200",
        ),
        ("the last one, and more", [last.clone(), private.clone()].concat(), "200"),
    ] {
        let (text, _) = bed.ask(&bytes);
        let statuses: Vec<&str> =
            text.split("HTTP/1.").skip(1).filter_map(|answer| answer.get(2..5)).collect();
        // What is echoed is a request, and no answer: it names its version as well.
        let statuses: Vec<&str> = statuses.into_iter().filter(|word| word.parse::<u16>().is_ok()).collect();
        assert_eq!(statuses.join(" "), expected, "{what}: {text}");
    }
}

#[test]
fn bodies_go_through_as_they_are_or_not_at_all() {
    let bed = bed(|_| {});
    let host = bed.origin.at;
    let post = |lines: &str, body: &str| {
        format!("POST http://{host}/echo HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{lines}\r\n{body}")
    };
    let large = "x".repeat(300_000);
    for (bytes, end, reason) in [
        (post("Content-Length: 5\r\n", "abcde"), "\r\n\r\nabcde", ("carried", 200)),
        (post(&format!("Content-Length: {}\r\n", large.len()), &large), &large, ("carried", 200)),
        (
            post("Transfer-Encoding: chunked\r\n", "5\r\nabcde\r\n0\r\n\r\n"),
            "5\r\nabcde\r\n0\r\n\r\n",
            ("carried", 200),
        ),
        (post("Transfer-Encoding: chunked\r\n", "5\r\nabcdefg"), "</html>\n", ("chunk", 400)),
        (post("Content-Length: 1048577\r\n", ""), "</html>\n", ("request-too-large", 413)),
        (
            post("Transfer-Encoding: chunked\r\n", &format!("100001\r\n{}", "x".repeat(0x10_0001))),
            "</html>\n",
            ("request-too-large", 413),
        ),
        (post("Expect: 100-continue\r\nContent-Length: 1\r\n", "a"), "\r\n\r\na", ("carried", 200)),
    ] {
        let (answer, _) = bed.ask(&bytes);
        let shown: String = answer.chars().take(300).collect();
        assert_eq!(bed.event(), (reason.0.to_owned(), reason.1), "{shown}");
        assert!(answer.ends_with(end), "{shown}");
    }
}

#[test]
fn a_page_says_why_and_has_nothing_of_the_request() {
    let bed = bed(|gateway| gateway.rules[0].paths = vec!["/length".to_owned()]);
    let (answer, _) = bed.ask(&bed.get("/%3Cscript%3E", "Connection: close\r\n"));
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    assert!(answer.contains("reason no-rule") && !answer.contains("script"), "{answer}");
    let event = bed.events.recv().unwrap();
    assert_eq!(event.path.as_deref(), Some("/%3Cscript%3E"));
    assert_eq!(bed.origin.connections.load(Ordering::SeqCst), 0, "the server hears nothing of it");
    // The connection goes on after a request without a body, and ends after one with a body.
    let mut stream = bed.connect();
    let both = [bed.get("/x", ""), bed.get("/length", "Connection: close\r\n")].concat();
    stream.write_all(both.as_bytes()).unwrap();
    let (answer, _) = read_to_end(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 403") && answer.ends_with("hello"), "{answer}");
    let host = bed.origin.at;
    let hidden = format!("POST http://{host}/x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100\r\n\r\n");
    let (answer, _) = bed.ask(&[hidden, bed.get("/length", "")].concat());
    assert!(answer.ends_with("</html>\n"), "a body is not the next request: {answer}");
}

#[test]
fn answers_of_other_types_end_here_and_clients_do_not_guess() {
    for (types, path, code, reason) in [
        ("image/*", "/typed", 200, ("carried", 200)),
        ("!image/*", "/typed", 403, ("content-type", 403)),
        ("image/*", "/length", 403, ("no-content-type", 403)),
        ("image/*", "/close", 403, ("no-content-type", 403)),
    ] {
        let bed = bed(|gateway| gateway.rules[0].content_types = vec![types.to_owned()]);
        let (answer, is_good) = bed.ask(&bed.get(path, "Connection: close\r\n"));
        assert_eq!((status(&answer), is_good), (code, true), "{types} {path}");
        assert_eq!(bed.event(), (reason.0.to_owned(), reason.1), "{types} {path}");
        let options = answer.matches("X-Content-Type-Options").count();
        assert_eq!(options, usize::from(code == 200), "{answer}");
        assert!(code != 200 || answer.contains("X-Content-Type-Options: nosniff\r\n"), "{answer}");
        assert_eq!(bed.server.counts().refused, u64::from(code != 200), "{types} {path}");
    }
}

#[test]
fn slow_clients_and_too_many_of_them_are_turned_away() {
    let bed = bed(|gateway| {
        gateway.limits.connections_per_client = 2;
        gateway.limits.idle = Duration::from_secs(3);
        gateway.limits.head_time = Duration::from_secs(3);
    });
    let mut silent = bed.connect();
    let mut slow = bed.connect();
    slow.write_all(b"GET http").unwrap();
    bed.until("both are there", |counts| counts.open == 2);
    let (answer, _) = bed.ask("");
    assert_eq!(status(&answer), 503, "{answer}");
    assert_eq!(read_to_end(&mut silent), (String::new(), true), "nothing asked, nothing answered");
    assert_eq!(status(&read_to_end(&mut slow).0), 408);
    bed.until("they are gone", |counts| counts.open == 0);
    assert_eq!(status(&bed.ask(&bed.get("/length", "Connection: close\r\n")).0), 200, "there is room again");
}

#[test]
fn a_tunnel_carries_both_ways_until_the_policy_ends_it() {
    let bed = bed(|_| {});
    let connect = format!("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n", bed.origin.at);
    let mut stream = bed.connect();
    let request = "GET /length HTTP/1.1\r\nHost: x\r\n\r\n";
    stream.write_all(format!("{connect}{request}").as_bytes()).unwrap();
    let mut bytes =
        vec![0; b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".len()];
    stream.read_exact(&mut bytes).unwrap();
    assert!(bytes.ends_with(b"hello"));
    bed.until("it is carried", |counts| counts.open == 1 && counts.carried == 0);
    let mut other = bed.connect();
    other.write_all(connect.as_bytes()).unwrap();
    let mut head = vec![0; b"HTTP/1.1 200 OK\r\n\r\n".len()];
    other.read_exact(&mut head).unwrap();
    other.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut other), (String::new(), true), "both sides finish");
    assert_eq!(bed.event(), ("carried".to_owned(), 200));
    // Nothing but the rules has changed.
    let mut gateway = gateway_of(&bed);
    gateway.rules.clear();
    bed.server.set(gateway);
    assert!(!read_to_end(&mut stream).1, "it is reset");
    assert_eq!(bed.event(), ("not-allowed-any-more".to_owned(), 200));
    let again = connect.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    assert_eq!(status(&bed.ask(&again).0), 403, "and there is no other");
}

/// The gateway of a bed as it was started.
fn gateway_of(bed: &Bed) -> Gateway {
    let mut found = None;
    drop(self::bed(|gateway| found = Some(gateway.clone())));
    let mut gateway = found.unwrap();
    (gateway.listen, gateway.ports, gateway.connect_ports) =
        (bed.at, vec![bed.origin.at.port()], vec![bed.origin.at.port()]);
    gateway
}

#[test]
fn what_is_only_this_machines_is_not_reached() {
    let bed = bed(|gateway| {
        gateway.reach = Addresses::default();
        gateway.rules[0].hosts.clear();
    });
    for (host, reason) in [
        ("127.0.0.1", "loopback"),
        ("[::1]", "loopback"),
        ("169.254.169.254", "link-local"),
        ("0.0.0.0", "no-server-address"),
    ] {
        let authority = format!("{host}:{}", bed.origin.at.port());
        let (answer, _) = bed.ask(&format!(
            "GET http://{authority}/length HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"
        ));
        assert_eq!(status(&answer), 403, "{host}");
        assert_eq!(bed.event(), (reason.to_owned(), 403), "{host}");
        let (answer, _) = bed
            .ask(&format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"));
        assert_eq!(status(&answer), 403, "{host}");
        assert_eq!(bed.event(), (reason.to_owned(), 403), "{host}");
    }
    assert_eq!(bed.origin.connections.load(Ordering::SeqCst), 0);
}

/// The first message of a client of TLS that asks for a name, as RFC 8446 has it.
fn client_hello(name: Option<&str>) -> Vec<u8> {
    let vector = |bytes: usize, content: &[u8]| {
        let length = (content.len() as u32).to_be_bytes();
        [&length[4 - bytes..], content].concat()
    };
    let extension = name.map_or_else(Vec::new, |name| {
        let names = vector(2, &[vec![0], vector(2, name.as_bytes())].concat());
        [vec![0, 0], vector(2, &names)].concat()
    });
    let body = [
        vec![3, 3],
        vec![7; 32],
        vector(1, &[]),
        vector(2, &[0x13, 1]),
        vector(1, &[0]),
        vector(2, &extension),
    ];
    let message = [vec![1], vector(3, &body.concat())].concat();
    // Two records, as some clients send it.
    let (one, two) = message.split_at(20);
    [vec![22, 3, 1], vector(2, one), vec![22, 3, 1], vector(2, two)].concat()
}

#[test]
fn a_tunnel_that_must_be_tls_for_its_host_is_that_or_ends() {
    use gateway::hello::{Hello, read};
    assert_eq!(read(&client_hello(Some("A.test"))), Hello::Name(Some("a.test".to_owned())));
    assert_eq!(read(&client_hello(None)), Hello::Name(None));
    let whole = client_hello(Some("a.test"));
    for cut in 0..whole.len() {
        assert_eq!(read(&whole[..cut]), Hello::More, "{cut}");
    }
    let bed = bed(|gateway| {
        gateway.rules[0].server_name = true;
        gateway.limits.head_time = Duration::from_secs(3);
    });
    let connect = format!("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n", bed.origin.at);
    for (what, begin, reason) in [
        ("another host", client_hello(Some("a.test")), "server-name"),
        ("no TLS", b"GET /length HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), "no-tls"),
        ("nothing", Vec::new(), "slow-head"),
    ] {
        let mut stream = bed.connect();
        stream.write_all(&[connect.clone().into_bytes(), begin].concat()).unwrap();
        let (_, is_good) = read_to_end(&mut stream);
        assert!(!is_good, "{what}");
        assert_eq!(bed.event(), (reason.to_owned(), 403), "{what}");
    }
    // An address is asked for without a name.
    let mut stream = bed.connect();
    stream.write_all(&[connect.into_bytes(), client_hello(None)].concat()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    read_to_end(&mut stream);
    assert_eq!(bed.event().0, "carried");
}
