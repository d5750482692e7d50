//! The plain map beside a device, and lives that end in power cuts.

use nandlab_mtd::MtdError;
use nandlab_nand::{Chip, ChipSpec, CrashStates};
use nandlab_sim::{Rng, rng};
use nandlab_ubi::{Options, Ubi, UbiError, VolumeSpec};
use rand::{Rng as _, RngExt as _};

pub const PAGE: usize = 1024;
pub const LEBS: u32 = 24;
const NAME: &str = "model";

/// What the pages of a logical block hold: the stamp of each, 0 for erased.
pub type Pages = Vec<u32>;

/// A logical block: what it may hold. The last is what it does hold while the power is on.
#[derive(Clone, Debug)]
struct Block {
    now: Pages,
    /// What it held since the last sync; the first is what it held then.
    since: Vec<Pages>,
    /// It was given up, and what it held before may come back, whole or damaged.
    given_up: bool,
}

/// A map that stands for the right answer.
#[derive(Clone, Debug)]
pub struct Model {
    blocks: Vec<Block>,
    stamp: u32,
    pages: usize,
}

/// A call on the volume.
#[derive(Clone, Debug)]
pub enum Op {
    Write(u32, usize, Vec<u32>),
    Change(u32, Vec<u32>),
    Unmap(u32),
    Map(u32),
    Erase(u32),
    Read(u32),
    Sync,
    Work,
    Rename,
    Second,
}

fn page_bytes(stamp: u32, lnum: u32) -> Vec<u8> {
    if stamp == 0 {
        return vec![0xFF; PAGE];
    }
    let mut bytes: Vec<u8> = (0..PAGE as u64 / 8)
        .flat_map(|i| nandlab_sim::mix(u64::from(stamp) << 32 | u64::from(lnum), i).to_le_bytes())
        .collect();
    bytes[..4].copy_from_slice(&stamp.to_le_bytes());
    bytes
}

/// The stamps of a block's pages; none for a page that is not what any call wrote there.
fn stamps(bytes: &[u8], lnum: u32) -> Vec<Option<u32>> {
    bytes
        .chunks_exact(PAGE)
        .map(|page| {
            let stamp = if page.iter().all(|&b| b == 0xFF) {
                0
            } else {
                u32::from_le_bytes(page[..4].try_into().unwrap())
            };
            (page_bytes(stamp, lnum) == page).then_some(stamp)
        })
        .collect()
}

fn bytes(stamps: &[u32], lnum: u32) -> Vec<u8> {
    stamps
        .iter()
        .flat_map(|&stamp| page_bytes(stamp, lnum))
        .collect()
}

impl Model {
    pub fn new(pages: usize) -> Self {
        let empty = Block {
            now: vec![0; pages],
            since: vec![vec![0; pages]],
            given_up: false,
        };
        Self {
            blocks: vec![empty; LEBS as usize],
            stamp: 0,
            pages,
        }
    }

    fn fresh(&mut self, count: usize) -> Vec<u32> {
        (0..count)
            .map(|_| {
                self.stamp += 1;
                self.stamp
            })
            .collect()
    }

    /// A change of a logical block.
    pub fn change(&mut self, lnum: u32, pages: usize) -> Op {
        Op::Change(lnum, self.fresh(pages))
    }

    pub fn draw(&mut self, random: &mut Rng) -> Op {
        let lnum = if random.random_bool(0.5) {
            random.random_range(0..4)
        } else {
            random.random_range(0..LEBS)
        };
        let used = self.blocks[lnum as usize]
            .now
            .iter()
            .rposition(|&stamp| stamp != 0)
            .map_or(0, |last| last + 1);
        match random.random_range(0..40) {
            0..12 if used < self.pages => {
                let at = random.random_range(used..self.pages);
                let count = random.random_range(1..=(self.pages - at).min(3));
                Op::Write(lnum, at, self.fresh(count))
            }
            0..20 => {
                let count = random.random_range(1..=self.pages);
                Op::Change(lnum, self.fresh(count))
            }
            20..23 => Op::Unmap(lnum),
            23 => Op::Map(lnum),
            24 => Op::Erase(lnum),
            25..29 => Op::Sync,
            29 if random.random_bool(0.1) => Op::Rename,
            30 if random.random_bool(0.2) => Op::Second,
            29..34 => Op::Read(lnum),
            _ => Op::Work,
        }
    }

    /// A call begins: it may be done in part.
    pub fn begin(&mut self, op: &Op) {
        match op {
            Op::Write(lnum, at, stamps) => {
                let block = &mut self.blocks[*lnum as usize];
                for (i, &stamp) in stamps.iter().enumerate() {
                    block.now[at + i] = stamp;
                    block.since.push(block.now.clone());
                }
            }
            Op::Change(lnum, stamps) => {
                let block = &mut self.blocks[*lnum as usize];
                block.now.fill(0);
                block.now[..stamps.len()].copy_from_slice(stamps);
                block.since.push(block.now.clone());
            }
            Op::Unmap(lnum) | Op::Erase(lnum) => {
                let block = &mut self.blocks[*lnum as usize];
                block.now.fill(0);
                block.since.push(block.now.clone());
                block.given_up = true;
            }
            Op::Map(_) | Op::Read(_) | Op::Sync | Op::Work | Op::Rename | Op::Second => {}
        }
    }

