//! A gateway of DNS of a running firewall, between dig on both sides and dnsmasq outside: who is inside and who is outside know other addresses of one
//! name, by datagrams and by TCP.

use crate::bed::{Bed, OUTSIDE, until};
use crate::http_gateway::{gateway, kill, worker};
use serde_json::Value;
use std::fs;
use std::process::Command;
use testkit::namespace::Background;

const POLICY: &str = "\
    [gateways.names]\nprotocol = 'dns'\nlisten = '10.81.2.1:53'\nforward_to = '10.81.2.2'\nlocal = 'example.lan'\n\
    [[gateways.names.views]]\nsource = '10.81.1.0/24'\nfile = ['hosts', 'hosts.pub']\n\
    [[gateways.names.views]]\nfile = 'hosts.pub'\n\
    [[gateways.names.rules]]\nname = 'no-ads'\naction = 'deny'\nhosts = '*.ads.test'\nhosts_file = 'blocked'\n\
    [[gateways.names.rules]]\nname = 'lan'\naction = 'allow'\nsource = '10.81.1.0/24'\nlog = true\n\
    [[gateways.names.rules]]\nname = 'published'\naction = 'allow'\nhosts = ['example.lan', '*.example.lan']\n\
    [[rules]]\nname = 'questions'\nfrom = ['inside', 'outside']\nto = 'self'\nservice = 'dns'\naction = 'allow'\n\
    [[rules]]\nname = 'forwarded'\nfrom = 'self'\nto = 'outside'\nservice = 'dns'\naction = 'allow'\n";
const HOSTS: &str = "10.81.1.5 www.example.lan www\n10.81.1.6 db.example.lan\n";
const BLOCKED: &str = "127.0.0.1 localhost\n0.0.0.0 tracker.test # of a list\n";
const PUBLISHED: &str = "203.0.113.5 www.example.lan\n203.0.113.25 mail.example.lan\n";

/// dig on a host: the response code, flags, and what was answered.
pub(crate) fn dig(bed: &Bed, host: &str, words: &str) -> String {
    let namespace = bed.namespace(host);
    let fixed = ["netns", "exec", &namespace, "dig", "@10.81.2.1", "+tries=1", "+time=8"];
    let done = Command::new("ip").args(fixed).args(words.split_whitespace()).output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let between =
        |before: &str, after: &str| Some(text.split_once(before)?.1.split_once(after)?.0.to_owned());
    let Some(code) = between("status: ", ",") else { return "nothing".to_owned() };
    let is_cut = text.contains("Truncated, retrying in TCP mode");
    let answers = text.lines().filter(|line| !line.starts_with(';') && !line.is_empty());
    let mut data: Vec<String> = answers
        .map(|line| line.split_whitespace().skip(3).collect::<Vec<_>>().join(" "))
        .filter(|line| !line.starts_with("SOA"))
        .collect();
    if data.len() > 3 {
        data = vec![format!("{} records", data.len())];
    }
    let cut = if is_cut { " by TCP" } else { "" };
    format!("{code}{cut} {}", data.join(", ")).trim_end().to_owned()
}

