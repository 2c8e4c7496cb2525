/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Transparent gateways: connections that a rule hands to the gateway (`gateway`) end in a socket of this machine, at the address that the
 * client asked for. The packet filter judges them as all others, by the zone that their route leads to; then their flow's responder is the
 * firewall itself, and their packets go up.
 *
 * The kernel takes them for its own because of a mark (GATEWAY_TAKES) and a routing rule of the daemon's. It finds the socket of a connection by
 * itself; a SYN is assigned to the socket that listens. That one is found by the place that the rule names, which the flow keeps, and known by its
 * own mark, which no user of the machine can give. Without it nothing goes up: other servers of this machine may listen at the same port, and a gateway that is gone must open nothing.
 *
 * Sockets are assigned behind XDP. What XDP takes goes through `resolve` (forward.h), as what has no neighbour yet.
 */
#ifndef RAMPART_FIREWALL_GATEWAY_H
#define RAMPART_FIREWALL_GATEWAY_H

#include "forward.h"
#include "reject.h"
#include "tables.h"

#define HANDED_TO_GATEWAY 0xffffff00u	/* in the place of an interface, and above it the gateway; no interface has such a number */
#define GATEWAY_SHIFT 24	/* of EXTRA_GATEWAY */
#define LISTENS 10	/* BPF_TCP_LISTEN and BPF_TCP_TIME_WAIT */
#define WAITS 6

static __always_inline __u32 gateway_of_rule(const struct packet *p)
{
	return (p->extras & EXTRA_GATEWAY) >> GATEWAY_SHIFT;
}

/* A gateway's socket for packets of this family, or null. It must be released. */
static __always_inline struct bpf_sock *listener(void *ctx, __u32 gateway, __u8 family)
{
	const struct gateway_place *place = &settings.gateways[(gateway - 1) & (GATEWAY_PLACES - 1)];
	struct bpf_sock_tuple at = {};
	struct bpf_sock *socket;
	__u32 bytes = sizeof(at.ipv4);

	if (family == 4) {
		at.ipv4.daddr = place->v4;
		at.ipv4.dport = place->port;
		if (!gateway || !at.ipv4.daddr)
			return 0;
	} else {
		for (int word = 0; word < 4; word++)
			at.ipv6.daddr[word] = place->v6[word];
		at.ipv6.dport = place->port;
		bytes = sizeof(at.ipv6);
		if (!gateway || !(at.ipv6.daddr[0] | at.ipv6.daddr[1] | at.ipv6.daddr[2] | at.ipv6.daddr[3]))
			return 0;
	}
	/* Nobody sends from port 0, so it is no connection. */
	socket = bpf_sk_lookup_tcp(ctx, &at, bytes, BPF_F_CURRENT_NETNS, 0);
	if (!socket)
		return 0;
	if (socket->state == LISTENS && socket->mark == GATEWAY_LISTENS)
		return socket;
	bpf_sk_release(socket);
	return 0;
}

static __always_inline bool gateway_listens(void *ctx, const struct packet *p)
{
	struct bpf_sock *socket = listener(ctx, gateway_of_rule(p), p->family);

	if (!socket)
		return false;
	bpf_sk_release(socket);
	return true;
}

__noinline int gateway_listens_xdp(struct xdp_md *ctx, struct packet *p)
{
	return p ? gateway_listens(ctx, p) : 0;
}

__noinline int gateway_listens_tc(struct __sk_buff *ctx, struct packet *p)
{
	return p ? gateway_listens(ctx, p) : 0;
}

/* A packet whose rule names a gateway opens a flow with it. VERDICT_NEXT: it may. */
static __always_inline enum verdict go_to_gateway(void *ctx, struct packet *p, const enum hook hook)
{
	/* Fragments are put together behind the place where sockets are assigned. The gateway would take a translated
	 * destination for the one that was asked for; a bridge has no addresses; and `check` refuses what is not TCP. */
	if (has_way(hook) || p->protocol != PROTOCOL_TCP || across(p) ||
	    p->flags & (PACKET_FIRST_FRAGMENT | PACKET_DESTINATION_TRANSLATED))
		return drop(p, REASON_GATEWAY);
	if (hook == HOOK_XDP ? !gateway_listens_xdp(ctx, p) : !gateway_listens_tc(ctx, p))
		return answer_reject(ctx, p, hook, REASON_GATEWAY);
	p->to = ZONE_SELF;
	p->gateway = gateway_of_rule(p);
	return VERDICT_NEXT;
}

