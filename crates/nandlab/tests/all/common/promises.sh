# Two file systems at work side by side, mounted under /mnt by their types; each says what it promises once it has been promised:
#
#   promise TYPE kept NAME OFFSET BYTES    a file of this part of the noise has been fsynced, and is never touched again
#   promise TYPE config VERSION            a file has been replaced by rename, and the directory fsynced
#   promise TYPE gone NAME                 a file has been deleted, and the directory fsynced

# part PATH OFFSET BYTES [CONVERSION]
part() { dd if=/noise of="$1" bs=64k skip=$2 count=$3 iflag=skip_bytes,count_bytes status=none ${4:+conv=$4}; }

# step TYPE N
step() {
    local at=/mnt/$1 n=$2 offset bytes
    next
    offset=$((random / 7 % 7000000))
    next
    bytes=$((random / 11 % 60001))
    part $at/loose$n $bytes 100000 && part $at/kept$n $offset $bytes fsync && say promise $1 kept kept$n $offset $bytes || return 1
    case $((n % 4)) in
        1)
            part $at/config.new $((n * 1000)) 6000 fsync && mv $at/config.new $at/config && sync $at && say promise $1 config $n
            ;;
        2) part $at/brief$n $offset 20000 fsync ;;
        3) rm $at/brief$((n - 1)) && sync $at && say promise $1 gone brief$((n - 1)) ;;
    esac
}
