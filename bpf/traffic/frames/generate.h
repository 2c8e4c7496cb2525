/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The generator: each turn takes the recycled frame of BPF_PROG_TEST_RUN, decides whether a frame is due, and if so
 * writes it whole. Every header byte is written every time, because a page comes back with whatever the last
 * receiver did to it (MAC addresses, TTL, checksums). The filling is written afresh for the frames that the sink
 * compares; otherwise one damaged page would be found again and again.
 */
#ifndef RAMPART_TRAFFIC_FRAMES_GENERATE_H
#define RAMPART_TRAFFIC_FRAMES_GENERATE_H

#include "../../net/checksum.h"
#include "../../net/headers.h"
#include "stamp.h"
#include "state.h"

#define LATE (5000ULL << SCHEDULE_SHIFT)

_Static_assert(SECOND_HEAD_BYTES == UDP_BYTES + STAMP_BYTES, "the filling of both fragments begins at one offset");

static __always_inline __u64 read_clock(struct core *core)
{
	__u64 now = bpf_ktime_get_ns();

	core->now = schedule_time(now, control.start_ns);
	return now;
}

/* Begins the core's current phase: every lane starts its schedule at the phase's beginning. Cores are staggered by
 * user space through the first due time, which only the first phase has. */
static __noinline int begin_phase(struct core *core, __u64 start)
{
	const struct phase *phase = &control.phases[core->phase & (MAX_PHASES - 1)];

	for (__u32 lane = 0; lane < MAX_LANES; lane++) {
		core->senders[lane].due = lane < control.lane_count ? start : NO_FRAME_LEFT;
		core->senders[lane].left = phase->budget[lane];
	}
	return 0;
}

/* Moves on when the phase's schedule is done or its time is over. Frames still due then were not sent, which user
 * space sees from the schedule. */
static __noinline int end_phase(struct core *core)
{
	__u64 end = control.phases[core->phase & (MAX_PHASES - 1)].end;

	core->phase++;
	if (core->phase >= control.phase_count) {
		core->finished = core->now | 1;
		return 0;
	}
	return begin_phase(core, end);
}

/* The lane whose next frame is due first. */
static __always_inline __u32 next_lane(const struct core *core)
{
	__u32 best = 0;
	__u64 due = core->senders[0].due;

	for (__u32 lane = 1; lane < MAX_LANES; lane++) {
		if (lane >= control.lane_count)
			break;
		if (core->senders[lane].due < due) {
			due = core->senders[lane].due;
			best = lane;
		}
	}
	return best;
}

/* Whether the lane's next frame may go out now. The clock is read only when the last reading does not answer. */
static __always_inline bool is_due(struct core *core, struct sender *sender, const struct phase *phase, __u32 lane)
{
	__u64 lag;

	if (!phase->paced) {
		/* Unpaced, the schedule only takes turns between lanes; time ends the phase (see send_frame). */
		if (sender->due == NO_FRAME_LEFT || core->now >= phase->end) {
			read_clock(core);
			end_phase(core);
			return false;
		}
		if (core->now == 0)
			read_clock(core);
		return core->now != 0;
	}
	if (sender->due >= phase->end) {
		read_clock(core);
		if (core->now >= phase->end)
			end_phase(core);
		return false;
	}
	/* Not "later than now", which would let the first frame out before the start. */
	if (sender->due >= core->now) {
		read_clock(core);
		if (sender->due >= core->now)
			return false;
	}
	lag = core->now - sender->due;
	if (lag > core->largest_lag)
		core->largest_lag = lag;
	if (core->now >= phase->end + control.grace) {
		end_phase(core);
		return false;
	}
	if (lag > control.largest_lag) {
		sender->skipped += control.fragments;
		sender->due += phase->interval[lane];
		return false;
	}
	if (lag > LATE)
		core->late++;
	return true;
}

/* Copies whole words: a copy between pointers of unknown alignment would go byte by byte. */
#define COPY_WORDS(to, from, words)                                    \
	_Pragma("unroll") for (int word_ = 0; word_ < (words); word_++) \
		((__u64 *)(to))[word_] = ((const __u64 *)(from))[word_]

static __always_inline void write_stamp(void *at, const struct stamp *stamp)
{
	struct stamp *to = at;

	to->who = stamp->who;
	to->what = stamp->what;
	to->check = stamp->check;
}

