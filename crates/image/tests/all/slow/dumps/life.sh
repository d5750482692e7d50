# Shell: the lives of simulated chips. /noise has known bytes, /ext3 is an empty volume, /dev/vda takes the dumps.

# chip PARAMETER=VALUE...: a simulated chip as /dev/mtd0. The module of JFFS2 is loaded anew, since it remembers earlier media
# when it decides where to write first.
chip() {
    rmmod nandsim jffs2 2>/dev/null
    mp jffs2 || return 1
    dmesg -c >/dev/null
    mp nandsim "$@" || return 1
    dmesg -c >/dev/null
}

# noise OFFSET COUNT: known bytes
noise() {
    tail -c +$(($1 + 1)) /noise | head -c $2
}

# tree: files and everything else, in /mnt
tree() {
    local n
    mkdir -p /mnt/etc /mnt/bin/deep/deeper /mnt/empty && chmod 2755 /mnt/bin/deep && chown 7:90000 /mnt/etc || return 1
    noise 100000 60001 >/mnt/bin/whole && noise 200000 4096 >/mnt/bin/page && : >/mnt/bin/nothing || return 1
    for n in $(seq 20); do noise $((n * 1000)) $((n * n * 40)) >"/mnt/etc/number $n" || return 1; done
    for n in $(seq 30); do echo "a line of text, $n, and a line of text" >>/mnt/etc/text || return 1; done
    dd if=/dev/zero of=/mnt/bin/sparse bs=1 count=1 seek=70000 2>/dev/null &&
        ln -s ../bin/whole /mnt/etc/link && ln /mnt/bin/page /mnt/etc/hard && mknod /mnt/etc/null c 1 3 && mkfifo /mnt/etc/fifo &&
        chmod 4711 /mnt/bin/page && touch -d @1000000000 /mnt/bin/whole
}

# later: the tree is used; overwritten, cut, renamed, removed
later() {
    local n
    for n in 3 6 9 12 15 18; do rm "/mnt/etc/number $n" || return 1; done
    for n in 2 8 14; do noise $((n * 7000)) 3000 | dd of="/mnt/etc/number $n" bs=3000 seek=1 conv=notrunc 2>/dev/null || return 1; done
    truncate -s 1234 "/mnt/etc/number 20" && mv "/mnt/etc/number 19" "/mnt/bin/deep/deeper/a name that is longer than the others" &&
        mv /mnt/empty /mnt/full && noise 300000 9000 >/mnt/full/file && rm /mnt/etc/link && ln -s "$(head -c 150 /dev/zero | tr '\0' y)" /mnt/etc/link &&
        noise 400000 30000 >/mnt/bin/rewritten && noise 500000 20000 >/mnt/bin/rewritten
}

# dump KEY PLACE MTD...: raw pages with spare bytes to the disk, at a place in units of 64 KiB
dump() {
    local mtd
    rm -f /tmp/dump
    for mtd in $3 $4; do /usr/sbin/nanddump -q -n -o --bb=dumpbad /dev/$mtd >>/tmp/dump || return 1; done
    say $1-bytes $(stat -c %s /tmp/dump)
    dd if=/tmp/dump of=/dev/vda bs=64k seek=$2 conv=notrunc 2>/dev/null && rm /tmp/dump
}

# marked [BAD]: marks all blocks as erased by JFFS2, save one that is bad. From then on the last is written first.
marked() {
    local size=$(cat /sys/class/mtd/mtd0/erasesize) bytes=$(cat /sys/class/mtd/mtd0/size)
    # A count of 0 means all.
    /usr/sbin/flash_erase -q -j /dev/mtd0 0 ${1:-0} && [ -z "$1" ] ||
        /usr/sbin/flash_erase -q -j /dev/mtd0 $((($1 + 1) * size)) $((bytes / size - $1 - 1))
}

# collected: waits until JFFS2's collector has erased the last block, in which nothing is left. It erases one every 50 ms; now and then it
# sets aside all that it could erase, and has to be woken.
collected() {
    local tries page=$(cat /sys/class/mtd/mtd0/writesize) size=$(cat /sys/class/mtd/mtd0/erasesize) bytes=$(cat /sys/class/mtd/mtd0/size)
    sync
    for tries in $(seq 1000); do
        [ $(/usr/sbin/nanddump -q -s $((bytes - size)) -l $page /dev/mtd0 | tr -d '\377' | wc -c) != 0 ] || return 0
        usleep 20000
        [ $((tries % 50)) != 0 ] || kill -HUP $(pidof jffs2_gcd_mtd0)
    done
    return 1
}

