//! `points.jsonl`, the journal of a run: a header line, then one point a line, each on disk before the next is
//! measured. A run that is killed, or whose disk fills, loses at most the point it was writing.

use crate::error::ReportError;
use crate::json::malformed;
use measure::results::{Calibration, Environment, Point, Results, SCHEMA, Tick};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The journal's name in a run's folder.
pub const FILE_NAME: &str = "points.jsonl";

/// First line of a journal: what is known before the first point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Always `rampart-bench/1`.
    pub schema: String,
    /// The suite's name.
    pub suite: String,
    /// `quick`, `standard` or `full`.
    pub profile: String,
    /// Seed of every pseudorandom choice.
    pub seed: u64,
    /// When the run started: RFC 3339, UTC.
    pub started: String,
    /// The command that repeats the run.
    pub command: String,
    /// The machine, as it was before the run.
    pub environment: Environment,
    /// The generator and the sink against themselves.
    pub calibration: Vec<Calibration>,
    /// Which sections of which standard the suite meets.
    #[serde(default)]
    pub tick_sheet: Vec<Tick>,
}

impl Header {
    /// The header of a run's results.
    pub fn of(results: &Results) -> Self {
        Self {
            schema: SCHEMA.into(),
            suite: results.suite.clone(),
            profile: results.profile.clone(),
            seed: results.seed,
            started: results.started.clone(),
            command: results.command.clone(),
            environment: results.environment.clone(),
            calibration: results.calibration.clone(),
            tick_sheet: results.tick_sheet.clone(),
        }
    }

    fn with(self, points: Vec<Point>) -> Results {
        Results {
            schema: self.schema,
            suite: self.suite,
            profile: self.profile,
            seed: self.seed,
            started: self.started,
            command: self.command,
            complete: false,
            environment: self.environment,
            calibration: self.calibration,
            points,
            tick_sheet: self.tick_sheet,
        }
    }
}

/// Writes a journal.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: File,
    /// Bytes up to the end of the last whole line.
    whole: u64,
    points: usize,
    stopped: bool,
}

impl Writer {
    /// Starts the journal of a run in its folder, which must exist. An older journal there is replaced.
    ///
    /// # Errors
    /// [`ReportError::Write`] when the file cannot be made or the header not written.
    pub fn create(dir: &Path, header: &Header) -> Result<Self, ReportError> {
        let path = dir.join(FILE_NAME);
        let fault = |source| ReportError::Write { path: path.clone(), source };
        let file = File::create(&path).map_err(fault)?;
        let mut writer = Self { path: path.clone(), file, whole: 0, points: 0, stopped: false };
        writer.write_line(header).map_err(fault)?;
        Ok(writer)
    }

    /// Appends a point; when this returns `true` it is on disk. After an error, which is reported once, the journal has
    /// stopped: every further call returns `false`, so that a run can go on and show its results without a disk.
    ///
    /// # Errors
    /// [`ReportError::Journal`] the first time that writing fails; the points before it stay readable.
    pub fn append(&mut self, point: &Point) -> Result<bool, ReportError> {
        if self.stopped {
            return Ok(false);
        }
        if let Err(source) = self.write_line(point) {
            self.stopped = true;
            // What was half written is taken back where that is possible; the reader copes where it is not.
            let _ = self.file.set_len(self.whole);
            return Err(ReportError::Journal { path: self.path.clone(), points: self.points, source });
        }
        self.points += 1;
        Ok(true)
    }

    fn write_line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.file.sync_data()?;
        self.whole += line.len() as u64;
        Ok(())
    }
}

/// Reads the journal of a run's folder as results that are not complete. A last line that was cut off is left out.
///
/// # Errors
/// [`ReportError::Read`], [`ReportError::Schema`], or [`ReportError::Malformed`] with the line that is no point.
pub fn read(dir: &Path) -> Result<Results, ReportError> {
    let path = dir.join(FILE_NAME);
    // A line that was cut within a character is no UTF-8; it is still only the last line that suffers.
    let bytes = std::fs::read(&path).map_err(|source| ReportError::Read { path: path.clone(), source })?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.split_inclusive('\n').enumerate();
    let header = read_header(lines.next().map_or("", |(_, l)| l), &path)?;
    let mut points = Vec::new();
    for (before, line) in lines {
        match serde_json::from_str(line) {
            Ok(point) => points.push(point),
            Err(_) if !line.ends_with('\n') => break,
            Err(error) => return Err(malformed(&path, before, &error)),
        }
    }
    Ok(header.with(points))
}

fn read_header(line: &str, path: &Path) -> Result<Header, ReportError> {
    if !line.ends_with('\n') {
        return Err(ReportError::Malformed {
            path: path.into(),
            line: 1,
            column: line.chars().count() + 1,
            message:
                "the journal ends within its first line: the run was cut off before it measured anything"
                    .into(),
        });
    }
    crate::json::check_schema(line, path)?;
    serde_json::from_str(line).map_err(|e| malformed(path, 0, &e))
}
