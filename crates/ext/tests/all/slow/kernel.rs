//! The real kernel sees our trees as we do, and we see its.

use crate::common;
use crate::common::{assert_clean, manifest, mount, ram};
use nandlab_block::Ram;
use nandlab_ext::{Format, format};
use nandlab_oracle::manifest::Manifest;
use nandlab_oracle::manifest::differences;
use nandlab_testkit::disk::word;
use nandlab_testkit::kernel::{BothWays, EDIT, Volumes, plant};
use nandlab_testkit::share::whole_or;
use nandlab_vfs::FileSystem;

fn formatted(kib: u64, choices: &Format) -> Ram {
    let mut disk = ram(kib);
    format(&mut disk, choices).unwrap();
    disk
}

/// Our driver and the kernel's, one on what the other left.
pub(super) fn both_ways() -> BothWays<'static> {
    BothWays {
        mount: &|disk| Box::new(mount(disk)),
        assert_clean,
        plant,
        prelude: format!("{EDIT}\nmp ext4\n"),
        kept: |tree| tree,
        entries_min: 400,
        landmark: "moved random",
    }
}

/// The kernel sees each volume's tree as we do, and leaves the volume clean.
pub(super) fn assert_seen_alike(volumes: &mut Volumes, ours: Vec<(String, Manifest)>) {
    let report = volumes.boot();
    for (name, ours) in ours {
        assert!(ours.len() > 60, "{name}: a tree worth comparing");
        assert_eq!(
            differences(&ours, &report.manifests[&name]),
            "",
            "{name}: our tree, as the kernel sees it"
        );
        assert_clean(&mut volumes.load(&name), &name);
    }
}

#[test]
fn the_kernel_and_we_see_the_same_trees_both_ways() {
    let large = Format {
        block: Some(4096),
        ..Format::default()
    };
    let middle = Format {
        block: Some(2048),
        journal: true,
        ..Format::default()
    };
    let volumes = [
        ("small", "ext2", formatted(32 * 1024, &Format::default())),
        ("large", "ext2", formatted(64 * 1024, &large)),
        ("middle", "ext3", formatted(48 * 1024, &middle)),
    ];
    // Volumes of ext3 are those of `journaled_kernel.rs`, too.
    let tried = volumes.into_iter().take(whole_or(3, 1));
    both_ways().run(tried.collect());
}

/// The power goes while the journal holds what is not at home, and a file is open that has no name.
const CRASH: &str = r#"
    mp ext4
    mount -t ext3 -o commit=1000 /dev/vda /mnt && cd /mnt || exit 1
    i=0; while [ $i -lt 300 ]; do echo $i > "in the journal $i" || exit 1; i=$((i+1)); done
    mkdir gone && head -c 500000 /dev/urandom > large && ln -s somewhere link && touch gone/a gone/b || exit 1
    head -c 300000 /dev/urandom > orphan && exec 5< orphan && rm orphan && rm -r gone && rm "in the journal 7" && cd / || exit 1
    sync && manifest /mnt left
    cp /dev/vda /dev/vdb 2>/dev/null || dd if=/dev/vda of=/dev/vdb bs=1M || exit 1
"#;

#[test]
fn a_volume_that_the_kernel_left_in_a_crash_is_recovered() {
    let journal = Format {
        journal: true,
        ..Format::default()
    };
    let mut volumes = Volumes::new("");
    let nothing = |_: &str| String::new();
    volumes.add("mounted", &mut formatted(32 * 1024, &journal), nothing);
    volumes.add("copy", &mut ram(32 * 1024), |_| CRASH.into());
    let report = volumes.boot();
    let mut disk = volumes.load("copy");
    assert!(common::read_only(&mut disk).is_read_only());
    assert!(
        common::needs_recovery(&mut disk),
        "the kernel left a journal that needs recovery"
    );
    assert_ne!(word(&mut disk, 1024 + 232), 0, "and an orphan");
    let mut ext = mount(&mut disk);
    assert_eq!(
        differences(&report.manifests["left"], &manifest(&mut ext)),
        "",
        "what was synced"
    );
    ext.unmount().unwrap();
    assert_clean(&mut disk, "recovered");
}
