/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The client's receiver: turns each segment of a connection of ours into the next one. It never opens a connection and
 * never waits: starts, retransmissions and time-outs are the generator's (open.h).
 */
#ifndef RAMPART_TRAFFIC_TCP_CLIENT_H
#define RAMPART_TRAFFIC_TCP_CLIENT_H

#include "beside.h"
#include "connection.h"

#define NOT_OURS_SLOT (~0U)

/* What a handler decides: send the segment that it filled in, or nothing. */
enum reaction { SILENT = 0, SPEAK = 1 };

/* Connection number of a client's address and port: ports turn slowest, so that few ports are used where there are many
 * addresses. NOT_OURS_SLOT for what lies outside. */
static __always_inline __u32 slot_of(__u8 version, const __be32 *address, __be16 port)
{
	const struct side *client = &control.client;
	__u32 number = bpf_ntohs(port) - client->port_first, host = host_of(client, version, address);

	if (version != control.ip_version || host >= client->hosts || number >= client->ports)
		return NOT_OURS_SLOT;
	return number * client->hosts + host;
}

/* The number of the connection that a segment is for, at the client's port. */
static __always_inline __u32 own_slot(const struct arrived *seen)
{
	return slot_of(seen->version, seen->destination, seen->destination_port);
}

/* The number of the connection that a segment comes from, at the server's port. */
static __always_inline __u32 client_slot(const struct arrived *seen)
{
	return slot_of(seen->version, seen->source, seen->source_port);
}

/* Whether the segment comes from the server that this connection was opened to. */
static __always_inline bool is_from_server(const struct connection *c, const struct arrived *seen)
{
	__be32 expected = seen->version == 4 ? bpf_htonl(control.server.v4_first + c->server)
					     : bpf_htonl(control.server.v6_first + c->server);
	__be32 found = seen->version == 4 ? seen->source[0] : seen->source[3];

	return expected == found && bpf_ntohs(seen->source_port) == c->server_port;
}

static __always_inline int acknowledge(const struct connection *c, __u32 phase, struct segment *segment)
{
	say(c, phase, segment, TCP_ACK);
	return SPEAK;
}

static __always_inline int drop_as(struct tcp_core *core, enum tcp_count why)
{
	count(core, why);
	return SILENT;
}

static __noinline int on_reset(struct tcp_core *core, struct connection *c, __u32 phase, const struct arrived *seen,
			       __u32 tick)
{
	if (!core || !c || !seen || is_over(phase_state(phase)))
		return SILENT;
	if (phase_state(phase) == CONNECTION_SYN_SENT) {
		if (!(seen->flags & TCP_ACK) || seen->acknowledgement != c->isn + 1)
			return drop_as(core, COUNT_STRANGE_RESET);
		end_connection(core, c, phase, COUNT_REFUSED, tick);
		return SILENT;
	}
	if (is_marked(seen))
		marked_arrives(seen);
	if (seen->sequence != c->peer_next)
		return drop_as(core, COUNT_STRANGE_RESET);
	end_connection(core, c, phase, COUNT_RESET, tick);
	return SILENT;
}

/* Acknowledges what a connection being opened never sent: the peer still has an older one, and learns that it is gone
 * (RFC 9293 section 3.5.2). The SYN comes again. */
static __always_inline int refuse_old(struct tcp_core *core, const struct arrived *seen, struct segment *segment)
{
	count(core, COUNT_STRAY);
	if (!(seen->flags & TCP_ACK))
		return SILENT;
	segment->flags = TCP_RST;
	segment->sequence = seen->acknowledgement;
	segment->acknowledgement = 0;
	segment->window = 0;
	segment->has_stamp = 0;
	return SPEAK;
}

static __always_inline void measure_established(struct tcp_core *core, const struct connection *c)
{
	__u64 now = bpf_ktime_get_ns();

	measure(core, TIME_ESTABLISHED, c->intended_ns, now);
	measure(core, TIME_ESTABLISHMENT, c->syn_ns, now);
}

static __always_inline int on_syn_ack(struct tcp_core *core, struct connection *c, __u32 phase,
				      const struct arrived *seen, struct segment *segment)
{
	__u8 state = control.transactions ? CONNECTION_REQUESTED : CONNECTION_HELD;
	__u8 flags = (seen->has_stamp ? CONNECTION_STAMPS : 0) | (seen->window ? 0 : CONNECTION_WINDOW_SHUT) |
		     (seen->proxied ? CONNECTION_PROXIED : 0);
	__u32 next = next_phase(phase, state, flags);

	if (phase_state(phase) != CONNECTION_SYN_SENT) {
		/* Our acknowledgement was lost, or the frame was copied on the way. */
		count(core, COUNT_DUPLICATE);
		return acknowledge(c, phase, segment);
	}
	if (seen->acknowledgement != c->isn + 1)
		return refuse_old(core, seen, segment);
	if (!move(core, c, phase, next))
		return SILENT;
	c->peer_next = seen->sequence + 1;
	c->peer_stamp = seen->stamp;
	c->touched = segment->stamp;
	count(core, COUNT_ESTABLISHED);
	if (seen->proxied)
		count(core, COUNT_PROXIED);
	if (phase_flags(phase) & CONNECTION_SAMPLED)
		measure_established(core, c);
	if (state == CONNECTION_REQUESTED && seen->window) {
		say_request(core, c, seen->slot, next, segment);
		return SPEAK;
	}
	return acknowledge(c, next, segment);
}

