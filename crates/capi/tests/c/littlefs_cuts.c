/* littlefs through power cuts at every chip operation of a run, and of some recoveries. At each state
 * littlefs must mount, hold what a close had promised by then, and go on. Prints what it found; 0
 * violations is success. */
#include "littlefs_glue.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES 4
#define ROUNDS 90
#define WORDS 6
#define WORDS_AGAIN 2
#define RECOVERIES 8
#define BYTES_MAX 3000

/* A close that returned: from then on the file has this version or a later one. */
struct promise {
    uint64_t time;
    int file, version;
};

static struct promise promises[ROUNDS];
static unsigned states, second_cuts, violations;

static void must(int outcome, const char *what) {
    if (outcome < 0) {
        printf("%s: %d (%s)\n", what, outcome, nandlab_last_error());
        exit(2);
    }
}

static void name_of(int file, char name[16]) {
    snprintf(name, 16, "file %d", file);
}

/* Length and bytes of a version follow from its number. */
static lfs_size_t length_of(int version) {
    return 200 + (lfs_size_t)version * 977 % (BYTES_MAX - 200);
}

static void fill(uint8_t *bytes, int file, int version) {
    for (lfs_size_t at = 0; at < length_of(version); at++)
        bytes[at] = (uint8_t)(version * 31 + file * 7 + at * (at >> 8 | 1));
    bytes[0] = (uint8_t)version;
}

/* Replaces a file with a version. */
static int write_version(lfs_t *lfs, int file, int version) {
    static uint8_t bytes[BYTES_MAX];
    char name[16];
    lfs_file_t handle;
    fill(bytes, file, version);
    name_of(file, name);
    int error = lfs_file_open(lfs, &handle, name, LFS_O_WRONLY | LFS_O_CREAT | LFS_O_TRUNC);
    if (error)
        return error;
    lfs_ssize_t written = lfs_file_write(lfs, &handle, bytes, length_of(version));
    int closed = lfs_file_close(lfs, &handle);
    return written < 0 ? (int)written : closed;
}

/* The version that a file has; 0 if there is none yet, negative if it is damaged. */
static int version_of(lfs_t *lfs, int file) {
    static uint8_t bytes[BYTES_MAX], expected[BYTES_MAX];
    char name[16];
    lfs_file_t handle;
    name_of(file, name);
    int error = lfs_file_open(lfs, &handle, name, LFS_O_RDONLY);
    if (error)
        return error == LFS_ERR_NOENT ? 0 : error;
    lfs_ssize_t length = lfs_file_read(lfs, &handle, bytes, BYTES_MAX);
    lfs_file_close(lfs, &handle);
    if (length <= 0)
        return (int)length; /* littlefs makes a file empty before it writes it. */
    int version = bytes[0];
    fill(expected, file, version);
    bool same = (lfs_size_t)length == length_of(version) && !memcmp(bytes, expected, length);
    return same ? version : LFS_ERR_CORRUPT;
}

static void run(nandlab_chip *chip, lfs_t *lfs) {
    for (int round = 0; round < ROUNDS; round++) {
        int file = round % FILES;
        promises[round].file = file;
        promises[round].version = round + 1;
        nandlab_now(chip, &promises[round].time);
        must(write_version(lfs, file, round + 1), "write");
#ifndef PROMISE_EARLY
        nandlab_now(chip, &promises[round].time);
#endif
    }
}

/* Why the files are wrong after a cut at a moment; none if they are not. */
static const char *compare(lfs_t *lfs, uint64_t moment) {
    for (int file = 0; file < FILES; file++) {
        int version = version_of(lfs, file);
        if (version < 0)
            return "a file is damaged";
        for (int i = 0; i < ROUNDS; i++)
            if (promises[i].file == file && promises[i].time <= moment
                && version < promises[i].version)
                return "a closed version is lost";
    }
    return NULL;
}

