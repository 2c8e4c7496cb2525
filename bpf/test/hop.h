/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What an honest router does: it knows where frames from a link go on, writes the Ethernet addresses of that way, and takes one from the
 * TTL or hop limit. For forwarders of tests at the traffic-control hook. */
#ifndef RAMPART_TEST_HOP_H
#define RAMPART_TEST_HOP_H

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "../net/headers.h"

/* linux/pkt_cls.h, which bpf/include has not. */
#define TC_ACT_SHOT 2
#define BYTES_AT (ETHERNET_BYTES + 2)
#define FRAGMENT_AT (ETHERNET_BYTES + 6)
#define TTL_AT_V4 (ETHERNET_BYTES + 8)
#define CHECK_AT_V4 (ETHERNET_BYTES + 10)
#define HOP_LIMIT_AT_V6 (ETHERNET_BYTES + 7)

/* Where frames go on. */
struct way {
	__u32 ifindex;
	__u8 destination[6];
	__u8 source[6];
};

/* By the interface that a frame came in on, or another number that the forwarder gives a way. Filled by testkit::filter. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, struct way);
} ways SEC(".maps");

/* Adds `hops`, which may be negative, to the TTL or hop limit. */
static __always_inline void add_hops(struct __sk_buff *skb, int hops)
{
	__u8 old[2], new[2];

	if (skb->protocol == bpf_htons(ETHERTYPE_IPV6)) {
		if (bpf_skb_load_bytes(skb, HOP_LIMIT_AT_V6, new, 1))
			return;
		new[0] += hops;
		bpf_skb_store_bytes(skb, HOP_LIMIT_AT_V6, new, 1, 0);
		return;
	}
	/* The word of TTL and protocol. */
	if (bpf_skb_load_bytes(skb, TTL_AT_V4, old, 2))
		return;
	new[0] = old[0] + hops;
	new[1] = old[1];
	bpf_skb_store_bytes(skb, TTL_AT_V4, new, 2, 0);
	bpf_l3_csum_replace(skb, CHECK_AT_V4, *(__u16 *)old, *(__u16 *)new, 2);
}

/* The hop that a router is. Both Ethernet addresses lie side by side, in a frame and in a way. */
static __always_inline void take_hop(struct __sk_buff *skb, const struct way *way)
{
	bpf_skb_store_bytes(skb, 0, way->destination, 12, 0);
	add_hops(skb, -1);
}

#endif
