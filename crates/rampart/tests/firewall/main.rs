//! The firewall as a user runs it, between two hosts in namespaces. Needs root; each test makes namespaces of its own and
//! removes them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;
mod bridge;
mod certificates;
mod day;
mod dns_domains;
mod dns_gateway;
mod drivers;
mod example;
mod export;
mod fetched;
mod fleet;
mod fragments;
mod ftp_gateway;
mod gateway;
mod gateway_clients;
mod gateway_http2;
mod gateway_users;
mod gateway_weather;
mod history;
mod http_gateway;
mod interrupted;
mod kernel_forwarding;
mod layer_3;
mod metrics;
mod own_session;
mod patterns;
mod privileges;
mod restart;
mod scans;
mod several_gateways;
mod tampering;
mod translation;
mod transparent;
mod troubles;
mod tunnels;
mod tutorials;
mod unattended;
mod web;

use bed::{Bed, INSIDE, Outcome, expect_echo, expect_no_echo, until};
use nix::errno::Errno;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const WEB: &str =
    "[[rules]]\nname = 'web'\nfrom = 'inside'\nto = 'outside'\nservice = 'tcp/8080'\naction = 'allow'\n";
const MAIL: &str =
    "[[rules]]\nname = 'mail'\nfrom = 'inside'\nto = 'outside'\nservice = 'tcp/2525'\naction = 'allow'\n";
const TELNET: &str =
    "[[rules]]\nname = 'telnet'\nfrom = 'inside'\nto = 'outside'\nservice = 'telnet'\naction = 'deny'\n";
const REJECT: &str = "[[defaults]]\nfrom = 'inside'\nto = 'outside'\naction = 'reject'\n";

fn hits(rules: &Value, name: &str) -> u64 {
    let rule = rules["rules"].as_array().unwrap().iter().find(|rule| rule["name"] == name).unwrap();
    rule["hits"].as_u64().unwrap()
}

#[test]
fn needs_root_policy_decides_on_both_hooks() {
    for hook in ["tc", "xdp"] {
        let bed = Bed::new();
        for port in [8080, 2525, 23, 9] {
            bed.serve(port);
        }
        let policy = bed.policy("p.toml", &format!("{TELNET}{WEB}{REJECT}"));
        let firewall = bed.up(&policy, hook);
        let status = bed.json(&["status"]);
        assert_eq!(status["namespace"], bed.namespace("fw"));
        for interface in status["interfaces"].as_array().unwrap() {
            assert_eq!(interface["hook"], hook, "{status}");
        }
        for (port, expected) in [
            (8080, Outcome::Answered),
            (23, Outcome::Silence),
            (9, Outcome::Refused),
            (2525, Outcome::Refused),
        ] {
            bed.expect(port, expected, hook);
        }
        let rules = bed.json(&["rules"]);
        assert_eq!(hits(&rules, "web"), 1, "{hook}: {rules}");
        assert!(hits(&rules, "telnet") >= 1, "{hook}: {rules}");
        let drops = bed.json(&["drops"]);
        assert!(drops["drops"].as_array().unwrap().len() >= 2, "{hook}: {drops}");
        drop(firewall);
    }
}

