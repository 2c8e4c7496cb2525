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

/* linux/pkt_cls.h, which bpf/include has not. */
#define TC_ACT_SHOT 2
#define STAMP_OFFSET_V4 (ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES)
#define STAMP_OFFSET_V6 (ETHERNET_BYTES + IPV6_BYTES + UDP_BYTES)

enum kind { FAIR, DROP, DUPLICATE, REORDER, FLIP, CUT };

/* Mirrored by crates/traffic/tests/fixture/weather.rs, which writes it word by word. */
struct weather {
	__u32 kind;
	__u32 every;	/* the last of so many frames of a stream is hit; REORDER: the last pair of so many */
	__u32 where;	/* REORDER: how many frames apart the two of a pair are. FLIP: byte, from the stamp's first */
	__u32 what;	/* FLIP: bit 0 to 7 */
};

/* Where frames from one link go on. */
struct way {
	__u32 ifindex;
	__u8 destination[6];
	__u8 source[6];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weather);
} weather_map SEC(".maps");

/* By the interface that a frame came in on. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, struct way);
} ways SEC(".maps");

/* Frames hit. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} hits SEC(".maps");

static __always_inline int stamp_offset(struct __sk_buff *skb)
{
	if (skb->protocol == bpf_htons(ETHERTYPE_IPV4))
		return STAMP_OFFSET_V4;
	return skb->protocol == bpf_htons(ETHERTYPE_IPV6) ? STAMP_OFFSET_V6 : -1;
}

static __always_inline void count_hit(void)
{
	__u32 zero = 0;
	__u64 *count = bpf_map_lookup_elem(&hits, &zero);

	if (count)
		__sync_fetch_and_add(count, 1);
}

/* Gives a frame the sequence number of its pair's other frame: on the wire that is the same as passing it. */
static __always_inline void reorder(struct __sk_buff *skb, int offset, struct stamp *stamp, const struct weather *now)
{
	__u32 old = stamp_sequence(stamp->what), apart = now->where ? now->where : 1;
	__u32 pair = old / (2 * apart), first = old / apart % 2 == 0;
	__u32 new = first ? old + apart : old - apart;
	__u16 old_check = stamp->check, udp_check = 0;
	int check_at = offset - 2;

	if (pair % now->every != now->every - 1)
		return;
	count_hit();
	stamp->what = (stamp->what >> 32 << 32) | new;
	stamp->check = stamp_check(stamp->who, stamp->what);
	bpf_skb_store_bytes(skb, offset, stamp, STAMP_BYTES, 0);
	bpf_skb_load_bytes(skb, check_at, &udp_check, 2);
	if (!udp_check)
		return;
	bpf_l4_csum_replace(skb, check_at, old, new, BPF_F_MARK_MANGLED_0 | 4);
	bpf_l4_csum_replace(skb, check_at, old_check, stamp->check, BPF_F_MARK_MANGLED_0 | 2);
}

static __always_inline void flip(struct __sk_buff *skb, int offset, const struct weather *now)
{
	__u8 byte;

	if (bpf_skb_load_bytes(skb, offset + now->where, &byte, 1))
		return;
	byte ^= 1 << (now->what & 7);
	bpf_skb_store_bytes(skb, offset + now->where, &byte, 1, 0);
}

/* Does to a frame what the weather says. Returns 0 when it goes on. */
static __always_inline int suffer(struct __sk_buff *skb, const struct way *way, int offset, const struct weather *now)
{
	struct stamp stamp;

	if (now->kind == FAIR || now->every == 0 || bpf_skb_load_bytes(skb, offset, &stamp, STAMP_BYTES))
		return 0;
	if (now->kind == REORDER) {
		reorder(skb, offset, &stamp, now);
		return 0;
	}
	if (stamp_sequence(stamp.what) % now->every != now->every - 1)
		return 0;
	count_hit();
	if (now->kind == DROP)
		return -1;
	if (now->kind == DUPLICATE)
		bpf_clone_redirect(skb, way->ifindex, 0);
	if (now->kind == FLIP)
		flip(skb, offset, now);
	if (now->kind == CUT)
		bpf_skb_change_tail(skb, skb->len - 1, 0);
	return 0;
}

SEC("tc")
int forward(struct __sk_buff *skb)
{
	__u32 zero = 0, from = skb->ingress_ifindex;
	struct weather *now = bpf_map_lookup_elem(&weather_map, &zero);
	struct way *way = bpf_map_lookup_elem(&ways, &from);
	int offset = stamp_offset(skb);

	if (!now || !way || offset < 0)
		return TC_ACT_SHOT;
	/* Both addresses lie side by side, as they do in the frame. */
	bpf_skb_store_bytes(skb, 0, way->destination, 12, 0);
	if (suffer(skb, way, offset, now))
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
