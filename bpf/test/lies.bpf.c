// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Lying firewalls for tests: a forwarder that routes honestly between its links, enforces a policy, and lies about frames in exactly one
 * way. Each lie would make a firewall look faster or safer than it is. The policy: servers' ports end at 49151, nothing comes from two
 * listed addresses, and, where it keeps state, servers only answer. At the traffic-control hook, because XDP cannot copy a frame. Lies
 * about named fields are for IPv4 alone; in IPv6 bytes are flipped. Never part of the bench itself.
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "../net/headers.h"
#include "../traffic/frames/stamp.h"
#include "ends.h"
#include "hop.h"
#include "only.h"

#define TOS_AT (ETHERNET_BYTES + 1)
#define ID_AT (ETHERNET_BYTES + 4)
#define PROTOCOL_AT (ETHERNET_BYTES + 9)
#define SOURCE_AT (ETHERNET_BYTES + 12)
#define DESTINATION_AT (ETHERNET_BYTES + 16)
#define SOURCE_PORT_AT (ETHERNET_BYTES + IPV4_BYTES)
#define DESTINATION_PORT_AT (SOURCE_PORT_AT + 2)
#define UDP_CHECK_AT (SOURCE_PORT_AT + 6)
#define STAMP_AT (SOURCE_PORT_AT + UDP_BYTES)
#define PORTS_AT_V6 (ETHERNET_BYTES + IPV6_BYTES)
#define DESTINATION_AT_V6 (ETHERNET_BYTES + 24)
#define NEXT_HEADER_AT (ETHERNET_BYTES + 6)
#define DMZ_V4 0xc6138000	/* 198.19.128.0, 17 bits long */
#define DMZ_V6 3		/* the fourth group of 2001:2:0:3:: */
#define DMZ_WAY 0		/* no interface has this number */
#define KEPT_BYTES 2048
#define KEPT_FRAMES 64
#define LAST_SERVER_PORT 49151
#define KNOWN_PORT 60000	/* that the proof of a policy uses */
#define LISTED_PRIVATE 0xc61200fa	/* 198.18.0.250 */
#define LISTED_PUBLIC 0x2d010203	/* 45.1.2.3 */
#define PRIVATE_V4 0xc6120000	/* 198.18.0.0, 16 bits long */
#define PRIVATE_V6 1		/* the fourth group of 2001:2:0:1:: */
#define TRANSLATION 0xa2520000	/* turns 198.18.0.0/16 into 100.64.0.0/16 */
#define MAX_FLOWS 4096
#define BUSY_FRAMES 300		/* in 10 ms: 30,000 a second */
#define WINDOW_NS 10000000ULL
#define SILENCE_NS 50000000ULL	/* between two trials */
#define ETHERTYPE_VLAN 0x8100

/* Mirrored by `Lie` in tests/lies/rows.rs, in its order. */
enum lie {
	HONEST, SENDS_BACK, ECHOES, SENDS_OLD, SENDS_OTHER_CORES, REPLAYS, FLIPS, LEAVES_TTL, TAKES_TWO_TTL, CHANGES_TOS,
	CHANGES_SOURCE, CHANGES_DESTINATION, CHANGES_SOURCE_PORT, CHANGES_DESTINATION_PORT, CHANGES_ID, CLEARS_FLAGS,
	CHANGES_UDP_CHECK, CUTS, EXTENDS, FORGES_SEQUENCE, FORGES_TIME, SWAPS_STAMPS, DUPLICATES, HIDES_DROPS, ALLOWS_ONE_IN,
	ALLOWS_WHEN_BUSY, DROPS, BREAKS_IP_CHECK, INVENTS, SENDS_TO_DMZ, MAKES_UP_FOR_TOS,
	MAKES_UP_FOR_TTL, SENDS_BACK_UNTURNED, IGNORES_LISTS_WHEN_BUSY, FORGETS_FLOWS_WHEN_BUSY, FILTERS_ONE_PORT, ALLOWS_AT_FIRST,
	ALLOWS_TO_SOME, COPIES_TO_DMZ, ZEROES_UDP_CHECK, TRANSLATES, TRANSLATES_HALF, ADDS_OPTIONS, ADDS_VLAN, ADDS_VLAN_TWICE,
	ADDS_PRIORITY, ALLOWS_ONCE_SEEN
};

