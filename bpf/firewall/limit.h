/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Limits of rules: so many new flows in a time, and so many concurrent flows, for a rule as a whole or for each source or
 * destination address. What is counted for a rule stays with the rule's counter, and so with its name, whatever policies
 * come; what is counted for an address has an entry in a bucket that is found by a hash of rule and address. Entries are
 * there from the start. Who sends from many addresses can fill them, so in a full bucket a new address takes the place of an entry that
 * makes least difference:
 *
 *  1. one that says nothing any more;
 *  2. one of a count (a rule's limit or its alert) that has at least two more there than the new one's;
 *  3. of a limit, one of an address of which no flow was ever answered. Who forges addresses gets no answers, and no limit ever stopped
 *     him: another address has another limit. The one with the least to forget goes first;
 *  4. of a limit, one of a network that has at least two more there than the new address's: first of wide networks, then of narrow ones.
 *
 * Whose entry is taken is counted anew. An entry that counts concurrent flows is never taken, because their ends would be counted for
 * nobody; there are as many entries as the flow table has flows, up to LIMIT_MOST. When nothing makes room, a new flow is dropped and counted.
 *
 *  - A rate is the generic cell rate algorithm (ITU-T I.371), which is a token bucket that stores one number: the moment from
 *    which the next flow would come in time at an even rate. A row, or a bucket, has a lock, so all cores together never let
 *    through more than burst + rate * time, and never less.
 *  - A flow that its rule counts as concurrent says so in its mark, with whose number it is counted. Whoever swaps that mark
 *    away releases the place, and only once; the epoch in the mark keeps it from another rule that got the same counter later.
 */
#ifndef RAMPART_FIREWALL_LIMIT_H
#define RAMPART_FIREWALL_LIMIT_H

#include "arithmetic.h"
#include "flows.h"

/* Of both generations that packets may see at a time: the one in force and the one that is about to be. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * MAX_LIMITED);
	__type(key, __u32);
	__type(value, struct limit_terms);
} limit_terms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);	/* set before loading: as many as counters of rules */
	__type(key, __u32);
	__type(value, struct limit_row);
} limit_rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);	/* set before loading: an entry for each flow, up to LIMIT_MOST */
	__type(key, __u32);
	__type(value, struct limit_bucket);
} limit_addresses SEC(".maps");

_Static_assert(EXTRA_TERMS >= MARK_SLOT, "as many rules have terms as have counters");

/* What a rule's limits and alert are; null when it has neither. */
static __always_inline struct limit_terms *terms_of(__u32 extras)
{
	__u32 number = extras & EXTRA_TERMS;

	return number ? lookup(&limit_terms, number - 1) : 0;
}

#define KIND_ALERT 4		/* beside enum limit_per: what is counted is for an alert */
#define KIND_BITS 3
#define OWNER_EPOCH_SHIFT 21	/* behind the bits of MARK_SLOT */
#define OWNER_KIND_SHIFT 27
#define OWNER_KNOWN (1U << (OWNER_KIND_SHIFT + KIND_BITS))	/* an entry without any was never used */
#define OWNER_ALERT (KIND_ALERT << OWNER_KIND_SHIFT)

/* An address that is counted, as its entry has it. */
struct counted {
	__u64 key;
	__u32 owner;
	__u32 networks;
};

static __always_inline __u32 owner_of(__u32 slot, __u32 epoch, __u32 kind)
{
	_Static_assert(MARK_SLOT >> OWNER_EPOCH_SHIFT == 0 && MARK_EPOCHS >> (OWNER_KIND_SHIFT - OWNER_EPOCH_SHIFT) == 0, "one word");
	return OWNER_KNOWN | kind << OWNER_KIND_SHIFT | (epoch & MARK_EPOCHS) << OWNER_EPOCH_SHIFT | (slot & MARK_SLOT);
}

/*
 * Who is counted, of an IPv6 source the first 64 bits: one host may have all addresses behind them. The other words of an IPv4 address
 * are 0. Networks are those that one owner usually has at most: a provider, and one of its customers. Of IPv4 16 and 24 bits, of IPv6 32
 * and 48.
 */
