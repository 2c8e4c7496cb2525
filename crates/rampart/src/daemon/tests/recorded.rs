//! Who may change the firewall by which socket, and what is kept on disk of it.

use super::*;
use crate::daemon::recorder;
use rampart_client::api::{Actor, ROUTES};
use rampart_client::http::Request;
use rampart_client::socket::reading;
use std::time::Instant;

/// A request over the socket for readers: the status and the body.
fn ask_as_reader(running: &Running, method: &str, target: &str, body: &str) -> (u16, Value) {
    let mut stream = UnixStream::connect(reading(&running.instance.socket)).unwrap();
    // The answer may have been there before the body.
    let _ = write_request(&mut stream, method, target, body.as_bytes());
    let response = read_response(&mut stream).unwrap();
    // Metrics are no JSON.
    (response.status, serde_json::from_slice(&response.body).unwrap_or_default())
}

#[test]
fn by_the_socket_for_readers_everything_can_be_asked_and_nothing_changed() {
    let running = Running::new();
    filled(&running);
    for route in &ROUTES {
        let (status, answer) = ask_as_reader(&running, route.method, route.path, "");
        let wanted = if route.operation.is_for_readers() { 200 } else { 403 };
        assert_eq!(status, wanted, "{} {}: {answer}", route.method, route.path);
    }
    let body = json!({ "file": "p.toml", "text": usual() }).to_string();
    assert_eq!(ask_as_reader(&running, "PUT", "/v1/policy", &body).0, 403, "with a body");
    assert_eq!(ask_as_reader(&running, "DELETE", "/v1/sessions?all=true", "").0, 403, "by an older name");
    assert_eq!(running.plane.inside().generation, 1);
    assert_eq!(running.plane.inside().flows.len(), 3);
}

#[test]
fn what_was_ended_before_the_kernel_refused_is_in_the_audit_trail() {
    let running = Running::new();
    filled(&running);
    running.plane.inside().ends_left = Some(2);
    let (status, refused) = running.ask("DELETE", "/v1/flows?all=true", "");
    assert_eq!(status, 500, "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("the kernel has no more"), "{refused}");
    assert_eq!(running.plane.inside().flows.len(), 1);
    let trail = running.ask("GET", "/v1/audit", "").1;
    let record = &trail["records"][0];
    assert_eq!(record["event"], json!("killed"), "{trail}");
    let message = record["message"].as_str().unwrap();
    assert!(
        message.starts_with("flows: 2, and not the others (") && message.ends_with(": all=true"),
        "{message}"
    );
}

#[test]
fn what_somebody_does_is_in_the_audit_trail_with_who_and_what_came_of_it() {
    let running = Running::new();
    filled(&running);
    for (method, target, body, wanted) in [
        ("DELETE", "/v1/flows?rule=lessons", String::new(), 200),
        (
            "PUT",
            "/v1/policy",
            json!({ "file": "a\nb", "text": usual(), "confirm_seconds": 9 }).to_string(),
            200,
        ),
        ("PUT", "/v1/policy", json!({ "file": "c", "text": "[zones" }).to_string(), 422),
        ("POST", "/v1/policy/confirm", String::new(), 200),
        ("POST", "/v1/policy/confirm", String::new(), 409),
    ] {
        assert_eq!(running.ask(method, target, &body).0, wanted, "{method} {target}");
    }
    let trail = running.ask("GET", "/v1/audit", "").1;
    let recorded: Vec<_> =
        trail["records"].as_array().unwrap().iter().map(|it| it["event"].as_str().unwrap()).collect();
    assert_eq!(recorded, ["killed", "applied", "refused", "confirmed", "refused"], "{trail}");
    for record in trail["records"].as_array().unwrap() {
        assert_eq!(record["by"]["pid"], json!(std::process::id()), "{record}");
        assert_eq!(record["by"]["uid"], json!(nix::unistd::getuid().as_raw()), "{record}");
        assert!(record["by"]["command"].as_str().unwrap().contains("rampart"), "{record}");
    }
    let messages: Vec<_> =
        trail["records"].as_array().unwrap().iter().map(|it| it["message"].as_str().unwrap()).collect();
    assert!(messages[0].contains("flows: 1") && messages[0].contains("rule=lessons"), "{messages:?}");
    assert!(messages[1].starts_with("a\nb as generation 2") && messages[2].contains("c:1:7"), "{messages:?}");
    let file = fs::read_to_string(running.folder.path().join("log/audit.jsonl")).unwrap();
    assert_eq!(file.lines().count(), 5, "a line each: {file}");
    let (status, text) = running.command("log --audit");
    assert!(status == 0 && text.lines().count() == 5 && text.contains("a\\nb as generation 2"), "{text}");
    assert_eq!(running.ask("GET", "/v1/audit?limit=1", "").1["records"].as_array().unwrap().len(), 1);
    assert_eq!(running.ask("GET", "/v1/audit?after=1", "").0, 400);
}

#[test]
fn denied_requests_do_not_fill_the_audit_trail() {
    let running = Running::new();
    for (second, message) in [(0, "first"), (0, "lost"), (59, "lost"), (60, "second"), (500, "third")] {
        running.daemon.deny(running.at(second), &"a reader".into(), message);
    }
    let trail = running.daemon.audit_trail(9).unwrap();
    let messages: Vec<_> = trail.records.iter().map(|it| it.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "a reader: first",
            "a reader: second; 2 other requests were denied before, and are not recorded one by one",
            "a reader: third",
        ]
    );
    assert!(trail.records.iter().all(|it| it.by == Actor::from("a reader") && it.event == "denied"));
}

