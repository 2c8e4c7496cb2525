/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Refuses a TCP segment with the reset of RFC 9293 section 3.5.2, in the name of the host that it was for. */
#ifndef RAMPART_FIREWALL_RESET_H
#define RAMPART_FIREWALL_RESET_H

#include "answer.h"

/* Sequence numbers that a segment takes: its data, and one each for SYN and FIN. */
static __always_inline __u32 segment_length(const struct tcp *tcp, __u32 segment_bytes)
{
	return segment_bytes - (tcp->header_words >> 4) * 4 + !!(tcp->flags & TCP_SYN) + !!(tcp->flags & TCP_FIN);
}

/* Writes the reset for `from`, whose header and data have `segment_bytes`; `sum` is of the pseudo header. */
static __always_inline void write_reset(struct tcp *to, const struct tcp *from, __u32 segment_bytes, __u32 sum)
{
	__u32 next = bpf_ntohl(from->sequence) + segment_length(from, segment_bytes);
	__u32 acknowledged = from->flags & TCP_ACK;
	__u32 flags = acknowledged ? TCP_RST : TCP_RST | TCP_ACK;
	__u32 *words = (void *)to;
	__u32 ports = from->destination | (__u32)from->source << 16;
	__u32 sequence = acknowledged ? from->acknowledgement : 0, acknowledgement = acknowledged ? 0 : bpf_htonl(next);
	__u32 header = bpf_htonl(5U << 28 | flags << 16);	/* and a window of 0 */

	words[0] = ports;
	words[1] = sequence;
	words[2] = acknowledgement;
	words[3] = header;
	words[4] = checksum_fold(sum + checksum_word(ports) + checksum_word(sequence) +
				 checksum_word(acknowledgement) + checksum_word(header));
}

static __always_inline void write_reset_packet(struct answer_room *room, const struct layers *layers,
					       __u32 segment_bytes)
{
	__u32 transport = (layers->transport - layers->network) & 0x3ff;
	const struct tcp *from = (void *)room->quote + transport;
	struct tcp *to = (void *)room->head + HEAD_BYTES - TCP_BYTES;
	const struct ipv4 *v4 = (void *)room->quote;
	const struct ipv6 *v6 = (void *)room->quote;

	if (layers->ip_version == 4) {
		write_ipv4((void *)to - IPV4_BYTES, 0, IPV4_BYTES + TCP_BYTES, PROTOCOL_TCP, v4->destination,
			   v4->source);
		write_reset(to, from, segment_bytes,
			    pseudo_sum(&v4->destination, &v4->source, 1, PROTOCOL_TCP, TCP_BYTES));
	} else {
		write_ipv6((void *)to - IPV6_BYTES, TCP_BYTES, PROTOCOL_TCP, v6->destination, v6->source);
		write_reset(to, from, segment_bytes,
			    pseudo_sum(v6->destination, v6->source, 4, PROTOCOL_TCP, TCP_BYTES));
	}
}

/* Makes the frame in hand, a TCP segment, the reset that refuses it. Returns the action; drops what is not to be answered. */
static __always_inline int answer_reset(void *context, enum hook hook, const struct layers *layers)
{
	__u32 headers = (layers->ip_version == 4 ? IPV4_BYTES : IPV6_BYTES) + TCP_BYTES;
	__u32 start = (HEAD_BYTES - headers - layers->network) & 0x7f;
	__u32 packet_bytes = packet_bytes_of(context, hook, layers);
	struct answer_room *room = answer_room();

	if (!room || !answer_allowed(room, CLASS_RESET) || !answer_begin(context, hook, layers, room, start))
		return hook_drop(hook);
	write_reset_packet(room, layers, packet_bytes - (layers->transport - layers->network));
	return answer_done(room, hook, CLASS_RESET,
			   answer_send(context, hook, room, start, layers->network + headers));
}

#endif
