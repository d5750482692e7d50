// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Times system calls in ticks of the processor's clock: `timed WHAT COUNT PATH`. Prints one line a round, the ticks of its calls in order.
 *
 *   nothing    the clock alone
 *   append     write(2) of 512 bytes at the end of a file, fsync(2)
 *   overwrite  the same from the file's beginning, which must be there
 *   create     open(2) of a new file in the directory PATH, close(2), unlink(2)
 *   read       pread(2) of one sector of a device, not through the page cache
 *   write      pwrite(2), likewise
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS_MAX = 16384, CALLS_MAX = 3, SECTOR = 512 };

static uint64_t ticks[ROUNDS_MAX][CALLS_MAX];
static char sector[SECTOR] __attribute__((aligned(4096)));

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

/* Evaluates `call`, which must be `expected`, and stores its ticks. */
#define TIMED(slot, call, expected)                              \
	do {                                                     \
		uint64_t start = clock_ticks();                  \
		long result = (call);                            \
		(slot) = clock_ticks() - start;                  \
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
		TIMED(ticks[i][0], 0, result == 0);
	return 1;
}

static int written_and_synced(unsigned count, const char *path, int flags)
{
	int fd = open_or_die(path, O_WRONLY | O_CREAT | flags);

	for (unsigned i = 0; i < count; i++) {
		memset(sector, 'a' + i % 26, SECTOR);
		TIMED(ticks[i][0], write(fd, sector, SECTOR), result == SECTOR);
		TIMED(ticks[i][1], fsync(fd), result == 0);
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

		TIMED(ticks[i][0], fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644), result >= 0);
		TIMED(ticks[i][1], close(fd), result == 0);
		TIMED(ticks[i][2], unlink(name), result == 0);
	}
	return 3;
}

static int read_device(unsigned count, const char *path)
{
	int fd = open_or_die(path, O_RDONLY | O_DIRECT);

	for (unsigned i = 0; i < count; i++)
		TIMED(ticks[i][0], pread(fd, sector, SECTOR, (off_t)i * SECTOR), result == SECTOR);
	close(fd);
	return 1;
}

static int write_device(unsigned count, const char *path)
{
	int fd = open_or_die(path, O_WRONLY | O_DIRECT);

	for (unsigned i = 0; i < count; i++)
		TIMED(ticks[i][0], pwrite(fd, sector, SECTOR, (off_t)i * SECTOR), result == SECTOR);
	close(fd);
	return 1;
}

static const struct {
	const char *name;
	int (*run)(unsigned count, const char *path);
} whats[] = {
	{ "nothing", nothing }, { "append", append },    { "overwrite", overwrite },
	{ "create", create },   { "read", read_device }, { "write", write_device },
};

int main(int argc, char **argv)
{
	unsigned count = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;

	/* Touched before, so that no round meets a page fault. */
	memset(ticks, 0xff, sizeof(ticks));
	for (unsigned w = 0; count > 0 && count <= ROUNDS_MAX && w < sizeof(whats) / sizeof(whats[0]); w++) {
		if (strcmp(argv[1], whats[w].name))
			continue;
		int calls = whats[w].run(count, argv[3]);

		for (unsigned i = 0; i < count; i++)
			for (int c = 0; c < calls; c++)
				printf("%llu%c", (unsigned long long)ticks[i][c], c + 1 < calls ? ' ' : '\n');
		return fflush(stdout) ? 1 : 0;
	}
	fprintf(stderr, "usage: timed nothing|append|overwrite|create|read|write COUNT PATH\n");
	return 2;
}
