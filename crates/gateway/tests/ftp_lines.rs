//! FTP as lines, without sockets: what comes of a client's commands and of a server's replies, whoever has written them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod plain;

use gateway::config::{Ftp, Gateway, Mode, Protocol, Rule};
use gateway::ftp::session::{self, Session, Step};
use gateway::ftp::{address, command, reply};
use proptest::prelude::Strategy as _;
use std::net::SocketAddr;

fn rule(name: &str, hosts: &[&str], methods: &[&str], allow: bool) -> Rule {
    let strings = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    Rule { hosts: strings(hosts), methods: strings(methods), ..plain::rule(name, allow) }
}

/// `a.test` may be read, `b.test` may be used in every way but to delete, others in none.
fn gateway(mode: Mode) -> Gateway {
    Gateway {
        name: "files".to_owned(),
        protocol: Protocol::Ftp(Ftp { data_ports: (61_000, 61_999), is_active: false }),
        listen: "10.0.0.1:2121".parse().unwrap(),
        mode,
        rules: vec![
            rule("no-delete", &[], &["DELE"], false),
            rule("read", &["a.test"], &["RETR", "LIST", "NLST"], true),
            rule("all", &["b.test", "192.0.2.1", "2001:db8::1"], &[], true),
        ],
        ports: vec![21, 2100],
        ..plain::gateway()
    }
}

#[test]
fn lines_of_clients() {
    for (line, expected) in [
        (&b"RETR a b "[..], "RETR a b "),
        (b"retr  x", "RETR  x"),
        (b"Retr \xc3\xa4", "RETR \u{e4}"),
        (b"PWD", "PWD"),
        (b"XPWD", "PWD"),
        (b"XRMD x", "RMD x"),
        (b"CWD ../../..", "CWD ../../.."),
        (b"\xff\xf4\xff\xf2ABOR", "ABOR"),
        (b"\xf2ABOR", "ABOR"),
        (b"TYPE a", "TYPE a"),
        (b"OPTS utf8 on", "OPTS utf8 on"),
        (b"STAT", "STAT"),
        // Whoever ends lines at these would read a second command.
        (b"RETR a\rDELE b", "501 control-character"),
        (b"RETR a\0DELE b", "501 control-character"),
        (b"RETR a\x0bDELE b", "501 control-character"),
        (b"RETR a\tb", "501 control-character"),
        (b"RETR a\x7f", "501 control-character"),
        (b"RETR a\xff\xf4b", "501 control-character"),
        (b"", "502 command"),
        (b" RETR a", "502 command"),
        (b"RETR", "501 parameter"),
        (b"RETR ", "501 parameter"),
        (b"RETRX a", "502 command"),
        (b"SITE EXEC x", "502 command"),
        (b"HOST x", "502 command"),
        (b"SMNT /", "502 command"),
        (b"REIN", "502 command"),
        (b"EHLO x", "502 command"),
        (b"GET / HTTP/1.1", "502 command"),
        (b"AUTH TLS", "502 encryption"),
        (b"AUTH GSSAPI", "502 encryption"),
        (b"PBSZ 0", "502 encryption"),
        (b"PROT P", "534 encryption"),
        (b"CCC", "502 encryption"),
        (b"TYPE E", "504 parameter"),
        (b"TYPE A T", "504 parameter"),
        (b"MODE B", "504 parameter"),
        (b"MODE Z", "504 parameter"),
        (b"STRU R", "504 parameter"),
        (b"OPTS MODE Z LEVEL 9", "501 parameter"),
        (b"REST 1,2", "501 parameter"),
        (b"REST -1", "501 parameter"),
    ] {
        let found = match command::read(line) {
            Ok(command) => String::from_utf8(command.line()).unwrap(),
            Err(fault) => format!("{} {}\r\n", fault.status, fault.reason),
        };
        assert_eq!(found.strip_suffix("\r\n"), Some(expected), "{}", line.escape_ascii());
    }
    let long = [b"RETR ".to_vec(), vec![b'a'; 1 << 20]].concat();
    assert_eq!(command::read(&long).unwrap_err().reason, "line-too-long");
    let secret = command::read(b"PASS secret").unwrap();
    assert_eq!(secret.shown(), None, "events are read by others");
}

