/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * TCP as seen from between its ends: the state of a connection and the windows in which its segments must lie.
 *
 * The windows are those of Guido van Rooij, "Real stateful TCP packet filtering in IP Filter" (2001): for each end the
 * highest number that it sent, the number up to which the other lets it send, and the largest window that it offered.
 * Selective acknowledgements need no place in it: the right edge of a window is acknowledgement plus window with or without
 * them. Resets are judged as RFC 5961 section 3 has an end judge them, a SYN in a connection is left to the ends
 * (section 4): they alone know the number that a challenge asks for.
 *
 * A segment that would close something must be one that its receiver believes: tcp_proof.h looks at its checksum and at its hop
 * limit before it comes here.
 *
 * Each function returns 0, or the reason (enum reason) why the segment must not pass.
 */
#ifndef RAMPART_FIREWALL_TCP_H
#define RAMPART_FIREWALL_TCP_H

#include "flows.h"

#define TCP_KIND (TCP_SYN | TCP_ACK | TCP_FIN | TCP_RST)
#define OLDEST_ACK 66000	/* how far an acknowledgement may be behind, at least: a whole unscaled window */
#define MOVE_TRIES 4	/* flags lie in the same word, and another core may write them */

static __always_inline bool before(__u32 a, __u32 b) { return (__s32)(a - b) < 0; }
static __always_inline bool after(__u32 a, __u32 b) { return (__s32)(a - b) > 0; }

static __always_inline __u32 end_of(const struct packet *p)
{
	return p->sequence + p->data_bytes + !!(p->tcp_flags & TCP_SYN) + !!(p->tcp_flags & TCP_FIN);
}

/* To another state. Two cores that make the same move count it once. */
static __always_inline void move(struct flow *flow, __u8 from, __u8 to)
{
	for (int i = 0; i < MOVE_TRIES; i++) {
		__u64 old = READ_ONCE(*state_word(flow));

		if ((__u8)(old >> STATE_SHIFT) != from || swap_state(flow, old, from, to))
			return;
	}
}

/* What a SYN, with or without an acknowledgement, says of its sender. The windows of SYNs are never scaled. */
static __always_inline void note_syn(struct flow *flow, const struct packet *p)
{
	__u32 s = p->side & 1;

	flow->end[s] = end_of(p);
	flow->reach[s] = flow->end[s];
	flow->window[s] = p->window ? p->window : 1;
	/* What is here is not far away, and a gateway's flow has something else there. */
	if (flow->zone[s] != ZONE_SELF)
		flow->ttl[s] = p->ttl;
	flow->scales = (flow->scales & (s ? 0x0f : 0xf0)) | (p->scale & 15) << (s * 4);
}

/* The first SYN, and any that begins anew before an answer came. Its data (RFC 7413) may be left unacknowledged. */
static __always_inline void begin_tcp(struct flow *flow, const struct packet *p)
{
	note_syn(flow, p);
	flow->acked[(p->side & 1) ^ 1] = p->sequence + 1;
	flow->flags = p->flags & PACKET_SCALES ? FLOW_SCALES : 0;
}

/* Whether a number acknowledges a SYN, and its data or a part of it. */
static __always_inline bool is_within_syn(__u32 acknowledgement, __u32 first, __u32 end)
{
	return acknowledgement - first <= end - first;
}

/* A SYN before an answer came. The same one again has its data no more, and perhaps no options, but the answer may be to the first one. */
static __always_inline void begin_again(struct flow *flow, const struct packet *p)
{
	__u32 s = p->side & 1, end = flow->end[s];
	bool is_same = flow->acked[s ^ 1] == p->sequence + 1;
	__u8 flags = flow->flags, scales = flow->scales;

	begin_tcp(flow, p);
	if (is_same && after(end, flow->end[s]))
		flow->end[s] = flow->reach[s] = end;
	if (is_same && flags & FLOW_SCALES && !(p->flags & PACKET_SCALES)) {
		flow->flags = flags;
		flow->scales = scales;
	}
}

