/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Whether a frame that arrived is the frame that was sent, but for what a router changes: Ethernet addresses, TTL, and the
 * IPv4 header's checksum with it. */
#ifndef RAMPART_TRAFFIC_FRAMES_COMPARE_H
#define RAMPART_TRAFFIC_FRAMES_COMPARE_H

#include "../../net/checksum.h"
#include "../../net/headers.h"
#include "stamp.h"
#include "state.h"

#define PIECE_BYTES 512	/* what bpf_csum_diff() takes on every kernel */
#define MAX_PIECES 18	/* a jumbo frame */
#define BLOCK_BYTES 64	/* of filling, compared under one check of the frame's bounds */

struct scratch {
	__u8 bytes[PIECE_BYTES];
};

struct scratch scratch[MAX_CORES];

/* What a frame's stamp says that the frame is. */
struct claimed {
	const struct lane *lane;
	const struct mix_size *size;
	__u64 sequence;
	__u32 sender;
	bool whole;	/* a first fragment's stamp in a datagram that a firewall put together */
};

/*
 * In what a frame differs from the one that was sent: in anything, and in which fields. Bits that differ are collected without a
 * branch, because each would double the ways that the verifier has to go. Whoever asks only whether there is a difference pays for
 * no more than that.
 */
struct differences {
	__u64 any;
	__u64 *fields;	/* of FIELDS, or NULL */
};

#define DIFFERS(what, is, should)                           \
	do {                                                \
		__u64 bits_ = (__u64)(is) ^ (__u64)(should); \
		differences->any |= bits_;                  \
		if (differences->fields)                    \
			differences->fields[what] |= bits_; \
	} while (0)

static __always_inline void compare_ethernet(struct differences *differences, const struct ethernet *eth,
					     const struct claimed *claimed)
{
	const struct ethernet *arrives = (const void *)claimed->lane->arrives;

	DIFFERS(FIELD_ETHERNET, WORD_AT(eth, 0), WORD_AT(arrives, 0));
	DIFFERS(FIELD_ETHERNET, HALF_AT(eth, 4), HALF_AT(arrives, 4));
	DIFFERS(FIELD_ETHERNET, eth->type, arrives->type);
}

/* Length and checksum, the second half of the UDP header, that a frame should come out with: a firewall that translates changes the
 * checksum with the address. */
static __always_inline __u32 arrival_udp_tail(const struct lane *lane, const struct mix_size *size, const struct ends *ends,
					      const struct stamp *stamp)
{
	struct ends arrived = { .addresses = ends->addresses ^ lane->translation[3], .ports = ends->ports };

	return udp_tail(&control, lane->arrival_udp_sum, size, &arrived, stamp);
}

static __always_inline void compare_udp(struct differences *differences, const void *stamp_at, const struct claimed *claimed,
					const struct ends *ends, const struct stamp *stamp)
{
	__u32 found = WORD_AT(stamp_at, -4), should;

	if (claimed->size->place == SECOND_FRAGMENT)
		return;
	should = arrival_udp_tail(claimed->lane, claimed->size, ends, stamp);
	DIFFERS(FIELD_UDP_LENGTH, (__u16)found, (__u16)should);
	DIFFERS(FIELD_UDP_CHECKSUM, found >> 16, should >> 16);
}

static __always_inline __u32 frame_bytes(const struct claimed *claimed)
{
	return claimed->whole ? claimed->size->whole_bytes : claimed->size->bytes;
}

static __always_inline void compare_ipv4(struct differences *differences, const struct ipv4 *ip,
					 const struct claimed *claimed)
{
	const struct ipv4 *arrives = (const void *)(claimed->lane->arrives + ETHERNET_BYTES);
	const __u32 *words = (const void *)ip;
	__be16 id = arrives->id, fragment = arrives->fragment;
	__u64 sum = (__u64)words[0] + words[1] + words[2] + words[3] + words[4];

	if (claimed->size->place != WHOLE_DATAGRAM) {
		id = bpf_htons(datagram_number(&control, claimed->sequence, claimed->sender));
		fragment = claimed->whole ? 0 : claimed->size->fragment;
	}
	DIFFERS(FIELD_TRAFFIC_CLASS, ip->traffic_class, arrives->traffic_class);
	DIFFERS(FIELD_LENGTH, ip->bytes, (__be16)bpf_htons(frame_bytes(claimed) - ETHERNET_BYTES));
	DIFFERS(FIELD_ID, ip->id, id);
	DIFFERS(FIELD_FRAGMENT, ip->fragment, fragment);
	DIFFERS(FIELD_TTL, ip->ttl, arrives->ttl);
	DIFFERS(FIELD_PROTOCOL, ip->protocol, PROTOCOL_UDP);
	DIFFERS(FIELD_IP_CHECKSUM, checksum_fold(checksum_long(sum)), 0);
}

