// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A lying firewall for tests: it routes honestly between two links, but hands every frame to a thread of another core (a cpumap), so that
 * the core of the trial seems to need next to nothing for it, however much work a frame is. IPv4 only. Never part of the bench itself.
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "hop.h"

struct {
	__uint(type, BPF_MAP_TYPE_CPUMAP);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, struct bpf_cpumap_val);
} workers SEC(".maps");

/* The core that does the work. */
const volatile __u32 worker = 1;

#define READINGS 100	/* of the clock, for each frame: some microseconds of work */

static long read_clock(__u32 turn __attribute__((unused)), __u64 *now)
{
	*now = bpf_ktime_get_ns();
	return 0;
}

SEC("xdp")
int hand_over(struct xdp_md *ctx __attribute__((unused)))
{
	return bpf_redirect_map(&workers, worker, XDP_DROP);
}

SEC("xdp/cpumap")
int work(struct xdp_md *ctx)
{
	struct ethernet *ethernet = (void *)(long)ctx->data;
	struct ipv4 *ip = (void *)(ethernet + 1);
	__u32 from = ctx->ingress_ifindex, sum;
	__u64 now = 0;
	struct way *way = bpf_map_lookup_elem(&ways, &from);

	if (!way || (void *)(ip + 1) > (void *)(long)ctx->data_end || ethernet->type != bpf_htons(ETHERTYPE_IPV4))
		return XDP_DROP;
	bpf_loop(READINGS, read_clock, &now, 0);
	__builtin_memcpy(ethernet, way->destination, 12);
	/* One less in the high byte of its word is one more in that byte of the checksum (RFC 1141). */
	sum = ip->check + bpf_htons(0x0100);
	ip->check = sum + (sum >> 16);
	ip->ttl--;
	return bpf_redirect(way->ifindex, 0);
}

char _license[] SEC("license") = "Dual MIT/GPL";
