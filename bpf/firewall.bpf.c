// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The firewall's data plane: entry points only. Each stage is a header in firewall/; docs/design/dataplane.md explains. */
#include "firewall/core.h"
#include "firewall/gate.h"
#include "firewall/netfilter.h"
#include "firewall/refused.h"
#include "firewall/table_programs.h"
#include "firewall/tracked.h"
#include "firewall/unsent.h"

#define PULLED_BYTES 128	/* of a socket buffer made readable at once: all usual headers */
#define NEXT_HEADER_AT 6	/* in an IPv6 header */

/* The zone of the packet's interface, by which it came in or goes out. NO_ZONE: none. */
static __always_inline __u8 zone_at(struct packet *p)
{
	int port = port_of(p->ifindex);

	if (port < 0)
		return NO_ZONE;
	p->port = port;
	return ports[port & (MAX_PORTS - 1)].zone;
}

/* What the kernel knows of a frame besides its bytes. */
static __always_inline __u16 flags_of(struct __sk_buff *ctx)
{
	return (ctx->pkt_type == PACKET_FOR_US ? PACKET_TO_HOST : 0) |
	       (ctx->vlan_present && ctx->vlan_tci & VLAN_ID ? PACKET_TAGGED : 0);
}

/*
 * A packet of a link without Ethernet headers gets one, so that everything behind this knows one kind of frame. It need not be taken off
 * again: the kernel's stack finds the IP header where it was, and bpf_redirect() to such a link takes off what is before that.
 */
static __always_inline bool put_ethernet(struct __sk_buff *ctx, struct packet *p)
{
	struct ethernet *ethernet;

	if (bpf_skb_change_head(ctx, ETHERNET_BYTES, 0))
		return false;
	ethernet = (void *)(long)ctx->data;
	if ((void *)(ethernet + 1) > (void *)(long)ctx->data_end)
		return false;
	ethernet->type = ctx->protocol;
	p->frame_bytes = ctx->len;
	return true;
}

static __always_inline enum verdict enter(void *ctx, struct packet *p, const enum hook hook)
{
	set_clock(p, whole_tick());
	p->to = NO_ZONE;
	p->from = zone_at(p);
	if (p->from == NO_ZONE)
		return drop(p, REASON_NO_ZONE);
	if (ports[p->port].bridged_to == BRIDGED_TO_MANY) {
		enum verdict verdict = hook == HOOK_XDP ? choose_way_xdp(ctx, p) : choose_way_tc(ctx, p);

		if (verdict != VERDICT_NEXT)
			return verdict;
	}
	if (hook == HOOK_TC && ports[p->port].is_layer_3 && !put_ethernet(ctx, p))
		return drop(p, REASON_LENGTH);
	return filter(ctx, p, hook);
}

/* "frags": jumbo frames do not fit one page. Only headers are read, and they are in the first part. */
SEC("xdp.frags")
int firewall_xdp(struct xdp_md *ctx)
{
	struct packet p = {};

	p.ifindex = ctx->ingress_ifindex;
	switch (counted(&p, enter(ctx, &p, HOOK_XDP))) {
	case VERDICT_SENT:
		return XDP_REDIRECT;
	case VERDICT_UP:
		return XDP_PASS;
	default:
		return XDP_DROP;
	}
}

/*
 * At TC what may go up goes on to the next program of the chain: those that others put behind the firewall see what it lets
 * pass. As a filter of clsact, on kernels without tcx, TCX_NEXT means the same (TC_ACT_UNSPEC).
 */

/* Beside XDP, on the same interface. */
SEC("tcx/ingress")
int resolve(struct __sk_buff *ctx)
{
	__u32 to = handed_to(ctx);

	if (!to)
		return TCX_NEXT;
	return to >= HANDED_TO_GATEWAY ? take_handed(ctx, to - HANDED_TO_GATEWAY) : send_handed(ctx, to);
}

/* Whether IPv6 has extension headers, of which there may be more than PULLED_BYTES. */
static __always_inline bool has_extensions(struct __sk_buff *ctx)
{
	__u8 next;

	return ctx->protocol == bpf_htons(ETHERTYPE_IPV6) &&
	       !bpf_skb_load_bytes_relative(ctx, NEXT_HEADER_AT, &next, 1, BPF_HDR_START_NET) && next != PROTOCOL_TCP &&
	       next != PROTOCOL_UDP && next != PROTOCOL_ICMPV6;
}

/* Headers beyond the part that can be read directly are pulled into it: rare, and only then costly. */
static __always_inline void pull(struct __sk_buff *ctx)
{
	__u32 there;

	pull_up_to(ctx, PULLED_BYTES);
	there = (void *)(long)ctx->data_end - (void *)(long)ctx->data;
	if (there < ctx->len && has_extensions(ctx))
		pull_up_to(ctx, MAX_HEADER_BYTES);
}

