/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Answers ARP (RFC 826) for addresses that the policy translates to or from and that no interface has, so that a router outside finds
 * them. The kernel answers for its own addresses alone: its proxy (`ip neigh add proxy`) wants forwarding, which is off where this
 * firewall forwards, and never answers for an address of the interface's own network.
 *
 * Who asks has an answer if the policy has the address for the zone (table_header.answered), and the kernel's route to it ends on the link
 * that the question came by. No answer: the kernel knows a neighbour with that address, which somebody has then; whoever asks says that the
 * address is its own. All that is not answered goes up to the kernel as ever.
 */
#ifndef RAMPART_FIREWALL_ARP_H
#define RAMPART_FIREWALL_ARP_H

#include "hook.h"
#include "pages.h"
#include "route.h"

#define ARP_ETHERNET 1
#define ARP_REQUEST 1
#define ARP_REPLY 2

struct arp {
	__be16 hardware;
	__be16 protocol;
	__u8 address_bytes[2];	/* of an Ethernet address, of an IPv4 address */
	__be16 operation;
	__u16 sender_link[3];
	__u16 sender[2];
	__u16 target_link[3];
	__u16 target[2];
} __attribute__((packed, aligned(2)));

_Static_assert(sizeof(struct arp) == 28, "as RFC 826 has it");

struct answered_search {
	void *pages;
	__u32 at;
	__u32 address;		/* in host order */
	__u32 zone;
	__u32 found;
};

/* Looks at one more row. 1 ends the search. */
static int match_answered(__u32 turn, struct answered_search *s)
{
	const struct answered_row *row = row_at(s->pages, s->at + turn * ANSWERED_ROW_WORDS, ANSWERED_ROW_WORDS);

	if (!row)
		return 1;
	if (!(row->zones >> (s->zone & 63) & 1) || s->address < row->first || s->address > row->last)
		return 0;
	s->found = 1;
	return 1;
}

/* Whether the policy has this address for whoever asks from a zone. */
__noinline int is_answered(__u32 address, __u32 zone)
{
	struct answered_search s = { .pages = current_pages(), .address = address, .zone = zone };
	const struct table_header *header = s.pages ? header_of(s.pages) : 0;

	if (!header)
		return 0;
	s.at = header->answered.at;
	bpf_loop(header->answered.count & (4 * MAX_NAT_ROWS - 1), match_answered, &s, 0);
	return s.found;
}

/* Whether the route to an address ends on this link, and nobody is known to have it there. */
static __always_inline bool is_free_on_link(void *ctx, __be32 address, __u32 ifindex)
{
	struct bpf_fib_lookup query = { .family = FAMILY_IPV4, .ifindex = LOOPBACK_IFINDEX, .ipv4_dst = address };

	/* A route by way of a router has put that router's address in its place. */
	return bpf_fib_lookup(ctx, &query, sizeof(query), 0) == BPF_FIB_LKUP_RET_NO_NEIGH && query.ifindex == ifindex &&
	       query.ipv4_dst == address;
}

static __always_inline bool is_question(const struct arp *arp)
{
	return arp->hardware == bpf_htons(ARP_ETHERNET) && arp->protocol == bpf_htons(ETHERTYPE_IPV4) && arp->address_bytes[0] == 6 &&
	       arp->address_bytes[1] == 4 && arp->operation == bpf_htons(ARP_REQUEST) && !(arp->sender_link[0] & bpf_htons(0x100));
}

static __always_inline __be32 address_in(const __u16 *halves)
{
	return halves[0] | (__u32)halves[1] << 16;
}

/* Turns the question into its answer. */
static __always_inline void write_arp_answer(struct arp *arp, __u16 *link, __u64 own)
{
	__u16 asked[2] = { arp->target[0], arp->target[1] };

	for (int i = 0; i < 3; i++) {
		link[i] = arp->target_link[i] = arp->sender_link[i];
		link[3 + i] = arp->sender_link[i] = own >> 16 * i;
	}
	for (int i = 0; i < 2; i++) {
		arp->target[i] = arp->sender[i];
		arp->sender[i] = asked[i];
	}
	arp->operation = bpf_htons(ARP_REPLY);
}

static __always_inline enum verdict answer_arp(void *ctx, struct packet *p, const enum hook hook)
{
	struct frame f = { .data = hook_data(ctx, hook), .end = hook_end(ctx, hook), .ctx = ctx, .hook = hook };
	const struct link_addresses *own = lookup(&link_addresses, p->port);
	struct arp *arp = bytes_at(&f, p->network, sizeof(*arp));
	__u16 *link = bytes_at(&f, 0, 12);
	__be32 target;

	if (!own || !own->address[0] || !arp || !link || !is_question(arp))
		return VERDICT_UP;
	target = address_in(arp->target);
	/* It announces that it has the address (RFC 5227), and does not ask. */
	if (target == address_in(arp->sender))
		return VERDICT_UP;
	if (!is_answered(bpf_ntohl(target), p->from) || !is_free_on_link(ctx, target, p->ifindex))
		return VERDICT_UP;
	write_arp_answer(arp, link, own->address[0]);
	if (!hook_redirected(hook, bpf_redirect(p->ifindex, 0)))
		return drop(p, REASON_ANSWER);
	tally(TALLY_ARP_ANSWERED, 1);
	return VERDICT_SENT;
}

/* By themselves, because few packets are ARP. */
__noinline int answer_arp_xdp(struct xdp_md *ctx, struct packet *p)
{
	return p ? answer_arp(ctx, p, HOOK_XDP) : VERDICT_UP;
}

__noinline int answer_arp_tc(struct __sk_buff *ctx, struct packet *p)
{
	return p ? answer_arp(ctx, p, HOOK_TC) : VERDICT_UP;
}

/* What becomes of ARP: an answer, or up to the kernel. */
static __always_inline enum verdict meet_arp(void *ctx, struct packet *p, const enum hook hook)
{
	tally(TALLY_LINK, 1);
	if (!settings.translates || p->flags & PACKET_FROM_SELF)
		return VERDICT_UP;
	return hook == HOOK_XDP ? answer_arp_xdp(ctx, p) : answer_arp_tc(ctx, p);
}

#endif
