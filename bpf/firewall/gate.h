/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Interfaces of patterns come at any time. From the moment at which one can receive until the firewall is attached to it, what comes
 * from it and what this machine sends to it is dropped here, at netfilter, by its name. Nothing else of it passes anyway: the kernel
 * does not forward, and the other interfaces' programs know no zone of it. Where the kernel forwards, netfilter.h does this for every
 * interface of no zone.
 */
#ifndef RAMPART_FIREWALL_GATE_H
#define RAMPART_FIREWALL_GATE_H

#include "netfilter.h"

/* Beginnings of names, and whole names with the zero behind them. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, MAX_INTERFACE_NAMES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct interface_name);
	__type(value, __u32);
} interface_names SEC(".maps");

static __always_inline bool is_yet_to_come(struct bpf_nf_ctx *ctx)
{
	struct interface_name name = { .bits = 8 * sizeof(name.name) };
	struct net_device *device = ctx->state->in;

	if (!device)
		device = ctx->state->out;
	if (!device || zone_of(device->ifindex) != NO_ZONE)
		return false;
	for (int i = 0; i < INTERFACE_NAME_BYTES; i++)
		name.name[i] = device->name[i];
	return bpf_map_lookup_elem(&interface_names, &name);
}

#endif
