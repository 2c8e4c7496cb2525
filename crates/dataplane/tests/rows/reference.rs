//! The firewall of the bed as one would explain it: what becomes of a frame, and which frame leaves. Slow and obvious; the
//! rules are asked of `policy::interpret`. Written from the documents and not from `bpf/firewall`, which is held against it.
//!
//! Connections are followed only as far as their first SYN and SYN-ACK; what comes after is `tcp.txt`'s business.

use crate::answers::{Answer, answer};
use crate::seen::{Early, Icmp, MOST_EXTENSIONS, Part, Seen, u16_at, u32_at};
use policy::Policy;
use policy::interpret::{Decider, Packet, Verdict, decide};
use policy::model::{Action, ZoneId};
use policy::settings::ReversePath;
use std::net::IpAddr;

/// The MTU of the bed's links, and of the narrow routes.
const MTU: usize = 2000;
const NARROW: usize = 1400;
const SYN: u8 = 2;
const TCP_KIND: u8 = 0x17;
/// Ethernet addresses of the bed: out0 and its neighbour, in0 and its.
const OUTWARD: [u8; 12] = [2, 0, 0, 0, 2, 2, 2, 0, 0, 0, 2, 1];
const INWARD: [u8; 12] = [2, 0, 0, 0, 1, 2, 2, 0, 0, 0, 1, 1];

/// What becomes of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// `pass`, `up`, `cut` by the kernel, or why it is dropped, with what is answered behind it.
    pub(crate) words: String,
    /// What leaves, or goes up.
    pub(crate) frame: Option<Vec<u8>>,
}

struct Flow {
    protocol: u8,
    /// Address and port of who opened it, and of the other end.
    ends: Ends,
    zones: [ZoneId; 2],
    sequence: u32,
    /// What the policy was asked when it opened, and is asked of every packet of it.
    asked: Packet,
}

/// A datagram whose first fragment was allowed.
struct Datagram {
    ends: [IpAddr; 2],
    id: u32,
    protocol: u8,
    zones: [ZoneId; 2],
    /// The ends of its flow, if it has one, and the sender's first.
    flow: Option<Ends>,
    /// Which policy allowed it.
    policy: usize,
    /// What has passed of it.
    parts: Vec<Part>,
    /// Nothing more of it passes.
    is_refused: bool,
}

impl Datagram {
    fn is_whole(&self) -> bool {
        let passed: usize = self.parts.iter().map(|part| part.to - part.from).sum();
        self.parts.iter().any(|part| part.is_last && part.to == passed)
    }

    fn is_of(&self, ends: [IpAddr; 2], id: u32, protocol: u8) -> bool {
        // IPv6 numbers do not tell protocols apart (RFC 8200 section 4.5).
        self.ends == ends && self.id == id && (ends[0].is_ipv6() || self.protocol == protocol)
    }

    /// RFC 5722: parts that overlap end all of the datagram, and so do parts behind its end.
    fn check(&mut self, part: Part) -> Decided<()> {
        let fits = |it: &Part| {
            let is_beyond = it.is_last && part.to >= it.to || part.is_last && it.to >= part.to;
            it == &part || !is_beyond && (part.from >= it.to || it.from >= part.to)
        };
        self.is_refused |= !self.parts.iter().all(fits);
        if self.is_refused {
            return dropped("fragment-overlap");
        }
        if self.parts.contains(&part) { dropped("fragment-duplicate") } else { Ok(()) }
    }
}

/// Where a destination is.
pub(crate) enum Way {
    Own,
    Link { zone: ZoneId, macs: [u8; 12], mtu: usize },
    Nowhere(Option<Answer>),
    NoZone,
}

pub(crate) struct Reference {
    pub(crate) policy: Policy,
    pub(crate) at: jiff::Timestamp,
    /// How many were in force before.
    policies: usize,
    flows: Vec<Flow>,
    datagrams: Vec<Datagram>,
    /// What the rules were asked, and what they said.
    pub(crate) asked: Vec<(Packet, Verdict)>,
}

/// Address and port of two ends.
type Ends = [(IpAddr, u16); 2];
type Decided<T> = Result<T, Outcome>;

