//! What several verbs take and print.

use crate::failure::Failure;
use crate::output::{note, put};
use nandlab_ecc::NameError;
use nandlab_image::ImageError;
pub use nandlab_image::detect::EccHint as Ecc;
use nandlab_image::detect::Hints;
use nandlab_image::locate::Selection;
use nandlab_image::volume::{Access, Opening, Volume};
use nandlab_image::walk::Losses;
use nandlab_mtd::{ImageFormat, Layout};
use nandlab_vfs::Time;
use serde::Serialize;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Which image, and what is known of it.
#[derive(Debug, clap::Args)]
pub struct Image {
    /// Image file to read
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    #[command(flatten)]
    pub shape: Shape,
}

/// The shape of a flash image, which it does not state; detected unless given.
#[derive(Debug, clap::Args)]
pub struct Shape {
    /// Name or number of the UBI volume to look into [default: the first with a file system]
    #[arg(long)]
    pub volume: Option<String>,
    /// Of UBI, show what was there when this sequence number was the last: history lists them
    #[arg(long, value_name = "SEQUENCE")]
    pub until: Option<u64>,
    /// Data bytes of an erase block [default: found out]
    #[arg(long, value_parser = size)]
    pub block: Option<u64>,
    /// Data bytes of a page [default: found out]
    #[arg(long, value_parser = size)]
    pub page: Option<u64>,
    /// Spare bytes behind each page in the image [default: found out]
    #[arg(long, value_parser = size)]
    pub oob: Option<u64>,
    /// Who owns which spare bytes [default: as Linux has it]
    #[arg(long, value_parser = layout)]
    pub oob_layout: Option<Layout>,
    /// The error-correcting code of the spare bytes: none, hamming, hamming-512, hamming-smc,
    /// bch-4, bch-8 and so on [default: found out]
    #[arg(long, value_name = "CODE", value_parser = ecc)]
    pub ecc: Option<Ecc>,
    /// The first byte of the file that counts
    #[arg(long, value_parser = size, value_name = "BYTES")]
    pub offset: Option<u64>,
    /// Bytes of the file that count [default: up to its end]
    #[arg(long, value_parser = size, value_name = "BYTES")]
    pub length: Option<u64>,
    /// The range or partition that counts, by its name: info lists them
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
    /// The partitions, as Linux takes them on its command line: mtdparts=ID:SIZE(NAME),...
    #[arg(long, value_name = "TABLE")]
    pub mtdparts: Option<String>,
}

impl Shape {
    /// The same for the library.
    pub fn opening(&self) -> Opening {
        let small = |size: Option<u64>| size.and_then(|size| u32::try_from(size).ok());
        let hints = Hints {
            block: small(self.block),
            page: small(self.page),
            oob: small(self.oob),
            layout: self.oob_layout,
            ecc: self.ecc,
        };
        let selection = Selection {
            offset: self.offset,
            length: self.length,
            partition: self.partition.clone(),
            mtdparts: self.mtdparts.clone(),
        };
        Opening {
            hints,
            volume: self.volume.clone(),
            until: self.until,
            salvage: false,
            grow: false,
            selection,
        }
    }
}

impl Image {
    /// Opens it for reading.
    pub fn open(&self) -> Result<Volume, Failure> {
        Ok(Volume::open(
            &self.image,
            &self.shape.opening(),
            Access::Read,
        )?)
    }

    /// Opens it for reading, as far as it can be.
    pub fn open_damaged(&self) -> Result<Volume, Failure> {
        Ok(Volume::open(
            &self.image,
            &Opening {
                salvage: true,
                ..self.shape.opening()
            },
            Access::Read,
        )?)
    }
}

/// Bytes: a number with or without K, M, G, KiB, MiB, GiB.
pub fn size(text: &str) -> Result<u64, String> {
    let digits = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(text.len());
    let shift = match text[digits..]
        .trim()
        .to_ascii_lowercase()
        .trim_end_matches("ib")
        .trim_end_matches('b')
    {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err("expected a size such as 131072, 128K or 64MiB".into()),
    };
    let number: u64 = text[..digits]
        .parse()
        .map_err(|_| "expected a size such as 131072, 128K or 64MiB".to_string())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "expected less than 2^64 bytes".into())
}

