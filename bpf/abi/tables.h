/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the firewall's data plane shares with user space about the tables that a policy becomes: abi/firewall.h, which includes this. */
#ifndef RAMPART_ABI_TABLES_H
#define RAMPART_ABI_TABLES_H

#include "firewall.h"

/*
 * A generation of the policy's tables is one array of pages; what is called "at" below is a place in it counted in words
 * of 32 bits. crates/dataplane/src/policies/pages.rs writes it, firewall/tables.h reads it, policy::Tables::look_up is what both
 * must agree with.
 */
struct table_page {
	__u32 words[PAGE_WORDS];
};

/* Tables of one address field: policy::tables::AddressTables. */
struct address_tables {
	__u32 roots;		/* at: 2^16 entries */
	__u32 blocks;		/* at */
	__u32 keys;		/* at: pairs of words, whole nodes of 16 words */
	__u32 leaves;		/* at: three words each */
	__u32 lows;		/* at: pairs of words */
	__u32 low_classes;	/* at */
	__u32 levels;
	__u32 pad;
	__u32 level_first[TREE_LEVELS];	/* in keys */
	__u32 level_keys[TREE_LEVELS];
};

/* How a packet's fields lead to its row: policy::tables::Method. The first three go by classes of each field. */
enum table_method {
	METHOD_CROSSED = 0,	/* two dense tables */
	METHOD_VECTORS = 1,	/* bit vectors */
	METHOD_BLOCKS = 2,	/* two tables in blocks */
	METHOD_TREES = 3,	/* decision trees */
	METHOD__MAX
};

/* A table in blocks: policy::tables::Blocks. */
struct block_table {
	__u32 directory;	/* at */
	__u32 height;		/* classes of the first field */
	__u32 entries;		/* at: BLOCK_CLASSES words a block */
};

/* The decision trees of a family: policy::tables::Series. Their roots are one after the other. */
struct tree_series {
	__u32 first;		/* the line of the first root */
	__u32 trees;
};

/* Where the set of zones whose networks hold an address changes. */
struct zone_starts {
	__u32 at;		/* struct zone_start, in our own numbers of zones */
	__u32 count;		/* 0: no zone has networks */
};

/* From this address on, the zones whose networks it is in; until the next. In host order; an IPv4 address is the upper 64 bits. */
struct zone_start {
	__u64 high;
	__u64 low;
	__u64 zones;
	__u32 is_excepted;	/* 1: never counted or blocked as a source of scans */
	__u32 pad;
};

/* Which end of a packet is translated. */
enum nat_direction {
	NAT_DESTINATION = 0,	/* before its route is asked for and the rules are */
	NAT_SOURCE = 1,		/* after */
};

enum nat_kind {
	NAT_EXEMPT = 0,		/* it stays as it is, whatever later rows say */
	NAT_ADDRESS = 1,	/* one of the row's addresses */
	NAT_MASQUERADE = 2,	/* the address of the interface that it leaves by */
	NAT_ONE_TO_ONE = 3,	/* the address as far behind the row's first as the old one is behind the first that it matches */
	NAT__MAX
};

/* Whether a row keeps mappings, and who may begin a flow to one (RFC 4787). */
enum nat_mapping {
	MAPPING_BY_FLOW = 0,		/* none: each flow has a port of its own */
	MAPPING_FILTERED = 1,		/* nobody: filtering by address and port */
	MAPPING_FILTERED_BY_ADDRESS = 2,	/* whose address its end has sent to */
	MAPPING_OPEN = 3,		/* anybody: endpoint-independent filtering */
	MAPPING__MAX
};

/* The protocols of mappings' records: two that nobody uses (RFC 3692). */
enum mapping_protocol {
	MAPPING_OF_UDP = 253,
	MAPPING_OF_TCP = 254,
};

enum translates {
	TRANSLATES = 1,			/* a policy has rows of translations */
	TRANSLATES_TO_MAPPINGS = 2,	/* and some by which others may begin a flow to a mapping */
	TRANSLATES_PREFIXES = 4,	/* and some of prefixes of IPv6 */
};

