/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The flow table: buckets of tags, a line of the cache each, and records beside them, both preallocated. One flow for both
 * directions. There are no locks:
 *
 *  - A slot goes from 0 to a value and back by compare-and-swap. A record is filled before its slot says where it is.
 *  - Two cores that open the same flow see each other's slot when they look again after their own swap. Nobody keeps a flow
 *    who has not seen its slot alone, so there are never two; the greater slot withdraws at once and the lesser looks on
 *    until that has happened, so one is kept.
 *  - A flow is removed by whoever swaps its slot to 0, and that is named by the use of the record that was looked at: if the
 *    record holds another flow by now, that one stays. The sweep removes it only well after its time (SWEEP_GRACE), from
 *    which on packets treat it as gone, so that no packet refreshes what the sweep is about to remove.
 *
 *  - A translated flow has two slots, one for what the initiator sends and one for what the responder sends, which have different
 *    ends. The responder's is taken first: whoever has seen it alone has the alias. The flow is removed by whoever swaps the
 *    initiator's slot to 0, and that one empties the other.
 *
 * A flow has three buckets to be in: its own, the one beside it (in the same pair of lines) and one far away. The second and
 * third are only looked at while some flow of the first is there.
 */
#ifndef RAMPART_FIREWALL_FLOWS_H
#define RAMPART_FIREWALL_FLOWS_H

#include "budgets.h"
#include "log.h"

#define PLACES 3
#define RECORD_BITS 24
#define RECORD_MASK ((1u << RECORD_BITS) - 1)
#define FOUND (1ULL << 32)
#define SWEEP_GRACE 1024	/* ticks, about a second */
#define LEAST_WAIT 1024		/* the same: what waits for an answer has so long, however full the table is */
#define OPEN_TRIES 3
#define LOOKS 64		/* some microseconds, for another core to withdraw */
#define POP_TRIES 16
#define PUSH_TRIES 128		/* more, because a record that is not given back is lost */
#define EVICTION_STEPS 64	/* records that a scan looks at for a closed one, when none is free */
#define MAPPING_SHIFT 14	/* about 17 s: known flows refresh their mapping once in MAPPING_REFRESH ticks */
#define MAPPING_REFRESH (1u << MAPPING_SHIFT)
#define EVICTION_TRIES 4	/* another core may take the record that was just freed */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);	/* set before loading */
	/* For the sake of alignment: other arrays begin 16 bytes behind a line. */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct bucket);
} buckets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);	/* set before loading */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct flow);
} flows SEC(".maps");

/* In renumber.h. */
int forget_proxied(__u32 record);

/* In limit.h. */
int release_concurrent(struct flow *flow, __u32 mark);
int note_answered(struct flow *flow);

static __always_inline __u64 words_of(const __be32 *pair)
{
	return (__u64)pair[0] << 32 | pair[1];
}

static __always_inline bool is_greater(__u8 family, const __be32 *a, __be16 a_port, const __be32 *b, __be16 b_port)
{
	if (family == 6) {
		__u64 a_high = words_of(a), b_high = words_of(b), a_low = words_of(a + 2), b_low = words_of(b + 2);

		if (a_high != b_high)
			return a_high > b_high;
		if (a_low != b_low)
			return a_low > b_low;
	} else if (a[0] != b[0]) {
		return a[0] > b[0];
	}
	return a_port > b_port;
}

/* A slot in use is not 0. */
static __always_inline __u32 tag_of(__u64 h)
{
	return h >> 32 | 1;
}

static __always_inline void set_hash(struct packet *p, __u64 h)
{
	p->hash = h;
	p->tag = tag_of(h);
}

/* Which end sent the packet, and where its flow would be. */
static __always_inline void find_side(struct packet *p)
{
	p->side = is_greater(p->family, p->source, p->source_port, p->destination, p->destination_port);
	if (p->side)
		set_hash(p, hash_ends(p->family, p->protocol, p->destination, p->destination_port, p->source,
				      p->source_port));
	else
		set_hash(p, hash_ends(p->family, p->protocol, p->source, p->source_port, p->destination,
				      p->destination_port));
}

