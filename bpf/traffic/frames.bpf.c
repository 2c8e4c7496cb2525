// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The generator and the sink of frames: entry points only. Each stage is a header in frames/. */
#include "frames/generate.h"
#include "frames/probe.h"
#include "frames/sink.h"
#include "frames/bare.h"
#include "frames/drops.h"

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	return generate_frame(ctx);
}

/* The sinks of the zones' ports, which differ in the zone's number alone: interfaces of two namespaces may have one index. */
SEC("xdp")
int sink_private(struct xdp_md *ctx)
{
	return receive_frame(ctx, 0, true);
}

SEC("xdp")
int sink_dmz(struct xdp_md *ctx)
{
	return receive_frame(ctx, 1, true);
}

SEC("xdp")
int sink_hostile(struct xdp_md *ctx)
{
	return receive_frame(ctx, 2, true);
}

/* The same for links with jumbo frames, which arrive in several pieces; the stamp is always in the first. */
SEC("xdp.frags")
int jumbo_sink_private(struct xdp_md *ctx)
{
	return receive_frame(ctx, 0, false);
}

SEC("xdp.frags")
int jumbo_sink_dmz(struct xdp_md *ctx)
{
	return receive_frame(ctx, 1, false);
}

SEC("xdp.frags")
int jumbo_sink_hostile(struct xdp_md *ctx)
{
	return receive_frame(ctx, 2, false);
}

SEC("xdp")
int send_probe(struct xdp_md *ctx)
{
	return send_next_probe(ctx);
}

SEC("xdp")
int bare_generate(struct xdp_md *ctx)
{
	return bare_send(ctx);
}

SEC("xdp")
int bare_sink(struct xdp_md *ctx __attribute__((unused)))
{
	return bare_receive();
}

SEC("raw_tracepoint/kfree_skb")
int count_drop(struct bpf_raw_tracepoint_args *ctx)
{
	return count_freed_frame(ctx);
}

/* Never used: makes the build derive Rust types of what no map names. */
struct {
	enum traffic_sizes shared;
	enum frame_sizes own;
} layouts;

char _license[] SEC("license") = "Dual MIT/GPL";
