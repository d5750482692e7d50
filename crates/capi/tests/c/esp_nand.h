/* ESP-IDF's interface of a NAND chip, as much of the component spi_nand_flash 1.4 as the glue and its
 * users need: nand_impl.h and what it includes, for the target linux. */
#ifndef ESP_NAND_H
#define ESP_NAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int esp_err_t;

#define ESP_OK 0
#define ESP_FAIL (-1)
#define ESP_ERR_NO_MEM 0x101
#define ESP_ERR_INVALID_ARG 0x102
/* A program or an erase that the chip reports as failed. */
#define ESP_ERR_NOT_FINISHED 0x10C

/* The error correction's answer to the last read of a page. */
typedef enum {
    NAND_ECC_OK = 0,
    NAND_ECC_1_TO_3_BITS_CORRECTED = 1,
    NAND_ECC_NOT_CORRECTED = 2,
    NAND_ECC_4_TO_6_BITS_CORRECTED = 3,
    NAND_ECC_7_8_BITS_CORRECTED = 5,
} nand_ecc_status_t;

typedef struct {
    uint8_t ecc_data_refresh_threshold; /* From so many corrected bits on, a user rewrites a page. */
    nand_ecc_status_t ecc_corrected_bits_status;
} nand_ecc_data_t;

typedef struct {
    uint8_t log2_page_size, log2_ppb;
    uint32_t block_size, page_size, num_blocks, num_planes;
    nand_ecc_data_t ecc_data;
} nand_flash_geometry_t;

typedef struct nand_file_mmap_emul_config nand_file_mmap_emul_config_t;
typedef struct nand_mmap_emul_handle nand_mmap_emul_handle_t;

typedef struct {
    nand_file_mmap_emul_config_t *emul_conf;
} spi_nand_flash_config_t;

typedef struct spi_nand_flash_device_t {
    spi_nand_flash_config_t config;
    nand_flash_geometry_t chip;
    uint8_t *work_buffer, *read_buffer;
    nand_mmap_emul_handle_t *emul_handle;
} spi_nand_flash_device_t;

/* True if the last read corrected enough bits to rewrite its page. */
static inline bool nand_ecc_exceeds_data_refresh_threshold(const spi_nand_flash_device_t *handle) {
    static const uint8_t least[] = {[NAND_ECC_1_TO_3_BITS_CORRECTED] = 1,
                                    [NAND_ECC_4_TO_6_BITS_CORRECTED] = 4,
                                    [NAND_ECC_7_8_BITS_CORRECTED] = 7};
    const nand_ecc_data_t *ecc = &handle->chip.ecc_data;
    return least[ecc->ecc_corrected_bits_status] >= ecc->ecc_data_refresh_threshold;
}

esp_err_t nand_init_device(spi_nand_flash_config_t *config, spi_nand_flash_device_t **handle);
esp_err_t nand_is_bad(spi_nand_flash_device_t *handle, uint32_t b, bool *is_bad_status);
esp_err_t nand_mark_bad(spi_nand_flash_device_t *handle, uint32_t b);
esp_err_t nand_erase_chip(spi_nand_flash_device_t *handle);
esp_err_t nand_erase_block(spi_nand_flash_device_t *handle, uint32_t b);
esp_err_t nand_prog(spi_nand_flash_device_t *handle, uint32_t p, const uint8_t *data);
esp_err_t nand_is_free(spi_nand_flash_device_t *handle, uint32_t p, bool *is_free_status);
esp_err_t nand_read(spi_nand_flash_device_t *handle, uint32_t p, size_t offset, size_t length,
                    uint8_t *data);
esp_err_t nand_copy(spi_nand_flash_device_t *handle, uint32_t src, uint32_t dst);
esp_err_t nand_get_ecc_status(spi_nand_flash_device_t *handle, uint32_t page);

#endif
