//! The gateway of DNS without sockets: what is no question, what rules and the policy's own names answer, and what of an answer is passed on.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod dns;
mod plain;

use dns::*;
use domain::base::Name;
use domain::base::iana::Rtype;
use gateway::config::Gateway;
use gateway::dns::answer::{self, Heard};
use gateway::dns::decide::{self, Decision};
use gateway::dns::question;
use std::net::IpAddr;

#[test]
fn what_is_no_question_is_refused_as_what_it_is() {
    let good = question("www.test", A);
    let change = |place: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[place] = byte;
        bytes
    };
    let with = |more: &[u8]| [&good[..], more].concat();
    let edns = with_edns(good.clone(), 1232, false);
    let mut two_edns = edns.clone();
    two_edns.extend(&edns[good.len()..]);
    two_edns[11] = 2;
    let mut version = edns.clone();
    version[good.len() + 6] = 1;
    let mut named_edns = edns.clone();
    named_edns.splice(good.len()..good.len() + 1, name("a"));
    let mut signed = edns.clone();
    signed[good.len() + 2] = 250;
    let long = question(&vec!["a".repeat(63); 4].join("."), A);
    let mut looping = good.clone();
    looping.splice(12..22, [0xc0, 12]);
    let mut pointing = good[..12].to_vec();
    pointing.extend(b"\x03www\xc0\x04\x00\x01\x00\x01");
    let mut in_options = edns.clone();
    let end = in_options.len();
    in_options[end - 1] = 4;
    in_options.extend([0, 10, 0, 9]);
    #[rustfmt::skip]
    let rows: &[(&str, Vec<u8>, &str, &str)] = &[
        ("a question", good.clone(), "", ""),
        ("by EDNS", edns.clone(), "", ""),
        ("nothing", Vec::new(), "short", ""),
        ("half a header", good[..11].to_vec(), "short", ""),
        ("an answer", change(2, 0x81), "no-question", ""),
        ("a notification", change(2, 0x21), "opcode", "NOTIMP"),
        ("an update", change(2, 0x28), "opcode", "NOTIMP"),
        ("no question", change(5, 0), "questions", "FORMERR"),
        ("two questions", change(5, 2), "questions", "FORMERR"),
        ("65,281 questions", change(4, 255), "questions", "FORMERR"),
        ("a record of an answer", change(7, 1), "records", "FORMERR"),
        ("a record of an authority", change(9, 1), "records", "FORMERR"),
        ("a record that is not there", change(11, 1), "records", "FORMERR"),
        ("something behind it", with(b"x"), "records", "FORMERR"),
        ("EDNS twice", two_edns, "records", "FORMERR"),
        ("EDNS of a name", named_edns, "records", "FORMERR"),
        ("options that end too late", in_options, "records", "FORMERR"),
        ("another version of EDNS", version, "edns-version", "16; edns 1232"),
        ("a signed question (TSIG)", signed, "records", "FORMERR"),
        ("another class", change(good.len() - 1, 3), "class", "REFUSED"),
        ("any class", change(good.len() - 1, 255), "class", "REFUSED"),
        ("a label of 64", change(12, 64), "name", "FORMERR"),
        ("a name of 257", long, "name", "FORMERR"),
        ("a name that points to itself", looping, "name", "FORMERR"),
        ("a name that points to the header", pointing, "name", "FORMERR"),
        ("a question that is cut", good[..good.len() - 1].to_vec(), "name", "FORMERR"),
    ];
    for (what, bytes, reason, said) in rows {
        let (found, told) = match question::read(bytes) {
            Ok(found) => {
                assert_eq!((found.id, found.text.as_str(), found.kind), (7, "www.test", Rtype::A), "{what}");
                ("", None)
            }
            Err(bad) => (bad.reason, bad.answer),
        };
        assert_eq!(found, *reason, "{what}");
        assert_eq!(told.as_deref().map(words).unwrap_or_default(), *said, "{what}");
        // Nobody gets more than he has sent, but what tells the version.
        assert!(told.is_none_or(|told| told.len() <= bytes.len().max(23)), "{what}");
    }
}

