#!/bin/bash
# A world of xfstests' own, which ends with it: mounts, processes, users, and a /tmp, where it names files by the numbers of processes.
# enter.sh WORK CHECKOUT KEPT PROGRAM COMMAND...
set -e
work=$1
mount --make-rprivate /
mkdir "$work/tmp" 2> /dev/null || true
chmod 1777 "$work/tmp"
for seen in "$1" "$2" "$3" "$4"; do
    case "$seen" in
    /tmp/*)
        mkdir -p "$work${seen%/*}"
        if [ -d "$seen" ]; then mkdir -p "$work$seen"; else touch "$work$seen"; fi
        mount --bind "$seen" "$work$seen"
        ;;
    esac
done
mount --rbind "$work/tmp" /tmp
cd "$2"
shift 4

cp /etc/passwd "$work/passwd"
cp /etc/group "$work/group"
for name in fsgqa:61501 123456-fsgqa:61502 fsgqa2:61503; do
    echo "${name%:*}:*:${name#*:}:${name#*:}::/tmp:/bin/bash" >> "$work/passwd"
    echo "${name%:*}:x:${name#*:}:" >> "$work/group"
done
mount --bind "$work/passwd" /etc/passwd
mount --bind "$work/group" /etc/group
# As xfstests calls its own way of doing this.
export FSTESTS_ISOL=privatens
PATH=$work/bin:$PATH
exec "$@"
