//! Deferred writes in front of a file system that writes at once: the write-back routine of S.-H.
//! Lim, S.-H. Baek, J.-Y. Hwang, K.-H. Park, "Write Back Routine for JFFS2 Efficient I/O" (EUC
//! 2006), section 3, for any [`FileSystem`], as its authors left to future work.
//!
//! A write puts its pages into memory, pinned, and an element ([`FlashBh`]) for each into the list
//! `flash_bh`; the inode's length and times change at once. The timer `flash_writeback` wakes the
//! actor [`fflush`](WriteBack::fflush), which calls `wb_flash`: it takes elements from the list
//! until its slice of time is over or it has written as many as its threshold allows. It merges
//! those that continue each other into one write of up to an erase block. When memory fills, the
//! timer comes sooner and passes are longer; when it is full, the writer waits until all is
//! written.
//!
//! *Promises.* The contract of [`FileSystem`]: a change is seen at once, durable behind an fsync of
//! its file, which writes that file's elements, or a sync, which writes all. Names are never
//! deferred; so after a power cut a file may be shorter than it was, or hold zeros or what it held
//! before where a write had not come to its turn. A deferred write that the file system refuses is
//! lost; the next fsync of the file, otherwise the next sync or unmount, tells why. A write that
//! might find no space is not deferred, nor one behind [`Settings::file_bytes_max`]. *Knows nothing
//! of* flash but the length of an erase block.

mod queue;
mod volume;

#[cfg(test)]
mod tests;

pub use queue::{FlashBh, NodeType, PAGE};
pub use volume::Deferred;

use alloc::{boxed::Box, collections::BTreeMap, collections::BTreeSet, vec, vec::Vec};
use nandlab_vfs::{
    Attr, Caller, Errno, FileSystem, FileType, Ino, NewNode, Rename, SetAttr, SetXattr, StatFs,
    Sync, Time, delegate, with_defaults,
};
use queue::Queue;

const SECOND: u64 = 1_000_000_000;

with_defaults! {
    /// How the routine goes about it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Settings {
        /// Bytes that one write of merged elements has at most: what fits into an erase block.
        /// 4096: nothing is merged over pages.
        pub merge_bytes: u64 = PAGE,
        /// Elements that one pass writes.
        pub threshold: u32 = 64,
        /// Nanoseconds that one pass takes.
        pub slice: u64 = SECOND / 10,
        /// Nanoseconds from one pass to the next.
        pub interval: u64 = SECOND,
        /// Bytes of memory for pinned pages. From a half of it on passes come sooner and are
        /// longer, by a factor of 4; from three quarters on by 16.
        pub memory: u64 = 16 << 20,
        /// Writes behind it are not deferred: the file system may not take them.
        pub file_bytes_max: u64 = u32::MAX.into(),
    }
}

/// What was written for whom, in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Elements that were deferred instead of written.
    pub deferred: u64,
    /// Written by the actor.
    pub fflush: u64,
    /// By writers that found the memory full.
    pub writers: u64,
    /// By fsync, sync, unmount, and calls that cannot run beside dirty data.
    pub synced: u64,
    /// Writes that the file system got.
    pub writes: u64,
    /// Writes that were not deferred.
    pub direct: u64,
}

/// A file whose inode here is ahead of the file system's.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    size: u64,
    time: Time,
}

/// A file system behind the routine; `C` tells the time.
#[derive(Debug)]
pub struct WriteBack<F, C> {
    fs: F,
    clock: C,
    settings: Settings,
    flash_bh: Queue,
    ahead: BTreeMap<Ino, Ahead>,
    /// When the timer `flash_writeback` fires.
    timer: Option<Time>,
    /// References that callers hold, by inode.
    references: BTreeMap<Ino, u64>,
    /// Files without names, and files that we still refer to although nobody else does.
    nameless: BTreeSet<Ino>,
    kept: BTreeSet<Ino>,
    failed: BTreeMap<Ino, Errno>,
    /// What a merged write holds.
    merged: Vec<u8>,
    tally: Tally,
}

/// For whom elements are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    Fflush,
    Writer,
    Sync,
}