/* Which frames are lied about. */
enum which { ALL_FRAMES, SECOND_FRAGMENTS, TO_DMZ };

/* When. A firewall that was proved and calibrated may know that it was. */
enum when {
	ALWAYS,
	AFTER_FRAMES,	/* honest for as many as a proof and a calibration have */
	AFTER_TIME,	/* honest in the first tenth of a second of a trial */
	BUSY,	/* honest up to 30,000 frames/s */
	NEW_FLOWS	/* honest to flows whose first frame came in the trial before */
};
#define PROVED_FRAMES 5000
#define HONEST_NS 100000000ULL

struct setting {
	__u32 lie;
	__u32 every;	/* one in so many frames is lied about */
	__u32 where;	/* FLIPS: byte of the frame. SENDS_OLD: how many frames ago at least */
	__u32 which;	/* an enum which */
	__u32 keeps_state;
	__u32 when;	/* an enum when */
};

struct kept {
	__u8 bytes[KEPT_BYTES];
	__u32 used;
};

/* What the lying firewall remembers. Frames of one core come one after the other. */
struct memory {
	__u64 frames;
	__u64 lies;
	__u64 forbidden;
	__u64 window_ns;
	__u64 in_window;
	__u64 kept;
	__u64 last_ns;
	__u64 began_ns;	/* when frames came after a silence */
	__u64 seen;
};

/* Whom a client asked. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_FLOWS);
	__type(key, struct both_ends);
	__type(value, __u32);
} asked SEC(".maps");

/* Flows of an honest trial; see NEW_FLOWS. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_FLOWS);
	__type(key, struct both_ends);
	__type(value, __u32);
} proved SEC(".maps");

/* What the policy looks at. */
struct sides {
	struct both_ends key;
	bool answers;	/* from a server */
	bool has_ports;
};

ONLY(struct setting, settings);

ONLY(struct memory, memories);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, KEPT_FRAMES);
	__type(key, __u32);
	__type(value, struct kept);
} kept_frames SEC(".maps");

static __always_inline void keep(struct __sk_buff *skb, __u32 slot)
{
	struct kept *kept = bpf_map_lookup_elem(&kept_frames, &slot);
	__u32 bytes = skb->len;

	barrier_var(bytes);
	if (!kept || bytes == 0 || bytes > KEPT_BYTES)
		return;
	bpf_skb_load_bytes(skb, 0, kept->bytes, bytes);
	kept->used = bytes;
}

/* Makes the frame one that was kept, if any was. */
static __always_inline bool become_kept(struct __sk_buff *skb, __u32 slot)
{
	struct kept *kept = bpf_map_lookup_elem(&kept_frames, &slot);
	__u32 bytes = kept ? kept->used : 0;

	barrier_var(bytes);
	if (!kept || bytes == 0 || bytes > KEPT_BYTES || bytes != skb->len)
		return false;
	bpf_skb_store_bytes(skb, 0, kept->bytes, bytes, 0);
	return true;
}

/* Changes two bytes of the IP header, and its checksum with them. */
static __always_inline void change_ip(struct __sk_buff *skb, __u32 at, __be16 flip)
{
	__be16 old, new;

	bpf_skb_load_bytes(skb, at, &old, 2);
	new = old ^ flip;
	bpf_skb_store_bytes(skb, at, &new, 2, 0);
	bpf_l3_csum_replace(skb, CHECK_AT_V4, old, new, 2);
}

static __always_inline void change_bytes(struct __sk_buff *skb, __u32 at, __be16 flip)
{
	__be16 old;

	bpf_skb_load_bytes(skb, at, &old, 2);
	old ^= flip;
	bpf_skb_store_bytes(skb, at, &old, 2, 0);
}

