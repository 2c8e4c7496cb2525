/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The firewall answers SYNs for the servers behind it (`syn_proxy`): with a cookie (cookie.h), so that nothing is kept of whoever does not complete his
 * handshake. The acknowledgement of a cookie is judged like the SYN that it stands for, opens the flow, and leaves as a SYN to the server. The client
 * was told a window of 0, so it sends nothing until the server has answered; what the server answers becomes the segment that opens
 * the window, and the acknowledgement that the server waits for. From then on the two differ by constants (renumber.h).
 *
 * A flow waits for its server in FLOW_SYN_SENT. The firewall has no timer: whatever the client sends meanwhile, which is a probe of its window,
 * repeats the SYN.
 */
#ifndef RAMPART_FIREWALL_PROXY_H
#define RAMPART_FIREWALL_PROXY_H

#include "open.h"
#include "reject.h"
#include "renumber.h"
#include "tcp_proof.h"

#define SYN_PROXY_SHIFT 22	/* of EXTRA_SYN_PROXY */
#define SEGMENT_BYTES 40	/* of the firewall's own headers: options are always as long as the longest */
#define TICKS_AGAIN 190		/* from one SYN to the server to the next, at least: 200 ms */
#define TICKS_GIVEN_UP 20000	/* after so long without an answer of the server its client gets a reset: 21 s */
#define HOLD_TICKS 28610	/* `when-full` stays on for so long after there was room again: 30 s */
#define COOKIE_TICKS (2u << COOKIE_SLOT_SHIFT)	/* the most that a cookie is good for */

struct proxy_state proxy_state;

/* Whether the half-open flows ask for cookies: from a half of their budget on, until 30 seconds after they were fewer than a quarter. */
static __always_inline bool is_called_for(const struct packet *p)
{
	__u32 spent = READ_ONCE(pool.spent[BUDGET_HALF_OPEN]), budget = settings.budgets[BUDGET_HALF_OPEN];

	if (spent >= budget / 4 && READ_ONCE(proxy_state.crowded) != p->tick)
		WRITE_ONCE(proxy_state.crowded, p->tick);
	if (!READ_ONCE(proxy_state.is_on)) {
		if (spent < budget / 2)
			return false;
		WRITE_ONCE(proxy_state.is_on, 1);
		tally(TALLY_PROXY_CALLED, 1);
	} else if (spent < budget / 4 && ticks_since(p->tick, READ_ONCE(proxy_state.crowded)) > HOLD_TICKS) {
		WRITE_ONCE(proxy_state.is_on, 0);
		return false;
	}
	return true;
}

static __always_inline bool is_for_a_group(const struct packet *p)
{
	return p->family == 4 ? bpf_ntohl(p->destination[0]) >> 28 >= 14 : bpf_ntohl(p->destination[0]) >> 24 == 0xff;
}

/* What the rule of a packet says of SYNs, or else the settings. */
static __always_inline __u32 proxy_of(const struct packet *p)
{
	__u32 of_rule = (p->extras & EXTRA_SYN_PROXY) >> SYN_PROXY_SHIFT;

	return of_rule ? of_rule - 1 : settings.syn_proxy;
}

/* Whether a SYN that the policy allows is answered by the firewall. */
static __always_inline bool is_proxied_syn(const struct packet *p, const enum hook hook)
{
	__u32 wanted;

	if (has_way(hook) || p->protocol != PROTOCOL_TCP || p->is_proxied)
		return false;
	wanted = proxy_of(p);
	if (wanted == SYN_PROXY_OFF)
		return false;
	if (p->flags & (PACKET_FROM_SELF | PACKET_FIRST_FRAGMENT) || p->to == ZONE_SELF || across(p) || is_for_a_group(p))
		return false;
	return wanted == SYN_PROXY_ON || is_called_for(p);
}

/* Whether a segment of no flow may bring a cookie: one was sent while it would still be good. */
static __always_inline bool may_bring_cookie(const struct packet *p, const enum hook hook)
{
	return READ_ONCE(proxy_state.has_sent) && !has_way(hook) && (p->tcp_flags & TCP_KIND) == TCP_ACK &&
	       !(p->flags & PACKET_FIRST_FRAGMENT) && !across(p) &&
	       ticks_since(p->tick, READ_ONCE(proxy_state.sent)) <= COOKIE_TICKS;
}

