/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The Internet checksum (RFC 1071). Sums are kept as 32 bits over 16-bit words in network byte order as loaded. */
#ifndef RAMPART_NET_CHECKSUM_H
#define RAMPART_NET_CHECKSUM_H

#include <stdbool.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

static __always_inline __u16 checksum_fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static __always_inline __u32 checksum_word(__u32 word)
{
	return (word & 0xffff) + (word >> 16);
}

/*
 * Any 64 bits as 18 bits of the same sum: four words as loaded, or a sum of 32-bit words, which is cheaper to add up than one of
 * 16-bit words. Their place does not matter, because 2^16 and 2^32 are 1 in one's complement.
 */
static __always_inline __u32 checksum_long(__u64 word)
{
	word = (__u32)word + (word >> 32);
	return (__u32)(word & 0xffff) + (__u32)(word >> 16);
}

/* Whether an unfolded sum is the folded one; 0 and 0xffff are the same number in one's complement. */
static __always_inline bool checksum_same(__u32 sum, __u16 folded)
{
	__u16 difference = checksum_fold(sum) ^ (__u16)~folded;

	return difference == 0 || difference == 0xffff;
}

#endif
