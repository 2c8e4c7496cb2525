/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Answers where the kernel forwards. A program that netfilter asks can neither write a packet nor send one, so what is refused with an
 * answer goes into a ring, and a thread of the daemon (crates/dataplane/src/refused.rs) runs answer_refused() on it: the same answer as at
 * the other hooks, by the same code, back to the Ethernet address and the interface that the packet came from. It passes neither routes nor
 * netfilter. To this machine's own programs it comes in by the loopback interface.
 *
 * Only so many go into the ring as may be answered, all cores together: what is beyond that is dropped in silence, and counted. The same
 * holds while no daemon says that it is there.
 *
 * The answer comes from the address that was asked. If the kernel has translated that, it is found in its record of the connection; where
 * this kernel does not say how to read that record (the module came after the firewall), what it follows is not answered.
 */
#ifndef RAMPART_FIREWALL_REFUSED_H
#define RAMPART_FIREWALL_REFUSED_H

#include "netfilter.h"
#include "reject.h"
#include "tracked.h"
#include "translate.h"

#define REFUSED_ROOM (1 << 20)	/* bytes of the ring: 700 packets */
#define REFUSED_TRIES 8
#define ETHERNET_DEVICE 1	/* ARPHRD_ETHER of linux/if_arp.h */
#define OF_VRF_V4 128	/* IPSKB_L3SLAVE and IP6SKB_L3SLAVE of net/ip.h and linux/ipv6.h: the packet came into a VRF */
#define OF_VRF_V6 64

struct ethhdr {
	unsigned char h_dest[6];
	unsigned char h_source[6];
} __attribute__((preserve_access_index));

_Static_assert(sizeof(struct packet) == PACKET_BYTES, "user space carries a packet as bytes");
_Static_assert(ETHERNET_BYTES + MAX_QUOTE_V6 <= REFUSED_BYTES, "room for the longest quote");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, REFUSED_ROOM);
} refused_packets SEC(".maps");

/* Tick until which user space answers. It moves it on about once a second. */
__u64 refused_until;

/* When the budget of each class of answers is full again, in nanoseconds: as answer_room.next_ns, but of all cores. */
__u64 refused_due[2];

static __always_inline bool may_hand(enum answer_class class)
{
	const struct forwarding *limits = forwarding_now();
	__u64 at = bpf_ktime_get_ns();

	for (int i = 0; limits && i < REFUSED_TRIES; i++) {
		__u64 old = READ_ONCE(refused_due[class]), due = old > at ? old : at;

		if (due - at > limits->answer_burst[class])
			return false;
		if (__sync_val_compare_and_swap(&refused_due[class], old, due + limits->answer_interval[class]) == old)
			return true;
	}
	return false;
}

/* Puts the destination that its sender wrote in the place of what the kernel made of it. */
static __always_inline bool find_asked(struct bpf_nf_ctx *ctx, struct packet *p)
{
	unsigned long tracked = ctx->skb->_nfct;
	const struct nf_conn *record = (const void *)(tracked & ~TRACKED_HOW);
	const struct nf_conntrack_tuple_hash *way;
	int answer = (tracked & TRACKED_HOW) >= TRACKED_ANSWER;

	if (!record)
		return true;
	if (!bpf_core_field_exists(struct nf_conn, tuplehash))
		return false;
	way = answer ? &record->tuplehash[1] : &record->tuplehash[0];
	if (bpf_core_read(p->destination, p->family == 4 ? 4 : 16, &way->tuple.dst.u3))
		return false;
	if (p->protocol != PROTOCOL_TCP && p->protocol != PROTOCOL_UDP)
		return true;
	return !bpf_core_read(&p->destination_port, sizeof(p->destination_port), &way->tuple.dst.u.all);
}

/* The interface that a packet came in by. Netfilter is asked in the name of the VRF that it belongs to, and that would send the answer as one of this
 * machine's own. */
static __always_inline __u32 came_in_by(struct bpf_nf_ctx *ctx, const struct packet *p)
{
	const struct inet6_skb_parm *v6 = (const void *)ctx->skb->cb;
	const struct inet_skb_parm *v4 = (const void *)ctx->skb->cb;
	__u32 by = 0;
	__u16 flags = 0;

	if (p->family == 4) {
		bpf_core_read(&flags, sizeof(flags), &v4->flags);
		if (flags & OF_VRF_V4)
			bpf_core_read(&by, sizeof(by), &v4->iif);
	} else if (bpf_core_field_exists(struct inet6_skb_parm, iif)) {
		bpf_core_read(&flags, sizeof(flags), &v6->flags);
		if (flags & OF_VRF_V6)
			bpf_core_read(&by, sizeof(by), &v6->iif);
	}
	return by ? by : p->ifindex;
}

