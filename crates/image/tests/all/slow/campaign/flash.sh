# Shell: judges media that lie one after the other on /dev/vda.

# complaints KEY PATTERN: what the kernel complained about since the last call
complaints() {
    say $1-words "$(dmesg -c | grep -iE "$2" | cut -c1-200 | head -8)"
    say $1-done yes
}

# listed KEY: the tree at /mnt, which it unmounts
listed() {
    # A file that cannot be read has no hash, and a listing without it is none.
    if find /mnt -type f -exec cat {} + >/dev/null 2>/tmp/why; then
        manifest /mnt $1 || say $1-refused listing
    else
        say $1-refused "$(head -1 /tmp/why)"
    fi
    umount /mnt || exit 1
}

prepare_jffs2() {
    mp mtdram total_size=64 erase_size=8 && mp mtdblock && mp jffs2 || exit 1
    dmesg -c >/dev/null
}

# jffs2 KEY PLACE: whether it mounts, its tree, and the complaints
jffs2() {
    dd if=/dev/vda of=/dev/mtd0 bs=64k skip=$2 count=1 2>/dev/null || exit 1
    if ! mount -t jffs2 mtd0 /mnt 2>/tmp/why; then
        say $1-refused "$(cat /tmp/why)"
    else
        listed $1
    fi
    complaints $1 'warn|error|crc|argh|corrupt|fail|bad |invalid|magic|inconsistent|notice'
}

prepare_ubi() {
    mp ubi && mp nandsim id_bytes=0x98,0xe6 overridesize=5 || exit 1
    dmesg -c >/dev/null
}

# ubi KEY PLACE: whether it attaches, its volumes, and the complaints
ubi() {
    /usr/sbin/flash_erase -q /dev/mtd0 0 0 >/dev/null 2>&1 &&
        dd if=/dev/vda of=/tmp/medium bs=256k skip=$2 count=1 2>/dev/null &&
        /usr/sbin/nandwrite -q /dev/mtd0 /tmp/medium >/dev/null || exit 1
    dmesg -c >/dev/null
    if ! /usr/sbin/ubiattach -d 0 -m 0 -O 512 >/dev/null 2>/tmp/why; then
        say $1-refused "$(head -1 /tmp/why)"
    else
        local at id
        for at in /sys/class/ubi/ubi0_*; do
            [ -e $at ] || continue
            id=${at##*_}
            if sha256sum </dev/ubi0_$id >/tmp/sum 2>/tmp/why; then
                say $1-volume "$id $(cat $at/name) $(cat $at/type) $(cut -d' ' -f1 /tmp/sum)"
            else
                say $1-refused "volume $id: $(head -1 /tmp/why)"
            fi
        done
        /usr/sbin/ubidetach -d 0 >/dev/null || exit 1
    fi
    complaints $1 'warning|error|corrupted PEBs: [1-9]|data moved'
}

prepare_ubifs() {
    mp ubi && mp ubifs && mp nandsim id_bytes=0x98,0x73 overridesize=6 parts=40 || exit 1
    dmesg -c >/dev/null
}

# ubifs KEY PLACE: whether it mounts, its tree, and the complaints
ubifs() {
    /usr/sbin/flash_erase -q /dev/mtd0 0 0 >/dev/null 2>&1 &&
        dd if=/dev/vda of=/tmp/medium bs=640k skip=$2 count=1 2>/dev/null &&
        /usr/sbin/nandwrite -q --skip-all-ffs /dev/mtd0 /tmp/medium >/dev/null || exit 1
    dmesg -c >/dev/null
    if ! /usr/sbin/ubiattach -d 0 -m 0 -O 512 >/dev/null 2>/tmp/why; then
        say $1-refused "$(head -1 /tmp/why)"
    else
        if ! mount -t ubifs ubi0:root /mnt 2>/tmp/why; then
            say $1-refused "$(cat /tmp/why)"
        else
            listed $1
        fi
        /usr/sbin/ubidetach -d 0 >/dev/null || exit 1
    fi
    complaints $1 'ubifs.*(error|warn)|ubi0.*(error|warn)|corrupted PEBs: [1-9]|data moved'
}
