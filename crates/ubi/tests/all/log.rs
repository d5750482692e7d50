//! UBIL's promises of its own: what an attach costs, which losses it survives, and who else can
//! read the device.

use crate::common::memories;
use nandlab_mtd::{Block, Fault, FaultInjector, Geometry, Mtd, Page};
use nandlab_nand::{Chip, ChipSpec, preset};
use nandlab_ubi::{
    Attached, Commit, Headers, LogOptions, Memory, Options, Superblock, Ubi, UbiError, VolumeSpec,
};

fn chip(blocks: u32) -> Chip {
    let spec = preset::find("slc-2k").unwrap().spec();
    Chip::new(ChipSpec {
        geometry: Geometry {
            blocks,
            ..spec.geometry
        },
        ..spec
    })
    .unwrap()
}

fn used(blocks: u32, options: Options) -> Ubi<Chip> {
    let mut ubi = Ubi::format(chip(blocks), options).unwrap();
    let lebs = ubi.info().available / 2;
    let id = ubi
        .create_volume(&VolumeSpec {
            name: "data".into(),
            lebs,
            ..VolumeSpec::default()
        })
        .unwrap();
    for lnum in 0..lebs {
        ubi.change(id, lnum, &[lnum as u8; 2048]).unwrap();
    }
    ubi
}

/// Flash reads and virtual time of an attach, after a clean detach or without.
fn cost(blocks: u32, options: Options, clean: bool) -> (u64, u64) {
    let ubi = used(blocks, options);
    let chip = if clean {
        ubi.detach().unwrap()
    } else {
        ubi.into_medium()
    };
    let reads = chip.counts().reads;
    let start = chip.clock().now();
    let ubi = Ubi::attach(chip, options).unwrap();
    let chip = ubi.medium();
    (chip.counts().reads - reads, chip.clock().now() - start)
}

#[test]
fn an_attach_reads_a_fraction_of_what_a_scan_reads() {
    for blocks in [256, 1024, 2048] {
        let mut scanned = 0;
        for (name, options) in memories() {
            let (clean, clean_ns) = cost(blocks, options, true);
            let (unclean, unclean_ns) = cost(blocks, options, false);
            println!(
                "{blocks} blocks, {name}: {clean} reads, {} us; without detach {unclean} reads, {} us",
                clean_ns / 1000,
                unclean_ns / 1000
            );
            match options.memory {
                Memory::Scan => scanned = clean,
                // The anchor is looked for in 64 blocks, and the map is read whole.
                Memory::Fastmap => {
                    assert!(blocks < 1024 || clean * 2 < scanned, "{clean} of {scanned}")
                }
                Memory::Log(_) => assert!(
                    blocks < 1024 || clean * 5 < scanned && unclean * 3 < scanned,
                    "{clean}, {unclean} of {scanned}"
                ),
            }
        }
    }
}

/// Blocks whose data begin with a magic number.
fn blocks_with(ubi: &mut Chip, magic: &[u8], data_page: u32) -> Vec<u32> {
    let g = ubi.geometry().clone();
    let mut page = vec![0; 2048];
    let mut found = Vec::new();
    for block in 0..g.blocks {
        let first = g.page_at(Block(block), data_page);
        if ubi.read(first, &mut page, &mut []).is_ok() && page.starts_with(magic) {
            found.push(block);
        }
    }
    found
}

fn with_log(headers: Headers) -> Options {
    Options {
        headers,
        memory: Memory::Log(LogOptions::default()),
        ..Options::default()
    }
}

#[test]
fn either_copy_of_a_commit_is_enough_and_without_both_only_headers_help() {
    for (headers, data_page) in [(Headers::At(2048), 2), (Headers::None, 0)] {
        let options = with_log(headers);
        let mut chip = used(64, options).detach().unwrap();
        let copies = blocks_with(&mut chip, b"UBLC", data_page);
        let first = copies[copies.len() - 2];
        let second = copies[copies.len() - 1];
        for lost in [vec![first], vec![second]] {
            let mut damaged = chip.fork().unwrap();
            lost.iter()
                .for_each(|&block| damaged.erase(Block(block)).unwrap());
            let mut ubi = Ubi::attach(damaged, options).unwrap();
            assert_eq!(ubi.info().attached, Attached::Log);
            let mut buf = [0; 1];
            ubi.read(0, 7, 0, &mut buf).unwrap();
            assert_eq!(buf, [7]);
        }
        copies
            .iter()
            .for_each(|&block| chip.erase(Block(block)).unwrap());
        match Ubi::attach(chip, options) {
            Ok(mut ubi) => {
                assert_eq!(
                    (headers, ubi.info().attached),
                    (Headers::At(2048), Attached::Scan)
                );
                let mut buf = [0; 1];
                ubi.read(0, 7, 0, &mut buf).unwrap();
                assert_eq!(buf, [7]);
                // And it has a log again.
                let ubi = Ubi::attach(ubi.detach().unwrap(), options).unwrap();
                assert_eq!(ubi.info().attached, Attached::Log);
            }
            Err(error) => assert!(
                headers == Headers::None && matches!(error, UbiError::Medium { .. }),
                "{error}"
            ),
        }
    }
}