static __always_inline void add_to_stamp(struct __sk_buff *skb, __u32 at, __u32 add)
{
	__u32 word;

	bpf_skb_load_bytes(skb, STAMP_AT + at, &word, 4);
	word += add;
	bpf_skb_store_bytes(skb, STAMP_AT + at, &word, 4, 0);
}

static __always_inline void swap_stamps(struct __sk_buff *skb)
{
	__u8 stamp[24] = {};
	__u32 slot = 1;
	struct kept *kept = bpf_map_lookup_elem(&kept_frames, &slot);

	if (!kept)
		return;
	bpf_skb_load_bytes(skb, STAMP_AT, stamp, STAMP_BYTES);
	if (kept->used)
		bpf_skb_store_bytes(skb, STAMP_AT, kept->bytes, STAMP_BYTES, 0);
	__builtin_memcpy(kept->bytes, stamp, STAMP_BYTES);
	kept->used = STAMP_BYTES;
}

/* Turns the packet round, as whoever it was sent to would answer it. */
static __always_inline void turn_round(struct __sk_buff *skb)
{
	__be32 source, destination;
	__be16 source_port, destination_port;

	bpf_skb_load_bytes(skb, SOURCE_AT, &source, 4);
	bpf_skb_load_bytes(skb, DESTINATION_AT, &destination, 4);
	bpf_skb_load_bytes(skb, SOURCE_PORT_AT, &source_port, 2);
	bpf_skb_load_bytes(skb, DESTINATION_PORT_AT, &destination_port, 2);
	bpf_skb_store_bytes(skb, SOURCE_AT, &destination, 4, 0);
	bpf_skb_store_bytes(skb, DESTINATION_AT, &source, 4, 0);
	bpf_skb_store_bytes(skb, SOURCE_PORT_AT, &destination_port, 2, 0);
	bpf_skb_store_bytes(skb, DESTINATION_PORT_AT, &source_port, 2, 0);
}

static __always_inline void notice_load(struct memory *memory)
{
	__u64 now = bpf_ktime_get_ns();

	if (now - memory->window_ns > WINDOW_NS) {
		memory->window_ns = now;
		memory->in_window = 0;
	}
	memory->in_window++;
	memory->seen++;
	if (now - memory->last_ns > SILENCE_NS)
		memory->began_ns = now;
	memory->last_ns = now;
}

/* Sends the frame to where it came from; `addresses` are those that it came with. */
static __always_inline int send_back(struct __sk_buff *skb, const __u8 *addresses)
{
	__u8 turned[12];

	__builtin_memcpy(turned, addresses + 6, 6);
	__builtin_memcpy(turned + 6, addresses, 6);
	bpf_skb_store_bytes(skb, 0, turned, 12, 0);
	return bpf_redirect(skb->ingress_ifindex, 0);
}

/* Puts four bytes of options, which do nothing, behind the IPv4 header. */
static __always_inline void add_options(struct __sk_buff *skb)
{
	__u32 nothing = bpf_htonl(0x01010101);
	__be16 head, bytes, longer;

	if (bpf_skb_adjust_room(skb, 4, BPF_ADJ_ROOM_NET, 0))
		return;
	bpf_skb_load_bytes(skb, ETHERNET_BYTES, &head, 2);
	bpf_skb_load_bytes(skb, BYTES_AT, &bytes, 2);
	longer = bpf_htons(bpf_ntohs(bytes) + 4);
	bpf_skb_store_bytes(skb, SOURCE_PORT_AT, &nothing, 4, 0);
	change_ip(skb, ETHERNET_BYTES, bpf_htons(0x0300));
	bpf_skb_store_bytes(skb, BYTES_AT, &longer, 2, 0);
	bpf_l3_csum_replace(skb, CHECK_AT_V4, bytes, longer, 2);
	bpf_l3_csum_replace(skb, CHECK_AT_V4, 0, bpf_htons(0x0101), 2);
	bpf_l3_csum_replace(skb, CHECK_AT_V4, 0, bpf_htons(0x0101), 2);
}

