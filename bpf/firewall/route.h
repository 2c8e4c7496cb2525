/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Where packets to an address go: what the kernel's routes and neighbours say, remembered. A route here depends on the
 * destination alone: rules that look at sources, marks or interfaces are asked as for a packet that this machine sends,
 * and of several equal next hops each destination keeps one.
 *
 * The kernel's own forwarding stays off: bpf_fib_lookup wants it only of the interface that it is asked for, and that is
 * the loopback interface here, the only one where user space turns it on. So nothing is forwarded but by this firewall,
 * dead or alive.
 *
 * Asking costs 120 ns (IPv4) and 220 ns (IPv6), so answers are remembered: in one table the few next hops that there are, in
 * another for each destination which of them it is. The latter is kept small, 8 bytes for an IPv4 address, because beyond
 * the processor's own cache a look-up costs as much as asking. There is no lock: within a generation the place of a next hop
 * keeps its meaning, an IPv4 destination is one word, and the rest carries a sum over itself, so that what two cores
 * were writing, or what was read half written, is as if it were not there.
 */
#ifndef RAMPART_FIREWALL_ROUTE_H
#define RAMPART_FIREWALL_ROUTE_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "../abi/forward.h"
#include "ports.h"
#include "verdict.h"

#define FAMILY_IPV4 2	/* AF_INET and AF_INET6, of sys/socket.h */
#define FAMILY_IPV6 10
#define LOOPBACK_IFINDEX 1	/* in every network namespace (LOOPBACK_IFINDEX of the kernel's net/flow.h) */

enum route_kind {
	ROUTE_FORWARD = 1,
	ROUTE_UNRESOLVED = 2,	/* the next hop's Ethernet address is not known yet, or it has none */
	ROUTE_LOCAL = 3,	/* the firewall's own address, broadcast or multicast */
	ROUTE_NONE = 4,
	ROUTE_UNREACHABLE = 5,	/* the route says so: `ip route add unreachable` */
	ROUTE_PROHIBITED = 6,
	ROUTE_BLACKHOLE = 7,
	ROUTE_DISABLED = 8,	/* the loopback interface does not forward: the firewall is not set up */
	ROUTE_UNSUPPORTED = 9,	/* a tunnel inside a route */
};

/* route.kind: kind and what else is known of the interface. */
#define ROUTE_KIND 0x1f
#define ROUTE_LAYER_3 0x20	/* its link has no Ethernet headers, and so no neighbours to be found */
#define ROUTE_IS_PORT 0x40	/* it belongs to a zone */
#define ROUTE_TAKES_FRAMES 0x80	/* from XDP; otherwise they go by way of `resolve` */

/* The interface is 0 unless the route forwards. */
struct route {
	__u32 generation;
	__u32 ifindex;
	__u32 macs[3];	/* of the next hop, then our own, as they begin a frame */
	__u16 mtu;	/* largest IP packet */
	__u8 kind;
	__u8 port;	/* the interface's place in `ports`; of no meaning without ROUTE_IS_PORT */
} __attribute__((aligned(8)));

#define ROUTE_WORDS 3
_Static_assert(sizeof(struct route) == ROUTE_WORDS * 8, "a route is moved as whole words");

#define UNATTENDED (1U << 31)	/* of a number under which routes are remembered: nobody follows the kernel's announcements */
#define ATTENDED_FOR 5		/* units of 2^ATTENDED_SHIFT ticks: four to five seconds after the last look of user space, nobody does */
#define ATTENDED_BITS ((1U << (ERA_TICKS + 6 - ATTENDED_SHIFT)) - 1)	/* those that a packet's tick and its era have */
#define UNATTENDED_SHIFT 10	/* about a second, for which routes are remembered then */

#define HOP_BITS 12
#define HOPS (1 << HOP_BITS)
#define HOP_PROBES 4
#define V4_BITS 17
#define V6_BITS 15

/* One cache line. A next hop in use is never overwritten in its generation. */
struct hop {
	__u64 claim;	/* generation << 32 | part of the sum: whoever swaps it in may write the rest */
	__u64 route[ROUTE_WORDS];
	__u64 check;
	__u64 unused[3];
};

