//! Answers as they are kept and sent. Each is written anew from records that were understood: what a name server said besides, about other names, is
//! not in it. Lifetimes in it are those of the shortest-lived record.

use super::name::{Wire, is_below, is_within};
use super::question::{HEADER, MOST_DATAGRAM, Question};
use domain::base::iana::{Class, Opcode, OptRcode, Rcode, Rtype};
use domain::base::message_builder::{MessageBuilder, TreeCompressor};
use domain::base::name::ToName as _;
use domain::base::{Header, Message, ParsedName, Record, Ttl};
use domain::rdata::AllRecordData;
use std::collections::HashSet;
use std::net::IpAddr;

/// How long an answer is kept at most, in seconds.
const LONGEST: u32 = 86_400;
/// The same of one that there is nothing (RFC 2308 section 5).
const LONGEST_NOTHING: u32 = 3 * 3_600;
/// Names behind names that are followed.
const MOST_ALIASES: usize = 16;
/// Bytes of an answer.
const MOST_BYTES: usize = 65_000;
/// Of an error's explanation (RFC 8914).
const EXPLANATION: u16 = 15;

/// Record data of a message that is read.
type Data<'a> = AllRecordData<&'a [u8], ParsedName<&'a [u8]>>;
type Read<'a> = Record<ParsedName<&'a [u8]>, Data<'a>>;

/// An answer to one question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The message without EDNS, by number 0, its question in small letters.
    message: Vec<u8>,
    /// Where the lifetimes of its records are.
    lifetimes: Vec<u16>,
    /// For how many seconds it holds.
    pub lifetime: u32,
    /// What it says.
    pub code: Rcode,
    /// Whether an address in it is nobody's of the Internet.
    pub is_private: bool,
}

impl Answer {
    /// Bytes that it takes.
    pub fn size(&self) -> usize {
        self.message.len() + 2 * self.lifetimes.len()
    }

    /// The addresses that it has, so many at most.
    pub fn addresses(&self, most: usize) -> Vec<IpAddr> {
        let message = Message::from_octets(&self.message[..]);
        let records = message.iter().filter_map(|message| message.answer().ok()).flatten().flatten();
        let address = |record: domain::base::ParsedRecord<'_, &[u8]>| match record
            .to_any_record::<Data<'_>>()
            .ok()?
            .data()
        {
            AllRecordData::A(a) => Some(IpAddr::from(a.addr())),
            AllRecordData::Aaaa(aaaa) => Some(aaaa.addr().into()),
            _ => None,
        };
        records.filter_map(address).take(most).collect()
    }