static __always_inline void note_cookie(const struct packet *p)
{
	if (READ_ONCE(proxy_state.sent) != p->tick)
		WRITE_ONCE(proxy_state.sent, p->tick);
	if (!READ_ONCE(proxy_state.has_sent))
		WRITE_ONCE(proxy_state.has_sent, 1);
}

/* The options of a segment: no segment size if it is 0, no scale if that is NO_SCALE. `may_sack` belongs to SYNs. */
static __always_inline void put_options(struct segment *s, __u32 mss, __u32 scale, bool may_sack, bool has_stamps, __u32 stamp, __u32 echo)
{
	const __u32 nothing = 0x01010101;

	s->options[0] = bpf_htonl(mss ? TCP_OPTION_MSS << 24 | 4 << 16 | mss : nothing);
	if (has_stamps)
		s->options[1] = bpf_htonl((may_sack ? TCP_OPTION_SACK_PERMITTED << 24 | 2 << 16 : nothing & 0xffff0000) |
					  TCP_OPTION_STAMPS << 8 | 10);
	else
		s->options[1] = bpf_htonl(may_sack ? (nothing & 0xffff0000) | TCP_OPTION_SACK_PERMITTED << 8 | 2 : nothing);
	s->options[2] = bpf_htonl(has_stamps ? stamp : nothing);
	s->options[3] = bpf_htonl(has_stamps ? echo : nothing);
	s->options[4] = bpf_htonl(scale != NO_SCALE ? 0x01000000 | TCP_OPTION_WINDOW_SCALE << 16 | 3 << 8 | scale : nothing);
}

/* Writes the room's segment, with its IP header, so that it ends where the head does. */
static __always_inline void write_segment(struct answer_room *room, const struct packet *p, const struct segment *s, bool is_back)
{
	const __be32 *from = is_back ? p->destination : p->source, *to = is_back ? p->source : p->destination;
	__u32 *words = (void *)room->head + HEAD_BYTES - SEGMENT_BYTES;
	__u32 sum = pseudo_sum(from, to, PROTOCOL_TCP, SEGMENT_BYTES);

	words[0] = is_back ? p->destination_port | (__u32)p->source_port << 16 : p->source_port | (__u32)p->destination_port << 16;
	words[1] = bpf_htonl(s->sequence);
	words[2] = bpf_htonl(s->acknowledgement);
	words[3] = bpf_htonl((SEGMENT_BYTES / 4U) << 28 | s->flags << 16 | (s->window & 0xffff));
	for (int i = 0; i < 5; i++)
		words[5 + i] = s->options[i];
	for (int i = 0; i < SEGMENT_BYTES / 4; i++)
		if (i != 4)
			sum += checksum_word(words[i]);
	words[4] = checksum_fold(sum);
	if (p->family == 4)
		write_ipv4((void *)words - IPV4_BYTES, 0, IPV4_BYTES + SEGMENT_BYTES, PROTOCOL_TCP, from[0], to[0]);
	else
		write_ipv6((void *)words - IPV6_BYTES, SEGMENT_BYTES, PROTOCOL_TCP, from, to);
}

/* Puts the room's segment in the place of the packet, on the packet's own way or back. The packet is then that segment, whose Ethernet header
 * leads back. 0, or it cannot be. */
static __always_inline int become_segment(void *ctx, struct packet *p, const enum hook hook, bool is_back)
{
	__u32 headers = (p->family == 4 ? IPV4_BYTES : IPV6_BYTES) + SEGMENT_BYTES;
	__u32 start = (HEAD_BYTES - headers - p->network) & 0x7f;
	struct answer_room *room = answer_room();
	struct proxy_room *own = proxy_room();

	barrier_var(start);
	if (!room || !own || start > HEAD_BYTES - MAX_LINK_BYTES || turn_ethernet(ctx, p, hook, (void *)room->head + start))
		return -1;
	write_segment(room, p, &own->segment, is_back);
	if (answer_write(ctx, hook, room, start, p->network + headers))
		return -1;
	p->ip_bytes = headers;
	p->frame_bytes = p->network + headers;
	p->transport = p->network + headers - SEGMENT_BYTES;
	p->ttl = ANSWER_HOPS;
	p->tcp_flags = own->segment.flags;
	p->data_bytes = 0;
	p->flags |= PACKET_DONT_FRAGMENT;
	p->is_proxied = 1;
	return 0;
}

