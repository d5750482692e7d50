//! Inodes whose contents this crate cannot open: encrypted and compressed ones, and those under
//! fs-verity, which nobody may change.
//!
//! *Promises.* Attributes, tables and blocks of such an inode are read like any other's. Its
//! contents (of a directory, the names) are an error that says why, and nothing changes it.

use crate::{
    F2fs, F2fsError,
    format::{inode, le32, le64},
    node::{extra_bytes, kind},
    superblock::feature,
};
use nandlab_block::BlockDevice;
use nandlab_vfs::FileType;

/// Why an inode is not like others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Seal {
    /// Contents, and the names of a directory, need a key (fscrypt).
    #[error("encrypted")]
    Encrypted,
    /// Blocks of contents are compressed.
    #[error("compressed")]
    Compressed,
    /// A hash tree protects the contents (fs-verity).
    #[error("protected by fs-verity")]
    Verity,
}

impl Seal {
    /// The seal of an inode, if it has one.
    fn of(bytes: &[u8], may_compress: bool) -> Option<Self> {
        let advice = bytes[inode::ADVISE];
        let compressed = || {
            may_compress
                && kind(bytes) == Some(FileType::File)
                && extra_bytes(bytes) > inode::COMPRESSED_BLOCKS - inode::SLOTS
                && le64(bytes, inode::COMPRESSED_BLOCKS) > 0
        };
        if advice & inode::ADVISE_ENCRYPTED != 0 {
            Some(Self::Encrypted)
        } else if advice & inode::ADVISE_VERITY != 0 {
            Some(Self::Verity)
        } else {
            compressed().then_some(Self::Compressed)
        }
    }
}

impl<D: BlockDevice> F2fs<D> {
    fn seal(&mut self, ino: u32) -> Result<Option<Seal>, F2fsError> {
        let may_compress = self.layout.has(feature::COMPRESSION);
        Ok(Seal::of(self.inode(ino)?, may_compress))
    }

    /// Refuses contents that cannot be opened: all sealed ones but those under fs-verity.
    pub(crate) fn check_readable(&mut self, ino: u32) -> Result<(), F2fsError> {
        match self.seal(ino)?.filter(|seal| *seal != Seal::Verity) {
            None => Ok(()),
            Some(seal) => Err(F2fsError::Sealed { ino, seal }),
        }
    }

    /// Refuses to change a sealed inode.
    pub(crate) fn check_changeable(&mut self, ino: u32) -> Result<(), F2fsError> {
        match self.seal(ino)? {
            None => Ok(()),
            Some(seal) => Err(F2fsError::Sealed { ino, seal }),
        }
    }

    /// Whether the names of a directory are kept encrypted: they may hold any byte.
    pub(crate) fn has_sealed_names(&mut self, dir: u32) -> Result<bool, F2fsError> {
        Ok(self.seal(dir)? == Some(Seal::Encrypted))
    }

    /// Whether a directory does not tell upper from lower case: its hashes are of folded names.
    pub(crate) fn is_folded(&mut self, dir: u32) -> Result<bool, F2fsError> {
        Ok(self.layout.has(feature::CASEFOLD)
            && le32(self.inode(dir)?, inode::FLAGS) & inode::FLAG_CASEFOLD != 0)
    }
}
