/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Probe frames: each turn sends the next of a list that user space wrote, and the sink keeps the beginning of each that
 * arrives. They prove a firewall's policy. */
#ifndef RAMPART_TRAFFIC_FRAMES_PROBE_H
#define RAMPART_TRAFFIC_FRAMES_PROBE_H

#include "state.h"

static __always_inline int send_next_probe(struct xdp_md *ctx)
{
	__u32 number = __sync_fetch_and_add(&probe_next, 1);
	struct probe *probe = &probes[number & (MAX_PROBES - 1)];
	void *data, *end;

	if (number >= MAX_PROBES || probe->bytes == 0 || probe->bytes > PROBE_FRAME_BYTES)
		return XDP_DROP;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + PROBE_FRAME_BYTES > end)
		return XDP_ABORTED;
	__builtin_memcpy(data, probe->frame, PROBE_FRAME_BYTES);
	if (bpf_xdp_adjust_tail(ctx, (int)probe->bytes - PROBE_FRAME_BYTES))
		return XDP_ABORTED;
	return bpf_redirect_map(&ports, probe->port, 0);
}

static __always_inline void receive_probe(struct xdp_md *ctx, __u8 number)
{
	struct arrival *arrival = &arrivals[number & (MAX_PROBES - 1)];

	/* The count last: whoever sees it finds the head whole. */
	if (arrival->count == 0)
		bpf_xdp_load_bytes(ctx, 0, arrival->head, ARRIVAL_BYTES);
	__sync_fetch_and_add(&arrival->count, 1);
}

#endif
