//! A backup as one file: a line that says what it is, with the length and the digest of the rest, and then compressed lines of JSON. The policy in
//! force comes first, then the texts and entries of the history from the newest on, then copies of lists, and last what had no place. No line names a path, so a backup can only say what a
//! firewall takes, never where a file goes. Reads no clock and no disk.

use crate::api::HistoryEntry;
use crate::history::{KEPT, is_sha256, sha256};
use crate::list_copies::MOST_COPIES;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use policy::lists::compiled;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

const MAGIC: &str = "rampart-backup";
const VERSION: u32 = 1;
/// Bytes of the first line at most.
const LONGEST_HEAD: usize = 256;
/// Bytes of a backup, unpacked: what a policy may have, and as much again.
pub(crate) const MOST_UNPACKED: u64 = 512 << 20;

/// What a backup has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Backup {
    pub(crate) about: About,
    pub(crate) policy: Policy,
    /// The oldest first, each with its text.
    pub(crate) entries: Vec<(HistoryEntry, Arc<str>)>,
    /// Copies of lists, by the names of their files.
    pub(crate) copies: Vec<(String, Vec<u8>)>,
}

/// Where a backup comes from, and what had no place in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct About {
    /// Of the rampart that made it.
    pub(crate) version: String,
    pub(crate) made_at: Timestamp,
    pub(crate) entries_left_out: u64,
    pub(crate) lists_left_out: u64,
}

/// The policy that was in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Policy {
    pub(crate) file: String,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) text: String,
}

/// A line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Line {
    About(About),
    Policy(Policy),
    /// A text of the history, before the first entry that has it.
    Text(String),
    Entry(Box<HistoryEntry>),
    List {
        name: String,
        base64: String,
    },
}

/// What a backup is made of. Texts and copies are read one by one, because all of them together may be larger than the machine's memory.
pub(crate) struct Parts<'p> {
    pub(crate) policy: Policy,
    /// The oldest first.
    pub(crate) entries: &'p [HistoryEntry],
    pub(crate) text_of: &'p dyn Fn(&HistoryEntry) -> io::Result<String>,
    /// Names of the copies of lists.
    pub(crate) copies: &'p [String],
    pub(crate) copy_of: &'p dyn Fn(&str) -> io::Result<Vec<u8>>,
}

/// Makes a backup of at most so many bytes, unpacked. What finds no place or cannot be read is left out and counted: the oldest entries, and
/// copies of lists, which can be fetched again.
///
/// # Errors
/// The policy in force alone is larger.
pub(crate) fn encode(parts: Parts<'_>, made_at: Timestamp, most: u64) -> io::Result<Vec<u8>> {
    let packed = GzEncoder::new(Vec::new(), Compression::fast());
    let mut lines = Lines { packed, room: most };
    let mut about = About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        made_at,
        entries_left_out: 0,
        lists_left_out: 0,
    };
    if !lines.push(&[Line::Policy(parts.policy)])? {
        return Err(io::Error::other(format!("the policy is larger than {most} bytes")));
    }
    let mut texts = BTreeSet::new();
    // The newest are worth most.
    for (before, entry) in parts.entries.iter().enumerate().rev() {
        let is_known = texts.contains(&entry.sha256);
        let text = if is_known { None } else { Some((parts.text_of)(entry)) };
        let Ok(text) = text.transpose() else {
            about.entries_left_out += 1;
            continue;
        };
        let line = Line::Entry(Box::new(entry.clone()));
        let both: Vec<Line> = text.map(Line::Text).into_iter().chain([line]).collect();
        if !lines.push(&both)? {
            about.entries_left_out += before as u64 + 1;
            break;
        }
        texts.insert(&entry.sha256);
    }
    for name in parts.copies {
        let copy = (parts.copy_of)(name).map(|copy| BASE64_STANDARD.encode(copy));
        let fits = copy.map(|base64| lines.push(&[Line::List { name: name.clone(), base64 }]));
        if !matches!(fits, Ok(Ok(true))) {
            about.lists_left_out += 1;
        }
    }
    lines.room = u64::MAX;
    lines.push(&[Line::About(about)])?;
    let packed = lines.packed.finish()?;
    let mut all = format!("{MAGIC} {VERSION} {} {}\n", packed.len(), sha256(&packed)).into_bytes();
    all.extend(packed);
    Ok(all)
}

/// Lines with a limit.
struct Lines {
    packed: GzEncoder<Vec<u8>>,
    room: u64,
}

impl Lines {
    /// False: they find no place together, and none of them is there.
    fn push(&mut self, lines: &[Line]) -> io::Result<bool> {
        let mut bytes = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut bytes, line)?;
            bytes.push(b'\n');
        }
        let fits = bytes.len() as u64 <= self.room;
        if fits {
            self.packed.write_all(&bytes)?;
            self.room -= bytes.len() as u64;
        }
        Ok(fits)
    }
}

