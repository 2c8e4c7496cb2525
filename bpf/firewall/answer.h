/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Answers in place of a packet: the packet is read into a room of its own, the answer is written there, whole, and then takes
 * the packet's place in the frame, back to where it came from. Nothing of the frame is kept but its Ethernet header with
 * the addresses turned, and every checksum is complete.
 *
 * Never answered: what RFC 1122 section 3.2.2 and RFC 4443 section 2.4 forbid, which keeps two machines from answering each
 * other's errors for ever. Rates are limited per core and kind of answer, because the sources may be forged.
 */
#ifndef RAMPART_FIREWALL_ANSWER_H
#define RAMPART_FIREWALL_ANSWER_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "../abi/forward.h"
#include "../net/checksum.h"
#include "../net/headers.h"
#include "hook.h"
#include "route.h"
#include "verdict.h"

#define ICMP_BYTES 8
#define ANSWER_HOPS 64
#define MAX_LINK_BYTES 22		/* an Ethernet header with two VLAN tags */
#define HEAD_BYTES 112			/* before the quote: at most 22 + 40 + 40 */
#define MAX_QUOTE_V4 548		/* an answer of at most 576 bytes: RFC 1812 section 4.3.2.3 */
#define MAX_QUOTE_V6 1232		/* of at most 1280: RFC 4443 section 2.4 (c) */
#define MIN_TRANSPORT_QUOTE 8
#define CHECKSUM_CHUNK 512		/* the most that bpf_csum_diff takes at once before Linux 6.13 */
#define CHECKSUM_CHUNKS 3
#define ANSWER_START_MASK 0x7fULL	/* more than HEAD_BYTES */
#define ANSWER_BYTES_MASK 0x7ffULL	/* more than any answer's bytes */

/* Where answers are made: headers end where the quote begins. */
struct answer_room {
	__u8 head[HEAD_BYTES];
	__u8 quote[MAX_QUOTE_V6];
	/* Never reached: the verifier sees neither that long headers and long quotes do not come together, nor that the last
	 * chunk of a checksum is shorter than the others, nor more of an answer's place and length than these masks. */
	__u8 slack[ANSWER_START_MASK + ANSWER_BYTES_MASK + 2 - HEAD_BYTES - MAX_QUOTE_V6];
	__u64 next_ns[2];	/* when the budget is full again: resets, errors */
};

enum answer_class { CLASS_RESET = 0, CLASS_ERROR = 1 };

_Static_assert(CHECKSUM_CHUNKS * CHECKSUM_CHUNK <= sizeof(((struct answer_room *)0)->quote) +
					      sizeof(((struct answer_room *)0)->slack), "whole chunks");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct answer_room);
} answer_rooms SEC(".maps");

/* What became of an answer. */
enum answered {
	ANSWER_SENT,
	ANSWER_LIMITED,		/* too many */
	ANSWER_FORBIDDEN,	/* by RFC 1122 or RFC 4443 */
	ANSWER_FAILED,		/* no address of our own, or no room in the frame */
};

/* Whom ICMP errors come from, by interface. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_OWN_ADDRESSES);
	__type(key, __u32);
	__type(value, struct own_addresses);
} own_addresses SEC(".maps");

/* A bucket that holds `answer_burst` of time, of which each answer takes an interval. Asked before an answer is made,
 * because under a flood that is the usual end; taken from only by answers that were sent. */
static __always_inline bool answer_allowed(const struct answer_room *room, enum answer_class class)
{
	const struct forwarding *limits = forwarding_now();

	return limits && room->next_ns[class] <= bpf_ktime_get_coarse_ns() + limits->answer_burst[class];
}

static __always_inline void answer_spend(struct answer_room *room, enum answer_class class)
{
	const struct forwarding *limits = forwarding_now();
	__u64 now = bpf_ktime_get_coarse_ns(), next = room->next_ns[class];

	if (limits)
		room->next_ns[class] = (next < now ? now : next) + limits->answer_interval[class];
}

/* RFC 1122 section 3.2.1.3: addresses that no host sends from. */
static __always_inline bool may_be_source_v4(__be32 address)
{
	__u32 first = bpf_ntohl(address) >> 24;

	return first != 0 && first != 127 && first < 224;
}

static __always_inline bool is_unicast_v6(const __be32 *address)
{
	int unspecified_or_loopback = !address[0] && !address[1] && !address[2] && bpf_ntohl(address[3]) <= 1;

	return !unspecified_or_loopback && (address[0] & bpf_htonl(0xff000000)) != bpf_htonl(0xff000000);
}

/* Queries and their answers; whatever else there is may be an error. */
static __always_inline bool is_icmp_query(__u8 type)
{
	return type == 0 || type == 8 || (type >= 13 && type <= 18);
}

/* ICMPv6 errors are below 128, and a redirect is not answered either (RFC 4443 section 2.4 (e)). */
static __always_inline bool is_icmpv6_information(__u8 type)
{
	return type >= 128 && type != 137;
}

/* Where the transport header is in the room. */
static __always_inline __u32 transport_in_quote(const struct packet *p)
{
	return (p->transport - p->network) & 0x3ff;
}

