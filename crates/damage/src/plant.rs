//! Files of good media.

use nandlab_vfs::{Caller, Errno, FileSystem, Ino, NewNode, Rename, SetAttr, SetXattr, Time};

/// The time at which all calls happen.
pub const NOW: Time = Time::new(1_000_000_000);

/// A tree with something of everything, `scale` times 300 bytes the largest of its many small
/// files.
pub fn plant<F: FileSystem>(fs: &mut F, files: u64, large: usize) -> Result<(), Errno> {
    let by = Caller::root(NOW);
    let dir = fs
        .mkdir(Ino::ROOT, b"directory with a long name", 0o755, by)?
        .ino;
    let low = fs.mkdir(dir, b"below", 0o755, by)?.ino;
    for number in 0..files {
        put(
            fs,
            low,
            &format!("file number {number}"),
            &text(number, 130 * number as usize),
        )?;
    }
    let file = put(
        fs,
        Ino::ROOT,
        "large",
        &[text(1, large / 2), noise(1, large / 2)].concat(),
    )?;
    fs.write(file, 3 * large as u64, b"behind a gap", NOW)?;
    fs.setattr(
        file,
        &SetAttr {
            size: Some(3 * large as u64 - 500),
            ..SetAttr::default()
        },
        NOW,
    )?;
    fs.unlink(low, b"file number 3", NOW)?;
    fs.rename(
        (low, b"file number 4"),
        (dir, b"moved"),
        Rename::Replace,
        NOW,
    )?;
    // Not every file system has these.
    let all = [
        fs.setxattr(file, b"user.k", b"value", SetXattr::Any, NOW),
        fs.setxattr(dir, b"user.other", &[7; 90], SetXattr::Any, NOW),
        fs.symlink(dir, b"link", b"target", by).map(drop),
        fs.symlink(low, b"longer link", &[b's'; 100], by).map(drop),
        fs.create(
            dir,
            b"null",
            NewNode::Character { device: (1, 3) },
            0o666,
            by,
        )
        .map(drop),
        fs.link(file, dir, b"second name", NOW).map(drop),
    ];
    match all
        .into_iter()
        .find(|one| !matches!(one, Ok(()) | Err(Errno::NotSupported | Errno::NotPermitted)))
    {
        Some(error) => error,
        None => fs.sync(),
    }
}

fn put<F: FileSystem>(fs: &mut F, dir: Ino, name: &str, data: &[u8]) -> Result<Ino, Errno> {
    let file = fs
        .create(
            dir,
            name.as_bytes(),
            NewNode::File,
            0o644,
            Caller::root(NOW),
        )?
        .ino;
    let mut done = 0;
    while done < data.len() {
        done += fs.write(file, done as u64, &data[done..], NOW)?;
    }
    Ok(file)
}

/// Bytes that nothing compresses.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|at| nandlab_sim::mix(seed, at / 8).to_le_bytes()[(at % 8) as usize])
        .collect()
}

/// Bytes that everything compresses.
fn text(seed: u64, len: usize) -> Vec<u8> {
    let word = |at: u64| {
        ["flash ", "node ", "erase ", "block ", "\n"][(nandlab_sim::mix(seed, at) % 5) as usize]
    };
    (0..).flat_map(|at| word(at).bytes()).take(len).collect()
}
