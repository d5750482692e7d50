//! `nandlab image`: everyday work on images from the command line, and what each exit status means.

use crate::command::Lab;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

const FORMATS: [&str; 5] = ["jffs2", "ext2", "ext3", "f2fs", "fat"];

/// A directory with some files.
fn lab() -> Lab {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("tree/dir/below")).unwrap();
    for (name, length) in [
        ("one", 1),
        ("page", 4096),
        ("dir/longer", 100_000),
        ("dir/below/last", 7),
    ] {
        let bytes: Vec<u8> = (0..length)
            .map(|at: u32| (at.wrapping_mul(at ^ 0x5BD1).wrapping_mul(2_654_435_761) >> 23) as u8)
            .collect();
        lab.write(&format!("tree/{name}"), &bytes);
    }
    fs::set_permissions(lab.path("tree/one"), fs::Permissions::from_mode(0o755)).unwrap();
    lab
}

#[test]
fn any_number_of_threads_extracts_the_same_tree() {
    let lab = lab();
    let run = |words: &[&str]| lab.exits(0, &[&["image"], words].concat()).0;
    for format in FORMATS {
        run(&["create", "-f", format, "i", "tree"]);
        run(&["extract", "i", "out"]);
        for threads in ["0", "1", "2", "3"] {
            run(&["extract", "--threads", threads, "i", "by-threads"]);
            assert_eq!(
                run(&["diff", "out", "by-threads"]),
                "",
                "{format}, {threads}"
            );
            fs::remove_dir_all(lab.path("by-threads")).unwrap();
        }
        fs::remove_dir_all(lab.path("out")).unwrap();
    }
}

#[test]
fn an_image_is_made_looked_into_changed_checked_and_extracted_in_every_format() {
    let lab = lab();
    for format in FORMATS {
        let run = |words: &[&str]| lab.exits(0, &[&["image"], words].concat()).0;
        run(&["create", "-f", format, "i", "tree"]);
        let before = fs::read(lab.path("i")).unwrap();
        let name = if format == "fat" {
            "FAT".into()
        } else if format.starts_with("ext") {
            format.into()
        } else {
            format.to_uppercase()
        };
        assert!(run(&["info", "i"]).contains(&name), "{format}");
        assert_eq!(
            lab.nandlab(&["image", "cat", "i", "/page", "dir/below/last"])
                .stdout
                .len(),
            4096 + 7,
            "{format}"
        );
        assert_eq!(run(&["check", "i"]), "sound\n", "{format}");
        assert!(run(&["ls", "-l", "-R", "i"]).contains("100000"), "{format}");
        assert!(
            run(&["stat", "--json", "i", "dir/longer"]).contains("\"size\":100000"),
            "{format}"
        );
        run(&["extract", "i", "out"]);
        let (out, err) = lab.exits(
            i32::from(format.starts_with("ext")),
            &[
                "image",
                "diff",
                "--ignore-times",
                "--ignore-owners",
                "tree",
                "out",
            ],
        );
        assert_eq!(
            out,
            if format.starts_with("ext") {
                "+ /lost+found\n"
            } else {
                ""
            },
            "{format}: {err}"
        );
        assert!(
            fs::read(lab.path("i")).unwrap() == before,
            "{format}: looking changed the image"
        );
        let grow: &[&str] = if format.starts_with("jffs2") {
            // It ends with its last node.
            let (_, said) = lab.exits(1, &["image", "put", "i", "tree/dir/longer", "/one"]);
            assert!(said.contains("too few erased blocks"), "{said}");
            assert!(fs::read(lab.path("i")).unwrap() == before, "{format}");
            &["--grow"]
        } else {
            &[]
        };
        let edit = |words: &[&str]| run(&[words, grow].concat());
        edit(&["mkdir", "-p", "i", "/new/deep"]);
        edit(&["put", "i", "tree/dir/longer", "/new/deep"]);
        edit(&["put", "i", "tree/page", "/one"]);
        edit(&["mv", "i", "/new/deep/longer", "/moved"]);
        edit(&["rm", "-r", "i", "/dir", "/new"]);
        assert_eq!(run(&["check", "i"]), "sound\n", "{format}");
        let listed = run(&["ls", "i"]);
        let names: Vec<&str> = listed
            .lines()
            .filter(|name| *name != "lost+found")
            .collect();
        assert_eq!(names, ["moved", "one", "page"], "{format}");
        assert_eq!(
            lab.nandlab(&["image", "cat", "i", "/moved"]).stdout,
            fs::read(lab.path("tree/dir/longer")).unwrap(),
            "{format}"
        );
        assert_eq!(
            lab.nandlab(&["image", "cat", "i", "/one"]).stdout,
            fs::read(lab.path("tree/page")).unwrap(),
            "{format}"
        );
        fs::remove_dir_all(lab.path("out")).unwrap();
    }
}

