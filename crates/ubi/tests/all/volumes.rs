//! Volumes and logical blocks through every call, and through detach and attach, with each kind of
//! memory.

use crate::common::{chip, memories};
use nandlab_mtd::{Block, Fault, FaultInjector, Mtd as _};
use nandlab_nand::Chip;
use nandlab_sim::Schedule;
use nandlab_testkit::media::Media;
use nandlab_ubi::format::{FLAG_AUTORESIZE, VolumeKind};
use nandlab_ubi::{Attached, LogOptions, Memory, Options, Superblock, Ubi, UbiError, VolumeSpec};

const BLOCKS: u32 = 96;

fn dynamic(name: &str, lebs: u32) -> VolumeSpec {
    VolumeSpec {
        name: name.into(),
        lebs,
        ..VolumeSpec::default()
    }
}

fn again(ubi: Ubi<Chip>, options: Options) -> Ubi<Chip> {
    let ubi = Ubi::attach(ubi.detach().unwrap(), options).unwrap();
    let expected = match options.memory {
        Memory::Scan => Attached::Scan,
        Memory::Fastmap => Attached::Fastmap,
        Memory::Log(_) => Attached::Log,
    };
    assert_eq!(ubi.info().attached, expected, "{options:?}");
    ubi
}

/// All tests with each memory, on a chip without and with sub-pages, of one die and of more.
fn everywhere(test: impl Fn(Ubi<Chip>, Options)) {
    for (name, options) in memories() {
        for seed in 0..4 {
            eprintln!("{name}, seed {seed}");
            test(Ubi::format(chip(seed, BLOCKS), options).unwrap(), options);
        }
    }
}

#[test]
fn contents_outlive_an_attach() {
    everywhere(|mut ubi, options| {
        let id = ubi.create_volume(&dynamic("data", 20)).unwrap();
        for lnum in 0..10 {
            ubi.write(id, lnum, 1024, &[lnum as u8; 2048]).unwrap();
        }
        ubi.change(id, 3, &[33; 1024]).unwrap();
        ubi.unmap(id, 4).unwrap();
        ubi.map(id, 12).unwrap();
        let mut ubi = again(ubi, options);
        let mut buf = [0; 3072];
        for lnum in 0..10 {
            ubi.read(id, lnum, 0, &mut buf).unwrap();
            let expected = match lnum {
                3 => [&[33; 1024][..], &[0xFF; 2048]].concat(),
                4 => vec![0xFF; 3072],
                _ => [&[0xFF; 1024][..], &[lnum as u8; 2048]].concat(),
            };
            assert_eq!(buf[..], expected, "{lnum}");
        }
        assert_eq!(
            (
                ubi.is_mapped(id, 12),
                ubi.is_mapped(id, 4),
                ubi.is_mapped(id, 11)
            ),
            (Ok(true), Ok(false), Ok(false))
        );
        // And a second time, after writes.
        ubi.write(id, 15, 0, &[15; 1024]).unwrap();
        let mut ubi = again(ubi, options);
        ubi.read(id, 15, 10, &mut buf[..5]).unwrap();
        assert_eq!(buf[..5], [15; 5]);
    });
}

#[test]
fn volumes_are_made_removed_resized_and_renamed() {
    everywhere(|mut ubi, options| {
        let free = ubi.info().available;
        let a = ubi.create_volume(&dynamic("a", 4)).unwrap();
        let b = ubi.create_volume(&dynamic("b", 5)).unwrap();
        assert_eq!(
            ubi.create_volume(&dynamic("a", 1)),
            Err(UbiError::NameTaken(a))
        );
        assert!(matches!(
            ubi.create_volume(&dynamic("c", 1000)),
            Err(UbiError::NoSpace { needed: 1000, .. })
        ));
        ubi.write(b, 4, 0, &[1; 1024]).unwrap();
        ubi.rename_volumes(&[(a, "b"), (b, "a")]).unwrap();
        let mut ubi = again(ubi, options);
        assert_eq!(
            (
                ubi.find_volume("b"),
                ubi.find_volume("a"),
                ubi.find_volume("c")
            ),
            (Some(a), Some(b), None)
        );
        ubi.resize_volume(a, 9).unwrap();
        ubi.resize_volume(b, 2).unwrap();
        let mut ubi = again(ubi, options);
        assert_eq!(
            ubi.volumes()
                .iter()
                .map(|v| v.record.reserved)
                .collect::<Vec<_>>(),
            [9, 2]
        );
        assert!(ubi.read(b, 4, 0, &mut [0]).is_err());
        ubi.remove_volume(a).unwrap();
        ubi.remove_volume(b).unwrap();
        let mut ubi = again(ubi, options);
        assert_eq!((ubi.info().available, ubi.volumes().len()), (free, 0));
        // A volume in the same place finds nothing of the one before.
        let id = ubi
            .create_volume(&VolumeSpec {
                id: Some(b),
                ..dynamic("again", 5)
            })
            .unwrap();
        let mut buf = [0; 1024];
        ubi.read(id, 4, 0, &mut buf).unwrap();
        assert_eq!(buf, [0xFF; 1024]);
    });
}

