/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A packet as the stages of the data plane know it: parse.h fills in what it finds in the headers, later stages add what
 * they decide. Offsets are from the frame's first byte and are checked again by whoever reads there: the verifier forgets
 * bounds of what was stored. There are no pointers in it, so it may be passed to functions that are verified by themselves.
 */
#ifndef RAMPART_FIREWALL_PACKET_H
#define RAMPART_FIREWALL_PACKET_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "../abi/firewall.h"
#include "../net/headers.h"
#include "../net/once.h"

#define PROTOCOL_ICMP 1

/* Headers end within this many bytes of the frame, or the packet is dropped. */
#define MAX_HEADER_BYTES 1023

/* packet.flags */
#define PACKET_FIRST_FRAGMENT 1	/* has the transport header; more follow */
#define PACKET_LATER_FRAGMENT 2	/* has no transport header */
#define PACKET_ICMP_ERROR 4	/* quotes a packet: `transport` is the ICMP header */
#define PACKET_ICMP_REPLY 8	/* answers a query: ports are swapped accordingly */
#define PACKET_DONT_FRAGMENT 16	/* IPv4 with DF, or IPv6 */
#define PACKET_TAGGED 32	/* the kernel has taken the tag of a VLAN out of the frame */
#define PACKET_FROM_SELF 64	/* on its way out of the firewall itself */
#define PACKET_STATELESS 128	/* no flow can come of it: ICMP that is no query */
#define PACKET_SCALES 256	/* SYN with the window scale option */
#define PACKET_TO_GROUP 512	/* its frame is for an Ethernet group */
#define PACKET_TO_HOST 1024	/* the kernel says that its frame is for this interface */
#define PACKET_FORWARDED 2048	/* the kernel is forwarding it: at netfilter alone, where "up" would let it through */
#define PACKET_MORE_FRAGMENTS 4096
#define PACKET_DESTINATION_TRANSLATED 8192	/* `destination` is where the policy sends it, and not what its header says */
#define PACKET_TRANSLATED 16384	/* its flow, which `record` names, has other ends or numbers for its header */
#define PACKET_LAYER_3 32768	/* it begins with its IP header: on its way out by a link without Ethernet headers */

struct packet {
	__be32 source[4];	/* IPv4: the first word, the others 0 */
	__be32 destination[4];
	__be16 source_port;	/* ICMP queries: see struct flow */
	__be16 destination_port;
	__u8 protocol;		/* of IPv6 the last header's */
	__u8 family;		/* 4 or 6 */
	__u8 from;		/* zone that it comes from */
	__u8 to;		/* zone that it goes to; NO_ZONE until routed */
	__u32 ifindex;		/* interface that it came in by */
	__u32 tick;		/* now */
	__u32 frame_bytes;	/* whole frame, without FCS; of a GSO packet all of it; see room_for() of XDP */
	__u32 ip_bytes;		/* from the first byte of the IP header */
	__u16 network;		/* offset of the IP header */
	__u16 transport;	/* offset of the transport header */
	__u16 flags;
	__u8 reason;		/* enum reason, once dropped */
	__u8 is_proxied : 1;	/* a cookie brought it, or it is a segment of the firewall's own */
	__u8 is_copy : 1;	/* of a frame that goes to several interfaces of a bridge: judged for one of them, whose place `way` is (stations.h) */
	__u8 gateway : 6;	/* the transparent gateway that it is for, although its destination is somebody else's, as in EXTRA_GATEWAY; or 0 */
	__be16 selector;	/* what the policy calls selector: destination port or ICMP type << 8 | code */
	__u8 ttl;		/* TTL or hop limit */
	__u8 tcp_flags;
	__u32 sequence;		/* TCP, host order */
	__u32 acknowledgement;
	__u32 data_bytes;	/* TCP payload */
	__u32 fragment_id;	/* identification, in network order */
	__u16 fragment_offset;	/* in bytes */
	__u16 fragment_start;	/* where in the frame the part of the datagram begins that a fragment has */
	__u16 window;		/* as in the header */
	__u8 era;		/* of `tick`, as in struct flow */
	__u8 way;		/* the place in `ports` of the interface that a new flow leaves by; on a bridge of more than two that any packet does */
	__u32 hash;		/* of the flow's ends, lower half */
	__u32 tag;		/* of the same, upper half */
	__u32 record;		/* the flow's, with which use of it: the lower half of its slot */
	__u8 side;		/* the end of the flow that sent it: 0 or 1 */
	__u8 action;		/* enum action, once judged */
	__u8 scale : 4;		/* window shift of a SYN */
	__u8 is_beside : 1;	/* it accompanies a flow, and is not of it */
	__u8 is_late : 1;	/* its source is translated where it leaves */
	__u8 port;		/* the interface's place in `ports` */
	__u32 row;		/* deciding row and 1; 0: default of the zone pair; ROW_LIST: a list of addresses */
	__u32 slot;		/* counter of the deciding rule or list, or NO_SLOT */
	__u32 generation;	/* of the policy that judged it */
	__u32 extras;		/* of the deciding rule, as in struct effect */
	__u32 mark;		/* what its flow shall be marked with */
};

/* Whether the kernel has chosen where a packet goes: what it forwards itself, and what its programs send. */
static __always_inline bool has_way(const enum hook hook)
{
	return hook == HOOK_NETFILTER || hook == HOOK_OUT;
}

