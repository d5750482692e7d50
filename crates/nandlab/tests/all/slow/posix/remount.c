/* mount(2) and umount(2) for a program that mounts its file system anew: $REMOUNT does it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

typedef int Mount(const char *, const char *, const char *, unsigned long, const void *);

static int remount(const char *command) {
    if (system(command) == 0)
        return 0;
    errno = EIO;
    return -1;
}

/* FUSE holds a removed file until its server has answered the close, for which close(2) does not
 * wait. Until then the mount is busy. */
static int patient(Mount *real, const char *what, const char *at, const char *type,
                   unsigned long flags) {
    for (int turn = 0; turn < 1000; turn++) {
        if (real(what, at, type, flags, NULL) == 0)
            return 0;
        if (errno != EBUSY)
            return -1;
        usleep(10000);
    }
    return -1;
}

int umount(const char *at) {
    (void)at;
    return remount("exec \"$REMOUNT\" umount");
}

int mount(const char *what, const char *at, const char *type, unsigned long flags,
          const void *data) {
    Mount *real;
    (void)data;
    if (flags & MS_REMOUNT) {
        *(void **)&real = dlsym(RTLD_NEXT, "mount");
        return patient(real, what, at, type, flags);
    }
    if (flags & MS_RDONLY)
        return remount("exec \"$REMOUNT\" mount --read-only");
    return remount("exec \"$REMOUNT\" mount");
}
