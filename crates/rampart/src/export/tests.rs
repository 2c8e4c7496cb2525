use super::ipfix::Ipfix;
use super::journald::Journald;
use super::outlet::{Encoder, Message, Outlet};
use super::syslog::Syslog;
use super::*;
use crate::api::{EventDetails, EventName, ScanCount};
use crate::daemon::events::tests::{closed, details, refused};
use std::collections::BTreeMap;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::time::Instant;

/// How long what must come may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn at(second: i64) -> Timestamp {
    Timestamp::from_millisecond(1_795_168_800_000 + second * 1_000).unwrap()
}

fn origin() -> Origin {
    Origin { host: "fw.example".to_owned(), namespace: "default".to_owned(), pid: 4711 }
}

pub(super) fn report(message: &str) -> Item {
    let by = Some("user 0 (root, process 7)".to_owned());
    Item::Report(Report { at: at(0), event: "applied".to_owned(), by, message: message.to_owned() })
}

fn event(details: EventDetails) -> Item {
    Item::Event(Box::new(Event { number: 7, at: at(0), details }))
}

fn scanned() -> EventDetails {
    let scan = Some(ScanCount { ports: 100, hosts: 2, blocked: true });
    EventDetails { event: EventName::Scan, rule: None, scan, ..details("") }
}

fn only(messages: Vec<Message>) -> Vec<u8> {
    assert_eq!(messages.len(), 1);
    messages.into_iter().next().unwrap().bytes
}

#[test]
fn a_message_of_syslog_is_what_rfc_5424_says() {
    let flow = "number=\"7\" protocol=\"tcp\" source=\"10.0.0.5\" source_port=\"40000\" destination=\"2001:db8::1\" destination_port=\"443\" from=\"in\"";
    for (item, expected) in [
        (
            event(details("web")),
            format!(
                "<134>1 2026-11-20T10:00:00.000Z fw.example rampart 4711 opened [rampart@32473 namespace=\"default\" {flow} to=\"out\" rule=\"web\"] opened  web  tcp 10.0.0.5:40000 > [2001:db8::1]:443  in > out"
            ),
        ),
        (
            event(refused()),
            format!(
                "<133>1 2026-11-20T10:00:00.000Z fw.example rampart 4711 refused [rampart@32473 namespace=\"default\" {flow} reason=\"default-deny\"] refused  (default)  tcp 10.0.0.5:40000 > [2001:db8::1]:443  in > ?  default-deny"
            ),
        ),
        (
            event(closed()),
            format!(
                "<134>1 2026-11-20T10:00:00.000Z fw.example rampart 4711 closed [rampart@32473 namespace=\"default\" {flow} to=\"out\" rule=\"web\" state=\"time-wait\" seconds=\"250\" packets_out=\"6\" bytes_out=\"1395\" packets_back=\"5\" bytes_back=\"783\"] closed  web  tcp 10.0.0.5:40000 > [2001:db8::1]:443  in > out  time-wait after 4min, 6 packets and 1,395 bytes, 5 and 783 back"
            ),
        ),
        (
            event(scanned()),
            format!(
                "<132>1 2026-11-20T10:00:00.000Z fw.example rampart 4711 scan [rampart@32473 namespace=\"default\" {flow} to=\"out\" ports=\"100\" hosts=\"2\" blocked=\"true\"] scan  [scans]  tcp 10.0.0.5:40000 > [2001:db8::1]:443  in > out  had asked in vain for about 100 ports of 2 hosts, and is blocked"
            ),
        ),
        (
            report("p.toml as generation 2"),
            "<133>1 2026-11-20T10:00:00.000Z fw.example rampart 4711 applied [rampart@32473 namespace=\"default\" by=\"user 0 (root, process 7)\"] applied: p.toml as generation 2".to_owned(),
        ),
        (
            report("Zürich\n<0>1 - - - - - -"),
            "<133>1 2026-11-20T10:00:00.000Z fw.example rampart 4711 applied [rampart@32473 namespace=\"default\" by=\"user 0 (root, process 7)\"] \u{feff}applied: Zürich\\n<0>1 - - - - - -".to_owned(),
        ),
    ] {
        let message = only(Syslog::new(16, &origin(), None, false).encode(&item, 0, at(1)));
        assert_eq!(String::from_utf8(message).unwrap(), expected);
        let counted = only(Syslog::new(16, &origin(), None, true).encode(&item, 0, at(1)));
        assert_eq!(String::from_utf8(counted).unwrap(), format!("{} {expected}", expected.len()));
    }
    let own = only(Syslog::new(10, &origin(), Some(9), false).encode(&report("x"), 0, at(1)));
    assert!(
        String::from_utf8(own)
            .unwrap()
            .starts_with("<85>1 2026-11-20T10:00:00.000Z fw.example rampart 4711 applied [rampart@9 ")
    );
    let nameless = Syslog::new(16, &Origin { host: " \n".to_owned(), ..origin() }, None, false).encode(
        &report("x"),
        0,
        at(1),
    );
    assert!(
        String::from_utf8(only(nameless)).unwrap().contains("Z - rampart 4711 "),
        "a host without a name"
    );
}

