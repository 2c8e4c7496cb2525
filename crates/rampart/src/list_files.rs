//! Reads what is on the lists of a policy: text as feeds publish it, compressed or not, and compiled lists. A list that cannot be read as
//! a whole is refused as a whole. Decides nothing about packets.

use crate::country_files;
use crate::list_copies::{Copies, Source, source};
use crate::list_room::{Room, Share, free_memory};
use crate::side_by_side::side_by_side;
use crate::whole_file;
use flate2::read::MultiGzDecoder;
use jiff::{SignedDuration, Timestamp};
use policy::Policy;
use policy::address::AddressSet;
use policy::lists::{Broken, Contents, List, ListTable, Reader, compiled};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;
/// What a compressed file begins with (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// More text than this is no list: a few hundred bytes could be unpacked to it for hours.
const MOST_TEXT: u64 = 16 << 30;

/// How often entries end at most: each time, all lists are read again.
pub(crate) const BETWEEN_ENDS: SignedDuration = SignedDuration::from_secs(10);

/// What is on the lists of a policy.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) table: ListTable,
    pub(crate) lists: Vec<Facts>,
}

/// What a file has.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) contents: Contents,
    pub(crate) broken_lines: u64,
    /// All of it, if it is a compiled list, for the copy: making the same form anew would take as long as reading it.
    pub(crate) compiled: Option<Vec<u8>>,
}

impl From<Contents> for Read {
    fn from(contents: Contents) -> Self {
        Self { contents, broken_lines: 0, compiled: None }
    }
}

/// How a list was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) ipv4_addresses: u64,
    pub(crate) ipv6_ranges: u64,
    pub(crate) broken_lines: u64,
    pub(crate) read_at: Timestamp,
    /// When it is to be read again because entries have ended by then.
    pub(crate) next_end: Option<Timestamp>,
    /// The file as it was before it was read.
    pub(crate) mark: Option<Mark>,
    /// Why it is a copy of what the file was, or nothing.
    pub(crate) trouble: Option<String>,
}

impl Facts {
    /// Of a list of which nothing has to be read, or fetched, any more.
    const fn of_expired(at: Timestamp) -> Self {
        Self {
            ipv4_addresses: 0,
            ipv6_ranges: 0,
            broken_lines: 0,
            read_at: at,
            next_end: None,
            mark: None,
            trouble: None,
        }
    }
}

/// What distinguishes a file from what it was before, without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    device: u64,
    inode: u64,
    bytes: u64,
    /// When its content changed, and when anything of it did, which nobody can set back: seconds and nanoseconds.
    changed: [(i64, i64); 2],
}

impl Mark {
    /// `None` if the file cannot be seen.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let about = fs::metadata(path).ok()?;
        Some(Self {
            device: about.dev(),
            inode: about.ino(),
            bytes: about.len(),
            changed: [(about.mtime(), about.mtime_nsec()), (about.ctime(), about.ctime_nsec())],
        })
    }

    /// When its content was written.
    pub(crate) fn written_at(&self) -> Option<Timestamp> {
        Timestamp::new(self.changed[0].0, self.changed[0].1 as i32).ok()
    }
}

/// Reads all lists of a policy as they are at a moment; `None` if it has none. Keeps copies of them, if there is a place for them.
///
/// # Errors
/// The first list that cannot be read, with its place and what to do.
pub(crate) fn load(
    policy: &Policy,
    copies: Option<Copies<'_>>,
    at: Timestamp,
) -> Result<Option<Loaded>, String> {
    if policy.lists.is_empty() {
        return Ok(None);
    }
    let (sets, lists): (Vec<_>, Vec<_>) = read_each(policy, copies, at)?.into_iter().unzip();
    let table = ListTable::build(&sets.iter().collect::<Vec<_>>());
    let table = table.map_err(|error| format!("{}: {error}", policy.file))?;
    let (needed, free) = (table.bytes() as u64, free_memory());
    if needed > free {
        return Err(format!(
            "{}: the lists take {} MiB in the kernel, and {} MiB are free: shorten them, or give the machine more memory",
            policy.file,
            needed >> 20,
            free >> 20
        ));
    }
    Ok(Some(Loaded { table, lists }))
}

