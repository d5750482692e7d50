# Work for a file system mounted on /mnt, the same each time; contents are cut from /noise. Counts its fsyncs in $fsyncs.

random=1
fsyncs=0

# Sets $random to the next number.
next() { random=$(((random * 1103515245 + 12345) & 0x7fffffff)); }

# file PATH BYTES [CONVERSION]: makes a file of some part of the noise.
file() {
    next
    dd if=/noise of="$1" bs=64k skip=$((random / 7 % 7000000)) count=$2 iflag=skip_bytes,count_bytes status=none ${3:+conv=$3}
}

# synced PATH BYTES: the same, and fsync.
synced() { file "$1" $2 fsync && fsyncs=$((fsyncs + 1)); }

# Sets $size for file number $1: every tenth is large, some are empty.
pick_size() {
    next
    case $(($1 % 10)) in
        0) size=0 ;;
        9) size=$((random / 11 % 1048577)) ;;
        [78]) size=$((random / 11 % 65537)) ;;
        *) size=$((random / 11 % 4097)) ;;
    esac
}

# Sets $path to where file number $1 begins its life.
place() { path="/mnt/d$(($1 % 17 % 4))/sub$(($1 % 17))/file $1"; }

# tree FILES
tree() {
    local i
    for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do mkdir -p /mnt/d$((i % 4))/sub$i; done
    for i in $(seq $1); do
        pick_size $i && place $i
        if [ $((i % 9)) = 0 ]; then synced "$path" $size; else file "$path" $size; fi || return 1
    done
}

# change FILES: of the files of `tree` some are moved, over each other too, deleted, overwritten, patched, continued, cut.
change() {
    local i
    for i in $(seq $1); do
        place $i
        case $((i % 13)) in
            1) mv "$path" "/mnt/d3/a name that is long enough for several entries, number $i" ;;
            2) mv "$path" /mnt/d0/target$((i % 5)) ;;
            3 | 4 | 5) rm "$path" ;;
            6) synced "$path" 30000 ;;
            7) dd if=/noise of="$path" bs=1000 count=5 seek=3 conv=notrunc status=none ;;
            8) tail -c 7000 /noise >>"$path" ;;
            9) truncate -s 2500 "$path" ;;
        esac || return 1
    done
    rm -r /mnt/d1/sub5
}

# churn PATH TIMES: writes one file again and again, so that flash fills up and blocks must be collected.
churn() {
    local i
    for i in $(seq $2); do
        dd if=/noise of=$1 bs=1M conv=notrunc,fsync status=none && fsyncs=$((fsyncs + 1)) || return 1
    done
}
