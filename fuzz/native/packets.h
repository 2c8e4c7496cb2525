/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Frames from the bytes of an input: mostly right ones, from few hosts and ports so that flows meet, with TCP numbers near
 * those that a flow of the table expects; then a few bytes of some are changed, and some are cut.
 */
#ifndef RAMPART_NATIVE_PACKETS_H
#define RAMPART_NATIVE_PACKETS_H

#include "world.h"

static __u8 bytes[MAX_FRAME];
static __u32 byte_count;

static void add(const void *from, __u32 count)
{
	if (byte_count + count > MAX_FRAME)
		count = MAX_FRAME - byte_count;
	memcpy(bytes + byte_count, from, count);
	byte_count += count;
}

static void add_8(__u8 value) { add(&value, 1); }
static void add_16(__u16 value) { add_8(value >> 8); add_8(value); }
static void add_32(__u32 value) { add_16(value >> 16); add_16(value); }

static void set_16(__u32 at, __u16 value)
{
	if (at + 2 > byte_count)
		return;
	bytes[at] = value >> 8;
	bytes[at + 1] = value;
}

/* Who talks to whom. */
struct talk {
	__u8 family;
	__u8 protocol;
	__u32 side;		/* that sends */
	const struct flow *flow;	/* or null */
	__be32 source[4];
	__be32 destination[4];
	__be16 ports[2];
};

static void any_address(__u8 family, __be32 *address)
{
	static const __u32 v4[] = { 0xc6120101, 0xc6120102, 0xc6120202, 0xc6120203, 0xc633640a, 0xe0000001, 0x7f000001, 0, 0xffffffff };
	static const __u32 v6[] = { 0x20010002, 0x20010002, 0x20010002, 0x20010002, 0xfe800000, 0xff020000, 0, 0 };
	__u32 which = once_in(16) ? below(9) : below(4);

	memset(address, 0, 16);
	if (family == 4) {
		address[0] = bpf_htonl(once_in(8) ? v4[which] ^ below(256) : v4[which]);
		return;
	}
	which %= 8;
	address[0] = bpf_htonl(v6[which]);
	address[1] = which < 4 ? bpf_htonl(which & 1) << 8 : 0;
	address[3] = bpf_htonl(once_in(8) ? below(256) : which == 6 ? 0 : 1 + which / 2);
}

/* A flow of the table, or a free record. */
static const struct flow *any_flow(void)
{
	const struct flow *flow = 0;

	for (int i = 0; i < 4 && (!flow || flow->state == FLOW_FREE); i++)
		flow = (const struct flow *)flow_map->values + below(pool.fresh && pool.fresh < RECORDS ? pool.fresh : RECORDS);
	return flow;
}

static void any_talk(struct talk *talk)
{
	static const __u8 protocols[8] = { 6, 6, 6, 17, 1, 58, 132, 47 };
	const struct flow *flow = any_flow();

	memset(talk, 0, sizeof(*talk));
	if (flow->state != FLOW_FREE && below(4)) {
		talk->side = below(2);
		talk->flow = flow;
		talk->family = family_of(flow);
		talk->protocol = flow->protocol;
		flow_address(flow, talk->side, talk->source);
		flow_address(flow, talk->side ^ 1, talk->destination);
		talk->ports[0] = flow->port[talk->side];
		talk->ports[1] = flow->port[talk->side ^ 1];
		if (is_translated(flow) && below(16)) {
			talk->destination[0] = alias_address(flow, talk->side ^ 1);
			talk->ports[1] = alias_port(flow, talk->side ^ 1);
		}
		return;
	}
	talk->family = below(3) ? 4 : 6;
	talk->protocol = protocols[below(8)];
	if (talk->protocol == 1 || talk->protocol == 58)
		talk->protocol = once_in(16) ? below(256) : talk->family == 4 ? 1 : 58;
	any_address(talk->family, talk->source);
	do
		any_address(talk->family, talk->destination);
	while (source.left && below(8) && !memcmp(talk->source, talk->destination, 16));
	talk->ports[0] = bpf_htons(1000 + below(8));
	talk->ports[1] = bpf_htons(80 + below(8));
}

