/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the generator and the sink of frames share with user space; see abi/traffic.h. */
#ifndef RAMPART_ABI_FRAMES_H
#define RAMPART_ABI_FRAMES_H

#include "traffic.h"

#define MAX_LANES 8		/* directions between zones; a power of two */
#define MAX_MIX 64		/* frames until a mix of sizes repeats; a power of two */
#define MAX_PHASES 4		/* stretches of constant load within a trial; a power of two */
#define MAX_PROBES 64		/* probe frames of one proof; a power of two */
#define MAX_DROP_PLACES 1024	/* different places in the kernel that free frames */
#define PROBE_FRAME_BYTES 128	/* largest probe frame, without FCS */
#define ARRIVAL_BYTES 60		/* Ethernet, IPv4 or IPv6, and both ports */
#define FILLING_BYTES 4096	/* at least what the largest live frame carries behind its stamp */
#define FLOWS_PER_PAGE 512	/* flows in one value of the flow table: 4 KiB */
#define SEEN_FRAMES 32		/* frames that a word remembers */
#define MAX_FORBIDDEN_SOURCES 1024	/* addresses that the policy forbids as sources, a sample; a power of two */
#define HEADER_TEMPLATE_BYTES 64
#define HEAD_OFFSET 12		/* of eight bytes in which only the length changes: Ethernet type, and IPv4 up to the id or IPv6 up to the length */
#define NO_FRAME_LEFT (~0ULL)

/* An enumeration, so that Rust has these numbers too. */
enum frame_sizes {
	STAMP_BYTES = 18,
	SEEN_WORDS = 1 << 21,	/* words of 32 frames each that the sink remembers, all streams together: 16 MiB; a power of two */
	/*
	 * Of the largest live frame, without FCS: a page of 4,096 bytes less 256 of headroom, 320 of the kernel's fragment table and 112 of
	 * struct xdp_page_head (net/bpf/test_run.c). Larger frames take the packet socket's path.
	 */
	LARGEST_LIVE_BYTES = 3408,
};

/* One flow: host numbers within the client's and the server's prefix, and both ports, as they lie in a frame. */
struct flow {
	__be16 client;
	__be16 server;
	__be16 client_port;
	__be16 server_port;
};

struct flow_page {
	struct flow flows[FLOWS_PER_PAGE];
};

/*
 * What every test frame carries at the start of its UDP payload: STAMP_BYTES, so that it fits the smallest IPv4 frame.
 * Whole words, because the compiler moves anything less aligned byte by byte.
 *   who    mark of the trial (16 bits), sender's core (8), lane (8), position in the mix (8), bits 32 to 39 of the sequence number,
 *          bits 32 to 47 of the send time
 *   what   bits 0 to 31 of the sequence number per core and lane, bits 0 to 31 of the send time
 *   check  of both, of the frame's addresses and of its ports, under the trial's secret
 * The send time is veiled, and which frames are timed does not stand in them, so that no firewall can hurry those alone.
 */
struct stamp {
	__u64 who;
	__u64 what;
	__u16 check;
};

_Static_assert(sizeof(struct flow) == 8, "a flow page is one memory page");

/* What nobody but the generator and the sink knows of a trial: odd numbers that a stamp's check is mixed with. */
struct secret {
	__u64 who;
	__u64 what;
	__u64 addresses;
	__u64 ports;
	__u64 times;
	__u64 last;
};

/* What is wrong with a frame that the policy forbids. */
enum forbidden_kind {
	FORBIDDEN_PORT = 0,	/* no rule allows its destination port; in answers its source port */
	FORBIDDEN_SOURCE = 1,	/* its source address */
	FORBIDDEN_ANSWER = 2,	/* nobody asked: it answers a flow that was never opened */
};

/* Frames beside the load that the policy forbids, otherwise like those of the load. */
struct forbidden {
	__u64 interval;		/* schedule time between two datagrams of a core, on average */
	struct secret secret;	/* of their stamps: nobody else can distinguish these from the others */
	__u32 kinds[4];		/* enum forbidden_kind, in turns */
	__u32 kind_count;	/* of these; 0: nothing is forbidden */
	__u32 first_port;
	__u32 ports;
	__u32 sources;		/* in use of forbidden_sources */
	__u32 answer_lane;	/* from servers to clients; behind the lanes of the schedule */
};

