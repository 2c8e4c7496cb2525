/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The first matching row of a packet by a series of decision trees: does exactly what policy::tables::Trees does
 * (docs/design/tables.md, crates/policy/src/tables/trees/lines.rs for the lines). One step reads one line of the cache, and the
 * policy's tables say beforehand that no search of a series takes more than MOST_LINES. Rules that ask for lists of addresses have series of their
 * own, of which a packet searches those whose lists have its ends.
 */
#ifndef RAMPART_FIREWALL_TREES_H
#define RAMPART_FIREWALL_TREES_H

#include "pages.h"

#define NO_ROW ((1u << 23) - 1)
#define LAST_RULE (1u << 31)	/* in the zones of a rule: the leaf ends here */

/* What the next line is; the first three as nodes call their children. */
enum tree_line {
	LINE_EMPTY = 0,
	LINE_INNER = 1,
	LINE_LEAF = 2,
	LINE_ROOT = 3,
};

/* The fields that nodes cut besides the words of the addresses, which have the numbers before. */
enum tree_field {
	FIELD_SERVICE = 8,
	FIELD_SOURCE_PORT = 9,
	FIELD_FROM = 10,
	FIELD_TO = 11,
};

static __always_inline __u32 service_key(const struct question *q)
{
	return (__u32)q->command.protocol << 16 | bpf_ntohs(q->command.selector);
}

static __always_inline __u32 key_of(const struct question *q, __u32 field)
{
	const __be32 *addresses = q->command.source;

	_Static_assert(__builtin_offsetof(struct judge_command, destination) == 16, "the words of both addresses follow each other");
	if (field < FIELD_SERVICE)
		return bpf_ntohl(addresses[field & 7]);
	if (field == FIELD_SERVICE)
		return service_key(q);
	if (field == FIELD_SOURCE_PORT)
		return bpf_ntohs(q->command.source_port);
	return q->zones[field & 1];
}

/*
 * Notes whether a number is outside of a range, in the upper bit. Without branches, because the verifier would follow each by itself. One at a
 * time, because clang would otherwise load all words of a line first and need the stack for them.
 */
static __always_inline void miss_unless(__u64 *misses, __u64 number, __u64 first, __u64 last)
{
	*misses |= (number - first) | (last - number);
	barrier_var(*misses);
}

/* Service, source port and zones of a rule. */
static __always_inline void miss_unless_rest(__u64 *misses, const struct question *q, const __u32 *rest)
{
	miss_unless(misses, service_key(q), rest[0] & 0xffffff, rest[1] & 0xffffff);
	miss_unless(misses, bpf_ntohs(q->command.source_port), rest[2] & 0xffff, rest[2] >> 16);
	miss_unless(misses, q->zones[0], rest[3] & 63, rest[3] >> 6 & 63);
	miss_unless(misses, q->zones[1], rest[3] >> 12 & 63, rest[3] >> 18 & 63);
}

/* An IPv6 address of a rule: exact words, one that is a range up to word 4, and free ones. */
static __always_inline void miss_unless_address(__u64 *misses, const __be32 *address, const __u32 *rule, __s64 range_word)
{
	for (__s64 word = 0; word < 4; word++) {
		__u32 exact = (word - range_word) >> 63, is_free = (range_word - word) >> 63;

		miss_unless(misses, bpf_ntohl(address[word]), rule[word], (rule[word] & exact) | (rule[4] & ~exact) | is_free);
	}
}

/* Whether the leaf ends with a rule. What is found is kept. */
static __always_inline bool rule_ends(struct tree_search *s, __u64 misses, const __u32 *rest)
{
	__u32 row = rest[0] >> 24 | rest[1] >> 24 << 8 | (rest[3] & ~LAST_RULE) >> 24 << 16;

	if (row >= s->found)
		return true;
	if (!(misses >> 63)) {
		s->found = row;
		return true;
	}
	return rest[3] & LAST_RULE;
}

