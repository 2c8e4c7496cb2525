/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Scans: a source that asks in vain for many different ports or hosts within a window. In vain is what the policy refuses, and a flow
 * that nobody answered or that a reset ended before it was a connection (table_programs.h counts those when the sweep removes them).
 * A source that scanned may be blocked for a time: it opens no flow then. Flows that it has go on, and others may open flows to
 * it, so who forges the address of a stranger does not cut that stranger off from those who call him. A known flow asks nothing here.
 *
 * A source is counted apart in each zone, because a forged address of another zone must not have the real one blocked. What is
 * different is counted by the bits of a sketch: so many different things have set at least as many bits as are counted, never more.
 * Nobody can choose things that share a bit, or sources that share a bucket, without the secret (hash.h).
 *
 * There is room for SCAN_BUCKETS * SCAN_WAYS sources. In a full bucket a new source takes the place of the one that asked for the least,
 * among these of the oldest. One that is blocked keeps its place until its time is over.
 */
#ifndef RAMPART_FIREWALL_SCAN_H
#define RAMPART_FIREWALL_SCAN_H

#include "limit.h"
#include "nat.h"
#include "parse.h"
#include "tables.h"

#define SCAN_BIT_SHIFT 55	/* the upper nine bits of a hash: SCAN_WORDS words */
#define FIRST_USER_PORT 1024
#define FOUND_SCAN_WAY ((__u64)SCAN_WAYS)
#define SUSPICION_SHIFT 42	/* above the ticks of 64 eras */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);	/* set before loading: SCAN_BUCKETS */
	__type(key, __u32);
	__type(value, struct scan_bucket);
} scan_sources SEC(".maps");

static __always_inline __u64 scan_key(const struct packet *p)
{
	__u64 network = p->family == 4 ? p->source[0] : words_of(p->source);

	return mix(mix(secret[5], (__u64)p->family << 8 | p->from), network) | 1;
}

static __always_inline struct scan_bucket *scan_bucket_of(__u64 key)
{
	return lookup(&scan_sources, key >> 32 & scan_bucket_mask);
}

/* Whether the source of a packet that would open a flow has been blocked. */
__noinline int was_blocked(struct packet *p)
{
	struct scan_bucket *bucket;
	__u64 key;

	if (!p)
		return 0;
	key = scan_key(p);
	bucket = scan_bucket_of(key);
	if (!bucket)
		return 0;
	for (int way = 0; way < SCAN_WAYS; way++) {
		const struct scan_entry *entry = &bucket->entries[way];

		if (READ_ONCE(entry->key) == key)
			return READ_ONCE(entry->blocked_until) > tick_of(p->era, p->tick);
	}
	return 0;
}

static __always_inline bool asks_for_port(const struct packet *p)
{
	return has_ports(p) || p->protocol == PROTOCOL_SCTP;
}

/* An answer that came too late looks like this: from the port of a service to one that a client has. */
static __always_inline bool is_like_an_answer(const struct packet *p)
{
	return p->protocol == PROTOCOL_UDP && bpf_ntohs(p->source_port) < FIRST_USER_PORT &&
	       bpf_ntohs(p->destination_port) >= FIRST_USER_PORT;
}

/* Sources that many hosts have at once: of a link alone, and those of hosts that have no address yet. */
static __always_inline bool is_shared_source(const struct packet *p)
{
	if (p->family == 4)
		return !p->source[0];
	return !p->source[0] || (p->source[0] & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000);
}

/* Groups and the broadcast address. */
static __always_inline bool is_to_many(const struct packet *p)
{
	__u32 address = bpf_ntohl(p->destination[0]);

	return p->family == 4 ? address >> 28 >= 14 : address >> 24 == 0xff;
}

/* Whether a packet asks for something, as a scan would: it would open a flow, and its source is one. */
static __always_inline bool is_asking(const struct packet *p)
{
	return !(p->flags & (PACKET_FROM_SELF | PACKET_STATELESS | PACKET_ICMP_ERROR)) && !is_like_an_answer(p) &&
	       !is_shared_source(p) && !is_to_many(p);
}

