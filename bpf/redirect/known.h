/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A box that does exactly one known thing to what it forwards, so that what a bench reports of it can be held against the truth. The
 * things are those that a bench measures: a rate of frames or connections, a delay, losses, a buffer, a table of connections, and resets. IPv4 alone where TCP
 * headers are read.
 */
#ifndef RAMPART_REDIRECT_KNOWN_H
#define RAMPART_REDIRECT_KNOWN_H

#include "../net/checksum.h"
#include "forward.h"

#define GOES_ON -1	/* no action of XDP has this number */
#define MAX_ENTRIES 65536
#define MAX_WAITS (1 << 18)	/* readings of the clock: some milliseconds */

enum behaviour { ONLY_FORWARDS, BUCKET, DELAY, LOSES, TABLE, RESETS, OPENS };

/* `what` is one of enum behaviour; what the numbers mean it decides. Written by crates/testbed/src/dut/known.rs. */
const volatile __u32 what;
const volatile __u64 interval_ns;	/* BUCKET: from one frame to the next. DELAY: how long a frame waits. OPENS: from one
					 * connection to the next */
const volatile __u64 depth;		/* BUCKET: frames that may come at once. TABLE: entries */
const volatile __u64 one_in;		/* LOSES, RESETS: frames or connections */

/* What the box remembers. All cores share it. */
struct memory {
	__u64 full_at_ns;	/* BUCKET: when it will be full again. OPENS: when the last connection was opened */
	__u64 count;		/* LOSES: frames. RESETS: connections. TABLE: open connections */
	struct bpf_spin_lock lock;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct memory);
} memories SEC(".maps");

/* A connection as its client names it. */
struct tuple {
	__be32 client;
	__be32 server;
	__be16 client_port;
	__be16 server_port;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_ENTRIES);
	__type(key, struct tuple);
	__type(value, __u8);
} connections SEC(".maps");

/* Whether a frame finds a token. The bucket's state is the time when it will be full (the virtual scheduling of ITU-T I.371), so that
 * no fraction of a token is ever lost.
 */
static __always_inline bool has_token(struct memory *memory)
{
	__u64 now = bpf_ktime_get_ns(), full_at;
	bool is_one;

	bpf_spin_lock(&memory->lock);
	full_at = memory->full_at_ns > now ? memory->full_at_ns : now;
	is_one = full_at - now + interval_ns <= depth * interval_ns;
	if (is_one)
		memory->full_at_ns = full_at + interval_ns;
	bpf_spin_unlock(&memory->lock);
	return is_one;
}

static long is_past(__u32 turn __attribute__((unused)), __u64 *until_ns)
{
	return bpf_ktime_get_ns() >= *until_ns;
}

/* Holds the core, and with it the frame, so that no timer's precision matters. */
static __always_inline void wait_until(__u64 until_ns)
{
	bpf_loop(MAX_WAITS, is_past, &until_ns, 0);
}

/* When the next connection may be opened. As with the bucket, no fraction of an interval is lost, whoever waits. */
static __always_inline __u64 next_opening(struct memory *memory)
{
	__u64 now = bpf_ktime_get_ns(), opens_at;

	bpf_spin_lock(&memory->lock);
	opens_at = memory->full_at_ns + interval_ns;
	if (opens_at < now)
		opens_at = now;
	memory->full_at_ns = opens_at;
	bpf_spin_unlock(&memory->lock);
	return opens_at;
}

/* Whether this is the last of `one_in`. */
static __always_inline bool is_chosen(struct memory *memory)
{
	return one_in && (__sync_fetch_and_add(&memory->count, 1) + 1) % one_in == 0;
}

/* The frame becomes a reset in answer to the SYN that it is. */
static __always_inline int refuse(struct xdp_md *context, struct ethernet *ethernet, struct ipv4 *ip, struct tcp *tcp)
{
	__be32 host, number = bpf_htonl(bpf_ntohl(tcp->sequence) + 1);
	__u8 mac[6];
	__be16 port;
	__u32 sum;

	/* What was swapped sums up to the same. */
	sum = (__u16)~tcp->check;
	sum += checksum_word(~tcp->sequence) + checksum_word(~tcp->acknowledgement) + checksum_word(number);
	sum += (__u16)~bpf_htons(tcp->flags) + bpf_htons(TCP_RST | TCP_ACK);
	tcp->check = checksum_fold(sum);
	tcp->sequence = 0;
	tcp->acknowledgement = number;
	tcp->flags = TCP_RST | TCP_ACK;
	port = tcp->source;
	tcp->source = tcp->destination;
	tcp->destination = port;
	host = ip->source;
	ip->source = ip->destination;
	ip->destination = host;
	__builtin_memcpy(mac, ethernet->source, 6);
	__builtin_memcpy(ethernet->source, ethernet->destination, 6);
	__builtin_memcpy(ethernet->destination, mac, 6);
	return bpf_redirect(context->ingress_ifindex, 0);
}

/* Whether a connection has an entry, or gets one. */
static __always_inline bool has_entry(struct memory *memory, const struct tuple *tuple)
{
	__u8 open = 1;

	if (bpf_map_lookup_elem(&connections, tuple))
		return true;
	if (__sync_fetch_and_add(&memory->count, 1) < depth && !bpf_map_update_elem(&connections, tuple, &open, BPF_NOEXIST))
		return true;
	__sync_fetch_and_add(&memory->count, -1);
	return false;
}

static __always_inline void forget(struct memory *memory, const struct tuple *tuple)
{
	if (!bpf_map_delete_elem(&connections, tuple))
		__sync_fetch_and_add(&memory->count, -1);
}

/* TABLE, RESETS and OPENS: what becomes of a TCP segment from a client. */
static __always_inline int behave_to_tcp(struct xdp_md *context, struct memory *memory)
{
	struct ethernet *ethernet = (void *)(long)context->data;
	struct ipv4 *ip = (void *)(ethernet + 1);
	struct tcp *tcp = (void *)(ip + 1);
	struct tuple tuple;

	if ((void *)(tcp + 1) > (void *)(long)context->data_end || ethernet->type != bpf_htons(ETHERTYPE_IPV4) ||
	    ip->version_words != 0x45 || ip->protocol != PROTOCOL_TCP)
		return GOES_ON;
	if (what == RESETS)
		return tcp->flags == TCP_SYN && is_chosen(memory) ? refuse(context, ethernet, ip, tcp) : GOES_ON;
	if (what == OPENS) {
		if (tcp->flags == TCP_SYN)
			wait_until(next_opening(memory));
		return GOES_ON;
	}
	tuple = (struct tuple){ ip->source, ip->destination, tcp->source, tcp->destination };
	if (tcp->flags & TCP_RST)
		forget(memory, &tuple);
	else if (tcp->flags == TCP_SYN && !has_entry(memory, &tuple))
		return refuse(context, ethernet, ip, tcp);
	return GOES_ON;
}

/* What the box does beside forwarding: GOES_ON, or what becomes of the frame instead. */
static __always_inline int behave(struct xdp_md *context)
{
	__u32 zero = 0;
	struct memory *memory = bpf_map_lookup_elem(&memories, &zero);

	if (!memory)
		return drop(DROP_MALFORMED);
	if (what == BUCKET && !has_token(memory))
		return drop(DROP_KNOWN);
	if (what == DELAY)
		wait_until(bpf_ktime_get_ns() + interval_ns);
	if (what == LOSES && is_chosen(memory))
		return drop(DROP_KNOWN);
	if (what == TABLE || what == RESETS || what == OPENS)
		return behave_to_tcp(context, memory);
	return GOES_ON;
}

#endif
