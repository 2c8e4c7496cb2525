/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Room for a new flow. When a budget of what nobody has answered is used up, or the table is full, an eviction scan looks for such
 * a flow that has waited for more than a second: no honest handshake takes so long, and a datagram that gets no answer in a
 * second rarely gets one. A younger one goes if its source has more than its share of the budget and who wants the place has
 * not. So a flood evicts its own flows, and a host that floods alone does not keep others out. What both ends take part in never goes.
 */
#ifndef RAMPART_FIREWALL_EVICT_H
#define RAMPART_FIREWALL_EVICT_H

#include "tcp.h"

#define UNFINISHED_STEPS 1024	/* records that a scan looks at: about 10 us, at most once a tick in vain */
#define SHARE_SHIFT 4		/* a source's share is a sixteenth of a budget */

/* What a scan looks for. */
struct eviction {
	__u64 tick;
	__u32 budget;		/* whose flows may go; BUDGETS: those of any, and closed ones; NO_BUDGET: closed ones alone */
	__u32 is_within;	/* who wants the place has no more than its share */
};

/* Tick of the last scan that found nothing, by what it looked for, and by `is_within`: a flood must not stop the scans of others. */
__u32 scanned[NO_BUDGET + 1][2];

/* Of which budget the flow of a packet would be. */
static __always_inline __u32 own_budget(const struct packet *p)
{
	return p->protocol == PROTOCOL_TCP ? BUDGET_HALF_OPEN : BUDGET_UNANSWERED;
}

static __always_inline bool is_over_share(__u32 place, __u32 budget)
{
	struct source *source = source_at(place);

	return source && source->spent[budget & 1] > settings.budgets[budget & 1] >> SHARE_SHIFT;
}

static __always_inline bool may_go(const struct flow *flow, __u8 state, const struct eviction *e)
{
	__u32 budget = budget_of(state);

	if (budget == NO_BUDGET)
		return e->budget >= BUDGETS && (is_closed(state) || is_expired(flow, e->tick, SWEEP_GRACE));
	if (e->budget != BUDGETS && e->budget != budget)
		return false;
	/* A handshake that goes on does not become younger; a stream without answers does, because it would only come again. */
	if (idle_ticks(flow, e->tick) >= LEAST_WAIT ||
	    (budget == BUDGET_HALF_OPEN && ticks_since(e->tick, flow->opened) >= LEAST_WAIT))
		return true;
	return e->is_within && is_over_share(flow->source, budget);
}

/* One step of the scan: evicts the flow of the next record if it may go. */
static int evict_unfinished(__u32 turn __attribute__((unused)), struct eviction *e)
{
	__u32 used = READ_ONCE(pool.fresh), record, use;
	struct flow *flow;
	__u8 state;

	/* Records that were never used are not looked at. */
	if (used > record_count)
		used = record_count;
	if (!used)
		return 1;
	record = __sync_fetch_and_add(&pool.eviction_cursor, 1) % used;
	flow = lookup(&flows, record);
	if (!flow)
		return 0;
	use = use_of(flow, record);
	state = flow->state;
	if (state == FLOW_FREE || !may_go(flow, state, e))
		return 0;
	/* TCP that is closed is not in a budget. */
	if (!(budget_of(state) == NO_BUDGET ? remove_flow(flow, use, END_IDLE) : remove_unanswered(flow, use, END_EVICTED)))
		return 0;
	tally(budget_of(state) == NO_BUDGET ? TALLY_CLOSED : TALLY_EVICTED, 1);
	return 1;
}

static __always_inline bool has_room(__u32 budget)
{
	if (budget < BUDGETS)
		return READ_ONCE(pool.spent[budget & 1]) < settings.budgets[budget & 1];
	return budget == BUDGETS && ((__u32)READ_ONCE(pool.free_head) || READ_ONCE(pool.fresh) < record_count);
}

/* Makes room in a budget, or with BUDGETS or NO_BUDGET in the table, for the flow of a packet. Returns 1 if there is some. */
__noinline int make_room(struct packet *p, __u32 budget)
{
	struct eviction e = { .budget = budget };
	__u32 *last;

	if (!p || budget > NO_BUDGET)
		return 0;
	e.tick = tick_of(p->era, p->tick);
	e.is_within = !is_over_share(place_of_source(p->family, p->source), own_budget(p));
	last = &scanned[budget][e.is_within];
	/* A fruitless scan is dear, and the next one would be as fruitless. */
	if (READ_ONCE(*last) == p->tick)
		return 0;
	/* All steps: nothing was evicted, or the very last. */
	if (bpf_loop(UNFINISHED_STEPS, evict_unfinished, &e, 0) < UNFINISHED_STEPS || has_room(budget))
		return 1;
	WRITE_ONCE(*last, p->tick);
	/* Young flows lie together: the next scan begins somewhere else. */
	__sync_fetch_and_add(&pool.eviction_cursor, READ_ONCE(pool.fresh) / 8 * 5);
	return 0;
}

/* Whether the table's last sixteenth is not for this source, which has more than a quarter of all flows. It may still have the place of a
 * flow that is closed. */
static __always_inline bool is_kept_for_others(const struct packet *p)
{
	struct source *source = source_at(place_of_source(p->family, p->source));

	return READ_ONCE(pool.used) >= record_count - record_count / 16 && source && READ_ONCE(source->flows) > record_count / 4;
}

/* Whether a flow may open, as far as room goes. 0, or why not. */
__noinline int ask_room(struct packet *p)
{
	__u32 budget;

	if (!p)
		return REASON_TABLE_FULL;
	if (is_kept_for_others(p) && !make_room(p, NO_BUDGET))
		return REASON_SOURCE_FULL;
	budget = own_budget(p);
	if (has_room(budget) || make_room(p, budget))
		return 0;
	return budget == BUDGET_HALF_OPEN ? REASON_HALF_OPEN_FULL : REASON_UNANSWERED_FULL;
}

#endif
