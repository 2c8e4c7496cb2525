// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Looks for structured differences of two flows' ends at which the firewall's hash (bpf/firewall/hash.h) collides more often than
 * chance, over random secrets: in its lower half, where the bucket is taken from, in its upper half, which is the tag, and in all.
 * And for a word of the secret that moves no flow.
 *
 *   hash [SEED]    prints what it found; exit status 1 when a difference collides too often, or structured flows crowd
 *
 * scripts/fuzz-native builds it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bpf/bpf_helpers.h"
#include "../../bpf/abi/firewall.h"

static __u64 secret[HASH_SECRETS];
#include "../../bpf/firewall/hash.h"

#define SECRETS 64	/* random ones for each difference */
#define BASES 64	/* random flows for each of these */
#define PART_BITS 16	/* of each half that are compared: chance is one in 65,536 */
#define MOST_HITS 8	/* of 4,096; by chance one difference in 10^15 has more */
#define END_WORDS 10	/* two addresses, ports, protocol and family */

static __u64 state = 1;
static __u32 differences, faults;

/* SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014 */
static __u64 any(void)
{
	__u64 z = state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static void any_secret(void)
{
	for (int i = 0; i < HASH_SECRETS; i++)
		secret[i] = any();
}

/* Of words: address a, address b, ports; the last is left alone. */
static __u64 hash_of_words(__u8 family, const __u32 *w)
{
	return hash_ends(family, 17, w, w[8] >> 16, w + 4, w[8]);
}

/* What limits and fragments are found by. */
static __u64 chain_of_words(const __u32 *w)
{
	return mix(mix_address(mix_address(secret[0], w), w + 4), w[8]);
}

enum way { WAY_IPV6, WAY_IPV4, WAY_CHAIN, WAYS };

static __u64 hash_by(enum way way, const __u32 *w)
{
	return way == WAY_CHAIN ? chain_of_words(w) : hash_of_words(way == WAY_IPV4 ? 4 : 6, w);
}

static int is_seen(enum way way, int word)
{
	return way != WAY_IPV4 || word % 4 == 0;
}

static void check_count(const char *what, enum way way, const __u32 *difference, __u32 hits, __u32 most)
{
	if (hits <= most)
		return;
	faults++;
	printf("%s collides %u of %u times, way %d:", what, hits, SECRETS * BASES, way);
	for (int i = 0; i < END_WORDS - 1; i++)
		printf(" %08x", difference[i]);
	printf("\n");
}

static void try(enum way way, const __u32 *difference)
{
	__u32 low = 0, high = 0, all = 0, mask = (1 << PART_BITS) - 1;

	for (int i = 0; i < END_WORDS - 1; i++)
		if (difference[i] && !is_seen(way, i))
			return;
	differences++;
	for (int s = 0; s < SECRETS; s++) {
		any_secret();
		for (int b = 0; b < BASES; b++) {
			__u32 one[END_WORDS], other[END_WORDS];
			__u64 h, g;

			for (int i = 0; i < END_WORDS; i++) {
				one[i] = any();
				/* By exclusive or, and by addition. */
				other[i] = b & 1 ? one[i] ^ difference[i] : one[i] + difference[i];
			}
			h = hash_by(way, one);
			g = hash_by(way, other);
			low += !((h ^ g) & mask);
			high += !((h ^ g) >> 32 & mask);
			all += h == g;
		}
	}
	check_count("the lower half", way, difference, low, MOST_HITS);
	check_count("the upper half", way, difference, high, MOST_HITS);
	check_count("the hash", way, difference, all, 0);
}

/* One bit; the same bits in two words, in two pairs of words, in all; both ends of words. */
static void try_differences(enum way way)
{
	static const __u32 patterns[] = { 1u << 31, 3u << 30, 0xffffffff, 0xffff0000, 0x80000001, 0x01000000, 0x00010001, 0xa5a5a5a5 };
	__u32 d[END_WORDS] = {};

	for (int i = 0; i < END_WORDS - 1; i++)
		for (int j = i; j < END_WORDS - 1; j++)
			for (__u32 p = 0; p < 32 + sizeof(patterns) / 4; p++) {
				__u32 bits = p < 32 ? 1u << p : patterns[p - 32];

				d[i] = d[j] = bits;
				try(way, d);
				/* As a product of 64 bits carries it into the next step. */
				d[j] = bits >> 31 | bits << 1;
				try(way, d);
				/* The opposite, which cancels in sums. */
				d[j] = -bits;
				if (i != j)
					try(way, d);
				d[i] = d[j] = 0;
			}
	for (__u32 p = 0; p < sizeof(patterns) / 4; p++) {
		for (int i = 0; i < END_WORDS - 1; i++)
			d[i] = is_seen(way, i) ? patterns[p] : 0;
		try(way, d);
	}
}

/* Flows of neighbouring hosts and ports, two to a bucket on the average: how many find their bucket full. */
static void try_crowd(enum way way, __u32 host_step, __u32 port_step)
{
	static __u8 buckets[1 << 15];
	__u32 full = 0;

	any_secret();
	memset(buckets, 0, sizeof(buckets));
	for (__u32 host = 0; host < 256; host++)
		for (__u32 port = 0; port < 256; port++) {
			__u32 w[END_WORDS] = { 0x0100000a, 0, 0, host * host_step, 0x0200000a, 0, 0, 0, port * port_step << 16 | 80 };

			if (way == WAY_IPV4)
				w[0] += host * host_step;
			full += ++buckets[hash_by(way, w) & 0x7fff] > BUCKET_SLOTS;
		}
	/* 50 are to be expected; the variance is below twice that. */
	if (full > 150) {
		faults++;
		printf("%u of 65,536 flows find a full bucket, way %d, steps %u and %u\n", full, way, host_step, port_step);
	}
}

/* Whether a way to hash uses a word of the secret. */
static int is_used(enum way way, int word)
{
	if (way == WAY_CHAIN)
		return word == 0 || word == HASH_LOW || word == HASH_HIGH || word == HASH_LAST;
	return (way == WAY_IPV6 && word < COOKIE_KEY) || word <= 4 || word == HASH_LAST;
}

/* Another word in the secret, and flows are elsewhere: who knows a word of it, or all, cannot say where. */
static void try_secret(enum way way, int word)
{
	__u32 low = 0, high = 0, mask = (1 << PART_BITS) - 1;

	for (int i = 0; i < SECRETS * BASES; i++) {
		__u32 w[END_WORDS];
		__u64 h, g;

		any_secret();
		for (int j = 0; j < END_WORDS; j++)
			w[j] = any();
		h = hash_by(way, w);
		secret[word] = any();
		g = hash_by(way, w);
		low += !((h ^ g) & mask);
		high += !((h ^ g) >> 32 & mask);
	}
	if (low <= MOST_HITS && high <= MOST_HITS)
		return;
	faults++;
	printf("word %d of the secret moves no flow, way %d\n", word, way);
}

int main(int count, char **arguments)
{
	static const __u32 steps[] = { 1, 2, 256, 65536, 1 << 24 };

	state = count > 1 ? strtoull(arguments[1], 0, 10) : 1;
	for (enum way way = 0; way < WAYS; way++) {
		try_differences(way);
		for (int word = 0; word < HASH_SECRETS; word++)
			if (is_used(way, word))
				try_secret(way, word);
		for (int i = 0; i < 5; i++)
			for (int j = 0; j < 3; j++)
				try_crowd(way, steps[i], steps[j]);
	}
	printf("%u differences, %u faults\n", differences, faults);
	return faults != 0;
}
