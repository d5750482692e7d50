/*
 * FatFs (http://elm-chan.org/fsw/ff/) as a program for nandlab, above a translation layer that is a
 * program as well: LAYER names its source. A sector is a page.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#include "ff.h"
#include "diskio.h"
#include "nandlab_exec.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifndef LAYER
#define LAYER "layer.c"
#endif

static nandlab_layer layer;

/* Takes the place of nandlab_exec in the source of the layer. */
static int take_layer(const nandlab_layer *given)
{
    layer = *given;
    return 0;
}

#define nandlab_exec take_layer
#define main layer_main
#include LAYER
#undef main
#undef nandlab_exec

/* The disk of FatFs. */

static nandlab_chip *disk;
static nandlab_geometry shape;
static uint32_t sectors;

static DRESULT refused(const char *why)
{
    nandlab_explain(why);
    return RES_ERROR;
}

DSTATUS disk_status(BYTE drive)
{
    (void)drive;
    return 0;
}

DSTATUS disk_initialize(BYTE drive)
{
    return disk_status(drive);
}

DRESULT disk_read(BYTE drive, BYTE *data, LBA_t sector, UINT count)
{
    (void)drive;
    memset(data, 0, (size_t)count * shape.page);
    for (UINT n = 0; n < count; n++)
        if (layer.read(disk, sector + n, data + (size_t)n * shape.page) != NANDLAB_STATUS_OK)
            return refused("the layer cannot read a sector");
    return RES_OK;
}

DRESULT disk_write(BYTE drive, const BYTE *data, LBA_t sector, UINT count)
{
    (void)drive;
    for (UINT n = 0; n < count; n++)
        if (layer.write(disk, sector + n, data + (size_t)n * shape.page) != NANDLAB_STATUS_OK)
            return refused("the layer cannot write a sector");
    return RES_OK;
}

DRESULT disk_ioctl(BYTE drive, BYTE command, void *buffer)
{
    (void)drive;
    switch (command) {
    case CTRL_SYNC:
        return layer.flush(disk) == NANDLAB_STATUS_OK ? RES_OK : refused("the layer cannot flush");
    case GET_SECTOR_COUNT:
        *(LBA_t *)buffer = sectors;
        return RES_OK;
    case GET_SECTOR_SIZE:
        *(WORD *)buffer = shape.page;
        return RES_OK;
    case GET_BLOCK_SIZE:
        *(DWORD *)buffer = 1;
        return RES_OK;
    default:
        return RES_PARERR;
    }
}

/* 2026-01-01: the same run leaves the same bytes. */
DWORD get_fattime(void)
{
    return (DWORD)(2026 - 1980) << 25 | 1 << 21 | 1 << 16;
}

/* The file system. */

static FATFS volume;

/* `denied` is what FatFs means by FR_DENIED in this call. */
static int error(FRESULT result, int denied)
{
    switch (result) {
    case FR_OK:
        return 0;
    case FR_NO_FILE:
    case FR_NO_PATH:
        return ENOENT;
    case FR_EXIST:
        return EEXIST;
    case FR_INVALID_NAME:
        return EINVAL;
    case FR_DENIED:
        return denied;
    case FR_INT_ERR:
        nandlab_explain("FatFs finds a chain of clusters that ends too early");
        return EIO;
    case FR_NO_FILESYSTEM:
        nandlab_explain("FatFs finds no volume");
        return EIO;
    case FR_TOO_MANY_OPEN_FILES:
        nandlab_explain("too many files are open");
        return EIO;
    default:
        return EIO;
    }
}

static int begin(nandlab_chip *chip, uint32_t (*start)(nandlab_chip *))
{
    disk = chip;
    nandlab_chip_geometry(chip, &shape);
    sectors = start(chip);
    return sectors == 0 ? EIO : 0;
}

static int make_volume(nandlab_chip *chip)
{
    static BYTE work[FF_MAX_SS * 4];
    MKFS_PARM options = {.fmt = FM_FAT | FM_SFD, .n_fat = 2};
    int failed = begin(chip, layer.format);
    if (!failed)
        failed = error(f_mkfs("", &options, work, sizeof work), EIO);
    return failed ? failed : disk_ioctl(0, CTRL_SYNC, NULL) == RES_OK ? 0 : EIO;
}

static int mount_volume(nandlab_chip *chip)
{
    int failed = begin(chip, layer.attach);
    return failed ? failed : error(f_mount(&volume, "", 1), EIO);
}

static int stat_path(nandlab_chip *chip, const char *path, bool *directory, uint32_t *length)
{
    (void)chip;
    FILINFO info = {0};
    *length = 0;
    *directory = true;
    /* FatFs has no entry for the root. */
    if (strcmp(path, "/") == 0)
        return 0;
    FRESULT result = f_stat(path, &info);
    *directory = info.fattrib & AM_DIR;
    *length = info.fsize;
    return error(result, EIO);
}

