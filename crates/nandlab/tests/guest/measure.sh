# Measures a path and sends its lines: `costs.c` in the kernel, `timed.c` from outside. Written after nftl.sh.

# kernel KEY PATH COUNT [FIRST STEP]: in the kernel, see costs.c.
kernel() {
    local key=$1
    shift
    echo "$*" >/dev/costs && cat /dev/costs >/tmp/lines && send $key /tmp/lines || { echo "$key failed"; exit 1; }
}

# user KEY WHAT COUNT PATH: system calls, see timed.c.
user() {
    local key=$1
    shift
    /timed "$@" >/tmp/lines && send $key /tmp/lines || { echo "$key failed"; exit 1; }
}