#[test]
fn a_static_volume_is_written_whole_and_checked() {
    everywhere(|mut ubi, options| {
        let spec = VolumeSpec {
            kind: VolumeKind::Static,
            ..dynamic("fixed", 6)
        };
        let id = ubi.create_volume(&spec).unwrap();
        let leb = ubi.volume(id).unwrap().leb_bytes as usize;
        let bytes: Vec<u8> = (0..2 * leb + 100).map(|i| (i / 3) as u8).collect();
        ubi.start_update(id, bytes.len() as u64).unwrap();
        let mut done = false;
        for part in bytes.chunks(777) {
            assert!(!done);
            done = ubi.write_update(id, part).unwrap();
        }
        assert!(done);
        let mut ubi = again(ubi, options);
        let info = ubi.volume(id).unwrap();
        assert_eq!(
            (info.used_bytes, info.corrupted, info.record.updating),
            (bytes.len() as u64, false, false)
        );
        assert_eq!(ubi.check_volume(id), Ok(vec![]));
        let mut tail = vec![0; 100];
        ubi.read(id, 2, 0, &mut tail).unwrap();
        assert_eq!(tail, bytes[2 * leb..]);
        assert!(ubi.write(id, 0, 0, &[0; 1024]).is_err());
        assert_eq!(
            ubi.read(id, 3, 0, &mut tail),
            Err(UbiError::Lost {
                volume: id,
                lnum: 3
            })
        );
        // An update that is not finished leaves no contents.
        ubi.start_update(id, 5000).unwrap();
        ubi.write_update(id, &[1; 100]).unwrap();
        let mut ubi = Ubi::attach(ubi.into_medium(), options).unwrap();
        assert_eq!(ubi.read(id, 0, 0, &mut tail), Err(UbiError::Updating(id)));
        ubi.start_update(id, 0).unwrap();
        assert_eq!(ubi.volume(id).unwrap().used_bytes, 0);
    });
}

#[test]
fn an_update_of_a_dynamic_volume_leaves_erased_pages_erased() {
    everywhere(|mut ubi, options| {
        let id = ubi.create_volume(&dynamic("data", 3)).unwrap();
        let bytes = [&[7; 1500][..], &[0xFF; 2000]].concat();
        ubi.start_update(id, 3500).unwrap();
        assert!(ubi.write_update(id, &bytes).unwrap());
        ubi.write(id, 0, 2048, &[9; 1024]).unwrap();
        let mut ubi = again(ubi, options);
        let mut buf = vec![0; 3072];
        ubi.read(id, 0, 0, &mut buf).unwrap();
        assert_eq!(buf, [&[7; 1500][..], &[0xFF; 548], &[9; 1024]].concat());
    });
}

#[test]
fn a_volume_that_asks_for_it_takes_all_that_is_left() {
    everywhere(|mut ubi, options| {
        let id = ubi
            .create_volume(&VolumeSpec {
                flags: FLAG_AUTORESIZE,
                ..dynamic("all", 3)
            })
            .unwrap();
        let left = ubi.info().available;
        let ubi = again(ubi, options);
        let record = ubi.volume(id).unwrap().record;
        assert_eq!(
            (record.reserved, record.flags, ubi.info().available),
            (3 + left, 0, 0)
        );
    });
}

#[test]
fn alignment_shortens_logical_blocks() {
    everywhere(|mut ubi, _| {
        let whole = ubi.info().shape.leb_bytes;
        let id = ubi
            .create_volume(&VolumeSpec {
                alignment: 4096,
                ..dynamic("aligned", 3)
            })
            .unwrap();
        let leb = ubi.volume(id).unwrap().leb_bytes;
        assert_eq!(leb, whole - whole % 4096);
        ubi.write(id, 0, leb - 1024, &[1; 1024]).unwrap();
        assert!(whole == leb || ubi.write(id, 0, leb, &[1; 1024]).is_err());
    });
}

