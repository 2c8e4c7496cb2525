/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the firewall's data plane shares with user space. The only home of these layouts: the Rust types are derived from
 * this file's BTF by the build (crates/dataplane/build.rs). docs/design/dataplane.md explains them.
 *
 * Times are ticks of 2^TICK_SHIFT nanoseconds of the monotonic clock. In 32 bits they wrap after 52 days: such a time says less than a
 * whole one, and nothing that outlives a day is decided by it alone (see flow.initiator). Moments are sixteenths of a nanosecond of the same clock in 64 bits. Addresses and ports are
 * in network byte order, an IPv4 address is the first word of four.
 */
#ifndef RAMPART_ABI_FIREWALL_H
#define RAMPART_ABI_FIREWALL_H

#include <linux/bpf.h>
#include <linux/types.h>

/* Sizes and special numbers; an enumeration, so that Rust has them too. */
enum sizes {
	TICK_SHIFT = 20,
	MOMENT_SHIFT = 4,
	MAX_PORTS = 256,		/* interfaces that belong to a zone; a power of two */
	PORT_PROBES = 8,		/* places in which an interface may be, from its number on */
	MAX_ZONES = 64,
	GATEWAY_PLACES = 32,		/* as many as two policies have together, so that a place never means two gateways at once; a power of two */
	BRIDGED_TO_NONE = 0xffff,
	BRIDGED_TO_MANY = 0xfffe,
	BRIDGE_OTHERS = 15,		/* interfaces of a bridge besides one of them */
	MAX_SWITCHES = 15,		/* bridges of more than two interfaces: their numbers are four bits of a station's key */
	STATION_SETS = 2048,		/* of stations on such bridges, 512 KiB; a power of two */
	STATION_WAYS = 16,		/* stations in a set */
	STATION_SHARE = 4,		/* of these may be at home at one interface */
	VLAN_WORDS = 64,
	ZONE_SELF = 0,
	NO_ZONE = 255,
	MAX_REASONS = 64,		/* a power of two */
	MAX_TALLIES = 32,		/* a power of two */
	BUCKET_SLOTS = 7,
	PAGE_WORDS = 128,		/* of a page of a policy's tables */
	NODE_KEYS = 8,			/* of 64 bits, in a node of an IPv6 tree */
	TREE_LEVELS = 8,
	CHUNK_WORDS = 8,		/* of 64 bits, in a chunk of a vector */
	BLOCK_CHUNKS = 16,
	BLOCK_CLASSES = 64,		/* policy::tables::BLOCK_CLASSES */
	LINE_WORDS = 16,		/* of a tree's line: policy::tables::LINE_WORDS */
	SEPARATORS = 13,		/* of a tree's inner node */
	MOST_LINES = 64,		/* that a search in trees reads: policy::tables::MOST_LINES */
	MAX_LISTS = 32,			/* of addresses in one policy: a bit each */
	MAX_LIMITED = 16384,		/* rules with a limit or an alert in one policy */
	INTERFACE_NAME_BYTES = 16,	/* IFNAMSIZ: a name and the zero behind it */
	MAX_INTERFACE_NAMES = 1024,	/* names and patterns of interfaces that are closed until the firewall is attached to them */
	LINK_ADDRESSES = 15,		/* Ethernet addresses for which an interface takes frames */
	LIMIT_WAYS = 8,			/* entries of addresses in a bucket */
	LIMIT_MOST = 524288,		/* such entries in all, 28.5 MiB; a power of two */
	SOURCES = 65536,		/* places in which what sources have is counted; flow.source is one */
	HASH_SECRETS = 14,
	COOKIE_KEY = 11,		/* the first of two secrets that hashes have no part in */
	EARLY_BYTES = 2048,		/* of a frame that is kept until the first fragment of its datagram has come */
	REFUSED_BYTES = 1248,		/* of a packet that is answered from user space: an Ethernet header and the longest quote */
	PACKET_BYTES = 128,		/* of a struct packet */
	NAT_ROW_WORDS = 16,		/* of a row of translations */
	MAX_NAT_ROWS = 1024,		/* of each direction in one policy */
	PREFIX_ROW_WORDS = 32,		/* of a row of prefixes of IPv6 */
	MAX_PREFIX_ROWS = 256,		/* of each direction in one policy */
	ANSWERED_ROW_WORDS = 4,		/* of a row of addresses that ARP is answered for */
	MAX_LISTED_SERIES = 64,		/* of rules that ask for lists of addresses: a bit each */
	LISTED_SERIES_WORDS = 8,
	LISTS_PLACE = 0xff,
	LISTS_DOMAINS = 0x100,		/* addresses of domains are in places of their own, twice the place and behind it */
	EFFECT_WORDS = 4,
	FLOW_WORDS = 16,		/* of 64 bits, in a struct flow */
	ALIAS_TRIES = 16,		/* ports that a new flow asks for before it is refused */
	SCAN_BUCKETS = 4096,		/* of sources that asked in vain, 5 MiB; a power of two */
	SCAN_WAYS = 4,			/* sources in a bucket */
	SCAN_WORDS = 8,			/* of a sketch: policy::scans::SKETCH_BITS */
};

