//! How a dump is cut into pages, and which error correction its spare bytes hold.
//!
//! *Promises.* The answer rests on evidence: parity bytes that agree with their data, nodes and
//! headers whose checksums are right, block marks in spare bytes. Two candidates with nearly the
//! same evidence are an error that names both and the option that decides. Hints narrow the search.
//! The whole image is sampled, not its beginning. *Knows nothing of* what the structures hold.

use super::scan::{Fill, Magic, Scan};
use super::{EccHint, Hints, Unclear};
use crate::view::View;
use nandlab_ecc::{Code, Codec, Order};
use nandlab_jffs2::{Endian, What, survey};
use nandlab_mtd::{ImageFormat, Layout};
use nandlab_sim::Backing;
use nandlab_ubi::format::{EcHeader, HEADER_BYTES, Parsed, VidHeader};

/// Pages with spare bytes that chips have: page, spare.
const SPARES: [(u32, u32); 14] = [
    (2048, 64),
    (512, 16),
    (4096, 128),
    (4096, 224),
    (4096, 256),
    (2048, 128),
    (2048, 112),
    (4096, 218),
    (8192, 256),
    (8192, 448),
    (8192, 512),
    (8192, 640),
    (8192, 744),
    (16_384, 1216),
];
/// Pages whose parity is looked at.
const PAGES: usize = 24;
/// Places in the image at which structures are looked at, and bytes of each.
const WINDOWS: usize = 8;
const WINDOW: u64 = 64 << 10;
/// Evidence with which a candidate needs no parity.
const CLEAR: f64 = 4.0;
/// Bits of evidence below which parity proves nothing: one chance in 2^48 for each candidate.
const PROOF_BITS: u32 = 48;
/// Zero or one bits that a step must have, so that its parity means something.
const WRITTEN_BITS: u32 = 64;
/// Strengths of BCH codes that are tried.
const STRENGTHS: [u8; 17] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 32, 40];

/// How an image is cut into pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Data bytes of a page; 0 where an image without spare bytes does not say.
    pub page: u32,
    /// Spare bytes behind each page.
    pub oob: u32,
    /// The code whose parity the spare bytes hold.
    pub ecc: Option<Code>,
    /// Who owns which spare bytes.
    pub layout: Layout,
}

impl Shape {
    /// Data only.
    pub const PLAIN: Self = Self {
        page: 0,
        oob: 0,
        ecc: None,
        layout: Layout::Raw,
    };

    /// The format of an image of this shape.
    pub fn format(&self, pages_per_block: u32) -> ImageFormat {
        ImageFormat {
            page: self.page,
            oob: self.oob,
            pages_per_block,
            layout: self.layout,
            ecc: self.ecc,
        }
    }

    /// Bytes of the image that a page takes.
    pub fn stride(&self) -> u64 {
        u64::from(self.page) + u64::from(self.oob)
    }

    /// Where a byte of the data lies in the image.
    pub fn raw(&self, at: u64) -> u64 {
        match (self.page, self.oob) {
            (0, _) | (_, 0) => at,
            (page, _) => at / u64::from(page) * self.stride() + at % u64::from(page),
        }
    }

    /// Which byte of the data a byte of the image is, or the first behind it.
    pub fn data(&self, at: u64) -> u64 {
        match (self.page, self.oob) {
            (0, _) | (_, 0) => at,
            (page, _) => {
                let within = (at % self.stride()).min(page.into());
                at / self.stride() * u64::from(page) + within
            }
        }
    }

    fn words(&self) -> String {
        match self.oob {
            0 => "data without spare bytes (--oob 0)".into(),
            oob => format!(
                "pages of {} + {oob} bytes (--page {} --oob {oob})",
                self.page, self.page
            ),
        }
    }
}

/// Finds the shape of an image of flash.
pub fn shape(image: &mut dyn Backing, scan: &Scan, hints: &Hints) -> Result<Shape, Unclear> {
    let pairs = pairs(hints);
    let scored = scores(image, scan, &pairs, hints);
    let mut codecs = Codecs::default();
    match clear(&scored, hints) {
        Some(shape) if shape.oob == 0 => return Ok(shape),
        Some(shape) => {
            let pair = [(shape.page, shape.oob)];
            let found = by_parity(image, scan, &pair, hints, &mut codecs)?;
            return Ok(found.unwrap_or(shape));
        }
        None => {}
    }
    match by_parity(image, scan, &pairs, hints, &mut codecs)? {
        Some(shape) => Ok(shape),
        None => decide(scan.len, &scored, hints),
    }
}

