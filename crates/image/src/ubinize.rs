//! UBI images from a description of their volumes, as `ubinize` takes it.
//!
//! *Promises.* The same description and files give the same bytes, those of `ubinize`; memory is
//! one erase block. What is written in a section and not understood is an error with its line.
//! *Knows nothing of* what the volumes hold.

use crate::error::{ImageError, Result};
use crate::lock::Lock;
use nandlab_mtd::Geometry;
use nandlab_scratch::beside;
use nandlab_ubi::format::{FLAG_AUTORESIZE, VolumeKind};
use nandlab_ubi::{Headers, ImageSpec, ImageVolume, UbiError, VolumeSpec, image_to};
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// What a description does not say.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    /// Bytes of an erase block.
    pub block: u32,
    /// Bytes of a page.
    pub page: u32,
    /// Bytes of a sub-page: there the volume header is, if pages have them.
    pub sub_page: u32,
    /// The number that all blocks of the image have.
    pub image_seq: u32,
}

/// A volume as it is described.
#[derive(Debug, Default)]
struct Described {
    spec: VolumeSpec,
    bytes: u64,
    image: Option<PathBuf>,
}

/// Reads a description: sections, each with lines `key = value`; files are found from its own
/// directory.
fn read(path: &Path) -> Result<Vec<Described>> {
    let text = fs::read_to_string(path).map_err(ImageError::file(path))?;
    let dir = path.parent().unwrap_or(Path::new(""));
    let mut volumes: Vec<Described> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split([';', '#']).next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let wrong = |expected| ImageError::Line {
            path: path.into(),
            line: number + 1,
            found: line.into(),
            expected,
        };
        if line.starts_with('[') && line.ends_with(']') {
            volumes.push(Described::default());
            continue;
        }
        let (key, value) = line.split_once('=').ok_or_else(|| wrong("KEY=VALUE"))?;
        let volume = volumes
            .last_mut()
            .ok_or_else(|| wrong("a section such as [root] before"))?;
        volume.set(key.trim(), value.trim(), dir).map_err(wrong)?;
    }
    Ok(volumes)
}

impl Described {
    fn set(&mut self, key: &str, value: &str, dir: &Path) -> std::result::Result<(), &'static str> {
        let number = |text: &str| text.parse::<u32>().map_err(|_| "a number");
        match key {
            "mode" if value == "ubi" => {}
            "mode" => return Err("mode=ubi"),
            "image" => self.image = Some(dir.join(value)),
            "vol_id" => self.spec.id = Some(number(value)?),
            "vol_size" => self.bytes = size(value).ok_or("a size, such as 16MiB")?,
            "vol_type" => {
                self.spec.kind = match value {
                    "dynamic" => VolumeKind::Dynamic,
                    "static" => VolumeKind::Static,
                    _ => return Err("vol_type=dynamic or static"),
                }
            }
            "vol_name" => self.spec.name = value.into(),
            "vol_alignment" => self.spec.alignment = number(value)?,
            "vol_flags" if value == "autoresize" => self.spec.flags |= FLAG_AUTORESIZE,
            "vol_flags" => return Err("vol_flags=autoresize"),
            _ => {
                return Err(
                    "mode, image, vol_id, vol_size, vol_type, vol_name, vol_alignment or vol_flags",
                );
            }
        }
        Ok(())
    }
}

fn size(text: &str) -> Option<u64> {
    let digits = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(text.len());
    let shift = match text[digits..].trim() {
        "" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// What stops the making of an image.
enum Stop {
    Ubi(UbiError),
    Image(ImageError),
}

impl From<UbiError> for Stop {
    fn from(error: UbiError) -> Self {
        Self::Ubi(error)
    }
}

/// Makes the image that a description says, at `to`. Gives its bytes.
pub fn ubinize(description: &Path, device: Device, to: &Path) -> Result<u64> {
    let refused = |why: String| ImageError::Make { format: "UBI", why };
    let fits = device.page.is_power_of_two()
        && device.block.is_multiple_of(device.page)
        && device.sub_page > 0;
    if !fits {
        let Device { block, page, .. } = device;
        return Err(refused(format!(
            "blocks of {block} bytes with pages of {page}, expected whole pages"
        )));
    }
    let mut geometry = Geometry::single_die(device.page, 0, device.block / device.page, 1);
    geometry.write_unit = device.sub_page;
    let vid = 64u32.next_multiple_of(device.sub_page);
    let leb = u64::from(
        device
            .block
            .saturating_sub((vid + 64).next_multiple_of(device.page)),
    )
    .max(1);
    let described = read(description)?;
    let mut volumes = Vec::new();
    let mut lengths = Vec::new();
    let mut files = Vec::new();
    for one in described {
        if one.image.is_none() && one.bytes == 0 {
            let why = format!(
                "volume {:?} has no size, expected vol_size or image",
                one.spec.name
            );
            return Err(refused(format!("{}: {why}", description.display())));
        }
        let usable = leb - leb % u64::from(one.spec.alignment.max(1));
        let lebs = one.bytes.div_ceil(usable.max(1)) as u32;
        let file = one
            .image
            .map(|path| {
                File::open(&path)
                    .map(|file| (file, path.clone()))
                    .map_err(ImageError::file(path))
            })
            .transpose()?;
        let length = match &file {
            Some((file, path)) => file.metadata().map_err(ImageError::file(path))?.len(),
            None => 0,
        };
        volumes.push(ImageVolume {
            spec: VolumeSpec { lebs, ..one.spec },
            data: Vec::new(),
        });
        lengths.push(length);
        files.push(file);
    }
    let spec = ImageSpec {
        geometry,
        headers: Headers::At(vid),
        ec: 0,
        image_seq: device.image_seq,
        volumes,
    };
    let _lock = Lock::target(to)?;
    let scratch = beside(to)?;
    let mut out = BufWriter::with_capacity(1 << 20, scratch.as_file());
    let mut bytes = 0;
    let mut fill = |volume: usize, at: u64, data: &mut [u8]| match &files[volume] {
        Some((file, path)) => file.read_exact_at(data, at).map_err(|error| {
            Stop::Image(ImageError::File {
                path: path.clone(),
                error,
            })
        }),
        None => Ok(()),
    };
    let made = image_to(&spec, &lengths, &mut fill, &mut |block| {
        bytes += block.len() as u64;
        out.write_all(block).map_err(|error| {
            Stop::Image(ImageError::File {
                path: to.into(),
                error,
            })
        })
    });
    made.map_err(|stop| match stop {
        Stop::Ubi(error) => refused(error.to_string()),
        Stop::Image(error) => error,
    })?;
    out.flush().map_err(ImageError::file(to))?;
    drop(out);
    scratch.persist(to)?;
    Ok(bytes)
}
