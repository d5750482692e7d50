/* Every function of nandlab.h, each with a success and with a failure where it has one. */
#include "nandlab.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("door.c:%d: %s (%s)\n", __LINE__, #condition, nandlab_last_error());            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define OK(call) CHECK((call) == NANDLAB_STATUS_OK)
#define PAGE 512

static uint8_t sevens[PAGE], nines[PAGE], found[PAGE];

static nandlab_chip *new_chip(void) {
    nandlab_description description = {.preset = "slc-2k",
                                       .page = PAGE,
                                       .oob = 16,
                                       .pages_per_block = 4,
                                       .blocks = 8,
                                       .dies = 2};
    nandlab_chip *chip;
    OK(nandlab_chip_new(&description, &chip));
    return chip;
}

static void descriptions(void) {
    nandlab_description wrong = {.preset = "no such chip"};
    nandlab_chip *chip = NULL;
    CHECK(nandlab_chip_new(&wrong, &chip) == NANDLAB_STATUS_ARGUMENT && !chip);
    CHECK(strstr(nandlab_last_error(), "no such chip"));
    wrong = (nandlab_description){.preset = "slc-2k", .page = 500};
    CHECK(nandlab_chip_new(&wrong, &chip) == NANDLAB_STATUS_ARGUMENT && !chip);
    CHECK(nandlab_chip_new(NULL, &chip) == NANDLAB_STATUS_ARGUMENT);
    wrong.preset = NULL;
    CHECK(nandlab_chip_new(&wrong, &chip) == NANDLAB_STATUS_ARGUMENT);
    wrong.preset = "slc-2k";
    wrong.page = 0;
    CHECK(nandlab_chip_new(&wrong, NULL) == NANDLAB_STATUS_ARGUMENT);
    wrong.bit_errors = 1.5;
    CHECK(nandlab_chip_new(&wrong, &chip) == NANDLAB_STATUS_ARGUMENT);
    CHECK(strstr(nandlab_last_error(), "bit-errors"));
    wrong.bit_errors = -1;
    CHECK(nandlab_chip_new(&wrong, &chip) == NANDLAB_STATUS_ARGUMENT);
    nandlab_geometry shape;
    chip = new_chip();
    OK(nandlab_chip_geometry(chip, &shape));
    CHECK(shape.page == PAGE && shape.oob == 16 && shape.pages_per_block == 4 && shape.blocks == 8
          && shape.dies == 2);
    CHECK(nandlab_chip_geometry(NULL, &shape) == NANDLAB_STATUS_ARGUMENT);
    nandlab_chip_free(chip);
    nandlab_chip_free(NULL);
}

/* Each value of a description that makes a chip fail, alone. */
static void failures(void) {
    nandlab_description description = {.preset = "slc-2k", .page = PAGE, .blocks = 8, .ecc_bits = 8};
    nandlab_chip *chip;
    uint16_t corrected = 0;
    bool bad = false;
    description.program_fail = 1;
    OK(nandlab_chip_new(&description, &chip));
    CHECK(nandlab_program(chip, 0, sevens, PAGE, NULL, 0) == NANDLAB_STATUS_PROGRAM_FAILED);
    nandlab_chip_free(chip);
    description.program_fail = 0;
    description.erase_fail = 1;
    OK(nandlab_chip_new(&description, &chip));
    CHECK(nandlab_erase(chip, 0) == NANDLAB_STATUS_ERASE_FAILED);
    nandlab_chip_free(chip);
    description.erase_fail = 0;
    description.factory_bad = 1;
    OK(nandlab_chip_new(&description, &chip));
    OK(nandlab_is_bad(chip, 7, &bad));
    CHECK(bad);
    nandlab_chip_free(chip);
    description.factory_bad = 0;
    description.bit_errors = 0.001; /* Four of the 4,096 bits. */
    OK(nandlab_chip_new(&description, &chip));
    OK(nandlab_program(chip, 0, sevens, PAGE, NULL, 0));
    OK(nandlab_read(chip, 0, found, PAGE, NULL, 0, &corrected));
    CHECK(corrected > 0 && corrected <= 8 && !memcmp(found, sevens, PAGE));
    nandlab_chip_free(chip);
    description.ecc_bits = 0; /* The preset corrects one. */
    OK(nandlab_chip_new(&description, &chip));
    OK(nandlab_program(chip, 0, sevens, PAGE, NULL, 0));
    CHECK(nandlab_read(chip, 0, found, PAGE, NULL, 0, NULL) == NANDLAB_STATUS_UNCORRECTABLE);
    nandlab_chip_free(chip);
}