/* Whether a packet says that it comes from the firewall itself, or from everybody on one of its links: nobody sends as that (RFC 1812 sections 4.3.2.7
 * and 5.3.7). */
static __always_inline bool is_from_nobody(const struct packet *p)
{
	struct address key;

	address_of(p->source, p->family, &key);
	return bpf_map_lookup_elem(&local_addresses, &key) != 0;
}

/* Whether the packet, of which `bytes` are in the room, may be answered at all. */
static __always_inline bool is_answerable(const struct answer_room *room, const struct packet *p, __u32 bytes)
{
	__u32 transport = transport_in_quote(p);
	__u8 type = room->quote[transport];

	if (p->flags & PACKET_LATER_FRAGMENT)
		return 0;
	if (p->family == 4 ? !may_be_source_v4(p->source[0]) || bpf_ntohl(p->destination[0]) >> 28 >= 0xe
			   : !is_unicast_v6(p->source) || !is_unicast_v6(p->destination))
		return 0;
	/* What the firewall's own programs send under addresses of others, as a transparent proxy does, would be answered to those. */
	if (is_from_nobody(p) != !!(p->flags & PACKET_FROM_SELF))
		return 0;
	if (p->family == 4 && p->protocol == PROTOCOL_ICMP)
		return transport < bytes && is_icmp_query(type);
	if (p->family == 6 && p->protocol == PROTOCOL_ICMPV6)
		return transport < bytes && is_icmpv6_information(type);
	if (p->protocol == PROTOCOL_TCP)
		return transport + TCP_BYTES <= bytes && !(p->tcp_flags & TCP_RST);
	return 1;
}

/* Copies the Ethernet header with its addresses turned to `to`, or with those of the loopback interface, which are none, if the firewall itself sent
 * the packet; refuses one that was for many. */
static __always_inline int turn_ethernet(void *ctx, const struct packet *p, enum hook hook, __u16 *to)
{
	__u16 *from = hook_data(ctx, hook), keeps = p->flags & PACKET_FROM_SELF ? 0 : 0xffff;
	__u32 link_bytes = p->network;
	void *end = hook_end(ctx, hook);

	if ((void *)(from + 7) > end || from[0] & bpf_htons(0x0100))
		return -1;
	for (int i = 0; i < 3; i++) {
		to[i] = from[3 + i] & keeps;
		to[3 + i] = from[i] & keeps;
	}
	for (__u32 i = 6; i < MAX_LINK_BYTES / 2; i++) {
		if (i >= link_bytes / 2 || (void *)(from + i + 1) > end)
			break;
		to[i] = from[i];
	}
	return 0;
}

#define TAKEN_OFF 256	/* bytes; beyond every place where a checksum to be finished may begin, tunnels included */
#define SURELY_ALLOWED 1200	/* frame bytes that every interface with IPv6 may have (its MTU is at least 1280) */

/*
 * A socket buffer may still carry an order to finish a checksum somewhere, which would spoil the answer. The kernel forgets it
 * when the bytes where it begins are taken off the front (skb_postpull_rcsum), so that is done: first the length is brought to
 * where all this is allowed, which also makes an ordinary packet of several segments. Of a frame with a tag in it, beside the one that the
 * kernel has taken out, nothing can be taken off; cards leave no such order in one.
 */
static __always_inline int resize_tc(struct __sk_buff *ctx, __u32 bytes)
{
	__u32 first = ctx->len < SURELY_ALLOWED - TAKEN_OFF ? ctx->len + TAKEN_OFF : SURELY_ALLOWED;
	bool is_plain = ctx->protocol == bpf_htons(ETHERTYPE_IPV4) || ctx->protocol == bpf_htons(ETHERTYPE_IPV6);

	return bpf_skb_change_tail(ctx, first, 0) ||
	       (is_plain && bpf_skb_adjust_room(ctx, -TAKEN_OFF, BPF_ADJ_ROOM_MAC, 0)) || bpf_skb_change_tail(ctx, bytes, 0);
}

/* Grows at the front, where there is always room; all of the frame is written again anyway. */
static __always_inline int resize_xdp(struct xdp_md *ctx, __u32 bytes)
{
	int more = (int)bytes - (int)bpf_xdp_get_buff_len(ctx);

	return more > 0 ? bpf_xdp_adjust_head(ctx, -more) : bpf_xdp_adjust_tail(ctx, more);
}

/* Puts what begins at `start` in the room, of `bytes`, into the frame's place. 0, or it cannot be. */
static __always_inline int answer_write(void *ctx, enum hook hook, const struct answer_room *room, __u32 start, __u32 bytes)
{
	int failed = hook == HOOK_XDP ? resize_xdp(ctx, bytes) : resize_tc(ctx, bytes);
	__u64 from = start, size = bytes;

	if (failed || start > HEAD_BYTES || bytes == 0 || bytes > MAX_LINK_BYTES + 48 + MAX_QUOTE_V6)
		return -1;
	/* The verifier wants to see both bounds, whatever the compiler knows; that of Linux 6.1 as masks, because it forgets
	 * what was compared when the number itself lies on the stack. */
	barrier_var(from);
	barrier_var(size);
	from &= ANSWER_START_MASK;
	size = ((size - 1) & ANSWER_BYTES_MASK) + 1;
	return hook_store(ctx, hook, room->head + from, size) ? -1 : 0;
}

