//! Recovery after power cuts at many points: the same log brought home by copying and by
//! remapping, and JFTL's own log.
//!
//! *Promises.* Every recovered volume holds what was durable at the cut; otherwise no figure comes
//! of it.

use super::Bench;
use crate::runs::{Jobs, Watch};
use crate::{Claim, Exhibit, PaperError, line};
use nandlab_block::BlockDevice as _;
use nandlab_ext::{Checkpoint, Ext, Format, Mode, Options, format};
use nandlab_ftl::Ftl as _;
use nandlab_ftl::page::{PageFtl, PageOptions};
use nandlab_lab::run::precondition;
use nandlab_lab::verdict::Verdict;
use nandlab_nand::Chip;
use nandlab_vfs::{Caller, FileSystem as _, Ino, NewNode, Sync, Time};
use std::error::Error;

/// Writes of [`CALL`] bytes to one file, and after how many of them an fsync commits.
const CALLS: u32 = 2048;
const CALL: usize = 4096;
const CALLS_PER_FSYNC: u32 = 16;
/// Calls between two cuts: no multiple of the above, so that some are within a transaction.
const CALLS_PER_CUT: u32 = 51;
const JOURNAL_BLOCKS: u32 = 4096;
const BLOCK: u32 = 1024;

/// The cost of one mount after a cut.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    /// Virtual time of the mount, without the attach of the translation layer, ms.
    ms: f64,
    /// Pages programmed for any reason.
    programs: u64,
    /// Pages of them that collection moved.
    collected: u64,
    reads: u64,
}

/// A cut, and the log that it left.
#[derive(Clone, Copy, Debug)]
struct Cut {
    calls: u32,
    /// The log of a journal that copies, brought home by copying.
    copied: Recovery,
    /// The same log, by remapping.
    remapped: Recovery,
    /// The log that JFTL leaves at the same call, by remapping.
    own: Recovery,
}

/// All cuts.
pub struct Recoveries(Vec<Cut>);

impl Recoveries {
    pub fn run(watch: Watch<'_>) -> Result<Self, PaperError> {
        let ways = [Checkpoint::Copy, Checkpoint::Remap];
        let jobs = Jobs::new(watch, "recoveries", ways.len());
        let wrong = |error: Box<dyn Error>| PaperError::wrong("recovery", error);
        let logs = jobs.each(&ways, |way| recovered(*way).map_err(wrong))?;
        let cuts = logs[0].iter().zip(&logs[1]).map(|(log, own)| Cut {
            calls: log.0,
            copied: log.1[0],
            remapped: log.1[1],
            own: own.1[1],
        });
        Ok(Self(cuts.collect()))
    }

    /// Means, and the range over the cuts.
    pub fn table(&self) -> Exhibit {
        let row = |name: &str, of: &dyn Fn(&Cut) -> Recovery| {
            let over = |value: &dyn Fn(&Recovery) -> f64| {
                let values: Vec<f64> = self.0.iter().map(|cut| value(&of(cut))).collect();
                let (low, high) = crate::range(&values);
                format!("{:.1} ({low:.1} to {high:.1})", super::mean(&values))
            };
            let cells = [
                over(&|one| one.ms),
                over(&|one| one.programs as f64),
                over(&|one| one.collected as f64),
                over(&|one| one.reads as f64),
            ];
            line(name, cells)
        };
        Exhibit::table(
            "Recovery after a power cut",
            &format!(
                "{} cuts while 8 MiB are written in journaled mode on the aged device, an fsync \
                each 64 KiB: mean, least and largest. The journal has 4 MiB. Attaching the \
                translation layer comes before, and is the same for all.",
                self.0.len()
            ),
            [
                "",
                "ms",
                "pages programmed",
                "of them by collection",
                "pages read",
            ],
            [
                row("the log of copying, by copying", &|cut| cut.copied),
                row("the same log, by remapping", &|cut| cut.remapped),
                row("the log of JFTL, by remapping", &|cut| cut.own),
            ],
        )
    }

    /// Whether remapping is the cheaper recovery at each cut that left something to recover.
    pub fn claim(&self) -> Claim {
        let with_log = || self.0.iter().filter(|cut| cut.copied.programs > 0);
        let is_cheaper = |cut: &Cut| {
            cut.remapped.ms < cut.copied.ms && cut.remapped.programs < cut.copied.programs
        };
        let cheaper = with_log().filter(|cut| is_cheaper(cut)).count();
        let cuts = with_log().count();
        let dearest = with_log()
            .filter(|cut| !is_cheaper(cut))
            .map(|cut| cut.calls);
        let at: Vec<String> = dearest.map(|calls| calls.to_string()).collect();
        let sum = |of: &dyn Fn(&Cut) -> f64| with_log().map(of).sum::<f64>() / cuts as f64;
        let mut evidence = format!(
            "at {cheaper} of {cuts} cuts; mean {:.1} ms and {:.0} pages programmed against {:.1} \
             ms and {:.0}",
            sum(&|cut| cut.remapped.ms),
            sum(&|cut| cut.remapped.programs as f64),
            sum(&|cut| cut.copied.ms),
            sum(&|cut| cut.copied.programs as f64),
        );
        if !at.is_empty() {
            evidence += &format!("; not after calls {}", at.join(", "));
        }
        Claim::new(
            "recovery-remap",
            "Recovery of the same log takes less time and programs fewer pages by remapping than \
             by copying",
            Verdict::of(cheaper == cuts).if_happened(cuts as u64),
            evidence,
        )
    }
}

