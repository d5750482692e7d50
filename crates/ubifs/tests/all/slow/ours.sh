# Shell: the kernel judges volumes of ours, with all of UBIFS's own checks. Needs life.sh.

# checks: UBIFS checks everything at each commit.
checks() {
    local one
    for one in general index orphans lprops fs; do
        echo 1 >/sys/kernel/debug/ubifs/chk_$one || return 1
    done
}

# ours KEY PLACE COUNT VID CHIP...: mounts the image at a place, changes it, and puts it back there.
ours() {
    local key=$1 place=$2 count=$3 vid=$4
    shift 4
    chip "$@" && dd if=/dev/vda of=/tmp/image bs=64k skip=$place count=$count 2>/dev/null &&
        /usr/sbin/nandwrite -q --skip-all-ffs /dev/mtd0 /tmp/image && rm /tmp/image &&
        /usr/sbin/ubiattach -d 0 -m 0 -O $vid >/dev/null && echo 1 >/sys/kernel/debug/ubi/ubi0/tst_disable_bgt &&
        checks && mount -t ubifs ubi0:root /mnt && say $key-space $(stat -f -c '%b %f' /mnt) && seen $key-ours || return 1
    # The volume is nearly full of such files.
    find /mnt -type f -size +40k -exec rm {} +
    # The driver links a file without a name in two steps: it drops the orphan, then writes the
    # inode. If a commit in the background ends in between, the check of orphans fails.
    local orphans=/sys/kernel/debug/ubifs/chk_orphans
    mkdir /mnt/kernel && /life /mnt/kernel tree && sync &&
        echo 0 >$orphans && /life /mnt/kernel later && echo 1 >$orphans && sync &&
        seen $key-kernel && umount /mnt || return 1
    mount -t ubifs ubi0:root /mnt && umount /mnt && detached || return 1
    # Whatever a check of the kernel's finds makes its volume read-only, and is told.
    ! dmesg -c | grep -iE "ubifs.*(error|warn)|ubi0? error|assert" && dump $key-kernel $place
}
