/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the TCP client and server share with user space; see abi/traffic.h. docs/design/tcp-engine.md explains it.
 *
 * Waits are in ticks of 2^TICK_SHIFT ns, read from the coarse clock, which costs a tenth of the exact one and steps every
 * 1 to 10 ms.
 */
#ifndef RAMPART_ABI_TCP_H
#define RAMPART_ABI_TCP_H

#include "traffic.h"

#define MAX_STEPS 256		/* stretches of constant rate in one run; a power of two */
#define MAX_SEGMENTS 128	/* of one message; a power of two */
#define DEFERRED 256		/* frames that wait for the generator on one core; a power of two */
#define SLOTS_PER_PAGE 1024
#define COUNTED_SECONDS 256	/* of a run, whose starts are counted one by one */
#define NO_PROOF 0xffffffffU	/* offset of the proof in a message that has none */

/* An enumeration, so that Rust has these numbers too. */
enum tcp_sizes {
	TICK_SHIFT = 20,
	MAX_MESSAGE_BYTES = 65536,	/* a request or an answer */
	MAX_SEGMENT_BYTES = 1460,
	PROOF_BYTES = 16,		/* letters of a proof in a message, see tcp/proof.h */
};

/* Options of a SYN that we offer, or accept when offered. */
enum offer {
	OFFER_MSS = 1,
	OFFER_WINDOW_SCALE = 2,
	OFFER_SACK = 4,
	OFFER_TIMESTAMPS = 8,
};

enum connection_state {
	CONNECTION_FREE = 0,
	CONNECTION_SYN_SENT = 1,
	CONNECTION_REQUESTED = 2,	/* established; a request is under way or answered in part */
	CONNECTION_HELD = 3,		/* established and idle */
	CONNECTION_AWAITS_FIN = 4,	/* all answers are here; the server is to close */
	CONNECTION_FIN_SENT = 5,	/* ours first; not acknowledged */
	CONNECTION_FIN_ACKED = 6,	/* ours first; acknowledged */
	CONNECTION_LAST_ACK = 7,	/* the server's first; ours sent */
	CONNECTION_CLOSED = 8,		/* over, and its tuple not yet to be used again */
};

/* How connections end. */
enum close_mode {
	CLOSE_RESET = 0,	/* the client resets */
	CLOSE_CLIENT_FIN = 1,	/* the client sends FIN first */
	CLOSE_SERVER_FIN = 2,	/* the server sends FIN with the end of its last answer */
	CLOSE_NEVER = 3,	/* held open until control.closing */
};

/* Flags beside the state. */
#define CONNECTION_STAMPS 1		/* both ends use timestamps */
#define CONNECTION_SAMPLED 2		/* its times are measured */
#define CONNECTION_WINDOW_SHUT 4	/* the server's SYN-ACK had no window: what a SYN proxy does */
#define CONNECTION_VERIFIED 8		/* its answers are verifications from now on */
#define CONNECTION_PROXIED 16		/* its SYN-ACK has another sequence number than the server's */

/*
 * One connection of the client, found by the client's address and port. `phase` holds all that changes hands between the
 * generator and the receiver and is only changed by compare-and-swap: state, retries, flags, round, a byte each.
 */
struct connection {
	__u64 intended_ns;	/* when it was to start */
	__u64 syn_ns;		/* when its first SYN was sent; only when sampled */
	__u64 close_ns;		/* when we first asked for its end; only when sampled */
	__u32 phase;
	__u32 isn;		/* our initial sequence number; differs from use to use of the tuple */
	__u32 sent;		/* of our sequence space behind the SYN: sent at least once */
	__u32 acked;		/* the same, acknowledged */
	__u32 peer_next;	/* the server's next sequence number */
	__u32 peer_stamp;	/* the server's latest timestamp */
	__u32 received;		/* bytes of the current answer */
	__u32 touched;		/* tick of the last progress or retransmission */
	__u16 done;		/* answered requests */
	__u16 server_port;
	__u16 server;		/* server number */
	__u16 owner;		/* core that opened it */
};

_Static_assert(sizeof(struct connection) == 64, "one cache line a connection");

