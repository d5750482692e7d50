//! What each format can hold of an entry.
//!
//! *Promises.* What a format cannot hold is an error that names the entry and what could be held;
//! or, where losses are allowed, the entry is changed to what is nearest, or left out, and that is
//! listed. What no image of a format ever holds (FAT's owners, permissions, and years before 1980),
//! and parts of a second, are not held against an entry. *Knows nothing of* how an image is made.

use crate::error::{ImageError, Result, Shown};
use crate::tree::{Entry, Node, Tree};
use crate::walk::Losses;
use nandlab_vfs::Time;
use std::ops::RangeInclusive;

/// The remedy for an entry that cannot be changed to fit.
const LEFT_OUT: &str = "left out";

/// What a format can hold.
#[derive(Clone, Debug)]
pub struct Limits {
    /// What the format is called.
    pub name: &'static str,
    /// Bytes of a name.
    pub name_max: usize,
    /// Bytes of a symbolic link's target; 0 for none at all.
    pub target_max: usize,
    /// The greatest user or group id.
    pub id_max: u32,
    /// The seconds that a timestamp can hold.
    pub seconds: RangeInclusive<i64>,
    /// Major and minor numbers; nothing where there are neither devices nor pipes nor sockets.
    pub device_max: Option<(u32, u32)>,
    /// Bytes of a file.
    pub size_max: u64,
    /// Whether a file may have several names.
    pub links: bool,
    /// What names of attributes begin with.
    pub spaces: &'static [&'static str],
    /// Whether there are owners and permissions, and times that are meant to be exact.
    pub owners: bool,
}

const LINUX_SPACES: &[&str] = &[
    "user.",
    "trusted.",
    "security.",
    "system.posix_acl_access",
    "system.posix_acl_default",
];
/// 12 and 20 bits, as Linux has them.
const DEVICE_MAX: (u32, u32) = (0xFFF, 0xF_FFFF);

/// JFFS2, as Linux's driver reads it.
pub const JFFS2: Limits = Limits {
    name: "JFFS2",
    name_max: 254,
    target_max: 254,
    id_max: 0xFFFF,
    seconds: 0..=u32::MAX as i64,
    device_max: Some(DEVICE_MAX),
    size_max: u32::MAX as u64,
    links: true,
    spaces: LINUX_SPACES,
    owners: true,
};

/// ext2, ext3 and ext4 with inodes of 256 bytes; the file's limit is that of ext3 with blocks of
/// 1 KiB.
pub const EXT: Limits = Limits {
    name: "ext2, ext3 and ext4",
    name_max: 255,
    target_max: 1023,
    id_max: u32::MAX,
    seconds: i32::MIN as i64..=0x3_7FFF_FFFF,
    device_max: Some(DEVICE_MAX),
    size_max: 16 << 30,
    links: true,
    spaces: LINUX_SPACES,
    owners: true,
};

/// The limits of F2FS.
pub const F2FS: Limits = Limits {
    name: "F2FS",
    name_max: 255,
    target_max: 4094,
    id_max: u32::MAX,
    seconds: i64::MIN..=i64::MAX,
    device_max: Some(DEVICE_MAX),
    size_max: 3 << 40,
    links: true,
    spaces: LINUX_SPACES,
    owners: true,
};

/// What UBIFS can hold.
pub const UBIFS: Limits = Limits {
    name: "UBIFS",
    name_max: 255,
    target_max: 4095,
    id_max: u32::MAX,
    seconds: i64::MIN..=i64::MAX,
    device_max: Some(DEVICE_MAX),
    size_max: 2 << 40,
    links: true,
    spaces: &["user.", "trusted.", "security."],
    owners: true,
};

/// FAT with long names.
pub const FAT: Limits = Limits {
    name: "FAT",
    name_max: 765,
    target_max: 0,
    id_max: u32::MAX,
    seconds: 315_532_800..=4_354_819_199,
    device_max: None,
    size_max: u32::MAX as u64,
    links: false,
    spaces: &[],
    owners: false,
};

/// Something that does not fit.
struct Misfit {
    what: &'static str,
    found: String,
    expected: String,
    /// What is done about it, where losses are allowed.
    instead: &'static str,
}

