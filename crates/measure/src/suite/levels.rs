//! One level for every factor, and the [`Setup`] that they make together, or why they cannot go together.

use super::factor::Factor;
use crate::frame::{FrameError, FrameMix, FrameSize};
use crate::shape::{
    Directions, IpVersion, Placement, PolicyShape, Setup, TrafficShape, UdpChecksum, Zone, ZoneForm,
};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Most flows that the generator can keep apart.
pub const MAX_FLOWS: u32 = 4_000_000;
/// Hosts that every zone has room for.
pub const MAX_HOSTS: u32 = 32_256;
/// Source addresses by default, if the flows divide into so many (EANTC's number of clients).
const DEFAULT_CLIENTS: u32 = 20;
/// Destination addresses by default, if the flows of a client divide into so many.
const DEFAULT_SERVERS: u32 = 10;

/// Why levels that are right by themselves cannot go together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
    /// A block list that the traffic cannot meet.
    #[error("block lists hold IPv4 addresses in this version: use ip = 4 with lists")]
    ListsInV6,
    /// IPv6 without UDP checksum.
    #[error("udp_checksum = \"zero\" is not allowed with ip = 6 (RFC 8200 section 8.1): use \"valid\"")]
    ZeroChecksumInV6,
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

/// The most that `--cores` may ask for when `needed - asked` cores are wanted besides; at least 1.
fn cores_that_fit(needed: u32, asked: u32, available: u32) -> u32 {
    available.saturating_sub(needed.saturating_sub(asked)).max(1)
}

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
    link: Option<u64>,
    udp_checksum: Option<UdpChecksum>,
    pub(crate) placement: Placement,
    pub(crate) cores: u32,
}

impl Default for Levels {
    fn default() -> Self {
        #[expect(clippy::unwrap_used, reason = "64 is a frame size")]
        let smallest = FrameSize::new(FrameSize::MIN_BYTES).unwrap();
        Self {
            frame: FrameMix::fixed(smallest),
            flows: 1000,
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
            link: None,
            udp_checksum: None,
            placement: Placement::Inline,
            cores: 1,
        }
    }
}

impl Levels {
    /// Sets one factor.
    ///
    /// # Errors
    /// Why the text is no level of it.
    pub(crate) fn set(&mut self, factor: Factor, text: &str) -> Result<(), String> {
        let wrong = || format!("`{text}` is no level of `{}`: it takes {}", factor.name(), factor.levels());
        let count = |range| count(text, range).ok_or_else(wrong);
        match factor {
            Factor::Frame => self.frame = FrameMix::parse(text).map_err(|e| e.to_string())?,
            Factor::Flows => self.flows = count(1..=MAX_FLOWS)?,
            Factor::Clients => self.clients = Some(count(1..=MAX_HOSTS)?),
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

    /// Every factor but placement and cores, which results keep apart.
    pub(crate) fn factors(&self) -> BTreeMap<String, String> {
        Factor::ALL
            .into_iter()
            .filter(|factor| !matches!(factor, Factor::Placement | Factor::Cores))
            .map(|factor| (factor.name().to_owned(), self.written(factor)))
            .collect()
    }

    fn clients(&self) -> u32 {
        self.clients
            .unwrap_or_else(|| largest_divisor(self.flows / self.servers.unwrap_or(1), DEFAULT_CLIENTS))
    }

    fn servers(&self) -> u32 {
        let clients = self.clients();
        let of_client = if self.flows.is_multiple_of(clients) { self.flows / clients } else { 1 };
        self.servers.unwrap_or_else(|| largest_divisor(of_client, DEFAULT_SERVERS))
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
        let (clients, servers) = (self.clients(), self.servers());
        self.check_traffic(clients, servers)?;
        self.check_policy()?;
        Ok(Setup {
            zones: self.zones,
            traffic: TrafficShape {
                frame: self.frame.clone(),
                ip: self.ip,
                flows: self.flows,
                clients,
                servers,
                directions: self.directions,
                udp_checksum: self.udp_checksum(),
                fragments: 1,
                cores: self.cores,
                seed,
            },
            policy: PolicyShape {
                rules: self.rules,
                match_position: self.match_position()?,
                stateful: self.stateful(),
                nat: self.nat,
                listed_addresses: self.lists,
                seed,
            },
            placement: self.placement,
            link_bits_per_second: self.link,
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
        Ok(())
    }

    fn check_traffic(&self, clients: u32, servers: u32) -> Result<(), SetupProblem> {
        self.frame.check_fits(self.ip)?;
        let pairs = u64::from(clients) * u64::from(servers);
        if u64::from(self.flows) % pairs != 0 {
            return Err(SetupProblem::Uneven { flows: self.flows, clients, servers });
        }
        if self.cores > self.flows {
            return Err(SetupProblem::IdleCores { cores: self.cores, flows: self.flows });
        }
        if self.ip == IpVersion::V6 && self.udp_checksum() == UdpChecksum::Zero {
            return Err(SetupProblem::ZeroChecksumInV6);
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

fn one_of<T: Copy>(text: &str, known: &[(&str, T)]) -> Option<T> {
    known.iter().find(|(name, _)| *name == text).map(|&(_, value)| value)
}

fn flag(text: &str) -> Option<bool> {
    one_of(text, &[("true", true), ("false", false)])
}

/// A count in digits, or in thousands (`100k`) or millions (`1M`).
fn count(text: &str, range: RangeInclusive<u32>) -> Option<u32> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 1000),
        b'M' => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    let number = digits_only(digits)?.checked_mul(unit)?;
    u32::try_from(number).ok().filter(|n| range.contains(n))
}

fn digits_only(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

fn directions(text: &str) -> Option<Directions> {
    match text {
        "one-way" => Some(Directions::OneWay),
        "two-way" => Some(Directions::TwoWay { reverse_share: 0.5 }),
        _ => {
            let reverse_share: f64 = text.strip_prefix("two-way:")?.parse().ok()?;
            (reverse_share > 0.0 && reverse_share < 1.0).then_some(Directions::TwoWay { reverse_share })
        }
    }
}

fn link(text: &str) -> Option<Option<u64>> {
    if text == "none" {
        return Some(None);
    }
    let unit = match text.as_bytes().last()? {
        b'M' => 1_000_000,
        b'G' => 1_000_000_000,
        _ => return None,
    };
    let bits = digits_only(&text[..text.len() - 1])?.checked_mul(unit)?;
    (1_000_000..=100_000_000_000).contains(&bits).then_some(Some(bits))
}

fn rate_text(bits: u64) -> String {
    if bits.is_multiple_of(1_000_000_000) {
        format!("{}G", bits / 1_000_000_000)
    } else {
        format!("{}M", bits / 1_000_000)
    }
}

fn largest_divisor(of: u32, at_most: u32) -> u32 {
    (1..=at_most.min(of.max(1))).rev().find(|d| of.is_multiple_of(*d)).unwrap_or(1)
}
