//! What was in force before: the history, the way back, and backups.

use super::*;
use crate::api::{KeptPolicy, NewPolicy, Outcome};
use crate::state::{Kept as KeptOnDisk, State};

/// A daemon whose state is in a folder.
fn kept_in(folder: &Path) -> Running {
    Running::prepared(&usual(), "2026-11-20T10:00:00Z", |daemon| {
        daemon.keep_in(State::at(folder), &"a test".into())
    })
}

fn only(name: &str) -> String {
    format!("{ZONES}{}", rule(name, ""))
}

/// Numbers with the first letters of how they came and what came of them, and the entry in force.
fn history(running: &Running) -> (String, Value) {
    let history = running.ask("GET", "/v1/history", "").1;
    let entry = |it: &Value| {
        format!(
            "{}{}{}",
            it["number"],
            &it["way"].as_str().unwrap()[..2],
            &it["outcome"].as_str().unwrap()[..2]
        )
    };
    let entries: Vec<String> = history["entries"].as_array().unwrap().iter().map(entry).collect();
    (entries.join(" "), history["in_force"].clone())
}

fn is(entries: &str, in_force: u64) -> (String, Value) {
    (entries.to_owned(), json!(in_force))
}

#[test]
fn every_policy_is_in_the_history_with_what_came_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let running = kept_in(folder.path());
    assert_eq!(history(&running), is("1upap", 1));
    running.apply(&only("a"), None, 1).unwrap();
    running.apply(&only("a"), None, 2).unwrap();
    assert_eq!(history(&running), is("1upap 2apap", 2), "what is in force already is not added again");
    running.apply(&only("b"), Some(60), 3).unwrap();
    assert_eq!(history(&running), is("1upap 2apap 3apwa", 3));
    running.daemon.tick(running.at(63));
    assert_eq!(history(&running), is("1upap 2apap 3apro", 2));
    running.apply(&only("c"), Some(60), 70).unwrap();
    running.apply(&only("d"), Some(60), 71).unwrap();
    running.daemon.confirm(None, running.at(72).wall, &"a test".into()).unwrap();
    assert_eq!(history(&running), is("1upap 2apap 3apro 4apre 5apco", 5));
    // What was refused never was in force.
    assert!(running.apply("[zones", None, 73).is_err());
    assert!(running.apply(&format!("{ZONES}{}", rule("x", "log = true")), None, 74).is_err());
    assert_eq!(history(&running).1, json!(5));
    // A daemon that ends before anybody confirms, and the next one.
    running.apply(&only("e"), Some(60), 80).unwrap();
    running.daemon.leave(running.at(81), &"SIGTERM".into());
    let kept = State::at(folder.path()).find();
    assert!(kept.policies[0].text.contains("'d'"), "{kept:?}");
    let next = Running::prepared(&only("d"), "2026-11-21T10:00:00Z", |daemon| {
        daemon.keep_in(State::at(folder.path()), &"a test".into())
    });
    assert_eq!(
        history(&next),
        is("1upap 2apap 3apro 4apre 5apco 6apro 7upap", 7),
        "under another file's name"
    );
    let again = Running::prepared(&only("d"), "2026-11-22T10:00:00Z", |daemon| {
        daemon.keep_in(State::at(folder.path()), &"a test".into())
    });
    assert_eq!(history(&again).1, json!(7), "a restart with the same policy adds nothing");
}

