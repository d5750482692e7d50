//! Files and directories of a file system under test.

use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Time};

/// The time of all calls.
pub const NOW: Time = Time::new(1_000_000_000);

/// Makes a file with contents. The caller holds its reference.
pub fn put<F: FileSystem + ?Sized>(fs: &mut F, dir: Ino, name: &str, data: &[u8]) -> Ino {
    let by = Caller::root(NOW);
    let file = fs
        .create(dir, name.as_bytes(), NewNode::File, 0o644, by)
        .unwrap_or_else(|error| panic!("{name}: {error}"))
        .ino;
    let mut done = 0;
    while done < data.len() {
        done += fs
            .write(file, done as u64, &data[done..], NOW)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    file
}

/// Makes a directory. The caller holds its reference.
pub fn mkdir<F: FileSystem + ?Sized>(fs: &mut F, dir: Ino, name: &str) -> Ino {
    fs.mkdir(dir, name.as_bytes(), 0o755, Caller::root(NOW))
        .unwrap_or_else(|error| panic!("{name}: {error}"))
        .ino
}

/// Returns incompressible bytes that depend on the seed.
pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    (0..length.div_ceil(8) as u64)
        .flat_map(|word| nandlab_sim::mix(seed, word).to_le_bytes())
        .take(length)
        .collect()
}
