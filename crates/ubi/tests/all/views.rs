//! Volumes seen as disks and as flash.

use crate::common::{chip, flaky, memories, spec, tried};
use nandlab_block::{BlockDevice, BlockError, Lba, Ram};
use nandlab_jffs2::{Format, Jffs2, Medium, format as jffs2_format};
use nandlab_mtd::{Block, Fault, FaultInjector, Geometry, Mtd, MtdError, Page};
use nandlab_nand::{Chip, ChipSpec, CrashStates, Reliability};
use nandlab_sim::{Chain, Nanos, Rng, rng};
use nandlab_ubi::format::VolumeKind;
use nandlab_ubi::{Options, Ubi, UbiError, VolumeDisk, VolumeMtd, VolumeSpec};
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Time, path, tree};
use rand::{Rng as _, RngExt as _};

const SECTOR: usize = 512;

#[derive(Clone, Copy, Debug)]
enum Step {
    Flush,
    Discard(u64, u64),
    Write(u64, u64, u8),
}

impl Step {
    fn draw(random: &mut Rng, sectors: u64, stamp: u8) -> Self {
        let count = random.random_range(1..60).min(sectors);
        let lba = random.random_range(0..=sectors - count);
        match random.random_range(0..10) {
            0 => Self::Flush,
            1 => Self::Discard(lba, count),
            _ => Self::Write(lba, count.min(6), stamp),
        }
    }

    fn perform(self, disk: &mut impl BlockDevice) {
        match self {
            Self::Flush => disk.flush().unwrap(),
            Self::Discard(lba, count) => disk.discard(Lba(lba), count).unwrap(),
            Self::Write(lba, count, stamp) => disk
                .write(Lba(lba), &vec![stamp; count as usize * SECTOR])
                .unwrap(),
        }
    }
}

fn contents(disk: &mut impl BlockDevice) -> Vec<u8> {
    let mut all = vec![0; disk.geometry().bytes() as usize];
    disk.read(Lba(0), &mut all).unwrap();
    all
}

fn disk(chip: Chip, options: Options) -> VolumeDisk<Chip> {
    let mut ubi = Ubi::format(chip, options).unwrap();
    let id = ubi
        .create_volume(&VolumeSpec {
            name: "disk".into(),
            lebs: 12,
            ..VolumeSpec::default()
        })
        .unwrap();
    ubi.sync().unwrap();
    VolumeDisk::new(ubi, id).unwrap()
}

#[test]
fn a_volume_is_a_disk_like_any_other() {
    for (name, options) in memories() {
        let mut random = rng(1, name);
        let mut disk = disk(chip(1, 64), options);
        let mut ram = Ram::new(SECTOR as u32, disk.geometry().sectors);
        for i in 0..400 {
            let step = Step::draw(&mut random, disk.geometry().sectors, i as u8);
            step.perform(&mut disk);
            step.perform(&mut ram);
            assert!(
                i % 40 != 0 || contents(&mut disk) == contents(&mut ram),
                "{name}, after {step:?}"
            );
        }
        let ubi = Ubi::attach(disk.into_ubi().unwrap().detach().unwrap(), options).unwrap();
        let mut disk = VolumeDisk::new(ubi, 0).unwrap();
        assert!(contents(&mut disk) == contents(&mut ram), "{name}");
    }
}

