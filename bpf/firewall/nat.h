/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Which translation a new flow of IPv4 gets (of IPv6: prefix.h): the policy's rows, one after the other, in the generation's pages. Its destination
 * first, before its route and the rules are asked; its source when both have decided. Only the first packet of a flow
 * asks: its flow knows afterwards (alias.h), and translate.h writes what the flow knows.
 *
 * What is found lies in a room of the core, because the stack is short.
 */
#ifndef RAMPART_FIREWALL_NAT_H
#define RAMPART_FIREWALL_NAT_H

#include "answer.h"
#include "budgets.h"
#include "pages.h"

struct nat_room {
	struct packet reply;	/* alias.h: what the responder would send */
	struct packet probe;	/* mapping.h: what would find a mapping, or open it */
	/* The search: what a packet says, and where the rows are. */
	__u32 source;
	__u32 destination;
	__u32 service;
	__u32 from;
	__u32 to;
	__u32 at;
	__u32 count;
	__u32 row;		/* the place of the row that was found, and 1 */
	__u32 generation;	/* of the rows that were asked first */
	/* What the packet's header says while `destination` is the translated one. */
	__be32 asked_address;
	__be16 asked_port;
	__be16 asked_selector;
	/* Where it goes. */
	__be32 address;
	__be16 port;
	__be16 pad;
	/* What its source becomes. */
	__be32 alias;
	__u16 first_port;	/* that it may have, in host order */
	__u16 last_port;
	__u32 kind;		/* enum nat_kind; NAT_EXEMPT: it stays as it is */
	/* Mappings: mapping.h. */
	__u32 mapping;		/* enum nat_mapping, of the row */
	__u32 outer_zone;	/* of the mapping that a packet is for, where the mapping leads; or NO_ZONE */
	__u32 opens_mapping;	/* what is being opened is a mapping */
	__u32 is_bound;		/* the flow has the port of its mapping, or none */
	__be32 flow_address;	/* address and port, while a mapping is opened */
	__be16 flow_port;
	__u16 flow_pad;
	/* Prefixes of IPv6: prefix.h. */
	__u64 pair[4];		/* the search: source and destination, halves in host order */
	__u64 from_zones;
	__u64 to_zones;
	__u64 outer_zones;	/* that the outside prefix is for by which a packet came; 0: it came by none */
	__be32 asked[4];	/* what the packet's header says while `destination` is the true one; later its new source */
	__be32 inside[4];	/* the true destination */
	__be32 outside[4];	/* an address outside */
	__be32 quoted[4];	/* by which the receiver of an error knows whom it sent to */
	__u32 prefixed;		/* 1: the source has an address outside, 2: the destination has one */
	__u32 prefix_pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nat_room);
} nat_rooms SEC(".maps");

static __noinline struct nat_room *nat_room(void)
{
	return lookup(&nat_rooms, 0);
}

struct nat_search {
	void *pages;
	struct nat_room *room;
};

static __always_inline bool is_within(__u32 number, const __u32 *range)
{
	return number >= range[0] && number <= range[1];
}

/* Looks at one more row. 1 ends the search. */
static int match_row(__u32 turn, struct nat_search *s)
{
	struct nat_room *room = s->room;
	const struct nat_row *row = row_at(s->pages, room->at + turn * NAT_ROW_WORDS, NAT_ROW_WORDS);

	if (!row)
		return 1;
	if (!(row->from >> (room->from & 63) & 1) || !(row->to >> (room->to & 63) & 1) ||
	    !is_within(room->service, row->service) || !is_within(room->source, row->source) ||
	    !is_within(room->destination, row->destination))
		return 0;
	room->row = turn + 1;
	return 1;
}

