//! Lists as people publish them: one address, network or range a line, comments behind `#` and `;`, and ` until ` a time for an entry that ends;
//! or tables of countries, a network and a code a line. Pure: bytes come in pieces of any size, and lines may lie across them.

use super::ending::{Contents, Ending, second_of};
use crate::address::AddressSet;
use crate::ranges::RangeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Broken lines that are named; all are counted.
const NAMED: usize = 10;
/// Longer lines are broken: no entry takes as many bytes.
const LONGEST_LINE: usize = 1024;

/// U+FEFF in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What stands between an entry and the time at which it ends.
const UNTIL: &str = " until ";

/// Reads a list piece by piece.
#[derive(Debug)]
pub struct Reader {
    countries: Vec<String>,
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
    ending: Ending,
    lines: u64,
    broken: u64,
    first_broken: Vec<(u64, Mistake)>,
    found: Vec<bool>,
    /// The beginning of a line whose end has not come yet.
    rest: Vec<u8>,
    /// The line that has not ended is longer than any entry.
    is_too_long: bool,
}

/// What a text had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The entries.
    pub contents: Contents,
    /// Lines that had an entry.
    pub entries: u64,
    /// Lines in all.
    pub lines: u64,
    /// Lines that cannot be read.
    pub broken: u64,
    /// The numbers of the first of these, from 1, and what is wrong with each. Not what they say: a list may be somebody's secret.
    pub first_broken: Vec<(u64, Mistake)>,
    /// Countries that were asked for and that no line has.
    pub missing_countries: Vec<String>,
}

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Mistake {
    /// Not an entry of any kind.
    #[error("neither an address, a network nor a range")]
    NotAnEntry,
    /// An address with a length of prefix that leaves a part of it out.
    #[error("an address inside a network, not a network")]
    HostBits,
    /// A range that ends before it begins, or in the other family.
    #[error("a range that ends before it begins, or in the other family of addresses")]
    Backwards,
    /// A line of a table of countries, where none are asked for.
    #[error("of a table of countries: say which are meant (countries = [\"CH\"])")]
    OfCountries,
    /// No code of a country.
    #[error("no network and a country's code of two letters, with a comma between")]
    NoCountry,
    /// No time at which an entry ends.
    #[error("an entry whose end is no time such as 2026-11-24T10:00:00Z")]
    NoTime,
    /// Longer than any entry.
    #[error("longer than {LONGEST_LINE} bytes")]
    TooLong,
}

impl Reader {
    /// For a list. `countries`: the text is a table of countries, and only the entries of these are wanted, in upper case.
    pub fn new(countries: &[String]) -> Self {
        Self {
            countries: countries.to_vec(),
            v4: Vec::new(),
            v6: Vec::new(),
            ending: Ending::default(),
            lines: 0,
            broken: 0,
            first_broken: Vec::new(),
            found: vec![false; countries.len()],
            rest: Vec::new(),
            is_too_long: false,
        }
    }

