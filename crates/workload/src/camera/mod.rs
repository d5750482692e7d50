//! Camera-MS500: a telephone's camera takes photos, keeps an index of them, and deletes some.
//!
//! From I. H. Doh and others, "An Empirical Study of FTL Performance in Conjunction with File
//! System Pursuing Data Integrity", IEICE Trans. Inf. & Syst. E93-D(8), 2010, section 4.2, "the
//! paper" below. There: no file at first; in each transaction 20 photos of 300 to 500 KB are made
//! and half of them deleted; with more than 60 photos all are deleted; the index grows by 96 B a
//! photo; everything is written in units of 512 B, synchronously; 79.67 MB in all.
//!
//! *Promises.* The stream is a pure function of [`CameraSpec`]; with a given total, the photos have
//! exactly that many bytes, to the unit. What the paper leaves open is a choice of the spec, its
//! default explained there. *Knows nothing of* file systems: a volume may turn out too small.

use crate::{
    files::{Benchmark, Calls, Contents, FileCall, FileId, Script, Scripted, pieces, scripted},
    pattern::{SpecError, below, require, within},
};
use alloc::{format, string::String, vec::Vec};
use nandlab_sim::{Rng, rng, with_defaults};

/// The index; photos follow, from 1.
pub const INDEX: FileId = FileId(0);
const RUN: &str = "run";
/// Photos have five digits in their names.
const PHOTOS_MAX: u32 = 99_999;
/// The longest photo in bytes: what FAT can hold.
const PHOTO_MAX: u64 = u32::MAX as u64;

/// When it is looked whether there are too many photos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteAll {
    /// After the photos of a transaction were made; if all are deleted, the transaction's own
    /// deletion has nothing left to do.
    AfterCreates,
    /// After the transaction's own deletion. The paper's photos then do not fit its 32 MB: up to 80
    /// exist at once.
    AfterDeletes,
}

/// How an entry of the index is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexWrite {
    /// Every unit that the entry touches, up to the end of the file: "writes synchronously in 512 B
    /// units".
    Units,
    /// The bytes of the entry alone, at once.
    Entry,
}

/// What deleting one photo does to the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexDelete {
    /// Its entry is overwritten in place and never used again: "acyclic".
    Overwrite,
    /// The last entry takes its place, and the file becomes shorter.
    Compact,
}

with_defaults! {
    /// A camera. The default is the paper's.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CameraSpec {
        /// Draws sizes, deletions and contents. Open: the paper names no generator, and its draw
        /// cannot be had again.
        pub seed: u64 = 1,
        /// Transactions: 10 (the paper).
        pub transactions: u32 = 10,
        /// Photos made in each: 20 (the paper).
        pub photos: u32 = 20,
        /// Photos deleted in each, of those that it made: half (the paper). Open: which half;
        /// drawn.
        pub deletes: u32 = 10,
        /// Shortest photo in bytes: 300 KB (the paper), KB taken as 1024.
        pub photo_bytes_min: u64 = 300 << 10,
        /// Longest photo in bytes: 500 KB (the paper). Open: how sizes are distributed; uniformly,
        /// in whole units.
        pub photo_bytes_max: u64 = 500 << 10,
        /// Bytes of an entry of the index: 96 (the paper).
        pub entry_bytes: u64 = 96,
        /// Bytes of a write: 512 (the paper).
        pub unit: u64 = 512,
        /// An fsync follows each write (the paper). Otherwise there is none.
        pub fsync: bool = true,
        /// More photos than this are too many: 60 (the paper).
        pub delete_all_above: u32 = 60,
        /// Open: when that is looked at. Right after the photos were made, because otherwise they
        /// overflow the paper's volume.
        pub delete_all: DeleteAll = DeleteAll::AfterCreates,
        /// Open: whether "units of 512 B" holds for entries of 96 B. It does, since the paper says
        /// so of both kinds of file.
        pub index_write: IndexWrite = IndexWrite::Units,
        /// Open: what "deletes index information" writes. The entry, in place; when all photos go,
        /// the index is cut to nothing.
        pub index_delete: IndexDelete = IndexDelete::Overwrite,
        /// Bytes of all photos together, in whole units: the drawn sizes are scaled by one factor,
        /// so that a few leave their bounds by as much. None: as drawn.
        ///
        /// 79.67 MB (the paper: the "total footprint"). Open: whether MB is 2^20, as in the paper's
        /// other sizes, or 10^6; and whether the index counts, a few hundred units. 2^20 and photos
        /// alone give 163,164 units. (200 draws have 80,000 KB on average. 79.67 MiB lies 1.9
        /// standard deviations above that, 79,670 KB 0.4 below.)
        pub total: Option<u64> = Some(7967 * (1 << 20) / 100),
    }
}

