//! A tree as a list of its entries in text, an entry a line, as mtree(5) has it: what `extract`
//! leaves beside a directory that cannot hold owners and devices, and what `create` takes to make
//! an image without any privilege.
//!
//! *Promises.* What is written is read again as the same entries, whatever their names. Both forms
//! of mtree are read: full paths, and names relative to the directory before. Besides mtree's words
//! (`type`, `mode`, `uid`, `gid`, `time`, `size`, `link`, `device`, `contents`) there are two:
//! `hardlink=PATH`, and `xattr.NAME=0xHEX`. *Knows nothing of* formats.

use crate::dir_in;
use crate::error::{ImageError, Result};
use crate::sink::{Bytes, Sink};
use crate::tree::{Data, Entry, Node, Tree, normal};
use nandlab_vfs::Time;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The first line of a manifest.
pub const MAGIC: &[u8] = b"#mtree";

/// A manifest that is being written.
#[derive(Debug)]
pub struct ManifestOut<W> {
    to: W,
    path: PathBuf,
    begun: bool,
}

impl<W: Write> ManifestOut<W> {
    /// A manifest that goes to `to`, which messages call `path`.
    pub fn new(to: W, path: impl Into<PathBuf>) -> Self {
        Self {
            to,
            path: path.into(),
            begun: false,
        }
    }
}

impl<W: Write> Sink for ManifestOut<W> {
    fn put(&mut self, entry: &Entry, _: &mut dyn Bytes) -> Result<()> {
        let head = if self.begun { "" } else { "#mtree\n" };
        self.begun = true;
        self.to
            .write_all((head.to_string() + &line(entry)).as_bytes())
            .map_err(ImageError::file(&self.path))
    }

    fn finish(&mut self) -> Result<()> {
        self.to.flush().map_err(ImageError::file(&self.path))
    }
}

/// Bytes as words of a line: what is not plain in octal.
fn escaped(bytes: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !br"\#=*?[]".contains(byte);
    bytes
        .iter()
        .map(|byte| {
            if plain(byte) {
                char::from(*byte).to_string()
            } else {
                format!("\\{byte:03o}")
            }
        })
        .collect()
}

fn unescaped(word: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = word;
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let digits = more
            .get(..3)
            .filter(|digits| digits.iter().all(|digit| (b'0'..b'8').contains(digit)));
        if let Some(digits) = digits {
            bytes.push(u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok()?);
            rest = &more[3..];
        } else {
            let (letter, after) = more.split_first()?;
            bytes.push(match letter {
                b's' => b' ',
                b't' => b'\t',
                b'n' => b'\n',
                b'r' => b'\r',
                b'\\' | b'#' => *letter,
                _ => return None,
            });
            rest = after;
        }
    }
    Some(bytes)
}

fn line(entry: &Entry) -> String {
    let path = if entry.path.is_empty() {
        ".".into()
    } else {
        format!("./{}", escaped(&entry.path))
    };
    let own = match &entry.node {
        Node::Directory => "type=dir".into(),
        Node::File { size } => format!("type=file size={size}"),
        Node::Symlink { target } => format!("type=link link={}", escaped(target)),
        Node::Link { to } => format!("type=file hardlink=./{}", escaped(to)),
        Node::Fifo => "type=fifo".into(),
        Node::Socket => "type=socket".into(),
        Node::Character { device } => format!("type=char device=linux,{},{}", device.0, device.1),
        Node::Block { device } => format!("type=block device=linux,{},{}", device.0, device.1),
    };
    let Entry {
        mode,
        uid,
        gid,
        mtime,
        ..
    } = entry;
    // Of seconds and nanoseconds, not a decimal fraction: mtree's way.
    let mut text = format!(
        "{path} {own} mode={mode:04o} uid={uid} gid={gid} time={}.{:09}",
        mtime.secs, mtime.nanos
    );
    for (name, value) in &entry.xattrs {
        let value: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
        text += &format!(" xattr.{}=0x{value}", escaped(name));
    }
    text + "\n"
}

