//! Messages of DNS byte by byte, as tests write and read them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test uses some of it")]

use gateway::config::{Addresses, Dns, Gateway, Protocol, Rule};
use gateway::dns::view::View;
use std::net::{IpAddr, SocketAddr};

pub(crate) const A: u16 = 1;
pub(crate) const NS: u16 = 2;
pub(crate) const CNAME: u16 = 5;
pub(crate) const SOA: u16 = 6;
pub(crate) const PTR: u16 = 12;
pub(crate) const HINFO: u16 = 13;
pub(crate) const MX: u16 = 15;
pub(crate) const TXT: u16 = 16;
pub(crate) const AAAA: u16 = 28;
pub(crate) const DNAME: u16 = 39;
pub(crate) const OPT: u16 = 41;
pub(crate) const RRSIG: u16 = 46;
pub(crate) const NSEC: u16 = 47;
pub(crate) const HTTPS: u16 = 65;
pub(crate) const ANY: u16 = 255;

pub(crate) fn name(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in text.split('.').filter(|label| !label.is_empty()) {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

/// A question with number 7, without EDNS; recursion is desired.
pub(crate) fn question(text: &str, kind: u16) -> Vec<u8> {
    let mut bytes = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    bytes.extend(name(text));
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0, 1]);
    bytes
}

/// The same by EDNS, with the room for an answer and perhaps DO.
pub(crate) fn with_edns(mut question: Vec<u8>, room: u16, signatures: bool) -> Vec<u8> {
    question[11] += 1;
    question.extend([0, 0, 41]);
    question.extend(room.to_be_bytes());
    question.extend([0, 0, if signatures { 0x80 } else { 0 }, 0, 0, 0]);
    question
}

/// A record: whose, of which type, for how long, its data.
pub(crate) type Written<'a> = (&'a str, u16, u32, Vec<u8>);

