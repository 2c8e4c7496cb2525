/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * One datagram, one verdict. Later fragments have no ports: they follow their first, which is judged, and remembered by addresses
 * and identification. What has passed of a datagram is remembered too, so that no part of it passes twice: whoever puts it
 * together finds each byte once, and reads what was judged here (RFC 1858, RFC 3128, RFC 5722). Parts that overlap, or that
 * contradict each other about where the datagram ends, end all of it.
 *
 * What follows the first fragment passes as long as its flow does: not when that has ended, and not when a new policy refuses it.
 *
 * Nothing is put together here. A fragment that comes before its first is kept until that has come (early.h), or dropped.
 *
 * A source has a share of the table, an IPv6 source with its /64: whatever it sends, most of the table is not its own. Within its
 * share the oldest makes room. What is dropped touches nothing but the datagram that it belongs to.
 */
#ifndef RAMPART_FIREWALL_FRAGMENTS_H
#define RAMPART_FIREWALL_FRAGMENTS_H

#include "arithmetic.h"
#include "early.h"
#include "parse.h"
#include "tcp.h"

#define DATAGRAMS 8192		/* a power of two, as the next one */
#define DATAGRAM_SHARE 64	/* of these may be of one source: where they begin depends on the source alone */
#define DATAGRAM_PROBES 4	/* places in which one may be */
#define DATAGRAM_PARTS 12
#define REASSEMBLY_V4_TICKS 28610	/* 30 s: as long as Linux waits for the rest (net.ipv4.ipfrag_time) */
#define REASSEMBLY_V6_TICKS 57220	/* 60 s: RFC 8200 section 4.5 */

enum datagram_state {
	DATAGRAM_OPEN = 0,	/* its first fragment was allowed, and others are missing */
	DATAGRAM_WHOLE = 1,	/* all of it has passed; kept for ICMP errors about it as long as nobody wants the place */
	DATAGRAM_REFUSED = 2,	/* nothing more of it passes */
};

/* Of a datagram whose flow is translated: without the flow nothing more may pass. */
enum datagram_translation {
	DATAGRAM_AS_IT_IS = 0,
	DATAGRAM_TRANSLATED = 1,
	DATAGRAM_ERROR = 2,	/* it is an ICMP error about the flow */
};

/* In bytes of the datagram, without the headers that every fragment has. */
struct datagram_part {
	__u16 from;
	__u16 to;
};

/* Two lines of the cache. The first part begins with the first fragment. */
struct datagram {
	struct bpf_spin_lock lock;	/* held while parts are added: fragments of a datagram may come by several cores */
	__u32 id;
	__u64 seen;		/* tick of the first fragment */
	__be32 source[4];
	__be32 destination[4];
	__u32 record;		/* of the flow */
	__u32 number;		/* of the same, and 1; 0: it is of no flow */
	__u32 start;		/* TCP: sequence number that the datagram's first byte would have */
	__u8 protocol;
	__u8 family;		/* 0: nothing was ever here */
	__u8 from;
	__u8 to;
	__u8 side;
	__u8 state;		/* enum datagram_state */
	__u8 parts;
	__u8 translation;	/* enum datagram_translation */
	__u32 passed;		/* bytes of all parts */
	__u16 end;		/* where the last fragment ends; 0: it has not come */
	__u16 reach;		/* where the farthest part ends */
	struct datagram_part part[DATAGRAM_PARTS];
	__u32 generation;	/* of the policy that allowed it; of one that is of a flow the flow says */
};

_Static_assert(sizeof(struct datagram) == 128, "two cache lines");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DATAGRAMS);
	__type(key, __u32);
	__type(value, struct datagram);
} datagrams SEC(".maps");

static __always_inline struct datagram *datagram_at(const struct datagram_places *places, __u32 probe)
{
	return lookup(&datagrams, (places->share + (places->first + probe) % DATAGRAM_SHARE) % DATAGRAMS);
}

/* Whether a place has the datagram of a packet. IPv6 numbers do not tell protocols apart (RFC 8200 section 4.5). */
static __always_inline bool is_datagram_of(const struct datagram *d, const struct packet *p)
{
	return d->id == p->fragment_id && d->family == p->family && same_address(p->family, d->source, p->source) &&
	       same_address(p->family, d->destination, p->destination) &&
	       (p->family == 6 || d->protocol == p->protocol);
}

static __always_inline bool is_stale(const struct datagram *d, __u64 tick)
{
	return tick > d->seen + (d->family == 6 ? REASSEMBLY_V6_TICKS : REASSEMBLY_V4_TICKS);
}

