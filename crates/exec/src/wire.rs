//! The messages between nandlab and a program.
//!
//! The program's standard input is a Unix socket that keeps the bounds of messages
//! (`SOCK_SEQPACKET`). Each message on it is one byte, [`VERSION`], and carries a second such
//! socket as a file descriptor, which serves one layer. The program forks for each, so that every
//! layer has memory of its own, or serves one and exits; nandlab starts it again. When standard
//! input ends, the program exits.
//!
//! On the socket of a layer each message is four 32-bit little-endian numbers, which are a kind and
//! up to three arguments, and then bytes:
//!
//! | kind | from | arguments | bytes | answer |
//! |---|---|---|---|---|
//! | 0 answer | both | status, and see the call | see the call | |
//! | 1 hello | program | its process id | | none; the first message |
//! | 2 format | nandlab | | the shape | pages of the layer |
//! | 3 attach | nandlab | | the shape | pages of the layer |
//! | 4 read | nandlab | page of the layer | | the data |
//! | 5 write | nandlab | page of the layer | the data | |
//! | 6 flush | nandlab | | | |
//! | 16 chip read | program | page, bytes of data (0 or a page), spare bytes | | corrected bits; data, spare bytes |
//! | 17 chip program | program | the same | data and spare bytes | |
//! | 18 chip copy | program | from, to, length of the head | the tail | the head |
//! | 19 chip erase | program | block | | |
//! | 20 chip is bad | program | block | | 0 or 1 |
//! | 21 chip mark bad | program | block | | |
//! | 22 chip sync | program | | | |
//! | 23 chip fence | program | | | |
//! | 24 chip time | program | | | the lower and the upper half, in nanoseconds |
//! | 25 chip advance | program | the lower and the upper half, in nanoseconds | | |
//! | 32 stat | nandlab | | path | kind, length |
//! | 33 list | nandlab | names to skip | path | the next names |
//! | 34 create | nandlab | kind | path | |
//! | 35 read file | nandlab | offset, length | path | the bytes; fewer at the end of the file |
//! | 36 write file | nandlab | offset, bytes of the path | path, the bytes | |
//! | 37 truncate | nandlab | length | path | |
//! | 38 rename | nandlab | bytes of the first path | both paths | |
//! | 39 remove | nandlab | | path | |
//! | 40 sync | nandlab | | path | |
//! | 41 space | nandlab | | | bytes in all, bytes free |
//!
//! The shape is five numbers: bytes of a page, spare bytes of a page, pages of an erase block,
//! erase blocks, dies. A call of nandlab is open until the program answers it; meanwhile the
//! program may call the chip, one call at a time. A status is one of `nandlab.h`. Where the program
//! answers a call with another status than 0, the bytes are a text that says why; 2 says that the
//! page lost its data.
//!
//! A file system has the calls from 32 on, and no pages: it answers 2 and 3 with a status alone. A
//! path is `/`, or names with `/` before each. A kind is 1 for a file and 2 for a directory. A list
//! has for each name its kind as a byte, the name, and NUL; an empty list is the end. A rename
//! replaces a file, or an empty directory. A sync of `/` makes everything durable. The status of
//! these calls is a number of Linux's `errno.h`: 5 stops the file system, and others refuse the
//! call. nandlab reads and writes at most 64 KiB a call.

use nandlab_mtd::MtdError;

/// The version of the protocol.
pub const VERSION: u8 = 1;

/// Kind: the answer to a call.
pub const ANSWER: u32 = 0;
/// Kind: a program is ready to serve.
pub const HELLO: u32 = 1;
/// Kind: put a new layer on an erased chip.
pub const FORMAT: u32 = 2;
/// Kind: attach the layer that the chip holds.
pub const ATTACH: u32 = 3;
/// Kind: read a page of the layer.
pub const READ: u32 = 4;
/// Kind: write a page of the layer.
pub const WRITE: u32 = 5;
/// Kind: make everything written durable.
pub const FLUSH: u32 = 6;
/// Kind: read a page of the chip.
pub const CHIP_READ: u32 = 16;
/// Kind: program a page of the chip.
pub const CHIP_PROGRAM: u32 = 17;
/// Kind: copy a page inside the chip.
pub const CHIP_COPY: u32 = 18;
/// Kind: erase a block.
pub const CHIP_ERASE: u32 = 19;
/// Kind: whether a block has a bad mark.
pub const CHIP_IS_BAD: u32 = 20;
/// Kind: mark a block bad.
pub const CHIP_MARK_BAD: u32 = 21;
/// Kind: wait until everything issued is durable.
pub const CHIP_SYNC: u32 = 22;
/// Kind: the next operation waits for all before it.
pub const CHIP_FENCE: u32 = 23;
/// Kind: the chip's clock.
pub const CHIP_TIME: u32 = 24;
/// Kind: spend virtual time.
pub const CHIP_ADVANCE: u32 = 25;