/// After a cut at any flash operation each sector holds what it held at the last flush, or what it
/// got since.
#[test]
fn a_cut_leaves_each_sector_old_or_new() {
    for (name, options) in tried() {
        let mut random = rng(2, name);
        let chip = disk(
            Chip::new(spec(3, 64, Reliability::default())).unwrap(),
            options,
        )
        .into_ubi()
        .unwrap()
        .detach()
        .unwrap();
        let base = chip.fork().unwrap();
        let mut chip = chip;
        chip.start_log();
        let mut disk = VolumeDisk::new(Ubi::attach(chip, options).unwrap(), 0).unwrap();
        let mut done: Vec<(Nanos, Step)> = Vec::new();
        for i in 0..60 {
            let step = Step::draw(&mut random, disk.geometry().sectors, i + 1);
            step.perform(&mut disk);
            done.push((disk.ubi().medium().clock().now(), step));
        }
        let sectors = disk.geometry().sectors as usize;
        let log = disk.ubi().medium().logged().to_vec();
        let mut times: Vec<Nanos> = log
            .iter()
            .flat_map(|op| [op.start, op.start + (op.end - op.start) / 2, op.end])
            .collect();
        times.sort_unstable();
        times.dedup();
        let mut states = CrashStates::new(base, &log);
        for t in times {
            let word = random.next_u64();
            let ubi = Ubi::attach(states.at(t, word).unwrap(), options).unwrap();
            let seen = contents(&mut VolumeDisk::new(ubi, 0).unwrap());
            let mut allowed = vec![vec![0u8]; sectors];
            let mut before = 0;
            for &(end, step) in done
                .iter()
                .take_while(|(end, _)| (before <= t, before = *end).0)
            {
                match step {
                    Step::Flush if end <= t => allowed
                        .iter_mut()
                        .for_each(|stamps| drop(stamps.drain(..stamps.len() - 1))),
                    Step::Flush => {}
                    Step::Discard(lba, count) => allowed[lba as usize..(lba + count) as usize]
                        .iter_mut()
                        .for_each(|s| s.push(0)),
                    Step::Write(lba, count, stamp) => allowed[lba as usize..(lba + count) as usize]
                        .iter_mut()
                        .for_each(|s| s.push(stamp)),
                }
            }
            for (lba, sector) in seen.chunks_exact(SECTOR).enumerate() {
                let whole = sector.iter().all(|byte| *byte == sector[0]);
                assert!(
                    whole && allowed[lba].contains(&sector[0]),
                    "{name}, cut at {t}, word {word}: sector {lba} {}, {:?}",
                    sector[0],
                    allowed[lba]
                );
            }
        }
    }
}

#[test]
fn a_static_volume_is_a_disk_that_cannot_be_written() {
    let (_, options) = memories()[0];
    let mut ubi = Ubi::format(chip(1, 64), options).unwrap();
    let id = ubi
        .create_volume(&VolumeSpec {
            name: "fixed".into(),
            kind: VolumeKind::Static,
            lebs: 4,
            ..VolumeSpec::default()
        })
        .unwrap();
    let bytes: Vec<u8> = (0..20_000u32).map(|i| (i / 9) as u8).collect();
    ubi.start_update(id, 20_000).unwrap();
    ubi.write_update(id, &bytes).unwrap();
    let mut disk = VolumeDisk::read_only(ubi, id).unwrap();
    assert_eq!(disk.geometry().sectors, 39);
    assert_eq!(contents(&mut disk), bytes[..39 * SECTOR]);
    assert_eq!(
        disk.write(Lba(0), &[0; SECTOR]),
        Err(BlockError::ReadOnly(None))
    );
    assert_eq!(disk.discard(Lba(0), 1), Err(BlockError::ReadOnly(None)));
}

