//! The command line of `rampart-bench`: what it says and how it exits. Rows of commands through one function. Nothing here
//! builds a bed; that is tests/bed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod history;

use std::path::Path;
use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rampart-bench"));
    // Runs of tests are no history of anybody.
    command.args(arguments).env("NO_COLOR", "1").env("RAMPART_BENCH_HISTORY", "off");
    command
}

/// Checks the exit status, and that each of `said` stands in what was printed.
fn check(arguments: &[&str], output: &Output, status: i32, said: &[&str]) {
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(status), "{arguments:?} printed:\n{text}");
    for words in said {
        assert!(text.contains(words), "{arguments:?} did not say «{words}» but:\n{text}");
    }
}

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

const SUITE: &str = r#"name = "mine"
title = "Mine"
summary = "A suite of a test."
duts = ["wire"]

[profiles.quick]
rounds = 1
trial_seconds = 0.05

[[test]]
name = "one"
title = "One"
procedure = "throughput"
factors.frame = ["64"]
"#;

#[test]
fn commands_end_with_the_right_status_and_words() {
    let rows: &[(&[&str], i32, &[&str])] = &[
        (&["--help"], 0, &["Examples:", "Exit status: 0 done"]),
        (&["run", "--help"], 0, &["rampart-bench run rfc2544 --ports eth1,eth2"]),
        (&["--version"], 0, &["rampart-bench 0."]),
        (&["list"], 0, &["demo", "tolly-udp", "nftables", "xdp-redirect"]),
        (&["list", "suites"], 0, &["eantc-ip", "quick ", " min"]),
        (
            &["run", "core", "--dry-run", "--profile", "quick"],
            0,
            &["nothing was measured", "rules=1000", "3 rounds of"],
        ),
        (&["run", "core", "--dry-run", "--json", "--dut", "linux"], 0, &["\"seconds\": ", "\"linux\""]),
        (&["list", "duts", "--json"], 0, &["\"name\": \"ipset\""]),
        (&["completion", "bash"], 0, &["rampart-bench", "eantc-ip", "xdp-redirect", "frame="]),
        (&["serve", "--help"], 0, &["Examples:", "127.0.0.1:8021", "--listen"]),
        (&["report", "--help"], 0, &["pdf"]),
        (&["history", "--help"], 0, &["Examples:", "trend", "import"]),
        (&["history", "trend", "--help"], 0, &["--set <FACTOR=V", "--over"]),
        (&["walk"], 2, &["unrecognized subcommand"]),
        (&["run"], 2, &["SUITE"]),
        (&["run", "DEMO"], 2, &["did you mean `demo`?"]),
        (&["run", "demo.toml", "--dry-run", "--dut", " nftables , linux"], 0, &["nftables, linux"]),
        (&["run", "demo", "--dut", "NFTABLES"], 2, &["did you mean `nftables`?"]),
        (&["run", "demo", "--dut", "program:"], 2, &["names no file"]),
        (&["run", "dmeo"], 2, &["there is no suite named dmeo", "did you mean `demo`?"]),
        (&["run", "demo", "--dut", "nftabels"], 2, &["did you mean `nftables`?"]),
        (&["run", "./none.toml"], 2, &["cannot read the suite ./none.toml"]),
        (&["run", "demo", "--dut", "pf"], 2, &["pf", "nftables"]),
        (&["run", "demo", "--dut", "linux nftables"], 2, &["write commas between names: linux,nftables"]),
        (
            &["run", "demo", "--dut", "external"],
            2,
            &["external is a box between two interfaces", "--ports IF1,IF2"],
        ),
        (&["run", "demo", "--set", "sessions=many"], 2, &["many"]),
        (&["run", "demo", "--set", "sise=64"], 2, &["sise"]),
        (&["run", "demo", "--set", "frame=12"], 2, &["12"]),
        (&["run", "demo", "--set", "directions=two-way:1e-30"], 2, &["`two-way:1e-30`", "0.001 to 0.999"]),
        (&["run", "demo", "--set", "directions=two-way:+0.3"], 2, &["0.001 to 0.999"]),
        (&["run", "demo", "--set", "directions=two-way:0.3", "--dry-run"], 0, &["nothing was measured"]),
        (&["run", "demo", "--set", "frame=64", "--set", "ip=6"], 2, &["84"]),
        (&["run", "demo", "--cores", "4000"], 2, &["4000"]),
        (&["run", "demo", "--cores", "64"], 3, &["64"]),
        (&["run", "rfc2544", "--ports", "eth1"], 2, &["two interfaces"]),
        (&["run", "rfc2544", "--agents", "a,b"], 2, &["--server <URL>", "--key <FILE>"]),
        (&["run", "rfc2544", "--agents", "a", "--server", "nats://x", "--key", "k"], 2, &["two agents"]),
        (
            &["run", "rfc2544", "--agents", "a,a", "--server", "nats://x", "--key", "k"],
            2,
            &["one agent twice"],
        ),
        (&["run", "rfc2544", "--agents", "a,b.c", "--server", "nats://x", "--key", "k"], 2, &["is no name"]),
        (
            &["run", "rfc2544", "--agents", "a,b", "--server", "http://x", "--key", "/nowhere"],
            2,
            &["openssl rand"],
        ),
        (&["run", "rfc2544", "--agents", "a,b", "--ports", "c,d"], 2, &["cannot be used with"]),
        (
            &["run", "eantc-tcp", "--agents", "a,b", "--server", "nats://x", "--key", "k"],
            2,
            &["tests of frames only in this version"],
        ),
        (
            &["agent", "--name", "a", "--port", "lo/", "--server", "nats://x", "--key", "k"],
            2,
            &["--port: there is no interface name"],
        ),
        (
            &["agent", "--name", "a b", "--port", "lo", "--server", "nats://x", "--key", "k"],
            2,
            &["--name", "is no name"],
        ),
        (
            &["agent", "--name", "a", "--port", "lo", "--server", "nats://x", "--key", "k", "--json"],
            2,
            &["prints no JSON"],
        ),
        (&["report", "/nowhere"], 2, &["/nowhere"]),
        (&["compare", "/nowhere", "/nowhere"], 2, &["/nowhere"]),
        (&["compare", "/nowhere", "/nowhere", "--fail-if", "throughput <"], 2, &["--fail-if", "column"]),
        (&["calibrate", "--rounds", "0"], 2, &["at least one round"]),
        (&["serve", "--json"], 2, &["`rampart-bench serve` prints no JSON: leave --json out"]),
        (&["otg", "--json"], 2, &["`rampart-bench otg` prints no JSON"]),
        (&["completion", "bash", "--json"], 2, &["`rampart-bench completion` prints no JSON"]),
        (&["man", "/nonexistent/man", "--json"], 2, &["`rampart-bench man` prints no JSON"]),
        (&["report", "/nowhere", "--json", "--format", "csv"], 2, &["cannot be used with"]),
    ];
    for (arguments, status, said) in rows {
        check(arguments, &bench(arguments), *status, said);
    }
}