/* Near a number, more often than not at it. */
static __u32 near(__u32 number)
{
	static const __u32 distances[8] = { 1, -1, 100, -100, 1460, 65536, 0x7fffffff, 0x80000000 };

	return below(3) ? number : once_in(16) ? any_word() : number + distances[below(8)];
}

static void add_tcp(const struct talk *talk)
{
	static const __u8 flags[8] = { 2, 18, 16, 24, 17, 4, 20, 16 };
	const struct flow *flow = talk->flow;
	__u32 options = once_in(4) ? below(11) : 0, s = talk->side;

	add(talk->ports, 4);
	add_32(flow ? near(below(2) ? flow->end[s] : flow->acked[s ^ 1]) : any_word());
	add_32(flow ? near(flow->end[s ^ 1]) : any_word());
	add_8((5 + options) << 4);
	add_8(once_in(16) ? below(256) : flow ? flags[below(8)] : 2);
	add_16(below(2) ? 65535 : below(65536));
	add_32(0);
	for (__u32 i = 0; i < options; i++) {
		if (below(2))
			add_32(0x01030300 | below(20));
		else
			add_32(any_word());
	}
}

static void add_headers(const struct talk *talk, int depth);

/* ICMP and ICMPv6: questions, answers, errors about a packet of a flow, anything. */
static void add_icmp(const struct talk *talk, int depth)
{
	static const __u8 v4[8] = { 8, 0, 13, 14, 3, 11, 12, 5 }, v6[8] = { 128, 129, 1, 2, 3, 4, 135, 137 };
	__u8 type = (talk->family == 4 ? v4 : v6)[below(8)];
	__be16 id = talk->flow ? talk->ports[0] : bpf_htons(below(4));
	struct talk quoted;

	add_8(once_in(16) ? below(256) : type);
	add_8(once_in(8) ? below(256) : 0);
	add_16(0);
	add(&id, 2);
	add_16(1);
	if (depth || !(talk->family == 4 ? type == 3 || type == 11 || type == 12 || type == 5 : type < 5))
		return;
	any_talk(&quoted);
	add_headers(&quoted, 1);
}

static void close_tcp(const struct talk *talk, __u32 at)
{
	__u32 sum = 6 + byte_count - at;

	if (byte_count < at + 18)
		return;
	for (int i = 0; i < 4; i++) {
		__u32 a = bpf_ntohl(talk->source[i]), b = bpf_ntohl(talk->destination[i]);

		sum += (a >> 16) + (a & 0xffff) + (b >> 16) + (b & 0xffff);
	}
	sum = (sum & 0xffff) + (sum >> 16);
	/* What the kernel leaves there for whoever fills it in. */
	if (once_in(16)) {
		set_16(at + 16, sum + (sum >> 16));
		return;
	}
	for (__u32 i = at; i < byte_count; i += 2)
		sum += bytes[i] << 8 | (i + 1 < byte_count ? bytes[i + 1] : 0);
	sum = (sum & 0xffff) + (sum >> 16);
	if (!once_in(16))
		set_16(at + 16, ~(sum + (sum >> 16)));
}

static void add_transport(const struct talk *talk, int depth)
{
	__u32 at = byte_count;

	switch (talk->protocol) {
	case 6:
		add_tcp(talk);
		break;
	case 17:
		add(talk->ports, 4);
		add_16(once_in(4) ? below(65536) : 8);
		add_16(0);
		break;
	case 132:
		add(talk->ports, 4);
		add_32(any_word());
		add_32(0);
		break;
	case 1:
	case 58:
		add_icmp(talk, depth);
		break;
	default:
		break;
	}
	for (__u32 left = once_in(8) ? below(1600) : below(80); left; left--)
		add_8(left);
	if (talk->protocol == 6)
		close_tcp(talk, at);
}

