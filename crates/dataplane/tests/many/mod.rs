//! Millions of flows through the programs, from two threads on two cores: short ones that use ports again, ends that race for
//! the same flow, and resets that close nothing. Shared by tests, with small counts, and by the example `short_flows`, with as
//! many as one likes.
//!
//! Whatever is done, nothing may be lost: [`account`] holds what was counted against what is in the table.
#![allow(dead_code, reason = "each user takes a part")]

pub(crate) mod aliases;
pub(crate) mod races;
pub(crate) mod resets;
pub(crate) mod short;

use crate::bed::{Bed, Side};
use dataplane::{Filter, Hook, Reason, Settings, Tally, Tester, Verdict};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use testkit::packet::{Frame, Tcp, complete, udp};

/// Everything may open flows; UDP is forgotten soon.
const POLICY: &str = r#"
[settings.timeouts]
udp = "5s"

[zones]
inside = { interfaces = "in0" }
outside = { interfaces = "out0" }

[[rules]]
name = "all"
from = "any"
to = "any"
action = "allow"
"#;

/// Workers, each on a core of its own where there are as many.
pub(crate) const WORKERS: usize = 2;
/// As long as any flow of a closed connection, or of UDP, is remembered.
const CLOSED: Duration = Duration::from_secs(300);
const SERVER: &str = "198.18.2.2";

/// The client of a worker, by which its flows are distinguished.
fn client(worker: usize) -> String {
    format!("198.18.1.{}", 10 + worker)
}

pub(crate) fn bed(flows: u32) -> Bed {
    bed_under(POLICY, flows)
}

/// A bed that knows the workers' clients as neighbours.
fn bed_under(policy: &str, flows: u32) -> Bed {
    let bed = Bed::with(Hook::Xdp, &Settings { flows, rules: 64 }, policy);
    for worker in 0..WORKERS {
        bed.namespace().ip(&format!("neighbour add {} lladdr 02:00:00:00:01:02 dev in0", client(worker)));
    }
    bed.firewall().forget_routes().unwrap();
    bed
}

/// A thread that sends: the programs, and frames whose numbers are changed in place.
pub(crate) struct Worker {
    tester: Tester,
    hook: Hook,
    indices: [u32; 2],
    /// The client's and the server's.
    addresses: [IpAddr; 2],
    tcp: [Vec<u8>; 2],
    udp: [Vec<u8>; 2],
    /// Packets that were sent.
    pub(crate) packets: u64,
    /// What went wrong first. Nobody panics while others wait for him.
    pub(crate) fault: Option<String>,
}

