//! Runs that go on: which they are, and how far. What they have measured so far stands in the journal in their folder; nothing is
//! asked of their process, and nothing here slows it.

use measure::results::Results;
use report::ReportError;
use serde::Serialize;
use std::path::Path;

/// A run that has begun.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Live {
    /// Its folder.
    pub path: String,
    /// Suite.
    pub suite: String,
    /// `quick`, `standard` or `full`.
    pub profile: String,
    /// When it began: RFC 3339, UTC.
    pub started: String,
    /// Cells that it will measure.
    pub cells: u32,
    /// Seconds that it is expected to take.
    pub seconds: f64,
    /// Number of its process.
    pub process: u32,
    /// When that process began, in ticks since the machine did: numbers of processes are used again.
    pub process_started: i64,
}

impl Live {
    /// A run of this process.
    pub fn of_this_process(folder: &Path, results: &Results, cells: u32, seconds: f64) -> Self {
        let process = std::process::id();
        Self {
            path: folder.to_string_lossy().into_owned(),
            suite: results.suite.clone(),
            profile: results.profile.clone(),
            started: results.started.clone(),
            cells,
            seconds,
            process,
            process_started: start_of(process).unwrap_or_default(),
        }
    }

    /// Whether its process still runs.
    pub fn goes_on(&self) -> bool {
        start_of(self.process) == Some(self.process_started)
    }

    /// What it has measured so far, in whole cells.
    ///
    /// # Errors
    /// When its journal cannot be read.
    pub fn so_far(&self) -> Result<Results, ReportError> {
        report::journal::read(Path::new(&self.path))
    }
}

/// SQLite's numbers have a sign.
fn start_of(process: u32) -> Option<i64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    measure::process::start_ticks(&stat)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_goes_on_until_it_ends_and_no_other_is_taken_for_it() {
        let started = start_of(std::process::id()).unwrap();
        let live = |process: u32, process_started: i64| Live {
            path: String::new(),
            suite: String::new(),
            profile: String::new(),
            started: String::new(),
            cells: 1,
            seconds: 1.0,
            process,
            process_started,
        };
        assert!(live(std::process::id(), started).goes_on());
        assert!(!live(std::process::id(), started - 1).goes_on(), "another process had the number before");
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let number = ended.id();
        // Nobody has asked yet how it ended.
        let stat = loop {
            let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap();
            if stat.contains(") Z ") {
                break stat;
            }
            std::thread::yield_now();
        };
        let began = stat.rsplit(") ").next().unwrap().split(' ').nth(19).unwrap().parse().unwrap();
        assert!(!live(number, began).goes_on(), "a zombie");
        ended.wait().unwrap();
        assert!(!live(number, began).goes_on());
    }
}
