# Shell: UBI in the guest on nandsim. Volumes are read as the kernel reads them, media are dumped without spare area.

# flash SHAPE [DUMP]: a simulated flash as /dev/mtd0, erased or with a dump's contents.
flash() {
    case $1 in
        large*) mp nandsim id_bytes=0x20,0xa2,0x00,0x15 parts=128 || return 1 ;;
        small*) mp nandsim id_bytes=0x98,0x73 parts=512 || return 1 ;;
    esac
    case $1 in *-whole) header="-O 2048" ;; *) header= ;; esac
    [ -z "$2" ] || /usr/sbin/nandwrite -q /dev/mtd0 $2 || return 1
}

# attach KEY [fastmap]: UBI attaches /dev/mtd0; says how.
attach() {
    local key=$1
    dmesg -c >/dev/null
    module=ubi
    if [ "$2" = fastmap ]; then module=ubi_fastmap; mp mtd; insmod /ubi_fastmap.ko fm_autoconvert=1; else mp ubi; fi
    [ $? = 0 ] && /usr/sbin/ubiattach -m 0 $header >/tmp/attach 2>&1 || { cat /tmp/attach; dmesg | tail -20; return 1; }
    say $key-attached $(dmesg | grep -c "attached by fastmap")
    say $key-scanned $(dmesg | grep -c "full scan")
    say $key-complaints $(dmesg | grep -ciE "ubi.*(error|warning)")
    dmesg | grep -iE "ubi.*(error|warning)" | head -5
    true
}

# volumes KEY: sends the contents of every volume as KEY-NAME.
volumes() {
    local node
    for node in /sys/class/ubi/ubi0_*; do
        [ -e $node/name ] || continue
        dd if=/dev/${node##*/} of=/tmp/volume bs=64k status=none || return 1
        send $1-$(cat $node/name) /tmp/volume
        rm /tmp/volume
    done
}

# detach KEY: UBI lets go; sends the medium as KEY-medium.
detach() {
    /usr/sbin/ubidetach -m 0 >/dev/null && medium $1 && gone
}

medium() {
    /usr/sbin/nanddump -q --bb=dumpbad -f /tmp/medium /dev/mtd0 && send $1-medium /tmp/medium && rm /tmp/medium
}

gone() {
    rmmod $module && rmmod nandsim
}

# churn: a file system of the kernel's on volume 1, written, changed, and left; where ubifs has no UBI to stand on, the volume written several times over.
churn() {
    if [ $module = ubi_fastmap ]; then
        for n in 1 2 3 4; do
            dd if=/noise of=/tmp/some bs=100000 skip=$n count=$((n + 3)) status=none && /usr/sbin/ubiupdatevol /dev/ubi0_1 /tmp/some || return 1
        done
        return 0
    fi
    mp ubifs && mount -t ubifs /dev/ubi0_1 /mnt || return 1
    for n in 1 2 3 4 5 6 7 8; do dd if=/noise of=/mnt/file$n bs=40000 skip=$n count=4 status=none || return 1; done
    sync; rm /mnt/file2 /mnt/file5
    for n in 1 2 3 4 5 6; do dd if=/noise of=/mnt/file3 bs=30000 skip=$n count=3 conv=notrunc,fsync status=none || return 1; done
    umount /mnt && rmmod ubifs
}