static int list_path(nandlab_chip *chip, const char *path)
{
    (void)chip;
    DIR dir;
    FILINFO info;
    FRESULT result = f_opendir(&dir, path);
    if (result != FR_OK)
        return error(result, EIO);
    while ((result = f_readdir(&dir, &info)) == FR_OK && info.fname[0])
        nandlab_entry(info.fname, info.fattrib & AM_DIR);
    f_closedir(&dir);
    return error(result, EIO);
}

static int create(nandlab_chip *chip, const char *path, bool directory)
{
    (void)chip;
    FIL file;
    if (directory)
        return error(f_mkdir(path), ENOSPC);
    FRESULT result = f_open(&file, path, FA_WRITE | FA_CREATE_NEW);
    return error(result == FR_OK ? f_close(&file) : result, ENOSPC);
}

static int read_file(nandlab_chip *chip, const char *path, uint32_t offset, uint8_t *data,
                     uint32_t *length)
{
    (void)chip;
    FIL file;
    UINT done = 0;
    FRESULT result = f_open(&file, path, FA_READ);
    if (result != FR_OK)
        return error(result, EISDIR);
    if (offset < f_size(&file) && (result = f_lseek(&file, offset)) == FR_OK)
        result = f_read(&file, data, *length, &done);
    f_close(&file);
    *length = done;
    return error(result, EIO);
}

/* Writes `length` bytes, zeros without `data`, at the end or before it. */
static FRESULT put(FIL *file, uint32_t offset, const uint8_t *data, uint32_t length)
{
    static const uint8_t zeros[512];
    FRESULT result = f_lseek(file, offset);
    while (result == FR_OK && length > 0) {
        UINT part = data || length < sizeof zeros ? length : sizeof zeros, done;
        result = f_write(file, data ? data : zeros, part, &done);
        /* FatFs says in this way that the volume is full. */
        if (result == FR_OK && done < part)
            return FR_DENIED;
        length -= part;
    }
    return result;
}

/* Writes behind zeros up to `offset`. A call that fits nowhere changes no length. */
static int change(const char *path, uint32_t offset, const uint8_t *data, uint32_t length)
{
    FIL file;
    FRESULT result = f_open(&file, path, FA_WRITE);
    if (result != FR_OK)
        return error(result, EISDIR);
    FSIZE_t before = f_size(&file);
    if (before < offset)
        result = put(&file, before, NULL, offset - before);
    if (result == FR_OK)
        result = put(&file, offset, data, length);
    if (result == FR_DENIED && f_lseek(&file, before) == FR_OK)
        f_truncate(&file);
    FRESULT closed = f_close(&file);
    return error(result != FR_OK ? result : closed, ENOSPC);
}

static int write_file(nandlab_chip *chip, const char *path, uint32_t offset, const uint8_t *data,
                      uint32_t length)
{
    (void)chip;
    return change(path, offset, data, length);
}

static int truncate_file(nandlab_chip *chip, const char *path, uint32_t length)
{
    (void)chip;
    FIL file;
    FRESULT result = f_open(&file, path, FA_WRITE);
    if (result != FR_OK)
        return error(result, EISDIR);
    bool longer = length > f_size(&file);
    if (!longer && (result = f_lseek(&file, length)) == FR_OK)
        result = f_truncate(&file);
    FRESULT closed = f_close(&file);
    int failed = error(result != FR_OK ? result : closed, EIO);
    return failed || !longer ? failed : change(path, length, NULL, 0);
}

/* f_rename replaces nothing: what lies at the new name goes first, and a cut may come between. */
static int rename_path(nandlab_chip *chip, const char *from, const char *to)
{
    (void)chip;
    FRESULT result = f_rename(from, to);
    if (result == FR_EXIST && (result = f_unlink(to)) == FR_OK)
        result = f_rename(from, to);
    return error(result, ENOTEMPTY);
}

static int remove_path(nandlab_chip *chip, const char *path)
{
    (void)chip;
    return error(f_unlink(path), ENOTEMPTY);
}

/* Every call has closed its file. */
static int sync_path(nandlab_chip *chip, const char *path)
{
    (void)chip, (void)path;
    return disk_ioctl(0, CTRL_SYNC, NULL) == RES_OK ? 0 : EIO;
}

static int space(nandlab_chip *chip, uint32_t *bytes, uint32_t *free)
{
    (void)chip;
    FATFS *found;
    DWORD clusters;
    FRESULT result = f_getfree("", &clusters, &found);
    uint32_t cluster = volume.csize * shape.page;
    *bytes = (volume.n_fatent - 2) * cluster;
    *free = clusters * cluster;
    return error(result, EIO);
}

int main(void)
{
    static const nandlab_files fatfs = {
        .format = make_volume, .mount = mount_volume, .stat = stat_path, .list = list_path,
        .create = create, .read = read_file, .write = write_file, .truncate = truncate_file,
        .rename = rename_path, .remove = remove_path, .sync = sync_path, .space = space,
    };
    layer_main();
    return nandlab_exec_files(&fatfs);
}