/* The id of an IPv6 fragment may be another one: Linux's connection tracking puts datagrams together and cuts them again, and
 * then numbers them itself. */
static __always_inline void compare_ipv6(struct differences *differences, const struct ipv6 *ip,
					 const struct claimed *claimed)
{
	const struct ipv6 *arrives = (const void *)(claimed->lane->arrives + ETHERNET_BYTES);
	const struct fragment *fragment = (const void *)(ip + 1);
	bool cut = claimed->size->place != WHOLE_DATAGRAM && !claimed->whole;

	DIFFERS(FIELD_TRAFFIC_CLASS, ip->version_class_flow, arrives->version_class_flow);
	DIFFERS(FIELD_LENGTH, ip->payload_bytes, (__be16)bpf_htons(frame_bytes(claimed) - ETHERNET_BYTES - IPV6_BYTES));
	DIFFERS(FIELD_PROTOCOL, ip->next_header, cut ? PROTOCOL_FRAGMENT : PROTOCOL_UDP);
	DIFFERS(FIELD_TTL, ip->hop_limit, arrives->hop_limit);
	for (int word = 0; word < 3; word++) {
		DIFFERS(FIELD_SOURCE, ip->source[word], arrives->source[word]);
		DIFFERS(FIELD_DESTINATION, ip->destination[word], arrives->destination[word]);
	}
	if (cut) {
		DIFFERS(FIELD_FRAGMENT, fragment->offset, claimed->size->fragment);
		DIFFERS(FIELD_PROTOCOL, fragment->next_header, PROTOCOL_UDP);
	}
}

/*
 * What follows finds out the same of a frame that is a whole datagram, which nearly all are, in few wide words that user space has prepared:
 * zero if all of the headers are as they should be. What differs, the comparison above finds.
 */
static __always_inline __u64 whole_ipv4_differs(const void *data, const struct lane *lane, const struct mix_size *size,
						const struct stamp *stamp, struct ends *ends)
{
	__u64 addresses = LONG_AT(data, 26), udp = LONG_AT(data, STAMP_OFFSET_V4 - UDP_BYTES), differs;
	/* Of a header that is as it should be, but for the addresses. */
	__u32 sum = lane->arrival_sum + (__u16)(size->head >> 32) + checksum_long(addresses) + HALF_AT(data, 24);

	ends->addresses = addresses ^ lane->translation[3];
	ends->ports = udp;
	differs = (LONG_AT(data, 0) ^ LONG_AT(lane->arrives, 0)) << 16;
	differs |= LONG_AT(data, HEAD_OFFSET) ^ size->head;
	differs |= WORD_AT(data, 20) ^ WORD_AT(lane->arrives, 20);
	differs |= checksum_fold(sum);
	return differs | ((udp >> 32) ^ arrival_udp_tail(lane, size, ends, stamp));
}

static __always_inline __u64 whole_ipv6_differs(const void *data, const struct lane *lane, const struct mix_size *size,
						const struct stamp *stamp, struct ends *ends)
{
	__u64 udp = LONG_AT(data, STAMP_OFFSET_V6 - UDP_BYTES), differs;

	ends->addresses = (WORD_AT(data, 34) | (__u64)WORD_AT(data, 50) << 32) ^ lane->translation[3];
	ends->ports = udp;
	differs = (LONG_AT(data, 0) ^ LONG_AT(lane->arrives, 0)) << 16;
	differs |= LONG_AT(data, HEAD_OFFSET) ^ size->head;
	differs |= LONG_AT(data, 20) ^ LONG_AT(lane->arrives, 20);
	differs |= LONG_AT(data, 26) ^ LONG_AT(lane->arrives, 26);
	differs |= LONG_AT(data, 38) ^ LONG_AT(lane->arrives, 38);
	differs |= WORD_AT(data, 46) ^ WORD_AT(lane->arrives, 46);
	return differs | ((udp >> 32) ^ arrival_udp_tail(lane, size, ends, stamp));
}

/* What a second fragment has between its stamp and its filling; see SECOND_HEAD_BYTES. */
static __always_inline bool second_head_is_intact(const void *stamp_at, const void *end, const struct stamp *stamp)
{
	if (stamp_at + SECOND_HEAD_BYTES > end)
		return false;
	return *(const __u16 *)(stamp_at + STAMP_BYTES) == checksum_fold(sum_stamp(stamp)) &&
	       *(const __u32 *)(stamp_at + STAMP_BYTES + 2) == 0 && *(const __u16 *)(stamp_at + STAMP_BYTES + 6) == 0;
}

/* What differs of the `size` bytes behind the first `done`: a power of two, at most 8 words, of which `done` is a multiple. All ones: the
 * frame has none. */