#[test]
fn the_way_back_can_be_asked_for_and_taken() {
    let folder = tempfile::tempdir().unwrap();
    let running = kept_in(folder.path());
    let wider = running.file("wider.toml", &format!("{}{}", usual(), rule("mail", "service = 'smtp'")));
    let broken = running.file("broken.toml", "[zones");
    let state = folder.path().display();
    let rows: Vec<(String, u8, Vec<String>)> = vec![
        ("diff".into(), 2, vec!["the history has no policy before the one in force".into()]),
        (format!("apply {wider}"), 0, vec!["+ mail\nnumber 2 of the history\n".into()]),
        (
            "history".into(),
            0,
            vec![
                "  1  2026-11-20T10:00:00Z  a test  up     first.toml".into(),
                "apply  ".into(),
                "3  applied, in force\n".into(),
            ],
        ),
        ("history 1".into(), 0, vec!["# number 1: first.toml, 2 rules\n# applied; up at 2026-11-20T10:00:00Z by a test\n# sha256 ".into(), usual()]),
        ("history 9".into(), 2, vec!["the history has no entry 9: `rampart history` lists".into()]),
        ("export 1".into(), 0, vec![usual()]),
        ("export".into(), 0, vec!["'smtp'".into()]),
        ("export --json".into(), 0, vec!["\"number\": 2".into()]),
        (format!("export 1 --kept --state {state}"), 0, vec![usual()]),
        (format!("history --kept --state {state} --json"), 0, vec!["\"in_force\": 2".into()]),
        ("diff".into(), 0, vec![format!("from first.toml (1) to {wider} (2)\n+ mail\n")]),
        ("diff 1".into(), 0, vec!["+ mail\n".into()]),
        ("diff 2 1".into(), 0, vec!["- mail\n".into()]),
        (format!("diff {wider} --json"), 0, vec!["\"added\": []".into()]),
        ("diff 2 1 --text".into(), 0, vec!["--- ".into(), "-name = 'mail'\n".into()]),
        ("diff 2 2 --text".into(), 0, vec!["have the same text\n".into()]),
        (format!("diff {broken}"), 2, vec!["broken.toml:1:7: this is not TOML".into()]),
        (format!("diff {broken} --text"), 0, vec!["+[zones\n".into()]),
        ("diff /nonexistent.toml".into(), 2, vec!["cannot read /nonexistent.toml".into()]),
        ("rollback 9".into(), 2, vec!["the history has no entry 9".into()]),
        ("rollback 1".into(), 0, vec!["first.toml, number 1, is in force as generation 3, 2 rules\n- mail\nnumber 3 of the history\n".into()]),
        ("rollback 2 --confirm 60".into(), 0, vec!["+ mail\nnumber 4 of the history\ngoes back at ".into()]),
        ("confirm 3".into(), 2, vec!["the policy that waits to be confirmed is number 4 of the history by now, and not 3".into()]),
        ("status --json".into(), 0, vec!["\"waiting\": 4".into()]),
        ("confirm 4".into(), 0, vec!["generation 4 stays\n".into()]),
        ("confirm 4".into(), 2, vec!["no policy waits".into()]),
        ("history".into(), 0, vec!["rollback to 1".into(), "rollback to 2".into(), "confirmed, in force\n".into()]),
        ("factory-reset".into(), 2, vec!["say --yes where there is no terminal to ask at".into()]),
        ("factory-reset --yes --confirm 60".into(), 0, vec!["the policy of a new firewall is in force as generation 5, 4 rules\n+ manage\n".into()]),
    ];
    for (words, status, expected) in rows {
        let (found, text) = running.command(&words);
        assert_eq!(found, status, "{words}: {text}");
        for expected in expected {
            assert!(text.contains(&expected), "{words}: {expected:?} in\n{text}");
        }
    }
    assert_eq!(running.rows(), ["manage", "reachable", "our-addresses", "firewall-out"]);
    assert_eq!(running.plane.inside().attached, ["e1", "e0", "e2"], "the zones stay");
    for (target, status) in [
        ("POST /v1/policy/rollback", 400),
        ("POST /v1/policy/rollback?number=x", 400),
        ("POST /v1/policy/rollback?number=99", 404),
        ("POST /v1/policy/rollback?number=1&confirm_seconds=0", 400),
        ("POST /v1/policy/factory-reset?number=1", 400),
        ("POST /v1/policy/factory-reset?confirm_seconds=86401", 400),
        ("POST /v1/policy/confirm?number=x", 400),
        ("POST /v1/policy/confirm?confirm_seconds=60", 400),
        ("GET /v1/policy?confirm_seconds=1", 400),
        ("GET /v1/policy?number=99", 404),
        ("GET /v1/history?number=1", 400),
        ("PUT /v1/backup", 400),
    ] {
        let (method, path) = target.split_once(' ').unwrap();
        let (found, answer) = running.ask(method, path, "");
        assert_eq!(found, status, "{target}: {answer}");
        assert_ne!(answer["error"], Value::Null, "{target}");
    }
}

/// SSH stays open whatever zones there are, and the flow table and the forwarding are those that run.
#[test]
fn the_policy_of_a_new_firewall_is_one() {
    for (policy, rules) in [
        (usual(), 4),
        (format!("[settings]\nflows = 2048\nforwarding = 'kernel'\n{ZONES}"), 4),
        ("[zones]\nmodem = { interfaces = ['ppp*', 'e0'], networks = '192.0.2.0/24' }\n".to_owned(), 4),
    ] {
        let running = Running::with(&policy, "2026-11-20T10:00:00Z");
        let (status, answer) = running.ask("POST", "/v1/policy/factory-reset", "");
        assert_eq!(
            (status, &answer["rules"], &answer["number"]),
            (200, &json!(rules), &Value::Null),
            "{answer}"
        );
        let text = running.daemon.policy(None).unwrap().text;
        let policy = Policy::parse("p", &text).unwrap();
        assert_eq!(crate::daemon::changes::between(&policy, &policy).added.len(), 0);
        assert_eq!(policy.warnings().len(), 0, "{text}");
    }
}

