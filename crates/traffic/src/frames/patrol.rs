//! A patrol beside a trial: single frames that must not arrive, or must, of whatever kind, direction and IP version, while the trial's own
//! traffic goes on. Nothing in a frame tells it from others of its kind: datagrams have random data, segments have random numbers and none.
//!
//! Sent and received through sockets of the kernel. Whoever looks out keeps looking between trials, so a frame that is held back
//! until its trial is over is seen all the same.

use super::frame::{PROTOCOL_UDP, STAMP_BYTES, UDP_BYTES};
use super::probe::{PROTOCOL_TCP, ProbeFrame, Transport};
use crate::random::{SplitMix64, secret};
use crate::{Port, TrafficError, namespace, packet_socket};
use measure::shape::Zone;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrIn6, bind, setsockopt, socket,
    sockopt,
};
use nix::unistd::{read, write};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::{self, PipeReader, PipeWriter};
use std::net::{IpAddr, SocketAddrV4, SocketAddrV6};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Source ports, of which a probe has others each time: from the first on no rule allows an answer, and below it a stateless one does.
const NO_SERVICES: RangeInclusive<u16> = 49_152..=65_535;
const SERVICES: RangeInclusive<u16> = 1_024..=49_151;
const BUFFER_BYTES: usize = 1 << 20;
/// Of what arrived that looks like probes at one host; the bench itself sends a few a trial.
const MOST_ARRIVED: usize = 4_096;

/// Where arrivals are seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookout {
    /// At the ports: whatever the programs there leave to the kernel.
    Ports,
    /// At these addresses, which the zones' namespaces have: beside traffic of the kernel's own sockets, which this costs next to nothing.
    Hosts(Vec<(Zone, IpAddr)>),
}

/// A probe of a patrol, which goes again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatrolProbe {
    /// The frame, but for its source port and what makes each frame its own.
    pub frame: ProbeFrame,
    /// Ports that it comes from: another one each time.
    pub source_ports: RangeInclusive<u16>,
}

impl From<ProbeFrame> for PatrolProbe {
    /// From any port that answers to the same rules as that of the frame.
    fn from(frame: ProbeFrame) -> Self {
        let source_ports = if NO_SERVICES.contains(&frame.source_port) { NO_SERVICES } else { SERVICES };
        Self { frame, source_ports }
    }
}

/// What became of frames under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patrolled {
    /// Places of the probes that were sent since the patrol set out, each as often as it was.
    pub sent: Vec<usize>,
    /// Places of the probes that arrived, each as often as it did: sent in this trial or in one before.
    pub arrived: Vec<usize>,
}

/// The same of the ports of one host, whose frames arrive at another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatrolledPart {
    /// Frames sent since the patrol set out, each with the place of its probe.
    pub sent: Vec<(Key, usize)>,
    /// What arrived since the last time that looks like any of the probes, and where.
    pub arrived: Vec<(Zone, Key)>,
}

/// Who sends, and gives the places of what was sent.
type Sending = JoinHandle<io::Result<Vec<usize>>>;

/// What tells a frame from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Key {
    protocol: u8,
    destination_port: u16,
    /// A segment's sequence number, or the first bytes of a datagram.
    drawn: u32,
}

/// What sender, receiver and owner share.
#[derive(Debug, Default)]
struct Book {
    /// Which probe a frame was, of all that were ever sent.
    sent: Mutex<HashMap<Key, usize>>,
    arrived: Mutex<Vec<(Zone, Key)>>,
    news: Condvar,
}

/// Frames that can be sent between the ports of a bed, and who sees them arrive.
#[derive(Debug)]
pub struct Patrol {
    ports: Vec<Port>,
    probes: Vec<PatrolProbe>,
    kinds: usize,
    book: Arc<Book>,
    random: SplitMix64,
    under_way: Option<(Arc<AtomicBool>, Sending)>,
    receiver: Option<JoinHandle<io::Result<()>>>,
    /// Hung up to end the receiver.
    hang_up: Option<PipeWriter>,
}

