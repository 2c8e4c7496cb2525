//! Neighbours of real links: answering for the zone's hosts, and asking who has the gateway's address.
//!
//! Beds of namespaces have static neighbours and need neither. Between two cards nobody else can answer: the kernel's own
//! stack knows nothing of the test's hosts.

use super::engine::{Engine, Ports};
use super::frame;
use super::probe::probe_of;
use super::reading;
use super::skeleton::{PROBE_FRAME_BYTES, types};
use crate::harness::{wait_until, words};
use crate::{Port, TrafficError};
use measure::shape::Zone;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// How often a question is asked (RFC 4861 section 10), and how long each time until the next: neighbours on a bench
/// are one cable away.
const ATTEMPTS: usize = 3;
const PATIENCE: Duration = Duration::from_millis(500);
/// The zone's own end of its link: host number 2 of its prefix.
const OWN_HOST: u8 = 2;
const BROADCAST: [u8; 6] = [0xff; 6];
const PROTOCOL_ICMPV6: u8 = 58;

impl Engine {
    /// Whether ports answer ARP requests and neighbour solicitations for the hosts of their zone: host number 2 and
    /// those from [`crate::FIRST_HOST`] on. They never do for gateways. Off until asked for.
    ///
    /// Only for beds whose ports have interface numbers or prefixes of their own: two ports that share both cannot be
    /// distinguished.
    pub fn set_answer_neighbours(&mut self, answer: bool) {
        self.memory.change(|state| state.control.answer_neighbours = u32::from(answer));
    }

    /// The Ethernet address of `target` on the link of a zone's port, by ARP or neighbour solicitation. Waits up to
    /// one and a half seconds.
    ///
    /// # Errors
    /// The bed has no such zone, or nobody answers.
    pub fn resolve(&mut self, ports: &Ports, zone: Zone, target: IpAddr) -> Result<[u8; 6], TrafficError> {
        let (port, slot) = (ports.port(zone)?.clone(), ports.slot(zone)?);
        let frame = match target {
            IpAddr::V4(target) => arp_request(&port, target),
            IpAddr::V6(target) => solicitation(&port, target),
        };
        let address = address_words(target);
        self.ask(types::question { ifindex: port.ifindex, address, ..Default::default() });
        let mut answer = None;
        for _ in 0..ATTEMPTS {
            self.send_probes(&[probe_of(slot, &frame)])?;
            answer = wait_until(PATIENCE, || false, || reading::answer(self.memory), Option::is_some)?;
            if answer.is_some() {
                break;
            }
        }
        self.ask(types::question::default());
        answer.ok_or_else(|| {
            TrafficError::Impossible(format!(
                "nobody answers for {target} on port {} of zone {} ({ATTEMPTS} questions, {} ms each): check the cable \
                 and that the box between the ports has this address there",
                port.ifindex,
                zone.name(),
                PATIENCE.as_millis()
            ))
        })
    }

    /// What the sink listens for; its earlier answer is forgotten.
    fn ask(&mut self, question: types::question) {
        self.memory.change(|state| state.question = question);
    }
}

/// What the sink must know of a port to answer for its zone.
pub(crate) fn identity(port: &Port) -> types::identity {
    types::identity {
        ifindex: port.ifindex,
        v4_prefix: port.v4_prefix,
        v6_prefix: port.v6_words(),
        mac: port.mac,
        ..Default::default()
    }
}

/// An address as the sink compares it: words as they lie in the frame, IPv4 in the first.
fn address_words(address: IpAddr) -> [u32; 4] {
    match address {
        IpAddr::V4(address) => [u32::from_ne_bytes(address.octets()), 0, 0, 0],
        IpAddr::V6(address) => words(&address.octets()),
    }
}

/// Who has `target`? Asked of everybody on the port's link (RFC 826).
fn arp_request(port: &Port, target: Ipv4Addr) -> Vec<u8> {
    let mut frame = [BROADCAST, port.mac].concat();
    // ARP; Ethernet, IPv4, their lengths, request.
    frame.extend_from_slice(&[0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1]);
    frame.extend_from_slice(&port.mac);
    frame.extend_from_slice(&(port.v4_prefix | u32::from(OWN_HOST)).to_be_bytes());
    frame.extend_from_slice(&[0; 6]);
    frame.extend_from_slice(&target.octets());
    frame.resize(60, 0);
    frame
}

/// Who has `target`? Asked of its solicited-node group (RFC 4861 section 4.3), with our own address as an option.
fn solicitation(port: &Port, target: Ipv6Addr) -> Vec<u8> {
    let last = &target.octets()[13..];
    let mut source = port.v6_prefix;
    source[15] = OWN_HOST;
    let group = [&[0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01, 0xff], last].concat();
    // Type 135, code 0, checksum, reserved; then the target and the source's Ethernet address.
    let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(&target.octets());
    message.extend_from_slice(&[1, 1]);
    message.extend_from_slice(&port.mac);
    let length = (message.len() as u16).to_be_bytes();
    let pseudo = [&source[..], &group, &length, &[0, PROTOCOL_ICMPV6]].concat();
    let check = frame::udp_check(frame::word_sum(&pseudo) + frame::word_sum(&message));
    message[2..4].copy_from_slice(&check);
    let mut frame = [&[0x33, 0x33, 0xff], last, &port.mac].concat();
    frame.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
    frame.extend_from_slice(&length);
    frame.extend_from_slice(&[PROTOCOL_ICMPV6, 255]);
    frame.extend_from_slice(&source);
    frame.extend_from_slice(&group);
    frame.extend_from_slice(&message);
    debug_assert!(frame.len() <= PROBE_FRAME_BYTES);
    frame
}
