/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The kernel's helpers in plain C, as far as the firewall can tell the difference. Each may fail now and then, as the bytes of
 * the input say, where the kernel's may.
 */
#ifndef RAMPART_NATIVE_HELPERS_C_H
#define RAMPART_NATIVE_HELPERS_C_H

#include "core.h"
#include "frame.h"

#define FAILED -22

/* Something that must never be: ends the run as a sanitizer would. */
static __attribute__((noreturn)) void fail(const char *what)
{
	fprintf(stderr, "broken: %s\n", what);
	abort();
}

/* An array of any kind, a hash, or what neither reads. */
struct native_map {
	void *name;
	__u32 entries;
	__u32 key_bytes;	/* of a hash; 0: an array */
	__u32 value_bytes;
	__u8 *values;
	__u8 *keys;
	int is_outer;		/* holds another map */
};

#define MAX_MAPS 40
static struct native_map maps[MAX_MAPS];
static __u32 map_count;

static struct native_map *new_map(void *name, __u32 entries, __u32 key_bytes, __u32 value_bytes)
{
	struct native_map *map = &maps[map_count++];

	*map = (struct native_map){ name, entries, key_bytes, value_bytes, aligned_alloc(64, (entries * value_bytes + 63) & ~63u),
				    calloc(entries, key_bytes + 1), 0 };
	memset(map->values, 0, entries * value_bytes);
	return map;
}

void *bpf_map_lookup_elem(void *name, const void *key)
{
	for (__u32 m = 0; m < map_count; m++) {
		struct native_map *map = &maps[m];

		if (map->name != name)
			continue;
		if (map->is_outer)
			return *(__u32 *)key ? 0 : *(void **)map->values;
		if (!map->key_bytes)
			return *(__u32 *)key < map->entries ? map->values + *(__u32 *)key * map->value_bytes : 0;
		for (__u32 i = 0; i < map->entries; i++)
			if (!memcmp(map->keys + i * map->key_bytes, key, map->key_bytes))
				return map->values + i * map->value_bytes;
		return 0;
	}
	fail("a map that fuzz/native does not know");
}

static struct native_map *hash_map(void *name)
{
	for (__u32 m = 0; m < map_count; m++)
		if (maps[m].name == name && maps[m].key_bytes)
			return &maps[m];
	fail("a hash that fuzz/native does not know");
}

/* A free place has the key ~0. */
long bpf_map_delete_elem(void *name, const void *key)
{
	struct native_map *map = hash_map(name);
	__u8 *value = bpf_map_lookup_elem(name, key);

	if (!value)
		return -2;
	memset(map->keys + (value - map->values) / map->value_bytes * map->key_bytes, 0xff, map->key_bytes);
	return 0;
}

long bpf_map_update_elem(void *name, const void *key, const void *value, __u64 flags __attribute__((unused)))
{
	struct native_map *map = hash_map(name);
	__u8 *place = bpf_map_lookup_elem(name, key);
	__u32 none = ~0u;

	if (!place)
		place = bpf_map_lookup_elem(name, &none);
	if (!place || once_in(64))
		return -7;
	memcpy(map->keys + (place - map->values) / map->value_bytes * map->key_bytes, key, map->key_bytes);
	memcpy(place, value, map->value_bytes);
	return 0;
}

#define FIRST_MOMENT 1000000000
static __u64 clock_ns;	/* moves between packets only */

__u64 bpf_ktime_get_coarse_ns(void)
{
	return clock_ns;
}

__u64 bpf_ktime_get_ns(void)
{
	return clock_ns;
}

/* Memory of its own for each, so that what is written beyond it is found. */
void *bpf_ringbuf_reserve(void *ring __attribute__((unused)), __u64 bytes, __u64 flags __attribute__((unused)))
{
	return once_in(16) ? 0 : malloc(bytes);
}

void bpf_ringbuf_submit(void *room, __u64 flags __attribute__((unused)))
{
	free(room);
}

void bpf_ringbuf_discard(void *room, __u64 flags)
{
	bpf_ringbuf_submit(room, flags);
}

