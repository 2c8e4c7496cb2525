/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The policy: from a packet to the rule that decides, by loads from one array of pages. Does exactly what
 * policy::Tables::look_up does (docs/design/tables.md). A packet asks one array, so it sees one generation; a new one takes
 * the old one's place as a whole.
 */
#ifndef RAMPART_FIREWALL_TABLES_H
#define RAMPART_FIREWALL_TABLES_H

#include "lists.h"
#include "pages.h"
#include "trees.h"

#define DEEPER (1u << 31)	/* policy::tables::DEEPER, and BY_PORT */
#define WHOLE 0xffffffff
#define MAX_HALVINGS 32
#define ZONE_START_WORDS (sizeof(struct zone_start) / 4)
#define MAX_CHUNK_TURNS 4096	/* summary words and the chunks that they name, of a million rules */

static __always_inline __u32 class_v4(const struct look_up *l, const struct address_tables *t, __u32 address)
{
	__u32 entry = word_at(l, t->roots + (address >> 16));

	if (!(entry & DEEPER))
		return entry;
	entry = word_at(l, t->blocks + ((entry & ~DEEPER) << 8 | (address >> 8 & 0xff)));
	if (!(entry & DEEPER))
		return entry;
	return word_at(l, t->blocks + ((entry & ~DEEPER) << 8 | (address & 0xff)));
}

/* 1 when a < b. By the borrow of the subtraction: the verifier would follow each outcome of a comparison by itself. */
static __always_inline __u32 is_less(__u64 a, __u64 b)
{
	return ((~a & b) | ((~a | b) & (a - b))) >> 63;
}

/* How many of a node's keys are not above a number. */
static __always_inline __u32 keys_below(const struct look_up *l, __u32 at, __u64 number)
{
	const __u64 *keys = (const __u64 *)&words_at(l, at)[at & (PAGE_WORDS - 16)];
	__u32 below = 0;

	for (int i = 0; i < NODE_KEYS; i++)
		below += 1 - is_less(number, keys[i]);
	return below;
}

static __always_inline bool is_above(struct look_up *l, __u32 what, __u32 at)
{
	const struct question *q = l->question;
	__u64 start = pair_at(l, at);

	if (what == HALVED_V4)
		return start > bpf_ntohl(q->command.source[0]);
	if (what != HALVED_V6)
		return start > half_of(q, what, 1);
	if (start != half_of(q, 0, 0))
		return start > half_of(q, 0, 0);
	return pair_at(l, at + 2) > half_of(q, 0, 1);
}

static int halve(__u32 turn __attribute__((unused)), struct look_up *l)
{
	struct halving *h = &l->question->halving;
	__u32 half = h->size / 2, stride = h->what < HALVED_V4 ? 2 : ZONE_START_WORDS;

	if (!half)
		return 1;
	if (!is_above(l, h->what, h->at + (h->first + half) * stride))
		h->first += half;
	h->size -= half;
	return 0;
}

static int descend(__u32 level, struct look_up *l)
{
	struct descent *d = &l->question->descent;
	const struct address_tables *t = &l->header->field[d->field & 1];
	__u32 first, last, place = d->place * NODE_KEYS;

	if (level >= TREE_LEVELS || level >= t->levels)
		return 1;
	first = t->level_first[level];
	last = t->level_keys[level] - 1;
	/* The least key of a level is 0 or was the way here, so at least one is below; the filling is not a key. */
	place += keys_below(l, t->keys + (first + place) * 2, half_of(l->question, d->field, 0)) - 1;
	d->place = place > last ? last : place;
	d->key = first + d->place;
	return 0;
}

static __always_inline __u32 class_v6(struct look_up *l, __u32 field)
{
	const struct address_tables *t = &l->header->field[field];
	struct question *q = l->question;
	__u32 leaf, start;

	q->descent = (struct descent){ .field = field };
	bpf_loop(TREE_LEVELS, descend, l, 0);
	leaf = t->leaves + q->descent.place * 3;
	start = word_at(l, leaf + 1);
	if (start == WHOLE || pair_at(l, t->keys + q->descent.key * 2) != half_of(q, field, 0))
		return word_at(l, leaf);
	q->halving = (struct halving){ .at = t->lows, .first = start, .size = word_at(l, leaf + 2), .what = HALVED_LOW + field };
	bpf_loop(MAX_HALVINGS, halve, l, 0);
	return word_at(l, t->low_classes + q->halving.first);
}