    /// The first name that it has for an address.
    pub fn pointer(&self) -> Option<String> {
        let message = Message::from_octets(&self.message[..]).ok()?;
        message.answer().ok()?.flatten().find_map(|record| {
            match record.to_any_record::<Data<'_>>().ok()?.data() {
                AllRecordData::Ptr(pointer) => Some(pointer.ptrdname().to_string()),
                _ => None,
            }
        })
    }

    /// Writes an answer of these records.
    ///
    /// # Errors
    /// It has no room for them.
    pub fn write<'a, N: domain::base::ToName + 'a, D: domain::base::rdata::ComposeRecordData + 'a>(
        question: (&Wire, Rtype),
        code: Rcode,
        sections: [impl IntoIterator<Item = &'a Record<N, D>>; 2],
        lifetime: u32,
        is_own: bool,
    ) -> Result<Self, TooLong> {
        let mut builder =
            MessageBuilder::from_target(TreeCompressor::new(Vec::new())).map_err(|_| TooLong)?;
        builder.set_push_limit(MOST_BYTES);
        builder.header_mut().set_qr(true);
        builder.header_mut().set_ra(true);
        builder.header_mut().set_aa(is_own);
        builder.header_mut().set_rcode(code);
        let mut builder = builder.question();
        builder.push(question).map_err(|_| TooLong)?;
        let [answer, authority] = sections;
        let lives = Ttl::from_secs(lifetime);
        let mut builder = builder.answer();
        for record in answer {
            builder.push((record.owner(), Class::IN, lives, record.data())).map_err(|_| TooLong)?;
        }
        let mut builder = builder.authority();
        for record in authority {
            builder.push((record.owner(), Class::IN, lives, record.data())).map_err(|_| TooLong)?;
        }
        let message = builder.finish().into_target();
        let lifetimes = lifetimes(&message, question.0.len());
        Ok(Self { message, lifetimes, lifetime, code, is_private: false })
    }

    /// That a name has nothing of the kind, and nothing else.
    pub fn empty(name: &Wire, kind: Rtype) -> Self {
        let mut message = vec![0; HEADER];
        message[5] = 1;
        message.extend(name.as_slice());
        message.extend(kind.to_int().to_be_bytes());
        message.extend(Class::IN.to_int().to_be_bytes());
        let header = Header::for_message_slice_mut(&mut message);
        header.set_qr(true);
        header.set_ra(true);
        Self { message, lifetimes: Vec::new(), lifetime: 0, code: Rcode::NOERROR, is_private: false }
    }

    /// The bytes for whoever has asked, `left` seconds before the answer ends. What has no room is left out, and said to be (TC).
    pub fn bytes(&self, question: &Question, left: u32, room: usize) -> Vec<u8> {
        let edns = if question.edns.is_some() { EDNS } else { 0 };
        let has_room = self.message.len() + edns <= room;
        let whole = HEADER + question.name.len() + 4;
        let mut bytes = if has_room { self.message.clone() } else { self.message[..whole].to_vec() };
        if has_room {
            for place in &self.lifetimes {
                let place = usize::from(*place);
                bytes[place..place + 4].copy_from_slice(&left.to_be_bytes());
            }
        } else {
            bytes[6..HEADER].fill(0);
        }
        bytes[HEADER..HEADER + question.written.len()].copy_from_slice(&question.written);
        let header = Header::for_message_slice_mut(&mut bytes);
        header.set_id(question.id);
        header.set_rd(question.recursion);
        header.set_cd(question.unchecked);
        header.set_tc(!has_room);
        if question.edns.is_some() {
            push_edns(&mut bytes, OptRcode::from_rcode(self.code), question.signatures(), None);
        }
        bytes
    }
}

/// There is no room for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

/// Bytes of EDNS without options.
const EDNS: usize = 11;

/// An answer that says only how it is. `why` explains it to whoever knows EDNS.
pub fn without_records(question: &Question, code: OptRcode, is_cut: bool, why: Option<u16>) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    bytes[5] = 1;
    bytes.extend(&question.written);
    bytes.extend(question.kind.to_int().to_be_bytes());
    bytes.extend(Class::IN.to_int().to_be_bytes());
    let header = Header::for_message_slice_mut(&mut bytes);
    header.set_id(question.id);
    header.set_qr(true);
    header.set_opcode(Opcode::QUERY);
    header.set_rd(question.recursion);
    header.set_ra(true);
    header.set_cd(question.unchecked);
    header.set_tc(is_cut);
    header.set_rcode(super::question::low(code));
    if question.edns.is_some() {
        push_edns(&mut bytes, code, question.signatures(), why);
    }
    bytes
}

/// Adds what the gateway says by EDNS (RFC 6891 section 6.1.2).
pub(super) fn push_edns(message: &mut Vec<u8>, code: OptRcode, signatures: bool, why: Option<u16>) {
    let (_, high) = code.to_parts();
    message.push(0);
    message.extend(Rtype::OPT.to_int().to_be_bytes());
    message.extend(MOST_DATAGRAM.to_be_bytes());
    message.extend([high, 0, if signatures { 0x80 } else { 0 }, 0]);
    match why {
        Some(why) => {
            message.extend([0, 6]);
            message.extend(EXPLANATION.to_be_bytes());
            message.extend([0, 2]);
            message.extend(why.to_be_bytes());
        }
        None => message.extend([0, 0]),
    }
    message[11] += 1;
}

/// What a name server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// This.
    Answer(Answer),
    /// It was too long for a datagram, and is to be asked for by TCP.
    Truncated,
    /// It does not know EDNS, or not this question with it.
    NoEdns,
    /// It could not answer.
    Failed,
}

