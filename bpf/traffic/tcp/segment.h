/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Segments: what one says, apart from how it lies on the wire, and reading one from a frame. */
#ifndef RAMPART_TRAFFIC_TCP_SEGMENT_H
#define RAMPART_TRAFFIC_TCP_SEGMENT_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../../abi/tcp.h"
#include "../../net/checksum.h"
#include "../../net/headers.h"

/* A hash whose every bit depends on every bit of the value. */
static __always_inline __u32 mix32(__u32 value)
{
	value = (value ^ (value >> 16)) * 0x21f0aaad;
	value = (value ^ (value >> 15)) * 0x735a2d97;
	return value ^ (value >> 15);
}

enum payload_kind { PAYLOAD_NONE = 0, PAYLOAD_REQUEST = 1, PAYLOAD_ANSWER = 2 };

#define NOP_NOP_STAMP bpf_htonl(0x0101080a)
#define SACK_STAMP bpf_htonl(0x0402080a)
#define NOP_NOP_SACK bpf_htonl(0x01010402)
#define MSS_OPTION 0x02040000
#define SCALE_OPTION 0x01030300
#define MAX_OPTION_WORDS 10

/* A segment to be sent. Sequence numbers, window and timestamps in host byte order. */
struct segment {
	__u8 to_mac[6];
	__u8 from_mac[6];
	__be32 source[4];	/* IPv4: the first word */
	__be32 destination[4];
	__be16 source_port;
	__be16 destination_port;
	__u32 sequence;
	__u32 acknowledgement;
	__u32 stamp;		/* the tick when it was made */
	__u32 stamp_echo;
	__u32 payload_offset;	/* within the message */
	__u64 proof;		/* where the payload has one */
	__u16 payload_bytes;
	__u16 window;
	__u8 flags;
	__u8 offers;		/* of a SYN */
	__u8 has_stamp;
	__u8 payload;		/* enum payload_kind */
};

/* A segment that arrived. */
struct arrived {
	__be32 source[4];
	__be32 destination[4];
	__be16 source_port;
	__be16 destination_port;
	__u32 sequence;
	__u32 acknowledgement;
	__u32 stamp;
	__u32 payload_at;	/* offset in the frame */
	__u32 pseudo;		/* unfolded sum of the pseudo header */
	__u32 sum;		/* the same with the TCP header: all that the checksum covers but the payload */
	__u32 slot;		/* at the client: of the connection that it is for */
	__u16 check;
	__u8 bad_header;	/* the IPv4 header's checksum is wrong */
	__u32 payload_bytes;
	__u32 frame_bytes;
	__u16 window;
	__u16 mss;		/* of a SYN; 536 when it does not say (RFC 9293 section 3.7.1) */
	__u16 seal;		/* where seal.h has it */
	__u8 flags;
	__u8 offers;
	__u8 has_stamp;
	__u8 version;
	__u8 scale;		/* of a SYN */
	__u8 proxied;		/* at the client: of a SYN-ACK with another sequence number than the server's */
};

/* A walk through the options of a SYN. */
struct option_walk {
	__u8 bytes[40];
	__u32 at;
	__u32 end;
	__u32 offers;
	__u32 stamp;
	__u32 mss;
	__u32 scale;
};

static __always_inline __u8 option_byte(const struct option_walk *walk, __u32 at)
{
	return at < sizeof(walk->bytes) ? walk->bytes[at] : 0;
}

/* One option. A loop that the verifier would have to unroll takes it past its limit: hence bpf_loop(). */
static long read_option(__u32 turn __attribute__((unused)), struct option_walk *walk)
{
	__u32 at = walk->at;
	__u8 kind = option_byte(walk, at), bytes = option_byte(walk, at + 1);

	if (at >= walk->end || kind == 0)
		return 1;
	if (kind == 1) {
		walk->at = at + 1;
		return 0;
	}
	if (bytes < 2 || at + bytes > walk->end)
		return 1;
	if (kind == 2) {
		walk->offers |= OFFER_MSS;
		walk->mss = option_byte(walk, at + 2) << 8 | option_byte(walk, at + 3);
	} else if (kind == 3) {
		walk->offers |= OFFER_WINDOW_SCALE;
		walk->scale = option_byte(walk, at + 2);
	} else if (kind == 4) {
		walk->offers |= OFFER_SACK;
	} else if (kind == 8) {
		walk->offers |= OFFER_TIMESTAMPS;
		walk->stamp = (__u32)option_byte(walk, at + 2) << 24 | option_byte(walk, at + 3) << 16 |
			      option_byte(walk, at + 4) << 8 | option_byte(walk, at + 5);
	}
	walk->at = at + bytes;
	return 0;
}

