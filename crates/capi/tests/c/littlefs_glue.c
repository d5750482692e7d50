/* littlefs on a chip of nandlab: a block is an erase block, a unit to read or program is a page. */
#include "littlefs_glue.h"

unsigned refused_programs;

/* LFS_ERR_CORRUPT makes littlefs take the page for unfinished, or take another block. */
static int answer(nandlab_status status) {
    /* A page that a cut has torn may look erased to littlefs, and the chip refuses to program it. */
    refused_programs += status == NANDLAB_STATUS_ILLEGAL;
    switch (status) {
    case NANDLAB_STATUS_OK:
        return LFS_ERR_OK;
    case NANDLAB_STATUS_UNCORRECTABLE:
    case NANDLAB_STATUS_PROGRAM_FAILED:
    case NANDLAB_STATUS_ERASE_FAILED:
    case NANDLAB_STATUS_BAD_BLOCK:
#ifndef REFUSED_IS_FATAL
    case NANDLAB_STATUS_ILLEGAL:
#endif
        return LFS_ERR_CORRUPT;
    default:
        return LFS_ERR_IO;
    }
}

static lfs_block_t page_at(const struct lfs_config *c, lfs_block_t block, lfs_off_t off) {
    return (block * c->block_size + off) / c->prog_size;
}

static int glue_read(const struct lfs_config *c, lfs_block_t block, lfs_off_t off, void *buffer,
                     lfs_size_t size) {
    int error = LFS_ERR_OK;
    for (lfs_size_t at = 0; at < size && !error; at += c->read_size)
        error = answer(nandlab_read(c->context, page_at(c, block, off + at), (uint8_t *)buffer + at,
                                    c->read_size, NULL, 0, NULL));
    return error;
}

static int glue_prog(const struct lfs_config *c, lfs_block_t block, lfs_off_t off,
                     const void *buffer, lfs_size_t size) {
    int error = LFS_ERR_OK;
    for (lfs_size_t at = 0; at < size && !error; at += c->prog_size)
        error = answer(nandlab_program(c->context, page_at(c, block, off + at),
                                       (const uint8_t *)buffer + at, c->prog_size, NULL, 0));
    return error;
}

static int glue_erase(const struct lfs_config *c, lfs_block_t block) {
    return answer(nandlab_erase(c->context, block));
}

static int glue_sync(const struct lfs_config *c) {
    return answer(nandlab_sync(c->context));
}

struct lfs_config littlefs_on(nandlab_chip *chip) {
    nandlab_geometry g;
    nandlab_chip_geometry(chip, &g);
    return (struct lfs_config){
        .context = chip, .read = glue_read, .prog = glue_prog,
        .erase = glue_erase, .sync = glue_sync,
        .read_size = g.page, .prog_size = g.page, .cache_size = g.page,
        .block_size = g.page * g.pages_per_block, .block_count = g.blocks,
        .block_cycles = 100, .lookahead_size = 16,
    };
}
