/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The way of a packet: parse, find its flow or judge it and open one, forward. The same for both hooks. */
#ifndef RAMPART_FIREWALL_CORE_H
#define RAMPART_FIREWALL_CORE_H

#include "alias.h"
#include "forward.h"
#include "fragments.h"
#include "gateway.h"
#include "mapping.h"
#include "nat.h"
#include "open.h"
#include "parse.h"
#include "ports.h"
#include "prefix.h"
#include "proxy.h"
#include "reconsider.h"
#include "reject.h"
#include "related.h"
#include "scan.h"
#include "source.h"
#include "stations.h"
#include "tables.h"
#include "tcp_proof.h"
#include "watch.h"

/* Hits of rules, a row for each core. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);	/* set before loading */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} hits SEC(".maps");

static __always_inline void count_hit(__u32 slot)
{
	__u64 *count;

	if (slot >= hit_slots)
		return;
	count = lookup(&hits, bpf_get_smp_processor_id() * hit_slots + slot);
	if (count)
		*count += 1;
}

/* In refused.h. */
int hand_refused(struct bpf_nf_ctx *ctx, struct packet *p);

/* Answers a packet that is dropped, and returns what becomes of it then. */
static __always_inline enum verdict answer_refusal(void *ctx, struct packet *p, const enum hook hook, enum reason reason)
{
	if (hook != HOOK_NETFILTER)
		return answer_reject(ctx, p, hook, reason);
	hand_refused(ctx, p);
	return drop(p, reason);
}

/* Whether a packet may have an answer. Of the firewall's own one that leaves by a link without Ethernet headers has none: no frame could
 * come in by the loopback interface in its place. Nor has a copy: others of the same frame may be allowed. */
static __always_inline bool has_answer(const struct packet *p, const enum hook hook)
{
	return !p->is_copy && (hook != HOOK_OUT || p->network >= ETHERNET_BYTES);
}

/* Drops what the policy refuses, and answers the sender if its rule says so. Who asks everybody on a link has no answer, by whatever frame he
 * does (RFC 1122 section 3.2.2): it would come from an address that nobody has. */
static __always_inline enum verdict refuse(void *ctx, struct packet *p, const enum hook hook)
{
	count_hit(p->slot);
	restore_destination(p);
	restore_acknowledgement(p);
	if (p->extras)
		note_refused(p);
	if (p->action == ACTION_REJECT && has_answer(p, hook) && !is_for_group(p))
		return answer_refusal(ctx, p, hook, refusal_of(p));
	return drop(p, refusal_of(p));
}

__noinline int refuse_xdp(struct xdp_md *ctx, struct packet *p)
{
	return p ? refuse(ctx, p, HOOK_XDP) : VERDICT_DROP;
}

__noinline int refuse_tc(struct __sk_buff *ctx, struct packet *p)
{
	return p ? refuse(ctx, p, HOOK_TC) : VERDICT_DROP;
}

__noinline int refuse_out(struct __sk_buff *ctx, struct packet *p)
{
	return p ? refuse(ctx, p, HOOK_OUT) : VERDICT_DROP;
}

static __always_inline enum verdict refuse_at(void *ctx, struct packet *p, const enum hook hook)
{
	if (hook == HOOK_NETFILTER)
		return refuse(ctx, p, HOOK_NETFILTER);
	if (hook == HOOK_OUT)
		return refuse_out(ctx, p);
	return hook == HOOK_XDP ? refuse_xdp(ctx, p) : refuse_tc(ctx, p);
}

/* Drops what is beyond a limit of the rule that would allow it. */
static __always_inline enum verdict exceed(struct packet *p, int reason)
{
	count_hit(p->slot);
	return drop(p, reason);
}

/* Whether a query of ICMP goes the way of an answer, or an answer that of the query. Who asks by the number that stands for the kind of question
 * has a flow whose ends are alike in both directions; the other end may not ask back by it. */
static __always_inline bool is_turned_query(const struct packet *p, const struct flow *flow)
{
	bool answers = p->flags & PACKET_ICMP_REPLY;

	return p->protocol == (p->family == 4 ? PROTOCOL_ICMP : PROTOCOL_ICMPV6) &&
	       answers == ((p->side & 1) == (flow->initiator & 1));
}

