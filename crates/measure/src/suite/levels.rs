//! One level for every factor, and the [`Setup`] that they make together, or why they cannot go together.

use super::connections::ConnectionLevels;
use super::factor::Factor;
use super::setup_problem::SetupProblem;
use super::value::{Match, Value};
use crate::application::{ApplicationShape, MOST_CLIENTS, MOST_TRANSACTIONS, Object, ProtocolMix};
use crate::bulk::{BulkShape, MOST_CONNECTIONS};
use crate::connections::{CloseBy, Illegal, TupleOrder};
use crate::frame::FrameMix;
use crate::level::Level;
use crate::procedure::{Flood, ProcedureKind, Sends};
use crate::shape::{
    Directions, EventLog, GatewayShape, IpVersion, Placement, PolicyShape, Setup, TestProtocol, TrafficShape,
    UdpChecksum, Workload, Zone, ZoneForm,
};
use rule_sets::Family;
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
/// Source addresses by default, if the flows divide into so many (EANTC's number of clients).
const DEFAULT_CLIENTS: u32 = 20;
/// Virtual clients by default: half of the most that the NSTL report used.
const DEFAULT_VIRTUAL_CLIENTS: u32 = 36;
/// Destination addresses by default, if the flows of a client divide into so many.
const DEFAULT_SERVERS: u32 = 10;