__noinline int become_segment_xdp(struct xdp_md *ctx, struct packet *p, __u32 is_back)
{
	return p ? become_segment(ctx, p, HOOK_XDP, is_back) : -1;
}

__noinline int become_segment_tc(struct __sk_buff *ctx, struct packet *p, __u32 is_back)
{
	return p ? become_segment(ctx, p, HOOK_TC, is_back) : -1;
}

static __always_inline int become_segment_at(void *ctx, struct packet *p, const enum hook hook, bool is_back)
{
	return hook == HOOK_XDP ? become_segment_xdp(ctx, p, is_back) : become_segment_tc(ctx, p, is_back);
}

/* Sends the room's segment back to whom the packet came from. */
static __always_inline enum verdict send_back(void *ctx, struct packet *p, const enum hook hook)
{
	if (become_segment_at(ctx, p, hook, true) || !hook_redirected(hook, bpf_redirect(p->ifindex, 0)))
		return drop(p, REASON_ANSWER);
	return VERDICT_SENT;
}

/* Answers a SYN with a cookie. */
static __always_inline enum verdict answer_cookie(void *ctx, struct packet *p, const enum hook hook)
{
	struct proxy_room *room = proxy_room();
	__u32 slot = cookie_slot(p), class;
	__u64 hash;

	if (!room || load_header(ctx, p, room, hook))
		return drop(p, REASON_TRUNCATED);
	go_through_options(0, 0, 0);
	class = class_of_mss(p->family, room->mss);
	hash = cookie_hash(p, slot);
	room->segment.sequence = cookie_of(hash, slot, p->sequence,
					   cookie_options(class, room->scale, room->has_sack, room->has_stamps));
	room->segment.acknowledgement = p->sequence + 1;
	room->segment.flags = TCP_SYN | TCP_ACK;
	room->segment.window = 0;
	put_options(&room->segment, mss_of_class(p->family, MSS_CLASSES - 1), room->scale == NO_SCALE ? NO_SCALE : OUR_SCALE, room->has_sack,
		    room->has_stamps, hash >> 32, room->stamp);
	note_cookie(p);
	if (send_back(ctx, p, hook) != VERDICT_SENT)
		return VERDICT_DROP;
	tally(TALLY_COOKIES, 1);
	return VERDICT_SENT;
}

__noinline int answer_cookie_xdp(struct xdp_md *ctx, struct packet *p)
{
	return p ? answer_cookie(ctx, p, HOOK_XDP) : VERDICT_DROP;
}

__noinline int answer_cookie_tc(struct __sk_buff *ctx, struct packet *p)
{
	return p ? answer_cookie(ctx, p, HOOK_TC) : VERDICT_DROP;
}

static __always_inline enum verdict answer_cookie_at(void *ctx, struct packet *p, const enum hook hook)
{
	return hook == HOOK_XDP ? answer_cookie_xdp(ctx, p) : answer_cookie_tc(ctx, p);
}

/* Reads the cookie that an acknowledgement brings into the room. Returns 1 if it is one of ours, and good. */
static __always_inline int read_cookie(void *ctx, struct packet *p, const enum hook hook)
{
	__u32 sum = p->acknowledgement - p->sequence, slot = cookie_slot(p), options, scale;
	struct proxy_room *room = proxy_room();
	struct proxied *k;
	__u64 hash;

	if (!room)
		return 0;
	if ((slot & 1) != sum >> 31)
		slot--;
	hash = cookie_hash(p, slot);
	options = (sum - (__u32)hash) & COOKIE_BITS;
	if (options >= COOKIE_NUMBERS || load_header(ctx, p, room, hook))
		return 0;
	go_through_options(0, 0, 0);
	k = &room->opening;
	k->cookie = p->acknowledgement - 1;
	k->stamp = hash >> 32;
	/* A probe of the shut window has the number before. */
	k->first = p->sequence - !(options & 1);
	options >>= 1;
	scale = options >> 2 & 15;
	k->has_stamps = options & 1;
	if (k->has_stamps && (!room->has_stamps || room->echo != k->stamp))
		return 0;
	k->has_sack = options >> 1 & 1;
	k->mss = mss_of_class(p->family, options >> 6 & 3);
	k->scale = scale;
	k->server_scale = NO_SCALE;
	k->client_stamp = room->stamp;
	k->shift = k->stamp_shift = 0;
	k->window = rescaled(p->window, scale == NO_SCALE ? 0 : scale, 0);
	return 1;
}

