//! Imported policies against the kernel: the rule set is loaded in a namespace, packets that each open a flow are sent through it, and what
//! passed is compared with what the policy says. Half of the packets stand at the ends of ranges that the policy names.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod random;

use policy::Policy;
use policy::address::AddressSet;
use policy::interpret::{Decider, Packet, decide};
use policy::model::{Action, ZoneId};
use policy::service::ServiceSet;
use policy::translation::SourceTranslation;
use policy_import::{Format, Options, Own, Source, import};
use random::Random;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use testkit::namespace::{Namespace, run};
use testkit::packet::{Frame, SYN, Tcp, icmp, udp};

/// Packets of one rule set; each has its number in the identification of its header.
const PACKETS: u16 = 6_000;

/// Notes what came past every other chain: where it goes, and where it comes from for its receiver. What the machine itself sends has no mark.
const PROBE: &str = "table ip probe {
    set seen { typeof ip id . ip daddr; flags dynamic; size 65536; }
    set ports { typeof ip id . th dport; flags dynamic; size 65536; }
    set sources { typeof ip id . ip saddr; flags dynamic; size 65536; }
    set answers { typeof ip id; flags dynamic; size 65536; }
    chain prerouting { type filter hook prerouting priority -140; ct direction reply add @answers { ip id }; }
    chain note { add @seen { ip id . ip daddr }; ip protocol { tcp, udp } add @ports { ip id . th dport }; }
    chain forward { type filter hook forward priority 900; jump note; meta mark set 0x77; }
    chain input { type filter hook input priority 900; jump note; }
    chain postrouting { type filter hook postrouting priority 900; meta mark 0x77 add @sources { ip id . ip saddr }; }
}";

const SEND: &str = "
import socket, sys
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
for line in open(sys.argv[1]):
    name, frame = line.split()
    link.sendto(bytes.fromhex(frame), (name, 0))
";

impl Random {
    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.place(of.len())]
    }

    fn near_one_of(&mut self, ranges: &[(u32, u32)]) -> u32 {
        let range = self.one_of(ranges);
        self.near(range)
    }

    /// An end of a range, its neighbour, or something in between.
    fn near(&mut self, (first, last): (u32, u32)) -> u32 {
        match self.below(5) {
            0 => first,
            1 => last,
            2 => first.wrapping_sub(1),
            3 => last.wrapping_add(1),
            _ => first + (self.below(u64::from(last - first) + 1) as u32),
        }
    }
}

/// A rule set as data, and the machine that it is for.
struct Case<'c> {
    format: Format,
    file: &'c str,
    /// Interfaces, each with the networks behind it; the last has the rest of the world.
    links: &'c [(&'c str, &'c [&'c str])],
    /// Whether the policy has to allow all that the original allows.
    is_exact: bool,
    /// Whether the importer is given the router's addresses.
    has_addresses: bool,
}

fn text(file: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file)).unwrap()
}

/// The address of the router at a link.
fn own(link: usize) -> Ipv4Addr {
    Ipv4Addr::new(100, 64, link as u8, 1)
}

fn router(case: &Case<'_>, text: &str) -> (Namespace, Namespace) {
    let (router, far) = (Namespace::create("router"), Namespace::create("far"));
    for (i, (name, networks)) in case.links.iter().enumerate() {
        router.ip(&format!(
            "link add {name} address 02:00:00:00:00:fe type veth peer name {name} netns {}
             address add {}/32 dev {name}
             link set {name} up",
            far.name(),
            own(i)
        ));
        far.ip(&format!("link set {name} up"));
        networks.iter().for_each(|network| router.ip(&format!("route add {network} dev {name}")));
    }
    router.ip(&format!("route add default dev {}", case.links.last().unwrap().0));
    router.set(&[("ipv4/ip_forward", "1")]);
    let file = tempfile(text);
    match case.format {
        Format::IptablesSave => router.run("iptables-nft-restore", &[&file.0]),
        Format::Nft => router.run("nft", &["-f", &file.0]),
        Format::Ufw => panic!("ufw's own files hang on chains that ufw makes when it starts"),
    };
    router.nft(PROBE);
    (router, far)
}