/// Runs `work` on threads of their own inside, with the number of each, and something else meanwhile. Each sends in the name of
/// the client whose number is in its place.
pub(crate) fn with_workers(
    bed: &mut Bed,
    clients: [usize; WORKERS],
    work: impl Fn(&mut Worker, usize) + Sync,
    meanwhile: impl FnOnce(&mut Bed),
) -> Vec<Worker> {
    let namespace = bed.namespace().clone();
    let workers: Vec<Worker> = clients.map(|number| Worker::new(bed, &client(number))).into();
    std::thread::scope(|scope| {
        let start = |(number, mut worker): (usize, Worker)| {
            let (work, namespace) = (&work, &namespace);
            scope.spawn(move || {
                namespace.enter(|| {
                    stay_on(number);
                    work(&mut worker, number);
                    worker
                })
            })
        };
        let threads: Vec<_> = workers.into_iter().enumerate().map(start).collect();
        meanwhile(bed);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Moments at which all workers do something, as close together as it gets.
#[derive(Default)]
pub(crate) struct Moments(AtomicU64);

/// Turns around before a thread lets others have its core.
const SPINS: u32 = 2_000;

impl Moments {
    /// Waits until the others are at the same moment, whose number is one more each time.
    pub(crate) fn now(&self, moment: &mut u64) {
        *moment += 1;
        self.0.fetch_add(1, Ordering::AcqRel);
        let mut turns = 0;
        while self.0.load(Ordering::Acquire) < *moment * WORKERS as u64 {
            turns += 1;
            if turns % SPINS == 0 {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }
}

/// Takes this thread to a core; on a machine that has no such core it stays where it is.
fn stay_on(core: usize) {
    let mut cores = CpuSet::new();
    let _ = cores.set(core).and_then(|()| sched_setaffinity(Pid::from_raw(0), &cores));
}

impl Worker {
    pub(crate) fn new(bed: &Bed, client: &str) -> Self {
        let both = |protocol, payload: Vec<u8>| {
            [(client, SERVER, Side::In), (SERVER, client, Side::Out)].map(|(source, destination, side)| {
                side.addressed(&Frame::new(source, destination, protocol, payload.clone()).bytes())
            })
        };
        Self {
            tester: bed.firewall().tester(),
            hook: bed.hook(),
            indices: bed.indices(),
            addresses: [client, SERVER].map(|address| address.parse().unwrap()),
            tcp: both(6, Tcp { window: 0xffff, ..Tcp::default() }.bytes()),
            udp: both(17, udp((0, 0), 4)),
            packets: 0,
            fault: None,
        }
    }

    fn run(&mut self, side: Side, frame: fn(&Self) -> &[Vec<u8>; 2]) -> Verdict {
        self.packets += 1;
        let run = self.tester.run(&frame(self)[side as usize], self.indices[side as usize], self.hook);
        run.unwrap_or_else(|error| {
            self.note(|| error.to_string());
            Verdict::Drop
        })
    }

    fn note(&mut self, fault: impl FnOnce() -> String) {
        self.fault.get_or_insert_with(fault);
    }

    /// Notes a packet that did not pass.
    pub(crate) fn passes(&mut self, verdict: Verdict, what: &str, port: u16) {
        if verdict != Verdict::Sent {
            let packets = self.packets;
            self.note(|| format!("{what} of port {port}, packet {packets}: {verdict:?}"));
        }
    }

    /// A datagram between the client's port and the server's, from either side.
    pub(crate) fn datagram(&mut self, side: Side, (client, server): (u16, u16)) -> Verdict {
        let (from, to) = if side == Side::In { (client, server) } else { (server, client) };
        let frame = &mut self.udp[side as usize];
        frame[34..36].copy_from_slice(&from.to_be_bytes());
        frame[36..38].copy_from_slice(&to.to_be_bytes());
        self.run(side, |worker| &worker.udp)
    }

    /// A segment between the client's port and the server's port 80, from either side.
    pub(crate) fn segment(&mut self, side: Side, client: u16, flags: u8, sequence: u32, ack: u32) -> Verdict {
        let (from, to) = if side == Side::In { (client, 80u16) } else { (80, client) };
        let [source, destination] = [side as usize, side as usize ^ 1].map(|end| self.addresses[end]);
        let frame = &mut self.tcp[side as usize];
        frame[34..36].copy_from_slice(&from.to_be_bytes());
        frame[36..38].copy_from_slice(&to.to_be_bytes());
        frame[38..42].copy_from_slice(&sequence.to_be_bytes());
        frame[42..46].copy_from_slice(&ack.to_be_bytes());
        frame[47] = flags;
        complete(&mut frame[34..], 6, source, destination);
        self.run(side, |worker| &worker.tcp)
    }
}

/// What was counted, and what is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) opened: u64,
    pub(crate) closed: u64,
    pub(crate) expired: u64,
    pub(crate) killed: u64,
    pub(crate) drops: BTreeMap<Reason, u64>,
    /// Flows in the table that are not over.
    pub(crate) left: u64,
    pub(crate) evicted: u64,
    /// Flows that nobody has answered: handshakes of TCP, and others.
    pub(crate) unfinished: [u32; 2],
}

pub(crate) fn account(bed: &Bed) -> Account {
    let drops =
        bed.firewall().counters.drops().unwrap().into_iter().filter(|(_, count)| *count > 0).collect();
    Account {
        opened: bed.tally(Tally::Opened),
        closed: bed.tally(Tally::Closed),
        expired: bed.tally(Tally::Expired),
        killed: bed.tally(Tally::Killed),
        drops,
        left: bed.flows(&Filter::default()).len() as u64,
        evicted: bed.tally(Tally::Evicted),
        unfinished: [bed.firewall().flows.half_open(), bed.firewall().flows.unanswered()],
    }
}

/// Lets everything expire but what is open for long, and holds the counters against the table: no flow is gone that was not
/// counted, none counted that is not gone, and each record is there to be used, once.
pub(crate) fn settle(bed: &mut Bed, flows: u32, open: u64) -> Account {
    bed.pass(CLOSED);
    bed.firewall().flows.sweep().unwrap();
    let account = account(bed);
    let over = account.closed + account.expired + account.evicted + account.killed;
    assert_eq!((account.opened - over, account.left), (open, open), "{account:?}");
    assert_eq!(account.unfinished, [0, 0], "{account:?}");
    // No record was lost if as many flows fit as there are records, and none given back twice if they are as many flows.
    let room = flows - open as u32;
    // From many sources, because none gets all of the table.
    let fits = |bed: &mut Bed, n: u32| {
        let ports = (20_000 + (n / 20_000) as u16, (n % 20_000) as u16);
        let source = format!("198.18.1.{}", 100 + n % 50);
        bed.send(Side::In, &Frame::new(&source, SERVER, 17, udp(ports, 4)).bytes()).words()
    };
    for n in 0..room {
        assert_eq!(fits(bed, n), "pass", "record {n} of {room} is lost");
    }
    assert_eq!(fits(bed, room), "table-full", "there is a record too many");
    assert_eq!(bed.flows(&Filter::default()).len() as u32, flows, "two flows have the same record");
    account
}
