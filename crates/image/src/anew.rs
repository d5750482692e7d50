//! Images of flash made anew for pages and erase blocks of other lengths.
//!
//! *Promises.* JFFS2 is made again from its tree: contents and everything that entries have are the
//! same, its past is gone. Of UBI each volume is: JFFS2 from its tree, disks and unknown contents
//! byte for byte; what depends on the length of logical blocks and cannot be made here is an error.
//! The new image has no spare areas where UBI is concerned: [`convert`](crate::convert) adds them.
//! *Knows nothing of* bad blocks: the new image has none.

use crate::detect::{Detected, FlashKind};
use crate::error::{ImageError, Result};
use crate::lock::Lock;
use crate::make::{Format, Making, make, make_in};
use crate::raw::raw;
use crate::source;
use crate::tree::Tree;
use crate::volume::{Access, Layer, Opening, UbiVolume, Volume};
use nandlab_jffs2::{Compression, Endian, Medium};
use nandlab_mtd::{Geometry, ImageFormat, Layout};
use nandlab_scratch::beside;
use nandlab_ubi::format::VolumeKind;
use nandlab_ubi::{Headers, ImageSpec, ImageVolume, UbiError, VolumeSpec, image_to};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Makes the image at `from` anew, at `to`, for flash of that shape; gives its bytes.
pub fn anew(from: &Path, opening: &Opening, shape: ImageFormat, to: &Path) -> Result<u64> {
    let volume = Volume::open(from, opening, Access::Read)?;
    match volume.detected {
        Detected::Flash(_, FlashKind::Jffs2 { endian, markers }) => {
            let medium = match (shape.oob, markers) {
                (1.., _) => Medium::Nand,
                (0, true) => Medium::Nor,
                (0, false) => Medium::Unmarked,
            };
            let mut ignored = |_| {};
            let (tree, making) = jffs2(from, opening, (endian, medium), shape, &mut ignored)?;
            Ok(make(tree, making, to)?.bytes)
        }
        Detected::Flash(old, FlashKind::Ubi { vid: 1.., .. }) if shape.oob == 0 => {
            ubi(&volume, old, opening, shape, to)
        }
        other => {
            let expected =
                "JFFS2, or UBI with headers and without spare bytes in the new image".into();
            Err(ImageError::Choice {
                what: "image to be made anew",
                found: format!("{other:?}"),
                expected,
            })
        }
    }
}

/// The tree of a JFFS2 image, and how it is made again.
fn jffs2<'a>(
    from: &Path,
    opening: &Opening,
    (endian, medium): (Endian, Medium),
    shape: ImageFormat,
    progress: &'a mut dyn FnMut(u64),
) -> Result<(Tree, Making<'a>)> {
    let (tree, _) = source::image(from, opening, false)?;
    let choices = nandlab_jffs2::Format {
        medium: Some(medium),
        endian,
        compression: Compression::CLASSIC,
        summary: false,
        ..nandlab_jffs2::Format::default()
    };
    let making = Making {
        format: Format::Jffs2 { choices, shape },
        size: None,
        lossy: false,
        threads: 2,
        progress,
    };
    Ok((tree, making))
}

/// What stops the making of an image.
enum Stop {
    Ubi(UbiError),
    Image(ImageError),
}

impl From<UbiError> for Stop {
    fn from(error: UbiError) -> Self {
        Self::Ubi(error)
    }
}