/* What the second fragment has instead of a UDP header and a stamp; see SECOND_HEAD_BYTES. */
static __always_inline int write_second_head(void *at, void *end, const struct stamp *stamp)
{
	if (at + SECOND_HEAD_BYTES > end)
		return -1;
	write_stamp(at, stamp);
	*(__u16 *)(at + STAMP_BYTES) = checksum_fold(sum_stamp(stamp));
	*(__u32 *)(at + STAMP_BYTES + 2) = 0;
	*(__u16 *)(at + STAMP_BYTES + 6) = 0;
	return 0;
}

static __always_inline int write_ipv4(void *data, void *end, const struct lane *lane, const struct ends *ends,
				      const struct mix_size *size, const struct stamp *stamp, __u64 sequence)
{
	struct ipv4 *ip = data + ETHERNET_BYTES;
	struct udp *udp = (void *)(ip + 1);
	__u32 ip_sum = lane->ip_sum + (__u16)(size->head >> 32) + checksum_long(ends->addresses);

	if (data + STAMP_OFFSET_V4 + STAMP_BYTES > end)
		return -1;
	COPY_WORDS(data, lane->header, 2);
	LONG_AT(data, HEAD_OFFSET) = size->head;
	WORD_AT(data, 20) = WORD_AT(lane->header, 20);	/* flags, TTL, protocol */
	LONG_AT(data, 26) = ends->addresses;
	if (size->place != WHOLE_DATAGRAM) {
		__be16 id = bpf_htons(datagram_number(&control, sequence, this_core()));

		ip->id = id;
		ip->fragment = size->fragment;
		ip_sum += (__u32)id + size->fragment;
	}
	ip->check = checksum_fold(ip_sum);
	if (size->place == SECOND_FRAGMENT)
		return write_second_head(udp, end, stamp);
	LONG_AT(udp, 0) = ends->ports | (__u64)udp_tail(&control, lane, size, ends, stamp) << 32;
	write_stamp(data + STAMP_OFFSET_V4, stamp);
	return 0;
}

static __always_inline int write_ipv6(void *data, void *end, const struct lane *lane, const struct ends *ends,
				      const struct mix_size *size, const struct stamp *stamp, __u64 sequence)
{
	struct ipv6 *ip = data + ETHERNET_BYTES;
	struct udp *udp = (void *)(ip + 1);

	if (data + STAMP_OFFSET_V6 + STAMP_BYTES > end)
		return -1;
	COPY_WORDS(data, lane->header, 7);
	LONG_AT(data, HEAD_OFFSET) = size->head;
	ip->source[3] = ends->addresses;
	ip->destination[3] = ends->addresses >> 32;
	if (size->place != WHOLE_DATAGRAM) {
		struct fragment *fragment = (void *)udp;

		udp = (void *)(fragment + 1);
		if ((void *)(udp + 1) + STAMP_BYTES > end)
			return -1;
		fragment->next_header = PROTOCOL_UDP;
		fragment->reserved = 0;
		fragment->offset = size->fragment;
		fragment->id = bpf_htonl(datagram_number(&control, sequence, this_core()));
	}
	if (size->place == SECOND_FRAGMENT)
		return write_second_head(udp, end, stamp);
	LONG_AT(udp, 0) = ends->ports | (__u64)udp_tail(&control, lane, size, ends, stamp) << 32;
	write_stamp(udp + 1, stamp);
	return 0;
}

/* `stays`: the next frame is of the same flow. */
static __always_inline const struct flow *next_flow(struct sender *sender, __u32 core, bool stays)
{
	__u32 index = control.flow_first[core] + sender->flow_next;
	__u32 page = index / FLOWS_PER_PAGE;
	struct flow_page *found = bpf_map_lookup_elem(&flows, &page);

	if (!stays)
		sender->flow_next = sender->flow_next + 1 < control.flow_count[core] ? sender->flow_next + 1 : 0;
	return found ? &found->flows[index & (FLOWS_PER_PAGE - 1)] : NULL;
}

static __always_inline __u32 next_mix(struct sender *sender)
{
	__u32 mix = sender->mix_next;

	sender->mix_next = mix + 1 < control.mix_count ? mix + 1 : 0;
	return mix & (MAX_MIX - 1);
}

static __noinline int write_filling(struct xdp_md *ctx, __u32 frame_bytes)
{
	__u32 offset = control.filling_offset;
	__u32 last = frame_bytes - offset - 1;

	if (frame_bytes <= offset || last >= FILLING_BYTES)
		return 0;
	/* The compiler may not use what it knows here: the verifier must see both bounds, and Linux 6.1 learns nothing from a
	 * comparison with 0. */
	barrier_var(last);
	return bpf_xdp_store_bytes(ctx, offset, filling, (last & (FILLING_BYTES - 1)) + 1);
}

