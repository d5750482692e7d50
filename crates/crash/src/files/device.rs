//! The mounted file system that the explorer checks and changes.

use super::op::{self, FileOp};
use crate::subject::{Failure, Kind};
use nandlab_mtd::LayerError;
use nandlab_vfs::{Mounted, Time};

/// An operation takes a second.
const STEP_SECS: i64 = 1;
/// A pause is longer than Linux lets data wait.
const PAUSE_SECS: i64 = 40;

/// A mounted file system, and the time of its caller.
pub struct Device<D> {
    /// If a remount fails, its error: the medium is lost with it.
    fs: Result<Box<dyn Mounted<D>>, LayerError>,
    now: Time,
    goes_on: bool,
}

impl<D> Device<D> {
    pub(super) fn new(mut fs: Box<dyn Mounted<D>>, now: Time) -> Self {
        let goes_on = fs.goes_on();
        Self {
            fs: Ok(fs),
            now,
            goes_on,
        }
    }

    pub(super) fn fs(&mut self) -> &mut dyn Mounted<D> {
        &mut **self.fs.as_mut().expect("mounted, or the life has ended")
    }

    /// Whether it may be written: otherwise a repair comes first.
    pub(super) fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// The medium, unless a remount has lost it.
    pub(super) fn into_medium(self) -> Option<D> {
        self.fs.ok().map(|fs| fs.into_medium())
    }

    /// Carries out an operation; `mount` comes after a remount's unmount.
    pub(super) fn perform(
        &mut self,
        op: &FileOp,
        mount: impl FnOnce(D) -> Result<Box<dyn Mounted<D>>, LayerError>,
    ) -> Result<(), Failure> {
        self.now.secs += if matches!(op, FileOp::Pause { .. }) {
            PAUSE_SECS
        } else {
            STEP_SECS
        };
        let now = self.now;
        op::perform(&mut *self.fs(), op, now).map_err(|e| {
            Failure::new(Kind::Refused, format_args!("{op}: {e}; allowed: success"))
        })?;
        if *op == FileOp::Remount {
            let unmounted = std::mem::replace(&mut self.fs, Err("not mounted".into()));
            self.fs = unmounted.and_then(|fs| mount(fs.into_medium()));
            self.fs
                .as_ref()
                .map_err(|why| Failure::new(Kind::Attach, format_args!("mounting again: {why}")))?;
        }
        Ok(())
    }
}
