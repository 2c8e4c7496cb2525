/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What differs between the hooks for whoever changes a packet. Everything here is inlined with a constant hook, so that only
 * one side of each question is left in a program.
 */
#ifndef RAMPART_FIREWALL_HOOK_H
#define RAMPART_FIREWALL_HOOK_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

enum hook { HOOK_XDP, HOOK_TC };

#define ACTION_TC_NEXT -1	/* TC_ACT_UNSPEC, TCX_NEXT: whatever comes after decides */
#define ACTION_TC_DROP 2	/* TC_ACT_SHOT, TCX_DROP */

static __always_inline void *hook_data(void *context, enum hook hook)
{
	return hook == HOOK_XDP ? (void *)(long)((struct xdp_md *)context)->data
				: (void *)(long)((struct __sk_buff *)context)->data;
}

static __always_inline void *hook_end(void *context, enum hook hook)
{
	return hook == HOOK_XDP ? (void *)(long)((struct xdp_md *)context)->data_end
				: (void *)(long)((struct __sk_buff *)context)->data_end;
}

static __always_inline __u32 hook_frame_bytes(void *context, enum hook hook)
{
	return hook == HOOK_XDP ? (__u32)bpf_xdp_get_buff_len(context) : ((struct __sk_buff *)context)->len;
}

static __always_inline __u32 hook_ingress(void *context, enum hook hook)
{
	return hook == HOOK_XDP ? ((struct xdp_md *)context)->ingress_ifindex
				: ((struct __sk_buff *)context)->ifindex;
}

static __always_inline long hook_load(void *context, enum hook hook, __u32 offset, void *to, __u32 bytes)
{
	return hook == HOOK_XDP ? bpf_xdp_load_bytes(context, offset, to, bytes)
				: bpf_skb_load_bytes(context, offset, to, bytes);
}

static __always_inline long hook_store(void *context, enum hook hook, const void *from, __u32 bytes)
{
	return hook == HOOK_XDP ? bpf_xdp_store_bytes(context, 0, (void *)from, bytes)
				: bpf_skb_store_bytes(context, 0, from, bytes, 0);
}

static __always_inline int hook_drop(enum hook hook)
{
	return hook == HOOK_XDP ? XDP_DROP : ACTION_TC_DROP;
}

/* To the kernel's own stack. */
static __always_inline int hook_pass(enum hook hook)
{
	return hook == HOOK_XDP ? XDP_PASS : ACTION_TC_NEXT;
}

#endif