impl Limits {
    /// Makes a tree one that fits. Without `lossy` nothing changes: the first thing that does not
    /// fit is an error.
    pub fn fit(&self, tree: &mut Tree, lossy: bool) -> Result<Losses> {
        let mut losses = Losses::default();
        if !self.links {
            self.unlink(tree, lossy, &mut losses)?;
        }
        let mut refused = None;
        tree.entries.retain_mut(|(entry, _)| {
            let Some(left) = (refused.is_none()).then(|| self.judge(entry)) else {
                return true;
            };
            for misfit in &left.1 {
                if !lossy {
                    refused.get_or_insert_with(|| ImageError::Entry {
                        path: Shown::path(&entry.path),
                        what: misfit.what,
                        found: misfit.found.clone(),
                        expected: misfit.expected.clone(),
                    });
                    return true;
                }
                losses.add(
                    &entry.path,
                    format!(
                        "{} is {}, expected {}: {}",
                        misfit.what, misfit.found, misfit.expected, misfit.instead
                    ),
                );
            }
            left.0
        });
        match refused {
            Some(error) => Err(error),
            None => Ok(losses),
        }
    }

    /// Changes an entry to what is nearest; gives whether anything of it is left, and what did not
    /// fit. Nothing of it is changed for good where that is an error.
    fn judge(&self, entry: &mut Entry) -> (bool, Vec<Misfit>) {
        let mut misfits = Vec::new();
        misfits.extend(self.judge_name(entry));
        misfits.extend(self.judge_node(&entry.node));
        let keep = misfits.is_empty();
        if self.owners {
            for (what, id) in [("owner", &mut entry.uid), ("group", &mut entry.gid)] {
                misfits.extend(self.limit_id(what, id));
            }
        }
        misfits.extend(self.limit_time(&mut entry.mtime).filter(|_| self.owners));
        misfits.extend(self.drop_attributes(&mut entry.xattrs));
        (keep, misfits)
    }

    fn misfit(
        &self,
        what: &'static str,
        found: String,
        expected: &str,
        instead: &'static str,
    ) -> Misfit {
        Misfit {
            what,
            found,
            expected: format!("{expected} in {}", self.name),
            instead,
        }
    }

    fn judge_name(&self, entry: &Entry) -> Option<Misfit> {
        let found = entry.name().len();
        (found > self.name_max).then(|| {
            let expected = format!("at most {}", self.name_max);
            let found = format!("{found} bytes");
            self.misfit("length of the name", found, &expected, LEFT_OUT)
        })
    }

    fn judge_node(&self, node: &Node) -> Option<Misfit> {
        let (what, found, expected) = match node {
            Node::Symlink { target } if target.len() > self.target_max || target.is_empty() => {
                let expected = match self.target_max {
                    0 => "no symbolic link".into(),
                    most => format!("1 to {most}"),
                };
                let found = format!("{} bytes", target.len());
                ("symbolic link's target", found, expected)
            }
            Node::File { size } if *size > self.size_max => {
                let expected = format!("at most {}", self.size_max);
                ("length of the file", format!("{size} bytes"), expected)
            }
            Node::Character { device } | Node::Block { device } => match self.device_max {
                Some(max) if device.0 <= max.0 && device.1 <= max.1 => return None,
                Some(_) => {
                    let found = format!("{}:{}", device.0, device.1);
                    ("device number", found, "at most 4095:1048575".into())
                }
                None => ("kind", "a device".into(), "no device".into()),
            },
            Node::Fifo | Node::Socket if self.device_max.is_none() => {
                ("kind", "a pipe or socket".into(), "neither".into())
            }
            _ => return None,
        };
        Some(self.misfit(what, found, &expected, LEFT_OUT))
    }

    fn limit_id(&self, what: &'static str, id: &mut u32) -> Option<Misfit> {
        let found = *id;
        (found > self.id_max).then(|| {
            *id = 65534;
            self.misfit(what, found.to_string(), "16 bits", "65534 instead")
        })
    }

    fn limit_time(&self, time: &mut Time) -> Option<Misfit> {
        let found = time.secs;
        (!self.seconds.contains(&found)).then(|| {
            let least = *self.seconds.start();
            let most = *self.seconds.end();
            *time = Time::new(found.clamp(least, most));
            let expected = format!("{least} to {most} s");
            let found = format!("{found} s since 1970");
            self.misfit("time", found, &expected, "the nearest instead")
        })
    }

