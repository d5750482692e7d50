//! The kernel's requests become calls, put in a queue; the answers go back from there.

use super::STATS;
use super::attributes::{FOR_EVER, file_attr, node, time_or_now};
use super::listing::{list, list_plus};
use super::served::{Request as Queued, Served, now};
use super::{Options, lists, privileges};
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, Notifier, OpenAccMode, OpenFlags, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use nandlab_vfs::{Attr, Caller, FileSystem, Ino, NewNode, Rename, SetAttr, SetXattr, Sync};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

/// The longest write that the kernel may send at once, in bytes.
const WRITE_MAX: u32 = 1 << 20;
/// No file system has an inode of this number: the statistics.
const STATS_NODE: INodeNo = INodeNo(u64::MAX);

pub struct Bridge {
    queue: SyncSender<Queued>,
    has_stats: bool,
    /// As the option of the mount.
    write_back: bool,
    /// The statistics as each opener found them.
    snapshots: Arc<Mutex<BTreeMap<u64, String>>>,
    opened: Arc<AtomicU64>,
    /// Tells the kernel what changed without its knowledge.
    notifier: Arc<OnceLock<Notifier>>,
    /// The kernel may open directories and files itself.
    opens_dirs: bool,
    opens_files: bool,
}

impl Bridge {
    pub fn new(
        queue: SyncSender<Queued>,
        options: &Options<'_>,
        notifier: Arc<OnceLock<Notifier>>,
    ) -> Self {
        Self {
            queue,
            has_stats: options.stats.is_some(),
            write_back: options.write_back,
            snapshots: Arc::default(),
            opened: Arc::default(),
            notifier,
            opens_dirs: false,
            opens_files: false,
        }
    }

    /// Queues a request. After the end nobody answers: the reply, dropped, says EIO.
    fn queue(&self, request: impl FnOnce(&mut Served<'_>) + Send + 'static) {
        _ = self.queue.send(Box::new(request));
    }

    fn ask<T>(
        &self,
        verb: impl FnOnce(&mut dyn FileSystem) -> nandlab_vfs::Result<T> + Send + 'static,
        answer: impl FnOnce(Result<T, Errno>) + Send + 'static,
    ) {
        self.queue(move |served| answer(served.call(verb).map_err(number)));
    }

    fn ask_empty(
        &self,
        reply: ReplyEmpty,
        verb: impl FnOnce(&mut dyn FileSystem) -> nandlab_vfs::Result<()> + Send + 'static,
    ) {
        self.ask(verb, move |outcome| match outcome {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        });
    }

    fn ask_entry(
        &self,
        reply: ReplyEntry,
        verb: impl FnOnce(&mut dyn FileSystem) -> nandlab_vfs::Result<Attr> + Send + 'static,
    ) {
        self.ask(verb, move |outcome| match outcome {
            Ok(attr) => reply.entry(&FOR_EVER, &file_attr(&attr), Generation(0)),
            Err(error) => reply.error(error),
        });
    }

    fn ask_attr(
        &self,
        reply: ReplyAttr,
        verb: impl FnOnce(&mut dyn FileSystem) -> nandlab_vfs::Result<Attr> + Send + 'static,
    ) {
        self.ask(verb, move |outcome| match outcome {
            Ok(attr) => reply.attr(&FOR_EVER, &file_attr(&attr)),
            Err(error) => reply.error(error),
        });
    }

    fn ask_xattr(
        &self,
        reply: ReplyXattr,
        size: u32,
        verb: impl FnOnce(&mut dyn FileSystem) -> nandlab_vfs::Result<Vec<u8>> + Send + 'static,
    ) {
        self.ask(verb, move |outcome| match outcome {
            Ok(value) if size == 0 => reply.size(value.len() as u32),
            Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
            Ok(value) => reply.data(&value),
            Err(error) => reply.error(error),
        });
    }

    fn open_stats(&self, reply: ReplyOpen) {
        let snapshots = self.snapshots.clone();
        let opened = self.opened.clone();
        self.queue(move |served| {
            let handle = opened.fetch_add(1, Relaxed);
            snapshots
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(handle, served.stats());
            // Past the page cache, which would believe the size of 0.
            reply.opened(FileHandle(handle), FopenFlags::FOPEN_DIRECT_IO);
        });
    }

    fn read_stats(&self, handle: FileHandle, offset: u64, size: u32, reply: ReplyData) {
        let snapshots = self
            .snapshots
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let text = snapshots
            .get(&handle.0)
            .map_or(&[][..], |text| text.as_bytes());
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| text.get(offset..))
            .unwrap_or_default();
        reply.data(&rest[..rest.len().min(size as usize)]);
    }
}