/// Each list of a policy: what is on it, and how it was read. What is fetched is in the copies alone.
///
/// # Errors
/// The first list that cannot be read, with what to do.
pub(crate) fn read_all(
    policy: &Policy,
    copies: Copies<'_>,
    at: Timestamp,
) -> Result<Vec<(AddressSet, Facts)>, String> {
    read_each(policy, Some(copies), at)
}

/// What is wrong with a list, with its place in the policy.
pub(crate) fn of_list(policy: &Policy, list: &List, why: &str) -> String {
    format!("{}: the list `{}`: {why}", policy.place(&list.span), list.name)
}

fn read_each(
    policy: &Policy,
    copies: Option<Copies<'_>>,
    at: Timestamp,
) -> Result<Vec<(AddressSet, Facts)>, String> {
    let room = Room::of_machine();
    let read = |list: &List| {
        let share = room.share();
        let read = read(list, policy.folder.as_deref(), &share, copies, at);
        if let Ok((set, _)) = &read {
            share.keep(bytes_of(set));
        }
        read.map_err(|why| of_list(policy, list, &why))
    };
    let all = side_by_side(&policy.lists, read)?;
    if let Some(copies) = copies {
        let sources = policy.lists.iter().map(|list| (list, source(list, policy.folder.as_deref())));
        let used: Vec<_> =
            sources.filter_map(|(list, source)| Some(copies.path(list, &source.ok()?))).collect();
        // Old copies take some space, and no list is the worse for it.
        let _ = copies.forget_oldest(&used);
    }
    Ok(all)
}

/// The entries of a file by itself, with those that end, and how many lines cannot be read.
///
/// # Errors
/// It cannot be read, with what to do.
pub(crate) fn entries_of(list: &List, path: &Path) -> Result<(Contents, u64), String> {
    let read = read_file(list, path, &Room::of_machine().share());
    read.map(|read| (read.contents, read.broken_lines)).map_err(|why| format!("{}: {why}", path.display()))
}

/// IPv4 addresses, and ranges of IPv6.
pub(crate) fn counts(set: &AddressSet) -> (u64, u64) {
    let v4 = set.v4.ranges().iter().map(|(first, last)| u64::from(last - first) + 1).sum();
    (v4, set.v6.ranges().len() as u64)
}

fn bytes_of(set: &AddressSet) -> u64 {
    (size_of_val(set.v4.ranges()) + size_of_val(set.v6.ranges())) as u64
}

fn read(
    list: &List,
    folder: Option<&Path>,
    room: &Share<'_>,
    copies: Option<Copies<'_>>,
    at: Timestamp,
) -> Result<(AddressSet, Facts), String> {
    if list.has_expired(at) {
        return Ok((AddressSet::default(), Facts::of_expired(at)));
    }
    let source = source(list, folder)?;
    let watched = || source.watched(list, copies.map(|copies| copies.folder));
    let mut mark = watched().as_deref().and_then(Mark::of);
    let (read, broken_lines, trouble) = match &source {
        Source::Policy => (Contents::default(), 0, None),
        Source::File(path) => read_or_copy(list, &source, path, room, copies)?,
        Source::Fetched(_) => match copies {
            // Whoever only checks a policy runs none of its commands.
            None => (Contents::default(), 0, Some("what its command prints is not known here".to_owned())),
            Some(copies) => {
                let copy = copies_set(list, &source, copies, room);
                let set = copy.or_else(|_| {
                    fetch(list, copies)?;
                    mark = watched().as_deref().and_then(Mark::of);
                    copies_set(list, &source, copies, room)
                });
                (set?, 0, None)
            }
        },
    };
    let is_known = trouble.is_none() || copies.is_some();
    let has_ends = read.has_ends();
    let next_end = read.next_end(at).into_iter().chain(list.expires).min();
    let next_end = next_end.map(|end| end.max(at.saturating_add(BETWEEN_ENDS).unwrap_or(end)));
    let set = list.contents(read.at(at));
    // What a domain stands for is said while the firewall runs.
    if set.is_empty() && is_known && !has_ends && list.domain().is_none() {
        return Err("nothing is on it: `except` takes everything away".to_owned());
    }
    let (ipv4_addresses, ipv6_ranges) = counts(&set);
    Ok((set, Facts { ipv4_addresses, ipv6_ranges, broken_lines, read_at: at, next_end, mark, trouble }))
}

