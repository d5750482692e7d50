//! Which ranges a whole image holds: boot loaders, file systems, flash with UBI or JFFS2, tables,
//! erased and unknown bytes.
//!
//! *Promises.* The ranges cover the image from its first byte to its last, in order, and do not
//! overlap. A range has a name that is unique in the image. Flash takes the erased blocks behind
//! it, up to the next content. *Knows nothing of* partition tables that are not in the image.

use crate::detect::disk::{HEAD_BYTES, disk, proven};
use crate::detect::find_shape;
use crate::detect::flash::{self, OnFlash};
use crate::detect::scan::{self, Fill, Scan};
use crate::detect::shape::plain_format;
use crate::detect::{DiskKind, FlashKind, Hints, Shape, Unclear};
use crate::error::Result;
use crate::known::{self, Known};
use crate::view::View;
use crate::window::Part;
use nandlab_sim::Backing;
use serde::Serialize;

/// An image up to this length is read with its errors corrected when it is scanned; of a longer one
/// only the places that matter are.
const CORRECTED_MAX: u64 = 64 << 20;
/// A file system on a disk may end so many bytes before its image does and still fill it.
const TAIL: u64 = 4 << 20;

/// What a range holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// All bytes are 0xFF.
    Erased,
    /// All bytes are zero.
    Zeros,
    /// Bytes of no known format.
    Unknown,
    /// A file system on a disk.
    Disk(DiskKind),
    /// A format that lies on flash.
    Flash(OnFlash),
    /// A format that is recognised, and not read further.
    Known(Known),
}

/// A range of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// Its name, for commands.
    pub name: String,
    /// Its bytes in the image, spare bytes included.
    pub part: Part,
    /// The contents of the range.
    pub content: Content,
}

/// A range in words, for reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RangeReport {
    /// The name of the image or range.
    pub name: String,
    /// Its bytes in the image.
    #[serde(flatten)]
    pub part: Part,
    /// The name of the format in it.
    pub format: String,
    /// What the format says of itself.
    pub says: String,
}

/// An image taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges {
    /// How it is cut into pages.
    pub shape: Shape,
    /// The ranges in ascending order.
    pub list: Vec<Range>,
}

impl Content {
    /// Returns the name of the format, for reports.
    pub fn format(&self) -> &str {
        match self {
            Self::Erased => "erased",
            Self::Zeros => "zeros",
            Self::Unknown => "unknown",
            Self::Disk(kind) => kind.name(),
            Self::Flash(on_flash) => on_flash.kind.name(),
            Self::Known(known) => known.name,
        }
    }

    /// Whether nandlab reads what is in it.
    pub fn is_read(&self) -> bool {
        matches!(self, Self::Disk(_) | Self::Flash(_))
    }

    fn is_filler(&self) -> bool {
        matches!(self, Self::Erased | Self::Zeros | Self::Unknown)
    }
}

impl Range {
    /// The range in words.
    pub fn report(&self) -> RangeReport {
        let says = match &self.content {
            Content::Known(known) => known.says.clone(),
            Content::Flash(on_flash) if !on_flash.certain => {
                format!("erase blocks of {} bytes, not certain", on_flash.block)
            }
            Content::Flash(on_flash) => format!("erase blocks of {} bytes", on_flash.block),
            _ => String::new(),
        };
        RangeReport {
            name: self.name.clone(),
            part: self.part,
            format: self.content.format().into(),
            says,
        }
    }
}

/// Takes an image apart.
pub fn ranges(
    image: &mut dyn Backing,
    hints: &Hints,
) -> Result<std::result::Result<Ranges, Unclear>> {
    if let Some(whole) = whole_disk(image, hints) {
        return Ok(Ok(whole));
    }
    let mut raw = Scan::read(image)?;
    raw.sort();
    let shape = match whole_flash(image, &raw, hints) {
        Some(whole) => return Ok(Ok(whole)),
        None => match find_shape(image, &raw, hints) {
            Ok(shape) => shape,
            Err(unclear) => return Ok(Err(unclear)),
        },
    };
    let list = if shape.oob == 0 {
        segments(image, &raw, &shape, hints, &[])
    } else {
        spared(image, &raw, &shape, hints)?
    };
    let mut ranges = Ranges { shape, list };
    ranges.name();
    Ok(Ok(ranges))
}