/// Names and messages that would end a value, a message or a line, or that are too long.
#[test]
fn whatever_is_in_a_message_it_stays_one_message() {
    for (text, in_value) in [
        ("a\"b", "a\\\"b"),
        ("a]b", "a\\]b"),
        ("a\\b", "a\\\\b"),
        ("a\nb", "a\\\\nb"),
        ("a\u{0}b", "a\\\\u{0}b"),
        ("\u{2028}", "\\\\u{2028}"),
        ("東京", "東京"),
    ] {
        let item = Item::Report(Report {
            at: at(0),
            event: "applied".to_owned(),
            by: Some(text.to_owned()),
            message: text.to_owned(),
        });
        let message =
            String::from_utf8(only(Syslog::new(16, &origin(), None, false).encode(&item, 0, at(1)))).unwrap();
        assert!(message.contains(&format!(" by=\"{in_value}\"] ")), "{message}");
        assert!(!message.chars().any(char::is_control), "{message}");
    }
    let long = "ü]".repeat(20_000);
    let item = Item::Report(Report {
        at: at(0),
        event: "trouble".to_owned(),
        by: Some(long.clone()),
        message: long,
    });
    let datagram = only(Syslog::new(16, &origin(), None, false).encode(&item, 0, at(1)));
    assert!((1_170..=1_180).contains(&datagram.len()), "{}", datagram.len());
    let text = String::from_utf8(datagram).unwrap();
    assert!(text.ends_with("...") && text.contains("...\"] "), "{text}");
    let stream = only(Syslog::new(16, &origin(), None, true).encode(&item, 0, at(1)));
    assert!((7_990..=8_005).contains(&stream.len()), "{}", stream.len());
    assert!(only(Journald::new(16, &origin()).encode(&item, 0, at(1))).len() < 20_000);
}

/// The native protocol, as journald reads it.
fn journald_fields(mut bytes: &[u8]) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    while !bytes.is_empty() {
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        let line = &bytes[..end];
        bytes = &bytes[end + 1..];
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let (name, value) = match line.iter().position(|byte| *byte == b'=') {
            Some(at) => (text(&line[..at]), text(&line[at + 1..])),
            None => {
                let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
                let value = text(&bytes[8..8 + length]);
                assert_eq!(bytes[8 + length], b'\n');
                bytes = &bytes[9 + length..];
                (text(line), value)
            }
        };
        assert!(name.chars().all(|c| c.is_ascii_uppercase() || c == '_') && !name.starts_with('_'), "{name}");
        assert_eq!(fields.insert(name.clone(), value), None, "{name} comes once");
    }
    fields
}

