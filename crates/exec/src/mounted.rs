//! A mounted file system in a program: calls by inode become calls by path.

use crate::chip::ProgramChip;
use crate::names::{Names, ROOT, join};
use crate::process::{Process, ProgramError};
use crate::session::Session;
use crate::wire::{self, Head};
use nandlab_vfs::{
    Attr, Call, Caller, DirEntry, Errno, Fault, FileSystem, FileType, Gate, Gated, Ino, NAME_MAX,
    NewNode, Rename, SetAttr, StatFs, Sync, Time, check_name, delegate,
};
use std::sync::Arc;

/// The most bytes of a file that one call carries.
const PIECE: usize = 1 << 16;
/// The longest file, less a byte.
const LENGTH_MAX: u64 = u32::MAX as u64;

/// Why a call on files failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FilesError {
    /// The call asked for something impossible.
    #[error("{0}")]
    Refused(Errno),
    /// The program failed.
    #[error(transparent)]
    Program(Arc<ProgramError>),
    /// An earlier write failed.
    #[error("read-only since an earlier write failed")]
    Failed,
}

impl From<ProgramError> for FilesError {
    fn from(error: ProgramError) -> Self {
        Self::Program(Arc::new(error))
    }
}

impl Fault for FilesError {
    fn errno(&self) -> Errno {
        match self {
            Self::Refused(errno) => *errno,
            Self::Program(_) => Errno::Io,
            Self::Failed => Errno::ReadOnly,
        }
    }

    fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_))
    }

    fn is_fatal(&self) -> bool {
        matches!(self, Self::Program(_))
    }

    fn failed() -> Self {
        Self::Failed
    }
}

type Result<T> = std::result::Result<T, FilesError>;

fn refused<T>(errno: Errno) -> Result<T> {
    Err(FilesError::Refused(errno))
}

/// The file system that a program keeps on this flash.
pub struct Files<M> {
    session: Session,
    flash: M,
    names: Names,
    gate: Gate<FilesError>,
}

impl<M: ProgramChip> Files<M> {
    /// A process of the program. It makes or mounts the file system, as `call` asks.
    pub fn begin(
        process: &Process,
        mut flash: M,
        call: u32,
    ) -> std::result::Result<Self, ProgramError> {
        let (session, answer) = Session::begin(process, &mut flash, call, 2 * PIECE)?;
        match answer[0] {
            wire::OK => Ok(Self {
                session,
                flash,
                names: Names::new(),
                gate: Gate::new(false),
            }),
            status => Err(session.failure(call, status)),
        }
    }

    /// The flash as it is now.
    pub fn into_flash(self) -> M {
        self.flash
    }

    /// Makes a call; gives the two numbers of its answer.
    fn ask(&mut self, kind: u32, numbers: [u32; 2], parts: &[&[u8]]) -> Result<[u32; 2]> {
        let [first, second] = numbers;
        let head = Head::new(kind, [first, second, 0]);
        let [status, first, second] = self.session.call(&mut self.flash, head, parts)?;
        if status == wire::OK {
            return Ok([first, second]);
        }
        let errno = Errno::ALL
            .iter()
            .find(|errno| errno.code() as u32 == status);
        match errno {
            Some(errno) if *errno != Errno::Io => refused(*errno),
            _ => Err(self.session.failure(kind, status).into()),
        }
    }

    fn path(&self, ino: Ino) -> Result<Vec<u8>> {
        let path = self.names.path(ino);
        path.map(<[u8]>::to_vec)
            .ok_or(FilesError::Refused(Errno::Stale))
    }

    /// The path of a name in a directory, whether or not something is there. A path stands for an
    /// inode until a caller refers to it.
    fn child_of(&self, dir: Ino, name: &[u8]) -> Result<Vec<u8>> {
        check_name(name).or_else(refused)?;
        Ok(join(&self.path(self.check_directory(dir)?)?, name))
    }

    fn check_directory(&self, ino: Ino) -> Result<Ino> {
        match self.names.kind(ino) {
            Some(FileType::Directory) => Ok(ino),
            Some(_) => refused(Errno::NotDirectory),
            None => refused(Errno::Stale),
        }
    }

    /// The type of what lies at a path, and its bytes.
    fn stat(&mut self, path: &[u8]) -> Result<(FileType, u64)> {
        let [kind, size] = self.ask(wire::STAT, [0; 2], &[path])?;
        let kind = kind_of(kind, wire::STAT)?;
        Ok((kind, size.into()))
    }

    fn number(&self, ino: Ino) -> Result<Ino> {
        Ok(ino)
    }

    fn in_use(&self, ino: Ino) -> Result<Ino> {
        self.path(ino)?;
        Ok(ino)
    }