/* One thread: what could go wrong is to take one twice, or two. */
static int is_locked;

void bpf_spin_lock(struct bpf_spin_lock *lock)
{
	if (is_locked++ || lock->val++)
		fail("two locks at a time");
}

void bpf_spin_unlock(struct bpf_spin_lock *lock)
{
	if (!is_locked-- || !lock->val--)
		fail("a lock that was not taken");
}

/* 250 a second, as in Debian. */
__u64 bpf_jiffies64(void)
{
	return clock_ns / 4000000;
}

__u32 bpf_get_smp_processor_id(void)
{
	return 0;
}

long bpf_loop(__u32 turns, void *callback, void *context, __u64 flags __attribute__((unused)))
{
	int (*step)(__u32, void *) = callback;
	__u32 i;

	if (turns > 1 << 23)
		return -7;
	for (i = 0; i < turns; i++)
		if (step(i, context))
			return i + 1;
	return i;
}

__s64 bpf_csum_diff(__be32 *from, __u32 from_bytes, __be32 *to, __u32 to_bytes, __u32 seed)
{
	__u64 sum = seed;

	if (from || from_bytes || to_bytes % 4 || to_bytes > 512)
		fail("bpf_csum_diff of Linux before 6.13 would refuse this");
	for (__u32 i = 0; i < to_bytes / 4; i++)
		sum += to[i];
	sum = (sum & 0xffffffff) + (sum >> 32);
	return (__u32)((sum & 0xffffffff) + (sum >> 32));
}

/* The last byte of a destination says where it leads. */
long bpf_fib_lookup(void *ctx __attribute__((unused)), struct bpf_fib_lookup *query, int bytes, __u32 flags __attribute__((unused)))
{
	__u32 *words = query->ipv6_dst, last = query->family == FAMILY_IPV4 ? words[0] >> 24 : words[3] >> 24;

	if (bytes != sizeof(*query) || once_in(256))
		return FAILED;
	query->ifindex = last & 32 ? 77 : 2 + (last & 3);
	if (last & 8)
		return 1 + (last >> 4) % 8;
	for (int i = 0; i < 6; i++) {
		query->dmac[i] = i;
		query->smac[i] = 6 + i;
	}
	query->mtu_result = last & 16 ? 576 : 1500;
	return 0;
}

long bpf_check_mtu(void *ctx __attribute__((unused)), __u32 ifindex, __u32 *mtu, __s32 difference __attribute__((unused)),
		   __u64 flags __attribute__((unused)))
{
	*mtu = 1500;
	return ifindex == 77 ? FAILED : 0;
}

/* Sockets of this machine: the gateway's, somebody else's, a connection, or none. Each that was found has to be released. */
static long sockets_held;

static struct bpf_sock *some_socket(void)
{
	static struct bpf_sock sockets[] = { { .state = 10, .mark = GATEWAY_LISTENS }, { .state = 10 }, { .state = 1 }, { .state = 6 } };

	if (once_in(4))
		return 0;
	sockets_held++;
	return once_in(2) ? &sockets[0] : &sockets[1 + once_in(2) + once_in(2)];
}

struct bpf_sock *bpf_sk_lookup_tcp(void *ctx __attribute__((unused)), struct bpf_sock_tuple *tuple, __u32 bytes,
				   __u64 namespace __attribute__((unused)), __u64 flags __attribute__((unused)))
{
	if (bytes != sizeof(tuple->ipv4) && bytes != sizeof(tuple->ipv6))
		fail("a socket of neither family is asked for");
	return some_socket();
}

struct bpf_sock *bpf_skc_lookup_tcp(void *ctx, struct bpf_sock_tuple *tuple, __u32 bytes, __u64 namespace, __u64 flags)
{
	return bpf_sk_lookup_tcp(ctx, tuple, bytes, namespace, flags);
}

long bpf_sk_release(void *socket __attribute__((unused)))
{
	if (--sockets_held < 0)
		fail("a socket is released that nobody holds");
	return 0;
}

