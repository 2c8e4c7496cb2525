//! Why packets are dropped, and what else is counted: the numbers of `bpf/abi/firewall.h` with names and explanations.

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A header reaches beyond the frame.
    Truncated = 1,
    /// Lengths in its headers contradict each other or the frame.
    Length = 2,
    /// Wrong IP version or header length.
    Header = 3,
    /// Wrong checksum of the IPv4 header.
    Checksum = 4,
    /// More IPv6 extension headers than are looked through, or a route that the sender chose (RFC 5095).
    Extensions = 5,
    /// TCP flags that no sender sets together.
    TcpFlags = 6,
    /// Source and destination are the same.
    Land = 7,
    /// A source that no host has: multicast, broadcast, loopback.
    Source = 8,
    /// A source that belongs to the networks of another zone.
    ZoneSource = 9,
    /// No route back to the source, or one by another zone (RFC 3704).
    ReversePath = 10,
    /// Neither IP nor what IP needs on a link.
    NotIp = 11,
    /// Came in by an interface of no zone.
    NoZone = 12,
    /// A later fragment whose first was not seen, or not allowed.
    FragmentUnknown = 13,
    /// A fragment that would overwrite the transport header (RFC 1858).
    FragmentOverlap = 14,
    /// No policy is in force yet.
    NoPolicy = 16,
    /// A rule denies it.
    RuleDeny = 17,
    /// A rule rejects it.
    RuleReject = 18,
    /// No rule matched, and the default of its zones denies it.
    DefaultDeny = 19,
    /// No rule matched, and the default of its zones rejects it.
    DefaultReject = 20,
    /// Beyond its rule's rate of new flows.
    Rate = 21,
    /// Beyond its rule's number of flows at once.
    Connections = 22,
    /// No room to count one more address for the limits of rules: 65,536 addresses, in buckets of eight.
    LimitFull = 23,
    /// The flow table is full of open flows; give it more (settings, flows).
    TableFull = 24,
    /// Too many TCP handshakes are under way; a SYN flood, or settings, half_open, is too small.
    HalfOpenFull = 25,
    /// Several cores opened the same flow again and again.
    Contended = 26,
    /// A packet of a known flow from a zone where its sender does not live.
    FlowZone = 27,
    /// TCP of no known connection that opens none.
    TcpNoFlow = 28,
    /// TCP that does not fit the state of its connection.
    TcpState = 29,
    /// TCP outside the window of its connection.
    TcpWindow = 30,
    /// A reset outside the window of its connection (RFC 5961).
    TcpReset = 31,
    /// An ICMP error that quotes a packet which its flow did not send.
    IcmpUnrelated = 32,
    /// Its hop limit is used up.
    Ttl = 40,
    /// Larger than the next link takes, and not to be fragmented.
    TooBig = 41,
    /// No route, or one that says unreachable, prohibited or black hole.
    NoRoute = 42,
    /// Its route leads to an interface of no zone.
    NotAPort = 43,
    /// The kernel did not take the frame for the next link.
    Redirect = 44,
    /// Its answer could not be written.
    Answer = 45,
}

impl Reason {
    /// All of them, by number.
    pub const ALL: [Reason; 37] = [
        Reason::Truncated,
        Reason::Length,
        Reason::Header,
        Reason::Checksum,
        Reason::Extensions,
        Reason::TcpFlags,
        Reason::Land,
        Reason::Source,
        Reason::ZoneSource,
        Reason::ReversePath,
        Reason::NotIp,
        Reason::NoZone,
        Reason::FragmentUnknown,
        Reason::FragmentOverlap,
        Reason::NoPolicy,
        Reason::RuleDeny,
        Reason::RuleReject,
        Reason::DefaultDeny,
        Reason::DefaultReject,
        Reason::Rate,
        Reason::Connections,
        Reason::LimitFull,
        Reason::TableFull,
        Reason::HalfOpenFull,
        Reason::Contended,
        Reason::FlowZone,
        Reason::TcpNoFlow,
        Reason::TcpState,
        Reason::TcpWindow,
        Reason::TcpReset,
        Reason::IcmpUnrelated,
        Reason::Ttl,
        Reason::TooBig,
        Reason::NoRoute,
        Reason::NotAPort,
        Reason::Redirect,
        Reason::Answer,
    ];

