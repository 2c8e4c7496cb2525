//! The client against a server that resets, strays, repeats and cuts short on purpose. Needs root, iproute2, ethtool and
//! python3.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot run")]

#[path = "tcp/bed.rs"]
mod bed;

use bed::Bed;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use traffic::tcp::{Answer, Ends, Engine, Message, Opening, TcpCounts, TcpPhase, TcpPlan};

/// `tests/tcp/stranger.py` in the server's namespace, ended when dropped.
struct Stranger(Child);

impl Stranger {
    fn start(bed: &Bed, how: &str, request: usize) -> Self {
        let mut child = Command::new("ip")
            .args(["netns", "exec", bed.server().name(), "python3"])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tcp/stranger.py"))
            .args([how, &request.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "listening\n", "python3 is needed");
        Self(child)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn a_misbehaving_server_is_counted_for_what_it_does() {
    type Expected = &'static [(&'static str, u64)];
    let rows: [(&str, Expected); 6] = [
        ("strange resets", &[("strange_reset", 80), ("closed", 20), ("refused", 0), ("reset", 0)]),
        ("exact reset", &[("reset", 20), ("strange_reset", 0), ("established", 20), ("completed", 0)]),
        // SYN, RST to the SYN-ACK that acknowledges too much, request, RST at the end.
        ("strays", &[("frames_out", 80), ("stray", 60), ("late", 20), ("closed", 20), ("duplicate", 0)]),
        (
            "out of order and twice",
            &[("out_of_order", 20), ("duplicate", 40), ("closed", 20), ("wrong_data", 0), ("stray", 0)],
        ),
        ("too short", &[("wrong_data", 20), ("completed", 0), ("first_byte", 20)]),
        ("too long", &[("wrong_data", 20), ("completed", 0)]),
    ];
    let bed = Bed::wire();
    // No address, so that the server's kernel answers nothing itself.
    bed.server().run("ethtool", &["-K", "wire", "gro", "on"]);
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Client).unwrap();
    for (how, expected) in rows {
        // A second of silence at the end: the server says some things twice, and may be kept from its core between them.
        let silence = TcpPhase::constant(0.0, 1.0);
        let mut plan = TcpPlan::new(Opening::Scheduled(vec![TcpPhase::constant(100.0, 0.2), silence]));
        plan.answer = Answer::Exactly(Message::new("answer").unwrap());
        (plan.grace, plan.settle) = (Duration::from_secs(5), Duration::from_secs(3));
        plan.retry = Duration::from_secs(20);
        let _stranger = Stranger::start(&bed, how, plan.request.bytes().len());
        let counts = engine.run(&ports, &plan, &mut ()).unwrap().counts;
        for &(name, count) in expected {
            let at = TcpCounts::NAMES.iter().position(|n| *n == name).unwrap();
            assert_eq!(counts.values()[at], count, "{how}: {name} in {counts:?}");
        }
    }
}