/* The other end's SYN: windows are scaled if both offer it. */
static __always_inline void answer_syn(struct flow *flow, const struct packet *p)
{
	__u32 s = p->side & 1, r = s ^ 1;
	bool is_same = flow->state == FLOW_SYN_RECEIVED && flow->acked[r] == p->sequence + 1;
	__u8 scales = flow->scales;

	note_syn(flow, p);
	/* As in begin_again(). */
	if (is_same && !(p->flags & PACKET_SCALES)) {
		flow->scales = scales;
	} else if (!(p->flags & PACKET_SCALES)) {
		flow->flags &= ~FLOW_SCALES;
		flow->scales = 0;
	}
	flow->reach[s] = p->sequence + 1 + flow->window[r];
	flow->acked[r] = p->sequence + 1;
}

static __always_inline __u32 window_of(const struct flow *flow, const struct packet *p)
{
	__u32 shift = flow->scales >> (p->side & 1) * 4 & 15;

	return flow->flags & FLOW_SCALES && !(p->tcp_flags & TCP_SYN) ? (__u32)p->window << shift : p->window;
}

static __always_inline bool in_window(const struct flow *flow, const struct packet *p)
{
	__u32 s = p->side & 1, r = s ^ 1, oldest = flow->window[s] > OLDEST_ACK ? flow->window[s] : OLDEST_ACK;

	if (after(p->sequence, flow->reach[s]) || before(end_of(p), flow->end[s] - flow->window[r]))
		return 0;
	if (!(p->tcp_flags & TCP_ACK))
		return 1;
	return !after(p->acknowledgement, flow->end[r]) && !before(p->acknowledgement, flow->end[r] - oldest);
}

/* Moves the windows on by a segment that lies in them. */
static __always_inline void update_windows(struct flow *flow, const struct packet *p)
{
	__u32 s = p->side & 1, r = s ^ 1, end = end_of(p), window = window_of(flow, p), reach;

	if (after(end, flow->end[s]))
		flow->end[s] = end;
	/* A probe of a shut window went beyond it. */
	if (after(end, flow->reach[s]))
		flow->window[r] += end - flow->reach[s];
	if (!(p->tcp_flags & TCP_ACK))
		return;
	if (window > flow->window[s])
		flow->window[s] = window;
	if (after(p->acknowledgement, flow->acked[s]))
		flow->acked[s] = p->acknowledgement;
	/* A shut window lets one byte through, the probe. */
	reach = p->acknowledgement + (window ? window : 1);
	if (after(reach, flow->reach[r]))
		flow->reach[r] = reach;
}

/* Whether an acknowledgement answers the other end's SYN. */
static __always_inline bool acknowledges_syn(const struct flow *flow, const struct packet *p)
{
	__u32 s = p->side & 1;

	return p->tcp_flags & TCP_ACK && is_within_syn(p->acknowledgement, flow->acked[s], flow->end[s ^ 1]);
}

static __always_inline int track_answer(struct flow *flow, const struct packet *p)
{
	__u32 r = (p->side & 1) ^ 1;

	if (!acknowledges_syn(flow, p))
		return REASON_TCP_WINDOW;
	answer_syn(flow, p);
	flow->reach[r] = p->acknowledgement + (p->window ? p->window : 1);
	move(flow, FLOW_SYN_SENT, FLOW_SYN_RECEIVED);
	return 0;
}

static __always_inline int track_syn_sent(struct flow *flow, const struct packet *p)
{
	__u8 kind = p->tcp_flags & TCP_KIND;

	if ((p->side & 1) == (flow->initiator & 1)) {
		if (kind != TCP_SYN)
			return REASON_TCP_STATE;
		begin_again(flow, p);
		return 0;
	}
	if (kind == (TCP_SYN | TCP_ACK)) {
		/* One that answers an older SYN: the initiator resets what began by that (RFC 9293 section 3.5, figure 9). */
		track_answer(flow, p);
		return 0;
	}
	if (kind == TCP_SYN) {
		answer_syn(flow, p);
		flow->reach[flow->initiator & 1] += p->window;
		move(flow, FLOW_SYN_SENT, FLOW_SYN_BOTH);
		return 0;
	}
	/* The other end still knows an older connection, and challenges (RFC 5961 section 4.2). */
	return kind == TCP_ACK && !p->data_bytes ? 0 : REASON_TCP_STATE;
}

