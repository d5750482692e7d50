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

const INIT: &str = include_str!("guest/init");
const HELPERS: &str = include_str!("guest/helpers");

/// Directories that the guest expects.
const DIRECTORIES: [&str; 6] = ["/bin", "/proc", "/sys", "/dev", "/mnt", "/tmp"];

/// Writes the initial file system of `guest` to the file `to`.
pub fn write(to: &Path, base: &Path, guest: &Guest) -> Result<(), OracleError> {
    let mut out = File::create(to).at(to)?;
    let mut archived = File::open(base).at(base)?;
    io::copy(&mut archived, &mut out).at(to)?;
    let mut archive = Archive::new(BufWriter::new(out));
    own(&mut archive, guest).at(to)?;
    add_files(&mut archive, guest)?;
    archive.finish().map(drop).at(to)
}

fn add_files<W: Write>(archive: &mut Archive<W>, guest: &Guest) -> Result<(), OracleError> {
    for (path, from) in host_files(guest)? {
        let mut content = File::open(&from).at(&from)?;
        let length = content.metadata().at(&from)?.len();
        archive.file(&path, 0o755, length, &mut content).at(&from)?;
    }
    for (path, bytes) in &guest.files {
        archive
            .file(path, 0o755, bytes.len() as u64, &mut bytes.as_slice())
            .at(path)?;
    }
    Ok(())
}

/// Directories, links and scripts of our own.
fn own<W: Write>(archive: &mut Archive<W>, guest: &Guest) -> io::Result<()> {
    DIRECTORIES
        .iter()
        .try_for_each(|directory| archive.directory(Path::new(directory)))?;
    // The kernel itself calls /sbin/modprobe, for an algorithm that a file system asks for.
    for link in ["/bin/sh", "/sbin/modprobe"] {
        archive.symlink(Path::new(link), "/bin/busybox")?;
    }
    for (path, mode, text) in [
        ("/init", 0o755, INIT),
        ("/helpers", 0o644, HELPERS),
        ("/script", 0o644, guest.script.as_str()),
    ] {
        archive.file(
            Path::new(path),
            mode,
            text.len() as u64,
            &mut text.as_bytes(),
        )?;
    }
    Ok(())
}

/// The programs and their libraries: where each goes, and where it comes from.
fn host_files(guest: &Guest) -> Result<BTreeSet<(PathBuf, PathBuf)>, OracleError> {
    let mut programs = vec![(PathBuf::from("/bin/busybox"), tools::locate("busybox")?)];
    programs.extend(
        guest
            .programs
            .iter()
            .map(|path| (path.clone(), path.clone())),
    );
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
