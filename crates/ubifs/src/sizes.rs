//! Sizes of files after a power cut: data may have reached the medium before the inode that says
//! how long the file is (`fs/ubifs/recovery.c`, `ubifs_recover_size`).

use crate::error::Result;
use crate::format::{InodeNode, Key};
use crate::index::Index;
use crate::lebs::Lebs;
use crate::node::Media;
use alloc::collections::BTreeMap;

#[derive(Clone, Copy, Debug, Default)]
struct Size {
    /// As the journal's inode says, if it has one.
    inode: Option<u64>,
    /// The end of the data in the journal.
    data: u64,
}

/// What the journal says of sizes.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    known: BTreeMap<u32, Size>,
    /// An inode tells of all data before it.
    in_order: bool,
}

impl Sizes {
    /// Sizes by all nodes in order. A truncation may be missing: only data behind its inode
    /// counts.
    pub fn in_order() -> Self {
        Self {
            in_order: true,
            ..Self::default()
        }
    }

    /// Forgets all other inodes.
    pub fn retain(&mut self, keeps: impl Fn(u32) -> bool) {
        self.known.retain(|inode, _| keeps(*inode));
    }

    /// Sizes that data go beyond, by inode, for readable inodes.
    pub fn beyond<L: Lebs>(self, media: &mut Media<L>, index: &Index) -> BTreeMap<u32, u64> {
        let sizes = self.known.into_iter().filter_map(|(inode, known)| {
            let size = match known.inode {
                Some(size) => size,
                None => committed(media, index, inode).ok()??,
            };
            (known.data > size).then_some((inode, known.data))
        });
        sizes.collect()
    }

    pub fn inode(&mut self, inode: u32, size: u64, is_gone: bool) {
        if is_gone {
            self.known.remove(&inode);
        } else {
            let known = self.known.entry(inode).or_default();
            known.inode = Some(size);
            if self.in_order {
                known.data = 0;
            }
        }
    }

    pub fn data(&mut self, inode: u32, end: u64) {
        let known = self.known.entry(inode).or_default();
        known.data = known.data.max(end);
    }

    pub fn truncated(&mut self, inode: u32, size: u64) {
        if let Some(known) = self.known.get_mut(&inode) {
            known.data = size;
        }
    }

    /// Sizes that data go beyond, by inode. Data without an inode are taken out of the index.
    pub fn recover<L: Lebs>(
        self,
        media: &mut Media<L>,
        index: &mut Index,
    ) -> Result<BTreeMap<u32, u64>> {
        let mut raised = BTreeMap::new();
        for (inode, known) in self.known {
            let size = match known.inode {
                Some(size) => size,
                None => match committed(media, index, inode)? {
                    Some(size) => size,
                    None => {
                        index.remove_inode(inode);
                        continue;
                    }
                },
            };
            if known.data > size {
                raised.insert(inode, known.data);
            }
        }
        Ok(raised)
    }
}

fn committed<L: Lebs>(media: &mut Media<L>, index: &Index, inode: u32) -> Result<Option<u64>> {
    let key = Key::of_inode(inode);
    let Some(at) = index.get(key)? else {
        return Ok(None);
    };
    let (_, bytes) = media.leaf(at, key)?;
    let node = InodeNode::parse(bytes).map_err(|fault| fault.at(at.lnum, at.offs))?;
    Ok(Some(node.size))
}