/* Whether a place has a datagram of which fragments are expected from where this one comes. */
static __always_inline bool expects(const struct datagram *d, const struct packet *p)
{
	return is_datagram_of(d, p) && d->from == p->from && d->state != DATAGRAM_WHOLE && !is_stale(d, tick_of(p->era, p->tick));
}

static __always_inline __u32 part_bytes(const struct packet *p)
{
	return p->ip_bytes - (p->fragment_start - p->network);
}

/* RFC 791, RFC 8200: what is not the last fragment is a whole number of eights. */
static __always_inline bool is_misshapen(const struct packet *p)
{
	__u32 bytes = part_bytes(p);

	return !bytes || p->fragment_offset + bytes > MAX_IP_BYTES || (p->flags & PACKET_MORE_FRAGMENTS && bytes % 8);
}

/* Whether a part contradicts what is known of the datagram's end. */
static __always_inline bool contradicts(const struct datagram *d, __u32 to, bool is_last)
{
	if (!d->end)
		return is_last && to <= d->reach;
	return to > d->end || is_last != (to == d->end);
}

/* Adds a part to those that have passed. 0, or why it must not pass. The caller holds the lock. */
static __always_inline int add_part(struct datagram *d, __u32 from, __u32 to, bool is_last)
{
	__u64 count = d->parts, beside = DATAGRAM_PARTS, is_same = 0, is_overlap = 0;

	if (d->state == DATAGRAM_REFUSED)
		return REASON_FRAGMENT_OVERLAP;
	if (contradicts(d, to, is_last)) {
		d->state = DATAGRAM_REFUSED;
		return REASON_FRAGMENT_OVERLAP;
	}
	for (__u64 i = 0; i < DATAGRAM_PARTS; i++) {
		__u64 is_there = is_smaller(i, count), there_from = d->part[i].from, there_to = d->part[i].to;

		is_same |= is_there & is_zero((there_from ^ from) | (there_to ^ to));
		is_overlap |= is_there & is_smaller(from, there_to) & is_smaller(there_from, to);
		beside = choose(is_there & (is_zero(there_to ^ from) | is_zero(there_from ^ to)), i, beside);
	}
	if (is_same)
		return REASON_FRAGMENT_DUPLICATE;
	if (is_overlap) {
		d->state = DATAGRAM_REFUSED;
		return REASON_FRAGMENT_OVERLAP;
	}
	/* When there is no room for one more part, it is added to one that it touches. (Linux 6.1 learns of the very number that is
	 * compared, and not of its copies.) */
	barrier_var(count);
	barrier_var(beside);
	if (count < DATAGRAM_PARTS) {
		d->part[count] = (struct datagram_part){ from, to };
		d->parts = count + 1;
	} else if (beside < DATAGRAM_PARTS) {
		if (d->part[beside].to == from)
			d->part[beside].to = to;
		else
			d->part[beside].from = from;
	} else {
		return REASON_FRAGMENT_HOLES;
	}
	d->passed += to - from;
	if (d->reach < to)
		d->reach = to;
	if (is_last)
		d->end = to;
	if (d->end && d->passed == d->end)
		d->state = DATAGRAM_WHOLE;
	return 0;
}

/* The end of a TCP segment is only known by its last fragment. */
static __always_inline void extend_segment(__u32 record, __u32 number, __u32 side, __u32 end)
{
	struct flow *flow = lookup(&flows, record);

	if (flow && flow->protocol == PROTOCOL_TCP && flow->number + 1 == number && after(end, flow->end[side & 1]))
		flow->end[side & 1] = end;
}

/* Whether what allowed a datagram still holds: its flow, if it has one, or else the policy, which knows nothing of it but its first fragment. */
static __always_inline bool outlives(__u32 record, __u32 number, __u32 generation)
{
	const struct flow *flow = lookup(&flows, record);

	return number ? flow && flow->number + 1 == number : generation == settings.generation;
}

/*
 * A fragment meets what is known of its datagram. 0, or why it is dropped. A first fragment of a datagram that is not known may go on to
 * be judged, and so may one in whose place others pass only after it; a later one goes where its first went.
 */
