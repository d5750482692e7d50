//! The kernel's code as a program, and Python's `bchlib`.

use crate::steps::{Steps, Work};
use nandlab_ecc::Code;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "linux-source-6.1";
const BCHLIB: &str = "bchlib==2.1.3";
/// Headers that the kernel's files include and programs lack; ours has what they need of them.
const HEADERS: [&str; 7] = [
    "linux/kernel.h",
    "linux/init.h",
    "linux/module.h",
    "linux/slab.h",
    "linux/bitops.h",
    "linux/bitrev.h",
    "asm/byteorder.h",
];

pub struct Peers {
    kernel: PathBuf,
    python: PathBuf,
}

impl Peers {
    /// Finds or makes both below the target directory.
    pub fn ready() -> Self {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ecc-peers");
        fs::create_dir_all(&place).expect("a directory");
        Self {
            kernel: kernel(&place),
            python: python(&place),
        }
    }

    /// Nanoseconds a step of the kernel's code.
    pub fn kernel(&self, steps: &Steps, file: &Path) -> f64 {
        time(Command::new(&self.kernel).args(words(steps)).arg(file))
    }

    /// Nanoseconds a step of `bchlib`, which has no Hamming code.
    pub fn bchlib(&self, steps: &Steps, file: &Path) -> Option<f64> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/beside/python.py");
        let bch = matches!(steps.code, Code::Bch { .. });
        bch.then(|| {
            time(
                Command::new(&self.python)
                    .arg(script)
                    .args(words(steps))
                    .arg(file),
            )
        })
    }
}

fn words(steps: &Steps) -> [String; 2] {
    let code = match steps.code {
        Code::Hamming { .. } => "hamming".into(),
        Code::Bch { strength, .. } => strength.to_string(),
    };
    let work = match steps.work {
        Work::Encode => "encode",
        Work::Correct => "correct",
    };
    [code, work.into()]
}

fn time(command: &mut Command) -> f64 {
    let output = command.output().expect("a program that was just made");
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {reported}");
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().expect("nanoseconds")
}

fn run(command: &mut Command, hint: &str) {
    let status = command
        .status()
        .unwrap_or_else(|error| panic!("{command:?}: {error}: {hint}"));
    assert!(status.success(), "{command:?}: {status}: {hint}");
}

fn python(place: &Path) -> PathBuf {
    let venv = place.join("venv");
    if !venv.join("ready").exists() {
        let hint = "apt-get install python3-venv";
        run(
            Command::new("python3").args(["-m", "venv"]).arg(&venv),
            hint,
        );
        let pip = venv.join("bin/pip");
        run(
            Command::new(pip).args(["install", "--quiet", BCHLIB]),
            "needs PyPI",
        );
        fs::write(venv.join("ready"), "").expect("a file");
    }
    venv.join("bin/python")
}

/// The kernel's code and ours around it, compiled.
fn kernel(place: &Path) -> PathBuf {
    let source = place.join("source");
    if !source.join("hamming.c").exists() {
        take_out(place, &source);
    }
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/beside");
    let program = place.join("kernel");
    run(
        Command::new("gcc")
            .args(["-O2", "-fno-strict-aliasing", "-w", "-std=gnu11", "-I"])
            .arg(ours.join("shim"))
            .arg("-I")
            .arg(&source)
            .arg("-o")
            .arg(&program)
            .arg(ours.join("kernel.c")),
        "apt-get install gcc libc6-dev",
    );
    program
}

/// Takes the kernel's files out of Debian's package.
fn take_out(place: &Path, source: &Path) {
    let download = place.join("download");
    fs::create_dir_all(&download).expect("a directory");
    run(
        Command::new("apt-get")
            .args(["download", PACKAGE])
            .current_dir(&download),
        "apt-get update",
    );
    let package = fs::read_dir(&download)
        .expect("a directory")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .expect("the package");
    run(
        Command::new("dpkg").arg("-x").arg(package).arg(&download),
        "needs dpkg",
    );
    let files = [
        "lib/bch.c",
        "include/linux/bch.h",
        "drivers/mtd/nand/ecc-sw-hamming.c",
    ];
    let archive = download.join(format!("usr/src/{PACKAGE}.tar.xz"));
    run(
        Command::new("tar")
            .arg("-xJf")
            .arg(archive)
            .arg("-C")
            .arg(&download)
            .args(files.map(|file| format!("{PACKAGE}/{file}"))),
        "apt-get install xz-utils",
    );
    let [bch, header, hamming] = files.map(|file| {
        fs::read_to_string(download.join(PACKAGE).join(file)).expect("a file of the kernel")
    });
    let write = |name: &str, text: &str| {
        let path = source.join(name);
        let folder = path.parent().expect("a folder");
        fs::create_dir_all(folder).expect("a directory");
        fs::write(path, text).expect("space for the kernel's files");
    };
    for name in HEADERS {
        write(name, "");
    }
    write("linux/bch.h", &header);
    write("bch.c", &bch);
    write("hamming.c", &functions(&hamming));
    fs::remove_dir_all(&download).expect("files of ours");
}

/// The tables of the Hamming code, and its two functions that know nothing of a device.
fn functions(text: &str) -> String {
    let parts = [
        ("static const char invparity", "\n};"),
        ("static const char bitsperbyte", "\n};"),
        ("static const char addressbits", "\n};"),
        ("int ecc_sw_hamming_calculate", "\n}"),
        ("int ecc_sw_hamming_correct", "\n}"),
    ];
    let cut = |(from, to): (&str, &str)| {
        let start = text.find(from).expect("the Hamming code");
        let rest = &text[start..];
        let end = rest.find(to).expect("its end") + to.len();
        format!("{}\n", &rest[..end])
    };
    parts.map(cut).concat()
}
