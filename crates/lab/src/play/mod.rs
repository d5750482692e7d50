//! Plays a stream of file calls on a file system.
//!
//! *Promises.* Each call is carried out in full or named in the error: its number, the call, the
//! file, the cause. Writes bring the bytes that [`Contents`](nandlab_workload::files::Contents) has
//! for them, so that [`verify`](verify()) can tell from the calls alone what must be found.
//! Everything happens in one directory. *Needs* memory for one piece of a request, and for each
//! open file. *Knows nothing of* what the file system stands on: what it writes is reported to
//! [`regions`] by an adapter below.

pub mod regions;
mod verify;

pub use verify::{FileSum, VerifyError, expected_sums, verify};

use nandlab_vfs::{Caller, Errno, FileSystem, Ino, NewNode, SetAttr, Sync, Time};
use nandlab_workload::files::{FileCall, FileCalls, FileId};
use std::collections::BTreeMap;

/// Bytes of the largest piece in which a read or write reaches the file system.
const PIECE: u64 = 1 << 20;
/// Permission bits of new files.
const MODE: u16 = 0o644;

/// How many calls of each kind were carried out, and what they moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// Files that were created.
    pub creates: u64,
    /// Files opened that were there.
    pub opens: u64,
    /// Open files that were closed.
    pub closes: u64,
    /// Read calls that were made.
    pub reads: u64,
    /// Bytes that reads returned.
    pub bytes_read: u64,
    /// Write calls that were made.
    pub writes: u64,
    /// Bytes that writes accepted.
    pub bytes_written: u64,
    /// Calls that set a file's length.
    pub truncates: u64,
    /// Calls of fsync and fdatasync.
    pub fsyncs: u64,
    /// Files that were removed.
    pub removes: u64,
    /// Times that everything was made durable.
    pub syncs: u64,
    /// Times that the program worked by itself.
    pub computes: u64,
}

impl Played {
    /// Calls of all kinds.
    pub fn calls(&self) -> u64 {
        let Self {
            creates,
            opens,
            closes,
            reads,
            writes,
            truncates,
            fsyncs,
            removes,
            syncs,
            computes,
            ..
        } = self;
        creates + opens + closes + reads + writes + truncates + fsyncs + removes + syncs + computes
    }

    fn count(&mut self, call: &FileCall) {
        match call {
            FileCall::Create { .. } => self.creates += 1,
            FileCall::Open { .. } => self.opens += 1,
            FileCall::Close { .. } => self.closes += 1,
            FileCall::Read { length, .. } => {
                (self.reads, self.bytes_read) = (self.reads + 1, self.bytes_read + length)
            }
            FileCall::Write { length, .. } => {
                (self.writes, self.bytes_written) = (self.writes + 1, self.bytes_written + length)
            }
            FileCall::Truncate { .. } => self.truncates += 1,
            FileCall::Fsync { .. } | FileCall::Fdatasync { .. } => self.fsyncs += 1,
            FileCall::Remove { .. } => self.removes += 1,
            FileCall::Sync => self.syncs += 1,
            FileCall::Compute { .. } => self.computes += 1,
        }
    }
}

/// Why a call was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The file system refused.
    #[error("{} ({})", .0, .0.name())]
    Refused(#[from] Errno),
    /// It did less than was asked.
    #[error("{done} of {asked} bytes were moved")]
    Short {
        /// Bytes that the call moved.
        done: u64,
        /// Bytes that the call asked for.
        asked: u64,
    },
    /// The stream uses a file that it has not opened.
    #[error("the file is not open")]
    NotOpen,
    /// The stream opens a file twice, or removes an open one.
    #[error("the file is open")]
    IsOpen,
}

/// A call that was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("call {number}, {call}{}: {cause}", if name.is_empty() { String::new() } else { format!(" of {name}") })]
pub struct PlayError {
    /// Its number in the stream, from 1.
    pub number: u64,
    /// The call that failed.
    pub call: FileCall,
    /// The file's name; empty where there is none.
    pub name: String,
    /// What came in between.
    pub cause: Cause,
}

impl PlayError {
    /// Whether the call was impossible, so that the stream of calls is to blame.
    pub fn is_bad_input(&self) -> bool {
        !matches!(
            self.cause,
            Cause::Refused(Errno::Io | Errno::ReadOnly) | Cause::Short { .. }
        )
    }
}

/// Carries calls out, one after another. For those who time, interleave or cut short; otherwise
/// there is [`play`].
#[derive(Clone, Debug)]
pub struct Player {
    dir: Ino,
    open: BTreeMap<FileId, Ino>,
    played: Played,
    buf: Vec<u8>,
}

impl Player {
    /// In a directory that the caller keeps a reference to.
    pub fn new(dir: Ino) -> Self {
        Self {
            dir,
            open: BTreeMap::new(),
            played: Played::default(),
            buf: Vec::new(),
        }
    }

    /// What was carried out so far.
    pub fn played(&self) -> &Played {
        &self.played
    }