/// The pages with spare bytes that are tried.
fn pairs(hints: &Hints) -> Vec<(u32, u32)> {
    let told = hints.page.zip(hints.oob);
    let told = told.filter(|(page, oob)| {
        page.is_power_of_two() && (256..=65_536).contains(page) && *oob > 0 && oob <= page
    });
    let table = SPARES.iter().copied();
    let mut pairs: Vec<_> = table.chain(told).collect();
    pairs.retain(|(page, oob)| {
        hints.page.is_none_or(|hint| hint == *page) && hints.oob.is_none_or(|hint| hint == *oob)
    });
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// The codes that fit pages of a shape, with the layout that Linux has for each.
fn codes((page, oob): (u32, u32), hints: &Hints) -> Vec<(Code, ImageFormat)> {
    let hamming = [256, 512].into_iter().flat_map(|step| {
        [Order::Linux, Order::SmartMedia].map(|order| Code::Hamming { step, order })
    });
    let bch = [512, 1024]
        .into_iter()
        .flat_map(|step| STRENGTHS.map(|strength| Code::Bch { step, strength }));
    let all: Vec<Code> = match hints.ecc {
        Some(EccHint::None) => Vec::new(),
        Some(EccHint::Code(code)) => vec![code],
        None => hamming.chain(bch).collect(),
    };
    let formats = all.into_iter().filter_map(|code| {
        let mut format = match hints.layout {
            None => ImageFormat::linux(page, oob, 1, Some(code)).ok()?,
            Some(_) => plain_format(page, oob),
        };
        format.ecc = Some(code);
        format.layout = hints.layout.unwrap_or(format.layout);
        let wanted = code.page_parity(page as usize)?;
        let layout = format.layout.on(page, oob).ok()?;
        (layout.ecc().count() >= wanted).then_some((code, format))
    });
    formats.collect()
}

/// Pages with spare bytes that hold no known code. All layouts without one fit.
pub(crate) fn plain_format(page: u32, oob: u32) -> ImageFormat {
    ImageFormat::linux(page, oob, 1, None).unwrap_or(ImageFormat {
        page,
        oob,
        pages_per_block: 1,
        layout: Layout::MarkerOnly,
        ecc: None,
    })
}

/// Evidence of one candidate.
#[derive(Clone, Copy, Debug, Default)]
struct Parity {
    /// Pages that were looked at.
    pages: u32,
    /// Pages all of whose steps agree or can be corrected.
    right: u32,
    /// Chances against an accident, as a power of two.
    bits: u32,
}

impl Parity {
    fn proves(&self) -> bool {
        self.bits >= PROOF_BITS && self.right * 2 >= self.pages
    }
}

/// Codes with their tables, which take some time to build.
#[derive(Default)]
struct Codecs(Vec<Codec>);

impl Codecs {
    fn get(&mut self, code: Code) -> Option<&Codec> {
        let known = self.0.iter().position(|codec| codec.code() == code);
        let at = match known {
            Some(at) => at,
            None => {
                self.0.push(Codec::new(code).ok()?);
                self.0.len() - 1
            }
        };
        self.0.get(at)
    }
}

fn by_parity(
    image: &mut dyn Backing,
    scan: &Scan,
    pairs: &[(u32, u32)],
    hints: &Hints,
    codecs: &mut Codecs,
) -> Result<Option<Shape>, Unclear> {
    let mut found: Vec<(Parity, Shape)> = Vec::new();
    for pair in pairs {
        let pages = sample(image, scan, *pair);
        for (code, format) in codes(*pair, hints) {
            let Some(codec) = codecs.get(code) else {
                continue;
            };
            let parity = parity(codec, &format, &pages);
            if parity.proves() {
                let shape = Shape {
                    page: pair.0,
                    oob: pair.1,
                    ecc: Some(code),
                    layout: format.layout,
                };
                found.push((parity, shape));
            }
        }
    }
    found.sort_by_key(|(parity, _)| std::cmp::Reverse((parity.right, parity.bits)));
    let best = found.first().map_or(0, |(parity, _)| parity.right);
    found.retain(|(parity, _)| parity.right * 10 > best * 9);
    let shapes: Vec<Shape> = found.into_iter().map(|(_, shape)| shape).collect();
    match shapes[..] {
        [] => Ok(None),
        [shape] => Ok(Some(shape)),
        _ => by_correction(image, scan, &shapes).map(Some),
    }
}

/// Of codes whose parity agrees equally well, the one with which most structures are whole after
/// correction. The two byte orders of the Hamming code differ in nothing else where every step has
/// a flipped bit.
fn by_correction(image: &mut dyn Backing, scan: &Scan, shapes: &[Shape]) -> Result<Shape, Unclear> {
    let windows = scan.spread(WINDOWS);
    let mut scored: Vec<Scored> = Vec::new();
    for shape in shapes {
        let mut score = Score::default();
        for at in &windows {
            let data = corrected_at(image, *at, shape);
            count_nodes(&data, &mut score);
            count_headers(&data, &mut score);
        }
        scored.push((score, *shape));
    }
    scored.sort_by(|a, b| b.0.worth().total_cmp(&a.0.worth()));
    match scored[..] {
        [(first, a), (second, b), ..] if second.worth() > 0.9 * first.worth() => {
            Err(Unclear::Close(named(&a), named(&b)))
        }
        _ => Ok(scored[0].1),
    }
}

/// The data of a window after correction.
fn corrected_at(image: &mut dyn Backing, at: u64, shape: &Shape) -> Vec<u8> {
    let Ok(mut view) = View::new(image, shape.format(1)) else {
        return Vec::new();
    };
    let from = shape.data(at / shape.stride() * shape.stride());
    let mut data = vec![0; WINDOW.min(view.len().saturating_sub(from)) as usize];
    match view.read_at(from, &mut data) {
        Ok(()) => data,
        Err(_) => Vec::new(),
    }
}

/// Headers of UBI in corrected data.
fn count_headers(data: &[u8], score: &mut Score) {
    for bytes in data.chunks_exact(256) {
        let header = &bytes[..HEADER_BYTES];
        let counter = header.starts_with(b"UBI#").then(|| EcHeader::parse(header));
        let volume = header
            .starts_with(b"UBI!")
            .then(|| VidHeader::parse(header, u32::MAX));
        let sound = match (counter, volume) {
            (Some(counter), _) => matches!(counter, Parsed::Good(_)),
            (_, Some(volume)) => matches!(volume, Parsed::Good(_)),
            (None, None) => continue,
        };
        match sound {
            true => score.right += 1.0,
            false => score.wrong += 3.0,
        }
    }
}

fn named(shape: &Shape) -> String {
    match shape.ecc {
        Some(code) => format!("{} with the code {code} (--ecc {code})", shape.words()),
        None => shape.words(),
    }
}

/// Written pages, with their spare bytes, spread over the image.
fn sample(image: &mut dyn Backing, scan: &Scan, (page, oob): (u32, u32)) -> Vec<Vec<u8>> {
    let stride = u64::from(page) + u64::from(oob);
    let mut numbers: Vec<u64> = scan
        .spread(PAGES * 2)
        .into_iter()
        .map(|at| at.div_ceil(stride))
        .collect();
    numbers.dedup();
    let mut pages = Vec::new();
    for number in numbers {
        let mut cells = vec![0; stride as usize];
        let read = image.read_at(number * stride, &mut cells);
        if read.is_ok() && is_written(&cells[..page as usize]) {
            pages.push(cells);
        }
        if pages.len() == PAGES {
            break;
        }
    }
    pages
}

/// Whether bytes are neither nearly erased nor nearly zero.
fn is_written(bytes: &[u8]) -> bool {
    let ones: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
    let all = bytes.len() as u32 * 8;
    (WRITTEN_BITS..=all - WRITTEN_BITS).contains(&ones)
}

fn parity(codec: &Codec, format: &ImageFormat, pages: &[Vec<u8>]) -> Parity {
    let mut sum = Parity::default();
    let Ok(layout) = format.layout.on(format.page, format.oob) else {
        return sum;
    };
    let steps = codec.code().page_parity(format.page as usize);
    let places: Vec<usize> = layout.ecc().take(steps.unwrap_or(0)).collect();
    for cells in pages {
        let (data, spare) = cells.split_at(format.page as usize);
        let ecc: Vec<u8> = places.iter().map(|at| spare[*at]).collect();
        sum.pages += 1;
        if let Some(bits) = page_bits(codec, data, &ecc) {
            sum.right += 1;
            sum.bits = sum.bits.saturating_add(bits);
        }
        // A wrong candidate shows on the first pages.
        if sum.pages >= 6 && sum.right * 3 < sum.pages {
            break;
        }
    }
    sum
}

/// Bits of evidence of a page; `None` if a step is beyond correction.
fn page_bits(codec: &Codec, data: &[u8], ecc: &[u8]) -> Option<u32> {
    let code = codec.code();
    let mut bits = 0;
    let steps = data.chunks_exact(code.step());
    for (step, parity) in steps.zip(ecc.chunks_exact(code.parity())) {
        let mut copy = step.to_vec();
        let mut stored = parity.to_vec();
        let flips = match codec.correct(&mut copy, &mut stored) {
            nandlab_ecc::Repair::Sound => 0,
            nandlab_ecc::Repair::Corrected { bits } => u32::from(bits),
            nandlab_ecc::Repair::Failed => return None,
        };
        if is_written(step) && parity.iter().any(|byte| *byte != 0xFF) {
            bits += surprise(code, flips);
        }
    }
    Some(bits)
}

/// How unlikely it is that random parity agrees with a step after so many flips, in bits.
fn surprise(code: Code, flips: u32) -> u32 {
    let places = code.step() as u32 * 8 + code.parity() as u32 * 8;
    let parity = match code {
        Code::Hamming { .. } => 22,
        Code::Bch { .. } => code.parity() as u32 * 8,
    };
    let patterns = (0..flips).map(|flip| f64::from(places - flip) / f64::from(flip + 1));
    let patterns: f64 = patterns.map(f64::log2).sum();
    parity.saturating_sub(patterns.ceil() as u32)
}

/// What speaks for a candidate besides parity.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
struct Score {
    /// Structures that are whole, or lie where they should.
    right: f64,
    /// Structures that are broken, or are missing where they should lie.
    wrong: f64,
    /// Bytes of whole structures, of those that were looked at and are not erased.
    covered: u64,
    looked_at: u64,
}

impl Score {
    fn worth(&self) -> f64 {
        self.right - self.wrong
    }

    /// Whether whole structures make up most of the data. In a dump with flipped bits they do not,
    /// before these are corrected.
    fn explains(&self) -> bool {
        self.covered * 2 >= self.looked_at
    }
}

/// A candidate with the evidence for it.
type Scored = (Score, Shape);

/// Each candidate with the evidence for it, the best first.
fn scores(
    image: &mut dyn Backing,
    scan: &Scan,
    pairs: &[(u32, u32)],
    hints: &Hints,
) -> Vec<Scored> {
    let plain = Shape {
        page: hints.page.unwrap_or(0),
        ..Shape::PLAIN
    };
    let with_spare = pairs.iter().map(|(page, oob)| {
        let format = plain_format(*page, *oob);
        Shape {
            page: *page,
            oob: *oob,
            ecc: None,
            layout: hints.layout.unwrap_or(format.layout),
        }
    });
    let without = std::iter::once(plain).filter(|_| hints.oob.unwrap_or(0) == 0);
    let windows = windows(scan);
    let all = without.chain(with_spare);
    let mut scored: Vec<Scored> = all
        .map(|shape| (score(image, scan, &shape, &windows), shape))
        .collect();
    // Stable: of equals, data without spare bytes come first.
    scored.sort_by(|a, b| b.0.worth().total_cmp(&a.0.worth()));
    scored
}

/// The candidate that explains the image and that no other comes near.
fn clear(scored: &[Scored], hints: &Hints) -> Option<Shape> {
    match scored {
        [(score, shape)] if shape.oob > 0 || hints.oob.is_some() || score.explains() => {
            Some(*shape)
        }
        [(first, shape), (second, _), ..]
            if first.worth() >= CLEAR
                && second.worth() <= 0.9 * first.worth()
                && first.explains() =>
        {
            Some(*shape)
        }
        _ => None,
    }
}

/// Decides where neither parity nor structures alone do.
fn decide(len: u64, scored: &[Scored], hints: &Hints) -> Result<Shape, Unclear> {
    let worth = |at: usize| scored.get(at).map_or(0.0, |(score, _)| score.worth());
    match scored {
        [(_, a), (_, b), ..] if worth(0) > 0.0 && worth(1) > 0.9 * worth(0) => {
            decide_by_length(len, *a, *b)
        }
        [(_, shape), ..] if worth(0) > 0.0 => Ok(*shape),
        // Nothing of flash in it.
        _ if hints.oob.unwrap_or(0) == 0 => Ok(Shape {
            page: hints.page.unwrap_or(0),
            ..Shape::PLAIN
        }),
        _ => Err(Unclear::Nothing),
    }
}

/// Of two candidates the one that the length of the image fits, if it fits only one.
fn decide_by_length(len: u64, a: Shape, b: Shape) -> Result<Shape, Unclear> {
    let fits = |shape: &Shape| match shape.oob {
        0 => len.is_multiple_of(4096),
        _ => len.is_multiple_of(shape.stride()),
    };
    match (fits(&a), fits(&b)) {
        (true, false) => Ok(a),
        (false, true) => Ok(b),
        _ => Err(Unclear::Close(a.words(), b.words())),
    }
}

/// Places at which structures begin, spread over the image.
fn windows(scan: &Scan) -> Vec<u64> {
    let pieces = scan.jffs2.iter().flat_map(|extent| {
        let step = ((extent.to - extent.from) / WINDOWS as u64).max(WINDOW);
        (extent.from..extent.to).step_by(step as usize)
    });
    let all: Vec<u64> = pieces.collect();
    let step = all.len().div_ceil(WINDOWS).max(1);
    all.into_iter().step_by(step).collect()
}

fn score(image: &mut dyn Backing, scan: &Scan, shape: &Shape, windows: &[u64]) -> Score {
    let mut score = Score::default();
    for at in windows {
        nodes(image, *at, shape, &mut score);
    }
    counters(image, scan, shape, &mut score);
    markers(scan, shape, &mut score);
    layers(image, scan, shape, &mut score);
    score
}

/// JFFS2 nodes: with the wrong spare bytes those that cross the end of a page are broken.
fn nodes(image: &mut dyn Backing, at: u64, shape: &Shape, score: &mut Score) {
    let data = data_at(image, at, shape);
    count_nodes(&data, score);
}

fn count_nodes(data: &[u8], score: &mut Score) {
    let written = data.iter().filter(|byte| **byte != 0xFF).count();
    score.looked_at += written as u64;
    for endian in [Endian::Little, Endian::Big] {
        for seen in survey(endian, data) {
            match seen.what {
                What::Inode { .. } | What::Name { .. } if seen.sound => score.right += 1.0,
                _ if seen.sound => {}
                _ => score.wrong += 3.0,
            }
            if seen.sound {
                score.covered += seen.len as u64;
            }
        }
    }
}

/// The data of a window, cut as the shape says.
fn data_at(image: &mut dyn Backing, at: u64, shape: &Shape) -> Vec<u8> {
    let from = match shape.oob {
        0 => at / 512 * 512,
        _ => at / shape.stride() * shape.stride(),
    };
    let len = WINDOW.min(image.len().saturating_sub(from));
    let mut raw = vec![0; len as usize];
    if image.read_at(from, &mut raw).is_err() {
        return Vec::new();
    }
    if shape.oob == 0 {
        return raw;
    }
    let pages = raw.chunks_exact(shape.stride() as usize);
    pages
        .flat_map(|cells| &cells[..shape.page as usize])
        .copied()
        .collect()
}

/// UBI's headers at the beginnings of pages and blocks.
fn counters(image: &mut dyn Backing, scan: &Scan, shape: &Shape, score: &mut Score) {
    const LOOKED_AT: usize = 256;
    let step = scan.counters.len().div_ceil(LOOKED_AT).max(1);
    for one in scan.counters.iter().step_by(step) {
        let at_page = match shape.oob {
            0 => one.at.is_multiple_of(512),
            _ => one.at.is_multiple_of(shape.stride()),
        };
        let vid = u64::from(one.header.vid_offset);
        let place = shape.raw(shape.data(one.at).saturating_add(vid));
        match volume_header(image, place) {
            _ if !at_page => score.wrong += 1.0,
            Some(true) => score.right += 1.0,
            // A free block has an erased place there.
            Some(false) => score.right += 0.1,
            None => score.wrong += 0.5,
        }
    }
    let Some(block) = super::distance(scan.counters.iter().map(|one| one.at)) else {
        return;
    };
    if !fits_blocks(block, shape) {
        score.wrong += scan.counters.len() as f64;
    }
    let data = scan.fills.iter().filter(|fill| **fill == Fill::Data);
    let data = data.count() as u64 * scan.grain;
    score.looked_at += data;
    score.covered += (scan.counters.len() as u64).saturating_mul(block).min(data);
}

/// Whether a volume header lies at a place, or nothing does; `None` for anything else.
fn volume_header(image: &mut dyn Backing, at: u64) -> Option<bool> {
    let mut bytes = [0; HEADER_BYTES];
    image.read_at(at, &mut bytes).ok()?;
    match VidHeader::parse(&bytes, u32::MAX) {
        Parsed::Good(_) => Some(true),
        Parsed::Empty => Some(false),
        Parsed::Damaged(_) | Parsed::Refused(_) => None,
    }
}

/// Whether the distance between headers is a block of whole pages, as many as a power of two.
fn fits_blocks(distance: u64, shape: &Shape) -> bool {
    match shape.oob {
        0 => distance.is_power_of_two(),
        _ => {
            let pages = distance / shape.stride();
            distance.is_multiple_of(shape.stride()) && pages.is_power_of_two()
        }
    }
}

/// JFFS2's marks of erased blocks in spare bytes.
fn markers(scan: &Scan, shape: &Shape, score: &mut Score) {
    if shape.oob == 0 {
        return;
    }
    let first = shape.layout.on(shape.page, shape.oob).ok();
    let Some(first) = first.and_then(|layout| layout.user().next()) else {
        return;
    };
    let place = u64::from(shape.page) + first as u64;
    let right = scan
        .markers
        .iter()
        .filter(|at| **at % shape.stride() == place)
        .count();
    score.right += right as f64;
    score.wrong += (scan.markers.len() - right) as f64 * 0.1;
}

/// Pages in which a layer names itself. Some of them state the length of a page.
fn layers(image: &mut dyn Backing, scan: &Scan, shape: &Shape, score: &mut Score) {
    const LOOKED_AT: usize = 8192;
    const STATED: f64 = 8.0;
    let step = scan.layers.len().div_ceil(LOOKED_AT).max(1);
    for (at, magic) in scan.layers.iter().step_by(step) {
        let at_page = match shape.oob {
            0 => at.is_multiple_of(512),
            _ => at.is_multiple_of(shape.stride()),
        };
        match magic {
            Magic::Nftl => {
                let right = (shape.page, shape.oob) == (512, 16) && at_page;
                score.right += f64::from(u8::from(right)) * 4.0;
            }
            _ if !at_page => score.wrong += 0.1,
            _ if states_page(image, *at, shape) => score.right += STATED,
            _ => score.right += 0.1,
        }
    }
}

/// Whether a page says that its array has pages of this shape.
fn states_page(image: &mut dyn Backing, at: u64, shape: &Shape) -> bool {
    let mut data = vec![0; shape.page as usize];
    shape.oob > 0
        && image.read_at(at, &mut data).is_ok()
        && nandlab_ftl::media::recognise(&data).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_the_data_and_in_the_image_belong_together() {
        let shape = Shape {
            page: 2048,
            oob: 64,
            ..Shape::PLAIN
        };
        for (data, raw) in [(0, 0), (2047, 2047), (2048, 2112), (5000, 5128)] {
            assert_eq!((shape.raw(data), shape.data(raw)), (raw, data));
        }
        // Spare bytes belong to the end of their page.
        assert_eq!(shape.data(2100), 2048);
        assert_eq!(Shape::PLAIN.raw(77), 77);
    }
}
