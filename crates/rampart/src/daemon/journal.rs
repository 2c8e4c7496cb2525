//! A file of lines, each a value of JSON, that never takes more room than it was given: when it is full it becomes the earlier file, and a
//! new one is begun. A line is written at once. Whoever is killed, or has no disk left, leaves one cut line at most; the next begins on a
//! line of its own, and readers count what they cannot read. Knows nothing of what the lines say.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Bytes of a line at most that a reader takes: more is no line of ours.
const LONGEST: u64 = 1 << 20;

/// A file that is written.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// Bytes of a file; with the earlier one there are twice as many at most.
    most: u64,
    /// The last line has no end.
    is_cut: bool,
}

impl Journal {
    /// Goes on with a file, or begins it.
    ///
    /// # Errors
    /// The folder or the file cannot be written.
    pub(crate) fn open(path: &Path, most: u64) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let mut file = OpenOptions::new();
        let file = file.read(true).append(true).create(true).mode(0o600).open(path)?;
        let bytes = file.metadata()?.len();
        let mut last = [b'\n'];
        if let Some(at) = bytes.checked_sub(1) {
            file.read_exact_at(&mut last, at)?;
        }
        Ok(Self { path: path.to_owned(), file, bytes, most, is_cut: last != [b'\n'] })
    }

    /// Appends a value as a line.
    ///
    /// # Errors
    /// The disk is full, or cannot be written.
    pub(crate) fn append(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut line = if self.is_cut { vec![b'\n'] } else { Vec::new() };
        serde_json::to_writer(&mut line, value)?;
        line.push(b'\n');
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.most {
            fs::rename(&self.path, earlier(&self.path))?;
            *self = Self::open(&self.path, self.most)?;
        }
        let before = self.bytes;
        let done = write_counting(&mut self.file, &line, &mut self.bytes);
        self.is_cut = done.is_err() && (self.is_cut || self.bytes > before);
        done
    }

    /// Waits until what was written is on the disk.
    ///
    /// # Errors
    /// The disk says no.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// As `write_all`; what was written before an error is counted, too.
fn write_counting(file: &mut File, mut bytes: &[u8], count: &mut u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => {
                *count += written as u64;
                bytes = &bytes[written..];
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The file before a file.
fn earlier(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// What a journal's files have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Newest<T> {
    /// The oldest first.
    pub(crate) values: Vec<T>,
    /// Lines that are no values, in all of both files.
    pub(crate) broken: u64,
}

/// Reads the newest values of a journal, whoever writes it meanwhile.
///
/// # Errors
/// A file is there and cannot be read.
pub(crate) fn newest<T: DeserializeOwned>(path: &Path, limit: u64) -> io::Result<Newest<T>> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let (mut values, mut broken) = (VecDeque::new(), 0);
    // In this order, because the newer one may become the earlier one meanwhile; then it is both.
    let newer = open(path)?;
    let number = |file: &File| file.metadata().map(|it| it.ino());
    let before = match (open(&earlier(path))?, &newer) {
        (Some(before), Some(newer)) if number(&before)? == number(newer)? => None,
        (before, _) => before,
    };
    for file in [before, newer].into_iter().flatten() {
        each_line(file, |line| {
            let Ok(value) = serde_json::from_slice(line) else {
                broken += 1;
                return;
            };
            values.push_back(value);
            if values.len() > limit {
                values.pop_front();
            }
        })?;
    }
    Ok(Newest { values: values.into(), broken })
}

/// A file, if it is there.
fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        file => file.map(Some),
    }
}

/// Shows every line with an end, and the last without one.
fn each_line(mut file: File, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    // Only what is there now: a writer may be faster than we are.
    let end = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    let mut reader = BufReader::new(file.take(end));
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = reader.by_ref().take(LONGEST).read_until(b'\n', &mut line)?;
        if length == 0 {
            return Ok(());
        }
        each(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path, limit: u64) -> (Vec<String>, u64) {
        let newest = newest(path, limit).unwrap();
        (newest.values, newest.broken)
    }

    #[test]
    fn a_line_is_a_value_whatever_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/x.jsonl");
        assert_eq!(read(&path, 9), (vec![], 0), "nothing was ever written");
        let values = ["a", "b\n\"c\"", "\u{1b}[2J\u{2028}", ""];
        for value in values {
            Journal::open(&path, 1 << 10).unwrap().append(&value).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), values.len());
        assert_eq!(read(&path, 9), (values.map(str::to_owned).to_vec(), 0));
        assert_eq!(read(&path, 2).0, values[2..], "the newest");
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700), "for root alone");
    }

    #[test]
    fn it_takes_no_more_room_than_it_was_given_and_keeps_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        let mut journal = Journal::open(&path, 100).unwrap();
        for number in 0..1_000 {
            journal.append(&format!("{number:03}")).unwrap();
            let sizes = [&path, &earlier(&path)].map(|path| fs::metadata(path).map_or(0, |it| it.len()));
            assert!(sizes.iter().all(|size| *size <= 100), "{sizes:?}");
        }
        let (values, broken) = read(&path, u64::MAX);
        let expected: Vec<_> = (1_000 - values.len()..1_000).map(|number| format!("{number:03}")).collect();
        assert_eq!((&values, broken), (&expected, 0));
        assert!(values.len() > 100 / 6, "the earlier file is read too: {}", values.len());
        // What is longer than a file has one of its own.
        journal.append(&"x".repeat(200)).unwrap();
        journal.append(&"y").unwrap();
        assert_eq!(read(&path, u64::MAX).0, ["x".repeat(200), "y".to_owned()]);
    }

    /// Cut at every byte, as by `kill -9` or a machine without power: one line is lost at most, and it is counted.
    #[test]
    fn a_cut_line_costs_nothing_but_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        for value in ["first", "second", "third"] {
            Journal::open(&path, 1 << 10).unwrap().append(&value).unwrap();
        }
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let ends = whole[..length].iter().filter(|byte| **byte == b'\n').count();
            // The last byte of a line may be all that is missing: then its value is whole.
            let is_whole = whole[length] == b'\n';
            let is_cut = length > 0 && whole[length - 1] != b'\n' && !is_whole;
            Journal::open(&path, 1 << 10).unwrap().append(&"next").unwrap();
            let (values, broken) = read(&path, 9);
            assert_eq!(values.len(), ends + usize::from(is_whole) + 1, "{length}");
            assert_eq!((values.last().unwrap().as_str(), broken), ("next", u64::from(is_cut)), "{length}");
        }
    }

    #[test]
    fn a_full_disk_is_an_error_and_what_comes_after_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        let mut journal = Journal::open(&path, 1 << 10).unwrap();
        journal.append(&"before").unwrap();
        let good =
            std::mem::replace(&mut journal.file, OpenOptions::new().write(true).open("/dev/full").unwrap());
        assert!(journal.append(&"lost").is_err());
        journal.file = good;
        journal.append(&"after").unwrap();
        assert_eq!(read(&path, 9), (vec!["before".to_owned(), "after".to_owned()], 0));
    }
}
