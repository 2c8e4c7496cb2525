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
/* Server ports, from 1 (crates/traffic/src/frames/flows.rs). So far behind a flow's there is none of another flow between the same hosts and
 * from the same client port: of 4 million flows at most 62 follow each other there. */
#define SERVER_PORTS 49151
#define OTHER_SERVER_PORT 20000

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
		/* A lane that another host sends on has no budget here. */
		core->senders[lane].due = lane < control.lane_count && phase->budget[lane] ? start : NO_FRAME_LEFT;
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
		/* No lane has a frame left when the one that is due first has none. */
		if (core->now >= phase->end || (sender->due == NO_FRAME_LEFT && core->now != 0))
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
				      const struct mix_size *size, const struct stamp *stamp, __u32 datagram)
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
		__be16 id = bpf_htons(datagram);

		ip->id = id;
		ip->fragment = size->fragment;
		ip_sum += (__u32)id + size->fragment;
	}
	ip->check = checksum_fold(ip_sum);
	if (size->place == SECOND_FRAGMENT)
		return write_second_head(udp, end, stamp);
	LONG_AT(udp, 0) = ends->ports | (__u64)udp_tail(&control, lane->udp_sum, size, ends, stamp) << 32;
	write_stamp(data + STAMP_OFFSET_V4, stamp);
	return 0;
}

static __always_inline int write_ipv6(void *data, void *end, const struct lane *lane, const struct ends *ends,
				      const struct mix_size *size, const struct stamp *stamp, __u32 datagram)
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
		fragment->id = bpf_htonl(datagram);
	}
	if (size->place == SECOND_FRAGMENT)
		return write_second_head(udp, end, stamp);
	LONG_AT(udp, 0) = ends->ports | (__u64)udp_tail(&control, lane->udp_sum, size, ends, stamp) << 32;
	write_stamp(udp + 1, stamp);
	return 0;
}

/* The flow of a sender's slice with this number. */
static __always_inline const struct flow *flow_at(__u32 core, __u32 lane, __u32 number)
{
	__u32 index = control.flow_first[sender_place(core, lane)] + number;
	__u32 page = index / FLOWS_PER_PAGE;
	struct flow_page *found = bpf_map_lookup_elem(&flows, &page);

	return found ? &found->flows[index & (FLOWS_PER_PAGE - 1)] : NULL;
}

/* `stays`: the next frame is of the same flow. */
static __always_inline const struct flow *next_flow(struct sender *sender, __u32 core, __u32 lane, bool stays)
{
	__u32 number = sender->flow_next;

	if (!stays)
		sender->flow_next = number + 1 < control.flow_count[sender_place(core, lane)] ? number + 1 : 0;
	return flow_at(core, lane, number);
}

