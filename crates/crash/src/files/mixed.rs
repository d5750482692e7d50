//! Runs of all kinds of operations on a few files, seeded.

use super::model::{Model, Node};
use super::op::{FileOp, Path};
use nandlab_sim::mix;

/// Files at a time; those made first are renamed, linked, removed and made again.
const FILES: u64 = 7;
/// Directories besides the root.
const DIRECTORIES: u64 = 2;
/// A file is not made longer than this, in bytes: some tens of blocks.
const LENGTH_MAX: u64 = 28 * 1024;

/// A run of so many operations: a few files from a few bytes to some tens of blocks, some of them
/// so long that a file system with blocks of 1 KiB needs indirect ones. It ends with a remount, so
/// that nothing is dirty at the end.
pub fn mixed(seed: u64, count: usize) -> Vec<FileOp> {
    let mut mixer = Mixer {
        model: Model::default(),
        seed,
        drawn: 0,
        ops: Vec::new(),
    };
    while mixer.ops.len() + 1 < count {
        let op = mixer.draw();
        mixer.model.apply(&op, true);
        mixer.ops.push(op);
    }
    mixer.ops.push(FileOp::Remount);
    mixer.ops
}

struct Mixer {
    model: Model,
    seed: u64,
    drawn: u64,
    ops: Vec<FileOp>,
}

impl Mixer {
    fn below(&mut self, bound: u64) -> u64 {
        self.drawn += 1;
        mix(self.seed, self.drawn) % bound
    }

    /// A path that may be a file's.
    fn path(&mut self) -> Path {
        let dir = self.below(2 * DIRECTORIES + 2);
        let file = self.below(FILES);
        // Long names, so that a directory takes several sectors.
        let name = format!("a file of some length, number {file}");
        if dir < DIRECTORIES && self.model.names.contains_key(&*format!("d{dir}")) {
            format!("d{dir}/{name}").into()
        } else {
            name.into()
        }
    }

    /// A file that is there, most likely.
    fn file(&mut self) -> Path {
        let files: Vec<Path> = self
            .model
            .names
            .iter()
            .filter(|(_, node)| matches!(node, Node::File(_)))
            .map(|(path, _)| path.clone())
            .collect();
        if files.is_empty() {
            self.path()
        } else {
            files[self.below(files.len() as u64) as usize].clone()
        }
    }

    fn length_of(&self, path: &str) -> u64 {
        self.model
            .file(path)
            .map_or(0, |file| self.model.files[&file].len() as u64)
    }

    /// Most pieces are short; some pass the twelfth block.
    fn piece(&mut self) -> u64 {
        match self.below(8) {
            0 => 12 * 1024 + self.below(6 * 1024),
            1 | 2 => 1024 * (1 + self.below(4)),
            _ => 1 + self.below(2500),
        }
    }

    fn draw(&mut self) -> FileOp {
        // Its own in the run; later lives have others.
        let seed = mix(self.seed, 1 << 32 | self.ops.len() as u64);
        let files = self.model.files.len() as u64;
        match self.below(100) {
            _ if self.below(FILES) > files + 1 => FileOp::Create { path: self.path() },
            0..8 => FileOp::Create { path: self.path() },
            8..34 => {
                let path = self.file();
                let piece = self.piece();
                let space = LENGTH_MAX.saturating_sub(self.length_of(&path)).max(1);
                FileOp::Append {
                    path,
                    length: piece.min(space) as u32,
                    seed,
                }
            }
            34..48 => self.overwrite(seed),
            48..54 => {
                let path = self.file();
                let length = self.below(self.length_of(&path) + 3000).min(LENGTH_MAX) as u32;
                FileOp::Truncate { path, length }
            }
            54..64 => FileOp::Rename {
                from: self.file(),
                to: if self.below(2) == 0 {
                    self.file()
                } else {
                    self.path()
                },
            },
            64..69 => FileOp::Link {
                from: self.file(),
                to: self.path(),
            },
            69..76 => FileOp::Unlink { path: self.file() },
            76..80 => FileOp::Mkdir {
                path: self.directory(),
            },
            80..82 => FileOp::Rmdir {
                path: self.directory(),
            },
            82..91 => FileOp::Fsync {
                path: self.recent(),
            },
            91..94 => FileOp::Fdatasync {
                path: self.recent(),
            },
            94..96 => FileOp::Sync,
            96..99 => FileOp::Pause {
                bytes: self.below(20_000) as u32,
            },
            _ => FileOp::Remount,
        }
    }

    fn overwrite(&mut self, seed: u64) -> FileOp {
        let path = self.file();
        let piece = self.piece();
        let length = self.length_of(&path);
        // Some leave a hole behind the end.
        let offset = self.below(length + length / 8 + 1).min(LENGTH_MAX);
        FileOp::Overwrite {
            path,
            offset: offset as u32,
            length: piece.min(LENGTH_MAX - offset + 1) as u32,
            seed,
        }
    }

    fn directory(&mut self) -> Path {
        format!("d{}", self.below(DIRECTORIES)).into()
    }

    /// The file written last, or any.
    fn recent(&mut self) -> Path {
        let last = self.ops.iter().rev().find_map(|op| match op {
            FileOp::Append { path, .. }
            | FileOp::Overwrite { path, .. }
            | FileOp::Create { path } => Some(path.clone()),
            FileOp::Rename { to, .. } => Some(to.clone()),
            _ => None,
        });
        last.filter(|_| self.below(4) > 0)
            .unwrap_or_else(|| self.file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_every_kind_of_operation_and_files_beyond_the_direct_blocks() {
        let mut model = Model::default();
        let mut kinds = std::collections::BTreeSet::new();
        let mut longest = 0;
        for op in mixed(1, 300) {
            kinds.insert(
                format!("{op:?}")
                    .split([' ', '{'])
                    .next()
                    .unwrap()
                    .to_string(),
            );
            model.apply(&op, true);
            longest = longest.max(
                model
                    .files
                    .values()
                    .map(|contents| contents.len())
                    .max()
                    .unwrap_or(0),
            );
        }
        assert_eq!(kinds.len(), 14, "{kinds:?}");
        assert!(longest > 13 * 1024, "{longest}");
        assert_eq!(mixed(4, 60), mixed(4, 60));
        assert_ne!(mixed(4, 60), mixed(5, 60));
    }
}
