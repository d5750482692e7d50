//! A file's contents as they will lie on a medium: by pages, compressed, without the pages that are
//! zeros.
//!
//! *Promises.* The same data give the same contents on any thread and at any time. So a maker
//! compresses many files on several threads, and the medium is the same. *Knows nothing of* threads
//! and of where on the medium a page comes to lie: what has to be divided there is unpacked again.

use crate::{
    Choice, Format, Jffs2, Jffs2Error, Packer,
    format::{INODE, crc},
    room::For,
    summary::INODE_ENTRY,
    write::{DATA_MIN, Piece},
};
use alloc::{vec, vec::Vec};
use nandlab_mtd::Mtd;
use nandlab_vfs::{Call, Errno, FileSystem, Ino, SetAttr, Time};

/// A page that is not all zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Page {
    /// Where it begins in the file.
    at: u32,
    /// Bytes of the file in it.
    len: u32,
    compr: u8,
    /// Where its compressed bytes are, and their checksum.
    from: usize,
    end: usize,
    crc: u32,
}

/// A file's contents, compressed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    len: u64,
    pages: Vec<Page>,
    bytes: Vec<u8>,
}

impl Contents {
    /// Compresses a file's data as [`Format::compression`] says, in pages of [`Format::page`]
    /// bytes. Of 4 GiB and more nothing is kept but the length, which [`populate`](crate::populate)
    /// refuses.
    pub fn new(packer: &mut Packer, choices: &Format, data: &[u8]) -> Self {
        Self::part(packer, choices, 0, data.to_vec())
    }

    /// The same for a part of a file that begins at `start`, a multiple of [`Format::page`], and
    /// ends at one or at the file's end.
    pub fn part(packer: &mut Packer, choices: &Format, start: u64, data: Vec<u8>) -> Self {
        let mut contents = Self {
            len: start + data.len() as u64,
            ..Self::default()
        };
        if u32::try_from(contents.len).is_err() {
            return contents;
        }
        let span = choices.page.max(1) as usize;
        let packs = choices.compression.choice != Choice::None;
        contents.bytes.reserve(if packs { data.len() } else { 0 });
        for (number, page) in data.chunks(span).enumerate() {
            // The last page says how long the file is, unless it is a whole one.
            if page.len() == span && is_zero(page) {
                continue;
            }
            let packed = packer.pack(choices.compression, page, page.len());
            let from = if packs {
                contents.bytes.len()
            } else {
                number * span
            };
            if packs {
                contents.bytes.extend(packed.data);
            }
            contents.pages.push(Page {
                at: start as u32 + (number * span) as u32,
                len: page.len() as u32,
                compr: packed.compr,
                from,
                end: from + packed.data.len(),
                crc: crc(packed.data),
            });
        }
        if !packs {
            contents.bytes = data;
        }
        contents
    }

    /// Bytes of the file, up to the end of the part.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the file is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that the nodes of the file take on a medium, if none has to be divided.
    pub fn stored_bytes(&self) -> u64 {
        self.pages
            .iter()
            .map(|page| (page.end - page.from + INODE + 2) as u64)
            .sum()
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    let (head, words) = bytes.as_chunks::<16>();
    head.iter().all(|word| *word == [0; 16]) && words.iter().all(|byte| *byte == 0)
}

impl<M: Mtd> Jffs2<M> {
    /// Fills an empty file.
    pub(crate) fn write_contents(
        &mut self,
        ino: Ino,
        contents: &Contents,
        now: Time,
    ) -> Result<(), Errno> {
        let known = self.write_part(ino, contents, 0, now)?;
        if u64::from(known) < contents.len {
            self.setattr(
                ino,
                &SetAttr {
                    size: Some(contents.len),
                    mtime: Some(now),
                    ..SetAttr::default()
                },
                now,
            )?;
        }
        Ok(())
    }

    /// Appends to a file of `known` bytes, with zeros up to where the contents begin. Gives its
    /// length.
    pub(crate) fn write_part(
        &mut self,
        ino: Ino,
        contents: &Contents,
        known: u32,
        now: Time,
    ) -> Result<u32, Errno> {
        let mut known = known;
        for page in &contents.pages {
            let packed = &contents.bytes[page.from..page.end];
            self.change(Call::on("write", ino), now, |fs| {
                let ino = fs.check_file(ino)?;
                if page.at > known {
                    fs.write_hole(ino, known, page.at, |_| {})?;
                }
                fs.put_page(ino, page, packed)
            })?;
            known = page.at + page.len;
        }
        Ok(known)
    }

    fn put_page(&mut self, ino: u32, page: &Page, packed: &[u8]) -> Result<(), Jffs2Error> {
        let room = self.reserve(
            INODE as u32 + DATA_MIN.min(page.len),
            INODE_ENTRY,
            For::Write,
        )? - INODE as u32;
        if packed.len() <= room as usize {
            let piece = Piece {
                compr: page.compr,
                len: page.len,
                data: packed,
                crc: page.crc,
            };
            return self.put_piece(ino, page.at, piece, For::Write).map(drop);
        }
        self.put_unpacked(ino, page, packed)
    }

    /// Unpacks a page that does not fit, and writes it in pieces.
    fn put_unpacked(&mut self, ino: u32, page: &Page, packed: &[u8]) -> Result<(), Jffs2Error> {
        let mut data = vec![0; page.len as usize];
        let place = page.at;
        self.packer
            .unpack(page.compr, packed, &mut data)
            .map_err(|error| Jffs2Error::Data { at: place, error })?;
        let mut done = 0;
        while done < page.len {
            done += self.write_piece(ino, page.at + done, &data[done as usize..], For::Write)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Compression;

    #[test]
    fn pages_of_zeros_are_not_kept_and_the_length_is() {
        let choices = Format {
            compression: Compression::NONE,
            ..Format::default()
        };
        let mut data = vec![0; 3 * 4096 + 5];
        data[4096] = 1;
        let contents = Contents::new(&mut Packer::default(), &choices, &data);
        assert_eq!(
            (contents.len(), contents.pages.len()),
            (data.len() as u64, 2)
        );
        assert_eq!(contents.stored_bytes(), 4096 + 5 + 2 * (INODE as u64 + 2));
        assert_eq!(
            contents.pages[1],
            Page {
                at: 3 * 4096,
                len: 5,
                compr: 0,
                from: 3 * 4096,
                end: 3 * 4096 + 5,
                crc: 0
            }
        );
        assert!(Contents::default().is_empty());
    }
}