/* The first row that matches a packet, or null. */
static __always_inline const struct nat_row *find_row(const struct packet *p, struct nat_room *room, enum nat_direction direction)
{
	struct nat_search s = { .pages = current_pages(), .room = room };
	const struct table_header *header = s.pages ? header_of(s.pages) : 0;

	if (!header)
		return 0;
	if (direction == NAT_DESTINATION)
		room->generation = header->generation;
	room->at = header->translations[direction].at;
	room->count = header->translations[direction].count;
	room->source = bpf_ntohl(p->source[0]);
	room->destination = bpf_ntohl(p->destination[0]);
	room->service = p->protocol << 16 | bpf_ntohs(p->selector);
	room->from = p->from;
	room->to = p->to;
	room->row = 0;
	bpf_loop(room->count & (2 * MAX_NAT_ROWS - 1), match_row, &s, 0);
	return room->row ? row_at(s.pages, room->at + (room->row - 1) * NAT_ROW_WORDS, NAT_ROW_WORDS) : 0;
}

static __always_inline __u8 mapping_protocol(__u8 protocol)
{
	return protocol == PROTOCOL_TCP ? MAPPING_OF_TCP : MAPPING_OF_UDP;
}

static __always_inline bool has_ports(const struct packet *p)
{
	return p->protocol == PROTOCOL_TCP || p->protocol == PROTOCOL_UDP;
}

/* In mapping.h. */
int meet_mapping(struct packet *p);

/* In prefix.h. */
int choose_inside(struct packet *p);
int choose_outside(struct packet *p);

/* Sends a packet that would open a flow where the policy wants it. Its header still says where it was sent to. */
__noinline int choose_destination(struct packet *p)
{
	struct nat_room *room = nat_room();
	const struct nat_row *row;
	__u32 address;

	if (!p || !room)
		return 0;
	if (p->family != 4)
		return settings.translates & TRANSLATES_PREFIXES ? choose_inside(p) : 0;
	room->asked_address = p->destination[0];
	room->asked_port = p->destination_port;
	room->asked_selector = p->selector;
	room->outer_zone = NO_ZONE;
	/* A row of destinations is from zones to all zones: where it goes is not known yet. */
	p->to = 0;
	row = find_row(p, room, NAT_DESTINATION);
	p->to = NO_ZONE;
	/* Whoever forwards a port outside by an entry does not lose it to a mapping. */
	if (!row && settings.translates & TRANSLATES_TO_MAPPINGS)
		return meet_mapping(p);
	if (!row || row->kind == NAT_EXEMPT || p->flags & PACKET_STATELESS)
		return 0;
	address = row->address[0];
	if (row->kind == NAT_ONE_TO_ONE)
		address += room->destination - row->destination[0];
	p->destination[0] = bpf_htonl(address);
	if (row->ports && has_ports(p))
		p->destination_port = p->selector = bpf_htons(row->ports);
	p->flags |= PACKET_DESTINATION_TRANSLATED;
	return 0;
}

/* What its header says again. */
static __always_inline void restore_destination(struct packet *p)
{
	const struct nat_room *room = p->flags & PACKET_DESTINATION_TRANSLATED ? nat_room() : 0;

	if (!room)
		return;
	p->flags &= ~PACKET_DESTINATION_TRANSLATED;
	if (p->family == 6) {
		for (int word = 0; word < 4; word++)
			p->destination[word] = room->asked[word];
		return;
	}
	p->destination[0] = room->asked_address;
	p->destination_port = room->asked_port;
	p->selector = room->asked_selector;
}

/* One of a row's addresses, always the same one for a source (RFC 4787 REQ-2, "paired"). */
static __always_inline __u32 paired_address(const struct nat_row *row, __be32 source)
{
	__u32 count = row->address[1] - row->address[0] + 1;

	return row->address[0] + (count ? (__u32)(mix(secret[6], source) >> 32) % count : 0);
}

