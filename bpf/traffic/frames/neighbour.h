/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Neighbours of a port. Between two cards, the box under test asks who has the addresses of the test's hosts (ARP,
 * RFC 826; neighbour discovery, RFC 4861): the port answers for all hosts of its zone, with its own Ethernet address,
 * and never for a gateway's address. And user space asks who has the gateway's: the sink notes the answer.
 *
 * An answer is written into the question and redirected to where it came from: XDP_TX is lost on a virtual link whose
 * other end has no XDP program.
 */
#ifndef RAMPART_TRAFFIC_FRAMES_NEIGHBOUR_H
#define RAMPART_TRAFFIC_FRAMES_NEIGHBOUR_H

#include "../../net/checksum.h"
#include "../../net/headers.h"
#include "state.h"

#define ARP_REQUEST 1
#define ARP_REPLY 2
#define NEIGHBOUR_SOLICITATION 135
#define NEIGHBOUR_ADVERTISEMENT 136
#define TARGET_ADDRESS_OPTION 2
#define SOLICITED_OVERRIDE 0x60000000
/* Hosts of the test: crates/traffic/src/frames/flows.rs. Lower numbers are gateways, but for the zone's own end. */
#define HOST_MASK 0x7fffU
#define FIRST_HOST 256
#define OWN_HOST 2

struct arp {
	__be16 hardware;
	__be16 protocol;
	__u8 hardware_bytes;
	__u8 protocol_bytes;
	__be16 operation;
	__u8 sender_mac[6];
	__u8 sender[4];
	__u8 target_mac[6];
	__u8 target[4];
};

/* Solicitation and advertisement; the option may be missing. */
struct discovery {
	__u8 type;
	__u8 code;
	__u16 check;
	__be32 flags;
	__be32 target[4];
	__u8 option;
	__u8 option_words;
	__u8 mac[6];
};

#define DISCOVERY_BYTES 32
#define DISCOVERY_OPTION_BYTES 8
#define DISCOVERY_FRAME_BYTES (ETHERNET_BYTES + IPV6_BYTES + DISCOVERY_BYTES)

_Static_assert(sizeof(struct arp) == 28, "ARP for IPv4 over Ethernet");
_Static_assert(sizeof(struct discovery) == DISCOVERY_BYTES, "neighbour discovery");

static __always_inline bool is_own_host(__u32 host)
{
	return host == OWN_HOST || (host >= FIRST_HOST && host <= HOST_MASK);
}

/* Who has an address, and who is asked next. */
struct owner {
	__u32 ifindex;
	__u32 v4_prefix;
	__be32 v6_prefix[3];
	bool is_v6;
	__u32 slot;	/* MAX_PORTS: nobody */
};

static long ask_port(__u32 slot, struct owner *owner)
{
	const struct identity *port = &identities[slot & (MAX_PORTS - 1)];
	bool is_owner = owner->is_v6 ? port->v6_prefix[0] == owner->v6_prefix[0] && port->v6_prefix[1] == owner->v6_prefix[1] &&
					       port->v6_prefix[2] == owner->v6_prefix[2] :
				       port->v4_prefix == owner->v4_prefix;

	if (port->ifindex != owner->ifindex || !is_owner)
		return 0;
	owner->slot = slot;
	return 1;
}

/*
 * The port of this interface whose zone has an address, or NULL. The number alone does not tell the port, because
 * interfaces of several namespaces may share one; the zone's prefix does. bpf_loop(), because the verifier would go on once for each port.
 */
static __always_inline const struct identity *owner_of(struct owner *owner, __u32 host)
{
	if (!is_own_host(host))
		return NULL;
	owner->slot = MAX_PORTS;
	bpf_loop(MAX_PORTS, ask_port, owner, 0);
	return owner->slot < MAX_PORTS ? &identities[owner->slot & (MAX_PORTS - 1)] : NULL;
}

static __always_inline const struct identity *owner_v4(__u32 ifindex, __u32 address)
{
	struct owner owner = { .ifindex = ifindex, .v4_prefix = address & ~HOST_MASK };

	return owner_of(&owner, address & HOST_MASK);
}

static __always_inline const struct identity *owner_v6(__u32 ifindex, const __be32 *address)
{
	struct owner owner = { .ifindex = ifindex, .v6_prefix = { address[0], address[1], address[2] }, .is_v6 = true };

	return owner_of(&owner, bpf_ntohl(address[3]));
}

/* Keeps the answer to what user space asked, if this is it. The flag last: then the address is whole. */
static __always_inline void note_answer(__u32 ifindex, const __be32 address[4], const __u8 *mac)
{
	if (question.ifindex != ifindex || question.address[0] != address[0] || question.address[1] != address[1] ||
	    question.address[2] != address[2] || question.address[3] != address[3])
		return;
	__builtin_memcpy(question.mac, mac, 6);
	__sync_fetch_and_add(&question.answers, 1);
}

