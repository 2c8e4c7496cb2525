/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Opens a translated flow: with an alias that no other flow has, towards the same responder. Both of its slots are in the one table of
 * flows, so that whatever has the same ends is met there: another translated flow, a flow that is not translated, and one of the
 * firewall itself.
 *
 * The port stays as it is, if it is free and may be used. Otherwise ALIAS_TRIES ports are asked for, which depend on a secret and on the
 * initiator. Those of one source lie in a part of the ports that begins at a place of its own, and a source that has as many
 * flows as such a part has ports does not keep its own ports any more, nor looks beyond its part: so one source leaves ports for
 * the others.
 */
#ifndef RAMPART_FIREWALL_ALIAS_H
#define RAMPART_FIREWALL_ALIAS_H

#include "nat.h"
#include "open.h"

#define SHARE_OF_PORTS 4	/* a source has one part of so many */
#define FEW_PORTS 256		/* fewer are not shared out */

/* How many of these ports one source may have. */
static __always_inline __u32 share_of(__u32 ports)
{
	return ports < FEW_PORTS ? ports : ports / SHARE_OF_PORTS;
}

/* Whether a source has more flows than its share of these ports. */
static __always_inline bool has_its_share(const struct flow *flow, __u32 ports)
{
	struct source *source = source_at(flow->source);

	return source && READ_ONCE(source->flows) > share_of(ports);
}

/* The port that is asked for in a turn, in host order. A number beyond all ports: none. */
__noinline __u32 port_of_turn(struct nat_room *room, struct flow *flow, struct packet *p, __u32 turn)
{
	__u32 port, first, count, share, chosen;

	if (!room || !flow || !p)
		return ~0U;
	port = bpf_ntohs(p->source_port);
	first = room->first_port;
	count = room->last_port - first + 1;
	if (room->is_bound)
		return turn ? ~0U : first;
	if (room->kind == NAT_EXEMPT || room->kind == NAT_ONE_TO_ONE ||
	    !(has_ports(p) || p->protocol == PROTOCOL_ICMP || room->opens_mapping))
		return turn ? ~0U : port;
	if (!turn)
		return port - first < count && !has_its_share(flow, count) ? port : ~0U;
	/* Who has little may look everywhere: its own part may be full of others' ports. */
	share = turn > ALIAS_TRIES / 2 && !has_its_share(flow, count) ? count : share_of(count);
	chosen = (mix(secret[7], p->source[0]) >> 32) % count + (mix(secret[8], (__u64)p->source[0] << 32 | port << 8 | turn) >> 32) % share;
	chosen = first + chosen % count;
	if (turn > ALIAS_TRIES / 2)
		return chosen;
	/* Even ports stay even (RFC 4787 REQ-4), as long as there are some. */
	if (chosen & 1 && !(port & 1) && chosen > first)
		chosen--;
	else if (!(chosen & 1) && port & 1 && chosen < room->last_port)
		chosen++;
	return chosen;
}

/* Takes the slot of what the responder sends, unless somebody has these ends. Returns 1 if it has it. `use` is the lower half of the slot. */
static __always_inline int take_alias(struct packet *reply, __u32 use)
{
	__u64 slot;

	find_side(reply);
	slot = (__u64)reply->tag << 32 | use;
	if (others_of(reply, slot) || !publish(reply, slot))
		return 0;
	if (is_alone(reply, slot))
		return 1;
	empty_slot(reply->hash, reply->tag, use);
	return 0;
}

/* Gives a flow the ends that it has besides those of its first packet. */
static __always_inline void fill_aliases(struct flow *flow, const struct packet *p, struct nat_room *room)
{
	__u32 s = p->side & 1, r = s ^ 1;

	flow->family |= FLOW_TRANSLATED;
	if (room->kind == NAT_MASQUERADE)
		flow->family |= FLOW_MASQUERADED;
	else if (room->kind == NAT_EXEMPT)
		room->alias = p->source[0];
	if (room->opens_mapping)
		flow->family |= FLOW_IS_MAPPING;
	else if (room->mapping || room->outer_zone != NO_ZONE)
		flow->family |= FLOW_MAPPED;
	flow->address_rest[r][ALIAS_ADDRESS] = p->destination[0];
	flow->address_rest[r][ALIAS_PORT] = p->destination_port;
	flow->address[r] = room->address;
	flow->port[r] = room->port;
	flow->address_rest[s][ALIAS_ADDRESS] = room->alias;
	room->reply = (struct packet){ .protocol = p->protocol, .family = 4, .tick = p->tick, .era = p->era };
	room->reply.source[0] = room->address;
	room->reply.source_port = room->port;
	room->reply.destination[0] = room->alias;
}

/* Takes the alias of a turn, if there is one and nobody has it. Global, so that the verifier goes through it for one turn. */
__noinline int take_alias_of_turn(struct packet *p, struct flow *flow, __u32 turn, __u32 use)
{
	struct nat_room *room = nat_room();
	__u32 port;

	if (!p || !flow || !room)
		return 0;
	port = port_of_turn(room, flow, p, turn);
	if (port > 0xffff)
		return 0;
	room->reply.destination_port = bpf_htons(port);
	flow->address_rest[p->side & 1][ALIAS_PORT] = bpf_htons(port);
	return take_alias(&room->reply, use);
}

/* Finds an alias for a flow that nobody can see yet. Returns 1 if the flow has one. */
__noinline int find_alias(struct packet *p, struct flow *flow, __u32 use)
{
	struct nat_room *room = nat_room();

	if (!p || !flow || !room)
		return 0;
	fill_aliases(flow, p, room);
	for (__u32 turn = 0; turn < ALIAS_TRIES; turn++)
		if (take_alias_of_turn(p, flow, turn, use))
			return 1;
	return 0;
}

/* The same as open_flow() for a packet that choose_source() found to be translated. */
__noinline int open_translated(struct packet *p)
{
	struct flow *flow;
	__u32 record, use;
	__u64 slot;
	int reason;

	if (!p)
		return REASON_TABLE_FULL;
	reason = ask_room(p);
	if (reason)
		return reason;
	flow = new_record(p, &record);
	if (!flow)
		return REASON_TABLE_FULL;
	use = slot_of(0, flow->number, record & RECORD_MASK);
	if (!find_alias(p, flow, use)) {
		give_back(flow, record);
		return REASON_NAT_EXHAUSTED;
	}
	slot = (__u64)p->tag << 32 | use;
	if (!publish(p, slot)) {
		empty_replies(flow, use);
		give_back(flow, record);
		return REASON_TABLE_FULL;
	}
	if (!is_alone(p, slot)) {
		remove_flow(flow, use, END_UNSEEN);
		slot = search_flow(p);
		if (!slot)
			return REASON_CONTENDED;
		p->record = slot;
		return 0;
	}
	p->record = use;
	tally(TALLY_OPENED, 1);
	return 0;
}

#endif
