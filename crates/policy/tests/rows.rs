//! Rows of packets with the verdict that each must get, on the interpreter and on the tables: `verdicts.txt`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use policy::Policy;
use policy::interpret::{Decider, Packet, decide};
use policy::service::ServiceSet;
use policy::tables::{Limits, Tables};

fn packet(policy: &Policy, cells: &[&str]) -> Packet {
    let zone = |name: &str| policy.zone(name).unwrap_or_else(|| panic!("no zone {name}"));
    // `udp/123 from 123`; a row that says no source port has one that no rule asks for.
    let (service, source_port) = cells[4].split_once(" from ").unwrap_or((cells[4], "40000"));
    let key = ServiceSet::parse(service).unwrap().parts()[0].keys.ranges()[0].0;
    Packet {
        from: zone(cells[0]),
        to: zone(cells[1]),
        source: cells[2].parse().unwrap(),
        destination: cells[3].parse().unwrap(),
        source_port: source_port.parse().unwrap(),
        protocol: (key >> 16) as u8,
        selector: key as u16,
    }
}

#[test]
fn every_row_gets_its_verdict_by_every_way() {
    let policy =
        Policy::parse("verdicts.toml", include_str!("verdicts.toml")).unwrap_or_else(|e| panic!("{e}"));
    let rows = include_str!("verdicts.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut count = 0;
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let time = if cells[6] == "wed-noon" { "2026-11-25T12:00:00+01:00" } else { cells[6] };
        let at = time.parse().unwrap();
        let packet = packet(&policy, &cells[1..]);
        let expected = decide(&policy, &packet, at);
        let decider = match expected.decider {
            Decider::Rule(i) => policy.rules[i].name.as_str(),
            Decider::Default => "-",
        };
        assert_eq!(format!("{} {decider}", expected.action.name()), cells[7], "{row}");
        let chosen = Tables::build(&policy, at).unwrap();
        let blocks = Tables::build_within(&policy, at, Limits::BLOCKS).unwrap();
        let vectors = Tables::build_within(&policy, at, Limits::VECTORS).unwrap();
        assert_eq!(chosen.look_up(&packet).0, expected, "tables: {row}");
        assert_eq!(blocks.look_up(&packet).0, expected, "blocks: {row}");
        assert_eq!(vectors.look_up(&packet).0, expected, "vectors: {row}");
        count += 1;
    }
    assert!(count > 100, "{count} rows");
}
