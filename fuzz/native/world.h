/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the firewall finds around it: small tables, so that they are often full, four interfaces, and a policy of six rules in
 * which about half of all flows are allowed. Every input begins with the same world.
 */
#ifndef RAMPART_NATIVE_WORLD_H
#define RAMPART_NATIVE_WORLD_H

#include "helpers.h"

#define BUCKETS 4
#define RECORDS 24
#define SCAN_ROOM 1	/* buckets of sources that asked in vain */
#define LIMIT_ROOM 2	/* buckets of addresses that rules count: so few that they are full */
#define HIT_SLOTS 6
#define ZONES 4
#define SERVICES 4
#define CLASSES 2
#define PAGES 2048
#define NO_ZONE_PORT 5		/* an interface of no zone */
#define LAYER_3_PORT 4		/* now and then without Ethernet headers */

/* The policy's pages while they are laid out. */
static struct {
	__u32 *words;
	__u32 used;
} pages;

/* Room for words, on a boundary of so many. */
static __u32 words_of_policy(__u32 count, __u32 align)
{
	__u32 at = (pages.used + align - 1) / align * align;

	pages.used = at + count;
	if (pages.used > PAGES * PAGE_WORDS)
		abort();
	return at;
}

static __u32 put(const __u32 *words, __u32 count, __u32 align)
{
	__u32 at = words_of_policy(count, align);

	memcpy(pages.words + at, words, count * 4);
	return at;
}

/* Addresses are of class 1 when the bit is set: of the third byte, and of the upper half of an IPv6 address. */
static void put_addresses(struct address_tables *t)
{
	static const __u64 keys[8] = { 0, 0x2001000200000001, 0x2001000200000002, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull };
	static const __u64 lows[2] = { 0, 2 };
	static const __u32 leaves[9] = { 0, WHOLE, 0, 0, 0, 2, 1, WHOLE, 0 }, low_classes[2] = { 0, 1 };
	__u32 block[256], blocks;

	for (int i = 0; i < 256; i++)
		block[i] = i & 1;
	blocks = put(block, 256, 1);
	t->roots = words_of_policy(65536, 1);
	t->blocks = blocks;
	for (int i = 0; i < 65536; i++)
		pages.words[t->roots + i] = i >> 8 == 198 ? DEEPER : i & 1;
	t->keys = put((const __u32 *)keys, 16, 16);
	t->leaves = put(leaves, 9, 1);
	t->lows = put((const __u32 *)lows, 4, 2);
	t->low_classes = put(low_classes, 2, 1);
	t->levels = 1;
	t->level_keys[0] = 3;
}

static void put_crossed(struct table_header *t)
{
	__u32 first[CLASSES * CLASSES], last[CLASSES * CLASSES * SERVICES];

	for (__u32 i = 0; i < CLASSES * CLASSES; i++)
		first[i] = i;
	for (__u32 i = 0; i < CLASSES * CLASSES * SERVICES; i++)
		last[i] = i % (HIT_SLOTS + 1);
	for (__u32 i = 0; i < 3; i++)
		t->order[i] = i;
	t->first = put(first, CLASSES * CLASSES, 1);
	t->first_columns = CLASSES;
	t->last = put(last, CLASSES * CLASSES * SERVICES, 1);
	t->last_columns = SERVICES;
}

/* Vectors of one chunk; all but the first four bits of a word are 0. */
static void put_vectors(struct table_header *t)
{
	__u32 chunks[4 * 16] = {}, blocks[4 * 16] = {}, vectors[SERVICES] = { 0, 1, 2, 3 };
	__u64 summaries[SERVICES] = { 1, 1, 1, 0 };

	for (__u32 i = 1; i < 4; i++) {
		chunks[i * 16] = 0x2a >> i | i;
		blocks[i * 16] = i;
	}
	t->width = t->summary_width = 1;
	t->chunks = put(chunks, 64, 16);
	t->chunk_blocks = put(blocks, 64, 1);
	for (int part = 0; part < 3; part++) {
		t->vectors[part] = put(vectors, SERVICES, 1);
		t->summaries[part] = put((__u32 *)summaries, SERVICES * 2, 2);
	}
}