#[test]
fn a_wrong_suite_is_shown_where_it_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let rows: &[(&str, &str, &[&str])] = &[
        ("procedure = \"throughput\"", "procedure = \"thruput\"", &["thruput", "throughput"]),
        ("rounds = 1", "round = 1", &["round", "rounds"]),
        ("duts = [\"wire\"]", "duts = []", &["duts"]),
        (
            "duts = [\"wire\"]",
            "duts = [\"wire\", \"nftabels\"]",
            &["no firewall under test named", "did you mean `nftables`?"],
        ),
        (
            "duts = [\"wire\"]",
            "duts = [\"wire\", \"external\"]",
            &["the command names none for it", "--ports IF1,IF2, or --agents A,B"],
        ),
        ("factors.frame = [\"64\"]", "factors.frame = [\"63\"]", &["63"]),
        ("factors.frame = [\"64\"]", "factors.flows = [50000000]", &["10,000,000"]),
        ("trial_seconds = 0.05", "trial_seconds = -1", &["trial_seconds"]),
        ("name = \"one\"", "name = \"one", &["one"]),
    ];
    for (from, to, said) in rows {
        assert!(SUITE.contains(from));
        let path = write(dir.path(), "wrong.toml", &SUITE.replacen(from, to, 1));
        let line =
            SUITE.replacen(from, to, 1).lines().position(|l| to.lines().next() == Some(l)).unwrap() + 1;
        let place = format!("wrong.toml:{line}:");
        let output = bench(&["run", &path]);
        check(&["run", to], &output, 2, said);
        check(&["run", to], &output, 2, &[&place]);
    }
}

