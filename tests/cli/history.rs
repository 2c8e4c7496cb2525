//! `history`: what it keeps, says and prints, over folders of results that a test made. Nothing here measures.

use crate::check;
use measure::results::{Metric, Results};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A run of schema 1, as an older bench left it.
const OLD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../report/tests/data/schema-1/whole");

fn history(file: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rampart-bench"));
    command.arg("history").args(arguments).env("RAMPART_BENCH_HISTORY", file).env("NO_COLOR", "1");
    command.output().unwrap()
}

/// Folders of ten runs; in the last five linux forwards twice as much.
pub(crate) fn folders(out: &Path) {
    for day in 1..=10 {
        let folder = out.join(format!("run-{day:02}"));
        std::fs::create_dir_all(&folder).unwrap();
        report::write_all(&folder, &run_at(day), &report::Extras::default()).unwrap();
    }
}

fn run_at(day: u32) -> Results {
    let mut run = report::load(Path::new(OLD)).unwrap();
    run.started = format!("2026-11-{day:02}T08:00:00Z");
    let times = f64::from(if day > 5 { 2 } else { 1 }) * (1.0 + f64::from(day % 3) / 100.0);
    for point in run.points.iter_mut().filter(|p| p.dut == "linux" && p.metric == Metric::Throughput) {
        point.value *= times;
        point.rounds.iter_mut().for_each(|r| *r *= times);
    }
    run
}

#[test]
fn history_keeps_runs_and_follows_their_points() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state/history.sqlite");
    let out = dir.path().join("out");
    folders(&out);
    let out = out.to_str().unwrap();
    let trend = ["trend", "--dut", "linux", "--metric", "throughput", "--set", "frame=64"];
    let with = |more: &[&'static str]| [&trend[..], more].concat();
    let rows: &[(Vec<&str>, i32, &[&str])] = &[
        (vec!["list"], 2, &["no runs are recorded yet", "history import"]),
        (vec!["import", "/nowhere"], 2, &["/nowhere holds no results"]),
        (vec!["import", out, OLD], 0, &["run-01: kept as run 1", "run-10: kept as run 10", "kept as run 11"]),
        (vec!["import", OLD], 0, &["was kept before, as run 11"]),
        (vec!["import", OLD, "--json"], 0, &["\"outcome\": \"known\"", "\"run\": 11"]),
        (vec!["import", "/nowhere", "--json"], 2, &["\"outcome\": \"refused\"", "holds no results"]),
        (vec!["list"], 0, &["2026-11-10T08:00:00Z", "demo", "quick"]),
        (vec!["list", "--suite", "rfc2544", "--json"], 0, &["\"runs\": []"]),
        (
            vec!["show", "3"],
            0,
            &["hash of the suite", "not known (imported)", "AMD EPYC", "throughput", "kpps"],
        ),
        (vec!["show", "3", "--json"], 0, &["\"versions\"", "\"rounds\""]),
        (vec!["show", "99"], 2, &["there is no run 99"]),
        (vec!["forget", "11", "--json"], 0, &["\"forgotten\": 11"]),
        (vec!["forget", "11"], 2, &["there is no run 11"]),
        (
            with(&[]),
            0,
            &["changed between run 5 and run 6", "at most 5 %", "ratios to nftables", "← changed here"],
        ),
        (with(&["--json"]), 0, &["\"at_run\": 6", "\"false_alarms\": 0.05"]),
        (with(&["--csv"]), 0, &["suite,profile,machine,test", "demo,quick,"]),
        (with(&["--over", "commit"]), 0, &["commit or version", "median"]),
        (with(&["--over", "machine", "--csv"]), 0, &["median,least,most"]),
        (with(&["--absolute"]), 0, &["values as measured", "changed between run 5 and run 6"]),
        (with(&["--reference", "ipset"]), 2, &["no run has a second firewall"]),
        (vec!["trend", "--metric", "speed"], 2, &["no metric named speed", "throughput"]),
        (vec!["trend", "--set", "frame"], 2, &["FACTOR=V"]),
        (vec!["trend", "--suite", "rfc2544"], 2, &["no recorded run has such a point"]),
        (vec!["overlay", "5", "6", "--metric", "throughput"], 0, &["run 5", "run 6", "linux / nftables"]),
        (vec!["overlay", "5"], 2, &["IDS"]),
    ];
    for (arguments, status, said) in rows {
        check(arguments, &history(&file, arguments), *status, said);
    }
    check(&["list"], &history(dir.path(), &["list"]), 2, &["is a folder: name a file in it"]);
    let device = Path::new("/dev/null");
    check(&["list"], &history(device, &["list"]), 2, &["/dev/null is no regular file", "--history FILE"]);
    std::fs::write(&file, "not a database at all, and long enough to be one: ".repeat(40)).unwrap();
    check(&["list"], &history(&file, &["list"]), 2, &["is damaged or no SQLite database", "move it away"]);
    check(&["list"], &history(Path::new("off"), &["list"]), 2, &["the history is off", "--history FILE"]);
}