/* Our FIN: the state says which of the two ends was first. */
static __always_inline int send_fin(struct xdp_md *ctx, struct tcp_core *core, struct connection *c, __u32 phase,
				    __u8 state, struct segment *segment)
{
	__u32 next = next_phase(phase, state, 0);

	if (!move(core, c, phase, next))
		return SILENT;
	begin_close(c, phase);
	if (state == CONNECTION_LAST_ACK && control.four_way) {
		/* Acknowledge now; the FIN follows in a frame of the generator's. */
		struct segment fin = *segment;

		say_fin(c, next, &fin);
		keep_turned_macs(ctx, &fin);
		defer(&fin, control.client_port);
		count(core, COUNT_FRAMES_OUT);
		core->count[COUNT_BYTES_OUT] += segment_frame_bytes(&fin);
		say(c, next, segment, TCP_ACK);
		segment->sequence--;
		return SPEAK;
	}
	say_fin(c, next, segment);
	return SPEAK;
}

static __always_inline int send_reset(struct tcp_core *core, struct connection *c, __u32 phase, enum tcp_count why,
				      struct segment *segment)
{
	if (why == COUNT_CLOSED)
		begin_close(c, phase);
	say(c, phase, segment, TCP_RST | TCP_ACK);
	segment->has_stamp = 0;
	if (!end_connection(core, c, phase, why, segment->stamp))
		return SILENT;
	return SPEAK;
}

/* The last answer is here: ends the connection as the plan says. */
static __always_inline int finish(struct xdp_md *ctx, struct tcp_core *core, struct connection *c, __u32 phase,
				  const struct arrived *seen, struct segment *segment)
{
	__u32 next;

	if (control.close == CLOSE_RESET && !control.hold_ticks)
		return send_reset(core, c, phase, COUNT_CLOSED, segment);
	if (seen->flags & TCP_FIN) {
		if (control.close != CLOSE_SERVER_FIN)
			return send_reset(core, c, phase, COUNT_PEER_CLOSED, segment);
		return send_fin(ctx, core, c, phase, CONNECTION_LAST_ACK, segment);
	}
	if (control.close == CLOSE_CLIENT_FIN && !control.hold_ticks)
		return send_fin(ctx, core, c, phase, CONNECTION_FIN_SENT, segment);
	next = next_phase(phase, control.close == CLOSE_SERVER_FIN ? CONNECTION_AWAITS_FIN : CONNECTION_HELD, 0);
	if (!move(core, c, phase, next))
		return SILENT;
	return acknowledge(c, next, segment);
}

/* A complete answer: the next request, or the end. */
static __always_inline int on_answer(struct xdp_md *ctx, struct tcp_core *core, struct connection *c, __u32 phase,
				     const struct arrived *seen, struct segment *segment)
{
	__u32 next;

	c->received = 0;
	c->done++;
	c->acked = c->sent;
	count(core, COUNT_ANSWERS);
	if (c->done < control.transactions && !(seen->flags & TCP_FIN)) {
		next = next_phase(phase, CONNECTION_REQUESTED, 0);
		if (!move(core, c, phase, next))
			return SILENT;
		say_request(core, c, seen->slot, next, segment);
		return SPEAK;
	}
	if (c->done < control.transactions)
		return send_reset(core, c, phase, COUNT_PEER_CLOSED, segment);
	if (phase_flags(phase) & CONNECTION_VERIFIED) {
		count(core, COUNT_VERIFIED);
	} else {
		count(core, COUNT_COMPLETED);
		if (phase_flags(phase) & CONNECTION_SAMPLED)
			measure(core, TIME_LAST_BYTE, c->intended_ns, bpf_ktime_get_ns());
	}
	return finish(ctx, core, c, phase, seen, segment);
}

