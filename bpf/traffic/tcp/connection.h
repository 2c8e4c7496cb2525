/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the client's receiver and its generator both do to a connection: find it, move it on, say something on it. */
#ifndef RAMPART_TRAFFIC_TCP_CONNECTION_H
#define RAMPART_TRAFFIC_TCP_CONNECTION_H

#include "write.h"

/* slot / divisor, by the divisor's inverse: exact for slots below 2^24 and divisors up to 2^16, because the error of the
 * inverse, below 1, times the slot stays below 2^40 / divisor. A division costs three times as much. */
static __always_inline __u32 divide(__u32 slot, __u64 inverse)
{
	return (__u64)slot * inverse >> 40;
}

/* The server of the connections of a slot, by its number. */
static __always_inline __u32 server_of_slot(__u32 slot)
{
	return slot - divide(slot, control.server_hosts_inverse) * control.server.hosts;
}

static __always_inline __u8 phase_state(__u32 phase) { return phase; }
static __always_inline __u8 phase_retries(__u32 phase) { return phase >> 8; }
static __always_inline __u8 phase_flags(__u32 phase) { return phase >> 16; }
static __always_inline __u8 phase_round(__u32 phase) { return phase >> 24; }

static __always_inline __u32 make_phase(__u8 state, __u8 retries, __u8 flags, __u8 round)
{
	return (__u32)state | (__u32)retries << 8 | (__u32)flags << 16 | (__u32)round << 24;
}

/* Another state, nothing retried yet. */
static __always_inline __u32 next_phase(__u32 phase, __u8 state, __u8 more_flags)
{
	return (phase & 0xffff0000) | state | (__u32)more_flags << 16;
}

/* Changes the phase unless another core did so meanwhile. */
static __always_inline bool move(struct tcp_core *core, struct connection *c, __u32 from, __u32 to)
{
	if (__sync_val_compare_and_swap(&c->phase, from, to) == from)
		return true;
	count(core, COUNT_CONTENDED);
	return false;
}

static __always_inline bool is_over(__u8 state)
{
	return state == CONNECTION_FREE || state == CONNECTION_CLOSED;
}

/* Ends a connection at `tick`, counted as `why`. */
static __always_inline bool end_connection(struct tcp_core *core, struct connection *c, __u32 phase, enum tcp_count why,
					  __u32 tick)
{
	__u64 now;

	if (!move(core, c, phase, next_phase(phase, CONNECTION_CLOSED, 0)))
		return false;
	count(core, why);
	c->touched = tick;
	/* Only a generator that keeps a number open asks. */
	if (control.keeps_open)
		__sync_fetch_and_add(&cores[c->owner & (MAX_CORES - 1)].ended, 1);
	if (why == COUNT_CLOSED && phase_flags(phase) & CONNECTION_SAMPLED) {
		now = bpf_ktime_get_ns();
		measure(core, TIME_CLOSED, c->intended_ns, now);
		if (c->close_ns)
			measure(core, TIME_TEARDOWN, c->close_ns, now);
	}
	return true;
}

/* Notes when the end began. */
static __always_inline void begin_close(struct connection *c, __u32 phase)
{
	if (phase_flags(phase) & CONNECTION_SAMPLED)
		c->close_ns = bpf_ktime_get_ns();
}

/* The next number that we may send, all before it being acknowledged or under way. */
static __always_inline __u32 next_sequence(const struct connection *c)
{
	return c->isn + 1 + c->sent;
}

/* Fills in all but addresses and the stamp, which is there. */
static __always_inline void say(const struct connection *c, __u32 phase, struct segment *segment, __u8 flags)
{
	segment->flags = flags;
	segment->sequence = next_sequence(c);
	segment->acknowledgement = c->peer_next;
	segment->window = control.window;
	segment->has_stamp = (phase_flags(phase) & CONNECTION_STAMPS) != 0;
	segment->stamp_echo = c->peer_stamp;
	segment->offers = 0;
	segment->payload = PAYLOAD_NONE;
	segment->payload_bytes = 0;
	segment->payload_offset = 0;
	segment->proof = 0;
}

/* The segment of the current request that begins with what is not acknowledged. One is under way at a time. */
static __always_inline void say_request(struct tcp_core *core, struct connection *c, __u32 slot, __u32 phase,
					struct segment *segment)
{
	__u32 offset = c->acked - (__u32)c->done * request.bytes;
	__u32 left = offset < request.bytes ? request.bytes - offset : 0;
	__u32 bytes = left < control.segment_bytes ? left : control.segment_bytes;

	say(c, phase, segment, TCP_ACK | (bytes == left ? TCP_PSH : 0));
	segment->sequence = c->isn + 1 + c->acked;
	segment->payload = PAYLOAD_REQUEST;
	segment->payload_offset = offset;
	segment->payload_bytes = bytes;
	segment->proof = scramble(asked(slot, c), control.request_keys);
	if (c->acked + bytes > c->sent) {
		c->sent = c->acked + bytes;
		if (bytes == left)
			count(core, COUNT_REQUESTS);
	}
}

/* FIN takes one number. */
static __always_inline void say_fin(struct connection *c, __u32 phase, struct segment *segment)
{
	say(c, phase, segment, TCP_FIN | TCP_ACK);
	c->sent++;
}

#endif
