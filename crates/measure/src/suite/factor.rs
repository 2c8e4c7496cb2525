//! The factors of an experiment: one row of [`FACTORS`] a factor says what a suite may vary, how each level is read, what
//! stands where a suite says nothing, and how reports call it.

use super::levels::{Levels, MAX_CLIENTS, MAX_CONNECTIONS, MAX_HOSTS};
use super::text::{
    bound, count, directions, family, flag, flood, illegal, link, matching, object, one_of, protocol, seconds,
};
use super::value::{CHECKSUMS, CLOSES, EVENT_LOGS, IPS, ORDERS, PLACEMENTS, Value, ZONES};
use crate::application::{self, Object, Protocol, ProtocolMix};
use crate::connections::{CloseBy, MOST_ANSWER_BYTES, TupleOrder};
use crate::frame::{FrameMix, FrameSize};
use crate::level::{self, LATE, Words};
use crate::mix::{Mix, PREFIX};
use crate::procedure::{PROCEDURES, ProcedureKind, ProcedureRow as P, Sends};
use crate::shape::{Directions, EventLog, IpVersion, Placement, UdpChecksum, ZoneForm};
use std::sync::Arc;

/// What is to be known of a factor.
#[derive(Debug, Clone, Copy)]
pub struct FactorRow {
    /// How it and its levels are called.
    pub words: Words,
    /// What a level may be, for messages and `FORMAT.md`.
    pub takes: &'static str,
    /// It is about the policy: what only forwards has none, so there the factor's figures differ by chance.
    pub of_policy: bool,
    matters: fn(ProcedureKind) -> bool,
    read: fn(&str) -> Option<Value>,
    default: fn(&Levels) -> Value,
}

/// Makes the enum and its table of the rows.
macro_rules! factors {
    ($(
        $(#[doc = $line:literal])+
        $name:ident {
            key: $key:literal, title: $title:literal, rank: $rank:expr, telling: $telling:literal,
            of_policy: $of_policy:literal,
            takes: $takes:literal,
            matters: $matters:expr,
            read: $read:expr, default: $default:expr,
            short: $short:expr, phrase: $phrase:expr,
        }
    )+) => {
        /// One factor.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Factor {
            $($(#[doc = $line])+ $name,)+
        }

        impl Factor {
            /// All of them, in the order in which cells are listed.
            pub const ALL: [Factor; [$($key),+].len()] = [$(Factor::$name),+];
        }

        /// Every factor's row, in the order of [`Factor`].
        pub const FACTORS: &[FactorRow] = &[$(FactorRow {
            words: Words {
                key: $key, title: $title, rank: $rank, telling: $telling, short: $short, phrase: $phrase,
            },
            takes: $takes,
            of_policy: $of_policy,
            matters: $matters,
            read: $read,
            default: $default,
        }),+];
    };
}

impl Factor {
    /// Its row.
    pub const fn row(self) -> &'static FactorRow {
        &FACTORS[self as usize]
    }

    /// The factor of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|factor| factor.name() == name)
    }

    /// As suites, `--set` and results write it.
    pub const fn name(self) -> &'static str {
        self.row().words.key
    }

    /// What a level may be, for messages and `FORMAT.md`.
    pub const fn levels(self) -> &'static str {
        self.row().takes
    }

    /// Whether the factor makes a difference to a procedure: frames have sizes, connections have ends.
    pub fn matters_to(self, procedure: ProcedureKind) -> bool {
        (self.row().matters)(procedure)
    }

    /// The procedures that it makes a difference to, for messages.
    pub(super) fn procedures(self) -> String {
        let matters = PROCEDURES.into_iter().filter(|kind| self.matters_to(kind));
        matters.map(|kind| kind.name).collect::<Vec<_>>().join(", ")
    }

    /// Reads a level.
    ///
    /// # Errors
    /// Why the text is no level of this factor, and what would be right.
    pub fn parse(self, text: &str) -> Result<Value, String> {
        // A mix has an own grammar, whose mistakes it tells better.
        if self == Factor::Frame {
            return FrameMix::parse(text).map(Value::Frame).map_err(|e| e.to_string());
        }
        let row = self.row();
        (row.read)(text)
            .ok_or_else(|| format!("`{text}` is no level of `{}`: it takes {}", row.words.key, row.takes))
    }

    /// Reads a level of a suite that states these mixes.
    ///
    /// # Errors
    /// As [`Self::parse`]; or no mix has the name.
    pub fn parse_among(self, text: &str, mixes: &[Arc<Mix>]) -> Result<Value, String> {
        let Some(name) = text.strip_prefix(PREFIX).filter(|_| self == Factor::Protocol) else {
            return self.parse(text);
        };
        let found = mixes.iter().find(|mix| mix.name == name);
        found.map(|mix| Value::Protocol(ProtocolMix::Stated(mix.clone()))).ok_or_else(|| {
            let names = mixes.iter().map(|mix| mix.name.as_str());
            format!("no mix is called `{name}`: {}", toml_reader::suggestion(name, names))
        })
    }

    /// The level where a suite says nothing.
    pub(super) fn default(self, levels: &Levels) -> Value {
        (self.row().default)(levels)
    }
}

