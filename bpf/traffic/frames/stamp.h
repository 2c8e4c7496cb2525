/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The stamp in each test frame: written by the generator, found and judged by the sink. */
#ifndef RAMPART_TRAFFIC_FRAMES_STAMP_H
#define RAMPART_TRAFFIC_FRAMES_STAMP_H

#include "../../abi/frames.h"
#include "../../net/headers.h"

#define NOT_OURS ((void *)0)

/* Every 64th frame of a stream has its filling written afresh by the generator and compared by the sink. */
#define CONTENT_MASK 63

static __always_inline __u64 stamp_who(__u16 mark, __u8 core, __u8 lane, __u8 mix, __u8 sampled, __u64 now)
{
	return (__u64)mark | (__u64)core << 16 | (__u64)lane << 24 | (__u64)mix << 32 | (__u64)sampled << 40 |
	       (now >> 32) << 48;
}

static __always_inline __u64 stamp_what(__u32 sequence, __u64 now)
{
	return (__u64)sequence | now << 32;
}

static __always_inline __u16 stamp_mark(__u64 who) { return who; }
static __always_inline __u8 stamp_core(__u64 who) { return who >> 16; }
static __always_inline __u8 stamp_lane(__u64 who) { return who >> 24; }
static __always_inline __u8 stamp_mix(__u64 who) { return who >> 32; }
static __always_inline __u8 stamp_sampled(__u64 who) { return who >> 40; }
static __always_inline __u32 stamp_sequence(__u64 what) { return what; }

/* The low 48 bits of the send time in ns. */
static __always_inline __u64 stamp_sent(__u64 who, __u64 what)
{
	return (who >> 48) << 32 | what >> 32;
}

/* A multiplicative mix; a flipped bit anywhere in the stamp changes the check with probability 1 - 2^-16. */
static __always_inline __u16 stamp_check(__u64 who, __u64 what)
{
	return ((who * 0x9e3779b97f4a7c15ULL) ^ (what * 0xc2b2ae3d27d4eb4fULL)) >> 48;
}

static __always_inline __u32 word_sum(__u64 word)
{
	return (word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32 & 0xffff) + (word >> 48);
}

/* The payload of a UDP datagram or TCP segment, or NOT_OURS. */
static __always_inline void *transport_payload(void *transport, __u8 protocol, void *end)
{
	__u8 *tcp = transport;

	if (protocol == PROTOCOL_UDP)
		return transport + sizeof(struct udp);
	if (protocol != PROTOCOL_TCP || (void *)(tcp + 20) > end)
		return NOT_OURS;
	return transport + 20;	/* probes carry no TCP options */
}

/* The same in IPv4, where the second fragment of a datagram has no transport header. */
static __always_inline void *ipv4_payload(struct ipv4 *ip, void *end)
{
	if ((void *)(ip + 1) > end || ip->version_words != 0x45)
		return NOT_OURS;
	if (ip->fragment & bpf_htons(0x1fff))
		return ip->protocol == PROTOCOL_UDP ? ip + 1 : NOT_OURS;
	return transport_payload(ip + 1, ip->protocol, end);
}

static __always_inline void *ipv6_payload(struct ipv6 *ip, void *end)
{
	struct fragment *fragment = (void *)(ip + 1);

	if ((void *)fragment > end)
		return NOT_OURS;
	if (ip->next_header != PROTOCOL_FRAGMENT)
		return transport_payload(fragment, ip->next_header, end);
	if ((void *)(fragment + 1) > end)
		return NOT_OURS;
	if (fragment->offset & bpf_htons(0xfff8))
		return fragment->next_header == PROTOCOL_UDP ? fragment + 1 : NOT_OURS;
	return transport_payload(fragment + 1, fragment->next_header, end);
}

#endif
