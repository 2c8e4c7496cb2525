// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Two forwarders without a policy. xdp-redirect does the least that one can do, and so shows the physical limit of this machine. The
 * known box does the same and one thing more, of which the bench knows exactly how much.
 */
#include "redirect/forward.h"
#include "redirect/known.h"

/* "frags": jumbo frames do not fit one page. Only headers are read, and they are in the first part. */
SEC("xdp.frags")
int redirect(struct xdp_md *context)
{
	return forward_frame(context);
}

SEC("xdp.frags")
int known(struct xdp_md *context)
{
	int answer = behave(context);

	return answer == GOES_ON ? forward_frame(context) : answer;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