/// JFFS2 on a volume, as Linux has it through gluebi.
#[test]
fn jffs2_lives_on_a_volume() {
    let format = Format {
        medium: Some(Medium::Unmarked),
        ..Format::default()
    };
    for (name, options) in memories() {
        let geometry = Geometry {
            blocks: 96,
            pages_per_block: 32,
            ..spec(0, 96, Reliability::default()).geometry
        };
        let chip = Chip::new(ChipSpec {
            geometry,
            ..spec(0, 96, flaky())
        })
        .unwrap();
        let mut ubi = Ubi::format(chip, options).unwrap();
        let id = ubi
            .create_volume(&VolumeSpec {
                name: "jffs2".into(),
                lebs: 24,
                ..VolumeSpec::default()
            })
            .unwrap();
        let mut fs = Jffs2::mount(
            jffs2_format(VolumeMtd::new(ubi, id).unwrap(), &format).unwrap(),
            format.options(),
        )
        .unwrap();
        let data = |round: u64, file: u64| -> Vec<u8> {
            (0..9000)
                .map(|i| nandlab_sim::mix(round << 8 | file, i / 8) as u8)
                .collect()
        };
        let now = Time::new(1_000_000_000);
        for round in 0..30 {
            for file in 0..12 {
                let file_name = format!("file {file}");
                if round > 0 {
                    fs.unlink(Ino::ROOT, file_name.as_bytes(), now).unwrap();
                }
                let made = fs
                    .create(
                        Ino::ROOT,
                        file_name.as_bytes(),
                        NewNode::File,
                        0o644,
                        Caller::root(now),
                    )
                    .unwrap();
                let bytes = data(round, file);
                let mut done = 0;
                while done < bytes.len() {
                    done += fs
                        .write(made.ino, done as u64, &bytes[done..], now)
                        .unwrap();
                }
                fs.forget(made.ino, 1);
                fs.mtd_mut().ubi_mut().work().unwrap();
            }
        }
        fs.sync().unwrap();
        let mut volume = fs.into_mtd();
        volume.sync().unwrap();
        // Cut off, and attached anew.
        let ubi = Ubi::attach(volume.into_ubi().into_medium(), options).unwrap();
        let mut fs = Jffs2::mount(VolumeMtd::new(ubi, id).unwrap(), format.options()).unwrap();
        for file in 0..12 {
            let found = path::resolve(&mut fs, format!("file {file}").as_bytes()).unwrap();
            assert!(
                tree::contents(&mut fs, found.ino).unwrap() == data(29, file),
                "{name}, file {file}"
            );
        }
        assert_eq!(fs.check().unwrap().worst(), None, "{name}");
    }
}

/// A cut within the first program of a block may leave one that reads as erased and is not: it can
/// be programmed all the same.
#[test]
fn a_block_whose_first_page_is_torn_can_be_programmed() {
    let mut torn = 0;
    for (name, options) in memories() {
        let mut ubi = Ubi::format(chip(0, 64), options).unwrap();
        let id = ubi
            .create_volume(&VolumeSpec {
                name: "flash".into(),
                lebs: 8,
                ..VolumeSpec::default()
            })
            .unwrap();
        let mut chip = ubi.detach().unwrap();
        let base = chip.fork().unwrap();
        chip.start_log();
        let mut flash = VolumeMtd::new(Ubi::attach(chip, options).unwrap(), id).unwrap();
        flash.program(Page(0), &[1; 1024], &[]).unwrap();
        flash.sync().unwrap();
        let log = flash.ubi().medium().logged().to_vec();
        let last = log.last().unwrap();
        let mut states = CrashStates::new(base, &log);
        for word in 0..16 {
            let cut = states
                .at((last.start + last.end) / 2, nandlab_sim::mix(1, word))
                .unwrap();
            let mut ubi = Ubi::attach(cut, options).unwrap();
            let mapped = ubi.is_mapped(id, 0).unwrap();
            let mut flash = VolumeMtd::new(ubi, id).unwrap();
            let mut data = [0; 1024];
            if flash.read(Page(0), &mut data, &mut []).is_ok() && data == [0xFF; 1024] {
                torn += u32::from(mapped);
                flash
                    .program(Page(0), &[2; 1024], &[])
                    .unwrap_or_else(|error| panic!("{name}, word {word}: {error}"));
                flash.read(Page(0), &mut data, &mut []).unwrap();
                assert_eq!(data, [2; 1024], "{name}, word {word}");
                assert!(
                    matches!(
                        flash.program(Page(0), &[3; 1024], &[]),
                        Err(MtdError::Illegal(..))
                    ),
                    "{name}"
                );
            }
        }
    }
    assert!(torn > 11, "{torn}");
}

