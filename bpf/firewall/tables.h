/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The policy: from a packet to the rule that decides, by loads from one array of pages. Does exactly what
 * policy::Tables::look_up does (docs/design/tables.md). A packet asks one array, so it sees one generation; a new one takes
 * the old one's place as a whole.
 */
#ifndef RAMPART_FIREWALL_TABLES_H
#define RAMPART_FIREWALL_TABLES_H

#include <bpf/bpf_endian.h>
#include "state.h"

#define DEEPER (1u << 31)	/* policy::tables::DEEPER, and BY_PORT */
#define WHOLE 0xffffffff
#define MAX_HALVINGS 32
#define MAX_CHUNK_TURNS 4096	/* summary words and the chunks that they name, of a million rules */

struct generation {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	/* Mapped into user space it begins on a page, and so do lines of the cache; inner maps differ in size. */
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	/* Sizes, because clang does not describe types that only an inner map names. */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct table_page));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct generation);
} generations SEC(".maps");

/* A look-up under way. Once anything is not where it should be, `broken` stays set and the packet is dropped. */
struct look_up {
	void *pages;
	__u32 broken;
};

static __always_inline __u32 *words_at(struct look_up *l, __u32 at)
{
	struct table_page *page = lookup(l->pages, at / PAGE_WORDS);

	if (!page) {
		l->broken = 1;
		return 0;
	}
	return page->words;
}

static __always_inline __u32 word_at(struct look_up *l, __u32 at)
{
	__u32 *words = words_at(l, at);

	return words ? words[at & (PAGE_WORDS - 1)] : 0;
}

/* Pairs of words never lie on two pages. */
static __always_inline __u64 pair_at(struct look_up *l, __u32 at)
{
	__u32 *words = words_at(l, at);

	return words ? *(__u64 *)&words[at & (PAGE_WORDS - 2)] : 0;
}

static __always_inline __u32 class_v4(struct look_up *l, const struct address_tables *t, __u32 address)
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
static __always_inline __u32 keys_below(struct look_up *l, __u32 at, __u64 number)
{
	__u32 *words = words_at(l, at), below = 0;
	__u64 *keys;

	if (!words)
		return 1;
	keys = (__u64 *)&words[at & (PAGE_WORDS - 16)];
	for (int i = 0; i < NODE_KEYS; i++)
		below += 1 - is_less(number, keys[i]);
	return below;
}

static __always_inline __u32 class_in_64(struct look_up *l, const struct address_tables *t, __u64 low, __u32 first,
					 __u32 size)
{
	for (int i = 0; i < MAX_HALVINGS && size > 1; i++) {
		__u32 half = size / 2;

		first += half * (1 - is_less(low, pair_at(l, t->lows + (first + half) * 2)));
		size -= half;
	}
	return word_at(l, t->low_classes + first);
}

static __always_inline __u32 class_v6(struct look_up *l, const struct address_tables *t, __u64 high, __u64 low)
{
	__u32 place = 0, key = 0, leaf, start;

	for (__u32 level = 0; level < TREE_LEVELS && level < t->levels; level++) {
		key = t->level_first[level] + place * NODE_KEYS;
		/* The least key of a level is 0 or was the way here, so at least one is below; the filling is not a key. */
		place = place * NODE_KEYS + keys_below(l, t->keys + key * 2, high) - 1;
		if (place > t->level_keys[level] - 1)
			place = t->level_keys[level] - 1;
		key = t->level_first[level] + place;
	}
	leaf = t->leaves + place * 3;
	start = word_at(l, leaf + 1);
	if (start == WHOLE || pair_at(l, t->keys + key * 2) != high)
		return word_at(l, leaf);
	return class_in_64(l, t, low, start, word_at(l, leaf + 2));
}

static __always_inline __u64 host_pair(const __be32 *words)
{
	return (__u64)bpf_ntohl(words[0]) << 32 | bpf_ntohl(words[1]);
}

static __always_inline __u32 class_of(struct look_up *l, const struct address_tables *t, __u8 family, const __be32 *address)
{
	if (family == 4)
		return class_v4(l, t, bpf_ntohl(address[0]));
	return class_v6(l, t, host_pair(address), host_pair(address + 2));
}

/* The number of a single bit is where its product with this number has its upper six bits (a de Bruijn sequence). */
#define SEQUENCE 0x03f79d71b4cb0a89ull
static const __u8 bit_numbers[64] = {
	0, 1, 48, 2, 57, 49, 28, 3, 61, 58, 50, 42, 38, 29, 17, 4, 62, 55, 59, 36, 53, 51, 43, 22, 45, 39, 33, 30, 24, 18, 12, 5,
	63, 47, 56, 27, 60, 41, 37, 16, 54, 35, 52, 21, 44, 32, 23, 11, 46, 26, 40, 15, 34, 20, 31, 10, 25, 14, 19, 9, 13, 8, 7, 6,
};