/// What becomes of a question of a client, in words.
fn decided(gateway: &Gateway, client: &str, bytes: &[u8]) -> String {
    let gateway::config::Protocol::Dns(settings) = &gateway.protocol else { panic!() };
    let asked = question::read(bytes).unwrap();
    let name = |rule: usize| gateway.rules[rule].name.clone();
    match decide::decide(gateway, settings, client.parse().unwrap(), &asked) {
        Decision::Ask(rule) => format!("{}: ask", name(rule)),
        Decision::Answer(rule, answer) => {
            format!("{}: {}", name(rule), words(&answer.bytes(&asked, answer.lifetime, 65_535)))
        }
        Decision::Refuse(rule, refusal) => {
            let rule = rule.map_or("none".to_owned(), name);
            let said = words(&answer::without_records(&asked, refusal.code, false, refusal.why));
            format!("{rule}: {}: {said}", refusal.reason)
        }
    }
}

#[test]
fn rules_decide_by_client_name_and_type() {
    let mut gateway = gateway("127.0.0.1:53".parse().unwrap(), Vec::new());
    let mut bad = rule("bad");
    bad.allow = false;
    bad.hosts = vec!["*.worse.test".to_owned()];
    bad.host_sets = vec![0];
    gateway.host_sets = vec![plain::hosts(&["bad.test"])];
    let mut mail = rule("mail");
    mail.source = Some(range("10.0.0.25", "10.0.0.25"));
    mail.methods = vec!["MX".to_owned(), "TYPE65280".to_owned()];
    let mut office = rule("office");
    office.source = Some(range("10.0.0.0", "10.0.0.9"));
    office.hosts = vec!["*.test".to_owned()];
    gateway.rules = vec![bad, mail, office];
    let edns = |it: Vec<u8>| with_edns(it, 4096, true);
    let mut escaped = question("x", A);
    escaped.splice(12..15, *b"\x05x.bad\x04test\0");
    let mut quiet = question("www.test", A);
    quiet[2] = 0;
    #[rustfmt::skip]
    let rows: &[(&str, Vec<u8>, &str)] = &[
        ("10.0.0.1", question("www.test", A), "office: ask"),
        ("10.0.0.1", question("WWW.Test", A), "office: ask"),
        ("10.0.0.1", question("test", A), "none: no-rule: REFUSED"),
        ("10.0.0.1", edns(question("test", A)), "none: no-rule: REFUSED; edns 1232 do why 18"),
        ("10.0.0.1", edns(question("www.bad.test", A)), "bad: rule-deny: REFUSED; edns 1232 do why 15"),
        ("10.0.0.1", question("bad.test", A), "bad: rule-deny: REFUSED"),
        ("10.0.0.1", question("www.worse.test", A), "bad: rule-deny: REFUSED"),
        ("10.0.0.1", question("notbad.test", A), "office: ask"),
        // One label, `x.bad`: not below bad.test.
        ("10.0.0.1", escaped, "office: ask"),
        ("10.0.0.25", question("example.com", MX), "mail: ask"),
        ("10.0.0.25", question("example.com", 65280), "mail: ask"),
        ("10.0.0.25", question("example.com", A), "none: no-rule: REFUSED"),
        ("198.51.100.1", question("www.test", A), "none: no-rule: REFUSED"),
        ("10.0.0.1", question("www.test", 252), "office: type: REFUSED"),
        ("10.0.0.1", question("www.test", 251), "office: type: REFUSED"),
        ("10.0.0.1", question("www.test", 41), "office: type: REFUSED"),
        ("10.0.0.1", question("www.test", 0), "office: type: REFUSED"),
        ("10.0.0.1", question("www.test", ANY), "office: NOERROR; aa; www.test 13 3600 9 bytes"),
        ("10.0.0.1", quiet, "office: no-recursion: REFUSED"),
    ];
    for (client, bytes, expected) in rows {
        assert_eq!(decided(&gateway, client, bytes), *expected, "{client} {}", asked(bytes).1);
        assert_eq!(
            decide::is_known(&gateway, client.parse().unwrap()),
            *client != "198.51.100.1",
            "{client}"
        );
    }
}