/* Why a packet was dropped. Never reuse a number; crates/dataplane/src/reason.rs names and explains each. */
enum reason {
	REASON_NONE = 0,
	/* its form */
	REASON_TRUNCATED = 1,		/* a header reaches beyond the frame */
	REASON_LENGTH = 2,		/* lengths in headers contradict each other or the frame */
	REASON_HEADER = 3,		/* wrong version or header length */
	REASON_CHECKSUM = 4,		/* IPv4 header checksum */
	REASON_EXTENSIONS = 5,		/* more IPv6 extension headers than are looked through, a source route, or two fragment headers */
	REASON_TCP_FLAGS = 6,		/* flags that no sender sets together */
	REASON_LAND = 7,		/* source and destination the same */
	REASON_SOURCE = 8,		/* a source that nobody out there has: multicast, broadcast, loopback, our own; or of a link alone */
	REASON_ZONE_SOURCE = 9,		/* a source of another zone's networks */
	REASON_REVERSE_PATH = 10,	/* no route, or another one, back to the source */
	REASON_NOT_IP = 11,		/* neither IP nor what IP needs on a link */
	REASON_NO_ZONE = 12,		/* came in by an interface of no zone */
	REASON_FRAGMENT_UNKNOWN = 13,	/* a later fragment without its first */
	REASON_FRAGMENT_OVERLAP = 14,	/* a fragment of a datagram whose parts overlap, or contradict each other */
	REASON_FRAGMENT_DUPLICATE = 53,	/* a part of a datagram that has passed already */
	REASON_FRAGMENT_HOLES = 54,	/* one more hole in a datagram than is kept in mind */
	REASON_NOT_OURS = 48,		/* its Ethernet address is another's, or a group that its protocol is not meant for */
	REASON_VLAN = 49,		/* it came in a VLAN, which is of no zone */
	REASON_OPTIONS = 50,		/* IPv4 options that say a route or that nobody needs (RFC 7126), or that are damaged */
	REASON_ICMP_REDIRECT = 51,	/* an ICMP redirect: it belongs to one link, and no link believes the next one's */
	REASON_DESTINATION = 52,	/* a destination that no host has */
	REASON_STATION = 36,		/* its Ethernet source is at another interface of the bridge, or is nobody's */
	REASON_FLOOD = 37,		/* more frames for all interfaces of a bridge than one of them may send */
	/* the policy */
	REASON_NO_POLICY = 16,
	REASON_RULE_DENY = 17,
	REASON_RULE_REJECT = 18,
	REASON_DEFAULT_DENY = 19,
	REASON_DEFAULT_REJECT = 20,
	REASON_RATE = 21,		/* beyond its rule's rate of new flows */
	REASON_CONNECTIONS = 22,	/* beyond its rule's flows at once */
	REASON_LIMIT_FULL = 23,		/* no room to count one more address for a rule's limit */
	REASON_LIST = 55,		/* a list of addresses refuses its source or its destination */
	REASON_SCAN_BLOCKED = 61,	/* its source scanned, and may open no flow for a time */
	/* flows */
	REASON_TABLE_FULL = 24,
	REASON_HALF_OPEN_FULL = 25,
	REASON_UNANSWERED_FULL = 34,	/* as many flows as may be have no answer yet */
	REASON_SOURCE_FULL = 35,	/* the table is nearly full, and its source has more than a quarter of it */
	REASON_CONTENDED = 26,		/* several cores opened the same flow again and again */
	REASON_FLOW_ZONE = 27,		/* a packet of a flow from a zone where that end does not live */
	REASON_TCP_NO_FLOW = 28,	/* TCP of no known connection that opens none */
	REASON_TCP_STATE = 29,		/* TCP that does not fit the state of its connection */
	REASON_TCP_WINDOW = 30,		/* TCP outside the window */
	REASON_COOKIE = 62,		/* TCP of no known connection, with a cookie that is wrong or too old */
	REASON_TCP_RESET = 31,		/* a reset outside the window */
	REASON_ICMP_UNRELATED = 32,	/* an ICMP error that quotes a packet of a flow falsely */
	REASON_ICMP_UNASKED = 60,	/* an answer to an ICMP query that nobody asked, or a query back by its flow */
	REASON_TCP_CHECKSUM = 33,	/* a reset or a FIN with a wrong TCP checksum */
	REASON_NAT_EXHAUSTED = 58,	/* none of the ports that it may have outside is free */
	REASON_UNTRANSLATABLE = 59,	/* it must be translated and cannot be: no flow, no address, its translation has ended, or the kernel translates there and not it */
	/* forwarding */
	REASON_TTL = 40,		/* TTL or hop limit used up */
	REASON_TOO_BIG = 41,		/* larger than the next link takes, and not to be fragmented */
	REASON_NO_ROUTE = 42,		/* route says unreachable, prohibit or blackhole */
	REASON_NOT_A_PORT = 43,		/* the route leads to an interface of no zone */
	REASON_REDIRECT = 44,		/* the kernel did not take the frame for the next link */
	REASON_ANSWER = 45,		/* an answer to a packet could not be written */
	REASON_NEIGHBOURS = 46,		/* its source made the kernel look for too many neighbours within a second */
	REASON_GATEWAY = 63,		/* its rule hands it to a gateway that does not listen, or that cannot take it */
	REASON__MAX
};

