/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Where the kernel forwards it translates too, but only what its connection tracking follows. A packet that tracking calls invalid has no
 * record there, and would leave with the address that it has inside. So the firewall notes between which zones the kernel translates, and
 * drops what has no record there. What a rule of nftables takes out of tracking (`notrack`) passes: somebody wants it so.
 *
 * Whether a record is of a translated connection is looked at once in a tick for each pair of zones, because it costs a call; and of all packets
 * before an answer, because the first one has passed here before its source is translated.
 */
#ifndef RAMPART_FIREWALL_TRACKED_H
#define RAMPART_FIREWALL_TRACKED_H

#include <linux/netfilter.h>
#include <bpf/bpf_core_read.h>
#include "kernel.h"
#include "packet.h"

#define TRACKED_HOW 7UL		/* the lowest bits of the address of a record, and the first number of them that says "an answer" */
#define TRACKED_NEW 2
#define TRACKED_ANSWER 3
#define TRACKED_TRANSLATED 0x30	/* of its status: IPS_NAT_MASK of linux/netfilter/nf_conntrack_common.h */
#define TRANSLATES_TICKS 57220	/* a minute: for so long the kernel is taken to translate between two zones after it did */
#define TRANSLATES_AGAIN 954	/* a second: so often it is noted */

struct nf_conntrack_tuple {
	struct {
		union nf_inet_addr u3;
		union {
			__be16 all;
		} u;
	} dst;
} __attribute__((preserve_access_index));

struct nf_conntrack_tuple_hash {
	struct nf_conntrack_tuple tuple;
} __attribute__((preserve_access_index));

struct nf_conn {
	struct nf_conntrack_tuple_hash tuplehash[2];
	unsigned long status;
} __attribute__((preserve_access_index));

/* Of two zones, whichever way a packet goes between them, and a family: what the first packet does not show yet its answer does. */
struct translating {
	__u64 until;	/* the tick up to which the kernel is taken to translate */
	__u64 looked;	/* the tick in which a record of a connection with answers was looked at last */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * MAX_ZONES * MAX_ZONES);
	__type(key, __u32);
	__type(value, struct translating);
} translating SEC(".maps");

/* Notes that the kernel translates, if the record of a packet says so. */
static __always_inline void note_translated(struct translating *zones, unsigned long tracked, __u64 tick)
{
	const struct nf_conn *record = (const void *)(tracked & ~TRACKED_HOW);
	unsigned long status = 0;

	if ((tracked & TRACKED_HOW) != TRACKED_NEW) {
		if (READ_ONCE(zones->looked) == tick)
			return;
		WRITE_ONCE(zones->looked, tick);
	}
	if (!bpf_core_field_exists(struct nf_conn, status) || bpf_core_read(&status, sizeof(status), &record->status))
		return;
	if (status & TRACKED_TRANSLATED && READ_ONCE(zones->until) < tick + TRANSLATES_TICKS - TRANSLATES_AGAIN)
		WRITE_ONCE(zones->until, tick + TRANSLATES_TICKS);
}

/* Whether a packet that is being forwarded would leave as it came although the kernel translates between its zones. `tracked` is what its buffer says
 * of its record. */
__noinline int leaves_untranslated(struct packet *p, __u64 tracked, __u32 is_v6)
{
	__u32 one, other;
	struct translating *zones;
	__u64 tick;

	if (!p)
		return 0;
	one = (p->from < p->to ? p->from : p->to) & (MAX_ZONES - 1);
	other = (p->from < p->to ? p->to : p->from) & (MAX_ZONES - 1);
	zones = lookup(&translating, ((is_v6 & 1) * MAX_ZONES + one) * MAX_ZONES + other);
	if (!zones)
		return 0;
	tick = tick_of(p->era, p->tick);
	if (!tracked)
		return tick < READ_ONCE(zones->until);
	/* Without an address nobody tracks it, on purpose. */
	if (tracked & ~TRACKED_HOW)
		note_translated(zones, tracked, tick);
	return 0;
}

#endif