#[test]
fn a_check_says_what_it_did_not_look_at_and_what_it_cannot_read() {
    let lab = lab();
    lab.exits(0, &["image", "create", "-f", "ext3", "i", "tree"]);
    let mut bytes = fs::read(lab.path("i")).unwrap();
    // Encrypted files, in the superblock and in its copy.
    for at in [1024, 8193 * 1024] {
        bytes[at + 98] |= 0x01;
    }
    fs::write(lab.path("encrypted"), &bytes).unwrap();
    let (text, _) = lab.exits(2, &["image", "check", "encrypted"]);
    assert!(
        text.starts_with("not supported: superblock, byte 96"),
        "{text}"
    );
    let (text, _) = lab.exits(2, &["image", "check", "--json", "encrypted"]);
    assert!(
        text.starts_with("{\"verdict\":\"not supported\",\"findings\":[]"),
        "{text}"
    );
    // The node of UBIFS that its first block begins with.
    let mut node = vec![0; 4096];
    node[..4].copy_from_slice(&0x0610_1831u32.to_le_bytes());
    node[20] = 6;
    fs::write(lab.path("ubifs"), node).unwrap();
    let volumes = "[files]\nmode=ubi\nimage=i\nvol_id=0\nvol_type=dynamic\nvol_name=files\nvol_size=32MiB\n\
        [root]\nmode=ubi\nimage=ubifs\nvol_id=1\nvol_type=dynamic\nvol_name=root\nvol_size=1MiB\n";
    fs::write(lab.path("volumes.ini"), volumes).unwrap();
    lab.exits(
        0,
        &[
            "image",
            "ubinize",
            "u",
            "volumes.ini",
            "-p",
            "128KiB",
            "-m",
            "2048",
        ],
    );
    let (text, _) = lab.exits(3, &["image", "check", "u"]);
    let unseen = "\nnot looked at: UBIFS in volume 1 (root)\nnot looked at\n";
    assert!(text.ends_with(unseen), "{text}");
}

#[test]
fn the_blocks_of_a_volume_are_as_long_as_asked_for() {
    let lab = lab();
    for bytes in [1024, 2048, 4096] {
        lab.exits(
            0,
            &[
                "image",
                "create",
                "-f",
                "ext3",
                "--block-size",
                &bytes.to_string(),
                "i",
                "tree",
            ],
        );
        assert_eq!(
            1024 << fs::read(lab.path("i")).unwrap()[1024 + 24],
            bytes,
            "s_log_block_size"
        );
        assert_eq!(
            lab.exits(0, &["image", "check", "i"]).0,
            "sound\n",
            "{bytes}"
        );
    }
    lab.refuses(
        &[
            "image",
            "create",
            "-f",
            "ext2",
            "--block-size",
            "3000",
            "i",
            "tree",
        ],
        "3000, expected 1024, 2048 or 4096 bytes",
    );
    lab.refuses(
        &[
            "image",
            "create",
            "-f",
            "f2fs",
            "--block-size",
            "4096",
            "i",
            "tree",
        ],
        "--block-size",
    );
}

