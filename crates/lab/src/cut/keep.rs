//! States as files, for a judge that is not the explorer: a checker, the kernel, a tool of yours.

use nandlab_block::{BlockDevice, Lba};
use nandlab_crash::Id;
use nandlab_mtd::{Layer, LayerError};
use nandlab_nand::Chip;
use nandlab_scratch::beside;
use nandlab_stack::dump::{self, DumpFormat};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Bytes that are copied at a time. Zeros take no space in the file.
const STEP: u64 = 64 << 10;

/// Writes a chip into the file of this path.
type WriteFile = dyn Fn(Chip, &Path) -> Result<(), LayerError>;

/// Writes what a cut left on a chip into a file.
pub(super) struct Keep {
    /// The end of the file's name.
    end: &'static str,
    /// Writes the file.
    write: Box<WriteFile>,
}

impl Keep {
    /// Keeps a dump of the chip, as `chip.save` does.
    pub fn dump(format: DumpFormat) -> Self {
        let write = move |mut chip: Chip, path: &Path| Ok(dump::save(path, format, &mut chip)?);
        Self {
            end: "bin",
            write: Box::new(write),
        }
    }

    /// Keeps nothing, because a file of the state would mislead.
    pub fn refused(why: &'static str) -> Self {
        Self {
            end: "none",
            write: Box::new(move |_, _| Err(why.into())),
        }
    }

    /// Keeps the sectors of a layer's disk, after the layer's recovery.
    pub fn disk<L>(layer: L) -> Self
    where
        L: Layer<Chip, Device: BlockDevice> + 'static,
    {
        let write = move |chip: Chip, path: &Path| disk(&mut layer.attach(chip)?, path);
        Self {
            end: "img",
            write: Box::new(write),
        }
    }

    /// Writes the file of a state, and gives its path.
    pub fn state(&self, id: &Id, chip: Chip, directory: &Path) -> Result<PathBuf, LayerError> {
        let path = file(directory, id, self.end);
        (self.write)(chip, &path)?;
        Ok(path)
    }
}

/// The file of a state in a directory. A file's name has no slash.
fn file(directory: &Path, id: &Id, end: &str) -> PathBuf {
    let name = id.to_string().replace(':', ".").replace('/', "+");
    directory.join(format!("{name}.{end}"))
}

/// Writes all sectors of a disk.
fn disk(disk: &mut dyn BlockDevice, path: &Path) -> Result<(), LayerError> {
    let geometry = *disk.geometry();
    let bytes = geometry.bytes();
    let scratch = beside(path)?;
    let mut file = scratch.as_file();
    file.set_len(bytes)?;
    let mut data = vec![0; STEP as usize];
    for at in (0..bytes).step_by(STEP as usize) {
        let part = &mut data[..STEP.min(bytes - at) as usize];
        disk.read(Lba(at / u64::from(geometry.sector)), part)?;
        if part.iter().any(|byte| *byte != 0) {
            file.seek(SeekFrom::Start(at))?;
            file.write_all(part)?;
        }
    }
    Ok(scratch.persist(path)?)
}