    /// Its number, which never changes its meaning.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The reason of a number.
    pub fn of(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.number() == number)
    }

    /// As reports and filters write it.
    pub const fn name(self) -> &'static str {
        self.words().0
    }

    /// What it means, in one line.
    pub const fn explanation(self) -> &'static str {
        self.words().1
    }

    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Reason::Truncated => ("truncated", "a header reaches beyond the frame"),
            Reason::Length => ("length", "lengths in its headers contradict each other or the frame"),
            Reason::Header => ("header", "wrong IP version or header length"),
            Reason::Checksum => ("checksum", "wrong checksum of the IPv4 header"),
            Reason::Extensions => (
                "extensions",
                "more IPv6 extension headers than are looked through, or a route that the sender chose (RFC 5095)",
            ),
            Reason::TcpFlags => ("tcp-flags", "TCP flags that no sender sets together"),
            Reason::Land => ("land", "source and destination are the same"),
            Reason::Source => ("source", "a source that no host has: multicast, broadcast, loopback"),
            Reason::ZoneSource => ("zone-source", "a source that belongs to the networks of another zone"),
            Reason::ReversePath => {
                ("reverse-path", "no route back to the source, or one by another zone (RFC 3704)")
            }
            Reason::NotIp => ("not-ip", "neither IP nor what IP needs on a link"),
            Reason::NoZone => ("no-zone", "came in by an interface of no zone"),
            Reason::FragmentUnknown => {
                ("fragment-unknown", "a later fragment whose first was not seen, or not allowed")
            }
            Reason::FragmentOverlap => {
                ("fragment-overlap", "a fragment that would overwrite the transport header (RFC 1858)")
            }
            Reason::NoPolicy => ("no-policy", "no policy is in force yet"),
            Reason::RuleDeny => ("rule-deny", "a rule denies it"),
            Reason::RuleReject => ("rule-reject", "a rule rejects it"),
            Reason::DefaultDeny => {
                ("default-deny", "no rule matched, and the default of its zones denies it")
            }
            Reason::DefaultReject => {
                ("default-reject", "no rule matched, and the default of its zones rejects it")
            }
            Reason::Rate => ("rate", "beyond its rule's rate of new flows"),
            Reason::Connections => ("connections", "beyond its rule's number of flows at once"),
            Reason::LimitFull => (
                "limit-full",
                "no room to count one more address for the limits of rules: 65,536 addresses, in buckets of eight",
            ),
            Reason::TableFull => {
                ("table-full", "the flow table is full of open flows; give it more (settings, flows)")
            }
            Reason::HalfOpenFull => (
                "half-open-full",
                "too many TCP handshakes are under way; a SYN flood, or settings, half_open, is too small",
            ),
            Reason::Contended => ("contended", "several cores opened the same flow again and again"),
            Reason::FlowZone => {
                ("flow-zone", "a packet of a known flow from a zone where its sender does not live")
            }
            Reason::TcpNoFlow => ("tcp-no-flow", "TCP of no known connection that opens none"),
            Reason::TcpState => ("tcp-state", "TCP that does not fit the state of its connection"),
            Reason::TcpWindow => ("tcp-window", "TCP outside the window of its connection"),
            Reason::TcpReset => ("tcp-reset", "a reset outside the window of its connection (RFC 5961)"),
            Reason::IcmpUnrelated => {
                ("icmp-unrelated", "an ICMP error that quotes a packet which its flow did not send")
            }
            Reason::Ttl => ("ttl", "its hop limit is used up"),
            Reason::TooBig => ("too-big", "larger than the next link takes, and not to be fragmented"),
            Reason::NoRoute => {
                ("no-route", "no route, or one that says unreachable, prohibited or black hole")
            }
            Reason::NotAPort => ("not-a-port", "its route leads to an interface of no zone"),
            Reason::Redirect => ("redirect", "the kernel did not take the frame for the next link"),
            Reason::Answer => ("answer", "its answer could not be written"),
        }
    }
}

/// What is counted besides drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tally {
    /// Packets sent on by the fast path.
    Forwarded = 0,
    /// Their IP bytes.
    ForwardedBytes = 1,
    /// Allowed packets that went up to the kernel.
    Up = 2,
    /// ARP and neighbour discovery, left to the kernel.
    Link = 3,
    /// Flows opened.
    Opened = 4,
    /// Flows forgotten because nothing came.
    Expired = 5,
    /// Flows forgotten because they were over and their place or ports were wanted.
    Closed = 6,
    /// Flows ended by a user.
    Killed = 7,
    /// Flows looked at under a new policy.
    JudgedAgain = 8,
    /// Of these, ended by it.
    Revoked = 9,
    /// SYN in an established connection, passed on (RFC 5961 section 4).
    SynInFlow = 10,
    /// Resets passed on that closed nothing (RFC 5961 section 3).
    ResetInexact = 11,
    /// ICMP errors that belong to a flow.
    Related = 12,
    /// Resets and ICMP errors that the firewall sent.
    Answered = 13,
    /// The same, suppressed because of their rate.
    AnswersSuppressed = 14,
    /// Questions to the kernel's routes.
    RouteLookups = 15,
    /// Packets that the kernel sent on because the next hop's Ethernet address was not known.
    NoNeighbour = 16,
    /// Later fragments passed.
    Fragments = 17,
    /// Events of rules with `log`, suppressed because of their rate (settings, log_rate).
    LogSuppressed = 18,
    /// Events not told because nobody read those before in time.
    LogLost = 19,
    /// Packets that an alert did not count: no room for one more address.
    AlertUncounted = 20,
}

