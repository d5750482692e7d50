//! Images of flash and of disks, opened to be read.

use crate::failure::{ImageError, guarded, raised};
use nandlab_image::ImageError as Refusal;
use nandlab_image::check::check;
use nandlab_image::detect::{EccHint, Hints};
use nandlab_image::dir_out::DirOut;
use nandlab_image::sink::{Bytes, Sink};
use nandlab_image::tree::{Entry, Node};
use nandlab_image::volume::{Access, Opening, Volume};
use nandlab_image::walk;
use nandlab_vfs::{Attr, Errno, FileSystem, FileType};
use pyo3::exceptions::{
    PyFileNotFoundError, PyIsADirectoryError, PyNotADirectoryError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

/// An image, opened to be read. Each call opens it for itself, so that any thread may call.
#[pyclass(frozen, module = "nandlab._nandlab")]
pub struct Image {
    path: PathBuf,
    opening: Opening,
}

#[pymethods]
impl Image {
    #[new]
    #[pyo3(signature = (path, *, volume, block, page, oob, ecc, salvage))]
    fn new(
        path: PathBuf,
        volume: Option<String>,
        block: Option<u32>,
        page: Option<u32>,
        oob: Option<u32>,
        ecc: Option<&str>,
        salvage: bool,
    ) -> PyResult<Self> {
        let hints = Hints {
            block,
            page,
            oob,
            ecc: ecc.map(code).transpose()?,
            ..Hints::default()
        };
        let opening = Opening {
            hints,
            volume,
            salvage,
            ..Opening::default()
        };
        Ok(Self { path, opening })
    }

    /// Its layers, as JSON.
    fn layers(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |volume| Ok(json(&volume.layers)))
    }

    /// What a check comes to, in one word, and its findings as JSON.
    fn check(&self, py: Python<'_>) -> PyResult<(String, String)> {
        self.with(py, |volume| {
            let checked = check(volume)?;
            Ok((checked.verdict().to_string(), json(&checked)))
        })
    }

    /// The entries of a directory, by name.
    fn list<'py>(&self, py: Python<'py>, path: OsString) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let entries = self.with(py, |volume| {
            let fs = volume.fs()?;
            let attr = resolved(fs, &path)?;
            if attr.kind != FileType::Directory {
                return Err(refused(&path, Errno::NotDirectory));
            }
            let mut entries = Vec::new();
            walk::each_in(fs, attr.ino, path.as_bytes(), &mut |entry| {
                entries.push(entry);
                Ok(())
            })?;
            Ok(entries)
        })?;
        entries.iter().map(|entry| described(py, entry)).collect()
    }

    /// Every entry below a directory, each directory before what is in it.
    fn walk<'py>(&self, py: Python<'py>, path: OsString) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let entries = self.with(py, |volume| {
            let mut entries = Entries(Vec::new());
            let mut nothing = |_| {};
            let mut walk = volume.walk(self.opening.salvage, &mut nothing)?;
            walk.run(path.as_bytes(), &mut entries)?;
            Ok(entries.0)
        })?;
        entries.iter().map(|entry| described(py, entry)).collect()
    }

    /// One entry.
    fn entry<'py>(&self, py: Python<'py>, path: OsString) -> PyResult<Bound<'py, PyDict>> {
        let entry = self.with(py, |volume| {
            let (_, entry) = walk::one(volume.fs()?, path.as_bytes())?;
            Ok(entry)
        })?;
        described(py, &entry)
    }

    /// Bytes of a file, from `start` to before `end` or to its end.
    #[pyo3(signature = (path, start, end))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        path: OsString,
        start: u64,
        end: Option<u64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.with(py, |volume| {
            let fs = volume.fs()?;
            let attr = resolved(fs, &path)?;
            match attr.kind {
                FileType::File => {}
                FileType::Directory => return Err(refused(&path, Errno::IsDirectory)),
                _ => return Err(refused(&path, Errno::Invalid)),
            }
            let end = end.unwrap_or(attr.size).min(attr.size);
            let mut bytes = Vec::new();
            let mut part = vec![0; 1 << 20];
            let mut at = start;
            while at < end {
                let wanted = (end - at).min(part.len() as u64) as usize;
                let read = fs.read(attr.ino, at, &mut part[..wanted]);
                let read = read.map_err(|error| refused(&path, error))?;
                if read == 0 {
                    break;
                }
                bytes.extend_from_slice(&part[..read]);
                at += read as u64;
            }
            Ok(bytes)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Takes the tree out into a directory, which is empty or missing. Returns the losses, as JSON.
    fn extract(&self, py: Python<'_>, target: PathBuf, path: OsString) -> PyResult<String> {
        self.with(py, |volume| {
            let mut sink = DirOut::new(&target)?;
            let mut nothing = |_| {};
            let mut walk = volume.walk(self.opening.salvage, &mut nothing)?;
            walk.run(path.as_bytes(), &mut sink)?;
            let mut losses = std::mem::take(&mut walk.losses);
            losses.merge(std::mem::take(&mut sink.losses));
            Ok(json(&losses))
        })
    }
}

impl Image {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Volume) -> Result<T, Refusal> + Send,
    ) -> PyResult<T> {
        guarded(py, || {
            let volume = Volume::open(&self.path, &self.opening, Access::Read);
            volume
                .and_then(|mut volume| work(&mut volume))
                .map_err(|error| exception(&error))
        })
    }
}