    /// Takes the next piece of the text.
    pub fn feed(&mut self, piece: &[u8]) {
        let mut piece = piece;
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            let (line, behind) = (&piece[..end], &piece[end + 1..]);
            if self.rest.is_empty() && !self.is_too_long {
                self.line(line);
            } else {
                self.keep(line);
                self.end_line();
            }
            piece = behind;
        }
        self.keep(piece);
    }

    /// Bytes that it takes in memory by now.
    pub fn bytes(&self) -> usize {
        self.v4.len() * size_of::<(u32, u32)>()
            + self.v6.len() * size_of::<(u128, u128)>()
            + self.ending.bytes()
    }

    /// The text is over.
    pub fn finish(mut self) -> Text {
        if !self.rest.is_empty() || self.is_too_long {
            self.end_line();
        }
        let Ending { v4, v6 } = self.ending;
        let entries = (self.v4.len() + self.v6.len() + v4.len() + v6.len()) as u64;
        let lasting = AddressSet { v4: RangeSet::of(self.v4), v6: RangeSet::of(self.v6) };
        let missing = self.countries.iter().zip(&self.found).filter(|(_, found)| !**found);
        Text {
            entries,
            lines: self.lines,
            broken: self.broken,
            missing_countries: missing.map(|(code, _)| code.clone()).collect(),
            first_broken: self.first_broken,
            contents: Contents::with_ending(lasting, v4, v6),
        }
    }

    fn keep(&mut self, part: &[u8]) {
        self.is_too_long |= self.rest.len() + part.len() > LONGEST_LINE;
        if !self.is_too_long {
            self.rest.extend_from_slice(part);
        }
    }

    fn end_line(&mut self) {
        let mut line = std::mem::take(&mut self.rest);
        if std::mem::take(&mut self.is_too_long) {
            self.lines += 1;
            self.note(Mistake::TooLong);
        } else {
            self.line(&line);
        }
        line.clear();
        self.rest = line;
    }

    fn line(&mut self, line: &[u8]) {
        self.lines += 1;
        if line.len() > LONGEST_LINE {
            return self.note(Mistake::TooLong);
        }
        // Some editors begin a file so.
        let line = if self.lines == 1 { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line };
        let end = line.iter().position(|byte| matches!(byte, b'#' | b';')).unwrap_or(line.len());
        let entry = line[..end].trim_ascii();
        if entry.is_empty() {
            return;
        }
        let Ok(entry) = std::str::from_utf8(entry) else { return self.note(Mistake::NotAnEntry) };
        let read = if self.countries.is_empty() { self.of_list(entry) } else { self.of_country(entry) };
        match read {
            Ok(Some((IpAddr::V4(first), IpAddr::V4(last)))) => self.v4.push((first.into(), last.into())),
            Ok(Some((IpAddr::V6(first), IpAddr::V6(last)))) => self.v6.push((first.into(), last.into())),
            Ok(_) => {}
            Err(mistake) => self.note(mistake),
        }
    }

    /// An entry for good. One that ends is kept here.
    fn of_list(&mut self, line: &str) -> Result<Option<(IpAddr, IpAddr)>, Mistake> {
        let mistake = match entry_of(line) {
            Ok(entry) => return Ok(Some(entry)),
            Err(mistake) => mistake,
        };
        let Some((entry, end)) = line.split_once(UNTIL) else {
            return Err(if self.of_country(line).is_ok() { Mistake::OfCountries } else { mistake });
        };
        self.ending.add(entry_of(entry.trim_end())?, second_of(end.trim_start()).ok_or(Mistake::NoTime)?);
        Ok(None)
    }

    /// The entry of a line `network,code` or `first,last,code`, if its country is wanted.
    fn of_country(&mut self, line: &str) -> Result<Option<(IpAddr, IpAddr)>, Mistake> {
        let (addresses, code) = line.rsplit_once(',').ok_or(Mistake::NoCountry)?;
        let code = code.trim().trim_matches('"');
        // Tables have `??` where nobody knows.
        let is_code =
            code.len() == 2 && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'?');
        if !is_code {
            return Err(Mistake::NoCountry);
        }
        let addresses = addresses.trim().trim_matches('"');
        let entry = match addresses.split_once(',') {
            Some((first, last)) => between(first, last)?,
            None => entry_of(addresses)?,
        };
        let wanted = self.countries.iter().position(|wanted| wanted.eq_ignore_ascii_case(code));
        Ok(wanted.map(|country| {
            self.found[country] = true;
            entry
        }))
    }

    fn note(&mut self, mistake: Mistake) {
        self.broken += 1;
        if self.first_broken.len() < NAMED {
            self.first_broken.push((self.lines, mistake));
        }
    }
}

/// First and last address of an entry.
fn entry_of(text: &str) -> Result<(IpAddr, IpAddr), Mistake> {
    // Most lines of long lists.
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Ok((address.into(), address.into()));
    }
    if let Some((address, length)) = text.split_once('/') {
        return network(address, length);
    }
    if let Some((first, last)) = text.split_once('-') {
        return between(first, last);
    }
    let address = text.parse::<Ipv6Addr>().map_err(|_| Mistake::NotAnEntry)?;
    Ok((address.into(), address.into()))
}

