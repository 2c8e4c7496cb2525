//! Frames as they lie on the wire, judged by an independent parser: headers, lengths, checksums, addresses, ports.
//! Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use etherparse::{NetHeaders, PacketHeaders, TransportHeader};
use fixture::{Bed, FORWARD, Listener, Middle, fixed, imix, shape};
use measure::shape::{IpVersion, Lane, Placement, TrafficShape, UdpChecksum, Zone};
use measure::trial::Load;
use std::collections::HashSet;
use std::io::Read;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::time::Duration;
use traffic::{Engine, Ports, ProbeFrame, SETTLE, Transport, TrialPlan};

/// What the tests look at in a frame whose every length and checksum is right.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Seen {
    bytes: usize,
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    source_port: u16,
    destination_port: u16,
    transport_checksum: u16,
    payload_bytes: usize,
    syn: bool,
}

/// Takes a frame apart and checks all that every frame of the bench has in common.
fn parse(frame: &[u8]) -> Seen {
    let packet = PacketHeaders::from_ethernet_slice(frame).unwrap();
    let ethernet = packet.link.clone().unwrap().ethernet2().unwrap();
    assert_eq!(ethernet.destination, fixture::MIDDLE_PRIVATE_MAC);
    let payload = packet.payload.slice();
    let (source, destination, protocol, ip_bytes): (IpAddr, IpAddr, u8, usize) = match packet
        .net
        .as_ref()
        .unwrap()
    {
        NetHeaders::Ipv4(ip, _) => {
            assert_eq!(ip.header_checksum, ip.calc_header_checksum(), "IPv4 header checksum");
            assert_eq!((ip.time_to_live, ip.dont_fragment, ip.more_fragments), (64, true, false));
            (ip.source.into(), ip.destination.into(), ip.protocol.0, usize::from(ip.total_len))
        }
        NetHeaders::Ipv6(ip, _) => {
            assert_eq!(ip.hop_limit, 64);
            (ip.source.into(), ip.destination.into(), ip.next_header.0, 40 + usize::from(ip.payload_length))
        }
        other => panic!("neither IPv4 nor IPv6: {other:?}"),
    };
    assert_eq!((14 + ip_bytes).max(60), frame.len(), "the IP header's length");
    let mut seen = Seen {
        bytes: frame.len(),
        source,
        destination,
        protocol,
        source_port: 0,
        destination_port: 0,
        transport_checksum: 0,
        payload_bytes: payload.len(),
        syn: false,
    };
    match packet.transport.as_ref().unwrap() {
        TransportHeader::Udp(udp) => {
            assert_eq!(usize::from(udp.length), 8 + payload.len(), "the UDP length");
            let right = match packet.net.as_ref().unwrap() {
                NetHeaders::Ipv4(ip, _) => udp.calc_checksum_ipv4(ip, payload).unwrap(),
                NetHeaders::Ipv6(ip, _) => udp.calc_checksum_ipv6(ip, payload).unwrap(),
                NetHeaders::Arp(_) => unreachable!(),
            };
            assert!(udp.checksum == 0 || udp.checksum == right, "UDP checksum {} not {right}", udp.checksum);
            (seen.source_port, seen.destination_port) = (udp.source_port, udp.destination_port);
            seen.transport_checksum = udp.checksum;
        }
        TransportHeader::Tcp(tcp) => {
            let right = match packet.net.as_ref().unwrap() {
                NetHeaders::Ipv4(ip, _) => tcp.calc_checksum_ipv4(ip, payload).unwrap(),
                NetHeaders::Ipv6(ip, _) => tcp.calc_checksum_ipv6(ip, payload).unwrap(),
                NetHeaders::Arp(_) => unreachable!(),
            };
            assert_eq!(tcp.checksum, right, "TCP checksum");
            assert!(!tcp.ack && !tcp.rst && !tcp.fin && !tcp.psh && !tcp.urg, "only SYN: {tcp:?}");
            (seen.source_port, seen.destination_port) = (tcp.source_port, tcp.destination_port);
            (seen.transport_checksum, seen.syn) = (tcp.checksum, tcp.syn);
        }
        other => panic!("neither UDP nor TCP: {other:?}"),
    }
    seen
}

