//! Metrics, on the socket and over TCP, and the dashboard that asks for them.

use super::*;
use crate::daemon::scrapes;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

const DASHBOARD: &str = include_str!("../../../../../examples/grafana/rampart.json");
/// A rule whose name would end a label, and a line.
const HOSTILE: &str = "we\\\"b";

/// Samples by name and labels, of a text that is held to the format: every metric has one HELP and one TYPE before its samples, a counter's name ends
/// as it should, and no sample comes twice.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let (mut samples, mut types, mut current) = (BTreeMap::new(), BTreeMap::new(), String::new());
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(!help.is_empty() && !types.contains_key(name), "{line}");
            current = name.to_owned();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(name == current && ["counter", "gauge"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            types.insert(name.to_owned(), kind.to_owned());
        } else {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = sample.split_once('{').unwrap_or((sample, "}"));
            assert!(name == current && types.contains_key(name), "{line}");
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'), "{line}");
            check_labels(labels);
            assert_eq!(samples.insert(sample.to_owned(), value.parse().unwrap()), None, "{line}: twice");
        }
    }
    for name in types.into_keys() {
        samples.entry(name).or_insert(f64::NAN);
    }
    samples
}

/// `name="value",...}`, with quotes, backslashes and newlines escaped.
fn check_labels(text: &str) {
    let mut rest = text;
    while rest != "}" {
        let (name, after) = rest.split_once("=\"").unwrap();
        assert!(name.chars().all(|c| c.is_ascii_lowercase()), "{text}");
        let mut escaped = false;
        let end = after.find(|c| {
            let ends = c == '"' && !escaped;
            assert!(!escaped || matches!(c, '"' | '\\' | 'n'), "{text}");
            escaped = c == '\\' && !escaped;
            ends
        });
        let after = &after[end.unwrap() + 1..];
        rest = after.strip_prefix(',').unwrap_or(after);
    }
}

fn measured(running: &Running) -> BTreeMap<String, f64> {
    let (status, text) = running.command("metrics");
    assert_eq!(status, 0, "{text}");
    samples(&text)
}

#[test]
fn metrics_say_what_the_other_commands_say() {
    let running = Running::new();
    filled(&running);
    running.plane.inside().drops.push(Dropped {
        number: 99,
        reason: HOSTILE.to_owned(),
        explanation: String::new(),
        packets: 3,
        alarming: false,
    });
    running.daemon.tick(running.at(1));
    let found = measured(&running);
    for (sample, value) in [
        ("rampart_info{version=\"0.1.0\",namespace=\"test\"}", 1.0),
        ("rampart_policy_generation", 1.0),
        ("rampart_policy_rules", 2.0),
        ("rampart_policy_waiting", 0.0),
        ("rampart_start_time_seconds", 1_795_168_800.0),
        ("rampart_interface_attached{interface=\"e1\",zone=\"in\",hook=\"tc\"}", 1.0),
        ("rampart_flows_open", 3.0),
        ("rampart_flows_capacity", 1_048_576.0),
        ("rampart_counted_total{counter=\"forwarded\"}", 1_000.0),
        ("rampart_counted_total{counter=\"nothing\"}", 0.0),
        ("rampart_dropped_packets_total{reason=\"out-of-window\"}", 40.0),
        ("rampart_dropped_packets_total{reason=\"we\\\\\\\"b\"}", 3.0),
        ("rampart_rule_hits_total{rule=\"web\",action=\"allow\"}", 1_234_567.0),
        ("rampart_rule_hits_total{rule=\"lessons\",action=\"allow\"}", 0.0),
        ("rampart_rule_limited_packets_total{rule=\"web\"}", 4_321.0),
        ("rampart_rules_hits_total", 1_234_567.0),
        ("rampart_rules_left_out", 0.0),
        ("rampart_log_events_total", 3.0),
        ("rampart_log_suppressed_events_total", 7.0),
        ("rampart_troubles", 1.0),
        ("rampart_alerts", 0.0),
    ] {
        assert_eq!(found.get(sample), Some(&value), "{sample}: {found:#?}");
    }
    assert!((0.0..60.0).contains(&found["rampart_sweep_age_seconds"]));
    assert!(found["process_resident_memory_bytes"] > 1e6 && found["process_open_fds"] > 2.0);
    assert!(running.command("metrics --json").1.contains("# HELP rampart_flows_open "));
}

