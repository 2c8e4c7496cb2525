//! Questions of the gateways themselves to name servers and their answers (RFC 1035), as bytes; and what of them is kept. Only addresses are asked for. An answer counts if
//! it answers what was asked, with the number that it was asked by; who sent it is up to the socket.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Addresses that are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Of IPv4.
    A = 1,
    /// Of IPv6.
    Aaaa = 28,
}

/// What a name server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// These addresses, for so many seconds; none if there is no such name, or it has none of this kind.
    Addresses(Vec<IpAddr>, u32),
    /// It was too long for a datagram, and is to be asked for by TCP.
    Truncated,
    /// The server could not answer.
    Failed,
}

/// Names behind names that are followed.
const MOST_ALIASES: usize = 8;
/// Addresses of a name that are kept.
const MOST_ADDRESSES: usize = 16;

/// A question. `name` is in small letters, at most 253 bytes.
pub fn question(id: u16, name: &str, kind: Kind) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len() + 18);
    bytes.extend(id.to_be_bytes());
    // Recursion is desired; one question.
    bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.extend([0, 0, kind as u8, 0, 1]);
    bytes
}

/// Reads an answer; `None` if it does not answer this question.
pub fn answer(bytes: &[u8], id: u16, name: &str, kind: Kind) -> Option<Answer> {
    let number = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let (flags, questions, answers) = (number(2)?, number(4)?, number(6)?);
    let is_answer = flags & 0x8000 != 0 && flags & 0x7800 == 0;
    if number(0)? != id || !is_answer || questions != 1 {
        return None;
    }
    let (asked, at) = read_name(bytes, 12)?;
    if asked != name || number(at)? != kind as u16 || number(at + 2)? != 1 {
        return None;
    }
    if flags & 0x0200 != 0 {
        return Some(Answer::Truncated);
    }
    match flags & 0xf {
        0 => {}
        3 => return Some(Answer::Addresses(Vec::new(), 0)),
        _ => return Some(Answer::Failed),
    }
    let records = records(bytes, at + 4, answers)?;
    Some(follow(bytes, &records, name, kind))
}

/// A record of the answer: whose it is, its type, its lifetime and where its data are.
type Record = (String, u16, u32, std::ops::Range<usize>);

fn records(bytes: &[u8], mut at: usize, count: u16) -> Option<Vec<Record>> {
    let mut found = Vec::new();
    for _ in 0..count {
        let (owner, after) = read_name(bytes, at)?;
        let head: [u8; 10] = bytes.get(after..after + 10)?.try_into().ok()?;
        let kind = u16::from_be_bytes([head[0], head[1]]);
        let class = u16::from_be_bytes([head[2], head[3]]);
        let lifetime = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        let length = usize::from(u16::from_be_bytes([head[8], head[9]]));
        let data = after + 10..after + 10 + length;
        bytes.get(data.clone())?;
        at = data.end;
        if class == 1 {
            found.push((owner, kind, lifetime, data));
        }
    }
    Some(found)
}

/// The addresses of a name, over its aliases.
fn follow(bytes: &[u8], records: &[Record], name: &str, kind: Kind) -> Answer {
    const ALIAS: u16 = 5;
    let (mut name, mut lifetime) = (name.to_owned(), u32::MAX);
    for _ in 0..=MOST_ALIASES {
        let of_name = || records.iter().filter(|(owner, ..)| *owner == name);
        let mut addresses = Vec::new();
        for (_, _, seconds, data) in
            of_name().filter(|(_, found, ..)| *found == kind as u16).take(MOST_ADDRESSES)
        {
            let address: Option<IpAddr> = match (kind, &bytes[data.clone()]) {
                (Kind::A, data) => <[u8; 4]>::try_from(data).ok().map(|it| Ipv4Addr::from(it).into()),
                (Kind::Aaaa, data) => <[u8; 16]>::try_from(data).ok().map(|it| Ipv6Addr::from(it).into()),
            };
            lifetime = lifetime.min(*seconds);
            addresses.extend(address);
        }
        if !addresses.is_empty() {
            return Answer::Addresses(addresses, lifetime);
        }
        let alias = of_name().find(|(_, found, ..)| *found == ALIAS);
        let Some((_, _, seconds, data)) = alias else { break };
        let Some((target, _)) = read_name(bytes, data.start) else { break };
        lifetime = lifetime.min(*seconds);
        name = target;
    }
    Answer::Addresses(Vec::new(), 0)
}

