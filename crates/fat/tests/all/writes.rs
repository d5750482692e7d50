//! What reaches the device, and when: as Linux's vfat writes, for the paper's workload above all.

use crate::common;
use crate::common::{NOW, bytes, mkdir, mount, put, ram, read_only};
use nandlab_block::{BlockDevice, Counter, Lba, Nvram, Op, Ram, Request, Tracer};
use nandlab_fat::{Bits, Fat, Format, Options, format};
use nandlab_sim::Rail;
use nandlab_vfs::{
    Caller, Errno, FileSystem, Ino, NewNode, Rename, SetAttr, Sync, Time, path, tree,
};
use std::cell::RefCell;

/// 32 MiB, 2 KiB clusters: the table at 1 and 65, the root directory at 129, contents from 161 on.
fn camera() -> Ram {
    let mut disk = ram(32 * 1024);
    let choices = Format {
        bits: Some(Bits::Fat16),
        cluster_sectors: Some(4),
        align: false,
        ..Format::default()
    };
    let layout = format(&mut disk, &choices).unwrap();
    assert_eq!(
        (
            layout.fat_start,
            layout.root_start,
            layout.data_start,
            layout.clusters
        ),
        (1, 129, 161, 16_343)
    );
    disk
}

fn append(fat: &mut (impl FileSystem + ?Sized), file: Ino, sector: u64) {
    assert_eq!(
        fat.write(file, sector * 512, &[sector as u8; 512], NOW),
        Ok(512)
    );
    fat.fsync(file, Sync::All).unwrap();
}

#[test]
fn an_fsynced_append_writes_contents_directory_and_on_allocation_both_tables() {
    let requests = RefCell::new(Vec::<Request>::new());
    let traced = Tracer::new(camera(), |event: &nandlab_block::Event| {
        requests.borrow_mut().push(event.request)
    });
    let mut fat = mount(traced);
    let file = put(&mut fat, Ino::ROOT, "PHOTO.JPG", b"");
    fat.sync().unwrap();
    let mut written = Vec::new();
    for sector in 0..8 {
        requests.borrow_mut().clear();
        append(&mut fat, file, sector);
        written.push(
            requests
                .borrow()
                .iter()
                .filter(|r| r.op == Op::Write)
                .map(|r| (r.lba.0, r.sectors))
                .collect::<Vec<_>>(),
        );
    }
    // The first cluster given out is the one after cluster 2, as in Linux: sectors 165 to 168.
    assert_eq!(written[0], [(165, 1), (1, 1), (65, 1), (129, 1)]);
    assert_eq!(written[1], [(166, 1), (129, 1)]);
    assert_eq!(written[3], [(168, 1), (129, 1)]);
    assert_eq!(written[4], [(169, 1), (1, 1), (65, 1), (129, 1)]);
    requests.borrow_mut().clear();
    fat.fsync(file, Sync::All).unwrap();
    assert_eq!(
        requests.borrow().as_slice(),
        [],
        "nothing is dirty, nothing is written or flushed"
    );
}

#[test]
fn sixty_per_cent_of_a_photo_album_s_writes_are_metadata_and_none_with_the_memory() {
    let shoot = |fat: &mut dyn FileSystem| {
        for photo in 0..5u64 {
            let file = fat
                .create(
                    Ino::ROOT,
                    format!("P{photo}.JPG").as_bytes(),
                    NewNode::File,
                    0o644,
                    Caller::root(NOW),
                )
                .unwrap()
                .ino;
            (0..800).for_each(|sector| append(&mut *fat, file, sector));
        }
    };
    let mut fat = mount(Counter::new(camera()));
    shoot(&mut fat);
    let written = fat.device_mut().reset().writes.sectors as f64;
    let share = 1.0 - 4000.0 / written;
    assert!(
        (0.599..0.603).contains(&share),
        "{share} of {written} sectors; the paper says 60 %"
    );
    let memory = Nvram::new(512, 256, Rail::new());
    let mut fat =
        Fat::mount_with_nvram(Counter::new(camera()), memory, Options::default()).unwrap();
    shoot(&mut fat);
    // The mark in the boot sector is the one sector beside the contents.
    assert_eq!(fat.device_mut().reset().writes.sectors, 4001);
    fat.unmount().unwrap();
    let sectors = fat.device_mut().reset().writes.sectors;
    assert!(
        (5..40).contains(&sectors),
        "{sectors} sectors of tables and root directory at the end"
    );
}