fn copies_set(
    list: &List,
    source: &Source,
    copies: Copies<'_>,
    room: &Share<'_>,
) -> Result<Contents, String> {
    let copy = List { countries: Vec::new(), ..list.clone() };
    let path = copies.path(list, source);
    copies
        .check_folder()
        .map_err(|error| format!("its folder: {error}"))
        .and_then(|()| read_file(&copy, &path, room))
        .map(|read| read.contents)
        .map_err(|why| format!("its copy {}: {why}", path.display()))
}

/// Whether a list is fetched and what was fetched cannot be read any more.
pub(crate) fn has_lost_its_copy(list: &List, copies: Copies<'_>) -> bool {
    let room = Room::of_machine();
    source(list, None).is_ok_and(|source| {
        matches!(source, Source::Fetched(_)) && copies_set(list, &source, copies, &room.share()).is_err()
    })
}

/// Fetches the lists of a policy that were never fetched before and have not expired. Returns whether there were any.
///
/// # Errors
/// The first that cannot be fetched, with what to do.
pub(crate) fn fetch_missing(policy: &Policy, copies: Copies<'_>, at: Timestamp) -> Result<bool, String> {
    let mut any = false;
    for list in policy.lists.iter().filter(|list| !list.has_expired(at)) {
        let source = source(list, policy.folder.as_deref());
        let is_missing = source
            .is_ok_and(|source| matches!(source, Source::Fetched(_)) && !copies.path(list, &source).exists());
        if is_missing {
            fetch(list, copies).map_err(|why| of_list(policy, list, &why))?;
            any = true;
        }
    }
    Ok(any)
}

/// What was fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fetched {
    /// The copy has changed.
    pub(crate) is_other: bool,
    pub(crate) broken_lines: u64,
}

/// Fetches a list into its copy, if it can be read as a whole; or else the copy stays as it is.
///
/// # Errors
/// It cannot be fetched or read, with what to do.
pub(crate) fn fetch(list: &List, copies: Copies<'_>) -> Result<Fetched, String> {
    let source = source(list, None)?;
    let Source::Fetched(words) = &source else { return Err("it is not fetched".to_owned()) };
    let unkept =
        |error: io::Error| format!("what is fetched cannot be kept in {}: {error}", copies.folder.display());
    let fetcher = copies.fetcher.ok_or_else(|| {
        format!(
            "it is fetched by the firewall while it runs, and no copy of it is in {}",
            copies.folder.display()
        )
    })?;
    let mut file = copies.nameless().map_err(unkept)?;
    fetcher.fetch(words, &mut BufWriter::with_capacity(PIECE, &file))?;
    file.rewind().map_err(unkept)?;
    let read = read_open(list, file, &Room::of_machine().share());
    let program = words.first().map_or("", String::as_str);
    let Read { contents, broken_lines, .. } =
        read.map_err(|why| format!("what `{program}` printed {why}"))?;
    let is_other = copies.keep_another(list, &source, &contents).map_err(unkept)?;
    Ok(Fetched { is_other, broken_lines })
}