#[test]
fn of_an_image_that_ends_too_early_what_is_there_is_had() {
    let lab = lab();
    for format in ["ext3", "f2fs", "fat"] {
        let _ = lab.exits(0, &["image", "create", "-f", format, "i", "tree"]);
        let bytes = fs::read(lab.path("i")).unwrap();
        let longer = fs::read(lab.path("tree/dir/longer")).unwrap();
        let middle = bytes
            .windows(64)
            .position(|part| *part == longer[50_000..50_064])
            .unwrap()
            / 512
            * 512;
        lab.write("i", &bytes[..middle]);
        let lacks = format!("the image ends at byte {middle}, its file system at byte ");
        assert!(
            lab.exits(0, &["image", "info", "i"]).0.contains(&lacks),
            "{format}"
        );
        assert!(
            lab.exits(0, &["image", "ls", "-R", "i"])
                .0
                .contains("dir/longer"),
            "{format}"
        );
        lab.exits(0, &["image", "stat", "i", "dir/longer"]);
        let beyond = format!("byte {middle} lies beyond the end of the image");
        let (_, said) = lab.exits(1, &["image", "cat", "i", "dir/longer"]);
        assert!(said.contains(&beyond), "{format}: {said}");
        let (_, said) = lab.exits(1, &["image", "extract", "i", "out"]);
        assert!(
            said.contains(&lacks) && said.contains("--salvage") && said.contains(&beyond),
            "{format}: {said}"
        );
        let (said, _) = lab.exits(1, &["image", "check", "i"]);
        assert!(
            said.contains(&lacks) && said.contains(&beyond),
            "{format}: {said}"
        );
        let (said, _) = lab.exits(
            3,
            &["image", "extract", "--salvage", "--json", "i", "whole"],
        );
        assert!(
            said.contains(&format!("\"offset\":{middle},")),
            "{format}: {said}"
        );
        assert!(
            fs::read(lab.path("whole/dir/longer")).unwrap()[..40_000] == longer[..40_000],
            "{format}"
        );
        lab.refuses(&["image", "rm", "i", "/one"], &lacks);
        assert_eq!(
            fs::metadata(lab.path("i")).unwrap().len(),
            middle as u64,
            "{format}"
        );
        ["out", "whole"]
            .iter()
            .for_each(|dir| fs::remove_dir_all(lab.path(dir)).unwrap());
    }
}

#[test]
fn what_a_format_cannot_hold_names_the_entry_or_is_a_listed_loss() {
    let lab = lab();
    symlink("one", lab.path("tree/link")).unwrap();
    lab.refuses(
        &["image", "create", "-f", "fat", "i", "tree"],
        "/link: symbolic link's target is 3 bytes",
    );
    assert!(
        !lab.path("i").exists(),
        "nothing is there before the image is whole"
    );
    let (_, err) = lab.exits(3, &["image", "create", "--lossy", "-f", "fat", "i", "tree"]);
    assert!(err.contains("/link: ") && err.contains("left out"), "{err}");
    lab.exits(0, &["image", "cat", "i", "one"]);
}

#[test]
fn an_archive_and_a_manifest_carry_what_a_directory_cannot_hold() {
    let lab = lab();
    lab.write(
        "table",
        b"/dev d 755 0 0 - - - - -\n/dev/console c 600 0 5 5 1 - - -\n/one f 4755 1000 100\n",
    );
    lab.exits(
        0,
        &["image", "create", "-f", "jffs2", "-D", "table", "i", "tree"],
    );
    lab.exits(0, &["image", "extract", "i", "a.tar"]);
    lab.exits(0, &["image", "create", "-f", "f2fs", "j", "a.tar"]);
    lab.exits(0, &["image", "diff", "i", "j"]);
    lab.exits(0, &["image", "diff", "i", "a.tar"]);
    // As an ordinary user the device is not made in the directory, but reported; the manifest has
    // it.
    lab.nandlab(&["image", "extract", "--manifest", "list", "i", "out"]);
    lab.exits(
        0,
        &[
            "image", "create", "-f", "ext2", "--root", "out", "k", "list",
        ],
    );
    let (out, _) = lab.exits(1, &["image", "diff", "i", "k"]);
    assert_eq!(out, "+ /lost+found\n");
}

