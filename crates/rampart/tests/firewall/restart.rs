//! A firewall whose daemon ends, however it ends, and is started again: what runs across it goes on, what is closed stays closed.

use crate::bed::{Bed, INSIDE, OUTSIDE, Outcome, expect_echo, expect_no_echo, serve, until};
use crate::{REJECT, WEB};
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use testkit::held::Family;

const DOWNLOADS: u64 = 100;
const PORT: u16 = 8080;
const KERNEL: &str = "[settings]\nforwarding = 'kernel'\n";
const CHUNK: usize = 2048;
/// Between the chunks of a download, so that a hundred of them leave the machine its time: at five times the bytes and a fifth of the
/// pause they took one core of two.
const PACE: Duration = Duration::from_millis(50);
/// After so long without a byte a download has failed. TCP itself gives up much later.
const STUCK: Duration = Duration::from_secs(120);

/// So many bytes of a download from an offset on: every eight say where they belong. A hundred downloads are compared word by word,
/// because byte by byte they would take a core for themselves.
fn content(download: u64, offset: u64, length: usize) -> Vec<u8> {
    const WORD: u64 = size_of::<u64>() as u64;
    let mut bytes = Vec::with_capacity(length + 2 * WORD as usize);
    for word in offset / WORD..=(offset + length as u64) / WORD {
        let mixed = (word ^ download << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bytes.extend_from_slice(&mixed.to_be_bytes());
    }
    let skipped = (offset % WORD) as usize;
    bytes[skipped..skipped + length].to_vec()
}

/// Downloads through the firewall, over the kernel's TCP on both sides.
pub(crate) struct Downloads {
    stop: Arc<AtomicBool>,
    received: Arc<Vec<AtomicU64>>,
    clients: Vec<JoinHandle<u64>>,
    servers: JoinHandle<Vec<u64>>,
}

impl Downloads {
    pub(crate) fn start(bed: &Bed, count: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let received: Arc<Vec<AtomicU64>> = Arc::new((0..count).map(|_| AtomicU64::new(0)).collect());
        let listener = bed.inside("out", || TcpListener::bind((OUTSIDE, PORT)).unwrap());
        let stopped = Arc::clone(&stop);
        let servers = std::thread::spawn(move || {
            let serve = |mut stream: TcpStream, stop: Arc<AtomicBool>| {
                let mut number = [0; 8];
                stream.read_exact(&mut number).unwrap();
                let (download, mut sent) = (u64::from_le_bytes(number), 0);
                while !stop.load(Ordering::Relaxed) {
                    stream.write_all(&content(download, sent, CHUNK)).unwrap();
                    sent += CHUNK as u64;
                    std::thread::park_timeout(PACE);
                }
                sent
            };
            let streams: Vec<_> = listener.incoming().take(count as usize).map(Result::unwrap).collect();
            let threads: Vec<_> = streams
                .into_iter()
                .map(|stream| {
                    let stop = Arc::clone(&stopped);
                    std::thread::spawn(move || serve(stream, stop))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let clients = (0..count)
            .map(|download| {
                let stream = bed.connect(PORT).unwrap();
                let received = Arc::clone(&received);
                std::thread::spawn(move || receive(stream, download, &received[download as usize]))
            })
            .collect();
        Self { stop, received, clients, servers }
    }

    fn counts(&self) -> Vec<u64> {
        self.received.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// Waits until every download has gone on by some chunks.
    pub(crate) fn until_all_went_on(&self, what: &str) {
        let (before, begun) = (self.counts(), Instant::now());
        let wanted = 4 * CHUNK as u64;
        while self.counts().iter().zip(&before).any(|(now, before)| *now < before + wanted) {
            assert!(begun.elapsed() < STUCK, "{what}: a download stands still");
            std::thread::park_timeout(PACE);
        }
    }

    /// Ends them in order: what was sent was received, to the last byte.
    pub(crate) fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        let mut received: Vec<u64> = self.clients.into_iter().map(|client| client.join().unwrap()).collect();
        let mut sent = self.servers.join().unwrap();
        received.sort_unstable();
        sent.sort_unstable();
        assert_eq!(received, sent, "what was sent and what arrived");
        assert_eq!(received.len(), self.received.len());
    }
}

fn receive(mut stream: TcpStream, download: u64, count: &AtomicU64) -> u64 {
    stream.set_read_timeout(Some(STUCK)).unwrap();
    stream.write_all(&download.to_le_bytes()).unwrap();
    let (mut received, mut chunk) = (0, [0; CHUNK]);
    loop {
        let length = match stream.read(&mut chunk) {
            Ok(0) => return received,
            Ok(length) => length,
            // A read with a time limit is not begun again by the kernel when the process was stopped or traced meanwhile.
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => panic!("download {download}: {error}"),
        };
        let is_right = chunk[..length] == content(download, received, length);
        assert!(is_right, "download {download}: {length} bytes at {received} are wrong");
        received += length as u64;
        count.store(received, Ordering::Relaxed);
    }
}

/// The ports from which open connections come, and the packets of all of them.
pub(crate) fn flows(bed: &Bed) -> (BTreeSet<u64>, u64) {
    let found = bed.json(&["flows", "proto=tcp", &format!("dport={PORT}"), "--all"]);
    let flows = found["flows"].as_array().unwrap();
    let number = |flow: &serde_json::Value, key: &str| flow[key].as_u64().unwrap();
    assert!(flows.iter().all(|flow| flow["rule"] == "web"), "{found}");
    let ports = flows.iter().map(|flow| number(flow, "source_port")).collect();
    (ports, flows.iter().map(|flow| number(flow, "packets_out") + number(flow, "packets_back")).sum())
}

/// Packets that were dropped although they belong to the downloads, or because no policy was there.
fn lost(bed: &Bed) -> u64 {
    let drops = bed.json(&["drops"]);
    let drops = drops["drops"].as_array().unwrap();
    let wrong =
        |reason: &str| reason.starts_with("tcp-") || reason.starts_with("no-") || reason == "flow-zone";
    drops
        .iter()
        .filter(|drop| wrong(drop["reason"].as_str().unwrap()))
        .map(|drop| drop["packets"].as_u64().unwrap())
        .sum()
}

#[test]
fn needs_root_a_hundred_downloads_outlive_every_restart_and_nothing_opens() {
    for hook in ["tc", "xdp"] {
        let bed = Bed::new();
        let policy = bed.policy("p.toml", &format!("{WEB}{REJECT}"));
        let mut firewall = bed.up(&policy, hook);
        let own = bed.listen_on_the_firewall();
        let downloads = Downloads::start(&bed, DOWNLOADS);
        downloads.until_all_went_on("before any restart");
        let (ports, mut packets) = flows(&bed);
        assert_eq!(ports.len() as u64, DOWNLOADS);
        let mut generation = 1;
        for (end, arguments) in [
            (Signal::SIGKILL, vec![policy.as_str()]),
            (Signal::SIGTERM, vec![]),
            (Signal::SIGKILL, vec![]),
            (Signal::SIGTERM, vec![policy.as_str()]),
        ] {
            let what = format!("{hook}, {end}, up {arguments:?}");
            firewall.signal(end);
            firewall.end();
            downloads.until_all_went_on(&format!("{what}: no daemon"));
            bed.expect_of_the_firewall(own, Outcome::Silence, &format!("{what}: no daemon"));
            firewall = bed.up_with(&[&["--hook", hook][..], &arguments].concat());
            assert!(firewall.start.contains("taken over with its flows"), "{what}: {}", firewall.start);
            bed.expect_of_the_firewall(own, Outcome::Silence, &what);
            downloads.until_all_went_on(&what);
            let (found, counted) = flows(&bed);
            assert_eq!(found, ports, "{what}: the same flows");
            assert!(counted > packets, "{what}: counters go on");
            packets = counted;
            let status = bed.json(&["status"]);
            generation += 1;
            assert_eq!(status["policy"]["generation"], generation, "{what}: {status}");
            assert_eq!(status["flows"]["open"], DOWNLOADS, "{what}: {status}");
            let rules = bed.json(&["rules"]);
            assert_eq!(
                (&rules["rules"][0]["name"], &rules["rules"][0]["hits"]),
                (&"web".into(), &DOWNLOADS.into())
            );
        }
        downloads.finish();
        assert_eq!(lost(&bed), 0, "{hook}: {}", bed.json(&["drops"]));
    }
}

/// A firewall without its daemon holds its namespace, which nobody can enter any more to take it down: the next one that starts anywhere lets go.
#[test]
fn needs_root_a_namespace_that_is_deleted_with_its_firewall_is_let_go() {
    for (policy, end) in [(WEB.to_owned(), Signal::SIGKILL), (format!("{KERNEL}{WEB}"), Signal::SIGTERM)] {
        let bed = Bed::new();
        let mut firewall = bed.up_with(&[&bed.policy("p.toml", &policy)]);
        let mut family = Family::default();
        family.add(firewall.child.id());
        firewall.signal(end);
        firewall.end();
        drop(firewall);
        assert!(!family.programs().is_empty(), "the firewall goes on without its daemon");
        bed.leave();
        let other = Bed::new();
        let _firewall = other.up(&other.policy("p.toml", WEB), "tc");
        until("nothing is left", || family.programs().is_empty() && family.maps().is_empty());
    }
}

/// Whoever asks a firewall whose daemon has ended is not told that there is none: it judges his packets.
#[test]
fn needs_root_who_asks_a_firewall_without_its_daemon_learns_that_it_goes_on() {
    let bed = Bed::new();
    let policy = bed.policy("p.toml", &format!("{WEB}{REJECT}"));
    let mut firewall = bed.up(&policy, "tc");
    for (end, expected) in [
        (Signal::SIGTERM, "the firewall that it left goes on by its last policy at "),
        (Signal::SIGKILL, "its programs go on without it"),
    ] {
        firewall.signal(end);
        firewall.end();
        for command in ["status", "rules", "log"] {
            let (status, text) = bed.rampart(&[command]);
            assert!(status == 3 && text.contains(expected), "{end}, {command}: {status} {text}");
        }
        firewall = bed.up(&policy, "tc");
    }
    assert_eq!(bed.rampart(&["down"]).0, 0);
    firewall.end();
    let (status, text) = bed.rampart(&["status"]);
    assert!(status == 3 && text.contains("no firewall runs here (there is no /"), "{status} {text}");
}

#[test]
fn needs_root_a_policy_that_was_replaced_meanwhile_takes_effect_at_the_start() {
    for hook in ["tc", "xdp"] {
        let bed = Bed::new();
        bed.serve(8080);
        bed.serve(2525);
        let both = bed.policy("p.toml", &format!("{WEB}{}{REJECT}", crate::MAIL));
        let mut firewall = bed.up(&both, hook);
        let mut web = bed.connect(8080).unwrap();
        let mut mail = bed.connect(2525).unwrap();
        expect_echo(&mut web, "before");
        expect_echo(&mut mail, "before");
        firewall.signal(Signal::SIGKILL);
        firewall.end();
        let narrow = bed.policy("p.toml", &format!("{WEB}{REJECT}"));
        let _firewall = bed.up(&narrow, hook);
        expect_echo(&mut web, "what the new policy allows goes on");
        expect_no_echo(&mut mail, "what it denies does not");
        assert_eq!(bed.json(&["flows", "dport=2525"])["matched"], 0);
        assert_eq!(bed.json(&["flows", "dport=8080"])["matched"], 1);
    }
}

#[test]
fn needs_root_the_confirmed_policy_comes_back_and_an_unconfirmed_one_does_not() {
    let bed = Bed::new();
    bed.serve(8080);
    bed.serve(2525);
    let web = bed.policy("web.toml", &format!("{WEB}{REJECT}"));
    let mail = bed.policy("mail.toml", &format!("{}{REJECT}", crate::MAIL));
    let mut firewall = bed.up(&web, "auto");
    let answers = |web, mail, what: &str| {
        bed.expect(8080, web, what);
        bed.expect(2525, mail, what);
    };
    let again = |firewall: &mut crate::bed::Firewall, arguments: &[&str], reported: &str| {
        firewall.signal(Signal::SIGKILL);
        firewall.end();
        *firewall = bed.up_with(arguments);
        assert!(firewall.start.contains(reported), "{reported}: {}", firewall.start);
    };
    assert_eq!(bed.rampart(&["apply", &mail, "--confirm", "3600"]).0, 0);
    answers(Outcome::Refused, Outcome::Answered, "the policy that waits");
    again(&mut firewall, &[], "was not confirmed before the daemon ended");
    answers(Outcome::Answered, Outcome::Refused, "nobody confirmed it");
    assert_eq!(bed.rampart(&["confirm"]).0, 2, "nothing waits any more");
    assert_eq!(bed.rampart(&["apply", &mail, "--confirm", "3600"]).0, 0);
    assert_eq!(bed.rampart(&["confirm"]).0, 0);
    again(&mut firewall, &[], "mail.toml: 1 rule");
    answers(Outcome::Refused, Outcome::Answered, "it was confirmed");
    // Somebody spoiled the file that the firewall is started with.
    std::fs::write(&web, "[zones").unwrap();
    let (status, reported) = bed.rampart(&["up", &web, "--state", &bed.state().display().to_string()]);
    assert!(status == 2 && reported.contains("web.toml:1:7: "), "by hand: {status}: {reported}");
    answers(Outcome::Refused, Outcome::Answered, "nothing changed");
    again(&mut firewall, &[&web, "--boot"], "cannot be used, and the last good policy is in force instead");
    answers(Outcome::Refused, Outcome::Answered, "the last good one");
    // The policy that was kept last is damaged: the one before it.
    std::fs::write(bed.state().join("policy.json"), "{").unwrap();
    again(&mut firewall, &[], "policy.json cannot be read");
    answers(Outcome::Answered, Outcome::Refused, "the last good one that can be read");
    // Its interface is gone.
    std::fs::write(&web, "[zones]\ninside = { interfaces = 'e9' }\n").unwrap();
    again(&mut firewall, &[&web, "--boot"], "there is no interface `e9`");
    answers(Outcome::Answered, Outcome::Refused, "an interface is missing");
}

/// A table of another size cannot be gone on with as it is, nor can one of another build; its flows go the same way.
#[test]
fn needs_root_flows_are_carried_into_another_table_under_a_hundred_downloads() {
    for hook in ["tc", "xdp"] {
        let bed = Bed::new();
        let policy =
            |flows: u32| bed.policy("p.toml", &format!("[settings]\nflows = {flows}\n{WEB}{REJECT}"));
        let mut firewall = bed.up(&policy(65_536), hook);
        let own = bed.listen_on_the_firewall();
        let downloads = Downloads::start(&bed, DOWNLOADS);
        downloads.until_all_went_on("before the restart");
        let (ports, _) = flows(&bed);
        for (flows_that_fit, end) in [(32_768, Signal::SIGKILL), (131_072, Signal::SIGTERM)] {
            let what = format!("{hook}, {flows_that_fit} flows, {end}");
            firewall.signal(end);
            firewall.end();
            firewall = bed.up(&policy(flows_that_fit), hook);
            assert!(
                firewall.start.contains("100 flows were carried over, and 0 could not be"),
                "{}",
                firewall.start
            );
            bed.expect_of_the_firewall(own, Outcome::Silence, &what);
            downloads.until_all_went_on(&what);
            assert_eq!(flows(&bed).0, ports, "{what}: the same flows, by the same rule");
            let open = serde_json::json!({ "open": DOWNLOADS, "half_open": 0, "unanswered": 0, "capacity": flows_that_fit });
            assert_eq!(bed.json(&["status"])["flows"], open, "{what}");
        }
        downloads.finish();
    }
}

#[test]
fn needs_root_what_cannot_be_carried_is_ended_with_a_reset() {
    const SMALLEST: u16 = 1024;
    const ALL: &str = "[[rules]]\nname = 'out'\nfrom = 'inside'\nto = 'outside'\naction = 'allow'\n";
    // What nobody answers expires within seconds in a full table, and then leaves room that the test counts on not being there.
    const LONG: &str = "timeouts = { udp = '1h', unanswered = '1h' }\n";
    for hook in ["tc", "xdp"] {
        let bed = Bed::new();
        bed.serve(8080);
        let policy = |flows: u16| bed.policy("p.toml", &format!("[settings]\nflows = {flows}\n{LONG}{ALL}"));
        let mut firewall = bed.up(&policy(2 * SMALLEST), hook);
        let mut early = bed.connect(8080).unwrap();
        expect_echo(&mut early, "the first flow of the table");
        let socket = bed.inside("in", || UdpSocket::bind((INSIDE, 0)).unwrap());
        // A slow machine loses some of so many at once.
        until("each datagram has a flow", || {
            for port in 1..=SMALLEST {
                // The host may answer about a closed port that was asked before.
                let _ = socket.send_to(b"x", (OUTSIDE, port));
            }
            bed.json(&["status"])["flows"]["open"].as_u64() == Some(u64::from(SMALLEST) + 1)
        });
        let mut late = bed.connect(8080).unwrap();
        expect_echo(&mut late, "the last flow of the table");
        firewall.signal(Signal::SIGKILL);
        firewall.end();
        firewall = bed.up(&policy(SMALLEST), hook);
        assert!(
            firewall.start.contains("1024 flows were carried over, and 2 could not be"),
            "{}",
            firewall.start
        );
        expect_echo(&mut early, "what fits goes on");
        late.set_read_timeout(Some(STUCK)).unwrap();
        late.write_all(b"x").unwrap();
        let ended = late.read(&mut [0]).unwrap_err();
        assert_eq!(ended.kind(), std::io::ErrorKind::ConnectionReset, "{hook}: not left to wait");
    }
}

/// What flows without an answer have used of their budget is not forgotten: not by a daemon that goes on with the table, and not by one that
/// carries the flows into another.
#[test]
fn needs_root_budgets_are_as_full_after_a_restart_as_before() {
    const ALL: &str = "[[rules]]\nname = 'out'\nfrom = 'inside'\nto = 'outside'\naction = 'allow'\n";
    // Flows live for an hour, and one source may fill the budget alone.
    const BUDGET: &str = "unanswered = 64\ntimeouts = { udp = '1h', unanswered = '1h' }\n";
    const SENT: u64 = 50;
    let bed = Bed::new();
    let policy = |flows: u32| bed.policy("p.toml", &format!("[settings]\nflows = {flows}\n{BUDGET}{ALL}"));
    let mut firewall = bed.up(&policy(65_536), "tc");
    let silent = bed.inside("out", || UdpSocket::bind((OUTSIDE, 7)).unwrap());
    let unanswered = || bed.json(&["status"])["flows"]["unanswered"].as_u64().unwrap();
    let ask = |count: u64| {
        let ask_once = |_| {
            let socket = bed.inside("in", || UdpSocket::bind((INSIDE, 0)).unwrap());
            socket.send_to(b"x", silent.local_addr().unwrap()).unwrap();
            socket
        };
        // All stay open to the end, because a port that is free again may be given a second time, and then it is the same flow.
        let asked: Vec<UdpSocket> = (0..count).map(ask_once).collect();
        drop(asked);
    };
    ask(SENT);
    until("flows are open", || unanswered() == SENT);
    for (flows, words) in [(65_536, "is taken over with its flows"), (32_768, "50 flows were carried over")] {
        firewall.signal(Signal::SIGKILL);
        firewall.end();
        firewall = bed.up(&policy(flows), "tc");
        assert!(firewall.start.contains(words), "{}", firewall.start);
        assert_eq!(unanswered(), SENT, "{words}");
    }
    ask(200);
    until("the budget is full", || unanswered() == 64);
}

/// A connection whose SYN the firewall answered goes on by numbers of its own, which only the firewall knows: they outlive the daemon, and so does the
/// key of the cookies.
#[test]
fn needs_root_connections_by_cookies_outlive_the_daemon() {
    for hook in ["tc", "xdp"] {
        let bed = Bed::new();
        for (host, at, net) in [("in", "e1", "fd81:1:"), ("out", "e0", "fd81:2:")] {
            bed.host("fw").ip(&format!("address add {net}:1/64 dev {at} nodad"));
            bed.host(host)
                .ip(&format!("address add {net}:2/64 dev x nodad\n-6 route add default via {net}:1"));
        }
        let servers = [format!("{OUTSIDE}:{PORT}"), format!("[fd81:2::2]:{PORT}")];
        for server in &servers {
            serve(bed.inside("out", || TcpListener::bind(server).unwrap()));
        }
        let policy = bed.policy("proxied.toml", &format!("{WEB}\n[settings]\nsyn_proxy = 'on'\n"));
        let mut open = Vec::new();
        let mut connect = |what: &str| {
            for server in &servers {
                let stream = bed.inside("in", || TcpStream::connect(server)).unwrap_or_else(|error| {
                    panic!("{hook}, {what}: {server}: {error}; {:?}", bed.rampart(&["drops"]))
                });
                open.push((stream, server.clone(), what.to_owned()));
            }
            for (stream, server, when) in &mut open {
                expect_echo(stream, &format!("{hook}: {server}, opened {when}, {what}"));
            }
        };
        let mut firewall = bed.up(&policy, hook);
        connect("by the first daemon");
        for _ in 0..2 {
            firewall.signal(Signal::SIGKILL);
            firewall.end();
            connect("while no daemon runs");
            firewall = bed.up(&policy, hook);
            connect("by the next daemon");
        }
        assert!(bed.counted("cookies-taken") >= 10, "{hook}: each of them was opened by a cookie");
        let flows = bed.json(&["flows", &format!("dport={PORT}")]);
        assert_eq!(flows["flows"].as_array().unwrap().len(), 10, "{hook}: {flows}");
    }
}
