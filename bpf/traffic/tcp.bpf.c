// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The bench's TCP client and server: entry points only. Each stage is a header in tcp/. */
#include "tcp/open.h"
#include "tcp/bare.h"

SEC("xdp")
int client_turn(struct xdp_md *ctx)
{
	return client_send(ctx);
}

SEC("xdp")
int client(struct xdp_md *ctx)
{
	return client_receive(ctx);
}

SEC("xdp")
int server(struct xdp_md *ctx)
{
	return server_receive(ctx);
}

SEC("xdp")
int bare_turn(struct xdp_md *ctx)
{
	return bare_open(ctx);
}

SEC("xdp")
int bare_client(struct xdp_md *ctx)
{
	return bare_answer(ctx, 0);
}

SEC("xdp")
int bare_server(struct xdp_md *ctx)
{
	return bare_answer(ctx, 1);
}

/* Never used: makes the build derive Rust types of what no map names. */
struct {
	enum traffic_sizes shared;
	enum tcp_sizes own;
	enum offer offer;
} layouts;

char _license[] SEC("license") = "Dual MIT/GPL";
