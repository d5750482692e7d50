/*
 * nandlab: a NAND chip in virtual time, and every state that a power cut can leave.
 *
 * Every function that returns a nandlab_status leaves the text of a failure for nandlab_last_error.
 * Handles come from this library; one thread at a time uses a handle. Pointers to bytes cover the
 * length beside them and do not overlap; with length 0 they may be null.
 *
 * Made by cbindgen from crates/capi. Do not edit.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#ifndef NANDLAB_H
#define NANDLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Kind of an operation: a page program.
 */
#define NANDLAB_PROGRAM 0

/**
 * Kind of an operation: a copy inside the array.
 */
#define NANDLAB_COPY 1

/**
 * Kind of an operation: a block erase.
 */
#define NANDLAB_ERASE 2

/**
 * Kind of an operation: a bad-block mark.
 */
#define NANDLAB_MARK_BAD 3

/**
 * Kind of an operation: a line of a memory beside the chip. A chip of this interface has none.
 */
#define NANDLAB_LINE 4

/**
 * Phase of a cut: the operation has not begun.
 */
#define NANDLAB_CUT_BEFORE 0

/**
 * Phase of a cut: the operation is under way. It ends undone, torn or done.
 */
#define NANDLAB_CUT_TORN 1

/**
 * Phase of a cut: the operation is done. The call may or may not have returned.
 */
#define NANDLAB_CUT_AFTER 2

/**
 * The outcome of a call. Zero is success.
 */
typedef enum nandlab_status {
  /**
   * The call did what it was asked.
   */
  NANDLAB_STATUS_OK = 0,
  /**
   * A null pointer, or a value that the function does not take.
   */
  NANDLAB_STATUS_ARGUMENT = 1,
  /**
   * More bit errors than the error correction can repair, or a torn page. The buffers hold the
   * bytes as read.
   */
  NANDLAB_STATUS_UNCORRECTABLE = 2,
  /**
   * The chip reported a failed program.
   */
  NANDLAB_STATUS_PROGRAM_FAILED = 3,
  /**
   * The chip reported a failed erase.
   */
  NANDLAB_STATUS_ERASE_FAILED = 4,
  /**
   * The block is marked bad.
   */
  NANDLAB_STATUS_BAD_BLOCK = 5,
  /**
   * The power is off.
   */
  NANDLAB_STATUS_POWER_CUT = 6,
  /**
   * A page, a block or an operation outside the chip or the log.
   */
  NANDLAB_STATUS_OUT_OF_RANGE = 7,
  /**
   * A buffer whose length does not fit the page or its spare bytes.
   */
  NANDLAB_STATUS_LENGTH = 8,
  /**
   * The caller broke a rule of the data sheet: a program of a page that is not erased or that a
   * cut has torn, or pages out of order.
   */
  NANDLAB_STATUS_ILLEGAL = 9,
  /**
   * The chip keeps no log.
   */
  NANDLAB_STATUS_NO_LOG = 10,
  /**
   * The log does not have this moment: the operation takes no time and cannot be torn, or
   * another one destroyed what it needed.
   */
  NANDLAB_STATUS_NO_MOMENT = 11,
  /**
   * A defect of nandlab. Please report the text of `nandlab_last_error`.
   */
  NANDLAB_STATUS_INTERNAL = 12,
} nandlab_status;

/**
 * A NAND chip in virtual time.
 */
typedef struct nandlab_chip nandlab_chip;

/**
 * The operations of a run, with their times.
 */
typedef struct nandlab_log nandlab_log;

/**
 * What a chip is. Zero stands for the preset's value.
 */
typedef struct nandlab_description {
  /**
   * The name of a preset, for times, rules and reliability: "slc-2k", "small-block-64MiB",
   * "nandsim-jftl", "onenand-kfg1g16u2m", "emmc-16GiB" or "ssd-512GiB".
   */
  const char *preset;
  /**
   * Data bytes of a page.
   */
  uint32_t page;
  /**
   * Bytes of a page's spare area that the caller may use.
   */
  uint32_t oob;
  /**
   * Pages of an erase block.
   */
  uint32_t pages_per_block;
  /**
   * Erase blocks of the whole chip.
   */
  uint32_t blocks;
  /**
   * Dies that work independently.
   */
  uint32_t dies;
  /**
   * Seed of failures and bit errors.
   */
  uint64_t seed;
  /**
   * Bits that the error correction repairs in each 512 bytes.
   */
  uint16_t ecc_bits;
  /**
   * Probability that a bit is wrong in a read, before the error correction.
   */
  double bit_errors;
  /**
   * Probability that a program fails.
   */
  double program_fail;
  /**
   * Probability that an erase fails.
   */
  double erase_fail;
  /**
   * Share of the blocks that are bad from the factory.
   */
  double factory_bad;
} nandlab_description;