/// An answer to a question, with these records in its three sections.
pub(crate) fn reply(question: &[u8], code: u8, sections: [&[Written<'_>]; 3]) -> Vec<u8> {
    let end = 12 + asked(question).0.len() + 4;
    let mut bytes = question[..end].to_vec();
    bytes[2] |= 0x80;
    bytes[3] = 0x80 | code;
    bytes[6..12].fill(0);
    for (place, section) in sections.iter().enumerate() {
        bytes[6 + 2 * place..8 + 2 * place]
            .copy_from_slice(&u16::try_from(section.len()).unwrap().to_be_bytes());
        for (owner, kind, lifetime, data) in *section {
            bytes.extend(name(owner));
            bytes.extend(kind.to_be_bytes());
            bytes.extend([0, 1]);
            bytes.extend(lifetime.to_be_bytes());
            bytes.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
            bytes.extend(data);
        }
    }
    bytes
}

/// The name of a question as bytes and as text, and its type.
pub(crate) fn asked(question: &[u8]) -> (Vec<u8>, String, u16) {
    let (text, after) = read_name(question, 12);
    let kind = u16::from_be_bytes([question[after], question[after + 1]]);
    (question[12..after].to_vec(), text, kind)
}

pub(crate) fn has_edns(question: &[u8]) -> bool {
    question[11] > 0
}

pub(crate) fn wants_signatures(question: &[u8]) -> bool {
    has_edns(question) && question[question.len() - 4] & 0x80 != 0
}

pub(crate) fn soa(minimum: u32) -> Vec<u8> {
    let mut data = [name("ns.test"), name("admin.test")].concat();
    for number in [1, 2, 3, 4, minimum] {
        data.extend(number.to_be_bytes());
    }
    data
}

/// A signature of records of a type by a zone.
pub(crate) fn rrsig(kind: u16, zone: &str) -> Vec<u8> {
    let mut data = kind.to_be_bytes().to_vec();
    data.extend([8, 2, 0, 0, 0, 60, 0, 0, 0, 2, 0, 0, 0, 1, 0, 5]);
    data.extend(name(zone));
    data.extend(b"signature");
    data
}

fn read_name(bytes: &[u8], mut at: usize) -> (String, usize) {
    let (mut text, mut after) = (String::new(), None);
    loop {
        let length = usize::from(bytes[at]);
        if length >= 192 {
            after = after.or(Some(at + 2));
            at = (length & 63) << 8 | usize::from(bytes[at + 1]);
        } else if length == 0 {
            return (text, after.unwrap_or(at + 1));
        } else {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(&String::from_utf8_lossy(&bytes[at + 1..at + 1 + length]));
            at += 1 + length;
        }
    }
}

/// An answer in words: its code, flags that are set (aa, tc, ad, cd), and records as `section owner type lifetime data`.
pub(crate) fn words(bytes: &[u8]) -> String {
    let number = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let mut at = 12;
    let mut words = Vec::new();
    let flags = number(2);
    let mut code = usize::from(flags & 15);
    if flags & 0x8000 == 0 {
        return "no answer".to_owned();
    }
    for _ in 0..number(4) {
        at = read_name(bytes, at).1 + 4;
    }
    for (section, place) in [("", 6), ("authority ", 8), ("additional ", 10)] {
        for _ in 0..number(place) {
            let (owner, after) = read_name(bytes, at);
            let kind = number(after);
            let lifetime = u32::from(number(after + 4)) << 16 | u32::from(number(after + 6));
            let length = usize::from(number(after + 8));
            let data = &bytes[after + 10..after + 10 + length];
            at = after + 10 + length;
            if kind == OPT {
                code |= (lifetime >> 20) as usize & 0xff0;
                let signatures = if lifetime & 0x8000 != 0 { " do" } else { "" };
                let why = if data.len() == 6 { format!(" why {}", data[5]) } else { String::new() };
                words.push(format!("edns {}{signatures}{why}", number(after + 2)));
                continue;
            }
            let data = match (kind, data) {
                (A, data) => IpAddr::from(<[u8; 4]>::try_from(data).unwrap()).to_string(),
                (AAAA, data) => IpAddr::from(<[u8; 16]>::try_from(data).unwrap()).to_string(),
                (CNAME | PTR | NS, _) => read_name(bytes, after + 10).0,
                (SOA, data) => {
                    format!("minimum {}", u32::from_be_bytes(data[data.len() - 4..].try_into().unwrap()))
                }
                (_, data) => format!("{} bytes", data.len()),
            };
            words.push(format!("{section}{owner} {kind} {lifetime} {data}"));
        }
    }
    assert_eq!(at, bytes.len(), "nothing is behind it");
    let names = ["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"];
    let code = names.get(code).map_or_else(|| code.to_string(), |it| (*it).to_owned());
    let set = [(0x0400, "aa"), (0x0200, "tc"), (0x0020, "ad"), (0x0010, "cd")];
    let set = set.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| (*name).to_owned());
    std::iter::once(code).chain(set).chain(words).collect::<Vec<_>>().join("; ")
}

/// A rule that lets everything pass.
pub(crate) fn rule(name: &str) -> Rule {
    Rule { log: true, ..crate::plain::rule(name, true) }
}

pub(crate) fn range(first: &str, last: &str) -> Addresses {
    Addresses(vec![(first.parse().unwrap(), last.parse().unwrap())])
}

/// Names as clients of these addresses know them.
pub(crate) fn view(source: Option<Addresses>, local: &[String], lines: &[(&str, &[&str])]) -> View {
    let owned = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
    let entries: Vec<(IpAddr, Vec<String>)> =
        lines.iter().map(|(address, names)| (address.parse().unwrap(), owned(names))).collect();
    View::new(source, [&entries[..]], local)
}

/// A gateway with a rule, without views, that asks these.
pub(crate) fn gateway(listen: SocketAddr, resolvers: Vec<SocketAddr>) -> Gateway {
    let dns = Dns { views: Vec::new(), local: Vec::new(), domains: Vec::new(), cache: 1 << 20, rate: 10_000 };
    Gateway {
        name: "names".to_owned(),
        protocol: Protocol::Dns(dns),
        listen,
        rules: vec![rule("all")],
        resolvers,
        ..crate::plain::gateway()
    }
}

pub(crate) fn settings(gateway: &mut Gateway) -> &mut Dns {
    match &mut gateway.protocol {
        Protocol::Dns(dns) => dns,
        other => panic!("{other:?}"),
    }
}
