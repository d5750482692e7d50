//! A power cut at every step of the memory and of the flash: what the cache acknowledged is there
//! without a flush, page for page; and no content of the memory makes an attach panic.

use nandlab_block::{BlockDevice, BlockError, Lba, Nvram};
use nandlab_ftl::Ftl;
use nandlab_ftl::logblock::{LogBlockFtl, LogBlockOptions, PageOrder};
use nandlab_ftl::write_cache::{CacheError, CacheOptions, CachePolicy, WriteCache};
use nandlab_mtd::Geometry;
use nandlab_nand::{Chip, CrashStates, preset};
use nandlab_sim::{Rail, mix};

const PAGES: u64 = 20;
const SLOTS: u64 = 6;

fn bast() -> LogBlockOptions {
    LogBlockOptions {
        log_blocks: 1,
        spare_blocks: 1,
        page_order: PageOrder::Any,
        ..LogBlockOptions::bast()
    }
}

fn formatted(rail: &Rail) -> Chip {
    let mut spec = preset::find("small-block-64MiB").unwrap().spec();
    spec.geometry = Geometry {
        blocks: 16,
        pages_per_block: 4,
        ..spec.geometry
    };
    let chip = Chip::new(spec).unwrap().on_rail(rail);
    LogBlockFtl::format(chip, bast()).unwrap().into_medium()
}

fn memory(rail: &Rail) -> Nvram {
    Nvram::new(64, 2 + (SLOTS * (512 + 16)).div_ceil(64), rail.clone())
}

fn options(policy: CachePolicy) -> CacheOptions {
    CacheOptions {
        policy,
        ..CacheOptions::new(4)
    }
}

type Cache<'a> = WriteCache<LogBlockFtl<Chip>, &'a mut Nvram>;

fn attach(chip: Chip, nvram: &mut Nvram, policy: CachePolicy) -> Result<Cache<'_>, CacheError> {
    WriteCache::attach(
        LogBlockFtl::attach(chip, bast()).unwrap(),
        nvram,
        options(policy),
    )
}

/// The n-th operation: a write of one page, or a discard (stamp 0).
fn operation(n: u64) -> (u64, u8) {
    let word = mix(21, n);
    (word % PAGES, if word >> 32 & 7 == 0 { 0 } else { n as u8 })
}

fn perform(device: &mut impl BlockDevice, n: u64) -> Result<(), BlockError> {
    match operation(n) {
        (page, 0) => device.discard(Lba(page), 1),
        (page, stamp) => device.write(Lba(page), &[stamp; 512]),
    }
}

/// What every page may hold.
fn check(device: &mut impl BlockDevice, allowed: &[Vec<u8>], place: &str) {
    for (page, allowed) in (0..).zip(allowed) {
        let mut buf = [0; 512];
        device.read(Lba(page), &mut buf).unwrap();
        assert!(
            buf.iter().all(|&b| b == buf[0]) && allowed.contains(&buf[0]),
            "page {page} {place}: {}, allowed {allowed:?}",
            buf[0]
        );
    }
}

/// Operations until the power goes at `step`; gives what each page may hold. A write counts as
/// durable at once, a discard from the next flush on.
fn live(cache: &mut Cache<'_>, allowed: &mut [Vec<u8>]) -> Option<BlockError> {
    for n in 1..=100 {
        let (page, stamp) = operation(n);
        let result = perform(cache, n);
        let versions = &mut allowed[page as usize];
        match result {
            Ok(()) if stamp == 0 => versions.push(0),
            Ok(()) => *versions = vec![stamp],
            Err(error) => {
                versions.push(stamp);
                return Some(error);
            }
        }
        if n % 16 == 0 {
            match cache.flush() {
                Ok(()) => allowed
                    .iter_mut()
                    .for_each(|v| *v = vec![*v.last().unwrap()]),
                Err(error) => return Some(error),
            }
        }
    }
    None
}