/// A file that goes away with the value.
struct Scratch(String);

fn tempfile(text: &str) -> Scratch {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("policy-import-{}-{number}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    Scratch(path.display().to_string())
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn first_of(network: &str) -> (u32, u32) {
    let set = AddressSet::parse(network).unwrap();
    set.v4.ranges()[0]
}

/// The link behind which an address is; `None`: the router's own.
fn link_of(case: &Case<'_>, address: Ipv4Addr) -> Option<usize> {
    if (0..case.links.len()).any(|link| own(link) == address) {
        return None;
    }
    let behind = |(_, networks): &(&str, &[&str])| {
        networks.iter().any(|network| {
            let (first, last) = first_of(network);
            (first..=last).contains(&u32::from(address))
        })
    };
    Some(case.links.iter().position(behind).unwrap_or(case.links.len() - 1))
}

fn is_a_hosts(address: u32) -> bool {
    let first = address >> 24;
    first != 0 && first != 127 && first < 224
}

/// What an entry of a policy says of packets: source, destination, service, and whether they are for the machine itself.
type Asked<'p> = (&'p AddressSet, &'p AddressSet, &'p ServiceSet, bool);

/// Of every second packet a translation, if there are some.
fn asked<'p>(policy: &'p Policy, random: &mut Random) -> Asked<'p> {
    let translations = &policy.translations;
    if !translations.is_empty() && random.below(2) == 0 {
        let entry = &translations[random.below(translations.len() as u64) as usize];
        return (&entry.source, &entry.destination, &entry.service, false);
    }
    let rule = &policy.rules[random.below(policy.rules.len() as u64) as usize];
    (&rule.source, &rule.destination, &rule.service, rule.to == 1)
}

/// The zone behind which an address is.
fn zone_of(case: &Case<'_>, policy: &Policy, address: Ipv4Addr) -> ZoneId {
    link_of(case, address).map_or(policy::model::SELF, |link| zone_of_link(case, policy, link))
}

fn zone_of_link(case: &Case<'_>, policy: &Policy, link: usize) -> ZoneId {
    let zone = policy.zone_of_interface(case.links[link].0).unwrap();
    policy.zone(&zone.name).unwrap()
}

/// A packet that the policy tells from others, and its link; `None` if no host sends it.
fn packet(case: &Case<'_>, policy: &Policy, random: &mut Random) -> Option<(usize, Packet)> {
    let (sources, destinations, services, is_to_self) = asked(policy, random);
    let address = |set: &AddressSet, random: &mut Random| match (random.below(4), set.v4.ranges()) {
        (0, _) | (_, []) => match random.below(4) {
            0 => u32::from(own(random.below(case.links.len() as u64) as usize)),
            1 => random.below(1 << 32) as u32,
            _ => {
                let (_, networks) = case.links[random.below(case.links.len() as u64) as usize];
                networks.first().map_or(0xc633_6407, |network| random.near(first_of(network)))
            }
        },
        (_, ranges) => random.near_one_of(ranges),
    };
    let source = address(sources, random);
    let mut destination = address(destinations, random);
    // Most packets to the machine itself would not be made by chance.
    if is_to_self && random.below(4) > 0 {
        destination = u32::from(own(random.below(case.links.len() as u64) as usize));
    }
    let part = random.one_of(&services.parts().iter().collect::<Vec<_>>());
    let key = match random.below(4) {
        0 => random.one_of(&[
            6 << 16 | 22,
            6 << 16 | 80,
            17 << 16 | 53,
            1 << 16 | 8 << 8,
            1 << 16,
            17 << 16 | 9,
            47 << 16,
        ]),
        _ => random.near_one_of(part.keys.ranges()),
    };
    let (protocol, mut selector) = ((key >> 16) as u8, key as u16);
    let source_port = random.near_one_of(part.source_ports.ranges()) as u16;
    match protocol {
        // Redirects the kernel takes for itself; 15 and 17 are queries for conntrack alone.
        1 if matches!(selector >> 8, 5 | 15 | 17) => return None,
        1 | 6 | 17 => {}
        // What no protocol above IP reads: no ports.
        41 | 47 | 50 | 89 | 112 => selector = 0,
        _ => return None,
    }
    let (source, destination) = (Ipv4Addr::from(source), Ipv4Addr::from(destination));
    // Conntrack takes a packet to its own source for the answer to itself.
    if source == destination {
        return None;
    }
    if !is_a_hosts(source.into()) || !is_a_hosts(destination.into()) || link_of(case, source).is_none() {
        return None;
    }
    let link = random.below(case.links.len() as u64) as usize;
    let (from, to) = (zone_of_link(case, policy, link), zone_of(case, policy, destination));
    let source_port = if matches!(protocol, 6 | 17) { source_port } else { 0 };
    let (source, destination) = (IpAddr::V4(source), IpAddr::V4(destination));
    Some((link, Packet { from, to, source, destination, source_port, protocol, selector }))
}

