/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * From the bytes of a frame to a packet: its Ethernet header (link.h), IPv4 and IPv6, the transport header. Nothing is read that is not in the
 * frame, and no length is believed that contradicts another.
 */
#ifndef RAMPART_FIREWALL_PARSE_H
#define RAMPART_FIREWALL_PARSE_H

#include <bpf/bpf_endian.h>
#include "../net/checksum.h"
#include "bridge.h"
#include "hook.h"
#include "link.h"
#include "route.h"
#include "state.h"

#define PROTOCOL_HOP_BY_HOP 0
#define PROTOCOL_ROUTING 43
#define PROTOCOL_FRAGMENT 44
#define PROTOCOL_DESTINATION_OPTIONS 60
#define PROTOCOL_SCTP 132
#define MAX_EXTENSIONS 8
#define MORE_FRAGMENTS 1	/* in a fragment header's offset */

#define IPV4_DONT_FRAGMENT 0x4000
#define IPV4_MORE_FRAGMENTS 0x2000
#define IPV4_OFFSET 0x1fff
#define MAX_IP_BYTES 65535	/* of an IPv4 packet; of an IPv6 packet behind its header */

#define TCP_OPTION_END 0
#define TCP_OPTION_NOTHING 1
#define TCP_OPTION_WINDOW_SCALE 3
#define MAX_SCALE 14	/* RFC 7323 section 2.3 */
#define MOST_TCP_OPTIONS 38	/* bytes that may stand before the window scale */

#define ICMP_ECHO_REPLY 0
#define ICMP_UNREACHABLE 3
#define ICMP_QUENCH 4
#define ICMP_REDIRECT 5
#define ICMP_ECHO 8
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAMETER 12
#define ICMP_TIMESTAMP 13
#define ICMP_TIMESTAMP_REPLY 14
#define ICMPV6_LAST_ERROR 4	/* 1 to 4 */
#define ICMPV6_ECHO 128
#define ICMPV6_ECHO_REPLY 129
#define ICMPV6_MLD_FIRST 130
#define ICMPV6_MLD_LAST 132
#define ICMPV6_ROUTER_SOLICITATION 133
#define ICMPV6_ROUTER_ADVERTISEMENT 134
#define ICMPV6_REDIRECT 137
#define ICMPV6_MLD2 143

struct extension {
	__u8 next;
	__u8 units;		/* of 8 bytes, without the first; of a fragment header reserved */
	__be16 offset_more;	/* of a fragment header; of a routing header type and segments left */
	__be32 id;
};

/* IPv4 options that RFC 7126 does not want dropped: the end, nothing, one for routers that they may ignore, and labels of
 * secrecy (RFC 1108, FIPS 188). The others name a route, collect one, or are of no use any more. */
#define OPTION_END 0
#define OPTION_NOTHING 1
#define OPTION_QUICK_START 25
#define OPTION_SECURITY 130
#define OPTION_EXTENDED_SECURITY 133
#define OPTION_LABEL 134
#define OPTION_ROUTER_ALERT 148
#define MAX_OPTIONS 40

/* What few packets have: parts of a packet that functions of their own look at, one for each hook (look_closer_xdp() and the like). The
 * verifier follows these once and not behind each way through parse(), and other packets do not pay for them. */
enum part {
	PART_LINK = 0,		/* the Ethernet header of what is no plain IP frame for the interface's own address */
	PART_OPTIONS = 1,	/* of IPv4; the detail: bytes of the header */
	PART_EXTENSIONS = 2,	/* of IPv6; the detail: protocol of the first */
	PART_SCALE = 3,		/* the options of a SYN; the detail: bytes of the header */
};

static __always_inline enum verdict look_closer_at(struct packet *p, const struct frame *f, enum part part, __u32 detail);

struct icmp {
	__u8 type;
	__u8 code;
	__u16 check;
	__be16 id;
	__be16 sequence;
};

/* The window scale of a SYN's options, or nothing. Options are at most 40 bytes. Where the next one begins is kept in the packet's
 * `record` meanwhile: the verifier would follow each place that it could be on the stack. */
