/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Endpoint-independent mappings (RFC 4787 section 4.1): an end inside keeps one address and port outside for all whom it talks to, and, if
 * its entry filters less than by address and port, others outside may begin by that.
 *
 * A mapping is a record of the flow table like a translated flow, whose responder is nobody: 0.0.0.0, port 0. Its first slot is found by the
 * end inside, its second by the end's alias, so that two cores cannot give one port to two ends, and the time, the eviction, the
 * sweep and a new daemon know nothing of it. Its protocol is a number of its own, by which no packet finds it: packets of that number have no
 * ports, and a mapping always has. Filtering by address keeps one more such record for each address that the end has sent to.
 *
 * Known flows do not ask for their mapping, but for once in MAPPING_REFRESH ticks; the sweep does for connections that are idle.
 */
#ifndef RAMPART_FIREWALL_MAPPING_H
#define RAMPART_FIREWALL_MAPPING_H

#include "alias.h"

/* The record of a mapping as a probe asks for it, or null. A mapping that has expired and is not swept yet is still there. */
static __always_inline struct flow *find_mapping(struct packet *probe)
{
	__u64 slot;

	find_side(probe);
	slot = search_flow(probe);
	probe->record = slot;
	return slot ? lookup(&flows, (__u32)slot & RECORD_MASK) : 0;
}

static __always_inline struct flow *find_probed(struct nat_room *room)
{
	return find_mapping(&room->probe);
}

/* Prepares the look for what an end inside has: its mapping, or with an address the permission of that address. */
static __always_inline void probe_end(struct packet *probe, __u8 protocol, __be32 inside, __be16 port, __be32 address)
{
	*probe = (struct packet){ .protocol = mapping_protocol(protocol), .family = 4 };
	probe->source[0] = inside;
	probe->source_port = port;
	probe->destination[0] = address;
}

#define MAPPINGS_OF_FLOW 4	/* of each end its mapping, and the permission of the other end */

/* The same of what the ends of a flow have, one after the other. */
static __always_inline void probe_of_flow(struct packet *probe, const struct flow *flow, __u32 turn)
{
	__u32 end = turn & 1;

	probe_end(probe, flow->protocol, flow->address[end], flow->port[end], turn > 1 ? alias_address(flow, end ^ 1) : 0);
}

/* The same at the time of a packet, which may open what is not there. */
static __always_inline void probe_inside(struct nat_room *room, const struct packet *p, __be32 inside, __be16 port, __be32 address)
{
	probe_end(&room->probe, p->protocol, inside, port, address);
	room->probe.tick = p->tick;
	room->probe.era = p->era;
}

/* The same by the alias, as somebody outside has it. */
static __always_inline void probe_outside(struct nat_room *room, const struct packet *p, __be32 address, __be32 alias, __be16 port)
{
	probe_inside(room, p, address, 0, alias);
	room->probe.destination_port = port;
}

static __always_inline bool may_have_port(const struct nat_room *room, __be16 port)
{
	return bpf_ntohs(port) >= room->first_port && bpf_ntohs(port) <= room->last_port;
}

/* Binds the new flow to the alias of its mapping: no other port is tried. */
static __always_inline void bind_to(struct nat_room *room, const struct flow *mapping)
{
	__u16 port = bpf_ntohs(alias_port(mapping, mapping->initiator & 1));

	room->first_port = room->last_port = port;
	room->is_bound = 1;
}

/*
 * Looks for what a new flow needs that `choose_source` found to be mapped: the mapping of its source, or with `by_address` the
 * permission of whom it sends to. Returns 1 if it is not there: then `room->probe` opens it.
 */
