//! Static wear levelling of the log-block layers: a few blocks are written over and over, the rest
//! never.

use nandlab_block::{BlockDevice, Lba};
use nandlab_ftl::logblock::{LogBlockFtl, LogBlockOptions, PageOrder};
use nandlab_ftl::{Cause, CauseCounts, Ftl};
use nandlab_mtd::{Block, Geometry};
use nandlab_nand::{Chip, CrashStates, preset};

const BLOCKS: u32 = 64;
const PAGES: u64 = 8;
const THRESHOLD: u32 = 20;

type Device = LogBlockFtl<Chip>;

fn options(scheme: LogBlockOptions, wear_threshold: u32) -> LogBlockOptions {
    LogBlockOptions {
        log_blocks: 4,
        spare_blocks: 4,
        page_order: PageOrder::Any,
        wear_threshold,
        ..scheme
    }
}

fn formatted(options: &LogBlockOptions) -> Device {
    let mut spec = preset::find("small-block-64MiB").unwrap().spec();
    spec.geometry = Geometry {
        blocks: BLOCKS,
        pages_per_block: PAGES as u32,
        ..spec.geometry
    };
    LogBlockFtl::format(Chip::new(spec).unwrap(), options.clone()).unwrap()
}

/// A device on which every page was written once.
fn filled(options: &LogBlockOptions) -> Device {
    let mut device = formatted(options);
    (0..device.geometry().sectors)
        .for_each(|lba| device.write(Lba(lba), &[lba as u8; 512]).unwrap());
    device
}

/// Pages of the first three logical blocks.
fn heat(device: &mut Device, writes: u64) {
    for i in 0..writes {
        device
            .write(Lba(nandlab_sim::mix(8, i) % (3 * PAGES)), &[i as u8; 512])
            .unwrap();
    }
}

/// Cold data is what it was.
fn check_cold(device: &mut Device) {
    let mut buf = [0; 512];
    for lba in 3 * PAGES..device.geometry().sectors {
        device.read(Lba(lba), &mut buf).unwrap();
        assert_eq!(buf, [lba as u8; 512], "sector {lba}");
    }
}

/// The difference of the largest and the smallest erase count, without the block of the anchor,
/// which is not erased again.
fn spread(chip: &Chip) -> u32 {
    let mut erases: Vec<u32> = (0..BLOCKS)
        .map(|block| chip.block(Block(block)).erases)
        .collect();
    erases.sort_unstable();
    erases[BLOCKS as usize - 1] - erases[1]
}

fn levelling(device: &Device) -> CauseCounts {
    device
        .tally()
        .rows()
        .find(|(cause, _)| *cause == Cause::Wear)
        .unwrap()
        .1
}

fn schemes() -> [LogBlockOptions; 3] {
    [
        LogBlockOptions::bast(),
        LogBlockOptions::sast(4, 2),
        LogBlockOptions::fast(),
    ]
}

#[test]
fn the_spread_of_wear_stays_within_the_threshold_where_it_would_be_far_beyond() {
    for scheme in schemes() {
        let run = |threshold| {
            let mut device = filled(&options(scheme.clone(), threshold));
            heat(&mut device, 60_000);
            check_cold(&mut device);
            (spread(device.medium()), levelling(&device))
        };
        let (off, nothing) = run(0);
        assert_eq!(nothing, CauseCounts::default());
        let (on, moved) = run(THRESHOLD);
        eprintln!(
            "{:?}: spread {off} without, {on} with; {moved:?}",
            scheme.scheme
        );
        assert!(
            off > 10 * THRESHOLD && on <= THRESHOLD + 10,
            "{:?}: {off} and {on}",
            scheme.scheme
        );
        assert!(
            moved.erases > 50 && moved.copies == moved.erases * PAGES && moved.programs == 0,
            "{moved:?}"
        );
    }
}

#[test]
fn levelling_goes_on_where_an_attach_finds_the_chip() {
    for scheme in schemes() {
        let options = options(scheme, THRESHOLD);
        let mut device = filled(&options);
        for _ in 0..12 {
            heat(&mut device, 5_000);
            device.detach().unwrap();
            device = LogBlockFtl::attach(device.into_medium(), options.clone()).unwrap();
            check_cold(&mut device);
        }
        let spread = spread(device.medium());
        // A block found erased counts as worn as the average, which the free blocks of this
        // workload exceed: each attach forgets some wear.
        eprintln!("{:?}: spread {spread}", options.scheme);
        assert!(spread <= 4 * THRESHOLD, "{:?}: {spread}", options.scheme);
    }
}

#[test]
fn a_cut_at_any_moment_of_a_move_loses_nothing() {
    for scheme in schemes() {
        let options = options(scheme, 5);
        let base = formatted(&options).into_medium();
        let mut chip = base.fork().unwrap();
        chip.start_log();
        let mut device = LogBlockFtl::attach(chip, options.clone()).unwrap();
        (0..device.geometry().sectors)
            .for_each(|lba| device.write(Lba(lba), &[lba as u8; 512]).unwrap());
        let mut model: Vec<u8> = (0..device.geometry().sectors)
            .map(|lba| lba as u8)
            .collect();
        let mut moves = 0;
        let mut states = 0;
        for i in 0.. {
            if moves == 4 {
                break;
            }
            device.flush().unwrap();
            let begin = device.medium().clock().now();
            let lba = nandlab_sim::mix(8, i) % (3 * PAGES);
            let stamp = i as u8;
            device.write(Lba(lba), &[stamp; 512]).unwrap();
            let before = core::mem::replace(&mut model[lba as usize], stamp);
            if levelling(&device).erases == moves {
                continue;
            }
            moves = levelling(&device).erases;
            device.flush().unwrap();
            let end = device.medium().clock().now();
            let mut crashes = CrashStates::new(base.fork().unwrap(), device.medium().logged());
            for step in 0..60 {
                let chip = crashes.at(begin + (end - begin) * step / 59, step).unwrap();
                let mut device = LogBlockFtl::attach(chip, options.clone()).unwrap();
                for (at, &stamp) in (0..).zip(&model) {
                    let mut buf = [0; 512];
                    device.read(Lba(at), &mut buf).unwrap();
                    let allowed = buf == [stamp; 512] || at == lba && buf == [before; 512];
                    assert!(
                        allowed,
                        "sector {at}, step {step} of move {moves}, {:?}",
                        options.scheme
                    );
                }
                states += 1;
            }
        }
        assert_eq!(states, 240);
    }
}

#[test]
fn what_does_not_trigger_it_costs_nothing() {
    for scheme in schemes() {
        let cost = |threshold| {
            let mut device = filled(&options(scheme.clone(), threshold));
            heat(&mut device, 2_000);
            (device.medium().counts(), *device.tally())
        };
        assert_eq!(cost(0), cost(1_000), "{:?}", scheme.scheme);
    }
}
