//! A tree from wherever one can be: a directory, an archive, a manifest, another image.
//!
//! *Promises.* What a source is, is found by what is in it. *Knows nothing of* what becomes of the
//! tree.

use crate::error::{ImageError, Result};
use crate::tree::Tree;
use crate::volume::{Access, Opening, Volume, detected};
use crate::walk::Losses;
use crate::{dir_in, manifest, tar_in, tar_out::TarOut};
use std::fs::File;
use std::io::BufWriter;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// The tree in a source; `-` is an archive on standard input. Files of a manifest are below `root`,
/// by default below its own directory.
pub fn read(path: &Path, root: Option<&Path>, opening: &Opening) -> Result<Tree> {
    if path == Path::new("-") {
        return tar_in::read(path);
    }
    if path.is_dir() {
        return dir_in::read(path);
    }
    let mut head = [0; manifest::MAGIC.len()];
    if File::open(path)
        .map_err(ImageError::file(path))?
        .read_exact_at(&mut head, 0)
        .is_ok()
        && head == manifest::MAGIC
    {
        let dir = path
            .parent()
            .filter(|dir| !dir.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        return manifest::read(path, root.unwrap_or(dir));
    }
    if tar_in::is_archive(path)? {
        return tar_in::read(path);
    }
    match detected(path, opening) {
        Ok(_) => image(path, opening, false).map(|(tree, _)| tree),
        // Archives of old have no magic number.
        Err(ImageError::Unknown { .. } | ImageError::File { .. }) => tar_in::read(path),
        Err(unclear) => Err(unclear),
    }
}

/// Everything that is in an image, by way of a temporary archive without a name; with `salvage` as
/// far as it can be had, and what was lost.
pub fn image(path: &Path, opening: &Opening, salvage: bool) -> Result<(Tree, Losses)> {
    let mut volume = Volume::open(path, opening, Access::Read)?;
    volume_tree(&mut volume, path, salvage)
}

/// The same of an open image; errors call it `path`.
pub(crate) fn volume_tree(
    volume: &mut Volume,
    path: &Path,
    salvage: bool,
) -> Result<(Tree, Losses)> {
    let dir = std::env::temp_dir();
    let file = tempfile::tempfile_in(&dir).map_err(ImageError::file(&dir))?;
    let mut sink = TarOut::new(BufWriter::with_capacity(1 << 20, &file), &dir);
    let mut ignored = |_| {};
    let mut walk = volume.walk(salvage, &mut ignored)?;
    let outcome = walk.run(b"", &mut sink);
    let losses = std::mem::take(&mut walk.losses);
    outcome.map_err(|error| volume.explain(error))?;
    drop(sink);
    Ok((tar_in::of(file, path)?, losses))
}