fn dropped<T>(reason: &str) -> Decided<T> {
    Err(Outcome { words: reason.to_owned(), frame: None })
}

impl Reference {
    pub(crate) fn new(policy: Policy, at: jiff::Timestamp) -> Self {
        Self { policy, at, policies: 0, flows: vec![], datagrams: vec![], asked: vec![] }
    }

    /// What a line of the rows makes of the policy, if it says so: `reverse_path CHECK`, or `revoke RULE`. Flows stay open.
    pub(crate) fn change_policy(&mut self, text: &str, line: &str) -> Option<String> {
        let changed = match line.split_once(' ')? {
            ("reverse_path", check) => format!("{text}\n[settings]\nreverse_path = \"{check}\"\n"),
            ("revoke", "nothing") => text.to_owned(),
            ("revoke", rule) => {
                let name = format!("name = \"{rule}\"\n");
                assert!(text.contains(&name), "no rule {rule}");
                text.replace(&name, &format!("{name}enabled = false\n"))
            }
            _ => return None,
        };
        self.policies += 1;
        self.policy = Policy::parse("rows.toml", &changed).unwrap_or_else(|problems| panic!("{problems}"));
        Some(changed)
    }

    pub(crate) fn forget_flows(&mut self) {
        self.flows.clear();
    }

    /// Flows, and datagrams of which something is missing.
    pub(crate) fn forget(&mut self) {
        self.flows.clear();
        self.datagrams.clear();
    }

    /// What becomes of a frame that comes from a zone; `None`: from an interface of no zone.
    pub(crate) fn cross(&mut self, zone: Option<&str>, frame: &[u8]) -> Outcome {
        self.decide(zone, frame).unwrap_or_else(|outcome| outcome)
    }

    fn decide(&mut self, zone: Option<&str>, frame: &[u8]) -> Decided<Outcome> {
        let up = || Outcome { words: "up".to_owned(), frame: Some(frame.to_vec()) };
        let Some(zone) = zone else { return dropped("no-zone") };
        let from = self.policy.zone(zone).unwrap();
        let own = if zone == "inside" { &INWARD[6..] } else { &OUTWARD[6..] };
        if frame.len() >= 14 && !is_for_us(frame, own) {
            return dropped("not-ours");
        }
        let seen = match Seen::read(frame) {
            Ok(seen) => seen,
            Err(Early::Up(to)) if frame[0] & 1 == 0 || to.is_none_or(is_for_many) => return Ok(up()),
            Err(Early::Up(_)) => return dropped("not-ours"),
            Err(Early::Dropped(reason)) => return dropped(reason),
        };
        if frame[0] & 1 != 0 && !is_for_many(seen.destination) {
            return dropped("not-ours");
        }
        if seen.part.is_some_and(|part| part.from == 0) {
            self.meet_datagram(from, &seen)?;
        }
        let to = self.allow(from, &seen, frame)?;
        if let Some(part) = seen.part.filter(|part| part.from == 0 && (seen.ttl > 1 || to == 0)) {
            let ends = [seen.source, seen.destination];
            let has_flow = !matches!(seen.icmp, Some(Icmp::Error | Icmp::Other));
            let flow = has_flow.then_some([(ends[0], seen.ports.0), (ends[1], seen.ports.1)]);
            let (id, protocol, zones, parts) = (part.id, seen.protocol, [from, to], vec![part]);
            let (policy, is_refused) = (self.policies, false);
            self.datagrams.push(Datagram { ends, id, protocol, zones, flow, policy, parts, is_refused });
        }
        if to == 0 {
            return Ok(up());
        }
        self.forward(&seen, frame)
    }

