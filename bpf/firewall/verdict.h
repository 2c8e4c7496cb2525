/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What becomes of a packet, and the counters of it. The core returns one of these; the entry points (firewall.bpf.c) turn
 * it into what their hook wants. Whoever drops a packet says why, by drop(); it is counted there, once, by counted(): hundreds of places
 * drop packets, and a look-up in a map at each of them would be a quarter of what the kernel verifies and patches when it loads a program.
 *
 * The stages that other headers bring, as firewall.bpf.c calls them; HOOK is a constant and `ctx` the hook's context:
 *
 *   forward.h   enum verdict route(void *ctx, struct packet *p, enum hook hook)
 *                 fills in p->to (a zone, or ZONE_SELF for the firewall's own); VERDICT_NEXT, or what became of the packet. No neighbour is not known here: it is the business of forward().
 *               enum verdict forward(void *ctx, struct packet *p, enum hook hook)
 *                 Checks zone, TTL and MTU, rewrites and redirects, or VERDICT_UP.
 *   answer.h    enum verdict answer_reject(void *ctx, struct packet *p, enum hook hook) and the like: turn the packet into
 *                 the answer and send it back; VERDICT_SENT, or drop().
 *
 * A verdict other than VERDICT_NEXT is final; after it the packet's pointers must not be used (the frame may have moved).
 */
#ifndef RAMPART_FIREWALL_VERDICT_H
#define RAMPART_FIREWALL_VERDICT_H

#include "kernel.h"
#include "packet.h"

enum verdict {
	VERDICT_NEXT = 0,	/* not decided: the next stage goes on */
	VERDICT_DROP = 1,
	VERDICT_UP = 2,		/* to the kernel, as it is */
	VERDICT_SENT = 3,	/* redirected: XDP_REDIRECT, TC_ACT_REDIRECT */
	VERDICT_KEPT = 5,	/* given to user space, which sends it in once more (early.h) */
	VERDICT_ANEW = 6,	/* of follow_proxied(): the flow is no more, and the packet may open another */
	VERDICT_COPIED = 7,	/* its copies for the other interfaces of a bridge come in once more, and are judged then (stations.h) */
	VERDICT_ELSEWHERE = 4,	/* of forward(): the route leads to another zone than the packet may go to, which is now p->to */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} counts SEC(".maps");

/* For where no function can be called any more. */
static __always_inline void tally_here(enum tally what, __u64 by)
{
	struct counts *mine = lookup(&counts, 0);

	if (mine)
		mine->tallies[what & (MAX_TALLIES - 1)] += by;
}

static __noinline void tally(enum tally what, __u64 by)
{
	tally_here(what, by);
}

/* Both at once: it is counted for every packet. */
static __always_inline void tally_forwarded(__u32 bytes)
{
	struct counts *mine = lookup(&counts, 0);

	if (!mine)
		return;
	mine->tallies[TALLY_FORWARDED]++;
	mine->tallies[TALLY_FORWARDED_BYTES] += bytes;
}

/* The packet's last verdict. */
static __always_inline enum verdict drop(struct packet *p, enum reason reason)
{
	p->reason = reason;
	return VERDICT_DROP;
}

static __noinline void count_drop(enum reason reason)
{
	struct counts *mine = lookup(&counts, 0);

	if (mine)
		mine->drops[reason & (MAX_REASONS - 1)]++;
}

/* What a hook is told of a packet. */
static __always_inline enum verdict counted(const struct packet *p, enum verdict verdict)
{
	if (verdict == VERDICT_DROP)
		count_drop(p->reason);
	return verdict;
}

#endif
