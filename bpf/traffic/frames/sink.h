/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The sink: counts test frames and measures their times. A frame is received if it came out of the port that it should, once in
 * the whole trial, and as it was sent; otherwise it has another place. Each receiving core counts for itself, and user space adds
 * up. What is not ours goes up to the kernel.
 */
#ifndef RAMPART_TRAFFIC_FRAMES_SINK_H
#define RAMPART_TRAFFIC_FRAMES_SINK_H

#include "../../net/headers.h"
#include "../histogram.h"
#include "compare.h"
#include "neighbour.h"
#include "probe.h"
#include "seen.h"
#include "stamp.h"
#include "state.h"

/* The stamp, and of which IP version the frame is: the verifier would not believe that two looks at its type are one. */
static __always_inline struct stamp *find_stamp(void *data, void *end, __u32 *is_v4)
{
	struct ethernet *eth = data;
	void *payload;
	__u32 yes;

	if ((void *)(eth + 1) > end)
		return NOT_OURS;
	yes = eth->type == bpf_htons(ETHERTYPE_IPV4) ? 1 : 0;
	barrier_var(yes);
	*is_v4 = yes;
	if (yes)
		payload = ipv4_payload((void *)(eth + 1), end);
	else if (eth->type == bpf_htons(ETHERTYPE_IPV6))
		payload = ipv6_payload((void *)(eth + 1), end);
	else
		return NOT_OURS;
	if (payload == NOT_OURS || payload + STAMP_BYTES > end)
		return NOT_OURS;
	return payload;
}

/*
 * Whether a frame that came after later ones of its stream also came after a later one of its own flow. Firewalls and
 * cards with several queues may let flows pass each other; only within a flow is it reordering (RFC 4737 section 3).
 * A stream's flows take turns, so the flow's next frame is one turn of the flow table later, and of a datagram's two
 * fragments the first is followed by the second.
 */
static __always_inline bool overtaken_in_flow(const struct receiver *receiver, const struct claimed *claimed, __u32 lane)
{
	__u32 flow_count = control.flow_count[sender_place(claimed->sender, lane)];
	__u64 sequence = claimed->sequence, next = sequence + flow_count;

	if (control.fragments == 2)
		next = sequence & 1 ? sequence - 1 + 2 * (__u64)flow_count : sequence + 1;

	return next < receiver->highest && was_seen(claimed->sender, lane, next);
}

/* Counts one frame of a stream by its sequence number: new, reordered or a copy. Returns false for a copy. */
static __always_inline bool count_sequence(struct receiver *receiver, const struct claimed *claimed, __u32 lane)
{
	__u64 highest = receiver->highest;

	if (!claim(claimed->sender, lane, claimed->sequence)) {
		receiver->duplicated++;
		return false;
	}
	if (claimed->sequence >= highest)
		receiver->highest = claimed->sequence + 1;
	else if (overtaken_in_flow(receiver, claimed, lane))
		receiver->reordered++;
	return true;
}

static __always_inline void measure_times(struct receiver *receiver, struct times *lane, __u64 sent)
{
	__u64 now = bpf_ktime_get_ns();
	/* Only 48 bits of the send time travel; a frame is never 78 hours old. */
	__u64 latency = (now - sent + control.clock_ns) & ((1ULL << 48) - 1);
	__u64 silence = now - receiver->last_arrival_ns;
	__u64 last = receiver->last_latency_ns;

	/* Less than nothing is nothing: two hosts' clocks may drift. By arithmetic, because the verifier would follow both outcomes. */
	latency &= (latency >> 47) - 1;
	record(&lane->latency, latency);
	if (receiver->last_arrival_ns) {
		record(&lane->variation, latency > last ? latency - last : last - latency);
		if (silence > receiver->longest_silence_ns)
			receiver->longest_silence_ns = silence;
	}
	receiver->last_latency_ns = latency;
	receiver->last_arrival_ns = now;
}

/* The flow whose turn a stream's sequence number is. */
static __always_inline struct ends ends_of_turn(const struct claimed *claimed, __u32 lane)
{
	__u32 place = sender_place(claimed->sender, lane), count = control.flow_count[place];
	__u64 turn = claimed->sequence >> (control.fragments - 1);
	__u32 index = control.flow_first[place] + (count ? turn % count : 0), page = index / FLOWS_PER_PAGE;
	struct flow_page *found = bpf_map_lookup_elem(&flows, &page);
	const struct flow *flow;
	struct ends none = {};

	if (!found)
		return none;
	flow = &found->flows[index & (FLOWS_PER_PAGE - 1)];
	return ends_of(flow, claimed->lane, flow->server_port, claimed->size->place);
}

