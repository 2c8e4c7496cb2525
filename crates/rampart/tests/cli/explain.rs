//! What `rampart explain` says of packets whose fate no rule decides.

use super::{Scratch, TRANSLATED, rampart};
use serde_json::json;

/// What the data plane drops for its addresses no rule allows, and every way to ask says so.
#[test]
fn explain_knows_sources_and_destinations_that_nobody_has() {
    let policy = Scratch::new("misfit.toml", TRANSLATED.as_bytes());
    for (from, to, source, destination, text) in [
        ("lan", "wan", "192.168.1.9", "198.51.100.7", "allow out"),
        ("lan", "wan", "127.0.0.1", "198.51.100.7", "deny source"),
        ("lan", "wan", "240.0.0.1", "198.51.100.7", "deny source"),
        ("lan", "wan", "::ffff:192.168.1.9", "2001:db8::1", "deny source"),
        ("lan", "wan", "fe80::1", "2001:db8::1", "deny source"),
        ("lan", "wan", "192.168.1.9", "127.0.0.1", "deny destination"),
        ("lan", "wan", "192.168.1.9", "192.168.1.9", "deny land"),
        ("wan", "lan", "192.168.1.9", "192.168.1.10", "deny zone-source"),
    ] {
        let ends = ["--from", from, "--to", to, "--src", source, "--dst", destination];
        let path = policy.path();
        let asked = [&["explain", &path], &ends[..], &["--proto", "tcp", "--dport", "80"]].concat();
        let said = |more: &[&str]| rampart(&[&asked, more].concat()).out;
        assert_eq!(said(&["--brief"]).trim_end(), text, "{source} > {destination}");
        let packet =
            json!({ "from": from, "to": to, "src": source, "dst": destination, "proto": "tcp", "dport": 80 });
        let packets = Scratch::new("misfit.jsonl", packet.to_string().as_bytes());
        let many = rampart(&["explain", &policy.path(), "--packets", &packets.path()]).out;
        assert_eq!(many.trim_end(), text, "{source} > {destination}");
        let answer: serde_json::Value = serde_json::from_str(&said(&["--json"])).unwrap();
        let (action, rest) = text.split_once(' ').unwrap();
        assert_eq!(answer["action"], action, "{answer}");
        let reason = if action == "deny" { json!(rest) } else { json!(null) };
        assert_eq!(answer["reason"], reason, "{answer}");
        assert!(
            action == "allow" || said(&[]).contains(&format!("it is dropped as {rest}, before any rule"))
        );
    }
}

#[test]
fn explain_says_what_becomes_of_a_syn() {
    for (setting, to, port, expected) in [
        ("off", "wan", "tcp", None),
        ("on", "wan", "tcp", Some("its SYN is answered with a cookie")),
        ("on", "wan", "udp", None),
        ("on", "self", "tcp", None),
        ("when-full", "wan", "tcp", Some("while half-open connections fill half of half_open, its SYN")),
    ] {
        let text = format!("settings = {{ syn_proxy = '{setting}' }}\n{TRANSLATED}");
        let policy = Scratch::new("proxied.toml", text.as_bytes());
        let ends = ["--from", "lan", "--to", to, "--src", "192.168.1.9", "--dst", "198.51.100.7"];
        let path = policy.path();
        let asked = [&["explain", &path], &ends[..], &["--proto", port, "--dport", "80"]].concat();
        let said = rampart(&asked);
        assert_eq!(said.status, 0, "{}", said.err);
        match expected {
            Some(words) => assert!(said.out.contains(words), "{}", said.out),
            None => assert!(!said.out.contains("SYN"), "{}", said.out),
        }
        let json = rampart(&[&asked[..], &["--json"]].concat()).out;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["syn_proxy"].is_string(), expected.is_some(), "{json}");
    }
}