_Static_assert(REASON__MAX <= MAX_REASONS, "a counter for each reason");

/* What is counted besides drops. */
enum tally {
	TALLY_FORWARDED = 0,		/* packets sent on by the fast path */
	TALLY_FORWARDED_BYTES = 1,	/* their IP bytes */
	TALLY_UP = 2,			/* packets that went up to the kernel, allowed */
	TALLY_LINK = 3,			/* ARP, neighbour discovery: answered, or up to the kernel without being judged */
	TALLY_OPENED = 4,		/* flows */
	TALLY_EXPIRED = 5,		/* flows that expired */
	TALLY_CLOSED = 6,		/* flows evicted: they were closed, and their place or ports were wanted */
	TALLY_KILLED = 7,		/* flows ended by a user */
	TALLY_JUDGED_AGAIN = 8,		/* flows looked at under a new policy */
	TALLY_REVOKED = 9,		/* of these, ended by it */
	TALLY_SYN_IN_FLOW = 10,		/* SYN in an established connection, passed on (RFC 5961 section 4) */
	TALLY_RESET_INEXACT = 11,	/* resets passed on that closed nothing (RFC 5961 section 3) */
	TALLY_RELATED = 12,		/* ICMP errors that belong to a flow */
	TALLY_ANSWERED = 13,		/* resets and ICMP errors that the firewall sent */
	TALLY_ANSWERS_SUPPRESSED = 14,	/* the same, suppressed because of their rate */
	TALLY_ROUTE_LOOKUPS = 15,	/* questions to the kernel's FIB */
	TALLY_NO_NEIGHBOUR = 16,	/* packets that went up because the next hop's address is not known yet */
	TALLY_FRAGMENTS = 17,		/* later fragments passed */
	TALLY_LOG_SUPPRESSED = 18,	/* events of rules with `log`, suppressed because of their rate */
	TALLY_LOG_LOST = 19,		/* events that found the ring full, because nobody read those before in time */
	TALLY_ALERT_UNCOUNTED = 20,	/* packets that an alert did not count: no room for one more address */
	TALLY_FRAGMENTED = 21,		/* packets that went to the kernel to be forwarded in fragments */
	TALLY_EVICTED = 22,		/* flows evicted that nobody had answered, or whose handshake was not complete */
	TALLY_FRAGMENTS_KEPT = 23,	/* fragments that came before their first, and were kept until it has come */
	TALLY_ARP_ANSWERED = 24,	/* ARP requests that the firewall answered for addresses of translations */
	TALLY_SCANS = 25,		/* scans that were found */
	TALLY_SCAN_UNCOUNTED = 26,	/* sources that are not, or no longer, counted for scans: their bucket was full */
	TALLY_RECORDS_SUPPRESSED = 27,	/* flows that ended without a record, because of the rate of records */
	TALLY_RECORDS_LOST = 28,	/* the same, because the ring of records was full */
	TALLY_COOKIES = 29,		/* SYNs that the firewall answered with a cookie */
	TALLY_COOKIES_TAKEN = 30,	/* flows that the acknowledgement of a cookie opened */
	TALLY_PROXY_CALLED = 31,	/* how often half-open flows switched cookies on */
	TALLY__MAX
};

