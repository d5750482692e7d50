//! A tree as an archive (tar): ustar with PAX records where that is too little, readable by GNU
//! tar, bsdtar and star.
//!
//! *Promises.* The same tree gives the same bytes. Kept are names and targets of any bytes and
//! length, owners and times of any size, and parts of seconds. Attributes are kept
//! (`SCHILY.xattr.`), and access lists as attributes and as text (`SCHILY.acl.`, for tools that
//! look there). Holes are kept in GNU's sparse format 1.0. Sockets are listed as losses: no type is
//! theirs. With `SCHILY.filetype=socket` they come back here and in star; others make an empty file
//! of them.

use crate::error::{ImageError, Result};
use crate::sink::{Bytes, Sink};
use crate::tree::{Entry, Node};
use crate::walk::Losses;
use nandlab_vfs::Time;
use nandlab_xattr::acl;
use std::io::Write;
use std::path::PathBuf;
use tar::{EntryType, Header};

const BLOCK: usize = 512;
/// The largest owner, group or device number in seven octal digits.
const NUMBER_MAX: u32 = 0o777_7777;
/// The latest time in eleven octal digits.
const SECONDS_MAX: i64 = 0o777_7777_7777;

/// The records of access lists as text, and their attributes.
pub(crate) const ACLS: [(&[u8], &[u8]); 2] = [
    (b"SCHILY.acl.access", acl::ACCESS),
    (b"SCHILY.acl.default", acl::DEFAULT),
];

/// An archive that is being written.
#[derive(Debug)]
pub struct TarOut<W> {
    to: W,
    /// The path of the archive, for messages.
    path: PathBuf,
    records: Vec<u8>,
    /// What other tools will not find.
    pub losses: Losses,
}

impl<W: Write> TarOut<W> {
    /// An archive that goes to `to`, which messages call `path`.
    pub fn new(to: W, path: impl Into<PathBuf>) -> Self {
        Self {
            to,
            path: path.into(),
            records: Vec::new(),
            losses: Losses::default(),
        }
    }

    /// What it was written to, once it has been finished.
    pub fn into_inner(self) -> W {
        self.to
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.to
            .write_all(bytes)
            .map_err(ImageError::file(&self.path))
    }

    fn pad(&mut self, len: u64) -> Result<()> {
        let rest = (len as usize).wrapping_neg() % BLOCK;
        self.write(&[0; BLOCK][..rest])
    }

    /// One record: its length in decimal, itself included, then `key=value`.
    fn record(&mut self, key: &[u8], value: &[u8]) {
        let rest = key.len() + value.len() + 3;
        let mut len = rest + 1;
        while len != rest + len.to_string().len() {
            len = rest + len.to_string().len();
        }
        self.records
            .extend([len.to_string().as_bytes(), b" ", key, b"=", value, b"\n"].concat());
    }

    /// A header as far as ustar goes; what does not fit becomes a record.
    fn header(&mut self, entry: &Entry, sparse: bool) -> Header {
        let mut header = Header::new_ustar();
        let (kind, target) = kind(&entry.node);
        header.set_entry_type(kind);
        header.set_mode(entry.mode.into());
        self.names(&mut header, entry, target, sparse);
        self.owner(&mut header, entry);
        header.set_mtime(entry.mtime.secs.clamp(0, SECONDS_MAX) as u64);
        if entry.mtime.nanos > 0 || !(0..=SECONDS_MAX).contains(&entry.mtime.secs) {
            self.record(b"mtime", seconds(entry.mtime).as_bytes());
        }
        if let Node::Character { device } | Node::Block { device } = entry.node {
            self.device(&mut header, device);
        }
        if entry.node == Node::Socket {
            self.record(b"SCHILY.filetype", b"socket");
            let what = "a socket, which most tools take out of an archive as an empty file";
            self.losses.add(&entry.path, what);
        }
        self.attributes(entry);
        header
    }

    fn names(&mut self, header: &mut Header, entry: &Entry, target: &[u8], sparse: bool) {
        let end: &[u8] = match entry.node {
            Node::Directory => b"/",
            _ => b"",
        };
        let name = match &entry.path[..] {
            b"" => b"./".to_vec(),
            path => [path, end].concat(),
        };
        let is_binary = |text: &[u8]| text.len() > 100 && str::from_utf8(text).is_err();
        if is_binary(&name) || is_binary(target) {
            self.record(b"hdrcharset", b"BINARY");
        }
        // A sparse file's name in the header is for those who do not know of holes.
        let key: &[u8] = if sparse { b"GNU.sparse.name" } else { b"path" };
        let fields = header.as_old_mut();
        self.text(key, &name, sparse, &mut fields.name);
        self.text(b"linkpath", target, false, &mut fields.linkname);
    }

    fn owner(&mut self, header: &mut Header, entry: &Entry) {
        header.set_uid(entry.uid.min(NUMBER_MAX).into());
        self.large_number(b"uid", entry.uid);
        header.set_gid(entry.gid.min(NUMBER_MAX).into());
        self.large_number(b"gid", entry.gid);
    }

