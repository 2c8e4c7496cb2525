//! Blocks of sources that scanned: listed, ended, and as the policy in force says.

use super::*;
use crate::api::{Block, ScanCount};

fn block(source: &str, zone: &str, seconds: u64) -> Block {
    let source: std::net::IpAddr = source.parse().unwrap();
    let prefix = if source.is_ipv4() { 32 } else { 64 };
    Block {
        source,
        prefix,
        zone: zone.to_owned(),
        seconds,
        left_seconds: 600 - seconds,
        ports: 1_234,
        hosts: 7,
    }
}

fn blocking(rest: &str) -> String {
    format!("{}[scans]\nports = 100\n{rest}\n", usual())
}

fn with_blocks(policy: &str) -> Running {
    let running = Running::with(policy, "2026-11-20T10:00:00Z");
    running.plane.inside().blocks = [
        (1, block("198.51.100.7", "out", 90)),
        (2, block("2001:db8:1:2::", "out", 60)),
        (3, block("198.51.100.7", "in", 30)),
        (4, block("192.0.2.1", "in", 1)),
    ]
    .into();
    running
}

#[test]
fn blocks_are_listed_and_ended_one_by_one_or_all() {
    const TABLE: &str = "\
source              zone  blocked for  ends in  ports  hosts
198.51.100.7        out          90s  8min 30s  1,234      7
";
    let running = with_blocks(&blocking("block = '10min'"));
    let (status, text) = running.command("blocks");
    assert!(status == 0 && text.contains("2001:db8:1:2::/64") && text.ends_with("\n4 blocks\n"), "{text}");
    assert_eq!(text.lines().next().unwrap().split_whitespace().next(), TABLE.split_whitespace().next());
    assert!(running.command("status").1.contains("blocked    4 of the sources that scanned"));
    assert!(running.command("metrics").1.contains("\nrampart_blocked_sources 4\n"));
    for (words, expected, left) in [
        ("blocks --end 203.0.113.1", "0 blocks ended\n", 4),
        ("blocks --end 2001:db8:1:2::99", "1 block ended\n", 3),
        ("blocks --end 198.51.100.7 --zone in", "1 block ended\n", 2),
        ("blocks --end-all --zone in", "1 block ended\n", 1),
        ("blocks --end-all", "1 block ended\n", 0),
    ] {
        assert_eq!(running.command(words), (0, expected.to_owned()), "{words}");
        assert_eq!(running.plane.inside().blocks.len(), left, "{words}");
    }
    assert_eq!(running.command("blocks"), (0, "nobody is blocked\n".to_owned()));
    assert!(running.log().contains("source=198.51.100.7&zone=in"), "{}", running.log());
}

#[test]
fn what_is_to_end_is_said() {
    let running = with_blocks(&blocking("block = '10min'"));
    for (query, status, words) in [
        ("", 400, "this would end every block"),
        ("?all=false", 400, "this would end every block"),
        ("?all=maybe", 400, "all=maybe: all takes true or false"),
        ("?source=nobody", 400, "source=nobody: source takes an address"),
        ("?src=192.0.2.1", 400, "no `src`"),
        ("?source=198.51.100.7&zone=nowhere", 400, "there is no zone `nowhere`; there are: self, in, out"),
        ("?all=true&zone=nowhere", 400, "there is no zone `nowhere`"),
        ("?source=192.0.2.1", 200, ""),
    ] {
        let (found, answer) = running.ask("DELETE", &format!("/v1/blocks{query}"), "");
        assert_eq!(found, status, "{query}: {answer}");
        assert!(answer["error"].as_str().unwrap_or_default().contains(words), "{query}: {answer}");
    }
    assert_eq!(running.plane.inside().blocks.len(), 3);
}

#[test]
fn blocks_hold_as_the_policy_in_force_says() {
    for (rest, shown) in [
        ("block = '10min'", 4),
        ("", 0),
        ("block = '1h'\nexcept = '192.0.2.0/24'", 3),
        ("block = '1h'\nexcept = ['198.51.100.0/24', '192.0.2.1']", 1),
    ] {
        let running = with_blocks(&blocking(rest));
        let (_, answer) = running.ask("GET", "/v1/blocks", "");
        assert_eq!(answer["blocks"].as_array().unwrap().len(), shown, "{rest}");
    }
    let (_, answer) = with_blocks(&usual()).ask("GET", "/v1/blocks", "");
    assert_eq!(answer["blocks"], json!([]), "no scans");
}

#[test]
fn a_scan_is_a_line_of_the_log() {
    let running = with_blocks(&blocking(""));
    let scan = |blocked| EventDetails {
        event: EventName::Scan,
        rule: None,
        scan: Some(ScanCount { ports: 1_101, hosts: 2, blocked }),
        ..details("")
    };
    running.plane.inside().recorded =
        [scan(false), scan(true)].map(|details| (Duration::from_secs(1), Recorded::Event(details))).into();
    let (_, text) = running.command("log event=scan");
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(" scan ")).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].ends_with("[scans]  tcp 10.0.0.5:40000 > [2001:db8::1]:443  in > out  had asked in vain for about 1,101 ports of 2 hosts"), "{text}");
    assert!(lines[1].ends_with("of 2 hosts, and is blocked"), "{text}");
}
