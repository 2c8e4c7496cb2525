//! The probes of a policy: single frames that must arrive, or must not.

use super::{AddressList, FORBIDDEN_PORT, FORBIDDEN_PORTS, PolicySpec, Protocol, TEST_DESTINATION_PORTS};
use crate::error::TestbedError;
use crate::layout::{ZoneAddresses, forward_lanes_of, translated};
use measure::shape::{IpVersion, Lane, TestProtocol, Zone, ZoneForm};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

/// What must become of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Expect {
    /// It arrives at the zone it was sent to.
    Arrives,
    /// It does not.
    Dropped,
}

/// What kind of TCP segment a probe is. Sequence numbers are fixed, so that a SYN-ACK answers the SYN of any probe before
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Segment {
    /// SYN.
    Syn,
    /// SYN and ACK.
    SynAck,
    /// ACK alone.
    Ack,
}

impl Segment {
    /// Its sequence number.
    pub const fn sequence(self) -> u32 {
        1
    }

    /// Its acknowledgement number.
    pub const fn acknowledgement(self) -> u32 {
        match self {
            Self::Syn => 0,
            Self::SynAck | Self::Ack => 2,
        }
    }

    /// Its flags, as byte 13 of the TCP header has them (RFC 9293 section 3.1).
    pub const fn flags(self) -> u8 {
        match self {
            Self::Syn => 0x02,
            Self::SynAck => 0x12,
            Self::Ack => 0x10,
        }
    }
}

/// One frame that proves a part of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// What it shows, for messages: `allowed private to hostile, IPv4`.
    pub name: String,
    /// The zone it is sent from and the zone it is for.
    pub lane: Lane,
    /// UDP, TCP or ICMP, of which it is an echo request.
    pub protocol: Protocol,
    /// Of TCP, what kind of segment; `None` for the others.
    pub segment: Option<Segment>,
    /// Source as sent.
    pub source: SocketAddr,
    /// Destination as sent.
    pub destination: SocketAddr,
    /// Source as it must arrive: translated where the policy translates.
    pub source_on_arrival: SocketAddr,
    /// Destination as it must arrive: a reply's is translated back.
    pub destination_on_arrival: SocketAddr,
    /// Arrives or not.
    pub expect: Expect,
}

impl Probe {
    /// IPv4 or IPv6.
    pub fn ip(&self) -> IpVersion {
        if self.source.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 }
    }
}

impl Probe {
    /// Whether any firewall that is set up for the test traffic lets it pass, whatever else its policy says: a datagram or
    /// SYN of the test traffic's kind, or the answer to one.
    pub fn allowed_by_every_policy(&self) -> bool {
        let ports = (self.source.port(), self.destination.port());
        let of_the_test = ports == (CLIENT_PORT, SERVER_PORT) || ports == (SERVER_PORT, CLIENT_PORT);
        of_the_test && self.expect == Expect::Arrives
    }

    /// The same probe from the `n`-th source that no other probe has: 64,512 ports of each host of the zone in turn, so no
    /// source comes twice below 4 million.
    pub fn fresh(&self, n: u32) -> Self {
        const PORTS: u32 = 65_536 - FIRST_FRESH_PORT as u32;
        let host = ZoneAddresses::of(self.lane.from).host(self.ip(), n / PORTS);
        let source = SocketAddr::new(host, FIRST_FRESH_PORT + (n % PORTS) as u16);
        let translates = self.source != self.source_on_arrival;
        let source_on_arrival =
            if translates { SocketAddr::new(translated(host), source.port()) } else { source };
        Self { source, source_on_arrival, ..self.clone() }
    }

    /// The same probe between other test hosts of its zones, of which a policy says the same: those of these numbers. Addresses that are no
    /// test hosts', such as those on lists, stay.
    #[must_use]
    pub fn between(&self, [from, to]: [u32; 2]) -> Self {
        let moved = |zone, there: SocketAddr, other_form: SocketAddr, number: u32| {
            let addresses = ZoneAddresses::of(zone);
            if !addresses.has_test_host(there.ip()) {
                return (there, other_form);
            }
            let host = addresses.host(self.ip(), number);
            let form = if other_form.ip() == there.ip() { host } else { translated(host) };
            (SocketAddr::new(host, there.port()), SocketAddr::new(form, other_form.port()))
        };
        let (source, source_on_arrival) = moved(self.lane.from, self.source, self.source_on_arrival, from);
        let (destination_on_arrival, destination) =
            moved(self.lane.to, self.destination_on_arrival, self.destination, to);
        Self { source, source_on_arrival, destination, destination_on_arrival, ..self.clone() }
    }