    /// A call has returned.
    pub fn done(&mut self, op: &Op) {
        match op {
            Op::Write(lnum, ..) | Op::Change(lnum, _) | Op::Erase(lnum) | Op::Map(lnum) => {
                self.certain(*lnum)
            }
            Op::Sync => self.finish_work(),
            Op::Unmap(_) | Op::Read(_) | Op::Work | Op::Rename | Op::Second => {}
        }
    }

    /// Whatever the block held before cannot come back once this is durable.
    fn certain(&mut self, lnum: u32) {
        self.blocks[lnum as usize].given_up = false;
    }

    /// Writes every block as it is supposed to be.
    pub fn rewrite(&mut self, ubi: &mut Ubi<Chip>) {
        let id = ubi
            .find_volume(NAME)
            .or_else(|| ubi.find_volume("renamed"))
            .expect("the volume is gone");
        for (lnum, block) in (0..).zip(&mut self.blocks) {
            block.now.fill(0);
            block.now[0] = 1;
            ubi.change(id, lnum, &bytes(&block.now, lnum)[..PAGE])
                .unwrap();
        }
        self.finish_work();
    }

    pub fn finish_work(&mut self) {
        for block in &mut self.blocks {
            if block.given_up {
                continue;
            }
            block.since = vec![block.now.clone()];
        }
    }

    pub fn perform(&self, ubi: &mut Ubi<Chip>, op: &Op) -> Result<(), UbiError> {
        let id = ubi
            .find_volume(NAME)
            .or_else(|| ubi.find_volume("renamed"))
            .expect("the volume is gone");
        match op {
            Op::Write(lnum, at, stamps) => {
                ubi.write(id, *lnum, (at * PAGE) as u32, &bytes(stamps, *lnum))
            }
            Op::Change(lnum, stamps) => ubi.change(id, *lnum, &bytes(stamps, *lnum)),
            Op::Unmap(lnum) => ubi.unmap(id, *lnum),
            Op::Map(lnum) => ubi.map(id, *lnum),
            Op::Erase(lnum) => ubi.erase_leb(id, *lnum),
            Op::Read(lnum) => {
                let mut buf = vec![0; self.pages * PAGE];
                ubi.read(id, *lnum, 0, &mut buf)?;
                let expected: Vec<_> = self.blocks[*lnum as usize]
                    .now
                    .iter()
                    .map(|&stamp| Some(stamp))
                    .collect();
                assert_eq!(stamps(&buf, *lnum), expected, "LEB {lnum}");
                Ok(())
            }
            Op::Sync => ubi.sync(),
            Op::Work => ubi.work().map(|_| ()),
            Op::Rename => {
                let other = if ubi.find_volume(NAME).is_some() {
                    "renamed"
                } else {
                    NAME
                };
                ubi.rename_volumes(&[(id, other)])
            }
            Op::Second => match ubi.find_volume("second") {
                Some(second) => ubi.remove_volume(second),
                None => {
                    let second = ubi.create_volume(&VolumeSpec {
                        name: "second".into(),
                        lebs: 3,
                        ..VolumeSpec::default()
                    })?;
                    ubi.write(second, 1, 0, &[1; PAGE])
                }
            },
        }
    }

    /// Compares every block after a cut; what is there is taken to stay. False: the device is worn
    /// out.
    pub fn check_all(&mut self, ubi: &mut Ubi<Chip>, after: &str) -> bool {
        let id = ubi
            .find_volume(NAME)
            .or_else(|| ubi.find_volume("renamed"))
            .expect("the volume is gone");
        for (lnum, block) in (0..).zip(&mut self.blocks) {
            let mut buf = vec![0; self.pages * PAGE];
            let read = ubi.read(id, lnum, 0, &mut buf);
            let seen = stamps(&buf, lnum);
            let whole = matches!(read, Ok(()))
                && block
                    .since
                    .iter()
                    .any(|pages| pages.iter().zip(&seen).all(|(a, b)| Some(*a) == *b));
            // A torn page reads as erased or not at all; pages before it are there.
            let torn = block.since.windows(2).any(|pair| {
                let before = &pair[0];
                let with = &pair[1];
                let appended = before.iter().zip(with).all(|(a, b)| a == b || *a == 0);
                appended
                    && before
                        .iter()
                        .zip(with)
                        .zip(&seen)
                        .all(|((a, b), s)| *s == Some(*a) || a != b)
            });
            // Given up: any page of any version, or damage, until it is written again.
            let fine = whole || torn || block.given_up;
            assert!(
                fine,
                "LEB {lnum} after {after}: {read:?}, {seen:?}, allowed {:?}",
                block.since
            );
            // What a cut may have damaged is made new.
            let known = whole
                && !block.given_up
                && ubi.is_mapped(id, lnum) == Ok(true)
                && seen == block.now.iter().map(|&s| Some(s)).collect::<Vec<_>>();
            if !known {
                let stamps: Vec<u32> = vec![block.now.iter().max().copied().unwrap_or(0).max(1)];
                match ubi.change(id, lnum, &bytes(&stamps, lnum)) {
                    Err(error) if out_of_blocks(&error) => return false,
                    other => {
                        other.unwrap_or_else(|error| panic!("LEB {lnum} after {after}: {error}"))
                    }
                }
                block.now.fill(0);
                block.now[0] = stamps[0];
            }
            block.given_up = false;
        }
        ubi.sync().unwrap();
        self.finish_work();
        true
    }
}

