//! The camera of the FTL study on our file system: where its writes go, and that its photos are
//! there afterwards.

use crate::album;
use crate::album::{ALBUM_INDEX, Album, PHOTOS, image, volume};
use nandlab_block::Op;
use nandlab_lab::play::regions::{POINTS_MAX, Region, Writes};
use nandlab_workload::camera::CameraSpec;
use std::{fs, process::Command};

const OF_PHOTOS: Region = Region::Clusters(PHOTOS);
const OF_INDEX: Region = Region::Clusters(ALBUM_INDEX);

fn print(name: &str, writes: &Writes) {
    println!("{name}: {} sector writes", writes.total());
    writes.regions().for_each(|(region, tally)| {
        println!(
            "  {region}: {} writes of {} sectors",
            tally.writes, tally.sectors
        )
    });
    let metadata = writes.metadata();
    let hottest = writes.hottest(0.002);
    let percent = |share: f64| share * 100.0;
    println!(
        "  metadata: {:.2} % of the writes to {:.3} % of the sectors",
        percent(metadata.writes),
        percent(metadata.sectors)
    );
    println!(
        "  hottest {:.3} % of the sectors: {:.2} % of the writes",
        percent(hottest.sectors),
        percent(hottest.writes)
    );
}

#[test]
fn sixty_per_cent_of_the_writes_go_to_a_fifth_of_a_per_cent_of_the_sectors() {
    let mut album = Album::shoot(volume(4), &CameraSpec::default());
    let writes = album.writes();
    let played = album.played;
    print("2 KiB clusters", &writes);
    let share = writes.metadata();
    assert!(
        (0.600..0.602).contains(&share.writes),
        "{share:?}; the paper says 60 %"
    );
    assert!(
        (0.0019..0.0021).contains(&share.sectors),
        "{share:?}; the paper says 0.2 %"
    );
    let hottest = writes.hottest(0.002).writes;
    assert!(
        (0.595..0.605).contains(&hottest),
        "{hottest}: the same without knowing what a sector holds"
    );
    assert_eq!(
        (played.creates, played.removes, played.fsyncs),
        (201, 160, played.writes + 1)
    );
    let of = |region| writes.region(region).writes;
    assert_eq!(
        (of(OF_PHOTOS), of(OF_PHOTOS) + of(OF_INDEX)),
        (163_164, played.writes),
        "every unit is a sector and written once"
    );
    assert_eq!(of(Region::Table(1)), of(Region::Table(2)));
    assert!(
        writes
            .points()
            .all(|(_, points)| points.len() <= POINTS_MAX)
    );
    let mut disk = album.disk.clone();
    album.assert_found(&mut disk);
    assert_clean_to_fsck(&mut album);
}

fn assert_clean_to_fsck(album: &mut Album) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("volume");
    fs::write(&path, image(&mut album.disk)).unwrap();
    let output = Command::new("/usr/sbin/fsck.vfat")
        .args(["-n", "-V"])
        .arg(&path)
        .output();
    let output = output.unwrap_or_else(|error| {
        panic!("/usr/sbin/fsck.vfat: {error}; Debian's package dosfstools has it")
    });
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn only_clusters_of_two_kib_give_the_paper_s_pair_of_numbers() {
    for cluster_sectors in [1, 2, 4, 8, 16] {
        let writes = Album::shoot(volume(cluster_sectors), &CameraSpec::default()).writes();
        print(&format!("{} B clusters", cluster_sectors * 512), &writes);
        let share = writes.metadata();
        // An fsynced append writes its directory sector, and both tables once a cluster.
        let per_sector = 1.0 + 2.0 / f64::from(cluster_sectors);
        let theory = per_sector / (1.0 + per_sector);
        assert!(
            (share.writes - theory).abs() < 0.005,
            "{share:?}, {theory} in theory"
        );
        let rounded = (
            (share.writes * 100.0).round(),
            (share.sectors * 1000.0).round(),
        );
        assert_eq!(rounded == (60.0, 2.0), cluster_sectors == 4, "{rounded:?}");
    }
}

#[test]
fn with_the_memory_for_metadata_only_contents_are_written_until_the_unmount() {
    let mut album = Album::shoot_with_nvram(volume(4), &CameraSpec::default());
    let writes = album.writes();
    print("with 128 KB of memory", &writes);
    let metadata = writes.metadata();
    assert_eq!(writes.region(OF_PHOTOS).writes, 163_164);
    // Each sector of a table or of the root directory once, at the end, and the mark in the boot
    // sector.
    let sectors = (metadata.sectors * album::SECTORS as f64).round();
    assert_eq!(
        (metadata.writes * writes.total() as f64).round(),
        sectors + 1.0
    );
    assert!(album.tape.count(Op::Flush) >= album.played.fsyncs);
    let mut disk = album.disk.clone();
    album.assert_found(&mut disk);
    assert_clean_to_fsck(&mut album);
}
