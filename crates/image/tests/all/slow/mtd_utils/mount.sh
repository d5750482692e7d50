# Shell: the kernel mounts UBIFS volumes of ours on NOR flash, with all of UBIFS's own checks.

# begun: UBI on flash in memory, as the test images have it.
begun() {
    local one
    mp mtdram total_size=1024 erase_size=16 && mp ubi && mp ubifs &&
        mount -t debugfs d /sys/kernel/debug && /usr/sbin/ubiattach -d 0 -m 0 >/dev/null || return 1
    for one in general index orphans lprops fs; do
        echo 1 >/sys/kernel/debug/ubifs/chk_$one || return 1
    done
}

# mounted KEY PLACE LEBS BYTES: mounts the volume at a place of the disk, reads it, and writes to it.
mounted() {
    local key=$1 place=$2 lebs=$3 bytes=$4
    dd if=/dev/vda of=/tmp/image bs=64k skip=$place count=16 2>/dev/null && truncate -s $bytes /tmp/image || return 1
    /usr/sbin/ubimkvol /dev/ubi0 -n 0 -N root -S $lebs >/dev/null && /usr/sbin/ubiupdatevol /dev/ubi0_0 /tmp/image &&
        mount -t ubifs ubi0:root /mnt && manifest /mnt $key || return 1
    # The smallest of the volumes may have no room for more.
    (mkdir /mnt/kernel && sync && echo contents >/mnt/kernel/file && sync) 2>/dev/null
    rm -rf /mnt/kernel && sync && umount /mnt || return 1
    mount -t ubifs ubi0:root /mnt && umount /mnt && /usr/sbin/ubirmvol /dev/ubi0 -n 0 >/dev/null || return 1
    ! dmesg -c | grep -iE "ubifs.*(error|warn)|ubi0? error|assert"
}
