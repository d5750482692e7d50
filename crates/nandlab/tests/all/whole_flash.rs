//! The whole flash of a device in one file: each range has a name, every verb works on it by that
//! name, and no byte outside the range ever changes.
//!
//! Needs squashfs-tools and u-boot-tools; fails saying so.

use crate::command::{Lab, SMALL};
use crate::common::noise;
use std::fs;
use std::ops::Range;
use std::process::Command;

const MIB: usize = 1 << 20;
const LEN: usize = 64 * MIB;
const ENV: Range<usize> = 512 << 10..576 << 10;
const KERNEL: usize = MIB;
const ROOT: usize = 4 * MIB;
const JFFS2: Range<usize> = 24 * MIB..40 * MIB;
const UBI: Range<usize> = 40 * MIB..LEN;
const VOLUMES: &str = "[root]\nmode=ubi\nimage=inner\nvol_id=0\nvol_size=8MiB\nvol_name=root\n\
    [data]\nmode=ubi\nimage=tree/longer\nvol_id=1\nvol_type=static\nvol_name=data\n";

fn tool(lab: &Lab, package: &str, words: &[&str]) {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(lab.path("."));
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}: apt-get install {package}", words[0]));
    let reported = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {reported}");
}

/// A loader of no known format, an environment, a kernel, squashfs, JFFS2 and UBI.
fn flash() -> Lab {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("tree/dir")).unwrap();
    lab.write("tree/longer", &noise(300_000));
    for number in 1..40 {
        lab.write(&format!("tree/dir/{number}"), &noise(number * 97));
    }
    let image = |words: &[&str]| lab.exits(0, &[&["image"], words].concat());
    image(&["create", "jffs2", "tree", "-f", "jffs2", "--block", "64K"]);
    image(&["create", "inner", "tree", "-f", "ext2"]);
    lab.write("volumes.ini", VOLUMES.as_bytes());
    image(&[
        "ubinize",
        "ubi",
        "volumes.ini",
        "-p",
        "128K",
        "-m",
        "2048",
        "-Q",
        "77",
    ]);
    let squash = [
        "mksquashfs",
        "tree",
        "root",
        "-quiet",
        "-no-progress",
        "-comp",
        "xz",
    ];
    tool(&lab, "squashfs-tools", &squash);
    lab.write("code", &noise(200_000));
    let kernel = [
        "-A",
        "arm",
        "-O",
        "linux",
        "-T",
        "kernel",
        "-C",
        "none",
        "-n",
        "Linux-6.1",
    ];
    let files = ["-a", "8000", "-e", "8000", "-d", "code", "kernel"];
    tool(
        &lab,
        "u-boot-tools",
        &[&["mkimage"][..], &kernel, &files].concat(),
    );
    lab.write("env.txt", b"bootcmd=run all\nbootdelay=3\n");
    let env = ["mkenvimage", "-s", "0x10000", "-o", "env", "env.txt"];
    tool(&lab, "u-boot-tools", &env);

    let mut bytes = vec![0xFF; LEN];
    let mut put = |at: usize, name: &str| {
        let part = fs::read(lab.path(name)).unwrap();
        bytes[at..at + part.len()].copy_from_slice(&part);
    };
    put(ENV.start, "env");
    put(KERNEL, "kernel");
    put(ROOT, "root");
    put(JFFS2.start, "jffs2");
    put(UBI.start, "ubi");
    let loader: Vec<u8> = noise(300_000).iter().map(|byte| byte | 1).collect();
    bytes[..loader.len()].copy_from_slice(&loader);
    lab.write("flash", &bytes);
    lab
}

