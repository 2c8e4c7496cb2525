/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The maps and global state of the generator and the sink. User space writes control before a trial and reads the
 * rest during it; within a trial each core writes only its own part. */
#ifndef RAMPART_TRAFFIC_FRAMES_STATE_H
#define RAMPART_TRAFFIC_FRAMES_STATE_H

#include "../../abi/frames.h"
#include "../generator.h"

struct control control;
__u8 filling[FILLING_BYTES];	/* of the largest frame; smaller ones carry its beginning */
struct core cores[MAX_CORES];
struct receiver receivers[MAX_CORES * MAX_CORES * MAX_LANES];
struct times times[MAX_CORES * MAX_LANES];
struct probe probes[MAX_PROBES];
struct arrival arrivals[MAX_PROBES];
__u32 probe_next;
struct identity identities[MAX_PORTS];	/* by slot of the ports map */
struct question question;
__u64 foreign[MAX_CORES];	/* frames at the sink that are not ours */
__u64 stale[MAX_CORES];		/* frames of an earlier trial */
__u64 unreadable[MAX_CORES];	/* frames with this trial's mark whose stamp is none of ours: damaged or forged */
__u64 forbidden[MAX_CORES];	/* frames that arrived though the policy forbids them */
__be32 forbidden_sources[MAX_FORBIDDEN_SOURCES];

/* The flows in the order in which they are sent. User space shuffles; reading in order lets the processor prefetch. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);	/* set before loading */
	__type(key, __u32);
	__type(value, struct flow_page);
} flows SEC(".maps");

/* Which frames of this trial arrived, for all cores: of each stream a ring of words. The upper half of a word says which turn of
 * the ring it is of, so that nobody has to clear it; the lower half has a bit a frame. */
__u64 seen[SEEN_WORDS];

#endif
