//! Reads a flattened device tree, version 16 or 17, one token after the other.
//!
//! *Promises.* Any bytes are valid input: each token is read once, and there are at most
//! [`TOKENS_MAX`] of them. A value is read only if it is asked for. An error names the offset from
//! the tree's beginning, what was found and what was expected. *Knows nothing of* what nodes mean.

use crate::known::View;
use std::fmt;

/// Tokens that are read of one tree.
const TOKENS_MAX: u32 = 1 << 17;
/// Nodes inside one another.
const DEPTH_MAX: u32 = 64;
/// Bytes of a name.
const NAME_MAX: usize = 256;
const MAGIC: u32 = 0xD00D_FEED;

/// Something wrong in a device tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FdtError {
    /// From the tree's beginning.
    pub at: u64,
    pub found: String,
    pub expected: &'static str,
}

impl fmt::Display for FdtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            at,
            found,
            expected,
        } = self;
        write!(
            f,
            "device tree, byte {at}: found {found}, expected {expected}"
        )
    }
}

type Result<T> = std::result::Result<T, FdtError>;

fn wrong<T>(at: u64, found: impl fmt::Display, expected: &'static str) -> Result<T> {
    let found = found.to_string();
    Err(FdtError {
        at,
        found,
        expected,
    })
}

/// A token of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Begin {
        name: Vec<u8>,
    },
    End,
    /// A property of the node that began last and has not ended.
    Property {
        name: Vec<u8>,
        at: u64,
        len: u32,
    },
}

/// A tree, and a place in it.
pub(crate) struct Fdt<'a, 'b> {
    view: &'a mut View<'b>,
    total: u64,
    strings: u64,
    at: u64,
    depth: u32,
    tokens: u32,
}

impl<'a, 'b> Fdt<'a, 'b> {
    pub fn new(view: &'a mut View<'b>) -> Result<Self> {
        let field = |view: &mut View<'_>, at: u64| match view.be32(at) {
            Some(value) => Ok(value),
            None => wrong(at, "the end of the image", "a header of 40 bytes"),
        };
        let magic = field(view, 0)?;
        if magic != MAGIC {
            return wrong(0, format!("{magic:#010x}"), "0xd00dfeed");
        }
        let total = field(view, 4)?;
        let structure = field(view, 8)?;
        let strings = field(view, 12)?;
        let version = field(view, 20)?;
        let compatible = field(view, 24)?;
        if !(16..=17).contains(&compatible) || version < compatible {
            let found = format!("version {version}, compatible with {compatible}");
            return wrong(20, found, "version 16 or 17");
        }
        if total < 40 || structure >= total || strings > total || structure % 4 != 0 {
            let found = format!("{total} bytes, nodes at {structure}, names at {strings}");
            return wrong(4, found, "nodes and names inside the tree");
        }
        Ok(Self {
            view,
            total: total.into(),
            strings: strings.into(),
            at: structure.into(),
            depth: 0,
            tokens: 0,
        })
    }

    /// Bytes of the whole tree, as its header says.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Where the next token begins.
    pub fn at(&self) -> u64 {
        self.at
    }

    fn word(&mut self) -> Result<u32> {
        let at = self.at;
        let word = self.view.be32(at).filter(|_| at + 4 <= self.total);
        self.at += 4;
        match word {
            Some(word) => Ok(word),
            None => wrong(at, "the end of the tree", "a token"),
        }
    }

    fn text(&mut self, at: u64) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        loop {
            let place = at + text.len() as u64;
            match self.view.byte(place).filter(|_| place < self.total) {
                Some(0) => return Ok(text),
                Some(_) if text.len() >= NAME_MAX => {
                    return wrong(at, "a longer name", "a name of at most 256 bytes");
                }
                Some(byte) => text.push(byte),
                None => return wrong(place, "the end of the tree", "the end of a name"),
            }
        }
    }

    /// Returns the next token, or `None` at the tree's end.
    pub fn step(&mut self) -> Result<Option<Step>> {
        loop {
            let at = self.at;
            self.tokens += 1;
            if self.tokens > TOKENS_MAX {
                return wrong(at, "more tokens", "at most 131072 of them");
            }
            match self.word()? {
                1 => return self.begin(at).map(Some),
                2 if self.depth > 0 => {
                    self.depth -= 1;
                    return Ok(Some(Step::End));
                }
                3 if self.depth > 0 => return self.property().map(Some),
                4 => {}
                9 if self.depth == 0 => return Ok(None),
                other => {
                    let expected = "a node, a property or the end of one";
                    return wrong(at, format!("token {other:#x}"), expected);
                }
            }
        }
    }

    fn begin(&mut self, at: u64) -> Result<Step> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return wrong(at, "a deeper node", "at most 64 nodes inside one another");
        }
        let name = self.text(self.at)?;
        self.at = (self.at + name.len() as u64 + 1).next_multiple_of(4);
        Ok(Step::Begin { name })
    }

    fn property(&mut self) -> Result<Step> {
        let len = self.word()?;
        let name = self.word()?;
        let at = self.at;
        let end = at + u64::from(len);
        if end > self.total {
            let found = format!("a value of {len} bytes");
            return wrong(at, found, "its end inside the tree");
        }
        let name = self.text(self.strings + u64::from(name))?;
        self.at = end.next_multiple_of(4);
        Ok(Step::Property { name, at, len })
    }

    /// The value of a property, at most `max` bytes of it.
    pub fn value(&mut self, step: &Step, max: usize) -> Option<Vec<u8>> {
        let Step::Property { at, len, .. } = step else {
            return None;
        };
        let mut value = vec![0; (*len as usize).min(max)];
        self.view.read(*at, &mut value)?;
        Some(value)
    }

    /// The value of a property of one cell.
    pub fn cell(&mut self, step: &Step) -> Option<u32> {
        match step {
            Step::Property { at, len: 4, .. } => self.view.be32(*at),
            _ => None,
        }
    }
}
