/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* In place of libbpf's header of this name. */
#ifndef RAMPART_NATIVE_ENDIAN_H
#define RAMPART_NATIVE_ENDIAN_H

#define bpf_htons(x) ((__be16)__builtin_bswap16(x))
#define bpf_ntohs(x) ((__u16)__builtin_bswap16(x))
#define bpf_htonl(x) ((__be32)__builtin_bswap32(x))
#define bpf_ntohl(x) ((__u32)__builtin_bswap32(x))

#endif
