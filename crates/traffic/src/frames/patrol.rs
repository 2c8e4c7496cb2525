//! A patrol beside a trial: single frames that must not arrive, or must, of whatever kind, direction and IP version, while the trial's own
//! traffic goes on. They look like it ([`Looks`]): what is not known beforehand is drawn for each.
//!
//! Sent and received through sockets of the kernel. Whoever looks out keeps looking between trials, so a frame that is held back
//! until its trial is over is seen all the same.

use super::frame::{PROTOCOL_UDP, STAMP_BYTES, UDP_BYTES};
use super::looks::Looks;
use super::probe::{
    DESTINATION_OPTIONS, ECHO, ECHO_V6, FRAGMENT, PROTOCOL_ICMP, PROTOCOL_ICMP_V6, PROTOCOL_TCP, ProbeFrame,
    Transport,
};
use crate::random::{SplitMix64, secret};
use crate::{Port, TrafficError, namespace, packet_socket};
use measure::shape::{IpVersion, Zone};
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
/// How long what is there already may take to be read.
const CATCHING_UP: Duration = Duration::from_millis(200);
/// What options or another header add.
const LONGEST_EXTENSION: usize = 8;
/// A datagram in fragments has at least so much data.
const FRAGMENTED_BYTES: usize = 64;
/// Of the data of a datagram or an echo request, the place of the bytes by which it is known: those before them may be the same in all.
const DRAWN_AT: usize = 12;
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
    /// The frame, but for its ports and what makes each frame its own.
    pub frame: ProbeFrame,
    /// Ports that it comes from: another one each time.
    pub source_ports: RangeInclusive<u16>,
    /// Ports that it goes to.
    pub destination_ports: RangeInclusive<u16>,
    /// Whether it may have options or be in fragments, which firewalls are free to drop, or come twice. One of each does in every round, as far as
    /// there are such.
    pub has_any_form: bool,
}

impl PatrolProbe {
    /// Between these ports alone.
    pub fn exactly(frame: ProbeFrame) -> Self {
        let [source_ports, destination_ports] =
            [frame.source_port, frame.destination_port].map(|port| port..=port);
        Self { frame, source_ports, destination_ports, has_any_form: false }
    }
}

impl From<ProbeFrame> for PatrolProbe {
    /// From any port that answers to the same rules as that of the frame.
    fn from(frame: ProbeFrame) -> Self {
        let source_ports = if NO_SERVICES.contains(&frame.source_port) { NO_SERVICES } else { SERVICES };
        Self { source_ports, ..Self::exactly(frame) }
    }
}

/// What became of frames under way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patrolled {
    /// Places of the probes that were sent since the patrol set out, each as often as it was.
    pub sent: Vec<usize>,
    /// Places of the probes that arrived, each as often as it did: sent in this trial or in one before.
    pub arrived: Vec<usize>,
    /// Frames that these were at least and at most where somebody counts them: one that has options may not be counted, and one in fragments
    /// may be up to two.
    pub frames: [u64; 2],
}

/// The same of the ports of one host, whose frames arrive at another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatrolledPart {
    /// Frames sent since the patrol set out, each with the place of its probe.
    pub sent: Vec<(Key, usize)>,
    /// What arrived since the last time that looks like any of the probes, and where.
    pub arrived: Vec<(Zone, Key)>,
}

/// Who sends, and tells what was sent.
type Sending = JoinHandle<io::Result<Sent>>;

/// Places of the probes that were sent, and how many frames they were at least and at most.
#[derive(Debug, Default)]
struct Sent {
    places: Vec<usize>,
    frames: [u64; 2],
}