/// What becomes of the last of some lines, in a few words.
fn step(gateway: &Gateway, session: &mut Session, at: &str, lines: &[&str]) -> String {
    let at: SocketAddr = at.parse().unwrap();
    let client = if at.is_ipv4() { "10.0.0.7" } else { "2001:db8::7" }.parse().unwrap();
    let mut last = String::new();
    for line in lines {
        let command = command::read(line.as_bytes()).unwrap();
        last = match session.step(gateway, client, at, &command) {
            Step::Say(reply) => reply.code.to_string(),
            Step::Refuse(rule, fault) => {
                let rule = rule.map(|place| format!(" {}", gateway.rules[place].name)).unwrap_or_default();
                format!("{} {}{rule}", fault.status, fault.reason)
            }
            Step::End(fault) => format!("{} {}, the end", fault.status, fault.reason),
            Step::LogIn(..) => "log in".to_owned(),
            Step::Connect(asked, user, _) => {
                let host = asked.host();
                session.asked = Some(asked);
                format!("{} at {host}", String::from_utf8(user).unwrap())
            }
            Step::Pass(rule) => {
                format!(
                    "pass{}",
                    rule.map(|place| format!(" {}", gateway.rules[place].name)).unwrap_or_default()
                )
            }
            Step::Listen { extended } => format!("listen{}", if extended { " extended" } else { "" }),
            Step::Call(at) => format!("call {at}"),
            Step::Transfer(rule) => format!("transfer {}", gateway.rules[rule].name),
            Step::Quit => "quit".to_owned(),
        };
    }
    last
}