__noinline int read_cookie_xdp(struct xdp_md *ctx, struct packet *p)
{
	return p ? read_cookie(ctx, p, HOOK_XDP) : 0;
}

__noinline int read_cookie_tc(struct __sk_buff *ctx, struct packet *p)
{
	return p ? read_cookie(ctx, p, HOOK_TC) : 0;
}

static __always_inline int read_cookie_at(void *ctx, struct packet *p, const enum hook hook)
{
	return hook == HOOK_XDP ? read_cookie_xdp(ctx, p) : read_cookie_tc(ctx, p);
}

/* Turns the acknowledgement of a cookie into the SYN that the cookie stands for. */
static __always_inline void stand_for_syn(struct packet *p)
{
	const struct proxy_room *room = proxy_room();
	const struct proxied *k;

	if (!room)
		return;
	k = &room->opening;
	p->tcp_flags = TCP_SYN;
	p->sequence = k->first;
	p->acknowledgement = 0;
	p->data_bytes = 0;
	p->window = k->window;
	p->scale = k->scale == NO_SCALE ? 0 : k->scale;
	if (k->scale != NO_SCALE)
		p->flags |= PACKET_SCALES;
	p->is_proxied = 1;
}

/* What the header of an acknowledgement says again, whose SYN the policy refuses: its sender knows these numbers. */
static __always_inline void restore_acknowledgement(struct packet *p)
{
	const struct proxy_room *room = p->is_proxied ? proxy_room() : 0;

	if (!room)
		return;
	p->tcp_flags = TCP_ACK;
	p->sequence = room->opening.first + 1;
	p->acknowledgement = room->opening.cookie + 1;
}

static __always_inline void put_syn(struct proxy_room *room, const struct proxied *k)
{
	struct segment *s = &room->segment;

	s->sequence = k->first;
	s->acknowledgement = 0;
	s->flags = TCP_SYN;
	s->window = k->window;
	put_options(s, k->mss, k->scale, k->has_sack, k->has_stamps, k->client_stamp, 0);
}

/* The packet that brought a cookie becomes the SYN for the server; its flow is open. 0, or why it is dropped. */
__noinline int keep_proxied(struct packet *p)
{
	struct proxy_room *room = proxy_room();
	__u32 record;
	struct flow *flow;

	if (!p || !room)
		return REASON_TABLE_FULL;
	record = p->record & RECORD_MASK;
	flow = lookup(&flows, record);
	if (!flow)
		return REASON_TABLE_FULL;
	room->opening.number = flow->number;
	if (bpf_map_update_elem(&proxied_flows, &record, &room->opening, BPF_ANY)) {
		remove_flow(flow, p->record, END_UNSEEN);
		return REASON_TABLE_FULL;
	}
	put_syn(room, &room->opening);
	tally(TALLY_COOKIES_TAKEN, 1);
	return 0;
}

static __always_inline int ask_server(void *ctx, struct packet *p, const enum hook hook)
{
	int reason = keep_proxied(p);

	if (!reason && become_segment_at(ctx, p, hook, false))
		reason = REASON_ANSWER;
	return reason;
}

