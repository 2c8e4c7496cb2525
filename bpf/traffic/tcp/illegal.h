/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Illegal attempts in place of starts: one segment or packet each, of the plan's kinds in turns, that no firewall with the
 * trial's policy lets through. Nothing answers them as connections.
 */
#ifndef RAMPART_TRAFFIC_TCP_ILLEGAL_H
#define RAMPART_TRAFFIC_TCP_ILLEGAL_H

#include "attack.h"
#include "connection.h"

#define OPEN_TRIED 16		/* connections looked at for one that is open */
#define FAR_OUTSIDE (1U << 30)	/* larger than any window, and far from wrapping round */
#define PROTOCOL_BYTES 26	/* payload of a packet of the forbidden protocol */

static __always_inline void address(struct segment *segment, const struct connection *c, __u32 slot);

/* Whether this start is an illegal attempt: evenly spread by the share. */
static __always_inline bool is_illegal_turn(struct beside_core *own)
{
	__u32 credit = own->illegal_credit + beside.illegal_step;
	bool due = credit < own->illegal_credit;

	own->illegal_credit = credit;
	return due;
}

static __always_inline struct connection *in_order(__u32 index, __u32 *slot)
{
	__u32 page = index / SLOTS_PER_PAGE;
	struct slot_page *found = bpf_map_lookup_elem(&order, &page);

	if (!found)
		return NULL;
	*slot = found->slots[index & (SLOTS_PER_PAGE - 1)];
	return bpf_map_lookup_elem(&connections, slot);
}

/* An established connection of the core: one of the latest, or, where the latest are over or not yet established, the next
 * one that a walk comes by. */
static __always_inline struct connection *any_open(struct beside_core *own, __u32 number, __u32 *slot)
{
	__u32 slots = control.slot_count[number], latest = cores[number & (MAX_CORES - 1)].order_next, index;

	for (__u32 tried = 0; tried < OPEN_TRIED; tried++) {
		struct connection *c;

		if (tried & 1) {
			if (own->open_next >= slots)
				own->open_next = 0;
			index = own->open_next++;
		} else {
			latest = latest ? latest - 1 : slots - 1;
			index = latest;
		}
		c = in_order(control.slot_first[number] + index, slot);
		if (c && (phase_state(c->phase) == CONNECTION_HELD || phase_state(c->phase) == CONNECTION_REQUESTED))
			return c;
	}
	return NULL;
}

/* The start of the request, at a sequence number that no window reaches. */
static __always_inline bool say_out_of_window(struct beside_core *own, __u32 number, struct segment *segment)
{
	__u32 slot = 0, bytes = request.bytes < control.segment_bytes ? request.bytes : control.segment_bytes;
	struct connection *c = any_open(own, number, &slot);

	if (!c)
		return false;
	say(c, c->phase, segment, TCP_ACK | TCP_PSH);
	segment->sequence += FAR_OUTSIDE + (draw(own) >> 4);
	segment->window = MARK_ILLEGAL + ILLEGAL_OUT_OF_WINDOW;
	segment->payload = PAYLOAD_REQUEST;
	segment->payload_bytes = bytes;
	address(segment, c, slot);
	return true;
}

static __always_inline __u8 illegal_flags(__u32 kind)
{
	if (kind == ILLEGAL_ACK)
		return TCP_ACK;
	if (kind == ILLEGAL_RST)
		return TCP_RST;
	return kind == ILLEGAL_FIN ? TCP_FIN | TCP_ACK : TCP_SYN;
}

/* Makes an illegal SYN or ACK one that only the two ends can distinguish from those of connections. The server cannot where the firewall
 * translates: a legal one might have that number, and could come from anywhere. */
static __always_inline void hide(struct beside_core *own, __u32 kind, struct segment *segment)
{
	if (segment->flags != TCP_SYN && segment->flags != TCP_ACK)
		return;
	if (!control.translates_sources)
		segment->window = control.window;
	segment->sequence =
		illegal_sequence(segment->destination, segment->destination_port, segment->source_port) | kind;
	if (segment->flags == TCP_ACK)
		segment->acknowledgement = draw(own);
}

/* From a client's address and port as connections have them, to a server that none of theirs is with. A firewall that knows connections by
 * one end, or by ports, takes it for theirs. */
