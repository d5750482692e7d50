//! The two files as the kernel's FUSE driver asks for them.

use super::{DISK, Options, STATS, Stats};
use crate::{Hole, SharedDisk};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, OpenAccMode, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use nandlab_block::BlockError;
use rustix::fs::FallocateFlags;
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    io,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

const DISK_NODE: INodeNo = INodeNo(2);
const STATS_NODE: INodeNo = INodeNo(3);

/// Nothing about the files ever changes, so the kernel may remember it.
const FOR_EVER: Duration = Duration::from_secs(3600);
/// The longest write that the kernel may send at once, in bytes.
const WRITE_MAX: u32 = 1 << 20;

pub struct Files {
    disk: SharedDisk,
    read_only: bool,
    stats: Option<Stats>,
    since: SystemTime,
    scratch: Mutex<Scratch>,
}

#[derive(Default)]
struct Scratch {
    /// What a read brings.
    data: Vec<u8>,
    /// `stats.json` as each opener found it, so that a slow reader never sees two mixed.
    snapshots: BTreeMap<u64, String>,
    opened: u64,
}

impl Files {
    pub fn new(disk: SharedDisk, options: Options) -> Self {
        let Options {
            read_only, stats, ..
        } = options;
        Self {
            disk,
            read_only,
            stats,
            since: SystemTime::now(),
            scratch: Mutex::default(),
        }
    }

    fn attributes(&self, node: INodeNo) -> Result<FileAttr, Errno> {
        let (kind, perm, size) = self.kind_of(node)?;
        let uid = rustix::process::getuid().as_raw();
        let gid = rustix::process::getgid().as_raw();
        let since = self.since;
        let nlink = if kind == FileType::Directory { 2 } else { 1 };
        Ok(FileAttr {
            ino: node,
            size,
            blocks: size / 512,
            atime: since,
            mtime: since,
            ctime: since,
            crtime: since,
            kind,
            perm,
            nlink,
            uid,
            gid,
            rdev: 0,
            blksize: self.disk.geometry().page,
            flags: 0,
        })
    }

    /// Type, permissions and length of a node.
    fn kind_of(&self, node: INodeNo) -> Result<(FileType, u16, u64), Errno> {
        Ok(match node {
            INodeNo::ROOT => (FileType::Directory, 0o755, 0),
            DISK_NODE => (
                FileType::RegularFile,
                if self.read_only { 0o400 } else { 0o600 },
                self.disk.bytes(),
            ),
            // Its size is known only when it is opened; 0 as in /proc.
            STATS_NODE if self.stats.is_some() => (FileType::RegularFile, 0o444, 0),
            _ => return Err(Errno::ENOENT),
        })
    }

    fn entries(&self) -> impl Iterator<Item = (INodeNo, FileType, &'static str)> {
        let stats = self
            .stats
            .is_some()
            .then_some((STATS_NODE, FileType::RegularFile, STATS));
        let dots = [".", ".."].map(|name| (INodeNo::ROOT, FileType::Directory, name));
        dots.into_iter()
            .chain([(DISK_NODE, FileType::RegularFile, DISK)])
            .chain(stats)
    }

    fn scratch(&self) -> MutexGuard<'_, Scratch> {
        // Only buffers: a panic leaves nothing half done that the next request would not overwrite.
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As much of an extent as lies on the disk, in bytes.
    fn inside(&self, offset: u64, length: u64) -> u64 {
        self.disk.bytes().saturating_sub(offset).min(length)
    }

    fn write_some(&self, node: INodeNo, offset: u64, data: &[u8]) -> Result<u32, Errno> {
        disk_only(node)?;
        let fits = self.inside(offset, data.len() as u64);
        if fits == 0 && !data.is_empty() {
            return Err(Errno::ENOSPC);
        }
        self.disk
            .with(|disk| disk.write(offset, &data[..fits as usize]))
            .map_err(number)?;
        // The kernel sends at most WRITE_MAX.
        Ok(fits as u32)
    }

    fn open_node(
        &self,
        node: INodeNo,
        flags: OpenFlags,
    ) -> Result<(FileHandle, FopenFlags), Errno> {
        let writes = flags.acc_mode() != OpenAccMode::O_RDONLY;
        match (node, &self.stats) {
            (DISK_NODE, _) if writes && self.read_only => Err(Errno::EROFS),
            (DISK_NODE, _) => Ok((FileHandle(0), FopenFlags::empty())),
            (STATS_NODE, Some(_)) if writes => Err(Errno::EACCES),
            (STATS_NODE, Some(stats)) => {
                let text = stats();
                let mut scratch = self.scratch();
                scratch.opened += 1;
                let handle = scratch.opened;
                scratch.snapshots.insert(handle, text);
                // Past the page cache, which would believe the size of 0.
                Ok((FileHandle(handle), FopenFlags::FOPEN_DIRECT_IO))
            }
            _ => Err(Errno::ENOENT),
        }
    }

