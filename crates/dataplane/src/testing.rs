//! What only tests and measurements do: run the programs on packets that nobody sent, ask the policy's tables, move the clock,
//! and write what otherwise follows the kernel's routes.

use crate::DataplaneError;
use crate::contexts;
use crate::earlier::Secret;
use crate::early::Kept;
use crate::firewall::{Firewall, Settings};
use crate::forwarding::{LocalKind, MARK, change, local_key};
use crate::loading::{Before, again};
use crate::ports::{Hook, Programs};
use crate::shared::{Program, Run, Shared, publish};
use crate::skeleton::types::{self, sizes};
use libbpf_rs::{MapCore, MapFlags};
use policy::interpret::Packet;
use policy::model::Action;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The object to load: the one that was built, unless `RAMPART_MUTANT` names the file of another, whose faults the tests are to find
/// (`cargo xtask mutants`).
pub(crate) fn object(built: &'static [u8]) -> &'static [u8] {
    static MUTANT: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let read = || std::env::var_os("RAMPART_MUTANT").and_then(|path| std::fs::read(path).ok());
    MUTANT.get_or_init(read).as_deref().unwrap_or(built)
}

/// In the place of a secret where the clock is held: which ports and places collide is the same each time, so that no test passes or fails by
/// chance. The numbers are those of a seed (SplitMix64).
pub(crate) fn secret() -> Secret {
    let mut state: u64 = 0x5261_6d70_6172_7421;
    std::array::from_fn(|_| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    })
}

/// What a program says about a packet, in the words of either hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It is dropped.
    Drop,
    /// It goes up to the kernel.
    Up,
    /// It, or an answer to it, was redirected.
    Sent,
}

/// Where on its way the kernel asks about a packet, by the numbers of `NF_INET_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Place {
    /// It is for this machine.
    In = 1,
    /// It is being forwarded.
    Forward = 2,
    /// This machine sends it.
    Out = 3,
}

/// What became of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestRun {
    /// The verdict.
    pub verdict: Verdict,
    /// The frame as the program left it.
    pub frame: Vec<u8>,
    /// How long the program ran.
    pub duration: Duration,
}

/// What the tables of the policy in force say about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    /// Place of the deciding row among those of the tables; `None` for the default.
    pub row: Option<u32>,
    /// A list refused it before any rule was asked; then there is no row.
    pub is_listed: bool,
    /// The action.
    pub action: Action,
    /// The generation that was asked.
    pub generation: u32,
}

/// What of the programs nothing but this module needs.
pub(crate) struct Testing {
    pub(crate) hooks: Tester,
    pub(crate) gate: Option<Program>,
    pub(crate) judge: Program,
    pub(crate) held_clock: Shared<u64>,
    pub(crate) held_ports: Shared<[u32; 2]>,
    kept: Kept,
}

impl Testing {
    pub(crate) fn new(
        programs: &Programs,
        judge: Program,
        (held_clock, held_ports): (Shared<u64>, Shared<[u32; 2]>),
    ) -> Result<Self, DataplaneError> {
        let again = |program: &Option<Program>| again(program.as_ref());
        let shared = |program| again(program).map(|program| program.map(Arc::new));
        let hooks = Tester {
            xdp: shared(&programs.xdp)?,
            tc: shared(&programs.tc)?,
            netfilter: shared(&programs.netfilter)?,
        };
        let gate = again(&programs.gate)?;
        Ok(Self { hooks, gate, judge, held_clock, held_ports, kept: Kept::default() })
    }
}

/// In the place of a row and 1, as in C: a list decided.
const ROW_LIST: u32 = u32::MAX;
/// Room for answers, which may be longer than their packets.
const ROOM: usize = 2048;
/// Bytes of `struct nf_hook_state`.
const NETFILTER_CONTEXT: usize = 48;

impl Firewall {
    /// Runs a hook's program on a frame as if it had come in by an interface of this network namespace. Flows, counters and
    /// everything else change as by a packet.
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn test_run(&self, frame: &[u8], ifindex: u32, hook: Hook) -> Result<TestRun, DataplaneError> {
        self.test_run_times(frame, ifindex, hook, 1)
    }