    fn device(&mut self, header: &mut Header, (major, minor): (u32, u32)) {
        // Both fields are in every ustar header.
        _ = header.set_device_major(major.min(NUMBER_MAX));
        self.large_number(b"SCHILY.devmajor", major);
        _ = header.set_device_minor(minor.min(NUMBER_MAX));
        self.large_number(b"SCHILY.devminor", minor);
    }

    /// Records a number that its field in the header cannot hold.
    fn large_number(&mut self, key: &[u8], number: u32) {
        if number > NUMBER_MAX {
            self.record(key, number.to_string().as_bytes());
        }
    }

    fn attributes(&mut self, entry: &Entry) {
        for (name, value) in &entry.xattrs {
            let list = ACLS.iter().find(|(_, attribute)| attribute == name);
            if let Some(((key, _), text)) = list.zip(acl::text::to_text(value).ok()) {
                self.record(key, text.as_bytes());
            }
            self.record(&[b"SCHILY.xattr.", &name[..]].concat(), value);
        }
    }

    fn text(&mut self, key: &[u8], text: &[u8], always: bool, field: &mut [u8; 100]) {
        let len = text.len().min(field.len());
        field[..len].copy_from_slice(&text[..len]);
        if always || text.len() > field.len() {
            self.record(key, text);
        }
    }

    fn put(&mut self, mut header: Header, stored: u64) -> Result<()> {
        if stored > 0o777_7777_7777 {
            self.record(b"size", stored.to_string().as_bytes());
        }
        if !self.records.is_empty() {
            let mut extended = Header::new_ustar();
            extended.set_entry_type(EntryType::XHeader);
            extended.as_old_mut().name[..11].copy_from_slice(b"PaxHeaders/");
            extended.set_mode(0o644);
            extended.set_mtime(0);
            extended.set_uid(0);
            extended.set_gid(0);
            extended.set_size(self.records.len() as u64);
            extended.set_cksum();
            self.write(extended.as_bytes())?;
            let records = std::mem::take(&mut self.records);
            self.write(&records)?;
            self.pad(records.len() as u64)?;
        }
        // Beyond 8 GiB in base 256, for those who do not read the record.
        header.set_size(stored);
        header.set_cksum();
        self.write(header.as_bytes())
    }
}

/// The type of an entry in its header, and the target of a link.
fn kind(node: &Node) -> (EntryType, &[u8]) {
    match node {
        Node::Directory => (EntryType::Directory, &[]),
        Node::File { .. } | Node::Socket => (EntryType::Regular, &[]),
        Node::Symlink { target } => (EntryType::Symlink, target),
        Node::Link { to } => (EntryType::Link, to),
        Node::Fifo => (EntryType::Fifo, &[]),
        Node::Character { .. } => (EntryType::Char, &[]),
        Node::Block { .. } => (EntryType::Block, &[]),
    }
}

/// As PAX has it, without zeros at the end.
fn seconds(time: Time) -> String {
    match time.nanos {
        0 => time.secs.to_string(),
        // Of a time before 1970 the fraction counts backwards.
        nanos if time.secs < 0 => {
            let secs = time.secs + 1;
            let sign = if secs == 0 { "-" } else { "" };
            format!("{sign}{secs}.{:09}", 1_000_000_000 - nanos)
                .trim_end_matches('0')
                .into()
        }
        nanos => format!("{}.{nanos:09}", time.secs)
            .trim_end_matches('0')
            .into(),
    }
}

impl<W: Write> Sink for TarOut<W> {
    fn put(&mut self, entry: &Entry, bytes: &mut dyn Bytes) -> Result<()> {
        let Node::File { size } = entry.node else {
            let header = self.header(entry, false);
            return self.put(header, 0);
        };
        let mut map = bytes.map()?;
        let held: u64 = map.iter().map(|(_, len)| len).sum();
        if held == size {
            let header = self.header(entry, false);
            self.put(header, size)?;
            bytes.each(&mut |_, part| self.write(part))?;
            return self.pad(size);
        }
        // GNU tar ends a file where its last part ends.
        if map.last().is_none_or(|(at, len)| at + len < size) {
            map.push((size, 0));
        }
        let mut list = format!("{}\n", map.len());
        for (at, len) in &map {
            list += &format!("{at}\n{len}\n");
        }
        let padded = list.len().next_multiple_of(BLOCK);
        let mut list = list.into_bytes();
        list.resize(padded, 0);
        for (key, value) in [
            ("GNU.sparse.major", 1),
            ("GNU.sparse.minor", 0),
            ("GNU.sparse.realsize", size),
        ] {
            self.record(key.as_bytes(), value.to_string().as_bytes());
        }
        let header = self.header(entry, true);
        self.put(header, padded as u64 + held)?;
        self.write(&list)?;
        bytes.each(&mut |_, part| self.write(part))?;
        self.pad(held)
    }

    fn finish(&mut self) -> Result<()> {
        self.write(&[0; 2 * BLOCK])?;
        self.to.flush().map_err(ImageError::file(&self.path))
    }
}