fn ubi(
    volume: &Volume,
    old: ImageFormat,
    opening: &Opening,
    shape: ImageFormat,
    to: &Path,
) -> Result<u64> {
    let Some(Layer::Ubi {
        volumes, image_seq, ..
    }) = volume
        .layers
        .iter()
        .find(|layer| matches!(layer, Layer::Ubi { .. }))
    else {
        return Err(ImageError::Open {
            layer: "UBI",
            why: "no volumes".into(),
        });
    };
    let Detected::Flash(_, FlashKind::Ubi { vid, .. }) = volume.detected else {
        return Ok(0);
    };
    // In a sub-page as before, or in the second page.
    let vid = if vid < old.page && vid < shape.page {
        vid
    } else {
        shape.page
    };
    let mut geometry = Geometry::single_die(shape.page, 0, shape.pages_per_block, 1);
    geometry.write_unit = vid;
    let leb = (shape.page * shape.pages_per_block)
        .saturating_sub((vid + 64).next_multiple_of(shape.page));
    let mut specs = Vec::new();
    let mut files = Vec::new();
    let mut lengths = Vec::new();
    for one in volumes {
        let (file, length) = contents(volume, one, opening, (leb, shape.page))?;
        let kind = if one.kind == "static" {
            VolumeKind::Static
        } else {
            VolumeKind::Dynamic
        };
        let lebs = one.bytes.max(length).div_ceil(u64::from(leb).max(1)) as u32;
        let spec = VolumeSpec {
            id: Some(one.id),
            name: one.name.clone(),
            kind,
            lebs: lebs.max(1),
            ..VolumeSpec::default()
        };
        specs.push(ImageVolume {
            spec,
            data: Vec::new(),
        });
        files.push(file);
        lengths.push(length);
    }
    let spec = ImageSpec {
        geometry,
        headers: Headers::At(vid),
        ec: 0,
        image_seq: *image_seq,
        volumes: specs,
    };
    let _lock = Lock::target(to)?;
    let scratch = beside(to)?;
    let mut out = BufWriter::with_capacity(1 << 20, scratch.as_file());
    let mut bytes = 0;
    let failed = |error| {
        Stop::Image(ImageError::File {
            path: to.into(),
            error,
        })
    };
    let mut fill = |volume: usize, at: u64, data: &mut [u8]| {
        files[volume].read_exact_at(data, at).map_err(failed)
    };
    let made = image_to(&spec, &lengths, &mut fill, &mut |block| {
        bytes += block.len() as u64;
        out.write_all(block).map_err(failed)
    });
    made.map_err(|stop| match stop {
        Stop::Ubi(error) => ImageError::Make {
            format: "UBI",
            why: error.to_string(),
        },
        Stop::Image(error) => error,
    })?;
    out.flush().map_err(ImageError::file(to))?;
    drop(out);
    scratch.persist(to)?;
    Ok(bytes)
}

/// Puts what a volume is to hold into a file without a name; gives how many bytes count: what is
/// erased at the end of a dynamic volume does not.
fn contents(
    volume: &Volume,
    one: &UbiVolume,
    opening: &Opening,
    (leb, page): (u32, u32),
) -> Result<(File, u64)> {
    let dir = std::env::temp_dir();
    let file = tempfile::tempfile_in(&dir).map_err(ImageError::file(&dir))?;
    let opening = Opening {
        volume: Some(one.id.to_string()),
        ..opening.clone()
    };
    match one.holds {
        Some("JFFS2") => {
            let shape = ImageFormat {
                page,
                oob: 0,
                pages_per_block: leb / page,
                layout: Layout::Raw,
                ecc: None,
            };
            let image = volume.place.path();
            let inner = Volume::open(image, &opening, Access::Read)?;
            let big = inner
                .layers
                .iter()
                .any(|layer| matches!(layer, Layer::Jffs2 { endian: "big", .. }));
            let endian = if big { Endian::Big } else { Endian::Little };
            let how = (endian, Medium::Unmarked);
            let mut ignored = |_| {};
            let (tree, making) = jffs2(image, &opening, how, shape, &mut ignored)?;
            let bytes = make_in(&file, &dir, tree, making)?.bytes;
            Ok((file, bytes))
        }
        Some("UBIFS") => {
            let expected =
                "contents that do not depend on the length of logical blocks, or JFFS2".into();
            Err(ImageError::Choice {
                what: "volume",
                found: format!("UBIFS in {}", one.name),
                expected,
            })
        }
        _ => {
            let mut counted = Counted {
                to: BufWriter::new(&file),
                at: 0,
                end: 0,
            };
            let (bytes, losses) = raw(volume, &opening, &mut counted)?;
            if let Some(loss) = losses.list.first() {
                let why = format!("volume {}: {}", one.name, loss.what);
                return Err(ImageError::Open { layer: "UBI", why });
            }
            counted.flush().map_err(ImageError::file(&dir))?;
            let end = counted.end;
            drop(counted);
            let is_static = one.kind == "static";
            Ok((file, if is_static { bytes } else { end }))
        }
    }
}

/// Remembers where the last byte is that is not erased.
struct Counted<W> {
    to: W,
    at: u64,
    end: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.to.write(bytes)?;
        if let Some(last) = bytes[..count].iter().rposition(|byte| *byte != 0xFF) {
            self.end = self.at + last as u64 + 1;
        }
        self.at += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}
