//! Interfaces by pattern: they come and go by the hundred, and each is closed from its first moment, whoever attaches to it.

use crate::bed::{Bed, Outcome, expect_echo, until};
use crate::{REJECT, WEB};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

/// Interfaces that come and go.
const FLAPS: u32 = 250;

fn policy(bed: &Bed, settings: &str) -> String {
    let path = bed.folder.path().join("p.toml");
    let zones = "[zones]\ninside = { interfaces = 'e*' }\noutside = { interfaces = 'e0' }\nguests = { interfaces = 'g*' }\n";
    std::fs::write(&path, format!("{settings}{zones}{WEB}{REJECT}")).unwrap();
    path.display().to_string()
}

fn attached(bed: &Bed) -> Vec<(String, String)> {
    let status = bed.json(&["status"]);
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    status["interfaces"].as_array().unwrap().iter().map(|it| (text(&it["name"]), text(&it["zone"]))).collect()
}

fn until_attached(bed: &Bed, expected: &[(&str, &str)], what: &str) {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let mut now = attached(bed);
        now.sort();
        if now.iter().map(|(name, zone)| (name.as_str(), zone.as_str())).eq(expected.iter().copied()) {
            return;
        }
        assert!(Instant::now() < deadline, "{what}: {now:?} and never {expected:?}");
    }
}

