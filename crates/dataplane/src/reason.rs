//! Numbers of `bpf/abi/firewall.h` that users read, with names and explanations: why packets are dropped, what else is counted,
//! and states of flows. The numbers themselves come from C by way of BTF; a new one is a row here.

use crate::skeleton::types;

/// An enumeration of C with a name and an explanation for each number. The name is the C constant's without its prefix, in small
/// letters, which a test holds.
macro_rules! table {
    ($(#[$about:meta])* $Type:ident of $numbers:ident { $($Variant:ident = $constant:ident, $name:literal: $text:literal;)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum $Type {
            $(#[doc = concat!("`", $name, "`: ", $text, ".")] $Variant = types::$numbers::$constant.0,)*
        }

        impl $Type {
            /// All of them, by number.
            pub const ALL: &[Self] = &[$(Self::$Variant),*];

            /// Its number, which never changes its meaning.
            pub const fn number(self) -> u32 {
                self as u32
            }

            /// That of a number.
            pub fn of(number: u32) -> Option<Self> {
                Self::ALL.iter().copied().find(|it| it.number() == number)
            }

            /// Short identifier, as reports and filters write it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$Variant => $name,)* }
            }

            /// What it means, in one line.
            pub const fn explanation(self) -> &'static str {
                match self { $(Self::$Variant => $text,)* }
            }
        }
    };
}

