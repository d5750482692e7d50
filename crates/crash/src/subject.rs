//! What is explored, and who judges it: the two traits that the explorer stands on.

use nandlab_mtd::LayerError;
use nandlab_nand::Chip;
use serde::{Deserialize, Serialize};
use std::{error::Error, fmt};

/// A stack over one chip, and a workload's operations on it.
///
/// The stack must keep to the clock that the chip it was given has, and be a function of the chip's
/// contents and of the operations alone.
pub trait Subject: Sync {
    /// The attached stack.
    type Device;
    /// One host operation, self-contained: any subsequence of a workload is a workload.
    type Op: Clone + fmt::Display + Send + Sync;
    /// Who knows what may be found after a cut.
    type Oracle: Oracle<Self::Device, Self::Op>;

    /// A chip with a freshly formatted, durable, detached stack on it, and an oracle that knows
    /// this state.
    fn formatted(&self) -> Result<(Chip, Self::Oracle), LayerError>;

    /// Comes back from the chip alone, however it was left.
    fn attach(&self, chip: Chip) -> Result<Self::Device, LayerError>;

    /// Gives the chip back as it is, without any further operation.
    fn power_off(&self, device: Self::Device) -> Chip;

    /// Serves one operation; what it reads is compared with what the oracle (which has been told
    /// that it began) expects.
    fn apply(
        &self,
        device: &mut Self::Device,
        op: &Self::Op,
        oracle: &Self::Oracle,
    ) -> Result<(), Failure>;

    /// What the host does after a recovery, ending with what makes it durable.
    fn go_on(&self, device: &Self::Device, going_on: GoOn) -> Vec<Self::Op>;
}

/// How to go on after a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoOn {
    /// Chooses places and lengths.
    pub word: u64,
    /// How many changes to make.
    pub changes: u32,
    /// Cuts survived so far: 1 or 2. What is written must differ from one life to the next.
    pub life: u32,
}

/// Follows the host's operations and knows what the stack may hold at any moment. Cheap to clone:
/// there is one for each state.
pub trait Oracle<Device, Op>: Clone + Send + Sync {
    /// The host called; the operation's effects may arrive from now on.
    fn began(&mut self, op: &Op);

    /// The call returned; what it promised holds from now on.
    fn returned(&mut self, op: &Op);

    /// The power went: whatever was not promised may be lost.
    fn cut(&mut self);

    /// Looks at everything. After a cut, any allowed state will do, and is from now on the one
    /// expected; otherwise nothing but the newest will.
    fn check(&mut self, device: &mut Device) -> Result<(), Failure>;
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which.
    pub kind: Kind,
    /// What was found, and what was allowed.
    pub what: String,
}

impl Failure {
    /// A failure in words.
    pub fn new(kind: Kind, what: impl fmt::Display) -> Self {
        Self {
            kind,
            what: what.to_string(),
        }
    }

    /// A failure in the words of an error and of its sources, each source once.
    pub fn from_error(kind: Kind, error: &(dyn Error + 'static)) -> Self {
        let mut what = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            let more = error.to_string();
            if !what.contains(&more) {
                what = format!("{what}: {more}");
            }
            source = error.source();
        }
        Self { kind, what }
    }
}

/// The promise that was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The stack attaches.
    Attach,
    /// It holds what it should, and can be read.
    Contents,
    /// It serves operations.
    Refused,
    /// It does so in a bounded number of chip operations.
    Endless,
    /// It does not panic.
    Panic,
    /// Its chip operations do not overtake one another so that one destroys what another still
    /// needs.
    Overtaken,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Attach => "does not attach",
            Self::Contents => "wrong contents",
            Self::Refused => "operation refused",
            Self::Endless => "does not end",
            Self::Panic => "panic",
            Self::Overtaken => "operation overtaken",
        })
    }
}
