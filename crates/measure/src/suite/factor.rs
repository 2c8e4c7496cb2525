//! The factors of an experiment: what a suite may vary, and how each level is written.

use super::levels::Levels;

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
    /// Addresses on the block list.
    Lists,
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
    pub const ALL: [Factor; 16] = [
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
            Factor::Flows => "1 to 4,000,000; `100k` and `1M` may be written",
            Factor::Clients | Factor::Servers => "1 to 32,256 addresses",
            Factor::Directions => {
                "`one-way`, `two-way`, or `two-way:SHARE` with the share of frames that flow back, as in `two-way:0.3`"
            }
            Factor::Zones => "`two` or `three`",
            Factor::Ip => "4 or 6",
            Factor::Rules => "0 (no filter) to 100,000",
            Factor::Match => "`first`, `last`, or a position from 1",
            Factor::Stateful | Factor::Nat => "true or false",
            Factor::Lists => "0 to 100,000,000 addresses",
            Factor::Link => "`none`, or a rate in bits a second from `1M` to `100G`, as in `100M`",
            Factor::UdpChecksum => "`zero` or `valid`",
            Factor::Placement => "`inline` or `isolated`",
            Factor::Cores => "1 to 1024",
        }
    }

    /// Reads a level and gives it back in its one written form: `1M` flows become `1000000`.
    ///
    /// # Errors
    /// Why the text is no level of this factor, and what would be right.
    pub fn level(self, text: &str) -> Result<String, String> {
        let mut levels = Levels::default();
        levels.set(self, text)?;
        Ok(levels.written(self))
    }
}
