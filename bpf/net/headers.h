/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Protocol headers as they lie on the wire. Not packed: their fields are naturally aligned within each header, and for a
 * packed structure clang's BPF back end moves every field byte by byte. That an IP header begins at an odd multiple of
 * two bytes does not matter on the machines that BPF's verifier allows it on (x86-64, arm64).
 */
#ifndef RAMPART_NET_HEADERS_H
#define RAMPART_NET_HEADERS_H

#include <linux/types.h>
#include <bpf/bpf_endian.h>

#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_ARP 0x0806
#define ETHERTYPE_IPV6 0x86dd
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define PROTOCOL_FRAGMENT 44
#define PROTOCOL_ICMPV6 58

struct ethernet {
	__u8 destination[6];
	__u8 source[6];
	__be16 type;
};

struct ipv4 {
	__u8 version_words;
	__u8 traffic_class;
	__be16 bytes;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__u16 check;
	__be32 source;
	__be32 destination;
};

struct ipv6 {
	__be32 version_class_flow;
	__be16 payload_bytes;
	__u8 next_header;
	__u8 hop_limit;
	__be32 source[4];
	__be32 destination[4];
};

/* IPv6's fragment header (RFC 8200 section 4.5). */
struct fragment {
	__u8 next_header;
	__u8 reserved;
	__be16 offset;	/* in bytes, a multiple of 8; the last bit says that more follow */
	__be32 id;
};

struct udp {
	__be16 source;
	__be16 destination;
	__be16 bytes;
	__u16 check;
};

struct tcp {
	__be16 source;
	__be16 destination;
	__be32 sequence;
	__be32 acknowledgement;
	__u8 header_words;	/* upper four bits */
	__u8 flags;
	__be16 window;
	__u16 check;
	__be16 urgent;
};

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_PSH 0x08
#define TCP_ACK 0x10

#define ETHERNET_BYTES 14
#define IPV4_BYTES 20
#define IPV6_BYTES 40
#define FRAGMENT_BYTES 8
#define UDP_BYTES 8
#define TCP_BYTES 20

_Static_assert(sizeof(struct ethernet) == ETHERNET_BYTES, "Ethernet");
_Static_assert(sizeof(struct ipv4) == IPV4_BYTES, "IPv4");
_Static_assert(sizeof(struct ipv6) == IPV6_BYTES, "IPv6");
_Static_assert(sizeof(struct fragment) == FRAGMENT_BYTES, "IPv6 fragment");
_Static_assert(sizeof(struct udp) == UDP_BYTES, "UDP");
_Static_assert(sizeof(struct tcp) == TCP_BYTES, "TCP");

#endif
