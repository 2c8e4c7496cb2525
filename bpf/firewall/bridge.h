/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A transparent bridge: two interfaces as one wire, on which IP is judged as anywhere, by the zones of the two. What may cross leaves by
 * the other interface as it came, with its Ethernet addresses, its tags and its hop limit. Of a bridge of two there is nothing to learn: whatever
 * comes in by one is for the other. One of more is such a wire for each packet (stations.h).
 */
#ifndef RAMPART_FIREWALL_BRIDGE_H
#define RAMPART_FIREWALL_BRIDGE_H

#include <bpf/bpf_endian.h>
#include "hook.h"
#include "ports.h"
#include "verdict.h"

#define SPANNING_TREE 0x000000c28001ULL	/* 01:80:c2:00:00:00 of IEEE 802.1D table 7-10, as link_destination() has it */
#define PROVIDER_SPANNING_TREE 0x080000c28001ULL
#define LEAST_ETHERTYPE 1536	/* what is less is a length: IEEE 802.3 section 3.2.6 */

/* By the interface's place in `ports`. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, struct bridge);
} bridges SEC(".maps");

/* The other interface's place and 1 of a packet that crosses a bridge; 0 of any other. One of more than two is a wire to the interface that
 * stations.h has found for this packet. */
static __always_inline __u32 across(const struct packet *p)
{
	__u32 other = ports[p->port & (MAX_PORTS - 1)].bridged_to;

	if (p->flags & PACKET_FROM_SELF)
		return 0;
	return other == BRIDGED_TO_MANY ? p->way + 1 : other;
}

static __always_inline bool may_pass(const struct packet *p, enum bridge_passes what)
{
	const struct bridge *bridge = lookup(&bridges, p->port);

	return bridge && bridge->passes & what;
}

/* Whether frames of a VLAN cross. */
static __always_inline bool is_bridged_vlan(const struct packet *p, __u16 id)
{
	const struct bridge *bridge = across(p) ? lookup(&bridges, p->port) : 0;
	__u32 word = id / 64;

	/* Linux 6.1 learns of the very number that is compared. */
	barrier_var(word);
	if (!bridge || word >= VLAN_WORDS)
		return 0;
	return bridge->vlans[word] >> id % 64 & 1;
}

/* The place of the other interface, or -1 while it is not there. */
static __always_inline int other_side(const struct packet *p)
{
	__u32 place = across(p) - 1;

	if (place >= MAX_PORTS || !ports[place & (MAX_PORTS - 1)].ifindex)
		return -1;
	return place & (MAX_PORTS - 1);
}

/* Out by the interface at a place, as it is. */
static __always_inline bool redirect_across(int place, const enum hook hook)
{
	__u32 to = place & (MAX_PORTS - 1);
	long action = hook == HOOK_XDP ? bpf_redirect_map(&port_devices, to, XDP_DROP) : bpf_redirect(ports[to].ifindex, 0);

	return hook_redirected(hook, action);
}

/* What is no IP, or what IP needs on a link. */
static __always_inline enum verdict pass_unjudged(struct packet *p, const enum hook hook, enum bridge_passes what)
{
	int place = other_side(p);

	if (!may_pass(p, what))
		return drop(p, REASON_NOT_IP);
	if (place < 0)
		return drop(p, REASON_NOT_A_PORT);
	if (!redirect_across(place, hook))
		return drop(p, REASON_REDIRECT);
	tally(TALLY_LINK, 1);
	/* From which it is taken off if the driver does not send it (unsent.h). */
	tally(TALLY_FORWARDED, 1);
	return VERDICT_SENT;
}

/* Where it goes: fills in `to`. */
static __always_inline enum verdict find_across(struct packet *p)
{
	int place = other_side(p);

	if (place < 0)
		return drop(p, REASON_NOT_A_PORT);
	p->way = place;
	p->to = ports[place & (MAX_PORTS - 1)].zone;
	return VERDICT_NEXT;
}

/* Sends an IP packet across, which is not changed. */
static __always_inline enum verdict send_across(struct packet *p, const enum hook hook)
{
	__u32 bytes = p->ip_bytes;
	__u8 to = p->to;

	if (find_across(p) != VERDICT_NEXT)
		return VERDICT_DROP;
	if (p->to != to)
		return VERDICT_ELSEWHERE;
	if (!redirect_across(p->way, hook))
		return drop(p, REASON_REDIRECT);
	tally_forwarded(bytes);
	return VERDICT_SENT;
}

/* What the Ethernet header of a frame on a bridge says is in it. */
static __always_inline enum bridge_passes kind_across(__u64 destination, __be16 type)
{
	if (type == bpf_htons(ETHERTYPE_ARP))
		return BRIDGE_ARP;
	if (bpf_ntohs(type) < LEAST_ETHERTYPE && (destination == SPANNING_TREE || destination == PROVIDER_SPANNING_TREE))
		return BRIDGE_SPANNING_TREE;
	return BRIDGE_OTHER;
}

#endif
