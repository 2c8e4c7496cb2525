/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* New flows: checks of what only a first packet can show, and a place in the table. */
#ifndef RAMPART_FIREWALL_OPEN_H
#define RAMPART_FIREWALL_OPEN_H

#include "evict.h"

static __always_inline bool is_opening(const struct packet *p)
{
	return (p->tcp_flags & TCP_KIND) == TCP_SYN;
}

/* Sources that no host has. 0.0.0.0 asks for an address by broadcast (RFC 2131). Of IPv6 (RFC 4291): groups, and what begins like
 * the unspecified address: that one, the loopback address, and IPv4 addresses in the clothes of IPv6, old and new. */
static __always_inline bool is_no_source(const struct packet *p)
{
	__u32 address = bpf_ntohl(p->source[0]);

	if (p->family == 6)
		return address >> 24 == 0xff ||
		       (!p->source[0] && !p->source[1] && (!p->source[2] || p->source[2] == bpf_htonl(0xffff)));
	if (!(address >> 24))
		return address || p->destination[0] != 0xffffffff;
	return address >> 24 == 127 || address >> 28 >= 14;
}

/* Destinations that no host has: this network and class E (RFC 1122 section 3.2.1.3), and of IPv6 the same as of sources. The loopback network
 * is one, unless the kernel has translated the destination and says so. Where the kernel forwards, a link-local address of IPv6 is one as well;
 * to those of IPv4 it forwards if it has a route, and containers need it: at 169.254.169.254 clouds have their resolver. */
static __always_inline bool is_no_destination(const struct packet *p)
{
	__u32 address = bpf_ntohl(p->destination[0]);

	if (p->family == 6)
		return (p->flags & PACKET_FORWARDED && is_of_link(6, p->destination[0])) ||
		       (!p->destination[0] && !p->destination[1] && (!p->destination[2] || p->destination[2] == bpf_htonl(0xffff)));
	if (address >> 24 == 127)
		return p->to == NO_ZONE;
	return !(address >> 24) || (address >> 28 == 15 && address != ~0U);
}

static __always_inline int check_ends(const struct packet *p)
{
	if (settings.check_land && same_address(p->family, p->source, p->destination))
		return REASON_LAND;
	if (is_no_source(p))
		return REASON_SOURCE;
	return is_no_destination(p) ? REASON_DESTINATION : 0;
}

/* A record with the flow that a packet opens, which nobody can see yet; or null. */
static __always_inline struct flow *new_record(struct packet *p, __u32 *record)
{
	__u8 state = p->protocol == PROTOCOL_TCP ? FLOW_SYN_SENT : FLOW_ONE_WAY;
	__u64 found = take_record(tick_of(p->era, p->tick));
	struct flow *flow;

	if (!found && make_room(p, BUDGETS))
		found = take_record(tick_of(p->era, p->tick));
	*record = found;
	flow = found ? lookup(&flows, *record) : 0;
	if (!flow)
		return 0;
	fill_flow(flow, p);
	if (p->protocol == PROTOCOL_TCP)
		begin_tcp(flow, p);
	occupy(flow->source, 1);
	recount(flow->source, FLOW_FREE, state);
	flow->state = state;
	count_packet(flow, p);
	return flow;
}

/* Puts a record where the packets of its flow find it. 0, or why it is given back: REASON_CONTENDED, another core was first with the same ends. */
static __always_inline int put_record(struct packet *p, struct flow *flow, __u32 record)
{
	__u64 slot = slot_of(p->tag, flow->number, record & RECORD_MASK);

	if (!publish(p, slot)) {
		give_back(flow, record);
		return REASON_TABLE_FULL;
	}
	if (is_alone(p, slot)) {
		p->record = slot;
		tally(TALLY_OPENED, 1);
		return 0;
	}
	/* Another core may have removed it meanwhile, and given the record back; then it is not ours any more. */
	remove_flow(flow, slot, END_UNSEEN);
	return REASON_CONTENDED;
}

/* Puts the flow of an allowed packet into the table. 0, or the reason why it cannot be. */
__noinline int open_flow(struct packet *p)
{
	int reason;

	if (!p)
		return REASON_TABLE_FULL;
	reason = ask_room(p);
	if (reason)
		return reason;
	for (int i = 0; i < OPEN_TRIES; i++) {
		__u64 slot;
		__u32 record;
		struct flow *flow = new_record(p, &record);

		if (!flow)
			return REASON_TABLE_FULL;
		reason = put_record(p, flow, record);
		if (reason != REASON_CONTENDED)
			return reason;
		slot = search_flow(p);
		if (slot) {
			p->record = slot;
			return 0;
		}
	}
	return REASON_CONTENDED;
}

#endif