/* The addresses of the frame that the packet came in; of a link without any, zeros, which it takes off again. */
static __always_inline void fill_ethernet(struct bpf_nf_ctx *ctx, const struct packet *p, struct refused_packet *to)
{
	struct ethernet *ethernet = (void *)to->frame;
	struct ethhdr *from;

	__builtin_memset(ethernet, 0, sizeof(*ethernet));
	ethernet->type = bpf_htons(p->family == 4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
	/* A VRF says that it is Ethernet, and what came into it may be of any link. */
	if (p->flags & PACKET_FROM_SELF || ctx->state->in->type != ETHERNET_DEVICE || ctx->skb->network_header - ctx->skb->mac_header < ETHERNET_BYTES)
		return;
	from = bpf_rdonly_cast(ctx->skb->head + ctx->skb->mac_header, bpf_core_type_id_kernel(struct ethhdr));
	for (int i = 0; i < 6; i++) {
		to->frame[i] = from->h_dest[i];
		to->frame[6 + i] = from->h_source[i];
	}
}

/* Gives a packet that is refused to user space, which has it answered. */
__noinline int hand_refused(struct bpf_nf_ctx *ctx, struct packet *p)
{
	enum answer_class class;
	struct refused_packet *to;
	struct bpf_dynptr skb;
	__u32 bytes, most;

	if (!p || p->flags & PACKET_LATER_FRAGMENT || whole_tick() >= READ_ONCE(refused_until))
		return 0;
	class = p->protocol == PROTOCOL_TCP ? CLASS_RESET : CLASS_ERROR;
	most = p->family == 4 ? MAX_QUOTE_V4 : MAX_QUOTE_V6;
	bytes = p->ip_bytes < most ? p->ip_bytes : most;
	barrier_var(bytes);
	if (!bytes || bytes > MAX_QUOTE_V6)
		return 0;
	to = may_hand(class) ? bpf_ringbuf_reserve(&refused_packets, sizeof(*to), 0) : 0;
	if (!to) {
		tally(TALLY_ANSWERS_SUPPRESSED, 1);
		return 0;
	}
	if (bpf_dynptr_from_skb((void *)ctx->skb, 0, &skb) ||
	    bpf_dynptr_read(to->frame + ETHERNET_BYTES, bytes, &skb, 0, 0) || !find_asked(ctx, p)) {
		bpf_ringbuf_discard(to, 0);
		return 0;
	}
	fill_ethernet(ctx, p, to);
	p->ifindex = came_in_by(ctx, p);
	to->time = bpf_ktime_get_ns();
	to->ifindex = p->flags & PACKET_FROM_SELF ? LOOPBACK_IFINDEX : p->ifindex;
	to->bytes = ETHERNET_BYTES + bytes;
	p->network = ETHERNET_BYTES;
	p->transport += ETHERNET_BYTES;
	__builtin_memcpy(to->packet, p, sizeof(*p));
	bpf_ringbuf_submit(to, 0);
	return 1;
}

/* Writes the destination that was asked into the packet, as its sender did: the answer quotes it. */
static __always_inline int write_asked_v4(struct __sk_buff *ctx, const struct packet *p)
{
	struct frame f = frame_of(ctx, HOOK_TC);
	struct ipv4 *ip = bytes_at(&f, p->network, IPV4_BYTES);

	return ip ? change_addresses(&f, p->network, ip->source, p->destination[0]) : -1;
}

static __always_inline int write_asked_v6(struct __sk_buff *ctx, const struct packet *p)
{
	struct frame f = frame_of(ctx, HOOK_TC);
	struct ipv6 *ip = bytes_at(&f, p->network, IPV6_BYTES);

	if (!ip)
		return -1;
	for (int word = 0; word < 4; word++)
		ip->destination[word] = p->destination[word];
	return 0;
}

static __always_inline int write_asked(struct __sk_buff *ctx, const struct packet *p)
{
	struct frame f;
	__be16 *ports;

	if (p->family == 4 ? write_asked_v4(ctx, p) : write_asked_v6(ctx, p))
		return -1;
	if (p->protocol != PROTOCOL_TCP && p->protocol != PROTOCOL_UDP)
		return 0;
	f = frame_of(ctx, HOOK_TC);
	ports = bytes_at(&f, p->transport, 4);
	if (!ports)
		return -1;
	ports[1] = p->destination_port;
	return 0;
}

/* Run by user space: the frame with the packet as hand_refused() knew it behind. */
static __always_inline int answer_handed(struct __sk_buff *ctx)
{
	struct packet p;

	if (ctx->len <= sizeof(p) || bpf_skb_load_bytes(ctx, ctx->len - sizeof(p), &p, sizeof(p)))
		return TCX_DROP;
	p.frame_bytes = ctx->len - sizeof(p);
	if (write_asked(ctx, &p) || answer_reject(ctx, &p, HOOK_TC, REASON_NONE) != VERDICT_SENT)
		return TCX_DROP;
	return bpf_clone_redirect(ctx, ctx->ifindex, p.flags & PACKET_FROM_SELF ? BPF_F_INGRESS : 0) ? TCX_DROP : TCX_NEXT;
}

#endif