/* The same of an answer, and sends it back: to the firewall's own programs by the loopback interface, where nobody judges it. */
static __always_inline enum answered answer_send(void *ctx, const struct packet *p, enum hook hook,
						 const struct answer_room *room, __u32 start, __u32 bytes)
{
	bool comes_in = hook == HOOK_TC && p->flags & PACKET_FROM_SELF;
	long action;

	if (answer_write(ctx, hook, room, start, bytes))
		return ANSWER_FAILED;
	action = comes_in ? bpf_redirect(LOOPBACK_IFINDEX, BPF_F_INGRESS) : bpf_redirect(p->ifindex, 0);
	return hook_redirected(hook, action) ? ANSWER_SENT : ANSWER_FAILED;
}

/* Bytes of the packet, not of the frame, which may be padded. A whole number of words. */
static __always_inline __u32 quote_bytes(void *ctx, const struct packet *p, enum hook hook)
{
	__u32 there = hook_frame_bytes(ctx, hook) - p->network;
	__u32 most = p->family == 4 ? MAX_QUOTE_V4 : MAX_QUOTE_V6;
	__u32 bytes = p->ip_bytes < there ? p->ip_bytes : there;

	return (bytes < most ? bytes : most) & ~3U;
}

/* Reads the packet's beginning into the room, and the Ethernet header, turned, to `start`. Returns how many bytes of the
 * packet are there, 0 when it must not be answered. */
static __always_inline __u32 answer_begin(void *ctx, const struct packet *p, enum hook hook, struct answer_room *room,
					  __u32 start)
{
	__u32 bytes = quote_bytes(ctx, p, hook);

	barrier_var(bytes);
	barrier_var(start);
	if (start <= HEAD_BYTES - MAX_LINK_BYTES && bytes >= IPV4_BYTES && bytes <= MAX_QUOTE_V6 &&
	    !hook_load(ctx, hook, p->network, room->quote, bytes) && is_answerable(room, p, bytes) &&
	    !turn_ethernet(ctx, p, hook, (void *)room->head + start))
		return bytes;
	return 0;
}

/* Counts the packet once, and what became of its answer. Without a reason it was counted before. */
static __always_inline enum verdict answer_done(struct packet *p, struct answer_room *room, enum answer_class class,
						enum reason reason, enum answered answered)
{
	switch (answered) {
	case ANSWER_SENT:
		answer_spend(room, class);
		tally(TALLY_ANSWERED, 1);
		p->reason = reason;
		if (reason != REASON_NONE)
			count_drop(reason);
		return VERDICT_SENT;
	case ANSWER_LIMITED:
		tally(TALLY_ANSWERS_SUPPRESSED, 1);
		return drop(p, reason);
	case ANSWER_FORBIDDEN:
		return drop(p, reason);
	default:
		return drop(p, REASON_ANSWER);
	}
}

static __always_inline struct answer_room *answer_room(void)
{
	return lookup(&answer_rooms, 0);
}

static __always_inline void write_ipv4(struct ipv4 *ip, __u32 traffic_class, __u32 bytes, __u32 protocol,
				       __be32 source, __be32 destination)
{
	__u32 *words = (void *)ip;
	__u32 first = bpf_htonl(0x45000000 | traffic_class << 16 | bytes), second = bpf_htonl(0x4000);
	__u32 third = bpf_htonl(ANSWER_HOPS << 24 | protocol << 16);
	__u32 sum = checksum_word(first) + checksum_word(second) + checksum_word(third) + checksum_word(source) +
		    checksum_word(destination);

	words[0] = first;
	words[1] = second;	/* don't fragment: then the identification may be 0 (RFC 6864) */
	words[2] = third | (__u32)checksum_fold(sum) << 16;
	words[3] = source;
	words[4] = destination;
}

static __always_inline void write_ipv6(struct ipv6 *ip, __u32 payload_bytes, __u32 protocol, const __be32 *source,
				       const __be32 *destination)
{
	__u32 *words = (void *)ip;

	words[0] = bpf_htonl(0x60000000);
	words[1] = bpf_htonl(payload_bytes << 16 | protocol << 8 | ANSWER_HOPS);
	for (int i = 0; i < 4; i++) {
		ip->source[i] = source[i];
		ip->destination[i] = destination[i];
	}
}

/* The pseudo header of both versions is the same but for the addresses' length (RFC 8200 section 8.1). An IPv4 address is
 * the first of four words; the others are 0 and add nothing. */
static __always_inline __u32 pseudo_sum(const __be32 *source, const __be32 *destination, __u32 protocol, __u32 bytes)
{
	__u32 sum = bpf_htons(protocol) + bpf_htons(bytes);

	for (int i = 0; i < 4; i++)
		sum += checksum_word(source[i]) + checksum_word(destination[i]);
	return sum;
}

#endif
