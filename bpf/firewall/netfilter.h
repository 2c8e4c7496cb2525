/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The third hook, for `forwarding = "kernel"`: the kernel forwards, translates and delivers, and asks here whether it may. The same
 * policy and the same flows as at the other hooks; docs/decisions/0032-the-kernel-forwards.md says why here.
 *
 * Packets are seen where their ends are the true ones: behind the translation of destinations and before that of sources,
 * and answers the other way round. So a translated connection has one pair of ends in both directions, and nothing of
 * translation has to be known. There is no Ethernet header any more, so a link needs none.
 *
 * The zones of both ends are those of the interfaces that the kernel has chosen; an interface of no zone is closed. What the machine
 * says to itself, over the loopback interface, is nobody's business.
 *
 * The kernel is described as far as it is read; where the fields lie, the running kernel says (CO-RE).
 */
#ifndef RAMPART_FIREWALL_NETFILTER_H
#define RAMPART_FIREWALL_NETFILTER_H

#include <linux/netfilter.h>
#include <bpf/bpf_core_read.h>
#include "core.h"

struct ns_common {
	unsigned int inum;
} __attribute__((preserve_access_index));

struct net {
	struct ns_common ns;
} __attribute__((preserve_access_index));

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	char name[INTERFACE_NAME_BYTES];
	int ifindex;
	unsigned short type;
	possible_net_t nd_net;
} __attribute__((preserve_access_index));

struct dst_entry {
	struct net_device *dev;
} __attribute__((preserve_access_index));

struct sk_buff {
	unsigned int len;
	__u8 ip_summed : 2;
	char cb[48];
	__u16 mac_header;
	__u16 network_header;
	unsigned char *head;
	unsigned long _nfct;
	unsigned long _skb_refdst;
} __attribute__((preserve_access_index));

/* What IPv4 and IPv6 keep in `cb` of a packet. */
struct inet_skb_parm {
	int iif;
	__u16 flags;
} __attribute__((preserve_access_index));

struct inet6_skb_parm {
	int iif;
	__u16 flags;
} __attribute__((preserve_access_index));

struct nf_hook_state {
	__u8 hook;
	__u8 pf;
	struct net_device *in;
	struct net_device *out;
} __attribute__((preserve_access_index));

struct bpf_nf_ctx {
	const struct nf_hook_state *state;
	struct sk_buff *skb;
} __attribute__((preserve_access_index));

extern int bpf_dynptr_from_skb(struct __sk_buff *skb, __u64 flags, struct bpf_dynptr *to) __ksym __weak;
extern void *bpf_rdonly_cast(const void *address, __u32 type) __ksym __weak;

#define TCP_FLAGS_AT 13	/* in a TCP header */
#define MOST_WAY_BACK_BYTES 96	/* that ask_way_back() looks at: link, longest IPv4 header, ports or flags */
#define SUMMED_UNNECESSARY 1	/* CHECKSUM_UNNECESSARY and CHECKSUM_PARTIAL of linux/skbuff.h */
#define SUMMED_PARTIAL 3
#define DST_NOT_COUNTED 1UL	/* SKB_DST_NOREF of linux/skbuff.h: the lowest bit of the address */

/* Tests run packets on the loopback interface, and say here which interfaces they stand for. */
__u32 held_ports[2];

/* Where a packet of this machine's own goes. Its state knows only where it would have gone before its destination was translated. */
static __always_inline __u32 way_out(struct bpf_nf_ctx *ctx)
{
	unsigned long address = ctx->skb->_skb_refdst & ~DST_NOT_COUNTED;
	struct dst_entry *way;

	if (!address)
		return ctx->state->out->ifindex;
	way = bpf_rdonly_cast((void *)address, bpf_core_type_id_kernel(struct dst_entry));
	return way->dev->ifindex;
}

static __always_inline int open_slices(struct bpf_nf_ctx *ctx, struct slices *slices)
{
	return bpf_dynptr_from_skb((void *)ctx->skb, 0, &slices->skb);
}

__noinline int look_closer_netfilter(struct bpf_nf_ctx *ctx, struct packet *p, __u32 part, __u32 detail)
{
	struct slices slices;
	struct frame f = { .ctx = ctx, .hook = HOOK_NETFILTER, .slices = &slices };

	return p && !open_slices(ctx, &slices) ? look_closer(p, &f, part, detail) : VERDICT_DROP;
}

