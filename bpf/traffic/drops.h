/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Counts frames that the kernel frees on their way, by its own reason (enum skb_drop_reason), for the loss ledger. */
#ifndef RAMPART_TRAFFIC_DROPS_H
#define RAMPART_TRAFFIC_DROPS_H

#include "state.h"

__u64 drops[MAX_CORES * MAX_DROP_REASONS];

/* Arguments of the tracepoint skb:kfree_skb: skb, location, reason. */
static __always_inline int count_freed_frame(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 reason = ctx->args[2];
	__u32 index = this_core() * MAX_DROP_REASONS + (reason < MAX_DROP_REASONS ? reason : 0);

	if (index < MAX_CORES * MAX_DROP_REASONS)
		drops[index]++;
	return 0;
}

#endif