#[test]
fn journald_gets_fields_whatever_is_in_them() {
    let mut encoder = Journald::new(16, &origin());
    let fields = journald_fields(&only(encoder.encode(&event(closed()), 0, at(1))));
    for (name, value) in [
        ("PRIORITY", "6"),
        ("SYSLOG_IDENTIFIER", "rampart"),
        ("SYSLOG_FACILITY", "16"),
        ("RAMPART_EVENT", "closed"),
        ("RAMPART_RULE", "web"),
        ("RAMPART_SOURCE", "10.0.0.5"),
        ("RAMPART_BYTES_OUT", "1395"),
        ("RAMPART_AT", "2026-11-20T10:00:00.000Z"),
    ] {
        assert_eq!(fields.get(name).map(String::as_str), Some(value), "{name}: {fields:#?}");
    }
    let id = &fields["MESSAGE_ID"];
    assert!(id.len() == 32 && id.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')), "{id}");
    let other = journald_fields(&only(encoder.encode(&event(refused()), 0, at(1))));
    assert_ne!(*id, other["MESSAGE_ID"]);
    let hostile = "x\n_UID=0\nMESSAGE=forged\n=";
    let item = Item::Report(Report {
        at: at(0),
        event: "denied".to_owned(),
        by: Some(hostile.to_owned()),
        message: hostile.to_owned(),
    });
    let fields = journald_fields(&only(encoder.encode(&item, 0, at(1))));
    assert_eq!(fields["RAMPART_BY"], hostile);
    assert_eq!(fields["MESSAGE"], "denied: x\\n_UID=0\\nMESSAGE=forged\\n=");
}

fn syslog_to(to: To) -> Target {
    Target { form: Form::Syslog { facility: 16 }, to, from: origin(), enterprise: None }
}

pub(super) fn outlet(to: To) -> Outlet {
    let encoder = Syslog::new(16, &origin(), None, to.is_stream());
    Outlet::start(syslog_to(to), Box::new(encoder))
}

pub(super) fn until<T>(mut what: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = what() {
            return found;
        }
        assert!(Instant::now() < deadline, "it never came");
        std::thread::yield_now();
    }
}

/// A message of a stream, by its count.
pub(super) fn counted(mut from: impl Read) -> String {
    let mut length = 0;
    loop {
        let mut byte = [0];
        from.read_exact(&mut byte).unwrap();
        match byte[0] {
            digit @ b'0'..=b'9' => length = length * 10 + usize::from(digit - b'0'),
            other => break assert_eq!(other, b' '),
        }
    }
    let mut message = vec![0; length];
    from.read_exact(&mut message).unwrap();
    String::from_utf8(message).unwrap()
}

fn accept(listener: &TcpListener) -> TcpStream {
    let stream = listener.accept().unwrap().0;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn collectors_get_what_is_sent_by_every_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let (udp, unix) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UnixDatagram::bind(&path).unwrap());
    let tcp = TcpListener::bind("[::1]:0").unwrap();
    udp.set_read_timeout(Some(PATIENCE)).unwrap();
    unix.set_read_timeout(Some(PATIENCE)).unwrap();
    let outlets = [
        outlet(To::Udp(udp.local_addr().unwrap())),
        outlet(To::Tcp(tcp.local_addr().unwrap())),
        outlet(To::Socket(path)),
    ];
    for number in ["1", "2"] {
        outlets.iter().for_each(|outlet| outlet.push(&Arc::new(report(number))));
    }
    let mut stream = accept(&tcp);
    let mut buffer = [0; 2_000];
    for number in ["applied: 1", "applied: 2"] {
        let length = udp.recv(&mut buffer).unwrap();
        assert!(String::from_utf8_lossy(&buffer[..length]).ends_with(number));
        let length = unix.recv(&mut buffer).unwrap();
        assert!(String::from_utf8_lossy(&buffer[..length]).ends_with(number));
        assert!(counted(&mut stream).ends_with(number));
    }
    for outlet in &outlets {
        let state = until(|| Some(outlet.state()).filter(|state| state.sent == 2));
        assert_eq!((state.lost, state.trouble), (0, None));
    }
}

/// A collector that closes its connection, and one that is not there at first: what waits is sent once it is there.
#[test]
fn a_collector_that_goes_and_comes_gets_what_waited() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let outlet = outlet(To::Tcp(address));
    outlet.push(&Arc::new(report("early")));
    let trouble = until(|| outlet.state().trouble);
    assert!(trouble.contains("start the collector's program"), "{trouble}");
    let listener = TcpListener::bind(address).unwrap();
    let mut stream = accept(&listener);
    assert!(counted(&mut stream).ends_with("early"));
    until(|| outlet.state().trouble.is_none().then_some(()));
    for reset in [false, true] {
        if reset {
            // What was not read makes it a reset.
            outlet.push(&Arc::new(report("unread")));
            until(|| (stream.peek(&mut [0]).unwrap() == 1).then_some(()));
        }
        drop(stream);
        outlet.push(&Arc::new(report("late")));
        stream = accept(&listener);
        assert!(counted(&mut stream).ends_with("late"), "{reset}");
    }
    let state = until(|| Some(outlet.state()).filter(|state| state.sent == 4));
    assert_eq!(state.lost, 0);
}

