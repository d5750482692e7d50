//! The replacement-block layer cut off before, within and after every flash operation of a run, and
//! again within the attach that follows: what was flushed is there, nothing is there that was not
//! written, and work goes on.

use nandlab_block::{BlockDevice, Lba};
use nandlab_ftl::Ftl;
use nandlab_ftl::nftl::{ChainVictim, Nftl, NftlOptions, Ordering, SeededBug};
use nandlab_mtd::Geometry;
use nandlab_nand::{Chip, ChipSpec, CrashStates, LoggedOp, preset};
use nandlab_sim::{Nanos, rng};
use nandlab_testkit::bugs::{NOT_SHRUNK, assert_row};
use nandlab_testkit::share::whole_or;
use rand::{Rng as _, RngExt as _};

type Device = Nftl<Chip>;

/// A host operation: when it had returned, and the sector that got a stamp (zero: a discard); none
/// is a flush.
type Done = (Nanos, Option<(usize, u8)>);

fn spec(seed: u64) -> ChipSpec {
    let mut spec = preset::find("small-block-64MiB").unwrap().spec();
    spec.geometry = Geometry {
        pages_per_block: 4 + seed as u32 % 3,
        blocks: 24,
        dies: 4,
        ..spec.geometry
    };
    spec.timing.cache_program = seed % 2 == 1;
    spec
}

fn options(seed: u64, seeded_bug: Option<SeededBug>) -> NftlOptions {
    let victim = [ChainVictim::Longest, ChainVictim::MinCopy][seed as usize % 2];
    NftlOptions {
        spare_units: 6,
        verify_free: seed % 4 == 1,
        victim,
        wear_threshold: 6 * (seed as u32 % 3),
        seeded_bug,
        ..NftlOptions::default()
    }
}

/// A device whose every other sector is written, and that was attached since; then a run that is
/// logged.
fn run(seed: u64, options: &NftlOptions, ops: u32) -> (Chip, Vec<LoggedOp>, Vec<Done>) {
    let mut random = rng(seed, "nftl cuts");
    let mut device = Nftl::format(Chip::new(spec(seed)).unwrap(), options.clone()).unwrap();
    let sectors = device.geometry().sectors;
    (0..sectors)
        .step_by(2)
        .for_each(|lba| device.write(Lba(lba), &[1; 512]).unwrap());
    device.flush().unwrap();
    let mut chip = device.into_medium();
    let base = chip.fork().unwrap();
    chip.start_log();
    let mut done: Vec<Done> = (0..sectors)
        .map(|lba| (0, Some((lba as usize, u8::from(lba % 2 == 0)))))
        .collect();
    let mut device = Nftl::attach(chip, options.clone()).unwrap();
    done.push((device.medium().clock().now(), None));
    for i in 0..ops {
        let lba = if random.random_bool(0.7) {
            random.random_range(0..9)
        } else {
            random.random_range(0..sectors)
        };
        let stamp = (i % 250 + 2) as u8;
        let what = match random.random_range(0..12) {
            0 => device.flush().map(|()| None),
            1 => device
                .discard(Lba(lba), 1)
                .map(|()| Some((lba as usize, 0))),
            _ => device
                .write(Lba(lba), &[stamp; 512])
                .map(|()| Some((lba as usize, stamp))),
        };
        done.push((device.medium().clock().now(), what.unwrap()));
    }
    let log = device.medium().logged().to_vec();
    (base, log, done)
}

/// What each sector may hold after a cut at `t`: its stamp at the last flush that had returned, and
/// those given to it since, the operation under way included.
fn allowed(done: &[Done], sectors: usize, t: Nanos) -> Vec<Vec<u8>> {
    let mut allowed = vec![Vec::new(); sectors];
    let mut before = 0;
    for &(end, what) in done {
        if before > t {
            break;
        }
        match what {
            Some((lba, stamp)) => allowed[lba].push(stamp),
            None if end <= t => allowed
                .iter_mut()
                .for_each(|stamps| drop(stamps.drain(..stamps.len() - 1))),
            None => {}
        }
        before = end;
    }
    allowed
}

fn stamps(device: &mut Device) -> Vec<u8> {
    let mut disk = vec![0; device.geometry().bytes() as usize];
    device.read(Lba(0), &mut disk).unwrap();
    disk.chunks_exact(512)
        .map(|sector| {
            if sector.iter().all(|&b| b == sector[0]) {
                sector[0]
            } else {
                panic!("a mixture")
            }
        })
        .collect()
}

