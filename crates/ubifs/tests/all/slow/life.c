/* The life of a file system below the directory argv[1]. argv[2] is "tree": makes a tree; or
 * "later": changes it, fsyncs every change, makes the file argv[3] and stays with two deleted files
 * open. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define DO(call) do { if ((long)(call) < 0) { fprintf(stderr, "%s: %s\n", #call, strerror(errno)); exit(1); } } while (0)

static unsigned char buffer[1 << 20];

static void fill(unsigned seed, size_t len, int text)
{
    unsigned word = seed * 2654435761u + 1;
    for (size_t at = 0; at < len; at++) {
        word = word * 1664525u + 1013904223u;
        buffer[at] = text ? "a line of text, "[at % 16] + (at % 97 == 0) : word >> 24;
    }
}

static int file(const char *name, unsigned seed, size_t len)
{
    int fd;
    fill(seed, len, seed & 1);
    DO(fd = open(name, O_CREAT | O_RDWR | O_TRUNC, 0640));
    DO(write(fd, buffer, len));
    return fd;
}

static void synced(int fd)
{
    DO(fsync(fd));
    close(fd);
}

static void directory(const char *name)
{
    int fd;
    DO(fd = open(name, O_RDONLY | O_DIRECTORY));
    synced(fd);
}

static void tree(void)
{
    char name[300];
    struct timespec times[2] = {{1000000000, 123456789}, {-5, 987654321}};
    DO(mkdir("etc", 0755));
    DO(mkdir("many", 02755));
    DO(mkdir("deep", 0700));
    DO(mkdir("deep/deeper", 01777));
    DO(mkdir("empty", 0755));
    size_t lens[] = {0, 1, 100, 4095, 4096, 4097, 20000, 300001};
    for (unsigned at = 0; at < 16; at++) {
        sprintf(name, "etc/file %u", at);
        close(file(name, at, lens[at / 2]));
    }
    for (unsigned at = 0; at < 150; at++) {
        sprintf(name, "many/one of many names, number %u", at);
        close(file(name, at, at * 7));
    }
    for (unsigned at = 0; at < 12; at++) {
        sprintf(name, "open %u", at);
        close(file(name, at, 5000));
    }
    memset(name, 'n', 255);
    name[255] = 0;
    close(file(name, 3, 10));
    close(file("\xff\x80 no text", 4, 10));
    memset(name, 'x', 299);
    name[299] = 0;
    DO(symlink(name, "etc/long link"));
    DO(symlink("file 1", "etc/link"));
    DO(link("etc/file 13", "deep/a second name"));
    DO(link("etc/file 13", "deep/deeper/a third name"));
    DO(mknod("deep/many", S_IFBLK | 0660, makedev(300, 70000)));
    DO(mknod("deep/null", S_IFCHR | 0666, makedev(1, 3)));
    DO(mknod("deep/fifo", S_IFIFO | 0600, 0));
    DO(mknod("deep/socket", S_IFSOCK | 0600, 0));
    DO(chown("deep/null", 7, 3000000000u));
    int fd;
    DO(fd = open("sparse", O_CREAT | O_RDWR, 0644));
    fill(8, 9000, 0);
    DO(pwrite(fd, buffer, 9000, 8192));
    DO(pwrite(fd, buffer, 5000, 3000000ll));
    DO(ftruncate(fd, 3100000ll));
    close(fd);
    DO(utimensat(AT_FDCWD, "etc/file 5", times, 0));
    fill(9, 4000, 0);
    DO(setxattr("etc/file 1", "user.long", buffer, 4000, 0));
    DO(setxattr("etc/file 1", "user.short", "v", 1, 0));
    DO(setxattr("etc/file 1", "trusted.empty", "", 0, 0));
    DO(setxattr("deep", "user.of a directory", buffer, 300, 0));
    DO(setxattr("empty", "user.gone", buffer, 300, 0));
    DO(lsetxattr("etc/link", "trusted.of a link", buffer, 20, 0));
    close(file("tmp with attributes", 6, 4000));
    DO(setxattr("tmp with attributes", "user.one", buffer, 100, 0));
    DO(setxattr("tmp with attributes", "user.two", buffer, 200, 0));
}

static void later(void)
{
    char name[300];
    char to[300];
    int fd;
    for (unsigned at = 0; at < 150; at += 3) {
        sprintf(name, "many/one of many names, number %u", at);
        DO(unlink(name));
    }
    for (unsigned at = 1; at < 150; at += 6) {
        sprintf(name, "many/one of many names, number %u", at);
        sprintf(to, "many/one of many names, number %u", at + 1);
        DO(rename(name, to));
        sprintf(name, "deep/deeper/moved %u", at);
        DO(rename(to, name));
    }
    directory("many");
    directory("deep/deeper");
    DO(fd = open("etc/file 15", O_RDWR));
    DO(ftruncate(fd, 10000));
    DO(fsync(fd));
    DO(ftruncate(fd, 150000));
    fill(77, 3000, 0);
    DO(pwrite(fd, buffer, 3000, 70000));
    synced(fd);
    DO(fd = open("etc/file 14", O_RDWR));
    DO(ftruncate(fd, 4096 * 3 + 5));
    synced(fd);
    DO(fd = open("etc/file 12", O_RDWR | O_APPEND));
    DO(write(fd, buffer, 3000));
    synced(fd);
    DO(fd = open("sparse", O_RDWR));
    DO(ftruncate(fd, 3002000ll));
    synced(fd);
    for (unsigned at = 0; at < 30; at++)
        synced(file("written again and again", at, 3000 + at * 100));
    DO(rename("etc/file 2", "etc/file 3"));
    DO(renameat2(AT_FDCWD, "etc/file 4", AT_FDCWD, "etc/file 6", RENAME_EXCHANGE));
    DO(unlink("deep/a second name"));
    DO(link("etc/file 7", "deep/another name"));
    DO(unlink("etc/link"));
    DO(symlink("another target", "etc/link"));
    DO(removexattr("empty", "user.gone"));
    DO(rmdir("empty"));
    DO(unlink("tmp with attributes"));
    DO(setxattr("etc/file 1", "user.short", "another value", 13, XATTR_REPLACE));
    DO(removexattr("etc/file 1", "user.long"));
    DO(setxattr("etc/file 1", "user.new", "n", 1, XATTR_CREATE));
    DO(mkdir("new", 0755));
    DO(mkdir("new/in it", 0755));
    synced(file("new/in it/file", 5, 9000));
    DO(fd = open("new", O_TMPFILE | O_RDWR, 0600));
    DO(write(fd, "no name at first", 16));
    sprintf(name, "/proc/self/fd/%d", fd);
    DO(linkat(AT_FDCWD, name, AT_FDCWD, "new/named", AT_SYMLINK_FOLLOW));
    synced(fd);
    DO(fd = open("etc/file 1", O_RDONLY));
    synced(fd);
    directory("etc");
    directory("deep");
    directory("new");
    directory(".");
}

static void orphans(const char *ready)
{
    int fd;
    DO(open("open 1", O_RDWR));
    DO(unlink("open 1"));
    DO(fd = open("open 2", O_RDWR));
    DO(unlink("open 2"));
    DO(fd = open("open 2", O_CREAT | O_RDWR, 0600));
    DO(unlink("open 2"));
    DO(write(fd, "x", 1));
    DO(fsync(fd));
    synced(file("open 3", 9, 8000));
    directory(".");
    fd = open(ready, O_CREAT | O_WRONLY, 0600);
    close(fd);
    pause();
}

int main(int count, char **words)
{
    DO(chdir(words[1]));
    umask(0);
    if (!strcmp(words[2], "tree"))
        tree();
    if (!strcmp(words[2], "later"))
        later();
    if (!strcmp(words[2], "orphans"))
        orphans(words[3]);
    return 0;
}