#[test]
fn a_volume_is_flash_whose_blocks_are_never_bad() {
    for (name, options) in memories() {
        let mut ubi = Ubi::format(chip(2, 64), options).unwrap();
        let id = ubi
            .create_volume(&VolumeSpec {
                name: "flash".into(),
                lebs: 8,
                ..VolumeSpec::default()
            })
            .unwrap();
        let mut flash = VolumeMtd::new(ubi, id).unwrap();
        let g = flash.geometry().clone();
        assert_eq!(g.check(), Ok(()));
        let mut random = rng(4, name);
        let mut model = vec![None; g.pages() as usize];
        for i in 0..2000u32 {
            let block = Block(random.random_range(0..g.blocks));
            let first = g.page_at(block, 0).0 as usize;
            let used = (0..g.pages_per_block as usize)
                .rfind(|i| model[first + i].is_some())
                .map_or(0, |last| last + 1);
            if used == g.pages_per_block as usize {
                flash.erase(block).unwrap();
                model[first..first + used].fill(None);
            } else {
                flash
                    .program(Page((first + used) as u32), &[i as u8; 1024], &[])
                    .unwrap();
                model[first + used] = Some(i as u8);
            }
            flash.ubi_mut().work().unwrap();
        }
        flash.sync().unwrap();
        let mut flash = VolumeMtd::new(
            Ubi::attach(flash.into_ubi().into_medium(), options).unwrap(),
            id,
        )
        .unwrap();
        let mut data = vec![0; 1024];
        for (page, stamp) in (0..).zip(&model) {
            flash.read(Page(page), &mut data, &mut []).unwrap();
            assert_eq!(data, [stamp.unwrap_or(0xFF); 1024], "{name}, page {page}");
        }
        assert_eq!(flash.is_bad(Block(3)), Ok(false));
        assert!(matches!(
            flash.mark_bad(Block(3)),
            Err(MtdError::Illegal(..))
        ));
        assert_eq!(
            flash.read(Page(g.pages()), &mut data, &mut []),
            Err(MtdError::OutOfRange(Page(g.pages())))
        );
        assert_eq!(
            flash.program(Page(0), &data, &[0]),
            Err(MtdError::BadLength {
                found: 1,
                expected: 0
            })
        );
    }
}

/// A device with a volume of twelve blocks, on flash whose programs all fail from now on.
fn failing(options: Options) -> (Ubi<FaultInjector<Chip>>, u32) {
    let mut ubi = Ubi::format(FaultInjector::new(chip(1, 64)), options).unwrap();
    let spec = VolumeSpec {
        name: "volume".into(),
        lebs: 12,
        ..VolumeSpec::default()
    };
    let id = ubi.create_volume(&spec).unwrap();
    let mut medium = ubi.detach().unwrap();
    medium.add(Fault::program(..));
    (Ubi::attach(medium, options).unwrap(), id)
}

#[test]
fn a_device_that_takes_no_writes_any_more_says_so_and_why() {
    const WHY: &str = "no spare erase block is left for one that failed";
    let options = Options::default();
    let (ubi, id) = failing(options);
    let mut disk = VolumeDisk::new(ubi, id).unwrap();
    let refused = disk.write(Lba(0), &[1; SECTOR]).and_then(|()| disk.flush());
    for error in [refused, disk.flush()].map(Result::unwrap_err) {
        assert!(matches!(error, BlockError::ReadOnly(Some(_))), "{error:?}");
        assert_eq!(
            Chain(&error).to_string(),
            format!("read-only device: UBI: volume 0, LEB 0: {WHY}")
        );
    }
    let (ubi, id) = failing(options);
    let mut flash = VolumeMtd::new(ubi, id).unwrap();
    let page = vec![1; flash.geometry().page as usize];
    let refused = [flash.program(Page(0), &page, &[]), flash.erase(Block(0))];
    for error in refused.map(Result::unwrap_err) {
        assert!(matches!(error, MtdError::ReadOnly(Some(_))), "{error:?}");
        assert_eq!(
            Chain(&error).to_string(),
            format!("read-only medium: UBI: volume 0, LEB 0: {WHY}")
        );
    }
}

#[test]
fn a_disk_without_a_free_erase_block_is_worn_out_and_says_so() {
    let disk = disk(chip(1, 64), Options::default());
    let error = disk.whole_error(UbiError::NoSpace {
        needed: 1,
        available: 0,
    });
    assert!(matches!(error, BlockError::WornOut(Some(_))), "{error:?}");
    assert!(
        Chain(&error)
            .to_string()
            .ends_with("free erase blocks: found 0, expected 1"),
        "{}",
        Chain(&error)
    );
}
