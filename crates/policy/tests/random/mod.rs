//! Random policies as text, and packets near their boundaries, out of a string of bytes: fewer bytes, or smaller ones,
//! make a simpler policy, so that proptest shrinks them by itself.
#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "writing into a String cannot fail; each user takes a part"
)]

use policy::Policy;
use policy::address::AddressSet;
use policy::interpret::Packet;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) mod fillers;
pub(crate) mod sets;

/// Choices out of bytes; zeros when they have run out.
pub(crate) struct Choices<'b>(pub(crate) &'b [u8]);

impl Choices<'_> {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        let (first, rest) = self.0.split_first().map_or((0, &[][..]), |(f, r)| (*f, r));
        self.0 = rest;
        usize::from(first) % n
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

/// Bytes from a number.
pub(crate) fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut random = rule_sets::Random(seed);
    (0..length.div_ceil(8)).flat_map(|_| random.next().to_le_bytes()).take(length).collect()
}

// Few values, nested and overlapping, so that rules meet.
const V4: &[&str] = &[
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.2.0/24",
    "10.1.2.3",
    "10.1.2.4-10.1.3.9",
    "10.1.2.128/25",
    "0.0.0.0/0",
    "0.0.0.0/1",
    "192.0.2.0/24",
    "192.0.2.255",
    "255.255.255.255",
    "10.0.255.255-10.1.0.0",
    "128.0.0.0/2",
    "9.255.0.0-10.0.0.0",
];
const V6: &[&str] = &[
    "2001:db8::/32",
    "2001:db8:1::/48",
    "2001:db8:1:2::/64",
    "2001:db8:1:2::5",
    "2001:db8:1:2::/65",
    "2001:db8:1:2::4-2001:db8:1:2::9",
    "::/0",
    "::",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "8000::/1",
    "2001:db8:1:1:ffff::-2001:db8:1:3::1",
];
const SERVICES: &[&str] = &[
    "tcp/80",
    "tcp/443",
    "tcp/0-1023",
    "tcp",
    "udp",
    "udp/53",
    "dns",
    "ping",
    "icmp/3/4",
    "icmp",
    "icmpv6/too-big",
    "protocol/47",
    "any",
    "tcp/65535",
    "udp/1000-2000",
    "icmpv6",
    "protocol/255",
    "protocol/0",
    "sctp/0",
    "peers",
    "low",
];
const SOURCE_PORTS: &[&str] = &["53", "0", "65535", "0-1023", "1024-65535", "1000-2000", "0-65535"];
const WITH_PORTS: &[&str] = &["tcp/80", "tcp", "udp", "dns", "udp/1000-2000", "sctp/0", "tcp/0-1023"];
const ZONES: &[&str] = &["a", "b", "c", "self", "any"];

fn list(c: &mut Choices<'_>, words: &mut dyn FnMut(&mut Choices<'_>) -> String) -> String {
    let count = [1, 1, 1, 2, 3][c.below(5)];
    let words: Vec<String> = (0..count).map(|_| format!("\"{}\"", words(c))).collect();
    format!("[{}]", words.join(", "))
}

fn address(c: &mut Choices<'_>) -> String {
    match c.below(8) {
        0..=4 => c.pick(V4).to_owned(),
        5 | 6 => c.pick(V6).to_owned(),
        _ => c.pick(&["o1", "o2", "o3", "any"]).to_owned(),
    }
}

/// A policy without errors.
pub(crate) fn policy_text(c: &mut Choices<'_>, rules: usize) -> String {
    let mut t = String::from(
        "[zones]\na = { interfaces = \"e0\" }\nb = { interfaces = \"e1\" }\nc = { interfaces = \"e2\" }\n",
    );
    t += "[schedules]\nday = { times = \"mon-fri 08:00-18:00\", time_zone = \"Europe/Berlin\" }\n";
    t += "night = { times = \"daily 18:00-08:00\", time_zone = \"Europe/Berlin\" }\n";
    t += "year = { times = \"daily\", time_zone = \"UTC\", from = 2026-03-01, until = 2026-11-30 }\n[objects]\n";
    let literal = |c: &mut Choices<'_>| if c.below(3) == 0 { c.pick(V6) } else { c.pick(V4) }.to_owned();
    writeln!(t, "o1 = {}", list(c, &mut { literal })).unwrap();
    // Address 198.51.100.1 is in no `except`, so that the object is not empty.
    writeln!(
        t,
        "o2 = {{ members = [\"o1\", \"198.51.100.1\"], except = {} }}",
        list(c, &mut |c| c.pick(&V4[..6]).to_owned())
    )
    .unwrap();
    writeln!(t, "o3 = [\"o1\", \"{}\"]", c.pick(V6)).unwrap();
    t += "[services]\npeers = { members = \"udp/53\", source_port = [\"53\", \"1000-2000\"] }\n";
    t += "low = { members = [\"tcp/80\", \"udp/53\"], source_port = \"0-1023\" }\n";
    for i in 0..rules {
        writeln!(t, "[[rules]]\nname = \"r{i}\"").unwrap();
        let from = c.pick(ZONES);
        let to = c.pick(if from == "self" { &ZONES[..3] } else { ZONES });
        writeln!(t, "from = \"{from}\"\nto = \"{to}\"").unwrap();
        if c.below(3) > 0 {
            writeln!(t, "source = {}", list(c, &mut address)).unwrap();
        }
        if c.below(3) > 0 {
            writeln!(t, "destination = {}", list(c, &mut address)).unwrap();
        }
        match c.below(8) {
            0 | 1 => {}
            2..=5 => writeln!(t, "service = {}", list(c, &mut |c| c.pick(SERVICES).to_owned())).unwrap(),
            _ => {
                writeln!(t, "service = {}", list(c, &mut |c| c.pick(WITH_PORTS).to_owned())).unwrap();
                writeln!(t, "source_port = {}", list(c, &mut |c| c.pick(SOURCE_PORTS).to_owned())).unwrap();
            }
        }
        if c.below(5) == 4 {
            writeln!(t, "schedule = \"{}\"", c.pick(&["day", "night", "year"])).unwrap();
        }
        if c.below(9) == 8 {
            t += "enabled = false\n";
        }
        writeln!(t, "action = \"{}\"", c.pick(&["allow", "deny", "reject"])).unwrap();
    }
    if c.below(2) == 1 {
        t += "[[defaults]]\nfrom = \"a\"\nto = [\"b\", \"self\"]\naction = \"allow\"\n";
    }
    t
}

