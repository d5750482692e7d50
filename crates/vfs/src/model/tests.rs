//! The driver catches broken file systems.

use super::*;
use crate::{DirEntry, Dirty, Rename, SetAttr, delegate};

#[test]
fn the_judge_agrees_with_itself() {
    for seed in 0..4 {
        let mut fs = MemFs::new(u64::MAX / 2, Time::default());
        let mut model = Model::new(seed, Rules::unix());
        model.run(&mut fs, 20_000).unwrap();
        model.compare(&mut fs).unwrap();
        assert!(model.judge().inodes() > 100, "a tree worth comparing");
        model.release(&mut fs);
        assert_eq!(
            fs.inodes(),
            model.judge().inodes(),
            "every reference was given back"
        );
    }
}

/// Breaks one rule now and then.
struct Wrong {
    inner: MemFs,
    bug: u8,
}

impl FileSystem for Wrong {
    delegate! { [self.inner]
        lookup getattr create link unlink rmdir readlink write fsync sync unmount statfs setxattr
    }
    fn forget(&mut self, ino: Ino, references: u64) {
        self.inner.forget(
            ino,
            if self.bug == 1 {
                references + 1
            } else {
                references
            },
        );
    }
    fn setattr(&mut self, ino: Ino, change: &SetAttr, now: Time) -> Result<Attr, Errno> {
        self.inner.setattr(
            ino,
            change,
            if self.bug == 2 { Time::default() } else { now },
        )
    }
    fn rename(
        &mut self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        how: Rename,
        now: Time,
    ) -> Result<(), Errno> {
        let how = if self.bug == 3 && how == Rename::NoReplace {
            Rename::Replace
        } else {
            how
        };
        self.inner.rename(from, to, how, now)
    }
    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        let count = self.inner.read(ino, offset, buf)?;
        if self.bug == 4 && count == 512 {
            buf[511] ^= 1;
        }
        Ok(count)
    }
    fn readdir(
        &mut self,
        dir: Ino,
        from: u64,
        each: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<(), Errno> {
        self.inner
            .readdir(dir, if self.bug == 5 { from + 1 } else { from }, each)
    }
    fn dirty(&self) -> Dirty {
        Dirty {
            bytes: if self.bug == 6 { 1 } else { 0 },
            since: None,
        }
    }
}

#[test]
fn each_broken_rule_is_found_and_named() {
    for bug in 1..=6 {
        let mut fs = Wrong {
            inner: MemFs::new(u64::MAX / 2, Time::default()),
            bug,
        };
        let mut model = Model::new(
            7,
            Rules {
                xattrs: false,
                ..Rules::unix()
            },
        );
        let mismatch = model
            .run(&mut fs, 20_000)
            .expect_err("a broken file system passed");
        assert!(
            mismatch.seed == 7 && mismatch.step < 20_000,
            "bug {bug}: {mismatch}"
        );
        let mut again = Wrong {
            inner: MemFs::new(u64::MAX / 2, Time::default()),
            bug,
        };
        let replayed = Model::new(
            7,
            Rules {
                xattrs: false,
                ..Rules::unix()
            },
        )
        .run(&mut again, mismatch.step + 1);
        assert_eq!(replayed, Err(mismatch), "seed and step replay it");
    }
}