#[test]
fn data_alone_leaves_times_behind_but_never_lengths() {
    let mut fat = mount(Counter::new(camera()));
    let file = put(&mut fat, Ino::ROOT, "F", &[1; 512]);
    fat.sync().unwrap();
    fat.device_mut().reset();
    fat.write(file, 0, &[2; 512], Time::new(NOW.secs + 10))
        .unwrap();
    fat.fsync(file, Sync::Data).unwrap();
    assert_eq!(fat.device_mut().reset().writes.sectors, 1, "contents only");
    fat.write(file, 512, &[2; 512], NOW).unwrap();
    fat.fsync(file, Sync::Data).unwrap();
    assert_eq!(
        fat.device_mut().reset().writes.sectors,
        2,
        "contents and the new length"
    );
}

#[test]
fn with_the_sync_option_nothing_stays_dirty() {
    let mut disk = camera();
    let mut fat = Fat::mount(
        &mut disk,
        Options {
            sync: true,
            ..Options::default()
        },
    )
    .unwrap();
    let dir = mkdir(&mut fat, Ino::ROOT, "d");
    put(&mut fat, dir, "f", &bytes(1, 10_000));
    fat.rename((dir, b"f"), (Ino::ROOT, b"g"), Rename::Replace, NOW)
        .unwrap();
    assert_eq!(fat.dirty().bytes, 0);
    drop(fat.into_parts());
    let found = tree::snapshot(&mut read_only(&mut disk)).unwrap();
    assert_eq!(found[&b"g"[..]].contents, bytes(1, 10_000));
}

#[test]
fn a_mount_that_only_reads_writes_nothing() {
    let mut disk = camera();
    let mut fat = mount(&mut disk);
    put(&mut fat, Ino::ROOT, "f", &[7; 3000]);
    fat.unmount().unwrap();
    let mut fat = mount(Counter::new(&mut disk));
    tree::snapshot(&mut fat).unwrap();
    fat.statfs().unwrap();
    fat.unmount().unwrap();
    let counts = fat.device_mut().reset();
    assert_eq!((counts.writes.requests, counts.discards.requests), (0, 0));
    let mut fat = Fat::mount(
        &mut disk,
        Options {
            read_only: true,
            ..Options::default()
        },
    )
    .unwrap();
    assert_eq!(fat.unlink(Ino::ROOT, b"f", NOW), Err(Errno::ReadOnly));
}

#[test]
fn freed_clusters_are_discarded_when_their_freedom_is_durable() {
    let requests = RefCell::new(Vec::<Request>::new());
    let traced = Tracer::new(camera(), |event: &nandlab_block::Event| {
        requests.borrow_mut().push(event.request)
    });
    let mut fat = Fat::mount(
        traced,
        Options {
            discard: true,
            ..Options::default()
        },
    )
    .unwrap();
    let file = put(&mut fat, Ino::ROOT, "f", &bytes(1, 8192));
    fat.sync().unwrap();
    fat.forget(file, 1);
    fat.unlink(Ino::ROOT, b"f", NOW).unwrap();
    assert!(requests.borrow().iter().all(|r| r.op != Op::Discard));
    fat.sync().unwrap();
    let discards: Vec<_> = requests
        .borrow()
        .iter()
        .filter(|r| r.op == Op::Discard)
        .map(|r| (r.lba.0, r.sectors))
        .collect();
    assert_eq!(discards, [(165, 16)]);
}