/* IPv6 destinations; `hop` is generation << 32 | the place of the next hop and 1. */
struct route_v6 {
	__u64 address[2];
	__u64 hop;
	__u64 check;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct forwarding);
} forwarding SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HOPS);
	__type(key, __u32);
	__type(value, struct hop);
} hops SEC(".maps");

/* IPv4 destinations: generation << 32 | those bits of the scrambled address that the place does not tell << 16 | the place
 * of the next hop and 1. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << V4_BITS);
	__type(key, __u32);
	__type(value, __u64);
} routes_v4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << V6_BITS);
	__type(key, __u32);
	__type(value, struct route_v6);
} routes_v6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_LOCAL_ADDRESSES);
	__type(key, struct address);
	__type(value, __u32);
} local_addresses SEC(".maps");

static __always_inline const struct forwarding *forwarding_now(void)
{
	return lookup(&forwarding, 0);
}

/* Differences in upper bits show in upper bits alone: places are taken from there. */
static __always_inline __u64 words_check(const __u64 *words, int count)
{
	__u64 sum = 0x9e3779b97f4a7c15;

	for (int i = 0; i < count; i++)
		sum = (sum ^ words[i]) * 0xd6e8feb86659fd93;
	return sum | 1;
}

/* A next hop by its place and 1. Returns 0 unless it is one of this generation. */
static __always_inline bool hop_read(__u32 place, __u32 generation, struct route *route)
{
	const struct hop *hop = place ? lookup(&hops, place - 1) : 0;
	__u64 *words = (void *)route;

	if (!hop)
		return 0;
	for (int i = 0; i < ROUTE_WORDS; i++)
		words[i] = READ_ONCE(hop->route[i]);
	return route->generation == generation && READ_ONCE(hop->check) == words_check(words, ROUTE_WORDS);
}

/* Finds or makes the place of a next hop. Returns it and 1, or 0 when there is none. */
static __always_inline __u32 hop_place(const struct route *route)
{
	const __u64 *words = (const void *)route;
	__u64 check = words_check(words, ROUTE_WORDS);
	__u64 claim = (__u64)route->generation << 32 | check >> 32;

	for (__u32 i = 0; i < HOP_PROBES; i++) {
		__u32 place = ((check >> (64 - HOP_BITS)) + i) & (HOPS - 1);
		struct hop *hop = lookup(&hops, place);
		__u64 found = hop ? READ_ONCE(hop->claim) : 0;

		if (!hop || (found != claim && found >> 32 == route->generation))
			continue;
		if (found != claim && __sync_val_compare_and_swap(&hop->claim, found, claim) != found)
			continue;
		/* Whoever has the same claim writes the same. */
		for (int word = 0; word < ROUTE_WORDS; word++)
			WRITE_ONCE(hop->route[word], words[word]);
		WRITE_ONCE(hop->check, check);
		return place + 1;
	}
	return 0;
}

/* Scrambles an IPv4 address so that nothing of it is lost: the factor is odd. */
static __always_inline __u32 scrambled(__be32 address)
{
	return address * 0x9e3779b1;
}

static __always_inline __u32 v6_place(const __u64 *halves)
{
	__u64 hash = halves[0] * 0x9e3779b97f4a7c15;

	return ((hash ^ hash >> 32) + halves[1]) * 0xd6e8feb86659fd93 >> (64 - V6_BITS);
}

/* The place of the next hop of a destination, and 1; 0 when it is not remembered. */
static __always_inline __u32 route_recall_v4(__be32 address, __u32 generation)
{
	__u32 scramble = scrambled(address), rest = scramble & ((1 << (32 - V4_BITS)) - 1);
	const __u64 *slot = lookup(&routes_v4, scramble >> (32 - V4_BITS));
	__u64 found = slot ? READ_ONCE(*slot) : 0;

	return found >> 16 == ((__u64)generation << 16 | rest) ? found & 0xffff : 0;
}

static __always_inline __u32 route_recall_v6(const __u64 *halves, __u32 generation)
{
	const struct route_v6 *slot = lookup(&routes_v6, v6_place(halves));
	__u64 words[3];

	if (!slot)
		return 0;
	words[0] = READ_ONCE(slot->address[0]);
	words[1] = READ_ONCE(slot->address[1]);
	words[2] = READ_ONCE(slot->hop);
	if (words[0] != halves[0] || words[1] != halves[1] || words[2] >> 32 != generation ||
	    READ_ONCE(slot->check) != words_check(words, 3))
		return 0;
	return words[2] & 0xffff;
}

