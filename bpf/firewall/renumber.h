/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Flows that were opened by a cookie (cookie.h, proxy.h). Their client knows the server by numbers and timestamps that the firewall chose before it
 * knew the server's own; all that differs is kept here, beside the flow. Segments are changed on their way out: sequence numbers, acknowledgements,
 * SACK blocks, timestamps and windows. Everything that follows a connection (tcp.h) sees the server's numbers.
 */
#ifndef RAMPART_FIREWALL_RENUMBER_H
#define RAMPART_FIREWALL_RENUMBER_H

#include "../net/checksum.h"
#include "cookie.h"
#include "flows.h"
#include "hook.h"
#include "parse.h"

#define TCP_MOST_BYTES 60	/* of a header */
#define TCP_CHECK_PLACE 16
#define TCP_OPTION_MSS 2
#define TCP_OPTION_SACK_PERMITTED 4
#define TCP_OPTION_SACK 5
#define TCP_OPTION_STAMPS 8
#define MOST_SACK_BLOCKS 4
#define MOST_OPTIONS 40
#define OUR_SCALE 7		/* of the windows that clients are told: 128 bytes to 8 MiB */

/* What is known of a flow beside its record. */
struct proxied {
	__u32 number;		/* flow.number: of another use of the record it means nothing */
	__u32 cookie;		/* the server's first number, as the client was told */
	__u32 first;		/* the client's first number */
	__u32 stamp;		/* the server's timestamp, as the client was told */
	__u32 client_stamp;
	__u32 shift;		/* the server's numbers are so much more than those that the client knows; 0 until it has answered */
	__u32 stamp_shift;	/* the same of timestamps */
	__u16 window;		/* of the acknowledgement that brought the cookie */
	__u16 mss;
	__u8 scale;		/* the client's, or NO_SCALE */
	__u8 server_scale;
	__u8 has_sack;		/* both of the client */
	__u8 has_stamps;
};

/* By the flow's record. Made when a flow is, because few are: memory that a cookie opened is freed with its flow. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);	/* set before loading */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct proxied);
} proxied_flows SEC(".maps");

/* A segment of the firewall's own, in host order but for the options. */
struct segment {
	__u32 sequence;
	__u32 acknowledgement;
	__u32 flags;
	__u32 window;
	__be32 options[5];
};

/* A TCP header while it is looked at or changed. In a map, because the verifier would follow each turn of what is on a stack. */
struct proxy_room {
	__u8 tcp[128];		/* the header, and zeros behind it; longer, for the verifier */
	__u32 bytes;		/* of the header */
	__u32 at;		/* of an option */
	/* What its options say. */
	__u32 stamp;
	__u32 echo;
	__u16 mss;
	__u8 scale;
	__u8 has_sack;
	__u8 has_stamps;
	__u8 pad[3];
	/* By how much its options are changed. */
	__u32 blocks_by;
	__u32 stamp_by;
	__u32 echo_by;
	struct proxied opening;	/* of the flow that a cookie opens */
	struct segment segment;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct proxy_room);
} proxy_rooms SEC(".maps");

static __noinline struct proxy_room *proxy_room(void)
{
	return lookup(&proxy_rooms, 0);
}

/* What is kept beside a flow that a cookie opened; or null. */
static __always_inline struct proxied *proxied_of(const struct flow *flow, __u32 record)
{
	struct proxied *found = lookup(&proxied_flows, record & RECORD_MASK);

	return found && found->number == READ_ONCE(flow->number) ? found : 0;
}

static __always_inline __u32 shift_of(const struct flow *flow, __u32 record)
{
	const struct proxied *k = proxied_of(flow, record);

	return k ? k->shift : 0;
}

/* Its flow has ended. */
__noinline int forget_proxied(__u32 record)
{
	return bpf_map_delete_elem(&proxied_flows, &record);
}

static __always_inline __u32 read_word(const struct proxy_room *room, __u32 at)
{
	const __u8 *b = room->tcp + at;

	return (__u32)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
}

/* Options begin anywhere. */
static __always_inline void add_to_word(struct proxy_room *room, __u32 at, __u32 by)
{
	__u32 word = read_word(room, at) + by;
	__u8 *b = room->tcp + at;

	b[0] = word >> 24;
	b[1] = word >> 16;
	b[2] = word >> 8;
	b[3] = word;
}

/* Reads a segment's header into the room. 0, or it is not there. */
static __always_inline int load_header(void *ctx, const struct packet *p, struct proxy_room *room, const enum hook hook)
{
	__u64 *words = (void *)room->tcp, last;

	for (int i = 0; i < 8; i++)
		words[i] = 0;
	if (hook_load(ctx, hook, p->transport, room->tcp, TCP_BYTES))
		return -1;
	last = ((room->tcp[12] >> 4) << 2) - 1;
	barrier_var(last);
	if (last < TCP_BYTES - 1 || last >= TCP_MOST_BYTES)
		return -1;
	room->bytes = last + 1;
	return hook_load(ctx, hook, p->transport, room->tcp, last + 1);
}

