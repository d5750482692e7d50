//! Random calls beside the reference file system, with remounts.

use crate::{AssertClean, Mount};
use nandlab_block::Ram;
use nandlab_vfs::FileSystem;
use nandlab_vfs::model::{Model, Rules};

/// Runs `steps` random calls; panics at the first answer that is not the reference's.
pub fn run<F: FileSystem + ?Sized>(model: &mut Model, fs: &mut F, steps: u64) {
    if let Err(mismatch) = model.run(fs, steps) {
        panic!("{mismatch} ({:?})", fs.cause());
    }
}

/// Releases what the calls hold open, and unmounts.
pub fn unmount<F: FileSystem + ?Sized>(model: &mut Model, fs: &mut F) {
    model.release(fs);
    if let Err(error) = fs.unmount() {
        panic!("{error} ({:?})", fs.cause());
    }
}

/// Model runs with a remount between them.
pub struct Rounds<'m> {
    /// Mounts the disk for a round.
    pub mount: Mount<'m>,
    /// Checks the disk after each round.
    pub assert_clean: AssertClean,
    /// What the file system can do.
    pub rules: Rules,
    /// Seed of the calls.
    pub seed: u64,
    /// How often the disk is mounted.
    pub rounds: u64,
    /// Number of calls on each mount.
    pub steps: u64,
}

impl Rounds<'_> {
    /// Runs all rounds on a disk. Each mount must see the tree that the one before left.
    pub fn run(self, disk: &mut Ram) {
        let seed = self.seed;
        let mut model = Model::new(seed, self.rules);
        for round in 0..self.rounds {
            let mut fs = (self.mount)(disk);
            run(&mut model, &mut *fs, self.steps);
            if round % 3 == 0 {
                model.compare(&mut *fs).unwrap();
            }
            unmount(&mut model, &mut *fs);
            drop(fs);
            (self.assert_clean)(disk, &format!("seed {seed} after round {round}"));
            model.compare(&mut *(self.mount)(disk)).unwrap();
        }
        assert!(model.judge().inodes() > 60, "a tree worth comparing");
    }
}
