/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The generator's turns: each sends at most one frame, the first of these that there is: a frame that a receiver left
 * to it, the start of a connection that is due, something again on a connection that has waited too long.
 */
#ifndef RAMPART_TRAFFIC_TCP_OPEN_H
#define RAMPART_TRAFFIC_TCP_OPEN_H

#include "resets.h"
#include "server.h"

#define NOT_YET (~0ULL)
#define CLEARED_A_TURN 64
#define LOOKED_AT_IDLE 16	/* connections looked at in a turn without a start */
#define TUPLES_TRIED 8
#define LOADED_AT_ONCE 16	/* a power of two */

static __always_inline __u64 read_schedule_clock(struct tcp_core *core)
{
	__u64 now = bpf_ktime_get_ns();

	core->now = schedule_time(now, control.start_ns);
	return now;
}

/* From the client's side of connection `slot` to its server. */
static __always_inline void address(struct segment *segment, const struct connection *c, __u32 slot)
{
	const struct side *client = &control.client;
	__u32 port = divide(slot, control.client_hosts_inverse), host = slot - port * client->hosts;

	copy_macs(segment->to_mac, control.next_hop_mac);
	segment->source_port = bpf_htons(client->port_first + port);
	segment->destination_port = bpf_htons(c->server_port);
	host_address(client, host, segment->source);
	host_address(&control.server, c->server, segment->destination);
}

static __always_inline void say_syn(const struct connection *c, __u32 phase, struct segment *segment)
{
	say(c, phase, segment, TCP_SYN);
	segment->sequence = c->isn;
	segment->acknowledgement = 0;
	segment->offers = control.offers;
	segment->stamp_echo = 0;
}

/*
 * Loads the records of the starts to come, LOADED_AT_ONCE of them each time the order reaches a multiple of that. With more
 * tuples than the cache holds, each start would wait for its record; loads that follow each other closely wait together.
 * One load some starts ahead would not do: no instruction behind a load that waits can retire, so that a processor works
 * on for some hundred instructions only.
 */
static __always_inline void load_ahead(__u32 index)
{
	__u32 ahead = index + LOADED_AT_ONCE, page = ahead / SLOTS_PER_PAGE;
	struct slot_page *found;

	if (index % LOADED_AT_ONCE)
		return;
	found = bpf_map_lookup_elem(&order, &page);
	if (!found)
		return;
	_Pragma("unroll") for (__u32 i = 0; i < LOADED_AT_ONCE; i++) {
		__u32 at = (ahead & (SLOTS_PER_PAGE - LOADED_AT_ONCE)) + i;
		struct connection *c = bpf_map_lookup_elem(&connections, &found->slots[at]);

		if (c)
			(void)READ_ONCE(c->phase);
	}
}

/* The next tuple in order whose last connection is over and has rested. */
static __always_inline struct connection *next_tuple(struct tcp_core *core, __u32 number, __u32 *slot, __u32 tick)
{
	__u32 first = control.slot_first[number], slots = control.slot_count[number];

	for (int tried = 0; tried < TUPLES_TRIED; tried++) {
		__u32 index = first + core->order_next, page = index / SLOTS_PER_PAGE, state;
		struct slot_page *found = bpf_map_lookup_elem(&order, &page);
		struct connection *c;

		load_ahead(index);
		core->order_next = core->order_next + 1 < slots ? core->order_next + 1 : 0;
		if (!found)
			return NULL;
		*slot = found->slots[index & (SLOTS_PER_PAGE - 1)];
		c = bpf_map_lookup_elem(&connections, slot);
		if (!c)
			return NULL;
		state = phase_state(c->phase);
		if (state == CONNECTION_FREE || (state == CONNECTION_CLOSED && tick - c->touched >= control.reuse_ticks))
			return c;
	}
	return NULL;
}

/* Never goes back on one tuple, within a run or from run to run, so that a peer in TIME-WAIT takes it (RFC 6528 section 3:
 * a clock plus a hash of the tuple). */
static __always_inline __u32 next_isn(const struct connection *c, __u32 slot)
{
	if (phase_state(c->phase) == CONNECTION_FREE)
		return mix32(slot ^ control.secret) + (__u32)(control.start_ns >> 10);
	return c->isn + c->sent + 4096;
}