/// How far a run came.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub done: u32,
    pub cuts: u32,
    pub failures: u64,
    pub moves: u64,
    pub scrubbed: u64,
    pub worn_out: u32,
}

impl Outcome {
    pub fn add(&mut self, other: &Self) {
        self.done += other.done;
        self.cuts += other.cuts;
        self.failures += other.failures;
        self.moves += other.moves;
        self.scrubbed += other.scrubbed;
        self.worn_out += other.worn_out;
    }
}

/// A fresh device with the model's volume, and another of so many logical blocks, all mapped.
pub fn device(chip: Chip, options: Options, others: u32) -> (Ubi<Chip>, Model) {
    let mut ubi = Ubi::format(chip, options).unwrap();
    if others > 0 {
        let id = ubi
            .create_volume(&VolumeSpec {
                name: "others".into(),
                lebs: others,
                ..VolumeSpec::default()
            })
            .unwrap();
        (0..others).for_each(|lnum| ubi.map(id, lnum).unwrap());
    }
    let id = ubi
        .create_volume(&VolumeSpec {
            name: NAME.into(),
            lebs: LEBS,
            ..VolumeSpec::default()
        })
        .unwrap();
    let pages = ubi.volume(id).unwrap().leb_bytes as usize / PAGE;
    ubi.sync().unwrap();
    (ubi, Model::new(pages))
}

fn out_of_blocks(error: &UbiError) -> bool {
    matches!(error, UbiError::ReadOnly(_) | UbiError::NoSpace { .. })
}

/// Attaches the chip; `None` if it is worn out.
fn attached(chip: Chip, options: Options, id: &str) -> Option<Ubi<Chip>> {
    match Ubi::attach(chip, options) {
        Err(error) if out_of_blocks(&error) => None,
        other => Some(other.unwrap_or_else(|error| panic!("{id}: {error}"))),
    }
}

/// Runs calls in lives that each end in a power cut, every other one in the middle of a call.
pub fn live(spec: ChipSpec, options: Options, others: u32, ops: u32, name: &str) -> Outcome {
    let seed = spec.seed;
    let mut random = rng(seed, name);
    let (ubi, mut model) = device(Chip::new(spec).unwrap(), options, others);
    let mut outcome = Outcome::default();
    let mut chip = ubi.into_medium();
    while outcome.done < ops {
        let base = chip.fork().unwrap();
        chip = base.fork().unwrap();
        chip.start_log();
        let Some(mut ubi) = attached(
            chip,
            options,
            &format!("{name}, seed {seed}, cut {}", outcome.cuts),
        ) else {
            outcome.worn_out += 1;
            return outcome;
        };
        let moves = ubi.info().moves;
        let corrected = ubi.medium().counts().corrected_bits;
        let life = random.random_range(1..250).min(ops - outcome.done);
        if random.random_bool(0.5) {
            let rail = ubi.medium().rail();
            rail.cut_at(rail.steps() + random.random_range(1..400));
        }
        for _ in 0..life {
            let op = model.draw(&mut random);
            model.begin(&op);
            match model.perform(&mut ubi, &op) {
                Ok(()) => model.done(&op),
                Err(UbiError::Mtd(MtdError::PowerCut)) => break,
                Err(error) if out_of_blocks(&error) => {
                    outcome.worn_out += 1;
                    return outcome;
                }
                Err(error) => panic!(
                    "{name}, seed {seed}, call {}: {op:?}: {error}\n{}",
                    outcome.done,
                    ubi.medium().recent().join("\n")
                ),
            }
            outcome.done += 1;
        }
        outcome.moves += ubi.info().moves - moves;
        outcome.scrubbed += ubi.medium().counts().corrected_bits - corrected;
        let now = ubi.medium().clock().now();
        let log = ubi.medium().logged().to_vec();
        outcome.failures = ubi.medium().counts().failures;
        let cut = CrashStates::new(base, &log)
            .at(now, random.next_u64())
            .unwrap();
        outcome.cuts += 1;
        let Some(mut ubi) = attached(
            cut,
            options,
            &format!("{name}, seed {seed}, cut {}", outcome.cuts),
        ) else {
            outcome.worn_out += 1;
            return outcome;
        };
        if !model.check_all(
            &mut ubi,
            &format!("{name}, cut {} of seed {seed}", outcome.cuts),
        ) {
            outcome.worn_out += 1;
            return outcome;
        }
        chip = ubi.into_medium();
    }
    outcome
}
