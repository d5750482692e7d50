//! The forms of volumes that the kernel judges: page size, form of the properties tree, compressor.

use crate::chips::{Chip, Dump};
use nandlab_mtd::Image;
use nandlab_testkit::share::whole_or;
use nandlab_ubi::{Headers, Options, Ubi, VolumeSpec};
use nandlab_ubifs::{Format, UbiLebs, format};
use nandlab_vfs::Time;

/// The variable with the number of operations on each volume; it selects all forms.
const CALLS: &str = "NANDLAB_UBIFS_CALLS";
/// The variable that selects forms by a part of their names.
const CHOSEN: &str = "NANDLAB_UBIFS_FORMS";

/// The compressors by number.
pub const COMPRESSORS: [&str; 4] = ["none", "lzo", "zlib", "zstd"];

/// Chips that a few thousand operations fill and collect many times.
const CHIPS: [Chip; 3] = [
    Chip {
        page: 512,
        block: 16 << 10,
        blocks: 400,
        nandsim: "id_bytes=0x98,0x73",
    },
    Chip {
        page: 2048,
        block: 128 << 10,
        blocks: 80,
        nandsim: "id_bytes=0x20,0xa2,0x00,0x15",
    },
    Chip {
        page: 4096,
        block: 256 << 10,
        blocks: 60,
        nandsim: "id_bytes=0x20,0xa2,0x00,0x26",
    },
];

/// A form of a volume.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub chip: Chip,
    pub compressor: u16,
    /// The LEB properties tree has its big form.
    pub is_big: bool,
}

impl Form {
    /// The name of the form, which [`CHOSEN`] picks it by.
    pub fn key(&self) -> String {
        format!(
            "{}-{}-{}",
            self.chip.page,
            self.lpt(),
            self.compressor_name()
        )
    }

    pub fn compressor_name(&self) -> &'static str {
        COMPRESSORS[usize::from(self.compressor)]
    }

    pub fn lpt(&self) -> &'static str {
        match self.is_big {
            true => "big",
            false => "small",
        }
    }

    /// A chip with an empty volume of this form.
    pub fn empty(&self) -> Vec<u8> {
        let choices = Format {
            compressor: self.compressor,
            big_lpt: Some(self.is_big),
            uuid: *b"made by this kit",
            now: Time::new(1_700_000_000),
            ..Format::default()
        };
        let lebs = format(blank(self.chip), &choices).unwrap();
        let mut ubi = lebs.into_ubi();
        ubi.sync().unwrap();
        ubi.into_medium().into_backing()
    }
}

/// A UBI volume without contents, of a whole chip.
pub fn blank(chip: Chip) -> UbiLebs<Dump> {
    let image = Image::new(vec![0xFF; chip.bytes()], chip.dump_format()).unwrap();
    let options = Options {
        headers: Headers::At(chip.page),
        image_seq: 5,
        ..Options::default()
    };
    let mut ubi = Ubi::format(image, options).unwrap();
    let spec = VolumeSpec {
        name: "root".into(),
        lebs: ubi.info().available,
        ..VolumeSpec::default()
    };
    let id = ubi.create_volume(&spec).unwrap();
    UbiLebs::new(ubi, id).unwrap()
}

/// The number of operations on each volume, if the environment sets one.
pub fn calls() -> Option<u64> {
    let text = std::env::var(CALLS).ok()?;
    let calls = text.parse();
    Some(calls.unwrap_or_else(|_| panic!("{CALLS}={text}: expected a number of operations")))
}

/// Returns `true` if the environment picks a form of this name.
pub fn is_chosen(key: &str) -> bool {
    let part = std::env::var(CHOSEN).unwrap_or_default();
    key.contains(&part)
}

/// All forms, or those that the environment picks.
pub fn chosen() -> Vec<Form> {
    let forms = CHIPS.into_iter().flat_map(of_chip);
    forms.filter(|form| is_chosen(&form.key())).collect()
}

fn of_chip(chip: Chip) -> impl Iterator<Item = Form> {
    let compressors = 0..COMPRESSORS.len() as u16;
    compressors.flat_map(move |compressor| {
        [false, true].map(|is_big| Form {
            chip,
            compressor,
            is_big,
        })
    })
}

/// One form of each page size, each with another compressor. A sample has pages of 4 KiB.
pub fn few() -> Vec<Form> {
    let form = |(chip, compressor)| Form {
        chip,
        compressor,
        is_big: compressor != 1,
    };
    let chips = CHIPS.into_iter().zip(1..);
    chips.skip(whole_or(0, 2)).map(form).collect()
}

/// Keeps a dump for a look at a failure.
pub fn keep(key: &str, dump: &[u8]) {
    let kept = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(kept).unwrap();
    std::fs::write(kept.join(format!("ubifs-{key}")), dump).unwrap();
}

/// An error with the first lines of a list of differences, if there are any.
pub fn first_lines(text: &str) -> Result<(), String> {
    match text.is_empty() {
        true => Ok(()),
        false => Err(text.lines().take(6).collect::<Vec<_>>().join("\n")),
    }
}
