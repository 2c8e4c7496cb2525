//! The rule sets of the bench (`crates/testbed/src/policy/filler.rs`) in Rampart's language: fillers as rule sets have them,
//! which no test traffic matches, and last the rule that allows it. Thousands of hosts and networks that nest, and of services: what
//! makes tables large.

use policy::Policy;
use policy::address::AddressSet;
use policy::interpret::Packet;
use rule_sets::Random;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Source, destination and service of a rule, as the language has them.
pub(crate) struct Fields {
    pub(crate) source: String,
    pub(crate) destination: String,
    pub(crate) service: String,
}

const PRIVATE: Zone = Zone { v4: 0xc612_0000, length: 16, v6: 0x2001_0002_0000_0001 };
const HOSTILE: Zone = Zone { v4: 0xc613_0000, length: 17, v6: 0x2001_0002_0000_0002 };
const DMZ: Zone = Zone { v4: 0xc613_8000, length: 17, v6: 0x2001_0002_0000_0003 };

#[derive(Clone, Copy)]
struct Zone {
    v4: u32,
    length: u32,
    /// The /64.
    v6: u64,
}

impl Zone {
    fn whole(self) -> String {
        networks(self.v4, self.length, u128::from(self.v6) << 64, 64)
    }

    fn part(self, random: &mut Random) -> String {
        let length = prefix_length(random).max(self.length);
        let host = random.next() as u32 & (u32::MAX >> self.length);
        networks(self.v4 | host, length, u128::from(self.v6) << 64 | u128::from(host), length + 96)
    }
}

/// The rule that allows the test traffic.
pub(crate) fn matching() -> Fields {
    Fields { source: PRIVATE.whole(), destination: HOSTILE.whole(), service: "\"tcp/1-49151\"".to_owned() }
}

/// The filler of a number.
pub(crate) fn filler(number: u64) -> Fields {
    let mut random = Random(number.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let random = &mut random;
    let between_zones = random.below(8) == 7;
    let (source, destination) = match random.below(3) {
        _ if between_zones => (PRIVATE.whole(), HOSTILE.part(random)),
        0 | 1 => (PRIVATE.part(random), elsewhere(random)),
        _ => (elsewhere(random), DMZ.part(random)),
    };
    let service = match random.below(10) {
        0 => "[\"icmp\", \"icmpv6\"]".to_owned(),
        1..=3 => format!("\"udp/{}\"", ports(random)),
        // Between the zones only other protocols than that of the test.
        _ if between_zones => format!("\"udp/{}\"", ports(random)),
        _ => format!("\"tcp/{}\"", ports(random)),
    };
    Fields { source, destination, service }
}

/// A rule set in which the last rule of a number matches.
pub(crate) fn filled_policy(rules: u64) -> String {
    let mut text =
        String::from("[zones]\nprivate = { interfaces = \"e0\" }\nhostile = { interfaces = \"e1\" }\n");
    for number in 1..=rules {
        let Fields { source, destination, service } =
            if number == rules { matching() } else { filler(number) };
        writeln!(
            text,
            "[[rules]]\nname = \"r{number}\"\nfrom = \"any\"\nto = \"any\"\nsource = {source}\n\
             destination = {destination}\nservice = {service}\naction = \"allow\""
        )
        .unwrap();
    }
    text
}

/// A packet of the test traffic, which matches the last rule.
pub(crate) fn matching_packet(number: u64) -> Packet {
    let mut random = Random(number);
    let (source, destination) = (random.below(0x1_0000) as u32, random.below(0x8000) as u32);
    Packet {
        from: 1,
        to: 2,
        source: IpAddr::V4((PRIVATE.v4 | source).into()),
        destination: IpAddr::V4((HOSTILE.v4 | destination).into()),
        source_port: 40_000,
        protocol: 6,
        selector: 1 + random.below(49_151) as u16,
    }
}

/// A packet at the boundaries of some rules: mostly one rule's source, destination and service, sometimes another's.
pub(crate) fn mixed_packet(policy: &Policy, number: u64) -> Packet {
    let random = &mut Random(!number);
    let some = |random: &mut Random| &policy.rules[random.below(policy.rules.len() as u64) as usize];
    let rule = some(random);
    let like = |random: &mut Random| if random.below(4) == 0 { some(random) } else { rule };
    let (source, destination) = (&like(random).source, &like(random).destination);
    let services = like(random).service.parts()[0].keys.ranges();
    let key = services[random.below(services.len() as u64) as usize].0;
    let v6 = random.below(3) == 0;
    let end = |set: &AddressSet, random: &mut Random| {
        let (last, beyond) = (random.below(2) == 1, u32::from(random.below(8) == 7));
        if v6 {
            let (from, to) = set.v6.ranges()[0];
            IpAddr::V6(
                if last { to.wrapping_add(beyond.into()) } else { from.wrapping_sub(beyond.into()) }.into(),
            )
        } else {
            let (from, to) = set.v4.ranges()[0];
            IpAddr::V4(if last { to.wrapping_add(beyond) } else { from.wrapping_sub(beyond) }.into())
        }
    };
    let (source, destination) = (end(source, random), end(destination, random));
    let (protocol, selector) = ((key >> 16) as u8, key as u16);
    Packet { from: 1, to: 2, source, destination, source_port: 40_000, protocol, selector }
}

fn networks(v4: u32, v4_length: u32, v6: u128, v6_length: u32) -> String {
    let v4 = Ipv4Addr::from((u64::from(v4) >> (32 - v4_length) << (32 - v4_length)) as u32);
    let v6 = Ipv6Addr::from(v6 >> (128 - v6_length) << (128 - v6_length));
    format!("[\"{v4}/{v4_length}\", \"{v6}/{v6_length}\"]")
}

/// Single hosts and /24 are the most common in rule sets; the rest spreads from /8 to /31.
fn prefix_length(random: &mut Random) -> u32 {
    match random.below(20) {
        0..=6 => 32,
        7..=12 => 24,
        13 | 14 => 16,
        15 | 16 => 25 + random.below(7) as u32,
        17 | 18 => 17 + random.below(7) as u32,
        _ => 8 + random.below(8) as u32,
    }
}

/// A network in which no zone is.
fn elsewhere(random: &mut Random) -> String {
    loop {
        let length = prefix_length(random);
        let v4 = random.next() as u32;
        let v6 = (u128::from(random.next()) << 64 | u128::from(random.next())) >> 3 | 1 << 125;
        let shared = (v4 ^ PRIVATE.v4).leading_zeros();
        if shared < length.min(15) {
            return networks(v4, length, v6, if length == 32 { 128 } else { length + 16 });
        }
    }
}

/// Mostly one well-known service, sometimes a range, sometimes most.
fn ports(random: &mut Random) -> String {
    const SERVICES: [u16; 16] =
        [22, 25, 53, 80, 110, 123, 143, 161, 389, 443, 445, 993, 1433, 3306, 5432, 8080];
    match random.below(10) {
        0..=5 => SERVICES[random.below(16) as usize].to_string(),
        6 | 7 => (1 + random.below(49_151)).to_string(),
        8 => {
            let low = 1024 + random.below(40_000);
            format!("{low}-{}", low + 1 + random.below(2000))
        }
        _ => "1024-49151".to_owned(),
    }
}
