//! Devices made from nothing: formatted, flashed with an image, and images themselves (what
//! `ubiformat` and `ubinize` of mtd-utils do).
//!
//! *Promises.* Erase counters outlive a format. An image is byte for byte what `ubinize` makes of
//! the same volumes. Erased pages at the end of an image's blocks are not programmed, so that a
//! later write programs them for the first time.

use crate::attach::{Found, Loose, Tables};
use crate::device::{Attached, Kept, compat};
use crate::error::{UbiError, require};
use crate::flash::{Flash, is_wear};
use crate::format::{
    EcHeader, HEADER_BYTES, LAYOUT_LEBS, LAYOUT_VOLUME, Parsed, VidHeader, VolumeKind, crc,
    data_length, encode_table, put, slots,
};
use crate::{Headers, Options, Shape, Ubi, VolumeSpec};
use alloc::{vec, vec::Vec};
use nandlab_mtd::{Geometry, Mtd};

/// A volume of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageVolume {
    /// The volume; its `lebs` may be 0: as many as the data take.
    pub spec: VolumeSpec,
    /// Its contents from the beginning.
    pub data: Vec<u8>,
}

/// An image to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSpec {
    /// The flash: page, sub-page and pages of a block count.
    pub geometry: Geometry,
    /// Where the headers of an erase block lie.
    pub headers: Headers,
    /// The erase counter in every block.
    pub ec: u32,
    /// The image sequence number.
    pub image_seq: u32,
    /// The volumes that the image holds.
    pub volumes: Vec<ImageVolume>,
}

/// The image, block after block: the volume table twice, then each volume's data.
pub fn image(spec: &ImageSpec) -> Result<Vec<u8>, UbiError> {
    let lengths: Vec<u64> = spec
        .volumes
        .iter()
        .map(|volume| volume.data.len() as u64)
        .collect();
    let mut bytes = Vec::new();
    let mut fill = |volume: usize, at: u64, data: &mut [u8]| {
        data.copy_from_slice(&spec.volumes[volume].data[at as usize..at as usize + data.len()]);
        Ok(())
    };
    image_to(spec, &lengths, &mut fill, &mut |block| {
        bytes.extend(block);
        Ok::<(), UbiError>(())
    })?;
    Ok(bytes)
}

/// Fills a buffer with a volume's data, by its place in the list, from an offset on.
pub type Fill<'a, E> = &'a mut dyn FnMut(usize, u64, &mut [u8]) -> Result<(), E>;

/// The same image, for data that are larger than memory: each volume has so many bytes, which
/// `fill` gives (those in `spec` count for nothing), and `take` takes block after block.
pub fn image_to<E: From<UbiError>>(
    spec: &ImageSpec,
    lengths: &[u64],
    fill: Fill<'_, E>,
    take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let shape = Shape::new(&spec.geometry, spec.headers)?;
    require(shape.has_headers(), "headers", 0, "headers")?;
    let mut records = vec![None; slots(shape.leb_bytes) as usize];
    let mut bodies = Vec::new();
    for (index, volume) in spec.volumes.iter().enumerate() {
        let length = lengths.get(index).copied().unwrap_or(0);
        let first_free = records
            .iter()
            .position(Option::is_none)
            .unwrap_or(records.len());
        let id = volume.spec.id.map_or(first_free, |id| id as usize);
        let free = records.get(id).is_some_and(Option::is_none);
        require(
            free,
            "volume id",
            id as u64,
            "a free slot of the volume table",
        )?;
        let alignment = volume.spec.alignment.max(1);
        let usable = (shape.leb_bytes - shape.leb_bytes % alignment).max(1);
        let used = length.div_ceil(usable.into()) as u32;
        let sized = VolumeSpec {
            lebs: volume.spec.lebs.max(used),
            ..volume.spec.clone()
        };
        require(
            volume.spec.lebs == 0 || used <= volume.spec.lebs,
            "logical blocks",
            used.into(),
            "no more than the volume has",
        )?;
        let record = sized.record(shape.leb_bytes, shape.page)?;
        let taken = records
            .iter()
            .flatten()
            .any(|other: &crate::format::Record| other.name == record.name);
        require(
            !taken,
            "volume with a name that is taken",
            id as u64,
            "names of their own",
        )?;
        bodies.push((id as u32, record.clone(), used, usable, (index, length)));
        records[id] = Some(record);
    }
    let mut writer = Writer {
        shape,
        ec: EcHeader {
            ec: spec.ec,
            vid_offset: shape.vid_offset,
            data_offset: shape.data_offset,
            image_seq: spec.image_seq,
        },
        bytes: Vec::new(),
    };
    let table = encode_table(&records);
    for lnum in 0..LAYOUT_LEBS {
        let vid = VidHeader {
            volume: LAYOUT_VOLUME,
            lnum,
            compat: compat(LAYOUT_VOLUME),
            ..VidHeader::default()
        };
        take(writer.block(&vid, &table))?;
    }
    let mut buffer = Vec::new();
    for (id, record, used, usable, (index, length)) in bodies {
        for (lnum, at) in (0..).zip((0..length).step_by(usable as usize)) {
            buffer.resize((length - at).min(usable.into()) as usize, 0);
            fill(index, at, &mut buffer)?;
            let vid = VidHeader {
                kind: record.kind,
                volume: id,
                lnum,
                data_pad: record.data_pad,
                ..VidHeader::default()
            };
            let fixed = VidHeader {
                data_size: buffer.len() as u32,
                used_ebs: used,
                data_crc: crc(&buffer),
                ..vid
            };
            take(writer.block(
                if record.kind == VolumeKind::Static {
                    &fixed
                } else {
                    &vid
                },
                &buffer,
            ))?;
        }
    }
    Ok(())
}