    /// Ports from which and to which the policy says the same, of a probe that must not arrive. Other protocols than the test's may go to other
    /// ports by rules that no test meets.
    pub fn ports_of_its_kind(&self, tested: TestProtocol) -> [RangeInclusive<u16>; 2] {
        const CLIENTS: RangeInclusive<u16> = 1024..=u16::MAX;
        const NO_SERVERS: RangeInclusive<u16> = *FORBIDDEN_PORTS.start()..=u16::MAX;
        let (source, destination) = (self.source.port(), self.destination.port());
        let from = match TEST_DESTINATION_PORTS.contains(&source) {
            true => 1024..=*TEST_DESTINATION_PORTS.end(),
            // A mirrored rule lets pass what comes from a server.
            false if self.lane.is_reverse() => NO_SERVERS,
            false => CLIENTS,
        };
        let to = match destination {
            FORBIDDEN_PORT if self.protocol == tested.into() => *FORBIDDEN_PORTS.start()..=FORBIDDEN_PORT,
            FORBIDDEN_PORT => FORBIDDEN_PORT..=FORBIDDEN_PORT,
            port if TEST_DESTINATION_PORTS.contains(&port) => TEST_DESTINATION_PORTS,
            _ => CLIENTS,
        };
        [from, to]
    }
}

/// Traffic of which the owner of a firewall says whether it passes: `udp/53` from the private to the hostile zone, `hostile:tcp/22`
/// the other way. Displayed as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatedTraffic {
    /// Whether it passes.
    pub passes: bool,
    from: Zone,
    protocol: TestProtocol,
    port: u16,
}

impl StatedTraffic {
    /// Reads one.
    ///
    /// # Errors
    /// [`TestbedError::Impossible`] says how it is written.
    pub fn parse(text: &str, passes: bool) -> Result<Self, TestbedError> {
        let (from, service) = match text.split_once(':') {
            Some(("hostile", service)) => (Zone::Hostile, service),
            Some(("private", service)) => (Zone::Private, service),
            Some(_) => return Err(ill_stated(text)),
            None => (Zone::Private, text),
        };
        let (protocol, port) = service.split_once('/').ok_or_else(|| ill_stated(text))?;
        let protocol = match protocol {
            "udp" => TestProtocol::Udp,
            "tcp" => TestProtocol::Tcp,
            _ => return Err(ill_stated(text)),
        };
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(|| ill_stated(text))?;
        Ok(Self { passes, from, protocol, port })
    }

    /// Whether the traffic of a test whose policy is of this protocol is of this kind.
    pub fn is_of_the_test(&self, tested: TestProtocol) -> bool {
        self.from == Zone::Private && self.protocol == tested && TEST_DESTINATION_PORTS.contains(&self.port)
    }

    /// The port to which a trial of this protocol can send what must not pass; none of traffic that passes, that comes from the hostile
    /// side, or that is of the other protocol.
    pub fn forbidden_port(&self, tested: TestProtocol) -> Option<u16> {
        (!self.passes && self.from == Zone::Private && self.protocol == tested).then_some(self.port)
    }

    /// The frame that shows it: a datagram or a SYN.
    pub fn probe(&self, ip: IpVersion) -> Probe {
        let to = if self.from == Zone::Private { Zone::Hostile } else { Zone::Private };
        let lane = Lane { from: self.from, to };
        let kind = match self.protocol {
            TestProtocol::Udp => Kind::Opening,
            TestProtocol::Tcp => Kind::OtherProtocol,
        };
        let (what, expect) = match self.passes {
            true => (format!("stated to pass: {self}"), Expect::Arrives),
            false => (format!("stated not to pass: {self}"), Expect::Dropped),
        };
        let client = SocketAddr::new(probe_host(lane, true, ip), CLIENT_PORT + 3);
        let server = SocketAddr::new(probe_host(lane, false, ip), self.port);
        probe(&PolicySpec::forward_everything(ZoneForm::Two), &what, lane, kind, client, server, expect)
    }
}

impl fmt::Display for StatedTraffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = if self.from == Zone::Private { "" } else { "hostile:" };
        let protocol = Protocol::from(self.protocol).name(IpVersion::V4);
        write!(f, "{from}{protocol}/{}", self.port)
    }
}

fn ill_stated(text: &str) -> TestbedError {
    TestbedError::Impossible(format!(
        "`{text}`: traffic is stated as a protocol and a port, such as udp/53 or tcp/443, which is from the private to the hostile side; \
         hostile:tcp/22 is the other way"
    ))
}