/// Whoever asks for JSON has it on standard output, and nothing else.
#[test]
fn what_is_printed_as_json_is_json() {
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (dir.path().join("history.sqlite"), dir.path().join("out"));
    folders(&out);
    let run = out.join("run-01").to_str().unwrap().to_owned();
    let out = out.to_str().unwrap().to_owned();
    let rows: &[&[&str]] = &[
        &["history", "import", &out],
        &["history", "list"],
        &["history", "show", "1"],
        &["history", "trend"],
        &["history", "overlay", "1", "2"],
        &["history", "forget", "1"],
        &["report", &run],
        &["compare", &run, &run],
        &["list"],
        &["run", "demo", "--dry-run"],
    ];
    for arguments in rows {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rampart-bench"));
        command.args(*arguments).arg("--json").env("RAMPART_BENCH_HISTORY", &file);
        let output = command.output().unwrap();
        check(arguments, &output, 0, &[]);
        let json = serde_json::from_slice::<serde_json::Value>(&output.stdout);
        assert!(json.is_ok(), "{arguments:?}: {json:?}");
    }
}

/// The pages as a program serves them, until it is asked to end.
#[test]
fn serve_says_where_it_serves_and_ends_when_it_is_asked_to() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rampart-bench"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--history"]).arg(dir.path().join("history.sqlite"));
    let mut server = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(server.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap().to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    let page = Command::new("curl")
        .args(["-sS", "--max-time", "30", &format!("http://{address}/")])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&page.stdout).contains("no runs are recorded yet"), "{page:?}");
    let killed = Command::new("kill").args(["-INT", &server.id().to_string()]).status().unwrap();
    assert!(killed.success() && server.wait().unwrap().success());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut again = Command::new(env!("CARGO_BIN_EXE_rampart-bench"));
    let again = again.args(["serve", "--listen", &address, "--history", "/nowhere"]).output().unwrap();
    check(&["serve"], &again, 3, &["cannot listen on", &address, "choose another port"]);
    for nothing in ["here", "127.0.0.1:99999"] {
        let mut wrong = Command::new(env!("CARGO_BIN_EXE_rampart-bench"));
        let wrong = wrong.args(["serve", "--listen", nothing, "--history", "/nowhere"]).output().unwrap();
        check(&["serve", "--listen", nothing], &wrong, 2, &["cannot listen on", nothing]);
    }
    let mut no_port = Command::new(env!("CARGO_BIN_EXE_rampart-bench"));
    let no_port = no_port.args(["serve", "--listen", "here", "--history", "/nowhere"]).output().unwrap();
    check(&["serve", "--listen", "here"], &no_port, 2, &["write an address and a port"]);
    for (history, said) in
        [("/dev/null", "is no regular file"), (dir.path().to_str().unwrap(), "name a file in it")]
    {
        let mut wrong = Command::new("timeout");
        wrong.args(["60", env!("CARGO_BIN_EXE_rampart-bench"), "serve", "--listen", "127.0.0.1:0"]);
        check(
            &["serve", "--history", history],
            &wrong.args(["--history", history]).output().unwrap(),
            2,
            &[said],
        );
    }
}