/// Pairs of client address and port by default.
const DEFAULT_PAIRS: u32 = super::CLIENT_PORTS;
/// Flows of frames by default.
const DEFAULT_FLOWS: u32 = 1000;

const fn always(_: &P) -> bool {
    true
}

/// A bulk transfer is between the zones' own addresses and the kernel chooses the ports; applications have addresses of their
/// own bed.
const fn has_addresses(kind: &P) -> bool {
    !matches!(kind.sends, Sends::Bulk | Sends::Application)
}

const fn has_clients(kind: &P) -> bool {
    has_addresses(kind) || kind.has_virtual_clients()
}

const fn ends_connections(kind: &P) -> bool {
    kind.has_connections() && !kind.holds_open()
}

fn smallest_frame(_: &Levels) -> Value {
    #[expect(clippy::unwrap_used, reason = "64 is a frame size")]
    Value::Frame(FrameMix::fixed(FrameSize::new(FrameSize::MIN_BYTES).unwrap()))
}

/// Of applications the pairs that can be, for which firewalls have room made.
fn default_flows(levels: &Levels) -> Value {
    Value::Count(match levels.kind.sends {
        Sends::Connections { .. } => DEFAULT_PAIRS,
        Sends::Application => application::PAIRS,
        Sends::Frames | Sends::Bulk => DEFAULT_FLOWS,
    })
}

fn default_close(levels: &Levels) -> Value {
    Value::Close(match levels.kind.sends {
        Sends::Connections { close } => close,
        Sends::Frames | Sends::Bulk | Sends::Application => CloseBy::Reset,
    })
}

/// IPv6 demands a checksum; in IPv4 it is left out, because a real card would have checked it already.
fn default_checksum(levels: &Levels) -> Value {
    Value::UdpChecksum(match levels.ip() {
        IpVersion::V4 => UdpChecksum::Zero,
        IpVersion::V6 => UdpChecksum::Valid,
    })
}