/* Gives a frame the source that it should have behind the firewall, and its checksums; that of UDP if `whole`. */
static __always_inline void translate(struct __sk_buff *skb, bool whole)
{
	__be32 old, new;
	__u16 check;

	bpf_skb_load_bytes(skb, SOURCE_AT, &old, 4);
	new = old ^ bpf_htonl(TRANSLATION);
	bpf_skb_store_bytes(skb, SOURCE_AT, &new, 4, 0);
	bpf_l3_csum_replace(skb, CHECK_AT_V4, old, new, 4);
	bpf_skb_load_bytes(skb, UDP_CHECK_AT, &check, 2);
	if (whole && check)
		bpf_l4_csum_replace(skb, UDP_CHECK_AT, old, new, BPF_F_PSEUDO_HDR | BPF_F_MARK_MANGLED_0 | 4);
}

/* Does to a frame what the lie is. Returns false if the frame is gone. */
static __always_inline bool lie(struct __sk_buff *skb, const struct way *way, const struct setting *now, struct memory *memory)
{
	__u32 dmz_way = DMZ_WAY;
	const struct way *dmz = bpf_map_lookup_elem(&ways, &dmz_way);
	__u16 none = 0;
	__u64 back;

	switch (now->lie) {
	case DROPS:
		return false;
	case SENDS_OLD:
		/* The ring of kept frames is filled once; what is in it is soon as old as the trial. */
		back = memory->lies % KEPT_FRAMES;
		if (memory->kept >= KEPT_FRAMES && memory->frames > now->where)
			become_kept(skb, back);
		return true;
	case SENDS_OTHER_CORES:
	case REPLAYS:
		become_kept(skb, memory->lies % KEPT_FRAMES);
		return true;
	case FLIPS:
		change_bytes(skb, now->where, bpf_htons(0x0400));
		return true;
	case LEAVES_TTL:
		add_hops(skb, 1);
		return true;
	case TAKES_TWO_TTL:
		add_hops(skb, -1);
		return true;
	case CHANGES_TOS:
		change_ip(skb, TOS_AT - 1, bpf_htons(0x0010));
		return true;
	case CHANGES_SOURCE:
		change_ip(skb, SOURCE_AT + 2, bpf_htons(0x0001));
		return true;
	case CHANGES_DESTINATION:
		change_ip(skb, DESTINATION_AT + 2, bpf_htons(0x0001));
		return true;
	case CHANGES_SOURCE_PORT:
		change_bytes(skb, SOURCE_PORT_AT, bpf_htons(0x0001));
		return true;
	case CHANGES_DESTINATION_PORT:
		change_bytes(skb, DESTINATION_PORT_AT, bpf_htons(0x0001));
		return true;
	case CHANGES_ID:
		change_ip(skb, ID_AT, bpf_htons(0x1234));
		return true;
	case CLEARS_FLAGS:
		change_ip(skb, FRAGMENT_AT, bpf_htons(0x4000));
		return true;
	case CHANGES_UDP_CHECK:
		change_bytes(skb, UDP_CHECK_AT, bpf_htons(0x1234));
		return true;
	case BREAKS_IP_CHECK:
		change_bytes(skb, CHECK_AT_V4, bpf_htons(0x0100));
		return true;
	/* In two fields, so that the checksum stays right. */
	case MAKES_UP_FOR_TOS:
		change_bytes(skb, TOS_AT - 1, bpf_htons(0x0010));
		change_bytes(skb, ID_AT, bpf_htons(0xffef));
		return true;
	case MAKES_UP_FOR_TTL:
		change_bytes(skb, FRAGMENT_AT, bpf_htons(0x4000));
		change_bytes(skb, TTL_AT_V4, bpf_htons(0x4000));
		return true;
	case CUTS:
		bpf_skb_change_tail(skb, skb->len - 4, 0);
		return true;
	case EXTENDS:
		bpf_skb_change_tail(skb, skb->len + 4, 0);
		return true;
	case FORGES_SEQUENCE:
		add_to_stamp(skb, 8, 1000000);
		return true;
	case FORGES_TIME:
		add_to_stamp(skb, 12, 1000);
		return true;
	case SWAPS_STAMPS:
		swap_stamps(skb);
		return true;
	case COPIES_TO_DMZ:
		if (dmz)
			bpf_clone_redirect(skb, dmz->ifindex, 0);
		return true;
	case ZEROES_UDP_CHECK:
		bpf_skb_store_bytes(skb, UDP_CHECK_AT, &none, 2, 0);
		return true;
	case ADDS_OPTIONS:
		add_options(skb);
		return true;
	case ADDS_VLAN_TWICE:
		bpf_skb_vlan_push(skb, bpf_htons(ETHERTYPE_VLAN), 6);
		bpf_skb_vlan_push(skb, bpf_htons(ETHERTYPE_VLAN), 5);
		return true;
	case ADDS_VLAN:
		bpf_skb_vlan_push(skb, bpf_htons(ETHERTYPE_VLAN), 5);
		return true;
	case ADDS_PRIORITY:
		/* Of VLAN 0, as a card adds it that knows of priorities. */
		bpf_skb_vlan_push(skb, bpf_htons(ETHERTYPE_VLAN), 7 << 13);
		return true;
	case DUPLICATES:
		bpf_clone_redirect(skb, way->ifindex, 0);
		return true;
	case HIDES_DROPS:
		bpf_clone_redirect(skb, way->ifindex, 0);
		return true;
	case INVENTS:
		bpf_clone_redirect(skb, way->ifindex, 0);
		add_to_stamp(skb, 8, 77);
		return true;
	}
	return true;
}

