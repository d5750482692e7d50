//! A rename without a journal, cut between its writes: the file has its old name or its new one.

use crate::common::{NOW, bytes, mkdir, mount, put, read_only};
use nandlab_block::{Lba, Ram, Record, WriteLog};
use nandlab_ext::{Format, format};
use nandlab_vfs::{FileSystem, Ino, Rename};

const BLOCK: u32 = 1024;
const FROM: &[u8] = b"from";
const TO: &[u8] = b"to";

/// Whether a name leads to the file, known by its length.
fn leads_to_it(disk: &mut Ram, dir: &[u8], name: &[u8], length: u64) -> bool {
    let mut ext = read_only(disk);
    let dir = ext.lookup(Ino::ROOT, dir).unwrap().ino;
    ext.lookup(dir, name)
        .is_ok_and(|found| found.size == length)
}

/// The blocks that a log writes, each with its record.
fn blocks(records: &[Record]) -> Vec<(usize, Lba)> {
    let mut blocks = Vec::new();
    for (number, record) in records.iter().enumerate() {
        if let Record::Write { lba, data } = record {
            let count = data.len() as u64 / u64::from(BLOCK);
            blocks.extend((0..count).map(|at| (number, Lba(lba.0 + at))));
        }
    }
    blocks
}

/// Renames from one directory to another. At each cut either one block of those that wait is on the
/// medium, or all except one.
fn cut_rename(from: &str, to: &str, replaces: bool) {
    // A device that writes blocks whole.
    let mut disk = Ram::new(BLOCK, 2000);
    format(&mut disk, &Format::default()).unwrap();
    let mut ext = mount(WriteLog::new(disk));
    // The blocks of names lie in the order of the directories.
    for name in ["low", "high"] {
        mkdir(&mut ext, Ino::ROOT, name);
    }
    let source = ext.lookup(Ino::ROOT, from.as_bytes()).unwrap().ino;
    let target = ext.lookup(Ino::ROOT, to.as_bytes()).unwrap().ino;
    put(&mut ext, source, "from", &bytes(1, 3000));
    if replaces {
        put(&mut ext, target, "to", &bytes(2, 2000));
    }
    ext.sync().unwrap();
    let base = ext.device_mut().clone().into_parts().0;
    ext.device_mut().clear();
    ext.rename((source, FROM), (target, TO), Rename::Replace, NOW)
        .unwrap();
    ext.sync().unwrap();
    let log = ext.device_mut().clone();
    let records = log.records();
    assert!(records.len() >= 3, "{} records", records.len());
    for upto in 0..=records.len() {
        for one in blocks(&records[..upto]) {
            for keeps_one in [true, false] {
                let what = format!("{from} to {to}, {upto} records, {one:?} kept: {keeps_one}");
                let mut disk = base.clone();
                let keep = |record, lba| ((record, lba) == one) == keeps_one;
                log.replay(upto, &mut disk, keep).unwrap();
                let old = leads_to_it(&mut disk, from.as_bytes(), FROM, 3000);
                let new = leads_to_it(&mut disk, to.as_bytes(), TO, 3000);
                assert!(old || new, "{what}: the file has no name");
                let kept = new || leads_to_it(&mut disk, to.as_bytes(), TO, 2000);
                assert!(kept || !replaces, "{what}: the replaced name is gone");
            }
        }
    }
}

#[test]
fn a_file_has_a_name_whichever_write_of_a_rename_is_the_last() {
    for replaces in [false, true] {
        cut_rename("low", "high", replaces);
        cut_rename("high", "low", replaces);
    }
}
