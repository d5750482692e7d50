# The kernel's nftl on the flash of docram.ko, which appears as /dev/mtd0 and, in the form of `nanddump -o`, as /dev/docram.

# flash UNITS PAGES [DUMP]: an erased flash of so many erase blocks of so many pages, or one that holds a dump.
flash() {
    mp mtd && insmod /docram.ko units=$1 pages=$2 && { [ -z "$3" ] || dd if=$3 of=/dev/docram bs=1M status=none; }
}

# formatted UNITS PAGES [UNIT ...]: a flash formatted by mtd-utils, in which the units listed are bad.
formatted() {
    local page=$2 unit
    flash $1 $2 || return 1
    shift 2
    for unit in "$@"; do printf '\0' | dd of=/dev/docram bs=1 seek=$((unit * page * 528 + 517)) conv=notrunc status=none; done
    # Where there are bad blocks, flash_erase says so before it goes on one by one.
    /usr/sbin/flash_erase -q /dev/mtd0 0 0 >/tmp/format 2>&1 && /usr/sbin/nftl_format /dev/mtd0 >>/tmp/format || { cat /tmp/format; return 1; }
}

# attach: nftl finds its medium and shows it as /dev/nftla.
attach() {
    mp nftl && [ -b /dev/nftla ] || { echo "nftl has not attached"; return 1; }
}

# detach KEY: nftl lets go; sends the medium as KEY-medium.
detach() {
    rmmod nftl && cat /dev/docram >/tmp/medium && send $1-medium /tmp/medium && rm /tmp/medium
}

# disk KEY: sends every sector as KEY-disk, read from the flash.
disk() {
    echo 3 >/proc/sys/vm/drop_caches && dd if=/dev/nftla of=/tmp/disk bs=64k status=none && send $1-disk /tmp/disk && rm /tmp/disk
}

# judged KEY: the chains that nftldump of mtd-utils finds, sent as KEY-chains, and their sectors one after the other, as KEY-nftldump (right where a
# unit has 16 pages: nftldump takes no other for granted). No layer may hold the medium.
judged() {
    timeout 20 /usr/sbin/nftldump /dev/mtd0 /tmp/judged >/tmp/chains && send $1-nftldump /tmp/judged && send $1-chains /tmp/chains && rm /tmp/judged
}

# gone: the flash is taken away, with what it did on record.
gone() {
    say raised $(cat /sys/module/docram/parameters/raised)
    say erases $(cat /sys/module/docram/parameters/erases)
    rmmod docram
}