__noinline int ask_mapping(struct packet *p, __u32 by_address)
{
	struct nat_room *room = nat_room();
	struct flow *mapping;
	__be32 address = 0;

	if (!p || !room || !room->mapping || (by_address && room->mapping != MAPPING_FILTERED_BY_ADDRESS))
		return 0;
	/* Whom the answer comes from, as this end will know it: of a hairpin the alias of the other end. */
	if (by_address)
		address = room->outer_zone == NO_ZONE ? room->address : p->destination[0];
	probe_inside(room, p, p->source[0], p->source_port, address);
	mapping = find_probed(room);
	if (mapping && alias_address(mapping, mapping->initiator & 1) == room->alias &&
	    may_have_port(room, alias_port(mapping, mapping->initiator & 1))) {
		note_seen(mapping, p);
		if (!by_address)
			bind_to(room, mapping);
		return 0;
	}
	/* Of an entry that says something else by now. */
	if (mapping)
		remove_flow(mapping, room->probe.record, END_UNSEEN);
	room->probe.from = p->from;
	room->probe.to = room->outer_zone == NO_ZONE ? p->to : room->outer_zone;
	room->probe.generation = p->generation;
	room->probe.mark = MARK_SLOT;
	room->flow_address = room->address;
	room->flow_port = room->port;
	room->address = address;
	room->port = 0;
	room->opens_mapping = 1;
	return 1;
}

/* After a mapping was opened: the flow's own ends are those of the room again. 0, or why the flow cannot be. */
__noinline int settle_mapping(struct packet *p, __u32 by_address)
{
	struct nat_room *room = nat_room();
	struct flow *mapping;

	if (!p || !room)
		return REASON_NAT_EXHAUSTED;
	room->address = room->flow_address;
	room->port = room->flow_port;
	room->opens_mapping = 0;
	if (by_address)
		return 0;
	/* The one that is in the table, which may be another core's. */
	mapping = find_probed(room);
	if (!mapping)
		return REASON_CONTENDED;
	bind_to(room, mapping);
	return 0;
}

/* The packet that opens a mapping. */
static __always_inline struct packet *opening_mapping(void)
{
	struct nat_room *room = nat_room();

	return room ? &room->probe : 0;
}

/* Opens what a new flow needs. 0, or why the flow cannot be. */
static __always_inline int open_mapping(struct packet *p, const __u32 by_address)
{
	int reason, settled;

	if (!ask_mapping(p, by_address))
		return 0;
	reason = open_translated(opening_mapping());
	settled = settle_mapping(p, by_address);
	return reason ?: settled;
}

/* Whether the alias of an end is still what the row that decides about it gives. */
static __always_inline bool is_of_row(const struct nat_row *row, const struct flow *mapping, __u32 inside)
{
	__u16 port = bpf_ntohs(alias_port(mapping, inside));

	if (row->kind == NAT_ADDRESS && bpf_htonl(paired_address(row, mapping->address[inside])) != alias_address(mapping, inside))
		return false;
	if (row->kind == NAT_MASQUERADE && !(mapping->family & FLOW_MASQUERADED))
		return false;
	return !row->ports || (port >= (__u16)row->ports && port <= row->ports >> 16);
}

/* How the entry filters what comes to a mapping: that one which would translate an answer. */
static __always_inline __u32 filtering_of(const struct packet *p, const struct flow *mapping, struct nat_room *room)
{
	__u32 inside = mapping->initiator & 1;
	const struct nat_row *row;

	/* The look for a row reads these alone. */
	room->reply.source[0] = mapping->address[inside];
	room->reply.destination[0] = p->source[0];
	room->reply.selector = p->source_port;
	room->reply.protocol = p->protocol;
	room->reply.from = mapping->zone[inside];
	room->reply.to = mapping->zone[inside ^ 1];
	row = find_row(&room->reply, room, NAT_SOURCE);
	return row && row->kind != NAT_EXEMPT && is_of_row(row, mapping, inside) ? row->mapping : MAPPING_BY_FLOW;
}

