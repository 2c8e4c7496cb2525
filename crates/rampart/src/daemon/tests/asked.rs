//! Requests over the socket, and commands as they are typed.

use super::*;

/// A body for `PUT /v1/policy`.
fn body(text: &str) -> String {
    json!({ "file": "second.toml", "text": text }).to_string()
}

#[test]
fn requests_over_the_socket_get_the_status_and_the_body_they_should() {
    let running = Running::new();
    filled(&running);
    let changed = format!("{ZONES}{}", rule("web", "service = 'https'"));
    let logging = format!("{ZONES}{}", rule("web", "log = true"));
    let other_size = format!("[settings]\nflows = 2048\n{}", usual());
    let misspelt = usual().replace("'http'", "'htpp'");
    let rows: Vec<(&str, &str, String, u16, &str, Value)> = vec![
        ("GET", "/v1/status", String::new(), 200, "/interfaces/2/zone", json!("out")),
        ("GET", "/v1/status", String::new(), 200, "/flows/open", json!(3)),
        ("GET", "/v1/status", String::new(), 200, "/policy/next_change", json!("2026-11-20T18:00:00Z")),
        ("GET", "/v1/rules", String::new(), 200, "/rules/0/hits", json!(1_234_567)),
        ("GET", "/v1/rules", String::new(), 200, "/rules/1/schedule", json!("day")),
        ("GET", "/v1/drops", String::new(), 200, "/drops/0/reason", json!("out-of-window")),
        ("GET", "/v1/drops", String::new(), 200, "/drops/2", Value::Null),
        ("GET", "/v1/stations", String::new(), 200, "/stations/2/vlan", json!(20)),
        ("GET", "/v1/stations", String::new(), 200, "/stations/0/vlan", Value::Null),
        ("GET", "/v1/stations?vlan=20", String::new(), 400, "/error", json!("/v1/stations takes no `vlan`")),
        ("GET", "/v1/log", String::new(), 200, "/events/2/number", json!(3)),
        ("GET", "/v1/log?after=1&limit=1", String::new(), 200, "/events/0/number", json!(2)),
        ("GET", "/v1/log?after=1&limit=1", String::new(), 200, "/next", json!(2)),
        (
            "GET",
            "/v1/log?after=x",
            String::new(),
            400,
            "/error",
            json!("after=x: after takes the number of an event"),
        ),
        (
            "GET",
            "/v1/log?rule=web",
            String::new(),
            400,
            "/error",
            json!("/v1/log takes `after` and `limit`, no `rule`"),
        ),
        ("GET", "/v1/flows", String::new(), 200, "/matched", json!(3)),
        ("GET", "/v1/flows?limit=1", String::new(), 200, "/flows/1", Value::Null),
        ("GET", "/v1/flows?src=10.0.0.0%2F24&dport=443", String::new(), 200, "/matched", json!(1)),
        (
            "GET",
            "/v1/flows?port=443",
            String::new(),
            400,
            "/error",
            json!(
                "there is no filter `port`; there are: src, dst, host, proto, sport, dport, rule, from, to, zone, state"
            ),
        ),
        (
            "GET",
            "/v1/flows?zone=nowhere",
            String::new(),
            400,
            "/error",
            json!("there is no zone `nowhere`; there are: self, in, out"),
        ),
        (
            "GET",
            "/v1/flows?state=closing",
            String::new(),
            400,
            "/error",
            json!(
                "there is no state of flows `closing`; there are: one-way, two-way, syn-sent, syn-both, syn-received, established, fin, last-ack, time-wait, reset, mapping"
            ),
        ),
        ("GET", "/v1/flows?state=time-wait&from=self", String::new(), 200, "/matched", json!(0)),
        (
            "DELETE",
            "/v1/flows?from=nowhere",
            String::new(),
            400,
            "/error",
            json!("there is no zone `nowhere`; there are: self, in, out"),
        ),
        (
            "GET",
            "/v1/flows?limit=many",
            String::new(),
            400,
            "/error",
            json!("limit=many: limit takes a number of flows"),
        ),
        (
            "DELETE",
            "/v1/flows",
            String::new(),
            400,
            "/error",
            json!("this would end every flow: name a filter, or all=true if that is meant"),
        ),
        (
            "DELETE",
            "/v1/flows?limit=1",
            String::new(),
            400,
            "/error",
            json!(
                "there is no filter `limit`; there are: src, dst, host, proto, sport, dport, rule, from, to, zone, state"
            ),
        ),
        ("GET", "/v1/status?src=::1", String::new(), 400, "/error", json!("/v1/status takes no `src`")),
        ("DELETE", "/v1/flows?rule=lessons", String::new(), 200, "/killed", json!(1)),
        ("DELETE", "/v1/flows?rule=lessons", String::new(), 200, "/killed", json!(0)),
        ("POST", "/v1/flows", String::new(), 405, "/error", json!("/v1/flows takes GET, DELETE, not POST")),
        (
            "GET",
            "/v1/nothing",
            String::new(),
            404,
            "/error",
            json!("there is no /v1/nothing: docs/schema/rampart-api.json lists what there is"),
        ),
        (
            "PUT",
            "/v1/policy",
            "{".to_owned(),
            400,
            "/error",
            json!("the body is no policy to apply: EOF while parsing an object at line 1 column 1"),
        ),
        (
            "PUT",
            "/v1/policy",
            json!({ "file": "x", "text": "", "confirm_seconds": 0 }).to_string(),
            400,
            "/error",
            json!("confirm_seconds: 1 to 86400, or leave it out"),
        ),
        ("PUT", "/v1/policy", body(&misspelt), 422, "/problems/0/line", json!(12)),
        (
            "PUT",
            "/v1/policy",
            body(&logging),
            422,
            "/problems/0/message",
            json!("the rule `web`: this data plane cannot log"),
        ),
        ("PUT", "/v1/policy", body(&logging), 422, "/problems/0/line", json!(8)),
        ("PUT", "/v1/policy", body(&logging), 422, "/problems/0/column", json!(8)),
        (
            "PUT",
            "/v1/policy",
            body(&other_size),
            409,
            "/error",
            json!(
                "second.toml: `flows` of [settings] is 2048, and the firewall was started with 1048576, which it cannot change while it runs: leave it, or `rampart down` and `rampart up second.toml` (flows are lost)"
            ),
        ),
        ("GET", "/v1/status", String::new(), 200, "/policy/generation", json!(1)),
        (
            "PUT",
            "/v1/policy",
            body(&changed),
            200,
            "/changes",
            json!({
                "added": [], "removed": ["lessons"], "changed": [{ "name": "web", "keys": ["service"] }],
                "reordered": false, "zones": false, "defaults": false, "settings": false,
            }),
        ),
        ("GET", "/v1/status", String::new(), 200, "/policy/file", json!("second.toml")),
        (
            "POST",
            "/v1/policy/confirm",
            String::new(),
            409,
            "/error",
            json!(
                "no policy waits to be confirmed: it was applied without --confirm, or has gone back already"
            ),
        ),
        ("POST", "/v1/down", String::new(), 200, "/detached", json!(["e1", "e0", "e2"])),
        ("POST", "/v1/down", String::new(), 503, "/error", json!("the firewall is being taken down")),
        ("GET", "/v1/status", String::new(), 503, "/error", json!("the firewall is being taken down")),
    ];
    let document = description();
    for (method, target, body, status, pointer, expected) in rows {
        let (found, answer) = running.ask(method, target, &body);
        assert_eq!(found, status, "{method} {target}: {answer}");
        assert_eq!(answer.pointer(pointer).unwrap_or(&Value::Null), &expected, "{method} {target}: {answer}");
        holds_to(&document, method, target, status, &answer);
    }
    assert!(running.plane.inside().attached.is_empty());
}