#[test]
fn a_disk_that_is_full_costs_the_entry_and_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let running = kept_in(folder.path());
    let histories = folder.path().join("history");
    fs::rename(&histories, folder.path().join("away")).unwrap();
    fs::write(&histories, "no folder").unwrap();
    let apply = |text: &str, confirm_seconds: Option<u32>, at: u32| {
        let new = NewPolicy {
            file: "second.toml".to_owned(),
            folder: None,
            text: text.to_owned(),
            confirm_seconds,
        };
        running.daemon.apply(&new, running.at(at), &"a test".into()).unwrap()
    };
    let applied = apply(&only("a"), Some(60), 1);
    assert!(
        applied
            .not_kept
            .iter()
            .any(|it| it.starts_with("the history of policies cannot be written or read: ")),
        "{:?}",
        applied.not_kept
    );
    assert_eq!(running.rows(), ["a"], "the policy is in force");
    assert_eq!(running.ask("GET", "/v1/history", "").0, 500);
    assert_eq!(running.ask("GET", "/v1/policy", "").0, 200, "the policy in force can be read");
    running.daemon.tick(running.at(2));
    assert!(
        running.log().contains("trouble: the history of policies cannot be written or read: "),
        "{}",
        running.log()
    );
    running.daemon.confirm(None, running.at(3).wall, &"a test".into()).unwrap();
    fs::remove_file(&histories).unwrap();
    fs::rename(folder.path().join("away"), &histories).unwrap();
    let applied = apply(&only("b"), None, 4);
    assert_eq!(applied.not_kept, [""; 0], "it is kept again");
    running.daemon.tick(running.at(5));
    assert_eq!(running.ask("GET", "/v1/status", "").1["troubles"], json!([]));
    assert_eq!(history(&running), is("1upap 2apap", 2));
}

#[test]
fn a_backup_brings_a_firewall_back_on_another_machine() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let running = kept_in(here.path());
    running.apply(&only("a"), None, 1).unwrap();
    running.apply(&only("b"), None, 2).unwrap();
    let copies = here.path().join("lists");
    fs::create_dir(&copies).unwrap();
    fs::set_permissions(&copies, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let (name, copy) =
        ("bad-0123456789abcdef.list", policy::lists::compiled::encode(&policy::lists::Contents::default()));
    fs::write(copies.join(name), &copy).unwrap();
    fs::write(copies.join("unfinished.new"), "x").unwrap();
    let backup = running.folder.path().join("backup").display().to_string();
    let (status, text) = running.command(&format!("backup {backup}"));
    assert!(
        status == 0 && text.contains("with second.toml, 3 entries of the history and 1 copies of lists\n"),
        "{text}"
    );
    // On the machine that made it: nothing is new.
    let (status, text) = running.command(&format!("restore {backup}"));
    assert!(status == 0 && text.contains("nothing is different\nnumber 3 of the history\n"), "{text}");
    assert!(text.ends_with("new here: 0 entries of the history, 0 copies of lists\n"), "{text}");
    // On another one, whose own history stays.
    let other = kept_in(there.path());
    other.apply(&only("c"), None, 5).unwrap();
    let (status, text) = other.command(&format!("restore {backup} --confirm 60"));
    assert!(
        status == 0 && text.ends_with("new here: 2 entries of the history, 1 copies of lists\n"),
        "{text}"
    );
    assert_eq!(other.rows(), ["b"]);
    assert_eq!(history(&other), is("1upap 2apap 3apap 4apap 5rewa", 5), "the first is the same as its own");
    assert_eq!(fs::read(there.path().join("lists").join(name)).unwrap(), copy);
    assert_eq!(fs::read_dir(there.path().join("lists")).unwrap().count(), 1);
    other.daemon.tick(Moment { steady: other.at(0).steady + Duration::from_secs(100), ..Moment::now() });
    assert_eq!((other.rows(), history(&other).1), (vec!["c".to_owned()], json!(2)), "nobody confirmed it");
    assert!(other.command("history").1.contains("apply, by a backup"));
    // One whose policy cannot be put in force changes nothing, and what is no backup does not either.
    fs::remove_dir_all(there.path().join("lists")).unwrap();
    other.plane.inside().broken = Some("no memory".to_owned());
    assert_eq!(other.command(&format!("restore {backup}")).0, 3);
    other.plane.inside().broken = None;
    fs::write(&backup, "no backup").unwrap();
    let (status, text) = other.command(&format!("restore {backup}"));
    assert!(
        status == 2 && text.contains("is not restored, and nothing is changed: it does not begin as"),
        "{text}"
    );
    assert_eq!((other.rows(), history(&other).1), (vec!["c".to_owned()], json!(2)));
    assert_eq!(fs::read_dir(there.path().join("lists")).unwrap().count(), 0);
}