/* Data or FIN, in order. */
static __always_inline int on_data(struct xdp_md *ctx, struct tcp_core *core, struct connection *c, __u32 phase,
				   const struct arrived *seen, struct segment *segment)
{
	__u32 received = c->received + seen->payload_bytes;
	bool complete = answer.bytes ? received == answer.bytes : (seen->flags & TCP_FIN) != 0;

	core->count[COUNT_ANSWER_BYTES] += seen->payload_bytes;
	if (c->received == 0 && c->done == 0 && seen->payload_bytes) {
		count(core, COUNT_FIRST_BYTE);
		if (phase_flags(phase) & CONNECTION_SAMPLED)
			measure(core, TIME_FIRST_BYTE, c->intended_ns, bpf_ktime_get_ns());
	}
	c->peer_next += seen->payload_bytes + (seen->flags & TCP_FIN ? 1 : 0);
	c->received = received;
	if (complete)
		return on_answer(ctx, core, c, phase, seen, segment);
	if (seen->flags & TCP_FIN)
		return send_reset(core, c, phase, COUNT_WRONG_DATA, segment);
	return acknowledge(c, phase, segment);
}

/* The server's FIN after all answers, or at a time when the plan has none. */
static __always_inline int on_fin(struct xdp_md *ctx, struct tcp_core *core, struct connection *c, __u32 phase,
				  struct segment *segment)
{
	__u8 state = phase_state(phase);

	c->peer_next++;
	if (state == CONNECTION_AWAITS_FIN)
		return send_fin(ctx, core, c, phase, CONNECTION_LAST_ACK, segment);
	if (state == CONNECTION_FIN_SENT || state == CONNECTION_FIN_ACKED) {
		if (!end_connection(core, c, phase, COUNT_CLOSED, segment->stamp))
			return SILENT;
		return acknowledge(c, phase, segment);
	}
	return send_reset(core, c, phase, COUNT_PEER_CLOSED, segment);
}

/* An acknowledgement without data. */
static __always_inline int on_acknowledgement(struct tcp_core *core, struct connection *c,
					      __u32 phase, const struct arrived *seen, struct segment *segment)
{
	__u8 state = phase_state(phase);
	__u32 next;

	if (state == CONNECTION_LAST_ACK && c->acked == c->sent) {
		end_connection(core, c, phase, COUNT_CLOSED, segment->stamp);
		return SILENT;
	}
	if (state == CONNECTION_FIN_SENT && c->acked == c->sent) {
		move(core, c, phase, next_phase(phase, CONNECTION_FIN_ACKED, 0));
		return SILENT;
	}
	if (state == CONNECTION_REQUESTED && phase_flags(phase) & CONNECTION_WINDOW_SHUT && seen->window) {
		next = phase & ~(CONNECTION_WINDOW_SHUT << 16);
		if (!move(core, c, phase, next))
			return SILENT;
		say_request(core, c, seen->slot, next, segment);
		return SPEAK;
	}
	if (state == CONNECTION_REQUESTED && c->acked == c->sent && c->sent &&
	    c->acked < ((__u32)c->done + 1) * request.bytes) {
		say_request(core, c, seen->slot, phase, segment);
		return SPEAK;
	}
	return SILENT;
}

/* Whether data in order is the server's answer to this request. */
static __always_inline enum payload_check check_answer(struct xdp_md *ctx, struct tcp_core *core,
						       const struct connection *c, const struct arrived *seen)
{
	struct proof found = {}, expected;
	enum payload_check is;

	is = check_payload(ctx, seen, PAYLOAD_ANSWER, c->received, &found);
	if (is != PAYLOAD_RIGHT || !has_proof(answer.proof_at, c->received, seen->payload_bytes))
		return is;
	expected = spell(scramble(asked(seen->slot, c), control.answer_keys));
	if (same_proof(&found, &expected))
		return PAYLOAD_RIGHT;
	count(core, COUNT_FORGED);
	return PAYLOAD_WRONG;
}

static __always_inline int on_segment(struct xdp_md *ctx, struct tcp_core *core, struct connection *c, __u32 phase,
				      const struct arrived *seen, struct segment *segment)
{
	__u32 acked = seen->acknowledgement - (c->isn + 1);
	__u8 state = phase_state(phase);
	enum payload_check is = PAYLOAD_RIGHT;

	if (seen->payload_bytes) {
		if (state == CONNECTION_REQUESTED && seen->sequence == c->peer_next && answer.bytes)
			is = check_answer(ctx, core, c, seen);
		else if (!is_any_whole(ctx, seen, 0))
			is = PAYLOAD_DAMAGED;
		if (is == PAYLOAD_DAMAGED)
			return drop_as(core, COUNT_DAMAGED);
	}
	if (state == CONNECTION_SYN_SENT)
		return refuse_old(core, seen, segment);
	if (!(seen->flags & TCP_ACK) || acked > c->sent)
		return drop_as(core, COUNT_STRAY);
	if (acked > c->acked)
		c->acked = acked;
	if (seen->sequence != c->peer_next) {
		if (seen->payload_bytes || seen->flags & TCP_FIN)
			count(core, (__s32)(seen->sequence - c->peer_next) < 0 ? COUNT_DUPLICATE : COUNT_OUT_OF_ORDER);
		return acknowledge(c, phase, segment);
	}
	c->touched = segment->stamp;
	if (seen->has_stamp)
		c->peer_stamp = seen->stamp;
	if (is == PAYLOAD_WRONG)
		return send_reset(core, c, phase, COUNT_WRONG_DATA, segment);
	if (state == CONNECTION_REQUESTED && (seen->payload_bytes || seen->flags & TCP_FIN))
		return on_data(ctx, core, c, phase, seen, segment);
	if (seen->payload_bytes)
		return send_reset(core, c, phase, COUNT_WRONG_DATA, segment);
	if (seen->flags & TCP_FIN)
		return on_fin(ctx, core, c, phase, segment);
	return on_acknowledgement(core, c, phase, seen, segment);
}

