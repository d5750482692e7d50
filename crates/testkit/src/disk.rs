//! RAM disks: made, kept in files, checked by tools, damaged and compared.

use crate::tools::printed;
use nandlab_block::{BlockDevice, Lba, Ram};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;

const SECTOR: u64 = 512;
const STEP: usize = 64 * 1024;

/// Returns a disk of zeros.
pub fn ram(kib: u64) -> Ram {
    Ram::new(SECTOR as u32, kib * 2)
}

/// Writes a disk into a file; zeros take no space.
pub fn save<D: BlockDevice>(disk: &mut D, path: &Path) {
    let bytes = disk.geometry().bytes();
    let unit = u64::from(disk.geometry().sector);
    let mut file = File::create(path).unwrap();
    file.set_len(bytes).unwrap();
    for at in (0..bytes).step_by(STEP) {
        let mut data = vec![0; STEP.min((bytes - at) as usize)];
        disk.read(Lba(at / unit), &mut data).unwrap();
        if data.iter().any(|byte| *byte != 0) {
            file.seek(SeekFrom::Start(at)).unwrap();
            file.write_all(&data).unwrap();
        }
    }
}

/// Reads a disk from a file.
pub fn load(path: &Path) -> Ram {
    let mut file = File::open(path).unwrap();
    let mut disk = Ram::new(SECTOR as u32, fs::metadata(path).unwrap().len() / SECTOR);
    let mut data = vec![0; STEP];
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
            let whole = count / SECTOR as usize * SECTOR as usize;
            disk.write(Lba(at / SECTOR), &data[..whole]).unwrap();
        }
        at += count as u64;
        if count < data.len() {
            return disk;
        }
    }
}

/// Runs a program on a file of zeros, which becomes the disk. The path is the last argument.
pub fn made_by(program: &mut Command, bytes: u64) -> Ram {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    File::create(&path).unwrap().set_len(bytes).unwrap();
    let output = program.arg(&path).output().unwrap();
    assert!(output.status.success(), "{program:?}: {}", printed(&output));
    load(&path)
}

/// Runs a program on a copy of the disk; returns whether it succeeded, and what it printed. The
/// path is the last argument.
pub fn judged_by<D: BlockDevice>(disk: &mut D, program: &mut Command) -> (bool, String) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    save(disk, &path);
    let output = program.arg(&path).output().unwrap();
    (output.status.success(), printed(&output))
}

/// Replaces bytes of a disk.
pub fn poke(disk: &mut Ram, at: u64, value: &[u8]) {
    let mut sector = [0; SECTOR as usize];
    for (at, byte) in (at..).zip(value) {
        disk.read(Lba(at / SECTOR), &mut sector).unwrap();
        sector[(at % SECTOR) as usize] = *byte;
        disk.write(Lba(at / SECTOR), &sector).unwrap();
    }
}

/// Returns the little-endian word at a byte.
pub fn word(disk: &mut Ram, at: u64) -> u32 {
    let mut sector = [0; SECTOR as usize];
    disk.read(Lba(at / SECTOR), &mut sector).unwrap();
    u32::from_le_bytes(sector[(at % SECTOR) as usize..][..4].try_into().unwrap())
}

/// Returns the first byte at which two disks differ, with what each has from there on.
pub fn difference(one: &mut Ram, other: &mut Ram) -> Option<(u64, Vec<u8>, Vec<u8>)> {
    let sectors = one.geometry().sectors;
    assert_eq!(sectors, other.geometry().sectors);
    for at in (0..sectors).step_by(8) {
        let bytes = (sectors - at).min(8) as usize * SECTOR as usize;
        let [a, b] = [&mut *one, &mut *other].map(|disk| read(disk, at, bytes));
        if let Some(byte) = a.iter().zip(&b).position(|(a, b)| a != b) {
            let end = (byte + 32).min(bytes);
            let place = at * SECTOR + byte as u64;
            return Some((place, a[byte..end].to_vec(), b[byte..end].to_vec()));
        }
    }
    None
}

fn read(disk: &mut Ram, at: u64, bytes: usize) -> Vec<u8> {
    let mut data = vec![0; bytes];
    disk.read(Lba(at), &mut data).unwrap();
    data
}

/// Returns the first byte of each block that holds metadata. Metadata has many zeros, while the
/// contents of files are random.
pub fn metadata(disk: &mut Ram, block: usize) -> Vec<u64> {
    let bytes = disk.geometry().bytes();
    let mut data = vec![0; block];
    let mut found = Vec::new();
    for at in (0..bytes / block as u64).map(|number| number * block as u64) {
        disk.read(Lba(at / SECTOR), &mut data).unwrap();
        let zeros = data.iter().filter(|byte| **byte == 0).count();
        if zeros > block * 25 / 128 && zeros < block {
            found.push(at);
        }
    }
    found
}