/// Waits until the firewall has followed all that went before. Between two interfaces that come and go there may be none, so one more comes
/// and stays until it is attached.
fn until_followed(bed: &Bed, what: &str) {
    let both = [("e0", "outside"), ("e1", "inside")];
    bed.ip("fw", &["link", "add", "glast", "type", "veth", "peer", "name", "x9"]);
    bed.ip("fw", &["link", "set", "glast", "up"]);
    until_attached(bed, &[both[0], both[1], ("glast", "guests")], what);
    bed.ip("fw", &["link", "del", "glast"]);
    until_attached(bed, &both, what);
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

#[test]
fn needs_root_interfaces_of_patterns_are_taken_as_they_come() {
    for hook in ["tc", "xdp"] {
        let bed = Bed::new();
        bed.serve(8080);
        let mut firewall = bed.up(&policy(&bed, ""), hook);
        let own = bed.listen_on_the_firewall();
        let both = [("e0", "outside"), ("e1", "inside")];
        until_attached(&bed, &both, "a name comes before a pattern");
        bed.expect(8080, Outcome::Answered, hook);
        bed.expect_of_the_firewall(own, Outcome::Silence, hook);
        // The inside goes and comes back under another name, with other numbers.
        bed.ip("fw", &["link", "del", "e1"]);
        until_attached(&bed, &both[..1], "gone");
        bed.join("in", "e7", "10.81.1", "1");
        until_attached(&bed, &[("e0", "outside"), ("e7", "inside")], "another");
        bed.until_call(8080, Outcome::Answered);
        bed.expect_of_the_firewall(own, Outcome::Silence, &format!("{hook}: closed again"));
        // Another name of the same zone: connections go on.
        let mut open = bed.connect(8080).unwrap();
        bed.ip("fw", &["link", "set", "e7", "down"]);
        bed.ip("fw", &["link", "set", "e7", "name", "e8"]);
        bed.ip("fw", &["link", "set", "e8", "up"]);
        bed.ip("fw", &["neighbour", "replace", "10.81.1.2", "lladdr", "02:00:00:00:01:02", "dev", "e8"]);
        until_attached(&bed, &[("e0", "outside"), ("e8", "inside")], "renamed");
        expect_echo(&mut open, &format!("{hook}: its flow goes on"));
        // One that has the number of another.
        let index = bed.host("fw").ifindex("e8").to_string();
        bed.ip("fw", &["link", "del", "e8"]);
        bed.ip("fw", &["link", "add", "g1", "index", &index, "type", "veth", "peer", "name", "h1"]);
        bed.ip("fw", &["link", "set", "g1", "up"]);
        until_attached(&bed, &[("e0", "outside"), ("g1", "guests")], "another with its number");
        let programs =
            bed.inside("fw", || dataplane::Earlier::find().unwrap().unwrap().interfaces().to_vec());
        assert!(programs.contains(&"g1".to_owned()), "{programs:?}");
        firewall.signal(Signal::SIGTERM);
        firewall.end();
    }
}

#[test]
fn needs_root_a_hundred_flaps_leave_nothing() {
    let bed = Bed::new();
    let mut firewall = bed.up(&policy(&bed, ""), "auto");
    let pid = firewall.child.id();
    let flap = |number: u32| {
        let name = format!("g{number}");
        bed.ip("fw", &["link", "add", &name, "type", "veth", "peer", "name", "x9"]);
        bed.ip("fw", &["link", "set", &name, "up"]);
        bed.ip("fw", &["link", "del", &name]);
    };
    flap(0);
    until_followed(&bed, "after one");
    // The least of many: that of a request that is just being answered is gone in a moment.
    let before = (0..1000).map(|_| descriptors(pid)).min().unwrap();
    (1..FLAPS).for_each(flap);
    until_followed(&bed, "after all");
    until("no descriptor is left", || descriptors(pid) <= before);
    until("no trouble stands", || bed.json(&["status"])["troubles"] == serde_json::json!([]));
    // There still is room for as many as there may be.
    for number in 0..20 {
        bed.ip(
            "fw",
            &["link", "add", &format!("g{number}"), "type", "veth", "peer", "name", &format!("h{number}")],
        );
        bed.ip("fw", &["link", "set", &format!("g{number}"), "up"]);
    }
    let deadline = Instant::now() + Duration::from_secs(120);
    while attached(&bed).len() < 22 {
        assert!(Instant::now() < deadline, "{:?}", attached(&bed));
    }
    firewall.signal(Signal::SIGINT);
    assert_eq!(firewall.end(), Some(0));
}

/// While the daemon stands still, or is dead, nobody attaches to what comes: it is closed all the same.
#[test]
fn needs_root_an_interface_is_closed_before_anybody_attaches_to_it() {
    for (settings, is_killed) in [("", false), ("", true), ("[settings]\nforwarding = 'kernel'\n", false)] {
        let what = format!("{settings:?}, killed: {is_killed}");
        let bed = Bed::unjoined();
        bed.join("out", "e0", "10.81.2", "2");
        let mut firewall = bed.up(&policy(&bed, settings), "auto");
        let end = if is_killed { Signal::SIGKILL } else { Signal::SIGSTOP };
        firewall.signal(end);
        bed.join("in", "e1", "10.81.1", "1");
        let own = bed.listen_on_the_firewall();
        bed.expect_of_the_firewall(own, Outcome::Silence, &format!("{what}: nobody has attached"));
        let sent = bed.inside("fw", || {
            std::net::TcpStream::connect_timeout(&"10.81.1.2:9".parse().unwrap(), Duration::from_secs(2))
        });
        let refused = sent.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused);
        assert!(!refused, "{what}: what the machine sends does not leave, either");
        if is_killed {
            firewall.end();
            firewall = bed.up_with(&[]);
        } else {
            firewall.signal(Signal::SIGCONT);
        }
        until_attached(&bed, &[("e0", "outside"), ("e1", "inside")], &what);
        bed.serve(8080);
        bed.until_call(8080, if settings.is_empty() { Outcome::Answered } else { Outcome::Silence });
        bed.expect_of_the_firewall(own, Outcome::Silence, &format!("{what}: judged"));
        let (status, text) = bed.rampart(&["down"]);
        assert_eq!((status, firewall.end()), (0, Some(0)), "{what}: {text}");
        bed.expect_of_the_firewall(own, Outcome::Answered, &format!("{what}: nothing is left of it"));
    }
}

