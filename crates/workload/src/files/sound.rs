//! Whether a stream does only what a program can.

use super::{Expected, FileCall, FileCalls, FileId};
use crate::SpecError;
use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

/// A stream that was run to its end.
pub(crate) struct Sound {
    pub calls: Vec<(&'static str, FileCall)>,
    /// The contents that each file should have.
    pub expected: Expected,
}

impl Sound {
    /// The calls of a phase.
    pub fn of(&self, phase: &str) -> Vec<FileCall> {
        self.calls
            .iter()
            .filter(|(of, _)| *of == phase)
            .map(|(_, call)| *call)
            .collect()
    }

    pub fn count(&self, which: impl Fn(&FileCall) -> bool) -> usize {
        self.calls.iter().filter(|(_, call)| which(call)).count()
    }
}

/// The key and the value that `check` refuses in the default options after `change`.
pub(crate) fn refused<S: Default>(
    check: impl Fn(&S) -> Result<(), SpecError>,
    change: &dyn Fn(&mut S),
) -> (&'static str, String) {
    let mut spec = S::default();
    change(&mut spec);
    match check(&spec) {
        Ok(()) => ("accepted", String::new()),
        Err(error) => (error.key, error.found),
    }
}

/// Runs a stream: files are created before they are opened, open while they are used, closed at the
/// end; names differ; reads find what is there; what is written differs from what was there.
pub(crate) fn run(mut stream: impl FileCalls) -> Sound {
    let mut expected = Expected::new(stream.contents());
    let mut open = BTreeSet::new();
    let mut names = BTreeMap::<FileId, String>::new();
    let mut calls = Vec::new();
    let mut there = BTreeMap::new();
    while let Some(call) = stream.next() {
        calls.push((stream.phase(), call));
        let Some(file) = call.file() else { continue };
        let mut before = [0; 8];
        let mut after = [0; 8];
        if let FileCall::Write { offset, .. } = call {
            expected.fill(file, offset, &mut before);
        }
        expected
            .apply(&call)
            .unwrap_or_else(|error| panic!("{error}"));
        match call {
            FileCall::Create { .. } => {
                there.insert(file, 0);
                assert!(open.insert(file), "{file:?} is open");
                let name = stream.name(file);
                assert!(
                    names
                        .iter()
                        .all(|(other, found)| *other == file || *found != name),
                    "two files are called {name}"
                );
                names.insert(file, name);
            }
            FileCall::Open { .. } => assert!(open.insert(file), "{file:?} is open"),
            FileCall::Close { .. } => assert!(open.remove(&file), "{file:?} is not open"),
            FileCall::Remove { .. } => {
                assert!(!open.contains(&file), "{file:?} is open");
                there.remove(&file);
                names.remove(&file);
            }
            _ => assert!(
                open.contains(&file),
                "{call} to {file:?}, which is not open"
            ),
        }
        match call {
            FileCall::Write { offset, length, .. } => {
                expected.fill(file, offset, &mut after);
                assert!(
                    length > 0 && (length < 8 || before != after),
                    "{call} changes nothing"
                );
                let end: &mut u64 = there.get_mut(&file).unwrap();
                *end = (*end).max(offset + length);
            }
            FileCall::Truncate { length, .. } => drop(there.insert(file, length)),
            FileCall::Read { offset, length, .. } => {
                assert!(
                    length > 0 && offset + length <= there[&file],
                    "{call} of {} bytes",
                    there[&file]
                )
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    assert_eq!(stream.share_done(), 1.0);
    Sound { calls, expected }
}
