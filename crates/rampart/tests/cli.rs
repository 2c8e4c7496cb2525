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
    for command in
        ["status", "rules", "flows", "sessions", "stations", "drops", "log", "top", "confirm", "down"]
    {
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
    let (home, backup) = (example("home.toml"), Scratch::new("backup", b"rampart-backup 1 2 x\n\x1f\x8b"));
    let backup = backup.path();
    for (args, expected) in [
        (vec!["apply", &home, "--confirm", "0"], "0 is not in 1..=86400"),
        (vec!["top", "--interval", "0"], "seconds from 0.1 to 3600"),
        (vec!["up", &home, "--hook", "dpdk"], "possible values: auto, xdp, tc"),
        (vec!["flows", "dport"], "`dport` is no filter: write KEY=VALUE"),
        (
            vec!["log", "--since", "yesterday"],
            "write how long ago, as 10min or 2h30min, or when: 2026-11-20T22:30[",
        ),
        (
            "explain --from inside --src 192.0.2.1 --dst 192.0.2.2 --proto icmp --at noon"
                .split(' ')
                .chain([home.as_str()])
                .collect(),
            "--at noon: write 2026-11-20T22:30[",
        ),
        (vec!["log", "--follow", "--until", "1h"], "cannot be used with"),
        // What a command would take no notice of.
        (vec!["flows", "dport=22", "--kill", "--limit", "5"], "cannot be used with"),
        (vec!["blocks", "--zone", "outside"], "required arguments were not provided"),
        (vec!["blocks", "--end", "192.0.2.1", "--end-all"], "cannot be used with"),
        (vec!["log", "--kept", "--socket", "x"], "cannot be used with"),
        (vec!["history", "--kept", "--socket", "x"], "cannot be used with"),
        (vec!["diff", "--kept", "--socket", "x"], "cannot be used with"),
        // It has no end, and no end of a line.
        (vec!["explain", &home, "--packets", "/dev/zero"], "/dev/zero:1: the line has more than 65536 bytes"),
        (vec!["explain", &home, "--packets", "-", "--to", "outside"], "cannot be used with"),
        (vec!["explain", &home, "--packets", "-", "--dport", "22"], "cannot be used with"),
        (vec!["explain", &home, "--packets", "-", "--sport", "22"], "cannot be used with"),
        (vec!["explain", &home, "--packets", "-", "--type", "3"], "cannot be used with"),
        (vec!["log", "--kept", "--state", "/nonexistent"], "no firewall has kept anything in /nonexistent"),
        (vec!["log", "--audit", "--kept", "--state", "/proc"], "no firewall has kept anything in /proc"),
        (vec!["history", "--kept", "--state", "/nonexistent"], "name the folder that `rampart up --state`"),
        (vec!["export", "--kept", "--state", "/nonexistent"], "no firewall has kept anything in /nonexistent"),
        // A mistyped zone is no moment of this machine's clock.
        (vec!["log", "--since", "2026-11-20T22:30[Europe/Berlinn]"], "Europe/Berlinn"),
        (
            "explain --from inside --src 192.0.2.1 --dst 192.0.2.2 --proto tcp --dport 80 --at 2026-11-20T22:30[Europe/Berlinn]"
                .split(' ')
                .chain([home.as_str()])
                .collect(),
            "Europe/Berlinn",
        ),
        (vec!["sessions", "--kill"], "--kill without a filter ends every flow"),
        (vec!["fleet", "status", "--config", "/nonexistent/fleet.toml"], "or name another file with --config"),
        (vec!["agent", "--config", "/nonexistent/fleet.toml"], "write server = \"tls://nats.example.net:4222\""),
        (
            vec!["fleet", "apply", &home, "--group", "g", "--key", "/nonexistent/key"],
            "cannot use the key /nonexistent/key: there is no such file; `rampart fleet key FILE` makes one",
        ),
        (vec!["fleet", "key", &home], "a key that is replaced is gone for good"),
        (vec!["backup", "/tmp"], "/tmp is a folder: name a file in it, such as /tmp/firewall.backup"),
        (vec!["restore", &home], "nothing is changed: it is a policy, which `rampart apply` puts in force"),
        (vec!["check", &backup], "is a backup and no policy: `rampart restore` puts the policy in it in force"),
    ] {
        let run = rampart(&args);
        assert!(run.status == 2 && run.err.contains(expected), "{args:?}: {}", run.err);
    }
}

