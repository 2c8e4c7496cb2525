/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Bridges of more than two interfaces. Before anything of a frame is judged, it is found out to which interface it goes; from then on the
 * bridge is a wire between two for it (bridge.h), and all that follows is the same.
 *
 * Where a station is, an Ethernet address in a VLAN, is learned from its frames. What goes to a station that is not known, or to a group, goes to TC,
 * comes in once more for each of the other interfaces (a copy), and is judged for that one. Copies open no flow: a flow has one zone at each
 * end, and which of several that is, nobody knows yet.
 *
 * An address that is heard at one interface while it is at another is refused there, until it has been silent for a moment. It has a home,
 * where it was before it moved, for ten minutes: a thief of the address of somebody who is silent has it until its owner speaks, and not again for
 * five. A frame that comes back through a loop of cables is refused by the same rule.
 *
 * An interface has a share of each set. In there its oldest station makes room, so many addresses behind one interface take nothing from the
 * others. A station that has moved is of the share of its home, or a thief could have it forgotten.
 */
#ifndef RAMPART_FIREWALL_STATIONS_H
#define RAMPART_FIREWALL_STATIONS_H

#include "arithmetic.h"
#include "bridge.h"
#include "hash.h"
#include "link.h"
#include "log.h"
#include "reconsider.h"

#define STATION_QUIET 3		/* beats for which one must not have been seen before it can be elsewhere in its zone */
#define STATION_QUIET_ZONE 30	/* and in another zone */
#define STATION_CLAIM 300	/* during which a station that came home stays there */
#define STATION_SETTLED 600	/* after which it is at home where it is */
#define STATION_STALE 300	/* after which one makes room for those of other interfaces */
#define STATION_TAKEN (~0ULL)	/* the key while a state is written: nobody's */
#define FLOOD_INTERVAL (100000ULL << MOMENT_SHIFT)	/* frames for all interfaces from one: 10,000 a second */
#define FLOOD_AHEAD (2047 * FLOOD_INTERVAL)
#define FLOOD_WORD 0xf100d	/* any: what the mark of copies is made of */
#define FLOOD_PLACE 0xff	/* of the mark: the place in `ports` that a copy is for */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, STATION_SETS);
	__type(key, __u32);
	__type(value, struct station_set);
} stations SEC(".maps");

/* The moments from which the next frame for all of an interface would come in time, by its place in `ports`. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, __u64);
} flood_due SEC(".maps");

static __always_inline __u32 beat_now(void)
{
	return whole_tick() >> STATION_BEAT;
}

/* Beats since one of so many bits. Another core's clock may be ahead of ours. */
static __always_inline __u32 beats_since(__u32 beat, __u32 then, __u32 bits)
{
	__u64 passed = (beat - then) & ((1U << bits) - 1);

	return passed * is_zero(passed >> (bits - 1));
}

static __always_inline __u32 station_place(__u64 state)
{
	return state & STATION_PLACE;
}

static __always_inline __u32 station_home(__u64 state)
{
	return state >> STATION_HOME_SHIFT & STATION_PLACE;
}

static __always_inline __u32 since_seen(__u64 state, __u32 beat)
{
	return beats_since(beat, state >> STATION_SEEN_SHIFT, STATION_SEEN_BITS);
}

static __always_inline __u32 since_moved(__u64 state, __u32 beat)
{
	return beats_since(beat, state >> STATION_MOVED_SHIFT, STATION_MOVED_BITS);
}

static __always_inline __u64 station_state(__u64 place, __u64 home, __u64 is_claimed, __u64 moved, __u64 seen)
{
	return place | home << STATION_HOME_SHIFT | is_claimed * STATION_CLAIMED |
	       (moved & ((1U << STATION_MOVED_BITS) - 1)) << STATION_MOVED_SHIFT | seen << STATION_SEEN_SHIFT;
}

static __always_inline __u32 set_of(__u64 key)
{
	return mix(secret[0], key) >> 32 & (STATION_SETS - 1);
}