/// One level for every factor; what a suite does not say has its default.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Levels {
    pub(super) kind: ProcedureKind,
    given: BTreeMap<Factor, Value>,
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
    pub(crate) const fn of(kind: ProcedureKind) -> Self {
        Self { kind, given: BTreeMap::new() }
    }

    /// Sets one factor to a level that [`Factor::parse`] read for it.
    pub(crate) fn set(&mut self, factor: Factor, value: Value) {
        self.given.insert(factor, value);
    }

    /// A factor's level, defaults resolved.
    pub(crate) fn get(&self, factor: Factor) -> Value {
        self.given.get(&factor).cloned().unwrap_or_else(|| factor.default(self))
    }

    /// Every factor that matters to the procedure, but placement and cores, which results keep apart. Factors that came after there
    /// were results stand only where the suite or the user names them, so that results remain comparable: families of rules, offloads, settings of gateways, and
    /// of frames those that came with connections.
    pub(crate) fn factors<T>(&self, named: &BTreeMap<Factor, T>) -> BTreeMap<String, Level> {
        let shown = |factor: &Factor| match factor {
            Factor::Placement | Factor::Cores => false,
            Factor::RuleFamily
            | Factor::Offloads
            | Factor::Object
            | Factor::LookUps
            | Factor::DecisionCache
            | Factor::EventLog
            | Factor::ReceiveBuffer
            | Factor::MemoryLimit => named.contains_key(factor),
            Factor::Transactions if self.kind.has_virtual_clients() => named.contains_key(factor),
            Factor::ListSets | Factor::Countries | Factor::Fragments => {
                named.contains_key(factor) || !self.kind.sends_frames()
            }
            _ => true,
        };
        Factor::ALL
            .into_iter()
            .filter(|factor| factor.matters_to(self.kind) && shown(factor))
            .map(|factor| (factor.name().to_owned(), Level::of(factor, &self.get(factor))))
            .collect()
    }

    fn given_count(&self, factor: Factor) -> Option<u32> {
        match self.given.get(&factor)? {
            Value::Count(count) => Some(*count),
            _ => None,
        }
    }

    pub(super) fn default_clients(&self) -> u32 {
        if self.kind.has_virtual_clients() {
            return DEFAULT_VIRTUAL_CLIENTS;
        }
        if self.kind.has_connections() {
            return DEFAULT_CLIENTS.min(self.flows());
        }
        largest_divisor(self.flows() / self.given_count(Factor::Servers).unwrap_or(1), DEFAULT_CLIENTS)
    }

    pub(super) fn default_servers(&self) -> u32 {
        if self.kind.has_connections() {
            return DEFAULT_SERVERS.min(self.flows());
        }
        let (flows, clients) = (self.flows(), self.clients());
        let of_client = if flows.is_multiple_of(clients) { flows / clients } else { 1 };
        largest_divisor(of_client, DEFAULT_SERVERS)
    }

    /// Without addresses there is nothing to spread.
    fn used_lists(&self) -> u32 {
        if self.lists() == 0 { 1 } else { self.list_sets() }
    }

    fn connection_levels(&self) -> ConnectionLevels {
        ConnectionLevels {
            transactions: u16::try_from(self.transactions()).unwrap_or(u16::MAX),
            answer_bytes: self.answer(),
            close: self.close(),
            order: self.order(),
            hold_seconds: self.hold(),
            reuse_seconds: self.reuse(),
            illegal: self.illegal(),
        }
    }

    /// What a trial needs to know beside the setup.
    pub(crate) fn beside(&self) -> Beside {
        Beside { flood: self.flood(), connections: self.connections(), hold_seconds: self.hold() }
    }

    fn match_position(&self) -> Result<u32, SetupProblem> {
        match (self.rules(), self.matching()) {
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
        match self.kind.sends {
            Sends::Frames => self.check_frames()?,
            Sends::Connections { .. } => self.check_opened()?,
            Sends::Bulk => self.check_bulk()?,
            Sends::Application => self.check_application()?,
        }
        self.check_policy()?;
        Ok(Setup {
            zones: self.zones(),
            traffic: self.traffic(seed),
            workload: match self.kind.sends {
                Sends::Frames => Workload::Frames,
                Sends::Connections { .. } => Workload::Connections(self.connection_levels().shape(self.kind)),
                Sends::Bulk => Workload::Bulk(BulkShape { connections: self.connections() }),
                Sends::Application => Workload::Application(ApplicationShape {
                    clients: self.clients(),
                    protocol: self.protocol(),
                    object: self.object(),
                    transactions: self.transactions(),
                }),
            },
            policy: self.policy(seed)?,
            placement: self.placement(),
            link_bits_per_second: self.link(),
            offloads: self.offloads(),
        })
    }

    fn traffic(&self, seed: u64) -> TrafficShape {
        TrafficShape {
            frame: self.frame(),
            ip: self.ip(),
            flows: self.flows(),
            clients: self.clients(),
            servers: self.servers(),
            directions: self.directions(),
            udp_checksum: self.udp_checksum(),
            fragments: self.fragments(),
            cores: self.cores(),
            seed,
        }
    }

    fn policy(&self, seed: u64) -> Result<PolicyShape, SetupProblem> {
        Ok(PolicyShape {
            rules: self.rules(),
            match_position: self.match_position()?,
            rule_family: self.rule_family(),
            stateful: self.stateful(),
            nat: self.nat(),
            listed_addresses: self.lists(),
            lists: self.used_lists(),
            allowed_subnets: self.countries(),
            protocol: if self.kind.sends_frames() { TestProtocol::Udp } else { TestProtocol::Tcp },
            // A flood that the first rule drops would say little: it is to meet the firewall's state.
            admits_attackers: self.flood().is_some() && self.rules() > 0,
            gateway: GatewayShape {
                look_ups: self.look_ups(),
                keeps_decisions: self.decision_cache(),
                event_log: self.event_log(),
                receive_kb: self.receive_buffer(),
                memory_mb: self.memory_limit(),
            },
            seed,
        })
    }

    fn check_policy(&self) -> Result<(), SetupProblem> {
        if self.rules() == 0 && self.stateful() {
            return Err(SetupProblem::StateWithoutRules);
        }
        if self.rules() == 0 && self.rule_family().is_some() {
            return Err(SetupProblem::FamilyWithoutRules);
        }
        if self.nat() && self.directions() != Directions::OneWay {
            return Err(SetupProblem::NatTwoWay);
        }
        if self.nat() && self.rules() > 0 && !self.stateful() {
            return Err(SetupProblem::NatWithoutState);
        }
        if self.lists() > 0 && self.ip() == IpVersion::V6 {
            return Err(SetupProblem::ListsInV6);
        }
        if self.lists() > 0 && self.lists() < self.list_sets() {
            return Err(SetupProblem::EmptyLists { lists: self.lists(), sets: self.list_sets() });
        }
        if self.countries() > 0 && self.ip() == IpVersion::V6 {
            return Err(SetupProblem::CountriesInV6);
        }
        Ok(())
    }

    fn check_bulk(&self) -> Result<(), SetupProblem> {
        if self.zones() == ZoneForm::Three {
            return Err(SetupProblem::ConnectionsInThreeZones);
        }
        if self.connections() > MOST_CONNECTIONS {
            return Err(SetupProblem::TooManyTransfers(self.connections()));
        }
        Ok(())
    }

    fn check_application(&self) -> Result<(), SetupProblem> {
        if self.zones() == ZoneForm::Three {
            return Err(SetupProblem::ConnectionsInThreeZones);
        }
        if self.clients() > MOST_CLIENTS {
            return Err(SetupProblem::TooManyVirtualClients(self.clients()));
        }
        if self.protocol().calls_back() && (self.rules() > 0 || self.nat()) {
            return Err(SetupProblem::CallsBack);
        }
        if !(1..=MOST_TRANSACTIONS).contains(&self.transactions()) {
            return Err(SetupProblem::TransactionsOfConnection(self.transactions()));
        }
        let says_itself = self.protocol().stated().is_some();
        if says_itself && self.transactions() != 1 {
            return Err(SetupProblem::SaidByMix("transactions"));
        }
        if says_itself && self.object() != Object::Nstl {
            return Err(SetupProblem::SaidByMix("object"));
        }
        if self.transactions() > 1 && !self.protocol().keeps_alive() {
            return Err(SetupProblem::NotKeptAlive);
        }
        if self.object() != Object::Nstl && !self.protocol().is_http() {
            return Err(SetupProblem::ObjectWithoutHttp);
        }
        Ok(())
    }

    fn check_frames(&self) -> Result<(), SetupProblem> {
        let (clients, servers) = (self.clients(), self.servers());
        if self.flows() > MAX_FLOWS {
            return Err(SetupProblem::TooManyFlows(self.flows()));
        }
        if clients > MAX_HOSTS {
            return Err(SetupProblem::TooManyClients(clients));
        }
        self.frame().check_fits(self.ip())?;
        let pairs = u64::from(clients) * u64::from(servers);
        if u64::from(self.flows()) % pairs != 0 {
            return Err(SetupProblem::Uneven { flows: self.flows(), clients, servers });
        }
        if self.ip() == IpVersion::V6 && self.udp_checksum() == UdpChecksum::Zero {
            return Err(SetupProblem::ZeroChecksumInV6);
        }
        self.check_cores()
    }

    fn check_opened(&self) -> Result<(), SetupProblem> {
        let (clients, servers, flows) = (self.clients(), self.servers(), self.flows());
        if self.zones() == ZoneForm::Three {
            return Err(SetupProblem::ConnectionsInThreeZones);
        }
        if flows < clients || flows.div_ceil(clients) > CLIENT_PORTS {
            return Err(SetupProblem::Pairs { flows, clients });
        }
        if flows < servers {
            return Err(SetupProblem::IdleServers { servers, flows });
        }
        self.connection_levels().check(self.rules(), self.stateful(), self.lists())?;
        self.check_cores()
    }

    fn check_cores(&self) -> Result<(), SetupProblem> {
        if self.cores() > self.flows() {
            return Err(SetupProblem::IdleCores { cores: self.cores(), flows: self.flows() });
        }
        Ok(())
    }

    /// Whether a machine with so many cores can do it.
    ///
    /// # Errors
    /// [`SetupProblem::MachineCannot`].
    pub(crate) fn check_machine(&self, available: u32) -> Result<(), SetupProblem> {
        let (needed, why) = match self.placement() {
            Placement::Inline => (self.cores(), "generator, firewall and sink share each"),
            Placement::Isolated => {
                (self.cores() + 1, "those that generate, and at least one for the firewall alone")
            }
        };
        if needed <= available {
            return Ok(());
        }
        Err(SetupProblem::MachineCannot { needed, asked: self.cores(), available, why })
    }
}