/// An answer is what the OpenAPI description says.
fn holds_to(document: &Value, method: &str, target: &str, status: u16, answer: &Value) {
    let path = target.split('?').next().unwrap_or_default().replace('/', "~1");
    let pointer = format!(
        "/paths/{path}/{}/responses/{status}/content/application~1json/schema",
        method.to_lowercase()
    );
    let Some(schema) = document.pointer(&pointer) else {
        assert!(matches!(status, 404 | 405), "{method} {target} {status} is not described");
        return;
    };
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let faults: Vec<String> = validator.iter_errors(answer).map(|e| e.to_string()).collect();
    assert!(faults.is_empty(), "{method} {target}: {faults:?}");
}

#[test]
fn the_older_path_of_flows_is_answered_the_same_way() {
    let running = Running::new();
    filled(&running);
    for method in ["GET", "DELETE", "POST"] {
        let ask = |path: &str| running.ask(method, &format!("{path}?rule=web"), "").0;
        assert_eq!(ask("/v1/sessions"), ask("/v1/flows"), "{method}");
    }
    filled(&running);
    assert_eq!(running.ask("GET", "/v1/sessions", "").1, running.ask("GET", "/v1/flows", "").1);
    assert_eq!(running.command("sessions").1, running.command("flows").1);
}

