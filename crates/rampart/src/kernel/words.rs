//! What the data plane knows of flows and events, in the words of the API.

use crate::api::{
    AlertCount, Alias, Block, Closed, EventDetails, EventName, Flow, HookName, ScanCount, Station,
    protocol_name,
};
use crate::export::FlowRecord;
use crate::plane::{AlertReading, Recorded};
use dataplane::{Event, EventKind, State};
use jiff::{SignedDuration, Timestamp};
use policy::model::Per;
use policy::settings::Timeouts;
use std::net::IpAddr;
use std::time::Duration;

pub(super) fn hook_name(hook: dataplane::Hook) -> HookName {
    match hook {
        dataplane::Hook::Xdp => HookName::Xdp,
        dataplane::Hook::Tc => HookName::Tc,
        dataplane::Hook::Netfilter => HookName::Netfilter,
    }
}

pub(super) fn api_flow(flow: dataplane::Flow, timeouts: &Timeouts) -> Flow {
    let lasts = lifetime(&flow, timeouts);
    Flow {
        protocol: protocol_name(flow.protocol),
        source: flow.initiator.0,
        source_port: flow.initiator.1,
        destination: flow.responder.0,
        destination_port: responder_port(flow.protocol, flow.responder.1),
        source_alias: flow.aliases.0.map(|(address, port)| Alias { address, port }),
        destination_alias: flow
            .aliases
            .1
            .map(|(address, port)| Alias { address, port: responder_port(flow.protocol, port) }),
        from: flow.zones.0,
        to: flow.zones.1,
        rule: flow.rule,
        state: flow.state.name().to_owned(),
        idle_seconds: flow.idle.as_secs(),
        expires_seconds: lasts.saturating_sub(flow.idle).as_secs(),
        packets_out: flow.packets.0,
        bytes_out: flow.bytes.0,
        packets_back: flow.packets.1,
        bytes_back: flow.bytes.1,
    }
}

pub(super) fn api_block(blocked: dataplane::Blocked) -> Block {
    let dataplane::Blocked { source, prefix, zone, age, left, ports, hosts, .. } = blocked;
    Block {
        source,
        prefix,
        zone,
        seconds: age.as_secs(),
        left_seconds: left.as_secs(),
        ports: ports.into(),
        hosts: hosts.into(),
    }
}

pub(super) fn api_station(station: dataplane::Station) -> Station {
    let dataplane::Station { bridge, vlan, address, interface, home, is_claimed, moved, seen } = station;
    Station {
        bridge,
        vlan: (vlan != 0).then_some(vlan),
        address: written_address(address),
        interface,
        home,
        claimed: is_claimed,
        moved_seconds: moved.as_secs(),
        seen_seconds: seen.as_secs(),
    }
}