/// A policy without errors whose rules name lists where another's name some addresses.
pub(crate) fn listed_policy_text(c: &mut Choices<'_>, rules: usize) -> String {
    let text = policy_text(c, rules);
    let (before, rules) = text.split_once("[services]").unwrap();
    let rules = LISTED.iter().fold(rules.to_owned(), |rules, (addresses, list)| {
        rules.replace(&format!("\"{addresses}\""), &format!("\"{list}\""))
    });
    format!(
        "{LISTS}{before}all = [\"list:l0\", \"list:l1\", \"list:l2\"]\nsome = [\"list:l1\", \"10.1.2.3\", \"2001:db8:1:2::5\"]\n[services]{rules}"
    )
}

const LISTS: &str = "[lists]\nl0 = { entries = [\"10.1.0.0/16\", \"2001:db8:1:2::/64\"] }\nl1 = { entries = [\"192.0.2.255\", \"::/1\"] }\n\
     l2 = { entries = \"0.0.0.0/1\" }\n";
const LISTED: [(&str, &str); 5] = [
    ("10.1.2.0/24", "list:l0"),
    ("2001:db8::/32", "list:l1"),
    ("0.0.0.0/0", "list:l2"),
    ("192.0.2.0/24", "list:l1"),
    ("2001:db8:1::/48", "some"),
];

/// What is on the lists of such a policy.
pub(crate) fn contents(policy: &Policy) -> Vec<AddressSet> {
    policy.lists.iter().map(|list| list.contents(AddressSet::default())).collect()
}

/// Moments at which the schedules differ: Wednesday by day and night, in and out of the year.
pub(crate) const MOMENTS: [&str; 4] =
    ["2026-06-17T10:00:00Z", "2026-06-17T22:00:00Z", "2026-12-16T10:00:00Z", "2026-12-16T22:00:00Z"];

/// A packet at or beside some boundary of the words above.
pub(crate) fn packet(c: &mut Choices<'_>, policy: &Policy) -> Packet {
    let v6 = c.below(3) == 0;
    let mut address = || if v6 { IpAddr::V6(near6(c)) } else { IpAddr::V4(near4(c)) };
    let (source, destination) = (address(), address());
    let zones = policy.zones.len();
    let protocol = [6, 17, 1, 58, 47, 132, 255, 0][c.below(8)];
    let selector =
        [80, 443, 0, 1023, 1024, 53, 65535, 0x0304, 0x0800, 0x0200, 0x8000, 1500, 999, 81][c.below(14)];
    let (from, to) = (c.below(zones) as u8, c.below(zones) as u8);
    let source_port = [40_000, 53, 0, 65_535, 1023, 1024, 999, 1000, 2000, 2001][c.below(10)];
    Packet { from, to, source, destination, source_port, protocol, selector }
}

fn near4(c: &mut Choices<'_>) -> Ipv4Addr {
    const POINTS: [u32; 14] = [
        0x0a01_0203,
        0x0a00_0000,
        0x0aff_ffff,
        0x0a01_0000,
        0x0a01_0200,
        0x0a01_0280,
        0x0a01_0309,
        0,
        0x7fff_ffff,
        0xc000_02ff,
        0xffff_ffff,
        0xbfff_ffff,
        0x0a00_ffff,
        0xc633_6401,
    ];
    let point = POINTS[c.below(POINTS.len())];
    Ipv4Addr::from(point.wrapping_add([0, 1, u32::MAX][c.below(3)]))
}

fn near6(c: &mut Choices<'_>) -> Ipv6Addr {
    const POINTS: [u128; 9] = [
        0x2001_0db8_0001_0002_0000_0000_0000_0005,
        0x2001_0db8_0000_0000_0000_0000_0000_0000,
        0x2001_0db8_0001_0002_0000_0000_0000_0000,
        0x2001_0db8_0001_0002_8000_0000_0000_0000,
        0x2001_0db8_0001_0001_ffff_0000_0000_0000,
        0x2001_0db8_0001_0003_0000_0000_0000_0001,
        0,
        u128::MAX,
        1 << 127,
    ];
    let point = POINTS[c.below(POINTS.len())];
    Ipv6Addr::from(point.wrapping_add([0, 1, u128::MAX, 1 << 64][c.below(4)]))
}