/// Sends a burst into a middle that keeps silent, and takes apart what came there.
fn capture(
    engine: &mut Engine,
    ports: &Ports,
    listener: &Listener,
    traffic: &TrafficShape,
    frames: u64,
) -> Vec<Seen> {
    engine.set_traffic(traffic).unwrap();
    let plan = TrialPlan {
        translated: None,
        forbidden: None,
        phases: &[fixture::phase(Load::Burst(frames))],
        lanes: &[(FORWARD, 1.0)],
        placement: Placement::Inline,
        cores: &[0],
        times_matter: false,
        settle: SETTLE,
    };
    let trial = engine.run(ports, &plan, &mut ()).unwrap();
    assert_eq!(trial.sent(), frames);
    assert_eq!(trial.reading.streams[0].received, 0, "the middle forwards nothing");
    let seen = listener.at_least_from(fixture::PRIVATE_MAC, frames as usize);
    seen.iter().map(|frame| parse(frame)).collect()
}

fn host_number(address: IpAddr, v4_prefix: u32, v6_prefix: [u8; 16]) -> u32 {
    match address {
        IpAddr::V4(address) => u32::from(address).checked_sub(v4_prefix).unwrap(),
        IpAddr::V6(address) => {
            let octets = address.octets();
            assert_eq!(octets[..12], v6_prefix[..12]);
            u32::from_be_bytes(*octets.last_chunk().unwrap())
        }
    }
}

#[test]
fn frames_are_valid_and_as_many_flows_as_asked_for() {
    let _turn = testkit::turn();
    let bed = Bed::new(Middle::Silent, 9000);
    let (mut engine, ports) = bed.engine(5000);
    let listener = bed.listen();
    let six = measure::frame::FrameMix::fixed(measure::frame::FrameSize::new(84).unwrap());
    for (frame, ip, udp_checksum, flows, seed) in [
        (fixed(64), IpVersion::V4, UdpChecksum::Zero, 1000, 1),
        (fixed(64), IpVersion::V4, UdpChecksum::Valid, 1000, 2),
        (fixed(65), IpVersion::V4, UdpChecksum::Valid, 1, 3),
        (fixed(67), IpVersion::V4, UdpChecksum::Valid, 7, 3),
        (fixed(1518), IpVersion::V4, UdpChecksum::Valid, 20, 4),
        (imix(), IpVersion::V4, UdpChecksum::Valid, 997, 5),
        (six, IpVersion::V6, UdpChecksum::Zero, 1000, 6),
        (fixed(85), IpVersion::V6, UdpChecksum::Valid, 2, 7),
        (fixed(3412), IpVersion::V6, UdpChecksum::Valid, 50, 8),
        (fixed(3413), IpVersion::V4, UdpChecksum::Zero, 50, 9),
        (fixed(9018), IpVersion::V4, UdpChecksum::Valid, 600, 10),
        (fixed(9017), IpVersion::V6, UdpChecksum::Valid, 600, 11),
    ] {
        let mut traffic = shape(frame, flows);
        (traffic.ip, traffic.udp_checksum, traffic.seed) = (ip, udp_checksum, seed);
        let frames = u64::from(flows) * 2 + 1;
        let seen = capture(&mut engine, &ports, &listener, &traffic, frames);
        assert_eq!(seen.len() as u64, frames);
        check_flows(&traffic, &seen);
    }
    engine.detach(ports);
}

/// Sizes in order, the flows in turn, ports within the ranges of RFC 4814 section 4.5, checksums where wanted.
fn check_flows(traffic: &TrafficShape, seen: &[Seen]) {
    let sizes = traffic.frame.sizes();
    let mut tuples = HashSet::new();
    for (number, frame) in seen.iter().enumerate() {
        assert_eq!(
            frame.bytes,
            usize::from(sizes[number % sizes.len()].bytes_without_fcs()),
            "frame {number}"
        );
        assert_eq!(frame.protocol, 17);
        let wanted = traffic.udp_checksum == UdpChecksum::Valid || traffic.ip == IpVersion::V6;
        assert_eq!(frame.transport_checksum != 0, wanted, "frame {number}: UDP checksum wanted: {wanted}");
        assert!(frame.source_port >= 1024 && (1..=49_151).contains(&frame.destination_port), "{frame:?}");
        let client = host_number(frame.source, fixture::PRIVATE_V4, fixture::PRIVATE_V6);
        let server = host_number(frame.destination, fixture::HOSTILE_V4, fixture::HOSTILE_V6);
        assert!((256..32_768).contains(&client) && (256..32_768).contains(&server), "{frame:?}");
        let flow = |f: &Seen| (f.source, f.destination, f.source_port, f.destination_port);
        tuples.insert(flow(frame));
        if let Some(next_turn) = seen.get(number + traffic.flows as usize) {
            assert_eq!(flow(frame), flow(next_turn), "flows take turns");
        }
    }
    assert_eq!(tuples.len(), traffic.flows as usize, "distinct 5-tuples");
}

