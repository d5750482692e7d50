//! Every key of `[fs]` arrives, and every bad one is refused where it stands.

use super::*;
use crate::Registry;
use nandlab_block::Ram;
use nandlab_ext::{Checkpoint, Mode};
use nandlab_vfs::Ino;
use std::path::Path;

fn take(text: &str) -> Result<Option<FsDescription>, String> {
    let mut document = Document::parse("e.toml", Path::new(""), &format!("[fs]\n{text}"), &[])
        .map_err(|e| e.to_string())?;
    FsDescription::take(&mut document, &Registry::standard().file_systems)
        .map(|(fs, _)| fs)
        .map_err(|e| e.to_string())
}

/// The options of a file system of ours.
fn layer<L: FsLayer + Clone>(fs: &FsDescription) -> L {
    let any: &dyn Any = &*fs.layer;
    any.downcast_ref::<L>().expect("the file system").clone()
}

fn make(fs: &FsDescription, disk: &mut Ram) -> Result<(), FsError> {
    fs.make(Medium::Disk(Box::new(&mut fs.partition(disk).unwrap())))
}

fn mount<'a>(fs: &FsDescription, disk: &'a mut Ram) -> Mounted<'a> {
    let disk: Box<dyn BlockDevice> = Box::new(disk);
    let partition = fs.partition(disk).unwrap();
    fs.mount(Medium::Disk(Box::new(partition)), Machine::default())
        .unwrap()
}

#[test]
fn what_is_made_on_a_partition_is_mounted_from_it_and_the_rest_of_the_disk_stays() {
    let fs =
        take("type = \"fat16\"\ncluster = 2048\nroot-entries = 512\nstart-sector = 63\nsize = \"32 MiB\"\nalign = false").unwrap().unwrap();
    let mut disk = Ram::new(512, 70_000);
    {
        make(&fs, &mut disk).unwrap();
        let mut mounted = mount(&fs, &mut disk);
        let parts = mounted.parts.clone();
        let of = |sector| parts.region(sector, &[], "files");
        let end = 161 + 16_343 * 4;
        let edges = [1, 64, 65, 128, 129, 160, 161, end - 1, end].map(of);
        use Region::*;
        let files = Clusters("files");
        let tables = [Table(1), Table(1), Table(2), Table(2)];
        assert_eq!(
            edges,
            [&tables[..], &[Root, Root, files, files, Outside]].concat()[..]
        );
        mounted
            .fs
            .mkdir(
                Ino::ROOT,
                b"DCIM",
                0o755,
                nandlab_vfs::Caller {
                    uid: 0,
                    gid: 0,
                    now: nandlab_vfs::Time::new(0),
                },
            )
            .unwrap();
        mounted.fs.unmount().unwrap();
    }
    let mut sector = [0; 512];
    disk.read(Lba(62), &mut sector).unwrap();
    assert_eq!(sector, [0; 512]);
    disk.read(Lba(63), &mut sector).unwrap();
    assert_eq!(sector[510..], [0x55, 0xaa]);
}

