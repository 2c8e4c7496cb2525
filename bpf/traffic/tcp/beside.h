/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What floods, illegal attempts and resets have in common: how their segments differ from those of connections, also
 * behind a firewall that translates addresses and ports, and where they come from.
 *
 * Illegal SYN and ACK are like those of connections in all that the policy does not speak of. The two ends know them by their sequence
 * numbers, under a secret of the run, and an answer to a SYN by what it acknowledges. The mark of all others, and of all behind a
 * firewall that translates, is the TCP window: ours is always the control block's, so that a few other values can stand for what the
 * segment is.
 */
#ifndef RAMPART_TRAFFIC_TCP_BESIDE_H
#define RAMPART_TRAFFIC_TCP_BESIDE_H

#include "write.h"
#include "../../abi/tcp_beside.h"

#define MARK_ILLEGAL 27904U	/* plus enum illegal_kind */
#define MARK_ATTACK (MARK_ILLEGAL + ILLEGAL_KINDS)
#define MARK_RESET (MARK_ATTACK + 1)
#define MARK_DATA (MARK_ATTACK + 2)
#define MARKS (ILLEGAL_KINDS + 3)

#define PROTOCOL_FORBIDDEN 253	/* RFC 3692: for experiments */

/* Where floods come from: 10.0.0.0/8, or 2001:2:1::/104. Mirrored by crates/traffic/src/tcp/attack.rs. */
#define ATTACKERS_V4 0x0a000000U
#define ATTACKERS_BITS 24
#define ATTACKERS_V6_0 bpf_htonl(0x20010002)
#define ATTACKERS_V6_1 bpf_htonl(0x00010000)
/* Addresses that no rule allows: 203.0.113.0/24 (RFC 5737), or 2001:db8::cb00:7100/120 (RFC 3849). */
#define FORBIDDEN_V4 0xcb007100U
#define FORBIDDEN_HOSTS 256
#define FORBIDDEN_V6_0 bpf_htonl(0x20010db8)

struct beside_control beside;
struct beside_core beside_cores[MAX_CORES];
__be32 listed[MAX_LISTED];

static __always_inline struct beside_core *this_beside(void)
{
	return &beside_cores[this_core()];
}

static __always_inline bool is_marked(const struct arrived *seen)
{
	return seen->window - MARK_ILLEGAL < MARKS && beside.active;
}

/* 32 random bits: the upper half of a linear congruence (Knuth's multiplier). */
static __always_inline __u32 draw(struct beside_core *own)
{
	own->random = own->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return own->random >> 32;
}

/* A random number below `bound`. */
static __always_inline __u32 draw_below(struct beside_core *own, __u32 bound)
{
	return (__u64)draw(own) * bound >> 32;
}

/* The sequence number of an illegal SYN or ACK, but for its lower three bits, which are its kind. */
static __always_inline __u32 illegal_sequence(const __be32 *server, __be16 server_port, __be16 client_port)
{
	__u32 value = ~control.server_secret ^ client_port;

	if (beside.server_stays)
		value = mix32(value) ^ (server[0] + (control.ip_version == 6 ? server[3] * 0x85ebca6b : 0) + server_port);
	return mix32(value) & ~(ILLEGAL_KINDS - 1U);
}

/* An address outside the client's: `v4`, or in IPv6 the prefix with `v6_last` behind it. */
static __always_inline void from_outside(struct segment *segment, __be32 v4, __be32 v6_0, __be32 v6_1, __u32 v6_last)
{
	segment->source[0] = control.ip_version == 4 ? v4 : v6_0;
	segment->source[1] = v6_1;
	segment->source[2] = 0;
	segment->source[3] = bpf_htonl(v6_last);
}

/* Whether an ACK without a connection has a client's address and port as connections have them, and goes to another server than that
 * client's: there must be one, and nobody else may choose servers. */
static __always_inline bool has_other_servers(void)
{
	return control.server.hosts > 1 && beside.server_stays && !control.translates_sources;
}

/* Any server address and port. */
static __always_inline void to_any_server(struct beside_core *own, struct segment *segment)
{
	const struct side *server = &control.server;
	__u32 host = server->hosts > 1 ? draw_below(own, server->hosts) : 0;
	__u32 port = server->ports > 1 ? draw_below(own, server->ports) : 0;

	__builtin_memcpy(segment->to_mac, control.next_hop_mac, 6);
	__builtin_memcpy(segment->from_mac, control.client_mac, 6);
	segment->destination_port = bpf_htons(server->port_first + port);
	host_address(server, host, segment->destination);
}

/* A segment without a connection. Its acknowledgement number is whatever `sequence` is. */
static __always_inline void say_alone(struct segment *segment, __u8 flags, __u32 sequence, __u32 mark)
{
	segment->flags = flags;
	segment->sequence = sequence;
	segment->acknowledgement = flags & TCP_ACK ? sequence : 0;
	segment->window = mark;
	segment->has_stamp = 0;
	segment->stamp_echo = 0;
	segment->offers = flags & TCP_SYN ? control.offers : 0;
	segment->payload = PAYLOAD_NONE;
	segment->payload_bytes = 0;
	segment->payload_offset = 0;
}

/* A packet that is not a whole TCP segment, as far as needed. */
struct other_packet {
	__be32 source[4];
	__be32 destination[4];
	__u8 version;
	__u8 protocol;
	__u8 is_first_fragment;
	__u8 pad;
};

