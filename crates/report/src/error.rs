//! What can go wrong when results are read, written or judged, in the user's words.

use std::io;
use std::path::PathBuf;

/// Faults of this crate. A measured value that is bad is not an error.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file could not be written; an older one of that name is untouched.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A folder holds neither `results.json` nor `points.jsonl`.
    #[error(
        "{0} holds no results: expected results.json or points.jsonl there, as `rampart-bench run --out` writes them"
    )]
    NoResults(PathBuf),
    /// A file where a run's folder should be.
    #[error("{0} is a file: name the folder of a run, as `rampart-bench run --out` makes it")]
    NoFolder(PathBuf),
    /// A file is not what it should be.
    #[error("{path}:{line}:{column}: {message}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1; 0 where the parser cannot tell.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// A file is what it should be, but says things that cannot be true together.
    #[error(
        "{path} contradicts itself: {why}. A run does not write that; where points.jsonl is beside it, `rampart-bench report` reads that \
         instead once this file is gone"
    )]
    Contradiction {
        /// The file.
        path: PathBuf,
        /// What, and where.
        why: String,
    },
    /// Values of a file do not follow from the trials that it has.
    #[error(
        "{path} was changed after the run: these do not follow from what the file keeps of its trials.{misfits}\nUse the file as the run wrote \
         it; where points.jsonl is beside it, `rampart-bench report` reads that instead once this file is gone"
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// What, and where, each on a line of its own.
        misfits: String,
    },
    /// The results are of another schema.
    #[error("{path} is of schema «{found}», this program reads «{expected}»: use the rampart-bench that wrote it", expected = measure::results::SCHEMA)]
    Schema {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: String,
    },
    /// The journal cannot be continued. What was written before stays readable.
    #[error(
        "cannot write {path}: {source}. The {points} points before it are safe: `rampart-bench report {folder}` \
         shows them", folder = path.parent().unwrap_or(path).display()
    )]
    Journal {
        /// The journal.
        path: PathBuf,
        /// Points that are safely on disk.
        points: usize,
        /// Why.
        source: io::Error,
    },
    /// A page or a table could not be rendered: a defect of this program.
    #[error("cannot render the report, which is a defect of this program: {0}")]
    Render(String),
}
