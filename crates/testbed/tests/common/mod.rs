//! A prober for tests: sends one frame from a zone and says whether it arrives in another. A frame that does not
//! arrive is found out without waiting: one that must arrive is sent after it on the same way, and when that one is
//! there, the first is lost.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

use measure::shape::{Lane, Placement, PolicyShape, Zone, ZoneForm};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use testbed::bed::{Bed, BedSpec, CoreSplit, Wiring};
use testbed::dut::{self, Running};
use testbed::layout::BedLayout;
use testbed::policy::{Expect, PolicySpec, Probe, Protocol, Segment};
pub use testkit::must_be_root;
use testkit::packet::{Frame, Tcp, checksum, complete, udp};

pub fn spec(zones: ZoneForm, wiring: Wiring) -> BedSpec {
    BedSpec {
        zones,
        wiring,
        largest_frame: measure::frame::FrameSize::new(1518).unwrap(),
        placement: Placement::Inline,
        cores: CoreSplit::of(Placement::Inline, 1).unwrap(),
        link_bits_per_second: None,
    }
}

pub fn plain() -> PolicyShape {
    PolicyShape::forward_everything(7)
}

/// The namespaces that this process has at the moment, with a bed's number.
pub fn my_namespaces() -> Vec<String> {
    let prefix = format!("rb-{}-", std::process::id());
    testbed::netns::names().into_iter().filter(|name| name.starts_with(&prefix)).collect()
}

/// Names of a bed's namespaces.
pub fn namespaces_of(bed: &Bed) -> Vec<String> {
    bed.namespaces().map(|n| n.name().to_owned()).collect()
}

pub fn assert_gone(names: &[String]) {
    let left: Vec<String> = testbed::netns::names().into_iter().filter(|n| names.contains(n)).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// Builds a bed for the firewall, sets it up, hands both to `test`, and sees that all is gone afterwards.
pub fn with_firewall(
    name: &str,
    zones: ZoneForm,
    shape: &PolicyShape,
    test: impl FnOnce(&Bed, &mut Box<dyn Running>, &PolicySpec, &mut Prober),
) {
    with_policy(name, &PolicySpec::generate(shape, zones).unwrap(), test);
}

/// The same with a policy that is made already.
pub fn with_policy(
    name: &str,
    policy: &PolicySpec,
    test: impl FnOnce(&Bed, &mut Box<dyn Running>, &PolicySpec, &mut Prober),
) {
    must_be_root();
    let driver = dut::driver(name).unwrap();
    let bed = Bed::build(&spec(policy.zones, driver.wiring())).unwrap();
    let names = namespaces_of(&bed);
    let mut running =
        driver.set_up(&bed, policy).unwrap_or_else(|e| panic!("{name} {:?}: {e}", policy.shape));
    let mut prober = Prober { through: name.to_owned(), ..Prober::new(bed.layout()) };
    test(&bed, &mut running, policy, &mut prober);
    drop((running, bed, prober));
    assert_gone(&names);
}

/// What of a frame matters on arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub ttl: u8,
}

/// A frame that does not come in this time is lost, however busy the machine: firewalls in user space wait for their turn.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Prober {
    layout: BedLayout,
    /// The firewall's name, for messages.
    through: String,
    receivers: Vec<(Zone, Socket)>,
    next_id: u32,
}

impl Prober {
    pub fn new(layout: &BedLayout) -> Self {
        let receiver = |zone| {
            let namespace = &layout.port(zone).unwrap().end.namespace;
            let every_protocol = i32::from(3u16.to_be());
            let socket = namespace
                .enter(|| Socket::new(Domain::PACKET, Type::RAW, Some(every_protocol.into())).unwrap())
                .unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            (zone, socket)
        };
        let receivers = layout.ports.iter().map(|p| receiver(p.zone)).collect();
        Self { layout: layout.clone(), through: "the bed".to_owned(), receivers, next_id: 1 }
    }

    /// Sends every probe in order and returns those that did not do as expected, in words.
    pub fn failures(&mut self, probes: &[Probe]) -> Vec<String> {
        probes.iter().filter_map(|probe| self.failure(probes, probe)).collect()
    }