/* What the liars that send other frames than those at hand remember of this one. */
static __always_inline void remember(struct __sk_buff *skb, const struct setting *now, struct memory *memory)
{
	__u64 who = 0;

	if (memory->kept >= KEPT_FRAMES)
		return;
	if (now->lie == SENDS_OTHER_CORES) {
		bpf_skb_load_bytes(skb, STAMP_AT, &who, 8);
		if (stamp_core(who) != 1)
			return;
	} else if (now->lie != SENDS_OLD && now->lie != HONEST) {
		return;
	}
	keep(skb, memory->kept++);
}

static __always_inline bool is_for_dmz(struct __sk_buff *skb)
{
	__be32 address = 0;
	__be16 group = 0;

	if (skb->protocol == bpf_htons(ETHERTYPE_IPV6)) {
		bpf_skb_load_bytes(skb, DESTINATION_AT_V6 + 6, &group, 2);
		return group == bpf_htons(DMZ_V6);
	}
	bpf_skb_load_bytes(skb, DESTINATION_AT, &address, 4);
	return (bpf_ntohl(address) & 0xffff8000) == DMZ_V4;
}

/* Whether it is a fragment behind the first, which has no ports. */
static __always_inline bool is_second_fragment(struct __sk_buff *skb)
{
	__be16 offset = 0;
	__u8 next = 0;

	if (skb->protocol == bpf_htons(ETHERTYPE_IPV4)) {
		bpf_skb_load_bytes(skb, FRAGMENT_AT, &offset, 2);
		return offset & bpf_htons(0x1fff);
	}
	bpf_skb_load_bytes(skb, NEXT_HEADER_AT, &next, 1);
	bpf_skb_load_bytes(skb, PORTS_AT_V6 + 2, &offset, 2);
	return next == PROTOCOL_FRAGMENT && (offset & bpf_htons(0xfff8));
}

static __always_inline bool is_for_private(struct __sk_buff *skb)
{
	__be32 address = 0;
	__be16 group = 0;

	if (skb->protocol == bpf_htons(ETHERTYPE_IPV6)) {
		bpf_skb_load_bytes(skb, DESTINATION_AT_V6 + 6, &group, 2);
		return group == bpf_htons(PRIVATE_V6);
	}
	bpf_skb_load_bytes(skb, DESTINATION_AT, &address, 4);
	return (bpf_ntohl(address) & 0xffff0000) == PRIVATE_V4;
}

