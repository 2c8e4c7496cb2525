//! The firewall between two zones in a namespace, run on single packets by `BPF_PROG_TEST_RUN`.
//!
//! ```text
//!    inside 198.18.1.1/24, 2001:2:0:1::1/64    in0 | out0    outside 198.18.2.1/24, 2001:2:0:2::1/64
//!    .2 is a neighbour                                       .2 is a neighbour, 198.51.100.0/24 is behind it
//! ```
#![allow(dead_code, clippy::unwrap_used, reason = "a test fails by panicking; each user takes a part")]

use dataplane::{Filter, Firewall, Flow, Hook, Place, Reason, Settings, Tally, TestRun, Verdict};
use policy::address::AddressSet;
use policy::lists::ListTable;
use policy::{Policy, Tables};
use std::sync::Arc;
use std::time::Duration;
use testkit::namespace::Namespace;
use testkit::packet::FIREWALL;

/// Which interface a packet comes in by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    In,
    Out,
}

pub(crate) struct Bed {
    namespace: Arc<Namespace>,
    firewall: Option<Firewall>,
    hook: Hook,
    indices: [u32; 2],
    /// What the programs' clock says. It moves by [`Bed::pass`] alone.
    now: Duration,
}

impl Side {
    /// The Ethernet address of its interface.
    pub(crate) fn link_address(self) -> [u8; 6] {
        [2, 0, 0, 0, self as u8 + 1, 1]
    }

    /// A frame of rows is for [`testkit::packet::FIREWALL`]; this is the same for the interface that it comes in by.
    pub(crate) fn addressed(self, frame: &[u8]) -> Vec<u8> {
        let mut frame = frame.to_vec();
        if let Some(to) = frame.get_mut(..6).filter(|to| **to == FIREWALL) {
            to.copy_from_slice(&self.link_address());
        }
        frame
    }
}

/// Which clock the programs read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// One that stands still until the test moves it.
    Held,
    /// The kernel's clocks, where their cost is measured.
    Kernel,
}

/// What a held clock says at first.
const START: Duration = Duration::from_secs(1_000);

/// How XDP marks what it hands to the program beside it.
const MARK: [u32; 2] = [0x7702, 0x0102_0304];

/// What became of a packet: where it went, or why it was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was forwarded, or answered.
    Sent,
    /// It went up to the kernel.
    Up,
    /// It went to the kernel, which forwards it in fragments.
    Cut,
    /// It waits in user space for the first fragment of its datagram.
    Kept,
    /// It was dropped, and nothing was said.
    Dropped(Reason),
    /// It was dropped, and answered.
    Answered(Reason),
}

impl Fate {
    /// `pass`, `up`, `cut`, `kept`, or the reason's name, with `!` when it was answered.
    pub(crate) fn words(self) -> String {
        match self {
            Fate::Sent => "pass".to_owned(),
            Fate::Up => "up".to_owned(),
            Fate::Cut => "cut".to_owned(),
            Fate::Kept => "kept".to_owned(),
            Fate::Dropped(reason) => reason.name().to_owned(),
            Fate::Answered(reason) => format!("{}!", reason.name()),
        }
    }
}

pub(crate) const POLICY: &str = r#"
[zones]
inside = { interfaces = "in0", networks = ["198.18.1.0/24", "2001:2:0:1::/64"] }
outside = { interfaces = "out0" }

[[rules]]
name = "out"
from = "inside"
to = "outside"
action = "allow"

[[rules]]
name = "rejected"
from = "outside"
to = "inside"
service = "tcp/7"
action = "reject"

[[rules]]
name = "web"
from = "outside"
to = "inside"
service = ["tcp/80", "udp/53", "ping"]
action = "allow"

[[rules]]
name = "ssh"
from = "inside"
to = "self"
service = "tcp/22"
action = "allow"
"#;

/// What is on the lists of a policy that have no files.
pub(crate) fn contents(policy: &Policy) -> Vec<AddressSet> {
    policy.lists.iter().map(|list| list.contents(AddressSet::default())).collect()
}

/// Puts a policy into force in a firewall as it is at a time.
pub(crate) fn apply_to(firewall: &mut Firewall, text: &str, at: jiff::Timestamp) {
    let policy = Policy::parse("bed", text).unwrap_or_else(|problems| panic!("{problems}"));
    let tables = Tables::build(&policy, at).unwrap();
    let lists = contents(&policy);
    let lists = ListTable::build(&lists.iter().collect::<Vec<_>>()).unwrap();
    firewall.policies.apply_with(&tables, &policy, Some(&lists)).unwrap();
    firewall.ports.set_bridges(&policy.bridges).unwrap();
}