/// A name in small letters, and where the next thing is. What it points to must be before it, so that reading ends.
fn read_name(bytes: &[u8], start: usize) -> Option<(String, usize)> {
    let mut name = String::new();
    let (mut at, mut after, mut limit) = (start, None, start);
    loop {
        let length = usize::from(*bytes.get(at)?);
        match length {
            0 => return Some((name, after.unwrap_or(at + 1))),
            1..=63 => {
                let label = bytes.get(at + 1..at + 1 + length)?;
                if !name.is_empty() {
                    name.push('.');
                }
                // What has a dot or a blank in it is no name of ours, and must not look like one.
                label.iter().for_each(|byte| match byte {
                    b'.' | b'\\' => name.push('\\'),
                    byte => name.push(char::from(byte.to_ascii_lowercase())),
                });
                at += 1 + length;
                if name.len() > 255 {
                    return None;
                }
            }
            192..=255 => {
                let to = (length & 63) << 8 | usize::from(*bytes.get(at + 1)?);
                after = after.or(Some(at + 2));
                if to >= limit {
                    return None;
                }
                (at, limit) = (to, to);
            }
            _ => return None,
        }
    }
}

/// Names that are kept at most.
const KEPT: usize = 4096;
/// How long an answer is kept, whatever it says itself.
const LEAST: Duration = Duration::from_secs(5);
const MOST: Duration = Duration::from_secs(3600);

/// Addresses of names, for as long as their answers say. Without a clock: the moment is an argument.
#[derive(Debug, Default)]
pub struct Cache {
    known: HashMap<String, (Vec<IpAddr>, Instant)>,
}

impl Cache {
    /// The addresses of a name, if they are known: none if it is known to have none.
    pub fn get(&self, name: &str, now: Instant) -> Option<Vec<IpAddr>> {
        let (addresses, until) = self.known.get(name)?;
        (now < *until).then(|| addresses.clone())
    }

    /// Keeps addresses for so many seconds.
    pub fn put(&mut self, name: &str, addresses: Vec<IpAddr>, seconds: u32, now: Instant) {
        if self.known.len() >= KEPT {
            self.known.retain(|_, (_, until)| now < *until);
        }
        if self.known.len() >= KEPT {
            // Whoever asks for thousands of names makes the cache useless, and nothing else.
            self.known.clear();
        }
        let time = Duration::from_secs(u64::from(seconds)).clamp(LEAST, MOST);
        self.known.insert(name.to_owned(), (addresses, now + time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer to `www.test` with these records after the question.
    fn reply(flags: u16, records: &[(&[u8], u16, u32, &[u8])]) -> Vec<u8> {
        let mut bytes = question(7, "www.test", Kind::A);
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
            Some(Answer::Addresses(all.iter().map(|it| IpAddr::from(*it)).collect(), lifetime))
        };
        let mut other = reply(0x8180, &[(own, 1, 60, &[192, 0, 2, 1])]);
        other[13] = b'x';
        let mut looping = reply(0x8180, &[]);
        looping[7] = 1;
        looping.extend([0xc0, 26, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0]);
        let rows: &[(&str, Vec<u8>, Option<Answer>)] = &[
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
            ("a short address", reply(0x8180, &[(own, 1, 60, &[192, 0, 2])]), addresses(&[], 0)),
            ("too long for a datagram", reply(0x8380, &[]), Some(Answer::Truncated)),
            ("a server in trouble", reply(0x8182, &[]), Some(Answer::Failed)),
            ("a question", reply(0x0100, &[]), None),
            ("another name", other, None),
            ("a pointer to itself", looping, None),
            ("cut short", reply(0x8180, &[(own, 1, 60, &[192, 0, 2, 1])])[..40].to_vec(), None),
            ("nothing", Vec::new(), None),
        ];
        for (what, bytes, expected) in rows {
            assert_eq!(&answer(bytes, 7, "www.test", Kind::A), expected, "{what}");
        }
        let right = reply(0x8180, &[(own, 1, 60, &[192, 0, 2, 1])]);
        assert_eq!(answer(&right, 8, "www.test", Kind::A), None, "another number");
        assert_eq!(answer(&right, 7, "www.test", Kind::Aaaa), None, "another kind");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_an_answer_or_none(bytes: Vec<u8>) {
            let mut with_head = question(7, "www.test", Kind::A);
            with_head[2] = 0x80;
            with_head[7] = 3;
            with_head.extend(&bytes);
            let _ = (answer(&bytes, 7, "www.test", Kind::A), answer(&with_head, 7, "www.test", Kind::A));
        }
    }

    #[test]
    fn what_is_kept_has_a_lifetime_between_bounds() {
        let start = Instant::now();
        let address: Vec<IpAddr> = vec!["192.0.2.1".parse().unwrap()];
        for (seconds, kept) in [(0, 5), (4, 5), (60, 60), (1_000_000, 3600)] {
            let mut cache = Cache::default();
            cache.put("a.test", address.clone(), seconds, start);
            let at = |seconds| cache.get("a.test", start + Duration::from_secs(seconds));
            assert_eq!((at(kept - 1), at(kept)), (Some(address.clone()), None), "{seconds}");
            assert_eq!(cache.get("b.test", start), None);
        }
    }
}