    fn check_file(&self, ino: Ino) -> Result<Ino> {
        match self.names.kind(ino) {
            Some(FileType::Directory) => refused(Errno::IsDirectory),
            Some(_) => Ok(ino),
            None => refused(Errno::Stale),
        }
    }

    fn attr(&mut self, ino: Ino) -> Result<Attr> {
        let path = self.path(ino)?;
        let (kind, size) = self.stat(&path)?;
        Ok(attributes(ino, kind, size))
    }

    fn refer(&mut self, path: Vec<u8>) -> Result<Attr> {
        let (kind, size) = self.stat(&path)?;
        Ok(attributes(self.names.refer(&path, kind), kind, size))
    }

    fn look_up(&mut self, dir: Ino, name: &[u8]) -> Result<Attr> {
        let path = self.child_of(dir, name)?;
        self.refer(path)
    }

    fn set(&mut self, ino: Ino, change: &SetAttr, _: Time) -> Result<Attr> {
        if change.mode.is_some() || change.uid.is_some() || change.gid.is_some() {
            return refused(Errno::NotPermitted);
        }
        if let Some(size) = change.size {
            let ino = self.check_file(ino)?;
            let path = self.path(ino)?;
            self.ask(wire::TRUNCATE, [within(size)?, 0], &[&path])?;
        }
        self.attr(ino)
    }

    fn make(
        &mut self,
        dir: Ino,
        name: &[u8],
        node: NewNode<'_>,
        _: u16,
        _: Caller,
    ) -> Result<Vec<u8>> {
        let kind = match node {
            NewNode::File => wire::FILE,
            NewNode::Directory => wire::DIRECTORY,
            _ => return refused(Errno::NotPermitted),
        };
        let path = self.child_of(dir, name)?;
        match self.stat(&path) {
            Err(FilesError::Refused(Errno::NoEntry)) => {}
            Err(error) => return Err(error),
            Ok(_) => return refused(Errno::Exists),
        }
        self.ask(wire::CREATE, [kind, 0], &[&path])?;
        Ok(path)
    }

    fn remove(&mut self, dir: Ino, name: &[u8], is_rmdir: bool) -> Result<()> {
        let path = self.child_of(dir, name)?;
        match (self.stat(&path)?.0, is_rmdir) {
            (FileType::Directory, false) => return refused(Errno::IsDirectory),
            (FileType::File, true) => return refused(Errno::NotDirectory),
            _ => {}
        }
        self.ask(wire::REMOVE, [0; 2], &[&path])?;
        self.names.removed(&path);
        Ok(())
    }

    fn rename_name(&mut self, from: (Ino, &[u8]), to: (Ino, &[u8]), how: Rename) -> Result<()> {
        let old = self.child_of(from.0, from.1)?;
        let new = self.child_of(to.0, to.1)?;
        let (kind, _) = self.stat(&old)?;
        if how == Rename::Exchange || new.starts_with(&join(&old, b"")) {
            return refused(Errno::Invalid);
        }
        let replaced = match self.stat(&new) {
            Err(FilesError::Refused(Errno::NoEntry)) => None,
            other => Some(other?.0),
        };
        match (kind, replaced) {
            (_, Some(_)) if how == Rename::NoReplace => return refused(Errno::Exists),
            (_, Some(_)) if old == new => return Ok(()),
            (FileType::Directory, Some(FileType::File)) => return refused(Errno::NotDirectory),
            (FileType::File, Some(FileType::Directory)) => return refused(Errno::IsDirectory),
            _ => {}
        }
        let length = old.len() as u32;
        self.ask(wire::RENAME, [length, 0], &[&old, &new])?;
        self.names.renamed(&old, &new);
        Ok(())
    }

    fn read_file(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let path = self.path(ino)?;
        let mut done = 0;
        while done < buf.len() {
            let at = offset.saturating_add(done as u64);
            let length = (buf.len() - done).min(PIECE);
            if at > LENGTH_MAX {
                break;
            }
            self.ask(wire::READ_FILE, [at as u32, length as u32], &[&path])?;
            let bytes = self.session.payload();
            if bytes.len() > length {
                let found = format!("{} bytes", bytes.len());
                return Err(out_of_bounds(wire::READ_FILE, found, "as many as asked for").into());
            }
            let read = bytes.len();
            buf[done..done + read].copy_from_slice(bytes);
            done += read;
            if read < length {
                break;
            }
        }
        Ok(done)
    }

