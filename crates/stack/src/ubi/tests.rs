//! A volume in a stack keeps what is written.

use super::*;
use crate::{Below, Description, Direct, Stack};
use nandlab_block::Lba;
use nandlab_sim::Clock;
use nandlab_ubi::Attached;
use std::path::Path;

fn described(text: &str, directory: &Path) -> Result<Description, String> {
    let text = format!(
        "[chip]\npreset = \"slc-2k\"\nblocks = 96\noob-layout = \"linux-large-page-64\"\n{text}"
    );
    let mut document =
        Document::parse("e.toml", directory, &text, &[]).map_err(|e| e.to_string())?;
    let description = Description::take(&mut document).map_err(|e| e.to_string())?;
    document.finish().map_err(|e| e.to_string())?;
    Ok(description)
}

fn take(text: &str) -> Result<UbiDescription, String> {
    ubi(&described(text, Path::new(""))?)
}

/// UBI's options in a description.
fn ubi(description: &Description) -> Result<UbiDescription, String> {
    let layer = &description.ftl.layer;
    let options = format!("{:?}", layer.flash);
    let flash = layer.flash.clone().ok_or(layer.name)?;
    let any: &dyn std::any::Any = &*flash;
    any.downcast_ref().cloned().ok_or(options)
}

fn chip(stack: Stack) -> Chip {
    match stack.below {
        Below::Flash(chip) => *chip,
        Below::Disk(device) => device.into_medium(),
    }
}

#[test]
fn the_section_alone_makes_ubi_the_layer_and_linuxs_defaults_hold() {
    let usual = UbiDescription {
        options: Options::default(),
        volume: "data".into(),
        lebs: None,
        background: true,
    };
    assert_eq!(
        (
            take("[ubi]\n").unwrap(),
            take("[ftl]\nscheme = \"ubi\"\n").unwrap()
        ),
        (usual.clone(), usual)
    );
    assert_eq!(described("", Path::new("")).unwrap().ftl.layer.name, "page");
}

#[test]
fn every_choice_arrives() {
    let all = "[ubi]\nattach = \"ubil\"\nlog-blocks = 4\nincremental = true\nchained = true\nheaders = false\nwear-threshold = 64\nbad-per-1024 = 40\n\
               scrub-bits = 3\ntrust-free = true\nimage-seq = 9\nvolume = \"root\"\nvolume-size = \"1 MiB\"\nbackground = false\n";
    let log = LogOptions {
        blocks: 4,
        compress: false,
        superblock: Superblock::Chain,
        commit: Commit::Incremental,
    };
    let options = Options {
        headers: Headers::None,
        wear_threshold: 64,
        bad_per_1024: 40,
        scrub_bits: 3,
        trust_free: true,
        memory: Memory::Log(log),
        image_seq: 9,
        seeded_bug: None,
    };
    assert_eq!(
        take(all).unwrap(),
        UbiDescription {
            options,
            volume: "root".into(),
            lebs: Some(8),
            background: false
        }
    );
    let options = take("[ubi]\nattach = \"fastmap\"\nvid-header-offset = 2048\n")
        .unwrap()
        .options;
    assert_eq!(
        (options.memory, options.headers),
        (Memory::Fastmap, Headers::At(2048))
    );
}

