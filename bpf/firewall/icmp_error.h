/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * ICMP and ICMPv6 errors about the packet in hand (RFC 792, RFC 1812 section 4.3, RFC 4443), from the firewall's own address
 * on the interface where it came in.
 */
#ifndef RAMPART_FIREWALL_ICMP_ERROR_H
#define RAMPART_FIREWALL_ICMP_ERROR_H

#include "answer.h"

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

static __always_inline int write_error_v4(struct answer_room *room, const struct own_addresses *own, __u32 quote,
					  enum icmp_error error, __u32 mtu)
{
	const struct ipv4 *from = (void *)room->quote;

	if (!own->v4)
		return -1;
	write_ipv4((void *)room->head + HEAD_BYTES - ICMP_BYTES - IPV4_BYTES, 0xc0, IPV4_BYTES + ICMP_BYTES + quote,
		   PROTOCOL_ICMP, own->v4, from->source);
	write_icmp(room, quote, icmp_v4_code(error), error == ERROR_TOO_BIG ? bpf_htonl(mtu & 0xffff) : 0, 0);
	return 0;
}

static __always_inline int write_error_v6(struct answer_room *room, const struct own_addresses *own, __u32 quote,
					  enum icmp_error error, __u32 mtu)
{
	const struct ipv6 *from = (void *)room->quote;

	if (!own->v6[0] && !own->v6[3])
		return -1;
	write_ipv6((void *)room->head + HEAD_BYTES - ICMP_BYTES - IPV6_BYTES, ICMP_BYTES + quote, PROTOCOL_ICMPV6,
		   own->v6, from->source);
	write_icmp(room, quote, icmp_v6_code(error), error == ERROR_TOO_BIG ? bpf_htonl(mtu) : 0,
		   pseudo_sum(own->v6, from->source, 4, PROTOCOL_ICMPV6, ICMP_BYTES + quote));
	return 0;
}

/* Makes the frame in hand the error about it. Returns the action; drops what is not to be answered. `mtu` is for
 * ERROR_TOO_BIG alone. */
static __always_inline int answer_error(void *context, enum hook hook, const struct layers *layers,
					enum icmp_error error, __u32 mtu)
{
	__u32 headers = (layers->ip_version == 4 ? IPV4_BYTES : IPV6_BYTES) + ICMP_BYTES;
	__u32 start = (HEAD_BYTES - headers - layers->network) & 0x7f;
	__u32 ingress = hook_ingress(context, hook), quote;
	struct answer_room *room = answer_room();
	const struct own_addresses *own;
	int action = -1;

	if (!room || !answer_allowed(room, CLASS_ERROR))
		return hook_drop(hook);
	quote = answer_begin(context, hook, layers, room, start);
	if (!quote)
		return hook_drop(hook);
	own = bpf_map_lookup_elem(&own_addresses, &ingress);
	if (own && !(layers->ip_version == 4 ? write_error_v4(room, own, quote, error, mtu)
					      : write_error_v6(room, own, quote, error, mtu)))
		action = answer_send(context, hook, room, start, layers->network + headers + quote);
	return answer_done(room, hook, CLASS_ERROR, action);
}

#endif
