//! Writes the "newc" cpio archives that Linux unpacks into its first root file system.
//!
//! Directories that a path needs are added by themselves, once; owner is root, times are zero, so
//! equal content gives equal bytes. An archive ends on a multiple of [`BLOCK`], so that archives
//! can be put one behind the other.

use std::collections::BTreeSet;
use std::io::{self, Error, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Archives are padded to a multiple of this many bytes.
const BLOCK: u64 = 512;
const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_777;

/// An archive being written.
pub struct Archive<W> {
    out: W,
    written: u64,
    entries: u32,
    directories: BTreeSet<PathBuf>,
}

impl<W: Write> Archive<W> {
    pub fn new(out: W) -> Self {
        Self {
            out,
            written: 0,
            entries: 0,
            directories: BTreeSet::new(),
        }
    }

    /// Adds a directory and those above it.
    pub fn directory(&mut self, path: &Path) -> io::Result<()> {
        let path = inside(path)?;
        let mut above: Vec<_> = path
            .ancestors()
            .filter(|p| !p.as_os_str().is_empty())
            .collect();
        above.reverse();
        for directory in above {
            if self.directories.insert(directory.into()) {
                self.header(directory, DIRECTORY, 0)?;
            }
        }
        Ok(())
    }

    /// Adds a file of `length` bytes, read from `content`, with permission bits `mode`. A later
    /// file of the same path replaces it.
    pub fn file(
        &mut self,
        path: &Path,
        mode: u32,
        length: u64,
        content: &mut dyn Read,
    ) -> io::Result<()> {
        self.parents(path)?;
        self.header(inside(path)?, FILE | mode, length)?;
        let copied = io::copy(&mut content.take(length), &mut self.out)?;
        if copied != length {
            return Err(Error::new(
                ErrorKind::UnexpectedEof,
                format!("shrank to {copied} bytes while read, expected {length}"),
            ));
        }
        self.written += copied;
        self.pad(4)
    }

    /// Adds a symbolic link.
    pub fn symlink(&mut self, path: &Path, target: &str) -> io::Result<()> {
        self.parents(path)?;
        self.header(inside(path)?, SYMLINK, target.len() as u64)?;
        self.put(target.as_bytes())?;
        self.pad(4)
    }

    pub fn finish(mut self) -> io::Result<W> {
        self.entries = 0;
        self.header(Path::new("TRAILER!!!"), 0, 0)?;
        self.pad(BLOCK)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn parents(&mut self, path: &Path) -> io::Result<()> {
        path.parent()
            .map_or(Ok(()), |parent| self.directory(parent))
    }

    /// Magic, then thirteen fields of eight hexadecimal digits: inode, mode, uid, gid, links,
    /// mtime, size, four device numbers, length of the name with its final NUL, checksum (unused).
    fn header(&mut self, path: &Path, mode: u32, size: u64) -> io::Result<()> {
        let size = u32::try_from(size)
            .map_err(|_| Error::new(ErrorKind::FileTooLarge, "cpio holds files up to 4 GiB"))?;
        let name = path.as_os_str().as_bytes();
        self.entries += 1;
        let mut head = b"070701".to_vec();
        for field in [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            size,
            0,
            0,
            0,
            0,
            name.len() as u32 + 1,
            0,
        ] {
            write!(head, "{field:08X}")?;
        }
        head.extend_from_slice(name);
        head.push(0);
        self.put(&head)?;
        self.pad(4)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn pad(&mut self, to: u64) -> io::Result<()> {
        let short = self.written.next_multiple_of(to) - self.written;
        self.put(&[0; BLOCK as usize][..short as usize])
    }
}

/// The path as the archive names it: relative to the root.
fn inside(path: &Path) -> io::Result<&Path> {
    let path = path.strip_prefix("/").unwrap_or(path);
    let plain = path
        .components()
        .all(|c| matches!(c, std::path::Component::Normal(_)));
    if plain && !path.as_os_str().as_bytes().contains(&0) {
        Ok(path)
    } else {
        Err(Error::new(
            ErrorKind::InvalidInput,
            "a path in the guest must be absolute, without `.`, `..` or NUL",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(build: impl FnOnce(&mut Archive<Vec<u8>>)) -> Vec<u8> {
        let mut archive = Archive::new(Vec::new());
        build(&mut archive);
        archive.finish().unwrap()
    }

    /// The `(name, mode, content)` of every entry, by the format's own rules.
    fn entries(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut at = 0;
        let mut found = Vec::new();
        loop {
            assert_eq!(&bytes[at..at + 6], b"070701", "at {at}");
            let field = |i: usize| {
                let digits = &bytes[at + 6 + 8 * i..at + 14 + 8 * i];
                u32::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap()
            };
            let name_end = at + 110 + field(11) as usize;
            let name = String::from_utf8(bytes[at + 110..name_end - 1].into()).unwrap();
            let start = name_end.next_multiple_of(4);
            let end = start + field(6) as usize;
            if name == "TRAILER!!!" {
                return found;
            }
            found.push((name, field(1), bytes[start..end].into()));
            at = end.next_multiple_of(4);
        }
    }

    #[test]
    fn entries_read_back_with_their_directories_first() {
        let bytes = archive(|a| {
            a.file(Path::new("/a/b/c"), 0o755, 5, &mut &b"hello"[..])
                .unwrap();
            a.file(Path::new("/a/d"), 0o644, 0, &mut io::empty())
                .unwrap();
            a.symlink(Path::new("/a/l"), "b/c").unwrap();
        });
        assert_eq!(bytes.len() % BLOCK as usize, 0);
        let expected: [(&str, u32, &[u8]); 5] = [
            ("a", DIRECTORY, b""),
            ("a/b", DIRECTORY, b""),
            ("a/b/c", 0o100_755, b"hello"),
            ("a/d", 0o100_644, b""),
            ("a/l", SYMLINK, b"b/c"),
        ];
        assert_eq!(
            entries(&bytes),
            expected.map(|(name, mode, content)| (name.into(), mode, content.into()))
        );
    }

    #[test]
    fn a_file_shorter_than_announced_is_refused() {
        let error = Archive::new(Vec::new())
            .file(Path::new("x"), 0o644, 9, &mut &b"short"[..])
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn paths_outside_the_root_and_huge_files_are_refused() {
        let mut archive = Archive::new(Vec::new());
        let refused = archive
            .file(Path::new("/../etc/x"), 0o644, 0, &mut io::empty())
            .unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        let refused = archive
            .file(Path::new("/big"), 0o644, 1 << 32, &mut io::empty())
            .unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::FileTooLarge);
    }
}