/// Window 0: the kernel takes some, the queue a bounded number, and the rest is lost, counted and reported. Nobody waits.
#[test]
fn a_collector_that_never_reads_costs_a_bounded_number_and_holds_nobody() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let outlet = outlet(To::Tcp(listener.local_addr().unwrap()));
    let mut stream = accept(&listener);
    let message = Arc::new(report(&"x".repeat(900)));
    const SENT: u64 = 200_000;
    let began = Instant::now();
    (0..SENT).for_each(|_| outlet.push(&message));
    assert!(began.elapsed() < PATIENCE);
    assert!(outlet.state().lost >= SENT - 65_536 - 40_000, "{:?}", outlet.state());
    let trouble = until(|| outlet.state().trouble);
    assert!(trouble.contains("does not read"), "{trouble}");
    // It reads again, over another connection, and learns what it has missed.
    let mut next = accept(&listener);
    let first = counted(&mut next);
    assert!(first.contains(" lost [rampart@32473 ") && first.contains("messages were lost"), "{first}");
    assert!(counted(&mut stream).ends_with("xxx"), "what was sent before");
}

/// Flows by template, with the names of elements.
#[derive(Debug, Default)]
struct Decoder {
    templates: BTreeMap<u16, Vec<(u16, u16, u32)>>,
    records: Vec<BTreeMap<(u32, u16), Vec<u8>>>,
    /// Sequence number and time of each message.
    messages: Vec<(u32, u32)>,
}

impl Decoder {
    /// As RFC 7011 section 3 says; panics where a message does not keep to it.
    fn read(&mut self, message: &[u8]) {
        let short = |at: usize| u16::from_be_bytes(message[at..at + 2].try_into().unwrap());
        let long = |at: usize| u32::from_be_bytes(message[at..at + 4].try_into().unwrap());
        assert_eq!((short(0), usize::from(short(2)), long(12)), (10, message.len(), 77));
        assert!(message.len() <= 1_232);
        self.messages.push((long(8), long(4)));
        let mut at = 16;
        while at < message.len() {
            let (set, end) = (short(at), at + usize::from(short(at + 2)));
            at += 4;
            assert!(end <= message.len() && end > at);
            while at < end {
                let start = at;
                if set == 2 || set == 3 {
                    let (number, fields) = (short(at), short(at + 2));
                    at += if set == 2 { 4 } else { 6 };
                    let mut elements = Vec::new();
                    for _ in 0..fields {
                        let (element, length) = (short(at), short(at + 2));
                        at += 4;
                        let enterprise = if element & 0x8000 == 0 { 0 } else { long(at) };
                        at += if element & 0x8000 == 0 { 0 } else { 4 };
                        elements.push((element & 0x7fff, length, enterprise));
                    }
                    self.templates.insert(number, elements);
                } else {
                    let mut record = BTreeMap::new();
                    for (element, length, enterprise) in &self.templates[&set] {
                        let length = if *length == 0xffff {
                            at += 1;
                            usize::from(message[at - 1])
                        } else {
                            usize::from(*length)
                        };
                        record.insert((*enterprise, *element), message[at..at + length].to_vec());
                        at += length;
                    }
                    self.records.push(record);
                }
                assert!(at > start && at <= end);
            }
        }
    }

