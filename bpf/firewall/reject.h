/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the action `reject` tells the sender: a reset for TCP, else that an administrator forbids it. */
#ifndef RAMPART_FIREWALL_REJECT_H
#define RAMPART_FIREWALL_REJECT_H

#include "icmp_error.h"
#include "reset.h"

static __always_inline enum verdict answer_reject(void *ctx, struct packet *p, enum hook hook, enum reason reason)
{
	if (p->protocol == PROTOCOL_TCP && !(p->flags & PACKET_LATER_FRAGMENT))
		return answer_reset(ctx, p, hook, reason);
	return answer_icmp(ctx, p, hook, reason, ERROR_PROHIBITED, 0);
}

#endif
