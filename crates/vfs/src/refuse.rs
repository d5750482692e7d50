//! Calls that a file system refuses which is only read.

/// Implements the calls of [`FileSystem`](crate::FileSystem) that would change something: each is
/// refused with [`Errno::ReadOnly`](crate::Errno::ReadOnly). A sync has nothing to do, and
/// references are not counted.
#[macro_export]
macro_rules! refuse_changes {
    () => {
        fn forget(&mut self, _: $crate::Ino, _: u64) {}

        fn setattr(
            &mut self,
            _: $crate::Ino,
            _: &$crate::SetAttr,
            _: $crate::Time,
        ) -> $crate::Result<$crate::Attr> {
            Err($crate::Errno::ReadOnly)
        }

        fn create(
            &mut self,
            _: $crate::Ino,
            _: &[u8],
            _: $crate::NewNode<'_>,
            _: u16,
            _: $crate::Caller,
        ) -> $crate::Result<$crate::Attr> {
            Err($crate::Errno::ReadOnly)
        }

        fn link(
            &mut self,
            _: $crate::Ino,
            _: $crate::Ino,
            _: &[u8],
            _: $crate::Time,
        ) -> $crate::Result<$crate::Attr> {
            Err($crate::Errno::ReadOnly)
        }

        fn unlink(&mut self, _: $crate::Ino, _: &[u8], _: $crate::Time) -> $crate::Result<()> {
            Err($crate::Errno::ReadOnly)
        }

        fn rmdir(&mut self, _: $crate::Ino, _: &[u8], _: $crate::Time) -> $crate::Result<()> {
            Err($crate::Errno::ReadOnly)
        }

        fn rename(
            &mut self,
            _: ($crate::Ino, &[u8]),
            _: ($crate::Ino, &[u8]),
            _: $crate::Rename,
            _: $crate::Time,
        ) -> $crate::Result<()> {
            Err($crate::Errno::ReadOnly)
        }

        fn write(
            &mut self,
            _: $crate::Ino,
            _: u64,
            _: &[u8],
            _: $crate::Time,
        ) -> $crate::Result<usize> {
            Err($crate::Errno::ReadOnly)
        }

        fn fsync(&mut self, _: $crate::Ino, _: $crate::Sync) -> $crate::Result<()> {
            Ok(())
        }

        fn sync(&mut self) -> $crate::Result<()> {
            Ok(())
        }

        fn setxattr(
            &mut self,
            _: $crate::Ino,
            _: &[u8],
            _: &[u8],
            _: $crate::SetXattr,
            _: $crate::Time,
        ) -> $crate::Result<()> {
            Err($crate::Errno::ReadOnly)
        }

        fn removexattr(&mut self, _: $crate::Ino, _: &[u8], _: $crate::Time) -> $crate::Result<()> {
            Err($crate::Errno::ReadOnly)
        }
    };
}
