//! The explored stack and its judge: the two traits that the explorer stands on.

use nandlab_mtd::LayerError;
use nandlab_nand::Chip;
use serde::{Deserialize, Serialize};
use std::{error::Error, fmt};

/// A stack over one chip, and the operations of a workload on it.
///
/// The stack must keep to the clock of its chip. It must be a function of the chip's contents and
/// of the operations alone.
pub trait Subject: Sync {
    /// The type of the stack once attached.
    type Device;
    /// One host operation. Any subsequence of a workload must be a workload.
    type Op: Clone + fmt::Display + Send + Sync;
    /// Decides which contents a cut may leave.
    type Oracle: Oracle<Self::Device, Self::Op>;

    /// A chip that holds a freshly formatted, durable stack, and an oracle for this state.
    fn formatted(&self) -> Result<(Chip, Self::Oracle), LayerError>;

    /// Attaches the stack from the chip alone, whatever a cut left there.
    fn attach(&self, chip: Chip) -> Result<Self::Device, LayerError>;

    /// Gives the chip back as it is, without another operation. An operation that failed may have
    /// lost it.
    fn power_off(&self, device: Self::Device) -> Option<Chip>;

    /// Serves one operation. A read is compared with the contents that the oracle expects; the
    /// oracle already knows that the operation began.
    fn apply(
        &self,
        device: &mut Self::Device,
        op: &Self::Op,
        oracle: &Self::Oracle,
    ) -> Result<(), Failure>;

    /// The host's operations after a recovery. The last one makes them durable.
    fn go_on(&self, device: &Self::Device, going_on: GoOn) -> Vec<Self::Op>;
}

/// How to go on after a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoOn {
    /// Chooses places and lengths.
    pub word: u64,
    /// How many changes to make.
    pub changes: u32,
    /// Cuts survived so far: 1 or 2. Data must differ from one life to the next.
    pub life: u32,
}

/// Follows the host's operations and knows what the stack may hold at any moment. It should be
/// cheap to clone, because each state has its own.
pub trait Oracle<Device, Op>: Clone + Send + Sync {
    /// The host called: the operation may take effect from now on.
    fn began(&mut self, op: &Op);

    /// The call returned: its promise holds from now on.
    fn returned(&mut self, op: &Op);

    /// The power was cut: anything not promised may be lost.
    fn cut(&mut self);

    /// Reads and compares everything. After a cut, any allowed state passes and becomes the
    /// expected one. Without a cut, only the newest state passes.
    fn check(&mut self, device: &mut Device) -> Result<(), Failure>;
}

/// A promise that a state after a power cut breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The promise that was broken.
    pub kind: Kind,
    /// What was found, and what is allowed.
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

/// The promise that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The stack attaches after the cut.
    Attach,
    /// The stack can be read, and holds allowed contents.
    Contents,
    /// The stack serves operations.
    Refused,
    /// Each step takes a bounded number of chip operations.
    Endless,
    /// No call panics after the cut.
    Panic,
    /// No chip operation overtakes another one and destroys data that it still needs.
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