/* What is counted. The client's connections balance: see TcpCounts in crates/traffic/src/tcp/reading.rs. */
enum tcp_count {
	/* the client's connections */
	COUNT_ATTEMPTED = 0,		/* starts that were due */
	COUNT_NO_TUPLE,			/* due, but every tuple tried was still in use */
	COUNT_OPENED,			/* first SYN sent */
	COUNT_ESTABLISHED,
	COUNT_FIRST_BYTE,
	COUNT_COMPLETED,		/* every answer complete and right */
	COUNT_CLOSED,			/* ended as the plan says */
	COUNT_REFUSED,			/* RST to the SYN */
	COUNT_RESET,			/* ended by the peer's RST afterwards */
	COUNT_PEER_CLOSED,		/* ended by a FIN that the plan does not have */
	COUNT_WRONG_DATA,		/* ended by us because the answer was wrong, too short or too long */
	COUNT_TIMEOUT_CONNECT,
	COUNT_TIMEOUT_ANSWER,
	COUNT_TIMEOUT_CLOSE,
	/* the client's segments */
	COUNT_ANSWERS,			/* complete answers */
	COUNT_VERIFIED,			/* complete answers on held connections */
	COUNT_SYN_AGAIN,
	COUNT_REQUEST_AGAIN,
	COUNT_CLOSE_AGAIN,
	COUNT_DUPLICATE,		/* data or SYN-ACK seen before */
	COUNT_OUT_OF_ORDER,		/* data behind a hole: thrown away, asked for again */
	COUNT_STRAY,			/* for no connection of ours */
	COUNT_LATE,			/* for a connection that is over */
	COUNT_STRANGE_RESET,		/* RST whose sequence number is not the next: ignored (RFC 5961) */
	COUNT_CONTENDED,		/* thrown away because another core was changing the connection */
	COUNT_FRAMES_OUT,
	COUNT_FRAMES_IN,
	COUNT_BYTES_OUT,		/* without FCS */
	COUNT_BYTES_IN,
	COUNT_DEFERRED_LOST,		/* the queue for the generator was full */
	COUNT_REQUESTS,			/* whole requests, each when first sent */
	COUNT_ANSWER_BYTES,		/* of answers, accepted */
	COUNT_FORGED,			/* answers that are not the server's to the request: also COUNT_WRONG_DATA */
	COUNT_DAMAGED,			/* segments with a wrong checksum: thrown away */
	/* who wrote what arrived, see tcp/seal.h; where both ends are ours */
	COUNT_PROXIED,			/* established connections whose SYN-ACK has another sequence number than the server's */
	COUNT_UNSEALED,			/* segments to the client that the server did not write; without RST, and proxied connections */
	COUNT_SEAL_CLEARED,		/* of these, with 0 in place of the seal; this and the next with IPv6 alone */
	COUNT_SEALED,			/* segments to the client that the server wrote */
	COUNT_RESETS_IN,		/* RST to the client, whoever wrote them */
	COUNT_OPTIONS_REMOVED,		/* SYN-ACK without an option that the client offered */
	COUNT_OPTIONS_ADDED,		/* SYN and SYN-ACK with an option that nobody offered */
	COUNT_OPTIONS_RAISED,		/* SYN and SYN-ACK with a larger MSS or window scale than was written */
	COUNT_OPTIONS_LOWERED,
	COUNT_WINDOW_RAISED,		/* segments with a larger window than was written */
	COUNT_WINDOW_LOWERED,
	/* the server */
	COUNT_SERVER_UNSEALED,		/* segments that the client did not write; without RST */
	COUNT_SERVER_SEAL_CLEARED,	/* of these, with 0 in place of the seal; this and the next with IPv6 alone */
	COUNT_SERVER_SEALED,		/* segments that the client wrote */
	COUNT_SERVER_OPTIONS_REMOVED,	/* SYN without an option that the client offered */
	COUNT_SERVER_SYN,
	COUNT_SERVER_ESTABLISHED,	/* segments that acknowledge the SYN-ACK and nothing behind it */
	COUNT_SERVER_REQUEST,		/* whole requests */
	COUNT_SERVER_ANSWER,		/* first segments of answers */
	COUNT_SERVER_ANSWER_BYTES,	/* sent, repetitions included */
	COUNT_SERVER_WRONG_DATA,	/* requests that differ from the plan's */
	COUNT_SERVER_FORGED,		/* requests that the client did not write: not answered */
	COUNT_SERVER_OTHER_SOURCE,	/* SYN and requests from another address or port than their client's */
	COUNT_SERVER_DAMAGED,		/* segments with a wrong checksum: thrown away */
	COUNT_SERVER_FIN,
	COUNT_SERVER_RESET,
	COUNT_SERVER_STRAY,		/* acknowledges what was never sent */
	COUNT_SERVER_SMALL_MSS,		/* SYN refused: the peer takes no segment of the size asked for */
	COUNT_SERVER_FRAMES_OUT,
	COUNT_SERVER_FRAMES_IN,
	COUNT_SERVER_BYTES_IN,	/* without FCS */
	TCP_COUNTS
};

/* What is timed. The first five from the intended start, the others as RFC 3511 appendices B and C define them. */
enum tcp_time {
	TIME_SYN_SENT = 0,
	TIME_ESTABLISHED,
	TIME_FIRST_BYTE,
	TIME_LAST_BYTE,
	TIME_CLOSED,
	TIME_ESTABLISHMENT,	/* first SYN to the acknowledgement of the SYN-ACK */
	TIME_TEARDOWN,		/* our first FIN or RST, or the server's FIN, to the end */
	TCP_TIMES
};

/* A stretch of constant rate; an interval of 0 opens nothing. */
struct tcp_step {
	__u64 end;		/* schedule time */
	__u64 interval;		/* schedule time between two starts of one core */
};