#[test]
fn needs_root_interfaces_move_between_zones_with_a_policy() {
    for hook in ["tc", "xdp"] {
        let bed = Bed::new();
        bed.serve(8080);
        let usual = bed.policy("p.toml", &format!("{WEB}{REJECT}"));
        // What is inside is by a pattern, so it may also be the zone of whatever comes.
        let turned = bed.folder.path().join("turned.toml");
        let zones = "[zones]\ninside = { interfaces = 'e0' }\noutside = { interfaces = 'e*' }\n";
        std::fs::write(&turned, format!("{zones}{WEB}{REJECT}")).unwrap();
        let turned = turned.display().to_string();
        let _firewall = bed.up(&usual, hook);
        let own = bed.listen_on_the_firewall();
        bed.expect(8080, Outcome::Answered, hook);
        for (policy, zones, wanted) in [
            (&turned, [("e0", "inside"), ("e1", "outside")], Outcome::Silence),
            (&usual, [("e0", "outside"), ("e1", "inside")], Outcome::Answered),
        ] {
            bed.json(&["apply", policy]);
            until_attached(&bed, &zones, hook);
            bed.expect(8080, wanted, &format!("{hook}: {policy}"));
            bed.expect_of_the_firewall(own, Outcome::Silence, &format!("{hook}: nothing opened"));
        }
        // A policy that the kernel does not take leaves every interface open where it was.
        let wrong = bed.folder.path().join("wrong.toml");
        let text = std::fs::read_to_string(&turned).unwrap().replace("'e*'", "['e*', 'not-there']");
        std::fs::write(&wrong, text).unwrap();
        let (status, said) = bed.rampart(&["apply", &wrong.display().to_string()]);
        assert_ne!(status, 0, "{said}");
        bed.expect(8080, Outcome::Answered, &format!("{hook}: as before"));
    }
}

/// An interface goes to another zone while connections are open, by a policy that is applied and by one that a daemon starts with: they end, and a flow
/// of the same ports is judged by the new zone at once.
#[test]
fn needs_root_flows_of_an_interface_that_moves_end() {
    let rules = |from: &str| {
        format!(
            "[[rules]]\nname = 'web'\nfrom = [{from}]\nto = ['outside', 'self']\nservice = ['tcp/8080', 'udp/7']\naction = 'allow'\n"
        )
    };
    for hook in ["tc", "xdp"] {
        let bed = Bed::new();
        bed.serve(8080);
        bed.ip("fw", &["link", "add", "e2", "type", "veth", "peer", "name", "e3"]);
        bed.ip("fw", &["link", "set", "e2", "up"]);
        let write = |name: &str, zones: &str, from: &str| {
            let path = bed.folder.path().join(name);
            std::fs::write(
                &path,
                format!("[zones]\noutside = {{ interfaces = 'e0' }}\n{zones}{}", rules(from)),
            )
            .unwrap();
            path.display().to_string()
        };
        let one = write("one.toml", "inside = { interfaces = ['e1', 'e2'] }\n", "'inside'");
        let both = "inside = { interfaces = 'e2' }\nguests = { interfaces = 'e1' }\n";
        let other = write("other.toml", both, "'inside', 'guests'");
        let mut firewall = bed.up(&one, hook);
        // Bound once: a child that another test's thread has just forked keeps a socket's address taken for a moment after it was closed here.
        let asks = bed.inside("in", || std::net::UdpSocket::bind("10.81.1.2:7777").unwrap());
        let answers = bed.inside("out", || std::net::UdpSocket::bind("10.81.2.2:7").unwrap());
        answers.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        let ask = || {
            bed.inside("in", || asks.send_to(b"x", "10.81.2.2:7").unwrap());
            answers.recv_from(&mut [0]).unwrap()
        };
        for applies in [true, false] {
            let web = bed.connect(8080).unwrap();
            let (_, back) = ask();
            assert_eq!(bed.json(&["flows", "host=10.81.2.2"])["matched"], 2, "{hook}");
            let moved = if applies { &other } else { &one };
            if applies {
                bed.json(&["apply", moved]);
            } else {
                firewall.signal(nix::sys::signal::Signal::SIGKILL);
                firewall.end();
                firewall = bed.up(moved, hook);
            }
            assert_eq!(bed.json(&["flows", "host=10.81.2.2"])["matched"], 0, "{hook}: {moved}");
            // A host outside that goes on sending opens nothing, and hinders no other.
            answers.send_to(b"y", back).unwrap();
            ask();
            drop(web);
            bed.expect(8080, Outcome::Answered, &format!("{hook}: {moved}"));
            bed.json(&["flows", "host=10.81.2.2", "--kill"]);
        }
    }
}