#[test]
fn damage_is_found_reported_and_worked_around() {
    let lab = lab();
    lab.exits(
        0,
        &[
            "image",
            "create",
            "-f",
            "jffs2",
            "--compress",
            "none",
            "i",
            "tree",
        ],
    );
    let mut bytes = fs::read(lab.path("i")).unwrap();
    let content = fs::read(lab.path("tree/dir/longer")).unwrap();
    let at = bytes
        .windows(64)
        .position(|window| window == &content[8192..8256])
        .unwrap();
    bytes[at] ^= 1;
    lab.write("i", &bytes);
    let (out, _) = lab.exits(1, &["image", "check", "i"]);
    assert!(out.contains("damage: byte 0x"), "{out}");
    // What cannot be read is an error unless a salvage is asked for.
    let (_, err) = lab.exits(1, &["image", "extract", "i", "first"]);
    assert!(err.contains("/dir/longer: input/output error"), "{err}");
    assert!(err.contains("checksum of the data of inode"), "{err}");
    let (_, err) = lab.exits(3, &["image", "extract", "--salvage", "i", "out"]);
    assert!(err.contains("checksum of the data"), "{err}");
    let saved = fs::read(lab.path("out/dir/longer")).unwrap();
    assert!(
        saved[..8192] == content[..8192]
            && saved[12288..] == content[12288..]
            && saved[8192..12288].iter().all(|byte| *byte == 0)
    );
    assert_eq!(
        fs::read(lab.path("out/page")).unwrap(),
        fs::read(lab.path("tree/page")).unwrap()
    );
}

#[test]
fn deleted_files_come_back_from_jffs2() {
    let lab = lab();
    lab.exits(0, &["image", "create", "-f", "jffs2", "i", "tree"]);
    lab.exits(0, &["image", "rm", "--grow", "i", "/dir/longer"]);
    let (out, _) = lab.exits(0, &["image", "history", "--deleted", "back", "i"]);
    let line = out
        .lines()
        .find(|line| line.starts_with("deleted: /dir/longer, inode "))
        .unwrap_or_else(|| panic!("{out}"));
    let ino = line
        .split_whitespace()
        .nth(3)
        .unwrap()
        .trim_end_matches(',');
    assert_eq!(
        fs::read(lab.path("back").join(ino)).unwrap(),
        fs::read(lab.path("tree/dir/longer")).unwrap()
    );
}

#[test]
fn dumps_with_spare_bytes_are_known_and_changed_into_others() {
    let lab = lab();
    for (page, oob, block) in [
        ("512", "16", "16K"),
        ("2K", "64", "128K"),
        ("4K", "128", "256K"),
    ] {
        lab.exits(
            0,
            &[
                "image", "create", "-f", "jffs2", "--page", page, "--oob", oob, "--block", block,
                "--size", "2M", "i", "tree",
            ],
        );
        let (out, _) = lab.exits(0, &["image", "info", "i"]);
        assert!(
            out.contains(&format!("+ {oob} spare")) && out.contains("JFFS2: little-endian, nand"),
            "{out}"
        );
        lab.exits(0, &["image", "diff", "--ignore-times", "i", "tree"]);
        lab.exits(3, &["image", "convert", "--to-oob", "0", "i", "flat"]);
        lab.exits(0, &["image", "diff", "i", "flat"]);
    }
    lab.exits(
        0,
        &[
            "image", "create", "-f", "jffs2", "--endian", "big", "big", "i",
        ],
    );
    lab.exits(0, &["image", "diff", "big", "i"]);
}