__noinline int parse_netfilter(struct bpf_nf_ctx *ctx, struct packet *p)
{
	struct slices slices;
	struct frame f = { .ctx = ctx, .hook = HOOK_NETFILTER, .slices = &slices };
	enum verdict verdict;

	if (!p || open_slices(ctx, &slices))
		return VERDICT_DROP;
	p->network = 0;
	p->frame_bytes = ctx->skb->len;
	verdict = ctx->state->pf == NFPROTO_IPV4 ? parse_ipv4(p, &f) : parse_ipv6(p, &f);
	/* The kernel has taken its hop from what it forwards already, but for what crosses a bridge of its own (br_netfilter), where none ends. */
	if (p->flags & PACKET_FORWARDED && p->ttl != 255)
		p->ttl = p->ttl < 2 ? 2 : p->ttl + 1;
	return verdict == VERDICT_NEXT ? parse_transport(p, &f) : verdict;
}

__noinline int relate_netfilter(struct bpf_nf_ctx *ctx, struct packet *p)
{
	struct slices slices;
	struct frame f = { .ctx = ctx, .hook = HOOK_NETFILTER, .slices = &slices };

	return p && !open_slices(ctx, &slices) ? relate(p, &f) : RELATED_NOT;
}

__noinline int meet_netfilter(struct bpf_nf_ctx *ctx, struct packet *p)
{
	return p ? meet(ctx, p, HOOK_NETFILTER) : VERDICT_DROP;
}

#define SUM_PIECE 64
#define SUM_PIECES 1024	/* of the longest packet */

/* A segment while it is summed up: on the stack, because what this machine sends may be interrupted by what it receives. */
struct nf_summing {
	struct bpf_nf_ctx *ctx;
	__u32 at;
	__u32 left;
	__u64 sum;
};

/* Adds the next piece; an odd end counts as if zeros followed. 1: there is none, or it cannot be read; then something is left. */
static int add_piece(__u32 turn __attribute__((unused)), struct nf_summing *s)
{
	__u32 words[SUM_PIECE / 4] = {}, bytes = s->left < SUM_PIECE ? s->left : SUM_PIECE;
	struct bpf_dynptr skb;

	barrier_var(bytes);
	if (!bytes || bytes > SUM_PIECE || bpf_dynptr_from_skb((void *)s->ctx->skb, 0, &skb) ||
	    bpf_dynptr_read(words, bytes, &skb, s->at, 0))
		return 1;
	for (int i = 0; i < SUM_PIECE / 4; i++)
		s->sum += words[i];
	s->at += bytes;
	s->left -= bytes;
	return 0;
}

static __always_inline bool adds_up_netfilter(struct bpf_nf_ctx *ctx, const struct packet *p)
{
	__u32 bytes = p->ip_bytes - (p->transport - p->network);
	struct nf_summing s = { .ctx = ctx, .at = p->transport, .left = bytes,
				.sum = pseudo_sum(p->source, p->destination, PROTOCOL_TCP, bytes) };

	bpf_loop(SUM_PIECES, add_piece, &s, 0);
	s.sum = (s.sum & 0xffffffff) + (s.sum >> 32);
	s.sum = (s.sum & 0xffffffff) + (s.sum >> 32);
	return !s.left && checksum_fold(checksum_word(s.sum)) == 0;
}

/* As prove_tc(). A checksum that nobody has filled in yet is as good as a right one, and so is one that the network card or the
 * kernel has verified. */
__noinline int prove_netfilter(struct bpf_nf_ctx *ctx, struct packet *p, struct flow *flow)
{
	__u8 summed;

	if (!p || !flow)
		return DISPROVED;
	if (p->flags & PACKET_FIRST_FRAGMENT || ends_on_the_way(p, flow))
		return UNPROVED;
	summed = BPF_CORE_READ_BITFIELD(ctx->skb, ip_summed);
	if (!settings.check_checksums || summed == SUMMED_UNNECESSARY || summed == SUMMED_PARTIAL)
		return PROVED;
	return adds_up_netfilter(ctx, p) ? PROVED : DISPROVED;
}

