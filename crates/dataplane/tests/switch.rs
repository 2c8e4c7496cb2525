//! Bridges of more than two interfaces: real frames at four interfaces, at both hooks, and where each arrives. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use dataplane::{Filter, Firewall, Hook, Reason, Settings, Tally};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, socket};
use nix::unistd::Pid;
use policy::{Policy, Tables};
use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::time::Duration;
use testkit::namespace::Namespace;
use testkit::packet::frame;

/// Interfaces of the bridge, p0 to p3, of which two are of one zone, and two of another bridge, p4 to p6.
const POLICY: &str = r#"
[zones]
lan = { interfaces = ["p0", "p1"] }
dmz = { interfaces = "p2" }
guest = { interfaces = "p3" }
far = { interfaces = ["p4", "p5", "p6"] }

[bridges.office]
interfaces = ["p0", "p1", "p2", "p3"]
vlans = [10, 20]

[bridges.far]
interfaces = ["p4", "p5", "p6"]

[[rules]]
name = "lan"
from = "lan"
to = "lan"
action = "allow"

[[rules]]
name = "served"
from = "lan"
to = "dmz"
service = ["tcp/80", "udp/53", "udp/5353", "ping"]
action = "allow"

[[rules]]
name = "refused"
from = ["lan", "dmz"]
to = "guest"
action = "reject"

[[rules]]
name = "back"
from = "dmz"
to = "dmz"
action = "allow"

[[rules]]
name = "guests"
from = "guest"
to = "lan"
service = "udp/53"
action = "allow"

[[rules]]
name = "far"
from = "far"
to = "far"
action = "allow"
"#;

const OFFICE: [usize; 4] = [0, 1, 2, 3];
const FAR: [usize; 3] = [4, 5, 6];
const START: Duration = Duration::from_secs(100_000);
/// How long a frame that is on its way is waited for, in milliseconds, on a machine on which much else goes on.
const PATIENCE: u16 = 20_000;
const EVERYBODY: [u8; 6] = [0xff; 6];

struct Switch {
    fw: Namespace,
    _far: Vec<Namespace>,
    listeners: Vec<OwnedFd>,
    indices: Vec<u32>,
    firewall: Option<Firewall>,
    hook: Hook,
    now: Duration,
    /// Frames so far that say that all before them have arrived.
    marks: u32,
    /// An interface that is not attached.
    gone: Option<usize>,
}

impl Switch {
    fn new(hook: Hook) -> Self {
        // Frames stay in order on one core.
        let cores = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let first = (0..CpuSet::count()).find(|core| cores.is_set(*core).unwrap()).unwrap();
        let mut one = CpuSet::new();
        one.set(first).unwrap();
        let fw = Namespace::create("switch");
        let (mut far, mut listeners) = (vec![], vec![]);
        for at in 0..OFFICE.len() + FAR.len() {
            let end = Namespace::create("end");
            fw.ip(&format!("link add p{at} type veth peer name x netns {}\nlink set p{at} up", end.name()));
            end.ip("link set x up");
            end.take_redirected("x");
            fw.take_redirected(&format!("p{at}"));
            listeners.push(end.enter(|| {
                let (kind, flags) = (SockType::Raw, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC);
                socket(AddressFamily::Packet, kind, flags, SockProtocol::EthAll).unwrap()
            }));
            far.push(end);
        }
        let indices = (0..far.len()).map(|at| fw.ifindex(&format!("p{at}"))).collect();
        sched_setaffinity(Pid::from_raw(0), &one).unwrap();
        let policy = Policy::parse("switch", POLICY).unwrap();
        let tables = Tables::build(&policy, jiff::Timestamp::UNIX_EPOCH).unwrap();
        let settings = Settings { flows: 4096, rules: 1024 };
        let firewall = fw.within(|| {
            let mut firewall = Firewall::load_with_held_clock(&settings, &[Hook::Xdp, Hook::Tc]).unwrap();
            firewall.set_clock(START);
            for zone in &policy.zones {
                for interface in zone.named_interfaces() {
                    assert_eq!(firewall.ports.attach(interface, &zone.name, hook).unwrap().note, None);
                }
            }
            firewall.policies.apply_with(&tables, &policy, None).unwrap();
            firewall.ports.set_bridges(&policy.bridges).unwrap();
            firewall
        });
        Self {
            fw,
            _far: far,
            listeners,
            indices,
            firewall: Some(firewall),
            hook,
            now: START,
            marks: 0,
            gone: None,
        }
    }

