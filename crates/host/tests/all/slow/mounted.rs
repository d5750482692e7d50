//! File systems as directories, through the host's own system calls. Needs root and `/dev/fuse`.

use nandlab_block::Ram;
use nandlab_ext::{Ext, Format, format};
use nandlab_host::mount::{Options, STATS, serve};
use nandlab_vfs::tree::{Tree, snapshot};
use nandlab_vfs::{FileSystem, Ino, Time};
use rustix::fs::{AtFlags, CWD, FileType, Mode, RenameFlags, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;

/// Serves an ext3 in memory while `program` uses it; gives what the next mount finds on it.
fn mounted(
    options: impl FnOnce() -> Options<'static> + Send + 'static,
    program: impl FnOnce(&Path),
) -> Tree {
    let fuse = Path::new("/dev/fuse").exists();
    assert!(
        rustix::process::geteuid().is_root() && fuse,
        "this test must run as root (with /dev/fuse, which is there: {fuse})"
    );
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().to_path_buf();
    let (ready, wait) = channel();
    let server = thread::spawn(move || {
        let mut disk = Ram::new(512, (64 << 20) / 512);
        format(
            &mut disk,
            &Format {
                journal: true,
                ..Format::default()
            },
        )
        .unwrap();
        let mut fs = Ext::mount(&mut disk, nandlab_ext::Options::default()).unwrap();
        fs.rmdir(Ino::ROOT, b"lost+found", Time::new(1_000_000_000))
            .unwrap();
        serve(&mut fs, &at, options(), || ready.send(()).unwrap()).unwrap();
        drop(fs);
        snapshot(&mut Ext::mount(&mut disk, nandlab_ext::Options::default()).unwrap()).unwrap()
    });
    wait.recv().expect("it is mounted");
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| program(dir.path())));
    unmount(
        dir.path(),
        if outcome.is_ok() {
            UnmountFlags::empty()
        } else {
            UnmountFlags::DETACH
        },
    )
    .unwrap();
    let tree = server.join().unwrap();
    outcome.unwrap_or_else(|why| std::panic::resume_unwind(why));
    tree
}

#[test]
fn what_programs_do_to_the_directory_is_what_the_file_system_holds() {
    let tree = mounted(Options::default, |dir| {
        let path = |name: &str| dir.join(name);
        fs::create_dir_all(path("a/b")).unwrap();
        fs::write(path("a/file"), b"contents").unwrap();
        fs::hard_link(path("a/file"), path("a/b/link")).unwrap();
        symlink("b/link", path("a/symbolic")).unwrap();
        assert_eq!(fs::read(path("a/symbolic")).unwrap(), b"contents");
        rustix::fs::mknodat(
            CWD,
            path("disk"),
            FileType::BlockDevice,
            Mode::from(0o640),
            rustix::fs::makedev(259, 70_000),
        )
        .unwrap();
        assert_eq!(
            fs::metadata(path("disk")).unwrap().rdev(),
            rustix::fs::makedev(259, 70_000)
        );
        rustix::fs::setxattr(path("a/file"), "user.colour", b"blue", XattrFlags::CREATE).unwrap();
        assert_eq!(
            rustix::fs::setxattr(path("a/file"), "user.colour", b"", XattrFlags::CREATE),
            Err(Errno::EXIST)
        );
        let mut value = [0; 16];
        assert_eq!(
            rustix::fs::getxattr(path("a/file"), "user.colour", &mut value),
            Ok(4)
        );
        assert_eq!(
            rustix::fs::getxattr(path("a/file"), "user.other", &mut value),
            Err(Errno::NODATA)
        );
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: -5,
                tv_nsec: 7,
            },
            last_modification: Timespec {
                tv_sec: 1 << 33,
                tv_nsec: 9,
            },
        };
        rustix::fs::utimensat(CWD, path("a/file"), &times, AtFlags::empty()).unwrap();
        let about = fs::metadata(path("a/file")).unwrap();
        assert_eq!(
            (
                about.atime(),
                about.atime_nsec(),
                about.mtime(),
                about.mtime_nsec(),
                about.nlink()
            ),
            (-5, 7, 1 << 33, 9, 2)
        );
        std::os::unix::fs::chown(path("a/b"), Some(70_000), Some(80_000)).unwrap();
    });
    let named = |path: &str| {
        tree.get(path.as_bytes())
            .unwrap_or_else(|| panic!("{path} is missing"))
    };
    assert_eq!(tree.len(), 7, "{:?}", tree.keys());
    assert_eq!(named("a/file").contents, b"contents");
    assert_eq!(named("a/file").attr.ino, named("a/b/link").attr.ino);
    assert_eq!(
        named("a/file")
            .xattrs
            .get(&b"user.colour"[..])
            .map(Vec::as_slice),
        Some(&b"blue"[..])
    );
    assert_eq!(named("disk").attr.device, (259, 70_000));
    assert_eq!(
        (named("a/b").attr.uid, named("a/b").attr.gid),
        (70_000, 80_000)
    );
}

