/* ESP-IDF's NAND interface on a chip of nandlab, in the place of nand_impl_linux.c. The pointers to
 * the emulated file lead to the chip. */
#include "esp_glue.h"
#include <stdlib.h>
#include <string.h>

unsigned esp_refused;

/* Bytes 2 and 3 of the spare area say that a page is used. The chip keeps marks of bad blocks. */
static const uint8_t USED[4] = {0xFF, 0xFF, 0, 0};

static nandlab_chip *chip_of(const spi_nand_flash_device_t *handle) {
    return (nandlab_chip *)(void *)handle->emul_handle;
}

static esp_err_t answer(nandlab_status status) {
    esp_refused += status == NANDLAB_STATUS_ILLEGAL;
    switch (status) {
    case NANDLAB_STATUS_OK:
        return ESP_OK;
    case NANDLAB_STATUS_PROGRAM_FAILED:
    case NANDLAB_STATUS_ERASE_FAILED:
    case NANDLAB_STATUS_BAD_BLOCK:
    case NANDLAB_STATUS_ILLEGAL:
        return ESP_ERR_NOT_FINISHED;
    case NANDLAB_STATUS_ARGUMENT:
    case NANDLAB_STATUS_OUT_OF_RANGE:
        return ESP_ERR_INVALID_ARG;
    default:
        return ESP_FAIL;
    }
}

/* The drivers of ESP-IDF wait until the chip is ready. */
static esp_err_t finish(spi_nand_flash_device_t *handle, nandlab_status status) {
    return answer(status ? status : nandlab_sync(chip_of(handle)));
}

static nand_ecc_status_t class_of(nandlab_status status, uint16_t bits) {
    if (status == NANDLAB_STATUS_UNCORRECTABLE)
        return NAND_ECC_NOT_CORRECTED;
    if (bits > 6)
        return NAND_ECC_7_8_BITS_CORRECTED;
    if (bits > 3)
        return NAND_ECC_4_TO_6_BITS_CORRECTED;
    return bits ? NAND_ECC_1_TO_3_BITS_CORRECTED : NAND_ECC_OK;
}

/* Reads a page into the read buffer, and keeps the answer of the error correction. */
static esp_err_t load(spi_nand_flash_device_t *handle, uint32_t page) {
    uint16_t bits = 0;
    nandlab_status status = nandlab_read(chip_of(handle), page, handle->read_buffer,
                                         handle->chip.page_size, NULL, 0, &bits);
    handle->chip.ecc_data.ecc_corrected_bits_status = class_of(status, bits);
    return answer(status);
}

esp_err_t nand_read(spi_nand_flash_device_t *handle, uint32_t p, size_t offset, size_t length,
                    uint8_t *data) {
    if (offset > handle->chip.page_size || length > handle->chip.page_size - offset)
        return ESP_ERR_INVALID_ARG;
    esp_err_t error = load(handle, p);
    memmove(data, handle->read_buffer + offset, length); /* `data` may be the read buffer. */
    return error;
}

esp_err_t nand_get_ecc_status(spi_nand_flash_device_t *handle, uint32_t page) {
    esp_err_t error = load(handle, page);
    return error == ESP_FAIL ? ESP_OK : error; /* The status says it. */
}

esp_err_t nand_prog(spi_nand_flash_device_t *handle, uint32_t p, const uint8_t *data) {
    return finish(handle, nandlab_program(chip_of(handle), p, data, handle->chip.page_size, USED,
                                          sizeof USED));
}

esp_err_t nand_copy(spi_nand_flash_device_t *handle, uint32_t src, uint32_t dst) {
    esp_err_t error = load(handle, src);
    return error ? error : nand_prog(handle, dst, handle->read_buffer);
}

esp_err_t nand_is_free(spi_nand_flash_device_t *handle, uint32_t p, bool *is_free_status) {
    uint8_t marks[4] = {0};
    nandlab_status status = nandlab_read(chip_of(handle), p, NULL, 0, marks, sizeof marks, NULL);
    *is_free_status = marks[2] == 0xFF && marks[3] == 0xFF;
    return status == NANDLAB_STATUS_UNCORRECTABLE ? ESP_OK : answer(status);
}

esp_err_t nand_is_bad(spi_nand_flash_device_t *handle, uint32_t b, bool *is_bad_status) {
    return answer(nandlab_is_bad(chip_of(handle), b, is_bad_status));
}

/* Erases the block too, as the drivers do: what it held is gone. */
esp_err_t nand_mark_bad(spi_nand_flash_device_t *handle, uint32_t b) {
    (void)nandlab_erase(chip_of(handle), b);
    return finish(handle, nandlab_mark_bad(chip_of(handle), b));
}

esp_err_t nand_erase_block(spi_nand_flash_device_t *handle, uint32_t b) {
    return finish(handle, nandlab_erase(chip_of(handle), b));
}

/* Leaves out bad blocks, and goes on behind a block that does not erase. */
esp_err_t nand_erase_chip(spi_nand_flash_device_t *handle) {
    esp_err_t result = ESP_OK;
    for (uint32_t b = 0; b < handle->chip.num_blocks; b++) {
        bool bad = false;
        esp_err_t error = nand_is_bad(handle, b, &bad);
        if (!error && !bad)
            error = nand_erase_block(handle, b);
        if (error && error != ESP_ERR_NOT_FINISHED)
            return error;
        result = error ? error : result;
    }
    return result;
}

static uint8_t log2_of(uint32_t number) {
    uint8_t log = 0;
    while (number >> (log + 1))
        log++;
    return log;
}

static void describe(nand_flash_geometry_t *to, const nandlab_geometry *g) {
    to->page_size = g->page;
    to->log2_page_size = log2_of(g->page);
    to->log2_ppb = log2_of(g->pages_per_block);
    to->block_size = g->page * g->pages_per_block;
    to->num_blocks = g->blocks;
    to->num_planes = 1;
    to->ecc_data.ecc_data_refresh_threshold = 4;
}

esp_err_t nand_init_device(spi_nand_flash_config_t *config, spi_nand_flash_device_t **handle) {
    nandlab_geometry g;
    spi_nand_flash_device_t *made = calloc(1, sizeof *made);
    if (!made)
        return ESP_ERR_NO_MEM;
    made->config = *config;
    made->emul_handle = (void *)config->emul_conf;
    esp_err_t error = answer(nandlab_chip_geometry(chip_of(made), &g));
    if (error) {
        free(made);
        return error;
    }
    describe(&made->chip, &g);
    made->work_buffer = malloc(g.page);
    made->read_buffer = malloc(g.page);
#ifdef ESP_PLATFORM
    made->mutex = xSemaphoreCreateMutex();
#endif
    *handle = made;
    return made->work_buffer && made->read_buffer ? ESP_OK : ESP_ERR_NO_MEM;
}

#ifdef ESP_PLATFORM
/* spi_nand_flash_deinit_device calls this, and frees the device itself. */
esp_err_t nand_emul_deinit(spi_nand_flash_device_t *handle) {
    handle->emul_handle = NULL;
    return ESP_OK;
}
#endif

spi_nand_flash_config_t esp_nand_on(nandlab_chip *chip) {
    return (spi_nand_flash_config_t){.emul_conf = (void *)chip};
}

void esp_nand_off(spi_nand_flash_device_t *handle) {
    free(handle->work_buffer);
    free(handle->read_buffer);
    free(handle);
}
