//! What a stream of calls leaves behind, derived from the calls alone.
//!
//! *Promises.* After each call that was applied: which files there are, how long they are, and
//! every byte of them. Holds for each file its extents by version, not their bytes: memory grows
//! with the number of writes that do not continue one another.

use super::{Contents, FileCall, FileId};
use alloc::collections::BTreeMap;

/// A call that no sound stream makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("file {}: {call}: expected {expected}", .call.file().map_or(0, |file| file.0))]
pub struct ExpectedError {
    /// The call that breaks the stream's rules.
    pub call: FileCall,
    /// The state that the call needs.
    pub expected: &'static str,
}

/// Bytes of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    end: u64,
    version: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct File {
    length: u64,
    /// By first byte; they do not overlap. What none covers is zeros.
    extents: BTreeMap<u64, Extent>,
}

/// The files that a stream of calls leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    contents: Contents,
    files: BTreeMap<FileId, File>,
}

impl Expected {
    /// Starts without any files.
    pub fn new(contents: Contents) -> Self {
        Self {
            contents,
            files: BTreeMap::new(),
        }
    }

    /// Carries a call out. Whether files are open is not looked at.
    pub fn apply(&mut self, call: &FileCall) -> Result<(), ExpectedError> {
        let wrong = |expected| ExpectedError {
            call: *call,
            expected,
        };
        let Some(id) = call.file() else { return Ok(()) };
        if let FileCall::Create { file } = call {
            return match self.files.insert(*file, File::default()) {
                None => Ok(()),
                Some(_) => Err(wrong("a file that is not there")),
            };
        }
        let file = self
            .files
            .get_mut(&id)
            .ok_or(wrong("a file that is there"))?;
        match *call {
            FileCall::Write {
                offset,
                length,
                version,
                ..
            } => {
                let end = offset
                    .checked_add(length)
                    .ok_or(wrong("an end below 2^64"))?;
                file.write(offset, end, version);
            }
            FileCall::Truncate { length, .. } => file.truncate(length),
            FileCall::Remove { .. } => drop(self.files.remove(&id)),
            _ => {}
        }
        Ok(())
    }

    /// Every file with its length in bytes, by number.
    pub fn files(&self) -> impl Iterator<Item = (FileId, u64)> {
        self.files.iter().map(|(id, file)| (*id, file.length))
    }

    /// Fills `buf` with what a file holds from `offset` on: zeros behind its end, and where there
    /// is no such file.
    pub fn fill(&self, id: FileId, offset: u64, buf: &mut [u8]) {
        buf.fill(0);
        let end = offset.saturating_add(buf.len() as u64);
        let Some(file) = self.files.get(&id) else {
            return;
        };
        let first = file
            .extents
            .range(..=offset)
            .next_back()
            .map_or(offset, |(start, _)| *start);
        for (start, extent) in file.extents.range(first..end) {
            let from = *start.max(&offset);
            let to = extent.end.min(end);
            if from < to {
                self.contents.fill(
                    id,
                    extent.version,
                    from,
                    &mut buf[(from - offset) as usize..(to - offset) as usize],
                );
            }
        }
    }
}

impl File {
    fn write(&mut self, start: u64, end: u64, version: u32) {
        if start == end {
            return;
        }
        self.clear(start, end);
        self.length = self.length.max(end);
        // A file that is appended to stays one extent.
        if let Some((_, before)) = self.extents.range_mut(..start).next_back()
            && (before.end, before.version) == (start, version)
        {
            before.end = end;
            return;
        }
        self.extents.insert(start, Extent { end, version });
    }

    fn truncate(&mut self, length: u64) {
        if length < self.length {
            self.clear(length, u64::MAX);
        }
        self.length = length;
    }

    /// Leaves no extent between the two; those that reach over them are cut.
    fn clear(&mut self, start: u64, end: u64) {
        let over = self
            .extents
            .range_mut(..start)
            .next_back()
            .filter(|(_, before)| before.end > start);
        if let Some((_, before)) = over {
            let rest = *before;
            before.end = start;
            if rest.end > end {
                self.extents.insert(end, rest);
            }
        }
        while let Some((at, extent)) = self
            .extents
            .range(start..end)
            .next()
            .map(|(at, extent)| (*at, *extent))
        {
            self.extents.remove(&at);
            if extent.end > end {
                self.extents.insert(end, extent);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};
    use proptest::prelude::*;
    use std::string::ToString;

    const F: FileId = FileId(7);

    fn write(offset: u64, length: u64, version: u32) -> FileCall {
        FileCall::Write {
            file: F,
            offset,
            length,
            version,
        }
    }

    #[test]
    fn appends_stay_one_extent() {
        let mut expected = Expected::new(Contents::new(1));
        expected.apply(&FileCall::Create { file: F }).unwrap();
        (0..1000).for_each(|n| expected.apply(&write(n * 512, 512, 0)).unwrap());
        assert_eq!(expected.files[&F].extents.len(), 1);
        assert_eq!(expected.files().collect::<Vec<_>>(), [(F, 512_000)]);
        expected.apply(&FileCall::Remove { file: F }).unwrap();
        assert_eq!(expected.files().count(), 0);
    }

    #[test]
    fn what_no_program_can_do_is_refused() {
        let mut expected = Expected::new(Contents::new(1));
        assert_eq!(
            expected.apply(&write(3, 5, 0)).unwrap_err().to_string(),
            "file 7: write 5 bytes at 3: expected a file that is there"
        );
        expected.apply(&FileCall::Create { file: F }).unwrap();
        assert_eq!(
            expected
                .apply(&FileCall::Create { file: F })
                .unwrap_err()
                .expected,
            "a file that is not there"
        );
        assert_eq!(
            expected.apply(&write(u64::MAX, 2, 0)).unwrap_err().expected,
            "an end below 2^64"
        );
    }

    proptest! {
        /// Against a file that is simply bytes.
        #[test]
        fn every_byte_is_known_whatever_was_written_and_cut(
            calls in prop::collection::vec((0u64..200, 0u64..80, prop::bool::weighted(0.2)), 0..40), from in 0u64..300, length in 0usize..100,
        ) {
            let contents = Contents::new(9);
            let mut expected = Expected::new(Contents::new(9));
            let mut model = Vec::new();
            expected.apply(&FileCall::Create { file: F }).unwrap();
            for (version, (offset, length, cut)) in (0..).zip(calls) {
                if cut {
                    expected.apply(&FileCall::Truncate { file: F, length: offset }).unwrap();
                    model.resize(offset as usize, 0);
                } else if length > 0 {
                    expected.apply(&write(offset, length, version)).unwrap();
                    let end = (offset + length) as usize;
                    model.resize(model.len().max(end), 0);
                    contents.fill(F, version, offset, &mut model[offset as usize..end]);
                }
            }
            prop_assert_eq!(expected.files().next(), Some((F, model.len() as u64)));
            let mut found = vec![1; length];
            expected.fill(F, from, &mut found);
            model.resize(500, 0);
            prop_assert_eq!(&found, &model[from as usize..from as usize + length]);
        }
    }
}