static __always_inline void track_fin(struct flow *flow, const struct packet *p)
{
	__u8 both = FLOW_FIN_OF(0) | FLOW_FIN_OF(1);

	if (p->tcp_flags & TCP_FIN)
		flow->flags |= FLOW_FIN_OF(p->side & 1);
	if (flow->flags & both)
		move(flow, FLOW_ESTABLISHED, FLOW_FIN);
	if ((flow->flags & both) == both)
		move(flow, FLOW_FIN, FLOW_LAST_ACK);
	if (flow->state == FLOW_LAST_ACK && flow->acked[0] == flow->end[1] && flow->acked[1] == flow->end[0])
		move(flow, FLOW_LAST_ACK, FLOW_TIME_WAIT);
}

/* Both ends sent a SYN; it is open when both are acknowledged, and may be closing by then. A SYN of another number is the newer one, and not acknowledged. */
static __always_inline int track_syn_both(struct flow *flow, const struct packet *p)
{
	__u32 s = p->side & 1;
	__u8 kind = p->tcp_flags & TCP_KIND;

	if (kind == TCP_SYN) {
		if (end_of(p) != flow->end[s]) {
			answer_syn(flow, p);
			flow->flags &= ~FLOW_ACK_OF(s ^ 1);
		}
		return 0;
	}
	if (!acknowledges_syn(flow, p) || !in_window(flow, p))
		return REASON_TCP_WINDOW;
	update_windows(flow, p);
	flow->flags |= FLOW_ACK_OF(s);
	if ((flow->flags & (FLOW_ACK_OF(0) | FLOW_ACK_OF(1))) == (FLOW_ACK_OF(0) | FLOW_ACK_OF(1))) {
		move(flow, FLOW_SYN_BOTH, FLOW_ESTABLISHED);
		note_answered(flow);
	}
	track_fin(flow, p);
	return 0;
}

/* A segment of a connection that both ends know. Behind the SYNs an end drops what has no acknowledgement (RFC 9293 section
 * 3.10.7.4, fifth). */
static __always_inline int track_open(struct flow *flow, const struct packet *p)
{
	if (!(p->tcp_flags & TCP_ACK))
		return REASON_TCP_STATE;
	if (!in_window(flow, p))
		return REASON_TCP_WINDOW;
	update_windows(flow, p);
	if (flow->flags & FLOW_DOUBTED)
		flow->flags &= ~FLOW_DOUBTED;
	if (p->tcp_flags & TCP_FIN || flow->state == FLOW_LAST_ACK)
		track_fin(flow, p);
	return 0;
}

#define LATE_SYNS 4096		/* a power of two */

/* The last SYN that an end sent into a flow that knows another one: it may be the first of a new connection, of which the
 * firewall only learns by the answer. Kept beside the flows, because few need it; one that loses its place comes again after a
 * second. */
struct late_syn {
	__u32 record;		/* and 1; 0: nothing is here */
	__u32 number;		/* of its flow */
	__u32 end;		/* sequence number behind it */
	__u16 window;
	__u8 scale;
	__u8 scales;		/* it offers to scale windows */
	__u8 side;		/* that sent it */
	__u8 ttl;
	__u16 data;		/* bytes of it (RFC 7413), which may be left unacknowledged */
};

struct late_syn late_syns[LATE_SYNS];

static __always_inline void note_late_syn(const struct flow *flow, const struct packet *p)
{
	const struct late_syn *known = &late_syns[p->record & (LATE_SYNS - 1)];
	bool is_same = known->record == p->record + 1 && known->number == flow->number && known->side == (p->side & 1) &&
		       known->end - known->data == p->sequence + 1, scales = p->flags & PACKET_SCALES;
	__u32 data = p->data_bytes, scale = p->scale & 15;

	/* As in begin_again(). */
	if (is_same && known->data > data)
		data = known->data;
	if (is_same && known->scales && !scales) {
		scales = true;
		scale = known->scale;
	}
	late_syns[p->record & (LATE_SYNS - 1)] = (struct late_syn){
		.record = p->record + 1,
		.number = flow->number,
		.end = p->sequence + 1 + data,
		.data = data,
		.window = p->window,
		.scale = scale,
		.scales = scales,
		.side = p->side & 1,
		.ttl = p->ttl,
	};
}

/* Whether a segment acknowledges the late SYN of the end that it goes to. */
static __always_inline bool answers_late_syn(const struct flow *flow, const struct packet *p)
{
	const struct late_syn *syn = &late_syns[p->record & (LATE_SYNS - 1)];

	return p->tcp_flags & TCP_ACK && syn->record == p->record + 1 && syn->number == flow->number &&
	       syn->side != (p->side & 1) && is_within_syn(p->acknowledgement, syn->end - syn->data, syn->end);
}

