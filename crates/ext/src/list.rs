//! Listing directories, and where to go on.
//!
//! *Promises.* A name that neither came nor went is listed once, even while an index moves names:
//! indexed directories, and those that will be, are listed by hash; others from byte to byte. Two
//! names of one directory whose hashes both agree would be taken for one: 63 bits.

use crate::{
    Ext, ExtError,
    dir::{Failures, Record, record},
    format::compat,
    hash::hash,
    htree::Hashed,
    inode::Inode,
};
use alloc::vec::Vec;
use nandlab_block::BlockDevice;
use nandlab_vfs::{DirEntry, FileType, Ino};

type Each<'a> = &'a mut dyn FnMut(DirEntry<'_>) -> bool;

/// A second hash, for names whose first agree (FNV-1a).
fn second(name: &[u8]) -> u32 {
    name.iter().fold(0x811C_9DC5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// The place of a name in a listing by hash.
fn place(hash: u32, name: &[u8]) -> u64 {
    u64::from(hash >> 1) << 32 | u64::from(second(name))
}

impl<D: BlockDevice> Ext<D> {
    pub(crate) fn list(&mut self, number: u32, from: u64, each: Each<'_>) -> Result<(), ExtError> {
        let dir = self.check_dir(number)?;
        if dir.links == 0 {
            return Ok(());
        }
        let seed = self.store.layout.hash_seed;
        if dir.is_inline() {
            let names = self.inline_names(number, &dir)?;
            return self.give_unindexed(names, from, each);
        }
        let low = (from >> 32) as u32;
        let indexed = self.is_indexed(&dir);
        let path = if indexed {
            self.probe(number, &dir, |version| {
                hash(b"", version, seed).map(|_| low << 1)
            })
        } else {
            Ok(None)
        };
        match path.or_else(|error| self.list_around(number, &dir, error, each))? {
            Some(mut path) => loop {
                let (names, next) = match self.batch(number, &dir, &mut path) {
                    Ok(batch) => batch,
                    Err(error) => return self.list_around(number, &dir, error, each),
                };
                if !self.give(names, from, each)? || next.is_none() {
                    return Ok(());
                }
            },
            None if self.store.layout.has(compat::DIR_INDEX) && self.dir_blocks(&dir) == 1 => {
                let block = self.dir_block(number, &dir, 0)?;
                let names = self.names_in(block)?;
                self.give_unindexed(names, from, each)
            }
            None => self.list_bytes(number, &dir, from, each),
        }
    }

    /// Gives all names of a directory without an index by the hashes that they would have.
    fn give_unindexed(
        &mut self,
        names: Vec<(Record, Vec<u8>)>,
        from: u64,
        each: Each<'_>,
    ) -> Result<(), ExtError> {
        let seed = self.store.layout.hash_seed;
        let version = self.index_version(None);
        let hashed = names
            .into_iter()
            .map(|(record, name)| (hash(&name, version, seed).unwrap_or(0), record, name))
            .collect();
        self.give(hashed, from, each).map(drop)
    }

    /// Where an index leads to what cannot be had: all names that can, perhaps for the second time,
    /// and then the error.
    fn list_around<T>(
        &mut self,
        number: u32,
        dir: &Inode,
        error: ExtError,
        each: Each<'_>,
    ) -> Result<T, ExtError> {
        _ = self.list_bytes(number, dir, 0, each);
        Err(error)
    }

    /// Gives names by hash; says whether more are wanted.
    fn give(&mut self, names: Vec<Hashed>, from: u64, each: Each<'_>) -> Result<bool, ExtError> {
        let mut placed: Vec<_> = names
            .into_iter()
            .map(|(hash, record, name)| (place(hash, &name), record, name))
            .collect();
        placed.retain(|(place, ..)| *place >= from);
        placed.sort_by_key(|(place, ..)| *place);
        for (place, record, name) in placed {
            if !self.give_one(&record, &name, place + 1, each)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What an entry leads to; none if that is no inode.
    fn kind_of(&mut self, record: &Record) -> Result<Option<FileType>, ExtError> {
        if record.inode > self.store.layout.inodes {
            return Ok(None);
        }
        match FileType::from_number(record.kind) {
            None => Ok(self.inode(record.inode)?.kind()),
            known => Ok(known),
        }
    }

    fn give_one(
        &mut self,
        record: &Record,
        name: &[u8],
        next: u64,
        each: Each<'_>,
    ) -> Result<bool, ExtError> {
        let Some(kind) = self.kind_of(record)? else {
            return Ok(true);
        };
        let ino = Ino(u64::from(record.inode));
        Ok(each(DirEntry {
            ino,
            kind,
            name,
            next,
        }))
    }

    fn list_bytes(
        &mut self,
        number: u32,
        dir: &Inode,
        from: u64,
        each: Each<'_>,
    ) -> Result<(), ExtError> {
        let size = u64::from(self.store.layout.block);
        let types = self.types();
        let first = u32::try_from(from / size).unwrap_or(u32::MAX);
        let mut failures = Failures::default();
        for index in first..self.dir_blocks(dir).max(first) {
            let start = u64::from(index) * size;
            let mut found = Vec::new();
            if let Err(error) = self.dir_block(number, dir, index).and_then(|block| {
                let bytes = self.store.block(block)?;
                let mut at = 0;
                while at < bytes.len() {
                    let record = record(bytes, at, block, types)?;
                    if record.is_listed(bytes) && start + at as u64 >= from {
                        found.push((record, record.name_in(bytes).to_vec()));
                    }
                    at += record.length;
                }
                Ok(())
            }) {
                failures.add(error)?;
            }
            for (record, name) in found {
                // Behind this record, wherever the next begins.
                if !self.give_one(&record, &name, start + record.at as u64 + 1, each)? {
                    return Ok(());
                }
            }
        }
        failures.shown(())
    }
}