factors! {
    /// Frame size or mix.
    Frame {
        key: "frame", title: "Frame size, bytes with FCS", rank: 0, telling: true, of_policy: false,
        takes: "64 to 9216 bytes with FCS, `imix:tolly`, `imix:simple` or `genome:…` (RFC 6985)",
        matters: P::sends_frames,
        read: |t| FrameMix::parse(t).ok().map(Value::Frame), default: smallest_frame,
        short: level::mix, phrase: |l| {
            format!("{}{} frames", l.short(), if l.number.is_some() { "-byte" } else { "" })
        },
    }

    /// Distinct 5-tuples.
    Flows {
        key: "flows", title: "Concurrent flows", rank: 2, telling: true, of_policy: false,
        takes: "1 to 10,000,000; `100k` and `1M` may be written",
        matters: has_addresses,
        read: |t| count(t, 1..=MAX_CONNECTIONS),
        default: default_flows,
        short: level::counted, phrase: level::flows,
    }

    /// Source addresses; of applications, virtual clients.
    Clients {
        key: "clients", title: "Clients", rank: LATE, telling: true, of_policy: false,
        takes: "1 to 65,536 addresses; of applications 1 to 1,024 virtual clients",
        matters: has_clients,
        read: |t| count(t, 1..=MAX_CLIENTS), default: |l| Value::Count(l.default_clients()),
        short: level::text, phrase: level::clients,
    }

    /// Destination addresses.
    Servers {
        key: "servers", title: "Servers", rank: LATE, telling: false, of_policy: false,
        takes: "1 to 32,256 addresses",
        matters: has_addresses,
        read: |t| count(t, 1..=MAX_HOSTS), default: |l| Value::Count(l.default_servers()),
        short: level::text, phrase: level::servers,
    }

    /// One- or two-way traffic.
    Directions {
        key: "directions", title: "Directions", rank: 4, telling: true, of_policy: false,
        takes: "`one-way`, `two-way`, or `two-way:SHARE` with the share of frames that flow back, 0.001 to 0.999, as in `two-way:0.3`",
        matters: P::sends_frames,
        read: directions, default: |_| Value::Directions(Directions::OneWay),
        short: level::text, phrase: level::text,
    }

    /// Zones of the bed.
    Zones {
        key: "zones", title: "Zones", rank: LATE, telling: false, of_policy: false,
        takes: "`two` or `three`",
        matters: always,
        read: |t| one_of(t, &ZONES).map(Value::Zones), default: |_| Value::Zones(ZoneForm::Two),
        short: level::text, phrase: |l| format!("{} zones", l.text),
    }

    /// IP version.
    Ip {
        key: "ip", title: "Ip", rank: LATE, telling: false, of_policy: false,
        takes: "4 or 6",
        matters: always,
        read: |t| one_of(t, &IPS).map(Value::Ip), default: |_| Value::Ip(IpVersion::V4),
        short: level::text, phrase: |l| format!("IPv{}", l.text),
    }

    /// Rules of the policy.
    Rules {
        key: "rules", title: "Rules", rank: 5, telling: true, of_policy: true,
        takes: "0 (no filter) to 100,000",
        matters: always,
        read: |t| count(t, 0..=100_000), default: |_| Value::Count(0),
        short: level::text, phrase: level::rules,
    }

    /// Position of the rule that matches.
    Match {
        key: "match", title: "Matching rule", rank: LATE, telling: true, of_policy: true,
        takes: "`first`, `last`, or a position from 1",
        matters: always,
        read: matching, default: |_| Value::Match(super::value::Match::Last),
        short: level::text, phrase: |l| match l.number {
            Some(_) => format!("match at rule {}", l.text),
            None => format!("match at the {} rule", l.text),
        },
    }

    /// What the rules beside the matching one are like.
    RuleFamily {
        key: "rule_family", title: "Family of rules", rank: 5, telling: true, of_policy: true,
        takes: "`bench` (rules of the bench's own), or a family of ClassBench's: acl1 to acl5, fw1 to fw5, ipc1, ipc2",
        matters: always,
        read: |t| family(t).map(Value::Family), default: |_| Value::Family(None),
        short: level::text, phrase: |l| match l.text.as_str() {
            "bench" => "rules of the bench".into(),
            _ => format!("rules as in {}", l.text),
        },
    }

    /// Connection tracking.
    Stateful {
        key: "stateful", title: "Stateful", rank: LATE, telling: false, of_policy: true,
        takes: "true or false",
        matters: always,
        read: |t| flag(t).map(Value::Flag), default: |l| Value::Flag(l.rules() > 0),
        short: level::text, phrase: |l| if l.text == "true" { "stateful" } else { "stateless" }.into(),
    }

    /// Source address translation.
    Nat {
        key: "nat", title: "Nat", rank: LATE, telling: false, of_policy: true,
        takes: "true or false",
        matters: always,
        read: |t| flag(t).map(Value::Flag), default: |_| Value::Flag(false),
        short: level::text, phrase: |l| if l.text == "true" { "with NAT" } else { "without NAT" }.into(),
    }

    /// Addresses on the block lists.
    Lists {
        key: "lists", title: "Listed addresses", rank: LATE, telling: true, of_policy: true,
        takes: "0 to 100,000,000 addresses",
        matters: always,
        read: |t| count(t, 0..=100_000_000), default: |_| Value::Count(0),
        short: level::counted, phrase: |l| match l.text.as_str() {
            "0" => "no block list".into(),
            _ => format!("{} listed addresses", l.short()),
        },
    }

    /// Lists that they are spread over.
    ListSets {
        key: "list_sets", title: "List sets", rank: LATE, telling: false, of_policy: true,
        takes: "1 to 3 lists",
        matters: always,
        read: |t| count(t, 1..=3), default: |_| Value::Count(1),
        short: level::text, phrase: level::list_sets,
    }

    /// Subnets of the country table.
    Countries {
        key: "countries", title: "Countries", rank: LATE, telling: true, of_policy: true,
        takes: "0 (no country table), or 12 to 65,536 subnets",
        matters: always,
        read: |t| count(t, 0..=0).or_else(|| count(t, 12..=65_536)), default: |_| Value::Count(0),
        short: level::text, phrase: |l| match l.text.as_str() {
            "0" => "no country table".into(),
            _ => format!("{} allowed networks", l.text),
        },
    }

    /// Requests a connection.
    Transactions {
        key: "transactions", title: "Transactions", rank: LATE, telling: false, of_policy: false,
        takes: "0 to 65,535 requests; of applications 1 to 1,000",
        matters: |p| p.has_connections() || p.factors.contains(&Factor::Transactions),
        read: |t| count(t, 0..=65_535), default: |_| Value::Count(1),
        short: level::text, phrase: level::transactions,
    }

    /// Bytes of each answer.
    Answer {
        key: "answer", title: "Answer", rank: LATE, telling: false, of_policy: false,
        takes: "1 to 65,000 bytes",
        matters: P::has_connections,
        read: |t| count(t, 1..=MOST_ANSWER_BYTES), default: |_| Value::Count(1),
        short: level::text, phrase: |l| format!("{}-byte answers", l.text),
    }

    /// How connections end.
    Close {
        key: "close", title: "Close", rank: LATE, telling: false, of_policy: false,
        takes: "`reset`, `client`, `server` or `client-four-way`",
        matters: ends_connections,
        read: |t| one_of(t, &CLOSES).map(Value::Close), default: default_close,
        short: level::text, phrase: |l| format!("closed by {}", l.text),
    }

    /// The order of client addresses and ports.
    Order {
        key: "order", title: "Order of address and port", rank: 8, telling: true, of_policy: false,
        takes: "`random` or `sequential`",
        matters: P::has_connections,
        read: |t| one_of(t, &ORDERS).map(Value::Order), default: |_| Value::Order(TupleOrder::Random),
        short: level::text, phrase: |l| format!("{} order", l.text),
    }

    /// Seconds that connections stay idle.
    Hold {
        key: "hold", title: "Hold", rank: LATE, telling: false, of_policy: false,
        takes: "0 to 86,400 seconds; `\"0.5\"` may be written",
        matters: |p| p.factors.contains(&Factor::Hold),
        read: |t| seconds(t).map(Value::Seconds), default: |_| Value::Seconds(0.0),
        short: level::text, phrase: |l| format!("held open {} s", l.text),
    }

    /// Seconds that a client address and port rest.
    Reuse {
        key: "reuse", title: "Reuse", rank: LATE, telling: false, of_policy: false,
        takes: "0 to 86,400 seconds; `\"0.5\"` may be written",
        matters: ends_connections,
        read: |t| seconds(t).map(Value::Seconds), default: |_| Value::Seconds(0.0),
        short: level::text, phrase: |l| format!("ports rest {} s", l.text),
    }

    /// Connections opened.
    Connections {
        key: "connections", title: "Connections", rank: 1, telling: true, of_policy: false,
        takes: "1 to 10,000,000 connections; of bulk transfers 1 to 128",
        matters: |p| p.factors.contains(&Factor::Connections),
        read: |t| count(t, 1..=MAX_CONNECTIONS),
        default: |l| Value::Count(if l.kind.sends == Sends::Bulk { 1 } else { 1000 }),
        short: level::counted_from_1e5, phrase: level::connections,
    }

    /// How applications fetch files.
    Protocol {
        key: "protocol", title: "Protocol", rank: LATE, telling: false, of_policy: false,
        takes: "`http/1.0`, `http/1.1`, `https`, `http/2`, `ftp:get`, `ftp:put`, `ftp:active-get`, `ftp:active-put`, `nstl`, or `mix:NAME`, a mix that the suite states under [[mix]]",
        matters: |p| p.factors.contains(&Factor::Protocol),
        read: |t| protocol(t).map(Value::Protocol), default: |_| Value::Protocol(ProtocolMix::Only(Protocol::Http10)),
        short: level::text, phrase: level::protocol,
    }

    /// Files that are fetched by HTTP.
    Object {
        key: "object", title: "Object, KB", rank: 3, telling: true, of_policy: false,
        takes: "1 to 1,024 KB (of 1,024 bytes), `mixed` (the ten objects of RFC 9411's table 4) or `nstl`",
        matters: |p| p.factors.contains(&Factor::Object),
        read: |t| object(t).map(Value::Object), default: |_| Value::Object(Object::Nstl),
        short: level::text, phrase: |l| match l.number {
            Some(_) => format!("objects of {} KB", l.text),
            None if l.text == "mixed" => "mixed objects".into(),
            None => "files as NSTL's".into(),
        },
    }

    /// Connections that the policy forbids.
    Illegal {
        key: "illegal", title: "Illegal traffic", rank: 9, telling: true, of_policy: false,
        takes: "`none`, or a share of all attempts from 0.01% to 99.99% and what is wrong with them, as in `80%:address,port`: \
                address, port, protocol, ack, rst, fin, out-of-window, listed",
        matters: |p| p.factors.contains(&Factor::Illegal),
        read: |t| illegal(t).map(Value::Illegal), default: |_| Value::Illegal(None),
        short: level::share, phrase: level::illegal_phrase,
    }

    /// A flood beside the connections.
    Attack {
        key: "attack", title: "Flood", rank: 10, telling: true, of_policy: false,
        takes: "`none`, or what, how many a second and from how many addresses, as in `syn:66485` (any of 16.7 million) or \
                `udp:50k:1M`: syn, syn-ack, ack, rst, udp, fragment",
        matters: |p| p.factors.contains(&Factor::Attack),
        read: |t| flood(t).map(Value::Flood), default: |_| Value::Flood(None),
        short: level::text, phrase: level::attack_phrase,
    }

    /// Fragments of each datagram.
    Fragments {
        key: "fragments", title: "Fragments", rank: LATE, telling: false, of_policy: false,
        takes: "1 (whole) or 2",
        matters: P::sends_frames,
        read: |t| count(t, 1..=2), default: |_| Value::Count(1),
        short: level::text, phrase: |l| match l.text.as_str() {
            "1" => "whole".into(),
            _ => format!("in {} fragments", l.text),
        },
    }

    /// Rate limit of the links.
    Link {
        key: "link", title: "Link", rank: LATE, telling: false, of_policy: false,
        takes: "`none`, or a rate in bits a second from `1M` to `100G`, as in `100M`",
        matters: |p| p.sends_frames() || p.has_virtual_clients(),
        read: |t| link(t).map(Value::Link), default: |_| Value::Link(None),
        short: level::text, phrase: |l| match l.text.as_str() {
            "none" => "links without a rate limit".into(),
            _ => format!("links of {}bit/s", l.text),
        },
    }

    /// Whether TCP segments travel put together (TSO, GSO, GRO).
    Offloads {
        key: "offloads", title: "Offloads", rank: LATE, telling: true, of_policy: false,
        takes: "true or false",
        matters: |p| p.factors.contains(&Factor::Offloads),
        read: |t| flag(t).map(Value::Flag), default: |_| Value::Flag(true),
        short: level::text, phrase: |l| if l.text == "true" { "with offloads" } else { "without offloads" }.into(),
    }

    /// Whether a gateway looks names up.
    LookUps {
        key: "look_ups", title: "Look-ups", rank: LATE, telling: true, of_policy: true,
        takes: "true or false",
        matters: P::has_virtual_clients,
        read: |t| flag(t).map(Value::Flag), default: |_| Value::Flag(false),
        short: level::text, phrase: |l| if l.text == "true" { "names looked up" } else { "no look-ups" }.into(),
    }

    /// Whether a gateway keeps decisions.
    DecisionCache {
        key: "decision_cache", title: "Decision cache", rank: LATE, telling: true, of_policy: true,
        takes: "true or false",
        matters: P::has_virtual_clients,
        read: |t| flag(t).map(Value::Flag), default: |_| Value::Flag(true),
        short: level::text, phrase: |l| if l.text == "true" { "decisions kept" } else { "no decisions kept" }.into(),
    }

    /// Where a gateway records requests that pass.
    EventLog {
        key: "event_log", title: "Event log", rank: LATE, telling: true, of_policy: true,
        takes: "`none`, `memory` or `disk`",
        matters: P::has_virtual_clients,
        read: |t| one_of(t, &EVENT_LOGS).map(Value::EventLog), default: |_| Value::EventLog(EventLog::None),
        short: level::text, phrase: |l| match l.text.as_str() {
            "none" => "no event log".into(),
            place => format!("requests recorded {}", if place == "disk" { "on disk" } else { "in memory" }),
        },
    }

    /// What the kernel may keep of a connection to the firewall itself.
    ReceiveBuffer {
        key: "receive_buffer", title: "Receive buffer, KB", rank: LATE, telling: true, of_policy: false,
        takes: "`none` (as the kernel decides), or 4 to 6,144 KB (of 1,024 bytes) of a connection",
        matters: P::has_virtual_clients,
        read: |t| bound(t, 4..=6_144).map(Value::Bound), default: |_| Value::Bound(None),
        short: level::text, phrase: |l| match l.text.as_str() {
            "none" => "receive buffers as the kernel has them".into(),
            kb => format!("receive buffers of {kb} KB"),
        },
    }

    /// Memory that the firewall's own programs may take.
    MemoryLimit {
        key: "memory_limit", title: "Memory limit, MB", rank: LATE, telling: true, of_policy: false,
        takes: "`none`, or 8 to 1,048,576 MB (of 1,048,576 bytes)",
        matters: P::has_virtual_clients,
        read: |t| bound(t, 8..=1_048_576).map(Value::Bound), default: |_| Value::Bound(None),
        short: level::text, phrase: |l| match l.text.as_str() {
            "none" => "memory without a limit".into(),
            mb => format!("{mb} MB of memory"),
        },
    }

    /// UDP checksum of the test frames.
    UdpChecksum {
        key: "udp_checksum", title: "Udp checksum", rank: LATE, telling: false, of_policy: false,
        takes: "`zero` or `valid`",
        matters: P::sends_frames,
        read: |t| one_of(t, &CHECKSUMS).map(Value::UdpChecksum), default: default_checksum,
        short: level::text, phrase: |l| format!("UDP checksum {}", l.text),
    }

    /// Where the work is done.
    Placement {
        key: "placement", title: "Placement", rank: 99, telling: true, of_policy: false,
        takes: "`inline` or `isolated`",
        matters: always,
        read: |t| one_of(t, &PLACEMENTS).map(Value::Placement), default: |_| Value::Placement(Placement::Inline),
        short: level::text, phrase: level::text,
    }

    /// Cores that generate traffic.
    Cores {
        key: "cores", title: "Cores", rank: 7, telling: true, of_policy: false,
        takes: "1 to 1024",
        matters: always,
        read: |t| count(t, 1..=1024), default: |_| Value::Count(1),
        short: level::text, phrase: level::cores,
    }
}
