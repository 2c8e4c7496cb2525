//! Files: what is written can be read again, holds to the schema, and survives a full disk and a cut-off line.
#![allow(clippy::unwrap_used, reason = "a test")]

mod sample;

use measure::level::Level;
use measure::results::{Results, Trial};
use measure::suite::Layout;
use report::journal::{self, Entry, Header, Writer};
use report::{Extras, Format, ReportError, TestExtras, json, load, render, write_all};
use std::fs;
use std::path::Path;
use std::process::Command;

const COMMITTED_SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/rampart-bench-2.json");

/// The three suites of connections as one run.
fn tcp() -> Results {
    let mut run = sample::tolly_http(&["nftables"]);
    sample::append(&mut run, sample::eantc_tcp(&["nftables", "external"]));
    sample::append(&mut run, sample::poliwall(&["iptables"]));
    run
}

fn samples() -> Vec<Results> {
    let mut unfinished = sample::demo();
    unfinished.complete = false;
    unfinished.points.truncate(3);
    let mut empty = sample::demo();
    empty.points.clear();
    vec![sample::demo(), sample::eantc(3), sample::tolly(2), sample::rfc2544(), tcp(), unfinished, empty]
}

#[test]
fn the_committed_schema_is_current() {
    let committed = fs::read_to_string(COMMITTED_SCHEMA).unwrap_or_default();
    assert!(
        committed == json::schema().unwrap(),
        "docs/schema/rampart-bench-2.json is out of date: run `cargo xtask schema`"
    );
}

#[test]
fn written_files_hold_to_the_schema_and_read_back_the_same() {
    let schema: serde_json::Value = serde_json::from_str(&json::schema().unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for results in samples() {
        let dir = tempfile::tempdir().unwrap();
        let paths = write_all(dir.path(), &results, &Extras::default()).unwrap();
        let names: Vec<String> =
            paths.iter().map(|p| p.file_name().unwrap().to_str().unwrap().to_string()).collect();
        assert_eq!(names, ["results.json", "results.csv", "report.md", "report.html"]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4, "nothing else is left behind");
        let value = serde_json::from_str(&fs::read_to_string(&paths[0]).unwrap()).unwrap();
        let errors: Vec<String> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(load(dir.path()).unwrap(), results);
    }
    let mut wrong = serde_json::to_value(sample::demo()).unwrap();
    wrong["points"][0]["metric"] = "speed".into();
    assert!(!validator.is_valid(&wrong), "the schema refuses what is not of it");
}

#[test]
fn what_is_not_a_result_is_refused_with_its_place() {
    let rows = [
        ("{\"schema\": \"rampart-bench/3\"}", "schema «rampart-bench/3»"),
        ("{\n  \"schema\": \"rampart-bench/1\",\n  \"suite\": 3\n}", "results.json:3:12: invalid type"),
        ("{\n  \"schema\": \"rampart-bench/2\",\n  \"suite\": 3\n}", "results.json:3:12: invalid type"),
        ("", "results.json:1:0: EOF"),
        ("not json", "results.json:1:"),
    ];
    for (text, expected) in rows {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("results.json"), text).unwrap();
        let error = load(dir.path()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(load(empty.path()), Err(ReportError::NoResults(_))));
}

fn journal_of(dir: &Path, results: &Results) {
    let mut writer = Writer::create(dir, &Header::of(results)).unwrap();
    for cell in &results.cells {
        for entry in journal::entries(cell, &results.runs, &results.points) {
            assert!(writer.append(entry).unwrap());
        }
    }
}

#[test]
fn a_journal_reads_back_as_a_run_that_did_not_finish() {
    let results = sample::rfc2544();
    let dir = tempfile::tempdir().unwrap();
    journal_of(dir.path(), &results);
    let read = load(dir.path()).unwrap();
    assert!(!read.complete);
    assert_eq!((read.cells.len(), read.runs.len()), (results.cells.len(), results.runs.len()));
    let mut expected = results;
    // The journal has them cell by cell.
    expected.points.sort_by_key(|p| p.cell);
    expected.runs.sort_by_key(|r| r.cell);
    assert_eq!(Results { complete: true, ..read }, expected);
}

/// Who has the report of a run written while it goes on, and again after it was cut short, sees all that was measured.
#[test]
fn a_report_that_was_written_early_hides_nothing_that_was_measured_later() {
    let all = sample::rfc2544();
    let early = |points: usize, complete: bool, started: &str| {
        let mut results = all.clone();
        (results.complete, results.started) = (complete, started.to_owned());
        results.points.truncate(points);
        results
    };
    let (few, many) = (2, all.points.len());
    assert!(few < many);
    // What was written, and how many points are read where the journal has all.
    for (what, written, expected) in [
        ("early", early(few, false, &all.started), many),
        ("at its end, by Ctrl-C", early(many, false, &all.started), many),
        ("as a whole", early(few, true, &all.started), few),
        ("of another run", early(few, false, "2001-01-01T00:00:00Z"), few),
    ] {
        let dir = tempfile::tempdir().unwrap();
        journal_of(dir.path(), &all);
        write_all(dir.path(), &written, &Extras::default()).unwrap();
        let read = load(dir.path()).unwrap();
        assert_eq!(read.points.len(), expected, "{what}");
        if expected == written.points.len() {
            assert_eq!(read, written, "{what}");
        }
        // The report is written again of what was read.
        write_all(dir.path(), &read, &Extras::default()).unwrap();
        assert_eq!(load(dir.path()).unwrap().points.len(), expected, "{what}, again");
    }
}

#[test]
fn a_journal_cut_off_anywhere_keeps_every_whole_point() {
    let mut results = sample::demo();
    results.points.truncate(3);
    results.cells.truncate(2);
    results.cells[1].test = "größe".into();
    results.runs.retain(|run| run.cell < 2);
    let dir = tempfile::tempdir().unwrap();
    journal_of(dir.path(), &results);
    let path = dir.path().join(journal::FILE_NAME);
    let whole = fs::read(&path).unwrap();
    let line_ends: Vec<usize> =
        whole.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i).collect();
    for cut in
        (0..whole.len()).step_by(97).chain(line_ends.iter().flat_map(|e| [*e, e + 1])).chain([whole.len()])
    {
        fs::write(&path, &whole[..cut]).unwrap();
        let whole_lines = whole[..cut].iter().filter(|b| **b == b'\n').count();
        match journal::read(dir.path()) {
            // A last line that lacks nothing but its line feed is a whole point.
            Ok(read) => {
                let all_but_feed = usize::from(whole.get(cut) == Some(&b'\n'));
                let lines = read.cells.len() + read.runs.len() + read.points.len();
                assert_eq!(lines, whole_lines + all_but_feed - 1, "cut at {cut}");
                assert_eq!(read.readings().count(), read.points.len(), "every point has its cell");
            }
            Err(error) => assert!(whole_lines == 0, "cut at {cut}: {error}"),
        }
    }
}

