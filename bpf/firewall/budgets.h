/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * How much there is of what somebody outside can make us keep: flows, in all and by source, and flows that nobody has answered yet,
 * of which there are two budgets: handshakes of TCP, and all else. A source is the IPv4 address that opened a flow, or the first
 * 64 bits of an IPv6 address, because one host may have all addresses behind them. Sources are counted in SOURCES places,
 * found by a hash with a secret: two may share a place, and nobody can choose with whom.
 *
 * The counts are exact. A state changes by a swap of the word that it shares with the number of the record's use, so the source that
 * was read before the swap is the source of the flow whose state was swapped.
 */
#ifndef RAMPART_FIREWALL_BUDGETS_H
#define RAMPART_FIREWALL_BUDGETS_H

#include "packet.h"
#include "state.h"
#include "hash.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SOURCES);
	__type(key, __u32);
	__type(value, struct source);
} sources SEC(".maps");

struct pool pool;

static __always_inline bool is_half_open(__u8 state)
{
	return state >= FLOW_SYN_SENT && state <= FLOW_SYN_RECEIVED;
}

static __always_inline __u32 budget_of(__u8 state)
{
	if (state == FLOW_ONE_WAY)
		return BUDGET_UNANSWERED;
	return is_half_open(state) ? BUDGET_HALF_OPEN : NO_BUDGET;
}

/* Where what a source has is counted. */
static __always_inline __u32 place_of_source(__u8 family, const __be32 *address)
{
	__u64 network = family == 4 ? address[0] : (__u64)address[0] << 32 | address[1];

	return mix(secret[family == 4 ? 3 : 4], network) >> 48;
}

static __noinline struct source *source_at(__u32 place)
{
	return lookup(&sources, place);
}

static __always_inline void spend(__u32 budget, struct source *source, __u32 by)
{
	if (budget >= BUDGETS)
		return;
	__sync_fetch_and_add(&pool.spent[budget & 1], by);
	if (source)
		__sync_fetch_and_add(&source->spent[budget & 1], by);
}

/* A flow of this source went from one state to another. */
__noinline int recount(__u32 place, __u32 from, __u32 to)
{
	struct source *source = lookup(&sources, place);

	spend(budget_of(from), source, -1);
	spend(budget_of(to), source, 1);
	return 0;
}

/*
 * How often the time of unanswered flows is halved: as the table fills, they make room sooner. Two cores that write it together may leave the
 * older number, until the next flow opens or ends.
 */
static __always_inline void note_pressure(__u32 used)
{
	__u32 pressure = (used > record_count / 2) + (used > record_count / 4 * 3) + (used > record_count / 8 * 7);

	if (READ_ONCE(pool.pressure) != pressure)
		WRITE_ONCE(pool.pressure, pressure);
}

/* A record holds a flow of this source from now on, by 1, or none any more, by -1. */
static __always_inline void occupy(__u32 place, __u32 by)
{
	struct source *source = source_at(place);

	note_pressure(__sync_fetch_and_add(&pool.used, by) + by);
	if (source)
		__sync_fetch_and_add(&source->flows, by);
}

#define NEIGHBOUR_TICKS 30	/* from one question to the next, on the average: 32 a second */
#define NEIGHBOUR_SLACK (31 * NEIGHBOUR_TICKS)	/* 32 at once */

/*
 * Whether a source may make the kernel look for one more neighbour. The kernel keeps each that it looks for, alive or not, for some seconds, and
 * has room for 1,024 (net.ipv4.neigh.default.gc_thresh3): a host that tries all addresses of a network would fill it. Cores that
 * ask at the same moment may let one too many through.
 */
__noinline int may_ask_neighbour(struct packet *p)
{
	struct source *source = p ? source_at(place_of_source(p->family, p->source)) : 0;
	__u32 ahead;

	if (!source)
		return 0;
	ahead = READ_ONCE(source->neighbours_due) - p->tick;
	/* In the past, or so long ago that ticks have wrapped. */
	if (ahead > NEIGHBOUR_SLACK + NEIGHBOUR_TICKS)
		ahead = 0;
	if (ahead > NEIGHBOUR_SLACK)
		return 0;
	WRITE_ONCE(source->neighbours_due, p->tick + ahead + NEIGHBOUR_TICKS);
	return 1;
}

/* The word of a flow that its state shares with the number of its record's use. */
static __always_inline __u64 *state_word(struct flow *flow)
{
	_Static_assert(__builtin_offsetof(struct flow, state) == __builtin_offsetof(struct flow, number) + 4 &&
			       !(__builtin_offsetof(struct flow, number) & 7), "one word");
	return (__u64 *)&flow->number;
}

#define STATE_SHIFT 32	/* of the state in that word; little endian, as the kernel's programs are here */
#define STATE_BITS (0xffULL << STATE_SHIFT)

/* Swaps the state for another, if nothing in its word has changed since `old` was read, with `from` in it. Returns true if this call did it. */
static __always_inline bool swap_state(struct flow *flow, __u64 old, __u8 from, __u8 to)
{
	__u32 place = READ_ONCE(flow->source);

	if (__sync_val_compare_and_swap(state_word(flow), old, (old & ~STATE_BITS) | (__u64)to << STATE_SHIFT) != old)
		return false;
	if (budget_of(from) != budget_of(to))
		recount(place, from, to);
	return true;
}

#endif