#[test]
fn a_policy_that_waits_lists_and_many_rules_have_their_metrics() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("bad.txt"), "192.0.2.0/30\n").unwrap();
    let list =
        format!("{}[lists.bad]\nfile = '{}/bad.txt'\nblock = 'both'\n", usual(), folder.path().display());
    let running = Running::new();
    running.apply(&list, Some(60), 1).unwrap();
    running.plane.inside().hits = [("list:bad".to_owned(), 5)].into();
    let found = measured(&running);
    assert_eq!(
        (found["rampart_policy_waiting"], found["rampart_list_ipv4_addresses{list=\"bad\"}"]),
        (1.0, 4.0)
    );
    assert_eq!(found["rampart_list_trouble{list=\"bad\"}"], 0.0);
    assert!(
        found["rampart_list_read_time_seconds{list=\"bad\"}"] > 1e9
            && found["rampart_lists_kernel_bytes"] > 0.0
    );
    let rules: String = (0..10_001).map(|n| rule(&format!("r{n}"), "source = '10.0.0.1'")).collect();
    let many = Running::with(&format!("{ZONES}{rules}"), "2026-11-20T10:00:00Z");
    let found = measured(&many);
    assert_eq!((found["rampart_rules_left_out"], found["rampart_policy_rules"]), (10_001.0, 10_001.0));
    assert!(found["rampart_rule_hits_total"].is_nan(), "it is named, and has no samples");
}

/// An answer is given again for a second, so that whoever asks often makes no work; and not after the firewall is down.
#[test]
fn many_questions_are_one_look() {
    let running = Running::new();
    let at = |seconds| {
        running.daemon.metrics(running.at(seconds)).map(|text| text.contains("rampart_flows_open 3\n"))
    };
    assert_eq!(at(10), Ok(false));
    filled(&running);
    assert_eq!((at(10), at(11)), (Ok(false), Ok(true)));
    running.daemon.down(running.start.wall, &"a test".into()).unwrap();
    assert_eq!(at(11).map_err(|refused| refused.status), Err(503));
}

fn scrape(address: SocketAddr, request: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).unwrap();
    // Who is turned away may find the connection closed already.
    let _ = stream.write_all(request.as_bytes());
    let response = read_response(&mut stream).ok()?;
    Some((response.status, String::from_utf8(response.body).unwrap()))
}

