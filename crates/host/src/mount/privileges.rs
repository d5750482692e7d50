//! Rights that a program has by its file: set-user-ID, set-group-ID and capabilities. The kernel
//! leaves it to a server to take them away (`FUSE_HANDLE_KILLPRIV_V2`), and then need not ask for
//! the capabilities before each write.
//!
//! *Promises.* A write, a new length and a new owner take capabilities away. They take such bits
//! unless the caller may keep them. *Knows nothing of* who may do it.

use nandlab_vfs::{Caller, Errno, FileSystem, FileType, Ino, SetAttr};

const CAPABILITIES: &[u8] = b"security.capability";
const SETUID: u16 = 0o4000;
const SETGID: u16 = 0o2000;
const GROUP_RUNS: u16 = 0o010;

/// What stays of these permission bits. Without its group's right to run a file, the bit
/// for a group means something else.
pub fn left(mode: u16) -> u16 {
    match mode & GROUP_RUNS {
        0 => mode & !SETUID,
        _ => mode & !(SETUID | SETGID),
    }
}

/// True if a change takes these bits away: any new owner, or a length from a caller who is not
/// root.
pub fn are_taken_by(change: &SetAttr, by: Caller) -> bool {
    let is_given = change.uid.is_some() || change.gid.is_some();
    is_given || change.size.is_some() && by.uid != 0
}

/// Takes the capabilities of a file away.
pub fn drop_capabilities(fs: &mut dyn FileSystem, ino: Ino, by: Caller) -> Result<(), Errno> {
    match fs.getxattr(ino, CAPABILITIES) {
        Ok(_) => fs.removexattr(ino, CAPABILITIES, by.now),
        Err(Errno::NoData | Errno::NotSupported) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Takes the bits of a file away; true if it had any.
pub fn drop_bits(fs: &mut dyn FileSystem, ino: Ino, by: Caller) -> Result<bool, Errno> {
    let attr = fs.getattr(ino)?;
    let mode = left(attr.mode);
    if attr.kind != FileType::File || mode == attr.mode {
        return Ok(false);
    }
    let change = SetAttr {
        mode: Some(mode),
        ..SetAttr::default()
    };
    fs.setattr(ino, &change, by.now).map(|_| true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandlab_vfs::{MemFs, NewNode, SetXattr, Time};

    const BY: Caller = Caller {
        uid: 1000,
        gid: 1000,
        now: Time::new(5),
    };

    #[test]
    fn bits_and_capabilities_go() {
        let mut fs = MemFs::new(1 << 20, Time::new(0));
        for (mode, expected) in [(0o6755, 0o755), (0o6745, 0o2745), (0o644, 0o644)] {
            let name = mode.to_string();
            let made = fs
                .create(Ino::ROOT, name.as_bytes(), NewNode::File, mode, BY)
                .unwrap();
            fs.setxattr(made.ino, CAPABILITIES, b"all", SetXattr::Any, BY.now)
                .unwrap();
            let had = drop_bits(&mut fs, made.ino, BY).unwrap();
            for _ in 0..2 {
                drop_capabilities(&mut fs, made.ino, BY).unwrap();
            }
            let found = fs.getattr(made.ino).unwrap().mode;
            assert_eq!((had, found), (mode != expected, expected), "{mode:o}");
            assert_eq!(fs.getxattr(made.ino, CAPABILITIES), Err(Errno::NoData));
        }
        let dir = fs
            .create(Ino::ROOT, b"dir", NewNode::Directory, 0o2755, BY)
            .unwrap();
        assert_eq!(drop_bits(&mut fs, dir.ino, BY), Ok(false));
    }

    #[test]
    fn root_keeps_them_with_a_new_length_but_nobody_with_a_new_owner() {
        let length = SetAttr {
            size: Some(0),
            ..SetAttr::default()
        };
        let owner = SetAttr {
            gid: Some(1),
            ..SetAttr::default()
        };
        let root = Caller::root(Time::new(5));
        let taken = [root, BY].map(|by| [&length, &owner].map(|change| are_taken_by(change, by)));
        assert_eq!(taken, [[false, true], [true, true]]);
        assert!(!are_taken_by(&SetAttr::default(), BY));
    }
}
