//! Files: every report is written beside its place and then renamed into it, so that no reader ever sees half of one.

use crate::error::ReportError;
use crate::sound::Unsound;
use crate::{Extras, csv, html, journal, json, markdown, sound};
use measure::results::Results;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A form of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One self-contained page.
    Html,
    /// GitHub-flavoured Markdown.
    Markdown,
    /// One row a point.
    Csv,
    /// The results as they are.
    Json,
}

impl Format {
    /// All of them, in the order in which they are written: the data first.
    pub const ALL: [Format; 4] = [Format::Json, Format::Csv, Format::Markdown, Format::Html];

    /// The format that `--format` names.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "html" => Some(Format::Html),
            "md" => Some(Format::Markdown),
            "csv" => Some(Format::Csv),
            "json" => Some(Format::Json),
            _ => None,
        }
    }

    /// The file's name.
    pub const fn file_name(self) -> &'static str {
        match self {
            Format::Html => "report.html",
            Format::Markdown => "report.md",
            Format::Csv => "results.csv",
            Format::Json => "results.json",
        }
    }
}

/// A report in one format.
///
/// # Errors
/// [`ReportError::Render`], which would be a defect of this program.
pub fn render(results: &Results, format: Format, extras: &Extras) -> Result<String, ReportError> {
    match format {
        Format::Html => html::to_string(results, extras),
        Format::Markdown => Ok(markdown::to_string(results, extras)),
        Format::Csv => csv::to_string(results),
        Format::Json => json::to_string(results),
    }
}

/// Writes every format into `dir`, which must exist, and returns the paths in the order of [`Format::ALL`].
///
/// # Errors
/// [`ReportError::Write`] names the file that could not be written; those before it are there, an older file of that
/// name is untouched.
pub fn write_all(dir: &Path, results: &Results, extras: &Extras) -> Result<Vec<PathBuf>, ReportError> {
    Format::ALL
        .into_iter()
        .map(|format| {
            let text = render(results, format, extras)?;
            let path = dir.join(format.file_name());
            replace(dir, &path, text.as_bytes())?;
            Ok(path)
        })
        .collect()
}

fn replace(dir: &Path, path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    let fault = |source| ReportError::Write { path: path.into(), source };
    let mut file = tempfile::Builder::new().prefix(".report-").tempfile_in(dir).map_err(fault)?;
    file.write_all(bytes).map_err(fault)?;
    file.as_file().sync_all().map_err(fault)?;
    make_readable(file.as_file()).map_err(fault)?;
    file.persist(path).map_err(|e| fault(e.error))?;
    Ok(())
}

/// A temporary file is the owner's alone; a report is for everyone, and root's runs are read by others.
fn make_readable(file: &std::fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

/// A run's results are no larger: those of the longest suites have some megabytes.
const LARGEST_FILE: u64 = 1 << 30;

/// Reads a file of results, and nothing that has no end or that somebody would have to write first.
pub(crate) fn whole_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let facts = std::fs::metadata(path)?;
    if facts.is_dir() {
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    if !facts.is_file() {
        return Err(std::io::Error::other("it is no file"));
    }
    if facts.len() > LARGEST_FILE {
        return Err(std::io::Error::other("it has more than 1 GiB, which no results have"));
    }
    std::fs::read(path)
}

/// The folder of a run, which may be named by one of its files.
fn folder_of(path: &Path) -> Result<PathBuf, ReportError> {
    if !path.is_file() {
        return Ok(path.to_owned());
    }
    let is_of_a_run =
        [Format::Json.file_name(), journal::FILE_NAME].map(|name| path.ends_with(name)).contains(&true);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if is_of_a_run { Ok(folder.to_owned()) } else { Err(ReportError::NoFolder(path.to_owned())) }
}

/// Results that were written, or the journal where that has more of the same run: somebody had the report of a run written while it went on, and
/// then it was cut short.
fn whole(written: Results, path: PathBuf, dir: &Path) -> (Results, PathBuf) {
    if written.complete {
        return (written, path);
    }
    match journal::read(dir) {
        Ok(read)
            if (&read.suite, &read.started) == (&written.suite, &written.started)
                && read.points.len() > written.points.len() =>
        {
            (read, dir.join(journal::FILE_NAME))
        }
        _ => (written, path),
    }
}

/// Reads a run's folder: `results.json`, or what its journal `points.jsonl` holds when the run did not finish.
///
/// # Errors
/// [`ReportError::NoResults`] when neither is there, or what is wrong with the one that is.
pub fn load(dir: &Path) -> Result<Results, ReportError> {
    let dir = &folder_of(dir)?;
    let path = dir.join(Format::Json.file_name());
    let (read, path) =
        match whole_file(&path).and_then(|bytes| String::from_utf8(bytes).map_err(std::io::Error::other)) {
            Ok(text) => whole(json::from_str(&text, &path)?, path, dir),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => match journal::read(dir) {
                Err(ReportError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                    return Err(ReportError::NoResults(dir.into()));
                }
                read => (read?, dir.join(journal::FILE_NAME)),
            },
            Err(source) => return Err(ReportError::Read { path, source }),
        };
    sound::sound(read).map_err(|unsound| match unsound {
        Unsound::Contradiction(why) => ReportError::Contradiction { path, why },
        Unsound::Changed(misfits) => ReportError::Changed { path, misfits },
    })
}
