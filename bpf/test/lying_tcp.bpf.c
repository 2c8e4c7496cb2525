// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Firewalls that lie about connections: a filter before a router that speaks in the server's name, or in the client's, or lets
 * through what it says that it forbids. At the traffic-control hook; IPv4 and IPv6, with the MSS option alone. Never part of the bench.
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "../net/checksum.h"
#include "../net/headers.h"
#include "ends.h"
#include "only.h"

/* linux/pkt_cls.h, which bpf/include has not. */
#define TC_ACT_OK 0
#define TC_ACT_SHOT 2
#define TCP_FIELD(seen, field) ((seen)->tcp_at + __builtin_offsetof(struct tcp, field))
#define IP_FIELD(version, field) (ETHERNET_BYTES + __builtin_offsetof(struct version, field))
#define PSEUDO_HEADER 0x10	/* BPF_F_PSEUDO_HDR */
#define ANSWER_BYTES 64
#define REQUEST_BYTES 44
#define FORBIDDEN_PORT 60000
#define OWN_SEQUENCE 1000

/* In the order of Lie in tests/lies/connections.rs. */
enum lie {
	HONEST,
	ANSWERS,		/* the whole connection, with `cache`, for those whose port has one of the bits of `mask` */
	ANSWERS_HANDSHAKE,	/* and lets the rest pass */
	REPLAYS,		/* the first answer in place of every other one */
	FLIPS_AND_MENDS,	/* a bit of answers, and the checksum */
	FLIPS,			/* a bit of answers */
	FLIPS_REQUESTS,		/* a bit of requests, and the checksum */
	DROPS_CLOSES,
	REPEATS_SYN,
	REPEATS_REQUESTS,
	CHANGES_PORT,
	CHANGES_ADDRESS,
	SPLICES,		/* the request of the connection before in place of each one's own */
	ADMITS,			/* one in `every` of what it forbids */
	ADMITS_FAST,		/* what it forbids, when a SYN follows the last one within `every` ns */
	STOPS_MARKED,		/* of what it forbids only what has an odd window, by which the bench marks floods and resets */
	ACKS_EARLY,		/* requests, before the server did */
	CLOSES_EARLY,		/* acknowledges the FIN in the server's place, which gets it all the same */
	SPEAKS_AFTER_CLOSE,	/* sends data after the client's reset, which the server gets all the same */
	REPEATS_ANSWERS,
	SWAPS_ANSWERS,		/* the answer of the connection before in place of each one's own */
	PROXIES,		/* numbers of its own on both sides, as a proxy has */
	RENUMBERS,		/* IP packets, or writes urgent pointers */
	EVICTS,			/* quietly, what is more than `every` connections old */
	RAISES_MSS,
	LOWERS_MSS,
	RAISES_SCALE,
	ADDS_SACK,		/* where timestamps alone are offered */
	REMOVES_SACK,		/* both ways */
	REMOVES_SACK_OF_SERVER,	/* which believes that it is agreed on */
	REMOVES_STAMPS,
	RAISES_WINDOWS,		/* the server's */
	LOWERS_WINDOWS,		/* the client's */
	INVENTS_REST,		/* `cache` in place of the server's last segment, which is sent for nothing */
	COMPLETES,		/* connections with the client, while it opens as many with the server */
	CLEARS_URGENT,		/* pointers, as firewalls do that clean up */
	KNOWS_CLIENTS,		/* connections by the client's port alone: an acknowledgement of any of its ports passes */
	KNOWS_CONNECTIONS,	/* by both ends: honest */
	HURRIES_TIMED,		/* has all SYN come twice but one in `every` */
};

struct lying {
	__u32 lie;
	__u32 left;		/* the client's link */
	__u32 right;		/* the server's */
	__u32 mask;
	__u32 every;
	__u32 after;		/* honest for so many segments */
	__u32 learned;		/* `cache` has an answer */
	__u64 last_ns;
	__u64 count;
	__u64 segments;
	__u64 cache[ANSWER_BYTES / 8];
	__u64 request[REQUEST_BYTES / 8 + 1];
	__u64 own[ANSWER_BYTES / 8];	/* what is in hand: these are too large for the stack */
	struct segment { struct tcp tcp; __u32 rest[ANSWER_BYTES / 4]; } made;
};