/// Whether a file that starts like this was meant as a backup, whole or not.
pub(crate) fn begins(start: &[u8]) -> bool {
    start.strip_prefix(MAGIC.as_bytes()).is_some_and(|rest| rest.starts_with(b" "))
}

/// Reads a backup, and checks all of it but whether the policy can be put in force.
///
/// # Errors
/// Why it is refused, as a sentence.
pub(crate) fn decode(bytes: &[u8]) -> Result<Backup, String> {
    decode_within(bytes, MOST_UNPACKED)
}

fn decode_within(bytes: &[u8], most: u64) -> Result<Backup, String> {
    let packed = checked(bytes)?;
    let mut unpacked = BufReader::new(GzDecoder::new(packed).take(most + 1));
    let mut reading = Reading::default();
    let (mut line, mut total) = (Vec::new(), 0);
    loop {
        line.clear();
        let length = unpacked
            .read_until(b'\n', &mut line)
            .map_err(|error| format!("it cannot be unpacked: {error}"))?;
        total += length as u64;
        if total > most {
            return Err(format!("it is larger than {most} bytes when it is unpacked, which no backup is"));
        }
        if length == 0 {
            return reading.finish();
        }
        reading.number += 1;
        let number = reading.number;
        let value = serde_json::from_slice(&line).map_err(|error| error.to_string());
        value.and_then(|line| reading.take(line)).map_err(|why| format!("line {number} of it: {why}"))?;
    }
}

/// What follows the first line, if it is what the first line says.
fn checked(bytes: &[u8]) -> Result<&[u8], String> {
    let end = bytes.iter().take(LONGEST_HEAD).position(|byte| *byte == b'\n');
    let head = end.and_then(|end| std::str::from_utf8(&bytes[..end]).ok()).unwrap_or_default();
    let words: Vec<&str> = head.split(' ').collect();
    let version = match words[..] {
        [MAGIC, version, ..] => version,
        _ => return Err(format!("it does not begin as a backup does (`{MAGIC} {VERSION} ...`)")),
    };
    if version != VERSION.to_string() {
        return Err(format!(
            "it has version {} of the format, and this rampart reads version {VERSION}: restore it with the rampart that made it, or \
             apply its policy",
            version.chars().take(20).collect::<String>()
        ));
    }
    let [_, _, length, digest] = words[..] else { return Err("its first line is not whole".to_owned()) };
    let packed = &bytes[head.len() + 1..];
    if length != packed.len().to_string() {
        return Err(format!(
            "it has {} bytes, and was made with {length}: it is cut or longer",
            packed.len()
        ));
    }
    if sha256(packed) != digest {
        return Err("its digest is not that of its contents: it was damaged or changed".to_owned());
    }
    Ok(packed)
}

/// What was read so far.
#[derive(Default)]
struct Reading {
    number: u64,
    about: Option<About>,
    policy: Option<Policy>,
    /// By digest. Entries share them, or else a small backup could fill the memory.
    texts: BTreeMap<String, Arc<str>>,
    entries: Vec<(HistoryEntry, Arc<str>)>,
    copies: Vec<(String, Vec<u8>)>,
}

impl Reading {
    fn take(&mut self, line: Line) -> Result<(), String> {
        match line {
            Line::Policy(policy) if self.number == 1 => self.policy = Some(policy),
            Line::Policy(_) => return Err("it is not in its place".to_owned()),
            _ if self.policy.is_none() => return Err("the policy is not before it".to_owned()),
            _ if self.about.is_some() => return Err("it comes after the end".to_owned()),
            Line::About(about) => self.about = Some(about),
            Line::Text(text) => drop(self.texts.insert(sha256(text.as_bytes()), text.into())),
            Line::Entry(entry) => self.take_entry(*entry)?,
            Line::List { name, base64 } => self.take_copy(name, &base64)?,
        }
        Ok(())
    }

    fn take_entry(&mut self, entry: HistoryEntry) -> Result<(), String> {
        if !is_sha256(&entry.sha256) {
            return Err("`sha256` is no SHA-256".to_owned());
        }
        // Besides the newest there are the policy in force and the last that was confirmed.
        if self.entries.len() >= KEPT + 2 {
            return Err(format!("a history has {KEPT} entries"));
        }
        let text = self.texts.get(&entry.sha256).ok_or("its text is not before it")?.clone();
        self.entries.push((entry, text));
        Ok(())
    }

