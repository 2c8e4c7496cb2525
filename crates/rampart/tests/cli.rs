//! The commands as a user runs them: what they print, and their exit status.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "cli/explain.rs"]
mod explain;

use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

struct Run {
    status: i32,
    out: String,
    err: String,
}

fn rampart(args: &[&str]) -> Run {
    let done = Command::new(env!("CARGO_BIN_EXE_rampart")).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run { status: done.status.code().unwrap(), out: text(done.stdout), err: text(done.stderr) }
}

fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/policies").join(name).display().to_string()
}

/// A file that goes away with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("rampart-cli-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }

    fn path(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const SHADOWED: &str = "[zones]\na = { interfaces = \"e0\" }\nb = { interfaces = \"e1\" }\n\
    [[rules]]\nname = \"all\"\nfrom = \"a\"\nto = \"b\"\naction = \"allow\"\n\
    [[rules]]\nname = \"late\"\nfrom = \"a\"\nto = \"b\"\nservice = \"http\"\naction = \"deny\"\n";

#[test]
fn check_reports_errors_with_status_2() {
    let file = Scratch::new("errors.toml", SHADOWED.replace("\"http\"", "\"htpp\"").as_bytes());
    let run = rampart(&["check", &file.path()]);
    assert_eq!((run.status, run.out.as_str()), (2, ""));
    assert!(run.err.contains(&format!("{}:13:11: there is no service `htpp`", file.path())), "{}", run.err);
    assert!(run.err.contains("did you mean `http`?") && run.err.ends_with("1 error\n"), "{}", run.err);
    let run = rampart(&["check", "--json", &file.path()]);
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((run.status, &json["ok"], &json["errors"][0]["line"]), (2, &false.into(), &13.into()));
}

#[test]
fn check_reports_warnings_and_is_strict_when_asked() {
    let file = Scratch::new("warnings.toml", SHADOWED.as_bytes());
    let run = rampart(&["check", &file.path()]);
    assert_eq!(run.status, 0);
    assert!(
        run.out.contains(":10:8: the rule `late` never decides: `all` before it takes all its packets"),
        "{}",
        run.out
    );
    assert_eq!(rampart(&["check", "--strict", &file.path()]).status, 1);
    let run = rampart(&["check", "--json", &file.path()]);
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    let warning = &json["warnings"][0];
    assert_eq!(
        (&warning["kind"], &warning["rule"], &warning["by"][0]),
        (&"shadowed".into(), &"late".into(), &"all".into())
    );
    assert_eq!(rampart(&["check", "--strict", &example("home.toml")]).status, 0);
}

#[test]
fn check_says_what_a_new_flow_costs() {
    // A root and a leaf, and the line of the rule's action; IPv6 is the same.
    let file = Scratch::new("cost.toml", SHADOWED.as_bytes());
    let run = rampart(&["check", &file.path()]);
    let line =
        "a new flow is looked up by decision trees: at most 3 lines of memory with IPv4, 3 with IPv6\n";
    assert!(run.out.ends_with(line), "{}", run.out);
    let run = rampart(&["check", "--json", &file.path()]);
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    let expected = json!({
        "method": "trees", "most_lines": { "ipv4": 3, "ipv6": 3 }, "keeps_promise": true,
    });
    assert_eq!(json["look_up"], expected);
}

/// Lists that rules ask for cost lines too: the bound counts them, and the reason names them.
#[test]
fn check_says_that_lists_make_a_new_flow_cost_more_than_most() {
    let zones = "[zones]\ninside = { interfaces = \"e0\" }\noutside = { interfaces = \"e1\" }\n";
    let lists = |count: usize| -> String {
        (0..count).map(|n| format!("[lists.l{n}]\nentries = \"192.0.2.{n}\"\n")).collect()
    };
    let rule = |from: usize, to: usize| {
        format!(
            "[[rules]]\nname = \"r{from}-{to}\"\nfrom = \"any\"\nto = \"any\"\nsource = \"list:l{from}\"\n\
             destination = \"list:l{to}\"\naction = \"allow\"\n"
        )
    };
    for (count, keeps_promise) in [(2, true), (5, false)] {
        let rules: String = (0..count)
            .flat_map(|from| (0..count).map(move |to| (from, to)))
            .map(|(from, to)| rule(from, to))
            .collect();
        let file = Scratch::new("pairs.toml", format!("{zones}{}{rules}", lists(count)).as_bytes());
        let run = rampart(&["check", "--json", &file.path()]);
        let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(json["look_up"]["keeps_promise"], keeps_promise, "{}", json["look_up"]);
        let run = rampart(&["check", &file.path()]);
        let why = format!(
            "because the rules for each of {} pairs of lists are searched by themselves",
            count * count
        );
        assert_eq!(run.out.contains(&why), !keeps_promise, "{}", run.out);
    }
}

#[test]
fn files_that_cannot_be_read_are_reported() {
    let run = rampart(&["check", "/nonexistent/policy.toml"]);
    assert_eq!(run.status, 2);
    assert!(run.err.contains("cannot read /nonexistent/policy.toml"), "{}", run.err);
    let file = Scratch::new("latin1.toml", b"[zones]\n# caf\xe9\n");
    let run = rampart(&["check", &file.path()]);
    assert!(run.status == 2 && run.err.contains(":2: not UTF-8 text"), "{}", run.err);
}

#[test]
fn explain_says_who_decides_and_why_not_those_above() {
    let (school, office) = (example("school.toml"), example("office-dmz.toml"));
    let rows: Vec<(&str, Vec<&str>, &[&str])> = vec![
        (
            "a rule, and each above it",
            vec![
                &office,
                "--from",
                "outside",
                "--src",
                "198.51.100.200",
                "--dst",
                "203.0.113.4",
                "--proto",
                "tcp",
                "--dport",
                "25",
            ],
            &[
                "to zone dmz",
                "not `blocked`: its source is blocked, and 198.51.100.200 is not in it",
                "not `web`: its destination is web, and 203.0.113.4 is not in it",
                "allow: by the rule `mail` (",
            ],
        ),
        (
            "a schedule that holds",
            vec![
                &school,
                "--from",
                "classrooms",
                "--src",
                "10.20.1.1",
                "--dst",
                "8.8.8.8",
                "--proto",
                "tcp",
                "--dport",
                "443",
                "--at",
                "2026-11-20T10:00[Europe/Vienna]",
            ],
            &["not `no-games`", "allow: by the rule `lessons`"],
        ),
        (
            "a schedule that does not",
            vec![
                &school,
                "--from",
                "classrooms",
                "--src",
                "10.20.1.1",
                "--dst",
                "8.8.8.8",
                "--proto",
                "tcp",
                "--dport",
                "443",
                "--at",
                "2026-11-20T13:00[Europe/Vienna]",
            ],
            &[
                "not `lessons`: its schedule `lessons` does not hold",
                "deny: no rule matches, and that is the default from classrooms to outside",
            ],
        ),
        (
            "ICMP, and the firewall itself",
            vec![
                &office,
                "--from",
                "office",
                "--to",
                "self",
                "--src",
                "10.10.99.1",
                "--dst",
                "10.10.0.1",
                "--proto",
                "icmp",
                "--type",
                "echo-request",
            ],
            &["icmp/8/0", "allow: by the rule `administration`"],
        ),
        (
            "a source port",
            vec![
                &office,
                "--from",
                "office",
                "--src",
                "10.10.0.9",
                "--dst",
                "8.8.8.8",
                "--proto",
                "udp",
                "--dport",
                "53",
                "--sport",
                "5353",
            ],
            &["allow: by the rule `office-out`"],
        ),
    ];
    for (what, args, expected) in rows {
        let run = rampart(&[&["explain"], args.as_slice()].concat());
        assert_eq!(run.status, 0, "{what}: {}", run.err);
        for text in expected {
            assert!(run.out.contains(text), "{what}: {text:?} in {}", run.out);
        }
    }
}

const TRANSLATED: &str = "[zones]\nlan = { interfaces = 'e1', networks = '192.168.1.0/24' }\nwan = { interfaces = 'e0' }\n\
    [[nat]]\nname = 'ping'\nfrom = 'wan'\ndestination = '203.0.113.1'\nservice = 'icmp'\ndestination_to = '192.168.1.10'\n\
    [[nat]]\nname = 'out'\nfrom = 'lan'\nto = 'wan'\nmasquerade = true\n\
    [[rules]]\nname = 'out'\nfrom = 'lan'\nto = 'wan'\naction = 'allow'\n\
    [[rules]]\nname = 'in'\nfrom = 'wan'\nto = 'any'\nservice = 'icmp'\naction = 'allow'\n";

#[test]
fn explain_says_what_is_translated() {
    let file = Scratch::new("translated.toml", TRANSLATED.as_bytes());
    let out = ["--from", "lan", "--src", "192.168.1.9", "--dst", "198.51.100.7"];
    let back = ["--from", "wan", "--src", "198.51.100.7", "--dst", "203.0.113.1"];
    for (ends, service, has, has_not) in [
        (out, "udp --dport 53", "it leaves with the address of the interface", "it was for"),
        // ICMP that is no query opens no flow, and only flows are translated.
        (out, "icmp --type 9", "it is dropped as untranslatable", "leaves with"),
        (out, "icmp --type timestamp-reply", "it is dropped as icmp-unasked", "leaves with"),
        (back, "icmp --type echo-request", "it was for 203.0.113.1, icmp/8/0", "to zone wan"),
        (back, "icmp --type 9", "in zone wan to zone wan", "it was for"),
        (back, "udp --dport 53", "deny: no rule", "it was for"),
        (
            ["--from", "self", out[2], "192.168.1.1", out[4], out[5]],
            "udp --dport 53",
            "the packet from self",
            "it leaves",
        ),
        // What is denied leaves with nothing.
        (
            ["--from", "lan", out[2], out[3], out[4], "192.168.1.8"],
            "udp --dport 53",
            "deny: no rule",
            "it leaves",
        ),
    ] {
        let service: Vec<&str> = service.split(' ').collect();
        let run = rampart(&[&["explain", &file.path()], &ends[..], &["--proto"], &service].concat());
        let is_right = run.status == 0 && run.out.contains(has) && !run.out.contains(has_not);
        assert!(is_right, "{ends:?} {service:?}: {has:?}, not {has_not:?} in {}{}", run.out, run.err);
    }
}

/// What a mapping lets in depends on which there are; explain says by which entry it may be.
#[test]
fn explain_says_what_may_come_by_a_mapping() {
    let mapping =
        "masquerade = true\nports = '20000-29999'\nmapping = 'endpoint-independent'\nfiltering = 'address'";
    let policy = Scratch::new("mapping.toml", TRANSLATED.replace("masquerade = true", mapping).as_bytes());
    let may = "by the translation `out`, the packet goes to that host";
    for (ends, proto, has, has_not) in [
        ("lan 192.168.1.9 198.51.100.7", "udp", "filtering = \"address\"", may),
        ("wan 198.51.100.7 203.0.113.1", "udp", may, "filtering ="),
        ("wan 198.51.100.7 203.0.113.1", "sctp", "deny: no rule", may),
    ] {
        let ends: Vec<&str> = ends.split(' ').collect();
        let packet =
            ["--from", ends[0], "--src", ends[1], "--dst", ends[2], "--proto", proto, "--dport", "20000"];
        let run = rampart(&[&["explain", &policy.path()], &packet[..]].concat());
        let is_right = run.status == 0 && run.out.contains(has) && !run.out.contains(has_not);
        assert!(is_right, "{ends:?} {proto}: {has:?}, not {has_not:?} in {}{}", run.out, run.err);
    }
}

/// What counts as asked in vain, and who may be blocked: in words and as JSON.
#[test]
fn explain_says_what_scans_have_to_do_with_it() {
    let list = Scratch::new("listed.txt", b"198.51.100.66\n");
    let text = |scans: &str| {
        format!(
            "[zones]\nout = {{ interfaces = 'e0' }}\nin = {{ interfaces = 'e1' }}\n{scans}\
             [lists.bad]\nfile = '{}'\nblock = 'source'\n\
             [[rules]]\nname = 'web'\nfrom = 'out'\nto = 'in'\nservice = 'tcp/80'\naction = 'allow'\n",
            list.path()
        )
    };
    let scans = "[scans]\nports = 20\nexcept = '198.51.100.9'\n";
    let blocking = Scratch::new("blocking.toml", text(&format!("{scans}block = '1h'\n")).as_bytes());
    let recording = Scratch::new("recording.toml", text(scans).as_bytes());
    let nothing = Scratch::new("no-scans.toml", text("").as_bytes());
    let [excepted, in_vain, blocked] = ["is excepted in [scans]", "counts as asked in vain", "scan-blocked"];
    // Source, destination and protocol of a packet from outside, and what applies to it: excepted, in vain, may be blocked.
    for (policy, packet, expected) in [
        (&blocking, "198.51.100.7 192.0.2.1 tcp --dport 80", Some([false, false, true])),
        (&blocking, "198.51.100.7 192.0.2.1 tcp --dport 81", Some([false, true, true])),
        (&blocking, "198.51.100.9 192.0.2.1 tcp --dport 81", Some([true, false, false])),
        (&blocking, "198.51.100.66 192.0.2.1 tcp --dport 80", Some([false, true, true])),
        (&recording, "198.51.100.7 192.0.2.1 tcp --dport 81", Some([false, true, false])),
        (&recording, "198.51.100.66 192.0.2.1 tcp --dport 80", Some([false, true, false])),
        (&blocking, "198.51.100.7 192.0.2.1 icmp --type echo-request", Some([false, true, true])),
        (&blocking, "198.51.100.7 192.0.2.1 icmp --type 3", Some([false, false, true])),
        (&blocking, "198.51.100.7 192.0.2.1 icmp --type echo-reply", None),
        (&blocking, "198.51.100.7 192.0.2.1 udp --sport 53 --dport 40000", Some([false, false, true])),
        (&blocking, "198.51.100.7 192.0.2.1 udp --sport 53 --dport 100", Some([false, true, true])),
        (&blocking, "198.51.100.7 239.0.0.1 udp --dport 5353", Some([false, false, true])),
        (&blocking, "0.0.0.0 192.0.2.1 udp --dport 67", None),
        (&blocking, "0.0.0.0 255.255.255.255 udp --dport 67", Some([false, false, true])),
        (&blocking, "fe80::1 2001:db8::1 udp --dport 67", None),
        (&blocking, "2001:db8:1::1 2001:db8::1 udp --dport 67", Some([false, true, true])),
        (&nothing, "198.51.100.7 192.0.2.1 tcp --dport 81", None),
    ] {
        let words: Vec<&str> = packet.split(' ').collect();
        let ends = ["--from", "out", "--to", "in", "--src", words[0], "--dst", words[1], "--proto"];
        let run = rampart(&[&["explain", &policy.path()], &ends[..], &words[2..]].concat());
        let found = [excepted, in_vain, blocked].map(|what| run.out.contains(what));
        assert_eq!(
            (run.status, found),
            (0, expected.unwrap_or_default()),
            "{packet}: {}{}",
            run.out,
            run.err
        );
        let run = rampart(&[&["explain", &policy.path(), "--json"], &ends[..], &words[2..]].concat());
        let answer: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        let expected = expected.map(|[excepted, in_vain, blocked]| {
            json!({
                "source": words[0], "is_excepted": excepted, "is_in_vain": in_vain, "may_be_blocked": blocked,
            })
        });
        assert_eq!(answer["scans"], expected.unwrap_or_default(), "{packet}: {}", run.out);
    }
}

/// A packet that rules allow and that cannot be translated is dropped, and every way to ask says so.
#[test]
fn explain_says_in_brief_what_cannot_be_translated() {
    let policy = Scratch::new("untranslatable.toml", TRANSLATED.as_bytes());
    for (kind, text, json) in [
        ("echo-request", "allow out", json!({ "action": "allow", "rule": "out" })),
        ("9", "deny nat:out", json!({ "action": "deny", "rule": null, "translation": "out" })),
        (
            "echo-reply",
            "deny icmp-unasked",
            json!({ "action": "deny", "rule": null, "reason": "icmp-unasked" }),
        ),
    ] {
        let ends = ["--from", "lan", "--src", "192.168.1.9", "--dst", "198.51.100.7", "--proto", "icmp"];
        let packet = json!({ "from": "lan", "src": ends[3], "dst": ends[5], "proto": "icmp", "type": kind });
        let packets = Scratch::new("untranslatable.jsonl", packet.to_string().as_bytes());
        let brief = [&["--brief"], &ends[..], &["--type", kind]].concat();
        let in_file = packets.path();
        for asked in [&brief[..], &["--packets", &in_file]] {
            let said = |more: &[&str]| rampart(&[&["explain", &policy.path()], asked, more].concat()).out;
            assert_eq!(said(&[]).trim_end(), text, "{asked:?}");
            let answer: serde_json::Value = serde_json::from_str(&said(&["--json"])).unwrap();
            let of_answer = |key: &str| answer[key].clone();
            let keys =
                ["action", "rule", "translation", "reason"].map(|key| (of_answer(key), json[key].clone()));
            assert!(keys.iter().all(|(is, should)| is == should), "{asked:?}: {answer}");
        }
        let whole = rampart(&[&["explain", &policy.path(), "--json"], &brief[1..]].concat()).out;
        let whole: serde_json::Value = serde_json::from_str(&whole).unwrap();
        assert_eq!(whole["action"], json["action"], "{whole}");
    }
}

#[test]
fn warnings_that_many_rules_share_are_printed_once_and_counted() {
    let rules = |i: u32| SHADOWED.replace("late", &format!("late{i}"));
    let late = SHADOWED.find("[[rules]]\nname = \"late\"").unwrap();
    let text = (0..20).fold(SHADOWED[..late].to_owned(), |text, i| text + &rules(i)[late..]);
    let file = Scratch::new("many.toml", text.as_bytes());
    let run = rampart(&["check", &file.path()]);
    assert_eq!(run.out.matches("never decides").count(), 3, "{}", run.out);
    let last = format!("shadowed: and 17 more because of the same rules, the last at {}:", file.path());
    assert!(run.out.contains(&last) && run.out.contains("20 warnings (20 shadowed)"), "{}", run.out);
    let all = rampart(&["check", "--all", &file.path()]);
    assert_eq!(all.out.matches("never decides").count(), 20, "{}", all.out);
    let json: serde_json::Value =
        serde_json::from_str(&rampart(&["check", "--json", &file.path()]).out).unwrap();
    assert_eq!(json["warning_counts"], json!({ "shadowed": 20 }));
}

#[test]
fn explain_in_json() {
    let office = example("office-dmz.toml");
    let run = rampart(&[
        "explain",
        &office,
        "--json",
        "--from",
        "outside",
        "--src",
        "198.51.100.1",
        "--dst",
        "203.0.113.2",
        "--proto",
        "tcp",
        "--dport",
        "80",
    ]);
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((&json["action"], &json["rule"]["name"]), (&"deny".into(), &"blocked".into()));
    let run = rampart(&[
        "explain",
        &office,
        "--json",
        "--from",
        "outside",
        "--src",
        "198.51.100.200",
        "--dst",
        "203.0.113.2",
        "--proto",
        "tcp",
        "--dport",
        "80",
    ]);
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(
        (&json["passed_over"][0]["name"], &json["passed_over"][0]["field"]),
        (&"blocked".into(), &"source".into())
    );
}

const PORTS: &str = "[zones]\na = { interfaces = \"e0\" }\nb = { interfaces = \"e1\" }\n\
    [[rules]]\nname = \"peers\"\nfrom = \"a\"\nto = \"b\"\nservice = \"ntp\"\nsource_port = \"123\"\naction = \"allow\"\n";

#[test]
fn explain_answers_many_packets_a_line_each() {
    let policy = Scratch::new("ports.toml", PORTS.as_bytes());
    let ask = |sport: &str| {
        format!(
            r#"{{"from": "a", "to": "b", "src": "10.0.0.1", "dst": "10.0.0.2", "proto": "udp", "dport": 123{sport}}}"#
        )
    };
    let lines = [
        ask(", \"sport\": 123"),
        String::new(),
        ask(""),
        ask(", \"sprt\": 1"),
        ask("").replace("\"a\"", "\"x\""),
    ];
    let packets = Scratch::new("packets.jsonl", lines.join("\n").as_bytes());
    let run = rampart(&["explain", &policy.path(), "--packets", &packets.path()]);
    let lines: Vec<&str> = run.out.lines().collect();
    assert_eq!((run.status, &lines[..2]), (1, &["allow peers", "deny (default)"][..]), "{}", run.out);
    assert!(
        lines[2].starts_with(&format!("{}:4: ", packets.path())) && lines[2].contains("sprt"),
        "{}",
        lines[2]
    );
    assert!(lines[3].contains("there is no zone `x`"), "{}", lines[3]);
    let run = rampart(&["explain", &policy.path(), "--packets", &packets.path(), "--json"]);
    let answers: Vec<serde_json::Value> =
        run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected = json!({ "line": 1, "action": "allow", "rule": "peers" });
    assert_eq!((&answers[0], &answers[1]["line"], answers.len()), (&expected, &3.into(), 4));
    let brief = [
        "--from", "a", "--to", "b", "--src", "10.0.0.1", "--dst", "10.0.0.2", "--proto", "udp", "--dport",
        "123",
    ];
    let run = rampart(&[&["explain", &policy.path(), "--brief"], &brief[..]].concat());
    assert_eq!((run.status, run.out.as_str()), (0, "deny (default)\n"), "{}", run.err);
    let run = rampart(&[&["explain", &policy.path()], &brief[..]].concat());
    assert!(run.out.contains("(from port 49152, because --sport names none"), "{}", run.out);
    assert!(run.out.contains("its source_port is 123, the packet's 49152"), "{}", run.out);
}

#[test]
fn explain_says_what_is_wrong_with_the_question() {
    let (office, eantc) = (example("office-dmz.toml"), example("eantc.toml"));
    let ask = |policy: &str, rest: &str| {
        let mut args = vec!["explain", policy];
        args.extend(rest.split(' '));
        rampart(&args)
    };
    for (policy, rest, expected) in [
        (
            &office,
            "--from inside --src 10.0.0.1 --dst 10.0.0.2 --proto tcp --dport 1",
            "--from: there is no zone `inside`; there are: self, office",
        ),
        (&office, "--from office --src 10.0.0.1 --dst ::1 --proto tcp --dport 1", "different families"),
        (&office, "--from office --src 10.0.0.1 --dst 8.8.8.8 --proto tcp", "--proto tcp needs --dport"),
        (&office, "--from office --src 10.0.0.1 --dst 8.8.8.8 --proto icmp", "needs --type"),
        (&office, "--from office --src 10.0.0.1 --dst 8.8.8.8 --proto icmp --dport 5", "has no ports"),
        (
            &office,
            "--from office --src 10.0.0.1 --dst 8.8.8.8 --proto icmp --type eco",
            "--type eco: `icmp/eco` is not a service",
        ),
        (
            &office,
            "--from office --src 10.0.0.1 --dst 8.8.8.8 --proto icmp --type 9-12",
            "--type 9-12: a packet has one type",
        ),
        (
            &office,
            "--from office --src 10.0.0.1 --dst 8.8.8.8 --proto tpc --dport 5",
            "--proto tpc: write tcp, udp",
        ),
        (
            &office,
            "--from office --src 10.0.0.1 --dst 8.8.8.8 --proto tcp --dport 5 --at noon",
            "--at noon: write",
        ),
        (
            &office,
            "--from self --to self --src 10.0.0.1 --dst 8.8.8.8 --proto tcp --dport 5",
            "never passes it",
        ),
        (
            &eantc,
            "--from lan --src 10.0.0.1 --dst 8.8.8.8 --proto tcp --dport 5",
            "name the zone that it goes to with --to",
        ),
    ] {
        let run = ask(policy, rest);
        assert!(run.status == 2 && run.err.contains(expected), "{rest}: {}", run.err);
    }
}

#[test]
fn help_shows_examples_and_completions_are_there() {
    let commands = [
        "check", "explain", "up", "apply", "confirm", "status", "rules", "flows", "drops", "log", "top",
        "down", "openapi",
    ];
    for command in commands {
        let run = rampart(&[command, "--help"]);
        assert!(
            run.status == 0 && run.out.contains(&format!("Examples:\n  rampart {command}")),
            "{command}: {}",
            run.out
        );
        assert!(rampart(&["--help"]).out.contains(&format!("\n  {command} ")), "{command}");
    }
    assert!(rampart(&["--help"]).out.contains("Examples:"));
    assert!(rampart(&["completion", "bash"]).out.contains("_rampart"));
}

#[test]
fn commands_without_a_firewall_say_so_with_status_3() {
    for command in ["status", "rules", "flows", "sessions", "drops", "log", "top", "confirm", "down"] {
        let run = rampart(&[command, "--socket", "/nonexistent/x.sock"]);
        assert_eq!((run.status, run.out.as_str()), (3, ""), "{command}");
        let expected = "rampart: no firewall runs here (there is no /nonexistent/x.sock): `rampart up POLICY` starts one";
        assert_eq!(run.err.trim_end(), expected, "{command}");
        let run = rampart(&[command, "--json", "--socket", "/nonexistent/x.sock"]);
        let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!((run.status, &json["ok"]), (3, &false.into()), "{command}");
    }
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let home = example("home.toml");
    for (args, expected) in [
        (vec!["apply", &home, "--confirm", "0"], "0 is not in 1..=86400"),
        (vec!["top", "--interval", "0"], "seconds from 0.1 to 3600"),
        (vec!["up", &home, "--hook", "dpdk"], "possible values: auto, xdp, tc"),
        (vec!["flows", "dport"], "`dport` is no filter: write KEY=VALUE"),
        (vec!["sessions", "--kill"], "--kill without a filter ends every flow"),
    ] {
        let run = rampart(&args);
        assert!(run.status == 2 && run.err.contains(expected), "{args:?}: {}", run.err);
    }
}

#[test]
fn up_reports_errors_of_the_policy_before_anything_else() {
    let file = Scratch::new("up.toml", SHADOWED.replace("\"http\"", "\"htpp\"").as_bytes());
    let run = rampart(&["up", &file.path()]);
    assert_eq!((run.status, run.out.as_str()), (2, ""));
    assert!(run.err.contains(&format!("{}:13:11: there is no service `htpp`", file.path())), "{}", run.err);
}

#[test]
fn the_description_of_the_socket_is_printed() {
    let run = rampart(&["openapi"]);
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((run.status, &json["openapi"]), (0, &"3.1.0".into()));
}

#[test]
fn import_prints_a_policy_that_checks_and_says_what_is_missing() {
    let rules = "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n\
        -A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT\n-A FORWARD -i e1 -o e0 -j ACCEPT\n\
        -A FORWARD -i e0 -m mark --mark 7 -j ACCEPT\n-A INPUT -m state --state ESTABLISHED -j ACCEPT\nCOMMIT\n";
    let file = Scratch::new("rules.v4", rules.as_bytes());
    let run = rampart(&["import", "iptables-save", &file.path()]);
    assert_eq!(run.status, 0, "{}", run.err);
    let place =
        format!("{}:7:26: left out (less is allowed): a policy cannot ask for `--mark 7`", file.path());
    assert!(run.err.contains(&place) && run.err.contains("1 left out, 0 refuse more"), "{}", run.err);
    assert!(run.err.contains("4 rules: 1 carried over, 3 that give nothing"), "{}", run.err);
    let policy = Scratch::new("imported.toml", run.out.as_bytes());
    assert_eq!(rampart(&["check", &policy.path()]).status, 0);
    assert_eq!(rampart(&["import", "iptables-save", &file.path(), "--strict"]).status, 1);
    let run = rampart(&["import", "iptables-save", &file.path(), "--json"]);
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(
        (&json["exact"], &json["policy"]),
        (&false.into(), &std::fs::read_to_string(policy.path()).unwrap().into())
    );
    assert_eq!(json["rules"], json!({ "read": 4, "carried": 1, "not_carried": 3 }));
    let found =
        json["findings"].as_array().unwrap().iter().find(|finding| finding["kind"] == "left-out").unwrap();
    assert_eq!((&found["line"], &found["column"]), (&7.into(), &26.into()));
    for (address, status) in [
        ("192.0.2.7/24", 0),
        ("2001:db8::7/64", 0),
        ("eth1=192.0.2.7/24", 0),
        ("192.0.2.7", 2),
        ("192.0.2.7/33", 2),
    ] {
        let run = rampart(&["import", "iptables-save", &file.path(), "--address", address]);
        assert_eq!(run.status, status, "{address}: {}", run.err);
    }
    let wrong = Scratch::new("wrong", b"table inet filter {}\n");
    let run = rampart(&["import", "iptables-save", &wrong.path()]);
    assert!(run.status == 2 && run.err.contains("this looks like nftables"), "{}", run.err);
}

#[test]
fn output_that_finds_no_room_is_an_error_and_a_reader_that_went_away_is_none() {
    let policy = example("home.toml");
    let rules =
        Scratch::new("room.nft", b"table inet f { chain i { type filter hook input priority 0; } }\n");
    let (rules, list) = (rules.path(), Scratch::new("room.txt", b"192.0.2.1\n"));
    let packet: Vec<&str> =
        "--from inside --src 192.168.1.9 --dst 192.0.2.1 --proto tcp --dport 443".split(' ').collect();
    let rows: [(&[&str], &[&str]); 9] = [
        (&["check", &policy], &[]),
        (&["check", "--json", &policy], &[]),
        (&["explain", &policy], &packet),
        (&["explain", &policy, "--json"], &packet),
        (&["import", "nft", &rules], &[]),
        (&["import", "nft", &rules, "--json"], &[]),
        (&["list", "test", &list.path(), "192.0.2.1"], &[]),
        (&["openapi"], &[]),
        (&["completion", "bash"], &[]),
    ];
    for (words, more) in rows {
        let run = |out: std::process::Stdio| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_rampart"));
            command.args(words).args(more).stdout(out).stderr(std::process::Stdio::piped());
            let done = command.spawn().unwrap().wait_with_output().unwrap();
            (done.status.code(), String::from_utf8(done.stderr).unwrap())
        };
        let (status, said) = run(std::fs::File::create("/dev/full").unwrap().into());
        assert_eq!(status, Some(3), "{words:?}: {said}");
        assert!(
            said.ends_with("rampart: what was printed is not whole: No space left on device (os error 28)\n"),
            "{said}"
        );
        let (nobody, pipe) = std::io::pipe().unwrap();
        drop(nobody);
        let (status, said) = run(pipe.into());
        assert!(status == Some(0) && !said.contains("panicked"), "{words:?}: {status:?} {said}");
    }
}