#[test]
fn each_range_of_a_whole_flash_is_named_and_taken_out_by_its_name() {
    let lab = flash();
    let (table, _) = lab.exits(0, &["image", "info", "flash"]);
    let rows: Vec<(&str, &str)> = table
        .lines()
        .map(|line| {
            let (place, rest) = line.split_once(' ').unwrap();
            (
                place.split_once('-').unwrap().0,
                rest.split(' ').next().unwrap(),
            )
        })
        .filter(|(_, name)| !name.contains('@'))
        .collect();
    let expected = [
        ("0x0000080000", "u-boot-environment"),
        ("0x0000100000", "u-boot-image"),
        ("0x0000400000", "squashfs"),
        ("0x0001800000", "jffs2"),
        ("0x0002800000", "ubi"),
    ];
    assert_eq!(rows, expected, "{table}");
    assert!(table.contains("Linux ARM kernel, \"Linux-6.1\""), "{table}");
    for (name, file) in [("u-boot-environment", "env"), ("u-boot-image", "kernel")] {
        lab.exits(
            0,
            &[
                "image",
                "extract",
                "--raw",
                "--partition",
                name,
                "flash",
                "out",
            ],
        );
        let out = fs::read(lab.path("out")).unwrap();
        assert!(out == fs::read(lab.path(file)).unwrap(), "{name}");
    }
    let (_, said) = lab.exits(2, &["image", "ls", "flash"]);
    assert!(
        said.contains("by --partition: squashfs, jffs2, ubi"),
        "{said}"
    );
    let (_, said) = lab.exits(2, &["image", "ls", "--partition", "u-boot-image", "flash"]);
    assert!(
        said.contains("expected a range with a file system or flash"),
        "{said}"
    );
}

#[test]
fn every_verb_that_reads_works_on_a_range_of_a_whole_flash() {
    let lab = flash();
    let before = fs::read(lab.path("flash")).unwrap();
    for name in ["squashfs", "jffs2", "ubi"] {
        let on = |verb: &[&str], rest: &[&str]| {
            let words = [&["image"], verb, &["--partition", name, "flash"], rest].concat();
            lab.exits(0, &words).0
        };
        assert!(
            on(&["info"], &[]).contains("flash: ") || name == "squashfs",
            "{name}"
        );
        assert!(on(&["ls", "-R"], &[]).contains("dir/39"), "{name}");
        assert!(
            on(&["stat"], &["/longer"]).contains("300000 bytes"),
            "{name}"
        );
        assert_eq!(on(&["check"], &[]).lines().last(), Some("sound"), "{name}");
        let cat = lab.nandlab(&["image", "cat", "--partition", name, "flash", "/longer"]);
        assert!(cat.stdout == noise(300_000), "{name}");
        let out = format!("out-{name}");
        on(&["extract"], &[&out]);
        let diff = [
            "image",
            "diff",
            "--ignore-times",
            "--ignore-owners",
            "tree",
            &out,
        ];
        let found = String::from_utf8(lab.nandlab(&diff).stdout).unwrap();
        assert!(
            found.is_empty() || found == "+ /lost+found\n",
            "{name}: {found}"
        );
        on(&["dump"], &[]);
    }
    let (history, _) = lab.exits(0, &["image", "history", "--partition", "jffs2", "flash"]);
    assert!(history.contains("/longer"), "{history}");
    assert!(
        fs::read(lab.path("flash")).unwrap() == before,
        "reading changed the image"
    );
}

