// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Bad weather for tests: a forwarder between two links that does on purpose, and exactly as often as asked, what bad
 * firewalls do by accident. Which frames it hits depends only on their sequence numbers, so a test knows what the sink
 * must have counted. At the traffic-control hook, because XDP cannot copy a frame. Never part of the bench itself.
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "../net/headers.h"
#include "../traffic/histogram.h"
#include "../traffic/frames/stamp.h"
#include "hop.h"
#include "only.h"

#define STAMP_OFFSET_V4 (ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES)
#define STAMP_OFFSET_V6 (ETHERNET_BYTES + IPV6_BYTES + UDP_BYTES)

enum fate { GOES_ON, IS_GONE };

#define IP_PAYLOAD_AT (ETHERNET_BYTES + IPV4_BYTES)
#define KEPT_BYTES 9216
#define MOST_KEPT 64

/* A frame that another one overtakes. */
struct kept {
	__u8 bytes[KEPT_BYTES];
	__u32 used;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MOST_KEPT);
	__type(key, __u32);
	__type(value, struct kept);
} kept_frames SEC(".maps");

enum kind { FAIR, DROP, DUPLICATE, REORDER, FLIP, CUT, JOIN };

/* Mirrored by crates/traffic/tests/fixture/weather.rs, which writes it word by word. */
struct weather {
	__u32 kind;
	__u32 every;	/* the last of so many frames of a stream is hit; REORDER: the last pair of so many */
	__u32 where;	/* REORDER: how many frames apart the two of a pair are. FLIP: byte, from the stamp's first */
	__u32 what;	/* FLIP: bit 0 to 7 */
};

ONLY(struct weather, settings);

/* Frames hit. */
ONLY(__u64, hits);

static __always_inline int stamp_offset(struct __sk_buff *skb)
{
	if (skb->protocol == bpf_htons(ETHERTYPE_IPV4))
		return STAMP_OFFSET_V4;
	return skb->protocol == bpf_htons(ETHERTYPE_IPV6) ? STAMP_OFFSET_V6 : -1;
}

static __always_inline void count_hit(void)
{
	__u64 *count = only(&hits);

	if (count)
		__sync_fetch_and_add(count, 1);
}

/*
 * Lets the frames of a pair change places: the first is kept until the second comes, which goes before it. Returns what becomes of
 * the frame that is at hand.
 */
static __always_inline int reorder(struct __sk_buff *skb, const struct way *way, __u64 sequence, const struct weather *now)
{
	__u32 apart = now->where ? now->where : 1, place = sequence % (2 * apart), slot = place % apart, bytes = skb->len;
	struct kept *kept;

	if (sequence / (2 * apart) % now->every != now->every - 1)
		return GOES_ON;
	kept = bpf_map_lookup_elem(&kept_frames, &slot);
	if (!kept)
		return IS_GONE;
	count_hit();
	if (place < apart) {
		barrier_var(bytes);
		if (bytes == 0 || bytes > KEPT_BYTES)
			return IS_GONE;
		bpf_skb_load_bytes(skb, 0, kept->bytes, bytes);
		return IS_GONE;
	}
	bpf_clone_redirect(skb, way->ifindex, 0);
	bytes = skb->len;
	barrier_var(bytes);
	if (bytes == 0 || bytes > KEPT_BYTES)
		return IS_GONE;
	bpf_skb_store_bytes(skb, 0, kept->bytes, bytes, 0);
	return GOES_ON;
}