/// A run as today's bench leaves it: three firewalls, one cell.
const NEW: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../report/tests/data/schema-2");

/// Its results with a change, in a folder.
fn edited(folder: &Path, change: impl FnOnce(&mut serde_json::Value)) {
    let text = std::fs::read_to_string(Path::new(NEW).join("results.json")).unwrap();
    let mut results = serde_json::from_str(&text).unwrap();
    change(&mut results);
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("results.json"), results.to_string()).unwrap();
}

#[test]
fn results_that_were_edited_are_refused_with_the_place() {
    let dir = tempfile::tempdir().unwrap();
    let (file, folder) = (dir.path().join("history.sqlite"), dir.path().join("edited"));
    let bench = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rampart-bench"));
        command.args(arguments).env("RAMPART_BENCH_HISTORY", &file).env("NO_COLOR", "1").output().unwrap()
    };
    let path = folder.to_str().unwrap();
    edited(&folder, |_| ());
    check(&["report"], &bench(&["report", path]), 0, &["report.html"]);
    check(&["import"], &bench(&["history", "import", path]), 0, &["kept as run 1"]);
    type Change = fn(&mut serde_json::Value);
    let rows: [(Change, &str); 5] = [
        (
            |r| r["points"][4]["value"] = 2e6.into(),
            "points[4] (throughput of nftables in cell 0): its value is 2000000",
        ),
        (
            |r| {
                for value in ["value", "low", "high"] {
                    r["points"][4][value] = 2e6.into();
                }
                r["points"][4]["rounds"] = [2e6, 2e6, 2e6].to_vec().into();
            },
            "points[4] (throughput of nftables in cell 0): round 1 is 2000000, and of its trials",
        ),
        (
            |r| drop(r["runs"][1]["trials"].as_array_mut().unwrap().remove(0)),
            "runs[1] (linux in cell 0): trial 0 is missing",
        ),
        (
            |r| drop(r["points"][0].as_object_mut().unwrap().remove("marks")),
            "points[0] (throughput of wire in cell 0): the mark is missing that other programs used",
        ),
        (
            |r| r["points"][4]["valid"] = false.into(),
            "points[4] (throughput of nftables in cell 0): it is invalid and does not say why",
        ),
    ];
    for (change, said) in rows {
        edited(&folder, |results| {
            for point in results["points"].as_array_mut().unwrap() {
                // What the machine did is no concern of a row but the one about it.
                if point["marks"].is_null() {
                    point["marks"] = serde_json::json!([]);
                }
            }
            change(results);
        });
        let all = ["was changed after the run", said];
        for arguments in [
            &["report", path][..],
            &["compare", NEW, path],
            &["compare", path, NEW, "--json"],
            &["history", "import", path],
        ] {
            check(arguments, &bench(arguments), 2, &all);
        }
        // The pages of `serve` show the report of a run that is kept by its folder.
        let mut server = Command::new(env!("CARGO_BIN_EXE_rampart-bench"))
            .args(["serve", "--listen", "127.0.0.1:0", "--history", file.to_str().unwrap()])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
        let page = Command::new("curl")
            .args(["-sS", "--max-time", "30", &format!("http://{address}/runs/1/report")])
            .output()
            .unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
        let page = String::from_utf8_lossy(&page.stdout).into_owned();
        assert!(page.contains("has no report to show") && page.contains(said), "{said}: {page}");
    }
}

/// Two programs that write the same history at once, and one that reads it meanwhile: each waits for the others, and nothing is lost.
#[test]
fn several_processes_use_one_history_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (dir.path().join("history.sqlite"), dir.path().join("out"));
    folders(&out);
    let import = |run: u32| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rampart-bench"));
        command.args(["history", "import"]).arg(out.join(format!("run-{run:02}")));
        command.env("RAMPART_BENCH_HISTORY", &file).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    // The same runs twice: of two that import one, one finds it there.
    let writers: Vec<_> = (1..=10).chain(1..=10).map(import).collect();
    let read = history(&file, &["list"]);
    assert!(matches!(read.status.code(), Some(0 | 2)), "{read:?}");
    for writer in writers {
        let written = writer.wait_with_output().unwrap();
        assert_eq!(written.status.code(), Some(0), "{}", String::from_utf8_lossy(&written.stderr));
    }
    let kept = history(&file, &["list", "--json"]);
    let kept: serde_json::Value = serde_json::from_slice(&kept.stdout).unwrap();
    assert_eq!(kept["runs"].as_array().unwrap().len(), 10, "{kept}");
}

