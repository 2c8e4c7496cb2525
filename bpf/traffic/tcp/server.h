/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The server keeps nothing: what it says is a function of the segment in hand. Its initial sequence number is a hash of
 * addresses and ports, so an acknowledgement says how much of the answers has arrived; a request ends where its sender
 * pushes; and there is never more than one segment under way in either direction, so what arrives is what is due.
 * Whatever is lost, the client asks for again.
 */
#ifndef RAMPART_TRAFFIC_TCP_SERVER_H
#define RAMPART_TRAFFIC_TCP_SERVER_H

#include "client.h"

static __always_inline bool is_for_server(const struct arrived *seen)
{
	const struct side *server = &control.listens;
	return seen->version == control.ip_version &&
	       host_of(server, seen->version, seen->destination) < server->hosts &&
	       bpf_ntohs(seen->destination_port) - server->port_first < server->ports;
}

/* Whether a SYN comes from an address or port that no client has, though the firewall has no business to change them. */
static __always_inline bool is_from_elsewhere(const struct arrived *seen)
{
	return !control.translates_sources && client_slot(seen) == NOT_OURS_SLOT;
}

/* Whether a segment comes from a client's address and port, but not to the server of those: see address_unopened(). */
static __always_inline bool is_to_another_server(const struct arrived *seen)
{
	__u32 slot = client_slot(seen);

	return has_other_servers() && slot != NOT_OURS_SLOT &&
	       host_of(&control.server, seen->version, seen->destination) != server_of_slot(slot);
}

/* Whether a SYN or ACK for one of the server's ports is an illegal attempt. It is counted and not answered. */
static __always_inline bool is_illegal_attempt(const struct arrived *seen)
{
	__u32 kind;

	if (!beside.illegal_step || (seen->flags != TCP_SYN && seen->flags != TCP_ACK))
		return false;
	kind = seen->sequence ^ illegal_sequence(seen->destination, seen->destination_port, seen->source_port);
	if (kind >= ILLEGAL_KINDS || !(is_from_elsewhere(seen) || (kind == ILLEGAL_ACK && is_to_another_server(seen))))
		return false;
	barrier_var(kind);
	this_beside()->illegal_arrived[kind & (ILLEGAL_KINDS - 1)]++;
	return true;
}

static __always_inline __u32 own_isn(const struct arrived *seen)
{
	return server_isn(seen->version, seen->source, seen->destination, seen->source_port, seen->destination_port);
}

/* Finds out whether the client wrote a segment, as the client does of the server's. */
static __always_inline void check_client(struct tcp_core *core, const struct arrived *seen)
{
	if (!check_seal(core, seen, COUNT_SERVER_UNSEALED, COUNT_SERVER_SEAL_CLEARED, COUNT_SERVER_SEALED))
		return;
	compare_window(core, seen, control.window);
	if (seen->flags & TCP_SYN)
		compare_options(core, seen, control.window_scale, COUNT_SERVER_OPTIONS_REMOVED);
}

/* Every answer has the same size, so the place in the stream says which answer it is, and where in it. */
static __always_inline void say_answer(struct tcp_core *core, struct segment *segment, __u32 place)
{
	__u32 offset = place < answer.bytes ? place : answer.bytes ? place % answer.bytes : 0;
	__u32 left = answer.bytes - offset;
	__u32 bytes = left < control.segment_bytes ? left : control.segment_bytes;

	segment->payload = PAYLOAD_ANSWER;
	segment->payload_offset = offset;
	segment->payload_bytes = bytes;
	if (bytes == left)
		segment->flags |= TCP_PSH;
	if (control.close == CLOSE_SERVER_FIN && place + bytes == control.transactions * answer.bytes)
		segment->flags |= TCP_FIN;
	core->count[COUNT_SERVER_ANSWER_BYTES] += bytes;
}

static __always_inline void say_syn_ack(const struct arrived *seen, struct segment *segment)
{
	segment->flags = TCP_SYN | TCP_ACK;
	segment->sequence = own_isn(seen);
	segment->acknowledgement = seen->sequence + 1;
	segment->offers = seen->offers & control.offers;
	segment->has_stamp = (segment->offers & OFFER_TIMESTAMPS) != 0;
}

static __always_inline int serve_syn(struct tcp_core *core, const struct arrived *seen, struct segment *segment)
{
	count(core, COUNT_SERVER_SYN);
	if (is_from_elsewhere(seen))
		count(core, COUNT_SERVER_OTHER_SOURCE);
	if (seen->mss < control.segment_bytes && answer.bytes > seen->mss) {
		count(core, COUNT_SERVER_SMALL_MSS);
		segment->flags = TCP_RST | TCP_ACK;
		segment->sequence = 0;
		segment->acknowledgement = seen->sequence + 1;
		segment->has_stamp = 0;
		return SPEAK;
	}
	say_syn_ack(seen, segment);
	return SPEAK;
}

/* The peer closes: three-way unless asked otherwise. `place` is 1 beyond the last answer when our FIN was first. */
static __always_inline int serve_fin(struct xdp_md *ctx, struct tcp_core *core, const struct arrived *seen,
				     struct segment *segment, __u32 place)
{
	if (seen->payload_bytes && !is_any_whole(ctx, seen, 0))
		return drop_as(core, COUNT_SERVER_DAMAGED);
	count(core, COUNT_SERVER_FIN);
	segment->acknowledgement = seen->sequence + seen->payload_bytes + 1;
	if (control.close == CLOSE_SERVER_FIN && place == control.transactions * answer.bytes + 1)
		return SPEAK;
	if (control.four_way) {
		struct segment fin = *segment;

		fin.flags |= TCP_FIN;
		keep_turned_macs(ctx, &fin);
		defer(&fin, control.server_port);
		count(core, COUNT_SERVER_FRAMES_OUT);
	} else {
		segment->flags |= TCP_FIN;
	}
	return SPEAK;
}

