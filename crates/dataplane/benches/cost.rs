//! What a packet costs in the firewall's program alone, by `BPF_PROG_TEST_RUN`: no driver, no wire. Needs root.
//!
//! Warm: the same flow again and again. Cold: flows in random order, one run each; the clock's own cost is measured by
//! packets that are dropped at once, and taken off.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a measurement, not a library")]

#[path = "../tests/bed/mod.rs"]
mod bed;

use bed::{Bed, Clock, POLICY, Side};
use dataplane::{Hook, Settings};
use std::time::Duration;
use testkit::packet::{ACK, Frame, SYN, Tcp, udp};

/// Runs in one call: less than hops that a packet has.
const TIMES: u32 = 250;

fn frame(destination: &str, payload: Vec<u8>, protocol: u8) -> Frame {
    let source = if destination.contains(':') { "2001:2:0:1::2" } else { "198.18.1.2" };
    Frame { ttl: 255, ..Frame::new(source, destination, protocol, payload) }
}

/// The median over many calls of the average of one. Each run finds the frame as the last one left it, so the next hops have the
/// Ethernet address of the interface that it comes in by.
fn warm(bed: &Bed, hook: Hook, frame: &[u8]) -> f64 {
    let frame = &Side::In.addressed(frame)[..];
    let mut costs: Vec<Duration> = bed.within(Side::In, |firewall, index| {
        (0..400).map(|_| firewall.test_run_times(frame, index, hook, TIMES).unwrap().duration).collect()
    });
    costs.sort_unstable();
    costs[costs.len() / 2].as_nanos() as f64
}

fn measure_warm(hook: Hook) {
    let mut bed = Bed::with_clock(Clock::Kernel, hook, &Settings { flows: 1 << 20, rules: 1024 }, POLICY);
    let back = Side::In.link_address().map(|byte| format!("{byte:02x}")).join(":");
    bed.namespace().ip(&format!(
        "neighbour replace 198.18.2.2 lladdr {back} dev out0
         neighbour replace 2001:2:0:2::2 lladdr {back} dev out0"
    ));
    bed.firewall().forget_routes().unwrap();
    let tcp = |flags| Tcp { ports: (5, 80), flags, sequence: 1000, window: 999, ..Tcp::default() };
    bed.send(Side::In, &frame("198.18.2.2", tcp(SYN).bytes(), 6).bytes());
    let answer = Tcp {
        ports: (80, 5),
        flags: SYN | ACK,
        sequence: 1,
        acknowledgement: 1001,
        window: 999,
        ..Tcp::default()
    };
    bed.send(Side::Out, &Frame::new("198.18.2.2", "198.18.1.2", 6, answer.bytes()).bytes());
    let segment = Tcp { sequence: 1001, acknowledgement: 2, ..tcp(ACK) };
    let mut other = frame("198.18.2.2", udp((5, 6), 18), 17).bytes();
    other[12] = 0x99;
    for (what, frame) in [
        ("dropped at once: not IP", other),
        ("UDP, IPv4", frame("198.18.2.2", udp((5, 6), 18), 17).bytes()),
        ("UDP, IPv6", frame("2001:2:0:2::2", udp((5, 6), 18), 17).bytes()),
        ("TCP, IPv4", frame("198.18.2.2", segment.bytes(), 6).bytes()),
        ("denied by the policy (self)", frame("198.18.1.1", udp((5, 6), 18), 17).bytes()),
    ] {
        println!("{hook:?}  warm  {what:30} {:6.0} ns", warm(&bed, hook, &frame));
    }
}

/// A number that wanders over all of 2^20.
fn scattered(i: u32) -> u32 {
    i.wrapping_mul(0x9e37_79b1) >> 12
}

fn flow(number: u32) -> Vec<u8> {
    let ports = (1024 + (number & 0x3fff) as u16, 1024 + (number >> 14) as u16);
    frame("198.18.2.2", udp(ports, 18), 17).bytes()
}

fn cold(bed: &Bed, frames: impl Iterator<Item = Vec<u8>>) -> f64 {
    let mut costs: Vec<u32> = bed.within(Side::In, |firewall, index| {
        frames
            .map(|f| {
                firewall.test_run(&Side::In.addressed(&f), index, Hook::Xdp).unwrap().duration.as_nanos()
                    as u32
            })
            .collect()
    });
    costs.sort_unstable();
    // The middle half: interrupts and other work on the machine are not the program's.
    let middle = &costs[costs.len() / 4..costs.len() * 3 / 4];
    middle.iter().map(|c| f64::from(*c)).sum::<f64>() / middle.len() as f64
}

fn main() {
    for hook in [Hook::Xdp, Hook::Tc] {
        measure_warm(hook);
    }
    for flows in [1000, 1_000_000] {
        let bed =
            Bed::with_clock(Clock::Kernel, Hook::Xdp, &Settings { flows: 1 << 20, rules: 1024 }, POLICY);
        let mut other = flow(0);
        other[12] = 0x99;
        let nothing = cold(&bed, (0..100_000).map(|_| other.clone()));
        let opened = cold(&bed, (0..flows).map(flow)) - nothing;
        let found = cold(&bed, (0..300_000).map(|i| flow(scattered(i) % flows))) - nothing;
        println!(
            "Xdp   cold  {flows:8} flows: open {opened:4.0} ns, find and forward {found:4.0} ns (clock {nothing:.0} ns)"
        );
    }
}
