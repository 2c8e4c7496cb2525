/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The sink: counts test frames and measures their times. Each receiving core keeps its own view of each stream, so no
 * two cores write the same line; user space adds the views up. What is not ours goes up to the kernel.
 */
#ifndef RAMPART_TRAFFIC_FRAMES_SINK_H
#define RAMPART_TRAFFIC_FRAMES_SINK_H

#include "../../net/checksum.h"
#include "../../net/headers.h"
#include "../histogram.h"
#include "neighbour.h"
#include "probe.h"
#include "stamp.h"
#include "state.h"

#define WINDOW_FRAMES (WINDOW_WORDS * 64)
#define PIECE_BYTES 512	/* what bpf_csum_diff() takes on every kernel */
#define MAX_PIECES 18	/* a jumbo frame */

struct scratch {
	__u8 bytes[PIECE_BYTES];
};

struct scratch scratch[MAX_CORES];

static __always_inline struct stamp *find_stamp(void *data, void *end)
{
	struct ethernet *eth = data;
	void *payload;

	if ((void *)(eth + 1) > end)
		return NOT_OURS;
	if (eth->type == bpf_htons(ETHERTYPE_IPV4))
		payload = ipv4_payload((void *)(eth + 1), end);
	else if (eth->type == bpf_htons(ETHERTYPE_IPV6))
		payload = ipv6_payload((void *)(eth + 1), end);
	else
		return NOT_OURS;
	if (payload == NOT_OURS || payload + STAMP_BYTES > end)
		return NOT_OURS;
	return payload;
}

/* Extends a 32-bit sequence number to 64 bits around the highest seen. */
static __always_inline __u64 extend_sequence(__u64 highest, __u32 sequence)
{
	return highest + (__s64)(__s32)(sequence - (__u32)highest);
}

/* Forgets the words that the window moves into. */
static __noinline int clear_window(struct receiver *receiver, __u64 from_word, __u64 to_word)
{
	for (int i = 0; i < WINDOW_WORDS; i++) {
		if (from_word > to_word)
			break;
		receiver->window[from_word & (WINDOW_WORDS - 1)] = 0;
		from_word++;
	}
	return 0;
}

static __always_inline bool was_seen(const struct receiver *receiver, __u64 sequence)
{
	return receiver->window[(sequence >> 6) & (WINDOW_WORDS - 1)] >> (sequence & 63) & 1;
}

/*
 * Whether a frame that came after later ones of its stream also came after a later one of its own flow. Firewalls and
 * cards with several queues may let flows pass each other; only within a flow is it reordering (RFC 4737 section 3).
 * A stream's flows take turns, so the flow's next frame is one turn of the flow table later, and of a datagram's two
 * fragments the first is followed by the second.
 */
static __always_inline bool overtaken_in_flow(const struct receiver *receiver, __u64 sequence, __u32 flow_count)
{
	__u64 next = sequence + flow_count;

	if (control.fragments == 2)
		next = sequence & 1 ? sequence - 1 + 2 * (__u64)flow_count : sequence + 1;

	return next < receiver->highest && was_seen(receiver, next);
}

/* Counts one frame of a stream by its sequence number: new, reordered or a copy. Returns false for a copy. */
static __always_inline bool count_sequence(struct receiver *receiver, __u32 wire_sequence, __u32 flow_count)
{
	__u64 highest = receiver->highest;
	__u64 sequence = extend_sequence(highest, wire_sequence);
	__u64 *word = &receiver->window[(sequence >> 6) & (WINDOW_WORDS - 1)];
	__u64 bit = 1ULL << (sequence & 63);

	if (sequence >= highest) {
		if (sequence > highest)
			clear_window(receiver, (highest >> 6) + ((highest & 63) != 0), sequence >> 6);
		else if ((sequence & 63) == 0)
			*word = 0;
		receiver->highest = sequence + 1;
	} else if (highest - sequence > WINDOW_FRAMES - 64) {
		receiver->reordered++;	/* so late that nobody remembers whether it is a copy */
		return true;
	} else if (*word & bit) {
		receiver->duplicated++;
		return false;
	} else if (overtaken_in_flow(receiver, sequence, flow_count)) {
		receiver->reordered++;
	}
	*word |= bit;
	return true;
}

static __always_inline void measure_times(struct receiver *receiver, struct times *lane, __u64 sent)
{
	__u64 now = bpf_ktime_get_ns();
	/* Only 48 bits of the send time travel; a frame is never 78 hours old. */
	__u64 latency = (now - sent) & ((1ULL << 48) - 1);
	__u64 silence = now - receiver->last_arrival_ns;
	__u64 last = receiver->last_latency_ns;

	record(&lane->latency, latency);
	if (receiver->last_arrival_ns) {
		record(&lane->variation, latency > last ? latency - last : last - latency);
		if (silence > receiver->longest_silence_ns)
			receiver->longest_silence_ns = silence;
	}
	receiver->last_latency_ns = latency;
	receiver->last_arrival_ns = now;
}

