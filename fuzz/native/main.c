// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Runs the firewall's data plane as a program of its own, under AddressSanitizer and UndefinedBehaviorSanitizer, on inputs of
 * libFuzzer or of its own generator:
 *
 *   native INPUTS [SEED]     so many inputs, of a few hundred packets each; the same ones for the same seed
 *   libFuzzer's options      when built with -fsanitize=fuzzer and -DFUZZER
 *
 * scripts/fuzz-native builds it.
 */
#include "check.h"

#define MAX_INPUT 16384

static __u64 seen[5];	/* packets by verdict; the last: answered */
static struct counts sums;	/* of all inputs */

static __u32 any_interface(const struct talk *talk)
{
	if (talk->flow && below(16))
		return talk->flow->zone[talk->side] == ZONE_SELF ? 2 : talk->flow->zone[talk->side] + 1;
	return once_in(64) ? NO_ZONE_PORT : 2 + below(3);
}

static enum verdict run_xdp(__u32 ifindex)
{
	struct xdp_md ctx = { .ingress_ifindex = ifindex };

	running = HOOK_XDP;
	xdp_moved(&ctx);
	switch (firewall_xdp(&ctx)) {
	case XDP_DROP:
		return VERDICT_DROP;
	case XDP_PASS:
		return VERDICT_UP;
	case XDP_REDIRECT:
		return VERDICT_SENT;
	default:
		fail("an XDP verdict that the firewall has not");
		return 0;
	}
}

/* A packet of a link without Ethernet headers: the kernel knows its protocol all the same. */
static void take_ethernet(struct __sk_buff *ctx)
{
	__u16 type = 0;

	frame_load(12, (__u8 *)&type, sizeof(type));
	ctx->protocol = type;
	frame_cut(0, ETHERNET_BYTES);
}

static enum verdict run_tc(__u32 ifindex, int is_leaving)
{
	struct __sk_buff ctx = { .ifindex = ifindex, .ingress_ifindex = is_leaving ? 0 : ifindex, .vlan_present = once_in(16) };

	if (once_in(4))
		ctx.pkt_type = below(4);
	if (once_in(2))
		ctx.vlan_tci = below(3);
	if (once_in(16))
		ctx.gso_size = below(1500);
	is_partial = below(2);
	if (ports[ifindex].is_layer_3)
		take_ethernet(&ctx);
	running = HOOK_TC;
	skb_moved(&ctx);
	if (once_in(64))
		resolve(&ctx);
	switch (is_leaving ? firewall_out(&ctx) : firewall_tc(&ctx)) {
	case TCX_DROP:
		return VERDICT_DROP;
	case TCX_NEXT:
		return VERDICT_UP;
	case TCX_REDIRECT:
		return VERDICT_SENT;
	default:
		fail("a TC verdict that the firewall has not");
		return 0;
	}
}

/* What would answer a cookie, and where it comes in. */
static struct {
	__u8 bytes[256];
	__u32 count;
	__u32 ifindex;
} echo;

static void swap(__u8 *a, __u8 *b, __u32 count)
{
	for (__u32 i = 0; i < count; i++) {
		__u8 byte = a[i];

		a[i] = b[i];
		b[i] = byte;
	}
}

/* Makes it of the cookie that the frame is now. */
static void note_cookie_sent(__u32 ifindex)
{
	__u8 *ip = echo.bytes + ETHERNET_BYTES, *tcp;
	__u32 number;

	if (frame_bytes() > sizeof(echo.bytes) || ports[ifindex].is_layer_3)
		return;
	echo.count = 0;
	if (frame_load(0, echo.bytes, frame_bytes()) || (*ip >> 4 != 4 && *ip >> 4 != 6))
		return;
	echo.count = frame_bytes();
	echo.ifindex = ifindex;
	tcp = ip + (*ip >> 4 == 4 ? IPV4_BYTES : IPV6_BYTES);
	swap(echo.bytes, echo.bytes + 6, 6);
	swap(tcp - (*ip >> 4 == 4 ? 8 : 32), tcp - (*ip >> 4 == 4 ? 4 : 16), *ip >> 4 == 4 ? 4 : 16);
	swap(tcp, tcp + 2, 2);
	swap(tcp + 4, tcp + 8, 4);
	memcpy(&number, tcp + 8, 4);
	number = bpf_htonl(bpf_ntohl(number) + 1);
	memcpy(tcp + 8, &number, 4);
	tcp[13] = TCP_ACK;
	/* Timestamps, if there are any. */
	swap(tcp + 28, tcp + 32, 4);
}

static void one_packet(void)
{
	const struct counts *mine = (const struct counts *)count_map->values;
	__u64 drops = total_drops(), answered = mine->tallies[TALLY_ANSWERED], kept = mine->tallies[TALLY_FRAGMENTS_KEPT];
	__u64 cookies = mine->tallies[TALLY_COOKIES];
	enum verdict verdict;
	struct talk talk;
	__u32 ifindex;

	any_frame(&talk);
	ifindex = any_interface(&talk);
	if (echo.count && once_in(4)) {
		byte_count = echo.count;
		memcpy(bytes, echo.bytes, byte_count);
		ifindex = echo.ifindex;
		echo.count = once_in(2) ? echo.count : 0;
	}
	frame_set(bytes, byte_count, once_in(8) ? 64 + below(256) : byte_count);
	verdict = below(2) ? run_xdp(ifindex) : run_tc(ifindex, once_in(8));
	if (mine->tallies[TALLY_COOKIES] != cookies)
		note_cookie_sent(ifindex);
	drops = total_drops() - drops;
	answered = mine->tallies[TALLY_ANSWERED] - answered;
	kept = mine->tallies[TALLY_FRAGMENTS_KEPT] - kept;
	if (drops + kept != (verdict == VERDICT_DROP || answered) || (answered && verdict != VERDICT_SENT))
		fail("verdict and counters of a packet differ");
	seen[verdict]++;
	seen[4] += answered;
}

