//! Drivers that are programs outside the tree: the example of the guide on real beds, and programs that hang, die, speak nonsense, answer
//! late or speak another version.

#![allow(clippy::unwrap_used, reason = "tests stop at the first thing that is wrong")]

mod common;

use common::{must_be_root, plain, spec, with_firewall};
use measure::shape::{PolicyShape, TestProtocol, ZoneForm};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use testbed::bed::Bed;
use testbed::dut::{self, Driver, Program};
use testbed::policy::{PolicySpec, Probe};
use testbed::priority::SessionPriority;

fn add(path: &Path) -> &'static str {
    let program: &Program = Box::leak(Box::new(Program::ask(path).unwrap()));
    dut::add(program).unwrap();
    program.name()
}

#[test]
fn the_example_enforces_its_rules() {
    must_be_root();
    let name = add(Path::new("../../examples/drivers/nftables_driver.py"));
    for (rules, stateful) in [(0, false), (10, true), (10, false)] {
        for (zones, protocol) in [(ZoneForm::Two, TestProtocol::Tcp), (ZoneForm::Three, TestProtocol::Udp)] {
            let shape = PolicyShape { rules, match_position: rules, stateful, protocol, ..plain() };
            with_firewall(name, zones, &shape, |_, running, policy, prober| {
                assert_eq!(prober.failures(&policy.probes()), Vec::<String>::new(), "{shape:?}");
                running.check_alive().unwrap();
                running.reset().unwrap();
                assert_eq!(
                    prober.failures(&policy.probes()),
                    Vec::<String>::new(),
                    "{shape:?} after a reset"
                );
                let dropped: u64 = running.counters().unwrap().values().sum();
                assert_eq!(dropped > 0, rules > 0, "{shape:?}");
            });
        }
    }
    let shape = PolicyShape { rules: 10, match_position: 4, stateful: true, ..plain() };
    let old = PolicySpec::generate_replaceable(&shape, ZoneForm::Two).unwrap();
    common::with_policy(name, &old, |_, running, old, prober| {
        let new = old.successor().unwrap();
        assert!(running.replace(&new).unwrap().command_seconds > 0.0);
        let probes = new.replacement_probes(measure::shape::IpVersion::V4).unwrap();
        let stays = |probe: &Probe| prober.wait_for(probe).is_some();
        assert!([&probes.new_only, &probes.both].into_iter().all(stays));
    });
}

/// A firewall in user space that drivers start has the processor as one in the tree has it: a run raises its session, and neither a driver nor a
/// daemon is in that.
#[test]
fn sessions_of_a_driver_stand_beside_that_of_the_bench() {
    must_be_root();
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let hello = r#"echo '{"id":1,"protocol":1,"name":"daemons","version":"1","can":[]}'"#;
    let then = format!(
        "echo $$ >{0}; setsid sleep 1000 & echo $! >>{0}; echo '{{\"id\":2}}'; read -r line; echo '{{\"id\":3}}'; read -r line",
        pids.display()
    );
    let name = add(&program(folder.path(), "daemons", hello, &then));
    let _priority = SessionPriority::raise();
    let nice = |pid: &str| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/autogroup")).unwrap();
        text.split(" nice ").map(str::trim).map(str::to_owned).collect::<Vec<_>>()
    };
    let own = nice("self");
    // A session of init's is in no group; one that begins beside it has a group with the kernel's default.
    let as_the_bench = own.get(1).map_or("0", String::as_str);
    with_firewall(name, ZoneForm::Two, &plain(), |_, _, _, _| {
        let pids = std::fs::read_to_string(&pids).unwrap();
        assert_eq!(pids.lines().count(), 2, "{pids}");
        for pid in pids.lines() {
            let found = nice(pid);
            assert_eq!(found.get(1).map(String::as_str), Some(as_the_bench), "{found:?} beside {own:?}");
            assert_ne!(found[0], own[0], "a session of its own");
        }
    });
}

/// Answers of a program that is set up and then asked twice for its counters. No error is one that is null.
const FALLING_COUNTERS: &str = r#"
echo '{"id":2,"error":null}'; read -r line; echo '{"id":3}'
read -r line; echo '{"id":4,"drops":{"a":5}}'; read -r line; echo '{"id":5,"drops":{"a":4}}'; read -r line"#;
const LOST_COUNTER: &str = r#"
echo '{"id":2}'; read -r line; echo '{"id":3}'
read -r line; echo '{"id":4,"drops":{"a":5}}'; read -r line; echo '{"id":5,"drops":{}}'; read -r line"#;
const GREAT_COUNTERS: &str = r#"
echo '{"id":2}'; read -r line; echo '{"id":3}'
read -r line; echo '{"id":4,"drops":{"a":9223372036854775807}}'; read -r line"#;

