/*
 * A translation layer or a file system in C as a program of its own: implement nandlab_layer and
 * call nandlab_exec from main, or implement nandlab_files and call nandlab_exec_files. Compile it
 * with nandlab_exec.c; no library is needed. Each layer and each mount runs in a process of its own,
 * with fresh memory.
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

/* What a file system does. A path is "/", or names with '/' before each. Each function returns 0 or
 * a number of errno.h: EIO stops the file system, others refuse the call. */
typedef struct nandlab_files {
    /* Makes an empty file system on an erased chip. */
    int (*format)(nandlab_chip *chip);
    /* Mounts the file system, whatever a power cut left. */
    int (*mount)(nandlab_chip *chip);
    int (*stat)(nandlab_chip *chip, const char *path, bool *directory, uint32_t *length);
    /* Calls nandlab_entry for each name, always in the same order. */
    int (*list)(nandlab_chip *chip, const char *path);
    int (*create)(nandlab_chip *chip, const char *path, bool directory);
    /* `length` is what to read, and then what was read: less only at the end of the file. */
    int (*read)(nandlab_chip *chip, const char *path, uint32_t offset, uint8_t *data,
                uint32_t *length);
    /* Writes 64 KiB at most. A gap behind the old end reads as zeros. */
    int (*write)(nandlab_chip *chip, const char *path, uint32_t offset, const uint8_t *data,
                 uint32_t length);
    int (*truncate)(nandlab_chip *chip, const char *path, uint32_t length);
    /* Replaces a file or an empty directory at `to`. */
    int (*rename)(nandlab_chip *chip, const char *from, const char *to);
    /* Removes a file or an empty directory. */
    int (*remove)(nandlab_chip *chip, const char *path);
    /* Makes a file durable; "/" is everything. */
    int (*sync)(nandlab_chip *chip, const char *path);
    int (*space)(nandlab_chip *chip, uint32_t *bytes, uint32_t *free);
} nandlab_files;

/* Serves file systems until nandlab ends, and returns the exit status of the program. */
int nandlab_exec_files(const nandlab_files *files);

/* One name of the list that is under way. */
void nandlab_entry(const char *name, bool directory);

/* Says why the call that is open fails. The text goes into nandlab's message. */
void nandlab_explain(const char *why);

#endif