/* Takes away a flow that is over: its packet opens another one, if it may. */
static __always_inline enum verdict clear_over(struct packet *p, struct flow *flow, int *over)
{
	*over = 1;
	if (remove_flow(flow, p->record, END_IDLE))
		tally(TALLY_CLOSED, 1);
	return VERDICT_NEXT;
}

/* A packet of a known flow. VERDICT_NEXT: it may pass. `over` is set when the flow is no more. */
static __always_inline enum verdict follow(void *ctx, struct packet *p, struct flow *flow, int *over, const enum hook hook)
{
	__u32 side = p->side & 1, reason;
	__u8 to = flow->zone[side ^ 1];

	if (flow->zone[side] != p->from && !follow_station(ctx, p, flow, hook))
		return drop(p, REASON_FLOW_ZONE);
	if ((!is_seen_now(flow, p) && is_expired(flow, tick_of(p->era, p->tick), 0)) ||
	    (is_closed(flow->state) && (is_opening(p) || flow->protocol != PROTOCOL_TCP) && !ends_before(p, to)))
		return clear_over(p, flow, over);
	p->to = to;
	if (is_turned_query(p, flow))
		return drop(p, REASON_ICMP_UNASKED);
	if (ends_before(p, to))
		return VERDICT_NEXT;
	if (p->flags & PACKET_TRANSLATED && is_proxied(flow)) {
		enum verdict verdict = follow_proxied_at(ctx, p, flow, hook);

		*over = verdict == VERDICT_ANEW;
		if (verdict != VERDICT_NEXT)
			return *over ? VERDICT_NEXT : verdict;
	} else if (flow->protocol == PROTOCOL_TCP) {
		reason = track(ctx, p, flow, hook);
		/* Another core may have closed it since it was looked at: no SYN does, whatever was made of this one. */
		if (is_opening(p) && is_closed(flow->state))
			return clear_over(p, flow, over);
		if (reason)
			return drop(p, reason);
	} else if (flow->state == FLOW_ONE_WAY && side != (flow->initiator & 1)) {
		move(flow, FLOW_ONE_WAY, FLOW_TWO_WAY);
		note_answered(flow);
	}
	if (!is_closed(flow->state) && !is_seen_now(flow, p)) {
		if ((flow->seen ^ p->tick) >> MAPPING_SHIFT && is_mapped(flow))
			refresh_mapping(p, flow);
		note_seen(flow, p);
	}
	count_packet(flow, p);
	return VERDICT_NEXT;
}

__noinline int route_xdp(struct xdp_md *ctx, struct packet *p)
{
	return p ? route(ctx, p, HOOK_XDP) : VERDICT_DROP;
}

__noinline int route_tc(struct __sk_buff *ctx, struct packet *p)
{
	return p ? route(ctx, p, HOOK_TC) : VERDICT_DROP;
}

/*
 * TCP of no known flow that opens none. After a start that could not take all flows of the firewall before it, both ends of
 * what was lost get a reset, rather than wait.
 */
static __always_inline enum verdict refuse_stranger(void *ctx, struct packet *p, const enum hook hook)
{
	if (whole_tick() >= settings.strangers_until || !has_answer(p, hook))
		return drop(p, REASON_TCP_NO_FLOW);
	return answer_refusal(ctx, p, hook, REASON_TCP_NO_FLOW);
}

/* Counts what the policy refuses for its source, unless the way back shows that the source is forged. */
static __always_inline void note_in_vain(void *ctx, struct packet *p, const enum hook hook)
{
	if (!is_from_self(p, hook) && settings.scan_window && is_asking(p) && !check_way_back_at(ctx, p, hook))
		count_in_vain(p);
}

/* Opens the flow of a packet that the policy allows. 0, or why it cannot be. */
static __always_inline int open_admitted(struct packet *p, const enum hook hook)
{
	int reason;

	if (is_from_self(p, hook) || !(p->flags & PACKET_TRANSLATED))
		return open_flow(p);
	if (p->family == 6)
		return open_prefixed(p);
	reason = open_mapping(p, 0) ?: open_mapping(p, 1);
	return reason ?: open_translated(p);
}

