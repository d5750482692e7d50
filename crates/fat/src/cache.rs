//! Sectors in memory: dirty ones, and clean ones that may be needed again.
//!
//! *Promises.* Dirty blocks are kept until they are marked clean or forgotten; clean ones take at
//! most twice the capacity. *Knows nothing of* devices or of what the sectors hold, save whom they
//! belong to.

use nandlab_block::OwnedCache;
use nandlab_vfs::{Ino, Time};

/// Whom a dirty sector belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// Contents of this file.
    File(Ino),
    /// Table, directory or file system information.
    Metadata,
}

impl nandlab_block::Owner for Owner {
    fn is_contents(&self) -> bool {
        matches!(self, Self::File(_))
    }
}

/// The cache of the volume's sectors.
pub(crate) type Cache = OwnedCache<Owner, Time, ()>;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;

    const A: Owner = Owner::File(Ino(5));

    fn sector(byte: u8) -> Box<[u8]> {
        Box::new([byte; 4])
    }

    #[test]
    fn dirty_data_stays_and_clean_data_is_bounded() {
        let mut cache = Cache::new(16);
        cache.replace(1000, A, Time::new(1), sector(7));
        for n in 0..100 {
            cache.keep(n, sector(n as u8));
        }
        assert!(cache.clean() <= 16);
        let found = [1000, 99, 3].map(|sector| cache.get(sector).map(|data| data[0]));
        assert_eq!(found, [Some(7), Some(99), None]);
        cache.mark_clean(1000);
        assert_eq!(
            (cache.dirty_count(), cache.get(1000)),
            (0, Some(&[7; 4][..]))
        );
    }

    #[test]
    fn the_oldest_contents_come_first_and_metadata_not_at_all() {
        let mut cache = Cache::new(16);
        for (n, since) in [(30, 3), (10, 1), (20, 2), (40, 4)] {
            cache.replace(n, A, Time::new(since), sector(0));
        }
        cache.replace(5, Owner::Metadata, Time::new(0), sector(0));
        cache.edit(10, A, Time::new(9), |_| ()).unwrap()[0] = 1;
        assert_eq!(cache.oldest_contents(1, Time::MIN), [10]);
        assert_eq!(cache.oldest_contents(0, Time::new(3)), [10, 20, 30]);
        assert_eq!(
            (cache.dirty_count(), cache.dirty_contents(), cache.since()),
            (5, 4, Some(Time::new(0)))
        );
        cache.forget_run(10, 11);
        assert_eq!(
            (cache.of(A), cache.of(Owner::Metadata)),
            ([30, 40].to_vec(), [5].to_vec())
        );
    }
}
