/* mount(2) and umount(2) for a program that mounts its file system anew: $REMOUNT does it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mount.h>

static int remount(const char *command) {
    if (system(command) == 0)
        return 0;
    errno = EIO;
    return -1;
}

int umount(const char *at) {
    (void)at;
    return remount("exec \"$REMOUNT\" umount");
}

int mount(const char *what, const char *at, const char *type, unsigned long flags,
          const void *data) {
    int (*real)(const char *, const char *, const char *, unsigned long, const void *);
    (void)data;
    if (flags & MS_REMOUNT) {
        *(void **)&real = dlsym(RTLD_NEXT, "mount");
        return real(what, at, type, flags, NULL);
    }
    if (flags & MS_RDONLY)
        return remount("exec \"$REMOUNT\" mount --read-only");
    return remount("exec \"$REMOUNT\" mount");
}
