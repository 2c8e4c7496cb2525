/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * ICMP errors that belong to a flow: they quote one of its packets, go to whom that packet came from, and come from where it
 * went to. Whoever forges one must know the ends, and for TCP a number in the window (RFC 5927 section 4).
 */
#ifndef RAMPART_FIREWALL_RELATED_H
#define RAMPART_FIREWALL_RELATED_H

#include "fragments.h"
#include "parse.h"
#include "prefix.h"
#include "renumber.h"
#include "tcp.h"

enum related {
	RELATED_NOT = 0,	/* no flow is known: the policy decides */
	RELATED_PASSES = 1,
	RELATED_FALSE = 2,
	RELATED_FRAGMENT = 3,	/* no error: a later fragment of a datagram whose first was allowed */
};

#define QUOTED_BYTES 8	/* of the transport header are always quoted (RFC 792) */

/* Looks through what lies before the transport header of a quoted IPv6 packet. Returns where that header begins, or where a later
 * fragment's part of the datagram does; 0 when it is not there.
 * Where it looks is kept in a field of the packet that an ICMP error does not use: the verifier would follow each place on the stack. */
static __always_inline __u32 skip_quoted_extensions(const struct frame *f, struct packet *p, struct packet *quoted, __u32 from)
{
	WRITE_ONCE(p->fragment_offset, from);
	/* As in skip_extensions(): what passes with as many headers as there may be is quoted with as many. */
	for (int i = 0; i <= MAX_EXTENSIONS; i++) {
		struct extension *extension;
		__u32 at = READ_ONCE(p->fragment_offset);
		__u8 kind = quoted->protocol;

		if (kind != PROTOCOL_HOP_BY_HOP && kind != PROTOCOL_ROUTING && kind != PROTOCOL_FRAGMENT &&
		    kind != PROTOCOL_DESTINATION_OPTIONS)
			return at;
		extension = bytes_at(f, at, 8);
		if (!extension)
			return 0;
		quoted->protocol = extension->next;
		if (kind == PROTOCOL_FRAGMENT && extension->offset_more & bpf_htons(0xfff8)) {
			quoted->fragment_id = extension->id;
			quoted->flags |= PACKET_LATER_FRAGMENT;
			return at + FRAGMENT_BYTES;
		}
		WRITE_ONCE(p->fragment_offset, at + (kind == PROTOCOL_FRAGMENT ? 8 : (extension->units + 1) << 3));
	}
	return 0;
}

/* The addresses of the quoted packet, and where its transport header begins; 0 when it is not known. */
static __always_inline __u32 quoted_addresses(const struct frame *f, struct packet *p, struct packet *quoted)
{
	__u32 at = p->transport + sizeof(struct icmp);
	struct ipv4 *v4;
	struct ipv6 *v6;

	quoted->family = p->family;
	if (p->family == 4) {
		v4 = bytes_at(f, at, IPV4_BYTES);
		if (!v4 || v4->version_words >> 4 != 4 || (v4->version_words & 15) < IPV4_BYTES / 4)
			return 0;
		if (v4->fragment & bpf_htons(IPV4_OFFSET)) {
			quoted->fragment_id = v4->id;
			quoted->flags |= PACKET_LATER_FRAGMENT;
		}
		quoted->source[0] = v4->source;
		quoted->destination[0] = v4->destination;
		quoted->protocol = v4->protocol;
		return at + ((v4->version_words & 15) << 2);
	}
	v6 = bytes_at(f, at, IPV6_BYTES);
	if (!v6 || bpf_ntohl(v6->version_class_flow) >> 28 != 6)
		return 0;
	for (int word = 0; word < 4; word++) {
		quoted->source[word] = v6->source[word];
		quoted->destination[word] = v6->destination[word];
	}
	quoted->protocol = v6->next_header;
	return skip_quoted_extensions(f, p, quoted, at + IPV6_BYTES);
}

/* The quoted packet's ports, as in its flow. */
static __always_inline bool quoted_ports(const struct frame *f, struct packet *quoted, __u32 at)
{
	__be16 *transport = bytes_at(f, at, QUOTED_BYTES);

	if (!transport)
		return 0;
	if (quoted->protocol == PROTOCOL_ICMP || quoted->protocol == PROTOCOL_ICMPV6) {
		quoted->flags = 0;
		if (quoted->protocol == PROTOCOL_ICMP)
			classify_icmp(quoted, (struct icmp *)transport);
		else if (((struct icmp *)transport)->type == ICMPV6_ECHO || ((struct icmp *)transport)->type == ICMPV6_ECHO_REPLY)
			query(quoted, (struct icmp *)transport, ICMPV6_ECHO,
			      ((struct icmp *)transport)->type == ICMPV6_ECHO_REPLY);
		else
			return 0;
		return !(quoted->flags & PACKET_STATELESS);
	}
	if (quoted->protocol == PROTOCOL_TCP || quoted->protocol == PROTOCOL_UDP || quoted->protocol == PROTOCOL_SCTP) {
		quoted->source_port = transport[0];
		quoted->destination_port = transport[1];
		quoted->sequence = bpf_ntohl(*(__be32 *)(transport + 2));
	}
	return 1;
}

