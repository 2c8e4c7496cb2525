//! The gateway of DNS with its sockets, between clients and a name server of this test that lies, says nothing, or knows the answer: only what answers
//! the question is believed, one question asks once, and every wait has an end.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod dns;
mod plain;

use dns::*;
use gateway::config::Gateway;
use gateway::event::{Event, Learned};
use gateway::serve::{Server, listen, listen_datagrams};
use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::origin::patience;

/// A name server that answers as the first label of a name says.
struct Upstream {
    at: SocketAddr,
    seen: Arc<Mutex<HashMap<String, u32>>>,
    /// What was asked at `slow`, to be answered when the test says so.
    let_go: Sender<()>,
}

fn site(name: &str) -> Written<'_> {
    (name, A, 60, vec![198, 51, 100, 7])
}

/// Both at one port.
fn sockets() -> (TcpListener, UdpSocket) {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        if let Ok(datagrams) = UdpSocket::bind(listener.local_addr().unwrap()) {
            return (listener, datagrams);
        }
    }
}

impl Upstream {
    fn start() -> Self {
        let (listener, datagrams) = sockets();
        let at = listener.local_addr().unwrap();
        let seen: Arc<Mutex<HashMap<String, u32>>> = Arc::default();
        let (let_go, waiting) = channel();
        let of_datagrams = Arc::clone(&seen);
        std::thread::spawn(move || answer_datagrams(&datagrams, &of_datagrams, &waiting));
        let of_streams = Arc::clone(&seen);
        std::thread::spawn(move || {
            listener.incoming().flatten().for_each(|it| answer_stream(it, &of_streams))
        });
        Self { at, seen, let_go }
    }

    fn seen(&self, name: &str) -> u32 {
        self.seen.lock().unwrap().get(name).copied().unwrap_or(0)
    }
}

fn note(seen: &Mutex<HashMap<String, u32>>, name: String) {
    *seen.lock().unwrap().entry(name).or_default() += 1;
}

fn answer_datagrams(socket: &UdpSocket, seen: &Mutex<HashMap<String, u32>>, let_go: &Receiver<()>) {
    let mut buffer = [0; 4096];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).unwrap();
        let question = &buffer[..length];
        let (_, name, _) = asked(question);
        note(seen, name.clone());
        let send = |bytes: &[u8]| {
            socket.send_to(bytes, from).unwrap();
        };
        let good = reply(question, 0, [&[site(&name)], &[], &[]]);
        let evil = |place: usize, byte: u8| {
            let mut bytes = reply(question, 0, [&[(&name, A, 60, vec![203, 0, 113, 66])], &[], &[]]);
            bytes[place] ^= byte;
            bytes
        };
        match name.split('.').next().unwrap() {
            "silent" => {}
            "slow" => {
                let_go.recv().unwrap();
                send(&good);
            }
            "private" => send(&reply(question, 0, [&[(&name, A, 60, vec![10, 0, 0, 1])], &[], &[]])),
            "own" => send(&reply(question, 0, [&[(&name, A, 60, vec![127, 0, 0, 1])], &[], &[]])),
            "wrong" => {
                // Another number, another question, a question, another type: then the right one.
                for (place, byte) in [(1, 1), (0, 1), (14, 2), (2, 0x80), (12 + name.len() + 3, 1)] {
                    send(&evil(place, byte));
                }
                // Somebody else, who knows everything.
                let other = UdpSocket::bind("127.0.0.1:0").unwrap();
                other.send_to(&evil(5, 0), from).unwrap();
                send(&good);
            }
            "guessed" => (0..16).for_each(|_| send(&evil(1, 1))),
            "large" => send(
                &[&question[..2], &[0x83, 0x80], &good[4..6], &[0; 6], &good[12..12 + name.len() + 6]]
                    .concat(),
            ),
            "trouble" => send(&reply(question, 2, [&[], &[], &[]])),
            "old" if has_edns(question) => send(&[&question[..2], &[0x81, 0x81], &[0; 8][..]].concat()),
            "nothing" => send(&reply(question, 3, [&[], &[("test", SOA, 60, soa(60))], &[]])),
            "unknown" => send(&reply(question, 3, [&[], &[], &[]])),
            "zero" => send(&reply(question, 0, [&[(&name, A, 0, vec![198, 51, 100, 7])], &[], &[]])),
            "cut" => send(&good[..good.len() - 1]),
            // The next name is an alias for another, beside which somebody says something about a third.
            "alias" => {
                let records: [Written<'_>; 3] = [
                    (&name, CNAME, 60, dns::name("end.test")),
                    site("end.test"),
                    ("bank.test", A, 60, vec![203, 0, 113, 66]),
                ];
                send(&reply(question, 0, [&records, &[], &[]]));
            }
            "signed" if wants_signatures(question) => {
                send(&reply(question, 0, [&[site(&name), (&name, RRSIG, 60, rrsig(A, "test"))], &[], &[]]));
            }
            _ => send(&good),
        }
    }
}