/// A file system that fills an image without spare bytes: the usual case needs no scan.
fn whole_disk(image: &mut dyn Backing, hints: &Hints) -> Option<Ranges> {
    let len = image.len();
    let mut head = vec![0; HEAD_BYTES.min(len as usize)];
    image.read_at(0, &mut head).ok()?;
    if hints.oob.unwrap_or(0) > 0 {
        return None;
    }
    let kind = match proven(&head) {
        Some((kind, bytes)) if bytes.saturating_add(TAIL) >= len => kind,
        Some(_) => return None,
        // A damaged superblock still says what it is.
        None => disk(&head)?,
    };
    Some(Ranges::one(Shape::PLAIN, len, Content::Disk(kind)))
}

/// NFTL, and UBIL without headers, fill the whole image: their structures count its blocks.
fn whole_flash(image: &mut dyn Backing, scan: &Scan, hints: &Hints) -> Option<Ranges> {
    let (kind, page, oob, block) = if let Some(block) = flash::nftl(image, scan, hints) {
        (FlashKind::Nftl, 512, 16, block)
    } else if scan.counters.is_empty()
        && let Some((page, oob, block)) = flash::ubil(image, scan)
    {
        let kind = FlashKind::Ubi { vid: 0, log: true };
        (kind, page, oob, u64::from(block))
    } else {
        return None;
    };
    let format = plain_format(page, oob);
    let layout = match kind {
        FlashKind::Nftl => nandlab_mtd::Layout::DiskOnChip,
        _ => format.layout,
    };
    let shape = Shape {
        page,
        oob,
        ecc: None,
        layout: hints.layout.unwrap_or(layout),
    };
    let on_flash = OnFlash {
        kind,
        page,
        block,
        certain: true,
        from: 0,
        to: scan.len,
    };
    Some(Ranges::one(shape, scan.len, Content::Flash(on_flash)))
}

/// The ranges of a dump with spare bytes.
fn spared(image: &mut dyn Backing, raw: &Scan, shape: &Shape, hints: &Hints) -> Result<Vec<Range>> {
    let failed = |error: nandlab_mtd::ImageError| crate::volume::failed("flash", error);
    let plain = Shape {
        ecc: None,
        ..*shape
    };
    let scan = if image.len() <= CORRECTED_MAX {
        Scan::read(&mut View::new(&mut *image, shape.format(1)).map_err(failed)?)
    } else {
        Scan::read(&mut View::new(&mut *image, plain.format(1)).map_err(failed)?)
    };
    let mut scan = scan?;
    scan.sort();
    let first = shape.layout.on(shape.page, shape.oob).ok();
    let first = first.and_then(|layout| layout.user().next()).unwrap_or(0);
    let place = u64::from(shape.page) + first as u64;
    // A mark stands in the first page of its block.
    let marks: Vec<u64> = raw
        .markers
        .iter()
        .filter(|at| **at % shape.stride() == place)
        .map(|at| at / shape.stride() * u64::from(shape.page))
        .collect();
    let mut view = View::new(&mut *image, shape.format(1)).map_err(failed)?;
    // A translation layer of this project fills its flash, whatever disk lies in its pages.
    if let Some(on_flash) = flash::layered(&mut view, &scan, shape) {
        let whole = Ranges::one(*shape, raw.len, Content::Flash(on_flash));
        return Ok(whole.list);
    }
    let mut list = segments(&mut view, &scan, shape, hints, &marks);
    drop(view);
    for range in &mut list {
        let at = shape.raw(range.part.at);
        range.part = Part {
            at,
            len: shape.raw(range.part.end()) - at,
        };
    }
    // A part of a page at the end.
    if let Some(last) = list.last_mut() {
        last.part.len = raw.len - last.part.at;
    }
    Ok(list)
}