#define ONE_SECOND (1000000000ULL << SCHEDULE_SHIFT)

/* Counts a start in the second of the clock's last reading, which a connection that is timed made just now. */
static __always_inline void count_second(struct tcp_core *core)
{
	if (core->now >= core->second_end) {
		core->second = core->now / ONE_SECOND;
		core->second_end = (core->second + 1ULL) * ONE_SECOND;
	}
	if (core->second < COUNTED_SECONDS)
		core->opened_in[core->second & (COUNTED_SECONDS - 1)]++;
}

static __always_inline void begin_connection(struct tcp_core *core, __u32 number, struct connection *c, __u32 slot,
					     __u32 tick)
{
	const struct side *server = &control.server;
	__u32 turn = divide(slot, control.server_hosts_inverse);
	/* In no order that a firewall could count along: it must not know whom to hurry. */
	bool sampled = (mix32((__u32)core->opened ^ control.server_secret) & control.sample_mask) == 0;
	__u64 now = 0;

	if (sampled)
		now = read_schedule_clock(core);
	count_second(core);
	c->isn = next_isn(c, slot);
	c->intended_ns = control.unpaced ? now : control.start_ns + (core->due >> SCHEDULE_SHIFT);
	c->syn_ns = now;
	c->close_ns = 0;
	c->sent = 0;
	c->acked = 0;
	c->received = 0;
	c->done = 0;
	c->peer_next = 0;
	c->peer_stamp = 0;
	c->touched = tick;
	c->server = slot - turn * server->hosts;	/* as server_of_slot() has it */
	c->server_port = server->port_first + turn - divide(turn, control.server_ports_inverse) * server->ports;
	c->owner = number;
	if (sampled)
		measure(core, TIME_SYN_SENT, c->intended_ns, now);
	WRITE_ONCE(c->phase, make_phase(CONNECTION_SYN_SENT, 0, sampled ? CONNECTION_SAMPLED : 0, control.round));
}

static __always_inline bool finish_schedule(struct tcp_core *core)
{
	core->finished = core->now | 1;
	return false;
}

/* Whether a start is due. The clock is read only when the last reading does not answer. */
static __always_inline bool start_is_due(struct tcp_core *core, __u32 number)
{
	const struct tcp_step *step;
	__u32 target = control.target_open[number];

	if (core->finished)
		return false;
	step = &control.steps[core->step & (MAX_STEPS - 1)];
	if (core->now == 0 || core->due >= core->now || control.unpaced)
		if (core->now == 0 || !control.unpaced || (core->turns & 15) == 0)
			read_schedule_clock(core);
	if (core->now == 0)
		return false;
	if (control.unpaced)
		return core->now < step->end ? 1 : finish_schedule(core);
	if (core->now >= control.last_start)
		return finish_schedule(core);	/* what is still due is left out */
	if (step->interval == 0)
		core->due = step->end;	/* of a silence: what is not due is what has the clock read again */
	if (core->due >= step->end) {
		if (core->now < step->end)
			return false;
		core->due = step->end;
		core->step++;
		return core->step >= control.step_count ? finish_schedule(core) : 0;
	}
	if (core->due >= core->now)
		return false;
	if (target && core->opened - READ_ONCE(core->ended) >= target) {
		core->due = core->now;	/* a start waits for an end: it is not late */
		return false;
	}
	if (core->now - core->due > core->largest_lag)
		core->largest_lag = core->now - core->due;
	return true;
}

static __always_inline int open_connection(struct tcp_core *core, __u32 number, struct segment *segment)
{
	__u32 slot = 0;
	struct connection *c = next_tuple(core, number, &slot, segment->stamp);

	count(core, COUNT_ATTEMPTED);
	if (!c) {
		count(core, COUNT_NO_TUPLE);
		core->due += control.steps[core->step & (MAX_STEPS - 1)].interval;
		return SILENT;
	}
	begin_connection(core, number, c, slot, segment->stamp);
	core->due += control.steps[core->step & (MAX_STEPS - 1)].interval;
	core->opened++;
	count(core, COUNT_OPENED);
	address(segment, c, slot);
	say_syn(c, c->phase, segment);
	return SPEAK;
}