    /// The zone that an allowed packet goes to.
    fn allow(&mut self, from: ZoneId, seen: &Seen, frame: &[u8]) -> Decided<ZoneId> {
        if seen.is_later_part() {
            let Some(to) = self.meet_datagram(from, seen)? else { return dropped("fragment-unknown") };
            return self.outlive(from, to, seen);
        }
        if seen.icmp == Some(Icmp::Error) {
            if let Some(to) = self.accompany_quoted(from, seen, frame)? {
                return self.check_source(from, to, seen).map(|()| to);
            }
        } else if seen.icmp != Some(Icmp::Other) {
            let ends = [(seen.source, seen.ports.0), (seen.destination, seen.ports.1)];
            if let Some((flow, side)) = self.find(seen.protocol, ends) {
                let verdict = decide(&self.policy, &flow.asked, self.at);
                if verdict.action != Action::Allow {
                    self.end_flow(seen.protocol, ends);
                    return refuse(&verdict, seen, frame);
                }
                if flow.zones[side] != from {
                    return dropped("flow-zone");
                }
                // Who began a flow asks, and the other end answers.
                if seen.icmp.as_ref().is_some_and(|icmp| (*icmp == Icmp::Answer) != (side == 1)) {
                    return dropped("icmp-unasked");
                }
                let answers = side == 1 && seen.tcp_flags & TCP_KIND == SYN | 0x10;
                let again = side == 0 && seen.tcp_flags & TCP_KIND == SYN;
                assert!(seen.protocol != 6 || again || answers, "what follows is a row of tcp.txt");
                let reached = self.reach(flow, side ^ 1);
                return reached.or_else(|verdict| {
                    self.end_flow(seen.protocol, ends);
                    refuse(&verdict, seen, frame)
                });
            }
        }
        self.admit(from, seen, frame)
    }

    fn end_flow(&mut self, protocol: u8, ends: Ends) {
        self.flows.retain(|f| f.protocol != protocol || f.ends != ends && f.ends != [ends[1], ends[0]]);
    }

    /// The zone by which an end of a flow is reached. If that is not the one that it is known to be in, the policy is asked about the flow as if
    /// the end were there; what it says is the error.
    fn reach(&self, flow: &Flow, end: usize) -> Result<ZoneId, Verdict> {
        let Way::Link { zone, .. } = self.way(flow.ends[end].0) else { return Ok(flow.zones[end]) };
        if zone == flow.zones[end] {
            return Ok(zone);
        }
        let (from, to) = if end == 0 { (zone, flow.zones[1]) } else { (flow.zones[0], zone) };
        let verdict = decide(&self.policy, &Packet { from, to, ..flow.asked }, self.at);
        if verdict.action == Action::Allow { Ok(zone) } else { Err(verdict) }
    }

    /// The same for what only accompanies a flow, by which nothing ends.
    fn reach_beside(&self, flow: &Flow, end: usize) -> Decided<ZoneId> {
        self.reach(flow, end).or_else(|_| dropped("flow-zone"))
    }

    fn find(&self, protocol: u8, ends: Ends) -> Option<(&Flow, usize)> {
        let turned = [ends[1], ends[0]];
        let flow =
            self.flows.iter().find(|f| f.protocol == protocol && (f.ends == ends || f.ends == turned))?;
        Some((flow, usize::from(flow.ends != ends)))
    }

    /// The zone that the other fragments of its datagram go to; `None`: its first has not come.
    fn meet_datagram(&mut self, from: ZoneId, seen: &Seen) -> Decided<Option<ZoneId>> {
        let part = seen.part.unwrap();
        let bytes = part.to - part.from;
        if bytes == 0 || part.to > 65_535 || (!part.is_last && !bytes.is_multiple_of(8)) {
            return dropped("length");
        }
        let ends = [seen.source, seen.destination];
        let is_it =
            |d: &&mut Datagram| d.is_of(ends, part.id, seen.protocol) && d.zones[0] == from && !d.is_whole();
        let Some(datagram) = self.datagrams.iter_mut().find(is_it) else { return Ok(None) };
        if seen.ttl > 1 || datagram.zones[1] == 0 {
            datagram.check(part)?;
            datagram.parts.push(part);
        }
        Ok(Some(datagram.zones[1]))
    }