/* The zone that a gateway's flow would lead to, if it were forwarded. */
static __always_inline __u8 zone_behind(void *ctx, const struct packet *p, const struct flow *flow, const enum hook hook)
{
	struct address address;
	struct route route;
	__be32 words[4];
	__u32 kind;

	flow_address(flow, (flow->initiator & 1) ^ 1, words);
	address_of(words, family_of(flow), &address);
	route_find(ctx, &address, tick_of(p->era, p->tick), &route, hook);
	kind = route.kind & ROUTE_KIND;
	if ((kind != ROUTE_FORWARD && kind != ROUTE_UNRESOLVED) || !(route.kind & ROUTE_IS_PORT))
		return NO_ZONE;
	return ports[route.port].zone;
}

__noinline int zone_behind_xdp(struct xdp_md *ctx, struct packet *p, struct flow *flow)
{
	return p && flow ? zone_behind(ctx, p, flow, HOOK_XDP) : NO_ZONE;
}

__noinline int zone_behind_tc(struct __sk_buff *ctx, struct packet *p, struct flow *flow)
{
	return p && flow ? zone_behind(ctx, p, flow, HOOK_TC) : NO_ZONE;
}

/* From XDP up to the gateway, by way of `resolve`. */
__noinline int hand_to_gateway(struct xdp_md *ctx, struct packet *p)
{
	const struct forwarding *now = forwarding_now();
	__u32 macs[3];

	if (!p)
		return VERDICT_DROP;
	if (!now || !now->mark[0])
		return drop(p, REASON_REDIRECT);
	macs[0] = now->mark[0];
	macs[1] = now->mark[1];
	macs[2] = HANDED_TO_GATEWAY + p->gateway;
	if (p->network < ETHERNET_BYTES || strip_tags(ctx, p, HOOK_XDP) || write_ethernet(ctx, p, HOOK_XDP, macs))
		return drop(p, REASON_TRUNCATED);
	return VERDICT_UP;
}

/* What a segment is assigned by. */
struct assigned {
	struct bpf_sock_tuple ends;
	__u32 bytes;		/* of `ends` */
	__u8 family;
	__u8 gateway;		/* as in EXTRA_GATEWAY */
};

/*
 * Connections that are opened again while the kernel still remembers the one before (TIME_WAIT). A SYN that is assigned would find the old
 * one in its place and be dropped; so the kernel is left to end that, and then, still for the same SYN, it asks pick_listener(), which
 * finds here which gateway it is for, and the gateways' sockets once more.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct bpf_sock_tuple);
	__type(value, __u32);
} reopened SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SOCKMAP);
	__uint(max_entries, GATEWAY_PLACES + 1);
	__type(key, __u32);
	__type(value, __u64);
} gateway_sockets SEC(".maps");

/* Gives a segment to the gateway, if it is not of a connection that the kernel knows. 0, or why it must not go up. */
static __always_inline int assign_segment(struct __sk_buff *ctx, struct assigned *s)
{
	struct bpf_sock *known = bpf_skc_lookup_tcp(ctx, &s->ends, s->bytes, BPF_F_CURRENT_NETNS, 0), *socket;
	__u32 state = LISTENS;
	long failed;

	if (known) {
		state = known->state;
		bpf_sk_release(known);
	}
	if (state == LISTENS || state == WAITS) {
		__u32 gateway = s->gateway;

		socket = listener(ctx, gateway, s->family);
		if (!socket)
			return REASON_GATEWAY;
		if (state == WAITS) {
			failed = bpf_map_update_elem(&gateway_sockets, &gateway, socket, BPF_ANY);
			if (!failed)
				failed = bpf_map_update_elem(&reopened, &s->ends, &gateway, BPF_ANY);
		} else {
			failed = bpf_sk_assign(ctx, socket, 0);
		}
		bpf_sk_release(socket);
		if (failed)
			return REASON_GATEWAY;
	}
	return 0;
}

/* At TC. */
__noinline int assign_packet(struct __sk_buff *ctx, struct packet *p)
{
	struct assigned s = {};
	int reason;

	if (!p)
		return VERDICT_DROP;
	s.family = p->family;
	s.gateway = p->gateway;
	if (p->family == 4) {
		s.ends.ipv4.saddr = p->source[0];
		s.ends.ipv4.daddr = p->destination[0];
		s.ends.ipv4.sport = p->source_port;
		s.ends.ipv4.dport = p->destination_port;
		s.bytes = sizeof(s.ends.ipv4);
	} else {
		for (int word = 0; word < 4; word++) {
			s.ends.ipv6.saddr[word] = p->source[word];
			s.ends.ipv6.daddr[word] = p->destination[word];
		}
		s.ends.ipv6.sport = p->source_port;
		s.ends.ipv6.dport = p->destination_port;
		s.bytes = sizeof(s.ends.ipv6);
	}
	/* An ICMP error finds the connection that it quotes. */
	reason = p->protocol == PROTOCOL_TCP ? assign_segment(ctx, &s) : 0;
	if (reason)
		return drop(p, reason);
	ctx->mark = GATEWAY_TAKES;
	return VERDICT_UP;
}