/* Fills in where the packet comes from and where it goes. VERDICT_UP: it stays in this machine. */
static __always_inline enum verdict find_zones(struct bpf_nf_ctx *ctx, struct packet *p)
{
	__u32 hook = ctx->state->hook, in = 0, out = 0;

	if (hook != NF_INET_LOCAL_OUT)
		in = clock_is_held ? held_ports[0] : ctx->state->in->ifindex;
	if (hook != NF_INET_LOCAL_IN)
		out = clock_is_held ? held_ports[1] : hook == NF_INET_LOCAL_OUT ? way_out(ctx) : ctx->state->out->ifindex;
	if (hook != NF_INET_FORWARD && (in | out) == LOOPBACK_IFINDEX)
		return VERDICT_UP;
	p->ifindex = hook == NF_INET_LOCAL_OUT ? out : in;
	p->from = hook == NF_INET_LOCAL_OUT ? ZONE_SELF : zone_of(in);
	p->to = hook == NF_INET_LOCAL_IN ? ZONE_SELF : zone_of(out);
	if (hook == NF_INET_FORWARD)
		p->flags = PACKET_FORWARDED;
	else if (hook == NF_INET_LOCAL_OUT)
		p->flags = PACKET_FROM_SELF;
	if (p->from == NO_ZONE)
		return drop(p, REASON_NO_ZONE);
	return p->to == NO_ZONE ? drop(p, REASON_NOT_A_PORT) : VERDICT_NEXT;
}

static __always_inline bool begins_no_connection(struct __sk_buff *ctx, __u32 header_bytes)
{
	__u8 flags;

	return !bpf_skb_load_bytes_relative(ctx, header_bytes + TCP_FLAGS_AT, &flags, 1, BPF_HDR_START_NET) &&
	       (flags & TCP_KIND) != TCP_SYN;
}

/* The address that a packet says it comes from; false when it need not have a way back. */
static __always_inline bool claimed_source(struct __sk_buff *ctx, struct address *source)
{
	struct ipv4 v4;
	struct ipv6 v6;

	if (ctx->protocol == bpf_htons(ETHERTYPE_IPV4)) {
		if (bpf_skb_load_bytes_relative(ctx, 0, &v4, sizeof(v4), BPF_HDR_START_NET))
			return false;
		source->ip_version = 4;
		source->words[0] = v4.source;
		return v4.source && !(v4.protocol == PROTOCOL_TCP && begins_no_connection(ctx, (v4.version_words & 15) << 2));
	}
	if (ctx->protocol != bpf_htons(ETHERTYPE_IPV6) ||
	    bpf_skb_load_bytes_relative(ctx, 0, &v6, sizeof(v6), BPF_HDR_START_NET))
		return false;
	source->ip_version = 6;
	for (int word = 0; word < 4; word++)
		source->words[word] = v6.source[word];
	/* The kernel forwards nothing from link-local addresses. */
	return v6.source[0] && !is_link_local(source) &&
	       !(v6.next_header == PROTOCOL_TCP && begins_no_connection(ctx, IPV6_BYTES));
}

/* Whether a packet is the answer of a DHCP server for a client on this machine, as in route(): a client without an address has no routes either. */
static __always_inline bool answers_dhcp_here(struct __sk_buff *ctx)
{
	struct packet p = { .family = 4, .protocol = PROTOCOL_UDP, .from = zone_of(ctx->ifindex) };
	struct address destination = { .ip_version = 4 };
	struct route route;
	struct ipv4 ip;
	struct udp udp;

	if (ctx->protocol != bpf_htons(ETHERTYPE_IPV4) || bpf_skb_load_bytes_relative(ctx, 0, &ip, sizeof(ip), BPF_HDR_START_NET) ||
	    ip.protocol != PROTOCOL_UDP || ip.fragment & bpf_htons(IPV4_OFFSET) ||
	    bpf_skb_load_bytes_relative(ctx, (ip.version_words & 15) << 2, &udp, sizeof(udp), BPF_HDR_START_NET))
		return false;
	p.source_port = udp.source;
	p.destination_port = udp.destination;
	if (!is_dhcp_answer(&p))
		return false;
	destination.words[0] = ip.destination;
	route_find(ctx, &destination, whole_tick(), &route, HOOK_TC);
	return !leads_on(&p, &route, route.kind & ROUTE_KIND);
}

/* The way back, which netfilter programs have no helper for: asked at TC, of every packet but TCP that begins no connection, because
 * without a flow that passes nowhere. */
static __always_inline int ask_way_back(struct __sk_buff *ctx)
{
	struct address source = {};
	int reason;

	/* Of a buffer in pages the Ethernet header may be all that is read without this. */
	pull_up_to(ctx, MOST_WAY_BACK_BYTES);
	if (!claimed_source(ctx, &source))
		return TCX_NEXT;
	reason = check_route_back(ctx, &source, zone_of(ctx->ifindex), HOOK_TC);
	if (!reason || (reason == REASON_REVERSE_PATH && answers_dhcp_here(ctx)))
		return TCX_NEXT;
	count_drop(reason);
	return TCX_DROP;
}

#endif
