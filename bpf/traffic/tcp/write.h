/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Writing a segment into a frame, whole: nothing of the frame that was there before is kept, and no checksum that arrived
 * is trusted, because the kernel's own frames on a veth pair carry unfinished ones.
 */
#ifndef RAMPART_TRAFFIC_TCP_WRITE_H
#define RAMPART_TRAFFIC_TCP_WRITE_H

#include "../../net/checksum.h"
#include "seal.h"

#define TIME_TO_LIVE 64
#define DONT_FRAGMENT 0x4000

static __always_inline __u32 option_words(const struct segment *segment)
{
	__u32 offers = segment->offers;

	if (!(segment->flags & TCP_SYN))
		return segment->has_stamp ? 3 : 0;
	return ((offers & OFFER_MSS) != 0) + ((offers & OFFER_WINDOW_SCALE) != 0) +
	       (offers & OFFER_TIMESTAMPS ? 3 : (offers & OFFER_SACK) != 0);
}

/* The address of a side's host. */
static __always_inline void host_address(const struct side *side, __u32 host, __be32 *address)
{
	if (control.ip_version == 4) {
		address[0] = bpf_htonl(side->v4_first + host);
		return;
	}
	for (int i = 0; i < 3; i++)
		address[i] = side->v6_prefix[i];
	address[3] = bpf_htonl(side->v6_first + host);
}

static __always_inline __u32 ip_header_bytes(void)
{
	return control.ip_version == 4 ? IPV4_BYTES : IPV6_BYTES;
}

static __always_inline __u32 segment_frame_bytes(const struct segment *segment)
{
	return ETHERNET_BYTES + ip_header_bytes() + TCP_BYTES + 4 * option_words(segment) + segment->payload_bytes;
}

/* Appends one word of options. */
static __always_inline __be32 *put_word(__be32 *at, void *end, __be32 word, __u32 *sum)
{
	if (!at || (void *)(at + 1) > end)
		return 0;
	*at = word;
	*sum += checksum_word(word);
	return at + 1;
}

static __always_inline __be32 *put_stamps(__be32 *at, void *end, __be32 kind, const struct segment *segment,
					  __u32 *sum)
{
	at = put_word(at, end, kind, sum);
	at = put_word(at, end, bpf_htonl(segment->stamp), sum);
	return put_word(at, end, bpf_htonl(segment->stamp_echo), sum);
}

static __always_inline __be32 *put_offers(__be32 *at, void *end, const struct segment *segment, __u32 *sum)
{
	__u32 offers = segment->offers;

	if (offers & OFFER_MSS)
		at = put_word(at, end, bpf_htonl(MSS_OPTION | control.mss), sum);
	if (offers & OFFER_TIMESTAMPS)
		at = put_stamps(at, end, offers & OFFER_SACK ? SACK_STAMP : NOP_NOP_STAMP, segment, sum);
	else if (offers & OFFER_SACK)
		at = put_word(at, end, NOP_NOP_SACK, sum);
	/* The server remembers no peer, so its windows must mean the same with and without scaling: it scales by 0. */
	if (offers & OFFER_WINDOW_SCALE)
		at = put_word(at, end,
			      bpf_htonl(SCALE_OPTION | (segment->flags & TCP_ACK ? 0 : control.window_scale)), sum);
	return at;
}

/* The sum of the segment of a message that begins at `offset`, without its proof. */
static __always_inline __u32 message_sum(const struct message *message, __u32 offset)
{
	__u32 number = offset && control.segment_bytes ? offset / control.segment_bytes : 0;

	return message->sums[number & (MAX_SEGMENTS - 1)];
}

static __always_inline const struct message *message_of(__u32 kind)
{
	return kind == PAYLOAD_REQUEST ? &request : &answer;
}

static __always_inline bool segment_has_proof(const struct segment *segment)
{
	return has_proof(message_of(segment->payload)->proof_at, segment->payload_offset, segment->payload_bytes);
}

/* `proof` is null where the segment has none. */
static __always_inline __u32 payload_sum(const struct segment *segment, const struct proof *proof)
{
	__u32 sum;

	if (segment->payload_bytes == 0)
		return 0;
	sum = message_sum(message_of(segment->payload), segment->payload_offset);
	return proof ? sum + proof_sum(proof) : sum;
}

