//! `nandlab image create`.

use super::options::{Ecc, bar, dump_format, ecc, json, layout, size, source_date, tell};
use crate::failure::{Failure, Status};
use crate::output::{distinct, print};
use nandlab_image::make::{Format, Making, clamp_times, make};
use nandlab_image::tree::Tree;
use nandlab_image::volume::Opening;
use nandlab_image::words::counted;
use nandlab_image::{ImageError, source, table};
use nandlab_jffs2::{Choice, Compression, Endian, Medium};
use nandlab_mtd::Layout;
use nandlab_vfs::Time;
use std::path::PathBuf;

/// Make an image of a directory or an archive
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The same source gives the same image, byte for byte. With SOURCE_DATE_EPOCH no time in it is later than that."
)]
pub struct Args {
    /// The image; replaced when the new one is whole
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// A directory, an archive (tar, also with gzip; - for standard input), a manifest (mtree), or
    /// another image; without, an empty file system
    #[arg(value_name = "SOURCE")]
    source: Option<PathBuf>,
    /// Format of the image to make
    #[arg(long, short, value_enum)]
    format: Kind,
    /// Bytes of the image [default: as many as it takes]
    #[arg(long, value_parser = size)]
    size: Option<u64>,
    /// Leave out what the format cannot hold, and list it, instead of failing
    #[arg(long)]
    lossy: bool,
    /// Everything belongs to this owner and group
    #[arg(long, value_name = "UID:GID", value_parser = owner)]
    owner: Option<(u32, u32)>,
    /// A device table as mkfs.jffs2 -D takes it: NAME TYPE MODE UID GID MAJOR MINOR START INC COUNT
    #[arg(long, short = 'D', value_name = "FILE")]
    device_table: Option<PathBuf>,
    /// Where the files of a manifest are [default: the manifest's directory]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// The name of the volume (not JFFS2)
    #[arg(long)]
    label: Option<String>,
    /// Threads [default: one for each processor]
    #[arg(long)]
    threads: Option<usize>,
    /// Print what was made as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    jffs2: Jffs2,
    #[command(flatten)]
    ext: Ext,
    #[command(flatten)]
    ubifs: Ubifs,
}

/// Of UBIFS only. The image is the contents of a UBI volume; `nandlab image ubinize` makes a flash
/// of it.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "UBIFS")]
struct Ubifs {
    /// Bytes of a logical erase block: an erase block without UBI's headers
    #[arg(long, value_parser = size, default_value = "126976")]
    leb: u64,
    /// Bytes that are written at once: the flash's page
    #[arg(long, value_parser = size, default_value = "2048")]
    min_io: u64,
    /// Logical erase blocks that the volume may grow to [default: at least eight times those of the
    /// image]
    #[arg(long, value_name = "COUNT")]
    max_lebs: Option<u32>,
    /// The compressor of contents
    #[arg(long, value_enum, default_value = "lzo")]
    compressor: Compressor,
    /// The version of the format: 4, or 5 with double hashes
    #[arg(long, value_parser = clap::value_parser!(u32).range(4..=5), default_value = "4")]
    format_version: u32,
    /// Let the first mount erase all free space, for a programmer that writes erased pages too
    /// (mkfs.ubifs -F)
    #[arg(long)]
    space_fixup: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Compressor {
    None,
    Lzo,
    Zlib,
    Zstd,
}

/// Of ext2, ext3 and ext4 only.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "ext2, ext3, ext4")]
struct Ext {
    /// Bytes of a block of the volume: 1024, 2048 or 4096 [default: as mke2fs has it, 1024 below
    /// 512 MiB]
    #[arg(long, value_parser = size)]
    block_size: Option<u64>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "JFFS2")]