impl CameraSpec {
    /// The same camera for fewer or more transactions, with as many bytes in each.
    pub fn for_transactions(self, transactions: u32) -> Self {
        let share = |total: u64| {
            (u128::from(total) * u128::from(transactions) / u128::from(self.transactions.max(1)))
                as u64
        };
        Self {
            total: self.total.map(share),
            transactions,
            ..self
        }
    }

    fn photos_in_all(&self) -> u32 {
        self.transactions.saturating_mul(self.photos)
    }

    /// Refuses what is no camera, naming the first such key.
    pub fn check(&self) -> Result<(), SpecError> {
        let photos = u64::from(self.transactions) * u64::from(self.photos);
        require(
            self.transactions > 0,
            "transactions",
            self.transactions,
            "at least 1",
        )?;
        require(self.photos > 0, "photos", self.photos, "at least 1")?;
        within(
            "photos",
            photos,
            0..=PHOTOS_MAX.into(),
            "at most 99999 in all transactions, since names have five digits",
        )?;
        require(
            self.deletes <= self.photos,
            "deletes",
            self.deletes,
            "no more than a transaction's photos",
        )?;
        within("unit", self.unit, 1..=PHOTO_MAX, "1 to 4294967295 bytes")?;
        within("entry", self.entry_bytes, 1..=1 << 20, "1 to 1048576 bytes")?;
        let min = self.photo_bytes_min;
        let max = self.photo_bytes_max;
        require(min >= self.unit, "shortest photo", min, "at least a unit")?;
        within(
            "longest photo",
            max,
            min..=PHOTO_MAX,
            "at least the shortest photo, at most 4294967295 bytes",
        )?;
        require(
            max / self.unit >= min.div_ceil(self.unit),
            "longest photo",
            max,
            "whole units between it and the shortest",
        )?;
        if let Some(total) = self.total {
            require(
                total / self.unit >= photos,
                "total",
                total,
                "at least a unit for each photo",
            )?;
            require(
                total / photos <= PHOTO_MAX / 2,
                "total",
                total,
                "at most 2147483647 bytes a photo",
            )?;
        }
        Ok(())
    }
}

/// Sizes of photos in units: drawn, then scaled to the total.
#[derive(Clone, Debug)]
struct Sizes {
    rng: Rng,
    least: u64,
    span: u64,
    /// Units drawn so far, in all, and wanted; so no rounding is lost.
    drawn: u64,
    all: u64,
    wanted: u64,
}

impl Sizes {
    fn new(spec: &CameraSpec) -> Self {
        let least = spec.photo_bytes_min.div_ceil(spec.unit);
        let span = spec.photo_bytes_max / spec.unit - least + 1;
        let mut sizes = Self {
            rng: rng(spec.seed, "camera sizes"),
            least,
            span,
            drawn: 0,
            all: 1,
            wanted: 1,
        };
        if let Some(total) = spec.total {
            let mut trial = sizes.clone();
            sizes.all = (0..spec.photos_in_all()).map(|_| trial.draw()).sum();
            sizes.wanted = total / spec.unit;
        }
        sizes
    }

    fn draw(&mut self) -> u64 {
        self.least + below(&mut self.rng, self.span)
    }

    fn scaled(&self) -> u64 {
        (u128::from(self.drawn) * u128::from(self.wanted) / u128::from(self.all)) as u64
    }

    fn next(&mut self) -> u64 {
        let before = self.scaled();
        self.drawn += self.draw();
        self.scaled() - before
    }
}

/// A photo that exists.
#[derive(Clone, Copy, Debug)]
struct Photo {
    file: FileId,
    /// Its entry in the index.
    entry: u64,
}

/// The stream of a [`CameraSpec`].
#[derive(Clone, Debug)]
pub struct CameraMs500(Scripted<Camera>);

scripted!(CameraMs500);

#[derive(Clone, Debug)]
struct Camera {
    spec: CameraSpec,
    sizes: Sizes,
    deletions: Rng,
    /// Photos made so far.
    made: u32,
    /// Those that exist, the oldest first; compaction keeps them in the order of their entries.
    photos: Vec<Photo>,
    /// Entries of the index.
    entries: u64,
    /// Writes of the index so far: each has contents of its own.
    version: u32,
}

impl CameraMs500 {
    /// The camera that `spec` describes, if that passes its [`check`](CameraSpec::check).
    pub fn new(spec: CameraSpec) -> Result<Self, SpecError> {
        spec.check()?;
        let mut script = Script::new();
        script.calls(RUN, [FileCall::Create { file: INDEX }]);
        script.pass(RUN, (), spec.photos_in_all().into());
        script.calls(RUN, [FileCall::Close { file: INDEX }]);
        let contents = Contents::new(spec.seed);
        let camera = Camera {
            sizes: Sizes::new(&spec),
            deletions: rng(spec.seed, "camera deletions"),
            made: 0,
            photos: Vec::new(),
            entries: 0,
            version: 0,
            spec,
        };
        Ok(Self(Scripted::new(script, contents, camera)))
    }
}