fn later(time: Time, nanos: u64) -> Time {
    let sum = u64::from(time.nanos) + nanos % SECOND;
    Time {
        secs: time
            .secs
            .saturating_add((nanos / SECOND + sum / SECOND) as i64),
        nanos: (sum % SECOND) as u32,
    }
}

impl<F: FileSystem, C: Fn() -> Time> WriteBack<F, C> {
    /// Puts the routine in front of a file system that nobody has referred to yet.
    pub fn new(fs: F, clock: C, settings: Settings) -> Self {
        Self {
            fs,
            clock,
            settings: Settings {
                merge_bytes: settings.merge_bytes.max(PAGE),
                threshold: settings.threshold.max(1),
                ..settings
            },
            flash_bh: Queue::default(),
            ahead: BTreeMap::new(),
            timer: None,
            references: BTreeMap::new(),
            nameless: BTreeSet::new(),
            kept: BTreeSet::new(),
            failed: BTreeMap::new(),
            merged: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// The file system behind.
    pub fn inner(&self) -> &F {
        &self.fs
    }

    /// The same, to be changed: not behind the routine's back.
    pub fn inner_mut(&mut self) -> &mut F {
        &mut self.fs
    }

    /// Gives the file system back as it is, as a power cut would: dirty data is lost.
    pub fn into_inner(self) -> F {
        self.fs
    }

    /// What was written for whom.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Returns the number of queued elements.
    pub fn queued(&self) -> usize {
        self.flash_bh.len()
    }

    /// By how much passes come sooner and are longer.
    fn pressure(&self) -> u64 {
        match self.flash_bh.bytes() {
            bytes if bytes >= self.settings.memory / 4 * 3 => 16,
            bytes if bytes >= self.settings.memory / 2 => 4,
            _ => 1,
        }
    }

    /// `mod_timer`: the next pass.
    fn mod_timer(&mut self, now: Time) {
        self.timer =
            (self.flash_bh.len() > 0).then(|| later(now, self.settings.interval / self.pressure()));
    }

    /// The actor: one pass, and the timer for the next.
    pub fn fflush(&mut self, now: Time) {
        let pressure = self.pressure();
        let threshold = (u64::from(self.settings.threshold) * pressure).min(u32::MAX.into()) as u32;
        self.wb_flash(
            threshold,
            later(now, self.settings.slice.saturating_mul(pressure)),
            For::Fflush,
        );
        let now = (self.clock)().max(now);
        self.mod_timer(now);
    }

    /// Takes elements from the list and writes them, until so many are written or the time is over.
    fn wb_flash(&mut self, threshold: u32, until: Time, whom: For) {
        let mut written = 0;
        while written < threshold {
            let Some(count) = self.write_next(None, whom) else {
                return;
            };
            written += count;
            if (self.clock)() >= until {
                return;
            }
        }
    }

    /// Writes the oldest element, of one file if it is named, with what can be merged with it;
    /// gives how many elements.
    fn write_next(&mut self, file: Option<Ino>, whom: For) -> Option<u32> {
        let mut data = core::mem::take(&mut self.merged);
        data.clear();
        let taken = self
            .flash_bh
            .take(file, self.settings.merge_bytes, &mut data);
        if let Some((element, count)) = &taken {
            let outcome = self.write_through(element, &data);
            let sum = match whom {
                For::Fflush => &mut self.tally.fflush,
                For::Writer => &mut self.tally.writers,
                For::Sync => &mut self.tally.synced,
            };
            *sum += u64::from(*count);
            if let Err(errno) = outcome {
                self.failed.entry(element.ino).or_insert(errno);
            }
            self.mark_clean(element.ino);
        }
        self.merged = data;
        taken.map(|(_, count)| count)
    }

    fn write_through(&mut self, element: &FlashBh, data: &[u8]) -> Result<(), Errno> {
        let time = self
            .ahead
            .get(&element.ino)
            .map_or_else(&self.clock, |ahead| ahead.time);
        self.tally.writes += 1;
        if element.node == NodeType::Hole {
            if self.fs.getattr(element.ino)?.size < element.limit() {
                self.fs.setattr(
                    element.ino,
                    &SetAttr {
                        size: Some(element.limit()),
                        ..SetAttr::default()
                    },
                    time,
                )?;
            }
            return Ok(());
        }
        let mut done = 0;
        while done < data.len() {
            match self.fs.write(
                element.ino,
                element.offset() + done as u64,
                &data[done..],
                time,
            )? {
                0 => return Err(Errno::NoSpace),
                count => done += count,
            }
        }
        Ok(())
    }

    /// Once a file has no dirty data left, the file system's inode is the one that counts.
    fn mark_clean(&mut self, ino: Ino) {
        if self.flash_bh.has(ino) {
            return;
        }
        self.ahead.remove(&ino);
        if self.kept.remove(&ino) {
            self.fs.forget(ino, 1);
        }
    }

    /// Writes all dirty data, of one file or of all.
    fn drain(&mut self, file: Option<Ino>, whom: For) {
        while self.write_next(file, whom).is_some() {}
        if self.flash_bh.len() == 0 {
            self.timer = None;
        }
    }

    /// Drops the dirty data of a removed file.
    fn drop_file(&mut self, ino: Ino) {
        self.flash_bh.cut(ino, 0);
        self.failed.remove(&ino);
        self.mark_clean(ino);
    }

    /// The attributes as callers see them.
    fn seen(&self, mut attr: Attr) -> Attr {
        if let Some(ahead) = self.ahead.get(&attr.ino) {
            (attr.size, attr.mtime, attr.ctime) = (ahead.size, ahead.time, ahead.time);
        }
        attr
    }

    fn refer(&mut self, attr: Attr) -> Attr {
        *self.references.entry(attr.ino).or_default() += 1;
        self.seen(attr)
    }

    /// The file that a name leads to, and whether it has no other.
    fn file(&mut self, dir: Ino, name: &[u8]) -> Option<(Ino, bool)> {
        let attr = self.fs.lookup(dir, name).ok()?;
        self.fs.forget(attr.ino, 1);
        (attr.kind == FileType::File).then_some((attr.ino, attr.links <= 1))
    }

    /// Before a name goes: the file that loses its last one. One that lives on is written first,
    /// since its times change with its names.
    fn before_loss(&mut self, dir: Ino, name: &[u8]) -> Option<Ino> {
        let (ino, last) = self.file(dir, name)?;
        if !last || self.references.contains_key(&ino) {
            self.drain(Some(ino), For::Sync);
        }
        last.then_some(ino)
    }

    fn lost_last_name(&mut self, ino: Ino) {
        if self.references.contains_key(&ino) {
            self.nameless.insert(ino);
        } else {
            self.drop_file(ino);
        }
    }

    /// What a page holds in the file system; zeros behind the end.
    fn page_of(fs: &mut F, ino: Ino, page: u64) -> Result<Box<[u8]>, Errno> {
        let mut data = vec![0; PAGE as usize].into_boxed_slice();
        let mut done = 0;
        while done < data.len() {
            match fs.read(ino, page * PAGE + done as u64, &mut data[done..])? {
                0 => break,
                count => done += count,
            }
        }
        Ok(data)
    }

    /// Whether a write of so many bytes may wait: it will find its space.
    fn may_wait(&mut self, end: Option<u64>, bytes: u64) -> Result<bool, Errno> {
        let Some(_) = end.filter(|end| *end <= self.settings.file_bytes_max) else {
            return Ok(false);
        };
        let statfs = self.fs.statfs()?;
        let space = statfs.available.saturating_mul(statfs.block_bytes.into());
        // Space for nodes' heads and the file system's own needs.
        Ok(space / 2
            >= self
                .flash_bh
                .bytes()
                .saturating_add(bytes.next_multiple_of(PAGE)))
    }

    /// `prepare_write` and `commit_write` of each page.
    fn defer(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<(), Errno> {
        let attr = self.getattr(ino)?;
        if offset > attr.size && offset / PAGE > attr.size.div_ceil(PAGE).saturating_sub(1) {
            self.flash_bh.push_hole(ino, offset, now);
            self.tally.deferred += 1;
        }
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let page = at / PAGE;
            let start = at % PAGE;
            let length = (PAGE - start).min((data.len() - done) as u64) as usize;
            let contents = match self.flash_bh.page(ino, page) {
                Some(_) => None,
                None if length as u64 == PAGE => Some(vec![0; PAGE as usize].into_boxed_slice()),
                None => Some(Self::page_of(&mut self.fs, ino, page)?),
            };
            let before = self.flash_bh.len();
            self.flash_bh
                .change((ino, page), start, &data[done..done + length], now, || {
                    contents.unwrap_or_default()
                });
            self.tally.deferred += (self.flash_bh.len() - before) as u64;
            done += length;
        }
        let size = attr.size.max(offset + data.len() as u64);
        self.ahead.insert(ino, Ahead { size, time: now });
        Ok(())
    }

    /// A write that does not wait, behind all that does.
    fn direct(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<usize, Errno> {
        self.drain(None, For::Writer);
        self.tally.direct += 1;
        self.fs.write(ino, offset, data, now)
    }

    /// What a deferred write has met.
    fn reported(&mut self, file: Option<Ino>) -> Result<(), Errno> {
        let failed = match file {
            Some(ino) => self.failed.remove(&ino),
            None => core::mem::take(&mut self.failed).into_values().next(),
        };
        failed.map_or(Ok(()), Err)
    }
}

impl<F: FileSystem, C: Fn() -> Time> FileSystem for WriteBack<F, C> {
    // Dirty data here is the routine's alone: the machine's own write-back knows nothing of it, as
    // the paper's pages are dirty to nobody else.
    delegate! { [self.fs] rmdir readlink readdir getxattr listxattr dirty write_back cause }

    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr, Errno> {
        let attr = self.fs.lookup(dir, name)?;
        Ok(self.refer(attr))
    }

    fn forget(&mut self, ino: Ino, references: u64) {
        let Some(left) = self.references.get_mut(&ino) else {
            return;
        };
        let given = references.min(*left);
        *left -= given;
        if *left > 0 {
            return self.fs.forget(ino, given);
        }
        self.references.remove(&ino);
        if self.nameless.remove(&ino) {
            self.drop_file(ino);
        }
        // While something is dirty, the file must keep its number: one reference stays ours.
        let keep = u64::from(self.flash_bh.has(ino) && self.kept.insert(ino));
        if given > keep {
            self.fs.forget(ino, given - keep);
        }
    }

    fn getattr(&mut self, ino: Ino) -> Result<Attr, Errno> {
        let attr = self.fs.getattr(ino)?;
        Ok(self.seen(attr))
    }

    fn setattr(&mut self, ino: Ino, change: &SetAttr, now: Time) -> Result<Attr, Errno> {
        let only_size = SetAttr {
            size: None,
            ..*change
        } == SetAttr::default();
        if !only_size {
            // Later writes would set the times anew.
            self.drain(Some(ino), For::Sync);
        }
        let attr = self.fs.setattr(ino, change, now)?;
        if let Some(size) = change.size.filter(|_| self.ahead.contains_key(&ino)) {
            self.flash_bh.cut(ino, size);
            self.ahead.insert(
                ino,
                Ahead {
                    size,
                    time: attr.mtime,
                },
            );
            self.mark_clean(ino);
        }
        Ok(self.seen(attr))
    }

    fn create(
        &mut self,
        dir: Ino,
        name: &[u8],
        node: NewNode<'_>,
        mode: u16,
        by: Caller,
    ) -> Result<Attr, Errno> {
        let attr = self.fs.create(dir, name, node, mode, by)?;
        Ok(self.refer(attr))
    }

    fn link(&mut self, ino: Ino, dir: Ino, name: &[u8], now: Time) -> Result<Attr, Errno> {
        self.drain(Some(ino), For::Sync);
        let attr = self.fs.link(ino, dir, name, now)?;
        Ok(self.refer(attr))
    }

    fn unlink(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<(), Errno> {
        let lost = self.before_loss(dir, name);
        self.fs.unlink(dir, name, now)?;
        lost.into_iter().for_each(|ino| self.lost_last_name(ino));
        Ok(())
    }

    fn rename(
        &mut self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        how: Rename,
        now: Time,
    ) -> Result<(), Errno> {
        let moved = self.file(from.0, from.1).map(|(ino, _)| ino);
        let other = self.file(to.0, to.1);
        moved
            .into_iter()
            .chain(other.map(|(ino, _)| ino))
            .for_each(|ino| self.drain(Some(ino), For::Sync));
        self.fs.rename(from, to, how, now)?;
        if let Some((ino, true)) =
            other.filter(|(ino, _)| how == Rename::Replace && Some(*ino) != moved)
        {
            self.lost_last_name(ino);
        }
        Ok(())
    }

    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        let Some(ahead) = self.ahead.get(&ino).copied() else {
            return self.fs.read(ino, offset, buf);
        };
        let count = (buf.len() as u64).min(ahead.size.saturating_sub(offset));
        let end = offset + count;
        let mut at = offset;
        while at < end {
            let page = at / PAGE;
            let into = at % PAGE;
            let part = match self.flash_bh.page(ino, page) {
                Some(data) => {
                    let length = (PAGE - into).min(end - at);
                    buf[(at - offset) as usize..][..length as usize]
                        .copy_from_slice(&data[into as usize..][..length as usize]);
                    length
                }
                None => {
                    let next = self
                        .flash_bh
                        .next_page(ino, page)
                        .map_or(end, |page| (page * PAGE).min(end));
                    let hole = &mut buf[(at - offset) as usize..(next - offset) as usize];
                    let found = self.fs.read(ino, at, hole)?;
                    // Behind the file system's end, as far as we are ahead of it.
                    hole[found..].fill(0);
                    next - at
                }
            };
            at += part;
        }
        Ok(count as usize)
    }

    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<usize, Errno> {
        let end = offset.checked_add(data.len() as u64);
        let bytes = data.len() as u64;
        let is_file = self.getattr(ino)?.kind == FileType::File;
        if !is_file || data.is_empty() || !self.may_wait(end, bytes)? {
            return self.direct(ino, offset, data, now);
        }
        if self.flash_bh.bytes().saturating_add(bytes) > self.settings.memory {
            self.drain(None, For::Writer);
        }
        if bytes > self.settings.memory {
            return self.direct(ino, offset, data, now);
        }
        self.defer(ino, offset, data, now)?;
        if self.timer.is_none() {
            self.mod_timer(now);
        }
        Ok(data.len())
    }

    fn fsync(&mut self, ino: Ino, what: Sync) -> Result<(), Errno> {
        self.drain(Some(ino), For::Sync);
        self.reported(Some(ino))?;
        self.fs.fsync(ino, what)
    }

    fn sync(&mut self) -> Result<(), Errno> {
        self.drain(None, For::Sync);
        self.fs.sync()?;
        self.reported(None)
    }

    fn unmount(&mut self) -> Result<(), Errno> {
        self.drain(None, For::Sync);
        self.fs.unmount()?;
        self.reported(None)
    }

    fn statfs(&mut self) -> Result<StatFs, Errno> {
        let statfs = self.fs.statfs()?;
        let queued = self.flash_bh.bytes() / u64::from(statfs.block_bytes.max(1));
        Ok(StatFs {
            free: statfs.free.saturating_sub(queued),
            available: statfs.available.saturating_sub(queued),
            ..statfs
        })
    }

    fn setxattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        expect: SetXattr,
        now: Time,
    ) -> Result<(), Errno> {
        self.drain(Some(ino), For::Sync);
        self.fs.setxattr(ino, name, value, expect, now)
    }

    fn removexattr(&mut self, ino: Ino, name: &[u8], now: Time) -> Result<(), Errno> {
        self.drain(Some(ino), For::Sync);
        self.fs.removexattr(ino, name, now)
    }

    fn due(&self) -> Option<Time> {
        self.timer.into_iter().chain(self.fs.due()).min()
    }

    fn work(&mut self, now: Time) -> Result<(), Errno> {
        if self.timer.is_some_and(|timer| timer <= now) {
            self.fflush(now);
        }
        match self.fs.due() {
            Some(due) if due <= now => self.fs.work(now),
            _ => Ok(()),
        }
    }
}