/* A packet that the policy decides about. VERDICT_NEXT: it may pass. */
static __always_inline enum verdict admit(void *ctx, struct packet *p, const enum hook hook)
{
	enum verdict verdict;
	int reason = check_ends(p);

	if (reason)
		return drop(p, reason);
	if (p->protocol == PROTOCOL_TCP && !is_opening(p)) {
		if (!may_bring_cookie(p, hook))
			return refuse_stranger(ctx, p, hook);
		if (!read_cookie_at(ctx, p, hook))
			return drop(p, REASON_COOKIE);
		stand_for_syn(p);
	}
	if (p->flags & PACKET_ICMP_REPLY)
		return drop(p, REASON_ICMP_UNASKED);
	if (settings.scan_block && !is_from_self(p, hook) && is_blocked(p))
		return drop(p, REASON_SCAN_BLOCKED);
	if (!has_way(hook)) {
		/* What crosses a bridge keeps its ends. */
		if (settings.translates && !across(p))
			choose_destination(p);
		verdict = hook == HOOK_XDP ? route_xdp(ctx, p) : route_tc(ctx, p);
		if (verdict != VERDICT_NEXT)
			return verdict;
	}
	reason = judge_packet(p);
	if (reason)
		return drop(p, reason);
	if (p->action != ACTION_ALLOW) {
		note_in_vain(ctx, p, hook);
		return refuse_at(ctx, p, hook);
	}
	reason = check_way_back_at(ctx, p, hook);
	if (reason)
		return drop(p, reason);
	if (p->extras & EXTRA_GATEWAY) {
		verdict = go_to_gateway(ctx, p, hook);
		if (verdict != VERDICT_NEXT)
			return verdict;
	}
	if (ends_before(p, p->to))
		return VERDICT_NEXT;
	/* The route has changed since the cookie was sent. */
	if (p->is_proxied && p->to == ZONE_SELF)
		return drop(p, REASON_COOKIE);
	if (is_proxied_syn(p, hook)) {
		restore_destination(p);
		return answer_cookie_at(ctx, p, hook);
	}
	if (p->extras) {
		reason = ask_rule(p);
		if (reason)
			return exceed(p, reason);
	}
	if (settings.translates && !has_way(hook) && !across(p)) {
		reason = choose_source(p);
		if (reason)
			return exceed(p, reason);
	}
	if (!(p->flags & PACKET_STATELESS)) {
		reason = open_admitted(p, hook);
		if (reason)
			return drop(p, reason);
	}
	if (p->extras) {
		reason = note_opened(p);
		if (reason)
			return exceed(p, reason);
	}
	count_hit(p->slot);
	if (p->is_proxied && !has_way(hook)) {
		reason = ask_server(ctx, p, hook);
		if (reason)
			return drop(p, reason);
	}
	return VERDICT_NEXT;
}

/* Functions that the verifier looks at by themselves: what they found out is forgotten behind them, or it would follow
 * each kind of packet through all that comes after. */
__noinline int parse_xdp(struct xdp_md *ctx, struct packet *p)
{
	struct frame f = { .data = hook_data(ctx, HOOK_XDP), .end = hook_end(ctx, HOOK_XDP), .ctx = ctx, .hook = HOOK_XDP };

	if (!p)
		return VERDICT_DROP;
	p->frame_bytes = f.end - f.data;
	return parse(p, &f);
}

__noinline int parse_tc(struct __sk_buff *ctx, struct packet *p)
{
	struct frame f = { .data = hook_data(ctx, HOOK_TC), .end = hook_end(ctx, HOOK_TC), .ctx = ctx, .hook = HOOK_TC };

	return p ? parse(p, &f) : VERDICT_DROP;
}

__noinline int relate_xdp(struct xdp_md *ctx, struct packet *p)
{
	struct frame f = { .data = hook_data(ctx, HOOK_XDP), .end = hook_end(ctx, HOOK_XDP), .ctx = ctx, .hook = HOOK_XDP };

	return p ? relate(p, &f) : RELATED_NOT;
}

