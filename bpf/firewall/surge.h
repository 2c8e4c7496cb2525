/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Alerts of rules: more new flows, or refused packets, than so many within a time. What came within that time is told from two
 * windows of its length: all of the one that has begun, and of the one before the part that still lies within the time, as if
 * it had come evenly. policy::quota::Sliding is the same, and what says when an alert is over.
 */
#ifndef RAMPART_FIREWALL_SURGE_H
#define RAMPART_FIREWALL_SURGE_H

#include "limit.h"

#define SURGE_TICKS 954		/* a second: as often is told of one that goes on */
#define KIND_ALERT 4		/* in limit_key(), beside enum limit_per */

/* Counts one more; 1 when that is too many, and is to be told. Under the lock. */
static __always_inline int rise(struct surge *s, const struct limit_terms *terms, __u64 at, __u32 tick)
{
	/* `at` was read before the lock was taken, and another core may have begun a window since. */
	__u64 window = terms->window, gone = at > s->since ? at - s->since : 0, left;

	if (!s->since || gone >= 2 * window) {
		s->since = at;
		s->count = s->before = 0;
		gone = 0;
	} else if (gone >= window) {
		s->since += window;
		s->before = s->count;
		s->count = 0;
		gone -= window;
	}
	if (s->count != 0xffffffff)
		s->count++;
	/* The part of the window before, in parts of 2^16: a window is a second at least. */
	left = (window - gone) / (window >> 16 | 1);
	if (s->count + (s->before * left >> 16) <= terms->threshold)
		return 0;
	if (s->told && tick - s->told < SURGE_TICKS)
		return 0;
	s->told = tick | 1;
	return 1;
}

/* Counts a packet for the alert of its rule, if that has one. */
static __always_inline void count_alert(struct packet *p, const struct limit_terms *terms)
{
	struct limit_bucket *bucket;
	struct limit_entry *entry;
	struct surge told = {};
	struct limit_row *row;
	__u64 at, key;
	int is_told = 0;

	if (!terms->window)
		return;
	at = moment();
	if (terms->alert_per == PER_RULE) {
		row = lookup(&limit_rows, p->slot);
		if (!row)
			return;
		bpf_spin_lock(&row->lock);
		is_told = rise(&row->surge, terms, at, p->tick);
		told = row->surge;
		bpf_spin_unlock(&row->lock);
	} else {
		key = limit_key(p->slot, terms->epoch, terms->alert_per | KIND_ALERT,
				terms->alert_per == PER_SOURCE ? p->source : p->destination);
		bucket = limit_bucket_of(key);
		if (!bucket)
			return;
		bpf_spin_lock(&bucket->lock);
		entry = entry_for(bucket, key, at);
		if (entry) {
			is_told = rise(&entry->surge, terms, at, p->tick);
			entry->quota.until = at + 2 * terms->window;
			told = entry->surge;
		}
		bpf_spin_unlock(&bucket->lock);
		if (!entry)
			tally(TALLY_ALERT_UNCOUNTED, 1);
	}
	if (is_told)
		log_surge(p, &told, terms);
}

#endif
