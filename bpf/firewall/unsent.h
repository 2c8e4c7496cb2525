/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Frames that XDP redirected and that did not leave. To a program a redirect succeeds before the driver is asked: the device may be down, its
 * driver may take no frames from XDP, its ring may be full. The kernel says so at tracepoints, for all network namespaces; here what
 * became of our own frames is counted, as drops (`redirect`) and no longer as forwarded. The core that redirected is the core that sends.
 */
#ifndef RAMPART_FIREWALL_UNSENT_H
#define RAMPART_FIREWALL_UNSENT_H

#include "netfilter.h"

/* Number of our network namespace, set before loading: interfaces of others have the same numbers. */
const volatile __u32 own_namespace;

static __always_inline bool is_ours(const struct net_device *device)
{
	return device && device->nd_net.net->ns.inum == own_namespace && zone_of(device->ifindex) != NO_ZONE;
}

/* Of frames that go back by the interface where they came in, nobody knows here whether they were forwarded: answers go that way, too. */
static __always_inline void count_unsent(__u32 frames, __u32 from, __u32 to)
{
	struct counts *mine = lookup(&counts, 0);

	if (!mine)
		return;
	mine->drops[REASON_REDIRECT] += frames;
	if (from != to)
		mine->tallies[TALLY_FORWARDED] -= frames;
}

#endif