_Static_assert(TALLY__MAX <= MAX_TALLIES, "a counter for each tally");

/* One core's counters. */
struct counts {
	__u64 drops[MAX_REASONS];
	__u64 tallies[MAX_TALLIES];
};

/* As the places in policy::model::Action::NAMES. */
enum action {
	ACTION_ALLOW = 0,
	ACTION_DENY = 1,
	ACTION_REJECT = 2,
	ACTION__MAX
};

/* States of a flow. Those of TCP are the connection's as seen from between its ends. */
enum flow_state {
	FLOW_FREE = 0,
	FLOW_ONE_WAY = 1,	/* not TCP: nothing came back yet */
	FLOW_TWO_WAY = 2,	/* not TCP */
	FLOW_SYN_SENT = 3,
	FLOW_SYN_BOTH = 4,	/* simultaneous open: both ends sent a SYN */
	FLOW_SYN_RECEIVED = 5,	/* SYN-ACK seen */
	FLOW_ESTABLISHED = 6,
	FLOW_FIN = 7,		/* one end sent FIN */
	FLOW_LAST_ACK = 8,	/* both did */
	FLOW_TIME_WAIT = 9,	/* both were acknowledged */
	FLOW_RESET = 10,	/* closed by a reset */
	FLOW_MAPPING = 11,	/* no flow: a mapping, once a flow of it was answered; FLOW_ONE_WAY before */
	FLOW__MAX
};

/* Of what flows that are not answered yet may take a part. */
enum budget {
	BUDGET_HALF_OPEN = 0,	/* TCP before the end of its handshake */
	BUDGET_UNANSWERED = 1,	/* all else before anything comes back */
	BUDGETS = 2,
	NO_BUDGET = 3,		/* of a flow that both ends take part in, or that is closed */
};

#define FLOW_FIN_OF(end) (1 << (end))		/* in flow.flags: this end sent FIN */
#define FLOW_ACK_OF(end) (4 << (end))		/* this end acknowledged the other's SYN; simultaneous open only */
#define FLOW_SCALES 16				/* both ends scale their windows */
#define FLOW_DOUBTED 32				/* an inexact reset passed: expires sooner unless something follows */
/* In flow.family. A packet of a translated flow from an end has that end's own address as its source and the other end's alias as its
 * destination, and leaves with the alias of the one and the own address of the other. */
enum family_bits {
	FLOW_FAMILY = 6,
	FLOW_PREFIX_OF_0 = 1,	/* of IPv6: end 1 knows end 0 by its address outside (firewall/prefix.h) */
	FLOW_PREFIX_OF_1 = 32,	/* the same of end 1; the bit has another meaning where FLOW_TRANSLATED is set */
	FLOW_PROXIED = 8,	/* a cookie opened it, and the ends know each other by different numbers (firewall/renumber.h) */
	FLOW_TRANSLATED = 16,	/* an end has an alias: the other end knows it by another address or port */
	FLOW_MASQUERADED = 32,	/* the initiator's alias is an address of this machine, and the flow ends with it */
	FLOW_IS_MAPPING = 64,	/* no flow: its initiator keeps its alias, for everybody or for the responder's address (firewall/mapping.h) */
	FLOW_MAPPED = 128,	/* where FLOW_TRANSLATED is set: an end has its alias by a mapping */
	FLOW_OF_GATEWAY = 128,	/* where it is not: the gateway has it, whose responder is here, at somebody else's address (firewall/gateway.h) */
};