# jffs2 KEY PLACE AGE [BAD]: of an aged medium an eighth is filled once and erased when the tree is before it
jffs2() {
    local part=$(($(cat /sys/class/mtd/mtd0/size) / 8))
    marked $4 && mount -t jffs2 mtd0 /mnt || return 1
    case $3 in
    fresh) tree || return 1 ;;
    aged)
        dd if=/dev/urandom of=/mnt/filler bs=64k count=$((part / 65536)) 2>/dev/null && tree && later && rm /mnt/filler && collected &&
            noise 600000 50000 >/mnt/bin/late && noise 610000 5000 >/mnt/bin/late || return 1
        ;;
    cut)
        # What is not synced is in memory only; the file of the tail is the last that is programmed.
        tree && later && sync && noise 700000 40000 >/mnt/bin/tail && sync && noise 750000 200 >/mnt/bin/lost && dump $1 $2 mtd0 && umount /mnt
        return
        ;;
    esac
    # JFFS2 forgets its root's time, unless it was set.
    touch -d @1000000001 /mnt && umount /mnt || return 1
    # In memory, a file written over has the time at which the call began; its nodes may be a second younger.
    mount -r -t jffs2 mtd0 /mnt && manifest /mnt $1 && umount /mnt && dump $1 $2 mtd0
}

# volumes KEY: the trees and the contents of both volumes, as the kernel reads them
volumes() {
    /usr/sbin/ubiblock -c /dev/ubi0_1 && mount -r -t ext3 /dev/ubiblock0_1 /mnt && manifest /mnt $1 && umount /mnt && /usr/sbin/ubiblock -r /dev/ubi0_1 &&
        say $1-config $(sha256sum </dev/ubi0_0) && say $1-root $(sha256sum </dev/ubi0_1)
}

# root FUNCTION: a volume of ext3 that a function changes, in /tmp/root
root() {
    mount -o loop -t ext3 /tmp/root /mnt && $1 && umount /mnt
}

# ubi KEY PLACE AGE MTD...: the last MTD has UBI, the one before it stays erased
ubi() {
    local key=$1 place=$2 age=$3 n mtd
    shift 3
    for mtd; do :; done
    /usr/sbin/ubiattach -d 0 -m ${mtd#mtd} >/dev/null && /usr/sbin/ubimkvol /dev/ubi0 -n 0 -N config -t static -s 280KiB >/dev/null &&
        /usr/sbin/ubimkvol /dev/ubi0 -n 1 -N root -s 2700KiB >/dev/null && cp /ext3 /tmp/root && root tree || return 1
    if [ $age != fresh ]; then
        # Older contents of everything.
        noise 5000 270000 >/tmp/config && /usr/sbin/ubiupdatevol /dev/ubi0_1 /tmp/root && /usr/sbin/ubiupdatevol /dev/ubi0_0 /tmp/config && root later || return 1
    fi
    case $age in
    aged)
        for n in 1 2 3; do
            /usr/sbin/ubimkvol /dev/ubi0 -n 2 -N gone -s 400KiB >/dev/null && noise ${n}1111 300000 >/tmp/gone && /usr/sbin/ubiupdatevol /dev/ubi0_2 /tmp/gone &&
                /usr/sbin/ubirmvol /dev/ubi0 -n 2 || return 1
        done
        ;;
    cut)
        # The old blocks stay, and the tail is behind the file system. In use, nothing more is written.
        echo 1 >/sys/kernel/debug/ubi/ubi0/tst_disable_bgt && noise 700000 40000 >>/tmp/root || return 1
        ;;
    esac
    noise 10000 250001 >/tmp/config && /usr/sbin/ubiupdatevol /dev/ubi0_0 /tmp/config && /usr/sbin/ubiupdatevol /dev/ubi0_1 /tmp/root || return 1
    if [ $age = cut ]; then
        dump $key $place $* && /usr/sbin/ubidetach -d 0 >/dev/null
    else
        volumes $key && /usr/sbin/ubidetach -d 0 >/dev/null && dump $key $place $*
    fi
}

# written PLACE BYTES: a dump from the disk on /dev/mtd0, by a writer that leaves parity alone
written() {
    dd if=/dev/vda bs=64k skip=$1 count=$(($2 / 65536)) of=/tmp/dump 2>/dev/null && /usr/sbin/nandwrite -q -n -o -N /dev/mtd0 /tmp/dump >/dev/null &&
        rm /tmp/dump
}

# judged KEY MEDIUM: what the kernel sees on /dev/mtd0, and what it says of the parity
judged() {
    case $2 in
    jffs2) mount -t jffs2 mtd0 /mnt && manifest /mnt $1 && umount /mnt || return 1 ;;
    ubi) /usr/sbin/ubiattach -d 0 -m 0 >/dev/null && volumes $1 && /usr/sbin/ubidetach -d 0 >/dev/null || return 1 ;;
    esac
    say $1-corrected $(cat /sys/class/mtd/mtd0/corrected_bits)
    say $1-failures $(cat /sys/class/mtd/mtd0/ecc_failures)
    say $1-complaints "$(dmesg | grep -iE 'ecc|bit-flip|crc|error|uncorrectable' | head -3)"
}