/* A block for each class of the first part, and one for each of both. */
static void put_blocks(struct table_header *t)
{
	__u32 directory[CLASSES * CLASSES], first[CLASSES * BLOCK_CLASSES] = {}, last[CLASSES * CLASSES * BLOCK_CLASSES] = {};

	for (__u32 i = 0; i < CLASSES * CLASSES; i++) {
		directory[i] = i;
		first[i / CLASSES * BLOCK_CLASSES + i % CLASSES] = i;
		for (__u32 service = 0; service < SERVICES; service++)
			last[i * BLOCK_CLASSES + service] = (i * SERVICES + service) % (HIT_SLOTS + 1);
	}
	t->blocks[0] = (struct block_table){ put(directory, CLASSES, 1), CLASSES, put(first, CLASSES * BLOCK_CLASSES, 1) };
	t->blocks[1] = (struct block_table){ put(directory, CLASSES * CLASSES, 1), CLASSES * CLASSES,
					     put(last, CLASSES * CLASSES * BLOCK_CLASSES, 1) };
}

static void put_services(struct table_header *t)
{
	__u32 protocols[256] = {}, pairs[ZONES * ZONES], pair_service[2 * SERVICES];

	protocols[PROTOCOL_TCP] = protocols[PROTOCOL_UDP] = protocols[PROTOCOL_ICMP] = protocols[PROTOCOL_ICMPV6] = DEEPER;
	for (__u32 i = 0; i < ZONES * ZONES; i++)
		pairs[i] = i & 1;
	for (__u32 i = 0; i < 2 * SERVICES; i++)
		pair_service[i] = i % SERVICES;
	t->services = SERVICES;
	t->protocols = put(protocols, 256, 1);
	t->ports = words_of_policy(65536, 1);
	for (__u32 i = 0; i < 65536; i++)
		pages.words[t->ports + i] = i % SERVICES;
	t->pairs = put(pairs, ZONES * ZONES, 1);
	t->pair_service = put(pair_service, 2 * SERVICES, 1);
}

static void put_effects(struct table_header *t)
{
	static const __u32 actions[HIT_SLOTS] = { ACTION_ALLOW, ACTION_ALLOW, ACTION_REJECT, ACTION_ALLOW, ACTION_DENY, ACTION_ALLOW };
	/* The numbers of terms that put_limits() writes. */
	static const __u32 extras[HIT_SLOTS] = { 0, EXTRA_LOG_OPEN | EXTRA_LOG_CLOSE | 1, EXTRA_LOG_OPEN | 2, 2, EXTRA_LOG_OPEN, EXTRA_LOG_CLOSE | 2u << GATEWAY_SHIFT | 3 };
	struct effect effects[HIT_SLOTS] = {}, defaults[ZONES * ZONES] = {};

	for (__u32 i = 0; i < HIT_SLOTS; i++)
		effects[i] = (struct effect){ .action = actions[i], .slot = i, .extras = extras[i] };
	for (__u32 i = 0; i < ZONES * ZONES; i++)
		defaults[i] = (struct effect){ .action = i % 3, .slot = NO_SLOT, .extras = i & 1 ? EXTRA_LOG_OPEN : 0 };
	t->effects = put((__u32 *)effects, HIT_SLOTS * 4, 4);
	t->defaults = put((__u32 *)defaults, ZONES * ZONES * 4, 4);
}

static void put_zones(struct table_header *t)
{
	static const struct zone_start v4[] = { { .zones = 0 }, { .high = 0xc6120100, .zones = 2 }, { .high = 0xc6120200 },
					       { .high = 0xc6120207, .is_excepted = 1 }, { .high = 0xc6120208 } };
	static const struct zone_start v6[] = { { .zones = 0 }, { .high = 0x2001000200000001, .zones = 2 }, { .high = 0x2001000200000002 } };

	t->zone_starts[0] = (struct zone_starts){ put((const __u32 *)v4, sizeof(v4) / 4, 8), 5 };
	t->zone_starts[1] = (struct zone_starts){ put((const __u32 *)v6, sizeof(v6) / 4, 8), 3 };
}

#define LIST_PAGES 64

/* Two lists: the upper half of 198.18.1.0/24 and one address besides, and hosts of an IPv6 network. */
static void put_lists(void)
{
	static struct generation name;
	struct native_map *places = new_map(&address_lists, LIST_PLACES, 0, sizeof(void *));
	struct native_map *map = new_map(&name, LIST_PAGES, 0, sizeof(struct table_page));
	static const struct list_start starts[] = { { .lists = 0 }, { 0x2001000200000001, 128, 2, 0 }, { 0x2001000200000001, 1 << 20, 0, 0 } };
	static const __u32 entries[] = { 0x20180u << 12 | 1 << 1, 0x20200u << 12, 0x20207u << 12 | 1 << 1 | ENTRY_SINGLE };
	struct list_header *h = (void *)map->values;
	__u32 *words = (__u32 *)map->values;

	*h = (struct list_header){ .index_bits = 12, .index = PAGE_WORDS, .start_count = 3 };
	h->entries = h->index + 4097;
	h->masks = h->entries + 3;
	h->starts = (h->masks + 2 + 7) / 8 * 8;
	for (__u32 block = 0xc62; block <= 4096; block++)
		words[h->index + block] = 3;
	memcpy(words + h->entries, entries, sizeof(entries));
	words[h->masks + 1] = 1;
	memcpy(words + h->starts, starts, sizeof(starts));
	places->is_outer = 1;
	*(void **)places->values = map->name;
}