const FIRST_FRESH_PORT: u16 = 1024;

/// Hosts at the end of each prefix, which small tests do not reach, so that probes meet no connection of a trial.
const PROBE_HOST_FROM_END: u32 = 7;
const CLIENT_PORT: u16 = 61_001;
const SERVER_PORT: u16 = 40_001;

pub(super) fn probes(policy: &PolicySpec) -> Vec<Probe> {
    let mut probes = Vec::new();
    for ip in [IpVersion::V4, IpVersion::V6] {
        for &(from, to) in forward_lanes_of(policy.zones) {
            lane_probes(policy, Lane { from, to }, ip, &mut probes);
        }
    }
    probes
}

/// What a probe is: of the test's protocol a datagram, or a segment of some kind; or a first frame of the other protocol.
#[derive(Clone, Copy)]
enum Kind {
    Opening,
    Answer,
    Acknowledgement,
    OtherProtocol,
}

fn lane_probes(policy: &PolicySpec, lane: Lane, ip: IpVersion, out: &mut Vec<Probe>) {
    use Expect::{Arrives, Dropped};
    use Kind::{Acknowledgement, Answer, Opening, OtherProtocol};
    let filtered = if policy.has_rules() { Dropped } else { Arrives };
    let back = Lane { from: lane.to, to: lane.from };
    let client = probe_host(lane, true, ip);
    let server = probe_host(lane, false, ip);
    let mut add = |what: &str, lane, kind, source: (IpAddr, u16), destination: (IpAddr, u16), expect| {
        out.push(probe(policy, what, lane, kind, source.into(), destination.into(), expect));
    };
    // Frames that no connection exists for come before any that makes one. The mirror of a stateless policy
    // allows what looks like a reply, so only state can forbid it.
    // And to a translated address nothing gets in without a connection, rules or not.
    let unsolicited = if policy.translates(lane) { Dropped } else { filtered };
    // What translation without rules makes of it is the firewall's affair.
    let keeps_state = policy.shape.stateful && (policy.has_rules() || !policy.shape.nat);
    let is_tcp = policy.shape.protocol == TestProtocol::Tcp;
    let like_a_reply = match policy.shape.stateful {
        // Whoever tracks connections and has no rules wants a SYN before anything else all the same.
        true if is_tcp && keeps_state => Dropped,
        true => unsolicited,
        false => Arrives,
    };
    let (server_end, client_end) = ((server, SERVER_PORT + 1), (client, CLIENT_PORT + 1));
    add("reply to nothing", back, Answer, server_end, client_end, like_a_reply);
    // Without rules and state nothing speaks about it.
    if is_tcp && (policy.has_rules() || keeps_state) {
        let stray = if keeps_state { Dropped } else { Arrives };
        let (from, to) = ((client, CLIENT_PORT + 2), (server, SERVER_PORT + 2));
        add("ACK without a connection", lane, Acknowledgement, from, to, stray);
    }
    let (high_server, high_client) = ((server, FORBIDDEN_PORT), (client, FORBIDDEN_PORT));
    add("forbidden direction", back, Opening, high_server, high_client, unsolicited);
    add("forbidden port", lane, Opening, (client, CLIENT_PORT), high_server, filtered);
    add("forbidden protocol", lane, OtherProtocol, (client, CLIENT_PORT), high_server, filtered);
    add("allowed", lane, Opening, (client, CLIENT_PORT), (server, SERVER_PORT), Arrives);
    add("reply", back, Answer, (server, SERVER_PORT), (client, CLIENT_PORT), Arrives);
    if ip == IpVersion::V4 {
        address_probes(policy, lane, server, out);
    }
}

/// On the first forward lane, between hosts that nobody else has.
pub(super) fn forgetting_probes(policy: &PolicySpec, ip: IpVersion) -> [Probe; 2] {
    let (from, to) = forward_lanes_of(policy.zones)[0];
    let lane = Lane { from, to };
    let end = |zone, port| {
        let addresses = ZoneAddresses::of(zone);
        SocketAddr::new(addresses.host(ip, addresses.host_count() - PROBE_HOST_FROM_END - 1), port)
    };
    let (client, server) = (end(from, CLIENT_PORT), end(to, SERVER_PORT));
    let back = Lane { from: to, to: from };
    let probe = |what, lane, kind, source, destination| {
        probe(policy, what, lane, kind, source, destination, Expect::Arrives)
    };
    [
        probe("a connection to be forgotten", lane, Kind::Opening, client, server),
        probe("answer to a connection to be forgotten", back, Kind::Answer, server, client),
    ]
}

