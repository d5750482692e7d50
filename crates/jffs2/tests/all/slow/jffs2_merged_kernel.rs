//! Nodes of more than a page: what the real kernel's reader makes of them, and what its garbage
//! collector does to them.
//!
//! Needs the tools of `nandlab-oracle`, mtd-utils, and gcc with libc6-dev; fails naming the Debian
//! package that is missing.

use crate::common::{NAND, NOW, bytes, manifest, nand, read_only, text};
use crate::guest;
use nandlab_jffs2::{Choice, Compression, Format, Jffs2, Options, PAGE, format};
use nandlab_mtd::Image;
use nandlab_oracle::Disk;
use nandlab_oracle::manifest::differences;
use nandlab_testkit::share::whole_or;
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Sync, path, tree};
use std::collections::BTreeMap;
use std::fs;

const BLOCKS: u32 = 40;
/// Bytes of a file in one node: a page, some, and nearly an erase block.
const SPANS: [u32; 4] = [PAGE, 16 << 10, 64 << 10, 120 << 10];

/// Where nodes lie in their file, and what became of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// From a page's beginning to a page's end.
    Aligned,
    /// The file ends within a page, and was continued there later: the two nodes share it.
    Continued,
    /// Bytes in the middle of the node were written again.
    Overwritten,
}

const SHAPES: [(Shape, &str); 3] = [
    (Shape::Aligned, "aligned"),
    (Shape::Continued, "continued"),
    (Shape::Overwritten, "overwritten"),
];

/// The shapes that a test tries.
fn tried() -> impl Iterator<Item = (Shape, &'static str)> {
    SHAPES.into_iter().step_by(whole_or(1, 2))
}

/// All compressors; a sample has none and zlib.
fn compressors() -> impl Iterator<Item = (&'static str, Compression)> {
    let only = |lzo, zlib, rtime| Compression {
        choice: Choice::Priority,
        lzo,
        zlib,
        rtime,
    };
    let all = [
        ("none", Compression::NONE),
        ("lzo", only(true, false, false)),
        ("zlib", only(false, true, false)),
        ("rtime", only(false, false, true)),
    ];
    all.into_iter().step_by(whole_or(1, 2))
}

fn name(compressor: &str, span: u32) -> String {
    format!("{compressor}-{}", span >> 10)
}

/// A medium with a file for each compressor and each length of a node.
fn planted(shape: Shape) -> Image<Vec<u8>> {
    let mut medium = format(nand(NAND, BLOCKS), &Format::default()).unwrap();
    for (compressor, compression) in compressors() {
        let mut fs = Jffs2::mount(
            medium,
            Options {
                compression,
                ..Options::default()
            },
        )
        .unwrap();
        for span in SPANS {
            let by = Caller::root(NOW);
            let file = fs
                .create(
                    Ino::ROOT,
                    name(compressor, span).as_bytes(),
                    NewNode::File,
                    0o644,
                    by,
                )
                .unwrap()
                .ino;
            let data = if compressor == "none" {
                bytes(span.into(), 240 << 10)
            } else {
                text(span.into(), 240 << 10)
            };
            let first = if shape == Shape::Continued {
                data.len() / 2 + 1111
            } else {
                data.len()
            };
            fs.write_pages(file, 0, &data[..first], span, NOW).unwrap();
            match shape {
                Shape::Aligned => {}
                Shape::Continued => fs
                    .write_pages(file, first as u64, &data[first..], span, NOW)
                    .unwrap(),
                Shape::Overwritten => (0..data.len()).step_by(50_000).for_each(|at| {
                    assert_eq!(
                        fs.write(file, at as u64 + 1000, b"written again", NOW),
                        Ok(13)
                    );
                }),
            }
            fs.fsync(file, Sync::All).unwrap();
            fs.forget(file, 1);
        }
        fs.unmount().unwrap();
        medium = fs.into_mtd();
    }
    medium
}

/// Stops after BLOCKS erases, after ROUNDS turns, or when the collector gives up.
const COLLECT: &str = r#"
    collect() { # MTD KEY
        local before=$(erases) rounds=0
        mount -t jffs2 -o ro $1 /mnt && manifest /mnt $2-read && umount /mnt && mount -t jffs2 $1 /mnt && ls -lR /mnt >/dev/null || return 1
        while [ $(($(erases) - before)) -lt BLOCKS ] && [ $rounds -lt ROUNDS ] && [ -n "$(collector $1)" ]; do
            passes $1 20; rounds=$((rounds + 1))
        done
        say erased-$2 $(($(erases) - before)); say going-$2 $(collector $1)
        umount /mnt; nand_into $1 /tmp/dump && send $2-collected /tmp/dump
    }
