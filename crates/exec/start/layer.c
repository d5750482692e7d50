/* A first translation layer, to be changed. It maps whole erase blocks. A write copies its block, with
 * the change, into the block after the last one used that holds nothing. A tag in spare bytes names
 * the logical block and a sequence number; at an attach, the highest number wins. */
#include "nandlab_exec.h"
#include <stdlib.h>

#define SPARE 4

static nandlab_geometry g;
static uint32_t *map, last, sequence;
static uint8_t *old;

static uint32_t page_of(uint32_t block, uint32_t n) {
    return block * g.pages_per_block + n;
}

static bool is_used(uint32_t block) {
    for (uint32_t n = 0; n < g.blocks - SPARE; n++)
        if (map[n] == block)
            return true;
    return false;
}

static uint32_t format(nandlab_chip *chip) {
    nandlab_chip_geometry(chip, &g);
    map = calloc(g.blocks, sizeof *map);
    old = malloc(g.page);
    for (uint32_t n = 0; n < g.blocks; n++)
        map[n] = UINT32_MAX;
    return (g.blocks - SPARE) * g.pages_per_block;
}

static uint32_t attach(nandlab_chip *chip) {
    uint32_t pages = format(chip), *found = calloc(g.blocks, sizeof *found);
    for (uint32_t block = 0; block < g.blocks; block++) {
        uint32_t tag[2];
        uint32_t page = page_of(block, g.pages_per_block - 1);
        /* A last page that cannot be read belongs to a write that was cut. */
        if (nandlab_read(chip, page, NULL, 0, (uint8_t *)tag, 8, NULL) || tag[0] >= g.blocks - SPARE)
            continue;
        if (tag[1] > found[tag[0]]) {
            found[tag[0]] = tag[1];
            map[tag[0]] = block;
        }
        if (tag[1] > sequence) {
            sequence = tag[1];
            last = block;
        }
    }
    free(found);
    return pages;
}

static nandlab_status read_page(nandlab_chip *chip, uint32_t n, uint8_t *data) {
    uint32_t block = map[n / g.pages_per_block];
    if (block == UINT32_MAX)
        return NANDLAB_STATUS_OK;
    return nandlab_read(chip, page_of(block, n % g.pages_per_block), data, g.page, NULL, 0, NULL);
}

static nandlab_status write_page(nandlab_chip *chip, uint32_t n, const uint8_t *data) {
    uint32_t logical = n / g.pages_per_block, tag[2] = {logical, ++sequence};
    nandlab_status failed;
    while (is_used(last))
        last = (last + 1) % g.blocks;
    nandlab_fence(chip); /* The next erase waits until the copies of this block are on the medium. */
    if ((failed = nandlab_erase(chip, last)))
        return failed;
    for (uint32_t i = 0; i < g.pages_per_block; i++) {
        uint32_t page = logical * g.pages_per_block + i;
        for (uint32_t at = 0; at < g.page; at++)
            old[at] = 0;
        if ((failed = read_page(chip, page, old)))
            return failed;
        const uint8_t *written = page == n ? data : old;
        if ((failed = nandlab_program(chip, page_of(last, i), written, g.page, (uint8_t *)tag, 8)))
            return failed;
    }
    map[logical] = last;
    return NANDLAB_STATUS_OK;
}

int main(void) {
    nandlab_layer layer = {format, attach, read_page, write_page, nandlab_sync};
    return nandlab_exec(&layer);
}
