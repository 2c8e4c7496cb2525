/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Whether the end that a reset or a FIN is for will get it and believe it. Who does not have the connection can still send a
 * segment that the firewall sees and the end does not: with a wrong checksum, or with a hop limit that ends between the two. A
 * flow that closed by such a segment would cut a connection that both ends have.
 *
 * Only resets and FINs are looked at: a wrong checksum of any other segment closes nothing.
 */
#ifndef RAMPART_FIREWALL_TCP_PROOF_H
#define RAMPART_FIREWALL_TCP_PROOF_H

#include "answer.h"
#include "tcp.h"

enum proof {
	PROVED = 0,
	UNPROVED = 1,	/* it may be believed or not: it passes, and closes nothing */
	DISPROVED = 2,	/* its receiver will drop it */
};

#define SUM_CHUNK 512	/* the most that bpf_csum_diff takes at once before Linux 6.13; a multiple of 4 */
#define SUM_CHUNKS 128	/* of the longest packet */
#define TCP_CHECK 16	/* where a TCP header has its checksum */

/* A segment while it is summed up. In a map, because the verifier would follow each turn of what is on a stack. */
struct sum_room {
	__u8 bytes[SUM_CHUNK + 4];
	__u32 at;	/* in the frame */
	__u32 left;
	__u64 sum;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sum_room);
} sum_rooms SEC(".maps");

struct summing {
	void *ctx;
	struct sum_room *room;
};

/* Adds the next chunk. 1: there is none, or it cannot be read; then something is left. */
static __always_inline int add_chunk(const struct summing *s, enum hook hook)
{
	__u32 bytes = s->room->left;
	__u64 last;

	if (bytes > SUM_CHUNK)
		bytes = SUM_CHUNK;
	last = (__u64)bytes - 1;
	/* Linux 6.1 learns nothing from "not 0". */
	barrier_var(last);
	if (last >= SUM_CHUNK)
		return 1;
	bytes = last + 1;
	/* An odd end counts as if zeros followed. */
	*(__u32 *)(s->room->bytes + (bytes & ~3U)) = 0;
	if (hook_load(s->ctx, hook, s->room->at, s->room->bytes, last + 1))
		return 1;
	s->room->sum += (__u32)bpf_csum_diff(0, 0, (__be32 *)s->room->bytes, (bytes + 3) & ~3U, 0);
	s->room->at += bytes;
	s->room->left -= bytes;
	return 0;
}

static int add_chunk_xdp(__u32 turn __attribute__((unused)), struct summing *s)
{
	return add_chunk(s, HOOK_XDP);
}

static int add_chunk_tc(__u32 turn __attribute__((unused)), struct summing *s)
{
	return add_chunk(s, HOOK_TC);
}

/* Whether the bytes of a segment and its pseudo header sum up to what they must. */
static __always_inline bool adds_up(void *ctx, const struct packet *p, enum hook hook, __u32 bytes, __u32 pseudo)
{
	struct summing s = { .ctx = ctx, .room = lookup(&sum_rooms, 0) };
	__u64 sum;

	if (!s.room)
		return false;
	s.room->at = p->transport;
	s.room->left = bytes;
	s.room->sum = 0;
	if (hook == HOOK_XDP)
		bpf_loop(SUM_CHUNKS, add_chunk_xdp, &s, 0);
	else
		bpf_loop(SUM_CHUNKS, add_chunk_tc, &s, 0);
	sum = s.room->sum + pseudo;
	sum = (sum & 0xffffffff) + (sum >> 32);
	return !s.room->left && checksum_fold(checksum_word(sum)) == 0;
}

/* Whether the kernel has still to fill in the checksum (CHECKSUM_PARTIAL), which a program cannot read: bpf_l4_csum_replace()
 * leaves the checksum of such a packet alone, unless a flag says that the pseudo header has changed. */
static __always_inline bool is_unfilled(struct __sk_buff *ctx, __u32 at, __u16 check)
{
	__u16 after = 0;

	if (bpf_l4_csum_replace(ctx, at, 0, bpf_htonl(1), 4) || bpf_skb_load_bytes(ctx, at, &after, 2))
		return false;
	if (after == check)
		return true;
	bpf_skb_store_bytes(ctx, at, &check, 2, 0);
	return false;
}

