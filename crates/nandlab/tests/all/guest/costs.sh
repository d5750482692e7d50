# Runs every path whose instructions are counted; each key's lines are sent under it. Written with nftl.sh and measure.sh before it.

# requests KEY WHAT COUNT PATH: the requests to block devices while system calls run, untimed.
requests() {
    local key=$1 trace=/sys/kernel/tracing
    shift
    echo 1 >$trace/events/block/block_bio_queue/enable && echo >$trace/trace && /timed "$@" >/dev/null || exit 1
    echo 0 >$trace/events/block/block_bio_queue/enable
    grep block_bio_queue: $trace/trace >/tmp/lines
    send $key /tmp/lines
}

# empty UNITS: nftl on a new medium.
empty() {
    [ -d /sys/module/docram ] && { rmmod nftl && rmmod docram || exit 1; }
    formatted $1 32 && attach || exit 1
}

# full UNITS: the same, every sector written once.
full() {
    empty $1 && kernel filled nftl-write $(cat /sys/block/nftla/size) 0 1
    say units-$1 $(($(cat /sys/block/nftla/size) / 32))
}

mp nandcore && mp brd rd_nr=1 rd_size=32768 && mp vfat && insmod /costs.ko && mount -t tracefs tracefs /sys/kernel/tracing || exit 1

user call-nothing nothing 100 /
kernel nothing nothing 100
kernel hamming-256 hamming 100 256 0
kernel hamming-512 hamming 100 512 0
kernel copy-512 copy 100 512 0

# The RAM disk, every page of it there.
dd if=/dev/zero of=/dev/ram0 bs=1M count=32 status=none
user ram-write write 100 /dev/ram0
user ram-read read 100 /dev/ram0
kernel ram-bio bio 100 0 1

/usr/sbin/mkfs.vfat -F 16 -s 4 /dev/ram0 >/dev/null 2>&1 && mount -t vfat /dev/ram0 /mnt && mkdir /mnt/dir || exit 1
user append append 400 /mnt/dir/file
user overwrite overwrite 200 /mnt/dir/file
user create-root create 100 /mnt
mkdir /mnt/sub && user create-sub create 100 /mnt/sub
# Not the first file in its page, so that a sector of it and one of its directory are all.
requests append-requests append 16 /mnt/dir/other
requests overwrite-requests overwrite 16 /mnt/dir/other
requests create-requests create 16 /mnt/sub
umount /mnt

# Chains of several units, on a medium with room for them: sector 5 ten times, each in a unit of its own; then others in the same units. Three such chains, lest
# the clock interrupts the only run of a step.
empty 128
kernel_each grow "nftl-write 10 5 0" "nftl-write 10 37 0" "nftl-write 10 69 0"
kernel_each walk-to-free "nftl-write 10 6 0" "nftl-write 10 38 0" "nftl-write 10 70 0"
kernel six nftl-write 5 7 0
kernel read-10 nftl-read 100 5 0
kernel read-6 nftl-read 100 7 0
kernel read-free nftl-read 100 8 0
kernel read-absent nftl-read 100 3200 0
kernel mtd-oob mtd-oob 100 0 1
kernel mtd-page mtd-page 100 0 1

# All sectors of each unit again: folds copy none. Then one of each: folds copy the other 31. Then the same one: chains of three.
full 128
user nftl-read read 100 /dev/nftla
kernel read-first nftl-read 100 0 1
kernel fold-all nftl-write 1600 0 1
full 128
kernel fold-one nftl-write 40 0 32
full 128
kernel fold-three nftl-write 40 0 0
full 256
kernel fold-all-256 nftl-write 1600 0 1