SEC("tcx/ingress")
int firewall_tc(struct __sk_buff *ctx)
{
	struct packet p = {};
	enum verdict verdict;

	pull(ctx);
	p.ifindex = ctx->ifindex;
	p.frame_bytes = ctx->len;
	p.flags = flags_of(ctx);
	verdict = enter(ctx, &p, HOOK_TC);
	if (verdict == VERDICT_UP && p.gateway)
		verdict = assign_packet(ctx, &p);
	switch (counted(&p, verdict)) {
	case VERDICT_SENT:
		return TCX_REDIRECT;
	case VERDICT_UP:
		return TCX_NEXT;
	default:
		return TCX_DROP;
	}
}

/* Beside either hook: what the firewall itself sends. What came in elsewhere was judged there, and perhaps not translated yet. */
SEC("tcx/egress")
int firewall_out(struct __sk_buff *ctx)
{
	struct packet p = { .from = ZONE_SELF, .flags = PACKET_FROM_SELF };
	bool is_late = ctx->ingress_ifindex;
	enum verdict verdict;

	if (is_late && !leaves_late(ctx))
		return TCX_NEXT;
	pull(ctx);
	p.ifindex = ctx->ifindex;
	p.frame_bytes = ctx->len;
	set_clock(&p, whole_tick());
	p.flags |= flags_of(ctx);
	p.to = zone_at(&p);
	if (p.to == NO_ZONE) {
		count_drop(REASON_NOT_A_PORT);
		return TCX_DROP;
	}
	if (ports[p.port].is_layer_3) {
		p.flags |= PACKET_LAYER_3;
		p.family = family_of_type(ctx->protocol);
	}
	if (is_late) {
		ctx->mark = 0;
		/* One after the other, because the stack is short. */
		if (parse_tc(ctx, &p) == VERDICT_NEXT && !translate_late(ctx, &p))
			return TCX_NEXT;
		count_drop(REASON_UNTRANSLATABLE);
		return TCX_DROP;
	}
	verdict = counted(&p, filter(ctx, &p, HOOK_OUT));
	if (verdict == VERDICT_SENT)
		return TCX_REDIRECT;
	return verdict == VERDICT_UP ? TCX_NEXT : TCX_DROP;
}

/* In the network namespace: who listens for what comes up. */
SEC("sk_lookup")
int listen_for_gateway(struct bpf_sk_lookup *ctx)
{
	pick_listener(ctx);
	return SK_PASS;
}

/* Run by user space: a fragment that was kept comes in once more by its interface (early.h). */
SEC("tc")
int return_fragment(struct __sk_buff *ctx)
{
	return bpf_clone_redirect(ctx, ctx->ifindex, BPF_F_INGRESS) ? TCX_DROP : TCX_NEXT;
}

/* Run by user space: what netfilter refused is answered (refused.h). */
SEC("tc")
int answer_refused(struct __sk_buff *ctx)
{
	return answer_handed(ctx);
}

/* The tracepoints of frames that XDP redirected: those that a driver did not send, and those that no driver was asked about. */
SEC("tp_btf/xdp_devmap_xmit")
int unsent_by_driver(__u64 *arguments)
{
	const struct net_device *from = (void *)arguments[0], *to = (void *)arguments[1];
	int drops = arguments[3];

	if (drops > 0 && is_ours(from) && is_ours(to))
		count_unsent(drops, from->ifindex, to->ifindex);
	return 0;
}

/* Its last argument is the key in the DEVMAP. */
SEC("tp_btf/xdp_redirect_err")
int unsent_at_once(__u64 *arguments)
{
	const struct net_device *from = (void *)arguments[0];

	if (is_ours(from))
		count_unsent(1, from->ifindex, ports[arguments[6] & (MAX_PORTS - 1)].ifindex);
	return 0;
}

/* Where the kernel forwards, translates and delivers: in place of all of the above. */
SEC("netfilter")
int firewall_netfilter(struct bpf_nf_ctx *ctx)
{
	struct packet p = {};
	enum verdict verdict;

	set_clock(&p, whole_tick());
	verdict = find_zones(ctx, &p);
	if (verdict == VERDICT_NEXT && p.flags & PACKET_FORWARDED &&
	    leaves_untranslated(&p, ctx->skb->_nfct, ctx->state->pf == NFPROTO_IPV6))
		verdict = drop(&p, REASON_UNTRANSLATABLE);
	if (verdict == VERDICT_NEXT)
		verdict = filter(ctx, &p, HOOK_NETFILTER);
	return counted(&p, verdict) == VERDICT_UP ? NF_ACCEPT : NF_DROP;
}

/* Where the firewall forwards, for interfaces that it is not attached to yet. */
SEC("netfilter")
int gate(struct bpf_nf_ctx *ctx)
{
	if (!is_yet_to_come(ctx))
		return NF_ACCEPT;
	count_drop(REASON_NO_ZONE);
	return NF_DROP;
}

/* Beside netfilter, on each interface of a zone. */
SEC("tcx/ingress")
int way_back(struct __sk_buff *ctx)
{
	return ask_way_back(ctx);
}

char _license[] SEC("license") = "Dual MIT/GPL";
