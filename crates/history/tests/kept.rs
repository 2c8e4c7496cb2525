//! Runs that are kept: what goes into the file comes out of it, and whatever is wrong with the file is said.
#![allow(clippy::unwrap_used, reason = "a test")]

mod runs;

use history::store::Kept;
use history::{HistoryError, Place, Store, import};
use runs::{data, run_at};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

fn store(folder: &Path) -> Store {
    Store::write(&Place::file(&folder.join("state/history.sqlite"))).unwrap()
}

#[test]
fn a_run_comes_out_as_it_went_in() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = store(dir.path());
    let run = run_at(3, 1.0);
    assert_eq!(store.record(Path::new("/runs/3"), &run, Some("name = \"demo\"")).unwrap(), Kept::New(1));
    let row = store.run(1).unwrap();
    assert_eq!((row.suite.as_str(), row.path.as_str(), row.complete), ("demo", "/runs/3", true));
    assert_eq!(
        (row.started.as_str(), row.kernel.as_str()),
        (run.started.as_str(), run.environment.kernel.as_str())
    );
    assert_eq!(row.versions, run.environment.versions);
    assert_eq!(row.suite_hash.as_deref().map(str::len), Some(64));
    assert_eq!(row.points as usize, run.points.len());
    let kept = store.points(Some(1)).unwrap();
    for reading in run.readings() {
        let found = kept.iter().find(|p| {
            p.test == reading.test()
                && p.point.dut == reading.dut
                && p.point.metric == reading.metric
                && p.levels == reading.levels()
        });
        let found = &found.unwrap().point;
        assert_eq!((found.value, found.low, found.high), (reading.value, reading.low, reading.high));
        assert_eq!((&found.rounds, &found.marks), (&reading.rounds, &reading.marks));
    }
    assert!(matches!(store.run(2), Err(HistoryError::NoRun(2))));
}

#[test]
fn a_run_is_kept_once_wherever_its_folder_is_and_grows() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = store(dir.path());
    let whole = run_at(1, 1.0);
    let mut cut = whole.clone();
    cut.complete = false;
    cut.points.truncate(2);
    for (path, run, kept) in [
        ("/a", &cut, Kept::New(1)),
        ("/b", &cut, Kept::Known(1)),
        ("/c", &whole, Kept::Completed(1)),
        ("/a", &cut, Kept::Known(1)),
        ("/a", &whole, Kept::Known(1)),
        ("/a", &run_at(2, 1.0), Kept::New(2)),
    ] {
        assert_eq!(store.record(Path::new(path), run, None).unwrap(), kept, "{path}");
    }
    assert_eq!(store.points(Some(1)).unwrap().len(), whole.points.len());
    assert!(store.run(1).unwrap().complete);
    store.forget(1).unwrap();
    assert!(store.points(Some(1)).unwrap().is_empty() && store.run(2).is_ok());
    assert!(matches!(store.forget(1), Err(HistoryError::NoRun(1))));
}

#[test]
fn folders_of_both_schemas_are_imported_once_and_a_wrong_one_stops_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    for (name, source) in [("one", "whole"), ("deep/two", "journal")] {
        let folder = out.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        for entry in std::fs::read_dir(data(source)).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
        }
    }
    let new = out.join("new");
    std::fs::create_dir(&new).unwrap();
    report::write_all(&new, &run_at(9, 1.0), &report::Extras::default()).unwrap();
    let wrong = out.join("wrong");
    std::fs::create_dir(&wrong).unwrap();
    std::fs::write(wrong.join("results.json"), "{\"schema\": \"rampart-bench/9\"}").unwrap();
    let mut store = store(dir.path());
    let first = import::import(&mut store, &out);
    let names: Vec<_> =
        first.iter().map(|one| one.folder.strip_prefix(&out).unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["deep/two", "new", "one", "wrong"]);
    // The journal is of the run that the other folder holds whole, cut short.
    let kept: Vec<Kept> = first[..3].iter().map(|one| *one.kept.as_ref().unwrap()).collect();
    assert_eq!(kept, [Kept::New(1), Kept::New(2), Kept::Completed(1)]);
    assert!(first[3].kept.as_ref().unwrap_err().to_string().contains("rampart-bench/9"), "{first:?}");
    assert!(store.run(1).unwrap().complete);
    let again = import::import(&mut store, &out);
    assert!(again[..3].iter().all(|one| matches!(one.kept, Ok(Kept::Known(_)))), "{again:?}");
    let nothing = import::import(&mut store, &dir.path().join("state"));
    assert!(nothing[0].kept.as_ref().unwrap_err().to_string().contains("holds no results"), "{nothing:?}");
}