#[test]
fn over_tcp_there_are_metrics_and_nothing_else_and_slow_readers_keep_nobody_from_the_firewall() {
    let running = Running::new();
    filled(&running);
    let policy = Policy::parse("p", &usual()).unwrap();
    let names = ["fw.example".to_owned()];
    let listening = scrapes::listen("127.0.0.1:0".parse().unwrap(), &names, &policy).unwrap();
    let address = listening.listener.local_addr().unwrap();
    scrapes::serve(listening, &running.daemon);
    let good = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    let (status, text) = scrape(address, good).unwrap();
    assert_eq!((status, samples(&text)["rampart_flows_open"]), (200, 3.0));
    for (request, status) in [
        ("GET /v1/status HTTP/1.1\r\n\r\n", 404),
        ("PUT /v1/policy HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 404),
        ("POST /v1/down HTTP/1.1\r\n\r\n", 404),
        ("POST /metrics HTTP/1.1\r\n\r\n", 405),
        ("GET /metrics HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 413),
        ("GET /metrics HTTP/9\r\n\r\n", 400),
        ("hello\r\n\r\n", 400),
        ("GET /metrics HTTP/1.1\r\nHost: fw.example:9469\r\n\r\n", 200),
        ("GET /metrics HTTP/1.1\r\nHost: localhost:9469\r\n\r\n", 200),
        // A page of somebody else whose name leads here since it was loaded.
        ("GET /metrics HTTP/1.1\r\nHost: evil.example:9469\r\n\r\n", 421),
        ("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n", 421),
        ("GET /metrics HTTP/1.1\r\n\r\n", 421),
    ] {
        // A body that nobody has read may take the answer with it.
        assert!(scrape(address, request).is_none_or(|(found, _)| found == status), "{request}");
    }
    assert_eq!(running.plane.inside().generation, 1);
    // All places are taken by some who say nothing: others are turned away, and the firewall's own socket answers.
    let mut silent: Vec<TcpStream> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(running.ask("GET", "/v1/status", "").0, 200);
    assert_eq!(running.command("metrics").0, 0);
    let deadline = Instant::now() + Duration::from_secs(60);
    while scrape(address, good).is_some() {
        assert!(Instant::now() < deadline, "nobody is turned away");
        // On a slow machine their time may be over.
        silent.drain(..8);
        silent.extend((0..8).map(|_| TcpStream::connect(address).unwrap()));
    }
    // Places that are given back are taken.
    drop(silent);
    let deadline = Instant::now() + Duration::from_secs(60);
    while scrape(address, good).is_none_or(|(status, _)| status != 200) {
        assert!(Instant::now() < deadline, "the places stay taken");
        std::thread::yield_now();
    }
    running.daemon.down(running.start.wall, &"a test".into()).unwrap();
    assert_eq!(scrape(address, good).unwrap().0, 503);
}

#[test]
fn an_address_that_others_reach_takes_a_rule_that_lets_them_in() {
    let rule = |more: &str| {
        format!(
            "{ZONES}[[rules]]\nname = 'x'\nfrom = 'in'\nto = 'self'\nservice = 'tcp/9469'\naction = 'allow'\n{more}"
        )
    };
    let reason = |address: &str, policy: &str| {
        let policy = Policy::parse("p", policy).unwrap();
        scrapes::listen(address.parse().unwrap(), &[], &policy)
            .err()
            .map(|why| why.to_string())
            .unwrap_or_default()
    };
    // 192.0.2.1 is no address of this machine.
    for (address, policy, why) in [
        ("192.0.2.1:9469", usual(), "no rule lets anybody read metrics at 192.0.2.1:9469"),
        ("0.0.0.0:9469", usual(), "no rule lets anybody"),
        ("[::]:9469", usual(), "no rule lets anybody"),
        ("192.0.2.1:9470", rule(""), "write one that allows `tcp/9470` to `self`"),
        ("192.0.2.1:9469", rule("enabled = false\n"), "no rule lets anybody"),
        ("192.0.2.1:9469", rule("").replace("'allow'", "'deny'"), "no rule lets anybody"),
        ("192.0.2.1:9469", rule("").replace("to = 'self'", "to = 'out'"), "no rule lets anybody"),
        ("192.0.2.1:9469", rule(""), "cannot listen for readers of metrics on 192.0.2.1:9469"),
    ] {
        let found = reason(address, &policy);
        assert!(found.contains(why), "{address}: {found}");
    }
    assert_eq!(reason("[::1]:0", &usual()) + &reason("127.0.0.1:0", &usual()), "");
}

/// Every metric that the dashboard asks for is there.
#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let running = Running::new();
    let known: BTreeSet<String> =
        measured(&running).into_keys().map(|sample| sample.split('{').next().unwrap().to_owned()).collect();
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut asked = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(panel["title"].is_string() && panel["gridPos"]["w"].is_number(), "{panel}");
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let names: Vec<&str> =
                words.filter(|word| word.starts_with("rampart_") || word.starts_with("process_")).collect();
            assert!(!names.is_empty(), "{expression}");
            for name in names {
                assert!(known.contains(name), "{expression}: there is no {name}");
                assert!(
                    !name.ends_with("_total") || expression.contains("rate("),
                    "{expression}: a counter by itself"
                );
                asked.insert(name.to_owned());
            }
        }
    }
    assert!(asked.len() > 12, "{asked:?}");
}