long bpf_sk_assign(void *ctx __attribute__((unused)), void *socket, __u64 flags __attribute__((unused)))
{
	const struct bpf_sock *assigned = socket;

	if (assigned->state != 10 || assigned->mark != GATEWAY_LISTENS)
		fail("a packet is given to somebody else's socket");
	return once_in(64) ? -1 : 0;
}

/* Both hooks' redirects: which program runs says what they return. */
static enum hook running;

static long redirected(void)
{
	if (once_in(64))
		return running == HOOK_XDP ? XDP_ABORTED : TCX_DROP;
	return running == HOOK_XDP ? XDP_REDIRECT : TCX_REDIRECT;
}

long bpf_redirect(__u32 ifindex __attribute__((unused)), __u64 flags __attribute__((unused)))
{
	return redirected();
}

long bpf_clone_redirect(struct __sk_buff *ctx __attribute__((unused)), __u32 ifindex __attribute__((unused)),
			__u64 flags __attribute__((unused)))
{
	return 0;
}

long bpf_redirect_map(void *map __attribute__((unused)), __u64 key, __u64 flags)
{
	return key < MAX_PORTS && ports[key].ifindex ? redirected() : (long)flags;
}

long bpf_redirect_neigh(__u32 ifindex __attribute__((unused)), struct bpf_redir_neigh *neighbour __attribute__((unused)),
			int bytes __attribute__((unused)), __u64 flags __attribute__((unused)))
{
	return redirected();
}

static long xdp_moved(struct xdp_md *ctx)
{
	frame_guard();
	ctx->data = (long)frame.data;
	ctx->data_end = ctx->data + frame.linear;
	return 0;
}

static long skb_moved(struct __sk_buff *ctx)
{
	frame_guard();
	ctx->data = (long)frame.data;
	ctx->data_end = ctx->data + frame.linear;
	ctx->len = frame_bytes();
	return 0;
}

__u64 bpf_xdp_get_buff_len(struct xdp_md *ctx __attribute__((unused)))
{
	return frame_bytes();
}

long bpf_xdp_load_bytes(struct xdp_md *ctx __attribute__((unused)), __u32 offset, void *to, __u32 bytes)
{
	return frame_load(offset, to, bytes);
}

long bpf_xdp_store_bytes(struct xdp_md *ctx __attribute__((unused)), __u32 offset, void *from, __u32 bytes)
{
	return frame_store(offset, from, bytes);
}

long bpf_xdp_adjust_head(struct xdp_md *ctx, int by)
{
	if (frame.data + by < room + LEAST_HEADROOM || by + ETHERNET_BYTES > (int)frame.linear || once_in(128))
		return FAILED;
	frame.data += by;
	frame.linear -= by;
	return xdp_moved(ctx);
}

long bpf_xdp_adjust_tail(struct xdp_md *ctx, int by)
{
	__u32 bytes = frame_bytes() + by;

	if ((by < 0 && -by > (int)frame_bytes() - ETHERNET_BYTES) || bytes > MAX_FRAME || (by > 0 && frame.rest) || once_in(128))
		return FAILED;
	frame_resize(bytes, by > 0 ? bytes : frame.linear);
	return xdp_moved(ctx);
}

long bpf_skb_load_bytes(const void *ctx __attribute__((unused)), __u32 offset, void *to, __u32 bytes)
{
	return frame_load(offset, to, bytes);
}

long bpf_skb_store_bytes(struct __sk_buff *ctx, __u32 offset, const void *from, __u32 bytes, __u64 flags __attribute__((unused)))
{
	long failed = frame_store(offset, from, bytes);

	return failed ? failed : skb_moved(ctx);
}

/* Whether the checksum of the packet is still to be filled in. */
static int is_partial;