/* `sum` begins with the pseudo header and the payload. */
static __always_inline int write_tcp(struct tcp *tcp, void *end, const struct segment *segment, __u32 sum)
{
	__u32 words = option_words(segment);
	__be32 sequence = bpf_htonl(segment->sequence), acknowledgement = bpf_htonl(segment->acknowledgement);
	__be16 window = bpf_htons(segment->window);
	__be32 *options = (void *)(tcp + 1);
	__u8 header_words = (5 + words) << 4;

	if ((void *)(tcp + 1) > end)
		return -1;
	tcp->source = segment->source_port;
	tcp->destination = segment->destination_port;
	tcp->sequence = sequence;
	tcp->acknowledgement = acknowledgement;
	tcp->header_words = header_words;
	tcp->flags = segment->flags;
	tcp->window = window;
	tcp->urgent = 0;
	sum += (__u32)segment->source_port + segment->destination_port + checksum_word(sequence) +
	       checksum_word(acknowledgement) + bpf_htons((__u16)header_words << 8 | segment->flags) + window;
	if (segment->flags & TCP_SYN)
		options = put_offers(options, end, segment, &sum);
	else if (segment->has_stamp)
		options = put_stamps(options, end, NOP_NOP_STAMP, segment, &sum);
	if (!options)
		return -1;
	tcp->check = checksum_fold(sum);
	return 0;
}

static __always_inline __u32 address_sum(const struct segment *segment, __u32 words)
{
	__u32 sum = 0;

	for (__u32 i = 0; i < words; i++)
		sum += checksum_word(segment->source[i]) + checksum_word(segment->destination[i]);
	return sum;
}

/* The identification of an IPv4 packet: a segment's seal, or the number of a datagram of which this is a fragment. */
static __always_inline __u16 identification(const struct segment *segment, __u8 protocol, __u16 fragment)
{
	if (fragment)
		return segment->sequence;
	return protocol == PROTOCOL_TCP ? seal_of(segment) : 0;
}

/* The Ethernet type and an IPv4 header before `payload` bytes, in whole words. `fragment` in host byte order. */
static __always_inline int write_ipv4(void *data, void *end, const struct segment *segment, __u8 protocol,
				      __u16 payload, __u16 fragment)
{
	struct ethernet *eth = data;
	struct ipv4 *ip = (void *)(eth + 1);
	__be16 bytes = bpf_htons(IPV4_BYTES + payload), flags = bpf_htons(fragment ? fragment : DONT_FRAGMENT);
	__u16 id = identification(segment, protocol, fragment);

	if ((void *)(ip + 1) > end)
		return -1;
	eth->type = bpf_htons(ETHERTYPE_IPV4);
	*(__u32 *)ip = (__u32)bytes << 16 | 0x45;
	*((__u32 *)ip + 1) = (__u32)flags << 16 | id;
	*((__u32 *)ip + 2) = bpf_htonl(TIME_TO_LIVE << 24 | protocol << 16) |
			     (__u32)checksum_fold(address_sum(segment, 1) + bpf_htons(0x4500) + bytes + id + flags +
						  bpf_htons(TIME_TO_LIVE << 8 | protocol)) << 16;
	ip->source = segment->source[0];
	ip->destination = segment->destination[0];
	return 0;
}

static __always_inline int write_ipv6(void *data, void *end, const struct segment *segment, __u8 protocol,
				      __u16 payload)
{
	struct ethernet *eth = data;
	struct ipv6 *ip = (void *)(eth + 1);

	if ((void *)(ip + 1) > end)
		return -1;
	eth->type = bpf_htons(ETHERTYPE_IPV6);
	ip->version_class_flow = bpf_htonl(0x60000000);
	ip->payload_bytes = bpf_htons(payload);
	ip->next_header = protocol;
	ip->hop_limit = TIME_TO_LIVE;
	for (int i = 0; i < 4; i++) {
		ip->source[i] = segment->source[i];
		ip->destination[i] = segment->destination[i];
	}
	return 0;
}

#define SHORT_BYTES 64	/* payload up to here is copied and compared in place: a helper call costs more */