static void close_ipv4(__u32 at, __u32 header)
{
	__u32 sum = 0;

	set_16(at + 2, byte_count - at);
	if (once_in(32))
		set_16(at + 2, below(65536));
	for (__u32 i = at; i < at + header; i += 2)
		sum += bytes[i] << 8 | bytes[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	if (!once_in(32))
		set_16(at + 10, ~(sum + (sum >> 16)));
}

static void add_ipv4(const struct talk *talk, int depth)
{
	__u32 at = byte_count, options = once_in(8) ? below(11) : 0;

	add_8(0x40 | (5 + options));
	add_8(0);
	add_16(0);
	add_16(below(4));
	add_16(once_in(32) ? below(65536) : once_in(16) ? 0x2000 : once_in(16) ? below(8) : 0x4000 * below(2));
	add_8(once_in(16) ? below(3) : 64);
	add_8(talk->protocol);
	add_16(0);
	add(talk->source, 4);
	add(talk->destination, 4);
	for (__u32 i = 0; i < options; i++)
		add_32(any_word());
	add_transport(talk, depth);
	close_ipv4(at, 20 + options * 4);
}

static void add_ipv6(const struct talk *talk, int depth)
{
	static const __u8 kinds[4] = { 0, 43, 44, 60 };
	__u32 at = byte_count, extensions = once_in(8) ? below(10) : 0, next = byte_count + 6;

	add_32(0x60000000);
	add_16(0);
	add_8(talk->protocol);
	add_8(once_in(8) ? 255 : once_in(8) ? below(3) : 64);
	add(talk->source, 16);
	add(talk->destination, 16);
	for (__u32 i = 0; i < extensions; i++) {
		__u32 kind = below(4), units = kind != 2 && once_in(4) ? below(4) : 0;

		bytes[next] = kinds[kind];
		next = byte_count;
		add_8(talk->protocol);
		add_8(units);
		add_16(kind == 2 ? (below(2) ? 1 : below(65536)) : once_in(8));
		add_32(below(4));
		for (; units; units--) {
			add_32(any_word());
			add_32(0);
		}
	}
	add_transport(talk, depth);
	set_16(at + 4, once_in(32) ? below(65536) : byte_count - at - 40);
}

static void add_headers(const struct talk *talk, int depth)
{
	if (talk->family == 4)
		add_ipv4(talk, depth);
	else
		add_ipv6(talk, depth);
}

/* Nearly always the interface's own, or the mark of frames that XDP hands on. */
static void add_destination(const struct talk *talk)
{
	static const __u8 addresses[][6] = { { 2, 0, 0, 0, 1, 1 }, { 6, 0, 0, 0, 1, 2 }, { 1, 2, 3, 4, 1, 1 }, { 2, 0, 0, 0, 1, 9 },
					     { 255, 255, 255, 255, 255, 255 }, { 1, 0, 0x5e, 0, 0, 1 }, { 0x33, 0x33, 0, 0, 0, 1 } };
	__u32 which = once_in(8) ? below(7) : 0;

	/* Groups are more often than not for groups. */
	if (bpf_ntohl(talk->destination[0]) >> 28 >= 0xe && below(4))
		which = talk->family == 4 ? 5 : 6;
	add(addresses[which], 6);
}

/* A frame into `bytes`. */
static void any_frame(struct talk *talk)
{
	any_talk(talk);
	byte_count = 0;
	add_destination(talk);
	add_16(0x0200);
	add_32(0x0102);
	for (__u32 tags = once_in(8) ? below(4) : 0; tags; tags--)
		add_32(0x81000000 | (once_in(4) ? below(4096) : below(2) << 13));
	add_16(once_in(64) ? below(65536) : talk->family == 4 ? 0x0800 : 0x86dd);
	add_headers(talk, 0);
	if (once_in(8))
		for (__u32 changes = 1 + below(4); changes; changes--)
			bytes[once_in(4) ? any_word() % byte_count : below(80) % byte_count] = any_byte();
	if (once_in(64))
		byte_count = ETHERNET_BYTES + any_word() % (byte_count - ETHERNET_BYTES + 1);
}

#endif
