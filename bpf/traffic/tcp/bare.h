/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The stateless loop that the client and the server are measured against: SYN, SYN-ACK, ACK with request, answer of one
 * byte, RST, each made from the last with the least work that leaves valid packets. It keeps no connection, checks
 * nothing, retransmits nothing, reads no clock. IPv4 and the MSS option only.
 */
#ifndef RAMPART_TRAFFIC_TCP_BARE_H
#define RAMPART_TRAFFIC_TCP_BARE_H

#include "state.h"
#include "../../net/checksum.h"

#define BARE_HEADERS 54
#define BARE_REQUEST 18	/* "GET / HTTP/1.0\r\n\r\n" */
#define BARE_SYN_BYTES 58

#define BARE_EXCHANGE(a, b)     \
	do {                    \
		__u32 a_ = (a); \
		(a) = (b);      \
		(b) = a_;       \
	} while (0)

/* One core's share. `next` numbers its tuples. */
struct bare_tcp {
	__u64 opened;
	__u64 answered;
	__u32 next;
	__u32 pad;
} __attribute__((aligned(64)));

struct bare_tcp bare_tcp[MAX_CORES];

static __always_inline struct bare_tcp *bare_core(void)
{
	return &bare_tcp[this_core()];
}

/* IPv4 header but addresses, and the TCP header but ports and numbers, of a packet of `bytes`. `sum` covers the rest of the
 * TCP segment. Neither header has options here but a SYN's MSS, which `sum` covers too. */
static __always_inline void bare_finish(struct ipv4 *ip, struct tcp *tcp, __u16 bytes, __u8 words, __u8 flags,
					__u32 sum)
{
	__u32 addresses = checksum_word(ip->source) + checksum_word(ip->destination);
	__be16 ip_bytes = bpf_htons(bytes), tcp_bytes = bpf_htons(bytes - IPV4_BYTES);

	*(__u32 *)ip = (__u32)ip_bytes << 16 | 0x45;
	*((__u32 *)ip + 1) = bpf_htonl(0x4000);
	*((__u32 *)ip + 2) = bpf_htonl(64 << 24 | PROTOCOL_TCP << 16) |
			     (__u32)checksum_fold(addresses + bpf_htons(0x4500) + ip_bytes + bpf_htons(0x4000) +
						  bpf_htons(64 << 8 | PROTOCOL_TCP)) << 16;
	tcp->header_words = words << 4;
	tcp->flags = flags;
	tcp->window = 0xffff;
	tcp->urgent = 0;
	tcp->check = checksum_fold(sum + addresses + bpf_htons(PROTOCOL_TCP) + tcp_bytes +
				   (__u32)tcp->source + tcp->destination + checksum_word(tcp->sequence) +
				   checksum_word(tcp->acknowledgement) + bpf_htons(words << 12 | flags) + 0xffff);
}