/* All that follow are called under the bucket's lock. */

static __always_inline __u64 suspicion_of(const struct scan_entry *entry, __u64 tick)
{
	__u64 is_over = is_smaller(entry->since + 2 * settings.scan_window, tick);
	__u64 value = (__u64)(entry->ports.distinct + entry->hosts.distinct) << SUSPICION_SHIFT | (entry->since + 1);

	return choose(is_over | is_zero(entry->key), 0, value);
}

/* The way that a new source takes, and FOUND_SCAN_WAY; 0: all are blocked. `lost` says whether another source is forgotten for it. */
static __always_inline __u64 scan_way_to_take(const struct scan_bucket *bucket, __u64 tick, __u64 *lost)
{
	__u64 least = LAST_MOMENT, found = 0;

	for (__u64 way = 0; way < SCAN_WAYS; way++) {
		const struct scan_entry *entry = &bucket->entries[way];
		__u64 is_blocked = is_smaller(tick, entry->blocked_until);
		__u64 value = choose(is_blocked, LAST_MOMENT, suspicion_of(entry, tick)), is_better = is_smaller(value, least);

		least = choose(is_better, value, least);
		found = choose(is_better, FOUND_SCAN_WAY | way, found);
	}
	*lost = is_zero(least) ^ 1;
	return found;
}

static __always_inline __u64 scan_way_of(const struct scan_bucket *bucket, __u64 key)
{
	__u64 found = 0;

	for (__u64 way = 0; way < SCAN_WAYS; way++)
		found = choose(is_zero(bucket->entries[way].key ^ key), FOUND_SCAN_WAY | way, found);
	return found;
}

static __always_inline struct scan_entry *scan_entry_at(struct scan_bucket *bucket, __u64 way)
{
	return &bucket->entries[way & (SCAN_WAYS - 1)];
}

static __always_inline void begin_entry(struct scan_entry *entry, const struct packet *p, __u64 key, __u64 tick)
{
	__builtin_memset(entry, 0, sizeof(*entry));
	entry->key = key;
	entry->address[0] = p->source[0];
	entry->address[1] = p->source[1];
	entry->family = p->family;
	entry->zone = p->from;
	entry->since = tick;
}

static __always_inline void clear_sketch(struct scan_sketch *s)
{
	__builtin_memset(s, 0, sizeof(*s));
}

/* A window is over: what was seen in it is what was seen before. */
static __always_inline void turn_sketch(struct scan_sketch *s)
{
	for (int word = 0; word < SCAN_WORDS; word++) {
		s->before[word] = s->now[word];
		s->now[word] = 0;
	}
	s->distinct = s->fresh;
	s->fresh = 0;
}

static __always_inline void turn_window(struct scan_entry *entry, __u64 tick)
{
	/* `tick` was read before the lock was taken, and another core may have begun a window since. */
	__u64 window = settings.scan_window, gone = tick > entry->since ? tick - entry->since : 0;

	if (gone < window)
		return;
	if (gone < 2 * window) {
		turn_sketch(&entry->ports);
		turn_sketch(&entry->hosts);
		entry->since += window;
		return;
	}
	clear_sketch(&entry->ports);
	clear_sketch(&entry->hosts);
	entry->since = tick;
}

static __always_inline void note_bit(struct scan_sketch *s, __u64 hash)
{
	__u32 bit = hash >> SCAN_BIT_SHIFT & 63, word = hash >> (SCAN_BIT_SHIFT + 6) & (SCAN_WORDS - 1);
	__u64 now = s->now[word], seen = now | s->before[word];

	s->fresh += ~now >> bit & 1;
	s->distinct += ~seen >> bit & 1;
	s->now[word] = now | 1ULL << bit;
}

static __always_inline bool is_over(const struct scan_sketch *s, __u32 bits)
{
	return bits && s->distinct >= bits;
}