#[test]
fn what_is_done_about_commands() {
    const V4: &str = "10.0.0.1:2121";
    const V6: &str = "[2001:db8::99]:2121";
    const A: &str = "USER u@a.test";
    const B: &str = "USER u@b.test";
    let gateway = gateway(Mode::Explicit);
    for (at, lines, expected) in [
        (V4, &["USER u@a.test"][..], "u at a.test:21"),
        (V4, &["USER u@A.TEST."], "u at a.test:21"),
        (V4, &["USER u@home@b.test:2100"], "u@home at b.test:2100"),
        (V4, &["USER u@192.0.2.1"], "u at 192.0.2.1:21"),
        (V4, &["USER u@[2001:db8::1]:2100"], "u at [2001:db8::1]:2100"),
        (V4, &["USER u@2001:db8::1"], "u at [2001:db8::1]:21"),
        (V4, &["USER u"], "530 no-host"),
        (V4, &["USER @a.test"], "530 no-host"),
        (V4, &["USER u@"], "530 no-host"),
        (V4, &["USER u@c.test"], "530 no-rule"),
        (V4, &["USER u@a.test:22"], "530 port"),
        (V4, &["USER u@a.test:"], "530 host"),
        (V4, &["USER u@0x7f000001"], "530 host"),
        (V4, &["USER u@127.1"], "530 host"),
        (V4, &["USER u@a.test/x"], "530 host"),
        (V4, &["PASS x"], "503 no-user"),
        (V4, &["RETR x"], "530 no-user"),
        (V4, &["FEAT"], "530 no-user"),
        (V4, &["PASV"], "530 no-user"),
        (V4, &["PORT 10,0,0,7,20,0"], "530 no-user"),
        (V4, &["NOOP"], "200"),
        (V4, &["QUIT"], "quit"),
        // A server that is refused is not the one before.
        (V4, &[A, "USER u@c.test", "RETR x"], "530 no-user"),
        (V4, &[A, "PASS x"], "pass"),
        (V4, &[A, "CWD ../.."], "pass"),
        (V4, &[A, "RETR x"], "transfer read"),
        (V4, &[A, "SIZE x"], "pass read"),
        (V4, &[A, "MDTM x"], "pass read"),
        (V4, &[A, "MDTM a name 20200101"], "pass read"),
        (V4, &[A, "MDTM 20200101"], "pass read"),
        // Where a time stands before the name, servers set it: vsftpd as soon as it is a day, Serv-U with a zone behind it.
        (V4, &[A, "MDTM 20200101000000 x"], "550 no-rule"),
        (V4, &[A, "MDTM 20200101 x"], "550 no-rule"),
        (V4, &[A, "MDTM 20200101000000.123 x"], "550 no-rule"),
        (V4, &[A, "MDTM 20200101000000+120 a b"], "550 no-rule"),
        (V4, &[B, "MDTM 20200101000000 x"], "pass all"),
        (V4, &[A, "MFMT 20200101000000 x"], "550 no-rule"),
        (V4, &[A, "MLSD"], "transfer read"),
        (V4, &[A, "STAT /"], "pass read"),
        (V4, &[A, "STAT"], "pass"),
        (V4, &[A, "STOR x"], "550 no-rule"),
        (V4, &[A, "APPE x"], "550 no-rule"),
        (V4, &[A, "STOU"], "550 no-rule"),
        (V4, &[A, "RNFR x"], "550 no-rule"),
        (V4, &[A, "MKD x"], "550 no-rule"),
        (V4, &[A, "XMKD x"], "550 no-rule"),
        (V4, &[A, "DELE x"], "550 rule-deny no-delete"),
        (V4, &[B, "STOR x"], "transfer all"),
        (V4, &[B, "DELE x"], "550 rule-deny no-delete"),
        (V4, &[A, "ABOR"], "226"),
        (V4, &[A, "PASV"], "listen"),
        (V4, &[A, "EPSV"], "listen extended"),
        (V4, &[A, "EPSV 1"], "listen extended"),
        (V4, &[A, "EPSV 2"], "522 family"),
        (V4, &[A, "EPSV x"], "522 family"),
        (V4, &[A, "EPSV ALL"], "200"),
        (V4, &[A, "EPSV ALL", "PASV"], "501 extended-only"),
        (V4, &[A, "EPSV ALL", "PORT 10,0,0,7,20,0"], "501 extended-only"),
        (V4, &[A, "EPSV ALL", "EPRT |1|10.0.0.7|5120|"], "501 extended-only"),
        (V4, &[A, "EPSV ALL", "EPSV"], "listen extended"),
        (V6, &[A, "PASV"], "425 extended-only"),
        (V6, &[A, "EPSV 2"], "listen extended"),
        (V4, &[A, "PORT 10,0,0,7,20,0"], "call 10.0.0.7:5120"),
        // To somebody else, or to a server (RFC 2577).
        (V4, &[A, "PORT 10,0,0,8,20,0"], "501 other-address"),
        (V4, &[A, "PORT 127,0,0,1,20,0"], "501 other-address"),
        (V4, &[A, "PORT 10,0,0,1,20,0"], "501 other-address"),
        (V4, &[A, "PORT 10,0,0,7,0,25"], "501 low-port"),
        (V4, &[A, "PORT 10,0,0,7,3,255"], "501 low-port"),
        (V4, &[A, "PORT 10,0,0,7,4,0"], "call 10.0.0.7:1024"),
        (V4, &[A, "PORT 10,0,0,7,20"], "501 address"),
        (V4, &[A, "PORT 10,0,0,7,20,0,1"], "501 address"),
        (V4, &[A, "PORT 10,0,0,263,20,0"], "501 address"),
        (V4, &[A, "PORT 10,0,0,+7,20,0"], "501 address"),
        (V4, &[A, "PORT 10, 0,0,7,20,0"], "501 address"),
        (V4, &[A, "EPRT |1|10.0.0.7|5120|"], "call 10.0.0.7:5120"),
        (V4, &[A, "EPRT !1!10.0.0.7!5120!"], "call 10.0.0.7:5120"),
        (V4, &[A, "EPRT |2|::ffff:10.0.0.7|5120|"], "call 10.0.0.7:5120"),
        (V4, &[A, "EPRT |1|10.0.0.8|5120|"], "501 other-address"),
        (V4, &[A, "EPRT |2|2001:db8::7|5120|"], "501 other-address"),
        (V4, &[A, "EPRT |1|10.0.0.7|80|"], "501 low-port"),
        (V4, &[A, "EPRT |2|10.0.0.7|5120|"], "501 address"),
        (V4, &[A, "EPRT |3|10.0.0.7|5120|"], "522 family"),
        (V4, &[A, "EPRT |1|10.0.0.7|5120"], "501 address"),
        (V4, &[A, "EPRT |1|10.0.0.7|65536|"], "501 address"),
        (V6, &[A, "EPRT |2|2001:db8::7|5120|"], "call [2001:db8::7]:5120"),
        (V6, &[A, "EPRT |2|fe80::1|5120|"], "501 other-address"),
        (V6, &[A, "PORT 10,0,0,7,20,0"], "501 other-address"),
    ] {
        let found = step(&gateway, &mut Session::default(), at, lines);
        assert_eq!(found, expected, "{lines:?}");
    }
}