/// The tree that a manifest describes, in order. Contents are those of the files named by
/// `contents=`, or else of the entries' own paths, below `root`.
pub fn read(path: &Path, root: &Path) -> Result<Tree> {
    let text = fs::read(path).map_err(ImageError::file(path))?;
    let mut reader = Reader {
        path,
        root,
        defaults: BTreeMap::new(),
        dir: Vec::new(),
        tree: Tree::default(),
    };
    let mut joined: Vec<u8> = Vec::new();
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(head) = line.strip_suffix(b"\\") {
            joined.extend(head);
            joined.push(b' ');
            continue;
        }
        joined.extend(line);
        let whole = std::mem::take(&mut joined);
        reader.line(&whole).map_err(|wrong| match wrong {
            Wrong::Other(error) => error,
            Wrong::Word(found, expected) => {
                let found = String::from_utf8_lossy(&found).into_owned();
                ImageError::Line {
                    path: path.into(),
                    line: number + 1,
                    found,
                    expected,
                }
            }
        })?;
    }
    reader.tree.normalize()?;
    Ok(reader.tree)
}

enum Wrong {
    /// A word, and what it could be.
    Word(Vec<u8>, &'static str),
    Other(ImageError),
}

type Words = BTreeMap<Vec<u8>, Vec<u8>>;

struct Reader<'a> {
    path: &'a Path,
    root: &'a Path,
    /// The defaults that the last `/set` gave.
    defaults: Words,
    /// Where names without a slash belong.
    dir: Vec<u8>,
    tree: Tree,
}