impl Patrol {
    /// Begins to look out for `probes`, none of which is under way yet: rounds of as many as there are `kinds`.
    ///
    /// # Errors
    /// A probe from a zone without a port or of two IP versions, or no socket.
    pub fn new(
        ports: &[Port],
        probes: &[PatrolProbe],
        kinds: usize,
        lookout: &Lookout,
    ) -> Result<Self, TrafficError> {
        for PatrolProbe { frame, .. } in probes {
            frame.frame(port_of(ports, frame.from)?, &[])?;
        }
        let sockets = match lookout {
            Lookout::Ports => at_ports(ports)?,
            Lookout::Hosts(hosts) => at_hosts(ports, hosts)?,
        };
        let (hung_up, hang_up) = io::pipe().map_err(TrafficError::system("making a pipe"))?;
        let book = Arc::new(Book::default());
        let receiver = {
            let book = Arc::clone(&book);
            std::thread::spawn(move || receive(&sockets, &hung_up, &book))
        };
        Ok(Self {
            ports: ports.to_vec(),
            probes: probes.to_vec(),
            kinds,
            book,
            random: SplitMix64::new(secret()?),
            under_way: None,
            receiver: Some(receiver),
            hang_up: Some(hang_up),
        })
    }

    /// The same at the ports of one host. Of `probes` those are sent that enter here, and all that may arrive here are looked out for.
    ///
    /// # Errors
    /// As of [`Patrol::new`].
    pub fn part(ports: &[Port], probes: &[ProbeFrame]) -> Result<Self, TrafficError> {
        let is_here = |probe: &&ProbeFrame| ports.iter().any(|port| port.zone == probe.from);
        let own: Vec<PatrolProbe> = probes.iter().filter(is_here).cloned().map(PatrolProbe::from).collect();
        Self::new(ports, &own, own.len(), &Lookout::Ports)
    }

    /// Stops, and tells what is known here of frames whose other end is at another host. `probes` are those of [`Patrol::part`].
    ///
    /// # Errors
    /// A socket failed meanwhile, or more arrived that looks like probes than a message holds.
    pub fn halt_part(&mut self, probes: &[ProbeFrame]) -> Result<PatrolledPart, TrafficError> {
        self.stop()?;
        let is_own = |probe: &ProbeFrame| self.ports.iter().any(|port| port.zone == probe.from);
        let places: Vec<usize> = (0..probes.len()).filter(|place| is_own(&probes[*place])).collect();
        let sent = std::mem::take(&mut *locked(&self.book.sent));
        let mut arrived = std::mem::take(&mut *locked(&self.book.arrived));
        let ends: Vec<(u8, u16)> = probes.iter().map(|it| (it.protocol(), it.destination_port)).collect();
        arrived.retain(|(_, key)| ends.contains(&(key.protocol, key.destination_port)));
        if arrived.len() > MOST_ARRIVED {
            return Err(TrafficError::Impossible(format!(
                "{} frames arrived beside the load that look like forbidden ones: a message to another host holds {MOST_ARRIVED}",
                arrived.len()
            )));
        }
        let sent = sent.into_iter().map(|(key, which)| (key, places[which])).collect();
        Ok(PatrolledPart { sent, arrived })
    }

