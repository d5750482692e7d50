/*
 * nandlab's protocol for programs; nandlab's documentation of the crate nandlab-exec describes it.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#define _GNU_SOURCE
#include "nandlab_exec.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER, HELLO, FORMAT, ATTACH, READ, WRITE, FLUSH };
enum { CHIP_READ = 16, CHIP_PROGRAM, CHIP_COPY, CHIP_ERASE, CHIP_IS_BAD, CHIP_MARK_BAD, CHIP_SYNC,
       CHIP_FENCE, CHIP_TIME, CHIP_ADVANCE };

struct nandlab_chip {
    int socket;
    nandlab_geometry shape;
};

/* A message. The protocol is little-endian, and so are the machines that run nandlab. */
static struct message {
    uint32_t kind, arguments[3];
    uint8_t bytes[1 << 18];
} now;
static char reason[256];

#define HEAD (sizeof now - sizeof now.bytes)

/* Sends `now` with so many bytes. A nandlab that is gone took the power away. */
static void put(int to, uint32_t kind, uint32_t first, uint32_t second, uint32_t third, size_t length)
{
    now.kind = kind;
    now.arguments[0] = first, now.arguments[1] = second, now.arguments[2] = third;
    if (send(to, &now, HEAD + length, MSG_NOSIGNAL) < 0)
        _exit(0);
}

/* Receives into `now`, and returns the bytes behind the head. */
static size_t get(int from)
{
    ssize_t length = recv(from, &now, sizeof now, 0);
    if (length < (ssize_t)HEAD)
        _exit(0);
    return length - HEAD;
}

static nandlab_status ask(const nandlab_chip *chip, uint32_t kind, uint32_t first, uint32_t second,
                          uint32_t third, size_t length)
{
    put(chip->socket, kind, first, second, third, length);
    get(chip->socket);
    return now.arguments[0];
}

nandlab_status nandlab_chip_geometry(const nandlab_chip *chip, nandlab_geometry *geometry)
{
    *geometry = chip->shape;
    return NANDLAB_STATUS_OK;
}

nandlab_status nandlab_read(nandlab_chip *chip, uint32_t page, uint8_t *data, size_t data_length,
                            uint8_t *oob, size_t oob_length, uint16_t *corrected)
{
    nandlab_status status = ask(chip, CHIP_READ, page, data_length, oob_length, 0);
    if (status == NANDLAB_STATUS_OK || status == NANDLAB_STATUS_UNCORRECTABLE) {
        if (data_length)
            memcpy(data, now.bytes, data_length);
        if (oob_length)
            memcpy(oob, now.bytes + data_length, oob_length);
    }
    if (corrected)
        *corrected = now.arguments[1];
    return status;
}

nandlab_status nandlab_program(nandlab_chip *chip, uint32_t page, const uint8_t *data,
                               size_t data_length, const uint8_t *oob, size_t oob_length)
{
    if (data_length > chip->shape.page || oob_length > chip->shape.oob)
        return NANDLAB_STATUS_LENGTH;
    if (data_length)
        memcpy(now.bytes, data, data_length);
    if (oob_length)
        memcpy(now.bytes + data_length, oob, oob_length);
    return ask(chip, CHIP_PROGRAM, page, data_length, oob_length, data_length + oob_length);
}

nandlab_status nandlab_copy(nandlab_chip *chip, uint32_t from, uint32_t to, uint8_t *head,
                            size_t head_length, const uint8_t *tail, size_t tail_length)
{
    if (head_length + tail_length > chip->shape.oob)
        return NANDLAB_STATUS_LENGTH;
    if (tail_length)
        memcpy(now.bytes, tail, tail_length);
    nandlab_status status = ask(chip, CHIP_COPY, from, to, head_length, tail_length);
    if (status == NANDLAB_STATUS_OK && head_length)
        memcpy(head, now.bytes, head_length);
    return status;
}

nandlab_status nandlab_erase(nandlab_chip *chip, uint32_t block)
{
    return ask(chip, CHIP_ERASE, block, 0, 0, 0);
}