/// Probes of lists and the country table: of frames that the rules allow.
fn address_probes(policy: &PolicySpec, lane: Lane, server: IpAddr, out: &mut Vec<Probe>) {
    use Expect::Dropped;
    let here = ZoneAddresses::of(lane.from).v4;
    let mut add = |what: &str, lane, kind, source: SocketAddr, destination: SocketAddr| {
        out.push(probe(policy, what, lane, kind, source, destination, Dropped));
    };
    let server = SocketAddr::new(server, SERVER_PORT);
    let client = |address| SocketAddr::new(IpAddr::from(address), CLIENT_PORT);
    for list in policy.listed.iter().filter(|list| here.contains(&list.canary())) {
        let what = format!("from an address on list {}", list.number());
        add(&what, lane, Kind::Opening, client(AddressList::canary(list)), server);
    }
    let outside = policy.countries.canary();
    if policy.countries.is_empty() || !here.contains(&outside) {
        return;
    }
    add("from outside the country table", lane, Kind::Opening, client(outside), server);
    // Only where rules and state would let it pass does it prove anything.
    let state_forbids = policy.has_rules() && policy.shape.stateful;
    if !policy.translates(lane) && !state_forbids {
        let back = Lane { from: lane.to, to: lane.from };
        add("to outside the country table", back, Kind::Answer, server, client(outside));
    }
}

/// A probe of a replacement: a datagram on the first forward lane.
pub(super) fn replacement_probe(
    policy: &PolicySpec,
    what: &str,
    port: u16,
    ip: IpVersion,
    expect: Expect,
) -> Probe {
    let (from, to) = forward_lanes_of(policy.zones)[0];
    let lane = Lane { from, to };
    let source = SocketAddr::new(probe_host(lane, true, ip), CLIENT_PORT);
    let destination = SocketAddr::new(probe_host(lane, false, ip), port);
    let kind = match policy.shape.protocol {
        TestProtocol::Udp => Kind::Opening,
        TestProtocol::Tcp => Kind::OtherProtocol,
    };
    probe(policy, what, lane, kind, source, destination, expect)
}

/// A probe of what the rules say of a protocol: a SYN, a datagram, or an echo request.
pub(super) fn first_frame(
    policy: &PolicySpec,
    what: &str,
    lane: Lane,
    protocol: Protocol,
    [source, destination]: [SocketAddr; 2],
    expect: Expect,
) -> Probe {
    let segment = (protocol == Protocol::Tcp).then_some(Segment::Syn);
    Probe { protocol, segment, ..probe(policy, what, lane, Kind::Opening, source, destination, expect) }
}

fn probe_host(lane: Lane, client: bool, ip: IpVersion) -> IpAddr {
    let addresses = ZoneAddresses::of(if client { lane.from } else { lane.to });
    addresses.host(ip, addresses.host_count() - PROBE_HOST_FROM_END)
}

fn protocol_of(tested: TestProtocol, kind: Kind) -> (Protocol, Option<Segment>) {
    match (tested, kind) {
        (TestProtocol::Udp, Kind::OtherProtocol) => (Protocol::Tcp, Some(Segment::Syn)),
        (TestProtocol::Udp, _) | (TestProtocol::Tcp, Kind::OtherProtocol) => (Protocol::Udp, None),
        (TestProtocol::Tcp, Kind::Opening) => (Protocol::Tcp, Some(Segment::Syn)),
        (TestProtocol::Tcp, Kind::Answer) => (Protocol::Tcp, Some(Segment::SynAck)),
        (TestProtocol::Tcp, Kind::Acknowledgement) => (Protocol::Tcp, Some(Segment::Ack)),
    }
}

fn probe(
    policy: &PolicySpec,
    what: &str,
    lane: Lane,
    kind: Kind,
    source: SocketAddr,
    destination: SocketAddr,
    expect: Expect,
) -> Probe {
    let version = if source.is_ipv4() { "IPv4" } else { "IPv6" };
    let name = format!("{what}, {} to {}, {version}", lane.from.name(), lane.to.name());
    let outside = |end: SocketAddr, other: Lane| {
        if policy.translates(other) { SocketAddr::new(translated(end.ip()), end.port()) } else { end }
    };
    let back = Lane { from: lane.to, to: lane.from };
    let (protocol, segment) = protocol_of(policy.shape.protocol, kind);
    Probe {
        name,
        lane,
        protocol,
        segment,
        source,
        destination: outside(destination, back),
        source_on_arrival: outside(source, lane),
        destination_on_arrival: destination,
        expect,
    }
}
