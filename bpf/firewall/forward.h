/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Sends a packet on by a route, as a router must (RFC 1812, RFC 8200): hop limit, size, Ethernet addresses, redirect.
 * Decides nothing about policy. Of checksums it changes the IPv4 header's alone, and that by the difference: the others
 * may be unfinished (CHECKSUM_PARTIAL) and are not its business.
 *
 * Packets whose next hop has no Ethernet address yet, or whose interface does not take frames from XDP, go by way of the
 * kernel's neighbours: from TC at once, and from XDP through `resolve`, a TC program on the same interface. The kernel
 * keeps them while it asks, so the first packet to a neighbour is not lost, and nothing is ever forwarded by its routing.
 */
#ifndef RAMPART_FIREWALL_FORWARD_H
#define RAMPART_FIREWALL_FORWARD_H

#include "../net/headers.h"
#include "hook.h"
#include "route.h"

#define PACKET_FOR_US 0	/* PACKET_HOST of linux/if_packet.h */

enum forwarded {
	FORWARDED = 0,
	FORWARD_EXPIRED = 1,	/* the hop limit */
	FORWARD_TOO_BIG = 2,	/* for the interface or the route; IPv4 without "don't fragment" too */
	FORWARD_MALFORMED = 3,
	FORWARD_NO_ROUTE = 4,	/* any kind of route that does not forward */
};

/* Where the headers of the packet in hand begin, bytes from the start of the frame, and what they say. */
struct layers {
	__u16 network;		/* 14, with VLAN tags 18 or 22 */
	__u16 transport;	/* for a fragment that is not the first: what follows the IP headers */
	__u8 ip_version;	/* 4 or 6 */
	__u8 protocol;		/* of the transport header */
	__u8 later_fragment;	/* has no transport header */
};

/* The verifier wants to see bounds of an offset at each use. */
static __always_inline __u32 network_at(const struct layers *layers)
{
	return layers->network & 0x1f;
}

static __always_inline __u32 transport_at(const struct layers *layers)
{
	return layers->transport & 0x3ff;
}

/* The longest IP packet that this becomes on the wire. The kernel cuts a packet of several segments into its segments.
 * Returns 0 where the headers are not there. */
static __always_inline __u32 longest_packet(void *context, enum hook hook, const struct layers *layers)
{
	void *data = hook_data(context, hook), *end = hook_end(context, hook);
	__u32 segment = hook == HOOK_TC ? ((struct __sk_buff *)context)->gso_size : 0;
	struct tcp *tcp = data + transport_at(layers);

	if (!segment)
		return 0;
	if (layers->protocol != PROTOCOL_TCP)
		return layers->transport - layers->network + UDP_BYTES + segment;
	if ((void *)(tcp + 1) > end)
		return 0;
	return layers->transport - layers->network + (tcp->header_words >> 4) * 4 + segment;
}

/* One less in the first byte of its word; the checksum's word is one more in that byte (RFC 1141). Both are one word. */
static __always_inline enum forwarded take_hop_v4(struct ipv4 *ip, void *end, __u32 longest, __u32 mtu)
{
	__u32 *hop, word, sum;

	if ((void *)(ip + 1) > end)
		return FORWARD_MALFORMED;
	if (ip->ttl <= 1)
		return FORWARD_EXPIRED;
	if ((longest ? longest : bpf_ntohs(ip->bytes)) > mtu)
		return FORWARD_TOO_BIG;
	hop = (void *)&ip->ttl;
	word = *hop;
	sum = (word >> 16) + bpf_htons(0x0100);
	sum = (sum + (sum >> 16)) & 0xffff;
	*hop = sum << 16 | ((word - 1) & 0xffff);
	return FORWARDED;
}

static __always_inline enum forwarded take_hop_v6(struct ipv6 *ip, void *end, __u32 longest, __u32 mtu)
{
	__u32 *hop;

	if ((void *)(ip + 1) > end)
		return FORWARD_MALFORMED;
	if (ip->hop_limit <= 1)
		return FORWARD_EXPIRED;
	if ((longest ? longest : IPV6_BYTES + bpf_ntohs(ip->payload_bytes)) > mtu)
		return FORWARD_TOO_BIG;
	hop = (void *)&ip->payload_bytes;
	*hop -= bpf_htonl(1);
	return FORWARDED;
}

