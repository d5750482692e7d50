//! Evidence for a shape by parity: spare bytes that agree with their data under a code.
//!
//! *Promises.* Written pages are sampled over the whole image. How unlikely an agreement is by
//! accident is counted in bits, so that few pages suffice where a code is strong. *Knows nothing
//! of* what the pages hold, except where two codes agree equally well.

use super::scan::Scan;
use super::score::{Score, Scored, WINDOW, WINDOWS, count_headers, count_nodes};
use super::shape::{Shape, named, plain_format};
use super::{EccHint, Hints, Unclear};
use crate::view::View;
use nandlab_ecc::{Code, Codec, Order, Repair};
use nandlab_mtd::ImageFormat;
use nandlab_sim::Backing;
use std::collections::BTreeSet;

/// Pages whose parity is looked at.
const PAGES: usize = 24;
/// Bits of evidence below which parity proves nothing: one chance in 2^48 for each candidate.
const PROOF_BITS: u32 = 48;
/// Zero or one bits that a step must have, so that its parity means something.
const WRITTEN_BITS: u32 = 64;
/// Strengths of BCH codes that are tried.
const STRENGTHS: [u8; 17] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 32, 40];

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
pub(super) struct Codecs(Vec<Codec>);

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

pub(super) fn by_parity(
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
    let best = found.iter().map(|(parity, _)| parity.bits).max();
    found.retain(|(parity, _)| parity.bits * 2 > best.unwrap_or(0));
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
    let mut seen = BTreeSet::new();
    for cells in pages {
        let (data, spare) = cells.split_at(format.page as usize);
        let ecc: Vec<u8> = places.iter().map(|at| spare[*at]).collect();
        sum.pages += 1;
        if let Some(bits) = page_bits(codec, data, &ecc, &mut seen) {
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

/// Bits of evidence of a page; `None` if a step is beyond correction. What was seen before, such as
/// bytes that fill pages, is no further evidence.
fn page_bits(codec: &Codec, data: &[u8], ecc: &[u8], seen: &mut BTreeSet<Vec<u8>>) -> Option<u32> {
    let code = codec.code();
    let mut bits = 0;
    let steps = data.chunks_exact(code.step());
    for (step, parity) in steps.zip(ecc.chunks_exact(code.parity())) {
        let mut copy = step.to_vec();
        let mut stored = parity.to_vec();
        let flips = match codec.correct(&mut copy, &mut stored) {
            Repair::Sound => 0,
            Repair::Corrected { bits } => u32::from(bits),
            Repair::Failed => return None,
        };
        let counts = is_written(step) && parity.iter().any(|byte| *byte != 0xFF);
        if counts && seen.insert([step, parity].concat()) {
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
        // As many bits as the field has for each bit that is corrected.
        Code::Bch { step, strength } => {
            let order = (1 + 8 * u32::from(step)).ilog2() + 1;
            order * u32::from(strength)
        }
    };
    let patterns = (0..flips).map(|flip| f64::from(places - flip) / f64::from(flip + 1));
    let patterns: f64 = patterns.map(f64::log2).sum();
    parity.saturating_sub(patterns.ceil() as u32)
}
