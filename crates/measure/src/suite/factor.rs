//! The factors of an experiment: what a suite may vary, and how each level is written.

use super::levels::Levels;
use super::parameters::ProcedureKind;

/// One factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Factor {
    /// Frame size or mix.
    Frame,
    /// Distinct 5-tuples.
    Flows,
    /// Source addresses.
    Clients,
    /// Destination addresses.
    Servers,
    /// One- or two-way traffic.
    Directions,
    /// Zones of the bed.
    Zones,
    /// IP version.
    Ip,
    /// Rules of the policy.
    Rules,
    /// Position of the rule that matches.
    Match,
    /// Connection tracking.
    Stateful,
    /// Source address translation.
    Nat,
    /// Addresses on the block lists.
    Lists,
    /// Lists that they are spread over.
    ListSets,
    /// Subnets of the country table.
    Countries,
    /// Requests a connection.
    Transactions,
    /// Bytes of each answer.
    Answer,
    /// How connections end.
    Close,
    /// The order of client addresses and ports.
    Order,
    /// Seconds that connections stay idle.
    Hold,
    /// Seconds that a client address and port rest.
    Reuse,
    /// Connections opened.
    Connections,
    /// Connections that the policy forbids.
    Illegal,
    /// A flood beside the connections.
    Attack,
    /// Fragments of each datagram.
    Fragments,
    /// Rate limit of the links.
    Link,
    /// UDP checksum of the test frames.
    UdpChecksum,
    /// Where the work is done.
    Placement,
    /// Cores that generate traffic.
    Cores,
}

impl Factor {
    /// All of them, in the order in which cells are listed.
    pub const ALL: [Factor; 28] = [
        Factor::Frame,
        Factor::Flows,
        Factor::Clients,
        Factor::Servers,
        Factor::Directions,
        Factor::Zones,
        Factor::Ip,
        Factor::Rules,
        Factor::Match,
        Factor::Stateful,
        Factor::Nat,
        Factor::Lists,
        Factor::ListSets,
        Factor::Countries,
        Factor::Transactions,
        Factor::Answer,
        Factor::Close,
        Factor::Order,
        Factor::Hold,
        Factor::Reuse,
        Factor::Connections,
        Factor::Illegal,
        Factor::Attack,
        Factor::Fragments,
        Factor::Link,
        Factor::UdpChecksum,
        Factor::Placement,
        Factor::Cores,
    ];

