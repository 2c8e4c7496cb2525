/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Which frames have arrived: each is counted once, whichever core it arrives at and however much later its copy comes. */
#ifndef RAMPART_TRAFFIC_FRAMES_SEEN_H
#define RAMPART_TRAFFIC_FRAMES_SEEN_H

#include "../../net/once.h"
#include "state.h"

#define CLAIM_ATTEMPTS 32	/* of cores that claim frames of one word at the same moment */

/* The word of a frame, and the turn of the ring that it is of. */
static __always_inline __u64 *seen_word(__u32 sender, __u32 lane, __u64 sequence, __u32 *turn)
{
	__u32 shift = control.seen_shift & 31, stream = sender * MAX_LANES + lane;
	__u64 word = sequence / SEEN_FRAMES;
	__u32 index;

	/* Linux 6.1 loses the bounds of an "or", which the compiler makes of such a sum. */
	barrier_var(stream);
	index = control.seen_first[stream & (MAX_CORES * MAX_LANES - 1)] + ((__u32)word & ((1U << shift) - 1));
	*turn = control.seen_turn + (__u32)(word >> shift);
	return &seen[index & (SEEN_WORDS - 1)];
}

static __always_inline bool was_seen(__u32 sender, __u32 lane, __u64 sequence)
{
	__u32 turn;
	__u64 *word = seen_word(sender, lane, sequence, &turn);
	__u64 now = READ_ONCE(*word);

	return (__u32)(now >> 32) == turn && (now >> (sequence & (SEEN_FRAMES - 1)) & 1);
}

/* What a word becomes when a frame is claimed in it, or `now` itself if the frame cannot be. */
static __always_inline __u64 claimed_word(__u64 now, __u64 sequence, __u32 turn)
{
	__u64 bit = 1ULL << (sequence & (SEEN_FRAMES - 1));
	__s32 ahead = turn - (__u32)(now >> 32);

	if (ahead < 0)
		return now;
	return ahead ? (__u64)turn << 32 | bit : now | bit;
}

/* Goes on claiming a frame of whose word another core claimed one at the same moment. */
__noinline int claim_again(__u32 sender, __u32 lane, __u64 sequence)
{
	__u32 turn;
	__u64 *word = seen_word(sender, lane, sequence, &turn);

	for (int attempt = 0; attempt < CLAIM_ATTEMPTS; attempt++) {
		__u64 old = READ_ONCE(*word), new = claimed_word(old, sequence, turn);

		if (new == old)
			return 0;
		if (__sync_val_compare_and_swap(word, old, new) == old)
			return 1;
	}
	return 0;
}

/* Makes a frame one that has arrived. Returns false if it is a copy, or so old that its word is another turn's. */
static __always_inline bool claim(__u32 sender, __u32 lane, __u64 sequence)
{
	__u32 turn;
	__u64 *word = seen_word(sender, lane, sequence, &turn), old, new;

	old = READ_ONCE(*word);
	new = claimed_word(old, sequence, turn);
	if (new == old)
		return false;
	if (__sync_val_compare_and_swap(word, old, new) == old)
		return true;
	return claim_again(sender, lane, sequence);
}

#endif