#[test]
fn renames_replace_refuse_and_exchange() {
    mounted(Options::default, |dir| {
        let path = |name: &str| dir.join(name);
        ["one", "two", "three"]
            .iter()
            .for_each(|name| fs::write(path(name), name).unwrap());
        fs::rename(path("one"), path("two")).unwrap();
        assert_eq!(
            (fs::read(path("two")).unwrap(), path("one").exists()),
            (b"one".to_vec(), false)
        );
        let refused =
            rustix::fs::renameat_with(CWD, path("two"), CWD, path("three"), RenameFlags::NOREPLACE);
        assert_eq!(refused, Err(Errno::EXIST));
        rustix::fs::renameat_with(CWD, path("two"), CWD, path("three"), RenameFlags::EXCHANGE)
            .unwrap();
        assert_eq!(
            (
                fs::read(path("two")).unwrap(),
                fs::read(path("three")).unwrap()
            ),
            (b"three".to_vec(), b"one".to_vec())
        );
        fs::create_dir(path("full")).unwrap();
        fs::write(path("full/name"), "").unwrap();
        assert_eq!(
            fs::remove_dir(path("full")).unwrap_err().kind(),
            ErrorKind::DirectoryNotEmpty
        );
    });
}

#[test]
fn a_file_without_a_name_lives_until_it_is_closed() {
    let tree = mounted(Options::default, |dir| {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(dir.join("gone"))
            .unwrap();
        file.write_all_at(b"before", 0).unwrap();
        fs::remove_file(dir.join("gone")).unwrap();
        fs::write(dir.join("gone"), b"another").unwrap();
        file.write_all_at(b"after", 1_000_000).unwrap();
        let mut bytes = [0xFF; 11];
        file.read_exact_at(&mut bytes, 999_994).unwrap();
        assert_eq!(&bytes, b"\0\0\0\0\0\0after");
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        file.sync_all().unwrap();
    });
    assert_eq!(
        tree.get(&b"gone"[..]).map(|entry| entry.contents.clone()),
        Some(b"another".to_vec())
    );
}

#[test]
fn a_long_listing_gives_each_name_once_though_names_go() {
    mounted(Options::default, |dir| {
        let names: BTreeSet<String> = (0..3000)
            .map(|number| format!("a rather long name that fills listings, number {number}"))
            .collect();
        for name in &names {
            fs::write(dir.join(name), "").unwrap();
        }
        let mut seen = BTreeSet::new();
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            // With attributes too, which makes the kernel ask for them with the names.
            assert!(entry.metadata().unwrap().is_file());
            assert!(
                seen.insert(entry.file_name().into_string().unwrap()),
                "{:?} twice",
                entry.file_name()
            );
            fs::remove_file(entry.path()).unwrap();
        }
        assert_eq!(seen, names);
        assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
    });
}

#[test]
fn a_listing_has_the_same_numbers_with_attributes_and_without() {
    mounted(Options::default, |dir| {
        let mut open = rustix::fs::Dir::new(fs::File::open(dir).unwrap()).unwrap();
        let mut next = |from| {
            open.seek(from).unwrap();
            let entry = open.read().unwrap().unwrap();
            (entry.file_name().to_owned(), entry.ino(), entry.offset())
        };
        // The kernel asks for attributes at the beginning, and further on if somebody wants them.
        let (dot, own, after) = next(0);
        assert_eq!(
            (dot.as_bytes(), own),
            (&b"."[..], fs::metadata(dir).unwrap().ino())
        );
        let entries: Vec<_> = rustix::fs::Dir::new(fs::File::open(dir).unwrap())
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let (above, number, _) = next(after);
        assert_eq!(
            (entries[1].file_name(), entries[1].ino()),
            (&*above, number)
        );
    });
}

#[test]
fn lists_of_access_and_permission_bits_agree() {
    mounted(Options::default, |dir| {
        // `u::rwx,u:1000:rw-,g::r-x,m::rw-,o::---`
        let entry =
            |tag: u8, bits: u8, id: u32| [&[tag, 0, bits, 0][..], &id.to_le_bytes()].concat();
        let entries = [
            entry(1, 7, !0),
            entry(2, 6, 1000),
            entry(4, 5, !0),
            entry(16, 6, !0),
            entry(32, 0, !0),
        ]
        .concat();
        let list = [&[2, 0, 0, 0][..], &entries].concat();
        let below = dir.join("below");
        let file = below.join("file");
        fs::create_dir(&below).unwrap();
        rustix::fs::setxattr(
            &below,
            "system.posix_acl_default",
            &list,
            XattrFlags::empty(),
        )
        .unwrap();
        fs::write(&file, b"").unwrap();
        let mode = || fs::metadata(&file).unwrap().mode() & 0o777;
        assert_eq!(mode(), 0o660, "of 0666 what the list allows");
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
        let mut found = [0; 64];
        let length = rustix::fs::getxattr(&file, "system.posix_acl_access", &mut found).unwrap();
        assert_eq!(
            (length, mode(), found[4 + 3 * 8 + 2]),
            (list.len(), 0o640, 4),
            "the mask is the group's bits"
        );
        let short = [
            &[2, 0, 0, 0][..],
            &entry(1, 6, !0),
            &entry(4, 0, !0),
            &entry(32, 4, !0),
        ]
        .concat();
        rustix::fs::setxattr(
            &file,
            "system.posix_acl_access",
            &short,
            XattrFlags::empty(),
        )
        .unwrap();
        assert_eq!(mode(), 0o604);
        assert_eq!(
            rustix::fs::getxattr(&file, "system.posix_acl_access", &mut found),
            Err(Errno::NODATA),
            "the bits say it all"
        );
    });
}

