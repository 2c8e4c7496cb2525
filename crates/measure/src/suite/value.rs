//! A level as a suite's text is read: a value that cannot be wrong. Its `Display` is its one written form: `1M` flows are
//! written `1000000`.

use super::text::{flood_text, illegal_text, name_of, rate_text};
use crate::application::{Object, ProtocolMix};
use crate::connections::{CloseBy, Illegal, TupleOrder};
use crate::frame::FrameMix;
use crate::mix::PREFIX;
use crate::procedure::Flood;
use crate::shape::{Directions, EventLog, IpVersion, Placement, UdpChecksum, ZoneForm};
use rule_sets::Family;
use std::fmt;

/// Position of the rule that allows the test traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// The first.
    First,
    /// The last.
    Last,
    /// This one, from 1.
    At(u32),
}

/// A level of some factor; the factor's row says which form and which range.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A number of something.
    Count(u32),
    /// Seconds.
    Seconds(f64),
    /// Yes or no.
    Flag(bool),
    /// Frame size or mix.
    Frame(FrameMix),
    /// One- or two-way traffic.
    Directions(Directions),
    /// Zones of the bed.
    Zones(ZoneForm),
    /// IP version.
    Ip(IpVersion),
    /// Position of the rule that matches.
    Match(Match),
    /// What rules are like; `None`: the bench's own.
    Family(Option<Family>),
    /// How connections end.
    Close(CloseBy),
    /// The order of client addresses and ports.
    Order(TupleOrder),
    /// Connections that the policy forbids, if any.
    Illegal(Option<Illegal>),
    /// A flood, if any.
    Flood(Option<Flood>),
    /// How applications fetch files.
    Protocol(ProtocolMix),
    /// Which files they fetch by HTTP.
    Object(Object),
    /// Rate limit of the links in bits a second, if any.
    Link(Option<u64>),
    /// Where requests are recorded.
    EventLog(EventLog),
    /// So many of something, or as many as somebody else decides.
    Bound(Option<u32>),
    /// UDP checksum of the test frames.
    UdpChecksum(UdpChecksum),
    /// Where the work is done.
    Placement(Placement),
}

/// How rules of the bench's own are written, beside the names of families.
pub(super) const OWN_RULES: &str = "bench";
pub(super) const ZONES: [(&str, ZoneForm); 2] = [("two", ZoneForm::Two), ("three", ZoneForm::Three)];
pub(super) const IPS: [(&str, IpVersion); 2] = [("4", IpVersion::V4), ("6", IpVersion::V6)];
pub(super) const ORDERS: [(&str, TupleOrder); 2] =
    [("random", TupleOrder::Random), ("sequential", TupleOrder::Sequential)];
pub(super) const CHECKSUMS: [(&str, UdpChecksum); 2] =
    [("zero", UdpChecksum::Zero), ("valid", UdpChecksum::Valid)];
pub(super) const EVENT_LOGS: [(&str, EventLog); 3] =
    [("none", EventLog::None), ("memory", EventLog::Memory), ("disk", EventLog::Disk)];
pub(super) const PLACEMENTS: [(&str, Placement); 2] =
    [("inline", Placement::Inline), ("isolated", Placement::Isolated)];
/// How the NSTL benchmark's protocols and its files are written.
pub(super) const NSTL: &str = "nstl";

/// Files that are called by a word; others are by their KB.
pub(super) const OBJECTS: [(&str, Object); 2] = [(NSTL, Object::Nstl), ("mixed", Object::Mixed)];

/// Connections that are held open to the end of the trial are a matter of the procedure.
pub(super) const CLOSES: [(&str, CloseBy); 4] = [
    ("reset", CloseBy::Reset),
    ("client", CloseBy::Client),
    ("server", CloseBy::Server),
    ("client-four-way", CloseBy::ClientFourWay),
];

impl Value {
    /// The number that it stands for; none of words and of mixes.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Count(count) | Value::Match(Match::At(count)) => Some(f64::from(*count)),
            Value::Seconds(seconds) => Some(*seconds),
            Value::Frame(mix) => mix.fixed_size().map(|size| f64::from(size.bytes())),
            Value::Ip(ip) => Some(if *ip == IpVersion::V4 { 4.0 } else { 6.0 }),
            Value::Object(Object::Kb(number)) | Value::Bound(Some(number)) => Some(f64::from(*number)),
            Value::Link(rate) => rate.map(|bits| bits as f64),
            _ => None,
        }
    }

    /// Its place among others where its number does not give it: a mix of frames goes by its mean size.
    pub(crate) fn order(&self) -> Option<f64> {
        match self {
            Value::Frame(mix) if self.number().is_none() => Some(mix.mean_bytes()),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Count(count) | Value::Match(Match::At(count)) => write!(f, "{count}"),
            Value::Seconds(seconds) => write!(f, "{seconds}"),
            Value::Flag(flag) => write!(f, "{flag}"),
            Value::Frame(mix) => write!(f, "{mix}"),
            Value::Directions(Directions::OneWay) => f.write_str("one-way"),
            Value::Directions(Directions::TwoWay { reverse_share: 0.5 }) => f.write_str("two-way"),
            Value::Directions(Directions::TwoWay { reverse_share }) => write!(f, "two-way:{reverse_share}"),
            Value::Match(Match::First) => f.write_str("first"),
            Value::Match(Match::Last) => f.write_str("last"),
            Value::Family(family) => f.write_str(family.map_or(OWN_RULES, Family::name)),
            Value::Zones(zones) => f.write_str(name_of(zones, &ZONES)),
            Value::Ip(ip) => f.write_str(name_of(ip, &IPS)),
            Value::Close(close) => f.write_str(name_of(close, &CLOSES)),
            Value::Order(order) => f.write_str(name_of(order, &ORDERS)),
            Value::UdpChecksum(checksum) => f.write_str(name_of(checksum, &CHECKSUMS)),
            Value::Protocol(ProtocolMix::Only(protocol)) => f.write_str(protocol.name()),
            Value::Protocol(ProtocolMix::Nstl) => f.write_str(NSTL),
            Value::Protocol(ProtocolMix::Stated(mix)) => write!(f, "{PREFIX}{}", mix.name),
            Value::Object(Object::Kb(number)) | Value::Bound(Some(number)) => write!(f, "{number}"),
            Value::EventLog(place) => f.write_str(name_of(place, &EVENT_LOGS)),
            Value::Object(object) => f.write_str(name_of(object, &OBJECTS)),
            Value::Placement(placement) => f.write_str(name_of(placement, &PLACEMENTS)),
            Value::Illegal(None) | Value::Flood(None) | Value::Link(None) | Value::Bound(None) => {
                f.write_str("none")
            }
            Value::Illegal(Some(illegal)) => f.write_str(&illegal_text(illegal)),
            Value::Flood(Some(flood)) => f.write_str(&flood_text(flood)),
            Value::Link(Some(bits)) => f.write_str(&rate_text(*bits)),
        }
    }
}
