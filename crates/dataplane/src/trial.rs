//! Asking the programs about packets that nobody sent: for tests, and for comparing with the reference interpreter.

use crate::DataplaneError;
use crate::firewall::Firewall;
use crate::hooks::Hook;
use crate::shared::{bytes_of, from_bytes, run_program};
use crate::skeleton::types;
use libbpf_rs::ProgramInput;
use policy::interpret::Packet;
use policy::model::Action;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

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

/// What became of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestRun {
    /// The verdict.
    pub verdict: Verdict,
    /// The frame as the program left it.
    pub frame: Vec<u8>,
    /// How long the program ran.
    pub duration: std::time::Duration,
}

/// What the tables of the policy in force say about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    /// Place of the deciding row among those of the tables; `None` for the default.
    pub row: Option<u32>,
    /// The action.
    pub action: Action,
    /// The generation that was asked.
    pub generation: u32,
}

/// Room for answers, which may be longer than their packets.
const ROOM: usize = 2048;
/// Bytes of `struct xdp_md` and `struct __sk_buff` as the kernel takes them.
const XDP_CONTEXT: usize = 24;
const TC_CONTEXT: usize = 192;

impl Firewall {
    /// Runs a hook's program on a frame as if it had come in by an interface of this network namespace. Flows, counters and
    /// everything else change as by a packet.
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn test_run(&self, frame: &[u8], ifindex: u32, hook: Hook) -> Result<TestRun, DataplaneError> {
        self.test_run_times(frame, ifindex, hook, 1)
    }

    /// The same several times over, each time on what the time before left; tells how long one took on the average. A hop
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
        let mut out = vec![0; frame.len().max(ROOM)];
        let (program, mut context) = match hook {
            Hook::Xdp => (&self.skel.progs.firewall_xdp, xdp_context(frame.len(), ifindex).to_vec()),
            Hook::Tc => (&self.skel.progs.firewall_tc, tc_context(ifindex).to_vec()),
        };
        let input = ProgramInput {
            data_in: Some(frame),
            data_out: Some(&mut out),
            context_in: Some(&mut context),
            repeat: times,
            ..Default::default()
        };
        let output =
            program.test_run(input).map_err(DataplaneError::bpf("running the firewall on a packet"))?;
        let verdict = verdict_of(hook, output.return_value);
        let frame = output.data.map(|data| data.to_vec()).unwrap_or_default();
        Ok(TestRun { verdict, frame, duration: output.duration })
    }

    /// The programs for a thread of its own, which may race with others.
    ///
    /// # Errors
    /// No file descriptors left.
    pub fn tester(&self) -> Result<Tester, DataplaneError> {
        let own = |program: &libbpf_rs::ProgramMut<'_>| {
            program
                .as_fd()
                .try_clone_to_owned()
                .map_err(DataplaneError::system("opening the programs once more"))
        };
        let programs = &self.skel.progs;
        Ok(Tester { xdp: own(&programs.firewall_xdp)?, tc: own(&programs.firewall_tc)? })
    }

    /// Asks the tables in force about a packet, by the zones' numbers in the policy last applied. `None`: there is no policy.
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn judge(&self, packet: &Packet) -> Result<Option<Judgement>, DataplaneError> {
        let (family, source) = words(packet.source);
        let command = types::judge_command {
            source,
            destination: words(packet.destination).1,
            family,
            from: self.applied_zones.get(usize::from(packet.from)).copied().unwrap_or(255),
            to: self.applied_zones.get(usize::from(packet.to)).copied().unwrap_or(255),
            protocol: packet.protocol,
            selector: packet.selector.to_be(),
            ..Default::default()
        };
        let mut answer = [0; size_of::<types::judge_command>()];
        let input = ProgramInput {
            data_in: Some(bytes_of(&command)),
            data_out: Some(&mut answer),
            ..Default::default()
        };
        self.skel.progs.judge.test_run(input).map_err(DataplaneError::bpf("asking the policy's tables"))?;
        let answer: types::judge_command = from_bytes(&answer).unwrap_or_default();
        if answer.generation == 0 {
            return Ok(None);
        }
        let action = Action::NAMES.get(answer.action as usize).map_or(Action::Deny, |(_, action)| *action);
        Ok(Some(Judgement { row: answer.row.checked_sub(1), action, generation: answer.generation }))
    }

    /// Lets the data plane's clock run ahead: tests wait for nothing.
    ///
    /// # Errors
    /// The firewall's variables are out of reach.
    pub fn set_clock_ahead(&mut self, ahead: std::time::Duration) -> Result<(), DataplaneError> {
        let ticks = (ahead.as_nanos() >> 20) as u32;
        crate::shared::publish(&mut self.shared()?.clock_ahead, ticks);
        Ok(())
    }
}

/// The programs of both hooks for a thread of its own: as [`Firewall::test_run`], but what leaves is not shown, so it is a few
/// times faster. A thread runs it in the network namespace whose interfaces it names.
#[derive(Debug)]
pub struct Tester {
    xdp: OwnedFd,
    tc: OwnedFd,
}

impl Tester {
    /// Runs a hook's program on a frame as if it had come in by an interface.
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn run(&self, frame: &[u8], ifindex: u32, hook: Hook) -> Result<Verdict, DataplaneError> {
        let run = match hook {
            Hook::Xdp => run_program(self.xdp.as_fd(), frame, &xdp_context(frame.len(), ifindex)),
            Hook::Tc => run_program(self.tc.as_fd(), frame, &tc_context(ifindex)),
        };
        let value = run.map_err(DataplaneError::system("running the firewall on a packet"))?;
        Ok(verdict_of(hook, value))
    }
}

fn verdict_of(hook: Hook, value: u32) -> Verdict {
    match (hook, value) {
        (Hook::Xdp, 4) | (Hook::Tc, 7) => Verdict::Sent,
        (Hook::Xdp, 2) | (Hook::Tc, 0) => Verdict::Up,
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

/// `struct xdp_md`: data, end, metadata, interface, queue, egress interface.
fn xdp_context(length: usize, ifindex: u32) -> [u8; XDP_CONTEXT] {
    let mut context = [0; XDP_CONTEXT];
    context[4..8].copy_from_slice(&(length as u32).to_ne_bytes());
    context[12..16].copy_from_slice(&ifindex.to_ne_bytes());
    context
}

/// `struct __sk_buff`: `ingress_ifindex` and `ifindex` are its tenth and eleventh word.
fn tc_context(ifindex: u32) -> [u8; TC_CONTEXT] {
    let mut context = [0; TC_CONTEXT];
    context[36..40].copy_from_slice(&ifindex.to_ne_bytes());
    context[40..44].copy_from_slice(&ifindex.to_ne_bytes());
    context
}