#[test]
fn statistics_are_there_for_those_who_know_their_name() {
    let with_stats = || {
        let mut asked = 0;
        let stats = move || {
            asked += 1;
            format!("{{\"asked\":{asked}}}\n")
        };
        Options {
            stats: Some(Box::new(stats)),
            ..Options::default()
        }
    };
    let tree = mounted(with_stats, |dir| {
        let path = dir.join(STATS);
        assert_eq!(
            [
                fs::read_to_string(&path).unwrap(),
                fs::read_to_string(&path).unwrap()
            ],
            ["{\"asked\":1}\n", "{\"asked\":2}\n"]
        );
        assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
        assert!(OpenOptions::new().write(true).open(&path).is_err());
    });
    assert_eq!(tree.len(), 1, "nothing but the root");
}

#[test]
fn a_read_only_mount_refuses_changes() {
    mounted(
        || Options {
            read_only: true,
            ..Options::default()
        },
        |dir| {
            assert_eq!(
                fs::write(dir.join("new"), "").unwrap_err().kind(),
                ErrorKind::ReadOnlyFilesystem
            );
        },
    );
}

#[test]
fn many_programs_at_once_keep_to_themselves() {
    let tree = mounted(Options::default, |dir| {
        thread::scope(|scope| {
            for number in 0..8_u8 {
                scope.spawn(move || {
                    let own = dir.join(number.to_string());
                    fs::create_dir(&own).unwrap();
                    for round in 0..50_u8 {
                        fs::write(own.join("new"), vec![number ^ round; 5000]).unwrap();
                        fs::rename(own.join("new"), own.join("kept")).unwrap();
                        assert_eq!(
                            fs::read(own.join("kept")).unwrap(),
                            vec![number ^ round; 5000]
                        );
                    }
                });
            }
        });
    });
    assert_eq!(tree.len(), 17);
}

#[test]
fn a_volume_that_is_full_says_so_and_goes_on() {
    mounted(Options::default, |dir| {
        let full = (0..1000)
            .find_map(|number| fs::write(dir.join(number.to_string()), vec![1; 1 << 20]).err())
            .expect("64 MiB are not without end");
        assert_eq!(full.kind(), ErrorKind::StorageFull);
        fs::remove_file(dir.join("0")).unwrap();
        fs::write(dir.join("again"), vec![2; 1 << 19]).unwrap();
    });
}

#[test]
fn rights_to_run_as_another_end_with_a_write_or_a_new_owner() {
    let options = || Options {
        everybody: true,
        ..Options::default()
    };
    mounted(options, |dir| {
        let file = dir.join("program");
        let mode = || fs::metadata(&file).unwrap().permissions().mode() & 0o7777;
        let set = || fs::set_permissions(&file, fs::Permissions::from_mode(0o6777)).unwrap();
        let write = |uid| {
            let shell = Command::new("sh")
                .args(["-c", "echo more >> program"])
                .current_dir(dir)
                .uid(uid)
                .gid(uid)
                .status();
            assert!(shell.unwrap().success(), "a write by {uid}");
        };
        fs::write(&file, b"one").unwrap();
        set();
        write(0);
        assert_eq!(mode(), 0o6777, "root may keep them");
        write(65_534);
        assert_eq!(mode(), 0o777, "another user may not");
        set();
        std::os::unix::fs::chown(&file, Some(1), None).unwrap();
        assert_eq!(mode(), 0o777, "nobody keeps them with a new owner");
        // Version 2, for raw sockets.
        let mut capabilities = [0; 20];
        capabilities[..6].copy_from_slice(&[1, 0, 0, 2, 0, 0x20]);
        let name = "security.capability";
        rustix::fs::setxattr(&file, name, &capabilities, XattrFlags::empty()).unwrap();
        write(0);
        let left = rustix::fs::getxattr(&file, name, &mut capabilities);
        assert_eq!(left.err(), Some(Errno::NODATA), "capabilities");
    });
}