    /// What follows a first fragment passes as long as its flow does, and what is of no flow as long as the policy that allowed it. Only what
    /// has ports gets an answer. The zone that it goes to, which was another one than that of its first if a route has moved since.
    fn outlive(&self, from: ZoneId, to: ZoneId, seen: &Seen) -> Decided<ZoneId> {
        let ends = [seen.source, seen.destination];
        let is_it = |d: &&Datagram| d.is_of(ends, seen.part.unwrap().id, seen.protocol) && d.zones[0] == from;
        let datagram = self.datagrams.iter().rev().find(is_it).unwrap();
        let Some(ends) = datagram.flow else {
            return if datagram.policy == self.policies { Ok(to) } else { dropped("fragment-unknown") };
        };
        let Some((flow, side)) = self.find(datagram.protocol, ends) else {
            return dropped("fragment-unknown");
        };
        let verdict = decide(&self.policy, &flow.asked, self.at);
        let who = if matches!(verdict.decider, Decider::Default) { "default" } else { "rule" };
        match verdict.action {
            Action::Allow => self.reach_beside(flow, side ^ 1),
            Action::Deny => dropped(&format!("{who}-deny")),
            Action::Reject => dropped(&format!("{who}-reject")),
        }
    }

    /// An ICMP error about a flow: back to who sent what it quotes, from where that went. `None`: about no flow.
    fn accompany_quoted(&self, from: ZoneId, seen: &Seen, frame: &[u8]) -> Decided<Option<ZoneId>> {
        let inner = &frame[seen.transport + 8..seen.network + seen.ip_bytes];
        let Some((protocol, ends, sequence)) = quoted(inner).or_else(|| self.quoted_part(inner)) else {
            return Ok(None);
        };
        let Some((flow, side)) = self.find(protocol, ends) else { return Ok(None) };
        // What the policy refuses by now is no flow any more, also when none of its own packets has come since.
        let is_refused = decide(&self.policy, &flow.asked, self.at).action != Action::Allow;
        let reaches_sender = seen.destination == ends[0].0 && from == flow.zones[side ^ 1];
        let is_sent = protocol != 6 || flow.sequence.abs_diff(sequence) < 2;
        if !reaches_sender || !is_sent {
            return dropped("icmp-unrelated");
        }
        if is_refused {
            return Ok(None);
        }
        self.reach_beside(flow, side).map(Some)
    }

    /// The same of a later fragment: by its datagram, and not of TCP, where nothing shows that its sender has seen the segment.
    fn quoted_part(&self, inner: &[u8]) -> Option<(u8, Ends, u32)> {
        let is_v6 = inner.first()? >> 4 == 6;
        let seen = if is_v6 { Seen::ipv6(inner, 0) } else { Seen::ipv4(inner, 0) };
        let seen = seen.ok().filter(Seen::is_later_part)?;
        let (id, ends) = (seen.part?.id, [seen.source, seen.destination]);
        let datagram = self.datagrams.iter().rev().find(|d| d.is_of(ends, id, seen.protocol))?;
        (datagram.protocol != 6).then_some((datagram.protocol, datagram.flow?, 0))
    }

    /// Whether a packet that passes because of another one comes from somebody who may send it.
    fn check_source(&self, from: ZoneId, to: ZoneId, seen: &Seen) -> Decided<()> {
        check_ends(seen)?;
        self.check_zones(from, seen.source)?;
        self.check_way_back(from, to, seen.source)
    }

    /// RFC 1812 section 5.3.8, RFC 3704, and RFC 4291 section 2.5.6 about addresses of a link alone.
    fn check_way_back(&self, from: ZoneId, to: ZoneId, source: IpAddr) -> Decided<()> {
        let checked = self.policy.settings.reverse_path;
        match (source, self.way(source)) {
            // It asks for an address.
            (IpAddr::V4(v4), _) if v4.is_unspecified() => Ok(()),
            (source, way) if is_of_a_link(source) => {
                // Hosts of two links may have the same one of IPv6, and our own is one of each.
                if to == 0 && (source.is_ipv6() || !matches!(way, Way::Own)) {
                    Ok(())
                } else {
                    dropped("source")
                }
            }
            (_, Way::Own) => dropped("source"),
            _ if checked == ReversePath::Off => Ok(()),
            (_, Way::Link { zone, .. }) if checked == ReversePath::Loose || zone == from => Ok(()),
            _ => dropped("reverse-path"),
        }
    }

