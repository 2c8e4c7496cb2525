//! A virtual client: one transaction after the other until the time is over, or, in an open loop, those of one connection that is due;
//! and what became of them.

use super::client::{Arrival, Order, Stop, transact};
use super::content::{File, FileSet};
use super::nstl::{CLIENT_MACHINES, FTP_PER_THOUSAND, HITS_PER_THOUSAND, SERVERS};
use super::run::Load;
use super::seal::Requests;
use super::tls::Identities;
use crate::random::{SplitMix64, mix};
use measure::application::{Failure, FtpMode, FtpTransfer, FtpVerb, Protocol, ProtocolMix, SERVER_NAMES};
use measure::latency::Distribution;
use measure::mix::Turns;
use measure::open_loop::Moments;
use measure::trial::SecondSample;
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::{Duration, Instant};

/// What is read at once.
pub(super) const BUFFER_BYTES: usize = 32 * 1024;
/// Seconds that are kept apart.
const SECOND: f64 = 1.0;

/// What became of the transactions of some virtual clients.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) begun: u64,
    pub(super) failed: BTreeMap<Failure, u64>,
    pub(super) completed: u64,
    pub(super) bytes: u64,
    /// Completed before the load ended.
    pub(super) in_time: u64,
    pub(super) bytes_in_time: u64,
    pub(super) times: Distribution,
    /// To the first and to the last byte of the answer, where they were seen.
    pub(super) first_byte: Distribution,
    pub(super) last_byte: Distribution,
    /// Begun and completed in each second of load.
    pub(super) per_second: Vec<(u64, u64)>,
    /// Of an open loop alone.
    pub(super) open: OpenTally,
    /// Of connections that are held alone.
    pub(super) held: HeldTally,
    /// The same of each part of a mix.
    pub(super) parts: Vec<Tally>,
}

/// What became of connections that are held.
#[derive(Debug, Default)]
pub(super) struct HeldTally {
    /// Whose first transaction completed.
    pub(super) opened: u64,
    /// All of whose transactions completed.
    pub(super) alive: u64,
}

/// What became of the connections of an open loop.
#[derive(Debug, Default)]
pub(super) struct OpenTally {
    /// Transactions of connections that were due and not made.
    pub(super) left_out: u64,
    pub(super) moments: Moments,
    /// From the intended start of a connection to its end.
    pub(super) connections: Distribution,
    /// To the first and to the last byte of answers over connections that were due in the sustained load.
    pub(super) first_byte: Distribution,
    pub(super) last_byte: Distribution,
}

impl OpenTally {
    fn add(&mut self, other: &Self) {
        self.left_out += other.left_out;
        self.moments.add(&other.moments);
        self.connections.merge(&other.connections);
        self.first_byte.merge(&other.first_byte);
        self.last_byte.merge(&other.last_byte);
    }

    fn complete(&mut self, at_seconds: f64, is_sustained: bool, took: Took, bytes: usize) {
        self.moments.transact(at_seconds, bytes as u64);
        if is_sustained {
            took.first_byte.into_iter().for_each(|took| self.first_byte.add(nanos(took), 1));
            took.last_byte.into_iter().for_each(|took| self.last_byte.add(nanos(took), 1));
        }
    }

    fn end(&mut self, at_seconds: f64, took: Duration, is_whole: bool) {
        self.moments.end(at_seconds, is_whole);
        if is_whole {
            self.connections.add(nanos(took), 1);
        }
    }
}

