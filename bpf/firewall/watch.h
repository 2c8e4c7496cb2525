/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What rules ask for besides their verdict, done where a flow opens, is refused or is judged again. A rule that asks for nothing has
 * no bit in p->extras, and nothing here is called.
 */
#ifndef RAMPART_FIREWALL_WATCH_H
#define RAMPART_FIREWALL_WATCH_H

#include "flows.h"

/* A packet that its rule, or the default of its zones, refuses. */
__noinline int note_refused(struct packet *p)
{
	__u32 reason;

	if (!p)
		return 0;
	if (p->action == ACTION_REJECT)
		reason = p->row ? REASON_RULE_REJECT : REASON_DEFAULT_REJECT;
	else
		reason = p->row ? REASON_RULE_DENY : REASON_DEFAULT_DENY;
	if (p->extras & EXTRA_LOG_OPEN)
		log_packet(p, EVENT_REFUSED, reason);
	return 0;
}

/* Puts a flow's new mark in place of the one that it is known to have; 1 when this was who did it. */
static __always_inline int replace_mark(struct flow *flow, __u32 old, __u32 new)
{
	return __sync_val_compare_and_swap(&flow->mark, old, new) == old;
}

/* A flow has opened, or a packet of which none can come has passed. */
__noinline int note_opened(struct packet *p)
{
	struct flow *flow;

	if (!p)
		return 0;
	if (p->extras & EXTRA_LOG_OPEN)
		log_packet(p, EVENT_OPENED, 0);
	if (!(p->extras & EXTRA_LOG_CLOSE) || p->flags & PACKET_STATELESS)
		return 0;
	/* Only now: a flow that two cores opened at once and one withdrew has not ended. */
	flow = lookup(&flows, p->record);
	if (flow)
		replace_mark(flow, p->mark, p->mark | MARK_LOG);
	return 0;
}

/* A flow goes on under another rule than before, or under what became of the same. */
__noinline int move_mark(struct packet *p, struct flow *flow, __u32 old)
{
	__u32 mark;

	if (!p || !flow || old == MARK_NONE)
		return 0;
	mark = p->mark;
	if (p->extras & EXTRA_LOG_CLOSE)
		mark |= MARK_LOG;
	/* Another core may have done it, or may have ended the flow: then there is nothing left to do. */
	replace_mark(flow, old, mark);
	return 0;
}

/* `old` is the flow's mark from before it was judged again. */
static __always_inline void mark_again(struct packet *p, struct flow *flow, __u32 old)
{
	if (p->extras || old & MARK_SPECIAL)
		move_mark(p, flow, old);
	else
		flow->mark = p->mark;
}

#endif