/* Looks at the rules of a line. Whether the leaf ends here. */
static __always_inline bool leaf_ends(struct question *q, const __u32 *line)
{
	const struct judge_command *c = &q->command;
	__u64 misses = 0;

	if (c->family != 4) {
		miss_unless_address(&misses, c->source, line, line[14] & 3);
		miss_unless_address(&misses, c->destination, line + 5, line[14] >> 2 & 3);
		miss_unless_rest(&misses, q, line + 10);
		return rule_ends(&q->trees, misses, line + 10);
	}
	for (int rule = 0; rule < 2; rule++, line += LINE_WORDS / 2) {
		misses = 0;
		miss_unless(&misses, bpf_ntohl(c->source[0]), line[0], line[1]);
		miss_unless(&misses, bpf_ntohl(c->destination[0]), line[2], line[3]);
		miss_unless_rest(&misses, q, line + 4);
		if (rule_ends(&q->trees, misses, line + 4))
			return true;
	}
	return false;
}

static __always_inline const struct listed_series *listed_series_at(const struct look_up *l, __u32 number)
{
	__u32 at = l->header->listed_series + number * LISTED_SERIES_WORDS;

	return (const struct listed_series *)&words_at(l, at)[at & (PAGE_WORDS - LISTED_SERIES_WORDS)];
}

/* The trees of a series come next. There is one always. */
static __always_inline void begin_series(struct tree_search *s, const struct tree_series *series)
{
	s->root = series->first;
	s->trees = series->trees;
	s->line = s->root;
	s->kind = LINE_ROOT;
}

/* Goes to the first tree of the next series. 1 when there is none. */
static __always_inline int next_series(struct look_up *l)
{
	struct question *q = l->question;
	__u64 holding = q->holding;

	if (!holding)
		return 1;
	q->holding = holding & (holding - 1);
	begin_series(&q->trees, &listed_series_at(l, lowest_bit(holding))->series[q->command.family != 4]);
	return 0;
}

/* Goes to the root of the next tree. 1 when there is none. */
static __always_inline int next_tree(struct look_up *l)
{
	struct tree_search *s = &l->question->trees;

	if (s->trees <= 1)
		return next_series(l);
	s->trees--;
	s->root++;
	s->line = s->root;
	s->kind = LINE_ROOT;
	return 0;
}

/* Goes from an inner node to a child, if one is there and may hold a better row. 1 ends the search. */
static __always_inline int go_down(struct look_up *l, const __u32 *node)
{
	struct tree_search *s = &l->question->trees;
	__u64 key = key_of(l->question, node[0] & 15);
	__u32 child = 0, kind;

	/* Trees of a series are in the order of their best rows. */
	if (node[2] >= s->found) {
		if (s->kind == LINE_ROOT)
			s->trees = 0;
		return next_tree(l);
	}
	for (int i = 0; i < SEPARATORS; i++) {
		child += (node[3 + i] - key) >> 63;
		barrier_var(child);
	}
	kind = node[0] >> (4 + 2 * child) & 3;
	if (kind == LINE_EMPTY)
		return next_tree(l);
	s->kind = kind;
	s->line = (node[1] & 0xfffffff) + (child << (node[1] >> 28));
	return 0;
}

static int search_line(__u32 turn __attribute__((unused)), struct look_up *l)
{
	struct tree_search *s = &l->question->trees;
	__u32 at = l->header->tree_lines + s->line * LINE_WORDS;
	const __u32 *line = &words_at(l, at)[at & (PAGE_WORDS - LINE_WORDS)];

	if (l->question->broken)
		return 1;
	if (s->kind != LINE_LEAF)
		return go_down(l, line);
	if (leaf_ends(l->question, line))
		return next_tree(l);
	s->line++;
	return 0;
}

/* The row and 1, or 0: the first of the rules without lists, if those are in trees, of what another method found (`row`), and of the rules whose lists
 * have the ends. */
static __always_inline __u32 row_by_trees(struct look_up *l, __u32 row)
{
	struct question *q = l->question;
	struct tree_search *s = &q->trees;

	/* Looked up again, because the stack of who asks is short. */
	q->zones[0] = l->header->zone_numbers[q->command.from & (MAX_ZONES - 1)];
	q->zones[1] = l->header->zone_numbers[q->command.to & (MAX_ZONES - 1)];
	*s = (struct tree_search){ .found = row ? row - 1 : NO_ROW };
	if (l->header->method == METHOD_TREES)
		begin_series(s, &l->header->series[q->command.family != 4]);
	else
		next_series(l);
	bpf_loop(MOST_LINES * (1 + MAX_LISTED_SERIES), search_line, l, 0);
	return s->found == NO_ROW ? 0 : s->found + 1;
}

#endif