/* Sends the lane's next frame, or, beside the schedule, one like it that the policy forbids. */
static __always_inline int send_frame(struct xdp_md *ctx, struct core *core, __u32 core_number, __u32 lane_number,
				      const struct phase *phase, bool forbidden)
{
	struct sender *sender = &core->senders[lane_number];
	const struct lane *lane = &control.lanes[lane_number];
	__u32 mix = forbidden ? sender->mix_next & (MAX_MIX - 1) : next_mix(sender);
	const struct mix_size *size = &control.mix[mix];
	bool is_first = size->place == FIRST_FRAGMENT;
	const struct flow *flow = next_flow(sender, core_number, is_first || forbidden);
	__u64 sequence = sender->sent, datagram = sequence >> (control.fragments - 1);
	bool sampled = !forbidden && (datagram & control.sample_mask) == 0;
	struct stamp stamp;
	struct ends ends;
	__u64 now, mixed;
	int failed;

	if (!flow)
		return XDP_ABORTED;
	/* An unsampled frame carries the last reading: it tells roughly when, and is not used for latency. */
	now = sampled ? read_clock(core) : control.start_ns + (core->now >> SCHEDULE_SHIFT);
	ends = ends_of(flow, lane, forbidden ? control.forbidden_port : flow->server_port, size->place);
	stamp.who = stamp_who(control.mark, core_number, lane_number, mix, sampled, sequence, now);
	stamp.what = stamp_what(sequence, now);
	mixed = stamp_mix(forbidden ? &control.forbidden_secret : &control.secret, stamp.who, stamp.what, &ends);
	stamp.check = stamp_check(mixed);
	if (size->bytes != control.largest_bytes &&
	    bpf_xdp_adjust_tail(ctx, (int)size->bytes - (int)control.largest_bytes))
		return XDP_ABORTED;
	/* A kernel that reassembles may copy the second fragment behind the first, into the page that comes back here as a
	 * longer frame: then the filling would not be what the checksum says. */
	if ((stamp_hidden(mixed) & control.content_mask) == 0 && write_filling(ctx, size->bytes))
		return XDP_ABORTED;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	failed = control.ip_version == 4 ? write_ipv4(data, end, lane, &ends, size, &stamp, sequence)
					 : write_ipv6(data, end, lane, &ends, size, &stamp, sequence);
	if (failed)
		return XDP_ABORTED;
	if (forbidden) {
		core->forbidden_sent++;
		return bpf_redirect_map(&ports, lane->port, 0);
	}
	sender->sent++;
	sender->sent_bytes += size->bytes;
	/* The schedule is of datagrams: the second fragment follows the first at once, whatever is due. */
	core->unfinished = is_first ? lane_number + 1 : 0;
	if (is_first)
		return bpf_redirect_map(&ports, lane->port, 0);
	sender->due += phase->interval[lane_number];
	if (sender->left != NO_FRAME_LEFT && --sender->left == 0)
		sender->due = NO_FRAME_LEFT;
	return bpf_redirect_map(&ports, lane->port, 0);
}

/* Whether a forbidden frame goes out now. They go by time, so that there are few beside any load. */
static __always_inline bool forbidden_is_due(struct core *core)
{
	if (core->now < core->forbidden_due || core->now == 0)
		return false;
	core->forbidden_due = core->now + control.forbidden_interval;
	return true;
}

/* Apart, because it is rare: what every frame takes has no branch for it. */
__noinline int send_forbidden(struct xdp_md *ctx)
{
	__u32 core_number = this_core();
	struct core *core = &cores[core_number];

	return send_frame(ctx, core, core_number, next_lane(core) & (MAX_LANES - 1), NULL, true);
}

static __always_inline int generate_frame(struct xdp_md *ctx)
{
	__u32 core_number = this_core();
	struct core *core = &cores[core_number];
	const struct phase *phase = &control.phases[core->phase & (MAX_PHASES - 1)];
	__u32 lane;

	if (core->finished)
		return XDP_DROP;
	core->turns++;
	if (forbidden_is_due(core))
		return send_forbidden(ctx);
	lane = (core->unfinished ? core->unfinished - 1 : next_lane(core)) & (MAX_LANES - 1);
	if (!core->unfinished && !is_due(core, &core->senders[lane], phase, lane))
		return XDP_DROP;
	return send_frame(ctx, core, core_number, lane, phase, false);
}

#endif
