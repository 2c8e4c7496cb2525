/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The bare live-frame loop that the generator and the sink are measured against: redirect, count, drop. */
#ifndef RAMPART_TRAFFIC_FRAMES_BARE_H
#define RAMPART_TRAFFIC_FRAMES_BARE_H

#include "../../net/headers.h"
#include "state.h"

struct bare_count {
	__u64 sent;
	__u64 received;
} __attribute__((aligned(64)));

struct bare_count bare[MAX_CORES];
/* 1: write a constant Ethernet and IPv4 header, which a forwarder between changes; 0: send the page as it is. */
__u32 bare_writes_header;

static __always_inline int bare_send(struct xdp_md *ctx)
{
	if (bare_writes_header) {
		void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

		if (data + 40 > end)
			return XDP_ABORTED;
		COPY_WORDS(data, control.lanes[0].header, 5);
	}
	bare[this_core()].sent++;
	return bpf_redirect_map(&ports, 0, 0);
}

static __always_inline int bare_receive(void)
{
	bare[this_core()].received++;
	return XDP_DROP;
}

#endif
