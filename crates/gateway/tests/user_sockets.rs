//! Users of a gateway with its sockets: who asks again on the same connection as somebody else, who guesses, and who is not there any more.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod plain;

use base64ct::{Base64, Encoding as _};
use gateway::config::{Addresses, Ftp, Gateway, Protocol, Rule};
use gateway::event::Event;
use gateway::serve::{Server, listen};
use gateway::users::{Hash, User, Users};
use passwords::hash::Hasher;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::time::Duration;
use testkit::origin::{Origin, patience, read_to_end, status};

const RIGHT: &str = "correct horse battery";

fn users(names: &[&str]) -> Option<Users> {
    let hash = Hasher::cheap().unwrap().hash(RIGHT).unwrap();
    let user = |name: &&str| User { name: (*name).to_owned(), groups: Vec::new(), hash: Hash(hash.clone()) };
    Some(Users::new(names.iter().map(user).collect()).unwrap())
}

struct Bed {
    gateway: Gateway,
    server: Server,
    at: SocketAddr,
    origin: SocketAddr,
    events: Receiver<Event>,
}

/// Everything here is for users: anna, ben and carl.
fn bed(protocol: Protocol, origin: SocketAddr) -> Bed {
    let listener = listen("127.0.0.1:0".parse().unwrap(), None).unwrap();
    let at = listener.local_addr().unwrap();
    let here: IpAddr = "127.0.0.1".parse().unwrap();
    let (hosts, users_of_all) = (vec!["127.0.0.1".to_owned()], vec!["*".to_owned()]);
    let rule = Rule { hosts, users: users_of_all, log: true, ..plain::rule("all", true) };
    let gateway = Gateway {
        protocol,
        listen: at,
        // As many that decisions are kept.
        rules: (0..40)
            .map(|n| Rule { hosts: vec![format!("{n}.test")], ..rule.clone() })
            .chain([rule.clone()])
            .collect(),
        reach: Addresses(vec![(here, here)]),
        ports: vec![origin.port()],
        connect_ports: vec![origin.port()],
        decisions: Duration::from_secs(60),
        users: users(&["anna", "ben", "carl"]),
        ..plain::gateway()
    };
    let (sender, events) = sync_channel(100_000);
    let server = Server::start(gateway.clone(), listener, Vec::new(), sender).unwrap();
    Bed { gateway, server, at, origin, events }
}

fn http() -> Bed {
    let origin = Origin::start(TcpListener::bind("127.0.0.1:0").unwrap());
    bed(Protocol::Http, origin.at)
}

impl Bed {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(patience())).unwrap();
        stream
    }

    fn get(&self, user: Option<(&str, &str)>, more: &str) -> String {
        let line = user.map(|(name, password)| {
            let text = Base64::encode_string(format!("{name}:{password}").as_bytes());
            format!("Proxy-Authorization: Basic {text}\r\n")
        });
        let (to, line) = (self.origin, line.unwrap_or_default());
        format!("GET http://{to}/length HTTP/1.1\r\nHost: {to}\r\n{line}{more}\r\n")
    }

    /// The status that a user gets who asks once.
    fn status(&self, name: &str, password: &str) -> u16 {
        let mut stream = self.connect();
        stream.write_all(self.get(Some((name, password)), "Connection: close\r\n").as_bytes()).unwrap();
        status(&read_to_end(&mut stream).0)
    }

    /// The next event: reason and user.
    fn event(&self) -> (String, Option<String>) {
        let event = self.events.recv_timeout(patience()).unwrap();
        (event.reason.unwrap_or_else(|| "carried".to_owned()), event.user)
    }
}

/// The next answer of a connection that stays open, by its length.
fn answer(reader: &mut BufReader<&TcpStream>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    let length =
        head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap().parse().unwrap();
    reader.read_exact(&mut vec![0; length]).unwrap();
    head
}