fn nanos(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        self.begun += other.begun;
        self.completed += other.completed;
        self.bytes += other.bytes;
        self.in_time += other.in_time;
        self.bytes_in_time += other.bytes_in_time;
        self.times.merge(&other.times);
        self.first_byte.merge(&other.first_byte);
        self.last_byte.merge(&other.last_byte);
        self.open.add(&other.open);
        self.held.opened += other.held.opened;
        self.held.alive += other.held.alive;
        for (failure, count) in &other.failed {
            *self.failed.entry(*failure).or_default() += count;
        }
        for (place, part) in other.parts.iter().enumerate() {
            self.part(place).add(part);
        }
        for (second, (begun, completed)) in other.per_second.iter().enumerate() {
            let here = self.second(second as f64 * SECOND);
            (here.0, here.1) = (here.0 + begun, here.1 + completed);
        }
    }

    fn part(&mut self, place: usize) -> &mut Tally {
        if self.parts.len() <= place {
            self.parts.resize_with(place + 1, Tally::default);
        }
        &mut self.parts[place]
    }

    /// Does the same to the whole and to the part that it is of.
    fn each(&mut self, part: Option<usize>, act: impl Fn(&mut Tally)) {
        act(self);
        if let Some(place) = part {
            act(self.part(place));
        }
    }

    fn second(&mut self, at_seconds: f64) -> &mut (u64, u64) {
        let number = (at_seconds / SECOND) as usize;
        if self.per_second.len() <= number {
            self.per_second.resize(number + 1, (0, 0));
        }
        &mut self.per_second[number]
    }

    /// The seconds of a load, of which the last may be a part of one.
    pub(super) fn samples(&self, load_seconds: f64) -> Vec<SecondSample> {
        let sample = |(second, &(sent, received)): (usize, &(u64, u64))| SecondSample {
            at_seconds: ((second + 1) as f64 * SECOND).min(load_seconds),
            sent,
            received,
            latency_ns: None,
            connections: None,
        };
        self.per_second.iter().enumerate().map(sample).collect()
    }

    pub(super) fn fail(&mut self, part: Option<usize>, failure: Failure) {
        self.each(part, |tally| *tally.failed.entry(failure).or_default() += 1);
    }

    /// So many transactions that were due and could not be begun.
    pub(super) fn leave_out(&mut self, part: Option<usize>, transactions: u64) {
        self.each(part, |tally| tally.open.left_out += transactions);
    }

    /// A transaction that this machine could not begin after all.
    pub(super) fn take_back(&mut self, part: Option<usize>) {
        self.each(part, |tally| tally.begun -= 1);
    }

    pub(super) fn begin(&mut self, part: Option<usize>, at_seconds: f64) {
        self.each(part, |tally| tally.begun += 1);
        self.second(at_seconds).0 += 1;
    }

    pub(super) fn complete(
        &mut self,
        part: Option<usize>,
        at_seconds: f64,
        load_seconds: f64,
        took: Took,
        bytes: usize,
    ) {
        self.each(part, |tally| tally.add_completed(at_seconds < load_seconds, took, bytes));
        if at_seconds < load_seconds {
            self.second(at_seconds).1 += 1;
        }
    }

    fn add_completed(&mut self, is_in_time: bool, took: Took, bytes: usize) {
        self.completed += 1;
        self.bytes += bytes as u64;
        self.times.add(nanos(took.whole), 1);
        took.first_byte.into_iter().for_each(|took| self.first_byte.add(nanos(took), 1));
        took.last_byte.into_iter().for_each(|took| self.last_byte.add(nanos(took), 1));
        if is_in_time {
            self.in_time += 1;
            self.bytes_in_time += bytes as u64;
        }
    }
}

/// How long a completed transaction took.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Took {
    whole: Duration,
    first_byte: Option<Duration>,
    last_byte: Option<Duration>,
}

impl Took {
    pub(super) fn of(begun: Instant, arrival: Arrival, ended: Instant) -> Self {
        Self {
            whole: ended - begun,
            first_byte: arrival.first.map(|at| at - begun),
            last_byte: arrival.last.map(|at| at - begun),
        }
    }
}

/// What all virtual clients of a thread share.
#[derive(Debug)]
pub(super) struct World {
    /// Addresses of the clients' machines.
    pub(super) machines: Vec<IpAddr>,
    pub(super) servers: Vec<IpAddr>,
    pub(super) files: Arc<FileSet>,
    pub(super) load: Load,
    /// The authority that clients trust; where they speak TLS alone.
    pub(super) identities: Option<Identities>,
    /// Whose turn it is among the parts of a mix, of all threads together.
    pub(super) turns: Arc<Mutex<Turns>>,
    pub(super) requests: Requests,
    /// When the first client of the thread began. A busy machine may run the thread late; it has the whole time of the load from then.
    pub(super) start: OnceCell<Instant>,
    /// Buffers of connections that have ended.
    pub(super) buffers: RefCell<Vec<Vec<u8>>>,
}

impl World {
    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The part of a mix that the next connection is of; `None` where there is no mix.
    pub(super) fn next_part(&self) -> Option<usize> {
        self.turns().next_part()
    }

    /// Transactions of a connection.
    pub(super) fn transactions(&self, part: Option<usize>) -> u32 {
        let stated = self.load.protocol.stated().zip(part);
        stated.map_or(self.load.transactions, |(mix, part)| mix.parts[part].transactions)
    }

    /// What the next transaction of a protocol transfers.
    fn next_file(&self, part: Option<usize>, protocol: Protocol, random: &mut SplitMix64) -> &Arc<File> {
        match part {
            Some(part) => self.files.of_part(part, self.turns().next_file(part)),
            None => self.files.any(protocol, random),
        }
    }
}