static __always_inline __u32 class_of(struct look_up *l, __u32 field)
{
	const struct judge_command *q = &l->question->command;

	if (q->family == 4)
		return class_v4(l, &l->header->field[field], bpf_ntohl(field ? q->destination[0] : q->source[0]));
	return class_v6(l, field);
}

static __always_inline const __u64 *chunk_of(const struct look_up *l, int part, __u32 chunk)
{
	const struct table_header *t = l->header;
	__u32 block = word_at(l, t->vectors[part] + l->question->classes[part] * t->width + chunk / BLOCK_CHUNKS);
	__u32 number = word_at(l, t->chunk_blocks + block * BLOCK_CHUNKS + chunk % BLOCK_CHUNKS);
	__u32 at = t->chunks + number * CHUNK_WORDS * 2;

	return (const __u64 *)&words_at(l, at)[at & (PAGE_WORDS - 16)];
}

/* The first row that all three have, and 1; or 0. */
static __always_inline __u32 first_in_chunk(const struct look_up *l, __u32 chunk)
{
	const __u64 *a = chunk_of(l, 0, chunk), *b = chunk_of(l, 1, chunk), *c = chunk_of(l, 2, chunk);

	for (__u32 i = 0; i < CHUNK_WORDS; i++) {
		__u64 all = a[i] & b[i] & c[i];

		if (all)
			return chunk * CHUNK_WORDS * 64 + i * 64 + lowest_bit(all) + 1;
	}
	return 0;
}

/* Looks at one more word of the summaries, or at one more chunk. 1 ends the search. */
static int search_on(__u32 turn __attribute__((unused)), struct look_up *l)
{
	struct vector_search *s = &l->question->vectors;
	const struct table_header *t = l->header;
	__u32 chunk;

	if (l->question->broken)
		return 1;
	if (!s->candidates) {
		if (s->word >= t->summary_width)
			return 1;
		s->candidates = ~0ull;
		for (int part = 0; part < 3; part++) {
			__u32 at = l->question->classes[part] * t->summary_width + s->word;

			s->candidates &= pair_at(l, t->summaries[part] + at * 2);
		}
		s->word++;
		return 0;
	}
	chunk = (s->word - 1) * 64 + lowest_bit(s->candidates);
	s->candidates &= s->candidates - 1;
	s->row = first_in_chunk(l, chunk);
	return s->row != 0;
}

static __always_inline __u32 row_by_vectors(struct look_up *l)
{
	l->question->vectors = (struct vector_search){};
	bpf_loop(MAX_CHUNK_TURNS, search_on, l, 0);
	return l->question->vectors.row;
}

static __always_inline __u32 entry_of(const struct look_up *l, const struct block_table *t, __u32 first, __u32 second)
{
	__u32 block = word_at(l, t->directory + second / BLOCK_CLASSES * t->height + first);

	return word_at(l, t->entries + block * BLOCK_CLASSES + second % BLOCK_CLASSES);
}

static __always_inline __u32 row_by_tables(const struct look_up *l, const struct table_header *t, const __u32 *classes)
{
	__u32 a = t->order[0], b = t->order[1], c = t->order[2], both;

	if (a > 2 || b > 2 || c > 2) {
		l->question->broken = 1;
		return 0;
	}
	if (t->method == METHOD_BLOCKS) {
		both = entry_of(l, &t->blocks[0], classes[a], classes[b]);
		return entry_of(l, &t->blocks[1], both, classes[c]);
	}
	both = word_at(l, t->first + classes[a] * t->first_columns + classes[b]);
	return word_at(l, t->last + both * t->last_columns + classes[c]);
}

static __always_inline __u32 service_class(const struct look_up *l, const struct table_header *t, __u8 protocol, __u16 selector)
{
	__u32 entry = word_at(l, t->protocols + protocol);

	if (!(entry & DEEPER))
		return entry;
	return word_at(l, t->ports + ((entry & ~DEEPER) << 16 | selector));
}