    /// Sends one probe after the other, about `every`, until [`halt`](Self::halt).
    ///
    /// # Errors
    /// No socket.
    pub fn set_out(&mut self, every: Duration) -> Result<(), TrafficError> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut round = Round {
            senders: senders(&self.ports)?,
            probes: self.probes.clone(),
            kinds: self.kinds.max(1),
            book: Arc::clone(&self.book),
            random: SplitMix64::new(self.random.next()),
        };
        let stopped = Arc::clone(&stop);
        let sender = std::thread::spawn(move || round.walk(every, &stopped));
        self.under_way = Some((stop, sender));
        Ok(())
    }

    /// Stops. What arrives from now on is seen by the next one.
    ///
    /// # Errors
    /// A socket failed meanwhile.
    pub fn halt(&mut self) -> Result<Patrolled, TrafficError> {
        let sent = self.stop()?;
        let sent_ever = locked(&self.book.sent);
        let arrived = std::mem::take(&mut *locked(&self.book.arrived));
        let which = |(zone, key): (Zone, Key)| {
            sent_ever.get(&key).copied().filter(|which| self.probes[*which].frame.from != zone)
        };
        Ok(Patrolled { sent, arrived: arrived.into_iter().filter_map(which).collect() })
    }

    /// Stops sending; the places of what was sent. Says what went wrong meanwhile.
    fn stop(&mut self) -> Result<Vec<usize>, TrafficError> {
        let sent = match self.under_way.take() {
            Some((stop, sender)) => {
                stop.store(true, Ordering::Relaxed);
                sender.thread().unpark();
                joined(sender.join(), "sending a patrol's frames")?
            }
            None => Vec::new(),
        };
        if self.receiver.as_ref().is_some_and(JoinHandle::is_finished)
            && let Some(receiver) = self.receiver.take()
        {
            joined(receiver.join(), "looking out for a patrol's frames")?;
        }
        Ok(sent)
    }

    /// Sends a frame that is none of the probes, and says whether it arrived in another zone within this time. Of a segment all numbers are
    /// those that are given.
    ///
    /// # Errors
    /// As of [`Patrol::new`].
    pub fn passes(&self, probe: &ProbeFrame, limit: Duration) -> Result<bool, TrafficError> {
        let port = port_of(&self.ports, probe.from)?;
        let mut random = SplitMix64::new(secret()?);
        let (bytes, key) = made(probe, port, &mut random).map_err(TrafficError::system("making a probe"))?;
        let socket = packet_socket::sender(port, BUFFER_BYTES)?;
        write(&socket, &bytes).map_err(io::Error::from).map_err(TrafficError::system("sending a probe"))?;
        let is_it = |(zone, found): &(Zone, Key)| *found == key && *zone != probe.from;
        let begun = Instant::now();
        let mut arrived = locked(&self.book.arrived);
        while !arrived.iter().any(is_it) {
            let Some(left) = limit.checked_sub(begun.elapsed()) else { return Ok(false) };
            arrived = self.book.news.wait_timeout(arrived, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        arrived.retain(|found| !is_it(found));
        Ok(true)
    }
}

impl Drop for Patrol {
    fn drop(&mut self) {
        // A thread that failed has nothing to tell a patrol that nobody asks any more.
        if let Some((stop, sender)) = self.under_way.take() {
            stop.store(true, Ordering::Relaxed);
            sender.thread().unpark();
            let _ = sender.join();
        }
        self.hang_up = None;
        if let Some(receiver) = self.receiver.take() {
            let _ = receiver.join();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn joined<T>(ended: std::thread::Result<io::Result<T>>, doing: &str) -> Result<T, TrafficError> {
    match ended {
        Ok(result) => result.map_err(TrafficError::system(doing.to_owned())),
        Err(_) => Err(TrafficError::Impossible(format!("the thread {doing} is gone"))),
    }
}

fn port_of(ports: &[Port], zone: Zone) -> Result<&Port, TrafficError> {
    ports.iter().find(|port| port.zone == zone).ok_or_else(|| {
        TrafficError::Impossible(format!("a probe from zone {}, which has no port", zone.name()))
    })
}

fn senders(ports: &[Port]) -> Result<Vec<(Port, OwnedFd)>, TrafficError> {
    ports.iter().map(|port| Ok((port.clone(), packet_socket::sender(port, BUFFER_BYTES)?))).collect()
}

/// One round after the other, each of its kinds in another order.
struct Round {
    senders: Vec<(Port, OwnedFd)>,
    probes: Vec<PatrolProbe>,
    kinds: usize,
    book: Arc<Book>,
    random: SplitMix64,
}

impl Round {
    /// The places of what was sent.
    fn walk(&mut self, every: Duration, stop: &AtomicBool) -> io::Result<Vec<usize>> {
        let mut sent = Vec::new();
        let mut order: Vec<usize> = (0..self.probes.len()).collect();
        while !order.is_empty() {
            // Every kind comes before one comes again.
            for round in order.chunks_mut(self.kinds) {
                self.random.shuffle(round);
            }
            for which in &order {
                if stop.load(Ordering::Relaxed) {
                    return Ok(sent);
                }
                self.send(*which)?;
                sent.push(*which);
                // At no regular distance: half of it to one and a half.
                let share = 500 + self.random.below(1000);
                std::thread::park_timeout(every * share as u32 / 1000);
            }
        }
        Ok(sent)
    }

    fn send(&mut self, which: usize) -> io::Result<()> {
        let PatrolProbe { frame: mut probe, source_ports: ports } = self.probes[which].clone();
        let Some((port, socket)) = self.senders.iter().find(|(port, _)| port.zone == probe.from) else {
            return Ok(());
        };
        probe.source_port = ports.start() + self.random.below(ports.len() as u64) as u16;
        if let Transport::Tcp { sequence, acknowledgement, .. } = &mut probe.transport {
            *sequence = self.random.next() as u32;
            if *acknowledgement != 0 {
                *acknowledgement = self.random.next() as u32;
            }
        }
        let (bytes, key) = made(&probe, port, &mut self.random)?;
        locked(&self.book.sent).insert(key, which);
        match write(socket, &bytes) {
            // A full link loses it, as it loses any other frame.
            Ok(_) | Err(Errno::ENOBUFS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// A frame, and what it is known by.
fn made(probe: &ProbeFrame, port: &Port, random: &mut SplitMix64) -> io::Result<(Vec<u8>, Key)> {
    let mut data = [0; STAMP_BYTES];
    for chunk in data.chunks_mut(8) {
        chunk.copy_from_slice(&random.next().to_ne_bytes()[..chunk.len()]);
    }
    let (protocol, drawn, data): (u8, u32, &[u8]) = match probe.transport {
        Transport::Udp => (PROTOCOL_UDP, u32::from_be_bytes([data[0], data[1], data[2], data[3]]), &data),
        Transport::Tcp { sequence, .. } => (PROTOCOL_TCP, sequence, &[]),
    };
    let bytes = probe.frame(port, data).map_err(io::Error::other)?;
    Ok((bytes, Key { protocol, destination_port: probe.destination_port, drawn }))
}

/// How a socket hands over what it received.
#[derive(Debug, Clone, Copy)]
enum Form {
    Frame,
    /// From the IPv4 header on.
    V4(u8),
    /// From the transport header on.
    V6(u8),
}

struct Ear {
    zone: Zone,
    form: Form,
    socket: OwnedFd,
}

fn at_ports(ports: &[Port]) -> Result<Vec<Ear>, TrafficError> {
    let ear = |port: &Port| {
        let socket = packet_socket::receiver(port, BUFFER_BYTES, Duration::ZERO)?;
        Ok(Ear { zone: port.zone, form: Form::Frame, socket })
    };
    ports.iter().map(ear).collect()
}

/// A socket for each protocol at each address.
fn at_hosts(ports: &[Port], hosts: &[(Zone, IpAddr)]) -> Result<Vec<Ear>, TrafficError> {
    let mut ears = Vec::new();
    for &(zone, address) in hosts {
        let namespace = port_of(ports, zone)?.namespace.as_deref();
        for protocol in [PROTOCOL_UDP, PROTOCOL_TCP] {
            let opened = namespace::inside(namespace, || raw_socket(address, protocol))?;
            let socket = opened.map_err(TrafficError::system(format!("listening at {address}")))?;
            let form = if address.is_ipv4() { Form::V4(protocol) } else { Form::V6(protocol) };
            ears.push(Ear { zone, form, socket });
        }
    }
    Ok(ears)
}

fn raw_socket(address: IpAddr, protocol: u8) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let protocol = if protocol == PROTOCOL_UDP { SockProtocol::Udp } else { SockProtocol::Tcp };
    let socket = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    setsockopt(&socket, sockopt::RcvBufForce, &BUFFER_BYTES)?;
    match address {
        IpAddr::V4(address) => bind(socket.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(address, 0)))?,
        IpAddr::V6(address) => {
            bind(socket.as_raw_fd(), &SockaddrIn6::from(SocketAddrV6::new(address, 0, 0, 0)))?;
        }
    }
    Ok(socket)
}

/// Enters whatever arrives into the book, until its owner hangs up.
fn receive(ears: &[Ear], hung_up: &PipeReader, book: &Book) -> io::Result<()> {
    let mut bytes = [0u8; 2048];
    loop {
        let mut waiting: Vec<PollFd<'_>> =
            ears.iter().map(|ear| PollFd::new(ear.socket.as_fd(), PollFlags::POLLIN)).collect();
        waiting.push(PollFd::new(hung_up.as_fd(), PollFlags::POLLIN));
        match poll(&mut waiting, PollTimeout::NONE) {
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<bool> = waiting.iter().map(|fd| fd.any().unwrap_or(true)).collect();
        if ready.last() == Some(&true) {
            return Ok(());
        }
        for (ear, _) in ears.iter().zip(&ready).filter(|(_, ready)| **ready) {
            match read(&ear.socket, &mut bytes) {
                Ok(length) => {
                    if let Some(key) = key_of(ear.form, &bytes[..length]) {
                        locked(&book.arrived).push((ear.zone, key));
                        book.news.notify_all();
                    }
                }
                Err(Errno::EAGAIN | Errno::EINTR | Errno::ENETDOWN) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn key_of(form: Form, bytes: &[u8]) -> Option<Key> {
    let two = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let (protocol, transport) = match form {
        Form::Frame => match two(12)? {
            0x0800 => (*bytes.get(23)?, 14 + usize::from(bytes.get(14)? & 15) * 4),
            0x86dd => (*bytes.get(20)?, 54),
            _ => return None,
        },
        Form::V4(protocol) => (protocol, usize::from(bytes.first()? & 15) * 4),
        Form::V6(protocol) => (protocol, 0),
    };
    let drawn_at = match protocol {
        PROTOCOL_UDP => transport + UDP_BYTES,
        PROTOCOL_TCP => transport + 4,
        _ => return None,
    };
    let drawn = bytes.get(drawn_at..)?.first_chunk::<4>()?;
    Some(Key { protocol, destination_port: two(transport + 2)?, drawn: u32::from_be_bytes(*drawn) })
}

#[cfg(test)]
mod tests {
    use super::super::probe;
    use super::*;

    #[test]
    fn frames_are_known_by_what_was_drawn_however_they_are_received() {
        let mut random = SplitMix64::new(7);
        for (port, probe) in probe::tests::of_both_versions() {
            let (frame, key) = made(&probe, &port, &mut random).unwrap();
            assert_eq!(key_of(Form::Frame, &frame), Some(key), "{probe:?}");
            let (form, packet) = match probe.source {
                IpAddr::V4(_) => (Form::V4(key.protocol), &frame[14..]),
                IpAddr::V6(_) => (Form::V6(key.protocol), &frame[54..]),
            };
            assert_eq!(key_of(form, packet), Some(key), "{probe:?}");
            assert_eq!(key_of(Form::Frame, &frame[..36]), None, "cut off");
        }
    }
}
