// SPDX-License-Identifier: MIT OR Apache-2.0
/* For the guest: tells all extended attributes below a directory, each as `PATH NUL NAME NUL VALUE-IN-HEXADECIMAL NUL`. */
#define _GNU_SOURCE
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

static int tell(const char *path, const struct stat *stat, int flag, struct FTW *ftw)
{
	static char names[65536], value[65536];
	ssize_t bytes = llistxattr(path, names, sizeof names);

	if (bytes < 0)
		return -1;
	for (const char *name = names; name < names + bytes; name += strlen(name) + 1) {
		ssize_t length = lgetxattr(path, name, value, sizeof value);

		if (length < 0)
			return -1;
		printf("%s%c%s%c", path, 0, name, 0);
		for (ssize_t at = 0; at < length; at++)
			printf("%02x", (unsigned char)value[at]);
		putchar(0);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 2 || chdir(argv[1]) || nftw(".", tell, 20, FTW_PHYS)) {
		perror("xattrs");
		return 1;
	}
	return 0;
}
