/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Comparisons by arithmetic, for loops over entries: the verifier would follow each outcome of each comparison of each entry. The barriers keep
 * the compiler from comparing after all.
 */
#ifndef RAMPART_FIREWALL_ARITHMETIC_H
#define RAMPART_FIREWALL_ARITHMETIC_H

#include <bpf/bpf_helpers.h>
#include <linux/types.h>

static __always_inline __u64 is_zero(__u64 number)
{
	number |= -number;
	barrier_var(number);
	number = number >> 63 ^ 1;
	barrier_var(number);
	return number;
}

/* Of numbers below 2^63. */
static __always_inline __u64 is_smaller(__u64 a, __u64 b)
{
	a -= b;
	barrier_var(a);
	a >>= 63;
	barrier_var(a);
	return a;
}

/* By multiplication, because of a mask the newest verifiers follow both values. */
static __always_inline __u64 choose(__u64 condition, __u64 yes, __u64 no)
{
	barrier_var(condition);
	return no + (yes - no) * condition;
}

#endif