#[test]
fn commands_say_what_they_should_and_end_as_they_should() {
    let running = Running::new();
    filled(&running);
    let wider = running.file("wider.toml", &format!("{}{}", usual(), rule("mail", "service = 'smtp'")));
    let wrong = running.file("wrong.toml", &usual().replace("'http'", "'htpp'"));
    let logging = running.file("logging.toml", &format!("{ZONES}{}", rule("web", "log = true")));
    let rows: Vec<(String, u8, Vec<String>)> = vec![
        (
            "status".into(),
            0,
            vec![
                "process 4711, namespace test, up since 2026-11-20T10:00:00Z".into(),
                "policy     first.toml: 2 rules, generation 1, applied at 2026-11-20T10:00:00Z".into(),
                "a schedule begins or ends at 2026-11-20T18:00:00Z".into(),
                "interface  e1: zone in, tc\n".into(),
                "flows      3 of 1,048,576, 0 of them half-open, 0 unanswered\n".into(),
                "counted    1,000  forwarded  what it is\n".into(),
            ],
        ),
        (
            "rules".into(),
            0,
            vec!["     hits  rule     action  from  to   source  destination  service\n1,234,567  web      allow   in    out  any     any          http, https  4,321 beyond its limit\n".into()],
        ),
        (
            "flows dport=443".into(),
            0,
            vec!["tcp       10.0.0.1:40000  192.0.2.7:443  in > out  web   established    3s   2h3min        5  1,234     4  56,789\n1 flow\n".into()],
        ),
        ("flows dport=9".into(), 0, vec!["0 flows\n".into()]),
        (
            "log".into(),
            0,
            vec![
                "7 events were suppressed: there were more than `log_rate` of `[settings]` allows\n".into(),
                "Z opened   web  tcp 10.0.0.5:40000 > [2001:db8::1]:443  in > out\n".into(),
                "Z refused  (default)  tcp 10.0.0.5:40000 > [2001:db8::1]:443  in > ?  default-deny\n".into(),
                "in > out  time-wait after 4min, 6 packets and 1,395 bytes, 5 and 783 back\n".into(),
            ],
        ),
        ("log event=closed dport=443 --json".into(), 0, vec!["\"event\": \"closed\"".into()]),
        ("log reason=default-deny --limit 1".into(), 0, vec!["default-deny\n".into()]),
        ("log rule=none".into(), 0, vec!["7 events were suppressed".into()]),
        ("log event=denied".into(), 2, vec!["rampart: event=denied: event takes opened, refused".into()]),
        ("log --limit 1 --json".into(), 0, vec!["\"next\": 3,".into(), "\"event\": \"closed\"".into()]),
        ("log --since 1h event=opened".into(), 0, vec!["Z opened   web".into()]),
        (
            "log --since 2000-01-01T00:00Z event=opened".into(),
            0,
            vec![
                "the events in memory begin at 2026-11-20T10:00:00.000Z: --kept shows older ones from the disk\n7 events".into(),
                "Z opened   web".into(),
            ],
        ),
        ("log --until 1h --json".into(), 0, vec!["\"events\": []".into(), "\"next\": 3,".into()]),
        ("log --audit --until 2000-01-01T00:00Z".into(), 0, vec!["nobody changed the firewall then\n".into()]),
        ("flows --limit 1".into(), 0, vec!["3 flows, 2 of them not shown: --all".into()]),
        ("flows --all".into(), 0, vec!["\n3 flows\n".into()]),
        ("flows 443".into(), 2, vec!["rampart: `443` is no filter: write KEY=VALUE".into()]),
        ("flows --kill".into(), 2, vec!["ends every flow: name a filter, or add --all".into()]),
        ("flows --kill src=10.1.0.0/16".into(), 0, vec!["1 flow ended\n".into()]),
        ("flows --kill --all --json".into(), 0, vec!["{\n  \"killed\": 2\n}\n".into()]),
        (
            "drops".into(),
            0,
            vec!["packets  no.  reason\n     40    9  out-of-window  what it means\n      2    7  rule           what it means\n".into()],
        ),
        (
            "stations".into(),
            0,
            vec![
                "bridge  VLAN  station            interface  last heard  there for  moved\n".into(),
                "office     -  02:00:5e:10:00:01  e1                 1s       2min  -\n".into(),
                "office     -  02:00:5e:10:00:02  e1                 2s       2min  from e2\n".into(),
                "office    20  02:00:5e:10:00:03  e1                 3s       2min  was elsewhere, too\n3 stations\n".into(),
            ],
        ),
        ("drops --json".into(), 0, vec!["\"number\": 9".into()]),
        ("top --once --interval 0.1".into(), 0, vec!["generation 1: 0 flows (+0/s)".into(), "0 half-open, 0 unanswered, 1,048,576 fit\n".into(), "nothing happened".into()]),
        ("top --once --interval 0.1 --json".into(), 0, vec!["\"rules\": []".into()]),
        (format!("apply {wrong}"), 2, vec![format!("{wrong}:12:12: there is no service `htpp`"), "did you mean `http`".into(), "\n1 error".into()]),
        (format!("apply {logging}"), 2, vec![format!("{logging}:8:8: the rule `web`: this data plane cannot log\n  take `log` out\n1 error")]),
        ("apply /nonexistent.toml".into(), 2, vec!["rampart: cannot read /nonexistent.toml".into()]),
        (format!("apply {wider}"), 0, vec![format!("{wider} is in force as generation 2, 3 rules\n+ mail\n")]),
        (format!("apply {wider}"), 0, vec!["nothing is different\n".into()]),
        ("confirm".into(), 2, vec!["rampart: no policy waits to be confirmed".into()]),
        (format!("apply {wider} --confirm 60"), 0, vec!["unless `rampart confirm` comes\n".into()]),
        ("status".into(), 0, vec!["goes back to the policy before it at ".into()]),
        ("confirm --json".into(), 0, vec!["\"generation\": 4".into()]),
    ];
    for (words, status, expected) in rows {
        let (found, text) = running.command(&words);
        assert_eq!(found, status, "{words}: {text}");
        for expected in expected {
            assert!(text.contains(&expected), "{words}: {expected:?} in\n{text}");
        }
    }
}

