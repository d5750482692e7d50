//! An archive (tar) as a tree: ustar, GNU and PAX, as GNU tar, bsdtar, star, docker and we write
//! them.
//!
//! *Promises.* Only headers are read; contents are read from the archive when they are needed.
//! Sparse files of all four kinds keep their holes, attributes (`SCHILY.xattr.`), access lists
//! (`SCHILY.acl.`, names by this machine's), sockets (`SCHILY.filetype`), parts of
//! seconds and times before 1970 are kept. What leads out of the tree, or is of a type that nobody
//! knows, is an error that names the byte. An archive that cannot
//! be sought in, or is compressed with gzip, goes through a temporary file without a name.

use crate::error::{ImageError, Result};
use crate::tar_out::ACLS;
use crate::tree::{Data, Entry, Extent, Node, Origin, Tree, Xattrs, normal};
use nandlab_vfs::Time;
use nandlab_xattr::acl::text::from_text;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tar::{EntryType, Header};

/// The longest map of a sparse file that is read, in bytes.
const MAP_MAX: u64 = 16 << 20;

/// The tree in an archive, in order; `-` is standard input.
pub fn read(path: &Path) -> Result<Tree> {
    let failed = |error| ImageError::File {
        path: path.into(),
        error,
    };
    let file = if path == Path::new("-") {
        spool(io::stdin().lock()).map_err(failed)?
    } else {
        File::open(path).map_err(failed)?
    };
    let mut magic = [0; 2];
    let file = match file.read_at(&mut magic, 0) {
        Ok(2) if magic == [0x1F, 0x8B] => {
            spool(flate2::read::MultiGzDecoder::new(file)).map_err(failed)?
        }
        Ok(_) => file,
        // A pipe.
        Err(_) => spool(file).map_err(failed)?,
    };
    of(file, path)
}

/// Whether a file begins with the header of an archive, or is compressed with gzip.
pub fn is_archive(path: &Path) -> Result<bool> {
    const MAGIC_AT: usize = 257;
    let mut head = [0; 512];
    let file = File::open(path).map_err(ImageError::file(path))?;
    let Ok(count) = file.read_at(&mut head, 0) else {
        // A pipe cannot be an image.
        return Ok(true);
    };
    let is_tar = count == head.len() && head[MAGIC_AT..].starts_with(b"ustar");
    Ok(is_tar || head.starts_with(&[0x1F, 0x8B]))
}

/// The tree in an open archive, in order.
pub fn of(file: File, path: &Path) -> Result<Tree> {
    let mut reader = Reader {
        file: Arc::new(file),
        path,
        tree: Tree::default(),
        before: Before::default(),
        all: Pax::new(),
    };
    let mut at = 0;
    loop {
        match reader.member(at) {
            Ok(Some(next)) => at = next,
            Ok(None) => break,
            Err(why) => {
                return Err(ImageError::Archive {
                    path: path.into(),
                    offset: at,
                    why,
                });
            }
        }
    }
    reader.tree.normalize()?;
    Ok(reader.tree)
}

fn spool(mut from: impl Read) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    io::copy(&mut from, &mut file)?;
    Ok(file)
}

struct Reader<'a> {
    file: Arc<File>,
    path: &'a Path,
    tree: Tree,
    before: Before,
    /// What a header said for all entries behind it.
    all: Pax,
}

/// Place and length of each part of a sparse file.
type Map = Vec<(u64, u64)>;

/// What stands before an entry, by keyword.
type Pax = BTreeMap<Vec<u8>, Vec<u8>>;

/// What was said of the next entry.
#[derive(Debug, Default)]
struct Before {
    pax: Pax,
    /// Parts of a sparse file, which may come many times under the same key.
    sparse: Vec<u64>,
    name: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
}

/// An entry that is being read.
struct Member {
    header: Header,
    /// Where the header is, and where the contents begin.
    at: u64,
    start: u64,
    stored: u64,
    before: Before,
}

impl Member {
    fn target(&self) -> Option<Vec<u8>> {
        let in_pax = self.before.pax.get(&b"linkpath"[..]).cloned();
        in_pax.or_else(|| self.before.target.clone()).or_else(|| {
            self.header
                .link_name_bytes()
                .map(std::borrow::Cow::into_owned)
        })
    }
}

/// The number of a user or a group of this machine.
fn number_of(user: bool, name: &str) -> Option<u32> {
    let path = if user { "/etc/passwd" } else { "/etc/group" };
    let text = std::fs::read_to_string(path).ok()?;
    let mut rows = text.lines().map(|line| line.split(':'));
    let mut row = rows.find(|row| row.clone().next() == Some(name))?;
    row.nth(2)?.parse().ok()
}