/* The row of a packet between a pair of zones and 1, or 0: by the classes of its fields. */
static __always_inline __u32 row_by_classes(struct look_up *l, __u32 pair)
{
	const struct table_header *t = l->header;
	const struct judge_command *q = &l->question->command;
	__u32 *classes = l->question->classes;

	/* Kept where the class will be, because the stack is short. */
	classes[2] = word_at(l, t->pairs + pair) * t->services + service_class(l, t, q->protocol, bpf_ntohs(q->selector));
	classes[0] = class_of(l, 0);
	classes[1] = class_of(l, 1);
	classes[2] = word_at(l, t->pair_service + classes[2]);
	if (t->source_ports)
		classes[2] = word_at(l, t->with_source_port + classes[2] * t->port_classes +
					word_at(l, t->source_ports + bpf_ntohs(q->source_port)));
	return t->method == METHOD_VECTORS ? row_by_vectors(l) : row_by_tables(l, t, classes);
}

/* Where the struct zone_start of the source is; 0: no address has any. */
static __always_inline __u32 start_of_source(struct look_up *l)
{
	struct question *q = l->question;
	bool is_v6 = q->command.family != 4;
	const struct zone_starts *starts = &l->header->zone_starts[is_v6];

	if (!starts->count)
		return 0;
	q->halving = (struct halving){ .at = starts->at, .size = starts->count, .what = is_v6 ? HALVED_V6 : HALVED_V4 };
	bpf_loop(MAX_HALVINGS, halve, l, 0);
	return starts->at + q->halving.first * ZONE_START_WORDS;
}

/* Whether the source lives in other zones and not in this one, as far as zones say who lives there. */
static __always_inline bool is_misplaced(struct look_up *l)
{
	__u32 start = start_of_source(l);
	__u64 zones = start ? pair_at(l, start + 4) : 0;

	return zones && !(zones >> (l->question->command.from & 63) & 1);
}

enum source_fact {
	SOURCE_MISPLACED = 1,	/* it belongs to the networks of other zones only; or there is no policy that knows */
	SOURCE_EXCEPTED = 2,	/* what it does is no scan */
};

/* What the policy knows of the source of a packet, besides its rules: enum source_fact. */
__noinline int facts_of_source(struct packet *p)
{
	struct question question = {};
	struct look_up look_up = { .question = &question }, *l = &look_up;
	__u32 start;

	if (!p)
		return SOURCE_MISPLACED;
	l->pages = lookup(&generations, 0);
	if (!l->pages)
		return SOURCE_MISPLACED;
	l->header = lookup(l->pages, 0);
	if (!l->header)
		return SOURCE_MISPLACED;
	question.command.family = p->family;
	question.command.from = p->from;
	for (int word = 0; word < 4; word++)
		question.command.source[word] = p->source[word];
	if (is_misplaced(l))
		return SOURCE_MISPLACED;
	/* The search has left its place. */
	start = l->header->zone_starts[p->family != 4].count ? question.halving.at + question.halving.first * ZONE_START_WORDS : 0;
	return start && word_at(l, start + 6) & 1 ? SOURCE_EXCEPTED : 0;
}

/* Notes whether the lists of a series have the ends. */
static int note_holding(__u32 turn, struct look_up *l)
{
	struct question *q = l->question;
	const __u32 *wanted = listed_series_at(l, turn)->lists;
	bool has_source = !wanted[0] || wanted[0] & q->listed[0];
	bool has_destination = !wanted[1] || wanted[1] & q->listed[1];

	q->holding |= (__u64)(has_source && has_destination) << (turn & (MAX_LISTED_SERIES - 1));
	return 0;
}

/* Looks for both ends on the lists. The list that refuses them, and 1; or 0. */
static __always_inline __u32 refusing_list(struct look_up *l)
{
	struct question *q = l->question;
	const struct table_header *t = l->header;
	__u32 refusing;

	find_all_lists(q, t->lists);
	bpf_loop(t->listed_series_count & (2 * MAX_LISTED_SERIES - 1), note_holding, l, 0);
	refusing = (q->listed[0] & t->block[0]) | (q->listed[1] & t->block[1]) | (~q->listed[0] & t->require[0]) |
		   (~q->listed[1] & t->require[1]);
	return refusing ? lowest_bit(refusing) + 1 : 0;
}

/* The answer unless another follows. */
static __always_inline void deny(struct judge_command *q)
{
	q->row = 0;
	q->action = ACTION_DENY;
}

static __always_inline void answer_with(struct look_up *l, __u32 row, __u32 at)
{
	const struct effect *effect = (const struct effect *)&words_at(l, at)[at & (PAGE_WORDS - EFFECT_WORDS)];
	struct judge_command *q = &l->question->command;

	if (l->question->broken)
		return;
	q->row = row;
	q->action = effect->action;
	q->slot = effect->slot;
	q->extras = effect->extras;
}