    fn take_copy(&mut self, name: String, base64: &str) -> Result<(), String> {
        if !is_name_of_copy(&name) {
            return Err(format!("`{}` is no name of a list's copy", name.escape_debug()));
        }
        if self.copies.len() >= MOST_COPIES || self.copies.iter().any(|(known, _)| *known == name) {
            return Err("there are too many copies of lists, or one comes twice".to_owned());
        }
        let copy = BASE64_STANDARD.decode(base64).map_err(|error| error.to_string())?;
        compiled::decode(&copy).map_err(|_| format!("the copy `{name}` is damaged"))?;
        self.copies.push((name, copy));
        Ok(())
    }

    fn finish(mut self) -> Result<Backup, String> {
        // Written with the newest first.
        self.entries.reverse();
        let (Some(about), Some(policy)) = (self.about, self.policy) else {
            return Err("it has no policy, or no end".to_owned());
        };
        Ok(Backup { about, policy, entries: self.entries, copies: self.copies })
    }
}

/// `NAME-0123456789abcdef.list`: a name in the folder of copies, which leads nowhere else.
pub(crate) fn is_name_of_copy(name: &str) -> bool {
    let Some((list, hash)) = name.strip_suffix(".list").and_then(|stem| stem.rsplit_once('-')) else {
        return false;
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    (1..=128).contains(&list.len())
        && !list.starts_with('.')
        && list.chars().all(is_plain)
        && hash.len() == 16
        && hash.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Outcome, Way};
    use policy::lists::Contents;

    fn entry(number: u64, text: &str) -> (HistoryEntry, Arc<str>) {
        let entry = HistoryEntry {
            number,
            at: "2026-11-22T10:00:00Z".parse().unwrap(),
            by: "a test".into(),
            way: Way::Apply,
            of: None,
            from_backup: false,
            file: "p.toml".to_owned(),
            folder: None,
            rules: 1,
            sha256: sha256(text.as_bytes()),
            outcome: Outcome::Applied,
        };
        (entry, text.into())
    }

    fn copy(number: u64) -> (String, Vec<u8>) {
        (format!("bad-{number:016x}.list"), compiled::encode(&Contents::default()))
    }

    fn backup() -> Backup {
        Backup {
            about: About {
                version: "0.1.0".to_owned(),
                made_at: "2026-11-22T10:00:00Z".parse().unwrap(),
                entries_left_out: 0,
                lists_left_out: 0,
            },
            policy: Policy { file: "p.toml".to_owned(), folder: None, text: "# the policy".to_owned() },
            entries: vec![entry(1, "a"), entry(2, "b"), entry(3, "a")],
            copies: vec![copy(1), copy(2)],
        }
    }

    fn made(backup: &Backup, most: u64) -> io::Result<Vec<u8>> {
        let entries: Vec<HistoryEntry> = backup.entries.iter().map(|(entry, _)| entry.clone()).collect();
        let names: Vec<String> = backup.copies.iter().map(|(name, _)| name.clone()).collect();
        let text_of = |wanted: &HistoryEntry| {
            let found = backup.entries.iter().find(|(entry, _)| entry == wanted);
            Ok(found.unwrap().1.to_string())
        };
        let copy_of = |wanted: &str| {
            let found = backup.copies.iter().find(|(name, _)| name == wanted);
            Ok(found.unwrap().1.clone())
        };
        let parts = Parts {
            policy: backup.policy.clone(),
            entries: &entries,
            text_of: &text_of,
            copies: &names,
            copy_of: &copy_of,
        };
        encode(parts, backup.about.made_at, most)
    }

    /// A backup whose lines somebody has written: everything else about it is right.
    fn forged(lines: &str) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(lines.as_bytes()).unwrap();
        let packed = packed.finish().unwrap();
        let mut all = format!("{MAGIC} {VERSION} {} {}\n", packed.len(), sha256(&packed)).into_bytes();
        all.extend(packed);
        all
    }

    fn lines(backup: &Backup) -> Vec<String> {
        let bytes = made(backup, MOST_UNPACKED).unwrap();
        let packed = checked(&bytes).unwrap();
        BufReader::new(GzDecoder::new(packed)).lines().map(Result::unwrap).collect()
    }

    #[test]
    fn what_is_backed_up_comes_back() {
        let bytes = made(&backup(), MOST_UNPACKED).unwrap();
        assert_eq!(decode(&bytes), Ok(backup()));
        let lines = lines(&backup());
        assert_eq!(lines.iter().filter(|line| line.starts_with("{\"text\"")).count(), 2, "{lines:#?}");
    }

    #[test]
    fn what_finds_no_place_is_the_oldest_and_counted() {
        let whole: usize = lines(&backup()).iter().map(|line| line.len() + 1).sum();
        let mut seen = std::collections::BTreeSet::new();
        for most in 0..=whole as u64 {
            let Ok(bytes) = made(&backup(), most) else {
                assert!(most <= lines(&backup())[0].len() as u64, "the policy has a place");
                continue;
            };
            let found = decode(&bytes).unwrap();
            assert_eq!(found.entries.len() as u64 + found.about.entries_left_out, 3, "{most}");
            assert_eq!(found.copies.len() as u64 + found.about.lists_left_out, 2, "{most}");
            assert!(backup().entries.ends_with(&found.entries), "{most}: the newest are there");
            seen.insert(found.entries.len());
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn a_hostile_backup_is_refused_with_the_reason() {
        let good = made(&backup(), MOST_UNPACKED).unwrap();
        let text = lines(&backup());
        let with = |change: &dyn Fn(&mut Vec<String>)| {
            let mut lines = text.clone();
            change(&mut lines);
            forged(&(lines.join("\n") + "\n"))
        };
        let copies = |name: &str| {
            let line = serde_json::json!({ "list": { "name": name, "base64": "" } }).to_string();
            with(&|lines| lines.insert(1, line.clone()))
        };
        let mut cut = good.clone();
        cut.truncate(good.len() - 1);
        let mut flipped = good.clone();
        *flipped.last_mut().unwrap() ^= 1;
        let newer = [b"rampart-backup 2 later\n".as_slice(), &good].concat();
        let entry_line = text.iter().position(|line| line.starts_with("{\"entry\"")).unwrap();
        for (what, bytes, why) in [
            ("nothing", Vec::new(), "does not begin as a backup"),
            ("a tar", [b"../etc/passwd\0\0".as_slice(), &[0; 500]].concat(), "does not begin as a backup"),
            ("a newer one", newer, "version 2 of the format, and this rampart reads version 1"),
            ("cut", cut, "it is cut or longer"),
            ("longer", [good.as_slice(), b"x"].concat(), "it is cut or longer"),
            ("a bit", flipped, "damaged or changed"),
            ("half a head", b"rampart-backup 1 7\n".to_vec(), "its first line is not whole"),
            (
                "no gzip",
                {
                    let digest = sha256(b"abc");
                    format!("rampart-backup 1 3 {digest}\nabc").into_bytes()
                },
                "cannot be unpacked",
            ),
            ("empty", forged(""), "it has no policy"),
            ("no end", with(&|lines| drop(lines.pop())), "or no end"),
            ("no policy", with(&|lines| drop(lines.remove(0))), "the policy is not before it"),
            ("two policies", with(&|lines| lines.insert(1, lines[0].clone())), "not in its place"),
            (
                "what is not known",
                with(&|lines| lines.insert(1, "{\"link\":\"x\"}".to_owned())),
                "unknown variant `link`",
            ),
            ("no JSON", with(&|lines| lines.insert(1, "../..".to_owned())), "line 2 of it"),
            ("no text", with(&|lines| drop(lines.remove(entry_line - 1))), "its text is not before it"),
            (
                "a path as a digest",
                with(&|lines| {
                    let digest = sha256(b"a");
                    lines[entry_line] = lines[entry_line].replace(&digest, "../../../../etc/cron.d/x");
                }),
                "no SHA-256",
            ),
            (
                "too many",
                with(&|lines| {
                    let all = vec![lines[entry_line].clone(); KEPT + 2];
                    drop(lines.splice(entry_line..entry_line, all))
                }),
                "a history has 50",
            ),
            (
                "out of the folder",
                copies("../../etc/cron.d/x-0123456789abcdef.list"),
                "no name of a list's copy",
            ),
            ("hidden", copies(".-0123456789abcdef.list"), "no name of a list's copy"),
            ("from the root on", copies("/etc/x-0123456789abcdef.list"), "no name of a list's copy"),
            ("a NUL", copies("x\0-0123456789abcdef.list"), "no name of a list's copy"),
            ("another end", copies("x-0123456789abcdef.list.new"), "no name of a list's copy"),
            ("a damaged list", copies("x-0123456789abcdef.list"), "is damaged"),
            (
                "a list twice",
                with(&|lines| lines.insert(lines.len() - 1, lines[lines.len() - 2].clone())),
                "comes twice",
            ),
            ("after the end", with(&|lines| lines.push(lines[entry_line].clone())), "after the end"),
        ] {
            let found = decode(&bytes).unwrap_err();
            assert!(found.contains(why), "{what}: {found}");
        }
        assert!(is_name_of_copy("country:CH-0123456789abcdef.list"));
        // Zeros that unpack to a thousand times as much.
        let bomb = with(&|lines| lines.insert(1, format!("{{\"text\":\"{}\"}}", "0".repeat(1 << 20))));
        assert!(bomb.len() < 20_000);
        assert!(
            decode_within(&bomb, 1 << 20)
                .unwrap_err()
                .contains("larger than 1048576 bytes when it is unpacked")
        );
        assert!(decode_within(&bomb, 2 << 20).is_ok());
    }
}
