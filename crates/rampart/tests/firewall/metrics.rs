//! Metrics of a firewall as it runs, over TCP, with the rights that its daemon has.

use crate::WEB;
use crate::bed::{Bed, Outcome, until};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use testkit::namespace::Background;

const DASHBOARD: &str = include_str!("../../../../examples/grafana/rampart.json");
/// Who reads, where, and where others are asked what was read.
const TARGET: &str = "10.81.1.1:9469";
const PROMETHEUS: &str = "127.0.0.1:9090";

#[test]
fn needs_root_prometheus_reads_what_the_firewall_counts() {
    let bed = Bed::new();
    bed.serve(8080);
    bed.ip("fw", &["link", "set", "lo", "up"]);
    let policy = bed.policy("p.toml", WEB);
    let (status, text) = bed.rampart(&["up", &policy, "--metrics", "10.81.1.1:9469"]);
    assert!(status == 2 && text.contains("no rule lets anybody read metrics at 10.81.1.1:9469"), "{text}");
    let _firewall = bed.up_with(&[&policy, "--metrics", "127.0.0.1:9469"]);
    bed.expect(8080, Outcome::Answered, "a hit");
    let answer = bed.inside("fw", || {
        let mut stream = TcpStream::connect("127.0.0.1:9469").unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9469\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"),
        "{answer:.200}"
    );
    for line in [
        "\nrampart_rule_hits_total{rule=\"web\",action=\"allow\"} 1\n",
        "\nrampart_interface_attached{interface=\"e0\",zone=\"outside\",hook=\"tc\"} 1\n",
        "\nrampart_flows_open 1\n",
        "\nrampart_counted_total{counter=\"forwarded\"} ",
    ] {
        assert!(answer.contains(line), "{line}: {answer}");
    }
    let on_the_socket = bed.rampart(&["metrics"]).1;
    assert!(on_the_socket.contains("\nrampart_policy_rules 1\n"), "{on_the_socket}");
}

/// Prometheus on the host inside, which reads every second.
fn prometheus(bed: &Bed) -> Background {
    let folder = bed.folder.path();
    let config = folder.join("prometheus.yml").display().to_string();
    let target = format!("static_configs: [{{targets: ['{TARGET}']}}]");
    fs::write(
        &config,
        format!("scrape_configs:\n  - {{job_name: rampart, scrape_interval: 1s, {target}}}\n"),
    )
    .unwrap();
    bed.host("in").run("promtool", &["check", "config", &config]);
    let words = [
        format!("--config.file={config}"),
        format!("--storage.tsdb.path={}", folder.join("prometheus").display()),
        format!("--web.listen-address={PROMETHEUS}"),
        "--log.level=warn".to_owned(),
    ];
    Background::start(bed.host("in"), "prometheus", &words.each_ref().map(String::as_str))
}

/// What Prometheus answers, once it answers.
fn ask(bed: &Bed, path: &str, parameter: &str) -> Value {
    let url = format!("http://{PROMETHEUS}/api/v1/{path}");
    let retry = ["-sSG", "--retry", "60", "--retry-connrefused", "--retry-delay", "1"];
    let words = [&retry[..], &["--data-urlencode", parameter, &url]].concat();
    let text = bed.host("in").run("curl", &words);
    serde_json::from_str(&text).unwrap_or_else(|why| panic!("{parameter}: {why}: {text}"))
}

/// The series that an expression finds now.
fn series(bed: &Bed, expression: &str) -> Vec<Value> {
    let answer = ask(bed, "query", &format!("query={expression}"));
    assert_eq!(answer["status"], "success", "{expression}: {answer}");
    answer["data"]["result"].as_array().unwrap().clone()
}

/// Waits until Prometheus has this value of the only series of an expression.
fn until_value(bed: &Bed, expression: &str, wanted: u64) {
    let wanted = wanted.to_string();
    until(&format!("{expression} is {wanted}"), || {
        let seen = series(bed, expression);
        matches!(&seen[..], [one] if one["value"][1].as_str() == Some(&wanted))
    });
}

/// What Grafana would ask: its variables have their values, and a rate is one of four readings.
fn dashboard_expressions(instance: &str) -> Vec<String> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let variable = &dashboard["templating"]["list"][1];
    assert_eq!(variable["query"], "label_values(rampart_info, instance)");
    let instance = instance.replace('.', "\\\\.");
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let expressions: Vec<String> = targets
        .map(|target| target["expr"].as_str().unwrap())
        .map(|text| text.replace("$instance", &instance).replace("$__rate_interval", "4s"))
        .collect();
    assert!(expressions.iter().all(|text| !text.contains('$')), "{expressions:?}");
    expressions
}

/// Prometheus of the distribution reads a firewall that forwards: it has what `status` says, and each expression of the dashboard finds series.
#[test]
fn needs_root_prometheus_of_the_distribution_has_what_status_says_and_the_dashboard_asks_it() {
    let bed = Bed::new();
    bed.serve(8080);
    let list = bed.folder.path().join("bad.txt");
    fs::write(&list, "203.0.113.0/24\n").unwrap();
    let policy = format!(
        "[lists.bad]\nfile = '{}'\nblock = 'both'\n{WEB}[[rules]]\nname = 'prometheus'\nfrom = 'inside'\nto = 'self'\n\
         source = '10.81.1.2'\nservice = 'tcp/9469'\naction = 'allow'\n",
        list.display()
    );
    let _prometheus = prometheus(&bed);
    let _firewall = bed.up_with(&[&bed.policy("p.toml", &policy), "--metrics", TARGET]);
    bed.expect(8080, Outcome::Answered, "a hit");
    bed.expect(2525, Outcome::Silence, "a drop");
    until_value(&bed, "up{job='rampart'}", 1);
    let status = bed.json(&["status"]);
    for (expression, wanted) in [
        ("rampart_rule_hits_total{rule='web'}", 1),
        ("rampart_counted_total{counter='forwarded'}", bed.counted("forwarded")),
        ("rampart_dropped_packets_total{reason='default-deny'}", bed.dropped("default-deny")),
        ("rampart_flows_capacity", status["flows"]["capacity"].as_u64().unwrap()),
        ("rampart_list_ipv4_addresses{list='bad'}", 256),
    ] {
        until_value(&bed, expression, wanted);
    }
    let instances = ask(&bed, "label/instance/values", "match[]=rampart_info");
    assert_eq!(instances["data"], json!([TARGET]), "{instances}");
    for expression in dashboard_expressions(TARGET) {
        until(&format!("{expression} finds series"), || !series(&bed, &expression).is_empty());
    }
    let text = bed.folder.path().join("metrics.txt");
    fs::write(&text, bed.rampart(&["metrics"]).1).unwrap();
    let check = format!("promtool check metrics < {}", text.display());
    assert_eq!(bed.host("in").run("sh", &["-c", &check]), "");
}