#[test]
fn each_bad_value_is_refused_at_its_key() {
    let cases = [
        (
            "[ubi]\nattach = \"quick\"",
            "ubi.attach: found \"quick\", expected one of \"scan\", \"fastmap\", \"ubil\"",
        ),
        (
            "[ubi]\ncompressed = true",
            "ubi.compressed: has no effect, it needs attach = \"ubil\"",
        ),
        (
            "[ubi]\nattach = \"ubil\"\ncompressed = true\nincremental = true",
            "ubi.compressed: found true, expected false beside",
        ),
        (
            "[ubi]\nattach = \"ubil\"\nheaders = false\nvid-header-offset = 512",
            "ubi.vid-header-offset: found an offset, expected none",
        ),
        (
            "[ubi]\nvid-header-offset = 2044",
            "ubi.vid-header-offset: found",
        ),
        (
            "[ubi]\nvolume = \"\"",
            "ubi.volume: found \"\", expected a name of 1 to 127 bytes",
        ),
        (
            "[ubi]\nvolume-size = \"1 GiB\"",
            "ubi.volume-size: found 1073741824, expected 1 to 96 blocks of 129024 bytes",
        ),
        (
            "[ubi]\nwear-threshold = 1",
            "ubi.wear-threshold: found 1, expected 2 to 65536",
        ),
        (
            "[ftl]\nscheme = \"page\"\n[ubi]\nvolume = \"a\"",
            "ubi.volume: has no effect, it needs ftl.scheme = \"ubi\"",
        ),
        (
            "[fs]\ntype = \"jffs2\"\n[ftl]\nscheme = \"page\"",
            "ftl.scheme: found \"page\", expected \"none\" or \"ubi\"",
        ),
    ];
    for (text, expected) in cases {
        let error = take(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let dropped = take("contents = \"dropped\"\n[ubi]\n").unwrap_err();
    assert!(
        dropped.contains("ubi.attach: found chip.contents = \"dropped\""),
        "{dropped}"
    );
}

/// The ways to remember a scan.
const WAYS: [&str; 6] = [
    "attach = \"scan\"",
    "attach = \"fastmap\"",
    "attach = \"ubil\"",
    "attach = \"ubil\"\ncompressed = true",
    "attach = \"ubil\"\nheaders = false",
    "attach = \"ubil\"\nincremental = true\nchained = true",
];

#[test]
fn a_disk_on_a_volume_survives_a_dump_and_an_attach_of_its_own_kind() {
    for way in WAYS {
        let directory = tempfile::tempdir().unwrap();
        let description =
            |chip: &str| described(&format!("{chip}\n[ubi]\n{way}\n"), directory.path()).unwrap();
        let mut stack = Stack::build(&description("save = \"dump\"")).unwrap();
        (0..400u64).for_each(|i| {
            stack
                .disk()
                .unwrap()
                .write(Lba(i * 371 % 9000), &[i as u8; 512])
                .unwrap()
        });
        let chip = stack.close().unwrap();
        assert!(chip.counts().erases > 96, "{way}");
        let mut stack = Stack::build(&description("load = \"dump\"")).unwrap();
        let mut buf = [0; 512];
        for i in 0..400u64 {
            stack
                .disk()
                .unwrap()
                .read(Lba(i * 371 % 9000), &mut buf)
                .unwrap();
            assert_eq!(buf, [i as u8; 512], "{way}: {i}");
        }
        let other = described(
            &format!("load = \"dump\"\n[ubi]\nvolume = \"root\"\n{way}\n"),
            directory.path(),
        )
        .unwrap();
        let error = Stack::build(&other).map(|_| ()).unwrap_err().to_string();
        assert_eq!(
            error, "ubi.volume: found volumes \"data\", expected one that is called \"root\"",
            "{way}"
        );
    }
}

#[test]
fn a_volume_as_flash_is_attached_as_it_was_put_away() {
    for (way, expected) in WAYS.into_iter().zip([
        Attached::Scan,
        Attached::Fastmap,
        Attached::Log,
        Attached::Log,
        Attached::Log,
        Attached::Log,
    ]) {
        let description = described(
            &format!("[fs]\ntype = \"jffs2\"\n[ubi]\n{way}\n"),
            Path::new(""),
        )
        .unwrap();
        let ubi = ubi(&description).unwrap();
        let mut stack = Stack::build(&description).unwrap();
        stack.make_fs().unwrap();
        {
            let mut mounted = stack.mount(1, &mut Direct).unwrap().mounted;
            assert!(mounted.fs.statfs().unwrap().blocks > 0);
        }
        let volume = UbiFlash::new(&ubi, ubi.open(chip(stack), None).unwrap(), None).unwrap();
        assert_eq!(volume.look(|ubi| ubi.info().attached), expected, "{way}");
    }
}

#[test]
fn an_attach_takes_the_processors_time_too() {
    let description = described("[ubi]\n[host]\nplatform = \"omap2420\"\n", Path::new("")).unwrap();
    let ubi = ubi(&description).unwrap();
    let clock = Clock::new();
    let blank = crate::build::new_chip(&description.chip)
        .unwrap()
        .on_clock(&clock);
    let chip = ubi.make(blank).unwrap().detach().unwrap();
    let processor = description.host.clone().map(|host| Processor {
        host,
        clock: clock.clone(),
    });
    let [without, with] = [None, processor.as_ref()].map(|processor| {
        let chip = chip.fork().unwrap();
        let from = clock.now();
        let chip = chip.on_clock(&clock);
        let device = ubi.open(chip, processor).unwrap();
        (clock.now() - from, device.attach_cost())
    });
    let host = description.host.as_ref().unwrap();
    assert_eq!(
        (with.0 - without.0, with.1),
        (host.ubi_attach(&without.1), without.1)
    );
    assert!(without.0 >= 96 * 25_000 && with.0 > without.0 + 96 * 1000);
}
