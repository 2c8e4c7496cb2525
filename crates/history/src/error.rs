//! What can go wrong with the file of the runs, in the user's words.

use report::ReportError;
use rusqlite::ErrorCode;
use std::io;
use std::path::{Path, PathBuf};

/// Faults of this crate. None of them concerns a run's results, which are in the run's own folder.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// There is no place for the file.
    #[error(
        "there is no place to keep runs: neither XDG_STATE_HOME nor HOME is set; name a file with --history FILE"
    )]
    NoHome,
    /// Its folder could not be made.
    #[error("cannot make the folder {path} for the history of runs: {source}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No run was recorded yet.
    #[error(
        "no runs are recorded yet: {path} {found}. Finished runs are recorded by themselves; \
         `rampart-bench history import FOLDER` takes older ones"
    )]
    None {
        /// The file.
        path: PathBuf,
        /// What there is of it: "is not there" or "is empty".
        found: &'static str,
    },
    /// A newer program wrote it.
    #[error(
        "{path} was written by a newer rampart-bench (history schema {found}; this program knows up to {known}): use that one, \
         or another file with --history FILE"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema that this program knows.
        known: i64,
    },
    /// It is a database of something else.
    #[error(
        "{0} is a SQLite database of another program: nothing was changed; name another file with --history FILE"
    )]
    Foreign(PathBuf),
    /// It is none or no longer a database.
    #[error(
        "{path} is damaged or no SQLite database ({detail}): move it away, then `rampart-bench history import FOLDER…` makes it anew \
         from the folders of the runs"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        detail: String,
    },
    /// Another program keeps it locked.
    #[error("{0} is locked by another program for longer than {seconds} s: try again when that has ended", seconds = crate::store::PATIENCE.as_secs())]
    Locked(PathBuf),
    /// The disk is full.
    #[error("the disk of {0} is full: nothing was recorded there")]
    Full(PathBuf),
    /// It may not be written or read.
    #[error("cannot write {path}: {detail}")]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        detail: String,
    },
    /// A folder where the file should be.
    #[error("{0} is a folder: name a file in it, as in {0}/history.sqlite")]
    IsFolder(PathBuf),
    /// A device, a pipe or a socket where the file should be.
    #[error(
        "{0} is no regular file, so it keeps no runs: name a file with --history FILE, or keep none with --history off"
    )]
    NoFile(PathBuf),
    /// It may be there, but cannot be looked at.
    #[error("cannot read {path}: {source}")]
    Hidden {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Anything else that SQLite reports.
    #[error("{path}: {detail}")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        detail: String,
    },
    /// There is no run of that number.
    #[error("there is no run {0}: `rampart-bench history list` shows those that are there")]
    NoRun(i64),
    /// The filters leave nothing.
    #[error("{0}")]
    Nothing(String),
    /// A run's folder could not be read.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The server could not be started.
    #[error("cannot listen on {address}: {source}{}", http_serving::remedy(source))]
    Listen {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
}

impl HistoryError {
    /// What SQLite said about the file.
    pub(crate) fn of(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_path_buf();
        let detail = match error {
            rusqlite::Error::SqliteFailure(_, Some(text)) => text.clone(),
            other => other.to_string(),
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Self::Damaged { path, detail },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked(path),
            Some(ErrorCode::DiskFull) => Self::Full(path),
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                Self::ReadOnly { path, detail }
            }
            Some(_) => Self::Sqlite { path, detail },
            // A column that is not what this program writes there.
            None => Self::Damaged { path, detail },
        }
    }

    /// Whether the machine is at fault and not the command.
    pub fn is_machine(&self) -> bool {
        match self {
            Self::Folder { .. } | Self::Locked(_) | Self::Full(_) | Self::ReadOnly { .. } => true,
            // A path through a file is a wrong word.
            Self::Hidden { source, .. } => source.kind() != io::ErrorKind::NotADirectory,
            // What is no address at all is a word of the command.
            Self::Listen { source, .. } => source.kind() != io::ErrorKind::InvalidInput,
            _ => false,
        }
    }
}