fn frame(packet: &Packet, number: u16) -> Vec<u8> {
    let ports = (packet.source_port, packet.selector);
    let payload = match packet.protocol {
        1 => icmp((packet.selector >> 8) as u8, packet.selector as u8, number),
        6 => Tcp { ports, flags: SYN, sequence: 1, window: 1024, ..Tcp::default() }.bytes(),
        17 => udp(ports, 8),
        _ => vec![0; 8],
    };
    let fragment = Some((u32::from(number), 0, false));
    let frame =
        Frame { payload, fragment, ..Frame::between(packet.source, packet.destination, packet.protocol) };
    let mut bytes = frame.completed().bytes();
    bytes[..6].copy_from_slice(&[2, 0, 0, 0, 0, 0xfe]);
    bytes
}

/// What the kernel made of the packets that passed, by their numbers.
struct Seen {
    destinations: HashMap<u16, Ipv4Addr>,
    ports: HashMap<u16, u16>,
    sources: HashMap<u16, Ipv4Addr>,
    /// Those that a translation has made answers to an earlier one, by chance: they open nothing.
    answers: HashSet<u16>,
}

fn seen(router: &Namespace) -> Seen {
    fn elements(router: &Namespace, name: &str) -> Vec<String> {
        let list = router.run("nft", &["-n", "list", "set", "ip", "probe", name]);
        let elements = list.split("elements = {").nth(1).unwrap_or_default();
        elements.split([',', '}']).map(|words| words.trim().to_owned()).collect()
    }
    fn set<T: std::str::FromStr>(router: &Namespace, name: &str) -> HashMap<u16, T> {
        let pair = |words: &String| {
            let (number, value) = words.split_once(" . ")?;
            Some((number.parse().ok()?, value.parse().ok()?))
        };
        elements(router, name).iter().filter_map(pair).collect()
    }
    let answers = elements(router, "answers").iter().filter_map(|number| number.parse().ok()).collect();
    Seen {
        destinations: set(router, "seen"),
        ports: set(router, "ports"),
        sources: set(router, "sources"),
        answers,
    }
}

/// ICMP that is no query and that nobody asked for: conntrack does not translate it. Rampart takes an answer for the beginning of a flow, and
/// drops what is to be translated and opens none.
fn is_left_alone(packet: &Packet) -> bool {
    packet.protocol == 1 && !matches!(packet.selector >> 8, 8 | 13)
}

/// A packet as the rules see it.
fn judged(case: &Case<'_>, policy: &Policy, packet: &Packet) -> Packet {
    if is_left_alone(packet) {
        return *packet;
    }
    let Some((_, Some(new))) = policy.translate_destination(packet) else { return *packet };
    let IpAddr::V4(address) = new.address else { panic!("IPv4 alone") };
    let (destination, selector) = (new.address, new.port.unwrap_or(packet.selector));
    Packet { destination, selector, to: zone_of(case, policy, address), ..*packet }
}

