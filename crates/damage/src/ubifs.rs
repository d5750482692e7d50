//! UBIFS: edits of nodes and of the properties tree, after which their checksums are right again.

use crate::edit::{Edit, Script};
use crate::plant::{self, NOW};
use nandlab_ubifs::format::{KeyHash, LptShape};
use nandlab_ubifs::{Bare, Format, Ubifs, format};
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Sync};
use std::ops::Range;
use std::sync::OnceLock;

/// Bytes of a logical block: the shortest that Linux takes.
pub const LEB: usize = 15_360;
/// Logical blocks of a volume.
pub const LEBS: usize = 26;
/// Bytes of a volume.
pub const BYTES: usize = LEB * LEBS;
/// Bytes that the medium writes at once.
pub const PAGE: u32 = 512;
/// Bytes of the header that every node has.
const HEAD: usize = 24;
const MAGIC: u32 = 0x0610_1831;
/// The blocks of master nodes.
const MASTERS: Range<usize> = LEB..3 * LEB;

/// A good volume that edits start from.
#[derive(Debug)]
pub struct Seed {
    bytes: Vec<u8>,
    /// Where nodes begin.
    nodes: Vec<usize>,
    /// Nodes of the properties tree.
    properties: Vec<Range<usize>>,
}

impl Seed {
    /// The volume as edited.
    pub fn edited(&self, script: Script<'_>) -> Vec<u8> {
        let mut volume = Edited {
            bytes: self.bytes.clone(),
            seed: self,
        };
        script.edits().for_each(|edit| volume.edit(edit));
        volume.bytes
    }
}

/// Good volumes with a full journal: both forms of the properties tree, all compressors, both
/// versions of the format. The last one was unmounted.
pub fn seeds() -> &'static [Seed] {
    static SEEDS: OnceLock<Vec<Seed>> = OnceLock::new();
    SEEDS.get_or_init(|| (0..5).map(seed).collect())
}

fn seed(number: u16) -> Seed {
    let is_odd = number % 2 == 1;
    let choices = Format {
        version: if is_odd { 5 } else { 4 },
        compressor: (number + 1) % 4,
        key_hash: if is_odd { KeyHash::Test } else { KeyHash::R5 },
        // Small nodes give a deep index.
        fanout: if number == 2 { 8 } else { 4 },
        page: Some(PAGE),
        big_lpt: Some(is_odd),
        uuid: *b"sixteen bytes of",
        now: NOW,
        ..Format::default()
    };
    let blank = Bare::with(vec![0xFF; BYTES], LEB as u32, LEBS as u32);
    let lebs = format(blank, &choices).expect("a volume of this size");
    let mut fs = Ubifs::mount_writable(lebs).expect("a new volume");
    plant::plant(&mut fs, 10, 20_000).expect("space for the tree");
    journal(&mut fs);
    if number == 4 {
        fs.unmount().expect("a medium without faults");
    }
    let shape = LptShape::new(fs.head());
    let area = fs.head().geometry.lpt_first()..fs.head().geometry.orphan_first();
    let bytes = fs.into_lebs().into_bytes();
    let nodes = nodes(&bytes);
    let area = area.start as usize * LEB..area.end as usize * LEB;
    let properties = properties(&bytes, area, &shape);
    assert!(nodes.len() > 80 && properties.len() > 3, "{}", nodes.len());
    Seed {
        bytes,
        nodes,
        properties,
    }
}

/// Changes that no commit has: contents, names, a truncation, and an open file without a name.
fn journal(fs: &mut Ubifs<Bare<Vec<u8>>>) {
    let by = Caller::root(NOW);
    let create = |fs: &mut Ubifs<_>, name: &str| {
        let made = fs.create(Ino::ROOT, name.as_bytes(), NewNode::File, 0o600, by);
        made.expect("space for a file").ino
    };
    let open = create(fs, "open");
    fs.unlink(Ino::ROOT, b"open", NOW).expect("a name");
    fs.sync().expect("space for a commit");
    for number in 0..12 {
        let file = create(fs, &format!("new {number}"));
        let bytes = vec![number; 900];
        fs.write(file, 0, &bytes, NOW).expect("space for contents");
    }
    fs.write(open, 0, b"contents", NOW).expect("space");
    fs.unlink(Ino::ROOT, b"new 3", NOW).expect("a name");
    let large = fs.lookup(Ino::ROOT, b"large").expect("a file").ino;
    let shorter = nandlab_vfs::SetAttr {
        size: Some(5000),
        ..Default::default()
    };
    fs.setattr(large, &shorter, NOW).expect("space for a node");
    fs.fsync(Ino::ROOT, Sync::All).expect("a medium");
}

fn nodes(bytes: &[u8]) -> Vec<usize> {
    let is_node = |at: &usize| {
        let len = word(bytes, at + 16) as usize;
        let leb = at / LEB * LEB + LEB;
        word(bytes, *at) == MAGIC
            && (HEAD..=leb - at).contains(&len)
            && word(bytes, at + 4) == crc(&bytes[at + 8..at + len])
    };
    (0..bytes.len() - HEAD).step_by(8).filter(is_node).collect()
}

/// Nodes of the properties tree have no magic number: their checksums find them.
fn properties(bytes: &[u8], area: Range<usize>, shape: &LptShape) -> Vec<Range<usize>> {
    let sizes = [
        shape.pnode_bytes(),
        shape.nnode_bytes(),
        shape.ltab_bytes(),
        shape.saved_bytes(),
    ];
    let mut all = Vec::new();
    let mut at = area.start;
    while at + 3 < area.end {
        let size = sizes.get(usize::from(bytes[at + 2] & 15)).copied();
        let end = at + size.unwrap_or(0);
        let is_node = size.is_some() && end <= area.end && {
            let sum = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
            crc16(&bytes[at + 2..end]) == sum
        };
        all.extend(is_node.then_some(at..end));
        at = if is_node { end } else { at + 1 };
    }
    all
}

