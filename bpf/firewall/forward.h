/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Sends a packet on, as a router must (RFC 1812, RFC 8200): hop limit, size, Ethernet addresses, redirect. Decides nothing
 * about policy. Of checksums it changes the IPv4 header's alone, and that by the difference: the others may be unfinished
 * (CHECKSUM_PARTIAL) and are not its business. It fragments nothing: what IPv4 allows to be fragmented, and does not fit, goes to the
 * kernel with its verdict. It comes in once more by the loopback interface, the only one whose forwarding is on, and the kernel
 * forwards it in fragments.
 *
 * Packets whose next hop has no Ethernet address yet, or whose interface takes no frames from XDP, go by way of the kernel's
 * neighbours: from TC at once, and from XDP through `resolve`, a TC program on the same interface. The kernel keeps them
 * while it asks, so the first packet to a neighbour is not lost. If nobody answers, it says so to the address that a packet comes from; so a
 * packet whose source has another address outside gets that behind the kernel's neighbours, where it leaves (`firewall_out`).
 */
#ifndef RAMPART_FIREWALL_FORWARD_H
#define RAMPART_FIREWALL_FORWARD_H

#include "../net/headers.h"
#include "bridge.h"
#include "budgets.h"
#include "hook.h"
#include "icmp_error.h"
#include "route.h"
#include "translate.h"
#include "verdict.h"

#define PACKET_FOR_US 0	/* PACKET_HOST of linux/if_packet.h */
#define HANDED_UNTRANSLATED (1U << 30)	/* beside the interface that XDP hands a frame to: its source is to be translated where it leaves */

/* Where a packet goes: of a translated flow not to where its header says. */
static __always_inline void find_destination(const struct packet *p, struct address *destination)
{
	const struct flow *flow = p->flags & PACKET_TRANSLATED ? changed_flow(p) : 0;
	__u32 r = (p->side & 1) ^ 1;

	address_of(p->destination, p->family, destination);
	if (flow && is_prefixed(flow))
		flow_address(flow, r, destination->words);
	else if (flow && is_translated(flow))
		destination->words[0] = flow->address[r];
}

/* What to say about a route that does not forward. */
static __always_inline enum verdict no_route(void *ctx, struct packet *p, enum hook hook, __u32 kind)
{
	switch (kind) {
	case ROUTE_NONE:
		return answer_icmp(ctx, p, hook, REASON_NO_ROUTE, ERROR_NO_ROUTE, 0);
	case ROUTE_UNREACHABLE:
		return answer_icmp(ctx, p, hook, REASON_NO_ROUTE, ERROR_HOST, 0);
	case ROUTE_PROHIBITED:
		return answer_icmp(ctx, p, hook, REASON_NO_ROUTE, ERROR_PROHIBITED, 0);
	default:
		return drop(p, REASON_NO_ROUTE);
	}
}

/* An answer of a DHCP server (RFC 2131 section 4.1). It may go to the address that is offered, which no interface has yet, and there may
 * be no route back to the server. */
static __always_inline bool is_dhcp_answer(const struct packet *p)
{
	return p->family == 4 && p->protocol == PROTOCOL_UDP && p->source_port == bpf_htons(67) &&
	       p->destination_port == bpf_htons(68);
}

/* Whether a packet has to leave by another zone than the one that it came from. */
static __always_inline bool leads_on(const struct packet *p, const struct route *route, __u32 kind)
{
	return (kind == ROUTE_FORWARD || kind == ROUTE_UNRESOLVED) &&
	       !(route->kind & ROUTE_IS_PORT && ports[route->port].zone == p->from);
}

