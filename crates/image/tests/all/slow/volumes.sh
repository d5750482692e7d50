# Shell: the kernel mounts the volumes of a UBI image of ours. Needs life.sh and ours.sh of crate ubifs.

# volumes KEY PLACE COUNT VID CHIP...: mounts both, adds a tree to each, and puts the chip back at its place.
volumes() {
    local key=$1 place=$2 count=$3 vid=$4 one
    shift 4
    chip "$@" && dd if=/dev/vda of=/tmp/image bs=64k skip=$place count=$count 2>/dev/null &&
        /usr/sbin/nandwrite -q --skip-all-ffs /dev/mtd0 /tmp/image && rm /tmp/image &&
        /usr/sbin/ubiattach -d 0 -m 0 -O $vid >/dev/null && echo 1 >/sys/kernel/debug/ubi/ubi0/tst_disable_bgt && checks || return 1
    for one in root second; do
        mount -t ubifs ubi0:$one /mnt && seen $key-$one && rm -rf /mnt/kernel && mkdir /mnt/kernel && /life /mnt/kernel tree && sync &&
            seen $key-$one-after && umount /mnt && mount -t ubifs ubi0:$one /mnt && umount /mnt || return 1
    done
    # The kernel makes a volume read-only when one of its checks fails, and says so.
    detached && ! dmesg -c | grep -iE "ubifs.*(error|warn)|ubi0? error|assert" && dump $key $place
}