/// Files of lists are refused in the words of the command's own options: there is no policy to write anything into.
#[test]
fn files_of_lists_are_refused_with_what_to_do() {
    for (text, options, status, expected) in [
        (&b"192.0.2.1\nexample.org\n"[..], &[][..], 2, "line 2 is neither an address, a network nor a range"),
        (b"192.0.2.1\nexample.org\n", &[], 2, "correct them, or leave them out by --skip-broken"),
        (b"192.0.2.1\nexample.org\n", &["--skip-broken"], 0, "192.0.2.1 is on "),
        (
            b"a\nb\n1.1.1.1/8",
            &[],
            2,
            "(lines 1, 2 are each neither an address, a network nor a range; line 3 is an address",
        ),
        (b"192.0.2.0/24,CH\n", &[], 2, "of a table of countries: say which are meant (--country CH)"),
        (b"192.0.2.0/24,CH\n", &["--country", "ch"], 0, "192.0.2.1 is on "),
        (b"192.0.2.0/24,CH\n", &["--country", "LI"], 2, "no line has the country LI"),
        (b"# nobody\n", &[], 2, "nothing is on it\n"),
        (b"\0\0", &[], 2, "is no text"),
    ] {
        let list = Scratch::new("refused.txt", text);
        let path = list.path();
        let run = rampart(&[&["list", "test", &path, "192.0.2.1"], options].concat());
        let said = format!("{}{}", run.out, run.err);
        assert!(run.status == status && said.contains(expected), "{text:?} {options:?}: {said}");
    }
}

/// Whoever asks for JSON gets JSON, or is told that there is none.
#[test]
fn json_is_printed_or_refused_and_never_left_out() {
    let users = Scratch::new("users.json", b"");
    std::fs::remove_file(&users.0).unwrap();
    let file = users.path();
    let packet: Vec<&str> =
        "--from inside --src 192.168.1.9 --dst 192.0.2.1 --proto tcp --dport 443".split(' ').collect();
    let (home, list) = (example("home.toml"), Scratch::new("json.txt", b"192.0.2.1\n"));
    let rules =
        Scratch::new("json.nft", b"table inet f { chain i { type filter hook input priority 0; } }\n");
    let rows: Vec<(Vec<&str>, i32)> = vec![
        (vec!["check", &home], 0),
        ([vec!["explain", &home], packet.clone()].concat(), 0),
        ([vec!["explain", &home, "--brief"], packet].concat(), 0),
        (vec!["list", "test", list.0.to_str().unwrap(), "192.0.2.1"], 0),
        (vec!["import", "nft", rules.0.to_str().unwrap()], 0),
        (vec!["openapi"], 0),
        (vec!["user", "list", "--file", &file], 0),
        (vec!["user", "add", "anna", "--file", &file], 0),
        (vec!["user", "list", "--file", &file], 0),
        (vec!["user", "groups", "anna", "sales", "--file", &file], 0),
        (vec!["user", "remove", "anna", "--file", &file], 0),
        (vec!["user", "remove", "anna", "--file", &file], 2),
        (vec!["init", "--role", "office-dmz", "--wan", "nonexistent"], 2),
        (vec!["completion", "bash"], 2),
        (vec!["man", "/nonexistent/man"], 2),
        (vec!["agent"], 2),
        (vec!["fleet", "status", "--config", "/nonexistent/fleet.toml"], 2),
    ];
    let password = Scratch::new("password", b"a long password");
    for (words, status) in rows {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rampart"));
        command.args(&words).arg("--json").stdin(std::fs::File::open(&password.0).unwrap());
        let done = command.output().unwrap();
        let json: Result<serde_json::Value, _> = serde_json::from_slice(&done.stdout);
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(status), "{words:?}: {json:?} {said}");
        let json = json.unwrap_or_else(|error| panic!("{words:?}: {error}: {said}"));
        assert_eq!(status == 0, json["ok"] != false, "{words:?}: {json}");
    }
    let _ = std::fs::remove_file(&users.0);
}