fn answer_stream(mut stream: TcpStream, seen: &Mutex<HashMap<String, u32>>) {
    let Some(question) = read_framed(&mut stream) else { return };
    let (_, name, _) = asked(&question);
    note(seen, format!("{name} by TCP"));
    let records: Vec<Written<'_>> = (0..200).map(|last| (&*name, A, 60, vec![198, 51, 100, last])).collect();
    let records = if name.starts_with("large") { records } else { vec![site(&name)] };
    let _ = stream.write_all(&framed(&reply(&question, 0, [&records, &[], &[]])));
}

fn framed(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

/// `None` at the end.
fn read_framed(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut bytes = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

struct Bed {
    upstream: Upstream,
    server: Server,
    at: SocketAddr,
    events: Receiver<Event>,
}

fn bed(change: impl FnOnce(&mut Gateway)) -> Bed {
    let upstream = Upstream::start();
    let (listener, datagrams) = loop {
        let listener = listen("127.0.0.1:0".parse().unwrap(), None).unwrap();
        if let Ok(datagrams) = listen_datagrams(listener.local_addr().unwrap()) {
            break (listener, datagrams);
        }
    };
    let at = listener.local_addr().unwrap();
    let mut gateway = gateway(at, vec![upstream.at]);
    change(&mut gateway);
    let (sender, events) = sync_channel(10_000);
    let server = Server::start(gateway, listener, Vec::new(), sender).unwrap();
    server.serve_datagrams(datagrams).unwrap();
    Bed { upstream, server, at, events }
}

impl Bed {
    fn client(&self) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(self.at).unwrap();
        socket.set_read_timeout(Some(patience())).unwrap();
        socket
    }

    fn ask_bytes(&self, question: &[u8]) -> Vec<u8> {
        let client = self.client();
        client.send(question).unwrap();
        receive(&client)
    }

    fn ask(&self, name: &str, kind: u16) -> String {
        words(&self.ask_bytes(&question(name, kind)))
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(patience())).unwrap();
        stream
    }

    fn ask_by_tcp(&self, question: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(&framed(question)).unwrap();
        words(&read_framed(&mut stream).unwrap())
    }

    /// The next event: its reason and response code, the type and the name.
    fn event(&self) -> String {
        let event = self.events.recv_timeout(patience()).unwrap();
        let reason = event.reason.unwrap_or_else(|| "carried".to_owned());
        let kind = event.method.unwrap_or_default();
        let name = event.host.unwrap_or_default();
        format!("{reason} {} {kind} {name}", event.status)
    }
}

fn receive(client: &UdpSocket) -> Vec<u8> {
    let mut buffer = [0; 65_535];
    let length = client.recv(&mut buffer).unwrap();
    buffer[..length].to_vec()
}