/// Who comes up with a policy that locks him out is let in again.
#[test]
fn a_first_policy_that_nobody_confirms_goes_back_or_down() {
    let folder = tempfile::tempdir().unwrap();
    let state = || State::at(folder.path());
    let at = "2026-11-20T10:00:00Z";
    let up = |text: &str, previous: Option<&str>| {
        let previous = previous.map(|text| Policy::parse("before.toml", text).unwrap());
        Running::prepared(text, at, |daemon| {
            let now = Moment { wall: at.parse().unwrap(), ..Moment::now() };
            daemon.confirm_within(60, previous, now).keep_in(state(), &"a test".into())
        })
    };
    let late = |running: &Running| Moment { steady: running.at(90).steady, ..running.at(90) };
    let first = up(&only("a"), None);
    assert_eq!(history(&first), is("1upwa", 1));
    assert_eq!(state().find().policies, [], "it is not what the next daemon comes up with");
    assert!(!first.daemon.tick(first.start) && first.daemon.tick(late(&first)), "it is to go down");
    assert!(
        first
            .log()
            .contains("rolled-back: first.toml was not confirmed, and there was no firewall before it")
    );
    assert_eq!(history(&first).0, "1upro");
    // Confirmed in time, it stays.
    let second = up(&only("a"), None);
    second.daemon.confirm(None, second.start.wall, &"a test".into()).unwrap();
    assert!(!second.daemon.tick(late(&second)));
    assert_eq!((second.rows(), history(&second)), (vec!["a".to_owned()], is("1upro 2upco", 2)));
    let kept: Vec<KeptOnDisk> = state().find().policies;
    assert_eq!(kept.len(), 1);
    // And what comes after it goes back to it.
    let third = up(&only("b"), Some(&only("a")));
    assert_eq!(history(&third).1, json!(3));
    assert!(!third.daemon.tick(late(&third)));
    assert_eq!((third.rows(), history(&third)), (vec!["a".to_owned()], is("1upro 2upco 3upro", 2)));
}

#[test]
fn readers_read_the_history_and_make_no_backup() {
    let folder = tempfile::tempdir().unwrap();
    let running = kept_in(folder.path());
    let ask = |method: &str, target: &str| {
        let socket = rampart_client::socket::reading(&running.instance.socket);
        let mut stream = UnixStream::connect(socket).unwrap();
        write_request(&mut stream, method, target, b"").unwrap();
        read_response(&mut stream).unwrap()
    };
    let policy: KeptPolicy = serde_json::from_slice(&ask("GET", "/v1/policy?number=1").body).unwrap();
    assert_eq!((policy.number, policy.text), (Some(1), usual()));
    for (method, target, status) in [
        ("GET", "/v1/history", 200),
        ("GET", "/v1/policy", 200),
        ("GET", "/v1/backup", 403),
        ("PUT", "/v1/backup", 403),
        ("POST", "/v1/policy/rollback?number=1", 403),
        ("POST", "/v1/policy/factory-reset", 403),
    ] {
        assert_eq!(ask(method, target).status, status, "{method} {target}");
    }
    assert_eq!(running.plane.inside().generation, 1);
}

/// Two who apply and confirm at once: each entry has the outcome that its policy had.
#[test]
fn applying_and_confirming_at_once_confuses_no_entry() {
    let folder = tempfile::tempdir().unwrap();
    let running = kept_in(folder.path());
    let (text, now) = (|n: u32| format!("{}# {n}\n", usual()), running.at(1));
    std::thread::scope(|scope| {
        scope.spawn(|| (0..20).for_each(|n| drop(running.apply(&text(n), Some(60), 1))));
        scope.spawn(|| (0..200).for_each(|_| drop(running.daemon.confirm(None, now.wall, &"a test".into()))));
    });
    let _ = running.daemon.confirm(None, now.wall, &"a test".into());
    let history = running.daemon.history().unwrap();
    let confirmed = running.log().lines().filter(|line| line.contains("Z confirmed: ")).count();
    let noted = history.entries.iter().filter(|entry| entry.outcome == Outcome::Confirmed).count();
    assert_eq!((history.entries.len(), noted), (21, confirmed));
    assert_eq!(history.in_force, Some(21));
    assert!(history.entries.iter().all(|entry| entry.outcome != Outcome::Waiting));
    let new = NewPolicy { file: String::new(), folder: None, text: usual(), confirm_seconds: None };
    assert_eq!(running.daemon.apply(&new, running.at(2), &"a test".into()).unwrap().number, Some(22));
}