#define FLOW_PREFIX_OF(end) ((end) ? FLOW_PREFIX_OF_1 : FLOW_PREFIX_OF_0)
#define FLOW_PREFIXED (FLOW_PREFIX_OF_0 | FLOW_PREFIX_OF_1)

#define ALIAS_ADDRESS 0		/* in flow.address_rest of an end */
#define ALIAS_PORT 1

/* By which a socket or a packet is known as a transparent gateway's. Only who may administer the network can set them. */
enum gateway_mark {
	GATEWAY_LISTENS = 0x52470000,	/* of the socket that listens */
	GATEWAY_TAKES = 0x52480000,	/* of a packet that is for this machine, whatever its destination */
};

#define FLOW_RESET_OF(end) (64 << (end))	/* this end's reset closed it; its number is in `reach` */

/*
 * A flow of both directions, found by its ends: end 0 is the one with the lesser address and port. Two lines of the cache; of a
 * known flow of IPv4 that is not TCP a packet needs only the first.
 */
struct flow {
	__be32 address[2];	/* the first words; each end's own, whatever the other end calls it */
	__be16 port[2];		/* ICMP queries: the identifier, and at the asked end type << 8 | code of the question */
	__u8 protocol;
	__u8 family;		/* 4 or 6; and enum family_bits */
	__u8 zone[2];		/* where each end lives */
	__u32 generation;	/* of the policy that judged it last */
	__u32 seen;		/* tick of its last packet */
	__u32 number;		/* how often this record was used: distinguishes a flow from a later one in the same place */
	__u8 state;		/* enum flow_state */
	__u8 flags;
	__u8 initiator;		/* bit 0: the end that opened it, the other is the responder; above it: era of `seen` */
	__u8 scales;		/* window scales: of end 0 the lower four bits */
	__u64 bytes[2];		/* IP bytes from each end */
	__u32 packets[2];	/* from each end, lower 32 bits */
	__u16 packets_high[2];	/* the upper 16 */
	__u32 mark;		/* enum mark_bits: counter of the rule that allowed it, and what else is kept of the rule */
	/* second line */
	__u32 end[2];		/* highest sequence number that each end sent, and 1 */
	__u32 reach[2];		/* up to where each end may send: the other's acknowledgement and window */
	__u32 acked[2];		/* highest acknowledgement that each end sent */
	__u32 window[2];	/* largest window that each end offered, unscaled bytes */
	__be32 address_rest[2][3];	/* IPv6: the other words; IPv4: 0, but of a translated flow ALIAS_ADDRESS and ALIAS_PORT */
	__u32 opened;		/* tick; in a free record the next free one */
	__u8 ttl[2];		/* of each end's SYN as it came here, or 0: how far away that end is; of a gateway's responder the gateway, as in EXTRA_GATEWAY */
	__u16 source;		/* where what its initiator has is counted */
} __attribute__((aligned(64)));

/* The upper bits of the tick of a flow's last packet, beside its initiator. 64 eras are nine years. A flow without ERA_KNOWN was carried
 * over from a build that had none, and has had no packet since. */
enum era {
	ERA_SHIFT = 1,
	ERA_BITS = 63,
	ERA_KNOWN = 64,
	ERA_TICKS = 32,		/* bits of a tick that are not its era */
	TICK_SLACK = 4096,	/* by how much a time may be later than now: cores read the clock one after the other */
};

#define NO_SLOT 0xffffffff

/* flow.mark. One word, so that whoever swaps it knows alone what it held. */
enum mark_bits {
	MARK_SLOT = 0x1fffff,		/* the lower bits of a slot; all of them: NO_SLOT */
	MARK_LOG = 1 << 21,		/* its end is recorded in the event log */
	MARK_LIMITED = 1 << 22,		/* its rule limits concurrent flows */
	MARK_COUNTED = 1 << 23,		/* it is one of those that its rule counts */
	MARK_PER_SHIFT = 24,		/* enum limit_per: what its rule limits, flows at once or their rate; two bits */
	MARK_EPOCH_SHIFT = 26,		/* of its rule's count; six bits */
	MARK_EPOCHS = 63,
};

#define MARK_SPECIAL (MARK_LOG | MARK_LIMITED | MARK_COUNTED)
#define MARK_NONE 0xffffffff		/* of a record that is free */

_Static_assert(sizeof(struct flow) == 128 && __builtin_offsetof(struct flow, end) == 64, "two cache lines a flow");