#[test]
fn needs_root_policies_change_under_traffic_without_losing_a_connection_and_counters_follow() {
    let bed = Bed::new();
    bed.serve(8080);
    bed.serve(2525);
    let narrow = bed.policy("narrow.toml", &format!("{WEB}{REJECT}"));
    let wide = bed.policy("wide.toml", &format!("{MAIL}{TELNET}{WEB}{REJECT}"));
    let _firewall = bed.up(&narrow, "auto");
    let (stop, calls) = (AtomicBool::new(false), AtomicU32::new(0));
    let mut long = bed.connect(8080).unwrap();
    std::thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                bed.expect(8080, Outcome::Answered, "both policies");
                calls.fetch_add(1, Ordering::Relaxed);
            }
        });
        for _ in 0..10 {
            bed.expect(2525, Outcome::Refused, "the narrow policy");
            let applied = bed.json(&["apply", &wide]);
            assert_eq!(applied["changes"]["added"], serde_json::json!(["mail", "telnet"]));
            bed.expect(2525, Outcome::Answered, "the wide policy");
            expect_echo(&mut long, "what is open goes on");
            assert_eq!(
                bed.json(&["apply", &narrow])["changes"]["removed"],
                serde_json::json!(["mail", "telnet"])
            );
        }
        stop.store(true, Ordering::Relaxed);
        traffic.join().unwrap();
    });
    let calls = u64::from(calls.load(Ordering::Relaxed)) + 1;
    assert_eq!(hits(&bed.json(&["rules"]), "web"), calls, "one a connection, whatever the generation");
}

#[test]
fn needs_root_an_open_flow_is_judged_again_and_can_be_ended() {
    let bed = Bed::new();
    bed.serve(8080);
    let policy = bed.policy("p.toml", &format!("{WEB}{REJECT}"));
    let nothing = bed.policy("nothing.toml", "");
    let _firewall = bed.up(&policy, "auto");
    let mut stream = bed.connect(8080).unwrap();
    expect_echo(&mut stream, "an open connection");
    let flows = bed.json(&["flows", "proto=tcp", "dport=8080"]);
    let flow = &flows["flows"][0];
    assert_eq!(flows["matched"], 1, "{flows}");
    assert_eq!((&flow["source"], &flow["rule"]), (&INSIDE.into(), &"web".into()));
    assert_eq!((&flow["from"], &flow["to"]), (&"inside".into(), &"outside".into()));
    assert_eq!(flow["state"], "established");
    assert!(flow["packets_out"].as_u64().unwrap() >= 3 && flow["bytes_back"].as_u64().unwrap() > 100);
    assert_eq!(bed.json(&["flows", "dport=8081"])["matched"], 0);
    assert_eq!(
        bed.json(&["status"])["flows"],
        serde_json::json!({ "open": 1, "half_open": 0, "unanswered": 0, "capacity": 1_048_576 })
    );
    assert_eq!(bed.json(&["flows", "rule=web", "--kill"])["killed"], 1);
    assert_eq!(bed.json(&["flows", "rule=web"])["matched"], 0);
    assert_eq!(bed.json(&["status"])["flows"]["open"], 0);
    expect_no_echo(&mut stream, "what was established is unknown now, and data open no connection");
    let mut stream = bed.connect(8080).unwrap();
    expect_echo(&mut stream, "an open connection");
    bed.json(&["apply", &nothing]);
    expect_no_echo(&mut stream, "the new policy allows nothing");
}

#[test]
fn needs_root_nothing_passes_before_up_and_after_its_end() {
    let bed = Bed::new();
    bed.serve(8080);
    let policy = bed.policy("p.toml", WEB);
    // A router that the firewall takes over.
    bed.sysctl("net/ipv4/ip_forward", "1");
    bed.expect(8080, Outcome::Answered, "a router before the firewall");
    for end in ["down", "SIGINT", "down without a daemon"] {
        let mut firewall = bed.up(&policy, "auto");
        bed.expect(8080, Outcome::Answered, end);
        match end {
            "down" => assert_eq!(bed.rampart(&["down"]).0, 0),
            "SIGINT" => firewall.signal(Signal::SIGINT),
            _ => firewall.signal(Signal::SIGTERM),
        }
        assert_eq!(firewall.end(), Some(0), "{end}");
        if end == "down without a daemon" {
            bed.expect(8080, Outcome::Answered, "SIGTERM ends the daemon alone");
            let (status, text) = bed.rampart(&["down"]);
            assert!(status == 0 && text.contains("no daemon ran"), "{text}");
        }
        assert_ne!(bed.call(8080), Outcome::Answered, "{end}");
        assert_eq!(bed.rampart(&["status"]).0, 3, "{end}");
    }
}

