//! The paper's volume with the camera's photos on it, taken by our file system, everything that
//! reached the disk on tape.

use nandlab_block::{BlockDevice, Event, Lba, Nvram, Op, Ram, Request, Tracer};
use nandlab_fat::{Bits, Fat, Format, Layout, Options, format};
use nandlab_lab::play::{FileSum, Moment, Played, expected_sums, play, regions::Writes, verify};
use nandlab_sim::Rail;
use nandlab_vfs::{FileSystem, Ino, Time};
use nandlab_workload::camera::{CameraMs500, CameraSpec, INDEX};
use nandlab_workload::files::{Expected, FileCall, FileCalls};
use std::sync::{Arc, Mutex};

/// Sectors of the partition: 32 MB.
pub const SECTORS: u64 = 65_536;
/// Clusters that hold photos, in tables of regions.
pub const PHOTOS: &str = "photos";
/// Clusters that hold the index.
pub const ALBUM_INDEX: &str = "index";

/// A FAT16 volume on the whole partition, everything as close together as it goes.
pub fn volume(cluster_sectors: u32) -> (Ram, Layout) {
    let mut disk = Ram::new(512, SECTORS);
    let choices = Format {
        bits: Some(Bits::Fat16),
        cluster_sectors: Some(cluster_sectors),
        align: false,
        ..Format::default()
    };
    let layout = format(&mut disk, &choices).unwrap();
    (disk, layout)
}

/// Linux writes in this way: the steps of a commit do not wait for each other.
fn as_linux() -> Options {
    Options {
        barriers: false,
        ..Options::default()
    }
}

/// The writes and flushes that a disk served, and whose clusters were written.
#[derive(Clone, Default)]
pub struct Tape(Arc<Mutex<Reel>>);

#[derive(Default)]
struct Reel {
    /// Whose clusters are written now.
    whose: &'static str,
    requests: Vec<(Request, &'static str)>,
}

impl Tape {
    /// `disk`, everything on this tape from now on.
    pub fn record<D: BlockDevice>(&self, disk: D) -> Tracer<D, impl FnMut(&Event) + Send + use<D>> {
        let tape = self.clone();
        Tracer::new(disk, move |event| {
            if event.request.op != Op::Read {
                assert_eq!(event.outcome, Ok(()));
                let mut reel = tape.0.lock().unwrap();
                let whose = reel.whose;
                reel.requests.push((event.request, whose));
            }
        })
    }

    /// Clusters that are written from now on are of this.
    fn label(&self, whose: &'static str) {
        self.0.lock().unwrap().whose = whose;
    }

    /// Every sector written, in order, and whose it is if it lies in a cluster.
    pub fn sectors(&self) -> Vec<(u64, &'static str)> {
        let reel = self.0.lock().unwrap();
        let writes = reel
            .requests
            .iter()
            .filter(|(request, _)| request.op == Op::Write);
        writes
            .flat_map(|(request, whose)| {
                (request.lba.0..request.lba.0 + request.sectors).map(move |sector| (sector, *whose))
            })
            .collect()
    }

    /// How many sectors were written before each flush, since the one before.
    pub fn stretches(&self) -> Vec<usize> {
        let reel = self.0.lock().unwrap();
        let until = reel.requests.split(|(request, _)| request.op == Op::Flush);
        until
            .map(|stretch| {
                stretch
                    .iter()
                    .map(|(request, _)| request.sectors as usize)
                    .sum()
            })
            .collect()
    }

    /// How many requests there were of a kind.
    pub fn count(&self, op: Op) -> u64 {
        self.0
            .lock()
            .unwrap()
            .requests
            .iter()
            .filter(|(request, _)| request.op == op)
            .count() as u64
    }
}

pub fn regions(layout: Layout, sectors: &[(u64, &'static str)]) -> Writes {
    let mut writes = Writes::new(std::sync::Arc::new(layout));
    sectors
        .iter()
        .for_each(|(sector, whose)| writes.write(*sector, 1, whose));
    writes
}

/// What is left of a camera's life.
pub struct Album {
    pub disk: Ram,
    pub layout: Layout,
    pub tape: Tape,
    pub played: Played,
    /// What must be found, derived from the calls alone.
    pub sums: Vec<FileSum>,
    expected: Expected,
    camera: CameraMs500,
}

impl Album {
    /// The camera's life on our file system, from mount to unmount.
    pub fn shoot((disk, layout): (Ram, Layout), spec: &CameraSpec) -> Self {
        let tape = Tape::default();
        let fat = Fat::mount(tape.record(disk), as_linux()).unwrap();
        Self::live(fat, layout, tape, spec)
    }

    /// The same with the paper's 128 KB of memory for metadata.
    pub fn shoot_with_nvram((disk, layout): (Ram, Layout), spec: &CameraSpec) -> Self {
        let tape = Tape::default();
        let memory = Nvram::new(512, 256, Rail::new());
        let fat = Fat::mount_with_nvram(tape.record(disk), memory, as_linux()).unwrap();
        Self::live(fat, layout, tape, spec)
    }

    /// A second passes every hundred calls.
    fn live<S: FnMut(&Event), N: BlockDevice>(
        mut fat: Fat<Tracer<Ram, S>, N>,
        layout: Layout,
        tape: Tape,
        spec: &CameraSpec,
    ) -> Self {
        let mut camera = CameraMs500::new(spec.clone()).unwrap();
        let mut calls = 0;
        let mut expected = Expected::new(camera.contents());
        let mut now = || {
            calls += 1;
            Time::new(1_000_000_000 + calls / 100)
        };
        let mut look = |moment, call: &FileCall| match moment {
            Moment::Before => tape.label(if call.file() == Some(INDEX) {
                ALBUM_INDEX
            } else {
                PHOTOS
            }),
            Moment::After => expected.apply(call).unwrap(),
        };
        let played = play(&mut fat, &mut camera, &mut now, &mut look)
            .unwrap_or_else(|error| panic!("{error}"));
        fat.unmount().unwrap();
        let disk = fat.into_parts().0.into_inner();
        let sums = expected_sums(&expected, &camera);
        Self {
            disk,
            layout,
            tape,
            played,
            sums,
            expected,
            camera,
        }
    }

    /// What was written, by region.
    pub fn writes(&self) -> Writes {
        regions(self.layout, &self.tape.sectors())
    }

    /// Every file is on the disk, byte for byte, and nothing else, and our check finds nothing.
    pub fn assert_found(&self, disk: impl BlockDevice) {
        let mut fat = Fat::mount(
            disk,
            Options {
                read_only: true,
                ..Options::default()
            },
        )
        .unwrap();
        let found = verify(&mut fat, Ino::ROOT, &self.expected, &self.camera)
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found, self.sums);
        let report = fat.check().unwrap();
        assert_eq!((report.findings.as_slice(), report.more), (&[][..], 0));
    }
}

/// Everything on a disk.
pub fn image(disk: &mut dyn BlockDevice) -> Vec<u8> {
    let mut image = vec![0; disk.geometry().bytes() as usize];
    disk.read(Lba(0), &mut image).unwrap();
    image
}