static __always_inline void count_as(struct counted *counted, __u32 owner, const __be32 *address)
{
	__u64 host = (owner >> OWNER_KIND_SHIFT & 3) == PER_SOURCE ? 0 : (__u64)address[2] << 32 | address[3];
	bool is_v6 = (address[1] | address[2] | address[3]) != 0;
	__u64 wide = is_v6 ? address[0] : address[0] & bpf_htonl(0xffff0000);
	__u64 narrow = is_v6 ? (__u64)address[0] << 32 | (address[1] & bpf_htonl(0xffff0000)) : address[0] & bpf_htonl(0xffffff00);

	counted->owner = owner;
	counted->key = mix(mix(mix(secret[0], owner), (__u64)address[0] << 32 | address[1]), host) | 1;
	counted->networks = mix(secret[0], wide) >> 48 << 16 | mix(secret[0], narrow) >> 48;
}

static __always_inline struct limit_bucket *limit_bucket_of(const struct counted *counted)
{
	return lookup(&limit_addresses, counted->key >> 32 & limit_bucket_mask);
}

/* All that follow are called under the bucket's lock, and compare by arithmetic. They find a way, which is the number of an entry in its
 * bucket, and FOUND_WAY; or 0. */
#define FOUND_WAY ((__u64)LIMIT_WAYS)

static __always_inline struct limit_entry *entry_at(struct limit_bucket *bucket, __u64 way)
{
	return &bucket->entries[way & (LIMIT_WAYS - 1)];
}

static __always_inline __u64 way_of(const struct limit_bucket *bucket, __u64 key)
{
	__u64 found = 0;

	for (__u64 way = 0; way < LIMIT_WAYS; way++)
		found = choose(is_zero(bucket->entries[way].key ^ key), FOUND_WAY | way, found);
	return found;
}

/* An entry that says nothing any more. */
static __always_inline __u64 free_way(const struct limit_bucket *bucket, __u64 at)
{
	__u64 found = 0;

	for (__u64 way = 0; way < LIMIT_WAYS; way++) {
		const struct quota *quota = &bucket->entries[way].quota;

		found = choose(is_zero(quota->concurrent) & (is_smaller(at, quota->until) ^ 1), FOUND_WAY | way, found);
	}
	return found;
}

/*
 * How many entries in a bucket are as this one, a byte each: of the same count, and of it in the same networks, of the narrow and of the wide
 * one. READ_ONCE, because the compiler would read all entries first and keep them on the stack.
 */
#define CROWD_NARROW 8
#define CROWD_WIDE 16

static __always_inline __u64 crowd_of(const struct limit_bucket *bucket, __u32 owner, __u32 networks)
{
	__u64 crowd = 0;

	for (int way = 0; way < LIMIT_WAYS; way++) {
		const struct limit_entry *entry = &bucket->entries[way];
		__u32 other = READ_ONCE(entry->quota.owner) ^ owner;
		__u32 apart = READ_ONCE(entry->networks) ^ networks;

		crowd += is_zero(other) + (is_zero(other | (__u16)apart) << CROWD_NARROW) + (is_zero(other | apart >> 16) << CROWD_WIDE);
	}
	return crowd;
}

/* 1 if one crowd has at least two more than the other. */
static __always_inline __u64 is_beyond(__u64 crowd, __u64 own, __u32 shift)
{
	return is_smaller((own >> shift & 0xff) + 1, crowd >> shift & 0xff);
}

/* Why an entry is taken: the greater first, and within a reason by the bits below. Moments are less than 2^62. */
enum rank {
	RANK_SHIFT = 55,
	RANK_NARROW = 1,
	RANK_WIDE = 2,
	RANK_UNANSWERED = 3,
	RANK_COUNT = 4,
};
#define LAST_MOMENT (1ULL << 62)
#define MOMENT_RANK_SHIFT 8

static __always_inline __u64 rank(__u64 reason, __u64 value)
{
	return reason << RANK_SHIFT | value;
}

