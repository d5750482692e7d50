# Runs every path of a page of a file, through JFFS2, ext2 and mtdblock. Written with nftl.sh and measure.sh before it.

# page SOURCE: what compressors and checksums work on.
page() {
    head -c 4096 $1 >/tmp/page
}

# packed KIND SOURCE: each compressor on one page, and back if it got smaller, which noise does not.
packed() {
    page $2
    kernel deflate-$1 deflate 100
    say deflated-$1 $(cat /sys/module/costs/parameters/packed)
    [ $1 = noise ] || kernel inflate-$1 inflate 100
    kernel lzo-$1 lzo 100
    say lzo-$1 $(cat /sys/module/costs/parameters/packed)
    [ $1 = noise ] || kernel unlzo-$1 unlzo 100
}

# written KEY SOURCE: writes of one page and of sixteen, at the end of a file.
written() {
    user $1 stream 100 /mnt/$1 4096 <$2
    user $1-64k stream 40 /mnt/$1-64k 65536 <$2
}

# uncached KEY FILE: reads of pages that are not in the page cache.
uncached() {
    echo 1 >/proc/sys/vm/drop_caches
    user $1 reread 100 $2 4096
}

# calls NAME: system calls on the file system at /mnt; keys begin with the name.
calls() {
    written $1-append /dev/zero
    user $1-cached reread 100 /mnt/$1-append 4096
    user $1-cached-64k reread 40 /mnt/$1-append-64k 65536
    uncached $1-read /mnt/$1-append
    truncate -s 1M /mnt/$1-hole && truncate -s 4M /mnt/$1-hole-64k || exit 1
    written $1-hole /dev/zero
    user $1-resize resize 100 /mnt/resized 1048576
    user $1-synced append 100 /mnt/synced 4096
    mkdir /mnt/dir && user $1-create create 100 /mnt/dir
}

# jffs2 NAME MTD: the same on JFFS2, and with compression.
jffs2() {
    empty $2 compr=none
    calls $1
    empty $2 compr=zlib
    written $1-zeros /dev/zero
    uncached $1-zeros-read /mnt/$1-zeros
    written $1-text /text
    uncached $1-text-read /mnt/$1-text
    written $1-noise /noise
    # As the kernel does unless set otherwise: by priority.
    empty $2 rw
    written $1-any /noise
    written $1-any-text /text
    umount /mnt
}

mp nandcore && mp mtdram total_size=16384 erase_size=128 && mp nandsim id_bytes=0xec,0xf1,0x00,0x15 parts=160 && mp mtdblock && mp jffs2 &&
    mp ext4 && mp brd rd_nr=1 rd_size=32768 && insmod /costs.ko || exit 1

page /dev/zero
user call-nothing nothing 100 /
user tick tick 100 /
kernel nothing nothing 100
kernel crc crc 100 4096 0
kernel copy copy 100 4096 0
kernel from-user from-user 100 4096 0
kernel enqueue enqueue 100
kernel dequeue dequeue 100
packed zeros /dev/zero
packed text /text
packed noise /noise

jffs2 nor 0
jffs2 nand 1

# All of them in the erase block that mtdblock holds, but for one in 32.
spy 0
user mtdblock write 200 /dev/mtdblock0 4096
user mtdblock-sector write 200 /dev/mtdblock0 512
rmmod mtdspy

dd if=/dev/zero of=/dev/ram0 bs=1M count=32 status=none
/usr/sbin/mkfs.ext2 -q -b 4096 /dev/ram0 >/dev/null 2>&1 && mount -t ext2 /dev/ram0 /mnt || { echo "no ext2"; exit 1; }
calls ext2
say ext2-options $(tr '\n' ' ' </proc/fs/ext4/ram0/options)