/* A FIN that comes again after the end: our last acknowledgement was lost (RFC 9293's TIME-WAIT). */
static __always_inline int on_late(struct tcp_core *core, const struct connection *c, __u32 phase,
				   const struct arrived *seen, struct segment *segment)
{
	count(core, COUNT_LATE);
	if (!(seen->flags & TCP_FIN) || seen->sequence + seen->payload_bytes + 1 != c->peer_next)
		return SILENT;
	return acknowledge(c, phase, segment);
}

/* Whether a SYN-ACK has another sequence number than the server's. */
static __always_inline bool is_of_proxy(const struct arrived *seen)
{
	return control.knows_server_isn &&
	       seen->sequence != server_isn(seen->version, seen->destination, seen->source, seen->destination_port,
					    seen->source_port);
}

/* Finds out whether the server wrote a segment, and what of it was changed that a firewall may change, or may not. Of a connection that a
 * proxy opened for itself no segment is the server's. */
static __noinline int check_author(struct tcp_core *core, __u32 phase, struct arrived *seen)
{
	bool opens = seen && phase_state(phase) == CONNECTION_SYN_SENT && seen->flags & TCP_SYN;

	if (!core || !seen || phase_flags(phase) & CONNECTION_PROXIED)
		return 0;
	if (opens && is_of_proxy(seen)) {
		seen->proxied = 1;
		return 0;
	}
	if (!check_seal(core, seen, COUNT_UNSEALED, COUNT_SEAL_CLEARED, COUNT_SEALED))
		return 0;
	compare_window(core, seen, control.server_window);
	if (opens)
		compare_options(core, seen, 0, COUNT_OPTIONS_REMOVED);
	return 0;
}

static __always_inline int on_arrival(struct xdp_md *ctx, struct tcp_core *core, __u32 slot, struct arrived *seen,
				      struct segment *segment)
{
	struct connection *c = slot < control.slots ? bpf_map_lookup_elem(&connections, &slot) : NULL;
	__u32 phase;

	if (!c)
		return drop_as(core, COUNT_STRAY);
	phase = READ_ONCE(c->phase);
	if (phase_state(phase) == CONNECTION_FREE || !is_from_server(c, seen))
		return drop_as(core, COUNT_STRAY);
	/* That of data is looked at with the data. */
	if (!seen->payload_bytes && !is_whole(seen, 0))
		return drop_as(core, COUNT_DAMAGED);
	seen->slot = slot;
	if (seen->flags & TCP_RST) {
		count(core, COUNT_RESETS_IN);
		return on_reset(core, c, phase, seen, segment->stamp);
	}
	if (control.seals)
		check_author(core, phase, seen);
	if (phase_state(phase) == CONNECTION_CLOSED)
		return on_late(core, c, phase, seen, segment);
	if (seen->flags & TCP_SYN)
		return on_syn_ack(core, c, phase, seen, segment);
	return on_segment(ctx, core, c, phase, seen, segment);
}

static __always_inline int client_receive(struct xdp_md *ctx)
{
	struct tcp_core *core = this_tcp_core();
	struct segment segment;
	struct arrived seen;
	int unread = read_segment(ctx, &seen);
	__u32 slot = unread ? NOT_OURS_SLOT : own_slot(&seen);

	if (slot == NOT_OURS_SLOT) {
		if (beside.active && beside_returns(ctx, unread ? NULL : &seen))
			return XDP_DROP;
		core->foreign++;
		return XDP_PASS;
	}
	count(core, COUNT_FRAMES_IN);
	core->count[COUNT_BYTES_IN] += seen.frame_bytes;
	turn_round(&seen, &segment, tick_now(core));
	if (on_arrival(ctx, core, slot, &seen, &segment) == SILENT)
		return XDP_DROP;
	count(core, COUNT_FRAMES_OUT);
	core->count[COUNT_BYTES_OUT] += segment_frame_bytes(&segment);
	return answer_with(ctx, seen.frame_bytes, &segment, control.client_port);
}

#endif
