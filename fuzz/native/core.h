/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * bpf/firewall.bpf.c as it is, with plain C where the kernel would be. Constants that user space sets before loading are
 * variables here; nothing else differs.
 */
#ifndef RAMPART_NATIVE_CORE_H
#define RAMPART_NATIVE_CORE_H

#include "../../bpf/firewall/verdict.h"
#define const
#include "../../bpf/firewall/state.h"
#undef const
#include "../../bpf/firewall.bpf.c"

#endif
