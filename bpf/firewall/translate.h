/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Writes the other ends of a translated flow into a packet of it, on its way out: addresses, ports, and every checksum by the difference
 * (RFC 1624). A fragment that is not the first has addresses alone. An ICMP error quotes a packet as it left here, so its quote becomes
 * what the sender of that packet sent (RFC 5508 section 4). Of an error in fragments the first has the quote.
 *
 * Fragments get another identification as well, because several sources have one address outside.
 *
 * A packet that has to be translated and cannot be is dropped: it would leave with an address that nobody outside may see.
 */
#ifndef RAMPART_FIREWALL_TRANSLATE_H
#define RAMPART_FIREWALL_TRANSLATE_H

#include "../net/checksum.h"
#include "flows.h"
#include "parse.h"
#include "prefix.h"
#include "renumber.h"

#define TCP_CHECK_AT 16	/* in their headers */
#define UDP_CHECK_AT 6
#define ICMP_BEGIN 8	/* before the quote of an error */
#define PROTOCOL_DCCP 33
#define PROTOCOL_UDP_LITE 136

/* The ends that a packet has, and those that it gets. */
struct new_ends {
	__be32 source;
	__be32 destination;
	__be16 source_port;
	__be16 destination_port;
	__u32 by_addresses;	/* how the sum over it changes */
	__u32 by_ports;
};

/* The flow of a packet that is to be translated, or null: it has ended, and another may have its record. */
static __always_inline struct flow *changed_flow(const struct packet *p)
{
	__u32 record = p->record & RECORD_MASK;
	struct flow *flow = lookup(&flows, record);

	return flow && use_of(flow, record) == p->record ? flow : 0;
}

/* The same, if it has other ends. */
static __always_inline struct flow *translated_flow(const struct packet *p)
{
	struct flow *flow = changed_flow(p);

	return flow && is_translated(flow) ? flow : 0;
}

/* By how much a sum is more when one number takes the place of another. */
static __always_inline __u32 sum_change(__u32 before, __u32 now)
{
	return checksum_word(~before) + checksum_word(now);
}

static __always_inline __u32 sum_change_short(__u16 before, __u16 now)
{
	return (__u16)~before + now;
}

/* RFC 1624, equation 3. */
static __always_inline __u16 checksum_after(__u16 check, __u32 change)
{
	return checksum_fold((__u16)~check + change);
}

static __always_inline struct new_ends new_ends_of(const struct packet *p, const struct flow *flow)
{
	__u32 s = p->side & 1, r = s ^ 1;
	struct new_ends ends = { .source = alias_address(flow, s), .destination = flow->address[r],
				 .source_port = alias_port(flow, s), .destination_port = flow->port[r] };

	ends.by_addresses = sum_change(p->source[0], ends.source) + sum_change(p->destination[0], ends.destination);
	ends.by_ports = sum_change_short(p->source_port, ends.source_port) +
			sum_change_short(p->destination_port, ends.destination_port);
	return ends;
}

/* At TC the kernel may still have to fill the checksum in, or know the sum over the packet: its helper does what is right for both. */
static __always_inline int change_check_tc(struct __sk_buff *ctx, __u32 at, const struct new_ends *ends, __u64 flags)
{
	return bpf_l4_csum_replace(ctx, at, 0, ends->by_addresses, flags | BPF_F_PSEUDO_HDR) ||
	       bpf_l4_csum_replace(ctx, at, 0, ends->by_ports, flags);
}

/* The checksum of UDP is 0 where there is none, and 0xffff where it would be 0 (RFC 768). */
static __always_inline int change_check_xdp(const struct frame *f, __u32 at, const struct new_ends *ends, bool is_udp)
{
	__u16 *check = bytes_at(f, at, 2);
	__u16 now;

	if (!check)
		return -1;
	if (is_udp && !*check)
		return 0;
	now = checksum_after(*check, ends->by_addresses + ends->by_ports);
	*check = is_udp && !now ? 0xffff : now;
	return 0;
}

static __always_inline struct frame frame_of(void *ctx, const enum hook hook)
{
	return (struct frame){ .data = hook_data(ctx, hook), .end = hook_end(ctx, hook), .ctx = ctx, .hook = hook };
}

/* Whether a checksum is over the addresses too: of UDP-Lite (RFC 3828) and DCCP (RFC 4340) it lies where that of UDP does. Their ports stay. */
static __always_inline bool sums_addresses(const struct packet *p)
{
	return has_ports(p) || p->protocol == PROTOCOL_UDP_LITE || p->protocol == PROTOCOL_DCCP;
}