static __always_inline void parse_scale(struct packet *p, const struct frame *f, __u32 header_bytes)
{
	__u32 end = p->transport + header_bytes;

	WRITE_ONCE(p->record, p->transport + TCP_BYTES);
	for (int i = 0; i < MOST_TCP_OPTIONS; i++) {
		__u32 at = READ_ONCE(p->record);
		__u8 *option = at + 2 < end ? bytes_at(f, at, 3) : 0;

		if (!option || option[0] == TCP_OPTION_END)
			break;
		if (option[0] == TCP_OPTION_WINDOW_SCALE && option[1] == 3) {
			p->flags |= PACKET_SCALES;
			p->scale = option[2] > MAX_SCALE ? MAX_SCALE : option[2];
			break;
		}
		if (option[0] != TCP_OPTION_NOTHING && option[1] < 2)
			break;
		WRITE_ONCE(p->record, at + (option[0] == TCP_OPTION_NOTHING ? 1 : option[1]));
	}
	p->record = 0;
}

static __always_inline bool impossible_flags(__u8 flags)
{
	__u8 control = flags & (TCP_FIN | TCP_SYN | TCP_RST);
	__u8 all = flags & 0x3f;

	return (control & TCP_SYN && control != TCP_SYN) || !all || all == 0x3f;
}

static __always_inline enum verdict parse_tcp(struct packet *p, const struct frame *f, __u32 segment_bytes)
{
	struct tcp *tcp = bytes_at(f, p->transport, TCP_BYTES);
	__u32 header_bytes;

	if (!tcp)
		return drop(p, REASON_TRUNCATED);
	header_bytes = tcp->header_words >> 4 << 2;
	if (header_bytes < TCP_BYTES || header_bytes > segment_bytes)
		return drop(p, REASON_LENGTH);
	p->source_port = tcp->source;
	p->destination_port = p->selector = tcp->destination;
	p->tcp_flags = tcp->flags;
	p->sequence = bpf_ntohl(tcp->sequence);
	p->acknowledgement = bpf_ntohl(tcp->acknowledgement);
	p->window = bpf_ntohs(tcp->window);
	p->data_bytes = segment_bytes - header_bytes;
	if (settings.check_tcp_flags && impossible_flags(tcp->flags))
		return drop(p, REASON_TCP_FLAGS);
	if (tcp->flags & TCP_SYN)
		return look_closer_at(p, f, PART_SCALE, header_bytes);
	return VERDICT_NEXT;
}

static __always_inline enum verdict parse_udp(struct packet *p, const struct frame *f, __u32 datagram_bytes)
{
	struct udp *udp = bytes_at(f, p->transport, UDP_BYTES);

	if (!udp)
		return drop(p, REASON_TRUNCATED);
	if (bpf_ntohs(udp->bytes) < UDP_BYTES ||
	    (bpf_ntohs(udp->bytes) > datagram_bytes && !(p->flags & PACKET_FIRST_FRAGMENT)))
		return drop(p, REASON_LENGTH);
	p->source_port = udp->source;
	p->destination_port = p->selector = udp->destination;
	return VERDICT_NEXT;
}

/* A question's port is its identifier, and the asked end's the kind of question: so only an answer comes back. */
static __always_inline void query(struct packet *p, const struct icmp *icmp, __u8 question, int is_reply)
{
	__be16 kind = bpf_htons(question << 8);

	p->source_port = is_reply ? kind : icmp->id;
	p->destination_port = is_reply ? icmp->id : kind;
	if (is_reply)
		p->flags |= PACKET_ICMP_REPLY;
}

static __always_inline void classify_icmp(struct packet *p, const struct icmp *icmp)
{
	__u8 type = icmp->type;

	if ((type == ICMP_ECHO || type == ICMP_ECHO_REPLY || type == ICMP_TIMESTAMP || type == ICMP_TIMESTAMP_REPLY) &&
	    icmp->code == 0) {
		__u8 question = type == ICMP_ECHO || type == ICMP_ECHO_REPLY ? ICMP_ECHO : ICMP_TIMESTAMP;

		query(p, icmp, question, type != question);
		return;
	}
	p->flags |= PACKET_STATELESS;
	if (type == ICMP_UNREACHABLE || type == ICMP_QUENCH || type == ICMP_TIME_EXCEEDED || type == ICMP_PARAMETER)
		p->flags |= PACKET_ICMP_ERROR;
}

/* Neighbour discovery and multicast listeners: what a link needs to work. RFC 4861 wants 255, RFC 3810 wants 1. Whoever advertises
 * itself as a router wants to be believed, so that is for the policy. */