#[test]
fn only_what_answers_the_question_is_believed() {
    let bed = bed(|gateway| gateway.limits.answer_time = Duration::from_secs(20));
    let good = |name: &str| format!("NOERROR; {name} 1 60 198.51.100.7");
    let whole = |name: &str| (0..200).map(|it| format!("; {name} 1 60 198.51.100.{it}")).collect::<String>();
    let failed = "SERVFAIL".to_owned();
    #[rustfmt::skip]
    let rows: &[(&str, String, String, u32, &str)] = &[
        ("www.test", good("www.test"), good("www.test"), 1, "carried 0"),
        ("wrong.test", good("wrong.test"), good("wrong.test"), 1, "carried 0"),
        ("guessed.test", good("guessed.test"), good("guessed.test"), 1, "carried 0"),
        ("large.test", "NOERROR; tc".to_owned(), format!("NOERROR{}", whole("large.test")), 1, "carried 0"),
        ("old.test", good("old.test"), good("old.test"), 2, "carried 0"),
        ("nothing.test", "NXDOMAIN; authority test 6 60 minimum 60".to_owned(), "NXDOMAIN; authority test 6 60 minimum 60".to_owned(), 1, "carried 3"),
        // Twice by each question: nobody says how long there is nothing, or it is for no time.
        ("unknown.test", "NXDOMAIN".to_owned(), "NXDOMAIN".to_owned(), 2, "carried 3"),
        ("zero.test", "NOERROR; zero.test 1 0 198.51.100.7".to_owned(), "NOERROR; zero.test 1 0 198.51.100.7".to_owned(), 2, "carried 0"),
        // Nobody can answer: each server is asked twice, and then rests.
        ("trouble.test", failed.clone(), failed.clone(), 2, "no-answer 2"),
        ("cut.test", failed.clone(), failed, 2, "no-answer 2"),
        ("private.test", "REFUSED".to_owned(), "REFUSED".to_owned(), 1, "private-answer 5"),
        ("own.test", "REFUSED".to_owned(), "REFUSED".to_owned(), 1, "private-answer 5"),
    ];
    for (name, by_datagram, by_tcp, times, event) in rows {
        // Seconds may have passed before the second.
        let left = |said: String| {
            let whole = |said: String, kind| {
                (1..60)
                    .fold(said, |said, it| said.replace(&format!(" {kind} {it} "), &format!(" {kind} 60 ")))
            };
            whole(whole(said, A), SOA)
        };
        assert_eq!(left(bed.ask(name, A)), *by_datagram, "{name}");
        assert_eq!(bed.event(), format!("{event} A {name}"));
        assert_eq!(left(bed.ask_by_tcp(&question(name, A))), *by_tcp, "{name} by TCP");
        assert_eq!(bed.event(), format!("{event} A {name}"));
        assert_eq!(bed.upstream.seen(name), *times, "{name}");
    }
    assert_eq!(bed.upstream.seen("large.test by TCP"), 1);
    assert_eq!(bed.upstream.seen("guessed.test by TCP"), 1);
    let signed = with_edns(question("signed.test", A), 1232, true);
    let expected = "NOERROR; signed.test 1 60 198.51.100.7; signed.test 46 60 33 bytes; edns 1232 do";
    assert_eq!(words(&bed.ask_bytes(&signed)), expected);
    assert_eq!(bed.ask("signed.test", A), "NOERROR; signed.test 1 60 198.51.100.7", "who does not want them");
    assert_eq!(bed.upstream.seen("signed.test"), 2);
    // Capitals are another spelling, and come back.
    assert!(bed.ask("WWW.test", A).starts_with("NOERROR; WWW.test 1 "));
    assert_eq!(bed.upstream.seen("WWW.test"), 0);
    let counts = bed.server.counts();
    assert_eq!((counts.refused, counts.failed), (4, 4), "{counts:?}");
}

/// A gateway whose packet filter goes by these names, and what it announces.
fn with_domains(domains: &[&str]) -> (Bed, Receiver<Learned>) {
    let domains = domains.iter().map(|it| (*it).to_owned()).collect();
    let bed = bed(|gateway| {
        settings(gateway).domains = domains;
        let mut inside = rule("inside");
        inside.hosts = vec!["*.inside.test".to_owned()];
        inside.private_answers = true;
        gateway.rules.insert(0, inside);
    });
    let (sender, told) = sync_channel(100);
    bed.server.announce_to(sender);
    (bed, told)
}