impl Ranges {
    fn one(shape: Shape, len: u64, content: Content) -> Self {
        let part = Part { at: 0, len };
        let name = content.format().to_lowercase();
        let list = vec![Range {
            name,
            part,
            content,
        }];
        Self { shape, list }
    }

    /// Names each range after its format; those that share a format, after their place too.
    fn name(&mut self) {
        let formats: Vec<String> = self
            .list
            .iter()
            .map(|range| slug(range.content.format()))
            .collect();
        for (range, format) in self.list.iter_mut().zip(&formats) {
            let same = formats.iter().filter(|other| *other == format).count();
            range.name = match same {
                1 if !range.content.is_filler() => format.clone(),
                _ => format!("{format}@{:#x}", range.part.at),
            };
        }
    }

    /// The ranges that can be read.
    pub fn read(&self) -> impl Iterator<Item = &Range> {
        self.list.iter().filter(|range| range.content.is_read())
    }

    /// Calls the range that begins where a partition does by the partition's name, and lets it end
    /// where the partition ends if nothing else begins in it.
    pub fn call(&mut self, part: Part, name: &str) {
        let inside = |range: &Range| range.part.at > part.at && range.part.at < part.end();
        let others = self.list.iter().filter(|range| inside(range));
        let alone = others.clone().all(|range| range.content.is_filler());
        let Some(first) = self.list.iter().position(|range| range.part.at == part.at) else {
            return;
        };
        self.list[first].name = name.into();
        if alone {
            self.list[first].part.len = part.len;
            self.list.retain(|range| !inside(range));
        }
    }

    /// The range of that name.
    pub fn named(&self, name: &str) -> Option<&Range> {
        self.list.iter().find(|range| range.name == name)
    }
}

/// A format's name as a word that a shell takes as it is.
fn slug(name: &str) -> String {
    let letters = name.chars().map(|letter| match letter {
        letter if letter.is_ascii_alphanumeric() => letter.to_ascii_lowercase(),
        _ => '-',
    });
    let dashed: String = letters.collect();
    let words: Vec<&str> = dashed.split('-').filter(|word| !word.is_empty()).collect();
    words.join("-")
}

/// Something that begins at a byte.
struct Start {
    from: u64,
    to: Option<u64>,
    content: Content,
}

/// Cuts data into ranges.
struct Cutter<'a> {
    data: &'a mut dyn Backing,
    scan: &'a Scan,
    shape: &'a Shape,
    hints: &'a Hints,
    marks: &'a [u64],
    /// Everything before is cut.
    at: u64,
    list: Vec<Range>,
    /// The next place in the scan's `others`, and the format that begins there.
    next: usize,
    other: Option<Start>,
}

fn segments(
    data: &mut dyn Backing,
    scan: &Scan,
    shape: &Shape,
    hints: &Hints,
    marks: &[u64],
) -> Vec<Range> {
    let mut cutter = Cutter {
        data,
        scan,
        shape,
        hints,
        marks,
        at: 0,
        list: Vec::new(),
        next: 0,
        other: None,
    };
    while let Some(start) = cutter.start() {
        cutter.take(start);
    }
    cutter.fill_to(scan.len);
    cutter.absorb();
    cutter.list
}

