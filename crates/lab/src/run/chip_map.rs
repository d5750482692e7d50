//! The chip at the end of a run: wear, validity and bad blocks, reduced to a map of bounded size.

use crate::result::{ChipMap, Wear};
use nandlab_mtd::{Block, Page};
use nandlab_nand::Chip;
use nandlab_stack::Device;

/// The most cells of a map.
const MAX_CELLS: u32 = 4096;

/// Every block's erases and valid pages.
pub struct Blocks {
    erases: Vec<u32>,
    valid: Vec<u32>,
}

impl Blocks {
    /// Looks at the blocks below `device`.
    pub fn of(device: &dyn Device) -> Self {
        let chip = device.medium();
        let all = || (0..chip.spec().geometry.blocks).map(Block);
        Self {
            erases: all().map(|b| chip.block(b).erases).collect(),
            valid: all().map(|b| device.valid_pages(b)).collect(),
        }
    }

    /// Looks at the blocks of a chip without a translation layer: pages that are programmed count
    /// as valid.
    pub fn of_chip(chip: &Chip) -> Self {
        let g = &chip.spec().geometry;
        let all = || (0..g.blocks).map(Block);
        let pages =
            |Block(b): Block| (b * g.pages_per_block..(b + 1) * g.pages_per_block).map(Page);
        let valid = |b| pages(b).filter(|page| chip.is_programmed(*page)).count() as u32;
        Self {
            erases: all().map(|b| chip.block(b).erases).collect(),
            valid: all().map(valid).collect(),
        }
    }

    /// The map, and the spread of erases over blocks in service; `chip` says which are bad.
    pub fn draw(&self, chip: &Chip) -> (ChipMap, Wear) {
        let rated = Some(chip.spec().reliability.rated_erases).filter(|rated| *rated > 0);
        let bad: Vec<bool> = (0..self.erases.len() as u32)
            .map(|b| chip.is_marked_bad(Block(b)))
            .collect();
        (
            self.map(&bad, chip.spec().geometry.pages_per_block),
            self.wear(&bad, rated),
        )
    }

    fn map(&self, bad: &[bool], pages_per_block: u32) -> ChipMap {
        let per_cell = (self.erases.len() as u32).div_ceil(MAX_CELLS).max(1);
        let mean = |values: &[u32]| {
            values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len() as f64
        };
        let cells = per_cell as usize;
        ChipMap {
            blocks_per_cell: per_cell,
            erases: self
                .erases
                .chunks(cells)
                .map(|cell| mean(cell) as f32)
                .collect(),
            valid: self
                .valid
                .chunks(cells)
                .map(|cell| (mean(cell) / f64::from(pages_per_block)) as f32)
                .collect(),
            bad: bad
                .chunks(cells)
                .map(|cell| cell.iter().filter(|bad| **bad).count() as u32)
                .collect(),
        }
    }

    fn wear(&self, bad: &[bool], rated: Option<u32>) -> Wear {
        let good = self.good_erases(bad);
        let (Some(&min), Some(&max)) = (good.iter().min(), good.iter().max()) else {
            return Wear {
                rated,
                ..Wear::default()
            };
        };
        let mean = good.iter().map(|&e| f64::from(e)).sum::<f64>() / good.len() as f64;
        let variance = good
            .iter()
            .map(|&e| (f64::from(e) - mean).powi(2))
            .sum::<f64>()
            / good.len() as f64;
        Wear {
            min,
            max,
            mean,
            deviation: variance.sqrt(),
            rated,
        }
    }

    /// The erases of each block that is not bad.
    fn good_erases(&self, bad: &[bool]) -> Vec<u32> {
        let blocks = self.erases.iter().zip(bad);
        let good = blocks.filter(|(_, bad)| !**bad);
        good.map(|(erases, _)| *erases).collect()
    }
}

/// Blocks in service, of so many.
pub fn good(blocks: u32, map: &ChipMap) -> u64 {
    let bad = map.bad.iter().map(|&bad| u64::from(bad)).sum::<u64>();
    u64::from(blocks) - bad
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_chip_is_reduced_and_every_block_counts_once() {
        let blocks = Blocks {
            erases: (0..10_000).collect(),
            valid: vec![8; 10_000],
        };
        let bad: Vec<bool> = (0..10_000).map(|b| b % 100 == 7).collect();
        let map = blocks.map(&bad, 16);
        assert_eq!(
            (map.blocks_per_cell, map.erases.len(), map.erases[1]),
            (3, 3334, 4.0)
        );
        assert!(map.valid.iter().all(|v| *v == 0.5));
        assert_eq!(
            (map.bad.iter().sum::<u32>(), good(10_000, &map)),
            (100, 9900)
        );
    }

    #[test]
    fn wear_is_that_of_good_blocks() {
        let blocks = Blocks {
            erases: vec![1, 3, 900],
            valid: vec![0; 3],
        };
        let wear = blocks.wear(&[false, false, true], Some(10));
        assert_eq!(
            wear,
            Wear {
                min: 1,
                max: 3,
                mean: 2.0,
                deviation: 1.0,
                rated: Some(10)
            }
        );
        assert_eq!(blocks.wear(&[true; 3], None), Wear::default());
    }
}
