//! The camera on the real kernel's vfat and on our file system: the same calls from the same
//! generator; the sectors that reach the disk, side by side.
//!
//! Needs the tools of `nandlab-oracle`.

use crate::album::{ALBUM_INDEX, Album, SECTORS, Tape, image, regions, volume};
use nandlab_block::Op;
use nandlab_fat::Layout;
use nandlab_host::SharedDisk;
use nandlab_host::nbd::{Address, Options, Server};
use nandlab_lab::play::FileSum;
use nandlab_lab::play::regions::{Region, Writes};
use nandlab_oracle::{Disk, Manifest, Oracle, manifest::Kind};
use nandlab_stack::Parts as _;
use nandlab_workload::camera::{CameraMs500, CameraSpec};
use nandlab_workload::files::{FileCall, FileId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// Slots of a directory in a sector.
const SLOTS: usize = 16;
/// Bytes of a slot.
const SLOT: usize = 32;

/// What the kernel made of the calls.
struct Kernel {
    release: String,
    tape: Tape,
    disk: SharedDisk,
    found: Manifest,
}

impl Kernel {
    /// Plays the camera on a fresh volume, mounted without options. The kernel's flusher sleeps
    /// meanwhile: what it writes back is a matter of wall time. (Off, with 0, it would wake at each
    /// inode that becomes dirty.)
    fn shoot(spec: &CameraSpec) -> Self {
        let tape = Tape::default();
        let sockets = tempfile::tempdir().unwrap();
        let socket = sockets.path().join("disk");
        let disk = SharedDisk::new(Box::new(tape.record(volume(4).0)));
        let options = Options {
            dropped: Some(std::sync::Arc::new(|why| {
                panic!("a client was dropped: {why}")
            })),
            ..Options::default()
        };
        let server = Server::start(disk.clone(), &Address::Unix(socket.clone()), options).unwrap();
        let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
        let player = env!("CARGO_BIN_EXE_play-files");
        let shortest = spec.photo_bytes_min;
        let longest = spec.photo_bytes_max;
        let total = spec.total.unwrap();
        let script = format!(
            "mp vfat; mp nls_cp437; mp nls_iso8859-1; mp nls_ascii; echo 360000 >/proc/sys/vm/dirty_writeback_centisecs
             mount -t vfat /dev/vda /mnt && {player} /mnt camera {shortest} {longest} {total} && umount /mnt || exit 1
             mount -r -t vfat /dev/vda /mnt && manifest /mnt && umount /mnt"
        );
        let guest = oracle
            .guest()
            .program(player)
            .disk(Disk::Nbd { socket })
            .timeout(Duration::from_secs(900));
        let mut report = guest
            .script(script)
            .run()
            .and_then(|report| report.success())
            .unwrap_or_else(|error| panic!("{error}"));
        println!("guest: {:?}", report.wall);
        server.stop().unwrap();
        let found = report.manifests.remove("manifest").unwrap();
        Self {
            release: oracle.kernel_release().into(),
            tape,
            disk,
            found,
        }
    }

    /// The files, as the kernel sees them after it has mounted the volume again.
    fn sums(&self) -> Vec<FileSum> {
        let files = self
            .found
            .iter()
            .filter_map(|(path, entry)| match &entry.kind {
                Kind::File { size, sha256 } => Some((
                    path.strip_prefix(".").unwrap_or(path),
                    *size,
                    sha256.clone(),
                )),
                _ => None,
            });
        files
            .map(|(path, bytes, sha256)| FileSum {
                name: Path::new(path).display().to_string(),
                bytes,
                sha256,
            })
            .collect()
    }
}

/// When the sector of a name that was removed is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Removal {
    /// With the next fsync, of whatever file.
    NextFsync,
    /// With the next fsync of a file that has its slot there; otherwise at the unmount.
    ItsOwnTime,
}

