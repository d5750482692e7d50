/* Not a layer: a program whose format checks each call of the chip. */
#include "nandlab_exec.h"
#include <stdio.h>
#include <string.h>

#define EXPECT(found, expected) \
    do { \
        long value = (long)(found); \
        if (value != (long)(expected)) { \
            snprintf(text, sizeof text, "line %d: found %ld", __LINE__, value); \
            nandlab_explain(text); \
            return 0; \
        } \
    } while (0)

static uint32_t format(nandlab_chip *chip) {
    static uint8_t data[2048], found[2048], oob[64];
    static char text[100];
    nandlab_geometry g;
    uint64_t now, later;
    bool bad;
    EXPECT(nandlab_chip_geometry(chip, &g), NANDLAB_STATUS_OK);
    EXPECT(g.page, sizeof data);
    EXPECT(g.blocks, 8);
    memset(data, 0x5A, sizeof data);
    EXPECT(nandlab_program(chip, 0, data, sizeof data, (const uint8_t *)"tag", 3), 0);
    EXPECT(nandlab_read(chip, 0, found, sizeof found, oob, 4, NULL), 0);
    EXPECT(memcmp(found, data, sizeof data), 0);
    EXPECT(memcmp(oob, "tag\xFF", 4), 0);
    EXPECT(nandlab_copy(chip, 0, 64, oob, 2, (const uint8_t *)"xy", 2), 0);
    EXPECT(memcmp(oob, "ta", 2), 0);
    EXPECT(nandlab_read(chip, 64, found, sizeof found, oob, 4, NULL), 0);
    EXPECT(memcmp(oob, "taxy", 4), 0);
    EXPECT(nandlab_read(chip, 1 << 20, found, sizeof found, oob, 4, NULL),
           NANDLAB_STATUS_OUT_OF_RANGE);
    EXPECT(nandlab_read(chip, 0, found, 5, NULL, 0, NULL), NANDLAB_STATUS_LENGTH);
    EXPECT(nandlab_program(chip, 0, data, sizeof data + 1, NULL, 0), NANDLAB_STATUS_LENGTH);
    EXPECT(nandlab_program(chip, 2, data, 7, NULL, 0), NANDLAB_STATUS_LENGTH);
    EXPECT(nandlab_erase(chip, 8), NANDLAB_STATUS_OUT_OF_RANGE);
    EXPECT(nandlab_erase(chip, 0), 0);
    EXPECT(nandlab_is_bad(chip, 3, &bad), 0);
    EXPECT(bad, false);
    EXPECT(nandlab_mark_bad(chip, 3), 0);
    EXPECT(nandlab_is_bad(chip, 3, &bad), 0);
    EXPECT(bad, true);
    EXPECT(nandlab_program(chip, 3 * 64, data, sizeof data, NULL, 0), NANDLAB_STATUS_BAD_BLOCK);
    EXPECT(nandlab_fence(chip), 0);
    EXPECT(nandlab_sync(chip), 0);
    EXPECT(nandlab_now(chip, &now), 0);
    EXPECT(nandlab_advance(chip, 5000000000), 0);
    EXPECT(nandlab_now(chip, &later), 0);
    EXPECT(later - now, 5000000000);
    EXPECT(nandlab_advance(chip, UINT64_MAX), NANDLAB_STATUS_ARGUMENT);
    return 8;
}

static nandlab_status read_page(nandlab_chip *chip, uint32_t page, uint8_t *data) {
    (void)chip, (void)page, (void)data;
    return NANDLAB_STATUS_OK;
}

static nandlab_status write_page(nandlab_chip *chip, uint32_t page, const uint8_t *data) {
    (void)chip, (void)page, (void)data;
    return NANDLAB_STATUS_OK;
}

int main(void) {
    nandlab_layer layer = {format, format, read_page, write_page, nandlab_sync};
    return nandlab_exec(&layer);
}