/// Pages of UBIL's own blocks but its log, and of its log.
fn own_pages(chip: &mut Chip, data_page: u32) -> [Vec<Page>; 2] {
    let g = chip.geometry().clone();
    let kinds: [&[&[u8]]; 2] = [&[b"UBLS", b"UBLA", b"UBLC", b"UBLT"], &[b"UBLL"]];
    kinds.map(|magics| {
        let blocks: Vec<u32> = magics
            .iter()
            .flat_map(|magic| blocks_with(chip, magic, data_page))
            .collect();
        let pages = blocks
            .into_iter()
            .flat_map(|block| (data_page..g.pages_per_block).map(move |index| (block, index)));
        pages
            .map(|(block, index)| g.page_at(Block(block), index))
            .filter(|&page| chip.is_programmed(page))
            .collect()
    })
}

/// A device with a life behind it, cut off; what it holds is `stamp(lnum)` in each block.
fn lived(options: Options) -> (Chip, u32) {
    let ubi = used(96, options);
    let lebs = 20;
    let mut ubi = Ubi::attach(ubi.detach().unwrap(), options).unwrap();
    for round in 0..40 {
        for lnum in 0..lebs {
            ubi.change(0, lnum, &[(lnum + round) as u8; 2048]).unwrap();
        }
        ubi.work().unwrap();
    }
    ubi.sync().unwrap();
    (ubi.into_medium(), lebs)
}

fn holds(
    chip: FaultInjector<Chip>,
    options: Options,
    lebs: u32,
    what: &str,
) -> Option<(Attached, FaultInjector<Chip>)> {
    let mut ubi = Ubi::attach(chip, options).ok()?;
    let mut buf = [0; 1];
    for lnum in 0..lebs {
        ubi.read(0, lnum, 0, &mut buf).unwrap();
        assert_eq!(buf, [(lnum + 39) as u8], "{what}, LEB {lnum}");
    }
    Some((ubi.info().attached, ubi.into_medium()))
}

/// Bit flips that are corrected anywhere in UBIL's own blocks cost nothing. A page beyond
/// correction costs nothing where there is another copy, which is everywhere but in the log and in
/// super blocks that are written in turns: for those the headers in the blocks are the copy, and
/// nothing old is taken for new.
#[test]
fn a_page_of_its_own_may_be_lost() {
    for (name, options) in memories() {
        let Memory::Log(LogOptions { superblock, .. }) = options.memory else {
            continue;
        };
        let options = Options {
            bad_per_1024: 20,
            ..options
        };
        let (mut chip, lebs) = lived(options);
        let headers = options.headers != Headers::None;
        let [own, log] = own_pages(&mut chip, if headers { 1 } else { 0 });
        assert!(
            own.len() > 4 && !log.is_empty(),
            "{name}: {} {}",
            own.len(),
            log.len()
        );
        let struck = |fault: Fault| {
            let mut chip = FaultInjector::new(chip.fork().unwrap());
            chip.add(fault);
            chip
        };
        for &page in own.iter().chain(&log) {
            let what = format!("{name}: flips in page {}", page.0);
            let held = holds(
                struck(Fault::corrected(page..=page, 3)),
                options,
                lebs,
                &what,
            );
            assert_eq!(
                held.map(|(attached, _)| attached),
                Some(Attached::Log),
                "{what}"
            );
        }
        let mut scans = 0;
        for &page in &own {
            let what = format!("{name}: page {} lost", page.0);
            match holds(
                struck(Fault::uncorrectable(page..=page)),
                options,
                lebs,
                &what,
            ) {
                Some((Attached::Log, _)) => {}
                other => {
                    assert!(
                        superblock == Superblock::Pair && (headers || other.is_none()),
                        "{what}"
                    );
                    scans += 1;
                }
            }
        }
        println!(
            "{name}: {} own pages, {} of the log; {scans} losses made it scan or give up",
            own.len(),
            log.len()
        );
        assert!(scans <= 2, "{name}: {scans}");
    }
}

#[test]
fn any_memory_gives_way_to_any_other() {
    let improved = LogOptions {
        superblock: Superblock::Chain,
        commit: Commit::Incremental,
        ..LogOptions::default()
    };
    let kinds = [
        Memory::Scan,
        Memory::Fastmap,
        Memory::Log(LogOptions::default()),
        Memory::Log(improved),
    ];
    let options = |memory| Options {
        memory,
        ..Options::default()
    };
    let mut chip = used(128, options(Memory::Scan)).detach().unwrap();
    for (i, memory) in [0, 1, 2, 0, 3, 1, 3, 0, 2, 1, 0]
        .map(|i| kinds[i])
        .into_iter()
        .enumerate()
    {
        // Once as it is, once cut off and attached again.
        for _ in 0..2 {
            let mut ubi = Ubi::attach(chip, options(memory)).unwrap();
            let mut buf = [0; 1];
            for lnum in 0..20 {
                ubi.read(0, lnum, 0, &mut buf).unwrap();
                assert_eq!(buf, [lnum as u8]);
                ubi.change(0, lnum, &[lnum as u8; 4096]).unwrap();
            }
            chip = if i % 2 == 0 {
                ubi.detach().unwrap()
            } else {
                ubi.into_medium()
            };
        }
    }
}

#[test]
fn without_headers_a_logical_block_is_a_whole_erase_block() {
    let ubi = used(64, with_log(Headers::None));
    assert_eq!(ubi.volume(0).unwrap().leb_bytes, 131_072);
    let mut chip = ubi.detach().unwrap();
    let mut page = [0; 2048];
    let mut magic = 0;
    for block in 0..64 {
        chip.read(Page(block * 64), &mut page, &mut []).unwrap();
        magic += u32::from(page.starts_with(b"UBI"));
    }
    assert_eq!(magic, 0);
    assert!(
        Ubi::attach(
            chip,
            Options {
                headers: Headers::None,
                ..Options::default()
            }
        )
        .is_err()
    );
}
