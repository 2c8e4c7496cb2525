// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Forwarding and answering by themselves, for tests: what user space asks for is done to every packet, whatever a policy might
 * say about it.
 */
#include "net/headers.h"
#include "firewall/forward.h"
#include "firewall/icmp_error.h"
#include "firewall/reset.h"

enum deed { DEED_FORWARD = 0, DEED_RESET = 1, DEED_ERROR = 2 };

struct order {
	__u32 deed;
	__u32 error;	/* enum icmp_error */
	__u32 mtu;
	__u32 forwarded;	/* out: enum forwarded, of DEED_FORWARD */
	__u32 kind;		/* out: enum route_kind, of DEED_FORWARD */
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

static __always_inline int find_layers(void *data, void *end, struct layers *layers, struct address *destination)
{
	__be16 type = 0;
	__u32 network = network_offset(data, end, &type);
	struct ipv4 *v4 = data + network;
	struct ipv6 *v6 = data + network;

	layers->network = network;
	if (type == bpf_htons(ETHERTYPE_IPV4)) {
		if ((void *)(v4 + 1) > end)
			return -1;
		layers->ip_version = destination->ip_version = 4;
		layers->transport = network + (v4->version_words & 0xf) * 4;
		layers->protocol = v4->protocol;
		layers->later_fragment = (v4->fragment & bpf_htons(0x1fff)) != 0;
		destination->words[0] = v4->destination;
		return 0;
	}
	if (type != bpf_htons(ETHERTYPE_IPV6) || (void *)(v6 + 1) > end)
		return -1;
	layers->ip_version = destination->ip_version = 6;
	layers->transport = network + IPV6_BYTES;
	layers->protocol = v6->next_header;
	for (int i = 0; i < 4; i++)
		destination->words[i] = v6->destination[i];
	return 0;
}

static __always_inline int cross(void *context, enum hook hook)
{
	struct address destination = {};
	struct layers layers = {};
	struct route route = {};
	struct order *order;
	__u32 key = 0;
	int action = hook_drop(hook);

	order = bpf_map_lookup_elem(&orders, &key);
	if (!order || find_layers(hook_data(context, hook), hook_end(context, hook), &layers, &destination))
		return hook_pass(hook);
	if (order->deed == DEED_RESET)
		return answer_reset(context, hook, &layers);
	if (order->deed == DEED_ERROR)
		return answer_error(context, hook, &layers, order->error, order->mtu);
	route_find(context, &destination, &route);
	order->kind = route.kind;
	order->forwarded = forward(context, hook, &layers, &route, &action);
	return action;
}

SEC("xdp.frags")
int cross_xdp(struct xdp_md *context)
{
	return cross(context, HOOK_XDP);
}

SEC("tcx/ingress")
int cross_tc(struct __sk_buff *context)
{
	return cross(context, HOOK_TC);
}

SEC("tcx/ingress")
int resolve(struct __sk_buff *context)
{
	return resolve_handed(context);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