/* The number of the lowest bit. Not __builtin_ctzll, which makes clang's BPF back end run out of memory. */
static __always_inline __u32 lowest_bit(__u64 word)
{
	return bit_numbers[(word & -word) * SEQUENCE >> 58];
}

struct vector_search {
	struct look_up l;
	const struct table_header *header;
	__u32 classes[3];
	__u32 word;		/* of the summaries, the next one */
	__u64 candidates;	/* chunks of the word before that */
	__u32 row;		/* found, and 1 */
	__u32 pad;
};

/* The words of a part's chunk, or null. */
static __always_inline __u64 *chunk_of(struct vector_search *s, int part, __u32 chunk)
{
	const struct table_header *t = s->header;
	__u32 block = word_at(&s->l, t->vectors[part] + s->classes[part] * t->width + chunk / BLOCK_CHUNKS);
	__u32 number = word_at(&s->l, t->chunk_blocks + block * BLOCK_CHUNKS + chunk % BLOCK_CHUNKS);
	__u32 at = t->chunks + number * CHUNK_WORDS * 2;
	__u32 *words = words_at(&s->l, at);

	return words ? (__u64 *)&words[at & (PAGE_WORDS - 16)] : 0;
}

/* The first row that all three have, and 1; or 0. */
static __always_inline __u32 first_in_chunk(struct vector_search *s, __u32 chunk)
{
	__u64 *a = chunk_of(s, 0, chunk), *b = chunk_of(s, 1, chunk), *c = chunk_of(s, 2, chunk);

	if (!a || !b || !c)
		return 0;
	for (__u32 i = 0; i < CHUNK_WORDS; i++) {
		__u64 all = a[i] & b[i] & c[i];

		if (all)
			return chunk * CHUNK_WORDS * 64 + i * 64 + lowest_bit(all) + 1;
	}
	return 0;
}

/* Looks at one more word of the summaries, or at one more chunk. 1 ends the search. */
static int search_on(__u32 turn __attribute__((unused)), struct vector_search *s)
{
	const struct table_header *t = s->header;
	__u32 chunk;

	if (s->l.broken)
		return 1;
	if (!s->candidates) {
		if (s->word >= t->summary_width)
			return 1;
		s->candidates = ~0ull;
		for (int part = 0; part < 3; part++) {
			__u32 at = s->classes[part] * t->summary_width + s->word;

			s->candidates &= pair_at(&s->l, t->summaries[part] + at * 2);
		}
		s->word++;
		return 0;
	}
	chunk = (s->word - 1) * 64 + lowest_bit(s->candidates);
	s->candidates &= s->candidates - 1;
	s->row = first_in_chunk(s, chunk);
	return s->row != 0;
}

static __always_inline __u32 row_by_vectors(struct vector_search *s)
{
	bpf_loop(MAX_CHUNK_TURNS, search_on, s, 0);
	return s->row;
}

static __always_inline __u32 entry_of(struct look_up *l, const struct block_table *t, __u32 first, __u32 second)
{
	__u32 block = word_at(l, t->directory + second / BLOCK_CLASSES * t->height + first);

	return word_at(l, t->entries + block * BLOCK_CLASSES + second % BLOCK_CLASSES);
}

static __always_inline __u32 row_by_tables(struct look_up *l, const struct table_header *t, const __u32 *classes)
{
	__u32 a = t->order[0], b = t->order[1], c = t->order[2], both;

	if (a > 2 || b > 2 || c > 2) {
		l->broken = 1;
		return 0;
	}
	if (t->method == METHOD_BLOCKS) {
		both = entry_of(l, &t->blocks[0], classes[a], classes[b]);
		return entry_of(l, &t->blocks[1], both, classes[c]);
	}
	both = word_at(l, t->first + classes[a] * t->first_columns + classes[b]);
	return word_at(l, t->last + both * t->last_columns + classes[c]);
}

static __always_inline __u32 service_class(struct look_up *l, const struct table_header *t, __u8 protocol, __u16 selector)
{
	__u32 entry = word_at(l, t->protocols + protocol);

	if (!(entry & DEEPER))
		return entry;
	return word_at(l, t->ports + ((entry & ~DEEPER) << 16 | selector));
}

