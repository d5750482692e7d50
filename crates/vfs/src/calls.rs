//! The calls of [`FileSystem`](crate::FileSystem), written once for all who pass them on.
//!
//! *Promises.* [`delegate!`](crate::delegate) is the only list of signatures beside the trait. A
//! wrapper names the calls that it passes on. A file system with a [`Gate`](crate::Gate) names
//! those that its own methods carry out.

/// Writes methods of [`FileSystem`](crate::FileSystem). The receiver comes first, then the names of
/// the calls.
///
/// | receiver | each call goes to |
/// |---|---|
/// | `[self.field]` | the same call of the field |
/// | `[self.method()]` | the same call, in a closure that the method gets |
/// | `[**]` | the same call of what a pointer points to |
/// | `[gate]` | methods of the file system itself, through its [`Gate`](crate::Gate) |
///
/// With `[gate]` the file system implements [`Gated`](crate::Gated), has a method
/// `change(call, now, run)` for calls that change something, and these methods on its own inode
/// numbers. Those of calls that are not named may be missing.
///
/// - Numbers: `number` (of an [`Ino`](crate::Ino)), `in_use` (the same, checked), `check_file` (the
///   same, a file).
/// - Inodes and names: `attr`, `refer`, `look_up`, `set`, `make`, `link_name`, `remove`,
///   `rename_name`, `target`, `list`.
/// - Contents: `read_file`, `write_data`, `next_data`, `sync_inode`.
/// - Attributes: `get_attribute`, `set_attribute`, `list_attributes`.
/// - The volume: `sync_volume`, `sizes`, `write_oldest`, `do_due`, `close`.
///
/// ```
/// use nandlab_vfs::{Errno, FileSystem, Ino, MemFs, Time, delegate};
///
/// /// Refuses to write.
/// struct Frozen(MemFs);
///
/// impl FileSystem for Frozen {
///     delegate! { [self.0]
///         lookup forget getattr setattr create link unlink rmdir rename readlink read readdir
///         fsync sync unmount statfs
///     }
///     fn write(&mut self, _: Ino, _: u64, _: &[u8], _: Time) -> Result<usize, Errno> {
///         Err(Errno::ReadOnly)
///     }
/// }
///
/// let mut fs = Frozen(MemFs::new(1 << 20, Time::default()));
/// assert!(fs.getattr(Ino::ROOT).is_ok());
/// assert_eq!(fs.write(Ino::ROOT, 0, b"x", Time::default()), Err(Errno::ReadOnly));
/// ```
#[macro_export]
macro_rules! delegate {
    (@pass [**] $fs:ident $($call:tt)*) => { (**$fs).$($call)* };
    (@pass [self.$via:ident()] $fs:ident $($call:tt)*) => { $fs.$via(|fs| fs.$($call)*) };
    (@pass [self.$field:tt] $fs:ident $($call:tt)*) => { $fs.$field.$($call)* };
    (@pass [gate] $fs:ident lookup($dir:ident, $name:ident)) => {
        $crate::Gated::look($fs, $crate::Call::named("lookup", $dir, $name), |fs| {
            let dir = fs.number($dir)?;
            fs.look_up(dir, $name)
        })
    };
    (@pass [gate] $fs:ident getattr($ino:ident)) => {
        $crate::Gated::look($fs, $crate::Call::on("getattr", $ino), |fs| {
            let number = fs.number($ino)?;
            fs.attr(number)
        })
    };
    (@pass [gate] $fs:ident setattr($ino:ident, $change:ident, $now:ident)) => {
        $fs.change($crate::Call::on("setattr", $ino), $now, |fs| fs.set($ino, $change, $now))
    };
    (@pass [gate] $fs:ident
        create($dir:ident, $name:ident, $node:ident, $mode:ident, $by:ident)
    ) => {
        $fs.change($crate::Call::named("create", $dir, $name), $by.now, |fs| {
            let dir = fs.number($dir)?;
            let child = fs.make(dir, $name, $node, $mode, $by)?;
            fs.refer(child)
        })
    };
    (@pass [gate] $fs:ident link($ino:ident, $dir:ident, $name:ident, $now:ident)) => {
        $fs.change($crate::Call::named("link", $dir, $name), $now, |fs| {
            let number = fs.number($ino)?;
            let dir = fs.number($dir)?;
            fs.link_name(number, dir, $name)?;
            fs.refer(number)
        })
    };
    (@pass [gate] $fs:ident unlink($dir:ident, $name:ident, $now:ident)) => {
        $fs.change($crate::Call::named("unlink", $dir, $name), $now, |fs| {
            let dir = fs.number($dir)?;
            fs.remove(dir, $name, false)
        })
    };
    (@pass [gate] $fs:ident rmdir($dir:ident, $name:ident, $now:ident)) => {
        $fs.change($crate::Call::named("rmdir", $dir, $name), $now, |fs| {
            let dir = fs.number($dir)?;
            fs.remove(dir, $name, true)
        })
    };
    (@pass [gate] $fs:ident rename($from:ident, $to:ident, $how:ident, $now:ident)) => {
        $fs.change($crate::Call::named("rename", $from.0, $from.1), $now, |fs| {
            let old = fs.number($from.0)?;
            let new = fs.number($to.0)?;
            fs.rename_name((old, $from.1), (new, $to.1), $how)
        })
    };
    (@pass [gate] $fs:ident readlink($ino:ident)) => {
        $crate::Gated::look($fs, $crate::Call::on("readlink", $ino), |fs| {
            let number = fs.number($ino)?;
            fs.target(number)
        })
    };
    (@pass [gate] $fs:ident read($ino:ident, $offset:ident, $buf:ident)) => {
        $crate::Gated::look($fs, $crate::Call::on("read", $ino), |fs| {
            let number = fs.check_file($ino)?;
            fs.read_file(number, $offset, $buf)
        })
    };
    (@pass [gate] $fs:ident write($ino:ident, $offset:ident, $data:ident, $now:ident)) => {
        $fs.change($crate::Call::on("write", $ino), $now, |fs| {
            let number = fs.check_file($ino)?;
            if $data.is_empty() {
                return Ok(0);
            }
            fs.write_data(number, $offset, $data)
        })
    };
    (@pass [gate] $fs:ident next_data($ino:ident, $offset:ident)) => {
        $crate::Gated::look($fs, $crate::Call::on("seek", $ino), |fs| {
            let number = fs.check_file($ino)?;
            fs.next_data(number, $offset)
        })
    };
    (@pass [gate] $fs:ident readdir($dir:ident, $from:ident, $each:ident)) => {
        $crate::Gated::look($fs, $crate::Call::on("readdir", $dir), |fs| {
            let dir = fs.number($dir)?;
            fs.list(dir, $from, $each)
        })
    };
    (@pass [gate] $fs:ident fsync($ino:ident, $what:ident)) => {
        $crate::Gated::write_call($fs, $crate::Call::on("fsync", $ino), |fs| {
            let number = fs.in_use($ino)?;
            fs.sync_inode(number, $what)
        })
    };
    (@pass [gate] $fs:ident sync()) => {
        if $crate::Gated::gate($fs).is_read_only() {
            $crate::Gated::look($fs, $crate::Call::new("sync"), |_| Ok(()))
        } else {
            $crate::Gated::write_call($fs, $crate::Call::new("sync"), Self::sync_volume)
        }
    };
    (@pass [gate] $fs:ident statfs()) => {
        $crate::Gated::look($fs, $crate::Call::new("statfs"), Self::sizes)
    };
    (@pass [gate] $fs:ident write_back($bytes:ident, $until:ident)) => {
        match $fs.dirty().bytes {
            0 => Ok(0),
            _ => $crate::Gated::write_call($fs, $crate::Call::new("write-back"), |fs| {
                fs.write_oldest($bytes, $until)
            }),
        }
    };
    (@pass [gate] $fs:ident work($now:ident)) => {
        match $fs.due() {
            Some(due) if due <= $now => {
                $crate::Gated::write_call($fs, $crate::Call::new("work"), |fs| fs.do_due($now))
            }
            _ => Ok(()),
        }
    };
    (@pass [gate] $fs:ident unmount()) => {
        $crate::Gated::look($fs, $crate::Call::new("unmount"), Self::close)
    };
    (@pass [gate] $fs:ident getxattr($ino:ident, $name:ident)) => {
        $crate::Gated::look($fs, $crate::Call::on("getxattr", $ino), |fs| {
            let number = fs.in_use($ino)?;
            fs.get_attribute(number, $name)
        })
    };
    (@pass [gate] $fs:ident
        setxattr($ino:ident, $name:ident, $value:ident, $expect:ident, $now:ident)
    ) => {
        $fs.change($crate::Call::on("setxattr", $ino), $now, |fs| {
            let number = fs.in_use($ino)?;
            fs.set_attribute(number, $name, Some($value), $expect)
        })
    };
    (@pass [gate] $fs:ident listxattr($ino:ident)) => {
        $crate::Gated::look($fs, $crate::Call::on("listxattr", $ino), |fs| {
            let number = fs.in_use($ino)?;
            fs.list_attributes(number)
        })
    };
    (@pass [gate] $fs:ident removexattr($ino:ident, $name:ident, $now:ident)) => {
        $fs.change($crate::Call::on("removexattr", $ino), $now, |fs| {
            let number = fs.in_use($ino)?;
            fs.set_attribute(number, $name, None, $crate::SetXattr::Any)
        })
    };
    (@pass [gate] $fs:ident cause()) => { $crate::Gated::take_cause($fs) };
    (@call $how:tt $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?) => {
        fn $name(&mut self, $($arg: $type),*) $(-> $result)? {
            $crate::delegate!(@pass $how self $name($($arg),*))
        }
    };
    (@ $how:tt dirty) => {
        fn dirty(&self) -> $crate::Dirty {
            $crate::delegate!(@pass $how self dirty())
        }
    };
    (@ $how:tt due) => {
        fn due(&self) -> Option<$crate::Time> {
            $crate::delegate!(@pass $how self due())
        }
    };
    (@ $how:tt lookup) => {
        $crate::delegate! {
            @call $how lookup(dir: $crate::Ino, name: &[u8]) -> $crate::Result<$crate::Attr>
        }
    };
    (@ $how:tt forget) => {
        $crate::delegate! {
            @call $how forget(ino: $crate::Ino, references: u64)
        }
    };
    (@ $how:tt getattr) => {
        $crate::delegate! {
            @call $how getattr(ino: $crate::Ino) -> $crate::Result<$crate::Attr>
        }
    };
    (@ $how:tt setattr) => {
        $crate::delegate! {
            @call $how setattr(
                ino: $crate::Ino, change: &$crate::SetAttr, now: $crate::Time
            ) -> $crate::Result<$crate::Attr>
        }
    };
    (@ $how:tt create) => {
        $crate::delegate! {
            @call $how create(
                dir: $crate::Ino, name: &[u8], node: $crate::NewNode<'_>, mode: u16,
                by: $crate::Caller
            ) -> $crate::Result<$crate::Attr>
        }
    };
    (@ $how:tt link) => {
        $crate::delegate! {
            @call $how link(
                ino: $crate::Ino, dir: $crate::Ino, name: &[u8], now: $crate::Time
            ) -> $crate::Result<$crate::Attr>
        }
    };
    (@ $how:tt unlink) => {
        $crate::delegate! {
            @call $how unlink(dir: $crate::Ino, name: &[u8], now: $crate::Time) -> $crate::Result
        }
    };
    (@ $how:tt rmdir) => {
        $crate::delegate! {
            @call $how rmdir(dir: $crate::Ino, name: &[u8], now: $crate::Time) -> $crate::Result
        }
    };
    (@ $how:tt rename) => {
        $crate::delegate! {
            @call $how rename(
                from: ($crate::Ino, &[u8]), to: ($crate::Ino, &[u8]), how: $crate::Rename,
                now: $crate::Time
            ) -> $crate::Result
        }
    };
    (@ $how:tt readlink) => {
        $crate::delegate! {
            @call $how readlink(ino: $crate::Ino) -> $crate::Result<$crate::Vec<u8>>
        }
    };
    (@ $how:tt read) => {
        $crate::delegate! {
            @call $how read(ino: $crate::Ino, offset: u64, buf: &mut [u8]) -> $crate::Result<usize>
        }
    };
    (@ $how:tt write) => {
        $crate::delegate! {
            @call $how write(
                ino: $crate::Ino, offset: u64, data: &[u8], now: $crate::Time
            ) -> $crate::Result<usize>
        }
    };
    (@ $how:tt readdir) => {
        $crate::delegate! {
            @call $how readdir(
                dir: $crate::Ino, from: u64, each: &mut dyn FnMut($crate::DirEntry<'_>) -> bool
            ) -> $crate::Result
        }
    };
    (@ $how:tt fsync) => {
        $crate::delegate! {
            @call $how fsync(ino: $crate::Ino, what: $crate::Sync) -> $crate::Result
        }
    };
    (@ $how:tt sync) => { $crate::delegate! { @call $how sync() -> $crate::Result } };
    (@ $how:tt unmount) => { $crate::delegate! { @call $how unmount() -> $crate::Result } };
    (@ $how:tt statfs) => {
        $crate::delegate! {
            @call $how statfs() -> $crate::Result<$crate::StatFs>
        }
    };
    (@ $how:tt getxattr) => {
        $crate::delegate! {
            @call $how getxattr(ino: $crate::Ino, name: &[u8]) -> $crate::Result<$crate::Vec<u8>>
        }
    };
    (@ $how:tt setxattr) => {
        $crate::delegate! {
            @call $how setxattr(
                ino: $crate::Ino, name: &[u8], value: &[u8], expect: $crate::SetXattr,
                now: $crate::Time
            ) -> $crate::Result
        }
    };
    (@ $how:tt listxattr) => {
        $crate::delegate! {
            @call $how listxattr(ino: $crate::Ino) -> $crate::Result<$crate::Vec<$crate::Vec<u8>>>
        }
    };
    (@ $how:tt removexattr) => {
        $crate::delegate! {
            @call $how removexattr(
                ino: $crate::Ino, name: &[u8], now: $crate::Time
            ) -> $crate::Result
        }
    };
    (@ $how:tt next_data) => {
        $crate::delegate! {
            @call $how next_data(ino: $crate::Ino, offset: u64) -> $crate::Result<u64>
        }
    };
    (@ $how:tt write_back) => {
        $crate::delegate! {
            @call $how write_back(bytes: u64, until: $crate::Time) -> $crate::Result<u64>
        }
    };
    (@ $how:tt cause) => { $crate::delegate! { @call $how cause() -> Option<$crate::Cause> } };
    (@ $how:tt work) => {
        $crate::delegate! {
            @call $how work(now: $crate::Time) -> $crate::Result
        }
    };
    ($how:tt $($name:ident)+) => { $($crate::delegate! { @ $how $name })+ };
}