/* Runs a program of user space's with its command as the packet. */
static void run_command(int (*program)(struct xdp_md *), const void *command, __u32 size)
{
	struct xdp_md ctx = {};

	frame_set(command, once_in(16) ? size - 1 : size, size);
	xdp_moved(&ctx);
	program(&ctx);
}

/* A flow from another table: one of this one, as it is or with another port or state. */
static void foreign_flow(struct flow *flow)
{
	*flow = ((struct flow *)flow_map->values)[below(RECORDS)];
	if (once_in(2))
		flow->port[below(2)] = any_word();
	if (flow->protocol == PROTOCOL_TCP && flow->state != FLOW_FREE && once_in(2))
		flow->state = FLOW_SYN_SENT + below(FLOW__MAX - FLOW_SYN_SENT);
}

static void user_space(void)
{
	struct flow flow;

	struct table_command all = { .count = RECORDS }, one = { .first = below(RECORDS + 2) };
	struct block_command blocked = {};
	struct judge_command question = { .family = below(2) ? 4 : 6, .from = below(6), .to = below(6), .protocol = below(256),
					  .selector = below(65536) };

	switch (below(9)) {
	case 0:
		change_policy();
		break;
	case 1:
		set_switches(any_byte());
		break;
	case 2:
		clock_ns += (__u64)(below(4) ? below(2000) : any_word()) << TICK_SHIFT;
		break;
	case 3:
		run_command(sweep_flows, &all, sizeof(all));
		blocked.key = ((struct scan_bucket *)scan_map->values)->entries[below(SCAN_WAYS)].key;
		if (once_in(4))
			run_command(end_block, &blocked, sizeof(blocked));
		break;
	case 4:
		one.number = one.first < RECORDS ? ((struct flow *)flow_map->values)[one.first].number + once_in(4) : 0;
		run_command(end_flow, &one, sizeof(one));
		break;
	case 5:
		any_address(question.family, question.source);
		any_address(question.family, question.destination);
		run_command(judge, &question, sizeof(question));
		break;
	case 6:
		((struct forwarding *)forwarding_map->values)->generation++;
		break;
	case 7:
		foreign_flow(&flow);
		/* Records that hold no flow are not taken over. */
		if (flow.state != FLOW_FREE)
			run_command(take_flow, &flow, sizeof(flow));
		break;
	default:
		mend();
		if (once_in(4))
			damage();
		break;
	}
}

static void add_counts(void)
{
	const struct counts *mine = (const struct counts *)count_map->values;

	for (int i = 0; i < MAX_REASONS; i++)
		sums.drops[i] += mine->drops[i];
	for (int i = 0; i < MAX_TALLIES; i++)
		sums.tallies[i] += mine->tallies[i];
}

int LLVMFuzzerTestOneInput(const __u8 *input, size_t size)
{
	static int is_prepared;

	if (!is_prepared) {
		world_prepare();
		is_prepared = 1;
	}
	source.bytes = input;
	source.left = size;
	world_begin();
	echo.count = 0;
	while (source.left) {
		if (once_in(16))
			user_space();
		else
			one_packet();
	}
	check_table();
	frame_open();
	add_counts();
	return 0;
}

#ifndef FUZZER
/* What happened, so that whoever runs this sees what was never reached. */
static void print_counts(void)
{
	printf("dropped %llu\nup %llu\nsent %llu\nanswered %llu\n", seen[VERDICT_DROP], seen[VERDICT_UP], seen[VERDICT_SENT],
	       seen[4]);
	for (int i = 0; i < MAX_REASONS; i++)
		if (sums.drops[i])
			printf("reason %d %llu\n", i, sums.drops[i]);
	for (int i = 0; i < MAX_TALLIES; i++)
		if (sums.tallies[i])
			printf("tally %d %llu\n", i, sums.tallies[i]);
}

int main(int count, char **arguments)
{
	static __u8 input[MAX_INPUT];
	__u64 inputs = count > 1 ? strtoull(arguments[1], 0, 10) : 1000, state = count > 2 ? strtoull(arguments[2], 0, 10) : 1;

	state = state * 2 + 1;
	for (__u64 i = 0; i < inputs; i++) {
		for (__u32 at = 0; at < MAX_INPUT; at += 8) {
			/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016 */
			state ^= state >> 12;
			state ^= state << 25;
			state ^= state >> 27;
			*(__u64 *)(input + at) = state * 0x2545f4914f6cdd1d;
		}
		LLVMFuzzerTestOneInput(input, MAX_INPUT);
	}
	print_counts();
	return 0;
}
#endif
