# What the recorded traces are traces of: one file system on /dev/vda, made by $make, of the type $type. The same work for each.

random=1
next() { random=$(((random * 1103515245 + 12345) & 0x7fffffff)); }

# part FILE BYTES [DD OPERAND...]: writes so much of the noise, from a place of its own.
part() {
    local file=$1 bytes=$2
    shift 2
    next
    dd if=/noise of=$file bs=64k skip=$((random / 7 % 3000000)) count=$bytes iflag=skip_bytes,count_bytes status=none "$@"
}

# A source tree is unpacked.
unpack() { cp -r /tree /mnt/ && sync; }

# Records of 100 to 699 bytes are appended to a log, each made durable.
append() {
    local i
    for i in $(seq $1); do
        next
        part /mnt/log $((random / 11 % 600 + 100)) oflag=append conv=notrunc,fsync || return 1
    done
}

# Pages of a table of 4 MiB are overwritten in any order, each made durable.
update() {
    local i
    part /mnt/table $((4 << 20)) conv=fsync || return 1
    for i in $(seq $1); do
        next
        part /mnt/table 4096 oflag=seek_bytes seek=$((random / 13 % 1024 * 4096)) conv=notrunc,fsync || return 1
    done
}

# Files are saved anew as an editor does: another file, made durable, takes the name.
save() {
    local i
    for i in $(seq $1); do
        next
        part /mnt/saved.new $((random / 11 % 40000)) conv=fsync && mv /mnt/saved.new /mnt/saved$((i % 10)) || return 1
    done
}

# Half of the tree goes, the rest is read with cold caches, and the file system says what is free.
leave() {
    rm -r /mnt/tree/d*[02468] && sync && echo 3 >/proc/sys/vm/drop_caches && cat /mnt/tree/*/* /mnt/log /mnt/saved* >/dev/null && fstrim /mnt
}

mp $type && $make /dev/vda && mount -t $type -o discard /dev/vda /mnt || exit 1
unpack && append 1400 && update 1200 && save 100 && leave && umount /mnt
