/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Accesses that the compiler neither repeats, leaves out, nor tears, to what other cores or user space change meanwhile:
 * the kernel's macros of the same names, for aligned scalars of up to eight bytes. They order nothing.
 */
#ifndef RAMPART_NET_ONCE_H
#define RAMPART_NET_ONCE_H

#define READ_ONCE(place) (*(const volatile __typeof__(place) *)&(place))
#define WRITE_ONCE(place, value) (*(volatile __typeof__(place) *)&(place) = (value))

#endif