/* Whether the end inside has sent to whom a packet comes from. A sender inside is known to it by the alias of its own mapping. */
static __always_inline bool is_permitted(const struct packet *p, struct nat_room *room)
{
	__be32 sender = p->source[0];
	struct flow *found;

	probe_inside(room, p, p->source[0], p->source_port, 0);
	found = find_probed(room);
	if (found)
		sender = alias_address(found, found->initiator & 1);
	probe_outside(room, p, sender, room->asked_address, room->asked_port);
	found = find_probed(room);
	return found && !is_expired(found, tick_of(p->era, p->tick), 0);
}

/* Sends a packet that would open a flow to whose mapping it is for, if the entry lets its sender begin. */
__noinline int meet_mapping(struct packet *p)
{
	struct nat_room *room = nat_room();
	struct flow *mapping;
	__u32 filtering, inside;
	__be32 address;
	__be16 port;

	if (!p || !room || !has_ports(p))
		return 0;
	probe_outside(room, p, 0, p->destination[0], p->destination_port);
	mapping = find_probed(room);
	if (!mapping || is_expired(mapping, tick_of(p->era, p->tick), 0))
		return 0;
	filtering = filtering_of(p, mapping, room);
	inside = mapping->initiator & 1;
	address = mapping->address[inside];
	port = mapping->port[inside];
	room->outer_zone = mapping->zone[inside ^ 1];
	/* Its record may be another's by now. */
	if (use_of(mapping, room->probe.record & RECORD_MASK) != (__u32)room->probe.record)
		filtering = MAPPING_BY_FLOW;
	if (filtering == MAPPING_OPEN || (filtering == MAPPING_FILTERED_BY_ADDRESS && is_permitted(p, room))) {
		p->destination[0] = address;
		p->destination_port = p->selector = port;
		p->flags |= PACKET_DESTINATION_TRANSLATED;
	} else {
		room->outer_zone = NO_ZONE;
	}
	return 0;
}

/* A packet of a flow from an end that may have a mapping, which lives on (RFC 4787 REQ-6); so does the permission of whom it is for. */
__noinline int refresh_mapping(struct packet *p, struct flow *flow)
{
	struct nat_room *room = lookup(&nat_rooms, 0);

	if (!p || !flow || !room)
		return 0;
	for (__u32 by_address = 0; by_address < 2; by_address++) {
		struct flow *mapping;

		probe_inside(room, p, p->source[0], p->source_port, by_address ? p->destination[0] : 0);
		mapping = find_probed(room);
		if (!mapping)
			return 0;
		note_seen(mapping, p);
		if (flow->state != FLOW_ONE_WAY && !is_half_open(flow->state))
			move(mapping, FLOW_ONE_WAY, FLOW_MAPPING);
	}
	return 0;
}

/* Once somebody has answered, the mappings of both ends are of none of the budgets of what nobody has answered. */
__noinline int answer_mapping(struct flow *flow)
{
	struct nat_room *room = lookup(&nat_rooms, 0);

	if (!flow || !room)
		return 0;
	for (__u32 turn = 0; turn < MAPPINGS_OF_FLOW; turn++) {
		struct flow *mapping;

		probe_of_flow(&room->probe, flow, turn);
		mapping = find_probed(room);
		if (mapping)
			move(mapping, FLOW_ONE_WAY, FLOW_MAPPING);
	}
	return 0;
}

/*
 * The mappings of the ends of a connection live as long as it does, also while nobody sends what would refresh them (RFC 5382 REQ-5). The
 * sweep asks, on its own stack: a packet may come in between and use the room.
 */
__noinline int keep_mappings(struct flow *flow, __u64 tick)
{
	struct packet probe;

	if (!flow || flow->protocol != PROTOCOL_TCP || !is_mapped(flow) || is_half_open(flow->state) ||
	    is_closed(flow->state))
		return 0;
	for (__u32 turn = 0; turn < MAPPINGS_OF_FLOW; turn++) {
		struct flow *mapping;

		probe_of_flow(&probe, flow, turn);
		mapping = find_mapping(&probe);
		set_clock(&probe, tick);
		if (mapping)
			note_seen(mapping, &probe);
	}
	return 0;
}

#endif