/* One direction of traffic. */
struct lane {
	__u8 header[HEADER_TEMPLATE_BYTES];	/* Ethernet, IP and UDP with everything that does not change */
	__u8 arrives[HEADER_TEMPLATE_BYTES];	/* the same as it should come out; but for the source Ethernet address */
	__u64 prefixes;		/* IPv4: of the clients in the lower half, of the servers in the upper, as in a frame; IPv6: 0 */
	__u32 ip_sum;		/* of the header's constant 16-bit words, IPv4 header only */
	__u32 arrival_sum;	/* the same of the header that should come out */
	__u32 udp_sum;		/* of the pseudo header's constant words */
	__u32 arrival_udp_sum;	/* the same of the datagram that should come out */
	__u32 port;		/* index into the ports map */
	__u32 reverse;		/* 1: from servers to clients */
	__u32 to;		/* zone where frames come out, by its number: the sink of that zone's port */
	__u32 mix_first;	/* the lane's part of the mix; lanes may share one */
	__u32 mix_count;
	__u32 translation[4];	/* what the firewall is asked to turn over in source addresses, as they lie in a frame; IPv4 in the last */
};

/*
 * The second of two fragments begins with its own stamp; then a word that makes the sum of both zero, so that the UDP
 * checksum, which the first fragment carries, does not depend on when the second is sent; then zeros up to where the first
 * one's filling begins behind its UDP header and stamp, so that the recycled frame's filling is right for both.
 */
#define SECOND_HEAD_BYTES 26	/* UDP_BYTES + STAMP_BYTES */

enum fragment_place { WHOLE_DATAGRAM = 0, FIRST_FRAGMENT = 1, SECOND_FRAGMENT = 2 };

/* One position of the mix. A datagram that is sent in two fragments has two, one after the other. */
struct mix_size {
	__u64 head;		/* bytes HEAD_OFFSET and on of the frame; in an IPv4 fragment without its id */
	__u32 bytes;		/* of the frame, without FCS */
	__u32 fill_sum;		/* of the datagram's payload behind its stamp or stamps */
	__u32 fill_check;	/* of the frame's filling, its whole 32-bit words, folded to 16 bits: what the sink compares */
	__u32 whole_bytes;	/* of a frame with the whole datagram, without FCS */
	__be16 udp_bytes;	/* of the whole datagram */
	__be16 fragment;	/* the IPv4 header's flags and offset, or the IPv6 fragment header's offset and flag */
	__u32 place;		/* enum fragment_place */
};

/* A stretch of constant load. */
struct phase {
	__u64 end;			/* schedule time */
	__u64 interval[MAX_LANES];	/* schedule time between two frames of one core */
	__u64 budget[MAX_LANES];	/* frames a core may send, or NO_FRAME_LEFT */
	__u32 paced;
};

struct control {
	__u64 start_ns;
	__u64 grace;		/* schedule time after a phase's end in which frames that were due before it still go out */
	__u64 largest_lag;	/* schedule time; a sender further behind leaves frames out instead of catching up */
	__u64 clock_ns;		/* added to each latency: how far the sending host's clock is ahead; 0: there is one clock */
	struct phase phases[MAX_PHASES];
	struct lane lanes[MAX_LANES];
	struct mix_size mix[MAX_MIX];
	__u32 phase_count;
	__u32 lane_count;
	__u32 largest_bytes;	/* of the mix, without FCS: the size of the recycled frame */
	__u32 sample_mask;	/* datagrams whose hidden number has none of these four bits are timed */
	__u32 ip_version;
	__u32 udp_checksum;
	__u32 flow_first[MAX_CORES * MAX_LANES];	/* slice of the flow table, by core and lane of the sender; lanes may share one */
	__u32 flow_count[MAX_CORES * MAX_LANES];
	__u32 filling_offset;	/* in the frame */
	__u32 fragments;	/* frames a datagram: 1 or 2 */
	__u32 generators;	/* generating cores */
	__u32 number[MAX_CORES];	/* of a generating core, from 0 */
	__u16 mark;
	__u32 answer_neighbours;	/* 1: the sink answers ARP and neighbour solicitation for its zone */
	__u32 content_mask;	/* frames whose hidden number has none of these bits have their filling written and compared */
	__u32 seen_first[MAX_CORES * MAX_LANES];	/* of SEEN_WORDS the first of a stream, by core and lane of its sender */
	__u32 seen_shift;	/* binary logarithm of the words that a stream has */
	__u32 seen_turn;	/* of the first word of a stream; no earlier trial came so far */
	struct secret secret;
	struct forbidden forbidden;
};

