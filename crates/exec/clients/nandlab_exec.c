/*
 * nandlab's protocol for programs; nandlab's documentation of the crate nandlab-exec describes it.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#define _GNU_SOURCE
#include "nandlab_exec.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER, HELLO, FORMAT, ATTACH, READ, WRITE, FLUSH };
enum { STAT = 32, LIST, CREATE, READ_FILE, WRITE_FILE, TRUNCATE, RENAME, REMOVE, SYNC, SPACE };
enum { FILE_KIND = 1, DIRECTORY_KIND };
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

/* The answer to a call. */
struct answer {
    uint32_t status, first, second;
    size_t length; /* of the bytes, which lie in `given` */
};

/* What the program serves: one of the two. */
static const nandlab_layer *layer;
static const nandlab_files *files;

/* A list under way: the names to skip, and those that fit into `given`. */
static struct {
    uint32_t skip;
    size_t length;
    bool full;
} list;
static uint8_t given[1 << 17];

void nandlab_entry(const char *name, bool directory)
{
    size_t length = strlen(name) + 2;
    if (list.skip) {
        list.skip--;
    } else if (list.full || length > (sizeof given >> 1) - list.length) {
        list.full = true;
    } else {
        given[list.length] = directory ? DIRECTORY_KIND : FILE_KIND;
        memcpy(given + list.length + 1, name, length - 1);
        list.length += length;
    }
}

static struct answer serve_layer(nandlab_chip *chip, uint32_t kind, uint32_t page, uint8_t *bytes)
{
    struct answer a = {0};
    if (kind == FORMAT || kind == ATTACH) {
        a.first = (kind == FORMAT ? layer->format : layer->attach)(chip);
        a.status = a.first ? NANDLAB_STATUS_OK : NANDLAB_STATUS_INTERNAL;
    } else if (kind == READ) {
        if (chip->shape.page > sizeof given)
            _exit(1);
        a.length = chip->shape.page;
        memset(given, 0, a.length);
        a.status = layer->read(chip, page, given);
    } else if (kind == WRITE) {
        a.status = layer->write(chip, page, bytes);
    } else if (kind == FLUSH) {
        a.status = layer->flush(chip);
    } else {
        a.status = NANDLAB_STATUS_ARGUMENT;
    }
    return a;
}

/* `bytes` end with NUL, and have space for one more. */
static struct answer serve_files(nandlab_chip *chip, uint32_t kind, uint32_t first, uint32_t second,
                                 uint8_t *bytes, size_t length)
{
    struct answer a = {0};
    const char *path = (char *)bytes;
    uint8_t *rest = bytes; /* what stands behind the path */
    if (kind == WRITE_FILE || kind == RENAME) {
        size_t ends = kind == RENAME ? first : second;
        if (ends > length)
            _exit(1);
        rest = bytes + ends + 1;
        memmove(rest, bytes + ends, length + 1 - ends);
        bytes[ends] = 0;
        length -= ends;
    }
    bool directory = false;
    switch (kind) {
    case FORMAT: a.status = files->format(chip); break;
    case ATTACH: a.status = files->mount(chip); break;
    case STAT:
        a.status = files->stat(chip, path, &directory, &a.second);
        a.first = directory ? DIRECTORY_KIND : FILE_KIND;
        break;
    case LIST:
        list.skip = first, list.length = 0, list.full = false;
        a.status = files->list(chip, path);
        a.length = list.length;
        break;
    case CREATE: a.status = files->create(chip, path, first == DIRECTORY_KIND); break;
    case READ_FILE:
        if (second > sizeof given)
            _exit(1);
        a.status = files->read(chip, path, first, given, &second);
        a.length = second;
        break;
    case WRITE_FILE: a.status = files->write(chip, path, first, rest, length); break;
    case TRUNCATE: a.status = files->truncate(chip, path, first); break;
    case RENAME: a.status = files->rename(chip, path, (char *)rest); break;
    case REMOVE: a.status = files->remove(chip, path); break;
    case SYNC: a.status = files->sync(chip, path); break;
    case SPACE: a.status = files->space(chip, &a.first, &a.second); break;
    default: a.status = ENOSYS;
    }
    return a;
}

/* Serves one chip until the power goes. */
static void serve(int socket)
{
    nandlab_chip chip = {.socket = socket};
    put(socket, HELLO, getpid(), 0, 0, 0);
    for (;;) {
        size_t length = get(socket);
        uint32_t kind = now.kind, first = now.arguments[0], second = now.arguments[1];
        if (kind == FORMAT || kind == ATTACH)
            memcpy(&chip.shape, now.bytes, sizeof chip.shape);
        uint8_t *bytes = malloc(length + 2);
        if (!bytes)
            _exit(1);
        memcpy(bytes, now.bytes, length);
        bytes[length] = 0;
        reason[0] = 0;
        struct answer a = layer ? serve_layer(&chip, kind, first, bytes)
                                : serve_files(&chip, kind, first, second, bytes, length);
        if (a.status != 0) {
            a.length = strlen(reason);
            memcpy(given, reason, a.length);
        }
        memcpy(now.bytes, given, a.length);
        put(socket, ANSWER, a.status, a.first, a.second, a.length);
        free(bytes);
    }
}

static int serve_all(void)
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
            serve(socket);
        }
        close(socket);
    }
}

int nandlab_exec(const nandlab_layer *served)
{
    layer = served;
    return serve_all();
}

int nandlab_exec_files(const nandlab_files *served)
{
    files = served;
    return serve_all();
}
