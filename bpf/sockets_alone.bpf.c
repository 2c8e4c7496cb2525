// SPDX-License-Identifier: GPL-2.0 OR MIT
/* For a firewall in user space that takes frames from packet sockets: they have their copy of a frame before the traffic-control
 * hook, and what the kernel's stack would do with the original is work for nothing. Left to the stack, every frame would end as one
 * that was dropped, and no loss ledger could balance; "stolen" frees it as one that somebody took.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* linux/pkt_cls.h, which bpf/include has not. */
#define TC_ACT_STOLEN 4

SEC("tc")
int take(struct __sk_buff *skb __attribute__((unused)))
{
	return TC_ACT_STOLEN;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