/* The fields in which the ends of a frame are not those of its flow. */
static __always_inline void compare_ends(struct differences *differences, const struct ends *is, const struct ends *should)
{
	DIFFERS(FIELD_SOURCE, (__u32)is->addresses, (__u32)should->addresses);
	DIFFERS(FIELD_DESTINATION, is->addresses >> 32, should->addresses >> 32);
	DIFFERS(FIELD_SOURCE_PORT, is->ports & 0xffff, should->ports & 0xffff);
	DIFFERS(FIELD_DESTINATION_PORT, is->ports >> 16, should->ports >> 16);
}

/* A test frame as it arrived. */
struct arrived {
	struct claimed claimed;
	struct stamp stamp;
	struct ends ends;
	__u64 mixed;
	const void *stamp_at;
	__u32 is_v4;
	__u32 lane;
	__u32 core;	/* that it arrived at */
	__u32 bytes;
};

/* Reads what a frame says that it is. Nothing of it is proved yet. */
static __always_inline void read_arrived(struct arrived *frame, void *data)
{
	struct claimed *claimed = &frame->claimed;
	const struct stamp *stamp = frame->stamp_at;

	frame->stamp.who = stamp->who;
	frame->stamp.what = stamp->what;
	frame->stamp.check = stamp->check;
	frame->lane = stamp_lane(frame->stamp.who) & (MAX_LANES - 1);
	claimed->lane = &control.lanes[frame->lane];
	claimed->size = &control.mix[stamp_mix_position(frame->stamp.who) & (MAX_MIX - 1)];
	claimed->sequence = stamp_sequence(frame->stamp.who, frame->stamp.what);
	claimed->sender = stamp_core(frame->stamp.who) & (MAX_CORES - 1);
	claimed->whole = claimed->size->place == FIRST_FRAGMENT && frame->bytes == claimed->size->whole_bytes;
	frame->ends = frame->is_v4 ? ends_of_ipv4(data + ETHERNET_BYTES, stamp, claimed->size->place)
				   : ends_of_ipv6(data + ETHERNET_BYTES, stamp, claimed->size->place);
	frame->ends.addresses ^= claimed->lane->translation[3];
	frame->mixed = stamp_mix(&control.secret, frame->stamp.who, frame->stamp.what, &frame->ends);
}

/* Compares all headers of a frame with those that were sent. */
static __always_inline void compare_headers(struct differences *differences, const struct arrived *frame, const void *data)
{
	compare_ethernet(differences, data, &frame->claimed);
	/* The frame's own type decides how it is read; whether it should be that one is a difference. */
	if (frame->is_v4)
		compare_ipv4(differences, data + ETHERNET_BYTES, &frame->claimed);
	else
		compare_ipv6(differences, data + ETHERNET_BYTES, &frame->claimed);
	compare_udp(differences, frame->stamp_at, &frame->claimed, &frame->ends, &frame->stamp);
}

static __always_inline struct receiver *receiver_of(__u32 core, __u32 sender, __u32 lane)
{
	__u32 place = (core * MAX_CORES + sender) * MAX_LANES + lane;

	/* Linux 6.1 loses the bounds of an "or", which the compiler makes of this sum. */
	barrier_var(place);
	return &receivers[place & (MAX_CORES * MAX_CORES * MAX_LANES - 1)];
}

/* Counts both fragments of a datagram that a firewall put together and forwarded whole. */
__noinline int count_reassembled(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct arrived frame = { .core = this_core(), .bytes = bpf_xdp_get_buff_len(ctx) };
	struct receiver *receiver;

	frame.stamp_at = find_stamp(data, end, &frame.is_v4);
	if (frame.stamp_at == NOT_OURS)
		return XDP_DROP;
	read_arrived(&frame, data);
	receiver = receiver_of(frame.core, frame.claimed.sender, frame.lane);
	receiver->reassembled++;
	receiver->received_bytes += frame.claimed.size->whole_bytes;
	for (int i = 0; i < 2; i++) {
		if (count_sequence(receiver, &frame.claimed, frame.lane))
			receiver->received++;
		frame.claimed.sequence++;
	}
	return XDP_DROP;
}

/* Counts a frame that is as it was sent. Returns false for a copy. */
static __always_inline bool count_frame(struct receiver *receiver, const struct claimed *claimed, __u32 lane)
{
	if (!count_sequence(receiver, claimed, lane))
		return false;
	receiver->received++;
	receiver->received_bytes += claimed->size->bytes;
	return true;
}

