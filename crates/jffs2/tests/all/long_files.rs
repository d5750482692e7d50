//! Files up to the last byte that the field for a length can name, as Linux allows them
//! (`s_maxbytes` in `fs/jffs2/fs.c`).

use crate::common::{NAND, mount, nand, nor};
use nandlab_jffs2::{Jffs2, Options};
use nandlab_mtd::Mtd;
use nandlab_vfs::{Caller, Errno, FileSystem, Ino, NewNode, SetAttr, Sync, Time};

const NOW: Time = Time::new(1_000_000_000);
const END: u64 = u32::MAX as u64;

fn long_file<M: Mtd>(mtd: M, options: Options) {
    let mut fs = Jffs2::mount(mtd, options).unwrap();
    let ino = fs
        .create(Ino::ROOT, b"long", NewNode::File, 0o644, Caller::root(NOW))
        .unwrap()
        .ino;
    fs.write(ino, 0, b"begin", NOW).unwrap();
    assert_eq!(
        fs.write(ino, END - 10_000, &[7; 20_000], NOW),
        Ok(10_000),
        "as much as fits"
    );
    assert_eq!(fs.write(ino, END, b"behind", NOW), Err(Errno::FileTooBig));
    assert_eq!(
        fs.setattr(
            ino,
            &SetAttr {
                size: Some(END + 1),
                ..SetAttr::default()
            },
            NOW
        ),
        Err(Errno::FileTooBig)
    );
    for at in [END - 1, END - 4096, END - 5000, 1 << 31] {
        assert_eq!(fs.write(ino, at, b"x", NOW), Ok(1), "at {at}");
    }
    // Every node is moved at least once.
    for round in 0..60_u8 {
        let other = fs
            .create(Ino::ROOT, b"other", NewNode::File, 0o644, Caller::root(NOW))
            .unwrap()
            .ino;
        let noise: Vec<u8> = (0..60_000_u32)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8 ^ round)
            .collect();
        fs.write(other, 0, &noise, NOW).unwrap();
        fs.unlink(Ino::ROOT, b"other", NOW).unwrap();
        fs.forget(other, 1);
    }
    fs.fsync(ino, Sync::All).unwrap();
    fs.unmount().unwrap();
    let mut fs = mount(fs.into_mtd());
    let attr = fs.lookup(Ino::ROOT, b"long").unwrap();
    assert_eq!(attr.size, END);
    let mut found = [0xFF; 8192];
    assert_eq!(fs.read(attr.ino, END - 5001, &mut found), Ok(5001));
    assert_eq!((found[..2].to_vec(), found[5000]), (vec![7, b'x'], b'x'));
    assert_eq!(fs.read(attr.ino, (1 << 31) - 1, &mut found[..3]), Ok(3));
    assert_eq!(found[..3], [0, b'x', 0]);
    let short = SetAttr {
        size: Some(3),
        ..SetAttr::default()
    };
    fs.setattr(attr.ino, &short, NOW).unwrap();
    assert_eq!(
        fs.setattr(
            attr.ino,
            &SetAttr {
                size: Some(END),
                ..SetAttr::default()
            },
            NOW
        )
        .unwrap()
        .size,
        END
    );
    assert_eq!(fs.read(attr.ino, 0, &mut found[..6]), Ok(6));
    assert_eq!(found[..6], *b"beg\0\0\0");
    assert!(fs.check().unwrap().findings.is_empty());
}

#[test]
fn a_file_goes_to_the_last_byte_on_nor() {
    long_file(nor(40, 16 * 1024), Options::default());
}

#[test]
fn a_file_goes_to_the_last_byte_on_nand() {
    long_file(nand(NAND, 20), Options::default());
}
