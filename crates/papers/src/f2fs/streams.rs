//! Streams of calls made of others: without contents, one after the other, two at once.
//!
//! The devices of this paper are large and nothing of what it reports depends on the bytes: files
//! hold zeros, for which neither chip nor disk takes memory.

use nandlab_workload::files::{Contents, FileCall, FileCalls, FileId, Look};

/// Numbers of files of the second of two streams begin here.
const SECOND: u32 = 1 << 25;

/// Two streams; their files do not meet.
pub struct Both {
    first: Box<dyn FileCalls>,
    second: Box<dyn FileCalls>,
    how: How,
    /// Whose turn it is, or whose it was last.
    at_second: bool,
    /// Calls of the first one done in this turn.
    turn: u32,
}

/// How two streams follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The second when the first has ended; the first is a phase of its own, of this name.
    After(&'static str),
    /// So many calls of the first, then one of the second; phases are the first's while that lasts.
    Beside(u32),
}

impl Both {
    pub fn new(first: Box<dyn FileCalls>, second: Box<dyn FileCalls>, how: How) -> Self {
        Self {
            first,
            second,
            how,
            at_second: false,
            turn: 0,
        }
    }

    fn of_second(&mut self) -> Option<FileCall> {
        self.at_second = true;
        self.second
            .next()
            .map(|call| moved(call, |file| FileId(file.0 + SECOND)))
    }
}

/// The call about another file.
fn moved(mut call: FileCall, to: impl Fn(FileId) -> FileId) -> FileCall {
    match &mut call {
        FileCall::Create { file }
        | FileCall::Open { file }
        | FileCall::Close { file }
        | FileCall::Read { file, .. }
        | FileCall::Write { file, .. }
        | FileCall::Truncate { file, .. }
        | FileCall::Fsync { file }
        | FileCall::Fdatasync { file }
        | FileCall::Remove { file } => *file = to(*file),
        FileCall::Sync | FileCall::Compute { .. } => {}
    }
    call
}

impl Iterator for Both {
    type Item = FileCall;

    fn next(&mut self) -> Option<FileCall> {
        match self.how {
            How::After(_) if self.at_second => return self.of_second(),
            How::Beside(calls) if self.turn >= calls => {
                self.turn = 0;
                if let Some(call) = self.of_second() {
                    return Some(call);
                }
            }
            _ => {}
        }
        self.turn += 1;
        self.at_second = false;
        self.first.next().or_else(|| self.of_second())
    }
}

impl FileCalls for Both {
    fn name(&self, file: FileId) -> String {
        match file.0.checked_sub(SECOND) {
            Some(number) => self.second.name(FileId(number)),
            None => format!("{}-1", self.first.name(file)),
        }
    }

    fn contents(&self) -> Contents {
        blank()
    }

    fn share_done(&self) -> f64 {
        (self.first.share_done() + self.second.share_done()) / 2.0
    }

    fn phase(&self) -> &'static str {
        match self.how {
            How::After(name) if !self.at_second => name,
            How::After(_) => self.second.phase(),
            How::Beside(_) => self.first.phase(),
        }
    }
}

/// A stream whose files hold zeros.
pub struct Blank(pub Box<dyn FileCalls>);

fn blank() -> Contents {
    Contents::looking(Look::Zero, 0)
}

impl Iterator for Blank {
    type Item = FileCall;

    fn next(&mut self) -> Option<FileCall> {
        self.0.next()
    }
}

impl FileCalls for Blank {
    fn name(&self, file: FileId) -> String {
        self.0.name(file)
    }

    fn contents(&self) -> Contents {
        blank()
    }

    fn share_done(&self) -> f64 {
        self.0.share_done()
    }

    fn phase(&self) -> &'static str {
        self.0.phase()
    }
}