/* What is known of a station; 0: nothing, because a station that was seen at the first beat of the machine does not occur. */
__noinline __u64 state_of_station(__u64 key)
{
	const struct station_set *set = lookup(&stations, set_of(key));

	if (!set)
		return 0;
	for (int i = 0; i < STATION_WAYS; i++) {
		__u64 state;

		if (READ_ONCE(set->key[i]) != key)
			continue;
		state = READ_ONCE(set->state[i]);
		/* It may be another's by now. */
		return READ_ONCE(set->key[i]) == key ? state : 0;
	}
	return 0;
}

/* For how long a station must not have been seen before it can be at another place. */
static __always_inline __u32 quiet_between(__u32 at, __u32 place)
{
	return ports[at & (MAX_PORTS - 1)].zone == ports[place & (MAX_PORTS - 1)].zone ? STATION_QUIET : STATION_QUIET_ZONE;
}

/* What is known of a station that is heard at a place; 0: it is refused there. */
static __always_inline __u64 heard_at(__u64 state, __u32 place, __u32 beat)
{
	__u32 at = station_place(state), home = station_home(state);
	__u64 is_claimed = (state & STATION_CLAIMED) != 0, moved = state >> STATION_MOVED_SHIFT;

	if (at == place) {
		if (home == at || since_moved(state, beat) < STATION_SETTLED)
			return station_state(at, home, is_claimed, moved, beat);
		return station_state(at, at, 0, moved, beat);
	}
	if (place == home)
		return station_state(home, home, 1, beat, beat);
	if ((is_claimed && since_moved(state, beat) < STATION_CLAIM) || since_seen(state, beat) < quiet_between(at, place))
		return 0;
	return station_state(place, home, 0, beat, beat);
}

/* The way of a set that a new station of a place takes; STATION_WAYS: none. */
static __always_inline __u64 way_for(const struct station_set *set, __u32 place, __u32 beat)
{
	__u64 empty = STATION_WAYS, stale = STATION_WAYS, oldest = STATION_WAYS, age_of_oldest = 0, own = 0;

	for (__u64 i = 0; i < STATION_WAYS; i++) {
		__u64 state = READ_ONCE(set->state[i]), is_empty = is_zero(READ_ONCE(set->key[i]));
		__u64 is_own = (is_empty ^ 1) & is_zero(station_home(state) ^ place), age = since_seen(state, beat) + 1;
		__u64 is_older = is_own & is_smaller(age_of_oldest, age);

		own += is_own;
		empty = choose(is_empty, i, empty);
		stale = choose((is_empty ^ 1) & is_smaller(STATION_STALE, age), i, stale);
		oldest = choose(is_older, i, oldest);
		age_of_oldest = choose(is_older, age, age_of_oldest);
	}
	if (own >= STATION_SHARE)
		return oldest;
	if (empty < STATION_WAYS)
		return empty;
	return stale < STATION_WAYS ? stale : oldest;
}

/* A station that is heard for the first time. */
__noinline int learn_station(__u64 key, __u32 place, __u32 beat)
{
	struct station_set *set = lookup(&stations, set_of(key));
	__u64 way, before;

	if (!set)
		return 0;
	way = way_for(set, place, beat);
	barrier_var(way);
	if (way >= STATION_WAYS)
		return 0;
	before = READ_ONCE(set->key[way]);
	/* Nobody finds it while its state is written. */
	if (before == STATION_TAKEN || __sync_val_compare_and_swap(&set->key[way], before, STATION_TAKEN) != before)
		return 0;
	__sync_lock_test_and_set(&set->state[way], station_state(place, place, 0, beat, beat));
	__sync_lock_test_and_set(&set->key[way], key);
	return 0;
}

/* Writes what is known of a station, unless another core has written it meanwhile. */
static __always_inline void renew_station(__u64 key, __u64 old, __u64 renewed)
{
	struct station_set *set = lookup(&stations, set_of(key));

	if (!set)
		return;
	for (int i = 0; i < STATION_WAYS; i++) {
		if (READ_ONCE(set->key[i]) != key)
			continue;
		__sync_val_compare_and_swap(&set->state[i], old, renewed);
		break;
	}
}