static __always_inline void route_remember_v4(__be32 address, __u32 generation, __u32 place)
{
	__u32 scramble = scrambled(address), rest = scramble & ((1 << (32 - V4_BITS)) - 1);
	__u64 *slot = lookup(&routes_v4, scramble >> (32 - V4_BITS));

	if (slot)
		WRITE_ONCE(*slot, (__u64)generation << 32 | rest << 16 | place);
}

static __always_inline void route_remember_v6(const __u64 *halves, __u32 generation, __u32 place)
{
	struct route_v6 *slot = lookup(&routes_v6, v6_place(halves));
	__u64 words[3] = { halves[0], halves[1], (__u64)generation << 32 | place };

	if (!slot)
		return;
	WRITE_ONCE(slot->address[0], words[0]);
	WRITE_ONCE(slot->address[1], words[1]);
	WRITE_ONCE(slot->hop, words[2]);
	WRITE_ONCE(slot->check, words_check(words, 3));
}

static __always_inline void address_of(const __be32 *words, __u8 family, struct address *address)
{
	for (int i = 0; i < 4; i++)
		address->words[i] = words[i];
	address->ip_version = family;
	address->zero = 0;
}

static __always_inline bool is_local(const struct address *address)
{
	/* On our own stack: Linux 6.1 takes no key from memory that a function was given. */
	struct address key = *address;
	__u32 first = bpf_ntohl(key.words[0]);

	if (key.ip_version == 4 ? first >> 28 == 0xe || first == ~0U : first >> 24 == 0xff)
		return 1;
	return bpf_map_lookup_elem(&local_addresses, &key) != 0;
}

/* Whether an IPv4 address means everybody on one of the firewall's links. */
static __always_inline bool is_link_broadcast(__be32 destination)
{
	const struct address address = { { destination }, 4, 0 };
	const __u32 *kind = bpf_map_lookup_elem(&local_addresses, &address);

	return kind && *kind == LOCAL_BROADCAST;
}

static __always_inline bool is_link_local(const struct address *address)
{
	return is_of_link(address->ip_version, address->words[0]);
}

static __always_inline enum route_kind kind_of_answer(long answer)
{
	switch (answer) {
	case BPF_FIB_LKUP_RET_SUCCESS:
		return ROUTE_FORWARD;
	case BPF_FIB_LKUP_RET_NO_NEIGH:
		return ROUTE_UNRESOLVED;
	case BPF_FIB_LKUP_RET_BLACKHOLE:
		return ROUTE_BLACKHOLE;
	case BPF_FIB_LKUP_RET_UNREACHABLE:
		return ROUTE_UNREACHABLE;
	case BPF_FIB_LKUP_RET_PROHIBIT:
		return ROUTE_PROHIBITED;
	case BPF_FIB_LKUP_RET_FWD_DISABLED:
		return ROUTE_DISABLED;
	case BPF_FIB_LKUP_RET_UNSUPP_LWT:
		return ROUTE_UNSUPPORTED;
	default:
		return ROUTE_NONE;
	}
}

static __always_inline void route_take(const struct bpf_fib_lookup *found, struct route *route)
{
	const __u16 *from = (const void *)found->dmac, *own = (const void *)found->smac;

	route->macs[0] = from[0] | (__u32)from[1] << 16;
	route->macs[1] = from[2] | (__u32)own[0] << 16;
	route->macs[2] = own[1] | (__u32)own[2] << 16;
	route->mtu = found->mtu_result;
}

/* Asks the kernel. Of a route without a neighbour it tells the interface only, so its MTU is asked for apart. */
static __always_inline void route_ask(void *ctx, const struct address *address, struct route *route)
{
	struct bpf_fib_lookup query = {};
	__u32 mtu = 0;

	query.family = address->ip_version == 4 ? FAMILY_IPV4 : FAMILY_IPV6;
	query.ifindex = LOOPBACK_IFINDEX;
	query.tot_len = 1;	/* any length: makes it tell the MTU of the route rather than that of the interface */
	for (int i = 0; i < 4; i++)
		query.ipv6_dst[i] = address->words[i];
	route->kind = kind_of_answer(bpf_fib_lookup(ctx, &query, sizeof(query), 0));
	if (route->kind == ROUTE_FORWARD) {
		route->ifindex = query.ifindex;
		route_take(&query, route);
	} else if (route->kind == ROUTE_UNRESOLVED) {
		route->ifindex = query.ifindex;
		route->mtu = bpf_check_mtu(ctx, query.ifindex, &mtu, 0, 0) < 0 ? 0xffff : mtu;
	}
}

