//! One level for every factor, and the [`Setup`] that they make together, or why they cannot go together.

use super::factor::Factor;
use super::parameters::ProcedureKind;
use super::sessions::{CLOSES, ORDERS, SessionLevels};
use super::setup_problem::SetupProblem;
use super::text::{
    count, directions, flag, flood, flood_text, illegal, illegal_text, link, name_of, one_of, rate_text,
    seconds,
};
use crate::bulk::{BulkShape, MOST_CONNECTIONS};
use crate::connections::MOST_ANSWER_BYTES;
use crate::frame::{FrameMix, FrameSize};
use crate::procedure::Flood;
use crate::shape::{
    Directions, IpVersion, Placement, PolicyShape, Setup, TestProtocol, TrafficShape, UdpChecksum, Workload,
    Zone, ZoneForm,
};
use std::collections::BTreeMap;

/// Most flows that the generator of frames can keep apart.
pub const MAX_FLOWS: u32 = 4_000_000;
/// Most connections that the TCP engine holds, and pairs of client address and port that it uses.
pub const MAX_CONNECTIONS: u32 = 10_000_000;
/// Hosts that every zone has room for.
pub const MAX_HOSTS: u32 = 32_256;
/// Addresses that connections may come from.
pub const MAX_CLIENTS: u32 = 65_536;
/// Ports of one client address: 1024 to 65535.
pub const CLIENT_PORTS: u32 = 64_512;
/// Pairs of client address and port by default.
const DEFAULT_PAIRS: u32 = CLIENT_PORTS;
/// Flows of frames by default.
const DEFAULT_FLOWS: u32 = 1000;
/// Source addresses by default, if the flows divide into so many (EANTC's number of clients).
const DEFAULT_CLIENTS: u32 = 20;
/// Destination addresses by default, if the flows of a client divide into so many.
const DEFAULT_SERVERS: u32 = 10;

/// Position of the rule that allows the test traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Match {
    First,
    Last,
    At(u32),
}

/// One level for every factor; what a suite does not say has its default.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Levels {
    kind: ProcedureKind,
    frame: FrameMix,
    flows: u32,
    clients: Option<u32>,
    servers: Option<u32>,
    directions: Directions,
    zones: ZoneForm,
    ip: IpVersion,
    rules: u32,
    matching: Match,
    stateful: Option<bool>,
    nat: bool,
    lists: u32,
    list_sets: u32,
    countries: u32,
    sessions: SessionLevels,
    fragments: u32,
    link: Option<u64>,
    udp_checksum: Option<UdpChecksum>,
    pub(crate) placement: Placement,
    pub(crate) cores: u32,
}

/// What a trial needs to know beside its [`Setup`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Beside {
    /// The flood, without its time.
    pub(crate) flood: Option<Flood>,
    /// Connections that are opened and held.
    pub(crate) connections: u32,
    /// Seconds that they stay idle.
    pub(crate) hold_seconds: f64,
}

impl Levels {
    /// The defaults of a procedure.
    pub(crate) fn of(kind: ProcedureKind) -> Self {
        #[expect(clippy::unwrap_used, reason = "64 is a frame size")]
        let smallest = FrameSize::new(FrameSize::MIN_BYTES).unwrap();
        Self {
            kind,
            frame: FrameMix::fixed(smallest),
            flows: if kind.has_sessions() { DEFAULT_PAIRS } else { DEFAULT_FLOWS },
            clients: None,
            servers: None,
            directions: Directions::OneWay,
            zones: ZoneForm::Two,
            ip: IpVersion::V4,
            rules: 0,
            matching: Match::Last,
            stateful: None,
            nat: false,
            lists: 0,
            list_sets: 1,
            countries: 0,
            sessions: SessionLevels::of(kind),
            fragments: 1,
            link: None,
            udp_checksum: None,
            placement: Placement::Inline,
            cores: 1,
        }
    }