    fn number(&self, record: usize, element: (u32, u16)) -> u64 {
        self.records[record][&element].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

fn flow(source: &str, aliases: [Option<(IpAddr, u16)>; 2]) -> FlowRecord {
    let source: IpAddr = source.parse().unwrap();
    let destination: IpAddr = if source.is_ipv4() { "192.0.2.7" } else { "2001:db8::7" }.parse().unwrap();
    FlowRecord {
        first: at(0),
        last: at(9),
        protocol: 6,
        ends: [(source, 40_000), (destination, 443)],
        aliases,
        icmp: 0,
        packets: [6, 5],
        bytes: [1_395, 783],
        end: 3,
        rule: Some("web".to_owned()),
        zones: ["in".to_owned(), "out".to_owned()],
    }
}

#[test]
fn a_flow_is_one_record_with_both_directions() {
    let alias = |address: &str, port| Some((address.parse::<IpAddr>().unwrap(), port));
    let flows = vec![
        flow("10.0.0.5", [None, None]),
        flow("2001:db8::5", [None, None]),
        flow("10.0.0.5", [alias("203.0.113.1", 61_000), None]),
        flow("198.51.100.9", [None, alias("203.0.113.1", 8_443)]),
    ];
    for enterprise in [None, Some(9)] {
        let mut decoder = Decoder::default();
        let mut encoder = Ipfix::new(77, enterprise, None);
        for message in encoder.encode(&Item::Flows(flows.clone()), 0, at(10)) {
            decoder.read(&message.bytes);
        }
        assert_eq!(decoder.records.len(), 4);
        for record in 0..4 {
            for (element, value) in [
                ((0, 152), at(0).as_millisecond() as u64),
                ((0, 153), at(9).as_millisecond() as u64),
                ((0, 1), 1_395),
                ((0, 2), 6),
                ((29_305, 1), 783),
                ((29_305, 2), 5),
                ((0, 7), 40_000),
                ((0, 4), 6),
                ((0, 136), 3),
                ((0, 239), 1),
            ] {
                assert_eq!(decoder.number(record, element), value, "{record} {element:?}");
            }
        }
        let v4 =
            |record: usize, element| Ipv4Addr::from(decoder.number(record, (0, element)) as u32).to_string();
        assert_eq!(
            (v4(0, 8), v4(0, 12), decoder.number(0, (0, 11))),
            ("10.0.0.5".into(), "192.0.2.7".into(), 443)
        );
        assert_eq!(
            decoder.records[1][&(0, 28)],
            "2001:db8::7".parse::<std::net::Ipv6Addr>().unwrap().octets()
        );
        assert_eq!(
            (v4(2, 8), v4(2, 225), v4(2, 226), decoder.number(2, (0, 227)), decoder.number(2, (0, 228))),
            ("10.0.0.5".into(), "203.0.113.1".into(), "192.0.2.7".into(), 61_000, 443)
        );
        assert_eq!(
            (v4(3, 12), decoder.number(3, (0, 11)), v4(3, 226), decoder.number(3, (0, 228))),
            ("203.0.113.1".into(), 8_443, "192.0.2.7".into(), 443)
        );
        assert_eq!(decoder.records[0].get(&(9, 1)).map(Vec::as_slice), enterprise.map(|_| b"web".as_slice()));
    }
}

#[test]
fn records_are_numbered_packed_and_made_anew_for_another_line() {
    let flows: Vec<FlowRecord> = (0..100).map(|i| flow(&format!("10.0.0.{i}"), [None, None])).collect();
    let item = Item::Flows(flows);
    let mut encoder = Ipfix::new(77, None, Some(Duration::from_secs(600)));
    let mut decoder = Decoder::default();
    let mut records = 0;
    for (from, second, templates, is_new) in [
        (0, 0, true, false),
        (0, 599, false, false),
        (30, 600, true, false),
        (0, 601, false, false),
        (97, 602, true, true),
        (0, 100, true, false),
    ] {
        if is_new {
            encoder.begin();
            records = 0;
        }
        let messages = encoder.encode(&item, from, at(second));
        assert_eq!(messages[0].units == 0, templates, "{second}");
        assert_eq!(messages.iter().map(|message| message.units).sum::<u64>(), 100 - from, "{second}");
        for message in messages {
            decoder.read(&message.bytes);
            assert_eq!(*decoder.messages.last().unwrap(), (records, at(second).as_second() as u32));
            records += message.units as u32;
        }
    }
    // What was not recorded, and what was lost later: a record of options.
    let before = decoder.records.len();
    for messages in
        [encoder.encode(&Item::FlowsNotRecorded(5), 0, at(101)), encoder.encode_loss(1, 2, at(102))]
    {
        decoder.read(&only(messages));
    }
    assert_eq!([before, before + 1].map(|record| decoder.number(record, (0, 166))), [5, 7]);
    assert_eq!(decoder.number(before, (0, 149)), 77);
}

fn policy(text: &str) -> Policy {
    let zones = "[zones]\nin = { interfaces = 'e1' }\n";
    Policy::parse("p", &format!("{zones}{text}")).unwrap()
}

/// The whole way: what the daemon says comes out of the sockets of the process, which is a thread here.
#[test]
fn targets_of_a_policy_get_what_happens_and_another_policy_moves_them() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let process = std::thread::spawn(move || worker::serve(&theirs));
    let exporter = Exporter::over(ours, "default", None).unwrap();
    let [first, second] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let next = |socket: &UdpSocket| {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut bytes = [0; 2_000];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    let send = |message: &str| {
        exporter.report(|| match report(message) {
            Item::Report(report) => report,
            other => panic!("{other:?}"),
        });
    };
    send("to nowhere");
    let to = |socket: &UdpSocket| format!("'udp://{}'", socket.local_addr().unwrap());
    exporter.set(&policy(&format!("[log]\nsyslog = {}", to(&first))));
    send("one");
    assert!(next(&first).ends_with("applied: one"));
    exporter.set(&policy(&format!("[log]\nsyslog = [{}, {}]", to(&first), to(&second))));
    send("both");
    assert!(next(&first).ends_with("applied: both") && next(&second).ends_with("applied: both"));
    // The first goes on with its counters.
    let state =
        until(|| Some(exporter.targets()).filter(|it| it.len() == 2 && it[0].sent == 2 && it[1].sent == 1));
    assert_eq!(
        (state[0].form.as_str(), &state[0].to),
        ("syslog", &format!("udp://{}", first.local_addr().unwrap()))
    );
    assert_eq!(exporter.troubles(), Vec::<String>::new());
    exporter.set(&policy(&format!("[log]\nsyslog = {}", to(&second))));
    send("the second");
    assert!(next(&second).ends_with("applied: the second"));
    exporter.set(&policy(""));
    send("nowhere again");
    assert_eq!((exporter.targets(), exporter.troubles()), (vec![], vec![]));
    exporter.set(&policy(&format!("[log]\nsyslog = {}\n[log.ipfix]\nto = {}", to(&first), to(&first))));
    send("the last");
    exporter.finish();
    process.join().unwrap();
    assert!(next(&first).ends_with("applied: the last"));
    first.set_nonblocking(true).unwrap();
    assert!(first.recv(&mut [0; 9]).is_err(), "nothing else came");
    until(|| exporter.troubles().first().cloned().filter(|it| it.contains("start the daemon again")));
}

/// A process that was stopped: nothing waits for it, and what has no place is counted.
#[test]
fn a_process_that_does_not_read_holds_nobody() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let exporter = Exporter::over(ours, "default", None).unwrap();
    let wanted = policy("[log]\nsyslog = 'udp://127.0.0.1:9'\n[log.ipfix]\nto = 'udp://127.0.0.1:9'");
    exporter.set(&wanted);
    let flows: Vec<FlowRecord> = vec![flow("10.0.0.1", [None, None]); 10_000];
    let Item::Event(one) = event(details("web")) else { panic!() };
    for _ in 0..30 {
        exporter.flows(&flows, 0);
        (0..1_000).for_each(|_| exporter.event(&one));
    }
    exporter.set(&wanted);
    assert!(exporter.lost() >= 300_000 - FLOWS_WAITING - 20_000, "{}", exporter.lost());
    assert!(exporter.troubles()[0].contains("does not keep up"));
    assert_eq!(exporter.troubles(), Vec::<String>::new(), "once, until more is lost");
}

/// Targets are there with the policy, before the process knows of them, and answers about an earlier set change nothing.
#[test]
fn targets_are_shown_from_the_moment_that_they_are_set() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let exporter = Exporter::over(ours, "default", None).unwrap();
    let shown = |exporter: &Exporter| -> Vec<(String, u64, u64)> {
        exporter.targets().into_iter().map(|it| (it.to, it.sent, it.lost)).collect()
    };
    let answer = |number, states: &[(&str, u64)]| {
        let state = |(to, sent): &(&str, u64)| Export {
            form: "syslog".to_owned(),
            to: (*to).to_owned(),
            sent: *sent,
            lost: 0,
            trouble: Some("why\nnot".to_owned()),
        };
        let states = states.iter().map(state).collect();
        write_frame(&theirs, &serde_json::to_vec(&Answer::Targets { number, states }).unwrap()).unwrap();
    };
    let at = |to: &str, sent| (to.to_owned(), sent, 0);
    let [one, two] = ["udp://192.0.2.1:514", "udp://192.0.2.2:514"];
    assert_eq!(shown(&exporter), []);
    exporter.set(&policy(&format!("[log]\nsyslog = '{one}'")));
    assert_eq!(shown(&exporter), [at(one, 0)]);
    // None yet, and then the first; an address of its own the process cannot show.
    answer(0, &[]);
    answer(1, &[("udp://203.0.113.9:9", 7), (two, 9)]);
    until(|| (exporter.targets()[0].sent == 7).then_some(()));
    assert_eq!(shown(&exporter), [at(one, 7)]);
    assert_eq!(exporter.troubles(), [format!("syslog {one}: whynot")]);
    exporter.set(&policy(&format!("[log]\nsyslog = ['{two}', '{one}']")));
    assert_eq!(shown(&exporter), [at(two, 0), at(one, 7)], "what stays keeps its state");
    let late = Export { sent: 99, ..exporter.targets()[1].clone() };
    exporter.shared.state().update(1, vec![late]);
    assert_eq!(shown(&exporter), [at(two, 0), at(one, 7)], "an answer about the set before");
    answer(2, &[(two, 1), (one, 8)]);
    until(|| (exporter.targets()[1].sent == 8).then_some(()));
    assert_eq!(shown(&exporter), [at(two, 1), at(one, 8)]);
    exporter.set(&policy(""));
    assert_eq!(shown(&exporter), []);
}