__noinline int meet_datagram(struct packet *p)
{
	struct datagram_places places;
	bool is_later;

	if (!p || is_misshapen(p))
		return REASON_LENGTH;
	is_later = p->flags & PACKET_LATER_FRAGMENT;
	places = places_of(p);
	for (__u32 probe = 0; probe < DATAGRAM_PROBES; probe++) {
		struct datagram *d = datagram_at(&places, probe);
		__u32 from = p->fragment_offset, to = from + part_bytes(p), record, number, start, generation;
		int reason = REASON_FRAGMENT_UNKNOWN;
		__u8 side, translation;
		bool ends_here;

		if (!d || !expects(d, p))
			continue;
		bpf_spin_lock(&d->lock);
		ends_here = ends_before(p, d->to);
		/* It may be another one by now. */
		if (expects(d, p))
			reason = ends_here ? 0 : add_part(d, from, to, !(p->flags & PACKET_MORE_FRAGMENTS));
		record = d->record;
		number = d->number;
		start = d->start;
		generation = d->generation;
		side = d->side;
		translation = d->translation;
		p->to = d->to;
		bpf_spin_unlock(&d->lock);
		if (reason)
			return reason;
		if (is_later) {
			if (!outlives(record, number, generation))
				return REASON_FRAGMENT_UNKNOWN;
			p->flags |= (translation ? PACKET_TRANSLATED : 0) | (number ? 0 : PACKET_STATELESS);
			if (translation == DATAGRAM_ERROR)
				p->flags |= PACKET_ICMP_ERROR | PACKET_STATELESS;
			p->record = slot_of(0, number - 1, record);
			p->side = side;
		}
		if (ends_here)
			return 0;
		if (number && translation != DATAGRAM_ERROR)
			extend_segment(record, number, side, start + to);
		tally(TALLY_FRAGMENTS, 1);
		return 0;
	}
	return is_later ? REASON_FRAGMENT_UNKNOWN : 0;
}

/* How much a place is wanted for a new datagram: the oldest most, and before it what needs its place no more. */
static __always_inline __u32 spare(const struct datagram *d, __u64 tick)
{
	if (!d->family || d->state == DATAGRAM_WHOLE || is_stale(d, tick))
		return ~0U;
	return tick > d->seen ? tick - d->seen : 0;
}

static __always_inline enum datagram_translation translation_of(const struct packet *p)
{
	if (!(p->flags & PACKET_TRANSLATED))
		return DATAGRAM_AS_IT_IS;
	return p->flags & PACKET_ICMP_ERROR ? DATAGRAM_ERROR : DATAGRAM_TRANSLATED;
}

/* Remembers the datagram of a first fragment that was allowed. */
__noinline int note_first_fragment(struct packet *p)
{
	struct datagram_places places;
	struct datagram *d;
	struct flow *flow;
	__u32 most = 0, chosen = 0, number;

	if (!p)
		return 0;
	places = places_of(p);
	for (__u32 probe = 0; probe < DATAGRAM_PROBES; probe++) {
		__u32 wanted;

		d = datagram_at(&places, probe);
		if (!d)
			return 0;
		wanted = spare(d, tick_of(p->era, p->tick));
		if (wanted > most) {
			most = wanted;
			chosen = probe;
		}
	}
	d = datagram_at(&places, chosen);
	if (!d)
		return 0;
	flow = lookup(&flows, p->record & RECORD_MASK);
	number = flow && (translation_of(p) == DATAGRAM_ERROR || !(p->flags & PACKET_STATELESS)) ? flow->number + 1 : 0;
	bpf_spin_lock(&d->lock);
	for (int word = 0; word < 4; word++) {
		d->source[word] = p->source[word];
		d->destination[word] = p->destination[word];
	}
	d->id = p->fragment_id;
	d->seen = tick_of(p->era, p->tick);
	d->record = p->record & RECORD_MASK;
	d->number = number;
	d->start = p->sequence + p->data_bytes - part_bytes(p);
	d->protocol = p->protocol;
	d->family = p->family;
	d->from = p->from;
	d->to = p->to;
	d->side = p->side;
	d->translation = translation_of(p);
	d->generation = p->generation ? p->generation : settings.generation;
	d->state = DATAGRAM_OPEN;
	d->part[0] = (struct datagram_part){ 0, part_bytes(p) };
	d->parts = 1;
	d->passed = part_bytes(p);
	d->end = 0;
	d->reach = part_bytes(p);
	bpf_spin_unlock(&d->lock);
	announce_first(p, &places);
	return 0;
}

/* The flow of a datagram of which an ICMP error quotes a later fragment: fills in the quoted packet's record and side. Not of TCP, where
 * nothing but a sequence number shows that whoever sent the error has seen the segment. */
__noinline int find_flow_of_datagram(struct packet *quoted)
{
	struct datagram_places places;

	if (!quoted)
		return 0;
	places = places_of(quoted);
	for (__u32 probe = 0; probe < DATAGRAM_PROBES; probe++) {
		const struct datagram *d = datagram_at(&places, probe);
		const struct flow *flow = d ? lookup(&flows, d->record) : 0;

		if (!flow || !is_datagram_of(d, quoted) || is_stale(d, tick_of(quoted->era, quoted->tick)) || !d->number ||
		    flow->number + 1 != d->number || flow->protocol == PROTOCOL_TCP || d->translation)
			continue;
		quoted->record = d->record;
		quoted->side = d->side;
		return 1;
	}
	return 0;
}

#endif
