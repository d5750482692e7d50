//! For those who think in paths: resolves them by [`FileSystem::lookup`].
//!
//! *Promises.* `.` and `..` are resolved by what was walked, not by what a directory says; empty
//! components mean nothing; a symbolic link is not followed. References taken on the way are given
//! back, save the one of the inode that is returned.

use crate::{Attr, Errno, FileSystem, FileType, Ino};
use alloc::{vec, vec::Vec};

/// The inode that a path names. The caller owes one [`forget`](FileSystem::forget) for it (also
/// where it is the root, for which that is nothing).
pub fn resolve<F: FileSystem + ?Sized>(fs: &mut F, path: &[u8]) -> Result<Attr, Errno> {
    let mut walked = Vec::new();
    let end = walk(fs, path, &mut walked);
    if end.is_ok() {
        walked.pop();
    }
    walked.into_iter().for_each(|ino| fs.forget(ino, 1));
    end
}

/// The directory that holds the last component of a path, and that component. The caller owes one
/// [`forget`](FileSystem::forget).
///
/// Fails with [`Errno::Invalid`] where the last component is no name: for the root, `.` and `..`.
pub fn parent<'a, F: FileSystem + ?Sized>(
    fs: &mut F,
    path: &'a [u8],
) -> Result<(Ino, &'a [u8]), Errno> {
    let end = path
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |last| last + 1);
    let (before, name) = match path[..end].iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..end]),
        None => (&path[..0], &path[..end]),
    };
    if matches!(name, b"" | b"." | b"..") {
        return Err(Errno::Invalid);
    }
    let dir = resolve(fs, before)?;
    if dir.kind != FileType::Directory {
        fs.forget(dir.ino, 1);
        return Err(Errno::NotDirectory);
    }
    Ok((dir.ino, name))
}

/// Leaves in `walked` every inode that a reference was taken of, the last component's last.
fn walk<F: FileSystem + ?Sized>(
    fs: &mut F,
    path: &[u8],
    walked: &mut Vec<Ino>,
) -> Result<Attr, Errno> {
    let mut attr = fs.getattr(Ino::ROOT)?;
    // Where `..` leads: the directories from the root down.
    let mut above = vec![];
    for name in path
        .split(|byte| *byte == b'/')
        .filter(|name| !matches!(*name, b"" | b"."))
    {
        if attr.kind != FileType::Directory {
            return Err(Errno::NotDirectory);
        }
        if name == b".." {
            attr = above.pop().unwrap_or(attr);
            if let Some(left) = walked.pop() {
                fs.forget(left, 1);
            }
            continue;
        }
        let next = fs.lookup(attr.ino, name)?;
        walked.push(next.ino);
        above.push(attr);
        attr = next;
    }
    Ok(attr)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Caller, MemFs, NewNode, Time};

    fn fs() -> (MemFs, Ino, Ino) {
        let mut fs = MemFs::new(1 << 20, Time::default());
        let by = Caller::default();
        let d = fs.mkdir(Ino::ROOT, b"d", 0o755, by).unwrap().ino;
        let f = fs.create(d, b"f", NewNode::File, 0o644, by).unwrap().ino;
        (fs, d, f)
    }

    #[test]
    fn paths_lead_where_they_say() {
        let (mut fs, d, f) = fs();
        for (path, ino) in [
            (&b"/"[..], Ino::ROOT),
            (b"", Ino::ROOT),
            (b"/../d/", d),
            (b"d//./f", f),
            (b"/d/f/.", f),
            (b"d/../d/f", f),
        ] {
            assert_eq!(
                resolve(&mut fs, path).map(|attr| attr.ino),
                Ok(ino),
                "{path:?}"
            );
        }
        assert_eq!(resolve(&mut fs, b"/d/f/x"), Err(Errno::NotDirectory));
        assert_eq!(resolve(&mut fs, b"/x/f"), Err(Errno::NoEntry));
    }

    #[test]
    fn the_last_component_is_a_name() {
        let (mut fs, d, _) = fs();
        assert_eq!(parent(&mut fs, b"/d/new/"), Ok((d, &b"new"[..])));
        assert_eq!(parent(&mut fs, b"new"), Ok((Ino::ROOT, &b"new"[..])));
        assert_eq!(parent(&mut fs, b"d/f/new"), Err(Errno::NotDirectory));
        for none in [&b""[..], b"/", b"d/..", b"."] {
            assert_eq!(parent(&mut fs, none), Err(Errno::Invalid));
        }
    }

    #[test]
    fn only_the_reference_to_the_end_is_kept() {
        let (mut fs, d, f) = fs();
        fs.forget(d, 1);
        fs.forget(f, 1);
        resolve(&mut fs, b"d/../d/f").unwrap();
        fs.unlink(d, b"f", Time::default()).unwrap();
        fs.rmdir(Ino::ROOT, b"d", Time::default()).unwrap();
        assert_eq!(
            fs.getattr(d),
            Err(Errno::Stale),
            "nobody refers to the directory"
        );
        assert!(fs.getattr(f).is_ok());
        fs.forget(f, 1);
        assert_eq!(fs.getattr(f), Err(Errno::Stale));
    }
}