/* Copies 1 to SHORT_BYTES bytes: whole words, then the last word again where the end is none. */
static __always_inline int copy_short(void *to, void *end, const __u8 *from, __u32 bytes)
{
	__u32 last = bytes - 8;

	if (bytes < 8) {
		for (__u32 i = 0; i < 7; i++) {
			if (i >= bytes)
				break;
			if (to + i + 1 > end)
				return -1;
			((__u8 *)to)[i] = from[i];
		}
		return 0;
	}
	_Pragma("unroll") for (__u32 i = 0; i < SHORT_BYTES / 8; i++) {
		if (8 * i + 8 > bytes)
			break;
		if (to + 8 * i + 8 > end)
			return -1;
		*(__u64 *)(to + 8 * i) = *(const __u64 *)(from + 8 * i);
	}
	last &= SHORT_BYTES - 1;
	to += last;
	if (to + 8 > end)
		return -1;
	*(__u64 *)to = *(const __u64 *)(from + last);
	return 0;
}

/* Whether 1 to SHORT_BYTES bytes are the same, in the same way. */
static __always_inline bool same_short(const void *found, void *end, const __u8 *expected, __u32 bytes)
{
	__u32 last = bytes - 8;

	if (bytes < 8) {
		for (__u32 i = 0; i < 7; i++) {
			if (i >= bytes)
				break;
			if (found + i + 1 > end || ((const __u8 *)found)[i] != expected[i])
				return false;
		}
		return true;
	}
	_Pragma("unroll") for (__u32 i = 0; i < SHORT_BYTES / 8; i++) {
		if (8 * i + 8 > bytes)
			break;
		if (found + 8 * i + 8 > end || *(const __u64 *)(found + 8 * i) != *(const __u64 *)(expected + 8 * i))
			return false;
	}
	last &= SHORT_BYTES - 1;
	found += last;
	return found + 8 <= end && *(const __u64 *)found == *(const __u64 *)(expected + last);
}

/* Copies the payload behind the headers. */
static __always_inline int write_payload(struct xdp_md *ctx, const struct segment *segment, const struct proof *proof)
{
	__u32 bytes = segment->payload_bytes, offset = segment->payload_offset;
	__u32 at = segment_frame_bytes(segment) - bytes;
	__u64 last = (__u64)bytes - 1, begin = offset;
	void *from;

	if (bytes == 0)
		return 0;
	if (bytes > MAX_SEGMENT_BYTES || offset >= MAX_MESSAGE_BYTES)
		return -1;
	/* In 64 bits and less one: Linux 6.1 forgets bounds of half a register, and learns nothing from "not 0". */
	barrier_var(last);
	barrier_var(begin);
	if (last >= MAX_SEGMENT_BYTES || begin >= MAX_MESSAGE_BYTES)
		return -1;
	from = segment->payload == PAYLOAD_REQUEST ? &request.data[begin] : &answer.data[begin];
	if (bytes <= SHORT_BYTES) {
		if (copy_short((void *)(long)ctx->data + (at & 0x7f), (void *)(long)ctx->data_end, from, bytes))
			return -1;
	} else if (bpf_xdp_store_bytes(ctx, at, from, last + 1)) {
		return -1;
	}
	return proof ? put_proof(ctx, at + message_of(segment->payload)->proof_at - offset, proof) : 0;
}

/* Writes the seal of a segment over IPv6 that is written but for it, and adds it to the checksum (RFC 1624). Not inline, because on Linux
 * 6.1 the callers have no stack left. */
static __noinline int put_seal(struct xdp_md *ctx, const struct segment *segment)
{
	struct tcp *tcp = (void *)(long)ctx->data + ETHERNET_BYTES + IPV6_BYTES;
	__u16 seal = seal_of(segment);

	if ((void *)(tcp + 1) > (void *)(long)ctx->data_end)
		return -1;
	tcp->urgent = seal;
	tcp->check = checksum_fold((__u16)~tcp->check + seal);
	return 0;
}

/* Makes the frame in hand, which has the right length, into `segment`; its MAC addresses are already there. */
static __always_inline int write_segment(struct xdp_md *ctx, const struct segment *segment)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 bytes = segment_frame_bytes(segment) - ETHERNET_BYTES - ip_header_bytes();
	__u32 sum = bpf_htons(PROTOCOL_TCP) + bpf_htons(bytes);
	const struct proof *proof = NULL;
	struct proof letters;
	int failed;

	if (segment->payload_bytes && segment_has_proof(segment)) {
		letters = spell(segment->proof);
		proof = &letters;
	}
	sum += payload_sum(segment, proof);
	if (control.ip_version == 4)
		failed = write_ipv4(data, end, segment, PROTOCOL_TCP, bytes, 0) ||
			 write_tcp(data + ETHERNET_BYTES + IPV4_BYTES, end, segment, sum + address_sum(segment, 1));
	else
		failed = write_ipv6(data, end, segment, PROTOCOL_TCP, bytes) ||
			 write_tcp(data + ETHERNET_BYTES + IPV6_BYTES, end, segment, sum + address_sum(segment, 4)) ||
			 put_seal(ctx, segment);
	return failed ? -1 : write_payload(ctx, segment, proof);
}

