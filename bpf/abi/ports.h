/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the firewall's data plane shares with user space about its interfaces: abi/firewall.h, which includes this. */
#ifndef RAMPART_ABI_PORTS_H
#define RAMPART_ABI_PORTS_H

#include "firewall.h"

/* The Ethernet addresses for which an interface takes frames, as words: the first four bytes, then the other two. Its own is the first;
 * the others are of the bridge or bond that it belongs to and of interfaces on top of it. Unused places repeat the first. */
struct link_addresses {
	__u64 address[LINK_ADDRESSES];
	__u32 ifindex;		/* 0: nothing is here */
	__u32 pad;
};

_Static_assert(sizeof(struct link_addresses) == 128, "two cache lines, of which the first is nearly always enough");

/* An interface of a zone; found by the lower bits of its number and those after it. Its place is its key in the DEVMAP. */
struct port {
	__u32 ifindex;		/* 0: none */
	__u8 zone;
	__u8 is_layer_3;	/* its packets have no Ethernet header: tun, WireGuard, PPP, tunnels */
	__u16 bridged_to;	/* the place of the other interface of its bridge, and 1; BRIDGED_TO_NONE: that is not there; BRIDGED_TO_MANY; 0: no bridge */
	__u64 address;		/* its own Ethernet address, the first of its struct link_addresses; 0: not known yet */
};

/* What crosses a bridge without being judged, besides IP: struct bridge. */
enum bridge_passes {
	BRIDGE_ARP = 1,
	BRIDGE_NEIGHBOURS = 2,		/* neighbour discovery and multicast listeners of IPv6 */
	BRIDGE_SPANNING_TREE = 4,
	BRIDGE_OTHER = 8,		/* every other protocol that is not IP */
};

/* The bridge of an interface. */
struct bridge {
	__u64 vlans[VLAN_WORDS];	/* bit n % 64 of word n / 64: frames of the VLAN n cross, and are judged like those of none */
	__u64 passes;			/* of enum bridge_passes */
	__u16 others[BRIDGE_OTHERS];	/* of a bridge of more than two: places of the other interfaces, and 1; 0: no more */
	__u16 number;			/* of such a bridge, from 1 on; 0: of two interfaces, or none */
};

/*
 * Ethernet addresses behind the interfaces of bridges of more than two (firewall/stations.h). A key is the address, its VLAN above it and the
 * number of its bridge above that; 0: nobody. The state is the place in `ports` where the station is (8 bits), that where it is at home (8), whether two
 * have claimed it (1), when it last moved (23) and when it was last seen (24), in beats of 2^STATION_BEAT ticks.
 */
struct station_set {
	__u64 key[STATION_WAYS];
	__u64 state[STATION_WAYS];
};

enum station_bits {
	STATION_BEAT = 10,
	STATION_VLAN_SHIFT = 48,
	STATION_BRIDGE_SHIFT = 60,
	STATION_PLACE = 0xff,
	STATION_HOME_SHIFT = 8,
	STATION_CLAIMED = 1 << 16,
	STATION_MOVED_SHIFT = 17,
	STATION_MOVED_BITS = 23,
	STATION_SEEN_SHIFT = 40,
	STATION_SEEN_BITS = 24,
};

#endif