long bpf_l4_csum_replace(struct __sk_buff *ctx, __u32 offset, __u64 from, __u64 to, __u64 flags)
{
	__u8 check[2];
	bool is_difference = !(flags & BPF_F_HDR_FIELD_MASK);

	if ((!is_difference && flags != 4) || (is_difference && from) || once_in(64) || frame_load(offset, check, 2))
		return FAILED;
	if ((!is_partial || flags & BPF_F_PSEUDO_HDR) && from != to) {
		check[1]++;
		frame_store(offset, check, 2);
	}
	return skb_moved(ctx);
}

long bpf_skb_pull_data(struct __sk_buff *ctx, __u32 bytes)
{
	if (bytes > frame_bytes() || once_in(128))
		return FAILED;
	if (bytes > frame.linear)
		frame_resize(frame_bytes(), bytes);
	return skb_moved(ctx);
}

long bpf_skb_change_tail(struct __sk_buff *ctx, __u32 bytes, __u64 flags __attribute__((unused)))
{
	if (bytes < ETHERNET_BYTES || bytes > MAX_FRAME || once_in(128))
		return FAILED;
	frame_resize(bytes, bytes > frame_bytes() ? bytes : frame.linear);
	return skb_moved(ctx);
}

/* There is headroom for all that is ever put in front. */
long bpf_skb_change_head(struct __sk_buff *ctx, __u32 bytes, __u64 flags)
{
	if (flags || frame_bytes() + bytes > MAX_FRAME || once_in(128))
		return FAILED;
	frame_open();
	frame.data -= bytes;
	frame.linear += bytes;
	memset(frame.data, 0, bytes);
	return skb_moved(ctx);
}

long bpf_skb_adjust_room(struct __sk_buff *ctx, __s32 by, __u32 mode, __u64 flags __attribute__((unused)))
{
	if (mode != BPF_ADJ_ROOM_MAC || by > 0 || (int)frame_bytes() + by < ETHERNET_BYTES + IPV6_BYTES || once_in(128))
		return FAILED;
	frame_cut(ETHERNET_BYTES, -by);
	return skb_moved(ctx);
}

/* Whether a tag is at the front of the frame itself. */
static int is_tagged(void)
{
	__u8 type[2];

	return frame_bytes() >= 18 && !frame_load(12, type, 2) && ((type[0] == 0x81 && !type[1]) || (type[0] == 0x88 && type[1] == 0xa8));
}

long bpf_skb_vlan_pop(struct __sk_buff *ctx)
{
	if (once_in(128))
		return FAILED;
	if (!ctx->vlan_present && is_tagged())
		frame_cut(12, 4);
	/* The next one is taken out of the frame as well, and remembered beside it. */
	ctx->vlan_present = is_tagged();
	if (ctx->vlan_present)
		frame_cut(12, 4);
	return skb_moved(ctx);
}

long bpf_skb_change_type(struct __sk_buff *ctx __attribute__((unused)), __u32 type __attribute__((unused)))
{
	return 0;
}

/* Nothing is asked at netfilter here: the packets of this program are frames. */
void *bpf_dynptr_slice(const struct bpf_dynptr *from __attribute__((unused)), __u64 offset __attribute__((unused)),
		       void *copy __attribute__((unused)), __u64 bytes __attribute__((unused)))
{
	return 0;
}

int bpf_dynptr_from_skb(struct __sk_buff *skb __attribute__((unused)), __u64 flags __attribute__((unused)),
			struct bpf_dynptr *to __attribute__((unused)))
{
	return FAILED;
}

long bpf_dynptr_read(void *to __attribute__((unused)), __u64 bytes __attribute__((unused)),
		     const struct bpf_dynptr *from __attribute__((unused)), __u64 offset __attribute__((unused)),
		     __u64 flags __attribute__((unused)))
{
	return FAILED;
}

void *bpf_rdonly_cast(const void *address, __u32 type __attribute__((unused)))
{
	return (void *)address;
}

long bpf_skb_load_bytes_relative(const void *ctx __attribute__((unused)), __u32 offset __attribute__((unused)),
				 void *to __attribute__((unused)), __u32 bytes __attribute__((unused)),
				 __u32 start __attribute__((unused)))
{
	return FAILED;
}

#endif
