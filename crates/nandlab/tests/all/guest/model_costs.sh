# Runs the paths behind the terms of the cost model. Written after nftl.sh, measure.sh and volumes.sh.

mp nandcore && mp mtdram total_size=16384 erase_size=128 && mp nandsim id_bytes=0xec,0xf1,0x00,0x15 parts=160 && mp mtdblock && mp jffs2 &&
    mp ext4 && insmod /costs.ko || exit 1
user call-nothing nothing 100 /
kernel nothing nothing 100

# The root is a file system in the page cache alone.
user ram-append stream 100 /mnt/ram-append 4096 </noise
user ram-append-64k stream 40 /mnt/ram-append-64k 65536 </noise
user ram-overwrite stream 100 /mnt/ram-append 4096 </noise
user ram-overwrite-64k stream 40 /mnt/ram-append-64k 65536 </noise
user ram-overwrite-256 stream 100 /mnt/ram-append 256 </noise
rm /mnt/ram-append /mnt/ram-append-64k

# short SOURCE KEY PATH BYTES: a compressor on the beginning of a page.
short() {
    head -c 4096 $1 >/tmp/page
    kernel $2 $3 20 $4
}
short /dev/zero deflate-zeros-128 deflate 128
short /dev/zero deflate-zeros-512 deflate 512
short /text deflate-text-512 deflate 512
short /noise deflate-noise-512 deflate 512
short /dev/zero lzo-zeros-128 lzo 128
short /text lzo-text-512 lzo 512

empty 1 compr=none
user nand-append-256 stream 320 /mnt/short 256 </noise
/timed stream 100 /mnt/long 4096 </noise >/dev/null || exit 1
user nand-again stream 100 /mnt/long 4096 </noise
i=0
while [ $i -lt 40 ]; do
    dd if=/noise of=/mnt/long bs=256 count=1 seek=$((i * 16)) conv=notrunc status=none
    i=$((i + 1))
done
echo 1 >/proc/sys/vm/drop_caches
user nand-read-two reread 40 /mnt/long 4096
umount /mnt

spy 0
ext3 1024 1
user ext3-1k-1k append 60 /mnt/one 1024
user ext3-1k-4k append 60 /mnt/four 4096
user ext3-1k-64k stream 20 /mnt/long 65536 </noise
user ext3-1k-64k-again stream 20 /mnt/long 65536 </noise
user ext3-1k-synced overwrite 60 /mnt/long 4096
user ext3-1k-again stream 60 /mnt/long 4096 </noise
ext3 4096 4
user ext3-4k-4k append 60 /mnt/one 4096
user ext3-4k-64k append 40 /mnt/long 65536
user ext3-4k-again overwrite 60 /mnt/long 4096
umount /mnt
rmmod mtdspy