/* Reads who speaks to whom. False for what is neither UDP nor a fragment of it. */
static __always_inline bool read_sides(struct __sk_buff *skb, struct sides *sides)
{
	bool is_v4 = skb->protocol == bpf_htons(ETHERTYPE_IPV4);
	__u32 ports_at = is_v4 ? SOURCE_PORT_AT : PORTS_AT_V6;
	__be32 source = 0, destination = 0;
	__be16 ports[2] = {};
	__u8 next = 0;

	bpf_skb_load_bytes(skb, is_v4 ? PROTOCOL_AT : NEXT_HEADER_AT, &next, 1);
	if (next == PROTOCOL_FRAGMENT) {
		bpf_skb_load_bytes(skb, PORTS_AT_V6, &next, 1);
		ports_at += FRAGMENT_BYTES;
	}
	if (next != PROTOCOL_UDP)
		return false;
	sides->answers = is_for_private(skb);
	sides->has_ports = !is_second_fragment(skb);
	bpf_skb_load_bytes(skb, is_v4 ? SOURCE_AT : DESTINATION_AT_V6 - 4, &source, 4);
	bpf_skb_load_bytes(skb, is_v4 ? DESTINATION_AT : DESTINATION_AT_V6 + 12, &destination, 4);
	bpf_skb_load_bytes(skb, ports_at, ports, 4);
	sides->key.client = sides->answers ? destination : source;
	sides->key.server = sides->answers ? source : destination;
	sides->key.client_port = sides->answers ? ports[1] : ports[0];
	sides->key.server_port = sides->answers ? ports[0] : ports[1];
	return true;
}

/* What the policy forbids of a frame: enum forbidden_kind, or -1. Second fragments pass, because a stateless firewall cannot judge them. */
static __always_inline int forbidden_kind(struct __sk_buff *skb, const struct setting *now)
{
	struct sides sides = {};
	__be32 source = 0;
	__u32 one = 1;

	if (!read_sides(skb, &sides) || !sides.has_ports)
		return -1;
	bpf_skb_load_bytes(skb, SOURCE_AT, &source, 4);
	if (skb->protocol == bpf_htons(ETHERTYPE_IPV4) &&
	    (source == bpf_htonl(LISTED_PRIVATE) || source == bpf_htonl(LISTED_PUBLIC)))
		return FORBIDDEN_SOURCE;
	if (bpf_ntohs(sides.key.server_port) > LAST_SERVER_PORT)
		return FORBIDDEN_PORT;
	if (!now->keeps_state)
		return -1;
	if (sides.answers)
		return bpf_map_lookup_elem(&asked, &sides.key) ? -1 : FORBIDDEN_ANSWER;
	bpf_map_update_elem(&asked, &sides.key, &one, BPF_ANY);
	return -1;
}

/* Whether the firewall lies at this moment. */
static __always_inline bool is_time(const struct setting *now, const struct memory *memory)
{
	switch (now->when) {
	case AFTER_FRAMES:
		return memory->seen > PROVED_FRAMES;
	case AFTER_TIME:
		return memory->last_ns - memory->began_ns > HONEST_NS;
	case BUSY:
		return memory->in_window > BUSY_FRAMES;
	}
	return true;
}

/* Whether a frame is of a flow that was there in the trial before, which had no lie. What is new is remembered then. */
static __always_inline bool is_proved(struct __sk_buff *skb, const struct setting *now)
{
	struct sides sides = {};
	__u32 one = 1;

	if (!read_sides(skb, &sides))
		return true;
	if (now->lie == HONEST)
		bpf_map_update_elem(&proved, &sides.key, &one, BPF_ANY);
	return bpf_map_lookup_elem(&proved, &sides.key);
}

