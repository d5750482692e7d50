//! What an attach costs as devices grow, from 64 MiB to 8 GiB (a sample: 2 GiB) and once to 1 TiB,
//! on chips that keep headers and tables only.
//!
//! A scan reads both headers of each block, so that it grows with the device. UBIL's full commit
//! grows as well, by 64 bytes a block; a fastmap by 12. An incremental commit with a chain reads
//! the same number of pages whatever the size. What is linear still: tables in memory, and asking
//! the driver which blocks are bad.

use nandlab_mtd::Geometry;
use nandlab_nand::{Chip, ChipSpec, SparseStore, preset};
use nandlab_testkit::media::Media;
use nandlab_testkit::share::whole_or;
use nandlab_ubi::{AttachCost, Attached, Commit, LogOptions, Memory, Options, Superblock, Ubi};

fn chip(geometry: Geometry) -> Chip {
    let spec = preset::find("slc-2k").unwrap().spec();
    Chip::with_store(ChipSpec { geometry, ..spec }, Box::<SparseStore>::default()).unwrap()
}

/// Of 128 KiB blocks with pages of 2 KiB, the volume header in a page of its own.
fn slc(blocks: u32) -> Geometry {
    Geometry {
        oob: 0,
        ..Geometry::single_die(2048, 0, 64, blocks)
    }
}

fn log(superblock: Superblock, commit: Commit, compress: bool) -> Memory {
    Memory::Log(LogOptions {
        blocks: 2,
        compress,
        superblock,
        commit,
    })
}

