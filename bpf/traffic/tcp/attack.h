/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Floods: frames of their own at a rate of their own, sent from the client's port in turns with the starts. What of them
 * arrives is counted and, but for SYN, not answered. The connections' counters never see them.
 */
#ifndef RAMPART_TRAFFIC_TCP_ATTACK_H
#define RAMPART_TRAFFIC_TCP_ATTACK_H

#include "beside.h"

#define UDP_FLOOD_BYTES 26	/* UDP header and payload: a frame of 60 bytes in IPv4 */
#define FLOOD_FRAGMENT_BYTES 32	/* of the datagram; a multiple of 8 */
#define FRAGMENTED_BYTES 1480	/* of the whole datagram, which is never completed */

static __always_inline __u64 read_schedule_clock(struct tcp_core *core);

/* Behind the IP header: a UDP header and zeros, in whole words. `words` is a constant. */
static __always_inline int write_udp(void *at, void *end, const struct segment *segment, __u16 datagram_bytes,
				     __u32 sum, __u32 words)
{
	struct udp *udp = at;
	__u16 *zeros = (void *)(udp + 1);
	__be16 bytes = bpf_htons(datagram_bytes);
	__u16 check;

	if ((void *)(udp + 1) > end || (void *)(zeros + words) > end)
		return -1;
	udp->source = segment->source_port;
	udp->destination = segment->destination_port;
	udp->bytes = bytes;
	check = checksum_fold(sum + segment->source_port + segment->destination_port + bytes + bytes +
			      bpf_htons(PROTOCOL_UDP));
	udp->check = check ? check : 0xffff;
	for (__u32 i = 0; i < words; i++)
		zeros[i] = 0;
	return 0;
}

/* An IPv6 fragment header: the first fragment, more to come. */
static __always_inline int write_fragment_header(void *at, void *end, __u32 id)
{
	__be32 *words = at;

	if ((void *)(words + 2) > end)
		return -1;
	words[0] = bpf_htonl(PROTOCOL_UDP << 24 | 1);
	words[1] = bpf_htonl(id);
	return 0;
}

static __noinline int write_udp_flood(struct xdp_md *ctx, const struct segment *segment)
{
	__u32 ip_bytes = ip_header_bytes();
	void *data, *end;

	if (!segment || prepare_frame(ctx, segment, ETHERNET_BYTES + ip_bytes + UDP_FLOOD_BYTES))
		return -1;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (control.ip_version == 4)
		return write_ipv4(data, end, segment, PROTOCOL_UDP, UDP_FLOOD_BYTES, 0) ||
		       write_udp(data + ETHERNET_BYTES + IPV4_BYTES, end, segment, UDP_FLOOD_BYTES,
				 address_sum(segment, 1), (UDP_FLOOD_BYTES - UDP_BYTES) / 2);
	return write_ipv6(data, end, segment, PROTOCOL_UDP, UDP_FLOOD_BYTES) ||
	       write_udp(data + ETHERNET_BYTES + IPV6_BYTES, end, segment, UDP_FLOOD_BYTES, address_sum(segment, 4),
			 (UDP_FLOOD_BYTES - UDP_BYTES) / 2);
}

static __noinline int write_fragment(struct xdp_md *ctx, const struct segment *segment)
{
	__u32 ip_bytes = control.ip_version == 4 ? IPV4_BYTES : IPV6_BYTES + FRAGMENT_BYTES;
	void *data, *end;

	if (!segment || prepare_frame(ctx, segment, ETHERNET_BYTES + ip_bytes + FLOOD_FRAGMENT_BYTES))
		return -1;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (control.ip_version == 4)
		return write_ipv4(data, end, segment, PROTOCOL_UDP, FLOOD_FRAGMENT_BYTES, 0x2000) ||
		       write_udp(data + ETHERNET_BYTES + IPV4_BYTES, end, segment, FRAGMENTED_BYTES,
				 address_sum(segment, 1), (FLOOD_FRAGMENT_BYTES - UDP_BYTES) / 2);
	return write_ipv6(data, end, segment, PROTOCOL_FRAGMENT, FRAGMENT_BYTES + FLOOD_FRAGMENT_BYTES) ||
	       write_fragment_header(data + ETHERNET_BYTES + IPV6_BYTES, end, segment->sequence) ||
	       write_udp(data + ETHERNET_BYTES + IPV6_BYTES + FRAGMENT_BYTES, end, segment, FRAGMENTED_BYTES,
			 address_sum(segment, 4), (FLOOD_FRAGMENT_BYTES - UDP_BYTES) / 2);
}

static __always_inline __u8 attack_flags(void)
{
	switch (beside.attack) {
	case ATTACK_SYN: return TCP_SYN;
	case ATTACK_SYN_ACK: return TCP_SYN | TCP_ACK;
	case ATTACK_ACK: return TCP_ACK;
	default: return TCP_RST;
	}
}

/* Whether a frame of the flood is due, and the starts, when one of them is due too, had the last turn. */
static __always_inline bool attack_is_due(struct tcp_core *core, struct beside_core *own, bool start_due)
{
	if (!beside.attack_interval || own->attack_finished)
		return false;
	/* Without a start to wait for, nobody else reads the clock. */
	if (own->attack_due >= core->now && (core->finished || control.unpaced))
		read_schedule_clock(core);
	if (core->now >= beside.attack_last || own->attack_due >= beside.attack_end) {
		own->attack_finished = core->now | 1;
		return false;
	}
	if (own->attack_due >= core->now)
		return false;
	own->attack_turn ^= 1;
	return !start_due || own->attack_turn;
}

/* Sends a frame of the flood. `segment` has the stamp alone. */
static __noinline int attack(struct xdp_md *ctx, struct beside_core *own, struct segment *segment)
{
	__u32 source, failed;

	if (!own || !segment)
		return XDP_ABORTED;
	own->attack_due += beside.attack_interval;
	own->attack_sent++;
	source = draw_below(own, beside.attack_sources);
	to_any_server(own, segment);
	from_outside(segment, bpf_htonl(ATTACKERS_V4 + source), ATTACKERS_V6_0, ATTACKERS_V6_1, source);
	segment->source_port = bpf_htons(1024 + draw_below(own, 64512));
	say_alone(segment, attack_flags(), draw(own), MARK_ATTACK);
	if (beside.attack == ATTACK_UDP)
		failed = write_udp_flood(ctx, segment);
	else if (beside.attack == ATTACK_FRAGMENT)
		failed = write_fragment(ctx, segment);
	else
		return send_new(ctx, segment, control.client_port);
	return failed ? XDP_ABORTED : bpf_redirect_map(&ports, control.client_port, 0);
}

#endif
