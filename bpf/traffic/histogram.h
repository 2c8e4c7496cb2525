/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Log-linear histograms of times in ns; the bucket limits are computed again in crates/traffic/src/harness/histogram.rs,
 * where a test runs both over the same values. */
#ifndef RAMPART_TRAFFIC_HISTOGRAM_H
#define RAMPART_TRAFFIC_HISTOGRAM_H

#include <bpf/bpf_helpers.h>
#include "../abi/traffic.h"

/* Halves what is left to search: whether there is a bit above the lower ones. By arithmetic, because the verifier would follow both outcomes. */
static __always_inline __u32 upper_half(__u64 *value, __u32 bits)
{
	__u64 is_upper = -(*value >> bits);

	barrier_var(is_upper);
	is_upper >>= 63;
	barrier_var(is_upper);
	*value >>= is_upper * bits;
	return is_upper * bits;
}

/* Position of the highest set bit. By halves: clang's BPF back end handles __builtin_clzll badly. */
static __always_inline __u32 highest_bit(__u64 value)
{
	__u32 bit = upper_half(&value, 32);

	bit += upper_half(&value, 16);
	bit += upper_half(&value, 8);
	bit += upper_half(&value, 4);
	bit += upper_half(&value, 2);
	return bit + upper_half(&value, 1);
}

/* Always below BUCKETS. */
static __always_inline __u32 bucket_of(__u64 ns)
{
	__u32 bucket = ns, exponent;

	if (ns >= (1 << BUCKET_BITS)) {
		exponent = highest_bit(ns);
		bucket = ((exponent - BUCKET_BITS + 1) << BUCKET_BITS) |
			 ((ns >> (exponent - BUCKET_BITS)) & ((1 << BUCKET_BITS) - 1));
		if (exponent > 37)
			bucket = BUCKETS - 1;
	}
	/* The compiler may not use what it knows here: the verifier must see the bound. */
	barrier_var(bucket);
	return bucket & (BUCKETS - 1);
}

static __always_inline void record(struct histogram *histogram, __u64 ns)
{
	histogram->count[bucket_of(ns)]++;
	histogram->sum_ns += ns;
	if (ns < histogram->min_ns || histogram->min_ns == 0)
		histogram->min_ns = ns;
	if (ns > histogram->max_ns)
		histogram->max_ns = ns;
}

#endif