    fn failure(&mut self, all: &[Probe], probe: &Probe) -> Option<String> {
        let arrival = match probe.expect {
            Expect::Arrives => self.wait_for(probe),
            Expect::Dropped => self.try_with_fence(all, probe),
        };
        let wanted = (probe.source_on_arrival, probe.destination_on_arrival);
        match (arrival, probe.expect) {
            (None, Expect::Dropped) => None,
            (Some(_), Expect::Dropped) => Some(format!("{}: arrived", probe.name)),
            (None, Expect::Arrives) => Some(format!("{}: did not arrive", probe.name)),
            (Some(a), Expect::Arrives) if (a.source, a.destination) != wanted => {
                Some(format!("{}: arrived as {a:?}", probe.name))
            }
            (Some(_), Expect::Arrives) => None,
        }
    }

    /// Sends a probe and waits for it.
    pub fn wait_for(&mut self, probe: &Probe) -> Option<Arrival> {
        let id = self.send(probe);
        self.receive_until(probe.lane.to, id).into_iter().find(|(seen, _)| *seen == id).map(|(_, a)| a)
    }

    /// Sends a probe, then frames that the policy allows on the same way, and looks whether the probe came first.
    pub fn try_with_fence(&mut self, all: &[Probe], probe: &Probe) -> Option<Arrival> {
        self.try_any(all, probe, probe.segment.map(TcpHeader::of))
    }

    fn try_any(&mut self, all: &[Probe], probe: &Probe, header: Option<TcpHeader>) -> Option<Arrival> {
        let id = self.send_any(probe, header);
        let find = |name: &str, lane: Lane| {
            all.iter().find(|p| {
                p.lane == lane && p.name.starts_with(name) && p.source.is_ipv4() == probe.source.is_ipv4()
            })
        };
        let back = Lane { from: probe.lane.to, to: probe.lane.from };
        let fence = match find("allowed", probe.lane) {
            Some(forward) => forward,
            None => {
                self.wait_for(find("allowed", back).unwrap()).expect("the connection's first frame arrives");
                find("reply,", probe.lane).unwrap()
            }
        };
        let fence_id = self.send(fence);
        let seen = self.receive_until(probe.lane.to, fence_id);
        let numbers: Vec<u32> = seen.iter().map(|(number, _)| *number).collect();
        let (through, lost) = (&self.through, &fence.name);
        assert!(
            numbers.contains(&fence_id),
            "{through}: after {} ({id}) the fence {lost} ({fence_id}) is lost: {numbers:?}",
            probe.name
        );
        seen.into_iter().find(|(seen, _)| *seen == id).map(|(_, arrival)| arrival)
    }

    /// Sends a segment of any kind between a probe's ends, then looks as [`Self::try_with_fence`] does.
    pub fn try_segment(&mut self, all: &[Probe], probe: &Probe, header: TcpHeader) -> Option<Arrival> {
        self.try_any(all, probe, Some(header))
    }

    /// Sends a probe without looking; returns its number.
    pub fn send(&mut self, probe: &Probe) -> u32 {
        self.send_any(probe, probe.segment.map(TcpHeader::of))
    }

    fn send_any(&mut self, probe: &Probe, header: Option<TcpHeader>) -> u32 {
        let id = self.next_id;
        self.next_id += 1;
        let frame = packet(probe, header, id);
        let (domain, mut to) = match probe.destination.ip() {
            IpAddr::V4(_) => (Domain::IPV4, probe.destination),
            IpAddr::V6(_) => (Domain::IPV6, probe.destination),
        };
        to.set_port(0);
        const IPPROTO_RAW: i32 = 255;
        let end = &self.layout.port(probe.lane.from).unwrap().end;
        let device = &end.device;
        end.namespace
            .enter(|| {
                let socket = Socket::new(domain, Type::RAW, Some(IPPROTO_RAW.into())).unwrap();
                // For beds whose ports share one namespace; in the others there is but one way out.
                socket.bind_device(Some(device.as_bytes())).unwrap();
                socket.send_to(&frame, &SockAddr::from(to)).unwrap_or_else(|e| panic!("{}: {e}", probe.name))
            })
            .unwrap();
        id
    }