/**
 * The shape of a chip.
 */
typedef struct nandlab_geometry {
  /**
   * Data bytes of a page.
   */
  uint32_t page;
  /**
   * Bytes of a page's spare area that the caller may use.
   */
  uint32_t oob;
  /**
   * Pages of an erase block.
   */
  uint32_t pages_per_block;
  /**
   * Erase blocks of the whole chip.
   */
  uint32_t blocks;
  /**
   * Dies that work independently. Block `b` lies on die `b % dies`.
   */
  uint32_t dies;
} nandlab_geometry;

/**
 * Operations since the chip was made. A fork goes on from the counts of its original.
 */
typedef struct nandlab_counts {
  /**
   * Page reads with data.
   */
  uint64_t reads;
  /**
   * Reads of spare bytes alone.
   */
  uint64_t oob_reads;
  /**
   * Page programs with data, without copies.
   */
  uint64_t programs;
  /**
   * Programs of spare bytes alone.
   */
  uint64_t oob_programs;
  /**
   * Copies inside the array.
   */
  uint64_t copies;
  /**
   * Block erases, failed ones included.
   */
  uint64_t erases;
  /**
   * Bits that the error correction repaired.
   */
  uint64_t corrected_bits;
  /**
   * Reads beyond correction, torn pages included.
   */
  uint64_t uncorrectable;
  /**
   * Failed programs and erases.
   */
  uint64_t failures;
} nandlab_counts;

/**
 * An operation of a log.
 */
typedef struct nandlab_operation {
  /**
   * NANDLAB_PROGRAM, NANDLAB_COPY, NANDLAB_ERASE, NANDLAB_MARK_BAD or NANDLAB_LINE.
   */
  uint32_t kind;
  /**
   * The block that it changes.
   */
  uint32_t block;
  /**
   * The page that it changes; of an erase or a mark the block's first.
   */
  uint32_t page;
  /**
   * The page that is copied; otherwise `page`.
   */
  uint32_t from;
  /**
   * When it took hold of its die, in nanoseconds.
   */
  uint64_t start;
  /**
   * When it was on the medium, in nanoseconds.
   */
  uint64_t end;
} nandlab_operation;

/**
 * One state that a power cut of a run can leave.
 */
typedef struct nandlab_cut {
  /**
   * The operation, by its place in the log.
   */
  size_t operation;
  /**
   * NANDLAB_CUT_BEFORE, NANDLAB_CUT_TORN or NANDLAB_CUT_AFTER.
   */
  uint32_t phase;
  /**
   * Numbers the states of one phase of one operation. It chooses the moment within the
   * operation, and what becomes of all operations under way.
   */
  uint32_t word;
  /**
   * Varies the torn bits of all states.
   */
  uint64_t seed;
} nandlab_cut;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The text of the last failure on this thread; empty if there was none. It stays valid until the
 * next call on this thread that fails.
 */
const char *nandlab_last_error(void);

/**
 * Makes a chip, fresh from the factory, at time zero of its own clock. Free it with
 * `nandlab_chip_free`.
 */
enum nandlab_status nandlab_chip_new(const struct nandlab_description *description,
                                     struct nandlab_chip **chip);

/**
 * Frees a chip. Null is allowed.
 */
void nandlab_chip_free(struct nandlab_chip *chip);

/**
 * Makes an independent copy of a chip, a snapshot. Page contents are shared until one side writes.
 * The copy has no log.
 */
enum nandlab_status nandlab_chip_fork(const struct nandlab_chip *chip, struct nandlab_chip **fork);

/**
 * Returns the shape of a chip.
 */
enum nandlab_status nandlab_chip_geometry(const struct nandlab_chip *chip,
                                          struct nandlab_geometry *geometry);

/**
 * Reads a page. `data` has the length of a page, or 0 to read spare bytes alone; `oob` has at most
 * the spare bytes. An erased page reads as 0xFF. `corrected` takes the most bits that the error
 * correction repaired in a codeword; it may be null.
 */
enum nandlab_status nandlab_read(struct nandlab_chip *chip,
                                 uint32_t page,
                                 uint8_t *data,
                                 size_t data_length,
                                 uint8_t *oob,
                                 size_t oob_length,
                                 uint16_t *corrected);