#[test]
fn each_request_of_a_connection_says_who_asks() {
    let bed = http();
    let stream = bed.connect();
    let mut reader = BufReader::new(&stream);
    for (user, expected, reason, known) in [
        (None, 407, "no-user", None),
        (Some(("anna", RIGHT)), 200, "carried", Some("anna")),
        (Some(("anna", "correct horse")), 407, "wrong-password", Some("anna")),
        (Some(("anna", RIGHT)), 200, "carried", Some("anna")),
        (None, 407, "no-user", None),
        (Some(("ben", RIGHT)), 200, "carried", Some("ben")),
        (Some(("dora", RIGHT)), 407, "wrong-password", Some("dora")),
        (Some(("My Secret", RIGHT)), 407, "wrong-password", None),
    ] {
        (&stream).write_all(bed.get(user, "").as_bytes()).unwrap();
        let head = answer(&mut reader);
        assert_eq!(status(&head), expected, "{user:?}: {head}");
        let challenge = "Proxy-Authenticate: Basic realm=\"web\", charset=\"UTF-8\"\r\n";
        assert_eq!(head.contains(challenge), expected == 407, "{user:?}: {head}");
        assert_eq!(bed.event(), (reason.to_owned(), known.map(str::to_owned)), "{user:?}");
    }
    let counts = bed.server.counts();
    assert_eq!((counts.connections, counts.carried, counts.refused), (1, 3, 5));
}

#[test]
fn who_guesses_waits_and_others_do_not() {
    let bed = http();
    assert_eq!(bed.status("anna", RIGHT), 200);
    // A program with an old password tries no other one.
    for _ in 0..100 {
        assert_eq!(bed.status("anna", "an old password"), 407);
    }
    assert_eq!(bed.status("anna", RIGHT), 200);
    let tries = (0..200).position(|n| match bed.status("carl", &format!("guess {n}")) {
        407 => false,
        other => {
            assert_eq!(other, 429);
            true
        }
    });
    assert!(tries.unwrap() >= 5, "{tries:?}");
    assert_eq!(bed.status("carl", RIGHT), 429, "a right guess is not told from a wrong one");
    assert_eq!(bed.status("ben", RIGHT), 200, "another user at the same address");
    (0..200).find(|n| bed.status(&format!("nobody{n}"), "x") == 429).unwrap();
    assert_eq!(bed.status("anna", RIGHT), 429, "whoever else is at that address waits, too");
    let reasons: Vec<String> = bed.events.try_iter().filter_map(|event| event.reason).collect();
    assert!(reasons.iter().any(|reason| reason == "throttled"), "{reasons:?}");
}

