//! The nodes of UBIFS, by a survey of its logical blocks. A data node has no time: that of the
//! inode before it counts.

use super::{History, Naming, Packed, Source, State, Version};
use crate::error::Result;
use crate::volume::AnyLebs;
use nandlab_ubifs::format::kind_of_entry;
use nandlab_ubifs::{Past, Ubifs};

/// The logical blocks below a UBIFS.
pub struct Lebs<'a> {
    fs: &'a mut Ubifs<AnyLebs>,
}

impl<'a> Lebs<'a> {
    pub fn new(fs: &'a mut Ubifs<AnyLebs>) -> Self {
        Self { fs }
    }
}

impl Source for Lebs<'_> {
    fn survey(&mut self, history: &mut History) -> Result<()> {
        let damaged = self.fs.past(&mut |sqnum, past| add(history, sqnum, past));
        history.damaged += damaged;
        history.drop_copies();
        Ok(())
    }

    fn contents(&mut self, packed: Packed, _: u32) -> Result<Option<Vec<u8>>> {
        match packed {
            Packed::Ubifs(at) => Ok(self.fs.former(at).ok()),
            _ => Ok(None),
        }
    }
}

impl History {
    /// Collection moves nodes with their sequence numbers: a node may be there twice.
    fn drop_copies(&mut self) {
        self.namings.sort_by_key(|naming| naming.version);
        self.namings.dedup_by_key(|naming| naming.version);
        for versions in self.versions.values_mut() {
            versions.sort_by_key(|version| version.version);
            versions.dedup_by_key(|version| version.version);
        }
    }
}

fn add(history: &mut History, sqnum: u64, past: Past<'_>) {
    let (ino, state, range, packed) = match past {
        Past::Name {
            dir,
            inode,
            kind,
            name,
        } => {
            let kind = kind_of_entry(kind).map_or(0, |kind| (kind.mode() >> 12) as u8);
            history.namings.push(Naming {
                dir,
                version: sqnum,
                ino: inode,
                time: None,
                kind,
                name: name.to_vec(),
            });
            return;
        }
        Past::Inode(node) => {
            let state = State {
                mode: node.mode,
                owner: (node.uid, node.gid),
                size: node.size,
                time: node.times[1].secs,
            };
            (node.inode, Some(state), (0, 0), Packed::Nothing)
        }
        Past::Data {
            inode,
            from,
            len,
            at,
        } => (inode, None, (from, len), Packed::Ubifs(at)),
    };
    let version = Version {
        version: sqnum,
        state,
        range,
        packed,
    };
    history.versions.entry(ino).or_default().push(version);
}
