/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What differs between the hooks for whoever changes a packet. Everything here is inlined with a constant hook, so that only
 * one side of each question is left in a program.
 */
#ifndef RAMPART_FIREWALL_HOOK_H
#define RAMPART_FIREWALL_HOOK_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include "packet.h"

static __always_inline void *hook_data(void *ctx, enum hook hook)
{
	return hook == HOOK_XDP ? (void *)(long)((struct xdp_md *)ctx)->data
				: (void *)(long)((struct __sk_buff *)ctx)->data;
}

static __always_inline void *hook_end(void *ctx, enum hook hook)
{
	return hook == HOOK_XDP ? (void *)(long)((struct xdp_md *)ctx)->data_end
				: (void *)(long)((struct __sk_buff *)ctx)->data_end;
}

static __always_inline __u32 hook_frame_bytes(void *ctx, enum hook hook)
{
	return hook == HOOK_XDP ? (__u32)bpf_xdp_get_buff_len(ctx) : ((struct __sk_buff *)ctx)->len;
}

static __always_inline long hook_load(void *ctx, enum hook hook, __u32 offset, void *to, __u32 bytes)
{
	return hook == HOOK_XDP ? bpf_xdp_load_bytes(ctx, offset, to, bytes)
				: bpf_skb_load_bytes(ctx, offset, to, bytes);
}

static __always_inline long hook_store(void *ctx, enum hook hook, const void *from, __u32 bytes)
{
	return hook == HOOK_XDP ? bpf_xdp_store_bytes(ctx, 0, (void *)from, bytes)
				: bpf_skb_store_bytes(ctx, 0, from, bytes, 0);
}

/* Makes so many bytes of a socket buffer readable at once, if it has them. */
static __always_inline void pull_up_to(struct __sk_buff *ctx, __u32 bytes)
{
	if ((void *)(long)ctx->data + bytes > (void *)(long)ctx->data_end)
		bpf_skb_pull_data(ctx, ctx->len < bytes ? ctx->len : bytes);
}

/* Whether a redirect was taken: both hooks' helpers return the action. */
static __always_inline bool hook_redirected(enum hook hook, long action)
{
	return action == (hook == HOOK_XDP ? XDP_REDIRECT : TCX_REDIRECT);
}

#endif