ONLY(struct lying, settings);

/* The number of the connection that a client's port was last used for. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, __u64);
} numbers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct both_ends);
	__type(value, __u32);
} opened SEC(".maps");

struct seen {
	struct ethernet eth;
	__u16 pad;
	struct ipv4 ip;
	struct ipv6 ip6;	/* in place of the other */
	struct tcp tcp;
	__u32 tcp_at;
	__u32 segment_bytes;
	bool is_v6;
};

/* Ethernet addresses of the test bed: the server's and the router's on its link, and the client's. */
static const __u8 to_server[12] = { 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0x12 };
static const __u8 to_client[12] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0x11 };

static __always_inline int read_ip(struct __sk_buff *skb, struct seen *seen)
{
	seen->is_v6 = seen->eth.type == bpf_htons(ETHERTYPE_IPV6);
	if (seen->is_v6) {
		if (bpf_skb_load_bytes(skb, ETHERNET_BYTES, &seen->ip6, IPV6_BYTES) || seen->ip6.next_header != PROTOCOL_TCP)
			return -1;
		seen->tcp_at = ETHERNET_BYTES + IPV6_BYTES;
		seen->segment_bytes = bpf_ntohs(seen->ip6.payload_bytes);
		return 0;
	}
	if (seen->eth.type != bpf_htons(ETHERTYPE_IPV4) || bpf_skb_load_bytes(skb, ETHERNET_BYTES, &seen->ip, IPV4_BYTES) ||
	    seen->ip.protocol != PROTOCOL_TCP)
		return -1;
	seen->tcp_at = ETHERNET_BYTES + IPV4_BYTES;
	seen->segment_bytes = bpf_ntohs(seen->ip.bytes) - IPV4_BYTES;
	return 0;
}

static __always_inline int read(struct __sk_buff *skb, struct seen *seen)
{
	if (bpf_skb_load_bytes(skb, 0, &seen->eth, ETHERNET_BYTES) || read_ip(skb, seen) ||
	    bpf_skb_load_bytes(skb, seen->tcp_at, &seen->tcp, TCP_BYTES))
		return -1;
	return 0;
}

static __always_inline __u32 payload_of(const struct seen *seen)
{
	return seen->segment_bytes - (seen->tcp.header_words >> 4) * 4;
}

/* Where the payload begins, or the options of a SYN. */
static __always_inline __u32 data_at(const struct seen *seen)
{
	return seen->tcp_at + TCP_BYTES;
}

static __always_inline void copy(__u32 *to, const __u32 *from, __u32 bytes)
{
	_Pragma("unroll") for (__u32 i = 0; i < bytes / 4; i++)
		to[i] = from[i];
}

/* Turns the IP header round for a segment of so many bytes. Gives the sum of the pseudo header, or less than 0. */
static __always_inline int turn_ip(struct __sk_buff *skb, const struct seen *seen, __u32 bytes)
{
	__u32 sum = bpf_htons(PROTOCOL_TCP) + bpf_htons(bytes);
	struct ipv6 ip6 = seen->ip6;
	struct ipv4 ip = seen->ip;

	if (seen->is_v6) {
		__builtin_memcpy(ip6.source, seen->ip6.destination, 16);
		__builtin_memcpy(ip6.destination, seen->ip6.source, 16);
		ip6.payload_bytes = bpf_htons(bytes);
		if (bpf_skb_store_bytes(skb, ETHERNET_BYTES, &ip6, IPV6_BYTES, 0))
			return -1;
		return sum + checksum_word(bpf_csum_diff(0, 0, ip6.source, 32, 0));
	}
	ip.source = seen->ip.destination;
	ip.destination = seen->ip.source;
	ip.bytes = bpf_htons(IPV4_BYTES + bytes);
	ip.check = 0;
	ip.check = checksum_fold(bpf_csum_diff(0, 0, (void *)&ip, IPV4_BYTES, 0));
	if (bpf_skb_store_bytes(skb, ETHERNET_BYTES, &ip, IPV4_BYTES, 0))
		return -1;
	return sum + checksum_word(ip.source) + checksum_word(ip.destination);
}