"#;
/// The least erases of a collector that goes on.
fn least_erases() -> u32 {
    whole_or(20, 4)
}

/// What is left of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Left {
    /// Bytes that are what they were.
    same: usize,
    /// Bytes that are zeros instead.
    zeros: usize,
    /// Inodes in any other state.
    other: usize,
}

fn left(expected: &[u8], found: Option<&[u8]>) -> Left {
    let found = found.unwrap_or_default();
    let mut left = Left {
        other: expected.len().abs_diff(found.len()),
        ..Left::default()
    };
    for (was, is) in expected.iter().zip(found) {
        match *is {
            is if is == *was => left.same += 1,
            0 => left.zeros += 1,
            _ => left.other += 1,
        }
    }
    left
}

#[test]
fn the_kernel_reads_nodes_of_any_length_and_its_collector_keeps_only_those_of_a_page() {
    let scratch = tempfile::tempdir().unwrap();
    let media = tried().map(|(shape, name)| (name, planted(shape)));
    let mut machine = guest::guest("");
    let mut script = format!(
        "simulated {BLOCKS},{BLOCKS},{BLOCKS} erase && mp jffs2 || exit 1\n{}",
        COLLECT
            .replace("BLOCKS", &BLOCKS.to_string())
            .replace("ROUNDS", whole_or("80", "15"))
    );
    let mut images = BTreeMap::new();
    for (number, (disk, (name, medium))) in ["vda", "vdb", "vdc"].into_iter().zip(media).enumerate()
    {
        let image = medium.into_backing();
        fs::write(scratch.path().join(name), &image).unwrap();
        machine = machine.disk(Disk::File(scratch.path().join(name)));
        script +=
            &format!("nand_from mtd{number} /dev/{disk} && collect mtd{number} {name} || exit 1\n");
        images.insert(name, image);
    }
    let report = guest::boot(machine.script([guest::FUNCTIONS, &script].concat()));
    println!("{:?}", report.values);
    let said = |key: String| report.value(&key).unwrap_or_default().to_owned();
    for (shape, name_of) in tried() {
        let mut ours = read_only(Image::new(images[name_of].clone(), NAND).unwrap());
        assert_eq!(
            differences(
                &manifest(&mut ours),
                &report.manifests[&format!("{name_of}-read")]
            ),
            "",
            "{name_of}: the kernel reads everything"
        );
        let mut after = read_only(
            Image::new(report.files[&format!("{name_of}-collected")].clone(), NAND).unwrap(),
        );
        let mut lost = BTreeMap::new();
        for (compressor, _) in compressors() {
            for span in SPANS {
                let file = name(compressor, span);
                let [was, is] = [&mut ours, &mut after].map(|fs| contents(fs, &file));
                let left = left(&was.unwrap(), is.as_deref());
                println!("{name_of} {file}: {left:?}");
                assert_eq!(left.other, 0, "{name_of} {file}: nothing but holes");
                *lost.entry(span).or_insert(0) += left.zeros;
            }
        }
        assert_eq!(
            lost[&PAGE], 0,
            "{name_of}: nodes of a page are collected well"
        );
        let erased: u32 = said(format!("erased-{name_of}")).parse().unwrap();
        if shape == Shape::Overwritten {
            assert!(
                said(format!("going-{name_of}")).is_empty() && erased < least_erases(),
                "{name_of}: the collector has given up"
            );
        } else {
            assert!(erased >= least_erases(), "{name_of}: {erased} erases");
            assert!(
                SPANS[1..].iter().all(|span| lost[span] > 4 * PAGE as usize),
                "{name_of}: longer ones became holes: {lost:?}"
            );
        }
    }
}

fn contents(fs: &mut Jffs2<Image<Vec<u8>>>, name: &str) -> Option<Vec<u8>> {
    let ino = path::resolve(fs, name.as_bytes()).ok()?.ino;
    tree::contents(fs, ino).ok()
}
