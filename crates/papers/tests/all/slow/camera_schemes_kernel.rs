//! After Camera-MS500 on each translation layer, with metadata on flash and in NVRAM, the chip is
//! dumped and the dump attached anew: fsck.vfat and the real kernel's vfat accept the volume that
//! is read out through the layer, and every file has the sum that the calls say.
//!
//! Needs the tools of `nandlab-oracle`, and fsck.vfat (package dosfstools).

use nandlab_block::{BlockDevice as _, Lba};
use nandlab_lab::Experiment;
use nandlab_lab::play::{FileSum, expected_sums};
use nandlab_lab::run::run_files;
use nandlab_lab::workload::DescribedFiles as _;
use nandlab_oracle::{Disk, Manifest, Oracle, manifest::Kind};
use nandlab_stack::{Document, Stack};
use nandlab_testkit::share::whole_or;
use nandlab_workload::camera::{CameraMs500, CameraSpec};
use nandlab_workload::files::{Expected, FileCalls as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name, settings. The guest's disks have letters, so there are few enough of them.
const STACKS: [(&str, &[&str]); 9] = [
    ("nftl", &["ftl.scheme=nftl"]),
    (
        "nftl-nvram",
        &[
            "ftl.scheme=nftl",
            "ftl.ordering=linux",
            "chip.partial-programs=4",
            "nvram.holds=metadata",
        ],
    ),
    ("bast", &["ftl.scheme=bast"]),
    ("fast", &["ftl.scheme=fast", "fs.start-sector=31"]),
    ("fast-nvram", &["ftl.scheme=fast", "nvram.holds=metadata"]),
    ("sast", &["ftl.scheme=sast"]),
    ("page", &["ftl.scheme=page"]),
    ("mtdblock", &["ftl.scheme=mtdblock"]),
    (
        "bast-cache",
        &[
            "ftl.scheme=bast",
            "nvram.holds=writes",
            "nvram.policy=bplru",
        ],
    ),
];

/// The stacks that a test tries.
fn tried() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    STACKS.into_iter().step_by(whole_or(1, 4))
}

/// The camera of a sample takes photos of a fifth of the size.
const SMALLER: [&str; 3] = [
    "workload.photo-min=60 KiB",
    "workload.photo-max=100 KiB",
    "workload.total=16 MiB",
];

fn document(settings: &[&str], more: &str) -> Document {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers/ftl-study/table-1.toml");
    let photos: &[&str] = whole_or(&[], &SMALLER);
    let settings: Vec<String> = settings
        .iter()
        .chain(photos)
        .copied()
        .chain([more])
        .map(ToString::to_string)
        .collect();
    Document::read(&path, &settings).unwrap()
}

fn experiment(settings: &[&str], more: &str) -> Experiment {
    Experiment::take(document(settings, more)).unwrap()
}

/// Runs the camera, dumps the chip, attaches the dump, and reads the partition out.
fn image_after_the_camera(name: &str, settings: &[&str], scratch: &Path) -> (PathBuf, CameraSpec) {
    let dump = scratch.join(format!("{name}.nand"));
    let save = format!("chip.save={}", dump.display());
    let run = experiment(settings, &save);
    let mut section = document(settings, &save).section("workload");
    let camera = CameraSpec::take_checked(&mut section).unwrap();
    let camera = CameraSpec {
        seed: run.run.seed,
        ..camera
    };
    let files = run.workload.files().unwrap();
    run_files(&run, files, false, &mut |_| ()).unwrap_or_else(|error| panic!("{name}: {error}"));
    // What was in a memory is on the flash now: the dump needs none.
    let settings: Vec<&str> = settings
        .iter()
        .copied()
        .filter(|setting| !setting.starts_with("nvram."))
        .collect();
    let again = experiment(&settings, &format!("chip.load={}", dump.display()));
    let fs = again.stack.fs.clone().unwrap();
    let mut stack = Stack::build(&again.stack).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut partition = fs.partition(stack.disk().unwrap()).unwrap();
    let mut image = vec![0; partition.geometry().bytes() as usize];
    partition.read(Lba(0), &mut image).unwrap();
    std::fs::remove_file(&dump).unwrap();
    let path = scratch.join(format!("{name}.vfat"));
    std::fs::write(&path, image).unwrap();
    (path, camera)
}

fn expected(camera: &CameraSpec) -> Vec<FileSum> {
    let mut calls = CameraMs500::new(camera.clone()).unwrap();
    let mut expected = Expected::new(calls.contents());
    for call in calls.by_ref() {
        expected.apply(&call).unwrap();
    }
    let mut sums = expected_sums(&expected, &calls);
    sums.sort();
    sums
}

fn sums(found: &Manifest) -> Vec<FileSum> {
    let files = found.iter().filter_map(|(path, entry)| match &entry.kind {
        Kind::File { size, sha256 } => Some((
            path.strip_prefix(".").unwrap_or(path),
            *size,
            sha256.clone(),
        )),
        _ => None,
    });
    files
        .map(|(path, bytes, sha256)| FileSum {
            name: path.display().to_string(),
            bytes,
            sha256,
        })
        .collect()
}

fn assert_clean(name: &str, image: &Path) {
    let checked = Command::new("/usr/sbin/fsck.vfat")
        .arg("-nv")
        .arg(image)
        .output();
    let checked = checked.expect("fsck.vfat can be run; if it cannot: apt-get install dosfstools");
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{name}: {said}");
}

#[test]
fn fsck_and_the_kernel_accept_the_volume_on_every_scheme_and_all_files_are_there() {
    let scratch = tempfile::tempdir().unwrap();
    let mut guest = Oracle::ready()
        .unwrap_or_else(|missing| panic!("{missing}"))
        .guest();
    let mut script = "mp vfat; mp nls_cp437; mp nls_iso8859-1; mp nls_ascii\n".to_string();
    let mut wanted = Vec::new();
    for ((name, settings), letter) in tried().zip('a'..) {
        let (image, camera) = image_after_the_camera(name, settings, scratch.path());
        assert_clean(name, &image);
        wanted = expected(&camera);
        guest = guest.disk(Disk::File(image));
        script += &format!(
            "mount -r -t vfat /dev/vd{letter} /mnt && manifest /mnt {name} && umount /mnt || exit 1\n"
        );
    }
    assert!(wanted.len() > 40, "{} files", wanted.len());
    let report = guest
        .script(script)
        .run()
        .and_then(|report| report.success())
        .unwrap_or_else(|error| panic!("{error}"));
    for (name, _) in tried() {
        assert_eq!(sums(&report.manifests[name]), wanted, "{name}");
    }
}