static __always_inline enum forwarded take_hop(void *context, enum hook hook, const struct layers *layers, __u32 mtu)
{
	__u32 longest = longest_packet(context, hook, layers);
	void *data = hook_data(context, hook), *end = hook_end(context, hook);
	void *ip = data + network_at(layers);

	return layers->ip_version == 4 ? take_hop_v4(ip, end, longest, mtu) : take_hop_v6(ip, end, longest, mtu);
}

/* VLAN tags belong to the link that the packet came by, and stay there. */
static __always_inline int strip_tags(void *context, enum hook hook, const struct layers *layers)
{
	int tags = layers->network - ETHERNET_BYTES;

	if (hook == HOOK_XDP)
		return tags ? bpf_xdp_adjust_head(context, tags) : 0;
	for (int i = 0; i < 2; i++)
		if (((struct __sk_buff *)context)->vlan_present && bpf_skb_vlan_pop(context))
			return -1;
	return 0;
}

static __always_inline int write_ethernet(void *context, enum hook hook, const __u32 *macs, int ip_version)
{
	struct ethernet *ethernet = hook_data(context, hook);
	__u32 *words = (void *)ethernet;

	if ((void *)(ethernet + 1) > hook_end(context, hook))
		return -1;
	for (int i = 0; i < 3; i++)
		words[i] = macs[i];
	ethernet->type = ip_version == 4 ? bpf_htons(ETHERTYPE_IPV4) : bpf_htons(ETHERTYPE_IPV6);
	return 0;
}

/* Through the kernel's neighbours; the interface goes along in the header, which that path writes anew. */
static __always_inline int send_resolved(void *context, enum hook hook, const struct layers *layers,
					 const struct route *route)
{
	const struct forwarding *now = forwarding_now();
	__u32 macs[3];

	if (hook == HOOK_TC)
		return bpf_redirect_neigh(route->ifindex, 0, 0, 0);
	if (!now || !now->mark[0])
		return XDP_DROP;
	macs[0] = now->mark[0];
	macs[1] = now->mark[1];
	macs[2] = route->ifindex;
	return write_ethernet(context, hook, macs, layers->ip_version) ? XDP_DROP : XDP_PASS;
}

/* Sends the packet by a route that forwards, and sets `action`, unless it says why not; then the packet is as it was. */
static __always_inline enum forwarded forward(void *context, enum hook hook, const struct layers *layers,
					      const struct route *route, int *action)
{
	enum forwarded result;

	if (route->kind != ROUTE_FORWARD && route->kind != ROUTE_UNRESOLVED)
		return FORWARD_NO_ROUTE;
	result = take_hop(context, hook, layers, route->mtu);
	if (result != FORWARDED)
		return result;
	if (strip_tags(context, hook, layers))
		return FORWARD_MALFORMED;
	if (route->kind == ROUTE_UNRESOLVED || (hook == HOOK_XDP && !route->takes_frames)) {
		*action = send_resolved(context, hook, layers, route);
		return FORWARDED;
	}
	if (write_ethernet(context, hook, route->macs, layers->ip_version))
		return FORWARD_MALFORMED;
	*action = hook == HOOK_XDP ? bpf_redirect_map(&ports, route->ifindex, XDP_DROP)
				   : bpf_redirect(route->ifindex, 0);
	return FORWARDED;
}

/* The program beside XDP: sends what XDP handed on, and lets everything else through to the kernel's stack. */
static __always_inline int resolve_handed(struct __sk_buff *context)
{
	__u32 *macs = (void *)(long)context->data;
	const struct forwarding *now = forwarding_now();

	if (!now || !now->mark[0] || (void *)(macs + 3) > (void *)(long)context->data_end)
		return ACTION_TC_NEXT;
	if (macs[0] != now->mark[0] || macs[1] != now->mark[1])
		return ACTION_TC_NEXT;
	/* The header is not for our address, but the kernel's answers about a dead neighbour are only for packets that were. */
	__u32 ifindex = macs[2];

	bpf_skb_change_type(context, PACKET_FOR_US);
	return bpf_redirect_neigh(ifindex, 0, 0, 0);
}

#endif