    /// The same several times over, each time on what the last run left. The duration is the average of one run. A hop
    /// is taken each time.
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn test_run_times(
        &self,
        frame: &[u8],
        ifindex: u32,
        hook: Hook,
        times: u32,
    ) -> Result<TestRun, DataplaneError> {
        let mut left = vec![0; frame.len().max(ROOM)];
        let run = self.testing.hooks.run_times(frame, ifindex, hook, &mut left, times)?;
        left.truncate(run.length);
        Ok(TestRun { verdict: verdict_of(hook, run.value), frame: left, duration: run.duration })
    }

    /// Asks the program that keeps interfaces closed until they are attached about a packet of this machine, which comes in or goes out by
    /// the loopback interface.
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn ask_gate(&self, frame: &[u8], place: Place) -> Result<Verdict, DataplaneError> {
        let program = self.testing.gate.as_ref();
        let done = program
            .ok_or_else(|| std::io::Error::other("this kernel has no such programs"))
            .and_then(|program| program.run(frame, &netfilter_context(frame, place), &mut [], 1));
        done.map(|run| verdict_of(Hook::Netfilter, run.value))
            .map_err(DataplaneError::system("asking about an interface that is yet to come"))
    }

    /// Asks the program at a netfilter hook about a packet as the kernel would. The kernel takes the frame's Ethernet header off, and
    /// refuses frames with VLAN tags and those without a whole IP header. The interfaces are where the packet came in and where it
    /// goes out; 0 where it has none. Only with a held clock.
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn ask_netfilter(
        &mut self,
        frame: &[u8],
        place: Place,
        interfaces: [u32; 2],
    ) -> Result<Verdict, DataplaneError> {
        publish(&mut *self.testing.held_ports, interfaces);
        let done = loaded(&self.testing.hooks.netfilter)
            .and_then(|program| program.run(frame, &netfilter_context(frame, place), &mut [], 1));
        done.map(|run| verdict_of(Hook::Netfilter, run.value))
            .map_err(DataplaneError::system("asking the firewall at netfilter"))
    }

    /// The programs for a thread of its own, which may race with others.
    pub fn tester(&self) -> Tester {
        self.testing.hooks.clone()
    }

    /// Asks the tables in force about a packet, by the zones' numbers in the policy last applied. `None`: there is no policy.
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn judge(&self, packet: &Packet) -> Result<Option<Judgement>, DataplaneError> {
        let (answer, _) = self.ask(packet, 1)?;
        if answer.generation == 0 {
            return Ok(None);
        }
        let action = Action::NAMES.get(answer.action as usize).map_or(Action::Deny, |(_, action)| *action);
        let is_listed = answer.row == ROW_LIST;
        let row = answer.row.checked_sub(1).filter(|_| !is_listed);
        Ok(Some(Judgement { row, is_listed, action, generation: answer.generation }))
    }

    /// How long a question to the tables in force takes, on the average of several times over.
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn judge_time(&self, packet: &Packet, times: u32) -> Result<Duration, DataplaneError> {
        Ok(self.ask(packet, times)?.1)
    }

    fn ask(&self, packet: &Packet, times: u32) -> Result<(types::judge_command, Duration), DataplaneError> {
        let (family, source) = words(packet.source);
        let zone = |number: u8| {
            self.policies.zones.get(usize::from(number)).copied().unwrap_or(sizes::NO_ZONE.0 as u8)
        };
        let command = types::judge_command {
            source,
            destination: words(packet.destination).1,
            family,
            from: zone(packet.from),
            to: zone(packet.to),
            protocol: packet.protocol,
            selector: packet.selector.to_be(),
            source_port: packet.source_port.to_be(),
            ..Default::default()
        };
        let run = self.testing.judge.command(&command, times);
        run.map_err(DataplaneError::system("asking the policy's tables"))
    }

