//! Lives that end in power cuts: the model test of every layer that survives them.

use crate::common::{Model, step};
use nandlab_block::BlockError;
use nandlab_ftl::{Ftl, Merges};
use nandlab_nand::{Chip, ChipSpec, CrashStates};
use nandlab_sim::{Rng, rng};
use nandlab_testkit::media::Media;
use rand::{Rng as _, RngExt as _};

/// How far a run came.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub done: u32,
    pub cuts: u32,
    /// Failed programs and erases survived.
    pub failures: u64,
    /// Lives that the chip did not live through.
    pub worn_out: u32,
    pub merges: Merges,
    /// What the chips hold in the end.
    pub media: Media,
}

/// Runs `ops` operations in lives that each end in a power cut at a moment of their own: every
/// other one in the middle of an operation. Ends early when the chip is worn out; then everything
/// can still be read.
pub fn against_an_array<F>(
    spec: ChipSpec,
    ops: u32,
    format: impl Fn(Chip) -> F,
    attach: impl Fn(Chip) -> F,
) -> Outcome
where
    F: Ftl<Medium = Chip>,
{
    lives(spec, ops, format, attach, step)
}

/// The same with operations of another kind.
pub fn lives<F>(
    spec: ChipSpec,
    ops: u32,
    format: impl Fn(Chip) -> F,
    attach: impl Fn(Chip) -> F,
    step: impl Fn(&mut F, &mut Model, &mut Rng) -> Result<(), BlockError>,
) -> Outcome
where
    F: Ftl<Medium = Chip>,
{
    let seed = spec.seed;
    let mut random = rng(seed, "model");
    let mut device = format(Chip::new(spec).unwrap());
    let mut model = Model::new(device.geometry().sectors);
    let mut outcome = Outcome::default();
    while outcome.done < ops {
        let base = device.medium().fork().unwrap();
        device = attach({
            let mut chip = base.fork().unwrap();
            chip.start_log();
            chip
        });
        let life = random.random_range(1..400).min(ops - outcome.done);
        if random.random_bool(0.5) {
            let rail = device.medium().rail();
            rail.cut_at(rail.steps() + random.random_range(1..400));
        }
        for _ in 0..life {
            match step(&mut device, &mut model, &mut random) {
                Ok(()) => outcome.done += 1,
                Err(BlockError::PowerCut) => break,
                Err(BlockError::WornOut(_)) => {
                    device.medium().rail().restore();
                    model.check_all(&mut device, "wearing out");
                    outcome.worn_out += 1;
                    outcome.failures = device.medium().counts().failures;
                    return outcome;
                }
                Err(error) => panic!(
                    "seed {seed}, operation {}: {error}\n{}",
                    outcome.done,
                    device.medium().recent().join("\n")
                ),
            }
        }
        outcome.count(device.tally().merges);
        // The cut: some time within the last operations, so that programs, copies and erases are
        // under way. Only what was issued counts, so that the moment lies after every acknowledged
        // flush that the model relies on.
        let now = device.medium().clock().now();
        let log = device.medium().logged().to_vec();
        let chip = CrashStates::new(base, &log)
            .at(now, random.next_u64())
            .unwrap();
        outcome.cuts += 1;
        device = attach(chip);
        let chip = device.medium();
        outcome.media.note(&(chip.counts(), chip.clock().now()));
        model.check_all(&mut device, &format!("cut {} of seed {seed}", outcome.cuts));
    }
    outcome.failures = device.medium().counts().failures;
    let mut chip = device.medium().fork().unwrap();
    outcome.media = outcome.media.flash(&mut chip);
    outcome
}

impl Outcome {
    fn count(&mut self, merges: Merges) {
        self.merges.switch += merges.switch;
        self.merges.partial += merges.partial;
        self.merges.full += merges.full;
        self.merges.folds_in_place += merges.folds_in_place;
        self.merges.folds_elsewhere += merges.folds_elsewhere;
    }

    pub fn add(&mut self, other: Self) {
        self.done += other.done;
        self.cuts += other.cuts;
        self.failures += other.failures;
        self.worn_out += other.worn_out;
        self.count(other.merges);
        self.media.add(other.media);
    }
}
