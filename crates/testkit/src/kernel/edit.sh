# The kernel edits what it finds: edit DEVICE KEY TYPE
edit() { # DEVICE KEY TYPE
    mount -t $3 $1 /mnt && manifest /mnt $2-found || { echo "$2 failed"; exit 1; }
    mkdir -p "/mnt/made by the kernel/deep/deeper" && cd "/mnt/made by the kernel" &&
        head -c 1400000 /dev/urandom > random && printf short > "deep/a longer name.txt" &&
        dd if=/dev/zero of=sparse bs=1 count=1 seek=2500000 2>/dev/null &&
        i=0; while [ $i -lt 400 ]; do echo $i > "a name of the kernel, rather long so that blocks fill $i" || exit 1; i=$((i+1)); done
    i=0; while [ $i -lt 400 ]; do rm "a name of the kernel, rather long so that blocks fill $i" || exit 1; i=$((i+7)); done
    i=0; while [ $i -lt 150 ]; do echo $i > "/mnt/directory of many/one more of the kernel in the index $i" || exit 1; i=$((i+1)); done
    ln -s target link && ln -s "$(head -c 150 /dev/zero | tr '\0' y)" longlink && ln random hardlink && mknod device b 300 70000 && mkfifo fifo &&
        touch -d @1000000000 random && mv random "deep/deeper/moved random" && chown 90000:3 sparse && chmod 2755 deep &&
        rm "/mnt/directory of many/one of many files with a rather long name 001" && truncate -s 1234 /mnt/cut && cd / &&
        manifest /mnt $2-left && umount /mnt || { echo "$2 failed"; exit 1; }
}