static __always_inline void look_at_option(struct proxy_room *room, __u32 at, __u32 kind, __u32 bytes)
{
	if (kind == TCP_OPTION_MSS && bytes == 4) {
		room->mss = room->tcp[at + 2] << 8 | room->tcp[at + 3];
	} else if (kind == TCP_OPTION_WINDOW_SCALE && bytes == 3) {
		room->scale = room->tcp[at + 2] > MAX_SCALE ? MAX_SCALE : room->tcp[at + 2];
	} else if (kind == TCP_OPTION_SACK_PERMITTED && bytes == 2) {
		room->has_sack = 1;
	} else if (kind == TCP_OPTION_STAMPS && bytes == 10) {
		room->has_stamps = 1;
		add_to_word(room, at + 2, room->stamp_by);
		add_to_word(room, at + 6, room->echo_by);
		room->stamp = read_word(room, at + 2);
		room->echo = read_word(room, at + 6);
	} else if (kind == TCP_OPTION_SACK) {
		for (__u32 edge = 0; edge < 2 * MOST_SACK_BLOCKS; edge++)
			if (bytes >= 2 + 4 * (edge + 1))
				add_to_word(room, at + 2 + 4 * edge, room->blocks_by);
	}
}

struct option_search {
	struct proxy_room *room;
};

/* Looks at one more option. 1 ends the search. */
static int look_at_next(__u32 turn __attribute__((unused)), struct option_search *s)
{
	struct proxy_room *room = s->room;
	__u32 at = room->at, kind, bytes;

	barrier_var(at);
	if (at >= TCP_MOST_BYTES || at >= room->bytes)
		return 1;
	kind = room->tcp[at];
	bytes = kind == TCP_OPTION_NOTHING ? 1 : room->tcp[at + 1];
	if (kind == TCP_OPTION_END || !bytes || (kind != TCP_OPTION_NOTHING && bytes < 2) || at + bytes > room->bytes)
		return 1;
	look_at_option(room, at, kind, bytes);
	room->at = at + bytes;
	return 0;
}

/* Goes through the options of the header in the room, reads what they say, and changes them. */
__noinline int go_through_options(__u32 blocks_by, __u32 stamp_by, __u32 echo_by)
{
	struct option_search s = { .room = proxy_room() };

	if (!s.room)
		return 0;
	s.room->blocks_by = blocks_by;
	s.room->stamp_by = stamp_by;
	s.room->echo_by = echo_by;
	s.room->scale = NO_SCALE;
	s.room->mss = 0;
	s.room->has_sack = s.room->has_stamps = 0;
	s.room->at = TCP_BYTES;
	bpf_loop(MOST_OPTIONS, look_at_next, &s, 0);
	return 0;
}

/* A window in units of one scale, in those of another: never more than there is. */
static __always_inline __u32 rescaled(__u32 window, __u32 from, __u32 to)
{
	window = window << (from & 15) >> (to & 15);
	return window > 0xffff ? 0xffff : window;
}

/* In which units the windows of an end are, and in which the other end reads them. */
static __always_inline __u32 new_window(const struct proxied *k, __u32 window, bool is_clients)
{
	if (k->scale == NO_SCALE)
		return window;
	if (is_clients)
		return k->server_scale == NO_SCALE ? rescaled(window, k->scale, 0) : window;
	return rescaled(window, k->server_scale == NO_SCALE ? 0 : k->server_scale, OUR_SCALE);
}

static __always_inline __u32 sum_of_room(struct proxy_room *room)
{
	return bpf_csum_diff(0, 0, (__be32 *)room->tcp, 64, 0);
}

static __always_inline int store_header(void *ctx, const struct packet *p, struct proxy_room *room, __u32 by, const enum hook hook)
{
	__u64 last = room->bytes - 1;
	__u16 *check = (void *)(room->tcp + TCP_CHECK_PLACE);

	barrier_var(last);
	if (last >= TCP_MOST_BYTES)
		return -1;
	if (hook == HOOK_XDP) {
		*check = checksum_fold((__u16)~*check + checksum_word(by));
		return bpf_xdp_store_bytes(ctx, p->transport, room->tcp, last + 1);
	}
	/* The checksum may not be filled in yet, and then it stays as it is. */
	return bpf_skb_store_bytes(ctx, p->transport, room->tcp, last + 1, 0) ||
	       bpf_l4_csum_replace(ctx, p->transport + TCP_CHECK_PLACE, 0, by, 0);
}

