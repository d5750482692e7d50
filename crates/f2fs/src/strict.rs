//! Fields on which no read depends, and which a sound volume has in one way only: what fsck.f2fs
//! looks at beside the tree of names.
//!
//! *Promises.* The node address table is read once more, entry by entry. Nothing is written.
//! *Knows nothing of* names and links: the walk of [`check`](crate::check) follows those.

use crate::{
    F2fs, F2fsError,
    check::Check,
    finding::Finding,
    format::{BLOCK, FIRST_NID, NAT_ENTRIES, NULL, inode, le16, le32},
    mount::read_copy,
    node::kind,
    summary::NatEntry,
    superblock::feature,
};
use nandlab_block::{BlockDevice, BlockError};
use nandlab_vfs::{FileType, NAME_MAX};

/// The address that the entries of the two inodes without nodes have.
const NOWHERE: u32 = 1;

/// Flags of an inode that only volumes with a feature have.
const FEATURE_FLAGS: [(u32, u32, &str); 2] = [
    (
        feature::CASEFOLD,
        inode::FLAG_CASEFOLD,
        "flag of names without case",
    ),
    (
        feature::COMPRESSION,
        inode::FLAG_COMPRESSED,
        "flag of compressed contents",
    ),
];

impl<D: BlockDevice> F2fs<D> {
    /// The table's entries by themselves, those that the journal replaces included.
    pub(crate) fn check_table(&mut self, check: &mut Check) -> Result<(), F2fsError> {
        for block in 0..self.layout.nat_blocks() {
            let bytes = self.disk.read(self.nat_addr(block, false))?;
            // Most of the table is empty.
            if bytes[..] == [0; BLOCK] && block > 0 {
                continue;
            }
            for at in 0..NAT_ENTRIES {
                let nid = block * NAT_ENTRIES + at;
                let entry = NatEntry::get(&bytes, at as usize * NatEntry::BYTES);
                let expected = match nid {
                    0 => NULL,
                    1..FIRST_NID => NOWHERE,
                    _ => entry.addr,
                };
                if entry.addr != expected {
                    check.report.add(Finding::Table {
                        nid,
                        field: "address",
                        found: entry.addr,
                        expected,
                    });
                } else if nid >= FIRST_NID && entry.addr != NULL && entry.ino == 0 {
                    check.report.add(Finding::Table {
                        nid,
                        field: "inode",
                        found: 0,
                        expected: nid,
                    });
                }
            }
        }
        if let Some(first) = self.checkpoint.torn(&mut self.disk, &self.layout)? {
            check.report.add(Finding::Pack { first });
        }
        self.check_supers(check)?;
        let has_quota = self.layout.has(feature::QUOTA);
        for (kind, ino) in self.layout.quotas.into_iter().enumerate() {
            let exists = has_quota && check.is_inode(ino);
            if ino != 0 && !exists {
                check.report.add(Finding::Quota { kind, ino });
            }
        }
        for ino in &self.no_orphans {
            check.report.add(Finding::Orphan { ino: *ino });
        }
        Ok(())
    }

    /// Both superblocks: one of them counts, the other is its spare.
    fn check_supers(&mut self, check: &mut Check) -> Result<(), F2fsError> {
        if let Some(error) = self.first_super.clone() {
            check.report.add(Finding::Super { block: 0, error });
            return Ok(());
        }
        match read_copy(&mut self.disk, 1) {
            Err(error @ F2fsError::Device(BlockError::PowerCut)) => return Err(error),
            Err(error) => check.report.add(Finding::Super { block: 1, error }),
            Ok(_) => {}
        }
        Ok(())
    }

    /// Fields of an inode. `in_run` counts the blocks of its longest run that lie where that says;
    /// an inode without blocks of contents has none.
    pub(crate) fn check_fields(
        &mut self,
        ino: u32,
        in_run: Option<u32>,
        check: &mut Check,
    ) -> Result<(), F2fsError> {
        let shape = self.shape(ino)?;
        let features = self.layout.features;
        let bytes = self.inode(ino)?;
        let mut wrong = |field, found: u32, expected: u32| {
            if found != expected {
                check.report.add(Finding::Field {
                    ino,
                    field,
                    found: found.into(),
                    expected: expected.into(),
                });
            }
        };
        let flags = bytes[inode::INLINE];
        let name = le32(bytes, inode::NAME_LEN);
        wrong("length of the name", name, name.min(NAME_MAX as u32));
        for (feature, flag, field) in FEATURE_FLAGS {
            let found = le32(bytes, inode::FLAGS) & flag;
            wrong(
                field,
                found,
                if features & feature == 0 { 0 } else { found },
            );
        }
        if features & feature::EXTRA_ATTR == 0 {
            let extra = flags & inode::EXTRA_ATTR;
            wrong("flag of extra attributes", extra.into(), 0);
        }
        if features & feature::FLEXIBLE_XATTR != 0 {
            // The extra fields say how much space attributes have. Linux 6.1 refuses an inode
            // without them.
            let extra = flags & inode::EXTRA_ATTR;
            let expected = inode::EXTRA_ATTR.into();
            wrong("flag of extra attributes", extra.into(), expected);
        }
        let (own, field) = match kind(bytes) {
            Some(FileType::File | FileType::Symlink) => {
                (inode::INLINE_DATA, "flag of names in the inode")
            }
            Some(FileType::Directory) => (inode::INLINE_DENTRY, "flag of contents in the inode"),
            _ => (0, "flag of contents or names in the inode"),
        };
        let inline = flags & (inode::INLINE_DATA | inode::INLINE_DENTRY);
        wrong(field, (inline & !own).into(), 0);
        // The bytes of a directory's depth count failed moves of a pinned file.
        if kind(bytes) == Some(FileType::File) && flags & inode::PINNED == 0 {
            let moves = le16(bytes, inode::DEPTH);
            wrong("failed moves", moves.into(), 0);
        }
        let Some(in_run) = in_run else {
            return Ok(());
        };
        wrong(
            "blocks of the longest run",
            le32(bytes, inode::EXTENT + 8),
            in_run,
        );
        if flags & (inode::INLINE_DATA | inode::INLINE_DENTRY) != 0 {
            let first = le32(bytes, shape.slots_at());
            wrong("address before contents in the inode", first, NULL);
        }
        let inline = flags & (inode::INLINE_DATA | inode::DATA_EXIST);
        let contents = &bytes[shape.inline_at()..][..shape.inline_max()];
        if inline == inode::INLINE_DATA && contents.iter().any(|byte| *byte != 0) {
            wrong("flag of contents in the inode", 0, inode::DATA_EXIST.into());
        }
        Ok(())
    }

    /// Slots of a directory that are in use and have no name: readers step over them.
    pub(crate) fn check_slots(&mut self, dir: u32, check: &mut Check) -> Result<(), F2fsError> {
        for index in self.name_blocks(dir, 0)? {
            // What cannot be read is a finding already.
            let Ok(Some((bytes, view))) = self.names(dir, index) else {
                continue;
            };
            if let Some(slot) = view.nameless(bytes) {
                check.report.add(Finding::Entry {
                    dir,
                    index: index.unwrap_or(0),
                    slot,
                    field: "length of a name",
                    found: 0,
                    expected: 1,
                });
            }
        }
        Ok(())
    }
}