/* Sends what arrived back as another segment, whose payload is `data` or none. A SYN's options stay as they are. */
static __always_inline int turn_back(struct __sk_buff *skb, struct lying *lying, struct seen *seen, __u8 flags,
				     const __u64 *data)
{
	__u32 options = flags & TCP_SYN ? 4 : 0, bytes = TCP_BYTES + options + (data ? ANSWER_BYTES : 0);
	__u32 next = bpf_ntohl(seen->tcp.sequence) + payload_of(seen) + (seen->tcp.flags & (TCP_SYN | TCP_FIN) ? 1 : 0);
	struct segment *made = &lying->made;
	struct ethernet eth = seen->eth;
	int sum;

	_Pragma("unroll") for (__u32 i = 0; i < sizeof(*made) / 4; i++)
		((__u32 *)made)[i] = 0;
	if (options && bpf_skb_load_bytes(skb, data_at(seen), made->rest, 4))
		return TC_ACT_SHOT;
	if (data)
		copy(made->rest, (const void *)data, ANSWER_BYTES);
	__builtin_memcpy(eth.destination, seen->eth.source, 6);
	__builtin_memcpy(eth.source, seen->eth.destination, 6);
	made->tcp.source = seen->tcp.destination;
	made->tcp.destination = seen->tcp.source;
	made->tcp.sequence = seen->tcp.flags & TCP_ACK ? seen->tcp.acknowledgement : bpf_htonl(OWN_SEQUENCE);
	made->tcp.acknowledgement = bpf_htonl(next);
	made->tcp.header_words = (5 + options / 4) << 4;
	made->tcp.flags = flags;
	made->tcp.window = 0xffff;
	if (bpf_skb_change_tail(skb, seen->tcp_at + bytes, 0) || bpf_skb_store_bytes(skb, 0, &eth, ETHERNET_BYTES, 0))
		return TC_ACT_SHOT;
	sum = turn_ip(skb, seen, bytes);
	if (sum < 0)
		return TC_ACT_SHOT;
	/* What is behind the segment is zero. */
	made->tcp.check = checksum_fold(checksum_word(bpf_csum_diff(0, 0, (void *)made, sizeof(*made), 0)) + sum);
	if (data ? bpf_skb_store_bytes(skb, seen->tcp_at, made, sizeof(*made), 0)
		 : options ? bpf_skb_store_bytes(skb, seen->tcp_at, made, TCP_BYTES + 4, 0)
			   : bpf_skb_store_bytes(skb, seen->tcp_at, made, TCP_BYTES, 0))
		return TC_ACT_SHOT;
	return bpf_redirect(skb->ifindex, 0);
}

/* Answers as a server would. */
static __always_inline int answer(struct __sk_buff *skb, struct lying *lying, struct seen *seen)
{
	if (seen->tcp.flags & TCP_RST)
		return TC_ACT_SHOT;
	if (seen->tcp.flags & TCP_SYN)
		return turn_back(skb, lying, seen, TCP_SYN | TCP_ACK, 0);
	if (seen->tcp.flags & TCP_FIN)
		return turn_back(skb, lying, seen, TCP_FIN | TCP_ACK, 0);
	if (payload_of(seen))
		return turn_back(skb, lying, seen, TCP_ACK | TCP_PSH, lying->cache);
	return TC_ACT_SHOT;
}

/* Replaces a payload, and mends the checksum. */
static __always_inline void replace(struct __sk_buff *skb, const struct seen *seen, const void *old, const void *new, __u32 bytes)
{
	__s64 difference = bpf_csum_diff((void *)old, bytes, (void *)new, bytes, 0);

	bpf_skb_store_bytes(skb, data_at(seen), new, bytes, 0);
	bpf_l4_csum_replace(skb, TCP_FIELD(seen, check), 0, difference, 0);
}