table! {
/// Why a packet was dropped.
Reason of reason {
    Truncated = REASON_TRUNCATED, "truncated": "a header reaches beyond the frame";
    Length = REASON_LENGTH, "length": "lengths in its headers contradict each other or the frame";
    Header = REASON_HEADER, "header": "wrong IP version or header length";
    Checksum = REASON_CHECKSUM, "checksum": "wrong checksum of the IPv4 header";
    Extensions = REASON_EXTENSIONS, "extensions": "more IPv6 extension headers than are looked through, a route that the sender chose (RFC 5095), or two fragment headers";
    TcpFlags = REASON_TCP_FLAGS, "tcp-flags": "TCP flags that no sender sets together";
    Land = REASON_LAND, "land": "source and destination are the same";
    Source = REASON_SOURCE, "source": "a source that nobody out there has: multicast, broadcast, loopback, the firewall's own address, or one of a link alone";
    ZoneSource = REASON_ZONE_SOURCE, "zone-source": "a source that belongs to the networks of another zone";
    ReversePath = REASON_REVERSE_PATH, "reverse-path": "no route back to the source, or one by another zone (RFC 3704)";
    NotIp = REASON_NOT_IP, "not-ip": "neither IP nor what IP needs on a link";
    NoZone = REASON_NO_ZONE, "no-zone": "it arrived at an interface that belongs to no zone";
    FragmentUnknown = REASON_FRAGMENT_UNKNOWN, "fragment-unknown": "a later fragment whose first was not seen, or not allowed";
    FragmentOverlap = REASON_FRAGMENT_OVERLAP, "fragment-overlap": "a fragment of a datagram whose parts overlap, or contradict each other about its end (RFC 5722)";
    FragmentDuplicate = REASON_FRAGMENT_DUPLICATE, "fragment-duplicate": "a part of a datagram that has passed already";
    FragmentHoles = REASON_FRAGMENT_HOLES, "fragment-holes": "a fragment out of order, of a datagram with more holes than are kept in mind (12)";
    NotOurs = REASON_NOT_OURS, "not-ours": "its Ethernet address is another machine's, or a group's that it is not meant for (RFC 1812)";
    Vlan = REASON_VLAN, "vlan": "it came in a VLAN, and VLANs are of no zone; give the zone the VLAN's own interface";
    Options = REASON_OPTIONS, "options": "IPv4 options that say a route or that nobody needs (RFC 7126), or that are damaged";
    IcmpRedirect = REASON_ICMP_REDIRECT, "icmp-redirect": "an ICMP redirect, which no router forwards and the firewall does not believe";
    Destination = REASON_DESTINATION, "destination": "a destination that no host has: 0.0.0.0/8, the loopback network, class E, or IPv4 addresses as IPv6 ones";
    Station = REASON_STATION, "station": "its Ethernet source is at another interface of the bridge, or is a group's, which sends nothing";
    Flood = REASON_FLOOD, "flood": "its interface sends more frames for all others of the bridge than it may: to groups, or to stations that nobody has heard of";
    NoPolicy = REASON_NO_POLICY, "no-policy": "no policy is in force yet";
    RuleDeny = REASON_RULE_DENY, "rule-deny": "a rule denies it";
    RuleReject = REASON_RULE_REJECT, "rule-reject": "a rule rejects it";
    DefaultDeny = REASON_DEFAULT_DENY, "default-deny": "no rule matched, and the default of its zones denies it";
    DefaultReject = REASON_DEFAULT_REJECT, "default-reject": "no rule matched, and the default of its zones rejects it";
    Rate = REASON_RATE, "rate": "beyond its rule's rate of new flows";
    Connections = REASON_CONNECTIONS, "connections": "beyond its rule's number of concurrent flows";
    LimitFull = REASON_LIMIT_FULL, "limit-full": "no room to count one more address for the limits of rules (65,536 addresses, in buckets of eight)";
    List = REASON_LIST, "list": "a list of addresses refuses its source or its destination: `rampart lists` shows which";
    ScanBlocked = REASON_SCAN_BLOCKED, "scan-blocked": "its source asked in vain for too many ports or hosts, and may open no flow for a time: `rampart blocks` shows it and ends it";
    TableFull = REASON_TABLE_FULL, "table-full": "the flow table is full of open flows: raise `flows` in `[settings]`";
    HalfOpenFull = REASON_HALF_OPEN_FULL, "half-open-full": "too many TCP handshakes are under way: a SYN flood, or `half_open` in `[settings]` is too small";
    UnansweredFull = REASON_UNANSWERED_FULL, "unanswered-full": "too many flows other than TCP have no answer yet: a flood, or `unanswered` in `[settings]` is too small";
    SourceFull = REASON_SOURCE_FULL, "source-full": "the flow table is nearly full, and the rest of it is for sources that have less than a quarter of it";
    Contended = REASON_CONTENDED, "contended": "several cores opened the same flow again and again";
    FlowZone = REASON_FLOW_ZONE, "flow-zone": "a packet of a known flow from a zone where its sender does not live";
    TcpNoFlow = REASON_TCP_NO_FLOW, "tcp-no-flow": "TCP of no known connection that opens none";
    TcpState = REASON_TCP_STATE, "tcp-state": "TCP that does not fit the state of its connection";
    TcpWindow = REASON_TCP_WINDOW, "tcp-window": "TCP outside the window of its connection";
    Cookie = REASON_COOKIE, "cookie": "TCP of no known connection, while SYNs are answered with cookies (`syn_proxy`): its cookie is wrong or too old";
    TcpReset = REASON_TCP_RESET, "tcp-reset": "a reset outside the window of its connection (RFC 5961)";
    IcmpUnrelated = REASON_ICMP_UNRELATED, "icmp-unrelated": "an ICMP error that quotes a packet which its flow did not send";
    IcmpUnasked = REASON_ICMP_UNASKED, "icmp-unasked": "an answer to an ICMP query (echo, timestamp) that nobody asked, or a query back by the flow of one";
    TcpChecksum = REASON_TCP_CHECKSUM, "tcp-checksum": "a reset or a FIN of a known connection with a wrong TCP checksum";
    NatExhausted = REASON_NAT_EXHAUSTED, "nat-exhausted": "none of the ports that it may have outside is free towards its destination: add addresses or ports to its entry of `[[nat]]`";
    Untranslatable = REASON_UNTRANSLATABLE, "untranslatable": "it must be translated and cannot be: its interface has no address, it is of no flow, its flow has ended, or the kernel, which translates there, does not track it";
    Ttl = REASON_TTL, "ttl": "its TTL or hop limit is used up";
    TooBig = REASON_TOO_BIG, "too-big": "larger than the MTU of the next link, and not to be fragmented";
    NoRoute = REASON_NO_ROUTE, "no-route": "no route, or one that says unreachable, prohibited or black hole";
    NotAPort = REASON_NOT_A_PORT, "not-a-port": "its route leads to an interface that belongs to no zone";
    Redirect = REASON_REDIRECT, "redirect": "the kernel or the driver did not take the frame for the next link; a veth takes frames from XDP if its peer has XDP or GRO";
    Answer = REASON_ANSWER, "answer": "the reset or ICMP error that answers it could not be written";
    Neighbours = REASON_NEIGHBOURS, "neighbours": "its source asked for more than 32 unknown neighbours within a second";
    Gateway = REASON_GATEWAY, "gateway": "its rule hands it to a gateway that does not run, or that cannot take it: a fragment, or a translated destination";
} }