/* How well a new address, whose own crowd is this, may take an entry; 0: it may not. */
static __always_inline __u64 rank_of(const struct limit_bucket *bucket, const struct limit_entry *entry, const struct counted *new, __u64 own)
{
	__u64 crowd = crowd_of(bucket, entry->quota.owner, entry->networks), best = 0;
	/* What an alert has counted stays among its own: a flood would hide who raises it. */
	__u64 is_fellow = is_zero((entry->quota.owner ^ new->owner) | (new->owner & OWNER_ALERT));
	__u64 is_unanswered = is_zero(entry->is_answered);

	best = choose(is_fellow & is_beyond(crowd, own, CROWD_NARROW), rank(RANK_NARROW, crowd >> CROWD_NARROW & 0xff), best);
	best = choose(is_fellow & is_beyond(crowd, own, CROWD_WIDE), rank(RANK_WIDE, crowd >> CROWD_WIDE), best);
	best = choose(is_fellow & is_unanswered,
		      rank(RANK_UNANSWERED, (LAST_MOMENT - entry->quota.until) >> MOMENT_RANK_SHIFT), best);
	best = choose(is_beyond(crowd, own, 0), rank(RANK_COUNT, (crowd & 0xff) << 1 | is_unanswered), best);
	return choose(is_zero(entry->quota.concurrent), best, 0);
}

/* The entry that a new address takes in a bucket without a free one. */
static __always_inline __u64 way_to_take(const struct limit_bucket *bucket, const struct counted *new)
{
	__u64 own = crowd_of(bucket, new->owner, new->networks), best = 0, found = 0;

	for (__u64 way = 0; way < LIMIT_WAYS; way++) {
		__u64 value = rank_of(bucket, &bucket->entries[way], new, own), is_better = is_smaller(best, value);

		best = choose(is_better, value, best);
		found = choose(is_better, FOUND_WAY | way, found);
	}
	return found;
}

/* The entry of an address, or null. */
static __always_inline struct limit_entry *known_entry(struct limit_bucket *bucket, __u64 key)
{
	__u64 way = way_of(bucket, key);

	return way ? entry_at(bucket, way) : 0;
}

/* The entry of an address, if need be a new one in the place of another. Null: there is none. */
static __always_inline struct limit_entry *entry_for(struct limit_bucket *bucket, const struct counted *new, __u64 at)
{
	__u64 way = way_of(bucket, new->key);
	struct limit_entry *entry;

	if (way)
		return entry_at(bucket, way);
	way = free_way(bucket, at);
	if (!way)
		way = way_to_take(bucket, new);
	if (!way)
		return 0;
	entry = entry_at(bucket, way);
	entry->key = new->key;
	entry->quota.owner = new->owner;
	entry->quota.until = 0;
	entry->networks = new->networks;
	entry->is_answered = 0;
	entry->alert.since = 0;
	entry->alert.raised = 0;
	return entry;
}

/* Takes a new flow's share of the rate. Returns 0, or the reason why it does not fit. The caller holds the lock. */
static __always_inline int ask_quota(struct quota *quota, const struct limit_terms *terms, __u64 at, bool is_flow)
{
	__u64 due = quota->until > at ? quota->until : at;

	if (is_flow && terms->connections && quota->concurrent >= terms->connections)
		return REASON_CONNECTIONS;
	if (!terms->interval)
		return 0;
	if (due - at > terms->slack)
		return REASON_RATE;
	quota->until = due + terms->interval;
	return 0;
}

/* Counts a concurrent flow if it fits; with `must`, the limit is not checked. The caller holds the lock. */
static __always_inline bool take_place(struct quota *quota, const struct limit_terms *terms, bool must)
{
	if (!must && quota->concurrent >= terms->connections)
		return false;
	quota->concurrent++;
	return true;
}

/* Asks the limit of a rule about a packet that is to open a flow. 0, or why it is dropped. */
static __always_inline int ask_limit(struct packet *p, struct limit_terms *terms)
{
	struct limit_row *row = lookup(&limit_rows, p->slot);
	bool is_flow = !(p->flags & PACKET_STATELESS);
	int reason = REASON_LIMIT_FULL;
	struct limit_bucket *bucket;
	struct limit_entry *entry;
	struct counted counted;
	__u64 at = moment();

	if (!row)
		return reason;
	if (terms->limit_per == PER_RULE) {
		bpf_spin_lock(&row->lock);
		reason = ask_quota(&row->quota, terms, at, is_flow);
		bpf_spin_unlock(&row->lock);
	} else {
		count_as(&counted, owner_of(p->slot, terms->epoch, terms->limit_per & 3),
			 terms->limit_per == PER_SOURCE ? p->source : p->destination);
		bucket = limit_bucket_of(&counted);
		if (!bucket)
			return reason;
		bpf_spin_lock(&bucket->lock);
		entry = entry_for(bucket, &counted, at);
		if (entry)
			reason = ask_quota(&entry->quota, terms, at, is_flow);
		bpf_spin_unlock(&bucket->lock);
	}
	if (reason)
		__sync_fetch_and_add(&row->refused, 1);
	return reason;
}