static void operations(void) {
    nandlab_chip *chip = new_chip();
    uint8_t spare[4] = {1, 2, 3, 4}, head[2], tail[2] = {8, 9};
    uint16_t corrected = 99;
    OK(nandlab_program(chip, 0, sevens, PAGE, spare, 4));
    OK(nandlab_read(chip, 0, found, PAGE, head, 2, &corrected));
    CHECK(!memcmp(found, sevens, PAGE) && head[0] == 1 && head[1] == 2 && corrected == 0);
    CHECK(nandlab_read(chip, 99, found, PAGE, NULL, 0, NULL) == NANDLAB_STATUS_OUT_OF_RANGE);
    CHECK(nandlab_read(chip, 0, found, 5, NULL, 0, NULL) == NANDLAB_STATUS_LENGTH);
    CHECK(nandlab_read(chip, 0, NULL, PAGE, NULL, 0, NULL) == NANDLAB_STATUS_ARGUMENT);
    OK(nandlab_program(chip, 1, NULL, 0, spare, 4));
    CHECK(nandlab_program(chip, 0, nines, PAGE, spare, 17) == NANDLAB_STATUS_LENGTH);
    OK(nandlab_copy(chip, 0, 8, head, 2, tail, 2));
    uint8_t copied[4];
    OK(nandlab_read(chip, 8, found, PAGE, copied, 4, NULL));
    CHECK(!memcmp(found, sevens, PAGE) && copied[1] == 2 && copied[2] == 8 && copied[3] == 9);
    CHECK(nandlab_copy(chip, 3, 9, head, 2, tail, 2) == NANDLAB_STATUS_ILLEGAL);
    OK(nandlab_erase(chip, 0));
    OK(nandlab_read(chip, 0, found, PAGE, NULL, 0, NULL));
    CHECK(found[0] == 0xff && found[PAGE - 1] == 0xff);
    CHECK(nandlab_erase(chip, 8) == NANDLAB_STATUS_OUT_OF_RANGE);
    bool bad = true;
    OK(nandlab_is_bad(chip, 3, &bad));
    CHECK(!bad);
    OK(nandlab_mark_bad(chip, 3));
    OK(nandlab_is_bad(chip, 3, &bad));
    CHECK(bad);
    CHECK(nandlab_erase(chip, 3) == NANDLAB_STATUS_BAD_BLOCK);
    CHECK(nandlab_is_bad(chip, 8, &bad) == NANDLAB_STATUS_OUT_OF_RANGE);
    CHECK(nandlab_mark_bad(chip, 8) == NANDLAB_STATUS_OUT_OF_RANGE);
    nandlab_counts counts;
    OK(nandlab_chip_counts(chip, &counts));
    CHECK(counts.programs == 1 && counts.oob_programs == 1 && counts.copies == 1);
    CHECK(counts.erases == 1 && counts.reads == 3 && counts.failures == 0);
    nandlab_chip_free(chip);
}

/* A program is posted: the caller pays for the bus, and a sync waits for the array. */
static void time_passes(void) {
    nandlab_chip *chip = new_chip();
    uint64_t issued, done, later;
    OK(nandlab_program(chip, 0, sevens, PAGE, NULL, 0));
    OK(nandlab_now(chip, &issued));
    OK(nandlab_sync(chip));
    OK(nandlab_now(chip, &done));
    CHECK(issued > 0 && done == issued + 200000);
    OK(nandlab_advance(chip, 5));
    OK(nandlab_now(chip, &later));
    CHECK(later == done + 5);
    CHECK(nandlab_advance(chip, UINT64_MAX) == NANDLAB_STATUS_ARGUMENT);
    nandlab_chip_free(chip);
}

static void power(void) {
    nandlab_chip *chip = new_chip();
    OK(nandlab_power_off(chip, 2));
    OK(nandlab_program(chip, 0, sevens, PAGE, NULL, 0));
    OK(nandlab_read(chip, 0, found, PAGE, NULL, 0, NULL));
    CHECK(nandlab_program(chip, 1, sevens, PAGE, NULL, 0) == NANDLAB_STATUS_POWER_CUT);
    CHECK(nandlab_sync(chip) == NANDLAB_STATUS_POWER_CUT);
    OK(nandlab_power_on(chip));
    OK(nandlab_read(chip, 1, found, PAGE, NULL, 0, NULL));
    CHECK(found[0] == 0xff);
    CHECK(nandlab_power_off(NULL, 0) == NANDLAB_STATUS_ARGUMENT);
    nandlab_chip_free(chip);
}

/* Blocks 0 and 1 lie on two dies. Only a fence orders their programs. */
static void fences(void) {
    for (int fenced = 0; fenced < 2; fenced++) {
        nandlab_chip *chip = new_chip();
        nandlab_log *log;
        nandlab_operation first, second;
        OK(nandlab_log_start(chip));
        OK(nandlab_program(chip, 0, sevens, PAGE, NULL, 0));
        if (fenced)
            OK(nandlab_fence(chip));
        OK(nandlab_program(chip, 4, sevens, PAGE, NULL, 0));
        OK(nandlab_log_take(chip, &log));
        OK(nandlab_log_get(log, 0, &first));
        OK(nandlab_log_get(log, 1, &second));
        CHECK((second.start >= first.end) == (fenced == 1));
        nandlab_log_free(log);
        nandlab_chip_free(chip);
    }
}

static uint8_t first_byte(nandlab_chip *chip, uint32_t page, nandlab_status *status) {
    *status = nandlab_read(chip, page, found, PAGE, NULL, 0, NULL);
    return found[0];
}

