/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What rules ask for besides their verdict, done where a flow opens, is refused or is judged again. A rule that asks for nothing has
 * no bit in p->extras, and nothing here is called.
 */
#ifndef RAMPART_FIREWALL_WATCH_H
#define RAMPART_FIREWALL_WATCH_H

#include "alert.h"

/* What a flow says in its mark of these terms: whether it is to be counted, and by which address. */
static __always_inline __u32 mark_of(const struct limit_terms *terms)
{
	return (terms->connections ? MARK_LIMITED : 0) | (terms->limit_per & 3) << MARK_PER_SHIFT | terms->epoch << MARK_EPOCH_SHIFT;
}

/* Why a packet is dropped that its rule, the default of its zones or a list refuses. */
static __always_inline enum reason refusal_of(const struct packet *p)
{
	if (p->row == ROW_LIST)
		return REASON_LIST;
	if (p->action == ACTION_REJECT)
		return p->row ? REASON_RULE_REJECT : REASON_DEFAULT_REJECT;
	return p->row ? REASON_RULE_DENY : REASON_DEFAULT_DENY;
}

/* Such a packet. */
__noinline int note_refused(struct packet *p)
{
	struct limit_terms *terms;

	if (!p)
		return 0;
	terms = terms_of(p->extras);
	if (terms)
		count_alert(p, terms);
	if (p->extras & EXTRA_LOG_OPEN)
		log_packet(p, EVENT_REFUSED, refusal_of(p));
	return 0;
}

/* Replaces the mark that a flow is known to have. Returns true if this call did it. */
static __always_inline bool replace_mark(struct flow *flow, __u32 old, __u32 new)
{
	return __sync_val_compare_and_swap(&flow->mark, old, new) == old;
}

/* Asks what a rule wants before it lets a packet open a flow. 0, or why it is dropped. */
__noinline int ask_rule(struct packet *p)
{
	struct limit_terms *terms;
	int reason;

	if (!p)
		return REASON_LIMIT_FULL;
	if (!(p->extras & EXTRA_TERMS))
		return 0;
	terms = terms_of(p->extras);
	if (!terms)
		return REASON_LIMIT_FULL;
	count_alert(p, terms);
	if (!terms->interval && !terms->connections)
		return 0;
	reason = ask_limit(p, terms);
	p->mark |= mark_of(terms);
	if (reason && p->extras & EXTRA_LOG_OPEN)
		log_packet(p, EVENT_REFUSED, reason);
	return reason;
}

/* Gives the mark of a flow that has just opened what its rule asks for. 0, or why it must go again. */
static __always_inline int mark_opened(struct packet *p, struct flow *flow)
{
	__u32 plain = p->mark, mark = plain;
	struct limit_terms *terms;

	if (p->extras & EXTRA_LOG_CLOSE)
		mark |= MARK_LOG;
	/* Another core opened it too, and was faster; or it has ended. */
	if (READ_ONCE(flow->mark) != plain)
		return 0;
	if (mark & MARK_LIMITED) {
		terms = terms_of(p->extras);
		if (!terms || !count_concurrent(flow, plain, terms, false))
			return REASON_CONNECTIONS;
		mark |= MARK_COUNTED;
	}
	if (mark != plain && !replace_mark(flow, plain, mark) && mark & MARK_COUNTED)
		release_concurrent(flow, mark);
	return 0;
}

/* A flow has opened, or a packet of which none can come may pass. 0, or why it is dropped. */
__noinline int note_opened(struct packet *p)
{
	struct flow *flow;
	int reason = 0;

	if (!p)
		return REASON_LIMIT_FULL;
	/* Only now: a flow that two cores opened at once and one withdrew was never open. */
	flow = p->flags & PACKET_STATELESS ? 0 : lookup(&flows, p->record & RECORD_MASK);
	if (flow)
		reason = mark_opened(p, flow);
	/* It fitted when it was asked for, and other cores were faster. */
	if (reason && remove_flow(flow, p->record, END_UNSEEN))
		tally(TALLY_CLOSED, 1);
	if (p->extras & EXTRA_LOG_OPEN)
		log_packet(p, reason ? EVENT_REFUSED : EVENT_OPENED, reason);
	return reason;
}

/* A flow goes on under another rule than before, or under what became of the same rule. It is counted there whether it fits or not. */
__noinline int move_mark(struct packet *p, struct flow *flow, __u32 old)
{
	struct limit_terms *terms;
	__u32 mark, kept = 0;

	if (!p || !flow || old == MARK_NONE)
		return 0;
	mark = p->mark;
	terms = terms_of(p->extras);
	if (terms && terms->connections) {
		mark |= mark_of(terms);
		kept = old & MARK_COUNTED && !((old ^ mark) & ~(MARK_COUNTED | MARK_LOG));
		if (kept || count_concurrent(flow, mark, terms, true))
			mark |= MARK_COUNTED;
	}
	if (p->extras & EXTRA_LOG_CLOSE)
		mark |= MARK_LOG;
	/* Another core may have done it, or may have ended the flow: the place that was taken here is released again. */
	if (replace_mark(flow, old, mark)) {
		if (old & MARK_COUNTED && !kept)
			release_concurrent(flow, old);
	} else if (mark & MARK_COUNTED && !kept) {
		release_concurrent(flow, mark);
	}
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