static __noinline int read_offers(struct xdp_md *ctx, __u32 at, __u32 bytes, struct arrived *seen)
{
	struct option_walk walk = {};
	__u64 last = (__u64)bytes - 1;

	/* Linux 6.1 learns nothing from "not 0". */
	barrier_var(last);
	if (!seen || last >= sizeof(walk.bytes) || bpf_xdp_load_bytes(ctx, at, walk.bytes, last + 1))
		return 0;
	walk.end = bytes;
	walk.mss = seen->mss;
	bpf_loop(40, read_option, &walk, 0);
	seen->mss = walk.mss;
	seen->scale = walk.scale;
	seen->stamp = walk.stamp;
	return walk.offers;
}

/* Sums four-byte words, which BPF loads from any even address. Folded so far that sixteen bits and some can be added. */
static __always_inline __u32 words_sum(const __be32 *words, __u32 count)
{
	__u64 sum = 0;

	_Pragma("unroll") for (__u32 i = 0; i < count; i++)
		sum += words[i];
	return checksum_long(sum);
}

/* The sum of options that are laid out unlike ours. */
__noinline int option_sum(struct xdp_md *ctx, __u32 at, __u32 bytes)
{
	__be32 words[10] = {};
	__u64 last = (__u64)bytes - 1;

	/* Linux 6.1 learns nothing from "not 0". */
	barrier_var(last);
	if (last >= sizeof(words) || bpf_xdp_load_bytes(ctx, at, words, last + 1))
		return 0;
	return words_sum(words, 10);
}

/* The options of a SYN as Linux and we lay them out: read by whole words; everything else one by one. */
static __always_inline void read_syn_options(struct xdp_md *ctx, const struct tcp *tcp, void *end, __u32 at,
					     __u32 bytes, struct arrived *seen)
{
	const __be32 *words = (const void *)(tcp + 1);

	seen->mss = 536;
	seen->offers = 0;
	seen->stamp = 0;
	seen->scale = 0;
	if (bytes == 4 && (void *)(words + 1) <= end && (bpf_ntohl(words[0]) & 0xffff0000) == MSS_OPTION) {
		seen->mss = bpf_ntohl(words[0]);
		seen->offers = OFFER_MSS;
		seen->sum += checksum_word(words[0]);
	} else if (bytes == 20 && (void *)(words + 5) <= end && words[1] == SACK_STAMP &&
		   (bpf_ntohl(words[0]) & 0xffff0000) == MSS_OPTION &&
		   (bpf_ntohl(words[4]) & 0xffffff00) == SCALE_OPTION) {
		seen->mss = bpf_ntohl(words[0]);
		seen->stamp = bpf_ntohl(words[2]);
		seen->scale = bpf_ntohl(words[4]);
		seen->offers = OFFER_MSS | OFFER_SACK | OFFER_TIMESTAMPS | OFFER_WINDOW_SCALE;
		seen->sum += words_sum(words, 5);
	} else if (bytes) {
		seen->offers = read_offers(ctx, at, bytes, seen);
		seen->sum += option_sum(ctx, at, bytes);
	}
	seen->has_stamp = (seen->offers & OFFER_TIMESTAMPS) != 0;
}

/* Reads the TCP header at `at` of a packet that ends at `packet_end`, offsets in the frame. */
static __always_inline int read_tcp(struct xdp_md *ctx, const struct tcp *tcp, void *end, __u32 at, __u32 packet_end,
				    struct arrived *seen)
{
	const __be32 *words = (const void *)(tcp + 1);
	__u32 header;

