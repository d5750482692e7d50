/* A map of pages above ESP-IDF's NAND interface, on a chip with bit errors, failing programs, failing
 * erases and bad blocks, through power cuts. A write that has returned must be there after every cut. */
#include "cuts.h"
#include "esp_glue.h"
#include <stdio.h>
#include <string.h>

#define LOGICAL 10
#define WRITES 300
#define PAGE 512
#define PER_BLOCK 8
#define BLOCKS 24
#define NONE UINT32_MAX
#define LATER 1000
/* Reads of a page that cannot be corrected; those of a mount may differ. */
#define TRIES 4
#ifndef TRIES_OF_MOUNT
#define TRIES_OF_MOUNT TRIES
#endif

/* A page carries its place in the map. The one with the highest sequence counts. */
struct page {
    uint32_t logical, sequence, value;
    uint8_t filler[PAGE - 16];
    uint32_t check;
};

static struct map {
    spi_nand_flash_device_t *nand;
    uint32_t where[LOGICAL], value[LOGICAL], age[LOGICAL];
    uint32_t sequence, block, next;
    bool failed[BLOCKS]; /* A program failed there, and the block is not yet marked. */
} map;

/* What the chip did to the run and to all recoveries. */
static unsigned unreadable, refreshed, failed_programs, failed_erases;

static uint32_t check_of(const struct page *page) {
    const uint8_t *bytes = (const uint8_t *)page;
    uint32_t hash = 2166136261u;
    for (size_t at = 0; at < offsetof(struct page, check); at++)
        hash = (hash ^ bytes[at]) * 16777619u;
    return hash;
}

/* Reads a page again if it cannot be corrected: other bits may be wrong then. */
static esp_err_t read_page(uint32_t page, struct page *found, int tries) {
    esp_err_t error = ESP_FAIL;
    for (; tries > 0 && error; tries--) {
        error = nand_read(map.nand, page, 0, PAGE, (uint8_t *)found);
        unreadable += error != ESP_OK;
    }
    return error;
}

static bool is_used(uint32_t block) {
    for (uint32_t logical = 0; logical < LOGICAL; logical++)
        if (map.where[logical] != NONE && map.where[logical] / PER_BLOCK == block)
            return true;
    return false;
}

/* Takes a block that holds no page of the map, and erases it. One that does not erase is bad. */
static esp_err_t take_block(void) {
    for (uint32_t step = 1; step <= BLOCKS; step++) {
        uint32_t block = (map.block + step) % BLOCKS;
        bool bad = true;
        if (nand_is_bad(map.nand, block, &bad) || bad || map.failed[block] || is_used(block))
            continue;
        if (!nand_erase_block(map.nand, block)) {
            map.block = block;
            map.next = 0;
            return ESP_OK;
        }
        failed_erases++;
        nand_mark_bad(map.nand, block);
    }
    return ESP_ERR_NO_MEM;
}

/* Programs a page of the map elsewhere, and only then forgets where it was. */
static esp_err_t place(uint32_t logical, uint32_t value) {
    struct page page = {.logical = logical, .sequence = ++map.sequence, .value = value};
    memset(page.filler, (int)value, sizeof page.filler);
    page.check = check_of(&page);
#ifdef FORGET_FIRST
    map.where[logical] = NONE;
#endif
    for (;;) {
        if (map.next == PER_BLOCK && take_block())
            return ESP_ERR_NO_MEM;
        uint32_t at = map.block * PER_BLOCK + map.next++;
        if (!nand_prog(map.nand, at, (const uint8_t *)&page)) {
            map.where[logical] = at;
            map.value[logical] = value;
            map.age[logical] = page.sequence;
            return ESP_OK;
        }
        failed_programs++;
        map.failed[map.block] = true;
        map.next = PER_BLOCK;
    }
}

/* Empties blocks in which a program failed, and marks them bad. */
static esp_err_t retire(void) {
    for (uint32_t block = 0; block < BLOCKS; block++) {
        if (!map.failed[block])
            continue;
        for (uint32_t logical = 0; logical < LOGICAL; logical++)
            if (map.where[logical] != NONE && map.where[logical] / PER_BLOCK == block
                && place(logical, map.value[logical]))
                return ESP_ERR_NO_MEM;
        if (nand_mark_bad(map.nand, block))
            return ESP_FAIL;
        map.failed[block] = false;
    }
    return ESP_OK;
}

static esp_err_t map_write(uint32_t logical, uint32_t value) {
    esp_err_t error = place(logical, value);
    return error ? error : retire();
}

/* Reads a value, and writes its page anew if many of its bits were wrong. */
static esp_err_t map_read(uint32_t logical, uint32_t *value) {
    struct page page = {0};
    *value = 0;
    if (map.where[logical] == NONE)
        return ESP_OK;
    esp_err_t error = read_page(map.where[logical], &page, TRIES);
    if (error || page.check != check_of(&page))
        return ESP_FAIL;
    *value = page.value;
    if (nand_ecc_exceeds_data_refresh_threshold(map.nand))
        refreshed += map_write(logical, page.value) == ESP_OK;
    return ESP_OK;
}

