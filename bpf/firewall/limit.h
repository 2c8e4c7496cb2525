/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Limits of rules: so many new flows in a time, and so many concurrent flows, for a rule as a whole or for each source or
 * destination address. What is counted for a rule stays with the rule's counter, and so with its name, whatever policies
 * come; what is counted for an address has an entry in a bucket that is found by a hash of rule and address. Entries are
 * there from the start. One that says nothing any more makes room, or one of a rule that has more than its share; when none does, a new
 * flow is dropped and counted.
 *
 *  - A rate is the generic cell rate algorithm (ITU-T I.371), which is a token bucket that stores one number: the moment from
 *    which the next flow would come in time at an even rate. A row, or a bucket, has a lock, so all cores together never let
 *    through more than burst + rate * time, and never less.
 *  - A flow that its rule counts as concurrent says so in its mark, with whose number it is counted. Whoever swaps that mark
 *    away releases the place, and only once; the epoch in the mark keeps it from another rule that got the same counter later.
 */
#ifndef RAMPART_FIREWALL_LIMIT_H
#define RAMPART_FIREWALL_LIMIT_H

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
	__uint(max_entries, LIMIT_BUCKETS);
	__type(key, __u32);
	__type(value, struct limit_bucket);
} limit_addresses SEC(".maps");

/* What a rule's limits and alert are; null when it has neither. */
static __always_inline struct limit_terms *terms_of(__u32 extras)
{
	__u32 number = extras & EXTRA_TERMS;

	return number ? lookup(&limit_terms, number - 1) : 0;
}

/* What is counted for an address: by rule, epoch, what for, and the address. Of an IPv6 source the first 64 bits: one host may have all
 * addresses behind them. The other words of an IPv4 address are 0. */
static __always_inline __u64 limit_key(__u32 slot, __u32 epoch, __u32 kind, const __be32 *address)
{
	__u64 host = (kind & 3) == PER_SOURCE ? 0 : (__u64)address[2] << 32 | address[3];
	__u64 key = mix(secret[0], (__u64)slot << 32 | epoch << 8 | kind);

	return mix(mix(key, (__u64)address[0] << 32 | address[1]), host) | 1;
}

static __always_inline struct limit_bucket *limit_bucket_of(__u64 key)
{
	return lookup(&limit_addresses, key >> 32 & (LIMIT_BUCKETS - 1));
}

/* The entry of a key, or null. Under the bucket's lock, as the next one. */
static __always_inline struct limit_entry *known_entry(struct limit_bucket *bucket, __u64 key)
{
	for (int way = 0; way < LIMIT_WAYS; way++)
		if (bucket->entries[way].key == key)
			return &bucket->entries[way];
	return 0;
}

/* 1 when a rule has an entry. By arithmetic, as all of this look: the verifier would follow each outcome of each comparison. */
static __always_inline __u64 is_of_rule(const struct limit_entry *entry, __u32 rule)
{
	return ((__u64)(entry->quota.rule ^ rule) - 1) >> 63;
}

static __always_inline __u64 entries_of(const struct limit_bucket *bucket, __u32 rule)
{
	__u64 count = 0;

	for (int way = 0; way < LIMIT_WAYS; way++)
		count += is_of_rule(&bucket->entries[way], rule);
	return count;
}

/*
 * In a full bucket: an entry of the rule that has most there, if it has at least two more than this one, so that no rule's addresses keep
 * those of another out. An entry that counts flows never goes, because their ends would be counted for nobody. Null: there is none.
 */
static __always_inline struct limit_entry *entry_of_another_rule(struct limit_bucket *bucket, __u32 rule)
{
	__u64 own = entries_of(bucket, rule), best = 0;

	for (__u64 way = 0; way < LIMIT_WAYS; way++) {
		const struct limit_entry *entry = &bucket->entries[way];
		__u64 is_idle = ((__u64)entry->quota.concurrent - 1) >> 63;
		__u64 candidate = (entries_of(bucket, entry->quota.rule) << 3 | way) & -is_idle;
		__u64 is_better = (best - candidate) >> 63;

		best = (candidate & -is_better) | (best & (is_better - 1));
	}
	return best >> 3 >= own + 2 ? &bucket->entries[best & (LIMIT_WAYS - 1)] : 0;
}