/// Whatever ended the daemon, `down` leaves interfaces as the firewall found them.
#[test]
fn needs_root_settings_of_interfaces_are_put_back() {
    const SETTINGS: [&str; 6] = [
        "net.ipv4.conf.lo.forwarding=0",
        "net.ipv6.conf.lo.forwarding=0",
        "net.ipv4.conf.lo.accept_local=0",
        "net.ipv4.conf.lo.rp_filter=1",
        "net.ipv6.conf.e0.forwarding=0",
        "net.ipv6.conf.e1.forwarding=1",
    ];
    let bed = Bed::new();
    let policy = bed.policy("p.toml", WEB);
    let settings = || {
        let names = SETTINGS.map(|it| it.split('=').next().unwrap());
        let values = bed.host("fw").run("sysctl", &[&["-n"][..], &names].concat());
        let values = values.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        names.iter().zip(values).map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
    };
    bed.host("fw").run("sysctl", &[&["-qw"][..], &SETTINGS].concat());
    for signals in [&[][..], &[Signal::SIGTERM], &[Signal::SIGKILL], &[Signal::SIGKILL, Signal::SIGKILL]] {
        assert_eq!(settings(), SETTINGS, "before {signals:?}");
        let mut firewall = bed.up(&policy, "auto");
        assert_ne!(settings(), SETTINGS, "while it runs");
        for (number, signal) in signals.iter().enumerate() {
            firewall.signal(*signal);
            firewall.end();
            if number == 0 && signals.len() > 1 {
                firewall = bed.up(&policy, "auto");
            }
        }
        let (status, text) = bed.rampart(&["down"]);
        assert_eq!(status, 0, "{signals:?}: {text}");
        assert_eq!(settings(), SETTINGS, "after {signals:?}");
    }
    // And with a daemon that came after one that was killed.
    let mut first = bed.up(&policy, "auto");
    first.signal(Signal::SIGKILL);
    first.end();
    let _next = bed.up(&policy, "auto");
    assert_eq!(bed.rampart(&["down"]).0, 0);
    assert_eq!(settings(), SETTINGS, "after a restart");
}

#[test]
fn needs_root_a_killed_firewall_goes_on_judging_and_the_next_takes_over() {
    for hook in ["tc", "xdp"] {
        let bed = Bed::new();
        bed.serve(8080);
        bed.serve(2525);
        let policy = bed.policy("p.toml", &format!("{WEB}{REJECT}"));
        let other = bed.policy("other.toml", &format!("{MAIL}{REJECT}"));
        let mut firewall = bed.up(&policy, hook);
        let own = bed.listen_on_the_firewall();
        bed.expect(8080, Outcome::Answered, hook);
        bed.expect_of_the_firewall(own, Outcome::Silence, hook);
        firewall.signal(Signal::SIGKILL);
        firewall.end();
        assert_eq!(bed.rampart(&["status"]).0, 3, "{hook}");
        bed.expect(8080, Outcome::Answered, hook);
        bed.expect(2525, Outcome::Refused, hook);
        bed.expect_of_the_firewall(own, Outcome::Silence, &format!("{hook}: its own services are not open"));
        let mut next = bed.up(&other, hook);
        bed.expect(8080, Outcome::Refused, hook);
        bed.expect(2525, Outcome::Answered, hook);
        // One that was killed leaves what the next does not want, too.
        next.signal(Signal::SIGKILL);
        next.end();
        let narrow = bed.folder.path().join("narrow.toml");
        std::fs::write(&narrow, "[zones]\noutside = { interfaces = 'e0' }\n").unwrap();
        let mut last = bed.up(&narrow.display().to_string(), hook);
        bed.expect_of_the_firewall(own, Outcome::Answered, &format!("{hook}: nothing is left on e1"));
        last.signal(Signal::SIGINT);
        assert_eq!(last.end(), Some(0));
    }
}

