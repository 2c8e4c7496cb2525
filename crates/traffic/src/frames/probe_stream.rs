//! A stream of probe frames beside a trial: the same few probes over and over, each with a source port of its own, so that
//! a firewall which remembers connections judges every one of them anew. Tells which arrived, and when each was sent.
//!
//! Sent and received through packet sockets: a few thousand frames a second, while the programs at the ports belong to
//! client and server, which leave to the kernel what is not theirs.

use super::probe::{ProbeFrame, read_tag};
use crate::{Clock, Port, TrafficError, packet_socket};
use nix::unistd::{read, write};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Rounds before source ports and tags come again: a minute at a round a millisecond.
pub const MOST_ROUNDS: usize = 60_000;
/// How long a reader waits before it looks whether it is to end.
const PATIENCE: Duration = Duration::from_millis(20);
/// Late frames are awaited this long after the last was sent.
const SETTLE: Duration = Duration::from_millis(100);
const BUFFER_BYTES: usize = 4 << 20;
/// Source ports of a probe begin here, so that none is a service's.
const FIRST_SOURCE_PORT: usize = 2_000;

/// One probe that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamedProbe {
    /// Which of the probes, by its place in the list.
    pub which: usize,
    /// When it was sent: the monotonic clock, ns.
    pub sent_ns: u64,
    /// Whether it arrived.
    pub arrived: bool,
}

/// The kind and the round of a probe that arrived.
type Tag = (u8, u16);

/// A stream under way. Stops when dropped.
#[derive(Debug)]
pub struct ProbeStream {
    stop: Arc<AtomicBool>,
    /// Set when the last probe has been sent.
    sent_all: Arc<AtomicBool>,
    sender: Option<JoinHandle<io::Result<Vec<u64>>>>,
    receiver: Option<JoinHandle<io::Result<Vec<Tag>>>>,
    kinds: usize,
}

impl ProbeStream {
    /// Starts to send all of `probes` every `every`, from `from` to `to`, until [`finish`](Self::finish) or
    /// [`MOST_ROUNDS`].
    ///
    /// # Errors
    /// More than 255 probes, two IP versions in one, or no packet socket.
    pub fn start(
        from: &Port,
        to: &Port,
        probes: &[ProbeFrame],
        every: Duration,
    ) -> Result<Self, TrafficError> {
        if probes.is_empty() || probes.len() > 255 {
            return Err(TrafficError::Impossible(format!("a stream of {} probes: 1 to 255", probes.len())));
        }
        for probe in probes {
            probe.bytes(from, 0, 0)?;
        }
        let (stop, sent_all) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let out = packet_socket::sender(from, BUFFER_BYTES)?;
        let inward = packet_socket::receiver(to, BUFFER_BYTES, PATIENCE)?;
        let receiver = {
            let sent_all = Arc::clone(&sent_all);
            std::thread::spawn(move || receive(&inward, &sent_all))
        };
        let sender = {
            let (stop, from, probes) = (Arc::clone(&stop), from.clone(), probes.to_vec());
            std::thread::spawn(move || send(&out, &from, &probes, every, &stop))
        };
        Ok(Self { stop, sent_all, sender: Some(sender), receiver: Some(receiver), kinds: probes.len() })
    }

    /// Stops, and tells of every probe in the order in which they were sent.
    ///
    /// # Errors
    /// A socket failed meanwhile.
    pub fn finish(mut self) -> Result<Vec<StreamedProbe>, TrafficError> {
        self.stop.store(true, Ordering::Relaxed);
        let sent = join(self.sender.take(), "sending probes")?;
        self.sent_all.store(true, Ordering::Relaxed);
        let arrived = join(self.receiver.take(), "receiving probes")?;
        let mut probes: Vec<StreamedProbe> = Vec::with_capacity(sent.len() * self.kinds);
        for sent_ns in sent {
            probes.extend((0..self.kinds).map(|which| StreamedProbe { which, sent_ns, arrived: false }));
        }
        for (which, round) in arrived {
            let place = usize::from(round) * self.kinds + usize::from(which);
            if let Some(probe) = probes.get_mut(place).filter(|_| usize::from(which) < self.kinds) {
                probe.arrived = true;
            }
        }
        Ok(probes)
    }
}

impl Drop for ProbeStream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A thread that panicked has nothing to tell a stream that nobody reads.
        if let Some(thread) = self.sender.take() {
            let _ = thread.join();
        }
        self.sent_all.store(true, Ordering::Relaxed);
        if let Some(thread) = self.receiver.take() {
            let _ = thread.join();
        }
    }
}

fn join<T>(thread: Option<JoinHandle<io::Result<T>>>, doing: &str) -> Result<T, TrafficError> {
    let ended = thread.map(JoinHandle::join);
    match ended {
        Some(Ok(result)) => result.map_err(TrafficError::system(doing.to_owned())),
        _ => Err(TrafficError::Impossible(format!("the thread {doing} is gone"))),
    }
}

/// When each round was sent.
fn send(
    out: &OwnedFd,
    from: &Port,
    probes: &[ProbeFrame],
    every: Duration,
    stop: &AtomicBool,
) -> io::Result<Vec<u64>> {
    let mut sent = Vec::new();
    let start_ns = Clock::now_ns();
    while sent.len() < MOST_ROUNDS && !stop.load(Ordering::Relaxed) {
        let round = sent.len();
        sent.push(Clock::now_ns());
        for (which, probe) in probes.iter().enumerate() {
            let mut probe = probe.clone();
            probe.source_port = (FIRST_SOURCE_PORT + round) as u16;
            let frame = probe.bytes(from, which as u8, round as u16).map_err(io::Error::other)?;
            match write(out, &frame) {
                // A full link loses it, as it loses any other frame.
                Ok(_) | Err(nix::errno::Errno::ENOBUFS) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let due_ns = start_ns + (round as u64 + 1) * every.as_nanos() as u64;
        std::thread::sleep(Duration::from_nanos(due_ns.saturating_sub(Clock::now_ns())));
    }
    Ok(sent)
}

/// The tags of what arrived, until everything was sent and a while after.
fn receive(inward: &OwnedFd, sent_all: &AtomicBool) -> io::Result<Vec<Tag>> {
    let mut tags = Vec::new();
    let mut frame = [0u8; 2048];
    let mut ended_ns = None;
    while ended_ns.is_none_or(|ended| Clock::now_ns() < ended + SETTLE.as_nanos() as u64) {
        if ended_ns.is_none() && sent_all.load(Ordering::Relaxed) {
            ended_ns = Some(Clock::now_ns());
        }
        match read(inward, &mut frame) {
            Ok(length) => tags.extend(read_tag(&frame[..length])),
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(tags)
}
