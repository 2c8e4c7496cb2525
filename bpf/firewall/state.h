/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What user space sets and may change while packets pass. */
#ifndef RAMPART_FIREWALL_STATE_H
#define RAMPART_FIREWALL_STATE_H

#include "verdict.h"

struct settings settings;

/* Set before loading: secrets against chosen collisions (hash.h), and the sizes of the maps. */
const volatile __u64 secret[HASH_SECRETS];
const volatile __u32 bucket_mask;
const volatile __u32 limit_bucket_mask;
const volatile __u32 scan_bucket_mask;
const volatile __u32 record_count;
const volatile __u32 hit_slots;		/* counters of rules on each core */

#endif