/* Ports and checksum. */
static __always_inline int change_ports(void *ctx, const struct packet *p, const struct new_ends *ends, const enum hook hook)
{
	bool is_udp = p->protocol != PROTOCOL_TCP;
	__u32 at = p->transport + (is_udp ? UDP_CHECK_AT : TCP_CHECK_AT);
	struct frame f;
	__be16 *ports;

	if (hook == HOOK_TC && change_check_tc(ctx, at, ends, is_udp ? BPF_F_MARK_MANGLED_0 : 0))
		return -1;
	f = frame_of(ctx, hook);
	ports = bytes_at(&f, p->transport, 4);
	if (!ports)
		return -1;
	if (has_ports(p)) {
		ports[0] = ends->source_port;
		ports[1] = ends->destination_port;
	}
	return hook == HOOK_XDP ? change_check_xdp(&f, at, ends, is_udp) : 0;
}

/* The identifier of an ICMP query, which is the port of the end that asks. No pseudo header is in its checksum. */
static __always_inline int change_identifier(const struct frame *f, __u32 at, __be16 id)
{
	struct icmp *icmp = bytes_at(f, at, sizeof(*icmp));

	if (!icmp)
		return -1;
	icmp->check = checksum_after(icmp->check, sum_change_short(icmp->id, id));
	icmp->id = id;
	return 0;
}

static __always_inline int change_addresses(const struct frame *f, __u32 at, __be32 source, __be32 destination)
{
	struct ipv4 *ip = bytes_at(f, at, IPV4_BYTES);

	if (!ip)
		return -1;
	ip->check = checksum_after(ip->check, sum_change(ip->source, source) + sum_change(ip->destination, destination));
	ip->source = source;
	ip->destination = destination;
	return 0;
}

static __always_inline int change_packet(void *ctx, const struct packet *p, const struct flow *flow, const enum hook hook)
{
	struct new_ends ends = new_ends_of(p, flow);
	struct frame f;

	if (!(p->flags & PACKET_LATER_FRAGMENT) && sums_addresses(p) && change_ports(ctx, p, &ends, hook))
		return -1;
	f = frame_of(ctx, hook);
	if (!(p->flags & PACKET_LATER_FRAGMENT) && p->protocol == PROTOCOL_ICMP &&
	    change_identifier(&f, p->transport, p->flags & PACKET_ICMP_REPLY ? ends.destination_port : ends.source_port))
		return -1;
	return change_addresses(&f, p->network, ends.source, ends.destination);
}

/* The checksum in the quote of a TCP or UDP header; of TCP it may not be quoted, and what lies there is behind the packet. Returns how the sum over
 * the error changes. */
static __always_inline __u32 change_quoted_check(const struct frame *f, const struct packet *p, __u32 at, bool is_udp, __u32 by)
{
	__u16 *check = at + 2 > p->network + p->ip_bytes ? 0 : bytes_at(f, at, 2), before;

	if (!check || (is_udp && !*check))
		return 0;
	before = *check;
	*check = checksum_after(before, by);
	return sum_change_short(before, *check);
}

/* Gives the transport header in a quote the ports that the sender of the quoted packet used. Returns how the sum over the error changes. */
static __always_inline __u32 change_quoted_ports(const struct frame *f, const struct packet *p, const struct flow *flow, __u32 at, __u32 s,
						 __u32 by_addresses)
{
	bool is_udp = flow->protocol == PROTOCOL_UDP;
	__be16 *ports = bytes_at(f, at, 8), port = flow->port[s], other = alias_port(flow, s ^ 1);
	__u32 by;

	if (!ports)
		return 0;
	if (flow->protocol == PROTOCOL_ICMP) {
		/* The identifier is of the end that asked; its own checksum absorbs the difference. */
		change_identifier(f, at, s == (flow->initiator & 1) ? port : other);
		return 0;
	}
	if (flow->protocol != PROTOCOL_TCP && !is_udp)
		return 0;
	by = sum_change_short(ports[0], port) + sum_change_short(ports[1], other);
	ports[0] = port;
	ports[1] = other;
	return by + change_quoted_check(f, p, at + (is_udp ? UDP_CHECK_AT : TCP_CHECK_AT), is_udp, by + by_addresses);
}

/*
 * An error that goes to end s quotes what s sent, as the other end would have got it. Whoever sent the error has the other end's alias
 * from here on, if it has one (RFC 5508 REQ-5): its own address may be one that nobody outside may see.
 */
