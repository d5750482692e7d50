/* Dhara (https://github.com/dlbeer/dhara) as a layer for nandlab. */
#include "nandlab_exec.h"
#include "dhara/map.h"
#include <stdlib.h>
#include <string.h>

/* Dhara's chip, and ours behind it. */
static struct chip {
    struct dhara_nand nand;
    nandlab_chip *chip;
    uint8_t *page;
} chip;
static struct dhara_map map;

static size_t page_length(void)
{
    return (size_t)1 << chip.nand.log2_page_size;
}

static int done(nandlab_status status, dhara_error_t *error)
{
    if (status == NANDLAB_STATUS_OK)
        return 0;
    dhara_set_error(error, status == NANDLAB_STATUS_UNCORRECTABLE ? DHARA_E_ECC : DHARA_E_BAD_BLOCK);
    return -1;
}

int dhara_nand_is_bad(const struct dhara_nand *nand, dhara_block_t block)
{
    bool bad = true;
    (void)nand;
    return nandlab_is_bad(chip.chip, block, &bad) != NANDLAB_STATUS_OK || bad;
}

void dhara_nand_mark_bad(const struct dhara_nand *nand, dhara_block_t block)
{
    (void)nand;
    nandlab_mark_bad(chip.chip, block);
}

int dhara_nand_erase(const struct dhara_nand *nand, dhara_block_t block, dhara_error_t *error)
{
    (void)nand;
    return done(nandlab_erase(chip.chip, block), error);
}

int dhara_nand_prog(const struct dhara_nand *nand, dhara_page_t page, const uint8_t *data,
                    dhara_error_t *error)
{
    (void)nand;
    return done(nandlab_program(chip.chip, page, data, page_length(), NULL, 0), error);
}

/* A page that cannot be read is not free. */
int dhara_nand_is_free(const struct dhara_nand *nand, dhara_page_t page)
{
    (void)nand;
    if (nandlab_read(chip.chip, page, chip.page, page_length(), NULL, 0, NULL))
        return 0;
    for (size_t at = 0; at < page_length(); at++)
        if (chip.page[at] != 0xFF)
            return 0;
    return 1;
}

int dhara_nand_read(const struct dhara_nand *nand, dhara_page_t page, size_t offset, size_t length,
                    uint8_t *data, dhara_error_t *error)
{
    (void)nand;
    int result = done(nandlab_read(chip.chip, page, chip.page, page_length(), NULL, 0, NULL), error);
    memcpy(data, chip.page + offset, length);
    return result;
}

int dhara_nand_copy(const struct dhara_nand *nand, dhara_page_t from, dhara_page_t to,
                    dhara_error_t *error)
{
    (void)nand;
    return done(nandlab_copy(chip.chip, from, to, NULL, 0, NULL, 0), error);
}

/* What a call of Dhara gave, as nandlab wants it. */
static nandlab_status judged(int result, dhara_error_t error)
{
    if (result == 0)
        return NANDLAB_STATUS_OK;
    nandlab_explain(dhara_strerror(error));
    return error == DHARA_E_ECC ? NANDLAB_STATUS_UNCORRECTABLE : NANDLAB_STATUS_INTERNAL;
}

static uint8_t log2_of(uint32_t number)
{
    uint8_t log = 0;
    while (number >> (log + 1))
        log++;
    return log;
}

static uint32_t attach(nandlab_chip *ours)
{
    nandlab_geometry g;
    nandlab_chip_geometry(ours, &g);
    chip.chip = ours;
    chip.nand.log2_page_size = log2_of(g.page);
    chip.nand.log2_ppb = log2_of(g.pages_per_block);
    chip.nand.num_blocks = g.blocks;
    chip.page = malloc(g.page);
    dhara_map_init(&map, &chip.nand, malloc(g.page), 4);
    dhara_error_t error = DHARA_E_NONE;
    dhara_map_resume(&map, &error); /* It fails on an empty chip, and leaves an empty map. */
    return dhara_map_capacity(&map);
}

static nandlab_status read_page(nandlab_chip *ours, uint32_t page, uint8_t *data)
{
    (void)ours;
    dhara_error_t error = DHARA_E_NONE;
    dhara_page_t where;
    if (dhara_map_find(&map, page, &where, &error)) /* Never written: zeros. */
        return error == DHARA_E_NOT_FOUND ? NANDLAB_STATUS_OK : judged(-1, error);
    return judged(dhara_map_read(&map, page, data, &error), error);
}

static nandlab_status write_page(nandlab_chip *ours, uint32_t page, const uint8_t *data)
{
    (void)ours;
    dhara_error_t error = DHARA_E_NONE;
    return judged(dhara_map_write(&map, page, data, &error), error);
}

static nandlab_status flush(nandlab_chip *ours)
{
    dhara_error_t error = DHARA_E_NONE;
    if (dhara_map_sync(&map, &error))
        return judged(-1, error);
    return nandlab_sync(ours);
}

int main(void)
{
    nandlab_layer layer = {attach, attach, read_page, write_page, flush};
    return nandlab_exec(&layer);
}