/// What a file has, or its copy: then third why.
fn read_or_copy(
    list: &List,
    source: &Source,
    path: &Path,
    room: &Share<'_>,
    copies: Option<Copies<'_>>,
) -> Result<(Contents, u64, Option<String>), String> {
    match (read_file(list, path, room), copies) {
        (Ok(read), Some(copies)) => {
            // A full disk costs the copy and not the list.
            let kept = copies.keep(list, source, &read);
            let trouble = kept.err().map(|error| format!("no copy of it could be kept: {error}"));
            Ok((read.contents, read.broken_lines, trouble))
        }
        (Ok(read), None) => Ok((read.contents, read.broken_lines, None)),
        (Err(why), Some(copies)) if copies.stand_in => {
            let why = format!("{}: {why}", path.display());
            let set = copies_set(list, source, copies, room).map_err(|_| why.clone())?;
            Ok((set, 0, Some(format!("as it was read last, because {why}"))))
        }
        (Err(why), _) => Err(format!("{}: {why}", path.display())),
    }
}

fn read_file(list: &List, path: &Path, room: &Share<'_>) -> Result<Read, String> {
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::InvalidInput => error.to_string(),
        _ => format!("cannot be read: {error}"),
    };
    read_open(list, whole_file::open(path).map_err(unreadable)?, room)
}

fn read_open(list: &List, mut file: File, room: &Share<'_>) -> Result<Read, String> {
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    let about = file.metadata().map_err(unreadable)?;
    if !about.is_file() {
        return Err("is no file".to_owned());
    }
    let mut start = Vec::with_capacity(compiled::MARK);
    (&mut file).take(compiled::MARK as u64).read_to_end(&mut start).map_err(unreadable)?;
    if compiled::is_compiled(&start) {
        return read_compiled(list, start, file, about.len(), room);
    }
    if is_database(&mut file, about.len()).map_err(unreadable)? {
        room.hold(about.len())?;
        file.rewind().map_err(unreadable)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(unreadable)?;
        return country_files::read(bytes, &list.countries).map(|set| Contents::from(set).into());
    }
    let whole = io::Cursor::new(&start).chain(file);
    if start.starts_with(&GZIP) {
        read_text(list, MultiGzDecoder::new(whole), room)
    } else {
        read_text(list, whole, room)
    }
}

/// Whether a file is a MaxMind DB; leaves it behind what all files begin with.
fn is_database(file: &mut File, length: u64) -> io::Result<bool> {
    let here = file.stream_position()?;
    file.seek(SeekFrom::Start(length.saturating_sub(country_files::LAST_PART)))?;
    let mut last_part = Vec::new();
    (&mut *file).take(country_files::LAST_PART).read_to_end(&mut last_part)?;
    file.seek(SeekFrom::Start(here))?;
    Ok(country_files::is_database(&last_part))
}

fn read_compiled(
    list: &List,
    start: Vec<u8>,
    mut file: File,
    length: u64,
    room: &Share<'_>,
) -> Result<Read, String> {
    if !list.countries.is_empty() {
        return Err(
            "is a compiled list, which knows no countries: name the table that it was made from".to_owned()
        );
    }
    room.hold(length)?;
    let mut bytes = start;
    bytes.reserve_exact(usize::try_from(length).unwrap_or(0).saturating_sub(bytes.len()));
    file.read_to_end(&mut bytes).map_err(|error| format!("cannot be read: {error}"))?;
    let contents = compiled::decode(&bytes).map_err(|why| format!("{why}: compile it again"))?;
    if contents.is_empty() {
        return Err("nothing is on it".to_owned());
    }
    Ok(Read { contents, broken_lines: 0, compiled: Some(bytes) })
}