static __always_inline void flip(struct __sk_buff *skb, const struct seen *seen, bool mend)
{
	__be16 old, new;

	if (bpf_skb_load_bytes(skb, data_at(seen) + 8, &old, 2))
		return;
	new = old ^ bpf_htons(0x0100);
	bpf_skb_store_bytes(skb, data_at(seen) + 8, &new, 2, 0);
	if (mend)
		bpf_l4_csum_replace(skb, TCP_FIELD(seen, check), old, new, 2);
}

static __always_inline void change_port(struct __sk_buff *skb, const struct seen *seen, __u32 at, __be16 old)
{
	__be16 new = old ^ bpf_htons(1);

	bpf_l4_csum_replace(skb, TCP_FIELD(seen, check), old, new, 2);
	bpf_skb_store_bytes(skb, at, &new, 2, 0);
}

/* Changes the address, of which `old` is the last word, `at` its place. */
static __always_inline void change_word(struct __sk_buff *skb, const struct seen *seen, __u32 at, __be32 old)
{
	__be32 new = old ^ bpf_htonl(0x1000);

	bpf_l4_csum_replace(skb, TCP_FIELD(seen, check), old, new, PSEUDO_HEADER | 4);
	if (!seen->is_v6)
		bpf_l3_csum_replace(skb, IP_FIELD(ipv4, check), old, new, 4);
	bpf_skb_store_bytes(skb, at, &new, 4, 0);
}

static __always_inline void change_source(struct __sk_buff *skb, const struct seen *seen)
{
	if (seen->is_v6)
		change_word(skb, seen, IP_FIELD(ipv6, source) + 12, seen->ip6.source[3]);
	else
		change_word(skb, seen, IP_FIELD(ipv4, source), seen->ip.source);
}

static __always_inline void change_destination(struct __sk_buff *skb, const struct seen *seen)
{
	if (seen->is_v6)
		change_word(skb, seen, IP_FIELD(ipv6, destination) + 12, seen->ip6.destination[3]);
	else
		change_word(skb, seen, IP_FIELD(ipv4, destination), seen->ip.destination);
}

static __always_inline bool is_forbidden(const struct seen *seen)
{
	if (seen->tcp.destination == bpf_htons(FORBIDDEN_PORT))
		return true;
	if (seen->is_v6)
		return seen->ip6.source[0] == bpf_htonl(0x20010db8);
	return (seen->ip.source & bpf_htonl(0xffffff00)) == bpf_htonl(0xcb007100);
}

/* Past the router. */
static __always_inline int to_the_server(struct __sk_buff *skb, const struct lying *lying)
{
	bpf_skb_store_bytes(skb, 0, to_server, 12, 0);
	return bpf_redirect(lying->right, 0);
}

static __always_inline void send_twice(struct __sk_buff *skb, const struct lying *lying)
{
	bpf_skb_store_bytes(skb, 0, to_server, 12, 0);
	bpf_clone_redirect(skb, lying->right, 0);
}

/* Lets the server have what the firewall answers itself; the frame in hand keeps its Ethernet addresses in `seen`. */
static __always_inline int answer_before(struct __sk_buff *skb, struct lying *lying, struct seen *seen, __u8 flags, const __u64 *data)
{
	send_twice(skb, lying);
	return turn_back(skb, lying, seen, flags, data);
}

/* Changes two bytes behind the IP header, and the checksum with them. */
static __always_inline void put_half(struct __sk_buff *skb, const struct seen *seen, __u32 at, __u16 value)
{
	__be16 old, new = bpf_htons(value);

	if (bpf_skb_load_bytes(skb, at, &old, 2))
		return;
	bpf_l4_csum_replace(skb, TCP_FIELD(seen, check), old, new, 2);
	bpf_skb_store_bytes(skb, at, &new, 2, 0);
}