/// The firewall's two links, and whom it knows behind them.
pub(crate) const ENDS: &str = "link set in0 mtu 2000 up
link set out0 mtu 2000 up
address add 198.18.1.1/24 dev in0
address add 198.18.2.1/24 dev out0
address add 2001:2:0:1::1/64 dev in0 nodad
address add 2001:2:0:2::1/64 dev out0 nodad
neighbour add 198.18.1.2 lladdr 02:00:00:00:01:02 dev in0
neighbour add 198.18.2.2 lladdr 02:00:00:00:02:02 dev out0
neighbour add 2001:2:0:1::2 lladdr 02:00:00:00:01:02 dev in0
neighbour add 2001:2:0:2::2 lladdr 02:00:00:00:02:02 dev out0
route add 198.51.100.0/24 via 198.18.2.2";

impl Bed {
    pub(crate) fn new(hook: Hook) -> Self {
        Self::with(hook, &Settings { flows: 4096, rules: 1024 }, POLICY)
    }

    pub(crate) fn with(hook: Hook, settings: &Settings, policy: &str) -> Self {
        Self::with_clock(Clock::Held, hook, settings, policy)
    }

    pub(crate) fn with_clock(clock: Clock, hook: Hook, settings: &Settings, policy: &str) -> Self {
        let namespace = Arc::new(Namespace::create("bed"));
        namespace.set(&[("ipv4/conf/lo/forwarding", "1"), ("ipv6/conf/lo/forwarding", "1")]);
        namespace.ip(&format!(
            "link add in0 address 02:00:00:00:01:01 type veth peer name far0
             link add out0 address 02:00:00:00:02:01 type veth peer name far1
             link set far0 up
             link set far1 up
             {ENDS}"
        ));
        let indices = [namespace.ifindex("in0"), namespace.ifindex("out0")];
        let firewall = namespace.within(|| {
            let firewall = match clock {
                Clock::Held => Firewall::load_with_held_clock(settings, &[hook]),
                Clock::Kernel => Firewall::load_for(settings, &[hook]),
            };
            let mut firewall = firewall.unwrap();
            firewall.set_clock(START);
            firewall.set_mark(MARK).unwrap();
            for (interface, zone) in [("in0", "inside"), ("out0", "outside")] {
                assert_eq!(firewall.ports.attach(interface, zone, hook).unwrap().note, None);
            }
            for address in ["198.18.1.1", "198.18.2.1", "2001:2:0:1::1", "2001:2:0:2::1"] {
                firewall.add_local_address(address.parse().unwrap()).unwrap();
            }
            for address in ["198.18.1.255", "198.18.2.255"] {
                firewall.add_broadcast_address(address.parse().unwrap()).unwrap();
            }
            for index in indices {
                let (v4, v6) = ("198.18.1.1".parse().unwrap(), "2001:2:0:1::1".parse().unwrap());
                firewall.set_own_addresses(index, v4, v6).unwrap();
            }
            firewall
        });
        let mut bed = Self { namespace, firewall: Some(firewall), hook, indices, now: START };
        bed.apply(policy);
        bed
    }

    pub(crate) fn namespace(&self) -> &Arc<Namespace> {
        &self.namespace
    }

    /// The interfaces, inside's first.
    pub(crate) fn indices(&self) -> [u32; 2] {
        self.indices
    }

    pub(crate) fn hook(&self) -> Hook {
        self.hook
    }

    pub(crate) fn firewall(&self) -> &Firewall {
        self.firewall.as_ref().unwrap()
    }

    pub(crate) fn firewall_mut(&mut self) -> &mut Firewall {
        self.firewall.as_mut().unwrap()
    }

    pub(crate) fn apply(&mut self, text: &str) {
        self.apply_at(text, jiff::Timestamp::UNIX_EPOCH);
    }

    /// Puts a policy into force as it is at a time.
    pub(crate) fn apply_at(&mut self, text: &str, at: jiff::Timestamp) {
        apply_to(self.firewall_mut(), text, at);
    }

    /// Sends a frame in at a side.
    pub(crate) fn send(&mut self, side: Side, frame: &[u8]) -> Fate {
        self.send_and_see(side, frame).0
    }

    pub(crate) fn send_and_see(&mut self, side: Side, frame: &[u8]) -> (Fate, Vec<u8>) {
        self.send_from(Some(side), frame)
    }