/* The address under which a row lets the responder know the initiator; 0: there is none. */
static __always_inline __be32 alias_by(const struct nat_row *row, const struct packet *p, const struct nat_room *room)
{
	const struct own_addresses *own;
	__u32 ifindex;

	if (row->kind == NAT_ONE_TO_ONE)
		return bpf_htonl(row->address[0] + room->source - row->source[0]);
	if (row->kind == NAT_ADDRESS)
		return bpf_htonl(paired_address(row, p->source[0]));
	ifindex = ports[p->way & (MAX_PORTS - 1)].ifindex;
	own = bpf_map_lookup_elem(&own_addresses, &ifindex);
	return own ? own->v4 : 0;
}

#define LAST_PRIVILEGED 1023

/* Which ports the alias may have: those of the row, or of the same kind as its own (RFC 4787 REQ-3, RFC 5382 REQ-7). */
static __always_inline void choose_ports(struct nat_room *room, const struct nat_row *row, const struct packet *p)
{
	__u16 port = bpf_ntohs(p->source_port);

	if (row->ports) {
		room->first_port = row->ports;
		room->last_port = row->ports >> 16;
	} else if (p->protocol == PROTOCOL_ICMP) {
		room->first_port = 0;
		room->last_port = 0xffff;
	} else {
		room->first_port = port <= LAST_PRIVILEGED ? 1 : LAST_PRIVILEGED + 1;
		room->last_port = port <= LAST_PRIVILEGED ? LAST_PRIVILEGED : 0xffff;
	}
}

/* Whether a packet goes to a mapping from another zone than the mapping leads to. */
static __always_inline bool is_hairpin(const struct packet *p, const struct nat_room *room)
{
	return room->outer_zone != NO_ZONE && room->outer_zone != p->from;
}

/* The row about a source. Of a hairpin it is the one by which the sender would reach the mapping from outside, so that it comes by the name that everybody
 * outside knows (RFC 4787 REQ-9), if that one has mappings. */
static __always_inline const struct nat_row *find_source_row(struct packet *p, struct nat_room *room)
{
	const struct nat_row *row;
	__be32 inside = p->destination[0];
	__u8 to = p->to;

	if (!is_hairpin(p, room))
		return find_row(p, room, NAT_SOURCE);
	p->to = room->outer_zone;
	p->destination[0] = room->asked_address;
	row = find_row(p, room, NAT_SOURCE);
	p->to = to;
	p->destination[0] = inside;
	return row && row->mapping ? row : find_row(p, room, NAT_SOURCE);
}

/*
 * Chooses what the source of a packet that may open a flow becomes, and puts what its header says back into `destination`. It is
 * PACKET_TRANSLATED then if any end is translated. 0, or why it must not pass.
 */
__noinline int choose_source(struct packet *p)
{
	struct nat_room *room = nat_room();
	const struct nat_row *row;

	if (!p || !room)
		return REASON_UNTRANSLATABLE;
	if (p->family != 4)
		return settings.translates & TRANSLATES_PREFIXES ? choose_outside(p) : 0;
	room->address = p->destination[0];
	room->port = p->destination_port;
	room->kind = NAT_EXEMPT;
	room->mapping = MAPPING_BY_FLOW;
	room->is_bound = 0;
	row = p->to == ZONE_SELF ? 0 : find_source_row(p, room);
	if (row && row->kind != NAT_EXEMPT) {
		room->alias = is_hairpin(p, room) && row->mapping && row->kind == NAT_MASQUERADE ? room->asked_address
												  : alias_by(row, p, room);
		if (!room->alias)
			return REASON_UNTRANSLATABLE;
		room->kind = row->kind;
		if (has_ports(p) && p->source_port)
			room->mapping = row->mapping;
		choose_ports(room, row, p);
		p->flags |= PACKET_TRANSLATED;
	}
	if (p->flags & PACKET_DESTINATION_TRANSLATED) {
		restore_destination(p);
		p->flags |= PACKET_TRANSLATED;
	}
	if (!(p->flags & PACKET_TRANSLATED))
		return 0;
	/* Of another policy than the one that allowed it. */
	if (room->generation != p->generation)
		return REASON_CONTENDED;
	return p->flags & PACKET_STATELESS ? REASON_UNTRANSLATABLE : 0;
}

#endif
