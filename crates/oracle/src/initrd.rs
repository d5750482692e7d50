//! The guest's first file system: the cached archive of the kernel, then an archive of what this
//! boot wants.
//!
//! BusyBox and the other programs come from the host at each boot, not from the cache, so they are
//! never older than the host.

use crate::cpio::Archive;
use crate::error::At;
use crate::{Guest, OracleError, tools};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The first process of a guest that boots with its files.
const INIT: &str = concat!(include_str!("guest/begin"), include_str!("guest/end"));
/// The first process of a guest that is saved before it has its files.
pub const WAITING_INIT: &str = concat!(
    include_str!("guest/begin"),
    include_str!("guest/fetch"),
    include_str!("guest/end")
);
/// Functions that a guest script can call.
pub const HELPERS: &str = include_str!("guest/helpers");

/// Directories that the guest expects.
const DIRECTORIES: [&str; 6] = ["/bin", "/proc", "/sys", "/dev", "/mnt", "/tmp"];

/// The kernel looks for a partition table in so many bytes of a disk, and complains of a shorter
/// one.
const DISK_BYTES_MIN: u64 = 64 << 10;

/// Writes the first file system of a guest that boots with its files.
pub fn write(to: &Path, base: &Path, guest: &Guest) -> Result<(), OracleError> {
    let mut archive = begin(to, base)?;
    system(&mut archive, INIT).at(to)?;
    script(&mut archive, guest).at(to)?;
    add_programs(
        &mut archive,
        [busybox()?].into_iter().chain(programs(guest)),
    )?;
    add_files(&mut archive, guest)?;
    archive.finish().map(drop).at(to)
}

/// Writes the first file system of a guest that waits for its files.
pub fn write_waiting(to: &Path, base: &Path) -> Result<(), OracleError> {
    let mut archive = begin(to, base)?;
    system(&mut archive, WAITING_INIT).at(to)?;
    add_programs(&mut archive, [busybox()?].into_iter())?;
    archive.finish().map(drop).at(to)
}

/// Writes the disk with the files that a guest has waited for.
pub fn write_files(to: &Path, guest: &Guest) -> Result<(), OracleError> {
    let mut archive = Archive::new(BufWriter::new(File::create(to).at(to)?));
    script(&mut archive, guest).at(to)?;
    add_programs(&mut archive, programs(guest))?;
    add_files(&mut archive, guest)?;
    let out = archive.finish().at(to)?.into_inner();
    let out = out.map_err(io::IntoInnerError::into_error).at(to)?;
    let bytes = out.metadata().at(to)?.len();
    out.set_len(bytes.max(DISK_BYTES_MIN)).at(to)
}

/// Copies the kernel's archive; ours goes behind it.
fn begin(to: &Path, base: &Path) -> Result<Archive<BufWriter<File>>, OracleError> {
    let mut out = File::create(to).at(to)?;
    let mut archived = File::open(base).at(base)?;
    io::copy(&mut archived, &mut out).at(to)?;
    Ok(Archive::new(BufWriter::new(out)))
}

/// Directories, links and scripts that are the same in each guest.
fn system<W: Write>(archive: &mut Archive<W>, init: &str) -> io::Result<()> {
    DIRECTORIES
        .iter()
        .try_for_each(|directory| archive.directory(Path::new(directory)))?;
    // The kernel itself calls /sbin/modprobe, for an algorithm that a file system asks for.
    for link in ["/bin/sh", "/sbin/modprobe"] {
        archive.symlink(Path::new(link), "/bin/busybox")?;
    }
    add_text(archive, "/init", 0o755, init)?;
    add_text(archive, "/helpers", 0o644, HELPERS)
}

fn script<W: Write>(archive: &mut Archive<W>, guest: &Guest) -> io::Result<()> {
    add_text(archive, "/script", 0o644, &guest.script)
}

fn add_text<W: Write>(
    archive: &mut Archive<W>,
    path: &str,
    mode: u32,
    text: &str,
) -> io::Result<()> {
    let bytes = &mut text.as_bytes();
    archive.file(Path::new(path), mode, text.len() as u64, bytes)
}

fn add_files<W: Write>(archive: &mut Archive<W>, guest: &Guest) -> Result<(), OracleError> {
    guest.files.iter().try_for_each(|(path, bytes)| {
        let content = &mut bytes.as_slice();
        archive
            .file(path, 0o755, bytes.len() as u64, content)
            .at(path)
    })
}

/// Adds programs with their libraries.
fn add_programs<W: Write>(
    archive: &mut Archive<W>,
    programs: impl Iterator<Item = Program>,
) -> Result<(), OracleError> {
    for (path, from) in with_libraries(programs)? {
        let mut content = File::open(&from).at(&from)?;
        let length = content.metadata().at(&from)?.len();
        archive.file(&path, 0o755, length, &mut content).at(&from)?;
    }
    Ok(())
}

/// Where a program goes, and where it comes from.
type Program = (PathBuf, PathBuf);

fn busybox() -> Result<Program, OracleError> {
    Ok(("/bin/busybox".into(), tools::locate("busybox")?))
}

fn programs(guest: &Guest) -> impl Iterator<Item = Program> {
    guest
        .programs
        .iter()
        .map(|path| (path.clone(), path.clone()))
}

fn with_libraries(
    programs: impl Iterator<Item = Program>,
) -> Result<BTreeSet<Program>, OracleError> {
    let mut files = BTreeSet::new();
    for (path, from) in programs {
        let libraries = tools::libraries(&from)?;
        files.extend(
            libraries
                .into_iter()
                .map(|library| (library.clone(), library)),
        );
        files.insert((path, from));
    }
    Ok(files)
}