/* Which port the interface is. */
static __always_inline void route_port(struct route *route)
{
	__u32 place = route->ifindex ? port_of(route->ifindex) : -1;
	const struct forwarding *now = forwarding_now();

	_Static_assert(FORWARDING_PORTS == MAX_PORTS, "a bit for each port");
	if (place >= MAX_PORTS)
		return;
	route->port = place;
	route->kind |= ROUTE_IS_PORT;
	if (now && now->takes_frames[place / 32] >> place % 32 & 1)
		route->kind |= ROUTE_TAKES_FRAMES;
	if (!ports[place].is_layer_3)
		return;
	if (route->kind == (ROUTE_UNRESOLVED | ROUTE_IS_PORT))
		route->kind = ROUTE_FORWARD | ROUTE_IS_PORT;
	route->kind |= ROUTE_LAYER_3;
}

/* Asks the kernel, and remembers every answer but "no neighbour", which the kernel is about to change. */
static __always_inline int route_learn(void *ctx, const struct address *address, struct route *route)
{
	__u32 place;

	if (is_local(address)) {
		route->kind = ROUTE_LOCAL;
	} else if (is_link_local(address)) {
		route->kind = ROUTE_NONE;
	} else {
		tally(TALLY_ROUTE_LOOKUPS, 1);
		route_ask(ctx, address, route);
		route_port(route);
	}
	if ((route->kind & ROUTE_KIND) == ROUTE_UNRESOLVED)
		return 0;
	place = hop_place(route);
	if (place && address->ip_version == 4)
		route_remember_v4(address->words[0], route->generation, place);
	else if (place)
		route_remember_v6((const void *)address->words, route->generation, place);
	return 0;
}

/* By themselves, because few packets ask. */
__noinline int route_learn_xdp(struct xdp_md *ctx, struct address *address, struct route *route)
{
	return address && route ? route_learn(ctx, address, route) : 0;
}

__noinline int route_learn_tc(struct __sk_buff *ctx, struct address *address, struct route *route)
{
	return address && route ? route_learn(ctx, address, route) : 0;
}

/*
 * The number under which routes are remembered now. User space changes it when the kernel announces something. When user space is dead,
 * nobody does, so it changes with the seconds: a route that moves, and a neighbour that has another address, are found again.
 */
static __always_inline __u32 route_generation(__u64 tick)
{
	const struct forwarding *now = forwarding_now();
	__u32 attended;

	if (!now)
		return 0;
	attended = READ_ONCE(now->attended);
	if (!attended || ((tick >> ATTENDED_SHIFT) - attended & ATTENDED_BITS) < ATTENDED_FOR)
		return READ_ONCE(now->generation);
	return UNATTENDED | (READ_ONCE(now->generation) + (__u32)(tick >> UNATTENDED_SHIFT));
}

/*
 * Finds the way to an address. Of a route that nobody attends to, the packet that asks goes through the kernel's neighbours, once a second:
 * so the kernel knows that the neighbour is in use, and asks whether it is still there.
 */
static __always_inline void route_find(void *ctx, struct address *address, __u64 tick, struct route *route, enum hook hook)
{
	/* Read before the kernel is asked: a change in between makes the answer old already. */
	__u32 generation = route_generation(tick), place;

	if (address->ip_version == 4)
		place = route_recall_v4(address->words[0], generation);
	else
		place = route_recall_v6((const void *)address->words, generation);
	if (hop_read(place, generation, route))
		return;
	*route = (struct route){ .generation = generation };
	if (hook == HOOK_XDP)
		route_learn_xdp(ctx, address, route);
	else
		route_learn_tc(ctx, address, route);
	if (generation & UNATTENDED && (route->kind & (ROUTE_KIND | ROUTE_LAYER_3)) == ROUTE_FORWARD)
		route->kind += ROUTE_UNRESOLVED - ROUTE_FORWARD;
}

#endif
