//! Which bytes of an image are opened, and what they are.
//!
//! *Promises.* The choice is the user's where there is one to make: an image with several ranges
//! that can be read is an error that names them. A range that is opened for writing is certain, or
//! the doubt is reported. *Knows nothing of* how a format is opened.

use crate::copies;
use crate::detect::{Detected, FlashKind, Shape, Unclear};
use crate::error::{ImageError, Result};
use crate::partitions::{self, Partition};
use crate::place::Place;
use crate::ranges::{Content, Range, Ranges, ranges};
use crate::volume::Opening;
use crate::window::Part;
use nandlab_mtd::{Block, Image, Mtd as _};
use nandlab_sim::Backing;
use std::path::Path;

/// Which bytes of an image are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The first byte of the selection, if given.
    pub offset: Option<u64>,
    /// The length in bytes, if given.
    pub length: Option<u64>,
    /// The name of a range or a partition.
    pub partition: Option<String>,
    /// A partition table as Linux takes it on its command line.
    pub mtdparts: Option<String>,
}

/// An image together with the part of it that is opened.
#[derive(Clone, Debug)]
pub struct Located {
    /// The bytes of the image that are opened.
    pub place: Place,
    /// The format that these bytes hold.
    pub detected: Detected,
    /// Why they must not be written as they were found.
    pub doubt: Option<String>,
}

impl Located {
    /// Refuses to write what is doubtful.
    pub fn certain(&self) -> Result<()> {
        match &self.doubt {
            None => Ok(()),
            Some(why) => Err(ImageError::Open {
                layer: "not written, what the image holds is not certain",
                why: why.clone(),
            }),
        }
    }

    /// The same in a copy of the image.
    pub(crate) fn in_file(&self, path: &Path) -> Self {
        Self {
            place: self.place.in_file(path),
            ..self.clone()
        }
    }
}

/// Finds what is meant in an image.
pub fn locate(image: &Place, opening: &Opening) -> Result<Located> {
    let selection = &opening.selection;
    let place = bytes_meant(image, selection)?;
    let ranges = ranges_of(&place, opening);
    let Some(name) = &selection.partition else {
        return only(&place, &ranges?, opening);
    };
    if let Some(part) = in_table(&place, name, selection, ranges.as_ref().ok())? {
        let place = place.part(part);
        let ranges = ranges_of(&place, opening)?;
        return only(&place, &ranges, opening);
    }
    let ranges = ranges?;
    match ranges.named(name) {
        Some(range) => one(&place, &ranges.shape, range),
        None => Err(ImageError::Choice {
            what: "partition",
            found: name.clone(),
            expected: format!("one of {}", names(ranges.list.iter())),
        }),
    }
}

/// The ranges of the bytes that are meant, for a report.
pub fn survey(image: &Place, opening: &Opening) -> Result<Ranges> {
    let selection = &opening.selection;
    let place = bytes_meant(image, selection)?;
    let mut ranges = ranges_of(&place, opening)?;
    for partition in table(&place, selection, &ranges.shape)?.unwrap_or_default() {
        let part = raw_part(&partition, &ranges.shape);
        ranges.call(part, &partition.name);
    }
    Ok(ranges)
}

/// The same as [`locate`] where a [`survey`] has found the ranges already. Looks again if a
/// partition was named.
pub fn locate_surveyed(image: &Place, ranges: &Ranges, opening: &Opening) -> Result<Located> {
    if opening.selection.partition.is_some() {
        return locate(image, opening);
    }
    only(&bytes_meant(image, &opening.selection)?, ranges, opening)
}

/// The bytes of the range that is meant, without spare bytes, whatever lies in it; `None` if no
/// range was chosen, or UBI lies in it, whose volumes are chosen instead.
pub fn bytes_of_range(image: &Place, opening: &Opening) -> Result<Option<Place>> {
    let selection = &opening.selection;
    let place = bytes_meant(image, selection)?;
    let Some(name) = &selection.partition else {
        return Ok(place.is_part().then_some(place));
    };
    let ranges = ranges_of(&place, opening);
    let table = in_table(&place, name, selection, ranges.as_ref().ok())?;
    let ranges = ranges?;
    let named = ranges.named(name);
    let is_ubi = named.is_some_and(|range| match &range.content {
        Content::Flash(on_flash) => matches!(on_flash.kind, FlashKind::Ubi { .. }),
        _ => false,
    });
    let Some(part) = table.or(named.map(|range| range.part)).filter(|_| !is_ubi) else {
        return Ok(None);
    };
    let part = place.part(part);
    Ok(Some(match ranges.shape.oob {
        0 => part,
        _ => part.without_spare(ranges.shape.format(1)),
    }))
}

