/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the generators of frames and of connections have in common: the ports that they send through, a core's number, and
 * the clock of their schedules. */
#ifndef RAMPART_TRAFFIC_GENERATOR_H
#define RAMPART_TRAFFIC_GENERATOR_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include "../abi/traffic.h"

/* The zones' links. A device map may hold devices of several namespaces, which bpf_redirect() cannot reach. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} ports SEC(".maps");

static __always_inline __u32 this_core(void)
{
	return bpf_get_smp_processor_id() & (MAX_CORES - 1);
}

/* A reading of the clock as schedule time of a run that begins at `start_ns`. */
static __always_inline __u64 schedule_time(__u64 now, __u64 start_ns)
{
	return now > start_ns ? (now - start_ns) << SCHEDULE_SHIFT : 0;
}

#endif
