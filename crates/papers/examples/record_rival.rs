//! Records the requests of the real kernel's ext4 for the works of the F2FS paper: `record_rival
//! DIRECTORY PLAYER [WORK...]`, by `cargo xtask record rival`.
//!
//! For each work a guest makes an ext4 on a disk of its own and plays the calls (`play-files`, the
//! program PLAYER); every request, that of `mkfs.ext4` on, goes to `DIRECTORY/ext4-WORK.iolog.gz`.
//! Times are left out: they would be those of a guest without hardware support.

use flate2::{Compression, write::GzEncoder};
use nandlab_block::Ram;
use nandlab_host::SharedDisk;
use nandlab_host::nbd::{Address, Options, Server};
use nandlab_host::record::record;
use nandlab_oracle::{Disk, Oracle, Report};
use nandlab_papers::f2fs_rival::{MARK_BYTES, MARKS, Work};
use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// A guest without hardware support is slow.
const PATIENCE: Duration = Duration::from_secs(3600);

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [directory, player, wanted @ ..] = &words[..] else {
        return Err("expected a directory and the player".into());
    };
    let oracle = Oracle::ready()?;
    for work in
        Work::all().filter(|work| wanted.is_empty() || wanted.iter().any(|key| key == work.key))
    {
        let path = Path::new(directory).join(format!("ext4-{}.iolog.gz", work.key));
        record_one(&oracle, &work, &path, Path::new(player))?;
    }
    Ok(())
}

fn record_one(
    oracle: &Oracle,
    work: &Work,
    path: &Path,
    player: &Path,
) -> Result<(), Box<dyn Error>> {
    let packed = GzEncoder::new(File::create(path)?, Compression::best());
    let ram = Ram::new(512, (work.partition() + MARKS * MARK_BYTES) / 512);
    let (disk, recording) = record(ram, packed, "d", || 0)?;
    let sockets = tempfile::tempdir()?;
    let socket = sockets.path().join("disk");
    let server = Server::start(
        SharedDisk::new(Box::new(disk)),
        &Address::Unix(socket.clone()),
        Options::default(),
    )?;
    let key = work.key;
    let play = player.display();
    let blocks = work.partition() / 4096;
    let script = format!(
        "mp ext4 && /usr/sbin/mkfs.ext4 -qF -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 /dev/vda {blocks} && mount -t ext4 /dev/vda /mnt \
         && {play} /mnt f2fs {key} /dev/vda && umount /mnt"
    );
    let guest = oracle
        .guest()
        .disk(Disk::Nbd { socket })
        .program("/usr/sbin/mkfs.ext4")
        .program(player)
        .timeout(PATIENCE)
        .script(script);
    let report = guest.run().and_then(Report::success)?;
    server.stop()?;
    let lines = recording.finish()?;
    println!(
        "| {key} | {lines} | {} | {:.0} |",
        std::fs::metadata(path)?.len(),
        report.wall.as_secs_f64()
    );
    Ok(())
}