static __always_inline int receive_arp(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethernet *eth = data;
	struct arp *arp = (void *)(eth + 1);
	const struct identity *port;
	__be32 address[4] = { 0 };
	__u8 asked[4];

	if ((void *)(arp + 1) > end || arp->hardware != bpf_htons(1) || arp->protocol != bpf_htons(ETHERTYPE_IPV4) ||
	    arp->hardware_bytes != 6 || arp->protocol_bytes != 4)
		return XDP_PASS;
	if (arp->operation == bpf_htons(ARP_REPLY)) {
		__builtin_memcpy(address, arp->sender, 4);
		note_answer(ctx->ingress_ifindex, address, arp->sender_mac);
		return XDP_PASS;
	}
	if (arp->operation != bpf_htons(ARP_REQUEST) || !control.answer_neighbours)
		return XDP_PASS;
	__builtin_memcpy(address, arp->target, 4);
	port = owner_v4(ctx->ingress_ifindex, bpf_ntohl(address[0]));
	if (!port)
		return XDP_PASS;
	__builtin_memcpy(asked, arp->target, 4);
	__builtin_memcpy(arp->target, arp->sender, 4);
	__builtin_memcpy(arp->target_mac, arp->sender_mac, 6);
	__builtin_memcpy(arp->sender, asked, 4);
	__builtin_memcpy(arp->sender_mac, port->mac, 6);
	arp->operation = bpf_htons(ARP_REPLY);
	__builtin_memcpy(eth->destination, arp->target_mac, 6);
	__builtin_memcpy(eth->source, port->mac, 6);
	return bpf_redirect(ctx->ingress_ifindex, 0);
}

/* Writes the advertisement of `target` to `asker` over the frame, whose Ethernet source becomes the destination. */
static __always_inline int advertise(struct xdp_md *ctx, const struct identity *port, const __be32 target[4],
				     const __be32 asker[4])
{
	struct discovery *message;
	struct ethernet *eth;
	struct ipv6 *ip;
	void *end;
	__s64 sum;

	if (bpf_xdp_adjust_tail(ctx, DISCOVERY_FRAME_BYTES - (int)bpf_xdp_get_buff_len(ctx)))
		return XDP_DROP;
	eth = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	ip = (void *)(eth + 1);
	message = (void *)(ip + 1);
	if ((void *)(message + 1) > end)
		return XDP_DROP;
	__builtin_memcpy(eth->destination, eth->source, 6);
	__builtin_memcpy(eth->source, port->mac, 6);
	ip->version_class_flow = bpf_htonl(0x60000000);
	ip->payload_bytes = bpf_htons(DISCOVERY_BYTES);
	ip->next_header = PROTOCOL_ICMPV6;
	ip->hop_limit = 255;
	message->type = NEIGHBOUR_ADVERTISEMENT;
	message->code = 0;
	message->check = 0;
	message->flags = bpf_htonl(SOLICITED_OVERRIDE);
	message->option = TARGET_ADDRESS_OPTION;
	message->option_words = 1;
	__builtin_memcpy(message->mac, port->mac, 6);
	for (int i = 0; i < 4; i++) {
		ip->source[i] = target[i];
		ip->destination[i] = asker[i];
		message->target[i] = target[i];
	}
	/* Both addresses and the message lie side by side; length and protocol complete the pseudo header. */
	sum = bpf_csum_diff(0, 0, ip->source, 32 + DISCOVERY_BYTES, 0);
	if (sum < 0)
		return XDP_DROP;
	message->check =
		checksum_fold(checksum_word(sum) + bpf_htons(DISCOVERY_BYTES) + bpf_htons(PROTOCOL_ICMPV6));
	return bpf_redirect(ctx->ingress_ifindex, 0);
}

static __always_inline int receive_discovery(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethernet *eth = data;
	struct ipv6 *ip = (void *)(eth + 1);
	struct discovery *message = (void *)(ip + 1);
	const struct identity *port;
	__be32 target[4], asker[4];
	__u8 mac[6];

	/* RFC 4861 section 7.1: anything that a router has forwarded is not from a neighbour. */
	if ((void *)message + DISCOVERY_BYTES - DISCOVERY_OPTION_BYTES > end || ip->next_header != PROTOCOL_ICMPV6 ||
	    ip->hop_limit != 255 || message->code != 0)
		return XDP_PASS;
	for (int i = 0; i < 4; i++) {
		target[i] = message->target[i];
		asker[i] = ip->source[i];
	}
	if (message->type == NEIGHBOUR_ADVERTISEMENT) {
		__builtin_memcpy(mac, eth->source, 6);
		if ((void *)(message + 1) <= end && message->option == TARGET_ADDRESS_OPTION)
			__builtin_memcpy(mac, message->mac, 6);
		note_answer(ctx->ingress_ifindex, target, mac);
		return XDP_PASS;
	}
	if (message->type != NEIGHBOUR_SOLICITATION || !control.answer_neighbours)
		return XDP_PASS;
	/* From the unspecified address somebody asks whether an address is free (RFC 4862); nobody else may take ours. */
	port = owner_v6(ctx->ingress_ifindex, target);
	if (!port || !(asker[0] | asker[1] | asker[2] | asker[3]))
		return XDP_PASS;
	return advertise(ctx, port, target, asker);
}

/* A frame that is none of the test's. */
static __noinline int receive_neighbour(struct xdp_md *ctx)
{
	struct ethernet *eth = (void *)(long)ctx->data;

	if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
		return XDP_PASS;
	if (eth->type == bpf_htons(ETHERTYPE_ARP))
		return receive_arp(ctx);
	if (eth->type == bpf_htons(ETHERTYPE_IPV6))
		return receive_discovery(ctx);
	return XDP_PASS;
}

#endif