struct Edited<'a> {
    bytes: Vec<u8>,
    seed: &'a Seed,
}

impl Edited<'_> {
    fn node(&self, number: usize) -> usize {
        self.seed.nodes[number % self.seed.nodes.len()]
    }

    /// Bytes of a node, as far as they are in its block.
    fn len(&self, at: usize) -> usize {
        (word(&self.bytes, at + 16) as usize).clamp(HEAD, LEB - at % LEB)
    }

    fn put(&mut self, at: usize, value: &[u8]) {
        if let Some(place) = self.bytes.get_mut(at..at + value.len()) {
            place.copy_from_slice(value);
        }
    }

    fn edit(&mut self, edit: Edit) {
        let Edit { place, value, .. } = edit;
        let field = usize::from(edit.field & 0x7F);
        let at = self.node(place);
        let other = self.node(value as usize & 0xFFFF);
        // Masters differ in nothing but their numbers, so an edit of one is an edit of both.
        let near = at + 8 + field % 40 * 4;
        match edit.verb % 14 {
            0 => self.put(near, &value.to_le_bytes()),
            1 => self.put(at + 8 + field, &[value as u8]),
            2 => {
                let sum = word(&self.bytes, near).wrapping_add(value);
                self.put(near, &sum.to_le_bytes());
            }
            3 => {
                let from = other + 8 + (value >> 16) as usize % 40 * 4;
                let copied = word(&self.bytes, from);
                self.put(near, &copied.to_le_bytes());
            }
            4 => self.copy(other, at),
            5 => return self.append(at, value, edit.field),
            6 => {
                let end = (at / LEB + 1) * LEB;
                return self.bytes[at + field.min(end - at)..end].fill(value as u8);
            }
            7 => return self.bytes[value as usize % BYTES] ^= 1 << (field % 8),
            8 => return self.put(place * 8 % BYTES, &value.to_le_bytes()),
            9 => return self.move_block(place, value as usize),
            10 => return self.property(place, edit.field, value),
            11 => return self.masters(field, value),
            12 => self.put(at + 20, &[value as u8 % 14, field as u8 % 4]),
            _ => {
                let from = at + HEAD.max(field);
                let to = at + self.len(at);
                if from < to {
                    self.bytes[from..to].fill(value as u8);
                }
            }
        }
        if edit.field & 0x80 == 0 {
            self.repair(at);
        }
    }

    fn copy(&mut self, from: usize, to: usize) {
        let len = self.len(from).min(LEB - to % LEB);
        self.bytes.copy_within(from..from + len, to);
    }

    /// A copy of a node behind the last one of a block, with another number.
    fn append(&mut self, from: usize, value: u32, field: u8) {
        let start = value as usize % LEBS * LEB;
        let block = &self.bytes[start..start + LEB];
        let used = block.iter().rposition(|byte| *byte != 0xFF);
        let used = used.map_or(0, |last| last + 1);
        let to = start + used.next_multiple_of(8);
        let len = self.len(from);
        if to + len > start + LEB {
            return;
        }
        self.bytes.copy_within(from..from + len, to);
        let number = word(&self.bytes, to + 8).wrapping_add(value >> 8);
        self.put(to + 8, &number.to_le_bytes());
        if field & 0x80 == 0 {
            self.repair(to);
        }
    }

    /// A block as another one, erased, or zeros.
    fn move_block(&mut self, to: usize, from: usize) {
        let to = to % LEBS * LEB;
        match from % (LEBS + 2) {
            LEBS => self.bytes[to..to + LEB].fill(0xFF),
            from if from > LEBS => self.bytes[to..to + LEB].fill(0),
            from => self.bytes.copy_within(from * LEB..(from + 1) * LEB, to),
        }
    }

    /// Changes a byte of the properties tree.
    fn property(&mut self, place: usize, field: u8, value: u32) {
        let all = &self.seed.properties;
        let node = all[place % all.len()].clone();
        let at = node.start + 2 + (value >> 8) as usize % (node.len() - 2);
        self.bytes[at] = value as u8;
        if field & 0x80 == 0 {
            let sum = crc16(&self.bytes[node.start + 2..node.end]);
            self.put(node.start, &sum.to_le_bytes());
        }
    }

    /// Changes a word of all master nodes: a mount compares the two of the last pair.
    fn masters(&mut self, field: usize, value: u32) {
        let nodes = self.seed.nodes.iter().copied();
        for at in nodes.filter(|at| MASTERS.contains(at)) {
            self.put(at + HEAD + field % 36 * 4, &value.to_le_bytes());
            self.repair(at);
        }
    }

    fn repair(&mut self, at: usize) {
        let end = at + self.len(at);
        let Some(covered) = self.bytes.get(at + 8..end) else {
            return;
        };
        let sum = crc(covered);
        self.put(at + 4, &sum.to_le_bytes());
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    u32::from_le_bytes(word.unwrap_or_default())
}

fn crc(bytes: &[u8]) -> u32 {
    !crc32fast::hash(bytes)
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xFFFF, |sum, byte| {
        (0..8).fold(sum ^ u16::from(*byte), |sum, _| match sum & 1 {
            0 => sum >> 1,
            _ => sum >> 1 ^ 0xA001,
        })
    })
}
