//! Rules of Linux that every file system keeps when it makes, removes and renames. `MemFs` has its
//! own: a judge must not share a mistake with those it judges.

use crate::{Caller, Errno, Result};

const SETGID: u16 = 0o2000;

/// The permission bits and the group of a new inode. A directory with the set-group-ID bit passes
/// its group on, and the bit to directories.
pub fn inherit(
    (parent_mode, parent_gid): (u16, u32),
    is_directory: bool,
    mode: u16,
    by: Caller,
) -> (u16, u32) {
    let mode = mode & 0o7777;
    match (parent_mode & SETGID != 0, is_directory) {
        (false, _) => (mode, by.gid),
        (true, false) => (mode, parent_gid),
        (true, true) => (mode | SETGID, parent_gid),
    }
}

/// Refuses a symbolic link's target that is empty, has a NUL or is longer than `most` bytes.
pub fn check_target(target: &[u8], most: usize) -> Result {
    match target {
        _ if target.is_empty() || target.contains(&0) => Err(Errno::Invalid),
        _ if target.len() > most => Err(Errno::NameTooLong),
        _ => Ok(()),
    }
}

/// Refuses to put an inode in the place of one of another kind. `unlink` puts a file there, `rmdir`
/// a directory.
pub fn check_kinds(is_directory: bool, target_is_directory: bool) -> Result {
    match (is_directory, target_is_directory) {
        (true, false) => Err(Errno::NotDirectory),
        (false, true) => Err(Errno::IsDirectory),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_passes_its_group_on_if_it_says_so() {
        let by = Caller {
            gid: 7,
            ..Caller::default()
        };
        assert_eq!(inherit((0o755, 3), true, 0o1_0700, by), (0o700, 7));
        assert_eq!(inherit((0o2755, 3), false, 0o644, by), (0o644, 3));
        assert_eq!(inherit((0o2755, 3), true, 0o700, by), (0o2700, 3));
    }

    #[test]
    fn targets_and_kinds_are_refused_with_linuxs_numbers() {
        assert_eq!(check_target(b"", 9), Err(Errno::Invalid));
        assert_eq!(check_target(b"a\0", 9), Err(Errno::Invalid));
        assert_eq!(check_target(b"0123456789", 9), Err(Errno::NameTooLong));
        assert_eq!(check_target(b"012345678", 9), Ok(()));
        assert_eq!(check_kinds(true, false), Err(Errno::NotDirectory));
        assert_eq!(check_kinds(false, true), Err(Errno::IsDirectory));
    }
}
