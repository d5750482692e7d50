# Shell: the kernel writes volumes that stay nearly full. Needs life.sh; /churn makes the operations.

# traced: counts commits and collected blocks of UBIFS.
traced() {
    mount -t tracefs t /sys/kernel/tracing && cd /sys/kernel/tracing &&
        echo p:nandlab/commits ubifs_tnc_start_commit >>kprobe_events &&
        echo p:nandlab/collected ubifs_garbage_collect_leb >>kprobe_events &&
        echo 1 >events/nandlab/enable && cd /
}

# hits EVENT: how often it happened so far.
hits() {
    awk -v event=$1 '$1 == event { print $2 }' /sys/kernel/tracing/kprobe_profile
}

# quiet [LINE]: nobody complained since the last time, but for lines with LINE.
quiet() {
    ! dmesg -c | grep -v "${1:-^$}" | grep -iE "ubifs.*(error|warn)|ubi0? error|assert"
}

# put PLACE STEP CHIP...: an image on a chip.
put() {
    local place=$1 step=$2
    shift 2
    dd if=/dev/vda of=/tmp/image bs=64k skip=$place count=$step 2>/dev/null && chip "$@" &&
        /usr/sbin/nandwrite -q --skip-all-ffs /dev/mtd0 /tmp/image && rm /tmp/image
}

# begun LPT PLACE STEP VID CHIP...: an empty volume. One with big properties comes from the host.
begun() {
    local lpt=$1 place=$2 step=$3 vid=$4
    shift 4
    if [ $lpt = big ]; then
        put $place $step "$@" && attached -O $vid
    else
        chip "$@" && attached -O $vid && /usr/sbin/ubimkvol /dev/ubi0 -n 0 -N root -m >/dev/null
    fi
}

# churned KEY PLACE STEP LPT COMPRESSOR COUNT VID CHIP...: a volume after COUNT operations and an
# unmount, after as many more and a power cut of UBIFS, and recovered, at places STEP apart.
churned() {
    local key=$1 place=$2 step=$3 lpt=$4 compressor=$5 count=$6 vid=$7
    shift 7
    echo 262144 >/proc/sys/vm/dirty_bytes && echo 65536 >/proc/sys/vm/dirty_background_bytes || return 1
    local commits=$(hits commits) collected=$(hits collected)
    dmesg -c >/dev/null
    begun $lpt $place $step $vid "$@" && mount -t ubifs -o compr=$compressor ubi0:root /mnt &&
        say $key-first $(/churn /mnt $count 1) && seen $key-clean && umount /mnt && detached &&
        quiet && dump $key-clean $place || return 1
    attached -O $vid && mount -t ubifs -o compr=$compressor ubi0:root /mnt &&
        say $key-second $(/churn /mnt $count 2) && quiet || return 1
    say $key-commits $(($(hits commits) - commits))
    say $key-collected $(($(hits collected) - collected))
    cd /sys/kernel/debug/ubifs/ubi0_0 && echo 1 >tst_recovery && cd / &&
        say $key-third $(/churn /mnt $((count / 2)) 3) || return 1
    # If there was no cut so far, UBIFS stops to write here.
    echo 1 >/sys/kernel/debug/ubifs/ubi0_0/ro_error
    dump $key-cut $((place + step)) && umount /mnt && detached || return 1
    dmesg -c >/dev/null
    # The kernel recovers a copy of the flash. If the cut tore a write to the log, it says so first.
    put $((place + step)) $step "$@" && attached -O $vid && mount -t ubifs ubi0:root /mnt &&
        seen $key-cut && umount /mnt && mount -t ubifs ubi0:root /mnt && seen $key-after &&
        umount /mnt && detached && quiet "ubifs_scan .*: bad node" && dump $key-after $((place + 2 * step))
}