/* Where flows are found: a tag and a record's number in each slot. */
struct bucket {
	__u64 slots[BUCKET_SLOTS];	/* tag << 32 | lower eight bits of flow.number << 24 | record; 0: free */
	__u32 elsewhere;		/* flows of this bucket that found no place here */
	__u32 pad;
};

_Static_assert(sizeof(struct bucket) == 64, "a cache line a bucket");

/* What a limit has counted. */
struct quota {
	__u64 until;		/* the moment from which the next flow would come in time; all before it is burst */
	__u32 concurrent;	/* flows */
	__u32 owner;		/* of an entry: slot, epoch and kind of the count that it is of, as owner_of() has them; 0: of none yet */
};

/* What an alert has counted: new flows and refused packets in this window and in the one before. */
struct alert_count {
	__u64 since;		/* when this window began; 0: nothing was counted yet */
	__u32 count;
	__u32 before;
	__u64 raised;		/* moment at which the alert was recorded last; 0: never */
};

/* Of a rule as a whole; in the place of its counter. */
struct limit_row {
	struct bpf_spin_lock lock;
	__u32 epoch;		/* how many rules had this counter before, with limits; wraps */
	struct quota quota;
	__u64 refused;		/* packets dropped because of the limit, whatever it is counted for */
	struct alert_count alert;
};

/* Of an address. */
struct limit_entry {
	__u64 key;
	struct quota quota;	/* of an entry for an alert, only `until`: then it says nothing any more */
	__u32 networks;		/* hashes of the wide and of the narrow network that the address is in, 16 bits each */
	__u32 is_answered;	/* a flow of this address has been answered; of TCP, its handshake is complete */
	struct alert_count alert;
};

struct limit_bucket {
	struct bpf_spin_lock lock;
	__u32 pad;
	struct limit_entry entries[LIMIT_WAYS];
};

enum event_kind {
	EVENT_OPENED = 1,
	EVENT_REFUSED = 2,
	EVENT_CLOSED = 3,
	EVENT_ALERT = 4,	/* a rule's alert passed its threshold; repeated once a second while it stands and packets come */
	EVENT_SCAN = 5,		/* the packet's source scanned; at most once a window */
	EVENT__MAX
};

/* An entry of the event log, which rules with `log` or `alert` write to the ring. Of a flow the first end is the initiator. */
struct event {
	__u64 time;		/* nanoseconds of the monotonic clock */
	__be32 address[2][4];	/* source, destination */
	__be16 port[2];		/* as in struct flow */
	__u8 protocol;
	__u8 family;
	__u8 zone[2];
	__u32 slot;		/* of the rule, or NO_SLOT */
	__u32 generation;	/* of the policy whose rule it is */
	__u8 kind;		/* enum event_kind */
	__u8 reason;		/* enum reason, of a packet that was refused */
	__u8 state;		/* enum flow_state, of a flow that ended */
	__u8 per;		/* enum limit_per, of an alert */
	__u32 ticks;		/* since a flow that ended was opened */
	__u32 threshold;	/* of an alert; of a scan, 1: it is blocked */
	__u32 lists[2];		/* counters of the lists that the rule found its ends on, and 1; or 0. Not of a flow that ended */
	__u32 pad;
	__u64 packets[2];	/* from each end of a flow that ended; of an alert, in its window and in the one before; of a scan, the bits of
				 * its ports and of its hosts */
	__u64 bytes[2];		/* of an alert, when its window began and how long it is, in nanoseconds */
};

/* In settings.scan_bits and scan_entry.found, and among the packets of an event. */
enum scan_field {
	SCAN_PORTS = 0,
	SCAN_HOSTS = 1,
};

/* How many different things were seen: a bit each, found by a hash with a secret. Several may share one. */
struct scan_sketch {
	__u64 now[SCAN_WORDS];		/* in this window */
	__u64 before[SCAN_WORDS];	/* in the one before */
	__u16 fresh;			/* bits in `now` */
	__u16 distinct;			/* bits in either */
	__u32 pad;
};

