//! MemFs keeps what the trait promises.

use super::*;
use crate::path;

const T0: Time = Time::new(1000);
const T1: Time = Time::new(2000);

fn fs() -> MemFs {
    MemFs::new(1 << 20, T0)
}

fn make(fs: &mut MemFs, name: &[u8], node: NewNode<'_>) -> Ino {
    fs.create(
        Ino::ROOT,
        name,
        node,
        0o644,
        Caller {
            uid: 7,
            gid: 8,
            now: T0,
        },
    )
    .unwrap()
    .ino
}

#[test]
fn holes_read_as_zeros_and_take_no_space() {
    let mut fs = fs();
    let file = make(&mut fs, b"f", NewNode::File);
    assert_eq!(fs.write(file, 1 << 40, b"end", T1), Ok(3));
    let mut buf = [9; 5];
    assert_eq!(fs.read(file, (1 << 40) - 2, &mut buf), Ok(5));
    assert_eq!((&buf, fs.used_bytes()), (b"\0\0end", 4096));
    fs.setattr(
        file,
        &SetAttr {
            size: Some((1 << 40) + 1),
            ..SetAttr::default()
        },
        T1,
    )
    .unwrap();
    fs.setattr(
        file,
        &SetAttr {
            size: Some(1 << 41),
            ..SetAttr::default()
        },
        T1,
    )
    .unwrap();
    assert_eq!(fs.read(file, 1 << 40, &mut buf), Ok(5));
    assert_eq!(&buf, b"e\0\0\0\0");
    fs.setattr(
        file,
        &SetAttr {
            size: Some(0),
            ..SetAttr::default()
        },
        T1,
    )
    .unwrap();
    assert_eq!((fs.used_bytes(), fs.read(file, 0, &mut buf)), (0, Ok(0)));
}

#[test]
fn a_full_file_system_writes_what_fits() {
    let mut fs = MemFs::new(8192, T0);
    let file = make(&mut fs, b"f", NewNode::File);
    assert_eq!(fs.write(file, 100, &[1; 10_000], T1), Ok(8092));
    assert_eq!(fs.write(file, 8192, &[1], T1), Err(Errno::NoSpace));
    assert_eq!(fs.write(file, 0, &[2], T1), Ok(1));
    assert_eq!(
        fs.write(file, i64::MAX as u64, &[2], T1),
        Err(Errno::FileTooBig)
    );
}

#[test]
fn a_file_without_names_lives_while_it_is_referred_to() {
    let mut fs = fs();
    let file = make(&mut fs, b"f", NewNode::File);
    fs.write(file, 0, b"data", T0).unwrap();
    fs.link(file, Ino::ROOT, b"g", T1).unwrap();
    assert_eq!(fs.getattr(file).unwrap().links, 2);
    fs.unlink(Ino::ROOT, b"f", T1).unwrap();
    fs.unlink(Ino::ROOT, b"g", T1).unwrap();
    assert_eq!(fs.read(file, 0, &mut [0; 9]), Ok(4));
    assert_eq!(fs.link(file, Ino::ROOT, b"h", T1), Err(Errno::NoEntry));
    fs.forget(file, 2);
    assert_eq!((fs.getattr(file), fs.used_bytes()), (Err(Errno::Stale), 0));
}

#[test]
fn rename_keeps_the_rules_of_linux() {
    let mut fs = fs();
    let d = make(&mut fs, b"d", NewNode::Directory);
    let e = make(&mut fs, b"e", NewNode::Directory);
    let f = make(&mut fs, b"f", NewNode::File);
    let root = Ino::ROOT;
    let mut go = |from, to, how| fs.rename(from, to, how, T1);
    assert_eq!(
        go((root, b"d"), (root, b"f"), Rename::Replace),
        Err(Errno::NotDirectory)
    );
    assert_eq!(
        go((root, b"f"), (root, b"d"), Rename::Replace),
        Err(Errno::IsDirectory)
    );
    assert_eq!(
        go((root, b"f"), (root, b"d"), Rename::NoReplace),
        Err(Errno::Exists)
    );
    assert_eq!(
        go((root, b"d"), (d, b"x"), Rename::Replace),
        Err(Errno::Invalid)
    );
    assert_eq!(
        go((root, b"none"), (d, b"x"), Rename::Replace),
        Err(Errno::NoEntry)
    );
    assert_eq!(
        go((root, b"f"), (d, b"x"), Rename::Exchange),
        Err(Errno::NoEntry)
    );
    assert_eq!(go((root, b"f"), (d, b"x"), Rename::Replace), Ok(()));
    assert_eq!(
        go((root, b"e"), (root, b"d"), Rename::Replace),
        Err(Errno::NotEmpty)
    );
    assert_eq!(
        go((d, b"x"), (root, b"d"), Rename::Replace),
        Err(Errno::NotEmpty)
    );
    assert_eq!(go((d, b"x"), (root, b"e"), Rename::Exchange), Ok(()));
    assert_eq!(
        (
            fs.lookup(root, b"e").unwrap().ino,
            fs.lookup(d, b"x").unwrap().ino
        ),
        (f, e)
    );
    assert_eq!(
        (
            fs.getattr(root).unwrap().links,
            fs.getattr(d).unwrap().links
        ),
        (3, 3)
    );
}