/* Where the packet goes: fills in `to`. */
static __always_inline enum verdict route(void *ctx, struct packet *p, enum hook hook)
{
	struct address destination;
	struct route route;
	__u32 kind;

	if (across(p))
		return find_across(p);
	find_destination(p, &destination);
	route_find(ctx, &destination, tick_of(p->era, p->tick), &route, hook);
	kind = route.kind & ROUTE_KIND;
	/* An offer that leads nowhere else is for whoever asks here: it is judged as if the address were there. */
	if (kind == ROUTE_LOCAL || (is_dhcp_answer(p) && !leads_on(p, &route, kind))) {
		p->to = ZONE_SELF;
		return VERDICT_NEXT;
	}
	if (kind != ROUTE_FORWARD && kind != ROUTE_UNRESOLVED)
		return no_route(ctx, p, hook, kind);
	if (!(route.kind & ROUTE_IS_PORT))
		return drop(p, REASON_NOT_A_PORT);
	p->to = ports[route.port].zone;
	p->way = route.port;
	return VERDICT_NEXT;
}

/* The longest IP packet that this becomes on the wire: a GSO packet is cut into its segments before it is sent. */
static __always_inline __u32 longest_packet(void *ctx, const struct packet *p, enum hook hook)
{
	__u32 segment = hook == HOOK_TC ? ((struct __sk_buff *)ctx)->gso_size : 0;

	if (!segment)
		return p->ip_bytes;
	if (p->protocol == PROTOCOL_TCP)
		return p->ip_bytes - p->data_bytes + segment;
	return p->transport - p->network + UDP_BYTES + segment;
}

/* One hop less. The IPv4 header's checksum is in the same word as the hop limit, and is more by what that is less (RFC 1141). */
static __always_inline int take_hop(void *ctx, const struct packet *p, enum hook hook)
{
	void *ip = hook_data(ctx, hook) + (p->network & 0x1f), *end = hook_end(ctx, hook);
	__u32 *hop = ip + (p->family == 4 ? 8 : 4), word, sum;

	if ((void *)(hop + 1) > end)
		return -1;
	word = *hop;
	if (p->family == 4) {
		sum = (word >> 16) + bpf_htons(0x0100);
		sum = (sum + (sum >> 16)) & 0xffff;
		*hop = sum << 16 | ((word - bpf_ntohl(0x01000000)) & 0xffff);
	} else {
		*hop = word - bpf_htonl(1);
	}
	return 0;
}

#define MAX_TAGS 3	/* one that the kernel has already taken out of the frame, and two in it */

/* VLAN tags belong to the link that the packet came by, and stay there. */
static __always_inline int strip_tags(void *ctx, const struct packet *p, enum hook hook)
{
	__u32 bytes = p->network - ETHERNET_BYTES, tags = bytes / 4;

	if (hook == HOOK_XDP)
		return bytes ? bpf_xdp_adjust_head(ctx, bytes) : 0;
	tags += ((struct __sk_buff *)ctx)->vlan_present;
	for (__u32 i = 0; i < MAX_TAGS && i < tags; i++)
		if (bpf_skb_vlan_pop(ctx))
			return -1;
	return 0;
}

static __always_inline int write_ethernet(void *ctx, const struct packet *p, enum hook hook, const __u32 *macs)
{
	struct ethernet *ethernet = hook_data(ctx, hook);
	__u32 *words = (void *)ethernet;

	if ((void *)(ethernet + 1) > hook_end(ctx, hook))
		return -1;
	for (int i = 0; i < 3; i++)
		words[i] = macs[i];
	ethernet->type = p->family == 4 ? bpf_htons(ETHERTYPE_IPV4) : bpf_htons(ETHERTYPE_IPV6);
	return 0;
}

/* Whether a packet that has to wait is translated where it leaves, and not before: only its source, whose flow its own header names, and no part of a
 * datagram. By itself, because the stack is short. */