/* Whether the payload behind the stamp is what the generator put there. Copies it piece by piece, because a packet
 * pointer cannot be given to a helper with a length that only run time knows, and jumbo frames are in fragments. */
static __noinline bool content_is_intact(struct xdp_md *ctx, __u32 offset, __u32 frame_bytes, __u32 expected)
{
	struct scratch *copy = &scratch[this_core()];
	__s64 sum = 0;

	for (int piece = 0; piece < MAX_PIECES; piece++) {
		__u32 left = frame_bytes > offset ? frame_bytes - offset : 0;
		__u32 bytes = left < PIECE_BYTES ? left & ~3U : PIECE_BYTES;

		__u64 last = (__u64)bytes - 1;

		/* Linux 6.1 learns nothing from "not 0". */
		barrier_var(last);
		if (last >= PIECE_BYTES)
			break;
		if (bpf_xdp_load_bytes(ctx, offset, copy->bytes, last + 1))
			return false;
		sum = bpf_csum_diff(0, 0, (__be32 *)copy->bytes, last + 1, sum);
		if (sum < 0)
			return false;
		offset += bytes;
	}
	return checksum_same(sum, expected);
}

static __always_inline bool is_probe(__u64 who)
{
	return stamp_core(who) == 0xff;
}

static __always_inline bool is_intact(struct xdp_md *ctx, const struct mix_size *size, const struct stamp *stamp,
				     __u32 fill_offset)
{
	if (bpf_xdp_get_buff_len(ctx) != size->bytes)
		return false;
	if ((stamp_sequence(stamp->what) >> (control.fragments - 1) & CONTENT_MASK) != 0 || !size->fill_check)
		return true;
	if (size->place == SECOND_FRAGMENT)
		fill_offset += SECOND_HEAD_BYTES - STAMP_BYTES;
	return content_is_intact(ctx, fill_offset, size->bytes, size->fill_check);
}

/* A firewall put the fragments together and forwarded the datagram whole: both have arrived. */
static __always_inline void receive_reassembled(struct receiver *receiver, const struct mix_size *size, __u32 sequence,
						__u32 flow_count)
{
	receiver->reassembled++;
	receiver->received_bytes += size->whole_bytes;
	for (int i = 0; i < 2; i++)
		if (count_sequence(receiver, sequence + i, flow_count))
			receiver->received++;
}

static __always_inline int receive_frame(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const struct stamp *found = find_stamp(data, end);
	__u32 core = this_core(), sender, flow_count, lane, place;
	const struct mix_size *size;
	struct receiver *receiver;
	struct stamp stamp;

	if (found == NOT_OURS) {
		int verdict = receive_neighbour(ctx);

		if (verdict == XDP_PASS)
			foreign[core]++;
		return verdict;
	}
	stamp.who = found->who;
	stamp.what = found->what;
	stamp.check = found->check;
	if (stamp_mark(stamp.who) != control.mark) {
		stale[core]++;
		return XDP_PASS;
	}
	if (is_probe(stamp.who)) {
		receive_probe(ctx, stamp_lane(stamp.who));
		return XDP_DROP;
	}
	if (stamp.check != stamp_check(stamp.who, stamp.what)) {
		unreadable[core]++;
		return XDP_DROP;
	}
	lane = stamp_lane(stamp.who) & (MAX_LANES - 1);
	sender = stamp_core(stamp.who) & (MAX_CORES - 1);
	flow_count = control.flow_count[sender];
	place = (core * MAX_CORES + sender) * MAX_LANES + lane;
	/* Linux 6.1 loses the bounds of an "or", which the compiler makes of this sum. */
	barrier_var(place);
	receiver = &receivers[place & (MAX_CORES * MAX_CORES * MAX_LANES - 1)];
	size = &control.mix[stamp_mix(stamp.who) & (MAX_MIX - 1)];
	if (size->place == FIRST_FRAGMENT && bpf_xdp_get_buff_len(ctx) == size->whole_bytes) {
		receive_reassembled(receiver, size, stamp_sequence(stamp.what), flow_count);
		goto times;
	}
	if (!is_intact(ctx, size, &stamp, (void *)found + STAMP_BYTES - data)) {
		receiver->corrupted++;
		return XDP_DROP;
	}
	if (!count_sequence(receiver, stamp_sequence(stamp.what), flow_count))
		return XDP_DROP;
	receiver->received++;
	receiver->received_bytes += size->bytes;
times:
	if (stamp_sampled(stamp.who)) {
		place = core * MAX_LANES + lane;
		barrier_var(place);
		measure_times(receiver, &times[place & (MAX_CORES * MAX_LANES - 1)], stamp_sent(stamp.who, stamp.what));
	}
	return XDP_DROP;
}

#endif
