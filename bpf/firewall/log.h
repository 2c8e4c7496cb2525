/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The event log of rules with `log`: an event for a flow as it opens and as it ends, or for a packet that is refused. Events go into
 * a ring that user space reads. Their rate is limited over all rules and cores together (settings, log_rate): an event beyond the
 * rate is suppressed and counted, one that finds the ring full is lost and counted. Nothing ever waits for a reader.
 */
#ifndef RAMPART_FIREWALL_LOG_H
#define RAMPART_FIREWALL_LOG_H

#include "pages.h"

#define EVENT_ROOM (1 << 22)	/* bytes of the ring: 30,000 events */
#define LOG_TRIES 8

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, EVENT_ROOM);
} events SEC(".maps");

#define RECORD_ROOM (1 << 22)	/* bytes of the ring: 27,000 records */

/* Flows that have ended, for the exporter. A ring of its own, and a rate of its own: however many flows end, no event is lost. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RECORD_ROOM);
} flow_records SEC(".maps");

/* The moments from which the next event and the next record would come in time at an even rate. */
__u64 log_due;
__u64 record_due;

/*
 * Whether one more event may be recorded: the generic cell rate algorithm (ITU-T I.371), by compare-and-swap, so that all cores
 * together never exceed the rate. A core that loses against others LOG_TRIES times suppresses its event.
 */
static __always_inline bool is_in_time(__u64 *next, __u64 at, __u64 interval, __u64 slack)
{
	if (!interval)
		return false;
	for (int i = 0; i < LOG_TRIES; i++) {
		__u64 old = READ_ONCE(*next), due = old > at ? old : at;

		if (due - at > slack)
			return false;
		if (__sync_val_compare_and_swap(next, old, due + interval) == old)
			return true;
	}
	return false;
}

static __always_inline bool may_log(__u64 at)
{
	return is_in_time(&log_due, at, settings.log_interval, settings.log_slack);
}

/* Room for an event, all zero but its time and kind; null when it is suppressed or lost. Readers look by themselves, so none is woken. */
static __always_inline struct event *begin_event(__u32 kind)
{
	__u64 at = moment();
	struct event *event;

	/* Alerts have a rate of their own. */
	if (kind != EVENT_ALERT && !may_log(at)) {
		tally_here(TALLY_LOG_SUPPRESSED, 1);
		return 0;
	}
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		tally_here(TALLY_LOG_LOST, 1);
		return 0;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->time = at >> MOMENT_SHIFT;
	event->kind = kind;
	return event;
}

static __always_inline void end_event(struct event *event)
{
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

static __always_inline void fill_event(struct event *event, const struct packet *p)
{
	for (int word = 0; word < 4; word++) {
		event->address[0][word] = p->source[word];
		event->address[1][word] = p->destination[word];
	}
	event->port[0] = p->source_port;
	event->port[1] = p->destination_port;
	event->protocol = p->protocol;
	event->family = p->family;
	event->zone[0] = p->from;
	event->zone[1] = p->to;
	event->slot = p->slot;
	event->generation = p->generation;
}

/* On which lists the row that decided found the ends. Unknown when the policy has changed since. */
static __always_inline void fill_lists(struct event *event, const struct packet *p)
{
	void *pages = current_pages();
	const struct table_header *t = pages ? header_of(pages) : 0;
	const struct listed_series *series;
	const struct effect *effect;

	if (!t || t->generation != p->generation || !t->listed_series_count || p->row - 1 >= t->rows)
		return;
	effect = row_at(pages, t->effects + (p->row - 1) * EFFECT_WORDS, EFFECT_WORDS);
	if (!effect || !effect->listed)
		return;
	series = row_at(pages, t->listed_series + (effect->listed - 1) * LISTED_SERIES_WORDS, LISTED_SERIES_WORDS);
	if (!series)
		return;
	event->lists[0] = series->slots[0];
	event->lists[1] = series->slots[1];
}

/* Records a packet that opened a flow, or that was refused for a reason. */
__noinline int log_packet(struct packet *p, __u32 kind, __u32 reason)
{
	struct event *event;

	if (!p)
		return 0;
	event = begin_event(kind);
	if (!event)
		return 0;
	fill_event(event, p);
	fill_lists(event, p);
	event->reason = reason;
	end_event(event);
	return 0;
}

static __always_inline void log_alert(const struct packet *p, const struct alert_count *alert, const struct limit_terms *terms)
{
	struct event *event = begin_event(EVENT_ALERT);

	if (!event)
		return;
	fill_event(event, p);
	event->per = terms->alert_per;
	event->threshold = terms->threshold;
	event->packets[0] = alert->count;
	event->packets[1] = alert->before;
	event->bytes[0] = alert->since >> MOMENT_SHIFT;
	event->bytes[1] = terms->window >> MOMENT_SHIFT;
	end_event(event);
}

/* Makes a record of a flow that has ended. As below. */
__noinline int record_ended(struct flow *flow, __u32 end)
{
	struct flow_record *record;
	__u64 at = moment();

	/* A mapping is no flow. */
	if (!flow || flow->family & FLOW_IS_MAPPING)
		return 0;
	if (!is_in_time(&record_due, at, settings.record_interval, settings.record_slack)) {
		tally_here(TALLY_RECORDS_SUPPRESSED, 1);
		return 0;
	}
	record = bpf_ringbuf_reserve(&flow_records, sizeof(*record), 0);
	if (!record) {
		tally_here(TALLY_RECORDS_LOST, 1);
		return 0;
	}
	__builtin_memcpy(record->flow, flow, sizeof(record->flow));
	record->time = at >> MOMENT_SHIFT;
	/* Closed by its ends, and nobody wanted its place until it expired. Of other protocols, only what has no answer is closed before it goes. */
	record->end = end == END_IDLE && flow->protocol == PROTOCOL_TCP &&
			(flow->state == FLOW_TIME_WAIT || flow->state == FLOW_RESET) ? END_CLOSED : end;
	record->pad = 0;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Records a flow that has ended. Its record must not have been given back yet. */
__noinline int log_closed(struct flow *flow)
{
	struct event *event;
	__u32 tick = now(), from, to;

	if (!flow)
		return 0;
	event = begin_event(EVENT_CLOSED);
	if (!event)
		return 0;
	from = flow->initiator & 1;
	to = from ^ 1;
	flow_address(flow, from, event->address[0]);
	flow_address(flow, to, event->address[1]);
	event->port[0] = flow->port[from];
	event->port[1] = flow->port[to];
	event->protocol = flow->protocol;
	event->family = family_of(flow);
	event->zone[0] = flow->zone[from];
	event->zone[1] = flow->zone[to];
	event->slot = flow->mark & MARK_SLOT;
	if (event->slot == MARK_SLOT)
		event->slot = NO_SLOT;
	event->generation = flow->generation;
	/* Only what has no answer yet is closed before it goes (remove_unanswered()). */
	event->state = flow->protocol != PROTOCOL_TCP && flow->state == FLOW_RESET ? FLOW_ONE_WAY : flow->state;
	event->ticks = ticks_since(tick, flow->opened);
	event->packets[0] = (__u64)flow->packets_high[from] << 32 | flow->packets[from];
	event->packets[1] = (__u64)flow->packets_high[to] << 32 | flow->packets[to];
	event->bytes[0] = flow->bytes[from];
	event->bytes[1] = flow->bytes[to];
	end_event(event);
	return 0;
}

#endif