static __always_inline __u32 place(__u32 hash, __u32 tag, __u32 number)
{
	if (number == 2)
		hash ^= tag * 0x9e3779b1u;
	return (hash ^ (number == 1)) & bucket_mask;
}

static __always_inline bool same_address(__u8 family, const __be32 *a, const __be32 *b)
{
	if (a[0] != b[0])
		return 0;
	return family == 4 || (a[1] == b[1] && a[2] == b[2] && a[3] == b[3]);
}

static __always_inline bool same_rest(const __be32 *rest, const __be32 *address)
{
	return rest[0] == address[1] && rest[1] == address[2] && rest[2] == address[3];
}

/* 0 if a packet between these ends is what an end of a translated flow of IPv4 sends. */
static __always_inline __u64 difference_from(const struct flow *flow, __u32 sender, __be32 source, __be16 source_port, __be32 destination,
					     __be16 destination_port)
{
	__u32 r = sender ^ 1;
	__u32 addresses = (flow->address[sender] ^ source) | (alias_address(flow, r) ^ destination);
	__u32 ports = (__u16)((flow->port[sender] ^ source_port) | (alias_port(flow, r) ^ destination_port));

	return (__u64)addresses << 32 | ports;
}

static __always_inline __u64 difference_of(const struct packet *p, const struct flow *flow, __u32 sender)
{
	return difference_from(flow, sender, p->source[0], p->source_port, p->destination[0], p->destination_port);
}

/* The end of a translated flow that sent a packet of it. */
static __always_inline __u32 sender_of(const struct packet *p, const struct flow *flow)
{
	return difference_of(p, flow, 0) != 0;
}

static __always_inline bool is_of_translated(const struct packet *p, const struct flow *flow)
{
	return flow->protocol == p->protocol && p->family == 4 && (!difference_of(p, flow, 0) || !difference_of(p, flow, 1));
}

static __always_inline bool is_of(const struct packet *p, const struct flow *flow)
{
	__u32 side = p->side & 1, to = side ^ 1;

	if (is_translated(flow))
		return is_of_translated(p, flow);
	if (flow->protocol != p->protocol || family_of(flow) != p->family || flow->port[side] != p->source_port ||
	    flow->port[to] != p->destination_port || flow->address[side] != p->source[0] ||
	    flow->address[to] != p->destination[0])
		return false;
	return p->family == 4 || (same_rest(flow->address_rest[side], p->source) &&
				  same_rest(flow->address_rest[to], p->destination));
}

/* Whether a flow has the ends of a packet, or those of one that goes the other way: one that an end of a translated flow would send if it
 * knew nothing of the translation. Who has a port of the firewall's own outside may not be whom a flow has as its alias. */
static __always_inline bool has_ends_of(const struct packet *p, const struct flow *flow)
{
	__be32 from = p->source[0], to = p->destination[0];

	if (is_of(p, flow))
		return true;
	return is_translated(flow) && flow->protocol == p->protocol && p->family == 4 &&
	       (!difference_from(flow, 0, to, p->destination_port, from, p->source_port) ||
		!difference_from(flow, 1, to, p->destination_port, from, p->source_port));
}

/* Of the packets that an end of a translated flow sends. */
static __always_inline __u64 hash_of_sender(const struct flow *flow, __u32 s)
{
	__be32 own = flow->address[s], other = alias_address(flow, s ^ 1);
	__be16 own_port = flow->port[s], other_port = alias_port(flow, s ^ 1);

	if (is_greater(4, &own, own_port, &other, other_port))
		return hash_ends(4, flow->protocol, &other, other_port, &own, own_port);
	return hash_ends(4, flow->protocol, &own, own_port, &other, other_port);
}

/* Of a translated flow: of what its initiator sends. */
static __always_inline __u64 hash_of(const struct flow *flow)
{
	__be32 a[4], b[4];

	if (is_translated(flow))
		return hash_of_sender(flow, flow->initiator & 1);

	flow_address(flow, 0, a);
	flow_address(flow, 1, b);
	return hash_ends(family_of(flow), flow->protocol, a, flow->port[0], b, flow->port[1]);
}

/* The lower half of the slot of a packet's flow, wherever it may be, and FOUND; or 0. By itself, so that the verifier does not
 * follow each place where it may be found through all that comes after. */
