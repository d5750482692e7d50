# New volumes for what is measured. Written after measure.sh.

# ext3 BLOCK JOURNAL: a new ext3 on mtdblock0, with blocks of so many bytes and a journal of so many MiB.
ext3() {
    ! grep -q ' /mnt ' /proc/mounts || umount /mnt || exit 1
    /usr/sbin/mkfs.ext2 -q -F -b $1 -I 128 -O has_journal,^resize_inode,^dir_index -J size=$2 /dev/mtdblock0 >/tmp/made 2>&1 &&
        mount -t ext3 /dev/mtdblock0 /mnt || { cat /tmp/made; exit 1; }
}

# attached KEY MTD: attaches of UBI to the blank partition, formatted.
attached() {
    /usr/sbin/ubiformat /dev/mtd$2 -q -y -O 2048 && user $1 attach 15 /dev/ubi_ctrl $2 || exit 1
}