/// An Ethernet address as people write it.
pub(super) fn written_address(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

/// A record of a flow, as it is exported. `uptime` is now on the data plane's clock.
pub(super) fn flow_record(record: dataplane::RecordedFlow, uptime: Duration, now: Timestamp) -> FlowRecord {
    let dataplane::RecordedFlow { at, flow, end, since, .. } = record;
    let ago = uptime.saturating_sub(at);
    let before = |time: Duration| {
        let time = SignedDuration::try_from(ago + time).unwrap_or_default();
        now.checked_sub(time).unwrap_or(now)
    };
    let is_query = is_icmp(flow.protocol);
    let port = |(address, port): (IpAddr, u16)| (address, responder_port(flow.protocol, port));
    FlowRecord {
        // A record that is not the first begins where the one before ended.
        first: before(since.map_or(flow.age, |since| at.saturating_sub(since))),
        last: before(flow.idle),
        protocol: flow.protocol,
        ends: [flow.initiator, port(flow.responder)],
        aliases: [flow.aliases.0, flow.aliases.1.map(port)],
        icmp: if is_query { flow.responder.1 } else { 0 },
        packets: flow.packets.into(),
        bytes: flow.bytes.into(),
        end,
        rule: flow.rule,
        zones: flow.zones.into(),
    }
}

/// The responder's port; of an ICMP query the data plane has type and code there.
fn responder_port(protocol: u8, port: u16) -> u16 {
    if is_icmp(protocol) { 0 } else { port }
}

pub(super) fn recorded(event: Event) -> Recorded {
    let (what, at) = (event.kind, event.at);
    let details = details(event);
    match what {
        EventKind::Alert { sliding, .. } => Recorded::Alert(AlertReading { details, sliding, at }),
        _ => Recorded::Event(details),
    }
}

fn alert_count(event: &Event) -> Option<AlertCount> {
    let EventKind::Alert { per, sliding, threshold } = event.kind else { return None };
    let name = Per::NAMES.iter().find(|(_, known)| *known == per).map_or("", |(name, _)| name);
    Some(AlertCount {
        per: name.to_owned(),
        address: match per {
            Per::Rule => None,
            Per::Source => Some(event.source.0),
            Per::Destination => Some(event.destination.0),
        },
        count: sliding.estimate(event.at),
        threshold: threshold.into(),
        within_seconds: sliding.window.as_secs(),
    })
}

fn details(event: Event) -> EventDetails {
    let alert = alert_count(&event);
    let scan = match event.kind {
        EventKind::Scan { ports, hosts, is_blocked } => {
            Some(ScanCount { ports: ports.into(), hosts: hosts.into(), blocked: is_blocked })
        }
        _ => None,
    };
    let [source_list, destination_list] = event.lists;
    let (name, reason, closed) = match event.kind {
        EventKind::Opened => (EventName::Opened, None, None),
        EventKind::Alert { .. } => (EventName::Alert, None, None),
        EventKind::Scan { .. } => (EventName::Scan, None, None),
        EventKind::Refused(reason) => (EventName::Refused, Some(reason.name().to_owned()), None),
        EventKind::Closed { state, lasted, packets, bytes, .. } => {
            let closed = Closed {
                state: state.name().to_owned(),
                seconds: lasted.as_secs(),
                packets_out: packets.0,
                bytes_out: bytes.0,
                packets_back: packets.1,
                bytes_back: bytes.1,
            };
            (EventName::Closed, None, Some(closed))
        }
    };
    EventDetails {
        event: name,
        rule: event.rule,
        source_list,
        destination_list,
        protocol: protocol_name(event.protocol),
        source: event.source.0,
        source_port: event.source.1,
        destination: event.destination.0,
        destination_port: responder_port(event.protocol, event.destination.1),
        from: event.zones.0,
        to: event.zones.1,
        reason,
        closed,
        alert,
        scan,
        request: None,
    }
}

fn is_icmp(protocol: u8) -> bool {
    matches!(protocol, policy::service::ICMP | policy::service::ICMPV6)
}

/// How long a flow stays open without a packet.
fn lifetime(flow: &dataplane::Flow, timeouts: &Timeouts) -> Duration {
    match flow.state {
        State::SynSent | State::SynBoth | State::SynReceived => timeouts.tcp_opening,
        State::Established => timeouts.tcp_established,
        State::Fin | State::LastAck | State::TimeWait => timeouts.tcp_closing,
        State::Reset => timeouts.tcp_reset,
        State::OneWay => by_protocol(flow.protocol, timeouts).min(timeouts.unanswered),
        State::Mapping => timeouts.udp,
        State::TwoWay => by_protocol(flow.protocol, timeouts),
    }
}

fn by_protocol(protocol: u8, timeouts: &Timeouts) -> Duration {
    use policy::service::{ICMP, ICMPV6, UDP};
    match protocol {
        UDP => timeouts.udp,
        ICMP | ICMPV6 => timeouts.icmp,
        _ => timeouts.other,
    }
}