static __always_inline __u32 next_mix(struct sender *sender, const struct lane *lane)
{
	__u32 mix = sender->mix_next;

	sender->mix_next = mix + 1 < lane->mix_count ? mix + 1 : 0;
	return (lane->mix_first + mix) & (MAX_MIX - 1);
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

/*
 * Forbidden datagrams are numbered from the other half of the numbers, or a firewall that reassembles would put one together with the
 * next of its flow.
 */
#define FORBIDDEN_NUMBERS 0x80008000U

/* Writes a whole frame in place of the recycled one. */
static __always_inline int write_frame(struct xdp_md *ctx, const struct lane *lane, const struct mix_size *size,
				       const struct ends *ends, const struct stamp *stamp, __u64 mixed, __u32 datagram)
{
	void *data, *end;

	if (size->bytes != control.largest_bytes &&
	    bpf_xdp_adjust_tail(ctx, (int)size->bytes - (int)control.largest_bytes))
		return -1;
	/* A kernel that reassembles may copy the second fragment behind the first, into the page that comes back here as a
	 * longer frame: then the filling would not be what the checksum says. */
	if ((stamp_hidden(mixed) & control.content_mask) == 0 && write_filling(ctx, size->bytes))
		return -1;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	return control.ip_version == 4 ? write_ipv4(data, end, lane, ends, size, stamp, datagram)
				       : write_ipv6(data, end, lane, ends, size, stamp, datagram);
}

/* Sends the lane's next frame. */
static __always_inline int send_frame(struct xdp_md *ctx, struct core *core, __u32 core_number, __u32 lane_number,
				      const struct phase *phase)
{
	struct sender *sender = &core->senders[lane_number];
	const struct lane *lane = &control.lanes[lane_number];
	__u32 mix = next_mix(sender, lane);
	const struct mix_size *size = &control.mix[mix];
	bool is_first = size->place == FIRST_FRAGMENT;
	const struct flow *flow = next_flow(sender, core_number, lane_number, is_first);
	__u64 sequence = sender->sent;
	__u64 veil = stamp_veil(&control.secret, core_number, lane_number, sequence >> (control.fragments - 1));
	struct stamp stamp;
	struct ends ends;
	__u64 now, mixed;

	if (!flow)
		return XDP_ABORTED;
	/* A frame that is not timed carries the last reading, which says roughly when it was sent. */
	now = is_timed(veil, control.sample_mask) ? read_clock(core) : control.start_ns + (core->now >> SCHEDULE_SHIFT);
	ends = ends_of(flow, lane, flow->server_port, size->place);
	stamp.who = stamp_who(control.mark, core_number, lane_number, mix, sequence, now ^ veil);
	stamp.what = stamp_what(sequence, now ^ veil);
	mixed = stamp_mix(&control.secret, stamp.who, stamp.what, &ends);
	stamp.check = stamp_check(mixed);
	if (write_frame(ctx, lane, size, &ends, &stamp, mixed, datagram_number(&control, sequence, core_number)))
		return XDP_ABORTED;
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

/* A random number below `bound`, which no firewall can foresee. */
static __always_inline __u32 draw_below(__u32 bound)
{
	return (__u64)bpf_get_prandom_u32() * bound >> 32;
}

/* Decides what is wrong with the next forbidden datagram, and when the one after it is due: at no regular distance. */
static __always_inline void begin_forbidden(struct core *core)
{
	const struct forbidden *wrong = &control.forbidden;

	core->forbidden_turn = core->forbidden_turn + 1 < wrong->kind_count ? core->forbidden_turn + 1 : 0;
	core->forbidden_port = bpf_htons(wrong->first_port + draw_below(wrong->ports));
	core->forbidden_source = forbidden_sources[draw_below(wrong->sources) & (MAX_FORBIDDEN_SOURCES - 1)];
	core->forbidden_due = core->now + wrong->interval / 2 + (wrong->interval >> 16) * (bpf_get_prandom_u32() & 0xffff);
}

/* The ends of a forbidden frame of a flow. */
static __always_inline struct ends forbidden_ends(const struct core *core, const struct lane *lane, const struct flow *flow,
						  __u32 kind, __u32 place)
{
	__u32 asked = bpf_ntohs(flow->server_port) - 1;
	__be16 other = bpf_htons((asked + OTHER_SERVER_PORT) % SERVER_PORTS + 1), port = flow->server_port;
	struct ends ends;

	if (kind == FORBIDDEN_PORT)
		port = core->forbidden_port;
	if (kind == FORBIDDEN_ANSWER)
		port = other;
	ends = ends_of(flow, lane, port, place);
	if (kind == FORBIDDEN_SOURCE)
		ends.addresses = ends.addresses >> 32 << 32 | core->forbidden_source;
	return ends;
}

/* Whether a forbidden frame goes out now. They go by time, so that there are few beside any load, and never within a datagram. */
static __always_inline bool forbidden_is_due(const struct core *core)
{
	return core->now >= core->forbidden_due && core->now != 0 && !core->unfinished;
}

/* Sends a frame beside the schedule that the policy forbids, and that is otherwise like the one whose turn it is. Apart, because it is
 * rare: what every frame takes has no branch for it. */
__noinline int send_forbidden(struct xdp_md *ctx)
{
	__u32 core_number = this_core(), second, kind, mix, number;
	struct core *core = &cores[core_number];
	const struct secret *secret = &control.forbidden.secret;
	const struct mix_size *size;
	const struct sender *sender;
	const struct flow *flow;
	const struct lane *lane;
	struct stamp stamp;
	struct ends ends;
	__u64 veiled, mixed;

	number = next_lane(core) & (MAX_LANES - 1);
	sender = &core->senders[number];
	second = core->forbidden_second;
	if (!second)
		begin_forbidden(core);
	core->forbidden_second = 0;
	kind = control.forbidden.kinds[core->forbidden_turn & 3];
	flow = flow_at(core_number, number, sender->flow_next);
	mix = (control.lanes[number].mix_first + sender->mix_next + second) & (MAX_MIX - 1);
	if (kind == FORBIDDEN_ANSWER)
		number = control.forbidden.answer_lane & (MAX_LANES - 1);
	lane = &control.lanes[number];
	size = &control.mix[mix];
	if (!flow)
		return XDP_ABORTED;
	veiled = read_clock(core) ^ stamp_veil(secret, core_number, number, sender->sent);
	ends = forbidden_ends(core, lane, flow, kind, size->place);
	stamp.who = stamp_who(control.mark, core_number, number, mix, sender->sent + second, veiled);
	stamp.what = stamp_what(sender->sent + second, veiled);
	mixed = stamp_mix(secret, stamp.who, stamp.what, &ends);
	stamp.check = stamp_check(mixed);
	if (write_frame(ctx, lane, size, &ends, &stamp, mixed,
			datagram_number(&control, sender->sent, core_number) ^ FORBIDDEN_NUMBERS))
		return XDP_ABORTED;
	core->forbidden_sent++;
	core->forbidden_second = size->place == FIRST_FRAGMENT;
	return bpf_redirect_map(&ports, lane->port, 0);
}

static __always_inline int generate_frame(struct xdp_md *ctx)
{
	__u32 core_number = this_core();
	struct core *core = &cores[core_number];
	const struct phase *phase = &control.phases[core->phase & (MAX_PHASES - 1)];
	__u32 lane;

	if (core->forbidden_second)
		return send_forbidden(ctx);
	if (core->finished)
		return XDP_DROP;
	core->turns++;
	if (forbidden_is_due(core))
		return send_forbidden(ctx);
	lane = (core->unfinished ? core->unfinished - 1 : next_lane(core)) & (MAX_LANES - 1);
	if (!core->unfinished && !is_due(core, &core->senders[lane], phase, lane))
		return XDP_DROP;
	return send_frame(ctx, core, core_number, lane, phase);
}

#endif
