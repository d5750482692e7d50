//! What lies on flash, and how long its erase blocks are: UBI, JFFS2, NFTL and the translation
//! layers of this project.
//!
//! *Promises.* Works on the data of an image without its spare bytes. The length of an erase block
//! comes from structures that lie at its beginning or end; whether it is certain is said. *Knows
//! nothing of* how a dump is cut into pages.

use super::scan::{Counter, Extent, Magic, Scan};
use super::{FlashKind, Hints, Shape, distance};
use nandlab_ftl::media::{Layer, recognise};
use nandlab_jffs2::{Endian, What, survey};
use nandlab_sim::Backing;
use nandlab_ubi::format::{HEADER_BYTES, LAYOUT_VOLUME, Parsed, VidHeader};
use nandlab_ubi::log::VOLUMES;

/// Places of a run at which JFFS2's nodes are looked at, and bytes of each.
const WINDOWS: u64 = 16;
const WINDOW: u64 = 512 << 10;
/// An erase block of UBI of which there is one only, and no hint.
const LONE_BLOCK: u64 = 128 << 10;
/// Blocks of JFFS2 on which the kernel can work are longer.
const BLOCK_MIN: u64 = 4096;

/// A format that was detected on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnFlash {
    /// The format that lies on the flash.
    pub kind: FlashKind,
    /// Data bytes of a page.
    pub page: u32,
    /// Data bytes of an erase block.
    pub block: u64,
    /// Whether structures prove the length of the erase block.
    pub certain: bool,
    /// Where it begins in the data.
    pub from: u64,
    /// Where it ends, as far as its own structures say.
    pub to: u64,
}

/// The UBI device whose first header is `counters[0]`, and how many of the headers are its own.
pub fn ubi(
    data: &mut dyn Backing,
    counters: &[Counter],
    shape: &Shape,
    hints: &Hints,
) -> Option<(OnFlash, usize)> {
    let first = counters.first()?;
    let page = page_of(first, shape, hints);
    let (count, log) = device(data, counters);
    let own = &counters[..count];
    let given = hints.block.map(u64::from);
    let found = distance(own.iter().map(|one| one.at));
    let block = given
        .or(found)
        .unwrap_or_else(|| lone(data.len() - first.at));
    let on_flash = OnFlash {
        kind: FlashKind::Ubi {
            vid: first.header.vid_offset,
            log,
        },
        page,
        block,
        certain: given.is_some() || found.is_some(),
        from: first.at,
        to: (own[count - 1].at + block).min(data.len()),
    };
    (block >= u64::from(page) && block.is_multiple_of(page.into())).then_some((on_flash, count))
}

/// Bytes of the only block: all that there are, if that can be a block.
fn lone(rest: u64) -> u64 {
    match rest.is_power_of_two() {
        true => rest,
        false => LONE_BLOCK.min(rest.max(1).next_power_of_two()),
    }
}

/// The volume header is in the second page, or in a sub-page of the first; then the data are in the
/// second.
fn page_of(first: &Counter, shape: &Shape, hints: &Hints) -> u32 {
    if shape.oob > 0 {
        return shape.page;
    }
    let header = &first.header;
    let doubled = header.vid_offset.checked_mul(2);
    let page = match doubled == Some(header.data_offset) {
        true => header.vid_offset,
        false => header.data_offset,
    };
    let found = match page.is_power_of_two() {
        true => page.clamp(512, 16_384),
        false => 512,
    };
    hints.page.unwrap_or(found).max(1)
}

/// How many of the headers belong to the first one's device, and whether it has a log. Another
/// device has another image number, or a volume table of its own.
fn device(data: &mut dyn Backing, counters: &[Counter]) -> (usize, bool) {
    let image = counters[0].header.image_seq;
    let mut tables: Vec<(u32, u64)> = Vec::new();
    let mut log = false;
    for (index, one) in counters.iter().enumerate() {
        let seq = one.header.image_seq;
        if seq != image && seq != 0 && image != 0 {
            return (index, log);
        }
        let Some(vid) = volume_header(data, one) else {
            continue;
        };
        log |= VOLUMES.contains(&vid.volume);
        if vid.volume == LAYOUT_VOLUME && !vid.copy {
            let table = (vid.lnum, vid.sqnum);
            if tables.contains(&table) {
                return (index, log);
            }
            tables.push(table);
        }
    }
    (counters.len(), log)
}

