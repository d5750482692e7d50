/* Zephyr's flash interface on a chip of nandlab. A call is over when its data are on the medium. */
#include "zephyr_glue.h"
#include <stdlib.h>
#include <string.h>

unsigned zephyr_refused;

static int answer(nandlab_status status) {
    zephyr_refused += status == NANDLAB_STATUS_ILLEGAL;
    switch (status) {
    case NANDLAB_STATUS_OK:
        return 0;
    case NANDLAB_STATUS_ARGUMENT:
    case NANDLAB_STATUS_OUT_OF_RANGE:
        return -EINVAL;
    default:
        return -EIO;
    }
}

/* Refuses what does not lie on the chip in whole units. */
static int check(const struct zephyr_flash *flash, off_t offset, size_t len, size_t unit) {
    uint64_t size = (uint64_t)flash->layout.pages_count * flash->layout.pages_size;
    bool inside = offset >= 0 && (uint64_t)offset <= size && len <= size - (uint64_t)offset;
    return inside && offset % unit == 0 && len % unit == 0 ? 0 : -EINVAL;
}

static int glue_read(const struct device *dev, off_t offset, void *data, size_t len) {
    struct zephyr_flash *flash = dev->data;
    size_t page = flash->parameters.write_block_size;
    int error = check(flash, offset, len, 1);
    for (size_t done = 0, part; done < len && !error; done += part) {
        size_t from = (offset + done) % page;
        part = page - from < len - done ? page - from : len - done;
        error = answer(nandlab_read(flash->chip, (offset + done) / page, flash->part, page, NULL,
                                    0, NULL));
        memcpy((uint8_t *)data + done, flash->part + from, part);
    }
    return error;
}

static int glue_write(const struct device *dev, off_t offset, const void *data, size_t len) {
    struct zephyr_flash *flash = dev->data;
    size_t page = flash->parameters.write_block_size;
    int error = check(flash, offset, len, page);
    for (size_t done = 0; done < len && !error; done += page)
        error = answer(nandlab_program(flash->chip, (offset + done) / page,
                                       (const uint8_t *)data + done, page, NULL, 0));
    return error ? error : answer(nandlab_sync(flash->chip));
}

static int glue_erase(const struct device *dev, off_t offset, size_t size) {
    struct zephyr_flash *flash = dev->data;
    size_t block = flash->layout.pages_size;
    int error = check(flash, offset, size, block);
    for (size_t done = 0; done < size && !error; done += block)
        error = answer(nandlab_erase(flash->chip, (offset + done) / block));
    return error ? error : answer(nandlab_sync(flash->chip));
}

static const struct flash_parameters *glue_get_parameters(const struct device *dev) {
    const struct zephyr_flash *flash = dev->data;
    return &flash->parameters;
}

#ifdef CONFIG_FLASH_PAGE_LAYOUT
static void glue_page_layout(const struct device *dev, const struct flash_pages_layout **layout,
                             size_t *layout_size) {
    const struct zephyr_flash *flash = dev->data;
    *layout = &flash->layout;
    *layout_size = 1;
}
#endif

const struct flash_driver_api zephyr_flash_api = {
    .read = glue_read,
    .write = glue_write,
    .erase = glue_erase,
    .get_parameters = glue_get_parameters,
#ifdef CONFIG_FLASH_PAGE_LAYOUT
    .page_layout = glue_page_layout,
#endif
};

struct zephyr_flash zephyr_flash_on(nandlab_chip *chip) {
    nandlab_geometry g;
    nandlab_chip_geometry(chip, &g);
    return (struct zephyr_flash){
        .chip = chip, .part = malloc(g.page),
        .parameters = {.write_block_size = g.page, .erase_value = 0xFF},
        .layout = {.pages_count = g.blocks, .pages_size = (size_t)g.page * g.pages_per_block},
    };
}
