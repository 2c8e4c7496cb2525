/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Seals: 16 bits in each segment that only the two ends can write, because keys that user space draws anew for each run go into them. So a
 * segment that a firewall wrote itself, in the name of either end, is known whatever it says. What a firewall may change is not under the
 * seal: addresses and ports (NAT), MSS, options, windows. Proofs (proof.h) say more, but only a payload has room for one.
 *
 * With IPv4 the seal is the identification, which a packet that may not be fragmented does not need (RFC 6864). IPv6 has no such field, so
 * there the seal is TCP's urgent pointer, which nobody reads where URG is not set (RFC 9293 section 3.1). Of the fields that no end needs it
 * is the only one that is in no flow key: a flow label or a hop limit that changes from segment to segment would send the segments of
 * one connection to different cores, or past a switch's cache of flows.
 */
#ifndef RAMPART_TRAFFIC_TCP_SEAL_H
#define RAMPART_TRAFFIC_TCP_SEAL_H

#include "proof.h"
#include "state.h"

/* Of the two multiplications of scramble() the upper bits are the best mixed. Never 0, which is what a cleared field has. */
static __always_inline __u16 seal(__u32 sequence, __u32 acknowledgement, __u32 payload_bytes, __u8 flags)
{
	__u64 value = (__u64)sequence << 32 | acknowledgement;

	value = (value ^ control.seal_keys[0]) * PROOF_FACTOR_1;
	value ^= value >> 32;
	value = (value + (control.seal_keys[1] ^ (payload_bytes << 8 | flags))) * PROOF_FACTOR_2;
	value >>= 48;
	return value ? value : 1;
}

/* The seal of a segment that is to be sent; 0 where one end is a stranger, who writes none. */
static __always_inline __u16 seal_of(const struct segment *segment)
{
	if (!control.seals)
		return 0;
	return seal(segment->sequence, segment->acknowledgement, segment->payload_bytes, segment->flags);
}

/*
 * Whether the other end of ours wrote the segment; if not, counts it. Some firewalls clear urgent pointers without URG (pf's scrub), so those
 * without a seal, and those with one, are counted too: user space sees whether all were cleared, or only what the firewall wrote.
 */
static __always_inline bool check_seal(struct tcp_core *core, const struct arrived *seen, enum tcp_count unsealed,
				       enum tcp_count cleared, enum tcp_count sealed)
{
	if (seen->seal == seal(seen->sequence, seen->acknowledgement, seen->payload_bytes, seen->flags)) {
		if (seen->version == 6)
			count(core, sealed);
		return true;
	}
	count(core, unsealed);
	if (seen->version == 6 && !seen->seal)
		count(core, cleared);
	return false;
}

/* Compares the options of a SYN or SYN-ACK with those that were written. `removed` is where it counts that some are missing. */
static __always_inline void compare_options(struct tcp_core *core, const struct arrived *seen, __u8 scale, enum tcp_count removed)
{
	__u8 both = seen->offers & control.offers;
	bool has_scale = both & OFFER_WINDOW_SCALE, has_mss = both & OFFER_MSS;

	if (seen->offers & ~control.offers)
		count(core, COUNT_OPTIONS_ADDED);
	if (control.offers & ~seen->offers)
		count(core, removed);
	if ((has_scale && seen->scale > scale) || (has_mss && seen->mss > control.mss))
		count(core, COUNT_OPTIONS_RAISED);
	else if ((has_scale && seen->scale < scale) || (has_mss && seen->mss < control.mss))
		count(core, COUNT_OPTIONS_LOWERED);
}

/* Compares a window with the one that was written. */
static __always_inline void compare_window(struct tcp_core *core, const struct arrived *seen, __u32 window)
{
	if (seen->window != window)
		count(core, seen->window > window ? COUNT_WINDOW_RAISED : COUNT_WINDOW_LOWERED);
}

/* The server's initial sequence number for a client's address and port, of addresses and ports as they lie in a segment. */
static __always_inline __u32 server_isn(__u8 version, const __be32 *client, const __be32 *server, __be16 client_port,
					__be16 server_port)
{
	__u32 addresses = client[0] * 0x9e3779b1 + server[0];

	if (version == 6)
		addresses += client[3] * 0x85ebca6b + server[3] * 0xc2b2ae35 + client[1];
	return mix32(addresses ^ control.server_secret ^ ((__u32)client_port << 16 | server_port));
}

#endif