static __always_inline void time_frame(struct receiver *receiver, __u32 core, __u32 lane, const struct claimed *claimed,
				       const struct stamp *stamp)
{
	__u64 veil = stamp_veil(&control.secret, claimed->sender, lane, claimed->sequence >> (control.fragments - 1));
	__u32 place = core * MAX_LANES + lane;

	if (!is_timed(veil, control.sample_mask))
		return;
	barrier_var(place);
	measure_times(receiver, &times[place & (MAX_CORES * MAX_LANES - 1)], stamp_sent(stamp->who, stamp->what, veil));
}

/* What a frame turned out to be that is not a whole datagram exactly as it should come out. */
enum finding { FINDING_COUNTED, FINDING_OF_OTHERS, FINDING_STRANGE, FINDING_DAMAGED, FINDING_FOREIGN, FINDING_REASSEMBLED };

/* Whether it is a frame that the policy forbids. A firewall that translates may leave a source alone that it does not know. */
static __always_inline bool is_forbidden(const struct arrived *frame)
{
	const struct secret *secret = &control.forbidden.secret;
	struct ends untouched = frame->ends;

	untouched.addresses ^= frame->claimed.lane->translation[3];
	return control.forbidden.kind_count &&
	       (frame->stamp.check == stamp_check(stamp_mix(secret, frame->stamp.who, frame->stamp.what, &frame->ends)) ||
		frame->stamp.check == stamp_check(stamp_mix(secret, frame->stamp.who, frame->stamp.what, &untouched)));
}

/* Finds out what is wrong with a frame that is not as it should be, and counts it there. Global, as the next, so that the verifier does
 * not go through it once for each way that leads here. */
__noinline int count_strange(struct xdp_md *ctx, __u32 zone, __u32 damaged)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct arrived frame = { .core = this_core(), .bytes = bpf_xdp_get_buff_len(ctx) };
	__u64 fields[FIELDS] = {};
	struct differences differences = { .fields = fields };
	struct receiver *receiver;
	struct ends should;

	frame.stamp_at = find_stamp(data, end, &frame.is_v4);
	if (frame.stamp_at == NOT_OURS)
		return 0;
	read_arrived(&frame, data);
	receiver = receiver_of(frame.core, frame.claimed.sender, frame.lane);
	if (frame.stamp.check != stamp_check(frame.mixed)) {
		if (is_forbidden(&frame)) {
			/* A second fragment is nothing without its first. */
			if (frame.claimed.size->place != SECOND_FRAGMENT)
				forbidden[frame.core]++;
			return 0;
		}
		should = ends_of_turn(&frame.claimed, frame.lane);
		if (frame.stamp.check !=
		    stamp_check(stamp_mix(&control.secret, frame.stamp.who, frame.stamp.what, &should))) {
			unreadable[frame.core]++;
			return 0;
		}
		compare_ends(&differences, &frame.ends, &should);
	}
	if (!count_sequence(receiver, &frame.claimed, frame.lane))
		return 0;
	if (frame.claimed.lane->to != zone) {
		receiver->wrong_port++;
		return 0;
	}
	if (damaged) {
		receiver->corrupted++;
		return 0;
	}
	compare_headers(&differences, &frame, data);
	for (int field = 0; field < FIELDS; field++) {
		if (fields[field]) {
			receiver->altered[field]++;
			break;
		}
	}
	return 0;
}

/* Counts a frame that may be anything: a fragment, one of others, or one that a firewall changed. What is left to be done with it is for
 * the caller, because the stack does not hold all of these functions on top of each other. */
__noinline int receive_other(struct xdp_md *ctx, __u32 zone)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct arrived frame = { .core = this_core(), .bytes = bpf_xdp_get_buff_len(ctx) };
	struct differences differences = {};
	struct claimed *claimed = &frame.claimed;
	struct receiver *receiver;
	__u64 who;

	frame.stamp_at = find_stamp(data, end, &frame.is_v4);
	if (frame.stamp_at == NOT_OURS)
		return FINDING_FOREIGN;
	who = ((const struct stamp *)frame.stamp_at)->who;
	if (stamp_mark(who) != control.mark) {
		stale[frame.core]++;
		return FINDING_OF_OTHERS;
	}
	if (is_probe(who)) {
		receive_probe(ctx, stamp_lane(who));
		return FINDING_COUNTED;
	}
	read_arrived(&frame, data);
	compare_headers(&differences, &frame, data);
	if (frame.bytes != frame_bytes(claimed) ||
	    (claimed->size->place == SECOND_FRAGMENT && !second_head_is_intact(frame.stamp_at, end, &frame.stamp)))
		return FINDING_DAMAGED;
	if (differences.any || frame.stamp.check != stamp_check(frame.mixed) || claimed->lane->to != zone)
		return FINDING_STRANGE;
	receiver = receiver_of(frame.core, claimed->sender, frame.lane);
	if ((stamp_hidden(frame.mixed) & control.content_mask) == 0) {
		receiver->compared++;
		if (!content_is_intact(ctx, claimed, frame.stamp_at + STAMP_BYTES - data))
			return FINDING_DAMAGED;
	}
	if (!claimed->whole && !count_frame(receiver, claimed, frame.lane))
		return FINDING_COUNTED;
	time_frame(receiver, frame.core, frame.lane, claimed, &frame.stamp);
	return claimed->whole ? FINDING_REASSEMBLED : FINDING_COUNTED;
}

