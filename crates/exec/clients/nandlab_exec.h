/*
 * A translation layer in C as a program of its own: implement nandlab_layer, and call nandlab_exec
 * from main. Compile it with nandlab_exec.c; no library is needed. Each layer runs in a process of
 * its own, with fresh memory.
 *
 * The chip is that of nandlab.h: geometry, read, program, copy, erase, is_bad, mark_bad, sync,
 * fence, now and advance.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#ifndef NANDLAB_EXEC_H
#define NANDLAB_EXEC_H

#include "nandlab.h"

/* What a layer does. A page of the layer is as long as a page of the chip. */
typedef struct nandlab_layer {
    /* Puts a new layer on an erased chip, and returns its pages; 0 says that it cannot. */
    uint32_t (*format)(nandlab_chip *chip);
    /* Attaches the layer that the chip holds, whatever a power cut left, and returns its pages. */
    uint32_t (*attach)(nandlab_chip *chip);
    /* Reads a page; one that was never written reads as zeros. NANDLAB_STATUS_UNCORRECTABLE says
     * that its data are lost. */
    nandlab_status (*read)(nandlab_chip *chip, uint32_t page, uint8_t *data);
    /* Writes a page. It is durable after the next flush. */
    nandlab_status (*write)(nandlab_chip *chip, uint32_t page, const uint8_t *data);
    /* Makes everything written durable. */
    nandlab_status (*flush)(nandlab_chip *chip);
} nandlab_layer;

/* Serves layers until nandlab ends, and returns the exit status of the program. */
int nandlab_exec(const nandlab_layer *layer);

/* Says why the call that is open fails. The text goes into nandlab's message. */
void nandlab_explain(const char *why);

#endif
