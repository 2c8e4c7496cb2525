/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The frame that a program sees. Its first part lies below 4 GiB, because contexts hold addresses in 32 bits, and everything
 * around it is poisoned: an access one byte outside ends the run. The rest, as of a frame in several parts, is elsewhere
 * and only helpers reach it.
 */
#ifndef RAMPART_NATIVE_FRAME_H
#define RAMPART_NATIVE_FRAME_H

#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "source.h"

#define ROOM_AT 0x10000000
#define ROOM_BYTES 16384
#define HEADROOM 256		/* XDP_PACKET_HEADROOM */
#define LEAST_HEADROOM 40	/* struct xdp_frame's place */
#define MAX_FRAME 9200

static struct {
	__u8 *data;
	__u32 linear;		/* bytes that can be read directly */
	__u32 rest;		/* bytes behind them */
	__u8 rest_bytes[MAX_FRAME];
} frame;

static __u8 *const room = (__u8 *)ROOM_AT;

static void frame_prepare(void)
{
	void *at = mmap(room, ROOM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (at != room) {
		perror("reserving memory below 4 GiB");
		exit(2);
	}
}

/* Only what may be read directly may be read. */
static void frame_guard(void)
{
	ASAN_POISON_MEMORY_REGION(room, ROOM_BYTES);
	ASAN_UNPOISON_MEMORY_REGION(frame.data, frame.linear);
}

/* Helpers see all of the frame. */
static void frame_open(void)
{
	ASAN_UNPOISON_MEMORY_REGION(room, ROOM_BYTES);
}

static __u32 frame_bytes(void)
{
	return frame.linear + frame.rest;
}

/* A new frame, of which `linear` bytes can be read directly. */
static void frame_set(const __u8 *bytes, __u32 count, __u32 linear)
{
	frame_open();
	frame.data = room + HEADROOM;
	frame.linear = linear < count ? linear : count;
	frame.rest = count - frame.linear;
	memcpy(frame.data, bytes, frame.linear);
	memcpy(frame.rest_bytes, bytes + frame.linear, frame.rest);
	frame_guard();
}

/* Where a byte is. To be used while the frame is open. */
static __u8 *frame_at(__u32 offset)
{
	return offset < frame.linear ? frame.data + offset : frame.rest_bytes + (offset - frame.linear);
}

static long frame_load(__u32 offset, __u8 *to, __u32 bytes)
{
	if (offset > frame_bytes() || bytes > frame_bytes() - offset || once_in(128))
		return -14;
	frame_open();
	for (__u32 i = 0; i < bytes; i++)
		to[i] = *frame_at(offset + i);
	frame_guard();
	return 0;
}

static long frame_store(__u32 offset, const __u8 *from, __u32 bytes)
{
	if (offset > frame_bytes() || bytes > frame_bytes() - offset || once_in(128))
		return -14;
	frame_open();
	for (__u32 i = 0; i < bytes; i++)
		*frame_at(offset + i) = from[i];
	frame_guard();
	return 0;
}

/* To another length; what is new is 0. */
static void frame_resize(__u32 bytes, __u32 linear)
{
	static __u8 copy[MAX_FRAME];
	__u32 old = frame_bytes();

	frame_open();
	for (__u32 i = 0; i < bytes; i++)
		copy[i] = i < old ? *frame_at(i) : 0;
	frame.linear = linear < bytes ? linear : bytes;
	frame.rest = bytes - frame.linear;
	memcpy(frame.data, copy, frame.linear);
	memcpy(frame.rest_bytes, copy + frame.linear, frame.rest);
	frame_guard();
}

/* Takes bytes out of the frame. */
static void frame_cut(__u32 offset, __u32 count)
{
	frame_open();
	for (__u32 i = offset; i + count < frame_bytes(); i++)
		*frame_at(i) = *frame_at(i + count);
	frame_resize(frame_bytes() - count, frame.linear);
}

#endif