/* What is translated of IPv4, in order; the first row that matches decides. Addresses, ports and services are in host order, each the
 * first and the last; a service is protocol << 16 | selector. */
struct nat_row {
	__u64 from;		/* zones, a bit each, by our own numbers */
	__u64 to;
	__u32 source[2];
	__u32 destination[2];
	__u32 service[2];
	__u32 kind;		/* enum nat_kind */
	__u32 address[2];
	__u32 ports;		/* of a source: the last << 16 | the first; of a destination: the new one; 0: as it was, or of its kind */
	__u32 mapping;		/* enum nat_mapping, of a source */
	__u32 pad;
};

_Static_assert(sizeof(struct nat_row) == NAT_ROW_WORDS * 4, "rows do not lie on two pages");

/* The same of prefixes of IPv6 (RFC 6296). In host order; of an address the upper half before the lower one, of a range the first address before the last. */
struct prefix_row {
	__u64 from;		/* zones, a bit each, by our own numbers */
	__u64 to;		/* of a row of destinations: zones that the prefix outside is for */
	__u64 source[4];
	__u64 destination[4];
	__u64 prefix;		/* that takes the other's place */
	__u64 keep;		/* bits of the upper half that stay */
	__u32 kind;		/* NAT_EXEMPT or NAT_ONE_TO_ONE */
	__u32 adjustment;	/* of the word that keeps the sum, in ones' complement */
	__u32 is_long;		/* 1: it is the first word of the lower half that is not 0xffff; 0: the last one of the upper half */
	__u32 pad[5];
};

_Static_assert(sizeof(struct prefix_row) == PREFIX_ROW_WORDS * 4, "rows do not lie on two pages");

struct nat_rows {
	__u32 at;
	__u32 count;
};

/* Addresses, the first and the last in host order, for which ARP from some zones is answered. */
struct answered_row {
	__u64 zones;		/* a bit each, by our own numbers */
	__u32 first;
	__u32 last;
};

_Static_assert(sizeof(struct answered_row) == ANSWERED_ROW_WORDS * 4, "rows do not lie on two pages");

/* The first page. */
struct table_header {
	__u32 generation;
	__u32 zones;
	__u32 services;
	__u32 method;		/* enum table_method */
	__u32 pairs;		/* at */
	__u32 protocols;	/* at */
	__u32 ports;		/* at */
	__u32 pair_service;	/* at */
	__u32 effects;		/* at: struct effect of each row */
	__u32 defaults;		/* at: struct effect of each pair */
	struct zone_starts zone_starts[2];	/* of IPv4 and IPv6 */
	__u32 rows;
	__u32 source_ports;	/* at: the class of each source port; 0: no rule asks for them */
	struct address_tables field[2];	/* source, destination */
	__u32 order[3];		/* of the parts in crossed tables and in those in blocks */
	/* crossed */
	__u32 first;		/* at */
	__u32 first_columns;
	__u32 last;		/* at */
	__u32 last_columns;
	/* vectors */
	__u32 width;
	__u32 summary_width;
	__u32 chunks;		/* at: 16 words each */
	__u32 chunk_blocks;	/* at: 16 words each */
	__u32 vectors[3];	/* at */
	__u32 summaries[3];	/* at: pairs of words */
	/* blocks */
	struct block_table blocks[2];	/* the first two parts to the class of both, that and the third to the row */
	/* trees */
	__u32 tree_lines;	/* at: lines of LINE_WORDS words */
	struct tree_series series[2];	/* of IPv4 and IPv6 */
	struct nat_rows translations[2];	/* enum nat_direction */
	__u8 zone_numbers[MAX_ZONES];	/* by our own number of a zone, which it keeps, its number in these tables; NO_ZONE */
	/* classes of source ports */
	__u32 with_source_port;	/* at: the class of pair, service and source port */
	__u32 port_classes;
	/* lists of addresses; a bit each */
	__u32 lists;		/* their place in the map of lists and 1, and LISTS_DOMAINS; 0: no list is bound to anything */
	__u32 list_effects;	/* at: struct effect of each list */
	__u32 block[2];		/* lists that refuse what is on them, as source and as destination */
	__u32 require[2];	/* lists that refuse what is not on them */
	struct nat_rows answered;	/* struct answered_row */
	__u32 listed_series;	/* at: struct listed_series */
	__u32 listed_series_count;
	struct nat_rows prefixes[2];	/* struct prefix_row, by enum nat_direction */
};