impl Camera {
    fn make(&mut self, calls: &mut Calls) {
        self.made += 1;
        let file = FileId(self.made);
        let bytes = self.sizes.next() * self.spec.unit;
        calls.push_back(FileCall::Create { file });
        self.write(file, 0, bytes, 0, calls);
        calls.push_back(FileCall::Close { file });
        self.photos.push(Photo {
            file,
            entry: self.entries,
        });
        self.entries += 1;
        self.write_entry(self.entries - 1, calls);
    }

    /// Deletes what this transaction is to delete.
    fn thin_out(&mut self, calls: &mut Calls) {
        let too_many = |camera: &Self| camera.photos.len() > camera.spec.delete_all_above as usize;
        match self.spec.delete_all {
            DeleteAll::AfterCreates if too_many(self) => self.delete_all(calls),
            DeleteAll::AfterCreates => self.delete_some(calls),
            DeleteAll::AfterDeletes => {
                self.delete_some(calls);
                if too_many(self) {
                    self.delete_all(calls);
                }
            }
        }
    }

    fn delete_all(&mut self, calls: &mut Calls) {
        for photo in core::mem::take(&mut self.photos) {
            calls.push_back(FileCall::Remove { file: photo.file });
        }
        self.entries = 0;
        self.cut_index(calls);
    }

    /// Deletes photos of this transaction, in random order.
    fn delete_some(&mut self, calls: &mut Calls) {
        let first = self.made - self.spec.photos;
        for deleted in 0..self.spec.deletes {
            let is_new = |photo: &&Photo| photo.file.0 > first;
            let nth = below(&mut self.deletions, u64::from(self.spec.photos - deleted)) as usize;
            let Some(file) = self
                .photos
                .iter()
                .filter(is_new)
                .nth(nth)
                .map(|photo| photo.file)
            else {
                return;
            };
            self.delete(file, calls);
        }
    }

    fn delete(&mut self, file: FileId, calls: &mut Calls) {
        let Some(at) = self.photos.iter().position(|photo| photo.file == file) else {
            return;
        };
        calls.push_back(FileCall::Remove { file });
        match self.spec.index_delete {
            IndexDelete::Overwrite => {
                let photo = self.photos.remove(at);
                self.write_entry(photo.entry, calls);
            }
            IndexDelete::Compact => {
                let gone = self.photos.swap_remove(at);
                self.entries -= 1;
                if let Some(moved) = self.photos.get_mut(at) {
                    moved.entry = gone.entry;
                    self.write_entry(gone.entry, calls);
                }
                self.cut_index(calls);
            }
        }
    }

    fn write_entry(&mut self, entry: u64, calls: &mut Calls) {
        let start = entry * self.spec.entry_bytes;
        let unit = self.spec.unit;
        let end = start + self.spec.entry_bytes;
        let (from, to) = match self.spec.index_write {
            IndexWrite::Entry => (start, end),
            IndexWrite::Units => (
                start - start % unit,
                end.next_multiple_of(unit)
                    .min(self.entries * self.spec.entry_bytes),
            ),
        };
        self.version += 1;
        self.write(INDEX, from, to, self.version, calls);
    }

    /// Cuts the index behind its entries.
    fn cut_index(&self, calls: &mut Calls) {
        calls.push_back(FileCall::Truncate {
            file: INDEX,
            length: self.entries * self.spec.entry_bytes,
        });
        if self.spec.fsync {
            calls.push_back(FileCall::Fsync { file: INDEX });
        }
    }

    /// Writes bytes of a file unit by unit.
    fn write(&self, file: FileId, from: u64, to: u64, version: u32, calls: &mut Calls) {
        for (offset, length) in pieces(to.saturating_sub(from), self.spec.unit) {
            calls.push_back(file.write(from + offset, length, version));
            calls.extend(self.spec.fsync.then_some(FileCall::Fsync { file }));
        }
    }
}

impl Benchmark for Camera {
    type Pass = ();

    /// Makes the next photo, and ends the transaction if that was its last.
    fn item(&mut self, (): (), _: u64, calls: &mut Calls) {
        self.make(calls);
        if self.made.is_multiple_of(self.spec.photos) {
            self.thin_out(calls);
        }
    }

    /// `INDEX.DAT`, `PIC00001.JPG`, `PIC00002.JPG` ...: short names, as cameras give them, so that
    /// each has one slot of a directory.
    fn name(&self, file: FileId) -> String {
        if file == INDEX {
            "INDEX.DAT".into()
        } else {
            format!("PIC{:05}.JPG", file.0)
        }
    }

    fn group(&self, file: FileId) -> &'static str {
        if file == INDEX { "index" } else { "photos" }
    }
}

#[cfg(test)]
mod tests;
