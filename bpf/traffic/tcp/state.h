/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The maps and global state of the TCP client and server. */
#ifndef RAMPART_TRAFFIC_TCP_STATE_H
#define RAMPART_TRAFFIC_TCP_STATE_H

#include "../../abi/tcp.h"
#include "../../net/once.h"
#include "../generator.h"
#include "../histogram.h"
#include "segment.h"

struct deferred_frame {
	struct segment segment;
	__u32 port;
	__u32 pad;
};

struct tcp_control control;
struct tcp_core cores[MAX_CORES];
struct message request;
struct message answer;
struct deferred_frame deferred[MAX_CORES * DEFERRED];
struct { __u64 words[MAX_SEGMENT_BYTES / 8 + 8]; } scratch[MAX_CORES];

/* Nobody maps it, but the values of a map that can be mapped begin at a page; those of another begin 56 bytes into a cache
 * line (6.18), and each record would lie in two. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);	/* set before loading */
	__type(key, __u32);
	__type(value, struct connection);
	__uint(map_flags, BPF_F_MMAPABLE);
} connections SEC(".maps");

struct slot_page {
	__u32 slots[SLOTS_PER_PAGE];
};

/* The order in which tuples are used: each core reads its own slice again and again. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);	/* set before loading */
	__type(key, __u32);
	__type(value, struct slot_page);
} order SEC(".maps");

static __always_inline struct tcp_core *this_tcp_core(void)
{
	return &cores[this_core()];
}

/* The tick. The coarse clock steps with the jiffies, which cost next to nothing, so it is read once in each. In one word, because a receiver
 * may interrupt the generator of its core. */
static __always_inline __u32 tick_now(struct tcp_core *core)
{
	__u64 jiffy = (bpf_jiffies64() << 1 | 1) << 32, clock = READ_ONCE(core->clock);

	if ((clock ^ jiffy) >> 32) {
		clock = jiffy | (__u32)(bpf_ktime_get_coarse_ns() >> TICK_SHIFT);
		WRITE_ONCE(core->clock, clock);
	}
	return clock;
}

static __always_inline void count(struct tcp_core *core, enum tcp_count what)
{
	core->count[what]++;
}

/* Enters the time since `since` into a histogram. */
static __always_inline void measure(struct tcp_core *core, enum tcp_time what, __u64 since, __u64 now)
{
	record(&core->times[what], now > since ? now - since : 0);
}

/* A core's place for a frame that waits. */
static __always_inline struct deferred_frame *deferred_at(__u32 core, __u32 number)
{
	__u32 place = (core & (MAX_CORES - 1)) * DEFERRED + (number & (DEFERRED - 1));

	/* Linux 6.1 loses the bounds of an "or", which the compiler makes of this sum. */
	barrier_var(place);
	return &deferred[place & (MAX_CORES * DEFERRED - 1)];
}

/* Leaves a frame to the generator: the kernel has no room behind the one in hand, or one more is needed. */
static __noinline int defer(const struct segment *segment, __u32 port)
{
	__u32 number = this_core();
	struct tcp_core *core = &cores[number];
	struct deferred_frame *frame;

	if (!segment)
		return 0;
	if (core->deferred_in - core->deferred_out >= DEFERRED) {
		count(core, COUNT_DEFERRED_LOST);
		return 0;
	}
	frame = deferred_at(number, core->deferred_in);
	frame->segment = *segment;
	frame->port = port;
	__sync_fetch_and_add(&core->deferred_in, 1);
	return 0;
}

#endif
