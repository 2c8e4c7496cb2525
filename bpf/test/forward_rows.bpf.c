// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Forwarding and answering by themselves, for tests: what user space asks for is done to every packet, whatever a policy might
 * say about it.
 */
#include "../net/headers.h"
#include "../firewall/forward.h"
#include "../firewall/limit.h"
#include "../firewall/mapping.h"
#include "../firewall/reject.h"

enum deed { DEED_FORWARD = 0, DEED_RESET = 1, DEED_ERROR = 2, DEED_REJECT = 3 };

struct order {
	__u32 deed;
	__u32 error;	/* enum icmp_error */
	__u32 mtu;
	__u32 reason;	/* out: enum reason */
	__u32 to;	/* out: the zone */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct order);
} orders SEC(".maps");

#define ETHERTYPE_VLAN 0x8100
#define ETHERTYPE_SERVICE_VLAN 0x88a8

/* Where the IP header begins, behind up to two tags; 0 for a frame that is too short. */
static __always_inline __u32 network_offset(void *data, void *end, __be16 *type)
{
	__u32 offset = ETHERNET_BYTES;

	for (int i = 0; i < 3; i++) {
		__be16 *at = data + offset - 2;

		if ((void *)(at + 1) > end)
			return 0;
		*type = *at;
		if (*at != bpf_htons(ETHERTYPE_VLAN) && *at != bpf_htons(ETHERTYPE_SERVICE_VLAN))
			break;
		offset += 4;
	}
	return offset;
}

static __always_inline int read_transport(struct packet *p, void *data, void *end)
{
	struct tcp *tcp = data + (p->transport & MAX_HEADER_BYTES);

	if (p->protocol != PROTOCOL_TCP || p->flags & PACKET_LATER_FRAGMENT)
		return 0;
	if ((void *)(tcp + 1) > end)
		return -1;
	p->tcp_flags = tcp->flags;
	p->sequence = bpf_ntohl(tcp->sequence);
	p->acknowledgement = bpf_ntohl(tcp->acknowledgement);
	p->data_bytes = p->ip_bytes - (p->transport - p->network) - (tcp->header_words >> 4) * 4;
	return 0;
}

static __always_inline int read_network(struct packet *p, void *data, void *end)
{
	__be16 type = 0;
	__u32 network = network_offset(data, end, &type);
	struct ipv4 *v4 = data + network;
	struct ipv6 *v6 = data + network;

	p->network = network;
	if (type == bpf_htons(ETHERTYPE_IPV4)) {
		if ((void *)(v4 + 1) > end)
			return -1;
		p->family = 4;
		p->transport = network + (v4->version_words & 0xf) * 4;
		p->protocol = v4->protocol;
		p->flags = (v4->fragment & bpf_htons(0x1fff) ? PACKET_LATER_FRAGMENT : 0) |
			   (v4->fragment & bpf_htons(0x4000) ? PACKET_DONT_FRAGMENT : 0);
		p->source[0] = v4->source;
		p->destination[0] = v4->destination;
		p->ip_bytes = bpf_ntohs(v4->bytes);
		p->ttl = v4->ttl;
		return 0;
	}
	if (type != bpf_htons(ETHERTYPE_IPV6) || (void *)(v6 + 1) > end)
		return -1;
	p->family = 6;
	p->flags = PACKET_DONT_FRAGMENT;
	p->transport = network + IPV6_BYTES;
	p->protocol = v6->next_header;
	for (int i = 0; i < 4; i++) {
		p->source[i] = v6->source[i];
		p->destination[i] = v6->destination[i];
	}
	p->ip_bytes = IPV6_BYTES + bpf_ntohs(v6->payload_bytes);
	p->ttl = v6->hop_limit;
	return 0;
}

static __always_inline enum verdict carry_out(void *ctx, struct packet *p, enum hook hook, const struct order *order)
{
	enum verdict verdict;

	switch (order->deed) {
	case DEED_RESET:
		return answer_reset(ctx, p, hook, REASON_RULE_REJECT);
	case DEED_REJECT:
		return answer_reject(ctx, p, hook, REASON_RULE_REJECT);
	case DEED_ERROR:
		return answer_icmp(ctx, p, hook, REASON_RULE_REJECT, order->error, order->mtu);
	default:
		verdict = route(ctx, p, hook);
		return verdict != VERDICT_NEXT || p->to == ZONE_SELF ? verdict : forward(ctx, p, hook);
	}
}

static __always_inline enum verdict cross(void *ctx, enum hook hook, __u32 ifindex)
{
	struct order *order = lookup(&orders, 0);
	struct packet p = { .to = NO_ZONE, .ifindex = ifindex };
	enum verdict verdict;

	/* What is not IP is for the kernel: ARP. */
	if (!order || read_network(&p, hook_data(ctx, hook), hook_end(ctx, hook)))
		return VERDICT_UP;
	if (read_transport(&p, hook_data(ctx, hook), hook_end(ctx, hook)))
		return counted(&p, drop(&p, REASON_TRUNCATED));
	verdict = carry_out(ctx, &p, hook, order);
	order->reason = p.reason;
	order->to = p.to;
	return counted(&p, verdict);
}

SEC("xdp.frags")
int cross_xdp(struct xdp_md *ctx)
{
	switch (cross(ctx, HOOK_XDP, ctx->ingress_ifindex)) {
	case VERDICT_SENT:
		return XDP_REDIRECT;
	case VERDICT_DROP:
		return XDP_DROP;
	default:
		return XDP_PASS;
	}
}

SEC("tcx/ingress")
int cross_tc(struct __sk_buff *ctx)
{
	switch (cross(ctx, HOOK_TC, ctx->ifindex)) {
	case VERDICT_SENT:
		return TCX_REDIRECT;
	case VERDICT_DROP:
		return TCX_DROP;
	default:
		return TCX_NEXT;
	}
}

SEC("tcx/ingress")
int resolve(struct __sk_buff *ctx)
{
	return handed_to(ctx) ? send_handed(ctx, handed_to(ctx)) : TCX_NEXT;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