static __always_inline enum tcp_count timeout_of(__u8 state)
{
	if (state == CONNECTION_SYN_SENT)
		return COUNT_TIMEOUT_CONNECT;
	return state == CONNECTION_REQUESTED ? COUNT_TIMEOUT_ANSWER : COUNT_TIMEOUT_CLOSE;
}

/* Gives up. What was established is reset, so that firewall and server forget it too. */
static __always_inline int give_up(struct tcp_core *core, struct connection *c, __u32 phase, struct segment *segment)
{
	__u8 state = phase_state(phase);

	say(c, phase, segment, TCP_RST | TCP_ACK);
	segment->has_stamp = 0;
	return end_connection(core, c, phase, timeout_of(state), segment->stamp) && state != CONNECTION_SYN_SENT ? SPEAK : SILENT;
}

static __always_inline int say_again(struct tcp_core *core, struct connection *c, __u32 slot, __u32 phase,
				     struct segment *segment)
{
	switch (phase_state(phase)) {
	case CONNECTION_SYN_SENT:
		count(core, COUNT_SYN_AGAIN);
		say_syn(c, phase, segment);
		return SPEAK;
	case CONNECTION_REQUESTED:
		count(core, COUNT_REQUEST_AGAIN);
		if (c->acked < ((__u32)c->done + 1) * request.bytes)
			say_request(core, c, slot, phase, segment);
		else
			say(c, phase, segment, TCP_ACK);
		return SPEAK;
	case CONNECTION_FIN_SENT:
	case CONNECTION_FIN_ACKED:	/* The server keeps nothing: only our FIN has it say its own again. */
	case CONNECTION_LAST_ACK:
		count(core, COUNT_CLOSE_AGAIN);
		say(c, phase, segment, TCP_FIN | TCP_ACK);
		segment->sequence--;
		return SPEAK;
	default:
		count(core, COUNT_CLOSE_AGAIN);
		say(c, phase, segment, TCP_ACK);
		return SPEAK;
	}
}

/* A held connection: verify it, or end it, when the time has come. */
static __always_inline int look_at_held(struct tcp_core *core, struct connection *c, __u32 slot, __u32 phase, __u32 idle,
					struct segment *segment)
{
	__u32 next;

	if (phase_round(phase) != (control.round & 0xff) && request.bytes) {
		next = make_phase(CONNECTION_REQUESTED, 0, phase_flags(phase) | CONNECTION_VERIFIED, control.round);
		if (!move(core, c, phase, next))
			return SILENT;
		c->touched = segment->stamp;
		say_request(core, c, slot, next, segment);
		return SPEAK;
	}
	if (!control.closing && (control.close == CLOSE_NEVER || idle < control.hold_ticks))
		return SILENT;
	begin_close(c, phase);
	if (control.close == CLOSE_CLIENT_FIN) {
		next = next_phase(phase, CONNECTION_FIN_SENT, 0);
		if (!move(core, c, phase, next))
			return SILENT;
		c->touched = segment->stamp;
		say_fin(c, next, segment);
		return SPEAK;
	}
	say(c, phase, segment, TCP_RST | TCP_ACK);
	segment->has_stamp = 0;
	return end_connection(core, c, phase, COUNT_CLOSED, segment->stamp) ? SPEAK : SILENT;
}

static __always_inline int look_at(struct tcp_core *core, struct connection *c, __u32 slot, __u32 tick,
				   struct segment *segment)
{
	__u32 phase = READ_ONCE(c->phase), idle = tick - c->touched, next;

	if (is_over(phase_state(phase)))
		return SILENT;
	/* The coarse clock of another core may be a tick ahead. */
	if ((__s32)idle < 0)
		return SILENT;
	if (phase_state(phase) == CONNECTION_HELD) {
		if (look_at_held(core, c, slot, phase, idle, segment) == SILENT)
			return SILENT;
	} else {
		if (idle < control.retry_ticks << (phase_retries(phase) & 15))
			return SILENT;
		if (phase_retries(phase) >= control.retries) {
			if (give_up(core, c, phase, segment) == SILENT)
				return SILENT;
		} else {
			next = phase + (1 << 8);
			if (!move(core, c, phase, next))
				return SILENT;
			c->touched = tick;
			if (say_again(core, c, slot, next, segment) == SILENT)
				return SILENT;
		}
	}
	address(segment, c, slot);
	return SPEAK;
}