/// What tells a frame from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Key {
    protocol: u8,
    destination_port: u16,
    /// A segment's sequence number, or bytes of other data.
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
    looks: Looks,
    book: Arc<Book>,
    random: SplitMix64,
    under_way: Option<(Arc<AtomicBool>, Sending)>,
    receiver: Option<JoinHandle<io::Result<()>>>,
    ears: Arc<Vec<Ear>>,
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
        looks: Looks,
    ) -> Result<Self, TrafficError> {
        for PatrolProbe { frame, .. } in probes {
            frame.bytes(port_of(ports, frame.from)?, 0, 0)?;
        }
        let ears = Arc::new(match lookout {
            Lookout::Ports => at_ports(ports)?,
            Lookout::Hosts(hosts) => at_hosts(ports, hosts)?,
        });
        let (hung_up, hang_up) = io::pipe().map_err(TrafficError::system("making a pipe"))?;
        let book = Arc::new(Book::default());
        let receiver = {
            let (ears, book) = (Arc::clone(&ears), Arc::clone(&book));
            std::thread::spawn(move || receive(&ears, &hung_up, &book))
        };
        Ok(Self {
            ports: ports.to_vec(),
            probes: probes.to_vec(),
            kinds,
            looks,
            book,
            random: SplitMix64::new(secret()?),
            under_way: None,
            receiver: Some(receiver),
            ears,
            hang_up: Some(hang_up),
        })
    }

    /// The same at the ports of one host. Of `probes` those are sent that enter here, and all that may arrive here are looked out for.
    ///
    /// # Errors
    /// As of [`Patrol::new`].
    pub fn part(ports: &[Port], probes: &[ProbeFrame], looks: Looks) -> Result<Self, TrafficError> {
        let is_here = |probe: &&ProbeFrame| ports.iter().any(|port| port.zone == probe.from);
        let own: Vec<PatrolProbe> = probes.iter().filter(is_here).cloned().map(PatrolProbe::from).collect();
        Self::new(ports, &own, own.len(), &Lookout::Ports, looks)
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

    /// Sends one probe after the other, about `every`, until [`halt`](Self::halt). Beside frames of the generator, data begins with `mark`, which
    /// must not be that of their trial: the sinks would take them for frames that somebody forged.
    ///
    /// # Errors
    /// No socket.
    pub fn set_out(&mut self, every: Duration, mark: Option<u16>) -> Result<(), TrafficError> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut round = Round {
            senders: senders(&self.ports)?,
            probes: self.probes.clone(),
            kinds: self.kinds.max(1),
            looks: self.looks.clone(),
            mark,
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
        let arrived = arrived.into_iter().filter_map(which).collect();
        Ok(Patrolled { sent: sent.places, arrived, frames: sent.frames })
    }

    /// Stops sending; what was sent. Says what went wrong meanwhile.
    fn stop(&mut self) -> Result<Sent, TrafficError> {
        let sent = match self.under_way.take() {
            Some((stop, sender)) => {
                stop.store(true, Ordering::Relaxed);
                sender.thread().unpark();
                joined(sender.join(), "sending a patrol's frames")?
            }
            None => Sent::default(),
        };
        if self.receiver.as_ref().is_some_and(JoinHandle::is_finished)
            && let Some(receiver) = self.receiver.take()
        {
            joined(receiver.join(), "looking out for a patrol's frames")?;
        }
        self.catch_up();
        Ok(sent)
    }

    /// Waits for who looks out, if the machine has kept it from reading what is there.
    fn catch_up(&self) {
        let begun = Instant::now();
        let is_behind = || {
            let mut waiting = polled(&self.ears);
            poll(&mut waiting, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
        };
        while self.receiver.is_some() && begun.elapsed() < CATCHING_UP && is_behind() {
            std::thread::park_timeout(CATCHING_UP / 100);
        }
    }

    /// Sends a frame that is none of the probes, and says whether it arrived in another zone within this time. Of a segment all numbers are
    /// those that are given.
    ///
    /// # Errors
    /// As of [`Patrol::new`].
    pub fn passes(&self, probe: &ProbeFrame, limit: Duration) -> Result<bool, TrafficError> {
        let port = port_of(&self.ports, probe.from)?;
        let mut random = SplitMix64::new(secret()?);
        let made = made(probe, port, &self.looks, None, None, &mut random);
        let (frames, key) = made.map_err(TrafficError::system("making a probe"))?;
        let socket = packet_socket::sender(port, BUFFER_BYTES)?;
        for frame in &frames {
            write(&socket, frame)
                .map_err(io::Error::from)
                .map_err(TrafficError::system("sending a probe"))?;
        }
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
    looks: Looks,
    mark: Option<u16>,
    book: Arc<Book>,
    random: SplitMix64,
}

impl Round {
    fn walk(&mut self, every: Duration, stop: &AtomicBool) -> io::Result<Sent> {
        let mut sent = Sent::default();
        let mut order: Vec<usize> = (0..self.probes.len()).collect();
        while !order.is_empty() {
            // Every kind comes before one comes again.
            for round in order.chunks_mut(self.kinds) {
                self.random.shuffle(round);
            }
            for round in order.chunks(self.kinds) {
                let mut odd = vec![Odd::Again, Odd::Fragments, Odd::Options];
                for which in round {
                    let probe = self.drawn(*which);
                    let form = self.form(*which, &probe, &mut odd);
                    for _ in 0..if form == Some(Odd::Again) { 2 } else { 1 } {
                        if stop.load(Ordering::Relaxed) {
                            return Ok(sent);
                        }
                        self.send(*which, &probe, form, &mut sent)?;
                        // At no regular distance: half of it to one and a half.
                        let share = 500 + self.random.below(1000);
                        std::thread::park_timeout(every * share as u32 / 1000);
                    }
                }
            }
        }
        Ok(sent)
    }

    /// A probe with ports and numbers of its own.
    fn drawn(&mut self, which: usize) -> ProbeFrame {
        let PatrolProbe { frame: mut probe, source_ports, destination_ports, .. } =
            self.probes[which].clone();
        let mut drawn = |ports: RangeInclusive<u16>| {
            ports.start() + self.random.below(u64::from(ports.end() - ports.start()) + 1) as u16
        };
        (probe.source_port, probe.destination_port) = (drawn(source_ports), drawn(destination_ports));
        if let Transport::Tcp { sequence, acknowledgement, .. } = &mut probe.transport {
            *sequence = self.random.next() as u32;
            if *acknowledgement != 0 {
                *acknowledgement = self.random.next() as u32;
            }
        }
        probe
    }

    /// What is odd about a frame, of what has not been in its round yet.
    fn form(&self, which: usize, probe: &ProbeFrame, odd: &mut Vec<Odd>) -> Option<Odd> {
        let fits = |form: &Odd| *form != Odd::Fragments || probe.transport == Transport::Udp;
        let at = odd.iter().position(fits).filter(|_| self.probes[which].has_any_form)?;
        Some(odd.remove(at))
    }

    fn send(
        &mut self,
        which: usize,
        probe: &ProbeFrame,
        form: Option<Odd>,
        sent: &mut Sent,
    ) -> io::Result<()> {
        let Some((port, socket)) = self.senders.iter().find(|(port, _)| port.zone == probe.from) else {
            return Ok(());
        };
        let (frames, key) = made(probe, port, &self.looks, self.mark, form, &mut self.random)?;
        locked(&self.book.sent).insert(key, which);
        sent.places.push(which);
        sent.frames[0] += u64::from(matches!(form, None | Some(Odd::Again)));
        sent.frames[1] += frames.len() as u64;
        for frame in frames {
            match write(socket, &frame) {
                // A full link loses it, as it loses any other frame.
                Ok(_) | Err(Errno::ENOBUFS) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// What is odd about a frame: what a firewall may look at less than at others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Odd {
    /// It comes twice between the same ends.
    Again,
    /// It is in two.
    Fragments,
    /// It has options of IPv4 or IPv6 that say nothing.
    Options,
}

/// A frame or its fragments, and what it is known by.
fn made(
    probe: &ProbeFrame,
    port: &Port,
    looks: &Looks,
    mark: Option<u16>,
    form: Option<Odd>,
    random: &mut SplitMix64,
) -> io::Result<(Vec<Vec<u8>>, Key)> {
    let ip = if probe.source.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
    let mut data = match probe.transport {
        Transport::Udp => looks.data(ip, mark, random),
        Transport::Echo => looks.data(ip, None, random),
        Transport::Tcp { .. } => Vec::new(),
    };
    let drawn = match (probe.transport, data.get(DRAWN_AT..).and_then(<[u8]>::first_chunk)) {
        (Transport::Tcp { sequence, .. }, _) => sequence,
        (_, bytes) => u32::from_be_bytes(*bytes.unwrap_or(&[0; 4])),
    };
    let mut style = looks.style(probe, random);
    let frames = match form {
        Some(Odd::Fragments) => {
            data.resize_with(data.len().max(FRAGMENTED_BYTES), || random.next() as u8);
            style.identification = random.next() as u16;
            probe.fragments(port, &data, &style)
        }
        _ => {
            style.has_options = form == Some(Odd::Options);
            if style.has_options && data.len() > STAMP_BYTES {
                // A larger header leaves less room.
                data.truncate(data.len().saturating_sub(LONGEST_EXTENSION).max(STAMP_BYTES));
            }
            probe.frame(port, &data, &style).map(|frame| vec![frame])
        }
    };
    let key = Key { protocol: probe.protocol(), destination_port: probe.destination_port, drawn };
    Ok((frames.map_err(io::Error::other)?, key))
}

/// How a socket hands over what it received.
#[derive(Debug, Clone, Copy)]
enum Received {
    Frame,
    /// From the IPv4 header on.
    V4(u8),
    /// From the transport header on.
    V6(u8),
}

#[derive(Debug)]
struct Ear {
    zone: Zone,
    form: Received,
    socket: OwnedFd,
}

fn at_ports(ports: &[Port]) -> Result<Vec<Ear>, TrafficError> {
    let ear = |port: &Port| {
        let socket = packet_socket::receiver(port, BUFFER_BYTES, Duration::ZERO)?;
        Ok(Ear { zone: port.zone, form: Received::Frame, socket })
    };
    ports.iter().map(ear).collect()
}

/// A socket for each protocol at each address.
fn at_hosts(ports: &[Port], hosts: &[(Zone, IpAddr)]) -> Result<Vec<Ear>, TrafficError> {
    let mut ears = Vec::new();
    for &(zone, address) in hosts {
        let namespace = port_of(ports, zone)?.namespace.as_deref();
        let of_icmp = if address.is_ipv4() { PROTOCOL_ICMP } else { PROTOCOL_ICMP_V6 };
        for protocol in [PROTOCOL_UDP, PROTOCOL_TCP, of_icmp] {
            let opened = namespace::inside(namespace, || raw_socket(address, protocol))?;
            let socket = opened.map_err(TrafficError::system(format!("listening at {address}")))?;
            let form = if address.is_ipv4() { Received::V4(protocol) } else { Received::V6(protocol) };
            ears.push(Ear { zone, form, socket });
        }
    }
    Ok(ears)
}

fn raw_socket(address: IpAddr, protocol: u8) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let protocol = match protocol {
        PROTOCOL_UDP => SockProtocol::Udp,
        PROTOCOL_TCP => SockProtocol::Tcp,
        PROTOCOL_ICMP => SockProtocol::Icmp,
        _ => SockProtocol::IcmpV6,
    };
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

fn polled(ears: &[Ear]) -> Vec<PollFd<'_>> {
    ears.iter().map(|ear| PollFd::new(ear.socket.as_fd(), PollFlags::POLLIN)).collect()
}

/// Enters whatever arrives into the book, until its owner hangs up.
fn receive(ears: &[Ear], hung_up: &PipeReader, book: &Book) -> io::Result<()> {
    let mut bytes = [0u8; 2048];
    loop {
        let mut waiting = polled(ears);
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

fn key_of(form: Received, bytes: &[u8]) -> Option<Key> {
    let two = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let (protocol, transport) = match form {
        Received::Frame => match two(12)? {
            0x0800 => (*bytes.get(23)?, 14 + usize::from(bytes.get(14)? & 15) * 4),
            0x86dd => match *bytes.get(20)? {
                FRAGMENT | DESTINATION_OPTIONS => (*bytes.get(54)?, 62),
                protocol => (protocol, 54),
            },
            _ => return None,
        },
        Received::V4(protocol) => (protocol, usize::from(bytes.first()? & 15) * 4),
        Received::V6(protocol) => (protocol, 0),
    };
    let (port_at, drawn_at) = match (protocol, *bytes.get(transport)?) {
        (PROTOCOL_UDP, _) => (transport + 2, transport + UDP_BYTES + DRAWN_AT),
        (PROTOCOL_TCP, _) => (transport + 2, transport + 4),
        // Both headers have eight bytes.
        (PROTOCOL_ICMP, ECHO) | (PROTOCOL_ICMP_V6, ECHO_V6) => {
            (transport + 6, transport + UDP_BYTES + DRAWN_AT)
        }
        _ => return None,
    };
    let drawn = bytes.get(drawn_at..)?.first_chunk::<4>()?;
    Some(Key { protocol, destination_port: two(port_at)?, drawn: u32::from_be_bytes(*drawn) })
}

#[cfg(test)]
mod tests {
    use super::super::probe;
    use super::*;

    #[test]
    fn frames_are_known_by_what_was_drawn_however_they_are_received() {
        let mut random = SplitMix64::new(7);
        let looks = Looks::of_connections();
        for (port, probe) in probe::tests::of_both_versions() {
            for form in [None, Some(Odd::Again), Some(Odd::Options), Some(Odd::Fragments)] {
                if form == Some(Odd::Fragments) && probe.transport != Transport::Udp {
                    continue;
                }
                let (frames, key) = made(&probe, &port, &looks, Some(7), form, &mut random).unwrap();
                assert_eq!(frames.len(), if form == Some(Odd::Fragments) { 2 } else { 1 });
                let frame = &frames[0];
                assert_eq!(key_of(Received::Frame, frame), Some(key), "{probe:?} {form:?}");
                let (received, packet) = match (probe.source, form) {
                    (IpAddr::V4(_), _) => (Received::V4(key.protocol), &frame[14..]),
                    (IpAddr::V6(_), None | Some(Odd::Again)) => (Received::V6(key.protocol), &frame[54..]),
                    // What the kernel hands over has no other headers any more.
                    (IpAddr::V6(_), _) => (Received::V6(key.protocol), &frame[62..]),
                };
                assert_eq!(key_of(received, packet), Some(key), "{probe:?} {form:?}");
                assert_eq!(key_of(Received::Frame, &frame[..36]), None, "cut off");
            }
        }
    }
}
