/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Fragments that come before their first. Nothing says yet whether they may pass, and a program cannot send two frames, so user space
 * keeps them for a moment (crates/dataplane/src/early): their frames go into a ring. When the first fragment of their datagram has been
 * allowed, the ring says so, and user space sends the frames in once more. Then they are met like any others that follow their first.
 *
 * So much is kept and no more: frames of EARLY_BYTES at most, some 950 a second of a source, 20,000 a second in all. What is
 * not kept is dropped, and so is everything while no user space says that it is there.
 */
#ifndef RAMPART_FIREWALL_EARLY_H
#define RAMPART_FIREWALL_EARLY_H

#include "budgets.h"
#include "hook.h"

#define EARLY_ROOM (1 << 22)	/* bytes of the ring: 2,000 fragments */
#define EARLY_WAITING 16384	/* a power of two: 50 for each fragment that may come within a jiffy of 250 a second and more */
#define EARLY_LIFE_TICKS 1024	/* about a second: as long as user space keeps a fragment */
#define EARLY_TICKS 1		/* from one fragment of a source to the next, on the average */
#define EARLY_SLACK 255		/* 256 at once: five of the longest datagrams */
#define EARLY_INTERVAL (50000ULL << MOMENT_SHIFT)	/* the same of all sources, in moments */
#define EARLY_AHEAD (2047 * EARLY_INTERVAL)
#define EARLY_TRIES 8

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, EARLY_ROOM);
} early_fragments SEC(".maps");

/* Which datagrams fragments wait for: a part of the hash and the tick. A later one takes the place; then the fragments of the one
 * before expire. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, EARLY_WAITING);
	__type(key, __u32);
	__type(value, __u64);
} early_waiting SEC(".maps");

struct early_frame {
	struct early_fragment head;
	__u8 frame[EARLY_BYTES];
};

/* Tick until which user space keeps fragments. It moves it on about once a second. */
__u64 early_until;

/* The moment from which the next fragment of all would come in time. */
__u64 early_due;

/* Where the places of a datagram begin: of its source, and among those of that source. */
struct datagram_places {
	__u32 share;
	__u32 first;
	__u32 tag;
};

static __always_inline struct datagram_places places_of(const struct packet *p)
{
	__u64 source = mix(secret[0], (__u64)p->source[0] << 32 | p->source[1]);
	__u64 all = mix(mix_address(mix(source, (__u64)p->source[2] << 32 | p->source[3]), p->destination), p->fragment_id);

	return (struct datagram_places){ .share = source >> 32, .first = all >> 32, .tag = all };
}

static __always_inline bool may_keep_of_source(const struct packet *p)
{
	struct source *source = source_at(place_of_source(p->family, p->source));
	__u32 ahead;

	if (!source)
		return false;
	ahead = READ_ONCE(source->early_due) - p->tick;
	/* As in may_ask_neighbour(). */
	if (ahead > EARLY_SLACK + EARLY_TICKS)
		ahead = 0;
	if (ahead > EARLY_SLACK)
		return false;
	WRITE_ONCE(source->early_due, p->tick + ahead + EARLY_TICKS);
	return true;
}

/* As may_log(). */
static __always_inline bool may_keep_of_all(void)
{
	__u64 at = moment();

	for (int i = 0; i < EARLY_TRIES; i++) {
		__u64 old = READ_ONCE(early_due), due = old > at ? old : at;

		if (due - at > EARLY_AHEAD)
			return false;
		if (__sync_val_compare_and_swap(&early_due, old, due + EARLY_INTERVAL) == old)
			return true;
	}
	return false;
}

static __always_inline __u64 *waiting_at(const struct datagram_places *places)
{
	return lookup(&early_waiting, places->first % EARLY_WAITING);
}