    /// From nowhere: in at the loopback interface, which is in no zone.
    pub(crate) fn send_from(&mut self, side: Option<Side>, frame: &[u8]) -> (Fate, Vec<u8>) {
        let index = side.map_or(0, |side| self.indices[side as usize]);
        if let (Hook::Netfilter, Some(side)) = (self.hook, side) {
            return (self.forward(side, frame), vec![]);
        }
        let addressed = side.map_or_else(|| frame.to_vec(), |side| side.addressed(frame));
        self.fate(|firewall, hook| {
            let TestRun { verdict, frame, .. } = firewall.test_run(&addressed, index, hook).unwrap();
            (verdict, frame)
        })
    }

    /// Asks at netfilter as the kernel would that forwards a frame to the other side: it has taken its hop already.
    fn forward(&mut self, side: Side, frame: &[u8]) -> Fate {
        let mut frame = frame.to_vec();
        if frame[12] == 0x86 {
            frame[14 + 7] -= 1;
        } else {
            let header = 14..14 + usize::from(frame[14] & 15) * 4;
            frame[14 + 8] -= 1;
            frame[24..26].fill(0);
            let check = testkit::packet::checksum(&frame[header]);
            frame[24..26].copy_from_slice(&check.to_be_bytes());
        }
        let [inside, outside] = self.indices;
        let interfaces = if side == Side::In { [inside, outside] } else { [outside, inside] };
        match self.ask(Place::Forward, interfaces, &frame) {
            Fate::Up => Fate::Sent,
            fate => fate,
        }
    }

    /// Asks at netfilter about a frame that goes from and to these interfaces.
    pub(crate) fn ask(&mut self, place: Place, interfaces: [u32; 2], frame: &[u8]) -> Fate {
        self.fate(|firewall, _| (firewall.ask_netfilter(frame, place, interfaces).unwrap(), vec![])).0
    }

    /// What the firewall does, and what it counts meanwhile.
    fn fate(&mut self, run: impl FnOnce(&mut Firewall, Hook) -> (Verdict, Vec<u8>)) -> (Fate, Vec<u8>) {
        let before = self.firewall().counters.drops().unwrap();
        let kept = self.tally(Tally::FragmentsKept);
        let (namespace, hook) = (Arc::clone(&self.namespace), self.hook);
        let (verdict, frame) = namespace.within(|| run(self.firewall_mut(), hook));
        let after = self.firewall().counters.drops().unwrap();
        let mut moved = after.iter().filter(|(reason, count)| before[*reason] != **count);
        let dropped = moved.next().map(|(reason, _)| *reason);
        assert_eq!(moved.next(), None, "one packet, one reason");
        let is_kept = self.tally(Tally::FragmentsKept) > kept;
        let fate = match (verdict, dropped) {
            (Verdict::Drop, None) if is_kept => Fate::Kept,
            (Verdict::Sent | Verdict::Up, None) if is_cut(&frame) => Fate::Cut,
            (Verdict::Sent, None) => Fate::Sent,
            (Verdict::Up, None) => Fate::Up,
            (Verdict::Drop, Some(reason)) => Fate::Dropped(reason),
            (Verdict::Sent, Some(reason)) => Fate::Answered(reason),
            other => panic!("a verdict that does not fit its counters: {other:?}"),
        };
        (fate, frame)
    }

    /// Does something to the firewall inside the namespace, with the interface of a side.
    pub(crate) fn within<T>(&self, side: Side, work: impl FnOnce(&Firewall, u32) -> T) -> T {
        self.namespace.within(|| work(self.firewall(), self.indices[side as usize]))
    }

    pub(crate) fn tally(&self, tally: Tally) -> u64 {
        self.firewall().counters.tallies().unwrap()[&tally]
    }

    /// Lets time pass, which it does in no other way.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
        let now = self.now;
        self.firewall_mut().set_clock(now);
    }

    /// What the programs' clock says.
    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    pub(crate) fn flows(&self, filter: &Filter) -> Vec<Flow> {
        self.firewall().flows.matching(filter, self.now).unwrap()
    }

    /// The state of the one flow of a port, `none` when there is none.
    pub(crate) fn state(&self, port: u16) -> &'static str {
        let flows = self.flows(&Filter { port: Some(port), ..Filter::default() });
        assert!(flows.len() < 2, "{flows:?}");
        flows.first().map_or("none", |flow| flow.state.name())
    }
}

/// Whether a frame goes to the loopback interface: from TC at once, from XDP through the program beside it.
fn is_cut(frame: &[u8]) -> bool {
    let handed: Vec<u8> = [MARK[0], MARK[1], 1].into_iter().flat_map(u32::to_ne_bytes).collect();
    frame.starts_with(&[0; 12]) || frame.starts_with(&handed)
}

impl Drop for Bed {
    fn drop(&mut self) {
        // It takes its programs off interfaces that are known by number, so in the namespace where they are.
        let firewall = self.firewall.take();
        self.namespace.within(|| drop(firewall));
    }
}
