//! Small stacks for cutting the power everywhere: a page-mapped layer on 4 MiB of small pages,
//! volumes of each kind, and devices and judges around them.

pub mod judged;
pub mod rounds;
pub mod scrambled;

use nandlab_ext::{Checkpoint, Format, Mode, Options};
use nandlab_ftl::page::{PageFtl, PageOptions, SeededBug};
use nandlab_lab::crash::Layer;
use nandlab_lab::crash::files::{ExtVolume, FatVolume};
use nandlab_nand::{Chip, preset};

/// 4 MiB in pages of 512 B.
#[derive(Clone, Default)]
pub struct PageMapped {
    /// A rule that is left out.
    pub bug: Option<SeededBug>,
}

impl PageMapped {
    fn options(&self) -> PageOptions {
        PageOptions {
            over_provisioning: 0.15,
            seeded_bug: self.bug,
            ..PageOptions::default()
        }
    }
}

impl Layer for PageMapped {
    type Device = PageFtl<Chip>;

    fn format(&self) -> Result<Self::Device, String> {
        let mut spec = preset::find("nandsim-jftl").ok_or("no such preset")?.spec();
        spec.geometry.blocks = 256;
        let chip = Chip::new(spec).map_err(|e| e.to_string())?;
        PageFtl::format(chip, self.options()).map_err(|e| e.to_string())
    }

    fn attach(&self, chip: Chip) -> Result<Self::Device, String> {
        PageFtl::attach(chip, self.options()).map_err(|e| e.to_string())
    }

    fn power_off(&self, device: Self::Device) -> Chip {
        device.into_medium()
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

pub fn fat16() -> FatVolume {
    let format = nandlab_fat::Format {
        bits: Some(nandlab_fat::Bits::Fat16),
        cluster_sectors: Some(1),
        ..Default::default()
    };
    FatVolume {
        format,
        ..Default::default()
    }
}
