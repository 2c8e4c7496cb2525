/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Proofs: 16 letters in a request and in an answer that only the two ends can write, because they are scrambled with keys
 * that user space draws anew for each run. A request's proof holds the connection's number and a number of the request, so
 * that the server knows who asks and that it was the client; an answer's proof is made from the same two under other
 * keys, so that nobody between can answer a request, nor give an answer to another one.
 */
#ifndef RAMPART_TRAFFIC_TCP_PROOF_H
#define RAMPART_TRAFFIC_TCP_PROOF_H

#include <stdbool.h>
#include "segment.h"

/* Odd numbers with well mixed bits, and their inverses modulo 2^64. */
#define PROOF_FACTOR_1 0x9fb21c651e98df25ULL
#define PROOF_FACTOR_2 0xd6e8feb86659fd93ULL
#define PROOF_INVERSE_1 0x02ab9c720d1024adULL
#define PROOF_INVERSE_2 0xcfee444d8b59a89bULL
#define PROOF_NUMBER_STEP 0x9e3779b1U

/* One to one, so that unscramble() finds what was scrambled. */
static __always_inline __u64 scramble(__u64 value, const __u64 *keys)
{
	value = (value ^ keys[0]) * PROOF_FACTOR_1;
	value ^= value >> 32;
	value = (value + keys[1]) * PROOF_FACTOR_2;
	return value ^ value >> 32;
}

static __always_inline __u64 unscramble(__u64 value, const __u64 *keys)
{
	value ^= value >> 32;
	value = value * PROOF_INVERSE_2 - keys[1];
	value ^= value >> 32;
	return (value * PROOF_INVERSE_1) ^ keys[0];
}

/* What a request asks with: the upper byte is zero, because there are fewer than 2^24 connections. The number differs from
 * request to request, and, as initial sequence numbers do, from use to use of a tuple. */
static __always_inline __u64 asked(__u32 slot, const struct connection *c)
{
	return (__u64)slot << 32 | (__u32)(c->isn + c->done * PROOF_NUMBER_STEP);
}

/* Eight letters, a to p, for 32 bits. */
static __always_inline __u64 letters(__u32 bits)
{
	__u64 value = bits;

	value = (value | value << 16) & 0x0000ffff0000ffffULL;
	value = (value | value << 8) & 0x00ff00ff00ff00ffULL;
	value = (value | value << 4) & 0x0f0f0f0f0f0f0f0fULL;
	return value + 0x6161616161616161ULL;
}

/* The bits of eight letters; of other bytes, bits whose letters are not these bytes. */
static __always_inline __u32 bits_of(__u64 value)
{
	value = (value - 0x6161616161616161ULL) & 0x0f0f0f0f0f0f0f0fULL;
	value = (value | value >> 4) & 0x00ff00ff00ff00ffULL;
	value = (value | value >> 8) & 0x0000ffff0000ffffULL;
	return value | value >> 16;
}

struct proof {
	__u64 words[2];
};

static __always_inline struct proof spell(__u64 proof)
{
	struct proof made = { { letters(proof >> 32), letters(proof) } };

	return made;
}

static __always_inline bool same_proof(const struct proof *a, const struct proof *b)
{
	return ((a->words[0] ^ b->words[0]) | (a->words[1] ^ b->words[1])) == 0;
}

/* What a proof adds to a checksum: its offset is even. */
static __always_inline __u32 proof_sum(const struct proof *proof)
{
	return checksum_long(proof->words[0]) + checksum_long(proof->words[1]);
}

/* Whether the bytes from `offset` of a message have the whole of its proof. */
static __always_inline bool has_proof(__u32 proof_at, __u32 offset, __u32 bytes)
{
	__u32 behind = proof_at - offset;

	return bytes >= PROOF_BYTES && behind <= bytes - PROOF_BYTES;
}

/* Puts a proof into the frame in hand. */
static __always_inline int put_proof(struct xdp_md *ctx, __u32 at, const struct proof *proof)
{
	__u64 *place = (void *)(long)ctx->data + (at & 0x7ff);

	if ((void *)(place + 2) > (void *)(long)ctx->data_end)
		return -1;
	place[0] = proof->words[0];
	place[1] = proof->words[1];
	return 0;
}

/* Takes a proof out of the frame in hand, which is compared with the plan's message then: that one has zeros there. */
static __always_inline int take_proof(struct xdp_md *ctx, __u32 at, struct proof *found)
{
	__u64 *place = (void *)(long)ctx->data + (at & 0x7ff);

	if ((void *)(place + 2) > (void *)(long)ctx->data_end)
		return -1;
	found->words[0] = place[0];
	found->words[1] = place[1];
	place[0] = 0;
	place[1] = 0;
	return 0;
}

#endif
