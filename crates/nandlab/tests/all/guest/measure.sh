# Measures a path and sends its lines: `costs.c` in the kernel, `timed.c` from outside. Written after nftl.sh.

# kernel KEY PATH COUNT [FIRST STEP]: in the kernel, see costs.c.
kernel() {
    local key=$1
    shift
    kernel_each $key "$*"
}

# kernel_each KEY COMMAND...: several such paths in turn, their lines under one key.
kernel_each() {
    local key=$1 command
    shift
    : >/tmp/lines
    for command; do
        echo "$command" >/dev/costs && cat /dev/costs >>/tmp/lines || { echo "$key failed"; exit 1; }
    done
    send $key /tmp/lines || { echo "$key failed"; exit 1; }
}

# user KEY WHAT COUNT PATH: system calls, see timed.c.
user() {
    local key=$1
    shift
    /timed "$@" >/tmp/lines && send $key /tmp/lines || { echo "$key failed"; exit 1; }
}

# spy MTD: the flash is measured from now on, until the next spy.
spy() {
    [ -d /sys/module/mtdspy ] && { rmmod mtdspy || exit 1; }
    /usr/sbin/flash_erase -q -j /dev/mtd$1 0 0 >/dev/null && insmod /mtdspy.ko mtd=$1 || { echo "no spy on mtd$1"; exit 1; }
}

# empty MTD OPTION: a new JFFS2 on a measured flash.
empty() {
    ! grep -q ' /mnt jffs2 ' /proc/mounts || umount /mnt || exit 1
    spy $1 && mount -t jffs2 -o $2 mtd$1 /mnt || { echo "mtd$1 was not mounted"; exit 1; }
}
