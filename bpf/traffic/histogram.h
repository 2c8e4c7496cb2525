/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Log-linear histograms of times in ns; the bucket limits are computed again in crates/traffic/src/harness/histogram.rs,
 * where a test runs both over the same values. */
#ifndef RAMPART_TRAFFIC_HISTOGRAM_H
#define RAMPART_TRAFFIC_HISTOGRAM_H

#include <bpf/bpf_helpers.h>
#include "../abi/traffic.h"

/* Position of the highest set bit. By halves: clang's BPF back end handles __builtin_clzll badly. */
static __always_inline __u32 highest_bit(__u64 value)
{
	__u32 bit = 0;

	if (value >> 32) { bit += 32; value >>= 32; }
	if (value >> 16) { bit += 16; value >>= 16; }
	if (value >> 8) { bit += 8; value >>= 8; }
	if (value >> 4) { bit += 4; value >>= 4; }
	if (value >> 2) { bit += 2; value >>= 2; }
	if (value >> 1) bit += 1;
	return bit;
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