impl Reader<'_> {
    /// Reads what is at a place; gives where the next is, or nothing at the end.
    fn member(&mut self, at: u64) -> std::result::Result<Option<u64>, String> {
        let len = self
            .file
            .metadata()
            .map_err(|error| error.to_string())?
            .len();
        if at == len {
            return Ok(None);
        }
        let mut block = [0; 512];
        self.file
            .read_exact_at(&mut block, at)
            .map_err(|_| "the archive ends within a header".to_string())?;
        if block == [0; 512] {
            return Ok(None);
        }
        let header = Header::from_byte_slice(&block).clone();
        let blanked = block.iter().enumerate().map(|(at, byte)| {
            if (148..156).contains(&at) {
                u32::from(b' ')
            } else {
                u32::from(*byte)
            }
        });
        if header.cksum().ok() != Some(blanked.sum()) {
            return Err("no header: its checksum is wrong".into());
        }
        let kind = header.entry_type();
        let in_front = matches!(
            kind,
            EntryType::XHeader
                | EntryType::XGlobalHeader
                | EntryType::GNULongName
                | EntryType::GNULongLink
        );
        let stored = if in_front {
            None
        } else {
            self.before
                .pax
                .get(&b"size"[..])
                .and_then(|text| decimal(text))
        };
        let stored = stored.map_or_else(
            || header.entry_size().map_err(|error| error.to_string()),
            Ok,
        )?;
        let next = stored
            .checked_next_multiple_of(512)
            .and_then(|stored| (at + 512).checked_add(stored))
            .filter(|next| *next <= len);
        // The last contents need not be padded.
        let next = next
            .or_else(|| (at + 512 + stored.min(len) == len).then_some(len))
            .ok_or("the archive ends within an entry")?;
        if in_front {
            self.in_front(kind, at + 512, stored)?;
            return Ok(Some(next));
        }
        let mut before = std::mem::take(&mut self.before);
        self.all.iter().for_each(|(key, value)| {
            _ = before
                .pax
                .entry(key.clone())
                .or_insert_with(|| value.clone())
        });
        let member = Member {
            header,
            at,
            start: at + 512,
            stored,
            before,
        };
        let skipped = self.entry(&member)?;
        Ok(Some(next + skipped))
    }

    /// What is said of the next entry, or of all.
    fn in_front(
        &mut self,
        kind: EntryType,
        at: u64,
        stored: u64,
    ) -> std::result::Result<(), String> {
        if stored > MAP_MAX {
            return Err(format!(
                "an extended header of {stored} bytes, expected at most 16 MiB"
            ));
        }
        let mut bytes = vec![0; stored as usize];
        self.file
            .read_exact_at(&mut bytes, at)
            .map_err(|error| error.to_string())?;
        let text = |bytes: Vec<u8>| Some(bytes.into_iter().take_while(|byte| *byte != 0).collect());
        match kind {
            EntryType::XHeader => records(&bytes, &mut self.before)?,
            EntryType::GNULongName => self.before.name = text(bytes),
            EntryType::GNULongLink => self.before.target = text(bytes),
            _ => {
                let mut global = Before::default();
                records(&bytes, &mut global)?;
                self.all.append(&mut global.pax);
            }
        }
        Ok(())
    }

    /// Takes an entry; gives the bytes behind its header that its length does not count.
    fn entry(&mut self, member: &Member) -> std::result::Result<u64, String> {
        let header = &member.header;
        let pax = &member.before.pax;
        let name = [&b"GNU.sparse.name"[..], b"path"]
            .into_iter()
            .find_map(|key| pax.get(key).cloned());
        let name = name
            .or_else(|| member.before.name.clone())
            .unwrap_or_else(|| header.path_bytes().into_owned());
        let path = normal(&name)?;
        let number = |key: &str, in_header: io::Result<u64>| match pax.get(key.as_bytes()) {
            Some(text) => decimal(text).ok_or_else(|| {
                format!(
                    "{key}: found {:?}, expected a number",
                    String::from_utf8_lossy(text)
                )
            }),
            None => in_header.map_err(|error| error.to_string()),
        };
        let id = |key: &str, in_header| {
            number(key, in_header).and_then(|id| {
                u32::try_from(id).map_err(|_| format!("{key} {id}, expected 32 bits"))
            })
        };
        let mtime = match pax.get(&b"mtime"[..]) {
            Some(text) => time(text).ok_or_else(|| {
                format!(
                    "mtime: found {:?}, expected seconds",
                    String::from_utf8_lossy(text)
                )
            })?,
            // Base 256 is signed.
            None => Time::new(header.mtime().map_err(|error| error.to_string())? as i64),
        };
        let (node, data, skipped) = self.node(member, name.ends_with(b"/"))?;
        let mut xattrs: Xattrs = pax
            .iter()
            .filter_map(|(key, value)| {
                Some((key.strip_prefix(b"SCHILY.xattr.")?.to_vec(), value.clone()))
            })
            .collect();
        for (key, attribute) in ACLS {
            let Some(text) = pax.get(key) else { continue };
            if xattrs.iter().any(|(name, _)| name == attribute) {
                continue;
            }
            let text = String::from_utf8_lossy(text);
            let list = from_text(&text, &number_of);
            let list =
                list.map_err(|error| format!("{}: {error}", String::from_utf8_lossy(key)))?;
            xattrs.push((attribute.to_vec(), list));
        }
        xattrs.sort();
        let mode = (header.mode().map_err(|error| error.to_string())? & 0o7777) as u16;
        let entry = Entry {
            path,
            node,
            mode,
            uid: id("uid", header.uid())?,
            gid: id("gid", header.gid())?,
            mtime,
            xattrs,
        };
        self.tree.push(entry, data);
        Ok(skipped)
    }

    fn node(&self, member: &Member, slash: bool) -> std::result::Result<(Node, Data, u64), String> {
        let header = &member.header;
        let pax = &member.before.pax;
        let target = || member.target().ok_or("a link without a target");
        let device = || {
            let part = |key: &str, in_header: io::Result<Option<u32>>| match pax
                .get(key.as_bytes())
                .and_then(|text| decimal(text))
            {
                Some(number) => Ok(number as u32),
                None => in_header
                    .map(Option::unwrap_or_default)
                    .map_err(|error| error.to_string()),
            };
            Ok::<_, String>((
                part("SCHILY.devmajor", header.device_major())?,
                part("SCHILY.devminor", header.device_minor())?,
            ))
        };
        let node = match header.entry_type() {
            EntryType::Directory => Node::Directory,
            EntryType::Regular | EntryType::Continuous if slash => Node::Directory,
            EntryType::Regular
                if pax
                    .get(&b"SCHILY.filetype"[..])
                    .is_some_and(|kind| kind == b"socket") =>
            {
                Node::Socket
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                return self.file(member);
            }
            EntryType::Symlink => Node::Symlink { target: target()? },
            EntryType::Link => Node::Link {
                to: normal(&target()?)?,
            },
            EntryType::Fifo => Node::Fifo,
            EntryType::Char => Node::Character { device: device()? },
            EntryType::Block => Node::Block { device: device()? },
            other => {
                return Err(format!(
                    "entry of type {:?}, expected a file, directory, link or device",
                    char::from(other.as_byte())
                ));
            }
        };
        Ok((node, Data::default(), 0))
    }

    fn file(&self, member: &Member) -> std::result::Result<(Node, Data, u64), String> {
        let Member {
            header,
            start,
            stored,
            before,
            ..
        } = member;
        let number = |key: &[u8]| before.pax.get(key).and_then(|text| decimal(text));
        let mut skipped = 0;
        let (map, size, from) = if header.entry_type() == EntryType::GNUSparse {
            let (map, size, from) = self.old_gnu(header, member.at)?;
            skipped = from - start;
            (map, size, from)
        } else if number(b"GNU.sparse.major") == Some(1) {
            let size = number(b"GNU.sparse.realsize").ok_or("a sparse file without its length")?;
            let (map, from) = self.map_in_front(*start, *stored)?;
            (map, size, from)
        } else if let Some(size) = number(b"GNU.sparse.size") {
            (
                before
                    .sparse
                    .chunks_exact(2)
                    .map(|part| (part[0], part[1]))
                    .collect(),
                size,
                *start,
            )
        } else {
            (vec![(0, *stored)], *stored, *start)
        };
        let extents = extents(&map, size, from)?;
        let data = Data {
            origin: Some(Origin::Open(self.file.clone(), PathBuf::from(self.path))),
            extents,
        };
        Ok((Node::File { size }, data, skipped))
    }

    /// The header has four parts, blocks behind it have more.
    fn old_gnu(&self, header: &Header, at: u64) -> std::result::Result<(Map, u64, u64), String> {
        let gnu = header
            .as_gnu()
            .ok_or("a sparse file without a GNU header")?;
        let mut map = Vec::new();
        let mut from = at + 512;
        let mut add = |offset: io::Result<u64>, length: io::Result<u64>| {
            map.push((
                offset.map_err(|error| error.to_string())?,
                length.map_err(|error| error.to_string())?,
            ));
            Ok::<_, String>(())
        };
        for part in gnu.sparse.iter().filter(|part| !part.is_empty()) {
            add(part.offset(), part.length())?;
        }
        let mut more = gnu.is_extended();
        while more {
            let mut block = tar::GnuExtSparseHeader::new();
            self.file
                .read_exact_at(block.as_mut_bytes(), from)
                .map_err(|error| error.to_string())?;
            from += 512;
            for part in block.sparse.iter().filter(|part| !part.is_empty()) {
                add(part.offset(), part.length())?;
            }
            more = block.is_extended();
            if from - at > MAP_MAX {
                return Err("a map of more than 16 MiB".into());
            }
        }
        Ok((
            map,
            gnu.real_size().map_err(|error| error.to_string())?,
            from,
        ))
    }

    /// A number of parts, then offset and length of each, a line each, up to a whole block.
    fn map_in_front(&self, start: u64, stored: u64) -> std::result::Result<(Map, u64), String> {
        let mut at = start;
        let end = start + stored.min(MAP_MAX);
        let mut numbers = Vec::new();
        let mut line = Vec::new();
        let mut block = [0; 512];
        while at < end
            && numbers
                .first()
                .is_none_or(|count: &u64| numbers.len() as u64 <= count.saturating_mul(2))
        {
            self.file
                .read_exact_at(&mut block, at)
                .map_err(|error| error.to_string())?;
            at += 512;
            for byte in block {
                match byte {
                    b'\n' => numbers.push(
                        decimal(&std::mem::take(&mut line))
                            .ok_or("a map that is no list of numbers")?,
                    ),
                    0 => {}
                    digit => line.push(digit),
                }
            }
        }
        let Some((count, parts)) = numbers.split_first() else {
            return Err("a map without numbers".into());
        };
        if parts.len() as u64 != count.saturating_mul(2) {
            return Err(format!(
                "a map of {} numbers, expected twice {count}",
                parts.len()
            ));
        }
        Ok((
            parts
                .chunks_exact(2)
                .map(|part| (part[0], part[1]))
                .collect(),
            at,
        ))
    }
}