/* A source that asked in vain, in one zone: an IPv4 address, or the first 64 bits of an IPv6 address. Times are whole ticks. */
struct scan_entry {
	__u64 key;			/* hash of the source and its zone; 0: nothing is here */
	__be32 address[2];
	__u8 family;
	__u8 zone;
	__u16 found[2];			/* bits of ports and hosts when a scan was found last */
	__u16 pad;
	__u64 since;			/* when this window began */
	__u64 detected;			/* when a scan was found last; 0: never */
	__u64 blocked_until;		/* 0: it is not blocked */
	struct scan_sketch ports;	/* protocol and destination port */
	struct scan_sketch hosts;	/* destinations */
};

struct scan_bucket {
	struct bpf_spin_lock lock;
	__u32 pad;
	struct scan_entry entries[SCAN_WAYS];
};

/* Why a flow ended: flowEndReason of IPFIX (RFC 5102 section 5.11.3). */
enum flow_end {
	END_UNSEEN = 0,		/* no packet was ever allowed by it: it has no record */
	END_IDLE = 1,		/* it expired */
	END_CLOSED = 3,		/* its ends have closed it */
	END_FORCED = 4,		/* a user or another policy ended it, or its address or interface is gone */
	END_EVICTED = 5,	/* its place was needed */
};

/* A flow that has ended, as the ring of records has it. */
struct flow_record {
	__u64 time;		/* nanoseconds of the monotonic clock */
	__u32 end;		/* enum flow_end */
	__u32 pad;
	__u64 flow[FLOW_WORDS];	/* its struct flow as it was last; as words, because a ring has no lines */
};

_Static_assert(FLOW_WORDS * 8 == sizeof(struct flow), "a record has all of a flow");

/* Where a transparent gateway is found; an address of 0: it takes no connections of that family. */
struct gateway_place {
	__be32 v4;
	__be32 v6[4];
	__be16 port;
	__u16 pad;
};

/* What the policy's settings say, besides the tables: changed at any time. Timeouts in ticks. */
struct settings {
	__u32 timeouts[16];	/* by enum flow_state of TCP; see timeout_of() for the others */
	__u32 udp_timeout;
	__u32 icmp_timeout;
	__u32 other_timeout;
	__u32 doubted_timeout;
	__u32 unanswered_timeout;	/* at most; sooner as the table fills */
	__u32 budgets[2];	/* enum budget: how many flows may be in it */
	__u8 check_checksums;
	__u8 check_tcp_flags;
	__u8 check_land;
	__u8 check_zones;
	__u32 reverse_path;	/* 0 off, 1 loose, 2 strict */
	__u32 generation;	/* of the tables in force; flows of another one are judged again */
	__u32 translates;	/* enum translates */
	__u32 keeps_marks;	/* a policy had rules with more than a verdict: marks of free records are wiped */
	__u32 syn_proxy;	/* enum syn_proxy */
	__u64 strangers_until;	/* tick, all of it: until then TCP of no known flow is answered with a reset; 0: never */
	__u64 log_interval;	/* moments from one event to the next on the average; 0: all events are suppressed */
	__u64 log_slack;	/* how many moments they may run ahead of that */
	__u64 record_interval;	/* the same of records of flows that end; 0: nobody wants any */
	__u64 record_slack;
	__u64 scan_window;	/* ticks in which a source may not ask in vain for more than so much; 0: nobody is counted */
	__u64 scan_block;	/* ticks for which it may open no flow then; 0: it is recorded alone */
	__u32 scan_bits[2];	/* of its sketches of ports and hosts: so many are a scan; 0: none are */
	struct gateway_place gateways[GATEWAY_PLACES];
};

/* Whether the firewall answers SYNs for servers (firewall/proxy.h). As the places in policy::settings::SynProxy::NAMES. */
enum syn_proxy {
	SYN_PROXY_OFF = 0,
	SYN_PROXY_ON = 1,
	SYN_PROXY_WHEN_FULL = 2,	/* while half-open flows fill their budget */
};

struct proxy_state {
	__u32 is_on;		/* by half-open flows */
	__u32 crowded;		/* tick at which they last had a quarter of their budget */
	__u32 sent;		/* tick of the last cookie */
	__u32 has_sent;
};

/* What a source has: an IPv4 address, or the first 64 bits of an IPv6 address. */
struct source {
	__u32 flows;		/* that it opened */
	__u32 spent[2];		/* of these, in each budget */
	__u32 neighbours_due;	/* tick from which its next question for a neighbour would come in time */
	__u32 early_due;	/* the same of a fragment that comes before its first */
	__u32 pad;
};

