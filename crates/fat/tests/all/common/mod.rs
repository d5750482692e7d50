//! What the tests share: disks, the tools of dosfstools and mtools as judges, and trees.
use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_fat::{Fat, Options};
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Time};
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::process::{Command, Output};

/// A disk of zeros.
pub fn ram(kib: u64) -> Ram {
    Ram::new(512, kib * 2)
}

/// Runs a tool to its end; a missing tool fails the test and names its package.
pub fn tool(package: &str, program: &str, arguments: &[&str]) -> Output {
    let path = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .map(|dir| Path::new(dir).join(program))
        .find(|path| path.is_file());
    let path = path.unwrap_or_else(|| panic!("{program} is missing: apt-get install {package}"));
    Command::new(path)
        .args(arguments)
        .env("LC_ALL", "C.UTF-8")
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// What a tool printed.
pub fn printed(output: &Output) -> String {
    [&output.stdout[..], &output.stderr]
        .map(String::from_utf8_lossy)
        .concat()
}

/// Puts a disk into a file; zeros take no space.
pub fn save(disk: &mut Ram, path: &Path) {
    const STEP: usize = 64 * 1024;
    let bytes = disk.geometry().bytes();
    let mut file = File::create(path).unwrap();
    file.set_len(bytes).unwrap();
    for at in (0..bytes).step_by(STEP) {
        let mut data = vec![0; STEP.min((bytes - at) as usize)];
        disk.read(Lba(at / 512), &mut data).unwrap();
        if data.iter().any(|byte| *byte != 0) {
            file.seek(std::io::SeekFrom::Start(at)).unwrap();
            file.write_all(&data).unwrap();
        }
    }
}

/// Reads a disk from a file.
pub fn load(path: &Path) -> Ram {
    let mut file = File::open(path).unwrap();
    let mut disk = Ram::new(512, fs::metadata(path).unwrap().len() / 512);
    let mut data = vec![0; 64 * 1024];
    let mut at = 0;
    loop {
        let mut count = 0;
        while count < data.len() {
            match file.read(&mut data[count..]).unwrap() {
                0 => break,
                more => count += more,
            }
        }
        if data[..count].iter().any(|byte| *byte != 0) {
            disk.write(Lba(at / 512), &data[..count / 512 * 512])
                .unwrap();
        }
        at += count as u64;
        if count < data.len() {
            return disk;
        }
    }
}

/// What fsck.vfat, changing nothing, says of a disk, and whether it is content.
pub fn fsck(disk: &mut Ram) -> (bool, String) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    save(disk, &path);
    let output = tool(
        "dosfstools",
        "fsck.vfat",
        &["-n", "-V", path.to_str().unwrap()],
    );
    (output.status.success(), printed(&output))
}

/// Both judges, theirs and ours, find nothing wrong.
pub fn assert_clean(disk: &mut Ram, what: &str) {
    let report = read_only(disk).check().unwrap();
    assert_eq!(
        (report.findings.as_slice(), report.more),
        (&[][..], 0),
        "{what}"
    );
    let (content, text) = fsck(disk);
    assert!(content, "{what}: {text}");
}

/// A volume made by mkfs.vfat.
pub fn made_by_mkfs(kib: u64, options: &[&str]) -> Ram {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    File::create(&path).unwrap().set_len(kib * 1024).unwrap();
    let output = tool(
        "dosfstools",
        "mkfs.vfat",
        &[
            &["-i", "12345678", "--invariant"],
            options,
            &[path.to_str().unwrap()],
        ]
        .concat(),
    );
    assert!(
        output.status.success(),
        "mkfs.vfat {options:?}: {}",
        printed(&output)
    );
    load(&path)
}

pub fn mount<D: BlockDevice>(disk: D) -> Fat<D> {
    Fat::mount(disk, Options::default()).unwrap()
}

/// The disk as it is, without a write.
pub fn read_only(disk: &mut Ram) -> Fat<&mut Ram> {
    Fat::mount(
        disk,
        Options {
            read_only: true,
            ..Options::default()
        },
    )
    .unwrap()
}

pub const NOW: Time = Time::new(1_000_000_000);

/// Makes a file; its reference is given back.
pub fn put<F: FileSystem>(fs: &mut F, dir: Ino, name: &str, data: &[u8]) -> Ino {
    let file = fs
        .create(
            dir,
            name.as_bytes(),
            NewNode::File,
            0o644,
            Caller::root(NOW),
        )
        .unwrap_or_else(|e| panic!("{name}: {e}"))
        .ino;
    let mut done = 0;
    while done < data.len() {
        done += fs.write(file, done as u64, &data[done..], NOW).unwrap();
    }
    file
}

pub fn mkdir<F: FileSystem>(fs: &mut F, dir: Ino, name: &str) -> Ino {
    fs.mkdir(dir, name.as_bytes(), 0o755, Caller::root(NOW))
        .unwrap_or_else(|e| panic!("{name}: {e}"))
        .ino
}

/// Bytes that are nowhere else.
pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|at| nandlab_sim::mix(seed, at / 8).to_le_bytes()[(at % 8) as usize])
        .collect()
}