    /// Loads the programs as [`Firewall::load_for`] does, with a clock that stands still until [`Firewall::set_clock`] moves it, and a
    /// secret that is none. What a test finds then depends neither on the machine's speed nor on what else the machine does, nor on chance. Such a firewall is only handed packets:
    /// interfaces get no program for what the machine sends, because verifying it would take half of the time that loading takes.
    ///
    /// # Errors
    /// Those of [`Firewall::load_for`].
    pub fn load_with_held_clock(settings: &Settings, hooks: &[Hook]) -> Result<Self, DataplaneError> {
        Self::load_with(settings, true, Before::Nothing, hooks)
    }

    /// Sets a held clock, in time since the machine was started.
    pub fn set_clock(&mut self, now: Duration) {
        publish(&mut *self.testing.held_clock, now.as_nanos() as u64);
    }

    /// Fragments that come before their first go to user space until then, as if somebody kept them.
    pub fn keep_early_until(&mut self, time: Duration) {
        if let Some(early) = &mut self.early {
            early.keep_until(time);
        }
    }

    /// Does what [`Firewall::keep_early_fragments`] does in the background, but for sending: takes the fragments that came before their
    /// first, and returns those whose first has come since, with the interfaces by which they came. The caller sends them in again.
    ///
    /// # Errors
    /// The ring cannot be read, or somebody keeps them already.
    pub fn due_fragments(&mut self, now: Duration) -> Result<Vec<(u32, Vec<u8>)>, DataplaneError> {
        let doing = "taking early fragments";
        let twice = || std::io::Error::other("somebody keeps them already");
        let early = self.early.as_ref().ok_or_else(twice).map_err(DataplaneError::system(doing))?;
        let (due, _) = early.due(&mut self.testing.kept, now).map_err(DataplaneError::system(doing))?;
        Ok(due.into_iter().map(|fragment| (fragment.ifindex, fragment.frame)).collect())
    }

    /// Has a frame come in by an interface: it is judged there, and goes where it is sent to.
    ///
    /// # Errors
    /// The kernel does not take it, or somebody keeps early fragments.
    pub fn bring(&self, frame: &[u8], ifindex: u32, hook: Hook) -> Result<(), DataplaneError> {
        let taken = || std::io::Error::other("somebody keeps early fragments");
        let early = self.early.as_ref().ok_or_else(taken);
        early
            .and_then(|early| early.bring(frame, ifindex, hook == Hook::Xdp))
            .map_err(DataplaneError::system("having a frame come in"))
    }

    /// Makes the firewall ask the kernel again where packets go.
    ///
    /// # Errors
    /// The kernel does not let the map be written.
    pub fn forget_routes(&self) -> Result<(), DataplaneError> {
        change(&self.routes.forwarding, |_| {})
            .map_err(DataplaneError::bpf("changing how packets are forwarded"))
    }

    /// Sets the words by which XDP marks what it hands to the program beside it.
    ///
    /// # Errors
    /// The kernel does not let the map be written.
    pub fn set_mark(&self, mark: [u32; 2]) -> Result<(), DataplaneError> {
        change(&self.routes.forwarding, |words| words[MARK..MARK + 2].copy_from_slice(&mark))
            .map_err(DataplaneError::bpf("changing how packets are forwarded"))
    }

    /// Adds an address of the firewall itself: packets to it are for zone `self`.
    ///
    /// # Errors
    /// There are too many, or the kernel does not let the map be written.
    pub fn add_local_address(&self, address: IpAddr) -> Result<(), DataplaneError> {
        self.add_local(address, LocalKind::Own)
    }

    /// Takes an address of the firewall itself away.
    ///
    /// # Errors
    /// It is not there, or the kernel does not let the map be written.
    pub fn remove_local_address(&self, address: IpAddr) -> Result<(), DataplaneError> {
        self.routes
            .local_addresses
            .delete(&local_key(address))
            .map_err(DataplaneError::bpf(format!("forgetting {address} as an address of the firewall")))?;
        self.forget_routes()
    }

    /// The same for the address of everybody on a link.
    ///
    /// # Errors
    /// As above.
    pub fn add_broadcast_address(&self, address: IpAddr) -> Result<(), DataplaneError> {
        self.add_local(address, LocalKind::Broadcast)
    }

