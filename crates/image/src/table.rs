//! A device table, as `mkfs.jffs2 -D`, `genext2fs` and Buildroot take it: entries added to a tree,
//! or described anew, without the privileges to make them.
//!
//! A line is `NAME TYPE MODE UID GID MAJOR MINOR START INC COUNT`; the type is `d`, `f`, `r` (a
//! directory and everything below), `c`, `b`, `p`; the mode is octal; a dash is nothing. With a
//! count a device becomes so many, numbered from `START` in the name, their minor numbers `INC`
//! apart. *Promises.* What makes no sense is an error with its line.

use crate::error::{ImageError, Result};
use crate::tree::{Data, Entry, Node, Tree, normal};
use nandlab_vfs::Time;
use std::fs;
use std::path::Path;

/// The most entries that a line makes.
const COUNT_MAX: u32 = 65_536;

/// Applies a table to an ordered tree and orders it again.
pub fn apply(path: &Path, tree: &mut Tree) -> Result<()> {
    let text = fs::read_to_string(path).map_err(ImageError::file(path))?;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let outcome = Line::parse(line).and_then(|parsed| parsed.apply(tree));
        outcome.map_err(|expected| ImageError::Line {
            path: path.into(),
            line: number + 1,
            found: line.into(),
            expected,
        })?;
        tree.normalize()?;
    }
    Ok(())
}

struct Line<'a> {
    path: Vec<u8>,
    kind: &'a str,
    mode: u16,
    owner: (u32, u32),
    device: (u32, u32),
    start: u32,
    step: u32,
    count: u32,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> std::result::Result<Self, &'static str> {
        const FORM: &str = "NAME TYPE MODE UID GID MAJOR MINOR START INC COUNT";
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, kind, mode) = match words[..] {
            [name, kind, mode, _, _, ..] if words.len() <= 10 => (name, kind, mode),
            _ => return Err(FORM),
        };
        let number = |at: usize| match words.get(at) {
            None | Some(&"-") => Ok(0),
            Some(word) => word.parse::<u32>().map_err(|_| FORM),
        };
        let mode = u16::from_str_radix(mode, 8)
            .ok()
            .filter(|mode| *mode <= 0o7777)
            .ok_or("a mode in octal, such as 0644")?;
        let path = normal(name.as_bytes()).map_err(|_| "a path below the root")?;
        let owner = (number(3)?, number(4)?);
        let device = (number(5)?, number(6)?);
        Ok(Self {
            path,
            kind,
            mode,
            owner,
            device,
            start: number(7)?,
            step: number(8)?,
            count: number(9)?,
        })
    }

    fn describe(&self, entry: &mut Entry) {
        (entry.mode, entry.uid, entry.gid) = (self.mode, self.owner.0, self.owner.1);
    }

    fn apply(&self, tree: &mut Tree) -> std::result::Result<(), &'static str> {
        match self.kind {
            "f" => match tree.find(&self.path) {
                Some(entry) if entry.node != Node::Directory => self.describe(entry),
                _ => return Err("a file that is in the tree"),
            },
            "d" => match tree.find(&self.path) {
                Some(entry) if entry.node == Node::Directory => self.describe(entry),
                Some(_) => return Err("a name that is not taken by something else"),
                None => self.add(tree, self.path.clone(), Node::Directory),
            },
            "r" => {
                let below = |path: &[u8]| {
                    self.path.is_empty()
                        || path == self.path
                        || path.starts_with(&[&self.path[..], b"/"].concat())
                };
                for (entry, _) in tree
                    .entries
                    .iter_mut()
                    .filter(|(entry, _)| below(&entry.path))
                {
                    (entry.uid, entry.gid) = self.owner;
                }
            }
            "c" | "b" | "p" => {
                let one = [(self.path.clone(), self.device.1)];
                if self.count == 0 {
                    return self.make(tree, &one);
                }
                if self.count > COUNT_MAX {
                    return Err("a count of at most 65536");
                }
                let numbered = (0..self.count).map(|index| {
                    let name =
                        [&self.path[..], (self.start + index).to_string().as_bytes()].concat();
                    (name, self.device.1.wrapping_add(index * self.step))
                });
                return self.make(tree, &numbered.collect::<Vec<_>>());
            }
            _ => return Err("a type: d, f, r, c, b or p"),
        }
        Ok(())
    }

    fn make(
        &self,
        tree: &mut Tree,
        all: &[(Vec<u8>, u32)],
    ) -> std::result::Result<(), &'static str> {
        for (path, minor) in all {
            let device = (self.device.0, *minor);
            let node = match self.kind {
                "c" => Node::Character { device },
                "b" => Node::Block { device },
                _ => Node::Fifo,
            };
            match tree.find(path) {
                Some(entry) if entry.node == Node::Directory => {
                    return Err("a name that is no directory's");
                }
                Some(entry) => {
                    entry.node = node;
                    self.describe(entry);
                }
                None => self.add(tree, path.clone(), node),
            }
        }
        Ok(())
    }

    fn add(&self, tree: &mut Tree, path: Vec<u8>, node: Node) {
        let mtime = Time::default();
        let entry = Entry {
            path,
            node,
            mode: self.mode,
            uid: self.owner.0,
            gid: self.owner.1,
            mtime,
            xattrs: Vec::new(),
        };
        let place = tree
            .entries
            .partition_point(|(other, _)| crate::tree::order(&other.path, &entry.path).is_lt());
        tree.entries.insert(place, (entry, Data::default()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_made_and_described_anew() {
        let mut tree = Tree::default();
        for (path, node) in [
            ("bin/sh", Node::File { size: 0 }),
            ("bin/su", Node::File { size: 0 }),
        ] {
            tree.push(
                Entry {
                    node,
                    ..Entry::directory(path.as_bytes())
                },
                Data::default(),
            );
        }
        tree.normalize().unwrap();
        let scratch = tempfile::NamedTempFile::new().unwrap();
        let text = "# a comment\n/dev d 755 0 0 - - - - -\n/dev/null c 666 0 0 1 3 0 0 -\n/dev/tty c 620 0 5 4 0 1 2 3\n/bin/su f 4755 0 0\n/bin r - 0 0\n";
        fs::write(scratch.path(), text.replace("/bin r - ", "/bin r 0 7 7\n#")).unwrap();
        apply(scratch.path(), &mut tree).unwrap();
        let listed: Vec<String> = tree
            .entries
            .iter()
            .map(|(entry, _)| {
                format!(
                    "{} {:o} {:?}",
                    String::from_utf8_lossy(&entry.path),
                    entry.mode,
                    entry.node
                )
            })
            .collect();
        assert!(
            listed.contains(&"dev/tty3 620 Character { device: (4, 4) }".into()),
            "{listed:?}"
        );
        assert_eq!(
            (
                listed.len(),
                tree.find(b"bin/su").map(|entry| (entry.mode, entry.uid))
            ),
            (9, Some((0o4755, 7)))
        );
        for bad in [
            "/x",
            "/x q 644 0 0",
            "/x f 999 0 0",
            "/nowhere f 644 0 0",
            "/bin c 644 0 0 1 1",
            "/../x d 755 0 0",
            "/t c 644 0 0 1 1 0 1 99999999",
        ] {
            fs::write(scratch.path(), bad).unwrap();
            assert!(
                matches!(
                    apply(scratch.path(), &mut tree.clone()),
                    Err(ImageError::Line { line: 1, .. })
                ),
                "{bad}"
            );
        }
    }
}
