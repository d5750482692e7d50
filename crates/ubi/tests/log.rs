//! UBIL's promises of its own: what an attach costs, which losses it survives, and who else can read the device.

mod common;

use common::memories;
use nandlab_mtd::{Block, Geometry, Mtd, Page};
use nandlab_nand::{Chip, ChipSpec, preset};
use nandlab_ubi::{Attached, Headers, LogOptions, Memory, Options, Ubi, UbiError, VolumeSpec};

fn chip(blocks: u32) -> Chip {
    let spec = preset::find("slc-2k").unwrap().spec();
    Chip::new(ChipSpec { geometry: Geometry { blocks, ..spec.geometry }, ..spec }).unwrap()
}

fn used(blocks: u32, options: Options) -> Ubi<Chip> {
    let mut ubi = Ubi::format(chip(blocks), options).unwrap();
    let lebs = ubi.info().available / 2;
    let id = ubi.create_volume(&VolumeSpec { name: "data".into(), lebs, ..VolumeSpec::default() }).unwrap();
    for lnum in 0..lebs {
        ubi.change(id, lnum, &[lnum as u8; 2048]).unwrap();
    }
    ubi
}

/// Flash reads and virtual time of an attach, after a clean detach or without.
fn cost(blocks: u32, options: Options, clean: bool) -> (u64, u64) {
    let ubi = used(blocks, options);
    let chip = if clean { ubi.detach().unwrap() } else { ubi.into_medium() };
    let (reads, start) = (chip.counts().reads, chip.clock().now());
    let ubi = Ubi::attach(chip, options).unwrap();
    let chip = ubi.medium();
    (chip.counts().reads - reads, chip.clock().now() - start)
}

#[test]
fn an_attach_reads_a_fraction_of_what_a_scan_reads() {
    for blocks in [256, 1024, 2048] {
        let mut scanned = 0;
        for (name, options) in memories() {
            let ((clean, clean_ns), (unclean, unclean_ns)) = (cost(blocks, options, true), cost(blocks, options, false));
            println!(
                "{blocks} blocks, {name}: {clean} reads, {} us; without detach {unclean} reads, {} us",
                clean_ns / 1000,
                unclean_ns / 1000
            );
            match options.memory {
                Memory::Scan => scanned = clean,
                // The anchor is looked for in 64 blocks, and the map is read whole.
                Memory::Fastmap => assert!(blocks < 1024 || clean * 2 < scanned, "{clean} of {scanned}"),
                Memory::Log(_) => assert!(blocks < 1024 || clean * 5 < scanned && unclean * 3 < scanned, "{clean}, {unclean} of {scanned}"),
            }
        }
    }
}

/// Blocks whose data begin with a magic number.
fn blocks_with(ubi: &mut Chip, magic: &[u8], data_page: u32) -> Vec<u32> {
    let (g, mut page) = (ubi.geometry().clone(), vec![0; 2048]);
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
    Options { headers, memory: Memory::Log(LogOptions::default()), ..Options::default() }
}

#[test]
fn either_copy_of_a_commit_is_enough_and_without_both_only_headers_help() {
    for (headers, data_page) in [(Headers::At(2048), 2), (Headers::None, 0)] {
        let options = with_log(headers);
        let mut chip = used(64, options).detach().unwrap();
        let copies = blocks_with(&mut chip, b"UBLC", data_page);
        let (first, second) = (copies[copies.len() - 2], copies[copies.len() - 1]);
        for lost in [vec![first], vec![second]] {
            let mut damaged = chip.fork().unwrap();
            lost.iter().for_each(|&block| damaged.erase(Block(block)).unwrap());
            let mut ubi = Ubi::attach(damaged, options).unwrap();
            assert_eq!(ubi.info().attached, Attached::Log);
            let mut buf = [0; 1];
            ubi.read(0, 7, 0, &mut buf).unwrap();
            assert_eq!(buf, [7]);
        }
        copies.iter().for_each(|&block| chip.erase(Block(block)).unwrap());
        match Ubi::attach(chip, options) {
            Ok(mut ubi) => {
                assert_eq!((headers, ubi.info().attached), (Headers::At(2048), Attached::Scan));
                let mut buf = [0; 1];
                ubi.read(0, 7, 0, &mut buf).unwrap();
                assert_eq!(buf, [7]);
                // And it has a log again.
                let ubi = Ubi::attach(ubi.detach().unwrap(), options).unwrap();
                assert_eq!(ubi.info().attached, Attached::Log);
            }
            Err(error) => assert!(headers == Headers::None && matches!(error, UbiError::Medium { .. }), "{error}"),
        }
    }
}

#[test]
fn any_memory_gives_way_to_any_other() {
    let kinds = [Memory::Scan, Memory::Fastmap, Memory::Log(LogOptions::default())];
    let options = |memory| Options { memory, ..Options::default() };
    let mut chip = used(128, options(Memory::Scan)).detach().unwrap();
    for (i, memory) in [0, 1, 2, 0, 2, 1, 0].map(|i| kinds[i]).into_iter().enumerate() {
        // Once as it is, once cut off and attached again.
        for _ in 0..2 {
            let mut ubi = Ubi::attach(chip, options(memory)).unwrap();
            let mut buf = [0; 1];
            for lnum in 0..20 {
                ubi.read(0, lnum, 0, &mut buf).unwrap();
                assert_eq!(buf, [lnum as u8]);
                ubi.change(0, lnum, &[lnum as u8; 4096]).unwrap();
            }
            chip = if i % 2 == 0 { ubi.detach().unwrap() } else { ubi.into_medium() };
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
    assert!(Ubi::attach(chip, Options { headers: Headers::None, ..Options::default() }).is_err());
}
