//! `points.jsonl`, the journal of a run: a header line, then of every cell one line for itself, one for the trials of each
//! firewall and one for each point, all on disk before the next cell is measured. A run that is killed, or whose disk fills,
//! loses at most the cell it was at.

use crate::error::ReportError;
use crate::json::{self, Schema, malformed, schema_of};
use crate::schema1::{Point1, Results1};
use measure::results::{
    Calibration, Cell, Environment, Firewall, Point, Results, Run, SCHEMA, StatedMix, Tick,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The journal's name in a run's folder.
pub const FILE_NAME: &str = "points.jsonl";

/// First line of a journal: what is known before the first point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Always `rampart-bench/2`.
    pub schema: String,
    /// The older schema that the results were read from, as in [`Results::converted_from`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub converted_from: Option<String>,
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
    /// The mixes of applications that cells carry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mixes: Vec<StatedMix>,
    /// The firewalls compared.
    pub firewalls: Vec<Firewall>,
}

/// A line of a journal behind the header.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Entry<'a> {
    /// A cell: before its runs and points.
    Cell(&'a Cell),
    /// The trials of a firewall in a cell: before their points.
    Run(&'a Run),
    /// A point.
    Point(&'a Point),
}

/// The lines of a cell, in their order.
pub fn entries<'a>(cell: &'a Cell, runs: &'a [Run], points: &'a [Point]) -> impl Iterator<Item = Entry<'a>> {
    let runs = runs.iter().filter(|run| run.cell == cell.id).map(Entry::Run);
    let points = points.iter().filter(|point| point.cell == cell.id).map(Entry::Point);
    std::iter::once(Entry::Cell(cell)).chain(runs).chain(points)
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Cell(Cell),
    Run(Run),
    Point(Box<Point>),
}

impl Header {
    /// The header of a run's results.
    pub fn of(results: &Results) -> Self {
        Self {
            schema: SCHEMA.into(),
            converted_from: results.converted_from.clone(),
            suite: results.suite.clone(),
            profile: results.profile.clone(),
            seed: results.seed,
            started: results.started.clone(),
            command: results.command.clone(),
            environment: results.environment.clone(),
            calibration: results.calibration.clone(),
            tick_sheet: results.tick_sheet.clone(),
            mixes: results.mixes.clone(),
            firewalls: results.firewalls.clone(),
        }
    }

    fn with(self, lines: Vec<Line>) -> Results {
        let mut results = Results {
            schema: self.schema,
            converted_from: self.converted_from,
            suite: self.suite,
            profile: self.profile,
            seed: self.seed,
            started: self.started,
            command: self.command,
            complete: false,
            environment: self.environment,
            calibration: self.calibration,
            tick_sheet: self.tick_sheet,
            mixes: self.mixes,
            firewalls: self.firewalls,
            cells: Vec::new(),
            runs: Vec::new(),
            points: Vec::new(),
        };
        for line in lines {
            match line {
                Line::Cell(cell) => results.cells.push(cell),
                Line::Run(run) => results.runs.push(run),
                Line::Point(point) => results.points.push(*point),
            }
        }
        results
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

    /// Appends a line; when this returns `true` it is on disk. After an error, which is reported once, the journal has
    /// stopped: every further call returns `false`, so that a run can go on and show its results without a disk.
    ///
    /// # Errors
    /// [`ReportError::Journal`] the first time that writing fails; the points before it stay readable.
    pub fn append(&mut self, entry: Entry<'_>) -> Result<bool, ReportError> {
        if self.stopped {
            return Ok(false);
        }
        if let Err(source) = self.write_line(&entry) {
            self.stopped = true;
            // What was half written is taken back where that is possible; the reader copes where it is not.
            let _ = self.file.set_len(self.whole);
            return Err(ReportError::Journal { path: self.path.clone(), points: self.points, source });
        }
        self.points += usize::from(matches!(entry, Entry::Point(_)));
        Ok(true)
    }

    fn write_line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut line = json::value(value)?.to_string().into_bytes();
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
/// [`ReportError::Read`], [`ReportError::Schema`], or [`ReportError::Malformed`] with the line that is none of a journal.
pub fn read(dir: &Path) -> Result<Results, ReportError> {
    let path = dir.join(FILE_NAME);
    // A line that was cut within a character is no UTF-8; it is still only the last line that suffers.
    let bytes =
        crate::write::whole_file(&path).map_err(|source| ReportError::Read { path: path.clone(), source })?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.split_inclusive('\n').enumerate();
    let first = header_line(lines.next().map_or("", |(_, l)| l), &path)?;
    match schema_of(first, &path)? {
        Schema::Two => {
            let header: Header = serde_json::from_str(first).map_err(|e| malformed(&path, 0, &e))?;
            Ok(header.with(read_lines(lines, &path)?))
        }
        Schema::One => {
            let header: Results1 = serde_json::from_str(first).map_err(|e| malformed(&path, 0, &e))?;
            let points: Vec<Point1> = read_lines(lines, &path)?;
            Ok(header.with(points).into())
        }
    }
}

/// All lines but a last one that was cut off.
fn read_lines<'a, T: DeserializeOwned>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    path: &Path,
) -> Result<Vec<T>, ReportError> {
    let mut read = Vec::new();
    for (before, line) in lines {
        match serde_json::from_str(line) {
            Ok(value) => read.push(value),
            Err(_) if !line.ends_with('\n') => break,
            Err(error) => return Err(malformed(path, before, &error)),
        }
    }
    Ok(read)
}

fn header_line<'a>(line: &'a str, path: &Path) -> Result<&'a str, ReportError> {
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
    Ok(line)
}