static __always_inline int read_other(struct xdp_md *ctx, struct other_packet *seen)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethernet *eth = data;

	__builtin_memset(seen, 0, sizeof(*seen));
	if ((void *)(eth + 1) > end)
		return -1;
	if (eth->type == bpf_htons(ETHERTYPE_IPV4)) {
		struct ipv4 *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > end)
			return -1;
		seen->version = 4;
		seen->protocol = ip->protocol;
		seen->is_first_fragment = (ip->fragment & bpf_htons(0x3fff)) == bpf_htons(0x2000);
		seen->source[0] = ip->source;
		seen->destination[0] = ip->destination;
		return 0;
	}
	if (eth->type == bpf_htons(ETHERTYPE_IPV6)) {
		struct ipv6 *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > end)
			return -1;
		seen->version = 6;
		seen->protocol = ip->next_header;
		seen->is_first_fragment = ip->next_header == PROTOCOL_FRAGMENT;
		__builtin_memcpy(seen->source, ip->source, 16);
		__builtin_memcpy(seen->destination, ip->destination, 16);
		return 0;
	}
	return -1;
}

static __always_inline bool is_attacker(__u8 version, const __be32 *address)
{
	if (version == 4)
		return (bpf_ntohl(address[0]) & ~((1U << ATTACKERS_BITS) - 1)) == ATTACKERS_V4;
	return address[0] == ATTACKERS_V6_0 && address[1] == ATTACKERS_V6_1 && address[2] == 0 &&
	       bpf_ntohl(address[3]) >> ATTACKERS_BITS == 0;
}

/* Whether a segment goes to a forbidden port of a server, whatever a firewall made of its window. Of other hosts a policy may allow that port,
 * and the bench asks whether it does. */
static __always_inline bool is_to_forbidden_port(const struct arrived *seen)
{
	return beside.illegal_step && bpf_ntohs(seen->destination_port) - beside.forbidden_port < beside.forbidden_ports &&
	       host_of(&control.listens, seen->version, seen->destination) < control.listens.hosts;
}

/* A segment or packet at the server's port that is for none of the server's ports, or no TCP. Returns true when it is one of
 * ours that goes on beside the connections: it is counted and not answered. `seen` is null for what is no whole segment. */
static __noinline bool beside_arrives(struct xdp_md *ctx, const struct arrived *seen)
{
	struct beside_core *own = this_beside();
	struct other_packet other;

	if (seen) {
		if (seen->window != MARK_ILLEGAL + ILLEGAL_PORT && !is_to_forbidden_port(seen))
			return false;
		own->illegal_arrived[ILLEGAL_PORT]++;
		return true;
	}
	if (read_other(ctx, &other) || other.version != control.ip_version ||
	    host_of(&control.listens, other.version, other.destination) >= control.listens.hosts)
		return false;
	if (other.protocol == PROTOCOL_FORBIDDEN) {
		own->illegal_arrived[ILLEGAL_PROTOCOL]++;
		return true;
	}
	if (other.is_first_fragment ? beside.attack == ATTACK_FRAGMENT
				    : beside.attack == ATTACK_UDP && other.protocol == PROTOCOL_UDP) {
		own->attack_forwarded++;
		return true;
	}
	return false;
}

/* A marked segment for one of the server's ports. Returns true when it is to be answered as any SYN is. */
static __always_inline bool marked_arrives(const struct arrived *seen)
{
	struct beside_core *own = this_beside();
	__u32 mark = seen->window - MARK_ILLEGAL;

	if (seen->window == MARK_ATTACK) {
		own->attack_forwarded++;
		return seen->flags == TCP_SYN;
	}
	if (seen->window == MARK_RESET)
		own->resets_forwarded++;
	else if (seen->window == MARK_DATA)
		own->data_forwarded++;
	else
		own->illegal_arrived[mark & (ILLEGAL_KINDS - 1)]++;
	return false;
}

/* Whether a client's address and port are those of attempts without a connection. */
static __always_inline bool is_spare(const struct arrived *seen)
{
	return bpf_ntohs(seen->destination_port) - beside.spare_port < beside.spare_ports &&
	       host_of(&control.client, seen->version, seen->destination) < control.client.hosts;
}

static __always_inline bool is_forbidden(__u8 version, const __be32 *address)
{
	if (version == 4)
		return bpf_ntohl(address[0]) - FORBIDDEN_V4 < FORBIDDEN_HOSTS;
	return address[0] == FORBIDDEN_V6_0 && address[1] == 0 && address[2] == 0 &&
	       bpf_ntohl(address[3]) - FORBIDDEN_V4 < FORBIDDEN_HOSTS;
}

/* What came back to the client's port for no connection's address and port. Returns true when it answers what went on beside
 * the connections; the kernel does not see it then. */
static __noinline bool beside_returns(struct xdp_md *ctx, const struct arrived *seen)
{
	struct beside_core *own = this_beside();
	struct other_packet other;
	__u32 kind;

	if (read_other(ctx, &other))
		return false;
	if (beside.attack_interval && is_attacker(other.version, other.destination)) {
		own->attack_answered++;
		return true;
	}
	if (!seen || !beside.illegal_step)
		return false;
	kind = (seen->acknowledgement - 1) ^ illegal_sequence(seen->source, seen->source_port, seen->destination_port);
	if ((seen->flags & (TCP_SYN | TCP_ACK)) == (TCP_SYN | TCP_ACK) && kind < ILLEGAL_KINDS) {
		/* Linux 6.1 learns nothing of a register from a comparison of its lower half. */
		barrier_var(kind);
		own->illegal_answered[kind & (ILLEGAL_KINDS - 1)]++;
		return true;
	}
	if (!is_spare(seen) && !is_forbidden(seen->version, seen->destination))
		return false;
	/* Refused with a reset, or answered in the server's name. */
	if (!(seen->flags & TCP_RST))
		own->illegal_answered[is_spare(seen) ? ILLEGAL_PORT : ILLEGAL_ADDRESS]++;
	return true;
}

#endif