struct Jffs2 {
    /// Data bytes of an erase block
    #[arg(long, value_parser = size, default_value = "128K")]
    block: u64,
    /// Data bytes of a page: for NAND flash [default: bytes are written one by one, as on NOR
    /// flash]
    #[arg(long, value_parser = size)]
    page: Option<u64>,
    /// Spare bytes behind each page in the image
    #[arg(long, value_parser = size, requires = "page")]
    oob: Option<u64>,
    /// Who owns which spare bytes [default: as Linux has it]
    #[arg(long, value_parser = layout, requires = "oob")]
    oob_layout: Option<Layout>,
    /// Code of the ECC bytes: none (they stay erased), hamming, hamming-512, hamming-smc, bch-N
    /// [default: as Linux has it, hamming with 16, 64 and 128 spare bytes]
    #[arg(long, value_parser = ecc, requires = "oob")]
    ecc: Option<Ecc>,
    /// Byte order of the machine that is to read it
    #[arg(long, value_enum, default_value = "little")]
    endian: Order,
    /// Compressors, of which the first that gains anything is taken (lzo, zlib, rtime), or "size:"
    /// before them for the best of them, or none
    #[arg(long, value_name = "LIST", value_parser = compression, default_value = "zlib,rtime")]
    compress: Compression,
    /// No mark at the beginning of erased blocks: for volumes of UBI
    #[arg(long)]
    no_cleanmarkers: bool,
    /// A list of its nodes at the end of each block, for mounts that are quick
    #[arg(long)]
    summary: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Order {
    Little,
    Big,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Jffs2,
    Ext2,
    Ext3,
    Ext4,
    F2fs,
    Fat,
    Ubifs,
}

fn owner(text: &str) -> Result<(u32, u32), String> {
    let parsed = text
        .split_once(':')
        .and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
    parsed.ok_or_else(|| "expected two numbers, such as 0:0".into())
}

fn compression(text: &str) -> Result<Compression, String> {
    if text == "none" {
        return Ok(Compression::NONE);
    }
    let (choice, list) = text
        .strip_prefix("size:")
        .map_or((Choice::Priority, text), |list| (Choice::Size, list));
    let mut compression = Compression {
        choice,
        ..Compression::NONE
    };
    for name in list.split(',') {
        match name {
            "lzo" => compression.lzo = true,
            "zlib" => compression.zlib = true,
            "rtime" => compression.rtime = true,
            _ => return Err("expected none, or some of lzo,zlib,rtime".into()),
        }
    }
    Ok(compression)
}

impl Args {
    pub fn execute(self) -> Result<Status, Failure> {
        let inputs = [&self.source, &self.device_table];
        distinct(&self.image, inputs.into_iter().flatten())?;
        let latest = source_date()?;
        let mut tree = self.tree()?;
        if let Some((uid, gid)) = self.owner {
            tree.entries
                .iter_mut()
                .for_each(|(entry, _)| (entry.uid, entry.gid) = (uid, gid));
        }
        if let Some(table) = &self.device_table {
            table::apply(table, &mut tree)?;
        }
        if let Some(latest) = latest {
            clamp_times(&mut tree, latest);
        }
        let bar = bar(Some(tree.bytes()), "create");
        let mut progress = |bytes| bar.inc(bytes);
        let threads = self
            .threads
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let format = self.format(latest.unwrap_or_default())?;
        let making = Making {
            format,
            size: self.size,
            lossy: self.lossy,
            threads,
            progress: &mut progress,
        };
        let made = make(tree, making, &self.image)?;
        bar.finish_and_clear();
        if self.json {
            json(&made)?;
        } else {
            print(&format!(
                "{}: {}, {}\n",
                self.image.display(),
                counted(made.bytes, "byte"),
                counted(made.entries as u64, "entry")
            ))?;
            tell(&made.losses);
        }
        Ok(if made.losses.is_empty() {
            Status::Done
        } else {
            Status::Lost
        })
    }

    fn tree(&self) -> Result<Tree, Failure> {
        let Some(source) = &self.source else {
            let mut tree = Tree::default();
            tree.normalize()?;
            return Ok(tree);
        };
        Ok(source::read(
            source,
            self.root.as_deref(),
            &Opening::default(),
        )?)
    }