#[test]
fn a_dump_has_the_ecc_bytes_of_linux_unless_set_otherwise() {
    let lab = lab();
    let create = |more: &[&str]| {
        let words = [
            "image", "create", "-f", "jffs2", "--page", "2K", "--oob", "64", "i", "tree",
        ];
        lab.exits(0, &[&words[..], more].concat());
        let dump = fs::read(lab.path("i")).unwrap();
        dump[2048 + 12..2112].to_vec()
    };
    let erased = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0xFF);
    let hamming = create(&[]);
    assert!(erased(&hamming[..28]) && !erased(&hamming[28..]));
    assert_eq!(create(&["--ecc", "hamming"]), hamming);
    assert_ne!(create(&["--ecc", "hamming-smc"]), hamming);
    assert!(erased(&create(&["--ecc", "none"])));
    let bch = create(&["--ecc", "bch-8"]);
    assert!(!erased(&bch[..13]));
    assert_eq!(
        create(&["--ecc", "none", "--oob-layout", "marker-only"]),
        create(&["--oob-layout", "marker-only"])
    );
    let refused = |oob: &str, ecc: &str, refusal: &str| {
        let words = [
            "image", "create", "-f", "jffs2", "--page", "2K", "--oob", oob, "--ecc", ecc, "j",
            "tree",
        ];
        let (_, shown) = lab.exits(2, &words);
        assert!(shown.contains(refusal), "{shown}");
    };
    refused("64", "rs-4", "expected none, hamming, hamming-512");
    refused("64", "bch-70", "for 70 bits a step, expected 1 to 64");
    refused(
        "224",
        "hamming",
        "224 spare bytes behind pages of 2048, expected 8, 16, 64 or 128",
    );
    refused(
        "64",
        "bch-16",
        "more than 512 bytes with space for marker and ECC",
    );
}

#[test]
fn what_is_no_image_is_refused() {
    let lab = lab();
    lab.write("noise", &[0x5A; 100_000]);
    lab.refuses(&["image", "info", "noise"], "noise: no known format");
    lab.refuses(&["image", "ls", "nowhere"], "nowhere: No such file");
    lab.refuses(
        &["image", "create", "-f", "jffs2", "i", "noise"],
        "noise: byte 0: no header",
    );
    lab.exits(0, &["image", "create", "-f", "jffs2", "i", "tree"]);
    lab.exits(1, &["image", "cat", "i", "/not there"]);
    lab.exits(1, &["image", "rm", "--grow", "i", "/dir"]);
}

#[test]
fn a_name_that_cannot_be_shown_is_reported_and_never_leaves_the_target() {
    let lab = lab();
    // ext2 lists the name, so that a strict extraction stops; JFFS2 drops it from its lists.
    for (format, extracted) in [("ext2", 1), ("jffs2", 3)] {
        lab.exits(0, &["image", "create", "-f", format, "i", "tree"]);
        let mut image = fs::read(lab.path("i")).unwrap();
        if format == "jffs2" {
            slash_in_jffs2(&mut image);
        } else {
            let at = image.windows(4).position(|name| name == b"page").unwrap();
            image[at..at + 4].copy_from_slice(b"../z");
        }
        lab.write("i", &image);
        let (shown, _) = lab.exits(1, &["image", "check", "i"]);
        assert!(shown.contains("\"../z\""), "{format}: {shown}");
        for words in [&["ls", "i"][..], &["ls", "-R", "i"]] {
            let (listed, shown) = lab.exits(3, &[&["image"], words].concat());
            assert!(listed.contains("one\n"), "{format}: {listed}");
            assert!(shown.contains("../z"), "{format}: {shown}");
        }
        let (_, shown) = lab.exits(extracted, &["image", "extract", "i", "out"]);
        assert!(shown.contains("../z"), "{format}: {shown}");
        let (_, shown) = lab.exits(3, &["image", "extract", "--salvage", "i", "kept"]);
        assert!(shown.contains("../z"), "{format}: {shown}");
        assert!(!lab.path("z").exists(), "{format}");
        for target in ["out", "kept"] {
            _ = fs::remove_dir_all(lab.path(target));
        }
    }
}

/// Gives the file `page` the name `../z`, with the checksums that belong to it.
fn slash_in_jffs2(image: &mut [u8]) {
    let head = [0x85, 0x19, 0x01, 0xE0];
    let at = (0..image.len())
        .step_by(4)
        .find(|at| image[*at..].starts_with(&head) && image[at + 40..].starts_with(b"page"))
        .unwrap();
    image[at + 40..at + 44].copy_from_slice(b"../z");
    // CRC-32 without the inversions.
    let crc = image[at + 40..at + 44].iter().fold(0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            crc >> 1 ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    });
    image[at + 36..at + 40].copy_from_slice(&crc.to_le_bytes());
}