/// Whoever may change the policy cannot do it so often that the record of his first change goes.
#[test]
fn a_user_who_changes_too_often_is_refused_and_his_first_change_stays_recorded() {
    let running = Running::new();
    let change = |uid| {
        let request = Request {
            method: "POST".to_owned(),
            path: "/v1/policy/confirm".to_owned(),
            query: String::new(),
            host: None,
            acting_for: None,
            body: Vec::new(),
        };
        let by = Actor::Process {
            uid,
            user: None,
            login: None,
            acting_for: None,
            pid: 7,
            command: "curl".to_owned(),
        };
        server::dispatch(&running.daemon, &request, &by).status
    };
    let statuses: Vec<u16> = (0..100).map(|_| change(3_999_999_999)).collect();
    assert!(statuses[..60].iter().all(|status| *status == 409), "nothing waits: {statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 40, "{statuses:?}");
    let trail = running.daemon.audit_trail(u64::MAX).unwrap();
    let events: Vec<_> = trail.records.iter().map(|it| it.event.as_str()).collect();
    assert_eq!((events.len(), events[0], events[60]), (61, "refused", "denied"), "{events:?}");
    assert!(trail.records[60].message.contains("changes the firewall too often"), "{:?}", trail.records[60]);
    assert_eq!(change(0), 409, "root may always");
}

#[test]
fn events_of_rules_are_kept_and_read_without_a_daemon() {
    let running = Running::new();
    filled(&running);
    running.daemon.take_events(running.at(1));
    running.daemon.finish_reports();
    let folder = running.folder.path().join("log");
    let kept = recorder::events(&folder, 2).unwrap();
    assert_eq!(kept.values.iter().map(|event| event.number).collect::<Vec<_>>(), [2, 3]);
    let state = running.folder.path().display().to_string();
    let (status, text) = running.command(&format!("log --kept --state {state}"));
    assert!(status == 0 && text.lines().count() == 3 && text.contains("default-deny"), "{text}");
    let (_, text) = running.command(&format!("log --kept --until 2000-01-01T00:00Z --state {state}"));
    assert_eq!(text, "no such events are kept\n");
    // A daemon was killed while it wrote.
    let mut file = fs::OpenOptions::new().append(true).open(folder.join("events.jsonl")).unwrap();
    file.write_all(b"{\"number\":4,\"at").unwrap();
    let (_, text) = running.command(&format!("log --kept --state {state}"));
    assert!(text.starts_with("1 line cannot be read") && text.lines().count() == 4, "{text}");
}

#[test]
fn a_disk_that_cannot_be_written_is_a_trouble_and_holds_no_change() {
    let running = Running::new();
    let folder = running.folder.path().join("log");
    fs::write(&folder, "in the way").unwrap();
    assert_eq!(running.apply(&usual(), None, 1), Ok(2));
    running.daemon.tick(running.at(2));
    let troubles = running.daemon.status().unwrap().troubles;
    let is_in_trouble =
        |troubles: &[String]| troubles.iter().any(|it| it.starts_with("what happens cannot be recorded in "));
    assert!(is_in_trouble(&troubles), "{troubles:?}");
    // Nothing happens, and nothing is better.
    for second in 3..8 {
        running.daemon.tick(running.at(second));
    }
    let troubles = running.daemon.status().unwrap().troubles;
    assert!(is_in_trouble(&troubles) && !running.log().contains("over: what happens"), "{troubles:?}");
    fs::remove_file(&folder).unwrap();
    // What could not be written last is tried again by itself.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !running.daemon.status().unwrap().troubles.is_empty() {
        assert!(Instant::now() < deadline, "it is not tried again");
        running.daemon.tick(running.at(9));
    }
    let kept = running.daemon.audit_trail(9).unwrap().records;
    assert_eq!(kept.iter().map(|record| record.event.as_str()).collect::<Vec<_>>(), ["applied"]);
    assert!(running.log().contains("over: what happens"), "{}", running.log());
}

/// Who asks for a time learns where memory ends: what was before that is on the disk, and would be missing without a word.
#[test]
fn who_asks_for_a_time_that_memory_has_not_is_told() {
    let running = Running::new();
    filled(&running);
    running.daemon.take_events(running.at(60));
    let said = |since: &str| {
        let (status, text) = running.command(&format!("log --since {since} dport=443"));
        assert_eq!(status, 0, "{text}");
        text.lines().find(|line| line.contains("in memory")).map(str::to_owned)
    };
    // Of three events each is there, so memory is whole since the daemon began.
    let begins =
        "the events in memory begin at 2026-11-20T10:00:00.000Z: --kept shows older ones from the disk";
    for (since, expected) in [
        ("2026-11-20T09:59:59Z", Some(begins)),
        ("2026-11-20T10:00:00Z", None),
        ("2026-11-20T10:00:30Z", None),
    ] {
        assert_eq!(said(since).as_deref(), expected, "{since}");
    }
    // So many that the first are evicted: memory begins with the oldest that is left.
    let many = vec![(Duration::ZERO, Recorded::Event(details("web"))); 16_384];
    running.plane.inside().recorded = many.into_iter().collect();
    running.daemon.take_events(running.at(120));
    let begins =
        "the events in memory begin at 2026-11-20T10:02:00.000Z: --kept shows older ones from the disk";
    for (since, expected) in [("2026-11-20T10:01:00Z", Some(begins)), ("2026-11-20T10:02:00Z", None)] {
        assert_eq!(said(since).as_deref(), expected, "{since}");
    }
    let (_, text) = running.command("log --since 2026-11-20T10:01:00Z --json");
    assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
}