    /// Sets one factor.
    ///
    /// # Errors
    /// Why the text is no level of it.
    pub(crate) fn set(&mut self, factor: Factor, text: &str) -> Result<(), String> {
        let wrong = || format!("`{text}` is no level of `{}`: it takes {}", factor.name(), factor.levels());
        let count = |range| count(text, range).ok_or_else(wrong);
        match factor {
            Factor::Frame => self.frame = FrameMix::parse(text).map_err(|e| e.to_string())?,
            Factor::Flows => self.flows = count(1..=MAX_CONNECTIONS)?,
            Factor::Clients => self.clients = Some(count(1..=MAX_CLIENTS)?),
            Factor::Servers => self.servers = Some(count(1..=MAX_HOSTS)?),
            Factor::Directions => self.directions = directions(text).ok_or_else(wrong)?,
            Factor::Zones => {
                self.zones =
                    one_of(text, &[("two", ZoneForm::Two), ("three", ZoneForm::Three)]).ok_or_else(wrong)?
            }
            Factor::Ip => {
                self.ip = one_of(text, &[("4", IpVersion::V4), ("6", IpVersion::V6)]).ok_or_else(wrong)?
            }
            Factor::Rules => self.rules = count(0..=100_000)?,
            Factor::Match => {
                self.matching = match text {
                    "first" => Match::First,
                    "last" => Match::Last,
                    _ => Match::At(count(1..=100_000)?),
                }
            }
            Factor::Stateful => self.stateful = Some(flag(text).ok_or_else(wrong)?),
            Factor::Nat => self.nat = flag(text).ok_or_else(wrong)?,
            Factor::Lists => self.lists = count(0..=100_000_000)?,
            Factor::ListSets => self.list_sets = count(1..=3)?,
            Factor::Countries => self.countries = count(0..=0).or_else(|_| count(12..=65_536))?,
            Factor::Transactions => {
                self.sessions.transactions = u16::try_from(count(0..=65_535)?).map_err(|_| wrong())?;
            }
            Factor::Answer => self.sessions.answer_bytes = count(1..=MOST_ANSWER_BYTES)?,
            Factor::Close => self.sessions.close = one_of(text, &CLOSES).ok_or_else(wrong)?,
            Factor::Order => self.sessions.order = one_of(text, &ORDERS).ok_or_else(wrong)?,
            Factor::Hold => self.sessions.hold_seconds = seconds(text).ok_or_else(wrong)?,
            Factor::Reuse => self.sessions.reuse_seconds = seconds(text).ok_or_else(wrong)?,
            Factor::Connections => self.sessions.connections = count(1..=MAX_CONNECTIONS)?,
            Factor::Illegal => self.sessions.illegal = illegal(text).ok_or_else(wrong)?,
            Factor::Attack => self.sessions.flood = flood(text).ok_or_else(wrong)?,
            Factor::Fragments => self.fragments = count(1..=2)?,
            Factor::Link => self.link = link(text).ok_or_else(wrong)?,
            Factor::UdpChecksum => {
                let known = [("zero", UdpChecksum::Zero), ("valid", UdpChecksum::Valid)];
                self.udp_checksum = Some(one_of(text, &known).ok_or_else(wrong)?);
            }
            Factor::Placement => {
                let known = [("inline", Placement::Inline), ("isolated", Placement::Isolated)];
                self.placement = one_of(text, &known).ok_or_else(wrong)?;
            }
            Factor::Cores => self.cores = count(1..=1024)?,
        }
        Ok(())
    }

    /// The one written form of a factor's level, defaults resolved.
    pub(crate) fn written(&self, factor: Factor) -> String {
        match factor {
            Factor::Frame => self.frame.to_string(),
            Factor::Flows => self.flows.to_string(),
            Factor::Clients => self.clients().to_string(),
            Factor::Servers => self.servers().to_string(),
            Factor::Directions => match self.directions {
                Directions::OneWay => "one-way".into(),
                Directions::TwoWay { reverse_share: 0.5 } => "two-way".into(),
                Directions::TwoWay { reverse_share } => format!("two-way:{reverse_share}"),
            },
            Factor::Zones => match self.zones {
                ZoneForm::Two => "two".into(),
                ZoneForm::Three => "three".into(),
            },
            Factor::Ip => match self.ip {
                IpVersion::V4 => "4".into(),
                IpVersion::V6 => "6".into(),
            },
            Factor::Rules => self.rules.to_string(),
            Factor::Match => match self.matching {
                Match::First => "first".into(),
                Match::Last => "last".into(),
                Match::At(position) => position.to_string(),
            },
            Factor::Stateful => self.stateful().to_string(),
            Factor::Nat => self.nat.to_string(),
            Factor::Lists => self.lists.to_string(),
            Factor::ListSets => self.list_sets.to_string(),
            Factor::Countries => self.countries.to_string(),
            Factor::Transactions => self.sessions.transactions.to_string(),
            Factor::Answer => self.sessions.answer_bytes.to_string(),
            Factor::Close => name_of(&self.sessions.close, &CLOSES),
            Factor::Order => name_of(&self.sessions.order, &ORDERS),
            Factor::Hold => self.sessions.hold_seconds.to_string(),
            Factor::Reuse => self.sessions.reuse_seconds.to_string(),
            Factor::Connections => self.sessions.connections.to_string(),
            Factor::Illegal => self.sessions.illegal.as_ref().map_or("none".into(), illegal_text),
            Factor::Attack => self.sessions.flood.as_ref().map_or("none".into(), flood_text),
            Factor::Fragments => self.fragments.to_string(),
            Factor::Link => self.link.map_or("none".into(), rate_text),
            Factor::UdpChecksum => match self.udp_checksum() {
                UdpChecksum::Zero => "zero".into(),
                UdpChecksum::Valid => "valid".into(),
            },
            Factor::Placement => match self.placement {
                Placement::Inline => "inline".into(),
                Placement::Isolated => "isolated".into(),
            },
            Factor::Cores => self.cores.to_string(),
        }
    }

