/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Translation of IPv6 prefixes (RFC 6296): each address inside has one outside, by arithmetic on the policy's rows alone, so no flow keeps an
 * alias. A flow is found by the true ends, and says of each end whether the other knows it by its address outside (FLOW_PREFIX_OF). What
 * comes for an address outside finds its flow in a second look (find_behind_prefix), which known flows that are not translated do not
 * take. The packet's fields go on saying what its header says, as those of translated flows of IPv4 do.
 *
 * The sum over an address stays, so no checksum changes: neither of the packet, nor of what an ICMPv6 error quotes.
 */
#ifndef RAMPART_FIREWALL_PREFIX_H
#define RAMPART_FIREWALL_PREFIX_H

#include "alias.h"
#include "bridge.h"
#include "nat.h"
#include "parse.h"

struct prefix_search {
	void *pages;
	struct nat_room *room;
};

static __always_inline bool is_pair_within(const __u64 *address, const __u64 *range)
{
	bool is_above = address[0] > range[0] || (address[0] == range[0] && address[1] >= range[1]);
	bool is_below = address[0] < range[2] || (address[0] == range[2] && address[1] <= range[3]);

	return is_above && is_below;
}

/* Looks at one more row. 1 ends the search. */
static int match_prefix_row(__u32 turn, struct prefix_search *s)
{
	struct nat_room *room = s->room;
	const struct prefix_row *row = row_here(s->pages, room->at + turn * PREFIX_ROW_WORDS, PREFIX_ROW_WORDS);

	if (!row)
		return 1;
	if (!(row->from & room->from_zones) || !(row->to & room->to_zones) || !is_pair_within(room->pair, row->source) ||
	    !is_pair_within(room->pair + 2, row->destination))
		return 0;
	room->row = turn + 1;
	return 1;
}

/* The first row that matches what the room says, or null. `destination` is that of the packet. */
static __always_inline const struct prefix_row *find_prefix_row(struct nat_room *room, const __be32 *source, const __be32 *destination,
								enum nat_direction direction)
{
	struct prefix_search s = { .pages = current_pages(), .room = room };
	const struct table_header *header = s.pages ? header_of(s.pages) : 0;

	if (!header)
		return 0;
	if (direction == NAT_DESTINATION)
		room->generation = header->generation;
	room->at = header->prefixes[direction].at;
	room->count = header->prefixes[direction].count;
	room->pair[0] = host_pair(source);
	room->pair[1] = host_pair(source + 2);
	room->pair[2] = host_pair(destination);
	room->pair[3] = host_pair(destination + 2);
	room->row = 0;
	bpf_loop(room->count & (2 * MAX_PREFIX_ROWS - 1), match_prefix_row, &s, 0);
	return room->row ? row_at(s.pages, room->at + (room->row - 1) * PREFIX_ROW_WORDS, PREFIX_ROW_WORDS) : 0;
}

/* The word with the difference in it, in ones' complement; 0xffff is written 0 (RFC 6296 section 3.2). */
static __always_inline __u64 adjusted(__u64 half, __u32 shift, __u32 adjustment)
{
	__u32 word = (half >> shift & 0xffff) + adjustment;

	word = (word & 0xffff) + (word >> 16);
	if (word == 0xffff)
		word = 0;
	return (half & ~(0xffffULL << shift)) | (__u64)word << shift;
}

/* Writes the address that a row gives another one. Returns 0, or -1 where it has none: all words that could take the difference up are 0xffff. */
static __always_inline int map_prefix(const struct prefix_row *row, const __be32 *address, __be32 *mapped)
{
	__u64 old = host_pair(address), high = (old & row->keep) | row->prefix, low = host_pair(address + 2);
	__u32 shift = 64;

	if (!row->is_long) {
		if ((old & 0xffff) == 0xffff)
			return -1;
		high = adjusted(high, 0, row->adjustment);
	} else {
		for (int word = 0; word < 4; word++)
			if (shift == 64 && (low >> (48 - 16 * word) & 0xffff) != 0xffff)
				shift = 48 - 16 * word;
		if (shift == 64)
			return -1;
		low = adjusted(low, shift & 63, row->adjustment);
	}
	mapped[0] = bpf_htonl(high >> 32);
	mapped[1] = bpf_htonl(high);
	mapped[2] = bpf_htonl(low >> 32);
	mapped[3] = bpf_htonl(low);
	return 0;
}