/* Adds to a number of the TCP header. */
static __always_inline void add_to(struct __sk_buff *skb, const struct seen *seen, __u32 at, __be32 old, __u32 more)
{
	__be32 new = bpf_htonl(bpf_ntohl(old) + more);

	bpf_l4_csum_replace(skb, TCP_FIELD(seen, check), old, new, 4);
	bpf_skb_store_bytes(skb, at, &new, 4, 0);
}

static __always_inline void renumber(struct __sk_buff *skb, const struct seen *seen)
{
	__be16 old = seen->ip.id, new = bpf_htons(0x1234);

	if (seen->is_v6) {
		put_half(skb, seen, TCP_FIELD(seen, urgent), 0x1234);
		return;
	}
	bpf_l3_csum_replace(skb, IP_FIELD(ipv4, check), old, new, 2);
	bpf_skb_store_bytes(skb, IP_FIELD(ipv4, id), &new, 2, 0);
}

/* Changes the options of a SYN or SYN-ACK as Linux lays them out: MSS, SACK permitted, timestamps, one byte of nothing, window scale. */
static __always_inline void change_options(struct __sk_buff *skb, const struct seen *seen, __u32 lie, bool from_server)
{
	switch (lie) {
	case RAISES_MSS:
		put_half(skb, seen, data_at(seen) + 2, 8960);
		break;
	case LOWERS_MSS:
		put_half(skb, seen, data_at(seen) + 2, 1200);
		break;
	case RAISES_SCALE:
		put_half(skb, seen, data_at(seen) + 18, 0x030e);
		break;
	case ADDS_SACK:
		put_half(skb, seen, data_at(seen) + 4, 0x0402);
		break;
	case REMOVES_SACK:
		put_half(skb, seen, data_at(seen) + 4, 0x0101);
		break;
	case REMOVES_SACK_OF_SERVER:
		if (from_server)
			put_half(skb, seen, data_at(seen) + 4, 0x0101);
		break;
	case REMOVES_STAMPS:
		if (from_server)
			break;
		_Pragma("unroll") for (__u32 i = 0; i < 10; i += 2)
			put_half(skb, seen, data_at(seen) + 6 + i, 0x0101);
		break;
	}
}

/* Gives a new connection a number, and tells how many came after that of a segment. */
static __always_inline __u64 age(struct lying *lying, __be16 port, bool opens)
{
	__u32 number = bpf_ntohs(port);
	__u64 *place = bpf_map_lookup_elem(&numbers, &number);

	if (!place)
		return 0;
	if (opens)
		*place = ++lying->count;
	return lying->count - *place;
}

/* The first SYN of a connection is lost unless it is one of so many. */
static __always_inline int hurry(struct lying *lying, const struct seen *seen)
{
	__u32 number = bpf_ntohs(seen->tcp.source);
	__u64 *place = bpf_map_lookup_elem(&numbers, &number);

	if (!place || *place || !(seen->tcp.flags & TCP_SYN) || !lying->every)
		return TC_ACT_OK;
	*place = ++lying->count;
	return (lying->count - 1) % lying->every ? TC_ACT_SHOT : TC_ACT_OK;
}

static __always_inline int admit(struct __sk_buff *skb, struct lying *lying, const struct seen *seen)
{
	__u64 now = bpf_ktime_get_ns(), since = now - lying->last_ns;
	bool lax;

	if (!(seen->tcp.flags & TCP_SYN))
		return TC_ACT_OK;
	lying->last_ns = now;
	if (!is_forbidden(seen))
		return TC_ACT_OK;
	switch (lying->lie) {
	case ADMITS_FAST:
		lax = since < lying->every;
		break;
	case STOPS_MARKED:
		lax = seen->tcp.window == 0xffff;
		break;
	default:
		lax = ++lying->count % lying->every == 0;
	}
	return lax ? to_the_server(skb, lying) : TC_ACT_SHOT;
}