#[test]
fn a_full_volume_says_so_and_gives_freed_space_out_again() {
    let mut disk = ram(2000);
    format(&mut disk, &Format::default()).unwrap();
    let mut fat = mount(&mut disk);
    let free = fat.statfs().unwrap().free * 2048;
    assert_eq!(free, u64::from(fat.layout().clusters) * 2048);
    let file = put(&mut fat, Ino::ROOT, "f", b"");
    let data = bytes(3, free as usize + 5000);
    let mut done = 0;
    while let Ok(count) = fat.write(file, done as u64, &data[done..], NOW) {
        done += count;
    }
    assert_eq!((done as u64, fat.statfs().unwrap().free), (free, 0));
    assert_eq!(fat.write(file, done as u64, b"x", NOW), Err(Errno::NoSpace));
    assert_eq!(
        fat.mkdir(Ino::ROOT, b"d", 0, Caller::root(NOW)),
        Err(Errno::NoSpace)
    );
    fat.sync().unwrap();
    // Not yet durable, so that it takes a commit of its own.
    fat.setattr(
        file,
        &SetAttr {
            size: Some(4096),
            ..SetAttr::default()
        },
        NOW,
    )
    .unwrap();
    put(&mut fat, Ino::ROOT, "g", &data[..20_000]);
    fat.unmount().unwrap();
    common::assert_clean(&mut disk, "after running full");
    let found = tree::snapshot(&mut mount(&mut disk)).unwrap();
    assert!(
        found[&b"f"[..]].contents == data[..4096] && found[&b"g"[..]].contents == data[..20_000]
    );
}

#[test]
fn a_full_root_directory_says_so() {
    let mut disk = ram(2000);
    format(
        &mut disk,
        &Format {
            root_entries: Some(16),
            ..Format::default()
        },
    )
    .unwrap();
    let mut fat = mount(&mut disk);
    let made = (0..100).take_while(|n| {
        fat.create(
            Ino::ROOT,
            format!("F{n}").as_bytes(),
            NewNode::File,
            0,
            Caller::root(NOW),
        )
        .is_ok()
    });
    assert_eq!(made.count(), 16);
    assert_eq!(
        fat.create(Ino::ROOT, b"one more", NewNode::File, 0, Caller::root(NOW)),
        Err(Errno::NoSpace)
    );
}

#[test]
fn what_the_format_cannot_hold_is_refused_with_linux_s_numbers() {
    let mut fat = mount(camera());
    let by = Caller::root(NOW);
    let file = put(&mut fat, Ino::ROOT, "File.txt", b"x");
    assert_eq!(
        fat.symlink(Ino::ROOT, b"l", b"t", by),
        Err(Errno::NotPermitted)
    );
    assert_eq!(
        fat.create(Ino::ROOT, b"p", NewNode::Fifo, 0o644, by),
        Err(Errno::NotPermitted)
    );
    assert_eq!(
        fat.link(file, Ino::ROOT, b"g", NOW),
        Err(Errno::NotPermitted)
    );
    assert_eq!(
        fat.create(Ino::ROOT, b"a:b", NewNode::File, 0o644, by),
        Err(Errno::Invalid)
    );
    assert_eq!(
        fat.create(Ino::ROOT, b"\xff", NewNode::File, 0o644, by),
        Err(Errno::Invalid)
    );
    assert_eq!(
        fat.create(Ino::ROOT, b"FILE.TXT", NewNode::File, 0o644, by),
        Err(Errno::Exists)
    );
    assert_eq!(
        fat.lookup(Ino::ROOT, b"fILE.tXT...").map(|attr| attr.ino),
        Ok(file)
    );
    assert_eq!(fat.getxattr(file, b"user.x"), Err(Errno::NotSupported));
    let mut set = |change| fat.setattr(file, &change, NOW);
    assert_eq!(
        set(SetAttr {
            uid: Some(1),
            ..SetAttr::default()
        }),
        Err(Errno::NotPermitted)
    );
    assert_eq!(
        set(SetAttr {
            mode: Some(0o700),
            ..SetAttr::default()
        }),
        Err(Errno::NotPermitted)
    );
    assert_eq!(
        set(SetAttr {
            mode: Some(0o555),
            ..SetAttr::default()
        })
        .map(|attr| attr.mode),
        Ok(0o555)
    );
    assert_eq!(
        set(SetAttr {
            size: Some(1 << 32),
            ..SetAttr::default()
        }),
        Err(Errno::FileTooBig)
    );
    assert_eq!(
        fat.write(file, u64::from(u32::MAX), b"x", NOW),
        Err(Errno::FileTooBig)
    );
}

