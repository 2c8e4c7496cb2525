//! What a run has changed on the machine, written to a file before it is changed, so that the next run can undo
//! it after a `kill -9`. One file a bed, below `/run/rampart-bench`, named after its owner: process id, start time
//! and a number. A process id alone is not enough: the kernel gives it out again.

use crate::error::TestbedError;
use crate::{priority, program};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Where journals are kept. It is memory: a reboot, which undoes everything, empties it as well.
pub const JOURNAL_FOLDER: &str = "/run/rampart-bench";

/// One change and how to undo it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A namespace was made.
    Namespace(String),
    /// A file below `/proc/sys` or `/sys` was written.
    Setting {
        /// The file.
        path: PathBuf,
        /// What was in it before.
        before: String,
    },
    /// An address was added to an interface that the user named.
    Address {
        /// The interface.
        interface: String,
        /// The address with its prefix length.
        address: String,
    },
    /// An interface that the user named was brought up.
    LinkUp(String),
    /// A program was started that stays.
    Process {
        /// Its process.
        pid: u32,
        /// When it started, so that another process with its number is left alone.
        start_ticks: u64,
    },
    /// A folder was made.
    Folder(PathBuf),
    /// A control group was made.
    ControlGroup(PathBuf),
    /// The priority of an autogroup, which is a session's, was raised.
    Autogroup {
        /// Its number. The kernel gives none twice, so it tells a session even when its leader is gone.
        number: u64,
        /// The nice value before.
        before: i8,
    },
}

impl Change {
    /// Undoes it. Undoing twice is no error.
    pub(crate) fn undo(&self) -> Result<(), TestbedError> {
        match self {
            Change::Namespace(name) => {
                if crate::netns::names().contains(name) {
                    crate::netns::Namespace::remove(name)?;
                }
                Ok(())
            }
            Change::Setting { path, before } => {
                fs::write(path, before).map_err(TestbedError::io("restore", path))
            }
            Change::Address { interface, address } => {
                // The interface may be gone, or the user may have removed the address: both are fine.
                let _ = program::run("ip", &["address", "del", address, "dev", interface]);
                Ok(())
            }
            Change::LinkUp(interface) => {
                // The interface may be gone, and is down then.
                let _ = program::run("ip", &["link", "set", "dev", interface, "down"]);
                Ok(())
            }
            Change::Process { pid, start_ticks: started } => {
                if start_ticks(*pid) == Some(*started) {
                    let process = nix::unistd::Pid::from_raw(*pid as i32);
                    // Between the look and the signal it may have ended by itself.
                    let _ = nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGKILL);
                }
                Ok(())
            }
            Change::Folder(path) => match fs::remove_dir_all(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(TestbedError::io("remove", path)(error))
                }
                _ => Ok(()),
            },
            Change::ControlGroup(path) => crate::memory_group::remove(path),
            Change::Autogroup { number, before } => priority::restore(*number, *before),
        }
    }
}

/// The journal of one bed. Dropping it undoes every change, last first, and removes the file.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    number: u64,
    changes: Vec<Change>,
}