static __always_inline void copy_address(__be32 *to, const __be32 *from)
{
	for (int word = 0; word < 4; word++)
		to[word] = from[word];
}

/* Puts the true address of a packet's destination into `room->inside`, and the zones that its outside prefix is for into `room->outer_zones`.
 * Returns 1 if it has one. */
static __always_inline int look_inside(struct nat_room *room, const struct packet *p)
{
	const struct prefix_row *row;

	room->outer_zones = 0;
	room->from_zones = 1ULL << (p->from & 63);
	/* A row of destinations says with `to` what the prefix is for. Where the packet goes is not known yet. */
	room->to_zones = ~0ULL;
	row = find_prefix_row(room, p->source, p->destination, NAT_DESTINATION);
	if (!row || row->kind == NAT_EXEMPT || map_prefix(row, p->destination, room->inside))
		return 0;
	room->outer_zones = row->to;
	return 1;
}

enum outside_name {
	NAME_OUTSIDE = 0,	/* in `room->outside` */
	NAME_OWN = 1,		/* no row is about it, or one exempts it */
	NAME_NONE = 2,		/* it should have one, and cannot */
};

/* Whether a packet came by an outside prefix that is not for the zone it came from. Its sender then has the address outside of the same zones. */
static __always_inline bool is_back_inside(const struct nat_room *room, const struct packet *p)
{
	return room->outer_zones && !(room->outer_zones >> (p->from & 63) & 1);
}

/* The address outside of one that a packet is from, for whom it goes to. `destination` is for exemptions; zones are a bit each. */
static __always_inline enum outside_name look_outside(struct nat_room *room, const __be32 *address, const __be32 *destination, __u64 from,
						      __u64 to)
{
	const struct prefix_row *row;

	room->from_zones = from;
	room->to_zones = to;
	row = find_prefix_row(room, address, destination, NAT_SOURCE);
	if (!row || row->kind == NAT_EXEMPT)
		return NAME_OWN;
	return map_prefix(row, address, room->outside) ? NAME_NONE : NAME_OUTSIDE;
}

static __always_inline __u64 zone_bit(__u32 zone)
{
	return 1ULL << (zone & 63);
}

/* Swaps what a packet's header says for the true end, or back. */
static __always_inline void swap_destination(struct packet *p, __be32 *other)
{
	for (int word = 0; word < 4; word++) {
		__be32 now = p->destination[word];

		p->destination[word] = other[word];
		other[word] = now;
	}
}

/* The flow of a packet that is for an outside address: the lower half of its slot, or 0. Then `side` is by the true ends, and `record` says which. */
__noinline int find_behind_prefix(struct packet *p)
{
	struct nat_room *room = nat_room();
	struct flow *flow;
	__u64 slot;

	if (!p || !room || p->family != 6 || across(p) || !look_inside(room, p))
		return 0;
	swap_destination(p, room->inside);
	find_side(p);
	slot = search_flow(p);
	swap_destination(p, room->inside);
	flow = slot ? lookup(&flows, (__u32)slot & RECORD_MASK) : 0;
	/* One whose ends know each other by their true addresses has nothing to do with this one. */
	if (flow && READ_ONCE(flow->family) & FLOW_PREFIX_OF((p->side & 1) ^ 1)) {
		p->record = slot;
		return 1;
	}
	find_side(p);
	return 0;
}

static __always_inline struct flow *find_prefixed(struct packet *p)
{
	if (!(settings.translates & TRANSLATES_PREFIXES) || !find_behind_prefix(p))
		return 0;
	return lookup(&flows, p->record & RECORD_MASK);
}

/* choose_destination() for IPv6. */
__noinline int choose_inside(struct packet *p)
{
	struct nat_room *room = nat_room();

	if (!p || !room || !look_inside(room, p) || p->flags & PACKET_STATELESS)
		return 0;
	copy_address(room->asked, p->destination);
	copy_address(p->destination, room->inside);
	p->flags |= PACKET_DESTINATION_TRANSLATED;
	return 0;
}