    fn write_data(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Result<usize> {
        within(offset.saturating_add(data.len() as u64))?;
        let path = self.path(ino)?;
        let mut at = offset as u32;
        for piece in data.chunks(PIECE) {
            self.ask(wire::WRITE_FILE, [at, path.len() as u32], &[&path, piece])?;
            at += piece.len() as u32;
        }
        Ok(data.len())
    }

    fn list(
        &mut self,
        dir: Ino,
        from: u64,
        each: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let path = self.path(self.check_directory(dir)?)?;
        let mut next = within(from)?;
        loop {
            self.ask(wire::LIST, [next, 0], &[&path])?;
            let entries = entries(self.session.payload())?;
            if entries.is_empty() {
                return Ok(());
            }
            for (kind, name) in entries {
                next += 1;
                let ino = self.names.hint(&join(&path, name));
                let next = next.into();
                let entry = DirEntry {
                    ino,
                    kind,
                    name,
                    next,
                };
                if !each(entry) {
                    return Ok(());
                }
            }
        }
    }

    fn sync_inode(&mut self, ino: Ino, _: Sync) -> Result<()> {
        let path = self.path(ino)?;
        self.ask(wire::SYNC, [0; 2], &[&path])?;
        Ok(())
    }

    fn sync_volume(&mut self) -> Result<()> {
        self.ask(wire::SYNC, [0; 2], &[ROOT])?;
        Ok(())
    }

    fn sizes(&mut self) -> Result<StatFs> {
        let [bytes, free] = self.ask(wire::SPACE, [0; 2], &[])?;
        let block_bytes = self.flash.geometry().page;
        let blocks = |bytes: u32| u64::from(bytes / block_bytes);
        Ok(StatFs {
            block_bytes,
            blocks: blocks(bytes),
            free: blocks(free),
            available: blocks(free),
            inodes: 0,
            inodes_free: 0,
            name_max: NAME_MAX as u32,
        })
    }

    fn close(&mut self) -> Result<()> {
        if self.gate.close()? {
            self.sync_volume()?;
        }
        Ok(())
    }

    fn change<T>(
        &mut self,
        call: Call<'_>,
        _: Time,
        run: impl FnOnce(&mut Self) -> Result<T>,
    ) -> nandlab_vfs::Result<T> {
        self.write_call(call, run)
    }
}

/// The attributes of what has none but its length.
fn attributes(ino: Ino, kind: FileType, size: u64) -> Attr {
    let is_directory = kind == FileType::Directory;
    let none = Time::default();
    Attr {
        ino,
        kind,
        mode: if is_directory { 0o755 } else { 0o644 },
        uid: 0,
        gid: 0,
        links: if is_directory { 2 } else { 1 },
        size,
        blocks: size.div_ceil(512),
        device: (0, 0),
        atime: none,
        mtime: none,
        ctime: none,
        btime: None,
    }
}

/// The names in a list: a byte for the kind, the name, and NUL.
fn entries(bytes: &[u8]) -> Result<Vec<(FileType, &[u8])>> {
    let broken = |found: String| out_of_bounds(wire::LIST, found, "a kind, a name and NUL");
    let Some(text) = bytes.strip_suffix(&[0]) else {
        return match bytes {
            [] => Ok(Vec::new()),
            _ => Err(broken("a name without an end".into()).into()),
        };
    };
    text.split(|byte| *byte == 0)
        .map(|bytes| match bytes {
            [kind, name @ ..] if check_name(name).is_ok() => {
                Ok((kind_of((*kind).into(), wire::LIST)?, name))
            }
            _ => Err(broken(format!("\"{}\"", bytes.escape_ascii())).into()),
        })
        .collect()
}

fn kind_of(number: u32, call: u32) -> Result<FileType> {
    match number {
        wire::FILE => Ok(FileType::File),
        wire::DIRECTORY => Ok(FileType::Directory),
        _ => {
            let found = format!("kind {number}");
            Err(out_of_bounds(call, found, "1 for a file or 2 for a directory").into())
        }
    }
}

fn out_of_bounds(kind: u32, found: String, expected: &'static str) -> ProgramError {
    let call = wire::name(kind);
    ProgramError::Protocol {
        call,
        found,
        expected,
    }
}

/// A number that the protocol can carry.
fn within(bytes: u64) -> Result<u32> {
    u32::try_from(bytes).map_err(|_| FilesError::Refused(Errno::FileTooBig))
}

impl<M: ProgramChip> Gated for Files<M> {
    type Error = FilesError;

    fn gate(&mut self) -> &mut Gate<FilesError> {
        &mut self.gate
    }
}

impl<M: ProgramChip> FileSystem for Files<M> {
    delegate! { [gate]
        lookup getattr setattr create unlink rmdir rename read write readdir fsync sync unmount
        statfs cause
    }

    fn forget(&mut self, ino: Ino, references: u64) {
        self.names.forget(ino, references);
    }

    fn link(&mut self, _: Ino, _: Ino, _: &[u8], _: Time) -> nandlab_vfs::Result<Attr> {
        Err(Errno::NotPermitted)
    }

    fn readlink(&mut self, _: Ino) -> nandlab_vfs::Result<Vec<u8>> {
        Err(Errno::Invalid)
    }
}