#[test]
fn a_broken_line_in_the_middle_is_an_error_with_its_number() {
    let results = sample::demo();
    let dir = tempfile::tempdir().unwrap();
    journal_of(dir.path(), &results);
    let path = dir.path().join(journal::FILE_NAME);
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[2] = "{\"point\": 1}";
    fs::write(&path, lines.join("\n")).unwrap();
    let error = journal::read(dir.path()).unwrap_err().to_string();
    assert!(error.contains("points.jsonl:3:"), "{error}");
}

/// Set for the part of the test that runs in a mount namespace of its own.
const INSIDE: &str = "REPORT_TEST_INSIDE_MOUNT_NAMESPACE";

/// Runs itself again in a mount namespace of its own, so that nothing stays mounted, even if it is killed.
#[test]
fn a_full_disk_is_reported_once_and_loses_nothing_that_was_written() {
    if std::env::var_os(INSIDE).is_some() {
        return full_disk();
    }
    let name = "a_full_disk_is_reported_once_and_loses_nothing_that_was_written";
    let unshare = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .output();
    match unshare {
        Ok(output) if output.status.success() => {}
        Ok(output) if !is_root() => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("skipped, needs root: {said}").as_bytes(),
            )
            .unwrap();
        }
        Ok(output) => {
            panic!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
        }
        Err(error) => panic!("unshare (Debian package util-linux): {error}"),
    }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