/* A request or an answer: its bytes and the checksum of each segment of segment_bytes, both with zeros for the proof. */
struct message {
	__u32 bytes;
	__u32 sums[MAX_SEGMENTS];
	__u32 proof_at;		/* offset of the proof: even, within the first segment of an answer or the last of a request */
	__u8 data[MAX_MESSAGE_BYTES + 2048];	/* room for a whole segment behind any offset */
};

/* A range of addresses and ports of one side. */
struct side {
	__u32 v4_first;		/* host byte order */
	__u32 hosts;
	__be32 v6_prefix[4];
	__u32 v6_first;		/* host number of the first address */
	__u32 port_first;
	__u32 ports;
	__u32 pad;
};

struct tcp_control {
	__u64 start_ns;
	__u64 last_start;	/* schedule time from which on starts that were due before are left out */
	struct tcp_step steps[MAX_STEPS];
	__u32 step_count;
	__u32 unpaced;		/* 1: open as fast as the core can until the last step's end */
	__u32 ip_version;
	__u32 client_port;	/* index into the ports map */
	__u32 server_port;
	__u8 next_hop_mac[6];	/* in the order of a frame */
	__u8 client_mac[6];
	__u32 secret;		/* of the client's initial sequence numbers, which go on from run to run */
	__u32 server_secret;	/* of the server's */
	__u64 request_keys[2];	/* of the proofs in requests, and in answers: new with each run, see tcp/proof.h */
	__u64 answer_keys[2];
	__u64 seal_keys[2];	/* of the seals of segments, see tcp/seal.h */
	__u32 seals;		/* 1: both ends are ours, so that each segment is sealed and checked */
	__u32 knows_server_isn;	/* 1: the server sees addresses and ports as the client does, who then knows its sequence numbers */
	struct side client;
	struct side server;	/* as the client knows it */
	struct side listens;	/* as the server knows itself */
	__u32 slots;		/* tuples in use, all cores; below 2^24 */
	__u64 client_hosts_inverse;	/* 2^40 / hosts + 1, see divide() */
	__u64 server_hosts_inverse;
	__u64 server_ports_inverse;
	__u32 slot_first[MAX_CORES];
	__u32 slot_count[MAX_CORES];
	__u32 target_open[MAX_CORES];	/* keep so many open; 0: only the rate counts */
	__u32 keeps_open;	/* 1: some core has a target */
	__u32 offers;
	__u32 mss;
	__u32 window_scale;
	__u32 window;		/* the client's, as on the wire */
	__u32 server_window;
	__u32 segment_bytes;
	__u32 transactions;	/* requests a connection; 0: none */
	__u32 close;		/* enum close_mode */
	__u32 four_way;		/* 1: acknowledge the peer's FIN before sending our own */
	__u32 hold_ticks;	/* idle time before the end */
	__u32 reuse_ticks;	/* rest of a tuple after its end */
	__u32 retry_ticks;	/* first retransmission time-out; doubles */
	__u32 retries;
	__u32 scan_ticks;	/* from one look at all connections to the next, at the least */
	__u32 sample_mask;	/* connections whose number has none of these bits are timed */
	__u32 check_request;	/* 1: the server compares requests with the plan's */
	__u32 last_request_at;	/* offset of the last segment of a request */
	__u32 translates_sources;	/* 1: the firewall gives connections other addresses and ports */
	__u32 closing;		/* 1: close what is held */
	__u32 round;		/* a held connection that has not seen this round sends a request */
	__u32 number[MAX_CORES];	/* of a generating core, plus one; 0: generates nothing */
	__u32 deferred_cores;	/* cores whose deferred frames generator 1 sends besides its own */
};

/* One core's client and server. No other core writes here but for `ended`. */
struct tcp_core {
	__u64 due;		/* schedule time of the next start */
	__u64 now;		/* schedule time when the clock was last read */
	__u64 largest_lag;	/* schedule time */
	__u64 turns;
	__u64 finished;		/* schedule time when there was nothing more to open; 0 before */
	__u64 opened;
	__u32 step;
	__u32 order_next;	/* position in the order of tuples */
	__u32 scan_next;	/* connection to look at next */
	__u32 scan_began;	/* tick */
	__u32 deferred_in;
	__u32 deferred_out;
	__u32 foreign;		/* frames passed to the kernel */
	__u32 second;		/* that lasts until second_end, schedule time */
	__u64 second_end;
	__u64 clock;		/* tick_now(): in the lower half the tick, in the upper twice the number of the jiffy in which it was read, and 1 */
	__u32 opened_in[COUNTED_SECONDS];	/* by the second in which the start was made, not that in which it was due */
	__u64 ended __attribute__((aligned(64)));	/* connections opened here that are over, by any core */
	__u64 count[TCP_COUNTS] __attribute__((aligned(64)));
	struct histogram times[TCP_TIMES];
} __attribute__((aligned(64)));

#endif
