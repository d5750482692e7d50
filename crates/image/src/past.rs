//! What formats other than JFFS2 and UBIFS still know of the past: deleted files of ext2, versions
//! of files of F2FS.
//!
//! *Promises.* Nothing is written but what is asked for. What is no longer to be had is a hole, and
//! counted. *Knows nothing of* JFFS2, UBIFS and UBI: see [`history`](crate::history),
//! [`ubi`](crate::ubi).

use crate::error::{ImageError, Result, Shown};
use crate::volume::{Mounted, Volume};
use nandlab_vfs::FileType;
use serde::Serialize;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// A file as it once was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Former {
    /// When its contents changed, in seconds since 1970.
    pub mtime: i64,
    /// The inode number of that version.
    pub ino: u32,
    /// A number that tells versions apart and grows with time: of F2FS the checkpoint, of ext2 the
    /// time of the deletion.
    pub version: u32,
    /// Its name, if it is known.
    pub name: Shown,
    /// The length of the contents in bytes.
    pub size: u64,
    /// The permission bits of that version.
    pub mode: u16,
    /// Whether it is the version that counts.
    pub current: bool,
    /// Where its inode lies, in bytes; of ext2 nothing.
    pub offset: Option<u64>,
    /// Bytes that belong to others now.
    pub lost: u64,
    #[serde(skip)]
    from: From,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum From {
    F2fs(nandlab_f2fs::Version),
    Ext(nandlab_ext::Deleted),
}

fn failed(layer: &'static str, why: impl ToString) -> ImageError {
    ImageError::Open {
        layer,
        why: why.to_string(),
    }
}

/// Every former file, by inode and version. An error for formats that keep nothing.
pub fn former(volume: &mut Volume) -> Result<Vec<Former>> {
    let mut all = Vec::new();
    match &mut volume.mounted {
        Some(Mounted::F2fs(fs)) => {
            let mut versions = Vec::new();
            fs.versions(&mut |version| {
                if FileType::from_mode(version.mode) == Some(FileType::File) {
                    versions.push(version.clone());
                }
            })
            .map_err(|error| failed("F2FS", error))?;
            for version in versions {
                let lost = fs
                    .contents_of(&version, &mut |_, _| {})
                    .map_err(|error| failed("F2FS", error))?;
                all.push(Former {
                    mtime: version.mtime.secs,
                    ino: version.ino,
                    version: version.checkpoint,
                    name: Shown(version.name.clone()),
                    size: version.size,
                    mode: version.mode & 0o7777,
                    current: version.current,
                    offset: Some(u64::from(version.addr) * 4096),
                    lost,
                    from: From::F2fs(version),
                });
            }
        }
        Some(Mounted::Ext(fs)) => {
            for deleted in fs.deleted().map_err(|error| failed("ext", error))? {
                all.push(Former {
                    mtime: deleted.mtime.secs,
                    ino: deleted.inode,
                    version: deleted.dtime,
                    name: Shown(Vec::new()),
                    size: deleted.size,
                    mode: deleted.mode,
                    current: false,
                    offset: None,
                    lost: deleted.reused,
                    from: From::Ext(deleted),
                });
            }
        }
        _ => {
            let found = volume
                .layers
                .last()
                .map_or("nothing".into(), |layer| format!("{layer:?}"));
            let expected =
                "JFFS2, UBIFS, UBI, F2FS or ext2, which keep something of what has been".into();
            return Err(ImageError::Choice {
                what: "format",
                found,
                expected,
            });
        }
    }
    all.sort_by_key(|one| (one.ino, one.version, one.offset));
    Ok(all)
}

/// Writes a former file's contents to an empty file. Gives the bytes that are not to be had.
pub fn contents(volume: &mut Volume, former: &Former, to: &File) -> Result<u64> {
    let written = |error| ImageError::File {
        path: "a file with what was found".into(),
        error,
    };
    to.set_len(former.size).map_err(written)?;
    match (&mut volume.mounted, &former.from) {
        (Some(Mounted::F2fs(fs)), From::F2fs(version)) => {
            let mut outcome = Ok(());
            let lost = fs.contents_of(version, &mut |at, bytes| {
                if outcome.is_ok() {
                    outcome = to.write_all_at(bytes, at);
                }
            });
            outcome.map_err(written)?;
            lost.map_err(|error| failed("F2FS", error))
        }
        (Some(Mounted::Ext(fs)), From::Ext(deleted)) => {
            let mut at = 0;
            let mut buffer = vec![0; 64 * 1024];
            while at < former.size {
                let count = fs
                    .read_deleted(deleted, at, &mut buffer)
                    .map_err(|error| failed("ext", error))?;
                if count == 0 {
                    break;
                }
                if !crate::sink::is_zero(&buffer[..count]) {
                    to.write_all_at(&buffer[..count], at).map_err(written)?;
                }
                at += count as u64;
            }
            Ok(former.lost)
        }
        _ => Err(failed("file system", "another than that of the list")),
    }
}
