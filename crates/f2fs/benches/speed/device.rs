//! Random writes of 4 KiB to a nearly full volume of 12 GB on a simulated eMMC, by seconds on the
//! wall.

use crate::cost::cost;
use nandlab_f2fs::{F2fs, Format, Options, format};
use nandlab_ftl::page::{PageFtl, PageOptions};
use nandlab_mtd::Geometry;
use nandlab_nand::{Chip, ChipSpec, preset};
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Time};

const FILES: u64 = 10;
const BYTES: u64 = 1 << 30;
const WRITES: u64 = 500_000;
const NOW: Time = Time::new(1_000_000_000);

pub fn table() {
    println!("\n| 12 GB volume on a simulated eMMC, 10 GiB in use | |\n|---|---:|");
    let spec = preset::find("emmc-16GiB").expect("a preset").spec();
    let geometry = Geometry {
        page: 4096,
        dies: 4,
        blocks: 12 << 10,
        ..spec.geometry
    };
    let chip = Chip::new(
        ChipSpec {
            geometry: Geometry {
                write_unit: 4096,
                ..geometry
            },
            ..spec
        }
        .in_superblocks(),
    )
    .expect("a possible chip");
    let mut disk = PageFtl::format(
        chip,
        PageOptions {
            streams: 7,
            ..PageOptions::default()
        },
    )
    .expect("room");
    format(
        &mut disk,
        &Format {
            segs_per_sec: 4,
            ..Format::default()
        },
    )
    .expect("room");
    let options = Options {
        request_bytes: 512 << 10,
        discard: false,
        ..Options::default()
    };
    let mut fs = F2fs::mount(disk, options).expect("a new volume");
    // Zeros, for which the chip takes no memory.
    let data = vec![0; 1 << 20];
    let mut files = Vec::new();
    let fill = cost(1, || {
        for number in 0..FILES {
            let name = format!("file{number}");
            let ino = fs
                .create(
                    Ino::ROOT,
                    name.as_bytes(),
                    NewNode::File,
                    0o644,
                    Caller::root(NOW),
                )
                .expect("room")
                .ino;
            (0..BYTES).step_by(data.len()).for_each(|at| {
                fs.write(ino, at, &data, NOW).expect("room");
            });
            files.push(ino);
        }
        fs.sync().expect("room");
    });
    println!(
        "| filled in order | {:.0} MB/s |",
        (FILES * BYTES) as f64 / 1e6 / fill.wall
    );
    let run = cost(1, || {
        for number in 0..WRITES {
            let word = nandlab_sim::mix(1, number);
            fs.write(
                files[(word % FILES) as usize],
                (word >> 8) % (BYTES / 4096) * 4096,
                &data[..4096],
                NOW,
            )
            .expect("room");
        }
        fs.sync().expect("room");
    });
    println!(
        "| random writes of 4 KiB | {:.0} a second |",
        WRITES as f64 / run.wall
    );
}