#[test]
fn a_cut_at_any_step_loses_nothing_that_was_acknowledged() {
    for policy in [
        CachePolicy::Lru,
        CachePolicy::Bplru {
            padding: true,
            compensation: true,
        },
        CachePolicy::LbClock,
    ] {
        let mut step = 0;
        let mut ended = false;
        while !ended {
            let rail = Rail::new();
            let mut nvram = memory(&rail);
            let chip = formatted(&rail);
            let base = chip.fork().unwrap();
            let mut chip = base.fork().unwrap().on_rail(&rail);
            chip.start_log();
            let mut cache = attach(chip, &mut nvram, policy).unwrap();
            let mut allowed = vec![vec![0]; PAGES as usize];
            rail.cut_at(rail.steps() + step);
            let error = live(&mut cache, &mut allowed);
            ended = error.is_none();
            assert!(
                error.is_none_or(|e| e == BlockError::PowerCut),
                "step {step}: {error:?}"
            );
            let now = cache.medium().clock().now();
            let log = cache.medium().logged().to_vec();
            drop(cache);
            rail.restore();
            // Recovery itself is cut too, and then is not.
            let states = || {
                CrashStates::new(base.fork().unwrap(), &log)
                    .at(now, step)
                    .unwrap()
                    .on_rail(&rail)
            };
            rail.cut_at(rail.steps() + step % 50);
            if let Ok(below) = LogBlockFtl::attach(states(), bast()) {
                let _ =
                    WriteCache::attach(below, &mut nvram, options(CachePolicy::Fab)).map(|_| ());
            }
            rail.restore();
            let mut cache = attach(states(), &mut nvram, CachePolicy::Fab).unwrap();
            check(
                &mut cache,
                &allowed,
                &format!("after a cut at step {step}, {policy:?}"),
            );
            // Nothing is worse for having been written back.
            cache.detach().unwrap();
            check(
                &mut cache,
                &allowed,
                &format!("detached after a cut at step {step}, {policy:?}"),
            );
            let (mut below, _) = cache.into_parts();
            check(
                &mut below,
                &allowed,
                &format!("on flash after a cut at step {step}, {policy:?}"),
            );
            step += 1;
        }
        assert!(step > 1_000, "{step} steps with {policy:?}");
    }
}

#[test]
fn a_page_is_new_as_soon_as_its_tag_is_there() {
    // Eight sectors of data, the new tag, and the old tag goes.
    let stamps = (0..=10).map(|steps| {
        let rail = Rail::new();
        let mut nvram = memory(&rail);
        let mut cache = attach(formatted(&rail), &mut nvram, CachePolicy::Lru).unwrap();
        (1..=3).for_each(|stamp| cache.write(Lba(7), &[stamp; 512]).unwrap());
        let chip = cache.into_parts().0.into_medium();
        // Numbers go on where the last life left them.
        let mut cache = attach(chip, &mut nvram, CachePolicy::Lru).unwrap();
        rail.cut_at(rail.steps() + steps);
        assert_eq!(cache.write(Lba(7), &[4; 512]).is_ok(), steps == 10);
        rail.restore();
        let chip = cache.into_parts().0.into_medium();
        let mut buf = [0; 512];
        attach(chip, &mut nvram, CachePolicy::Lru)
            .unwrap()
            .read(Lba(7), &mut buf)
            .unwrap();
        assert!(buf.iter().all(|&b| b == buf[0]));
        buf[0]
    });
    assert_eq!(
        stamps.collect::<Vec<_>>(),
        [3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4]
    );
}

/// A cache that was used, and its memory.
fn used() -> (Chip, Nvram) {
    let rail = Rail::new();
    let mut nvram = memory(&rail);
    let mut cache = attach(formatted(&rail), &mut nvram, CachePolicy::LbClock).unwrap();
    (1..=30).for_each(|n| perform(&mut cache, n).unwrap());
    assert!(cache.dirty_pages() > 2);
    let (below, _) = cache.into_parts();
    (below.into_medium(), nvram)
}

