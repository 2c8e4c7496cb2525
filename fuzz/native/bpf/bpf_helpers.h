/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* In place of libbpf's header of this name: the kernel's helpers as functions that fuzz/native/helpers.h defines. */
#ifndef RAMPART_NATIVE_HELPERS_H
#define RAMPART_NATIVE_HELPERS_H

#include <linux/bpf.h>
#include <linux/types.h>

#define SEC(name) __attribute__((used))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) __typeof__(value) *name
#define __array(name, value) __typeof__(value) *name[]
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __ksym
#undef __weak
#define __weak __attribute__((weak))
#define barrier() __asm__ volatile("" : : : "memory")
#define barrier_var(variable) __asm__ volatile("" : "+r"(variable))

void *bpf_map_lookup_elem(void *map, const void *key);
long bpf_map_update_elem(void *map, const void *key, const void *value, __u64 flags);
long bpf_map_delete_elem(void *map, const void *key);
__u64 bpf_ktime_get_coarse_ns(void);
__u64 bpf_ktime_get_ns(void);
void *bpf_ringbuf_reserve(void *ring, __u64 bytes, __u64 flags);
void bpf_ringbuf_submit(void *room, __u64 flags);
void bpf_ringbuf_discard(void *room, __u64 flags);
void bpf_spin_lock(struct bpf_spin_lock *lock);
void bpf_spin_unlock(struct bpf_spin_lock *lock);
__u64 bpf_jiffies64(void);
__u32 bpf_get_smp_processor_id(void);
long bpf_loop(__u32 turns, void *callback, void *context, __u64 flags);
__s64 bpf_csum_diff(__be32 *from, __u32 from_bytes, __be32 *to, __u32 to_bytes, __u32 seed);
long bpf_fib_lookup(void *ctx, struct bpf_fib_lookup *query, int bytes, __u32 flags);
long bpf_check_mtu(void *ctx, __u32 ifindex, __u32 *mtu, __s32 difference, __u64 flags);
long bpf_redirect(__u32 ifindex, __u64 flags);
long bpf_redirect_map(void *map, __u64 key, __u64 flags);
long bpf_clone_redirect(struct __sk_buff *ctx, __u32 ifindex, __u64 flags);
long bpf_redirect_neigh(__u32 ifindex, struct bpf_redir_neigh *neighbour, int bytes, __u64 flags);
__u64 bpf_xdp_get_buff_len(struct xdp_md *ctx);
long bpf_xdp_load_bytes(struct xdp_md *ctx, __u32 offset, void *to, __u32 bytes);
long bpf_xdp_store_bytes(struct xdp_md *ctx, __u32 offset, void *from, __u32 bytes);
long bpf_xdp_adjust_head(struct xdp_md *ctx, int by);
long bpf_xdp_adjust_tail(struct xdp_md *ctx, int by);
long bpf_skb_load_bytes(const void *ctx, __u32 offset, void *to, __u32 bytes);
long bpf_skb_load_bytes_relative(const void *ctx, __u32 offset, void *to, __u32 bytes, __u32 start);
long bpf_dynptr_read(void *to, __u64 bytes, const struct bpf_dynptr *from, __u64 offset, __u64 flags);
long bpf_skb_store_bytes(struct __sk_buff *ctx, __u32 offset, const void *from, __u32 bytes, __u64 flags);
long bpf_l4_csum_replace(struct __sk_buff *ctx, __u32 offset, __u64 from, __u64 to, __u64 flags);
long bpf_skb_pull_data(struct __sk_buff *ctx, __u32 bytes);
long bpf_skb_change_tail(struct __sk_buff *ctx, __u32 bytes, __u64 flags);
long bpf_skb_change_head(struct __sk_buff *ctx, __u32 bytes, __u64 flags);
long bpf_skb_adjust_room(struct __sk_buff *ctx, __s32 by, __u32 mode, __u64 flags);
long bpf_skb_vlan_pop(struct __sk_buff *ctx);
long bpf_skb_change_type(struct __sk_buff *ctx, __u32 type);
struct bpf_sock *bpf_sk_lookup_tcp(void *ctx, struct bpf_sock_tuple *tuple, __u32 bytes, __u64 namespace, __u64 flags);
struct bpf_sock *bpf_skc_lookup_tcp(void *ctx, struct bpf_sock_tuple *tuple, __u32 bytes, __u64 namespace, __u64 flags);
long bpf_sk_release(void *socket);
long bpf_sk_assign(void *ctx, void *socket, __u64 flags);

#endif