/// The entries of a walk. Contents are not read.
struct Entries(Vec<Entry>);

impl Sink for Entries {
    fn put(&mut self, entry: &Entry, _: &mut dyn Bytes) -> Result<(), Refusal> {
        self.0.push(entry.clone());
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Refusal> {
        Ok(())
    }
}

fn json(value: &impl serde::Serialize) -> String {
    // Maps with keys that are no text would fail: there are none.
    serde_json::to_string(value).unwrap_or_default()
}

fn code(name: &str) -> PyResult<EccHint> {
    if name == "none" {
        return Ok(EccHint::None);
    }
    let code = name
        .parse()
        .map_err(|error| PyValueError::new_err(format!("ecc: {error}")))?;
    Ok(EccHint::Code(code))
}

/// What a path leads to. The file system is closed with the call, so that nothing is given back.
fn resolved(fs: &mut dyn FileSystem, path: &OsStr) -> Result<Attr, Refusal> {
    nandlab_vfs::path::resolve(fs, path.as_bytes()).map_err(|error| refused(path, error))
}

fn refused(path: &OsStr, error: Errno) -> Refusal {
    Refusal::Call {
        path: nandlab_image::Shown::path(path.as_bytes()),
        error,
        why: String::new(),
    }
}

/// The exception that Python's own files would raise, where there is one.
fn exception(error: &Refusal) -> PyErr {
    let new = match error {
        Refusal::Call {
            error: Errno::NoEntry,
            ..
        } => PyFileNotFoundError::new_err::<String>,
        Refusal::Call {
            error: Errno::NotDirectory,
            ..
        } => PyNotADirectoryError::new_err::<String>,
        Refusal::Call {
            error: Errno::IsDirectory,
            ..
        } => PyIsADirectoryError::new_err::<String>,
        _ => ImageError::new_err::<String>,
    };
    raised(new, error)
}

fn described<'py>(py: Python<'py>, entry: &Entry) -> PyResult<Bound<'py, PyDict>> {
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let out = PyDict::new(py);
    out.set_item("path", text(&entry.path))?;
    out.set_item("kind", kind(&entry.node))?;
    out.set_item("mode", entry.mode)?;
    out.set_item("uid", entry.uid)?;
    out.set_item("gid", entry.gid)?;
    out.set_item("size", entry.size())?;
    out.set_item(
        "mtime_ns",
        i128::from(entry.mtime.secs) * 1_000_000_000 + i128::from(entry.mtime.nanos),
    )?;
    let target = match &entry.node {
        Node::Symlink { target } => Some(text(target)),
        Node::Link { to } => Some(text(to)),
        _ => None,
    };
    out.set_item("target", target)?;
    let device = match entry.node {
        Node::Character { device } | Node::Block { device } => Some(device),
        _ => None,
    };
    out.set_item("device", device)?;
    let xattrs = PyDict::new(py);
    for (name, value) in &entry.xattrs {
        xattrs.set_item(text(name), PyBytes::new(py, value))?;
    }
    out.set_item("xattrs", xattrs)?;
    Ok(out)
}

fn kind(node: &Node) -> &'static str {
    match node {
        Node::Directory => "directory",
        Node::File { .. } => "file",
        Node::Symlink { .. } => "symlink",
        Node::Link { .. } => "link",
        Node::Fifo => "fifo",
        Node::Socket => "socket",
        Node::Character { .. } => "character",
        Node::Block { .. } => "block",
    }
}
