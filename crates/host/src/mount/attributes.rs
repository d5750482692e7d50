//! Types, times and device numbers, there and back.

use fuser::{FileAttr, INodeNo, TimeOrNow};
use nandlab_vfs::{Attr, FileType, NewNode, Time};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nobody but the kernel changes the volume, so it may remember everything.
pub(super) const FOR_EVER: Duration = Duration::from_secs(3600);

pub fn kind(kind: FileType) -> fuser::FileType {
    match kind {
        FileType::File => fuser::FileType::RegularFile,
        FileType::Directory => fuser::FileType::Directory,
        FileType::Symlink => fuser::FileType::Symlink,
        FileType::Fifo => fuser::FileType::NamedPipe,
        FileType::Socket => fuser::FileType::Socket,
        FileType::Character => fuser::FileType::CharDevice,
        FileType::Block => fuser::FileType::BlockDevice,
    }
}

/// What `mknod` is asked for; none for what it cannot make.
pub fn node(mode: u32, device: u32) -> Option<NewNode<'static>> {
    match FileType::from_mode(mode as u16)? {
        FileType::File => Some(NewNode::File),
        FileType::Fifo => Some(NewNode::Fifo),
        FileType::Socket => Some(NewNode::Socket),
        FileType::Character => Some(NewNode::Character {
            device: numbers(device),
        }),
        FileType::Block => Some(NewNode::Block {
            device: numbers(device),
        }),
        FileType::Directory | FileType::Symlink => None,
    }
}

/// Major and minor number as the kernel's protocol packs them: `new_encode_dev` in
/// `include/linux/kdev_t.h`.
fn packed((major, minor): (u32, u32)) -> u32 {
    minor & 0xFF | (major & 0xFFF) << 8 | (minor & 0xF_FF00) << 12
}

fn numbers(packed: u32) -> (u32, u32) {
    (packed >> 8 & 0xFFF, packed & 0xFF | packed >> 12 & 0xF_FF00)
}

pub fn file_attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.ino.0),
        size: attr.size,
        blocks: attr.blocks,
        atime: system_time(attr.atime),
        mtime: system_time(attr.mtime),
        ctime: system_time(attr.ctime),
        crtime: system_time(attr.btime.unwrap_or(attr.ctime)),
        kind: kind(attr.kind),
        perm: attr.mode & 0o7777,
        nlink: attr.links,
        uid: attr.uid,
        gid: attr.gid,
        rdev: packed(attr.device),
        blksize: 4096,
        flags: 0,
    }
}

fn system_time(time: Time) -> SystemTime {
    let secs = Duration::from_secs(time.secs.unsigned_abs());
    let whole = if time.secs < 0 {
        UNIX_EPOCH.checked_sub(secs)
    } else {
        UNIX_EPOCH.checked_add(secs)
    };
    whole
        .and_then(|whole| whole.checked_add(Duration::from_nanos(time.nanos.into())))
        .unwrap_or(UNIX_EPOCH)
}

/// A moment on the wall's clock.
pub fn time(moment: SystemTime) -> Time {
    match moment.duration_since(UNIX_EPOCH) {
        Ok(after) => Time {
            secs: after.as_secs() as i64,
            nanos: after.subsec_nanos(),
        },
        Err(before) => {
            let secs = before.duration().as_secs() as i64;
            let nanos = before.duration().subsec_nanos();
            if nanos == 0 {
                Time::new(-secs)
            } else {
                Time {
                    secs: -secs - 1,
                    nanos: 1_000_000_000 - nanos,
                }
            }
        }
    }
}

pub fn time_or_now(asked: TimeOrNow, now: Time) -> Time {
    match asked {
        TimeOrNow::SpecificTime(moment) => asked_time(moment),
        TimeOrNow::Now => now,
    }
}

/// A moment as fuser 0.18 passes it on: before 1970 it takes the nanoseconds away from the second
/// instead of adding them.
fn asked_time(moment: SystemTime) -> Time {
    match moment.duration_since(UNIX_EPOCH) {
        Ok(_) => time(moment),
        Err(before) => Time {
            secs: -(before.duration().as_secs() as i64),
            nanos: before.duration().subsec_nanos(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_come_back() {
        for device in [(0, 0), (8, 1), (0xFFF, 0xF_FFFF), (259, 0x1_2345)] {
            assert_eq!(numbers(packed(device)), device);
        }
        // As `mknod` of a shell has it: major 8, minor 1.
        assert_eq!(packed((8, 1)), 0x801);
    }

    #[test]
    fn times_before_1970_come_back() {
        for at in [
            Time::new(0),
            Time {
                secs: -1,
                nanos: 999_999_999,
            },
            Time::new(-86_400),
            Time {
                secs: 1 << 33,
                nanos: 1,
            },
        ] {
            assert_eq!(time(system_time(at)), at);
        }
    }
}
