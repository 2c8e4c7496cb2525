/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the action `reject` tells the sender: a reset for TCP, else that an administrator forbids it. */
#ifndef RAMPART_FIREWALL_REJECT_H
#define RAMPART_FIREWALL_REJECT_H

#include "icmp_error.h"
#include "reset.h"

/* As answer_icmp_xdp() and answer_icmp_tc(). */
__noinline int answer_reset_xdp(struct xdp_md *ctx, struct packet *p, __u32 reason)
{
	return p ? answer_reset(ctx, p, HOOK_XDP, reason) : VERDICT_DROP;
}

__noinline int answer_reset_tc(struct __sk_buff *ctx, struct packet *p, __u32 reason)
{
	return p ? answer_reset(ctx, p, HOOK_TC, reason) : VERDICT_DROP;
}

static __always_inline enum verdict answer_reject(void *ctx, struct packet *p, enum hook hook, enum reason reason)
{
	if (p->protocol == PROTOCOL_TCP && !(p->flags & PACKET_LATER_FRAGMENT))
		return hook == HOOK_XDP ? answer_reset_xdp(ctx, p, reason) : answer_reset_tc(ctx, p, reason);
	return answer_icmp(ctx, p, hook, reason, ERROR_PROHIBITED, 0);
}

#endif