static __always_inline bool is_link_business(const struct packet *p, __u8 type)
{
	if (type == ICMPV6_ROUTER_ADVERTISEMENT && !(p->flags & PACKET_FROM_SELF))
		return false;
	if (type >= ICMPV6_ROUTER_SOLICITATION && type <= ICMPV6_REDIRECT)
		return p->ttl == 255;
	return ((type >= ICMPV6_MLD_FIRST && type <= ICMPV6_MLD_LAST) || type == ICMPV6_MLD2) && p->ttl == 1;
}

static __always_inline enum verdict classify_icmpv6(struct packet *p, const struct frame *f, const struct icmp *icmp)
{
	__u8 type = icmp->type;

	if ((type == ICMPV6_ECHO || type == ICMPV6_ECHO_REPLY) && icmp->code == 0) {
		query(p, icmp, ICMPV6_ECHO, type == ICMPV6_ECHO_REPLY);
		return VERDICT_NEXT;
	}
	/* Of its own link, and no further: what is being forwarded is judged. */
	if (is_link_business(p, type) && !(p->flags & PACKET_FORWARDED)) {
		if (f->hook != HOOK_NETFILTER && across(p))
			return pass_unjudged(p, f->hook, BRIDGE_NEIGHBOURS);
		tally(TALLY_LINK, 1);
		return VERDICT_UP;
	}
	p->flags |= PACKET_STATELESS;
	if (type >= 1 && type <= ICMPV6_LAST_ERROR)
		p->flags |= PACKET_ICMP_ERROR;
	return VERDICT_NEXT;
}

static __always_inline enum verdict parse_icmp(struct packet *p, const struct frame *f)
{
	struct icmp *icmp = bytes_at(f, p->transport, sizeof(struct icmp));

	if (!icmp)
		return drop(p, REASON_TRUNCATED);
	if (icmp->type == (p->protocol == PROTOCOL_ICMPV6 ? ICMPV6_REDIRECT : ICMP_REDIRECT))
		return drop(p, REASON_ICMP_REDIRECT);
	p->selector = bpf_htons(icmp->type << 8 | icmp->code);
	if (p->protocol == PROTOCOL_ICMPV6)
		return classify_icmpv6(p, f, icmp);
	classify_icmp(p, icmp);
	return VERDICT_NEXT;
}

static __always_inline enum verdict parse_transport(struct packet *p, const struct frame *f)
{
	__u32 bytes = p->ip_bytes - (p->transport - p->network);
	__be16 *sctp;

	if (p->flags & PACKET_LATER_FRAGMENT)
		return VERDICT_NEXT;
	if (p->protocol == PROTOCOL_TCP)
		return bytes < TCP_BYTES ? drop(p, REASON_LENGTH) : parse_tcp(p, f, bytes);
	if (p->protocol == PROTOCOL_UDP)
		return bytes < UDP_BYTES ? drop(p, REASON_LENGTH) : parse_udp(p, f, bytes);
	if (p->protocol == (p->family == 4 ? PROTOCOL_ICMP : PROTOCOL_ICMPV6))
		return bytes < sizeof(struct icmp) ? drop(p, REASON_LENGTH) : parse_icmp(p, f);
	if (p->protocol == PROTOCOL_SCTP) {
		sctp = bytes_at(f, p->transport, 12);
		if (!sctp || bytes < 12)
			return drop(p, REASON_LENGTH);
		p->source_port = sctp[0];
		p->destination_port = p->selector = sctp[1];
	}
	return VERDICT_NEXT;
}

static __always_inline __u64 sum_of_header(const struct ipv4 *ip)
{
	const __u32 *words = (const __u32 *)ip;

	return (__u64)words[0] + words[1] + words[2] + words[3] + words[4];
}

/* Whether checksums of IPv4 headers are verified here. Not at netfilter: the kernel has done that, and where something follows the end of
 * the options it has written zeros there, for which it changes the checksum only when it sends the packet on (ip_forward_options()). */
static __always_inline bool checks_headers(const struct frame *f)
{
	return f->hook != HOOK_NETFILTER && settings.check_checksums;
}