__noinline __u64 search_flow(struct packet *p)
{
	if (!p)
		return 0;
	for (__u32 i = 0; i < PLACES; i++) {
		struct bucket *bucket = lookup(&buckets, place(p->hash, p->tag, i));

		if (!bucket)
			return 0;
		for (int s = 0; s < BUCKET_SLOTS; s++) {
			__u64 slot = bucket->slots[s];
			struct flow *flow;

			if (slot >> 32 != p->tag)
				continue;
			flow = lookup(&flows, (__u32)slot & RECORD_MASK);
			if (flow && is_of(p, flow))
				return FOUND | (__u32)slot;
		}
		if (i == 0 && !bucket->elsewhere)
			return 0;
	}
	return 0;
}

/* A slot of the bucket with this tag, or 0. By arithmetic: a wrong guess of the slot would cost as much as the rest, when the
 * line comes from memory. */
static __always_inline __u64 slot_with(const struct bucket *bucket, __u32 tag)
{
	__u64 found = 0;

	for (int s = 0; s < BUCKET_SLOTS; s++) {
		__u64 slot = bucket->slots[s], is_it = ((slot >> 32 ^ tag) - 1) >> 63;

		found = (found & (is_it - 1)) | (slot & -is_it);
	}
	return found;
}

/* The flow of a packet, or null. Nearly always its own bucket's one slot with the tag. */
static __always_inline struct flow *find_flow(struct packet *p)
{
	struct bucket *bucket = lookup(&buckets, place(p->hash, p->tag, 0));
	struct flow *flow;
	__u64 slot;

	if (!bucket)
		return 0;
	slot = slot_with(bucket, p->tag);
	if (slot) {
		flow = lookup(&flows, (__u32)slot & RECORD_MASK);
		if (flow && is_of(p, flow)) {
			p->record = slot;
			return flow;
		}
	} else if (!bucket->elsewhere) {
		return 0;
	}
	slot = search_flow(p);
	if (!slot)
		return 0;
	p->record = slot;
	return lookup(&flows, (__u32)slot & RECORD_MASK);
}

static __always_inline bool is_closed(__u8 state)
{
	return state == FLOW_TIME_WAIT || state == FLOW_RESET;
}

static __always_inline __u32 timeout_of(const struct flow *flow)
{
	__u32 timeout, pressed;

	if (flow->protocol == PROTOCOL_TCP)
		return flow->flags & FLOW_DOUBTED ? settings.doubted_timeout : settings.timeouts[flow->state & 15];
	if (flow->protocol == PROTOCOL_UDP)
		timeout = settings.udp_timeout;
	else if (flow->protocol == PROTOCOL_ICMP || flow->protocol == PROTOCOL_ICMPV6)
		timeout = settings.icmp_timeout;
	else if (READ_ONCE(flow->family) & FLOW_IS_MAPPING)
		return settings.udp_timeout + MAPPING_REFRESH;
	else
		timeout = settings.other_timeout;
	if (flow->state != FLOW_ONE_WAY)
		return timeout;
	if (timeout > settings.unanswered_timeout)
		timeout = settings.unanswered_timeout;
	pressed = timeout >> (READ_ONCE(pool.pressure) & 3);
	if (pressed < LEAST_WAIT)
		pressed = timeout < LEAST_WAIT ? timeout : LEAST_WAIT;
	return pressed;
}

#define TICK_BITS ((__u64)(ERA_BITS + 1) << ERA_TICKS)	/* where a tick with its era comes round: after nine years */

/*
 * Ticks since a flow's last packet; 0 if another core, whose clock is a little ahead, has just seen one. A flow that was idle for months
 * because nobody swept the table is as old as it is.
 */
static __always_inline __u64 idle_ticks(const struct flow *flow, __u64 tick)
{
	__u8 era = READ_ONCE(flow->initiator) >> ERA_SHIFT;
	__u64 idle;

	if (!(era & ERA_KNOWN))
		return ticks_since(tick, flow->seen);
	idle = (tick - tick_of(era, READ_ONCE(flow->seen))) & (TICK_BITS - 1);
	return idle > TICK_BITS / 2 ? 0 : idle;
}