impl Reader<'_> {
    fn line(&mut self, line: &[u8]) -> std::result::Result<(), Wrong> {
        let mut words = line
            .split(|byte| byte.is_ascii_whitespace())
            .filter(|word| !word.is_empty());
        let Some(first) = words.next().filter(|first| !first.starts_with(b"#")) else {
            return Ok(());
        };
        if first == b"/set" {
            words.for_each(|word| self.defaults.extend([pair(word)]));
            return Ok(());
        }
        if first == b"/unset" {
            words.for_each(|word| _ = self.defaults.remove(word));
            return Ok(());
        }
        if first == b".." {
            let up = self.dir.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            self.dir.truncate(up);
            return Ok(());
        }
        let mut all = self.defaults.clone();
        words.for_each(|word| all.extend([pair(word)]));
        let name = unescaped(first)
            .ok_or_else(|| Wrong::Word(first.into(), "a path with escapes such as \\040"))?;
        let relative = !name.contains(&b'/');
        let path = if relative {
            [&self.dir[..], b"/", &name].concat()
        } else {
            name
        };
        let path = normal(&path).map_err(|_| Wrong::Word(first.into(), "a path below the root"))?;
        let (entry, data) = self.entry(path, &all)?;
        if relative && entry.node == Node::Directory {
            self.dir = entry.path.clone();
        }
        self.tree.push(entry, data);
        Ok(())
    }

    fn entry(&self, path: Vec<u8>, words: &Words) -> std::result::Result<(Entry, Data), Wrong> {
        let get = |key: &str| words.get(key.as_bytes());
        let number = |key: &str, radix, otherwise| match get(key) {
            None => Ok(otherwise),
            Some(text) => {
                let parsed = str::from_utf8(text)
                    .ok()
                    .and_then(|text| u32::from_str_radix(text, radix).ok());
                let expected = match radix {
                    8 => "an octal number",
                    _ => "a number",
                };
                parsed.ok_or_else(|| Wrong::Word([key.as_bytes(), b"=", text].concat(), expected))
            }
        };
        let mtime = match get("time") {
            None => Time::default(),
            Some(text) => mtree_time(text)
                .ok_or_else(|| Wrong::Word(text.clone(), "time=SECONDS.NANOSECONDS"))?,
        };
        let (node, data) = self.node(&path, words)?;
        let mode = number(
            "mode",
            8,
            if node == Node::Directory {
                0o755
            } else {
                0o644
            },
        )?;
        let mut xattrs = Vec::new();
        for (key, value) in words {
            let Some(name) = key.strip_prefix(b"xattr.") else {
                continue;
            };
            let (name, value) = unescaped(name)
                .zip(hex(value))
                .ok_or_else(|| Wrong::Word(key.clone(), "xattr.NAME=0xHEX"))?;
            xattrs.push((name, value));
        }
        xattrs.sort();
        let uid = number("uid", 10, 0)?;
        let gid = number("gid", 10, 0)?;
        Ok((
            Entry {
                path,
                node,
                mode: (mode & 0o7777) as u16,
                uid,
                gid,
                mtime,
                xattrs,
            },
            data,
        ))
    }

    fn node(&self, path: &[u8], words: &Words) -> std::result::Result<(Node, Data), Wrong> {
        let get = |key: &str| words.get(key.as_bytes());
        if let Some(to) = get("hardlink") {
            let to = unescaped(to)
                .and_then(|to| normal(&to).ok())
                .ok_or_else(|| Wrong::Word(to.clone(), "a path below the root"))?;
            return Ok((Node::Link { to }, Data::default()));
        }
        let kind = get("type").map_or(&b"file"[..], |kind| kind);
        let node = match kind {
            b"dir" => Node::Directory,
            b"link" => {
                let target = get("link")
                    .and_then(|target| unescaped(target))
                    .ok_or_else(|| Wrong::Word(path.into(), "a link=TARGET with it"))?;
                Node::Symlink { target }
            }
            b"fifo" => Node::Fifo,
            b"socket" => Node::Socket,
            b"char" | b"block" => {
                let text = get("device").cloned().unwrap_or_default();
                let device = device(&text).ok_or(Wrong::Word(text, "device=linux,MAJOR,MINOR"))?;
                if kind == b"char" {
                    Node::Character { device }
                } else {
                    Node::Block { device }
                }
            }
            b"file" => return self.file(path, words),
            other => {
                return Err(Wrong::Word(
                    other.into(),
                    "type=file, dir, link, fifo, socket, char or block",
                ));
            }
        };
        Ok((node, Data::default()))
    }

    fn file(&self, path: &[u8], words: &Words) -> std::result::Result<(Node, Data), Wrong> {
        let contents = match words.get(&b"contents"[..]) {
            Some(word) => unescaped(word)
                .ok_or_else(|| Wrong::Word(word.clone(), "a path with escapes such as \\040"))?,
            None => path.to_vec(),
        };
        let size = words
            .get(&b"size"[..])
            .and_then(|text| str::from_utf8(text).ok()?.parse::<u64>().ok());
        if size == Some(0) {
            return Ok((Node::File { size: 0 }, Data::default()));
        }
        let at = self.root.join(OsStr::from_bytes(&contents));
        let metadata = fs::metadata(&at).map_err(|error| {
            Wrong::Other(ImageError::File {
                path: at.clone(),
                error,
            })
        })?;
        if size.is_some_and(|size| size != metadata.len()) {
            let what = ImageError::Choice {
                what: "length of a file",
                found: format!("{}: {} bytes", at.display(), metadata.len()),
                expected: format!(
                    "{} bytes, as {} says",
                    size.unwrap_or_default(),
                    self.path.display()
                ),
            };
            return Err(Wrong::Other(what));
        }
        Ok((
            Node::File {
                size: metadata.len(),
            },
            dir_in::contents(&at, &metadata).map_err(Wrong::Other)?,
        ))
    }
}

fn pair(word: &[u8]) -> (Vec<u8>, Vec<u8>) {
    match word.iter().position(|byte| *byte == b'=') {
        Some(at) => (word[..at].to_vec(), word[at + 1..].to_vec()),
        None => (word.to_vec(), Vec::new()),
    }
}

fn hex(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text
        .strip_prefix(b"0x")
        .filter(|digits| digits.len().is_multiple_of(2))?;
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

/// Seconds, and behind the point whole nanoseconds: `5.5` is five nanoseconds, unlike a decimal
/// fraction; with nine digits both are the same.
fn mtree_time(text: &[u8]) -> Option<Time> {
    let text = str::from_utf8(text).ok()?;
    let (secs, nanos) = text.split_once('.').unwrap_or((text, "0"));
    let nanos: u32 = nanos.parse().ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Time {
        secs: secs.parse().ok()?,
        nanos,
    })
}

