# Shell: the kernel judges what power cuts left. Images lie on /dev/vda, at multiples of 64 KiB.

# on_disk KEY TYPE PLACE: recovers a file system of a disk, where it lies, and lists it.
on_disk() {
    losetup -o $(($3 * 65536)) /dev/loop0 /dev/vda || return 1
    mount -t $2 /dev/loop0 /mnt && listed $1 && umount /mnt
    local status=$?
    losetup -d /dev/loop0
    return $status
}

# on_ubi KEY PLACE COUNT CHIP...: the same for UBIFS on a UBI device.
on_ubi() {
    local key=$1 place=$2 count=$3
    shift 3
    rmmod nandsim 2>/dev/null
    mp nandsim "$@" && dd if=/dev/vda of=/tmp/image bs=64k skip=$place count=$count 2>/dev/null &&
        /usr/sbin/nandwrite -q --skip-all-ffs /dev/mtd0 /tmp/image && /usr/sbin/ubiattach -d 0 -m 0 >/dev/null &&
        mount -t ubifs ubi0_0 /mnt && listed $key && umount /mnt
    local status=$?
    /usr/sbin/ubidetach -d 0 >/dev/null
    return $status
}

# listed KEY: the tree. Where something cannot be read, the tree says so.
listed() {
    manifest /mnt $1 || say $1-unreadable yes
}

# judged KEY FUNCTION ...: one state; the kernel's complaints are told.
judged() {
    local key=$1 function=$2
    shift 2
    $function $key "$@" || say $key-refused yes
    dmesg -c | grep -iE "(EXT4-fs|F2FS-fs|FAT-fs|UBIFS|ubi0).*(error|corrupt|inconsist)" | head -3 >/tmp/said
    [ -s /tmp/said ] && say $key-said "$(head -1 /tmp/said)"
    return 0
}

mp loop && mp ext4 && mp vfat && mp f2fs && mp ubi && mp ubifs || exit 1
dmesg -c >/dev/null