/* Puts the two IPv4 fragments of a datagram together: keeps the first, and makes the second the whole datagram. */
static __always_inline int join(struct __sk_buff *skb)
{
	__u32 slot = 0, first, rest = skb->len - IP_PAYLOAD_AT;
	__be16 fragment, none = 0, old_bytes, bytes;
	struct kept *kept = bpf_map_lookup_elem(&kept_frames, &slot);

	if (!kept || bpf_skb_load_bytes(skb, FRAGMENT_AT, &fragment, 2))
		return IS_GONE;
	if (!(fragment & bpf_htons(0x1fff))) {
		first = skb->len;
		barrier_var(first);
		if (first == 0 || first > KEPT_BYTES)
			return IS_GONE;
		bpf_skb_load_bytes(skb, 0, kept->bytes, first);
		kept->used = first;
		return IS_GONE;
	}
	first = kept->used;
	barrier_var(first);
	barrier_var(rest);
	if (first == 0 || first > KEPT_BYTES / 2 || rest == 0 || rest > KEPT_BYTES / 2)
		return IS_GONE;
	bpf_skb_load_bytes(skb, IP_PAYLOAD_AT, kept->bytes + first, rest);
	bpf_skb_change_tail(skb, first + rest, 0);
	bpf_skb_store_bytes(skb, 0, kept->bytes, first + rest, 0);
	bpf_skb_load_bytes(skb, BYTES_AT, &old_bytes, 2);
	bpf_skb_load_bytes(skb, FRAGMENT_AT, &fragment, 2);
	bytes = bpf_htons(first + rest - ETHERNET_BYTES);
	bpf_skb_store_bytes(skb, BYTES_AT, &bytes, 2, 0);
	bpf_skb_store_bytes(skb, FRAGMENT_AT, &none, 2, 0);
	bpf_l3_csum_replace(skb, CHECK_AT_V4, old_bytes, bytes, 2);
	bpf_l3_csum_replace(skb, CHECK_AT_V4, fragment, none, 2);
	count_hit();
	return GOES_ON;
}

static __always_inline void flip(struct __sk_buff *skb, int offset, const struct weather *now)
{
	__u8 byte;

	if (bpf_skb_load_bytes(skb, offset + now->where, &byte, 1))
		return;
	byte ^= 1 << (now->what & 7);
	bpf_skb_store_bytes(skb, offset + now->where, &byte, 1, 0);
}

/* Does to a frame what the weather says, and returns what becomes of it. */
static __always_inline int suffer(struct __sk_buff *skb, const struct way *way, int offset, const struct weather *now)
{
	struct stamp stamp;
	__u64 sequence;

	if (now->kind == JOIN)
		return join(skb);
	if (now->kind == FAIR || now->every == 0 || bpf_skb_load_bytes(skb, offset, &stamp, STAMP_BYTES))
		return GOES_ON;
	sequence = stamp_sequence(stamp.who, stamp.what);
	if (now->kind == REORDER)
		return reorder(skb, way, sequence, now);
	if (sequence % now->every != now->every - 1)
		return GOES_ON;
	count_hit();
	if (now->kind == DROP)
		return IS_GONE;
	if (now->kind == DUPLICATE)
		bpf_clone_redirect(skb, way->ifindex, 0);
	if (now->kind == FLIP)
		flip(skb, offset, now);
	if (now->kind == CUT)
		bpf_skb_change_tail(skb, skb->len - 1, 0);
	return GOES_ON;
}

SEC("tc")
int forward(struct __sk_buff *skb)
{
	__u32 from = skb->ingress_ifindex;
	struct weather *now = only(&settings);
	struct way *way = bpf_map_lookup_elem(&ways, &from);
	int offset = stamp_offset(skb);

	if (!now || !way || offset < 0)
		return TC_ACT_SHOT;
	take_hop(skb, way);
	if (suffer(skb, way, offset, now) == IS_GONE)
		return TC_ACT_SHOT;
	return bpf_redirect(way->ifindex, 0);
}

/* The histogram's bucket of the number in the first eight bytes: compared with the Rust side by a test. */
SEC("xdp")
int bucket(struct xdp_md *ctx)
{
	__u64 *value = (void *)(long)ctx->data;

	if ((void *)(value + 1) > (void *)(long)ctx->data_end)
		return -1;
	return bucket_of(*value);
}

char _license[] SEC("license") = "Dual MIT/GPL";