fn probe(source: &str, destination: &str, transport: Transport) -> ProbeFrame {
    ProbeFrame {
        from: Zone::Private,
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
        transport,
        source_port: 40_001,
        destination_port: 443,
    }
}

fn probes() -> Vec<ProbeFrame> {
    let (v4, v6) = (("198.18.1.0", "198.19.2.1"), ("2001:2:0:1::100", "2001:2:0:2::201"));
    [Transport::Udp, Transport::SYN]
        .into_iter()
        .flat_map(|transport| [probe(v4.0, v4.1, transport), probe(v6.0, v6.1, transport)])
        .collect()
}

#[test]
fn probes_are_valid_frames() {
    let _turn = testkit::turn();
    let bed = Bed::new(Middle::Silent, 1500);
    let (mut engine, ports) = bed.engine(1);
    let listener = bed.listen();
    let arrived = engine.probe(&ports, &probes(), 4, Duration::ZERO).unwrap();
    assert_eq!(arrived, vec![None; 4], "the middle forwards nothing");
    let frames = listener.at_least_from(fixture::PRIVATE_MAC, 4);
    assert_eq!(frames.len(), 4);
    for (probe, frame) in probes().iter().zip(&frames) {
        let seen = parse(frame);
        assert_eq!((seen.source, seen.destination), (probe.source, probe.destination));
        assert_eq!((seen.source_port, seen.destination_port), (probe.source_port, probe.destination_port));
        assert_eq!(seen.syn, probe.transport == Transport::SYN);
        assert_eq!(seen.payload_bytes, traffic::STAMP_BYTES);
        assert_ne!(seen.transport_checksum, 0, "probes always carry a checksum");
    }
    engine.detach(ports);
}

#[test]
fn probes_arrive_as_they_were_sent() {
    for middle in [Middle::Wire, Middle::Routing] {
        let _turn = testkit::turn();
        let bed = Bed::new(middle, 1500);
        let (mut engine, ports) = bed.engine(1);
        // Again and again: what an earlier proof saw must not count in the next.
        for count in [4, 2, 3] {
            let probes = &probes()[..count];
            let arrived = engine.probe(&ports, probes, count, Duration::ZERO).unwrap();
            assert_eq!(arrived.len(), count);
            for (probe, arrival) in probes.iter().zip(arrived) {
                let arrival = arrival.unwrap_or_else(|| panic!("{middle:?}: {probe:?} did not arrive"));
                assert_eq!(arrival.count, 1);
                assert_eq!(arrival.destination_mac, fixture::HOSTILE_MAC);
                assert_eq!((arrival.source.ip(), arrival.source.port()), (probe.source, probe.source_port));
                let destination = (arrival.destination.ip(), arrival.destination.port());
                assert_eq!(destination, (probe.destination, probe.destination_port));
            }
        }
        engine.detach(ports);
    }
}

/// Hands on what comes from the private zone, when it is its turn.
const HANDS_ON: &str = r#"
import socket, sys
private, hostile = (socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) for _ in range(2))
private.bind(("mp", 0))
hostile.bind(("mh", 0))
print("ready", flush=True)
frame = private.recv(2048)
hostile.send(bytes.fromhex(sys.argv[1]) + frame[6:])
sys.stdin.read()
"#;

