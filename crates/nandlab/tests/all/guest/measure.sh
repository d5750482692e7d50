# Measures a path and sends its lines: `costs.c` in the kernel, `timed.c` from outside. Written after nftl.sh.

# kernel KEY PATH COUNT [FIRST STEP]: in the kernel, see costs.c.
kernel() {
    local key=$1
    shift
    kernel_each $key "$*"
}

# kernel_each KEY COMMAND...: several such paths in turn, their lines under one key.
kernel_each() {
    local key=$1 command
    shift
    : >/tmp/lines
    for command; do
        echo "$command" >/dev/costs && cat /dev/costs >>/tmp/lines || { echo "$key failed"; exit 1; }
    done
    send $key /tmp/lines || { echo "$key failed"; exit 1; }
}

# user KEY WHAT COUNT PATH: system calls, see timed.c.
user() {
    local key=$1
    shift
    /timed "$@" >/tmp/lines && send $key /tmp/lines || { echo "$key failed"; exit 1; }
}
