/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Hashes with a secret. Every word of 32 bits is multiplied by a secret of its own, of 64 bits, before it meets another word, and
 * the sum is mixed at the end: multiply-shift hashing (Dietzfelbinger, "Universal hashing and k-wise independent random variables
 * via integer arithmetic without primes", 1996). Whatever two inputs are chosen without knowing the secret, their sums agree
 * for one secret in 2^33 at most. Words that are combined before they meet the secret can be made to cancel each other, for
 * every secret.
 *
 * Needs __u64 secret[HASH_SECRETS]. fuzz/native/hash.c looks for differences that collide.
 */
#ifndef RAMPART_FIREWALL_HASH_H
#define RAMPART_FIREWALL_HASH_H

/* The multipliers of the two halves of a word of 64 bits in mix(). */
#define HASH_LOW 1
#define HASH_HIGH 2
#define HASH_LAST (HASH_SECRETS - 1)

/* Spreads every bit of a sum over all of a hash. Loses nothing: the factor is odd. */
static __always_inline __u64 hash_finish(__u64 sum)
{
	sum ^= sum >> 32;
	sum *= secret[HASH_LAST] | 1;
	return sum ^ sum >> 32;
}

/* One word after the other, for what is not in the way of every packet. */
static __always_inline __u64 mix(__u64 h, __u64 word)
{
	return hash_finish(h + (__u32)word * secret[HASH_LOW] + (word >> 32) * secret[HASH_HIGH]);
}

static __always_inline __u64 mix_address(__u64 h, const __be32 *address)
{
	return mix(mix(h, (__u64)address[0] << 32 | address[1]), (__u64)address[2] << 32 | address[3]);
}

/* The same for both directions: of the ends in their order. An IPv4 address is the first word of four. */
static __always_inline __u64 hash_ends(__u8 family, __u8 protocol, const __be32 *a, __be16 a_port, const __be32 *b,
				       __be16 b_port)
{
	__u64 sum = secret[0];

	sum += secret[1] * a[0] + secret[2] * b[0];
	sum += secret[3] * ((__u32)a_port << 16 | b_port) + secret[4] * ((__u32)protocol << 8 | family);
	if (family == 6) {
		sum += secret[5] * a[1] + secret[6] * a[2] + secret[7] * a[3];
		sum += secret[8] * b[1] + secret[9] * b[2] + secret[10] * b[3];
	}
	return hash_finish(sum);
}

#endif
