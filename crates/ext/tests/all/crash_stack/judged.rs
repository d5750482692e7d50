//! A volume at which e2fsck looks before and after each mount.

use nandlab_block::{BlockDevice, Lba};
use nandlab_ext::ExtVolume;
use nandlab_vfs::{Mounted, Nature, Volume, VolumeError};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;

#[derive(Clone)]
pub struct Judged(pub ExtVolume);

impl<D: BlockDevice + 'static> Volume<D> for Judged {
    fn nature(&self, disk: &D) -> Nature {
        self.0.nature(disk)
    }

    fn format(&self, disk: &mut D) -> Result<(), VolumeError> {
        self.0.format(disk)
    }

    fn mount(&self, mut disk: D) -> Result<Box<dyn Mounted<D>>, VolumeError> {
        judge_unrecovered(&mut disk)?;
        let mut recovered = self.0.mount(disk)?;
        recovered.unmount()?;
        let mut disk = recovered.into_medium();
        let (status, text) = e2fsck(&mut disk, "-fn")?;
        if status != 0 {
            return Err(
                format!("e2fsck -fn of the recovered volume: status {status}: {text}").into(),
            );
        }
        self.0.mount(disk)
    }
}

/// It recovers the journal, and repairs nothing besides the superblock's counts of free blocks and
/// inodes. These are not kept between mounts, as in Linux's ext3. To e2fsck the repair is cosmetic.
fn judge_unrecovered<D: BlockDevice>(disk: &mut D) -> Result<(), VolumeError> {
    let (status, text) = e2fsck(disk, "-fy")?;
    let mut lines = text.lines().map(str::trim).filter(|line| !is_usual(line));
    let mut first = lines.next();
    while first.is_some_and(|line| {
        line.starts_with("Free blocks count wrong (")
            || line.starts_with("Free inodes count wrong (")
    }) {
        let repaired = lines.next();
        first = if repaired == Some("Fix? yes") {
            lines.next()
        } else {
            repaired
        };
    }
    match first {
        None if matches!(status, 0 | 1) => Ok(()),
        line => Err(format!(
            "e2fsck -fy of the volume before it is mounted: status {status}, {line:?}: {text}"
        )
        .into()),
    }
}

fn is_usual(line: &str) -> bool {
    line.is_empty()
        || line.starts_with("e2fsck 1.")
        || line.starts_with("Pass ")
        || line.ends_with(": recovering journal")
        || line.contains("***** FILE SYSTEM WAS MODIFIED *****")
        || line.contains(" files (") && line.ends_with(" blocks")
}

/// Its exit status, and what it says.
fn e2fsck<D: BlockDevice>(disk: &mut D, how: &str) -> Result<(i32, String), VolumeError> {
    let program = ["/usr/sbin/e2fsck", "/sbin/e2fsck", "/usr/bin/e2fsck"]
        .into_iter()
        .find(|path| Path::new(path).is_file());
    let program = program.ok_or("e2fsck is missing: apt-get install e2fsprogs")?;
    let mut image = tempfile::NamedTempFile::new()?;
    save(disk, image.as_file_mut())?;
    let output = Command::new(program)
        .arg(how)
        .arg(image.path())
        .env("LC_ALL", "C.UTF-8")
        .output()?;
    let text = [&output.stdout[..], &output.stderr]
        .map(String::from_utf8_lossy)
        .concat();
    Ok((output.status.code().unwrap_or(-1), text))
}

/// Puts a disk into a file; zeros take no space.
fn save<D: BlockDevice>(disk: &mut D, file: &mut File) -> Result<(), VolumeError> {
    const STEP: usize = 64 << 10;
    let bytes = disk.geometry().bytes();
    let sector = u64::from(disk.geometry().sector);
    file.set_len(bytes)?;
    for at in (0..bytes).step_by(STEP) {
        let mut data = vec![0; STEP.min((bytes - at) as usize)];
        disk.read(Lba(at / sector), &mut data)?;
        if data.iter().any(|byte| *byte != 0) {
            file.seek(SeekFrom::Start(at))
                .and_then(|_| file.write_all(&data))?;
        }
    }
    Ok(())
}