/* Writes the numbers that its receiver knows into a segment of a flow that a cookie opened. 0, or it cannot be. */
static __always_inline int renumber(void *ctx, const struct packet *p, const struct flow *flow, const enum hook hook)
{
	bool is_clients = (p->side & 1) == (flow->initiator & 1);
	struct proxied *k = proxied_of(flow, p->record);
	struct proxy_room *room = proxy_room();
	__u32 before, window;
	__u64 by;

	/* What the firewall wrote itself has the right ones. */
	if (p->is_proxied || p->flags & PACKET_LATER_FRAGMENT)
		return 0;
	if (!k || !room || load_header(ctx, p, room, hook))
		return -1;
	before = sum_of_room(room);
	if (!is_clients)
		add_to_word(room, 4, -k->shift);
	else if (p->tcp_flags & TCP_ACK)
		add_to_word(room, 8, k->shift);
	if (!(p->tcp_flags & TCP_SYN)) {
		window = new_window(k, p->window, is_clients);
		room->tcp[14] = window >> 8;
		room->tcp[15] = window;
	}
	go_through_options(is_clients ? k->shift : 0, is_clients ? 0 : -k->stamp_shift,
			   is_clients && p->tcp_flags & TCP_ACK ? k->stamp_shift : 0);
	by = (__u64)sum_of_room(room) + (__u32)~before;
	return store_header(ctx, p, room, (by & 0xffffffff) + (by >> 32), hook);
}

/*
 * An ICMP error that goes to an end quotes what that end sent, as it left here: its number becomes the end's own again. Of what is
 * not quoted nothing is changed, and the error's own checksum is changed by the difference.
 */
static __always_inline int renumber_quote(void *ctx, const struct packet *p, const struct flow *flow, const enum hook hook)
{
	bool is_clients = (p->side & 1) != (flow->initiator & 1);
	struct frame f = { .data = hook_data(ctx, hook), .end = hook_end(ctx, hook), .ctx = ctx, .hook = hook };
	struct proxied *k = proxied_of(flow, p->record);
	__u32 at = p->transport + sizeof(struct icmp), by;
	__be32 *number, now;
	__u16 *check, before;
	struct ipv4 *v4;
	struct ipv6 *v6;
	struct icmp *icmp;

	/* The quote is in the error's first fragment. */
	if (p->flags & PACKET_LATER_FRAGMENT)
		return 0;
	if (!k)
		return -1;
	v4 = bytes_at(&f, at, IPV4_BYTES);
	v6 = bytes_at(&f, at, p->family == 4 ? IPV4_BYTES : IPV6_BYTES);
	if (!v4 || !v6)
		return -1;
	/* TCP behind extension headers is known by its ports alone; whoever gets it sees numbers that it does not know. */
	if (p->family == 6 && v6->next_header != PROTOCOL_TCP)
		return 0;
	at += p->family == 4 ? (v4->version_words & 15) << 2 : IPV6_BYTES;
	number = bytes_at(&f, at + (is_clients ? 8 : 4), 4);
	/* Eight bytes are always quoted, and the server is the one who looks at its number. */
	if (!number)
		return is_clients ? 0 : -1;
	now = bpf_htonl(bpf_ntohl(*number) + (is_clients ? -k->shift : k->shift));
	by = checksum_word(~*number) + checksum_word(now);
	*number = now;
	check = bytes_at(&f, at + TCP_CHECK_PLACE, 2);
	if (check) {
		before = *check;
		*check = checksum_fold((__u16)~before + by);
		by += (__u16)~before + *check;
	}
	icmp = bytes_at(&f, p->transport, sizeof(*icmp));
	if (!icmp)
		return -1;
	icmp->check = checksum_fold((__u16)~icmp->check + by);
	return 0;
}

/* By themselves, because few flows are opened by a cookie. */
__noinline int renumber_xdp(struct xdp_md *ctx, struct packet *p, struct flow *flow)
{
	if (!p || !flow)
		return -1;
	return p->flags & PACKET_ICMP_ERROR ? renumber_quote(ctx, p, flow, HOOK_XDP) : renumber(ctx, p, flow, HOOK_XDP);
}

__noinline int renumber_tc(struct __sk_buff *ctx, struct packet *p, struct flow *flow)
{
	if (!p || !flow)
		return -1;
	return p->flags & PACKET_ICMP_ERROR ? renumber_quote(ctx, p, flow, HOOK_TC) : renumber(ctx, p, flow, HOOK_TC);
}

static __always_inline int renumber_at(void *ctx, struct packet *p, struct flow *flow, const enum hook hook)
{
	return hook == HOOK_XDP ? renumber_xdp(ctx, p, flow) : renumber_tc(ctx, p, flow);
}

#endif
