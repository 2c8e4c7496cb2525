//! Bad weather: signals, full disks, firewalls that die, stop or open up in the middle of a trial.

use measure::results::{MarkKind, Reading, Results};

use super::{ATTEMPTS, bench, left_behind, of, shown, suite, turn};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStderr, Command};
use std::time::{Duration, Instant};

/// Longer than any wait here should take; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds; it is looked at, not slept for.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A run whose first cell has begun: calibration is over, the journal is there, and beds are being built.
struct Running {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

fn running(suite: &Path, out: &Path) -> Running {
    let mut child = bench(&["run", suite.to_str().unwrap(), "--out", out.to_str().unwrap()]).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("1/1 ") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "the run ended before its first cell");
    }
    until("the bed stands", || left_behind(child.id()).iter().any(|n| n.ends_with("private")));
    Running { child, stderr }
}

impl Running {
    /// Waits for the end: its exit status and what it said from now on.
    fn finish(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

fn firewall_of(child: &Child) -> String {
    let mut name = None;
    until("the firewall's namespace is there", || {
        name = left_behind(child.id()).into_iter().find(|n| n.ends_with("firewall"));
        name.is_some()
    });
    name.unwrap()
}

#[test]
fn a_signal_takes_everything_down() {
    let _turn = turn();
    for name in ["-INT", "-TERM"] {
        let dir = tempfile::tempdir().unwrap();
        let suite = suite(dir.path(), &["linux", "nftables"], 5.0, "procedure = \"latency\"\nloads = [1000]");
        let out = dir.path().join("out");
        let run = running(&suite, &out);
        let pid = run.child.id();
        signal(&run.child, name);
        let (status, said) = run.finish();
        assert_eq!(status, Some(130), "{said}");
        assert_eq!(left_behind(pid), Vec::<String>::new());
        assert!(said.contains("interrupted"), "{said}");
        assert!(!report::load(&out).unwrap().complete);
    }
}

#[test]
fn a_second_run_on_the_machine_waits_for_the_first() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let long = suite(dir.path(), &["wire"], 5.0, "procedure = \"latency\"\nloads = [1000]");
    let first = running(&long, &dir.path().join("first"));
    let short = suite(dir.path(), &["wire"], 0.05, "procedure = \"latency\"\nloads = [1000]");
    let out = dir.path().join("second");
    let mut second =
        bench(&["run", short.to_str().unwrap(), "--out", out.to_str().unwrap()]).spawn().unwrap();
    let mut stderr = BufReader::new(second.stderr.take().unwrap());
    let mut said = String::new();
    stderr.read_line(&mut said).unwrap();
    assert!(
        said.contains(&format!("another run measures on this machine (process {}", first.child.id())),
        "{said}"
    );
    signal(&first.child, "-INT");
    assert_eq!(first.finish().0, Some(130));
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(second.wait().unwrap().code(), Some(0), "{said}");
    assert!(report::load(&out).unwrap().points.iter().any(|point| point.valid));
}

#[test]
fn a_run_beside_another_program_says_so() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let suite = suite(dir.path(), &["wire"], 0.5, "procedure = \"latency\"\nloads = [1000]");
    let out = dir.path().join("out");
    let mut other = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let output = bench(&["run", suite.to_str().unwrap(), "--out", out.to_str().unwrap()]).output();
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(output.unwrap().status.success());
    let results = report::load(&out).unwrap();
    let loaded = |p: &Reading<'_>| p.marks.iter().any(|m| m.kind == MarkKind::ForeignLoad);
    assert!(of(&results, "wire").iter().all(loaded), "{:?}", results.points);
}