fn full_disk() {
    let dir = tempfile::tempdir().unwrap();
    let mount =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(dir.path()).status();
    assert!(mount.unwrap().success());
    let mut results = sample::rfc2544();
    results.points.sort_by_key(|p| p.cell);
    let mut writer = Writer::create(dir.path(), &Header::of(&results)).unwrap();
    let mut kept = 0;
    let mut errors = Vec::new();
    for cell in &results.cells {
        for entry in journal::entries(cell, &results.runs, &results.points) {
            match writer.append(entry) {
                Ok(written) => kept += usize::from(written && matches!(entry, Entry::Point(_))),
                Err(error) => errors.push(error.to_string()),
            }
        }
    }
    assert_eq!(errors.len(), 1, "reported once: {errors:?}");
    assert!(
        errors[0].contains("No space left") && errors[0].contains(&format!("The {kept} points")),
        "{errors:?}"
    );
    let read = load(dir.path()).unwrap();
    assert!(kept > 0 && read.points[..] == results.points[..kept], "what was written is readable");
    let error = write_all(dir.path(), &results, &Extras::default()).unwrap_err();
    assert!(matches!(error, ReportError::Write { .. }), "{error}");
    assert_eq!(load(dir.path()).unwrap().points.len(), kept, "a report that does not fit harms no journal");
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, [journal::FILE_NAME], "no half-written file stays");
    drop(writer);
    assert!(Command::new("umount").arg(dir.path()).status().unwrap().success());
}

#[test]
fn the_page_of_a_full_suite_is_small_and_needs_nothing_else() {
    let mut results = sample::tolly(8);
    // A full search has some sixty trials, with deciding ones of sixty seconds and two directions.
    let summary = sample::latency(20_000.0);
    results.cells.iter_mut().for_each(|cell| {
        cell.factors.insert("directions".into(), Level::read("directions", "two-way"));
    });
    for point in 0..results.points.len() {
        if results.points[point].typical.is_none() {
            continue;
        }
        let trial = sample::typical(&mut results, point);
        (trial.latency_ns, trial.seconds) = (Some(summary), 60.0);
        trial.per_second = sample::per_second(trial.offered, Some(summary), 60);
        let detail = trial.detail.as_mut().unwrap();
        detail.lanes = sample::directions(detail.ledger.sent(), true, summary);
    }
    for run in &mut results.runs {
        let of = run.trials.clone();
        let more = of.iter().cycle().take(60_usize.saturating_sub(of.len())).cloned();
        run.trials.extend((of.len() as u32..).zip(more).map(|(id, trial)| Trial { id, ..trial }));
    }
    let layout = TestExtras::new("Zero-loss throughput", Layout::Tolly);
    let extras = Extras {
        tests: [("udp-throughput".into(), layout)].into(),
        published: measure::published::load("tolly").ok(),
        ..Extras::default()
    };
    let page = render(&results, Format::Html, &extras).unwrap();
    assert!(page.contains("Each direction") && page.contains("Second by second"));
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    for outside in ["http:", "https:", "src=", "@import", "<link"] {
        assert!(!page.contains(outside), "{outside} in a page that must stand alone");
    }
    assert!(render(&sample::demo(), Format::Html, &Extras::default()).unwrap().len() < 1_000_000);
}

#[test]
fn the_page_of_a_full_tcp_suite_is_small() {
    let all = ["wire", "xdp-redirect", "linux", "nftables", "iptables", "ipset", "rampart", "external"];
    let mut results = sample::tolly_http(&all);
    sample::append(&mut results, sample::poliwall(&all));
    // Five minutes in the deciding trial of every round, as the reports had.
    for trial in results.runs.iter_mut().flat_map(|r| &mut r.trials).filter(|t| !t.per_second.is_empty()) {
        let one = trial.per_second.clone();
        trial.per_second = one.iter().cycle().take(300).cloned().collect();
        for (sample, second) in trial.per_second.iter_mut().zip(1..) {
            sample.at_seconds = f64::from(second);
        }
    }
    let mut extras = Extras { published: measure::published::load("poliwall").ok(), ..Extras::default() };
    for test in ["lists", "flood"] {
        extras.tests.insert(test.into(), TestExtras::new(test, Layout::Poliwall));
    }
    let page = render(&results, Format::Html, &extras).unwrap();
    assert!(page.contains("Rows are of several seconds"), "joined, and said so");
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
}