/* The client has said something while the server has not. VERDICT_NEXT: it is the SYN once more. */
static __always_inline enum verdict hear_client(void *ctx, struct packet *p, struct flow *flow, struct proxied *k, struct proxy_room *room,
						const enum hook hook)
{
	__u8 kind = p->tcp_flags & TCP_KIND;
	struct segment *s = &room->segment;

	if (kind == TCP_SYN)
		return p->sequence == k->first ? drop(p, REASON_TCP_STATE) : answer_cookie_at(ctx, p, hook);
	if (kind & TCP_RST) {
		if (p->sequence - k->first > 1)
			return drop(p, REASON_TCP_RESET);
		if (prove_at(ctx, p, flow, hook) != PROVED)
			return drop(p, REASON_TCP_CHECKSUM);
		move(flow, FLOW_SYN_SENT, FLOW_RESET);
		s->sequence = k->first + 1;
		s->acknowledgement = 0;
		s->flags = TCP_RST;
		s->window = 0;
		put_options(s, 0, NO_SCALE, false, false, 0, 0);
		return become_segment_at(ctx, p, hook, false) ? drop(p, REASON_ANSWER) : VERDICT_NEXT;
	}
	if (kind != TCP_ACK)
		return drop(p, REASON_TCP_STATE);
	if (p->acknowledgement != k->cookie + 1 || p->sequence - k->first > 1) {
		/* Another connection of the same ends, of a client that began anew. */
		if (!may_bring_cookie(p, hook) || !read_cookie_at(ctx, p, hook))
			return drop(p, REASON_TCP_STATE);
		remove_flow(flow, p->record, END_CLOSED);
		return VERDICT_ANEW;
	}
	if (ticks_since(p->tick, flow->opened) > TICKS_GIVEN_UP) {
		remove_flow(flow, p->record, END_IDLE);
		return hook == HOOK_XDP ? answer_reset_xdp(ctx, p, REASON_TCP_STATE) : answer_reset_tc(ctx, p, REASON_TCP_STATE);
	}
	if (ticks_since(p->tick, flow->seen) < TICKS_AGAIN)
		return drop(p, REASON_TCP_STATE);
	put_syn(room, k);
	return become_segment_at(ctx, p, hook, false) ? drop(p, REASON_ANSWER) : VERDICT_NEXT;
}

/* The acknowledgement that a server waits for. */
static __always_inline void put_acknowledgement(struct segment *s, const struct proxied *k)
{
	s->sequence = k->first + 1;
	s->acknowledgement = k->cookie + k->shift + 1;
	s->flags = TCP_ACK;
	s->window = k->scale == NO_SCALE || k->server_scale == NO_SCALE ? k->window : k->window >> (k->scale & 15);
	put_options(s, 0, NO_SCALE, false, k->has_stamps, k->client_stamp, k->stamp + k->stamp_shift);
}

/* The server has accepted: what it said becomes the segment that opens the client's window. VERDICT_NEXT: it is that. */
static __always_inline enum verdict meet_server(void *ctx, struct packet *p, struct flow *flow, struct proxied *k, struct proxy_room *room,
						const enum hook hook)
{
	__u32 window = p->window;
	int reason;

	if (load_header(ctx, p, room, hook))
		return drop(p, REASON_TRUNCATED);
	go_through_options(0, 0, 0);
	k->server_scale = room->scale;
	k->stamp_shift = room->has_stamps ? room->stamp - k->stamp : 0;
	k->shift = p->sequence - k->cookie;
	/* The client's windows are scaled, because it was told so. */
	if (k->scale != NO_SCALE)
		p->flags |= PACKET_SCALES;
	reason = track_tcp(p, flow);
	if (reason)
		return drop(p, reason);
	/* The client has acknowledged the cookie, and that is what this answers. */
	move(flow, FLOW_SYN_RECEIVED, FLOW_ESTABLISHED);
	note_answered(flow);
	if (hook == HOOK_TC) {
		put_acknowledgement(&room->segment, k);
		if (become_segment_tc(ctx, p, true))
			return drop(p, REASON_ANSWER);
		bpf_clone_redirect(ctx, p->ifindex, 0);
	}
	room->segment.sequence = k->cookie + 1;
	room->segment.acknowledgement = k->first + 1;
	room->segment.flags = TCP_ACK;
	room->segment.window = k->scale == NO_SCALE ? window : rescaled(window, 0, OUR_SCALE);
	put_options(&room->segment, 0, NO_SCALE, false, k->has_stamps, k->stamp, k->client_stamp);
	return become_segment_at(ctx, p, hook, false) ? drop(p, REASON_ANSWER) : VERDICT_NEXT;
}

/* The server refuses: its reset gets the number that the client waits for. */
static __always_inline enum verdict pass_refusal(void *ctx, struct packet *p, struct flow *flow, struct proxied *k, struct proxy_room *room,
						 const enum hook hook)
{
	struct segment *s = &room->segment;
	int reason = track(ctx, p, flow, hook);

	if (reason)
		return drop(p, reason);
	s->sequence = k->cookie + 1;
	s->acknowledgement = k->first + 1;
	s->flags = TCP_RST | TCP_ACK;
	s->window = 0;
	put_options(s, 0, NO_SCALE, false, false, 0, 0);
	return become_segment_at(ctx, p, hook, false) ? drop(p, REASON_ANSWER) : VERDICT_NEXT;
}

