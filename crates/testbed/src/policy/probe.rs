//! The probes of a policy: single frames that must arrive, or must not.

use super::{FORBIDDEN_PORT, PolicySpec, Protocol};
use crate::layout::{LISTED_CANARY, ZoneAddresses, forward_lanes_of, translated};
use measure::shape::{IpVersion, Lane};
use std::net::{IpAddr, SocketAddr};

/// What must become of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Expect {
    /// It arrives at the zone it was sent to.
    Arrives,
    /// It does not.
    Dropped,
}

/// One frame that proves a part of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// What it shows, for messages: `allowed private to hostile, IPv4`.
    pub name: String,
    /// The zone it is sent from and the zone it is for.
    pub lane: Lane,
    /// UDP, or TCP (a SYN).
    pub protocol: Protocol,
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
    /// Whether any firewall that is set up for the test traffic lets it pass, whatever else its policy says: a datagram
    /// of the test traffic's kind, or the answer to one.
    pub fn allowed_by_every_policy(&self) -> bool {
        let ports = (self.source.port(), self.destination.port());
        let of_the_test = ports == (CLIENT_PORT, SERVER_PORT) || ports == (SERVER_PORT, CLIENT_PORT);
        of_the_test && self.protocol == Protocol::Udp && self.expect == Expect::Arrives
    }
}

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

fn lane_probes(policy: &PolicySpec, lane: Lane, ip: IpVersion, out: &mut Vec<Probe>) {
    use Expect::{Arrives, Dropped};
    use Protocol::{Tcp, Udp};
    let filtered = if policy.has_rules() { Dropped } else { Arrives };
    let back = Lane { from: lane.to, to: lane.from };
    let client = probe_host(lane, true, ip);
    let server = probe_host(lane, false, ip);
    let mut add =
        |what: &str, lane: Lane, protocol, source: (IpAddr, u16), destination: (IpAddr, u16), expect| {
            out.push(probe(policy, what, lane, protocol, source.into(), destination.into(), expect));
        };
    // Frames that no connection exists for come before any that makes one. The mirror of a stateless policy
    // allows what looks like a reply, so only state can forbid it.
    // And to a translated address nothing gets in without a connection, rules or not.
    let unsolicited = if policy.translates(lane) { Dropped } else { filtered };
    let like_a_reply = if policy.shape.stateful { unsolicited } else { Arrives };
    let (server_end, client_end) = ((server, SERVER_PORT + 1), (client, CLIENT_PORT + 1));
    add("reply to nothing", back, Udp, server_end, client_end, like_a_reply);
    add("forbidden direction", back, Udp, (server, FORBIDDEN_PORT), (client, FORBIDDEN_PORT), unsolicited);
    add("forbidden port", lane, Udp, (client, CLIENT_PORT), (server, FORBIDDEN_PORT), filtered);
    add("forbidden protocol", lane, Tcp, (client, CLIENT_PORT), (server, FORBIDDEN_PORT), filtered);
    add("allowed", lane, Udp, (client, CLIENT_PORT), (server, SERVER_PORT), Arrives);
    add("reply", back, Udp, (server, SERVER_PORT), (client, CLIENT_PORT), Arrives);
    let listed_zone = ZoneAddresses::of(lane.from).v4.contains(&LISTED_CANARY);
    if !policy.listed.is_empty() && ip == IpVersion::V4 && listed_zone {
        let canary = IpAddr::from(LISTED_CANARY);
        add("from a listed address", lane, Udp, (canary, CLIENT_PORT), (server, SERVER_PORT), Dropped);
    }
}

fn probe_host(lane: Lane, client: bool, ip: IpVersion) -> IpAddr {
    let addresses = ZoneAddresses::of(if client { lane.from } else { lane.to });
    addresses.host(ip, addresses.host_count() - PROBE_HOST_FROM_END)
}

fn probe(
    policy: &PolicySpec,
    what: &str,
    lane: Lane,
    protocol: Protocol,
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
    Probe {
        name,
        lane,
        protocol,
        source,
        destination: outside(destination, back),
        source_on_arrival: outside(source, lane),
        destination_on_arrival: destination,
        expect,
    }
}