impl Reason {
    /// Whether the firewall lacked something for packets that its policy may well allow, so that its owner should look: room, ports of
    /// a translation, a policy.
    pub const fn is_want(self) -> bool {
        matches!(
            self,
            Self::TableFull
                | Self::HalfOpenFull
                | Self::UnansweredFull
                | Self::SourceFull
                | Self::LimitFull
                | Self::NatExhausted
                | Self::NoPolicy
        )
    }
}

table! {
/// What is counted besides drops.
Tally of tally {
    Forwarded = TALLY_FORWARDED, "forwarded": "packets that the fast path forwarded; those that a driver then did not send are taken off again";
    ForwardedBytes = TALLY_FORWARDED_BYTES, "forwarded-bytes": "IP bytes of the packets that the fast path forwarded";
    Up = TALLY_UP, "up": "allowed packets that were passed to the kernel";
    Link = TALLY_LINK, "link": "ARP and neighbour discovery packets, answered or passed on without being judged";
    Opened = TALLY_OPENED, "opened": "flows opened";
    Expired = TALLY_EXPIRED, "expired": "flows that expired: no packet came for too long";
    Closed = TALLY_CLOSED, "closed": "flows evicted: they were closed, and their place or ports were needed";
    Killed = TALLY_KILLED, "killed": "flows ended by a user";
    JudgedAgain = TALLY_JUDGED_AGAIN, "judged-again": "flows judged again under a new policy";
    Revoked = TALLY_REVOKED, "revoked": "flows that a new policy ended";
    SynInFlow = TALLY_SYN_IN_FLOW, "syn-in-flow": "SYNs in an established connection, passed on (RFC 5961 section 4)";
    ResetInexact = TALLY_RESET_INEXACT, "reset-inexact": "inexact resets, passed on without closing the flow (RFC 5961 section 3)";
    Related = TALLY_RELATED, "related": "ICMP errors that belong to a flow";
    Answered = TALLY_ANSWERED, "answered": "resets and ICMP errors that the firewall sent";
    AnswersSuppressed = TALLY_ANSWERS_SUPPRESSED, "answers-suppressed": "resets and ICMP errors that were suppressed because of their rate";
    RouteLookups = TALLY_ROUTE_LOOKUPS, "route-lookups": "look-ups in the kernel's routing table";
    NoNeighbour = TALLY_NO_NEIGHBOUR, "no-neighbour": "packets left to the kernel because the next hop's Ethernet address was not known";
    Fragments = TALLY_FRAGMENTS, "fragments": "later fragments that were passed";
    LogSuppressed = TALLY_LOG_SUPPRESSED, "log-suppressed": "events that were suppressed because of their rate (`log_rate` in `[settings]`)";
    LogLost = TALLY_LOG_LOST, "log-lost": "events that were lost because the ring was full";
    AlertUncounted = TALLY_ALERT_UNCOUNTED, "alert-uncounted": "packets that no alert counted, for want of room for one more address";
    Fragmented = TALLY_FRAGMENTED, "fragmented": "packets larger than the next link's MTU, left to the kernel to be forwarded in fragments";
    Evicted = TALLY_EVICTED, "evicted": "flows evicted before anybody answered, or before their handshake was complete, because a budget or the table was full";
    FragmentsKept = TALLY_FRAGMENTS_KEPT, "fragments-kept": "fragments that came before their first, and were kept for a second at most until it had come";
    ArpAnswered = TALLY_ARP_ANSWERED, "arp-answered": "ARP requests for addresses of `[[nat]]` that the firewall answered";
    Scans = TALLY_SCANS, "scans": "sources found to scan (`[scans]`), at most once a window each";
    ScanUncounted = TALLY_SCAN_UNCOUNTED, "scan-uncounted": "sources that were not, or no longer, counted for scans, for want of room for one more";
    RecordsSuppressed = TALLY_RECORDS_SUPPRESSED, "records-suppressed": "flows that ended without a record, because of the rate of records (`rate` in `[log.ipfix]`)";
    RecordsLost = TALLY_RECORDS_LOST, "records-lost": "flows that ended without a record, because the ring of records was full";
    Cookies = TALLY_COOKIES, "cookies": "SYNs that the firewall answered with a cookie in a server's name (`syn_proxy`)";
    CookiesTaken = TALLY_COOKIES_TAKEN, "cookies-taken": "connections that the acknowledgement of a cookie opened";
    ProxyCalled = TALLY_PROXY_CALLED, "proxy-called": "how often half-open connections switched the SYN proxy on (`syn_proxy = \"when-full\"`)";
} }