/// Whether the kernel sends a packet where the policy does, and from where the policy says. An entry that was not carried over says nothing.
fn assert_same_ends(case: &Case<'_>, policy: &Policy, seen: &Seen, number: u16, packet: &Packet) -> bool {
    let is = |address: Ipv4Addr, expected: IpAddr| expected == IpAddr::V4(address);
    assert!(
        is(seen.destinations[&number], packet.destination),
        "{}: to {}: {packet:?}",
        case.file,
        seen.destinations[&number]
    );
    if let Some(port) = seen.ports.get(&number) {
        assert_eq!(*port, packet.selector, "{}: {packet:?}", case.file);
    }
    if is_left_alone(packet) {
        return false;
    }
    let (Some(source), IpAddr::V4(destination)) = (seen.sources.get(&number), packet.destination) else {
        return false;
    };
    let translation = policy.translate_source(packet, None).and_then(|(_, translation)| translation);
    let is_right = match translation {
        None => is(*source, packet.source) || !case.is_exact,
        Some(SourceTranslation::Interface) => Some(*source) == link_of(case, destination).map(own),
        Some(SourceTranslation::OneOf(first, last)) => (first..=last).contains(source),
        Some(SourceTranslation::Address(address)) => is(*source, address),
        // A query with a code, which conntrack does not look at.
        Some(SourceTranslation::Untranslatable) => return false,
    };
    assert!(is_right, "{}: from {source}, and not {translation:?}: {packet:?}", case.file);
    translation.is_some()
}

fn check(case: &Case<'_>) {
    let text = text(case.file);
    let source = Source { name: case.file.to_owned(), text: text.clone() };
    let interfaces = case.links.iter().map(|(name, _)| (*name).to_owned()).collect();
    let addresses = (0..case.links.len())
        .map(|link| Own {
            interface: Some(case.links[link].0.to_owned()),
            address: IpAddr::V4(own(link)),
            length: 32,
        })
        .filter(|_| case.has_addresses);
    let options = Options { interfaces, addresses: addresses.collect(), answers: false };
    let imported = import(case.format, &[source], &options).unwrap();
    assert_eq!(imported.is_exact(), case.is_exact, "{}: {:?}", case.file, imported.findings);
    let policy = Policy::parse("imported", &imported.policy).unwrap();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut sent = Vec::new();
    let mut flows = HashSet::new();
    while sent.len() < usize::from(PACKETS) {
        // The second packet of a flow opens none, whatever interface it comes in by.
        let flow = |packet: &Packet| {
            (packet.source, packet.destination, packet.source_port, packet.protocol, packet.selector)
        };
        sent.extend(packet(case, &policy, &mut random).filter(|(_, packet)| flows.insert(flow(packet))));
    }
    let (router, far) = router(case, &text);
    let mut lines = String::new();
    for (number, (link, packet)) in sent.iter().enumerate() {
        let hex = frame(packet, number as u16 + 1).iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        let _ = writeln!(lines, "{} {hex}", case.links[*link].0);
    }
    let file = tempfile(&lines);
    far.run("python3", &["-c", SEND, &file.0]);
    let seen = seen(&router);
    let (mut both, mut neither, mut less) = (0, 0, Vec::new());
    // Packets that passed with another destination, and with another source.
    let mut translated = [0, 0];
    for (number, (_, original)) in (1..).zip(&sent) {
        if seen.answers.contains(&number) {
            continue;
        }
        let packet = &judged(case, &policy, original);
        let verdict = decide(&policy, packet, jiff::Timestamp::UNIX_EPOCH);
        let limited =
            matches!(verdict.decider, Decider::Rule(at) if policy.rules[at].effect.limit.rate.is_some());
        let allows = verdict.action == Action::Allow;
        let passes = seen.destinations.contains_key(&number);
        assert!(
            passes || !allows || limited,
            "{}: allowed, and dropped by the kernel: {original:?} as {packet:?}",
            case.file
        );
        match (allows, passes) {
            (true, true) => {
                both += 1;
                translated[0] += usize::from(packet.destination != original.destination);
                translated[1] += usize::from(assert_same_ends(case, &policy, &seen, number, packet));
            }
            (false, false) => neither += 1,
            _ if limited => {}
            _ => less.push(original),
        }
    }
    let is_enough = |key: &str, passed: usize| !imported.policy.contains(key) || passed > 50;
    assert!(
        // What Docker 28 sends to its containers its own rules drop, as far as a policy can say it.
        (is_enough("destination_to", translated[0]) || case.file == "docker28.iptables")
            && (is_enough("masquerade", translated[1]) && is_enough("source_to", translated[1])),
        "{}: {translated:?} passed translated",
        case.file
    );
    assert!(both > 100 && neither > 100, "{}: {both} passed, {neither} did not", case.file);
    let limits = policy.rules.iter().any(|rule| rule.effect.limit.rate.is_some());
    assert!(less.is_empty() || !case.is_exact || limits, "{}: denied, and passes: {:?}", case.file, less[0]);
}