/* Whether what the destination answers leaves with the very address that a packet is for. With two outside prefixes for the same zones it
 * may have another. */
static __always_inline bool answers_by_name(struct nat_room *room, const struct packet *p, bool has_sender_name)
{
	__u64 to = is_back_inside(room, p) ? has_sender_name ? room->outer_zones : ~0ULL : zone_bit(p->from);

	return look_outside(room, room->inside, p->source, zone_bit(p->to), to) == NAME_OUTSIDE &&
	       same_address(6, room->outside, p->destination);
}

/* Whether an answer to `name`, as which the receiver knows a packet's source, comes back to that source. Otherwise a host inside that writes with somebody's
 * outside address would get what is for him, and two prefixes inside that have the same one outside each other's. */
static __always_inline bool leads_back(struct nat_room *room, const struct packet *p, const __be32 *name)
{
	const struct prefix_row *row;

	room->from_zones = zone_bit(p->to);
	room->to_zones = ~0ULL;
	row = find_prefix_row(room, p->destination, name, NAT_DESTINATION);
	if (!row || row->kind == NAT_EXEMPT || map_prefix(row, name, room->quoted))
		return same_address(6, name, p->source);
	return same_address(6, room->quoted, p->source);
}

/* choose_source() for IPv6: which ends of the flow have names outside goes into `room->prefixed`, the source's bit 0, the destination's bit 1. */
__noinline int choose_outside(struct packet *p)
{
	struct nat_room *room = nat_room();
	enum outside_name name = NAME_OWN;
	bool is_for_outside;

	if (!p || !room)
		return REASON_UNTRANSLATABLE;
	is_for_outside = p->flags & PACKET_DESTINATION_TRANSLATED;
	room->mapping = MAPPING_BY_FLOW;
	room->is_bound = 0;
	if (!is_for_outside)
		room->outer_zones = 0;
	if (p->to != ZONE_SELF && is_back_inside(room, p))
		name = look_outside(room, p->source, room->asked, zone_bit(p->from), room->outer_zones);
	else if (p->to != ZONE_SELF)
		name = look_outside(room, p->source, p->destination, zone_bit(p->from), zone_bit(p->to));
	if (name == NAME_NONE || (p->to != ZONE_SELF && !leads_back(room, p, name == NAME_OUTSIDE ? room->outside : p->source)))
		return REASON_UNTRANSLATABLE;
	restore_destination(p);
	if (is_for_outside && !answers_by_name(room, p, name == NAME_OUTSIDE))
		return REASON_UNTRANSLATABLE;
	room->prefixed = (name == NAME_OUTSIDE) | is_for_outside << 1;
	if (!room->prefixed)
		return 0;
	p->flags |= PACKET_TRANSLATED;
	/* Of another policy than the one that allowed it. */
	if (room->generation != p->generation)
		return REASON_CONTENDED;
	return p->flags & PACKET_STATELESS ? REASON_UNTRANSLATABLE : 0;
}

/* Publishes the record of a flow whose packet has its true ends. */
static __always_inline int publish_prefixed(struct packet *p, struct flow *flow, __u32 record, __u32 prefixed)
{
	__u32 s = p->side & 1;
	__u64 slot;
	int reason;

	if (prefixed & 1)
		flow->family |= FLOW_PREFIX_OF(s);
	if (prefixed & 2)
		flow->family |= FLOW_PREFIX_OF(s ^ 1);
	prefixed = flow->family & FLOW_PREFIXED;
	reason = put_record(p, flow, record);
	if (reason != REASON_CONTENDED)
		return reason;
	slot = search_flow(p);
	p->record = slot;
	flow = slot ? lookup(&flows, (__u32)slot & RECORD_MASK) : 0;
	if (!flow)
		return REASON_CONTENDED;
	/* The same ends know each other by other names. */
	return (READ_ONCE(flow->family) & FLOW_PREFIXED) == prefixed ? 0 : REASON_UNTRANSLATABLE;
}

