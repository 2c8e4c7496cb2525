/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The number with which the firewall answers a SYN in a server's name: a cookie (RFC 4987 section 3.6), from which everything that is known of
 * the SYN comes back with the client's acknowledgement. Nothing is kept of a SYN.
 *
 *     cookie = client's first number + (half << 31 | (SipHash-2-4(key, ends, slot) + options) mod 2^31)
 *
 * A slot is 2^COOKIE_SLOT_SHIFT ticks, 69 seconds, and a cookie is good in its own and in the next, which is what `half` tells apart: with
 * the slot in it, the hash is under a key of its own in each. The options are the class of the maximum segment size, the window scale, and
 * whether the client has SACK and timestamps: 512 of 2^31 numbers are cookies, as are those that a probe of a shut window shows, which is of one
 * number less. Who guesses is right once in 2^22 times; if what he guesses says that there are timestamps, the upper half of the
 * hash was sent as one, and must be echoed.
 */
#ifndef RAMPART_FIREWALL_COOKIE_H
#define RAMPART_FIREWALL_COOKIE_H

#include "packet.h"
#include "state.h"

#define COOKIE_SLOT_SHIFT 16
#define COOKIE_BITS 0x7fffffff
#define COOKIE_NUMBERS 512	/* options, and whether it comes with a probe */
#define NO_SCALE 15		/* in the place of a window scale */
#define MSS_CLASSES 4

struct sip {
	__u64 a, b, c, d;
};

static __always_inline __u64 rotated(__u64 word, __u32 by)
{
	return word << by | word >> (64 - by);
}

/* Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012), section 2. */
static __always_inline void sip_round(struct sip *s)
{
	s->a += s->b;
	s->c += s->d;
	s->b = rotated(s->b, 13) ^ s->a;
	s->d = rotated(s->d, 16) ^ s->c;
	s->a = rotated(s->a, 32);
	s->c += s->b;
	s->a += s->d;
	s->b = rotated(s->b, 17) ^ s->c;
	s->d = rotated(s->d, 21) ^ s->a;
	s->c = rotated(s->c, 32);
}

static __always_inline void sip_begin(struct sip *s)
{
	s->a = secret[COOKIE_KEY] ^ 0x736f6d6570736575ULL;
	s->b = secret[COOKIE_KEY + 1] ^ 0x646f72616e646f6dULL;
	s->c = secret[COOKIE_KEY] ^ 0x6c7967656e657261ULL;
	s->d = secret[COOKIE_KEY + 1] ^ 0x7465646279746573ULL;
}

static __always_inline void sip_word(struct sip *s, __u64 word)
{
	s->d ^= word;
	sip_round(s);
	sip_round(s);
	s->a ^= word;
}

static __always_inline __u64 sip_end(struct sip *s)
{
	s->c ^= 0xff;
	for (int i = 0; i < 4; i++)
		sip_round(s);
	return s->a ^ s->b ^ s->c ^ s->d;
}

static __always_inline __u64 pair_of(__be32 a, __be32 b)
{
	return (__u64)a << 32 | b;
}

/* Of the ends that a packet's header names, in a slot. */
__noinline __u64 cookie_hash(struct packet *p, __u32 slot)
{
	struct sip s;

	if (!p)
		return 0;
	sip_begin(&s);
	sip_word(&s, pair_of(p->source[0], p->destination[0]));
	sip_word(&s, pair_of((__u32)p->source_port << 16 | p->destination_port, slot));
	if (p->family == 6) {
		sip_word(&s, pair_of(p->source[1], p->source[2]));
		sip_word(&s, pair_of(p->source[3], p->destination[1]));
		sip_word(&s, pair_of(p->destination[2], p->destination[3]));
	}
	/* How many bytes there were ends the input, as in the paper. */
	sip_word(&s, (p->family == 6 ? 40ULL : 16ULL) << 56);
	return sip_end(&s);
}

static __always_inline __u32 cookie_slot(const struct packet *p)
{
	return tick_of(p->era, p->tick) >> COOKIE_SLOT_SHIFT;
}

/* The segment sizes that a cookie tells apart. IPv4: RFC 9293 section 3.7.1's least, that of IPv6's least MTU, of tunnels, of Ethernet. */
static __always_inline __u16 mss_of_class(__u8 family, __u32 class)
{
	if (family == 4)
		return class == 0 ? 536 : class == 1 ? 1220 : class == 2 ? 1400 : 1460;
	return class == 0 ? 1220 : class == 1 ? 1360 : class == 2 ? 1420 : 1440;
}

/* The greatest class that is not more than what a client takes. */
static __always_inline __u32 class_of_mss(__u8 family, __u16 mss)
{
	__u32 class = 0;

	for (__u32 i = 1; i < MSS_CLASSES; i++)
		if (mss >= mss_of_class(family, i))
			class = i;
	return class;
}

/* What a cookie says of a SYN's options, in eight bits. */
static __always_inline __u32 cookie_options(__u32 mss_class, __u32 scale, bool has_sack, bool has_stamps)
{
	return mss_class << 6 | (scale & 15) << 2 | has_sack << 1 | has_stamps;
}

static __always_inline __u32 cookie_of(__u64 hash, __u32 slot, __u32 first, __u32 options)
{
	return first + ((slot & 1) << 31 | (((__u32)hash + options * 2) & COOKIE_BITS));
}

#endif