/* A station is heard at a place. 0, or it is refused there. */
__noinline int hear_station(__u64 key, __u32 place)
{
	__u64 state = state_of_station(key), renewed;
	__u32 beat = beat_now();

	if (!state) {
		learn_station(key, place, beat);
		return 0;
	}
	renewed = heard_at(state, place, beat);
	if (!renewed)
		return REASON_STATION;
	if (renewed != state)
		renew_station(key, state, renewed);
	return 0;
}

/* Who sends a frame and who is to have it. */
struct stations_of {
	__u64 source;
	__u64 destination;
	__u64 network;	/* upper bits of a key: bridge and VLAN */
};

static __always_inline __u16 vlan_taken(void *ctx, const enum hook hook)
{
	return hook == HOOK_TC ? ((struct __sk_buff *)ctx)->vlan_tci & VLAN_ID : 0;
}

/* Reads them. 0, or why not. */
static __always_inline int read_stations(void *ctx, const struct bridge *bridge, const enum hook hook, struct stations_of *found)
{
	const struct ethernet *ethernet = hook_data(ctx, hook);
	const __u16 *words = (const void *)ethernet, *tag = (const void *)(ethernet + 1);
	__u32 vlan = vlan_taken(ctx, hook), word;

	if ((void *)(ethernet + 1) > hook_end(ctx, hook))
		return REASON_TRUNCATED;
	found->destination = link_destination(ethernet);
	found->source = words[3] | (__u64)words[4] << 16 | (__u64)words[5] << 32;
	if (!vlan && (ethernet->type == bpf_htons(ETHERTYPE_VLAN) || ethernet->type == bpf_htons(ETHERTYPE_PROVIDER_VLAN))) {
		if ((void *)(tag + 1) > hook_end(ctx, hook))
			return REASON_TRUNCATED;
		vlan = bpf_ntohs(*tag) & VLAN_ID;
	}
	word = vlan / 64;
	barrier_var(word);
	if (word >= VLAN_WORDS || (vlan && !(bridge->vlans[word] >> vlan % 64 & 1)))
		return REASON_VLAN;
	/* A group sends nothing. */
	if (found->source & 1 || !found->source)
		return REASON_STATION;
	found->network = (__u64)bridge->number << STATION_BRIDGE_SHIFT | (__u64)vlan << STATION_VLAN_SHIFT;
	return 0;
}

/* Whether an interface of this bridge is at a place. */
static __always_inline bool is_of_bridge(__u32 place, __u32 number)
{
	const struct bridge *bridge = lookup(&bridges, place);

	return bridge && bridge->number == number && ports[place & (MAX_PORTS - 1)].ifindex;
}

/* Marks of copies. Nobody else on this machine can guess one. */
static __always_inline __u32 copy_mark(void)
{
	return (__u32)mix(secret[0], FLOOD_WORD) & ~FLOOD_PLACE;
}

/* The place that a copy is for, or -1: it is none. */
static __always_inline int take_copy(struct __sk_buff *ctx)
{
	__u32 mark = ctx->mark;

	if ((mark & ~FLOOD_PLACE) != copy_mark())
		return -1;
	ctx->mark = 0;
	return mark & FLOOD_PLACE;
}

/* A copy for each of the other interfaces comes in once more where the frame came in. */
static __always_inline enum verdict copy_to_all(struct __sk_buff *ctx, struct packet *p, const struct bridge *bridge)
{
	__u64 *due = lookup(&flood_due, p->port);

	if (!due || !is_in_time(due, moment(), FLOOD_INTERVAL, FLOOD_AHEAD))
		return drop(p, REASON_FLOOD);
	for (int i = 0; i < BRIDGE_OTHERS; i++) {
		__u32 other = bridge->others[i];

		if (!other)
			break;
		ctx->mark = copy_mark() | ((other - 1) & FLOOD_PLACE);
		if (bpf_clone_redirect(ctx, ctx->ifindex, BPF_F_INGRESS))
			count_drop(REASON_REDIRECT);
	}
	return VERDICT_COPIED;
}