#[test]
fn contents_that_do_not_change_move_to_worn_blocks() {
    everywhere(|mut ubi, _| {
        let id = ubi.create_volume(&dynamic("data", 50)).unwrap();
        for lnum in 0..40 {
            ubi.write(id, lnum, 0, &[lnum as u8; 1024]).unwrap();
        }
        for _ in 0..6000 {
            ubi.change(id, 45, &[1; 1024]).unwrap();
            while ubi.work().unwrap() {}
        }
        let info = ubi.info();
        assert!(
            info.moves > 20 && info.erases[2] - info.erases[1] < 60,
            "{info:?}"
        );
        let mut buf = [0; 1024];
        for lnum in 0..40 {
            ubi.read(id, lnum, 0, &mut buf).unwrap();
            assert_eq!(buf, [lnum as u8; 1024]);
        }
    });
}

/// One logical block is written again and again, all others never. Linux moves when the counters
/// are the threshold apart, to a block that is no further above the least than twice that. The most
/// that they were apart.
fn hot_spot(mut ubi: Ubi<Chip>, threshold: u32, changes: u32, apart: (usize, usize)) -> u32 {
    let id = ubi
        .create_volume(&dynamic("data", ubi.info().available))
        .unwrap();
    let lebs = ubi.volume(id).unwrap().record.reserved;
    (0..lebs).for_each(|lnum| ubi.change(id, lnum, &[lnum as u8; 1024]).unwrap());
    let mut widest = 0;
    for i in 0..changes {
        ubi.change(id, 0, &[0; 1024]).unwrap();
        while ubi.work().unwrap() {}
        if i % 16 == 15 {
            let (spread, _) = spread(&ubi, threshold, apart);
            widest = widest.max(spread);
        }
    }
    let (last, [zone, mean]) = spread(&ubi, threshold, apart);
    // And a few that are on their way.
    assert!(
        last <= 2 * threshold + 4 && zone >= mean / 2,
        "{last} {zone} {mean}"
    );
    let mut buf = [0; 1024];
    for lnum in 0..lebs {
        ubi.read(id, lnum, 0, &mut buf).unwrap();
        assert_eq!(buf, [lnum as u8; 1024]);
    }
    widest
}

/// How far the counters are apart now, but for so many blocks at either end; then the least of
/// those at the beginning if they are a zone, and the mean of the others.
fn spread(ubi: &Ubi<Chip>, threshold: u32, apart: (usize, usize)) -> (u32, [u32; 2]) {
    let mut counters: Vec<u32> = (0..ubi.info().shape.pebs)
        .map(|peb| ubi.erase_counter(peb).unwrap())
        .collect();
    let zone = counters.drain(..apart.0).collect::<Vec<_>>();
    counters.truncate(counters.len() - apart.1);
    let least = *counters.iter().min().unwrap();
    let most = *counters.iter().max().unwrap();
    // No block is taken that is twice the threshold above the least free one, which is no further
    // than the threshold above contents that stay where they are.
    assert!(most - least <= 3 * threshold, "{least} {most} {counters:?}");
    let mean = counters.iter().sum::<u32>() / counters.len() as u32;
    let zone = if apart.0 > 1 { zone } else { vec![mean] };
    assert!(zone.iter().all(|&ec| ec <= most), "{zone:?} {most}");
    (most - least, [*zone.iter().min().unwrap(), mean])
}

/// But for paired super blocks, which are the first and the last; and the zone of anchors, which is
/// never worn more than others are.
#[test]
fn counters_stay_within_linuxs_bound_at_a_hot_spot() {
    for (name, options) in memories() {
        // As it is after an attach: nothing is known of the format any more.
        let ubi = again(Ubi::format(chip(0, BLOCKS), options).unwrap(), options);
        let apart = match options.memory {
            Memory::Log(LogOptions {
                superblock: Superblock::Pair,
                ..
            }) => (1, 1),
            Memory::Log(_) => (8, 0),
            _ => (0, 0),
        };
        let spread = hot_spot(ubi, options.wear_threshold, 12_000, apart);
        println!(
            "{name}: at most {spread} between the least and the most worn block, threshold {}",
            options.wear_threshold
        );
        assert!(
            spread >= options.wear_threshold,
            "{name}: nothing was to be moved"
        );
    }
    let options = Options::default();
    let spread = hot_spot(
        Ubi::format(chip(0, 24), options).unwrap(),
        options.wear_threshold,
        200_000,
        (0, 0),
    );
    println!(
        "scan: at most {spread}, threshold {}",
        options.wear_threshold
    );
    assert!(options.wear_threshold == 4096 && spread >= 4096, "{spread}");
}

