// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Bad weather for tests of TCP: a filter before a router that does on purpose what bad firewalls do to connections. At the
 * traffic-control hook, because XDP cannot copy a frame. IPv4 only. Never part of the bench itself.
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "../net/headers.h"
#include "only.h"

/* linux/pkt_cls.h, which bpf/include has not. */
#define TC_ACT_OK 0
#define TC_ACT_SHOT 2
#define IP_AT ETHERNET_BYTES
#define TCP_AT (ETHERNET_BYTES + IPV4_BYTES)
#define TCP_FIELD(field) (TCP_AT + __builtin_offsetof(struct tcp, field))
#define IP_FIELD(field) (IP_AT + __builtin_offsetof(struct ipv4, field))
#define PSEUDO_HEADER 0x10	/* BPF_F_PSEUDO_HDR */
#define OURS 0x7777		/* mark of a frame that has been here before */

enum kind { FAIR, FORGET_ON_RESET, RESET_IDLE, FIN_FIRST };

/* Mirrored by crates/traffic/tests/tcp/weather.rs, which writes it word by word. */
struct weather {
	__u32 kind;
	__u32 idle_ms;		/* RESET_IDLE: silence after which a connection is reset */
	__u32 left;		/* the client's link */
	__u32 right;		/* the server's */
	__u8 left_mac[8];	/* this end's address of each link; two bytes of padding */
	__u8 right_mac[8];
};

/* A connection as the client names it. */
struct tuple {
	__be32 client;
	__be32 server;
	__be16 client_port;
	__be16 server_port;
};

struct known {
	__be32 client_next;	/* sequence numbers that each side says next */
	__be32 server_next;
	__u64 last_ns;
	__u32 dead;		/* 1: nothing passes any more */
	__u32 is_open;
	__u32 held[2];		/* FIN_FIRST: sequence and acknowledgement number of an ACK held back, by side */
	__u32 held_acknowledgement[2];
	__u32 is_held[2];
};

ONLY(struct weather, settings);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct tuple);
	__type(value, struct known);
} tuples SEC(".maps");

/* Connections in the order in which they were established. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 65536);
	__type(value, struct tuple);
} opened SEC(".maps");

/* Connections (FORGET_ON_RESET, RESET_IDLE) or pairs of frames (FIN_FIRST) hit. */
ONLY(__u64, hits);

/* A TCP segment without IP options. */
struct seen {
	struct ipv4 ip;
	struct tcp tcp;
	__u32 payload;
	__u32 from_server;
};

static __always_inline void count_hit(void)
{
	__u64 *count = only(&hits);

	if (count)
		__sync_fetch_and_add(count, 1);
}

static __always_inline int read(struct __sk_buff *skb, struct seen *seen, struct tuple *tuple, __u32 left)
{
	__u32 headers;

	if (skb->protocol != bpf_htons(ETHERTYPE_IPV4) || bpf_skb_load_bytes(skb, IP_AT, &seen->ip, IPV4_BYTES) ||
	    seen->ip.protocol != PROTOCOL_TCP || seen->ip.version_words != 0x45 ||
	    bpf_skb_load_bytes(skb, TCP_AT, &seen->tcp, TCP_BYTES))
		return -1;
	headers = IPV4_BYTES + (seen->tcp.header_words >> 4) * 4;
	seen->payload = bpf_ntohs(seen->ip.bytes) - headers;
	seen->from_server = skb->ingress_ifindex != left;
	tuple->client = seen->from_server ? seen->ip.destination : seen->ip.source;
	tuple->server = seen->from_server ? seen->ip.source : seen->ip.destination;
	tuple->client_port = seen->from_server ? seen->tcp.destination : seen->tcp.source;
	tuple->server_port = seen->from_server ? seen->tcp.source : seen->tcp.destination;
	return 0;
}

static __always_inline void learn(struct known *known, const struct seen *seen)
{
	__u8 flags = seen->tcp.flags;
	__u32 length = seen->payload + (flags & TCP_SYN ? 1 : 0) + (flags & TCP_FIN ? 1 : 0);
	__be32 next = bpf_htonl(bpf_ntohl(seen->tcp.sequence) + length);

	if (seen->from_server)
		known->server_next = next;
	else
		known->client_next = next;
	known->last_ns = bpf_ktime_get_ns();
	if (flags & (TCP_RST | TCP_FIN))
		known->is_open = 0;
	else if (!(flags & TCP_SYN))
		known->is_open = 1;
}

/* Changes a word of the TCP header, and the checksum with it. */
static __always_inline void put(struct __sk_buff *skb, __u32 at, __be32 from, __be32 to, __u64 pseudo)
{
	bpf_l4_csum_replace(skb, TCP_FIELD(check), from, to, pseudo | 4);
	bpf_skb_store_bytes(skb, at, &to, 4, 0);
}

/* Changes the flags: the low byte of their word. */
static __always_inline void put_flags(struct __sk_buff *skb, __u8 words, __u8 from, __u8 to)
{
	bpf_l4_csum_replace(skb, TCP_FIELD(check), bpf_htons((__u16)words << 8 | from), bpf_htons((__u16)words << 8 | to), 2);
	bpf_skb_store_bytes(skb, TCP_FIELD(flags), &to, 1, 0);
}

/* One frame's addresses, ports, numbers and flags; its length and options stay. */
struct names {
	__be32 source;
	__be32 destination;
	__be32 ports;
	__be32 sequence;
	__be32 acknowledgement;
	__u8 flags;
};