    /// Carries out one call of the stream `calls`, at the time `now`.
    pub fn step<F, C>(
        &mut self,
        fs: &mut F,
        calls: &C,
        call: &FileCall,
        now: Time,
    ) -> Result<(), PlayError>
    where
        F: FileSystem + ?Sized,
        C: FileCalls + ?Sized,
    {
        self.carry_out(fs, calls, call, now).map_err(|cause| {
            let name = call.file().map(|file| calls.name(file)).unwrap_or_default();
            PlayError {
                number: self.played.calls() + 1,
                call: *call,
                name,
                cause,
            }
        })?;
        self.played.count(call);
        Ok(())
    }

    fn carry_out<F, C>(
        &mut self,
        fs: &mut F,
        calls: &C,
        call: &FileCall,
        now: Time,
    ) -> Result<(), Cause>
    where
        F: FileSystem + ?Sized,
        C: FileCalls + ?Sized,
    {
        match *call {
            FileCall::Create { file } => {
                let name = self.closed(calls, file)?;
                let made = fs.create(
                    self.dir,
                    name.as_bytes(),
                    NewNode::File,
                    MODE,
                    Caller::root(now),
                )?;
                self.open.insert(file, made.ino);
            }
            FileCall::Open { file } => {
                let name = self.closed(calls, file)?;
                let found = fs.lookup(self.dir, name.as_bytes())?;
                self.open.insert(file, found.ino);
            }
            FileCall::Close { file } => {
                fs.forget(self.open.remove(&file).ok_or(Cause::NotOpen)?, 1)
            }
            FileCall::Read {
                file,
                offset,
                length,
            } => self.read(fs, file, offset, length)?,
            FileCall::Write {
                file,
                offset,
                length,
                version,
            } => {
                let contents = calls.contents();
                self.write(fs, (file, offset, length), now, |at, piece| {
                    contents.fill(file, version, at, piece)
                })?;
            }
            FileCall::Truncate { file, length } => {
                fs.setattr(
                    self.ino(file)?,
                    &SetAttr {
                        size: Some(length),
                        ..SetAttr::default()
                    },
                    now,
                )?;
            }
            FileCall::Fsync { file } => fs.fsync(self.ino(file)?, Sync::All)?,
            FileCall::Fdatasync { file } => fs.fsync(self.ino(file)?, Sync::Data)?,
            FileCall::Remove { file } => {
                fs.unlink(self.dir, self.closed(calls, file)?.as_bytes(), now)?
            }
            FileCall::Sync => fs.sync()?,
            // The caller spends its time.
            FileCall::Compute { .. } => {}
        }
        Ok(())
    }

    fn ino(&self, file: FileId) -> Result<Ino, Cause> {
        self.open.get(&file).copied().ok_or(Cause::NotOpen)
    }

    /// The name of a file that must not be open.
    fn closed<C: FileCalls + ?Sized>(&self, calls: &C, file: FileId) -> Result<String, Cause> {
        if self.open.contains_key(&file) {
            Err(Cause::IsOpen)
        } else {
            Ok(calls.name(file))
        }
    }

    /// The buffer, as long as the next piece of so many bytes.
    fn piece(&mut self, left: u64) -> &mut [u8] {
        let length = left.min(PIECE) as usize;
        if self.buf.len() < length {
            self.buf.resize(length, 0);
        }
        &mut self.buf[..length]
    }

    fn read<F: FileSystem + ?Sized>(
        &mut self,
        fs: &mut F,
        file: FileId,
        offset: u64,
        length: u64,
    ) -> Result<(), Cause> {
        let ino = self.ino(file)?;
        let mut done = 0;
        while done < length {
            match fs.read(ino, offset + done, self.piece(length - done))? {
                0 => {
                    return Err(Cause::Short {
                        done,
                        asked: length,
                    });
                }
                count => done += count as u64,
            }
        }
        Ok(())
    }

    fn write<F: FileSystem + ?Sized>(
        &mut self,
        fs: &mut F,
        (file, offset, length): (FileId, u64, u64),
        now: Time,
        fill: impl Fn(u64, &mut [u8]),
    ) -> Result<(), Cause> {
        let ino = self.ino(file)?;
        let mut done = 0;
        while done < length {
            let piece = self.piece(length - done);
            fill(offset + done, piece);
            match fs.write(ino, offset + done, piece, now)? {
                0 => {
                    return Err(Cause::Short {
                        done,
                        asked: length,
                    });
                }
                count => done += count as u64,
            }
        }
        Ok(())
    }
}

/// What is played, for the one who looks on.
#[derive(Clone, Copy, Debug)]
pub enum Moment {
    /// The call is about to be made.
    Before,
    /// It was carried out.
    After,
}

/// Plays a whole stream in the root directory. `now` is asked for the time of each call; `each` is
/// notified of each call before and after.
pub fn play<F, C>(
    fs: &mut F,
    calls: &mut C,
    now: &mut dyn FnMut() -> Time,
    each: &mut dyn FnMut(Moment, &FileCall),
) -> Result<Played, PlayError>
where
    F: FileSystem + ?Sized,
    C: FileCalls + ?Sized,
{
    let mut player = Player::new(Ino::ROOT);
    while let Some(call) = calls.next() {
        each(Moment::Before, &call);
        player.step(fs, calls, &call, now())?;
        each(Moment::After, &call);
    }
    Ok(player.played)
}

#[cfg(test)]
mod tests;