/// What a rule rejects of what the machine's own programs send, they hear of at once. Who sends under the address of another, as a transparent proxy
/// does, hears nothing, and neither does that other.
#[test]
fn needs_root_own_programs_hear_of_what_is_rejected() {
    const RULE: &str = "[[rules]]\nname = 'own'\nfrom = 'self'\nto = 'outside'\nservice = ['tcp/2525', 'udp/2525']\naction = 'reject'\n";
    const AS_ANOTHER: &str = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, 19, 1)
s.bind(('10.81.1.2', 0))
s.sendto(b'x', ('10.81.2.2', 2525))
";
    let bed = Bed::new();
    for (host, interface, end) in [("fw", "e0", 1), ("out", "x", 2)] {
        bed.host(host).ip(&format!("address add fd81:2::{end}/64 dev {interface} nodad"));
    }
    let _firewall = bed.up(&bed.policy("p.toml", RULE), "tc");
    for (to, prohibited) in [("10.81.2.2:2525", Errno::EHOSTUNREACH), ("[fd81:2::2]:2525", Errno::EACCES)] {
        let wanted = [Errno::ECONNREFUSED, prohibited].map(|error| Some(error as i32));
        assert_eq!(kernel_forwarding::errors_of(bed.host("fw"), to), wanted, "{to}");
    }
    let counted = || [bed.dropped("rule-reject"), bed.counted("answered"), bed.counted("forwarded")];
    assert_eq!(counted(), [4, 4, 0]);
    bed.host("fw").run("python3", &["-c", AS_ANOTHER]);
    until("the last one is dropped", || bed.dropped("rule-reject") == 5);
    assert_eq!(counted(), [5, 4, 0]);
}

#[test]
fn needs_root_a_second_firewall_in_the_namespace_is_refused() {
    let bed = Bed::new();
    let policy = bed.policy("p.toml", WEB);
    let firewall = bed.up(&policy, "auto");
    for socket in [vec![], vec!["--socket", "/tmp/rampart-another.sock"]] {
        let (status, text) = bed.rampart(&[&["up", policy.as_str()], socket.as_slice()].concat());
        let expected = format!("runs in this network namespace already (process {})", firewall.child.id());
        assert!(status == 3 && text.contains(&expected), "{text}");
    }
    assert_eq!(bed.rampart(&["status"]).0, 0);
}

#[test]
fn needs_root_what_cannot_be_is_refused_with_what_to_do() {
    let bed = Bed::new();
    let missing = bed.policy("missing.toml", "").replace("missing.toml", "e9.toml");
    std::fs::write(&missing, "[zones]\na = { interfaces = 'e1' }\nb = { interfaces = 'e9' }\n").unwrap();
    let (status, text) = bed.rampart(&["up", &missing]);
    assert_eq!(status, 3, "{text}");
    assert!(text.contains("zone `b`: there is no interface `e9` in this network namespace"), "{text}");
    let twice = bed.policy("twice.toml", "[zones.again]\ninterfaces = 'e1'\n");
    let (status, text) = bed.rampart(&["up", &twice]);
    assert!(status == 2 && text.contains("twice.toml:5:14: the interface `e1`"), "{text}");
    // Nothing is left: another starts at once.
    drop(bed.up(&bed.policy("p.toml", WEB), "auto"));
}

#[test]
fn needs_root_an_interface_that_goes_is_reported_and_taken_again_when_it_is_back() {
    let bed = Bed::new();
    bed.serve(8080);
    let mut firewall = bed.up(&bed.policy("p.toml", WEB), "auto");
    bed.expect(8080, Outcome::Answered, "before the interface goes");
    bed.ip("fw", &["link", "del", "e1"]);
    firewall
        .until("trouble: the interface `e1` of zone `inside` is gone: nothing passes there until it is back");
    bed.join("in", "e1", "10.81.1", "1");
    firewall.until("over: the interface `e1` of zone `inside` is gone");
    bed.expect(8080, Outcome::Answered, "the interface is back");
    assert_eq!(bed.json(&["status"])["troubles"], serde_json::json!([]));
    bed.sysctl("net/ipv4/ip_forward", "1");
    firewall.until("trouble: net.ipv4.ip_forward was turned on");
}