/// A policy with mistakes would change nothing, so there is nothing to show but the mistakes, or the lines if these are asked for.
#[test]
fn diff_reports_errors_of_a_file() {
    let (right, wrong) = (SHADOWED, SHADOWED.replace("\"http\"", "\"htpp\""));
    let (right, wrong) =
        (Scratch::new("right.toml", right.as_bytes()), Scratch::new("wrong.toml", wrong.as_bytes()));
    let (right, wrong) = (right.path(), wrong.path());
    let place = format!("{wrong}:13:11: there is no service `htpp`");
    for (args, status, expected) in [
        (vec![right.as_str(), &wrong], 2, place.as_str()),
        (vec![&wrong, &right], 2, &place),
        (vec![&right, &wrong, "--text"], 0, "+service = \"htpp\""),
        (vec![&right, &right], 0, "from "),
    ] {
        let run = rampart(&[&["diff", "--socket", "/nonexistent/x.sock"], &args[..]].concat());
        let said = format!("{}{}", run.out, run.err);
        assert!(run.status == status && said.contains(expected), "{args:?}: {} {said}", run.status);
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

/// Messages whose reader went away (`2>&1 >policy.toml | head`), or that find no room, cost nothing of what a command prints and does.
#[test]
fn messages_that_nobody_reads_end_no_command() {
    let rules = (1..200).map(|mark| format!("-A FORWARD -m mark --mark {mark} -j ACCEPT\n"));
    let rules = format!("*filter\n:FORWARD DROP [0:0]\n{}COMMIT\n", rules.collect::<String>());
    let file = Scratch::new("unread.v4", rules.as_bytes());
    let wrong = Scratch::new("unread.toml", SHADOWED.replace("\"http\"", "\"htpp\"").as_bytes());
    let (file, wrong) = (file.path(), wrong.path());
    let rows: [(&[&str], i32, &str); 3] = [
        (&["import", "iptables-save", &file], 0, "[zones"),
        (&["check", &wrong], 2, ""),
        (&["status", "--socket", "/nonexistent/x.sock"], 3, ""),
    ];
    for (words, status, printed) in rows {
        let run = |messages: std::process::Stdio| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_rampart"));
            command.args(words).stdout(std::process::Stdio::piped()).stderr(messages);
            let done = command.spawn().unwrap().wait_with_output().unwrap();
            (done.status.code(), String::from_utf8(done.stdout).unwrap())
        };
        let (nobody, pipe) = std::io::pipe().unwrap();
        drop(nobody);
        for messages in [pipe.into(), std::fs::File::create("/dev/full").unwrap().into()] {
            let (found, out) = run(messages);
            assert_eq!(found, Some(status), "{words:?}: {out}");
            assert!(out.contains(printed) && out.is_empty() == printed.is_empty(), "{words:?}: {out}");
        }
    }
}

/// `-` is standard input, as for other programs, and messages call it so.
#[test]
fn a_policy_comes_by_standard_input() {
    let given = |args: &[&str], text: &[u8]| {
        let file = Scratch::new("stdin.toml", text);
        let stdin = std::fs::File::open(&file.0).unwrap();
        let done = Command::new(env!("CARGO_BIN_EXE_rampart")).args(args).stdin(stdin).output().unwrap();
        let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
        (done.status.code().unwrap(), said)
    };
    let wrong = SHADOWED.replace("\"http\"", "\"htpp\"");
    let packet = "explain - --from a --to b --src 192.0.2.1 --dst 192.0.2.2 --proto tcp --dport 80";
    let packet: Vec<&str> = packet.split(' ').collect();
    for (args, text, status, expected) in [
        (&packet[..], SHADOWED.as_bytes(), 0, "allow: by the rule `all` (<stdin>:5)"),
        (&packet, wrong.as_bytes(), 2, "<stdin>:13:11: there is no service `htpp`"),
        (
            &["explain", "-", "--packets", "-"],
            SHADOWED.as_bytes(),
            2,
            "standard input is the policy or the packets",
        ),
        (&["check", "-"], SHADOWED.as_bytes(), 0, "<stdin>:10:8: the rule `late` never decides"),
        (&["check", "-"], wrong.as_bytes(), 2, "<stdin>:13:11: there is no service `htpp`"),
        (&["check", "-"], b"\n\xff", 2, "<stdin>:2: not UTF-8 text"),
        (&["check", "./-"], SHADOWED.as_bytes(), 2, "cannot read ./-: No such file"),
        (&["diff", "-", "-"], SHADOWED.as_bytes(), 2, "standard input is one policy"),
        (&["up", "-"], SHADOWED.as_bytes(), 2, "cannot read -: No such file"),
    ] {
        let (found, said) = given(args, text);
        assert!(found == status && said.contains(expected), "{args:?}: {found} {said}");
    }
}