    fn allocate(
        &self,
        node: INodeNo,
        (offset, length): (u64, u64),
        mode: i32,
    ) -> Result<(), Errno> {
        disk_only(node)?;
        let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        let hole = if mode == FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE {
            Hole::Allowed
        } else if mode.difference(FallocateFlags::KEEP_SIZE) == FallocateFlags::ZERO_RANGE {
            Hole::Forbidden
        } else {
            return Err(Errno::EOPNOTSUPP);
        };
        let fits = self.inside(offset, length);
        if fits < length && !mode.contains(FallocateFlags::KEEP_SIZE) {
            return Err(Errno::ENOSPC);
        }
        self.disk
            .with(|disk| disk.zero(offset.min(self.disk.bytes()), fits, hole))
            .map_err(number)
    }
}

impl Filesystem for Files {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Refused only if the protocol's own limit were lower; the kernel then keeps to that.
        let _ = config.set_max_write(WRITE_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self
            .entries()
            .skip(2)
            .find(|(_, _, entry)| parent == INodeNo::ROOT && name == *entry);
        match found
            .ok_or(Errno::ENOENT)
            .and_then(|(node, ..)| self.attributes(node))
        {
            Ok(attributes) => reply.entry(&FOR_EVER, &attributes, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(node) {
            Ok(attributes) => reply.attr(&FOR_EVER, &attributes),
            Err(error) => reply.error(error),
        }
    }

    /// Nothing can be changed; to set what is there already is no change.
    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = |now: &FileAttr| {
            let mode = mode.is_some_and(|mode| mode & 0o7777 != u32::from(now.perm));
            mode || uid.is_some_and(|uid| uid != now.uid)
                || gid.is_some_and(|gid| gid != now.gid)
                || size.is_some_and(|size| size != now.size)
        };
        match self.attributes(node) {
            Ok(attributes) if changes(&attributes) => reply.error(Errno::EPERM),
            Ok(attributes) => reply.attr(&FOR_EVER, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if node != INodeNo::ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        for (next, (node, kind, name)) in (1..).zip(self.entries()).skip(offset as usize) {
            if reply.add(node, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn open(&self, _: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.open_node(node, flags) {
            Ok((handle, flags)) => reply.opened(handle, flags),
            Err(error) => reply.error(error),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.scratch().snapshots.remove(&handle.0);
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut scratch = self.scratch();
        if node == STATS_NODE {
            let text = scratch
                .snapshots
                .get(&handle.0)
                .map_or(&[][..], |text| text.as_bytes());
            let rest = usize::try_from(offset)
                .ok()
                .and_then(|offset| text.get(offset..))
                .unwrap_or_default();
            return reply.data(&rest[..rest.len().min(size as usize)]);
        }
        let fits = self.inside(offset, size.into()) as usize;
        if scratch.data.len() < fits {
            scratch.data.resize(fits, 0);
        }
        let data = &mut scratch.data[..fits];
        let read = disk_only(node).and_then(|()| {
            if fits == 0 {
                Ok(())
            } else {
                self.disk
                    .with(|disk| disk.read(offset, data))
                    .map_err(number)
            }
        });
        match read {
            Ok(()) => reply.data(data),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.write_some(node, offset, data) {
            Ok(written) => reply.written(written),
            Err(error) => reply.error(error),
        }
    }

    /// Sent at each close; durability is `fsync`'s business.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(
            reply,
            disk_only(node).and_then(|()| self.disk.with(|disk| disk.flush()).map_err(number)),
        );
    }

    fn fallocate(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        answer(reply, self.allocate(node, (offset, length), mode));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let geometry = self.disk.geometry();
        reply.statfs(
            geometry.sectors,
            0,
            0,
            2,
            0,
            geometry.sector,
            255,
            geometry.sector,
        );
    }
}

fn answer(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn disk_only(node: INodeNo) -> Result<(), Errno> {
    if node == DISK_NODE {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

fn number(error: BlockError) -> Errno {
    match error {
        BlockError::ReadOnly(_) => Errno::EROFS,
        BlockError::WornOut(_) => Errno::ENOSPC,
        BlockError::OutOfRange { .. }
        | BlockError::BadLength { .. }
        | BlockError::Lost { .. }
        | BlockError::Missing { .. }
        | BlockError::PowerCut
        | BlockError::Unsupported
        | BlockError::Internal(_)
        | BlockError::Backing(_) => Errno::EIO,
    }
}