/* Lets a SYN pass, and of segments without data those of what was opened. */
static __noinline int track(struct seen *seen, bool by_both)
{
	struct both_ends key = {};
	__u32 one = 1;

	if (!seen)
		return TC_ACT_SHOT;
	key.client_port = seen->tcp.source;
	if (by_both) {
		key.client = seen->is_v6 ? seen->ip6.source[3] : seen->ip.source;
		key.server = seen->is_v6 ? seen->ip6.destination[3] : seen->ip.destination;
		key.server_port = seen->tcp.destination;
	}
	if (seen->tcp.flags & TCP_SYN) {
		bpf_map_update_elem(&opened, &key, &one, BPF_ANY);
		return TC_ACT_OK;
	}
	return bpf_map_lookup_elem(&opened, &key) ? TC_ACT_OK : TC_ACT_SHOT;
}

static __always_inline int from_client(struct __sk_buff *skb, struct lying *lying, struct seen *seen)
{
	__u8 flags = seen->tcp.flags;
	__u32 other[REQUEST_BYTES / 4];
	bool asks = payload_of(seen) == REQUEST_BYTES;

	if (flags & TCP_SYN)
		change_options(skb, seen, lying->lie, false);

	switch (lying->lie) {
	case ANSWERS:
		if (lying->learned && bpf_ntohs(seen->tcp.source) & lying->mask)
			return answer(skb, lying, seen);
		break;
	case ANSWERS_HANDSHAKE:
		if (flags & TCP_SYN)
			return answer(skb, lying, seen);
		break;
	case DROPS_CLOSES:
		return flags & (TCP_RST | TCP_FIN) ? TC_ACT_SHOT : TC_ACT_OK;
	case REPEATS_SYN:
		if (flags & TCP_SYN)
			send_twice(skb, lying);
		break;
	case REPEATS_REQUESTS:
		if (asks)
			send_twice(skb, lying);
		break;
	case FLIPS_REQUESTS:
		if (asks)
			flip(skb, seen, true);
		break;
	case CHANGES_PORT:
		change_port(skb, seen, TCP_FIELD(seen, source), seen->tcp.source);
		break;
	case CHANGES_ADDRESS:
		change_source(skb, seen);
		break;
	case SPLICES:
		if (!asks || bpf_skb_load_bytes(skb, data_at(seen), lying->own, REQUEST_BYTES))
			break;
		copy(other, (const void *)lying->request, REQUEST_BYTES);
		copy((void *)lying->request, (const void *)lying->own, REQUEST_BYTES);
		if (lying->count++)
			replace(skb, seen, lying->own, other, REQUEST_BYTES);
		break;
	case ACKS_EARLY:
		if (asks)
			return answer_before(skb, lying, seen, TCP_ACK, 0);
		break;
	case CLOSES_EARLY:
		if (flags & TCP_FIN)
			return answer_before(skb, lying, seen, TCP_FIN | TCP_ACK, 0);
		break;
	case SPEAKS_AFTER_CLOSE:
		if (flags & TCP_RST)
			return answer_before(skb, lying, seen, TCP_ACK | TCP_PSH, lying->cache);
		break;
	case PROXIES:
		add_to(skb, seen, TCP_FIELD(seen, sequence), seen->tcp.sequence, OWN_SEQUENCE);
		if (flags & TCP_ACK)
			add_to(skb, seen, TCP_FIELD(seen, acknowledgement), seen->tcp.acknowledgement, -OWN_SEQUENCE);
		break;
	case RENUMBERS:
		renumber(skb, seen);
		break;
	case EVICTS:
		return age(lying, seen->tcp.source, flags & TCP_SYN) > lying->every ? TC_ACT_SHOT : TC_ACT_OK;
	case INVENTS_REST:
		if (flags == TCP_ACK && !payload_of(seen))
			return answer_before(skb, lying, seen, TCP_ACK | TCP_PSH, lying->cache);
		break;
	case COMPLETES:
		if (flags & TCP_SYN)
			return answer_before(skb, lying, seen, TCP_SYN | TCP_ACK, 0);
		return flags & TCP_RST ? TC_ACT_OK : TC_ACT_SHOT;
	case CLEARS_URGENT:
		put_half(skb, seen, TCP_FIELD(seen, urgent), 0);
		break;
	case LOWERS_WINDOWS:
		if (!(flags & TCP_RST))
			put_half(skb, seen, TCP_FIELD(seen, window), 0x4000);
		break;
	case ADMITS:
	case ADMITS_FAST:
	case STOPS_MARKED:
		return admit(skb, lying, seen);
	case HURRIES_TIMED:
		return hurry(lying, seen);
	case KNOWS_CLIENTS:
	case KNOWS_CONNECTIONS:
		return track(seen, lying->lie == KNOWS_CONNECTIONS);
	default:
		break;
	}
	return TC_ACT_OK;
}

