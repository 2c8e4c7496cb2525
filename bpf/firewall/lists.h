/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Lists of addresses: which of a policy's lists have the source and the destination of a new flow. All lists are in one array of pages,
 * so an address is looked for once, however many lists there are. Does exactly what policy::lists::ListTable::look_up does
 * (docs/design/lists.md). A known flow asks nothing here.
 */
#ifndef RAMPART_FIREWALL_LISTS_H
#define RAMPART_FIREWALL_LISTS_H

#include "pages.h"

#define LIST_PLACES 6		/* of the policy in force, and of the one that takes its place: all lists, and domains (below) */
#define MAX_LIST_HALVINGS 32
#define LIST_START_WORDS (sizeof(struct list_start) / 4)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, LIST_PLACES);
	__type(key, __u32);
	__array(values, struct generation);
} address_lists SEC(".maps");

static int halve_entries(__u32 turn __attribute__((unused)), struct look_up *l)
{
	struct list_search *s = &l->question->lists;
	__u32 half = s->size / 2;

	if (!half)
		return 1;
	if (word_at(l, s->at + s->first + half) <= s->key)
		s->first += half;
	s->size -= half;
	return 0;
}

/* The lists that have an IPv4 address: those of the last entry of its block that is not above it. No entry, no list. */
static __always_inline __u32 lists_of_v4(struct look_up *l, const struct list_header *h, __u32 field)
{
	struct list_search *s = &l->question->lists;
	__u32 address = bpf_ntohl(field ? l->question->command.destination[0] : l->question->command.source[0]);
	__u32 bits = h->index_bits & 31, block = h->index + (address >> ((32 - bits) & 31)), entry;

	s->at = h->entries;
	s->key = address << bits | ((1u << bits) - 1);
	s->first = word_at(l, block);
	s->size = word_at(l, block + 1) - s->first;
	if (!s->size)
		return 0;
	bpf_loop(MAX_LIST_HALVINGS, halve_entries, l, 0);
	entry = word_at(l, s->at + s->first);
	bits = h->index_bits & 31;
	if (entry > s->key || (entry & ENTRY_SINGLE && (entry ^ s->key) >> bits))
		return 0;
	return word_at(l, h->masks + ((entry & ((1u << bits) - 1)) >> 1));
}

static __always_inline bool starts_above(struct look_up *l, __u32 at, __u32 field)
{
	__u64 high = pair_at(l, at), address = half_of(l->question, field, 0);

	if (high != address)
		return high > address;
	return pair_at(l, at + 2) > half_of(l->question, field, 1);
}

static int halve_list_starts(__u32 turn __attribute__((unused)), struct look_up *l)
{
	struct list_search *s = &l->question->lists;
	__u32 half = s->size / 2;

	if (!half)
		return 1;
	if (!starts_above(l, s->at + (s->first + half) * LIST_START_WORDS, s->key & 1))
		s->first += half;
	s->size -= half;
	return 0;
}

/* The lists that have an IPv6 address. The first start is the least address. */
static __always_inline __u32 lists_of_v6(struct look_up *l, const struct list_header *h, __u32 field)
{
	struct list_search *s = &l->question->lists;

	if (!h->start_count)
		return 0;
	*s = (struct list_search){ .at = h->starts, .size = h->start_count, .key = field };
	bpf_loop(MAX_LIST_HALVINGS, halve_list_starts, l, 0);
	return pair_at(l, s->at + s->first * LIST_START_WORDS + 4);
}

/*
 * Adds the lists that have the source (field 0) or the destination (1), of those in a place of the map. Without the lists that the policy asks
 * for nothing passes. One field at a time, because the stack is short.
 */
__noinline int find_lists(struct question *question, __u32 place, __u32 field)
{
	struct look_up look_up = { .question = question }, *l = &look_up;
	const struct list_header *h;
	__u32 lists;

	if (!question)
		return 0;
	l->pages = lookup(&address_lists, place);
	h = l->pages ? lookup(l->pages, 0) : 0;
	if (!h) {
		question->broken = 1;
		return 0;
	}
	l->header = (const void *)h;
	lists = question->command.family == 4 ? lists_of_v4(l, h, field) : lists_of_v6(l, h, field);
	question->listed[field & 1] |= lists;
	return 0;
}

/*
 * Which of the lists that a policy asks for (struct table_header) have both ends. Addresses of domains change without the policy and without
 * other lists, so they have tables of their own: what domains stand for now, by which new flows are judged, and behind it that with what they
 * stood for before, by which known flows are.
 */
static __always_inline void find_all_lists(struct question *q, __u32 lists)
{
	__u32 place = lists & LISTS_PLACE;

	q->listed[0] = 0;
	q->listed[1] = 0;
	find_lists(q, place - 1, 0);
	find_lists(q, place - 1, 1);
	if (!(lists & LISTS_DOMAINS))
		return;
	place = place * 2 + (q->command.is_known & 1);
	find_lists(q, place, 0);
	find_lists(q, place, 1);
}

#endif