    /// The factor of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|factor| factor.name() == name)
    }

    /// As suites, `--set` and results write it.
    pub const fn name(self) -> &'static str {
        match self {
            Factor::Frame => "frame",
            Factor::Flows => "flows",
            Factor::Clients => "clients",
            Factor::Servers => "servers",
            Factor::Directions => "directions",
            Factor::Zones => "zones",
            Factor::Ip => "ip",
            Factor::Rules => "rules",
            Factor::Match => "match",
            Factor::Stateful => "stateful",
            Factor::Nat => "nat",
            Factor::Lists => "lists",
            Factor::ListSets => "list_sets",
            Factor::Countries => "countries",
            Factor::Transactions => "transactions",
            Factor::Answer => "answer",
            Factor::Close => "close",
            Factor::Order => "order",
            Factor::Hold => "hold",
            Factor::Reuse => "reuse",
            Factor::Connections => "connections",
            Factor::Illegal => "illegal",
            Factor::Attack => "attack",
            Factor::Fragments => "fragments",
            Factor::Link => "link",
            Factor::UdpChecksum => "udp_checksum",
            Factor::Placement => "placement",
            Factor::Cores => "cores",
        }
    }

    /// What a level may be, for messages and `FORMAT.md`.
    pub const fn levels(self) -> &'static str {
        match self {
            Factor::Frame => {
                "64 to 9216 bytes with FCS, `imix:tolly`, `imix:simple` or `genome:…` (RFC 6985)"
            }
            Factor::Flows => "1 to 10,000,000; `100k` and `1M` may be written",
            Factor::Clients => "1 to 65,536 addresses",
            Factor::Servers => "1 to 32,256 addresses",
            Factor::Directions => {
                "`one-way`, `two-way`, or `two-way:SHARE` with the share of frames that flow back, as in `two-way:0.3`"
            }
            Factor::Zones => "`two` or `three`",
            Factor::Ip => "4 or 6",
            Factor::Rules => "0 (no filter) to 100,000",
            Factor::Match => "`first`, `last`, or a position from 1",
            Factor::Stateful | Factor::Nat => "true or false",
            Factor::Lists => "0 to 100,000,000 addresses",
            Factor::ListSets => "1 to 3 lists",
            Factor::Countries => "0 (no country table), or 12 to 65,536 subnets",
            Factor::Transactions => "0 to 65,535 requests",
            Factor::Answer => "1 to 65,000 bytes",
            Factor::Close => "`reset`, `client`, `server` or `client-four-way`",
            Factor::Order => "`random` or `sequential`",
            Factor::Hold | Factor::Reuse => "0 to 86,400 seconds; `\"0.5\"` may be written",
            Factor::Connections => "1 to 10,000,000 connections; of bulk transfers 1 to 128",
            Factor::Illegal => {
                "`none`, or a share of all attempts from 0.01% to 99.99% and what is wrong with them, as in `80%:address,port`: \
                 address, port, protocol, ack, rst, fin, out-of-window, listed"
            }
            Factor::Attack => {
                "`none`, or what, how many a second and from how many addresses, as in `syn:66485` (any of 16.7 million) or \
                 `udp:50k:1M`: syn, syn-ack, ack, rst, udp, fragment"
            }
            Factor::Fragments => "1 (whole) or 2",
            Factor::Link => "`none`, or a rate in bits a second from `1M` to `100G`, as in `100M`",
            Factor::UdpChecksum => "`zero` or `valid`",
            Factor::Placement => "`inline` or `isolated`",
            Factor::Cores => "1 to 1024",
        }
    }

    /// Whether the factor makes a difference to a procedure: frames have sizes, connections have ends.
    pub const fn matters_to(self, procedure: ProcedureKind) -> bool {
        use ProcedureKind as P;
        match self {
            Factor::Frame | Factor::Directions | Factor::Fragments | Factor::Link | Factor::UdpChecksum => {
                procedure.sends_frames()
            }
            Factor::Transactions | Factor::Answer | Factor::Order => procedure.has_sessions(),
            Factor::Close | Factor::Reuse => procedure.has_sessions() && !procedure.holds_open(),
            Factor::Illegal | Factor::Hold => procedure.has_sessions() && !matches!(procedure, P::Resets),
            Factor::Attack => {
                matches!(procedure, P::ConnectionRate | P::TransactionRate | P::TeardownRate | P::Steady)
            }
            Factor::Connections => matches!(procedure, P::SessionRate | P::Resets | P::Bulk),
            // A bulk transfer is between the zones' own addresses, and the kernel chooses the ports.
            Factor::Flows | Factor::Clients | Factor::Servers => !matches!(procedure, P::Bulk),
            _ => true,
        }
    }

    /// The procedures that it makes a difference to, for messages.
    pub(super) fn procedures(self) -> String {
        let matters = ProcedureKind::ALL.into_iter().filter(|kind| self.matters_to(*kind));
        matters.map(ProcedureKind::name).collect::<Vec<_>>().join(", ")
    }

    /// Reads a level and gives it back in its one written form: `1M` flows become `1000000`.
    ///
    /// # Errors
    /// Why the text is no level of this factor, and what would be right.
    pub fn level(self, text: &str) -> Result<String, String> {
        let mut levels = Levels::of(ProcedureKind::Throughput);
        levels.set(self, text)?;
        Ok(levels.written(self))
    }
}