fn read_text(list: &List, mut from: impl io::Read, room: &Share<'_>) -> Result<Read, String> {
    let mut reader = Reader::new(&list.countries);
    let mut piece = vec![0; PIECE];
    let mut bytes = 0;
    loop {
        let length = from.read(&mut piece).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => "stops in the middle: fetch it again".to_owned(),
            _ => format!("cannot be read to its end: {error}"),
        })?;
        if length == 0 {
            break;
        }
        bytes += length as u64;
        if piece[..length].contains(&0) {
            let what = "is no text: write an address, a network or a range a line, or make the list with `rampart list compile`";
            return Err(what.to_owned());
        }
        if bytes > MOST_TEXT {
            return Err(format!("has more than {} GiB of text, which no list has", MOST_TEXT >> 30));
        }
        reader.feed(&piece[..length]);
        room.hold(reader.bytes() as u64)?;
    }
    let text = reader.finish();
    if text.broken > 0 && (list.broken == Broken::Refuse || text.entries == 0) {
        let named: Vec<String> = text
            .first_broken
            .chunk_by(|(_, one), (_, next)| one == next)
            .map(|alike| match alike {
                [(line, why)] => format!("line {line} is {why}"),
                _ => {
                    let lines: Vec<String> = alike.iter().map(|(line, _)| line.to_string()).collect();
                    format!("lines {} are each {}", lines.join(", "), alike[0].1)
                }
            })
            .collect();
        let more = text.broken - text.first_broken.len() as u64;
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        return Err(format!(
            "{} of {} lines cannot be read ({}{more}): correct them, or write broken = \"skip\"",
            text.broken,
            text.lines,
            named.join("; ")
        ));
    }
    if !text.missing_countries.is_empty() {
        return Err(format!("no line has the country {}", text.missing_countries.join(", ")));
    }
    if text.contents.is_empty() {
        return Err("nothing is on it: a list that is to be empty is taken out of the policy".to_owned());
    }
    Ok(Read { broken_lines: text.broken, ..text.contents.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::country_files::tests::database;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write as _;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;
    const ZONES: &str = "[zones]\na = { interfaces = 'e0' }\n";

    fn policy(list: &str, folder: &Path) -> Policy {
        let text = format!("{ZONES}[lists.bad]\nblock = 'both'\n{list}\n");
        Policy::parse("p.toml", &text).unwrap().in_folder(Some(folder.to_owned()))
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_list_is_read_as_a_whole_or_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let text = b"192.0.2.1\n# a comment\n10.0.0.0/8\n".as_slice();
        let long: Vec<u8> = (0..20_000u32)
            .flat_map(|i| format!("{}\n", std::net::Ipv4Addr::from(i * 7919)).into_bytes())
            .collect();
        let packed = gzip(&long);
        let list = AddressSet::parse("192.0.2.1").unwrap();
        let mut damaged = compiled::encode(&list.clone().into());
        damaged[40] ^= 1;
        for (name, bytes) in [
            ("text", text),
            ("packed", &gzip(text)),
            ("twice", &[gzip(b"192.0.2.1\n"), gzip(b"10.0.0.0/8\n")].concat()),
            ("cut", &packed[..packed.len() / 2]),
            ("compiled", &compiled::encode(&list.clone().into())),
            ("damaged", &damaged),
            ("short", &compiled::encode(&list.clone().into())[..20]),
            ("broken", b"192.0.2.1\nx\n192.0.2.2\ny\n"),
            ("all-broken", b"x\n"),
            ("empty", b"# nothing\n"),
            ("countries", b"192.0.2.0/24,CH\n10.0.0.0/8,DE\n"),
            (
                "ending",
                b"192.0.2.1\n192.0.2.2 until 1970-01-01T00:00:01Z\n192.0.2.3 until 1970-01-01T00:00:00Z\n",
            ),
            ("ended", b"192.0.2.3 until 1970-01-01T00:00:00Z\n"),
            ("binary", b"\x00\x01MaxMind.com"),
            ("database", &database("country", &[("192.0.2.0/24", "CH"), ("2001:db8::/32", "DE")])),
            ("cities", &database("city", &[("192.0.2.0/24", "CH")])),
        ] {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        nix::unistd::mkfifo(&folder.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for (list, expected) in [
            ("file = 'text'", Ok(1 + (1 << 24))),
            ("file = 'packed'", Ok(1 + (1 << 24))),
            ("file = 'twice'", Ok(1 + (1 << 24))),
            ("file = 'compiled'", Ok(1)),
            ("file = 'compiled'\nentries = '10.0.0.0/30'", Ok(5)),
            ("entries = '10.0.0.0/30'\nexcept = '10.0.0.1'", Ok(3)),
            ("file = 'text'\nexcept = '10.0.0.0/8'", Ok(1)),
            ("file = 'broken'\nbroken = 'skip'", Ok(2)),
            ("file = 'countries'\ncountries = 'ch'", Ok(256)),
            ("file = 'ending'", Ok(2)),
            ("file = 'ended'", Ok(0)),
            ("file = 'text'\nexpires = '1970-01-01T00:00:01Z'", Ok(1 + (1 << 24))),
            ("file = 'text'\nexpires = '1970-01-01T00:00:00Z'", Ok(0)),
            ("entries = '10.0.0.0/30'\nexpires = '1970-01-01T01:00:00+01:00'", Ok(0)),
            // Nobody has to keep a file of which nothing is taken.
            ("file = 'none'\nexpires = '1969-12-31T23:59:59Z'", Ok(0)),
            ("file = 'none'\nexpires = '1970-01-02T00:00:00Z'", Err("No such file")),
            ("file = 'ending'\nexcept = '192.0.2.2'", Ok(1)),
            ("file = 'cut'", Err("stops in the middle")),
            ("file = 'damaged'", Err("checksum")),
            ("file = 'short'", Err("not whole")),
            ("file = 'compiled'\ncountries = 'CH'", Err("knows no countries")),
            ("file = 'broken'", Err("2 of 4 lines cannot be read (lines 2, 4 are each neither")),
            ("file = 'all-broken'\nbroken = 'skip'", Err("1 of 1 lines")),
            ("file = 'empty'", Err("nothing is on it")),
            ("file = 'countries'\ncountries = ['CH', 'FR']", Err("no line has the country FR")),
            ("file = 'countries'", Err("2 of 2 lines")),
            ("file = 'text'\ncountries = 'CH'", Err("lines 1, 3 are each no network and a country's code")),
            ("file = 'binary'", Err("is no text")),
            ("file = 'database'\ncountries = 'ch'", Ok(256)),
            ("file = 'database'\ncountries = ['CH', 'FR']", Err("no network has the country FR")),
            ("file = 'database'", Err("write which countries are meant")),
            ("file = 'cities'\ncountries = 'CH'", Err("knows no countries (Test-Country)")),
            ("file = 'pipe'", Err("is no file")),
            ("file = 'none'", Err("No such file")),
            ("file = 'text'\nexcept = '0.0.0.0/0'", Err("nothing is on it")),
        ] {
            let loaded = load(&policy(list, folder.path()), None, NOW)
                .map(|loaded| loaded.unwrap().lists[0].ipv4_addresses);
            match (loaded, expected) {
                (Ok(count), Ok(expected)) => assert_eq!(count, expected, "{list}"),
                (Err(why), Err(words)) => {
                    assert!(
                        why.contains(words) && why.starts_with("p.toml:3:8: the list `bad`: "),
                        "{list}: {why}"
                    );
                    assert!(!why.contains("192.0.2"), "what a file says is not shown: {why}");
                }
                (found, _) => panic!("{list}: {found:?}"),
            }
        }
        let nowhere = policy("file = 'text'", folder.path()).in_folder(None);
        assert!(load(&nowhere, None, NOW).unwrap_err().contains("name it from the root on"));
    }

    #[test]
    fn what_does_not_fit_into_memory_is_refused_before_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("long");
        let lines: String =
            (0..200_000u32).map(|i| format!("{}\n", std::net::Ipv4Addr::from(i * 7919))).collect();
        let set = AddressSet::parse("10.0.0.0/8").unwrap();
        for bytes in [
            lines.clone().into_bytes(),
            gzip(lines.as_bytes()),
            [compiled::encode(&set.clone().into()), vec![0; 1 << 21]].concat(),
        ] {
            fs::write(&file, bytes).unwrap();
            let policy = policy("file = 'long'", folder.path());
            let room = Room::of(1 << 20);
            let why = read(&policy.lists[0], policy.folder.as_deref(), &room.share(), None, NOW).unwrap_err();
            assert!(why.contains("is too large: the addresses may take 1 MiB"), "{why}");
        }
    }

    #[test]
    fn a_million_broken_lines_are_counted_and_ten_are_named() {
        const BROKEN: u64 = 1_000_000;
        let folder = tempfile::tempdir().unwrap();
        let text = ["192.0.2.1\n", &"x\n".repeat(BROKEN as usize), "192.0.2.2\n"].concat();
        for (name, bytes) in [("text", text.clone().into_bytes()), ("packed", gzip(text.as_bytes()))] {
            fs::write(folder.path().join(name), bytes).unwrap();
            let why = load(&policy(&format!("file = '{name}'"), folder.path()), None, NOW).unwrap_err();
            assert!(why.contains("1000000 of 1000002 lines cannot be read (lines 2, 3, "), "{why}");
            assert!(why.contains("; and 999990 more): correct them") && why.len() < 1_000, "{why}");
            let list = format!("file = '{name}'\nbroken = 'skip'");
            let facts = load(&policy(&list, folder.path()), None, NOW).unwrap().unwrap().lists.remove(0);
            assert_eq!((facts.ipv4_addresses, facts.broken_lines), (2, BROKEN), "{name}");
        }
    }

    #[test]
    fn the_copy_of_a_compiled_list_is_that_list() {
        let folder = tempfile::tempdir().unwrap();
        let copies = folder.path().join("copies");
        let kept = Copies { folder: &copies, stand_in: true, fetcher: None, keep: true };
        let whole = compiled::encode(&AddressSet::parse("192.0.2.0/24").unwrap().into());
        let file = folder.path().join("bad.list");
        fs::write(&file, &whole).unwrap();
        let asked = || {
            let loaded = load(&policy("file = 'bad.list'", folder.path()), Some(kept), NOW);
            loaded.map(|loaded| loaded.unwrap().lists.remove(0).ipv4_addresses)
        };
        assert_eq!(asked(), Ok(256));
        let copy = fs::read_dir(&copies).unwrap().next().unwrap().unwrap().path();
        assert_eq!(fs::read(copy).unwrap(), whole);
        fs::write(&file, &whole[1..]).unwrap();
        assert_eq!(asked(), Ok(256), "the copy stands in");
    }

    #[test]
    fn a_copy_stands_in_for_a_file_where_it_may() {
        let folder = tempfile::tempdir().unwrap();
        let copies = folder.path().join("copies");
        let kept = |stand_in| Some(Copies { folder: &copies, stand_in, fetcher: None, keep: true });
        let bad = folder.path().join("bad.csv");
        let asked = |codes: &str, stand_in| {
            let policy = policy(&format!("file = 'bad.csv'\ncountries = {codes}"), folder.path());
            load(&policy, kept(stand_in), NOW).map(|loaded| {
                let facts = loaded.unwrap().lists.remove(0);
                (facts.ipv4_addresses, facts.trouble)
            })
        };
        assert!(asked("'CH'", true).is_err(), "there is no copy yet");
        fs::write(&bad, "192.0.2.0/24,CH\n10.0.0.0/8,DE\n").unwrap();
        assert_eq!(asked("'CH'", false), Ok((256, None)));
        for broken in [Some("<html>"), None] {
            match broken {
                Some(text) => fs::write(&bad, text).unwrap(),
                None => fs::remove_file(&bad).unwrap(),
            }
            assert!(asked("'CH'", false).is_err());
            let (count, trouble) = asked("'CH'", true).unwrap();
            assert!(count == 256 && trouble.unwrap().starts_with("as it was read last, because "));
            assert!(asked("['CH', 'DE']", true).is_err(), "another list of the same file");
        }
        let copy = fs::read_dir(&copies).unwrap().next().unwrap().unwrap().path();
        fs::write(copy, "damaged").unwrap();
        assert!(asked("'CH'", true).is_err(), "a damaged copy is none");
    }
}