/// How often sectors of the root directory must be written, derived from the calls alone: a new
/// name takes the first free slot, an fsync writes the sector of its file.
fn root_writes(spec: &CameraSpec, removal: Removal) -> u64 {
    let mut slots = BTreeMap::<FileId, usize>::new();
    let mut taken = BTreeSet::new();
    let mut dirty = BTreeSet::new();
    let mut writes = 0;
    for call in CameraMs500::new(spec.clone()).unwrap() {
        match call {
            FileCall::Create { file } => {
                let slot = (0..).find(|slot| !taken.contains(slot)).unwrap();
                taken.insert(slot);
                slots.insert(file, slot);
                dirty.insert(slot / SLOTS);
            }
            FileCall::Remove { file } => {
                let slot = slots[&file];
                taken.remove(&slot);
                dirty.insert(slot / SLOTS);
            }
            FileCall::Fsync { file } => {
                dirty.insert(slots[&file] / SLOTS);
                let before = dirty.len();
                dirty.retain(|sector| {
                    removal == Removal::ItsOwnTime && *sector != slots[&file] / SLOTS
                });
                writes += (before - dirty.len()) as u64;
            }
            _ => {}
        }
    }
    writes + dirty.len() as u64
}

/// Fsyncs that wrote no directory sector: the kernel leaves the slot alone if a write changed
/// neither length nor time. Times are those of its last tick, cut to two seconds, and differ from
/// the time now but in the tick with which an even second begins: a second write in that tick
/// changes nothing. It can only be one that overwrites an entry of the index.
fn slotless(layout: &Layout, tape: &Tape, mut sectors: &[(u64, &'static str)]) -> u64 {
    let mut count = 0;
    for length in tape.stretches() {
        let (stretch, rest) = sectors.split_at(length);
        sectors = rest;
        let place = |(sector, _): &(u64, &str)| layout.region(*sector, &[], "");
        let contents = stretch.iter().find(|one| !place(one).is_metadata());
        let slot = stretch.iter().find(|one| place(one) == Region::Root);
        if let (Some((_, whose)), None) = (contents, slot) {
            assert_eq!(
                *whose, ALBUM_INDEX,
                "an fsync after a photo grew wrote no directory sector"
            );
            count += 1;
        }
    }
    count
}

/// The sectors of a region, in the order in which they were written.
fn of(layout: &Layout, sectors: &[(u64, &'static str)], region: Region) -> Vec<u64> {
    sectors
        .iter()
        .map(|(sector, _)| *sector)
        .filter(|sector| layout.region(*sector, &[], "") == region)
        .collect()
}

/// Gives the kernel's clusters our names, once it is known that both have written the same clusters
/// in the same order.
fn labelled(
    layout: &Layout,
    ours: &[(u64, &'static str)],
    theirs: &[(u64, &'static str)],
) -> Vec<(u64, &'static str)> {
    let in_clusters = |sector: &u64| !layout.region(*sector, &[], "").is_metadata();
    let mut names = ours
        .iter()
        .filter(|(sector, _)| in_clusters(sector))
        .map(|(_, whose)| *whose);
    theirs
        .iter()
        .map(|(sector, _)| {
            (
                *sector,
                if in_clusters(sector) {
                    names.next().unwrap_or("")
                } else {
                    ""
                },
            )
        })
        .collect()
}

fn print(title: &str, ours: &Writes, theirs: &Writes) {
    println!(
        "{title}\n{:<16} {:>8} {:>8} {:>10}",
        "sector writes", "ours", "kernel", "difference"
    );
    let row = |name: &str, a: u64, b: u64| {
        println!("{name:<16} {a:>8} {b:>8} {:>+10}", a as i64 - b as i64)
    };
    let all: BTreeSet<Region> = ours
        .regions()
        .chain(theirs.regions())
        .map(|(region, _)| region)
        .collect();
    all.into_iter().for_each(|region| {
        row(
            &region.to_string(),
            ours.region(region).writes,
            theirs.region(region).writes,
        )
    });
    row("all", ours.total(), theirs.total());
}

/// Without what the clock says: the times in the slots of the root directory.
fn timeless(layout: &Layout, mut image: Vec<u8>) -> Vec<u8> {
    for slot in
        image[layout.root_start as usize * 512..layout.data_start as usize * 512].chunks_mut(SLOT)
    {
        slot[13..20].fill(0);
        slot[22..26].fill(0);
    }
    image
}

fn compare(spec: &CameraSpec) {
    let mut ours = Album::shoot(volume(4), spec);
    let theirs = Kernel::shoot(spec);
    let mut sums = ours.sums.clone();
    sums.sort();
    assert_eq!(
        theirs.sums(),
        sums,
        "every file as the calls have it, on the kernel's volume"
    );
    let layout = ours.layout;
    let our_sectors = ours.tape.sectors();
    let their_sectors = theirs.tape.sectors();
    for region in [
        Region::Boot,
        Region::Table(1),
        Region::Table(2),
        Region::Clusters(""),
    ] {
        let [mut ours, mut theirs] =
            [&our_sectors, &their_sectors].map(|sectors| of(&layout, sectors, region));
        if matches!(region, Region::Table(_)) {
            // An fsync may find several sectors of the table changed; the kernel writes them in the
            // order in which they were, we upwards.
            ours.sort_unstable();
            theirs.sort_unstable();
        }
        assert!(
            ours == theirs,
            "{region:?}: {} sectors written by us, {} by the kernel, not the same",
            ours.len(),
            theirs.len()
        );
    }
    let their_sectors = labelled(&layout, &our_sectors, &their_sectors);
    let their_writes = regions(layout, &their_sectors);
    let title = format!(
        "Camera-MS500 on {SECTORS} sectors, Linux {}",
        theirs.release
    );
    print(&title, &ours.writes(), &their_writes);
    println!(
        "flushes: {} by us, {} by the kernel, {} fsyncs",
        ours.tape.count(Op::Flush),
        theirs.tape.count(Op::Flush),
        ours.played.fsyncs
    );
    let slotless = slotless(&layout, &theirs.tape, &their_sectors);
    println!("{slotless} of the kernel's fsyncs found the slot unchanged");
    // The other difference: we take a removed name off the medium with the next fsync, before its
    // clusters are free there; the kernel frees the clusters, and leaves the name.
    assert_eq!(
        ours.writes().region(Region::Root).writes,
        root_writes(spec, Removal::NextFsync)
    );
    assert_eq!(
        their_writes.region(Region::Root).writes + slotless,
        root_writes(spec, Removal::ItsOwnTime)
    );
    assert_eq!(
        ours.writes()
            .regions()
            .map(|(region, _)| region)
            .collect::<Vec<_>>(),
        their_writes.regions().map(|(r, _)| r).collect::<Vec<_>>()
    );
    for tape in [&ours.tape, &theirs.tape] {
        assert!(
            tape.count(Op::Flush) >= ours.played.fsyncs,
            "every fsync waits for the disk"
        );
    }
    let mut kernels_disk = theirs.disk.into_inner().unwrap();
    let our_image = image(&mut ours.disk);
    let their_image = image(&mut *kernels_disk);
    assert!(
        timeless(&layout, our_image) == timeless(&layout, their_image),
        "both volumes are the same to the bit, save times"
    );
    ours.assert_found(kernels_disk);
}

#[test]
fn the_kernel_writes_the_sectors_that_we_write_and_its_volume_is_ours() {
    let spec = CameraSpec::default();
    let tenth = CameraSpec {
        photo_bytes_min: spec.photo_bytes_min / 10,
        photo_bytes_max: spec.photo_bytes_max / 10,
        total: spec.total.map(|total| total / 10),
        ..spec
    };
    compare(&tenth);
}

#[test]
#[ignore = "takes three to six minutes; the shorter one has photos of a tenth of the size and all else alike"]
fn so_it_does_with_photos_of_full_size() {
    compare(&CameraSpec::default());
}