/* Why a state is wrong; none if littlefs mounts, holds what was promised, and goes on. */
static const char *judge(nandlab_chip *chip, uint64_t moment) {
    struct lfs_config config = littlefs_on(chip);
    lfs_t lfs;
    if (lfs_mount(&lfs, &config))
        return "does not mount";
    const char *why = compare(&lfs, moment);
    if (!why && write_version(&lfs, 0, 100))
        why = "takes no more writes";
    lfs_unmount(&lfs);
    if (why)
        return why;
    if (lfs_mount(&lfs, &config))
        return "does not mount again";
    if (version_of(&lfs, 0) != 100)
        why = "does not keep a later write";
    lfs_unmount(&lfs);
    return why;
}

static void look_at_all(nandlab_chip *before, nandlab_log *log, unsigned words, uint64_t *promised);

/* Judges a state. `promised` is the moment of the first cut, if this is the second. */
static void look(nandlab_chip *before, nandlab_log *log, nandlab_cut cut, uint64_t *promised) {
    nandlab_chip *chip, *recovering;
    nandlab_log *recovery;
    uint64_t moment;
    nandlab_status status = nandlab_log_cut(before, log, &cut, &chip, &moment);
    if (status == NANDLAB_STATUS_NO_MOMENT)
        return;
    must(-(int)status, "cut");
    states++;
    second_cuts += promised != NULL;
    bool again = !promised && states % RECOVERIES == 0;
    if (again) {
        must(-(int)nandlab_chip_fork(chip, &recovering), "fork");
        must(-(int)nandlab_log_start(chip), "log");
    }
    const char *why = judge(chip, promised ? *promised : moment);
    if (why && violations++ < 3)
        printf("%s %zu, phase %u, word %u: %s\n", promised ? "then operation" : "operation",
               cut.operation, cut.phase, cut.word, why);
    if (again) {
        must(-(int)nandlab_log_take(chip, &recovery), "take");
        look_at_all(recovering, recovery, WORDS_AGAIN, &moment);
        nandlab_log_free(recovery);
        nandlab_chip_free(recovering);
    }
    nandlab_chip_free(chip);
}

/* Cuts the power before, within and after each operation of a log. */
static void look_at_all(nandlab_chip *before, nandlab_log *log, unsigned words,
                        uint64_t *promised) {
    size_t operations;
    must(-(int)nandlab_log_length(log, &operations), "length");
    for (size_t at = 0; at < operations; at++) {
        look(before, log, (nandlab_cut){at, NANDLAB_CUT_BEFORE, 0, 1}, promised);
        for (uint32_t word = 0; word < words; word++)
            look(before, log, (nandlab_cut){at, NANDLAB_CUT_TORN, word, 1}, promised);
        look(before, log, (nandlab_cut){at, NANDLAB_CUT_AFTER, 0, 1}, promised);
    }
}

int main(void) {
    nandlab_description description = {
        .preset = "small-block-64MiB", .pages_per_block = 8, .blocks = 64};
    nandlab_chip *chip, *before;
    nandlab_log *log;
    size_t operations;
    lfs_t lfs;
    must(-(int)nandlab_chip_new(&description, &chip), "chip");
    struct lfs_config config = littlefs_on(chip);
    must(lfs_format(&lfs, &config), "format");
    must(lfs_mount(&lfs, &config), "mount");
    must(-(int)nandlab_sync(chip), "sync");
    must(-(int)nandlab_chip_fork(chip, &before), "fork");
    must(-(int)nandlab_log_start(chip), "log");
    run(chip, &lfs);
    must(-(int)nandlab_log_take(chip, &log), "take");
    must(-(int)nandlab_log_length(log, &operations), "length");
    look_at_all(before, log, WORDS, NULL);
    printf("operations %zu\nstates %u\nof them after a second cut %u\nrefused programs %u\n"
           "violations %u\n", operations, states, second_cuts, refused_programs, violations);
    lfs_unmount(&lfs);
    nandlab_log_free(log);
    nandlab_chip_free(before);
    nandlab_chip_free(chip);
    return violations > 0;
}