type Device = PageFtl<Chip>;

fn options(checkpoint: Checkpoint) -> Options {
    Options {
        mode: Mode::Journal,
        checkpoint,
        barriers: false,
        ..Options::default()
    }
}

/// An aged disk with an empty volume.
fn disk() -> Result<Device, Box<dyn Error>> {
    let experiment = Bench::Bonnie.described().with([""; 0])?;
    let spec = experiment.stack.chip.spec.clone();
    let chip = Chip::new(spec)?;
    let clock = chip.clock().clone();
    let mut device = PageFtl::format(chip, PageOptions::default())?;
    precondition(&mut device, &clock, &experiment.run, &mut |_| ())?;
    let choices = Format {
        journal: true,
        block: Some(BLOCK),
        journal_blocks: Some(JOURNAL_BLOCKS),
        ..Format::default()
    };
    format(&mut device, &choices)?;
    Ok(device)
}

/// The bytes of a call.
fn contents(call: u32) -> [u8; CALL] {
    let mut bytes = [call as u8; CALL];
    bytes[..4].copy_from_slice(&call.to_le_bytes());
    bytes
}

/// The calls that are durable at a cut, and recovery after it by copying and by remapping.
type AfterCut = (u32, [Recovery; 2]);

/// Writes, and cuts the power again and again: at each cut two copies of the chip recover, by
/// copying and by remapping.
fn recovered(checkpoint: Checkpoint) -> Result<Vec<AfterCut>, Box<dyn Error>> {
    let mut ext = Ext::mount(disk()?, options(checkpoint))?;
    let caller = Caller::root(Time::new(1));
    let file = ext
        .create(Ino::ROOT, b"file", NewNode::File, 0o644, caller)?
        .ino;
    let mut cuts = Vec::new();
    for call in 0..CALLS {
        let offset = u64::from(call) * CALL as u64;
        ext.write(file, offset, &contents(call), Time::new(1))?;
        let calls = call + 1;
        if calls.is_multiple_of(CALLS_PER_FSYNC) {
            ext.fsync(file, Sync::All)?;
        }
        if calls.is_multiple_of(CALLS_PER_CUT) {
            let durable = calls / CALLS_PER_FSYNC * CALLS_PER_FSYNC;
            let chip = ext.device_mut().medium();
            let copied = recovery(chip, Checkpoint::Copy, durable)?;
            let remapped = recovery(chip, Checkpoint::Remap, durable)?;
            cuts.push((calls, [copied, remapped]));
        }
    }
    Ok(cuts)
}

/// Recovers a copy of the chip, and looks for the calls that were durable.
fn recovery(chip: &Chip, checkpoint: Checkpoint, durable: u32) -> Result<Recovery, Box<dyn Error>> {
    let mut device = PageFtl::attach(chip.fork()?, PageOptions::default())?;
    device.flush()?;
    let clock = device.medium().clock().clone();
    let from = clock.now();
    let before = work(&device);
    let mut ext = Ext::mount(device, options(checkpoint))?;
    ext.device_mut().flush()?;
    let ms = (clock.now() - from) as f64 / 1e6;
    let after = work(ext.device_mut());
    let [programs, collected, reads] = [0, 1, 2].map(|at| after[at] - before[at]);
    check(&mut ext, durable)?;
    Ok(Recovery {
        ms,
        programs,
        collected,
        reads,
    })
}

/// Pages programmed, those of them by collection, and pages read, so far.
fn work(device: &Device) -> [u64; 3] {
    let mut sums = [0; 3];
    for (cause, row) in device.tally().rows() {
        let programs = row.programs + row.copies;
        sums[0] += programs;
        sums[1] += if cause.name() == "collection" {
            programs
        } else {
            0
        };
        sums[2] += row.reads;
    }
    sums
}

fn check(ext: &mut Ext<Device>, durable: u32) -> Result<(), Box<dyn Error>> {
    let file = ext.lookup(Ino::ROOT, b"file")?.ino;
    let mut buf = [0; CALL];
    for call in 0..durable {
        ext.read(file, u64::from(call) * CALL as u64, &mut buf)?;
        if buf != contents(call) {
            return Err(format!("call {call} of {durable} durable ones is lost").into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cut_is_recovered_and_some_leave_a_log() {
        let found = Recoveries::run(&|_| ()).unwrap();
        assert_eq!(found.0.len() as u32, CALLS / CALLS_PER_CUT);
        assert!(found.0.iter().any(|cut| cut.copied.programs > 1000));
        assert_ne!(found.claim().verdict, Verdict::Undecided);
    }
}
