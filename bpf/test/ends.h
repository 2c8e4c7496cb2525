/* SPDX-License-Identifier: GPL-2.0 OR MIT */
#ifndef RAMPART_TEST_ENDS_H
#define RAMPART_TEST_ENDS_H

#include <linux/types.h>

/* Both ends of a flow as its client sees them, of addresses the last word. */
struct both_ends {
	__be32 client;
	__be32 server;
	__be16 client_port;
	__be16 server_port;
};

#endif
