//! The flow table as users see it: who talks with whom, since when, how much.

use crate::firewall::Firewall;
use crate::layout::slot_of_mark;
use crate::shared::{bytes_of, from_bytes, read};
use crate::skeleton::types;
use crate::{DataplaneError, Tally};
use libbpf_rs::{MapCore, MapFlags, ProgramInput};
use policy::tables::Counters;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Records that are read by one system call: 512 KiB.
const BATCH: u32 = 4096;
/// Records that one run of the sweep looks at.
const SWEEP: u32 = 1 << 18;

/// State of a flow. Those of TCP are the connection's as seen from between its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Not TCP: nothing came back yet.
    OneWay = 1,
    /// Not TCP: both ends sent.
    TwoWay = 2,
    /// A SYN was sent.
    SynSent = 3,
    /// Both ends sent a SYN.
    SynBoth = 4,
    /// The SYN was answered.
    SynReceived = 5,
    /// The handshake is complete.
    Established = 6,
    /// One end sent FIN.
    Fin = 7,
    /// Both ends sent FIN.
    LastAck = 8,
    /// Both FINs were acknowledged.
    TimeWait = 9,
    /// Closed by a reset.
    Reset = 10,
}

impl State {
    /// All of them, by number, with their names.
    pub const NAMES: [(&'static str, State); 10] = [
        ("one-way", State::OneWay),
        ("two-way", State::TwoWay),
        ("syn-sent", State::SynSent),
        ("syn-both", State::SynBoth),
        ("syn-received", State::SynReceived),
        ("established", State::Established),
        ("fin", State::Fin),
        ("last-ack", State::LastAck),
        ("time-wait", State::TimeWait),
        ("reset", State::Reset),
    ];

    /// As reports and filters write it.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize - 1].0
    }

    pub(crate) fn of(number: u8) -> Option<Self> {
        Self::NAMES.get(usize::from(number).checked_sub(1)?).map(|(_, state)| *state)
    }
}

/// A flow. The client is the end that opened it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Where it is in the table, and how often that place was used: names it as long as it lives.
    pub id: (u32, u32),
    /// IP protocol number.
    pub protocol: u8,
    /// Address and port of the client; of an ICMP query its identifier.
    pub client: (IpAddr, u16),
    /// Address and port of the server; of an ICMP query type and code of the question.
    pub server: (IpAddr, u16),
    /// Zones of client and server.
    pub zones: (String, String),
    /// State.
    pub state: State,
    /// Since it was opened.
    pub age: Duration,
    /// Since its last packet.
    pub idle: Duration,
    /// IP packets from the client and from the server.
    pub packets: (u64, u64),
    /// IP bytes from the client and from the server.
    pub bytes: (u64, u64),
    /// Name of the rule that allowed it; none for the default of its zones, and for a rule that is gone.
    pub rule: Option<String>,
}

/// Which sessions are wanted; what is `None` is not looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Address of either end.
    pub address: Option<IpAddr>,
    /// Port of either end.
    pub port: Option<u16>,
    /// Protocol number.
    pub protocol: Option<u8>,
    /// State.
    pub state: Option<State>,
    /// Zone of either end.
    pub zone: Option<String>,
    /// Rule that allowed it.
    pub rule: Option<String>,
}

impl Filter {
    /// Whether a session is wanted.
    pub fn wants(&self, session: &Session) -> bool {
        let either = |zone: &String| *zone == session.zones.0 || *zone == session.zones.1;
        self.address.is_none_or(|a| a == session.client.0 || a == session.server.0)
            && self.port.is_none_or(|p| p == session.client.1 || p == session.server.1)
            && self.protocol.is_none_or(|p| p == session.protocol)
            && self.state.is_none_or(|s| s == session.state)
            && self.zone.as_ref().is_none_or(either)
            && self.rule.as_ref().is_none_or(|r| session.rule.as_ref() == Some(r))
    }
}

/// How full the flow table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Occupancy {
    /// Flows in it.
    pub flows: u64,
    /// Of these, TCP handshakes under way.
    pub half_open: u32,
    /// Records that there are.
    pub capacity: u32,
}

impl Firewall {
    /// How full the flow table is, as far as it was counted: flows open and end meanwhile.
    ///
    /// # Errors
    /// The firewall's counters are out of reach.
    pub fn occupancy(&self) -> Result<Occupancy, DataplaneError> {
        let tallies = self.tallies()?;
        let of = |tally: Tally| tallies.get(&tally).copied().unwrap_or(0);
        let over = [Tally::Expired, Tally::Closed, Tally::Killed, Tally::Revoked].map(of).iter().sum();
        Ok(Occupancy {
            flows: of(Tally::Opened).saturating_sub(over),
            half_open: read(&self.shared_now()?.pool.half_open),
            capacity: self.settings.flows,
        })
    }