#[test]
fn needs_root_the_kernel_drops_nothing_that_imported_policies_allow() {
    // Programs are there only if the machine was prepared.
    run("nft", &["--version"]);
    const DMZ: &[&str] = &["192.0.2.0/24"];
    const LAN: &[&str] = &["10.0.0.0/8"];
    const DOCKER: &[(&str, &[&str])] = &[
        ("docker0", &["172.17.0.0/16"]),
        ("br-5f0c", DMZ),
        ("virbr0", &["192.168.122.0/24"]),
        ("eth0", &[]),
    ];
    for case in [
        Case {
            format: Format::IptablesSave,
            file: "router.iptables",
            links: &[("eth1", LAN), ("ppp0", &[])],
            is_exact: false,
            has_addresses: false,
        },
        Case {
            format: Format::IptablesSave,
            file: "docker.iptables",
            links: DOCKER,
            // What it says of port 22 stands above the answers.
            is_exact: false,
            has_addresses: false,
        },
        Case {
            format: Format::IptablesSave,
            file: "docker.iptables",
            links: DOCKER,
            // What it says of port 22 stands above the answers.
            is_exact: false,
            has_addresses: true,
        },
        Case {
            format: Format::IptablesSave,
            file: "docker28.iptables",
            links: &[("docker0", &["172.17.0.0/16"]), ("eth0", &[])],
            // What is forwarded to a container is, for a policy, what is sent there.
            is_exact: false,
            has_addresses: true,
        },
        Case {
            format: Format::Nft,
            file: "script.nft",
            links: &[("lan0", LAN), ("dmz0", DMZ), ("wan0", &[])],
            is_exact: false,
            has_addresses: false,
        },
        Case {
            format: Format::Nft,
            file: "script.nft",
            links: &[("lan0", LAN), ("dmz0", DMZ), ("wan0", &[])],
            is_exact: false,
            has_addresses: true,
        },
        Case {
            format: Format::Nft,
            file: "firewalld.nft",
            links: &[("eth1", LAN), ("eth0", &[])],
            is_exact: false,
            has_addresses: false,
        },
        Case {
            format: Format::Nft,
            file: "home.nft",
            links: &[("eth1", &["192.168.0.0/16"]), ("ppp0", &[])],
            is_exact: false,
            has_addresses: false,
        },
        Case {
            format: Format::Nft,
            file: "openwrt.nft",
            links: &[("br-lan", &["192.168.1.0/24"]), ("wan", &[])],
            is_exact: false,
            has_addresses: false,
        },
        Case {
            format: Format::IptablesSave,
            file: "ufw.iptables",
            links: &[("eth1", LAN), ("eth0", &[])],
            is_exact: false,
            has_addresses: false,
        },
        Case {
            format: Format::Nft,
            file: "router.nft",
            links: &[("lan0", LAN), ("dmz0", DMZ), ("wan0", &[])],
            is_exact: true,
            has_addresses: false,
        },
        Case {
            format: Format::IptablesSave,
            file: "translated.iptables",
            links: &[("eth1", LAN), ("eth0", &[])],
            is_exact: false,
            has_addresses: false,
        },
        Case {
            format: Format::IptablesSave,
            file: "translated.iptables",
            links: &[("eth1", LAN), ("eth0", &[])],
            is_exact: false,
            has_addresses: true,
        },
        Case {
            format: Format::Nft,
            file: "translated.nft",
            links: &[("lan0", LAN), ("dmz0", DMZ), ("wan0", &[])],
            is_exact: true,
            has_addresses: false,
        },
    ] {
        check(&case);
    }
}
