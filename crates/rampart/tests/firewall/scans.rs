//! Scans through a real daemon: who is found, what is blocked, and that a daemon's death and other policies change nothing of it.

use crate::bed::{Bed, Outcome, expect_echo, until};
use nix::sys::signal::Signal;
use serde_json::Value;

const WEB: &str =
    "[[rules]]\nname = 'web'\nfrom = 'inside'\nto = 'outside'\nservice = 'tcp/8080'\naction = 'allow'\n";
const SCANS: &str = "[scans]\nports = 50\nblock = '1h'\n";
const PORTS: u16 = 200;

fn scan(bed: &Bed) {
    let socket = bed.inside("in", || std::net::UdpSocket::bind((crate::bed::INSIDE, 0)).unwrap());
    for port in 1..=PORTS {
        // What the firewall rejects it may answer.
        let _ = socket.send_to(b"x", (crate::bed::OUTSIDE, port));
    }
}

fn blocks(bed: &Bed) -> Vec<Value> {
    bed.json(&["blocks"])["blocks"].as_array().unwrap().clone()
}

#[test]
fn needs_root_scans_are_found_blocked_and_remembered() {
    for hook in ["tc", "xdp"] {
        let bed = Bed::new();
        bed.serve(8080);
        let policy = |name: &str, rest: &str| bed.policy(name, &format!("{WEB}{rest}"));
        let blocking = policy("p.toml", SCANS);
        let mut firewall = bed.up(&blocking, hook);
        let mut known = bed.connect(8080).unwrap();
        expect_echo(&mut known, "before the scan");
        scan(&bed);
        until("the source is blocked", || !blocks(&bed).is_empty());
        let found = blocks(&bed);
        assert_eq!(
            (&found[0]["source"], &found[0]["zone"]),
            (&Value::from(crate::bed::INSIDE), &Value::from("inside")),
            "{found:?}"
        );
        let of_scan = || {
            let (status, text) = bed.rampart(&["log", "event=scan"]);
            (status, text.contains("and is blocked"))
        };
        until("the event is there", || of_scan() == (0, true));
        bed.expect(8080, Outcome::Silence, "a new flow of a blocked source");
        assert!(bed.dropped("scan-blocked") > 0, "{hook}");
        expect_echo(&mut known, "a known flow of a blocked source");
        firewall.signal(Signal::SIGKILL);
        firewall.end();
        bed.expect(8080, Outcome::Silence, "while the daemon is dead");
        expect_echo(&mut known, "while the daemon is dead");
        firewall = bed.up(&blocking, hook);
        assert_eq!(blocks(&bed)[0]["source"], found[0]["source"], "{hook}: the next daemon knows");
        bed.expect(8080, Outcome::Silence, "under the next daemon");
        bed.json(&["apply", &policy("none.toml", "")]);
        assert_eq!(blocks(&bed), [Value::Null; 0], "{hook}: this policy blocks nobody");
        bed.expect(8080, Outcome::Answered, "a policy without scans");
        bed.json(&["apply", &blocking]);
        bed.expect(8080, Outcome::Silence, "the policy before");
        assert_eq!(bed.json(&["blocks", "--end", crate::bed::INSIDE])["ended"], 1);
        bed.expect(8080, Outcome::Answered, "a user ended it");
        bed.json(&["apply", &policy("except.toml", &format!("{SCANS}except = '10.81.1.0/24'\n"))]);
        scan(&bed);
        bed.expect(8080, Outcome::Answered, "a source that is excepted");
        expect_echo(&mut known, "after all that");
        drop(firewall);
    }
}

/// Where the kernel forwards.
#[test]
fn needs_root_scans_are_found_where_the_kernel_forwards() {
    let bed = Bed::new();
    bed.serve(8080);
    bed.sysctl("net/ipv4/ip_forward", "1");
    let policy = bed.policy("p.toml", &format!("[settings]\nforwarding = 'kernel'\n{WEB}{SCANS}"));
    let _firewall = bed.up_with(&[&policy]);
    bed.expect(8080, Outcome::Answered, "before the scan");
    scan(&bed);
    until("the source is blocked", || !blocks(&bed).is_empty());
    bed.expect(8080, Outcome::Silence, "a new flow of a blocked source");
}