#[test]
fn needs_root_a_gateway_of_dns_answers_each_side_and_asks_others() {
    let bed = Bed::new();
    let folder = bed.folder.path();
    fs::write(folder.join("hosts"), HOSTS).unwrap();
    fs::write(folder.join("hosts.pub"), PUBLISHED).unwrap();
    fs::write(folder.join("blocked"), BLOCKED).unwrap();
    let many: Vec<String> =
        (0..200).map(|last| format!("--host-record=many.test,198.51.100.{last}")).collect();
    let mut words = vec![
        "--local-ttl=600",
        "--address=/www.test/198.51.100.7",
        "--address=/inner.test/10.9.9.9",
        "--address=/example.lan/198.51.100.66",
        "--mx-host=mail.test,www.test,10",
    ];
    words.extend(many.iter().map(String::as_str));
    let names = bed.serve_names(&words);
    let policy = bed.policy("p.toml", POLICY);
    assert_eq!(bed.rampart(&["check", "--strict", &policy]).0, 0, "{}", bed.rampart(&["check", &policy]).1);
    let firewall = bed.up(&policy, "auto");
    until("the gateway is up", || gateway(&bed)["is_up"] == true);
    until("names are answered", || dig(&bed, "in", "www.test") == "NOERROR A 198.51.100.7");
    #[rustfmt::skip]
    let rows = [
        ("in", "www.example.lan", "NOERROR A 10.81.1.5"),
        ("in", "www", "NOERROR A 10.81.1.5"),
        ("in", "db.example.lan", "NOERROR A 10.81.1.6"),
        ("in", "mail.example.lan", "NOERROR A 203.0.113.25"),
        ("in", "www.example.lan AAAA", "NOERROR"),
        ("in", "nobody.example.lan", "NXDOMAIN"),
        ("in", "-x 10.81.1.6", "NOERROR PTR db.example.lan."),
        ("in", "-x 192.168.7.7", "NXDOMAIN"),
        ("out", "www.example.lan", "NOERROR A 203.0.113.5"),
        ("out", "db.example.lan", "NXDOMAIN"),
        // Not a resolver for everybody: by a datagram, too, somebody is answered who may ask for something.
        ("out", "www.test", "REFUSED"),
        ("in", "www.test +dnssec", "NOERROR A 198.51.100.7"),
        ("in", "mail.test MX", "NOERROR MX 10 www.test."),
        ("in", "nobody.test", "NXDOMAIN"),
        ("in", "x.ads.test", "REFUSED"),
        ("in", "a.b.tracker.test", "REFUSED"),
        ("in", "nottracker.test", "NXDOMAIN"),
        ("in", "inner.test", "REFUSED"),
        ("in", "www.test ANY +notcp", "NOERROR HINFO \"RFC8482\" \"\""),
        ("in", "www.test CH TXT", "REFUSED"),
        ("in", "www.test +opcode=STATUS", "NOTIMP"),
    ];
    for (host, words, expected) in rows {
        for way in ["+notcp", "+tcp"] {
            if way == "+tcp" && words.contains("+notcp") {
                continue;
            }
            assert_eq!(dig(&bed, host, &format!("{words} {way}")), expected, "{host}: {words} {way}");
        }
    }
    assert_eq!(dig(&bed, "in", "many.test"), "NOERROR by TCP 200 records");
    let events = bed.json(&["log"]);
    let has = |rule: &str, reason: Value, protocol: &str, host: &str| {
        let is_it = |event: &&Value| {
            event["rule"] == rule
                && event["reason"] == reason
                && event["protocol"] == protocol
                && event["request"]["host"] == host
        };
        events["events"].as_array().unwrap().iter().any(|event| is_it(&event))
    };
    for protocol in ["udp", "tcp"] {
        assert!(has("names/no-ads", "dns-rule-deny".into(), protocol, "x.ads.test"), "{events:#}");
        assert!(has("names/lan", "dns-private-answer".into(), protocol, "inner.test"), "{events:#}");
        assert!(has("names/lan", Value::Null, protocol, "mail.test"), "{events:#}");
    }
    expect_weather(&bed, firewall.child.id(), names);
}

/// Files that change, a process that is killed, a name server that is gone, and a policy without a gateway.
fn expect_weather(bed: &Bed, firewall: u32, names: Background) {
    let hosts = bed.folder.path().join("hosts");
    fs::write(&hosts, HOSTS.replace("10.81.1.6", "10.81.1.7")).unwrap();
    until("a file that has changed", || dig(bed, "in", "db.example.lan") == "NOERROR A 10.81.1.7");
    fs::write(&hosts, "10.81.1.8\n").unwrap();
    let policy = bed.folder.path().join("p.toml").display().to_string();
    until("a file that is broken", || bed.json(&["status"])["troubles"].to_string().contains("has no name"));
    assert_eq!(dig(bed, "in", "db.example.lan"), "NOERROR A 10.81.1.7", "what was read before stays");
    assert_eq!(bed.rampart(&["check", &policy]).0, 2);
    let (status, said) = bed.rampart(&["apply", &policy]);
    assert!(status != 0 && said.contains("hosts:1: the address 10.81.1.8 has no name"), "{status} {said}");
    fs::write(&hosts, HOSTS).unwrap();
    let blocked = bed.folder.path().join("blocked");
    fs::write(&blocked, "http://tracker.test/\n").unwrap();
    until("a list that is broken", || bed.json(&["status"])["troubles"].to_string().contains("is no host"));
    assert_eq!(dig(bed, "in", "tracker.test"), "REFUSED", "what was read before stays");
    fs::write(&blocked, "other-tracker.test\n").unwrap();
    until("a list that has changed", || dig(bed, "in", "tracker.test") == "NXDOMAIN");
    assert_eq!(dig(bed, "in", "other-tracker.test"), "REFUSED");
    let before = worker(firewall).unwrap();
    kill(before);
    until("another process", || worker(firewall).is_some_and(|now| now != before));
    assert_eq!(dig(bed, "in", "www.test"), "NOERROR A 198.51.100.7", "who asked meanwhile has waited");
    drop(names);
    assert_eq!(dig(bed, "in", "www.test"), "NOERROR A 198.51.100.7", "what is known is known");
    assert_eq!(dig(bed, "in", "other.test"), "SERVFAIL", "and what is not is said in time");
    bed.json(&["apply", &bed.policy("none.toml", "")]);
    until("it has gone", || worker(firewall).is_none());
    assert_eq!(OUTSIDE, "10.81.2.2", "where forward_to leads");
}
