//! Flipped bits and torn pages in dumps, at seeded places.

use super::cell::{Age, Cell};
use super::guests::{Dump, noise};
use nandlab_sim::mix;

/// Pages whose data are not erased, outside the bad block, save the one that is torn.
pub fn programmed(dump: &Dump) -> Vec<usize> {
    let Dump { cell, bytes, .. } = dump;
    let shape = cell.shape;
    let bad = cell.bad().map(|bad| bad as usize);
    let used = |(number, raw): &(usize, &[u8])| {
        Some(number / shape.pages_per_block as usize) != bad
            && Some(*number) != dump.torn
            && raw[..shape.page as usize].iter().any(|byte| *byte != 0xFF)
    };
    let pages = bytes.chunks(shape.raw_page()).enumerate().filter(used);
    pages.map(|(number, _)| number).collect()
}

/// Flips different bits of a step of a raw page, in its data or its parity. The places follow from
/// the seed alone: whether so many flips look like fewer others does, too.
pub fn flip(cell: Cell, raw: &mut [u8], step: u32, flips: u32, seed: u64) {
    let len = cell.code.step() as usize;
    let start = step as usize * len;
    let parity = cell.code.parity(cell.shape, step);
    let spare = cell.shape.page as usize;
    let places: Vec<usize> = (start..start + len)
        .chain(parity.iter().map(|at| spare + at))
        .collect();
    // A third lies in the parity: it is much shorter than the data.
    let mut done = Vec::new();
    for draw in 0.. {
        if done.len() == flips as usize {
            return;
        }
        let random = mix(seed, draw);
        let place = match random % 3 {
            0 => places[len + (random >> 8) as usize % parity.len()],
            _ => places[(random >> 8) as usize % len],
        };
        let bit = 1 << (random >> 60 & 7);
        if !done.contains(&(place, bit)) {
            raw[place] ^= bit;
            done.push((place, bit));
        }
    }
}

/// A dump in which each step of each programmed page has flipped bits.
pub fn everywhere(dump: &Dump, flips: u32, seed: u64) -> Vec<u8> {
    let cell = dump.cell;
    let mut bytes = dump.bytes.clone();
    for page in programmed(dump) {
        let raw = &mut bytes[page * cell.shape.raw_page()..][..cell.shape.raw_page()];
        for step in 0..cell.shape.page / cell.code.step() {
            let seed = mix(seed, (page as u64) << 8 | u64::from(step));
            flip(cell, raw, step, flips, seed);
        }
    }
    bytes
}

/// The pages in which 64 of the known bytes lie, with the step in which they begin.
pub fn pages_with(dump: &Dump, known: usize) -> Vec<(usize, u32)> {
    let Dump { cell, bytes, .. } = dump;
    let noise = &noise()[known..known + 64];
    let mut found = Vec::new();
    for page in programmed(dump) {
        let data = &bytes[page * cell.shape.raw_page()..][..cell.shape.page as usize];
        let at = memchr::memmem::find(data, noise);
        found.extend(at.map(|at| (page, at as u32 / cell.code.step())));
    }
    found
}

/// Tears the last page that was programmed before a cut: its second half and its spare bytes stay
/// erased.
pub fn tear(dump: &mut Dump) {
    let cell = dump.cell;
    if cell.age != Age::Cut {
        return;
    }
    // The file or the volume ends with known bytes; they may lie over two pages.
    let tail = (739_000..739_936).rev().step_by(32);
    let found = tail
        .map(|known| pages_with(dump, known))
        .find(|pages| !pages.is_empty());
    let pages = found.unwrap_or_else(|| panic!("{cell}: no page has the tail"));
    let page = pages[0].0;
    dump.torn = Some(page);
    let raw = &mut dump.bytes[page * cell.shape.raw_page()..][..cell.shape.raw_page()];
    raw[cell.shape.page as usize / 2..].fill(0xFF);
}
