//! Older folders: each is a run's, or holds folders of runs.

use crate::error::HistoryError;
use crate::store::{Kept, Store};
use std::path::{Path, PathBuf};

/// How deep below a named folder runs are looked for.
const DEPTH: usize = 3;

/// What became of a folder.
#[derive(Debug)]
pub struct Imported {
    /// The run's folder.
    pub folder: PathBuf,
    /// What became of it, or why it could not be taken.
    pub kept: Result<Kept, HistoryError>,
}

/// Records the runs of a folder and of the folders in it. A folder that cannot be read does not keep others from being taken.
pub fn import(store: &mut Store, folder: &Path) -> Vec<Imported> {
    let mut folders = Vec::new();
    find(folder, DEPTH, &mut folders);
    if folders.is_empty() {
        // Says what is missing there.
        folders.push(folder.to_path_buf());
    }
    folders.into_iter().map(|folder| Imported { kept: one(store, &folder), folder }).collect()
}

fn one(store: &mut Store, folder: &Path) -> Result<Kept, HistoryError> {
    let results = report::load(folder)?;
    let whole = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
    store.record(&whole, &results, None)
}

fn find(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let is_run = ["results.json", report::journal::FILE_NAME].iter().any(|name| folder.join(name).is_file());
    if is_run {
        return found.push(folder.to_path_buf());
    }
    let Some(depth) = depth.checked_sub(1) else { return };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    // Of the entry itself: a link is followed nowhere, so there are no circles.
    let mut folders: Vec<PathBuf> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    folders.sort();
    folders.iter().for_each(|folder| find(folder, depth, found));
}
