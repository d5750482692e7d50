//! Whole stacks as a subject: chip, layer and file system, judged by the files that are found.
//!
//! *Promises.* Each life attaches the layer, mounts (and so recovers) the file system, runs its
//! check, and compares the tree with what [`FilesOracle`] allows. Then it makes changes, an fsync
//! and a remount.
//!
//! *Works on* a [`Layer`] and a [`Volume`] over its device: a disk, or flash. *Knows nothing of*
//! formats.
//!
//! | module | its one idea |
//! |---|---|
//! | `op`, `mixed`, `sequences` | an operation on files; seeded runs of them; all short runs |
//! | `model` | a tree as it should be |
//! | `found` | a tree as it is found |
//! | `contents` | versions of one file, mixed |
//! | `device` | the mounted file system |
//! | `history` | the trees that may be found; compared as `whole` trees, or by `loose` files |
//! | `oracle` | follows the operations, and judges |

mod contents;
mod device;
mod found;
mod history;
mod loose;
mod mixed;
mod model;
mod op;
mod oracle;
mod sequences;
mod whole;

pub use device::Device;
pub use mixed::mixed;
pub use op::{FileOp, Path};
pub use oracle::FilesOracle;
pub use sequences::sequences;

use crate::subject::{Failure, GoOn, Subject};
use nandlab_mtd::{Layer, LayerError};
use nandlab_nand::{Chip, ChipSpec};
use nandlab_sim::mix;
use nandlab_vfs::{Time, Volume};

/// When runs begin, in seconds since 1970.
const EPOCH_SECS: i64 = 1_000_000_000;
/// Bits of a seed that number a change in its life.
const LIFE_BITS: u32 = 40;

/// A file system on a layer on a chip, as a subject.
#[derive(Clone, Debug)]
pub struct Files<L, V> {
    /// The chip that the file system lies on.
    pub chip: ChipSpec,
    /// The layer over the chip; [`Bare`](nandlab_mtd::Bare) for a file system on flash itself.
    pub layer: L,
    /// The file system over the layer.
    pub volume: V,
}

impl<L, V> Subject for Files<L, V>
where
    L: Layer<Chip> + Sync,
    V: Volume<L::Device> + Sync,
{
    type Device = Device<L::Device>;
    type Op = FileOp;
    type Oracle = FilesOracle;

    fn formatted(&self) -> Result<(Chip, FilesOracle), LayerError> {
        let mut below = self.layer.format(Chip::new(self.chip.clone())?)?;
        self.volume.format(&mut below)?;
        let oracle = FilesOracle::new(self.volume.nature(&below));
        Ok((self.layer.power_off(below), oracle))
    }

    fn attach(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        // A life that began later has later times.
        let now = Time::new(EPOCH_SECS + (chip.clock().now() / 1_000_000) as i64);
        let fs = self.volume.mount(self.layer.attach(chip)?)?;
        Ok(Device::new(fs, now))
    }

    fn power_off(&self, device: Self::Device) -> Option<Chip> {
        let below = device.into_medium();
        below.map(|below| self.layer.power_off(below))
    }

    fn apply(
        &self,
        device: &mut Self::Device,
        op: &FileOp,
        _: &FilesOracle,
    ) -> Result<(), Failure> {
        device.perform(op, |below| self.volume.mount(below))
    }

    fn go_on(&self, device: &Self::Device, going_on: GoOn) -> Vec<FileOp> {
        if device.goes_on() {
            changes(going_on)
        } else {
            Vec::new()
        }
    }
}

/// What the host does after a recovery.
fn changes(going_on: GoOn) -> Vec<FileOp> {
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