/* Whether the firewall itself sends a packet: a constant at all hooks but netfilter. What never happens to such packets, and that is
 * routes, answers, translation of new flows and SYN cookies, is not in the program that looks at them, which loads in half the time. */
static __always_inline bool is_from_self(const struct packet *p, const enum hook hook)
{
	return hook == HOOK_NETFILTER ? p->flags & PACKET_FROM_SELF : hook == HOOK_OUT;
}

/* RFC 3927 section 2.7, RFC 4291 section 2.5.6: routers forward nothing from or to link-local addresses. */
static __always_inline bool is_of_link(__u8 family, __be32 first)
{
	if (family == 4)
		return (first & bpf_htonl(0xffff0000)) == bpf_htonl(0xa9fe0000);
	return (first & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000);
}

/* Whether a packet does not reach the zone that it is for, because its hop limit is used up. It is answered, and changes nothing. */
static __always_inline bool ends_before(const struct packet *p, __u8 zone)
{
	return p->ttl <= 1 && zone != ZONE_SELF && !(p->flags & PACKET_FROM_SELF);
}

/* The upper bits of a tick, as flows have them. */
static __always_inline __u8 era_of(__u64 tick)
{
	return (tick >> ERA_TICKS & ERA_BITS) | ERA_KNOWN;
}

static __always_inline __u64 tick_of(__u8 era, __u32 tick)
{
	return (__u64)(era & ERA_BITS) << ERA_TICKS | tick;
}

static __always_inline void set_clock(struct packet *p, __u64 tick)
{
	p->tick = tick;
	p->era = era_of(tick);
}

/* Read by itself: the verifier of Linux 6.1 would follow what it learns of the byte here through every search of the table. */
static __always_inline bool is_translated(const struct flow *flow)
{
	return READ_ONCE(flow->family) & FLOW_TRANSLATED;
}

/* Of a flow of IPv6: whether an end has an address outside. */
static __always_inline bool is_prefixed(const struct flow *flow)
{
	__u8 family = READ_ONCE(flow->family);

	return family & FLOW_PREFIXED && !(family & FLOW_TRANSLATED);
}

static __always_inline bool is_proxied(const struct flow *flow)
{
	return READ_ONCE(flow->family) & FLOW_PROXIED;
}

static __always_inline __u8 family_of(const struct flow *flow)
{
	return flow->family & FLOW_FAMILY;
}

/* Whether its packets go up to a transparent gateway. */
static __always_inline bool is_of_gateway(const struct flow *flow)
{
	return (READ_ONCE(flow->family) & (FLOW_TRANSLATED | FLOW_OF_GATEWAY)) == FLOW_OF_GATEWAY;
}

/* Which one: kept where other flows have how far away their responder is, and this one is here. */
static __always_inline __u8 gateway_of(const struct flow *flow)
{
	return READ_ONCE(flow->ttl[(flow->initiator & 1) ^ 1]);
}

static __always_inline bool is_mapped(const struct flow *flow)
{
	return (READ_ONCE(flow->family) & (FLOW_TRANSLATED | FLOW_MAPPED)) == (FLOW_TRANSLATED | FLOW_MAPPED);
}

/* By which address and port the other end of a translated flow knows this end. */
static __always_inline __be32 alias_address(const struct flow *flow, __u32 end)
{
	return flow->address_rest[end][ALIAS_ADDRESS];
}

static __always_inline __be16 alias_port(const struct flow *flow, __u32 end)
{
	return flow->address_rest[end][ALIAS_PORT];
}

/* The address of one end of a flow, as packets have it. */
static __always_inline void flow_address(const struct flow *flow, __u32 end, __be32 *address)
{
	address[0] = flow->address[end];
	for (int word = 0; word < 3; word++)
		address[word + 1] = family_of(flow) == 4 ? 0 : flow->address_rest[end][word];
}

/* What of a socket buffer is read piece by piece. */
struct slices {
	struct bpf_dynptr skb;
	/* For pieces that do not lie in its first part: a whole header, and less. */
	__u8 large[IPV6_BYTES];
	__u8 small[12];
};

extern void *bpf_dynptr_slice(const struct bpf_dynptr *from, __u64 offset, void *copy, __u64 copy__szk) __ksym __weak;

static __always_inline void *slice_at(struct slices *slices, __u32 offset, __u32 bytes)
{
	if (offset > MAX_HEADER_BYTES)
		return 0;
	if (bytes > sizeof(slices->small))
		return bpf_dynptr_slice(&slices->skb, offset, slices->large, bytes);
	return bpf_dynptr_slice(&slices->skb, offset, slices->small, bytes);
}

/* What of a frame can be read directly. */
struct frame {
	void *data;
	void *end;
	void *ctx;		/* the hook's */
	enum hook hook;
	struct slices *slices;	/* at netfilter, where nothing can be read directly; or null */
};

/* `bytes` bytes at an offset of the frame, or null when they are not there. `bytes` is a constant. At netfilter they are the
 * frame's own nearly always; what lies in another part of it is copied, and is good until the next header of its kind is asked for. */
static __always_inline void *bytes_at(const struct frame *f, __u32 offset, __u32 bytes)
{
	void *at;

	if (f->slices)
		return slice_at(f->slices, offset, bytes);
	/* Linux 6.1 learns of the very number that is compared: it must be the one that is added. */
	barrier_var(offset);
	if (offset > MAX_HEADER_BYTES)
		return 0;
	at = f->data + offset;
	return at + bytes > f->end ? 0 : at;
}

#endif
