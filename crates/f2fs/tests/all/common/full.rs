//! Random calls on a volume that is nearly full all the time, side by side with the reference.

use super::{NOW, bytes, mkdir, put};
use nandlab_block::BlockDevice;
use nandlab_f2fs::F2fs;
use nandlab_sim::mix;
use nandlab_vfs::model::{Model, Rules};
use nandlab_vfs::{FileSystem, Ino, SetAttr, Sync, Time};

/// How full, in percent of what users may have.
pub const FULL: u64 = 95;
/// Calls between two looks at how full the volume is.
const STRETCH: u64 = 250;
/// Blocks of the large file that are overwritten meanwhile.
const OVERWRITTEN: u64 = 60;
const BLOCK: u64 = 4096;

/// A model whose calls reach a part of the tree, beside a large file in directories deeper than
/// they go, with which the volume is kept full.
pub struct Aging {
    pub model: Model,
    seed: u64,
    stretches: u64,
    /// The large file, of both, and its length.
    file: (Ino, Ino),
    bytes: u64,
    /// Blocks of an empty volume.
    capacity: u64,
    /// Sum of percentages at the ends of stretches.
    percent: u64,
}

/// An empty file that hardly a call reaches.
fn deep<F: FileSystem>(fs: &mut F, attempt: u64) -> Ino {
    let bottom = (0..12).fold(Ino::ROOT, |dir, _| {
        mkdir(fs, dir, &format!("deep {attempt}"))
    });
    put(fs, bottom, "large", b"")
}

impl Aging {
    pub fn new<D: BlockDevice>(f2fs: &mut F2fs<D>, seed: u64) -> Self {
        let capacity = f2fs.statfs().unwrap().free;
        let mut model = Model::new(
            seed,
            Rules {
                file_bytes_max: 40_000,
                inodes_max: 90,
                ..Rules::unix()
            },
        );
        let file = (deep(model.judge(), 0), deep(f2fs, 0));
        Self {
            model,
            seed,
            stretches: 0,
            file,
            bytes: 0,
            capacity,
            percent: 0,
        }
    }

    /// So many calls; background work is done as it falls due.
    pub fn run<D: BlockDevice>(&mut self, f2fs: &mut F2fs<D>, calls: u64) {
        for _ in 0..calls.div_ceil(STRETCH) {
            self.stretches += 1;
            self.find(f2fs);
            self.fill(f2fs);
            for number in 0..OVERWRITTEN {
                let word = mix(mix(self.seed, self.stretches), number);
                // Half of it goes to a tenth of the file.
                let blocks = self.bytes / BLOCK / if word & 1 == 0 { 10 } else { 1 };
                self.write(
                    f2fs,
                    (word >> 1) % blocks.max(1) * BLOCK,
                    &bytes(word, BLOCK as usize),
                );
            }
            let what = if self.stretches.is_multiple_of(2) {
                Sync::Data
            } else {
                Sync::All
            };
            f2fs.fsync(self.file.1, what)
                .unwrap_or_else(|error| panic!("{error} ({:?})", f2fs.fault()));
            self.model
                .run(f2fs, STRETCH)
                .unwrap_or_else(|mismatch| panic!("{mismatch} ({:?})", f2fs.fault()));
            if let Some(due) = f2fs.due() {
                f2fs.work(due)
                    .unwrap_or_else(|error| panic!("{error} ({:?})", f2fs.fault()));
            }
            self.percent += self.used(f2fs);
        }
    }

    /// How full the volume was, on the average.
    pub fn percent(&self) -> u64 {
        self.percent / self.stretches
    }

    fn used<D: BlockDevice>(&self, f2fs: &mut F2fs<D>) -> u64 {
        (100 * (self.capacity - f2fs.statfs().unwrap().free)).div_ceil(self.capacity)
    }

    /// Directories that were moved may have brought the file into the reach of calls: it was cut,
    /// or is gone.
    fn find<D: BlockDevice>(&mut self, f2fs: &mut F2fs<D>) {
        let found = [
            self.model.judge().getattr(self.file.0),
            f2fs.getattr(self.file.1),
        ]
        .map(|attr| attr.map_or(0, |attr| attr.size));
        self.bytes = found[1];
        if found[0] != found[1] || self.bytes == 0 {
            self.file = (
                deep(self.model.judge(), self.stretches),
                deep(f2fs, self.stretches),
            );
            self.bytes = 0;
        }
    }

    fn fill<D: BlockDevice>(&mut self, f2fs: &mut F2fs<D>) {
        while self.used(f2fs) <= FULL {
            let more = bytes(self.bytes, 8 * BLOCK as usize);
            self.write(f2fs, self.bytes, &more);
            self.bytes += more.len() as u64;
        }
        while self.used(f2fs) > FULL + 1 {
            self.bytes -= 8 * BLOCK;
            let change = SetAttr {
                size: Some(self.bytes),
                ..SetAttr::default()
            };
            self.model
                .judge()
                .setattr(self.file.0, &change, NOW)
                .unwrap();
            f2fs.setattr(self.file.1, &change, NOW).unwrap();
        }
    }

    fn write<D: BlockDevice>(&mut self, f2fs: &mut F2fs<D>, at: u64, data: &[u8]) {
        let now = Time::new(NOW.secs + self.stretches as i64);
        self.model
            .judge()
            .write(self.file.0, at, data, now)
            .unwrap();
        assert_eq!(
            f2fs.write(self.file.1, at, data, now),
            Ok(data.len()),
            "{:?}",
            f2fs.fault()
        );
    }
}
