/* A log of records above Zephyr's flash interface, through power cuts. A value that a put has
 * acknowledged must be there after every cut, and the log must go on. */
#include "cuts.h"
#include "zephyr_glue.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS 4
#define PUTS 150
#define UNIT 512
#define LATER 1000

/* A record fills a write block. The newest record of a key has its value. */
struct record {
    uint32_t sequence, key, value;
    uint8_t filler[UNIT - 16];
    uint32_t check;
};

/* Sectors are filled in a circle. The sector behind the head holds nothing that is needed. */
static struct log {
    const struct device *dev;
    uint32_t sectors, records, sector, next, sequence;
    struct {
        uint32_t sequence, value, sector;
    } keys[KEYS];
} store;

static uint32_t check_of(const struct record *record) {
    const uint8_t *bytes = (const uint8_t *)record;
    uint32_t hash = 2166136261u;
    for (size_t at = 0; at < offsetof(struct record, check); at++)
        hash = (hash ^ bytes[at]) * 16777619u;
    return hash;
}

static off_t place(uint32_t sector, uint32_t index) {
    return ((off_t)sector * store.records + index) * UNIT;
}

static void note(const struct record *record, uint32_t sector) {
    store.keys[record->key].sequence = record->sequence;
    store.keys[record->key].value = record->value;
    store.keys[record->key].sector = sector;
}

/* Writes a record at the head. A page that a cut has torn takes no record and is left out. */
static int append(uint32_t key, uint32_t value) {
    struct record record = {.sequence = ++store.sequence, .key = key, .value = value};
    memset(record.filler, (int)value, sizeof record.filler);
    record.check = check_of(&record);
    while (store.next < store.records)
        if (!flash_write(store.dev, place(store.sector, store.next++), &record, sizeof record)) {
            note(&record, store.sector);
            return 0;
        }
    return -ENOSPC;
}

/* Frees the sector behind the head: its newest records go to the head. */
static int collect(void) {
    uint32_t oldest = (store.sector + 1) % store.sectors;
    int error = 0;
#ifdef ERASE_FIRST
    error = flash_erase(store.dev, place(oldest, 0), place(1, 0));
#endif
    for (uint32_t key = 0; key < KEYS && !error; key++)
        if (store.keys[key].sequence && store.keys[key].sector == oldest)
            error = append(key, store.keys[key].value);
#ifndef ERASE_FIRST
    error = error ? error : flash_erase(store.dev, place(oldest, 0), place(1, 0));
#endif
    return error;
}

static int put(uint32_t key, uint32_t value) {
    if (!append(key, value))
        return 0;
    store.sector = (store.sector + 1) % store.sectors;
    store.next = 0;
    int error = collect();
    return error ? error : append(key, value);
}

/* Takes a record into account if it is whole. The newest one of all is before the head. */
static void scan(uint32_t sector, uint32_t index) {
    struct record record;
    if (flash_read(store.dev, place(sector, index), &record, sizeof record)
        || record.check != check_of(&record) || record.key >= KEYS)
        return;
    if (record.sequence > store.keys[record.key].sequence)
        note(&record, sector);
    if (record.sequence > store.sequence) {
        store.sequence = record.sequence;
        store.sector = sector;
        store.next = index + 1;
    }
}

static int mount(const struct device *dev) {
    const struct flash_driver_api *api = dev->api;
    const struct flash_pages_layout *layout;
    size_t layouts;
    api->page_layout(dev, &layout, &layouts);
    store = (struct log){.dev = dev, .sectors = layout->pages_count,
                         .records = layout->pages_size / UNIT};
    if (layouts != 1 || flash_get_parameters(dev)->write_block_size != UNIT)
        return -ENOTSUP;
    for (uint32_t sector = 0; sector < store.sectors; sector++)
        for (uint32_t index = 0; index < store.records; index++)
            scan(sector, index);
    return collect();
}

/* Keys 1 to 3 change rarely, so that their newest records lie in sectors that are collected. */
static void run(nandlab_chip *chip) {
    struct zephyr_flash flash = zephyr_flash_on(chip);
    struct device dev = {.name = "nandlab", .api = &zephyr_flash_api, .data = &flash};
    must(mount(&dev), "mount");
    for (int value = 1; value <= PUTS; value++) {
        int key = value % 15 ? 0 : 1 + value / 15 % (KEYS - 1);
        must(put(key, value), "put");
        promise(chip, key, value);
    }
    free(flash.part);
}

static const char *judge_on(const struct device *dev, uint64_t moment) {
    if (mount(dev))
        return "does not mount";
    for (int key = 0; key < KEYS; key++)
        if ((int)store.keys[key].value < promised(key, moment))
            return "a value is lost";
    if (put(0, LATER))
        return "takes no more values";
    if (mount(dev))
        return "does not mount again";
    if (store.keys[0].value != LATER)
        return "does not keep a later value";
    return NULL;
}

static const char *judge(nandlab_chip *chip, uint64_t moment) {
    struct zephyr_flash flash = zephyr_flash_on(chip);
    struct device dev = {.name = "nandlab", .api = &zephyr_flash_api, .data = &flash};
    const char *why = judge_on(&dev, moment);
    free(flash.part);
    return why;
}

/* The rules of the interface that the log does not touch. */
static void refusals(nandlab_chip *chip) {
    struct zephyr_flash flash = zephyr_flash_on(chip);
    struct device dev = {.name = "nandlab", .api = &zephyr_flash_api, .data = &flash};
    const off_t size = flash.layout.pages_count * flash.layout.pages_size;
    static uint8_t bytes[2 * UNIT], found[2 * UNIT];
    memset(bytes, 5, sizeof bytes);
    must(flash_write(&dev, 0, bytes, sizeof bytes), "write of two blocks");
    must(flash_read(&dev, UNIT - 3, found, 9), "read across two blocks");
    must(memcmp(found, bytes, 9) ? -1 : 0, "the bytes");
    must(flash_write(&dev, 1, bytes, UNIT) == -EINVAL ? 0 : -1, "write between blocks");
    must(flash_write(&dev, size, bytes, UNIT) == -EINVAL ? 0 : -1, "write behind the end");
    must(flash_read(&dev, -1, found, 1) == -EINVAL ? 0 : -1, "read before the begin");
    must(flash_read(&dev, size - 1, found, 2) == -EINVAL ? 0 : -1, "read across the end");
    must(flash_erase(&dev, UNIT, UNIT) == -EINVAL ? 0 : -1, "erase of a part");
    must(flash_erase(&dev, 0, flash.layout.pages_size), "erase");
    must(flash_read(&dev, 0, found, 1), "read of an erased block");
    must(found[0] == flash_get_parameters(&dev)->erase_value ? 0 : -1, "the erase value");
    free(flash.part);
}

int main(void) {
    nandlab_description description = {
        .preset = "slc-2k", .page = UNIT, .oob = 16, .pages_per_block = 16, .blocks = 4};
    struct subject subject = {run, judge, &zephyr_refused};
    nandlab_chip *chip;
    must(-(int)nandlab_chip_new(&description, &chip), "chip");
    refusals(chip);
    unsigned violations = cut_everywhere(chip, &subject);
    nandlab_chip_free(chip);
    return violations > 0;
}