/// The statistics' attributes: a size of 0, as in /proc.
fn stats_attr() -> FileAttr {
    let uid = rustix::process::getuid().as_raw();
    let gid = rustix::process::getgid().as_raw();
    let times = SystemTime::now();
    FileAttr {
        ino: STATS_NODE,
        size: 0,
        blocks: 0,
        atime: times,
        mtime: times,
        ctime: times,
        crtime: times,
        kind: FileType::RegularFile,
        perm: 0o444,
        nlink: 1,
        uid,
        gid,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

fn number(error: nandlab_vfs::Errno) -> Errno {
    Errno::from_i32(error.code())
}

fn caller(request: &Request) -> Caller {
    Caller {
        uid: request.uid(),
        gid: request.gid(),
        now: now(),
    }
}

fn ino(node: INodeNo) -> Ino {
    Ino(node.0)
}

fn bytes(name: &OsStr) -> Vec<u8> {
    name.as_bytes().to_vec()
}

/// A new inode's permission bits as asked for, and those that its maker's mask takes.
fn permissions(mode: u32, umask: u32) -> (u16, u16) {
    ((mode & 0o7777) as u16, (umask & 0o777) as u16)
}

impl Filesystem for Bridge {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What an old kernel refuses, it does without.
        _ = config.set_max_write(WRITE_MAX);
        let listing = InitFlags::FUSE_DO_READDIRPLUS | InitFlags::FUSE_READDIRPLUS_AUTO;
        let lists = InitFlags::FUSE_POSIX_ACL | InitFlags::FUSE_DONT_MASK;
        let privileges = InitFlags::FUSE_HANDLE_KILLPRIV_V2;
        for wish in [listing, lists, privileges, InitFlags::FUSE_CACHE_SYMLINKS] {
            _ = config.add_capabilities(wish);
        }
        if self.write_back {
            _ = config.add_capabilities(InitFlags::FUSE_WRITEBACK_CACHE);
        }
        let opens_dirs = config.add_capabilities(InitFlags::FUSE_NO_OPENDIR_SUPPORT);
        let opens_files = config.add_capabilities(InitFlags::FUSE_NO_OPEN_SUPPORT);
        self.opens_dirs = opens_dirs.is_ok();
        // Each opener of the statistics gets its own.
        self.opens_files = opens_files.is_ok() && !self.has_stats;
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if self.has_stats && parent == INodeNo::ROOT && name == STATS {
            return reply.entry(&Duration::ZERO, &stats_attr(), Generation(0));
        }
        let name = bytes(name);
        self.ask_entry(reply, move |fs| fs.lookup(ino(parent), &name));
    }

    fn forget(&self, _: &Request, node: INodeNo, lookups: u64) {
        if node != STATS_NODE {
            self.queue(move |served| served.call(|fs| fs.forget(ino(node), lookups)));
        }
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        if node == STATS_NODE {
            return reply.attr(&Duration::ZERO, &stats_attr());
        }
        self.ask_attr(reply, move |fs| fs.getattr(ino(node)));
    }

    fn setattr(
        &self,
        request: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if node == STATS_NODE {
            return reply.error(Errno::EPERM);
        }
        let by = caller(request);
        let [atime, mtime] =
            [atime, mtime].map(|asked| asked.map(|asked| time_or_now(asked, by.now)));
        let change = SetAttr {
            mode: mode.map(|mode| (mode & 0o7777) as u16),
            uid,
            gid,
            size,
            atime,
            mtime,
        };
        self.ask_attr(reply, move |fs| lists::change(fs, ino(node), &change, by));
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        self.ask(
            move |fs| fs.readlink(ino(node)),
            move |outcome| match outcome {
                Ok(target) => reply.data(&target),
                Err(error) => reply.error(error),
            },
        );
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let Some(made) = node(mode, device) else {
            return reply.error(Errno::EINVAL);
        };
        let name = bytes(name);
        let by = caller(request);
        self.ask_entry(reply, move |fs| {
            lists::create(fs, ino(parent), &name, made, permissions(mode, umask), by)
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let name = bytes(name);
        let by = caller(request);
        self.ask_entry(reply, move |fs| {
            lists::create(
                fs,
                ino(parent),
                &name,
                NewNode::Directory,
                permissions(mode, umask),
                by,
            )
        });
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let name = bytes(name);
        let target = bytes(target.as_os_str());
        let by = caller(request);
        self.ask_entry(reply, move |fs| fs.symlink(ino(parent), &name, &target, by));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let name = bytes(name);
        let by = caller(request);
        let verb = move |fs: &mut dyn FileSystem| {
            lists::create(
                fs,
                ino(parent),
                &name,
                NewNode::File,
                permissions(mode, umask),
                by,
            )
        };
        self.ask(verb, move |outcome| match outcome {
            Ok(attr) => reply.created(
                &FOR_EVER,
                &file_attr(&attr),
                Generation(0),
                FileHandle(0),
                FopenFlags::FOPEN_KEEP_CACHE,
            ),
            Err(error) => reply.error(error),
        });
    }

    fn link(&self, _: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = bytes(name);
        self.ask_entry(reply, move |fs| {
            fs.link(ino(node), ino(parent), &name, now())
        });
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = bytes(name);
        self.ask_empty(reply, move |fs| fs.unlink(ino(parent), &name, now()));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = bytes(name);
        self.ask_empty(reply, move |fs| fs.rmdir(ino(parent), &name, now()));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to_parent: INodeNo,
        to_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let how = match flags {
            RenameFlags::RENAME_NOREPLACE => Rename::NoReplace,
            RenameFlags::RENAME_EXCHANGE => Rename::Exchange,
            flags if flags.is_empty() => Rename::Replace,
            _ => return reply.error(Errno::EINVAL),
        };
        let name = bytes(name);
        let to_name = bytes(to_name);
        self.ask_empty(reply, move |fs| {
            fs.rename((ino(parent), &name), (ino(to_parent), &to_name), how, now())
        });
    }

    fn open(&self, _: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match node {
            STATS_NODE if flags.acc_mode() != OpenAccMode::O_RDONLY => reply.error(Errno::EACCES),
            STATS_NODE => self.open_stats(reply),
            _ if self.opens_files => reply.error(Errno::ENOSYS),
            _ => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
        }
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
        if node == STATS_NODE {
            return self.read_stats(handle, offset, size, reply);
        }
        let verb = move |fs: &mut dyn FileSystem| {
            // The kernel asks for no more than its read-ahead, a few hundred KiB.
            let mut data = vec![0; size as usize];
            let read = fs.read(ino(node), offset, &mut data)?;
            data.truncate(read);
            Ok(data)
        };
        self.ask(verb, move |outcome| match outcome {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(error),
        });
    }

    fn write(
        &self,
        request: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let data = data.to_vec();
        let by = caller(request);
        let keeps_bits = !flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let notifier = self.notifier.clone();
        self.queue(move |served| {
            let outcome = served.call(|fs| {
                let written = fs.write(ino(node), offset, &data, now())?;
                privileges::drop_capabilities(fs, ino(node), by)?;
                if !keeps_bits && privileges::drop_bits(fs, ino(node), by)? {
                    // The kernel remembers the bits, unless it has forgotten the file.
                    _ = notifier.get().map(|kernel| kernel.inval_inode(node, -1, 0));
                }
                Ok(written)
            });
            match outcome {
                Ok(written) => {
                    served.wrote(offset, written as u64);
                    // The kernel sends at most WRITE_MAX.
                    reply.written(written as u32);
                }
                Err(error) => reply.error(number(error)),
            }
        });
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.opens_dirs {
            true => reply.error(Errno::ENOSYS),
            false => reply.opened(FileHandle(0), FopenFlags::empty()),
        }
    }

    /// Asked at the first close and never again; durability is `fsync`'s business.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _: &Request,
        node: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        if node == STATS_NODE {
            self.snapshots
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&handle.0);
        }
        reply.ok();
    }

    fn fsync(&self, _: &Request, node: INodeNo, _: FileHandle, data_only: bool, reply: ReplyEmpty) {
        if node == STATS_NODE {
            return reply.ok();
        }
        let what = if data_only { Sync::Data } else { Sync::All };
        self.ask_empty(reply, move |fs| fs.fsync(ino(node), what));
    }

    fn fsyncdir(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.fsync(request, node, handle, data_only, reply);
    }

    fn readdir(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.queue(
            move |served| match served.call(|fs| list(fs, ino(node), offset, &mut reply)) {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(number(error)),
            },
        );
    }

    fn readdirplus(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.queue(move |served| {
            match served.call(|fs| list_plus(fs, ino(node), offset, &mut reply)) {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(number(error)),
            }
        });
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.ask(
            |fs| fs.statfs(),
            move |outcome| match outcome {
                Ok(found) => {
                    let blocks = found.blocks;
                    let free = found.free;
                    let available = found.available;
                    reply.statfs(
                        blocks,
                        free,
                        available,
                        found.inodes,
                        found.inodes_free,
                        found.block_bytes,
                        found.name_max,
                        found.block_bytes,
                    );
                }
                Err(error) => reply.error(error),
            },
        );
    }

    fn setxattr(
        &self,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        // XATTR_CREATE and XATTR_REPLACE of <linux/xattr.h>.
        let expect = match flags {
            0 => SetXattr::Any,
            1 => SetXattr::Create,
            2 => SetXattr::Replace,
            _ => return reply.error(Errno::EINVAL),
        };
        let name = bytes(name);
        let value = Vec::from(value);
        let by = caller(request);
        self.ask_empty(reply, move |fs| {
            lists::set(fs, ino(node), &name, &value, expect, by)
        });
    }

    fn getxattr(&self, _: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if node == STATS_NODE {
            return reply.error(Errno::ENODATA);
        }
        let name = bytes(name);
        self.ask_xattr(reply, size, move |fs| lists::get(fs, ino(node), &name));
    }

    fn listxattr(&self, _: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        self.ask_xattr(reply, size, move |fs| {
            let names = match fs.listxattr(ino(node)) {
                Err(nandlab_vfs::Errno::NotSupported) => Vec::new(),
                names => names?,
            };
            Ok(names
                .into_iter()
                .flat_map(|name| name.into_iter().chain([0]))
                .collect())
        });
    }

    fn removexattr(&self, _: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = bytes(name);
        self.ask_empty(reply, move |fs| fs.removexattr(ino(node), &name, now()));
    }
}