/// Reads an answer; `None` if it does not answer this question. `is_own` says whether this machine has an address.
pub fn read(
    bytes: &[u8],
    id: u16,
    asked: (&Wire, Rtype),
    signatures: bool,
    is_own: impl Fn(IpAddr) -> bool,
) -> Option<Heard> {
    let message = Message::from_octets(bytes).ok()?;
    let header = message.header();
    if header.id() != id || !header.qr() || header.opcode() != Opcode::QUERY {
        return None;
    }
    let cannot = matches!(header.rcode(), Rcode::FORMERR | Rcode::NOTIMP);
    if message.header_counts().qdcount() == 0 && cannot {
        return Some(Heard::NoEdns);
    }
    let question = message.sole_question().ok()?;
    let is_it = question.qname().name_eq(asked.0) && question.qtype() == asked.1;
    if !is_it || question.qclass() != Class::IN {
        return None;
    }
    if cannot && message.opt().is_none() {
        return Some(Heard::NoEdns);
    }
    if header.tc() {
        return Some(Heard::Truncated);
    }
    if !matches!(header.rcode(), Rcode::NOERROR | Rcode::NXDOMAIN) {
        return Some(Heard::Failed);
    }
    Some(understand(&message, asked, signatures, is_own).map_or(Heard::Failed, Heard::Answer))
}

