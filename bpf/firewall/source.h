/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Where a packet says that it comes from: whether anybody out there has that address, and by the way that it came. */
#ifndef RAMPART_FIREWALL_SOURCE_H
#define RAMPART_FIREWALL_SOURCE_H

#include "bridge.h"
#include "forward.h"
#include "open.h"
#include "tables.h"

/* Whether a source is somebody's out there: not the firewall itself (RFC 1812 section 5.3.8), and by RFC 3704 there is a route back to
 * it, if strict by the zone that it came from. 0, or why not. */
static __always_inline int check_route_back(void *ctx, struct address *source, __u8 from, enum hook hook)
{
	struct route route;
	__u32 kind;

	route_find(ctx, source, whole_tick(), &route, hook);
	kind = route.kind & ROUTE_KIND;
	if (kind == ROUTE_LOCAL)
		return REASON_SOURCE;
	if (!settings.reverse_path)
		return 0;
	if (kind != ROUTE_FORWARD && kind != ROUTE_UNRESOLVED)
		return REASON_REVERSE_PATH;
	if (settings.reverse_path == 1 || (route.kind & ROUTE_IS_PORT && ports[route.port].zone == from))
		return 0;
	return REASON_REVERSE_PATH;
}

/* The same of a packet. Asked last, because it costs most; at netfilter, which has no helper that asks for routes, where packets come
 * in (way_back). */
static __always_inline int check_way_back(void *ctx, const struct packet *p, const enum hook hook)
{
	struct address source;
	int reason;

	/* A bridge has no routes. */
	if (is_from_self(p, hook) || (p->family == 4 && !p->source[0]) || across(p))
		return 0;
	address_of(p->source, p->family, &source);
	/* Of its own link, and no further. Hosts of two links may have the same one of IPv6, and our own is one of each. Where the kernel
	 * forwards, its routes say how far those of IPv4 go: clouds have their resolver and more at one (is_no_destination()). */
	if (is_link_local(&source) && (hook != HOOK_NETFILTER || p->family == 6))
		return p->to == ZONE_SELF && (p->family == 6 || !is_local(&source)) ? 0 : REASON_SOURCE;
	if (hook == HOOK_NETFILTER)
		return 0;
	reason = check_route_back(ctx, &source, p->from, hook);
	/* Who has no address has no routes. */
	return reason == REASON_REVERSE_PATH && p->to == ZONE_SELF && is_dhcp_answer(p) ? 0 : reason;
}

__noinline int check_way_back_xdp(struct xdp_md *ctx, struct packet *p)
{
	return p ? check_way_back(ctx, p, HOOK_XDP) : REASON_REVERSE_PATH;
}

__noinline int check_way_back_tc(struct __sk_buff *ctx, struct packet *p)
{
	return p ? check_way_back(ctx, p, HOOK_TC) : REASON_REVERSE_PATH;
}

static __always_inline int check_way_back_at(void *ctx, struct packet *p, const enum hook hook)
{
	/* The firewall's own addresses need no way back. */
	if (hook == HOOK_OUT)
		return 0;
	if (hook == HOOK_NETFILTER)
		return check_way_back(ctx, p, HOOK_NETFILTER);
	return hook == HOOK_XDP ? check_way_back_xdp(ctx, p) : check_way_back_tc(ctx, p);
}

/* The source of a packet that passes because of another one, as if it opened a flow. */
static __always_inline int check_source(void *ctx, struct packet *p, const enum hook hook)
{
	int reason = check_ends(p);

	if (!reason && settings.check_zones && !is_from_self(p, hook) &&
	    facts_of_source(p) & SOURCE_MISPLACED)
		reason = REASON_ZONE_SOURCE;
	if (!reason)
		reason = check_way_back_at(ctx, p, hook);
	return reason;
}

#endif
