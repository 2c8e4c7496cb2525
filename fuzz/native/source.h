/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The bytes that decide everything that happens; when they are used up all choices are 0. */
#ifndef RAMPART_NATIVE_SOURCE_H
#define RAMPART_NATIVE_SOURCE_H

#include <linux/types.h>
#include <stddef.h>

static struct {
	const __u8 *bytes;
	size_t left;
} source;

static __u32 any_byte(void)
{
	if (!source.left)
		return 0;
	source.left--;
	return *source.bytes++;
}

static __u32 any_word(void)
{
	__u32 high = any_byte() << 24 | any_byte() << 16;

	return high | any_byte() << 8 | any_byte();
}

/* A number below `limit`, at most 2^16. */
static __u32 below(__u32 limit)
{
	return (limit > 256 ? any_byte() << 8 | any_byte() : any_byte()) % limit;
}

/* True once in `turns`, and never when the bytes are used up. */
static int once_in(__u32 turns)
{
	return source.left && below(turns) == turns - 1;
}

#endif