#[test]
fn a_report_is_printed_as_pdf_or_says_what_is_missing() {
    let bench = |path: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rampart-bench"));
        command.args(["report", OLD, "--format", "pdf"]);
        if let Some(path) = path {
            command.env("PATH", path);
        }
        command.output().unwrap()
    };
    let pdf = bench(None);
    assert_eq!(pdf.status.code(), Some(0), "{}", String::from_utf8_lossy(&pdf.stderr));
    assert!(pdf.stdout.starts_with(b"%PDF-") && pdf.stdout.len() > 10_000, "{} bytes", pdf.stdout.len());
    check(&["--format", "pdf"], &bench(Some("/nowhere")), 2, &["install the package chromium"]);
}

#[test]
fn several_runs_are_compared_with_the_first_or_the_one_that_is_named() {
    let dir = tempfile::tempdir().unwrap();
    folders(dir.path());
    let run = |day: u32| dir.path().join(format!("run-{day:02}")).to_str().unwrap().to_owned();
    let [one, four, nine] = [run(1), run(4), run(9)];
    let (of_one, page) = (format!("{one}/results.json"), format!("{one}/report.html"));
    // Nobody writes into it, and it has no end.
    let endless = dir.path().join("endless");
    std::fs::create_dir(&endless).unwrap();
    std::os::unix::fs::symlink("/dev/zero", endless.join("results.json")).unwrap();
    let endless = endless.to_str().unwrap().to_owned();
    let heading = |new: &str, old: &str| format!("{new} / {old}");
    // In the ninth linux forwards about twice as much as in the first and the fourth.
    let rise = "throughput{dut=linux} > 1.5";
    let fall = "throughput{dut=linux} < 0.6";
    let rows: &[(Vec<&str>, i32, Vec<String>)] = &[
        (vec![&one, &four, &nine], 0, vec![heading(&four, &one), heading(&nine, &one), "level".into()]),
        (vec![&one, &four, &nine, "--fail-if", rise], 1, vec![format!("{nine}: ")]),
        (vec![&one, &four, "--fail-if", rise], 0, vec!["new / old".into()]),
        (vec![&one, &four, &nine, "--fail-if", fall], 0, vec![]),
        (vec![&one, &four, &nine, "--reference", &nine, "--fail-if", fall], 1, vec![heading(&one, &nine)]),
        (vec![&one, &four, "--reference", &nine], 0, vec![heading(&one, &nine), heading(&four, &nine)]),
        (vec![&one, &four, &nine, "--json"], 0, vec!["\"reference\": ".into(), "\"pairs\"".into()]),
        // Two runs are printed in the same form as three.
        (
            vec![&one, &four, "--json"],
            0,
            vec!["[\n  {\n    \"pairs\"".into(), "\"reference\": ".into(), "\"intervals_overlap\"".into()],
        ),
        (vec![&one, &one], 0, vec!["this is one run twice".into()]),
        (vec![&of_one, &four], 0, vec!["new / old".into()]),
        (vec![&page, &four], 2, vec!["is a file: name the folder of a run".into()]),
        (vec![&one, &endless], 2, vec!["it is no file".into()]),
        (vec![&one], 2, vec!["DIR".into()]),
        (vec![&one, "/nowhere", &nine], 2, vec!["/nowhere".into()]),
    ];
    for (arguments, status, said) in rows {
        let arguments = [&["compare"][..], arguments].concat();
        let mut command = Command::new(env!("CARGO_BIN_EXE_rampart-bench"));
        let output = command.args(&arguments).env("NO_COLOR", "1").env("COLUMNS", "900").output().unwrap();
        let said: Vec<&str> = said.iter().map(String::as_str).collect();
        check(&arguments, &output, *status, &said);
    }
}