/// Kind: what lies at a path, and its length.
pub const STAT: u32 = 32;
/// Kind: names in a directory.
pub const LIST: u32 = 33;
/// Kind: make a file or a directory.
pub const CREATE: u32 = 34;
/// Kind: read bytes of a file.
pub const READ_FILE: u32 = 35;
/// Kind: write bytes of a file.
pub const WRITE_FILE: u32 = 36;
/// Kind: give a file another length.
pub const TRUNCATE: u32 = 37;
/// Kind: move a file or a directory.
pub const RENAME: u32 = 38;
/// Kind: remove a file or an empty directory.
pub const REMOVE: u32 = 39;
/// Kind: make a file, or everything, durable.
pub const SYNC: u32 = 40;
/// Kind: bytes in all, and bytes free.
pub const SPACE: u32 = 41;

/// The kind of a file.
pub const FILE: u32 = 1;
/// The kind of a directory.
pub const DIRECTORY: u32 = 2;

/// Status: the call succeeded.
pub const OK: u32 = 0;
/// Status: a value that the call does not take.
pub const ARGUMENT: u32 = 1;
/// Status: a page lost its data.
pub const LOST: u32 = 2;

/// Status: the power is off.
pub const POWER_CUT: u32 = 6;

/// Bytes before the payload of a message.
pub const HEAD: usize = 16;

/// The word for a kind of call in messages.
pub fn name(kind: u32) -> &'static str {
    match kind {
        FORMAT => "format",
        ATTACH => "attach",
        READ | READ_FILE => "read",
        WRITE | WRITE_FILE => "write",
        FLUSH => "flush",
        STAT => "stat",
        LIST => "list",
        CREATE => "create",
        TRUNCATE => "truncate",
        RENAME => "rename",
        REMOVE => "remove",
        SYNC => "sync",
        SPACE => "space",
        _ => "call",
    }
}

/// The numbers before the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The kind of the message.
    pub kind: u32,
    /// Its arguments.
    pub arguments: [u32; 3],
}

impl Head {
    /// A message of this kind.
    pub fn new(kind: u32, arguments: [u32; 3]) -> Self {
        Self { kind, arguments }
    }

    /// Puts the numbers before a payload.
    pub fn put(&self, message: &mut [u8]) {
        let numbers = [&[self.kind][..], &self.arguments].concat();
        for (place, number) in message.chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
    }

    /// The numbers of a message; none if it is too short for them.
    pub fn of(message: &[u8]) -> Option<Self> {
        let mut numbers = message.get(..HEAD)?.chunks_exact(4).map(|four| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(four);
            u32::from_le_bytes(bytes)
        });
        let mut next = || numbers.next().unwrap_or_default();
        let kind = next();
        let arguments = [next(), next(), next()];
        Some(Self { kind, arguments })
    }
}

/// The status of a failed chip call, as `nandlab.h` numbers them.
pub fn status(error: &MtdError) -> u32 {
    match error {
        MtdError::Uncorrectable(_) => LOST,
        MtdError::ProgramFailed(_) => 3,
        MtdError::EraseFailed(_) => 4,
        MtdError::BadBlock(_) => 5,
        MtdError::PowerCut => POWER_CUT,
        MtdError::OutOfRange(_) => 7,
        MtdError::BadLength { .. } => 8,
        MtdError::Illegal(..) => 9,
        // A chip in memory is neither read-only nor backed by a file or a layer.
        MtdError::ReadOnly(_) | MtdError::Backing(_) | MtdError::Below(..) => 12,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_before_a_payload_are_read_as_they_were_put() {
        let head = Head::new(CHIP_READ, [7, 0xFFFF_FFFF, 3]);
        let mut message = vec![9; HEAD + 1];
        head.put(&mut message[..HEAD]);
        assert_eq!(Head::of(&message), Some(head));
        assert_eq!(message[HEAD], 9);
        assert_eq!(Head::of(&message[..HEAD - 1]), None);
    }
}