/// When a connection of an open loop is due.
#[derive(Debug, Clone, Copy)]
struct Due {
    at: Instant,
    is_sustained: bool,
}

/// A virtual client's number decides its machine, and with the seed what it asks for. In an open loop every connection has its own.
pub(super) struct VirtualClient {
    pub(super) number: u64,
    pub(super) world: Rc<World>,
    /// Of all clients of the thread, so that a run that is ended early has it.
    pub(super) tally: Rc<RefCell<Tally>>,
}

impl VirtualClient {
    /// Works to the end of the load.
    ///
    /// # Errors
    /// This machine cannot make another connection.
    pub(super) async fn work(self) -> io::Result<()> {
        let load = &self.world.load;
        let mut random = self.random();
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut begun = Instant::now();
        let start = *self.world.start.get_or_init(|| begun);
        while (begun - start).as_secs_f64() < load.seconds {
            let part = self.world.next_part();
            begun = self.connect(start, begun, (part, None), &mut random, &mut buffer).await?;
        }
        Ok(())
    }

    /// Makes one connection that is due at a moment, with its transactions.
    ///
    /// # Errors
    /// This machine cannot make another connection.
    pub(super) async fn connect_at(
        self,
        start: Instant,
        part: Option<usize>,
        at: Instant,
        is_sustained: bool,
    ) -> io::Result<()> {
        let kept = self.world.buffers.borrow_mut().pop();
        let mut buffer = kept.unwrap_or_else(|| vec![0; BUFFER_BYTES]);
        let due = Some(Due { at, is_sustained });
        let result = self.connect(start, at, (part, due), &mut self.random(), &mut buffer).await;
        self.world.buffers.borrow_mut().push(buffer);
        result.map(drop)
    }

    pub(super) fn random(&self) -> SplitMix64 {
        SplitMix64::new(mix(self.world.load.seed ^ self.number))
    }

    /// Makes the transactions of one connection, to the first that fails; of a closed loop none begins after the load, but for those of a mix,
    /// whose shares would not come out otherwise. Answers when the last one ended. In an open loop the first one began when it was due,
    /// whatever it had to wait for since.
    async fn connect(
        &self,
        start: Instant,
        mut begun: Instant,
        (part, due): (Option<usize>, Option<Due>),
        random: &mut SplitMix64,
        buffer: &mut [u8],
    ) -> io::Result<Instant> {
        let load = &self.world.load;
        let mut connection = None;
        let mut order = self.next(part, random);
        if due.is_some() {
            let at = (begun - start).as_secs_f64();
            self.tally.borrow_mut().each(part, |tally| tally.open.moments.begin(at));
        }
        for left in (0..self.world.transactions(part)).rev() {
            let at = (begun - start).as_secs_f64();
            if due.is_none() && part.is_none() && at >= load.seconds {
                break;
            }
            order.is_last = left == 0;
            // What a mix begins behind the load counts to its last second.
            let seen = if due.is_none() { at.min(load.seconds * (1.0 - f64::EPSILON)) } else { at };
            self.tally.borrow_mut().begin(part, seen);
            let result = transact(&mut connection, &order, buffer).await;
            let ended = Instant::now();
            let at = (ended - start).as_secs_f64();
            let mut tally = self.tally.borrow_mut();
            match result {
                Ok(arrival) => {
                    let (took, bytes) = (Took::of(begun, arrival, ended), order.file.bytes.len());
                    tally.complete(part, at, load.seconds, took, bytes);
                    if let Some(due) = due {
                        tally.each(part, |tally| tally.open.complete(at, due.is_sustained, took, bytes));
                    }
                }
                Err(Stop::Failed(failure)) => tally.fail(part, failure),
                Err(Stop::Own(error)) => {
                    tally.take_back(part);
                    return Err(error);
                }
            }
            let is_whole = result.is_ok();
            if let Some(due) = due.filter(|_| left == 0 || !is_whole) {
                tally.each(part, |tally| tally.open.end(at, ended - due.at, is_whole));
            }
            begun = ended;
            if !is_whole {
                break;
            }
            if left > 0 {
                order.file = self.world.next_file(part, order.protocol, random);
            }
        }
        Ok(begun)
    }