/* The address that a flow is counted for. */
static __always_inline void count_flow_as(struct counted *counted, const struct flow *flow, __u32 mark)
{
	__u32 per = mark >> MARK_PER_SHIFT & 3, initiator = flow->initiator & 1;
	__be32 address[4];

	flow_address(flow, per == PER_SOURCE ? initiator : initiator ^ 1, address);
	count_as(counted, owner_of(mark & MARK_SLOT, mark >> MARK_EPOCH_SHIFT, per), address);
}

/* Adds the flow to the count of concurrent flows that its mark names. Returns true if it was counted. With `must`, the limit is not
 * checked. */
__noinline int count_concurrent(struct flow *flow, __u32 mark, struct limit_terms *terms, __u32 must)
{
	__u32 slot = mark & MARK_SLOT, per = mark >> MARK_PER_SHIFT & 3;
	bool is_counted = false;
	struct limit_bucket *bucket;
	struct limit_entry *entry;
	struct counted counted;
	struct limit_row *row;
	bool is_answered;
	__u64 at;

	if (!flow || !terms)
		return 0;
	if (per == PER_RULE) {
		row = lookup(&limit_rows, slot);
		if (!row)
			return 0;
		bpf_spin_lock(&row->lock);
		if ((row->epoch & MARK_EPOCHS) == mark >> MARK_EPOCH_SHIFT)
			is_counted = take_place(&row->quota, terms, must);
		bpf_spin_unlock(&row->lock);
		return is_counted;
	}
	at = moment();
	is_answered = budget_of(flow->state) == NO_BUDGET;
	count_flow_as(&counted, flow, mark);
	bucket = limit_bucket_of(&counted);
	if (!bucket)
		return 0;
	bpf_spin_lock(&bucket->lock);
	entry = entry_for(bucket, &counted, at);
	if (entry) {
		is_counted = take_place(&entry->quota, terms, must);
		entry->is_answered |= is_answered;
	}
	bpf_spin_unlock(&bucket->lock);
	return is_counted;
}

/* Gives a concurrent flow's place back. To be called by whoever took the mark that says that the flow is counted. */
__noinline int release_concurrent(struct flow *flow, __u32 mark)
{
	__u32 slot = mark & MARK_SLOT, per = mark >> MARK_PER_SHIFT & 3;
	struct limit_bucket *bucket;
	struct limit_entry *entry;
	struct counted counted;
	struct limit_row *row;

	if (!flow)
		return 0;
	if (per == PER_RULE) {
		row = lookup(&limit_rows, slot);
		if (!row)
			return 0;
		bpf_spin_lock(&row->lock);
		if ((row->epoch & MARK_EPOCHS) == mark >> MARK_EPOCH_SHIFT && row->quota.concurrent)
			row->quota.concurrent--;
		bpf_spin_unlock(&row->lock);
		return 0;
	}
	count_flow_as(&counted, flow, mark);
	bucket = limit_bucket_of(&counted);
	if (!bucket)
		return 0;
	bpf_spin_lock(&bucket->lock);
	entry = known_entry(bucket, counted.key);
	if (entry && entry->quota.concurrent)
		entry->quota.concurrent--;
	bpf_spin_unlock(&bucket->lock);
	return 0;
}

/* In mapping.h. */
int answer_mapping(struct flow *flow);

/* The flow has been answered, so the address that its rule counts is that of a host. */
__noinline int note_answered(struct flow *flow)
{
	struct limit_bucket *bucket;
	struct limit_entry *entry;
	struct counted counted;
	__u32 mark;

	if (!flow)
		return 0;
	if (is_mapped(flow))
		answer_mapping(flow);
	mark = READ_ONCE(flow->mark);
	if (mark == MARK_NONE || !(mark >> MARK_PER_SHIFT & 3))
		return 0;
	count_flow_as(&counted, flow, mark);
	bucket = limit_bucket_of(&counted);
	if (!bucket)
		return 0;
	bpf_spin_lock(&bucket->lock);
	entry = known_entry(bucket, counted.key);
	if (entry)
		entry->is_answered = 1;
	bpf_spin_unlock(&bucket->lock);
	return 0;
}

#endif