impl Cutter<'_> {
    /// The next thing that begins behind what is cut.
    fn start(&mut self) -> Option<Start> {
        let other = self.other();
        let counter = self.counter();
        let node = self.node();
        let flash = [counter, node].into_iter().flatten().min();
        let flash = flash.filter(|at| other.is_none_or(|other| *at <= other));
        match flash {
            Some(at) if Some(at) == counter => self.ubi(at).or_else(|| self.taken_other()),
            Some(at) => self.jffs2(at).or_else(|| self.taken_other()),
            None => self.taken_other(),
        }
    }

    fn taken_other(&mut self) -> Option<Start> {
        self.other();
        self.other.take()
    }

    /// Where the next known format begins.
    fn other(&mut self) -> Option<u64> {
        if self
            .other
            .as_ref()
            .is_some_and(|start| start.from < self.at)
        {
            self.other = None;
        }
        while self.other.is_none() {
            let at = *self.scan.others.get(self.next)?;
            self.next += 1;
            if at >= self.at {
                self.other = self.known(at);
            }
        }
        self.other.as_ref().map(|start| start.from)
    }

    /// The format that begins at a byte, if one does.
    fn known(&mut self, at: u64) -> Option<Start> {
        let rest = self.data.len() - at;
        let mut head = vec![0; (HEAD_BYTES as u64).min(rest) as usize];
        self.data.read_at(at, &mut head).ok()?;
        if let Some((kind, len)) = proven(&head)
            && (at == 0 || len <= rest)
        {
            return Some(Start {
                from: at,
                to: Some(at + len.min(rest)),
                content: Content::Disk(kind),
            });
        }
        let known = known::recognise(self.data, at)?;
        let aligned = at.is_multiple_of(4096);
        (known.proven || aligned).then(|| Start {
            from: at,
            to: known.len.map(|len| at + len.min(rest)),
            content: Content::Known(known),
        })
    }

    /// The next header of a UBI block at the beginning of a page.
    fn counter(&self) -> Option<u64> {
        let from = self.scan.counters.partition_point(|one| one.at < self.at);
        let mut rest = self.scan.counters[from..].iter();
        rest.find(|one| one.at.is_multiple_of(512))
            .map(|one| one.at)
    }

    fn ubi(&mut self, at: u64) -> Option<Start> {
        let first = self.scan.counters.partition_point(|one| one.at < at);
        let found = flash::ubi(
            self.data,
            &self.scan.counters[first..],
            self.shape,
            self.hints,
        );
        let (on_flash, _) = found?;
        Some(self.on_flash(on_flash))
    }

    fn on_flash(&self, on_flash: OnFlash) -> Start {
        Start {
            from: on_flash.from,
            to: Some(on_flash.to),
            content: Content::Flash(on_flash),
        }
    }

    /// Where the next JFFS2 node begins.
    fn node(&self) -> Option<u64> {
        let mut extents = self.scan.jffs2.iter();
        extents
            .find(|one| one.to > self.at)
            .map(|one| one.from.max(self.at))
    }

    fn jffs2(&mut self, at: u64) -> Option<Start> {
        let first = self.scan.jffs2.iter().position(|one| one.to > self.at)?;
        let endian = self.scan.jffs2[first].endian;
        let mut end = self.scan.jffs2[first].to;
        let mut extents = Vec::new();
        for one in &self.scan.jffs2[first..] {
            let foreign = self.foreign_between(end, one.from);
            if one.endian != endian {
                continue;
            }
            if foreign {
                break;
            }
            end = end.max(one.to);
            extents.push(*one);
        }
        extents[0].from = extents[0].from.max(at);
        let found = flash::jffs2(self.data, &extents, self.marks, self.shape, self.hints);
        let Some(mut on_flash) = found else {
            // Headers by accident, or in the middle of something else.
            return self.skip(at, end);
        };
        // The block of the first node, unless something else lies there.
        let from = on_flash.from / on_flash.block * on_flash.block;
        on_flash.from = from.max(self.at);
        let base = on_flash.from;
        on_flash.to = base + (end - base).next_multiple_of(on_flash.block);
        on_flash.to = on_flash.to.min(self.data.len());
        Some(self.on_flash(on_flash))
    }

    /// Whether UBI or a known format begins between two places.
    fn foreign_between(&mut self, from: u64, to: u64) -> bool {
        if from >= to {
            return false;
        }
        let counters = &self.scan.counters;
        let next = counters.partition_point(|one| one.at < from);
        let ubi = counters
            .get(next)
            .is_some_and(|one| one.at < to && one.at.is_multiple_of(512));
        let first = self.scan.others.partition_point(|at| *at < from);
        let places: Vec<u64> = self.scan.others[first..]
            .iter()
            .copied()
            .take_while(|at| *at < to)
            .collect();
        ubi || places.into_iter().any(|at| self.known(at).is_some())
    }

    fn skip(&mut self, from: u64, to: u64) -> Option<Start> {
        Some(Start {
            from,
            to: Some(to),
            content: Content::Unknown,
        })
    }

    fn take(&mut self, start: Start) {
        self.fill_to(start.from);
        let known_end = start.to.filter(|to| *to > start.from);
        let end = known_end.unwrap_or_else(|| self.open_end(start.from));
        self.at = start.from;
        self.push(start.content, end);
    }

    /// Where something without a length ends: before the next thing, or before what is erased.
    fn open_end(&mut self, from: u64) -> u64 {
        let kept = std::mem::replace(&mut self.at, from + 1);
        self.other = None;
        let next = [self.other(), self.counter(), self.node()];
        let next = next.into_iter().flatten().min();
        self.at = kept;
        let limit = next.unwrap_or(self.data.len());
        let grain = self.scan.grain;
        let blank = (from / grain..limit.div_ceil(grain))
            .map(|number| number * grain)
            .find(|at| self.scan.fill(*at) != Fill::Data);
        blank.unwrap_or(limit).clamp(from + 1, limit.max(from + 1))
    }

    fn push(&mut self, content: Content, end: u64) {
        let len = end - self.at;
        if len > 0 {
            let part = Part { at: self.at, len };
            self.list.push(Range {
                name: String::new(),
                part,
                content,
            });
        }
        self.at = end;
    }

    /// Cuts what nothing begins in.
    fn fill_to(&mut self, end: u64) {
        while self.at < end {
            let grain = self.scan.grain;
            let to = ((self.at / grain + 1) * grain).min(end);
            let content = match self.filled(self.at, to) {
                Fill::Erased => Content::Erased,
                Fill::Zeros => Content::Zeros,
                Fill::Data => Content::Unknown,
            };
            let last = self.list.last_mut();
            match last.filter(|last| last.content == content && last.part.end() == self.at) {
                Some(last) => last.part.len = to - last.part.at,
                None => self.push(content, to),
            }
            self.at = to;
        }
        self.at = self.at.max(end);
    }

    /// What lies in a grain, or in a part of it.
    fn filled(&mut self, from: u64, to: u64) -> Fill {
        let known = self.scan.fill(from);
        if known != Fill::Data || to - from == self.scan.grain {
            return known;
        }
        let mut bytes = vec![0; (to - from) as usize];
        match self.data.read_at(from, &mut bytes) {
            Ok(()) => scan::fill(&bytes),
            Err(_) => known,
        }
    }

    /// Gives flash the erased blocks behind it, and those before it where nothing else comes first.
    fn absorb(&mut self) {
        let mut list: Vec<Range> = Vec::new();
        for range in std::mem::take(&mut self.list) {
            let before = list.last();
            let behind_flash = before.is_some_and(|one| matches!(one.content, Content::Flash(_)));
            match (&range.content, behind_flash) {
                (Content::Erased, true) => {
                    if let Some(flash) = list.last_mut() {
                        flash.part.len += range.part.len;
                    }
                }
                (Content::Flash(on_flash), _) if is_blank_before(&list, on_flash) => {
                    list.clear();
                    let part = Part {
                        at: 0,
                        len: range.part.end(),
                    };
                    list.push(Range { part, ..range });
                }
                _ => list.push(range),
            }
        }
        self.list = list;
    }
}

/// Whether all that lies before some flash is erased.
fn is_blank_before(list: &[Range], on_flash: &OnFlash) -> bool {
    let whole = on_flash.from.is_multiple_of(on_flash.block);
    let mut before = list.iter();
    whole && before.all(|range| range.content == Content::Erased)
}