static void cuts(void) {
    nandlab_chip *chip = new_chip(), *before, *left = NULL;
    nandlab_log *log = NULL;
    nandlab_operation operation;
    nandlab_status status;
    size_t length;
    uint64_t moment;
    OK(nandlab_program(chip, 0, sevens, PAGE, NULL, 0));
    CHECK(nandlab_log_take(chip, &log) == NANDLAB_STATUS_NO_LOG && !log);
    OK(nandlab_sync(chip));
    OK(nandlab_chip_fork(chip, &before));
    OK(nandlab_log_start(chip));
    OK(nandlab_program(chip, 1, nines, PAGE, NULL, 0));
    OK(nandlab_erase(chip, 0));
    OK(nandlab_mark_bad(chip, 2));
    OK(nandlab_log_take(chip, &log));
    OK(nandlab_log_length(log, &length));
    CHECK(length == 3);
    OK(nandlab_log_get(log, 0, &operation));
    CHECK(operation.kind == NANDLAB_PROGRAM && operation.page == 1 && operation.block == 0);
    OK(nandlab_log_get(log, 1, &operation));
    CHECK(operation.kind == NANDLAB_ERASE && operation.block == 0);
    OK(nandlab_log_get(log, 2, &operation));
    CHECK(operation.kind == NANDLAB_MARK_BAD && operation.block == 2 && operation.page == 8);
    CHECK(nandlab_log_get(log, 3, &operation) == NANDLAB_STATUS_OUT_OF_RANGE);
    nandlab_cut cut = {0, NANDLAB_CUT_BEFORE, 0, 7};
    OK(nandlab_log_cut(before, log, &cut, &left, &moment));
    CHECK(first_byte(left, 0, &status) == 7 && first_byte(left, 1, &status) == 0xff);
    OK(nandlab_program(left, 1, nines, PAGE, NULL, 0));
    nandlab_chip_free(left);
    cut.phase = NANDLAB_CUT_AFTER;
    OK(nandlab_log_cut(before, log, &cut, &left, &moment));
    CHECK(first_byte(left, 0, &status) == 7 && first_byte(left, 1, &status) == 9);
    nandlab_chip_free(left);
    /* A torn program leaves the page whole, unreadable or blank, and not to be programmed. */
    unsigned torn = 0, unreadable = 0;
    cut.phase = NANDLAB_CUT_TORN;
    for (cut.word = 0; cut.word < 60; cut.word++) {
        OK(nandlab_log_cut(before, log, &cut, &left, NULL));
        CHECK(first_byte(left, 0, &status) == 7 && status == NANDLAB_STATUS_OK);
        first_byte(left, 1, &status);
        unreadable += status == NANDLAB_STATUS_UNCORRECTABLE;
        status = nandlab_program(left, 1, nines, PAGE, NULL, 0);
        torn += status == NANDLAB_STATUS_ILLEGAL;
        nandlab_chip_free(left);
    }
    CHECK(torn > unreadable && unreadable > 0 && torn < 60);
    cut = (nandlab_cut){2, NANDLAB_CUT_TORN, 0, 7};
    CHECK(nandlab_log_cut(before, log, &cut, &left, NULL) == NANDLAB_STATUS_NO_MOMENT);
    cut = (nandlab_cut){3, NANDLAB_CUT_BEFORE, 0, 7};
    CHECK(nandlab_log_cut(before, log, &cut, &left, NULL) == NANDLAB_STATUS_OUT_OF_RANGE);
    cut = (nandlab_cut){0, 9, 0, 7};
    CHECK(nandlab_log_cut(before, log, &cut, &left, NULL) == NANDLAB_STATUS_ARGUMENT);
    nandlab_description small = {.preset = "slc-2k", .blocks = 4};
    nandlab_chip *other;
    OK(nandlab_chip_new(&small, &other));
    cut.phase = NANDLAB_CUT_BEFORE;
    CHECK(nandlab_log_cut(other, log, &cut, &left, NULL) == NANDLAB_STATUS_ARGUMENT);
    CHECK(nandlab_log_replay(other, log, 0, 3) == NANDLAB_STATUS_ARGUMENT);
    CHECK(strstr(nandlab_last_error(), "another shape"));
    nandlab_chip_free(other);
    /* The whole log on the fork gives the chip after the run. */
    CHECK(nandlab_log_replay(before, log, 0, 4) == NANDLAB_STATUS_OUT_OF_RANGE);
    CHECK(nandlab_log_replay(before, log, 2, 1) == NANDLAB_STATUS_OUT_OF_RANGE);
    OK(nandlab_log_replay(before, log, 0, 3));
    bool bad = false;
    OK(nandlab_is_bad(before, 2, &bad));
    CHECK(bad && first_byte(before, 0, &status) == 0xff);
    nandlab_log_free(log);
    nandlab_log_free(NULL);
    nandlab_chip_free(before);
    nandlab_chip_free(chip);
}

int main(void) {
    memset(sevens, 7, PAGE);
    memset(nines, 9, PAGE);
    CHECK(!strcmp(nandlab_last_error(), ""));
    descriptions();
    failures();
    operations();
    time_passes();
    power();
    fences();
    cuts();
    puts("the door opens");
    return 0;
}
