//! Calls on a volume of a disk in memory; each part ends with a sync.

use crate::cost::cost;
use nandlab_block::Ram;
use nandlab_f2fs::{F2fs, Format, Options, format};
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Sync, Time};

const ROUNDS: u32 = 3;
const FILES: u32 = 20_000;
const FSYNCS: u32 = 20_000;
const LARGE: u64 = 256 << 20;
const CALL: usize = 64 << 10;
const OVERWRITES: u64 = 65_536;
const NOW: Time = Time::new(1_000_000_000);

type Fs = F2fs<Ram>;

fn volume() -> Fs {
    let mut disk = Ram::new(512, (1 << 30) / 512);
    format(&mut disk, &Format::default()).expect("room");
    let options =
        Options { cache_bytes: 512 << 20, waiting_bytes_max: 64 << 20, request_bytes: 512 << 10, ordered: false, ..Options::default() };
    F2fs::mount(disk, options).expect("a new volume")
}

fn create(fs: &mut Fs, name: &str) -> Ino {
    fs.create(Ino::ROOT, name.as_bytes(), NewNode::File, 0o644, Caller::root(NOW)).expect("room").ino
}

/// Prepares a volume, then measures what is done to it.
fn part(name: &str, unit: &str, amount: f64, before: impl Fn(&mut Fs), run: impl Fn(&mut Fs)) {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let mut fs = volume();
        before(&mut fs);
        fs.sync().expect("room");
        best = best.min(
            cost(1, || {
                run(&mut fs);
                fs.sync().expect("room");
            })
            .wall,
        );
    }
    println!("| {name} | {:.0} {unit} |", amount / best);
}

/// Prints a line for each.
pub fn table() {
    println!("\n| on a disk in memory | ours |\n|---|---:|");
    let data = vec![0x5a; CALL];
    let names: Vec<String> = (0..FILES).map(|number| format!("file{number}")).collect();
    let all = |fs: &mut Fs| {
        names.iter().for_each(|name| {
            let ino = create(fs, name);
            fs.write(ino, 0, &data[..4096], NOW).expect("room");
            fs.forget(ino, 1);
        })
    };
    part("create files of 4 KiB", "files/s", FILES.into(), |_| (), all);
    part("look names up", "names/s", FILES.into(), all, |fs| {
        names.iter().for_each(|name| {
            let ino = fs.lookup(Ino::ROOT, name.as_bytes()).expect("it is there").ino;
            fs.forget(ino, 1);
        })
    });
    part("remove files", "files/s", FILES.into(), all, |fs| {
        names.iter().for_each(|name| fs.unlink(Ino::ROOT, name.as_bytes(), NOW).expect("it is there"))
    });
    part(
        "append 4 KiB and fsync",
        "calls/s",
        FSYNCS.into(),
        |_| (),
        |fs| {
            let ino = create(fs, "log");
            for number in 0..u64::from(FSYNCS) {
                fs.write(ino, number * 4096, &data[..4096], NOW).expect("room");
                fs.fsync(ino, Sync::All).expect("room");
            }
        },
    );
    let whole = |fs: &mut Fs| {
        let ino = create(fs, "large");
        (0..LARGE).step_by(CALL).for_each(|at| {
            fs.write(ino, at, &data, NOW).expect("room");
        });
    };
    let open = |fs: &mut Fs| fs.lookup(Ino::ROOT, b"large").expect("it is there").ino;
    part("write in order, 64 KiB calls", "MB/s", LARGE as f64 / 1e6, |_| (), whole);
    part("overwrite 4 KiB at random", "calls/s", OVERWRITES as f64, whole, |fs| {
        let ino = open(fs);
        (0..OVERWRITES).for_each(|number| {
            fs.write(ino, nandlab_sim::mix(1, number) % (LARGE / 4096) * 4096, &data[..4096], NOW).expect("room");
        });
    });
    part("read in order, 64 KiB calls, cached", "MB/s", LARGE as f64 / 1e6, whole, |fs| {
        let (ino, mut buffer) = (open(fs), vec![0; CALL]);
        (0..LARGE).step_by(CALL).for_each(|at| {
            fs.read(ino, at, &mut buffer).expect("it is there");
        });
    });
}
