//! Keeps access control lists and permission bits in agreement: each says a part of the same.
//!
//! *Promises.* After each of these an access list and the bits of its inode agree, as POSIX.1e
//! draft 17 has it (23.1.2) and Linux does it (`fs/posix_acl.c`: `posix_acl_equiv_mode`,
//! `__posix_acl_chmod_masq`, `posix_acl_create_masq`). Lists are in the form of the attribute.
//! *Knows nothing of* who asks.

use super::{Order, SHOWN_VERSION, head, word};
use alloc::vec::Vec;
use nandlab_vfs::Errno;

const OWNER: u16 = 1;
const GROUP: u16 = 4;
const MASK: u16 = 16;
const OTHERS: u16 = 32;

/// Where the permissions of each of those are that have bits: owner, group class, others.
struct Places {
    owner: usize,
    group: usize,
    others: usize,
    /// Whether there are entries beside these three.
    more: bool,
}

impl Places {
    fn of(list: &[u8]) -> Result<Self, Errno> {
        if Order::Little.u32(word(list, 0)?) != SHOWN_VERSION || list.len() % 8 != 4 {
            return Err(Errno::Invalid);
        }
        let mut owner = None;
        let mut group = None;
        let mut mask = None;
        let mut others = None;
        for at in (4..list.len()).step_by(8) {
            let place = match head(list, at, Order::Little)?.0 {
                OWNER => &mut owner,
                GROUP => &mut group,
                MASK => &mut mask,
                OTHERS => &mut others,
                _ => continue,
            };
            *place = Some(at + 2);
        }
        let (Some(owner), Some(group), Some(others)) = (owner, group, others) else {
            return Err(Errno::Invalid);
        };
        Ok(Self {
            owner,
            group: mask.unwrap_or(group),
            others,
            more: list.len() > 4 + 3 * 8,
        })
    }

    /// Each with its bits' distance from the lowest.
    fn each(&self) -> [(usize, u16); 3] {
        [(self.owner, 6), (self.group, 3), (self.others, 0)]
    }
}

/// The bits that an access list stands for, and whether it says more than they do.
/// [`Errno::Invalid`]: it is no list, or not a whole one.
pub fn of(list: &[u8]) -> Result<(u16, bool), Errno> {
    let places = Places::of(list)?;
    Ok((
        places
            .each()
            .iter()
            .fold(0, |bits, (at, shift)| bits | u16::from(list[*at]) << shift),
        places.more,
    ))
}

/// An access list after its inode was given other bits. [`Errno::Invalid`] as in [`of`].
pub fn changed(mut list: Vec<u8>, mode: u16) -> Result<Vec<u8>, Errno> {
    for (at, shift) in Places::of(&list)?.each() {
        list[at] = (mode >> shift & 7) as u8;
    }
    Ok(list)
}

/// The access list and the mode of what is made in a directory with this default list, when asked
/// to be made with `mode`; no list where the bits say it all. [`Errno::Invalid`] as in [`of`].
pub fn inherited(default: &[u8], mode: u16) -> Result<(Option<Vec<u8>>, u16), Errno> {
    let (bits, more) = of(default)?;
    let mode = mode & (!0o777 | bits);
    let list = if more {
        Some(changed(default.to_vec(), mode)?)
    } else {
        None
    };
    Ok((list, mode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::tests::LIST;

    fn short(owner: u8, group: u8, others: u8) -> Vec<u8> {
        let entry = |tag, permissions| [tag, 0, permissions, 0, 255, 255, 255, 255];
        [
            &[2, 0, 0, 0][..],
            &entry(1, owner),
            &entry(4, group),
            &entry(32, others),
        ]
        .concat()
    }

    #[test]
    fn the_mask_is_the_group_class() {
        assert_eq!(
            of(&LIST),
            Ok((0o770, true)),
            "not the 5 of the group's own entry"
        );
        assert_eq!(of(&short(6, 4, 4)), Ok((0o644, false)));
        let list = changed(LIST.to_vec(), 0o4641).unwrap();
        assert_eq!(of(&list), Ok((0o641, true)));
        assert_eq!(list[22], 5, "the group's own entry stays");
        assert_eq!(changed(short(7, 7, 7), 0o640), Ok(short(6, 4, 0)));
    }

    #[test]
    fn what_is_made_gets_no_more_than_asked_and_no_more_than_the_default() {
        let (list, mode) = inherited(&LIST, 0o2666).unwrap();
        assert_eq!((of(&list.unwrap()), mode), (Ok((0o660, true)), 0o2660));
        assert_eq!(inherited(&short(7, 5, 0), 0o666), Ok((None, 0o640)));
    }

    #[test]
    fn what_is_no_whole_list_is_refused() {
        let without_others = &short(7, 5, 0)[..20];
        for bad in [
            &LIST[..3],
            &[1, 0, 0, 0],
            &[2, 0, 0, 0],
            without_others,
            &[2, 0, 0, 0, 1, 0, 8, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(
                (of(bad), changed(bad.to_vec(), 0o644).err()),
                (Err(Errno::Invalid), Some(Errno::Invalid)),
                "{bad:?}"
            );
        }
    }
}