/// Where each part is, one behind the other from `from` on.
fn extents(
    map: &[(u64, u64)],
    size: u64,
    mut from: u64,
) -> std::result::Result<Vec<Extent>, String> {
    let mut known = 0;
    let mut extents = Vec::new();
    for (at, len) in map.iter().copied().filter(|(_, len)| *len > 0) {
        let end = at
            .checked_add(len)
            .filter(|end| at >= known && *end <= size);
        known = end.ok_or_else(|| {
            format!("{len} bytes at {at} of a file, expected them behind {known} and within {size}")
        })?;
        extents.push(Extent { at, from, len });
        from += len;
    }
    Ok(extents)
}

/// Records: a length in decimal that counts the whole record, a keyword, a value of any bytes.
fn records(bytes: &[u8], before: &mut Before) -> std::result::Result<(), String> {
    const FORM: &str = "an extended header with a record that is no LENGTH KEY=VALUE";
    let mut rest = bytes;
    while !rest.is_empty() && rest[0] != 0 {
        let space = rest
            .iter()
            .take(12)
            .position(|byte| *byte == b' ')
            .ok_or(FORM)?;
        let len = decimal(&rest[..space])
            .filter(|len| (space as u64 + 2..=rest.len() as u64).contains(len))
            .ok_or(FORM)? as usize;
        let record = rest[space + 1..len].strip_suffix(b"\n").ok_or(FORM)?;
        let equals = record.iter().position(|byte| *byte == b'=').ok_or(FORM)?;
        let key = &record[..equals];
        let value = &record[equals + 1..];
        let number = |text: &[u8]| decimal(text).ok_or("a part of a sparse file that is no number");
        match key {
            b"GNU.sparse.offset" | b"GNU.sparse.numbytes" => before.sparse.push(number(value)?),
            b"GNU.sparse.map" => {
                before.sparse = value
                    .split(|byte| *byte == b',')
                    .map(number)
                    .collect::<std::result::Result<_, _>>()?
            }
            _ => _ = before.pax.insert(key.to_vec(), value.to_vec()),
        }
        rest = &rest[len..];
    }
    Ok(())
}

fn decimal(text: &[u8]) -> Option<u64> {
    str::from_utf8(text).ok()?.parse().ok()
}

/// `[-]SECONDS[.FRACTION]`: -0.25 is 750 ms after second -1.
fn time(text: &[u8]) -> Option<Time> {
    let text = str::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = fraction
        .chars()
        .chain("000000000".chars())
        .take(9)
        .collect();
    let secs = whole.parse::<i64>().ok()?;
    let nanos = digits.parse::<u32>().ok()?;
    if whole.starts_with('-') && nanos > 0 {
        return Some(Time {
            secs: secs.checked_sub(1)?,
            nanos: 1_000_000_000 - nanos,
        });
    }
    Some(Time { secs, nanos })
}
