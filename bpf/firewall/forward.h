/* SPDX-License-Identifier: GPL-2.0 OR MIT */
#ifndef RAMPART_FIREWALL_FORWARD_H
#define RAMPART_FIREWALL_FORWARD_H

#include <bpf/bpf_endian.h>
#include "ports.h"
#include "state.h"

#define AF_INET 2
#define AF_INET6 10

static __always_inline long ask(void *ctx, struct packet *p, struct bpf_fib_lookup *fib)
{
	__builtin_memset(fib, 0, sizeof(*fib));
	fib->family = p->family == 4 ? AF_INET : AF_INET6;
	fib->ifindex = p->ifindex;
	for (int i = 0; i < 4; i++) {
		fib->ipv6_src[i] = p->source[i];
		fib->ipv6_dst[i] = p->destination[i];
	}
	if (p->family == 4) {
		fib->ipv4_src = p->source[0];
		fib->ipv4_dst = p->destination[0];
	}
	return bpf_fib_lookup(ctx, fib, sizeof(*fib), 0);
}

static __always_inline enum verdict route(void *ctx, struct packet *p, const enum hook hook __attribute__((unused)))
{
	struct bpf_fib_lookup fib;
	long answer = ask(ctx, p, &fib);
	int port;

	if (answer == BPF_FIB_LKUP_RET_NOT_FWDED) {
		p->to = ZONE_SELF;
		return VERDICT_NEXT;
	}
	if (answer != BPF_FIB_LKUP_RET_SUCCESS && answer != BPF_FIB_LKUP_RET_NO_NEIGH)
		return drop(p, REASON_NO_ROUTE);
	port = port_of(fib.ifindex);
	if (port < 0)
		return drop(p, REASON_NOT_A_PORT);
	p->to = ports[port & (MAX_PORTS - 1)].zone;
	return VERDICT_NEXT;
}

static __always_inline enum verdict forward(void *ctx, struct packet *p, const enum hook hook)
{
	struct bpf_fib_lookup fib;
	struct ethernet *ethernet;
	int port;

	if (ask(ctx, p, &fib) != BPF_FIB_LKUP_RET_SUCCESS)
		return VERDICT_UP;
	port = port_of(fib.ifindex);
	ethernet = bytes_at(p, 0, ETHERNET_BYTES);
	if (port < 0 || !ethernet)
		return drop(p, REASON_NOT_A_PORT);
	__builtin_memcpy(ethernet->destination, fib.dmac, 6);
	__builtin_memcpy(ethernet->source, fib.smac, 6);
	tally(TALLY_FORWARDED, 1);
	if (hook == HOOK_XDP)
		bpf_redirect_map(&port_devices, port, 0);
	else
		bpf_redirect(fib.ifindex, 0);
	return VERDICT_SENT;
}

static __always_inline enum verdict answer_reject(void *ctx __attribute__((unused)),
						  struct packet *p __attribute__((unused)),
						  const enum hook hook __attribute__((unused)))
{
	return VERDICT_DROP;
}

#endif
