/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Programs that user space runs on the tables: remove expired flows, end a flow, ask the policy. */
#ifndef RAMPART_FIREWALL_TABLE_PROGRAMS_H
#define RAMPART_FIREWALL_TABLE_PROGRAMS_H

#include "flows.h"
#include "tables.h"

/* Never used: makes the build derive Rust types of what no map names. */
struct {
	enum sizes sizes;
	enum reason reason;
	enum tally tally;
	enum action action;
	enum flow_state state;
	enum table_method method;
	enum limit_per per;
	enum event_kind kind;
	struct event event;
	struct table_header header;
	struct table_command command;
	struct judge_command question;
} layouts;

struct sweep {
	__u32 first;
	__u32 tick;
	__u32 done;
};

static int sweep_record(__u32 turn, struct sweep *sweep)
{
	__u32 record = sweep->first + turn;
	struct flow *flow = lookup(&flows, record);
	__u32 use;

	if (!flow)
		return 1;
	use = use_of(flow, record);
	if (flow->state == FLOW_FREE || !is_expired(flow, sweep->tick, SWEEP_GRACE))
		return 0;
	if (remove_flow(flow, use)) {
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
int sweep_flows(struct xdp_md *ctx)
{
	struct table_command *command = command_of(ctx, sizeof(*command));
	struct sweep sweep = { .tick = now() };

	if (!command)
		return XDP_ABORTED;
	sweep.first = command->first;
	bpf_loop(command->count, sweep_record, &sweep, 0);
	command->done = sweep.done;
	return XDP_PASS;
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
	command->done = remove_flow(flow, (__u32)slot_of(0, command->number, command->first));
	tally(TALLY_KILLED, command->done);
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