_Static_assert(sizeof(struct table_header) == sizeof(struct table_page), "the header is the first page");

/* The rows of rules that ask for these lists: trees of their own, which only packets with such ends ask. */
struct listed_series {
	__u32 lists[2];		/* the list that must have the source, and the destination, as a bit; 0: none need have it */
	struct tree_series series[2];	/* of IPv4 and IPv6 */
	__u32 slots[2];		/* the counters of these lists and 1, or 0 */
};

_Static_assert(sizeof(struct listed_series) == LISTED_SERIES_WORDS * 4, "they do not lie on two pages");

/*
 * All lists of addresses of a policy: an array of pages of its own, because a policy changes without its lists. crates/dataplane/src/policies/lists.rs
 * writes it, firewall/lists.h reads it, policy::lists::ListTable::look_up is what both must agree with.
 */
struct list_header {
	__u32 index_bits;	/* an IPv4 address has its block in so many upper bits, 12 to 22 */
	__u32 index;		/* at: where the entries of each block begin, and where the last one's end */
	__u32 entries;		/* at: the rest of the address << index_bits | class << 1 | ENTRY_SINGLE, sorted in each block */
	__u32 masks;		/* at: by class, the lists that have it */
	__u32 starts;		/* at: struct list_start, of IPv6 */
	__u32 start_count;
	__u32 more[PAGE_WORDS - 6];
};

_Static_assert(sizeof(struct list_header) == sizeof(struct table_page), "the header is the first page");

#define ENTRY_SINGLE 1	/* of this address alone: those behind it are on no list until the next entry */

/* From this address on, the lists that have it; until the next. In host order. */
struct list_start {
	__u64 high;
	__u64 low;
	__u64 lists;
	__u64 pad;
};

/* What a rule, a default or a list does. */
struct effect {
	__u32 action;		/* enum action */
	__u32 slot;		/* its counter, or NO_SLOT */
	__u32 extras;		/* enum extra_bits; 0: nothing more is asked, and nothing more is done */
	__u32 listed;		/* of a row, the struct listed_series that it is in and 1, or 0 */
};

_Static_assert(sizeof(struct effect) == EFFECT_WORDS * 4, "they do not lie on two pages");

enum extra_bits {
	EXTRA_TERMS = 0x003fffff,	/* the place of its struct limit_terms and 1, or 0 */
	EXTRA_SYN_PROXY = 3u << 22,	/* enum syn_proxy of its connections and 1; 0: as the settings say */
	EXTRA_GATEWAY = 63u << 24,	/* the transparent gateway that takes its flows: its place in settings.gateways and 1, or 0 */
	EXTRA_LOG_OPEN = 1u << 30,	/* records each flow as it opens, and each packet that is refused */
	EXTRA_LOG_CLOSE = 1u << 31,	/* records each flow as it ends */
};

/* As the places in policy::model::Per::NAMES. */
enum limit_per {
	PER_RULE = 0,
	PER_SOURCE = 1,
	PER_DESTINATION = 2,
	PER__MAX
};

/* What a rule limits. Times in moments. */
struct limit_terms {
	__u64 interval;		/* between new flows at an even rate; 0: no rate */
	__u64 slack;		/* how far they may run ahead of it: burst - 1 intervals */
	__u32 connections;	/* concurrent flows; 0: no limit */
	__u32 epoch;		/* of what is counted */
	__u32 limit_per;	/* enum limit_per */
	__u32 alert_per;
	__u64 window;		/* of the alert, a second at least; 0: none */
	__u32 threshold;	/* packets in it that raise none yet */
	__u32 pad;
};

#endif
