/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The stamp in each test frame: written by the generator, judged by the sink. */
#ifndef RAMPART_TRAFFIC_STAMP_H
#define RAMPART_TRAFFIC_STAMP_H

#include "../abi/traffic.h"

/* Every 64th frame of a stream has its filling written afresh by the generator and compared by the sink. */
#define CONTENT_MASK 63

static __always_inline __u64 stamp_who(__u16 mark, __u8 core, __u8 lane, __u8 mix, __u8 sampled, __u64 now)
{
	return (__u64)mark | (__u64)core << 16 | (__u64)lane << 24 | (__u64)mix << 32 | (__u64)sampled << 40 |
	       (now >> 32) << 48;
}

static __always_inline __u64 stamp_what(__u32 sequence, __u64 now)
{
	return (__u64)sequence | now << 32;
}

static __always_inline __u16 stamp_mark(__u64 who) { return who; }
static __always_inline __u8 stamp_core(__u64 who) { return who >> 16; }
static __always_inline __u8 stamp_lane(__u64 who) { return who >> 24; }
static __always_inline __u8 stamp_mix(__u64 who) { return who >> 32; }
static __always_inline __u8 stamp_sampled(__u64 who) { return who >> 40; }
static __always_inline __u32 stamp_sequence(__u64 what) { return what; }

/* The low 48 bits of the send time in ns. */
static __always_inline __u64 stamp_sent(__u64 who, __u64 what)
{
	return (who >> 48) << 32 | what >> 32;
}

/* A multiplicative mix; a flipped bit anywhere in the stamp changes the check with probability 1 - 2^-16. */
static __always_inline __u16 stamp_check(__u64 who, __u64 what)
{
	return ((who * 0x9e3779b97f4a7c15ULL) ^ (what * 0xc2b2ae3d27d4eb4fULL)) >> 48;
}

static __always_inline __u32 word_sum(__u64 word)
{
	return (word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32 & 0xffff) + (word >> 48);
}

#endif