fn volume_header(data: &mut dyn Backing, one: &Counter) -> Option<VidHeader> {
    let mut bytes = [0; HEADER_BYTES];
    let at = one.at + u64::from(one.header.vid_offset);
    data.read_at(at, &mut bytes).ok()?;
    match VidHeader::parse(&bytes, u32::MAX) {
        Parsed::Good(vid) => Some(vid),
        _ => None,
    }
}

/// What nodes of JFFS2 say about erase blocks.
#[derive(Debug, Default)]
struct Look {
    /// Nodes with contents or names that are whole.
    sound: u64,
    /// Whether blocks begin with a node that marks them as erased.
    marked: bool,
    /// Where blocks begin and end.
    edges: Vec<u64>,
    /// Where nodes begin and end.
    nodes: Vec<(u64, u64)>,
}

impl Look {
    fn at(&mut self, data: &mut dyn Backing, from: u64, to: u64, endian: Endian) {
        let len = WINDOW.min(to.min(data.len()).saturating_sub(from));
        let mut bytes = vec![0; len as usize];
        if data.read_at(from, &mut bytes).is_err() {
            return;
        }
        for seen in survey(endian, &bytes) {
            let at = from + seen.at as u64;
            let end = at + seen.len as u64;
            match seen.what {
                What::CleanMarker => {
                    self.marked = true;
                    self.edges.push(at);
                }
                What::Summary => self.edges.push(end.next_multiple_of(4)),
                What::Inode { .. } | What::Name { .. } => {
                    self.sound += u64::from(seen.sound);
                }
                _ => {}
            }
            self.nodes.push((at, end));
        }
    }

    fn crosses(&self, block: u64) -> bool {
        self.nodes
            .iter()
            .any(|(from, to)| from / block != (to - 1) / block)
    }
}

/// The JFFS2 whose first nodes are `extents[0]`. All the extents are its own. `markers` are the
/// blocks that bear marks in their spare bytes.
pub fn jffs2(
    data: &mut dyn Backing,
    extents: &[Extent],
    markers: &[u64],
    shape: &Shape,
    hints: &Hints,
) -> Option<OnFlash> {
    let first = extents.first()?;
    let last = extents.last()?;
    let mut look = Look::default();
    for at in looked_at(extents) {
        look.at(data, at, last.to, first.endian);
    }
    let known = look.sound > 0 || look.marked;
    look.edges.extend(markers);
    look.edges.sort_unstable();
    look.edges.dedup();
    let (block, certain) = match hints.block {
        Some(block) => (u64::from(block), true),
        None => block_of(&look, last.to, data.len()),
    };
    let page = match shape.oob {
        0 => hints.page.unwrap_or(256).max(1),
        _ => shape.page,
    };
    let on_flash = OnFlash {
        kind: FlashKind::Jffs2 {
            endian: first.endian,
            markers: look.marked,
        },
        page,
        block: block.max(page.into()),
        certain,
        from: first.from,
        to: last.to,
    };
    known.then_some(on_flash)
}

/// Places in a run, spread over it.
fn looked_at(extents: &[Extent]) -> Vec<u64> {
    let bytes: u64 = extents.iter().map(|one| one.to - one.from).sum();
    let step = (bytes / WINDOWS).max(WINDOW);
    let places = extents
        .iter()
        .flat_map(|one| (one.from..one.to).step_by(step as usize));
    let all: Vec<u64> = places.collect();
    let every = (all.len() as u64).div_ceil(WINDOWS * 2).max(1);
    all.into_iter().step_by(every as usize).collect()
}

/// The erase block, and whether it is certain. Marks and summaries lie at its edges. Without them
/// it is a length that no node crosses: the smallest that holds the data if there is one block
/// only, and otherwise the largest up to 128 KiB.
fn block_of(look: &Look, end: u64, len: u64) -> (u64, bool) {
    let step = distance(look.edges.iter().copied());
    let step = step.map(|step| 1 << step.trailing_zeros().min(22));
    if let Some(step) = step.filter(|step| *step >= BLOCK_MIN && !look.crosses(*step)) {
        return (step, true);
    }
    let fits = |block: &u64| !look.crosses(*block) && (len.is_multiple_of(*block) || len < *block);
    // Of a medium with marks the second block would have one.
    let sizes = (13..=22).map(|shift| 1u64 << shift);
    if look.marked
        && let Some(block) = sizes.clone().find(|block| *block >= end && fits(block))
    {
        return (block, true);
    }
    let largest = (13..=17).rev().map(|shift| 1u64 << shift).find(fits);
    (largest.unwrap_or(64 << 10), false)
}