    fn add_local(&self, address: IpAddr, kind: LocalKind) -> Result<(), DataplaneError> {
        self.routes
            .local_addresses
            .update(&local_key(address), &kind.number().to_ne_bytes(), MapFlags::ANY)
            .map_err(DataplaneError::bpf(format!("noting {address} as an address of the firewall")))?;
        self.forget_routes()
    }

    /// Whom ICMP errors come from when they answer packets that came in by an interface. The unspecified address: nobody,
    /// and nothing of that family is answered there.
    ///
    /// # Errors
    /// There are too many interfaces, or the kernel does not let the map be written.
    pub fn set_own_addresses(&self, ifindex: u32, v4: Ipv4Addr, v6: Ipv6Addr) -> Result<(), DataplaneError> {
        let value = [&v4.octets()[..], &v6.octets()].concat();
        self.routes
            .own_addresses
            .update(&ifindex.to_ne_bytes(), &value, MapFlags::ANY)
            .map_err(DataplaneError::bpf(format!("noting the firewall's addresses of interface {ifindex}")))
    }
}

/// The programs of both hooks for a thread of its own: as [`Firewall::test_run`], but what leaves is not shown, so it is a few
/// times faster. A thread runs it in the network namespace whose interfaces it names.
#[derive(Debug, Clone)]
pub struct Tester {
    pub(crate) xdp: Option<Arc<Program>>,
    pub(crate) tc: Option<Arc<Program>>,
    pub(crate) netfilter: Option<Arc<Program>>,
}

impl Tester {
    /// Runs a hook's program on a frame as if it had come in by an interface.
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn run(&self, frame: &[u8], ifindex: u32, hook: Hook) -> Result<Verdict, DataplaneError> {
        self.run_times(frame, ifindex, hook, &mut [], 1).map(|run| verdict_of(hook, run.value))
    }

    fn run_times(
        &self,
        frame: &[u8],
        ifindex: u32,
        hook: Hook,
        left: &mut [u8],
        times: u32,
    ) -> Result<Run, DataplaneError> {
        let run = match hook {
            Hook::Xdp => loaded(&self.xdp)
                .and_then(|xdp| xdp.run(frame, &contexts::xdp(frame.len(), ifindex), left, times)),
            Hook::Tc => loaded(&self.tc).and_then(|tc| tc.run(frame, &contexts::tc(ifindex), left, times)),
            Hook::Netfilter => Err(std::io::Error::other("such a packet has a way: see ask_netfilter")),
        };
        run.map_err(DataplaneError::system("running the firewall on a packet"))
    }
}

fn loaded(program: &Option<Arc<Program>>) -> std::io::Result<&Program> {
    program.as_deref().ok_or_else(|| std::io::Error::other("the firewall was loaded for other hooks"))
}

/// `TCX_NEXT`, as an unsigned number.
const NEXT: u32 = u32::MAX;

fn verdict_of(hook: Hook, value: u32) -> Verdict {
    match (hook, value) {
        (Hook::Xdp, 4) | (Hook::Tc, 7) => Verdict::Sent,
        (Hook::Xdp, 2) | (Hook::Tc, NEXT) | (Hook::Netfilter, 1) => Verdict::Up,
        _ => Verdict::Drop,
    }
}

fn words(address: IpAddr) -> (u8, [u32; 4]) {
    let mut words = [0; 4];
    match address {
        IpAddr::V4(v4) => {
            words[0] = u32::from_ne_bytes(v4.octets());
            (4, words)
        }
        IpAddr::V6(v6) => {
            for (word, octets) in words.iter_mut().zip(v6.octets().as_chunks::<4>().0) {
                *word = u32::from_ne_bytes(*octets);
            }
            (6, words)
        }
    }
}

/// `struct nf_hook_state`: hook, family, and pointers that the kernel fills in.
fn netfilter_context(frame: &[u8], place: Place) -> [u8; NETFILTER_CONTEXT] {
    let mut context = [0; NETFILTER_CONTEXT];
    let is_v6 = frame.get(12..14) == Some(&[0x86, 0xdd]);
    let family = if is_v6 { libbpf_rs::NFPROTO_IPV6 } else { libbpf_rs::NFPROTO_IPV4 };
    context[..2].copy_from_slice(&[place as u8, family as u8]);
    context
}
