/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * ICMP and ICMPv6 errors about the packet in hand (RFC 792, RFC 1812 section 4.3, RFC 4443), from the firewall's own address
 * on the interface where it came in. A bridge has no address and answers by that of the host that the packet was for; so does the firewall to its own
 * programs, because a kernel takes nothing that comes in with an address of its own.
 */
#ifndef RAMPART_FIREWALL_ICMP_ERROR_H
#define RAMPART_FIREWALL_ICMP_ERROR_H

#include "answer.h"
#include "bridge.h"

/* What is said, in either version's numbers. */
enum icmp_error {
	ERROR_NO_ROUTE,
	ERROR_HOST,
	ERROR_PORT,
	ERROR_PROHIBITED,
	ERROR_TOO_BIG,	/* with the MTU of the next hop */
	ERROR_EXPIRED,
};

/* Type and code, as the two bytes that begin the message. */
static __always_inline __u32 icmp_v4_code(enum icmp_error error)
{
	switch (error) {
	case ERROR_NO_ROUTE:
		return 0x0300;
	case ERROR_HOST:
		return 0x0301;
	case ERROR_PORT:
		return 0x0303;
	case ERROR_PROHIBITED:
		return 0x030d;	/* RFC 1812 section 5.2.7.1 */
	case ERROR_TOO_BIG:
		return 0x0304;
	default:
		return 0x0b00;
	}
}

static __always_inline __u32 icmp_v6_code(enum icmp_error error)
{
	switch (error) {
	case ERROR_NO_ROUTE:
		return 0x0100;
	case ERROR_HOST:
		return 0x0103;
	case ERROR_PORT:
		return 0x0104;
	case ERROR_PROHIBITED:
		return 0x0101;
	case ERROR_TOO_BIG:
		return 0x0200;
	default:
		return 0x0300;
	}
}

/* Adds the quote to a sum. */
static __always_inline __u32 quote_sum(const struct answer_room *room, __u32 bytes, __u32 sum)
{
	__u32 done = 0;

	for (int i = 0; i < CHECKSUM_CHUNKS; i++) {
		__u32 left = bytes - done, chunk = left < CHECKSUM_CHUNK ? left : CHECKSUM_CHUNK;

		barrier_var(chunk);
		if (done >= bytes || chunk > CHECKSUM_CHUNK)
			break;
		sum = bpf_csum_diff(0, 0, (__be32 *)(room->quote + i * CHECKSUM_CHUNK), chunk & ~3U, sum);
		done += chunk;
	}
	return sum;
}

/* Two words before the quote. `sum` is of the pseudo header, if there is one. */
static __always_inline void write_icmp(struct answer_room *room, __u32 quote, __u32 code, __be32 rest, __u32 sum)
{
	__u32 *words = (void *)room->head + HEAD_BYTES - ICMP_BYTES;
	__u64 total = (__u64)quote_sum(room, quote, 0) + sum + checksum_word(rest) + bpf_htons(code);

	total = (total & 0xffffffff) + (total >> 32);
	words[0] = bpf_htons(code) | (__u32)checksum_fold(checksum_word(total)) << 16;
	words[1] = rest;
}

static __always_inline int write_error_v4(struct answer_room *room, const struct packet *p, __be32 own, __u32 quote,
					  enum icmp_error error, __u32 mtu)
{
	if (!own)
		return -1;
	/* The traffic class of network control: RFC 1812 section 4.3.2.5. */
	write_ipv4((void *)room->head + HEAD_BYTES - ICMP_BYTES - IPV4_BYTES, 0xc0, IPV4_BYTES + ICMP_BYTES + quote,
		   PROTOCOL_ICMP, own, p->source[0]);
	write_icmp(room, quote, icmp_v4_code(error), error == ERROR_TOO_BIG ? bpf_htonl(mtu & 0xffff) : 0, 0);
	return 0;
}

static __always_inline int write_error_v6(struct answer_room *room, const struct packet *p, const __be32 *own, __u32 quote,
					  enum icmp_error error, __u32 mtu)
{
	if (!own[0])
		return -1;
	write_ipv6((void *)room->head + HEAD_BYTES - ICMP_BYTES - IPV6_BYTES, ICMP_BYTES + quote, PROTOCOL_ICMPV6, own,
		   p->source);
	write_icmp(room, quote, icmp_v6_code(error), error == ERROR_TOO_BIG ? bpf_htonl(mtu) : 0,
		   pseudo_sum(own, p->source, PROTOCOL_ICMPV6, ICMP_BYTES + quote));
	return 0;
}

static __always_inline enum answered send_error(void *ctx, struct packet *p, enum hook hook, struct answer_room *room,
						enum icmp_error error, __u32 mtu)
{
	__u32 headers = (p->family == 4 ? IPV4_BYTES : IPV6_BYTES) + ICMP_BYTES;
	__u32 start = (HEAD_BYTES - headers - p->network) & 0x7f;
	const struct own_addresses *found = lookup(&own_addresses, p->ifindex);
	__u32 quote = answer_begin(ctx, p, hook, room, start);
	struct own_addresses own = {};

	if (!quote)
		return ANSWER_FORBIDDEN;
	if (across(p) || p->flags & PACKET_FROM_SELF) {
		own.v4 = p->destination[0];
		for (int i = 0; i < 4; i++)
			own.v6[i] = p->destination[i];
	} else if (found) {
		own = *found;
	}
	if (p->family == 4 ? write_error_v4(room, p, own.v4, quote, error, mtu)
			   : write_error_v6(room, p, own.v6, quote, error, mtu))
		return ANSWER_FAILED;
	return answer_send(ctx, p, hook, room, start, p->network + headers + quote);
}

static __always_inline enum verdict answer_icmp_now(void *ctx, struct packet *p, enum hook hook, enum reason reason,
						    enum icmp_error error, __u32 mtu)
{
	struct answer_room *room = answer_room();
	enum answered answered = ANSWER_LIMITED;

	if (!room)
		return drop(p, reason);
	if (answer_allowed(room, CLASS_ERROR))
		answered = send_error(ctx, p, hook, room, error, mtu);
	return answer_done(p, room, CLASS_ERROR, reason, answered);
}

/* Neither inlined nor static: there is one in a program, however many stages answer, and the verifier looks at it once. */
__noinline int answer_icmp_xdp(struct xdp_md *ctx, struct packet *p, __u32 reason, __u32 error, __u32 mtu)
{
	return p ? answer_icmp_now(ctx, p, HOOK_XDP, reason, error, mtu) : VERDICT_DROP;
}

__noinline int answer_icmp_tc(struct __sk_buff *ctx, struct packet *p, __u32 reason, __u32 error, __u32 mtu)
{
	return p ? answer_icmp_now(ctx, p, HOOK_TC, reason, error, mtu) : VERDICT_DROP;
}

/* Answers a packet with the error about it, which counts as dropped for `reason`. `mtu` is for ERROR_TOO_BIG alone. */
static __always_inline enum verdict answer_icmp(void *ctx, struct packet *p, enum hook hook, enum reason reason,
						enum icmp_error error, __u32 mtu)
{
	return hook == HOOK_XDP ? answer_icmp_xdp(ctx, p, reason, error, mtu)
				: answer_icmp_tc(ctx, p, reason, error, mtu);
}

#endif