#[test]
fn a_name_changes_its_case_and_a_moved_directory_its_parent() {
    let mut disk = camera();
    let mut fat = mount(&mut disk);
    let file = put(&mut fat, Ino::ROOT, "readme.txt", b"x");
    fat.rename(
        (Ino::ROOT, b"readme.txt"),
        (Ino::ROOT, b"ReadMe.TXT"),
        Rename::Replace,
        NOW,
    )
    .unwrap();
    assert_eq!(
        tree::names(&mut fat, Ino::ROOT).unwrap()[0].0,
        b"ReadMe.TXT"
    );
    assert_eq!(fat.lookup(Ino::ROOT, b"README.TXT").unwrap().ino, file);
    let a = mkdir(&mut fat, Ino::ROOT, "a");
    let b = mkdir(&mut fat, Ino::ROOT, "b");
    let c = mkdir(&mut fat, a, "c");
    assert_eq!(
        fat.rename((Ino::ROOT, b"a"), (c, b"x"), Rename::Replace, NOW),
        Err(Errno::Invalid)
    );
    fat.rename((a, b"c"), (b, b"c"), Rename::Replace, NOW)
        .unwrap();
    fat.rename((Ino::ROOT, b"b"), (a, b"b"), Rename::Replace, NOW)
        .unwrap();
    fat.rename((a, b"b"), (Ino::ROOT, b"top"), Rename::Replace, NOW)
        .unwrap();
    assert_eq!(path::resolve(&mut fat, b"top/c").unwrap().ino, c);
    assert_eq!(
        (
            fat.getattr(Ino::ROOT).unwrap().links,
            fat.getattr(b).unwrap().links,
            fat.getattr(a).unwrap().links
        ),
        (4, 3, 2)
    );
    fat.unmount().unwrap();
    // Our check and fsck.vfat look at every `..`.
    common::assert_clean(&mut disk, "after moving directories");
}

#[test]
fn a_device_that_fails_makes_the_mount_read_only_with_the_cause_at_hand() {
    let mut broken = nandlab_block::FaultInjector::new(camera());
    broken.add(nandlab_block::Fault::new(
        Op::Write,
        nandlab_block::BlockError::WornOut(None),
    ));
    let mut fat = mount(broken);
    let file = put(&mut fat, Ino::ROOT, "f", b"data");
    assert_eq!(fat.fsync(file, Sync::All), Err(Errno::Io));
    assert_eq!(
        fat.fault().unwrap().to_string(),
        "device: worn out: no erase block left to write to"
    );
    assert_eq!(fat.write(file, 0, b"x", NOW), Err(Errno::ReadOnly));
    assert_eq!(fat.read(file, 0, &mut [0; 9]), Ok(4));
    assert_eq!(fat.unmount(), Err(Errno::ReadOnly));
    let mut boot = [0; 512];
    fat.into_parts()
        .0
        .into_inner()
        .read(Lba(0), &mut boot)
        .unwrap();
    assert_eq!(boot[37], 0);
}