    fn format(&self, now: Time) -> Result<Format, Failure> {
        let label = self.label.clone().unwrap_or_default();
        if let (Some(bytes), false) = (
            self.ext.block_size,
            matches!(self.format, Kind::Ext2 | Kind::Ext3 | Kind::Ext4),
        ) {
            let expected = "nothing: it is of ext2, ext3 and ext4 only".into();
            return Err(ImageError::Choice {
                what: "--block-size",
                found: bytes.to_string(),
                expected,
            }
            .into());
        }
        Ok(match self.format {
            Kind::Jffs2 => self.jffs2.format()?,
            Kind::Ext2 | Kind::Ext3 | Kind::Ext4 => Format::Ext(nandlab_ext::Format {
                journal: self.format != Kind::Ext2,
                ext4: self.format == Kind::Ext4,
                block: self
                    .ext
                    .block_size
                    .map(|bytes| bytes.try_into().unwrap_or(u32::MAX)),
                label: label.into_bytes(),
                now,
                ..Default::default()
            }),
            Kind::F2fs => Format::F2fs(nandlab_f2fs::Format {
                label,
                now,
                ..Default::default()
            }),
            Kind::Ubifs => self.ubifs.format(now)?,
            Kind::Fat => {
                let label = self.label.clone().map(String::into_bytes);
                Format::Fat(nandlab_fat::Format {
                    label,
                    now,
                    ..Default::default()
                })
            }
        })
    }
}

impl Ubifs {
    fn format(&self, now: Time) -> Result<Format, Failure> {
        let choice = |what, found: u64, expected: &str| ImageError::Choice {
            what,
            found: found.to_string(),
            expected: expected.into(),
        };
        let fits = (8..=1 << 16).contains(&self.min_io) && self.min_io.is_power_of_two();
        if !fits {
            let expected = "a power of two, 8 bytes to 64 KiB";
            return Err(choice("--min-io", self.min_io, expected).into());
        }
        if !(15 << 10..=2 << 20).contains(&self.leb) || !self.leb.is_multiple_of(self.min_io) {
            let expected = "whole writes of --min-io bytes, 15 KiB to 2 MiB";
            return Err(choice("--leb", self.leb, expected).into());
        }
        let choices = nandlab_ubifs::Format {
            version: self.format_version,
            compressor: self.compressor as u16,
            page: Some(self.min_io as u32),
            lebs_max: self.max_lebs,
            now,
            ..Default::default()
        };
        Ok(Format::Ubifs {
            choices,
            leb: self.leb as u32,
            fixup: self.space_fixup,
        })
    }
}

impl Jffs2 {
    fn format(&self) -> Result<Format, Failure> {
        let bad = |what, found: u64, expected: &str| ImageError::Choice {
            what,
            found: found.to_string(),
            expected: expected.into(),
        };
        let page = self
            .page
            .unwrap_or_else(|| nandlab_image::make::nor_page(self.block).into());
        if !self.block.is_multiple_of(page) || !(8192..=4 << 20).contains(&self.block) {
            return Err(bad("block", self.block, "whole pages, 8 KiB to 4 MiB").into());
        }
        let oob = self.oob.unwrap_or(0) as u32;
        let medium = match (self.page, oob, self.no_cleanmarkers) {
            (None, _, false) => Medium::Nor,
            (Some(_), 1.., false) => Medium::Nand,
            _ => Medium::Unmarked,
        };
        let choices = nandlab_jffs2::Format {
            medium: Some(medium),
            endian: if matches!(self.endian, Order::Little) {
                Endian::Little
            } else {
                Endian::Big
            },
            compression: self.compress,
            summary: self.summary,
            ..Default::default()
        };
        let pages_per_block = (self.block / page) as u32;
        let shape = dump_format(
            (page as u32, oob, pages_per_block),
            self.oob_layout,
            self.ecc,
        )?;
        Ok(Format::Jffs2 { choices, shape })
    }
}
