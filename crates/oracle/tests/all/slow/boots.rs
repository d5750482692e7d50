//! The oracle tells what happened in the guest: values, exit status, death. Needs the host's tools;
//! fails, naming the package, without them.

use nandlab_oracle::{Disk, Guest, Oracle, OracleError, manifest};
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const BOOT: Duration = Duration::from_secs(120);

fn guest() -> Guest {
    Oracle::ready()
        .unwrap_or_else(|missing| panic!("{missing}"))
        .guest()
}

#[test]
fn what_a_script_says_sends_and_lists_comes_back_with_its_exit_status() {
    let script = r#"
        say one 1
        say one "two = 2"
        say lines "$(printf 'a  b\nc')"
        say empty
        say memory "$(awk '/MemTotal/ { print $2 }' /proc/meminfo)"
        say tool "$(/opt/tool x)"
        mp no_such_module || say refused yes
        mkdir /tmp/tree; cd /tmp/tree
        printf 'abc' > "$(printf 'odd\nname ')"; ln -s 'no where' link; ln link twin; mknod -m 600 null c 1 3; mkfifo -m 644 pipe
        touch -d @1000000000 odd*; chown 1000:70000 odd*; chmod 4711 odd*
        manifest /tmp/tree; manifest /tmp/tree again
        head -c 300000 /dev/urandom > /tmp/random
        send random /tmp/random; say hash "$(sha256sum < /tmp/random)"
        head -c 100000 /dev/zero > /tmp/zero; send zero /tmp/zero
        echo on the console
        exit 3
    "#;
    let mut running = guest()
        .memory(512)
        .file("/opt/tool", "#!/bin/sh\necho \"tool got $1\"\n")
        .script(script)
        .spawn()
        .unwrap();
    assert_eq!(running.wait_for("one", BOOT).unwrap(), "1");
    assert_eq!(running.wait_for("one", BOOT).unwrap(), "two = 2");
    let report = running.wait().unwrap();
    println!("{:?}\n{}", report.wall, report.console);

    assert_eq!((report.exit, report.qemu_killed), (3, false));
    assert_eq!(report.values["one"], ["1", "two = 2"]);
    assert_eq!(report.values["lines"], ["a  b", "c"]);
    assert_eq!(report.values["empty"], [""]);
    assert_eq!(
        (report.value("tool"), report.value("refused")),
        (Some("tool got x"), Some("yes"))
    );
    let memory_kib: u32 = report.value("memory").unwrap().parse().unwrap();
    assert!((300_000..512 * 1024).contains(&memory_kib), "{memory_kib}");
    assert!(report.console.contains("on the console"));
    assert_eq!(report.files["zero"], [0; 100_000]);
    assert_eq!(report.files["random"].len(), 300_000);

    let tree = &report.manifests["manifest"];
    assert_eq!(manifest::differences(tree, &report.manifests["again"]), "");
    assert_eq!(tree.len(), 6);
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(
        tree[Path::new("./odd\nname ")].to_string(),
        format!("4711 1000:70000 x1 1000000000+0ns file 3 {abc}")
    );
    let kind = |path: &str| {
        (
            tree[Path::new(path)].kind.to_string(),
            tree[Path::new(path)].links,
        )
    };
    assert_eq!(kind("./link"), ("link \"no where\"".into(), 2));
    assert_eq!(kind("./null"), ("char 1:3".into(), 1));
    assert_eq!(kind("./pipe"), ("fifo".into(), 1));
    match report.success() {
        Err(OracleError::Script { exit: 3, console }) => {
            assert!(console.ends_with("on the console"), "{console}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn guests_that_go_on_from_one_boot_have_their_own_files_disks_and_time() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = |name: &str| {
        let path = scratch.path().join(name);
        fs::write(&path, name.repeat(1 << 16)).unwrap();
        Disk::File(path)
    };
    let script = r#"
        say time "$(date +%s)"
        say disks /sys/block/vd*
        say bytes "$(head -c 1 /dev/vda)$(head -c 1 /dev/vdb)"
        say file "$(cat /own/file)"
        mkdir /left
        say free "$(ls /left)"; echo x > /left/x
    "#;
    let go = |file: &str, disks: [&str; 2]| {
        let guest = disks.map(disk).into_iter().fold(guest(), Guest::disk);
        let guest = guest.file("/own/file", file).script(script);
        guest
            .run()
            .and_then(nandlab_oracle::Report::success)
            .unwrap()
    };
    let now = || {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
        since.unwrap().as_secs()
    };
    for (file, disks) in [("one", ["a", "b"]), ("two", ["c", "d"])] {
        let earliest = now() - 2;
        let report = go(file, disks);
        let time = report.value("time").unwrap().parse().unwrap();
        assert!((earliest..=now() + 2).contains(&time), "{time}");
        assert_eq!(report.value("disks"), Some("/sys/block/vda /sys/block/vdb"));
        assert_eq!(report.value("bytes"), Some(disks.concat().as_str()));
        assert_eq!(report.value("file"), Some(file));
        assert_eq!(report.value("free"), Some(""));
    }
}

#[test]
fn a_guest_that_takes_too_long_is_killed_and_reported() {
    let started = Instant::now();
    let error = guest()
        .timeout(Duration::from_secs(1))
        .script("sleep 1000")
        .run()
        .unwrap_err();
    assert!(matches!(error, OracleError::Timeout { .. }), "{error}");
    assert!(started.elapsed() < BOOT);
}

#[test]
fn what_a_killed_guest_has_written_is_on_its_disk() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("a disk, with a comma.img");
    fs::write(&image, [0; 1 << 20]).unwrap();
    let script = r#"
        n=1
        while true; do
            printf %512d $n | dd of=/dev/vda seek=$n conv=notrunc,fsync 2>/dev/null || exit 1
            say written $n
            n=$((n + 1))
        done
    "#;
    let mut running = guest()
        .disk(Disk::File(image.clone()))
        .script(script)
        .spawn()
        .unwrap();
    for n in 1..=5 {
        assert_eq!(running.wait_for("written", BOOT).unwrap(), n.to_string());
    }
    let silent = running
        .wait_for("never", Duration::from_millis(1))
        .unwrap_err();
    assert!(matches!(silent, OracleError::Silent { .. }), "{silent}");
    running.kill();
    let report = running.wait().unwrap();
    assert_eq!((report.exit, report.qemu_killed), (137, true));

    let disk = fs::read(&image).unwrap();
    let said = report.values["written"].len();
    assert!(said >= 5);
    for (n, sector) in disk.chunks(512).enumerate().take(said + 1).skip(1) {
        assert_eq!(sector, format!("{n:512}").as_bytes(), "sector {n}");
    }
}

#[test]
fn an_nbd_disk_is_its_servers_and_fails_when_the_server_is_gone() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    let socket = scratch.path().join("socket");
    fs::write(&image, [0; 1 << 20]).unwrap();
    let mut server = serve(&image, &socket);
    let script = r#"
        write() { echo "$1" | dd of=/dev/vda seek=$2 conv=notrunc,sync,fsync 2>&1; }
        write kept 1 || exit 1
        say written 1
        while write lost 2; do usleep 10000; done
        say failed yes
    "#;
    let mut running = guest()
        .disk(Disk::Nbd { socket })
        .script(script)
        .spawn()
        .unwrap();
    running.wait_for("written", BOOT).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(running.wait_for("failed", BOOT).unwrap(), "yes");
    let report = running.wait().unwrap().success().unwrap();
    assert!(report.console.contains("I/O error"), "{}", report.console);
    assert_eq!(&fs::read(&image).unwrap()[512..518], b"kept\n\0");
}