/// A program that answers `hello`, and then does something else.
fn program(folder: &Path, name: &str, hello: &str, then: &str) -> PathBuf {
    let path = folder.join(name);
    let text = format!(
        "#!/bin/bash\necho last words of {name} >&2\nread -r line\n{hello}\nread -r line || exit 0\n{then}\n"
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_program_that_goes_wrong_is_named_with_its_last_words_and_ended() {
    must_be_root();
    let folder = tempfile::tempdir().unwrap();
    let good = r#"echo '{"id":1,"protocol":1,"name":"NAME","version":"1","can":["rules","stateful"]}'"#;
    // What it does at hello, what afterwards, and what is said.
    let rows = [
        ("hangs", "sleep 1000", "", "did not answer to hello within 5 s"),
        ("dies", "exit 7", "", "ended instead of answering to hello"),
        ("nonsense", "echo hello there", "", "not a line of JSON: hello there"),
        ("endless", "head -c 3000000 /dev/zero | tr '\\0' x", "", "not a line of JSON: xxx"),
        (
            "newer",
            r#"echo '{"id":1,"protocol":2,"name":"n","version":"1","can":[]}'"#,
            "",
            "speaks version 2 of the protocol",
        ),
        ("vague", r#"echo '{"id":1}'"#, "", "cannot be read: missing field `protocol`"),
        ("flies", r#"echo '{"id":1,"protocol":1,"name":"n","version":"1","can":["fly"]}'"#, "", "«fly»"),
        ("unnamed", r#"echo '{"id":1,"protocol":1,"name":"","version":"1","can":[]}'"#, "", "the name ``"),
        ("confused", good, r#"echo '{"id":7}'"#, "answered to set-up without the question's id"),
        ("refuses", good, r#"echo '{"id":2,"error":"no licence"}'"#, "could not do set-up: \"no licence\""),
        ("drops-out", good, "exit 3", "ended instead of answering to set-up"),
        // Its child is in a group of its own.
        (
            "leaves-a-child",
            good,
            "setsid sleep 1000 >/dev/null 2>&1 & exit 3",
            "ended instead of answering to set-up",
        ),
        // It has a group and namespaces of its own, and its parent is gone.
        (
            "leaves-an-orphan",
            good,
            "(env -i setsid unshare -n setsid sleep 1000 >/dev/null 2>&1 &) ; exit 3",
            "ended instead of answering to set-up",
        ),
        (
            "leaves-a-group",
            good,
            "timeout 1000 unshare -n sleep 1000 >/dev/null 2>&1 & exit 3",
            "ended instead of answering to set-up",
        ),
        (
            "two-lines",
            r#"echo '{"id":1,"protocol":1,"name":"n","version":"1\n2","can":[]}'"#,
            "",
            "its version has not 1 to 200 bytes in one line",
        ),
        (
            "nobody",
            r#"echo '{"id":1,"protocol":1,"name":"External","version":"1","can":[]}'"#,
            "",
            "that of a box between --ports",
        ),
        (
            "another",
            &format!(
                r#"test -e "$0.was" && v=2 || v=1; touch "$0.was"; {}"#,
                good.replace(r#""1""#, r#""'$v'""#)
            ),
            "",
            "is not what it said before the run: another 1",
        ),
        ("falls", good, FALLING_COUNTERS, "its counter a went back from 5 to 4"),
        ("loses-one", good, LOST_COUNTER, "its counter a, which was 5, is gone"),
        ("boasts", good, GREAT_COUNTERS, "its counter a is 9223372036854775807"),
        // It answers to hello twice, the second time in place of set-up.
        ("late", &format!("{good}; {good}"), "sleep 1000", "answered to set-up without the question's id"),
    ];
    let shape = PolicyShape { rules: 1, match_position: 1, stateful: true, ..plain() };
    let policy = PolicySpec::generate(&shape, ZoneForm::Two).unwrap();
    for (name, hello, then, said) in rows {
        let mark = format!("1{:05}.25", std::process::id() % 100_000);
        let (hello, then) = (hello.replace("NAME", name).replace("1000", &mark), then.replace("1000", &mark));
        let path = program(folder.path(), name, &hello, &then);
        let error = match Program::ask(&path) {
            Err(error) => error,
            Ok(program) => {
                let bed = Bed::build(&spec(ZoneForm::Two, program.wiring())).unwrap();
                match program.set_up(&bed, &policy) {
                    Err(error) => error,
                    Ok(running) => running.counters().and_then(|_| running.counters()).err().unwrap(),
                }
            }
        };
        let text = error.to_string();
        assert!(text.contains(said) && text.contains(path.to_str().unwrap()), "{name}: {text}");
        assert!(text.contains(&format!("last words of {name}")), "{name}: {text}");
        assert!(!error.is_machine(), "{name}");
        assert!(!runs(&mark), "{name}: what it started goes on");
    }
    for (path, said) in [
        ("", "program: names no file"),
        ("/tmp", "this is no file"),
        ("/etc/passwd", "it is not executable: chmod +x /etc/passwd"),
    ] {
        let error = Program::ask(Path::new(path)).err().map(|e| e.to_string()).unwrap();
        assert!(error.contains(said), "{error}");
    }
    let missing = Program::ask(&folder.path().join("none")).err().map(|e| e.to_string()).unwrap();
    assert!(missing.contains("none"), "{missing}");
}

/// Whether a process has this word among its arguments.
fn runs(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.into_iter().any(|line| line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes()))
}