    /// Every factor that matters to the procedure, but placement and cores, which results keep apart. Of frames, factors
    /// that came with connections stand only where the suite or the user names them, so that results remain comparable.
    pub(crate) fn factors<T>(&self, named: &BTreeMap<Factor, T>) -> BTreeMap<String, String> {
        let shown = |factor: &Factor| match factor {
            Factor::Placement | Factor::Cores => false,
            Factor::ListSets | Factor::Countries | Factor::Fragments => {
                named.contains_key(factor) || !self.kind.sends_frames()
            }
            _ => true,
        };
        Factor::ALL
            .into_iter()
            .filter(|factor| factor.matters_to(self.kind) && shown(factor))
            .map(|factor| (factor.name().to_owned(), self.written(factor)))
            .collect()
    }

    fn clients(&self) -> u32 {
        if self.kind.has_sessions() {
            return self.clients.unwrap_or(DEFAULT_CLIENTS.min(self.flows));
        }
        self.clients
            .unwrap_or_else(|| largest_divisor(self.flows / self.servers.unwrap_or(1), DEFAULT_CLIENTS))
    }

    fn servers(&self) -> u32 {
        if self.kind.has_sessions() {
            return self.servers.unwrap_or(DEFAULT_SERVERS.min(self.flows));
        }
        let clients = self.clients();
        let of_client = if self.flows.is_multiple_of(clients) { self.flows / clients } else { 1 };
        self.servers.unwrap_or_else(|| largest_divisor(of_client, DEFAULT_SERVERS))
    }

    /// Without addresses there is nothing to spread.
    fn list_sets(&self) -> u32 {
        if self.lists == 0 { 1 } else { self.list_sets }
    }

    /// What a trial needs to know beside the setup.
    pub(crate) fn beside(&self) -> Beside {
        Beside {
            flood: self.sessions.flood,
            connections: self.sessions.connections,
            hold_seconds: self.sessions.hold_seconds,
        }
    }

    fn stateful(&self) -> bool {
        self.stateful.unwrap_or(self.rules > 0)
    }

    /// IPv6 demands a checksum; in IPv4 it is left out, because a real card would have checked it already.
    fn udp_checksum(&self) -> UdpChecksum {
        self.udp_checksum.unwrap_or(match self.ip {
            IpVersion::V4 => UdpChecksum::Zero,
            IpVersion::V6 => UdpChecksum::Valid,
        })
    }

    fn match_position(&self) -> Result<u32, SetupProblem> {
        match (self.rules, self.matching) {
            (0, Match::At(position)) => Err(SetupProblem::MatchWithoutRules(position)),
            (0, _) => Ok(0),
            (_, Match::First) => Ok(1),
            (rules, Match::Last) => Ok(rules),
            (rules, Match::At(position)) if position > rules => {
                Err(SetupProblem::MatchBeyondRules { position, rules })
            }
            (_, Match::At(position)) => Ok(position),
        }
    }

    /// The setup that these levels make.
    ///
    /// # Errors
    /// [`SetupProblem`]: why they cannot go together.
    pub(crate) fn setup(&self, seed: u64) -> Result<Setup, SetupProblem> {
        match self.kind {
            ProcedureKind::Bulk => self.check_bulk()?,
            kind if kind.has_sessions() => self.check_sessions()?,
            _ => self.check_frames()?,
        }
        self.check_policy()?;
        Ok(Setup {
            zones: self.zones,
            traffic: self.traffic(seed),
            workload: match self.kind {
                ProcedureKind::Bulk => Workload::Bulk(BulkShape { connections: self.sessions.connections }),
                kind if kind.has_sessions() => Workload::Connections(self.sessions.shape(kind)),
                _ => Workload::Frames,
            },
            policy: self.policy(seed)?,
            placement: self.placement,
            link_bits_per_second: self.link,
        })
    }

    fn traffic(&self, seed: u64) -> TrafficShape {
        TrafficShape {
            frame: self.frame.clone(),
            ip: self.ip,
            flows: self.flows,
            clients: self.clients(),
            servers: self.servers(),
            directions: self.directions,
            udp_checksum: self.udp_checksum(),
            fragments: self.fragments,
            cores: self.cores,
            seed,
        }
    }

    fn policy(&self, seed: u64) -> Result<PolicyShape, SetupProblem> {
        Ok(PolicyShape {
            rules: self.rules,
            match_position: self.match_position()?,
            stateful: self.stateful(),
            nat: self.nat,
            listed_addresses: self.lists,
            lists: self.list_sets(),
            allowed_subnets: self.countries,
            protocol: if self.kind.sends_frames() { TestProtocol::Udp } else { TestProtocol::Tcp },
            // A flood that the first rule drops would say little: it is to meet the firewall's state.
            admits_attackers: self.sessions.flood.is_some() && self.rules > 0,
            seed,
        })
    }