/// Looks at every state of one run and counts them. Fails with a description of the first state
/// that is wrong.
fn explore(seed: u64, bug: Option<SeededBug>, ops: u32, count: &mut u32) -> Result<(), String> {
    let options = options(seed, bug);
    let (base, log, done) = run(seed, &options, ops);
    let mut times: Vec<Nanos> = log
        .iter()
        .flat_map(|op| [op.start, op.start + (op.end - op.start) / 2, op.end])
        .collect();
    times.sort_unstable();
    times.dedup();
    let mut states = CrashStates::new(base, &log);
    let mut random = rng(seed, "nftl cut words");
    for t in times {
        for word in [random.next_u64(), random.next_u64()] {
            *count += 1;
            let mut chip = states.at(t, word).unwrap();
            if word % 4 == 0 {
                chip = cut_attach(chip, &options, word);
            }
            let mut device =
                Nftl::attach(chip, options.clone()).map_err(|e| format!("at {t}: {e}"))?;
            let seen = stamps(&mut device);
            let allowed = allowed(&done, seen.len(), t);
            if let Some(lba) = (0..seen.len()).find(|&lba| !allowed[lba].contains(&seen[lba])) {
                return Err(format!(
                    "seed {seed}, cut at {t}, word {word}: sector {lba} holds {}, allowed {:?}",
                    seen[lba], allowed[lba]
                ));
            }
            if word % 16 < 4 {
                work_goes_on(device, &options, seen);
            }
        }
    }
    Ok(())
}

/// The chip after a cut somewhere in an attach.
fn cut_attach(mut chip: Chip, options: &NftlOptions, word: u64) -> Chip {
    let base = chip.fork().unwrap();
    chip.start_log();
    let before = chip.clock().now();
    let device = Nftl::attach(chip, options.clone()).unwrap();
    let after = device.medium().issued_at();
    let log = device.medium().logged().to_vec();
    let t = before + nandlab_sim::mix(word, 3) % (after - before);
    CrashStates::new(base, &log)
        .at(t, nandlab_sim::mix(word, 5))
        .unwrap()
}

trait IssuedAt {
    /// When everything issued has ended.
    fn issued_at(&self) -> Nanos;
}

impl IssuedAt for Chip {
    fn issued_at(&self) -> Nanos {
        nandlab_mtd::Mtd::issued(self).0.max(self.clock().now() + 1)
    }
}

fn work_goes_on(mut device: Device, options: &NftlOptions, mut seen: Vec<u8>) {
    for i in 0..40 {
        let lba = i * 7 % seen.len();
        device.write(Lba(lba as u64), &[251; 512]).unwrap();
        seen[lba] = 251;
    }
    device.flush().unwrap();
    let mut device = Nftl::attach(device.into_medium(), options.clone()).unwrap();
    assert_eq!(stamps(&mut device), seen);
}

#[test]
fn every_cut_is_survived() {
    let mut states = 0;
    let seeds = (0..6).step_by(whole_or(1, 5));
    seeds.for_each(|seed| explore(seed, None, 120, &mut states).unwrap());
    eprintln!("{states} states");
    assert!(states > whole_or(10_000, 2_500), "{states}");
}

#[test]
fn every_seeded_bug_is_caught() {
    use SeededBug::*;
    for bug in [
        EraseUnfenced,
        LinkUnguarded,
        FoldUnprepared,
        ForgetLostHeaders,
        KeepLonger,
        FlushWithoutSync,
    ] {
        let mut states = 0;
        let caught = (0..12).find_map(|seed| explore(seed, Some(bug), 120, &mut states).err());
        eprintln!("{bug:?}: {caught:?}");
        assert!(caught.is_some(), "{bug:?} was not caught");
        assert_row("NFTL", bug, states.into(), NOT_SHRUNK);
    }
}

/// A unit whose name was the last thing written is a unit like any other if what looks erased is
/// taken for erased. Otherwise the name may be torn, and nothing may be added.
#[test]
fn a_unit_with_a_name_and_no_sector_takes_a_link_only_if_it_is_trusted() {
    let erases = |trust_free: bool, steps: u64| {
        let options = NftlOptions {
            trust_free,
            ordering: Ordering::Linux,
            ..options(0, None)
        };
        let mut chip = spec(0);
        chip.rules.partial_programs = 4;
        let mut device = Nftl::format(Chip::new(chip).unwrap(), options.clone()).unwrap();
        let rail = device.medium().rail().clone();
        rail.cut_at(rail.steps() + steps);
        let written = device.write(Lba(0), &[1; 512]);
        rail.restore();
        let mut device = Nftl::attach(device.into_medium(), options).unwrap();
        let before = device.medium().counts().erases;
        (0..2).for_each(|_| device.write(Lba(0), &[2; 512]).unwrap());
        (written.is_ok(), device.medium().counts().erases - before)
    };
    let cuts = (0..).take_while(|&steps| !erases(true, steps).0);
    let cuts = cuts.collect::<Vec<_>>();
    assert!(cuts.len() > 1, "{cuts:?}");
    for steps in cuts.clone() {
        assert_eq!(erases(true, steps), (false, 0), "after {steps} operations");
    }
    assert!(cuts.iter().any(|&steps| erases(false, steps).1 > 0));
}