/* Whether the end of a request is the plan's. */
static __always_inline enum payload_check check_request(struct xdp_md *ctx, const struct arrived *seen,
							struct proof *found)
{
	if (control.check_request && seen->payload_bytes == request.bytes - control.last_request_at)
		return check_payload(ctx, seen, PAYLOAD_REQUEST, control.last_request_at, found);
	if (!is_any_whole(ctx, seen, 0))
		return PAYLOAD_DAMAGED;
	return control.check_request ? PAYLOAD_WRONG : PAYLOAD_RIGHT;
}

/* What a proof asks with; false when the client did not write it. */
static __always_inline bool read_ask(const struct proof *found, __u64 *ask)
{
	__u64 scrambled = (__u64)bits_of(found->words[0]) << 32 | bits_of(found->words[1]);
	struct proof again = spell(scrambled);

	*ask = unscramble(scrambled, control.request_keys);
	return same_proof(found, &again) && *ask >> 32 < control.slots;
}

static __always_inline int serve_request(struct xdp_md *ctx, struct tcp_core *core, const struct arrived *seen,
					 struct segment *segment, __u32 place)
{
	struct proof found = {};
	__u64 ask = 0;

	segment->acknowledgement = seen->sequence + seen->payload_bytes;
	if (!(seen->flags & TCP_PSH)) {
		if (!is_any_whole(ctx, seen, 0))
			return drop_as(core, COUNT_SERVER_DAMAGED);
		return SPEAK;	/* more of it follows */
	}
	switch (check_request(ctx, seen, &found)) {
	case PAYLOAD_DAMAGED:
		return drop_as(core, COUNT_SERVER_DAMAGED);
	case PAYLOAD_WRONG:
		count(core, COUNT_SERVER_WRONG_DATA);
		break;
	default:
		break;
	}
	count(core, COUNT_SERVER_REQUEST);
	if (request.proof_at != NO_PROOF) {
		if (!read_ask(&found, &ask))
			return drop_as(core, COUNT_SERVER_FORGED);
		if (!control.translates_sources && ask >> 32 != client_slot(seen))
			count(core, COUNT_SERVER_OTHER_SOURCE);
	}
	if (answer.bytes == 0)
		return SPEAK;
	count(core, COUNT_SERVER_ANSWER);
	segment->proof = scramble(ask, control.answer_keys);
	say_answer(core, segment, place);
	return SPEAK;
}

static __always_inline int serve_segment(struct xdp_md *ctx, struct tcp_core *core, const struct arrived *seen,
					 struct segment *segment)
{
	__u32 place = seen->acknowledgement - (own_isn(seen) + 1);
	__u32 all = control.transactions * answer.bytes;

	/* Held connections answer up to 255 rounds of verification more. */
	__u32 most = all + (control.close == CLOSE_NEVER ? 255 * answer.bytes : 0) + 1;

	if (!(seen->flags & TCP_ACK) || place > most) {
		count(core, COUNT_SERVER_STRAY);
		return SILENT;
	}
	if (place == 0)
		count(core, COUNT_SERVER_ESTABLISHED);
	segment->flags = TCP_ACK;
	segment->sequence = seen->acknowledgement;
	segment->acknowledgement = seen->sequence;
	if (seen->flags & TCP_FIN)
		return serve_fin(ctx, core, seen, segment, place);
	if (seen->payload_bytes)
		return serve_request(ctx, core, seen, segment, place);
	if (control.close == CLOSE_SERVER_FIN && place == all && all) {
		/* The last segment carried our FIN, which was not acknowledged. */
		segment->flags |= TCP_FIN;
		return SPEAK;
	}
	if (answer.bytes == 0 || place % answer.bytes == 0 || place % answer.bytes % control.segment_bytes)
		return SILENT;
	say_answer(core, segment, place);
	return SPEAK;
}

static __always_inline int server_receive(struct xdp_md *ctx)
{
	struct tcp_core *core = this_tcp_core();
	struct segment segment;
	struct arrived seen;
	int reaction, unread = read_segment(ctx, &seen);

	if (unread || !is_for_server(&seen)) {
		if (beside.active && beside_arrives(ctx, unread ? NULL : &seen))
			return XDP_DROP;
		core->foreign++;
		return XDP_PASS;
	}
	if (is_marked(&seen)) {
		if (!marked_arrives(&seen))
			return XDP_DROP;
		turn_round(&seen, &segment, tick_now(core));
		segment.window = control.server_window;
		say_syn_ack(&seen, &segment);
		return answer_with(ctx, seen.frame_bytes, &segment, control.server_port);
	}
	if (is_illegal_attempt(&seen))
		return XDP_DROP;
	count(core, COUNT_SERVER_FRAMES_IN);
	core->count[COUNT_SERVER_BYTES_IN] += seen.frame_bytes;
	/* That of data is looked at with the data. */
	if (!seen.payload_bytes && !is_whole(&seen, 0)) {
		count(core, COUNT_SERVER_DAMAGED);
		return XDP_DROP;
	}
	if (seen.flags & TCP_RST) {
		count(core, COUNT_SERVER_RESET);
		return XDP_DROP;
	}
	if (control.seals)
		check_client(core, &seen);
	turn_round(&seen, &segment, tick_now(core));
	segment.window = control.server_window;
	reaction = seen.flags & TCP_SYN ? serve_syn(core, &seen, &segment) : serve_segment(ctx, core, &seen, &segment);
	if (reaction == SILENT)
		return XDP_DROP;
	count(core, COUNT_SERVER_FRAMES_OUT);
	return answer_with(ctx, seen.frame_bytes, &segment, control.server_port);
}

#endif
