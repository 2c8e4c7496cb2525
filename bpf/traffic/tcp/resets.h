/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Resets against connections that are held open: walks over all of a core's connections, one segment a turn at a rate of
 * their own. A walk is ordered by user space and followed by another only when it is done.
 */
#ifndef RAMPART_TRAFFIC_TCP_RESETS_H
#define RAMPART_TRAFFIC_TCP_RESETS_H

#include "illegal.h"

#define LOOKED_AT_RESET 16	/* connections looked at in a turn for one that is held */

static __always_inline __u64 read_schedule_clock(struct tcp_core *core);

/* A sequence number beside the next one of a peer whose window takes `window` bytes. */
static __always_inline __u32 beside_next(struct beside_core *own, __u32 next, __u32 window)
{
	__u32 away;

	if (beside.reset == RESET_LEGITIMATE)
		return next;
	if (beside.reset == RESET_INSIDE_WINDOW)
		return next + 1 + draw_below(own, window > 2 ? window - 2 : 1);
	away = FAR_OUTSIDE / 2 + (draw(own) >> 3);
	return draw(own) & 1 ? next + away : next - away;
}

static __always_inline void say_reset(struct beside_core *own, const struct connection *c, struct segment *segment)
{
	say(c, c->phase, segment, TCP_RST | TCP_ACK);
	segment->has_stamp = 0;
	segment->window = MARK_RESET;
	segment->sequence = beside_next(own, segment->sequence, control.server_window);
}

/* The same from the server: what is next for one is acknowledged by the other. */
static __always_inline void turn_to_server(struct beside_core *own, struct segment *segment, const struct connection *c)
{
	__be16 port = segment->source_port;

	segment->source_port = segment->destination_port;
	segment->destination_port = port;
	for (int i = 0; i < 4; i++) {
		__be32 word = segment->source[i];

		segment->source[i] = segment->destination[i];
		segment->destination[i] = word;
	}
	__builtin_memcpy(segment->to_mac, beside.server_next_hop_mac, 6);
	__builtin_memcpy(segment->from_mac, beside.server_mac, 6);
	segment->acknowledgement = next_sequence(c);
	segment->sequence = beside_next(own, c->peer_next, control.window);
}

static __always_inline void say_data(const struct connection *c, struct segment *segment)
{
	say(c, c->phase, segment, TCP_ACK | TCP_PSH);
	segment->window = MARK_DATA;
	segment->payload = PAYLOAD_REQUEST;
	segment->payload_bytes = request.bytes < control.segment_bytes ? request.bytes : control.segment_bytes;
}

/* The next held connection of the walk. */
static __always_inline struct connection *next_held(struct beside_core *own, __u32 number, __u32 *slot)
{
	for (int i = 0; i < LOOKED_AT_RESET; i++) {
		struct connection *c;

		if (own->reset_next >= control.slot_count[number]) {
			own->reset_next = 0;
			own->reset_pass++;
			return NULL;
		}
		*slot = control.slot_first[number] + own->reset_next++;
		c = bpf_map_lookup_elem(&connections, slot);
		if (c && phase_state(c->phase) == CONNECTION_HELD)
			return c;
	}
	return NULL;
}

/* Whether a walk is under way and its next segment is due. */
static __always_inline bool reset_is_due(struct tcp_core *core, struct beside_core *own)
{
	if (beside.reset == RESET_NONE || own->reset_finished == READ_ONCE(beside.reset_order))
		return false;
	read_schedule_clock(core);
	if (own->reset_order != beside.reset_order) {
		own->reset_order = beside.reset_order;
		own->reset_next = 0;
		own->reset_pass = 0;
		own->reset_due = core->now;
	}
	if (own->reset_pass >= beside.reset_each << beside.reset_both) {
		own->reset_finished = own->reset_order;
		return false;
	}
	return own->reset_due <= core->now;
}

/* Sends the next segment of the walk. `segment` has the stamp alone. */
static __noinline int reset(struct xdp_md *ctx, struct beside_core *own, struct segment *segment)
{
	__u32 number = this_core(), slot = 0, port = control.client_port;
	struct connection *c;

	if (!own || !segment)
		return XDP_ABORTED;
	c = next_held(own, number, &slot);
	if (!c)
		return XDP_DROP;
	own->reset_due += beside.reset_interval;
	own->resets_sent++;
	if (beside.reset == RESET_DATA)
		say_data(c, segment);
	else
		say_reset(own, c, segment);
	address(segment, c, slot);
	if (beside.reset_both && own->reset_pass & 1) {
		turn_to_server(own, segment, c);
		port = control.server_port;
	}
	return send_new(ctx, segment, port);
}

#endif