/// The collector that a policy takes away learns who took it away, however many items wait.
#[test]
fn what_happened_before_a_policy_goes_to_the_targets_before_it() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let exporter = Exporter::over(ours, "default", None).unwrap();
    exporter.set(&policy("[log]\nsyslog = 'udp://192.0.2.1:514'"));
    // Far more than the stream holds, so that items wait.
    for number in 0..1_000 {
        exporter.report(|| Report {
            at: at(0),
            event: "applied".to_owned(),
            by: None,
            message: format!("{number}{}", "x".repeat(5_000)),
        });
    }
    exporter.set(&policy("[log]\nsyslog = 'udp://192.0.2.2:514'"));
    theirs.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut sets = Vec::new();
    for place in 0..1_002 {
        let frame = read_frame(&theirs, MOST_OF_A_FRAME).unwrap();
        if let Item::Targets { number, .. } = serde_json::from_slice(&frame).unwrap() {
            sets.push((place, number));
        }
    }
    assert_eq!(sets, [(0, 1), (1_001, 2)]);
}

/// Requests name files, and policies have any number of mistakes: a report may be longer than what the two exchange at once.
#[test]
fn a_report_of_any_length_is_sent() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let process = std::thread::spawn(move || worker::serve(&theirs));
    let exporter = Exporter::over(ours, "default", None).unwrap();
    let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
    collector.set_read_timeout(Some(PATIENCE)).unwrap();
    exporter.set(&policy(&format!("[log]\nsyslog = 'udp://{}'", collector.local_addr().unwrap())));
    let long = "ü".repeat(3 << 20);
    for (by, message) in
        [(None, long.clone()), (Some(long), "short".to_owned()), (None, "the last".to_owned())]
    {
        exporter.report(|| Report { at: at(0), event: "refused".to_owned(), by, message });
    }
    let mut bytes = [0; 2_000];
    for end in ["...", "short", "the last"] {
        let length = collector.recv(&mut bytes).unwrap();
        assert!(String::from_utf8_lossy(&bytes[..length]).ends_with(end), "{end}");
    }
    assert_eq!(exporter.troubles(), Vec::<String>::new());
    exporter.finish();
    process.join().unwrap();
}