__noinline int relate_tc(struct __sk_buff *ctx, struct packet *p)
{
	struct frame f = { .ctx = ctx, .hook = HOOK_TC };

	if (!p)
		return RELATED_NOT;
	/* The headers in a quote may end beyond what is pulled of every packet. */
	pull_up_to(ctx, MAX_HEADER_BYTES);
	f.data = hook_data(ctx, HOOK_TC);
	f.end = hook_end(ctx, HOOK_TC);
	return relate(p, &f);
}

/* In netfilter.h. */
int parse_netfilter(struct bpf_nf_ctx *ctx, struct packet *p);
int relate_netfilter(struct bpf_nf_ctx *ctx, struct packet *p);

static __always_inline enum verdict parse_at(void *ctx, struct packet *p, const enum hook hook)
{
	if (hook == HOOK_NETFILTER)
		return parse_netfilter(ctx, p);
	return hook == HOOK_XDP ? parse_xdp(ctx, p) : parse_tc(ctx, p);
}

static __always_inline enum related relate_at(void *ctx, struct packet *p, const enum hook hook)
{
	if (hook == HOOK_NETFILTER)
		return relate_netfilter(ctx, p);
	return hook == HOOK_XDP ? relate_xdp(ctx, p) : relate_tc(ctx, p);
}

static __always_inline int keep_fragment_at(void *ctx, struct packet *p, const enum hook hook)
{
	return hook == HOOK_XDP ? keep_fragment_xdp(ctx, p) : keep_fragment_tc(ctx, p);
}

/* An ICMP error or a later fragment. VERDICT_NEXT: it may pass; `judge` is set when the policy must say so. */
static __always_inline enum verdict accompany(void *ctx, struct packet *p, const enum hook hook, int *judge)
{
	enum related related;
	int reason;

	*judge = 0;
	/* The zone, which only the kernel's own forwarding has chosen yet: there are no places of interfaces there. */
	if (has_way(hook))
		p->way = p->to;
	if (p->flags & PACKET_LATER_FRAGMENT) {
		reason = meet_datagram(p);
		if (reason == REASON_FRAGMENT_UNKNOWN && hook != HOOK_NETFILTER && await_first(p)) {
			/* The first one may have come on another core before it could see that this one waits. */
			reason = meet_datagram(p);
			if (reason == REASON_FRAGMENT_UNKNOWN && keep_fragment_at(ctx, p, hook))
				return VERDICT_KEPT;
		}
		if (reason)
			return drop(p, reason);
		related = RELATED_FRAGMENT;
	} else {
		related = relate_at(ctx, p, hook);
	}
	if ((related == RELATED_PASSES || (related == RELATED_FRAGMENT && !(p->flags & PACKET_STATELESS))) &&
	    is_about_refused(ctx, p, hook)) {
		if (related == RELATED_FRAGMENT)
			return drop(p, refusal_of(p));
		related = RELATED_NOT;
		p->flags &= ~PACKET_TRANSLATED;
		p->gateway = 0;
		p->to = has_way(hook) ? p->way : NO_ZONE;
	}
	/* The kernel sends it to another zone than its receiver's. */
	if (has_way(hook) && (related == RELATED_PASSES || related == RELATED_FRAGMENT) && p->to != p->way &&
	    !may_go_elsewhere(p, p->way))
		return drop(p, REASON_FLOW_ZONE);
	switch (related) {
	case RELATED_PASSES:
		reason = check_source(ctx, p, hook);
		if (reason)
			return drop(p, reason);
		tally(TALLY_RELATED, 1);
		p->is_beside = 1;
		return VERDICT_NEXT;
	case RELATED_FRAGMENT:
		p->is_beside = 1;
		return VERDICT_NEXT;
	case RELATED_FALSE:
		return drop(p, REASON_ICMP_UNRELATED);
	default:
		/* The kernel forwards, so the kernel says what cannot be forwarded, also of packets that never became a flow. */
		*judge = !(hook == HOOK_NETFILTER && is_from_self(p, hook));
		return VERDICT_NEXT;
	}
}