impl Tally {
    /// All of them, by number.
    pub const ALL: [Tally; 21] = [
        Tally::Forwarded,
        Tally::ForwardedBytes,
        Tally::Up,
        Tally::Link,
        Tally::Opened,
        Tally::Expired,
        Tally::Closed,
        Tally::Killed,
        Tally::JudgedAgain,
        Tally::Revoked,
        Tally::SynInFlow,
        Tally::ResetInexact,
        Tally::Related,
        Tally::Answered,
        Tally::AnswersSuppressed,
        Tally::RouteLookups,
        Tally::NoNeighbour,
        Tally::Fragments,
        Tally::LogSuppressed,
        Tally::LogLost,
        Tally::AlertUncounted,
    ];

    /// Its number, which never changes its meaning.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The tally of a number.
    pub fn of(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.number() == number)
    }

    /// As reports and filters write it.
    pub const fn name(self) -> &'static str {
        self.words().0
    }

    /// What it means, in one line.
    pub const fn explanation(self) -> &'static str {
        self.words().1
    }

    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Tally::Forwarded => ("forwarded", "packets sent on by the fast path"),
            Tally::ForwardedBytes => ("forwarded-bytes", "their IP bytes"),
            Tally::Up => ("up", "allowed packets that went up to the kernel"),
            Tally::Link => ("link", "ARP and neighbour discovery, left to the kernel"),
            Tally::Opened => ("opened", "flows opened"),
            Tally::Expired => ("expired", "flows forgotten because nothing came"),
            Tally::Closed => {
                ("closed", "flows forgotten because they were over and their place or ports were wanted")
            }
            Tally::Killed => ("killed", "flows ended by a user"),
            Tally::JudgedAgain => ("judged-again", "flows looked at under a new policy"),
            Tally::Revoked => ("revoked", "of these, ended by it"),
            Tally::SynInFlow => {
                ("syn-in-flow", "SYN in an established connection, passed on (RFC 5961 section 4)")
            }
            Tally::ResetInexact => {
                ("reset-inexact", "resets passed on that closed nothing (RFC 5961 section 3)")
            }
            Tally::Related => ("related", "ICMP errors that belong to a flow"),
            Tally::Answered => ("answered", "resets and ICMP errors that the firewall sent"),
            Tally::AnswersSuppressed => ("answers-suppressed", "the same, suppressed because of their rate"),
            Tally::RouteLookups => ("route-lookups", "questions to the kernel's routes"),
            Tally::NoNeighbour => (
                "no-neighbour",
                "packets that the kernel sent on because the next hop's Ethernet address was not known",
            ),
            Tally::Fragments => ("fragments", "later fragments passed"),
            Tally::LogSuppressed => (
                "log-suppressed",
                "events of rules with `log`, suppressed because of their rate (settings, log_rate)",
            ),
            Tally::LogLost => ("log-lost", "events not told because nobody read those before in time"),
            Tally::AlertUncounted => {
                ("alert-uncounted", "packets that an alert did not count: no room for one more address")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of an enumeration in the C header, with their numbers.
    fn in_c(prefix: &str) -> Vec<(u32, String)> {
        let header = include_str!("../../../bpf/abi/firewall.h");
        let lines = header.lines().filter_map(|line| line.trim().strip_prefix(prefix));
        lines
            .filter_map(|line| {
                let (name, rest) = line.split_once(" = ")?;
                Some((rest.split(',').next()?.parse().ok()?, name.replace('_', "-").to_lowercase()))
            })
            .filter(|(_, name)| name != "none")
            .collect()
    }

    #[test]
    fn every_number_of_the_header_has_its_name() {
        let reasons: Vec<_> = Reason::ALL.iter().map(|r| (r.number(), r.name().to_owned())).collect();
        assert_eq!(reasons, in_c("REASON_"));
        let tallies: Vec<_> = Tally::ALL.iter().map(|t| (t.number(), t.name().to_owned())).collect();
        assert_eq!(tallies, in_c("TALLY_"));
        assert_eq!(Reason::of(30), Some(Reason::TcpWindow));
        assert_eq!(Reason::of(0), None);
    }
}