/* Every other policy asks the lists: the first refuses at both ends, the second as a source. */
static void bind_lists(struct table_header *t)
{
	static const struct effect effects[] = { { ACTION_DENY, 0, EXTRA_LOG_OPEN, 0 }, { ACTION_DENY, NO_SLOT, 0, 0 } };

	t->list_effects = put((const __u32 *)effects, sizeof(effects) / 4, 4);
	t->lists = t->method & 1;
	t->block[0] = 3;
	t->block[1] = 1;
}

/* Some connections from anywhere are sent to one host, and all others leave under the address of the interface, with two ports. */
static void put_translations(struct table_header *t)
{
	static const struct nat_row to = { .from = ~0ull, .to = ~0ull, .source = { 0, ~0u }, .destination = { 0, ~0u },
					   .service = { PROTOCOL_TCP << 16 | 80, PROTOCOL_UDP << 16 | 81 }, .kind = NAT_ADDRESS,
					   .address = { 0xc6120202, 0xc6120202 }, .ports = 82 };
	static const struct nat_row from = { .from = ~0ull, .to = ~0ull, .source = { 0, ~0u }, .destination = { 0, ~0u },
					     .service = { 0, ~0u }, .kind = NAT_MASQUERADE, .ports = 1001u << 16 | 1000 };

	t->translations[NAT_DESTINATION] = (struct nat_rows){ put((const __u32 *)&to, NAT_ROW_WORDS, NAT_ROW_WORDS), 1 };
	t->translations[NAT_SOURCE] = (struct nat_rows){ put((const __u32 *)&from, NAT_ROW_WORDS, NAT_ROW_WORDS), 1 };
}

static struct table_header *policy_of(struct native_map *map, enum table_method method)
{
	struct table_header *t = (void *)map->values;

	pages.words = (__u32 *)map->values;
	pages.used = PAGE_WORDS;
	t->zones = ZONES;
	t->rows = HIT_SLOTS;
	t->method = method;
	put_services(t);
	for (int i = 0; i < 2; i++)
		put_addresses(&t->field[i]);
	put_effects(t);
	put_zones(t);
	put_crossed(t);
	put_vectors(t);
	put_blocks(t);
	bind_lists(t);
	if (method == METHOD_VECTORS)
		put_translations(t);
	for (__u32 i = 0; i < MAX_ZONES; i++)
		t->zone_numbers[i] = i < ZONES ? i : NO_ZONE;
	return t;
}

static struct native_map *early_map, *row_map, *address_map, *source_map, *scan_map;
static struct native_map *flow_map, *bucket_map, *datagram_map, *forwarding_map, *room_map, *generation_map, *count_map,
	*proxied_map;
static struct native_map *policies[3];
static __u32 policy_words;

/* For which Ethernet addresses the interfaces take frames: packets.h makes frames for one of these. */
static void add_link_addresses(void)
{
	struct link_addresses *all = (void *)new_map(&link_addresses, MAX_PORTS, 0, sizeof(struct link_addresses))->values;

	for (__u32 i = 2; i < NO_ZONE_PORT; i++)
		for (int place = 0; place < LINK_ADDRESSES; place++)
			all[i].address[place] = place % 2 ? 0x020100000006 : 0x010100000002;
}

static void add_addresses(void)
{
	static const struct address v4 = { { 0x010112c6 }, 4, 0 }, v6 = { { 0x02000120, 0x01000000, 0, 0x01000000 }, 6, 0 };
	struct native_map *local = new_map(&local_addresses, 2, sizeof(struct address), 4);
	struct native_map *own = new_map(&own_addresses, 3, 4, sizeof(struct own_addresses));

	for (__u32 i = 0; i < 2; i++)
		((__u32 *)local->values)[i] = LOCAL_OWN;
	memcpy(local->keys, &v4, sizeof(v4));
	memcpy(local->keys + sizeof(v4), &v6, sizeof(v6));
	for (__u32 i = 0; i < 3; i++) {
		struct own_addresses value = { i == 2 ? 0 : v4.words[0], { v6.words[0], v6.words[1], 0, v6.words[3] } };
		__u32 ifindex = 2 + i;

		memcpy(own->keys + i * 4, &ifindex, 4);
		memcpy(own->values + i * sizeof(value), &value, sizeof(value));
	}
}