/* One core's generator on one lane. */
struct sender {
	__u64 due;		/* schedule time of the next frame */
	__u64 left;		/* of the phase's budget */
	__u64 sent;
	__u64 skipped;		/* frames left out because the sender was behind */
	__u64 sent_bytes;	/* without FCS */
	__u32 flow_next;
	__u32 mix_next;
};

/* One core's generator. Cache-line sized parts: no other core writes here. */
struct core {
	struct sender senders[MAX_LANES];
	__u64 now;		/* schedule time when the clock was last read */
	__u64 largest_lag;	/* schedule time */
	__u64 late;		/* frames sent more than 5 us after they were due */
	__u64 turns;
	__u64 finished;		/* schedule time when there was nothing more to send; 0 before */
	__u32 phase;
	__u32 unfinished;	/* lane whose second fragment is next, plus one; 0: none */
	__u64 forbidden_due;	/* schedule time of the next forbidden frame, or NO_FRAME_LEFT */
	__u64 forbidden_sent;
	__u32 forbidden_turn;	/* of the kinds */
	__u32 forbidden_second;	/* 1: the second fragment of a forbidden datagram is next */
	__be32 forbidden_source;	/* of the datagram under way */
	__be16 forbidden_port;
	__u16 pad;
} __attribute__((aligned(64)));

/* What a forwarder has no business to change in a frame's headers, in the order in which a change is named. */
enum field {
	FIELD_SOURCE, FIELD_DESTINATION, FIELD_SOURCE_PORT, FIELD_DESTINATION_PORT,
	FIELD_ETHERNET,		/* not addressed to the port that it came out of, or another protocol than IP */
	FIELD_TRAFFIC_CLASS,	/* of IPv6 with the flow label */
	FIELD_TTL, FIELD_PROTOCOL, FIELD_LENGTH, FIELD_ID, FIELD_FRAGMENT, FIELD_IP_CHECKSUM, FIELD_UDP_LENGTH,
	FIELD_UDP_CHECKSUM,
	FIELDS
};

/* What one receiving core saw of one stream (a sender's core and lane). A frame is counted once, by how it arrived first. */
struct receiver {
	__u64 highest;		/* sequence number seen, plus one; 0: nothing yet */
	__u64 received;
	__u64 received_bytes;	/* without FCS */
	__u64 duplicated;	/* copies, and frames so old that nobody remembers whether they are */
	__u64 reordered;
	__u64 corrupted;	/* cut short, made longer, or other content */
	__u64 compared;		/* frames whose content was compared */
	__u64 wrong_port;
	__u64 altered[FIELDS];	/* by the first field that is not as it was sent */
	__u64 reassembled;	/* datagrams that were sent in fragments and arrived whole; their fragments are received */
	__u64 last_arrival_ns;
	__u64 longest_silence_ns;
	__u64 last_latency_ns;
} __attribute__((aligned(64)));

/* Times of one receiving core on one lane. */
struct times {
	struct histogram latency;
	struct histogram variation;	/* absolute difference of successive samples of a stream */
};

/* Where and why the kernel freed a frame. */
struct drop_place {
	__u64 location;		/* address of the code */
	__u64 reason;		/* enum skb_drop_reason of the running kernel */
};

/* A probe that arrived: how often, and the beginning of the first copy up to the ports. */
struct arrival {
	__u64 count;
	__u8 head[ARRIVAL_BYTES];
	__u32 pad;
};

/* What a port needs to answer for the hosts of its zone. */
struct identity {
	__u32 ifindex;		/* 0: no port */
	__u32 v4_prefix;	/* host byte order */
	__u32 v6_prefix[4];	/* as it lies in a frame; the last word is 0 */
	__u8 mac[6];
	__u8 pad[2];
};

/* Whose Ethernet address user space asks for, and what the sink was answered. */
struct question {
	__u32 ifindex;		/* 0: nothing is asked */
	__u32 address[4];	/* as it lies in a frame; IPv4 in the first word, the others 0 */
	__u32 answers;
	__u8 mac[6];
	__u8 pad[2];
};

struct probe {
	__u32 port;		/* index into the ports map */
	__u32 bytes;
	__u8 frame[PROBE_FRAME_BYTES];
};

#endif