#[test]
fn clients_that_know_of_no_gateway_stay_at_their_server() {
    let transparent = gateway(Mode::Transparent);
    for (at, lines, expected) in [
        ("192.0.2.1:21", &["USER u"][..], "pass"),
        ("192.0.2.1:21", &["USER u@a.test"], "pass"),
        ("192.0.2.1:21", &["USER u", "RETR x"], "transfer all"),
        ("192.0.2.1:21", &["DELE x"], "550 rule-deny no-delete"),
        ("192.0.2.1:21", &["PASV"], "listen"),
        ("192.0.2.2:21", &["USER u"], "421 not-allowed-any-more, the end"),
        ("192.0.2.2:21", &["RETR x"], "421 not-allowed-any-more, the end"),
        ("192.0.2.1:22", &["RETR x"], "421 not-allowed-any-more, the end"),
    ] {
        let mut session = Session::default();
        session.asked = Some(session::transparent(at.parse().unwrap()));
        assert_eq!(step(&transparent, &mut session, at, lines), expected, "{at} {lines:?}");
    }
}

#[test]
fn replies_of_servers() {
    for (bytes, expected) in [
        ("220 hello\r\n", "220 hello\r\n"),
        ("220 hello\n", "220 hello\r\n"),
        ("220\r\n", "220 \r\n"),
        ("230-a\r\n230-b\r\n230 c\r\n", "230-a\r\nb\r\n230 c\r\n"),
        ("230-a\r\n b\r\n230 c\r\n", "230-a\r\n b\r\n230 c\r\n"),
        // A line inside that some clients take for the last one.
        (
            "230-a\r\n227 Entering (10,0,0,9,0,25)\r\n230 c\r\n",
            "230-a\r\n 227 Entering (10,0,0,9,0,25)\r\n230 c\r\n",
        ),
        ("230-a\r\n2", "more"),
        ("23", "more"),
        ("hello\r\n", "server-reply"),
        ("620 x\r\n", "server-reply"),
        ("020 x\r\n", "server-reply"),
        ("22 x\r\n", "server-reply"),
        ("220x\r\n", "server-reply"),
        ("220 a\rb\r\n", "server-reply"),
        ("220 a\0b\r\n", "server-reply"),
        ("220 a\x1b[2J\r\n", "server-reply"),
        ("\r\n", "server-reply"),
    ] {
        let found = match reply::read(bytes.as_bytes()) {
            Ok(Some((reply, read))) => {
                assert_eq!(read, bytes.len(), "{bytes:?}");
                String::from_utf8(reply.bytes()).unwrap()
            }
            Ok(None) => "more".to_owned(),
            Err(fault) => fault.reason.to_owned(),
        };
        assert_eq!(found, expected, "{bytes:?}");
    }
    for endless in
        ["220 ".to_owned() + &"a".repeat(1 << 20), "220-\r\n".to_owned() + &" a\r\n".repeat(1 << 18)]
    {
        assert_eq!(reply::read(endless.as_bytes()).unwrap_err().reason, "server-reply-too-long");
    }
    let (reply, read) = reply::read(b"226 done\r\n226 again\r\n").unwrap().unwrap();
    assert_eq!((reply.code, read), (226, 10), "one at a time");
    let features =
        b"211-Features:\r\n AUTH TLS\r\n EPSV\r\n mode z\r\n REST STREAM\r\n UTF8\r\n XCRC\r\n211 End\r\n";
    let (reply, _) = reply::read(features).unwrap().unwrap();
    let known = String::from_utf8(reply.known_features().bytes()).unwrap();
    assert_eq!(known, "211-Features:\r\n EPSV\r\n REST STREAM\r\n UTF8\r\n211 End\r\n");
}

