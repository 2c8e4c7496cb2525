/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Refuses a TCP segment with the reset of RFC 9293 section 3.5.2, in the name of the host that it was for. */
#ifndef RAMPART_FIREWALL_RESET_H
#define RAMPART_FIREWALL_RESET_H

#include "answer.h"

/* Writes the reset for the packet; `sum` is of the pseudo header. Sequence numbers that the packet takes are its data, and
 * one each for SYN and FIN. */
static __always_inline void write_reset(struct tcp *to, const struct packet *p, const struct tcp *from, __u32 sum)
{
	__u32 next = p->sequence + p->data_bytes + !!(p->tcp_flags & TCP_SYN) + !!(p->tcp_flags & TCP_FIN);
	__u32 acknowledged = p->tcp_flags & TCP_ACK;
	__u32 flags = acknowledged ? TCP_RST : TCP_RST | TCP_ACK;
	__u32 *words = (void *)to;
	__u32 ports = from->destination | (__u32)from->source << 16;
	__u32 sequence = acknowledged ? bpf_htonl(p->acknowledgement) : 0;
	__u32 acknowledgement = acknowledged ? 0 : bpf_htonl(next);
	__u32 header = bpf_htonl(5U << 28 | flags << 16);	/* and a window of 0 */

	words[0] = ports;
	words[1] = sequence;
	words[2] = acknowledgement;
	words[3] = header;
	words[4] = checksum_fold(sum + checksum_word(ports) + checksum_word(sequence) +
				 checksum_word(acknowledgement) + checksum_word(header));
}

static __always_inline void write_reset_packet(struct answer_room *room, const struct packet *p)
{
	const struct tcp *from = (void *)room->quote + transport_in_quote(p);
	struct tcp *to = (void *)room->head + HEAD_BYTES - TCP_BYTES;

	if (p->family == 4)
		write_ipv4((void *)to - IPV4_BYTES, 0, IPV4_BYTES + TCP_BYTES, PROTOCOL_TCP, p->destination[0],
			   p->source[0]);
	else
		write_ipv6((void *)to - IPV6_BYTES, TCP_BYTES, PROTOCOL_TCP, p->destination, p->source);
	/* An IPv4 address is the first of four words, the others are 0 and add nothing. */
	write_reset(to, p, from, pseudo_sum(p->destination, p->source, PROTOCOL_TCP, TCP_BYTES));
}

/* Answers a TCP segment with the reset that refuses it. */
static __always_inline enum verdict answer_reset(void *ctx, struct packet *p, enum hook hook, enum reason reason)
{
	__u32 headers = (p->family == 4 ? IPV4_BYTES : IPV6_BYTES) + TCP_BYTES;
	__u32 start = (HEAD_BYTES - headers - p->network) & 0x7f;
	struct answer_room *room = answer_room();
	enum answered answered = ANSWER_LIMITED;

	if (!room)
		return drop(p, reason);
	if (answer_allowed(room, CLASS_RESET)) {
		answered = ANSWER_FORBIDDEN;
		if (answer_begin(ctx, p, hook, room, start)) {
			write_reset_packet(room, p);
			answered = answer_send(ctx, p, hook, room, start, p->network + headers);
		}
	}
	return answer_done(p, room, CLASS_RESET, reason, answered);
}

#endif