static __always_inline int bare_open(struct xdp_md *ctx)
{
	struct bare_tcp *core = bare_core();
	__u32 slots = control.slots ? control.slots : 1, hosts = control.client.hosts ? control.client.hosts : 1;
	__u32 slot = core->next, bytes = (void *)(long)ctx->data_end - (void *)(long)ctx->data;
	struct ethernet *eth;
	struct ipv4 *ip;
	struct tcp *tcp;

	core->next = slot + 1 < slots ? slot + 1 : 0;
	if (bpf_xdp_adjust_tail(ctx, BARE_SYN_BYTES - (int)bytes))
		return XDP_ABORTED;
	eth = (void *)(long)ctx->data;
	ip = (void *)(eth + 1);
	tcp = (void *)(ip + 1);
	if ((void *)(tcp + 1) + 4 > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	__builtin_memcpy(eth->destination, control.next_hop_mac, 6);
	__builtin_memcpy(eth->source, control.client_mac, 6);
	eth->type = bpf_htons(ETHERTYPE_IPV4);
	ip->source = bpf_htonl(control.client.v4_first + slot % hosts);
	ip->destination = bpf_htonl(control.server.v4_first);
	tcp->source = bpf_htons(control.client.port_first + slot / hosts);
	tcp->destination = bpf_htons(control.server.port_first);
	tcp->sequence = bpf_htonl(slot);
	tcp->acknowledgement = 0;
	*(__be32 *)(tcp + 1) = bpf_htonl(0x020405b4);
	bare_finish(ip, tcp, BARE_SYN_BYTES - ETHERNET_BYTES, 6, TCP_SYN, bpf_htons(0x0204) + bpf_htons(0x05b4));
	core->opened++;
	return bpf_redirect_map(&ports, control.client_port, 0);
}

/* Turns the packet round into the next of the five. */
static __always_inline int bare_answer(struct xdp_md *ctx, int server)
{
	struct ethernet *eth = (void *)(long)ctx->data;
	struct ipv4 *ip = (void *)(eth + 1);
	struct tcp *tcp = (void *)(ip + 1);
	__u32 bytes = (void *)(long)ctx->data_end - (void *)eth, sequence, acknowledgement, wanted, address, sum = 0;
	__u16 *mac, swap[3], port;
	__u8 flags, words = 5;

	if ((void *)(tcp + 1) > (void *)(long)ctx->data_end || eth->type != bpf_htons(ETHERTYPE_IPV4) ||
	    ip->protocol != PROTOCOL_TCP)
		return XDP_PASS;
	flags = tcp->flags;
	if (flags & TCP_RST)
		return XDP_DROP;
	sequence = bpf_ntohl(tcp->sequence);
	acknowledgement = bpf_ntohl(tcp->acknowledgement);
	if (server && flags == TCP_SYN) {
		wanted = BARE_SYN_BYTES;
		words = 6;
		flags = TCP_SYN | TCP_ACK;
		acknowledgement = sequence + 1;
		sequence = 77;
		sum = bpf_htons(0x0204) + bpf_htons(0x05b4);
	} else if (server) {
		wanted = BARE_HEADERS + 1;
		flags = TCP_ACK | TCP_PSH;
		BARE_EXCHANGE(sequence, acknowledgement);
		acknowledgement += BARE_REQUEST;
		sum = bpf_htons('x' << 8);
	} else if (flags & TCP_SYN) {
		wanted = BARE_HEADERS + BARE_REQUEST;
		flags = TCP_ACK | TCP_PSH;
		BARE_EXCHANGE(sequence, acknowledgement);
		acknowledgement++;
		sum = request.sums[0];
	} else {
		bare_core()->answered++;
		wanted = BARE_HEADERS;
		flags = TCP_RST | TCP_ACK;
		BARE_EXCHANGE(sequence, acknowledgement);
		acknowledgement++;
	}
	if (wanted != bytes && bpf_xdp_adjust_tail(ctx, (int)wanted - (int)bytes))
		return XDP_ABORTED;
	eth = (void *)(long)ctx->data;
	ip = (void *)(eth + 1);
	tcp = (void *)(ip + 1);
	mac = (void *)eth;
	if ((void *)(tcp + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	__builtin_memcpy(swap, mac, 6);
	__builtin_memcpy(mac, mac + 3, 6);
	__builtin_memcpy(mac + 3, swap, 6);
	address = ip->source;
	ip->source = ip->destination;
	ip->destination = address;
	port = tcp->source;
	tcp->source = tcp->destination;
	tcp->destination = port;
	tcp->sequence = bpf_htonl(sequence);
	tcp->acknowledgement = bpf_htonl(acknowledgement);
	if (wanted == BARE_HEADERS + BARE_REQUEST) {
		if ((void *)(tcp + 1) + BARE_REQUEST > (void *)(long)ctx->data_end)
			return XDP_ABORTED;
		__builtin_memcpy(tcp + 1, request.data, BARE_REQUEST);
	} else if (wanted == BARE_HEADERS + 1) {
		if ((void *)(tcp + 1) + 1 > (void *)(long)ctx->data_end)
			return XDP_ABORTED;
		*(__u8 *)(tcp + 1) = 'x';
	}
	bare_finish(ip, tcp, wanted - ETHERNET_BYTES, words, flags, sum);
	return bpf_redirect(ctx->ingress_ifindex, 0);
}

#endif
