# Shell: UBIFS on simulated chips. /life makes trees, /dev/vda takes dumps in units of 64 KiB.

# chip PARAMETER...: a simulated chip as /dev/mtd0.
chip() {
    rmmod nandsim 2>/dev/null
    mp nandsim "$@"
}

# attached PARAMETER...: UBI on the chip, without work in the background.
attached() {
    /usr/sbin/ubiattach -d 0 -m 0 "$@" >/dev/null && echo 1 >/sys/kernel/debug/ubi/ubi0/tst_disable_bgt
}

detached() {
    /usr/sbin/ubidetach -d 0 >/dev/null
}

# dump KEY PLACE: the chip's pages without spare bytes.
dump() {
    /usr/sbin/nanddump -q --bb=dumpbad -f /tmp/dump /dev/mtd0 && say $1-bytes $(stat -c %s /tmp/dump) &&
        dd if=/tmp/dump of=/dev/vda bs=64k seek=$2 conv=notrunc 2>/dev/null && rm /tmp/dump
}

# seen KEY: the tree as the kernel shows it.
seen() {
    manifest /mnt $1 && /xattrs /mnt >/tmp/attributes && send $1-attributes /tmp/attributes
}

# life KEY PLACE STEP COMPRESSOR CHIP...: a volume unmounted, in use, and recovered, at places that lie STEP apart.
life() {
    local key=$1 place=$2 step=$3 compressor=$4
    shift 4
    chip "$@" && attached && /usr/sbin/ubimkvol /dev/ubi0 -n 0 -N root -m >/dev/null &&
        mount -t ubifs -o compr=$compressor ubi0:root /mnt && /life /mnt tree && umount /mnt && mount -t ubifs ubi0:root /mnt &&
        /life /mnt later && seen $key-clean && umount /mnt && detached && dump $key-clean $place || return 1
    # A second life, cut short.
    chip "$@" && attached && /usr/sbin/ubimkvol /dev/ubi0 -n 0 -N root -m >/dev/null &&
        mount -t ubifs -o compr=$compressor ubi0:root /mnt && /life /mnt tree && sync || return 1
    rm -f /tmp/ready
    (exec 9>&-; /life /mnt orphans /tmp/ready) &
    local holder=$!
    while [ ! -e /tmp/ready ]; do sleep 0.1; done
    sync
    /life /mnt later && dump $key-cut $((place + step)) || return 1
    dd if=/dev/vda of=/tmp/cut bs=64k skip=$((place + step)) count=$step 2>/dev/null
    kill $holder
    wait $holder 2>/dev/null
    umount /mnt && detached || return 1
    # What the kernel makes of the cut.
    chip "$@" && /usr/sbin/nandwrite -q --skip-all-ffs /dev/mtd0 /tmp/cut && rm /tmp/cut && attached && mount -t ubifs ubi0:root /mnt && seen $key-cut &&
        umount /mnt && mount -t ubifs ubi0:root /mnt && seen $key-after && umount /mnt && detached && dump $key-after $((place + 2 * step))
}