__noinline int forward_xdp(struct xdp_md *ctx, struct packet *p)
{
	return p ? forward(ctx, p, HOOK_XDP) : VERDICT_DROP;
}

__noinline int forward_tc(struct __sk_buff *ctx, struct packet *p)
{
	return p ? forward(ctx, p, HOOK_TC) : VERDICT_DROP;
}

static __always_inline enum verdict forward_at(void *ctx, struct packet *p, const enum hook hook)
{
	return hook == HOOK_XDP ? forward_xdp(ctx, p) : forward_tc(ctx, p);
}

/* Translates a packet that waited for its next hop and is parsed anew, by its flow as of this moment. 0, or why it must not leave. */
__noinline int translate_late(struct __sk_buff *ctx, struct packet *p)
{
	struct flow *flow;

	if (!p)
		return REASON_UNTRANSLATABLE;
	find_side(p);
	flow = find_flow(p);
	if (!flow || !is_translated(flow))
		return REASON_UNTRANSLATABLE;
	p->side = sender_of(p, flow);
	p->flags |= PACKET_TRANSLATED;
	return translate_at(ctx, p, HOOK_TC);
}

/* Up to the kernel, out of it, or to another interface. */
static __always_inline enum verdict send(void *ctx, struct packet *p, const enum hook hook)
{
	enum verdict verdict;
	int reason;

	if (p->to == ZONE_SELF || is_from_self(p, hook)) {
		reason = hook != HOOK_NETFILTER && p->flags & PACKET_TRANSLATED ? translate_at(ctx, p, hook) : 0;
		if (reason)
			return drop(p, reason);
		tally(TALLY_UP, 1);
		return hook == HOOK_XDP && p->gateway ? hand_to_gateway(ctx, p) : VERDICT_UP;
	}
	if (hook == HOOK_NETFILTER) {
		tally_forwarded(p->ip_bytes);
		return VERDICT_UP;
	}
	verdict = forward_at(ctx, p, hook);
	/* The route of what accompanies a flow may lead to another zone than its receiver is known to be in. */
	if (verdict == VERDICT_ELSEWHERE && p->is_beside && may_go_elsewhere(p, p->to))
		verdict = forward_at(ctx, p, hook);
	return verdict == VERDICT_ELSEWHERE ? drop(p, REASON_FLOW_ZONE) : verdict;
}

/* A packet of no known flow: it accompanies another one, or the policy decides. */
static __always_inline enum verdict meet(void *ctx, struct packet *p, const enum hook hook)
{
	enum verdict verdict = VERDICT_NEXT;
	int judge = 1;

	if (p->flags & (PACKET_LATER_FRAGMENT | PACKET_ICMP_ERROR))
		verdict = accompany(ctx, p, hook, &judge);
	if (verdict == VERDICT_NEXT && judge)
		verdict = admit(ctx, p, hook);
	if (verdict != VERDICT_NEXT)
		return verdict;
	if (p->flags & PACKET_FIRST_FRAGMENT && !ends_before(p, p->to))
		note_first_fragment(p);
	return send(ctx, p, hook);
}

/* By itself: known flows do not need it, and behind the look for a flow the verifier would follow it once more for each outcome. */
__noinline int meet_xdp(struct xdp_md *ctx, struct packet *p)
{
	return p ? meet(ctx, p, HOOK_XDP) : VERDICT_DROP;
}

__noinline int meet_tc(struct __sk_buff *ctx, struct packet *p)
{
	return p ? meet(ctx, p, HOOK_TC) : VERDICT_DROP;
}

__noinline int meet_out(struct __sk_buff *ctx, struct packet *p)
{
	return p ? meet(ctx, p, HOOK_OUT) : VERDICT_DROP;
}

/* In netfilter.h. */
int meet_netfilter(struct bpf_nf_ctx *ctx, struct packet *p);