/// A layout by its name.
pub fn layout(text: &str) -> Result<Layout, String> {
    let all = [
        Layout::Raw,
        Layout::MarkerOnly,
        Layout::LinuxSmallPage,
        Layout::LinuxLargePage64,
        Layout::LinuxLargePage128,
        Layout::DiskOnChip,
    ];
    let names: Vec<&str> = all
        .iter()
        .map(|layout| nandlab_image::volume::layout_name(*layout))
        .collect();
    let found = all.into_iter().zip(&names).find(|(_, name)| **name == text);
    found
        .map(|(layout, _)| layout)
        .ok_or_else(|| format!("expected one of {}", names.join(", ")))
}

/// A code by its name.
pub fn ecc(text: &str) -> Result<Ecc, String> {
    if text == "none" {
        return Ok(Ecc::None);
    }
    match text.parse() {
        Ok(code) => Ok(Ecc::Code(code)),
        Err(NameError::Form) => Err(
            "expected none, hamming, hamming-512, hamming-smc, bch-N (N bits in 512 bytes) or \
             bch-N-1024"
                .into(),
        ),
        Err(error) => Err(error.to_string()),
    }
}

/// The format of a dump that is to be written: as Linux has it, where nothing else is chosen.
pub fn dump_format(
    (page, oob, pages_per_block): (u32, u32, u32),
    layout: Option<Layout>,
    ecc: Option<Ecc>,
) -> Result<ImageFormat, ImageError> {
    let code = match ecc {
        Some(Ecc::None) => None,
        Some(Ecc::Code(code)) => Some(code),
        None => ImageFormat::linux_code(page, oob),
    };
    let refused = |error: nandlab_mtd::ImageError| ImageError::Make {
        format: "dump",
        why: error.to_string(),
    };
    let format = ImageFormat::linux(page, oob, pages_per_block, code).map_err(refused)?;
    Ok(match layout {
        Some(layout) if layout != format.layout => ImageFormat {
            layout,
            // Linux's default code lies in Linux's layout only.
            ecc: ecc.and(format.ecc),
            ..format
        },
        _ => format,
    })
}

/// A path in an image, as bytes.
pub fn bytes(path: &OsStr) -> &[u8] {
    path.as_bytes()
}

/// What SOURCE_DATE_EPOCH says: no time in what is made is later.
pub fn source_date() -> Result<Option<Time>, Failure> {
    let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH") else {
        return Ok(None);
    };
    let seconds = text.to_str().and_then(|text| text.parse().ok());
    let bad = || nandlab_image::ImageError::Choice {
        what: "SOURCE_DATE_EPOCH",
        found: text.to_string_lossy().into_owned(),
        expected: "seconds since 1970".into(),
    };
    Ok(Some(Time::new(seconds.ok_or_else(bad)?)))
}

/// Prints something as one line of JSON.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value)
        .map_err(|error| crate::output::failed(Path::new("standard output"), error.into()))?;
    put(&(text + "\n"))
}

/// Tells on standard error what was lost.
pub fn tell(losses: &Losses) {
    losses
        .list
        .iter()
        .for_each(|loss| note(format_args!("{loss}")));
    if losses.more > 0 {
        note(format_args!("{} more", losses.more));
    }
}

/// Characters beside a bar and its name, at most: two numbers of bytes and a time.
const BESIDE_BAR: usize = 34;

/// A bar that shows bytes.
pub fn bar(total: Option<u64>, name: &str) -> indicatif::ProgressBar {
    let template = if total.is_some() {
        let steps = crate::terminal::bar(name.len() + BESIDE_BAR);
        format!("{{prefix}} [{steps}] {{bytes}}/{{total_bytes}} {{eta:>5}}")
    } else {
        "{prefix} {bytes} {bytes_per_sec}".into()
    };
    // Hidden by itself where standard error is no terminal.
    let bar = indicatif::ProgressBar::new(total.unwrap_or(0)).with_prefix(name.to_string());
    if let Ok(style) = indicatif::ProgressStyle::with_template(&template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_binary_units() {
        assert_eq!(
            [size("512"), size("128K"), size("64 MiB"), size("1g")],
            [Ok(512), Ok(131_072), Ok(64 << 20), Ok(1 << 30)]
        );
        assert!(
            ["", "K", "1.5M", "3 apples", "99999999999T"]
                .iter()
                .all(|text| size(text).is_err())
        );
    }
}
