#!/bin/bash
# mount(8) as xfstests finds it: what has a stack's description as its source is mounted by nandlab, all else by the system's.
# The medium stays between mounts as a dump beside the description.
real=$(PATH=/usr/bin:/bin type -P mount)
words=() list=()
args=("$@")
while [ $# -gt 0 ]; do
    case "$1" in
    -t) shift ;;
    -o) list+=("$2"); shift ;;
    *) words+=("$1") ;;
    esac
    shift
done
stack=${words[0]} dir=${words[1]}
# No helper of the system's is to see FUSE.
case "$stack" in
*.toml) ;;
*) exec "$real" -i "${args[@]}" ;;
esac
options=$(IFS=,; echo "${list[*]}")
case ",$options," in
*,remount,*) exec "$real" -i -o "$options" "$dir" ;;
esac
[ -d "$dir" ] || { echo "mount: $dir: mount point does not exist." >&2; exit 32; }
findmnt -rn -S "$stack" > /dev/null && { echo "mount: $stack already mounted." >&2; exit 32; }

# The last one may still be writing its medium.
exec 9> "$stack.lock"
flock -w 60 9 || { echo "mount: $stack: the server does not end" >&2; exit 32; }
set -- mount "$stack" "$dir" --everybody --set "chip.save=$stack.chip"
[ -e "$stack.chip" ] && set -- "$@" --set "chip.load=$stack.chip"
others=
for option in ${options//,/ }; do
    case "$option" in
    ro) set -- "$@" --read-only ;;
    *) others=$others,$option ;;
    esac
done
said=$stack.said
: > "$said"
{
    setsid "$NANDLAB" "$@" 3>&- 4>&- 5>&- 6>&- 7>&- 8>&-
    status=$?
    [ $status -eq 0 ] || { echo "$stack: server ended with $status"; cat "$said"; } >> "$NANDLAB_FAILURES"
} > "$said" 2>&1 < /dev/null &
server=$!
until grep -q 'until Ctrl-C' "$said"; do
    kill -0 $server 2> /dev/null || { echo "mount: $stack:" >&2; cat "$said" >&2; exit 32; }
    sleep 0.02
done
[ -z "$others" ] || "$real" -i -o "remount$others" "$dir"