/* The entry of an address, if need be a new one in the place of one that says nothing any more. Null: there is none. */
static __always_inline struct limit_entry *entry_for(struct limit_bucket *bucket, __u64 key, __u32 slot, __u64 at)
{
	struct limit_entry *entry = known_entry(bucket, key);

	if (entry)
		return entry;
	for (int way = 0; way < LIMIT_WAYS && !entry; way++)
		if (!bucket->entries[way].quota.concurrent && bucket->entries[way].quota.until <= at)
			entry = &bucket->entries[way];
	if (!entry)
		entry = entry_of_another_rule(bucket, slot + 1);
	if (!entry)
		return 0;
	entry->key = key;
	entry->quota.rule = slot + 1;
	entry->quota.until = 0;
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
	__u64 at = moment(), key;

	if (!row)
		return reason;
	if (terms->limit_per == PER_RULE) {
		bpf_spin_lock(&row->lock);
		reason = ask_quota(&row->quota, terms, at, is_flow);
		bpf_spin_unlock(&row->lock);
	} else {
		key = limit_key(p->slot, terms->epoch, terms->limit_per,
				terms->limit_per == PER_SOURCE ? p->source : p->destination);
		bucket = limit_bucket_of(key);
		if (!bucket)
			return reason;
		bpf_spin_lock(&bucket->lock);
		entry = entry_for(bucket, key, p->slot, at);
		if (entry)
			reason = ask_quota(&entry->quota, terms, at, is_flow);
		bpf_spin_unlock(&bucket->lock);
	}
	if (reason)
		__sync_fetch_and_add(&row->refused, 1);
	return reason;
}

/* The key of the address that a flow is counted for. */
static __always_inline __u64 limit_key_of(const struct flow *flow, __u32 mark)
{
	__u32 per = mark >> MARK_PER_SHIFT & 3, initiator = flow->initiator & 1;
	__be32 address[4];

	flow_address(flow, per == PER_SOURCE ? initiator : initiator ^ 1, address);
	return limit_key(mark & MARK_SLOT, mark >> MARK_EPOCH_SHIFT, per, address);
}

/* Adds the flow to the count of concurrent flows that its mark names. Returns true if it was counted. With `must`, the limit is not
 * checked. */
__noinline int count_concurrent(struct flow *flow, __u32 mark, struct limit_terms *terms, __u32 must)
{
	__u32 slot = mark & MARK_SLOT, per = mark >> MARK_PER_SHIFT & 3;
	bool is_counted = false;
	struct limit_bucket *bucket;
	struct limit_entry *entry;
	struct limit_row *row;
	__u64 at, key;

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
	key = limit_key_of(flow, mark);
	bucket = limit_bucket_of(key);
	if (!bucket)
		return 0;
	bpf_spin_lock(&bucket->lock);
	entry = entry_for(bucket, key, slot, at);
	if (entry)
		is_counted = take_place(&entry->quota, terms, must);
	bpf_spin_unlock(&bucket->lock);
	return is_counted;
}

/* Gives a concurrent flow's place back. To be called by whoever took the mark that says that the flow is counted. */
__noinline int release_concurrent(struct flow *flow, __u32 mark)
{
	__u32 slot = mark & MARK_SLOT, per = mark >> MARK_PER_SHIFT & 3;
	struct limit_bucket *bucket;
	struct limit_entry *entry;
	struct limit_row *row;
	__u64 key;

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
	key = limit_key_of(flow, mark);
	bucket = limit_bucket_of(key);
	if (!bucket)
		return 0;
	bpf_spin_lock(&bucket->lock);
	entry = known_entry(bucket, key);
	if (entry && entry->quota.concurrent)
		entry->quota.concurrent--;
	bpf_spin_unlock(&bucket->lock);
	return 0;
}

#endif