#[test]
fn many_runs_that_end_at_once_are_all_kept() {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::file(&dir.path().join("history.sqlite"));
    std::thread::scope(|threads| {
        for number in 0..8 {
            let place = &place;
            threads.spawn(move || {
                let mut store = Store::write(place).unwrap();
                store.record(Path::new("/run"), &run_at(number, 1.0), None).unwrap();
            });
        }
    });
    assert_eq!(Store::read(&place).unwrap().runs().unwrap().len(), 8);
}

#[test]
fn what_is_wrong_with_the_file_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| Place::file(&dir.path().join(name));
    let said = |place: &Place| {
        let read = Store::read(place).and_then(|store| store.runs().map(drop)).unwrap_err();
        let run = run_at(1, 1.0);
        let write =
            Store::write(place).and_then(|mut store| store.record(Path::new("/r"), &run, None)).unwrap_err();
        assert_eq!(std::mem::discriminant(&read), std::mem::discriminant(&write), "{read} / {write}");
        write.to_string()
    };
    std::fs::write(
        dir.path().join("text"),
        "this is no database, and it is longer than a head of one ".repeat(40),
    )
    .unwrap();
    assert!(said(&place("text")).contains("damaged"));

    Store::write(&place("newer")).unwrap();
    sqlite(dir.path(), "newer", "PRAGMA user_version = 7");
    let newer = said(&place("newer"));
    assert!(newer.contains("schema 7") && newer.contains("up to 1"), "{newer}");

    sqlite(dir.path(), "other", "CREATE TABLE songs (name TEXT)");
    assert!(said(&place("other")).contains("another program"));
    sqlite(dir.path(), "other", "SELECT * FROM songs");

    let mut torn = Store::write(&place("torn")).unwrap();
    for number in 0..20 {
        torn.record(Path::new("/run"), &run_at(number, 1.0), None).unwrap();
    }
    drop(torn);
    let whole = std::fs::read(dir.path().join("torn")).unwrap();
    let mut bytes = whole.clone();
    bytes[4096..].iter_mut().for_each(|byte| *byte = 0xa5);
    std::fs::write(dir.path().join("torn"), bytes).unwrap();
    assert!(said(&place("torn")).contains("damaged"));

    std::fs::write(dir.path().join("empty"), "").unwrap();
    for (name, words) in [("nowhere", "nowhere is not there"), ("empty", "empty is empty")] {
        let read = Store::read(&place(name)).unwrap_err();
        assert!(matches!(read, HistoryError::None { .. }) && read.to_string().contains(words), "{read}");
    }
    assert!(Store::write(&place("empty")).is_ok(), "an empty file is a new one");
    assert!(matches!(Store::write(&place("text/below")), Err(HistoryError::Folder { .. })));
    std::fs::create_dir(dir.path().join("folder")).unwrap();
    assert!(said(&place("folder")).contains("name a file in it"));
    let below = Store::read(&place("text/below")).unwrap_err();
    assert!(!below.is_machine() && below.to_string().contains("Not a directory"), "{below}");
    for device in ["/dev/null", "/dev/full"] {
        let refused = said(&Place::file(Path::new(device)));
        assert!(refused.contains("no regular file") && refused.contains("--history off"), "{refused}");
    }
}

/// Root may write everything, so this only says something for others.
#[test]
fn a_folder_that_may_not_be_written_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let closed = dir.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o555)).unwrap();
    let written = Store::write(&Place::file(&closed.join("history.sqlite")));
    let root = std::fs::write(closed.join("mine"), "").is_ok();
    assert!(root || matches!(written, Err(HistoryError::ReadOnly { .. })), "{written:?}");
}

fn sqlite(folder: &Path, name: &str, sql: &str) {
    let connection = rusqlite::Connection::open(folder.join(name)).unwrap();
    connection.execute_batch(sql).unwrap();
}
