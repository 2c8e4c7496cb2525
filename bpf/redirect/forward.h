/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The least that a forwarder can do to a frame: it finds the zone of the destination among its prefixes, those of two or three zones
 * and the attackers', rewrites the Ethernet addresses, takes one from the TTL or hop limit, and redirects. No rules, no state, no
 * neighbours to look up. What it does not forward it counts.
 */
#ifndef RAMPART_REDIRECT_FORWARD_H
#define RAMPART_REDIRECT_FORWARD_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "../net/headers.h"

#define MAX_ZONES 4 /* the attackers count as one, the last */
#define ADDRESS_WORDS 3 /* both Ethernet addresses of a frame, in words of 32 bits */

/* Where frames to a prefix go. Addresses are in network order, as the frame has them. */
struct zone {
	__u32 v4;
	__u32 v4_mask;
	__u32 v6[2]; /* every zone's IPv6 prefix is a /64, or alone in one */
	__u32 ifindex;
	__u32 addresses[ADDRESS_WORDS]; /* the zone's, then the firewall's, as they begin a frame */
};

const volatile struct zone zones[MAX_ZONES];
const volatile __u32 zone_count;

/* Why a frame was not forwarded: the index into `drops`. Never reuse a number. */
enum drop {
	DROP_MALFORMED = 0,
	DROP_EXPIRED = 1,
	DROP_NO_ZONE = 2,
	DROP_KNOWN = 3,	/* by the known box, as its behaviour says */
	DROP_KINDS = 4,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, DROP_KINDS);
	__type(key, __u32);
	__type(value, __u64);
} drops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, MAX_ZONES);
	__type(key, __u32);
	__type(value, __u32);
} ports SEC(".maps");

static __always_inline int drop(enum drop reason)
{
	__u32 key = reason;
	__u64 *count = bpf_map_lookup_elem(&drops, &key);

	if (count)
		*count += 1;
	return XDP_DROP;
}

/* Sends the frame to zone number `i`. Frames for the zone that they came from are for the firewall itself. */
static __always_inline int forward(struct xdp_md *context, struct ethernet *ethernet, __u32 i)
{
	if (i >= MAX_ZONES)
		return drop(DROP_NO_ZONE);
	if (zones[i].ifindex == context->ingress_ifindex)
		return XDP_PASS;
	/* Whole words, because the compiler moves bytes of unknown alignment one by one. */
	for (int word = 0; word < ADDRESS_WORDS; word++)
		((__u32 *)ethernet)[word] = zones[i].addresses[word];
	return bpf_redirect_map(&ports, i, XDP_DROP);
}

static __always_inline int forward_v4(struct xdp_md *context, struct ethernet *ethernet, void *end)
{
	struct ipv4 *ip = (void *)(ethernet + 1);
	__u32 sum;

	if ((void *)(ip + 1) > end)
		return drop(DROP_MALFORMED);
	for (__u32 i = 0; i < MAX_ZONES; i++) {
		if (i >= zone_count || (ip->destination & zones[i].v4_mask) != zones[i].v4)
			continue;
		if (ip->ttl <= 1)
			return drop(DROP_EXPIRED);
		/* One less in the high byte of its word is one more in that byte of the checksum (RFC 1141). */
		sum = ip->check + bpf_htons(0x0100);
		ip->check = sum + (sum >> 16);
		ip->ttl--;
		return forward(context, ethernet, i);
	}
	return drop(DROP_NO_ZONE);
}

static __always_inline int forward_v6(struct xdp_md *context, struct ethernet *ethernet, void *end)
{
	struct ipv6 *ip = (void *)(ethernet + 1);

	if ((void *)(ip + 1) > end)
		return drop(DROP_MALFORMED);
	for (__u32 i = 0; i < MAX_ZONES; i++) {
		if (i >= zone_count || ip->destination[0] != zones[i].v6[0] ||
		    ip->destination[1] != zones[i].v6[1])
			continue;
		if (ip->hop_limit <= 1)
			return drop(DROP_EXPIRED);
		ip->hop_limit--;
		return forward(context, ethernet, i);
	}
	return drop(DROP_NO_ZONE);
}

static __always_inline int forward_frame(struct xdp_md *context)
{
	void *end = (void *)(long)context->data_end;
	struct ethernet *ethernet = (void *)(long)context->data;

	if ((void *)(ethernet + 1) > end)
		return drop(DROP_MALFORMED);
	if (ethernet->type == bpf_htons(ETHERTYPE_IPV4))
		return forward_v4(context, ethernet, end);
	if (ethernet->type == bpf_htons(ETHERTYPE_IPV6))
		return forward_v6(context, ethernet, end);
	return XDP_PASS;
}

#endif