    /// What to fetch next, from a server as often as the NSTL benchmark has it.
    fn next(&self, part: Option<usize>, random: &mut SplitMix64) -> Order<'_> {
        let machine = (self.number % CLIENT_MACHINES as u64) as usize;
        self.order(part, machine, choose(&HITS_PER_THOUSAND[machine], random), random)
    }

    /// What to fetch next where every machine asks every server as often as another, so that there are ports for all.
    pub(super) fn next_in_turn(&self, random: &mut SplitMix64) -> Order<'_> {
        let machine = (self.number % CLIENT_MACHINES as u64) as usize;
        let server = (self.number / CLIENT_MACHINES as u64 % SERVERS as u64) as usize;
        self.order(None, machine, server, random)
    }

    fn order(
        &self,
        part: Option<usize>,
        machine: usize,
        server: usize,
        random: &mut SplitMix64,
    ) -> Order<'_> {
        let World { machines, servers, load, identities, requests, .. } = &*self.world;
        let protocol = protocol_of(&load.protocol, part, server, random);
        let port = match protocol {
            Protocol::Http10 | Protocol::Http11 => load.http_port,
            Protocol::Https | Protocol::Http2 => load.https_port,
            Protocol::Ftp(_) => load.ftp_port,
        };
        Order {
            from: machines[machine % machines.len()],
            to: SocketAddr::new(servers[server % servers.len()], port),
            host: SERVER_NAMES[server],
            file: self.world.next_file(part, protocol, random),
            protocol,
            limit: load.transaction_limit,
            tls: identities.as_ref().and_then(|identities| identities.connector(protocol)),
            requests: matches!(protocol, Protocol::Http10 | Protocol::Http11).then_some(requests),
            is_last: true,
        }
    }
}

/// What a transaction with a server speaks.
fn protocol_of(mix: &ProtocolMix, part: Option<usize>, server: usize, random: &mut SplitMix64) -> Protocol {
    match mix {
        ProtocolMix::Only(protocol) => *protocol,
        // Every connection of such a mix has its part.
        ProtocolMix::Stated(mix) => mix.parts[part.unwrap_or(0)].protocol,
        ProtocolMix::Nstl if random.below(1000) < u64::from(FTP_PER_THOUSAND[server]) => {
            Protocol::Ftp(FtpTransfer { mode: FtpMode::Passive, verb: FtpVerb::Get })
        }
        ProtocolMix::Nstl => Protocol::Http10,
    }
}

/// One of the servers, each as often as its share.
fn choose(per_thousand: &[u16; SERVERS], random: &mut SplitMix64) -> usize {
    let mut at = random.below(1000);
    for (server, share) in per_thousand.iter().enumerate() {
        match at.checked_sub(u64::from(*share)) {
            Some(rest) => at = rest,
            None => return server,
        }
    }
    SERVERS - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_is_chosen_as_often_as_the_report_says() {
        for (machine, shares) in HITS_PER_THOUSAND.iter().enumerate() {
            assert_eq!(shares.iter().sum::<u16>(), 1000, "client{:02}", machine + 1);
            let mut random = SplitMix64::new(machine as u64);
            let mut hits = [0u32; SERVERS];
            for _ in 0..100_000 {
                hits[choose(shares, &mut random)] += 1;
            }
            check(&hits, shares);
        }
        let mut random = SplitMix64::new(1);
        let mut ftp = [0; SERVERS];
        for (server, count) in ftp.iter_mut().enumerate() {
            let is_ftp =
                |_: &u32| protocol_of(&ProtocolMix::Nstl, None, server, &mut random) != Protocol::Http10;
            *count = (0..100_000).filter(is_ftp).count() as u32;
        }
        check(&ftp, &FTP_PER_THOUSAND);
    }

    /// Of 100,000; six times the spread of the square root. The seed decides, so it is the same every time.
    fn check(counts: &[u32; SERVERS], per_thousand: &[u16; SERVERS]) {
        for (count, share) in counts.iter().zip(per_thousand) {
            let expected = f64::from(*share) * 100.0;
            assert!((f64::from(*count) - expected).abs() < 6.0 * expected.sqrt(), "{count} of {expected}");
        }
    }

    #[test]
    fn tallies_are_added_and_keep_their_seconds() {
        let mut tally = Tally::default();
        tally.begin(None, 0.1);
        tally.begin(None, 2.9);
        let took = |ms| Took { whole: Duration::from_millis(ms), ..Took::default() };
        tally.complete(None, 2.95, 3.0, took(50), 100);
        tally.complete(None, 3.1, 3.0, took(3000), 1000);
        let mut sum = Tally::default();
        sum.add(&tally);
        sum.add(&tally);
        assert_eq!((sum.begun, sum.completed, sum.in_time), (4, 4, 2));
        assert_eq!((sum.bytes, sum.bytes_in_time), (2200, 200));
        assert_eq!(sum.per_second, [(2, 0), (0, 0), (2, 2)]);
        assert_eq!(sum.times.count(), 4);
    }
}