static __always_inline int change_error(void *ctx, const struct packet *p, const struct flow *flow, const enum hook hook)
{
	__u32 r = p->side & 1, s = r ^ 1, by_addresses, quote = p->transport + ICMP_BEGIN;
	__be32 sender = alias_address(flow, r) == flow->address[r] ? p->source[0] : alias_address(flow, r);
	struct frame f = frame_of(ctx, hook);
	struct ipv4 *quoted = bytes_at(&f, quote, IPV4_BYTES);
	struct icmp *icmp;
	__u32 at, by;

	if (p->flags & PACKET_LATER_FRAGMENT)
		return change_addresses(&f, p->network, sender, flow->address[s]);
	if (!quoted)
		return -1;
	at = quote + ((quoted->version_words & 15) << 2);
	by_addresses = sum_change(quoted->source, flow->address[s]) + sum_change(quoted->destination, alias_address(flow, r));
	/* The sum over the quoted header stays as it is, because its checksum absorbs the difference. */
	if (change_addresses(&f, quote, flow->address[s], alias_address(flow, r)))
		return -1;
	by = change_quoted_ports(&f, p, flow, at, s, by_addresses);
	icmp = bytes_at(&f, p->transport, sizeof(*icmp));
	if (!icmp)
		return -1;
	icmp->check = checksum_after(icmp->check, by);
	return change_addresses(&f, p->network, sender, flow->address[s]);
}

/*
 * Several sources have one address outside, and a host that puts their datagrams together tells them apart by identification alone: two of one
 * number would be mixed up, and a source could put its parts into the datagrams of another. So each source's numbers are moved by a secret of
 * its own. They stay as different among themselves as they were (RFC 6864 section 5.2), and an error quotes what its receiver sent. The same holds
 * for a whole datagram of which the kernel is about to make fragments (leave_to_kernel()).
 */
static __always_inline int move_identification(void *ctx, const struct packet *p, const enum hook hook)
{
	__u32 is_error = !!(p->flags & PACKET_ICMP_ERROR), s = p->side ^ is_error;
	const struct flow *flow = translated_flow(p);
	struct frame f = frame_of(ctx, hook);
	struct ipv4 *ip;
	bool is_cut = !is_error && p->flags & PACKET_MORE_FRAGMENTS;
	__be32 inside;
	__u16 by, id;

	if (!flow || is_prefixed(flow) || (is_error && p->flags & PACKET_LATER_FRAGMENT))
		return 0;
	ip = bytes_at(&f, is_error ? p->transport + ICMP_BEGIN : p->network, IPV4_BYTES);
	if (!ip)
		return REASON_UNTRANSLATABLE;
	/* Linux 6.1 wants to see just before it is used that it is one of two. */
	barrier_var(s);
	s &= 1;
	inside = flow->address[s];
	if ((!is_cut && !(ip->fragment & bpf_htons(IPV4_MORE_FRAGMENTS | IPV4_OFFSET))) || alias_address(flow, s) == inside)
		return 0;
	by = mix(secret[9], inside) >> 48;
	id = is_error ? ip->id - by : ip->id + by;
	ip->check = checksum_after(ip->check, sum_change_short(ip->id, id));
	ip->id = id;
	return 0;
}

static __always_inline int translate(void *ctx, const struct packet *p, const enum hook hook)
{
	const struct flow *flow = changed_flow(p);
	int failed;

	if (!flow)
		return REASON_UNTRANSLATABLE;
	if (is_proxied(flow) && renumber_at(ctx, (struct packet *)p, (struct flow *)flow, hook))
		return REASON_UNTRANSLATABLE;
	if (is_prefixed(flow))
		return change_prefixes(ctx, (struct packet *)p, (struct flow *)flow, hook) ? REASON_UNTRANSLATABLE : 0;
	if (!is_translated(flow))
		return 0;
	if (p->flags & PACKET_ICMP_ERROR)
		failed = change_error(ctx, p, flow, hook);
	else
		failed = change_packet(ctx, p, flow, hook);
	return failed ? REASON_UNTRANSLATABLE : 0;
}

/* By themselves, because few flows are translated. 0, or why the packet is dropped. */
__noinline int translate_xdp(struct xdp_md *ctx, struct packet *p)
{
	return p ? translate(ctx, p, HOOK_XDP) : REASON_UNTRANSLATABLE;
}

__noinline int translate_tc(struct __sk_buff *ctx, struct packet *p)
{
	return p ? translate(ctx, p, HOOK_TC) : REASON_UNTRANSLATABLE;
}

/* After the translation and not within it, because the stack is short. */
__noinline int move_identification_xdp(struct xdp_md *ctx, struct packet *p)
{
	return p ? move_identification(ctx, p, HOOK_XDP) : REASON_UNTRANSLATABLE;
}

__noinline int move_identification_tc(struct __sk_buff *ctx, struct packet *p)
{
	return p ? move_identification(ctx, p, HOOK_TC) : REASON_UNTRANSLATABLE;
}

static __always_inline int translate_at(void *ctx, struct packet *p, const enum hook hook)
{
	int reason = hook == HOOK_XDP ? translate_xdp(ctx, p) : translate_tc(ctx, p);

	if (reason || !(p->flags & (PACKET_FIRST_FRAGMENT | PACKET_LATER_FRAGMENT | PACKET_MORE_FRAGMENTS | PACKET_ICMP_ERROR)))
		return reason;
	return hook == HOOK_XDP ? move_identification_xdp(ctx, p) : move_identification_tc(ctx, p);
}

#endif
