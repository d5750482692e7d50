//! Finds the shape of an image of flash.
//!
//! *Promises.* The answer rests on evidence: parity bytes that agree with their data, structures
//! whose checksums are right, block marks in spare bytes. Two candidates with nearly the same
//! evidence are an error that names both and the option that decides. Hints narrow the search.

use super::parity::{Codecs, by_parity};
use super::scan::Scan;
use super::score::{Scored, score, windows};
use super::shape::{Shape, named, plain_format};
use super::{Hints, Unclear};
use nandlab_sim::Backing;

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
/// Evidence with which a candidate needs no parity.
const CLEAR: f64 = 4.0;

/// Finds the shape of an image of flash.
pub fn shape(image: &mut dyn Backing, scan: &Scan, hints: &Hints) -> Result<Shape, Unclear> {
    let pairs = pairs(hints);
    let scored = scores(image, scan, &pairs, hints);
    let mut codecs = Codecs::default();
    match clear(&scored, hints).filter(|shape| !is_odd(shape, scan.len, hints)) {
        Some(shape) if shape.oob == 0 => return Ok(shape),
        Some(shape) => {
            let pair = [(shape.page, shape.oob)];
            let found = by_parity(image, scan, &pair, hints, &mut codecs)?;
            return Ok(found.unwrap_or(shape));
        }
        None => {}
    }
    match by_parity(image, scan, &pairs, hints, &mut codecs)? {
        Some(shape) if is_odd(&shape, scan.len, hints) => or_plain(shape, &scored),
        Some(shape) => Ok(shape),
        None => decide(scan.len, &scored, hints),
    }
}

/// Parity of a dump that ends within a page, unless structures speak for data without spare bytes.
fn or_plain(shape: Shape, scored: &[Scored]) -> Result<Shape, Unclear> {
    match plain(scored).filter(|(score, _)| score.worth() > 0.0) {
        Some((_, plain)) => Err(Unclear::Close(named(&shape), plain.words())),
        None => Ok(shape),
    }
}

/// The candidate without spare bytes.
fn plain(scored: &[Scored]) -> Option<&Scored> {
    scored.iter().find(|(_, shape)| shape.oob == 0)
}

/// The pages with spare bytes that are tried.
fn pairs(hints: &Hints) -> Vec<(u32, u32)> {
    let given = hints.page.zip(hints.oob);
    let given = given.filter(|(page, oob)| {
        page.is_power_of_two() && (256..=65_536).contains(page) && *oob > 0 && oob <= page
    });
    let table = SPARES.iter().copied();
    let mut pairs: Vec<_> = table.chain(given).collect();
    pairs.retain(|(page, oob)| {
        hints.page.is_none_or(|hint| hint == *page) && hints.oob.is_none_or(|hint| hint == *oob)
    });
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

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
    let with_spare = pairs
        .iter()
        .map(|(page, oob)| spare_shape(*page, *oob, hints));
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

fn spare_shape(page: u32, oob: u32, hints: &Hints) -> Shape {
    let format = plain_format(page, oob);
    Shape {
        page,
        oob,
        ecc: None,
        layout: hints.layout.unwrap_or(format.layout),
    }
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
        [(_, shape), ..] if worth(0) > 0.0 && is_odd(shape, len, hints) => {
            let plain = plain(scored).map_or(Shape::PLAIN, |(_, plain)| *plain);
            decide_by_length(len, *shape, plain)
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

/// Whether the image would end within a page, and nobody says that the pages are such: damage can
/// look like spare bytes.
fn is_odd(shape: &Shape, len: u64, hints: &Hints) -> bool {
    shape.oob > 0 && hints.oob.is_none() && !shape.fits(len)
}

/// Of two candidates the one that the length of the image fits, if it fits only one.
fn decide_by_length(len: u64, a: Shape, b: Shape) -> Result<Shape, Unclear> {
    match (a.fits(len), b.fits(len)) {
        (true, false) => Ok(a),
        (false, true) => Ok(b),
        _ => Err(Unclear::Close(a.words(), b.words())),
    }
}
