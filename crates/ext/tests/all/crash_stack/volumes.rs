//! A small stack to cut everywhere: the page-mapped layer on 4 MiB of small pages, with ext3 and
//! ext4 in every mode.

use nandlab_ext::{Checkpoint, ExtVolume, Format, Mode, Options};
use nandlab_ftl::page::{PageOptions, SeededBug};
use nandlab_nand::{ChipSpec, preset};

/// 4 MiB in pages of 512 B.
pub fn chip() -> ChipSpec {
    let mut spec = preset::find("nandsim-jftl").unwrap().spec();
    spec.geometry.blocks = 256;
    spec
}

/// The layer over it; a rule may be left out.
pub fn layer(seeded_bug: Option<SeededBug>) -> PageOptions {
    PageOptions {
        over_provisioning: 0.15,
        seeded_bug,
        ..PageOptions::default()
    }
}

/// Every mode with every way home.
pub const WAYS: [(Mode, Checkpoint); 9] = [
    (Mode::Journal, Checkpoint::Copy),
    (Mode::Ordered, Checkpoint::Copy),
    (Mode::Writeback, Checkpoint::Copy),
    (Mode::Journal, Checkpoint::Remap),
    (Mode::Ordered, Checkpoint::Remap),
    (Mode::Writeback, Checkpoint::Remap),
    (Mode::Journal, Checkpoint::RemapLate),
    (Mode::Ordered, Checkpoint::RemapLate),
    (Mode::Writeback, Checkpoint::RemapLate),
];

/// Blocks of the journal, each of 1 KiB: the fewest that ext3 takes.
pub const JOURNAL_BLOCKS: u32 = 1024;

/// 8 MiB in pages of 2 KiB. A cut within a superblock would leave a wrong checksum, and a volume
/// that does not mount before a repair.
pub fn large_chip() -> ChipSpec {
    let mut spec = preset::find("slc-2k").unwrap().spec();
    spec.geometry.blocks = 64;
    spec
}

/// The same with all that mke2fs gives to ext4, in blocks of a page.
pub fn ext4(way: (Mode, Checkpoint)) -> ExtVolume {
    let mut volume = ext3(way);
    volume.format.ext4 = true;
    volume.format.block = Some(2048);
    volume
}

/// The same without a journal.
pub fn unjournaled() -> ExtVolume {
    let mut volume = ext4((Mode::Unjournaled, Checkpoint::Copy));
    volume.format.journal = false;
    volume.format.journal_blocks = None;
    volume
}

/// ext4 with fast commits.
pub fn fast(checkpoint: Checkpoint) -> ExtVolume {
    let mut volume = ext4((Mode::Ordered, checkpoint));
    volume.format.fast_commit = true;
    volume.options.fast_commit = true;
    volume
}

pub fn ext3((mode, checkpoint): (Mode, Checkpoint)) -> ExtVolume {
    let format = Format {
        journal: true,
        journal_blocks: Some(JOURNAL_BLOCKS),
        block: Some(1024),
        ..Format::default()
    };
    ExtVolume {
        format,
        options: Options {
            mode,
            checkpoint,
            ..Options::default()
        },
    }
}

/// ext4 with delayed allocation.
pub fn delayed(way: (Mode, Checkpoint)) -> ExtVolume {
    let mut volume = ext4(way);
    volume.options.delayed_allocation = true;
    volume
}
