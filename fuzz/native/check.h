/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What must be true of the counters after every packet, and of the flow table whenever nothing passes. */
#ifndef RAMPART_NATIVE_CHECK_H
#define RAMPART_NATIVE_CHECK_H

#include "packets.h"

static __u64 total_drops(void)
{
	const struct counts *mine = (const struct counts *)count_map->values;
	__u64 total = 0;

	for (int i = 0; i < MAX_REASONS; i++)
		total += mine->drops[i];
	return total;
}

/* The hashes of a flow's two directions are one where a host inside talks with itself by its outside name. */
static bool has_one_hash(const struct flow *flow)
{
	return is_translated(flow) && hash_of(flow) == hash_of_sender(flow, (flow->initiator & 1) ^ 1);
}

/* The bucket that a flow has a slot of this hash in, of two the one that is asked for; fails when that is none of its three, or there are
 * more. */
static __u32 home_of(const struct flow *flow, __u32 record, __u64 h, bool second)
{
	__u64 slot = slot_of(tag_of(h), flow->number, record);
	__u32 found = 0, home = 0;

	for (__u32 b = 0; b < BUCKETS; b++)
		for (int s = 0; s < BUCKET_SLOTS; s++)
			if (((struct bucket *)bucket_map->values)[b].slots[s] == slot) {
				if (!found++ || second)
					home = b;
			}
	if (found != (has_one_hash(flow) ? 2 : 1))
		fail("a flow is not in the table once");
	for (__u32 i = 0; i < PLACES; i++)
		if (place(h, tag_of(h), i) == home)
			return home;
	fail("a flow is where nobody looks for it");
	return 0;
}

static void check_free_records(__u32 used)
{
	const struct flow *records = (const struct flow *)flow_map->values;
	__u32 next = pool.free_head, fresh = pool.fresh < RECORDS ? pool.fresh : RECORDS, count = 0;

	while (next) {
		if (next > RECORDS || records[next - 1].state != FLOW_FREE || ++count > RECORDS)
			fail("the free records are no list of free records");
		next = records[next - 1].opened;
	}
	if (count + used != fresh)
		fail("a record is neither in use nor free");
}

/* Flows that say that they are counted are counted, and no others. */
static void check_limits(void)
{
	const struct flow *records = (const struct flow *)flow_map->values;
	__u64 held = 0, counted = 0;

	for (__u32 i = 0; i < RECORDS; i++)
		held += records[i].state != FLOW_FREE && records[i].mark & MARK_COUNTED;
	for (__u32 i = 0; i < HIT_SLOTS; i++)
		counted += ((const struct limit_row *)row_map->values)[i].quota.concurrent;
	for (__u32 i = 0; i < LIMIT_ROOM; i++)
		for (int way = 0; way < LIMIT_WAYS; way++)
			counted += ((const struct limit_bucket *)address_map->values)[i].entries[way].quota.concurrent;
	if (held != counted || is_locked)
		fail("flows at once are miscounted");
}

/* What is kept beside a flow is there as long as the flow, and of no other. */
static void check_proxied(void)
{
	const struct flow *records = (const struct flow *)flow_map->values;
	const __u32 *keys = (const __u32 *)proxied_map->keys;
	__u32 kept = 0, proxied = 0;

	for (__u32 i = 0; i < RECORDS; i++) {
		proxied += records[i].state != FLOW_FREE && is_proxied(&records[i]);
		if (keys[i] == ~0u)
			continue;
		kept++;
		if (keys[i] >= RECORDS || records[keys[i]].state == FLOW_FREE || !proxied_of(&records[keys[i]], keys[i]))
			fail("what is kept beside a flow is not removed with it");
	}
	if (kept != proxied)
		fail("a flow that a cookie opened has not what is kept beside it");
}

static __u32 bits_in(const __u64 *now, const __u64 *before)
{
	__u32 bits = 0;

	for (int word = 0; word < SCAN_WORDS; word++)
		bits += __builtin_popcountll(now[word] | before[word]);
	return bits;
}

/* The numbers of a sketch are those of its bits. */
static void check_scans(void)
{
	const struct scan_bucket *all = (const struct scan_bucket *)scan_map->values;

	for (int i = 0; i < SCAN_ROOM * SCAN_WAYS; i++) {
		const struct scan_entry *entry = &all[i / SCAN_WAYS].entries[i % SCAN_WAYS];

		for (int kind = 0; kind < 2; kind++) {
			const struct scan_sketch *s = kind ? &entry->hosts : &entry->ports;

			if (s->fresh != bits_in(s->now, s->now) || s->distinct != bits_in(s->now, s->before))
				fail("a sketch miscounts its bits");
		}
	}
}

static const __be32 *ends_of(const struct flow *flow, __u32 end)
{
	static __be32 address[4];

	flow_address(flow, end, address);
	return address;
}

static void check_table(void)
{
	const struct flow *records = (const struct flow *)flow_map->values;
	const struct bucket *all = (const struct bucket *)bucket_map->values;
	__u32 used = 0, second = 0, spent[BUDGETS + 2] = {}, of_sources[3] = {}, slots = 0, elsewhere[BUCKETS] = {};
	__be32 ends[2][4];

	for (__u32 i = 0; i < RECORDS; i++) {
		const struct flow *flow = &records[i];
		__u64 h = hash_of(flow);
		__u32 first = place(h, tag_of(h), 0);

		if (flow->state == FLOW_FREE)
			continue;
		used++;
		spent[budget_of(flow->state)]++;
		if (flow->source != place_of_source(family_of(flow), ends_of(flow, flow->initiator & 1)))
			fail("a flow is counted for another source");
		elsewhere[first] += home_of(flow, i, h, 0) != first;
		if (is_translated(flow)) {
			h = hash_of_sender(flow, (flow->initiator & 1) ^ 1);
			first = place(h, tag_of(h), 0);
			elsewhere[first] += home_of(flow, i, h, has_one_hash(flow)) != first;
			second++;
		}
		flow_address(flow, 0, ends[0]);
		flow_address(flow, 1, ends[1]);
		if (!is_translated(flow) && is_greater(family_of(flow), ends[0], flow->port[0], ends[1], flow->port[1]))
			fail("a flow's ends are in the wrong order");
	}
	for (__u32 b = 0; b < BUCKETS; b++) {
		if (all[b].elsewhere != elsewhere[b])
			fail("a bucket miscounts its flows elsewhere");
		for (int s = 0; s < BUCKET_SLOTS; s++)
			slots += all[b].slots[s] != 0;
	}
	if (slots != used + second)
		fail("slots and flows differ in number");
	for (__u32 i = 0; i < SOURCES; i++) {
		const struct source *source = &((const struct source *)source_map->values)[i];

		of_sources[0] += source->spent[0];
		of_sources[1] += source->spent[1];
		of_sources[2] += source->flows;
	}
	for (int i = 0; i < BUDGETS; i++)
		if (pool.spent[i] != spent[i] || of_sources[i] != spent[i])
			fail("a budget is miscounted");
	if (pool.used != used || of_sources[2] != used)
		fail("flows are miscounted");
	check_free_records(used);
	check_limits();
	check_scans();
	check_proxied();
}

#endif