fn told_words(learned: &Learned) -> String {
    let addresses: Vec<String> = learned.addresses.iter().map(ToString::to_string).collect();
    format!("{} {} {}", learned.name, addresses.join(","), learned.lifetime)
}

#[test]
fn no_client_hears_an_address_before_the_packet_filter_has_it() {
    let (bed, told) = with_domains(&["*.below.test", "*.inside.test"]);
    let next = || told.recv_timeout(patience()).unwrap();
    for (name, expected, answer) in [
        ("a.below.test", "a.below.test 198.51.100.7 60", "NOERROR; a.below.test 1 60 198.51.100.7"),
        (
            "wrong.below.test",
            "wrong.below.test 198.51.100.7 60",
            "NOERROR; wrong.below.test 1 60 198.51.100.7",
        ),
        (
            "private.inside.test",
            "private.inside.test 10.0.0.1 60",
            "NOERROR; private.inside.test 1 60 10.0.0.1",
        ),
        // The name that was asked for, and the addresses at the end.
        (
            "alias.below.test",
            "alias.below.test 198.51.100.7 60",
            "NOERROR; alias.below.test 5 60 end.test; end.test 1 60 198.51.100.7",
        ),
    ] {
        let client = bed.client();
        client.send(&question(name, A)).unwrap();
        let learned = next();
        assert_eq!(told_words(&learned), expected, "{name}");
        client.set_nonblocking(true).unwrap();
        assert!(client.recv(&mut [0; 512]).is_err(), "{name}: nobody has it");
        client.set_nonblocking(false).unwrap();
        bed.server.acknowledged(&[learned.number]);
        assert_eq!(words(&receive(&client)), answer, "{name}");
        assert!(bed.ask_by_tcp(&question(name, A)).starts_with("NOERROR; "), "{name}: it is known");
    }
    // Who gets none, or asks for something else, or for another name.
    for (name, kind, answer) in [
        ("private.below.test", A, "REFUSED"),
        ("nothing.below.test", A, "NXDOMAIN; authority test 6 60 minimum 60"),
        ("cut.below.test", A, "SERVFAIL"),
        ("b.below.test", TXT, "NOERROR"),
        ("below.test", A, "NOERROR; below.test 1 60 198.51.100.7"),
        ("www.test", A, "NOERROR; www.test 1 60 198.51.100.7"),
    ] {
        assert_eq!(bed.ask(name, kind), answer, "{name}");
    }
    assert_eq!(told.try_recv().ok(), None, "and nothing was told of them");
    // The packet filter does not answer.
    assert_eq!(bed.ask("late.below.test", A), "SERVFAIL");
    assert_eq!(told_words(&next()), "late.below.test 198.51.100.7 60");
    let events = std::iter::repeat_with(|| bed.event());
    assert_eq!(
        events.take(20).find(|it| it.starts_with("domain-late")).unwrap(),
        "domain-late 2 A late.below.test"
    );
    // Who asks again is told of again, although the answer is known.
    let client = bed.client();
    client.send(&question("late.below.test", A)).unwrap();
    bed.server.acknowledged(&[next().number]);
    assert!(words(&receive(&client)).starts_with("NOERROR; late.below.test 1 "));
}

#[test]
fn plain_names_of_the_packet_filter_are_looked_up_before_anybody_asks() {
    let domains =
        ["www.test", "zero.test", "private.test", "private.inside.test", "alias.test", "printer.local"];
    let (bed, told) = with_domains(&domains);
    let mut found: BTreeMap<String, u32> = BTreeMap::new();
    // One without a lifetime is asked for again, after some seconds, and on a busy machine before others are answered.
    let zero = "zero.test 198.51.100.7 0";
    while found.len() < 4 || found.get(zero).is_none_or(|times| *times < 2) {
        let learned = told.recv_timeout(patience()).unwrap();
        bed.server.acknowledged(&[learned.number]);
        *found.entry(told_words(&learned)).or_default() += 1;
    }
    let expected =
        ["alias.test 198.51.100.7 60", "private.inside.test 10.0.0.1 60", "www.test 198.51.100.7 60", zero];
    assert_eq!(found.into_keys().collect::<Vec<_>>(), expected);
    assert_eq!(bed.upstream.seen("printer.local"), 0, "nobody outside is asked for what is of a network");
}

