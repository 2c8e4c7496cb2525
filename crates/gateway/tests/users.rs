//! Who asks, without sockets: names and passwords as clients send them, rules for users in an order, and what servers see of it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod plain;

use base64ct::{Base64, Encoding as _};
use gateway::config::{Ftp, Gateway, Limits, Mode, Protocol, Rule, Server};
use gateway::exchange::{Outcome, pass_on_of};
use gateway::ftp::command;
use gateway::ftp::session::{Session, Step};
use gateway::http::basic::{self, Credentials};
use gateway::http::head;
use gateway::users::{Hash, User, Users, Who};
use passwords::hash::Hasher;
use std::net::SocketAddr;

const ANNAS: &str = "correct horse: batteries";
const BENS: &str = "ben@home.test's own";

fn rule(name: &str, allow: bool, users: &[&str]) -> Rule {
    Rule { users: strings(users), ..plain::rule(name, allow) }
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn with_hosts(rule: Rule, hosts: &[&str]) -> Rule {
    Rule { hosts: strings(hosts), ..rule }
}

/// anna, of the group `sales`, and ben.
fn users() -> Users {
    let hasher = Hasher::cheap().unwrap();
    let user = |name: &str, groups: &[&str], password: &str| User {
        name: name.to_owned(),
        groups: strings(groups),
        hash: Hash(hasher.hash(password).unwrap()),
    };
    Users::new(vec![user("anna", &["sales"], ANNAS), user("ben", &[], BENS)]).unwrap()
}

/// `free.test` is everybody's, `sales.test` one group's, `not-ben.test` everybody's but ben's, `all.test` everybody's who logs in, and
/// `ben.test` ben's; other hosts are nobody's.
fn gateway(mode: Mode, protocol: Protocol) -> Gateway {
    Gateway {
        protocol,
        mode,
        rules: vec![
            with_hosts(rule("free", true, &[]), &["free.test"]),
            with_hosts(rule("sales", true, &["@sales"]), &["sales.test"]),
            with_hosts(rule("no-ben", false, &["ben"]), &["not-ben.test"]),
            with_hosts(rule("others", true, &[]), &["not-ben.test"]),
            with_hosts(rule("all", true, &["*"]), &["all.test"]),
            with_hosts(rule("ben", true, &["carl", "ben"]), &["ben.test"]),
        ],
        ports: vec![80, 21],
        users: Some(users()),
        limits: Limits { head_bytes: 4000, ..Limits::default() },
        ..plain::gateway()
    }
}

/// Who has said so, if the password is right.
fn verified(gateway: &Gateway, offered: &Credentials) -> Option<Who> {
    let user = gateway.users.as_ref()?.find(&offered.name)?;
    let is_right = Hasher::cheap().unwrap().verifies(&offered.password, Some(&user.hash.0));
    is_right.then(|| Who { name: user.name.clone(), proof: Some(user.hash.clone()) })
}

/// What becomes of a request: what the server gets, or the reason.
fn outcome(gateway: &Gateway, bytes: &str) -> String {
    let bytes = bytes.as_bytes();
    let read = head::request(bytes, gateway.limits.head()).ok().flatten();
    let offered = read.and_then(|(mut request, _)| basic::take(gateway, &mut request.fields).ok().flatten());
    if let Some(Err(fault)) = offered {
        return format!("{} {}", fault.status, fault.reason);
    }
    let who = offered.and_then(|offered| verified(gateway, &offered.unwrap()));
    match pass_on_of(gateway, "10.0.0.7".parse().unwrap(), gateway.listen, who.as_ref(), bytes) {
        Outcome::More => "more".to_owned(),
        Outcome::Refused(fault) => format!("{} {}", fault.status, fault.reason),
        Outcome::Tunnel(to, _) => format!("tunnel {to}"),
        Outcome::Sent(out, _) => String::from_utf8(out).unwrap().replace("\r\n", "|"),
    }
}

fn basic(credentials: &str) -> String {
    format!("Basic {}", Base64::encode_string(credentials.as_bytes()))
}

#[test]
fn rules_for_users_decide_in_their_order() {
    let gateway = gateway(Mode::Explicit, Protocol::Http);
    let (anna, ben) = (basic(&format!("anna:{ANNAS}")), basic(&format!("ben:{BENS}")));
    let unknown = basic(&format!("dora:{ANNAS}"));
    for (host, nobody, of_anna, of_ben) in [
        ("free.test", "sent", "sent", "sent"),
        ("sales.test", "407 no-user", "sent", "403 no-rule"),
        // Whoever says nothing may be ben, whom the first rule denies.
        ("not-ben.test", "407 no-user", "sent", "403 rule-deny"),
        ("all.test", "407 no-user", "sent", "sent"),
        ("ben.test", "407 no-user", "403 no-rule", "sent"),
        ("none.test", "403 no-rule", "403 no-rule", "403 no-rule"),
    ] {
        let rows = [("", nobody), (&anna, of_anna), (&ben, of_ben), (&unknown, nobody)];
        for (credentials, expected) in rows {
            let line = if credentials.is_empty() {
                String::new()
            } else {
                format!("Proxy-Authorization: {credentials}\r\n")
            };
            for (start, sent) in [
                (
                    format!("GET http://{host}/"),
                    format!("GET / HTTP/1.1|Host: {host}|Via: 1.1 rampart-web||"),
                ),
                (format!("CONNECT {host}:443"), format!("tunnel {host}:443")),
            ] {
                let found = outcome(&gateway, &format!("{start} HTTP/1.1\r\nHost: {host}\r\n{line}\r\n"));
                let expected = if expected == "sent" { sent.as_str() } else { expected };
                assert_eq!(found, expected, "{start} by {credentials}");
            }
        }
    }
}

/// What clients may send as their credentials, to who is known as anna if it is right.
#[test]
fn credentials_are_read_strictly_and_go_no_further() {
    let explicit = gateway(Mode::Explicit, Protocol::Http);
    let server = Server { host: "all.test".to_owned(), to: "10.0.2.5:80".parse().unwrap() };
    let published = gateway(Mode::Publish(vec![server]), Protocol::Http);
    let right = Base64::encode_string(format!("anna:{ANNAS}").as_bytes());
    let long = Base64::encode_string(format!("anna:{ANNAS}{}", "x".repeat(2100)).as_bytes());
    let raw = |bytes: &[u8]| format!("Basic {}", Base64::encode_string(bytes));
    for (what, value, expected) in [
        ("as everybody writes it", format!("Basic {right}"), "sent"),
        ("another case", format!("bASIC {right}"), "sent"),
        ("several spaces", format!("Basic   {right}"), "sent"),
        ("no scheme", right.clone(), "credentials"),
        ("another scheme", format!("Bearer {right}"), "credentials"),
        ("Negotiate", "Negotiate YII=".to_owned(), "credentials"),
        ("nothing", String::new(), "credentials"),
        ("the scheme alone", "Basic".to_owned(), "credentials"),
        ("more behind it", format!("Basic {right} x"), "credentials"),
        ("a list", format!("Basic {right}, Basic {right}"), "credentials"),
        ("no base64", "Basic %%%%".to_owned(), "credentials"),
        ("without padding", format!("Basic {}", right.trim_end_matches('=')), "credentials"),
        ("a tab", format!("Basic\t{right}"), "credentials"),
        ("no colon", basic("anna"), "credentials"),
        ("NUL", basic(&format!("anna\0:{ANNAS}")), "credentials"),
        ("a line end", basic(&format!("anna:{ANNAS}\r\nX: y")), "credentials"),
        ("no UTF-8", raw(b"anna:\xff\xfe"), "credentials"),
        ("too long", format!("Basic {long}"), "credentials"),
        ("nobody", basic(":"), "no-user"),
        ("no password", basic("anna:"), "no-user"),
        ("a wrong one", basic("anna:correct horse"), "no-user"),
        ("the name in capitals", basic(&format!("Anna:{ANNAS}")), "no-user"),
        ("a blank before the name", basic(&format!(" anna:{ANNAS}")), "no-user"),
    ] {
        for (gateway, field, other, status) in [
            (&explicit, "Proxy-Authorization", "Authorization", 407),
            (&published, "Authorization", "Proxy-Authorization", 401),
        ] {
            let ask = |field: &str| {
                let target = if status == 407 { "http://all.test/" } else { "/" };
                outcome(
                    gateway,
                    &format!("GET {target} HTTP/1.1\r\nHost: all.test\r\n{field}: {value}\r\n\r\n"),
                )
            };
            let expected = match expected {
                // Nothing of it is left.
                "sent" => "GET / HTTP/1.1|Host: all.test|Via: 1.1 rampart-web||".to_owned(),
                reason => format!("{status} {reason}"),
            };
            assert_eq!(ask(field), expected, "{what}: {field}");
            assert_eq!(ask(other), format!("{status} no-user"), "{what}: {other} is for somebody else");
        }
    }
}

#[test]
fn credentials_that_two_readers_could_understand_differently_are_refused() {
    let explicit = gateway(Mode::Explicit, Protocol::Http);
    let nobody = Gateway { users: None, ..explicit.clone() };
    let anna = basic(&format!("anna:{ANNAS}"));
    let line = format!("Proxy-Authorization: {anna}\r\n");
    let get = |host: &str, lines: &str| format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n");
    let sent = |host: &str, more: &str| format!("GET / HTTP/1.1|Host: {host}|{more}Via: 1.1 rampart-web||");
    for (what, gateway, bytes, expected) in [
        ("two", &explicit, get("all.test", &line.repeat(2)), "400 two-credentials".to_owned()),
        (
            "two where none are needed",
            &explicit,
            get("free.test", &line.repeat(2)),
            "400 two-credentials".to_owned(),
        ),
        ("one where none is needed", &explicit, get("free.test", &line), sent("free.test", "")),
        ("no users here", &nobody, get("free.test", &line), sent("free.test", "")),
        ("a rule for users, and no users", &nobody, get("all.test", &line), "407 no-user".to_owned()),
        (
            "named by Connection",
            &explicit,
            get("all.test", &format!("{line}Connection: proxy-authorization\r\n")),
            sent("all.test", ""),
        ),
        ("disguised", &explicit, get("all.test", &line.replace('-', "_")), "400 disguised-field".to_owned()),
        (
            "disguised, for the server",
            &explicit,
            get("free.test", &format!("authorization: x\r\nAuthorizatio_n: x\r\nAUTHORIZATION_: {anna}\r\n")),
            sent("free.test", &format!("authorization: x|Authorizatio_n: x|AUTHORIZATION_: {anna}|")),
        ),
        (
            "for the server",
            &explicit,
            get("free.test", "Authorization: Basic eDp5\r\n"),
            sent("free.test", "Authorization: Basic eDp5|"),
        ),
        ("in the URL", &explicit, get("anna:pw@all.test", &line), "400 host".to_owned()),
        (
            "in a trailer",
            &explicit,
            format!(
                "POST http://all.test/ HTTP/1.1\r\nHost: all.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n{line}\r\n"
            ),
            "407 no-user".to_owned(),
        ),
    ] {
        assert_eq!(outcome(gateway, &bytes), expected, "{what}");
    }
}

#[test]
fn whose_password_has_changed_or_who_is_gone_is_nobody() {
    let before = gateway(Mode::Explicit, Protocol::Http);
    let who = |name: &str| {
        let user = before.users.as_ref().unwrap().find(name).unwrap();
        Who { name: name.to_owned(), proof: Some(user.hash.clone()) }
    };
    let other_hashes = Gateway { users: Some(users()), ..before.clone() };
    let nobody = Gateway { users: Some(Users::default()), ..before.clone() };
    let said = Who::said("anna").unwrap();
    for (what, gateway, who, is_known) in [
        ("the same", &before, who("anna"), true),
        ("somebody else", &before, Who { name: "ben".to_owned(), ..who("anna") }, false),
        ("said alone", &before, said.clone(), false),
        ("another hash", &other_hashes, who("anna"), false),
        ("gone", &nobody, who("anna"), false),
    ] {
        assert_eq!(gateway.users.as_ref().unwrap().proved(&who).is_some(), is_known, "{what}");
    }
    // What may be a password in the wrong place is kept nowhere.
    for (text, is_name) in
        [("anna", true), ("", false), ("Anna", false), ("my secret", false), ("a\x1b[2J", false)]
    {
        assert_eq!(Who::said(text).is_some(), is_name, "{text:?}");
    }
    assert!(!format!("{:?}", before).contains("argon2"), "hashes are shown nowhere");
    let offered = Credentials { name: "anna".to_owned(), password: ANNAS.to_owned().into() };
    assert!(!format!("{offered:?}").contains("horse"));
}

/// What becomes of the last of some lines of FTP.
fn step(gateway: &Gateway, lines: &[&str]) -> String {
    let at: SocketAddr = "10.0.0.1:2121".parse().unwrap();
    let client = "10.0.0.7".parse().unwrap();
    let mut session = Session::default();
    let mut last = String::new();
    for line in lines {
        let mut step = session.step(gateway, client, at, &command::read(line.as_bytes()).unwrap());
        if let Step::LogIn(offered, there) = step {
            let Some(who) = verified(gateway, &offered) else {
                session.unknown();
                last = format!("no {}", offered.name);
                continue;
            };
            step = session.known(gateway, client, who, there);
        }
        last = match step {
            Step::Say(reply) => reply.code.to_string(),
            Step::Refuse(_, fault) | Step::End(fault) => format!("{} {}", fault.status, fault.reason),
            Step::Connect(asked, user, password) => {
                let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
                let password = password.map(|it| format!(" with {}", text(it))).unwrap_or_default();
                let by = asked.who.as_ref().map(|who| format!(" by {}", who.name)).unwrap_or_default();
                let line = format!("{} at {}{password}{by}", text(user), asked.host());
                session.asked = Some(asked);
                line
            }
            other => format!("{other:?}"),
        };
    }
    last
}

#[test]
fn users_log_in_before_a_server_is_connected_to() {
    let ftp = Protocol::Ftp(Ftp { data_ports: (61_000, 61_999), is_active: false });
    let gateway = gateway(Mode::Explicit, ftp);
    let nobody = Gateway { users: None, ..gateway.clone() };
    let (anna, both) = (format!("PASS {ANNAS}"), format!("PASS a@b@{ANNAS}"));
    for (lines, expected) in [
        (&["USER me@free.test"][..], "me at free.test:21"),
        (&["USER me@all.test"], "530 not-logged-in"),
        (&["USER me@none.test"], "530 no-rule"),
        // At the gateway first.
        (&["USER anna"], "331"),
        (&["USER dora"], "331"),
        (&["USER anna", "PWD"], "530 no-user"),
        (&["USER anna", "PASS wrong"], "no anna"),
        (&["USER anna", "PASS"], "no anna"),
        (&["USER dora", &anna], "no dora"),
        (&["USER anna", &anna], "230"),
        (&["USER anna", &anna, "PASS again"], "503 no-user"),
        (&["USER anna", &anna, "RETR x"], "530 no-user"),
        (&["USER anna", &anna, "USER me@all.test"], "me at all.test:21 by anna"),
        (&["USER anna", &anna, "USER me@home@all.test"], "me@home at all.test:21 by anna"),
        (&["USER anna", &anna, "USER me@ben.test"], "530 no-rule"),
        (&["USER anna", "PASS wrong", "USER me@all.test"], "530 not-logged-in"),
        // The password of one is not that of another who is named in between.
        (&["USER ben", "USER anna", &anna, "USER me@ben.test"], "530 no-rule"),
        (&["USER anna", &anna, "USER ben"], "530 no-host"),
        // Both at once.
        (&["USER me@anna@all.test"], "331"),
        (&["USER me@anna@all.test", &both], "me at all.test:21 with a@b by anna"),
        (&["USER me@home@anna@all.test", &both], "me@home at all.test:21 with a@b by anna"),
        (&["USER me@anna@all.test", &format!("PASS @{ANNAS}")], "me at all.test:21 with  by anna"),
        (&["USER me@anna@all.test", &anna], "530 two-passwords"),
        (&["USER me@anna@all.test", "PASS a@wrong"], "no anna"),
        (&["USER me@anna@ben.test", &both], "530 no-rule"),
        (&["USER me@anna@"], "530 no-host"),
        (&["USER me@anna@all.test:22", &both], "530 port"),
        (&["USER @anna@all.test"], "530 no-host"),
        (&["USER me@@all.test", "PASS a@"], "no "),
    ] {
        assert_eq!(step(&gateway, lines), expected, "{lines:?}");
    }
    assert_eq!(step(&nobody, &["USER me@home@free.test"]), "me@home at free.test:21");
    assert_eq!(step(&nobody, &["USER me@all.test"]), "530 not-logged-in");
    assert_eq!(step(&nobody, &["USER anna"]), "530 no-host");
}