    /// A packet of no flow.
    fn admit(&mut self, from: ZoneId, seen: &Seen, frame: &[u8]) -> Decided<ZoneId> {
        check_ends(seen)?;
        if seen.protocol == 6 && seen.tcp_flags & TCP_KIND != SYN {
            return dropped("tcp-no-flow");
        }
        if seen.icmp == Some(Icmp::Answer) {
            return dropped("icmp-unasked");
        }
        let to = match self.way(seen.destination) {
            Way::Own => 0,
            Way::Link { zone, .. } if zone == from && is_dhcp_answer(seen) => 0,
            Way::Nowhere(_) if is_dhcp_answer(seen) => 0,
            Way::Link { zone, .. } => zone,
            Way::NoZone => return dropped("not-a-port"),
            Way::Nowhere(kind) => return refused("no-route", kind, seen, frame),
        };
        let packet = Packet {
            from,
            to,
            source: seen.source,
            destination: seen.destination,
            source_port: seen.ports.0,
            protocol: seen.protocol,
            selector: seen.selector,
        };
        let lists = crate::bed::contents(&self.policy);
        if policy::lists::refusing(&self.policy.lists, &lists, seen.source, seen.destination).is_some() {
            return dropped("list");
        }
        let verdict = decide(&self.policy, &packet, self.at);
        self.asked.push((packet, verdict));
        self.check_zones(from, seen.source)?;
        if verdict.action != Action::Allow {
            return refuse(&verdict, seen, frame);
        }
        match self.check_way_back(from, to, seen.source) {
            // Who has no address has no routes.
            Err(Outcome { words, .. }) if words == "reverse-path" && to == 0 && is_dhcp_answer(seen) => {}
            checked => checked?,
        }
        self.open(packet, seen, frame);
        Ok(to)
    }

    /// Who lives in other zones only does not come from this one.
    fn check_zones(&self, from: ZoneId, source: IpAddr) -> Decided<()> {
        let lives = |zone: &policy::model::Zone| zone.networks.contains(source);
        let elsewhere = self.policy.zones.iter().any(lives) && !lives(&self.policy.zones[usize::from(from)]);
        if elsewhere { dropped("zone-source") } else { Ok(()) }
    }

    fn open(&mut self, asked: Packet, seen: &Seen, frame: &[u8]) {
        if matches!(seen.icmp, Some(Icmp::Error | Icmp::Other)) {
            return;
        }
        let sequence = if seen.protocol == 6 { u32_at(frame, seen.transport + 4) } else { 0 };
        let ends = [(seen.source, seen.ports.0), (seen.destination, seen.ports.1)];
        let zones = [asked.from, asked.to];
        self.flows.push(Flow { protocol: seen.protocol, ends, zones, sequence, asked });
    }

    /// The routes of the bed.
    pub(crate) fn way(&self, to: IpAddr) -> Way {
        let zone = |name: &str| self.policy.zone(name).unwrap();
        let inside = |network: &str| {
            policy::address::AddressSet::parse(network).unwrap_or_else(|_| panic!("{network}")).contains(to)
        };
        let own =
            ["198.18.1.1", "198.18.2.1", "2001:2:0:1::1", "2001:2:0:2::1", "224.0.0.0/4", "255.255.255.255"];
        if own.into_iter().chain(["ff00::/8", "198.18.1.255", "198.18.2.255", "169.254.1.1"]).any(inside) {
            return Way::Own;
        }
        if is_of_a_link(to) {
            return Way::Nowhere(Some(Answer::NoRoute));
        }
        if ["198.18.1.0/24", "2001:2:0:1::/64", "198.18.3.0/24", "2001:2:0:3::/64"].into_iter().any(inside) {
            return Way::Link { zone: zone("inside"), macs: INWARD, mtu: MTU };
        }
        if ["198.18.2.0/24", "198.51.100.0/24", "2001:2:0:2::/64"].into_iter().any(inside) {
            return Way::Link { zone: zone("outside"), macs: OUTWARD, mtu: MTU };
        }
        if ["192.0.2.0/24", "2001:2:0:5::/64"].into_iter().any(inside) {
            return Way::Link { zone: zone("outside"), macs: OUTWARD, mtu: NARROW };
        }
        if inside("198.19.1.0/24") {
            return Way::NoZone;
        }
        let kinds = [
            (["203.0.113.0/26", "2001:db8:1::/48"], Some(Answer::Host)),
            (["203.0.113.64/26", "2001:db8:2::/48"], Some(Answer::Prohibited)),
            (["203.0.113.128/26", "2001:db8:3::/48"], None),
        ];
        let found = kinds.into_iter().find(|(networks, _)| networks.iter().any(|n| inside(n)));
        Way::Nowhere(found.map_or(Some(Answer::NoRoute), |(_, kind)| kind))
    }