impl Journal {
    /// Starts a journal.
    pub(crate) fn start() -> Result<Self, TestbedError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        fs::create_dir_all(JOURNAL_FOLDER).map_err(TestbedError::io("make", JOURNAL_FOLDER))?;
        let owner = Owner::this_process()?;
        let path = Path::new(JOURNAL_FOLDER).join(format!("{}-{}-{number}", owner.pid, owner.start_ticks));
        let file = File::create_new(&path).map_err(TestbedError::io("make", &path))?;
        Ok(Self { path, file, number, changes: Vec::new() })
    }

    /// A number that no other journal of this process has.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// A name for something of this journal's outside the bed, as a folder, that no other journal gives.
    pub(crate) fn name(&self) -> String {
        format!("rampart-bench-{}-{}", std::process::id(), self.number)
    }

    /// Makes a folder of this journal's own, which goes with it.
    pub(crate) fn folder(&mut self, kind: &str) -> Result<PathBuf, TestbedError> {
        let path = Path::new(JOURNAL_FOLDER).join(format!("{kind}-{}-{}", std::process::id(), self.number));
        self.record(Change::Folder(path.clone()))?;
        fs::create_dir(&path).map_err(TestbedError::io("make", &path))?;
        Ok(path)
    }

    /// Writes down a change that is about to be made.
    pub(crate) fn record(&mut self, change: Change) -> Result<(), TestbedError> {
        let mut line = serde_json::to_string(&change)
            .map_err(|e| TestbedError::Impossible(format!("cannot write down a change: {e}")))?;
        line.push('\n');
        self.file.write_all(line.as_bytes()).map_err(TestbedError::io("write", &self.path))?;
        self.changes.push(change);
        Ok(())
    }

    /// Forgets the last change: it was not made after all.
    pub(crate) fn forget_last(&mut self) {
        self.changes.pop();
    }

    /// Writes a setting, so that it is restored when the journal is dropped or found.
    pub(crate) fn set(&mut self, path: &Path, value: &str) -> Result<(), TestbedError> {
        let before = fs::read_to_string(path).map_err(TestbedError::io("read", path))?.trim_end().to_owned();
        if before == value {
            return Ok(());
        }
        self.record(Change::Setting { path: path.to_owned(), before })?;
        fs::write(path, value).map_err(TestbedError::io("write", path))
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // What cannot be undone stays in the file for the next run to try.
        let undone = self.changes.iter().rev().map(Change::undo).filter(Result::is_err).count() == 0;
        if undone {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Who wrote a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) pid: u32,
    /// Field 22 of `/proc/PID/stat`: clock ticks after boot.
    pub(crate) start_ticks: u64,
}

impl Owner {
    fn this_process() -> Result<Self, TestbedError> {
        let pid = std::process::id();
        let start_ticks = start_ticks(pid).ok_or_else(|| TestbedError::MachineCannot {
            what: "tell when this process started".to_owned(),
            remedy: "/proc must be mounted".to_owned(),
        })?;
        Ok(Self { pid, start_ticks })
    }

    /// From a journal's file name.
    pub(crate) fn of_file(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let mut parts = name.split('-');
        let owner = Self { pid: parts.next()?.parse().ok()?, start_ticks: parts.next()?.parse().ok()? };
        parts.next()?.parse::<u64>().ok()?;
        Some(owner)
    }

    /// Whether the process still runs.
    pub(crate) fn is_alive(self) -> bool {
        start_ticks(self.pid) == Some(self.start_ticks)
    }
}

/// When a process started, in clock ticks after boot; `None` when there is none, or only its zombie is left: a zombie does nothing
/// any more, but may wait for its parent for ever.
pub(crate) fn start_ticks(pid: u32) -> Option<u64> {
    measure::process::start_ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Every journal on the machine, with its owner.
pub(crate) fn all() -> Vec<(PathBuf, Owner)> {
    let Ok(entries) = fs::read_dir(JOURNAL_FOLDER) else { return Vec::new() };
    entries.flatten().filter_map(|e| Owner::of_file(&e.path()).map(|owner| (e.path(), owner))).collect()
}

/// The changes of a journal. A last line that was cut off in the middle belongs to a change that was not made.
pub(crate) fn read(path: &Path) -> Vec<Change> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_read_from_file_names() {
        let rows: [(&str, Option<(u32, u64)>); 5] = [
            ("/run/rampart-bench/17-99-0", Some((17, 99))),
            ("17-99-x", None),
            ("17-99", None),
            ("17", None),
            ("readme", None),
        ];
        for (name, expected) in rows {
            let owner = Owner::of_file(Path::new(name)).map(|o| (o.pid, o.start_ticks));
            assert_eq!(owner, expected, "{name}");
        }
    }

    #[test]
    fn a_process_is_known_by_its_start_time_too() {
        let me = Owner::this_process().unwrap();
        assert!(me.is_alive());
        assert!(!Owner { start_ticks: me.start_ticks + 1, ..me }.is_alive());
        assert!(!Owner { pid: u32::MAX, ..me }.is_alive());
    }

    #[test]
    fn a_line_cut_off_by_a_crash_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1-2-3");
        let whole = serde_json::to_string(&Change::Namespace("rb-1-0-dmz".into())).unwrap();
        fs::write(&path, format!("{whole}\n{}", &whole[..8])).unwrap();
        assert_eq!(read(&path), [Change::Namespace("rb-1-0-dmz".into())]);
    }
}