/* The ends of a segment behind its Ethernet header. 0: what is there is no TCP. */
static __always_inline int read_segment(struct __sk_buff *ctx, struct assigned *s)
{
	struct ipv4 v4;
	struct ipv6 v6;
	__be16 port[2];

	if (ctx->protocol == bpf_htons(ETHERTYPE_IPV4)) {
		if (bpf_skb_load_bytes(ctx, ETHERNET_BYTES, &v4, sizeof(v4)) || v4.protocol != PROTOCOL_TCP ||
		    bpf_skb_load_bytes(ctx, ETHERNET_BYTES + ((v4.version_words & 15) << 2), port, sizeof(port)))
			return 0;
		s->family = 4;
		s->bytes = sizeof(s->ends.ipv4);
		s->ends.ipv4.saddr = v4.source;
		s->ends.ipv4.daddr = v4.destination;
		s->ends.ipv4.sport = port[0];
		s->ends.ipv4.dport = port[1];
		return 1;
	}
	if (bpf_skb_load_bytes(ctx, ETHERNET_BYTES, &v6, sizeof(v6)) || v6.next_header != PROTOCOL_TCP ||
	    bpf_skb_load_bytes(ctx, ETHERNET_BYTES + sizeof(v6), port, sizeof(port)))
		return 0;
	s->family = 6;
	s->bytes = sizeof(s->ends.ipv6);
	for (int word = 0; word < 4; word++) {
		s->ends.ipv6.saddr[word] = v6.source[word];
		s->ends.ipv6.daddr[word] = v6.destination[word];
	}
	s->ends.ipv6.sport = port[0];
	s->ends.ipv6.dport = port[1];
	return 1;
}

/* Who listens for a connection. At an address that is not this machine's it can only be a gateway: nothing else comes up from there. */
static __always_inline void pick_listener(struct bpf_sk_lookup *ctx)
{
	struct address at = { .ip_version = ctx->family == FAMILY_IPV4 ? 4 : 6 };
	__u32 v4 = ctx->local_ip4, v6 = ctx->local_ip6[0], *gateway;
	struct bpf_sock_tuple ends = {};
	struct bpf_sock *socket;

	if (ctx->protocol != PROTOCOL_TCP)
		return;
	/* Or else one of both would be chosen before it is read, and the verifier allows no such pointer. */
	barrier_var(v4);
	barrier_var(v6);
	at.words[0] = at.ip_version == 4 ? v4 : v6;
	at.words[1] = ctx->local_ip6[1];
	at.words[2] = ctx->local_ip6[2];
	at.words[3] = ctx->local_ip6[3];
	if (is_local(&at) || (at.ip_version == 4 && bpf_ntohl(at.words[0]) >> 24 == 127))
		return;
	if (at.ip_version == 4) {
		ends.ipv4.saddr = ctx->remote_ip4;
		ends.ipv4.daddr = v4;
		ends.ipv4.sport = ctx->remote_port;
		ends.ipv4.dport = bpf_htons(ctx->local_port);
	} else {
		ends.ipv6.saddr[0] = ctx->remote_ip6[0];
		ends.ipv6.saddr[1] = ctx->remote_ip6[1];
		ends.ipv6.saddr[2] = ctx->remote_ip6[2];
		ends.ipv6.saddr[3] = ctx->remote_ip6[3];
		for (int word = 0; word < 4; word++)
			ends.ipv6.daddr[word] = at.words[word];
		ends.ipv6.sport = ctx->remote_port;
		ends.ipv6.dport = bpf_htons(ctx->local_port);
	}
	gateway = bpf_map_lookup_elem(&reopened, &ends);
	socket = gateway ? bpf_map_lookup_elem(&gateway_sockets, gateway) : 0;
	if (!socket)
		return;
	if (socket->mark == GATEWAY_LISTENS)
		bpf_sk_assign(ctx, socket, 0);
	bpf_sk_release(socket);
}

/* In `resolve`: what XDP has handed on. TCP behind extension headers of IPv6 finds its connection by itself, and opens none. */
static __always_inline int take_handed(struct __sk_buff *ctx, __u32 gateway)
{
	struct assigned s = { .gateway = gateway };
	int reason = read_segment(ctx, &s) ? assign_segment(ctx, &s) : 0;

	if (reason) {
		count_drop(reason);
		return TCX_DROP;
	}
	bpf_skb_change_type(ctx, PACKET_FOR_US);
	ctx->mark = GATEWAY_TAKES;
	return TCX_NEXT;
}

#endif