#[test]
fn each_client_has_the_names_of_its_view_and_local_names_stay_here() {
    let local = ["example.lan".to_owned(), "testbed.com".to_owned()];
    let inside: &[(&str, &[&str])] = &[
        ("10.10.10.50", &["aaa.testbed.com", "aaa"]),
        ("10.10.10.8", &["server01.testbed.com"]),
        ("10.10.10.9", &["server01.testbed.com"]),
        ("fd00::8", &["server01.testbed.com"]),
        ("10.0.0.5", &["a.b.example.lan"]),
        ("10.0.0.6", &["www.example.com"]),
    ];
    let outside: &[(&str, &[&str])] = &[("203.0.113.50", &["aaa.testbed.com"])];
    let mut gateway = gateway("127.0.0.1:53".parse().unwrap(), Vec::new());
    settings(&mut gateway).views = vec![
        view(Some(range("10.0.0.0", "10.255.255.255")), &local, inside),
        view(Some(range("198.51.100.0", "198.51.100.255")), &local, outside),
    ];
    settings(&mut gateway).local = local.to_vec();
    let (i, o, n) = ("10.0.0.1", "198.51.100.1", "192.0.2.1");
    let none = "all: NXDOMAIN; aa; authority testbed.com 6 60 minimum 60";
    let empty = "all: NOERROR; aa; authority testbed.com 6 60 minimum 60";
    #[rustfmt::skip]
    let rows: &[(&str, &str, u16, &str)] = &[
        (i, "aaa.testbed.com", A, "all: NOERROR; aa; aaa.testbed.com 1 60 10.10.10.50"),
        (i, "AAA.testbed.com", A, "all: NOERROR; aa; AAA.testbed.com 1 60 10.10.10.50"),
        (o, "aaa.testbed.com", A, "all: NOERROR; aa; aaa.testbed.com 1 60 203.0.113.50"),
        (n, "aaa.testbed.com", A, none),
        (i, "server01.testbed.com", A, "all: NOERROR; aa; server01.testbed.com 1 60 10.10.10.8; server01.testbed.com 1 60 10.10.10.9"),
        (i, "server01.testbed.com", AAAA, "all: NOERROR; aa; server01.testbed.com 28 60 fd00::8"),
        (o, "server01.testbed.com", A, none),
        (i, "aaa.testbed.com", AAAA, empty),
        (i, "aaa.testbed.com", MX, empty),
        (i, "aaa", A, "all: NOERROR; aa; aaa 1 60 10.10.10.50"),
        (i, "nobody.testbed.com", A, none),
        (i, "nobody.testbed.com", ANY, none),
        (i, "testbed.com", A, empty),
        (i, "testbed.com", SOA, "all: NOERROR; aa; testbed.com 6 60 minimum 60"),
        // Between a name and its zone.
        (i, "b.example.lan", A, "all: NOERROR; aa; authority example.lan 6 60 minimum 60"),
        (o, "b.example.lan", A, "all: NXDOMAIN; aa; authority example.lan 6 60 minimum 60"),
        // Another's name that has an address of our own: browsers must not be led around it.
        (i, "www.example.com", A, "all: NOERROR; aa; www.example.com 1 60 10.0.0.6"),
        (i, "www.example.com", AAAA, "all: NOERROR; aa; authority www.example.com 6 60 minimum 60"),
        (i, "www.example.com", HTTPS, "all: NOERROR; aa; authority www.example.com 6 60 minimum 60"),
        (i, "www.example.com", MX, "all: ask"),
        (o, "www.example.com", A, "all: ask"),
        // Addresses.
        (i, "8.10.10.10.in-addr.arpa", PTR, "all: NOERROR; aa; 8.10.10.10.in-addr.arpa 12 60 server01.testbed.com"),
        (i, "8.10.10.10.in-addr.arpa", A, "all: NOERROR; aa; authority 8.10.10.10.in-addr.arpa 6 60 minimum 60"),
        (o, "8.10.10.10.in-addr.arpa", PTR, "all: NXDOMAIN; aa; authority 10.in-addr.arpa 6 60 minimum 60"),
        (o, "50.113.0.203.in-addr.arpa", PTR, "all: NOERROR; aa; 50.113.0.203.in-addr.arpa 12 60 aaa.testbed.com"),
        (i, "1.0.168.192.in-addr.arpa", PTR, "all: NXDOMAIN; aa; authority 168.192.in-addr.arpa 6 60 minimum 60"),
        (i, "1.1.1.8.in-addr.arpa", PTR, "all: ask"),
        // Names that are nobody's or everybody's.
        (n, "localhost", A, "all: NOERROR; aa; localhost 1 60 127.0.0.1"),
        (n, "localhost", AAAA, "all: NOERROR; aa; localhost 28 60 ::1"),
        (n, "x.onion", A, "all: NXDOMAIN; aa; authority onion 6 60 minimum 60"),
        (n, "printer.local", A, "all: NXDOMAIN; aa; authority local 6 60 minimum 60"),
    ];
    for (client, name, kind, expected) in rows {
        assert_eq!(decided(&gateway, client, &question(name, *kind)), *expected, "{client} {name} {kind}");
    }
    gateway.rules[0].private_answers = true;
    for name in ["printer.local", "1.0.168.192.in-addr.arpa"] {
        assert_eq!(decided(&gateway, n, &question(name, PTR)), "all: ask", "{name}");
    }
    assert_eq!(
        decided(&gateway, n, &question("x.testbed.com", A)),
        none,
        "a local zone is local all the same"
    );
}