/* A segment of a flow whose server has not answered yet. */
static __always_inline enum verdict await_server(void *ctx, struct packet *p, struct flow *flow, struct proxied *k, const enum hook hook)
{
	struct proxy_room *room = proxy_room();
	__u8 kind = p->tcp_flags & TCP_KIND;

	if (!room)
		return drop(p, REASON_TCP_STATE);
	if ((p->side & 1) == (flow->initiator & 1))
		return hear_client(ctx, p, flow, k, room, hook);
	if (kind & TCP_RST)
		return pass_refusal(ctx, p, flow, k, room, hook);
	if (kind == (TCP_SYN | TCP_ACK) && p->acknowledgement == k->first + 1)
		return meet_server(ctx, p, flow, k, room, hook);
	/* It answers something else, of an older connection: RFC 9293 section 3.10.7.3 has the client reset that. Two SYNs never meet here. */
	if (!(kind & TCP_ACK))
		return drop(p, REASON_TCP_STATE);
	return hook == HOOK_XDP ? answer_reset_xdp(ctx, p, REASON_TCP_STATE) : answer_reset_tc(ctx, p, REASON_TCP_STATE);
}

/* The server repeats its SYN-ACK, because the acknowledgement was lost, or could not be sent beside the client's segment. */
static __always_inline bool repeats_answer(const struct packet *p, const struct proxied *k)
{
	return (p->tcp_flags & TCP_KIND) == (TCP_SYN | TCP_ACK) && p->acknowledgement == k->first + 1 &&
	       p->sequence == k->cookie + k->shift;
}

/* Follows a segment of a flow that a cookie opened, in the server's numbers. VERDICT_NEXT: it may pass; VERDICT_ANEW: the flow is no more, and
 * the packet opens another. */
static __always_inline enum verdict follow_proxied(void *ctx, struct packet *p, struct flow *flow, const enum hook hook)
{
	bool is_clients = (p->side & 1) == (flow->initiator & 1);
	struct proxied *k = proxied_of(flow, p->record);
	struct proxy_room *room = proxy_room();
	__u32 shift;
	int reason;

	if (!k || !room)
		return drop(p, REASON_TCP_STATE);
	if (flow->state == FLOW_SYN_SENT)
		return await_server(ctx, p, flow, k, hook);
	if (!is_clients && repeats_answer(p, k)) {
		put_acknowledgement(&room->segment, k);
		return send_back(ctx, p, hook);
	}
	/* The server has the connection no more, and answers a late SYN. The client begins anew when it repeats that. */
	if (!is_clients && (p->tcp_flags & TCP_KIND) == (TCP_SYN | TCP_ACK) && answers_late_syn(flow, p)) {
		remove_flow(flow, p->record, END_CLOSED);
		return drop(p, REASON_TCP_STATE);
	}
	shift = is_clients && p->tcp_flags & TCP_ACK ? k->shift : 0;
	p->acknowledgement += shift;
	reason = track(ctx, p, flow, hook);
	/* What refuses it later answers by its own numbers. */
	p->acknowledgement -= shift;
	return reason ? drop(p, reason) : VERDICT_NEXT;
}

__noinline int follow_proxied_xdp(struct xdp_md *ctx, struct packet *p, struct flow *flow)
{
	return p && flow ? follow_proxied(ctx, p, flow, HOOK_XDP) : VERDICT_DROP;
}

__noinline int follow_proxied_tc(struct __sk_buff *ctx, struct packet *p, struct flow *flow)
{
	return p && flow ? follow_proxied(ctx, p, flow, HOOK_TC) : VERDICT_DROP;
}

static __always_inline enum verdict follow_proxied_at(void *ctx, struct packet *p, struct flow *flow, const enum hook hook)
{
	/* The firewall's own connections are none of these, but a route may change. */
	if (has_way(hook))
		return drop(p, REASON_TCP_STATE);
	return hook == HOOK_XDP ? follow_proxied_xdp(ctx, p, flow) : follow_proxied_tc(ctx, p, flow);
}

#endif