/* Goes on with a frame that needs more than the fast way through receive_frame(). */
static __always_inline int judge(struct xdp_md *ctx, __u32 zone, __u32 core, int finding)
{
	int verdict;

	switch (finding) {
	case FINDING_STRANGE:
	case FINDING_DAMAGED:
		count_strange(ctx, zone, finding == FINDING_DAMAGED);
		return XDP_DROP;
	case FINDING_FOREIGN:
		verdict = receive_neighbour(ctx);
		if (verdict == XDP_PASS)
			foreign[core]++;
		return verdict;
	case FINDING_REASSEMBLED:
		return count_reassembled(ctx);
	case FINDING_OF_OTHERS:
		return XDP_PASS;
	default:
		return XDP_DROP;
	}
}

/* A whole datagram, as nearly all frames are, and what its stamp says. */
struct datagram {
	struct claimed claimed;
	struct stamp stamp;
	__u64 mixed;
	__u32 lane;
	__u32 stamp_offset;
};

/*
 * Whether a frame is a whole datagram exactly as it should come out, in as few steps as there can be, because nearly every frame takes
 * them. `bytes` are the frame's.
 */
static __always_inline bool is_as_it_should_be(struct xdp_md *ctx, __u32 zone, __u32 bytes, struct datagram *frame)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *at;
	bool is_v4 = control.ip_version == 4;
	struct claimed *claimed = &frame->claimed;
	struct stamp *stamp = &frame->stamp;
	struct ends ends;
	__u64 differs;

	frame->stamp_offset = is_v4 ? STAMP_OFFSET_V4 : STAMP_OFFSET_V6;
	at = data + frame->stamp_offset;
	if (control.fragments != 1 || at + STAMP_BYTES > end)
		return false;
	stamp->who = LONG_AT(at, 0);
	stamp->what = LONG_AT(at, 8);
	stamp->check = HALF_AT(at, 16);
	frame->lane = stamp_lane(stamp->who) & (MAX_LANES - 1);
	claimed->lane = &control.lanes[frame->lane];
	claimed->size = &control.mix[stamp_mix_position(stamp->who) & (MAX_MIX - 1)];
	claimed->sequence = stamp_sequence(stamp->who, stamp->what);
	claimed->sender = stamp_core(stamp->who) & (MAX_CORES - 1);
	claimed->whole = false;
	differs = is_v4 ? whole_ipv4_differs(data, claimed->lane, claimed->size, stamp, &ends)
			: whole_ipv6_differs(data, claimed->lane, claimed->size, stamp, &ends);
	frame->mixed = stamp_mix(&control.secret, stamp->who, stamp->what, &ends);
	differs |= stamp_check(frame->mixed) ^ stamp->check;
	differs |= stamp_mark(stamp->who) ^ control.mark;
	differs |= claimed->lane->to ^ zone;
	differs |= bytes ^ claimed->size->bytes;
	return !differs && !is_probe(stamp->who);
}

/* `one_piece`: the kernel hands over no frame that is in several. */
static __always_inline int receive_frame(struct xdp_md *ctx, __u32 zone, bool one_piece)
{
	__u32 core = this_core();
	struct datagram frame;
	struct receiver *receiver;
	__u32 bytes = one_piece ? ctx->data_end - ctx->data : bpf_xdp_get_buff_len(ctx);

	if (!is_as_it_should_be(ctx, zone, bytes, &frame))
		return judge(ctx, zone, core, receive_other(ctx, zone));
	receiver = receiver_of(core, frame.claimed.sender, frame.lane);
	if ((stamp_hidden(frame.mixed) & control.content_mask) == 0) {
		receiver->compared++;
		if (!content_is_intact(ctx, &frame.claimed, frame.stamp_offset + STAMP_BYTES))
			return judge(ctx, zone, core, FINDING_DAMAGED);
	}
	if (count_frame(receiver, &frame.claimed, frame.lane))
		time_frame(receiver, core, frame.lane, &frame.claimed, &frame.stamp);
	return XDP_DROP;
}

#endif