fn network(address: &str, length: &str) -> Result<(IpAddr, IpAddr), Mistake> {
    let digits = !length.is_empty() && length.len() <= 3 && length.bytes().all(|byte| byte.is_ascii_digit());
    let length: u32 = length.parse().ok().filter(|_| digits).ok_or(Mistake::NotAnEntry)?;
    match address.parse().map_err(|_| Mistake::NotAnEntry)? {
        IpAddr::V4(first) if length <= 32 => {
            let (first, hosts) = (u32::from(first), u32::MAX.checked_shr(length).unwrap_or(0));
            if first & hosts != 0 {
                return Err(Mistake::HostBits);
            }
            Ok((IpAddr::V4(first.into()), IpAddr::V4((first | hosts).into())))
        }
        IpAddr::V6(first) if length <= 128 => {
            let (first, hosts) = (u128::from(first), u128::MAX.checked_shr(length).unwrap_or(0));
            if first & hosts != 0 {
                return Err(Mistake::HostBits);
            }
            Ok((IpAddr::V6(first.into()), IpAddr::V6((first | hosts).into())))
        }
        _ => Err(Mistake::NotAnEntry),
    }
}

/// From one address to another; IPv4 addresses may be plain numbers, as in tables of countries.
fn between(first: &str, last: &str) -> Result<(IpAddr, IpAddr), Mistake> {
    let read = |text: &str| {
        let text = text.trim();
        let number = || text.parse::<u32>().ok().map(|number| IpAddr::V4(number.into()));
        text.parse::<IpAddr>().ok().or_else(number).ok_or(Mistake::NotAnEntry)
    };
    let (first, last) = (read(first)?, read(last)?);
    if first.is_ipv4() != last.is_ipv4() || first > last {
        return Err(Mistake::Backwards);
    }
    Ok((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, countries: &[&str], piece: usize) -> Text {
        let countries: Vec<String> = countries.iter().map(|code| (*code).to_owned()).collect();
        let mut reader = Reader::new(&countries);
        text.as_bytes().chunks(piece).for_each(|piece| reader.feed(piece));
        reader.finish()
    }

    /// As ranges, and what is wrong with the line.
    fn one(line: &str, countries: &[&str]) -> String {
        let text = read(line, countries, 1 << 20);
        let addresses = text.contents.at(jiff::Timestamp::UNIX_EPOCH);
        let v4 = addresses
            .v4
            .ranges()
            .iter()
            .map(|(a, b)| (Ipv4Addr::from(*a).to_string(), Ipv4Addr::from(*b).to_string()));
        let v6 = addresses
            .v6
            .ranges()
            .iter()
            .map(|(a, b)| (Ipv6Addr::from(*a).to_string(), Ipv6Addr::from(*b).to_string()));
        let ranges = v4.chain(v6).map(|(a, b)| if a == b { a } else { format!("{a}-{b}") });
        let mistakes = text.first_broken.iter().map(|(_, mistake)| format!("{mistake:?}"));
        ranges.chain(mistakes).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn lines_as_feeds_write_them() {
        for (line, expected) in [
            ("192.0.2.1", "192.0.2.1"),
            ("  192.0.2.1\t# a comment", "192.0.2.1"),
            ("192.0.2.0/24 ; SBL123", "192.0.2.0-192.0.2.255"),
            ("192.0.2.7/32", "192.0.2.7"),
            ("0.0.0.0/0", "0.0.0.0-255.255.255.255"),
            ("192.0.2.1-192.0.2.9\r", "192.0.2.1-192.0.2.9"),
            ("192.0.2.1 - 192.0.2.9", "192.0.2.1-192.0.2.9"),
            ("2001:db8::/32", "2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("2001:db8::1", "2001:db8::1"),
            ("::/0", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("", ""),
            ("# nothing", ""),
            ("\u{feff}192.0.2.1", "192.0.2.1"),
            ("\u{feff}# saved by an editor", ""),
            ("192.0.2.1\n\u{feff}192.0.2.2", "192.0.2.1 NotAnEntry"),
            ("192.0.2.1 until 2026-11-24T10:00:00Z", "192.0.2.1"),
            ("192.0.2.0/24  until  2026-11-24T10:00:00+01:00 # for a day", "192.0.2.0-192.0.2.255"),
            ("2001:db8::1 until 2026-11-24T10:00:00Z", "2001:db8::1"),
            ("192.0.2.1-192.0.2.9 until 2026-11-24T10:00:00Z", "192.0.2.1-192.0.2.9"),
            ("192.0.2.1 until 1969-12-31T23:59:59Z", ""),
            ("192.0.2.1 until 2026-11-24T10:00:00", "NoTime"),
            ("192.0.2.1 until tomorrow", "NoTime"),
            ("192.0.2.1 until", "NotAnEntry"),
            ("192.0.2.0/24,CH", "OfCountries"),
            ("192.0.2.0,192.0.2.9,CH", "OfCountries"),
            ("192.0.2.1,192.0.2.9", "NotAnEntry"),
            ("192.0.2.1/24 until 2026-11-24T10:00:00Z", "HostBits"),
            ("until 2026-11-24T10:00:00Z", "NotAnEntry"),
            ("192.0.2.1/24", "HostBits"),
            ("2001:db8::1/32", "HostBits"),
            ("192.0.2.9-192.0.2.1", "Backwards"),
            ("192.0.2.9-2001:db8::1", "Backwards"),
            ("192.0.2.0/33", "NotAnEntry"),
            ("192.0.2.0/+8", "NotAnEntry"),
            ("192.0.2.0/", "NotAnEntry"),
            ("2001:db8::/129", "NotAnEntry"),
            ("192.0.02.1", "NotAnEntry"),
            ("192.0.2", "NotAnEntry"),
            ("example.org", "NotAnEntry"),
            ("192.0.2.1 192.0.2.2", "NotAnEntry"),
        ] {
            assert_eq!(one(line, &[]), expected, "{line}");
        }
        let long = format!("192.0.2.1{}", " ".repeat(LONGEST_LINE));
        assert_eq!(one(&long, &[]), "TooLong");
    }

    #[test]
    fn tables_of_countries_as_they_are_published() {
        for (line, expected) in [
            ("192.0.2.0/24,CH", "192.0.2.0-192.0.2.255"),
            ("\"192.0.2.0/24\",\"ch\"", "192.0.2.0-192.0.2.255"),
            ("192.0.2.0/24,DE", "192.0.2.0-192.0.2.255"),
            ("192.0.2.0/24,US", ""),
            ("192.0.2.0/24,??", ""),
            ("16777216,16777471,CH", "1.0.0.0-1.0.0.255"),
            (
                "2001:200::,2001:200:ffff:ffff:ffff:ffff:ffff:ffff,CH",
                "2001:200::-2001:200:ffff:ffff:ffff:ffff:ffff:ffff",
            ),
            ("192.0.2.0/24", "NoCountry"),
            ("192.0.2.0/24,Switzerland", "NoCountry"),
            ("192.0.2.0/24,CH until 2026-11-24T10:00:00Z", "NoCountry"),
            ("192.0.2.1/24,CH", "HostBits"),
            ("16777471,16777216,CH", "Backwards"),
        ] {
            assert_eq!(one(line, &["CH", "DE"]), expected, "{line}");
        }
        assert_eq!(read("192.0.2.0/24,CH\n", &["CH", "DE"], 99).missing_countries, ["DE"]);
    }

    #[test]
    fn pieces_end_anywhere() {
        let long = "x".repeat(LONGEST_LINE * 3);
        let text = format!("192.0.2.1\n{long}\n\n10.0.0.0/8\nbroken\n2001:db8::1");
        let whole = read(&text, &[], usize::MAX);
        assert_eq!((whole.lines, whole.entries, whole.broken), (6, 3, 2));
        assert_eq!(whole.first_broken, [(2, Mistake::TooLong), (5, Mistake::NotAnEntry)]);
        for piece in 1..40 {
            assert_eq!(read(&text, &[], piece), whole, "pieces of {piece}");
        }
    }

    #[test]
    fn of_many_broken_lines_the_first_are_named_and_all_counted() {
        let lines = (0..100_000u32)
            .map(|i| if i % 2 == 0 { format!("{}\n", Ipv4Addr::from(i << 8)) } else { "?\n".to_owned() });
        let text = read(&lines.collect::<String>(), &[], 4096);
        assert_eq!((text.entries, text.broken, text.lines), (50_000, 50_000, 100_000));
        let numbers: Vec<u64> = text.first_broken.iter().map(|(line, _)| *line).collect();
        assert_eq!(numbers, [2, 4, 6, 8, 10, 12, 14, 16, 18, 20]);
    }
}