    /// The sessions that a filter wants, in the order of the table. `now` is CLOCK_MONOTONIC since its beginning, from which
    /// ages are told. Flows come and go meanwhile, so it is no snapshot. Flows that are over and not yet swept are left out.
    ///
    /// # Errors
    /// The kernel does not let the table be read.
    pub fn sessions(&self, filter: &Filter, now: Duration) -> Result<Vec<Session>, DataplaneError> {
        let mut sessions = Vec::new();
        self.each_session(now, |session| sessions.extend(filter.wants(&session).then_some(session)))?;
        Ok(sessions)
    }

    /// Shows every session to `each`, one after the other: a table may have millions. As [`Firewall::sessions`] otherwise.
    ///
    /// # Errors
    /// The kernel does not let the table be read.
    pub fn each_session(&self, now: Duration, mut each: impl FnMut(Session)) -> Result<(), DataplaneError> {
        let shared = self.shared_now()?;
        let used = read(&shared.pool.fresh).min(self.settings.flows);
        let tick = ((now.as_nanos() >> 20) as u32).wrapping_add(read(&shared.clock_ahead));
        let by_slot = by_slot(&self.counters);
        let records = self
            .skel
            .maps
            .flows
            .lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY)
            .map_err(DataplaneError::bpf("reading the flow table"))?;
        for (record, (_, bytes)) in (0..used).zip(records) {
            let Some(flow) = from_bytes::<types::flow>(&bytes) else { continue };
            self.session(record, &flow, tick, &by_slot).into_iter().for_each(&mut each);
        }
        Ok(())
    }

    fn session(&self, record: u32, flow: &types::flow, tick: u32, rules: &[Option<&str>]) -> Option<Session> {
        let state = State::of(flow.state)?;
        let (client, server) = (usize::from(flow.initiator & 1), usize::from(flow.initiator & 1 ^ 1));
        let end = |end: usize| (address(flow.family, &flow.address[end]), u16::from_be(flow.port[end]));
        let packets = |end: usize| u64::from(flow.packets_high[end]) << 32 | u64::from(flow.packets[end]);
        let zone = |end: usize| self.zone_name(flow.zone[end]).to_owned();
        let rule = slot_of_mark(flow.mark).and_then(|slot| rules.get(slot as usize).copied().flatten());
        Some(Session {
            id: (record, flow.number),
            protocol: flow.protocol,
            client: end(client),
            server: end(server),
            zones: (zone(client), zone(server)),
            state,
            age: ticks(tick, flow.opened),
            idle: ticks(tick, flow.seen),
            packets: (packets(client), packets(server)),
            bytes: (flow.bytes[client], flow.bytes[server]),
            rule: rule.map(str::to_owned),
        })
    }

    /// Ends a session: its next packet is one of no flow. `false` when it is over already.
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn kill(&self, session: &Session) -> Result<bool, DataplaneError> {
        self.kill_id(session.id)
    }

    /// Ends the session of an id, as [`Firewall::kill`].
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn kill_id(&self, (first, number): (u32, u32)) -> Result<bool, DataplaneError> {
        let command = types::table_command { first, number, ..Default::default() };
        Ok(run_command(&self.skel.progs.end_flow, &command)?.done != 0)
    }

    /// Forgets flows whose time is over; returns how many. About once a second is often enough: an expired flow is treated as
    /// gone whether it was swept or not.
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn sweep(&self) -> Result<u32, DataplaneError> {
        let used = read(&self.shared_now()?.pool.fresh).min(self.settings.flows);
        let mut done = 0;
        for first in (0..used).step_by(SWEEP as usize) {
            let count = SWEEP.min(used - first);
            let command = types::table_command { first, count, ..Default::default() };
            done += run_command(&self.skel.progs.sweep_flows, &command)?.done;
        }
        Ok(done)
    }
}

/// Names of rules by their slots.
pub(crate) fn by_slot(counters: &Counters) -> Vec<Option<&str>> {
    let mut by_slot = vec![None; counters.size() as usize];
    for (name, slot) in counters.names() {
        by_slot[slot as usize] = Some(name);
    }
    by_slot
}

/// Runs a program whose packet is a command, and reads its answer.
fn run_command(
    program: &libbpf_rs::ProgramMut<'_>,
    command: &types::table_command,
) -> Result<types::table_command, DataplaneError> {
    let mut answer = [0; size_of::<types::table_command>()];
    let input =
        ProgramInput { data_in: Some(bytes_of(command)), data_out: Some(&mut answer), ..Default::default() };
    program.test_run(input).map_err(DataplaneError::bpf("running a program on the flow table"))?;
    Ok(from_bytes(&answer).unwrap_or_default())
}

/// An address as C has it.
pub(crate) fn address(family: u8, words: &[u32; 4]) -> IpAddr {
    let mut octets = [0; 16];
    for (octets, word) in octets.chunks_mut(4).zip(words) {
        octets.copy_from_slice(&word.to_ne_bytes());
    }
    if family == 4 {
        let [a, b, c, d, ..] = octets;
        return Ipv4Addr::new(a, b, c, d).into();
    }
    Ipv6Addr::from(octets).into()
}

/// From one tick to another; 0 when the clock stands a little behind.
fn ticks(now: u32, then: u32) -> Duration {
    let ticks = (now.wrapping_sub(then) as i32).max(0);
    Duration::from_nanos((ticks as u64) << 20)
}
