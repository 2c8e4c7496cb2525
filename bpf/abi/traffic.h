/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Sizes and units that the generators of frames and of connections share with user space. As all of abi/, the only home of
 * these layouts: the Rust types are derived from BTF by the build (crates/traffic/build.rs). Fixed-width types only.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. Schedules use fixed point: nanoseconds << SCHEDULE_SHIFT since
 * control.start_ns, which lasts 4.8 hours and keeps a rate exact to one part in 10^7 at 15 M frames/s.
 */
#ifndef RAMPART_ABI_TRAFFIC_H
#define RAMPART_ABI_TRAFFIC_H

#include <linux/types.h>

#define MAX_CORES 64		/* generating cores and receiving cores; a power of two */
#define MAX_PORTS 256		/* zones' links of all beds that one object serves */

/* An enumeration, so that Rust has these numbers too. */
enum traffic_sizes {
	SCHEDULE_SHIFT = 20,
	/* Log-linear buckets: exact below 128 ns, then 128 a power of two, so an edge is at most 0.8 % away. */
	BUCKET_BITS = 7,
	BUCKETS = 4096,		/* up to 2^38 ns, 4 minutes; a power of two */
};

struct histogram {
	__u64 count[BUCKETS];
	__u64 sum_ns;
	__u64 min_ns;		/* 0: nothing was timed */
	__u64 max_ns;
} __attribute__((aligned(64)));

#endif
