//! What `rampart explain` says: of rules, translations, mappings and scans, and of packets whose fate no rule decides.

use super::{Scratch, example, rampart};
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
    const ON: Option<&str> = Some("its SYN is answered with a cookie");
    const WHEN_FULL: Option<&str> = Some("while half-open connections fill half of half_open, its SYN");
    for (setting, of_rule, to, port, expected) in [
        ("off", "", "wan", "tcp", None),
        ("on", "", "wan", "tcp", ON),
        ("on", "", "wan", "udp", None),
        ("on", "", "self", "tcp", None),
        ("when-full", "", "wan", "tcp", WHEN_FULL),
        ("off", "on", "wan", "tcp", ON),
        ("off", "on", "wan", "udp", None),
        ("on", "off", "wan", "tcp", None),
        ("on", "when-full", "wan", "tcp", WHEN_FULL),
    ] {
        let text = format!("settings = {{ syn_proxy = '{setting}' }}\n{TRANSLATED}");
        let allows = "action = 'allow'\n";
        assert!(text.contains(allows));
        let text = match of_rule {
            "" => text,
            said => text.replacen(allows, &format!("{allows}syn_proxy = '{said}'\n"), 1),
        };
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
        (out, "icmp --type 9", "deny: although the rule `out` (", "allow:"),
        (out, "icmp --type timestamp-reply", "deny: although the rule `out` (", "allow:"),
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

/// What a domain stands for only a running firewall knows.
#[test]
fn explain_and_check_say_what_a_domain_needs() {
    let text = "[zones]\na = { interfaces = 'e0' }\nb = { interfaces = 'e1' }\n\
        [gateways.names]\nprotocol = 'dns'\nlisten = '127.0.0.1:53'\n[[gateways.names.rules]]\nname = 'all'\naction = 'allow'\n\
        [[rules]]\nname = 'r'\nfrom = 'a'\nto = 'b'\ndestination = ['domain:nobody.test', '192.0.2.1']\naction = 'ACTION'\n";
    let policy = Scratch::new("domain.toml", text.replace("ACTION", "allow").as_bytes());
    let path = policy.path();
    let asked = |to: &str, more: &[&str]| {
        let ends = ["explain", &path, "--from", "a", "--to", "b", "--src", "10.0.0.1", "--dst", to];
        rampart(&[&ends[..], &["--proto", "tcp", "--dport", "80"], more].concat()).out
    };
    let unknown = "what domain:nobody.test stands for is not known here, and is taken for nothing";
    for (to, action) in [("192.0.2.2", "deny: no rule matches"), ("192.0.2.1", "allow: by the rule `r`")] {
        let said = asked(to, &[]);
        assert!(said.contains(action) && said.contains(unknown), "{said}");
    }
    let answer: serde_json::Value = serde_json::from_str(&asked("192.0.2.2", &["--json"])).unwrap();
    assert_eq!(answer["unknown_domains"], json!(["domain:nobody.test"]));
    let checked = rampart(&["check", "--strict", &path]);
    assert!(
        checked.status == 0 && checked.out.contains("`domain:nobody.test`: what the gateway `names` says"),
        "{}",
        checked.out
    );
    let refusing = Scratch::new("refusing.toml", text.replace("ACTION", "deny").as_bytes());
    let checked = rampart(&["check", "--strict", &refusing.path()]);
    assert!(
        checked.status == 1
            && checked.out.contains("addresses of it that no gateway of DNS has said pass it"),
        "{} {}",
        checked.out,
        checked.err
    );
}