#[test]
fn a_rule_may_let_private_answers_pass() {
    let bed = bed(|gateway| {
        let mut inside = rule("inside");
        inside.hosts = vec!["private.test".to_owned()];
        inside.private_answers = true;
        gateway.rules.insert(0, inside);
    });
    assert_eq!(bed.ask("private.test", A), "NOERROR; private.test 1 60 10.0.0.1");
    assert_eq!(bed.ask("own.test", A), "REFUSED");
}

#[test]
fn many_who_ask_the_same_ask_once() {
    let bed = bed(|_| {});
    let clients: Vec<UdpSocket> = (0..50).map(|_| bed.client()).collect();
    for client in &clients {
        client.send(&question("slow.test", A)).unwrap();
    }
    let mut by_tcp = bed.connect();
    by_tcp.write_all(&framed(&question("slow.test", A))).unwrap();
    // Another question is not held up.
    assert_eq!(bed.ask("nobody.localhost", A), "NOERROR; aa; nobody.localhost 1 60 127.0.0.1");
    bed.upstream.let_go.send(()).unwrap();
    for client in &clients {
        assert!(words(&receive(client)).starts_with("NOERROR; slow.test 1 "));
    }
    assert!(words(&read_framed(&mut by_tcp).unwrap()).starts_with("NOERROR; slow.test 1 "));
    assert_eq!(bed.upstream.seen("slow.test"), 1);
}

#[test]
fn a_server_that_says_nothing_is_left_for_another() {
    let dead = UdpSocket::bind("127.0.0.1:0").unwrap();
    dead.set_read_timeout(Some(patience())).unwrap();
    let nobody = dead.local_addr().unwrap();
    let one = bed(|gateway| {
        gateway.resolvers.insert(0, nobody);
        gateway.limits.answer_time = Duration::from_secs(2);
    });
    assert_eq!(one.ask("www.test", A), "NOERROR; www.test 1 60 198.51.100.7");
    let mut buffer = [0; 512];
    assert!(dead.recv(&mut buffer).is_ok(), "it was asked first");
    assert_eq!(one.ask("other.test", A), "NOERROR; other.test 1 60 198.51.100.7");
    dead.set_nonblocking(true).unwrap();
    assert!(dead.recv(&mut buffer).is_err(), "whoever has answered is asked first from then on");
    // Nobody answers: that is said in time, and kept for a while.
    let none = bed(|gateway| {
        gateway.resolvers = vec![nobody];
        gateway.limits.answer_time = Duration::from_secs(1);
    });
    assert_eq!([none.ask("www.test", A), none.ask("www.test", A)], ["SERVFAIL", "SERVFAIL"]);
    assert_eq!(none.server.counts().to_servers, 2, "both rounds, once");
    let itself = bed(|gateway| gateway.resolvers = vec![gateway.listen]);
    assert_eq!(itself.ask("www.test", A), "SERVFAIL", "it does not ask itself");
}

