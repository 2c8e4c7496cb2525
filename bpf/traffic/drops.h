/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Counts frames that the kernel frees on their way, by its own reason (enum skb_drop_reason) and by place, for the loss
 * ledger. The sink itself frees every frame that reaches it as a socket buffer, so this runs only in trials whose
 * losses the other counters do not explain: it would tax kernel firewalls and not XDP ones.
 */
#ifndef RAMPART_TRAFFIC_DROPS_H
#define RAMPART_TRAFFIC_DROPS_H

#include "state.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_DROP_PLACES);
	__type(key, struct drop_place);
	__type(value, __u64);
} drops SEC(".maps");

/* Arguments of the tracepoint skb:kfree_skb: skb, location, reason. */
static __always_inline int count_freed_frame(struct bpf_raw_tracepoint_args *ctx)
{
	struct drop_place place = { .location = ctx->args[1], .reason = (__u32)ctx->args[2] };
	__u64 first = 1, *count = bpf_map_lookup_elem(&drops, &place);

	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&drops, &place, &first, BPF_NOEXIST);
	return 0;
}

#endif