static __always_inline enum verdict meet_at(void *ctx, struct packet *p, const enum hook hook)
{
	if (hook == HOOK_NETFILTER)
		return meet_netfilter(ctx, p);
	if (hook == HOOK_OUT)
		return meet_out(ctx, p);
	return hook == HOOK_XDP ? meet_xdp(ctx, p) : meet_tc(ctx, p);
}

/*
 * Sends a packet of a known flow on. Its route may lead to another zone than the flow is known by: a tunnel is down, and what was
 * meant for it would leave in clear. Then the policy is asked about that zone. The responder is in that zone from now on; of an
 * initiator that sends by one zone and is reached by another both are asked, each time. Where the kernel has already
 * decided where the packet leaves to, `p->to` says so.
 */
static __always_inline enum verdict send_of_flow(void *ctx, struct packet *p, struct flow *flow, const enum hook hook)
{
	__u32 to = (p->side & 1) ^ 1;
	enum verdict verdict = VERDICT_NEXT;

	if (!has_way(hook) && p->to == ZONE_SELF) {
		if (is_of_gateway(flow)) {
			p->gateway = gateway_of(flow);
			return send(ctx, p, hook);
		}
		verdict = hook == HOOK_XDP ? route_xdp(ctx, p) : route_tc(ctx, p);
	} else if (!has_way(hook)) {
		verdict = hook == HOOK_XDP ? forward_xdp(ctx, p) : forward_tc(ctx, p);
		if (verdict == VERDICT_ELSEWHERE)
			verdict = VERDICT_NEXT;
	}
	if (verdict != VERDICT_NEXT)
		return verdict;
	if (p->to != flow->zone[to]) {
		if (reconsider(p, flow, p->to) != VERDICT_NEXT)
			return refuse_at(ctx, p, hook);
		if (to != (flow->initiator & 1))
			flow->zone[to] = p->to;
	}
	return send(ctx, p, hook);
}

/* A packet whose flow is over opens another. */
static __always_inline enum verdict begin_anew(void *ctx, struct packet *p, const enum hook hook)
{
	if (p->flags & PACKET_TRANSLATED) {
		p->flags &= ~PACKET_TRANSLATED;
		find_side(p);
	}
	return meet_at(ctx, p, hook);
}

static __always_inline enum verdict filter(void *ctx, struct packet *p, const enum hook hook)
{
	enum verdict verdict = parse_at(ctx, p, hook);
	__u8 way = p->to;
	struct flow *flow;
	int over = 0, reason;

	if (verdict != VERDICT_NEXT)
		return verdict;
	/* Each copy of a datagram is put together by itself. */
	if (p->is_copy)
		p->fragment_id ^= (p->way + 1) << 16;
	if (p->flags & PACKET_FIRST_FRAGMENT && (reason = meet_datagram(p)))
		return drop(p, reason);
	if (p->flags & (PACKET_LATER_FRAGMENT | PACKET_ICMP_ERROR | PACKET_STATELESS))
		return meet_at(ctx, p, hook);
	find_side(p);
	flow = find_flow(p);
	if (!flow && hook != HOOK_NETFILTER)
		flow = find_prefixed(p);
	if (!flow)
		return meet_at(ctx, p, hook);
	if (READ_ONCE(flow->family) & (FLOW_TRANSLATED | FLOW_PROXIED | FLOW_PREFIXED)) {
		if (is_translated(flow))
			p->side = sender_of(p, flow);
		p->flags |= PACKET_TRANSLATED;
	}
	if (flow->generation != settings.generation && judge_again(ctx, p, flow, hook) != VERDICT_NEXT)
		return refuse_at(ctx, p, hook);
	verdict = follow(ctx, p, flow, &over, hook);
	if (verdict != VERDICT_NEXT)
		return verdict;
	if (over) {
		/* Where the flow that is over went says nothing about where another one goes. */
		p->to = has_way(hook) ? way : NO_ZONE;
		return begin_anew(ctx, p, hook);
	}
	if (p->flags & PACKET_FIRST_FRAGMENT && !ends_before(p, p->to))
		note_first_fragment(p);
	if (has_way(hook))
		p->to = way;
	return send_of_flow(ctx, p, flow, hook);
}

#endif