    fn check_policy(&self) -> Result<(), SetupProblem> {
        if self.rules == 0 && self.stateful() {
            return Err(SetupProblem::StateWithoutRules);
        }
        if self.nat && self.directions != Directions::OneWay {
            return Err(SetupProblem::NatTwoWay);
        }
        if self.nat && self.rules > 0 && !self.stateful() {
            return Err(SetupProblem::NatWithoutState);
        }
        if self.lists > 0 && self.ip == IpVersion::V6 {
            return Err(SetupProblem::ListsInV6);
        }
        if self.lists > 0 && self.lists < self.list_sets {
            return Err(SetupProblem::EmptyLists { lists: self.lists, sets: self.list_sets });
        }
        if self.countries > 0 && self.ip == IpVersion::V6 {
            return Err(SetupProblem::CountriesInV6);
        }
        Ok(())
    }

    fn check_bulk(&self) -> Result<(), SetupProblem> {
        if self.zones == ZoneForm::Three {
            return Err(SetupProblem::SessionsInThreeZones);
        }
        if self.sessions.connections > MOST_CONNECTIONS {
            return Err(SetupProblem::TooManyTransfers(self.sessions.connections));
        }
        Ok(())
    }

    fn check_frames(&self) -> Result<(), SetupProblem> {
        let (clients, servers) = (self.clients(), self.servers());
        if self.flows > MAX_FLOWS {
            return Err(SetupProblem::TooManyFlows(self.flows));
        }
        if clients > MAX_HOSTS {
            return Err(SetupProblem::TooManyClients(clients));
        }
        self.frame.check_fits(self.ip)?;
        let pairs = u64::from(clients) * u64::from(servers);
        if u64::from(self.flows) % pairs != 0 {
            return Err(SetupProblem::Uneven { flows: self.flows, clients, servers });
        }
        if self.ip == IpVersion::V6 && self.udp_checksum() == UdpChecksum::Zero {
            return Err(SetupProblem::ZeroChecksumInV6);
        }
        self.check_cores()
    }

    fn check_sessions(&self) -> Result<(), SetupProblem> {
        let (clients, servers, flows) = (self.clients(), self.servers(), self.flows);
        if self.zones == ZoneForm::Three {
            return Err(SetupProblem::SessionsInThreeZones);
        }
        if flows < clients || flows.div_ceil(clients) > CLIENT_PORTS {
            return Err(SetupProblem::Pairs { flows, clients });
        }
        if flows < servers {
            return Err(SetupProblem::IdleServers { servers, flows });
        }
        self.sessions.check(self.kind, self.rules, self.stateful(), self.lists)?;
        self.check_cores()
    }

    fn check_cores(&self) -> Result<(), SetupProblem> {
        if self.cores > self.flows {
            return Err(SetupProblem::IdleCores { cores: self.cores, flows: self.flows });
        }
        Ok(())
    }

    /// Whether a machine with so many cores can do it.
    ///
    /// # Errors
    /// [`SetupProblem::MachineCannot`].
    pub(crate) fn check_machine(&self, available: u32) -> Result<(), SetupProblem> {
        let (needed, why) = match self.placement {
            Placement::Inline => (self.cores, "generator, firewall and sink share each"),
            Placement::Isolated => {
                (self.cores + 1, "those that generate, and at least one for the firewall alone")
            }
        };
        if needed <= available {
            return Ok(());
        }
        Err(SetupProblem::MachineCannot { needed, asked: self.cores, available, why })
    }
}

/// Frames a second over all lanes together that fill the busiest direction of the busiest link, preamble and gap
/// included; `None` when links have no rate.
pub fn line_rate(setup: &Setup) -> Option<f64> {
    let bits_per_second = setup.link_bits_per_second? as f64;
    let lanes = setup.lanes();
    let share = |wanted: &dyn Fn(Zone, Zone) -> bool| -> f64 {
        lanes.iter().filter(|(lane, _)| wanted(lane.from, lane.to)).map(|(_, share)| share).sum()
    };
    let busiest = [Zone::Private, Zone::Dmz, Zone::Hostile]
        .into_iter()
        .flat_map(|zone| [share(&|from, _| from == zone), share(&|_, to| to == zone)])
        .fold(0.0, f64::max);
    Some(setup.traffic.line_rate_frames_per_second(bits_per_second) / busiest)
}

fn largest_divisor(of: u32, at_most: u32) -> u32 {
    (1..=at_most.min(of.max(1))).rev().find(|d| of.is_multiple_of(*d)).unwrap_or(1)
}