/* The same as open_flow() for a packet that choose_outside() found to be translated. */
__noinline int open_prefixed(struct packet *p)
{
	struct nat_room *room = nat_room();
	struct flow *flow;
	__u32 record, prefixed;
	int reason;

	if (!p || !room)
		return REASON_TABLE_FULL;
	reason = ask_room(p);
	if (reason)
		return reason;
	prefixed = room->prefixed;
	if (prefixed & 2)
		swap_destination(p, room->inside);
	find_side(p);
	flow = new_record(p, &record);
	reason = flow ? publish_prefixed(p, flow, record, prefixed) : REASON_TABLE_FULL;
	if (prefixed & 2)
		swap_destination(p, room->inside);
	return reason;
}

/* Writes the addresses of a header. */
static __always_inline int write_addresses(const struct frame *f, __u32 at, const __be32 *source, const __be32 *destination)
{
	struct ipv6 *ip = bytes_at(f, at, IPV6_BYTES);

	if (!ip)
		return -1;
	for (int word = 0; word < 4; word++) {
		ip->source[word] = source[word];
		ip->destination[word] = destination[word];
	}
	return 0;
}

/* The address outside of what sends a packet of a flow, or an error about it: `address`, which is the flow's end or a router's. */
static __always_inline enum outside_name look_outside_of(struct nat_room *room, const struct packet *p, const __be32 *address)
{
	__u64 from = zone_bit(p->from);
	enum outside_name name;

	if (is_back_inside(room, p))
		return look_outside(room, address, p->destination, from, room->outer_zones);
	name = look_outside(room, address, room->outer_zones ? room->inside : p->destination, from, zone_bit(p->to));
	/* The answer to somebody inside who has no name outside, and asked by one. */
	return name == NAME_OWN && !room->outer_zones ? look_outside(room, address, p->destination, from, ~0ULL) : name;
}

/*
 * Finds the addresses that a packet of a flow leaves with: `room->asked` its source, `room->inside` its destination, and of an error also
 * `room->quoted`, by which the end that it goes to knows the other. 0, or -1: the policy says something else by now, or the packet goes by a name that
 * its flow does not know.
 */
__noinline int find_new_addresses(struct packet *p, struct flow *flow)
{
	struct nat_room *room = nat_room();
	enum outside_name name;
	__u32 s, r, family;
	__be32 own[4];

	if (!p || !flow || !room)
		return -1;
	s = p->side & 1;
	r = s ^ 1;
	family = READ_ONCE(flow->family);
	flow_address(flow, r, own);
	if (same_address(6, own, p->destination) == !!(family & FLOW_PREFIX_OF(r)))
		return -1;
	room->outer_zones = 0;
	/* Which zones the name that it goes by is for is asked only where its sender has a name too. */
	if ((family & FLOW_PREFIXED) == FLOW_PREFIXED && !look_inside(room, p))
		return -1;
	copy_address(room->inside, own);
	flow_address(flow, s, own);
	copy_address(room->quoted, own);
	copy_address(room->asked, p->source);
	if (!(family & FLOW_PREFIX_OF(s)))
		return 0;
	name = look_outside_of(room, p, own);
	if (name != NAME_OUTSIDE)
		return -1;
	copy_address(room->quoted, room->outside);
	/* An error may be of a router that has no name outside, and is known by its own. */
	if (p->flags & PACKET_ICMP_ERROR)
		name = look_outside_of(room, p, p->source);
	if (name == NAME_OUTSIDE)
		copy_address(room->asked, room->outside);
	return name == NAME_NONE ? -1 : 0;
}

static __always_inline int change_prefixes(void *ctx, struct packet *p, struct flow *flow, const enum hook hook)
{
	struct nat_room *room = nat_room();
	struct frame f = { .data = hook_data(ctx, hook), .end = hook_end(ctx, hook), .ctx = ctx, .hook = hook };

	if (!room || find_new_addresses(p, flow))
		return -1;
	/* What the end that an error goes to had sent, as it sent it. It is in the error's first fragment. */
	if (p->flags & PACKET_ICMP_ERROR && !(p->flags & PACKET_LATER_FRAGMENT) &&
	    write_addresses(&f, p->transport + sizeof(struct icmp), room->inside, room->quoted))
		return -1;
	return write_addresses(&f, p->network, room->asked, room->inside);
}

#endif
