/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the flash of docram.c has done; the mtd_info's `priv` points to it.
 */
#ifndef DOCRAM_H
#define DOCRAM_H

#include <linux/types.h>

#define DOCRAM_NAME "DiskOnChip in memory"

struct docram_counts {
	u64 page_reads;    /* pages whose data were read, with or without spare bytes */
	u64 oob_reads;     /* pages of which only spare bytes were read */
	u64 page_programs; /* pages whose data were programmed */
	u64 oob_programs;  /* pages of which only spare bytes were programmed */
	u64 erases;        /* blocks */
	u64 raised;        /* bytes, other than 0xff, that a program could not make what was asked */
	u64 inside;        /* ticks of the processor's clock spent in the flash itself */
};

#endif
