//! The errors of file system calls, with Linux's numbers. *Knows nothing of* their causes: a file
//! system that knows more than a number says it elsewhere.

macro_rules! errno {
    ($($variant:ident = $code:literal $name:literal $text:literal;)*) => {
        /// Why a call failed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
        pub enum Errno {
            $(#[doc = concat!("`", $name, "`: ", $text, ".")] #[error($text)] $variant = $code,)*
        }

        impl Errno {
            /// Every one of them, by number.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The symbol in C.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

errno! {
    NotPermitted = 1 "EPERM" "operation not permitted";
    NoEntry = 2 "ENOENT" "no such file or directory";
    Io = 5 "EIO" "input/output error";
    TooBig = 7 "E2BIG" "argument too long";
    BadFile = 9 "EBADF" "bad file descriptor";
    Access = 13 "EACCES" "permission denied";
    Busy = 16 "EBUSY" "device or resource busy";
    Exists = 17 "EEXIST" "file exists";
    NotDirectory = 20 "ENOTDIR" "not a directory";
    IsDirectory = 21 "EISDIR" "is a directory";
    Invalid = 22 "EINVAL" "invalid argument";
    FileTooBig = 27 "EFBIG" "file too large";
    NoSpace = 28 "ENOSPC" "no space left on device";
    ReadOnly = 30 "EROFS" "read-only file system";
    TooManyLinks = 31 "EMLINK" "too many links";
    Range = 34 "ERANGE" "numerical result out of range";
    NameTooLong = 36 "ENAMETOOLONG" "file name too long";
    NotEmpty = 39 "ENOTEMPTY" "directory not empty";
    Loop = 40 "ELOOP" "too many levels of symbolic links";
    NoData = 61 "ENODATA" "no data available";
    NotSupported = 95 "EOPNOTSUPP" "operation not supported";
    Stale = 116 "ESTALE" "stale file handle";
    Unclean = 117 "EUCLEAN" "structure needs cleaning";
}

impl Errno {
    /// Linux's number for it (on every architecture but alpha, mips, parisc and sparc).
    pub fn code(self) -> i32 {
        self as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn numbers_names_and_texts_belong_together() {
        assert!(
            Errno::ALL.is_sorted_by(|a, b| a.code() < b.code()),
            "each number once"
        );
        assert_eq!(
            (Errno::NoEntry.code(), Errno::NoEntry.name()),
            (2, "ENOENT")
        );
        assert_eq!(Errno::NoSpace.to_string(), "no space left on device");
    }
}