/// Far more than can be compared, while somebody else logs in.
#[test]
fn ten_thousand_guesses_at_once_keep_nobody_else_out() {
    let bed = http();
    let mut attackers: Vec<TcpStream> = (0..100).map(|_| bed.connect()).collect();
    for (n, attacker) in attackers.iter_mut().enumerate() {
        let guesses = (0..100).map(|m| bed.get(Some(("anna", &format!("{n} {m}"))), ""));
        attacker.write_all(guesses.collect::<String>().as_bytes()).unwrap();
    }
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let other: SocketAddr = "127.0.0.2:0".parse().unwrap();
    socket.bind(&other.into()).unwrap();
    socket.connect(&bed.at.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.write_all(bed.get(Some(("ben", RIGHT)), "Connection: close\r\n").as_bytes()).unwrap();
    assert_eq!(status(&read_to_end(&mut stream).0), 200);
    let mut compared = 0;
    for attacker in &attackers {
        let mut reader = BufReader::new(attacker);
        for _ in 0..100 {
            let found = status(&answer(&mut reader));
            assert!([407, 429, 503].contains(&found), "{found}");
            compared += u32::from(found == 407);
        }
    }
    assert!(compared < 100, "{compared}");
}

#[test]
fn who_is_not_a_user_any_more_keeps_no_tunnel() {
    let bed = http();
    let open = |name: &str| {
        let mut stream = bed.connect();
        let request = bed
            .get(Some((name, RIGHT)), "")
            .replace(&format!("GET http://{}/length", bed.origin), &format!("CONNECT {}", bed.origin));
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = [0; 19];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200 OK\r\n\r\n");
        stream
    };
    let (mut anna, mut ben) = (open("anna"), open("ben"));
    // ben's password is another one: its hash has another salt.
    let only_anna = |users: Option<Users>| {
        let anna = bed.gateway.users.as_ref().unwrap().find("anna").unwrap().clone();
        let ben = users.unwrap().find("ben").unwrap().clone();
        Some(Users::new(vec![anna, ben]).unwrap())
    };
    bed.server.set(Gateway { users: only_anna(users(&["ben"])), ..bed.gateway.clone() });
    assert_eq!(read_to_end(&mut ben), (String::new(), false), "it is reset");
    assert_eq!(bed.status("ben", RIGHT), 200, "the new hash is of the same password");
    anna.write_all(b"GET /length HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert_eq!(status(&answer(&mut BufReader::new(&anna))), 200, "another's tunnel goes on");
    bed.server.set(Gateway { users: users(&["dora"]), ..bed.gateway.clone() });
    assert_eq!(bed.status("anna", RIGHT), 407, "what was right a moment ago is forgotten");
    assert_eq!(bed.status("dora", RIGHT), 200);
}

/// A server of FTP that tells what it is sent.
fn server() -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let (lines, heard) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            stream.write_all(b"220 hello\r\n").unwrap();
            for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
                let reply = if line.starts_with("USER") { "331 password" } else { "230 fine" };
                let _ = lines.send(line);
                let _ = stream.write_all(format!("{reply}\r\n").as_bytes());
            }
        }
    });
    (at, heard)
}

#[test]
fn clients_of_ftp_log_in_in_both_ways() {
    let (origin, heard) = server();
    let bed = bed(Protocol::Ftp(Ftp { data_ports: (61_000, 61_999), is_active: false }), origin);
    let (at, right) = (format!("me@{origin}"), format!("PASS {RIGHT}"));
    let (user, both) = (format!("USER {at}"), format!("USER me@anna@{origin}"));
    let (right_both, wrong_both) = (format!("PASS there@{RIGHT}"), "PASS there@wrong");
    for (what, lines, expected, seen) in [
        (
            "one after the other",
            &[("USER anna", 331), (&right, 230), (&user, 331), ("PASS there", 230)][..],
            "carried",
            &["USER me", "PASS there"][..],
        ),
        ("both at once", &[(&both, 331), (&right_both, 230)], "carried", &["USER me", "PASS there"]),
        ("wrong", &[("USER anna", 331), ("PASS there", 530), (&user, 530)], "wrong-password", &[]),
        ("both, wrong", &[(&both, 331), (wrong_both, 530), ("PASS there", 503)], "wrong-password", &[]),
        ("nobody", &[(&user, 530)], "not-logged-in", &[]),
    ] {
        let stream = bed.connect();
        let mut reader = BufReader::new(&stream);
        let mut reply = String::new();
        reader.read_line(&mut reply).unwrap();
        for (line, code) in lines {
            (&stream).write_all(format!("{line}\r\n").as_bytes()).unwrap();
            reply.clear();
            reader.read_line(&mut reply).unwrap();
            assert!(reply.starts_with(&code.to_string()), "{what}: {line}: {reply}");
        }
        for line in seen {
            assert_eq!(heard.recv_timeout(patience()).unwrap(), *line, "{what}");
        }
        assert!(heard.try_recv().is_err(), "{what}: nothing else goes to a server");
        if expected != "carried" {
            let event = bed.events.recv_timeout(patience()).unwrap();
            assert_eq!(event.reason.as_deref(), Some(expected), "{what}");
            assert!(!format!("{event:?}").contains("there"), "{what}: no password is in an event: {event:?}");
        }
        bed.events.try_iter().count();
    }
}