#[test]
fn ports_in_replies_and_addresses_in_commands() {
    for (text, expected) in [
        ("Entering Passive Mode (10,0,0,9,4,210)", Some(1234)),
        ("Entering Passive Mode. 10,0,0,9,4,210", Some(1234)),
        ("=10,0,0,9,4,210", Some(1234)),
        ("(10,0,0,9,4,210,7)", None),
        ("(10,0,0,9,4,256)", None),
        ("(10,0,0,9,4)", None),
        ("", None),
    ] {
        assert_eq!(address::of_passive(text.as_bytes()), expected, "{text}");
    }
    for (text, expected) in [
        ("Entering Extended Passive Mode (|||1234|)", Some(1234)),
        ("(!!!1234!)", Some(1234)),
        ("(||!1234|)", None),
        ("(|1|10.0.0.9|1234|)", None),
        ("(|||65536|)", None),
        ("(||||)", None),
        ("|||1234|", None),
        ("(", None),
    ] {
        assert_eq!(address::of_extended_passive(text.as_bytes()), expected, "{text}");
    }
    for at in ["10.0.0.9:1234", "[2001:db8::1]:65535"] {
        let at: SocketAddr = at.parse().unwrap();
        let again = address::of_extended(address::extended(at).as_bytes());
        assert_eq!(again, Some(address::Extended::At(at)));
        if let std::net::IpAddr::V4(v4) = at.ip() {
            assert_eq!(address::of_six_numbers(address::six_numbers(v4, at.port()).as_bytes()), Some(at));
        }
    }
}

proptest::proptest! {
    /// Whatever came, one command and one reply go on, and whoever reads them again reads the same.
    #[test]
    fn what_goes_on_is_one_line_or_one_reply(
        line in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..8).prop_map(|tail| [b"RETR a", &tail[..]].concat()),
        bytes in "(?s)(2[0-9]{2}[- ].{0,12}\r?\n|.{0,12}\n){0,4}".prop_map(|text| text.into_bytes()),
    ) {
        if let Ok(command) = command::read(&line) {
            let sent = command.line();
            let (whole, end) = sent.split_at(sent.len() - 2);
            proptest::prop_assert_eq!(end, b"\r\n");
            proptest::prop_assert!(!whole.iter().any(u8::is_ascii_control));
            proptest::prop_assert_eq!(command::read(whole), Ok(command));
        }
        if let Ok(Some((reply, read))) = reply::read(&bytes) {
            proptest::prop_assert!(read <= bytes.len());
            let sent = reply.bytes();
            let (again, all) = reply::read(&sent).unwrap().unwrap();
            proptest::prop_assert_eq!((again.code, again.lines.len(), all), (reply.code, reply.lines.len(), sent.len()));
        }
    }
}