static void scan(uint32_t at) {
    struct page page;
    bool is_free = false;
    if (nand_is_free(map.nand, at, &is_free) || is_free || read_page(at, &page, TRIES_OF_MOUNT)
        || page.check != check_of(&page) || page.logical >= LOGICAL)
        return;
    if (page.sequence > map.sequence)
        map.sequence = page.sequence;
    if (page.sequence < map.age[page.logical])
        return;
    map.where[page.logical] = at;
    map.value[page.logical] = page.value;
    map.age[page.logical] = page.sequence;
}

/* The next write takes a new block: a cut may have torn a page of the last one. */
static void mount(nandlab_chip *chip) {
    spi_nand_flash_config_t config = esp_nand_on(chip);
    memset(&map, 0, sizeof map);
    must(nand_init_device(&config, &map.nand) ? -1 : 0, "nand_init_device");
    memset(map.where, 0xFF, sizeof map.where);
    map.next = PER_BLOCK;
    for (uint32_t block = 0; block < BLOCKS; block++) {
        bool bad = true;
        must(nand_is_bad(map.nand, block, &bad) ? -1 : 0, "nand_is_bad");
        for (uint32_t page = 0; page < PER_BLOCK && !bad; page++)
            scan(block * PER_BLOCK + page);
    }
}

/* Pages 1 to 9 change rarely, so that the circle of blocks comes by them. */
static void run(nandlab_chip *chip) {
    mount(chip);
    for (int value = 1; value <= WRITES; value++) {
        int logical = value % 8 ? 0 : 1 + value / 8 % (LOGICAL - 1);
        uint32_t found;
        must(map_write(logical, value) ? -1 : 0, "write");
        promise(chip, logical, value);
        must(map_read(value % LOGICAL, &found) ? -1 : 0, "read");
    }
    esp_nand_off(map.nand);
}

static const char *judge_mounted(uint64_t moment) {
    for (int logical = 0; logical < LOGICAL; logical++) {
        uint32_t found;
        if (map_read(logical, &found))
            return "a page cannot be read";
        if ((int)found < promised(logical, moment))
            return "a write is lost";
    }
    return map_write(0, LATER) ? "takes no more writes" : NULL;
}

static const char *judge(nandlab_chip *chip, uint64_t moment) {
    uint32_t found;
    mount(chip);
    const char *why = judge_mounted(moment);
    esp_nand_off(map.nand);
    if (why)
        return why;
    mount(chip);
    if (map_read(0, &found) || found != LATER)
        why = "does not keep a later write";
    esp_nand_off(map.nand);
    return why;
}

static nandlab_chip *chip_with(nandlab_description description) {
    nandlab_chip *chip;
    description.preset = "slc-2k";
    description.page = PAGE;
    description.oob = 16;
    description.pages_per_block = PER_BLOCK;
    description.blocks = BLOCKS;
    description.ecc_bits = 8;
    description.seed = 2;
    must(-(int)nandlab_chip_new(&description, &chip), "chip");
    return chip;
}

/* Counts the answers of the error correction to many reads of a page with 4.5 wrong bits a read. */
static void classes(void) {
    nandlab_chip *chip = chip_with((nandlab_description){.bit_errors = 4.5 / (PAGE * 8)});
    spi_nand_flash_config_t config = esp_nand_on(chip);
    spi_nand_flash_device_t *nand;
    uint8_t data[PAGE] = {7}, found[PAGE];
    unsigned count[8] = {0}, failed = 0;
    must(nand_init_device(&config, &nand) ? -1 : 0, "nand_init_device");
    must(nand_prog(nand, 0, data) || nand_copy(nand, 0, 1) ? -1 : 0, "program");
    for (int i = 0; i < 10000; i++) {
        esp_err_t error = nand_read(nand, i % 2, 0, PAGE, found);
        failed += error == ESP_FAIL;
        must(error || !memcmp(data, found, PAGE) ? 0 : -1, "the corrected bytes");
        count[nand->chip.ecc_data.ecc_corrected_bits_status]++;
    }
    printf("reads without wrong bits %u\n1 to 3 bits corrected %u\n4 to 6 bits corrected %u\n"
           "7 or 8 bits corrected %u\nnot corrected %u\nfailed reads %u\n", count[NAND_ECC_OK],
           count[NAND_ECC_1_TO_3_BITS_CORRECTED], count[NAND_ECC_4_TO_6_BITS_CORRECTED],
           count[NAND_ECC_7_8_BITS_CORRECTED], count[NAND_ECC_NOT_CORRECTED], failed);
    esp_nand_off(nand);
    nandlab_chip_free(chip);
}

int main(void) {
    struct subject subject = {run, judge, &esp_refused};
    classes();
    nandlab_chip *chip = chip_with((nandlab_description){.bit_errors = 3.0 / (PAGE * 8),
                                                         .program_fail = 0.01,
                                                         .erase_fail = 0.02,
                                                         .factory_bad = 0.1});
    unsigned violations = cut_everywhere(chip, &subject);
    printf("unreadable pages, tried again %u\nrefreshed pages %u\nfailed programs %u\n"
           "failed erases %u\n", unreadable, refreshed, failed_programs, failed_erases);
    nandlab_chip_free(chip);
    return violations > 0;
}
