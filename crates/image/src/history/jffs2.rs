//! The nodes of JFFS2, by a survey of its blocks.

use super::{History, Naming, Packed, Source, State, Version};
use crate::error::{ImageError, Result};
use crate::volume::AnyMtd;
use nandlab_jffs2::{Endian, Jffs2, Packer, Seen, What, survey};
use nandlab_mtd::{Block, Mtd, MtdError, Page};

/// The most bytes of a file that one node holds.
const NODE_MAX: u32 = 1 << 20;
/// The compressor of nodes that hold zeros only.
const ZEROS: u8 = 1;

/// The flash below a JFFS2.
pub struct Flash<'a> {
    mtd: &'a mut AnyMtd,
    endian: Endian,
    packer: Packer,
}

fn failed(why: impl ToString) -> ImageError {
    ImageError::Open {
        layer: "JFFS2",
        why: why.to_string(),
    }
}

impl<'a> Flash<'a> {
    pub fn new(fs: &'a mut Jffs2<AnyMtd>) -> Self {
        let endian = fs.endian();
        Self {
            mtd: fs.mtd_mut(),
            endian,
            packer: Packer::default(),
        }
    }
}

impl Source for Flash<'_> {
    fn survey(&mut self, history: &mut History) -> Result<()> {
        let geometry = self.mtd.geometry().clone();
        let mut bytes = Vec::new();
        for block in 0..geometry.blocks {
            if self.mtd.is_bad(Block(block)).map_err(failed)? {
                continue;
            }
            block_of(&mut **self.mtd, block, &mut bytes)?;
            let start = u64::from(block) * u64::from(geometry.block_bytes());
            survey(self.endian, &bytes).for_each(|seen| add(history, start, &bytes, &seen));
        }
        Ok(())
    }

    fn contents(&mut self, packed: Packed, len: u32) -> Result<Option<Vec<u8>>> {
        let Packed::Jffs2 {
            compr,
            at,
            len: packed,
        } = packed
        else {
            return Ok(None);
        };
        if len > NODE_MAX {
            return Ok(None);
        }
        let mut plain = vec![0; len as usize];
        let packed = bytes_at(&mut **self.mtd, at, packed)?;
        let unpacked = self.packer.unpack(compr, &packed, &mut plain);
        Ok(unpacked.is_ok().then_some(plain))
    }
}

fn add(history: &mut History, start: u64, bytes: &[u8], seen: &Seen) {
    match &seen.what {
        _ if !seen.sound => history.damaged += 1,
        What::Name {
            dir,
            version,
            ino,
            time,
            kind,
            name,
        } => {
            let name = bytes[name.clone()].to_vec();
            history.namings.push(Naming {
                dir: *dir,
                version: (*version).into(),
                ino: *ino,
                time: Some((*time).into()),
                kind: *kind,
                name,
            });
        }
        What::Inode {
            ino,
            version,
            mode,
            owner,
            size,
            mtime,
            range,
            compr,
            data,
        } => {
            let state = State {
                mode: *mode,
                owner: (owner.0.into(), owner.1.into()),
                size: (*size).into(),
                time: (*mtime).into(),
            };
            let packed = match *compr {
                ZEROS => Packed::Zeros,
                compr => Packed::Jffs2 {
                    compr,
                    at: start + data.start as u64,
                    len: data.len() as u32,
                },
            };
            let version = Version {
                version: (*version).into(),
                state: Some(state),
                range: (range.0.into(), range.1),
                packed,
            };
            history.versions.entry(*ino).or_default().push(version);
        }
        _ => {}
    }
}

/// A block's data, with the bytes of uncorrectable pages.
pub(crate) fn block_of(mtd: &mut dyn Mtd, block: u32, bytes: &mut Vec<u8>) -> Result<()> {
    let geometry = mtd.geometry().clone();
    bytes.resize(geometry.block_bytes() as usize, 0);
    for (index, page) in bytes.chunks_mut(geometry.page as usize).enumerate() {
        match mtd.read(geometry.page_at(Block(block), index as u32), page, &mut []) {
            Ok(_) | Err(MtdError::Uncorrectable(_)) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(())
}

fn bytes_at(mtd: &mut dyn Mtd, mut at: u64, len: u32) -> Result<Vec<u8>> {
    let page = mtd.geometry().page;
    let mut bytes = Vec::with_capacity(len as usize);
    let mut cells = vec![0; page as usize];
    while bytes.len() < len as usize {
        match mtd.read(Page((at / u64::from(page)) as u32), &mut cells, &mut []) {
            Ok(_) | Err(MtdError::Uncorrectable(_)) => {}
            Err(error) => return Err(failed(error)),
        }
        let within = (at % u64::from(page)) as usize;
        let step = (cells.len() - within).min(len as usize - bytes.len());
        bytes.extend(&cells[within..within + step]);
        at += step as u64;
    }
    Ok(bytes)
}
