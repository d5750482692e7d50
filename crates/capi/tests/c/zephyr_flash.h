/* Zephyr's flash interface, as much of <zephyr/drivers/flash.h> as the glue and its users need. */
#ifndef ZEPHYR_FLASH_H
#define ZEPHYR_FLASH_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CONFIG_FLASH_PAGE_LAYOUT 1

struct device {
    const char *name;
    const void *config;
    const void *api;
    void *data;
};

struct flash_parameters {
    const size_t write_block_size;
    uint8_t erase_value;
};

/* Here and below, a page is what one erase empties. */
struct flash_pages_layout {
    size_t pages_count, pages_size;
};

struct flash_driver_api {
    int (*read)(const struct device *dev, off_t offset, void *data, size_t len);
    int (*write)(const struct device *dev, off_t offset, const void *data, size_t len);
    int (*erase)(const struct device *dev, off_t offset, size_t size);
    const struct flash_parameters *(*get_parameters)(const struct device *dev);
    void (*page_layout)(const struct device *dev, const struct flash_pages_layout **layout,
                        size_t *layout_size);
};

static inline const struct flash_driver_api *flash_api_of(const struct device *dev) {
    return dev->api;
}

static inline int flash_read(const struct device *dev, off_t offset, void *data, size_t len) {
    return flash_api_of(dev)->read(dev, offset, data, len);
}

static inline int flash_write(const struct device *dev, off_t offset, const void *data,
                              size_t len) {
    return flash_api_of(dev)->write(dev, offset, data, len);
}

static inline int flash_erase(const struct device *dev, off_t offset, size_t size) {
    return flash_api_of(dev)->erase(dev, offset, size);
}

static inline const struct flash_parameters *flash_get_parameters(const struct device *dev) {
    return flash_api_of(dev)->get_parameters(dev);
}

#endif