static __always_inline int resize(struct xdp_md *ctx, __u32 from, __u32 to)
{
	return from == to ? 0 : bpf_xdp_adjust_tail(ctx, (int)to - (int)from);
}

/* Swaps the frame's MAC addresses, as three words each. */
static __always_inline int turn_macs(struct xdp_md *ctx)
{
	__u16 *mac = (void *)(long)ctx->data, swap[3];

	if ((void *)(mac + 6) > (void *)(long)ctx->data_end)
		return -1;
	__builtin_memcpy(swap, mac, 6);
	__builtin_memcpy(mac, mac + 3, 6);
	__builtin_memcpy(mac + 3, swap, 6);
	return 0;
}

/* Copies two MAC addresses that follow each other, as whole words. */
static __always_inline void copy_macs(void *to, const void *from)
{
	_Pragma("unroll") for (int i = 0; i < 3; i++)
		((__u32 *)to)[i] = ((const __u32 *)from)[i];
}

/* Gives the recycled frame its length and MAC addresses. */
static __always_inline int prepare_frame(struct xdp_md *ctx, const struct segment *segment, __u32 bytes)
{
	void *mac;

	if (resize(ctx, (void *)(long)ctx->data_end - (void *)(long)ctx->data, bytes))
		return -1;
	mac = (void *)(long)ctx->data;
	if (mac + 12 > (void *)(long)ctx->data_end)
		return -1;
	copy_macs(mac, segment->to_mac);
	return 0;
}

/* Sends `segment` in the recycled frame. Global, so that the verifier looks at it once, and not once for each way to it. */
__noinline int send_new(struct xdp_md *ctx, const struct segment *segment, __u32 port)
{
	if (!segment || prepare_frame(ctx, segment, segment_frame_bytes(segment)) || write_segment(ctx, segment))
		return XDP_ABORTED;
	return bpf_redirect_map(&ports, port, 0);
}

/* Keeps the turned MAC addresses for a frame that the generator sends later. */
static __always_inline void keep_turned_macs(struct xdp_md *ctx, struct segment *segment)
{
	__u8 *mac = (void *)(long)ctx->data;

	if ((void *)(mac + 12) > (void *)(long)ctx->data_end)
		return;
	__builtin_memcpy(segment->to_mac, mac + 6, 6);
	__builtin_memcpy(segment->from_mac, mac, 6);
}

/* Sends `segment` in the frame that just arrived, back through the port that it came from. `port` is that port's index,
 * for when the frame has no room. XDP_TX would be lost on a veth pair whose far end runs no XDP program. */
static __always_inline int answer_with(struct xdp_md *ctx, __u32 frame_bytes, struct segment *segment, __u32 port)
{
	if (resize(ctx, frame_bytes, segment_frame_bytes(segment))) {
		keep_turned_macs(ctx, segment);
		defer(segment, port);
		return XDP_DROP;
	}
	if (turn_macs(ctx) || write_segment(ctx, segment))
		return XDP_ABORTED;
	return bpf_redirect(ctx->ingress_ifindex, 0);
}

/* The same for long payloads. Global, as the next, so that the verifier looks at the loop once. */
__noinline int differs_long(struct xdp_md *ctx, __u32 at, __u32 bytes, __u32 kind, __u32 offset)
{
	__u64 *copy = scratch[this_core()].words;
	const __u64 *words;
	__u64 last = (__u64)bytes - 1;
	__u32 i;

	/* In 64 bits and less one: Linux 6.1 forgets bounds of half a register, and learns nothing from "not 0". */
	barrier_var(last);
	if (last >= MAX_SEGMENT_BYTES || offset >= MAX_MESSAGE_BYTES)
		return true;
	words = (const void *)(kind == PAYLOAD_REQUEST ? &request.data[offset] : &answer.data[offset]);
	if (bpf_xdp_load_bytes(ctx, at, copy, last + 1))
		return true;
	for (i = 0; i < MAX_SEGMENT_BYTES / 8; i++) {
		if (i >= bytes / 8)
			break;
		if (copy[i] != words[i])
			return true;
	}
	if (bytes & 7)
		return ((copy[i] ^ words[i]) << (64 - 8 * (bytes & 7))) != 0;
	return false;
}

