// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The firewall's data plane: entry points only. Each stage is a header in firewall/; docs/design/dataplane.md explains. */
#include "firewall/core.h"
#include "firewall/table_programs.h"

/* TC's verdicts (linux/pkt_cls.h). */
#define TC_ACT_OK 0
#define TC_ACT_SHOT 2
#define TC_ACT_REDIRECT 7

/* The zone of the interface that a packet came in by. */
static __always_inline enum verdict enter(void *ctx, struct packet *p, const enum hook hook)
{
	int port = port_of(p->ifindex);

	p->tick = now();
	p->to = NO_ZONE;
	if (port < 0)
		return drop(p, REASON_NO_ZONE);
	p->from = ports[port & (MAX_PORTS - 1)].zone;
	return filter(ctx, p, hook);
}

/* "frags": jumbo frames do not fit one page. Only headers are read, and they are in the first part. */
SEC("xdp.frags")
int firewall_xdp(struct xdp_md *ctx)
{
	struct packet p = {};

	p.ifindex = ctx->ingress_ifindex;
	p.frame_bytes = bpf_xdp_get_buff_len(ctx);
	switch (enter(ctx, &p, HOOK_XDP)) {
	case VERDICT_SENT:
		return XDP_REDIRECT;
	case VERDICT_UP:
		return XDP_PASS;
	default:
		return XDP_DROP;
	}
}

/* Beside XDP, on the same interface. */
SEC("tcx/ingress")
int resolve(struct __sk_buff *ctx)
{
	return resolve_handed(ctx);
}

SEC("tcx/ingress")
int firewall_tc(struct __sk_buff *ctx)
{
	struct packet p = {};

	/* Headers beyond the linear part are pulled into it: rare, and only then costly. */
	if (ctx->data_end - ctx->data < PULLED_BYTES)
		bpf_skb_pull_data(ctx, ctx->len < PULLED_BYTES ? ctx->len : PULLED_BYTES);
	p.ifindex = ctx->ifindex;
	p.frame_bytes = ctx->len;
	if (ctx->vlan_present)
		p.flags = PACKET_TAGGED;
	switch (enter(ctx, &p, HOOK_TC)) {
	case VERDICT_SENT:
		return TC_ACT_REDIRECT;
	case VERDICT_UP:
		return TC_ACT_OK;
	default:
		return TC_ACT_SHOT;
	}
}

char _license[] SEC("license") = "Dual MIT/GPL";