    fn firewall(&self) -> &Firewall {
        self.firewall.as_ref().unwrap()
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        let now = self.now;
        self.firewall.as_mut().unwrap().set_clock(now);
    }

    fn bring(&self, at: usize, frame: &[u8]) {
        self.fw.within(|| self.firewall().bring(frame, self.indices[at], self.hook)).unwrap();
    }

    fn drops(&self) -> BTreeMap<&'static str, u64> {
        let drops = self.firewall().counters.drops().unwrap();
        drops.into_iter().map(|(reason, count): (Reason, u64)| (reason.name(), count)).collect()
    }

    fn answered(&self) -> u64 {
        self.firewall().counters.tallies().unwrap()[&Tally::Answered]
    }

    /// Has a frame come in at an interface, and says where it arrives, unchanged, and for which reasons it or copies of it are dropped;
    /// with `!` if it is answered.
    fn arrivals(&mut self, at: usize, frame: &[u8]) -> String {
        let (before, answered) = (self.drops(), self.answered());
        self.bring(at, frame);
        let arrived = self.settle(at, frame);
        let reasons: Vec<String> = self
            .drops()
            .iter()
            .filter_map(|(reason, count)| match count - before.get(reason).copied().unwrap_or(0) {
                0 => None,
                1 => Some((*reason).to_owned()),
                times => Some(format!("{times} {reason}")),
            })
            .collect();
        let answer = if self.answered() > answered { "!" } else { "" };
        [arrived.join(" "), format!("{}{answer}", reasons.join(" "))]
            .into_iter()
            .filter(|it| !it.is_empty())
            .collect::<Vec<_>>()
            .join(" | ")
    }

    /// Waits until all that came in at an interface has arrived, and gives the ends at which that frame did.
    fn settle(&mut self, at: usize, frame: &[u8]) -> Vec<String> {
        self.marks += 1;
        self.pass(Duration::from_millis(2));
        let mut mark = [&EVERYBODY[..], &[2, 0xee, 0, 0, 0, at as u8], &[8, 6]].concat();
        mark.extend(self.marks.to_be_bytes());
        mark.resize(60, 0);
        self.bring(at, &mark);
        let bridge: &[usize] = if OFFICE.contains(&at) { &OFFICE } else { &FAR };
        let untagged = [&frame[..12], &frame[16..]].concat();
        let is_it = |seen: &[u8]| seen == frame || (frame[12] == 0x81 && seen == untagged);
        let mut found = vec![];
        let waits_at = |end: usize| end != at && bridge.contains(&end) && self.gone != Some(end);
        // First those at which the mark arrives: what went elsewhere has arrived before.
        let (first, others): (Vec<usize>, Vec<usize>) =
            (0..self.listeners.len()).partition(|end| waits_at(*end));
        for end in first.into_iter().chain(others) {
            let waits = waits_at(end);
            while let Some(seen) = self.receive(end, waits) {
                if seen == mark {
                    assert!(waits, "p{end}: a mark of p{at}");
                    break;
                }
                if is_it(&seen) {
                    found.push(end);
                }
            }
        }
        found.sort_unstable();
        found.iter().map(|end| format!("p{end}")).collect()
    }

    fn receive(&self, end: usize, waits: bool) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 4096];
        let listener = &self.listeners[end];
        if waits {
            let mut wanted = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
            assert_eq!(poll(&mut wanted, PollTimeout::from(PATIENCE)).unwrap(), 1, "p{end}: the mark");
        }
        let bytes = recv(listener.as_raw_fd(), &mut buffer, MsgFlags::empty()).ok()?;
        buffer.truncate(bytes);
        Some(buffer)
    }

    fn flows(&self) -> usize {
        self.firewall().flows.matching(&Filter::default(), self.now).unwrap().len()
    }

    fn check(&mut self, rows: &[(&str, usize, Vec<u8>, &str)]) {
        for (what, at, frame, expected) in rows {
            assert_eq!(self.arrivals(*at, frame), *expected, "{:?}: {what}", self.hook);
        }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let firewall = self.firewall.take();
        self.fw.within(|| drop(firewall));
    }
}