/* The zones of the last start that is not above an address, by halving; the first start is the least address. */
static __always_inline __u64 zones_v4(struct look_up *l, const struct table_header *t, __u32 address)
{
	__u32 first = 0, size = t->zones_v4_count;

	for (int i = 0; i < MAX_HALVINGS && size > 1; i++) {
		__u32 half = size / 2;

		first += half * (1 - is_less(address, word_at(l, t->zones_v4 + (first + half) * 4)));
		size -= half;
	}
	return size ? pair_at(l, t->zones_v4 + first * 4 + 2) : 0;
}

static __always_inline __u64 zones_v6(struct look_up *l, const struct table_header *t, __u64 high, __u64 low)
{
	__u32 first = 0, size = t->zones_v6_count;

	for (int i = 0; i < MAX_HALVINGS && size > 1; i++) {
		__u32 half = size / 2, at = t->zones_v6 + (first + half) * 8;
		__u64 start = pair_at(l, at), above = is_less(high, start), below = is_less(start, high);

		first += half * (below | (1 - (above | is_less(low, pair_at(l, at + 2)))));
		size -= half;
	}
	return size ? pair_at(l, t->zones_v6 + first * 8 + 4) : 0;
}

/* Whether an address lives in other zones and not in this one, as far as zones say who lives there. */
static __always_inline int is_misplaced(struct look_up *l, const struct table_header *t, const struct judge_command *q)
{
	__u64 zones = q->family == 4 ? zones_v4(l, t, bpf_ntohl(q->source[0]))
				     : zones_v6(l, t, host_pair(q->source), host_pair(q->source + 2));

	return zones && !(zones >> (q->from & 63) & 1);
}

/* Fills in the answer: a denial unless the tables say otherwise. Its generation is 0 when there is no policy. */
__noinline int judge_question(struct judge_command *q)
{
	struct vector_search s = {};
	struct look_up *l = &s.l;
	struct table_header *t;
	__u32 from, to, pair, at, row, *effect;

	if (!q)
		return 0;
	q->generation = 0;
	l->pages = lookup(&generations, 0);
	if (!l->pages)
		return 0;
	t = lookup(l->pages, 0);
	if (!t || !t->generation)
		return 0;
	/* A zone that this policy does not know any more: denied. */
	q->generation = t->generation;
	q->row = 0;
	q->action = ACTION_DENY;
	q->slot = NO_SLOT;
	q->extras = 0;
	from = t->zone_numbers[q->from & (MAX_ZONES - 1)];
	to = t->zone_numbers[q->to & (MAX_ZONES - 1)];
	if (q->from >= MAX_ZONES || q->to >= MAX_ZONES || from >= t->zones || to >= t->zones)
		return 0;
	s.header = t;
	q->misplaced = is_misplaced(l, t, q);
	pair = from * t->zones + to;
	at = word_at(l, t->pairs + pair) * t->services + service_class(l, t, q->protocol, bpf_ntohs(q->selector));
	s.classes[0] = class_of(l, &t->field[0], q->family, q->source);
	s.classes[1] = class_of(l, &t->field[1], q->family, q->destination);
	s.classes[2] = word_at(l, t->pair_service + at);
	row = t->method == METHOD_VECTORS ? row_by_vectors(&s) : row_by_tables(l, t, s.classes);
	at = row ? t->effects + (row - 1) * 4 : t->defaults + pair * 4;
	effect = words_at(l, at);
	if (!effect || l->broken)
		return 0;
	q->row = row;
	q->action = effect[at & (PAGE_WORDS - 4)];
	q->slot = effect[(at & (PAGE_WORDS - 4)) + 1];
	q->extras = effect[(at & (PAGE_WORDS - 4)) + 2];
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
	struct judge_command q = {};

	if (!p)
		return REASON_NO_POLICY;
	q.family = p->family;
	q.from = p->from;
	q.to = p->to;
	q.protocol = p->protocol;
	q.selector = p->selector;
	for (int word = 0; word < 4; word++) {
		q.source[word] = p->source[word];
		q.destination[word] = p->destination[word];
	}
	judge_question(&q);
	take_answer(p, &q);
	if (!q.generation)
		return REASON_NO_POLICY;
	return q.misplaced && settings.check_zones && !(p->flags & PACKET_FROM_SELF) ? REASON_ZONE_SOURCE : 0;
}

/* Judges a flow again, as its first packet was: by its opener's side, whoever sent this one. */
static __always_inline void judge_flow(struct packet *p, const struct flow *flow)
{
	__u32 from = flow->initiator & 1, to = from ^ 1;
	struct judge_command q = { .family = flow->family, .from = flow->zone[from], .to = flow->zone[to],
				   .protocol = flow->protocol, .selector = flow->port[to] };

	for (int word = 0; word < 4; word++) {
		q.source[word] = flow->address[from][word];
		q.destination[word] = flow->address[to][word];
	}
	judge_question(&q);
	take_answer(p, &q);
}

#endif