#[test]
fn a_machine_that_fails_is_reported_as_such() {
    let running = Running::new();
    running.plane.inside().broken = Some("the kernel is tired: let it rest".to_owned());
    for words in ["status", "rules", "flows", "stations", "drops", "log", "top --once"] {
        let expected = (3, "rampart: the kernel is tired: let it rest".to_owned());
        assert_eq!(running.command(words), expected, "{words}");
    }
    running.daemon.tick(running.at(1));
    running.daemon.tick(running.at(2));
    assert_eq!(
        running.log().matches("trouble: the kernel is tired: let it rest").count(),
        1,
        "{}",
        running.log()
    );
    running.plane.inside().broken = None;
    assert!(running.ask("GET", "/v1/status", "").1["troubles"][0].is_string());
    running.daemon.tick(running.at(3));
    assert_eq!(running.ask("GET", "/v1/status", "").1["troubles"], json!([]));
}

#[test]
fn what_is_alarming_is_reported_once_and_shown_as_long_as_it_stands() {
    let running = Running::new();
    filled(&running);
    running.plane.inside().faults = vec!["the interface `e1` is gone".to_owned()];
    running.daemon.tick(running.at(1));
    running.daemon.tick(running.at(2));
    let expected = ["the interface `e1` is gone", "packets are dropped, out-of-window: what it means"];
    for trouble in expected {
        assert_eq!(running.log().matches(&format!("trouble: {trouble}")).count(), 1, "{}", running.log());
    }
    assert_eq!(running.ask("GET", "/v1/status", "").1["troubles"], json!(expected));
    assert!(running.command("status").1.contains("trouble    the interface `e1` is gone\n"));
    running.plane.inside().faults.clear();
    running.daemon.tick(running.at(62));
    assert_eq!(running.ask("GET", "/v1/status", "").1["troubles"], json!([]));
}