/// The address of a station.
fn mac(name: char) -> [u8; 6] {
    [2, 0xaa, 0, 0, 0, name as u8]
}

/// A packet from one station to another, or to an Ethernet group.
fn packet(from: char, to: [u8; 6], text: &str) -> Vec<u8> {
    let (outer, rest) = text.find(" about").map_or((text, ""), |at| text.split_at(at));
    let mut frame = frame(&format!("{outer} to=02:00:00:00:aa:01{rest}"));
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&mac(from));
    frame
}

/// A frame of another protocol than IP.
fn other(from: char, to: [u8; 6], type_or_length: u16) -> Vec<u8> {
    let mut frame = [&to[..], &mac(from), &type_or_length.to_be_bytes()].concat();
    frame.resize(60, 0x42);
    frame
}

fn frames_go_where_their_stations_are(switch: &mut Switch) {
    let group = [1, 0, 0x5e, 0, 0, 0xfb];
    let group_v6 = [0x33, 0x33, 0, 0, 0, 0xfb];
    let to = |from, name, text: &str| packet(from, mac(name), text);
    let (syn, answer) =
        ("10.0.0.1 > 10.0.0.3 tcp 9>80 S seq=100", "10.0.0.3 > 10.0.0.1 tcp 80>9 SA seq=7 ack=101");
    let first = "10.0.0.1 > 224.0.0.251 id=7 more udp 5353>5353 data=1472 says=2000";
    let rest = "10.0.0.1 > 224.0.0.251 id=7 offset=1480 protocol=17 data=520";
    switch.check(&[
        (
            "to nobody knows whom: judged for each",
            0,
            to('A', 'B', "10.0.0.1 > 10.0.0.2 udp 5>6"),
            "p1 | default-deny rule-reject",
        ),
        ("its answer, to somebody known", 1, to('B', 'A', "10.0.0.2 > 10.0.0.1 udp 6>5"), "p0"),
        ("and back", 0, to('A', 'B', "10.0.0.1 > 10.0.0.2 udp 5>6"), "p1"),
        (
            "the same over IPv6, to nobody knows whom",
            0,
            to('A', 'c', "fd82::1 > fd82::3 udp 5>53"),
            "p1 p2 | rule-reject",
        ),
        ("its answer is of no flow", 2, to('c', 'A', "fd82::3 > fd82::1 udp 53>5"), "default-deny"),
        ("but shows where to ask", 0, to('A', 'c', "fd82::1 > fd82::3 udp 5>53"), "p2"),
        ("and what comes then is the answer", 2, to('c', 'A', "fd82::3 > fd82::1 udp 53>5"), "p0"),
        ("a SYN to nobody knows whom", 0, to('A', 'C', syn), "p1 p2 | rule-reject"),
        ("opens nothing", 2, to('C', 'A', answer), "tcp-no-flow"),
        ("once more", 0, to('A', 'C', syn), "p2"),
        ("opens a connection", 2, to('C', 'A', answer), "p0"),
        ("that goes on", 0, to('A', 'C', "10.0.0.1 > 10.0.0.3 tcp 9>80 A seq=101 ack=8"), "p2"),
        (
            "within its window",
            2,
            to('C', 'A', "10.0.0.3 > 10.0.0.1 tcp 80>9 A seq=99999999 ack=101"),
            "tcp-window",
        ),
        (
            "to everybody",
            0,
            packet('A', EVERYBODY, "0.0.0.0 > 255.255.255.255 udp 68>67"),
            "p1 | default-deny rule-reject",
        ),
        (
            "to everybody of the network",
            0,
            packet('A', EVERYBODY, "10.0.0.1 > 10.0.0.255 udp 137>137"),
            "p1 | default-deny rule-reject",
        ),
        ("to a group", 0, packet('A', group, "10.0.0.1 > 224.0.0.251 udp 5353>5353"), "p1 p2 | rule-reject"),
        (
            "again, because none is of a flow",
            0,
            packet('A', group, "10.0.0.1 > 224.0.0.251 udp 5353>5353"),
            "p1 p2 | rule-reject",
        ),
        (
            "to a group of IPv6",
            0,
            packet('A', group_v6, "fd82::1 > ff02::fb udp 5353>5353"),
            "p1 p2 | rule-reject",
        ),
        ("a first fragment for a group", 0, packet('A', group, first), "p1 p2 | rule-reject"),
        ("its rest, where the first went", 0, packet('A', group, rest), "p1 p2 | fragment-unknown"),
        ("its rest once more", 0, packet('A', group, rest), "3 fragment-unknown"),
        ("a guest that may", 3, to('G', 'A', "10.0.0.9 > 10.0.0.1 udp 5>53"), "p0"),
        ("a guest that may not", 3, to('G', 'A', "10.0.0.9 > 10.0.0.1 udp 5>54"), "default-deny"),
        (
            "a known guest, and its refusal is answered",
            0,
            to('A', 'G', "10.0.0.1 > 10.0.0.9 udp 7>8"),
            "rule-reject!",
        ),
        ("ARP to everybody", 0, other('A', EVERYBODY, 0x0806), "p1 p2 p3"),
        ("ARP to one", 0, other('A', mac('B'), 0x0806), "p1"),
        ("spanning tree", 2, other('C', [1, 0x80, 0xc2, 0, 0, 0], 38), "p0 p1 p3"),
        ("PPPoE to one", 0, other('A', mac('B'), 0x8864), "not-ip"),
        ("PPPoE to all", 0, other('A', EVERYBODY, 0x8863), "3 not-ip"),
        (
            "neighbour discovery",
            0,
            packet('A', [0x33, 0x33, 0xff, 0, 0, 5], "fd82::1 > ff02::1:ff00:5 ttl=255 icmp 135/0 data=20"),
            "p1 p2 p3",
        ),
        (
            "in a VLAN nobody knows him",
            0,
            to('A', 'B', "10.0.0.1 > 10.0.0.2 udp 5>6 vlan=10"),
            "p1 | default-deny rule-reject",
        ),
        ("there he answers", 1, to('B', 'A', "10.0.0.2 > 10.0.0.1 udp 6>5 vlan=10"), "p0"),
        (
            "in another they do not meet",
            0,
            to('A', 'B', "10.0.0.1 > 10.0.0.2 udp 5>6 vlan=20"),
            "p1 | default-deny rule-reject",
        ),
        ("and some do not cross", 0, to('A', 'B', "10.0.0.1 > 10.0.0.2 udp 5>6 vlan=11"), "vlan"),
        ("a neighbour at the same interface", 0, other('a', EVERYBODY, 0x0806), "p1 p2 p3"),
        ("is for itself", 0, to('A', 'a', "10.0.0.1 > 10.0.0.11 udp 5>6"), "not-ours"),
        ("a group that sends", 0, [&mac('B')[..], &[3, 0, 0, 0, 0, 1, 8, 6], &[0; 46]].concat(), "station"),
        ("the same station in another bridge", 4, to('A', 'Z', "10.0.0.1 > 10.0.0.2 udp 5>6"), "p5 p6"),
        ("there it is where it is there", 5, to('Z', 'A', "10.0.0.2 > 10.0.0.1 udp 16>15"), "p4"),
        ("and here where it was here", 1, to('B', 'A', "10.0.0.2 > 10.0.0.1 udp 6>5"), "p0"),
    ]);
    assert_eq!(switch.flows(), 5, "{:?}: no copy has opened a flow", switch.hook);
}