    fn drop_attributes(&self, xattrs: &mut Vec<(Vec<u8>, Vec<u8>)>) -> Vec<Misfit> {
        let fits = |name: &[u8]| {
            let mut spaces = self.spaces.iter();
            spaces.any(|space| name.starts_with(space.as_bytes()))
        };
        let expected = match self.spaces {
            [] => "none".into(),
            spaces => format!("one of {}", spaces.join(", ")),
        };
        let dropped = xattrs.iter().filter(|(name, _)| !fits(name));
        let misfits = dropped.map(|(name, _)| {
            let found = Shown(name.clone()).to_string();
            self.misfit("attribute", found, &expected, LEFT_OUT)
        });
        let misfits = misfits.collect();
        xattrs.retain(|(name, _)| fits(name));
        misfits
    }

    /// Files with one name each.
    fn unlink(&self, tree: &mut Tree, lossy: bool, losses: &mut Losses) -> Result<()> {
        for at in 0..tree.entries.len() {
            let (entry, _) = &tree.entries[at];
            let Node::Link { to } = &entry.node else {
                continue;
            };
            if !lossy {
                return Err(ImageError::Entry {
                    path: Shown::path(&entry.path),
                    what: "kind",
                    found: format!("one more name of {}", Shown::path(to)),
                    expected: format!("one name of each file in {}", self.name),
                });
            }
            losses.add(
                &entry.path,
                format!("a copy instead of one more name of {}", Shown::path(to)),
            );
            let path = entry.path.clone();
            let first = tree.entries[..at]
                .iter()
                .find(|(first, _)| first.path == *to)
                .cloned();
            if let Some((first, data)) = first {
                tree.entries[at] = (Entry { path, ..first }, data);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Data;
    use nandlab_vfs::Time;

    fn tree(entries: impl IntoIterator<Item = Entry>) -> Tree {
        let mut tree = Tree::default();
        entries
            .into_iter()
            .for_each(|entry| tree.push(entry, Data::default()));
        tree.normalize().unwrap();
        tree
    }

    #[test]
    fn what_does_not_fit_is_an_error_or_a_listed_loss() {
        let entry = |name: &str, node| Entry {
            node,
            ..Entry::directory(name.as_bytes())
        };
        let cases = [
            (JFFS2, entry(&"n".repeat(255), Node::Fifo), true),
            (
                JFFS2,
                Entry {
                    uid: 70_000,
                    ..entry("owned", Node::Fifo)
                },
                false,
            ),
            (
                JFFS2,
                Entry {
                    mtime: Time::new(-1),
                    ..entry("old", Node::Fifo)
                },
                false,
            ),
            (
                JFFS2,
                entry(
                    "l",
                    Node::Symlink {
                        target: vec![b'x'; 255],
                    },
                ),
                true,
            ),
            (
                EXT,
                Entry {
                    xattrs: vec![(b"system.x".into(), vec![])],
                    ..entry("x", Node::Fifo)
                },
                false,
            ),
            (
                FAT,
                entry(
                    "l",
                    Node::Symlink {
                        target: b"x".into(),
                    },
                ),
                true,
            ),
            (FAT, entry("p", Node::Fifo), true),
            (F2FS, entry("d", Node::Block { device: (4096, 0) }), true),
        ];
        for (limits, entry, gone) in cases {
            let path = entry.path.clone();
            let mut tree = tree([entry]);
            let before = tree.entries.len();
            let error = limits
                .fit(&mut tree.clone(), false)
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with(&Shown::path(&path).to_string()),
                "{error}"
            );
            let losses = limits.fit(&mut tree, true).unwrap();
            assert_eq!(
                (losses.list.len(), before - tree.entries.len()),
                (1, usize::from(gone)),
                "{error}"
            );
            assert!(
                limits.fit(&mut tree, false).unwrap().is_empty(),
                "what is left fits"
            );
        }
    }

    #[test]
    fn owners_and_parts_of_seconds_are_no_error_where_none_can_be_held() {
        let mtime = Time {
            secs: 1_000_000_000,
            nanos: 5,
        };
        let mut tree = tree([
            Entry {
                uid: u32::MAX,
                mode: 0o4711,
                mtime,
                ..Entry::directory(b"d")
            },
            Entry {
                mtime,
                ..Entry::directory(b"")
            },
        ]);
        assert!(FAT.fit(&mut tree, false).unwrap().is_empty());
    }
}