    /// Hop limit, size, and the frame for the next link.
    fn forward(&self, seen: &Seen, frame: &[u8]) -> Decided<Outcome> {
        let (macs, mtu) = match self.way(seen.destination) {
            Way::Link { macs, mtu, .. } => (macs, mtu),
            Way::Nowhere(kind) => return refused("no-route", kind, seen, frame),
            Way::Own | Way::NoZone => return dropped("not-a-port"),
        };
        if seen.ttl <= 1 {
            return refused("ttl", Some(Answer::Expired), seen, frame);
        }
        let may_be_cut = seen.source.is_ipv4() && frame[seen.network + 6] & 0x40 == 0;
        if seen.ip_bytes > mtu && may_be_cut {
            return Ok(Outcome { words: "cut".to_owned(), frame: None });
        }
        if seen.ip_bytes > mtu {
            return refused("too-big", Some(Answer::TooBig(mtu as u16)), seen, frame);
        }
        let mut onward = [&macs[..], &frame[seen.network - 2..]].concat();
        if seen.source.is_ipv4() {
            onward[14 + 8] -= 1;
            let header = 14 + seen.transport - seen.network;
            onward[24..26].fill(0);
            let check = testkit::packet::checksum(&onward[14..header]);
            onward[24..26].copy_from_slice(&check.to_be_bytes());
        } else {
            onward[14 + 7] -= 1;
        }
        Ok(Outcome { words: "pass".to_owned(), frame: Some(onward) })
    }
}

/// What a rule or a default does not allow.
fn refuse<T>(verdict: &Verdict, seen: &Seen, frame: &[u8]) -> Decided<T> {
    let who = if matches!(verdict.decider, Decider::Default) { "default" } else { "rule" };
    if verdict.action == Action::Deny {
        return dropped(&format!("{who}-deny"));
    }
    let kind = if seen.protocol == 6 { Answer::Reset } else { Answer::Prohibited };
    refused(&format!("{who}-reject"), Some(kind), seen, frame)
}

/// Dropped; the sender gets an answer where the RFCs allow it.
fn refused<T>(reason: &str, kind: Option<Answer>, seen: &Seen, frame: &[u8]) -> Decided<T> {
    let answered = kind.and_then(|kind| Some((kind, answer(kind, seen, frame)?)));
    Err(match answered {
        Some((kind, answer)) => {
            Outcome { words: format!("{reason} {}", kind.words(seen.source.is_ipv6())), frame: Some(answer) }
        }
        None => Outcome { words: reason.to_owned(), frame: None },
    })
}

/// RFC 1812 section 5.3.4: for the interface, for everybody, or for a group of the protocol (RFC 1112, RFC 2464).
fn is_for_us(frame: &[u8], own: &[u8]) -> bool {
    let protocol =
        [12, 16, 20].into_iter().filter_map(|at| frame.get(at..at + 2)).find(|kind| *kind != [0x81, 0]);
    let (everybody, v4, v6) =
        (frame[..6] == [0xff; 6], frame[..3] == [1, 0, 0x5e], frame[..2] == [0x33, 0x33]);
    match protocol {
        _ if frame[0] & 1 == 0 => frame[..6] == *own,
        Some([8, 0]) => everybody || v4,
        Some([8, 6]) => everybody,
        Some([0x86, 0xdd]) => v6,
        // Whatever else it is, it is not for IP.
        _ => true,
    }
}

/// RFC 1122 section 3.3.6: what comes for a group of the link is for a group of IP.
fn is_for_many(destination: IpAddr) -> bool {
    let links = ["198.18.1.255", "198.18.2.255", "255.255.255.255"].map(|a| a.parse::<IpAddr>().unwrap());
    destination.is_multicast() || links.contains(&destination)
}

