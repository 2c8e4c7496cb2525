/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* New flows: checks of what only a first packet can show, and a place in the table. */
#ifndef RAMPART_FIREWALL_OPEN_H
#define RAMPART_FIREWALL_OPEN_H

#include "tcp.h"

static __always_inline int is_opening(const struct packet *p)
{
	return (p->tcp_flags & TCP_KIND) == TCP_SYN;
}

/* Sources that no host has. 0.0.0.0 asks for an address by broadcast (RFC 2131). */
static __always_inline int is_no_source(const struct packet *p)
{
	__u32 address = bpf_ntohl(p->source[0]);

	if (p->family == 6)
		return (address >> 24) == 0xff ||
		       (!p->source[0] && !p->source[1] && !p->source[2] && p->source[3] == bpf_htonl(1));
	if (!address)
		return p->destination[0] != 0xffffffff;
	return address >> 24 == 127 || address >> 28 >= 14;
}

static __always_inline int check_ends(const struct packet *p)
{
	if (settings.check_land && same_address(p->family, p->source, p->destination))
		return REASON_LAND;
	return is_no_source(p) ? REASON_SOURCE : 0;
}

/* Puts the flow of an allowed packet into the table. 0, or the reason why it cannot be. */
__noinline int open_flow(struct packet *p)
{
	__u32 record = 0;

	if (!p)
		return REASON_TABLE_FULL;
	if (p->protocol == PROTOCOL_TCP && *(volatile __u32 *)&pool.half_open >= settings.half_open_limit)
		return REASON_HALF_OPEN_FULL;
	for (int i = 0; i < OPEN_TRIES; i++) {
		struct flow *flow = take_record(&record, p->tick);
		__u64 slot;

		if (!flow)
			return REASON_TABLE_FULL;
		fill_flow(flow, p);
		if (p->protocol == PROTOCOL_TCP) {
			begin_tcp(flow, p);
			__sync_fetch_and_add(&pool.half_open, 1);
		}
		flow->state = p->protocol == PROTOCOL_TCP ? FLOW_SYN_SENT : FLOW_ONE_WAY;
		count_packet(flow, p);
		slot = slot_of(p->tag, flow->number, record & RECORD_MASK);
		if (!publish(p, slot)) {
			give_back(flow, record);
			return REASON_TABLE_FULL;
		}
		if (!is_elsewhere(p, slot)) {
			p->record = record;
			tally(TALLY_OPENED, 1);
			return 0;
		}
		/* Another core may have removed it meanwhile, and given the record back; then it is not ours any more. */
		remove_flow(flow, record);
		record = search_flow(p);
		p->record = record - 1;
		if (record)
			return 0;
	}
	return REASON_CONTENDED;
}

#endif