#[test]
fn a_wrong_expectation_is_found_before_anything_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let rows: &[(&str, &[&str])] = &[
        ("[[expect]]\nthat = \"throughput >\"\n", &["expecting.toml:17:8"]),
        (
            "[[expect]]\nthat = \"throughput{dut=nftabels} > 1\"\n",
            &["expecting.toml:17:8", "`dut=nftabels` cannot be a label", "did you mean `nftables`?"],
        ),
        (
            "[[question]]\nask = \"Which?\"\nof = \"throughput{dut!=wier}\"\n",
            &["expecting.toml:18:6", "did you mean `wire`?"],
        ),
    ];
    for (text, said) in rows {
        let path = write(dir.path(), "expecting.toml", &format!("{SUITE}\n{text}"));
        check(&["run", text], &bench(&["run", &path]), 2, said);
    }
    // Who names the firewalls may have another of his own.
    let path = write(dir.path(), "expecting.toml", &format!("{SUITE}\n{}", rows[1].0));
    let arguments = ["run", &path, "--dut", "wire", "--dry-run"];
    let said = ["`throughput{dut=nftabels} > 1` is not judged in this run", "no firewall named nftabels"];
    check(&arguments, &bench(&arguments), 0, &said);
}

/// Whoever gives a file without an end, or one that nobody writes, gets an answer or can leave.
#[test]
fn a_suite_that_is_no_file_is_refused_or_can_be_left() {
    check(&["run"], &bench(&["run", "/dev/zero"]), 2, &["no suite is larger than 4 MiB"]);
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other.toml");
    std::fs::write(&other, b"name = \"x\"\ntitle = \"\xfc\"\n").unwrap();
    check(
        &["run"],
        &bench(&["run", other.to_str().unwrap()]),
        2,
        &["line 2 is not UTF-8 text", "save the file"],
    );
    let pipe = write(dir.path(), "suite.toml", SUITE) + ".pipe";
    check(&["mkfifo"], &Command::new("mkfifo").arg(&pipe).output().unwrap(), 0, &[]);
    // One that is written is a suite as any other.
    let written = command(&["run", &pipe, "--dry-run"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    std::fs::write(&pipe, SUITE).unwrap();
    check(
        &["run", "--dry-run"],
        &written.wait_with_output().unwrap(),
        0,
        &["mine, profile quick", "1 cell,"],
    );
    let mut waits = command(&["run", &pipe]).spawn().unwrap();
    Command::new("kill").args(["-TERM", &waits.id().to_string()]).status().unwrap();
    use std::os::unix::process::ExitStatusExt as _;
    assert_eq!(waits.wait().unwrap().signal(), Some(15), "a signal ends a bench that waits for its suite");
}

#[test]
fn every_command_has_a_manual_page() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("man");
    check(&["man"], &bench(&["man", folder.to_str().unwrap()]), 0, &[]);
    for (page, said) in [("rampart-bench.1", "Exit status"), ("rampart-bench-run.1", "dry\\-run")] {
        let text = std::fs::read_to_string(folder.join(page)).unwrap();
        assert!(text.contains(said), "{page} does not say «{said}»");
    }
}

/// Needs root, to hide a program in a mount namespace of its own.
#[test]
fn what_the_machine_lacks_is_status_3() {
    const LACKS: &str = "nftables: `nft` is not installed";
    let hide = "for nft in /usr/sbin/nft /sbin/nft /usr/bin/nft; do test -e $nft && mount --bind /dev/null $nft; done; \
                exec \"$@\"";
    let rows: [(&str, &[&str]); 2] = [
        ("nftables", &[LACKS, "doctor"]),
        ("nftables,linux,wire", &[LACKS, "or measure without nftables: --dut linux,wire", "doctor"]),
    ];
    for (duts, said) in rows {
        let arguments = ["run", "demo", "--dut", duts];
        let output = Command::new("unshare")
            .args(["--mount", "sh", "-c", hide, "sh", env!("CARGO_BIN_EXE_rampart-bench")])
            .args(arguments)
            .output()
            .unwrap();
        check(&arguments, &output, 3, said);
    }
}

/// Needs root, to make a control group. In one with a small quota the bench would never end.
#[test]
fn a_quota_that_the_bench_cannot_live_with_is_status_3() {
    let group = Path::new("/sys/fs/cgroup/cpu").join(format!("rampart-bench-{}", std::process::id()));
    let group = if group.parent().is_some_and(|cpu| cpu.join("cpu.cfs_quota_us").exists()) {
        std::fs::create_dir(&group).unwrap();
        std::fs::write(group.join("cpu.cfs_quota_us"), "120000").unwrap();
        group
    } else {
        let group = Path::new("/sys/fs/cgroup").join(group.file_name().unwrap());
        // The controller may be on already.
        let _ = std::fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu");
        std::fs::create_dir(&group).unwrap();
        std::fs::write(group.join("cpu.max"), "120000 100000").unwrap();
        group
    };
    for (arguments, needs) in [
        (["run", "demo", "--dut", "wire"].as_slice(), "the time of 1.20 cores: it needs 2"),
        (&["calibrate"], "the time of 1.20 cores: it needs 2"),
        (&["doctor"], "the time of 1.20 cores"),
    ] {
        let output = Command::new("sh")
            .args(["-c", "echo $$ >\"$0\" && exec \"$@\""])
            .arg(group.join("cgroup.procs"))
            .arg(env!("CARGO_BIN_EXE_rampart-bench"))
            .args(arguments)
            .env("RAMPART_BENCH_HISTORY", "off")
            .output()
            .unwrap();
        check(arguments, &output, 3, &[needs, "without such a quota"]);
    }
    std::fs::remove_dir(&group).unwrap();
}

/// Before it waits for others, and whether or not it could measure: the command is the user's to correct.
#[test]
fn what_is_wrong_with_a_command_is_said_before_it_waits_for_another_run() {
    let dir = tempfile::tempdir().unwrap();
    let (taken, file) = (dir.path().join("taken"), write(dir.path(), "file", ""));
    std::fs::create_dir(&taken).unwrap();
    write(&taken, "points.jsonl", "");
    let suite = write(dir.path(), "mine.toml", SUITE);
    // Another run goes on: this test, which ends none.
    let _held = testbed::machine_lock::MachineLock::take("a test").unwrap();
    let (below, nowhere) = (format!("{file}/out"), "/proc/no/out");
    let free = dir.path().join("free");
    let ports = ["--out", free.to_str().unwrap(), "--ports"];
    for (wrong, said) in [
        (vec!["--out", taken.to_str().unwrap()], "holds a run already"),
        (vec!["--out", &file], "is no folder"),
        (vec!["--out", &below], "cannot write into the folder"),
        (vec!["--out", nowhere], "name another with --out"),
        ([&ports[..], &["nowhere,lo"]].concat(), "nowhere cannot be used: there is no such interface here"),
        ([&ports[..], &["lo,nowhere"]].concat(), "lo cannot be used: it is no Ethernet interface"),
        ([&ports[..], &["lo,lo"]].concat(), "lo cannot be used: it is named twice"),
        ([&ports[..], &["lo,nowhere", "--must-not-pass", "udp/53"]].concat(), "itself sends this traffic"),
    ] {
        let arguments = [&["run", suite.as_str()][..], &wrong].concat();
        let mut timed = Command::new("timeout");
        timed.arg("60").arg(env!("CARGO_BIN_EXE_rampart-bench")).args(&arguments);
        check(&arguments, &timed.env("RAMPART_BENCH_HISTORY", "off").output().unwrap(), 2, &[said]);
    }
}

/// Needs root, to become somebody who is not.
#[test]
fn without_root_the_bench_says_so() {
    // The build's folder may be closed to others, so a copy is run.
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("rampart-bench");
    testkit::namespace::copy_program(env!("CARGO_BIN_EXE_rampart-bench"), &copy);
    let open = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    std::fs::set_permissions(dir.path(), open).unwrap();
    for arguments in [["run", "demo", "--dut", "wire"].as_slice(), &["calibrate"], &["otg"]] {
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&copy)
            .args(arguments)
            .current_dir("/")
            .output()
            .unwrap();
        check(arguments, &output, 3, &["needs root"]);
    }
}

#[test]
fn output_that_finds_no_room_is_an_error_and_a_reader_that_went_away_is_none() {
    let rows: [&[&str]; 4] = [&["list"], &["list", "--json"], &["completion", "bash"], &["doctor", "--json"]];
    for arguments in rows {
        let run = |out: std::process::Stdio| {
            command(arguments)
                .stdout(out)
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap()
                .wait_with_output()
                .unwrap()
        };
        let full = run(std::fs::File::create("/dev/full").unwrap().into());
        check(arguments, &full, 3, &["what was printed is not whole: No space left on device"]);
        let (nobody, pipe) = std::io::pipe().unwrap();
        drop(nobody);
        let unread = run(pipe.into());
        check(arguments, &unread, 0, &[]);
    }
}