#[test]
fn a_killed_run_leaves_only_what_the_next_removes() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let suite_path = suite(dir.path(), &["linux"], 5.0, "procedure = \"latency\"\nloads = [1000]");
    let run = running(&suite_path, &dir.path().join("killed"));
    let pid = run.child.id();
    signal(&run.child, "-KILL");
    run.finish();
    assert!(!left_behind(pid).is_empty(), "the kill came too late to leave anything");
    let suite_path = suite(dir.path(), &["wire"], 0.05, "procedure = \"latency\"\nloads = [1000]");
    let out = dir.path().join("next");
    let output =
        bench(&["run", suite_path.to_str().unwrap(), "--out", out.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    assert!(shown(&output).contains("removed what a killed run left"), "{}", shown(&output));
    assert_eq!(left_behind(pid), Vec::<String>::new());
}

/// What somebody does to a firewall in the middle of a trial, and what the bench says of its points.
struct Mischief {
    name: &'static str,
    dut: &'static str,
    /// What is measured.
    test: &'static str,
    /// A shell command inside the firewall's namespace.
    command: &'static str,
    said: &'static [&'static str],
}

/// Of each trial.
const MISCHIEF_SECONDS: f64 = 1.5;
const FRAMES: &str = "procedure = \"latency\"\nloads = [2000]\nfactors.rules = [3]";
/// Each trial ends when its last transactions have had their time, so they have little of it: most are never answered.
const HTTP: &str = "procedure = \"transactions\"\ntransaction_limit = 2\nfactors.rules = [3]";

const MISCHIEF: &[Mischief] = &[
    Mischief {
        name: "forwards everything",
        dut: "nftables",
        test: FRAMES,
        command: "nft flush ruleset",
        said: &["forbid", "not loaded"],
    },
    Mischief {
        name: "stops forwarding",
        dut: "linux",
        test: FRAMES,
        command: "sysctl -qw net.ipv4.ip_forward=0",
        said: &["did not arrive", "forwarding"],
    },
    Mischief {
        name: "crashes: its links are gone",
        dut: "linux",
        test: FRAMES,
        command: "for link in $(ls /sys/class/net); do ip link set $link down; done",
        said: &["down", "did not arrive", "stopped forwarding"],
    },
    Mischief {
        name: "takes what the policy forbids",
        dut: "haproxy",
        test: HTTP,
        command: "nft insert rule inet rampart_bench input meta mark 0x1 accept",
        said: &["the proxy took a connection from the hostile to the private zone, port 80"],
    },
    Mischief {
        name: "hands nothing to its proxy",
        dut: "squid",
        test: HTTP,
        command: "nft flush chain inet rampart_bench intercept",
        said: &["port 80, which the policy allows, was not answered"],
    },
    Mischief {
        name: "is a router without its proxy",
        dut: "squid",
        test: HTTP,
        command: "nft flush chain inet rampart_bench intercept; nft flush chain inet rampart_bench forward",
        said: &["port 80, which the policy allows, was refused", "forbid"],
    },
    Mischief {
        name: "its proxy is killed",
        dut: "haproxy",
        test: HTTP,
        command: "for p in /proc/[0-9]*; do [ \"$(readlink $p/ns/net)\" = \"$(readlink /proc/$$/ns/net)\" ] && \
                  [ \"$(cat $p/comm)\" = haproxy ] && kill -9 ${p#/proc/}; done; true",
        said: &["signal: 9", "was not answered"],
    },
];

#[test]
fn a_firewall_that_changes_in_a_trial_gets_no_value() {
    let _turn = turn();
    for mischief in MISCHIEF {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let (results, said, in_time) = after(mischief);
            let points = of(&results, mischief.dut);
            assert!(!points.is_empty(), "{}: {}", mischief.name, said);
            if !in_time && attempts < ATTEMPTS && points.iter().any(|point| point.valid) {
                continue;
            }
            for point in points {
                assert!(!point.valid, "{}: {:?}", mischief.name, point.marks);
                let details: Vec<&str> = point.marks.iter().map(|m| m.text.as_str()).collect();
                let explained = mischief.said.iter().any(|words| details.iter().any(|d| d.contains(words)));
                assert!(explained, "{}: {details:?}\n{said}", mischief.name);
            }
            break;
        }
    }
}

