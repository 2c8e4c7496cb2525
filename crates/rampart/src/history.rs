//! Policies that were put in force, on disk: a small file an entry, and the texts beside them, each once however often it came back.
//! A file is replaced as a whole and a text is there before its entry, so whoever reads after a crash finds whole entries. Knows nothing of
//! what is in force, and never removes the policy that a firewall would come up with.

use crate::api::{Actor, History, HistoryEntry, Outcome, Way};
use crate::whole_file;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use rampart_client::http::MAX_BODY;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Entries that are kept, besides the policy in force.
pub(crate) const KEPT: usize = 50;
/// Bytes of all texts as they are kept, compressed; then the oldest go earlier.
const MOST_BYTES: u64 = 512 << 20;

const ENTRY: &str = "json";
const TEXT: &str = "toml.gz";
/// Of every file: for root alone.
const MODE: u32 = 0o600;

/// A folder with a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Store {
    folder: PathBuf,
}

/// A policy that has come into force.
#[derive(Debug, Clone)]
pub(crate) struct New<'p> {
    pub(crate) at: Timestamp,
    pub(crate) by: &'p Actor,
    pub(crate) way: Way,
    /// See [`HistoryEntry::of`].
    pub(crate) of: Option<u64>,
    pub(crate) file: &'p str,
    pub(crate) folder: Option<&'p Path>,
    pub(crate) rules: u64,
    pub(crate) text: &'p str,
    pub(crate) outcome: Outcome,
}

/// SHA-256 in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        // A String takes everything.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether a text could be a digest: what comes with a backup becomes the name of a file.
pub(crate) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The entry whose policy is in force: the newest that was not taken back, and not of another machine.
pub(crate) fn standing(entries: &[HistoryEntry]) -> Option<&HistoryEntry> {
    entries
        .iter()
        .rev()
        .find(|entry| !entry.from_backup && !matches!(entry.outcome, Outcome::RolledBack | Outcome::Replaced))
}

impl Store {
    pub(crate) fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Everything that is kept.
    ///
    /// # Errors
    /// The folder is there and cannot be read.
    pub(crate) fn read(&self) -> io::Result<History> {
        let mut history = History::default();
        for (number, path) in self.numbered()? {
            match self.entry(&path) {
                Ok(entry) if entry.number == number => history.entries.push(entry),
                Ok(_) => history.broken.push(format!("{}: its name says another number", path.display())),
                // Removed meanwhile: it was the oldest.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => history.broken.push(format!("{} cannot be read: {error}", path.display())),
            }
        }
        history.in_force = standing(&history.entries).map(|entry| entry.number);
        Ok(history)
    }

    /// The text of an entry.
    ///
    /// # Errors
    /// It cannot be read, or is not what it was.
    pub(crate) fn text(&self, entry: &HistoryEntry) -> io::Result<String> {
        let path = self.text_path(&entry.sha256)?;
        let mut text = Vec::new();
        GzDecoder::new(File::open(&path)?).take(MAX_BODY as u64 + 1).read_to_end(&mut text)?;
        let wrong = |what: &str| io::Error::new(ErrorKind::InvalidData, format!("{} {what}", path.display()));
        if sha256(&text) != entry.sha256 {
            return Err(wrong("is not the text that was written"));
        }
        String::from_utf8(text).map_err(|_| wrong("is no text"))
    }

