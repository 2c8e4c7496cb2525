/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Later fragments have no ports: they follow their first, which is remembered by addresses and identification for a while.
 * The table is small and a new entry takes the place of an old one; a fragment whose first is not there is dropped.
 * Nothing is reassembled, and fragments that overtake their first are lost.
 */
#ifndef RAMPART_FIREWALL_FRAGMENTS_H
#define RAMPART_FIREWALL_FRAGMENTS_H

#include "tcp.h"

#define FRAGMENT_SLOTS 8192	/* a power of two */
#define FRAGMENT_TICKS 28610	/* 30 s: as long as Linux waits for the rest (net.ipv4.ipfrag_time) */

/* The first fragment of a packet that was allowed. A line of the cache. */
struct first_fragment {
	__be32 source[4];
	__be32 destination[4];
	__u32 id;
	__u32 seen;		/* tick */
	__u32 record;		/* of the flow */
	__u32 number;		/* of the same */
	__u32 start;		/* TCP: sequence number that the transport header's first byte would have */
	__u8 protocol;
	__u8 family;		/* 0: nothing is here */
	__u8 from;
	__u8 to;
	__u32 side;
	__u32 pad;
};

_Static_assert(sizeof(struct first_fragment) == 64, "a line of the cache");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FRAGMENT_SLOTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct first_fragment);
} first_fragments SEC(".maps");

static __always_inline struct first_fragment *fragment_slot(const struct packet *p)
{
	/* Sources and destinations are told apart, and IPv6 numbers do not tell protocols apart (RFC 8200 section 4.5). */
	__u64 h = mix(mix_address(mix_address(secret[0], p->source), p->destination), p->fragment_id);

	return lookup(&first_fragments, h >> 32 & (FRAGMENT_SLOTS - 1));
}

__noinline int note_first_fragment(struct packet *p)
{
	struct first_fragment *slot;
	struct flow *flow;

	slot = p ? fragment_slot(p) : 0;
	if (!slot)
		return 0;
	flow = lookup(&flows, p->record & RECORD_MASK);
	for (int word = 0; word < 4; word++) {
		slot->source[word] = p->source[word];
		slot->destination[word] = p->destination[word];
	}
	slot->id = p->fragment_id;
	slot->seen = p->tick;
	slot->record = p->record & RECORD_MASK;
	slot->number = flow ? flow->number : 0;
	slot->start = p->sequence + p->data_bytes - (p->ip_bytes - (p->transport - p->network));
	slot->protocol = p->protocol;
	slot->from = p->from;
	slot->to = p->to;
	slot->side = p->side;
	slot->family = p->family;
	return 0;
}

/* The end of a TCP segment is only known by its last fragment. */
static __always_inline void extend_segment(const struct packet *p, const struct first_fragment *slot)
{
	struct flow *flow = lookup(&flows, slot->record);
	__u32 end = slot->start + p->fragment_offset + (p->ip_bytes - (p->transport - p->network));

	if (slot->protocol == PROTOCOL_TCP && flow && flow->number == slot->number &&
	    after(end, flow->end[slot->side & 1]))
		flow->end[slot->side & 1] = end;
}

/* VERDICT_NEXT: its first fragment was allowed. */
__noinline int follow_fragment(struct packet *p)
{
	struct first_fragment *slot;

	if (!p)
		return VERDICT_DROP;
	slot = fragment_slot(p);
	if (!slot || slot->family != p->family || slot->id != p->fragment_id || slot->from != p->from ||
	    !same_address(p->family, slot->source, p->source) ||
	    !same_address(p->family, slot->destination, p->destination) ||
	    (p->family == 4 && slot->protocol != p->protocol) || p->tick - slot->seen > FRAGMENT_TICKS)
		return drop(p, REASON_FRAGMENT_UNKNOWN);
	extend_segment(p, slot);
	tally(TALLY_FRAGMENTS, 1);
	p->to = slot->to;
	return VERDICT_NEXT;
}

#endif
