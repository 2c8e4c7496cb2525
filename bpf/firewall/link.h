/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The Ethernet header of a frame: whose frame it is, up to two tags, and what is in it. ARP is answered or handed up here, and what crosses a
 * bridge unjudged leaves here. Decides nothing about IP.
 */
#ifndef RAMPART_FIREWALL_LINK_H
#define RAMPART_FIREWALL_LINK_H

#include <bpf/bpf_endian.h>
#include "arp.h"
#include "bridge.h"
#include "hook.h"
#include "ports.h"

#define ETHERTYPE_VLAN 0x8100
#define ETHERTYPE_PROVIDER_VLAN 0x88a8
#define VLAN_BYTES 4
#define VLAN_ID 0x0fff	/* 0: the tag says a priority and no VLAN (IEEE 802.1Q) */
#define MAX_VLANS 2

/* Whether an interface has this address. By arithmetic, so that the verifier does not follow each place apart. */
static __always_inline bool is_among(const struct link_addresses *own, __u64 address)
{
	__u64 found = 0;

	for (int i = 0; i < LINK_ADDRESSES; i++)
		found |= ((own->address[i] ^ address) - 1) >> 63;
	return found;
}

/* The first six bytes of a frame, as a word: its destination. */
static __always_inline __u64 link_destination(const struct ethernet *ethernet)
{
	return *(const __u64 *)ethernet & 0xffffffffffff;
}

/* Whether a frame is for this interface or for a group: RFC 1812 section 5.3.4. Else it was flooded, or the interface is
 * promiscuous, and other machines take care of it. */
static __always_inline bool is_for_us(struct packet *p, const struct ethernet *ethernet)
{
	const struct link_addresses *own;

	if (p->flags & (PACKET_FROM_SELF | PACKET_TO_HOST))
		return 1;
	if (ethernet->destination[0] & 1) {
		p->flags |= PACKET_TO_GROUP;
		return 1;
	}
	own = lookup(&link_addresses, p->port);
	return own && is_among(own, link_destination(ethernet));
}

/* Whether an Ethernet group is one that a protocol uses: all do but IPv6 use everybody's, and each has its own (RFC 1112, RFC 2464). */
static __always_inline bool is_group_of(const struct ethernet *ethernet, __be16 type)
{
	const __u16 *parts = (const void *)ethernet;

	if (type == bpf_htons(ETHERTYPE_IPV6))
		return parts[0] == bpf_htons(0x3333);
	if ((parts[0] & parts[1] & parts[2]) == 0xffff)
		return 1;
	return type == bpf_htons(ETHERTYPE_IPV4) && parts[0] == bpf_htons(0x0100) && ethernet->destination[2] == 0x5e;
}

/* The VLAN of the tag that the kernel has taken out of a frame. */
static __always_inline __u16 taken_tag(const struct frame *f)
{
	return f->hook == HOOK_TC ? ((struct __sk_buff *)f->ctx)->vlan_tci & VLAN_ID : 0;
}

/* Looks through the tags. One that names a VLAN says that the frame came from elsewhere than the interface's zone, unless it crosses a
 * bridge that is for this VLAN too. */
static __always_inline enum verdict skip_tags(struct packet *p, const struct frame *f, __be16 *type)
{
	if (p->flags & PACKET_TAGGED && !is_bridged_vlan(p, taken_tag(f)))
		return drop(p, REASON_VLAN);
	for (int i = 0; i < MAX_VLANS; i++) {
		__be16 *tag;

		if (*type != bpf_htons(ETHERTYPE_VLAN) && *type != bpf_htons(ETHERTYPE_PROVIDER_VLAN))
			break;
		tag = bytes_at(f, p->network, VLAN_BYTES);
		if (!tag)
			return drop(p, REASON_TRUNCATED);
		if (tag[0] & bpf_htons(VLAN_ID) && !is_bridged_vlan(p, bpf_ntohs(tag[0]) & VLAN_ID))
			return drop(p, REASON_VLAN);
		*type = tag[1];
		p->network += VLAN_BYTES;
	}
	return VERDICT_NEXT;
}

/* Whose frame it is and where its IP header begins, of any frame. VERDICT_NEXT: `network` and `family` say so. ARP is
 * answered or goes up to the kernel at once. */
static __always_inline enum verdict parse_link(struct packet *p, const struct frame *f)
{
	struct ethernet *ethernet = bytes_at(f, 0, ETHERNET_BYTES);
	enum verdict verdict;
	__be16 type;

	if (!ethernet)
		return drop(p, REASON_TRUNCATED);
	if (!is_for_us(p, ethernet))
		return drop(p, REASON_NOT_OURS);
	type = ethernet->type;
	verdict = skip_tags(p, f, &type);
	if (verdict != VERDICT_NEXT)
		return verdict;
	if (type != bpf_htons(ETHERTYPE_IPV4) && type != bpf_htons(ETHERTYPE_IPV6) && type != bpf_htons(ETHERTYPE_ARP))
		return drop(p, REASON_NOT_IP);
	if (p->flags & PACKET_TO_GROUP && !is_group_of(ethernet, type))
		return drop(p, REASON_NOT_OURS);
	if (type == bpf_htons(ETHERTYPE_ARP))
		return meet_arp(f->ctx, p, f->hook);
	p->family = type == bpf_htons(ETHERTYPE_IPV4) ? 4 : 6;
	return VERDICT_NEXT;
}

/* 4 or 6; 0 for what is not IP. */
static __always_inline __u8 family_of_type(__be16 type)
{
	if (type == bpf_htons(ETHERTYPE_IPV4))
		return 4;
	return type == bpf_htons(ETHERTYPE_IPV6) ? 6 : 0;
}

/* The same of a frame on a bridge, whomever it is for. What is not judged crosses at once. */
static __always_inline enum verdict parse_bridged(struct packet *p, const struct frame *f)
{
	struct ethernet *ethernet = bytes_at(f, 0, ETHERNET_BYTES);
	enum verdict verdict;
	__u64 destination;
	__be16 type;

	if (!ethernet)
		return drop(p, REASON_TRUNCATED);
	type = ethernet->type;
	destination = link_destination(ethernet);
	verdict = skip_tags(p, f, &type);
	if (verdict != VERDICT_NEXT)
		return verdict;
	p->family = family_of_type(type);
	return p->family ? VERDICT_NEXT : pass_unjudged(p, f->hook, kind_across(destination, type));
}

/* Whether a frame at a bridge is for one host. */
static __always_inline bool is_for_one_across(const struct port *port, const struct ethernet *ethernet)
{
	return port->bridged_to && !(ethernet->destination[0] & 1);
}

/* Whether a frame is for the interface's own address, or for one host across a bridge, and carries no tag, as nearly all are. */
static __always_inline bool is_plain(const struct packet *p, const struct frame *f, const struct ethernet *ethernet)
{
	const struct port *port = &ports[p->port & (MAX_PORTS - 1)];

	if (f->hook == HOOK_XDP)
		return port->address == link_destination(ethernet) || is_for_one_across(port, ethernet);
	if (p->flags & PACKET_TAGGED)
		return 0;
	return p->flags & (PACKET_FROM_SELF | PACKET_TO_HOST) || is_for_one_across(port, ethernet);
}

#endif