/* Whether a forbidden frame is let through. */
static __always_inline bool lets_through(struct __sk_buff *skb, const struct setting *now, struct memory *memory, int kind)
{
	bool busy = memory->in_window > BUSY_FRAMES;
	__be16 port = 0;
	__u8 host = 0;

	if (now->which == TO_DMZ && !is_for_dmz(skb))
		return false;
	memory->forbidden++;
	if (!is_time(now, memory))
		return false;
	switch (now->lie) {
	case ALLOWS_ONE_IN:
		return now->every && memory->forbidden % now->every == 0;
	case ALLOWS_ONCE_SEEN:
		return memory->forbidden > 3;
	case ALLOWS_WHEN_BUSY:
		return busy;
	case IGNORES_LISTS_WHEN_BUSY:
		return busy && kind == FORBIDDEN_SOURCE;
	case FORGETS_FLOWS_WHEN_BUSY:
		return busy && kind == FORBIDDEN_ANSWER;
	case FILTERS_ONE_PORT:
		bpf_skb_load_bytes(skb, DESTINATION_PORT_AT, &port, 2);
		return kind == FORBIDDEN_PORT && port != bpf_htons(KNOWN_PORT);
	case ALLOWS_AT_FIRST:
		return memory->last_ns - memory->began_ns < WINDOW_NS;
	case ALLOWS_TO_SOME:
		bpf_skb_load_bytes(skb, DESTINATION_AT + 3, &host, 1);
		return (host & 3) == 0;
	}
	return false;
}

/* Whether the lie is about frames like this one, and it is this one's turn. */
static __always_inline bool is_chosen(struct __sk_buff *skb, const struct setting *now, struct memory *memory)
{
	if (now->which == SECOND_FRAGMENTS && !is_second_fragment(skb))
		return false;
	if (now->which == TO_DMZ && !is_for_dmz(skb))
		return false;
	if (!is_time(now, memory) || (now->when == NEW_FLOWS && is_proved(skb, now)))
		return false;
	return now->every && ++memory->frames % now->every == 0;
}

SEC("tc")
int forward(struct __sk_buff *skb)
{
	__u32 from = is_for_dmz(skb) ? DMZ_WAY : skb->ingress_ifindex, dmz = DMZ_WAY;
	struct setting *now = only(&settings);
	struct memory *memory = only(&memories);
	int kind;
	bool chosen;
	struct way *way = bpf_map_lookup_elem(&ways, &from);
	__u8 addresses[12] = {};

	if (!now || !memory || !way)
		return TC_ACT_SHOT;
	if (skb->protocol != bpf_htons(ETHERTYPE_IPV4) && skb->protocol != bpf_htons(ETHERTYPE_IPV6))
		return TC_ACT_SHOT;
	notice_load(memory);
	kind = forbidden_kind(skb, now);
	if (kind >= 0 && !lets_through(skb, now, memory, kind))
		return TC_ACT_SHOT;
	bpf_skb_load_bytes(skb, 0, addresses, 12);
	take_hop(skb, way);
	remember(skb, now, memory);
	chosen = is_chosen(skb, now, memory);
	if (now->lie == TRANSLATES || now->lie == TRANSLATES_HALF)
		translate(skb, !chosen);
	if (!chosen) {
		/* The frame after each that is sent twice is lost. */
		if (now->lie == HIDES_DROPS && memory->lies && memory->frames % now->every == 1)
			return TC_ACT_SHOT;
		return bpf_redirect(way->ifindex, 0);
	}
	memory->lies++;
	if (now->lie == SENDS_TO_DMZ) {
		way = bpf_map_lookup_elem(&ways, &dmz);
		if (!way)
			return TC_ACT_SHOT;
		bpf_skb_store_bytes(skb, 0, way->destination, 12, 0);
		return bpf_redirect(way->ifindex, 0);
	}
	/* To the Ethernet address of the right port. */
	if (now->lie == SENDS_BACK_UNTURNED)
		return bpf_redirect(skb->ingress_ifindex, 0);
	if (now->lie == SENDS_BACK || now->lie == ECHOES) {
		if (now->lie == ECHOES)
			turn_round(skb);
		return send_back(skb, addresses);
	}
	if (!lie(skb, way, now, memory))
		return TC_ACT_SHOT;
	return bpf_redirect(way->ifindex, 0);
}

char _license[] SEC("license") = "Dual MIT/GPL";