/// The level of a factor as the type that its row reads: another would be a row whose `read` and `default` disagree.
macro_rules! levels {
    ($($visible:vis $name:ident: $factor:ident is $form:ident($type:ty)),+ $(,)?) => {
        impl Levels {
            $($visible fn $name(&self) -> $type {
                match self.get(Factor::$factor) {
                    Value::$form(level) => level,
                    other => unreachable!("`{other}` as a level of `{}`", Factor::$factor.name()),
                }
            })+
        }
    };
}

levels! {
    frame: Frame is Frame(FrameMix),
    flows: Flows is Count(u32),
    clients: Clients is Count(u32),
    servers: Servers is Count(u32),
    directions: Directions is Directions(Directions),
    zones: Zones is Zones(ZoneForm),
    pub(super) ip: Ip is Ip(IpVersion),
    pub(super) rules: Rules is Count(u32),
    matching: Match is Match(Match),
    rule_family: RuleFamily is Family(Option<Family>),
    stateful: Stateful is Flag(bool),
    nat: Nat is Flag(bool),
    lists: Lists is Count(u32),
    list_sets: ListSets is Count(u32),
    countries: Countries is Count(u32),
    transactions: Transactions is Count(u32),
    answer: Answer is Count(u32),
    close: Close is Close(CloseBy),
    order: Order is Order(TupleOrder),
    hold: Hold is Seconds(f64),
    reuse: Reuse is Seconds(f64),
    connections: Connections is Count(u32),
    illegal: Illegal is Illegal(Option<Illegal>),
    flood: Attack is Flood(Option<Flood>),
    fragments: Fragments is Count(u32),
    protocol: Protocol is Protocol(ProtocolMix),
    object: Object is Object(Object),
    link: Link is Link(Option<u64>),
    offloads: Offloads is Flag(bool),
    look_ups: LookUps is Flag(bool),
    decision_cache: DecisionCache is Flag(bool),
    event_log: EventLog is EventLog(EventLog),
    receive_buffer: ReceiveBuffer is Bound(Option<u32>),
    memory_limit: MemoryLimit is Bound(Option<u32>),
    udp_checksum: UdpChecksum is UdpChecksum(UdpChecksum),
    pub(crate) placement: Placement is Placement(Placement),
    pub(crate) cores: Cores is Count(u32),
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
