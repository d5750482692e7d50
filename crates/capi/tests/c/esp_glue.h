/* A chip of nandlab behind the interface of ESP-IDF's NAND drivers. */
#ifdef ESP_PLATFORM
#include "nand_impl.h"
#else
#include "esp_nand.h"
#endif
#include "nandlab.h"

/* Programs that the chip refused so far: a cut has torn their pages. */
extern unsigned esp_refused;

/* The configuration of a device on a chip, for nand_init_device. */
spi_nand_flash_config_t esp_nand_on(nandlab_chip *chip);

/* Frees what nand_init_device made; the chip stays. */
void esp_nand_off(spi_nand_flash_device_t *handle);