struct Writer {
    shape: Shape,
    ec: EcHeader,
    /// The bytes of one erase block.
    bytes: Vec<u8>,
}

impl Writer {
    fn block(&mut self, vid: &VidHeader, data: &[u8]) -> &[u8] {
        self.bytes.clear();
        self.bytes.resize(self.shape.peb_bytes as usize, 0xFF);
        put(&mut self.bytes, 0, &self.ec.encode());
        put(
            &mut self.bytes,
            self.shape.vid_offset as usize,
            &vid.encode(),
        );
        put(&mut self.bytes, self.shape.data_offset as usize, data);
        &self.bytes
    }
}

impl<M: Mtd> Ubi<M> {
    /// Erases everything but the counters and makes an empty device. A cut in between leaves a
    /// flash that has to be formatted again.
    pub fn format(mtd: M, options: Options) -> Result<Self, UbiError> {
        Self::format_with(mtd, options, &[]).and_then(|(flash, found)| {
            let records = vec![None; slots(flash.shape.leb_bytes) as usize];
            let tables = Tables {
                records,
                repair: (0..LAYOUT_LEBS).collect(),
            };
            let mut ubi =
                Self::assemble(flash, options, found, tables, Kept::Scan, Attached::Scan)?;
            ubi.sync()?;
            Ok(ubi)
        })
    }

    /// A device to be measured: formatted, with a volume of all the blocks that are available, of
    /// which so many of 1,024 hold `data`. On a chip that keeps little it can be as
    /// large as any. Gives the volume.
    pub fn furnished(
        mtd: M,
        options: Options,
        filled_per_1024: u32,
        data: &[u8],
    ) -> Result<(Self, u32), UbiError> {
        let mut ubi = Self::format(mtd, options)?;
        let lebs = ubi.info().available;
        let id = ubi.create_volume(&VolumeSpec {
            name: "furnished".into(),
            lebs,
            ..VolumeSpec::default()
        })?;
        let filled = u64::from(lebs) * u64::from(filled_per_1024.min(1024)) / 1024;
        (0..filled as u32).try_for_each(|lnum| ubi.write(id, lnum, 0, data))?;
        Ok((ubi, id))
    }

    /// Flashes an image over everything but the counters, and attaches it. The image's own counters
    /// count for nothing; its image sequence number is used, or that of the options if it has none.
    pub fn flash_image(mtd: M, options: Options, image: &[u8]) -> Result<Self, UbiError> {
        let (flash, _) = Self::format_with(mtd, options, image)?;
        let mut mtd = flash.mtd;
        mtd.sync()?;
        Self::attach(mtd, options)
    }