/* Where the default of a question's zones is. It is worked out from the question again, because the stack is short. */
static __always_inline __u32 default_at(const struct table_header *t, const struct judge_command *q)
{
	__u32 from = t->zone_numbers[q->from & (MAX_ZONES - 1)], to = t->zone_numbers[q->to & (MAX_ZONES - 1)];

	return t->defaults + (from * t->zones + to) * EFFECT_WORDS;
}

/* Fills in the answer: a denial unless the tables say otherwise. Its generation is 0 when there is no policy. */
__noinline int judge_question(struct question *question)
{
	struct look_up look_up = { .question = question }, *l = &look_up;
	const struct table_header *t;
	struct judge_command *q;
	__u32 from, to, row;

	if (!question)
		return 0;
	q = &question->command;
	q->generation = 0;
	l->pages = lookup(&generations, 0);
	if (!l->pages)
		return 0;
	t = l->header = lookup(l->pages, 0);
	if (!t || !t->generation)
		return 0;
	/* A zone that this policy does not know any more: denied. */
	q->generation = t->generation;
	q->slot = NO_SLOT;
	q->extras = 0;
	question->broken = 0;
	question->holding = 0;
	row = t->lists ? refusing_list(l) : 0;
	if (row) {
		deny(q);
		answer_with(l, ROW_LIST, t->list_effects + (row - 1) * EFFECT_WORDS);
		return 0;
	}
	from = t->zone_numbers[q->from & (MAX_ZONES - 1)];
	to = t->zone_numbers[q->to & (MAX_ZONES - 1)];
	if (q->from >= MAX_ZONES || q->to >= MAX_ZONES || from >= t->zones || to >= t->zones) {
		deny(q);
		return 0;
	}
	q->misplaced = is_misplaced(l);
	row = t->method == METHOD_TREES ? 0 : row_by_classes(l, from * t->zones + to);
	if (t->method == METHOD_TREES || question->holding)
		row = row_by_trees(l, row);
	deny(q);
	answer_with(l, row, row ? t->effects + (row - 1) * EFFECT_WORDS : default_at(t, q));
	return 0;
}

static __always_inline void take_answer(struct packet *p, const struct judge_command *q)
{
	p->row = q->row;
	p->action = q->action;
	p->slot = q->slot;
	p->extras = q->extras;
	p->mark = q->slot & MARK_SLOT;
	p->generation = q->generation;
}

/* Judges a packet that belongs to no flow: row, action, slot and generation. 0, or why it is dropped whatever they say. */
__noinline int judge_packet(struct packet *p)
{
	struct question question = {};
	struct judge_command *q = &question.command;

	if (!p)
		return REASON_NO_POLICY;
	q->family = p->family;
	q->from = p->from;
	q->to = p->to;
	q->protocol = p->protocol;
	q->selector = p->selector;
	q->source_port = p->source_port;
	for (int word = 0; word < 4; word++) {
		q->source[word] = p->source[word];
		q->destination[word] = p->destination[word];
	}
	judge_question(&question);
	take_answer(p, q);
	if (!q->generation)
		return REASON_NO_POLICY;
	return q->misplaced && settings.check_zones && !(p->flags & PACKET_FROM_SELF) ? REASON_ZONE_SOURCE : 0;
}

/* Judges a flow from one zone to another, as its first packet was: by its initiator's side, whoever sent this one. */
static __always_inline void judge_flow_to(struct packet *p, const struct flow *flow, __u8 from_zone, __u8 to_zone, const bool is_deep)
{
	__u32 from = flow->initiator & 1, to = from ^ 1;
	struct question question = { .command = { .family = family_of(flow), .from = from_zone, .to = to_zone,
						  .protocol = flow->protocol, .selector = flow->port[to],
						  .source_port = flow->port[from], .is_known = 1 } };

	flow_address(flow, from, question.command.source);
	/* Both at once take more of the stack than is left there on Linux 6.1. */
	if (is_deep)
		barrier();
	flow_address(flow, to, question.command.destination);
	judge_question(&question);
	take_answer(p, &question.command);
}

/* The same between the zones of its ends. */
static __always_inline void judge_flow(struct packet *p, const struct flow *flow, const __u8 *zones)
{
	__u32 from = flow->initiator & 1;

	judge_flow_to(p, flow, zones[from], zones[from ^ 1], false);
}

#endif