/* Whether a scan was found just now: at most once a window. Who is blocked for it is counted anew. */
static __always_inline bool is_found(struct scan_entry *entry, __u64 tick)
{
	if (!is_over(&entry->ports, settings.scan_bits[SCAN_PORTS]) && !is_over(&entry->hosts, settings.scan_bits[SCAN_HOSTS]))
		return false;
	if (entry->detected && tick < entry->detected + settings.scan_window)
		return false;
	entry->detected = tick;
	entry->found[SCAN_PORTS] = entry->ports.distinct;
	entry->found[SCAN_HOSTS] = entry->hosts.distinct;
	if (settings.scan_block) {
		entry->blocked_until = tick + settings.scan_block;
		clear_sketch(&entry->ports);
		clear_sketch(&entry->hosts);
		entry->since = tick;
	}
	return true;
}

/* Without any lock. */
static __always_inline void log_scan(const struct packet *p, const __u16 *found)
{
	struct event *event = begin_event(EVENT_SCAN);

	if (!event)
		return;
	fill_event(event, p);
	event->slot = NO_SLOT;
	event->threshold = settings.scan_block != 0;
	event->packets[SCAN_PORTS] = found[SCAN_PORTS];
	event->packets[SCAN_HOSTS] = found[SCAN_HOSTS];
	end_event(event);
}

/* Counts what a packet asked for in vain for its source. To be called by count_in_vain() alone. */
__noinline int count_for_source(struct packet *p)
{
	__u64 key, tick, way, lost = 0, port, host;
	struct scan_bucket *bucket;
	struct scan_entry *entry;
	bool is_scan = false;
	__u16 found[2] = {};

	if (!p)
		return 0;
	/* What the sender asked for, and not where that would have been sent. */
	restore_destination(p);
	key = scan_key(p);
	tick = tick_of(p->era, p->tick);
	port = mix(key, (__u64)p->protocol << 16 | p->destination_port);
	host = mix_address(key, p->destination);
	bucket = scan_bucket_of(key);
	if (!bucket)
		return 0;
	bpf_spin_lock(&bucket->lock);
	way = scan_way_of(bucket, key);
	if (!way) {
		way = scan_way_to_take(bucket, tick, &lost);
		if (way)
			begin_entry(scan_entry_at(bucket, way), p, key, tick);
	}
	if (way) {
		entry = scan_entry_at(bucket, way);
		/* Of who is blocked nothing is counted: the block ends at its time, and he begins anew. */
		if (!settings.scan_block || entry->blocked_until <= tick) {
			turn_window(entry, tick);
			if (asks_for_port(p))
				note_bit(&entry->ports, port);
			note_bit(&entry->hosts, host);
			is_scan = is_found(entry, tick);
		}
		found[SCAN_PORTS] = entry->found[SCAN_PORTS];
		found[SCAN_HOSTS] = entry->found[SCAN_HOSTS];
	}
	bpf_spin_unlock(&bucket->lock);
	if (!way || lost)
		tally(TALLY_SCAN_UNCOUNTED, 1);
	if (is_scan) {
		tally(TALLY_SCANS, 1);
		log_scan(p, found);
	}
	return 0;
}

/* The same of a packet that is_asking(). The stack is short, so that it is asked here who is excepted. */
static __always_inline void count_in_vain(struct packet *p)
{
	if (!(facts_of_source(p) & SOURCE_EXCEPTED))
		count_for_source(p);
}

/* A policy may except a source that was blocked before. */
static __always_inline bool is_blocked(struct packet *p)
{
	return was_blocked(p) && !(facts_of_source(p) & SOURCE_EXCEPTED);
}

/* Forgets a source. Returns 1 if it was blocked. */
static __always_inline int forget_source(__u64 key, __u64 tick)
{
	struct scan_bucket *bucket = scan_bucket_of(key);
	struct scan_entry *entry;
	int was_blocked = 0;
	__u64 way;

	if (!bucket || !key)
		return 0;
	bpf_spin_lock(&bucket->lock);
	way = scan_way_of(bucket, key);
	if (way) {
		entry = scan_entry_at(bucket, way);
		was_blocked = entry->blocked_until > tick;
		__builtin_memset(entry, 0, sizeof(*entry));
	}
	bpf_spin_unlock(&bucket->lock);
	return was_blocked;
}

#endif