    /// Erases every block and writes headers, and an image's blocks as far as they go; gives the
    /// blocks that are left.
    fn format_with(mtd: M, options: Options, image: &[u8]) -> Result<(Flash<M>, Found), UbiError> {
        let shape = Shape::new(mtd.geometry(), options.headers)?;
        let whole = image.len().is_multiple_of(shape.peb_bytes as usize)
            && (image.is_empty() || shape.has_headers());
        require(
            whole,
            "bytes of the image",
            image.len() as u64,
            "whole erase blocks, on a device with headers",
        )?;
        let mut flash = Flash::new(mtd, shape, &options);
        let counters = counters(&mut flash)?;
        let known: Vec<u64> = counters
            .iter()
            .flatten()
            .flatten()
            .map(|&ec| ec.into())
            .collect();
        let mean = known
            .iter()
            .sum::<u64>()
            .checked_div(known.len() as u64)
            .unwrap_or(0) as u32;
        let mut blocks = image.chunks_exact(shape.peb_bytes as usize).peekable();
        flash.image_seq = blocks
            .peek()
            .map_or(Ok(0), |block| image_seq(&flash, block))?;
        if flash.image_seq == 0 {
            flash.image_seq = options.image_seq;
        }
        let mut found = Found {
            image_seq: flash.image_seq,
            ..Found::default()
        };
        for (peb, counter) in (0..).zip(counters) {
            let Some(counter) = counter else {
                found.bad += 1;
                continue;
            };
            let ec = counter.unwrap_or(mean).saturating_add(1);
            match fresh(&mut flash, peb, ec, blocks.peek().copied()) {
                Ok(()) if blocks.next().is_some() => {}
                Ok(()) => {
                    found.free.push(Loose::new(peb, Some(ec)));
                    found.count_ec(Some(ec));
                }
                Err(error) if is_wear(&error) => {
                    flash.mark_bad(peb)?;
                    found.bad += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
        let left = blocks.len() as u32;
        if left > 0 {
            return Err(UbiError::NoSpace {
                needed: left,
                available: 0,
            });
        }
        Ok((flash, found))
    }
}

/// Each block's counter, where it can be read; none where the block is bad.
fn counters<M: Mtd>(flash: &mut Flash<M>) -> Result<Vec<Option<Option<u32>>>, UbiError> {
    let mut counters = Vec::new();
    for peb in 0..flash.shape.pebs {
        counters.push(if flash.is_bad(peb)? {
            None
        } else if let (true, (Parsed::Good(header), _)) =
            (flash.shape.has_headers(), flash.read_ec(peb)?)
        {
            Some(Some(header.ec))
        } else {
            Some(None)
        });
    }
    Ok(counters)
}

/// The image's sequence number, and that its headers lie where the device's do.
fn image_seq<M>(flash: &Flash<M>, block: &[u8]) -> Result<u32, UbiError> {
    match EcHeader::parse(&block[..HEADER_BYTES]) {
        Parsed::Good(header) => {
            crate::attach::judge_offsets(flash, 0, &header).map(|()| header.image_seq)
        }
        Parsed::Refused(error) | Parsed::Damaged(error) => Err(UbiError::Refused { peb: 0, error }),
        Parsed::Empty => Err(UbiError::Medium {
            what: "first block of the image",
            found: 0xFF,
            expected: "a UBI header",
        }),
    }
}

fn fresh<M: Mtd>(
    flash: &mut Flash<M>,
    peb: u32,
    ec: u32,
    image: Option<&[u8]>,
) -> Result<(), nandlab_mtd::MtdError> {
    flash.erase(peb)?;
    flash.write_ec(peb, ec)?;
    let Some(image) = image else { return Ok(()) };
    let vid = flash.shape.vid_offset as usize;
    let leb = flash.shape.leb_bytes;
    if let Parsed::Good(vid) = VidHeader::parse(&image[vid..vid + HEADER_BYTES], leb) {
        flash.write_vid(peb, &vid, ec)?;
    }
    let data = &image[flash.shape.data_offset as usize..];
    flash.write_data(
        peb,
        0,
        &data[..data_length(data, flash.shape.page as usize)],
    )
}