/// What a client gets of an answer by a name server, and how long it is kept.
fn heard(bytes: &[u8], asked: (&str, u16), signatures: bool) -> (String, u32, bool) {
    let name: Name<Vec<u8>> = Name::vec_from_str(asked.0).unwrap();
    let own: IpAddr = "203.0.113.1".parse().unwrap();
    match answer::read(bytes, 7, (&name, Rtype::from_int(asked.1)), signatures, |it| it == own) {
        None => ("other".to_owned(), 0, false),
        Some(Heard::Answer(answer)) => {
            let question = question::read(&question(asked.0, asked.1)).unwrap();
            (words(&answer.bytes(&question, answer.lifetime, 65_535)), answer.lifetime, answer.is_private)
        }
        Some(other) => (format!("{other:?}"), 0, false),
    }
}

fn a(address: [u8; 4]) -> Vec<u8> {
    address.to_vec()
}

#[test]
fn of_an_answer_what_was_asked_for_is_passed_on_and_nothing_else() {
    let asked_for = ("www.test", A);
    let asked = question("www.test", A);
    let site = || ("www.test", A, 60, a([198, 51, 100, 7]));
    let bank = || ("bank.test", A, 9999, a([198, 51, 100, 66]));
    let alias = |lifetime| ("www.test", CNAME, lifetime, name("x.cdn.test"));
    let target = || ("x.cdn.test", A, 60, a([198, 51, 100, 8]));
    let reply = |code: u8, sections: [&[Written<'_>]; 3]| reply(&asked, code, sections);
    let change = |place: usize, byte: u8| {
        let mut bytes = reply(0, [&[site()], &[], &[]]);
        bytes[place] = byte;
        bytes
    };
    let site_said = "NOERROR; www.test 1 60 198.51.100.7";
    let mut looping = reply(0, [&[], &[], &[]]);
    looping[7] = 1;
    let at = u8::try_from(looping.len()).unwrap();
    looping.extend([0xc0, at, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 1, 2, 3, 4]);
    let mut forward = reply(0, [&[], &[], &[]]);
    forward[7] = 1;
    forward.extend([0xc0, at + 2, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 1, 2, 3, 4]);
    #[rustfmt::skip]
    let rows: &[(&str, Vec<u8>, &str, u32)] = &[
        ("one", reply(0, [&[site()], &[], &[]]), site_said, 60),
        ("two with other lifetimes", reply(0, [&[site(), ("www.test", A, 9, a([198, 51, 100, 9]))], &[], &[]]),
            "NOERROR; www.test 1 9 198.51.100.7; www.test 1 9 198.51.100.9", 9),
        ("other names beside it", reply(0, [&[site(), bank()], &[bank(), ("test", NS, 60, name("ns.evil.test"))], &[bank()]]), site_said, 60),
        ("another type beside it", reply(0, [&[site(), ("www.test", TXT, 1, b"\x01x".to_vec())], &[], &[]]), site_said, 60),
        ("an alias", reply(0, [&[alias(30), target(), bank()], &[], &[]]), "NOERROR; www.test 5 30 x.cdn.test; x.cdn.test 1 30 198.51.100.8", 30),
        ("an alias at the end", reply(0, [&[target(), alias(90)], &[], &[]]), "NOERROR; x.cdn.test 1 60 198.51.100.8; www.test 5 60 x.cdn.test", 60),
        ("an alias to itself", reply(0, [&[("www.test", CNAME, 30, name("www.test"))], &[], &[]]), "NOERROR; www.test 5 0 www.test", 0),
        ("an alias to nothing", reply(3, [&[alias(30)], &[("cdn.test", SOA, 20, soa(10))], &[]]),
            "NXDOMAIN; www.test 5 10 x.cdn.test; authority cdn.test 6 10 minimum 10", 10),
        ("an alias and nothing of another zone", reply(3, [&[alias(30)], &[("bank.test", SOA, 20, soa(10))], &[]]), "NXDOMAIN; www.test 5 0 x.cdn.test", 0),
        ("a domain's alias", reply(0, [&[("test", DNAME, 40, name("cdn")), ("www.test", CNAME, 40, name("www.cdn")), ("www.cdn", A, 50, a([198, 51, 100, 8]))], &[], &[]]),
            "NOERROR; test 39 40 5 bytes; www.test 5 40 www.cdn; www.cdn 1 40 198.51.100.8", 40),
        ("nothing", reply(3, [&[], &[("test", SOA, 100, soa(30))], &[]]), "NXDOMAIN; authority test 6 30 minimum 30", 30),
        ("nothing for less time", reply(3, [&[], &[("test", SOA, 20, soa(30))], &[]]), "NXDOMAIN; authority test 6 20 minimum 30", 20),
        ("nothing for ever", reply(3, [&[], &[("test", SOA, 1 << 30, soa(1 << 30))], &[]]), "NXDOMAIN; authority test 6 10800 minimum 1073741824", 10_800),
        ("nothing of the kind", reply(0, [&[], &[("test", SOA, 100, soa(30))], &[]]), "NOERROR; authority test 6 30 minimum 30", 30),
        ("nothing, and nobody says for how long", reply(3, [&[], &[], &[]]), "NXDOMAIN", 0),
        ("nothing by another zone", reply(3, [&[], &[("bank.test", SOA, 100, soa(30))], &[]]), "NXDOMAIN", 0),
        ("for ever", reply(0, [&[("www.test", A, 1 << 30, a([198, 51, 100, 7]))], &[], &[]]), "NOERROR; www.test 1 86400 198.51.100.7", 86_400),
        ("for less than nothing", reply(0, [&[("www.test", A, u32::MAX, a([198, 51, 100, 7]))], &[], &[]]), "NOERROR; www.test 1 0 198.51.100.7", 0),
        ("another number", change(1, 8), "other", 0),
        ("a question", change(2, 1), "other", 0),
        ("an update", change(2, 0xa9), "other", 0),
        ("another name", change(13, b'x'), "other", 0),
        ("another type", change(23, 28), "other", 0),
        ("another class", change(25, 3), "other", 0),
        ("two questions", change(5, 2), "other", 0),
        ("too long for a datagram", change(2, 0x83), "Truncated", 0),
        ("a server in trouble", change(3, 0x82), "Failed", 0),
        ("a server that refuses", change(3, 0x85), "Failed", 0),
        ("a server that does not know EDNS", change(3, 0x81), "NoEdns", 0),
        ("the same, in a few words", vec![0, 7, 0x81, 0x81, 0, 0, 0, 0, 0, 0, 0, 0], "NoEdns", 0),
        ("more records than there are", change(7, 9), "Failed", 0),
        ("cut short", reply(0, [&[site()], &[], &[]])[..40].to_vec(), "Failed", 0),
        ("a short address", reply(0, [&[("www.test", A, 60, vec![1, 2, 3])], &[], &[]]), "Failed", 0),
        ("a name that points to itself", looping, "Failed", 0),
        ("a name that points onwards", forward, "Failed", 0),
        ("nothing at all", Vec::new(), "other", 0),
    ];
    for (what, bytes, expected, lifetime) in rows {
        let (said, lives, is_private) = heard(bytes, asked_for, false);
        assert_eq!((said.as_str(), lives, is_private), (*expected, *lifetime, false), "{what}");
    }
}

#[test]
fn signatures_are_passed_on_to_whoever_wants_them() {
    let asked = question("www.test", A);
    let site = ("www.test", A, 60, a([198, 51, 100, 7]));
    let nsec = |next: &str| [name(next), vec![0, 1, 0x40]].concat();
    let answer =
        [site.clone(), ("www.test", RRSIG, 60, rrsig(A, "test")), ("www.test", RRSIG, 60, rrsig(MX, "test"))];
    let nothing = [
        ("test", SOA, 60, soa(60)),
        ("test", RRSIG, 60, rrsig(SOA, "test")),
        ("v.test", NSEC, 60, nsec("x.test")),
        ("v.test", RRSIG, 60, rrsig(NSEC, "test")),
        // Of a zone that is not above the name, and of a name that is not in the zone.
        ("v.bank.test", NSEC, 60, nsec("x.test")),
        ("v.bank.test", RRSIG, 60, rrsig(NSEC, "bank.test")),
        ("v.example", NSEC, 60, nsec("x.test")),
        ("v.example", RRSIG, 60, rrsig(NSEC, "test")),
        // Without a signature.
        ("w.test", NSEC, 60, nsec("x.test")),
    ];
    for (what, bytes, signatures, expected) in [
        (
            "wanted",
            reply(&asked, 0, [&answer, &[], &[]]),
            true,
            "NOERROR; www.test 1 60 198.51.100.7; www.test 46 60 33 bytes",
        ),
        ("not wanted", reply(&asked, 0, [&answer, &[], &[]]), false, "NOERROR; www.test 1 60 198.51.100.7"),
        (
            "that there is nothing",
            reply(&asked, 3, [&[], &nothing, &[]]),
            true,
            "NXDOMAIN; authority test 6 60 minimum 60; authority test 46 60 33 bytes; authority v.test 47 60 11 bytes; authority v.test 46 60 33 bytes",
        ),
        (
            "that there is nothing, not wanted",
            reply(&asked, 3, [&[], &nothing, &[]]),
            false,
            "NXDOMAIN; authority test 6 60 minimum 60",
        ),
    ] {
        assert_eq!(heard(&bytes, ("www.test", A), signatures).0, expected, "{what}");
    }
}

#[test]
fn addresses_that_are_not_everybodys_are_noticed() {
    let hint = |key: u16, address: &[u8]| {
        let mut data = vec![0, 1, 0];
        data.extend(key.to_be_bytes());
        data.extend(u16::try_from(address.len()).unwrap().to_be_bytes());
        data.extend(address);
        data
    };
    let v6 = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets().to_vec();
    #[rustfmt::skip]
    let rows: &[(u16, Vec<u8>, bool)] = &[
        (A, a([198, 51, 100, 7]), false),
        (A, a([192, 168, 0, 1]), true),
        (A, a([127, 0, 0, 1]), true),
        (A, a([0, 0, 0, 0]), true),
        (A, a([169, 254, 169, 254]), true),
        (A, a([203, 0, 113, 1]), true),
        (A, a([203, 0, 113, 2]), false),
        (AAAA, v6("2001:db8::1"), false),
        (AAAA, v6("::ffff:10.0.0.1"), true),
        (AAAA, v6("64:ff9b::a00:1"), true),
        (AAAA, v6("fd00::1"), true),
        (HTTPS, hint(4, &[198, 51, 100, 7]), false),
        (HTTPS, hint(4, &[198, 51, 100, 7, 10, 0, 0, 1]), true),
        (HTTPS, hint(6, &v6("fe80::1")), true),
        (64, hint(4, &[10, 0, 0, 1]), true),
        (TXT, b"\x0810.0.0.1".to_vec(), false),
    ];
    for (kind, data, expected) in rows {
        let bytes =
            reply(&question("www.test", *kind), 0, [&[("www.test", *kind, 60, data.clone())], &[], &[]]);
        assert_eq!(heard(&bytes, ("www.test", *kind), false).2, *expected, "{kind} {data:?}");
    }
}

#[test]
fn what_has_no_room_is_asked_for_by_tcp() {
    let many: Vec<Written<'_>> = (0..100).map(|last| ("www.test", A, 60, a([198, 51, 100, last]))).collect();
    let bytes = reply(&question("www.test", A), 0, [&many, &[], &[]]);
    let wire: Name<Vec<u8>> = Name::vec_from_str("www.test").unwrap();
    let Some(Heard::Answer(answer)) = answer::read(&bytes, 7, (&wire, Rtype::A), false, |_| false) else {
        panic!()
    };
    let plain = question("WWW.test", A);
    for (bytes, room, expected) in [
        (plain.clone(), 512, "NOERROR; tc"),
        (with_edns(plain.clone(), 0, false), 512, "NOERROR; tc; edns 1232"),
        (with_edns(plain.clone(), 4096, false), 1232, "NOERROR; tc; edns 1232"),
    ] {
        let question = question::read(&bytes).unwrap();
        assert_eq!(question.room(), room);
        let said = answer.bytes(&question, 60, question.room());
        assert_eq!(words(&said), expected);
        assert_eq!(&said[12..22], b"\x03WWW\x04test\0", "as it was written");
        let whole = answer.bytes(&question, 5, 65_535);
        assert_eq!(words(&whole).matches(" 1 5 198.51.100.").count(), 100, "the seconds that are left");
        assert!(whole.len() < 1700, "names are written once: {}", whole.len());
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_a_message_or_none(bytes: Vec<u8>, kinds: [u8; 4], at: u8) {
        let _ = question::read(&bytes);
        let mut question = question("a.www.test", A);
        question[8..12].copy_from_slice(&kinds.map(|it| it % 3));
        let _ = question::read(&[&question[..], &bytes].concat());
        let wire: Name<Vec<u8>> = Name::vec_from_str("a.www.test").unwrap();
        for kind in [A, HTTPS, CNAME, SOA, NSEC] {
            let record = ("www.test", u16::from(kinds[0] % 70), 9, bytes.clone());
            let alias = ("a.www.test", CNAME, 9, [&[1, b'b', 0xc0, at][..]].concat());
            let mut reply = reply(&question, kinds[1] % 4, [&[alias, record.clone()], &[record], &[]]);
            reply[1] = 7;
            let kind = Rtype::from_int(kind);
            if let Some(Heard::Answer(answer)) = answer::read(&reply, 7, (&wire, kind), true, |_| false) {
                let plain = question::read(&dns::question("a.www.test", A)).unwrap();
                let _ = words(&answer.bytes(&plain, 1, 65_535));
            }
        }
    }
}
