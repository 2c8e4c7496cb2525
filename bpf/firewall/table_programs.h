/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Programs that user space runs on the tables: remove expired flows, end a flow, ask the policy. */
#ifndef RAMPART_FIREWALL_TABLE_PROGRAMS_H
#define RAMPART_FIREWALL_TABLE_PROGRAMS_H

#include "flows.h"
#include "mapping.h"
#include "route.h"
#include "scan.h"
#include "tables.h"
#include "tcp.h"

/* Never used: makes the build derive Rust types of what no map names. */
struct {
	enum sizes sizes;
	enum reason reason;
	enum tally tally;
	enum bridge_passes bridge_passes;
	enum station_bits station_bits;
	struct station_set stations;
	enum action action;
	enum flow_state state;
	enum budget budget;
	enum table_method method;
	enum limit_per per;
	enum event_kind kind;
	enum flow_end end;
	struct flow_record ended;
	enum nat_kind translation;
	enum nat_mapping mapping;
	enum mapping_protocol mapping_protocol;
	enum translates translates;
	struct event event;
	struct block_command block;
	struct table_header header;
	struct list_header list_header;
	struct listed_series listed_series;
	struct list_start list_start;
	struct nat_row row;
	struct prefix_row prefix_row;
	struct answered_row answered;
	struct table_command command;
	enum table_task task;
	struct judge_command question;
	struct early_fragment early;
	struct refused_packet refused;
	enum forwarding_times times;
	enum family_bits family;
	enum syn_proxy syn_proxy;
	enum era era;
	enum mark_bits mark;
	enum extra_bits extras;
	enum gateway_mark gateway;
	enum hook hook;
	enum xdp_action returned;
} layouts;

#define SWEEPS_OF_MAPPINGS 8	/* one of so many sweeps looks after the mappings of a connection: at least twice in MAPPING_REFRESH */

struct sweep {
	__u64 tick;
	__u32 first;
	__u32 number;
	__u32 done;
	__u32 pad;
};

/* The packet that an end of a flow sends. */
static __always_inline void find_ends(struct packet *p, const struct flow *from, __u32 sender)
{
	__u32 r = sender ^ 1;

	p->family = family_of(from);
	p->protocol = from->protocol;
	flow_address(from, sender, p->source);
	flow_address(from, r, p->destination);
	p->source_port = from->port[sender];
	p->destination_port = from->port[r];
	if (is_translated(from)) {
		p->destination[0] = alias_address(from, r);
		p->destination_port = alias_port(from, r);
	}
	find_side(p);
}

/* Whether the address that a masqueraded flow has outside is no address of this machine any more. */
static __always_inline bool has_lost_its_address(const struct flow *flow)
{
	struct address alias = { { alias_address(flow, flow->initiator & 1) }, 4, 0 };

	return is_translated(flow) && flow->family & FLOW_MASQUERADED && !is_local(&alias);
}

/* A flow that expired, as its first packet was: kept beside the stack, which is short. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct packet);
} expired_packet SEC(".maps");

/* Whether nobody answered a flow, or what was answered never became a connection: a handshake that did not end, or that a reset ended. */
static __always_inline bool was_in_vain(const struct flow *flow)
{
	__u32 r = (flow->initiator & 1) ^ 1;
	__u8 state = flow->state;

	if (READ_ONCE(flow->family) & FLOW_IS_MAPPING)
		return false;
	return budget_of(state) != NO_BUDGET || (state == FLOW_RESET && flow->packets[r] <= 1 && !flow->packets_high[r]);
}

/* Removes a flow that expired. What its initiator asked for in vain is counted: it is read before the record may be another's. */
__noinline int remove_expired(struct flow *flow, __u32 use, __u64 tick)
{
	struct packet *p = 0;

	if (!flow)
		return 0;
	if (settings.scan_window && was_in_vain(flow))
		p = lookup(&expired_packet, 0);
	if (p) {
		p->flags = 0;
		p->from = flow->zone[flow->initiator & 1];
		p->to = flow->zone[(flow->initiator & 1) ^ 1];
		p->slot = NO_SLOT;
		p->generation = flow->generation;
		set_clock(p, tick);
		find_ends(p, flow, flow->initiator & 1);
	}
	if (!remove_over(flow, use))
		return 0;
	if (p && p->from != ZONE_SELF && is_asking(p))
		count_in_vain(p);
	return 1;
}

/* Ends a flow that has lost its address. Of a connection, both ends get a reset for whatever they send from now on, rather than wait: as after a start
 * that could not take all flows over (refuse_stranger in core.h), and for as long as an end may be silent. */