    /// The number of the next entry.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub(crate) fn next(&self) -> io::Result<u64> {
        Ok(self.numbered()?.last().map_or(1, |(number, _)| number.saturating_add(1)))
    }

    /// Adds an entry. Those before it that wait to be confirmed wait in vain from now on.
    ///
    /// # Errors
    /// The disk is full or cannot be written; then the entry is not there.
    pub(crate) fn add(&self, new: &New<'_>) -> io::Result<u64> {
        let number = self.next()?;
        let entry = HistoryEntry {
            number,
            at: new.at,
            by: new.by.clone(),
            way: new.way,
            of: new.of,
            from_backup: false,
            file: new.file.to_owned(),
            folder: new.folder.map(Path::to_owned),
            rules: new.rules,
            sha256: sha256(new.text.as_bytes()),
            outcome: new.outcome,
        };
        self.write_entry(&entry, new.text)?;
        self.end_waiting(number, Outcome::Replaced)?;
        self.trim()?;
        Ok(number)
    }

    /// Adds an entry of a backup under the next number.
    ///
    /// # Errors
    /// As [`Store::add`].
    pub(crate) fn import(&self, entry: &HistoryEntry, text: &str) -> io::Result<()> {
        let outcome = match entry.outcome {
            // Nobody can confirm it any more.
            Outcome::Waiting => Outcome::RolledBack,
            outcome => outcome,
        };
        let number = self.next()?;
        let entry =
            HistoryEntry { number, of: Some(entry.number), from_backup: true, outcome, ..entry.clone() };
        self.write_entry(&entry, text)
    }

    /// Notes what came of an entry.
    ///
    /// # Errors
    /// As [`Store::add`]; then it is as it was.
    pub(crate) fn settle(&self, number: u64, outcome: Outcome) -> io::Result<()> {
        let entry = self.entry(&self.entry_path(number))?;
        let settled = serde_json::to_vec_pretty(&HistoryEntry { outcome, ..entry })?;
        whole_file::replace(&self.entry_path(number), MODE, &settled)
    }

    /// Notes what came of all entries before a number that wait to be confirmed.
    ///
    /// # Errors
    /// As [`Store::add`].
    pub(crate) fn end_waiting(&self, before: u64, outcome: Outcome) -> io::Result<()> {
        let waits = |entry: &&HistoryEntry| entry.outcome == Outcome::Waiting && entry.number < before;
        let history = self.read()?;
        history.entries.iter().filter(waits).try_for_each(|entry| self.settle(entry.number, outcome))
    }

    /// Removes what is too old, and what a daemon that was killed has not finished.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub(crate) fn trim(&self) -> io::Result<()> {
        let entries = self.read()?.entries;
        let bytes = |entry: &HistoryEntry| {
            self.text_path(&entry.sha256).and_then(fs::metadata).map_or(0, |about| about.len())
        };
        let (mut kept, mut texts, mut room) = (BTreeSet::new(), BTreeSet::new(), MOST_BYTES);
        for (place, entry) in entries.iter().rev().enumerate() {
            let is_in_force = standing(&entries).is_some_and(|standing| standing.number == entry.number);
            let confirmed = entries.iter().rev().find(|entry| {
                !entry.from_backup && matches!(entry.outcome, Outcome::Applied | Outcome::Confirmed)
            });
            // What it would come up with goes last of all.
            let stays = is_in_force || confirmed.is_some_and(|it| it.number == entry.number);
            let takes = if texts.contains(&entry.sha256) { 0 } else { bytes(entry) };
            if stays || (place < KEPT && takes <= room) {
                room = room.saturating_sub(takes);
                kept.insert(entry.number);
                texts.insert(entry.sha256.clone());
            }
        }
        for (number, path) in self.numbered()? {
            // One that cannot be read stays until its place is needed.
            let is_old = entries.first().is_none_or(|oldest| number < oldest.number);
            let is_known = entries.iter().any(|entry| entry.number == number);
            if !kept.contains(&number) && (is_known || is_old && entries.len() >= KEPT) {
                fs::remove_file(path)?;
            }
        }
        // Texts only after the entries that named them.
        for file in fs::read_dir(&self.folder)?.flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            let is_left = whole_file::is_unfinished(&file.path())
                || name.strip_suffix(&format!(".{TEXT}")).is_some_and(|digest| !texts.contains(digest));
            if is_left {
                fs::remove_file(file.path())?;
            }
        }
        Ok(())
    }

    /// The files of entries in order, by the numbers of their names.
    fn numbered(&self) -> io::Result<Vec<(u64, PathBuf)>> {
        let files = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            files => files?,
        };
        let number = |path: &Path| {
            let is_entry = path.extension().is_some_and(|end| end == ENTRY);
            is_entry.then(|| path.file_stem()?.to_str()?.parse().ok()).flatten()
        };
        let mut numbered: Vec<(u64, PathBuf)> = files
            .map(|file| file.map(|file| file.path()))
            .filter_map(|path| path.map(|path| number(&path).map(|number| (number, path))).transpose())
            .collect::<io::Result<_>>()?;
        numbered.sort();
        Ok(numbered)
    }

    fn entry(&self, path: &Path) -> io::Result<HistoryEntry> {
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }

    fn entry_path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:010}.{ENTRY}"))
    }

    fn text_path(&self, digest: &str) -> io::Result<PathBuf> {
        if is_sha256(digest) {
            return Ok(self.folder.join(format!("{digest}.{TEXT}")));
        }
        Err(io::Error::new(ErrorKind::InvalidData, format!("`{digest}` is no SHA-256")))
    }

    fn write_entry(&self, entry: &HistoryEntry, text: &str) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        // What is there under this name may have been damaged.
        if self.text(entry).is_err() {
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(text.as_bytes())?;
            whole_file::replace(&self.text_path(&entry.sha256)?, MODE, &packed.finish()?)?;
        }
        whole_file::replace(&self.entry_path(entry.number), MODE, &serde_json::to_vec_pretty(entry)?)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn new(text: &str, outcome: Outcome) -> New<'_> {
        New {
            at: "2026-11-22T10:00:00Z".parse().unwrap(),
            by: BY.get_or_init(|| "a test".into()),
            way: Way::Apply,
            of: None,
            file: "p.toml",
            folder: None,
            rules: 1,
            text,
            outcome,
        }
    }

    static BY: std::sync::OnceLock<Actor> = std::sync::OnceLock::new();

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("history"));
        (folder, store)
    }

    /// Numbers and outcomes, and the entry in force.
    fn shown(store: &Store) -> (String, Option<u64>) {
        let history = store.read().unwrap();
        assert_eq!(history.broken, [""; 0]);
        let entry = |entry: &HistoryEntry| format!("{}{}", entry.number, &entry.outcome.name()[..1]);
        (history.entries.iter().map(entry).collect::<Vec<_>>().join(" "), history.in_force)
    }

    #[test]
    fn what_came_of_a_policy_says_which_one_is_in_force() {
        let (_folder, store) = store();
        assert_eq!(shown(&store), (String::new(), None));
        store.add(&new("a", Outcome::Applied)).unwrap();
        store.add(&new("b", Outcome::Waiting)).unwrap();
        assert_eq!(shown(&store), ("1a 2w".to_owned(), Some(2)));
        store.settle(2, Outcome::RolledBack).unwrap();
        assert_eq!(shown(&store), ("1a 2r".to_owned(), Some(1)));
        store.add(&new("c", Outcome::Waiting)).unwrap();
        store.add(&new("d", Outcome::Waiting)).unwrap();
        store.settle(4, Outcome::Confirmed).unwrap();
        let texts: Vec<String> =
            store.read().unwrap().entries.iter().map(|entry| store.text(entry).unwrap()).collect();
        assert_eq!((shown(&store), texts.concat()), (("1a 2r 3r 4c".to_owned(), Some(4)), "abcd".to_owned()));
        assert_eq!(store.read().unwrap().entries[2].outcome, Outcome::Replaced);
        // What was in force elsewhere is not in force here.
        let theirs =
            HistoryEntry { number: 9, outcome: Outcome::Waiting, ..store.read().unwrap().entries[0].clone() };
        store.import(&theirs, "a").unwrap();
        assert_eq!(shown(&store), ("1a 2r 3r 4c 5r".to_owned(), Some(4)));
        assert_eq!(store.read().unwrap().entries[4].of, Some(9));
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&store.folder), mode(&store.entry_path(1))), (0o700, 0o600), "for root alone");
    }

    #[test]
    fn the_oldest_go_and_what_is_in_force_stays() {
        let (_folder, store) = store();
        store.add(&new("first", Outcome::Applied)).unwrap();
        store.add(&new("second", Outcome::Confirmed)).unwrap();
        for round in 0..KEPT as u64 + 5 {
            // Two texts that come again and again.
            let number = store.add(&new(if round % 2 == 0 { "x" } else { "y" }, Outcome::Waiting)).unwrap();
            store.settle(number, Outcome::RolledBack).unwrap();
        }
        store.trim().unwrap();
        let history = store.read().unwrap();
        let numbers: Vec<u64> = history.entries.iter().map(|entry| entry.number).collect();
        let newest = KEPT as u64 + 7;
        let expected: Vec<u64> = std::iter::once(2).chain(newest + 1 - KEPT as u64..=newest).collect();
        assert_eq!((numbers, history.in_force), (expected, Some(2)));
        let texts = fs::read_dir(&store.folder).unwrap().flatten();
        assert_eq!(texts.filter(|it| it.path().extension().is_some_and(|end| end == "gz")).count(), 3);
        assert_eq!(store.next().unwrap(), newest + 1, "no number comes twice");
    }

    /// Cut off after every file that is written, as by `kill -9`: what was there stays, and the next entry is added.
    #[test]
    fn whatever_step_it_was_killed_at_the_rest_is_whole() {
        let (_folder, store) = store();
        store.add(&new("a", Outcome::Applied)).unwrap();
        let (text, entry) = (store.text_path(&sha256(b"b")).unwrap(), store.entry_path(2));
        let early = |path: &Path| PathBuf::from(format!("{}.17.0.new", path.display()));
        for (left, bytes) in [(early(&text), "half"), (text.clone(), "damaged"), (early(&entry), "{")] {
            fs::write(&left, bytes).unwrap();
            assert_eq!(shown(&store), ("1a".to_owned(), Some(1)), "{left:?}");
        }
        store.add(&new("b", Outcome::Applied)).unwrap();
        assert_eq!(shown(&store), ("1a 2a".to_owned(), Some(2)));
        assert_eq!(
            store.text(&store.read().unwrap().entries[1]).unwrap(),
            "b",
            "the damaged text was mended"
        );
        let is_left = |file: fs::DirEntry| whole_file::is_unfinished(&file.path());
        assert!(!fs::read_dir(&store.folder).unwrap().flatten().any(is_left));
    }

    #[test]
    fn what_is_broken_is_named_and_hides_nothing_else() {
        let (_folder, store) = store();
        for text in ["a", "b", "c"] {
            store.add(&new(text, Outcome::Applied)).unwrap();
        }
        fs::write(store.entry_path(2), "{").unwrap();
        fs::copy(store.entry_path(1), store.entry_path(7)).unwrap();
        let history = store.read().unwrap();
        let numbers: Vec<u64> = history.entries.iter().map(|entry| entry.number).collect();
        assert_eq!((numbers, history.broken.len()), (vec![1, 3], 2), "{:?}", history.broken);
        // A text that somebody changed, and a digest that leads elsewhere.
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(b"z").unwrap();
        fs::write(store.text_path(&sha256(b"a")).unwrap(), packed.finish().unwrap()).unwrap();
        assert!(store.text(&history.entries[0]).unwrap_err().to_string().contains("not the text"));
        let away = HistoryEntry { sha256: "../../etc/passwd".to_owned(), ..history.entries[0].clone() };
        assert!(store.text(&away).unwrap_err().to_string().contains("is no SHA-256"));
        assert!(store.import(&away, "x").is_err());
        assert_eq!(store.add(&new("d", Outcome::Applied)).unwrap(), 8);
    }
}