/// The records of an answer that answer the question; `None` if it cannot be understood.
fn understand(
    message: &Message<&[u8]>,
    asked: (&Wire, Rtype),
    signatures: bool,
    is_own: impl Fn(IpAddr) -> bool,
) -> Option<Answer> {
    let mut section = message.answer().ok()?;
    let mut answer: Vec<Read<'_>> = Vec::new();
    for record in section.by_ref() {
        let record = record.ok()?;
        if record.class() == Class::IN {
            answer.push(record.to_any_record::<Data<'_>>().ok()?);
        }
    }
    let mut authority: Vec<Read<'_>> = Vec::new();
    for record in section.next_section().ok()?? {
        let record = record.ok()?;
        if record.class() == Class::IN {
            authority.push(record.to_any_record::<Data<'_>>().ok()?);
        }
    }
    let chain = chain(&answer, asked);
    let answer: Vec<_> =
        answer.into_iter().filter(|record| answers(record, &chain, asked.1, signatures)).collect();
    let last = chain.last()?.to_string();
    let has_data = answer
        .iter()
        .any(|record| record.rtype() == asked.1 && chain.last().is_some_and(|it| record.owner().name_eq(it)));
    let is_nothing = !has_data;
    let signed = signed(&authority, &chain);
    let is_kept = |record: &&Read<'_>| match record.data() {
        AllRecordData::Soa(_) => is_nothing && is_within(&last, &text(record.owner())),
        AllRecordData::Nsec(_) | AllRecordData::Nsec3(_) => {
            signatures && signed.contains(&(text(record.owner()), record.rtype()))
        }
        AllRecordData::Rrsig(signature) => {
            let is_wanted = match signature.type_covered() {
                Rtype::SOA => is_nothing && is_within(&last, &text(record.owner())),
                Rtype::NSEC | Rtype::NSEC3 => true,
                _ => false,
            };
            signatures && is_wanted && signed.contains(&(text(record.owner()), signature.type_covered()))
        }
        _ => false,
    };
    let authority: Vec<_> = authority.iter().filter(is_kept).collect();
    let shortest = answer.iter().chain(authority.iter().copied()).map(|it| seconds(it.ttl())).min();
    let nothing = authority.iter().find_map(|record| match record.data() {
        AllRecordData::Soa(soa) => Some(seconds(soa.minimum())),
        _ => None,
    });
    let lifetime = match (is_nothing, nothing) {
        (false, _) => shortest.unwrap_or(0).min(LONGEST),
        (true, Some(least)) => shortest.unwrap_or(0).min(least).min(LONGEST_NOTHING),
        // Without its zone's record nobody knows for how long there is nothing (RFC 2308 section 5).
        (true, None) => 0,
    };
    let is_private = answer.iter().any(|record| has_private(record.data(), &is_own));
    let sections = [answer.iter().collect::<Vec<_>>(), authority];
    let written = Answer::write(asked, message.header().rcode(), sections, lifetime, false).ok()?;
    Some(Answer { is_private, ..written })
}

/// What stands in a record, in seconds: what cannot be is none (RFC 2181 section 8).
fn seconds(lifetime: Ttl) -> u32 {
    let seconds = lifetime.as_secs();
    if seconds > i32::MAX as u32 { 0 } else { seconds }
}

fn text(name: &ParsedName<&[u8]>) -> String {
    name.to_canonical_name::<Vec<u8>>().to_string()
}

/// The name that was asked for, and those that it stands for.
fn chain(answer: &[Read<'_>], asked: (&Wire, Rtype)) -> Vec<Wire> {
    let mut chain = vec![asked.0.clone()];
    while asked.1 != Rtype::CNAME && chain.len() <= MOST_ALIASES {
        let last = &chain[chain.len() - 1];
        let target = answer.iter().find_map(|record| match record.data() {
            AllRecordData::Cname(alias) if record.owner().name_eq(last) => {
                Some(alias.cname().to_canonical_name::<Vec<u8>>())
            }
            _ => None,
        });
        match target {
            Some(target) if !chain.contains(&target) => chain.push(target),
            _ => break,
        }
    }
    chain
}

/// Whether a record is about what was asked for.
fn answers(record: &Read<'_>, chain: &[Wire], kind: Rtype, signatures: bool) -> bool {
    let is_named = chain.iter().any(|name| record.owner().name_eq(name));
    let is_above = || {
        let owner = text(record.owner());
        chain.iter().any(|name| is_below(&name.to_string(), &owner))
    };
    let is_it = |it: Rtype| match it {
        Rtype::DNAME if kind != Rtype::DNAME => is_above(),
        it => is_named && (it == kind || it == Rtype::CNAME),
    };
    match record.data() {
        AllRecordData::Rrsig(signature) if kind != Rtype::RRSIG => {
            signatures && is_it(signature.type_covered())
        }
        _ => is_it(record.rtype()),
    }
}

/// Proofs that there is nothing, and whose they are: those that a zone above what was asked for has signed, of names in that zone.
fn signed(authority: &[Read<'_>], chain: &[Wire]) -> HashSet<(String, Rtype)> {
    let names: Vec<String> = chain.iter().map(ToString::to_string).collect();
    let of = |record: &Read<'_>| match record.data() {
        AllRecordData::Rrsig(signature) => {
            let (owner, zone) = (text(record.owner()), text(signature.signer_name()));
            let is_ours = is_within(&owner, &zone) && names.iter().any(|name| is_within(name, &zone));
            is_ours.then(|| (owner, signature.type_covered()))
        }
        _ => None,
    };
    authority.iter().filter_map(of).collect()
}

/// Whether record data have an address that is nobody's of the Internet, or this machine's.
fn has_private(data: &Data<'_>, is_own: &impl Fn(IpAddr) -> bool) -> bool {
    let is_private = |address: IpAddr| super::private::is_private(address) || is_own(address);
    match data {
        AllRecordData::A(a) => is_private(a.addr().into()),
        AllRecordData::Aaaa(aaaa) => is_private(aaaa.addr().into()),
        AllRecordData::Svcb(it) => hints(it.params()).into_iter().any(is_private),
        AllRecordData::Https(it) => hints(it.params()).into_iter().any(is_private),
        _ => false,
    }
}

/// Addresses that are to be tried without asking for them (RFC 9460 section 7.3).
fn hints(params: &domain::rdata::svcb::SvcParams<&[u8]>) -> Vec<IpAddr> {
    use domain::rdata::svcb::value::AllValues;
    let hints = |value: Result<AllValues<&[u8]>, _>| -> Vec<IpAddr> {
        match value {
            Ok(AllValues::Ipv4Hint(all)) => all.iter().map(IpAddr::from).collect(),
            Ok(AllValues::Ipv6Hint(all)) => all.iter().map(IpAddr::from).collect(),
            _ => Vec::new(),
        }
    };
    params.iter_all().flat_map(hints).collect()
}

/// Where lifetimes stand in a message that was written here.
fn lifetimes(message: &[u8], name: usize) -> Vec<u16> {
    let number = |at: usize| usize::from(u16::from_be_bytes([message[at], message[at + 1]]));
    let records = number(6) + number(8);
    let mut at = HEADER + name + 4;
    let mut found = Vec::with_capacity(records);
    for _ in 0..records {
        loop {
            match message[at] {
                0 => {
                    at += 1;
                    break;
                }
                192.. => {
                    at += 2;
                    break;
                }
                length => at += 1 + usize::from(length),
            }
        }
        found.push((at + 4) as u16);
        at += 10 + number(at + 8);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::base::Name;

    /// What is heard, with nothing of an answer but its addresses and for how long they hold.
    #[derive(Debug, PartialEq, Eq)]
    enum Said {
        Addresses(Vec<IpAddr>, u32),
        Truncated,
        Failed,
        Nothing,
    }

    fn said(bytes: &[u8], id: u16, kind: Rtype) -> Said {
        let name = Name::vec_from_str("www.test").unwrap();
        match read(bytes, id, (&name, kind), false, |_| false) {
            Some(Heard::Answer(answer)) => Said::Addresses(answer.addresses(16), answer.lifetime),
            Some(Heard::Truncated) => Said::Truncated,
            Some(Heard::Failed | Heard::NoEdns) => Said::Failed,
            None => Said::Nothing,
        }
    }

    /// A question for the addresses of `www.test`.
    fn asks(id: u16) -> Vec<u8> {
        [&id.to_be_bytes()[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0], b"\x03www\x04test\x00", &[0, 1, 0, 1]]
            .concat()
    }

    /// An answer to `www.test` with these records after the question.
    fn reply(flags: u16, records: &[(&[u8], u16, u32, &[u8])]) -> Vec<u8> {
        let mut bytes = asks(7);
        bytes[2..4].copy_from_slice(&flags.to_be_bytes());
        bytes[7] = records.len() as u8;
        for (owner, kind, lifetime, data) in records {
            bytes.extend(*owner);
            bytes.extend(kind.to_be_bytes());
            bytes.extend(1u16.to_be_bytes());
            bytes.extend(lifetime.to_be_bytes());
            bytes.extend((data.len() as u16).to_be_bytes());
            bytes.extend(*data);
        }
        bytes
    }

    #[test]
    fn answers_as_name_servers_send_them() {
        let own: &[u8] = &[0xc0, 12];
        let alias: &[u8] = b"\x01a\x04test\x00";
        let addresses = |all: &[[u8; 4]], lifetime| {
            Said::Addresses(all.iter().map(|it| IpAddr::from(*it)).collect(), lifetime)
        };
        let mut other = reply(0x8180, &[(own, 1, 60, &[192, 0, 2, 1])]);
        other[13] = b'x';
        let mut looping = reply(0x8180, &[]);
        looping[7] = 1;
        looping.extend([0xc0, 26, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0]);
        let rows: &[(&str, Vec<u8>, Said)] = &[
            ("one", reply(0x8180, &[(own, 1, 60, &[192, 0, 2, 1])]), addresses(&[[192, 0, 2, 1]], 60)),
            (
                "two, the shorter life",
                reply(0x8180, &[(own, 1, 60, &[192, 0, 2, 1]), (own, 1, 9, &[192, 0, 2, 2])]),
                addresses(&[[192, 0, 2, 1], [192, 0, 2, 2]], 9),
            ),
            (
                "an alias",
                reply(0x8180, &[(own, 5, 30, alias), (alias, 1, 60, &[192, 0, 2, 3])]),
                addresses(&[[192, 0, 2, 3]], 30),
            ),
            ("an alias to itself", reply(0x8180, &[(own, 5, 30, own)]), addresses(&[], 0)),
            ("somebody else's address", reply(0x8180, &[(alias, 1, 60, &[192, 0, 2, 3])]), addresses(&[], 0)),
            ("no such name", reply(0x8183, &[]), addresses(&[], 0)),
            ("a short address", reply(0x8180, &[(own, 1, 60, &[192, 0, 2])]), Said::Failed),
            ("too long for a datagram", reply(0x8380, &[]), Said::Truncated),
            ("a server in trouble", reply(0x8182, &[]), Said::Failed),
            ("a question", reply(0x0100, &[]), Said::Nothing),
            ("another name", other, Said::Nothing),
            ("a pointer to itself", looping, Said::Failed),
            ("cut short", reply(0x8180, &[(own, 1, 60, &[192, 0, 2, 1])])[..40].to_vec(), Said::Failed),
            ("nothing", Vec::new(), Said::Nothing),
        ];
        for (what, bytes, expected) in rows {
            assert_eq!(&said(bytes, 7, Rtype::A), expected, "{what}");
        }
        let right = reply(0x8180, &[(own, 1, 60, &[192, 0, 2, 1])]);
        assert_eq!(said(&right, 8, Rtype::A), Said::Nothing, "another number");
        assert_eq!(said(&right, 7, Rtype::AAAA), Said::Nothing, "another kind");
    }
}
