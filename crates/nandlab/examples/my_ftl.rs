//! A translation layer of your own: configured in TOML, measured, reported, and cut.
//!
//! The layer maps whole erase blocks. A write copies its block, with the change, into the block
//! after the last one used that holds nothing. A tag in spare bytes names the logical block and a
//! sequence number; at an attach, the highest number on a last page wins.
//!
//! Run it with `cargo run --example my_ftl`. Then put a bug in: delete the line with `fence`. The
//! layer measures the same, but one die may now erase an old block before another die has finished
//! the new one. The crash explorer finds the lost data and prints the shortest run that loses it.

use nandlab_crash::Plan;
use nandlab_ftl::{Cause, Mapped, PageMap, Tallied};
use nandlab_lab::{Experiment, cut::Prepared, report, run, table, workload::Workloads};
use nandlab_mtd::{Block, Layer, LayerError, Mtd, MtdError, Page};
use nandlab_nand::Chip;
use nandlab_stack::{DiskScheme, Document, Registry, Translation};
use std::{error::Error, fs, path::Path, process::ExitCode};

/// `[ftl]` with `scheme = "whole-blocks"`.
const WHOLE_BLOCKS: DiskScheme = DiskScheme {
    name: "whole-blocks",
    keys: &["spare-blocks"],
    take: |input| {
        let fine = |spare: &u32| (1..16).contains(spare);
        let spare = input.section.checked("spare-blocks", 4, fine, "1 to 15")?;
        Ok(Translation::disk("whole-blocks", Options { spare }))
    },
};

#[derive(Debug)]
struct Options {
    spare: u32,
}

/// The map: the erase block of each logical block.
struct WholeBlocks {
    map: Vec<Option<Block>>,
    last: Block,
    sequence: u64,
    per_block: u32,
}

impl Layer<Chip> for Options {
    type Device = Mapped<WholeBlocks, Chip>;

    fn format(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        let map = self.empty(&chip);
        Ok(Mapped::new("my_ftl", map, Tallied::new(chip)))
    }

    fn attach(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        let mut layer = self.empty(&chip);
        let mut flash = Tallied::new(chip);
        let mut tags = Vec::new();
        for block in (0..flash.geometry().blocks).map(Block) {
            let mut tag = [0xFF; 8];
            let last = layer.page(block, layer.per_block - 1);
            // A last page that cannot be read belongs to a write that was cut.
            if flash.read(last, &mut [], &mut tag).is_ok() {
                tags.push((u64::from_le_bytes(tag), block));
            }
        }
        tags.sort();
        for (tag, block) in tags {
            if let Some(place) = layer.map.get_mut((tag & 0xFF) as usize) {
                *place = Some(block);
                layer.sequence = tag >> 8;
            }
        }
        flash.cause = Cause::Host;
        Ok(Mapped::new("my_ftl", layer, flash))
    }

    fn power_off(&self, device: Self::Device) -> Chip {
        device.into_flash()
    }
}

impl Options {
    fn empty(&self, chip: &Chip) -> WholeBlocks {
        WholeBlocks {
            map: vec![None; (chip.geometry().blocks - self.spare) as usize],
            last: Block(0),
            sequence: 0,
            per_block: chip.geometry().pages_per_block,
        }
    }
}

impl WholeBlocks {
    fn page(&self, block: Block, n: u32) -> Page {
        Page(block.0 * self.per_block + n)
    }
}

impl PageMap<Chip> for WholeBlocks {
    fn pages(&self) -> u32 {
        self.map.len() as u32 * self.per_block
    }

    fn read(&mut self, flash: &mut Tallied<Chip>, n: u32, buf: &mut [u8]) -> Result<(), MtdError> {
        match self.map[(n / self.per_block) as usize] {
            Some(block) => _ = flash.read(self.page(block, n % self.per_block), buf, &mut [])?,
            None => buf.fill(0),
        }
        Ok(())
    }

    fn write(&mut self, flash: &mut Tallied<Chip>, n: u32, data: &[u8]) -> Result<(), MtdError> {
        let logical = n / self.per_block;
        while self.map.contains(&Some(self.last)) {
            self.last = Block((self.last.0 + 1) % flash.geometry().blocks);
        }
        flash.fence(flash.issued());
        flash.erase(self.last)?;
        self.sequence += 1;
        let tag = (self.sequence << 8 | u64::from(logical)).to_le_bytes();
        let mut old = vec![0; data.len()];
        for index in 0..self.per_block {
            let page = logical * self.per_block + index;
            self.read(flash, page, &mut old)?;
            let data = if page == n { data } else { &old };
            flash.program(self.page(self.last, index), data, &tag)?;
        }
        self.map[logical as usize] = Some(self.last);
        Ok(())
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let registry = Registry::standard().with_scheme(WHOLE_BLOCKS);
    let text = include_str!("my_ftl.toml");
    let document = Document::parse("my_ftl.toml", Path::new("."), text, &[])?;
    let experiment = Experiment::take_with(document, &registry, &Workloads::standard())?;
    let outcome = run(&experiment, &mut |_| ())?;
    println!("{}", table::compare(std::slice::from_ref(&outcome)));
    let page = report::html("my_ftl", &[outcome.result], &[outcome.cost]);
    fs::write("my_ftl.html", page)?;
    let report = Prepared::new(&experiment, 100)?.explore(&Plan::default(), &|_, _| ())?;
    println!("{report}");
    Ok(ExitCode::from(u8::from(report.violations_total > 0)))
}