static __always_inline void rename(struct __sk_buff *skb, __u8 words, const struct names *from, const struct names *to)
{
	bpf_l3_csum_replace(skb, IP_FIELD(check), from->source, to->source, 4);
	bpf_l3_csum_replace(skb, IP_FIELD(check), from->destination, to->destination, 4);
	put(skb, IP_FIELD(source), from->source, to->source, PSEUDO_HEADER);
	put(skb, IP_FIELD(destination), from->destination, to->destination, PSEUDO_HEADER);
	put(skb, TCP_FIELD(source), from->ports, to->ports, 0);
	put(skb, TCP_FIELD(sequence), from->sequence, to->sequence, 0);
	put(skb, TCP_FIELD(acknowledgement), from->acknowledgement, to->acknowledgement, 0);
	put_flags(skb, words, from->flags, to->flags);
}

static __always_inline __be32 both_ports(__be16 source, __be16 destination)
{
	return (__u32)source | (__u32)destination << 16;
}

/* Sends a copy of the frame in hand on, as if it had come in by `link`, past this filter. */
static __always_inline void send_copy(struct __sk_buff *skb, __u32 link)
{
	skb->mark = OURS;
	bpf_clone_redirect(skb, link, BPF_F_INGRESS);
	skb->mark = 0;
}

/* Resets both ends of the connection longest established if it has been silent for long, in frames made of the SYN in
 * hand. */
static __always_inline void reset_an_idle_one(struct __sk_buff *skb, const struct seen *seen, const struct weather *now)
{
	struct names syn = { seen->ip.source, seen->ip.destination, both_ports(seen->tcp.source, seen->tcp.destination),
			     seen->tcp.sequence, seen->tcp.acknowledgement, seen->tcp.flags };
	struct known *known;
	struct tuple tuple;
	struct names reset;

	if (bpf_map_peek_elem(&opened, &tuple))
		return;
	known = bpf_map_lookup_elem(&tuples, &tuple);
	if (known && known->is_open && bpf_ktime_get_ns() - known->last_ns < now->idle_ms * 1000000ULL)
		return;
	bpf_map_pop_elem(&opened, &tuple);
	if (!known || !known->is_open)
		return;
	known->is_open = 0;
	reset = (struct names){ tuple.client, tuple.server, both_ports(tuple.client_port, tuple.server_port),
				known->client_next, known->server_next, TCP_RST | TCP_ACK };
	rename(skb, seen->tcp.header_words, &syn, &reset);
	send_copy(skb, now->left);
	syn = reset;
	reset = (struct names){ tuple.server, tuple.client, both_ports(tuple.server_port, tuple.client_port),
				known->server_next, known->client_next, TCP_RST | TCP_ACK };
	rename(skb, seen->tcp.header_words, &syn, &reset);
	bpf_skb_store_bytes(skb, 0, now->right_mac, 6, 0);
	send_copy(skb, now->right);
	bpf_skb_store_bytes(skb, 0, now->left_mac, 6, 0);
	syn = (struct names){ seen->ip.source, seen->ip.destination, both_ports(seen->tcp.source, seen->tcp.destination),
			      seen->tcp.sequence, seen->tcp.acknowledgement, seen->tcp.flags };
	rename(skb, seen->tcp.header_words, &reset, &syn);
	count_hit();
}

/* Holds an acknowledgement without data back until the FIN that follows has gone first. */
static __always_inline int let_fin_first(struct __sk_buff *skb, const struct seen *seen, struct known *known)
{
	__u32 side = seen->from_server & 1;
	struct names fin = { seen->ip.source, seen->ip.destination, both_ports(seen->tcp.source, seen->tcp.destination),
			     seen->tcp.sequence, seen->tcp.acknowledgement, seen->tcp.flags };
	struct names ack = fin;

	if (seen->tcp.flags == TCP_ACK && !seen->payload) {
		known->held[side] = seen->tcp.sequence;
		known->held_acknowledgement[side] = seen->tcp.acknowledgement;
		known->is_held[side] = 1;
		return TC_ACT_SHOT;
	}
	if (!known->is_held[side] || !(seen->tcp.flags & TCP_FIN) || seen->payload)
		return TC_ACT_OK;
	known->is_held[side] = 0;
	ack.sequence = known->held[side];
	ack.acknowledgement = known->held_acknowledgement[side];
	ack.flags = TCP_ACK;
	/* What goes in again comes after the frame in hand. */
	rename(skb, seen->tcp.header_words, &fin, &ack);
	send_copy(skb, skb->ingress_ifindex);
	rename(skb, seen->tcp.header_words, &ack, &fin);
	count_hit();
	return TC_ACT_OK;
}

SEC("tc")
int filter(struct __sk_buff *skb)
{
	struct weather *now;
	struct known *known, fresh = {};
	struct tuple tuple = {};
	struct seen seen = {};
	__u32 was_open;

	now = only(&settings);
	if (!now || now->kind == FAIR || skb->mark == OURS || read(skb, &seen, &tuple, now->left))
		return TC_ACT_OK;
	known = bpf_map_lookup_elem(&tuples, &tuple);
	if (!known) {
		bpf_map_update_elem(&tuples, &tuple, &fresh, BPF_ANY);
		known = bpf_map_lookup_elem(&tuples, &tuple);
	}
	if (!known || known->dead)
		return TC_ACT_SHOT;
	if (now->kind == FIN_FIRST)
		return let_fin_first(skb, &seen, known);
	if (now->kind == FORGET_ON_RESET) {
		known->dead = (seen.tcp.flags & TCP_RST) != 0;
		if (known->dead)
			count_hit();
		return TC_ACT_OK;
	}
	was_open = known->is_open;
	learn(known, &seen);
	if (!was_open && known->is_open)
		bpf_map_push_elem(&opened, &tuple, 0);
	if (seen.tcp.flags == TCP_SYN)
		reset_an_idle_one(skb, &seen, now);
	return TC_ACT_OK;
}

char _license[] SEC("license") = "Dual MIT/GPL";
