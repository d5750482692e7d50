// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Times system calls in ticks of the processor's clock: `timed WHAT COUNT PATH [BYTES]`, 512 bytes unless set otherwise. Prints one line a round, the ticks of its
 * calls in order; where mtdspy.c is loaded, then how many of them each call's flash took, and how many operations that was.
 *
 *   nothing    the clock alone
 *   append     write(2) of BYTES at the end of a file, fsync(2)
 *   overwrite  the same from the file's beginning, which must be there
 *   create     open(2) of a new file in the directory PATH, close(2), unlink(2)
 *   read       pread(2) of BYTES of a device, not through the page cache
 *   write      pwrite(2), likewise
 *   stream     write(2) of BYTES from the beginning of a file on, what standard input begins with, again and again
 *   pour       write(2) of BYTES from the beginning of a file on, what standard input holds
 *   reread     read(2) of BYTES from the beginning of a file on
 *   resize     ftruncate(2) of a new file PATH to BYTES; the file is removed
 *   attach     UBI attaches the MTD device of number BYTES, by the ioctl of PATH, and detaches it
 *   tick       what interrupts the program: COUNT gaps of the clock
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <mtd/ubi-user.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* An interrupt takes longer than GAP at any speed, a look at the clock does not. */
enum { ROUNDS_MAX = 16384, CALLS_MAX = 3, BYTES_MAX = 1 << 20, GAP = 2000 };

struct flash {
	uint64_t inside, operations;
};

static uint64_t ticks[ROUNDS_MAX][CALLS_MAX];
static struct flash flash[ROUNDS_MAX][CALLS_MAX];
static char block[BYTES_MAX] __attribute__((aligned(4096)));
static ssize_t bytes = 512;
static int inside_fd, operations_fd;

static uint64_t clock_ticks(void)
{
	return __builtin_ia32_rdtsc();
}

static void must(int fine, const char *what)
{
	if (!fine) {
		perror(what);
		exit(1);
	}
}

static uint64_t number_in(int fd)
{
	char text[32] = "";

	return fd >= 0 && pread(fd, text, sizeof(text) - 1, 0) > 0 ? strtoull(text, NULL, 10) : 0;
}

static struct flash flash_now(void)
{
	return (struct flash){ number_in(inside_fd), number_in(operations_fd) };
}

static struct flash flash_since(struct flash before)
{
	struct flash now = flash_now();

	return (struct flash){ now.inside - before.inside, now.operations - before.operations };
}

/* Evaluates `call`, which must be `expected`, as a round's call number `n`. */
#define TIMED(round, n, call, expected)                          \
	do {                                                     \
		struct flash before = flash_now();               \
		uint64_t start = clock_ticks();                  \
		long result = (call);                            \
		ticks[round][n] = clock_ticks() - start;         \
		flash[round][n] = flash_since(before);           \
		must((expected), #call);                         \
	} while (0)

static int open_or_die(const char *path, int flags)
{
	int fd = open(path, flags, 0644);

	must(fd >= 0, path);
	return fd;
}

static int nothing(unsigned count, const char *path)
{
	(void)path;
	for (unsigned i = 0; i < count; i++)
		TIMED(i, 0, 0, result == 0);
	return 1;
}

static int written_and_synced(unsigned count, const char *path, int flags)
{
	int fd = open_or_die(path, O_WRONLY | O_CREAT | flags);

	for (unsigned i = 0; i < count; i++) {
		memset(block, 'a' + i % 26, bytes);
		TIMED(i, 0, write(fd, block, bytes), result == bytes);
		TIMED(i, 1, fsync(fd), result == 0);
	}
	close(fd);
	return 2;
}

static int append(unsigned count, const char *path)
{
	return written_and_synced(count, path, O_APPEND);
}

static int overwrite(unsigned count, const char *path)
{
	return written_and_synced(count, path, 0);
}

static int create(unsigned count, const char *path)
{
	char name[4096];

	snprintf(name, sizeof(name), "%s/FILE.TXT", path);
	for (unsigned i = 0; i < count; i++) {
		int fd;

		TIMED(i, 0, fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644), result >= 0);
		TIMED(i, 1, close(fd), result == 0);
		TIMED(i, 2, unlink(name), result == 0);
	}
	return 3;
}

static int read_device(unsigned count, const char *path)
{
	int fd = open_or_die(path, O_RDONLY | O_DIRECT);

	for (unsigned i = 0; i < count; i++)
		TIMED(i, 0, pread(fd, block, bytes, (off_t)i * bytes), result == bytes);
	close(fd);
	return 1;
}

static int write_device(unsigned count, const char *path)
{
	int fd = open_or_die(path, O_WRONLY | O_DIRECT);

	for (unsigned i = 0; i < count; i++)
		TIMED(i, 0, pwrite(fd, block, bytes, (off_t)i * bytes), result == bytes);
	close(fd);
	return 1;
}