nandlab_status nandlab_is_bad(nandlab_chip *chip, uint32_t block, bool *bad)
{
    nandlab_status status = ask(chip, CHIP_IS_BAD, block, 0, 0, 0);
    *bad = now.arguments[1];
    return status;
}

nandlab_status nandlab_mark_bad(nandlab_chip *chip, uint32_t block)
{
    return ask(chip, CHIP_MARK_BAD, block, 0, 0, 0);
}

nandlab_status nandlab_sync(nandlab_chip *chip)
{
    return ask(chip, CHIP_SYNC, 0, 0, 0, 0);
}

nandlab_status nandlab_fence(nandlab_chip *chip)
{
    return ask(chip, CHIP_FENCE, 0, 0, 0, 0);
}

nandlab_status nandlab_now(const nandlab_chip *chip, uint64_t *nanoseconds)
{
    nandlab_status status = ask(chip, CHIP_TIME, 0, 0, 0, 0);
    *nanoseconds = (uint64_t)now.arguments[2] << 32 | now.arguments[1];
    return status;
}

nandlab_status nandlab_advance(nandlab_chip *chip, uint64_t nanoseconds)
{
    return ask(chip, CHIP_ADVANCE, nanoseconds, nanoseconds >> 32, 0, 0);
}

void nandlab_explain(const char *why)
{
    snprintf(reason, sizeof reason, "%s", why);
}

static void answer(nandlab_chip *chip, nandlab_status status, uint32_t pages, size_t length)
{
    if (status != NANDLAB_STATUS_OK) {
        length = strlen(reason);
        memcpy(now.bytes, reason, length);
    }
    put(chip->socket, ANSWER, status, pages, 0, length);
}

/* Serves one layer until the power goes. */
static void serve(const nandlab_layer *layer, int socket)
{
    nandlab_chip chip = {.socket = socket};
    put(socket, HELLO, getpid(), 0, 0, 0);
    for (;;) {
        size_t length = get(socket);
        uint32_t kind = now.kind, page = now.arguments[0], pages = 0;
        if (kind == FORMAT || kind == ATTACH)
            memcpy(&chip.shape, now.bytes, sizeof chip.shape);
        size_t page_length = chip.shape.page;
        uint8_t *data = calloc(1, page_length > length ? page_length : length + 1);
        if (!data || (kind == READ && page_length > sizeof now.bytes))
            _exit(1);
        memcpy(data, now.bytes, length);
        reason[0] = 0;
        nandlab_status status = NANDLAB_STATUS_OK;
        size_t sent = 0;
        if (kind == FORMAT || kind == ATTACH) {
            pages = (kind == FORMAT ? layer->format : layer->attach)(&chip);
            status = pages ? NANDLAB_STATUS_OK : NANDLAB_STATUS_INTERNAL;
        } else if (kind == READ) {
            status = layer->read(&chip, page, data);
            memcpy(now.bytes, data, sent = page_length);
        } else if (kind == WRITE)
            status = layer->write(&chip, page, data);
        else if (kind == FLUSH)
            status = layer->flush(&chip);
        else
            status = NANDLAB_STATUS_ARGUMENT;
        answer(&chip, status, pages, sent);
        free(data);
    }
}

int nandlab_exec(const nandlab_layer *layer)
{
    signal(SIGCHLD, SIG_IGN); /* A child that ended leaves nothing to be waited for. */
    for (;;) {
        char version = 0;
        struct iovec part = {.iov_base = &version, .iov_len = 1};
        union {
            char bytes[CMSG_SPACE(sizeof(int))];
            struct cmsghdr aligned;
        } control;
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                                 .msg_controllen = sizeof control};
        ssize_t got = recvmsg(0, &message, 0);
        struct cmsghdr *carried = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
        if (got == 0)
            return 0;
        if (got < 0 || version != 1 || !carried || carried->cmsg_type != SCM_RIGHTS) {
            fprintf(stderr, "standard input is no socket of nandlab; run `nandlab crash --exec`\n");
            return 2;
        }
        int socket;
        memcpy(&socket, CMSG_DATA(carried), sizeof socket);
        if (fork() == 0) {
            close(0);
            serve(layer, socket);
        }
        close(socket);
    }
}
