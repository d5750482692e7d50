#!/bin/bash
# Mounts stack.toml beside this script on mnt, or unmounts it. The chip stays in a file between.
# Each mount is a line of the file mounts; a server that fails leaves the file failed.
unset LD_PRELOAD
cd "${0%/*}" || exit 1
verb=$1
shift
if [ "$verb" = umount ]; then
    umount mnt || exit 1
    while [ -e running ]; do sleep 0.01; done
    exit 0
fi
set -- mount stack.toml mnt "$@" --set chip.save=chip
[ -e chip ] && set -- "$@" --set chip.load=chip
: >said
: >running
echo "$@" >>mounts
{
    setsid "$NANDLAB" "$@" >said 2>&1 </dev/null || cp said failed
    rm running
} >/dev/null 2>&1 &
until grep -q 'until Ctrl-C' said; do
    [ -e running ] || exit 1
    sleep 0.01
done