static __always_inline void end_lost(struct flow *flow, __u32 use, struct sweep *sweep)
{
	__u64 until = sweep->tick + settings.timeouts[FLOW_ESTABLISHED];
	bool is_connection = flow->protocol == PROTOCOL_TCP;

	if (!remove_flow(flow, use, END_FORCED))
		return;
	sweep->done++;
	tally(TALLY_EXPIRED, 1);
	if (is_connection && until > settings.strangers_until)
		WRITE_ONCE(settings.strangers_until, until);
}

static int sweep_record(__u32 turn, struct sweep *sweep)
{
	__u32 record = sweep->first + turn;
	struct flow *flow = lookup(&flows, record);
	__u32 use;

	if (!flow)
		return 1;
	use = use_of(flow, record);
	if (flow->state == FLOW_FREE)
		return 0;
	if (has_lost_its_address(flow)) {
		end_lost(flow, use, sweep);
		return 0;
	}
	if (!is_expired(flow, sweep->tick, SWEEP_GRACE)) {
		if ((record + sweep->number) % SWEEPS_OF_MAPPINGS == 0)
			keep_mappings(flow, sweep->tick);
		return 0;
	}
	if (remove_expired(flow, use, sweep->tick)) {
		sweep->done++;
		tally(TALLY_EXPIRED, 1);
	}
	return 0;
}

/* The command that a program was run with, as its packet. */
static __always_inline void *command_of(struct xdp_md *ctx, __u32 bytes)
{
	void *command = (void *)(long)ctx->data;

	return command + bytes > (void *)(long)ctx->data_end ? 0 : command;
}

SEC("xdp")
int end_flow(struct xdp_md *ctx)
{
	struct table_command *command = command_of(ctx, sizeof(*command));
	struct flow *flow = command ? lookup(&flows, command->first) : 0;

	if (!command)
		return XDP_ABORTED;
	command->done = 0;
	if (!flow || flow->number != command->number || flow->state == FLOW_FREE)
		return XDP_PASS;
	command->done = remove_flow(flow, (__u32)slot_of(0, command->number, command->first), END_FORCED);
	tally(TALLY_KILLED, command->done);
	return XDP_PASS;
}

/* Ends the block of a source, and forgets what was counted for it. */
SEC("xdp")
int end_block(struct xdp_md *ctx)
{
	struct block_command *command = command_of(ctx, sizeof(*command));

	if (!command)
		return XDP_ABORTED;
	command->done = forget_source(command->key, whole_tick());
	return XDP_PASS;
}

struct moved {
	struct xdp_md *ctx;
	__u64 tick;
	__u32 first;
	__u32 place;
	__u32 zone;
	__u32 done;
};

/* Whether an end of a flow lives at an interface that belonged to the end's zone. A bridge has no routes: there all of the zone's do that cross it. */
static __always_inline bool lives_there(const struct moved *m, const struct flow *flow, __u32 end)
{
	struct address address;
	struct route route;
	__be32 words[4];

	if (flow->zone[end & 1] != m->zone)
		return false;
	if (ports[m->place & (MAX_PORTS - 1)].bridged_to)
		return flow->zone[(end & 1) ^ 1] != ZONE_SELF;
	flow_address(flow, end & 1, words);
	address_of(words, family_of(flow), &address);
	route_find(m->ctx, &address, m->tick, &route, HOOK_XDP);
	return route.kind & ROUTE_IS_PORT && route.port == m->place;
}

static int end_moved_record(__u32 turn, struct moved *m)
{
	__u32 record = m->first + turn, use;
	struct flow *flow = lookup(&flows, record);

	if (!flow)
		return 1;
	use = use_of(flow, record);
	if (flow->state == FLOW_FREE || READ_ONCE(flow->family) & FLOW_IS_MAPPING || !(lives_there(m, flow, 0) || lives_there(m, flow, 1)))
		return 0;
	if (remove_flow(flow, use, END_FORCED)) {
		m->done++;
		tally(TALLY_REVOKED, 1);
	}
	return 0;
}

static __always_inline __u32 sweep_all(const struct table_command *command)
{
	struct sweep sweep = { .tick = whole_tick(), .first = command->first, .number = command->number };

	bpf_loop(command->count, sweep_record, &sweep, 0);
	return sweep.done;
}

/* Ends the flows of an interface that belongs to another zone now. Their packets would be dropped as those of strangers, and while the other end goes on
 * sending, nobody could open them anew. */
static __always_inline __u32 end_moved(struct xdp_md *ctx, const struct table_command *command)
{
	struct moved moved = { .ctx = ctx, .tick = whole_tick(), .first = command->first };

	moved.place = command->number & 0xffff;
	moved.zone = command->number >> 16;
	bpf_loop(command->count, end_moved_record, &moved, 0);
	return moved.done;
}

/* Both tasks in one program: what removes a flow is most of it, and is verified once. */
SEC("xdp")
int sweep_flows(struct xdp_md *ctx)
{
	struct table_command *command = command_of(ctx, sizeof(*command));

	if (!command)
		return XDP_ABORTED;
	command->done = command->task == TASK_END_MOVED ? end_moved(ctx, command) : sweep_all(command);
	return XDP_PASS;
}