/* Whether a flow's time is over, and so many ticks more. */
static __always_inline bool is_expired(const struct flow *flow, __u64 tick, __u32 more)
{
	return idle_ticks(flow, tick) > (__u64)timeout_of(flow) + more;
}

/* Whether a flow had a packet in this tick. */
static __always_inline bool is_seen_now(const struct flow *flow, const struct packet *p)
{
	return flow->seen == p->tick && flow->initiator >> ERA_SHIFT == p->era;
}

/* The era first: who reads between the two finds a time to come, which counts as now. It changes once in 52 days; who swaps the flow's state
 * at that very moment finds its word changed, as if another core had. */
static __always_inline void note_seen(struct flow *flow, const struct packet *p)
{
	if (flow->initiator >> ERA_SHIFT != p->era)
		WRITE_ONCE(flow->initiator, (flow->initiator & 1) | p->era << ERA_SHIFT);
	WRITE_ONCE(flow->seen, p->tick);
}

/* Records that are free form a stack; the count beside its head tells a head from the same one later. */
static __always_inline void push_free(__u32 record, struct flow *flow)
{
	for (int i = 0; i < PUSH_TRIES; i++) {
		__u64 head = READ_ONCE(pool.free_head);

		flow->opened = head;
		if (__sync_val_compare_and_swap(&pool.free_head, head, ((head >> 32) + 1) << 32 | (record + 1)) == head)
			return;
	}
}

static __always_inline struct flow *pop_free(__u32 *record)
{
	struct flow *flow;

	for (int i = 0; i < POP_TRIES; i++) {
		__u64 head = READ_ONCE(pool.free_head);

		if (!(__u32)head)
			break;
		flow = lookup(&flows, (__u32)head - 1);
		if (!flow)
			return 0;
		if (__sync_val_compare_and_swap(&pool.free_head, head, ((head >> 32) + 1) << 32 | flow->opened) != head)
			continue;
		*record = (__u32)head - 1;
		return flow;
	}
	if (READ_ONCE(pool.fresh) >= record_count)
		return 0;
	*record = __sync_fetch_and_add(&pool.fresh, 1);
	/* Cores that pass the check together go beyond by their number at most, and find no record there. */
	return lookup(&flows, *record);
}

static __always_inline __u64 slot_of(__u32 tag, __u32 number, __u32 record)
{
	return (__u64)tag << 32 | (number & 0xff) << RECORD_BITS | record;
}

/* The lower half of a flow's slot: its record, and which use of it. To be read before anything that is decided by. */
static __always_inline __u32 use_of(const struct flow *flow, __u32 record)
{
	return (__u32)slot_of(0, READ_ONCE(flow->number), record);
}

static __always_inline bool free_state(struct flow *flow)
{
	__u64 old = READ_ONCE(*state_word(flow));

	return swap_state(flow, old, old >> STATE_SHIFT, FLOW_FREE);
}

/* The state's word is only changed by swaps once others can see it, so each flow leaves its budget once. */
static __always_inline void set_free(struct flow *flow)
{
	__u32 mark;

	for (int i = 0; i < POP_TRIES; i++)
		if (free_state(flow))
			break;
	occupy(flow->source, -1);
	/* Whoever still takes this record for the flow that it was finds another mark, and leaves it alone. */
	if (settings.keeps_marks) {
		mark = __sync_lock_test_and_set(&flow->mark, MARK_NONE);
		if (mark & MARK_COUNTED && mark != MARK_NONE)
			release_concurrent(flow, mark);
	}
	flow->number++;
}

/* Empties the slot of a flow of this hash, wherever it is. Returns 1 if this call did it. `use` is the lower half of the slot. */
__noinline int empty_slot(__u32 hash, __u32 tag, __u32 use)
{
	__u64 slot = (__u64)tag << 32 | use;

	for (__u32 i = 0; i < PLACES; i++) {
		struct bucket *bucket = lookup(&buckets, place(hash, tag, i)), *own;

		if (!bucket)
			return 0;
		for (int s = 0; s < BUCKET_SLOTS; s++) {
			if (bucket->slots[s] != slot || __sync_val_compare_and_swap(&bucket->slots[s], slot, 0) != slot)
				continue;
			own = i ? lookup(&buckets, place(hash, tag, 0)) : 0;
			if (own)
				__sync_fetch_and_add(&own->elsewhere, -1);
			return 1;
		}
	}
	return 0;
}

