//! Keeps on disk what happened: who changed the firewall (the audit trail), and what rules recorded. A thread of its own writes, so a disk
//! that is full, slow or stuck holds neither packets nor requests: what finds no place is counted and reported.

use super::journal::{Journal, Newest, newest};
use crate::api::{AuditRecord, Event};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Entries that may wait for the disk.
const WAITING: usize = 16_384;
/// How long the end of a daemon, and whoever changed something, waits for the disk.
const LAST: Duration = Duration::from_secs(1);
/// How long a file that could not be written is left alone.
const REST: Duration = Duration::from_secs(1);

/// The journals, each with the bytes of one of its two files. What anybody can cause by sending packets must not displace what
/// operators did, so it has another file.
pub(super) const AUDIT: (&str, u64) = ("audit.jsonl", 16 << 20);
const EVENTS: (&str, u64) = ("events.jsonl", 32 << 20);

/// Bytes of a message of the audit trail, as it is written: names that clients choose are in it.
const LONGEST_MESSAGE: usize = 1_000;

/// A message that is no longer than may be, as it is written.
pub(super) fn cut(message: String) -> String {
    let mut bytes = 0;
    let too_long = message.char_indices().find(|(_, character)| {
        bytes += match character {
            '"' | '\\' => 2,
            character if character.is_ascii_control() => 6,
            character => character.len_utf8(),
        };
        bytes > LONGEST_MESSAGE
    });
    match too_long.map(|(end, _)| end) {
        Some(end) => format!("{} ... (cut)", &message[..end]),
        None => message,
    }
}

/// Writes both journals of a folder.
pub(crate) struct Recorder {
    folder: PathBuf,
    entries: SyncSender<Entry>,
    shared: Arc<Shared>,
}

/// What can be wrong, each for itself: that events can be written does not mean that the audit trail can.
#[derive(Debug, Clone, Copy)]
enum Place {
    Audit,
    Events,
    Queue,
}

#[derive(Default)]
struct Shared {
    /// By [`Place`]: why nothing can be written there, until something was.
    troubles: Mutex<[Option<String>; 3]>,
}

/// What the writing thread is given.
enum Entry {
    Audit(Box<AuditRecord>),
    Event(Box<Event>),
    /// Everything before this is written: say so.
    Written(SyncSender<()>),
    /// What could not be written may be by now.
    LookAgain,
}

impl Recorder {
    /// Begins to write in a folder; `first` runs on the writing thread before all else.
    pub(crate) fn start(folder: &Path, first: impl FnOnce() + Send + 'static) -> Self {
        let (sender, entries) = sync_channel(WAITING);
        let shared = Arc::new(Shared::default());
        let (of_thread, mut audit, mut events) =
            (Arc::clone(&shared), File::new(folder, AUDIT), File::new(folder, EVENTS));
        std::thread::spawn(move || {
            first();
            for entry in entries {
                match entry {
                    Entry::Audit(record) => of_thread.note(Place::Audit, audit.append(&record, true)),
                    Entry::Event(event) => of_thread.note(Place::Events, events.append(&event, false)),
                    Entry::Written(done) => {
                        let _ = done.send(());
                        continue;
                    }
                    Entry::LookAgain => {
                        for (place, file) in [(Place::Audit, &mut audit), (Place::Events, &mut events)] {
                            if of_thread.is_in_trouble(place) {
                                of_thread.note(place, file.append_owed());
                            }
                        }
                    }
                }
                of_thread.note(Place::Queue, Ok(()));
            }
        });
        Self { folder: folder.to_owned(), entries: sender, shared }
    }

    /// Records what somebody did, and waits a moment until it is on the disk. One that does not answer holds nobody longer: who has to
    /// close a hole must not wait for it.
    pub(crate) fn audit(&self, record: AuditRecord) {
        self.send(Entry::Audit(Box::new(record)));
        self.finish();
    }

