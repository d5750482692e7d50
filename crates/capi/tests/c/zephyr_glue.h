/* A chip of nandlab behind Zephyr's flash interface. */
#ifdef __ZEPHYR__
#include <zephyr/drivers/flash.h>
#else
#include "zephyr_flash.h"
#endif
#include "nandlab.h"

/* The data of a device. A write block is a page of the chip, a page of Zephyr an erase block. */
struct zephyr_flash {
    nandlab_chip *chip;
    uint8_t *part; /* A page of which a caller wants a part. */
    struct flash_parameters parameters;
    struct flash_pages_layout layout;
};

extern const struct flash_driver_api zephyr_flash_api;

/* Programs that the chip refused so far: their pages are not erased, or a cut has torn them. */
extern unsigned zephyr_refused;

/* The data of a device on a chip. The caller frees `part`. */
struct zephyr_flash zephyr_flash_on(nandlab_chip *chip);