/* Counts fragments that user space kept in vain: their first did not come, or there was no room for them. */
SEC("xdp")
int lose_fragments(struct xdp_md *ctx)
{
	struct table_command *command = command_of(ctx, sizeof(*command));
	struct counts *mine = lookup(&counts, 0);

	if (!command || !mine)
		return XDP_ABORTED;
	mine->drops[REASON_FRAGMENT_UNKNOWN] += command->count;
	return XDP_PASS;
}

/* Takes the other slot of a translated flow that came from elsewhere, unless somebody has its alias by now. */
static __always_inline bool take_replies(struct packet *p, const struct flow *from, __u32 use)
{
	find_ends(p, from, (from->initiator & 1) ^ 1);
	return take_alias(p, use);
}

static __always_inline void catch_up_number(__u32 *to, __u32 from)
{
	if ((__s32)(from - *to) > 0)
		*to = from;
}

/* What packets did to a flow in another table since it was taken from there. */
static __always_inline void catch_up(struct flow *to, const struct flow *from)
{
	__u8 state = to->state;

	if ((__s32)(from->seen - to->seen) > 0) {
		to->seen = from->seen;
		to->initiator = (to->initiator & 1) | (from->initiator & ~1);
	}
	if (to->protocol != PROTOCOL_TCP)
		return;
	for (int end = 0; end < 2; end++) {
		catch_up_number(&to->end[end], from->end[end]);
		catch_up_number(&to->reach[end], from->reach[end]);
		catch_up_number(&to->acked[end], from->acked[end]);
		if (from->window[end] > to->window[end])
			to->window[end] = from->window[end];
	}
	to->flags |= from->flags & (FLOW_FIN_OF(0) | FLOW_FIN_OF(1) | FLOW_ACK_OF(0) | FLOW_ACK_OF(1) | FLOW_SCALES);
	/* States of TCP are in the order in which a connection goes through them. */
	if (state != FLOW_FREE && from->state > state)
		move(to, state, from->state);
}

/* A command's flow: the verifier does not let a packet be read at an end that it does not know. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow);
} carried_flow SEC(".maps");

/*
 * Takes a flow from another firewall's table, whose record is the command. XDP_PASS: it is new here; XDP_TX: it was here, and has
 * caught up; XDP_DROP: there is no room for it, or its ends are not in the order of this table.
 */
SEC("xdp")
int take_flow(struct xdp_md *ctx)
{
	struct flow *command = command_of(ctx, sizeof(*command)), *from = lookup(&carried_flow, 0), *flow;
	struct packet p = {};
	__be32 initiator[4];
	__u32 record;
	__u64 found;

	if (!command || !from)
		return XDP_ABORTED;
	*from = *command;
	if (is_translated(from) && family_of(from) != 4)
		return XDP_DROP;
	/* What its ends know each other by is in the other table's memory. */
	if (is_proxied(from))
		return XDP_DROP;
	find_ends(&p, from, is_translated(from) ? from->initiator & 1 : 0);
	if (p.side && !is_translated(from))
		return XDP_DROP;
	found = search_flow(&p);
	if (found) {
		flow = lookup(&flows, (__u32)found & RECORD_MASK);
		if (flow)
			catch_up(flow, from);
		return XDP_TX;
	}
	found = take_record(whole_tick());
	record = found;
	flow = found ? lookup(&flows, record) : 0;
	if (!flow)
		return XDP_DROP;
	from->number = flow->number;
	*flow = *from;
	/* No rule counts it yet; the next packet is judged again, and then one does. */
	flow->mark &= MARK_SLOT;
	flow_address(flow, flow->initiator & 1, initiator);
	flow->source = place_of_source(p.family, initiator);
	occupy(flow->source, 1);
	recount(flow->source, FLOW_FREE, flow->state);
	if (!publish(&p, slot_of(p.tag, flow->number, record & RECORD_MASK))) {
		give_back(flow, record);
		return XDP_DROP;
	}
	if (is_translated(flow) && !take_replies(&p, flow, slot_of(0, flow->number, record & RECORD_MASK))) {
		remove_flow(flow, slot_of(0, flow->number, record & RECORD_MASK), END_UNSEEN);
		return XDP_DROP;
	}
	tally(TALLY_OPENED, 1);
	return XDP_PASS;
}

SEC("xdp")
int judge(struct xdp_md *ctx)
{
	struct judge_command *command = command_of(ctx, sizeof(*command));
	struct question question = {};

	if (!command)
		return XDP_ABORTED;
	question.command = *command;
	judge_question(&question);
	*command = question.command;
	return XDP_PASS;
}

#endif