#[test]
fn clients_have_bounds() {
    // The rate: what is beyond it gets nothing, or is told to come by TCP, where addresses cannot be forged.
    let few = bed(|gateway| settings(gateway).rate = 3);
    let client = few.client();
    for _ in 0..6 {
        client.send(&question("a.localhost", A)).unwrap();
    }
    let said: Vec<String> = (0..4).map(|_| words(&receive(&client))).collect();
    let good = "NOERROR; aa; a.localhost 1 60 127.0.0.1";
    assert_eq!(said, [good, good, good, "NOERROR; tc"]);
    let reasons: Vec<String> = (0..6).map(|_| few.event()).collect();
    assert_eq!(reasons.iter().filter(|it| it.starts_with("rate")).count(), 3, "{reasons:?}");
    // Questions under way.
    let one = bed(|gateway| gateway.limits.connections_per_client = 1);
    let client = one.client();
    client.send(&question("slow.test", A)).unwrap();
    client.send(&question("www.test", A)).unwrap();
    assert_eq!(words(&receive(&client)), "SERVFAIL");
    assert_eq!(one.event(), "too-many-questions 2 A www.test");
    one.upstream.let_go.send(()).unwrap();
    assert!(words(&receive(&client)).starts_with("NOERROR"));
    // Whom no rule knows gets nothing by a datagram, and a refusal by TCP.
    let strict = bed(|gateway| gateway.rules[0].source = Some(range("10.0.0.1", "10.0.0.1")));
    let client = strict.client();
    client.send(&question("www.test", A)).unwrap();
    assert_eq!(strict.event(), "no-rule 0 A www.test");
    client.send(&with_edns(question("www.test", A), 1232, false)[..20]).unwrap();
    assert_eq!(strict.event(), "no-rule 0  ");
    client.set_nonblocking(true).unwrap();
    assert!(client.recv(&mut [0; 512]).is_err());
    assert_eq!(strict.ask_by_tcp(&question("www.test", A)), "REFUSED");
}

#[test]
fn connections_end_in_time_and_have_several_questions() {
    let bed = bed(|gateway| {
        gateway.limits.idle = Duration::from_secs(1);
        gateway.limits.head_time = Duration::from_secs(1);
    });
    let mut stream = bed.connect();
    let two = [framed(&question("www.test", A)), framed(&question("a.localhost", AAAA))].concat();
    stream.write_all(&two).unwrap();
    assert!(words(&read_framed(&mut stream).unwrap()).starts_with("NOERROR; www.test 1 "));
    assert_eq!(words(&read_framed(&mut stream).unwrap()), "NOERROR; aa; a.localhost 28 60 ::1");
    assert_eq!(read_framed(&mut stream), None, "and is closed when nothing follows");
    #[rustfmt::skip]
    let rows: &[(&str, Vec<u8>)] = &[
        ("nothing", Vec::new()),
        ("half a length", vec![0]),
        ("half a question", framed(&question("www.test", A))[..9].to_vec()),
        ("an answer", framed(&reply(&question("www.test", A), 0, [&[], &[], &[]]))),
        ("an empty question", vec![0, 0]),
        ("a length beyond that of questions", vec![0x10, 1]),
    ];
    for (what, bytes) in rows {
        let mut stream = bed.connect();
        stream.write_all(bytes).unwrap();
        assert_eq!(read_framed(&mut stream), None, "{what}");
    }
    let mut events = std::iter::repeat_with(|| bed.event());
    assert!(events.any(|event| event.starts_with("long 0 ")), "nobody waits for the rest of it");
    let bed = self::bed(|gateway| gateway.limits.connections_per_client = 3);
    let many: Vec<TcpStream> = (0..3).map(|_| bed.connect()).collect();
    let deadline = std::time::Instant::now() + patience();
    while bed.server.counts().open < 3 {
        assert!(std::time::Instant::now() < deadline);
        std::thread::yield_now();
    }
    assert_eq!(read_framed(&mut bed.connect()), None, "too many");
    drop(many);
}

#[test]
fn another_policy_holds_from_the_next_question_on() {
    let bed = bed(|_| {});
    assert!(bed.ask("www.test", A).starts_with("NOERROR"));
    let mut other = gateway(bed.at, vec![bed.upstream.at]);
    other.rules[0].hosts = vec!["*.example.com".to_owned()];
    bed.server.set(other.clone());
    assert_eq!(bed.ask("www.test", A), "REFUSED", "what is kept needs a rule, too");
    other.rules[0].hosts.clear();
    // Other servers may know other answers.
    let second = Upstream::start();
    other.resolvers = vec![second.at];
    bed.server.set(other);
    assert!(bed.ask("www.test", A).starts_with("NOERROR"));
    assert_eq!(second.seen("www.test"), 1);
}
