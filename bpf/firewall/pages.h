/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A generation of the policy's tables as an array of pages, and a question to it with the state of its look-up. What the pages hold, and
 * how a look-up goes through them, is in tables.h and trees.h.
 */
#ifndef RAMPART_FIREWALL_PAGES_H
#define RAMPART_FIREWALL_PAGES_H

#include <bpf/bpf_endian.h>
#include "state.h"

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

static __noinline void *current_pages(void)
{
	return lookup(&generations, 0);
}

static __noinline const struct table_header *header_of(void *pages)
{
	return lookup(pages, 0);
}

/* Searches, whose steps bpf_loop() takes, because the verifier would follow the turns of a loop one by one. */

/* What is searched for by halving: the last start that is not above it. The first start is the least number. */
enum halved {
	HALVED_LOW = 0,		/* the lower half of an IPv6 address, of source or destination, among pairs of words */
	HALVED_LOW_DESTINATION = 1,
	HALVED_V4 = 2,		/* the source among struct zone_start */
	HALVED_V6 = 3,
};

struct halving {
	__u32 at;		/* of the starts */
	__u32 first;		/* the least that it may be */
	__u32 size;		/* how many it may be */
	__u32 what;		/* enum halved */
};

/* Down the tree of a field's IPv6 addresses. */
struct descent {
	__u32 field;		/* 0: source, 1: destination */
	__u32 place;
	__u32 key;		/* the place's, among all keys */
};

/* For the first row that three vectors have in common. */
struct vector_search {
	__u64 candidates;	/* chunks of the word before the next */
	__u32 word;		/* of the summaries, the next one */
	__u32 row;		/* found, and 1 */
};

/* For the first row in some series of trees. */
struct tree_search {
	__u32 line;
	__u16 kind;		/* enum tree_line */
	__u16 trees;		/* of the series, from this one on */
	__u32 root;		/* of this tree; those of a series lie one after the other */
	__u32 found;		/* the best row so far, or NO_ROW */
};

/* Among the entries of a block, or the starts of IPv6, for the last one that is not above an address. */
struct list_search {
	__u32 at;		/* of all entries or starts */
	__u32 first;		/* the least that it may be */
	__u32 size;		/* how many it may be */
	__u32 key;		/* of an entry, the greatest that it may be; of a start, 0: the source is looked for, 1: the destination */
};

/*
 * A question and how far its look-up is. What changes is here and never beside the pointers in struct look_up, because the verifier
 * does not keep in mind what is in memory that a function was given: if it did, it would follow every load with and without its
 * page, and every turn of a search, through all that comes after.
 */
struct question {
	union {
		struct judge_command command;
		struct {
			__u8 asked[__builtin_offsetof(struct judge_command, row)];
			/*
			 * Numbers of struct listed_series whose lists have the ends, and which are yet to be searched. In the place of row and
			 * action, which are answers: the stack is short.
			 */
			__u64 holding;
		};
	};
	union {
		__u32 classes[3];	/* of source, destination and service: tables by classes */
		__u32 zones[2];		/* from and to, as the policy numbers them: trees */
		__u32 listed[2];	/* the lists that have source and destination: before the others */
	};
	__u32 broken;		/* a table led to where nothing is: the packet is dropped */
	/* One search at a time: the stack is short. */
	union {
		struct halving halving;
		struct descent descent;
		struct vector_search vectors;
		struct tree_search trees;
		struct list_search lists;
	};
};

_Static_assert(__builtin_offsetof(struct question, holding) == __builtin_offsetof(struct question, command.row), "it is aligned");

struct look_up {
	void *pages;
	const struct table_header *header;
	struct question *question;
};

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

static __always_inline __u64 host_pair(const __be32 *words)
{
	return (__u64)bpf_ntohl(words[0]) << 32 | bpf_ntohl(words[1]);
}

/* A half of the IPv6 address of a field. */
static __always_inline __u64 half_of(const struct question *q, __u32 field, __u32 half)
{
	return host_pair((field ? q->command.destination : q->command.source) + half * 2);
}

static __noinline const struct table_page *page_of(void *pages, __u32 at)
{
	return lookup(pages, at / PAGE_WORDS);
}

/* So many words at a place of a policy's pages, a power of two that never lies on two of them; or null. */
static __always_inline const void *row_at(void *pages, __u32 at, __u32 words)
{
	const struct table_page *page = page_of(pages, at);

	return page ? &page->words[at & (PAGE_WORDS - words)] : 0;
}

/* The same where no function can be called any more. */
static __always_inline const void *row_here(void *pages, __u32 at, __u32 words)
{
	const struct table_page *page = lookup(pages, at / PAGE_WORDS);

	return page ? &page->words[at & (PAGE_WORDS - words)] : 0;
}

/* In the place of a page that is not there the header is read. */
static __always_inline const __u32 *words_at(const struct look_up *l, __u32 at)
{
	const struct table_page *page = lookup(l->pages, at / PAGE_WORDS);

	if (!page) {
		l->question->broken = 1;
		page = (const void *)l->header;
	}
	return page->words;
}

static __always_inline __u32 word_at(const struct look_up *l, __u32 at)
{
	return words_at(l, at)[at & (PAGE_WORDS - 1)];
}

/* Pairs of words never lie on two pages. */
static __always_inline __u64 pair_at(const struct look_up *l, __u32 at)
{
	return *(const __u64 *)&words_at(l, at)[at & (PAGE_WORDS - 2)];
}

#endif