/* Compares the payload that arrived, which is not empty, with the same stretch of the message. */
static __always_inline bool differs(struct xdp_md *ctx, __u32 at, __u32 bytes, __u32 kind, __u32 offset)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	if (bytes > SHORT_BYTES)
		return differs_long(ctx, at, bytes, kind, offset);
	barrier_var(offset);
	if (offset >= MAX_MESSAGE_BYTES)
		return true;
	return !same_short(data + (at & 0x7f), end,
			   kind == PAYLOAD_REQUEST ? &request.data[offset] : &answer.data[offset], bytes);
}

/* The sum of any payload, folded. */
__noinline int payload_sum_of(struct xdp_md *ctx, __u32 at, __u32 bytes)
{
	__u64 *copy = scratch[this_core()].words, sum = 0, last = (__u64)bytes - 1;
	__u32 i;

	/* As above. */
	barrier_var(last);
	if (last >= MAX_SEGMENT_BYTES || bpf_xdp_load_bytes(ctx, at, copy, last + 1))
		return 0;
	for (i = 0; i < MAX_SEGMENT_BYTES / 8; i++) {
		if (i >= bytes / 8)
			break;
		sum += checksum_long(copy[i]);
	}
	if (bytes & 7)
		sum += checksum_long(copy[i] << (64 - 8 * (bytes & 7)) >> (64 - 8 * (bytes & 7)));
	return checksum_word(sum);
}

/*
 * Whether the checksums are right, where the payload's sum is known. A kernel on a veth pair leaves the TCP checksum of what
 * it made itself to the device, and no device finishes it: it is that of the pseudo header alone.
 */
static __always_inline bool is_whole(const struct arrived *seen, __u32 payload)
{
	if (seen->bad_header)
		return false;
	return checksum_fold(seen->sum + payload) == 0 || seen->check == (__u16)~checksum_fold(seen->pseudo);
}

/* The same for any payload. `taken` is the sum of what was taken out of it. */
static __always_inline bool is_any_whole(struct xdp_md *ctx, const struct arrived *seen, __u32 taken)
{
	return is_whole(seen, taken + (seen->payload_bytes ? payload_sum_of(ctx, seen->payload_at, seen->payload_bytes) : 0));
}

/* What a payload is. */
enum payload_check { PAYLOAD_RIGHT, PAYLOAD_DAMAGED, PAYLOAD_WRONG };

/* Compares a payload with the stretch of a message that it should be, and checks the segment's checksums. `found` is the proof
 * in it, where that stretch has one. The sum of what is right is known beforehand, so only what is wrong is summed up. */
static __always_inline enum payload_check check_payload(struct xdp_md *ctx, const struct arrived *seen, __u32 kind,
							__u32 offset, struct proof *found)
{
	const struct message *message = message_of(kind);
	__u32 bytes = seen->payload_bytes, left = message->bytes - offset, taken = 0;
	bool right = offset <= message->bytes && bytes <= left;

	if (right && has_proof(message->proof_at, offset, bytes)) {
		if (take_proof(ctx, seen->payload_at + message->proof_at - offset, found))
			return PAYLOAD_DAMAGED;
		taken = proof_sum(found);
	}
	right = right && !differs(ctx, seen->payload_at, bytes, kind, offset);
	/* As the other end cut it, so that its sum is known. */
	if (right && (bytes == left || bytes == control.segment_bytes) &&
	    (offset == 0 || (control.segment_bytes && offset % control.segment_bytes == 0)))
		return is_whole(seen, message_sum(message, offset) + taken) ? PAYLOAD_RIGHT : PAYLOAD_DAMAGED;
	if (!is_any_whole(ctx, seen, taken))
		return PAYLOAD_DAMAGED;
	return right ? PAYLOAD_RIGHT : PAYLOAD_WRONG;
}

#endif