/* Whether a number is one that an end has used in this connection, not long ago. */
static __always_inline bool is_used(const struct flow *flow, __u32 side, __u32 number)
{
	__u32 window = flow->window[side ^ 1] > OLDEST_ACK ? flow->window[side ^ 1] : OLDEST_ACK;

	return !after(number, flow->end[side]) && !before(number, flow->end[side] - window);
}

/* Whether a SYN-ACK and the SYN that it answers are those of this very connection, come late: their numbers are both in use. */
static __always_inline bool is_handshake_again(const struct flow *flow, const struct late_syn *syn, const struct packet *p)
{
	__u32 s = p->side & 1;

	return is_used(flow, s ^ 1, syn->end - syn->data - 1) && is_used(flow, s, p->sequence);
}

/* Whether a SYN-ACK answers a late SYN of the initiator. Then its sender did not have the connection, or answers any SYN by a
 * cookie, and it begins anew, with the same ends and from the same side, so that the policy has nothing to say. Who has the
 * connection still answers with a challenge. */
static __always_inline bool begins_anew(struct flow *flow, const struct packet *p)
{
	const struct late_syn *syn = &late_syns[p->record & (LATE_SYNS - 1)];
	__u64 old = READ_ONCE(*state_word(flow));
	__u32 s = flow->initiator & 1;

	if ((p->side & 1) == s || (p->tcp_flags & TCP_KIND) != (TCP_SYN | TCP_ACK) || !answers_late_syn(flow, p))
		return 0;
	if (is_closed(old >> STATE_SHIFT) || is_handshake_again(flow, syn, p) ||
	    !swap_state(flow, old, old >> STATE_SHIFT, FLOW_SYN_SENT))
		return 0;
	flow->flags = syn->scales ? FLOW_SCALES : 0;
	flow->scales = syn->scale << s * 4;
	flow->end[s] = flow->reach[s] = syn->end;
	flow->acked[s ^ 1] = syn->end - syn->data;
	flow->window[s] = syn->window ? syn->window : 1;
	flow->ttl[s] = syn->ttl;
	flow->opened = p->tick;
	return 1;
}

static __always_inline int track_syn_received(struct flow *flow, const struct packet *p)
{
	__u8 kind = p->tcp_flags & TCP_KIND;

	/* The first SYN again, or another one: its receiver answers either, and what it answers shows which one counts. */
	if (kind == TCP_SYN) {
		if (end_of(p) != flow->end[p->side & 1] && p->sequence + 1 != flow->acked[(p->side & 1) ^ 1])
			note_late_syn(flow, p);
		return 0;
	}
	if ((p->side & 1) != (flow->initiator & 1)) {
		if (kind != (TCP_SYN | TCP_ACK))
			return track_open(flow, p);
		begins_anew(flow, p);
		return track_answer(flow, p);
	}
	if (kind & TCP_SYN || !(kind & TCP_ACK))
		return REASON_TCP_STATE;
	if (!in_window(flow, p) || before(p->acknowledgement, flow->acked[p->side & 1]))
		return REASON_TCP_WINDOW;
	move(flow, FLOW_SYN_RECEIVED, FLOW_ESTABLISHED);
	note_answered(flow);
	return track_open(flow, p);
}

/* A reset that closes nothing, and says that something may be amiss. */
static __always_inline int doubt(struct flow *flow)
{
	if (flow->state >= FLOW_ESTABLISHED && !is_closed(flow->state))
		flow->flags |= FLOW_DOUBTED;
	tally(TALLY_RESET_INEXACT, 1);
	return 0;
}

/* Whether a reset refuses a SYN to which an answer, or a reset, has passed here. Who sent the SYN may not have heard that, and believes
 * any reset that acknowledges the SYN (RFC 9293 section 3.10.7.3). */
static __always_inline bool refuses_syn(const struct flow *flow, const struct packet *p)
{
	return (flow->state == FLOW_SYN_RECEIVED || flow->state == FLOW_RESET) &&
	       (p->side & 1) != (flow->initiator & 1) && acknowledges_syn(flow, p);
}

/*
 * A reset closes when its number is exactly the next: what its sender sent last, or its receiver acknowledged last. One that
 * acknowledges a SYN again, or a late one, with number 0, is the answer of an end without the connection and without a listener
 * (RFC 9293 section 3.10.7.1): who sent the SYN waits for it. Of a late SYN it is no proof to us, because a stranger may have sent that
 * SYN, so a connection that is open goes on.
 */