	if ((void *)(tcp + 1) > end)
		return -1;
	header = (tcp->header_words >> 4) * 4;
	if (header < TCP_BYTES || at + header > packet_end)
		return -1;
	seen->source_port = tcp->source;
	seen->destination_port = tcp->destination;
	seen->sequence = bpf_ntohl(tcp->sequence);
	seen->acknowledgement = bpf_ntohl(tcp->acknowledgement);
	seen->flags = tcp->flags;
	seen->window = bpf_ntohs(tcp->window);
	if (seen->version == 6)
		seen->seal = tcp->urgent;
	seen->payload_at = at + header;
	seen->payload_bytes = packet_end - at - header;
	seen->has_stamp = 0;
	seen->stamp = 0;
	seen->check = tcp->check;
	seen->pseudo += bpf_htons(PROTOCOL_TCP) + bpf_htons(packet_end - at);
	seen->sum = seen->pseudo + words_sum((const void *)tcp, TCP_BYTES / 4);
	if (tcp->flags & TCP_SYN) {
		read_syn_options(ctx, tcp, end, at + TCP_BYTES, header - TCP_BYTES, seen);
		return 0;
	}
	if (header >= TCP_BYTES + 12 && (void *)(words + 3) <= end && words[0] == NOP_NOP_STAMP) {
		seen->has_stamp = 1;
		seen->stamp = bpf_ntohl(words[1]);
		if (header == TCP_BYTES + 12) {
			seen->sum += words_sum(words, 3);
			return 0;
		}
	}
	if (header != TCP_BYTES)
		seen->sum += option_sum(ctx, at + TCP_BYTES, header - TCP_BYTES);
	return 0;
}

/* Reads a frame. Negative for what is not a whole TCP segment directly in an IP packet. */
static __always_inline int read_segment(struct xdp_md *ctx, struct arrived *seen)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethernet *eth = data;
	__u32 packet_end;

	seen->frame_bytes = end - data;
	/* The verifier does not see that these are read only where they were written. */
	seen->seal = 0;
	seen->offers = 0;
	seen->scale = 0;
	seen->mss = 0;
	seen->proxied = 0;
	if ((void *)(eth + 1) > end)
		return -1;
	if (eth->type == bpf_htons(ETHERTYPE_IPV4)) {
		struct ipv4 *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > end || ip->version_words != 0x45 || ip->protocol != PROTOCOL_TCP ||
		    (ip->fragment & bpf_htons(0x3fff)))
			return -1;
		packet_end = ETHERNET_BYTES + bpf_ntohs(ip->bytes);
		if (packet_end > seen->frame_bytes)
			return -1;
		seen->version = 4;
		seen->seal = ip->id;
		seen->bad_header = checksum_fold(words_sum((const void *)ip, IPV4_BYTES / 4)) != 0;
		seen->pseudo = words_sum(&ip->source, 2);
		seen->source[0] = ip->source;
		seen->destination[0] = ip->destination;
		return read_tcp(ctx, (void *)(ip + 1), end, ETHERNET_BYTES + IPV4_BYTES, packet_end, seen);
	}
	if (eth->type == bpf_htons(ETHERTYPE_IPV6)) {
		struct ipv6 *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > end || ip->next_header != PROTOCOL_TCP)
			return -1;
		packet_end = ETHERNET_BYTES + IPV6_BYTES + bpf_ntohs(ip->payload_bytes);
		if (packet_end > seen->frame_bytes)
			return -1;
		seen->version = 6;
		seen->bad_header = 0;
		seen->pseudo = words_sum(ip->source, 8);
		__builtin_memcpy(seen->source, ip->source, 16);
		__builtin_memcpy(seen->destination, ip->destination, 16);
		return read_tcp(ctx, (void *)(ip + 1), end, ETHERNET_BYTES + IPV6_BYTES, packet_end, seen);
	}
	return -1;
}

/* Host number of an address in a side's range, or at least its number of hosts. */
static __always_inline __u32 host_of(const struct side *side, __u8 version, const __be32 *address)
{
	if (version == 4)
		return bpf_ntohl(address[0]) - side->v4_first;
	if (address[0] != side->v6_prefix[0] || address[1] != side->v6_prefix[1] || address[2] != side->v6_prefix[2])
		return ~0U;
	return bpf_ntohl(address[3]) - side->v6_first;
}

/* An answer at `tick` to what arrived goes back the way it came. MAC addresses are turned round by whoever writes it. */
static __always_inline void turn_round(const struct arrived *seen, struct segment *segment, __u32 tick)
{
	segment->source[0] = seen->destination[0];
	segment->destination[0] = seen->source[0];
	if (seen->version == 6) {
		for (int i = 1; i < 4; i++) {
			segment->source[i] = seen->destination[i];
			segment->destination[i] = seen->source[i];
		}
	}
	segment->source_port = seen->destination_port;
	segment->destination_port = seen->source_port;
	segment->has_stamp = seen->has_stamp;
	segment->stamp_echo = seen->stamp;
	segment->stamp = tick;
	segment->payload = PAYLOAD_NONE;
	segment->payload_bytes = 0;
	segment->payload_offset = 0;
	segment->proof = 0;
	segment->offers = 0;
}

#endif