/// An NBD server that comes with QEMU, ready for a client.
fn serve(image: &Path, socket: &Path) -> Child {
    let child = Command::new("qemu-storage-daemon")
        .args([
            "--blockdev",
            &format!("driver=file,node-name=disk,filename={}", image.display()),
        ])
        .args([
            "--nbd-server",
            &format!("addr.type=unix,addr.path={}", socket.display()),
        ])
        .args([
            "--export",
            "type=nbd,id=export,node-name=disk,name=,writable=on",
        ])
        .spawn()
        .expect("qemu-storage-daemon not found; install it: apt-get install qemu-system-common");
    let started = Instant::now();
    while !socket.exists() {
        assert!(started.elapsed() < BOOT, "no socket {socket:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn a_guest_that_dies_is_an_error_that_shows_its_last_words() {
    let mut running = guest()
        .script("say before; echo c > /proc/sysrq-trigger")
        .spawn()
        .unwrap();
    let error = running.wait_for("after", BOOT).unwrap_err();
    assert!(matches!(error, OracleError::Ended { .. }), "{error}");
    assert!(error.to_string().contains("Kernel panic"), "{error}");
    assert!(matches!(running.wait(), Err(OracleError::Ended { .. })));
}

#[test]
fn what_is_missing_on_the_host_is_named_before_the_boot() {
    let error = guest()
        .program("/nowhere/mkfs.f2fs")
        .run()
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("/nowhere/mkfs.f2fs") && error.contains("apt-get install f2fs-tools"),
        "{error}"
    );
    let error = guest()
        .disk(Disk::Nbd {
            socket: "/nowhere/socket".into(),
        })
        .run()
        .unwrap_err()
        .to_string();
    assert!(error.contains("/nowhere/socket"), "{error}");
}

#[test]
fn a_module_is_built_for_the_kernel_that_judges_and_kept() {
    let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
    let source = r#"
        #include <linux/module.h>
        #include "answer.h"
        static int answer = ANSWER;
        module_param(answer, int, 0444);
        MODULE_LICENSE("Dual MIT/GPL");
    "#;
    let build = |header| oracle.modules(&[("asked.c", source), ("answer.h", header)]);
    let modules = build("#define ANSWER 42\n").unwrap();
    assert_eq!(modules, build("#define ANSWER 42\n").unwrap());
    let guest = oracle.guest().file("/asked.ko", modules["asked"].clone());
    let report = guest
        .script("insmod /asked.ko && say answer $(cat /sys/module/asked/parameters/answer)")
        .run()
        .unwrap()
        .success()
        .unwrap();
    assert_eq!((modules.len(), report.value("answer")), (1, Some("42")));
    let error = build("#define ANSWER a_name_that_is_not_there\n")
        .unwrap_err()
        .to_string();
    assert!(error.contains("a_name_that_is_not_there"), "{error}");
}