/* Fills the block with what standard input begins with, repeated. */
static void take_block(void)
{
	ssize_t got = read(0, block, bytes);

	must(got > 0, "standard input");
	for (ssize_t i = got; i < bytes; i++)
		block[i] = block[i - got];
}

static int stream(unsigned count, const char *path)
{
	int fd = open_or_die(path, O_WRONLY | O_CREAT);

	take_block();
	for (unsigned i = 0; i < count; i++)
		TIMED(i, 0, write(fd, block, bytes), result == bytes);
	close(fd);
	return 1;
}

static int pour(unsigned count, const char *path)
{
	int fd = open_or_die(path, O_WRONLY | O_CREAT);

	for (unsigned i = 0; i < count; i++) {
		must(read(0, block, bytes) == bytes, "standard input");
		TIMED(i, 0, write(fd, block, bytes), result == bytes);
	}
	close(fd);
	return 1;
}

static int reread(unsigned count, const char *path)
{
	int fd = open_or_die(path, O_RDONLY);

	for (unsigned i = 0; i < count; i++)
		TIMED(i, 0, read(fd, block, bytes), result == bytes);
	close(fd);
	return 1;
}

static int resize(unsigned count, const char *path)
{
	for (unsigned i = 0; i < count; i++) {
		int fd = open_or_die(path, O_WRONLY | O_CREAT | O_EXCL);

		TIMED(i, 0, ftruncate(fd, bytes), result == 0);
		close(fd);
		must(unlink(path) == 0, path);
	}
	return 1;
}

static int attach(unsigned count, const char *path)
{
	int fd = open_or_die(path, O_RDONLY);

	for (unsigned i = 0; i < count; i++) {
		struct ubi_attach_req req = { .ubi_num = 0, .mtd_num = bytes, .vid_hdr_offset = 2048 };
		int32_t number = 0;

		TIMED(i, 0, ioctl(fd, UBI_IOCATT, &req), result == 0);
		must(ioctl(fd, UBI_IOCDET, &number) == 0, "detach");
	}
	close(fd);
	return 1;
}

static int tick(unsigned count, const char *path)
{
	uint64_t last = clock_ticks();

	(void)path;
	for (unsigned i = 0; i < count;) {
		uint64_t now = clock_ticks();

		if (now - last > GAP)
			ticks[i++][0] = now - last;
		last = now;
	}
	return 1;
}

static const struct {
	const char *name;
	int (*run)(unsigned count, const char *path);
} whats[] = {
	{ "nothing", nothing },
	{ "append", append },
	{ "overwrite", overwrite },
	{ "create", create },
	{ "read", read_device },
	{ "write", write_device },
	{ "stream", stream },
	{ "pour", pour },
	{ "reread", reread },
	{ "resize", resize },
	{ "attach", attach },
	{ "tick", tick },
};

static int spied(void)
{
	return inside_fd >= 0 && operations_fd >= 0;
}

static void print(unsigned count, int calls)
{
	for (unsigned i = 0; i < count; i++) {
		for (int c = 0; c < calls; c++)
			printf("%s%llu", c ? " " : "", (unsigned long long)ticks[i][c]);
		for (int c = 0; spied() && c < calls; c++)
			printf(" %llu %llu", (unsigned long long)flash[i][c].inside, (unsigned long long)flash[i][c].operations);
		printf("\n");
	}
}

int main(int argc, char **argv)
{
	unsigned count = argc == 4 || argc == 5 ? strtoul(argv[2], NULL, 10) : 0;

	if (argc == 5)
		bytes = strtoul(argv[4], NULL, 10);
	inside_fd = open("/sys/module/mtdspy/parameters/inside", O_RDONLY);
	operations_fd = open("/sys/module/mtdspy/parameters/operations", O_RDONLY);
	/* Touched before, so that no round meets a page fault. */
	memset(ticks, 0xff, sizeof(ticks));
	memset(flash, 0xff, sizeof(flash));
	memset(block, 0xff, sizeof(block));
	if (count > ROUNDS_MAX || bytes <= 0 || bytes > BYTES_MAX)
		count = 0;
	for (unsigned w = 0; count > 0 && w < sizeof(whats) / sizeof(whats[0]); w++) {
		if (strcmp(argv[1], whats[w].name))
			continue;
		print(count, whats[w].run(count, argv[3]));
		return fflush(stdout) ? 1 : 0;
	}
	fprintf(stderr, "usage: timed WHAT COUNT PATH [BYTES]; at most %d times %d bytes\n", ROUNDS_MAX, BYTES_MAX);
	return 2;
}
