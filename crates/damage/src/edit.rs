//! The language of inputs: four bytes that choose the medium and how it is used, then edits of
//! eight bytes each.
//!
//! *Promises.* Every sequence of bytes is an input; a tail of fewer bytes than an edit is nothing.
//! Fields lie at fixed places, so that the fuzzer's comparisons and its dictionary find them.

/// Numbers at which something changes: ends of ranges, sizes of structures, places in media of
/// these sizes, magic numbers.
const SPECIAL: [u32; 32] = [
    0,
    1,
    2,
    3,
    4,
    12,
    40,
    63,
    64,
    68,
    127,
    128,
    255,
    256,
    511,
    512,
    4095,
    4096,
    8191,
    8192,
    0xFFFF,
    0x1_0000,
    0x0200_0000,
    0x7FFF_EFFF,
    0x7FFF_FFFE,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_F000,
    0xFFFF_FFF8,
    0xFFFF_FFFC,
    0xFFFF_FFFE,
    0xFFFF_FFFF,
];

/// One edit; what its parts mean is the medium's business.
#[derive(Clone, Copy, Debug)]
pub struct Edit {
    /// Selects the kind of the edit.
    pub verb: u8,
    /// To which part of that.
    pub field: u8,
    /// Selects the place that is edited.
    pub place: usize,
    /// The value that the edit writes.
    pub value: u32,
}

/// An input, taken apart.
#[derive(Clone, Copy, Debug)]
pub struct Script<'a> {
    /// Which medium is edited.
    pub seed: usize,
    /// How it is used afterwards: bits.
    pub options: u8,
    /// Whether it is written to.
    pub write: bool,
    /// How many 256ths of it are there, where not all of it is.
    pub part: Option<u8>,
    edits: &'a [u8],
}

impl<'a> Script<'a> {
    /// Takes an input apart; an empty one edits nothing.
    pub fn new(input: &'a [u8]) -> Self {
        let byte = |at: usize| input.get(at).copied().unwrap_or_default();
        let part = (byte(2) & 6 == 6).then(|| byte(3));
        Self {
            seed: byte(0).into(),
            options: byte(1),
            write: byte(2) & 1 != 0,
            part,
            edits: input.get(4..).unwrap_or_default(),
        }
    }

    /// The edits in their order. The upper bit of a verb says that its value is one of the special
    /// ones.
    pub fn edits(&self) -> impl Iterator<Item = Edit> + use<'a> {
        self.edits.chunks_exact(8).map(|e| {
            let value = u32::from_le_bytes([e[4], e[5], e[6], e[7]]);
            let value = if e[0] & 0x80 == 0 {
                value
            } else {
                SPECIAL[value as usize % SPECIAL.len()]
            };
            Edit {
                verb: e[0] & 0x7F,
                field: e[1],
                place: u16::from_le_bytes([e[2], e[3]]).into(),
                value,
            }
        })
    }
}

/// A random input of up to so many edits.
pub fn random(seed: u64, edits_max: u64) -> Vec<u8> {
    let word = |number| nandlab_sim::mix(seed, number);
    let edits = 1 + word(0) % edits_max;
    let mut input = word(1).to_le_bytes()[..4].to_vec();
    input.extend((2..2 + edits).flat_map(|number| word(number).to_le_bytes()));
    input
}
