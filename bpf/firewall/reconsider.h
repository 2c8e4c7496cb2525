/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Known flows under a policy that is newer than they are, or in a zone that their route did not lead to before. */
#ifndef RAMPART_FIREWALL_RECONSIDER_H
#define RAMPART_FIREWALL_RECONSIDER_H

#include "gateway.h"
#include "tables.h"
#include "watch.h"

/* Asks the policy again about a flow, of which this packet goes to a zone: the policy is new, or the zone is. VERDICT_NEXT: it goes on;
 * VERDICT_DROP: it is gone, and `p` says what to do. */
__noinline int reconsider(struct packet *p, struct flow *flow, __u32 zone)
{
	__u8 zones[2];
	__u32 mark;

	if (!p || !flow)
		return VERDICT_NEXT;
	mark = READ_ONCE(flow->mark);
	zones[0] = p->side & 1 ? zone : flow->zone[0];
	zones[1] = p->side & 1 ? flow->zone[1] : zone;
	judge_flow(p, flow, zones);
	if (!p->generation)
		return VERDICT_NEXT;
	tally(TALLY_JUDGED_AGAIN, 1);
	if (p->action == ACTION_ALLOW) {
		mark_again(p, flow, mark);
		flow->generation = p->generation;
		return VERDICT_NEXT;
	}
	/* Whoever reads of it wants to know where it went. */
	p->to = zone;
	if (remove_flow(flow, p->record, END_FORCED))
		tally(TALLY_REVOKED, 1);
	return VERDICT_DROP;
}

/* The same of a flow whose sender is in another zone than before. Unlike above the flow stays if the policy refuses: whether it was the sender is not
 * known for sure. */
__noinline int reconsider_sender(struct packet *p, struct flow *flow)
{
	__u8 zones[2];
	__u32 mark;

	if (!p || !flow)
		return VERDICT_DROP;
	mark = READ_ONCE(flow->mark);
	zones[0] = p->side & 1 ? flow->zone[0] : p->from;
	zones[1] = p->side & 1 ? p->from : flow->zone[1];
	judge_flow(p, flow, zones);
	if (!p->generation || p->action != ACTION_ALLOW)
		return VERDICT_DROP;
	tally(TALLY_JUDGED_AGAIN, 1);
	mark_again(p, flow, mark);
	flow->generation = p->generation;
	return VERDICT_NEXT;
}

/* The same of a flow that the gateway has taken, by the zone that it would lead to. It is gone as well if it is that gateway's no more. */
__noinline int reconsider_gateways(struct packet *p, struct flow *flow, __u32 zone)
{
	__u32 initiator, mark;
	__u8 zones[2];

	if (!p || !flow)
		return VERDICT_NEXT;
	/* It begins anew, and is judged as what it is: it may be another gateway's. */
	if (is_closed(flow->state) && is_opening(p))
		return VERDICT_NEXT;
	mark = READ_ONCE(flow->mark);
	initiator = flow->initiator & 1;
	zones[initiator] = flow->zone[initiator];
	zones[initiator ^ 1] = zone;
	judge_flow(p, flow, zones);
	if (!p->generation)
		return VERDICT_NEXT;
	tally(TALLY_JUDGED_AGAIN, 1);
	if (p->action == ACTION_ALLOW && p->extras & EXTRA_GATEWAY && gateway_of_rule(p) == gateway_of(flow)) {
		mark_again(p, flow, mark);
		flow->generation = p->generation;
		return VERDICT_NEXT;
	}
	/* Its other end is to hear of it, whatever the rule says. */
	p->action = ACTION_REJECT;
	p->to = zone;
	if (remove_flow(flow, p->record, END_FORCED))
		tally(TALLY_REVOKED, 1);
	return VERDICT_DROP;
}

/* Asks a new policy about a known flow. */
static __always_inline int judge_again(void *ctx, struct packet *p, struct flow *flow, const enum hook hook)
{
	if (hook == HOOK_NETFILTER || !is_of_gateway(flow))
		return reconsider(p, flow, flow->zone[(p->side & 1) ^ 1]);
	return reconsider_gateways(p, flow, hook == HOOK_XDP ? zone_behind_xdp(ctx, p, flow) : zone_behind_tc(ctx, p, flow));
}

/* Whether the policy refuses the flow that a packet accompanies by now, if one end of it were in the zone `p->to`. There is no room on the stack for
 * more. */
__noinline int is_refused(struct packet *p, __u32 end)
{
	struct flow *flow = p ? lookup(&flows, p->record & RECORD_MASK) : 0;
	__u32 initiator;
	__u8 from, to;

	if (!p || !flow)
		return 1;
	initiator = flow->initiator & 1;
	from = (end & 1) == initiator ? p->to : flow->zone[initiator];
	to = (end & 1) == initiator ? flow->zone[initiator ^ 1] : p->to;
	judge_flow_to(p, flow, from, to, true);
	if (!p->generation)
		return 0;
	return p->action != ACTION_ALLOW || (is_of_gateway(flow) && gateway_of_rule(p) != gateway_of(flow));
}

/* Whether a new policy will end the flow that an error is about, or that a later fragment is of. That is left to the flow's next packet,
 * whose sender is to have an answer. */
static __always_inline bool is_about_refused(void *ctx, struct packet *p, const enum hook hook)
{
	struct flow *flow = lookup(&flows, p->record & RECORD_MASK);
	__u8 to = p->to;
	bool refused;

	if (!flow || flow->generation == settings.generation)
		return false;
	p->to = flow->zone[(flow->initiator & 1) ^ 1];
	if (hook != HOOK_NETFILTER && is_of_gateway(flow))
		p->to = hook == HOOK_XDP ? zone_behind_xdp(ctx, p, flow) : zone_behind_tc(ctx, p, flow);
	refused = is_refused(p, flow->initiator ^ 1);
	p->to = to;
	return refused;
}

/*
 * Whether what accompanies a flow may go to a zone in which its receiver is not known to be: its route has moved, or an initiator sends by one
 * zone and is reached by another. The policy says so, as of the flow's own packets (send_of_flow()), but nothing ends by it.
 */
static __always_inline bool may_go_elsewhere(struct packet *p, __u8 zone)
{
	/* Of a datagram of no flow the policy was asked about one zone. */
	if (p->flags & PACKET_LATER_FRAGMENT && p->flags & PACKET_STATELESS && !(p->flags & PACKET_TRANSLATED))
		return false;
	p->to = zone;
	return !is_refused(p, p->side ^ 1);
}

#endif