table! {
/// State of a flow. Those of TCP are the connection's as seen from between its ends.
State of flow_state {
    OneWay = FLOW_ONE_WAY, "one-way": "not TCP: nothing came back yet";
    TwoWay = FLOW_TWO_WAY, "two-way": "not TCP: both ends sent";
    SynSent = FLOW_SYN_SENT, "syn-sent": "a SYN was sent";
    SynBoth = FLOW_SYN_BOTH, "syn-both": "both ends sent a SYN";
    SynReceived = FLOW_SYN_RECEIVED, "syn-received": "the SYN was answered";
    Established = FLOW_ESTABLISHED, "established": "the handshake is complete";
    Fin = FLOW_FIN, "fin": "one end sent FIN";
    LastAck = FLOW_LAST_ACK, "last-ack": "both ends sent FIN";
    TimeWait = FLOW_TIME_WAIT, "time-wait": "both FINs were acknowledged";
    Reset = FLOW_RESET, "reset": "closed by a reset";
    Mapping = FLOW_MAPPING, "mapping": "no flow: an address and port outside that an end inside keeps for all whom it talks to";
} }

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of an enumeration in the C header without their prefix, with their numbers.
    fn in_c(enumeration: &str, prefix: &str) -> Vec<(u32, String)> {
        let header = include_str!("../../../bpf/abi/firewall.h");
        let (_, from) = header.split_once(&format!("\nenum {enumeration} {{\n")).unwrap();
        let (members, _) = from.split_once("\n};").unwrap();
        let lines = members.lines().filter_map(|line| line.trim().strip_prefix(prefix));
        lines
            .filter_map(|line| {
                let (name, rest) = line.split_once(" = ")?;
                Some((rest.split([',', '\t']).next()?.parse().ok()?, name.replace('_', "-").to_lowercase()))
            })
            .filter(|(_, name)| !["none", "free"].contains(&name.as_str()))
            .collect()
    }

    #[test]
    fn every_number_of_the_header_has_its_name() {
        let reasons: Vec<_> = Reason::ALL.iter().map(|r| (r.number(), r.name().to_owned())).collect();
        assert_eq!(reasons, in_c("reason", "REASON_"));
        let tallies: Vec<_> = Tally::ALL.iter().map(|t| (t.number(), t.name().to_owned())).collect();
        assert_eq!(tallies, in_c("tally", "TALLY_"));
        let states: Vec<_> = State::ALL.iter().map(|s| (s.number(), s.name().to_owned())).collect();
        assert_eq!(states, in_c("flow_state", "FLOW_"));
        assert_eq!(Reason::of(30), Some(Reason::TcpWindow));
        assert_eq!(Reason::of(0), None);
    }
}