/* A rate and an alert of a rule; a rate, flows at once and an alert of each source; flows at once of each destination. */
static void put_limits(void)
{
	struct limit_terms *terms = (void *)new_map(&limit_terms, 3, 0, sizeof(struct limit_terms))->values;

	terms[0] = (struct limit_terms){ .interval = 1ull << 32, .slack = 1ull << 33, .connections = 6, .window = 1ull << 34,
					.threshold = 2 };
	terms[1] = (struct limit_terms){ .interval = 1ull << 31, .slack = 1ull << 33, .connections = 2, .limit_per = PER_SOURCE,
					.alert_per = PER_SOURCE, .window = 1ull << 36, .threshold = 1 };
	terms[2] = (struct limit_terms){ .connections = 2, .limit_per = PER_DESTINATION };
	row_map = new_map(&limit_rows, HIT_SLOTS, 0, sizeof(struct limit_row));
	address_map = new_map(&limit_addresses, LIMIT_ROOM, 0, sizeof(struct limit_bucket));
}

/* Once in the life of the process. */
static void world_prepare(void)
{
	static struct generation names[3];

	frame_prepare();
	flow_map = new_map(&flows, RECORDS, 0, sizeof(struct flow));
	source_map = new_map(&sources, SOURCES, 0, sizeof(struct source));
	bucket_map = new_map(&buckets, BUCKETS, 0, sizeof(struct bucket));
	early_map = new_map(&early_waiting, EARLY_WAITING, 0, sizeof(__u64));
	datagram_map = new_map(&datagrams, DATAGRAMS, 0, sizeof(struct datagram));
	forwarding_map = new_map(&forwarding, 1, 0, sizeof(struct forwarding));
	new_map(&hops, HOPS, 0, sizeof(struct hop));
	new_map(&routes_v4, 1 << V4_BITS, 0, sizeof(__u64));
	new_map(&routes_v6, 1 << V6_BITS, 0, sizeof(struct route_v6));
	proxied_map = new_map(&proxied_flows, RECORDS, 4, sizeof(struct proxied));
	new_map(&proxy_rooms, 1, 0, sizeof(struct proxy_room));
	new_map(&sum_rooms, 1, 0, sizeof(struct sum_room));
	new_map(&nat_rooms, 1, 0, sizeof(struct nat_room));
	/* Hold sockets, and which of them; they have keys, because programs write them. */
	new_map(&gateway_sockets, 4, 4, sizeof(struct bpf_sock));
	new_map(&reopened, 16, sizeof(struct bpf_sock_tuple), 4);
	new_map(&carried_flow, 1, 0, sizeof(struct flow));
	new_map(&expired_packet, 1, 0, sizeof(struct packet));
	scan_map = new_map(&scan_sources, SCAN_ROOM, 0, sizeof(struct scan_bucket));
	room_map = new_map(&answer_rooms, 1, 0, sizeof(struct answer_room));
	count_map = new_map(&counts, 1, 0, sizeof(struct counts));
	new_map(&hits, HIT_SLOTS, 0, 8);
	put_limits();
	generation_map = new_map(&generations, 1, 0, sizeof(void *));
	generation_map->is_outer = 1;
	for (int i = 0; i < 3; i++) {
		policies[i] = new_map(&names[i], PAGES, 0, sizeof(struct table_page));
		policy_of(policies[i], i);
	}
	policy_words = pages.used;
	put_lists();
	add_addresses();
	add_link_addresses();
}

/* Puts one of the policies into force: by crossed tables, by vectors, by tables in blocks, or with a few words that are none of
 * theirs. */
static void change_policy(void)
{
	struct native_map *map = policies[below(3)];
	struct table_header *t = (void *)map->values;
	static __u32 generation;

	t->generation = settings.generation = ++generation ? generation : ++generation;
	*(void **)generation_map->values = map->name;
}

/* A few words of the policy in force become others; `mend` undoes it. */
static struct { __u32 *at, was; } damages[8];
static __u32 damage_count;