/// Attaches, and uses what could be attached.
fn survives(chip: &Chip, mut nvram: Nvram, what: &str) -> Result<(), CacheError> {
    let mut cache = attach(
        chip.fork().unwrap(),
        &mut nvram,
        CachePolicy::Bplru {
            padding: true,
            compensation: true,
        },
    )?;
    (31..=70).for_each(|n| perform(&mut cache, n).unwrap_or_else(|e| panic!("{what}: {e}")));
    cache.detach().unwrap();
    Ok(())
}

#[test]
fn any_damage_of_the_directory_is_an_error_that_says_where() {
    let (chip, nvram) = used();
    assert_eq!(survives(&chip, nvram.clone(), "undamaged"), Ok(()));
    let tags = 64..64 + SLOTS * 16;
    for at in (0..32).chain(tags.clone()) {
        for bit in [0, 5, 7] {
            let mut nvram = nvram.clone();
            let mut line = [0; 64];
            nvram.read(Lba(at / 64), &mut line).unwrap();
            line[at as usize % 64] ^= 1 << bit;
            nvram.write(Lba(at / 64), &line).unwrap();
            let expected = at & !15;
            match survives(&chip, nvram, "damaged") {
                Err(CacheError::NotACache { .. }) if at < 8 => {}
                Err(CacheError::Damaged { offset: 0, .. }) if (8..32).contains(&at) => {}
                Err(CacheError::Damaged { offset, .. })
                    if tags.contains(&at) && offset == expected => {}
                other => panic!("byte {at}, bit {bit}: {other:?}"),
            }
        }
    }
}

#[test]
fn random_contents_are_an_error_and_random_pages_are_only_wrong() {
    let (chip, nvram) = used();
    let lines = nvram.geometry().sectors;
    for seed in 0..200 {
        let mut noise = nvram.clone();
        let first = if seed % 2 == 0 { 0 } else { 3 };
        for line in first..lines {
            let bytes: [u8; 64] = std::array::from_fn(|i| mix(seed, line * 64 + i as u64) as u8);
            noise.write(Lba(line), &bytes).unwrap();
        }
        let result = survives(&chip, noise, "noise");
        assert_eq!(result.is_err(), first == 0, "seed {seed}: {result:?}");
    }
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let rail = Rail::new();
    let refuse = |mut nvram: Nvram, options: CacheOptions| {
        let below = LogBlockFtl::attach(formatted(&rail), bast()).unwrap();
        WriteCache::attach(below, &mut nvram, options)
            .map(|_| ())
            .unwrap_err()
    };
    let plain = CacheOptions::new(4);
    let line = |bytes| Nvram::new(bytes, 1 << 10, rail.clone());
    let unsuitable = |error| match error {
        CacheError::Unsuitable { what, found, .. } => (what, found),
        other => panic!("{other:?}"),
    };
    for bytes in [16, 24, 96, 1024] {
        assert_eq!(
            unsuitable(refuse(line(bytes), plain)),
            ("bytes of a sector of the non-volatile memory", bytes.into())
        );
    }
    assert_eq!(
        unsuitable(refuse(line(64), CacheOptions::new(0))),
        ("pages of a logical block", 0)
    );
    let small = CacheOptions {
        bytes: Some(2_000),
        ..plain
    };
    assert_eq!(
        refuse(line(64), small),
        CacheError::TooSmall {
            bytes: 2_000,
            pages: 3,
            page: 512,
            least: 4
        }
    );
    // The memory of a smaller disk.
    let (chip, nvram) = used();
    let mut spec = chip.spec().clone();
    spec.geometry.blocks = 20;
    let below = LogBlockFtl::format(Chip::new(spec).unwrap(), bast()).unwrap();
    let foreign = WriteCache::attach(below, nvram, plain)
        .map(|_| ())
        .unwrap_err();
    assert_eq!(
        foreign,
        CacheError::Foreign {
            what: "number of sectors",
            found: 40,
            expected: 56
        }
    );
}