/* The sum over an IPv4 header with its checksum is 0xffff. */
static __always_inline bool is_header_sum(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

/* The same of a header with options. Its length is kept in the packet's `transport` meanwhile, for the verifier as in has_good_options(). */
static __always_inline bool checksum_holds(struct packet *p, const struct frame *f, __u32 header_bytes)
{
	struct ipv4 *ip = bytes_at(f, p->network, IPV4_BYTES);
	__u64 sum;

	if (!ip)
		return 0;
	sum = sum_of_header(ip);
	WRITE_ONCE(p->transport, header_bytes);
	for (__u32 at = IPV4_BYTES; at < 60 && at < READ_ONCE(p->transport); at += 4) {
		__u32 *word = bytes_at(f, p->network + at, 4);

		if (!word)
			return 0;
		sum += *word;
	}
	return is_header_sum(sum);
}

static __always_inline bool is_good_option(__u8 option)
{
	return option == OPTION_QUICK_START || option == OPTION_SECURITY || option == OPTION_EXTENDED_SECURITY ||
	       option == OPTION_LABEL || option == OPTION_ROUTER_ALERT;
}

/* Whether all options up to `end` are harmless, and end there. Where the next one begins is kept in the packet's `transport` meanwhile: the
 * verifier would follow each place that it could be on the stack. */
static __always_inline bool has_good_options(struct packet *p, const struct frame *f, __u32 end)
{
	WRITE_ONCE(p->transport, p->network + IPV4_BYTES);
	for (int i = 0; i < MAX_OPTIONS; i++) {
		__u32 at = READ_ONCE(p->transport), bytes = 1;
		__u8 *option;

		if (at >= end)
			break;
		option = bytes_at(f, at, 1);
		if (!option)
			return 0;
		if (*option == OPTION_END)
			return 1;
		if (*option != OPTION_NOTHING) {
			if (!is_good_option(*option))
				return 0;
			option = bytes_at(f, at, 2);
			if (!option || option[1] < 2)
				return 0;
			bytes = option[1];
		}
		WRITE_ONCE(p->transport, at + bytes);
	}
	return READ_ONCE(p->transport) == end;
}

static __always_inline enum verdict check_options(struct packet *p, const struct frame *f, __u32 header_bytes)
{
	if (checks_headers(f) && !checksum_holds(p, f, header_bytes))
		return drop(p, REASON_CHECKSUM);
	return has_good_options(p, f, p->network + header_bytes) ? VERDICT_NEXT : drop(p, REASON_OPTIONS);
}

static __always_inline enum verdict note_ipv4_fragment(struct packet *p, const struct ipv4 *ip)
{
	__u16 fragment = bpf_ntohs(ip->fragment);
	__u32 offset = (fragment & IPV4_OFFSET) << 3;

	if (fragment & IPV4_DONT_FRAGMENT)
		p->flags |= PACKET_DONT_FRAGMENT;
	if (!(fragment & (IPV4_MORE_FRAGMENTS | IPV4_OFFSET)))
		return VERDICT_NEXT;
	p->fragment_id = ip->id;
	p->fragment_offset = offset;
	p->fragment_start = p->transport;
	p->flags |= offset ? PACKET_LATER_FRAGMENT : PACKET_FIRST_FRAGMENT;
	if (fragment & IPV4_MORE_FRAGMENTS)
		p->flags |= PACKET_MORE_FRAGMENTS;
	/* A datagram that would be longer than any may be is never whole without this part. */
	return offset + p->ip_bytes > MAX_IP_BYTES ? drop(p, REASON_LENGTH) : VERDICT_NEXT;
}

/* Bytes from the IP header to the frame's end. At XDP the first part of a frame counts as all of it until a packet claims more, or
 * does not say: to ask how long the rest is costs a call. */
static __always_inline __u32 room_for(struct packet *p, const struct frame *f, __u32 claimed)
{
	if (f->hook == HOOK_XDP && (!claimed || claimed > p->frame_bytes - p->network))
		p->frame_bytes = bpf_xdp_get_buff_len(f->ctx);
	return p->frame_bytes - p->network;
}

static __always_inline enum verdict parse_ipv4(struct packet *p, const struct frame *f)
{
	struct ipv4 *ip = bytes_at(f, p->network, IPV4_BYTES);
	__u32 header_bytes, room;

	if (!ip)
		return drop(p, REASON_TRUNCATED);
	header_bytes = (ip->version_words & 15) << 2;
	if (ip->version_words >> 4 != 4 || header_bytes < IPV4_BYTES)
		return drop(p, REASON_HEADER);
	p->ip_bytes = bpf_ntohs(ip->bytes);
	room = room_for(p, f, p->ip_bytes);
	/* Linux gives packets beyond 64 KiB ("BIG TCP") the length 0; they never leave the machine that way. */
	if (!p->ip_bytes && room > 0xffff)
		p->ip_bytes = room;
	if (p->ip_bytes < header_bytes || p->ip_bytes > room)
		return drop(p, REASON_LENGTH);
	if (header_bytes > IPV4_BYTES) {
		if (look_closer_at(p, f, PART_OPTIONS, header_bytes) != VERDICT_NEXT)
			return VERDICT_DROP;
	} else if (checks_headers(f) && !is_header_sum(sum_of_header(ip))) {
		return drop(p, REASON_CHECKSUM);
	}
	p->family = 4;
	p->source[0] = ip->source;
	p->destination[0] = ip->destination;
	p->protocol = ip->protocol;
	p->ttl = ip->ttl;
	p->transport = p->network + header_bytes;
	if (ip->fragment)
		return note_ipv4_fragment(p, ip);
	return VERDICT_NEXT;
}

/* Looks through what may lie before the transport header of IPv6. */
static __always_inline enum verdict skip_extensions(struct packet *p, const struct frame *f, __u32 first)
{
	/* As in has_good_options(). */
	WRITE_ONCE(p->transport, p->network + IPV6_BYTES);
	WRITE_ONCE(p->protocol, first);
	/* The last turn finds the transport header behind as many as there may be. */
	for (int i = 0; i <= MAX_EXTENSIONS; i++) {
		struct extension *extension;
		__u32 at = READ_ONCE(p->transport), next = READ_ONCE(p->protocol), offset;

		if (next != PROTOCOL_HOP_BY_HOP && next != PROTOCOL_ROUTING && next != PROTOCOL_FRAGMENT &&
		    next != PROTOCOL_DESTINATION_OPTIONS)
			return VERDICT_NEXT;
		extension = bytes_at(f, at, 8);
		if (!extension)
			return drop(p, REASON_TRUNCATED);
		/* A route that the sender chose goes around the policy (RFC 5095); one that has ended is harmless. */
		if (next == PROTOCOL_ROUTING && ((__u8 *)extension)[3])
			return drop(p, REASON_EXTENSIONS);
		if (next == PROTOCOL_FRAGMENT) {
			/* Whoever puts a fragment into a fragment wants its parts to be read in two ways (RFC 8200 section 4.5). */
			if (READ_ONCE(p->window))
				return drop(p, REASON_EXTENSIONS);
			/* Only TCP has a window. The verifier would follow a variable of its own through all that comes after. */
			WRITE_ONCE(p->window, 1);
			offset = bpf_ntohs(extension->offset_more) & 0xfff8;
			if (bpf_ntohs(extension->offset_more) & 0xfff9) {
				p->fragment_id = extension->id;
				p->fragment_start = at + FRAGMENT_BYTES;
				p->flags |= offset ? PACKET_LATER_FRAGMENT : PACKET_FIRST_FRAGMENT;
				if (extension->offset_more & bpf_htons(MORE_FRAGMENTS))
					p->flags |= PACKET_MORE_FRAGMENTS;
			}
			/* Its own fragment header is not in the whole. */
			if (offset && offset + p->ip_bytes > MAX_IP_BYTES + IPV6_BYTES + FRAGMENT_BYTES)
				return drop(p, REASON_LENGTH);
			p->fragment_offset = offset;
			at += FRAGMENT_BYTES;
		} else {
			at += (extension->units + 1) << 3;
		}
		/* What fills a frame up is no header, also not that of a fragment, which would have less than no bytes. */
		if (at - p->network > p->ip_bytes)
			return drop(p, REASON_LENGTH);
		WRITE_ONCE(p->transport, at);
		WRITE_ONCE(p->protocol, extension->next);
		if (p->flags & PACKET_LATER_FRAGMENT)
			return VERDICT_NEXT;
	}
	return drop(p, REASON_EXTENSIONS);
}

static __always_inline enum verdict parse_ipv6(struct packet *p, const struct frame *f)
{
	struct ipv6 *ip = bytes_at(f, p->network, IPV6_BYTES);
	__u32 room, next;

	if (!ip)
		return drop(p, REASON_TRUNCATED);
	if ((bpf_ntohl(ip->version_class_flow) >> 28) != 6)
		return drop(p, REASON_HEADER);
	p->ip_bytes = bpf_ntohs(ip->payload_bytes) + IPV6_BYTES;
	room = room_for(p, f, ip->payload_bytes ? p->ip_bytes : 0);
	if (!ip->payload_bytes && room > 0xffff)
		p->ip_bytes = room;
	if (p->ip_bytes > room)
		return drop(p, REASON_LENGTH);
	p->family = 6;
	p->flags |= PACKET_DONT_FRAGMENT;
	for (int word = 0; word < 4; word++) {
		p->source[word] = ip->source[word];
		p->destination[word] = ip->destination[word];
	}
	p->ttl = ip->hop_limit;
	next = ip->next_header;
	if (next == PROTOCOL_TCP || next == PROTOCOL_UDP || next == PROTOCOL_ICMPV6) {
		p->protocol = next;
		p->transport = p->network + IPV6_BYTES;
		return VERDICT_NEXT;
	}
	return look_closer_at(p, f, PART_EXTENSIONS, next);
}

static __always_inline enum verdict look_closer(struct packet *p, const struct frame *f, __u32 part, __u32 detail)
{
	switch (part) {
	case PART_LINK:
		/* At netfilter there is none. */
		if (f->hook == HOOK_NETFILTER)
			return VERDICT_DROP;
		return across(p) ? parse_bridged(p, f) : parse_link(p, f);
	case PART_OPTIONS:
		return check_options(p, f, detail);
	case PART_EXTENSIONS:
		return skip_extensions(p, f, detail);
	default:
		parse_scale(p, f, detail);
		return VERDICT_NEXT;
	}
}

__noinline int look_closer_xdp(struct xdp_md *ctx, struct packet *p, __u32 part, __u32 detail)
{
	struct frame f = { .data = hook_data(ctx, HOOK_XDP), .end = hook_end(ctx, HOOK_XDP), .ctx = ctx, .hook = HOOK_XDP };

	return p ? look_closer(p, &f, part, detail) : VERDICT_DROP;
}

__noinline int look_closer_tc(struct __sk_buff *ctx, struct packet *p, __u32 part, __u32 detail)
{
	struct frame f = { .data = hook_data(ctx, HOOK_TC), .end = hook_end(ctx, HOOK_TC), .ctx = ctx, .hook = HOOK_TC };

	return p ? look_closer(p, &f, part, detail) : VERDICT_DROP;
}

/* In netfilter.h. */
struct bpf_nf_ctx;
int look_closer_netfilter(struct bpf_nf_ctx *ctx, struct packet *p, __u32 part, __u32 detail);

static __always_inline enum verdict look_closer_at(struct packet *p, const struct frame *f, enum part part, __u32 detail)
{
	if (f->hook == HOOK_NETFILTER)
		return look_closer_netfilter(f->ctx, p, part, detail);
	return f->hook == HOOK_XDP ? look_closer_xdp(f->ctx, p, part, detail) : look_closer_tc(f->ctx, p, part, detail);
}

/* Whether a packet in a frame for a group is for a group itself. RFC 1122 section 3.3.6: otherwise it was not meant for us. */
__noinline int is_for_group(struct packet *p)
{
	__u32 first;

	if (!p)
		return 0;
	first = bpf_ntohl(p->destination[0]);
	if (p->family == 6)
		return first >> 24 == 0xff;
	return first >> 28 == 0xe || first == ~0U || is_link_broadcast(p->destination[0]);
}

/* Everything up to the transport header's fields. */
static __always_inline enum verdict parse(struct packet *p, const struct frame *f)
{
	struct ethernet *ethernet = bytes_at(f, 0, ETHERNET_BYTES);
	__be16 type = ethernet && is_plain(p, f, ethernet) ? ethernet->type : 0;
	enum verdict verdict;

	p->network = ETHERNET_BYTES;
	if (f->hook == HOOK_TC && p->flags & PACKET_LAYER_3) {
		p->network = 0;
		if (!p->family)
			return drop(p, REASON_NOT_IP);
	} else if (type == bpf_htons(ETHERTYPE_IPV4)) {
		p->family = 4;
	} else if (type == bpf_htons(ETHERTYPE_IPV6)) {
		p->family = 6;
	} else {
		verdict = look_closer_at(p, f, PART_LINK, 0);
		if (verdict != VERDICT_NEXT)
			return verdict;
	}
	verdict = READ_ONCE(p->family) == 4 ? parse_ipv4(p, f) : parse_ipv6(p, f);
	if (verdict != VERDICT_NEXT)
		return verdict;
	if (p->flags & PACKET_TO_GROUP && !is_for_group(p))
		return drop(p, REASON_NOT_OURS);
	verdict = parse_transport(p, f);
	/* A bridge takes no hop, so no packet ends before it. What did would go on all the same, past everything that follows a flow. */
	if (p->ttl < 2 && across(p))
		p->ttl = 2;
	return verdict;
}

#endif