/// `[FORMAT,]MAJOR,MINOR`, or one number as Linux has it.
fn device(text: &[u8]) -> Option<(u32, u32)> {
    let text = str::from_utf8(text).ok()?;
    let parts: Vec<&str> = text.split(',').collect();
    match parts[..] {
        [_, major, minor] | [major, minor] => Some((major.parse().ok()?, minor.parse().ok()?)),
        [one] => {
            let number = one.strip_prefix("0x").map_or(one.parse().ok(), |digits| {
                u64::from_str_radix(digits, 16).ok()
            })?;
            Some((rustix::fs::major(number), rustix::fs::minor(number)))
        }
        _ => None,
    }
}

/// A time for people, in UTC.
pub fn date(time: Time) -> String {
    let days = time.secs.div_euclid(86_400);
    let second = time.secs.rem_euclid(86_400);
    // Howard Hinnant's `civil_from_days`.
    let shifted = days.saturating_add(719_468);
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_entry_is_read_as_it_was_written() {
        let nodes = [
            Node::Directory,
            Node::File { size: 0 },
            Node::Symlink {
                target: b"../a b\\\n\xff".into(),
            },
            Node::Fifo,
            Node::Socket,
            Node::Character {
                device: (300, 70_000),
            },
            Node::Block { device: (8, 1) },
        ];
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("list");
        let mut tree = Tree::default();
        for (number, node) in nodes.into_iter().enumerate() {
            let path = [&b"dir #=*/\xfe\n\\ "[..], &[b'a' + number as u8]].concat();
            let mtime = Time {
                secs: -5 + number as i64,
                nanos: number as u32 * 1001,
            };
            let xattrs = vec![
                (b"user.a b".to_vec(), vec![]),
                (b"user.k=\xff".to_vec(), vec![0, 255]),
            ];
            tree.push(
                Entry {
                    path,
                    node,
                    mode: 0o4711,
                    uid: 70_000,
                    gid: u32::MAX,
                    mtime,
                    xattrs,
                },
                Data::default(),
            );
        }
        tree.push(
            Entry {
                node: Node::Link {
                    to: b"dir #=*/\xfe\n\\ b".into(),
                },
                ..Entry::directory(b"z")
            },
            Data::default(),
        );
        tree.normalize().unwrap();
        let mut sink = ManifestOut::new(Vec::new(), "list");
        crate::sink::pour(&tree, &mut sink).unwrap();
        fs::write(&path, &sink.to).unwrap();
        let again = read(&path, scratch.path()).unwrap();
        let entries = |tree: &Tree| {
            tree.entries
                .iter()
                .map(|(entry, _)| entry.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(entries(&again), entries(&tree));
    }

    #[test]
    fn the_relative_form_with_defaults_is_read() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("list");
        fs::create_dir(scratch.path().join("d")).unwrap();
        fs::write(scratch.path().join("d/f"), "12345").unwrap();
        fs::write(&path, "#mtree\n/set type=file uid=5 gid=6 mode=0600\n. type=dir\nd type=dir \\\n mode=0700\nf\n..\ng contents=d/f\n")
            .unwrap();
        let tree = read(&path, scratch.path()).unwrap();
        let listed: Vec<String> = tree
            .entries
            .iter()
            .map(|(entry, _)| {
                format!(
                    "{:?} {:o} {} {}",
                    entry.path,
                    entry.mode,
                    entry.uid,
                    entry.size()
                )
            })
            .collect();
        assert_eq!(
            listed,
            [
                "[] 600 5 0",
                "[100] 700 5 0",
                "[100, 47, 102] 600 5 5",
                "[103] 600 5 5"
            ]
        );
        for (bad, line) in [
            ("d type=dire\n", 1),
            ("#\n../x type=dir\n", 2),
            ("x type=char\n", 1),
            ("x type=dir mode=99\n", 1),
        ] {
            fs::write(&path, bad).unwrap();
            let error = read(&path, scratch.path()).unwrap_err().to_string();
            assert!(
                error.contains(&format!("line {line}: found")),
                "{bad}: {error}"
            );
        }
    }

    #[test]
    fn dates_are_right_before_1970_and_after_2038() {
        let cases = [
            (0, "1970-01-01 00:00:00"),
            (-1, "1969-12-31 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (4_102_444_800, "2100-01-01 00:00:00"),
        ];
        cases
            .iter()
            .for_each(|(secs, text)| assert_eq!(date(Time::new(*secs)), *text));
    }
}
