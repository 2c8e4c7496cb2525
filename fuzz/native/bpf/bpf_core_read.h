/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* In place of libbpf's header of this name: there is no kernel whose structures could lie elsewhere. */
#ifndef RAMPART_NATIVE_CORE_READ_H
#define RAMPART_NATIVE_CORE_READ_H

#define preserve_access_index unused
#define BPF_CORE_READ_BITFIELD(from, field) ((from)->field)
#define bpf_core_type_id_kernel(type) 0
#define bpf_core_field_exists(...) 1
#define bpf_core_read(to, bytes, from) (__builtin_memcpy((to), (from), (bytes)), 0)

#endif