#[test]
fn each_bad_value_is_refused_at_its_key() {
    let cases = [
        (
            "type = \"ext9\"",
            "e.toml:2:8: fs.type: found \"ext9\", expected one of \"none\", \"fat\"",
        ),
        (
            "cluster = 2048",
            "fs.cluster: has no effect, it needs a type of file system",
        ),
        (
            "mode = \"journal\"",
            "fs.mode: has no effect, it needs a type of file system",
        ),
        (
            "type = \"fat\"\nblock = 1024",
            "fs.block: has no effect, it needs type = \"ext2\", \"ext3\" or \"ext4\"",
        ),
        (
            "type = \"fat\"\nmode = \"journal\"",
            "fs.mode: has no effect, it needs type = \"ext3\" or \"ext4\"",
        ),
        (
            "type = \"ext3\"\ncluster = 2048",
            "fs.cluster: has no effect, it needs type = \"fat\"",
        ),
        (
            "type = \"ext2\"\ncheckpoint = \"remap\"",
            "fs.checkpoint: has no effect, it needs type = \"ext3\" or \"ext4\"",
        ),
        (
            "type = \"ext2\"\nblock = 512",
            "fs.block: found 512, expected 1024, 2048 or 4096 bytes",
        ),
        (
            "type = \"ext2\"\ninode-size = 100",
            "fs.inode-size: found 100, expected a power of two from 128 to the block",
        ),
        (
            "type = \"ext2\"\ninode-size = 2048",
            "fs.inode-size: found 2048, expected a power of two",
        ),
        (
            "type = \"ext3\"\nmode = \"data\"",
            "fs.mode: found \"data\", expected one of \"journal\", \"ordered\", \"writeback\"",
        ),
        (
            "type = \"ext3\"\ncheckpoint = \"move\"",
            "fs.checkpoint: found \"move\", expected one of \"copy\", \"remap\"",
        ),
        (
            "type = \"ext3\"\ncommit-interval = \"0 s\"",
            "fs.commit-interval: found \"0 ns\", expected a time above 0",
        ),
        (
            "type = \"fat16\"\ncluster = 1000",
            "fs.cluster: found 1000, expected a power of two from 512 to 65536 bytes",
        ),
        (
            "type = \"fat16\"\nstart-sector = 5000000000",
            "fs.start-sector: found 5000000000, expected a sector below 2^32",
        ),
        (
            "type = \"jffs2\"\nblock = 1024",
            "fs.block: has no effect, it needs type = \"ext2\", \"ext3\" or \"ext4\"",
        ),
        (
            "type = \"jffs2\"\nstart-sector = 8",
            "fs.start-sector: has no effect, it needs a file system on a disk",
        ),
        (
            "type = \"ext2\"\ncompression = \"none\"",
            "fs.compression: has no effect, it needs type = \"jffs2\"",
        ),
        (
            "type = \"jffs2\"\ncompression = \"gzip\"",
            "fs.compression: found \"gzip\", expected one of \"none\", \"classic\"",
        ),
        (
            "type = \"jffs2\"\ncompression = \"none\"\ncompressor = \"size\"",
            "fs.compressor: has no effect, it needs a compression",
        ),
        (
            "type = \"f2fs\"\nlogs = 3",
            "fs.logs: found 3, expected 2, 4 or 6",
        ),
        (
            "type = \"f2fs\"\nbarriers = false",
            "fs.barriers: has no effect",
        ),
        (
            "type = \"ext3\"\nlogs = 6",
            "fs.logs: has no effect, it needs type = \"f2fs\"",
        ),
        (
            "type = \"f2fs\"\noverprovision = 90.0",
            "fs.overprovision: found 90, expected percent, 0.1 to 50",
        ),
        (
            "type = \"jffs2\"\nnode-bytes = 5000",
            "fs.node-bytes: found \"5000 B\", expected a power of two from 4 KiB",
        ),
        (
            "type = \"fat16\"\nstrat-sector = 5",
            "fs.strat-sector: unknown key, did you mean \"start-sector\"?",
        ),
    ];
    for (line, expected) in cases {
        let error = take(line)
            .err()
            .unwrap_or_else(|| panic!("{line} was accepted"));
        assert!(error.contains(expected), "{line}: {error}");
    }
    let place = |text: &str| {
        let fs = take(&format!("type = \"fat16\"\n{text}")).unwrap().unwrap();
        fs.partition(Ram::new(512, 1000))
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    assert!(
        place("start-sector = 1000")
            .contains("fs.start-sector: found 1000, expected a place on the disk of 1000 sectors")
    );
    assert!(
        place("start-sector = 10\nsize = \"1 MiB\"")
            .contains("fs.size: found 1048576, expected whole sectors of 512 bytes, 506880")
    );
}

#[test]
fn every_choice_of_ext_arrives() {
    let ext = |text: &str| layer::<ExtDescription>(&take(text).unwrap().unwrap());
    let plain = ext("type = \"ext2\"");
    assert_eq!(
        (
            plain.format.journal,
            plain.mount.mode,
            plain.format.inode_size
        ),
        (false, Mode::Unjournaled, 256)
    );
    let usual = ext("type = \"ext3\"");
    assert_eq!(
        (usual.format.journal, usual.mount),
        (true, nandlab_ext::Options::default())
    );
    let none = ext("type = \"ext4\"\nmode = \"none\"");
    assert_eq!(
        (none.format.journal, none.mount.mode),
        (false, Mode::Unjournaled)
    );
    assert!(take("type = \"ext3\"\nmode = \"none\"").is_err());
    assert!(take("type = \"ext4\"\nmode = \"none\"\njournal-size = \"4 MiB\"").is_err());
    let keys = "block = 4096\ninode-size = 128\njournal-size = \"8 MiB\"\nmode = \"journal\"\ncheckpoint = \"remap\"\ncommit-interval = \"1 s\"\nbarriers = false";
    let other = ext(&format!("type = \"ext3\"\n{keys}"));
    assert_eq!(
        (
            other.format.block,
            other.format.inode_size,
            other.journal_bytes
        ),
        (Some(4096), 128, Some(8 << 20))
    );
    assert_eq!(
        (other.mount.mode, other.mount.checkpoint),
        (Mode::Journal, Checkpoint::Remap)
    );
    assert_eq!(
        (other.mount.commit_interval, other.mount.barriers),
        (1_000_000_000, false)
    );
    let fast = ext("type = \"ext4\"\nfast-commit = true");
    assert!(fast.format.fast_commit && fast.mount.fast_commit);
    let delayed = ext("type = \"ext4\"\ndelayed-allocation = true");
    assert!(delayed.mount.delayed_allocation && !fast.mount.delayed_allocation);
    for mode in ["journal", "none"] {
        let refused = format!("type = \"ext4\"\nmode = \"{mode}\"\ndelayed-allocation = true");
        assert!(take(&refused).is_err(), "{mode}");
    }
}

#[test]
fn a_volume_of_ext_says_where_its_parts_are() {
    let fs = take("type = \"ext3\"\nsize = \"16 MiB\"\njournal-size = \"2 MiB\"")
        .unwrap()
        .unwrap();
    let mut disk = Ram::new(512, 40_000);
    make(&fs, &mut disk).unwrap();
    let mounted = mount(&fs, &mut disk);
    let parts = &mounted.parts;
    let of = |sector| parts.region(sector, &[], "files");
    let count = |region| (0..parts.sectors()).filter(|at| of(*at) == region).count();
    assert_eq!((parts.sectors(), parts.unit()), (32_768, 2));
    // Two groups of 8192 blocks, a bitmap of each kind in each, 4096 inodes of 256 bytes, a journal
    // of 2048 blocks.
    assert_eq!(count(Region::Bitmaps), 8);
    assert_eq!(count(Region::Inodes), 2048);
    assert_eq!(count(Region::Journal), 4096);
    assert!(count(Region::Super) >= 8);
    assert_eq!(of(2), Region::Super);
    assert_eq!(of(parts.sectors() - 1), Region::Clusters("files"));
    assert_eq!(of(parts.sectors()), Region::Outside);
}

#[test]
fn what_the_disk_does_not_allow_is_refused_when_it_is_known() {
    let refused = |text: &str| {
        let fs = take(text).unwrap().unwrap();
        make(&fs, &mut Ram::new(512, 40_000))
            .unwrap_err()
            .to_string()
    };
    let odd = refused("type = \"ext3\"\njournal-size = 1500");
    assert!(
        odd.contains("fs.journal-size: found 1500, expected whole blocks of 1024 bytes"),
        "{odd}"
    );
    assert!(
        refused("type = \"ext3\"\njournal-size = \"64 KiB\"")
            .contains("fs: mkfs: journal is 64, expected from 1024")
    );
    let fs = take("type = \"ext2\"").unwrap().unwrap();
    let mut disk = Ram::new(512, 40_000);
    make(&fs, &mut disk).unwrap();
    let machine = Machine {
        nvram: Some(Box::new(Ram::new(64, 100))),
        ..Machine::default()
    };
    let refused = fs
        .mount(Medium::Disk(Box::new(&mut disk)), machine)
        .err()
        .unwrap()
        .to_string();
    assert!(
        refused.starts_with("nvram.holds: found \"metadata\""),
        "{refused}"
    );
}

#[test]
fn every_choice_of_jffs2_arrives_and_what_is_made_is_mounted() {
    use nandlab_jffs2::{Choice, Compression};
    let keys = "compression = \"linux\"\ncompressor = \"size\"\nsummary = false\nsync-collects = false\nsync = true\nnode-bytes = \"64 KiB\"";
    let fs = take(&format!("type = \"jffs2\"\n{keys}")).unwrap().unwrap();
    let jffs2 = layer::<Jffs2Description>(&fs);
    let mount = nandlab_jffs2::Options {
        compression: Compression {
            choice: Choice::Size,
            ..Compression::LINUX
        },
        summary: false,
        sync_collects: false,
        sync: true,
        ..nandlab_jffs2::Options::default()
    };
    assert_eq!((jffs2.mount, jffs2.node_bytes), (mount, 65_536));
    assert!(
        fs.is_on_flash()
            && matches!(
                fs.make(Medium::Disk(Box::new(&mut Ram::new(512, 1000)))),
                Err(FsError::Medium { found: "jffs2", .. })
            )
    );
    let mut chip = nandlab_nand::Chip::new(
        nandlab_nand::preset::find("onenand-kfg1g16u2m")
            .unwrap()
            .spec(),
    )
    .unwrap();
    fs.make(Medium::Flash(Box::new(&mut chip))).unwrap();
    for round in 0..2 {
        let flash = Medium::Flash(Box::new(&mut chip));
        let mut mounted = fs.mount(flash, Machine::default()).unwrap().fs;
        let by = nandlab_vfs::Caller::root(nandlab_vfs::Time::new(0));
        assert_eq!(
            mounted.mkdir(Ino::ROOT, b"a", 0o755, by).is_ok(),
            round == 0
        );
        mounted.unmount().unwrap();
    }
}

#[test]
fn every_choice_of_f2fs_arrives_and_what_is_made_is_mounted() {
    use nandlab_f2fs::{InPlace, Options, Policy};
    let keys = "segments-per-section = 2\nlogs = 4\ninline-data = false\ninline-dentry = false\ndiscard = false\nroll-forward = false\nthreaded = false\nin-place = \"fsync\"\n\
                foreground = \"cost-benefit\"\nbackground = \"greedy\"\ncheckpoint-interval = \"1 s\"\ncleaning-interval = \"2 s\"\ncleaning-idle = \"3 s\"\nrequest = \"64 KiB\"\nordered = false";
    let fs = take(&format!("type = \"f2fs\"\n{keys}")).unwrap().unwrap();
    let f2fs = layer::<F2fsDescription>(&fs);
    let expected = Options {
        logs: 4,
        inline_data: false,
        inline_names: false,
        discard: false,
        roll_forward: false,
        threaded: false,
        in_place: InPlace::Fsync(8),
        foreground: Policy::CostBenefit,
        background: Policy::Greedy,
        checkpoint_interval: 1_000_000_000,
        cleaning_interval: 2_000_000_000,
        cleaning_idle: 3_000_000_000,
        request_bytes: 64 << 10,
        ordered: false,
        ..Options::default()
    };
    assert_eq!((f2fs.mount, f2fs.format.segs_per_sec), (expected, 2));
    let fs = take("type = \"f2fs\"").unwrap().unwrap();
    let mut disk = Ram::new(512, 128 << 11);
    make(&fs, &mut disk).unwrap();
    let mut mounted = mount(&fs, &mut disk);
    mounted
        .fs
        .mkdir(
            Ino::ROOT,
            b"a",
            0o755,
            nandlab_vfs::Caller::root(nandlab_vfs::Time::new(0)),
        )
        .unwrap();
    mounted.fs.unmount().unwrap();
    assert_eq!(mounted.parts.sectors(), 128 << 11);
}

#[test]
fn every_choice_of_ubifs_arrives_and_only_a_volume_takes_it() {
    let keys = "compr = \"zstd\"\ndouble-hash = true\nfanout = 16";
    let fs = take(&format!("type = \"ubifs\"\n{keys}")).unwrap().unwrap();
    let expected = nandlab_ubifs::Format {
        version: 5,
        compressor: 3,
        fanout: 16,
        ..nandlab_ubifs::Format::default()
    };
    assert_eq!(layer::<UbifsDescription>(&fs).format, expected);
    let spec = nandlab_nand::preset::find("slc-2k").unwrap().spec();
    let mut chip = nandlab_nand::Chip::new(spec).unwrap();
    let refused = fs.make(Medium::Flash(Box::new(&mut chip))).unwrap_err();
    let expected = "fs.type: found \"ubifs\", expected a file system for flash without UBI";
    assert!(refused.to_string().starts_with(expected), "{refused}");
    let refused = take("type = \"ubifs\"\nfanout = 2").unwrap_err();
    assert!(refused.contains("found 2, expected 3 to 256"), "{refused}");
    let refused = take("type = \"jffs2\"\ncompr = \"lzo\"").unwrap_err();
    assert!(refused.contains("it needs type = \"ubifs\""), "{refused}");
}
