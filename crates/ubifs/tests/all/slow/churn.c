/* Random operations on a file system that stays nearly full: churn DIRECTORY COUNT SEED. Prints
 * how many operations succeeded, how many lacked space, and the operations until the file system
 * became read-only, if it did. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { DIRECTORIES = 5, FILES = 40, LONGEST = 60000 };

static unsigned long long state;
static unsigned char buffer[LONGEST];
static long done, lacking;

static unsigned below(unsigned bound)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % bound;
}

/* Ends at an error that no operation here may have. */
static long judged(const char *what, long outcome)
{
    if (outcome >= 0) {
        done++;
        return outcome;
    }
    switch (errno) {
    case ENOSPC:
        lacking++;
    case ENOENT: case EEXIST: case ENOTEMPTY: case EISDIR: case ENOTDIR: case ENODATA:
    case EINVAL: case EROFS: case EIO:
        return outcome;
    }
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

#define DO(call) judged(#call, call)

static char *name(void)
{
    static char names[4][64];
    static unsigned next;
    char *at = names[next++ % 4];
    sprintf(at, "d%u/file number %u", below(DIRECTORIES), below(FILES));
    return at;
}

/* Every second piece of text packs well, the others do not. */
static unsigned contents(unsigned most)
{
    unsigned len = 1 + below(most), is_text = below(2), word = below(1u << 31);
    for (unsigned at = 0; at < len; at++) {
        word = word * 1664525u + 1013904223u;
        buffer[at] = is_text ? "a line of text, "[at % 16] + (at % 97 == 0) : word >> 24;
    }
    return len;
}

static void put(const char *path, int flags, unsigned most, unsigned place)
{
    int fd = DO(open(path, O_WRONLY | flags, 0640));
    if (fd < 0)
        return;
    if (place)
        DO(lseek(fd, below(place), SEEK_SET));
    unsigned len = contents(most);
    DO(write(fd, buffer, len));
    if (below(12) == 0)
        DO(fsync(fd));
    close(fd);
}

static void attribute(const char *path)
{
    char key[32];
    sprintf(key, "user.key %u", below(6));
    if (below(3))
        DO(setxattr(path, key, buffer, contents(600), 0));
    else
        DO(removexattr(path, key));
}

static void directory(void)
{
    char path[32];
    sprintf(path, "d%u/below %u", below(DIRECTORIES), below(4));
    if (below(2))
        DO(mkdir(path, 0755));
    else
        DO(rmdir(path));
}

static void operation(void)
{
    unsigned turn = below(100);
    if (turn < 20)
        put(name(), O_CREAT | O_TRUNC, 30000, 0);
    else if (turn < 40)
        put(name(), 0, 9000, 60000);
    else if (turn < 48)
        put(name(), O_CREAT | O_APPEND, 5000, 0);
    else if (turn < 56)
        DO(truncate(name(), below(90000)));
    else if (turn < 68)
        DO(unlink(name()));
    else if (turn < 76)
        DO(rename(name(), name()));
    else if (turn < 79)
        DO(renameat2(AT_FDCWD, name(), AT_FDCWD, name(), RENAME_EXCHANGE));
    else if (turn < 82)
        DO(link(name(), name()));
    else if (turn < 85)
        DO(symlink("a target of a link", name()));
    else if (turn < 91)
        attribute(name());
    else if (turn < 94)
        DO(chmod(name(), below(01000)));
    else if (turn < 98)
        directory();
    else if (turn < 99)
        sync();
}

static int is_read_only(void)
{
    int fd = open("probe", O_CREAT | O_WRONLY, 0600);
    if (fd >= 0)
        close(fd);
    return fd < 0 && errno == EROFS;
}

/* Keeps between a 32nd and a sixteenth of the space free. */
static void fill(void)
{
    struct statvfs at;
    char path[32];
    for (int turn = 0; turn < 1000; turn++) {
        DO(statvfs(".", &at));
        sprintf(path, "ballast %u", below(400));
        if (at.f_bavail < at.f_blocks / 32) {
            unlink(path);
            unlink(name());
        } else if (at.f_bavail > at.f_blocks / 16) {
            put(path, O_CREAT | O_APPEND, LONGEST, 0);
        } else {
            return;
        }
        if (is_read_only())
            return;
    }
}

int main(int count, char **words)
{
    long most = atol(words[2]), turn;
    state = strtoull(words[3], 0, 10) * 0x9E3779B97F4A7C15ull + 1;
    if (chdir(words[1]))
        return 1;
    fill();
    for (int at = 0; at < DIRECTORIES; at++) {
        char path[8];
        sprintf(path, "d%d", at);
        mkdir(path, 0755);
    }
    for (turn = 0; turn < most; turn++) {
        operation();
        fill();
        if (turn % 16 == 0 && is_read_only())
            break;
    }
    printf("%ld operations, %ld succeeded, %ld lacked space\n", turn, done, lacking);
    return 0;
}