fn who_takes_an_address_has_it_until_its_owner_speaks(switch: &mut Switch) {
    let seconds = Duration::from_secs;
    let of_b = |at: usize| packet('B', mac('A'), &format!("10.0.0.{at} > 10.0.0.1 udp 5>53"));
    let to_b = packet('A', mac('B'), "10.0.0.1 > 10.0.0.77 udp 5>77");
    let rows: [(&str, Duration, usize, Vec<u8>, &str); 14] = [
        ("its owner speaks", seconds(0), 1, of_b(2), "p0"),
        ("its own frame comes back through a loop", seconds(1), 0, of_b(2), "station"),
        ("another zone has it while the owner is silent for a moment", seconds(10), 3, of_b(9), "station"),
        ("and for longer", seconds(25), 3, of_b(9), "p0"),
        ("and has it", seconds(1), 0, to_b.clone(), "rule-reject!"),
        ("the owner speaks", seconds(1), 1, of_b(2), "p0"),
        ("and has it", seconds(0), 0, to_b.clone(), "p1"),
        ("another does while the owner is silent again", seconds(200), 3, of_b(9), "station"),
        ("and after five minutes", seconds(130), 3, of_b(9), "p0"),
        ("the owner, much later", seconds(500), 1, of_b(2), "p0"),
        ("and has it", seconds(0), 0, to_b.clone(), "p1"),
        ("after five minutes it moves within its zone", seconds(330), 0, of_b(2), "not-ours"),
        ("and is there", seconds(1), 1, packet('Q', mac('B'), "10.0.0.22 > 10.0.0.2 udp 5>53"), "p0"),
        ("and comes home", seconds(1), 1, of_b(2), "p0"),
    ];
    for (what, passes, at, frame, expected) in rows {
        switch.pass(passes);
        // It does not age meanwhile, and is known.
        if frame == to_b {
            switch.arrivals(0, &other('A', EVERYBODY, 0x0806));
        }
        assert_eq!(switch.arrivals(at, &frame), expected, "{:?}: {what}", switch.hook);
    }
}