static __always_inline __u64 part_differs(const struct xdp_md *ctx, __u32 offset, __u32 done, __u32 size)
{
	const void *at = (const void *)(long)ctx->data + ((offset + done) & (FILLING_BYTES - 1));
	const void *should = filling + (done & (FILLING_BYTES - 1) & ~(size - 1));
	__u64 difference = 0;

	if (at + size > (void *)(long)ctx->data_end)
		return ~0ULL;
	if (size == 1)
		return *(const __u8 *)at ^ *(const __u8 *)should;
	if (size == 2)
		return *(const __u16 *)at ^ *(const __u16 *)should;
	if (size == 4)
		return WORD_AT(at, 0) ^ WORD_AT(should, 0);
	_Pragma("unroll") for (__u32 word = 0; word < size / 8; word++)
		difference |= LONG_AT(at, word * 8) ^ LONG_AT(should, word * 8);
	return difference;
}

/*
 * Whether the frame's `bytes` from `offset` are the filling's first. Frames in one piece only. Global, like the next, so that the
 * verifier looks at it once and not once a caller.
 */
__noinline int filling_is_intact(struct xdp_md *ctx, __u32 offset, __u32 bytes)
{
	void *end = (void *)(long)ctx->data_end, *at = (void *)(long)ctx->data + (offset & (FILLING_BYTES - 1));
	__u64 difference = 0;
	__u32 done = 0;

	for (int block = 0; block < FILLING_BYTES / BLOCK_BYTES; block++) {
		const __u64 *should = (const __u64 *)(filling + block * BLOCK_BYTES), *is;

		/* The compiler may not count the blocks from the frame's end, which the verifier lets nobody calculate with. */
		barrier_var(at);
		is = at;
		if (done + BLOCK_BYTES > bytes || at + BLOCK_BYTES > end)
			break;
		_Pragma("unroll") for (int word = 0; word < BLOCK_BYTES / 8; word++)
			difference |= is[word] ^ should[word];
		at += BLOCK_BYTES;
		done += BLOCK_BYTES;
	}
	/* The verifier forgets how many blocks there were, or it would go through what follows once for each number. */
	done += bytes;
	barrier_var(done);
	done -= bytes;
	barrier_var(done);
	if (bytes - done >= BLOCK_BYTES)
		return 0;
	_Pragma("unroll") for (__u32 size = BLOCK_BYTES / 2; size; size /= 2) {
		if (!((bytes - done) & size))
			continue;
		difference |= part_differs(ctx, offset, done, size);
		done += size;
		barrier_var(done);
	}
	return difference == 0;
}

/* The same of a jumbo frame, whose filling the program does not know: by its sum. Copies it piece by piece, because the frame
 * is in fragments, and a packet pointer cannot be given to a helper with a length that only run time knows. */
__noinline int sum_is_intact(struct xdp_md *ctx, __u32 offset, __u32 bytes, __u32 expected)
{
	struct scratch *copy = &scratch[this_core()];
	__u32 whole = offset + bytes;
	__s64 sum = 0;

	for (int piece = 0; piece < MAX_PIECES; piece++) {
		__u32 left = whole > offset ? whole - offset : 0;
		__u32 now = left < PIECE_BYTES ? left & ~3U : PIECE_BYTES;

		__u64 last = (__u64)now - 1;

		/* Linux 6.1 learns nothing from "not 0". */
		barrier_var(last);
		if (last >= PIECE_BYTES)
			break;
		if (bpf_xdp_load_bytes(ctx, offset, copy->bytes, last + 1))
			return 0;
		sum = bpf_csum_diff(0, 0, (__be32 *)copy->bytes, last + 1, sum);
		if (sum < 0)
			return 0;
		offset += now;
	}
	return checksum_same(sum, expected);
}

/* Whether the payload behind the stamp, which ends at `offset`, is what the generator put there. */
static __always_inline bool content_is_intact(struct xdp_md *ctx, const struct claimed *claimed, __u32 offset)
{
	const struct mix_size *size = claimed->size;
	/* Of a datagram that was put together the first part is as long as the first fragment's. */
	__u32 bytes = size->bytes - control.filling_offset;

	if (size->place == SECOND_FRAGMENT)
		offset += SECOND_HEAD_BYTES - STAMP_BYTES;
	if (size->bytes <= control.filling_offset)
		return true;
	if (size->bytes > LARGEST_LIVE_BYTES)
		return sum_is_intact(ctx, offset, bytes, size->fill_check);
	if (!filling_is_intact(ctx, offset, bytes))
		return false;
	if (!claimed->whole)
		return true;
	offset += bytes + SECOND_HEAD_BYTES;
	return filling_is_intact(ctx, offset, size->whole_bytes > offset ? size->whole_bytes - offset : 0);
}

#endif