/// A run in whose first trial a firewall was changed: its results, what it said, and whether the change was made while the trial surely
/// went on. A machine that keeps this test from its core may make it later.
fn after(mischief: &Mischief) -> (Results, String, bool) {
    const SURELY: Duration = Duration::from_millis(400);
    let dir = tempfile::tempdir().unwrap();
    let suite = suite(dir.path(), &[mischief.dut], MISCHIEF_SECONDS, mischief.test);
    let out = dir.path().join("out");
    let run = running(&suite, &out);
    let firewall = firewall_of(&run.child);
    let halfway = wait_for_traffic(&firewall);
    let inside = ["netns", "exec", &firewall, "sh", "-c", mischief.command];
    assert!(Command::new("ip").args(inside).status().unwrap().success(), "{}", mischief.name);
    let in_time = halfway.elapsed() < SURELY;
    let (_, said) = run.finish();
    (report::load(&out).unwrap(), said, in_time)
}

/// Waits until the firewall has forwarded what only a trial sends: more frames than proofs and openings do, and half of those of
/// [`FRAMES`]. Answers with a moment at which it had not.
fn wait_for_traffic(firewall: &str) -> Instant {
    const OF_A_TRIAL: u64 = 1_500;
    let (mut before, mut now) = (Instant::now(), Instant::now());
    until("a trial sends", || {
        (before, now) = (now, Instant::now());
        let output =
            Command::new("ip").args(["netns", "exec", firewall, "cat", "/proc/net/dev"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let received = |line: &str| line.split_whitespace().nth(2).and_then(|n| n.parse::<u64>().ok());
        text.lines().filter_map(received).max().unwrap_or(0) > OF_A_TRIAL
    });
    before
}

#[test]
fn a_disk_that_fills_leaves_the_run_so_far_readable() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let small = dir.path().join("small");
    std::fs::create_dir(&small).unwrap();
    let levels: Vec<String> = (0..12).map(|n| (64 + n).to_string()).collect();
    let test = format!("procedure = \"latency\"\nloads = [1000]\nfactors.frame = [{}]", levels.join(", "));
    let suite = suite(dir.path(), &["wire"], 0.05, &test);
    // The mount is of a namespace of its own, which ends with the run; what was written is copied out before.
    let kept = dir.path().join("kept");
    let script = "mount -t tmpfs -o size=24k tmpfs \"$1\" && shift && \"$@\"; status=$?; cp -r \"$SMALL\" \"$KEPT\"; exit $status";
    let out = small.join("out");
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(&small)
        .arg(env!("CARGO_BIN_EXE_rampart-bench"))
        .args(["run", suite.to_str().unwrap(), "--out", out.to_str().unwrap()])
        .env("SMALL", &out)
        .env("RAMPART_BENCH_HISTORY", "off")
        .env("KEPT", &kept)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", shown(&output));
    assert!(shown(&output).contains("No space left on device"), "{}", shown(&output));
    let results = report::load(&kept).unwrap();
    assert!(!results.complete && !results.points.is_empty());
    let again = bench(&["report", kept.to_str().unwrap(), "--format", "csv"]).output().unwrap();
    assert_eq!(again.status.code(), Some(0), "{}", shown(&again));
}

#[test]
fn a_load_that_the_machine_cannot_send_is_said() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let test = "procedure = \"latency\"\nloads = [900000000]\nplacement = \"inline\"";
    let suite = suite(
        dir.path(),
        &["wire"],
        0.05,
        &test.replace("placement", "factors.placement").replace("\"inline\"", "[\"inline\"]"),
    );
    let out = dir.path().join("out");
    let output = bench(&["run", suite.to_str().unwrap(), "--out", out.to_str().unwrap()]).output().unwrap();
    let results = report::load(&out).unwrap();
    let valid = results.points.iter().any(|point| point.valid);
    assert_eq!(output.status.code(), Some(if valid { 0 } else { 3 }), "{}", shown(&output));
    for point in of(&results, "wire") {
        let explained = point.marks.iter().any(|m| m.text.contains("lost") || m.text.contains("behind"));
        assert!(explained, "{:?}", point.marks);
    }
}