fn bytes_meant(image: &Place, selection: &Selection) -> Result<Place> {
    if selection.offset.is_none() && selection.length.is_none() {
        return Ok(image.clone());
    }
    let len = image.raw()?.len();
    let at = selection.offset.unwrap_or(0);
    let count = selection.length.unwrap_or(len.saturating_sub(at));
    if at.checked_add(count).is_none_or(|end| end > len) || count == 0 {
        return Err(ImageError::Choice {
            what: "range",
            found: format!("{count} bytes at {at}"),
            expected: format!("1 to {len} bytes within the image of {len} bytes"),
        });
    }
    Ok(image.part(Part { at, len: count }))
}

fn ranges_of(place: &Place, opening: &Opening) -> Result<Ranges> {
    let mut bytes = place.raw()?;
    ranges(&mut *bytes, &opening.hints)?.map_err(|unclear| match unclear {
        Unclear::Close(a, b) => ImageError::Choice {
            what: "shape of the image",
            found: format!("evidence for two: {a}, and {b}"),
            expected: "an option that decides".into(),
        },
        Unclear::Nothing => ImageError::Unknown {
            path: place.path().into(),
            tried: "nothing fits --page, --oob, --ecc and --oob-layout; leave out those that may \
                    be wrong"
                .into(),
        },
    })
}

/// The partition table that was given, or else the one in the image. A table for flash counts the
/// data, without spare bytes.
fn table(place: &Place, selection: &Selection, shape: &Shape) -> Result<Option<Vec<Partition>>> {
    let mut bytes = place.raw()?;
    match &selection.mtdparts {
        Some(text) => partitions::mtdparts(text, shape.data(bytes.len())).map(Some),
        None => partitions::in_image(&mut *bytes),
    }
}

/// The partition of that name in the image's table, or in the one that was given.
fn in_table(
    place: &Place,
    name: &str,
    selection: &Selection,
    ranges: Option<&Ranges>,
) -> Result<Option<Part>> {
    let shape = ranges.map_or(Shape::PLAIN, |ranges| ranges.shape);
    let Some(all) = table(place, selection, &shape)? else {
        return Ok(None);
    };
    let found = all.iter().find(|partition| partition.name == *name);
    match found {
        Some(partition) => Ok(Some(raw_part(partition, &shape))),
        None if selection.mtdparts.is_some() => Err(ImageError::Choice {
            what: "partition",
            found: name.into(),
            expected: {
                let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
                format!("one of {}", names.join(", "))
            },
        }),
        None => Ok(None),
    }
}

/// Partitions count the data of a dump, without its spare bytes.
fn raw_part(partition: &Partition, shape: &Shape) -> Part {
    let at = shape.raw(partition.at);
    let len = shape.raw(partition.at + partition.len) - at;
    Part { at, len }
}

fn names<'a>(list: impl Iterator<Item = &'a Range>) -> String {
    let names: Vec<&str> = list.map(|range| range.name.as_str()).collect();
    names.join(", ")
}

/// The only range that can be read.
fn only(place: &Place, ranges: &Ranges, opening: &Opening) -> Result<Located> {
    let read: Vec<&Range> = ranges.read().collect();
    match read[..] {
        [range] => chosen(place, ranges, range),
        [] => match opening.salvage.then(|| by_copy(place)).flatten() {
            Some(located) => Ok(located),
            None => Err(unknown(place, ranges)),
        },
        _ => Err(ImageError::Choice {
            what: "image",
            found: format!("{} ranges that can be read", read.len()),
            expected: format!("one of them, by --partition: {}", names(read.into_iter())),
        }),
    }
}

fn by_copy(place: &Place) -> Option<Located> {
    let kind = copies::kind(&mut *place.raw().ok()?)?;
    Some(Located {
        place: place.clone(),
        detected: Detected::Disk(kind),
        doubt: None,
    })
}

