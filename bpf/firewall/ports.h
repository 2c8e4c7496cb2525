/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Interfaces and their zones. */
#ifndef RAMPART_FIREWALL_PORTS_H
#define RAMPART_FIREWALL_PORTS_H

#include "kernel.h"

struct port ports[MAX_PORTS];

/* Where frames are redirected to: the key is the port's place in `ports`. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} port_devices SEC(".maps");

/* By the port's place in `ports`. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, struct link_addresses);
} link_addresses SEC(".maps");

/* The place of an interface in `ports`, or -1. User space puts it within PORT_PROBES of its number. */
static __always_inline int port_of(__u32 ifindex)
{
	for (__u32 i = 0; i < PORT_PROBES; i++) {
		__u32 place = (ifindex + i) & (MAX_PORTS - 1);

		if (ports[place].ifindex == ifindex)
			return place;
	}
	return -1;
}

/* The zone of the interface that a packet came in by, or goes out by. NO_ZONE: none. */
static __always_inline __u8 zone_of(__u32 ifindex)
{
	int port = port_of(ifindex);

	return port < 0 ? NO_ZONE : ports[port & (MAX_PORTS - 1)].zone;
}

#endif
