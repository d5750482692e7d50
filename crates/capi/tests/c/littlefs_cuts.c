/* littlefs through power cuts. At each state littlefs must mount, hold what a close had promised by
 * then, and go on. */
#include "cuts.h"
#include "littlefs_glue.h"
#include <stdio.h>
#include <string.h>

#define FILES 4
#define ROUNDS 90
#define BYTES_MAX 3000

static lfs_t lfs;

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
static int write_version(int file, int version) {
    static uint8_t bytes[BYTES_MAX];
    char name[16];
    lfs_file_t handle;
    fill(bytes, file, version);
    name_of(file, name);
    int error = lfs_file_open(&lfs, &handle, name, LFS_O_WRONLY | LFS_O_CREAT | LFS_O_TRUNC);
    if (error)
        return error;
    lfs_ssize_t written = lfs_file_write(&lfs, &handle, bytes, length_of(version));
    int closed = lfs_file_close(&lfs, &handle);
    return written < 0 ? (int)written : closed;
}

/* The version that a file has; 0 if there is none yet, negative if it is damaged. */
static int version_of(int file) {
    static uint8_t bytes[BYTES_MAX], expected[BYTES_MAX];
    char name[16];
    lfs_file_t handle;
    name_of(file, name);
    int error = lfs_file_open(&lfs, &handle, name, LFS_O_RDONLY);
    if (error)
        return error == LFS_ERR_NOENT ? 0 : error;
    lfs_ssize_t length = lfs_file_read(&lfs, &handle, bytes, BYTES_MAX);
    lfs_file_close(&lfs, &handle);
    if (length <= 0)
        return (int)length; /* littlefs makes a file empty before it writes it. */
    int version = bytes[0];
    fill(expected, file, version);
    bool same = (lfs_size_t)length == length_of(version) && !memcmp(bytes, expected, length);
    return same ? version : LFS_ERR_CORRUPT;
}

static void run(nandlab_chip *chip) {
    for (int round = 0; round < ROUNDS; round++) {
        int file = round % FILES;
#ifdef PROMISE_EARLY
        promise(chip, file, round + 1);
#endif
        must(write_version(file, round + 1), "write");
#ifndef PROMISE_EARLY
        promise(chip, file, round + 1);
#endif
    }
    lfs_unmount(&lfs);
}

/* Why the files are wrong after a cut at a moment; none if they are not. */
static const char *compare(uint64_t moment) {
    for (int file = 0; file < FILES; file++) {
        int version = version_of(file);
        if (version < 0)
            return "a file is damaged";
        if (version < promised(file, moment))
            return "a closed version is lost";
    }
    return NULL;
}

/* Why a state is wrong; none if littlefs mounts, holds what was promised, and goes on. */
static const char *judge(nandlab_chip *chip, uint64_t moment) {
    struct lfs_config config = littlefs_on(chip);
    if (lfs_mount(&lfs, &config))
        return "does not mount";
    const char *why = compare(moment);
    if (!why && write_version(0, 100))
        why = "takes no more writes";
    lfs_unmount(&lfs);
    if (why)
        return why;
    if (lfs_mount(&lfs, &config))
        return "does not mount again";
    if (version_of(0) != 100)
        why = "does not keep a later write";
    lfs_unmount(&lfs);
    return why;
}

int main(void) {
    nandlab_description description = {
        .preset = "small-block-64MiB", .pages_per_block = 8, .blocks = 64};
    struct subject subject = {run, judge, &refused_programs};
    nandlab_chip *chip;
    must(-(int)nandlab_chip_new(&description, &chip), "chip");
    struct lfs_config config = littlefs_on(chip);
    must(lfs_format(&lfs, &config), "format");
    must(lfs_mount(&lfs, &config), "mount");
    unsigned violations = cut_everywhere(chip, &subject);
    nandlab_chip_free(chip);
    return violations > 0;
}