/// A flow of a machine that moves goes on where the policy allows it, and not elsewhere.
fn flows_follow_an_end_that_moves(switch: &mut Switch) {
    let quiet = Duration::from_secs(35);
    let (asks, answers) = ("10.0.0.2 > 10.0.0.5 udp 700>53", "10.0.0.5 > 10.0.0.2 udp 53>700");
    let ask = packet('B', mac('M'), asks);
    let answer = packet('M', mac('B'), answers);
    switch.arrivals(1, &other('B', EVERYBODY, 0x0806));
    switch.arrivals(2, &other('M', EVERYBODY, 0x0806));
    let flows = switch.flows();
    switch.check(&[
        ("asks", 1, ask.clone(), "p2"),
        ("is answered", 2, answer.clone(), "p1"),
        ("by another in the name of the first", 0, packet('x', mac('B'), answers), "flow-zone"),
    ]);
    switch.pass(quiet);
    switch.check(&[
        ("from where the policy allows it", 0, answer.clone(), "p1"),
        ("to there", 1, ask.clone(), "p0"),
        ("and back", 0, answer.clone(), "p1"),
    ]);
    assert_eq!(switch.flows(), flows + 1, "{:?}: it is one flow", switch.hook);
    // Another one, and who has its address now is where no rule leads to.
    let (asks, answers) = ("10.0.0.2 > 10.0.0.6 udp 701>53", "10.0.0.6 > 10.0.0.2 udp 53>701");
    let (ask, answer) = (packet('B', mac('N'), asks), packet('N', mac('B'), answers));
    switch.arrivals(2, &other('N', EVERYBODY, 0x0806));
    switch.check(&[("asks", 1, ask.clone(), "p2"), ("is answered", 2, answer.clone(), "p1")]);
    switch.pass(quiet);
    switch.check(&[
        ("from where it does not", 3, answer.clone(), "flow-zone"),
        ("the owner", 2, answer, "p1"),
        ("to the owner", 1, ask, "p2"),
    ]);
}