static __always_inline int from_server(struct __sk_buff *skb, struct lying *lying, struct seen *seen)
{
	bool answers = payload_of(seen) == ANSWER_BYTES;
	__u64 *own = lying->own;
	__u32 other[ANSWER_BYTES / 4];

	if (seen->tcp.flags & TCP_SYN)
		change_options(skb, seen, lying->lie, true);
	switch (lying->lie) {
	case ANSWERS:
	case REPLAYS:
		if (!answers || bpf_skb_load_bytes(skb, data_at(seen), own, ANSWER_BYTES))
			break;
		if (!lying->learned) {
			copy((void *)lying->cache, (const void *)own, ANSWER_BYTES);
			lying->learned = 1;
		} else if (lying->lie == REPLAYS) {
			replace(skb, seen, own, lying->cache, ANSWER_BYTES);
		}
		break;
	case CLOSES_EARLY:
		return seen->tcp.flags & TCP_FIN ? TC_ACT_SHOT : TC_ACT_OK;
	case REPEATS_ANSWERS:
		if (!answers)
			break;
		bpf_skb_store_bytes(skb, 0, to_client, 12, 0);
		bpf_clone_redirect(skb, lying->left, 0);
		return bpf_redirect(lying->left, 0);
	case SWAPS_ANSWERS:
		if (!answers || bpf_skb_load_bytes(skb, data_at(seen), own, ANSWER_BYTES))
			break;
		copy(other, (const void *)lying->cache, ANSWER_BYTES);
		copy((void *)lying->cache, (const void *)own, ANSWER_BYTES);
		if (lying->count++)
			replace(skb, seen, own, other, ANSWER_BYTES);
		break;
	case PROXIES:
		add_to(skb, seen, TCP_FIELD(seen, sequence), seen->tcp.sequence, OWN_SEQUENCE);
		add_to(skb, seen, TCP_FIELD(seen, acknowledgement), seen->tcp.acknowledgement, -OWN_SEQUENCE);
		break;
	case INVENTS_REST:
		return answers ? TC_ACT_SHOT : TC_ACT_OK;
	case COMPLETES:
		return seen->tcp.flags & TCP_SYN ? turn_back(skb, lying, seen, TCP_ACK, 0) : TC_ACT_OK;
	case CLEARS_URGENT:
		put_half(skb, seen, TCP_FIELD(seen, urgent), 0);
		break;
	case RAISES_WINDOWS:
		put_half(skb, seen, TCP_FIELD(seen, window), 0xffff);
		break;
	case FLIPS_AND_MENDS:
	case FLIPS:
		if (answers)
			flip(skb, seen, lying->lie == FLIPS_AND_MENDS);
		break;
	case CHANGES_PORT:
		change_port(skb, seen, TCP_FIELD(seen, destination), seen->tcp.destination);
		break;
	case CHANGES_ADDRESS:
		change_destination(skb, seen);
		break;
	default:
		break;
	}
	return TC_ACT_OK;
}

SEC("tc")
int lying(struct __sk_buff *skb)
{
	struct lying *lying = only(&settings);
	struct seen seen = {};

	if (!lying || read(skb, &seen))
		return TC_ACT_OK;
	if (lying->segments++ < lying->after)
		return TC_ACT_OK;
	return skb->ifindex == lying->left ? from_client(skb, lying, &seen) : from_server(skb, lying, &seen);
}

char _license[] SEC("license") = "Dual MIT/GPL";