/// Linux keeps 20 blocks of each 1,024 for those that go bad (`CONFIG_MTD_UBI_BEB_LIMIT`); fewer
/// bad ones are there already.
#[test]
fn blocks_are_kept_for_those_that_go_bad() {
    let options = Options::default();
    let kept = |blocks| Ubi::format(chip(0, blocks), options).unwrap().info().spare;
    assert_eq!([512, 1024, 1025, 2048].map(kept), [10, 20, 21, 40]);
    let mut medium = chip(0, 1024);
    (0..7).for_each(|block| medium.mark_bad(Block(100 + block)).unwrap());
    let info = Ubi::format(medium, options).unwrap().info();
    assert_eq!(
        (info.bad, info.spare, info.available),
        (7, 13, 1024 - 20 - 2 - 2)
    );
}

/// A block whose program failed is tortured and serves again if it stands that; one whose erase
/// fails is bad, and a spare one takes its place.
#[test]
fn failing_blocks_are_tortured_or_replaced() {
    for (name, options) in memories() {
        let mut ubi = Ubi::format(FaultInjector::new(chip(0, BLOCKS)), options).unwrap();
        let id = ubi.create_volume(&dynamic("data", 10)).unwrap();
        (0..10).for_each(|lnum| ubi.change(id, lnum, &[1; 1024]).unwrap());
        ubi.flush_erases().unwrap();
        let before = ubi.info();
        let mut flash = ubi.into_medium();
        flash.add(Fault::program(..).when(Schedule::nth(40)));
        let mut ubi = Ubi::attach(flash, options).unwrap();
        for round in 0..20 {
            (0..10).for_each(|lnum| ubi.change(id, lnum, &[round; 1024]).unwrap());
        }
        ubi.flush_erases().unwrap();
        assert_eq!(
            (ubi.info().bad, ubi.info().spare),
            (before.bad, before.spare),
            "{name}"
        );
        let mut flash = ubi.into_medium();
        flash.add(Fault::erase(..).when(Schedule::listed(30..33)));
        let mut ubi = Ubi::attach(flash, options).unwrap();
        for round in 0..20 {
            (0..10).for_each(|lnum| ubi.change(id, lnum, &[100 + round; 1024]).unwrap());
        }
        ubi.flush_erases().unwrap();
        assert_eq!(
            (ubi.info().bad, ubi.info().spare),
            (before.bad + 1, before.spare - 1),
            "{name}"
        );
        let mut buf = [0; 1024];
        for lnum in 0..10 {
            ubi.read(id, lnum, 0, &mut buf).unwrap();
            assert_eq!(buf, [119; 1024], "{name}");
        }
    }
}

#[test]
fn every_block_can_be_written() {
    everywhere(|mut ubi, options| {
        let lebs = ubi.info().available;
        let id = ubi.create_volume(&dynamic("all", lebs)).unwrap();
        for round in 0..3 {
            for lnum in 0..lebs {
                ubi.change(id, lnum, &[round; 1024]).unwrap();
            }
        }
        let mut ubi = again(ubi, options);
        let mut buf = [0; 1024];
        for lnum in 0..lebs {
            ubi.read(id, lnum, 0, &mut buf).unwrap();
            assert_eq!(buf, [2; 1024]);
        }
    });
}

/// Hardly a block is free beside those that UBI keeps back. The work in the background ends all the
/// same, and its maps are those that the digest knows.
#[test]
fn work_on_a_full_device_ends_with_each_memory() {
    for (name, options) in memories() {
        let options = Options {
            wear_threshold: 2,
            bad_per_1024: 0,
            ..options
        };
        let mut ubi = Ubi::format(chip(0, 48), options).unwrap();
        let lebs = ubi.info().available;
        let id = ubi.create_volume(&dynamic("data", lebs)).unwrap();
        for lnum in 0..lebs {
            ubi.change(id, lnum, &[lnum as u8; 1024]).unwrap();
        }
        for round in 0..400 {
            ubi.change(id, round % 3, &[round as u8; 1024]).unwrap();
            let steps = (0..200).take_while(|_| ubi.work().unwrap()).count();
            assert!(steps < 200, "{name}, round {round}");
        }
        assert!(ubi.info().moves > 0, "{name}");
        let mut chip = ubi.detach().unwrap();
        let kept = format!("full UBI, {name}");
        Media::default().flash(&mut chip).assert(&kept);
    }
}