/// Who sends from many addresses, or to all, takes nothing from the other interfaces.
fn many_addresses_take_nothing_from_others(switch: &mut Switch) {
    for (at, name) in [(0, 'A'), (1, 'B'), (2, 'C'), (3, 'G')] {
        switch.arrivals(at, &other(name, EVERYBODY, 0x0806));
    }
    // Somebody there takes the address of one who is silent, and means to have his home forgotten.
    let of_silent = |text: &str| packet('S', mac('A'), text);
    switch.arrivals(1, &other('S', EVERYBODY, 0x0806));
    switch.pass(Duration::from_secs(35));
    let stolen = of_silent("10.0.0.9 > 10.0.0.1 udp 5>53");
    switch.check(&[("taken", 3, stolen.clone(), "p0")]);
    switch.pass(Duration::from_secs(5));
    let tester = switch.firewall().tester();
    let mut frame = packet('G', mac('A'), "10.0.0.9 > 10.0.0.1 udp 5>54");
    let guests = switch.indices[3];
    switch.fw.within(|| {
        for number in 0..20_000u32 {
            frame[8..12].copy_from_slice(&(number | 0x8000_0000).to_be_bytes());
            tester.run(&frame, guests, switch.hook).unwrap();
        }
    });
    let counts =
        switch.firewall().ports.stations(switch.now).unwrap().into_iter().filter(|it| it.bridge == "office");
    let behind = |name: &str| counts.clone().filter(|it| it.interface == name).count();
    let share = 2048 * 4;
    assert!((share * 9 / 10..=share).contains(&behind("p3")), "{:?}: {}", switch.hook, behind("p3"));
    switch.check(&[
        ("who was known is", 0, packet('A', mac('B'), "10.0.0.1 > 10.0.0.2 udp 5>6"), "p1"),
        ("whose address was taken", 3, stolen, "p0"),
        ("has it when he speaks", 1, of_silent("10.0.0.8 > 10.0.0.1 udp 5>53"), "p0"),
        ("also from there", 3, packet('G', mac('A'), "10.0.0.9 > 10.0.0.1 udp 5>53"), "p0"),
        ("and to there", 0, packet('A', mac('G'), "10.0.0.1 > 10.0.0.9 udp 7>8"), "rule-reject!"),
    ]);
    let before = switch.drops().get("flood").copied().unwrap_or(0);
    let to_all = other('G', EVERYBODY, 0x0806);
    switch.fw.within(|| {
        for _ in 0..3000 {
            tester.run(&to_all, guests, Hook::Tc).unwrap();
        }
    });
    let refused = switch.drops()["flood"] - before;
    (0..switch.listeners.len()).for_each(|end| while switch.receive(end, false).is_some() {});
    assert!((900..1100).contains(&refused), "{:?}: {refused} of 3000 frames for all", switch.hook);
    switch.check(&[("to one from there", 3, packet('G', mac('A'), "10.0.0.9 > 10.0.0.1 udp 5>53"), "p0")]);
}

fn nothing_goes_to_an_interface_that_is_gone(switch: &mut Switch) {
    switch.arrivals(6, &other('Y', EVERYBODY, 0x0806));
    let to_it = packet('W', mac('Y'), "10.0.0.1 > 10.0.0.6 udp 5>6");
    switch.check(&[("while it is there", 4, to_it.clone(), "p6")]);
    let firewall = switch.firewall.as_mut().unwrap();
    assert!(switch.fw.within(|| firewall.ports.detach("p6")).unwrap());
    switch.gone = Some(6);
    // Nobody knows where it is any more; the mark behind the frame does not arrive there either.
    switch.check(&[("when it is gone", 4, to_it.clone(), "p5 | 2 not-a-port")]);
    let (firewall, hook) = (switch.firewall.as_mut().unwrap(), switch.hook);
    switch.fw.within(|| firewall.ports.attach("p6", "far", hook)).unwrap();
    switch.gone = None;
    switch.arrivals(6, &other('Y', EVERYBODY, 0x0806));
    switch.check(&[("when it is there again", 4, to_it, "p6")]);
}

fn all(hook: Hook) {
    let mut switch = Switch::new(hook);
    frames_go_where_their_stations_are(&mut switch);
    who_takes_an_address_has_it_until_its_owner_speaks(&mut switch);
    flows_follow_an_end_that_moves(&mut switch);
    nothing_goes_to_an_interface_that_is_gone(&mut switch);
    many_addresses_take_nothing_from_others(&mut switch);
}

#[test]
fn needs_root_a_bridge_of_many_interfaces_at_tc() {
    all(Hook::Tc);
}

#[test]
fn needs_root_a_bridge_of_many_interfaces_at_xdp() {
    all(Hook::Xdp);
}
