/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* New flows: checks of what only a first packet can show, and a place in the table. */
#ifndef RAMPART_FIREWALL_OPEN_H
#define RAMPART_FIREWALL_OPEN_H

#include "tcp.h"

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

/* Destinations that no host has: this network and class E (RFC 1122 section 3.2.1.3), and of IPv6 the same as of sources. The loopback
 * network is one, unless the kernel has translated the destination and says so. */
static __always_inline bool is_no_destination(const struct packet *p)
{
	__u32 address = bpf_ntohl(p->destination[0]);

	if (p->family == 6)
		return !p->destination[0] && !p->destination[1] &&
		       (!p->destination[2] || p->destination[2] == bpf_htonl(0xffff));
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

#define HALF_OPEN_LEAST 1024	/* ticks, about a second: an honest handshake is done by then, or its SYN comes again */
#define HALF_OPEN_EVICTION_STEPS 1024	/* records that a scan looks at: about 10 us, at most once a tick in vain */

__u32 half_open_scanned;	/* tick of the last scan that found no half-open flow to evict */

/* One step of the eviction scan: evicts the flow of the next record if its handshake should be done by now. */
static int evict_half_open(__u32 turn __attribute__((unused)), __u32 *tick)
{
	__u32 used = READ_ONCE(pool.fresh), record, use;
	struct flow *flow;
	__u8 state;

	/* Records that were never used are not looked at. */
	if (used > record_count)
		used = record_count;
	if (!used)
		return 0;
	record = __sync_fetch_and_add(&pool.eviction_cursor, 1) % used;
	flow = lookup(&flows, record);
	if (!flow)
		return 0;
	use = use_of(flow, record);
	state = flow->state;
	if (!is_half_open(state) || (__s32)(*tick - flow->opened) < HALF_OPEN_LEAST)
		return 0;
	/* Closed before it goes, so that none goes that is established at this moment. */
	move(flow, state, FLOW_RESET);
	if (flow->state != FLOW_RESET || !remove_flow(flow, use))
		return 0;
	tally(TALLY_EXPIRED, 1);
	return 1;
}

/* Whether there is room for one more half-open flow. A flood that fills the budget evicts its own oldest. */
static __always_inline bool has_half_open_room(__u32 tick)
{
	if (READ_ONCE(pool.half_open) < settings.half_open_limit)
		return 1;
	/* A fruitless scan is dear, and the next one would be as fruitless. */
	if (half_open_scanned == tick)
		return 0;
	bpf_loop(HALF_OPEN_EVICTION_STEPS, evict_half_open, &tick, 0);
	if (READ_ONCE(pool.half_open) < settings.half_open_limit)
		return 1;
	half_open_scanned = tick;
	/* Young flows lie together: the next scan begins somewhere else. */
	__sync_fetch_and_add(&pool.eviction_cursor, READ_ONCE(pool.fresh) / 8 * 5);
	return 0;
}

/* Puts the flow of an allowed packet into the table. 0, or the reason why it cannot be. */
__noinline int open_flow(struct packet *p)
{
	__u32 record = 0;

	if (!p)
		return REASON_TABLE_FULL;
	if (p->protocol == PROTOCOL_TCP && !has_half_open_room(p->tick))
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
		if (is_alone(p, slot)) {
			p->record = slot;
			tally(TALLY_OPENED, 1);
			return 0;
		}
		/* Another core may have removed it meanwhile, and given the record back; then it is not ours any more. */
		remove_flow(flow, slot);
		slot = search_flow(p);
		if (slot) {
			p->record = slot;
			return 0;
		}
	}
	return REASON_CONTENDED;
}

#endif