#[test]
fn a_listing_goes_on_where_it_stopped_though_names_come_and_go() {
    let mut fs = fs();
    for name in [b"a", b"b", b"c", b"d"] {
        make(&mut fs, name, NewNode::Fifo);
    }
    let mut seen: Vec<(Vec<u8>, u64)> = Vec::new();
    fs.readdir(Ino::ROOT, 0, &mut |entry| {
        seen.push((entry.name.into(), entry.next));
        seen.len() < 2
    })
    .unwrap();
    fs.unlink(Ino::ROOT, b"a", T1).unwrap();
    fs.unlink(Ino::ROOT, b"c", T1).unwrap();
    fs.readdir(Ino::ROOT, seen[1].1, &mut |entry| {
        seen.push((entry.name.into(), entry.next));
        true
    })
    .unwrap();
    let names: Vec<_> = seen.iter().map(|(name, _)| name[0]).collect();
    assert_eq!(names, b"abd");
}

#[test]
fn set_gid_directories_pass_their_group_on() {
    let mut fs = fs();
    let d = make(&mut fs, b"d", NewNode::Directory);
    fs.setattr(
        d,
        &SetAttr {
            mode: Some(0o2755),
            gid: Some(50),
            ..SetAttr::default()
        },
        T1,
    )
    .unwrap();
    let e = fs
        .mkdir(
            d,
            b"e",
            0o700,
            Caller {
                uid: 1,
                gid: 2,
                now: T1,
            },
        )
        .unwrap();
    let f = fs
        .create(
            d,
            b"f",
            NewNode::File,
            0o600,
            Caller {
                uid: 1,
                gid: 2,
                now: T1,
            },
        )
        .unwrap();
    assert_eq!((e.mode, e.gid, f.mode, f.gid), (0o2700, 50, 0o600, 50));
}

#[test]
fn extended_attributes_have_namespaces_and_expectations() {
    let mut fs = fs();
    let f = make(&mut fs, b"f", NewNode::File);
    let mut set = |name: &[u8], expect| fs.setxattr(f, name, b"v", expect, T1);
    assert_eq!(set(b"nobody.x", SetXattr::Any), Err(Errno::NotSupported));
    assert_eq!(set(b"user.x", SetXattr::Replace), Err(Errno::NoData));
    assert_eq!(set(b"user.x", SetXattr::Create), Ok(()));
    assert_eq!(set(b"user.x", SetXattr::Create), Err(Errno::Exists));
    assert_eq!(fs.listxattr(f), Ok([b"user.x".to_vec()].into()));
    assert_eq!(fs.removexattr(f, b"user.x", T1), Ok(()));
    assert_eq!(fs.getxattr(f, b"user.x"), Err(Errno::NoData));
}

#[test]
fn a_directory_without_a_name_takes_no_new_ones() {
    let mut fs = fs();
    let d = make(&mut fs, b"d", NewNode::Directory);
    fs.rmdir(Ino::ROOT, b"d", T1).unwrap();
    assert_eq!(
        fs.create(d, b"x", NewNode::File, 0o644, Caller::root(T1)),
        Err(Errno::NoEntry)
    );
    assert_eq!(path::resolve(&mut fs, b"/d"), Err(Errno::NoEntry));
}

#[test]
fn nothing_is_served_after_the_end_of_the_mount() {
    let mut fs = fs();
    fs.unmount().unwrap();
    assert_eq!(
        (fs.getattr(Ino::ROOT), fs.sync()),
        (Err(Errno::Io), Err(Errno::Io))
    );
}
