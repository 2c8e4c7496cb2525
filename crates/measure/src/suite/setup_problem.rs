//! Why levels that are right by themselves cannot go together.

use super::levels::{CLIENT_PORTS, MAX_FLOWS, MAX_HOSTS};
use crate::application::{MOST_CLIENTS, MOST_TRANSACTIONS, PAIRS};
use crate::bulk::MOST_CONNECTIONS;
use crate::frame::FrameError;
use crate::shape::Setup;

/// Why levels that are right by themselves cannot go together.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SetupProblem {
    /// A frame is too small for its IP version.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// Clients and servers would not all have the same number of flows.
    #[error("{flows} flows cannot be shared out evenly between {clients} clients and {servers} servers: flows must be a multiple of clients x servers = {}", u64::from(*clients) * u64::from(*servers))]
    Uneven {
        /// Flows.
        flows: u32,
        /// Clients.
        clients: u32,
        /// Servers.
        servers: u32,
    },
    /// More flows than the generator of frames keeps apart.
    #[error("frames have 1 to {MAX_FLOWS} flows, not {0}: more are for connections")]
    TooManyFlows(u32),
    /// More clients than the generator of frames has addresses for.
    #[error("frames have 1 to {MAX_HOSTS} clients, not {0}: more are for connections")]
    TooManyClients(u32),
    /// A core would have no flow to send.
    #[error("{cores} cores need at least as many flows, one each, not {flows}")]
    IdleCores {
        /// Cores.
        cores: u32,
        /// Flows.
        flows: u32,
    },
    /// The matching rule would stand behind the last one.
    #[error("the match cannot be at rule {position} of {rules}: write 1 to {rules}, `first` or `last`")]
    MatchBeyondRules {
        /// Position.
        position: u32,
        /// Rules.
        rules: u32,
    },
    /// A numbered match, but no rules.
    #[error("the match cannot be at rule {0} of a policy without rules: give `rules` a level of {0} or more")]
    MatchWithoutRules(u32),
    /// State without a policy.
    #[error(
        "stateful = true needs a policy: with rules = 0 there is no filter at all, so nothing keeps state"
    )]
    StateWithoutRules,
    /// NAT with traffic in both directions.
    #[error(
        "reverse traffic through NAT is not in this version: use directions = \"one-way\" with nat = true"
    )]
    NatTwoWay,
    /// NAT among stateless rules.
    #[error("nat = true with rules needs stateful = true: translation keeps state by its nature")]
    NatWithoutState,
    /// A family of no rules.
    #[error("rule_family says what the rules are like, and rules = 0 is no filter at all: give it rules")]
    FamilyWithoutRules,
    /// A block list that the traffic cannot meet.
    #[error("block lists hold IPv4 addresses in this version: use ip = 4 with lists")]
    ListsInV6,
    /// Fewer addresses than lists.
    #[error("{lists} listed addresses cannot be spread over {sets} lists: each needs at least one")]
    EmptyLists {
        /// Addresses.
        lists: u32,
        /// Lists.
        sets: u32,
    },
    /// A country table that the traffic cannot meet.
    #[error("country tables hold IPv4 subnets in this version: use ip = 4 with countries")]
    CountriesInV6,
    /// IPv6 without UDP checksum.
    #[error("udp_checksum = \"zero\" is not allowed with ip = 6 (RFC 8200 section 8.1): use \"valid\"")]
    ZeroChecksumInV6,
    /// Connections over three zones.
    #[error("connections and applications run between two zones in this version: use zones = \"two\"")]
    ConnectionsInThreeZones,
    /// Clients without a connection, or with more than they have ports.
    #[error("{flows} pairs of client address and port (`flows`) cannot be made of {clients} clients: each has 1 to {CLIENT_PORTS} ports, so that {clients} to {} pairs can be", u64::from(*clients) * u64::from(CLIENT_PORTS))]
    Pairs {
        /// Pairs.
        flows: u32,
        /// Clients.
        clients: u32,
    },
    /// Servers without a connection.
    #[error(
        "{servers} servers need at least as many pairs of client address and port (`flows`), not {flows}"
    )]
    IdleServers {
        /// Servers.
        servers: u32,
        /// Pairs.
        flows: u32,
    },
    /// Nothing to count.
    #[error("transactions = 0 makes no transactions: a transaction rate needs at least 1")]
    NoTransactions,
    /// The server closes behind its answer, and there is none.
    #[error(
        "close = \"server\" means that the server closes behind its last answer: it needs transactions, and hold = 0"
    )]
    ServerClosesNothing,
    /// A rate of ends by FIN, without FIN.
    #[error(
        "a tear-down rate is of connections that end with FIN (RFC 3511 section 5.4): use close = \"client\", \"client-four-way\" or \"server\""
    )]
    TornDownWithoutFin,
    /// Nothing forbids them.
    #[error("illegal traffic needs a policy that forbids it: with rules = 0 everything is allowed")]
    IllegalWithoutRules,
    /// Only state can tell them.
    #[error("illegal traffic of the kind `{0}` differs from the rest by state alone: use stateful = true")]
    IllegalWithoutState(&'static str),
    /// Nobody is on the list.
    #[error("illegal traffic of the kind `listed` needs a block list: give `lists` a level of 1 or more")]
    ListedWithoutLists,
    /// The pairs of client address and port do not last.
    #[error(
        "{rate} connections a second that keep an address and port for {taken} s each (hold {hold} s + reuse {reuse} s) need {needed} pairs, and flows = {flows}: raise `flows` (and `clients`: an address has {CLIENT_PORTS} ports), or lower the rate, `hold` or `reuse`"
    )]
    PairsRunOut {
        /// Legal connections a second.
        rate: f64,
        /// Seconds that a pair is taken.
        taken: f64,
        /// Of these, idle.
        hold: f64,
        /// Of these, at rest.
        reuse: f64,
        /// Pairs needed.
        needed: u64,
        /// Pairs there.
        flows: u32,
    },
    /// Connections held to the end of the trial need a pair each.
    #[error(
        "{connections} connections that are all held open need a pair of client address and port each, and flows = {flows}: raise `flows`, or open fewer"
    )]
    HeldBeyondPairs {
        /// Connections.
        connections: u64,
        /// Pairs.
        flows: u32,
    },
    /// The flood does not fit into the trial.
    #[error("a flood from second {after} to {} of the sustained load needs a second before it and one after it, and the load lasts {sustain} s: change attack_after_seconds, attack_seconds or sustain_seconds", after + seconds)]
    AttackOutside {
        /// Seconds from the start of the sustained load.
        after: f64,
        /// Seconds that it lasts.
        seconds: f64,
        /// Seconds of sustained load.
        sustain: f64,
    },
    /// The replacement would come after the end.
    #[error(
        "the policy is replaced after {after} s of a trial of {trial} s: replace_after_seconds must be less than trial_seconds"
    )]
    ReplacedTooLate {
        /// Seconds from the start.
        after: f64,
        /// Seconds of the trial.
        trial: f64,
    },
    /// More connections than iperf3 makes.
    #[error("a bulk transfer has 1 to {MOST_CONNECTIONS} connections, not {0}: iperf3 makes no more")]
    TooManyTransfers(u32),
    /// More virtual clients than there are ports for.
    #[error("application traffic has 1 to {MOST_CLIENTS} virtual clients, not {0}")]
    TooManyVirtualClients(u32),
    /// A connection with no transaction, or with more than servers answer.
    #[error("a connection of applications has 1 to {MOST_TRANSACTIONS} transactions, not {0}")]
    TransactionsOfConnection(u32),
    /// Several transactions where each connection ends with its file.
    #[error(
        "a connection has several transactions with protocol = \"http/1.1\", \"https\" or \"http/2\" alone: the others end with the file; \
         use transactions = 1"
    )]
    NotKeptAlive,
    /// What the parts of a mix say themselves.
    #[error(
        "`{0}` is said by each part of a mix: write it under [[mix.part]], or use a protocol that is no mix"
    )]
    SaidByMix(&'static str),
    /// Connections held open by a protocol that closes them.
    #[error(
        "connections stay open with protocol = \"http/1.1\", \"https\" or \"http/2\" alone: the others end with the file, and a mix is \
         measured by its rate"
    )]
    NotHeldOpen,
    /// More connections of applications than clients have ports for.
    #[error(
        "{0} connections of applications cannot be open at once: the clients have addresses and ports for {PAIRS}"
    )]
    HeldBeyondPorts(u64),
    /// Sizes of files that are not fetched by HTTP.
    #[error(
        "`object` chooses the files of HTTP: use protocol = \"http/1.0\", \"http/1.1\", \"https\" or \"http/2\", or object = \"nstl\""
    )]
    ObjectWithoutHttp,
    /// Active FTP, whose data connections the policies do not allow.
    #[error(
        "active FTP opens data connections from the server: no policy of this version allows them; use `ftp:get` or `ftp:put`, or \
         rules = 0 without nat"
    )]
    CallsBack,
    /// iperf3 counts whole seconds.
    #[error("a bulk transfer lasts whole seconds, not {0} s: iperf3 counts no less; change trial_seconds")]
    PartOfSecond(f64),
    /// The machine has too few cores.
    #[error("this needs {needed} cores ({why}) and the machine has {available}: try `--cores {}`", cores_that_fit(*.needed, *.asked, *.available))]
    MachineCannot {
        /// Cores needed in all.
        needed: u32,
        /// Cores asked for.
        asked: u32,
        /// Cores there.
        available: u32,
        /// What they are needed for.
        why: &'static str,
    },
}

