/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Maps with one entry, by which a test says what its program does and reads what it did: `testkit::filter::Only` on the other side. */
#ifndef RAMPART_TEST_ONLY_H
#define RAMPART_TEST_ONLY_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* Declares the map `name`, whose entry is a `kind`. */
#define ONLY(kind, name)                                                                                                              \
	struct {                                                                                                                      \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                                                     \
		__uint(max_entries, 1);                                                                                               \
		__type(key, __u32);                                                                                                   \
		__type(value, kind);                                                                                                  \
	} name SEC(".maps")

/* Its entry, or NULL as far as the verifier knows. */
static __always_inline void *only(void *map)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(map, &zero);
}

#endif