#[test]
fn an_alert_is_reported_when_it_is_raised_and_when_it_is_over() {
    let running = Running::new();
    let record = |second, count| {
        let recorded = Recorded::Alert(reading("web", 1, u64::from(second), count));
        running.plane.inside().recorded.push((Duration::ZERO, recorded));
        running.daemon.take_events(running.at(second));
    };
    record(1, 12);
    record(2, 40);
    assert_eq!(running.log().matches("alert: web: 12 within 1min from 10.0.0.1, more than 10\n").count(), 1);
    assert!(
        running
            .command("status")
            .1
            .contains("\nalert      web: 40 within 1min from 10.0.0.1, more than 10, since ")
    );
    assert_eq!(running.ask("GET", "/v1/status", "").1["alerts"][0]["threshold"], 10);
    running.daemon.take_events(running.at(110));
    assert!(
        running.log().contains("over: web: 6 within 1min from 10.0.0.1, no more than 10\n"),
        "{}",
        running.log()
    );
    assert_eq!(running.ask("GET", "/v1/status", "").1["alerts"], json!([]));
    let events = running.ask("GET", "/v1/log", "").1;
    let names: Vec<_> = events["events"].as_array().unwrap().iter().map(|event| &event["event"]).collect();
    assert_eq!(names, ["alert", "over"]);
}

#[test]
fn whatever_a_client_sends_it_goes_on_answering() {
    let running = Running::new();
    for bytes in [
        "",
        "\0\0\0\0",
        "GET\r\n\r\n",
        "PUT /v1/policy HTTP/1.1\r\nContent-Length: 5\r\n\r\n{",
        "GET /v1/sta",
    ] {
        let mut stream = UnixStream::connect(&running.instance.socket).unwrap();
        stream.write_all(bytes.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let expected = if bytes.is_empty() { None } else { Some(400) };
        assert_eq!(read_response(&mut stream).ok().map(|response| response.status), expected, "{bytes}");
    }
    // One that says nothing keeps nobody else waiting.
    let _idle: Vec<UnixStream> =
        (0..10).map(|_| UnixStream::connect(&running.instance.socket).unwrap()).collect();
    assert_eq!(running.ask("GET", "/v1/status", "").0, 200);
}

#[test]
fn nobody_at_the_socket_is_reported_with_what_to_do() {
    let running = Running::new();
    running.instance.remove_sockets();
    let (status, text) = running.command("status");
    assert!(status == 3 && text.contains("no firewall runs here (there is no /"), "{text}");
    drop(std::os::unix::net::UnixListener::bind(&running.instance.socket).unwrap());
    let (status, text) = running.command("rules");
    assert!(status == 3 && text.contains("nobody answers on /"), "{text}");
}

#[test]
fn clients_that_say_nothing_keep_no_place_from_those_to_come() {
    let running = Running::new();
    let connect = || UnixStream::connect(&running.instance.socket).unwrap();
    let mut silent: Vec<UnixStream> = (0..32).map(|_| connect()).collect();
    // There is no place left, and whoever comes is refused at once.
    let mut turned_away = connect();
    assert_eq!(read_response(&mut turned_away).unwrap().status, 503);
    // A place that is given back is taken.
    silent.pop();
    let again = || {
        let mut stream = connect();
        // The answer may have been there before the question.
        let _ = write_request(&mut stream, "GET", "/v1/status", b"");
        read_response(&mut stream).is_ok_and(|response| response.status == 200)
    };
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !again() {
        assert!(std::time::Instant::now() < deadline, "the place stays taken");
        std::thread::yield_now();
    }
}

#[test]
fn bodies_are_read_where_one_is_taken_and_no_larger_than_a_policy() {
    let running = Running::new();
    for (method, target, length, status) in [
        ("GET", "/v1/status", 2 << 20, 413),
        ("POST", "/v1/confirm", 2 << 20, 413),
        ("PUT", "/v1/nothing", 2 << 20, 413),
        ("PUT", "/v1/policy", 257_usize << 20, 413),
    ] {
        let mut stream = UnixStream::connect(&running.instance.socket).unwrap();
        let head = format!("{method} {target} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        // Refused by its head: none of the body was sent.
        assert_eq!(read_response(&mut stream).unwrap().status, status, "{method} {target}");
    }
}

#[test]
fn a_file_with_a_newline_forges_no_entry() {
    let running = Running::new();
    let new = NewPolicy {
        file: "p.toml\n2026-11-20T10:00:00.000Z confirmed: generation 9, by user 0".to_owned(),
        folder: None,
        text: usual(),
        confirm_seconds: None,
    };
    running.daemon.apply(&new, running.at(1), &"a test".into()).unwrap();
    let log = running.log();
    assert!(
        log.lines().all(|line| !line.contains(" confirmed: generation 9") || line.contains("applied: ")),
        "{log}"
    );
    assert!(log.contains("applied: p.toml\\n2026-11-20"), "{log}");
}