/* An error comes from where the quoted packet went, or from the firewall's own kernel, which gives up neighbours that do not
 * answer. To which zone that sends it, accompany() looks at. */
static __always_inline bool is_from_there(const struct packet *p, const struct flow *flow, __u32 sender)
{
	return p->flags & PACKET_FROM_SELF || p->from == flow->zone[sender ^ 1];
}

/* Turns a packet into one that goes the other way. By itself, because the stack is short. */
__noinline int turn(struct packet *p)
{
	__be16 port;

	if (!p)
		return 0;
	port = p->source_port;
	for (int word = 0; word < 4; word++) {
		__be32 source = p->source[word];

		p->source[word] = p->destination[word];
		p->destination[word] = source;
	}
	p->source_port = p->destination_port;
	p->destination_port = port;
	return 0;
}

/* The flow of a packet that waited here for its next hop, and that our own kernel quotes: its source is translated where it leaves
 * (forward.h), so it is quoted as it was sent. */
static __always_inline struct flow *flow_of_waiting(const struct packet *p, struct packet *quoted)
{
	struct flow *flow;
	__u64 slot;

	if (!(p->flags & PACKET_FROM_SELF))
		return 0;
	turn(quoted);
	find_side(quoted);
	slot = search_flow(quoted);
	flow = slot ? lookup(&flows, (__u32)slot & RECORD_MASK) : 0;
	if (!flow || !is_translated(flow))
		return 0;
	quoted->record = slot;
	quoted->side = sender_of(quoted, flow);
	return flow;
}

/* The flow of a quoted packet, which is quoted as it left here: the flow of what would answer it. And in it the side that sent the packet; or null. Of a later fragment, which has no ports, by its datagram. */
static __always_inline struct flow *flow_of_quoted(const struct frame *f, struct packet *p, struct packet *quoted)
{
	__u32 at = quoted_addresses(f, p, quoted);
	struct flow *flow;
	__u64 slot;

	if (!at)
		return 0;
	if (quoted->flags & PACKET_LATER_FRAGMENT) {
		quoted->tick = p->tick;
		quoted->era = p->era;
		return find_flow_of_datagram(quoted) ? lookup(&flows, quoted->record & RECORD_MASK) : 0;
	}
	/* What fills a frame up is not quoted. */
	if (at + QUOTED_BYTES > p->network + p->ip_bytes || !quoted_ports(f, quoted, at))
		return 0;
	turn(quoted);
	find_side(quoted);
	slot = search_flow(quoted);
	quoted->record = slot;
	quoted->from = p->from;
	quoted->port = p->port;
	flow = slot ? lookup(&flows, (__u32)slot & RECORD_MASK) : 0;
	/* Where the kernel forwards it translates, too. */
	if (!flow && f->hook != HOOK_NETFILTER)
		flow = find_prefixed(quoted);
	if (!flow)
		return f->hook == HOOK_NETFILTER ? 0 : flow_of_waiting(p, quoted);
	/* Back again: who sent it. */
	quoted->side = (is_translated(flow) ? sender_of(quoted, flow) : quoted->side) ^ 1;
	turn(quoted);
	return flow;
}

/* Whether a segment of side `s` may be on its way, by its number: it lies within the last window, or was never acknowledged, like a SYN
 * with data (RFC 7413) that no window was offered for. */
static __always_inline bool may_be_under_way(const struct flow *flow, __u32 s, __u32 sequence)
{
	return !after(sequence, flow->end[s]) && (!before(sequence, flow->end[s] - flow->window[s ^ 1] - 1) ||
						  !before(sequence, flow->acked[s ^ 1] - 1));
}

static __always_inline enum related relate(struct packet *p, const struct frame *f)
{
	struct packet quoted = {};
	struct flow *flow;
	__u32 s;

	flow = flow_of_quoted(f, p, &quoted);
	/* What is over may not have been removed, as long as nobody sweeps. */
	if (!flow || is_expired(flow, tick_of(p->era, p->tick), 0))
		return RELATED_NOT;
	s = quoted.side & 1;
	if (!same_address(p->family, quoted.source, p->destination) || !is_from_there(p, flow, s))
		return RELATED_FALSE;
	if (is_proxied(flow) && s != (flow->initiator & 1))
		quoted.sequence += shift_of(flow, quoted.record);
	/* Our own kernel also speaks of segments that ended here, and that nobody has followed. */
	if (flow->protocol == PROTOCOL_TCP && !(p->flags & PACKET_FROM_SELF) && !may_be_under_way(flow, s, quoted.sequence))
		return RELATED_FALSE;
	p->to = flow->zone[s];
	p->gateway = p->to == ZONE_SELF && is_of_gateway(flow) ? gateway_of(flow) : 0;
	p->record = quoted.record;
	p->side = s ^ 1;
	if (READ_ONCE(flow->family) & (FLOW_TRANSLATED | FLOW_PROXIED | FLOW_PREFIXED))
		p->flags |= PACKET_TRANSLATED;
	return RELATED_PASSES;
}

#endif
