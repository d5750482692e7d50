/*
 * littlefs (https://github.com/littlefs-project/littlefs) as a program for nandlab: a block is an
 * erase block, a unit to read or program is a page.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#include "lfs.h"
#include "littlefs_glue.h"
#include "nandlab_exec.h"
#include <errno.h>
#include <string.h>

static struct lfs_config config;
static lfs_t lfs;

/* littlefs numbers most of its errors as Linux does. */
static int error(int result)
{
    if (result >= 0)
        return 0;
    if (result == LFS_ERR_CORRUPT)
        nandlab_explain("littlefs finds corrupt blocks");
    return result == LFS_ERR_CORRUPT ? EIO : -result;
}

static int format(nandlab_chip *chip)
{
    config = littlefs_on(chip);
    return error(lfs_format(&lfs, &config));
}

static int mount(nandlab_chip *chip)
{
    config = littlefs_on(chip);
    return error(lfs_mount(&lfs, &config));
}

static int stat(nandlab_chip *chip, const char *path, bool *directory, uint32_t *length)
{
    (void)chip;
    struct lfs_info info = {0};
    int result = lfs_stat(&lfs, path, &info);
    *directory = info.type == LFS_TYPE_DIR;
    *length = info.size;
    return error(result);
}

static int list(nandlab_chip *chip, const char *path)
{
    (void)chip;
    lfs_dir_t dir;
    struct lfs_info info;
    int result = lfs_dir_open(&lfs, &dir, path);
    if (result < 0)
        return error(result);
    while ((result = lfs_dir_read(&lfs, &dir, &info)) > 0)
        if (strcmp(info.name, ".") != 0 && strcmp(info.name, "..") != 0)
            nandlab_entry(info.name, info.type == LFS_TYPE_DIR);
    lfs_dir_close(&lfs, &dir);
    return error(result);
}

/* Opens a file, does one thing with it, and closes it: a close makes a change durable. */
static int with(const char *path, int flags, int (*what)(lfs_file_t *, void *), void *context)
{
    lfs_file_t file;
    int result = lfs_file_open(&lfs, &file, path, flags);
    if (result < 0)
        return error(result);
    result = what(&file, context);
    int closed = lfs_file_close(&lfs, &file);
    return error(result < 0 ? result : closed);
}

struct part {
    uint32_t offset, length;
    uint8_t *data;
};

static int nothing(lfs_file_t *file, void *context)
{
    (void)file, (void)context;
    return 0;
}

static int read_part(lfs_file_t *file, void *context)
{
    struct part *part = context;
    part->length = part->offset < (uint32_t)lfs_file_size(&lfs, file) ? part->length : 0;
    lfs_soff_t at = lfs_file_seek(&lfs, file, part->offset, LFS_SEEK_SET);
    lfs_ssize_t result = at < 0 ? at : lfs_file_read(&lfs, file, part->data, part->length);
    part->length = result < 0 ? 0 : result;
    return result;
}

static int write_part(lfs_file_t *file, void *context)
{
    struct part *part = context;
    lfs_soff_t at = lfs_file_seek(&lfs, file, part->offset, LFS_SEEK_SET);
    return at < 0 ? at : lfs_file_write(&lfs, file, part->data, part->length);
}

static int cut_off(lfs_file_t *file, void *context)
{
    return lfs_file_truncate(&lfs, file, *(uint32_t *)context);
}

static int create(nandlab_chip *chip, const char *path, bool directory)
{
    (void)chip;
    if (directory)
        return error(lfs_mkdir(&lfs, path));
    return with(path, LFS_O_WRONLY | LFS_O_CREAT | LFS_O_EXCL, nothing, NULL);
}

static int read_file(nandlab_chip *chip, const char *path, uint32_t offset, uint8_t *data,
                     uint32_t *length)
{
    (void)chip;
    struct part part = {offset, *length, data};
    int result = with(path, LFS_O_RDONLY, read_part, &part);
    *length = part.length;
    return result;
}

static int write_file(nandlab_chip *chip, const char *path, uint32_t offset, const uint8_t *data,
                      uint32_t length)
{
    (void)chip;
    struct part part = {offset, length, (uint8_t *)data};
    return with(path, LFS_O_WRONLY, write_part, &part);
}

static int truncate_file(nandlab_chip *chip, const char *path, uint32_t length)
{
    (void)chip;
    return with(path, LFS_O_WRONLY, cut_off, &length);
}

static int rename_path(nandlab_chip *chip, const char *from, const char *to)
{
    (void)chip;
    return error(lfs_rename(&lfs, from, to));
}

static int remove_path(nandlab_chip *chip, const char *path)
{
    (void)chip;
    return error(lfs_remove(&lfs, path));
}

/* Every call has closed its file. */
static int sync_path(nandlab_chip *chip, const char *path)
{
    (void)path;
    return nandlab_sync(chip) == NANDLAB_STATUS_OK ? 0 : EIO;
}

static int space(nandlab_chip *chip, uint32_t *bytes, uint32_t *free)
{
    (void)chip;
    lfs_ssize_t used = lfs_fs_size(&lfs);
    if (used < 0)
        return error(used);
    uint32_t blocks = config.block_count;
    *bytes = blocks * config.block_size;
    *free = (uint32_t)used < blocks ? (blocks - used) * config.block_size : 0;
    return 0;
}

int main(void)
{
    static const nandlab_files littlefs = {
        .format = format, .mount = mount, .stat = stat, .list = list, .create = create,
        .read = read_file, .write = write_file, .truncate = truncate_file,
        .rename = rename_path, .remove = remove_path, .sync = sync_path, .space = space,
    };
    return nandlab_exec_files(&littlefs);
}
