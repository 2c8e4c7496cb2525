// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Somebody else's program in a driver: it lets everything pass. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int pass(struct xdp_md *ctx __attribute__((unused)))
{
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual MIT/GPL";