static __noinline int address_unopened(struct beside_core *own, struct segment *segment)
{
	const struct side *client = &control.client;
	__u32 slot, port, other;

	if (!own || !segment)
		return -1;
	slot = draw_below(own, control.slots);
	port = divide(slot, control.client_hosts_inverse);
	other = server_of_slot(slot) + 1;
	segment->source_port = bpf_htons(client->port_first + port);
	host_address(client, slot - port * client->hosts, segment->source);
	host_address(&control.server, other < control.server.hosts ? other : 0, segment->destination);
	return 0;
}

/* Where an attempt without a connection comes from and goes to. */
static __always_inline void address_illegal(struct beside_core *own, __u32 kind, struct segment *segment)
{
	__u32 other;

	if (kind == ILLEGAL_ACK && has_other_servers() && !address_unopened(own, segment))
		return;
	segment->source_port = bpf_htons(beside.spare_port + draw_below(own, beside.spare_ports));
	if (kind == ILLEGAL_ADDRESS) {
		other = FORBIDDEN_V4 + draw_below(own, FORBIDDEN_HOSTS);
		from_outside(segment, bpf_htonl(other), FORBIDDEN_V6_0, 0, other);
		return;
	}
	if (kind == ILLEGAL_LISTED) {
		segment->source[0] = listed[draw_below(own, beside.listed_count) & (MAX_LISTED - 1)];
		return;
	}
	host_address(&control.client, draw_below(own, control.client.hosts), segment->source);
	if (kind == ILLEGAL_PORT)
		segment->destination_port = bpf_htons(beside.forbidden_port + draw_below(own, beside.forbidden_ports));
}

/* Fills in an attempt without a connection. */
static __always_inline void say_illegal(struct beside_core *own, __u32 kind, struct segment *segment)
{
	to_any_server(own, segment);
	say_alone(segment, illegal_flags(kind), draw(own), MARK_ILLEGAL + kind);
	address_illegal(own, kind, segment);
	hide(own, kind, segment);
}

/* A packet of an IP protocol that no rule allows, filled with zeros. */
static __noinline int write_protocol(struct xdp_md *ctx, const struct segment *segment)
{
	__u32 ip_bytes = ip_header_bytes();
	void *data, *end;
	__u16 *zeros;

	if (!segment || prepare_frame(ctx, segment, ETHERNET_BYTES + ip_bytes + PROTOCOL_BYTES))
		return -1;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (control.ip_version == 4) {
		zeros = data + ETHERNET_BYTES + IPV4_BYTES;
		if (write_ipv4(data, end, segment, PROTOCOL_FORBIDDEN, PROTOCOL_BYTES, 0))
			return -1;
	} else {
		zeros = data + ETHERNET_BYTES + IPV6_BYTES;
		if (write_ipv6(data, end, segment, PROTOCOL_FORBIDDEN, PROTOCOL_BYTES))
			return -1;
	}
	if ((void *)zeros + PROTOCOL_BYTES > end)
		return -1;
	for (int i = 0; i < PROTOCOL_BYTES / 2; i++)
		zeros[i] = 0;
	return 0;
}

/* Sends the next illegal attempt. Negative when none of the kinds can be made now: data out of window needs an open
 * connection. `segment` has the stamp alone. */
static __noinline int illegal(struct xdp_md *ctx, struct beside_core *own, struct segment *segment)
{
	__u32 number = this_core(), kind = 0;
	int made = 0;

	if (!own || !segment)
		return -1;
	for (int tried = 0; tried < 2 && !made; tried++) {
		if (own->illegal_turn >= beside.illegal_count)
			own->illegal_turn = 0;
		kind = beside.illegal_kinds[own->illegal_turn++ & (ILLEGAL_KINDS - 1)] & (ILLEGAL_KINDS - 1);
		made = kind != ILLEGAL_OUT_OF_WINDOW || say_out_of_window(own, number, segment);
	}
	if (!made)
		return -1;
	if (kind != ILLEGAL_OUT_OF_WINDOW)
		say_illegal(own, kind, segment);
	own->illegal_attempted[kind]++;
	if (kind != ILLEGAL_PROTOCOL)
		return send_new(ctx, segment, control.client_port);
	return write_protocol(ctx, segment) ? XDP_ABORTED : bpf_redirect_map(&ports, control.client_port, 0);
}

#endif
