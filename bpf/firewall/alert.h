/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Alerts of rules: more new flows, or refused packets, than a threshold within a time. The count within that time is estimated from
 * two windows of its length: all of the window that has begun, and the part of the window before that still lies within the
 * time, as if its packets had come evenly. policy::quota::Sliding is the same, and decides when an alert is over.
 */
#ifndef RAMPART_FIREWALL_ALERT_H
#define RAMPART_FIREWALL_ALERT_H

#include "limit.h"

#define ALERT_REPEAT (1000000000ULL << MOMENT_SHIFT)	/* repeat a standing alert once a second */

/* Counts a packet. Returns true if the alert is to be recorded. The caller holds the lock. */
static __always_inline bool count_for_alert(struct alert_count *s, const struct limit_terms *terms, __u64 at)
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
	/* The part of the window before that still counts, in parts of 2^16, rounded up. A window is a day at most, so that its
	 * nanoseconds can be shifted by 16 bits. */
	window >>= MOMENT_SHIFT;
	left = (((window - (gone >> MOMENT_SHIFT)) << 16) + window - 1) / window;
	if (s->count + (s->before * left >> 16) <= terms->threshold)
		return false;
	/* For the same reason the last alert may be a little later. */
	if (s->raised && at < s->raised + ALERT_REPEAT)
		return false;
	s->raised = at;
	return true;
}

/* Counts a packet for the alert of its rule, if that has one. */
__noinline int count_alert(struct packet *p, struct limit_terms *terms)
{
	struct limit_bucket *bucket;
	struct limit_entry *entry;
	struct alert_count copy = {};
	struct counted counted;
	struct limit_row *row;
	bool is_raised = false;
	__u64 at;

	if (!p || !terms || !terms->window)
		return 0;
	at = moment();
	if (terms->alert_per == PER_RULE) {
		row = lookup(&limit_rows, p->slot);
		if (!row)
			return 0;
		bpf_spin_lock(&row->lock);
		is_raised = count_for_alert(&row->alert, terms, at);
		copy = row->alert;
		bpf_spin_unlock(&row->lock);
	} else {
		count_as(&counted, owner_of(p->slot, terms->epoch, (terms->alert_per & 3) | KIND_ALERT),
			 terms->alert_per == PER_SOURCE ? p->source : p->destination);
		bucket = limit_bucket_of(&counted);
		if (!bucket)
			return 0;
		bpf_spin_lock(&bucket->lock);
		entry = entry_for(bucket, &counted, at);
		if (entry) {
			is_raised = count_for_alert(&entry->alert, terms, at);
			entry->quota.until = at + 2 * terms->window;
			copy = entry->alert;
		}
		bpf_spin_unlock(&bucket->lock);
		if (!entry)
			tally_here(TALLY_ALERT_UNCOUNTED, 1);
	}
	if (is_raised)
		log_alert(p, &copy, terms);
	return 0;
}

#endif