static __always_inline enum proof prove_checksum(void *ctx, const struct packet *p, enum hook hook)
{
	__u32 bytes = p->ip_bytes - (p->transport - p->network), at = p->transport + TCP_CHECK;
	__u32 pseudo = pseudo_sum(p->source, p->destination, PROTOCOL_TCP, bytes);
	bool is_pseudo;
	__u16 check;

	/* Segments that the kernel put together it has verified, and those that it will cut apart it has made. */
	if (hook == HOOK_TC && ((struct __sk_buff *)ctx)->gso_size)
		return PROVED;
	if (hook_load(ctx, hook, at, &check, 2))
		return DISPROVED;
	/* What stands in the place of a checksum that is not filled in yet. */
	is_pseudo = check == (__u16)~checksum_fold(pseudo);
	if (hook == HOOK_TC && is_pseudo && is_unfilled(ctx, at, check))
		return PROVED;
	if (adds_up(ctx, p, hook, bytes, pseudo))
		return PROVED;
	/* XDP on a veth cannot see whether the sender left it to the kernel; what goes up to our own stack it then believes. */
	return hook == HOOK_XDP && is_pseudo ? UNPROVED : DISPROVED;
}

/* How many routers are between us and an end, by what is left of the hop limit of its SYN: senders begin with one of these. */
static __always_inline __u32 routers_before(__u8 ttl)
{
	return (ttl <= 32 ? 32 : ttl <= 64 ? 64 : ttl <= 128 ? 128 : 255) - ttl;
}

/* Whether the hop limit of a segment ends before its receiver, as far as it is known where that is. */
static __always_inline bool ends_on_the_way(const struct packet *p, const struct flow *flow)
{
	__u32 r = (p->side & 1) ^ 1;

	/* One hop is ours, and a router that finds one left drops the packet. */
	return flow->zone[r] != ZONE_SELF && flow->ttl[r] && p->ttl < routers_before(flow->ttl[r]) + 2;
}

static __always_inline enum proof prove(void *ctx, const struct packet *p, const struct flow *flow, enum hook hook)
{
	/* The rest of a fragment's segment is not here. */
	if (p->flags & PACKET_FIRST_FRAGMENT || ends_on_the_way(p, flow))
		return UNPROVED;
	return settings.check_checksums ? prove_checksum(ctx, p, hook) : PROVED;
}

__noinline int prove_xdp(struct xdp_md *ctx, struct packet *p, struct flow *flow)
{
	return p && flow ? prove(ctx, p, flow, HOOK_XDP) : DISPROVED;
}

__noinline int prove_tc(struct __sk_buff *ctx, struct packet *p, struct flow *flow)
{
	return p && flow ? prove(ctx, p, flow, HOOK_TC) : DISPROVED;
}

/* In netfilter.h. */
struct bpf_nf_ctx;
int prove_netfilter(struct bpf_nf_ctx *ctx, struct packet *p, struct flow *flow);

static __always_inline enum proof prove_at(void *ctx, struct packet *p, struct flow *flow, enum hook hook)
{
	if (hook == HOOK_NETFILTER)
		return prove_netfilter(ctx, p, flow);
	return hook == HOOK_XDP ? prove_xdp(ctx, p, flow) : prove_tc(ctx, p, flow);
}

/* Follows a segment of a known connection. 0, or the reason why it must not pass. */
static __always_inline int track(void *ctx, struct packet *p, struct flow *flow, enum hook hook)
{
	/* The checksums of what we send ourselves are filled in behind us. */
	if (p->tcp_flags & (TCP_RST | TCP_FIN) && !is_from_self(p, hook)) {
		switch (prove_at(ctx, p, flow, hook)) {
		case PROVED:
			break;
		case UNPROVED:
			return track_unproved(p, flow);
		default:
			return REASON_TCP_CHECKSUM;
		}
	}
	return track_tcp(p, flow);
}

#endif