#[test]
fn needs_root_a_router_that_is_not_taken_over_stays_one() {
    let bed = Bed::new();
    bed.serve(8080);
    bed.sysctl("net/ipv4/ip_forward", "1");
    let rule = |i: u32| WEB.replace("'web'", &format!("'r{i}'")) + "limit = { connections = 1 }\n";
    let too_many = bed.policy("limits.toml", &(0..16_385).map(rule).collect::<String>());
    let (status, text) = bed.rampart(&["up", &too_many]);
    assert!(
        status == 2
            && text
                .contains("the rule `r16384`: 16385 rules have `limit` or `alert`, and there can be 16384"),
        "{text}"
    );
    bed.expect(8080, Outcome::Answered, "a router that is not taken over");
}

#[test]
fn needs_root_log_limit_and_alert_reach_whoever_asks() {
    let bed = Bed::new();
    bed.serve(8080);
    let rest = "log = 'both'\nlimit = { rate = '1/h', burst = 2, per = 'source' }\n\
        alert = { count = 2, within = '1h', per = 'source' }\n";
    let mut firewall = bed.up(&bed.policy("p.toml", &format!("{WEB}{rest}")), "tc");
    for expected in [Outcome::Answered, Outcome::Answered, Outcome::Silence] {
        bed.expect(8080, expected, "two of three are within the limit");
    }
    assert_eq!(bed.rampart(&["flows", "--kill", "rule=web"]).0, 0);
    let log = bed.json(&["log"]);
    let events = log["events"].as_array().unwrap();
    let of = |event: &str| events.iter().filter(|it| it["event"] == event).collect::<Vec<_>>();
    assert_eq!((of("opened").len(), of("closed").len(), of("alert").len()), (2, 2, 1), "{log}");
    assert!(of("refused").iter().all(|it| it["reason"] == "rate" && it["rule"] == "web"), "{log}");
    assert!(!of("refused").is_empty(), "{log}");
    assert_eq!(of("closed")[0]["closed"]["packets_out"].as_u64().map(|n| n > 2), Some(true), "{log}");
    let status = bed.json(&["status"]);
    let alert = &status["alerts"][0];
    assert_eq!(
        (&alert["rule"], &alert["threshold"], &alert["per"]),
        (&"web".into(), &2.into(), &"source".into())
    );
    let rules = bed.json(&["rules"]);
    assert_eq!(rules["rules"][0]["limited"].as_u64().map(|n| n > 0), Some(true), "{rules}");
    assert_eq!(bed.json(&["drops"])["drops"][0]["reason"], "rate");
    firewall.until("alert: web: 3 within 1h");
}

#[test]
fn needs_root_somebody_else_is_refused_because_only_root_can() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    let folder = tempfile::tempdir().unwrap();
    let (program, policy) = (folder.path().join("rampart"), folder.path().join("p.toml"));
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    testkit::namespace::copy_program(env!("CARGO_BIN_EXE_rampart"), &program);
    std::fs::write(&policy, "[zones]\na = { interfaces = 'e1' }\n").unwrap();
    let done =
        std::process::Command::new(&program).arg("up").arg(&policy).uid(65_534).gid(65_534).output().unwrap();
    let errors = String::from_utf8(done.stderr).unwrap();
    assert_eq!(
        (done.status.code(), errors.trim_end()),
        (Some(3), "rampart: only root can take packets: run it with sudo, or as a service of root")
    );
}

