/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The stamp in each test frame: written by the generator, found and judged by the sink. */
#ifndef RAMPART_TRAFFIC_FRAMES_STAMP_H
#define RAMPART_TRAFFIC_FRAMES_STAMP_H

#include <stdbool.h>
#include "../../abi/frames.h"
#include "../../net/checksum.h"
#include "../../net/headers.h"

#define NOT_OURS ((void *)0)
#define STAMP_OFFSET_V4 (ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES)
#define STAMP_OFFSET_V6 (ETHERNET_BYTES + IPV6_BYTES + UDP_BYTES)

/* What lies at an offset of a frame or of a header template; see net/headers.h for why that need not be aligned. */
#define LONG_AT(base, offset) (*(__u64 *)((void *)(base) + (offset)))
#define WORD_AT(base, offset) (*(__u32 *)((void *)(base) + (offset)))
#define HALF_AT(base, offset) (*(__u16 *)((void *)(base) + (offset)))

/* Which addresses and ports a frame has, as they lie in it: source in the lower half. Of IPv6 addresses the last word; of a
 * second fragment no ports. */
struct ends {
	__u64 addresses;
	__u32 ports;
};

static __always_inline __u64 stamp_who(__u16 mark, __u8 core, __u8 lane, __u8 mix, __u64 sequence, __u64 veiled)
{
	return (__u64)mark | (__u64)core << 16 | (__u64)lane << 24 | (__u64)mix << 32 | (sequence >> 32 & 0xff) << 40 |
	       (veiled >> 32) << 48;
}

static __always_inline __u64 stamp_what(__u64 sequence, __u64 veiled)
{
	return (__u32)sequence | veiled << 32;
}

static __always_inline __u16 stamp_mark(__u64 who) { return who; }
static __always_inline __u8 stamp_core(__u64 who) { return who >> 16; }
static __always_inline __u8 stamp_lane(__u64 who) { return who >> 24; }
static __always_inline __u8 stamp_mix_position(__u64 who) { return who >> 32; }

static __always_inline __u64 stamp_sequence(__u64 who, __u64 what)
{
	return (who >> 40 & 0xff) << 32 | (__u32)what;
}

/* The low 48 bits of the send time in ns, under the veil. */
static __always_inline __u64 stamp_sent(__u64 who, __u64 what, __u64 veil)
{
	return ((who >> 48) << 32 | what >> 32) ^ (veil & ((1ULL << 48) - 1));
}

/*
 * What hides the send time of a datagram's frames, and whether they are timed: its upper four bits. A firewall that knew could give way to
 * those alone, and would look faster than it is.
 */
static __always_inline __u64 stamp_veil(const struct secret *secret, __u32 core, __u32 lane, __u64 datagram)
{
	__u64 product = (datagram + ((__u64)core << 56 | (__u64)lane << 48)) * secret->times;

	return (product ^ product >> 32) * secret->last;
}

static __always_inline bool is_timed(__u64 veil, __u32 sample_mask) { return (veil >> 60 & sample_mask) == 0; }

/*
 * The stamp and the frame's ends under a secret. The sum is linear and hidden; the multiplication behind the shift makes what
 * is shown of it useless for whoever would forge another. This is a mixing for speed, not cryptography: who sees a frame can
 * guess the check of another with probability 2^-16.
 */
static __always_inline __u64 stamp_mix(const struct secret *secret, __u64 who, __u64 what, const struct ends *ends)
{
	__u64 sum = who * secret->who + what * secret->what + ends->addresses * secret->addresses +
		    ends->ports * secret->ports;

	return (sum ^ sum >> 32) * secret->last;
}

/* The part of the mix that the stamp shows. */
static __always_inline __u16 stamp_check(__u64 mix) { return mix >> 48; }

/* The part that it does not show. It decides whose content is compared, so that nobody else knows. */
static __always_inline __u32 stamp_hidden(__u64 mix) { return mix >> 16; }

/* Where a sender's slice of the flow table is found. */
static __always_inline __u32 sender_place(__u32 core, __u32 lane)
{
	__u32 place = core * MAX_LANES + lane;

	/* Linux 6.1 loses the bounds of an "or", which the compiler makes of this sum. */
	barrier_var(place);
	return place & (MAX_CORES * MAX_LANES - 1);
}

static __always_inline bool is_probe(__u64 who) { return stamp_core(who) == 0xff; }

/* Number of a fragmented datagram: no two under way between the same hosts have one. */
static __always_inline __u32 datagram_number(const struct control *control, __u64 sequence, __u32 core)
{
	return (__u32)(sequence >> 1) * control->generators + control->number[core & (MAX_CORES - 1)];
}

static __always_inline __u32 sum_stamp(const struct stamp *stamp)
{
	return checksum_long(stamp->who) + checksum_long(stamp->what) + stamp->check;
}

/* The UDP checksum of a datagram, in its first or only frame. `sum` is of the pseudo header's constant words. */
static __always_inline __u16 udp_check(__u32 sum, const struct mix_size *size, const struct ends *ends, const struct stamp *stamp)
{
	__u16 check = checksum_fold(sum + 2 * (__u32)size->udp_bytes + checksum_long(ends->addresses) +
				    checksum_word(ends->ports) + sum_stamp(stamp) + size->fill_sum);

	return check ? check : 0xffff;	/* zero would say that there is none (RFC 768) */
}

/* Length and checksum, the second half of a UDP header. */
static __always_inline __u32 udp_tail(const struct control *control, __u32 sum, const struct mix_size *size,
				      const struct ends *ends, const struct stamp *stamp)
{
	return size->udp_bytes | (control->udp_checksum ? (__u32)udp_check(sum, size, ends, stamp) << 16 : 0);
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

/* A frame's addresses and ports. A host is the second half of an IPv4 address or of an IPv6 address's last word, so both versions
 * have one form. */
static __always_inline struct ends ends_of(const struct flow *flow, const struct lane *lane, __be16 server_port, __u32 place)
{
	struct ends ends = {
		.addresses = lane->prefixes | (__u64)flow->client << 16 | (__u64)flow->server << 48,
		.ports = flow->client_port | (__u32)server_port << 16,
	};

	if (lane->reverse) {
		ends.addresses = ends.addresses << 32 | ends.addresses >> 32;
		ends.ports = ends.ports << 16 | ends.ports >> 16;
	}
	if (place == SECOND_FRAGMENT)
		ends.ports = 0;
	return ends;
}

/* The ends of a frame whose stamp is at `stamp`. */
static __always_inline struct ends ends_of_ipv4(const struct ipv4 *ip, const void *stamp, __u32 place)
{
	struct ends ends = { .addresses = ip->source | (__u64)ip->destination << 32 };

	if (place != SECOND_FRAGMENT)
		ends.ports = *(const __u32 *)(stamp - UDP_BYTES);
	return ends;
}

static __always_inline struct ends ends_of_ipv6(const struct ipv6 *ip, const void *stamp, __u32 place)
{
	struct ends ends = { .addresses = ip->source[3] | (__u64)ip->destination[3] << 32 };

	if (place != SECOND_FRAGMENT)
		ends.ports = *(const __u32 *)(stamp - UDP_BYTES);
	return ends;
}

#endif