/* A copy is for an interface; its frame was looked at before. */
static __always_inline enum verdict choose_way_of_copy(struct packet *p, const struct bridge *bridge, __u32 place)
{
	if (!is_of_bridge(place, bridge->number))
		return drop(p, REASON_NOT_A_PORT);
	p->way = place;
	p->is_copy = 1;
	p->flags |= PACKET_STATELESS;
	return VERDICT_NEXT;
}

/* Finds out by which interface a frame leaves: fills in `way`. VERDICT_UP: at TC it will be known. */
static __always_inline enum verdict choose_way(void *ctx, struct packet *p, const enum hook hook)
{
	const struct bridge *bridge = lookup(&bridges, p->port);
	int place = hook == HOOK_TC ? take_copy(ctx) : -1, reason;
	struct stations_of found;
	__u64 state;

	if (!bridge)
		return drop(p, REASON_NOT_A_PORT);
	reason = read_stations(ctx, bridge, hook, &found);
	if (reason)
		return drop(p, reason);
	if (place >= 0)
		return choose_way_of_copy(p, bridge, place);
	reason = hear_station(found.network | found.source, p->port);
	if (reason)
		return drop(p, reason);
	state = found.destination & 1 ? 0 : state_of_station(found.network | found.destination);
	place = station_place(state);
	if (state && place == p->port)
		return drop(p, REASON_NOT_OURS);
	if (state && is_of_bridge(place, bridge->number)) {
		p->way = place;
		return VERDICT_NEXT;
	}
	return hook == HOOK_TC ? copy_to_all(ctx, p, bridge) : VERDICT_UP;
}

__noinline int choose_way_xdp(struct xdp_md *ctx, struct packet *p)
{
	return p ? choose_way(ctx, p, HOOK_XDP) : VERDICT_DROP;
}

__noinline int choose_way_tc(struct __sk_buff *ctx, struct packet *p)
{
	return p ? choose_way(ctx, p, HOOK_TC) : VERDICT_DROP;
}

/* The zone where the sender of a frame was at home before it moved; NO_ZONE: it has not. */
static __always_inline int zone_of_home(void *ctx, const struct packet *p, const enum hook hook)
{
	const struct bridge *bridge = lookup(&bridges, p->port);
	struct stations_of found;
	__u64 state;

	if (!bridge || !bridge->number || read_stations(ctx, bridge, hook, &found))
		return NO_ZONE;
	state = state_of_station(found.network | found.source);
	if (!state || !is_of_bridge(station_home(state), bridge->number))
		return NO_ZONE;
	return ports[station_home(state) & (MAX_PORTS - 1)].zone;
}

__noinline int zone_of_home_xdp(struct xdp_md *ctx, struct packet *p)
{
	return p ? zone_of_home(ctx, p, HOOK_XDP) : NO_ZONE;
}

__noinline int zone_of_home_tc(struct __sk_buff *ctx, struct packet *p)
{
	return p ? zone_of_home(ctx, p, HOOK_TC) : NO_ZONE;
}

/* An end of a flow sends from another zone than its own. It may if its station has moved from there, and the policy allows the flow as it is now. */
static __always_inline bool follow_station(void *ctx, struct packet *p, struct flow *flow, const enum hook hook)
{
	__u32 side = p->side & 1;

	if ((hook != HOOK_XDP && hook != HOOK_TC) || ports[p->port & (MAX_PORTS - 1)].bridged_to != BRIDGED_TO_MANY)
		return 0;
	if ((hook == HOOK_XDP ? zone_of_home_xdp(ctx, p) : zone_of_home_tc(ctx, p)) != flow->zone[side] ||
	    reconsider_sender(p, flow) != VERDICT_NEXT)
		return 0;
	flow->zone[side] = p->from;
	return 1;
}

#endif
