//! Access control lists beside permission bits. The kernel judges by both (`FUSE_POSIX_ACL`), and
//! leaves it to a server to keep them in agreement.
//!
//! *Promises.* Permission bits and access list agree, as on a file system in the kernel. This holds
//! after either is set, and for a file made in a directory with a default list. *Knows nothing of*
//! who may do it; of a caller's groups it knows the first only.

use super::privileges;
use nandlab_vfs::{Attr, Caller, Errno, FileSystem, FileType, Ino, NewNode, SetAttr, SetXattr};
use nandlab_xattr::acl::{self, ACCESS, DEFAULT, bits};

/// The permission bit of a group's own programs and directories.
const SETGID: u16 = 0o2000;

/// Which of an inode's lists, if it has it; what holds no attributes has none.
fn list_of(fs: &mut dyn FileSystem, ino: Ino, name: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
    match fs.getxattr(ino, name) {
        Ok(list) => Ok(Some(list)),
        Err(Errno::NoData | Errno::NotSupported) => Ok(None),
        Err(why) => Err(why),
    }
}

/// An attribute's value. A list that cannot be there is one that is not there: to the kernel,
/// another answer is no permission.
pub fn get(fs: &mut dyn FileSystem, ino: Ino, name: &[u8]) -> Result<Vec<u8>, Errno> {
    if acl::is_acl(name) {
        list_of(fs, ino, name)?.ok_or(Errno::NoData)
    } else {
        fs.getxattr(ino, name)
    }
}

/// Sets an attribute. An access list changes the bits, and is not kept where they say it all.
pub fn set(
    fs: &mut dyn FileSystem,
    ino: Ino,
    name: &[u8],
    value: &[u8],
    expect: SetXattr,
    by: Caller,
) -> Result<(), Errno> {
    if name != ACCESS {
        return fs.setxattr(ino, name, value, expect, by.now);
    }
    let (asked, more) = bits::of(value)?;
    if more {
        fs.setxattr(ino, name, value, expect, by.now)?;
    } else if list_of(fs, ino, name)?.is_some() {
        fs.removexattr(ino, name, by.now)?;
    }
    let attr = fs.getattr(ino)?;
    // Who is not of the group makes no programs of it.
    let foreign = by.uid != 0 && by.gid != attr.gid;
    let mode = attr.mode & 0o7000 & !if foreign { SETGID } else { 0 } | asked;
    fs.setattr(
        ino,
        &SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        },
        by.now,
    )
    .map(|_| ())
}

/// Changes attributes. New bits change the access list, if there is one; a new owner or length ends
/// the rights of [`privileges`].
pub fn change(
    fs: &mut dyn FileSystem,
    ino: Ino,
    change: &SetAttr,
    by: Caller,
) -> Result<Attr, Errno> {
    if let Some(mode) = change.mode
        && let Some(list) = list_of(fs, ino, ACCESS)?
    {
        fs.setxattr(
            ino,
            ACCESS,
            &bits::changed(list, mode)?,
            SetXattr::Any,
            by.now,
        )?;
    }
    let attr = fs.setattr(ino, change, by.now)?;
    if !privileges::are_taken_by(change, by) || attr.kind != FileType::File {
        return Ok(attr);
    }
    privileges::drop_capabilities(fs, ino, by)?;
    match change.mode.is_none() && privileges::drop_bits(fs, ino, by)? {
        true => fs.getattr(ino),
        false => Ok(attr),
    }
}

/// Makes an inode: with lists and bits of its directory's default list, or else with the bits that
/// the caller's mask leaves.
pub fn create(
    fs: &mut dyn FileSystem,
    dir: Ino,
    name: &[u8],
    node: NewNode<'_>,
    (mode, mask): (u16, u16),
    by: Caller,
) -> Result<Attr, Errno> {
    let Some(default) = list_of(fs, dir, DEFAULT)? else {
        return fs.create(dir, name, node, mode & !mask, by);
    };
    let (access, mode) = bits::inherited(&default, mode)?;
    let made = fs.create(dir, name, node, mode, by)?;
    let is_dir = made.kind == FileType::Directory;
    let lists = [(ACCESS, access), (DEFAULT, is_dir.then_some(default))];
    for (of, list) in lists
        .iter()
        .filter_map(|(of, list)| Some((of, list.as_ref()?)))
    {
        if let Err(why) = fs.setxattr(made.ino, of, list, SetXattr::Any, by.now) {
            // Without its list it would let others in than it should.
            remove(fs, dir, name, &made, by)?;
            return Err(why);
        }
    }
    fs.getattr(made.ino)
}