__noinline int is_translated_late(struct packet *p)
{
	const struct forwarding *now = forwarding_now();
	const struct flow *flow;

	if (!p || !now || !now->mark[0] || p->family != 4 ||
	    p->flags & (PACKET_FIRST_FRAGMENT | PACKET_LATER_FRAGMENT | PACKET_MORE_FRAGMENTS | PACKET_ICMP_ERROR))
		return false;
	flow = translated_flow(p);
	return flow && !is_proxied(flow) && flow->address[(p->side & 1) ^ 1] == p->destination[0] &&
	       flow->port[(p->side & 1) ^ 1] == p->destination_port;
}

/* Through the kernel's neighbours; the interface goes along in the Ethernet header, which that path writes anew. */
static __always_inline enum verdict send_resolved(void *ctx, struct packet *p, enum hook hook, const struct route *route)
{
	const struct forwarding *now = forwarding_now();
	__u32 macs[3];

	if ((route->kind & ROUTE_KIND) == ROUTE_UNRESOLVED && !may_ask_neighbour(p))
		return drop(p, REASON_NEIGHBOURS);
	tally(TALLY_NO_NEIGHBOUR, 1);
	if (hook == HOOK_TC) {
		if (p->is_late && now)
			((struct __sk_buff *)ctx)->mark = now->mark[0];
		if (!hook_redirected(hook, bpf_redirect_neigh(route->ifindex, 0, 0, 0)))
			return drop(p, REASON_REDIRECT);
		return VERDICT_SENT;
	}
	if (!now || !now->mark[0])
		return drop(p, REASON_REDIRECT);
	macs[0] = now->mark[0];
	macs[1] = now->mark[1];
	macs[2] = route->ifindex | (p->is_late ? HANDED_UNTRANSLATED : 0);
	return write_ethernet(ctx, p, hook, macs) ? drop(p, REASON_TRUNCATED) : VERDICT_UP;
}

/* To the kernel, which forwards it in fragments. From XDP through `resolve`, which finds the loopback interface in the Ethernet header.
 * Nothing else is sent in there: what others hand up goes in by the interface that it came by, where forwarding is off. */
static __always_inline enum verdict leave_to_kernel(void *ctx, struct packet *p, enum hook hook)
{
	const struct forwarding *now = forwarding_now();
	__u32 macs[3] = {};	/* the address of the loopback interface */

	if (strip_tags(ctx, p, hook))
		return drop(p, REASON_TRUNCATED);
	if (hook == HOOK_XDP) {
		if (!now || !now->mark[0])
			return drop(p, REASON_REDIRECT);
		macs[0] = now->mark[0];
		macs[1] = now->mark[1];
		macs[2] = LOOPBACK_IFINDEX;
	}
	if (write_ethernet(ctx, p, hook, macs))
		return drop(p, REASON_TRUNCATED);
	if (hook == HOOK_TC && !hook_redirected(hook, bpf_redirect(LOOPBACK_IFINDEX, BPF_F_INGRESS)))
		return drop(p, REASON_REDIRECT);
	tally(TALLY_FRAGMENTED, 1);
	return hook == HOOK_XDP ? VERDICT_UP : VERDICT_SENT;
}

static __always_inline enum verdict send_on(void *ctx, struct packet *p, enum hook hook, const struct route *route)
{
	__u32 bytes = p->ip_bytes;
	long action;

	if (take_hop(ctx, p, hook) || strip_tags(ctx, p, hook))
		return drop(p, REASON_TRUNCATED);
	if ((route->kind & ROUTE_KIND) == ROUTE_UNRESOLVED ||
	    (hook == HOOK_XDP && !(route->kind & ROUTE_TAKES_FRAMES)))
		return send_resolved(ctx, p, hook, route);
	if (write_ethernet(ctx, p, hook, route->macs))
		return drop(p, REASON_TRUNCATED);
	action = hook == HOOK_XDP ? bpf_redirect_map(&port_devices, route->port, XDP_DROP)
				  : bpf_redirect(route->ifindex, 0);
	if (!hook_redirected(hook, action))
		return drop(p, REASON_REDIRECT);
	tally_forwarded(bytes);
	return VERDICT_SENT;
}