/// RFC 3927 section 2.7, RFC 4291 section 2.5.6: of one link, and never forwarded.
fn is_of_a_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// RFC 2131 section 4.1: it may be for an address that nobody has yet.
fn is_dhcp_answer(seen: &Seen) -> bool {
    seen.source.is_ipv4() && seen.protocol == 17 && seen.ports == (67, 68)
}

fn check_ends(seen: &Seen) -> Decided<()> {
    if seen.source == seen.destination {
        return dropped("land");
    }
    if is_no_source(seen.source, seen.destination) {
        return dropped("source");
    }
    if is_no_destination(seen.destination) { dropped("destination") } else { Ok(()) }
}

/// RFC 1122 section 3.2.1.3: this network, loopback, class E; RFC 4291: nobody, loopback, IPv4 inside.
fn is_no_destination(destination: IpAddr) -> bool {
    match destination {
        IpAddr::V4(v4) => {
            v4.octets()[0] == 0 || v4.is_loopback() || (v4.octets()[0] >= 240 && !v4.is_broadcast())
        }
        IpAddr::V6(v6) => v6.to_ipv4().is_some(),
    }
}

/// RFC 1122 section 3.2.1.3: multicast, class E with the broadcast, loopback, this network; nobody, unless it asks everybody. RFC
/// 4291 sections 2.5.2 to 2.5.5 and 2.7: nobody, loopback, IPv4 inside, groups.
fn is_no_source(source: IpAddr, destination: IpAddr) -> bool {
    match source {
        IpAddr::V4(v4) if v4.is_unspecified() => destination != IpAddr::from([255; 4]),
        IpAddr::V4(v4) => v4.is_loopback() || v4.octets()[0] == 0 || v4.octets()[0] >= 224,
        // ::1 and :: are IPv4 inside as well, by this function of the standard library.
        IpAddr::V6(v6) => v6.is_multicast() || v6.to_ipv4().is_some(),
    }
}

/// Protocol, ends and sequence number of a packet in an ICMP error, of which only the beginning is there.
fn quoted(inner: &[u8]) -> Option<(u8, Ends, u32)> {
    let v6 = inner.first()? >> 4 == 6;
    let (mut header, mut protocol) =
        if v6 { (40, *inner.get(6)?) } else { (usize::from(inner[0] & 15) * 4, *inner.get(9)?) };
    let mut extensions = 0;
    while v6 && matches!(protocol, 0 | 43 | 44 | 60) {
        extensions += 1;
        if extensions > MOST_EXTENSIONS {
            return None;
        }
        let extension = inner.get(header..header + 8)?;
        if protocol == 44 && u16_at(extension, 2) >> 3 != 0 {
            return None;
        }
        header += if protocol == 44 { 8 } else { (usize::from(extension[1]) + 1) * 8 };
        protocol = extension[0];
    }
    let transport = inner.get(header..header + 8).filter(|_| header >= 20)?;
    let octets = |at: usize, n: usize| &inner[at..at + n];
    let address = |at: usize| match v6 {
        true => IpAddr::from(<[u8; 16]>::try_from(octets(at, 16)).unwrap()),
        false => IpAddr::from(<[u8; 4]>::try_from(octets(at, 4)).unwrap()),
    };
    let [source, destination] = if v6 { [8, 24] } else { [12, 16] }.map(address);
    if !v6 && u16_at(inner, 6) & 0x1fff != 0 {
        return None;
    }
    let ports = match (protocol, transport[0]) {
        (1, 8) => (u16_at(transport, 4), 8 << 8),
        (1, 0) => (8 << 8, u16_at(transport, 4)),
        (58, 128) => (u16_at(transport, 4), 128 << 8),
        (58, 129) => (128 << 8, u16_at(transport, 4)),
        (1 | 58, _) => return None,
        (6 | 17 | 132, _) => (u16_at(transport, 0), u16_at(transport, 2)),
        _ => (0, 0),
    };
    Some((protocol, [(source, ports.0), (destination, ports.1)], u32_at(transport, 4)))
}