/* The hash of a slot of a flow: its own, or with `is_other` the second one of a translated flow. By itself, because the stack is short. */
__noinline __u64 hash_of_slot(struct flow *flow, __u32 is_other)
{
	if (!flow)
		return 0;
	return is_other ? hash_of_sender(flow, (flow->initiator & 1) ^ 1) : hash_of(flow);
}

/* Empties the slot of what the responder of a translated flow sends. */
static __always_inline void empty_replies(struct flow *flow, __u32 use)
{
	__u64 h = hash_of_slot(flow, 1);

	empty_slot(h, tag_of(h), use);
}

/* Takes a flow out of the table. Returns 1 if it was there and this call removed it. `use` is the lower half of its slot, `end` why it goes
 * (enum flow_end). */
__noinline int remove_flow(struct flow *flow, __u32 use, __u32 end)
{
	__u64 h;

	if (!flow)
		return 0;
	h = hash_of_slot(flow, 0);
	if (!empty_slot(h, tag_of(h), use))
		return 0;
	if (is_translated(flow))
		empty_replies(flow, use);
	if (is_proxied(flow))
		forget_proxied(use & RECORD_MASK);
	/* Nobody else can see the flow now, so its end is recorded once. */
	if (flow->mark & MARK_LOG)
		log_closed(flow);
	if (end && settings.record_interval)
		record_ended(flow, end);
	set_free(flow);
	push_free(use & RECORD_MASK, flow);
	return 1;
}

/*
 * Removes a flow that is not answered yet, unless it is answered at this moment: it is closed before it goes. A packet that finds it closed
 * opens another one.
 */
static __always_inline int remove_unanswered(struct flow *flow, __u32 use, __u32 end)
{
	__u64 old = READ_ONCE(*state_word(flow));
	__u8 state = old >> STATE_SHIFT;

	if ((__u32)slot_of(0, old, use & RECORD_MASK) != use || budget_of(state) == NO_BUDGET)
		return 0;
	return swap_state(flow, old, state, FLOW_RESET) && remove_flow(flow, use, end);
}

/* Removes a flow that is closed or expired. How long an unanswered one lives changes as the table fills, so that an answer may just come. */
static __always_inline int remove_over(struct flow *flow, __u32 use)
{
	return flow->state == FLOW_ONE_WAY ? remove_unanswered(flow, use, END_IDLE) : remove_flow(flow, use, END_IDLE);
}

/* One step of the eviction scan: evicts the flow of the next record if it is closed or expired. */
static int evict_closed(__u32 turn __attribute__((unused)), __u64 *tick)
{
	__u32 record = __sync_fetch_and_add(&pool.eviction_cursor, 1) % record_count;
	struct flow *flow = lookup(&flows, record);
	__u32 use = flow ? use_of(flow, record) : 0;

	if (!flow || flow->state == FLOW_FREE)
		return 0;
	if (!is_closed(flow->state) && !is_expired(flow, *tick, SWEEP_GRACE))
		return 0;
	if (!remove_over(flow, use))
		return 0;
	tally(TALLY_CLOSED, 1);
	return 1;
}

/* A record for a new flow, and FOUND; or 0. When none is free, a closed or expired flow is evicted; an open one never is. */
__noinline __u64 take_record(__u64 tick)
{
	__u32 record = 0;

	for (int i = 0; i < EVICTION_TRIES; i++) {
		if (pop_free(&record))
			return FOUND | record;
		/* All steps: nothing was freed, or the very last. */
		if (bpf_loop(EVICTION_STEPS, evict_closed, &tick, 0) == EVICTION_STEPS)
			break;
	}
	return pop_free(&record) ? FOUND | record : 0;
}

/* Puts a filled record into a free slot; 0 when there is none. */
__noinline int publish(struct packet *p, __u64 slot)
{
	struct bucket *own = 0;

	if (!p)
		return 0;
	for (__u32 i = 0; i < PLACES; i++) {
		struct bucket *bucket = lookup(&buckets, place(p->hash, p->tag, i));

		if (!bucket)
			return 0;
		if (i == 0)
			own = bucket;
		/* Counted before it is there, so that nobody who could find it stops too early. */
		if (i)
			__sync_fetch_and_add(&own->elsewhere, 1);
		for (int s = 0; s < BUCKET_SLOTS; s++)
			if (!bucket->slots[s] && __sync_val_compare_and_swap(&bucket->slots[s], 0, slot) == 0)
				return 1;
		if (i)
			__sync_fetch_and_add(&own->elsewhere, -1);
	}
	return 0;
}