fn kinds() -> [(&'static str, Memory); 5] {
    [
        ("scan", Memory::Scan),
        ("fastmap", Memory::Fastmap),
        ("log", log(Superblock::Pair, Commit::Full, false)),
        ("log, compressed", log(Superblock::Pair, Commit::Full, true)),
        (
            "log, chain, incremental",
            log(Superblock::Chain, Commit::Incremental, false),
        ),
    ]
}

/// After a clean detach, and after 150 changes without one.
fn costs(geometry: Geometry, memory: Memory, filled_per_1024: u32) -> [AttachCost; 2] {
    let options = Options {
        memory,
        ..Options::default()
    };
    let page = vec![0xA5; geometry.page as usize];
    let (ubi, id) = Ubi::furnished(chip(geometry), options, filled_per_1024, &page).unwrap();
    let ubi = Ubi::attach(ubi.detach().unwrap(), options).unwrap();
    let clean = ubi.attach_cost();
    let mut ubi = ubi;
    let lebs = ubi.volume(id).unwrap().record.reserved;
    for i in 0..150 {
        ubi.change(id, i * 7919 % lebs, &page).unwrap();
    }
    let mut ubi = Ubi::attach(ubi.into_medium(), options).unwrap();
    let expected = match memory {
        Memory::Scan => Attached::Scan,
        Memory::Fastmap => Attached::Fastmap,
        Memory::Log(_) => Attached::Log,
    };
    assert_eq!(ubi.info().attached, expected);
    let mut buf = vec![0; page.len()];
    for i in 0..150 {
        ubi.read(id, i * 7919 % lebs, 0, &mut buf).unwrap();
        assert!(buf == page, "change {i} is lost");
    }
    [clean, ubi.attach_cost()]
}

fn show(name: &str, blocks: u32, what: &str, cost: &AttachCost) {
    println!(
        "{name:24} {blocks:7} blocks {what:8} {:7} pages, {:6} headers, {:7} records, {:8} bytes summed, {:8} inflated, {:6} KiB of memory",
        cost.page_reads,
        cost.headers,
        cost.records,
        cost.crc_bytes,
        cost.inflated_bytes,
        cost.peak_bytes / 1024
    );
}

/// How a number grows with the blocks: 1 is in proportion.
fn exponent(small: (u32, u64), large: (u32, u64)) -> f64 {
    (large.1 as f64 / small.1 as f64).ln() / (f64::from(large.0) / f64::from(small.0)).ln()
}

#[test]
fn reads_grow_with_the_device_but_for_an_incremental_commit() {
    let sizes: &[u32] = whole_or(
        &[512, 2048, 8192, 32_768, 65_536],
        &[512, 2048, 8192, 16_384],
    );
    let last = sizes.len() - 1;
    for (name, memory) in kinds() {
        let all: Vec<[AttachCost; 2]> = sizes
            .iter()
            .map(|&blocks| costs(slc(blocks), memory, 512))
            .collect();
        for (&blocks, costs) in sizes.iter().zip(&all) {
            show(name, blocks, "clean", &costs[0]);
            show(name, blocks, "unclean", &costs[1]);
        }
        let grows = |from: usize, which: usize| {
            let reads = |at: usize| (sizes[at], all[at][which].page_reads);
            exponent(reads(from), reads(last))
        };
        let clean = grows(0, 0);
        let late = grows(2, 0);
        let unclean = grows(2, 1);
        println!(
            "{name}: reads grow with the power {clean:.3}, beyond 1 GiB {late:.3}, after a cut {unclean:.3}"
        );
        let memory_grows = exponent(
            (sizes[2], all[2][0].peak_bytes),
            (sizes[last], all[last][0].peak_bytes),
        );
        assert!((0.8..1.1).contains(&memory_grows), "{name}: {memory_grows}");
        match name {
            "scan" => assert!((0.99..1.01).contains(&clean), "{clean}"),
            "log, chain, incremental" => {
                assert!(clean < 0.05 && late < 0.05, "{clean}, {late}");
                // After a cut, three leaves for each entry of the log at most.
                assert!(
                    all.iter().all(|[clean, unclean]| clean.page_reads < 100
                        && unclean.page_reads < 100 + 4 * 126),
                    "{all:?}"
                );
            }
            _ => assert!(
                clean < 1.0 && all[2][0].page_reads * 5 < 2 * 8192,
                "{clean}, {:?}",
                all[2]
            ),
        }
    }
}

/// The published comparison rests on these numbers.
#[test]
fn an_attach_of_each_kind_costs_what_it_did() {
    for (name, memory) in kinds() {
        let [clean, unclean] = costs(slc(512), memory, 512);
        let text = format!("{clean:?} {unclean:?}");
        let kept = format!("ubi attach, {name}");
        Media::default().bytes(text.as_bytes()).assert(&kept);
    }
}

/// Blocks of 4 MiB with pages of 16 KiB, as such chips have them.
#[test]
fn a_tebibyte_is_attached_in_bounded_memory() {
    let geometry = Geometry::single_die(16_384, 0, 256, 1 << 18);
    for (name, memory) in kinds()
        .into_iter()
        .filter(|(name, _)| !["fastmap", "log, compressed"].contains(name))
        .skip(whole_or(0, 2))
    {
        let started = std::time::Instant::now();
        let [clean, unclean] = costs(geometry.clone(), memory, 64);
        show(name, geometry.blocks, "clean", &clean);
        show(name, geometry.blocks, "unclean", &unclean);
        println!(
            "built and attached twice in {:.1} s",
            started.elapsed().as_secs_f64()
        );
        assert!(
            clean.peak_bytes.max(unclean.peak_bytes) < 256 * u64::from(geometry.blocks),
            "{clean:?}"
        );
    }
}

/// A commit of a device of 1 GiB after one change: all blocks twice, or the leaves that it touched.
#[test]
fn an_incremental_commit_writes_what_has_changed() {
    let [full, parts] = [Commit::Full, Commit::Incremental].map(|commit| {
        let options = Options {
            memory: log(Superblock::Chain, commit, false),
            ..Options::default()
        };
        let (ubi, id) = Ubi::furnished(chip(slc(8192)), options, 512, &[7; 2048]).unwrap();
        let mut ubi = Ubi::attach(ubi.detach().unwrap(), options).unwrap();
        while ubi.work().unwrap() {}
        ubi.change(id, 3, &[8; 2048]).unwrap();
        ubi.flush_erases().unwrap();
        let before = ubi.medium().counts().programs;
        ubi.change(id, 5, &[9; 2048]).unwrap();
        ubi.flush_erases().unwrap();
        ubi.detach().unwrap().counts().programs - before
    });
    println!("pages programmed for a change and a commit: {full} full, {parts} incremental");
    assert!(full > 2 * 256 && parts * 8 < full, "{full} {parts}");
}