/// Linux's NFTL begins with its name in a block of pages of 512 bytes with 16 spare ones. Each unit
/// has its mark in the spare bytes of its second page (`struct nftl_uci1`,
/// include/uapi/mtd/nftl-user.h).
pub fn nftl(image: &mut dyn Backing, scan: &Scan, hints: &Hints) -> Option<u64> {
    const STRIDE: u64 = 528;
    const MARK_AT: u64 = 524;
    const MARK: [u8; 4] = [0x69, 0x3C, 0x69, 0x3C];
    const LOOKED_AT: u64 = 32_768;
    let is_header =
        |(at, magic): &&(u64, Magic)| *magic == Magic::Nftl && at.is_multiple_of(STRIDE);
    let (at, _) = scan.layers.iter().find(is_header)?;
    if let Some(block) = hints.block {
        return Some(u64::from(block));
    }
    let first = at / STRIDE;
    let mut marked = Vec::new();
    for number in (first..scan.len / STRIDE).take(LOOKED_AT as usize) {
        let mut mark = [0; 4];
        if image.read_at(number * STRIDE + MARK_AT, &mut mark).is_ok() && mark == MARK {
            marked.push(number);
        }
    }
    let step = distance(marked.into_iter()).map_or(32, |step| 1 << step.trailing_zeros().min(9));
    Some(512 * if step >= 4 { step } else { 32 })
}

/// UBIL without headers: its super blocks and anchors say how many blocks there are, and how long
/// blocks and pages are. Gives page, spare bytes and block.
pub fn ubil(image: &mut dyn Backing, scan: &Scan) -> Option<(u32, u32, u32)> {
    let supers = scan
        .layers
        .iter()
        .filter(|(_, magic)| *magic == Magic::LogSuper);
    let anchors = scan
        .layers
        .iter()
        .filter(|(_, magic)| *magic == Magic::LogAnchor);
    let places = supers
        .map(|(at, _)| at + 32)
        .chain(anchors.map(|(at, _)| at + 16));
    for at in places {
        let mut fields = [0; 20];
        if image.read_at(at, &mut fields).is_err() {
            continue;
        }
        let field = |at: usize| {
            let word = fields[at..].first_chunk().copied();
            u32::from_be_bytes(word.unwrap_or_default())
        };
        let blocks = field(0);
        let block = field(4);
        let page = field(8);
        let pages = u64::from(blocks) * u64::from(block.checked_div(page).unwrap_or(0));
        let whole = page > 0 && block.is_multiple_of(page) && pages > 0 && field(16) == 0;
        if !whole || !scan.len.is_multiple_of(pages) {
            continue;
        }
        let spare = (scan.len / pages).checked_sub(u64::from(page));
        if let Some(oob) = spare.and_then(|spare| u32::try_from(spare).ok()) {
            return Some((page, oob, block));
        }
    }
    None
}

/// The translation layer of this project that names itself in a page.
pub fn layered(data: &mut dyn Backing, scan: &Scan, shape: &Shape) -> Option<OnFlash> {
    let mut page = vec![0; shape.page as usize];
    for (at, _) in &scan.layers {
        let whole = at.is_multiple_of(shape.page.into()) && data.read_at(*at, &mut page).is_ok();
        let Some(medium) = whole.then(|| recognise(&page)).flatten() else {
            continue;
        };
        let kind = match medium.layer {
            Layer::PageMap => FlashKind::PageMap,
            Layer::LogBlock(_) => FlashKind::LogBlock,
        };
        let block = u64::from(medium.page) * u64::from(medium.pages_per_block);
        return Some(OnFlash {
            kind,
            page: medium.page,
            block,
            certain: true,
            from: 0,
            to: data.len(),
        });
    }
    None
}
