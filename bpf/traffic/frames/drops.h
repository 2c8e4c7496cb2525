/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Counts test frames that the kernel frees on their way, by its own reason (enum skb_drop_reason) and by place, for the
 * loss ledger. What the machine's kernel frees of others' frames, its own neighbour questions among them, is none of
 * the trial's losses. The sink itself frees every frame that reaches it as a socket buffer, so this runs only in trials
 * whose losses the other counters do not explain: it would tax kernel firewalls and not XDP ones.
 */
#ifndef RAMPART_TRAFFIC_FRAMES_DROPS_H
#define RAMPART_TRAFFIC_FRAMES_DROPS_H

#include <bpf/bpf_core_read.h>
#include "stamp.h"
#include "state.h"

/* Of the kernel's socket buffer what leads to its frame. */
struct sk_buff {
	unsigned char *head;
	__u16 network_header;	/* 0 before anybody looked for it */
	__u16 mac_header;
} __attribute__((preserve_access_index));

/* An IPv6 packet up to the end of its stamp, with a fragment header; a TCP header is the longer one. */
struct beginning {
	__u8 bytes[sizeof(struct ipv6) + sizeof(struct fragment) + sizeof(struct tcp) + STAMP_BYTES];
};

struct beginning beginnings[MAX_CORES];	/* not on the stack, where words must be aligned */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_DROP_PLACES);
	__type(key, struct drop_place);
	__type(value, __u64);
} drops SEC(".maps");

/* Whether the frame is one of this trial. */
static __always_inline bool is_test_frame(struct sk_buff *skb)
{
	__u32 network = BPF_CORE_READ(skb, network_header);
	struct beginning *packet = &beginnings[this_core()];
	const struct mix_size *mix;
	struct stamp *stamp;
	struct ends ends;

	if (!network)
		network = BPF_CORE_READ(skb, mac_header) + sizeof(struct ethernet);
	if (bpf_probe_read_kernel(packet, sizeof(*packet), BPF_CORE_READ(skb, head) + network))
		return false;
	stamp = packet->bytes[0] >> 4 == 4 ? ipv4_payload((void *)packet, packet + 1)
					   : ipv6_payload((void *)packet, packet + 1);
	if (stamp == NOT_OURS || stamp_mark(stamp->who) != control.mark)
		return false;
	mix = &control.mix[stamp_mix_position(stamp->who) & (MAX_MIX - 1)];
	if (packet->bytes[0] >> 4 == 4)
		ends = ends_of_ipv4((void *)packet, stamp, mix->place);
	else
		ends = ends_of_ipv6((void *)packet, stamp, mix->place);
	return stamp->check == stamp_check(stamp_mix(&control.secret, stamp->who, stamp->what, &ends));
}

/* Arguments of the tracepoint skb:kfree_skb: skb, location, reason. */
static __always_inline int count_freed_frame(struct bpf_raw_tracepoint_args *ctx)
{
	struct drop_place place = { .location = ctx->args[1], .reason = (__u32)ctx->args[2] };
	__u64 first = 1, *count;

	if (!is_test_frame((struct sk_buff *)ctx->args[0]))
		return 0;
	count = bpf_map_lookup_elem(&drops, &place);
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&drops, &place, &first, BPF_NOEXIST);
	return 0;
}

#endif
