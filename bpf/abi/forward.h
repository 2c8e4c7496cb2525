/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What forwarding and answering share with user space. The only home of these layouts: the Rust types are derived from
 * this file's BTF by the build. Addresses are in network order; an IPv4 address is the first word, and the others are 0.
 */
#ifndef RAMPART_ABI_FORWARD_H
#define RAMPART_ABI_FORWARD_H

#include <linux/types.h>

#define MAX_LOCAL_ADDRESSES 4096
#define FORWARDING_PORTS 256	/* MAX_PORTS of abi/firewall.h */
#define MAX_OWN_ADDRESSES 256	/* interfaces */

enum forwarding_times {
	ATTENDED_SHIFT = 10,	/* so that 32 bits last for 146 years */
};

/* One for all cores; user space writes it. */
struct forwarding {
	/* Routes that were remembered under another number are asked for again. User space adds one after every change
	 * of routes, neighbours, links and addresses, and ports. */
	__u32 generation;
	/* Begins the Ethernet header of packets that XDP hands to `resolve`: as good as a password, because whatever
	 * carries it is sent on unseen. 0: nothing is handed. */
	__u32 mark[2];
	/* Nanoseconds that one answer uses up of a core's time for answers, and how many may come at once: TCP resets,
	 * then ICMP errors. An interval of 0 means no limit. */
	__u32 answer_interval[2];
	__u32 answer_burst[2];
	/* Bit n % 32 of word n / 32: the device of port n takes frames from XDP and is in the device map. The others are
	 * reached by way of `resolve`. */
	__u32 takes_frames[FORWARDING_PORTS / 32];
	/* When user space last followed the kernel's announcements, in units of 2^ATTENDED_SHIFT ticks, about a second; 0: it does
	 * not say. */
	__u32 attended;
};

/* Value of `local_addresses`. */
enum local_kind {
	LOCAL_OWN = 1,		/* an address of the firewall itself */
	LOCAL_BROADCAST = 2,	/* everybody on one of its links */
};

/* An address of the firewall itself, or a broadcast address: key of `local_addresses`. */
struct address {
	__be32 words[4];
	__u32 ip_version;	/* 4 or 6 */
	__u32 zero;
} __attribute__((aligned(8)));

/* Whom ICMP errors come from: value of `own_addresses`, whose key is the interface that the packet arrived at. All 0:
 * the interface has none, nothing is answered there. */
struct own_addresses {
	__be32 v4;
	__be32 v6[4];
};

_Static_assert(sizeof(struct forwarding) == 64, "no padding");
_Static_assert(sizeof(struct address) == 24, "keys have no padding");

#endif