    /// Everything of ours that comes to a zone, up to the frame with this number.
    fn receive_until(&mut self, zone: Zone, last: u32) -> Vec<(u32, Arrival)> {
        let (_, socket) = self.receivers.iter_mut().find(|(z, _)| *z == zone).unwrap();
        let own_mac = self.layout.port(zone).unwrap().end.mac.0;
        let mut seen = Vec::new();
        let mut buffer = [0u8; 2048];
        while let Ok(bytes) = socket.read(&mut buffer) {
            // A packet socket sees what its namespace sends as well.
            if buffer[..6] != own_mac {
                continue;
            }
            if let Some(arrival) = parse(&buffer[..bytes]) {
                seen.push(arrival);
                if arrival.0 == last {
                    break;
                }
            }
        }
        seen
    }
}

/// What of a TCP header matters to connection tracking.
#[derive(Debug, Clone, Copy)]
pub struct TcpHeader {
    pub sequence: u32,
    pub acknowledgement: u32,
    pub flags: u8,
}

impl TcpHeader {
    fn of(segment: Segment) -> Self {
        Self {
            sequence: segment.sequence(),
            acknowledgement: segment.acknowledgement(),
            flags: segment.flags(),
        }
    }
}

/// Bytes of data in every segment: the mark and the number.
pub const SEGMENT_BYTES: u32 = 8;

const MAGIC: u32 = 0x7262_7072;

fn packet(probe: &Probe, header: Option<TcpHeader>, id: u32) -> Vec<u8> {
    let ports = (probe.source.port(), probe.destination.port());
    let length = SEGMENT_BYTES as usize;
    let (protocol, mut payload) = match header {
        None if probe.protocol == Protocol::Icmp => {
            let (protocol, kind) = if probe.source.is_ipv4() { (1, 8) } else { (58, 128) };
            let mut echo = vec![kind, 0, 0, 0];
            echo.extend([ports.0, ports.1].iter().flat_map(|half| half.to_be_bytes()));
            echo.resize(echo.len() + length, 0);
            (protocol, echo)
        }
        None => (17, udp(ports, length)),
        Some(TcpHeader { sequence, acknowledgement, flags }) => {
            let tcp =
                Tcp { ports, flags, sequence, acknowledgement, window: 0xffff, length, ..Tcp::default() };
            (6, tcp.bytes())
        }
    };
    payload.truncate(payload.len() - length);
    payload.extend([MAGIC, id].iter().flat_map(|word| word.to_be_bytes()));
    let (source, destination) = (probe.source.ip(), probe.destination.ip());
    complete(&mut payload, protocol, source, destination);
    Frame { payload, ..Frame::between(source, destination, protocol) }.packet()
}

/// One of our frames, headers checked: a damaged header is a panic, anything else is `None`.
fn parse(frame: &[u8]) -> Option<(u32, Arrival)> {
    let ip = &frame[14..];
    let (source, destination, protocol, ttl, transport): (IpAddr, IpAddr, u8, u8, &[u8]) =
        match u16::from_be_bytes([frame[12], frame[13]]) {
            0x0800 => {
                assert_eq!(checksum(&ip[..20]), 0, "wrong IP header checksum: {frame:02x?}");
                let at = |i: usize| <[u8; 4]>::try_from(&ip[i..i + 4]).unwrap();
                (at(12).into(), at(16).into(), ip[9], ip[8], &ip[20..])
            }
            0x86dd => {
                let at = |i: usize| <[u8; 16]>::try_from(&ip[i..i + 16]).unwrap();
                (at(8).into(), at(24).into(), ip[6], ip[7], &ip[40..])
            }
            _ => return None,
        };
    let port = |i: usize| u16::from_be_bytes([transport[i], transport[i + 1]]);
    let word = |i: usize| u32::from_be_bytes(transport[i..i + 4].try_into().unwrap());
    // An echo request has its identifier and its number where the others have no ports.
    let ports_at =
        if matches!((protocol, transport.first()), (1, Some(8)) | (58, Some(128))) { 4 } else { 0 };
    let id = match protocol {
        17 if transport.len() >= 16 && word(8) == MAGIC => word(12),
        1 | 58 if ports_at > 0 && transport.len() >= 16 && word(8) == MAGIC => word(12),
        6 if transport.len() >= 28 && word(20) == MAGIC => word(24),
        _ => return None,
    };
    let arrival = Arrival {
        source: SocketAddr::new(source, port(ports_at)),
        destination: SocketAddr::new(destination, port(ports_at + 2)),
        ttl,
    };
    Some((id, arrival))
}