#[test]
fn what_must_not_arrive_is_waited_for() {
    let _turn = testkit::turn();
    let bed = Bed::new(Middle::Silent, 1500);
    let (mut engine, ports) = bed.engine(1);
    let hostile = fixture::HOSTILE_MAC.map(|byte| format!("{byte:02x}")).concat();
    let mut program = Command::new("python3");
    program.args(["-c", HANDS_ON, &hostile]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut middle = bed.middle().enter(|| program.spawn().unwrap());
    let mut said = [0; 6];
    middle.stdout.take().unwrap().read_exact(&mut said).unwrap();
    let arrived = engine.probe(&ports, &probes()[..1], 0, Duration::from_secs(20)).unwrap();
    assert!(arrived[0].is_some(), "it came after the sender had gone on");
    drop(middle.stdin.take());
    assert!(middle.wait().unwrap().success());
    engine.detach(ports);
}

#[test]
fn impossible_probes_are_refused() {
    let _turn = testkit::turn();
    let bed = Bed::new(Middle::Wire, 1500);
    let (mut engine, ports) = bed.engine(1);
    let mixed = probe("198.18.1.0", "2001:2:0:2::201", Transport::Udp);
    let nowhere = ProbeFrame { from: Zone::Dmz, ..probes()[0].clone() };
    for (probes, said) in [
        (vec![mixed], "a probe from 198.18.1.0 to 2001:2:0:2::201: two IP versions"),
        (vec![nowhere], "this bed has no dmz zone"),
        (vec![probes()[0].clone(); 65], "65 probes: one proof holds 64"),
    ] {
        assert_eq!(engine.probe(&ports, &probes, 1, Duration::ZERO).unwrap_err().to_string(), said);
    }
    engine.detach(ports);
}

/// Each is loaded when a port needs it, so other tests may never see all six.
#[test]
fn each_zone_has_its_sink_and_another_for_frames_in_several_pieces() {
    let _turn = testkit::turn();
    let mut engine = Engine::load(1).unwrap();
    let rows = [
        (1500, Zone::Private, "sink_private"),
        (1500, Zone::Dmz, "sink_dmz"),
        (1500, Zone::Hostile, "sink_hostile"),
        // The kernel keeps 15 characters.
        (9000, Zone::Private, "jumbo_sink_priv"),
        (9000, Zone::Dmz, "jumbo_sink_dmz"),
        (9000, Zone::Hostile, "jumbo_sink_host"),
    ];
    for (mtu, zone, expected) in rows {
        let bed = Bed::new(Middle::Wire, mtu);
        let port = traffic::Port { zone, ..bed.ports[0].clone() };
        let ports = engine.attach(&[port]).unwrap();
        let attached = bed.program_at(0, "z");
        assert_eq!(attached.as_deref(), Some(expected), "{mtu} {zone:?}");
        engine.detach(ports);
        assert_eq!(bed.program_at(0, "z"), None, "{mtu} {zone:?}");
    }
}

/// The lane back swaps clients and servers: answers belong to the same flows.
#[test]
fn frames_back_are_answers_of_the_same_flows() {
    let _turn = testkit::turn();
    let bed = Bed::new(Middle::Silent, 1500);
    let (mut engine, ports) = bed.engine(100);
    let listener = bed.listen();
    engine.set_traffic(&shape(fixed(64), 100)).unwrap();
    let lanes: [(Lane, f64); 2] = [(FORWARD, 0.5), (fixture::BACK, 0.5)];
    let plan = TrialPlan {
        translated: None,
        forbidden: None,
        phases: &[fixture::phase(Load::Burst(200))],
        lanes: &lanes,
        placement: Placement::Inline,
        cores: &[0],
        times_matter: false,
        settle: SETTLE,
    };
    engine.run(&ports, &plan, &mut ()).unwrap();
    let mut flows = [HashSet::new(), HashSet::new()];
    for (source, reverse, frame) in listener.at_least(200) {
        let packet = PacketHeaders::from_ethernet_slice(&frame).unwrap();
        let (Some(NetHeaders::Ipv4(ip, _)), Some(TransportHeader::Udp(udp))) = (packet.net, packet.transport)
        else {
            panic!("not UDP over IPv4 from {source:?}");
        };
        let (here, there) = ((ip.source, udp.source_port), (ip.destination, udp.destination_port));
        flows[usize::from(reverse)].insert(if reverse { (there, here) } else { (here, there) });
    }
    assert_eq!(flows[0].len(), 100);
    assert_eq!(flows[0], flows[1]);
    engine.detach(ports);
}
