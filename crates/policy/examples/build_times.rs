//! How long policies of several shapes and sizes take to read, check and build, how large their tables are, and how many
//! memory accesses a look-up takes: `cargo run --release -p policy --example build_times [-- SHAPE]`. Ends with status 1 when a build
//! takes longer than promised: 5 ms for 10 rules, 50 ms for 1,000, 1 s for 10,000, 10 s for 100,000.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for developers")]

#[path = "../tests/random/mod.rs"]
mod random;

use policy::Policy;
use policy::interpret::Packet;
use policy::tables::Tables;
use random::bytes;
use random::fillers::{Fields, filler};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const SIZES: [(usize, Duration); 4] = [
    (10, Duration::from_millis(5)),
    (1_000, Duration::from_millis(50)),
    (10_000, Duration::from_secs(1)),
    (100_000, Duration::from_secs(10)),
];

/// A shape: its name, and the source, destination and service of a rule.
type Shape = (&'static str, fn(u64) -> (String, String, String));

/// The shape whose rules are for all pairs of zones.
const BENCH: &str = "as the bench";

const SHAPES: [Shape; 7] = [
    (BENCH, |i| {
        let Fields { source, destination, service } = filler(i);
        (source, destination, service)
    }),
    ("one host each", |i| ("any".into(), v4(0xac10_0000 + i, 32), "tcp/80".into())),
    ("ports", |i| {
        ("any".into(), "10.0.0.0/8".into(), format!("{}/{}", ["tcp", "udp"][i as usize & 1], i / 2 % 65536))
    }),
    ("host to host", |i| {
        (v4(0x0a00_0000 + mix(i) % 0xff_ffff, 32), v4(0xac10_0000 + mix(!i) % 0xf_ffff, 32), service(i))
    }),
    ("prefixes, mixed", |i| {
        let wide = |r: u64| {
            if r.is_multiple_of(10) {
                "any".into()
            } else {
                v4(r >> 8, [8, 16, 20, 24, 24, 28, 32, 32][r as usize >> 4 & 7])
            }
        };
        (wide(mix(i)), wide(mix(!i)), service(mix(i ^ 77)))
    }),
    ("nested ranges", |i| {
        let range = |first: u64, length: u64| {
            let address = |a: u64| Ipv4Addr::from(a as u32);
            format!("{}-{}", address(first), address(first + length))
        };
        (range(0x0a00_0000, i * 3), range(0xac10_0000 - i * 5, i * 5), service(i))
    }),
    ("IPv6", |i| {
        let v6 = |r: u64, length: u32| {
            let address = (0x2001_0db8u128 << 96 | u128::from(r) << 48) >> (128 - length) << (128 - length);
            format!("{}/{length}", Ipv6Addr::from(address))
        };
        (v6(mix(i), [48, 56, 64][i as usize % 3]), v6(mix(!i), [64, 96, 128][i as usize % 3]), service(i))
    }),
];

fn mix(i: u64) -> u64 {
    u64::from_le_bytes(bytes(i, 8).try_into().unwrap())
}

fn service(r: u64) -> String {
    format!("tcp/{}", [80, 443, 22, 25, 53, 8080, 3306, 5432][r as usize % 8])
}

fn v4(address: u64, length: u32) -> String {
    let address = (address as u32) >> (32 - length) << (32 - length);
    format!("{}/{length}", Ipv4Addr::from(address))
}

fn text(shape: Shape, rules: usize) -> String {
    let mut text = String::from(
        "[zones]\nin = { interfaces = \"e0\" }\nout = { interfaces = \"e1\" }\ndmz = { interfaces = \"e2\" }\n",
    );
    for i in 0..rules as u64 {
        let (source, destination, service) = shape.1(i);
        let [source, destination, service] = [source, destination, service].map(value);
        let pairs = if shape.0 == BENCH {
            [("any", "any"); 3]
        } else {
            [("in", "out"), ("out", "dmz"), ("in", "dmz")]
        };
        let (from, to) = pairs[i as usize % 3];
        writeln!(
            text,
            "[[rules]]\nname = \"r{i}\"\nfrom = \"{from}\"\nto = \"{to}\"\nsource = {source}\n\
             destination = {destination}\nservice = {service}\naction = \"allow\""
        )
        .unwrap();
    }
    text
}

/// As the language has it: a list, or a word in quotes.
fn value(text: String) -> String {
    if text.starts_with(['[', '"']) { text } else { format!("\"{text}\"") }
}

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let mut late = false;
    println!(
        "| shape | rules | read and check | warnings | build | tables MiB | method | accesses: median, most |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for shape in SHAPES.into_iter().filter(|shape| shape.0.contains(&wanted)) {
        for (rules, promised) in SIZES {
            let text = text(shape, rules);
            let (policy, reading) = timed(|| Policy::parse("generated", &text).unwrap());
            let (_, warning) = timed(|| policy.warnings().len());
            let (tables, building) = built(&policy);
            let bytes: usize = tables.sizes().iter().map(|(_, bytes)| bytes).sum();
            let method = tables.method.name();
            let (median, most) = accesses(&policy, &tables);
            let note = if building > promised { " **late**" } else { "" };
            late |= building > promised;
            println!(
                "| {} | {rules} | {} | {} | {}{note} | {:.1} | {method} | {median}, {most} |",
                shape.0,
                ms(reading),
                ms(warning),
                ms(building),
                bytes as f64 / 1_048_576.0
            );
        }
    }
    if late { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The tables, and the median time of three builds: in a small build the allocator's tidying after a large one shows.
fn built(policy: &Policy) -> (Tables, Duration) {
    let build = || timed(|| Tables::build(policy, jiff::Timestamp::UNIX_EPOCH).unwrap());
    let (tables, first) = build();
    let mut times = [first, build().1, build().1];
    times.sort_unstable();
    (tables, times[1])
}

/// Memory accesses of look-ups: packets that match some rule's fields, and packets with the source of one rule and the
/// destination of another.
fn accesses(policy: &Policy, tables: &Tables) -> (u32, u32) {
    let rules = &policy.rules;
    let mut counts: Vec<u32> = (0..20_000u64)
        .map(|i| {
            let rule = &rules[mix(i) as usize % rules.len()];
            let other = if i % 2 == 0 { rule } else { &rules[mix(!i) as usize % rules.len()] };
            let key = rule.service.parts()[0].keys.ranges()[0].0;
            let (source, destination) = (first(&rule.source), first(&other.destination));
            let destination = if source.is_ipv4() == destination.is_ipv4() { destination } else { source };
            let (from, to) = (rule.from.trailing_zeros() as u8, rule.to.trailing_zeros() as u8);
            let (protocol, selector) = ((key >> 16) as u8, key as u16);
            let packet = Packet { from, to, source, destination, source_port: 40_000, protocol, selector };
            tables.look_up(&packet).1
        })
        .collect();
    counts.sort_unstable();
    (counts[counts.len() / 2], counts[counts.len() - 1])
}

fn first(set: &policy::address::AddressSet) -> IpAddr {
    match set.v4.ranges().first() {
        Some((first, _)) => IpAddr::V4((*first).into()),
        None => IpAddr::V6(set.v6.ranges()[0].0.into()),
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
