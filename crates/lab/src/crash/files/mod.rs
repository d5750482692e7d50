//! Whole stacks as a subject: chip, translation layer and file system, judged by the files that are
//! found.
//!
//! *Promises.* Each life attaches the layer, mounts (and so recovers) the file system, runs its
//! check, compares the tree with what [`FilesOracle`] allows, and goes on with changes, an fsync
//! and an unmount.
//!
//! *Works on* a [`Layer`] and a [`Volume`] over its disk. *Knows nothing of* formats.
//!
//! | module | its one idea |
//! |---|---|
//! | `op`, `mixed` | an operation on files; runs of them |
//! | `model` | a tree as it should be |
//! | `found` | a tree as it is found |
//! | `contents` | versions of one file, mixed |
//! | `oracle` | who judges; `whole` trees, or `loose` files |
//! | `volume` | ext and FAT as the explorer needs them |
//! | `flash` | JFFS2 on flash itself |
//! | `described` | those of an experiment |

mod contents;
mod described;
mod flash;
mod found;
mod loose;
mod mixed;
mod model;
mod op;
mod oracle;
mod volume;
mod whole;

pub use described::DescribedVolume;
pub(super) use described::file_operations;
pub use flash::FlashFiles;
pub use mixed::mixed;
pub use op::{FileOp, Path};
pub use oracle::{FilesOracle, Promise};
pub use volume::{ExtVolume, F2fsVolume, FatVolume, Mounted, Nature, Volume};

use super::disk::Layer;
use super::subject::{Failure, GoOn, Kind, Subject};
use nandlab_block::BlockDevice;
use nandlab_nand::Chip;
use nandlab_sim::mix;
use nandlab_vfs::Time;

/// When runs begin, in seconds since 1970.
const EPOCH_SECS: i64 = 1_000_000_000;
/// An operation takes a second.
const STEP_SECS: i64 = 1;
/// A pause is longer than Linux lets data wait.
const PAUSE_SECS: i64 = 40;
/// Bits of a seed that number a change in its life.
const LIFE_BITS: u32 = 40;

/// A file system on a layer, as a subject.
#[derive(Clone, Debug)]
pub struct Files<L, V> {
    /// The layer over the chip.
    pub layer: L,
    /// The file system over the layer's disk.
    pub volume: V,
}

/// A mounted file system, and what time its caller has.
pub struct Device<D> {
    /// Why not, once it could not be mounted again: then the disk has gone with it.
    fs: Result<Box<dyn Mounted<D>>, String>,
    now: Time,
    goes_on: bool,
}

impl<D> Device<D> {
    fn new(mut fs: Box<dyn Mounted<D>>, now: Time) -> Result<Self, String> {
        let goes_on = fs.goes_on();
        Ok(Self {
            fs: Ok(fs),
            now,
            goes_on,
        })
    }

    fn fs(&mut self) -> &mut dyn Mounted<D> {
        &mut **self.fs.as_mut().expect("mounted, or the life has ended")
    }

    fn into_disk(self) -> D {
        self.fs
            .unwrap_or_else(|why| panic!("mounting again: {why}"))
            .into_disk()
    }
}

impl<L: Layer<Device: 'static>, V: Volume> Subject for Files<L, V> {
    type Device = Device<L::Device>;
    type Op = FileOp;
    type Oracle = FilesOracle;

    fn formatted(&self) -> Result<(Chip, FilesOracle), String> {
        let mut disk = self.layer.format()?;
        let sector = disk.geometry().sector as usize;
        self.volume.format(&mut disk)?;
        Ok((
            self.layer.power_off(disk),
            FilesOracle::new(self.volume.nature(), sector),
        ))
    }

    fn attach(&self, chip: Chip) -> Result<Self::Device, String> {
        let now = started(&chip);
        Device::new(self.volume.mount(self.layer.attach(chip)?)?, now)
    }

    fn power_off(&self, device: Self::Device) -> Chip {
        self.layer.power_off(device.into_disk())
    }

    fn apply(
        &self,
        device: &mut Self::Device,
        op: &FileOp,
        _: &FilesOracle,
    ) -> Result<(), Failure> {
        perform(device, op, |disk| self.volume.mount(disk))
    }

    fn go_on(&self, device: &Self::Device, going_on: GoOn) -> Vec<FileOp> {
        go_on(device, going_on)
    }
}

/// A life that began later has later times.
fn started(chip: &Chip) -> Time {
    Time::new(EPOCH_SECS + (chip.clock().now() / 1_000_000) as i64)
}

/// Carries out an operation; `mount` comes after a remount's unmount.
fn perform<D>(
    device: &mut Device<D>,
    op: &FileOp,
    mount: impl FnOnce(D) -> Result<Box<dyn Mounted<D>>, String>,
) -> Result<(), Failure> {
    device.now.secs += if matches!(op, FileOp::Pause { .. }) {
        PAUSE_SECS
    } else {
        STEP_SECS
    };
    let now = device.now;
    op::perform(&mut *device.fs(), op, now)
        .map_err(|e| Failure::new(Kind::Refused, format_args!("{op}: {e}; allowed: success")))?;
    if *op == FileOp::Remount {
        let unmounted = std::mem::replace(&mut device.fs, Err("never came to it".into()));
        device.fs = unmounted.and_then(|fs| mount(fs.into_disk()));
        device
            .fs
            .as_ref()
            .map_err(|why| Failure::new(Kind::Attach, format_args!("mounting again: {why}")))?;
    }
    Ok(())
}

/// What the host does after a recovery.
fn go_on<D>(device: &Device<D>, going_on: GoOn) -> Vec<FileOp> {
    if !device.goes_on {
        return Vec::new();
    }
    let own: Path = format!("after cut {}", going_on.life).into();
    // What the run left, under the names that it gives most often.
    let run = mixed(going_on.word, 3 * going_on.changes as usize);
    let seed = |i: usize| {
        u64::from(going_on.life) << LIFE_BITS | mix(going_on.word, i as u64) >> (64 - LIFE_BITS)
    };
    let [create, append] = [
        FileOp::Create { path: own.clone() },
        FileOp::Append {
            path: own.clone(),
            length: 2000,
            seed: seed(usize::MAX),
        },
    ];
    let end = [FileOp::Fsync { path: own }, FileOp::Remount];
    [create, append].into_iter().chain(run).chain(end).collect()
}