fn remove(
    fs: &mut dyn FileSystem,
    dir: Ino,
    name: &[u8],
    made: &Attr,
    by: Caller,
) -> Result<(), Errno> {
    let is_dir = made.kind == FileType::Directory;
    if is_dir {
        fs.rmdir(dir, name, by.now)
    } else {
        fs.unlink(dir, name, by.now)
    }?;
    fs.forget(made.ino, 1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandlab_vfs::{MemFs, Time};

    const ALL: u32 = 0xFFFF_FFFF;
    const BY: Caller = Caller {
        uid: 1000,
        gid: 1000,
        now: Time::new(5),
    };

    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let entry = |(tag, bits, id): &(u16, u16, u32)| {
            [
                &tag.to_le_bytes()[..],
                &bits.to_le_bytes(),
                &id.to_le_bytes(),
            ]
            .concat()
        };
        [2, 0, 0, 0]
            .into_iter()
            .chain(entries.iter().flat_map(entry))
            .collect()
    }

    fn named() -> Vec<u8> {
        list(&[
            (1, 7, ALL),
            (2, 6, 42),
            (4, 5, ALL),
            (16, 6, ALL),
            (32, 0, ALL),
        ])
    }

    fn mode(fs: &mut MemFs, ino: Ino) -> u16 {
        fs.getattr(ino).unwrap().mode & 0o7777
    }

    fn volume() -> MemFs {
        MemFs::new(1 << 20, Time::new(0))
    }

    #[test]
    fn a_list_changes_the_bits_and_bits_change_the_list() {
        let mut fs = volume();
        let file = fs
            .create(Ino::ROOT, b"file", NewNode::File, 0o644, BY)
            .unwrap()
            .ino;
        set(&mut fs, file, ACCESS, &named(), SetXattr::Any, BY).unwrap();
        assert_eq!(mode(&mut fs, file), 0o760);
        change(
            &mut fs,
            file,
            &SetAttr {
                mode: Some(0o641),
                ..SetAttr::default()
            },
            BY,
        )
        .unwrap();
        let changed = get(&mut fs, file, ACCESS).unwrap();
        assert_eq!(
            (bits::of(&changed), mode(&mut fs, file)),
            (Ok((0o641, true)), 0o641)
        );
        set(
            &mut fs,
            file,
            ACCESS,
            &list(&[(1, 6, ALL), (4, 4, ALL), (32, 4, ALL)]),
            SetXattr::Any,
            BY,
        )
        .unwrap();
        assert_eq!(
            (get(&mut fs, file, ACCESS), mode(&mut fs, file)),
            (Err(Errno::NoData), 0o644),
            "the bits say it all"
        );
        assert_eq!(
            set(&mut fs, file, ACCESS, b"no list", SetXattr::Any, BY),
            Err(Errno::Invalid)
        );
    }

    #[test]
    fn who_is_not_of_the_group_makes_no_programs_of_it() {
        let mut fs = volume();
        let file = fs
            .create(Ino::ROOT, b"file", NewNode::File, 0o2755, BY)
            .unwrap()
            .ino;
        set(&mut fs, file, ACCESS, &named(), SetXattr::Any, BY).unwrap();
        assert_eq!(mode(&mut fs, file), 0o2760);
        set(
            &mut fs,
            file,
            ACCESS,
            &named(),
            SetXattr::Any,
            Caller { gid: 7, ..BY },
        )
        .unwrap();
        assert_eq!(mode(&mut fs, file), 0o760);
    }

    #[test]
    fn what_is_made_has_its_directorys_default_list_or_the_callers_mask() {
        let mut fs = volume();
        let plain = create(
            &mut fs,
            Ino::ROOT,
            b"plain",
            NewNode::File,
            (0o666, 0o027),
            BY,
        )
        .unwrap();
        assert_eq!(
            (plain.mode & 0o777, get(&mut fs, plain.ino, ACCESS)),
            (0o640, Err(Errno::NoData))
        );
        let dir = create(
            &mut fs,
            Ino::ROOT,
            b"dir",
            NewNode::Directory,
            (0o777, 0),
            BY,
        )
        .unwrap()
        .ino;
        set(&mut fs, dir, DEFAULT, &named(), SetXattr::Any, BY).unwrap();
        assert_eq!(mode(&mut fs, dir), 0o777, "a default list is for others");
        let file = create(&mut fs, dir, b"file", NewNode::File, (0o666, 0o077), BY).unwrap();
        let access = get(&mut fs, file.ino, ACCESS).unwrap();
        assert_eq!(
            (file.mode & 0o777, bits::of(&access)),
            (0o660, Ok((0o660, true)))
        );
        assert_eq!(get(&mut fs, file.ino, DEFAULT), Err(Errno::NoData));
        let below = create(
            &mut fs,
            dir,
            b"below",
            NewNode::Directory,
            (0o777, 0o077),
            BY,
        )
        .unwrap();
        assert_eq!(
            (below.mode & 0o777, get(&mut fs, below.ino, DEFAULT)),
            (0o760, Ok(named()))
        );
    }
}