    /// Records what a rule did.
    pub(crate) fn event(&self, event: &Event) {
        self.send(Entry::Event(Box::new(event.clone())));
    }

    fn send(&self, entry: Entry) {
        if let Err(TrySendError::Full(_)) = self.entries.try_send(entry) {
            self.shared.note(Place::Queue, Err(io::Error::other("the disk is too slow")));
        }
    }

    /// Waits a moment until everything is written.
    pub(crate) fn finish(&self) {
        let (done, is_done) = sync_channel(1);
        if self.entries.try_send(Entry::Written(done)).is_ok() {
            let _ = is_done.recv_timeout(LAST);
        }
    }

    /// What is wrong with the disk, until something can be written there. It is tried again beside this.
    pub(crate) fn trouble(&self) -> Option<String> {
        let why = self.shared.troubles().iter().flatten().next()?.clone();
        let _ = self.entries.try_send(Entry::LookAgain);
        let folder = self.folder.display();
        Some(format!("what happens cannot be recorded in {folder}: {why}; free the disk, or mend the folder"))
    }

    /// The newest records of the audit trail.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn trail(&self, limit: u64) -> io::Result<Newest<AuditRecord>> {
        trail(&self.folder, limit)
    }
}

impl Shared {
    fn troubles(&self) -> MutexGuard<'_, [Option<String>; 3]> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, place: Place, done: io::Result<()>) {
        self.troubles()[place as usize] = done.err().map(|error| error.to_string());
    }

    fn is_in_trouble(&self, place: Place) -> bool {
        self.troubles()[place as usize].is_some()
    }
}

/// The newest records of the audit trail that is kept in a folder.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn trail(folder: &Path, limit: u64) -> io::Result<Newest<AuditRecord>> {
    kept(folder, AUDIT, limit)
}

/// The newest events that are kept in a folder.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn events(folder: &Path, limit: u64) -> io::Result<Newest<Event>> {
    kept(folder, EVENTS, limit)
}

fn kept<T: DeserializeOwned>(folder: &Path, (name, _): (&str, u64), limit: u64) -> io::Result<Newest<T>> {
    newest(&folder.join(name), limit)
}

/// A journal that is opened when something is to be written, and again after it could not be.
struct File {
    path: PathBuf,
    most: u64,
    journal: Option<Journal>,
    rests_until: Option<Instant>,
    /// Why it could not be written last.
    why: String,
    /// The last entry, if it could not be written.
    owed: Option<serde_json::Value>,
}

impl File {
    fn new(folder: &Path, (name, most): (&str, u64)) -> Self {
        Self {
            path: folder.join(name),
            most,
            journal: None,
            rests_until: None,
            why: String::new(),
            owed: None,
        }
    }

    fn append(&mut self, value: &impl Serialize, sync: bool) -> io::Result<()> {
        let rests = self.rests_until.is_some_and(|until| Instant::now() < until);
        let done = match rests {
            true => Err(io::Error::other(self.why.clone())),
            false => self.try_append(value, sync),
        };
        self.owed = done.is_err().then(|| serde_json::to_value(value).ok()).flatten();
        if !rests {
            self.rests_until = done.is_err().then(|| Instant::now() + REST);
        }
        if let Err(error) = &done {
            self.why = error.to_string();
            self.journal = None;
        }
        done
    }

    /// Writes what could not be written last: nothing else shows that the disk takes anything.
    fn append_owed(&mut self) -> io::Result<()> {
        match self.owed.take() {
            Some(owed) => self.append(&owed, true),
            None => Ok(()),
        }
    }

    fn try_append(&mut self, value: &impl Serialize, sync: bool) -> io::Result<()> {
        let journal = match self.journal.take() {
            Some(journal) => journal,
            None => Journal::open(&self.path, self.most)?,
        };
        let journal = self.journal.insert(journal);
        journal.append(value)?;
        if sync { journal.sync() } else { Ok(()) }
    }
}
