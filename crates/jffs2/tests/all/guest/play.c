// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A program for the guest: plays calls from a list, or tells all extended attributes below a directory.
 *
 *   play calls DIR LIST [nandsim]   one call a line, see `call`; what may fail for want of room may fail. With `nandsim`, what the simulator logs is counted for each kind of call:
 *                                   a line `KIND CALLS PROGRAMS MARKERS ERASES` for each kind, MARKERS being the programs that follow an erase in a block's first page.
 *   play xattrs DIR                 `PATH NUL NAME NUL VALUE-IN-HEXADECIMAL NUL` for each attribute
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define BYTES_MAX (1 << 17)
#define BLOCKS_MAX 1024
#define PAGES_PER_BLOCK 64

static char data[BYTES_MAX];

static void fail(const char *what)
{
	fprintf(stderr, "play: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* The same bytes as the test's: words of splitmix64, as they are, each of 64 bytes again and again, or two bits of each byte. */
static void fill(uint64_t seed, size_t length)
{
	for (size_t at = 0; at < length; at++) {
		uint64_t word = (seed + at / 8 % (seed % 4 == 2 ? 8 : length) + 1) * 0x9E3779B97F4A7C15ull;

		word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9ull;
		word = (word ^ word >> 27) * 0x94D049BB133111EBull;
		word ^= word >> 31;
		data[at] = (word >> at % 8 * 8) & (seed % 4 == 3 ? 3 : 255);
	}
}

/* An open file, for one call. */
static int with(const char *path, int flags, int (*use)(int fd, const uint64_t *), const uint64_t *numbers)
{
	int fd = open(path, flags, 0644);
	int outcome = fd < 0 ? -1 : use(fd, numbers);
	int error = errno;

	if (fd >= 0)
		close(fd);
	errno = error;
	return outcome;
}

static int nothing(int fd, const uint64_t *numbers)
{
	return 0;
}

static int write_at(int fd, const uint64_t *numbers)
{
	ssize_t written;

	fill(numbers[2], numbers[1]);
	written = pwrite(fd, data, numbers[1], numbers[0]);
	/* Fewer bytes than asked for: there is no room for the others. */
	if (written >= 0 && written < (ssize_t)numbers[1])
		errno = ENOSPC;
	return written == (ssize_t)numbers[1] ? 0 : -1;
}

static int synced(int fd, const uint64_t *numbers)
{
	return fsync(fd);
}

static int attribute(const char *path, const char *name, const uint64_t *numbers)
{
	fill(numbers[1], numbers[0]);
	return setxattr(path, name, data, numbers[0], 0);
}

/* KIND PATH [PATH] [NUMBER ...] */
static int call(char *line)
{
	char *words[8] = { 0 }, *save = NULL;
	uint64_t numbers[4] = { 0 };
	int count = 0, two;

	for (char *word = strtok_r(line, " \n", &save); word && count < 8; word = strtok_r(NULL, " \n", &save))
		words[count++] = word;
	two = count > 0 && strchr("nlsa", words[0][0]) != NULL;
	for (int at = two ? 3 : 2; at < count; at++)
		numbers[at - (two ? 3 : 2)] = strtoull(words[at], NULL, 10);
	switch (words[0][0]) {
	case 'c': return with(words[1], O_CREAT | O_EXCL | O_WRONLY, nothing, numbers);
	case 'w': return with(words[1], O_WRONLY, write_at, numbers);
	case 'f': return with(words[1], O_RDONLY, synced, numbers);
	case 't': return truncate(words[1], numbers[0]);
	case 'u': return unlink(words[1]);
	case 'd': return mkdir(words[1], 0755);
	case 'm': return chmod(words[1], numbers[0]);
	case 'n': return rename(words[1], words[2]);
	case 'l': return link(words[1], words[2]);
	case 's': return symlink(words[2], words[1]);
	case 'a': return attribute(words[1], words[2], numbers);
	}
	errno = EINVAL;
	return -1;
}

struct tally {
	unsigned long calls, programs, markers, erases;
};

static char fresh[BLOCKS_MAX];

/* What the simulator has logged since; losing a line is a failure. */
static void count(int log, struct tally *tally)
{
	char record[8192];
	ssize_t bytes;

	while ((bytes = read(log, record, sizeof record - 1)) > 0) {
		char *at;

		record[bytes] = 0;
		if ((at = strstr(record, "log: erase sector "))) {
			unsigned block = atoi(at + 18);

			tally->erases++;
			if (block < BLOCKS_MAX)
				fresh[block] = 1;
		} else if ((at = strstr(record, "log: programm page "))) {
			unsigned page = atoi(at + 19), block = page / PAGES_PER_BLOCK;

			if (page % PAGES_PER_BLOCK == 0 && block < BLOCKS_MAX && fresh[block]) {
				fresh[block] = 0;
				tally->markers++;
			} else {
				tally->programs++;
			}
		}
	}
	if (errno != EAGAIN)
		fail("/dev/kmsg");
}

static int play(const char *dir, const char *list, int counted)
{
	static struct tally tallies[128];
	char line[4096], copy[4096];
	FILE *calls = fopen(list, "r");
	int log = counted ? open("/dev/kmsg", O_RDONLY | O_NONBLOCK) : -1;
	unsigned long refused = 0;

	if (!calls || chdir(dir))
		fail(list);
	if (counted && (log < 0 || lseek(log, 0, SEEK_END) < 0))
		fail("/dev/kmsg");
	while (fgets(line, sizeof line, calls)) {
		struct tally *tally = &tallies[line[0] & 127];

		strcpy(copy, line);
		tally->calls++;
		if (call(line)) {
			if (errno != ENOSPC)
				fail(copy);
			refused++;
		}
		if (counted)
			count(log, tally);
	}
	for (int kind = 0; counted && kind < 128; kind++)
		if (tallies[kind].calls)
			printf("%c %lu %lu %lu %lu\n", kind, tallies[kind].calls, tallies[kind].programs, tallies[kind].markers, tallies[kind].erases);
	if (!counted)
		printf("%lu\n", refused);
	return 0;
}

static int tell(const char *path, const struct stat *stat, int flag, struct FTW *ftw)
{
	static char names[65536];
	ssize_t bytes = llistxattr(path, names, sizeof names);

	if (bytes < 0)
		fail(path);
	for (char *name = names; name < names + bytes; name += strlen(name) + 1) {
		ssize_t length = lgetxattr(path, name, data, sizeof data);

		if (length < 0)
			fail(path);
		printf("%s%c%s%c", path, 0, name, 0);
		for (ssize_t at = 0; at < length; at++)
			printf("%02x", (unsigned char)data[at]);
		putchar(0);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "xattrs"))
		return chdir(argv[2]) || nftw(".", tell, 20, FTW_PHYS) ? (fail(argv[2]), 1) : 0;
	if (argc >= 4 && !strcmp(argv[1], "calls"))
		return play(argv[2], argv[3], argc > 4 && !strcmp(argv[4], "nandsim"));
	return 2;
}