/* The table's state that all cores share. */
struct pool {
	__u64 free_head __attribute__((aligned(64)));	/* uses << 32 | the first free record and 1 */
	__u32 used;				/* records that hold a flow */
	__u32 fresh __attribute__((aligned(64)));	/* records that were ever used */
	__u32 eviction_cursor;			/* where the next eviction scan begins */
	__u32 spent[2] __attribute__((aligned(64)));	/* flows in each budget */
	__u32 pressure __attribute__((aligned(64)));	/* how often the time of unanswered flows is halved; seldom written */
};

/* Arguments and answer of the program `end_block`. */
struct block_command {
	__u64 key;
	__u32 done;		/* answer: blocks ended */
	__u32 pad;
};

/* What sweep_flows does with all records. */
enum table_task {
	TASK_SWEEP = 0,		/* remove what expired */
	TASK_END_MOVED = 1,	/* end the flows of an interface that belongs to another zone now */
};

/* Arguments and answer of the programs that user space runs: sweep_flows, end_flow. */
struct table_command {
	__u32 first;		/* record */
	__u32 count;		/* records to look at */
	/* end_flow: of the record, another one means it is another flow by now; TASK_SWEEP: of the sweep; TASK_END_MOVED: the zone that an
	 * interface belonged to << 16 | its place in `ports` */
	__u32 number;
	__u32 task;		/* enum table_task, of sweep_flows */
	__u32 done;		/* answer: flows removed */
};

/* Which hook runs. In the programs always a constant where it is used, so that each program has only its own half. */
enum hook {
	HOOK_XDP = 0,
	HOOK_TC = 1,
	HOOK_NETFILTER = 2,	/* forwarding = "kernel": firewall/netfilter.h */
	HOOK_OUT = 3,		/* at TC too, of what the firewall itself sends */
};

/* A datagram as its fragments name it. */
struct datagram_name {
	__be32 source[4];
	__be32 destination[4];
	__u32 id;
	__u8 protocol;		/* IPv6: 0, because its numbers do not tell protocols apart */
	__u8 family;
	__u8 from;		/* zone */
	__u8 pad;
};

/* What the ring `refused_packets` has: a packet that netfilter refused and that is to be answered. */
struct refused_packet {
	__u64 time;			/* nanoseconds of the monotonic clock */
	__u32 ifindex;			/* where it came in */
	__u32 bytes;			/* of `frame`: an Ethernet header and the beginning of the packet */
	__u8 frame[REFUSED_BYTES];
	__u8 packet[PACKET_BYTES];	/* struct packet, for a program alone */
};

/* What the ring `early_fragments` has: a fragment that came before its first, and behind it the frame; or without a frame the sign that
 * the first one of a datagram has come that fragments wait for. */
struct early_fragment {
	__u64 time;		/* nanoseconds of the monotonic clock */
	struct datagram_name datagram;
	__u32 ifindex;		/* where the frame came in */
	__u16 bytes;		/* of the frame; 0: the first one has come */
	__u8 hook;		/* enum hook: where it was kept */
	__u8 pad;
	__be16 tag_type;	/* of the VLAN tag that the kernel had taken out of the frame; 0: none */
	__be16 tag;
	__u32 more_pad;
};

#define ROW_LIST 0xffffffff	/* in the place of a row: a list refuses it, before any rule is asked */

/* Arguments and answer of the program `judge`, which asks the tables about a packet that is not there. */
struct judge_command {
	__be32 source[4];
	__be32 destination[4];
	__u8 family;
	__u8 from;
	__u8 to;
	__u8 protocol;
	__be16 selector;
	__u16 misplaced;	/* answer: the source belongs to the networks of other zones only */
	__u32 row;		/* answer: row and 1, 0 for the default, or ROW_LIST */
	__u32 action;		/* answer */
	__u32 generation;	/* answer; 0: there is no policy */
	__u32 slot;		/* answer */
	__u32 extras;		/* answer: as in struct effect */
	__be16 source_port;	/* means nothing for a protocol without ports, and no rule of such a one asks for it */
	__u16 is_known;		/* it is about a flow that is open already */
};

/* How a name of an interface begins: so many bits of it. The zero behind a whole name counts as well. */
struct interface_name {
	__u32 bits;
	__u8 name[INTERFACE_NAME_BYTES];
};

#include "ports.h"
#include "tables.h"

#endif