fn unknown(place: &Place, ranges: &Ranges) -> ImageError {
    let known = ranges
        .list
        .iter()
        .filter(|range| matches!(range.content, Content::Known(_)));
    let mut found: Vec<String> = known
        .map(|range| format!("{} at byte {}", range.content.format(), range.part.at))
        .collect();
    found.truncate(8);
    let tried = match found.is_empty() {
        true => {
            "neither ext2, ext3, ext4, F2FS, FAT, squashfs nor UBIFS, nor UBI, JFFS2 or NFTL with \
                 or without spare bytes; --offset says where one begins, --page and --oob describe \
                 a dump"
                .into()
        }
        false => format!("found {}, which nandlab does not read", found.join(", ")),
    };
    ImageError::Unknown {
        path: place.path().into(),
        tried,
    }
}

/// The only range that can be read, with what lies around it. Flash whose blocks count from the
/// beginning of the image takes damaged blocks around it as its own, so that they are not
/// overlooked.
fn chosen(place: &Place, ranges: &Ranges, range: &Range) -> Result<Located> {
    let Content::Flash(on_flash) = &range.content else {
        return one(place, &ranges.shape, range);
    };
    let others = || ranges.list.iter().filter(|other| *other != range);
    let known = others().any(|other| matches!(other.content, Content::Known(_)));
    if known || !on_flash.from.is_multiple_of(on_flash.block) {
        return one(place, &ranges.shape, range);
    }
    let whole = place.clone();
    let mut located = Located {
        place: whole,
        ..one(place, &ranges.shape, range)?
    };
    let format = ranges
        .shape
        .format((on_flash.block / u64::from(on_flash.page.max(1))) as u32);
    let mut strange = others().filter(|other| matches!(other.content, Content::Unknown));
    if let Some(other) = strange.find(|other| !is_bad(place, &format, other.part)) {
        let doubt = format!(
            "bytes {} to {} are of no known format; --offset and --length say what belongs to the \
             {}",
            other.part.at,
            other.part.end(),
            on_flash.kind.name()
        );
        located.doubt.get_or_insert(doubt);
    }
    Ok(located)
}

/// Whether all blocks of a part are marked bad.
fn is_bad(place: &Place, format: &nandlab_mtd::ImageFormat, part: Part) -> bool {
    if format.oob == 0 {
        return false;
    }
    let block = format.bytes(1);
    let Ok(bytes) = place.raw() else {
        return false;
    };
    let whole = bytes.len() / block * block;
    let window = crate::window::Window::new(bytes, Part { at: 0, len: whole });
    let Ok(mut image) = Image::new(window, *format) else {
        return false;
    };
    let mut blocks = part.at / block..part.end().div_ceil(block);
    blocks.all(|number| image.is_bad(Block(number as u32)) == Ok(true))
}

/// A range by itself.
fn one(place: &Place, shape: &Shape, range: &Range) -> Result<Located> {
    let whole = range.part.at == 0 && range.part.len == place.raw()?.len();
    let part = match whole {
        true => place.clone(),
        false => place.part(range.part),
    };
    match &range.content {
        Content::Disk(kind) => Ok(Located {
            place: match shape.oob {
                0 => part,
                _ => part.without_spare(shape.format(1)),
            },
            detected: Detected::Disk(*kind),
            doubt: None,
        }),
        Content::Flash(on_flash) => {
            let page = on_flash.page.max(1);
            let pages = (on_flash.block / u64::from(page)).max(1);
            let mut format = shape.format(u32::try_from(pages).unwrap_or(u32::MAX));
            format.page = page;
            let uncertain = matches!(on_flash.kind, FlashKind::Jffs2 { .. }) && !on_flash.certain;
            let doubt = uncertain.then(|| {
                format!(
                    "nothing in it proves the erase block of {} bytes; give its size by --block",
                    on_flash.block
                )
            });
            Ok(Located {
                place: part,
                detected: Detected::Flash(format, on_flash.kind),
                doubt,
            })
        }
        _ => Err(ImageError::Choice {
            what: "partition",
            found: format!("{}: {}", range.name, range.content.format()),
            expected: "a range with a file system or flash".into(),
        }),
    }
}