static void damage(void)
{
	__u32 *words = (__u32 *)policies[below(3)]->values;

	for (damage_count = 0; damage_count < 8; damage_count++) {
		__u32 *at = words + (below(2) ? below(PAGE_WORDS) : any_word() % policy_words);

		damages[damage_count].at = at;
		damages[damage_count].was = *at;
		*at = below(2) ? any_word() : below(65536);
	}
}

static void mend(void)
{
	while (damage_count) {
		damage_count--;
		*damages[damage_count].at = damages[damage_count].was;
	}
}

static void set_switches(__u32 bits)
{
	settings.check_checksums = bits & 1;
	settings.check_tcp_flags = bits >> 1 & 1;
	settings.check_land = bits >> 2 & 1;
	settings.check_zones = bits >> 3 & 1;
	settings.reverse_path = (bits >> 4 & 3) % 3;
	settings.syn_proxy = below(3);
	settings.scan_window = bits & 32 ? 1 + bits * 8 : 0;
	settings.scan_block = bits & 1 ? 700 : 0;
	settings.scan_bits[SCAN_PORTS] = bits & 2 ? 3 : 0;
	settings.scan_bits[SCAN_HOSTS] = 2;
	settings.strangers_until = bits & 128 ? (clock_ns >> TICK_SHIFT) + 2000 : 0;
	early_until = once_in(2) ? ~0ULL : 0;
	settings.budgets[0] = settings.budgets[1] = bits & 64 ? RECORDS / 4 : RECORDS * 2;
}

static void set_settings(void)
{
	for (int i = 0; i < 16; i++)
		settings.timeouts[i] = 1000 * (i + 1);
	settings.translates = 1;
	/* The second: a rule names it, and a place that no gateway has is left. */
	settings.gateways[1] = (struct gateway_place){ .v4 = 1, .v6 = { 0, 0, 0, 1 }, .port = 1 };
	settings.udp_timeout = settings.icmp_timeout = settings.other_timeout = settings.doubted_timeout = 2000;
	settings.unanswered_timeout = 1500;
	set_switches(any_byte());
}

/* The same world for every input; of what is large only what was used is cleared. */
static void world_begin(void)
{
	static __u32 epoch;
	struct forwarding *now = (void *)forwarding_map->values;

	mend();
	memset(flow_map->values, 0, RECORDS * sizeof(struct flow));
	memset(bucket_map->values, 0, BUCKETS * sizeof(struct bucket));
	memset(datagram_map->values, 0, DATAGRAMS * sizeof(struct datagram));
	memset(early_map->values, 0, EARLY_WAITING * sizeof(__u64));
	memset(row_map->values, 0, HIT_SLOTS * sizeof(struct limit_row));
	memset(address_map->values, 0, LIMIT_ROOM * sizeof(struct limit_bucket));
	memset(scan_map->values, 0, SCAN_ROOM * sizeof(struct scan_bucket));
	memset(room_map->values, 0, sizeof(struct answer_room));
	memset(count_map->values, 0, sizeof(struct counts));
	memset(&pool, 0, sizeof(pool));
	memset(&proxy_state, 0, sizeof(proxy_state));
	memset(proxied_map->keys, 0xff, RECORDS * 4);
	memset(late_syns, 0, sizeof(late_syns));
	memset(scanned, 0, sizeof(scanned));
	memset(source_map->values, 0, SOURCES * sizeof(struct source));
	memset(ports, 0, sizeof(ports));
	/* Whatever was remembered is old. */
	*now = (struct forwarding){ .generation = ++epoch, .takes_frames = { 0x0c } };
	now->mark[0] = below(4) ? 0x01020304 : 0;
	for (__u32 i = 2; i < NO_ZONE_PORT; i++)
		ports[i] = (struct port){ .ifindex = i, .zone = i - 1, .address = i % 2 ? 0x020100000006 : 0x010100000002 };
	ports[LAYER_3_PORT].is_layer_3 = below(2);
	clock_ns = FIRST_MOMENT;
	log_due = early_due = 0;
	settings.keeps_marks = 1;
	settings.log_interval = settings.log_slack = 1ull << 33;
	for (int i = 0; i < HASH_SECRETS; i++)
		secret[i] = 0x9e3779b97f4a7c15 * (i + 1) ^ 0xd6e8feb86659fd93;
	bucket_mask = BUCKETS - 1;
	limit_bucket_mask = LIMIT_ROOM - 1;
	scan_bucket_mask = SCAN_ROOM - 1;
	record_count = RECORDS;
	hit_slots = HIT_SLOTS;
	set_settings();
	change_policy();
}

#endif