static __always_inline int track_reset(struct flow *flow, const struct packet *p)
{
	__u32 s = p->side & 1, r = s ^ 1;
	__u8 state = flow->state;

	if (state == FLOW_SYN_SENT) {
		/* The initiator's goes to an end that may know an older connection, and checks it. It closes nothing here. */
		if (s == (flow->initiator & 1))
			return 0;
		if (!acknowledges_syn(flow, p))
			return REASON_TCP_RESET;
	} else if (p->sequence != flow->end[s] && p->sequence != flow->acked[r]) {
		bool refuses = refuses_syn(flow, p);

		if (!p->sequence && (refuses || answers_late_syn(flow, p))) {
			if (!is_half_open(state))
				return doubt(flow);
		} else if (refuses) {
			return doubt(flow);
		} else {
			if (!after(p->sequence, flow->acked[r]) || after(p->sequence, flow->reach[s]))
				return REASON_TCP_RESET;
			return doubt(flow);
		}
	}
	if (is_closed(state))
		return 0;
	/* What its sender sent before it may have been lost behind us, and then its receiver does not believe it. */
	if (!is_half_open(state)) {
		flow->reach[s] = p->sequence;
		flow->flags |= FLOW_RESET_OF(s);
	}
	move(flow, state, FLOW_RESET);
	return 0;
}

/*
 * Behind a reset nothing passes, because neither end has the connection any more. But a receiver that waits for an earlier number
 * than the reset's did not believe it, and challenges it (RFC 5961 section 3.2) or goes on: it has the connection still, and so
 * has the flow. The answer of the other end to that, if it is a reset, is an exact one.
 */
static __always_inline int track_after_reset(struct flow *flow, const struct packet *p)
{
	__u32 r = (p->side & 1) ^ 1;
	__u8 both = FLOW_FIN_OF(0) | FLOW_FIN_OF(1), fins = flow->flags & both;
	int reason;

	if (!(flow->flags & FLOW_RESET_OF(r)) || !(p->tcp_flags & TCP_ACK) || p->acknowledgement == flow->reach[r] ||
	    !in_window(flow, p))
		return REASON_TCP_STATE;
	flow->flags &= ~FLOW_RESET_OF(r);
	move(flow, FLOW_RESET, fins == both ? FLOW_LAST_ACK : fins ? FLOW_FIN : FLOW_ESTABLISHED);
	reason = track_open(flow, p);
	flow->flags |= FLOW_DOUBTED;
	return reason;
}

static __always_inline int track_late_syn(struct flow *flow, const struct packet *p)
{
	if (begins_anew(flow, p))
		return track_answer(flow, p);
	if (p->tcp_flags & TCP_ACK)
		return in_window(flow, p) ? 0 : REASON_TCP_WINDOW;
	note_late_syn(flow, p);
	tally(TALLY_SYN_IN_FLOW, 1);
	return 0;
}

__noinline int track_tcp(struct packet *p, struct flow *flow)
{
	if (!p || !flow)
		return REASON_TCP_STATE;
	if (p->tcp_flags & TCP_RST)
		return track_reset(flow, p);
	if (flow->state == FLOW_SYN_SENT)
		return track_syn_sent(flow, p);
	if (flow->state == FLOW_SYN_BOTH)
		return track_syn_both(flow, p);
	if (flow->state == FLOW_SYN_RECEIVED)
		return track_syn_received(flow, p);
	if (flow->state == FLOW_RESET)
		return track_after_reset(flow, p);
	if (p->tcp_flags & TCP_SYN)
		return track_late_syn(flow, p);
	return track_open(flow, p);
}

/* A reset or a FIN of which it is not known whether its receiver will get it and believe it: it closes nothing. Numbers move on as by
 * data, because its receiver may acknowledge them. */
__noinline int track_unproved(struct packet *p, struct flow *flow)
{
	if (!p || !flow)
		return REASON_TCP_STATE;
	if (flow->state < FLOW_ESTABLISHED || is_closed(flow->state))
		return REASON_TCP_STATE;
	if (!in_window(flow, p))
		return REASON_TCP_WINDOW;
	if (!(p->tcp_flags & TCP_RST))
		update_windows(flow, p);
	return 0;
}

#endif