#[test]
fn edits_of_a_range_change_no_byte_outside_it() {
    let lab = flash();
    let old = fs::read(lab.path("flash")).unwrap();
    for (name, range) in [("jffs2", JFFS2), ("ubi", UBI)] {
        let on = |verb: &[&str], rest: &[&str]| {
            let words = [&["image"], verb, &["--partition", name, "flash"], rest].concat();
            lab.exits(0, &words).0
        };
        let before = fs::read(lab.path("flash")).unwrap();
        on(&["put"], &["tree/longer", "/new"]);
        on(&["mkdir", "-p"], &["/a/b"]);
        on(&["mv"], &["/new", "/a/b/new"]);
        on(&["rm", "-r"], &["/dir"]);
        assert_eq!(on(&["check"], &[]).lines().last(), Some("sound"), "{name}");
        let listed = on(&["ls", "-R"], &[]);
        assert!(
            listed.contains("a/b/new") && !listed.contains("dir/1"),
            "{listed}"
        );
        let after = fs::read(lab.path("flash")).unwrap();
        assert_eq!(after.len(), before.len());
        assert!(after[..range.start] == before[..range.start], "{name}");
        assert!(after[range.end..] == before[range.end..], "{name}");
        assert!(after[range.clone()] != before[range], "{name}");
    }
    assert!(fs::read(lab.path("flash")).unwrap()[..JFFS2.start] == old[..JFFS2.start]);
    let grown = [
        "image",
        "put",
        "--grow",
        "--partition",
        "jffs2",
        "flash",
        "env",
        "/e",
    ];
    lab.refuses(&grown, "what lies behind a range stays where it is");
    lab.refuses(
        &[
            "image",
            "put",
            "--partition",
            "squashfs",
            "flash",
            "env",
            "/e",
        ],
        "squashfs",
    );
}

#[test]
fn a_partition_table_of_linux_names_the_ranges() {
    let lab = flash();
    let table =
        "mtdparts=spi0:512k(loader)ro,64k(env),448k(gap),3m(kernel),20m(root),16m(data),-(u)";
    let with = |words: &[&'static str]| [&["image"], words, &["--mtdparts", table]].concat();
    let (info, _) = lab.exits(0, &with(&["info", "flash"]));
    let names: Vec<&str> = info
        .lines()
        .map(|line| line.split(' ').nth(1).unwrap())
        .collect();
    let expected = ["loader", "env", "gap", "kernel", "root", "data", "u"];
    assert_eq!(names, expected, "{info}");
    let (listed, _) = lab.exits(0, &with(&["ls", "--partition", "data", "flash"]));
    assert_eq!(listed, "dir\nlonger\n");
    let (said, _) = lab.exits(0, &with(&["check", "--partition", "u", "flash"]));
    assert!(said.ends_with("sound\n"), "{said}");
    lab.refuses(
        &with(&["ls", "--partition", "rootfs", "flash"]),
        "expected one of loader, env, gap, kernel, root, data, u",
    );
    let at = ["--offset", "24M", "--length", "16M"];
    let (by_bytes, _) = lab.exits(0, &[&["image", "ls", "flash"], &at[..]].concat());
    assert_eq!(by_bytes, listed);
    lab.refuses(
        &["image", "ls", "flash", "--offset", "65M"],
        "expected 1 to 67108864 bytes within the image",
    );
}

#[test]
fn a_saved_chip_is_known_with_its_layer_and_file_system() {
    for (scheme, layer) in [
        ("page", "page mapping"),
        ("bast", "log blocks"),
        ("fast", "log blocks"),
    ] {
        let lab = Lab::new();
        let description = format!(
            "[experiment]\nname = \"saved\"\n{SMALL}save = \"chip\"\n[ftl]\nscheme = \"{scheme}\"\n\
             [fs]\ntype = \"ext2\"\n[workload]\ntype = \"camera-ms500\"\nphotos = 6\ndeletes = 3\n\
             transactions = 2\nphoto-min = \"50 KiB\"\nphoto-max = \"100 KiB\"\n\
             total = \"900 KiB\"\ndelete-all-above = 9\n"
        );
        lab.write("saved.toml", description.as_bytes());
        lab.exits(0, &["run", "saved.toml"]);
        let (info, _) = lab.exits(0, &["image", "info", "chip"]);
        assert!(
            info.contains(layer) && info.contains("ext2: "),
            "{scheme}: {info}"
        );
        assert!(
            info.contains("pages of 2048 + 64 spare"),
            "{scheme}: {info}"
        );
        let (said, _) = lab.exits(0, &["image", "check", "chip"]);
        assert!(said.ends_with("sound\n"), "{scheme}: {said}");
        lab.refuses(
            &["image", "mkdir", "chip", "/new"],
            "nandlab image only reads it",
        );
    }
}