/* Sends the packet to its destination. */
static __always_inline enum verdict forward(void *ctx, struct packet *p, enum hook hook)
{
	struct address destination;
	struct route route;
	bool is_too_long;
	__u32 kind;
	int reason;

	if (across(p))
		return send_across(p, hook);
	if (p->network < ETHERNET_BYTES)
		return drop(p, REASON_HEADER);
	find_destination(p, &destination);
	route_find(ctx, &destination, tick_of(p->era, p->tick), &route, hook);
	kind = route.kind & ROUTE_KIND;
	if (kind != ROUTE_FORWARD && kind != ROUTE_UNRESOLVED)
		return no_route(ctx, p, hook, kind);
	if (!(route.kind & ROUTE_IS_PORT))
		return drop(p, REASON_NOT_A_PORT);
	if (ports[route.port].zone != p->to) {
		p->to = ports[route.port].zone;
		return VERDICT_ELSEWHERE;
	}
	if (p->ttl <= 1)
		return answer_icmp(ctx, p, hook, REASON_TTL, ERROR_EXPIRED, 0);
	is_too_long = longest_packet(ctx, p, hook) > route.mtu;
	if (is_too_long && p->flags & PACKET_DONT_FRAGMENT)
		return answer_icmp(ctx, p, hook, REASON_TOO_BIG, ERROR_TOO_BIG, route.mtu);
	/* The kernel makes fragments of it. */
	if (is_too_long)
		p->flags |= PACKET_MORE_FRAGMENTS;
	if (p->flags & PACKET_TRANSLATED && kind == ROUTE_UNRESOLVED)
		p->is_late = is_translated_late(p);
	/* Only now: what is answered is quoted to its sender as it came. */
	if (p->flags & PACKET_TRANSLATED && !p->is_late) {
		reason = translate_at(ctx, p, hook);
		if (reason)
			return drop(p, reason);
	}
	return is_too_long ? leave_to_kernel(ctx, p, hook) : send_on(ctx, p, hook, &route);
}

/* To what XDP has handed a frame: an interface, or a gateway from HANDED_TO_GATEWAY on (gateway.h); 0: it has not. */
static __always_inline __u32 handed_to(struct __sk_buff *ctx)
{
	const __u32 *macs = (void *)(long)ctx->data;
	const struct forwarding *now = forwarding_now();

	if (!now || !now->mark[0] || (void *)(macs + 3) > (void *)(long)ctx->data_end)
		return 0;
	return macs[0] == now->mark[0] && macs[1] == now->mark[1] ? macs[2] : 0;
}

/* Whether a packet that leaves has still to be translated. */
static __always_inline bool leaves_late(const struct __sk_buff *ctx)
{
	const struct forwarding *now;

	if (!ctx->mark)
		return false;
	now = forwarding_now();
	return now && ctx->mark == now->mark[0];
}

/* Sends what XDP has handed on to an interface. */
static __always_inline int send_handed(struct __sk_buff *ctx, __u32 ifindex)
{
	__u32 *macs = (void *)(long)ctx->data;
	const struct forwarding *now = forwarding_now();

	if (ifindex == LOOPBACK_IFINDEX) {
		if ((void *)(macs + 2) > (void *)(long)ctx->data_end)
			return TCX_DROP;
		macs[0] = 0;
		macs[1] = 0;
		return bpf_redirect(LOOPBACK_IFINDEX, BPF_F_INGRESS);
	}
	/* The frame is not addressed to us, but the kernel tells senders about dead neighbours only of packets that are. */
	bpf_skb_change_type(ctx, PACKET_FOR_US);
	if (ifindex & HANDED_UNTRANSLATED && now)
		ctx->mark = now->mark[0];
	return bpf_redirect_neigh(ifindex & ~HANDED_UNTRANSLATED, 0, 0, 0);
}

#endif