/**
 * Programs a page. `data` has the length of a page, or 0 to program spare bytes alone; spare bytes
 * behind `oob_length` stay erased. The program is durable once `nandlab_sync` has returned, or
 * once an operation behind a fence or on the same die has begun.
 */
enum nandlab_status nandlab_program(struct nandlab_chip *chip,
                                    uint32_t page,
                                    const uint8_t *data,
                                    size_t data_length,
                                    const uint8_t *oob,
                                    size_t oob_length);

/**
 * Programs page `to` with the data of page `from`, inside the chip. The spare bytes of `to` are
 * those of `from` for the length of `head`, which receives them, then `tail`.
 */
enum nandlab_status nandlab_copy(struct nandlab_chip *chip,
                                 uint32_t from,
                                 uint32_t to,
                                 uint8_t *head,
                                 size_t head_length,
                                 const uint8_t *tail,
                                 size_t tail_length);

/**
 * Erases a block. The erase is durable as a program is.
 */
enum nandlab_status nandlab_erase(struct nandlab_chip *chip, uint32_t block);

/**
 * Returns whether a block is marked bad.
 */
enum nandlab_status nandlab_is_bad(struct nandlab_chip *chip, uint32_t block, bool *bad);

/**
 * Marks a block bad for good. The mark is durable on return.
 */
enum nandlab_status nandlab_mark_bad(struct nandlab_chip *chip, uint32_t block);

/**
 * Waits until everything issued is durable.
 */
enum nandlab_status nandlab_sync(struct nandlab_chip *chip);

/**
 * Makes the next operation begin only when everything issued so far has completed. The caller does
 * not wait.
 */
enum nandlab_status nandlab_fence(struct nandlab_chip *chip);

/**
 * Returns the virtual time of a chip, in nanoseconds.
 */
enum nandlab_status nandlab_now(const struct nandlab_chip *chip, uint64_t *now);

/**
 * Spends virtual time: the firmware computes, or waits.
 */
enum nandlab_status nandlab_advance(struct nandlab_chip *chip, uint64_t nanoseconds);

/**
 * Returns how many operations a chip has done.
 */
enum nandlab_status nandlab_chip_counts(const struct nandlab_chip *chip,
                                        struct nandlab_counts *counts);

/**
 * Switches the power off after that many more operations, reads and syncs included; 0 is now. All
 * operations then fail with NANDLAB_STATUS_POWER_CUT until `nandlab_power_on`. The cut falls
 * between two operations; for torn ones see `nandlab_log_cut`.
 */
enum nandlab_status nandlab_power_off(struct nandlab_chip *chip, uint64_t after);

/**
 * Switches the power on again.
 */
enum nandlab_status nandlab_power_on(struct nandlab_chip *chip);

/**
 * Makes a chip keep every operation that changes it from now on. A log already kept goes on.
 */
enum nandlab_status nandlab_log_start(struct nandlab_chip *chip);

/**
 * Takes the log of a chip, which then keeps none. Free it with `nandlab_log_free`.
 */
enum nandlab_status nandlab_log_take(struct nandlab_chip *chip, struct nandlab_log **log);

/**
 * Frees a log. Null is allowed.
 */
void nandlab_log_free(struct nandlab_log *log);

/**
 * Returns how many operations a log holds.
 */
enum nandlab_status nandlab_log_length(const struct nandlab_log *log, size_t *length);

/**
 * Returns an operation of a log.
 */
enum nandlab_status nandlab_log_get(const struct nandlab_log *log,
                                    size_t index,
                                    struct nandlab_operation *result);

/**
 * Makes the chip as a power cut leaves it, powered up again. `before` is a fork from the moment of
 * `nandlab_log_start`; it does not change. `moment` takes the time of the cut, and may be null:
 * what a sync acknowledged by then must be there.
 */
enum nandlab_status nandlab_log_cut(const struct nandlab_chip *before,
                                    const struct nandlab_log *log,
                                    const struct nandlab_cut *cut,
                                    struct nandlab_chip **chip,
                                    uint64_t *moment);

/**
 * Does the operations of a log from `first` up to, but not including, `end` on a chip, whole. A
 * program or an erase that failed in the run fails again and does not stop the replay.
 */
enum nandlab_status nandlab_log_replay(struct nandlab_chip *chip,
                                       const struct nandlab_log *log,
                                       size_t first,
                                       size_t end);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* NANDLAB_H */