impl SetupProblem {
    /// A rate of legal connections that needs more pairs of client address and port than there are. `seconds` is how long
    /// the rate would have to last to make as many connections as the trial makes.
    pub(crate) fn if_pairs_run_out(rate: f64, seconds: f64, setup: &Setup) -> Result<(), Self> {
        let Some(shape) = setup.connections() else { return Ok(()) };
        let (flows, hold, reuse) = (setup.traffic.flows, shape.hold_seconds, shape.reuse_seconds);
        let taken = hold + reuse;
        let needed = (rate * taken).min(rate * seconds).floor() as u64;
        if needed > u64::from(flows) {
            return Err(Self::PairsRunOut { rate, taken, hold, reuse, needed, flows });
        }
        Ok(())
    }

    /// More connections held open than there are pairs of client address and port.
    pub(crate) fn if_too_many_held(connections: u64, setup: &Setup) -> Result<(), Self> {
        let flows = setup.traffic.flows;
        if connections > u64::from(flows) {
            return Err(Self::HeldBeyondPairs { connections, flows });
        }
        Ok(())
    }
}

/// The most that `--cores` may ask for when `needed - asked` cores are wanted besides; at least 1.
fn cores_that_fit(needed: u32, asked: u32, available: u32) -> u32 {
    available.saturating_sub(needed.saturating_sub(asked)).max(1)
}