/* Whether a fragment that came before its first is to be kept. If so, the first one will announce itself. */
__noinline int await_first(struct packet *p)
{
	struct datagram_places places;
	__u64 *waiting;

	/* A copy would come in once more as the frame for all that it is a copy of. */
	if (!p || p->is_copy || p->flags & PACKET_FROM_SELF || whole_tick() >= READ_ONCE(early_until))
		return 0;
	if (p->network + p->ip_bytes > EARLY_BYTES || !may_keep_of_source(p) || !may_keep_of_all())
		return 0;
	places = places_of(p);
	waiting = waiting_at(&places);
	if (!waiting)
		return 0;
	__sync_lock_test_and_set(waiting, (__u64)places.tag << 32 | p->tick);
	return 1;
}

static __always_inline void fill_early(struct early_fragment *head, const struct packet *p)
{
	head->time = moment() >> MOMENT_SHIFT;
	for (int word = 0; word < 4; word++) {
		head->datagram.source[word] = p->source[word];
		head->datagram.destination[word] = p->destination[word];
	}
	head->datagram.id = p->fragment_id;
	head->datagram.protocol = p->family == 6 ? 0 : p->protocol;
	head->datagram.family = p->family;
	head->datagram.from = p->from;
	head->datagram.pad = 0;
	head->ifindex = p->ifindex;
	head->bytes = 0;
	head->hook = 0;
	head->pad = 0;
	head->tag_type = 0;
	head->tag = 0;
	head->more_pad = 0;
}

/* A frame that crosses a bridge keeps its tag, also when it waits. */
static __always_inline void note_tag(struct early_fragment *head, const struct __sk_buff *ctx)
{
	if (!ctx->vlan_present)
		return;
	head->tag_type = ctx->vlan_proto;
	head->tag = bpf_htons(ctx->vlan_tci);
}

/* Says that the first fragment of a datagram was allowed, if others wait for it. The datagram is remembered already: who looks for it
 * after this finds it, and who looked before has left its mark here. */
static __always_inline void announce_first(const struct packet *p, const struct datagram_places *places)
{
	__u64 *waiting = waiting_at(places), found;
	struct early_fragment *sign;

	if (!waiting)
		return;
	found = __sync_fetch_and_add(waiting, 0);
	if (found >> 32 != places->tag || !found || ticks_since(p->tick, found) > EARLY_LIFE_TICKS ||
	    __sync_val_compare_and_swap(waiting, found, 0) != found)
		return;
	sign = bpf_ringbuf_reserve(&early_fragments, sizeof(*sign), 0);
	if (!sign)
		return;
	fill_early(sign, p);
	bpf_ringbuf_submit(sign, 0);
}

/* Gives the frame to user space. Returns 1 if that was done; then it is not dropped, and counted when it comes in once more or when
 * user space gives up (lose_fragments()). Padding behind the packet stays behind. */
static __always_inline int keep_fragment(void *ctx, struct packet *p, const enum hook hook)
{
	__u32 bytes = p->network + p->ip_bytes;
	struct early_frame *kept;

	barrier_var(bytes);
	if (bytes < ETHERNET_BYTES || bytes > EARLY_BYTES)
		return 0;
	kept = bpf_ringbuf_reserve(&early_fragments, sizeof(*kept), 0);
	if (!kept)
		return 0;
	fill_early(&kept->head, p);
	if (hook_load(ctx, hook, 0, kept->frame, bytes)) {
		bpf_ringbuf_discard(kept, 0);
		return 0;
	}
	kept->head.bytes = bytes;
	kept->head.hook = hook;
	if (hook == HOOK_TC)
		note_tag(&kept->head, ctx);
	bpf_ringbuf_submit(kept, 0);
	tally(TALLY_FRAGMENTS_KEPT, 1);
	return 1;
}

__noinline int keep_fragment_xdp(struct xdp_md *ctx, struct packet *p)
{
	return p ? keep_fragment(ctx, p, HOOK_XDP) : 0;
}

__noinline int keep_fragment_tc(struct __sk_buff *ctx, struct packet *p)
{
	return p ? keep_fragment(ctx, p, HOOK_TC) : 0;
}

#endif
