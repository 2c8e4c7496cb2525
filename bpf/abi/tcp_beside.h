/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What goes on beside the legal connections of the TCP client and server: floods, illegal attempts, resets. As abi/tcp.h,
 * the only home of these layouts. docs/design/tcp-engine.md explains them.
 */
#ifndef RAMPART_ABI_TCP_BESIDE_H
#define RAMPART_ABI_TCP_BESIDE_H

#include "tcp.h"

#define MAX_LISTED 65536	/* addresses of a block list that SYN come from */

/* In the order of measure::connections::AttackKind::ALL. */
enum attack_kind {
	ATTACK_SYN = 0,
	ATTACK_SYN_ACK = 1,
	ATTACK_ACK = 2,
	ATTACK_RST = 3,
	ATTACK_UDP = 4,
	ATTACK_FRAGMENT = 5,
};

/* In the order of measure::connections::IllegalKind::ALL. */
enum illegal_kind {
	ILLEGAL_ADDRESS = 0,
	ILLEGAL_PORT = 1,
	ILLEGAL_PROTOCOL = 2,
	ILLEGAL_ACK = 3,
	ILLEGAL_RST = 4,
	ILLEGAL_FIN = 5,
	ILLEGAL_OUT_OF_WINDOW = 6,
	ILLEGAL_LISTED = 7,
	ILLEGAL_KINDS = 8
};

enum reset_kind {
	RESET_NONE = 0,
	RESET_OUTSIDE_WINDOW = 1,
	RESET_INSIDE_WINDOW = 2,
	RESET_LEGITIMATE = 3,
	RESET_DATA = 4,		/* no reset: data on what is closed */
};

/* Written by user space; what turns with a run's time is in beside_core. */
struct beside_control {
	__u32 active;		/* 1: any of what follows goes on */
	__u32 attack;		/* enum attack_kind */
	__u64 attack_interval;	/* schedule time between two frames of one core; 0: no flood */
	__u64 attack_end;	/* schedule time */
	__u64 attack_last;	/* schedule time from which on frames that were due before are left out */
	__u32 attack_sources;	/* addresses */
	__u32 illegal_step;	/* share of the starts that are illegal, in 2^-32; 0: none */
	__u32 illegal_count;	/* entries in use of the next */
	__u32 illegal_kinds[ILLEGAL_KINDS];
	__u32 spare_port;	/* client ports that no connection has */
	__u32 spare_ports;
	__u32 forbidden_port;	/* the first of so many that no rule allows */
	__u32 forbidden_ports;
	__u32 listed_count;
	__u32 server_stays;	/* 1: the firewall leaves servers' addresses and ports alone */
	__u32 reset;		/* enum reset_kind */
	__u32 reset_each;	/* segments a connection and direction */
	__u32 reset_both;	/* 1: in both directions */
	__u32 reset_order;	/* a new number begins a walk over all connections */
	__u64 reset_interval;	/* schedule time between two segments of one core */
	__u8 server_mac[6];
	__u8 server_next_hop_mac[6];
	__u32 pad;
};

/* One core's part. No other core writes here. */
struct beside_core {
	__u64 random;
	__u64 attack_due;	/* schedule time of the next frame */
	__u64 attack_finished;	/* schedule time when there was nothing more to send; 0 before */
	__u64 attack_sent;
	__u64 attack_forwarded;
	__u64 attack_answered;
	__u64 illegal_attempted[ILLEGAL_KINDS];
	__u64 illegal_arrived[ILLEGAL_KINDS];
	__u64 illegal_answered[ILLEGAL_KINDS];
	__u64 resets_sent;
	__u64 resets_forwarded;
	__u64 data_forwarded;	/* on connections that were closed */
	__u64 reset_due;	/* schedule time */
	__u32 attack_turn;	/* whose turn it is when a flood's frame and a start are both due */
	__u32 illegal_credit;	/* 2^-32 of an attempt */
	__u32 illegal_turn;	/* number of the next kind */
	__u32 open_next;	/* where in the order of tuples the search for an open connection goes on */
	__u32 reset_order;	/* the walk under way */
	__u32 reset_next;	/* connection */
	__u32 reset_pass;
	__u32 reset_finished;	/* number of the last walk done */
} __attribute__((aligned(64)));

#endif