/// The fast path asks for routes by destination alone: it would send past a VRF, or past a rule that looks at sources.
#[test]
fn needs_root_policy_routes_and_vrfs_are_refused_unless_the_kernel_forwards_or_they_may_be_passed() {
    let bed = Bed::new();
    let policy = bed.policy("fast", WEB);
    for (make, undo, why) in [
        (
            "rule add from 198.18.1.0/24 table 100",
            "rule del from 198.18.1.0/24 table 100",
            "a policy route (`ip rule`, IPv4, priority 32765)",
        ),
        (
            "-6 rule add from 2001:db8::/32 table 100 priority 7",
            "-6 rule del priority 7",
            "a policy route (`ip rule`, IPv6, priority 7)",
        ),
        (
            "rule add fwmark 1 table 100 priority 8",
            "rule del priority 8",
            "a policy route (`ip rule`, IPv4, priority 8)",
        ),
        // What a VRF brings along, also where the kernel has no such device.
        ("rule add l3mdev priority 1000", "rule del priority 1000", "a VRF (`ip rule`, IPv4, priority 1000)"),
    ] {
        drop(bed.up(&policy, "auto"));
        assert_eq!(bed.rampart(&["down"]).0, 0, "{why}");
        bed.host("fw").ip(make);
        let (status, said) = bed.rampart(&["up", &policy]);
        assert!(status == 3 && said.contains(why) && said.contains("--force"), "{why}: {status}: {said}");
        assert!(said.contains("forwarding = \"kernel\""), "{why}: {said}");
        drop(bed.up_with(&[&policy, "--force"]));
        assert_eq!(bed.rampart(&["down"]).0, 0, "{why}");
        bed.host("fw").ip(undo);
    }
}

#[test]
fn needs_root_connection_tracking_beside_the_fast_path_is_said_once() {
    let bed = Bed::new();
    bed.host("fw")
        .nft("table inet f { chain c { type filter hook input priority 0; ct state established accept; }; }");
    let firewall = bed.up(&bed.policy("fast", WEB), "auto");
    let said = "the chain `c` of the table `f` (nftables) tracks connections: the kernel puts fragments together for it";
    assert!(firewall.start.contains(said), "{}", firewall.start);
    assert_eq!(bed.json(&["status"])["troubles"].as_array().unwrap().len(), 0, "who starts it knows");
}

/// What is set up while the firewall runs is named as what is there before is, for as long as it is there; what `--force` went past is not.
#[test]
fn needs_root_policy_routes_and_translation_that_come_later_are_a_trouble() {
    let bed = Bed::new();
    bed.host("fw").ip("rule add from 198.18.1.0/24 table 100 priority 5");
    let mut firewall = bed.up_with(&[&bed.policy("fast", WEB), "--force"]);
    let nft = |rules: &str| bed.host("fw").nft(rules);
    let masquerade = "table ip nat { chain c { type nat hook postrouting priority 100; masquerade; }; }";
    bed.host("fw").ip("rule add from 198.18.2.0/24 table 100 priority 6");
    nft(masquerade);
    let troubles = [
        "a policy route (`ip rule`, IPv4, priority 6): it was set up since `up`",
        "the chain `c` of the table `nat` (nftables) masquerades: it was set up since `up`",
        "(nftables) tracks connections: it was set up since `up`, and the kernel puts fragments together for it",
    ];
    let is_said = |words: &str| bed.json(&["status"])["troubles"].to_string().contains(words);
    for words in troubles {
        until(words, || is_said(&words.replace('"', "\\\"")));
    }
    assert!(!is_said("priority 5)"), "{}", bed.json(&["status"]));
    assert!(firewall.until("trouble: a policy route").contains("priority 6"));
    bed.host("fw").ip("rule del priority 6");
    nft("delete table ip nat");
    until("what is gone is no trouble any more", || !troubles.iter().any(|words| is_said(words)));
}