/* Goes through the core's connections, some a turn, and from the beginning again after a while. */
static __always_inline int scan(struct tcp_core *core, __u32 number, __u32 most, struct segment *segment)
{
	__u32 tick = segment->stamp;

	for (__u32 i = 0; i < LOOKED_AT_IDLE; i++) {
		__u32 slot = control.slot_first[number] + core->scan_next;
		struct connection *c;

		if (i >= most)
			break;
		if (core->scan_next >= control.slot_count[number]) {
			if (tick - core->scan_began < control.scan_ticks)
				return SILENT;
			core->scan_began = tick;
			core->scan_next = 0;
			return SILENT;
		}
		core->scan_next++;
		c = bpf_map_lookup_elem(&connections, &slot);
		if (!c)
			return SILENT;
		if (look_at(core, c, slot, tick, segment) == SPEAK)
			return SPEAK;
	}
	return SILENT;
}

/* What is due beside the connections, while `start_due` says whether a start is too. Negative when nothing is. `segment` has
 * the stamp alone. */
static __always_inline int go_beside(struct xdp_md *ctx, struct tcp_core *core, struct segment *segment, bool start_due)
{
	struct beside_core *own = this_beside();
	int action;

	if (!core || !segment)
		return -1;
	/* Some turns are left to starts and retransmissions, however far behind a flood is. */
	if (core->turns & 3) {
		if (reset_is_due(core, own))
			return reset(ctx, own, segment);
		if (attack_is_due(core, own, start_due))
			return attack(ctx, own, segment);
	}
	if (!start_due || !beside.illegal_step || !is_illegal_turn(own))
		return -1;
	action = illegal(ctx, own, segment);
	if (action >= 0)
		core->due += control.steps[core->step & (MAX_STEPS - 1)].interval;
	return action;
}

/* Before the start: forgets the connections of the last run. */
static __always_inline int clear_some(struct tcp_core *core, __u32 number)
{
	for (int i = 0; i < CLEARED_A_TURN; i++) {
		__u32 slot = control.slot_first[number] + core->scan_next;
		struct connection *c;

		if (core->scan_next >= control.slot_count[number]) {
			core->turns = 1;	/* ready */
			return XDP_DROP;
		}
		core->scan_next++;
		c = bpf_map_lookup_elem(&connections, &slot);
		if (c)
			c->phase = CONNECTION_FREE;
	}
	return XDP_DROP;
}

/* The oldest frame that a receiver on core `from` left. */
static __always_inline struct deferred_frame *next_deferred(__u32 from)
{
	struct tcp_core *core = &cores[from & (MAX_CORES - 1)];
	__u32 out = core->deferred_out;

	if (out == READ_ONCE(core->deferred_in))
		return NULL;
	core->deferred_out = out + 1;
	return deferred_at(from, out);
}

static __always_inline int client_send(struct xdp_md *ctx)
{
	__u32 number = this_core(), other;
	struct tcp_core *core = &cores[number];
	struct deferred_frame *left;
	struct segment segment = {};	/* the verifier does not see that whoever speaks fills it in */
	int reaction, start_due;

	if (READ_ONCE(control.start_ns) == NOT_YET)
		return clear_some(core, number);
	core->turns++;
	left = next_deferred(number);
	if (!left && control.number[number] == 1 && control.deferred_cores) {
		/* Receivers on cores that generate nothing. */
		other = core->turns % control.deferred_cores & (MAX_CORES - 1);
		if (control.number[other] == 0)
			left = next_deferred(other);
	}
	if (left)
		return send_new(ctx, &left->segment, left->port);
	segment.stamp = tick_now(core);
	start_due = start_is_due(core, number);
	if (beside.active) {
		reaction = go_beside(ctx, core, &segment, start_due);
		if (reaction >= 0)
			return reaction;
	}
	if (start_due) {
		reaction = (core->turns & 1) ? scan(core, number, 2, &segment) : SILENT;
		if (reaction == SILENT)
			reaction = open_connection(core, number, &segment);
	} else {
		reaction = scan(core, number, LOOKED_AT_IDLE, &segment);
	}
	if (reaction == SILENT)
		return XDP_DROP;
	count(core, COUNT_FRAMES_OUT);
	core->count[COUNT_BYTES_OUT] += segment_frame_bytes(&segment);
	return send_new(ctx, &segment, control.client_port);
}

#endif
