/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the core asks of the kernel: maps, clocks, random numbers. The only header that calls helpers besides those that
 * move frames (forward.h, answer.h), so that the core can be compiled natively with another one in its place.
 */
#ifndef RAMPART_FIREWALL_KERNEL_H
#define RAMPART_FIREWALL_KERNEL_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../abi/firewall.h"
#include "../net/once.h"

/*
 * The value at a number of an array. The kernel writes each look-up out where it stands, and moves all instructions behind it for that: half
 * of the time that loading a program takes. So what is looked up in many places, and seldom by packets of known flows, has a function of
 * its own that is not inlined. There is no room for one where 8 functions are on the stack (under remove_flow()), or 512 bytes as Linux 6.1
 * counts them: each function takes a multiple of 32.
 */
#define lookup(map, number)                                    \
	({                                                     \
		__u32 key_ = (number);                         \
		bpf_map_lookup_elem((map), &key_);             \
	})

/* Tests set all clocks by hand, so that no result depends on how fast they run. A constant, because then the verifier removes the
 * branches that are not taken, and the firewall does not pay for them. */
const volatile __u8 clock_is_held;
__u64 held_clock;	/* nanoseconds */

/* The cached clock: the tick, and the jiffy in which it was read. The clock moves with the jiffies, and they are read without a call.
 * The tick is written first, so who finds this jiffy finds a tick that is a jiffy old at most. Cores that write it together write the
 * same or nearly so. Neither number comes round. */
struct clock {
	__u64 tick;
	__u64 jiffy;
} cached_clock;

static __always_inline __u64 whole_tick(void)
{
	__u64 jiffy, tick;

	if (clock_is_held)
		return READ_ONCE(held_clock) >> TICK_SHIFT;
	jiffy = bpf_jiffies64();
	if (READ_ONCE(cached_clock.jiffy) == jiffy)
		return READ_ONCE(cached_clock.tick);
	/* Not the coarse clock, which netfilter programs have not. */
	tick = bpf_ktime_get_ns() >> TICK_SHIFT;
	WRITE_ONCE(cached_clock.tick, tick);
	WRITE_ONCE(cached_clock.jiffy, jiffy);
	return tick;
}

static __always_inline __u32 now(void)
{
	return whole_tick();
}


/* Ticks since one that was written in 32 bits less than 52 days ago. */
static __always_inline __u32 ticks_since(__u32 tick, __u32 then)
{
	__u32 passed = tick - then;

	return passed > -(__u32)TICK_SLACK ? 0 : passed;
}

/* The fine clock, which costs ten times as much, in sixteenths of a nanosecond. */
static __always_inline __u64 moment(void)
{
	return (clock_is_held ? READ_ONCE(held_clock) : bpf_ktime_get_ns()) << MOMENT_SHIFT;
}

#endif