/* Who else holds the packet's flow, besides our own slot. */
enum others {
	OTHERS_NONE = 0,
	OTHERS_GREATER = 1,
	OTHERS_LESSER = 2,	/* at least one */
};

/* Those in one bucket. Global, because the verifier would go through it again for every bucket and all that could be in those before. */
__noinline int others_in(struct packet *p, __u32 at, __u64 our)
{
	struct bucket *bucket = lookup(&buckets, at);
	int others = OTHERS_NONE;

	if (!p || !bucket)
		return OTHERS_NONE;
	for (int s = 0; s < BUCKET_SLOTS; s++) {
		__u64 slot = READ_ONCE(bucket->slots[s]);
		struct flow *flow;

		if (slot >> 32 != p->tag || slot == our)
			continue;
		flow = lookup(&flows, (__u32)slot & RECORD_MASK);
		if (flow && has_ends_of(p, flow))
			others |= slot < our ? OTHERS_LESSER : OTHERS_GREATER;
	}
	return others;
}

__noinline int others_of(struct packet *p, __u64 our)
{
	struct bucket *own;
	int others;

	if (!p)
		return 0;
	own = lookup(&buckets, place(p->hash, p->tag, 0));
	if (!own)
		return 0;
	others = others_in(p, place(p->hash, p->tag, 0), our);
	if (!READ_ONCE(own->elsewhere))
		return others;
	for (__u32 i = 1; i < PLACES; i++)
		others |= others_in(p, place(p->hash, p->tag, i), our);
	return others;
}

/* Whether our slot is the one that stays. A lesser one may be older or as new as ours; a greater one is as new, and gone in a
 * moment, or it is older and stays. */
__noinline int is_alone(struct packet *p, __u64 our)
{
	int others = OTHERS_GREATER;

	if (!p)
		return 0;
	for (int i = 0; i < LOOKS && others == OTHERS_GREATER; i++)
		others = others_of(p, our);
	return others == OTHERS_NONE;
}

/* Gives a record back that was never published: nobody else knows of it. */
__noinline int give_back(struct flow *flow, __u32 record)
{
	if (!flow)
		return 0;
	set_free(flow);
	push_free(record, flow);
	return 1;
}

static __always_inline void fill_flow(struct flow *flow, const struct packet *p)
{
	__u32 side = p->side & 1, to = side ^ 1;

	flow->address[side] = p->source[0];
	flow->address[to] = p->destination[0];
	for (int word = 0; word < 3; word++) {
		flow->address_rest[side][word] = p->source[word + 1];
		flow->address_rest[to][word] = p->destination[word + 1];
	}
	flow->port[side] = p->source_port;
	flow->port[to] = p->destination_port;
	flow->protocol = p->protocol;
	flow->family = p->is_proxied ? p->family | FLOW_PROXIED : p->gateway ? p->family | FLOW_OF_GATEWAY : p->family;
	flow->zone[side] = p->from;
	flow->zone[to] = p->to;
	flow->generation = p->generation;
	flow->seen = flow->opened = p->tick;
	flow->flags = 0;
	flow->initiator = side | p->era << ERA_SHIFT;
	flow->scales = 0;
	flow->ttl[side] = 0;
	flow->ttl[to] = p->gateway;
	flow->source = place_of_source(p->family, p->source);
	flow->mark = p->mark;
	flow->bytes[0] = flow->bytes[1] = 0;
	flow->packets[0] = flow->packets[1] = 0;
	flow->packets_high[0] = flow->packets_high[1] = 0;
}

/* Counts a packet of a flow. */
static __always_inline void count_packet(struct flow *flow, const struct packet *p)
{
	__u32 side = p->side & 1;

	flow->bytes[side] += p->ip_bytes;
	if (!++flow->packets[side])
		flow->packets_high[side]++;
}

#endif
